/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A durable queue without a reader fills up with messages, and with nothing else: references of attempts that were put
 * off are taken out of it by the sender that finds it full, in bounded steps, and a process that is killed between any
 * two of them is followed by another sender, or by a successor, which finds every message there once, in order.
 */
#include "harness/company.h"
#include "harness/test.h"
#include "shm/memory/peer.h"
#include "shm/message/commit.h"

#ifndef BUSQ_STEPS
#error "this test needs a core built with BUSQ_STEPS"
#endif

#define PEERS 6
#define CAPACITY 24
#define ARENA_BYTES (1 << 18)

/* ---- a sender that is put off again and again ---- */

static uint32_t reader_slot;
static uint32_t n_put_offs;

/* Just before the commit, a process that waits behind the message loses patience with it. */
static void put_off(const char *where)
{
  if (!n_put_offs || strcmp(where, "state") != 0)
    return;
  const busq_ring ring = busq_bus_ring(company_bus, reader_slot);
  busq_reference reference;
  if (!busq_ring_look(&ring, busq_ring_tail(&ring) - 1, &reference))
    return;
  busq_step_hook = NULL;
  n_put_offs--;
  CHECK(busq_commit_help(company_bus, busq_bus_record(company_bus, reference.record), reference.tag));
  busq_step_hook = put_off;
}

/* The result; each time that it is put off, a dead reference is left in the queue of every receiver. */
static int say_put_off(busq_peer *peer, const char *to, const char *text, uint32_t times)
{
  n_put_offs = times;
  busq_step_hook = put_off;
  const int result = say(peer, to, text);
  busq_step_hook = NULL;
  return result;
}

/* "reader" has a durable queue, and is gone. */
static void the_reader_goes(void)
{
  busq_peer *reader = join_as("reader", BUSQ_JOIN_DURABLE);
  reader_slot = reader->slot;
  CHECK_EQUAL(busq_peer_close(reader), BUSQ_OK);
  busq_peer_free(reader);
}

static busq_peer *the_reader_returns(void)
{
  return join_as("reader", BUSQ_JOIN_DURABLE | BUSQ_JOIN_RESUME);
}

static void the_reader_is_removed(busq_peer *reader)
{
  CHECK_EQUAL(busq_peer_close(reader), BUSQ_OK);
  busq_peer_free(reader);
  CHECK_EQUAL(busq_bus_remove_peer(company_bus, "reader", 6), BUSQ_OK);
}

/* ---- what it is full of ---- */

TEST(test_a_queue_full_of_dead_references_has_room_for_a_message)
{
  meet(PEERS, CAPACITY, ARENA_BYTES);
  the_reader_goes();
  busq_peer *alice = join("alice"), *bob = join("bob");
  for (int round = 0; round < 3; round++) {
    /* Put off more often than there are places, it gives up. */
    CHECK_EQUAL(say_put_off(alice, "reader bob", "in vain", 200), BUSQ_FULL);
    hears(bob, "");
    said(alice, "reader bob", "good");
    hears(bob, "good");
    said(alice, "reader", "alone");
  }
  busq_peer *reader = the_reader_returns();
  hears(reader, "good alone good alone good alone");
  the_reader_is_removed(reader);
}

/* Messages and dead references in turns: as many messages as there is capacity, whatever stands between them. */
TEST(test_dead_references_between_messages_take_no_room)
{
  char expected[CAPACITY * 3 + 1] = "", text[12];
  meet(PEERS, CAPACITY, ARENA_BYTES);
  the_reader_goes();
  busq_peer *alice = join("alice"), *bob = join("bob");
  for (int i = 0; i < CAPACITY; i++) {
    snprintf(text, sizeof text, "%02d", i);
    while (say_put_off(alice, "reader bob", text, (uint32_t)i % 5) == BUSQ_FULL)
      hears(bob, ""); /* it ran against the end of the ring in the middle of its attempts */
    snprintf(expected + strlen(expected), sizeof expected - strlen(expected), i ? " %s" : "%s", text);
    hears(bob, text);
  }
  CHECK_EQUAL(say(alice, "reader bob", "no"), BUSQ_FULL);
  CHECK_EQUAL(say(alice, "reader", "no"), BUSQ_FULL);
  busq_peer *reader = the_reader_returns();
  hears(reader, expected);
  the_reader_is_removed(reader);
}

/* ---- killed at every step of it ---- */

typedef struct {
  uint32_t has_survived;
} last_words;

static last_words *words;
static uint64_t steps_left;

static void deadly_step(const char *where)
{
  (void)where;
  if (--steps_left == 0)
    _exit(0);
}

/* Finds the queue full, and takes out what is dead, until it dies. */
static void packer_body(void *argument)
{
  arrive();
  busq_peer *packer = join("packer");
  uint64_t target;
  CHECK_EQUAL(look_up(packer, "reader", &target), 1);
  steps_left = *(const uint64_t *)argument;
  busq_step_hook = deadly_step;
  for (int i = 0; i < 2 * CAPACITY; i++)
    if (busq_peer_send(packer, &target, 1, "packed", 6, 0) == BUSQ_OK)
      break;
  words->has_survived = 1;
}

typedef enum {
  NEXT_RESUMES,
  NEXT_SENDS,
  NEXT_DIES_TOO
} next_one;

