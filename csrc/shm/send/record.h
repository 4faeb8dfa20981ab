/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_SEND_RECORD_H
#define BUSQ_SHM_SEND_RECORD_H
/*
 * Filling a record that is still the sender's own.
 *
 * Guarantee: a sender that dies at any point of this leaves a record that reads as free.
 */
#include "base/assert.h"
#include "shm/send/send_hooks.h"

/* Sequence numbers are never used twice in the life of a slot: a block of them is reserved before its first is used. */
static inline uint64_t busq_send_next_sequence(busq_peer *peer)
{
  enum { BLOCK = 1 << 16 };
  if (BUSQ_UNLIKELY(++peer->sender.sequence >= peer->sender.sequence_limit)) {
    peer->sender.sequence_limit = peer->sender.sequence + BLOCK;
    busq_store_release(&peer->self->sequence_reserved, peer->sender.sequence_limit);
  }
  return peer->sender.sequence;
}

/* Free first: a sender that dies here must not leave marks behind that look as if the record's last message were
 * needed. */
BUSQ_ALWAYS_INLINE void busq_send_free_record(busq_record *record)
{
  busq_store_release(&record->state.lo, BUSQ_PHASE_FREE);
  __atomic_thread_fence(__ATOMIC_RELEASE);
}

/* Most messages have one part. */
BUSQ_ALWAYS_INLINE void busq_send_gather(char *to, const busq_payload *payload)
{
  if (BUSQ_LIKELY(payload->n_parts == 1 && payload->parts->size_bytes)) {
    memcpy(to, payload->parts->data, payload->parts->size_bytes);
    return;
  }
  for (uint32_t i = 0; i < payload->n_parts; i++) {
    const busq_part *part = &payload->parts[i];
    if (part->size_bytes)
      memcpy(to, part->data, part->size_bytes);
    to += part->size_bytes;
  }
}

BUSQ_ALWAYS_INLINE void busq_send_fill(busq_peer *peer, busq_record *record, uint32_t n_targets,
                                       const busq_payload *payload)
{
  busq_send_free_record(record);
  record->size_bytes = (uint32_t)payload->size_bytes;
  record->sender_life = peer->life;
  record->origin = (uint16_t)(payload->form << BUSQ_RECORD_FORM_SHIFT | peer->slot);
  /* Atomic, because others may be late and still look at them: a helper that completes the record's last message, or a
   * reader that released it and asks whether it was the last (large_release; the swap that follows its look fails). */
  busq_store_relaxed(&record->outline, (uint16_t)n_targets);
  for (uint32_t i = 0; i < n_targets; i++) {
    BUSQ_ASSERT(peer->sender.destinations[i] < peer->bus->geometry.peers);
    BUSQ_ASSERT(i == 0 || peer->sender.destinations[i - 1] < peer->sender.destinations[i]); /* readers look for themselves by halving */
    busq_store_relaxed(&record->destination[i].slot, peer->sender.destinations[i]);
    busq_store_relaxed(&record->destination[i].mark, 0);
  }
  BUSQ_STEP("fill");
  busq_send_gather((char *)record + busq_record_payload_offset(n_targets, payload->size_bytes), payload);
}

static inline uint32_t busq_send_record_unit(const busq_peer *peer, const busq_record *record)
{
  const uint64_t offset = (uint64_t)((const char *)record - peer->bus->arena);
  BUSQ_ASSERT(offset % BUSQ_LAYOUT_UNIT_BYTES == 0);
  BUSQ_ASSERT(busq_bus_has_bytes(peer->bus, offset + 1));
  return (uint32_t)(offset / BUSQ_LAYOUT_UNIT_BYTES);
}

/* SYNC POINT in hand: the last message is done with before, and no other process knows of this one yet. */
static inline void busq_send_take_in_hand(const busq_peer *peer, uint32_t unit)
{
  busq_store_release(&peer->self->in_hand, (peer->sender.sent + 1) << 32 | unit);
}

/* The state is stored, not swapped, while no other process can know the record; the release orders it before the marks'
 * next readers, which come by way of the extent table. */
static inline void busq_send_set_state(busq_record *record, uint64_t tag, uint32_t phase, uint64_t timestamp)
{
  BUSQ_ASSERT(!(tag & BUSQ_PHASE_MASK));
  BUSQ_ASSERT(phase == BUSQ_PHASE_STAGING || phase == BUSQ_PHASE_COMMITTED);
  busq_store_relaxed(&record->state.hi, timestamp);
  busq_store_release(&record->state.lo, tag | phase);
}

#endif /* BUSQ_SHM_SEND_RECORD_H */
