/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/memory/large.h"
#include "base/assert.h"
#include "shm/memory/reserve.h"

/* ---- runs of extents ---- */

bool busq_run_claim_at(busq_bus *bus, uint32_t slot, uint64_t first, uint64_t length)
{
  for (uint64_t at = first + length; at-- > first;) {
    if (busq_extent_claim(bus, at, slot))
      continue;
    for (uint64_t back = at + 1; back < first + length; back++)
      busq_extent_give_back(bus, back);
    return false;
  }
  return true;
}

/* From the end of the table, so that slabs, which begin at its start, do not break up the long runs.  Where the file
 * system has no memory for a run, what is reserved already may hold it. */
static uint64_t run_claim_before(busq_bus *bus, uint32_t slot, uint64_t length, uint64_t end, bool *is_shortp)
{
  uint64_t n_free = 0;
  for (uint64_t at = end; at-- > bus->geometry.peers;) {
    n_free = busq_extent_is_free(bus, at, *is_shortp) ? n_free + 1 : 0;
    if (n_free < length)
      continue;
    if (busq_reserve_extents(bus, at, length)) {
      if (busq_run_claim_at(bus, slot, at, length))
        return at;
    } else {
      *is_shortp = true;
      at = end;
    }
    n_free = 0;
  }
  return 0;
}

static uint64_t run_claim(busq_bus *bus, uint32_t slot, uint64_t length)
{
  bool is_short = false;
  uint64_t first, end = busq_extents_reached(bus);
  while (!(first = run_claim_before(bus, slot, length, end, &is_short))) {
    const uint64_t reached = is_short ? end : busq_reserve_reach(bus, length);
    if (reached == end)
      return 0;
    end = reached;
  }
  return first;
}

busq_record *busq_run_become_large(busq_bus *bus, uint32_t slot, uint64_t first, uint64_t length, uint64_t bytes)
{
  BUSQ_ASSERT(first >= bus->geometry.peers && first + length <= bus->geometry.extents);
  busq_record *record = busq_bus_record(bus, busq_extent_unit(bus, first));
  /* Atomic, because the last life of this memory may have ended with two readers that released at once: the slower one
   * still looks. */
  busq_store_relaxed(&record->state.lo, BUSQ_PHASE_FREE);
  busq_store_relaxed(&record->state.hi, 0);
  busq_store_relaxed(&record->outline, 0);
  busq_store_relaxed(&record->size_bytes, (uint32_t)(bytes < UINT32_MAX ? bytes : UINT32_MAX)); /* for facts, until it is filled */
  busq_store_relaxed(&bus->table[first].length, length);
  for (uint64_t rest = first + 1; rest < first + length; rest++)
    busq_extent_become(bus, rest, slot, BUSQ_EXTENT_REST, 0);
  busq_extent_become(bus, first, slot, BUSQ_EXTENT_LARGE, 0);
  return record;
}

busq_record *busq_large_take(busq_bus *bus, uint32_t slot, uint64_t bytes)
{
  const uint64_t length = busq_large_extents(bus, bytes);
  const uint64_t first = run_claim(bus, slot, length);
  return first ? busq_run_become_large(bus, slot, first, length, bytes) : NULL;
}

/* The run shrinks before each of its extents is freed: an extent freed first could be in another peer's run when a
 * second process buries this one and frees it again. */
void busq_run_free(busq_bus *bus, uint64_t first)
{
  if (first >= bus->geometry.huge_from)
    busq_reserve_give_back(bus, first, busq_run_length(bus, first));
  for (uint64_t length = busq_run_length(bus, first); length > 1; length--) {
    const uint64_t last = busq_load_acquire(&bus->table[first + length - 1].word);
    BUSQ_ASSERT(first + length <= bus->geometry.extents);
    BUSQ_STEP("run shrink");
    busq_store_release(&bus->table[first].length, length - 1);
    busq_extent_free(bus, first + length - 1, last);
  }
  busq_extent_give_back(bus, first);
}

bool busq_run_free_as(busq_bus *bus, uint64_t first, uint64_t seen, uint32_t by_slot)
{
  if (!busq_cas64(&bus->table[first].word, seen,
                  busq_extent_word(busq_extent_generation(seen), by_slot, BUSQ_EXTENT_FREEING, 0)))
    return false;
  busq_run_free(bus, first);
  return true;
}

/* Ends of our runs that a reader was killed with between shrinking the run and giving the extent back.  If it lives and
 * is about to, its swap fails. */
void busq_run_collect_ends(busq_bus *bus, uint32_t slot)
{
  uint64_t covered = 0;
  for (uint64_t extent = bus->geometry.peers; extent < bus->geometry.extents; extent = busq_extent_next(bus, extent)) {
    const uint64_t word = busq_load_acquire(&bus->table[extent].word);
    const uint32_t kind = busq_extent_kind(word);
    if (kind == BUSQ_EXTENT_LARGE || kind == BUSQ_EXTENT_FREEING)
      covered = extent + busq_run_length(bus, extent);
    else if (kind == BUSQ_EXTENT_REST && busq_extent_owner(word) == slot && extent >= covered)
      busq_extent_free(bus, extent, word);
  }
}

/* ---- the record in one ---- */

void busq_large_sender_done(busq_record *record)
{
  /* SYNC POINT mark */
  (void)busq_fetch_or(&record->outline, BUSQ_RECORD_SENT);
}

/* A run is given back by the last process that needs it.  That may be the sender: stopped in the middle of a message
 * that others completed, received and released, it comes back and swaps the state of a record that must still be its
 * own. */
static void large_release(busq_bus *bus, busq_record *record, uint64_t extent, uint64_t word, uint32_t by_slot)
{
  /* Two that release at the same time must not both miss the other's mark.  If the process that would free it dies
   * here, a sweep finds the run.  If the other one frees it, and the run is in use again, we look at what is not ours
   * any more; the word's generation has changed with it, so our swap fails, whatever we have read. */
  busq_fence_full();
  if (busq_extent_kind(word) == BUSQ_EXTENT_LARGE && busq_record_is_done(bus, record) &&
      (busq_load_acquire(&record->outline) & BUSQ_RECORD_SENT))
    (void)busq_run_free_as(bus, extent, word, by_slot);
}

void busq_large_sent(busq_bus *bus, uint32_t slot, busq_record *record)
{
  const uint64_t extent = busq_arena_extent_of(bus, busq_arena_unit_of(bus, record));
  const uint64_t word = busq_load_acquire(&bus->table[extent].word);
  busq_large_sender_done(record);
  large_release(bus, record, extent, word, slot);
}

void busq_large_released(busq_bus *bus, uint32_t by_slot, busq_record *record, uint64_t word)
{
  large_release(bus, record, busq_arena_extent_of(bus, busq_arena_unit_of(bus, record)), word, by_slot);
}

void busq_large_sweep(busq_bus *bus, uint32_t by_slot)
{
  for (uint64_t extent = bus->geometry.peers; extent < bus->geometry.extents; extent = busq_extent_next(bus, extent)) {
    const uint64_t word = busq_load_acquire(&bus->table[extent].word);
    if (busq_extent_kind(word) != BUSQ_EXTENT_LARGE)
      continue;
    busq_record *record = busq_extent_record(bus, extent);
    if (record)
      large_release(bus, record, extent, word, by_slot);
  }
}
