/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_SHARE_H
#define BUSQ_SHM_SHARE_H
/*
 * One queue, several readers.
 *
 * Guarantee: each message goes to one of them, and they take messages in the order of the queue.  What one had and had not
 * acknowledged when it died comes again, in its place; what it had only looked at too; what it had taken is lost with it.  No reader that
 * is killed or stopped between any two steps keeps the others from the next message.
 *
 * Mechanism.  The queue has a slot of its own (BUSQ_LIFE_SHARED), and so has every reader (BUSQ_LIFE_CONSUMER), whose own
 * ring stays closed.  A reader scans the queue by itself, with a heap of its own: what is next follows from shared words
 * alone, so all of them find the same.  It reaches for a message by a swap of what stands at its position in the ring:
 *
 *      sender                                  free; also with OFFERED or RETURNED, where somebody has had it
 *      CLAIMED | reader                        reached for: others pass it.  Its death sets it free
 *      CLAIMED | OFFERED | reader              to be acknowledged.  Its death sets it free, as offered
 *      CLAIMED | TAKEN | reader                its death releases it
 *      nobody                                  released before: the position is done with
 *
 * Record and tag stay beside it, so that a swap by a reader that was stopped since it looked fails wherever the message was taken
 * meanwhile: it can't reach for another one.  And where it succeeds, all that was read of the record before was true, for nobody
 * has released it.  (A claim in the record itself would be neither: the record may be used again between look and swap, with
 * fewer destinations, and then the swap would hit a payload.)
 *
 * From CLAIMED on only its reader changes a position; after its death, whoever is in its grave (busq_share_settle).  What comes
 * back is counted (busq_slot.returns), for those who have passed it: they look again from the head on.  Should the one who gives it back be
 * stopped before it counts, they find it when they have nothing else to do (busq_share_tend).
 *
 * The head moves over what is done with, by swaps, whoever comes by.
 *
 * The life of the queue: each reader holds a read lock on the queue's byte and on that of its name (life.h), so that they look
 * held for as long as a reader lives.
 *
 * Not given: which reader gets a message; that one that was stopped with a message in its hand is passed over in favour of the order.
 */
#include "shm/bus.h"

static inline uint64_t busq_share_word(uint32_t slot, uint32_t incarnation)
{
  return (uint64_t)incarnation << 32 | slot;
}

static inline uint32_t busq_share_reader(uint32_t slot)
{
  return BUSQ_RING_CLAIMED | slot;
}

/* Is this a reader of the queue in that slot, as it is now? */
bool busq_share_is_reader_of(const busq_bus *bus, uint32_t reader, uint32_t slot);
/* How many of those the kernel says are alive. */
uint32_t busq_share_readers(const busq_bus *bus, uint32_t slot);
/* The end of a position whose message was released. */
void busq_share_done(const busq_ring *ring, uint64_t position);
/* Moves the head over what is done with. */
void busq_share_advance(busq_bus *bus, uint32_t slot);
/* Something came back: its readers look again, those that sleep included. */
void busq_share_returned(busq_bus *bus, uint32_t slot);
/* In the grave of a reader, or for a reader that is leaving: ends all that it has reached for and not taken; and, if it `is_dead`, what
 * it has taken.  A bounded step, true when nothing is left to do. */
bool busq_share_settle(busq_bus *bus, uint32_t reader, bool is_dead);

#endif /* BUSQ_SHM_SHARE_H */
