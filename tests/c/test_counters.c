/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where every counter of a bus ends.  A fresh bus is put shortly before the end of one of them, as if it had run for
 * years, and then real traffic goes over it.
 *
 *      counter                     bits      at its end
 *      position in a queue         52        the queue is damaged: refused, never mixed up; a new life goes on
 *      lap of a position           16        begins again, no process notices
 *      life of a queue             11        begins again, no process notices
 *      incarnation of a slot       32        begins again, no process notices
 *      sequence of a sender        54        begins again, no process notices
 *      generation of an extent     32        begins again, no process notices
 *      wake-up sequences           32        begin again, no process notices
 *      arming of a FIFO            31        begins again, no process notices
 *      wishes for memory           32        begin again, no process notices
 *      sent, received, late        64        begin again
 *      clock                       62        damage: refused before anything is touched, and no other clock follows
 */
#include "harness/company.h"
#include "harness/test.h"
#include "shm/memory/peer.h"
#include "shm/message/commit.h"
#include "shm/send/multicast.h"
#include <poll.h>

/* ---- as if it had run for years ---- */

static uint32_t slot_of(const busq_peer *peer)
{
  return peer->slot;
}

/* Before any peer joins: all queues stand at a position, every slot of their rings as the lap before left it. */
static void all_queues_stand_at(uint64_t position)
{
  for (uint32_t slot = 0; slot < company_bus->geometry.peers; slot++) {
    const busq_ring ring = busq_bus_ring(company_bus, slot);
    for (uint64_t at = position - ring.slot_count; at != position; at++)
      *busq_ring_slot(&ring, at) =
          (busq_pair){busq_ring_lap(&ring, at) << 48 | (uint64_t)BUSQ_RING_NOBODY << 32 | UINT32_MAX, at};
    ring.queue->head = position;
    ring.queue->clock_tail.hi = position | BUSQ_RING_CLOSED;
  }
}

static void all_slots_had(uint32_t incarnation)
{
  for (uint32_t slot = 0; slot < company_bus->geometry.peers; slot++)
    company_bus->slots[slot].life = busq_life_word(incarnation, BUSQ_LIFE_LEFT);
}

static void clock_of(const busq_peer *peer, uint64_t timestamp)
{
  company_bus->slots[slot_of(peer)].queue.clock_tail.lo = timestamp;
}

static uint64_t clock_now(const busq_peer *peer)
{
  return busq_ring_clock(&peer->receiver.ring);
}

/* Three peers, unicasts and multicasts in turns, some with lost proposals; all must hear everything in one order. */
static void they_talk(int rounds)
{
  busq_peer *a = company_peers[0], *b = company_peers[1], *c = company_peers[2];
  for (int round = 0; round < rounds; round++) {
    a->sender.proposes_stale = round % 3 == 0;
    said(a, "b c", "1");
    said(b, "a b c", "2");
    said(c, "b", "3");
    said(a, "b c", "4");
    hears(a, "2");
    hears(b, "1 2 3 4");
    hears(c, "1 2 4");
  }
  a->sender.proposes_stale = false;
}

static void three_meet(void)
{
  join("a");
  join("b");
  join("c");
}

/* ---- positions ---- */

TEST(test_queues_go_over_the_end_of_their_lap_counter)
{
  meet(4, 4, 4096);
  const busq_ring ring = busq_bus_ring(company_bus, 0);
  all_queues_stand_at((UINT64_C(1) << (BUSQ_RING_LAP_BITS + ring.lap_shift)) - 20);
  three_meet();
  they_talk(40);
  CHECK(busq_ring_lap(&ring, busq_ring_tail(&company_peers[0]->receiver.ring)) < BUSQ_RING_USED + 10);
}

TEST(test_queues_go_over_the_position_where_32_bits_end)
{
  meet(4, 4, 4096);
  all_queues_stand_at((UINT64_C(1) << 32) - 20);
  three_meet();
  they_talk(40);
}

