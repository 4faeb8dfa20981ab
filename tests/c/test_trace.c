/* SPDX-License-Identifier: Apache-2.0 */
/* The ring that carries events, and the recorder that empties it: wraps, drops, holes, threads, deaths, damage. */
#include "harness/company.h"
#include "harness/test.h"
#include "record/recorder.h"
#include "shm/memory/peer.h"
#include "shm/message/claim.h"
#include "shm/trace/rings.h"
#include "trace/event_ring.h"
#include <pthread.h>

enum { SIZE = 256 };

static busq_trace_shared shared;
static busq_trace_record records[SIZE];

static busq_trace_ring new_ring(void)
{
  memset(&shared, 0, sizeof shared);
  memset(records, 0, sizeof records);
  return (busq_trace_ring){.shared = &shared, .records = records, .size = SIZE, .limit = SIZE};
}

static bool write_event(busq_trace_ring *ring, uint64_t message)
{
  uint64_t position;
  if (!busq_trace_ring_reserve(ring, 1, &position)) {
    busq_trace_ring_drop(ring, BUSQ_TRACE_SENDING, 1);
    return false;
  }
  busq_trace_ring_at(ring, position)->message = message;
  busq_trace_ring_publish(ring, position, BUSQ_TRACE_DONE);
  return true;
}

/* ---- the ring ---- */

TEST(test_events_come_out_as_they_went_in_over_many_laps)
{
  busq_trace_ring ring = new_ring();
  busq_trace_record found;
  for (uint64_t number = 0; number < 10 * SIZE + 7; number++) {
    CHECK(write_event(&ring, number));
    CHECK_EQUAL(busq_trace_ring_look(&ring, number, &found), BUSQ_TRACE_LOOK_DONE);
    CHECK_EQUAL(found.message, number);
    shared.head = number + 1;
    CHECK_EQUAL(busq_trace_ring_look(&ring, number + 1, &found), BUSQ_TRACE_LOOK_NOTHING);
  }
}

TEST(test_a_full_ring_drops_and_counts_and_goes_on_when_a_quarter_is_free)
{
  busq_trace_ring ring = new_ring();
  for (uint64_t number = 0; number < SIZE; number++)
    CHECK(write_event(&ring, number));
  for (int i = 0; i < 5; i++)
    CHECK(!write_event(&ring, 0));
  CHECK_EQUAL(busq_trace_ring_dropped(&ring), 5);
  CHECK_EQUAL(shared.tail, SIZE);
  shared.head = SIZE / 4;
  CHECK(!busq_trace_ring_has_room(&ring));
  CHECK(!write_event(&ring, 0));
  shared.head = SIZE / 4 + 1;
  CHECK(busq_trace_ring_has_room(&ring));
  for (uint64_t number = 0; number <= SIZE / 4; number++)
    CHECK(write_event(&ring, SIZE + number));
  CHECK(!write_event(&ring, 0));
  CHECK_EQUAL(busq_trace_ring_dropped(&ring), 7);
  shared.head = shared.tail;
  for (uint64_t number = 0; number < SIZE; number++) /* all of it may be used again */
    CHECK(write_event(&ring, number));
  CHECK(!write_event(&ring, 0));
}

/* Two that fit one by one: one after the other, whatever was dropped before. */
TEST(test_what_is_large_goes_into_an_empty_ring)
{
  busq_trace_ring ring = new_ring();
  const uint32_t large = SIZE - SIZE / 8;
  uint64_t position;
  for (int turn = 0; turn < 3; turn++) {
    CHECK(busq_trace_ring_reserve(&ring, large, &position));
    CHECK(!busq_trace_ring_reserve(&ring, large, &position));
    shared.head = shared.tail;
  }
}

/* Thread 1 reads the tail and is held up; others fill a lap, and the recorder takes it. */
TEST(test_a_ring_is_not_full_for_whoever_was_held_up)
{
  busq_trace_ring ring = new_ring();
  const uint64_t tail_of_thread_1 = shared.tail;
  for (uint64_t number = 0; number < SIZE; number++)
    CHECK(write_event(&ring, number));
  shared.head = SIZE;
  CHECK(write_event(&ring, SIZE));
  CHECK(busq_trace_ring_fits(&ring, tail_of_thread_1, 1));
}

