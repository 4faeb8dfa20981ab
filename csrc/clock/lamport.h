/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_CLOCK_LAMPORT_H
#define BUSQ_CLOCK_LAMPORT_H
/*
 * Lamport timestamps and the key that orders messages.
 *
 * Guarantee: keys are totally ordered, and two messages never have the same key.  Timestamps alone may tie; then sender
 * and sequence number decide, the same way everywhere (never an address, which differs from process to process).
 *
 * A clock that has passed BUSQ_TIMESTAMP_MAX was not brought there by counting: at 10^9 ticks a second that takes
 * 146 years.  It is damage, and is reported as such.
 */
#include "base/types.h"

#define BUSQ_TIMESTAMP_MAX (UINT64_C(1) << 62)

typedef struct {
  uint64_t timestamp;
  uint64_t sequence;
  uint32_t sender;
} busq_key;

static inline bool busq_key_less(busq_key a, busq_key b)
{
  if (a.timestamp != b.timestamp)
    return a.timestamp < b.timestamp;
  if (a.sender != b.sender)
    return a.sender < b.sender;
  return a.sequence < b.sequence;
}

static inline uint64_t busq_timestamp_max(uint64_t a, uint64_t b)
{
  return a > b ? a : b;
}

#endif /* BUSQ_CLOCK_LAMPORT_H */
