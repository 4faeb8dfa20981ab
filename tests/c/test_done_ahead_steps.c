/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is done ahead is counted exactly, whichever process ends or stops while it counts.
 *
 * A child counts beside its parent, and ends without another instruction, or stops, at its n-th BUSQ_STEP.  A kill leaves
 * the count as it was or as it was to be; a process that was stopped meanwhile finds that others have counted, also
 * where the number is the same again.
 */
#include "harness/strike.h"
#include <sys/wait.h>

typedef struct {
  strike_words strike;
  uint64_t target;
  uint32_t least, most; /* of what the child has counted: they differ while it does so */
  uint32_t n_lost;      /* swaps, to others that were faster */
  uint32_t is_through;
} ahead_words;

static ahead_words *words;

static uint32_t counted(void)
{
  return (uint32_t)busq_bus_ahead(company_bus, words->target);
}

/* How many swaps it took. */
static uint32_t count(uint32_t change)
{
  uint32_t n_swaps = 1;
  for (;; n_swaps++) {
    const uint64_t seen = busq_bus_ahead(company_bus, words->target);
    if (busq_bus_swap_ahead(company_bus, words->target, seen, (uint32_t)seen + change))
      return n_swaps;
  }
}

static void child_counts_one_more(void)
{
  words->most++;
  words->n_lost += count(1) - 1;
  words->least++;
}

static void child_counts_one_less(void)
{
  words->least--;
  words->n_lost += count(UINT32_MAX) - 1;
  words->most--;
}

static void body(void *argument)
{
  const strike_task *self = argument;
  arrive();
  strike_begin(self->steps, self->stops, words->strike.struck_at);
  child_counts_one_more();
  child_counts_one_more();
  child_counts_one_less();
  child_counts_one_more();
  strike_end();
  words->strike.has_survived = !words->strike.struck_at[0];
  tell(&words->is_through);
}

static bool once(const void *script, uint64_t steps, bool stops)
{
  siginfo_t found = {0};
  (void)script;
  memset(words, 0, sizeof *words);
  meet(2, 4, 1 << 16);
  busq_peer *parent = join("jobs");
  CHECK_EQUAL(look_up(parent, "jobs", &words->target), 1);
  count(2);
  const pid_t pid = in_a_child(body, &(strike_task){NULL, steps, stops});
  CHECK(waitid(P_PID, (id_t)pid, &found, WSTOPPED | WEXITED | WNOWAIT) == 0);
  CHECK(counted() >= 2 + words->least && counted() <= 2 + words->most);
  count(1);
  count(UINT32_MAX);
  if (found.si_code == CLD_STOPPED) {
    CHECK_EQUAL(words->n_lost, 0);
    CHECK(kill(pid, SIGCONT) == 0);
    wait_for(&words->is_through, 1);
    CHECK(words->n_lost == 1 || strcmp(words->strike.struck_at, "ahead") != 0);
  }
  ends_well(pid);
  CHECK(counted() >= 2 + words->least && counted() <= 2 + words->most);
  CHECK(words->least == words->most || !words->is_through);
  const bool has_survived = words->strike.has_survived;
  leave(parent);
  parent = join("jobs");
  CHECK_EQUAL(look_up(parent, "jobs", &words->target), 1);
  CHECK_EQUAL(counted(), 0); /* it goes with its queue */
  leave(parent);
  part();
  return has_survived;
}

int main(int n_arguments, char **arguments)
{
  strike_options(n_arguments, arguments);
  words = shared_memory(sizeof *words);
  strike_tell("counting what is done ahead", once, NULL);
  return 0;
}
