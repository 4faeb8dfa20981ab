/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SIM_LATENCY_HISTOGRAM_H
#define BUSQ_SIM_LATENCY_HISTOGRAM_H
/*
 * How long things took: mean, largest, and what part of them took no longer than how much.
 *
 * Guarantee: sum and largest are exact; a quantile is exact below 2048 ns and otherwise no more than 1/2048 off.  Memory does
 * not grow with their number.
 *
 * Mechanism: counters, 2048 below 2048 ns and then 1024 for each power of two.
 */
#include "base/types.h"

enum { BUSQ_SIM_LATENCY_BITS = 11, BUSQ_SIM_LATENCY_COUNTERS = (1 << 10) * (64 - 10 + 1) };

typedef struct {
  uint64_t n;
  unsigned __int128 sum_ns; /* a million deliveries that took hours do not fit into 64 bits */
  uint64_t max_ns;
  uint64_t counters[BUSQ_SIM_LATENCY_COUNTERS];
} busq_sim_latencies;

static inline uint32_t busq_sim_latency_counter(uint64_t latency_ns)
{
  const uint64_t small = UINT64_C(1) << BUSQ_SIM_LATENCY_BITS;
  const uint32_t shift = latency_ns < small ? 0 : 63 - (uint32_t)__builtin_clzll(latency_ns) - (BUSQ_SIM_LATENCY_BITS - 1);
  return (shift << (BUSQ_SIM_LATENCY_BITS - 1)) + (uint32_t)(latency_ns >> shift);
}

/* The middle of what this counter counts. */
static inline uint64_t busq_sim_latency_counted(uint32_t counter)
{
  const uint32_t half = UINT32_C(1) << (BUSQ_SIM_LATENCY_BITS - 1);
  const uint32_t shift = counter < 2 * half ? 0 : counter / half - 1;
  const uint64_t lowest_ns = (uint64_t)(counter - shift * half) << shift;
  return lowest_ns + ((UINT64_C(1) << shift) - 1) / 2;
}

static inline void busq_sim_latencies_add(busq_sim_latencies *latencies, uint64_t latency_ns)
{
  latencies->n++;
  latencies->sum_ns += latency_ns;
  if (latency_ns > latencies->max_ns)
    latencies->max_ns = latency_ns;
  latencies->counters[busq_sim_latency_counter(latency_ns)]++;
}

static inline double busq_sim_mean(unsigned __int128 sum, uint64_t n)
{
  return n ? (double)sum / (double)n : 0;
}

/* The value that `percent` of all did not exceed; 0 where there are none. */
static inline uint64_t busq_sim_latencies_quantile(const busq_sim_latencies *latencies, uint32_t percent)
{
  const uint64_t wanted = (latencies->n * percent + 99) / 100;
  uint64_t seen = 0;
  for (uint32_t counter = 0; wanted && counter < BUSQ_SIM_LATENCY_COUNTERS; counter++) {
    seen += latencies->counters[counter];
    if (seen >= wanted) {
      const uint64_t found_ns = busq_sim_latency_counted(counter);
      return found_ns < latencies->max_ns ? found_ns : latencies->max_ns;
    }
  }
  return 0;
}

#endif /* BUSQ_SIM_LATENCY_HISTOGRAM_H */
