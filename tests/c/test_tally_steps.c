/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What processes keep for a queue without room is counted exactly, whichever of them ends or stops at any step.
 *
 * A child adds and settles beside its parent, and ends without another instruction, or stops, at its n-th BUSQ_STEP.
 * Then the parent adds as much as it can: both together never have more than the bound, and what a dead one had is free.
 */
#include "harness/strike.h"
#include "shm/memory/peer.h"
#include <sched.h>
#include <sys/wait.h>

#define KEY UINT64_C(77)
#define BOUND 3u

typedef struct {
  strike_words strike;
  uint32_t kept; /* what the child was let in with */
  uint32_t is_through;
} tally_words;

static tally_words *words;

static bool adds(busq_peer *peer)
{
  const int result = busq_peer_tally_add(peer, KEY, BOUND);
  CHECK(result == BUSQ_OK || result == BUSQ_FULL);
  return result == BUSQ_OK;
}

static void child_adds(busq_peer *peer)
{
  words->kept += adds(peer);
}

static void child_settles(busq_peer *peer)
{
  if (!words->kept)
    return;
  words->kept--; /* first: the parent may have what is given back before this one goes on */
  busq_peer_tally_settle(peer);
}

static void body(void *argument)
{
  const strike_task *self = argument;
  arrive();
  busq_peer *peer = join("child");
  strike_begin(self->steps, self->stops, words->strike.struck_at);
  child_adds(peer);
  child_adds(peer);
  child_adds(peer);
  child_settles(peer);
  child_adds(peer);
  strike_end();
  words->strike.has_survived = !words->strike.struck_at[0];
  tell(&words->is_through);
  wait_for(&words->strike.may_go_on, 1);
}

static uint32_t adds_all(busq_peer *peer)
{
  uint32_t n = 0;
  while (n <= BOUND && adds(peer))
    n++;
  return n;
}

/* Until it has stopped, ended, or come through. */
static bool has_stopped_in_the_end(pid_t pid)
{
  siginfo_t found = {0};
  do {
    CHECK(waitid(P_PID, (id_t)pid, &found, WNOHANG | WSTOPPED | WEXITED | WNOWAIT) == 0);
    sched_yield();
  } while (!found.si_pid && !__atomic_load_n(&words->is_through, __ATOMIC_ACQUIRE));
  return found.si_pid && found.si_code == CLD_STOPPED;
}

static bool once(const void *script, uint64_t steps, bool stops)
{
  (void)script;
  memset(words, 0, sizeof *words);
  meet(4, 4, 1 << 16);
  busq_peer *parent = join("parent");
  CHECK(adds(parent));
  uint32_t own = 1;
  const pid_t pid = in_a_child(body, &(strike_task){NULL, steps, stops});
  const bool has_stopped = has_stopped_in_the_end(pid), is_alive = has_stopped || words->is_through;
  if (!is_alive)
    ends_well(pid);
  own += adds_all(parent);
  CHECK(is_alive ? own + words->kept <= BOUND : own == BOUND); /* what a dead one had is free */
  if (has_stopped) {
    CHECK(kill(pid, SIGCONT) == 0);
    wait_for(&words->is_through, 1);
  }
  if (is_alive) {
    CHECK_EQUAL(busq_bus_tally(company_bus, KEY), own + words->kept);
    CHECK(own + words->kept <= BOUND);
    tell(&words->strike.may_go_on);
    ends_well(pid);
    own += adds_all(parent);
  }
  CHECK_EQUAL(own, BOUND);
  CHECK_EQUAL(busq_bus_tally(company_bus, KEY), BOUND);
  const bool has_survived = words->strike.has_survived;
  while (own--)
    busq_peer_tally_settle(parent);
  leave(parent);
  part();
  return has_survived;
}

int main(int n_arguments, char **arguments)
{
  strike_options(n_arguments, arguments);
  words = shared_memory(sizeof *words);
  strike_tell("adding and settling beside another process", once, NULL);
  return 0;
}
