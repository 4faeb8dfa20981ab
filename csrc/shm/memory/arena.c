/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/memory/arena.h"
#include "base/assert.h"
#include "base/error.h"
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
  return busq_extent_kind(word);
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
  BUSQ_ASSERT(extent < bus->geometry.extents && owner < bus->geometry.peers);
  uint64_t *word = &bus->table[extent].word;
  const uint64_t seen = busq_load_acquire(word);
  if (word_kind(seen) != BUSQ_EXTENT_FREE)
    return false;
  BUSQ_STEP("extent claim");
  return busq_cas64(word, seen, word_make(word_generation(seen) + 1, owner, BUSQ_EXTENT_CLAIMED, 0));
}

static void extent_become(busq_bus *bus, uint64_t extent, uint32_t owner, uint32_t kind, uint32_t class)
{
  BUSQ_ASSERT(extent < bus->geometry.extents && owner < bus->geometry.peers);
  BUSQ_ASSERT(kind != BUSQ_EXTENT_SLAB || class < BUSQ_ARENA_CLASSES);
  uint64_t *word = &bus->table[extent].word;
  BUSQ_STEP("extent become");
  busq_store_release(word, word_make(word_generation(busq_load_relaxed(word)), owner, kind, class));
}

/* A swap: of a dead sender's run that a reader takes apart, the last extents are also given back by who buries the sender, and
 * either may be stopped just before it while the other one's extent is claimed anew. */
static void extent_free(busq_bus *bus, uint64_t extent, uint64_t seen)
{
  BUSQ_ASSERT(extent < bus->geometry.extents);
  BUSQ_STEP("extent free");
  /* SYNC POINT extent: whoever claims it next finds us done with its memory. */
  (void)busq_cas64(&bus->table[extent].word, seen, (uint64_t)(word_generation(seen) + 1) << 32);
}

/* One that is nobody's but ours. */
static void extent_give_back(busq_bus *bus, uint64_t extent)
{
  extent_free(bus, extent, busq_load_relaxed(&bus->table[extent].word));
}

/* ---- size classes ---- */

static uint64_t class_units(uint32_t class)
{
  if (class < 8)
    return class + 1;
  return (uint64_t)(class % 4 + 5) << (class / 4 - 1);
}

static uint64_t extent_units(const busq_bus *bus)
{
  return UINT64_C(1) << bus->extent_shift;
}

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

int busq_arena_init(busq_arena *arena, busq_bus *bus, uint32_t slot)
{
  memset(arena, 0, sizeof *arena);
  arena->bus = bus;
  arena->slot = slot;
  const uint32_t limit = busq_arena_class_of_units(extent_units(bus) / 2) + 1;
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
  free(arena->inherited);
  free(arena->tally);
  memset(arena, 0, sizeof *arena);
}

/* The count is in shared memory: more destinations than peers is damage, and such a record is kept, not reused. */
bool busq_record_is_released(const busq_bus *bus, const busq_record *record)
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

/* Onto the stack, if nobody needs it any more. */
static inline bool class_collect_one(busq_arena *arena, busq_arena_class *class, uint32_t unit)
{
  return busq_record_is_released(arena->bus, busq_bus_record(arena->bus, unit)) && stack_push(class, unit);
}

/* Moves released records from the front of the line to the stack; stops at the first that is still needed, or after so many.  How
 * many it has moved. */
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

/* The same for the whole line: one slow reader at its front must not make us take more and more memory.  Costs as much
 * as the line is long, so it is done again only when the line has doubled. */
static void class_collect_all(busq_arena *arena, busq_arena_class *class)
{
  for (uint64_t at = class->line_head; at != class->line_tail; at++)
    if (*line_entry(class, at) != BUSQ_ARENA_NONE && class_collect_one(arena, class, *line_entry(class, at)))
      *line_entry(class, at) = BUSQ_ARENA_NONE;
  line_close_gaps(class);
  class->searched = class->line_tail - class->line_head;
}

