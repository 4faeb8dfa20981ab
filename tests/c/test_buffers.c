/* SPDX-License-Identifier: Apache-2.0 */
/* The buffers of the protocols: output, hold-back, causal hold-back. */
#include "harness/test.h"
#include "queue/causal_buffer.h"
#include "queue/outbox.h"

#define ROOM 12

typedef struct {
  _Alignas(8) char bytes[1024];
} block;

static busq_outbox *new_outbox(block *room)
{
  memset(room, 0, sizeof *room);
  CHECK(busq_outbox_size(ROOM) <= sizeof *room);
  busq_outbox_init((busq_outbox *)room->bytes, ROOM);
  return (busq_outbox *)room->bytes;
}

static busq_holdback *new_holdback(block *room)
{
  memset(room, 0, sizeof *room);
  CHECK(busq_holdback_size(ROOM) <= sizeof *room);
  busq_holdback_init((busq_holdback *)room->bytes, ROOM);
  return (busq_holdback *)room->bytes;
}

TEST(test_what_is_pushed_first_is_popped_first)
{
  block room;
  busq_outbox *outbox = new_outbox(&room);
  uint64_t pushed = 0;
  uint64_t popped = 0;
  for (int round = 0; round < 100; round++) {
    while (!busq_outbox_is_full(outbox))
      busq_outbox_push(outbox, (busq_outbox_entry){.message = ++pushed, .to = 3});
    CHECK_EQUAL(busq_outbox_at(outbox, ROOM - 1)->message, pushed);
    for (int i = 0; i < 5; i++)
      CHECK_EQUAL(busq_outbox_pop(outbox).message, ++popped);
    CHECK(busq_outbox_verify(outbox, ROOM));
  }
}

/* For the checker, which takes different bytes for different states. */
TEST(test_two_output_buffers_that_let_go_of_as_many_and_hold_the_same_are_equal)
{
  block one_room, other_room;
  busq_outbox *one = new_outbox(&one_room), *other = new_outbox(&other_room);
  for (uint64_t i = 1; i <= 7; i++)
    busq_outbox_push(one, (busq_outbox_entry){.message = i, .stamp = i, .to = 1, .note = 2});
  for (uint64_t i = 1; i <= 7; i++) {
    busq_outbox_push(other, (busq_outbox_entry){.message = i, .stamp = i, .to = 1, .note = 2});
    CHECK_EQUAL(busq_outbox_pop(other).message, i); /* it is empty in between */
    CHECK_EQUAL(busq_outbox_pop(one).message, i);
  }
  CHECK(memcmp(&one_room, &other_room, sizeof one_room) == 0);
}

TEST(test_what_is_removed_leaves_the_others_in_their_order)
{
  check_chance chance = {test_seed};
  block room;
  busq_outbox *outbox = new_outbox(&room);
  uint64_t expected[ROOM];
  uint32_t count = 0;
  uint64_t pushed = 0;
  for (int step = 0; step < 10000; step++) {
    if (count < ROOM && check_below(&chance, 2)) {
      busq_outbox_push(outbox, (busq_outbox_entry){.message = ++pushed});
      expected[count++] = pushed;
    } else if (count) {
      const uint32_t place = (uint32_t)check_below(&chance, count);
      CHECK_EQUAL(busq_outbox_remove(outbox, place).message, expected[place]);
      memmove(&expected[place], &expected[place + 1], (--count - place) * sizeof *expected);
    }
    CHECK(busq_outbox_verify(outbox, ROOM));
    CHECK_EQUAL(outbox->count, count);
    for (uint32_t place = 0; place < count; place++)
      CHECK_EQUAL(busq_outbox_at(outbox, place)->message, expected[place]);
  }
}

TEST(test_the_same_entries_are_the_same_bytes_whatever_the_order_they_came_in)
{
  check_chance chance = {test_seed};
  block rooms[2];
  for (int round = 0; round < 1000; round++) {
    busq_held_entry entries[ROOM];
    for (uint32_t i = 0; i < ROOM; i++)
      entries[i] = (busq_held_entry){.key = check_below(&chance, 4), .message = i, .from = i};
    for (int which = 0; which < 2; which++) {
      busq_holdback *held = new_holdback(&rooms[which]);
      for (uint32_t i = ROOM - 1; i > 0; i--) {
        const uint32_t other = (uint32_t)(check_below(&chance, i + 1));
        const busq_held_entry moved = entries[i];
        entries[i] = entries[other];
        entries[other] = moved;
      }
      for (uint32_t i = 0; i < ROOM; i++)
        busq_holdback_insert(held, entries[i]);
      CHECK(busq_holdback_is_full(held));
      CHECK(busq_holdback_verify(held, ROOM));
      for (uint32_t i = 0; i < ROOM; i += 2)
        busq_holdback_remove(held, busq_holdback_find(held, busq_holdback_at(held, 0)->key, busq_holdback_at(held, 0)->message));
    }
    CHECK(memcmp(&rooms[0], &rooms[1], sizeof rooms[0]) == 0);
  }
}

