/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_DEATH_UNREAD_H
#define BUSQ_SHM_DEATH_UNREAD_H
/*
 * Recording what a peer leaves unread when it closes.
 *
 * Guarantee: the events of groups and nodes that stand in its queue are recorded as passed: the view in which it is
 * out, say, which it is sent by its own leaving.  No receiver misses them.  Messages of applications are not: those are
 * lost, if no successor comes for them, and an audit of the recording reports them.
 *
 * Not given: events that are not final yet, and those that a peer that is killed has not read.
 */
#include "shm/memory/peer.h"

/* With the receive latch; the queue is closed, and has one reader. */
void busq_unread_record(busq_peer *peer);

#endif /* BUSQ_SHM_DEATH_UNREAD_H */
