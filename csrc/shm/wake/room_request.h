/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_WAKE_ROOM_REQUEST_H
#define BUSQ_SHM_WAKE_ROOM_REQUEST_H
/*
 * Asking for room in a queue, or for memory, behind a descriptor instead of in a call; wake.h has the protocol.
 *
 * All of these want the receive latch.  A slot is that of the queue; BUSQ_RING_NOBODY: memory.
 */
#include "shm/memory/peer.h"

void busq_room_begin(busq_peer *peer);
/* Asks; the caller tries once more afterwards, before it sleeps. */
void busq_room_ask(busq_peer *peer, uint32_t slot);
/* Counts as come what was asked for. */
void busq_room_come(busq_peer *peer, uint32_t slot);
/* Something of what was asked for has come, or was lost to another sender: it is worth trying again. */
bool busq_room_has_come(const busq_peer *peer);
/* Takes back what was asked for: a sender that still needs it asks again. */
void busq_room_forget(busq_peer *peer);

#endif /* BUSQ_SHM_WAKE_ROOM_REQUEST_H */
