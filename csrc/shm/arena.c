/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/arena.h"
#include "base/error.h"
#include "shm/handle.h"
#include <stdlib.h>
#include <string.h>

/* ---- extent words ---- */

static uint32_t word_generation(uint64_t word)
{
  return (uint32_t)(word >> 32);
}

/* The slot that owns it; of a free one, something that is no slot. */
static uint32_t word_owner(uint64_t word)
{
  return ((uint32_t)(word >> 16) & 0xffff) - 1;
}

static uint32_t word_kind(uint64_t word)
{
  return (uint32_t)(word >> 8) & 0xff;
}

static uint32_t word_class(uint64_t word)
{
  return (uint32_t)word & 0xff;
}

static uint64_t word_make(uint32_t generation, uint32_t owner, uint32_t kind, uint32_t class)
{
  return (uint64_t)generation << 32 | (uint64_t)((owner + 1) & 0xffff) << 16 | (uint64_t)kind << 8 | class;
}

/* Every change of hands has a generation of its own, so that a swap by somebody who looked long ago fails. */
static bool extent_claim(busq_bus *bus, uint64_t extent, uint32_t owner)
{
  uint64_t *word = &bus->table[extent].word;
  const uint64_t seen = busq_load_acquire(word);
  if (word_kind(seen) != BUSQ_EXTENT_FREE)
    return false;
  BUSQ_STEP("extent claim");
  return busq_cas64(word, seen, word_make(word_generation(seen) + 1, owner, BUSQ_EXTENT_CLAIMED, 0));
}

static void extent_become(busq_bus *bus, uint64_t extent, uint32_t owner, uint32_t kind, uint32_t class)
{
  uint64_t *word = &bus->table[extent].word;
  BUSQ_STEP("extent become");
  busq_store_release(word, word_make(word_generation(busq_load_relaxed(word)), owner, kind, class));
}

/* A swap: of a dead sender's run that a reader takes apart, the last extents are also given back by who buries the sender, and
 * either may be stopped just before it while the other one's extent is claimed anew. */
static void extent_free(busq_bus *bus, uint64_t extent, uint64_t seen)
{
  BUSQ_STEP("extent free");
  /* SYNC POINT extent: whoever claims it next finds us done with its memory. */
  (void)busq_cas64(&bus->table[extent].word, seen, (uint64_t)(word_generation(seen) + 1) << 32);
}

/* One that is nobody's but ours. */
static void extent_give_back(busq_bus *bus, uint64_t extent)
{
  extent_free(bus, extent, busq_load_relaxed(&bus->table[extent].word));
}

/* ---- size classes: 1..8 units, then four steps per doubling ---- */

static uint32_t class_of_units(uint64_t units)
{
  if (units <= 8)
    return (uint32_t)units - 1;
  const uint32_t shift = 61u - (uint32_t)__builtin_clzll(units - 1);
  return shift * 4 + (uint32_t)((units - 1) >> shift);
}

static uint64_t class_units(uint32_t class)
{
  if (class < 8)
    return class + 1;
  return (uint64_t)(class % 4 + 5) << (class / 4 - 1);
}

static uint64_t extent_units(const busq_bus *bus)
{
  return bus->geometry.extent_bytes / BUSQ_LAYOUT_UNIT_BYTES;
}

static uint32_t record_unit(const busq_bus *bus, const busq_record *record)
{
  return (uint32_t)((uint64_t)((const char *)record - bus->arena) / BUSQ_LAYOUT_UNIT_BYTES);
}

/* ---- the private lists ---- */

static bool stack_push(busq_arena_class *class, uint32_t unit)
{
  if (class->stack_count == class->stack_room) {
    const uint64_t room = class->stack_room ? class->stack_room * 2 : 256;
    uint32_t *stack = realloc(class->stack, room * sizeof *stack);
    if (!stack)
      return false;
    class->stack = stack;
    class->stack_room = room;
  }
  class->stack[class->stack_count++] = unit;
  return true;
}

