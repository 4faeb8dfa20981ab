/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_MEMORY_ARENA_H
#define BUSQ_SHM_MEMORY_ARENA_H
/*
 * Memory for messages on their way.
 *
 * Guarantee: a record is given out again only after every destination has released it; nothing is lost for good when a
 * process dies anywhere in here; one extent per peer is its own, so that no peer can keep another from sending small
 * messages.
 *
 * Mechanism.  The arena is divided into extents.  A word per extent names its owner, and changes by compare-and-swap:
 *
 *      FREE -> CLAIMED -> SLAB   records of one size class, carved from the start of the extent, used and found free
 *                                again by the owner alone
 *      FREE -> CLAIMED -> LARGE  the first extent of a run that holds one record; REST are the others.  The process
 *                                that releases the last copy takes the run (FREEING, in its own name) and gives the
 *                                extents back
 *
 * The owner keeps its free records on private stacks, last freed first, because that memory is still in the cache.
 * Records under way stand in a private line in the order they were sent, and are looked at from its front when a stack
 * is empty.  Both are derived from the marks in the records.  What is found free behind the front leaves a gap in the
 * line.
 *
 * Not given: memory that no other peer fills.  Beyond its own extent a peer shares with all the others.
 *
 * Proven without a bound: busq/lab/proof/models/records.py.
 */
#include "base/assert.h"
#include "shm/memory/bus.h"
#include "shm/memory/large.h"
#include "shm/memory/size_class.h"

typedef struct {
  uint32_t *stack; /* free records, by unit */
  uint64_t stack_count;
  uint64_t stack_room;
  uint32_t *line; /* records under way, oldest first; a ring of line_room, a power of two */
  uint64_t line_head;
  uint64_t line_tail;
  uint64_t line_room;
  uint64_t searched;  /* how many were under way after the whole line was searched last */
  uint64_t probed;    /* in the line: where the search for single ones goes on */
  uint64_t gaps;      /* in the line: BUSQ_ARENA_NONE where a record stood that was found free behind the front */
  uint32_t carving;   /* extent that still has blank records, or BUSQ_ARENA_NONE */
} busq_arena_class;

typedef struct {
  busq_bus *bus;
  uint32_t slot;
  uint32_t class_limit; /* classes from here on do not fit twice into an extent: they are LARGE */
  uint32_t owned;       /* slab extents, our own one not counted */
  uint64_t slabs_end;   /* behind the last extent of the table that was ever one of those */
  uint64_t credit;      /* looks that were earned by calls, and by records that came free, since extents were last given back */
  uint32_t *inherited;  /* slab extents of a predecessor whose records are not on our lists so far */
  uint64_t inherited_count;
  uint32_t *tally;      /* [slabs_end], while memory is given back */
  busq_arena_class classes[BUSQ_SIZE_CLASSES];
} busq_arena;

/* ---- what every message does ---- */

static inline uint32_t *busq_arena_line_entry(const busq_arena_class *class, uint64_t at)
{
  return &class->line[at & (class->line_room - 1)];
}

/* At a place that was reserved. */
static inline void busq_arena_line_add(busq_arena_class *class, uint32_t unit)
{
  BUSQ_ASSERT(class->line_tail - class->line_head < class->line_room);
  *busq_arena_line_entry(class, class->line_tail++) = unit;
}

/* From a stack that is not empty.  The one after the next is asked for now: its lines are still where they were read
 * last. */
static inline busq_record *busq_arena_pop(const busq_arena *arena, busq_arena_class *class)
{
  const busq_bus *const bus = arena->bus;
  const uint64_t top = --class->stack_count;
  const uint32_t *const stack = class->stack;
  BUSQ_ASSERT(busq_bus_has_units(bus, stack[top] + UINT64_C(1)));
  if (BUSQ_LIKELY(top >= 2)) {
    const char *next = (const char *)busq_bus_record(bus, stack[top - 2]);
    busq_prefetch_write(next);
    busq_prefetch_write(next + BUSQ_LAYOUT_UNIT_BYTES);
  }
  return busq_bus_record(bus, stack[top]);
}

void busq_arena_init(busq_arena *arena, busq_bus *bus, uint32_t slot);
/* Takes over what a predecessor has left in the slot: what it sent and a receiver still needs, and what is free again.
 * The predecessor is dead, and buried.  The records themselves are looked at later, when memory is needed. */