TEST(test_what_a_lap_before_has_left_is_never_taken_for_an_event)
{
  busq_trace_ring ring = new_ring();
  busq_trace_record found;
  uint64_t position;
  for (uint64_t number = 0; number < SIZE; number++)
    CHECK(write_event(&ring, number));
  shared.head = SIZE;
  CHECK(busq_trace_ring_reserve(&ring, 1, &position));
  CHECK_EQUAL(busq_trace_ring_look(&ring, SIZE, &found), BUSQ_TRACE_LOOK_HOLE);
  busq_trace_ring_publish(&ring, position, BUSQ_TRACE_BEGUN);
  CHECK_EQUAL(busq_trace_ring_look(&ring, SIZE, &found), BUSQ_TRACE_LOOK_BEGUN);
}

TEST(test_a_ring_whose_words_contradict_each_other_is_damaged)
{
  busq_trace_ring ring = new_ring();
  busq_trace_record found;
  shared.tail = SIZE + 1;
  CHECK_EQUAL(busq_trace_ring_look(&ring, 0, &found), BUSQ_TRACE_LOOK_DAMAGED);
  shared.tail = 3;
  CHECK_EQUAL(busq_trace_ring_look(&ring, 4, &found), BUSQ_TRACE_LOOK_DAMAGED);
}

enum { WRITERS = 3, EVENTS = 20000 };
static busq_trace_ring threads_ring;

static void *write_many(void *argument)
{
  const uint64_t writer = (uint64_t)(uintptr_t)argument;
  for (uint64_t number = 1; number <= EVENTS; number += write_event(&threads_ring, writer << 32 | number))
    sched_yield();
  return NULL;
}

TEST(test_threads_write_at_once_and_every_event_comes_once_and_in_order)
{
  pthread_t threads[WRITERS];
  uint64_t last[WRITERS] = {0}, position = 0;
  busq_trace_record found;
  threads_ring = new_ring();
  for (uint64_t i = 0; i < WRITERS; i++)
    CHECK_EQUAL(pthread_create(&threads[i], NULL, write_many, (void *)(uintptr_t)i), 0);
  while (position < WRITERS * EVENTS) {
    if (busq_trace_ring_look(&threads_ring, position, &found) != BUSQ_TRACE_LOOK_DONE) {
      sched_yield();
      continue;
    }
    const uint64_t writer = found.message >> 32;
    CHECK(writer < WRITERS);
    CHECK_EQUAL(found.message & UINT32_MAX, ++last[writer]);
    busq_store_release(&shared.head, ++position);
  }
  for (uint64_t i = 0; i < WRITERS; i++)
    CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
}

/* ---- the recorder ---- */

static busq_recorder *recording; /* ends with its test */

static void end(busq_recorder *recorder)
{
  busq_recorder_stop(recorder);
  busq_recorder_free(recorder);
  recording = NULL;
}

static void end_and_part(void)
{
  if (recording)
    end(recording);
  part();
}

static busq_recorder *begin(uint32_t ring_records)
{
  if (busq_recorder_open(company_bus, ring_records, &recording) != BUSQ_OK)
    check_fail(__FILE__, __LINE__, "can't record: %s", busq_error_text());
  check_after = end_and_part;
  return recording;
}

static busq_recorder *meet_and_begin(uint32_t peers, uint32_t capacity, uint64_t arena_bytes)
{
  meet(peers, capacity, arena_bytes);
  return begin(256);
}

static void settle(busq_recorder *recorder)
{
  for (int pass = 0; pass < 3; pass++) {
    CHECK_EQUAL(busq_recorder_drain(recorder), BUSQ_OK);
    CHECK_EQUAL(busq_recorder_settle(recorder, 0), BUSQ_OK);
  }
}

