/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_MEMORY_EXTENT_H
#define BUSQ_SHM_MEMORY_EXTENT_H
/*
 * The extents of the arena: their owners, and what is cut out of them (arena.h has the states).
 *
 * Guarantee: an extent changes hands by a swap that names the word as it was, with a generation in it; so a swap by a
 * process that looked long ago fails, whatever has happened to the extent since.
 */
#include "base/assert.h"
#include "shm/memory/bus.h"
#include "shm/memory/size_class.h"
#include "shm/memory/units.h"

enum {
  BUSQ_EXTENT_FREE = 0,
  BUSQ_EXTENT_CLAIMED = 1,
  BUSQ_EXTENT_SLAB = 2,
  BUSQ_EXTENT_LARGE = 3,
  BUSQ_EXTENT_REST = 4,
  BUSQ_EXTENT_FREEING = 5
};

#define BUSQ_ARENA_NONE UINT32_MAX

/* ---- words ---- */

static inline uint32_t busq_extent_kind(uint64_t word)
{
  return (uint32_t)(word >> 8) & 0xff;
}

static inline uint64_t busq_arena_extent_of(const busq_bus *bus, uint64_t unit)
{
  if (BUSQ_UNLIKELY(unit >= bus->huge_unit))
    return bus->geometry.huge_from + ((unit - bus->huge_unit) >> BUSQ_LAYOUT_HUGE_SHIFT);
  return unit >> bus->extent_shift;
}

/* Behind the last extent of the arena that can be in use.
 * SYNC POINT reach: the words before it have memory. */
static inline uint64_t busq_extents_reached(const busq_bus *bus)
{
  const uint64_t reached = busq_load_acquire(&bus->header->extents_reached);
  if (BUSQ_UNLIKELY(reached < bus->first_reach))
    return bus->first_reach;
  return BUSQ_LIKELY(reached <= bus->geometry.huge_from) ? reached : bus->geometry.huge_from;
}

/* The next extent that can be in use: behind those of the arena come those behind the arena. */
static inline uint64_t busq_extent_next(const busq_bus *bus, uint64_t extent)
{
  return extent + 1 < bus->geometry.huge_from && extent + 1 >= busq_extents_reached(bus) ? bus->geometry.huge_from : extent + 1;
}

/* The first unit of an extent. */
static inline uint32_t busq_extent_unit(const busq_bus *bus, uint64_t extent)
{
  if (BUSQ_UNLIKELY(extent >= bus->geometry.huge_from))
    return (uint32_t)(bus->huge_unit + ((extent - bus->geometry.huge_from) << BUSQ_LAYOUT_HUGE_SHIFT));
  return (uint32_t)(extent << bus->extent_shift);
}

static inline uint32_t busq_arena_unit_of(const busq_bus *bus, const busq_record *record)
{
  return (uint32_t)((uint64_t)((const char *)record - bus->arena) / BUSQ_LAYOUT_UNIT_BYTES);
}

static inline uint32_t busq_extent_generation(uint64_t word)
{
  return (uint32_t)(word >> 32);
}

/* The slot that owns it; no slot's number where it is free. */
static inline uint32_t busq_extent_owner(uint64_t word)
{
  return ((uint32_t)(word >> 16) & 0xffff) - 1;
}

static inline uint32_t busq_extent_class(uint64_t word)
{
  return (uint32_t)word & 0xff;
}

static inline uint64_t busq_extent_word(uint32_t generation, uint32_t owner, uint32_t kind, uint32_t class)
{
  return (uint64_t)generation << 32 | (uint64_t)((owner + 1) & 0xffff) << 16 | (uint64_t)kind << 8 | class;
}

/* Free, and, if that is asked, reserved (reserve.h). */
static inline bool busq_extent_is_free(const busq_bus *bus, uint64_t extent, bool and_reserved)
{
  const uint64_t word = busq_load_acquire(&bus->table[extent].word);
  return busq_extent_kind(word) == BUSQ_EXTENT_FREE && (!and_reserved || busq_extent_generation(word));
}

/* Every change of hands has a generation of its own, so that a swap by a process that looked long ago fails. */
static inline bool busq_extent_claim(busq_bus *bus, uint64_t extent, uint32_t owner)
{
  BUSQ_ASSERT(extent < bus->geometry.extents && owner < bus->geometry.peers);
  uint64_t *word = &bus->table[extent].word;
  const uint64_t seen = busq_load_acquire(word);
  if (busq_extent_kind(seen) != BUSQ_EXTENT_FREE)
    return false;
  BUSQ_STEP("extent claim");
  return busq_cas64(word, seen, busq_extent_word(busq_extent_generation(seen) + 1, owner, BUSQ_EXTENT_CLAIMED, 0));
}

static inline void busq_extent_become(busq_bus *bus, uint64_t extent, uint32_t owner, uint32_t kind, uint32_t class)
{
  BUSQ_ASSERT(extent < bus->geometry.extents && owner < bus->geometry.peers);
  BUSQ_ASSERT(kind != BUSQ_EXTENT_SLAB || class < BUSQ_SIZE_CLASSES);
  uint64_t *word = &bus->table[extent].word;
  BUSQ_STEP("extent become");
  busq_store_release(word, busq_extent_word(busq_extent_generation(busq_load_relaxed(word)), owner, kind, class));
}

