/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Death, and being stopped, between any two steps of one of two readers of a queue.
 *
 *      test_share_steps                  at every BUSQ_STEP
 *      test_share_steps --every-access   at every access of shared memory: some minutes
 *
 * A child joins "jobs" beside a reader of the parent and follows a script.  At its n-th BUSQ_STEP it ends without
 * another instruction, or stops, for n = 1, 2, 3 and so on until it comes through.  After every death the other reader
 * must find
 *
 *   - what the child had not been given, and, in scripts that acknowledge, what it had not acknowledged; each of them
 *     once;
 *   - nothing that the child had been given for good, or had acknowledged;
 *   - what the child had only reached for without waiting for it;
 *   - a queue that comes to its end, slots that come free, and no memory lost.
 * And before that, while the other one reads nothing, there must be room for as many messages as the queue holds, less
 * those that are left in it. While it is stopped, the other one must get every message that is sent from then on; and
 * when it has gone on, nothing is missing or doubled.
 */
#include "harness/strike.h"

#define PEERS 6
#define CAPACITY 16
#define ARENA_BYTES (1 << 18)
#define LETTERS 4
#define MORE 8 /* sent while it is stopped */
#define FILLER (LETTERS + MORE - 1)
#define LARGE_BYTES 20000

/* What the child notes before it dies. */
typedef struct {
  uint32_t is_ready;
  uint32_t may_go_on;
  uint32_t has_survived;
  uint32_t given[LETTERS + MORE]; /* to the child, by recv */
  uint32_t begun[LETTERS + MORE]; /* to be given up: acknowledged, released, given back */
  uint32_t ended[LETTERS + MORE];
  char struck_at[STRIKE_WHERE_BYTES];
} last_words;

typedef enum { COPIED, PINNED, OFFERED } taking;

typedef struct {
  const char *name;
  void (*act)(busq_peer *victim);
  taking mode;
  bool is_first;  /* there is no other reader when it joins, with deadly steps */
  bool joins;     /* with deadly steps */
  bool buries;    /* another reader has died with messages in its hands */
  bool is_large;
  bool is_closed; /* it leaves what it had to acknowledge */
  bool fills;     /* what it leaves stands in the queue alone */
} script;

static last_words *words;
static const script *script_now;
static bool is_struck_to_stop;
static char large[LARGE_BYTES];

static busq_peer *join_jobs(void)
{
  busq_peer *peer;
  const int result = busq_peer_join_as(company_bus, "jobs", 4, BUSQ_JOIN_SHARED, &peer);
  if (result != BUSQ_OK)
    check_fail(__FILE__, __LINE__, "can't join: %d, %s", result, busq_error_text());
  busq_peer_set_spin(peer, 0, 0);
  return peer;
}

/* The first byte is the number. */
static void send_number(busq_peer *from, uint32_t number, bool is_multicast, size_t size_bytes)
{
  uint64_t targets[2];
  large[0] = (char)('a' + number);
  const int count = look_up(from, is_multicast ? "jobs carol" : "jobs", targets);
  CHECK(count > 0);
  const int result = busq_peer_send(from, targets, (uint32_t)count, large, size_bytes, 0);
  if (result != BUSQ_OK)
    check_fail(__FILE__, __LINE__, "can't send %u: %d, %s", number, result, busq_error_text());
}

static uint32_t number_of(const busq_message *message)
{
  const uint32_t number = (uint32_t)(*(const char *)message->data - 'a');
  CHECK(number < LETTERS + MORE);
  return number;
}

/* ---- the scripts ---- */

static bool take(busq_peer *peer, busq_message *message, uint32_t *number)
{
  const taking mode = script_now->mode;
  CHECK_EQUAL(busq_peer_receive_begin(peer), BUSQ_OK);
  const int result = busq_peer_receive_peek(peer, message);
  if (result == BUSQ_OK) {
    *number = number_of(message);
    busq_peer_receive_take(peer, mode == COPIED ? BUSQ_TAKE_COPIED : mode == PINNED ? BUSQ_TAKE_PINNED : BUSQ_TAKE_OFFERED);
    words->given[*number]++;
  }
  busq_peer_receive_end(peer);
  CHECK(result == BUSQ_OK || result == BUSQ_EMPTY);
  return result == BUSQ_OK;
}

