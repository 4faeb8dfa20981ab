/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/memory/units.h"
#include <sys/stat.h>

bool busq_bus_has_units_now(const busq_bus *bus, uint64_t end)
{
  struct stat status;
  if (!bus->geometry.takes_larger || fstat(bus->fd, &status) < 0 ||
      (uint64_t)status.st_size <= busq_geometry_arena_end(&bus->geometry))
    return false;
  const uint64_t end_bytes = (uint64_t)status.st_size - busq_geometry_head_bytes(&bus->geometry); /* the slack (huge.h) */
  uint64_t there = (end_bytes - bus->geometry.arena_offset + BUSQ_LAYOUT_UNIT_BYTES - 1) / BUSQ_LAYOUT_UNIT_BYTES;
  const uint64_t all = bus->huge_unit + ((bus->geometry.extents - bus->geometry.huge_from) << BUSQ_LAYOUT_HUGE_SHIFT);
  there = there < all ? there : all;
  busq_store_relaxed((uint64_t *)&bus->units, there); /* the file never gets shorter */
  return end <= there;
}