/* The rows of a process as a text: S1 D0.1 G3 ... */
static const char *told(busq_recorder *recorder, uint32_t process)
{
  static char text[4096];
  static const char letters[] = "DSLRATEBJQG";
  size_t used = 0;
  text[0] = '\0';
  busq_trace_columns *found = NULL;
  busq_recorder_take(recorder, process, &found);
  for (uint64_t i = 0; found && i < found->n_rows; i++) {
    const int64_t message = found->message[i];
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%c", used ? " " : "", letters[found->kind[i]]);
    if (found->has_message[i / 8] >> (i % 8) & 1)
      used += (size_t)snprintf(text + used, sizeof text - used, "%d.%d", (int)(message >> 32), (int)(message & 0xffff));
    if (found->kind[i] == BUSQ_TRACE_GAP)
      used += (size_t)snprintf(text + used, sizeof text - used, "%lld", (long long)found->stamp[i]);
    for (int32_t to = found->to_start[i]; to < found->to_start[i + 1] && found->kind[i] == BUSQ_TRACE_SEND; to++)
      used += (size_t)snprintf(text + used, sizeof text - used, ">%d", found->to[to]);
  }
  busq_trace_columns_free(found);
  return text;
}

static busq_recorder_facts facts_of(busq_recorder *recorder)
{
  busq_recorder_facts facts;
  CHECK_EQUAL(busq_recorder_examine(recorder, &facts), BUSQ_OK);
  return facts;
}

TEST(test_nothing_is_written_before_and_after_and_what_was_sent_before_is_told_as_such)
{
  meet(4, 8, 4096);
  busq_peer *a = join("a"), *b = join("b");
  said(a, "b", "before");
  busq_recorder *recorder = begin(256);
  CHECK_TEXT(heard(b), "before");
  said(a, "b", "while");
  CHECK_TEXT(heard(b), "while");
  settle(recorder);
  /* The first one met is number 0. */
  CHECK_TEXT(told(recorder, 0), "L D1.1");
  CHECK_TEXT(told(recorder, 1), "S1.1>0");
  CHECK_EQUAL(facts_of(recorder).before, 1);
  busq_recorder_stop(recorder);
  said(a, "b", "after");
  settle(recorder);
  CHECK_TEXT(told(recorder, 0), "");
  busq_recorder_free(recorder);
  recorder = begin(256);
  said(a, "b", "again");
  settle(recorder);
  CHECK_TEXT(told(recorder, 0), "S0.1>1");
}

TEST(test_a_ring_that_nobody_empties_drops_and_messages_do_not_care)
{
  busq_recorder *recorder = meet_and_begin(4, 1024, 1 << 20);
  busq_peer *a = join("a");
  for (int i = 0; i < 300; i++)
    said(a, "a", "x");
  settle(recorder);
  CHECK_EQUAL(facts_of(recorder).events, 255); /* a join takes two places */
  said(a, "a", "y");
  settle(recorder);
  CHECK_EQUAL(facts_of(recorder).dropped, 2 + 300 - 256);
}

TEST(test_a_recorder_goes_on_with_the_rings_of_one_that_was_killed)
{
  busq_recorder *recorder = meet_and_begin(4, 8, 4096);
  busq_peer *a = join("a");
  said(a, "a", "1");
  settle(recorder);
  CHECK_TEXT(told(recorder, 0), "J S0.1>0");
  busq_recorder_mark(recorder);
  busq_recorder_saved(recorder);
  said(a, "a", "2");
  settle(recorder);
  busq_recorder_free(recorder); /* killed: what it had taken and not written is lost */
  said(a, "a", "3");
  recorder = begin(0);
  CHECK_EQUAL(facts_of(recorder).is_continued, 1);
  CHECK_EQUAL(facts_of(recorder).ring_records, 256);
  CHECK_EQUAL(busq_recorder_know(recorder, "a", 1, 2, 2), BUSQ_OK);
  CHECK_EQUAL(busq_recorder_resume(recorder), BUSQ_OK);
  CHECK_TEXT(heard(a), "1 2 3");
  settle(recorder);
  CHECK_TEXT(told(recorder, 0), "G1 S0.3>0 D0.1 D0.2 D0.3");
  CHECK_EQUAL(facts_of(recorder).lost, 1);
}