static void end(busq_peer *peer, const busq_message *message, uint32_t number)
{
  words->begun[number]++;
  if (script_now->mode == OFFERED)
    CHECK_EQUAL(busq_peer_ack(peer, message), BUSQ_OK);
  else if (script_now->mode == PINNED)
    busq_peer_release(peer, message);
  words->ended[number]++;
}

static void act_receive(busq_peer *victim)
{
  busq_message message;
  uint32_t number;
  while (take(victim, &message, &number))
    end(victim, &message, number);
}

static void act_hold_two(busq_peer *victim)
{
  busq_message messages[2];
  uint32_t numbers[2];
  if (!take(victim, &messages[0], &numbers[0]) || !take(victim, &messages[1], &numbers[1]))
    return;
  end(victim, &messages[1], numbers[1]);
  end(victim, &messages[0], numbers[0]);
}

static void act_close_holding(busq_peer *victim)
{
  busq_message messages[2];
  uint32_t numbers[2];
  const bool first = take(victim, &messages[0], &numbers[0]), second = take(victim, &messages[1], &numbers[1]);
  CHECK_EQUAL(busq_peer_close(victim), BUSQ_OK);
  if (script_now->mode != PINNED)
    return;
  if (first)
    end(victim, &messages[0], numbers[0]);
  if (second)
    end(victim, &messages[1], numbers[1]);
}

static void act_give_back(busq_peer *victim)
{
  busq_message message;
  uint32_t number;
  if (!take(victim, &message, &number))
    return;
  words->begun[number]++;
  CHECK_EQUAL(busq_peer_give_back(victim, script_now->mode == PINNED ? BUSQ_TAKE_PINNED : BUSQ_TAKE_OFFERED, &message), BUSQ_OK);
  words->begun[number]--;
  words->given[number]--;
}

static void act_give_back_and_take(busq_peer *victim)
{
  act_give_back(victim);
  act_receive(victim);
}

/* Looked at, and not taken. */
static void act_peek(busq_peer *victim)
{
  busq_message message;
  CHECK_EQUAL(busq_peer_receive_begin(victim), BUSQ_OK);
  const int result = busq_peer_receive_peek(victim, &message);
  CHECK(result == BUSQ_OK || result == BUSQ_EMPTY);
  busq_peer_receive_end(victim);
}

/* Long enough to look for the dead. */
static void act_wait(busq_peer *victim)
{
  act_receive(victim);
  (void)busq_peer_wait(victim, 1000000);
  act_receive(victim);
}

static void act_nothing(busq_peer *victim)
{
  (void)victim;
}

/* ---- one death ---- */

/* Takes two to acknowledge them, and dies; and one just to look at it. */
static void prior_body(void *argument)
{
  (void)argument;
  arrive();
  busq_peer *prior = join_jobs();
  busq_message messages[2];
  uint32_t count;
  CHECK_EQUAL(busq_peer_recv_as(prior, BUSQ_TAKE_OFFERED, messages, 2, &count, 0), BUSQ_OK);
  CHECK_EQUAL(busq_peer_receive_begin(prior), BUSQ_OK);
  CHECK_EQUAL(busq_peer_receive_peek(prior, messages), BUSQ_OK);
}

static void victim_body(void *argument)
{
  arrive();
  tell(&words->is_ready);
  wait_for(&words->may_go_on, 1);
  if (script_now->joins)
    strike_begin(*(const uint64_t *)argument, is_struck_to_stop, words->struck_at);
  busq_peer *victim = join_jobs();
  if (!script_now->joins)
    strike_begin(*(const uint64_t *)argument, is_struck_to_stop, words->struck_at);
  script_now->act(victim);
  strike_end();
  words->has_survived = 1;
  if (is_struck_to_stop && !script_now->is_closed)
    CHECK_EQUAL(busq_peer_close(victim), BUSQ_OK);
}

static char scene[160];
static uint32_t n_got[LETTERS + MORE];

