/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_GROUP_GROUP_H
#define BUSQ_SHM_GROUP_GROUP_H
/*
 * Groups of peers, whose membership is part of the order; the calls themselves are declared in busq.h.
 *
 * Guarantee.
 *   Views     All members of a group see the same views at the same places of the order.  A peer that enters sees its
 *             first view before anything that is sent to the group; one that leaves sees the view in which it is out,
 *             and nothing behind that.
 *   Delivery  A message to the group is delivered by exactly the members of the view in which it is delivered, and by
 *             peers that were named beside the group.  It is delivered in the view that it was sent in, or not at all;
 *             its sender sends again before its call returns.
 *   Death     A death is a view like any other, behind the last message of the dead.
 *
 * Mechanism.  A view is a number and a set of members; a change of the view is claimed at the number (claim.h), and is
 * a multicast to the members of the old view and the one that enters.  A message to the group carries the number v that
 * its sender saw.
 *
 *   It counts if its key is below that of the change from v to v + 1.  So every process that has to know can find out:
 *     a member  has both in its own queue, in the order of their keys: it passes what comes behind the change
 *     the sender looks at the claim after its commit (busq_group_counts)
 *         IDLE at v    no change is decided, and one that is claimed later raises its clock above those of all members,
 *                      ours among them: it counts
 *         OPEN at v    the change is put off: then it is later than the message, as above: it counts
 *         decided      compare; if it does not count, install the change and send again to the new view
 *     a named peer that is no member does the same as the sender
 *
 *   The steps that mutants of the tests break, each with the execution that fails:
 *     members do not compare    sender  looks: v;  joiner's change commits, is delivered by A;  the message commits, A
 *                               delivers it in v + 1, of which the joiner is a member that never gets it
 *     no look after the commit  the same, and A passes it: no member delivers the message, and its sender believes that
 *                               all do
 *     the sender does not install  the claimer is stopped between commit and install: the sender finds v once more, and
 *                                  sends for ever
 *     the change does not rise above the clocks of members that it is not sent to
 *                               the only member A dies; the message is committed there and at X, which was named; a joiner's change has a
 *                               lower key, since it goes to itself alone: X passes what the sender believes to count
 *
 *   A member that is dead, not out yet, and not durable, receives no change.  It may be resumed, and would be a member
 *   that has missed a view; so the maker of a change marks it in the table before that can be decided.  A successor,
 *   once it lives, counts in the same word that it has resumed, settles the claim, and looks whether it is marked: then
 *   its death was noticed, and it ends its membership before its join returns.  The mark is a swap of the word as it
 *   was before the kernel was asked and found it gone; so it fails where the successor was faster, and the change
 *   begins anew, with it.  Marked without that question, a member that lives drops out:
 *     maker      finds X dead, and makes a list without it
 *     successor  lives, settles (there is no claim), is not marked: X is a member
 *     maker      claims, marks X, finds that it lives, and takes the claim back; the mark stays, and the next change is
 *                X's end
 *
 *   A view whose members are all gone, and can receive nothing, is emptied without a message: the claim's word shows
 *   that, the key is settled by a swap, above their clocks.  This is done by the maker of a change, by a process that
 *   needs an entry for another name, and by busq_bus_collect.
 *
 *   Names.  An entry of the table gets a name under a kernel lock; from then on nothing waits for another process.  An
 *   entry without members may get another name: its number goes on, so that one group is not taken for the other.
 *   Applications see another number, which is the name's: it begins at 1, and goes on where a group of that name was
 *   when it lost its entry.  Each name has a place where that number is kept, by its hash; names that share a place
 *   begin above each other's last number, which is no mistake.
 *
 * Not given: a verdict on a message whose sender was stopped between its commit and its look while the group's view
 * changed more than BUSQ_GROUP_CHANGES times, unless a receiver has left a verdict in the record: then the message counts.
 * And: a message beside the group to one that was resumed, has missed a change, and can't be taken off the group because a
 * member has no room.
 *
 * Proven without a bound: busq/lab/proof/models/groups.py.
 */
#include "shm/message/claim.h"
#include "shm/send/multicast.h"

/* A change of a group, and the member that it is about. */
typedef struct busq_change {
  uint64_t group; /* a target */
  uint64_t who;   /* a target */
  uint32_t what;  /* BUSQ_CHANGE_...; UP and DOWN are notices about a watched peer (watch.h) */
} busq_change;

/* A sender's copy of a view. */
struct busq_sender_view {
  uint64_t number;   /* of the view that has these members */
  uint64_t *members; /* their targets, in the order in which they entered; NULL: not known so far */
  uint32_t n_members;
};

/* A receiver's memory of a group. */
struct busq_viewed {
  uint64_t number;  /* of the last view that was delivered here, or to a predecessor; 0: none */
  bool was_in;      /* as a member of it */
  bool is_ours;     /* delivered here, as a member that receives the next one: that is in our own queue */
  bool has_missed;  /* a successor, of one that is still a member for the others; up to the view without it */
  bool is_read;     /* the number that a predecessor may have left was looked at */
};

/* Numbers of views are shown above this; it may be below 0, and wrap around. */
static inline uint64_t busq_group_shown_above(const busq_group *group)
{
  return busq_load_relaxed(&group->base) - busq_load_relaxed(&group->kept);
}

static inline uint32_t busq_group_index(uint64_t target)
{
  return (uint32_t)(target >> 16) & 0xffff;
}

