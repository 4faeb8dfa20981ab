/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/memory/arena.h"
#include "base/assert.h"
#include "base/error.h"
#include "shm/memory/extent.h"
#include "shm/memory/huge.h"
#include "shm/memory/reserve.h"
#include <stdlib.h>
#include <string.h>

/* ---- the private lists ---- */

__attribute__((noinline)) static bool stack_grow(busq_arena_class *class)
{
  const uint64_t room = class->stack_room ? class->stack_room * 2 : 256;
  uint32_t *stack = realloc(class->stack, room * sizeof *stack);
  if (!stack)
    return false;
  class->stack = stack;
  class->stack_room = room;
  return true;
}

static inline bool stack_push(busq_arena_class *class, uint32_t unit)
{
  if (BUSQ_UNLIKELY(class->stack_count == class->stack_room) && !stack_grow(class))
    return false;
  BUSQ_ASSERT(unit != BUSQ_ARENA_NONE);
  class->stack[class->stack_count++] = unit;
  return true;
}

static uint32_t *line_entry(const busq_arena_class *class, uint64_t at)
{
  return busq_arena_line_entry(class, at);
}

static void line_close_gaps(busq_arena_class *class)
{
  uint64_t kept = class->line_head;
  for (uint64_t at = class->line_head; at != class->line_tail; at++)
    if (*line_entry(class, at) != BUSQ_ARENA_NONE)
      *line_entry(class, kept++) = *line_entry(class, at);
  class->line_tail = kept;
  class->gaps = 0;
}

__attribute__((noinline)) static bool line_grow(busq_arena_class *class)
{
  if (class->gaps > class->line_room / 2) {
    line_close_gaps(class);
    return true;
  }
  const uint64_t room = class->line_room ? class->line_room * 2 : 256;
  uint32_t *line = calloc(room, sizeof *line);
  if (!line)
    return false;
  for (uint64_t at = class->line_head; at != class->line_tail; at++)
    line[at & (room - 1)] = *line_entry(class, at);
  free(class->line);
  class->line = line;
  class->line_room = room;
  return true;
}

/* Room for one more record under way, asked for before anything is sent, because afterwards nothing may fail. */
static inline bool line_reserve(busq_arena_class *class)
{
  return BUSQ_LIKELY(class->line_tail - class->line_head < class->line_room) || line_grow(class);
}

/* ---- taking ---- */

void busq_arena_init(busq_arena *arena, busq_bus *bus, uint32_t slot)
{
  memset(arena, 0, sizeof *arena);
  arena->bus = bus;
  arena->slot = slot;
  const uint32_t limit = busq_size_class_of_units(busq_extent_units(bus) / 2) + 1;
  arena->class_limit = limit < BUSQ_SIZE_CLASSES ? limit : BUSQ_SIZE_CLASSES;
  for (uint32_t class = 0; class < BUSQ_SIZE_CLASSES; class++)
    arena->classes[class].carving = BUSQ_ARENA_NONE;
}

void busq_arena_deinit(busq_arena *arena)
{
  for (uint32_t class = 0; class < BUSQ_SIZE_CLASSES; class++) {
    free(arena->classes[class].stack);
    free(arena->classes[class].line);
  }
  free(arena->inherited);
  memset(arena, 0, sizeof *arena);
}

/* Onto the stack, if no destination needs it any more. */
static inline bool class_collect_one(busq_arena *arena, busq_arena_class *class, uint32_t unit)
{
  return busq_record_is_released(arena->bus, busq_bus_record(arena->bus, unit)) && stack_push(class, unit);
}

/* Moves released records from the front of the line to the stack; stops at the first that is still needed, or after so
 * many.  How many it has moved. */
static uint64_t class_collect_front(busq_arena *arena, busq_arena_class *class, uint64_t limit)
{
  enum { AHEAD = 4 };
  const uint32_t *const line = class->line;
  const uint64_t mask = class->line_room - 1, begin = class->line_head, length = class->line_tail - begin;
  const uint64_t end = begin + (length < limit ? length : limit);
  uint64_t at = begin;
  for (; at != end; at++) {
    const uint32_t unit = line[at & mask], ahead = line[(at + AHEAD) & mask];
    if (BUSQ_LIKELY(ahead != BUSQ_ARENA_NONE))
      busq_prefetch_write(busq_bus_record(arena->bus, ahead));
    if (BUSQ_UNLIKELY(unit == BUSQ_ARENA_NONE))
      class->gaps--;
    else if (!class_collect_one(arena, class, unit))
      break;
  }
  class->line_head = at;
  return at - begin;
}