/* Receives all that comes; looks for the dead, as a waiting peer does. */
static void drain(busq_peer *one)
{
  for (int quiet = 0; quiet < 3;) {
    busq_message message;
    uint32_t count;
    const int result = busq_peer_recv(one, &message, 1, &count, 1000000);
    CHECK(result == BUSQ_OK || result == BUSQ_EMPTY || result == BUSQ_INTERRUPTED);
    if (result != BUSQ_OK) {
      quiet++;
      continue;
    }
    n_got[number_of(&message)]++;
    busq_peer_release(one, &message);
  }
}

/* Receives what can be had without waiting.  Where it finds nothing, it is a step of the burial of a dead reader that
 * had reached for something. */
static void drain_at_once(busq_peer *one)
{
  enum { LOOKS = 16 };
  busq_message message;
  for (int look = 0; look < LOOKS; look++)
    while (take_now(one, &message) == BUSQ_OK) {
      n_got[number_of(&message)]++;
      busq_peer_release(one, &message);
    }
}

/* All that is left can be had so. */
static void drain_without_waiting(busq_peer *one)
{
  uint32_t n_got_at_once[LETTERS + MORE];
  drain_at_once(one);
  memcpy(n_got_at_once, n_got, sizeof n_got);
  drain(one);
  CHECK(!memcmp(n_got_at_once, n_got, sizeof n_got));
}

static void judge(uint32_t n_sent, bool is_stopped)
{
  for (uint32_t i = 0; i < n_sent; i++) {
    const uint32_t n_given = words->given[i];
    const bool may_be_gone = script_now->mode == OFFERED ? words->begun[i] > 0 : true;
    CHECK(n_got[i] <= 1 && n_given <= 1);
    if (is_stopped && script_now->mode != OFFERED)
      CHECK_EQUAL(n_got[i] + n_given, 1);
    else if (script_now->mode == OFFERED && words->ended[i])
      CHECK_EQUAL(n_got[i], 0);
    else if (script_now->mode == OFFERED && !may_be_gone)
      CHECK_EQUAL(n_got[i], 1);
    else if (script_now->mode != OFFERED && n_given && script_now->act != act_give_back && script_now->act != act_give_back_and_take)
      CHECK_EQUAL(n_got[i], 0);
  }
  /* Without acknowledgements one may be lost: that which was just being taken. */
  uint32_t n_missing = 0;
  for (uint32_t i = 0; i < n_sent; i++)
    n_missing += !n_got[i] && !words->given[i];
  CHECK(n_missing <= (script_now->mode == OFFERED || is_stopped ? 0u : 1u));
}

/* How many more there is room for.  A sender that finds none looks for dead readers, and each look is a step of
 * their burial. */
static uint32_t fill(busq_peer *from)
{
  enum { LOOKS = 16 };
  uint64_t target;
  uint32_t count = 0;
  CHECK_EQUAL(look_up(from, "jobs", &target), 1);
  large[0] = (char)('a' + FILLER);
  for (int look = 0; look < LOOKS; look++) {
    int result;
    while ((result = busq_peer_send(from, &target, 1, large, 1, 0)) == BUSQ_OK)
      count++;
    CHECK_EQUAL(result, BUSQ_FULL);
  }
  return count;
}

static void rejoin_everybody(int n_there)
{
  busq_peer *others[PEERS];
  for (int i = 0; i < PEERS - n_there; i++) {
    const char name[] = {'n', (char)('0' + i), '\0'};
    others[i] = join(name);
  }
  for (int i = 0; i < PEERS - n_there; i++)
    leave(others[i]);
}

/* Everything that is sent now is for the other one, whatever the one that is stopped has in its hands. */
static void send_past_the_stopped(busq_peer *alice, busq_peer *one, uint32_t *n_sentp)
{
  for (uint32_t i = 0; i < MORE; i++) {
    send_number(alice, (*n_sentp)++, i % 2, 1);
    drain(one);
    CHECK_EQUAL(n_got[*n_sentp - 1], 1);
  }
}

