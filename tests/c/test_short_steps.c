/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring is short until it needs to be whole (queue/ring.h), wherever its tail is by then; on a full disk it stays short,
 * and goes on.  The disk is played: there is memory for the rest of a ring, or there is not.
 */
#include "base/atomic.h"
#include "harness/company.h"
#include "harness/played_disk.h"
#include "harness/test.h"
#include "shm/memory/peer.h"

#define CAPACITY 40u /* of a ring of 64 slots */
#define SHORT 16u
#define REST_BYTES ((64 - SHORT) * sizeof(busq_pair))

static busq_peer *alice, *bob, *carol;
static int n_asked; /* for the rest of a ring */

static bool disk_lacks(int mode, off_t bytes)
{
  if (mode != 0 || (uint64_t)bytes != REST_BYTES)
    return false;
  n_asked++;
  return disk_is_full;
}

static void three_meet(void)
{
  busq_ring_short = SHORT;
  company_is_late = 1;
  n_asked = 0;
  disk_is_full = false;
  meet(5, CAPACITY, 1 << 18);
  alice = join("alice");
  bob = join("bob");
  carol = join("carol");
}

static bool is_whole(const busq_peer *peer)
{
  return (busq_load_acquire(&peer->receiver.ring.queue->backing) & BUSQ_RING_WHOLE) != 0;
}

static unsigned n_said, n_heard;

static int say_next(busq_peer *sender, const char *to)
{
  char text[16];
  snprintf(text, sizeof text, "%u", n_said);
  const int result = say(sender, to, text);
  n_said += result == BUSQ_OK;
  CHECK(busq_ring_verify(&bob->receiver.ring));
  return result;
}

static void hear_next(busq_peer *peer)
{
  char text[16];
  busq_message message;
  snprintf(text, sizeof text, "%u", n_heard++);
  CHECK_EQUAL(take_now(peer, &message), BUSQ_OK);
  CHECK(message.size_bytes == strlen(text) && memcmp(message.data, text, message.size_bytes) == 0);
  busq_peer_release(peer, &message);
  CHECK(busq_ring_verify(&peer->receiver.ring));
}

static void say_so_many(unsigned count)
{
  for (unsigned i = 0; i < count; i++)
    CHECK_EQUAL(say_next(i % 3 ? alice : carol, "bob"), BUSQ_OK);
}

static void hear_so_many(unsigned count)
{
  for (unsigned i = 0; i < count; i++)
    hear_next(bob);
}

static void begin(void)
{
  n_said = n_heard = 0;
  three_meet();
}

TEST(test_a_queue_whose_reader_keeps_up_stays_short)
{
  begin();
  for (int lap = 0; lap < 1000; lap++) {
    say_so_many(SHORT / 2);
    hear_so_many(SHORT / 2);
  }
  CHECK(!is_whole(bob) && n_asked == 0);
}

TEST(test_a_ring_becomes_whole_wherever_its_tail_is)
{
  for (unsigned before = 0; before < 3 * SHORT; before++) {
    begin();
    for (unsigned i = 0; i < before; i++) {
      say_so_many(1);
      hear_so_many(1);
    }
    CHECK(!is_whole(bob));
    say_so_many(CAPACITY);
    CHECK(is_whole(bob));
    CHECK_EQUAL(say_next(alice, "bob"), BUSQ_FULL);
    for (int lap = 0; lap < 5; lap++) {
      hear_so_many(CAPACITY / 2);
      say_so_many(CAPACITY / 2);
    }
    hear_so_many(CAPACITY);
    hears(bob, "");
  }
}

TEST(test_a_short_ring_on_a_full_disk_is_a_small_ring_and_becomes_whole_when_there_is_memory)
{
  for (unsigned before = 0; before < 2 * SHORT; before++) {
    begin();
    say_so_many(1);
    hear_so_many(1);
    disk_is_full = true;
    for (unsigned i = 0; i < before; i++) {
      say_so_many(SHORT - 2);
      hear_so_many(SHORT - 2);
      say_so_many(1);
      hear_so_many(1);
    }
    for (int lap = 0; lap < 40; lap++) {
      say_so_many(SHORT - (n_said - n_heard));
      CHECK_EQUAL(say_next(alice, "bob"), BUSQ_FULL);
      hear_so_many(1 + (unsigned)lap % SHORT);
    }
    CHECK(!is_whole(bob) && n_asked > 0);
    say_so_many(SHORT - (n_said - n_heard));
    disk_is_full = false;
    say_so_many(CAPACITY - SHORT); /* in the middle of a lap, and none was received */
    CHECK(is_whole(bob));
    hear_so_many(CAPACITY);
    hears(bob, "");
  }
}

/* ---- others are faster ---- */

static void (*hooked)(void);
static bool is_stopped_behind; /* its place; or before it */

