/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_MEMORY_LARGE_H
#define BUSQ_SHM_MEMORY_LARGE_H
/*
 * Large records: a run of extents that holds one.
 *
 * Guarantee: a run is given back once, by the last process that needs it or by one that buries that process, and
 * wherever either dies or is stopped, the rest of the run is found again.
 *
 * Mechanism: the first extent's word is LARGE, and names the sender.  A process that finds the record done swaps it to
 * FREEING, in its own name, and then gives the extents back from the end, shrinking the run first.
 */
#include "shm/memory/extent.h"

static inline uint64_t busq_large_extents(const busq_bus *bus, uint64_t bytes)
{
  return (bytes + bus->geometry.extent_bytes - 1) / bus->geometry.extent_bytes;
}

/* A record in a run of its own; NULL where there is no such run. */
busq_record *busq_large_take(busq_bus *bus, uint32_t slot, uint64_t bytes);
/* Claims extents that are free, all of them or none. */
bool busq_run_claim_at(busq_bus *bus, uint32_t slot, uint64_t first, uint64_t length);
/* Makes a run of extents that were claimed. */
busq_record *busq_run_become_large(busq_bus *bus, uint32_t slot, uint64_t first, uint64_t length, uint64_t bytes);
/* Called only by the process that changed LARGE to FREEING, or by one burying it. */
void busq_run_free(busq_bus *bus, uint64_t first);
/* Changes LARGE, as seen, to FREEING, and gives the run back; false where another process was faster. */
bool busq_run_free_as(busq_bus *bus, uint64_t first, uint64_t seen, uint32_t by_slot);
/* Frees ends of the owner's runs that a reader was killed with. */
void busq_run_collect_ends(busq_bus *bus, uint32_t slot);

/* The sender is done with its record: from now on it belongs to its destinations. */
void busq_large_sent(busq_bus *bus, uint32_t slot, busq_record *record);
/* Clears what keeps a large record in its sender's hands, for a sender that died. */
void busq_large_sender_done(busq_record *record);
/* A destination has set its mark; `word` is the extent's as it was before. */
void busq_large_released(busq_bus *bus, uint32_t by_slot, busq_record *record, uint64_t word);
/* Frees large records that no destination needs, and whose last reader died before it could do so. */
void busq_large_sweep(busq_bus *bus, uint32_t by_slot);

#endif /* BUSQ_SHM_MEMORY_LARGE_H */
