/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_MEMORY_HUGE_H
#define BUSQ_SHM_MEMORY_HUGE_H
/*
 * Messages that the arena can not hold.
 *
 * Guarantee: the arena's size is no limit of a message; what the file system holds can be sent, and its memory goes back
 * to the file system with the last receiver that lets go of it, wherever a process that has it dies.
 *
 * Mechanism: behind the arena the mapping goes on with extents of 64 MiB each, of address space alone; the file is
 * extended when they are first used, and a unit there is looked at only once it was (busq_bus_has_units).  Such a message
 * is a run of them, with the states, owners and burial of every other run (large.h).  The pages of its header are
 * reserved first, then it becomes LARGE, and only then the rest is reserved: so all memory belongs to a run that names its
 * owner.  The process that makes a run FREEING gives the memory back before the run shrinks, while no other can claim it.
 *
 *      heads   the first pages of each extent stay reserved once they were: a process that was stopped looks at the
 *              header of a message that is long gone, and must find memory there
 *      arena   a message that needs more than half of it goes behind it, too, where no run is in its way, but extents of
 *              others for small messages, which an idle peer does not give back, and where nothing is behind it
 *      late    on a bus that reserves late, so does one that fills an extent there, as long as all of those take no more
 *              than the arena may: what the arena has reserved it keeps.  Two senders that sum up at the same moment may
 *              both go there, and so may go above that by one message each; nothing but the bound depends on it.  It is
 *              slower than in the arena, by the pages that the file system clears: 16 MiB by 40 %, 64 MiB by 25 %
 *      slack   as much as a header takes is reserved behind a message: a look at the header that a damaged reference
 *              names stays inside the file
 *
 * Not given: that others go there: the arena's size is what bounds those.
 */
#include "shm/memory/bus.h"

/* Whether a record of so many bytes has no place in the arena, even when that is empty. */
static inline bool busq_huge_is_needed(const busq_bus *bus, uint64_t bytes)
{
  return bytes > (bus->geometry.huge_from - bus->geometry.peers) * bus->geometry.extent_bytes;
}

/* Whether one that the arena can hold goes behind it for its memory's sake. */
bool busq_huge_is_better(const busq_bus *bus, uint64_t bytes);
/* Whether one that needs more than half of the arena may go behind it all the same: where no other run is on its way, here or there. */
bool busq_huge_is_welcome(const busq_bus *bus, uint64_t bytes);
/* A record in a run of its own; NULL where there is no such run now. */
busq_record *busq_huge_take(busq_bus *bus, uint32_t slot, uint64_t bytes);
/* False where the file system is too small for it, or full of what no receiver of this bus could let go of. */
bool busq_huge_may_fit(const busq_bus *bus, uint64_t bytes);

#endif /* BUSQ_SHM_MEMORY_HUGE_H */
