/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_DEATH_UNREAD_H
#define BUSQ_SHM_DEATH_UNREAD_H
/*
 * What a peer leaves unread when it closes, for the recording.
 *
 * Guarantee: the events of groups and nodes that stand in its queue are told as passed: the view in which it is out, say, which it is sent
 * by its own leaving.  They are nobody's, and nobody misses them.  Messages of applications are not: those are lost, if no successor
 * comes for them, and whoever judges the recording says so.
 *
 * Not given: events that are not final yet, and those that a peer that is killed has not read.
 */
#include "shm/memory/peer.h"

/* With the receive latch; the queue is closed, and has one reader. */
void busq_unread_record(busq_peer *peer);

#endif /* BUSQ_SHM_DEATH_UNREAD_H */
