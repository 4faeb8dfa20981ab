/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_QUEUE_HOLDBACK_H
#define BUSQ_QUEUE_HOLDBACK_H
/*
 * The hold-back buffer of a protocol: messages that came and may not be delivered so far, smallest key first.
 *
 * Guarantee: entries stand in ascending order of (key, message); what is not in use is zero.  Finding costs O(log n),
 * removing the first entry and appending a last one O(1) in the mean.  In a buffer for less than BUSQ_HOLDBACK_SMALL
 * entries the same set of entries is the same bytes, whatever the order in which they came, as comparisons of states
 * need it.
 *
 * Mechanism: a sorted array behind its header, in a block that the caller owns; no pointers.  A small one begins at its
 * first place.  A large one has twice the room and begins at `head`, which moves on when the first entry is removed;
 * when more is free in front than is in use, everything moves to the front again.
 *
 * Not given: growing (the caller asks for room before it inserts), or cheap insertion and removal in the middle of a
 * long buffer.
 */
#include "base/types.h"
#include <string.h>

typedef struct {
  uint64_t key;
  uint64_t message;
  uint32_t from;
  uint32_t note;
} busq_held_entry;

enum { BUSQ_HOLDBACK_SMALL = 64 };

/* Invariant: count <= max; entries[head .. head + count) ascend; head <= count, and 0 where max <
 * BUSQ_HOLDBACK_SMALL. */
typedef struct {
  uint32_t count;
  uint32_t max;
  uint32_t head;
  uint32_t unused;
  busq_held_entry entries[];
} busq_holdback;

static inline size_t busq_holdback_room(uint32_t max)
{
  return max < BUSQ_HOLDBACK_SMALL ? max : 2 * (size_t)max;
}

static inline size_t busq_holdback_size(uint32_t max)
{
  return sizeof(busq_holdback) + busq_holdback_room(max) * sizeof(busq_held_entry);
}

/* The entry at this place, the smallest at 0. */
static inline busq_held_entry *busq_holdback_at(const busq_holdback *held, uint32_t place)
{
  return (busq_held_entry *)&held->entries[held->head + place];
}

static inline void busq_holdback_init(busq_holdback *held, uint32_t max)
{
  held->max = max;
}

static inline bool busq_holdback_is_full(const busq_holdback *held)
{
  return held->count == held->max;
}

/* UINT64_MAX where there is none. */
static inline uint64_t busq_holdback_least_key(const busq_holdback *held)
{
  return held->count ? busq_holdback_at(held, 0)->key : UINT64_MAX;
}

/* Takes from all keys the same, which none of them is below. */
static inline void busq_holdback_lower(busq_holdback *held, uint64_t base)
{
  for (uint32_t place = 0; place < held->count; place++)
    busq_holdback_at(held, place)->key -= base;
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
  if (high && busq_held_less(busq_holdback_at(held, high - 1), key, message))
    return high;
  while (low < high) {
    const uint32_t middle = (low + high) / 2;
    if (busq_held_less(busq_holdback_at(held, middle), key, message))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static inline void busq_holdback_insert(busq_holdback *held, busq_held_entry entry)
{
  const uint32_t place = busq_holdback_place(held, entry.key, entry.message);
  busq_held_entry *at = busq_holdback_at(held, place);
  memmove(at + 1, at, (held->count++ - place) * sizeof *at);
  *at = entry;
}

/* Moves everything to the front once more is free there than in use, so that nothing overlaps. */
static inline void busq_holdback_settle(busq_holdback *held)
{
  if (held->head <= held->count)
    return;
  memcpy(held->entries, busq_holdback_at(held, 0), held->count * sizeof *held->entries);
  memset(busq_holdback_at(held, 0), 0, held->count * sizeof *held->entries);
  held->head = 0;
}

static inline busq_held_entry busq_holdback_remove(busq_holdback *held, uint32_t place)
{
  busq_held_entry *at = busq_holdback_at(held, place);
  const busq_held_entry entry = *at;
  held->count--;
  if (place == 0 && held->max >= BUSQ_HOLDBACK_SMALL) {
    memset(at, 0, sizeof *at);
    held->head++;
  } else {
    memmove(at, at + 1, (held->count - place) * sizeof *at);
    memset(busq_holdback_at(held, held->count), 0, sizeof *at);
  }
  busq_holdback_settle(held);
  return entry;
}

/* Moves an entry to where it belongs under its new key. */
static inline void busq_holdback_rekey(busq_holdback *held, uint32_t place, uint64_t key)
{
  busq_held_entry entry = busq_holdback_remove(held, place);
  entry.key = key;
  busq_holdback_insert(held, entry);
}

/* The place of the entry with this key and message, or held->count where there is none. */
static inline uint32_t busq_holdback_find(const busq_holdback *held, uint64_t key, uint64_t message)
{
  const uint32_t place = busq_holdback_place(held, key, message);
  const busq_held_entry *entry = busq_holdback_at(held, place);
  return place < held->count && entry->key == key && entry->message == message ? place : held->count;
}

/* Whether it is sound, and made for so many. */
static inline bool busq_holdback_verify(const busq_holdback *held, uint32_t max)
{
  static const busq_held_entry nothing;
  if (held->max != max || held->unused || held->count > max || held->head > held->count ||
      (held->head && held->max < BUSQ_HOLDBACK_SMALL))
    return false;
  for (uint32_t place = 1; place < held->count; place++) {
    const busq_held_entry *entry = busq_holdback_at(held, place);
    if (!busq_held_less(entry - 1, entry->key, entry->message))
      return false;
  }
  for (size_t index = 0; index < busq_holdback_room(held->max); index++) {
    const bool is_used = index >= held->head && index < held->head + held->count;
    if (!is_used && memcmp(&held->entries[index], &nothing, sizeof nothing) != 0)
      return false;
  }
  return true;
}

#endif /* BUSQ_QUEUE_HOLDBACK_H */