static void at_place(const char *where)
{
  if (is_stopped_behind ? strcmp(where, "publish") != 0 : strcmp(where, "place") != 0 && strcmp(where, "backing") != 0)
    return;
  busq_step_hook = NULL;
  hooked();
}

static void carol_fills(void)
{
  while (say_next(carol, "bob") == BUSQ_OK)
    ;
}

/* All but one of the places are taken; alice looks for room, and carol takes the rest. */
static int say_where_another_is_faster(const char *to, bool is_full)
{
  begin();
  say_so_many(SHORT - 1);
  disk_is_full = is_full;
  hooked = carol_fills;
  busq_step_hook = at_place;
  const int result = say(alice, to, "late");
  CHECK(!busq_step_hook); /* it was there */
  return result;
}

TEST(test_a_sender_that_began_with_room_waits_where_another_took_the_last_of_a_ring_that_stays_short)
{
  CHECK_EQUAL(say_where_another_is_faster("bob", true), BUSQ_FULL);
  hear_so_many(SHORT);
  hears(bob, "");
  CHECK_EQUAL(say(alice, "bob", "now"), BUSQ_OK);
  hears(bob, "now");
}

TEST(test_a_multicast_that_finds_a_short_ring_full_is_taken_back_everywhere)
{
  CHECK_EQUAL(say_where_another_is_faster("bob carol", true), BUSQ_FULL);
  hears(carol, "");
  hear_so_many(SHORT);
  CHECK_EQUAL(say(alice, "bob carol", "now"), BUSQ_OK);
  hears(bob, "now");
  hears(carol, "now");
}

static void carol_sends_one(void)
{
  CHECK_EQUAL(say_next(carol, "bob"), BUSQ_OK);
}

TEST(test_a_sender_goes_on_where_another_has_made_the_ring_whole)
{
  begin();
  say_so_many(SHORT);
  hooked = carol_sends_one; /* between memory and the swap */
  busq_step_hook = at_place;
  CHECK_EQUAL(say(alice, "bob", "behind"), BUSQ_OK);
  CHECK(!busq_step_hook && is_whole(bob));
  hear_so_many(SHORT + 1);
  hears(bob, "behind");
}

static void bob_hears_and_carol_sends(void)
{
  hear_so_many(SHORT);
  for (unsigned i = 0; i < SHORT / 2; i++)
    carol_sends_one();
}

TEST(test_a_ring_that_moved_on_meanwhile_becomes_whole_at_no_position_that_was_passed)
{
  begin();
  say_so_many(SHORT);
  hooked = bob_hears_and_carol_sends; /* which moves the end on */
  busq_step_hook = at_place;
  CHECK_EQUAL(say(alice, "bob", "behind"), BUSQ_OK);
  CHECK(!busq_step_hook && !is_whole(bob));
  hear_so_many(SHORT / 2);
  hears(bob, "behind");
}

/* Alice's place is skipped, and so far behind when the ring becomes whole that it is no place in it. */
static void others_leave_alice_behind(void)
{
  busq_message message;
  for (unsigned i = 0; i < SHORT - 1; i++)
    carol_sends_one();
  CHECK_EQUAL(take_patiently(bob, &message), BUSQ_OK);
  busq_peer_release(bob, &message);
  n_heard++;
  hear_so_many(SHORT - 4);
  for (unsigned i = 0; i < SHORT - 1; i++)
    carol_sends_one();
  CHECK(is_whole(bob));
}

TEST(test_a_message_whose_sender_stood_still_until_the_ring_was_whole_is_received)
{
  begin();
  hooked = others_leave_alice_behind;
  is_stopped_behind = true;
  busq_step_hook = at_place;
  CHECK_EQUAL(say(alice, "bob", "late"), BUSQ_OK);
  is_stopped_behind = false;
  hear_so_many(n_said - n_heard);
  hears(bob, "late");
}

/* ---- what ends meanwhile ---- */

static busq_peer *worker;

static void jobs_end(void)
{
  uint64_t jobs;
  CHECK_EQUAL(look_up(carol, "jobs", &jobs), 1);
  CHECK_EQUAL(busq_bus_end_queue(company_bus, jobs, 0), BUSQ_OK);
}

static int send_where_the_queue_ends(bool is_promised)
{
  three_meet();
  if (is_promised)
    busq_peer_send_behind(alice);
  worker = join_as("jobs", BUSQ_JOIN_SHARED);
  for (unsigned i = 0; i < SHORT; i++)
    said(carol, "jobs", "x");
  hooked = jobs_end; /* between memory and the swap */
  busq_step_hook = at_place;
  return say(alice, "jobs", "late");
}

static void worker_leaves(void)
{
  CHECK_EQUAL(busq_peer_close(worker), BUSQ_OK);
  busq_peer_free(worker);
}

