/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several threads of one peer wait, some leave, and all that happens wakes the ones that it concerns.
 *
 * A sleep ends with its slice even if nothing wakes it, so a lost wake-up would only be late, and a clock would have to
 * judge. Here the slices of those that wait for good have no end (the linker leads the core's system calls to this
 * file): one that is not woken sleeps on, and the test comes to its time limit.
 */
#include "harness/company.h"
#include "harness/test.h"
#include "record/recorder.h"
#include "shm/memory/peer.h"
#include "shm/wait/pacing.h"
#include "shm/wait/send_call.h"
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>

#define THREADS 8u

static _Thread_local bool has_slices; /* this thread's sleeps end by themselves */
static _Thread_local bool is_watched;
static uint32_t n_naps; /* of threads that are watched */

long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
  if (number == SYS_futex && b == FUTEX_WAIT && !has_slices)
    d = 0;
  return __real_syscall(number, a, b, c, d, e, f);
}

int __real_nanosleep(const struct timespec *pause, struct timespec *left);
int __wrap_nanosleep(const struct timespec *pause, struct timespec *left);
int __wrap_nanosleep(const struct timespec *pause, struct timespec *left)
{
  if (is_watched)
    tell(&n_naps);
  return __real_nanosleep(pause, left);
}

static _Thread_local uint32_t n_yields;

int __real_sched_yield(void);
int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
  n_yields++;
  return __real_sched_yield();
}

/* ---- the company ---- */

static busq_peer *sleepy(const char *name)
{
  busq_peer *peer = join(name);
  busq_peer_set_spin(peer, 0, 0);
  return peer;
}

static void waits_for_what(const busq_peer *peer, uint32_t what, uint32_t slot)
{
  busq_peer_facts facts;
  do {
    sched_yield();
    CHECK_EQUAL(busq_bus_examine_peer(company_bus, peer->slot, &facts), BUSQ_OK);
  } while (facts.waits != what || (what == BUSQ_WAITING_ROOM && facts.waits_for != slot));
}

static void begin_all(pthread_t *threads, uint32_t n, void *(*body)(void *), void *argument)
{
  for (uint32_t i = 0; i < n; i++)
    CHECK(pthread_create(&threads[i], NULL, body, argument) == 0);
}

static void end_all(const pthread_t *threads, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    CHECK(pthread_join(threads[i], NULL) == 0);
}

/* ---- receiving ---- */

static busq_peer *receiver;
static uint32_t n_received;
static uint32_t n_left;
static uint32_t n_rounds;

static bool receive_one(int64_t timeout_ns)
{
  busq_message message;
  uint32_t count;
  int result;
  do
    result = busq_peer_recv(receiver, &message, 1, &count, timeout_ns);
  while (result == BUSQ_INTERRUPTED);
  if (result != BUSQ_OK) {
    CHECK(result == BUSQ_EMPTY || result == BUSQ_SHUTDOWN);
    return false;
  }
  busq_peer_release(receiver, &message);
  return true;
}

/* A thread that has got a message stays away until a sibling has got the next one, or one that ends the test has
 * come. */
static void *receive_in_turn(void *argument)
{
  (void)argument;
  while (receive_one(-1)) {
    const uint32_t mine = __atomic_add_fetch(&n_received, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&n_received, __ATOMIC_ACQUIRE) == mine && !busq_bus_is_shut_down(company_bus))
      sched_yield();
  }
  return NULL;
}

TEST(test_a_thread_that_leaves_with_a_message_lets_its_siblings_be_woken)
{
  const uint32_t rounds = (uint32_t)check_share(3000);
  pthread_t threads[THREADS];
  meet(3, 8, 4096);
  busq_peer *a = join("a");
  receiver = sleepy("b");
  n_received = 0;
  begin_all(threads, THREADS, receive_in_turn, NULL);
  for (uint32_t i = 0; i < rounds; i++) {
    said(a, "b", "x");
    wait_for(&n_received, i + 1);
  }
  CHECK_EQUAL(busq_bus_shutdown(company_bus), BUSQ_OK);
  end_all(threads, THREADS);
}

static void *receive_for_good(void *argument)
{
  (void)argument;
  while (receive_one(-1))
    tell(&n_received);
  return NULL;
}

/* Leaves once in a round, with empty hands. */
static void *receive_impatiently(void *argument)
{
  const uint32_t rounds = *(uint32_t *)argument;
  has_slices = true;
  for (uint32_t round = 0; round < rounds; round++) {
    while (receive_one(500000))
      tell(&n_received);
    tell(&n_left);
    wait_for(&n_rounds, round + 1);
  }
  return NULL;
}