/* All get what was sent with success; then the queue reports its end, to its senders and to its reader. */
TEST(test_a_queue_at_the_end_of_its_positions_refuses_and_loses_nothing)
{
  meet(4, 4, 4096);
  all_queues_stand_at(BUSQ_RING_POSITION_MASK - 9);
  busq_peer *alice = join("alice"), *bob = join("bob"), *carol = join("carol");
  int n_sent = 0, result;
  while ((result = say(alice, "bob", "m")) == BUSQ_OK && n_sent < 100) {
    hears(bob, "m");
    n_sent++;
  }
  CHECK_EQUAL(result, BUSQ_CORRUPT);
  CHECK(n_sent > 0);
  /* A multicast must not reach the others alone. */
  CHECK_EQUAL(say(alice, "bob carol", "both"), BUSQ_CORRUPT);
  hears(carol, "");
  said(alice, "carol alice", "we go on");
  hears(carol, "we go on");
  hears(alice, "we go on");
  leave(bob);
}

/* ---- lives ---- */

TEST(test_incarnations_begin_again_after_the_last)
{
  meet(4, 4, 4096);
  all_slots_had(UINT32_MAX - 2);
  for (int life = 0; life < 5; life++) {
    three_meet();
    they_talk(5);
    leave(company_peers[0]);
    leave(company_peers[1]);
    leave(company_peers[2]);
  }
}

/* The queue has only 11 bits for its lives; a peer that knows an earlier one still is not taken for a contemporary. */
TEST(test_a_name_can_be_joined_more_often_than_a_queue_counts_lives)
{
  enum { LIVES = 5000 };
  meet(4, 4, 4096);
  busq_peer *alice = join("alice");
  uint64_t first_bob = 0;
  for (int life = 0; life < LIVES; life++) {
    busq_peer *bob = join("bob");
    if (life == 0)
      CHECK_EQUAL(busq_peer_lookup(alice, "bob", 3, &first_bob), BUSQ_OK);
    else
      CHECK_EQUAL(busq_peer_send(alice, &first_bob, 1, "old", 3, 0), BUSQ_PEER_DEAD);
    said(alice, "bob", "new");
    hears(bob, "new");
    leave(bob);
  }
}

/* ---- messages ---- */

TEST(test_sequence_numbers_begin_again_after_the_last)
{
  meet(4, 4, 4096);
  for (uint32_t slot = 0; slot < 4; slot++)
    company_bus->slots[slot].sequence_reserved = (UINT64_C(1) << 54) - 50;
  three_meet();
  they_talk(60);
}

TEST(test_the_highest_sequence_number_of_all_does_no_harm)
{
  meet(4, 4, 4096);
  for (uint32_t slot = 0; slot < 4; slot++)
    company_bus->slots[slot].sequence_reserved = UINT64_MAX - 50;
  three_meet();
  they_talk(60);
}

TEST(test_generations_of_memory_begin_again_after_the_last)
{
  meet(4, 8, 16384);
  for (uint64_t extent = 0; extent < company_bus->geometry.extents; extent++)
    company_bus->table[extent].word = (uint64_t)(UINT32_MAX - 3) << 32;
  busq_peer *alice = join("alice"), *bob = join("bob");
  static char large[9000];
  memset(large, 'l', sizeof large - 1);
  for (int round = 0; round < 20; round++) {
    uint64_t target;
    busq_message message;
    CHECK_EQUAL(busq_peer_lookup(alice, "bob", 3, &target), BUSQ_OK);
    CHECK_EQUAL(busq_peer_send(alice, &target, 1, large, sizeof large, 0), BUSQ_OK);
    CHECK_EQUAL(take_now(bob, &message), BUSQ_OK);
    CHECK(message.size_bytes == sizeof large && memcmp(message.data, large, sizeof large) == 0);
    busq_peer_release(bob, &message);
    said(alice, "alice bob", "small");
    hears(alice, "small");
    hears(bob, "small");
    leave(alice);
    alice = join("alice");
  }
  leave(alice);
  leave(bob);
  CHECK_EQUAL(used_bytes(), 0);
}