int busq_arena_adopt(busq_arena *arena);
void busq_arena_deinit(busq_arena *arena);

/* A record of at least `bytes`, BUSQ_FULL if there is none now.  It is the caller's until it is sent or cancelled. */
int busq_arena_take_slow(busq_arena *arena, uint64_t bytes, busq_record **recordp);
static inline int busq_arena_take(busq_arena *arena, uint64_t bytes, busq_record **recordp)
{
  const uint32_t index = busq_size_class_of_bytes(bytes);
  if (BUSQ_LIKELY(index < arena->class_limit)) {
    busq_arena_class *const class = &arena->classes[index];
    if (BUSQ_LIKELY(class->stack_count && class->line_tail - class->line_head < class->line_room)) {
      *recordp = busq_arena_pop(arena, class);
      return BUSQ_OK;
    }
  }
  return busq_arena_take_slow(arena, bytes, recordp);
}
/* Taking has seen to it that there is room to keep track of the record once it is sent.  For one that is sent later
 * than others that were taken after it, this does so again; BUSQ_NO_SPACE. */
int busq_arena_keep(busq_arena *arena, uint64_t bytes);
/* From now on the record belongs to its destinations. */
static inline void busq_arena_sent(busq_arena *arena, uint64_t bytes, busq_record *record)
{
  const uint32_t index = busq_size_class_of_bytes(bytes);
  if (BUSQ_LIKELY(index < arena->class_limit))
    busq_arena_line_add(&arena->classes[index], busq_arena_unit_of(arena->bus, record));
  else
    busq_large_sent(arena->bus, arena->slot, record);
}
/* Gives back a record that was never published. */
void busq_arena_cancel(busq_arena *arena, uint64_t bytes, busq_record *record);
/* Looks for records that came free, at as many as are named, besides those at the front of the line; and returns the
 * extents that hold nothing, the common ones to all peers, our own to be cut up anew, once the looks of all calls since
 * the last time have earned what that costs.  So a call costs as much as the looks it names, on average, however many
 * records there are.  True where some became common. */
bool busq_arena_collect(busq_arena *arena, uint64_t looks);

/* Called by a destination: sets its mark, and gives a large record's memory back if it was the last to need it. */
static inline void busq_arena_release(busq_bus *bus, uint32_t by_slot, busq_record *record, uint32_t mark)
{
  BUSQ_ASSERT(by_slot < bus->geometry.peers && mark < bus->geometry.peers);
  BUSQ_ASSERT(busq_bus_has_units(bus, busq_arena_unit_of(bus, record) + UINT64_C(1)));
  /* Read before our mark is set: until then the run can't change hands. */
  const uint64_t word = busq_load_acquire(&bus->table[busq_arena_extent_of(bus, busq_arena_unit_of(bus, record))].word);
  BUSQ_STEP("mark");
  /* SYNC POINT mark */
  busq_store_release(&record->destination[mark].mark, BUSQ_MARK_TAKEN | BUSQ_MARK_RELEASED);
  if (BUSQ_UNLIKELY(busq_extent_kind(word) == BUSQ_EXTENT_LARGE))
    busq_large_released(bus, by_slot, record, word);
}
/* Frees what a slot without a process still owns and no receiver needs, until it has looked at about so many records;
 * the next call, by any process, goes on from there.  True when nothing is left.  The caller holds the slot's kernel
 * lock. */
bool busq_arena_reclaim(busq_bus *bus, uint32_t slot, uint64_t *looks);
/* Reclaims up to the first extent of which something is needed, so that this cost is not paid twice. */
bool busq_arena_vacate(busq_bus *bus, uint32_t slot);
/* Bytes used by one slot, or by all (BUSQ_ARENA_NONE). */
uint64_t busq_arena_used_bytes(const busq_bus *bus, uint32_t slot);

/* The record of a slot that begins at a unit, and was carved, and, if it is large, is still in its sender's hands; NULL
 * where there is none. Used to finish what a dead owner began. */
busq_record *busq_arena_record(busq_bus *bus, uint32_t slot, uint64_t unit);

#endif /* BUSQ_SHM_MEMORY_ARENA_H */
