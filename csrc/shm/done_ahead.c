/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is done ahead: messages of a shared queue that a process reports as done without having taken them; the calls are
 * declared in busq.h.
 *
 * Guarantee: the count outlives the process that raised it, and goes with its queue.  A kill leaves it as it was or as it
 * was to be.
 *
 * Mechanism.  One word beside the queue, changed by one swap.  A message that is not done with stays where it is, in the
 * queue or in the hands of a reader; how many are left is the difference.  Its upper half counts the changes: so a
 * process that has counted messages meanwhile knows whether the word is still the one it began with.
 *
 * Not given: which of the messages are done.  And the words here do not look at the queue: what was counted is compared
 * with them by the callers, since it may wait in processes as well (overflow_tally.c).
 */
#include "shm/memory/peer.h"

uint64_t busq_bus_ahead(busq_bus *bus, uint64_t target)
{
  if (busq_target_check(bus, target) != BUSQ_OK)
    return 0;
  return busq_load_acquire(&bus->slots[busq_target_slot(target)].ahead);
}

int busq_bus_swap_ahead(busq_bus *bus, uint64_t target, uint64_t seen, uint32_t ahead)
{
  if (busq_target_check(bus, target) != BUSQ_OK)
    return 0;
  BUSQ_STEP("ahead");
  const uint64_t next = ((seen >> 32) + 1) << 32 | ahead;
  const bool is_swapped = busq_cas64(&bus->slots[busq_target_slot(target)].ahead, seen, next);
  busq_fence_full();
  return is_swapped;
}
