/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_RECEIVE_RECEIVE_H
#define BUSQ_SHM_RECEIVE_RECEIVE_H
/*
 * Receiving: taking messages off one's own queue in the order of their keys.
 *
 * Guarantee: messages come in ascending order of (timestamp, sender, sequence); none that may still get a lower key is
 * overtaken; a message is consumed by taking it, not by looking at it.
 *
 * Mechanism.  References stand in the ring in ascending order, but for late ones.  The reader walks from `scan`:
 *
 *      what stands there                          what it does
 *      skipped, or of an attempt that was undone  passes it
 *      committed at its place                     delivers it, unless the heap holds something lower
 *      committed, but late                        moves it to the heap and goes on
 *      not committed yet                          stops: it blocks everything above its lower bound, which is its
 *                                                 proposal
 *      nothing yet, before the tail               stops: what will fill the hole may have a lower key than anything
 *                                                 else
 *      nothing, at the tail                       delivers the least of the heap: whatever comes, comes behind it
 *
 * That last tail is read after the commit of what is delivered was seen, because its clocks were raised before its
 * commit: what was placed with a lower key stands before that tail.
 *
 * Positions behind `head` are given back to the senders.  A late message, or one that is still being looked at, keeps
 * its position; those behind it that are done are remembered in a bit per slot.
 *
 * No reader waits for long: what blocks the queue is got out of the way after a patience of some milliseconds, whether
 * its sender is slow, stopped or dead (busq_receive_help).  A timeout chooses which process finishes a message, never
 * what happens to it.
 *
 * A successor begins where its predecessor's head stood. What lies between that and the tail it found is judged by the
 * marks that the predecessor left in the records; the heap is built anew from the ring.
 *
 * Not given: protection from a reader that is stopped. Its queue fills up, and senders to it wait for room.
 */
#include "shm/memory/peer.h"

/* Takes the receive latch of an open peer; BUSQ_FORKED, BUSQ_CLOSED: it is not taken. */
BUSQ_ALWAYS_INLINE int busq_receive_begin(busq_peer *peer)
{
  if (BUSQ_UNLIKELY(peer->fork_generation != busq_fork_generation))
    return BUSQ_FORKED;
  busq_biased_latch_acquire(&peer->receiver.latch);
  BUSQ_TIME("latched");
  if (BUSQ_UNLIKELY(busq_load_relaxed(&peer->is_closed))) {
    busq_biased_latch_release(&peer->receiver.latch);
    return BUSQ_CLOSED;
  }
  return BUSQ_OK;
}

/* BUSQ_OK: peer->receiver.found can be delivered; BUSQ_EMPTY; or damage.  All of these want the receive latch. */
int busq_receive_peek(busq_peer *peer);
/* Takes what was found, in one of the modes of busq_take.  Pinned, its memory stays until busq_receive_release;
 * offered, until busq_receive_ack, and if that does not come, a successor finds it again; copied, it is given back at
 * once. */
void busq_receive_take(busq_peer *peer, uint32_t mode);
void busq_receive_release(busq_peer *peer, uint32_t unit, uint32_t mark, uint64_t position);
/* Releases many messages of a peer that is open. */
void busq_receive_release_all(busq_peer *peer, const busq_message *messages, size_t n_messages);
int busq_receive_ack(busq_peer *peer, const busq_message *message);
/* Acknowledged, it is pinned: it does not come again, and its memory stays until busq_receive_release. */
int busq_receive_ack_and_keep(busq_peer *peer, const busq_message *message);
/* A message that was taken, pinned or offered, and that the application has not seen, comes next: it goes to the heap,
 * where it is the least.  False where it is not ours any more, or memory ran out; then nothing has changed. */
bool busq_receive_give_back(busq_peer *peer, uint32_t mode, const busq_message *message);
/* Nothing is in the queue, not even something that blocks. */
bool busq_receive_is_drained(const busq_peer *peer);
/* The queue was ended, and nothing is left in it. */
bool busq_receive_has_ended(const busq_peer *peer);
#endif /* BUSQ_SHM_RECEIVE_RECEIVE_H */
