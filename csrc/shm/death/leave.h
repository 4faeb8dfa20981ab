/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_DEATH_LEAVE_H
#define BUSQ_SHM_DEATH_LEAVE_H
/*
 * Leaving a bus; the calls themselves are declared in busq.h (busq_peer_close, busq_peer_retain, busq_peer_free).
 *
 * Guarantee: a peer that closes leaves its slot as a successor needs it: messages that it has not received stay, what
 * it had sent counts, its groups and nodes end.  While the application still looks at messages or drafts of it, the
 * slot stays taken.
 *
 * Mechanism: the life of the slot goes LIVE, LEAVING, LEFT, each after what the one before it announces.  A peer that
 * dies on the way is buried like any other (grave.h).
 */
#include "shm/memory/peer.h"

/* With the receive latch: the last pin or draft of a closed peer is gone, and so is its slot. */
void busq_leave_finish(busq_peer *peer);

#endif /* BUSQ_SHM_DEATH_LEAVE_H */
