/* SPDX-License-Identifier: Apache-2.0 */
#include "check/store.h"
#include <sys/mman.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 14, FILE_PIECE_BYTES = 1 << 18 };

static size_t piece_bytes(const busq_store *store)
{
  return store->disk ? FILE_PIECE_BYTES : PIECE_BYTES;
}

static bool map(busq_store *store, size_t bytes_max, int flags)
{
  store->reserved_bytes = BUSQ_ALIGN_UP(bytes_max, piece_bytes(store)) + piece_bytes(store);
  void *bytes = mmap(NULL, store->reserved_bytes, PROT_READ | PROT_WRITE, flags, store->file, 0);
  store->bytes = bytes == MAP_FAILED ? NULL : bytes;
  return store->bytes;
}

bool busq_store_init(busq_store *store, busq_account *account, size_t bytes_max)
{
  *store = (busq_store){.account = account, .file = -1};
  return map(store, bytes_max, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
}

bool busq_store_init_on(busq_store *store, busq_disk *disk)
{
  *store = (busq_store){.account = &disk->account, .disk = disk, .file = busq_disk_file(disk)};
  if (store->file < 0 || map(store, disk->account.limit_bytes, MAP_SHARED))
    return store->file >= 0;
  close(store->file);
  return false;
}

/* False where a file system can't: then it stays as it is. */
static bool give_back(busq_store *store, size_t begin, size_t end)
{
  if (store->disk)
    return busq_disk_release(store->disk, store->file, begin, end);
  (void)madvise(store->bytes + begin, end - begin, MADV_DONTNEED);
  busq_account_give_back(store->account, end - begin);
  return true;
}

static bool take(busq_store *store, size_t begin, size_t end)
{
  return store->disk ? busq_disk_allocate(store->disk, store->file, begin, end) : busq_account_take(store->account, end - begin);
}

void busq_store_deinit(busq_store *store)
{
  if (!store->bytes)
    return;
  (void)munmap(store->bytes, store->reserved_bytes);
  busq_account_give_back(store->account, store->counted_bytes - store->released_bytes);
  if (store->disk)
    close(store->file);
  store->bytes = NULL;
}

bool busq_store_grow(busq_store *store, size_t used_bytes)
{
  const size_t counted = BUSQ_ALIGN_UP(used_bytes, piece_bytes(store));
  if (counted > store->counted_bytes) {
    if (counted > store->reserved_bytes || !take(store, store->counted_bytes, counted))
      return false;
    store->counted_bytes = counted;
  }
  store->used_bytes = used_bytes;
  return true;
}

void busq_store_trim(busq_store *store, size_t before)
{
  const size_t used_end = BUSQ_ALIGN_UP(store->used_bytes, piece_bytes(store));
  before -= before % piece_bytes(store);
  if (before > store->released_bytes && give_back(store, store->released_bytes, before))
    store->released_bytes = before;
  if (used_end < store->counted_bytes && give_back(store, used_end, store->counted_bytes))
    store->counted_bytes = used_end;
}

void busq_store_clear(busq_store *store)
{
  store->used_bytes = 0;
  if (store->released_bytes && give_back(store, store->released_bytes, store->counted_bytes))
    store->counted_bytes = store->released_bytes = 0;
}
