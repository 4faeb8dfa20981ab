/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_SEND_ADMIT_H
#define BUSQ_SHM_SEND_ADMIT_H
/*
 * Whether a message can be sent, as far as that can be seen before it has a record.
 *
 * Guarantee: what is wrong with a call, with its size, or with a receiver that can be seen to be gone or full, is found
 * here, and then nothing was changed.
 *
 * Mechanism: its size first, then the life of all destinations (destination.h), then their room (room.h).
 *
 * Not given: that all this is so a moment later.  The stages that follow find out (multicast.h).
 *
 * What most sends need of this is inlined into them.
 */
#include "base/time.h"
#include "shm/send/room.h"

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

#endif /* BUSQ_SHM_SEND_ADMIT_H */
