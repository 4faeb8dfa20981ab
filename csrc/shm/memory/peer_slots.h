/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_MEMORY_PEER_SLOTS_H
#define BUSQ_SHM_MEMORY_PEER_SLOTS_H
/*
 * The slots that peers have: how many of them are there.
 *
 * Guarantee: all slots before busq_slots_reached (bus.h) have memory and are in order; no process looks at another one, for
 * a look takes memory, too.  So a bus that reserves late (reserve.h) may have places for thousands, and pays for those
 * that were used at the same time.
 *
 * Mechanism.  A process that joins and finds no slot reserves some more, makes them new, and then reaches them.  Of several processes
 * that do so one after the other's first step, all write the same, by swaps from zero: a slot in use has none of those
 * words zero, so what a process does here that was stopped for an hour fails.  Killed on the way, it leaves all to the
 * next.  What is in use was reached before it was taken: so a walk that has read the reach before another process went on
 * misses only a peer that joins now, which a walk a moment earlier would have missed as well.
 *
 * Not given: memory back to the file system.
 */
#include "shm/memory/bus.h"

/* Makes slots new, in memory that is zero or was made new before. */
void busq_slots_init(busq_bus *bus, uint32_t first, uint32_t end);
/* Reaches some behind that end, unless another process has.  BUSQ_EMPTY where there are none; the error where there is no
 * memory for them. */
BUSQ_COLD int busq_slots_reach(busq_bus *bus, uint32_t end);

#endif /* BUSQ_SHM_MEMORY_PEER_SLOTS_H */