/* A swap: of a dead sender's run that a reader takes apart, the last extents are also given back by the process that
 * buries the sender, and either may be stopped just before it while the other one's extent is claimed anew. */
static inline void busq_extent_free(busq_bus *bus, uint64_t extent, uint64_t seen)
{
  BUSQ_ASSERT(extent < bus->geometry.extents);
  BUSQ_STEP("extent free");
  /* SYNC POINT extent: its next claimer finds us done with its memory. */
  (void)busq_cas64(&bus->table[extent].word, seen, (uint64_t)(busq_extent_generation(seen) + 1) << 32);
}

/* Gives back an extent that only we can change. */
static inline void busq_extent_give_back(busq_bus *bus, uint64_t extent)
{
  busq_extent_free(bus, extent, busq_load_relaxed(&bus->table[extent].word));
}

/* The record at the begin of a run; NULL where the file does not reach so far, and so the word of the extent is damaged. */
static inline busq_record *busq_extent_record(const busq_bus *bus, uint64_t extent)
{
  const uint64_t unit = busq_extent_unit(bus, extent);
  return busq_bus_has_bytes(bus, unit * BUSQ_LAYOUT_UNIT_BYTES + sizeof(busq_record)) ? busq_bus_record(bus, (uint32_t)unit) : NULL;
}

/* ---- slabs ---- */

static inline uint64_t busq_extent_units(const busq_bus *bus)
{
  return UINT64_C(1) << bus->extent_shift;
}

static inline uint64_t busq_slab_records(const busq_bus *bus, uint32_t class)
{
  return busq_extent_units(bus) / busq_size_class_units(class);
}

static inline uint64_t busq_slab_carved(const busq_bus *bus, uint64_t extent, uint32_t class)
{
  const uint64_t carved = busq_load_acquire(&bus->table[extent].length);
  return carved < busq_slab_records(bus, class) ? carved : busq_slab_records(bus, class);
}

static inline busq_record *busq_slab_record(const busq_bus *bus, uint64_t extent, uint32_t class, uint64_t index)
{
  return busq_bus_record(bus, (uint32_t)(extent * busq_extent_units(bus) + index * busq_size_class_units(class)));
}

/* ---- whether a record is needed ---- */

/* The count is in shared memory: more destinations than peers is damage, and such a record is kept, not reused. */
static inline bool busq_record_is_released(const busq_bus *bus, const busq_record *record)
{
  const uint32_t destinations = busq_record_destinations(record);
  if (BUSQ_UNLIKELY(destinations > bus->geometry.peers))
    return false;
  for (uint32_t i = 0; i < destinations; i++) {
    /* SYNC POINT mark: what the destination read of the payload comes before our writing into it again. */
    if (!(busq_load_acquire(&record->destination[i].mark) & BUSQ_MARK_RELEASED))
      return false;
  }
  return true;
}

static inline bool busq_record_is_done(const busq_bus *bus, busq_record *record)
{
  const uint64_t phase = busq_load_acquire(&record->state.lo) & BUSQ_PHASE_MASK;
  return phase == BUSQ_PHASE_COMMITTED && busq_record_is_released(bus, record);
}

static inline bool busq_record_is_needed(const busq_bus *bus, busq_record *record)
{
  return (busq_load_acquire(&record->state.lo) & BUSQ_PHASE_MASK) != BUSQ_PHASE_FREE &&
         !busq_record_is_done(bus, record);
}

/* Extents of the run that begins there. */
static inline uint64_t busq_run_length(const busq_bus *bus, uint64_t first)
{
  const uint64_t length = busq_load_acquire(&bus->table[first].length);
  return length <= bus->geometry.extents - first ? length : bus->geometry.extents - first;
}

/* Bytes of memory that an extent takes.  Of a run behind the arena, the first extent stands for all, and its length for
 * what a draft reserved that was sent with less. */
static inline uint64_t busq_extent_used_bytes(const busq_bus *bus, uint64_t extent, uint64_t word)
{
  const uint32_t kind = busq_extent_kind(word);
  if (BUSQ_LIKELY(extent < bus->geometry.huge_from))
    return kind == BUSQ_EXTENT_FREE ? 0 : bus->geometry.extent_bytes;
  if (kind != BUSQ_EXTENT_LARGE && kind != BUSQ_EXTENT_FREEING)
    return 0;
  const busq_record *record = busq_extent_record(bus, extent);
  const uint64_t length = busq_run_length(bus, extent), bytes = record ? busq_load_relaxed(&record->size_bytes) : 0;
  const uint64_t full = length ? (length - 1) * BUSQ_LAYOUT_HUGE_BYTES : 0;
  return bytes > full ? bytes : full;
}

#endif /* BUSQ_SHM_MEMORY_EXTENT_H */
