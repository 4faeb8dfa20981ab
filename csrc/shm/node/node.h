/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_NODE_NODE_H
#define BUSQ_SHM_NODE_NODE_H
/*
 * Nodes and handles: addresses whose end has a place in the order of messages.
 *
 * Guarantee.  A node's destruction is a message, to its owner and to all holders of a handle of it; its key is the
 * node's end.
 *   Messages to a node   are delivered if their key is below the end, and passed over if it is above, whatever their
 *                        sender saw; the sender learns which it was.
 *   Handles in messages  arrive alive where the message's key is below the end, otherwise dead.  A peer that receives
 *                        one alive gets the notice of the end, once, behind it; a peer that has got the notice never
 *                        receives that handle again.  So it is with a message that comes again, whatever its receiver,
 *                        or a predecessor, has done with the handle the first time.
 *   Release              when no peer holds a handle any more, and none is on its way, the owner gets a notice, once,
 *                        behind everything that was sent to the node.
 *   Death                the nodes of a peer that is gone, and not durable, are ended by a peer that holds one, or has
 *                        its slot next.
 * No process waits for one that was killed or stopped.
 *
 * Mechanism.  A node is an entry of its owner's part of a table: a claim (claim.h), whose number is the node's
 * generation, and a word per peer:
 *
 *      HELD       the peer has the handle: set and cleared by itself, or cleared once it is gone
 *      GRANTED    the handle is, or may be, in so many messages to the peer: set and counted by senders, counted down
 *                 by the peer that takes one, or acknowledges it, counted again where it gives one back, and cleared
 *                 by the owner where a peer died or gave up in between
 *      NOTIFIED   the notice of the end is in the peer's queue: set by the process that installs the end, cleared by
 *                 the peer
 *
 * with the generation and the peer's life that they are about, and a count of changes, so that a swap by a process that
 * was stopped meanwhile fails.
 *
 * Why a peer that receives a handle alive gets the notice.  The sender sets GRANTED for each of its receivers first,
 * and looks at the claim afterwards; the destroyer claims first, and looks at the words afterwards.  So one of them
 * sees the other:
 *
 *      the sender finds the claim            it
 *      free                                  sends: the receiver will be on the list
 *      with a message that is not sealed     takes that back, unless the receiver is on its list: it is begun again
 *      with one that is, or the node's end   sends behind it: the handle arrives dead everywhere
 *
 * A successor may find a message whose grant was cleared when its predecessor died.  So a receiver sets HELD before it
 * looks at the claim; where the end is there already, and its key is above the message's, NOTIFIED shows whether the
 * notice comes.
 *
 * Why GRANTED is cleared by the owner where it is not counted down to nothing.  A sender that dies, or finds no room,
 * has counted a message that never comes, and does not take that back: between its swap and its death that can't be
 * seen.  The owner notes the word and the tail of the receiver's queue, while no sender is granting that node
 * (busq_slot.granting); when the head has passed that tail and the word is still the same, nothing is on its way.
 *
 * When an entry can be used again: when all peers that were sent the notice of the last node's end have taken it, or are
 * gone.  Up to then a peer that lags behind finds here how to judge what stands in its queue before the notice.
 *
 * node_table.h is what its files share: node_end.c makes and ends nodes, node_receive.c judges and installs what comes,
 * and node_gone.c looks after what others have let go or left behind.  Sending to them, and handing handles on, is in
 * letter/letter.c.
 *
 * Not given: nodes and handles of a queue with several readers; that a handle's sender learns whether it arrived alive.
 */
#include "shm/memory/peer.h"
#include "shm/send/multicast.h"

#define BUSQ_NODE_HANDLES_MAX 64u    /* in one message: a bit of a word for each */
#define BUSQ_NODE_RECEIVERS_MAX 4096u /* nodes that one message goes to */
#define BUSQ_NODE_BY_NAME UINT16_C(0xffff) /* in place of an index: the message is for the owner as well, by its name */

enum {
  BUSQ_NODE_HELD = 1,
  BUSQ_NODE_GRANTED = 2,
  BUSQ_NODE_NOTIFIED = 4
};

/* ---- names ---- */

