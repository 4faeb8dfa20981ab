/* SPDX-License-Identifier: Apache-2.0 */
/*
 * However many messages of a dead sender were not received yet, the survivors pay for a bounded step of its burial and
 * no more; counted in accesses to shared memory, so that it does not matter how fast the machine is.
 *
 * What a step may cost is the same for any number of messages; the numbers here are so large that a look at each of
 * them would be noticed.
 */
#include "harness/company.h"
#include "harness/test.h"
#include "shm/burial/grave.h"
#include "shm/memory/peer.h"

#ifndef BUSQ_STEPS
#error "this test needs a core built with BUSQ_STEPS"
#endif

#define PEERS 8
#define CAPACITY 65536
#define ARENA_BYTES (UINT64_C(48) << 20)
#define N_MESSAGES 60000
/* A step looks at 4096 things, at each with eleven accesses at most; besides, there is the table of extents. */
#define ACCESSES_MAX UINT64_C(50000)

static uint64_t n_accesses;

static void count_access(busq_access access, const volatile void *address, size_t bytes)
{
  (void)access;
  (void)address;
  (void)bytes;
  n_accesses++;
}

static void counting_begins(void)
{
  n_accesses = 0;
  busq_access_hook = count_access;
}

static uint64_t counting_ends(void)
{
  busq_access_hook = NULL;
  return n_accesses;
}

/* The statement, and what it cost. */
#define COSTS_A_STEP(what, statement)                                                         \
  do {                                                                                        \
    counting_begins();                                                                        \
    statement;                                                                                \
    const uint64_t step_cost = counting_ends();                                               \
    printf("    %-38s %7" PRIu64 " accesses\n", what, step_cost);                             \
    CHECK(step_cost < ACCESSES_MAX);                                                          \
  } while (0)

/* ---- the dead ---- */

typedef struct {
  const char *to;
  uint32_t dies_at_step; /* of its last message; 0: it dies when it is through with all */
} sender;

static uint32_t steps_left;

static void deadly_step(const char *where)
{
  (void)where;
  if (--steps_left == 0)
    _exit(0);
}

static void sender_body(void *argument)
{
  const sender *self = argument;
  uint64_t targets[PEERS];
  arrive();
  busq_peer *peer = join("dead");
  const int count = look_up(peer, self->to, targets);
  CHECK(count > 0);
  for (int i = 0; i < N_MESSAGES; i++)
    CHECK_EQUAL(busq_peer_send(peer, targets, (uint32_t)count, &i, sizeof i, 0), BUSQ_OK);
  if (!self->dies_at_step)
    return;
  steps_left = self->dies_at_step;
  busq_step_hook = deadly_step;
  (void)busq_peer_send(peer, targets, (uint32_t)count, "last", 4, 0);
}

static void a_sender_dies(const char *to, uint32_t dies_at_step)
{
  ends_well(in_a_child(sender_body, &(sender){to, dies_at_step}));
}

static uint32_t state_of(const char *name)
{
  for (uint32_t slot = 0; slot < PEERS; slot++)
    if (strcmp(company_bus->slots[slot].name, name) == 0)
      return (uint32_t)company_bus->slots[slot].life & BUSQ_LIFE_MASK;
  return BUSQ_LIFE_FREE;
}

/* ---- a sender that was killed ---- */

static void everybody_pays_for_a_step(busq_peer *bob, busq_peer *carol, uint64_t dead)
{
  busq_peer *dan, *next;
  busq_message message;
  COSTS_A_STEP("a send to the dead", CHECK_EQUAL(busq_peer_send(carol, &dead, 1, "x", 1, 0), BUSQ_PEER_DEAD));
  COSTS_A_STEP("a send to its receiver", said(carol, "bob", "x"));
  COSTS_A_STEP("a message to several", said(carol, "bob carol", "x"));
  COSTS_A_STEP("a receive", CHECK_EQUAL(take_now(bob, &message), BUSQ_OK));
  busq_peer_release(bob, &message);
  COSTS_A_STEP("a new peer", dan = join("dan"));
  COSTS_A_STEP("a new peer of the same name", next = join("dead"));
  leave(dan);
  leave(next);
  COSTS_A_STEP("its successor", next = join_as("dead", BUSQ_JOIN_RESUME));
  busq_peer_free(next);
  COSTS_A_STEP("unlink's look for the dead", (void)busq_grave_bury_all(company_bus));
}

