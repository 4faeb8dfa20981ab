/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_QUEUE_OUTBOX_H
#define BUSQ_QUEUE_OUTBOX_H
/*
 * The output buffer of a protocol: messages of one's own, first in, first out.
 *
 * Guarantee: push and pop in O(1); what is not in use is zero, so that states can be compared byte by byte.
 *
 * Mechanism: a ring behind its header, in a block that the caller owns; no pointers.  Where it begins depends on
 * nothing but how many entries have left: two buffers that have let go of as many and hold the same are equal, whenever
 * the entries came.
 *
 * Not given: growing.  A caller asks for room before it pushes.
 */
#include "base/types.h"
#include <string.h>

typedef struct {
  uint64_t message;
  uint64_t stamp;
  uint32_t to; /* the destination, or how many there are: what the order needs */
  uint32_t note;
} busq_outbox_entry;

/* Invariant: count <= max, head < max. */
typedef struct {
  uint32_t head;
  uint32_t count;
  uint32_t max;
  uint32_t unused;
  busq_outbox_entry entries[];
} busq_outbox;

static inline size_t busq_outbox_size(uint32_t max)
{
  return sizeof(busq_outbox) + max * sizeof(busq_outbox_entry);
}

static inline void busq_outbox_init(busq_outbox *outbox, uint32_t max)
{
  outbox->max = max;
}

/* The bytes behind it, in a state that goes on. */
static inline void *busq_outbox_end(const busq_outbox *outbox)
{
  return (char *)outbox + busq_outbox_size(outbox->max);
}

static inline bool busq_outbox_is_full(const busq_outbox *outbox)
{
  return outbox->count == outbox->max;
}

/* The entry that stands at this place, the oldest at 0. */
static inline busq_outbox_entry *busq_outbox_at(const busq_outbox *outbox, uint32_t place)
{
  const uint32_t index = outbox->head + place;
  return (busq_outbox_entry *)&outbox->entries[index < outbox->max ? index : index - outbox->max];
}

static inline void busq_outbox_push(busq_outbox *outbox, busq_outbox_entry entry)
{
  *busq_outbox_at(outbox, outbox->count++) = entry;
}

static inline busq_outbox_entry busq_outbox_pop(busq_outbox *outbox)
{
  busq_outbox_entry *first = &outbox->entries[outbox->head];
  const busq_outbox_entry entry = *first;
  memset(first, 0, sizeof *first);
  outbox->count--;
  outbox->head = outbox->head + 1 == outbox->max ? 0 : outbox->head + 1;
  return entry;
}

/* Takes an entry out of the middle; those before it move up.  O(place). */
static inline busq_outbox_entry busq_outbox_remove(busq_outbox *outbox, uint32_t place)
{
  const busq_outbox_entry entry = *busq_outbox_at(outbox, place);
  for (; place > 0; place--)
    *busq_outbox_at(outbox, place) = *busq_outbox_at(outbox, place - 1);
  busq_outbox_pop(outbox);
  return entry;
}

/* Whether it is sound, and made for so many. */
static inline bool busq_outbox_verify(const busq_outbox *outbox, uint32_t max)
{
  if (outbox->max != max || outbox->unused || outbox->count > max || (outbox->head >= outbox->max && outbox->max))
    return false;
  static const busq_outbox_entry nothing;
  for (uint32_t place = outbox->count; place < outbox->max; place++) {
    const uint32_t index = (uint32_t)(((uint64_t)outbox->head + place) % outbox->max);
    if (memcmp(&outbox->entries[index], &nothing, sizeof nothing) != 0)
      return false;
  }
  return true;
}

#endif /* BUSQ_QUEUE_OUTBOX_H */
