/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_TRACE_CLOCK_H
#define BUSQ_TRACE_CLOCK_H
/*
 * The clock of events.
 *
 * Guarantee: all peers of a recording read one clock, and its value rises with time on all processors together.
 *
 * Mechanism: where the kernel itself keeps time by the processor's counter, peers read that, which takes half of the
 * time of asking for the host's clock; the recorder, which has compared both when it began, turns ticks into
 * nanoseconds by one fixed line, so that no order is changed.  Elsewhere it is the host's clock (time.h).  Neither
 * minds time namespaces.
 *
 * Not given: that such a time stays next to the host's clock.  The two part by some millionths of the time of
 * recording.
 */
#include "base/time.h"
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

enum { BUSQ_TRACE_TICKS = 1 }; /* of the number of a recording: times are ticks */

static inline uint64_t busq_trace_now(uint32_t recording)
{
#if defined(__x86_64__)
  if (recording & BUSQ_TRACE_TICKS) {
    _mm_lfence(); /* not before what comes before */
    return __rdtsc();
  }
#else
  (void)recording;
#endif
  return busq_time_host_ns();
}

typedef struct {
  uint64_t ticks;
  uint64_t ns;
  uint64_t factor; /* nanoseconds per tick, times 2^32; 0: times are nanoseconds */
} busq_trace_scale;

/* Some milliseconds. */
busq_trace_scale busq_trace_scale_measure(void);

static inline uint64_t busq_trace_ns(const busq_trace_scale *scale, uint64_t time)
{
  if (!scale->factor)
    return time;
  const __int128 since = (__int128)time - (__int128)scale->ticks;
  return scale->ns + (uint64_t)((since * (__int128)scale->factor) >> 32);
}

#endif /* BUSQ_TRACE_CLOCK_H */