TEST(test_nobody_pays_for_what_a_dead_sender_has_under_way)
{
  uint64_t dead;
  meet(PEERS, CAPACITY, ARENA_BYTES);
  busq_peer *bob = join("bob"), *carol = join("carol");
  join("reader");
  busq_peer *before = join("dead");
  CHECK_EQUAL(look_up(carol, "dead", &dead), 1);
  leave(before);
  a_sender_dies("bob", 0);
  dead += UINT64_C(1) << 16; /* the next life of the same slot */
  everybody_pays_for_a_step(bob, carol, dead);
  meet(PEERS, CAPACITY, ARENA_BYTES);
  bob = join("bob");
  carol = join("carol");
  join("reader");
  a_sender_dies("bob reader", 0);
  COSTS_A_STEP("a look for the dead", CHECK(look_up(carol, "dead", &dead) < 0));
  CHECK_EQUAL(state_of("dead"), BUSQ_LIFE_DEAD);
}

/* Killed with a message in its hand that is final and that no peer has got: the whole queue must be searched for it,
 * step by step. */
TEST(test_the_search_for_a_message_in_hand_goes_on_with_the_next_call)
{
  uint64_t dead, n_calls = 0, n_calls_max = 0;
  for (uint32_t step = 1; step < 8; step++) {
    meet(PEERS, CAPACITY, ARENA_BYTES);
    busq_peer *bob = join("bob"), *carol = join("carol");
    a_sender_dies("bob", step);
    n_calls = 0;
    do {
      counting_begins();
      CHECK(look_up(carol, "dead", &dead) < 0);
      CHECK(counting_ends() < ACCESSES_MAX);
      n_calls++;
    } while (state_of("dead") != BUSQ_LIFE_DEAD);
    n_calls_max = n_calls > n_calls_max ? n_calls : n_calls_max;
    for (int i = 0; i < N_MESSAGES; i++) {
      busq_message message;
      CHECK_EQUAL(take_patiently(bob, &message), BUSQ_OK);
      CHECK(memcmp(message.data, &i, sizeof i) == 0);
      busq_peer_release(bob, &message);
    }
    const char *last = heard(bob);
    CHECK(!*last || strcmp(last, "last") == 0);
    leave(bob);
    leave(carol);
    uint32_t n_buried, n_helped;
    CHECK_EQUAL(busq_bus_repair(company_bus, &n_buried, &n_helped), BUSQ_OK);
    CHECK_EQUAL(used_bytes(), 0);
  }
  CHECK(n_calls_max > N_MESSAGES / 4096);
  printf("    buried by %" PRIu64 " calls\n", n_calls_max);
}

/* ---- a receiver that was killed ---- */

static void idle_body(void *argument)
{
  uint32_t *is_ready = argument;
  arrive();
  join("dead");
  tell(is_ready);
  for (;;)
    pause();
}

static void deadly_place(const char *where)
{
  if (strcmp(where, "place") == 0)
    _exit(0);
}

/* Killed with a message in its hand, and one that it has not received. */
static void unread_sender_body(void *argument)
{
  (void)argument;
  arrive();
  busq_peer *peer = join("dead");
  said(peer, "dead", "old");
  busq_step_hook = deadly_place;
  (void)say(peer, "bob", "in vain");
}

/* A peer that joins anew while the burial of its predecessor has begun, and takes several steps, gives up what that
 * has left. */
TEST(test_what_was_given_up_before_the_burial_was_over_comes_to_no_successor)
{
  meet(4, 16, 1 << 18);
  busq_peer *bob = join("bob"), *carol = join("carol");
  for (int i = 0; i < 8; i++)
    said(carol, "bob", "x");
  ends_well(in_a_child(unread_sender_body, NULL));
  const uint32_t looks = busq_step_looks;
  busq_step_looks = 2;
  leave(join("dead"));
  leave(join("erin")); /* in the slot of the second "dead", as there is no other */
  busq_step_looks = looks;
  busq_peer *successor = join_as("dead", BUSQ_JOIN_RESUME);
  hears(successor, "");
  leave(successor);
  hears(bob, "x x x x x x x x");
}

/* Killed behind its mark, and before it gave the memory back. */
static void last_reader_body(void *argument)
{
  busq_message message;
  arrive();
  busq_peer *peer = join("dead");
  tell(argument);
  CHECK_EQUAL(take_patiently(peer, &message), BUSQ_OK);
  __atomic_store_n(&busq_bus_record(company_bus, message.record)->destination[message.mark].mark,
                   BUSQ_MARK_TAKEN | BUSQ_MARK_RELEASED, __ATOMIC_RELEASE);
  _exit(0);
}

