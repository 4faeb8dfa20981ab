/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_BENCH_MACHINE_H
#define BUSQ_BENCH_MACHINE_H
/* What both programs need of the machine: a clock, and a core of one's own. */
#include <sched.h>
#include <stdint.h>
#include <time.h>

#define LINE_PAIR_BYTES 128 /* neighbouring lines are fetched in pairs */

static inline uint64_t machine_now_ns(void)
{
  struct timespec t;

  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Puts the caller on the n-th core it may use, counted in a circle; negative where the system refuses. */
static inline int machine_pin(unsigned n)
{
  cpu_set_t allowed, one;
  unsigned wanted;

  if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0)
    return -1;
  wanted = n % (unsigned)CPU_COUNT(&allowed);
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || wanted-- > 0)
      continue;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return sched_setaffinity(0, sizeof(one), &one);
  }
  return -1;
}

#endif /* BUSQ_BENCH_MACHINE_H */
