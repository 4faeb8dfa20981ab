/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_CHECK_PACKED_H
#define BUSQ_CHECK_PACKED_H
/*
 * States in few bytes: most bytes of a state are zero.
 *
 * Guarantee: what is unpacked is what was packed.
 *
 * Mechanism: by words of 8 bytes; one bit is set where a word is zero, and of each that is not, a byte holds where its
 * first byte that is not zero stands and how many there are up to the last one, and these follow.
 *
 * Not given: exact ends.  Packing writes, and unpacking reads, up to BUSQ_PACK_BEYOND bytes beyond.
 */
#include "base/types.h"

enum { BUSQ_PACK_BEYOND = 8 };

/* Packed, at most, with what is written beyond. */
static inline size_t busq_pack_bytes_max(size_t n_words)
{
  return 10 * n_words + BUSQ_PACK_BEYOND;
}

/* How many bytes it has become. */
size_t busq_pack(const uint64_t *words, size_t n_words, uint8_t *packed);
void busq_unpack(const uint8_t *packed, uint64_t *words, size_t n_words);

#endif /* BUSQ_CHECK_PACKED_H */
