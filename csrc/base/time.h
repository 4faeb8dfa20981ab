/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_BASE_TIME_H
#define BUSQ_BASE_TIME_H
/* Three clocks: CLOCK_MONOTONIC for deadlines, CLOCK_REALTIME for people, and the tick of the kernel (a few milliseconds) where
 * 20 ns are too much to ask; the tick only ever decides how often something is looked at, never what is true. */
#include "base/types.h"
#include <time.h>

static inline uint64_t busq_time_now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t busq_time_wall_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#ifdef BUSQ_STEPS
/* Where a test decides who takes the next step, the same choices lead to the same state. */
static inline uint64_t busq_time_tick_ns(void)
{
  return 0;
}
#else
static inline uint64_t busq_time_tick_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
#endif

#endif /* BUSQ_BASE_TIME_H */
