/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_QUEUE_HOLDBACK_H
#define BUSQ_QUEUE_HOLDBACK_H
/*
 * The hold-back buffer of a protocol: messages that came and may not be delivered so far, smallest key first.
 *
 * Guarantee: entries stand in ascending order of (key, message), so the same set of entries is the same bytes, whatever the
 * order in which they came; what is not in use is zero.  Finding costs O(log n).
 *
 * Mechanism: a sorted array behind its header, in a block that the caller owns; no pointers.  What comes in order is appended.
 *
 * Not given: growing (who inserts asks for room first), or cheap removal from the middle of a long buffer.
 */
#include "base/types.h"
#include <string.h>

typedef struct {
  uint64_t key;
  uint64_t message;
  uint32_t from;
  uint32_t note;
} busq_held_entry;

/* Invariant: count <= max; entries[0 .. count) ascend. */
typedef struct {
  uint32_t count;
  uint32_t max;
  busq_held_entry entries[];
} busq_holdback;

static inline size_t busq_holdback_size(uint32_t max)
{
  return sizeof(busq_holdback) + max * sizeof(busq_held_entry);
}

static inline void busq_holdback_init(busq_holdback *held, uint32_t max)
{
  held->max = max;
}

static inline bool busq_holdback_is_full(const busq_holdback *held)
{
  return held->count == held->max;
}

static inline bool busq_held_less(const busq_held_entry *entry, uint64_t key, uint64_t message)
{
  return entry->key != key ? entry->key < key : entry->message < message;
}

/* Where (key, message) stands, or would. */
static inline uint32_t busq_holdback_place(const busq_holdback *held, uint64_t key, uint64_t message)
{
  uint32_t low = 0;
  uint32_t high = held->count;
  if (high && busq_held_less(&held->entries[high - 1], key, message))
    return high;
  while (low < high) {
    const uint32_t middle = (low + high) / 2;
    if (busq_held_less(&held->entries[middle], key, message))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static inline void busq_holdback_insert(busq_holdback *held, busq_held_entry entry)
{
  const uint32_t place = busq_holdback_place(held, entry.key, entry.message);
  busq_held_entry *at = &held->entries[place];
  memmove(at + 1, at, (held->count++ - place) * sizeof *at);
  *at = entry;
}

static inline busq_held_entry busq_holdback_remove(busq_holdback *held, uint32_t place)
{
  busq_held_entry *at = &held->entries[place];
  const busq_held_entry entry = *at;
  memmove(at, at + 1, (--held->count - place) * sizeof *at);
  memset(&held->entries[held->count], 0, sizeof *at);
  return entry;
}

/* The place of the entry with this key and message, or held->count where there is none. */
static inline uint32_t busq_holdback_find(const busq_holdback *held, uint64_t key, uint64_t message)
{
  const uint32_t place = busq_holdback_place(held, key, message);
  const busq_held_entry *entry = &held->entries[place];
  return place < held->count && entry->key == key && entry->message == message ? place : held->count;
}

static inline bool busq_holdback_verify(const busq_holdback *held)
{
  if (held->count > held->max)
    return false;
  for (uint32_t place = 1; place < held->count; place++)
    if (!busq_held_less(&held->entries[place - 1], held->entries[place].key, held->entries[place].message))
      return false;
  static const busq_held_entry nothing;
  for (uint32_t place = held->count; place < held->max; place++)
    if (memcmp(&held->entries[place], &nothing, sizeof nothing) != 0)
      return false;
  return true;
}

#endif /* BUSQ_QUEUE_HOLDBACK_H */
