/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_CHECK_SEEN_H
#define BUSQ_CHECK_SEEN_H
/*
 * The set of fingerprints that were seen, shared by threads.
 *
 * Guarantee: of all threads that add the same fingerprint, one learns that it is new.  An addition that was drawn
 * beforehand always finds a free slot, soon: the set is never fuller than LOAD_MAX.
 *
 * Mechanism: open addressing in words that only ever change from 0 to a fingerprint, by compare-and-swap.  Nothing else
 * is kept, so no access orders another: a state is handed over inside of one thread, or under a lock.  A slot's place
 * is the upper part of fingerprint times slots, so any number of slots will do, and they stand in the order of their
 * fingerprints: when the set grows, old and new table are both walked through from the beginning, and what was walked
 * through in the old one goes back to the system.  The set begins small, so a small search stays in the cache; large
 * tables lie in large pages where the system has them, for every addition is a miss of the cache.
 *
 * Not given: removing, but of all at once.  While it grows, no other thread may touch it.
 */
#include "base/types.h"
#include "check/account.h"
#include <stddef.h>

typedef struct {
  _Atomic uint64_t *slots;
  uint64_t n_slots;
  uint64_t bytes_max; /* it grows no further */
  bool is_final;
  bool is_emptied; /* where it is full: it keeps what room it has, so that few slots are walked through */
  busq_account *account;
  void *mapping; /* in which the slots lie */
  size_t mapping_bytes;
  atomic_llong room; /* additions that no thread has drawn so far */
} busq_seen;

/* Beginning small; false where there is no memory even for that. */
bool busq_seen_init(busq_seen *seen, busq_account *account, uint64_t bytes_max);
void busq_seen_deinit(busq_seen *seen);
/* Makes room for more additions; false where the set may not grow, or `must_stop` was set meanwhile.  No thread may
 * use the set meanwhile. */
bool busq_seen_grow(busq_seen *seen, const atomic_bool *must_stop);
/* Takes everything out.  No thread may use the set meanwhile. */
void busq_seen_clear(busq_seen *seen);
/* The right to make up to so many additions: how many it is. */
uint64_t busq_seen_draw(busq_seen *seen, uint64_t count);

static inline bool busq_seen_has_room(busq_seen *seen, uint64_t count)
{
  return atomic_load_explicit(&seen->room, memory_order_relaxed) >= (long long)count;
}

static inline uint64_t busq_seen_home(const busq_seen *seen, uint64_t fingerprint)
{
  return (uint64_t)((unsigned __int128)fingerprint * seen->n_slots >> 64);
}

/* Announces that the fingerprint will be asked for, or added, soon. */
static inline void busq_seen_announce(const busq_seen *seen, uint64_t fingerprint)
{
  __builtin_prefetch((const void *)&seen->slots[busq_seen_home(seen, fingerprint)], 1);
}

/* Whether it is new; from now on it is not.  A fingerprint is not 0. */
static inline bool busq_seen_add(busq_seen *seen, uint64_t fingerprint)
{
  for (uint64_t slot = busq_seen_home(seen, fingerprint);; slot = slot + 1 < seen->n_slots ? slot + 1 : 0) {
    uint64_t found = atomic_load_explicit(&seen->slots[slot], memory_order_relaxed);
    if (!found && atomic_compare_exchange_strong_explicit(&seen->slots[slot], &found, fingerprint, memory_order_relaxed,
                                                          memory_order_relaxed))
      return true;
    if (found == fingerprint)
      return false;
  }
}

/* The slot that has it, or the first free one behind its home. */
static inline uint64_t busq_seen_find(const busq_seen *seen, uint64_t fingerprint, bool *is_there)
{
  for (uint64_t slot = busq_seen_home(seen, fingerprint);; slot = slot + 1 < seen->n_slots ? slot + 1 : 0) {
    const uint64_t found = atomic_load_explicit(&seen->slots[slot], memory_order_relaxed);
    *is_there = found;
    if (!found || found == fingerprint)
      return slot;
  }
}

static inline bool busq_seen_contains(const busq_seen *seen, uint64_t fingerprint)
{
  bool is_there;
  (void)busq_seen_find(seen, fingerprint, &is_there);
  return is_there;
}

#endif /* BUSQ_CHECK_SEEN_H */
