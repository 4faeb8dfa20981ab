/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_RECEIVE_LOOK_H
#define BUSQ_SHM_RECEIVE_LOOK_H
/*
 * Looking at one position of a queue: what stands there, and whether it may be delivered (the table of receive.h).
 *
 * Guarantee: everything that is used as an index or a length is read once and checked before it is used.
 *
 * All of it is compiled into the two loops that look: of a single reader (receive.c), and of one of several (shared_receive.c).  Functions that
 * stay out of line are static all the same, for the compiler then knows which registers they leave alone.
 */
#include "base/assert.h"
#include "base/error.h"
#include "clock/lamport.h"
#include "shm/memory/peer.h"
#include "shm/memory/reserve.h"
#include "shm/message/reference.h"
#include "shm/wake/wake.h"

typedef enum {
  BUSQ_LOOK_NOTHING,
  BUSQ_LOOK_PASS,
  BUSQ_LOOK_BLOCKED,
  BUSQ_LOOK_READY,
  BUSQ_LOOK_LATE,
  BUSQ_LOOK_AGAIN,
  BUSQ_LOOK_DAMAGED
} busq_look_outcome;

/* Everything that is used as an index or a length is read once and checked before it is used. */
BUSQ_ALWAYS_INLINE bool busq_found_fill(const busq_bus *bus, uint32_t slot, busq_reference reference, busq_record *record,
                                   busq_found *found)
{
  const uint32_t destinations = busq_record_destinations(record);
  const uint64_t size_bytes = busq_load_relaxed(&record->size_bytes);
  const uint64_t begin = (uint64_t)reference.record * BUSQ_LAYOUT_UNIT_BYTES;
  const uint64_t end = begin + busq_record_payload_offset(destinations, size_bytes) + size_bytes;
  if (BUSQ_UNLIKELY(destinations == 0 || destinations > bus->geometry.peers || busq_record_sender(record) != reference.sender ||
                    reference.sender >= busq_slots_reached(bus) || !busq_bus_has_bytes(bus, end)))
    return false;
  found->mark = destinations == 1 ? 0 : busq_record_mark_of(record, destinations, slot);
  if (BUSQ_UNLIKELY(found->mark == BUSQ_NO_MARK || record->destination[found->mark].slot != slot))
    return false;
  found->record = record;
  found->payload = (const char *)record + (end - size_bytes - begin);
  found->size_bytes = size_bytes;
  found->form = busq_record_form(record);
  found->sender_life = busq_load_relaxed(&record->sender_life);
  return busq_timestamp_is_sound(found->key.timestamp);
}

static inline void busq_found_release_record(busq_peer *peer, busq_record *record, uint32_t mark)
{
  const uint32_t slot = busq_record_sender(record); /* once: it may change between the check and the use */
  busq_arena_release(peer->bus, peer->slot, record, mark);
  busq_wake_owner(peer->bus, slot < busq_slots_reached(peer->bus) ? slot : peer->slot);
}

/* A predecessor's state of a message before it died: released, it is done; taken and not released, it had it, once;
 * offered and not acknowledged, it comes again. */