/* A queue full of this and that, which no process has packed; what is good in it is written to `expected`. */
static void fill_at_random(busq_peer *alice, busq_peer *bob, check_chance *chance, char *expected, size_t room)
{
  char text[16];
  const busq_ring ring = busq_bus_ring(company_bus, reader_slot);
  for (int i = 0; busq_ring_tail(&ring) - ring.queue->head < CAPACITY; i++) {
    snprintf(text, sizeof text, "%d", i);
    const int result = say_put_off(alice, "reader bob", text, (uint32_t)check_below(chance, 4));
    hears(bob, result == BUSQ_OK ? text : "");
    if (result == BUSQ_OK)
      snprintf(expected + strlen(expected), room - strlen(expected), i ? " %s" : "%s", text);
  }
}

/* Everything in the queue, past the hole of one that was killed when it had a place and nothing else. */
static const char *heard_to_the_end(busq_peer *reader)
{
  static char text[1024];
  const busq_ring ring = busq_bus_ring(company_bus, reader_slot);
  text[0] = '\0';
  while (ring.queue->head != busq_ring_tail(&ring)) {
    busq_message message;
    uint32_t count;
    if (busq_peer_recv(reader, &message, 1, &count, 1000000) != BUSQ_OK)
      continue;
    snprintf(text + strlen(text), sizeof text - strlen(text), *text ? " %.*s" : "%.*s", (int)message.size_bytes,
             (const char *)message.data);
    busq_peer_release(reader, &message);
  }
  return text;
}

/* True if the packer came through. */
static bool pack_and_die(uint64_t steps, next_one next, uint64_t seed)
{
  char expected[1024] = "";
  check_chance chance = {seed};
  memset(words, 0, sizeof *words);
  busq_step_looks = 4096; /* while it is filled, nothing is packed bit by bit */
  meet(PEERS, CAPACITY, ARENA_BYTES);
  the_reader_goes();
  busq_peer *alice = join("alice"), *bob = join("bob");
  fill_at_random(alice, bob, &chance, expected, sizeof expected);
  busq_step_looks = 3;
  ends_well(in_a_child(packer_body, &steps));
  const bool has_survived = words->has_survived;
  if (next == NEXT_DIES_TOO) {
    uint64_t other = 1 + check_below(&chance, 60);
    ends_well(in_a_child(packer_body, &other));
  }
  busq_peer *reader = NULL;
  if (next != NEXT_SENDS)
    reader = the_reader_returns();
  int result = say(alice, "reader", "end");
  for (int i = 0; i < 4 * CAPACITY && result == BUSQ_FULL && !reader; i++)
    result = say(alice, "reader", "end");
  if (!reader)
    reader = the_reader_returns();
  const char *text = heard_to_the_end(reader);
  CHECK(strncmp(text, expected, strlen(expected)) == 0);
  text += strlen(expected);
  while (strncmp(text, " packed", 7) == 0)
    text += 7;
  CHECK_TEXT(text, result == BUSQ_OK ? " end" : "");
  the_reader_is_removed(reader);
  leave(alice);
  leave(bob);
  uint32_t n_buried, n_helped;
  CHECK_EQUAL(busq_bus_repair(company_bus, &n_buried, &n_helped), BUSQ_OK);
  CHECK_EQUAL(used_bytes(), 0);
  part();
  busq_step_looks = 4096;
  return has_survived;
}

TEST(test_killed_between_any_two_steps_it_leaves_every_message_once)
{
  words = shared_memory(sizeof *words);
  check_chance chance = {test_seed};
  uint64_t n_deaths = 0;
  for (int next = NEXT_RESUMES; next <= NEXT_DIES_TOO; next++)
    for (uint64_t round = check_share(6); round > 0; round--) {
      const uint64_t scene = check_next(&chance);
      for (uint64_t steps = 1; !pack_and_die(steps, (next_one)next, scene); steps++)
        n_deaths++;
    }
  printf("    died at %" PRIu64 " steps\n", n_deaths);
}

/* Sends for as long as that finds room, and a while longer. */
static void the_queue_fills_up(busq_peer *alice)
{
  for (int n_full = 0; n_full < 4 * CAPACITY;)
    n_full = say(alice, "reader", "more") == BUSQ_FULL ? n_full + 1 : 0;
}

static uint64_t words_in(const char *text)
{
  uint64_t count = *text != '\0';
  for (; *text; text++)
    count += *text == ' ';
  return count;
}

/* The queue was packed before, and has filled up with this and that once more.  True if the packer came through. */
static bool pack_again_and_die(uint64_t steps, uint64_t seed)
{
  char ignored[2048] = "";
  check_chance chance = {seed};
  memset(words, 0, sizeof *words);
  busq_step_looks = 4096;
  meet(PEERS, CAPACITY, ARENA_BYTES);
  the_reader_goes();
  busq_peer *alice = join("alice"), *bob = join("bob");
  for (int round = 0; round < 2; round++) {
    fill_at_random(alice, bob, &chance, ignored, sizeof ignored);
    if (round == 0)
      (void)say(alice, "reader", "packs");
  }
  busq_step_looks = 3;
  ends_well(in_a_child(packer_body, &steps));
  const bool has_survived = words->has_survived;
  the_queue_fills_up(alice);
  busq_peer *reader = the_reader_returns();
  CHECK_EQUAL(words_in(heard_to_the_end(reader)), CAPACITY);
  the_reader_is_removed(reader);
  part();
  busq_step_looks = 4096;
  return has_survived;
}

TEST(test_killed_between_any_two_steps_it_leaves_room_for_as_many_messages)
{
  words = shared_memory(sizeof *words);
  check_chance chance = {test_seed};
  for (uint64_t round = check_share(6); round > 0; round--) {
    const uint64_t scene = check_next(&chance);
    uint64_t steps = 1;
    while (!pack_again_and_die(steps, scene))
      steps++;
  }
}