/* Room for one more record under way, asked for before anything is sent, because afterwards nothing may fail. */
static bool line_reserve(busq_arena_class *class)
{
  if (BUSQ_LIKELY(class->line_tail - class->line_head < class->line_room))
    return true;
  const uint64_t room = class->line_room ? class->line_room * 2 : 256;
  uint32_t *line = calloc(room, sizeof *line);
  if (!line)
    return false;
  for (uint64_t at = class->line_head; at != class->line_tail; at++)
    line[at & (room - 1)] = class->line[at & (class->line_room - 1)];
  free(class->line);
  class->line = line;
  class->line_room = room;
  return true;
}

/* ---- taking ---- */

int busq_arena_init(busq_arena *arena, busq_bus *bus, uint32_t slot)
{
  memset(arena, 0, sizeof *arena);
  arena->bus = bus;
  arena->slot = slot;
  const uint32_t limit = class_of_units(extent_units(bus) / 2) + 1;
  arena->class_limit = limit < BUSQ_ARENA_CLASSES ? limit : BUSQ_ARENA_CLASSES;
  for (uint32_t class = 0; class < BUSQ_ARENA_CLASSES; class++)
    arena->classes[class].carving = BUSQ_ARENA_NONE;
  arena->tally = calloc(bus->geometry.extents, sizeof *arena->tally);
  if (!arena->tally)
    return busq_error(BUSQ_NO_SPACE, "no memory for the extent tally (%llu extents)",
                      (unsigned long long)bus->geometry.extents);
  return BUSQ_OK;
}

void busq_arena_deinit(busq_arena *arena)
{
  for (uint32_t class = 0; class < BUSQ_ARENA_CLASSES; class++) {
    free(arena->classes[class].stack);
    free(arena->classes[class].line);
  }
  free(arena->tally);
  memset(arena, 0, sizeof *arena);
}

/* The count is in shared memory: more destinations than peers is damage, and such a record is kept, not reused. */
bool busq_record_is_released(const busq_bus *bus, const busq_record *record)
{
  const uint32_t destinations = busq_load_relaxed(&record->destinations);
  if (BUSQ_UNLIKELY(destinations > bus->geometry.peers))
    return false;
  for (uint32_t i = 0; i < destinations; i++) {
    /* SYNC POINT mark: what the destination read of the payload comes before our writing into it again. */
    if (!(busq_load_acquire(&record->destination[i].mark) & BUSQ_MARK_RELEASED))
      return false;
  }
  return true;
}

/* Moves released records from the front of the line to the stack; stops at the first that is still needed. */
static void class_collect_front(busq_arena *arena, busq_arena_class *class)
{
  enum { BATCH = 64, AHEAD = 4 };
  for (int i = 0; i < BATCH && class->line_head != class->line_tail; i++) {
    const uint32_t unit = class->line[class->line_head & (class->line_room - 1)];
    busq_record *record = busq_bus_record(arena->bus, unit);
    busq_prefetch_write(busq_bus_record(arena->bus, class->line[(class->line_head + AHEAD) & (class->line_room - 1)]));
    if (!busq_record_is_released(arena->bus, record) || !stack_push(class, unit))
      return;
    class->line_head++;
  }
}

/* The same for the whole line: one slow reader at its front must not make us take more and more memory.  Costs as much
 * as the line is long, so it is done again only when the line has doubled, or when there is no other way. */
static void class_collect_all(busq_arena *arena, busq_arena_class *class)
{
  uint64_t kept = class->line_head;
  for (uint64_t at = class->line_head; at != class->line_tail; at++) {
    const uint32_t unit = class->line[at & (class->line_room - 1)];
    if (!busq_record_is_released(arena->bus, busq_bus_record(arena->bus, unit)) || !stack_push(class, unit))
      class->line[kept++ & (class->line_room - 1)] = unit;
  }
  class->line_tail = kept;
  class->searched = kept - class->line_head;
}