/* Searches the whole line, since one slow reader at its front must not make us take more and more memory.  Costs as
 * much as the line is long, so it is done again only when the line has doubled. */
static void class_collect_all(busq_arena *arena, busq_arena_class *class)
{
  for (uint64_t at = class->line_head; at != class->line_tail; at++)
    if (*line_entry(class, at) != BUSQ_ARENA_NONE && class_collect_one(arena, class, *line_entry(class, at)))
      *line_entry(class, at) = BUSQ_ARENA_NONE;
  line_close_gaps(class);
  class->searched = class->line_tail - class->line_head;
}

/* Searches a few entries of the line, each time others. Returns how many came free. */
static uint64_t class_probe(busq_arena *arena, busq_arena_class *class, uint64_t looks)
{
  const uint64_t length = class->line_tail - class->line_head;
  uint64_t n_free = 0;
  for (looks = looks < length ? looks : length; looks; looks--, class->probed++) {
    if (class->probed < class->line_head || class->probed >= class->line_tail)
      class->probed = class->line_head;
    uint32_t *unit = line_entry(class, class->probed);
    if (*unit == BUSQ_ARENA_NONE || !class_collect_one(arena, class, *unit))
      continue;
    *unit = BUSQ_ARENA_NONE;
    class->gaps++;
    n_free++;
  }
  return n_free;
}

/* A blank record from the extent at hand. */
static busq_record *class_carve(busq_arena *arena, uint32_t index)
{
  busq_arena_class *class = &arena->classes[index];
  busq_bus *bus = arena->bus;
  if (class->carving == BUSQ_ARENA_NONE)
    return NULL;
  busq_extent *extent = &bus->table[class->carving];
  const uint64_t carved = busq_load_relaxed(&extent->length);
  if (BUSQ_UNLIKELY(carved >= busq_slab_records(bus, index))) {
    class->carving = BUSQ_ARENA_NONE; /* damage: there is nothing blank in here that we know of */
    return NULL;
  }
  BUSQ_ASSERT(class->carving < bus->geometry.extents && index < arena->class_limit);
  BUSQ_ASSERT((carved + 1) * busq_size_class_units(index) <= busq_extent_units(bus));
  busq_record *record =
      busq_bus_record(bus, (uint32_t)(class->carving * busq_extent_units(bus) + carved * busq_size_class_units(index)));
  /* The extent's former content may look like anything: blank the state before the record counts as one. */
  record->state = (busq_pair){0, 0};
  BUSQ_STEP("carve");
  busq_store_release(&extent->length, carved + 1);
  if (carved + 1 == busq_slab_records(bus, index))
    class->carving = BUSQ_ARENA_NONE;
  return record;
}

static void slabs_reach(busq_arena *arena, uint64_t extent)
{
  if (extent >= arena->slabs_end)
    arena->slabs_end = extent + 1;
}

static bool slab_claim(busq_arena *arena, uint64_t extent)
{
  return busq_reserve_extents(arena->bus, extent, 1) && busq_extent_claim(arena->bus, extent, arena->slot);
}

/* One of the common part, the first that is free; the number of extents where there is none.  Where the file system has
 * no memory for one, it has none for the others either: to ask for each of a large arena would take a second. */
static uint64_t common_claim(busq_arena *arena)
{
  const uint64_t extents = arena->bus->geometry.huge_from;
  bool is_short = false;
  for (uint64_t extent = arena->bus->geometry.peers; extent < extents; extent++) {
    if (extent >= busq_extents_reached(arena->bus) && (is_short || extent >= busq_reserve_reach(arena->bus, 1)))
      break;
    if (!busq_extent_is_free(arena->bus, extent, is_short))
      continue;
    if (!busq_reserve_extents(arena->bus, extent, 1))
      is_short = true;
    else if (busq_extent_claim(arena->bus, extent, arena->slot))
      return extent;
  }
  return extents;
}

