/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_LETTER_LETTER_H
#define BUSQ_SHM_LETTER_LETTER_H
/*
 * Letters: messages to nodes and by name, to a group as well, that may carry handles.
 *
 * Guarantee: those of node.h and group.h, for one message, at one place of the order.
 */
#include "shm/send/multicast.h"

/* Never returned by the library: the message is sent, and some of its nodes are missed. */
#define BUSQ_LETTER_MISSED 66

/* With the send latch, tries once.  BUSQ_LETTER_MISSED: missed[] is 1 for each node that was over at the message's
 * place. */
int busq_letter_try(busq_peer *peer, const busq_letter *letter, const busq_payload *payload, uint8_t *missed);

#endif /* BUSQ_SHM_LETTER_LETTER_H */
