/* SPDX-License-Identifier: Apache-2.0 */
#include "queue/heap.h"
#include "base/assert.h"
#include <stdlib.h>

#define HEAP_CHILDREN 4

static bool heap_grow(busq_heap *heap)
{
  const size_t room = heap->room ? heap->room * 2 : 64;
  busq_heap_entry *entries = realloc(heap->entries, room * sizeof *entries);
  if (!entries)
    return false;
  heap->entries = entries;
  heap->room = room;
  return true;
}

bool busq_heap_push(busq_heap *heap, busq_heap_entry entry)
{
  if (heap->count == heap->room && !heap_grow(heap))
    return false;
  size_t hole = heap->count++;
  while (hole > 0) {
    const size_t parent = (hole - 1) / HEAP_CHILDREN;
    if (!busq_key_less(entry.key, heap->entries[parent].key))
      break;
    heap->entries[hole] = heap->entries[parent];
    hole = parent;
  }
  heap->entries[hole] = entry;
  BUSQ_ASSERT(heap->count <= heap->room);
  BUSQ_ASSERT(!busq_key_less(entry.key, heap->entries[0].key));
  return true;
}

static size_t heap_least_child(const busq_heap *heap, size_t parent)
{
  const size_t first = parent * HEAP_CHILDREN + 1;
  const size_t end = first + HEAP_CHILDREN < heap->count ? first + HEAP_CHILDREN : heap->count;
  size_t least = first;
  for (size_t child = first + 1; child < end; child++)
    if (busq_key_less(heap->entries[child].key, heap->entries[least].key))
      least = child;
  return least;
}

void busq_heap_pop(busq_heap *heap)
{
  BUSQ_ASSERT(heap->count > 0);
  const busq_heap_entry last = heap->entries[--heap->count];
  size_t hole = 0;
  while (hole * HEAP_CHILDREN + 1 < heap->count) {
    const size_t child = heap_least_child(heap, hole);
    if (!busq_key_less(heap->entries[child].key, last.key))
      break;
    heap->entries[hole] = heap->entries[child];
    hole = child;
  }
  heap->entries[hole] = last;
}

void busq_heap_deinit(busq_heap *heap)
{
  free(heap->entries);
  *heap = (busq_heap){0};
}

bool busq_heap_verify(const busq_heap *heap)
{
  for (size_t child = 1; child < heap->count; child++)
    if (busq_key_less(heap->entries[child].key, heap->entries[(child - 1) / HEAP_CHILDREN].key))
      return false;
  return heap->count <= heap->room;
}
