/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_WAKE_SLICE_H
#define BUSQ_SHM_WAKE_SLICE_H
/*
 * How long a sleep lasts before it looks again.
 *
 * What a sleeper looks for is what no process reports: a waker that was killed or stopped between what it did and the
 * wake-up, the end of a process that this one depends on, a handler of a signal that ran just before it fell asleep.  A
 * slice grows with the wait, so each of these is late by a quarter of what was waited already, and by BUSQ_LOOK_NS at
 * most; and a process that waits for a minute looks some 80 times, not 1,200 times.
 */
#include "base/types.h"

#define BUSQ_SLICE_NS UINT64_C(50000000)
#define BUSQ_LOOK_NS UINT64_C(1000000000)

/* How long a sleep may last after so long a wait. */
static inline uint64_t busq_slice_after_ns(uint64_t waited_ns)
{
  const uint64_t slice_ns = waited_ns / 4;
  return slice_ns < BUSQ_SLICE_NS ? BUSQ_SLICE_NS : slice_ns < BUSQ_LOOK_NS ? slice_ns : BUSQ_LOOK_NS;
}

/* Slices that a peer waits behind its descriptor before it sleeps deeply, and the longest of those sleeps (wake.h). */
#define BUSQ_NAPS 20u
#define BUSQ_NET_NS UINT64_C(10000000000)

#endif /* BUSQ_SHM_WAKE_SLICE_H */
