/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_SEND_FIND_RECORD_H
#define BUSQ_SHM_SEND_FIND_RECORD_H
/*
 * Memory for a record, and giving back what others need more.
 *
 * Guarantee: a sender finds what the arena can give, wherever it is: its own, that of the gone, what others keep and do
 * not need.  A single call looks at a bounded number of records; the next one goes on from there.
 */
#include "shm/memory/peer.h"

/* Gives memory back that another peer asks for; wants the send latch. */
void busq_send_return_memory_slow(busq_peer *peer);
static inline bool busq_send_is_memory_wanted(const busq_peer *peer)
{
  return busq_load_relaxed(&peer->bus->header->memory_wanted) != busq_load_relaxed(&peer->sender.memory_wanted_seen);
}
static inline void busq_send_return_memory(busq_peer *peer)
{
  if (BUSQ_UNLIKELY(busq_send_is_memory_wanted(peer)))
    busq_send_return_memory_slow(peer);
}

/* The arena has none: first what the gone do not need any more, then what they have left, last what others may give
 * back. */
BUSQ_COLD int busq_send_find_memory(busq_peer *peer, uint64_t bytes, busq_record **recordp);

BUSQ_ALWAYS_INLINE int busq_send_take_record(busq_peer *peer, uint64_t bytes, busq_record **recordp)
{
  busq_send_return_memory(peer);
  const int result = busq_arena_take(&peer->sender.arena, bytes, recordp);
  return BUSQ_UNLIKELY(result == BUSQ_FULL) ? busq_send_find_memory(peer, bytes, recordp) : result;
}

#endif /* BUSQ_SHM_SEND_FIND_RECORD_H */
