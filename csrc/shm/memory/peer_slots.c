/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/memory/peer_slots.h"
#include "base/hash.h"
#include "shm/memory/reserve.h"
#include <string.h>

/* Sequence numbers begin anywhere, so that a process that was stopped just before a swap of a record's state, and comes
 * back when its memory holds something else, does not find there what it expects: neither another sender's record nor a
 * payload of small numbers. */
static uint64_t first_sequence(const busq_header *header, uint32_t slot)
{
  uint64_t random;
  memcpy(&random, header->generation + 8, sizeof random);
  return (busq_hash_mix(random + slot) >> 12) + 1;
}

void busq_slots_init(busq_bus *bus, uint32_t first, uint32_t end)
{
  for (uint32_t slot = first; slot < end; slot++) {
    const busq_ring ring = busq_bus_ring(bus, slot);
    busq_ring_init(&ring);
    (void)busq_cas64(&bus->slots[slot].sequence_reserved, 0, first_sequence(bus->header, slot));
  }
}

int busq_slots_reach(busq_bus *bus, uint32_t end)
{
  const uint32_t found = busq_load_acquire(&bus->header->slots_reached); /* lower than what is seen if damaged */
  const uint32_t seen = busq_slots_reached(bus), left = bus->geometry.peers - seen;
  const uint32_t more = left < busq_slots_at_once ? left : busq_slots_at_once;
  if (seen > end)
    return BUSQ_OK;
  if (!more)
    return BUSQ_EMPTY;
  const int result = busq_reserve_slots(bus, seen, more);
  if (result)
    return result;
  busq_slots_init(bus, seen, seen + more);
  BUSQ_STEP("reach");
  /* SYNC POINT slots */
  (void)busq_cas32(&bus->header->slots_reached, found, seen + more);
  return BUSQ_OK;
}
