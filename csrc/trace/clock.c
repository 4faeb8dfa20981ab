/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/clock.h"
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)

static bool kernel_counts_ticks(void)
{
  char text[16] = {0};
  const int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return false;
  const ssize_t count = read(fd, text, sizeof text - 1);
  close(fd);
  return count == 4 && memcmp(text, "tsc\n", 4) == 0;
}

/* Both clocks at the same time: the pair that took the shortest time to read. */
static busq_trace_scale both_now(void)
{
  enum { TRIES = 20 };
  busq_trace_scale best = {0};
  uint64_t shortest = UINT64_MAX;
  for (int i = 0; i < TRIES; i++) {
    const uint64_t before = busq_trace_now(BUSQ_TRACE_TICKS);
    const uint64_t ns = busq_time_host_ns();
    const uint64_t after = busq_trace_now(BUSQ_TRACE_TICKS);
    if (after - before >= shortest)
      continue;
    shortest = after - before;
    best = (busq_trace_scale){.ticks = before + (after - before) / 2, .ns = ns};
  }
  return best;
}

busq_trace_scale busq_trace_scale_measure(void)
{
  const struct timespec pause = {0, 10000000};
  if (!kernel_counts_ticks())
    return (busq_trace_scale){0};
  busq_trace_scale first = both_now();
  nanosleep(&pause, NULL);
  const busq_trace_scale second = both_now();
  if (second.ticks <= first.ticks || second.ns <= first.ns)
    return (busq_trace_scale){0};
  first.factor = (uint64_t)(((unsigned __int128)(second.ns - first.ns) << 32) / (second.ticks - first.ticks));
  return first;
}

#else

busq_trace_scale busq_trace_scale_measure(void)
{
  return (busq_trace_scale){0};
}

#endif
