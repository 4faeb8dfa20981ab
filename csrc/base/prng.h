/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_BASE_PRNG_H
#define BUSQ_BASE_PRNG_H
/*
 * Random numbers that are the same everywhere.
 *
 * Guarantee: what is drawn depends on the seed and on the names of the stream alone: not on the platform, the compiler,
 * or what others draw from their own streams.  A stream has period 2^64 and 8 bytes of state.
 *
 * Mechanism: a counter with an odd step, mixed (the splitmix64 construction); a stream begins where the mixed names put
 * it.  Numbers below a bound are drawn by multiplying, and drawn again where that would favour some; what is normal is
 * a sum of twelve uniform numbers, which needs no mathematical library and never strays further than six deviations.
 *
 * Not given: secrecy.
 */
#include "base/hash.h"

typedef struct {
  uint64_t state;
} busq_prng;

/* The stream of a seed for one purpose, of one owner, at one place. */
static inline busq_prng busq_prng_of(uint64_t seed, uint32_t purpose, uint32_t owner, uint32_t place)
{
  const uint64_t named = busq_hash_mix(seed ^ (uint64_t)purpose << 56) + ((uint64_t)owner << 32 | place);
  return (busq_prng){busq_hash_mix(named + UINT64_C(0x632be59bd9b4e019))};
}

static inline uint64_t busq_prng_next(busq_prng *prng)
{
  prng->state += UINT64_C(0x9e3779b97f4a7c15);
  return busq_hash_mix(prng->state ^ UINT64_C(0xd1b54a32d192ed03));
}

/* 0 to bound - 1, each as likely as the others; bound is not 0. */
static inline uint32_t busq_prng_below(busq_prng *prng, uint32_t bound)
{
  for (;;) {
    const uint64_t product = (busq_prng_next(prng) >> 32) * bound;
    if ((uint32_t)product >= -bound % bound)
      return (uint32_t)(product >> 32);
  }
}

/* 0 up to, but not including, 1. */
static inline double busq_prng_uniform(busq_prng *prng)
{
  return (double)(busq_prng_next(prng) >> 11) * 0x1p-53;
}

/* Mean 0, deviation 1. */
static inline double busq_prng_normal(busq_prng *prng)
{
  double sum = -6;
  for (int term = 0; term < 12; term++)
    sum += busq_prng_uniform(prng);
  return sum;
}

#endif /* BUSQ_BASE_PRNG_H */
