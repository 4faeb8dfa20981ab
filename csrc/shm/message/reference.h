/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_MESSAGE_REFERENCE_H
#define BUSQ_SHM_MESSAGE_REFERENCE_H
/*
 * References in queues: the records that they stand for, and what will become of them.
 *
 * Guarantee: nothing in a reference or a record is used as an index before it was checked; what is found dead stays
 * dead; a message is discarded only while it is the one that the reference means.
 *
 * Mechanism.  A reference carries the sequence number and the attempt of its message.  It counts for as long as the
 * record's state has the same; and a record that a destination has not released stays what it is.
 */
#include "shm/memory/arena.h"
#include "shm/memory/bus.h"

#define BUSQ_NO_MARK UINT32_MAX

/* Which destination of a record a slot is; destinations are sorted. */
static inline uint32_t busq_record_mark_of(const busq_record *record, uint32_t destinations, uint32_t slot)
{
  uint32_t low = 0, high = destinations;
  while (low < high) {
    const uint32_t middle = (low + high) / 2;
    if (record->destination[middle].slot < slot)
      low = middle + 1;
    else
      high = middle;
  }
  return low < destinations && record->destination[low].slot == slot ? low : BUSQ_NO_MARK;
}

static inline busq_record *busq_reference_record(const busq_bus *bus, busq_reference reference)
{
  return busq_bus_has_units(bus, reference.record + UINT64_C(1)) ? busq_bus_record(bus, reference.record) : NULL;
}

/* Was the record still the same message after all that we have read of it?  What a destination has released may be used
 * again at any moment, and its mark then be that of another message; what it has not, stays. */
static inline bool busq_record_is_still(const busq_record *record, uint64_t state)
{
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  return busq_load_relaxed(&record->state.lo) == state;
}

/* The fate of a reference in the queue of a departed peer. */
typedef enum {
  BUSQ_FATE_DEAD, /* it will never be received: a hole, an attempt that is over, a message that was released */
  BUSQ_FATE_GOOD,
  BUSQ_FATE_UNFINISHED /* not final yet */
} busq_fate;
busq_fate busq_reference_fate(const busq_bus *bus, uint32_t slot, busq_reference reference);
/* Releases a message unread, for a reader that is gone; false where there is nothing to release. */
bool busq_reference_discard(busq_bus *bus, uint32_t slot, busq_reference reference);

#endif /* BUSQ_SHM_MESSAGE_REFERENCE_H */