/* True if the victim came through. */
static bool strike(const void *argument, uint64_t steps, bool stops)
{
  const script *s = argument;
  uint32_t n_sent = 0;
  script_now = s;
  is_struck_to_stop = stops;
  memset(words, 0, sizeof *words);
  memset(n_got, 0, sizeof n_got);
  meet(PEERS, CAPACITY, ARENA_BYTES);
  busq_peer *alice = join("alice"), *carol = join("carol");
  busq_peer *one = s->is_first ? NULL : join_jobs();
  check_test = s->name;
  const pid_t pid = in_a_child(victim_body, &steps);
  wait_for(&words->is_ready, 1);
  if (one)
    drain_at_once(one); /* it has just looked for the dead, and does not again for a while */
  while (n_sent < LETTERS && one) {
    send_number(alice, n_sent, n_sent % 2, s->is_large ? LARGE_BYTES : 1);
    n_sent++;
  }
  if (s->buries)
    ends_well(in_a_child(prior_body, NULL));
  tell(&words->may_go_on);
  snprintf(scene, sizeof scene, "%s, %s at step %" PRIu64, s->name, stops ? "stopped" : "dead", steps);
  check_test = scene;
  int status = 0;
  bool is_stopped = false;
  if (stops) {
    CHECK_EQUAL(waitpid(pid, &status, WUNTRACED), pid);
    is_stopped = WIFSTOPPED(status);
  } else {
    ends_well(pid);
  }
  if (!one && !is_stopped)
    one = join_jobs();
  const uint32_t n_filled = s->fills && !stops ? fill(alice) : 0;
  if (is_stopped && one)
    send_past_the_stopped(alice, one, &n_sent);
  if (is_stopped) {
    CHECK_EQUAL(kill(pid, SIGCONT), 0);
    CHECK_EQUAL(waitpid(pid, &status, 0), pid);
  }
  if (stops)
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  if (!one)
    one = join_jobs();
  if (s->act == act_receive && s->mode != OFFERED && !stops)
    drain_without_waiting(one);
  drain(one);
  judge(n_sent, stops);
  if (n_filled)
    CHECK_EQUAL(n_filled + n_got[0] + n_got[1] + n_got[2] + n_got[3], CAPACITY);
  said(alice, "jobs carol", "a");
  memset(n_got, 0, sizeof n_got);
  drain(one);
  CHECK_EQUAL(n_got[0], 1);
  for (busq_message message; take_now(carol, &message) == BUSQ_OK;)
    busq_peer_release(carol, &message);
  busq_bus_facts facts;
  rejoin_everybody(4);
  CHECK_EQUAL(busq_peer_close(one), BUSQ_OK);
  busq_peer_free(one);
  rejoin_everybody(2);
  leave(alice);
  leave(carol);
  uint64_t n_dropped;
  CHECK_EQUAL(busq_bus_collect(company_bus, &n_dropped), BUSQ_OK);
  CHECK_EQUAL(n_dropped, 0);
  CHECK_EQUAL(busq_bus_examine(company_bus, &facts), BUSQ_OK);
  CHECK_EQUAL(used_bytes(), 0);
  part();
  return words->has_survived && !words->struck_at[0];
}

/* ---- the death of the only reader ---- */

static busq_peer *join_durable_jobs(void)
{
  busq_peer *peer;
  CHECK_EQUAL(busq_peer_join_as(company_bus, "jobs", 4, BUSQ_JOIN_SHARED | BUSQ_JOIN_DURABLE | BUSQ_JOIN_RESUME, &peer), BUSQ_OK);
  return peer;
}

static void only_reader_body(void *argument)
{
  arrive();
  busq_peer *victim = join_durable_jobs();
  strike_begin(*(const uint64_t *)argument, is_struck_to_stop, words->struck_at);
  act_receive(victim);
  strike_end();
  words->has_survived = 1;
  CHECK_EQUAL(busq_peer_close(victim), BUSQ_OK);
}

/* The queue shows no message that is done with, though no reader is left to move its head.  True if the victim came
 * through. */
