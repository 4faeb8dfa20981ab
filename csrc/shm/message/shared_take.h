/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_MESSAGE_SHARED_TAKE_H
#define BUSQ_SHM_MESSAGE_SHARED_TAKE_H
/*
 * One queue, several readers.
 *
 * Guarantee: each message goes to one of them, and they take messages in the order of the queue.  What one had and had
 * not acknowledged when it died comes again, in its place; what it had only reached for too; what it had taken is lost
 * with it.  All that comes back is marked, since others have gone past it: what is not marked comes to each reader in
 * order.  No reader that is killed or stopped between any two steps keeps the others from the next message, and one
 * that is slow, or keeps what it has, keeps no room in the queue.
 *
 * Mechanism.  The queue has a slot of its own (BUSQ_LIFE_SHARED), and so has every reader (BUSQ_LIFE_CONSUMER), whose
 * own ring stays closed.  A reader scans the queue by itself, with a heap of its own: what is next follows from shared
 * words alone, so all of them find the same.  It reaches for a message by a swap of what stands in the ring:
 *
 *      sender                      free; with OFFERED, where it came back, and RETURNED, if its delivery is recorded
 *      CLAIMED | reader            reached for: others pass it.  The reader's death sets it free
 *      BUSQ_RING_NOBODY            done with: copied and released, or in the hands of its reader
 *
 * Record and tag stay beside it, so that a swap by a reader that was stopped since it looked fails wherever the message
 * was taken meanwhile: it can't reach for another one.  And where it succeeds, all that was read of the record before
 * was true, since no process has released it.  (A claim in the record itself would be neither: the record may be used
 * again between look and swap, with fewer destinations, and then the swap would hit a payload.)
 *
 * What a reader keeps, to look at it in place or to acknowledge it, it moves from the common ring to its hands:
 * positions from head to tail of its own ring, which only it fills.
 *
 *      CLAIMED | OFFERED | reader  to be acknowledged.  Its death sets it free, in this place
 *      CLAIMED | TAKEN | reader    its death releases it
 *
 *      1. its slot shows where it is about to reach (busq_slot.reaches)      2. the swap
 *      3. the message is put into its hands                                 4. its place is done with
 * Killed behind 3, it is found in both, and its hands count.  (What came back and stands in its own hands stays there.)
 * From 2 on only the reader changes either; after its death, the process that is in its grave (busq_share_settle).
 * Free messages in the hands of readers alive, dead or gone are taken from there as from the common ring, by their
 * keys.  They keep the slot of a reader that is gone from being used anew, and belong to the queue's estate.
 *
 * What comes back is counted (busq_slot.returns), for readers that have passed it: they look again from the head on,
 * and into all hands.  Should the process that gives it back be stopped before it counts, they find it when they look
 * for the dead.
 *
 * The heads move over what is done with, by swaps of any process that comes by; that of a reader alive stands still.
 *
 * The life of the queue: each reader holds a read lock on the queue's byte and on that of its name (life.h), so that
 * they look held for as long as a reader lives.
 *
 * Not given: which reader gets a message; room behind a reader that is stopped between 2 and 4, some tens of
 * instructions.
 *
 * Proven without a bound: busq/lab/proof/models/share.py.
 */
#include "shm/memory/bus.h"

/* Where a message stands: the slot of the ring (12) | the position (52). */
typedef uint64_t busq_place;
#define BUSQ_PLACE_POSITION_MASK BUSQ_RING_POSITION_MASK

static inline busq_place busq_place_at(uint32_t slot, uint64_t position)
{
  return (uint64_t)slot << BUSQ_RING_POSITION_BITS | (position & BUSQ_PLACE_POSITION_MASK);
}

static inline uint32_t busq_place_slot(busq_place place)
{
  return (uint32_t)(place >> BUSQ_RING_POSITION_BITS);
}

static inline uint64_t busq_place_position(busq_place place)
{
  return place & BUSQ_PLACE_POSITION_MASK;
}

static inline uint64_t busq_share_word(uint32_t slot, uint32_t incarnation)
{
  return (uint64_t)incarnation << 32 | slot;
}

/* The reader that has made a claim. */
static inline uint32_t busq_share_reader(uint32_t slot)
{
  return BUSQ_RING_CLAIMED | slot;
}

static inline bool busq_share_is_claim_of(busq_reference seen, uint32_t reader)
{
  return seen.sender != BUSQ_RING_NOBODY &&
         (seen.sender & (BUSQ_RING_CLAIMED | BUSQ_RING_SENDER_MASK)) == busq_share_reader(reader);
}

/* Is this a reader of the queue in that slot, as it is now?  Alive, dead or gone. */
bool busq_share_is_reader_of(const busq_bus *bus, uint32_t reader, uint32_t slot);
/* And alive, by the kernel? */
bool busq_share_lives(const busq_bus *bus, uint32_t reader, uint32_t slot);
/* How many of those there are. */
uint32_t busq_share_readers(const busq_bus *bus, uint32_t slot);
/* Does it hold anything, or is there anything in its hands that another reader may have? */
bool busq_share_has_hands_full(const busq_bus *bus, uint32_t reader);
bool busq_share_look(const busq_bus *bus, busq_place place, busq_reference *seen);
bool busq_share_change(const busq_bus *bus, busq_place place, busq_reference seen, busq_reference to);
/* Puts a message into the reader's hands, at a position that is empty. */
void busq_share_put(const busq_bus *bus, uint32_t reader, uint64_t position, busq_reference reference);
/* Moves the head of a ring over what is done with; the queue's own, or that of one of its readers that is gone. */
void busq_share_advance(busq_bus *bus, uint32_t slot, uint32_t queue);
/* Marks a place as done with. */
void busq_share_done(busq_bus *bus, busq_place place, uint32_t queue);
/* Something came back: its readers look again, those that sleep included. */
void busq_share_returned(busq_bus *bus, uint32_t slot);
/* In the grave of a reader, or for a reader that is leaving: ends what it has reached for, and sets free what it has to
 * acknowledge; and, if it `is_dead`, releases what it has taken.  A bounded step, true when nothing is left to do. */
bool busq_share_settle(busq_bus *bus, uint32_t reader, bool is_dead);

#endif /* BUSQ_SHM_MESSAGE_SHARED_TAKE_H */