/* The same for a few of them, each time others.  How many came free. */
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
  BUSQ_ASSERT(class->carving < bus->geometry.extents && index < arena->class_limit);
  BUSQ_ASSERT((carved + 1) * class_units(index) <= extent_units(bus));
  busq_record *record =
      busq_bus_record(bus, (uint32_t)(class->carving * extent_units(bus) + carved * class_units(index)));
  /* The extent's former content may look like anything: blank the state before the record counts as one. */
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
  arena->credit += slab_records(bus, index);
  return true;
}

static busq_record *class_pop(busq_arena *arena, busq_arena_class *class)
{
  return class->stack_count ? busq_arena_pop(arena, class) : NULL;
}

/* ---- taking over ---- */

static bool record_is_done(const busq_bus *bus, busq_record *record)
{
  const uint64_t phase = busq_load_acquire(&record->state.lo) & BUSQ_PHASE_MASK;
  return phase == BUSQ_PHASE_COMMITTED && busq_record_is_released(bus, record);
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

/* The records of one extent, sorted onto the lists as if we had sent those ourselves that are still needed.  For whom the lists have
 * no room, it is out of use until this peer leaves. */
static void slab_adopt(busq_arena *arena, uint64_t extent, uint32_t index)
{
  busq_bus *bus = arena->bus;
  busq_arena_class *class = &arena->classes[index];
  const uint64_t carved = slab_carved(bus, extent, index);
  for (uint64_t i = 0; i < carved; i++) {
    busq_record *record = slab_record(bus, extent, index, i);
    if (!record_is_needed(bus, record))
      (void)stack_push(class, busq_arena_unit_of(bus, record));
    else if (line_reserve(class))
      busq_arena_line_add(class, busq_arena_unit_of(bus, record));
  }
  if (carved < slab_records(bus, index) && class->carving == BUSQ_ARENA_NONE)
    class->carving = (uint32_t)extent;
  arena->owned += extent >= bus->geometry.peers;
  arena->credit += carved;
}

/* One extent after the other, until so many records were looked at. */
static void slabs_adopt(busq_arena *arena, uint64_t looks)
{
  while (arena->inherited_count && looks) {
    const uint32_t extent = arena->inherited[--arena->inherited_count];
    const uint32_t class = word_class(busq_load_acquire(&arena->bus->table[extent].word));
    const uint64_t carved = class < arena->class_limit ? slab_carved(arena->bus, extent, class) : 0;
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
  for (uint64_t extent = bus->geometry.extents; extent-- > 0;) {
    const uint64_t word = busq_load_acquire(&bus->table[extent].word);
    if (word_kind(word) == BUSQ_EXTENT_SLAB && word_owner(word) == arena->slot)
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
  BUSQ_ASSERT(first >= bus->geometry.peers && first + length <= bus->geometry.extents);
  busq_record *record = busq_bus_record(bus, (uint32_t)(first * extent_units(bus)));
  /* Atomic, because the last life of this memory may have ended with two who released at once: the slower one still looks. */
  busq_store_relaxed(&record->state.lo, BUSQ_PHASE_FREE);
  busq_store_relaxed(&record->state.hi, 0);
  busq_store_relaxed(&record->outline, 0);
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
    BUSQ_ASSERT(first + length <= bus->geometry.extents);
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
  (void)busq_arena_collect(arena, busq_step_looks);
  return large_take(arena, bytes);
}

static int line_is_full(const busq_arena_class *class)
{
  return busq_error(BUSQ_NO_SPACE, "no memory to keep track of %llu messages on their way",
                    (unsigned long long)(class->line_tail - class->line_head));
}

int busq_arena_keep(busq_arena *arena, uint64_t bytes)
{
  const uint32_t index = busq_arena_class_of(bytes);
  if (index >= arena->class_limit || line_reserve(&arena->classes[index]))
    return BUSQ_OK;
  return line_is_full(&arena->classes[index]);
}

int busq_arena_take_slow(busq_arena *arena, uint64_t bytes, busq_record **recordp)
{
  const uint32_t index = busq_arena_class_of(bytes);
  busq_record *record;
  if (BUSQ_LIKELY(index < arena->class_limit)) {
    busq_arena_class *class = &arena->classes[index];
    record = class_pop(arena, class);
    if (BUSQ_UNLIKELY(!record))
      record = class_take_slow(arena, index);
    /* Last: taking may have put what a predecessor sent into the line. */
    if (record && BUSQ_UNLIKELY(!line_reserve(class))) {
      (void)stack_push(class, busq_arena_unit_of(arena->bus, record));
      return line_is_full(class);
    }
  } else {
    record = large_take(arena, bytes);
    if (BUSQ_UNLIKELY(!record))
      record = large_take_slow(arena, bytes);
  }
  BUSQ_ASSERT(index >= arena->class_limit || class_units(index) * BUSQ_LAYOUT_UNIT_BYTES >= bytes);
  BUSQ_ASSERT(!record || busq_arena_unit_of(arena->bus, record) < busq_bus_units(arena->bus));
  *recordp = record;
  return record ? BUSQ_OK : BUSQ_FULL;
}

static void large_release(busq_bus *bus, busq_record *record, uint64_t extent, uint64_t word, uint32_t by_slot);

void busq_arena_sent_large(busq_arena *arena, busq_record *record)
{
  const uint64_t extent = busq_arena_extent_of(arena->bus, busq_arena_unit_of(arena->bus, record));
  const uint64_t word = busq_load_acquire(&arena->bus->table[extent].word);
  busq_arena_sender_done(record);
  large_release(arena->bus, record, extent, word, arena->slot);
}

void busq_arena_cancel(busq_arena *arena, uint64_t bytes, busq_record *record)
{
  const uint32_t index = busq_arena_class_of(bytes);
  busq_store_relaxed(&record->state.lo, BUSQ_PHASE_FREE);
  if (index < arena->class_limit) {
    /* If there is no memory for the list, the record is out of use until this peer leaves. */
    (void)stack_push(&arena->classes[index], busq_arena_unit_of(arena->bus, record));
    return;
  }
  const uint64_t first = busq_arena_extent_of(arena->bus, busq_arena_unit_of(arena->bus, record));
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
    arena->tally[busq_arena_extent_of(bus, class->stack[i])]++;
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
    if (arena->tally[busq_arena_extent_of(bus, class->stack[i])] != BUSQ_ARENA_NONE)
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

/* Every extent of which nothing is used; costs as much as there are free records and extents.  True where everybody got some. */
static bool extents_give_back(busq_arena *arena)
{
  const uint64_t owned = arena->owned;
  rest_collect(arena);
  for (uint32_t index = 0; index < arena->class_limit; index++) {
    if (!arena->classes[index].stack_count)
      continue;
    if (class_find_empty(arena, index))
      class_give_back(arena, index);
    memset(arena->tally, 0, arena->bus->geometry.extents * sizeof *arena->tally);
  }
  return arena->owned < owned;
}

bool busq_arena_collect(busq_arena *arena, uint64_t looks)
{
  uint64_t cost = arena->bus->geometry.extents;
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

void busq_arena_sender_done(busq_record *record)
{
  /* SYNC POINT mark */
  (void)busq_fetch_or(&record->outline, BUSQ_RECORD_SENT);
}

/* A run is given back by whoever is the last to need it.  That may be the sender: stopped in the middle of a message that
 * others completed, received and released, he comes back and swaps the state of a record that must still be his. */
static void large_release(busq_bus *bus, busq_record *record, uint64_t extent, uint64_t word, uint32_t by_slot)
{
  /* Two who release at the same time must not both miss the other's mark.  If the one who would free it dies here, a
   * sweep finds the run.  If the other one frees it, and the run is in use again, we look at what is not ours any more; the
   * word's generation has changed with it, so our swap fails, whatever we have read. */
  busq_fence_full();
  if (word_kind(word) == BUSQ_EXTENT_LARGE && record_is_done(bus, record) &&
      (busq_load_acquire(&record->outline) & BUSQ_RECORD_SENT))
    (void)run_free_as(bus, extent, word, by_slot);
}

void busq_arena_released_large(busq_bus *bus, uint32_t by_slot, busq_record *record, uint64_t word)
{
  large_release(bus, record, busq_arena_extent_of(bus, busq_arena_unit_of(bus, record)), word, by_slot);
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

/* Up to the first record that is needed: a dead sender's records come free and are never used again, so nothing is lost by
 * looking at the rest another time. */
static bool slab_reclaim(busq_bus *bus, uint64_t extent, uint32_t class, uint64_t *looks)
{
  if (class >= BUSQ_ARENA_CLASSES)
    return false; /* damage: leave it alone */
  const uint64_t carved = slab_carved(bus, extent, class);
  uint64_t at = 0;
  while (at < carved && !record_is_needed(bus, slab_record(bus, extent, class, at)))
    at++;
  *looks -= at < *looks ? at + 1 : *looks;
  if (at < carved)
    return false;
  extent_give_back(bus, extent);
  return true;
}

static bool large_reclaim(busq_bus *bus, uint64_t extent, uint64_t word, uint32_t slot)
{
  if (record_is_needed(bus, busq_bus_record(bus, (uint32_t)(extent * extent_units(bus)))))
    return false;
  (void)run_free_as(bus, extent, word, slot);
  return true;
}

/* All but the slabs. */
static bool runs_reclaim(busq_bus *bus, uint32_t slot)
{
  bool is_empty = true;
  uint64_t covered = 0;
  for (uint64_t extent = 0; extent < bus->geometry.extents; extent++) {
    const uint64_t word = busq_load_acquire(&bus->table[extent].word);
    const uint32_t kind = word_kind(word);
    if (kind == BUSQ_EXTENT_LARGE || kind == BUSQ_EXTENT_FREEING)
      covered = extent + run_length(bus, extent);
    if (kind == BUSQ_EXTENT_FREE || word_owner(word) != slot)
      continue;
    if (kind == BUSQ_EXTENT_LARGE)
      is_empty &= large_reclaim(bus, extent, word, slot);
    else if (kind == BUSQ_EXTENT_FREEING)
      run_free(bus, extent);
    else if (kind == BUSQ_EXTENT_CLAIMED || (kind != BUSQ_EXTENT_SLAB && extent >= covered))
      extent_free(bus, extent, word); /* its owner died while he put a run together, or took one apart */
  }
  return is_empty;
}

static bool slab_is_of(const busq_bus *bus, uint64_t extent, uint32_t slot, uint32_t *classp)
{
  const uint64_t word = busq_load_acquire(&bus->table[extent].word);
  *classp = word_class(word);
  return word_kind(word) == BUSQ_EXTENT_SLAB && word_owner(word) == slot;
}

bool busq_arena_reclaim(busq_bus *bus, uint32_t slot, uint64_t *looks)
{
  const uint64_t extents = bus->geometry.extents;
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
  for (uint64_t extent = 0; extent < bus->geometry.extents && is_empty; extent++)
    if (slab_is_of(bus, extent, slot, &class))
      is_empty = slab_reclaim(bus, extent, class, &looks);
  return is_empty;
}

/* A run that its sender is through with may be given back and claimed anew by strangers while we look at it; one that he is not
 * through with stays what it is. */
static bool large_is_in_hand(const busq_bus *bus, uint64_t extent, uint64_t word)
{
  busq_record *record = busq_bus_record(bus, (uint32_t)(extent * extent_units(bus)));
  const bool is_through = (busq_load_acquire(&record->outline) & BUSQ_RECORD_SENT) != 0;
  return !is_through && busq_load_acquire(&bus->table[extent].word) == word;
}

busq_record *busq_arena_record(busq_bus *bus, uint32_t slot, uint64_t unit)
{
  const uint64_t extent = busq_arena_extent_of(bus, unit), at = unit % extent_units(bus);
  const uint64_t word = extent < bus->geometry.extents ? busq_load_acquire(&bus->table[extent].word) : 0;
  const uint32_t class = word_class(word);
  bool is_record = false;
  if (word_owner(word) != slot)
    return NULL;
  if (word_kind(word) == BUSQ_EXTENT_LARGE)
    is_record = at == 0 && large_is_in_hand(bus, extent, word);
  else if (word_kind(word) == BUSQ_EXTENT_SLAB && class < BUSQ_ARENA_CLASSES)
    is_record = at % class_units(class) == 0 && at / class_units(class) < slab_carved(bus, extent, class);
  return is_record ? busq_bus_record(bus, (uint32_t)unit) : NULL;
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
