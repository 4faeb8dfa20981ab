/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/send/room.h"
#include "base/error.h"
#include "base/time.h"
#include "shm/burial/grave.h"
#include "shm/memory/reserve.h"
#include "shm/message/shared_take.h"
#include "shm/wake/slice.h"

int busq_queue_damaged(const busq_peer *peer, uint32_t slot)
{
  return busq_error(BUSQ_CORRUPT, "the queue of peer slot %u of bus \"%s\" is damaged; remove the bus and create it again", slot,
                    peer->bus->name);
}

static int queue_full(busq_peer *peer, uint32_t slot)
{
  peer->sender.failed_target = (uint64_t)peer->sender.known[slot].incarnation << 16 | slot;
  return BUSQ_FULL;
}

/* Refused memory is asked for again after a slice: past half of a short ring, each message would ask. */
int busq_destination_reserve(busq_peer *peer, uint32_t slot, uint64_t tail)
{
  busq_destination_cache *known = &peer->sender.known[slot];
  const uint64_t tick_ns = busq_time_tick_ns();
  const bool asks = !known->refused_ns || tick_ns - known->refused_ns >= BUSQ_SLICE_NS;
  bool is_refused = false;
  const int result = busq_reserve_ring(peer->bus, slot, tail, asks ? &is_refused : NULL);
  if (is_refused)
    known->refused_ns = tick_ns;
  if (result != BUSQ_FULL)
    return result;
  peer->sender.is_short = true;
  return queue_full(peer, slot);
}

/* The tail between two looks at the head: if that stood still meanwhile, the three belong together.  A reader that is
 * so busy that it never does makes room faster than we can look: full, try again. */
static int room_look(busq_peer *peer, uint32_t slot)
{
  enum { LOOKS = 16 };
  const busq_ring ring = busq_bus_ring(peer->bus, slot);
  busq_destination_cache *known = &peer->sender.known[slot];
  for (int look = 0; look < LOOKS; look++) {
    known->head_seen = busq_load_acquire(&ring.queue->head);
    const uint64_t tail = busq_ring_tail(&ring), depth = tail - known->head_seen;
    if (depth < busq_bus_limit(peer->bus, &peer->bus->slots[slot]))
      return busq_ring_reaches(&ring, tail) ? BUSQ_OK : busq_destination_reserve(peer, slot, tail);
    if (depth > ring.slot_count && busq_load_acquire(&ring.queue->head) == known->head_seen)
      return busq_queue_damaged(peer, slot);
    if (depth <= ring.slot_count)
      break;
  }
  return queue_full(peer, slot);
}

/* The head of a shared queue does not move over a message that a reader had released, and not taken out, when it was
 * killed: the other readers see to that when they look at the queue, but they may be busy with what they have taken. */
static int room_of_dead_readers(busq_peer *peer, uint32_t slot)
{
  busq_destination_cache *known = &peer->sender.known[slot];
  const uint64_t tick_ns = busq_time_tick_ns();
  if (known->tended_ns && tick_ns - known->tended_ns < BUSQ_SLICE_NS)
    return BUSQ_FULL;
  known->tended_ns = tick_ns;
  busq_grave_bury_readers(peer->bus, slot, peer->slot, &known->tended);
  busq_share_advance(peer->bus, slot, slot);
  return room_look(peer, slot);
}

/* A full queue without a reader may be full of references that will never be received. */
int busq_destination_room_slow(busq_peer *peer, uint32_t slot)
{
  int result = room_look(peer, slot);
  if (result == BUSQ_FULL && busq_destination_is_over(peer, slot))
    return busq_destination_over(peer, slot);
  if (result == BUSQ_FULL && (busq_load_acquire(&peer->bus->slots[slot].life) & BUSQ_LIFE_SHARED))
    result = room_of_dead_readers(peer, slot);
  if (result != BUSQ_FULL)
    return result;
  const busq_compact_outcome outcome = busq_grave_compact(peer->bus, slot);
  busq_store_relaxed(&peer->sender.finds_more, outcome == BUSQ_COMPACT_NOT_OVER);
  return outcome == BUSQ_COMPACT_ROOM ? room_look(peer, slot) : BUSQ_FULL;
}