TEST(test_lives_come_in_turn_in_whichever_slots_they_are)
{
  static const char lives[][2] = {"a", "b", "b", "a", "a", "b", "b", "a"};
  busq_recorder *recorder = meet_and_begin(4, 8, 4096);
  for (int i = 0; i < 8; i += 2) {
    busq_peer *one = join(lives[i]), *other = join(lives[i + 1]);
    said(one, "a b", "x");
    CHECK_TEXT(heard(one), "x");
    CHECK_TEXT(heard(other), "x");
    leave(one);
    leave(other);
  }
  settle(recorder);
  CHECK_TEXT(told(recorder, 0), "J S0.1>0>1 T0.1 T0.1 D0.1 Q J D1.1 Q J S0.2>0>1 T0.2 T0.2 D0.2 Q J D1.2 Q");
  CHECK_TEXT(told(recorder, 1), "J D0.1 Q J S1.1>1>0 T1.1 T1.1 D1.1 Q J D0.2 Q J S1.2>1>0 T1.2 T1.2 D1.2 Q");
}

TEST(test_a_recorder_that_goes_on_knows_whose_events_were_left)
{
  busq_recorder *recorder = meet_and_begin(4, 8, 4096);
  busq_peer *a = join("a");
  said(a, "a", "1");
  settle(recorder);
  busq_recorder_free(recorder); /* killed */
  said(a, "a", "2");
  leave(a);
  busq_peer *b = join("b");
  said(b, "b", "3");
  recorder = begin(0);
  settle(recorder);
  CHECK_TEXT(told(recorder, 0), "G3 S0.1>0 Q");
  CHECK_TEXT(told(recorder, 1), "J S1.1>1");
  busq_recorder_mark(recorder);
  busq_recorder_saved(recorder);
  busq_recorder_free(recorder); /* killed, with all of it written */
  said(b, "b", "4");
  leave(b);
  join("c");
  recorder = begin(0);
  CHECK_EQUAL(busq_recorder_know(recorder, "a", 1, 5, 2), BUSQ_OK);
  CHECK_EQUAL(busq_recorder_know(recorder, "b", 1, 2, 2), BUSQ_OK);
  CHECK_EQUAL(busq_recorder_resume(recorder), BUSQ_OK);
  settle(recorder);
  CHECK_TEXT(told(recorder, 1), "S1.2>1 Q");
}

TEST(test_a_bus_has_one_recorder_at_a_time)
{
  busq_recorder *other;
  meet(4, 8, 4096);
  busq_recorder *recorder = begin(0);
  CHECK_EQUAL(busq_recorder_open(company_bus, 0, &other), BUSQ_EXISTS);
  end(recorder);
  CHECK_EQUAL(busq_recorder_open(company_bus, 100, &other), BUSQ_INVALID);
}

static busq_trace_ring ring_of(const busq_rings *rings, const busq_peer *peer)
{
  const busq_trace_ring ring = busq_rings_ring(rings, peer->slot);
  CHECK(ring.shared->is_there);
  return ring;
}

/* A sends while another thread of A receives, into a ring that is full every other time. */
TEST(test_of_two_threads_of_a_peer_the_first_to_reserve_may_be_the_last_to_count)
{
  busq_recorder *recorder = meet_and_begin(4, 8, 4096);
  busq_peer *a = join("a");
  settle(recorder);
  busq_rings rings;
  CHECK_EQUAL(busq_rings_open(&rings, company_bus), BUSQ_OK);
  busq_trace_ring ring = ring_of(&rings, a);
  uint64_t first, second;
  CHECK(busq_trace_ring_reserve(&ring, 1, &first));
  CHECK(busq_trace_ring_reserve(&ring, 1, &second));
  *busq_trace_ring_at(&ring, second) = (busq_trace_record){.kind = BUSQ_TRACE_BLOCK, .dropped = 4};
  busq_trace_ring_publish(&ring, second, BUSQ_TRACE_DONE);
  busq_trace_ring_drop(&ring, BUSQ_TRACE_RECEIVING, 5);
  *busq_trace_ring_at(&ring, first) = (busq_trace_record){.kind = BUSQ_TRACE_BLOCK, .dropped = 5};
  busq_trace_ring_publish(&ring, first, BUSQ_TRACE_DONE);
  settle(recorder);
  CHECK_EQUAL(facts_of(recorder).dropped, 5);
  busq_rings_close(&rings);
}