static bool strike_the_only_one(const void *argument, uint64_t steps, bool stops)
{
  const script *s = argument;
  uint64_t target, depth, n_dropped;
  int status = 0;
  script_now = s;
  is_struck_to_stop = stops;
  memset(words, 0, sizeof *words);
  meet(PEERS, CAPACITY, ARENA_BYTES);
  busq_peer *alice = join("alice");
  busq_peer *before = join_durable_jobs();
  CHECK_EQUAL(busq_peer_close(before), BUSQ_OK);
  busq_peer_free(before);
  for (uint32_t number = 0; number < LETTERS; number++)
    send_number(alice, number, false, 1);
  snprintf(scene, sizeof scene, "%s, %s at step %" PRIu64, s->name, stops ? "stopped" : "dead", steps);
  check_test = scene;
  const pid_t pid = in_a_child(only_reader_body, &steps);
  if (!stops) {
    ends_well(pid);
  } else {
    CHECK_EQUAL(waitpid(pid, &status, WUNTRACED), pid);
    if (WIFSTOPPED(status)) {
      CHECK_EQUAL(kill(pid, SIGCONT), 0);
      CHECK_EQUAL(waitpid(pid, &status, 0), pid);
    }
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  CHECK_EQUAL(busq_bus_collect(company_bus, &n_dropped), BUSQ_OK);
  CHECK_EQUAL(look_up(alice, "jobs", &target), 1);
  CHECK_EQUAL(busq_bus_depth(company_bus, target, &depth), BUSQ_OK);
  memset(n_got, 0, sizeof n_got);
  busq_peer *behind = join_durable_jobs();
  drain(behind);
  CHECK_EQUAL(depth, n_got[0] + n_got[1] + n_got[2] + n_got[3]);
  CHECK_EQUAL(busq_peer_close(behind), BUSQ_OK);
  busq_peer_free(behind);
  leave(alice);
  part();
  return words->has_survived && !words->struck_at[0];
}

int main(int n_arguments, char **arguments)
{
  strike_options(n_arguments, arguments);
  busq_step_looks = 2; /* a burial takes many steps, and the process that takes the first may be dead before the last */
  const script scripts[] = {
      {.name = "receiving", .act = act_receive, .mode = COPIED},
      {.name = "receiving what would be in the way", .act = act_receive, .mode = COPIED, .fills = true},
      {.name = "receiving, in place", .act = act_receive, .mode = PINNED},
      {.name = "receiving and acknowledging", .act = act_receive, .mode = OFFERED},
      {.name = "holding two", .act = act_hold_two, .mode = PINNED},
      {.name = "holding two and acknowledging", .act = act_hold_two, .mode = OFFERED},
      {.name = "receiving large ones", .act = act_receive, .mode = COPIED, .is_large = true},
      {.name = "holding two large ones", .act = act_hold_two, .mode = OFFERED, .is_large = true},
      {.name = "giving back", .act = act_give_back, .mode = PINNED},
      {.name = "giving back what was to be acknowledged", .act = act_give_back, .mode = OFFERED},
      {.name = "giving back and taking again", .act = act_give_back_and_take, .mode = PINNED},
      {.name = "giving back and acknowledging later", .act = act_give_back_and_take, .mode = OFFERED},
      {.name = "looking, and not taking", .act = act_peek, .mode = OFFERED},
      {.name = "closing while two are held", .act = act_close_holding, .mode = PINNED, .is_closed = true},
      {.name = "closing while two are not acknowledged", .act = act_close_holding, .mode = OFFERED, .is_closed = true},
      {.name = "waiting", .act = act_wait, .mode = OFFERED},
      {.name = "joining", .act = act_nothing, .mode = OFFERED, .joins = true},
      {.name = "joining as the first", .act = act_nothing, .mode = OFFERED, .joins = true, .is_first = true},
      {.name = "burying another reader", .act = act_wait, .mode = OFFERED, .buries = true},
      {.name = "burying another reader, copying", .act = act_wait, .mode = COPIED, .buries = true},
  };
  words = shared_memory(sizeof *words);
  for (unsigned i = 0; i < sizeof scripts / sizeof scripts[0]; i++)
    strike_tell(scripts[i].name, strike, &scripts[i]);
  const script alone = {.name = "receiving alone", .act = act_receive, .mode = COPIED};
  strike_tell(alone.name, strike_the_only_one, &alone);
  return 0;
}