TEST(test_a_thread_that_leaves_at_its_timeout_lets_its_siblings_be_woken)
{
  enum { HALF = THREADS / 2 };
  uint32_t rounds = (uint32_t)check_share(300);
  pthread_t patient[HALF], impatient[HALF];
  meet(3, 8, 4096);
  busq_peer *a = join("a");
  receiver = sleepy("b");
  n_received = n_left = n_rounds = 0;
  begin_all(patient, HALF, receive_for_good, NULL);
  begin_all(impatient, HALF, receive_impatiently, &rounds);
  for (uint32_t i = 0; i < rounds; i++) {
    wait_for(&n_left, (i + 1) * HALF);
    said(a, "b", "x");
    wait_for(&n_received, i + 1);
    tell(&n_rounds);
  }
  end_all(impatient, HALF);
  CHECK_EQUAL(busq_bus_shutdown(company_bus), BUSQ_OK);
  end_all(patient, HALF);
}

TEST(test_what_a_peer_waits_for_is_told_until_its_last_thread_has_left)
{
  pthread_t threads[2];
  uint32_t rounds = 1;
  busq_peer_facts facts;
  meet(3, 8, 4096);
  receiver = sleepy("b");
  n_received = n_left = n_rounds = 0;
  begin_all(&threads[0], 1, receive_for_good, NULL);
  waits_for_what(receiver, BUSQ_WAITING_MESSAGE, 0);
  begin_all(&threads[1], 1, receive_impatiently, &rounds);
  wait_for(&n_left, 1);
  CHECK_EQUAL(busq_bus_examine_peer(company_bus, receiver->slot, &facts), BUSQ_OK);
  CHECK_EQUAL(facts.waits, BUSQ_WAITING_MESSAGE);
  tell(&n_rounds);
  CHECK_EQUAL(busq_bus_shutdown(company_bus), BUSQ_OK);
  end_all(threads, 2);
}

/* ---- sending ---- */

typedef struct {
  busq_peer *peer;
  const char *to;
  size_t size_bytes;
  uint32_t n_messages;
} task;

static int send_for_good(const task *self, uint32_t n_messages)
{
  static char payload[1 << 16];
  uint64_t targets[COMPANY_PEERS_MAX];
  const int count = look_up(self->peer, self->to, targets);
  int result = BUSQ_OK;
  CHECK(count > 0);
  for (uint32_t i = 0; i < n_messages && result == BUSQ_OK; i++) {
    do
      result = busq_peer_send(self->peer, targets, (uint32_t)count, payload, self->size_bytes, -1);
    while (result == BUSQ_INTERRUPTED);
  }
  return result;
}

static void *send_all(void *argument)
{
  const task *self = argument;
  CHECK_EQUAL(send_for_good(self, self->n_messages), BUSQ_OK);
  return NULL;
}

static void many_threads_send(task work)
{
  pthread_t threads[THREADS];
  work.peer = sleepy("a");
  work.n_messages = (uint32_t)check_share(400);
  receiver = sleepy("b");
  n_received = 0;
  begin_all(threads, THREADS, send_all, &work);
  while (n_received < THREADS * work.n_messages)
    n_received += receive_one(-1);
  end_all(threads, THREADS);
  part();
}

TEST(test_all_threads_that_wait_for_room_get_it)
{
  meet(3, 1, 4096);
  many_threads_send((task){.to = "b", .size_bytes = 1});
}

TEST(test_all_threads_that_wait_for_memory_get_it)
{
  meet(3, 64, 1 << 16);
  many_threads_send((task){.to = "b", .size_bytes = 40000});
}

TEST(test_a_multicast_that_finds_one_queue_full_after_the_other_is_woken_by_each)
{
  pthread_t thread;
  meet(4, 1, 4096);
  task work = {.peer = sleepy("a"), .to = "b c", .size_bytes = 1, .n_messages = 1};
  busq_peer *b = join("b"), *c = join("c");
  said(b, "b c", "full");
  begin_all(&thread, 1, send_all, &work);
  waits_for_what(work.peer, BUSQ_WAITING_ROOM, b->slot);
  hears(b, "full");
  waits_for_what(work.peer, BUSQ_WAITING_ROOM, c->slot);
  receiver = c; /* of one message: the next one may be there at once */
  CHECK(receive_one(0));
  end_all(&thread, 1);
}

/* Takes memory out of what is common until no more is there; all of it comes back to its hands, and stays there. */
static busq_peer *hoarder(const char *name, busq_peer *reader)
{
  static const char payload[1000];
  busq_peer *peer = join(name);
  uint64_t target;
  busq_message message;
  CHECK_EQUAL(busq_peer_lookup(peer, reader->self->name, strlen(reader->self->name), &target), BUSQ_OK);
  while (busq_peer_send(peer, &target, 1, payload, sizeof payload, 0) == BUSQ_OK) {
  }
  while (take_now(reader, &message) == BUSQ_OK)
    busq_peer_release(reader, &message);
  CHECK(peer->sender.arena.owned > 0);
  return peer;
}

