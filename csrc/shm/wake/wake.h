/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_WAKE_WAKE_H
#define BUSQ_SHM_WAKE_WAKE_H
/*
 * Waiting and waking.
 *
 * Guarantee: a waiter is woken when what it waits for has happened; if the process that should wake it is killed first,
 * it costs at most one slice of sleep (slice.h), because every sleep is sliced and looks again.
 *
 * Mechanism: event counts.  A waiter reads the sequence, raises its flag, looks once more, and sleeps while the
 * sequence is unchanged.  A waker publishes first and looks at the flag afterwards; a full fence on both sides makes
 * sure that at least one of them sees the other.  Where nothing waits, there is no system call.
 *
 *   waiter          for what                         flag            sequence    woken by
 *   receiver        a message that can be delivered  wake_flags      wake_seq    every sender, after its commit
 *   select(), poll  the same                         wake_flags      a FIFO      every sender, after its commit,
 *                                                                                and before it, if the sleep is
 *                                                                                deep; a timer
 *   sender          room in a queue                  room_waiters    room_seq    that queue's reader
 *   sender          memory in its arena              memory_waits    memory_seq  the readers of its messages, and
 *                                                                                a process that makes memory common
 *   select(), poll  room or memory                   the same, asks  the FIFO    the same; a timer
 *
 * A peer that has waited behind a descriptor for BUSQ_NAPS slices, with an empty queue, sleeps deeply: without slices.
 * Then a sender signals it twice.  The first time is when it has taken a position and has not committed: killed before,
 * it has sent nothing; killed after, the reader is awake, finds its queue not empty, and looks every slice until it is.
 * (To signal every reader twice would wake every reader twice: a reader is awake before its sender has left the system
 * call that woke it.)  A sender that can't open the FIFO notes that in the reader's slot (fifo_failed), and from then
 * on the reader does not sleep deeply; for the first such message, and against unforeseen cases, it looks after as long
 * as it has slept already, BUSQ_NET_NS at most.
 *
 * For the last two the waker does not pay for a fence per message; the race that this leaves (its store of the head, or
 * of the mark, still on its way when it looks at the flag) is bounded by the first, short sleep; for room, the reader
 * also closes it when it goes to sleep itself.
 *
 * A sender that waits for room behind its descriptor (busq_peer_send_asking) sets a bit for the queue in its own slot
 * (asks), then one for itself in that queue's flag, and tries once more.  The process that takes the flag down clears
 * the bit, and then writes a byte to the sender's FIFO; one that finds the bit cleared writes none.  A bit that is
 * cleared has come: it keeps the descriptor readable, whichever thread drains the byte, until the sender takes back
 * what it asked for.  So of a waker that is killed there is left at most a bit without its byte, and of one that was
 * stopped a bit cleared too many, or a byte, in a slot that has another peer by now: a false alarm.  A sender that is
 * killed leaves a bit in a flag, which costs its next waker a look.  Against all of these, and because the waker does
 * not pay for a fence, a sender that waits for room looks after 1 ms, 2 ms and so on, up to BUSQ_LOOK_NS; and from there
 * on up to BUSQ_NET_NS, where the descriptor reports the end of the reader (end_watch.h).  Both sets of bits are small, so
 * several slots share one: then a sender is woken for another queue's room, and asks again.
 *
 * A flag stands for all waiters. A waker takes it down and wakes all of them; those that find nothing raise it again
 * before they sleep. Besides wakers, only the last waiting thread of a peer takes it down (receivers_asleep): a thread
 * that leaves must not make its sleeping siblings look as if they were awake.
 */
#include "shm/memory/peer.h"
#include "shm/wake/slice.h"

/* Between taking a position in a queue and the commit of what stands there: signals a reader that sleeps deeply behind
 * its descriptor, so that it is awake, and looks again by its timer, should we die before the next signal. */
void busq_wake_announce_slow(busq_peer *peer, uint32_t slot);
static inline void busq_wake_announce(busq_peer *peer, const busq_slot *reader, uint32_t slot)
{
  if (BUSQ_UNLIKELY(busq_load_relaxed(&reader->wake_flags) & BUSQ_WAKE_DEEP))
    busq_wake_announce_slow(peer, slot);
}

/* After a commit: wakes the reader of a queue, if it waits. */
void busq_wake_reader_slow(busq_peer *peer, uint32_t slot);
static inline void busq_wake_reader(busq_peer *peer, const busq_slot *reader, uint32_t slot)
{
  if (BUSQ_UNLIKELY(busq_load_relaxed(&reader->wake_flags)))
    busq_wake_reader_slow(peer, slot);
}

/* Wakes the readers of a queue without being a peer: something came back into it. */
void busq_wake_readers_of(busq_bus *bus, uint32_t slot);

/* The senders that wait for room in a queue: there is some, or its reader has gone. */
void busq_wake_for_room_slow(const busq_bus *bus, uint32_t slot);
static inline void busq_wake_for_room(const busq_bus *bus, uint32_t slot)
{
  if (BUSQ_UNLIKELY(busq_load_relaxed(&bus->slots[slot].room_waiters)))
    busq_wake_for_room_slow(bus, slot);
}

/* A sender that waits for memory: one of its messages was released. */
void busq_wake_owner_slow(const busq_bus *bus, uint32_t slot);
static inline void busq_wake_owner(const busq_bus *bus, uint32_t slot)
{
  if (BUSQ_UNLIKELY(busq_load_relaxed(&bus->slots[slot].memory_waits)))
    busq_wake_owner_slow(bus, slot);
}

/* Wakes those that sleep for long and may have memory to give back. */
void busq_wake_keepers_of_memory(busq_bus *bus);

/* Wakes all waiters for memory: some became common. */
void busq_wake_for_memory(busq_bus *bus);

/* Wakes the threads of this process that wait on their own peer: it was closed, or their flag was taken down. */
void busq_wake_self(busq_peer *peer);

/* Wakes all waiters on the bus, for shutdown. */
void busq_wake_all(busq_bus *bus);

#endif /* BUSQ_SHM_WAKE_WAKE_H */