TEST(test_a_wish_for_memory_is_heard_when_its_counter_begins_again)
{
  static char payload[12000];
  meet(3, 64, 16384);
  busq_peer *hoarder = join("hoarder"), *bob = join("bob"), *large = join("large");
  uint64_t to_bob;
  company_bus->header->memory_wanted = UINT32_MAX;
  hoarder->sender.memory_wanted_seen = bob->sender.memory_wanted_seen = large->sender.memory_wanted_seen = UINT32_MAX;
  CHECK_EQUAL(busq_peer_lookup(large, "bob", 3, &to_bob), BUSQ_OK);
  /* The hoarder keeps extents for small messages that are not needed any more. */
  for (int i = 0; i < 64; i++)
    CHECK_EQUAL(busq_peer_send(hoarder, &to_bob, 1, payload, 200, 0), BUSQ_OK);
  busq_message message;
  while (take_now(bob, &message) == BUSQ_OK)
    busq_peer_release(bob, &message);
  CHECK(hoarder->sender.arena.owned > 0);
  CHECK_EQUAL(busq_peer_send(large, &to_bob, 1, payload, sizeof payload, 0), BUSQ_FULL);
  CHECK_EQUAL(company_bus->header->memory_wanted, 0);
  hears(hoarder, ""); /* looks, and sees the wish */
  CHECK_EQUAL(busq_peer_send(large, &to_bob, 1, payload, sizeof payload, 0), BUSQ_OK);
}

/* ---- sleeping and waking ---- */

typedef struct {
  uint32_t is_there;
  uint32_t has_heard;
} signals;

static void reader_body(void *argument)
{
  signals *shared = argument;
  busq_message message;
  arrive();
  busq_peer *reader = join("reader");
  tell(&shared->is_there);
  for (uint32_t i = 0; i < 8; i++) {
    CHECK_EQUAL(take_patiently(reader, &message), BUSQ_OK);
    busq_peer_release(reader, &message);
    tell(&shared->has_heard);
  }
  leave(reader);
}

static uint64_t time_now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void sleep_ms(long duration_ms)
{
  const struct timespec pause = {0, duration_ms * 1000000};
  nanosleep(&pause, NULL);
}

/* Slow code is slow every time; delays by a busy machine are not. */
static void quick_in_one_of_many_tries(bool (*is_quick)(void))
{
  bool was_quick = false;
  for (int tries = 0; tries < 50 && !was_quick; tries++)
    was_quick = is_quick();
  CHECK(was_quick);
}

/* A slice of sleep is 50 ms: a reader that is heard sooner, several times, was woken and did not just look again. */
static bool readers_are_woken_quickly(void)
{
  signals *shared = shared_memory(sizeof *shared);
  meet(4, 4, 4096);
  for (uint32_t slot = 0; slot < 4; slot++)
    company_bus->slots[slot].wake_seq = UINT32_MAX - 3;
  busq_peer *alice = join("alice");
  const pid_t child = in_a_child(reader_body, shared);
  wait_for(&shared->is_there, 1);
  unsigned n_quick = 0;
  for (uint32_t i = 0; i < 8; i++) {
    sleep_ms(5);
    const uint64_t sent_ns = time_now_ns();
    said(alice, "reader", "wake up");
    wait_for(&shared->has_heard, i + 1);
    n_quick += time_now_ns() - sent_ns < 10000000;
  }
  ends_well(child);
  munmap(shared, sizeof *shared);
  return n_quick >= 4;
}

TEST(test_readers_are_woken_when_their_sequence_begins_again)
{
  quick_in_one_of_many_tries(readers_are_woken_quickly);
}

static void slow_reader_body(void *argument)
{
  signals *shared = argument;
  busq_message message;
  arrive();
  busq_peer *reader = join("reader");
  tell(&shared->is_there);
  for (uint32_t i = 0; i < 20; i++) {
    sleep_ms(5);
    CHECK_EQUAL(take_patiently(reader, &message), BUSQ_OK);
    busq_peer_release(reader, &message);
  }
  leave(reader);
}

