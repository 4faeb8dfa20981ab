/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/memory/arena.h"

/* ---- what a slot without a process still owns ---- */

/* Up to the first record that is needed: a dead sender's records come free and are never used again, so nothing is lost
 * by looking at the rest another time. */
static bool slab_reclaim(busq_bus *bus, uint64_t extent, uint32_t class, uint64_t *looks)
{
  if (class >= BUSQ_SIZE_CLASSES)
    return false; /* damage: leave it alone */
  const uint64_t carved = busq_slab_carved(bus, extent, class);
  uint64_t at = 0;
  while (at < carved && !busq_record_is_needed(bus, busq_slab_record(bus, extent, class, at)))
    at++;
  *looks -= at < *looks ? at + 1 : *looks;
  if (at < carved)
    return false;
  busq_extent_give_back(bus, extent);
  return true;
}

static bool large_reclaim(busq_bus *bus, uint64_t extent, uint64_t word, uint32_t slot)
{
  busq_record *record = busq_extent_record(bus, extent);
  if (record && busq_record_is_needed(bus, record))
    return false;
  (void)busq_run_free_as(bus, extent, word, slot);
  return true;
}

/* All but the slabs. */
static bool runs_reclaim(busq_bus *bus, uint32_t slot)
{
  bool is_empty = true;
  uint64_t covered = 0;
  for (uint64_t extent = 0; extent < bus->geometry.extents; extent = busq_extent_next(bus, extent)) {
    const uint64_t word = busq_load_acquire(&bus->table[extent].word);
    const uint32_t kind = busq_extent_kind(word);
    if (kind == BUSQ_EXTENT_LARGE || kind == BUSQ_EXTENT_FREEING)
      covered = extent + busq_run_length(bus, extent);
    if (kind == BUSQ_EXTENT_FREE || busq_extent_owner(word) != slot)
      continue;
    if (kind == BUSQ_EXTENT_LARGE)
      is_empty &= large_reclaim(bus, extent, word, slot);
    else if (kind == BUSQ_EXTENT_FREEING)
      busq_run_free(bus, extent);
    else if (kind == BUSQ_EXTENT_CLAIMED || (kind != BUSQ_EXTENT_SLAB && extent >= covered))
      busq_extent_free(bus, extent, word); /* its owner died while it put a run together, or took one apart */
  }
  return is_empty;
}

static bool slab_is_of(const busq_bus *bus, uint64_t extent, uint32_t slot, uint32_t *classp)
{
  const uint64_t word = busq_load_acquire(&bus->table[extent].word);
  *classp = busq_extent_class(word);
  return busq_extent_kind(word) == BUSQ_EXTENT_SLAB && busq_extent_owner(word) == slot;
}

bool busq_arena_reclaim(busq_bus *bus, uint32_t slot, uint64_t *looks)
{
  const uint64_t extents = busq_extents_reached(bus); /* behind the arena, slabs are damage */
  uint64_t *const reclaimed = &bus->slots[slot].reclaimed;
  const uint64_t first = busq_load_relaxed(reclaimed);
  bool is_empty = runs_reclaim(bus, slot);
  for (uint64_t i = 0; i < extents; i++) {
    const uint64_t extent = (first % extents + i) % extents;
    uint32_t class;
    if (!slab_is_of(bus, extent, slot, &class))
      continue;
    if (!*looks) {
      BUSQ_STEP("reclaim");
      busq_store_relaxed(reclaimed, extent);
      return false;
    }
    is_empty &= slab_reclaim(bus, extent, class, looks);
  }
  return is_empty;
}

bool busq_arena_vacate(busq_bus *bus, uint32_t slot)
{
  bool is_empty = runs_reclaim(bus, slot);
  uint64_t looks = UINT64_MAX;
  uint32_t class;
  for (uint64_t extent = 0; extent < busq_extents_reached(bus) && is_empty; extent++)
    if (slab_is_of(bus, extent, slot, &class))
      is_empty = slab_reclaim(bus, extent, class, &looks);
  return is_empty;
}

/* A run that its sender is through with may be given back and claimed anew by strangers while we look at it; one that
 * it is not through with stays what it is. */
static bool large_is_in_hand(const busq_bus *bus, uint64_t extent, uint64_t word)
{
  busq_record *record = busq_extent_record(bus, extent);
  const bool is_through = !record || (busq_load_acquire(&record->outline) & BUSQ_RECORD_SENT) != 0;
  return !is_through && busq_load_acquire(&bus->table[extent].word) == word;
}

busq_record *busq_arena_record(busq_bus *bus, uint32_t slot, uint64_t unit)
{
  const uint64_t extent = busq_arena_extent_of(bus, unit), at = unit - busq_extent_unit(bus, extent);
  const uint64_t word = extent < bus->geometry.extents ? busq_load_acquire(&bus->table[extent].word) : 0;
  const uint32_t class = busq_extent_class(word);
  bool is_record = false;
  if (busq_extent_owner(word) != slot)
    return NULL;
  if (busq_extent_kind(word) == BUSQ_EXTENT_LARGE)
    is_record = at == 0 && large_is_in_hand(bus, extent, word);
  else if (busq_extent_kind(word) == BUSQ_EXTENT_SLAB && class < BUSQ_SIZE_CLASSES && extent < bus->geometry.huge_from)
    is_record = at % busq_size_class_units(class) == 0 &&
                at / busq_size_class_units(class) < busq_slab_carved(bus, extent, class);
  return is_record ? busq_bus_record(bus, (uint32_t)unit) : NULL;
}

uint64_t busq_arena_used_bytes(const busq_bus *bus, uint32_t slot)
{
  uint64_t used = 0;
  for (uint64_t extent = 0; extent < bus->geometry.extents; extent = busq_extent_next(bus, extent)) {
    const uint64_t word = busq_load_relaxed(&bus->table[extent].word);
    if (slot == BUSQ_ARENA_NONE || busq_extent_owner(word) == slot)
      used += busq_extent_used_bytes(bus, extent, word);
  }
  return used;
}
