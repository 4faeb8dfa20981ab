/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_BASE_TIME_H
#define BUSQ_BASE_TIME_H
/* Two clocks: CLOCK_MONOTONIC for deadlines, and the processor's counter where 20 ns are too much to ask.  The counter only
 * ever decides how often something is looked at, never what is true. */
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

static inline uint64_t busq_time_cycles(void)
{
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  uint64_t count;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
  return count;
#endif
}

/* About 100 us: between 70 and 200 on processors of 1 to 3 GHz; AArch64 tells its frequency. */
static inline uint64_t busq_time_cycles_per_glance(void)
{
#if defined(__x86_64__)
  return 200000;
#else
  uint64_t hertz;
  __asm__ volatile("mrs %0, cntfrq_el0" : "=r"(hertz));
  return hertz / 10000;
#endif
}

#endif /* BUSQ_BASE_TIME_H */