static uint64_t slab_records(const busq_bus *bus, uint32_t class)
{
  return extent_units(bus) / class_units(class);
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
  if (BUSQ_UNLIKELY(carved >= slab_records(bus, index))) {
    class->carving = BUSQ_ARENA_NONE; /* damage: there is nothing blank in here that we know of */
    return NULL;
  }
  busq_record *record =
      busq_bus_record(bus, (uint32_t)(class->carving * extent_units(bus) + carved * class_units(index)));
  /* What the extent held before may look like anything: blank the state before the record counts as one. */
  record->state = (busq_pair){0, 0};
  BUSQ_STEP("carve");
  busq_store_release(&extent->length, carved + 1);
  if (carved + 1 == slab_records(bus, index))
    class->carving = BUSQ_ARENA_NONE;
  return record;
}

static bool class_claim_extent(busq_arena *arena, uint32_t index)
{
  busq_bus *bus = arena->bus;
  uint64_t extent = arena->slot;
  if (!extent_claim(bus, extent, arena->slot)) {
    extent = bus->geometry.peers;
    while (extent < bus->geometry.extents && !extent_claim(bus, extent, arena->slot))
      extent++;
    if (extent == bus->geometry.extents)
      return false;
    arena->owned++;
  }
  busq_store_relaxed(&bus->table[extent].length, 0);
  extent_become(bus, extent, arena->slot, BUSQ_EXTENT_SLAB, index);
  arena->classes[index].carving = (uint32_t)extent;
  return true;
}

/* The next one to be taken is asked for now: its lines are still where they were read last. */
static busq_record *class_pop(busq_arena *arena, busq_arena_class *class)
{
  if (!class->stack_count)
    return NULL;
  const uint64_t top = --class->stack_count;
  if (BUSQ_LIKELY(top >= 2)) {
    const char *next = (const char *)busq_bus_record(arena->bus, class->stack[top - 2]);
    busq_prefetch_write(next);
    busq_prefetch_write(next + BUSQ_LAYOUT_UNIT_BYTES);
  }
  return busq_bus_record(arena->bus, class->stack[top]);
}

static busq_record *class_take_slow(busq_arena *arena, uint32_t index)
{
  busq_arena_class *class = &arena->classes[index];
  class_collect_front(arena, class);
  busq_record *record = class_pop(arena, class);
  if (record || (record = class_carve(arena, index)))
    return record;
  if (class->line_tail - class->line_head >= 2 * class->searched + 64) {
    class_collect_all(arena, class);
    if ((record = class_pop(arena, class)))
      return record;
  }
  if (!class_claim_extent(arena, index)) {
    /* The common part is used up: look at everything that is under way, and cut up anew what is free. */
    busq_arena_collect(arena);
    if ((record = class_pop(arena, class)))
      return record;
    if (!class_claim_extent(arena, index))
      return NULL;
  }
  return class_carve(arena, index);
}

/* ---- large records ---- */

/* From the end of the table, so that slabs, which begin at its start, do not break up the long runs. */
static uint64_t run_claim(busq_arena *arena, uint64_t length)
{
  busq_bus *bus = arena->bus;
  const uint64_t first = bus->geometry.peers;
  uint64_t end = bus->geometry.extents, have = 0;
  for (uint64_t at = end; at-- > first;) {
    if (!extent_claim(bus, at, arena->slot)) {
      for (uint64_t back = at + 1; back <= at + have; back++)
        extent_give_back(bus, back);
      have = 0;
    } else if (++have == length) {
      return at;
    }
  }
  for (uint64_t back = first; back < first + have; back++)
    extent_give_back(bus, back);
  return 0;
}

