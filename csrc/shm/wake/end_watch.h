/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_WAKE_END_WATCH_H
#define BUSQ_SHM_WAKE_END_WATCH_H
/*
 * Learning of the end of another peer behind a descriptor, instead of asking again and again.
 *
 * Guarantee: while a life is watched, the descriptor becomes readable when its process has ended, or its peer has left.
 *
 * Mechanism.  A process is watched by a pidfd, which stands behind the peer's epoll descriptor beside FIFO and timer.
 * The process is known by the number in the peer's slot, which counts only in its own PID namespace, named beside it;
 * that it is the right one is sure where the life still goes on after the pidfd was opened.  A peer that leaves while
 * its process goes on finds a bit for each peer that watches it in its slot (mourners), and writes to their FIFOs; if it
 * is killed in between, the pidfd reports that.  A look at the life follows the bit, so one of the two is never missed:
 *
 *      watcher    its bit, a fence, a look at the life       leaver    its life, a fence, a look at the bits
 *
 * Not given: where the other one is in another PID namespace, or the queue of several readers, or no pidfd can be had:
 * there the watcher asks the kernel after a slice that grows with the wait (slice.h).  What has ended stays readable
 * until it is watched no more.
 *
 * All of these want the receive latch.
 */
#include "shm/memory/peer.h"

/* False where it can't be watched, or is over. */
bool busq_lives_watch(busq_peer *peer, uint64_t life);
/* False where a watched process has ended: then none is watched any more. */
bool busq_lives_are_quiet(busq_peer *peer);
void busq_lives_unwatch(busq_peer *peer);
/* The PID namespace of this process, as a number; 0 where it is not known. */
uint64_t busq_lives_pid_space(void);
/* Wakes the peers that watch the peer of a slot: it has left.  Without a latch. */
void busq_lives_left(busq_bus *bus, uint32_t slot);

#endif /* BUSQ_SHM_WAKE_END_WATCH_H */
