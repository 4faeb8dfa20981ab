/* SPDX-License-Identifier: Apache-2.0 */
/* Slots that are used again, and messages that are held.  Processes that are killed are in crash/crash.c; what users are
 * promised of names, death, forks and shutdown is in tests/core/test_api.py and test_processes.py; sleeping and waking in
 * test_wake.c, with descriptors test_descriptor_steps.c. */
#include "harness/company.h"
#include "harness/test.h"
#include <dirent.h>
#include <pthread.h>

static uint32_t open_descriptors(void)
{
  uint32_t count = 0;
  DIR *directory = opendir("/proc/self/fd");
  CHECK(directory);
  while (readdir(directory))
    count++;
  closedir(directory);
  return count;
}

/* ---- names and slots ---- */

TEST(test_the_next_peer_in_a_slot_gets_nothing_meant_for_the_last)
{
  meet(2, 8, 4096);
  busq_peer *a = join("a"), *b = join("b");
  uint64_t target;
  CHECK_EQUAL(look_up(a, "b", &target), 1);
  said(a, "b", "unread");
  leave(b);
  busq_peer *c = join("c");
  CHECK_EQUAL(busq_peer_send(a, &target, 1, "x", 1, 0), BUSQ_PEER_DEAD);
  CHECK_EQUAL(say(a, "b", "x"), BUSQ_UNKNOWN_PEER); /* the slot and its name are another's now */
  hears(c, "");
  said(a, "c", "hello");
  hears(c, "hello");
}

TEST(test_messages_of_one_who_left_still_arrive_with_his_name)
{
  meet(3, 8, 4096);
  busq_peer *a = join("alice"), *b = join("bob");
  busq_message message;
  char name[256];
  size_t name_bytes;
  said(a, "bob", "farewell");
  leave(a);
  join("carol");
  CHECK_EQUAL(take_now(b, &message), BUSQ_OK);
  CHECK_EQUAL(busq_peer_slot_name(b, message.sender, message.sender_life, name, &name_bytes), BUSQ_OK);
  CHECK(name_bytes == 5 && memcmp(name, "alice", 5) == 0);
  CHECK(message.size_bytes == 8 && memcmp(message.data, "farewell", 8) == 0);
  busq_peer_release(b, &message);
}

TEST(test_what_one_who_left_had_not_read_is_kept_until_somebody_needs_the_memory)
{
  meet(3, 64, 1 << 16);
  busq_peer *a = join("a"), *b = join("b");
  uint64_t n_dropped;
  for (int i = 0; i < 60; i++)
    said(a, "b", "unread");
  leave(b);
  leave(a);
  CHECK(used_bytes() > 0);
  CHECK_EQUAL(busq_bus_collect(company_bus, &n_dropped), BUSQ_OK);
  CHECK_EQUAL(n_dropped, 60);
  CHECK_EQUAL(used_bytes(), 0);
}

TEST(test_many_lives_leave_nothing_behind)
{
  meet(4, 8, 1 << 16);
  busq_peer *a = join("a");
  const uint32_t descriptors = open_descriptors();
  const uint64_t lives = check_share(100000);
  for (uint64_t life = 0; life < lives; life++) {
    busq_peer *b = join("b");
    if (life % 16 == 0) {
      said(a, "a b", "hello");
      said(b, "a", "hi");
      hears(a, "hello hi");
      if (life % 32)
        hears(b, "hello");
    }
    leave(b);
  }
  CHECK_EQUAL(open_descriptors(), descriptors);
  leave(a);
  CHECK_EQUAL(used_bytes(), 0);
}

/* ---- messages that are held ---- */

TEST(test_a_message_stays_where_it_is_while_it_is_held)
{
  meet(3, 16, 1 << 16);
  busq_peer *a = join("a"), *b = join("b");
  busq_message first, second;
  said(a, "b", "first");
  said(a, "b", "second");
  CHECK_EQUAL(take_now(b, &first), BUSQ_OK);
  CHECK_EQUAL(take_now(b, &second), BUSQ_OK);
  for (int i = 0; i < 1000; i++) {
    said(a, "a", "flood");
    hears(a, "flood");
    if (i == 500)
      busq_peer_release(b, &second);
  }
  for (int i = 0; i < 14; i++) { /* as many as there are places behind it */
    said(a, "b", "flood");
    hears(b, "flood");
  }
  CHECK(first.size_bytes == 5 && memcmp(first.data, "first", 5) == 0);
  busq_peer_release(b, &first);
}

