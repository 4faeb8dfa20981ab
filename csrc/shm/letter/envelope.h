/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_LETTER_ENVELOPE_H
#define BUSQ_SHM_LETTER_ENVELOPE_H
/*
 * Envelopes: the part of a message that the core itself reads.
 *
 * Guarantee: a message whose form has the bit BUSQ_FORM_ENVELOPE is delivered by exactly those of its receivers that it
 * is for at its place in the order: members of the view that it was sent in, owners of nodes that live there.  The
 * others pass it, as if it had never come.  What it changes for its receiver (a view, a handle) has changed when it is
 * taken.
 *
 * Mechanism.  The envelope stands behind the payload of the application, not aligned, and is copied out:
 *
 *      payload | busq_node_name nodes[n_nodes] | busq_node_name handles[n_handles] | busq_envelope
 *
 * A reader looks at it each time it finds the message at the front of its queue, and gets the same answer each time.  A
 * message that is passed is released unread, as one is that was discarded.  One without the bit costs one branch.
 *
 * Not given: a second opinion.  What was offered, or given back, was judged when it was delivered first.
 */
#include "shm/memory/peer.h"

/* The lengths of all that stands behind the payload. */
static inline uint64_t busq_envelope_bytes(const busq_envelope *envelope)
{
  return sizeof *envelope + ((uint64_t)envelope->n_nodes + envelope->n_handles) * sizeof(busq_node_name);
}

/* With the receive latch.  Fills found->envelope, and takes what belongs to it off found->size_bytes. */
busq_admission busq_envelope_admit(busq_peer *peer, busq_found *found);
/* With the receive latch, of what was admitted: it is about to be taken, and is not marked as taken so far. */
void busq_envelope_take(busq_peer *peer, const busq_found *found, uint32_t mode);
/* Once it is marked: what may be done twice, and must not be left out, where we are killed in between. */
void busq_envelope_taken(busq_peer *peer, const busq_found *found);

#endif /* BUSQ_SHM_LETTER_ENVELOPE_H */
