/* SPDX-License-Identifier: Apache-2.0 */
#include "check/past.h"
#include <string.h>

enum { PART = 1 << 16 /* fingerprints */ };

bool busq_past_init(busq_past *past, busq_disk *disk)
{
  return busq_store_init_on(&past->file, disk);
}

void busq_past_deinit(busq_past *past, busq_account *account)
{
  busq_store_deinit(&past->file);
  busq_account_free(account, (void *)past->marks, past->marks_bytes);
}

static uint64_t *prints_of(const busq_past *past)
{
  return (uint64_t *)(void *)past->file.bytes;
}

/* ---- reading ---- */

void busq_past_rewind(busq_past *past)
{
  memset((void *)past->marks, 0, past->marks_bytes);
  atomic_store(&past->n_taken, 0);
  atomic_store(&past->n_marked, 0);
}

static void read_part(busq_past *past, const busq_seen *seen, uint64_t begin, uint64_t end)
{
  const uint64_t *prints = prints_of(past);
  uint64_t n_marked = 0;
  for (uint64_t place = begin; place < end; place++) {
    bool is_there;
    const uint64_t slot = busq_seen_find(seen, prints[place], &is_there);
    if (!is_there)
      continue;
    atomic_fetch_or_explicit(&past->marks[slot / 8], (uint8_t)(1u << slot % 8), memory_order_relaxed);
    n_marked++;
  }
  atomic_fetch_add(&past->n_marked, n_marked);
}

void busq_past_read(busq_past *past, const busq_seen *seen, const atomic_bool *must_stop)
{
  while (!atomic_load(must_stop)) {
    const uint64_t begin = atomic_fetch_add(&past->n_taken, 1) * PART;
    if (begin >= past->count)
      return;
    read_part(past, seen, begin, begin + PART < past->count ? begin + PART : past->count);
  }
}

/* ---- writing ---- */

static bool init_marks(busq_past *past, const busq_seen *seen, busq_account *account)
{
  const uint64_t bytes = (seen->n_slots + 7) / 8;
  past->marks = busq_account_calloc(account, bytes);
  past->marks_bytes = past->marks ? bytes : 0;
  return past->marks;
}

static void write_part(busq_past *past, const busq_seen *seen, uint64_t begin, uint64_t end)
{
  uint64_t *prints = prints_of(past);
  for (uint64_t slot = begin; slot < end; slot++) {
    const uint64_t found = atomic_load_explicit(&seen->slots[slot], memory_order_relaxed);
    if (found && !(past->marks[slot / 8] >> slot % 8 & 1))
      prints[past->count++] = found;
  }
}

bool busq_past_write(busq_past *past, busq_seen *seen, busq_account *account, const atomic_bool *must_stop)
{
  if (!past->marks && !init_marks(past, seen, account))
    return false;
  for (uint64_t begin = 0; begin < seen->n_slots; begin += PART) {
    const uint64_t end = begin + PART < seen->n_slots ? begin + PART : seen->n_slots;
    if (atomic_load(must_stop) || !busq_store_grow(&past->file, (past->count + end - begin) * sizeof(uint64_t)))
      return false;
    write_part(past, seen, begin, end);
  }
  busq_seen_clear(seen);
  return true;
}
