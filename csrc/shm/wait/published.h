/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_WAIT_PUBLISHED_H
#define BUSQ_SHM_WAIT_PUBLISHED_H
/*
 * What a peer waits for, as its slot shows it to `busq doctor` and to others that ask.
 *
 * Written only around sleeps.  A wait that was interrupted, by a signal or by the end of a slice, is the same wait when
 * the caller goes on with it at once.  Where several threads wait, the last one to leave takes the reason back.
 */
#include "base/time.h"
#include "shm/memory/peer.h"

static inline void busq_published_begin(busq_waits *waits, uint64_t *left_ns, uint32_t what, uint32_t for_slot)
{
  enum { AT_ONCE_NS = 200000000 };
  const bool is_same = busq_load_relaxed(&waits->what) == what && busq_load_relaxed(&waits->for_slot) == for_slot;
  if (!is_same) {
    const uint64_t now_ns = busq_time_host_ns();
    const bool was_left = busq_load_relaxed(&waits->what) == BUSQ_WAITING_NOT &&
                          busq_load_relaxed(&waits->for_slot) == for_slot &&
                          now_ns - busq_load_relaxed(left_ns) < AT_ONCE_NS;
    if (!was_left)
      busq_store_relaxed(&waits->since_ns, now_ns);
  }
  busq_store_relaxed(&waits->for_slot, for_slot);
  busq_store_release(&waits->what, what);
}

static inline void busq_published_end(const busq_peer *peer, busq_waits *waits, uint64_t *left_ns, int result)
{
  if (busq_load_relaxed(&waits->what) == BUSQ_WAITING_NOT || busq_load_relaxed(&peer->is_closed))
    return;
  busq_store_relaxed(left_ns, result == BUSQ_INTERRUPTED ? busq_time_host_ns() : 0);
  busq_store_release(&waits->what, BUSQ_WAITING_NOT);
}

#endif /* BUSQ_SHM_WAIT_PUBLISHED_H */
