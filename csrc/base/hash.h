/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_BASE_HASH_H
#define BUSQ_BASE_HASH_H
/*
 * Mixing 64 bits, hashing bytes, and an index that numbers 64-bit names in the order in which they come.
 *
 * Guarantee: the first name is 0, the next new one 1, and so on without gaps; the same name always gets the same
 * number.  Interning costs O(1) on average, 8 bytes for the name and 8 to 16 bytes of table per name.
 *
 * Mechanism: open addressing with linear probing, at most half full.  A slot holds only a number (plus one, 0 is
 * empty); the name itself stands in a dense array that the numbers index.  Only the upper 61 bits of a name are mixed:
 * names that count up, as sequence numbers do, come to lie side by side, eight to half a cache line, and a walk through
 * a log in the order of sending stays in the cache.
 *
 * Not given: removal, more than 2^30 names, or protection against names chosen on purpose to collide.
 */
#include "base/types.h"
#include <stdlib.h>
#include <string.h>

#define BUSQ_INDEX_NONE UINT32_MAX
#define BUSQ_INDEX_NAMES_MAX (UINT32_C(1) << 30)

/* A bijection in which every input bit reaches the whole output word. */
static inline uint64_t busq_hash_mix(uint64_t x)
{
  x ^= x >> 32;
  x *= UINT64_C(0x9e3779b97f4a7c15);
  x ^= x >> 29;
  x *= UINT64_C(0xb7e151628aed2a6b);
  return x ^ (x >> 32);
}

/* Both halves of the product: every bit of it depends on all bits of both. */
static inline uint64_t busq_hash_fold(uint64_t a, uint64_t b)
{
  const unsigned __int128 product = (unsigned __int128)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* FNV-1a: for noticing differences, not for hiding from an adversary. */
static inline uint64_t busq_hash_bytes(const void *bytes, size_t count)
{
  const unsigned char *byte = bytes;
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < count; i++)
    hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
  return hash;
}

typedef struct {
  uint64_t *names;
  uint32_t *slots;
  uint64_t slot_count; /* Invariant: 0 or a power of two, at least twice n_names. */
  uint32_t n_names;
  uint32_t capacity; /* of names */
} busq_index;

static inline uint64_t busq_index_home(const busq_index *index, uint64_t name)
{
  return (busq_hash_mix(name >> 3) << 3 | (name & 7)) & (index->slot_count - 1);
}

/* Announces that the name will be interned soon: its slot is on the way into the cache meanwhile. */
static inline void busq_index_announce(const busq_index *index, uint64_t name)
{
  if (index->slot_count)
    __builtin_prefetch(&index->slots[busq_index_home(index, name)]);
}

/* Where the name stands, or the empty slot where it would. */
static inline uint64_t busq_index_probe(const busq_index *index, uint64_t name)
{
  uint64_t slot = busq_index_home(index, name);
  while (index->slots[slot] && index->names[index->slots[slot] - 1] != name)
    slot = (slot + 1) & (index->slot_count - 1);
  return slot;
}

static inline bool busq_index_grow(busq_index *index)
{
  const uint64_t capacity = index->capacity ? (uint64_t)index->capacity * 2 : 64;
  uint64_t *names = realloc(index->names, capacity * sizeof *names);
  if (!names)
    return false;
  index->names = names;
  uint32_t *slots = calloc(capacity * 2, sizeof *slots);
  if (!slots)
    return false;
  free(index->slots);
  index->slots = slots;
  index->slot_count = capacity * 2;
  index->capacity = (uint32_t)capacity;
  for (uint32_t number = 0; number < index->n_names; number++)
    slots[busq_index_probe(index, names[number])] = number + 1;
  return true;
}

/* The number of the name; BUSQ_INDEX_NONE where memory or numbers ran out, and nothing has changed then. */
static inline uint32_t busq_index_intern(busq_index *index, uint64_t name)
{
  if (index->n_names == index->capacity && (index->n_names == BUSQ_INDEX_NAMES_MAX || !busq_index_grow(index)))
    return BUSQ_INDEX_NONE;
  const uint64_t slot = busq_index_probe(index, name);
  if (index->slots[slot])
    return index->slots[slot] - 1;
  index->names[index->n_names] = name;
  index->slots[slot] = ++index->n_names;
  return index->n_names - 1;
}

static inline void busq_index_deinit(busq_index *index)
{
  free(index->names);
  free(index->slots);
  *index = (busq_index){0};
}

#endif /* BUSQ_BASE_HASH_H */
