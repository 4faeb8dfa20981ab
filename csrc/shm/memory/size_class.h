/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_MEMORY_SIZE_CLASS_H
#define BUSQ_SHM_MEMORY_SIZE_CLASS_H
/*
 * The classes of size of the arena's records, and the units of a record of each: 1 to 8, then four steps per doubling.
 */
#include "shm/memory/layout.h"

#define BUSQ_SIZE_CLASSES 40u

/* The class of the smallest records that hold so many units. */
static inline uint32_t busq_size_class_of_units(uint64_t units)
{
  if (BUSQ_LIKELY(units <= 8))
    return (uint32_t)units - 1;
  const uint32_t shift = 61u - (uint32_t)__builtin_clzll(units - 1);
  return shift * 4 + (uint32_t)((units - 1) >> shift);
}

static inline uint32_t busq_size_class_of_bytes(uint64_t bytes)
{
  return busq_size_class_of_units((bytes + BUSQ_LAYOUT_UNIT_BYTES - 1) / BUSQ_LAYOUT_UNIT_BYTES);
}

/* The other way round: as many as such a record has. */
static inline uint64_t busq_size_class_units(uint32_t class)
{
  if (class < 8)
    return class + 1;
  return (uint64_t)(class % 4 + 5) << (class / 4 - 1);
}

#endif /* BUSQ_SHM_MEMORY_SIZE_CLASS_H */
