/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/receive/look.h"
#include "base/error.h"

__attribute__((noinline)) busq_look_outcome busq_look_inherited(busq_peer *peer, busq_found *found, uint64_t state,
                                                             busq_look_outcome outcome)
{
  if (peer->receiver.is_consumer)
    return busq_record_is_still(found->record, state) ? outcome : BUSQ_LOOK_PASS; /* others may have taken it meanwhile */
  const uint32_t mark = busq_load_acquire(&found->record->destination[found->mark].mark);
  found->is_redelivered = (mark & BUSQ_MARK_OFFERED) != 0;
  found->was_given_back = (mark & BUSQ_MARK_RETURNED) != 0;
  if ((mark & BUSQ_MARK_RELEASED) || !busq_record_is_still(found->record, state))
    return BUSQ_LOOK_PASS;
  if (!(mark & BUSQ_MARK_TAKEN))
    return outcome;
  busq_found_release_record(peer, found->record, found->mark);
  return BUSQ_LOOK_PASS;
}

bool busq_look_may_be_had(const busq_peer *peer, busq_reference *reference, busq_found *found)
{
  const uint32_t bits = reference->sender;
  if (bits == BUSQ_RING_NOBODY)
    return false;
  if (!peer->receiver.is_consumer)
    return true; /* damage, which is found */
  found->is_redelivered = (bits & BUSQ_RING_OFFERED) != 0;
  found->was_given_back = (bits & BUSQ_RING_RETURNED) != 0;
  reference->sender &= BUSQ_RING_SENDER_MASK;
  return !(bits & BUSQ_RING_CLAIMED);
}

__attribute__((noinline)) busq_look_outcome busq_look_open(busq_record *record, uint64_t state, busq_found *found)
{
  /* Sealed at a time that no clock can have reached: it will not be finished. */
  if (BUSQ_UNLIKELY((state & BUSQ_PHASE_MASK) == BUSQ_PHASE_SEALED &&
                    !busq_timestamp_is_sound(busq_load_relaxed(&record->state.hi)) &&
                    busq_load_acquire(&record->state.lo) == state))
    return BUSQ_LOOK_DAMAGED;
  found->key.timestamp = busq_load_acquire(&record->proposal);
  /* Undone and used again since we read its state, its proposal would be that of a later message: too high a bound. */
  return busq_load_relaxed(&record->state.lo) == state ? BUSQ_LOOK_BLOCKED : BUSQ_LOOK_AGAIN;
}

bool busq_look_hold_back(busq_peer *peer, const busq_found *found)
{
  const uint64_t offset = (uint64_t)((const char *)found->record - peer->bus->arena);
  const busq_heap_entry entry = {found->key, found->position, (uint32_t)(offset / BUSQ_LAYOUT_UNIT_BYTES),
                                 (uint16_t)found->mark, found->is_redelivered, found->was_given_back};
  return busq_heap_push(&peer->receiver.heap, entry);
}

int busq_look_damaged(const busq_peer *peer)
{
  return busq_error(BUSQ_CORRUPT, "the queue of \"%s\" is damaged at position %llu; remove bus \"%s\" and create it again",
                    peer->self->name, (unsigned long long)peer->receiver.scan, peer->bus->name);
}