static busq_record *large_take(busq_arena *arena, uint64_t bytes)
{
  busq_bus *bus = arena->bus;
  const uint64_t length = (bytes + bus->geometry.extent_bytes - 1) / bus->geometry.extent_bytes;
  const uint64_t first = run_claim(arena, length);
  if (!first)
    return NULL;
  busq_record *record = busq_bus_record(bus, (uint32_t)(first * extent_units(bus)));
  record->state = (busq_pair){0, 0};
  record->destinations = 0;
  busq_store_relaxed(&bus->table[first].length, length);
  for (uint64_t rest = first + 1; rest < first + length; rest++)
    extent_become(bus, rest, arena->slot, BUSQ_EXTENT_REST, 0);
  extent_become(bus, first, arena->slot, BUSQ_EXTENT_LARGE, 0);
  return record;
}

static uint64_t run_length(const busq_bus *bus, uint64_t first)
{
  const uint64_t length = busq_load_acquire(&bus->table[first].length);
  return length <= bus->geometry.extents - first ? length : bus->geometry.extents - first;
}

/* Only who turned LARGE into FREEING comes here, or who buries him.  The run shrinks before each of its extents is
 * freed: one freed first could be in somebody else's run when a second gravedigger comes along and frees it again. */
static void run_free(busq_bus *bus, uint64_t first)
{
  for (uint64_t length = run_length(bus, first); length > 1; length--) {
    const uint64_t last = busq_load_acquire(&bus->table[first + length - 1].word);
    BUSQ_STEP("run shrink");
    busq_store_release(&bus->table[first].length, length - 1);
    extent_free(bus, first + length - 1, last);
  }
  extent_give_back(bus, first);
}

static bool run_free_as(busq_bus *bus, uint64_t first, uint64_t seen, uint32_t by_slot)
{
  if (!busq_cas64(&bus->table[first].word, seen, word_make(word_generation(seen), by_slot, BUSQ_EXTENT_FREEING, 0)))
    return false;
  run_free(bus, first);
  return true;
}

/* ---- the interface ---- */

static busq_record *large_take_slow(busq_arena *arena, uint64_t bytes)
{
  busq_arena_sweep(arena->bus, arena->slot);
  busq_arena_collect(arena);
  return large_take(arena, bytes);
}

static uint32_t class_of_bytes(uint64_t bytes)
{
  return class_of_units((bytes + BUSQ_LAYOUT_UNIT_BYTES - 1) / BUSQ_LAYOUT_UNIT_BYTES);
}

int busq_arena_take(busq_arena *arena, uint64_t bytes, busq_record **recordp)
{
  const uint32_t index = class_of_bytes(bytes);
  busq_record *record;
  if (BUSQ_LIKELY(index < arena->class_limit)) {
    busq_arena_class *class = &arena->classes[index];
    if (BUSQ_UNLIKELY(!line_reserve(class)))
      return busq_error(BUSQ_NO_SPACE, "no memory to keep track of %llu messages on their way",
                        (unsigned long long)(class->line_tail - class->line_head));
    record = class_pop(arena, class);
    if (BUSQ_UNLIKELY(!record))
      record = class_take_slow(arena, index);
  } else {
    record = large_take(arena, bytes);
    if (BUSQ_UNLIKELY(!record))
      record = large_take_slow(arena, bytes);
  }
  *recordp = record;
  return record ? BUSQ_OK : BUSQ_FULL;
}

static void large_release(busq_bus *bus, busq_record *record, uint64_t extent, uint64_t word, uint32_t by_slot);

void busq_arena_sent(busq_arena *arena, uint64_t bytes, busq_record *record)
{
  const uint32_t index = class_of_bytes(bytes);
  if (BUSQ_UNLIKELY(index >= arena->class_limit)) {
    const uint64_t extent = record_unit(arena->bus, record) / extent_units(arena->bus);
    const uint64_t word = busq_load_acquire(&arena->bus->table[extent].word);
    busq_arena_sender_done(record);
    large_release(arena->bus, record, extent, word, arena->slot);
    return;
  }
  busq_arena_class *class = &arena->classes[index];
  class->line[class->line_tail++ & (class->line_room - 1)] = record_unit(arena->bus, record);
}

