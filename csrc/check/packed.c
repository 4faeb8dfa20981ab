/* SPDX-License-Identifier: Apache-2.0 */
#include "check/packed.h"
#include <endian.h>
#include <string.h>

/* The lowest byte comes first. */
static uint8_t *pack_word(uint64_t word, uint8_t *packed)
{
  const uint32_t first = (uint32_t)__builtin_ctzll(word) / 8;
  const uint32_t count = 8 - (uint32_t)__builtin_clzll(word) / 8 - first;
  word = htole64(word >> 8 * first);
  *packed = (uint8_t)(first << 4 | count);
  memcpy(packed + 1, &word, sizeof word);
  return packed + 1 + count;
}

static const uint8_t *unpack_word(const uint8_t *packed, uint64_t *word)
{
  const uint32_t first = *packed >> 4, count = *packed & 15;
  uint64_t all;
  memcpy(&all, packed + 1, sizeof all);
  *word = (le64toh(all) & UINT64_MAX >> (64 - 8 * count)) << 8 * first;
  return packed + 1 + count;
}

size_t busq_pack(const uint64_t *words, size_t n_words, uint8_t *packed)
{
  uint8_t *at = packed;
  for (size_t first = 0; first < n_words; first += 8) {
    const size_t end = first + 8 < n_words ? first + 8 : n_words;
    uint32_t which = 0;
    for (size_t place = first; place < end; place++)
      which |= (uint32_t)(words[place] != 0) << (place - first);
    *at++ = (uint8_t)which;
    for (; which; which &= which - 1)
      at = pack_word(words[first + (size_t)__builtin_ctz(which)], at);
  }
  return (size_t)(at - packed);
}

void busq_unpack(const uint8_t *packed, uint64_t *words, size_t n_words)
{
  for (size_t first = 0; first < n_words; first += 8) {
    const size_t end = first + 8 < n_words ? first + 8 : n_words;
    uint32_t which = *packed++;
    memset(words + first, 0, (end - first) * sizeof *words);
    for (; which; which &= which - 1)
      packed = unpack_word(packed, &words[first + (size_t)__builtin_ctz(which)]);
  }
}