TEST(test_a_queue_that_ends_while_a_sender_asks_for_memory_refuses_it)
{
  CHECK_EQUAL(send_where_the_queue_ends(false), BUSQ_SHUTDOWN);
  hears(worker, "x x x x x x x x x x x x x x x x");
  worker_leaves();
}

TEST(test_what_was_promised_a_place_gets_it_behind_the_end_of_a_ring_that_becomes_whole)
{
  CHECK_EQUAL(send_where_the_queue_ends(true), BUSQ_OK);
  hears(worker, "x x x x x x x x x x x x x x x x late");
  worker_leaves();
}

/* ---- several readers ---- */

TEST(test_a_reader_of_several_keeps_more_than_a_short_ring_where_there_is_memory)
{
  busq_message kept[SHORT + 2];
  uint32_t count;
  three_meet();
  worker = join_as("jobs", BUSQ_JOIN_SHARED);
  for (unsigned i = 0; i < SHORT + 2; i++)
    said(carol, "jobs", "x");
  for (unsigned i = 0; i < SHORT; i++)
    CHECK_EQUAL(busq_peer_recv(worker, &kept[i], 1, &count, 0), BUSQ_OK);
  disk_is_full = true;
  CHECK_EQUAL(busq_peer_recv(worker, &kept[SHORT], 1, &count, 0), BUSQ_NO_SPACE);
  busq_peer_release(worker, &kept[3]);
  CHECK_EQUAL(busq_peer_recv(worker, &kept[3], 1, &count, 0), BUSQ_OK);
  disk_is_full = false;
  CHECK_EQUAL(busq_peer_recv(worker, &kept[SHORT], 1, &count, 0), BUSQ_OK);
  for (unsigned i = 0; i <= SHORT; i++)
    busq_peer_release(worker, &kept[i]);
  worker_leaves();
}

TEST(test_a_reader_of_several_takes_what_it_copies_where_it_can_keep_no_more)
{
  busq_message kept[SHORT], copied;
  uint32_t count;
  three_meet();
  worker = join_as("jobs", BUSQ_JOIN_SHARED);
  for (unsigned i = 0; i < SHORT; i++)
    said(carol, "jobs", "x");
  for (unsigned i = 0; i < SHORT; i++)
    CHECK_EQUAL(busq_peer_recv(worker, &kept[i], 1, &count, 0), BUSQ_OK);
  disk_is_full = true;
  said(carol, "jobs", "y");
  said(carol, "jobs", "z");
  CHECK_EQUAL(busq_peer_recv(worker, &copied, 1, &count, 0), BUSQ_NO_SPACE);
  CHECK_EQUAL(busq_peer_recv_as(worker, BUSQ_TAKE_COPIED, &copied, 1, &count, 0), BUSQ_OK);
  CHECK_EQUAL(busq_peer_receive_begin(worker), BUSQ_OK);
  CHECK_EQUAL(busq_peer_receive_peek_to_copy(worker, 1, &copied), BUSQ_NO_SPACE);
  CHECK_EQUAL(busq_peer_receive_peek_to_copy(worker, 2, &copied), BUSQ_OK);
  CHECK(copied.size_bytes == 1 && *(const char *)copied.data == 'z' && !copied.is_redelivered);
  busq_peer_receive_take(worker, BUSQ_TAKE_COPIED);
  busq_peer_receive_end(worker);
  for (unsigned i = 0; i < SHORT; i++)
    busq_peer_release(worker, &kept[i]);
  hears(worker, "");
  worker_leaves();
}

/* ---- the next life of a slot ---- */

TEST(test_the_next_reader_of_a_slot_goes_on_with_the_ring_as_it_is)
{
  begin();
  for (int life = 0; life < 40; life++) {
    say_so_many(SHORT - 3);
    hear_so_many(SHORT - 3);
    leave(bob);
    bob = join("bob");
  }
  CHECK(!is_whole(bob));
  say_so_many(CAPACITY);
  leave(bob);
  bob = join("bob");
}

/* ---- damage ---- */

TEST(test_a_reader_follows_its_senders_where_the_backing_was_damaged)
{
  const uint64_t damages[] = {BUSQ_RING_WHOLE | 1000, 1000, UINT64_MAX, BUSQ_RING_WHOLE};
  for (unsigned i = 0; i < sizeof damages / sizeof damages[0]; i++) {
    begin();
    say_so_many(SHORT + 5);
    hear_so_many(SHORT + 5);
    busq_store_relaxed(&bob->self->queue.backing, damages[i]);
    for (unsigned n = 0; n < 2 * SHORT; n++) {
      busq_message message;
      CHECK_EQUAL(say(alice, "bob", "x"), BUSQ_OK);
      CHECK_EQUAL(take_patiently(bob, &message), BUSQ_OK);
      busq_peer_release(bob, &message);
    }
  }
}