TEST(test_a_large_message_goes_with_the_burial_of_its_last_reader)
{
  static const char large[1 << 16];
  uint32_t *is_ready = shared_memory(sizeof *is_ready), n_buried, n_helped;
  uint64_t target;
  meet(4, 16, 1 << 18);
  busq_peer *bob = join("bob");
  const pid_t reader = in_a_child(last_reader_body, is_ready);
  wait_for(is_ready, 1);
  CHECK_EQUAL(look_up(bob, "dead", &target), 1);
  CHECK_EQUAL(busq_peer_send(bob, &target, 1, large, sizeof large, 0), BUSQ_OK);
  ends_well(reader);
  CHECK(used_bytes() > sizeof large);
  CHECK_EQUAL(busq_bus_repair(company_bus, &n_buried, &n_helped), BUSQ_OK);
  CHECK_EQUAL(used_bytes(), 0);
}

TEST(test_nobody_pays_for_what_a_dead_receiver_has_not_received)
{
  uint32_t *is_ready = shared_memory(sizeof *is_ready);
  uint64_t dead;
  busq_peer *next, *carol, *bob;
  meet(PEERS, CAPACITY, ARENA_BYTES);
  bob = join("bob");
  carol = join("carol");
  const pid_t pid = in_a_child(idle_body, is_ready);
  wait_for(is_ready, 1);
  CHECK_EQUAL(look_up(bob, "dead", &dead), 1);
  for (int i = 0; i < N_MESSAGES; i++)
    CHECK_EQUAL(busq_peer_send(bob, &dead, 1, "x", 1, 0), BUSQ_OK);
  murder(pid);
  COSTS_A_STEP("a look for the dead", CHECK(look_up(carol, "dead", &dead) < 0));
  COSTS_A_STEP("a new peer", next = join("dan"));
  COSTS_A_STEP("a new peer of the same name", next = join("dead"));
  leave(next);
  COSTS_A_STEP("a sender with much under way that leaves", leave(bob));
  leave(carol);
  uint64_t n_dropped;
  CHECK_EQUAL(busq_bus_collect(company_bus, &n_dropped), BUSQ_OK);
  CHECK_EQUAL(used_bytes(), 0);
  munmap(is_ready, sizeof *is_ready);
}

/* ---- sleeping, and sending without memory, with much under way ---- */

TEST(test_a_sleep_costs_the_same_however_much_is_under_way)
{
  uint64_t target;
  busq_message message;
  uint32_t count;
  meet(PEERS, CAPACITY, ARENA_BYTES);
  busq_peer *bob = join("bob"), *slow = join("slow");
  CHECK_EQUAL(look_up(bob, "slow", &target), 1);
  for (int i = 0; i < N_MESSAGES; i++)
    CHECK_EQUAL(busq_peer_send(bob, &target, 1, "x", 1, 0), BUSQ_OK);
  /* The memory was earned by sending: the first time may cost more. */
  (void)busq_peer_recv(bob, &message, 1, &count, 1000000);
  counting_begins();
  for (int i = 0; i < 50; i++)
    (void)busq_peer_recv(bob, &message, 1, &count, 200000);
  const uint64_t cost = counting_ends() / 50;
  printf("    %" PRIu64 " accesses per sleep\n", cost);
  CHECK(cost < 3000);
  /* And when all of it was received, it is given back. */
  const uint64_t used = used_bytes();
  while (take_now(slow, &message) == BUSQ_OK)
    busq_peer_release(slow, &message);
  for (int i = 0; i < 50; i++)
    (void)busq_peer_recv(bob, &message, 1, &count, 200000);
  CHECK(used_bytes() < used / 10);
}

TEST(test_a_send_that_finds_no_memory_costs_a_step)
{
  uint64_t target;
  meet(PEERS, CAPACITY, UINT64_C(2) << 20);
  busq_peer *bob = join("bob");
  join("slow");
  CHECK_EQUAL(look_up(bob, "slow", &target), 1);
  int result = BUSQ_OK;
  while (result == BUSQ_OK)
    result = busq_peer_send(bob, &target, 1, "x", 1, 0);
  CHECK_EQUAL(result, BUSQ_FULL);
  counting_begins();
  for (int i = 0; i < 20; i++)
    CHECK_EQUAL(busq_peer_send(bob, &target, 1, "x", 1, 0), BUSQ_FULL);
  const uint64_t cost = counting_ends() / 20;
  printf("    %" PRIu64 " accesses per send that finds no memory, with %" PRIu64 " messages under way\n", cost, bob->sender.sent);
  CHECK(cost < ACCESSES_MAX && bob->sender.sent > 30000);
}
