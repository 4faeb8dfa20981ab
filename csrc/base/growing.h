/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_BASE_GROWING_H
#define BUSQ_BASE_GROWING_H
/*
 * Room in an array that grows.
 *
 * Guarantee: after busq_reserve there is room for at least `wanted` items; false where memory ran out, and nothing has
 * changed then.  Appending one by one costs O(1) in the mean.
 *
 * Mechanism: the room doubles.  `itemsp` is the address of a pointer to items of any type, so its bytes are copied: it
 * may not be read as a pointer of another type.
 *
 * Not given: shrinking, or zeroed items.  busq_reserve is for counters of 32 bits: it gives no room for UINT32_MAX
 * items or more.
 */
#include "base/types.h"
#include <stdlib.h>
#include <string.h>

static inline bool busq_reserve_long(void *itemsp, uint64_t *capacity, uint64_t wanted, size_t item_bytes)
{
  uint64_t grown = *capacity ? *capacity : 8;
  void *items;
  if (BUSQ_LIKELY(wanted <= *capacity))
    return true;
  while (grown < wanted)
    grown *= 2;
  memcpy(&items, itemsp, sizeof items);
  items = realloc(items, grown * item_bytes);
  if (!items)
    return false;
  memcpy(itemsp, &items, sizeof items);
  *capacity = grown;
  return true;
}

static inline bool busq_reserve(void *itemsp, uint32_t *capacity, uint64_t wanted, size_t item_bytes)
{
  uint64_t grown = *capacity;
  if (BUSQ_LIKELY(wanted <= grown))
    return true;
  if (wanted > UINT32_C(1) << 31 || !busq_reserve_long(itemsp, &grown, wanted, item_bytes))
    return false;
  *capacity = (uint32_t)grown;
  return true;
}

#endif /* BUSQ_BASE_GROWING_H */