/* Each has to wait for the one before, and the reader takes 100 ms altogether; in slices it would be a second. */
static bool twenty_are_sent_quickly(size_t size_bytes)
{
  static char payload[14000];
  signals *shared = shared_memory(sizeof *shared);
  busq_peer *alice = join("alice");
  const pid_t child = in_a_child(slow_reader_body, shared);
  wait_for(&shared->is_there, 1);
  const uint64_t begin_ns = time_now_ns();
  uint64_t target;
  CHECK_EQUAL(busq_peer_lookup(alice, "reader", 6, &target), BUSQ_OK);
  for (int i = 0; i < 20; i++)
    CHECK_EQUAL(say_patiently(alice, &target, 1, payload, size_bytes), BUSQ_OK);
  ends_well(child);
  const uint64_t took_ns = time_now_ns() - begin_ns;
  munmap(shared, sizeof *shared);
  return took_ns < 500000000;
}

static bool senders_that_wait_for_room_are_woken_quickly(void)
{
  meet(4, 2, 4096);
  for (uint32_t slot = 0; slot < 4; slot++)
    company_bus->slots[slot].room_seq = UINT32_MAX - 3;
  return twenty_are_sent_quickly(1);
}

TEST(test_senders_are_woken_when_the_sequence_of_room_begins_again)
{
  quick_in_one_of_many_tries(senders_that_wait_for_room_are_woken_quickly);
}

static bool senders_that_wait_for_memory_are_woken_quickly(void)
{
  meet(3, 64, 16384); /* the memory holds one of them at a time */
  for (uint32_t slot = 0; slot < 3; slot++)
    company_bus->slots[slot].memory_seq = UINT32_MAX - 3;
  return twenty_are_sent_quickly(14000);
}

TEST(test_senders_are_woken_when_the_sequence_of_memory_begins_again)
{
  quick_in_one_of_many_tries(senders_that_wait_for_memory_are_woken_quickly);
}

static bool is_readable(int fd)
{
  struct pollfd wanted = {.fd = fd, .events = POLLIN};
  return poll(&wanted, 1, 0) == 1;
}

TEST(test_a_descriptor_tells_when_the_number_of_its_arming_begins_again)
{
  int fd;
  meet(4, 4, 4096);
  busq_peer *alice = join("alice"), *bob = join("bob");
  CHECK_EQUAL(busq_peer_fileno(bob, &fd), BUSQ_OK);
  bob->descriptor.epoch = (UINT32_MAX >> 1) - 3;
  company_bus->slots[bob->slot].wake_flags = 0; /* as if just signalled: the next look arms it anew */
  for (int i = 0; i < 10; i++) {
    hears(bob, "");
    CHECK(!is_readable(fd));
    said(alice, "bob", "m");
    CHECK(is_readable(fd));
    hears(bob, "m");
    CHECK(!is_readable(fd));
  }
  CHECK(bob->descriptor.epoch && bob->descriptor.epoch < 40); /* two for each arming: the odd ones are of deep sleeps */
}

/* ---- what is only counted ---- */

TEST(test_counts_of_messages_begin_again_and_nothing_depends_on_them)
{
  busq_peer_facts facts;
  meet(4, 4, 4096);
  three_meet();
  for (int i = 0; i < 3; i++)
    company_peers[i]->sender.sent = company_peers[i]->receiver.received = company_peers[i]->sender.late = UINT64_MAX - 10;
  they_talk(20);
  CHECK_EQUAL(busq_bus_examine_peer(company_bus, company_peers[0]->slot, &facts), BUSQ_OK);
  CHECK_EQUAL(facts.sent, 40 - 11);
  CHECK_EQUAL(facts.received, 20 - 11);
}

/* ---- clocks ---- */

