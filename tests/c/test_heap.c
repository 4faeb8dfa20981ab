/* SPDX-License-Identifier: Apache-2.0 */
/* The heap of late messages, against an array that is kept sorted. */
#include "harness/test.h"
#include "queue/heap.h"

#define N_MAX 3000

static busq_heap_entry entry_of(uint64_t timestamp, uint32_t sender, uint64_t sequence)
{
  return (busq_heap_entry){.key = {timestamp, sequence, sender}, .position = timestamp * 3, .record = sender, .mark = 7};
}

TEST(test_an_empty_heap_has_no_least)
{
  busq_heap heap = {0};
  CHECK(busq_heap_least(&heap) == NULL);
  CHECK(busq_heap_verify(&heap));
  busq_heap_deinit(&heap);
}

TEST(test_the_least_key_comes_first_and_brings_its_entry_along)
{
  busq_heap heap = {0};
  CHECK(busq_heap_push(&heap, entry_of(30, 1, 1)));
  CHECK(busq_heap_push(&heap, entry_of(10, 2, 2)));
  CHECK(busq_heap_push(&heap, entry_of(20, 3, 3)));
  for (uint64_t timestamp = 10; timestamp <= 30; timestamp += 10) {
    const busq_heap_entry *least = busq_heap_least(&heap);
    CHECK_EQUAL(least->key.timestamp, timestamp);
    CHECK_EQUAL(least->position, timestamp * 3);
    CHECK_EQUAL(least->mark, 7);
    busq_heap_pop(&heap);
  }
  CHECK(busq_heap_least(&heap) == NULL);
  busq_heap_deinit(&heap);
}

TEST(test_equal_timestamps_go_by_sender_then_by_sequence)
{
  busq_heap heap = {0};
  CHECK(busq_heap_push(&heap, entry_of(5, 2, 1)));
  CHECK(busq_heap_push(&heap, entry_of(5, 1, 9)));
  CHECK(busq_heap_push(&heap, entry_of(5, 1, 8)));
  const uint32_t senders[] = {1, 1, 2};
  const uint64_t sequences[] = {8, 9, 1};
  for (int i = 0; i < 3; i++) {
    CHECK_EQUAL(busq_heap_least(&heap)->key.sender, senders[i]);
    CHECK_EQUAL(busq_heap_least(&heap)->key.sequence, sequences[i]);
    busq_heap_pop(&heap);
  }
  busq_heap_deinit(&heap);
}

/* ---- against a sorted array ---- */

typedef struct {
  busq_heap_entry entries[N_MAX];
  size_t count;
} sorted_array;

static void array_insert(sorted_array *array, busq_heap_entry entry)
{
  size_t at = array->count++;
  while (at > 0 && busq_key_less(entry.key, array->entries[at - 1].key)) {
    array->entries[at] = array->entries[at - 1];
    at--;
  }
  array->entries[at] = entry;
}

static void array_remove_first(sorted_array *array)
{
  memmove(&array->entries[0], &array->entries[1], --array->count * sizeof array->entries[0]);
}

static void heap_equals(const busq_heap *heap, const sorted_array *array)
{
  const busq_heap_entry *least = busq_heap_least(heap);
  CHECK_EQUAL(heap->count, array->count);
  CHECK((least != NULL) == (array->count > 0));
  if (!least)
    return;
  CHECK_EQUAL(least->key.timestamp, array->entries[0].key.timestamp);
  CHECK_EQUAL(least->key.sender, array->entries[0].key.sender);
  CHECK_EQUAL(least->key.sequence, array->entries[0].key.sequence);
  CHECK_EQUAL(least->record, array->entries[0].record);
}

/* Few timestamps and senders, so that ties are common; the sequence number makes every key unlike the others. */
static void heap_and_array(uint64_t seed, uint64_t n_timestamps, uint64_t push_share)
{
  static sorted_array array;
  check_chance chance = {seed};
  busq_heap heap = {0};
  array.count = 0;
  for (uint64_t turn = 0; turn < check_share(20000); turn++) {
    if (array.count < N_MAX && (!array.count || check_below(&chance, 10) < push_share)) {
      const busq_heap_entry entry =
          entry_of(check_below(&chance, n_timestamps), (uint32_t)check_below(&chance, 4), turn);
      CHECK(busq_heap_push(&heap, entry));
      array_insert(&array, entry);
    } else {
      busq_heap_pop(&heap);
      array_remove_first(&array);
    }
    heap_equals(&heap, &array);
    CHECK(turn % 64 || busq_heap_verify(&heap));
  }
  for (; array.count; array_remove_first(&array), busq_heap_pop(&heap))
    heap_equals(&heap, &array);
  heap_equals(&heap, &array);
  busq_heap_deinit(&heap);
}

TEST(test_a_heap_and_a_sorted_array_always_agree)
{
  heap_and_array(test_seed, 3, 6);
  heap_and_array(test_seed + 1, 1000, 5);
  heap_and_array(test_seed + 2, UINT64_C(1) << 61, 7);
}

TEST(test_rising_and_falling_keys_come_out_sorted)
{
  for (int is_falling = 0; is_falling < 2; is_falling++) {
    busq_heap heap = {0};
    for (uint64_t i = 0; i < N_MAX; i++)
      CHECK(busq_heap_push(&heap, entry_of(is_falling ? N_MAX - 1 - i : i, 0, i)));
    for (uint64_t i = 0; i < N_MAX; i++) {
      CHECK_EQUAL(busq_heap_least(&heap)->key.timestamp, i);
      busq_heap_pop(&heap);
    }
    busq_heap_deinit(&heap);
  }
}

TEST(test_verify_notices_a_child_below_its_parent)
{
  busq_heap heap = {0};
  for (uint64_t i = 0; i < 100; i++)
    CHECK(busq_heap_push(&heap, entry_of(i + 1, 0, i)));
  CHECK(busq_heap_verify(&heap));
  heap.entries[77].key.timestamp = 0;
  CHECK(!busq_heap_verify(&heap));
  busq_heap_deinit(&heap);
}
