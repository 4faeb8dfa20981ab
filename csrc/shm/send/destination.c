/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/send/destination.h"
#include "base/error.h"
#include "shm/burial/grave.h"
#include "shm/memory/reserve.h"
#include "shm/message/shared_take.h"
#include "shm/wake/slice.h"

/* ---- which they are ---- */

/* Two targets name the same slot in two lives: a member of a group that has died, and another peer that has its slot
 * now and is named beside the group. */
static int destination_twice(busq_peer *peer, uint64_t target)
{
  const uint32_t slot = busq_target_slot(target), incarnation = busq_target_incarnation(target);
  busq_destination_cache *known = &peer->sender.known[slot];
  if (known->incarnation == incarnation) {
    peer->sender.failed_target = target;
    return busq_error(BUSQ_INVALID, "receiver \"%.255s\" is given twice; each receiver gets a message once", peer->bus->slots[slot].name);
  }
  if ((uint32_t)(busq_load_acquire(&peer->bus->slots[slot].life) >> 32) != incarnation)
    known->incarnation = incarnation; /* this one is gone, or both are */
  return busq_destination_gone(peer, slot);
}

/* Where there are more targets than the bus has slots, one of them is met twice. */
int busq_destinations_sort(busq_peer *peer, const uint64_t *targets, uint32_t n_targets)
{
  uint16_t *sorted = peer->sender.destinations;
  const uint32_t peers = peer->bus->geometry.peers, reached = busq_slots_reached(peer->bus);
  if (n_targets == 0)
    return busq_error(BUSQ_INVALID, "no receivers: expected 1 to %u, each of them once", peers);
  for (uint32_t i = 0; i < n_targets; i++) {
    const uint16_t slot = (uint16_t)busq_target_slot(targets[i]);
    if (BUSQ_UNLIKELY(slot >= reached))
      return slot == BUSQ_TARGET_GROUP ? BUSQ_TO_GROUP : busq_error(BUSQ_INVALID, "receiver %u is slot %u of a bus with %u slots", i, slot, peers);
    uint32_t at = i;
    while (at > 0 && sorted[at - 1] > slot) {
      sorted[at] = sorted[at - 1];
      at--;
    }
    if (BUSQ_UNLIKELY(at > 0 && sorted[at - 1] == slot))
      return destination_twice(peer, targets[i]);
    sorted[at] = slot;
    peer->sender.known[slot].incarnation = busq_target_incarnation(targets[i]);
  }
  return BUSQ_OK;
}

/* ---- life ---- */

int busq_destination_gone(busq_peer *peer, uint32_t slot)
{
  char name[BUSQ_LAYOUT_NAME_BYTES_MAX + 1];
  size_t bytes;
  peer->sender.failed_target = (uint64_t)peer->sender.known[slot].incarnation << 16 | slot;
  peer->sender.known[slot].glanced_ns = 0; /* of the next one there we ask at once */
  if (busq_peer_slot_name(peer, slot, peer->sender.known[slot].incarnation, name, &bytes) != BUSQ_OK)
    return busq_error(BUSQ_PEER_DEAD, "a receiver has left bus \"%s\" or died; nobody got the message", peer->bus->name);
  return busq_error(BUSQ_PEER_DEAD, "\"%.*s\" has left bus \"%s\" or died; nobody got the message", (int)bytes, name,
                    peer->bus->name);
}

bool busq_destination_is_over(const busq_peer *peer, uint32_t slot)
{
  const busq_ring ring = busq_bus_ring(peer->bus, slot);
  const uint64_t ending = busq_ring_ending(&ring);
  return ending && !(peer->sender.sends_behind && ending == BUSQ_RING_ENDED);
}

int busq_destination_over(busq_peer *peer, uint32_t slot)
{
  if (!busq_destination_is_over(peer, slot))
    return busq_destination_gone(peer, slot);
  return busq_error(BUSQ_SHUTDOWN, "the queue of \"%.255s\" on bus \"%s\" was shut down: nothing can be put into it any more",
                    peer->bus->slots[slot].name, peer->bus->name);
}

int busq_destination_ask(busq_peer *peer, uint32_t slot)
{
  const uint32_t incarnation = peer->sender.known[slot].incarnation;
  const bool is_self = slot == peer->slot && busq_load_acquire(&peer->self->life) == busq_life_word(incarnation, BUSQ_LIFE_LIVE | peer->life_flags);
  if (!is_self && !busq_grave_check(peer->bus, slot, incarnation))
    return busq_destination_gone(peer, slot);
  return busq_destination_is_over(peer, slot) ? busq_destination_over(peer, slot) : BUSQ_OK;
}

/* ---- room ---- */

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

/* ---- all of it ---- */

int busq_message_refuse(const busq_peer *peer, uint64_t size_bytes)
{
  const busq_bus *bus = peer->bus;
  if (size_bytes <= bus->payload_bytes_max)
    return busq_error(BUSQ_SHUTDOWN, "bus \"%s\" was shut down", bus->name);
  return busq_error(BUSQ_TOO_LARGE, "a message of %llu bytes: bus \"%s\" takes at most %llu%s",
                    (unsigned long long)size_bytes, bus->name, (unsigned long long)bus->payload_bytes_max,
                    bus->payload_bytes_max < BUSQ_LAYOUT_PAYLOAD_BYTES_MAX
                        ? "; create it with a larger arena, and with reserve=False, if that should take memory only where it is used"
                        : "");
}

int busq_message_admit(busq_peer *peer, const uint64_t *targets, uint32_t n_targets, uint64_t size_bytes)
{
  peer->sender.failed_target = BUSQ_NO_TARGET;
  peer->sender.is_short = false;
  busq_store_relaxed(&peer->sender.finds_more, false);
  int result = busq_message_check_size(peer, size_bytes);
  if (!result)
    result = busq_destinations_sort(peer, targets, n_targets);
  BUSQ_TIME("sorted");
  const uint64_t tick_ns = busq_time_tick_ns();
  BUSQ_TIME("tick");
  for (uint32_t i = 0; i < n_targets && !result; i++) {
    const busq_route to = busq_route_to(peer, peer->sender.destinations[i]);
    result = busq_destination_check(peer, &to, tick_ns);
  }
  BUSQ_TIME("checked");
  for (uint32_t i = 0; i < n_targets && !result; i++) {
    const busq_route to = busq_route_to(peer, peer->sender.destinations[i]);
    result = busq_destination_room(peer, &to);
  }
  BUSQ_TIME("has room");
  return result;
}