TEST(test_memory_that_another_peer_gives_back_wakes_who_waits_for_it)
{
  for (int leaves = 0; leaves < 2; leaves++) {
    pthread_t thread;
    busq_message message;
    meet(4, 256, 1 << 16);
    busq_peer *reader = join("reader"), *rich = hoarder("rich", reader);
    task work = {.peer = sleepy("a"), .to = "reader", .size_bytes = 40000, .n_messages = 1};
    begin_all(&thread, 1, send_all, &work);
    waits_for_what(work.peer, BUSQ_WAITING_MEMORY, 0);
    if (leaves)
      leave(rich);
    else
      CHECK_EQUAL(take_now(rich, &message), BUSQ_EMPTY);
    end_all(&thread, 1);
  }
}

/* ---- how long before a sleep ---- */

/* A loaded machine may take the core for long at any yield. */
static void forgets_dear_yields(busq_peer *peer)
{
  peer->pacing.message_yields = peer->pacing.room_yields = (busq_dear_yields){0, 0};
}

TEST(test_who_waited_long_does_not_yield_until_it_has_waited_shortly)
{
  enum { YIELD_NS = 5000000, LONG_NS = 50000000, LONG_WAITS = 4 }; /* so that a short wait may take 40 ms */
  pthread_t thread;
  busq_message message;
  meet(3, 8, 4096);
  has_slices = true;
  busq_peer *reader = join("reader");
  reader->pacing.yield_ns = YIELD_NS;
  task work = {.peer = join("a"), .to = "reader", .size_bytes = 1, .n_messages = 1};
  for (uint32_t i = 0; i < LONG_WAITS; i++) {
    forgets_dear_yields(reader);
    n_yields = 0;
    CHECK_EQUAL(busq_peer_wait(reader, LONG_NS), BUSQ_EMPTY);
    CHECK(n_yields > 0);
  }
  forgets_dear_yields(reader);
  n_yields = 0;
  CHECK_EQUAL(busq_peer_wait(reader, LONG_NS), BUSQ_EMPTY);
  CHECK_EQUAL(n_yields, 0);
  /* On a loaded machine this may take long, too. */
  while (reader->pacing.waits_in_vain) {
    begin_all(&thread, 1, send_all, &work);
    CHECK_EQUAL(busq_peer_wait(reader, -1), BUSQ_OK);
    CHECK_EQUAL(take_now(reader, &message), BUSQ_OK);
    busq_peer_release(reader, &message);
    end_all(&thread, 1);
  }
  forgets_dear_yields(reader);
  n_yields = 0;
  CHECK_EQUAL(busq_peer_wait(reader, LONG_NS), BUSQ_EMPTY);
  CHECK(n_yields > 0);
  has_slices = false;
}

/* A wait for a message that does not come; returns whether it yielded. */
static bool yields(busq_peer *peer)
{
  enum { SHORT_NS = 1000000 };
  n_yields = 0;
  peer->pacing.waits_in_vain = 0; /* on a loaded machine it may take long, too */
  CHECK_EQUAL(busq_peer_wait(peer, SHORT_NS), BUSQ_EMPTY);
  return n_yields > 0;
}

TEST(test_a_yield_that_came_out_dear_lets_the_next_waits_sleep_at_once)
{
  enum { YIELD_NS = 5000000, TIMES = 8, MANY = 1000000 };
  meet(2, 8, 4096);
  has_slices = true;
  busq_peer *reader = join("reader");
  busq_dear_yields *dear = &reader->pacing.message_yields;
  reader->pacing.spin_ns = 0;
  reader->pacing.yield_ns = YIELD_NS;
  busq_pacing_learn_from_yield(reader, dear, TIMES * YIELD_NS - 1, 0);
  CHECK(yields(reader));
  forgets_dear_yields(reader); /* of those that were made */
  busq_pacing_learn_from_yield(reader, dear, TIMES * YIELD_NS, MANY); /* which came meanwhile */
  CHECK(yields(reader));
  forgets_dear_yields(reader);
  /* As many waits as its cost pays for; twice as many as before where the next yield is as dear. */
  for (uint32_t n_waits = TIMES - 1; n_waits < 4 * TIMES; n_waits *= 2) {
    busq_pacing_learn_from_yield(reader, dear, TIMES * YIELD_NS, 1);
    for (uint32_t i = 0; i < n_waits; i++)
      CHECK(!yields(reader));
    CHECK_EQUAL(dear->sleeps_left, 0);
  }
  CHECK(yields(reader));
  /* Cheap ones let it forget. */
  forgets_dear_yields(reader);
  busq_pacing_learn_from_yield(reader, dear, TIMES * YIELD_NS, 1);
  for (uint32_t i = 0; i < TIMES; i++)
    busq_pacing_learn_from_yield(reader, dear, 0, 0);
  CHECK_EQUAL(dear->sleeps, 0);
  /* A peer whose time awake was chosen stays awake. */
  forgets_dear_yields(reader);
  busq_peer_set_spin(reader, 0, YIELD_NS / 1000);
  busq_pacing_learn_from_yield(reader, dear, TIMES * YIELD_NS, 0);
  CHECK(yields(reader));
  has_slices = false;
}

