/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_SEND_MULTICAST_H
#define BUSQ_SHM_SEND_MULTICAST_H
/*
 * Sending: the ordered multicast.
 *
 * Guarantee.
 *   Consistency  All copies of a message have one key (timestamp, sender, sequence), and every queue delivers in the order of
 *                keys; so all receivers see common messages in the same order, and all orders together have no cycle.
 *   Causality    Before a message can be seen anywhere, the clocks of all its destinations have reached its timestamp.  What
 *                is sent by anybody who knows of it, by whatever way he came to know, is placed behind it.
 *   Atomicity    One swap of one word makes it final on all queues at once.  What can be foreseen to fail fails before the
 *                first queue is touched; what can't (a receiver that dies meanwhile) takes the message back from all.
 *   Locality     A send touches the queues of its receivers and nothing else.
 *
 * Mechanism (optimistic; rounds as titled in multicast.c).
 *   Propose   T = 1 + the highest clock among the destinations; the first stage settles it.
 *   Stage     At each destination, in the order of slots: if its clock is below T, set it to T and take the next
 *             position, in one swap; otherwise take a position behind the clock: the proposal is lost.
 *   Commit    Nothing was lost: one swap of the record's state, STAGING -> COMMITTED at T, and it is final everywhere.
 *   Otherwise Seal (STAGING -> SEALED at T' = 1 + the highest clock seen), sync (raise every destination's clock to T'), commit.
 *
 *   A message to one peer ticks the clock and takes its position in the same swap, already committed.
 *
 *   A message that is not final makes nobody wait for its sender: its readers help it to its end, or put it off (commit.h).
 *
 * Why it is right, in short.  (a) Keys on a queue never exceed its clock; so what is placed later sorts later, unless it was
 * there already, and then it blocks until it is final.  (b) All copies share one key.  (c) What is visible anywhere
 * has raised all its clocks first.  (d) Two equal timestamps on one queue were both there before either was final, so
 * they block each other until the tie can be broken the same way everywhere: by sender and sequence.
 *
 * The steps that mutants of the tests break, each with the interleaving that fails:
 *   accept clock <= T   Two senders propose the same T and meet the queues in opposite orders; each is accepted behind the
 *                       other on one of them, and both stand in ring order: inconsistent.
 *   commit, then sync   A receiver of the first queue tells the side channel; a message caused by that is placed on the second
 *                       queue, whose clock is still below T', with a key below T': the effect overtakes its cause.
 *   seal at the maximum T' equals a clock, and what stands there at that clock may already have been delivered, with a
 *                       key above ours.
 *
 * Not given: that a finished send can be received at once (another multicast may still block the queue), or order between
 * messages of two threads of one peer that send at the same time, beyond one and the same order for all receivers.
 */
#include "shm/memory/peer.h"

/*
 * Who has a part in a multicast beside its sender: a change that it decides (claim.h), a group whose view it must not miss.  All with
 * the send latch; each may be NULL.
 */
typedef struct busq_send_hooks busq_send_hooks;
struct busq_send_hooks {
  /* The record is filled and STAGING, and nobody knows of it.  Anything but BUSQ_OK takes it back. */
  int (*begin)(busq_send_hooks *hooks, busq_peer *peer, busq_record *record, uint64_t tag);
  /* Before each attempt: raises peer->lamport above all that the message must come after (busq_multicast_rise). */
  int (*attempt)(busq_send_hooks *hooks, busq_peer *peer);
  /* It can't be committed any more, and was not. */
  void (*undone)(busq_send_hooks *hooks, busq_peer *peer, busq_record *record, uint64_t tag);
  /* It is final, and the record is still the sender's.  `outcome` is what the send comes to: BUSQ_OK, or what has to be done besides. */
  void (*end)(busq_send_hooks *hooks, busq_peer *peer, busq_record *record, busq_key key);
  int outcome;
  /* For the recording: a message to a group, 1 + the index of that, and the view in which it is sent; 0: none. */
  uint32_t group;
  uint64_t view;
};

/* What is sent: the parts one behind the other, or a draft, a record that was filled before. */
typedef struct busq_payload {
  const busq_part *parts;
  uint32_t n_parts;
  uint32_t form;
  uint64_t size_bytes;       /* of all parts, or of what is sent of the draft */
  const busq_message *draft; /* its place; NULL: the parts */
  busq_send_hooks *hooks; /* of parts; NULL: none */
} busq_payload;

/* For a hooks's attempt: above all that stands in this queue, though the message may not go there. */
int busq_multicast_rise(busq_peer *peer, uint32_t slot);
/* Tries once: BUSQ_OK, BUSQ_FULL (failed_target says where, or NO_TARGET for memory), or why it can't be sent. */
int busq_multicast_try(busq_peer *peer, const uint64_t *targets, uint32_t n_targets, const busq_payload *payload);
/*
 * Drafts: records that are filled in place before they are sent.
 *
 * A draft is FREE in its owner's hands: on no list, in no queue.  So nobody else can know of it, whoever buries its owner finds a
 * record that is not needed, and a successor finds one that is free.  It is in hand (grave.h) only while it is being sent.
 * A closed peer keeps its slot for as long as it has drafts: they can still be written to.
 */
/* Takes a record for a message of up to so many bytes to up to so many destinations; or BUSQ_FULL, ... */
int busq_multicast_reserve(busq_peer *peer, uint64_t size_bytes, uint32_t n_targets, busq_message *draft);
/* Gives one back that was not sent; wants the send latch. */
void busq_multicast_discard(busq_peer *peer, const busq_message *draft);
/* For the recording: a send that found no room before its time was over uses up a number. */
void busq_multicast_timed_out(busq_peer *peer);
/* Gives memory back that somebody else asks for; wants the send latch. */
void busq_multicast_share_memory_slow(busq_peer *peer);
static inline bool busq_multicast_is_memory_wanted(const busq_peer *peer)
{
  return busq_load_relaxed(&peer->bus->header->memory_wanted) != busq_load_relaxed(&peer->memory_wanted_seen);
}
static inline void busq_multicast_share_memory(busq_peer *peer)
{
  if (BUSQ_UNLIKELY(busq_multicast_is_memory_wanted(peer)))
    busq_multicast_share_memory_slow(peer);
}
#define BUSQ_NO_TARGET UINT64_MAX
/* A target that is a group: how often its entry got a name (32) | index (16) | this. */
#define BUSQ_TARGET_GROUP UINT64_C(0xfffe)

static inline uint32_t busq_target_slot(uint64_t target)
{
  return (uint32_t)target & 0xffff;
}

static inline uint32_t busq_target_incarnation(uint64_t target)
{
  return (uint32_t)(target >> 16);
}

#endif /* BUSQ_SHM_SEND_MULTICAST_H */