TEST(test_thousands_of_millions_may_be_dropped_between_two_events)
{
  busq_recorder *recorder = meet_and_begin(4, 8, 4096);
  busq_peer *a = join("a");
  busq_rings rings;
  settle(recorder);
  CHECK_EQUAL(busq_rings_open(&rings, company_bus), BUSQ_OK);
  ring_of(&rings, a).shared->dropped[BUSQ_TRACE_SENDING] = UINT64_C(3000000000);
  said(a, "a", "x");
  settle(recorder);
  CHECK_TEXT(told(recorder, 0), "J G3000000000 S0.1>0");
  CHECK_EQUAL(facts_of(recorder).dropped, UINT64_C(3000000000));
  busq_rings_close(&rings);
}

/* 64 short lives fill the ring of a slot to the last place; the next life finds no room for its name. */
TEST(test_what_happens_before_a_join_found_room_counts_as_dropped)
{
  busq_recorder *recorder = meet_and_begin(3, 1024, 1 << 20);
  busq_peer *a = join("a");
  settle(recorder);
  for (int life = 0; life < 64; life++) {
    char name[16];
    snprintf(name, sizeof name, "c%02d", life);
    busq_peer *c = join(name);
    said(a, name, "x");
    CHECK_TEXT(heard(c), "x");
    leave(c);
  }
  busq_peer *b = join("b");
  for (int i = 0; i < 10; i++) {
    said(a, "b", "x");
    CHECK_TEXT(heard(b), "x");
  }
  settle(recorder);
  CHECK_EQUAL(facts_of(recorder).dropped, 0);
  said(a, "b", "y");
  CHECK_TEXT(heard(b), "y");
  settle(recorder);
  CHECK_EQUAL(facts_of(recorder).dropped, 10);
  CHECK_TEXT(told(recorder, facts_of(recorder).processes - 1), "G10 D0.75");
}

/* A's last events find no room, and B gets its slot. */
TEST(test_what_was_dropped_is_told_of_who_dropped_it)
{
  busq_recorder *recorder = meet_and_begin(3, 1024, 1 << 20);
  busq_peer *s = join("s"), *a = join("a");
  for (int i = 0; i < 127; i++) { /* 2 + 254: to the last place */
    said(a, "a", "x");
    CHECK_TEXT(heard(a), "x");
  }
  for (int i = 0; i < 7; i++) {
    said(s, "a", "y");
    CHECK_TEXT(heard(a), "y");
  }
  leave(a);
  settle(recorder);
  (void)told(recorder, 1);
  busq_peer *b = join("b");
  said(s, "b", "z");
  CHECK_TEXT(heard(b), "z");
  settle(recorder);
  CHECK_TEXT(told(recorder, 1), "G8");
  CHECK_TEXT(told(recorder, 2), "J D0.8");
  CHECK_EQUAL(facts_of(recorder).dropped, 8);
}

/* The first recorder took A's join, and was killed before it noted that in the ring. */
TEST(test_the_first_event_that_a_successor_takes_may_be_a_send)
{
  busq_recorder *recorder = meet_and_begin(4, 64, 1 << 16);
  busq_peer *a = join("a");
  settle(recorder);
  busq_recorder_free(recorder);
  recorder = begin(256);
  CHECK(facts_of(recorder).is_continued);
  said(a, "a", "x");
  CHECK_TEXT(heard(a), "x");
  settle(recorder);
  CHECK_TEXT(told(recorder, 0), "G2 S0.1>0 D0.1");
}

