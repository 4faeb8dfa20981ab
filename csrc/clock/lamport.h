/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_CLOCK_LAMPORT_H
#define BUSQ_CLOCK_LAMPORT_H
/*
 * Lamport timestamps and the key that orders messages.
 *
 * Guarantee: keys are totally ordered, and two messages never have the same key.  Timestamps alone may tie; then sender
 * and sequence number decide, the same way everywhere (never an address, which differs from process to process).
 *
 * A clock that is ahead of the host's (time.h) was not brought there by counting: a tick takes more than a nanosecond,
 * and no bus is older than the machine has been up.  Such a clock is damage; a process that believed it would take all
 * clocks that it meets along, up to where they end.  Below BUSQ_TIMESTAMP_SURE (104 days of a tick per nanosecond) no
 * process needs to ask what time it is; the same span is the allowance for a process that can't find out what its time
 * namespace has set its clock back by.
 */
#include "base/time.h"
#include "base/types.h"

#define BUSQ_TIMESTAMP_SURE (UINT64_C(1) << 53)
/* Beyond the reach of any machine: 146 years. */
#define BUSQ_TIMESTAMP_MAX (UINT64_C(1) << 62)

static inline bool busq_timestamp_is_sound(uint64_t timestamp)
{
  return BUSQ_LIKELY(timestamp < BUSQ_TIMESTAMP_SURE) || timestamp - BUSQ_TIMESTAMP_SURE < busq_time_host_ns();
}

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
