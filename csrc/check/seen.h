/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_CHECK_SEEN_H
#define BUSQ_CHECK_SEEN_H
/*
 * The set of fingerprints that were seen, shared by threads.
 *
 * Guarantee: of all who add the same fingerprint, one is told that it is new.
 *
 * Mechanism: open addressing in words that only ever change from 0 to a fingerprint, by compare-and-swap.  Nothing else is kept, so
 * no access orders another: a state is handed over inside of one thread, or under a lock.  The memory comes from the system as
 * it is touched, in large pages where it has them, for every addition is a miss of the cache.
 *
 * Not given: removing, growing, or an addition that ends when every slot is taken (busq_seen_is_full says so in time).
 */
#include "base/types.h"
#include <stdatomic.h>
#include <stddef.h>

typedef struct {
  _Atomic uint64_t *slots;
  uint64_t mask; /* slots - 1 */
} busq_seen;

/* As many slots as fit into so many bytes, a power of two; false where there is no such memory. */
bool busq_seen_init(busq_seen *seen, uint64_t memory_bytes);
void busq_seen_deinit(busq_seen *seen);

/* Says that the fingerprint will be added soon. */
static inline void busq_seen_announce(const busq_seen *seen, uint64_t fingerprint)
{
  __builtin_prefetch((const void *)&seen->slots[fingerprint & seen->mask], 1);
}

/* Whether it is new; from now on it is not.  A fingerprint is not 0. */
static inline bool busq_seen_add(busq_seen *seen, uint64_t fingerprint)
{
  for (uint64_t slot = fingerprint & seen->mask;; slot = (slot + 1) & seen->mask) {
    uint64_t found = atomic_load_explicit(&seen->slots[slot], memory_order_relaxed);
    if (!found && atomic_compare_exchange_strong_explicit(&seen->slots[slot], &found, fingerprint, memory_order_relaxed,
                                                          memory_order_relaxed))
      return true;
    if (found == fingerprint)
      return false;
  }
}

/* Whether so many are as many as it should hold. */
static inline bool busq_seen_is_full(const busq_seen *seen, uint64_t count)
{
  return count > seen->mask / 10 * 9;
}

#endif /* BUSQ_CHECK_SEEN_H */