__attribute__((noinline)) static busq_look_outcome busq_look_inherited(busq_peer *peer, busq_found *found, uint64_t state,
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

/* Where there are several readers, what others have reached for is passed; what came back shows what became of it
 * before. */
static inline bool busq_look_may_be_had(const busq_peer *peer, busq_reference *reference, busq_found *found)
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

/* Not committed: what blocks the queue, or BUSQ_LOOK_AGAIN where it has changed meanwhile. */
__attribute__((noinline)) static busq_look_outcome busq_look_open(busq_record *record, uint64_t state, busq_found *found)
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

static inline int busq_look_damaged(const busq_peer *peer)
{
  return busq_error(BUSQ_CORRUPT, "the queue of \"%s\" is damaged at position %llu; remove bus \"%s\" and create it again",
                    peer->self->name, (unsigned long long)peer->receiver.scan, peer->bus->name);
}

/* A queue that is looked at gets memory, if it has none: or what is sent to it while its reader waits might find none. */
__attribute__((noinline)) static int busq_look_get_memory(busq_peer *peer)
{
  const int result = busq_reserve_ring(peer->bus, peer->receiver.inbox_slot, peer->receiver.ring.slot_count, NULL);
  peer->receiver.backing = busq_ring_backing(&peer->receiver.ring);
  return result == BUSQ_FULL ? busq_look_damaged(peer) : result; /* there is room in a queue that was never used */
}

BUSQ_ALWAYS_INLINE int busq_look_has_memory(busq_peer *peer)
{
  return BUSQ_LIKELY(peer->receiver.backing != peer->receiver.ring.slot_count) ? BUSQ_OK : busq_look_get_memory(peer);
}

/* Nothing stands at the end of a short ring.  Where a tail that was read before is behind it, that is damaged. */
__attribute__((noinline)) static busq_look_outcome busq_look_at_end(busq_peer *peer, uint64_t position)
{
  const uint64_t tail = busq_ring_tail(&peer->receiver.ring);
  peer->receiver.backing = busq_ring_backing(&peer->receiver.ring);
  if (position < peer->receiver.backing)
    return BUSQ_LOOK_AGAIN;
  return position < tail ? BUSQ_LOOK_DAMAGED : BUSQ_LOOK_NOTHING;
}

BUSQ_ALWAYS_INLINE busq_look_outcome busq_look(busq_peer *peer, uint64_t position, busq_found *found)
{
  busq_reference reference;
  BUSQ_STEP("look");
  busq_pair *const slot = busq_receiver_slot(&peer->receiver, position);
  if (BUSQ_UNLIKELY(!slot))
    return busq_look_at_end(peer, position);
  if (!busq_ring_look_into(&peer->receiver.ring, slot, position, &reference))
    return BUSQ_LOOK_NOTHING;
  found->is_late = found->is_redelivered = found->was_given_back = false;
  if (BUSQ_UNLIKELY(reference.sender > BUSQ_RING_SENDER_MASK) && !busq_look_may_be_had(peer, &reference, found))
    return BUSQ_LOOK_PASS;
  busq_record *record = busq_reference_record(peer->bus, reference);
  if (BUSQ_UNLIKELY(!record))
    return BUSQ_LOOK_DAMAGED;
  BUSQ_STEP("read");
  __builtin_prefetch((const char *)record + BUSQ_LAYOUT_UNIT_BYTES, 0, 3);
  /* SYNC POINT commit: what comes before the commit (all its clocks are raised) comes before our delivery. */
  const uint64_t state = busq_load_acquire(&record->state.lo);
  if (BUSQ_UNLIKELY(((state ^ reference.tag) & ~BUSQ_PHASE_MASK) || (state & BUSQ_PHASE_MASK) == BUSQ_PHASE_FREE))
    return BUSQ_LOOK_PASS;
  found->position = position;
  found->key.sender = reference.sender;
  found->key.sequence = reference.tag;
  if (BUSQ_UNLIKELY((state & BUSQ_PHASE_MASK) != BUSQ_PHASE_COMMITTED))
    return busq_look_open(record, state, found);
  found->key.timestamp = busq_load_relaxed(&record->state.hi);
  if (BUSQ_UNLIKELY(!busq_found_fill(peer->bus, peer->receiver.inbox_slot, reference, record, found)))
    return position < peer->receiver.inherited && !busq_record_is_still(record, state) ? BUSQ_LOOK_PASS : BUSQ_LOOK_DAMAGED;
  const bool in_place = busq_record_destinations(record) == 1 || found->key.timestamp == record->proposal;
  const busq_look_outcome outcome = BUSQ_LIKELY(in_place) ? BUSQ_LOOK_READY : BUSQ_LOOK_LATE;
  return BUSQ_LIKELY(position >= peer->receiver.inherited) ? outcome : busq_look_inherited(peer, found, state, outcome);
}

/* The least of the heap against what stands at `scan`: true if nothing that is there or may come can be lower. */
static inline bool busq_look_heap_may_go(const busq_peer *peer, busq_look_outcome outcome, const busq_found *next)
{
  const busq_heap_entry *least = busq_heap_least(&peer->receiver.heap);
  if (!least)
    return false;
  if (outcome == BUSQ_LOOK_NOTHING) {
    BUSQ_STEP("tail");
    return busq_ring_tail(&peer->receiver.ring) == peer->receiver.scan;
  }
  return busq_key_less(least->key, next->key);
}

/* Moves a late message to the heap; false where memory ran out. */
static inline bool busq_look_hold_back(busq_peer *peer, const busq_found *found)
{
  const uint64_t offset = (uint64_t)((const char *)found->record - peer->bus->arena);
  const busq_heap_entry entry = {found->key, found->position, (uint32_t)(offset / BUSQ_LAYOUT_UNIT_BYTES),
                                 (uint16_t)found->mark, found->is_redelivered, found->was_given_back};
  return busq_heap_push(&peer->receiver.heap, entry);
}

#endif /* BUSQ_SHM_RECEIVE_LOOK_H */
