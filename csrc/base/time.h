/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_BASE_TIME_H
#define BUSQ_BASE_TIME_H
/*
 * Four clocks:
 *
 *      now     CLOCK_MONOTONIC, for deadlines and spans of this process
 *      host    the same for all processes of the machine, for what one process writes and another reads
 *      wall    CLOCK_REALTIME, for people; it may be set back
 *      tick    the tick of the kernel (a few milliseconds) where 20 ns are too much to ask; it only ever decides how
 *              often something is looked at, never what is true
 *
 * A time namespace shifts CLOCK_MONOTONIC, its raw and its coarse form and CLOCK_BOOTTIME, each process's by the offset
 * of its own namespace: two containers that share a bus may be days apart.  The kernel shows a process by how much
 * (/proc/self/timens_offsets), and without that it is CLOCK_MONOTONIC outside of all namespaces.
 *
 * Not given: the host's clock where /proc is not mounted; there it is CLOCK_MONOTONIC.
 */
#include "base/types.h"
#include <time.h>

static inline uint64_t busq_time_now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The offset of this process's namespace to CLOCK_MONOTONIC; asked for once in each process. */
uint64_t busq_time_offset_ns(void);

static inline uint64_t busq_time_host_ns(void)
{
  return busq_time_now_ns() - busq_time_offset_ns();
}

static inline uint64_t busq_time_wall_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#ifdef BUSQ_STEPS
/* Where a test decides which process takes the next step, the same choices lead to the same state. */
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
