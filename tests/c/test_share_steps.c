/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a reader of a shared queue leaves to others when it dies between any two steps, before they have waited for
 * anything.  Which reader gets which message, whichever of them is killed or stopped, is tried in the crash grid
 * (crash/crash_cases.h).
 *
 *      test_share_steps                  at every BUSQ_STEP
 *      test_share_steps --every-access   at every access of shared memory
 *
 * A child takes all that stands in "jobs"; at its n-th step it ends without another instruction, for n = 1, 2, 3 and so
 * on until it comes through.  Then
 *
 *   - another reader can have all that is left at once;
 *   - while that reads nothing, there is room for as many messages as the queue holds, less those that are left in it;
 *   - its place can be had, and no memory is lost;
 *   - a queue whose only reader it was shows no message that is done with, though none is there to move its head.
 */
#include "harness/strike.h"

#define PEERS 6
#define CAPACITY 16
#define ARENA_BYTES (1 << 18)
#define LETTERS 4
#define LOOKS 16 /* each that finds nothing, or no room, is a step of the burial of a dead reader */

typedef struct {
  strike_words common;
  uint32_t n_given; /* to the child */
} last_words;

typedef struct {
  const char *name;
  busq_take mode;
  bool fills;
} script;

static last_words *words;

static busq_peer *join_jobs(uint32_t flags)
{
  busq_peer *peer = join_as("jobs", BUSQ_JOIN_SHARED | flags);
  busq_peer_set_spin(peer, 0, 0);
  return peer;
}

static void receives(busq_peer *victim, busq_take mode)
{
  int result;
  do {
    busq_message message;
    CHECK_EQUAL(busq_peer_receive_begin(victim), BUSQ_OK);
    result = busq_peer_receive_peek(victim, &message);
    if (result == BUSQ_OK) {
      busq_peer_receive_take(victim, mode);
      words->n_given++;
    }
    busq_peer_receive_end(victim);
    if (result == BUSQ_OK && mode == BUSQ_TAKE_PINNED)
      busq_peer_release(victim, &message);
  } while (result == BUSQ_OK);
  CHECK_EQUAL(result, BUSQ_EMPTY);
}

/* How many letters it can take without waiting. */
static uint32_t takes_at_once(busq_peer *reader)
{
  busq_message message;
  uint32_t n_letters = 0;
  for (int look = 0; look < LOOKS; look++)
    while (take_now(reader, &message) == BUSQ_OK) {
      n_letters += *(const char *)message.data == 'x';
      busq_peer_release(reader, &message);
    }
  return n_letters;
}

/* And how many after it has waited, which is when it looks for the dead. */
static uint32_t takes_later(busq_peer *reader)
{
  uint32_t n_letters = 0;
  for (int turn = 0; turn < 3; turn++) {
    (void)busq_peer_wait(reader, 1000000);
    n_letters += takes_at_once(reader);
  }
  return n_letters;
}

static uint32_t fill(busq_peer *from)
{
  uint32_t count = 0;
  for (int look = 0; look < LOOKS; look++) {
    int result;
    while ((result = say(from, "jobs", "f")) == BUSQ_OK)
      count++;
    CHECK_EQUAL(result, BUSQ_FULL);
  }
  return count;
}

/* ---- one of two readers ---- */

static void victim_body(void *argument)
{
  const strike_task *self = argument;
  arrive();
  busq_peer *victim = join_jobs(0);
  tell(&words->common.is_ready);
  wait_for(&words->common.may_go_on, 1);
  strike_begin(self->steps, false, words->common.struck_at);
  receives(victim, ((const script *)self->script)->mode);
  strike_end();
  words->common.has_survived = 1;
}

