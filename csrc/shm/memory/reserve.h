/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_MEMORY_RESERVE_H
#define BUSQ_SHM_MEMORY_RESERVE_H
/*
 * Memory of the file system behind a bus.
 *
 * Guarantee: no process touches memory that is not reserved, so that a full file system is an error where memory is
 * asked for, and never a SIGBUS later.
 *
 * Mechanism.  A bus reserves all of its memory when it is created, or, if that was asked for (busq_config), what its
 * tables take; then a peer reserves an extent of its own when it joins, and a sender reserves one of the common part
 * before it becomes the first that ever claims it.  What is reserved stays so, but for what is behind the arena (huge.h).  To reserve memory that is reserved
 * changes nothing: so two processes may do it at once, and one that is killed in between leaves it to the next.
 *
 *      ring    the first process that sends there or looks for a message reserves a page of it, and a sender that finds
 *              more than half of that taken all the rest, at once; what the queue is without that, and how the others
 *              learn of it, ring.h shows.  So an unused queue costs nothing, nor does a mere sender, and a queue whose
 *              reader keeps up a page
 *      slots   of peers as many as are used, some at a time (peer_slots.h)
 *      hands   a reader that is one of several fills its own ring with what it keeps, and reserves it in the same way; it
 *              reserves its extent when it sends
 *      extent  a word with the generation 0 was never claimed.  Reserving comes before the claim: a claimer that is
 *              killed behind its claim must not leave an extent that looks as if it had been reserved
 *      reach   of a large arena's table the words of the first extents are reserved, and more once those are all used.
 *              No process looks beyond what is reached, for a look takes memory, too; a process that is killed between
 *              reserving and reaching leaves both to the next.  What is in use was reached before it was claimed: so a
 *              walk that has read the reach before another process went on misses only what that one claims now, which
 *              a walk a moment earlier would have missed as well
 *      run     is reserved in one call, which changes nothing where there is not enough: or a message that fits
 *              nowhere would take the memory of others
 *
 * A call is made behind a mask of all signals: one to a large message takes up to half a second, and a handler as long.
 *
 * Not given: on a file system that can't reserve (EOPNOTSUPP) all is reserved at creation, by writing to it.
 */
#include "shm/memory/bus.h"

/* So many slots at once, whole pages of them (peer_slots.h).  Tests make it less. */
#ifdef BUSQ_STEPS
extern uint32_t busq_slots_at_once;
#else
#define busq_slots_at_once UINT32_C(32)
#endif

/* How many slots a new bus has reached. */
uint32_t busq_reserve_first_slots(const busq_geometry *geometry);
/* How many extents of the arena a new bus has reached. */
uint64_t busq_reserve_first_reach(const busq_geometry *geometry);
/* Reaches some more, as many as the length at least, if there are so many.  How many are reached. */
uint64_t busq_reserve_reach(busq_bus *bus, uint64_t length);
/* All memory of a new bus, or, where it reserves late, its tables.  0, or an errno. */
int busq_reserve_new(const busq_bus *bus);
/* More slots for peers (peer_slots.h). */
int busq_reserve_slots(const busq_bus *bus, uint32_t first, uint32_t count);
/* A peer's own extent. */
int busq_reserve_own(busq_bus *bus, uint32_t slot);
/* A peer's ring, so that the position at its tail can be taken; another process may take it first.  BUSQ_FULL where the ring
 * is short, and has to stay so.  Refused: it was asked for the rest of the ring, and has none; NULL: it is not asked. */
BUSQ_COLD int busq_reserve_ring(busq_bus *bus, uint32_t slot, uint64_t position, bool *refusedp);
/* So many bytes it still takes for the ring to hold as many as its queue may. */
uint64_t busq_reserve_growth(const busq_bus *bus, uint32_t slot);
/* Where a reader puts into its hands next. */
int busq_reserve_hand(busq_bus *bus, uint32_t slot, uint64_t position);
/* The places for replies of a peer. */
int busq_reserve_replies(busq_bus *bus, uint32_t slot);
/* False where one of the extents was never reserved, and the file system is full. */
bool busq_reserve_extents(busq_bus *bus, uint64_t first, uint64_t count);
/* The first bytes of a run behind the arena (huge.h). False where the file system has none, or can't reserve. */
bool busq_reserve_run(const busq_bus *bus, uint64_t first, uint64_t bytes);
/* The memory of such a run, which the caller has made FREEING, but for its heads. */
void busq_reserve_give_back(const busq_bus *bus, uint64_t first, uint64_t length);
/* Are there messages behind the arena, whose memory will be the file system's again? */
bool busq_reserve_has_runs(const busq_bus *bus);
/* False where the whole file system is smaller. */
bool busq_reserve_may_ever_hold(const busq_bus *bus, uint64_t bytes);
/* False where the peer could not reserve its own extent, which it has not used so far, and nothing behind the arena will
 * give memory back to the file system. */
bool busq_reserve_may_fit_small(const busq_bus *bus, uint32_t slot);
/* False where the file system is full, and even all extents that were ever reserved are too few for such a run, and nothing
 * behind the arena will give some back. */
bool busq_reserve_may_fit(const busq_bus *bus, uint64_t n_extents);

#endif /* BUSQ_SHM_MEMORY_RESERVE_H */
