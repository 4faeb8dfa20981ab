/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_LIFE_H
#define BUSQ_SHM_LIFE_H
/*
 * Who is on the bus.
 *
 * Guarantee: a name belongs to at most one live peer; whether a peer lives is what the kernel says, never a timeout; a slot
 * is changed by one process at a time, and one that dies while it changes a slot leaves it to the next.
 *
 * Mechanism.  Open-file-description locks on single bytes far behind the end of the bus file: one byte per slot, one per
 * name (its hash).  The kernel releases them when the last copy of the descriptor is gone, which is when the process is
 * dead, however it died, zombies included, and across pid namespaces.  A forked child would keep the copy alive, so a fork
 * handler closes it there.  A peer that joins holds both bytes for life.
 *
 * Who finds that a live slot's byte is free takes it and buries the dead: closes its queue, completes or undoes what it was
 * sending, releases what it had not received.  Burying holds the byte, so it is done once at a time; one who dies burying
 * leaves work that can be done again.
 *
 * Who sends now and then asks the kernel about every destination of every message, so a death that happened before a send is
 * noticed by it.  In a burst (more than 64 copies per tick of a few milliseconds) it asks less often; then a message may
 * still go to somebody who has just died, exactly as if he had died just after receiving it.
 */
#include "shm/handle.h"

/* Does the kernel say that the process behind a slot lives? */
bool busq_life_is_held(const busq_bus *bus, uint32_t slot);
/* Looks a slot's life up; buries it if it has died.  True if the peer of that incarnation lives. */
bool busq_life_check(busq_bus *bus, uint32_t slot, uint32_t incarnation);
/* Takes back what peers that are gone own and nobody needs any more; buries those who died unnoticed. */
void busq_life_reclaim(busq_bus *bus);
/* After the last message that was taken from a closed peer has been released. */
void busq_life_finish_close(busq_peer *peer);

#endif /* BUSQ_SHM_LIFE_H */
