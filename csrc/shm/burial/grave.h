/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_BURIAL_GRAVE_H
#define BUSQ_SHM_BURIAL_GRAVE_H
/*
 * What dead peers leave: their queues, their records, their memory.
 *
 * Guarantee: the slot of a peer that is gone is changed by one process at a time, and one that dies while it changes a
 * slot leaves it to the next; one that is stopped while it does so makes no peer look alive.
 *
 * Mechanism.  A process that finds the byte of a live slot free (life.h) takes the grave's byte and buries the dead: it
 * closes the queue, unless that is durable, completes or undoes what the dead was sending (message/commit.h), and gives back some of the
 * memory that is not needed.  Burial is idempotent: if the burying process dies, another one repeats it; if it is
 * stopped, only the slot can't be used anew.  What a dead sender's message blocks is got out of the way by the readers
 * that wait (receive.h), burial or not.
 *
 * However many messages the dead had sent, only one of them can be unfinished: a sender names the one in its hand
 * before any reader can know of it (busq_slot.in_hand), and counts it as sent when it is through.  If that one is
 * final, and no queue refers to it, no other process would ever release it; whether one does takes a walk over its
 * receiver's queue.  That walk, the dropping of what the gone have left and the search for memory that is not needed go
 * in bounded steps; how far they have come stands in the slot, so that the next process goes on there.  A sender pays
 * for one step and learns that its receiver is dead, whether the burial is over or not.
 *
 * The unreceived messages of a dead or closed peer stay where they are for a successor (join.h), until its slot or its
 * memory is needed, the longest gone first; what is durable stays until it is removed by name.
 *
 * A process that sends now and then asks the kernel about every destination of every message, so a death that happened
 * before a send is noticed by it.  In a burst (more than 64 copies per tick of a few milliseconds) it asks less often;
 * then a message may still go to a peer that has just died, exactly as if it had died just after receiving it.
 *
 * Not given: which of several processes buries, or when; a dead peer that no process meets stays unburied.
 *
 * Proven without a bound: busq/lab/proof/models/burial.py.
 */
#include "shm/burial/compact.h"
#include "shm/memory/life.h"

typedef struct {
  busq_bus *bus;
  int fd;
  busq_guard guard;
} busq_grave;

/* The grave's byte. */
int64_t busq_grave_lock(uint32_t slot);
int busq_grave_open(busq_grave *grave, busq_bus *bus);
void busq_grave_close(busq_grave *grave);
/* False where the peer lives, or another process is at it. */
bool busq_grave_enter(busq_grave *grave, uint32_t slot);
void busq_grave_leave(busq_grave *grave, uint32_t slot);
/* Keeps other processes out, though the peer may live; false where one is there. */
bool busq_grave_visit(busq_grave *grave, uint32_t slot);

/* These want the grave entered, take one bounded step, and are true when nothing is left to do.  Burying what is buried
 * does nothing. */
bool busq_grave_bury(busq_bus *bus, uint32_t slot);
/* Drops what is left in the queue, and counts it.  Once begun, no successor gets the rest. */
bool busq_grave_discard(busq_bus *bus, uint32_t slot, uint64_t *n_droppedp);

/* ---- for all rooms above ---- */

bool busq_grave_has_messages(const busq_bus *bus, uint32_t slot);
/* May messages be sent to this incarnation?  Buries it where it has died. */
bool busq_grave_check(busq_bus *bus, uint32_t slot, uint32_t incarnation);
/* Completes what a dead sender had sealed, so that all notices of its death come behind it; without its grave, whose
 * holder may be stopped. */
void busq_grave_settle_hand(busq_bus *bus, uint32_t slot);
/* A bounded step of burying the peer of a slot, if it is dead. */
void busq_grave_bury_one(busq_bus *bus, uint32_t slot);
/* Buries readers of a shared queue, but for the caller, that died with something in their hands; a few at a time, the
 * next time from *nextp on. */
void busq_grave_bury_readers(busq_bus *bus, uint32_t queue, uint32_t caller, uint32_t *nextp);
/* All of them at once. */
void busq_grave_bury_all_readers(busq_bus *bus, uint32_t queue, uint32_t caller);
/* Buries all peers that died unnoticed. Returns how many that were. */
uint32_t busq_grave_bury_all(busq_bus *bus);
/* Buries them, and takes back what the gone own and is not needed any more. */
uint32_t busq_grave_reclaim(busq_bus *bus);
/* A bounded step of that, for a sender that is short of memory; *slotp: where it goes on. */
void busq_grave_reclaim_some(busq_bus *bus, uint32_t *slotp);
/* A bounded step of dropping the messages that the longest gone has left, unless that was durable; false where there
 * are none. */
bool busq_grave_discard_oldest(busq_grave *grave);
/* A bounded step of that, for a sender that is short of memory. */
bool busq_grave_make_room(busq_bus *bus, uint32_t *slotp);
/* A bounded step of making room in a full queue that is durable and whose peer is gone (compact.h). */
busq_compact_outcome busq_grave_compact(busq_bus *bus, uint32_t slot);

#endif /* BUSQ_SHM_BURIAL_GRAVE_H */
