/* SPDX-License-Identifier: Apache-2.0 */
#include "check/seen.h"
#include <string.h>
#include <sys/mman.h>

enum {
  BEGIN_BYTES = 1 << 16,
  PAGE_BYTES = 1 << 12,
  LARGE_PAGE_BYTES = 1 << 21,
  LARGE_BYTES = 4 * LARGE_PAGE_BYTES, /* from here on a table lies in large pages */
  STEPS = 16 /* in which the old table goes back to the system, or steps of a large page */
};

/* Parts of 1024 that may be taken: so many, as long as the set can grow; and so many at last. */
enum { LOAD_MIN = 700, LOAD_MAX = 930, LOADS = 1024 };

static size_t bytes_of(const busq_seen *seen)
{
  return seen->n_slots * sizeof *seen->slots;
}

static uint64_t additions_of(uint64_t n_slots, uint64_t load)
{
  return n_slots / LOADS * load;
}

/* Whole pages. */
static uint64_t round_down(uint64_t bytes)
{
  return bytes - bytes % (bytes < LARGE_BYTES ? PAGE_BYTES : LARGE_PAGE_BYTES);
}

/* Slots for so many bytes, whole pages, all zero. */
static bool map(busq_seen *seen, uint64_t bytes)
{
  const bool is_large = bytes >= LARGE_BYTES;
  const size_t slack = is_large ? LARGE_PAGE_BYTES : 0;
  void *mapping =
      mmap(NULL, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED)
    return false;
  char *begin = mapping;
  if (is_large) {
    begin = (char *)BUSQ_ALIGN_UP((uintptr_t)mapping, LARGE_PAGE_BYTES);
    (void)madvise(begin, bytes, MADV_HUGEPAGE); /* a wish */
  }
  seen->mapping = mapping;
  seen->mapping_bytes = bytes + slack;
  seen->slots = (_Atomic uint64_t *)(void *)begin;
  seen->n_slots = bytes / sizeof *seen->slots;
  return true;
}

bool busq_seen_init(busq_seen *seen, busq_account *account, uint64_t bytes_max)
{
  seen->account = account;
  seen->bytes_max = bytes_max;
  const uint64_t bytes = round_down(bytes_max < BEGIN_BYTES ? bytes_max : BEGIN_BYTES);
  if (!bytes || !busq_account_take(account, bytes))
    return false;
  if (!map(seen, bytes)) {
    busq_account_give_back(account, bytes);
    return false;
  }
  atomic_store(&seen->room, (long long)additions_of(seen->n_slots, LOAD_MIN));
  return true;
}

void busq_seen_deinit(busq_seen *seen)
{
  if (!seen->slots)
    return;
  (void)munmap(seen->mapping, seen->mapping_bytes);
  busq_account_give_back(seen->account, bytes_of(seen));
  seen->slots = NULL;
}

void busq_seen_clear(busq_seen *seen)
{
  memset((void *)seen->slots, 0, bytes_of(seen));
  atomic_store(&seen->room, (long long)additions_of(seen->n_slots, LOAD_MIN));
}

uint64_t busq_seen_draw(busq_seen *seen, uint64_t count)
{
  long long room = atomic_load_explicit(&seen->room, memory_order_relaxed);
  long long drawn;
  do {
    drawn = room < (long long)count ? room : (long long)count;
    if (drawn <= 0)
      return 0;
  } while (!atomic_compare_exchange_weak_explicit(&seen->room, &room, room - drawn, memory_order_relaxed,
                                                  memory_order_relaxed));
  return (uint64_t)drawn;
}

static uint64_t step_bytes(const busq_seen *old)
{
  const uint64_t step = BUSQ_ALIGN_UP(bytes_of(old) / STEPS, PAGE_BYTES);
  return step < LARGE_PAGE_BYTES ? step : LARGE_PAGE_BYTES;
}

/* Adds what stands in the old table to the new one, and gives the old one's memory back on the way. */
static void move_over(const busq_seen *old, busq_seen *seen, const atomic_bool *must_stop)
{
  const uint64_t step = step_bytes(old) / sizeof *old->slots;
  for (uint64_t first = 0; first < old->n_slots && !atomic_load(must_stop); first += step) {
    const uint64_t end = first + step < old->n_slots ? first + step : old->n_slots;
    for (uint64_t slot = first; slot < end; slot++) {
      const uint64_t fingerprint = atomic_load_explicit(&old->slots[slot], memory_order_relaxed);
      if (fingerprint)
        (void)busq_seen_add(seen, fingerprint);
    }
    (void)madvise((void *)&old->slots[first], (end - first) * sizeof *old->slots, MADV_DONTNEED);
  }
}

/* Memory held twice while the set grows: of the old table, as much as goes back at once; of either one, part of a page. */
static uint64_t twice_bytes(const busq_seen *old, uint64_t bytes)
{
  return step_bytes(old) + 2 * (bytes < LARGE_BYTES ? PAGE_BYTES : LARGE_PAGE_BYTES);
}

static uint64_t least(uint64_t a, uint64_t b)
{
  return a < b ? a : b;
}

/* Twice as many bytes, or as many as there are; 0 where that is hardly more. */
static uint64_t next_bytes(const busq_seen *seen)
{
  const uint64_t bytes = bytes_of(seen);
  const uint64_t left = bytes + busq_account_left(seen->account);
  const uint64_t most = least(2 * bytes, seen->bytes_max);
  uint64_t next = least(most, left - least(left, twice_bytes(seen, LARGE_BYTES)));
  if (next < LARGE_BYTES)
    next = least(least(most, left - least(left, twice_bytes(seen, 0))), LARGE_BYTES - PAGE_BYTES);
  next = round_down(next);
  return next >= bytes + bytes / 8 ? next : 0;
}

static bool replace(busq_seen *seen, uint64_t bytes, const atomic_bool *must_stop)
{
  const busq_seen old = *seen;
  const uint64_t twice = twice_bytes(&old, bytes), taken_bytes = bytes - bytes_of(&old) + twice;
  if (!busq_account_take(seen->account, taken_bytes))
    return false;
  if (!map(seen, bytes)) {
    busq_account_give_back(seen->account, taken_bytes);
    return false;
  }
  move_over(&old, seen, must_stop);
  (void)munmap(old.mapping, old.mapping_bytes);
  busq_account_give_back(seen->account, twice);
  /* A state that was drawn and not added so far keeps its room. */
  const uint64_t more = additions_of(seen->n_slots, LOAD_MIN) - additions_of(old.n_slots, LOAD_MIN);
  atomic_fetch_add(&seen->room, (long long)more);
  return !atomic_load(must_stop);
}

bool busq_seen_grow(busq_seen *seen, const atomic_bool *must_stop)
{
  const uint64_t bytes = seen->is_final ? 0 : next_bytes(seen);
  if (bytes && replace(seen, bytes, must_stop))
    return true;
  if (seen->is_final || seen->is_emptied || atomic_load(must_stop))
    return false;
  seen->is_final = true;
  const uint64_t more = additions_of(seen->n_slots, LOAD_MAX) - additions_of(seen->n_slots, LOAD_MIN);
  atomic_fetch_add(&seen->room, (long long)more);
  return true;
}
