/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_DEATH_NEW_SLOT_H
#define BUSQ_SHM_DEATH_NEW_SLOT_H
/*
 * The slot of a peer that joins anew.
 *
 * Guarantee: the slot was no live peer's, and nothing that a message on its way needs, or that was promised to be kept,
 * stood in it.  A process that is killed on the way has used a number, and nothing else.
 *
 * Mechanism.  The grave of a slot is entered first (grave.h).  Slots of the gone are taken again where no message needs
 * their names and memory; then slots that were never used; at last what the gone have left is dropped, the oldest
 * first.  The life comes last.
 *
 * Not given: a slot on a bus where all are taken, BUSQ_NO_SPACE.
 */
#include "shm/burial/grave.h"
#include "shm/memory/peer.h"

int busq_new_slot_take(busq_peer *peer, busq_grave *grave, const char *name, size_t name_bytes);

/* The steps that a successor of a dead peer takes, too (take_over.h). */
void busq_new_slot_life_begin(busq_peer *peer);
void busq_new_slot_describe(busq_peer *peer);
void busq_new_slot_ring_take(busq_peer *peer, uint32_t slot);

#endif /* BUSQ_SHM_DEATH_NEW_SLOT_H */
