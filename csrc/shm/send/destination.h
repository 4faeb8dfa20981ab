/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_SEND_DESTINATION_H
#define BUSQ_SHM_SEND_DESTINATION_H
/*
 * The destinations of a message, before any queue is touched: which they are, and whether they live.
 *
 * Guarantee: what is wrong with them, or that one can be seen to be gone, is found here, and then nothing was changed.
 *
 * Mechanism.  Whether a peer lives is asked of the kernel (grave.h), but not for every message: always for a peer that
 * sends now and then; in a burst a limited number of times per tick of the clock, and each destination at least every
 * few ticks.
 *
 * Not given: that a destination still lives a moment later.  The stages that follow find out (multicast.h).
 *
 * What most sends need of this is inlined into them; the rest is in destination.c.
 */
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

#endif /* BUSQ_SHM_SEND_DESTINATION_H */
