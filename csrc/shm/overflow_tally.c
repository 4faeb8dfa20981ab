/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What processes keep for queues that have no room: how much of it there is; the calls are declared in busq.h.
 *
 * Guarantee: all processes together never have more than the bound, whichever of them are killed or stopped; and where
 * they have less, one of those that add at the same time is let in.
 *
 * Mechanism.  Each process counts beside a peer of its own, in a word that no other process writes and that goes with
 * it; the sum is taken anew whenever it matters, so there is nothing to repair.  A process adds first and then sums up:
 *
 *      ann   adds    sums up (sees bob's)       over the bound: takes it back
 *      bob   adds             sums up (sees ann's)       over the bound: takes it back
 *
 * Whichever of them adds last sees all the others'.  Two that add at the same moment may both take it back; each has
 * looked before it added and had seen room, so it tries again.
 *
 * A peer counts for one queue at a time.  Key and count change by one swap, so the key is free as soon as the count is
 * 0, and nothing can be added under it a moment later.
 *
 * How often a queue was handed on is counted beside the queue.  A process that is killed before it opens what it was
 * handed leaves the count too high: then those that handed it on keep the bus open until they end.
 *
 * Not given: an order among those that add.
 */
#include "shm/burial/grave.h"
#include "shm/memory/names.h"
#include "shm/memory/peer.h"
#include <sched.h>

/* Those of peers that died and are not buried count, unless the kernel is asked. */
static uint64_t tally_sum(busq_bus *bus, uint64_t key, bool asks_kernel)
{
  uint64_t sum = 0;
  for (uint32_t slot = 0; slot < busq_slots_reached(bus); slot++) {
    busq_slot *self = &bus->slots[slot];
    const busq_pair seen = busq_pair_load(&self->tally);
    const uint64_t life = busq_load_acquire(&self->life);
    if (seen.lo != key || !seen.hi || (life & BUSQ_LIFE_MASK) != BUSQ_LIFE_LIVE)
      continue;
    if (!asks_kernel || busq_grave_check(bus, slot, (uint32_t)(life >> 32)))
      sum += seen.hi;
  }
  return sum;
}

uint64_t busq_bus_tally(busq_bus *bus, uint64_t key)
{
  return tally_sum(bus, key, true);
}

/* The kernel is asked only where that may make a difference. */
static bool is_above(busq_bus *bus, uint64_t key, uint64_t bound)
{
  return tally_sum(bus, key, false) > bound && tally_sum(bus, key, true) > bound;
}

static bool tally_swap(busq_peer *peer, uint64_t key)
{
  busq_pair *tally = &peer->self->tally;
  busq_pair seen = busq_pair_load(tally);
  do {
    if (seen.hi && seen.lo != key)
      return false;
    BUSQ_STEP("tally");
  } while (!busq_pair_cas(tally, &seen, (busq_pair){key, seen.hi + 1}));
  return true;
}

int busq_peer_tally_add(busq_peer *peer, uint64_t key, uint64_t bound)
{
  const int result = busq_peer_check(peer);
  if (result)
    return result;
  for (;;) {
    if (bound && is_above(peer->bus, key, bound - 1))
      return BUSQ_FULL;
    if (!tally_swap(peer, key))
      return BUSQ_NO_SPACE;
    busq_fence_after_swap();
    if (!bound || !is_above(peer->bus, key, bound))
      return BUSQ_OK;
    busq_peer_tally_settle(peer);
    sched_yield();
  }
}

void busq_peer_tally_settle(busq_peer *peer)
{
  busq_pair *tally = &peer->self->tally;
  busq_pair seen = busq_pair_load(tally);
  do {
    BUSQ_ASSERT(seen.hi);
    BUSQ_STEP("tally");
  } while (!busq_pair_cas(tally, &seen, (busq_pair){seen.lo, seen.hi - 1}));
}

uint64_t busq_bus_handed(busq_bus *bus, const char *name, size_t name_bytes, int change)
{
  uint64_t life;
  for (uint32_t slot = 0; slot < busq_slots_reached(bus); slot++) {
    if (!busq_name_is(bus, slot, name, name_bytes, &life))
      continue;
    for (;;) {
      uint64_t *handed = &bus->slots[slot].handed;
      const uint64_t seen = busq_load_acquire(handed);
      const uint64_t count = change < 0 ? seen - (seen > 0) : seen + (change > 0);
      if (count == seen || busq_cas64(handed, seen, count))
        return count;
    }
  }
  return 0;
}