void busq_arena_cancel(busq_arena *arena, uint64_t bytes, busq_record *record)
{
  const uint32_t index = class_of_bytes(bytes);
  busq_store_relaxed(&record->state.lo, BUSQ_PHASE_FREE);
  if (index < arena->class_limit) {
    /* If there is no memory for the list, the record is out of use until this peer leaves. */
    (void)stack_push(&arena->classes[index], record_unit(arena->bus, record));
    return;
  }
  const uint64_t first = record_unit(arena->bus, record) / extent_units(arena->bus);
  (void)run_free_as(arena->bus, first, busq_load_acquire(&arena->bus->table[first].word), arena->slot);
}

/* ---- giving memory back ---- */

/* Extents whose carved records are all on the stack hold nothing; marks them in `tally`. */
static bool class_find_empty(busq_arena *arena, uint32_t index)
{
  const busq_arena_class *class = &arena->classes[index];
  const busq_bus *bus = arena->bus;
  bool some = false;
  for (uint64_t i = 0; i < class->stack_count; i++)
    arena->tally[class->stack[i] / extent_units(bus)]++;
  for (uint64_t extent = 0; extent < bus->geometry.extents; extent++) {
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
    if (arena->tally[class->stack[i] / extent_units(bus)] != BUSQ_ARENA_NONE)
      class->stack[kept++] = class->stack[i];
  class->stack_count = kept;
  if (class->carving != BUSQ_ARENA_NONE && arena->tally[class->carving] == BUSQ_ARENA_NONE)
    class->carving = BUSQ_ARENA_NONE;
  for (uint64_t extent = 0; extent < bus->geometry.extents; extent++)
    if (arena->tally[extent] == BUSQ_ARENA_NONE)
      extent_give_back(bus, extent);
}

/* Ends of our runs that a reader was killed with between shrinking the run and giving the extent back.  If he lives and is about
 * to, his swap fails. */
static void rest_collect(busq_arena *arena)
{
  busq_bus *bus = arena->bus;
  uint64_t covered = 0;
  for (uint64_t extent = bus->geometry.peers; extent < bus->geometry.extents; extent++) {
    const uint64_t word = busq_load_acquire(&bus->table[extent].word);
    const uint32_t kind = word_kind(word);
    if (kind == BUSQ_EXTENT_LARGE || kind == BUSQ_EXTENT_FREEING)
      covered = extent + run_length(bus, extent);
    else if (kind == BUSQ_EXTENT_REST && word_owner(word) == arena->slot && extent >= covered)
      extent_free(bus, extent, word);
  }
}

void busq_arena_collect(busq_arena *arena)
{
  rest_collect(arena);
  for (uint32_t index = 0; index < arena->class_limit; index++) {
    busq_arena_class *class = &arena->classes[index];
    if (class->line_head != class->line_tail)
      class_collect_all(arena, class);
    if (!class->stack_count)
      continue;
    if (class_find_empty(arena, index))
      class_give_back(arena, index);
    memset(arena->tally, 0, arena->bus->geometry.extents * sizeof *arena->tally);
  }
}

static bool record_is_done(const busq_bus *bus, busq_record *record)
{
  const uint64_t phase = busq_load_acquire(&record->state.lo) & BUSQ_PHASE_MASK;
  return phase == BUSQ_PHASE_COMMITTED && busq_record_is_released(bus, record);
}

void busq_arena_sender_done(busq_record *record)
{
  /* SYNC POINT mark */
  busq_store_release(&record->destination[0].sender_mark, BUSQ_MARK_RELEASED);
}

/* A run is given back by whoever is the last to need it.  That may be the sender: stopped in the middle of a message that
 * others completed, received and released, he comes back and swaps the state of a record that must still be his. */
static void large_release(busq_bus *bus, busq_record *record, uint64_t extent, uint64_t word, uint32_t by_slot)
{
  /* Two who release at the same time must not both miss the other's mark.  If the one who would free it dies here, a
   * sweep finds the run. */
  busq_fence_full();
  if (word_kind(word) == BUSQ_EXTENT_LARGE && record_is_done(bus, record) &&
      (busq_load_acquire(&record->destination[0].sender_mark) & BUSQ_MARK_RELEASED))
    (void)run_free_as(bus, extent, word, by_slot);
}

void busq_arena_release(busq_bus *bus, uint32_t by_slot, busq_record *record, uint32_t mark)
{
  const uint64_t extent = record_unit(bus, record) / extent_units(bus);
  /* Read before our mark is set: until then the run can't change hands. */
  const uint64_t word = busq_load_acquire(&bus->table[extent].word);
  BUSQ_STEP("mark");
  /* SYNC POINT mark */
  busq_store_release(&record->destination[mark].mark, BUSQ_MARK_TAKEN | BUSQ_MARK_RELEASED);
  if (BUSQ_UNLIKELY(word_kind(word) == BUSQ_EXTENT_LARGE))
    large_release(bus, record, extent, word, by_slot);
}

void busq_arena_sweep(busq_bus *bus, uint32_t by_slot)
{
  for (uint64_t extent = bus->geometry.peers; extent < bus->geometry.extents; extent++) {
    const uint64_t word = busq_load_acquire(&bus->table[extent].word);
    if (word_kind(word) != BUSQ_EXTENT_LARGE)
      continue;
    large_release(bus, busq_bus_record(bus, (uint32_t)(extent * extent_units(bus))), extent, word, by_slot);
  }
}

static uint64_t slab_carved(const busq_bus *bus, uint64_t extent, uint32_t class)
{
  const uint64_t carved = busq_load_acquire(&bus->table[extent].length);
  return carved < slab_records(bus, class) ? carved : slab_records(bus, class);
}

static busq_record *slab_record(const busq_bus *bus, uint64_t extent, uint32_t class, uint64_t index)
{
  return busq_bus_record(bus, (uint32_t)(extent * extent_units(bus) + index * class_units(class)));
}

static bool record_is_needed(const busq_bus *bus, busq_record *record)
{
  return (busq_load_acquire(&record->state.lo) & BUSQ_PHASE_MASK) != BUSQ_PHASE_FREE && !record_is_done(bus, record);
}

static uint64_t slab_reclaim(busq_bus *bus, uint64_t extent, uint32_t class)
{
  uint64_t needed = 0;
  if (class >= BUSQ_ARENA_CLASSES)
    return 1; /* damage: leave it alone */
  const uint64_t carved = slab_carved(bus, extent, class);
  for (uint64_t i = 0; i < carved; i++)
    needed += record_is_needed(bus, slab_record(bus, extent, class, i));
  if (!needed)
    extent_give_back(bus, extent);
  return needed;
}

static uint64_t large_reclaim(busq_bus *bus, uint64_t extent, uint64_t word, uint32_t slot)
{
  if (record_is_needed(bus, busq_bus_record(bus, (uint32_t)(extent * extent_units(bus)))))
    return 1;
  (void)run_free_as(bus, extent, word, slot);
  return 0;
}

uint64_t busq_arena_reclaim(busq_bus *bus, uint32_t slot)
{
  uint64_t needed = 0, covered = 0;
  for (uint64_t extent = 0; extent < bus->geometry.extents; extent++) {
    const uint64_t word = busq_load_acquire(&bus->table[extent].word);
    const uint32_t kind = word_kind(word);
    if (kind == BUSQ_EXTENT_LARGE || kind == BUSQ_EXTENT_FREEING)
      covered = extent + run_length(bus, extent);
    if (kind == BUSQ_EXTENT_FREE || word_owner(word) != slot)
      continue;
    if (kind == BUSQ_EXTENT_SLAB)
      needed += slab_reclaim(bus, extent, word_class(word));
    else if (kind == BUSQ_EXTENT_LARGE)
      needed += large_reclaim(bus, extent, word, slot);
    else if (kind == BUSQ_EXTENT_FREEING)
      run_free(bus, extent);
    else if (kind == BUSQ_EXTENT_CLAIMED || extent >= covered)
      extent_free(bus, extent, word); /* its owner died while he put a run together, or took one apart */
  }
  return needed;
}

/* A run that its sender is through with may be given back and claimed anew by strangers while we look at it; one that he is not
 * through with stays what it is. */
static bool large_is_in_hand(const busq_bus *bus, uint64_t extent, uint64_t word)
{
  busq_record *record = busq_bus_record(bus, (uint32_t)(extent * extent_units(bus)));
  const bool is_through = (busq_load_acquire(&record->destination[0].sender_mark) & BUSQ_MARK_RELEASED) != 0;
  return !is_through && busq_load_acquire(&bus->table[extent].word) == word;
}

void busq_arena_visit(busq_bus *bus, uint32_t slot, busq_arena_visitor visitor)
{
  for (uint64_t extent = 0; extent < bus->geometry.extents; extent++) {
    const uint64_t word = busq_load_acquire(&bus->table[extent].word);
    const uint32_t class = word_class(word);
    if (word_owner(word) != slot || (word_kind(word) != BUSQ_EXTENT_SLAB && word_kind(word) != BUSQ_EXTENT_LARGE))
      continue;
    if (word_kind(word) == BUSQ_EXTENT_LARGE) {
      if (large_is_in_hand(bus, extent, word))
        visitor(bus, busq_bus_record(bus, (uint32_t)(extent * extent_units(bus))));
      continue;
    }
    const uint64_t carved = class < BUSQ_ARENA_CLASSES ? slab_carved(bus, extent, class) : 0;
    for (uint64_t i = 0; i < carved; i++)
      visitor(bus, slab_record(bus, extent, class, i));
  }
}

/* The records of one extent, sorted onto the lists as if we had sent those ourselves that are still needed. */
static bool slab_adopt(busq_arena *arena, uint64_t extent, uint32_t index)
{
  busq_bus *bus = arena->bus;
  busq_arena_class *class = &arena->classes[index];
  const uint64_t carved = slab_carved(bus, extent, index);
  for (uint64_t i = 0; i < carved; i++) {
    busq_record *record = slab_record(bus, extent, index, i);
    if (!record_is_needed(bus, record)) {
      if (!stack_push(class, record_unit(bus, record)))
        return false;
    } else {
      if (!line_reserve(class))
        return false;
      class->line[class->line_tail++ & (class->line_room - 1)] = record_unit(bus, record);
    }
  }
  if (carved < slab_records(bus, index))
    class->carving = (uint32_t)extent;
  arena->owned += extent >= bus->geometry.peers;
  return true;
}

int busq_arena_adopt(busq_arena *arena)
{
  busq_bus *bus = arena->bus;
  for (uint64_t extent = 0; extent < bus->geometry.extents; extent++) {
    const uint64_t word = busq_load_acquire(&bus->table[extent].word);
    if (word_kind(word) != BUSQ_EXTENT_SLAB || word_owner(word) != arena->slot || word_class(word) >= arena->class_limit)
      continue;
    if (!slab_adopt(arena, extent, word_class(word)))
      return busq_error(BUSQ_NO_SPACE, "no memory to keep track of the messages that a predecessor has on their way");
  }
  return BUSQ_OK;
}

uint64_t busq_arena_used_bytes(const busq_bus *bus, uint32_t slot)
{
  uint64_t used = 0;
  for (uint64_t extent = 0; extent < bus->geometry.extents; extent++) {
    const uint64_t word = busq_load_relaxed(&bus->table[extent].word);
    used += word_kind(word) != BUSQ_EXTENT_FREE && (slot == BUSQ_ARENA_NONE || word_owner(word) == slot);
  }
  return used * bus->geometry.extent_bytes;
}