/* At the end one thread of A has reserved a record and is held up, and another has written three behind it. */
TEST(test_what_stands_behind_a_hole_at_the_end_is_a_gap)
{
  uint64_t position;
  busq_rings rings;
  busq_recorder *recorder = meet_and_begin(4, 64, 1 << 16);
  busq_peer *a = join("a");
  settle(recorder);
  (void)told(recorder, 0);
  CHECK_EQUAL(busq_rings_open(&rings, company_bus), BUSQ_OK);
  busq_trace_ring ring = ring_of(&rings, a);
  CHECK(busq_trace_ring_reserve(&ring, 1, &position));
  for (int i = 0; i < 3; i++)
    said(a, "a", "x");
  busq_recorder_stop(recorder);
  settle(recorder);
  CHECK_EQUAL(facts_of(recorder).left, 4);
  CHECK_EQUAL(busq_recorder_settle(recorder, 1), BUSQ_OK);
  CHECK_TEXT(told(recorder, 0), "G4");
  CHECK_EQUAL(facts_of(recorder).dropped, 4);
  busq_rings_close(&rings);
  busq_recorder_free(recorder);
  recording = NULL;
}

/* The recorder is killed while A's ring is full, and its file is removed: that ring stays full for ever. */
TEST(test_a_ring_of_a_recording_that_has_ended_stops_nobody)
{
  busq_recorder *recorder = meet_and_begin(4, 1024, 1 << 20);
  busq_peer *a = join("a");
  for (int i = 0; i < 150; i++) {
    said(a, "a", "x");
    CHECK_TEXT(heard(a), "x");
  }
  busq_recorder_free(recorder);
  busq_rings_unlink(company_bus);
  recorder = begin(256);
  for (int i = 0; i < 50; i++) {
    said(a, "a", "y");
    CHECK_TEXT(heard(a), "y");
  }
  settle(recorder);
  CHECK_EQUAL(facts_of(recorder).events, 1 + 100);
  CHECK_EQUAL(facts_of(recorder).dropped, 0);
}

static void *wait_for_room(void *a)
{
  uint64_t b;
  CHECK_EQUAL(busq_peer_lookup(a, "b", 1, &b), BUSQ_OK);
  CHECK_EQUAL(busq_peer_send(a, &b, 1, "late", 4, INT64_C(20000000000)), BUSQ_OK);
  return NULL;
}

/* A thread of A waits for room at B since A's ring was full; meanwhile that recording ends, and another begins. */
TEST(test_a_send_that_waits_is_recorded_by_the_recording_that_sees_it_end)
{
  pthread_t thread;
  busq_recorder *recorder = meet_and_begin(4, 8, 1 << 16);
  busq_peer *a = join("a"), *b = join("b");
  settle(recorder);
  for (int i = 0; i < 150; i++) {
    said(a, "a", "x");
    CHECK_TEXT(heard(a), "x");
  }
  for (int i = 0; i < 8; i++)
    said(a, "b", "x");
  CHECK_EQUAL(pthread_create(&thread, NULL, wait_for_room, a), 0);
  while (busq_load_acquire(&company_bus->slots[b->slot].room_waiters) == 0)
    sched_yield();
  end(recorder);
  recorder = begin(256);
  said(a, "a", "1");
  CHECK_TEXT(heard(a), "1");
  /* Only those: the thread may send as soon as the first of them has gone. */
  for (int i = 0; i < 8; i++) {
    busq_message x;
    CHECK_EQUAL(take_now(b, &x), BUSQ_OK);
    CHECK_EQUAL(x.size_bytes, 1);
    busq_peer_release(b, &x);
  }
  CHECK_EQUAL(pthread_join(thread, NULL), 0);
  settle(recorder);
  CHECK_TEXT(told(recorder, 0), "S0.1>0 D0.1 B0.2 S0.2>1");
  CHECK_EQUAL(facts_of(recorder).dropped, 0);
}

