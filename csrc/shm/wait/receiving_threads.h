/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_WAIT_RECEIVING_THREADS_H
#define BUSQ_SHM_WAIT_RECEIVING_THREADS_H
/*
 * The threads of this process that receive from a peer.
 *
 * Guarantee: a thread that sends to its own peer waits for room there only where another thread may make it.  So a
 * peer with one thread gets an error where its own queue is full; waiting, it would wait for itself for ever:
 *
 *      peer    is a member of a group, and does other things than receiving for a while
 *      others  fill its queue
 *      peer    sends to the group: there is no room in its own queue until it receives
 *
 * Mechanism: a call that receives puts its thread in front of a short list, unless it stands there.  A thread that is
 * about to wait for room in its own queue looks for another one there that lives and does not wait for the same; the
 * list shows that it waits itself.  So of threads that all do so the last one goes on, and receives.  As long as no
 * thread has received, the one that joined counts as a reader: it may be about to start another one.
 *
 * A shared queue is the own queue of each of its readers.  One that waits for room there shows that in its slot, unless
 * another thread of it receives; the last of the readers that live gets the error (send_call.c).
 *
 * Not given: a thread that is only going to receive one day; of more than BUSQ_READERS_MAX threads, those that have not
 * received for longest.
 */
#include "base/thread.h"
#include "shm/memory/peer.h"

BUSQ_COLD void busq_readers_note_slow(busq_peer *peer);

/* With the receive latch: this thread receives. */
BUSQ_ALWAYS_INLINE void busq_readers_note(busq_peer *peer)
{
  if (BUSQ_UNLIKELY(peer->receiver.readers[0].thread != busq_thread_self()))
    busq_readers_note_slow(peer);
}

/* May this thread wait until another one receives?  Then it is shown to wait, until it ends that. */
bool busq_readers_await(busq_peer *peer);
void busq_readers_await_end(busq_peer *peer);

#endif /* BUSQ_SHM_WAIT_RECEIVING_THREADS_H */