/* With the send latch: sends to a group, and to others beside it.  As busq_multicast_try. */
int busq_group_try(busq_peer *peer, const uint64_t *targets, uint32_t n_targets, const busq_payload *payload);
/* With the send latch: makes a change.  Returns as that. */
int busq_group_change_try(busq_peer *peer, const busq_change *change);

/* ---- for letters, which may go to a group and to nodes; with the send latch ---- */

/* The group among targets of which one is a group; BUSQ_INVALID where there are several, or one that can't stand beside
 * a group. */
int busq_group_among(busq_peer *peer, const uint64_t *targets, uint32_t n_targets, uint64_t *groupp);
/* The view that stands now; BUSQ_UNKNOWN_PEER where it has no members.  The view is the peer's, and stays until the
 * next look. */
int busq_group_sender_view(busq_peer *peer, uint64_t group, busq_sender_view **viewp);
/* Reads it anew if it has changed; it may have no members. */
int busq_group_refresh(busq_peer *peer, uint64_t group, busq_sender_view **viewp);
bool busq_sender_view_has(const busq_sender_view *view, uint64_t target);
/* The verdict on a message to the group and view of `hooks`, which is final, while its record is still the sender's.
 * BUSQ_AGAIN: it does not count, and has to be sent to the view that follows.  `has_others`: receivers that are no
 * members, and look into the record. */
int busq_group_judge(busq_peer *peer, const busq_send_hooks *hooks, busq_record *record, busq_key key, bool has_others);
/* A message was not sent, since a receiver is gone (peer->sender.failed_target).  BUSQ_AGAIN: it was a member, and the
 * view without it comes first; BUSQ_PEER_DEAD: it was none. */
int busq_group_end_failed(busq_peer *peer, uint64_t group, const busq_sender_view *view);

/* With the receive latch. */
busq_admission busq_group_admit(busq_peer *peer, const busq_found *found);
void busq_group_take(busq_peer *peer, const busq_found *found);
/* For a peer that joins as a successor, before it receives: it has missed a change, and there was no room to end its
 * membership. */
void busq_group_miss(busq_peer *peer, uint32_t index);

/* Does a message with this key, sent in the view of that number, count? */
typedef enum { BUSQ_GROUP_COUNTS, BUSQ_GROUP_MISSED, BUSQ_GROUP_FORGOTTEN, BUSQ_GROUP_DAMAGED } busq_group_verdict;
busq_group_verdict busq_group_counts(busq_bus *bus, uint32_t index, uint64_t view, busq_key key);

/* The entry with that name, as a target.  BUSQ_UNKNOWN_PEER where there is none and none is to be made;
 * BUSQ_NO_SPACE. */
int busq_group_named(busq_bus *bus, const char *name, size_t bytes, bool is_made, uint64_t *targetp);
/* Is the target's entry still that group? */
bool busq_group_is_still(const busq_bus *bus, uint64_t target);
/* Brings whatever is claimed out of the way, after some patience: the number at which a change can be claimed.  False:
 * damage. */
bool busq_group_settle(busq_bus *bus, uint32_t index, uint64_t *numberp);
/* Installs what is decided at that number, if it is not. */
void busq_group_install_until(busq_bus *bus, uint32_t index, uint64_t number);
/* The view's members at one moment, and its number; in the order in which they entered.  There is room for twice as
 * many as the bus has slots. */
bool busq_group_members(busq_bus *bus, uint32_t index, uint64_t *members, uint32_t *countp, uint64_t *numberp);
/* Makes the next view empty where members are left, and none that could receive anything. Only its members look after a
 * group, so no other process would. False: that is not so, or another process was faster. */
bool busq_group_empty_of_dead(busq_bus *bus, uint32_t index);
int busq_group_damaged(const busq_bus *bus, uint32_t index);
/* Is that peer a member? */
bool busq_group_has(const busq_bus *bus, uint32_t index, uint32_t slot, uint32_t incarnation);
/* A change is made that this member does not receive, since it is dead: should it be resumed, it is no member any more.
 * False where it is not gone: the change has to be made with it. */
bool busq_group_note_missed(busq_bus *bus, uint32_t index, uint64_t target);
bool busq_group_has_missed(const busq_bus *bus, uint32_t index, uint64_t target);
/* By a successor that lives: changes from here on are made with it, unless it has missed one. */
void busq_group_note_resumed(busq_bus *bus, uint32_t index, uint64_t target, uint32_t life);
/* A member that closes marks itself before it is gone: the view without it shows that it has left. */
void busq_group_note_closes(busq_bus *bus, uint32_t index, uint64_t target);
bool busq_group_closes(const busq_bus *bus, uint32_t index, uint64_t target);
/* It has missed a change, or is gone: a view without it is due. */
bool busq_group_is_to_go(busq_bus *bus, uint32_t index, uint64_t target);
/* No process stands behind this incarnation any more, as far as the kernel knows; what it had sealed is completed. */
bool busq_group_is_gone(busq_bus *bus, uint32_t slot, uint32_t incarnation);
void busq_group_deinit(busq_peer *peer);
/* A new peer, before it lives: what was kept of its slot's last one is not its own. */
void busq_group_forget(const busq_peer *peer);

/* ---- watched peers ---- */

/* The group of the peers that watch another: it has "?" before that one's name. */
static inline bool busq_group_is_of_watchers(const busq_bus *bus, uint32_t index)
{
  return busq_bus_group(bus, index)->name[0] == '?';
}

#endif /* BUSQ_SHM_GROUP_GROUP_H */