static bool class_claim_extent(busq_arena *arena, uint32_t index)
{
  busq_bus *bus = arena->bus;
  uint64_t extent = arena->slot;
  if (!slab_claim(arena, extent)) {
    extent = common_claim(arena);
    if (extent == bus->geometry.huge_from)
      return false;
    arena->owned++;
  }
  busq_store_relaxed(&bus->table[extent].length, 0);
  busq_extent_become(bus, extent, arena->slot, BUSQ_EXTENT_SLAB, index);
  arena->classes[index].carving = (uint32_t)extent;
  arena->credit += busq_slab_records(bus, index);
  slabs_reach(arena, extent);
  return true;
}

static busq_record *class_pop(busq_arena *arena, busq_arena_class *class)
{
  return class->stack_count ? busq_arena_pop(arena, class) : NULL;
}

/* ---- taking over ---- */

/* The records of one extent, sorted onto the lists as if we had sent those ourselves that are still needed.  A record
 * for which the lists have no room is out of use until this peer leaves. */
static void slab_adopt(busq_arena *arena, uint64_t extent, uint32_t index)
{
  busq_bus *bus = arena->bus;
  busq_arena_class *class = &arena->classes[index];
  const uint64_t carved = busq_slab_carved(bus, extent, index);
  for (uint64_t i = 0; i < carved; i++) {
    busq_record *record = busq_slab_record(bus, extent, index, i);
    if (!busq_record_is_needed(bus, record))
      (void)stack_push(class, busq_arena_unit_of(bus, record));
    else if (line_reserve(class))
      busq_arena_line_add(class, busq_arena_unit_of(bus, record));
  }
  if (carved < busq_slab_records(bus, index) && class->carving == BUSQ_ARENA_NONE)
    class->carving = (uint32_t)extent;
  arena->owned += extent >= bus->geometry.peers;
  arena->credit += carved;
  slabs_reach(arena, extent);
}

/* The one that a predecessor has just cut records from.  Without it each of many short lives would claim an extent, once
 * the others are full of what receivers still need.  True where blank ones are left in it. */
static bool slab_go_on(busq_arena *arena, uint32_t index)
{
  const busq_bus *bus = arena->bus;
  for (uint64_t i = arena->inherited_count; i-- > 0;) {
    const uint32_t extent = arena->inherited[i];
    if (busq_extent_class(busq_load_acquire(&bus->table[extent].word)) != index ||
        busq_slab_carved(bus, extent, index) == busq_slab_records(bus, index))
      continue;
    arena->inherited[i] = arena->inherited[--arena->inherited_count];
    slab_adopt(arena, extent, index);
    return true;
  }
  return false;
}

/* One extent after the other, until so many records were looked at. */
static void slabs_adopt(busq_arena *arena, uint64_t looks)
{
  while (arena->inherited_count && looks) {
    const uint32_t extent = arena->inherited[--arena->inherited_count];
    const uint32_t class = busq_extent_class(busq_load_acquire(&arena->bus->table[extent].word));
    const uint64_t carved = class < arena->class_limit ? busq_slab_carved(arena->bus, extent, class) : 0;
    if (class < arena->class_limit)
      slab_adopt(arena, extent, class);
    looks -= carved < looks ? carved : looks;
  }
}

int busq_arena_adopt(busq_arena *arena)
{
  busq_bus *bus = arena->bus;
  arena->inherited = calloc(bus->geometry.extents, sizeof *arena->inherited);
  if (!arena->inherited)
    return busq_error(BUSQ_NO_SPACE, "no memory to keep track of the messages that a predecessor has on their way");
  for (uint64_t extent = busq_extents_reached(bus); extent-- > 0;) { /* behind the arena, slabs are damage */
    const uint64_t word = busq_load_acquire(&bus->table[extent].word);
    if (busq_extent_kind(word) == BUSQ_EXTENT_SLAB && busq_extent_owner(word) == arena->slot)
      arena->inherited[arena->inherited_count++] = (uint32_t)extent;
  }
  return BUSQ_OK;
}

/* ---- taking, when no free record is at hand ---- */

