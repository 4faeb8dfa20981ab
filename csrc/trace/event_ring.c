/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/event_ring.h"
#include "base/assert.h"

bool busq_trace_ring_reserve(busq_trace_ring *ring, uint32_t count, uint64_t *positionp)
{
  enum { AHEAD = 4 };
  BUSQ_ASSERT(count > 0);
  uint64_t tail = busq_load_relaxed(&ring->shared->tail);
  do {
    if (!busq_trace_ring_fits(ring, tail, count))
      return false;
  } while (!__atomic_compare_exchange_n(&ring->shared->tail, &tail, tail + count, true, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED));
  /* The recorder has had these lines since; so the next ones are fetched in time. */
  busq_prefetch_write(busq_trace_ring_at(ring, tail + count + AHEAD));
  *positionp = tail;
  return true;
}

busq_trace_look busq_trace_ring_look(const busq_trace_ring *ring, uint64_t position, busq_trace_record *copy)
{
  busq_trace_record *record = busq_trace_ring_at(ring, position);
  /* SYNC POINT trace-record */
  const uint64_t word = busq_load_acquire(&record->word);
  if (BUSQ_UNLIKELY(word >> 2 != position || !(word & BUSQ_TRACE_PHASE_MASK))) {
    const uint64_t tail = busq_load_acquire(&ring->shared->tail);
    if (tail < position || tail - position > ring->size)
      return BUSQ_TRACE_LOOK_DAMAGED;
    return tail == position ? BUSQ_TRACE_LOOK_NOTHING : BUSQ_TRACE_LOOK_HOLE;
  }
  *copy = *record;
  copy->word = word;
  return (word & BUSQ_TRACE_PHASE_MASK) == BUSQ_TRACE_DONE ? BUSQ_TRACE_LOOK_DONE : BUSQ_TRACE_LOOK_BEGUN;
}
