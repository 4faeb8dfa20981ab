/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_MEMORY_UNITS_H
#define BUSQ_SHM_MEMORY_UNITS_H
/*
 * Units of memory that are there.
 *
 * Guarantee: what has asked for a unit may read it; a reference from a damaged segment, or from a longer file, leads nowhere else.
 *
 * Mechanism: how far the file goes is remembered, and looked at again where that does not reach: it never gets shorter.
 */
#include "shm/memory/bus.h"

/* Looks again how far the file goes. */
BUSQ_COLD bool busq_bus_has_units_now(const busq_bus *bus, uint64_t end);

/* Is there memory up to that unit?  Whatever reads a unit from shared memory asks this first. */
BUSQ_ALWAYS_INLINE bool busq_bus_has_units(const busq_bus *bus, uint64_t end)
{
  if (BUSQ_UNLIKELY(end > busq_load_relaxed(&bus->units)))
    return busq_bus_has_units_now(bus, end);
  return true;
}

BUSQ_ALWAYS_INLINE bool busq_bus_has_bytes(const busq_bus *bus, uint64_t end)
{
  return busq_bus_has_units(bus, (end + BUSQ_LAYOUT_UNIT_BYTES - 1) / BUSQ_LAYOUT_UNIT_BYTES);
}

#endif /* BUSQ_SHM_MEMORY_UNITS_H */
