/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_RECEIVE_H
#define BUSQ_SHM_RECEIVE_H
/*
 * Receiving: taking messages off one's own queue in the order of their keys.
 *
 * Guarantee: messages come in ascending order of (timestamp, sender, sequence); none that may still get a lower key is
 * overtaken; a message is taken when it is taken, not when it was looked at.
 *
 * Mechanism.  References stand in the ring in ascending order, but for late ones.  The reader walks from `scan`:
 *
 *      what stands there                          what it does
 *      skipped, or of an attempt that was undone  passes it
 *      committed at its place                     delivers it, unless the heap holds something lower
 *      committed, but late                        moves it to the heap and goes on
 *      not committed yet                          stops: it blocks everything above its lower bound, which is its proposal
 *      nothing yet, before the tail               stops: what will fill the hole may have a lower key than anything else
 *      nothing, at the tail                       delivers the least of the heap: whatever comes, comes behind it
 *
 * That last tail is read after the commit of what is delivered was seen, because its clocks were raised before its commit: what was
 * placed with a lower key stands before that tail.
 *
 * Positions behind `head` are given back to the senders.  A late message, or one that is still being looked at, keeps its
 * position; those behind it that are done are remembered in a bit per slot.
 *
 * Not given: delivery of what is blocked.  Whoever waits for long looks whether the sender lives (busq_receive_unblock).
 */
#include "shm/handle.h"

/* BUSQ_OK: peer->found can be delivered; BUSQ_EMPTY; or damage.  All of these want the receive latch. */
int busq_receive_peek(busq_peer *peer);
/* Takes what was found.  Pinned, its memory stays until busq_receive_release; otherwise it is given back at once. */
void busq_receive_take(busq_peer *peer, bool is_pinned);
void busq_receive_release(busq_peer *peer, uint32_t unit, uint32_t mark, uint64_t position);
/* Nothing is in the queue, not even something that blocks. */
bool busq_receive_is_drained(const busq_peer *peer);
/* After a wait in vain: passes a hole whose sender does not come, and has a dead sender's message finished. */
void busq_receive_unblock(busq_peer *peer);

/* For closing: whether a reference is to a message that was taken and not released; and releasing one unread. */
bool busq_receive_is_pinned(const busq_peer *peer, busq_reference reference);
void busq_receive_discard(busq_bus *bus, uint32_t slot, busq_reference reference);

#endif /* BUSQ_SHM_RECEIVE_H */
