/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Death, and being stopped, between any two steps of a process that ends a queue for all.
 *
 *      test_end_steps                  at every BUSQ_STEP
 *      test_end_steps --every-access   at every access of shared memory: some seconds
 *
 * The queue "jobs" has a reader of the parent, which reads nothing so far, and either a reader that waits for messages, or a
 * sender that waits for room.  A child follows a script; at its n-th step it ends without another instruction, or stops, for
 * n = 1, 2, 3 and so on until it comes through.  Then, and while it is stopped,
 *
 *   - the queue has ended for all or for none: sends are refused where a look at the queue finds its end, and only there;
 *   - it has ended for good, where the child knows that it has;
 *   - where it has ended, the one that waits comes to the end, whatever the child has left undone;
 *   - where it was not dropped, each message that was let in has come once, and then comes the end;
 *   - a reader that joins behind the end finds it, and no memory is lost.
 */
#include "harness/strike.h"

#define PEERS 8
#define CAPACITY 4
#define ARENA_BYTES (1 << 18)
#define NUMBERS 16
#define FIRST 2  /* sent by the child from here on */
#define BEHIND 4 /* sent by the child behind the end */
#define MORE 5   /* sent by the parent from here on */

typedef struct {
  strike_words common;
  uint32_t has_ended; /* the child has come back from ending it */
  uint32_t let_in[NUMBERS];
  uint32_t got[NUMBERS];
} last_words;

typedef struct {
  const char *name;
  void (*act)(busq_peer *victim, uint64_t jobs);
  busq_queue_end comes_to;
  bool is_full; /* and a sender waits for room */
} script;

static last_words *words;

static busq_peer *join_jobs(void)
{
  busq_peer *peer = join_as("jobs", BUSQ_JOIN_SHARED);
  busq_peer_set_spin(peer, 0, 0);
  return peer;
}

static uint64_t jobs_of(busq_peer *peer)
{
  uint64_t target;
  CHECK_EQUAL(look_up(peer, "jobs", &target), 1);
  return target;
}

static int send_number(busq_peer *from, uint64_t jobs, uint32_t number)
{
  const char text = (char)('a' + number);
  const int result = say_patiently(from, &jobs, 1, &text, 1);
  words->let_in[number] += result == BUSQ_OK;
  return result;
}

/* Up to the end of the queue. */
static void read_all(busq_peer *reader)
{
  busq_message message;
  int result;
  while ((result = take_patiently(reader, &message)) == BUSQ_OK) {
    words->got[*(const char *)message.data - 'a']++;
    busq_peer_release(reader, &message);
  }
  CHECK_EQUAL(result, BUSQ_SHUTDOWN);
}

/* ---- the scripts ---- */

static void end_jobs(uint64_t jobs, bool drops)
{
  CHECK_EQUAL(busq_bus_end_queue(company_bus, jobs, drops), BUSQ_OK);
  words->has_ended = 1;
}

static void act_end(busq_peer *victim, uint64_t jobs)
{
  (void)victim;
  end_jobs(jobs, false);
  end_jobs(jobs, false);
}

static void act_drop(busq_peer *victim, uint64_t jobs)
{
  (void)victim;
  end_jobs(jobs, true);
  end_jobs(jobs, false);
}

static void act_end_and_drop(busq_peer *victim, uint64_t jobs)
{
  (void)victim;
  end_jobs(jobs, false);
  end_jobs(jobs, true);
}

static void act_send_and_end(busq_peer *victim, uint64_t jobs)
{
  CHECK_EQUAL(send_number(victim, jobs, FIRST), BUSQ_OK);
  CHECK_EQUAL(send_number(victim, jobs, FIRST + 1), BUSQ_OK);
  end_jobs(jobs, false);
  CHECK_EQUAL(send_number(victim, jobs, FIRST), BUSQ_SHUTDOWN);
}

static void act_send_behind(busq_peer *victim, uint64_t jobs)
{
  end_jobs(jobs, false);
  busq_peer_send_behind(victim);
  CHECK_EQUAL(send_number(victim, jobs, BEHIND), BUSQ_OK);
}

/* ---- one run ---- */

static void victim_body(void *argument)
{
  const strike_task *self = argument;
  const script *s = self->script;
  arrive();
  busq_peer *victim = join("victim");
  const uint64_t jobs = jobs_of(victim);
  tell(&words->common.is_ready);
  wait_for(&words->common.may_go_on, 1);
  strike_begin(self->steps, self->stops, words->common.struck_at);
  s->act(victim, jobs);
  strike_end();
  words->common.has_survived = 1;
}

static void reader_body(void *argument)
{
  (void)argument;
  arrive();
  busq_peer *reader = join_jobs();
  read_all(reader);
  CHECK_EQUAL(busq_peer_close(reader), BUSQ_OK);
}

/* There is never room. */
static void sender_body(void *argument)
{
  (void)argument;
  arrive();
  busq_peer *sender = join("sender");
  CHECK_EQUAL(send_number(sender, jobs_of(sender), NUMBERS - 1), BUSQ_SHUTDOWN);
  CHECK_EQUAL(busq_peer_close(sender), BUSQ_OK);
}

