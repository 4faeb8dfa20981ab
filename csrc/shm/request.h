/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_REQUEST_H
#define BUSQ_SHM_REQUEST_H
/*
 * Requests: what the core gives to peers that ask one another; the calls are declared in busq.h.  What a user of Python
 * reads when a request fails is raised in busq/_port/requests.py.
 *
 * Guarantee: a reply reaches the asking peer, or is dropped because it asks no more, or its sender learns that it is
 * gone.  Whether the one asked lives is decided by the kernel, for this life of it: a successor that resumes it is
 * another one.  A reply passes nothing and holds up nothing that is sent to the asker's own queue.
 *
 * Mechanism.  A peer that asks has a second slot, whose queue takes replies alone.  No call can send there by name: the
 * name has a "/" in it, which no other has.  A message that asks carries a busq_request behind its payload, which names
 * where the reply goes; a reply carries the same behind its own.  What replies find there is in the order of the bus as
 * everything else is:
 *
 *      asked    sends x to carol, then the reply
 *      asker    has the reply, sends y to carol
 *
 * x has raised carol's clock before its send returned, so y is placed behind it.  What the asker sends to a peer to
 * which nothing of this was sent would keep its place in the order without more; its own clock is raised as well
 * (busq_peer_follow), so that the keys of messages go up along every chain of causes, requests and replies included.
 *
 * There is room for each reply that is waited for: a request holds a place from before it is sent until its reply was
 * taken (message/reply_place.h), and is not sent while all are held, or the queue for replies is full of what was taken
 * and is still looked at.  A reply to a request that waits no more is not sent: it could fill a queue that is not read
 * any more, and its sender would wait there for ever.  One that is on its way when its asker gives up keeps its place,
 * and is dropped where it arrives.
 *
 * A request to a shared queue depends on the reader that has taken it, as soon as one has; before, and where it is to be
 * acknowledged, any reader will do.
 *
 * Not given: memory for a reply; its sender may have to wait for that.  Room, where a process was stopped while it put a
 * reply into a queue whose first messages are being looked at: its reply may stand there twice, and holds one place.
 */
#include "shm/memory/peer.h"

#endif /* BUSQ_SHM_REQUEST_H */
