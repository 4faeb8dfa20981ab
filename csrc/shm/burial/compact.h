/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_BURIAL_COMPACT_H
#define BUSQ_SHM_BURIAL_COMPACT_H
/*
 * Room in a durable queue without a reader.
 *
 * Guarantee: what such a queue is full of are messages.  References that will never be received (of attempts that were
 * put off or undone, of messages that a predecessor released out of order, holes) are taken out by the senders that
 * find it full; the order of the others stays what it is, and a process that is killed on the way leaves a queue from
 * which nothing is missing and in which nothing stands twice for its successor.
 *
 * Mechanism.  In the grave of the gone (grave.h), from the tail to the head: what is dead is passed, what is not is
 * moved up to where the last dead one stood, and at the end the head moves to the lowest that is left.
 *
 *      head          from      to              tail
 *      | not seen yet | dead    | packed, good |
 *
 * {to, from} is a word in the slot, so that bounded steps of several senders make one pass.  A move is
 *      1. the word names where it begins      2. the reference is copied to `to` - 1
 *      3. the word shows that it is done      4. `from`, where it came from, becomes a skipped hole
 * Killed behind 2, the copy and the original are both there, and the next one finds them equal; behind 4 is where it
 * looks after 3.  No reader is there to see any of this: a peer that wants to be its successor enters the grave first,
 * and settles it.
 *
 * Not given: room in the queue of a reader that lives and does not read.
 */
#include "shm/memory/bus.h"

typedef enum {
  BUSQ_COMPACT_NOTHING, /* the queue has a reader, or is full of messages */
  BUSQ_COMPACT_ROOM,    /* look again */
  BUSQ_COMPACT_NOT_OVER /* no room so far: another call goes on */
} busq_compact_outcome;

/* Was the last pass clean, and has nothing come since? */
bool busq_compact_is_clean(const busq_bus *bus, uint32_t slot);
/* Both in the grave.  A bounded step, for a sender that finds the queue full. */
busq_compact_outcome busq_compact_step(busq_bus *bus, uint32_t slot);
/* Before the queue is taken over, or what is in it dropped: ends a move that was begun, and forgets the pass. */
void busq_compact_settle(busq_bus *bus, uint32_t slot);

#endif /* BUSQ_SHM_BURIAL_COMPACT_H */