static busq_record *class_take_slow(busq_arena *arena, uint32_t index)
{
  enum { BATCH = 64 };
  busq_arena_class *class = &arena->classes[index];
  (void)class_collect_front(arena, class, BATCH);
  busq_record *record = class_pop(arena, class);
  if (record || (record = class_carve(arena, index)))
    return record;
  if (arena->inherited_count) {
    if (!slab_go_on(arena, index))
      slabs_adopt(arena, busq_step_looks);
    if ((record = class_pop(arena, class)) || (record = class_carve(arena, index)))
      return record;
  }
  if (class->line_tail - class->line_head >= 2 * class->searched + 64) {
    class_collect_all(arena, class);
    if ((record = class_pop(arena, class)))
      return record;
  }
  if (!class_claim_extent(arena, index)) {
    /* The common part is used up: look at what is under way, and cut up anew what is free. */
    (void)busq_arena_collect(arena, busq_step_looks);
    if ((record = class_pop(arena, class)))
      return record;
    if (!class_claim_extent(arena, index))
      return NULL;
  }
  return class_carve(arena, index);
}

/* ---- taking and giving back ---- */

static busq_record *large_take(const busq_arena *arena, uint64_t bytes)
{
  if (busq_huge_is_needed(arena->bus, bytes))
    return busq_huge_take(arena->bus, arena->slot, bytes);
  busq_record *record = busq_huge_is_better(arena->bus, bytes) ? busq_huge_take(arena->bus, arena->slot, bytes) : NULL;
  return record ? record : busq_large_take(arena->bus, arena->slot, bytes);
}

/* Asked before and after the last try: what was in its way may be gone when it has failed, or come meanwhile. */
static bool large_may_fit(const busq_bus *bus, uint64_t bytes)
{
  return busq_huge_is_needed(bus, bytes) ? busq_huge_may_fit(bus, bytes)
                                         : busq_reserve_may_fit(bus, busq_large_extents(bus, bytes));
}

static busq_record *large_take_slow(busq_arena *arena, uint64_t bytes)
{
  busq_large_sweep(arena->bus, arena->slot);
  (void)busq_arena_collect(arena, busq_step_looks);
  busq_record *record = large_take(arena, bytes);
  /* What is in its way may be kept by peers that never wait, and so never give it back. */
  if (!record && busq_huge_is_welcome(arena->bus, bytes))
    record = busq_huge_take(arena->bus, arena->slot, bytes);
  return record;
}

static int line_is_full(const busq_arena_class *class)
{
  return busq_error(BUSQ_NO_SPACE, "no memory to keep track of %llu messages on their way",
                    (unsigned long long)(class->line_tail - class->line_head));
}

static int fits_nowhere(const busq_bus *bus, uint64_t bytes)
{
  return busq_error(BUSQ_NO_SPACE, "bus \"%s\": the file system is full, and there is no memory for a message of %llu bytes",
                    bus->name, (unsigned long long)bytes);
}

int busq_arena_keep(busq_arena *arena, uint64_t bytes)
{
  const uint32_t index = busq_size_class_of_bytes(bytes);
  if (index >= arena->class_limit || line_reserve(&arena->classes[index]))
    return BUSQ_OK;
  return line_is_full(&arena->classes[index]);
}

int busq_arena_take_slow(busq_arena *arena, uint64_t bytes, busq_record **recordp)
{
  const uint32_t index = busq_size_class_of_bytes(bytes);
  busq_record *record;
  if (BUSQ_LIKELY(index < arena->class_limit)) {
    busq_arena_class *class = &arena->classes[index];
    record = class_pop(arena, class);
    if (BUSQ_UNLIKELY(!record))
      record = class_take_slow(arena, index);
    if (BUSQ_UNLIKELY(!record) && !busq_reserve_may_fit_small(arena->bus, arena->slot)) {
      record = class_take_slow(arena, index);
      if (!record && !busq_reserve_may_fit_small(arena->bus, arena->slot))
        return fits_nowhere(arena->bus, bytes);
    }
    /* Last: taking may have put what a predecessor sent into the line. */
    if (record && BUSQ_UNLIKELY(!line_reserve(class))) {
      (void)stack_push(class, busq_arena_unit_of(arena->bus, record));
      return line_is_full(class);
    }
  } else {
    record = large_take(arena, bytes);
    if (BUSQ_UNLIKELY(!record)) {
      const bool may_fit = large_may_fit(arena->bus, bytes);
      record = large_take_slow(arena, bytes);
      if (!record && !may_fit && !large_may_fit(arena->bus, bytes))
        return fits_nowhere(arena->bus, bytes);
    }
  }
  BUSQ_ASSERT(index >= arena->class_limit || busq_size_class_units(index) * BUSQ_LAYOUT_UNIT_BYTES >= bytes);
  BUSQ_ASSERT(!record || busq_bus_has_units(arena->bus, busq_arena_unit_of(arena->bus, record) + UINT64_C(1)));
  *recordp = record;
  return record ? BUSQ_OK : BUSQ_FULL;
}

