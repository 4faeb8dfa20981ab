/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_BASE_TYPES_H
#define BUSQ_BASE_TYPES_H
/* Words that all rooms use. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BUSQ_LIKELY(x) __builtin_expect(!!(x), 1)
#define BUSQ_UNLIKELY(x) __builtin_expect(!!(x), 0)
/* For what is compiled anew where an argument is known, and for what must not take registers from the code around
 * it. */
#define BUSQ_ALWAYS_INLINE __attribute__((always_inline)) static inline
#define BUSQ_COLD __attribute__((noinline, cold))
/* The mask is as wide as the value, so that a small alignment does not cut a large offset. */
#define BUSQ_ALIGN_UP(x, a) (((uint64_t)(x) + ((uint64_t)(a) - 1)) & ~((uint64_t)(a) - 1))

/* Two cores that write neighbouring lines disturb each other: Intel's prefetcher fetches lines in pairs. */
#define BUSQ_LINE_PAIR_BYTES 128

/* Compares two uint32_t, for qsort and bsearch. */
static inline int busq_compare_words(const void *a, const void *b)
{
  const uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
  return (left > right) - (left < right);
}

#endif /* BUSQ_BASE_TYPES_H */