static void fill(busq_peer *alice, uint64_t jobs)
{
  for (uint32_t i = 0; i < CAPACITY; i++)
    CHECK_EQUAL(send_number(alice, jobs, MORE + i), BUSQ_OK);
  CHECK_EQUAL(busq_peer_send(alice, &jobs, 1, "z", 1, 0), BUSQ_FULL);
}

/* True where it has ended: all see it alike. */
static bool has_ended(busq_peer *alice, uint64_t jobs, bool is_full)
{
  busq_queue_end end;
  CHECK_EQUAL(busq_bus_queue_end(company_bus, jobs, &end), BUSQ_OK);
  CHECK_EQUAL(busq_peer_queue_end(alice, jobs), end);
  CHECK(end != BUSQ_QUEUE_OPEN || !words->has_ended);
  const int result = is_full ? busq_peer_send(alice, &jobs, 1, "z", 1, 0) : send_number(alice, jobs, MORE);
  CHECK_EQUAL(result, end != BUSQ_QUEUE_OPEN ? BUSQ_SHUTDOWN : is_full ? BUSQ_FULL : BUSQ_OK);
  return end != BUSQ_QUEUE_OPEN;
}

static void judge(const script *s, busq_peer *one, busq_peer *alice, uint64_t jobs)
{
  busq_queue_end end;
  read_all(one);
  CHECK_EQUAL(busq_bus_queue_end(company_bus, jobs, &end), BUSQ_OK);
  if (words->common.has_survived)
    CHECK_EQUAL(end, s->comes_to);
  for (uint32_t i = 0; i < NUMBERS; i++) {
    const bool is_the_victims = i >= FIRST && i <= BEHIND;
    CHECK(words->got[i] <= words->let_in[i] || (is_the_victims && words->got[i] == 1));
    if (end == BUSQ_QUEUE_ENDED)
      CHECK(words->got[i] >= words->let_in[i]);
  }
  busq_peer *late = join_jobs();
  read_all(late);
  CHECK(busq_peer_send(alice, &jobs, 1, "z", 1, 0) == BUSQ_SHUTDOWN);
  leave(late);
}

static void all_leave(busq_peer *one, busq_peer *alice)
{
  uint64_t n_dropped;
  leave(one);
  all_places_are_free(PEERS - 1); /* but alice's */
  leave(alice);
  CHECK_EQUAL(busq_bus_collect(company_bus, &n_dropped), BUSQ_OK);
  CHECK_EQUAL(used_bytes(), 0);
  part();
}

/* True if the victim came through. */
static bool strike_once(const void *argument, uint64_t steps, bool stops)
{
  const script *s = argument;
  memset(words, 0, sizeof *words);
  meet(PEERS, CAPACITY, ARENA_BYTES);
  busq_peer *alice = join("alice"), *one = join_jobs();
  const uint64_t jobs = jobs_of(alice);
  check_test = s->name;
  const pid_t pid = in_a_child(victim_body, &(strike_task){s, steps, stops});
  wait_for(&words->common.is_ready, 1);
  if (s->is_full)
    fill(alice, jobs);
  const pid_t waiting = in_a_child(s->is_full ? sender_body : reader_body, NULL);
  tell(&words->common.may_go_on);
  const bool is_stopped = strike_await(pid, s->name, steps, stops, words->common.struck_at);
  const bool is_over = has_ended(alice, jobs, s->is_full);
  if (is_over)
    ends_well(waiting);
  if (is_stopped)
    strike_go_on(pid);
  if (!stops && !is_over)
    CHECK_EQUAL(busq_bus_end_queue(company_bus, jobs, s->comes_to == BUSQ_QUEUE_DROPPED), BUSQ_OK);
  if (!is_over)
    ends_well(waiting);
  judge(s, one, alice, jobs);
  all_leave(one, alice);
  return words->common.has_survived && !words->common.struck_at[0];
}

int main(int n_arguments, char **arguments)
{
  strike_options(n_arguments, arguments);
  const script scripts[] = {
      {.name = "ending", .act = act_end, .comes_to = BUSQ_QUEUE_ENDED},
      {.name = "dropping", .act = act_drop, .comes_to = BUSQ_QUEUE_DROPPED},
      {.name = "dropping what has ended", .act = act_end_and_drop, .comes_to = BUSQ_QUEUE_DROPPED},
      {.name = "sending and ending", .act = act_send_and_end, .comes_to = BUSQ_QUEUE_ENDED},
      {.name = "sending behind the end", .act = act_send_behind, .comes_to = BUSQ_QUEUE_ENDED},
      {.name = "ending a full queue", .act = act_end, .comes_to = BUSQ_QUEUE_ENDED, .is_full = true},
      {.name = "dropping a full queue", .act = act_drop, .comes_to = BUSQ_QUEUE_DROPPED, .is_full = true},
  };
  words = shared_memory(sizeof *words);
  for (unsigned i = 0; i < sizeof scripts / sizeof scripts[0]; i++)
    strike_tell(scripts[i].name, strike_once, &scripts[i]);
  return 0;
}
