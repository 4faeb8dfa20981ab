/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_WAIT_DESCRIPTOR_SETTLE_H
#define BUSQ_SHM_WAIT_DESCRIPTOR_SETTLE_H
/*
 * The descriptor of a peer, kept true: what it has to be readable for, and until when it may stay unreadable.
 *
 * Guarantee: it is readable while something can be received, or has come that was asked for, or while receiving would
 * fail at once; and, for a moment, whenever it is time to look, and when a sender is about to wake it from a deep
 * sleep.
 *
 * Mechanism: whenever the receive latch is about to be released, busq_descriptor_settle looks once more and arms the
 * FIFO, or makes it readable (poll_descriptor.h).
 *
 * Not given: that something can be received whenever it is readable.
 */
#include "shm/memory/peer.h"

/* With the receive latch. */
void busq_descriptor_settle(busq_peer *peer);
/* Takes the receive latch.  Asks for room in the queue of that target, or for memory; the caller tries once more
 * afterwards. */
int busq_descriptor_ask_for_room(busq_peer *peer, uint64_t failed_target);

#endif /* BUSQ_SHM_WAIT_DESCRIPTOR_SETTLE_H */