static inline uint64_t busq_node_pack(busq_node_name name)
{
  return (uint64_t)name.generation << 32 | (uint32_t)name.index << 16 | name.slot;
}

static inline busq_node_name busq_node_unpack(uint64_t packed)
{
  return (busq_node_name){(uint16_t)packed, (uint16_t)(packed >> 16), (uint32_t)(packed >> 32)};
}

/* ---- what a peer keeps for itself, once it has a node or a handle ---- */

/* A grant that may be over: the receiver's word, and the tail of its queue then. */
typedef struct {
  uint64_t word;
  uint64_t tail;
} busq_node_grant;

struct busq_node_memory {
  uint64_t *held;          /* [peers * nodes] generation (32) | how many objects of this process keep it (32) */
  busq_node_grant *grants; /* [nodes * peers] */
  uint64_t *telling;       /* [nodes] the count of holders that we have sent ourselves word of */
  uint64_t *targets;       /* [2 * peers + 1] scratch, under the send latch, as all that follows */
  uint64_t *list;          /* [peers + 1] */
  void *scratch;
  uint64_t scratch_bytes;
  bool is_leaving;
};

/* Once; BUSQ_NO_SPACE. */
int busq_node_remember(busq_peer *peer);
void busq_node_forget(busq_node_memory **memoryp);

/* ---- with the send latch ---- */

int busq_node_make(busq_peer *peer, busq_node_name *namep);
/* Ends a node, ours or one of a peer that is gone; BUSQ_OK as well where it is over.  BUSQ_FULL as for a send. */
int busq_node_end(busq_peer *peer, busq_node_name name);
/* Now and then, by a peer that has nodes or handles: ends the nodes of the gone, takes away the handles of the gone,
 * and sends notices of nodes that are not held any more.  BUSQ_FULL where that has to be tried again. */
int busq_node_tend(busq_peer *peer);
static inline bool busq_node_is_unheld(const busq_peer *peer)
{
  return BUSQ_UNLIKELY(peer->nodes != NULL) && busq_load_relaxed(&peer->self->unheld);
}
/* For a peer that has just joined: takes over what a predecessor had, and ends what an earlier peer has left in the
 * slot. */
int busq_node_adopt(busq_peer *peer);
/* For a peer that leaves, with both latches. */
void busq_node_leave(busq_peer *peer);

/* ---- with the receive latch ---- */

busq_admission busq_node_admit(busq_peer *peer, busq_found *found);
/* A message is about to be taken: returns a bit for each handle that arrives alive, and is held once more from now
 * on. */
uint64_t busq_node_take(busq_peer *peer, const busq_found *found, uint32_t mode);
/* The notice that a node is not held any more is marked as taken. */
void busq_node_taken(busq_peer *peer, const busq_found *found);

/* ---- by any thread ---- */

/* One object less keeps the handle. */
void busq_node_release(busq_peer *peer, busq_node_name name);
/* All handles that a message has brought, one object less of each. */
void busq_node_release_handles(busq_peer *peer, const busq_message *message);
/* A message goes back into the queue: its handles are granted again, unless they still are, and then let go.  With the
 * receive latch. */
void busq_node_return_handles(busq_peer *peer, uint32_t mode, const busq_message *message);
/* Around the acknowledgement, behind which the message may be gone: its handles, of other peers' nodes; and what is
 * granted no more. */
uint32_t busq_node_handles_of(const busq_peer *peer, const busq_message *message, busq_node_name *handles);
void busq_node_acked(busq_peer *peer, const busq_message *message, const busq_node_name *handles, uint32_t n_handles);
bool busq_node_is_alive(busq_peer *peer, busq_node_name name);
/* It has ended, and the peer has taken the notice, or gets none. */
bool busq_node_is_over(busq_peer *peer, busq_node_name name);
bool busq_node_is_held(const busq_peer *peer, busq_node_name name);
/* Its life; 0 where the node is no more. */
uint32_t busq_node_owner(const busq_bus *bus, busq_node_name name);
/* Those that a peer owns or holds, in the order of the table, from an entry on. */
bool busq_node_next(busq_peer *peer, uint64_t *fromp, busq_node_name *namep, bool *is_ownp);

#endif /* BUSQ_SHM_NODE_NODE_H */
