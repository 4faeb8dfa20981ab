/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_RECEIVE_HOLES_H
#define BUSQ_SHM_RECEIVE_HOLES_H
/*
 * A reader's patience with what blocks its queue.
 *
 * Guarantee: no reader waits for a sender that is slow, stopped or dead for more than some milliseconds.  A timeout chooses which
 * process finishes a message, never what happens to it.
 */
#include "shm/memory/peer.h"

/* When nothing can be received: if what blocks the queue has done so for longer than we have patience with it, gets it
 * out of the way: skips the hole, completes what is sealed, puts off what is not.  True if it is worth looking again.
 * Otherwise peer->receiver.blocker.help_in_ns is when to come again; UINT64_MAX where the queue is empty. */
bool busq_receive_help(busq_peer *peer);
/* Peeks, and where something blocks the queue for too long, gets it out of the way and peeks again.  Each turn deals
 * with one message, so the number of turns only matters where nonsense is written into the queue faster than we read
 * it. */
int busq_receive_peek_helping(busq_peer *peer);
/* As busq_receive_help, without patience. */
bool busq_receive_unblock(busq_peer *peer);

#endif /* BUSQ_SHM_RECEIVE_HOLES_H */
