/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/message/reference.h"
#include "shm/message/commit.h"
#include "shm/wake/wake.h"

/* A dead reference stays dead: no tag comes twice, and a mark with RELEASED stands until the record holds another
 * message. */
busq_fate busq_reference_fate(const busq_bus *bus, uint32_t slot, busq_reference reference)
{
  if (reference.sender == BUSQ_RING_NOBODY)
    return BUSQ_FATE_DEAD;
  busq_record *record = busq_reference_record(bus, reference);
  if (!record)
    return BUSQ_FATE_GOOD; /* damage, which its reader will report */
  const uint64_t state = busq_load_acquire(&record->state.lo);
  if (((state ^ reference.tag) & ~BUSQ_PHASE_MASK) || (state & BUSQ_PHASE_MASK) == BUSQ_PHASE_FREE)
    return BUSQ_FATE_DEAD;
  if ((state & BUSQ_PHASE_MASK) != BUSQ_PHASE_COMMITTED)
    return BUSQ_FATE_UNFINISHED;
  const uint32_t destinations = busq_record_destinations(record);
  const uint32_t mark = destinations <= bus->geometry.peers ? busq_record_mark_of(record, destinations, slot) : BUSQ_NO_MARK;
  return mark != BUSQ_NO_MARK && (busq_load_acquire(&record->destination[mark].mark) & BUSQ_MARK_RELEASED)
             ? BUSQ_FATE_DEAD
             : BUSQ_FATE_GOOD;
}

bool busq_reference_discard(busq_bus *bus, uint32_t slot, busq_reference reference)
{
  busq_record *record = reference.sender == BUSQ_RING_NOBODY ? NULL : busq_reference_record(bus, reference);
  if (!record)
    return false;
  /* Only a committed message stays what it is until our mark is set. Any other might be taken back by its sender, and
   * the record used again, while we are stopped before setting a mark that would then be another message's.  Again
   * where its sender was faster: sealed behind our back and left alone, it would be committed and wait for our mark for
   * ever. */
  enum { TRIES = 8 };
  uint64_t state = 0;
  for (int i = 0; i < TRIES; i++) {
    state = busq_load_acquire(&record->state.lo);
    if (state != (reference.tag | BUSQ_PHASE_STAGING) && state != (reference.tag | BUSQ_PHASE_SEALED))
      break;
    (void)busq_commit_help(bus, record, reference.tag);
  }
  if (state != (reference.tag | BUSQ_PHASE_COMMITTED))
    return false;
  const uint32_t destinations = busq_record_destinations(record);
  const uint32_t mark = destinations <= bus->geometry.peers ? busq_record_mark_of(record, destinations, slot)
                                                            : BUSQ_NO_MARK;
  if (mark == BUSQ_NO_MARK || (busq_load_acquire(&record->destination[mark].mark) & BUSQ_MARK_RELEASED) ||
      !busq_record_is_still(record, state))
    return false;
  busq_arena_release(bus, slot, record, mark);
  if (reference.sender != BUSQ_RING_NOBODY && (reference.sender & BUSQ_RING_SENDER_MASK) < busq_slots_reached(bus))
    busq_wake_owner(bus, reference.sender & BUSQ_RING_SENDER_MASK);
  return true;
}
