/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_MESSAGE_COMMIT_H
#define BUSQ_SHM_MESSAGE_COMMIT_H
/*
 * How a multicast ends, by its sender or by a helper.
 *
 * Guarantee: a message is committed once, at one timestamp, and not before the clocks of all its destinations have
 * reached it; a reader that waits for it does not depend on its sender, and any number of helpers may be killed or
 * stopped while they help.
 *
 * Mechanism.  Every change of a record's state is a swap that names the state before, so it fails if another process
 * was faster.  A helper that finds the timestamp fixed (SEALED) syncs the clocks and commits.  One that finds it open
 * (STAGING) makes the next attempt current: all references so far are dead, and a sender that was only slow fails to
 * commit, notices, and stages again.  A dead sender's message is undone if its timestamp was open, and completed if it
 * was fixed.
 *
 * Not given: that a message is final when help returns.  Its sender may be staging the next attempt.
 *
 * Proven without a bound: busq/lab/proof/models/patience.py.
 */
#include "base/assert.h"
#include "shm/memory/bus.h"

/* Raises the clocks of all destinations; everything that is placed from now on sorts behind the timestamp.  A helper
 * may come here when all is over and the record holds another message: clocks of others are raised then to a timestamp
 * that some clock has reached, which does no harm. */
static inline void busq_commit_sync(busq_bus *bus, busq_record *record, uint64_t timestamp)
{
  const uint32_t destinations = busq_record_destinations(record);
  for (uint32_t i = 0; i < destinations && i < bus->geometry.peers; i++) {
    const uint32_t slot = busq_load_relaxed(&record->destination[i].slot);
    if (slot >= busq_slots_reached(bus))
      continue;
    const busq_ring ring = busq_bus_ring(bus, slot);
    BUSQ_STEP("sync");
    busq_ring_raise(&ring, timestamp);
  }
}

static inline bool busq_commit_swap(busq_record *record, uint64_t tag, uint32_t from, uint64_t from_timestamp,
                                    uint32_t to, uint64_t to_timestamp)
{
  busq_pair expected = {tag | from, from_timestamp};
  BUSQ_ASSERT(from < to);
  BUSQ_ASSERT(to == BUSQ_PHASE_SEALED || to == BUSQ_PHASE_COMMITTED);
  BUSQ_ASSERT(from == BUSQ_PHASE_SEALED || from == BUSQ_PHASE_STAGING);
  BUSQ_ASSERT(from == BUSQ_PHASE_SEALED ? from_timestamp == to_timestamp : from_timestamp == 0); /* fixed once */
  BUSQ_STEP("state");
  /* SYNC POINT commit: every clock that this message needs raised comes before it counts as committed. */
  return busq_pair_cas(&record->state, &expected, (busq_pair){tag | to, to_timestamp});
}

/* Gets a message of the given tag out of the way of the reader that waits behind it, its sender being alive, stopped or
 * dead: completes it, or puts it off.  True if it is worth looking at the queue again. */
bool busq_commit_help(busq_bus *bus, busq_record *record, uint64_t tag);
/* Finishes what a dead sender had begun: undoes what is not sealed, completes what is. */
void busq_commit_finish(busq_bus *bus, busq_record *record);

#endif /* BUSQ_SHM_MESSAGE_COMMIT_H */
