/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_CHECK_ACCOUNT_H
#define BUSQ_CHECK_ACCOUNT_H
/*
 * How much memory a search uses.
 *
 * Guarantee: what was taken and not given back is never more than the limit, so the system never runs short of memory
 * because of a search: a thread that is refused ends the search, and keeps what it knows.
 *
 * Not given: the memory itself, but by the last three functions here, which ask the system as well.  A caller of the
 * others asks for it, and gives back to the account what it does not get.
 */
#include "base/types.h"
#include <stdatomic.h>
#include <stdlib.h>

typedef struct {
  uint64_t limit_bytes;
  atomic_ullong used_bytes;
  atomic_ullong most_bytes; /* so far */
} busq_account;

static inline bool busq_account_take(busq_account *account, uint64_t bytes)
{
  unsigned long long used = atomic_load_explicit(&account->used_bytes, memory_order_relaxed);
  do
    if (bytes > account->limit_bytes - used)
      return false;
  while (!atomic_compare_exchange_weak_explicit(&account->used_bytes, &used, used + bytes, memory_order_relaxed,
                                                memory_order_relaxed));
  unsigned long long most = atomic_load_explicit(&account->most_bytes, memory_order_relaxed);
  while (most < used + bytes && !atomic_compare_exchange_weak_explicit(&account->most_bytes, &most, used + bytes,
                                                                       memory_order_relaxed, memory_order_relaxed))
    ;
  return true;
}

static inline void busq_account_give_back(busq_account *account, uint64_t bytes)
{
  atomic_fetch_sub_explicit(&account->used_bytes, bytes, memory_order_relaxed);
}

static inline uint64_t busq_account_left(busq_account *account)
{
  return account->limit_bytes - atomic_load_explicit(&account->used_bytes, memory_order_relaxed);
}

/* So many bytes of zeros; NULL where there are none. */
static inline void *busq_account_calloc(busq_account *account, size_t bytes)
{
  if (!busq_account_take(account, bytes))
    return NULL;
  void *memory = calloc(1, bytes);
  busq_account_give_back(account, memory ? 0 : bytes);
  return memory;
}

/* Room for `wanted` bytes, at least twice as much as before, where *memoryp points to *bytesp bytes; false where
 * there is none, and nothing has changed then. */
static inline bool busq_account_reserve(busq_account *account, char **memoryp, size_t *bytesp, size_t wanted)
{
  const size_t bytes = wanted < 2 * *bytesp ? 2 * *bytesp : wanted;
  if (wanted <= *bytesp)
    return true;
  if (!busq_account_take(account, bytes))
    return false;
  char *memory = realloc(*memoryp, bytes);
  busq_account_give_back(account, memory ? *bytesp : bytes);
  if (!memory)
    return false;
  *memoryp = memory;
  *bytesp = bytes;
  return true;
}

static inline void busq_account_free(busq_account *account, void *memory, size_t bytes)
{
  free(memory);
  busq_account_give_back(account, bytes);
}

#endif /* BUSQ_CHECK_ACCOUNT_H */