/* A send to a queue that stays full; returns whether it yielded. */
static bool yields_for_room(busq_peer *peer, busq_peer *reader)
{
  enum { SHORT_NS = 1000000 };
  const uint64_t target = busq_peer_address(reader);
  n_yields = 0;
  CHECK_EQUAL(busq_peer_send(peer, &target, 1, "x", 1, SHORT_NS), BUSQ_FULL);
  return n_yields > 0;
}

TEST(test_a_yield_that_came_out_dear_lets_the_next_waits_for_room_sleep_at_once)
{
  enum { YIELD_NS = 5000000, TIMES = 8, CAPACITY = 8 };
  meet(2, CAPACITY, 4096);
  has_slices = true;
  busq_peer *sender = join("a"), *reader = join("reader");
  const uint64_t target = busq_peer_address(reader);
  sender->pacing.spin_ns = 0;
  sender->pacing.yield_ns = YIELD_NS;
  for (uint32_t i = 0; i < CAPACITY; i++)
    CHECK_EQUAL(busq_peer_send(sender, &target, 1, "x", 1, 0), BUSQ_OK);
  CHECK(yields_for_room(sender, reader));
  forgets_dear_yields(sender);
  busq_pacing_learn_from_yield(sender, &sender->pacing.room_yields, TIMES * YIELD_NS, CAPACITY);
  for (uint32_t i = 0; i < TIMES - 1; i++)
    CHECK(!yields_for_room(sender, reader));
  CHECK(yields_for_room(sender, reader));
  has_slices = false;
}

TEST(test_who_is_told_how_long_to_yield_always_does)
{
  enum { LONG_NS = 2000000, MANY = 10 };
  meet(2, 8, 4096);
  has_slices = true;
  busq_peer *reader = join("reader");
  busq_peer_set_spin(reader, 0, 1000);
  for (uint32_t i = 0; i < MANY; i++) {
    n_yields = 0;
    CHECK_EQUAL(busq_peer_wait(reader, LONG_NS), BUSQ_EMPTY);
    CHECK(n_yields > 0);
  }
  has_slices = false;
}

/* ---- latches ---- */

static void *send_watched(void *argument)
{
  is_watched = true;
  return send_all(argument);
}

TEST(test_who_waits_for_a_thread_that_maps_the_trace_steps_aside)
{
  pthread_t thread;
  busq_recorder *recorder = NULL;
  meet(3, 8, 4096);
  task work = {.peer = join("a"), .to = "a", .size_bytes = 1, .n_messages = 1};
  CHECK_EQUAL(busq_recorder_open(company_bus, 256, &recorder), BUSQ_OK);
  busq_latch_acquire(&work.peer->tracer.latch);
  begin_all(&thread, 1, send_watched, &work);
  wait_for(&n_naps, 1); /* one that spins, at a higher real-time priority, would keep us from ever coming to the next line */
  busq_latch_release(&work.peer->tracer.latch);
  end_all(&thread, 1);
  busq_recorder_stop(recorder);
  busq_recorder_free(recorder);
}

/* ---- its own queue ---- */

typedef struct {
  int second; /* the result behind a first attempt that finds the peer's own queue full */
  uint32_t *n_attempts;
} played;

static int play(busq_peer *peer, const void *arguments, uint64_t *failed_targetp)
{
  const played *self = arguments;
  *failed_targetp = busq_peer_address(peer);
  return ++*self->n_attempts == 2 ? self->second : BUSQ_FULL;
}

/* The thread that received has ended, since the peer was closed, or after it had made room: both come to be seen by one
 * attempt more. */
TEST(test_a_queue_whose_last_reader_has_ended_is_looked_at_once_more)
{
  static const int results[][2] = {{BUSQ_CLOSED, BUSQ_CLOSED}, {BUSQ_OK, BUSQ_OK}, {BUSQ_FULL, BUSQ_OWN_FULL}};
  meet(1, 8, 4096);
  busq_peer *peer = join("a");
  for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
    uint32_t n_attempts = 0;
    CHECK_EQUAL(busq_send_wait(peer, play, &(played){results[i][0], &n_attempts}, -1), results[i][1]);
    CHECK_EQUAL(n_attempts, 2);
  }
}
