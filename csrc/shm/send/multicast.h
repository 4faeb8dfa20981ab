/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_SEND_MULTICAST_H
#define BUSQ_SHM_SEND_MULTICAST_H
/*
 * Sending: the ordered multicast.
 *
 * Guarantee.
 *   Consistency  All copies of a message have one key (timestamp, sender, sequence), and every queue delivers in the
 *                order of keys; so all receivers see common messages in the same order, and all orders together have no
 *                cycle.
 *   Causality    Before a message can be seen anywhere, the clocks of all its destinations have reached its timestamp.
 *                Any later send by a process that has learned of the message, through any channel, is placed behind it.
 *   Atomicity    One swap of one word makes it final on all queues at once.  What can be foreseen to fail fails before
 *                the first queue is touched; what can't (a receiver that dies meanwhile) takes the message back from
 *                all.
 *   Locality     A send touches the queues of its receivers and nothing else.
 *
 * Mechanism (optimistic; rounds as titled in multicast.c).
 *   Propose   T = 1 + the highest clock among the destinations; the first stage settles it.
 *   Stage     At each destination, in the order of slots: if its clock is below T, set it to T and take the next
 *             position, in one swap; otherwise take a position behind the clock: the proposal is lost.
 *   Commit    Nothing was lost: one swap of the record's state, STAGING -> COMMITTED at T, and it is final everywhere.
 *   Otherwise Seal (STAGING -> SEALED at T' = 1 + the highest clock seen), sync (raise every destination's clock to
 *   T'), commit.
 *
 *   A message to one peer ticks the clock and takes its position in the same swap, already committed.
 *
 *   No process waits for the sender of a message that is not final: its readers help it to its end, or put it off
 *   (commit.h).
 *
 * Why it is right, in short.  (a) Keys on a queue never exceed its clock; so what is placed later sorts later, unless
 * it was there already, and then it blocks until it is final.  (b) All copies share one key.  (c) What is visible
 * anywhere has raised all its clocks first.  (d) Two equal timestamps on one queue were both there before either was
 * final, so they block each other until the tie can be broken the same way everywhere: by sender and sequence.
 *
 * The steps that mutants of the tests break, each with the interleaving that fails:
 *   accept clock <= T   Two senders propose the same T and meet the queues in opposite orders; each is accepted behind
 *                       the other on one of them, and both stand in ring order: inconsistent.
 *   commit, then sync   A receiver of the first queue writes to a side channel; a message caused by that is placed on
 *                       the second queue, whose clock is still below T', with a key below T': the effect overtakes its
 *                       cause.
 *   seal at the maximum T' equals a clock, and what stands there at that clock may already have been delivered, with a
 *                       key above ours.
 *
 * Not given: that a finished send can be received at once (another multicast may still block the queue), or order
 * between messages of two threads of one peer that send at the same time, beyond one and the same order for all
 * receivers.
 *
 * Proven without a bound: busq/lab/proof/models/multicast.py.
 */
#include "shm/send/send_hooks.h"

/* For `hooks.attempt`: raises this peer's clock above all that stands in a queue, even one that the message does not go
 * to. */
int busq_multicast_rise(busq_peer *peer, uint32_t slot);
/* Tries once: BUSQ_OK, BUSQ_FULL (failed_target is where, or NO_TARGET for memory), or why it can't be sent. */
int busq_multicast_try(busq_peer *peer, const uint64_t *targets, uint32_t n_targets, const busq_payload *payload);
/* For the recording: a send that found no room before its time was over uses up a number. */
void busq_multicast_timed_out(busq_peer *peer);
#endif /* BUSQ_SHM_SEND_MULTICAST_H */