/* B's queue is full, and so is A's ring. */
TEST(test_what_finds_no_room_for_its_message_is_no_event_that_was_dropped)
{
  uint64_t b_target;
  busq_recorder *recorder = meet_and_begin(3, 16, 1 << 20);
  busq_peer *a = join("a");
  (void)join("b");
  for (int i = 0; i < 16; i++)
    said(a, "b", "x");
  settle(recorder);
  for (int i = 0; i < 150; i++) {
    said(a, "a", "x");
    CHECK_TEXT(heard(a), "x");
  }
  CHECK_EQUAL(busq_peer_lookup(a, "b", 1, &b_target), BUSQ_OK);
  for (int i = 0; i < 1000; i++)
    CHECK_EQUAL(busq_peer_send(a, &b_target, 1, "x", 1, 0), BUSQ_FULL);
  settle(recorder);
  said(a, "a", "x");
  settle(recorder);
  CHECK_EQUAL(facts_of(recorder).dropped, 300 - 256);
}

static void child_dies_between(bool is_begun)
{
  busq_peer *peer;
  arrive();
  peer = join("c");
  said(peer, "a", "1");
  busq_rings rings;
  uint64_t position;
  CHECK_EQUAL(busq_rings_open(&rings, company_bus), BUSQ_OK);
  busq_trace_ring ring = ring_of(&rings, peer);
  CHECK(busq_trace_ring_reserve(&ring, 1, &position));
  if (is_begun) {
    busq_trace_record *record = busq_trace_ring_at(&ring, position);
    *record = (busq_trace_record){.word = record->word, .kind = BUSQ_TRACE_SEND, .message = peer->sender.sequence + 1};
    busq_trace_ring_publish(&ring, position, BUSQ_TRACE_BEGUN);
  }
  kill(getpid(), SIGKILL);
}

