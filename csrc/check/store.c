/* SPDX-License-Identifier: Apache-2.0 */
#include "check/store.h"
#include <sys/mman.h>

enum { PIECE_BYTES = 1 << 14 };

bool busq_store_init(busq_store *store, busq_account *account, size_t bytes_max)
{
  *store = (busq_store){.account = account, .reserved_bytes = BUSQ_ALIGN_UP(bytes_max, PIECE_BYTES) + PIECE_BYTES};
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void *bytes = mmap(NULL, store->reserved_bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  store->bytes = bytes == MAP_FAILED ? NULL : bytes;
  return store->bytes;
}

void busq_store_deinit(busq_store *store)
{
  if (!store->bytes)
    return;
  (void)munmap(store->bytes, store->reserved_bytes);
  busq_account_give_back(store->account, store->counted_bytes - store->released_bytes);
  store->bytes = NULL;
}

bool busq_store_grow(busq_store *store, size_t used_bytes)
{
  const size_t counted = BUSQ_ALIGN_UP(used_bytes, PIECE_BYTES);
  if (counted > store->counted_bytes) {
    if (counted > store->reserved_bytes || !busq_account_take(store->account, counted - store->counted_bytes))
      return false;
    store->counted_bytes = counted;
  }
  store->used_bytes = used_bytes;
  return true;
}

static void give_back(busq_store *store, size_t begin, size_t end)
{
  (void)madvise(store->bytes + begin, end - begin, MADV_DONTNEED);
  busq_account_give_back(store->account, end - begin);
}

void busq_store_trim(busq_store *store, size_t before)
{
  const size_t used_end = BUSQ_ALIGN_UP(store->used_bytes, PIECE_BYTES);
  before -= before % PIECE_BYTES;
  if (before > store->released_bytes) {
    give_back(store, store->released_bytes, before);
    store->released_bytes = before;
  }
  if (used_end < store->counted_bytes) {
    give_back(store, used_end, store->counted_bytes);
    store->counted_bytes = used_end;
  }
}

void busq_store_clear(busq_store *store)
{
  store->used_bytes = 0;
  if (!store->released_bytes)
    return;
  give_back(store, store->released_bytes, store->counted_bytes);
  store->counted_bytes = store->released_bytes = 0;
}
