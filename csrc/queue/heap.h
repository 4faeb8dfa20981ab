/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_QUEUE_HEAP_H
#define BUSQ_QUEUE_HEAP_H
/*
 * The reader's private heap of late messages: those whose final key is higher than where their reference stands.
 *
 * Guarantee: the entry with the smallest key in O(1), push and pop in O(log n), n being the late messages that wait,
 * not the length of the queue.  It is derived state: a process that takes a queue over builds it again from the ring.
 *
 * Four children per node: half the depth of a binary heap, and the four keys that are compared lie side by side.
 */
#include "base/types.h"
#include "clock/lamport.h"

typedef struct {
  busq_key key;
  uint64_t position;
  uint32_t record;
  uint16_t mark;
  bool is_redelivered;
  bool was_given_back;
} busq_heap_entry;

typedef struct {
  busq_heap_entry *entries;
  size_t count;
  size_t room;
} busq_heap;

/* False where memory ran out; nothing has changed then. */
bool busq_heap_push(busq_heap *heap, busq_heap_entry entry);
void busq_heap_pop(busq_heap *heap);
void busq_heap_deinit(busq_heap *heap);
bool busq_heap_verify(const busq_heap *heap);

static inline const busq_heap_entry *busq_heap_least(const busq_heap *heap)
{
  return heap->count ? &heap->entries[0] : NULL;
}

#endif /* BUSQ_QUEUE_HEAP_H */