void busq_arena_cancel(busq_arena *arena, uint64_t bytes, busq_record *record)
{
  const uint32_t index = busq_size_class_of_bytes(bytes);
  busq_store_relaxed(&record->state.lo, BUSQ_PHASE_FREE);
  if (index < arena->class_limit) {
    /* If there is no memory for the list, the record is out of use until this peer leaves. */
    (void)stack_push(&arena->classes[index], busq_arena_unit_of(arena->bus, record));
    return;
  }
  const uint64_t first = busq_arena_extent_of(arena->bus, busq_arena_unit_of(arena->bus, record));
  (void)busq_run_free_as(arena->bus, first, busq_load_acquire(&arena->bus->table[first].word), arena->slot);
}

/* ---- giving memory back ---- */

/* Marks empty extents in `tally`: those whose carved records are all on the stack. */
static bool class_find_empty(busq_arena *arena, uint32_t index)
{
  const busq_arena_class *class = &arena->classes[index];
  const busq_bus *bus = arena->bus;
  bool some = false;
  for (uint64_t i = 0; i < class->stack_count; i++)
    arena->tally[busq_arena_extent_of(bus, class->stack[i])]++;
  for (uint64_t extent = 0; extent < arena->slabs_end; extent++) {
    if (!arena->tally[extent] || arena->tally[extent] != busq_load_relaxed(&bus->table[extent].length))
      continue;
    arena->tally[extent] = BUSQ_ARENA_NONE;
    arena->owned -= extent >= bus->geometry.peers;
    some = true;
  }
  return some;
}

static void class_give_back(busq_arena *arena, uint32_t index)
{
  busq_arena_class *class = &arena->classes[index];
  busq_bus *bus = arena->bus;
  uint64_t kept = 0;
  for (uint64_t i = 0; i < class->stack_count; i++)
    if (arena->tally[busq_arena_extent_of(bus, class->stack[i])] != BUSQ_ARENA_NONE)
      class->stack[kept++] = class->stack[i];
  class->stack_count = kept;
  if (class->carving != BUSQ_ARENA_NONE && arena->tally[class->carving] == BUSQ_ARENA_NONE)
    class->carving = BUSQ_ARENA_NONE;
  for (uint64_t extent = 0; extent < arena->slabs_end; extent++)
    if (arena->tally[extent] == BUSQ_ARENA_NONE)
      busq_extent_give_back(bus, extent);
}

/* Every extent of which nothing is used; costs as much as there are free records and extents. True where some became
 * common.  The tally is made for this alone: it is large where the arena is, and most peers never come here.  Where
 * there is no memory for it, a later call gives back. */
static bool extents_give_back(busq_arena *arena)
{
  const uint64_t owned = arena->owned;
  busq_run_collect_ends(arena->bus, arena->slot);
  arena->tally = arena->slabs_end ? calloc(arena->slabs_end, sizeof *arena->tally) : NULL;
  if (!arena->tally)
    return false;
  for (uint32_t index = 0; index < arena->class_limit; index++) {
    if (!arena->classes[index].stack_count)
      continue;
    if (class_find_empty(arena, index))
      class_give_back(arena, index);
    memset(arena->tally, 0, arena->slabs_end * sizeof *arena->tally);
  }
  free(arena->tally);
  arena->tally = NULL;
  return arena->owned < owned;
}

bool busq_arena_collect(busq_arena *arena, uint64_t looks)
{
  /* The ends of runs are looked for in the whole table, a word each. */
  uint64_t cost = arena->slabs_end + arena->bus->geometry.extents / 16;
  arena->credit += looks;
  if (arena->inherited_count)
    slabs_adopt(arena, looks);
  for (uint32_t index = 0; index < arena->class_limit; index++) {
    busq_arena_class *class = &arena->classes[index];
    if (class->line_head != class->line_tail)
      arena->credit += class_collect_front(arena, class, UINT64_MAX) + class_probe(arena, class, looks);
    cost += class->stack_count;
  }
  if (arena->credit < cost)
    return false;
  arena->credit = 0;
  return extents_give_back(arena);
}