/* True if the victim came through. */
static bool die(const void *argument, uint64_t steps, bool stops)
{
  const script *s = argument;
  memset(words, 0, sizeof *words);
  meet(PEERS, CAPACITY, ARENA_BYTES);
  busq_peer *alice = join("alice"), *carol = join("carol"), *one = join_jobs(0);
  check_test = s->name;
  const pid_t pid = in_a_child(victim_body, &(strike_task){s, steps, stops});
  wait_for(&words->common.is_ready, 1);
  CHECK_EQUAL(takes_at_once(one), 0); /* it has just looked for the dead, and does not again for a while */
  for (int i = 0; i < LETTERS; i++)
    said(alice, i % 2 ? "jobs carol" : "jobs", "x");
  tell(&words->common.may_go_on);
  (void)strike_await(pid, s->name, steps, stops, words->common.struck_at);
  const uint32_t n_filled = s->fills ? fill(alice) : 0, n_at_once = takes_at_once(one), n_later = takes_later(one);
  if (s->fills)
    CHECK_EQUAL(n_filled + n_at_once + n_later, CAPACITY);
  else
    CHECK_EQUAL(n_later, 0);
  const uint32_t n_found = words->n_given + n_at_once + n_later;
  CHECK(n_found <= LETTERS && n_found >= LETTERS - !words->common.has_survived); /* one was just being taken */
  hears(carol, "x x");
  all_places_are_free(PEERS - 4); /* but those of alice, carol, the queue and its reader */
  leave(one);
  all_places_are_free(PEERS - 2);
  leave(alice);
  leave(carol);
  CHECK_EQUAL(used_bytes(), 0);
  part();
  return words->common.has_survived;
}

/* ---- the only one ---- */

#define ALONE (BUSQ_JOIN_DURABLE | BUSQ_JOIN_RESUME)

static void only_reader_body(void *argument)
{
  const strike_task *self = argument;
  arrive();
  busq_peer *victim = join_jobs(ALONE);
  strike_begin(self->steps, self->stops, words->common.struck_at);
  receives(victim, BUSQ_TAKE_COPIED);
  strike_end();
  words->common.has_survived = 1;
  CHECK_EQUAL(busq_peer_close(victim), BUSQ_OK);
}

static bool strike_alone(const void *argument, uint64_t steps, bool stops)
{
  uint64_t target, depth, n_dropped;
  (void)argument;
  memset(words, 0, sizeof *words);
  meet(PEERS, CAPACITY, ARENA_BYTES);
  busq_peer *alice = join("alice");
  leave(join_jobs(ALONE));
  for (int i = 0; i < LETTERS; i++)
    said(alice, "jobs", "x");
  const pid_t pid = in_a_child(only_reader_body, &(strike_task){NULL, steps, stops});
  if (strike_await(pid, "receiving alone", steps, stops, words->common.struck_at))
    strike_go_on(pid);
  CHECK_EQUAL(busq_bus_collect(company_bus, &n_dropped), BUSQ_OK);
  CHECK_EQUAL(look_up(alice, "jobs", &target), 1);
  CHECK_EQUAL(busq_bus_depth(company_bus, target, &depth), BUSQ_OK);
  busq_peer *behind = join_jobs(ALONE);
  CHECK_EQUAL(depth, takes_at_once(behind) + takes_later(behind));
  leave(behind);
  leave(alice);
  part();
  return words->common.has_survived && !words->common.struck_at[0];
}

int main(int n_arguments, char **arguments)
{
  strike_options(n_arguments, arguments);
  busq_step_looks = 2; /* a burial takes many steps, and the process that takes the first may be dead before the last */
  const script scripts[] = {
      {.name = "receiving", .mode = BUSQ_TAKE_COPIED},
      {.name = "receiving, in place", .mode = BUSQ_TAKE_PINNED},
      {.name = "receiving what would be in the way", .mode = BUSQ_TAKE_COPIED, .fills = true},
  };
  words = shared_memory(sizeof *words);
  for (unsigned i = 0; i < sizeof scripts / sizeof scripts[0]; i++)
    strike_tell_deaths(scripts[i].name, die, &scripts[i]);
  strike_tell("receiving alone", strike_alone, NULL);
  return 0;
}
