/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_QUEUE_CAUSAL_BUFFER_H
#define BUSQ_QUEUE_CAUSAL_BUFFER_H
/*
 * Holding back for causal orders: each held message knows the one process that it waits for.
 *
 * Guarantee: after each delivery only the messages that waited for just that sender are looked at again.
 *
 * Mechanism: a message may be delivered when no process blocks it: when enough messages of every process have been
 * delivered here. The set of delivered messages only grows, so a message whose first blocker is process k can't become
 * deliverable before something of k is delivered; its entry's note is k + 1.  A message that nothing blocks has the
 * note 0, and stays ready.  The last place of the buffer is kept for such a message, since others may wait for it.
 *
 * Not given: which process blocks a message.  That is the order's own rule.
 */
#include "queue/holdback.h"

#define BUSQ_BLOCKER_NONE UINT32_MAX

/* Returns the process that blocks this entry now, the rule of the order; `context` is what the rule needs to know. */
typedef uint32_t busq_causal_rule(const void *context, const busq_held_entry *entry);

/* Takes a message in; false where it is blocked and there is no room for that. */
static inline bool busq_causal_hold(busq_holdback *held, busq_held_entry entry, busq_causal_rule *rule,
                                    const void *context)
{
  entry.note = rule(context, &entry) + 1;
  if (entry.note && held->count + 1 >= held->max)
    return false;
  busq_holdback_insert(held, entry);
  return true;
}

/* The place of the first entry that nothing blocks, or held->count. */
static inline uint32_t busq_causal_ready(const busq_holdback *held)
{
  uint32_t place = 0;
  while (place < held->count && busq_holdback_at(held, place)->note)
    place++;
  return place;
}

/* Something of `from` was delivered: each entry that waited for that is looked at again. */
static inline void busq_causal_wake(busq_holdback *held, uint32_t from, busq_causal_rule *rule, const void *context)
{
  for (uint32_t place = 0; place < held->count; place++) {
    busq_held_entry *entry = busq_holdback_at(held, place);
    if (entry->note == from + 1)
      entry->note = rule(context, entry) + 1;
  }
}

/* Up to which of its messages nothing here waits for a process, where keys are the sender above 33 bits and its number: the last one that
 * was delivered.  Of a dead one nothing will come any more, so only what is held of it is waited for. */
static inline uint32_t busq_causal_passed(const busq_holdback *held, uint32_t process, bool is_dead, uint32_t delivered)
{
  if (BUSQ_LIKELY(!is_dead))
    return delivered;
  const uint32_t place = busq_holdback_place(held, (uint64_t)process << 33, 0);
  const busq_held_entry *first = busq_holdback_at(held, place);
  return place < held->count && first->from == process ? (uint32_t)first->key - 1 : UINT32_MAX;
}

#endif /* BUSQ_QUEUE_CAUSAL_BUFFER_H */