static void die_between(bool is_begun)
{
  int status;
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    child_dies_between(is_begun);
    _exit(1);
  }
  CHECK_EQUAL(waitpid(child, &status, 0), child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(test_what_a_dead_writer_has_not_written_is_a_gap)
{
  busq_recorder *recorder = meet_and_begin(4, 8, 4096);
  busq_peer *a = join("a");
  die_between(false);
  CHECK_TEXT(heard(a), "1");
  for (int pass = 0; pass < 10; pass++)
    settle(recorder);
  CHECK_TEXT(told(recorder, 0), "J D1.1");
  CHECK_TEXT(told(recorder, 1), "J S1.1>0 G1");
  CHECK_EQUAL(facts_of(recorder).gaps, 1);
}

TEST(test_a_send_in_which_its_sender_died_and_that_nobody_got_is_an_abort)
{
  busq_recorder *recorder = meet_and_begin(4, 8, 4096);
  busq_peer *a = join("a");
  die_between(true);
  CHECK_TEXT(heard(a), "1");
  for (int pass = 0; pass < 40; pass++)
    settle(recorder);
  CHECK_TEXT(told(recorder, 1), "J S1.1>0 A1.2");
}

/* Whatever stands in the rings: an error, or rows, and never a step outside (with a sanitizer: seen). */
static void damage_rings(uint64_t seed)
{
  check_chance chance = {seed};
  for (int round = 0; round < 200; round++) {
    busq_recorder *recorder = meet_and_begin(4, 64, 65536);
    busq_peer *a = join("a"), *b = join("b");
    for (int i = 0; i < 20; i++)
      said(a, "a b", "x");
    (void)heard(b);
    busq_rings rings;
    CHECK_EQUAL(busq_rings_open(&rings, company_bus), BUSQ_OK);
    for (int hits = 0; hits < 20; hits++) {
      busq_trace_ring ring = busq_rings_ring(&rings, (uint32_t)check_below(&chance, 2));
      char *const target = check_below(&chance, 4) ? (char *)ring.records : (char *)ring.shared;
      const uint64_t bytes = target == (char *)ring.shared ? sizeof *ring.shared : 128 * sizeof *ring.records;
      target[check_below(&chance, bytes)] ^= (char)check_next(&chance);
    }
    int result = BUSQ_OK;
    for (int pass = 0; pass < 3 && !result; pass++) {
      result = busq_recorder_drain(recorder);
      if (!result)
        result = busq_recorder_settle(recorder, 0);
    }
    CHECK(result == BUSQ_OK || result == BUSQ_CORRUPT);
    (void)busq_recorder_settle(recorder, 1);
    said(b, "a", "still works");
    busq_rings_close(&rings);
    end(recorder);
  }
}

TEST(test_damaged_rings_end_in_an_error_or_in_rows)
{
  damage_rings(test_seed);
  damage_rings(UINT64_C(908623407993581)); /* a head was taken, and a record that it announces was damaged */
}

static busq_recorder *meet_and_begin_with_a_group(void)
{
  company_groups = 1;
  busq_recorder *recorder = meet_and_begin(4, 64, 4096);
  company_groups = 0;
  return recorder;
}

static uint64_t first_view(void)
{
  return busq_load_relaxed(&busq_bus_group(company_bus, 0)->base) + 1;
}

static int32_t group_of(busq_recorder *recorder, uint64_t view)
{
  int32_t group;
  uint64_t base = 0;
  CHECK(busq_recorder_group_find(recorder, 0, view, &group, &base));
  CHECK(group < 0 || base < view);
  return group;
}

/* Its namer is killed, or stopped, in the middle: what stands there is half of the old name and half of the new one. */
TEST(test_a_group_that_is_given_a_name_has_none_until_then)
{
  busq_recorder *recorder = meet_and_begin_with_a_group();
  busq_peer *a = join("a");
  CHECK_EQUAL(busq_peer_enter(a, "@workers", 8, COMPANY_PATIENCE_NS), BUSQ_OK);
  busq_group *entry = busq_bus_group(company_bus, 0);
  const uint64_t view = first_view();
  int32_t group;
  uint64_t base;
  busq_pair seen = busq_numbered_load(&entry->identity);
  const uint64_t hash = seen.hi;
  CHECK(busq_pair_cas(&entry->identity, &seen, (busq_pair){seen.lo + 1, 0}));
  memcpy(entry->name, "@oth", 4);
  CHECK_EQUAL(group_of(recorder, view), -1);
  memcpy(entry->name, "@wor", 4);
  seen = busq_numbered_load(&entry->identity);
  CHECK(busq_pair_cas(&entry->identity, &seen, (busq_pair){seen.lo + 1, hash}));
  CHECK(busq_recorder_group_find(recorder, 0, view, &group, &base));
  CHECK_EQUAL(group, 0);
  CHECK_EQUAL(base, view - 1);
}

/* Enters, and leaves again: the number of the first view. */
static uint64_t visited(busq_peer *peer, const char *group)
{
  CHECK_EQUAL(busq_peer_enter(peer, group, strlen(group), COMPANY_PATIENCE_NS), BUSQ_OK);
  CHECK_EQUAL(busq_peer_leave(peer, group, strlen(group), COMPANY_PATIENCE_NS), BUSQ_OK);
  return first_view();
}

TEST(test_views_of_a_group_that_nobody_saw_are_not_those_of_the_one_before)
{
  busq_recorder *recorder = meet_and_begin_with_a_group();
  busq_peer *a = join("a");
  const uint64_t workers = visited(a, "@workers");
  CHECK_EQUAL(group_of(recorder, workers), 0);
  const uint64_t unseen = visited(a, "@unseen"), others = visited(a, "@others");
  CHECK_EQUAL(group_of(recorder, others), 1);
  CHECK_EQUAL(group_of(recorder, unseen), -1);
  CHECK_EQUAL(group_of(recorder, workers), 0);
  CHECK_EQUAL(group_of(recorder, workers + 1), -1); /* it may be another one's, for all that is known */
  const uint64_t last = visited(a, "@last");
  CHECK_EQUAL(group_of(recorder, last), 2);
  CHECK_EQUAL(group_of(recorder, others + 1), 1); /* there is no other one between */
}