/* No message is sent with success and then refused by its receiver. */
TEST(test_the_last_timestamps_are_delivered_and_then_the_queue_is_damaged)
{
  meet(4, 8, 4096);
  busq_peer *alice = join("alice"), *bob = join("bob");
  clock_of(bob, BUSQ_TIMESTAMP_MAX - 5);
  int n_sent = 0, n_heard = 0, result;
  busq_message message;
  while ((result = say(alice, "bob", "m")) == BUSQ_OK && n_sent < 8)
    n_sent++;
  CHECK_EQUAL(result, BUSQ_CORRUPT);
  CHECK(clock_now(bob) <= BUSQ_TIMESTAMP_MAX);
  while ((result = take_now(bob, &message)) == BUSQ_OK) {
    busq_peer_release(bob, &message);
    n_heard++;
  }
  CHECK_EQUAL(n_heard, n_sent);
  CHECK_EQUAL(result, BUSQ_EMPTY);
}

/* The clock's end where proposals are lost, so that timestamps come from the seal. */
TEST(test_the_last_timestamps_are_not_passed_by_lost_proposals)
{
  meet(4, 8, 4096);
  busq_peer *alice = join("alice"), *bob = join("bob"), *carol = join("carol");
  clock_of(bob, BUSQ_TIMESTAMP_MAX - 3);
  alice->sender.proposes_stale = true;
  int n_sent = 0, result;
  while ((result = say(alice, "bob carol", "m")) == BUSQ_OK && n_sent < 8)
    n_sent++;
  CHECK_EQUAL(result, BUSQ_CORRUPT);
  CHECK(clock_now(bob) <= BUSQ_TIMESTAMP_MAX && clock_now(carol) <= BUSQ_TIMESTAMP_MAX);
  busq_message message;
  busq_peer *const both[] = {bob, carol};
  for (int i = 0; i < 2; i++) {
    int n_heard = 0;
    while ((result = take_now(both[i], &message)) == BUSQ_OK) {
      busq_peer_release(both[i], &message);
      n_heard++;
    }
    CHECK_EQUAL(n_heard, n_sent);
    CHECK_EQUAL(result, BUSQ_EMPTY);
  }
}

/* A multicast to a sound queue and to a damaged one touches neither. */
TEST(test_a_damaged_clock_is_refused_before_anything_is_touched)
{
  static const uint64_t damages[] = {BUSQ_TIMESTAMP_MAX, BUSQ_TIMESTAMP_MAX + 1, UINT64_MAX - 1, UINT64_MAX};
  for (unsigned i = 0; i < sizeof damages / sizeof *damages; i++) {
    meet(4, 8, 4096);
    busq_peer *alice = join("alice"), *bob = join("bob"), *carol = join("carol");
    clock_of(carol, damages[i]);
    CHECK_EQUAL(say(alice, "bob carol", "m"), BUSQ_CORRUPT);
    CHECK(strstr(busq_error_text(), "damaged"));
    CHECK_EQUAL(say(alice, "carol", "m"), BUSQ_CORRUPT);
    CHECK(clock_now(bob) < 10);
    hears(bob, "");
    said(alice, "bob alice", "we go on");
    hears(bob, "we go on");
    hears(alice, "we go on");
  }
}

/* It can't have come there by counting: a nanosecond is less than a tick takes, and this machine has not run that
 * long. */
TEST(test_a_clock_that_jumped_is_refused_and_nobody_follows_it)
{
  static const uint64_t damages[] = {UINT64_C(1) << 61, BUSQ_TIMESTAMP_MAX - 100, BUSQ_TIMESTAMP_MAX - 1};
  for (unsigned i = 0; i < sizeof damages / sizeof *damages; i++) {
    meet(4, 8, 4096);
    busq_peer *alice = join("alice"), *bob = join("bob"), *carol = join("carol");
    clock_of(carol, damages[i]);
    CHECK_EQUAL(say(alice, "bob carol", "m"), BUSQ_CORRUPT);
    CHECK_EQUAL(say(alice, "carol", "m"), BUSQ_CORRUPT);
    CHECK(clock_now(bob) < 10 && clock_now(alice) < 10);
    said(alice, "bob", "we go on");
    hears(bob, "we go on");
  }
}