TEST(test_held_messages_keep_their_places_and_give_them_back_in_any_order)
{
  meet(2, 4, 4096);
  busq_peer *a = join("a"), *b = join("b");
  busq_message messages[4];
  uint32_t count;
  for (int round = 0; round < 50; round++) {
    for (int i = 0; i < 4; i++)
      said(a, "b", "x");
    CHECK_EQUAL(say(a, "b", "y"), BUSQ_FULL);
    CHECK_EQUAL(busq_peer_recv(b, messages, 4, &count, 0), BUSQ_OK);
    CHECK_EQUAL(count, 4);
    CHECK_EQUAL(say(a, "b", "y"), BUSQ_FULL);
    for (int i = 0; i < 4; i++)
      busq_peer_release(b, &messages[(i * 3 + round) % 4]);
  }
  said(a, "b", "y");
  hears(b, "y");
}

TEST(test_a_held_message_outlives_the_closing_of_its_receiver)
{
  meet(3, 16, 1 << 16);
  busq_peer *a = join("a"), *b = join("b");
  busq_message held, other;
  said(a, "b", "precious");
  said(a, "b", "held too");
  said(a, "b", "unread");
  CHECK_EQUAL(take_now(b, &held), BUSQ_OK);
  CHECK_EQUAL(take_now(b, &other), BUSQ_OK);
  CHECK_EQUAL(busq_peer_close(b), BUSQ_OK);
  CHECK_EQUAL(say(a, "b", "x"), BUSQ_PEER_DEAD);
  busq_peer *next = join("b"); /* the name is free at once, the slot not yet */
  busq_peer *nobody;
  CHECK_EQUAL(try_join("c", &nobody), BUSQ_NO_SPACE);
  for (int i = 0; i < 200; i++) {
    said(a, "b", "for the next");
    hears(next, "for the next");
  }
  CHECK(held.size_bytes == 8 && memcmp(held.data, "precious", 8) == 0);
  CHECK(other.size_bytes == 8 && memcmp(other.data, "held too", 8) == 0);
  busq_peer_release(b, &other);
  CHECK_EQUAL(try_join("c", &nobody), BUSQ_NO_SPACE);
  busq_peer_release(b, &held);
  join("c");
}

typedef struct {
  busq_peer *peer;
  busq_pin pin;
  uint32_t is_over;
} pin_work;

static void *take_and_show(void *argument)
{
  pin_work *work = argument;
  while (!__atomic_load_n(&work->is_over, __ATOMIC_ACQUIRE)) {
    said(work->peer, "bob", "x");
    CHECK_EQUAL(busq_pin_recv(&work->pin, work->peer, BUSQ_TAKE_PINNED, 0), BUSQ_OK);
    CHECK_EQUAL(busq_pin_show(&work->pin), BUSQ_OK);
    busq_pin_drop(&work->pin);
  }
  return NULL;
}

/* In the child no thread ends what the other one has begun; to wait for that is to wait for ever. */
static void drop_in_the_child(void *argument)
{
  pin_work *work = argument;
  const uint32_t state = __atomic_load_n(&work->pin.state, __ATOMIC_ACQUIRE);
  const int result = busq_pin_show(&work->pin);
  if (state == BUSQ_PIN_BUSY)
    CHECK_EQUAL(result, BUSQ_FORKED);
  busq_pin_drop(&work->pin);
}

TEST(test_a_child_forked_while_a_thread_has_a_pin_in_hand_does_not_wait_for_it)
{
  pthread_t thread;
  meet(3, 8, 4096);
  pin_work work = {.peer = join("bob")};
  CHECK_EQUAL(pthread_create(&thread, NULL, take_and_show, &work), 0);
  for (int i = 0; i < 300; i++)
    ends_well(in_a_child(drop_in_the_child, &work));
  __atomic_store_n(&work.is_over, 1, __ATOMIC_RELEASE);
  pthread_join(thread, NULL);
}
