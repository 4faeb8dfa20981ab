/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_LIFE_H
#define BUSQ_SHM_LIFE_H
/*
 * Who lives, and what becomes of what the dead leave.
 *
 * Guarantee: whether a peer lives is what the kernel says, never a timeout; a slot is changed by one process at a time, and one
 * that dies while it changes a slot leaves it to the next; one that is stopped while it does so makes nobody look alive.
 *
 * Mechanism.  Open-file-description locks on single bytes far behind the end of the bus file: two bytes per slot, one per
 * name.  The kernel releases them when the last copy of the descriptor is gone, which is when the process is dead, however
 * it died, zombies included, and across pid namespaces.  A forked child would keep the copy alive, so a fork handler closes
 * it there.
 *
 *      the slot's byte     held for life by its peer
 *      the grave's byte    held by whoever changes a slot whose peer is gone: buries it, drops what it left, joins in it
 *
 * Who finds that a live slot's byte is free takes the grave's and buries the dead: closes its queue, unless that is durable,
 * completes or undoes what it was sending, and gives back the memory that nobody needs.  Who dies doing that leaves work that
 * can be done again; who is stopped doing that keeps only the slot from being used anew: what a dead sender's message blocks
 * is got out of the way by those who wait (receive.h), burial or not.
 *
 * What a dead or closed peer has not received stays where it is for a successor (join.h), until its slot or its memory is
 * needed, the longest gone first; what is durable stays until it is removed by name.
 *
 * Who sends now and then asks the kernel about every destination of every message, so a death that happened before a send is
 * noticed by it.  In a burst (more than 64 copies per tick of a few milliseconds) it asks less often; then a message may
 * still go to somebody who has just died, exactly as if he had died just after receiving it.
 */
#include "shm/handle.h"

/* ---- kernel locks ---- */

/* 0, or -1 with errno: EAGAIN where somebody else holds the byte. */
int busq_lock_try(int fd, int64_t byte);
void busq_lock_drop(int fd, int64_t byte);
/* A descriptor for locks, closed in forked children. */
int busq_guard_open(busq_guard *guard, const busq_bus *bus, int *fd);
void busq_guard_close(busq_guard *guard);

/* Does the kernel say that the process behind a slot lives? */
bool busq_life_is_held(const busq_bus *bus, uint32_t slot);
/* Takes the slot's byte, for a peer to be: 0 or -1.  The caller is in the slot's grave. */
int busq_life_hold(int fd, uint32_t slot);

/* ---- the right to change slots of the gone ---- */

typedef struct {
  busq_bus *bus;
  int fd;
  busq_guard guard;
} busq_grave;

int busq_grave_open(busq_grave *grave, busq_bus *bus);
void busq_grave_close(busq_grave *grave);
/* False where the peer lives, or somebody else is at it. */
bool busq_grave_enter(busq_grave *grave, uint32_t slot);
void busq_grave_leave(busq_grave *grave, uint32_t slot);

/* These want the grave entered.  Burying what is buried does nothing. */
void busq_life_bury(busq_bus *bus, uint32_t slot);
/* Drops what is left in the queue; how many messages that were. */
uint64_t busq_life_discard(busq_bus *bus, uint32_t slot);

/* ---- for everybody ---- */

bool busq_life_leaves_messages(const busq_bus *bus, uint32_t slot);
/* May messages be sent to this incarnation?  Buries it where it has died. */
bool busq_life_check(busq_bus *bus, uint32_t slot, uint32_t incarnation);
/* Buries those who died unnoticed, and takes back what the gone own and nobody needs any more.  How many it has buried. */
uint32_t busq_life_reclaim(busq_bus *bus);
/* Drops the messages that the longest gone has left, unless that was durable; false where there are none. */
bool busq_life_discard_oldest(busq_grave *grave);
/* The same for who is short of memory. */
bool busq_life_make_room(busq_bus *bus);

#endif /* BUSQ_SHM_LIFE_H */