/* The record of a message that bob has not received: its final timestamp is changed to something else. */
static busq_record *record_at_head(const busq_peer *peer)
{
  busq_reference reference;
  CHECK(busq_ring_look(&peer->receiver.ring, peer->self->queue.head, &reference));
  return busq_bus_record(company_bus, reference.record);
}

TEST(test_a_timestamp_that_jumped_is_refused_and_its_receiver_does_not_follow_it)
{
  static const uint64_t damages[] = {UINT64_C(1) << 61, BUSQ_TIMESTAMP_MAX - 1, BUSQ_TIMESTAMP_MAX, UINT64_MAX};
  busq_message message;
  for (unsigned i = 0; i < sizeof damages / sizeof *damages; i++) {
    meet(4, 8, 4096);
    busq_peer *alice = join("alice"), *bob = join("bob"), *carol = join("carol");
    said(alice, "bob", "m");
    record_at_head(bob)->state.hi = damages[i];
    CHECK_EQUAL(take_now(bob, &message), BUSQ_CORRUPT);
    said(bob, "carol", "I go on sending");
    hears(carol, "I go on sending");
    CHECK(clock_now(carol) < 10);
  }
}

/* Its sender died before it was committed: the process that finishes it must not take the others' clocks along. */
TEST(test_a_sealed_timestamp_that_jumped_is_not_finished)
{
  static const uint64_t damages[] = {BUSQ_TIMESTAMP_MAX, BUSQ_TIMESTAMP_MAX + 1, UINT64_MAX};
  for (unsigned i = 0; i < sizeof damages / sizeof *damages; i++) {
    meet(4, 8, 4096);
    busq_peer *alice = join("alice"), *bob = join("bob"), *carol = join("carol");
    said(alice, "bob carol", "m");
    busq_record *record = record_at_head(bob);
    record->state = (busq_pair){(record->state.lo & ~UINT64_C(3)) | BUSQ_PHASE_SEALED, damages[i]};
    busq_commit_finish(company_bus, record);
    CHECK(clock_now(bob) < 10 && clock_now(carol) < 10);
  }
}

/* Bob must get an error, instead of waiting for ever for a message that no process can finish. */
TEST(test_what_can_t_be_finished_is_damage_and_not_a_reason_to_wait)
{
  busq_message message;
  uint32_t count;
  meet(4, 8, 4096);
  busq_peer *alice = join("alice"), *bob = join("bob");
  join("carol");
  said(alice, "bob carol", "m");
  busq_record *record = record_at_head(bob);
  record->state = (busq_pair){(record->state.lo & ~UINT64_C(3)) | BUSQ_PHASE_SEALED, UINT64_MAX};
  leave(alice);
  int result = BUSQ_INTERRUPTED;
  for (int slice = 0; slice < 40 && result == BUSQ_INTERRUPTED; slice++)
    result = busq_peer_recv(bob, &message, 1, &count, INT64_C(1000000000));
  CHECK_EQUAL(result, BUSQ_CORRUPT);
}

/* ---- attempts ---- */

/* A dead sender's message in its last attempt is undone without becoming the first attempt of the next message. */
TEST(test_the_last_attempt_of_a_dead_sender_is_not_mistaken_for_the_next_message)
{
  meet(4, 8, 4096);
  busq_peer *alice = join("alice"), *bob = join("bob");
  join("carol");
  said(alice, "bob carol", "m");
  busq_record *record = record_at_head(bob);
  const uint64_t sequence = record->state.lo >> 10;
  record->state = (busq_pair){busq_record_tag(sequence, 255) | BUSQ_PHASE_STAGING, 0};
  busq_commit_finish(company_bus, record);
  CHECK_EQUAL(record->state.lo & 3, BUSQ_PHASE_FREE);
  hears(bob, "");
  said(alice, "bob carol", "next");
  hears(bob, "next");
}
