/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_LIVE_GROUP_H
#define BUSQ_LIVE_GROUP_H
/*
 * The members of the group.
 *
 * Guarantee: a member keeps its number for ever, and no other process ever gets it.  That a member is gone is decided
 * by the kernel, never by a timeout; a timeout (QUIET_NS) decides only when a call stops waiting for what the gone
 * can't send any more, and never while a member that lives, though it may be stopped, has packets that it has not taken
 * from its mailbox.
 *
 * Mechanism: slots of the bus are looked at until their member is known, and from then on only to see whether it still
 * lives: before each send to it, as bus1 does (shm/memory/life.h), every 50 ms while a thread waits, and
 * every second otherwise.  Where others go on without the dead, a member that finds one wakes the rest, and these look then.
 *
 * Everything here wants the mutex.
 */
#include "live/member.h"

/* Looks for the member of this number; true where it is known. */
bool busq_group_find(busq_live *live, uint32_t process);
/* Its number; BUSQ_UNKNOWN_PEER, BUSQ_PEER_DEAD, BUSQ_INVALID with a text. */
int busq_group_lookup(busq_live *live, const char *name, size_t name_bytes, uint32_t *processp);
void busq_group_lose(busq_live *live, uint32_t process);
/* BUSQ_OK where all members are here that the order needs for any message at all; otherwise BUSQ_UNKNOWN_PEER with a
 * text. */
int busq_group_assemble(busq_live *live);
/* Whether this one lives: asked before each send to it, in a burst only now and then. */
void busq_group_glance(busq_live *live, uint32_t process);
/* Looks now and then whether the others live. */
void busq_group_look(busq_live *live);
/* BUSQ_PEER_DEAD with a text where nothing can be sent any more, because a member is gone that the order can't do
 * without. */
int busq_group_check_send(busq_live *live);
/* BUSQ_PEER_DEAD where what is waited for will not come: a member is gone, nothing has moved since for a while, and no
 * member that lives has anything left to answer. */
int busq_group_check_wait(busq_live *live, bool is_receiving);
int busq_group_dead(const busq_live *live, uint32_t process);

#endif /* BUSQ_LIVE_GROUP_H */
