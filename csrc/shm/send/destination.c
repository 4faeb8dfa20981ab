/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/send/destination.h"
#include "base/error.h"
#include "shm/burial/grave.h"

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
