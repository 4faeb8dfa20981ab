/* SPDX-License-Identifier: Apache-2.0 */
#include "check/seen.h"
#include <sys/mman.h>

static size_t bytes_of(const busq_seen *seen)
{
  return (seen->mask + 1) * sizeof *seen->slots;
}

bool busq_seen_init(busq_seen *seen, uint64_t memory_bytes)
{
  uint64_t n_slots = 1024;
  while (2 * n_slots * sizeof *seen->slots <= memory_bytes)
    n_slots *= 2;
  seen->mask = n_slots - 1;
  void *memory = mmap(NULL, bytes_of(seen), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return false;
  (void)madvise(memory, bytes_of(seen), MADV_HUGEPAGE); /* a wish */
  seen->slots = memory;
  return true;
}

void busq_seen_deinit(busq_seen *seen)
{
  if (seen->slots)
    (void)munmap((void *)seen->slots, bytes_of(seen));
}
