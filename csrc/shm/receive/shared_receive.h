/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_RECEIVE_SHARED_RECEIVE_H
#define BUSQ_SHM_RECEIVE_SHARED_RECEIVE_H
/*
 * Receiving as one of several readers of a queue (shared_take.h): a reader takes only what it has reached for by a swap.
 *
 * All of these want the receive latch.
 */
#include "shm/memory/peer.h"

/* Reaches for what comes next: until it is taken or put back, no other reader gets it.  Returns as peek. */
int busq_several_reach(busq_peer *peer);
/* It was reached for, and not taken: any reader may have it. */
void busq_several_put_back(busq_peer *peer);
/* Before such a reader sleeps, and from time to time: buries readers that died with something in their hands, moves the
 * head, and looks at what came back. */
void busq_several_tend(busq_peer *peer);

/* ---- for receive.c ---- */

/* As busq_receive_peek: what could be reached for. */
int busq_several_peek(busq_peer *peer);
/* Takes what was reached for. */
void busq_several_take(busq_peer *peer, uint32_t mode);
/* A position of our hands is done with. */
void busq_several_done(busq_peer *peer, uint64_t position);
/* The message is this reader's for good: if it is a request, its asker waits for this reader from now on. */
void busq_several_answers_for(const busq_peer *peer, uint32_t form, const void *payload, uint64_t size_bytes);
/* Acknowledges what stands there in our hands; it stays there. */
void busq_several_keep(busq_peer *peer, uint64_t position);
/* Gives back a message that was taken; false where it is not ours any more. */
bool busq_several_give_back(busq_peer *peer, const busq_message *message);

#endif /* BUSQ_SHM_RECEIVE_SHARED_RECEIVE_H */