/* Mostly appended, mostly taken from the front, as orders do; now and then in the middle. */
TEST(test_a_large_buffer_and_a_sorted_array_always_agree)
{
  enum { MAX = 100 };
  check_chance chance = {test_seed};
  busq_holdback *held = calloc(1, busq_holdback_size(MAX));
  uint64_t keys[MAX];
  uint32_t count = 0;
  CHECK(held != NULL);
  busq_holdback_init(held, MAX);
  for (uint64_t round = 0; round < check_share(200000); round++) {
    const bool is_growing = round / 300 % 2;
    if (count < MAX && check_below(&chance, 10) < (is_growing ? 6 : 4)) {
      const uint64_t key = check_below(&chance, 20) ? round * 8 : check_below(&chance, round * 8 + 1);
      uint32_t place = 0;
      while (place < count && keys[place] <= key)
        place++;
      memmove(&keys[place + 1], &keys[place], (count++ - place) * sizeof *keys);
      keys[place] = key;
      busq_holdback_insert(held, (busq_held_entry){.key = key, .message = round + 1});
    } else if (count) {
      const uint32_t place = check_below(&chance, 5) ? 0 : (uint32_t)check_below(&chance, count);
      CHECK_EQUAL(busq_holdback_remove(held, place).key, keys[place]);
      memmove(&keys[place], &keys[place + 1], (--count - place) * sizeof *keys);
    }
    CHECK_EQUAL(held->count, count);
    if (count)
      CHECK_EQUAL(busq_holdback_at(held, count - 1)->key, keys[count - 1]);
    if (round % 16 == 0)
      CHECK(busq_holdback_verify(held, MAX));
  }
  free(held);
}

TEST(test_an_entry_with_a_new_key_stands_where_one_inserted_with_it_would)
{
  check_chance chance = {test_seed};
  block rooms[2];
  for (int round = 0; round < 1000; round++) {
    busq_holdback *moved = new_holdback(&rooms[0]);
    busq_holdback *inserted = new_holdback(&rooms[1]);
    const uint32_t chosen = (uint32_t)check_below(&chance, ROOM);
    const uint64_t new_key = check_below(&chance, 8);
    for (uint32_t i = 0; i < ROOM; i++) {
      busq_held_entry entry = {.key = check_below(&chance, 8), .message = i, .from = i, .note = i + 1};
      busq_holdback_insert(moved, entry);
      entry.key = i == chosen ? new_key : entry.key;
      busq_holdback_insert(inserted, entry);
    }
    uint32_t place = 0;
    while (busq_holdback_at(moved, place)->message != chosen)
      place++;
    busq_holdback_rekey(moved, place, new_key);
    CHECK(busq_holdback_verify(moved, ROOM));
    CHECK(memcmp(&rooms[0], &rooms[1], sizeof rooms[0]) == 0);
  }
}

TEST(test_what_is_not_held_is_not_found)
{
  block room;
  busq_holdback *held = new_holdback(&room);
  busq_holdback_insert(held, (busq_held_entry){.key = 5, .message = 2});
  CHECK_EQUAL(busq_holdback_find(held, 5, 2), 0);
  CHECK_EQUAL(busq_holdback_find(held, 5, 1), 1);
  CHECK_EQUAL(busq_holdback_find(held, 5, 3), 1);
  CHECK_EQUAL(busq_holdback_find(held, 6, 2), 1);
}

TEST(test_verify_notices_disorder_and_what_was_left_behind)
{
  block room;
  busq_holdback *held = new_holdback(&room);
  for (uint64_t key = 1; key <= 4; key++)
    busq_holdback_insert(held, (busq_held_entry){.key = key, .message = key});
  busq_holdback_at(held, 2)->key = 9;
  CHECK(!busq_holdback_verify(held, ROOM));
  busq_holdback_at(held, 2)->key = 3;
  CHECK(busq_holdback_verify(held, ROOM));
  held->count = 3;
  CHECK(!busq_holdback_verify(held, ROOM));
}

/* Everything of process 1 is deliverable once `open` is set; nothing else ever is. */
static uint32_t rule(const void *context, const busq_held_entry *entry)
{
  const bool *open = context;
  return entry->from == 1 && *open ? BUSQ_BLOCKER_NONE : 0;
}

TEST(test_only_those_who_waited_for_the_sender_are_looked_at_again)
{
  block room;
  bool open = false;
  busq_holdback *held = new_holdback(&room);
  for (uint32_t from = 1; from <= 2; from++)
    CHECK(busq_causal_hold(held, (busq_held_entry){.key = from, .message = from, .from = from}, rule, &open));
  CHECK_EQUAL(busq_causal_ready(held), held->count);
  open = true;
  busq_causal_wake(held, 2, rule, &open);
  CHECK_EQUAL(busq_causal_ready(held), held->count);
  busq_causal_wake(held, 0, rule, &open);
  CHECK_EQUAL(busq_causal_ready(held), 0);
}

TEST(test_the_last_place_is_for_what_nothing_blocks)
{
  block room;
  bool open = false;
  busq_holdback *held = new_holdback(&room);
  for (uint32_t key = 1; key < ROOM; key++)
    CHECK(busq_causal_hold(held, (busq_held_entry){.key = key, .message = key, .from = 1}, rule, &open));
  CHECK(!busq_causal_hold(held, (busq_held_entry){.key = ROOM, .message = ROOM, .from = 1}, rule, &open));
  CHECK_EQUAL(held->count, ROOM - 1);
  open = true;
  CHECK(busq_causal_hold(held, (busq_held_entry){.key = ROOM, .message = ROOM, .from = 1}, rule, &open));
  CHECK_EQUAL(busq_causal_ready(held), ROOM - 1);
}
