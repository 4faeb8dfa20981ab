/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_SEND_DESTINATION_H
#define BUSQ_SHM_SEND_DESTINATION_H
/*
 * The destinations of a message, before any queue is touched: which they are, whether they live, and whether they have
 * room.
 *
 * Guarantee: what is wrong with a call, or with a receiver that can be seen to be gone or full, is found here, and then
 * nothing was changed.
 *
 * Mechanism.  Whether a peer lives is asked of the kernel (grave.h), but not for every message: always for a peer that
 * sends now and then; in a burst a limited number of times per tick of the clock, and each destination at least every
 * few ticks.
 *
 * Not given: that a destination still lives, or has room, a moment later.  The stages that follow find out
 * (multicast.h).
 *
 * What most sends need of this is inlined into them; the rest is in destination.c.
 */
#include "base/time.h"
#include "shm/memory/peer.h"

/* A destination, looked up once: past an access to shared memory the compiler has to read everything anew. */
typedef struct {
  uint32_t slot;
  busq_slot *reader;
  busq_destination_cache *known;
  busq_ring ring;
} busq_route;

BUSQ_ALWAYS_INLINE busq_route busq_route_to(const busq_peer *peer, uint32_t slot)
{
  return (busq_route){slot, &peer->bus->slots[slot], &peer->sender.known[slot], busq_bus_ring(peer->bus, slot)};
}

/* Sorts the targets by slot into peer->sender.destinations; every sender visits queues in this order, which keeps
 * proposals from getting lost.  Incarnations go to peer->sender.known.  BUSQ_TO_GROUP where one of the targets is a
 * group. */
int busq_destinations_sort(busq_peer *peer, const uint64_t *targets, uint32_t n_targets);

/* ---- life ---- */

/* Sets peer->sender.failed_target, and returns BUSQ_PEER_DEAD. */
BUSQ_COLD int busq_destination_gone(busq_peer *peer, uint32_t slot);
/* Asks the kernel. */
int busq_destination_ask(busq_peer *peer, uint32_t slot);

BUSQ_ALWAYS_INLINE bool busq_destination_may_glance(busq_peer *peer, busq_destination_cache *known, uint64_t tick_ns)
{
  enum { GLANCES_PER_TICK = 64 };
  const uint64_t overdue_ns = 50000000;
  if (BUSQ_UNLIKELY(tick_ns != peer->sender.tick_ns)) {
    peer->sender.tick_ns = tick_ns;
    peer->sender.glances = 0;
  }
  if (BUSQ_LIKELY(peer->sender.glances >= GLANCES_PER_TICK && tick_ns - known->glanced_ns < overdue_ns))
    return false;
  peer->sender.glances++;
  known->glanced_ns = tick_ns;
  return true;
}

BUSQ_ALWAYS_INLINE int busq_destination_check(busq_peer *peer, const busq_route *to, uint64_t tick_ns)
{
  const uint64_t life = busq_load_acquire(&to->reader->life) & ~(uint64_t)(BUSQ_LIFE_DURABLE | BUSQ_LIFE_SHARED);
  if (BUSQ_LIKELY(life == busq_life_word(to->known->incarnation, BUSQ_LIFE_LIVE)) &&
      BUSQ_LIKELY(!busq_destination_may_glance(peer, to->known, tick_ns)))
    return BUSQ_OK;
  return busq_destination_ask(peer, to->slot);
}

/* Has the queue ended (queue_end.c), so that this peer can put nothing into it? */
BUSQ_COLD bool busq_destination_is_over(const busq_peer *peer, uint32_t slot);
/* The error where a queue takes nothing any more: it has ended, or is gone. */
BUSQ_COLD int busq_destination_over(busq_peer *peer, uint32_t slot);

/* ---- room ---- */

BUSQ_COLD int busq_queue_damaged(const busq_peer *peer, uint32_t slot);
/* The tail is at the end of a ring that is short or bare (queue/ring.h), as it was seen: the end moves on, or the queue
 * is full, or has no memory at all. */
BUSQ_COLD int busq_destination_reserve(busq_peer *peer, uint32_t slot, uint64_t tail);
/* The head that was seen last leaves no room: looks again, and makes room where there is no reader. */
BUSQ_COLD int busq_destination_room_slow(busq_peer *peer, uint32_t slot);

/* Each peer has at most one message between this look and its last stage, and the ring has a slot to spare for every
 * peer: so staging never finds a ring full that is whole, or can become so. */
BUSQ_ALWAYS_INLINE int busq_destination_room(busq_peer *peer, const busq_route *to)
{
  const uint64_t tail = busq_ring_tail(&to->ring);
  if (BUSQ_LIKELY(tail - to->known->head_seen < busq_bus_limit(peer->bus, to->reader)) && busq_ring_reaches(&to->ring, tail))
    return BUSQ_OK;
  return busq_destination_room_slow(peer, to->slot);
}

/* ---- all of it ---- */

/* It is too large, or the bus was shut down. */
BUSQ_COLD int busq_message_refuse(const busq_peer *peer, uint64_t size_bytes);

BUSQ_ALWAYS_INLINE int busq_message_check_size(const busq_peer *peer, uint64_t size_bytes)
{
  const busq_bus *bus = peer->bus;
  if (BUSQ_UNLIKELY(size_bytes > bus->payload_bytes_max || busq_load_relaxed(&bus->header->is_shut_down)))
    return busq_message_refuse(peer, size_bytes);
  return BUSQ_OK;
}

/* Whether a message can be sent, as far as that can be seen before it has a record: to any targets. */
int busq_message_admit(busq_peer *peer, const uint64_t *targets, uint32_t n_targets, uint64_t size_bytes);

/* To a single one, whose route is given. */
BUSQ_ALWAYS_INLINE int busq_message_admit_one(busq_peer *peer, const busq_route *only, uint64_t target,
                                              uint64_t size_bytes)
{
  peer->sender.failed_target = BUSQ_NO_TARGET;
  peer->sender.is_short = false;
  busq_store_relaxed(&peer->sender.finds_more, false);
  busq_prefetch_write(&only->reader->queue.clock_tail);
  int result = busq_message_check_size(peer, size_bytes);
  if (BUSQ_UNLIKELY(result != BUSQ_OK))
    return result;
  peer->sender.destinations[0] = (uint16_t)only->slot;
  only->known->incarnation = busq_target_incarnation(target);
  BUSQ_TIME("sorted");
  const uint64_t tick_ns = busq_time_tick_ns();
  BUSQ_TIME("tick");
  result = busq_destination_check(peer, only, tick_ns);
  BUSQ_TIME("checked");
  /* The line where the reference will stand is the one that a waiting reader looks at: asked for as early as it is
   * known, it comes while the record is filled. */
  busq_prefetch_write(busq_ring_slot(&only->ring, busq_ring_tail(&only->ring)));
  if (BUSQ_LIKELY(!result))
    result = busq_destination_room(peer, only);
  BUSQ_TIME("has room");
  return result;
}

#endif /* BUSQ_SHM_SEND_DESTINATION_H */
