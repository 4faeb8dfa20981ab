/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_BASE_LATCH_H
#define BUSQ_BASE_LATCH_H
/*
 * A latch orders the threads of one process among themselves, in private memory.
 *
 * Guarantee: who waits for it soon stops using its core, so that a holder of lower priority comes to its end there, real-time
 * priorities included.
 *
 * Not given: turns, or a process that is killed while it holds one: all that it orders ends with it.
 */
#include "base/assert.h"
#include "base/atomic.h"
#include "base/types.h"

typedef struct {
  uint32_t held;
} busq_latch;

void busq_latch_wait(busq_latch *latch);

static inline void busq_latch_acquire(busq_latch *latch)
{
  /* SYNC POINT latch: what the holder before us wrote comes before what we read. */
  if (BUSQ_UNLIKELY(__atomic_exchange_n(&latch->held, 1, __ATOMIC_ACQUIRE)))
    busq_latch_wait(latch);
}

static inline void busq_latch_release(busq_latch *latch)
{
  BUSQ_ASSERT(__atomic_load_n(&latch->held, __ATOMIC_RELAXED)); /* by us */
  /* SYNC POINT latch */
  __atomic_store_n(&latch->held, 0, __ATOMIC_RELEASE);
}

#endif /* BUSQ_BASE_LATCH_H */
