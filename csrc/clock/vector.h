/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_CLOCK_VECTOR_H
#define BUSQ_CLOCK_VECTOR_H
/*
 * Vector clocks: one stamp per process.
 *
 * Guarantee: where every process stamps its sends 1 <= s1 < s2 < ..., a message carries the clock of its sender with
 * the sender's own component set to the stamp, and a delivery joins the message's clock into the receiver's, a clock
 * covers (process, stamp) exactly when the send with that stamp lies in its causal past.
 *
 * Not given: an order between stamps of different processes, or any memory; a clock is an array that the caller owns.
 */
#include "base/types.h"
#include <string.h>

static inline void busq_vector_copy(uint32_t *restrict clock, const uint32_t *restrict other, size_t n_processes)
{
  memcpy(clock, other, n_processes * sizeof *clock);
}

/* Componentwise maximum. */
static inline void busq_vector_join(uint32_t *restrict clock, const uint32_t *restrict other, size_t n_processes)
{
  for (size_t process = 0; process < n_processes; process++)
    clock[process] = clock[process] > other[process] ? clock[process] : other[process];
}

static inline bool busq_vector_covers(const uint32_t *clock, uint32_t process, uint32_t stamp)
{
  return clock[process] >= stamp;
}

#endif /* BUSQ_CLOCK_VECTOR_H */
