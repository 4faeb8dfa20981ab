/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_GROUP_WATCH_H
#define BUSQ_SHM_GROUP_WATCH_H
/*
 * Peers that are watched: a notice when a peer of that name comes, and one when it goes.
 *
 * Guarantee.  Each watcher gets "joined" and "left" in turn, and each of them once: "left" behind the last message that
 * came to it from the one that went, "joined" before the first one from the one that came.  A watcher without room holds
 * up nothing but messages of the watched peer to itself; all others get their notices.
 *
 * Mechanism.  The watchers of a name are the members of the group "?" + name (group.h).  For each of them there is a
 * word with the notice that it got last, and a claim (claim.h) on which the next one is decided: a message to this
 * watcher alone.  Claims are numbered for each slot of a watcher, and no number is used twice: a peer that begins to
 * watch takes the next one, at which the word is empty, so that what was claimed for its predecessor fails.
 *
 * Each group of the bus has room for as many watchers as there are slots of peers (layout.h): all may watch one name,
 * and as many names can be watched as the bus has groups left.
 *
 *   Notices are sent
 *     by a peer that has joined, to all watchers of its name; where one has no room, before whatever else it sends
 *     there (busq_watch_owed_send)
 *     by a peer that closes, and by any watcher while it waits or receives, to all watchers
 *     by a peer that begins to watch, to itself
 *
 *   The word names a life, not only an incarnation: a peer that is resumed is another one, and the one before has gone
 *   for good.  So an announcer that is stopped and goes on late does no harm: what it claims is true, or its number has
 *   passed.
 *
 * Not given: one place for all watchers.  Nor notices of a life that came and went before there was room for either.
 */
#include "shm/group/group.h"

/* With the send latch: sends the watcher in that slot the notices that are due.  BUSQ_OK also where there is none;
 * BUSQ_FULL. */
int busq_watch_notify(busq_peer *peer, uint64_t group, uint32_t slot);
/* Sends them to all watchers; to the caller itself last, so that what it sends once it knows comes behind the notices of
 * others.  BUSQ_FULL where there was no room at one of them. */
int busq_watch_notify_all(busq_peer *peer, uint64_t group);
/* With the send latch, by a peer that has joined: notices to the watchers of its name, now or before it sends to
 * them. */
void busq_watch_joined(busq_peer *peer, uint64_t group);
/* Before a message to these receivers: notices that are still owed to them.  BUSQ_FULL: one has no room, and
 * sender.failed_target is where. */
int busq_watch_owed_send(busq_peer *peer, const uint64_t *targets, uint32_t n_targets);
/* With the send latch, by a peer that is about to watch, and does not yet: it has got no notice. */
bool busq_watch_begin(busq_peer *peer, uint32_t index);
/* A notice was found in this peer's queue: what it announces stands in the word. */
void busq_watch_install_until(busq_peer *peer, uint32_t index, uint64_t number);

#endif /* BUSQ_SHM_GROUP_WATCH_H */
