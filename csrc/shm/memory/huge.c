/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/memory/huge.h"
#include "base/assert.h"
#include "shm/memory/large.h"
#include "shm/memory/reserve.h"
#include <sys/statvfs.h>

static uint64_t extents_of(uint64_t bytes)
{
  return (bytes + BUSQ_LAYOUT_HUGE_BYTES - 1) / BUSQ_LAYOUT_HUGE_BYTES;
}

/* From the first one on, so that the pages of heads stay few. */
static uint64_t run_claim(busq_bus *bus, uint32_t slot, uint64_t length)
{
  uint64_t n_free = 0;
  for (uint64_t at = bus->geometry.huge_from; at < bus->geometry.extents; at++) {
    n_free = busq_extent_is_free(bus, at, false) ? n_free + 1 : 0;
    if (n_free < length)
      continue;
    if (busq_run_claim_at(bus, slot, at + 1 - length, length))
      return at + 1 - length;
    n_free = 0;
  }
  return 0;
}

busq_record *busq_huge_take(busq_bus *bus, uint32_t slot, uint64_t bytes)
{
  const uint64_t length = extents_of(bytes), head_bytes = busq_geometry_head_bytes(&bus->geometry);
  struct statvfs all;
  if (fstatvfs(bus->fd, &all) == 0 && all.f_blocks && all.f_bavail * (uint64_t)all.f_frsize + length * head_bytes < bytes)
    return NULL; /* now: to find that out page by page would take what others need meanwhile */
  const uint64_t first = run_claim(bus, slot, length);
  if (!first)
    return NULL;
  if (!busq_reserve_run(bus, first, head_bytes)) {
    for (uint64_t extent = first; extent < first + length; extent++)
      busq_extent_give_back(bus, extent);
    return NULL;
  }
  busq_record *record = busq_run_become_large(bus, slot, first, length, bytes);
  BUSQ_STEP("reserve");
  if (busq_reserve_run(bus, first, bytes + head_bytes))
    return record;
  (void)busq_run_free_as(bus, first, busq_load_acquire(&bus->table[first].word), slot);
  return NULL;
}

bool busq_huge_is_better(const busq_bus *bus, uint64_t bytes)
{
  uint64_t sum = bytes;
  if (bytes < BUSQ_LAYOUT_HUGE_BYTES || !bus->geometry.takes_larger || !bus->geometry.reserves_late)
    return false;
  for (uint64_t extent = bus->geometry.huge_from; extent < bus->geometry.extents; extent++)
    sum += busq_extent_used_bytes(bus, extent, busq_load_acquire(&bus->table[extent].word));
  return sum <= bus->geometry.arena_bytes;
}

bool busq_huge_is_welcome(const busq_bus *bus, uint64_t bytes)
{
  if (!bus->geometry.takes_larger || !busq_huge_is_needed(bus, 2 * bytes))
    return false;
  for (uint64_t extent = bus->geometry.peers; extent < bus->geometry.extents; extent = busq_extent_next(bus, extent)) {
    const uint32_t kind = busq_extent_kind(busq_load_relaxed(&bus->table[extent].word));
    if (kind != BUSQ_EXTENT_FREE && kind != BUSQ_EXTENT_SLAB)
      return false;
  }
  return true;
}

bool busq_huge_may_fit(const busq_bus *bus, uint64_t bytes)
{
  return busq_reserve_may_ever_hold(bus, bytes) && busq_reserve_has_runs(bus);
}
