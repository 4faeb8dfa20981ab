/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_SEND_ROOM_H
#define BUSQ_SHM_SEND_ROOM_H
/*
 * Whether a destination's queue has room: where a queue is found to be full.
 *
 * Guarantee: a queue is full only where its limit is reached by messages that are there, or by such as a process that
 * lives may still bring, or where its ring can't grow (`sender.is_short`).
 *
 * Mechanism.  Each sender keeps the head that it saw last, and looks again only where that leaves no room.  Of a queue
 * without a reader it takes out what will never be received (burial/grave.h), of a shared one what dead readers had
 * released.
 *
 * Not given: that there is room a moment later.  Each peer has at most one message between this look and its last
 * stage, and the ring has a slot to spare for every peer: so staging never finds a ring full that is whole, or can
 * become so.
 */
#include "shm/send/destination.h"

BUSQ_COLD int busq_queue_damaged(const busq_peer *peer, uint32_t slot);
/* The tail is at the end of a ring that is short or bare (queue/ring.h), as it was seen: the end moves on, or the queue
 * is full, or has no memory at all. */
BUSQ_COLD int busq_destination_reserve(busq_peer *peer, uint32_t slot, uint64_t tail);
/* The head that was seen last leaves no room: looks again, and makes room where there is no reader. */
BUSQ_COLD int busq_destination_room_slow(busq_peer *peer, uint32_t slot);

BUSQ_ALWAYS_INLINE int busq_destination_room(busq_peer *peer, const busq_route *to)
{
  const uint64_t tail = busq_ring_tail(&to->ring);
  if (BUSQ_LIKELY(tail - to->known->head_seen < busq_bus_limit(peer->bus, to->reader)) && busq_ring_reaches(&to->ring, tail))
    return BUSQ_OK;
  return busq_destination_room_slow(peer, to->slot);
}

#endif /* BUSQ_SHM_SEND_ROOM_H */
