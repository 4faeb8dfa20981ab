/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_QUEUE_RING_H
#define BUSQ_QUEUE_RING_H
/*
 * The queue of one peer: a bounded ring of references, written by all peers, read by its owner, ordered by a clock.
 *
 * Guarantee.
 *   1. Positions are handed out in the order of rising clocks: a reference placed later is bounded below by a clock
 *      that is at least as high, so the ring is sorted, except for references whose final timestamp came out higher
 *      than where they stand ("late" ones; the reader moves them to its heap).
 *   2. A producer that was stopped for an hour between any two instructions can't damage a later lap: all it still may
 *      do is a swap that fails.
 *   3. After busq_ring_close nothing is placed any more, and the next life of the queue can't be mistaken for this one.
 *      So it is after busq_ring_end, but for what busq_ring_place_behind places; a queue that has ended shows that.
 *
 * Mechanism.  One 16-byte word {clock, tail} changes only by compare-and-swap, so that taking the clock to a timestamp
 * and taking the next position are one step; nothing slips between.  Then the slot of that position is swapped from its
 * content of the lap before to the reference.  No content ever comes twice (it carries lap, sender, record and the
 * record's sequence number; a skip carries its position), so the swap can't succeed by accident.
 *
 *      tail word:  closed (1 bit) | life, or how it has ended (11 bits) | position (52 bits)
 *      slot:       1 (1) | lap (15) | sender (16) | record (32)  ,  tag (64): sequence number, attempt; 0: never used
 *      sender:     its slot (12), or, once a reader has reached for it, the reader's | BUSQ_RING_* (4), in a queue of
 *                  several readers (shm/message/shared_take.h)
 *      backing:    whole (1 bit) | position (63 bits)
 *
 * Room is counted twice.  `capacity` is what producers respect before they begin; the ring has at least one more slot
 * per peer than that, so that a multicast which began with room everywhere never finds a ring full half-way, and never
 * has to wait while its references block others.
 *
 * A ring may be short.  Guarantee: then its first BUSQ_RING_SHORT slots alone are touched, and it is a ring of so many;
 * from one position on it becomes whole, wherever that is, without a message being moved, and stays so.  It may be bare
 * before: then none is.
 *
 *      bare     backing is the first position        no position is taken
 *      short    backing is a position, the end       positions before the end are taken; position p stands in slot
 *                                                    p mod SHORT.  Invariant: tail <= end <= head + SHORT
 *      whole    backing is a position, and whole     from there on, position p stands in slot (p - turn) mod slots,
 *                                                    turned inside of its SHORT slots so that those of p mod SHORT stay
 *                                                    where they are; turn = the position - SHORT
 *
 * `backing` changes by compare-and-swap, and rises; once whole, it never changes again.  A sender that finds the tail at
 * the end swaps it for a higher end, where the head has moved on, or for the same one and whole, where the slots have
 * got memory (shm/memory/reserve.h).  So of several that do that, one succeeds, and the form of a position is fixed
 * before a process takes it:
 *   1. It is taken by a process that has read an end behind it, or that the ring is whole.  Ends rise while the ring is
 *      short, and it becomes whole at the last of them: what stands before an end is short for ever, and what stands
 *      behind it once the ring is whole was never short.
 *   2. A copy of the backing that is out of date is right about all positions before its end; a reader, which keeps one,
 *      looks again there.  A process that has read a tail, and then the backing, has an end that is not before that
 *      tail: the end was there before any position up to it was taken.
 *   3. No two positions between head and tail share a slot.  While it is short, they are SHORT at most.  When it becomes
 *      whole at `end`, none of them is before end - SHORT = turn, and from turn on the two forms agree up to the end.
 *   4. So what a slot held before a position is settled, as in a ring that is whole from the start: in a short one the
 *      position before it in its slot is p - SHORT < end - SHORT <= head.
 *   5. The backing does not show any more where a position before turn stood, which a reader has skipped.  Its sender
 *      keeps the slot from when it took the position.
 * A process that is killed has either swapped or not; memory that it got before is got again.
 *
 * Where a ring can't become whole, a sender finds it full that began with room: it takes its message back, as where
 * holes have used up the slots to spare (shm/send/multicast.c), and waits for room.
 *
 * Not given: that a published reference is final (the record it points to has that), wake-ups, or memory for payloads.
 */
#include "base/assert.h"
#include "base/atomic.h"
#include "base/types.h"
#include "clock/lamport.h"

#define BUSQ_RING_POSITION_BITS 52
#define BUSQ_RING_POSITION_MASK ((UINT64_C(1) << BUSQ_RING_POSITION_BITS) - 1)
#define BUSQ_RING_LAP_SHIFT 48 /* in the first half of a slot */
#define BUSQ_RING_LAP_BITS 15
#define BUSQ_RING_USED (UINT64_C(1) << BUSQ_RING_LAP_BITS) /* above the lap: no lap looks like memory that was never used */
#define BUSQ_RING_WHOLE (UINT64_C(1) << 63)                /* in `backing` */
/* Slots of a short ring, a page of them.  Tests make it less. */
#ifdef BUSQ_STEPS
extern uint64_t busq_ring_short;
#define BUSQ_RING_SHORT busq_ring_short
#else
#define BUSQ_RING_SHORT UINT64_C(256)
#endif
#define BUSQ_RING_LIFE_MASK UINT32_C(0x7ff)
#define BUSQ_RING_CLOSED (UINT64_C(1) << 63)
#define BUSQ_RING_ENDED (BUSQ_RING_CLOSED | UINT64_C(1) << BUSQ_RING_POSITION_BITS)   /* for good: what stands there is still received */
#define BUSQ_RING_DROPPED (BUSQ_RING_CLOSED | UINT64_C(2) << BUSQ_RING_POSITION_BITS) /* for good, and nothing is received any more */
#define BUSQ_RING_NOBODY UINT32_C(0xffff)
#define BUSQ_RING_SENDER_MASK UINT32_C(0x0fff)
#define BUSQ_RING_CLAIMED UINT32_C(0x8000)  /* by the reader whose slot stands in place of the sender's */
#define BUSQ_RING_OFFERED UINT32_C(0x4000)  /* a reader has had it, and will again, or another one, unless it is acknowledged */
#define BUSQ_RING_RETURNED UINT32_C(0x2000) /* it was taken and given back: its delivery is recorded */
#define BUSQ_RING_TAKEN UINT32_C(0x1000)    /* by the reader that claimed it: if that dies, the message is lost with it */

/* In shared memory. */
typedef struct {
  _Alignas(BUSQ_LINE_PAIR_BYTES) busq_pair clock_tail;
  uint64_t backing; /* which slots have memory.  Beside the tail, since senders read it as often */
  /* Written by the reader alone.  Invariant: tail - slots <= head <= tail. */
  _Alignas(BUSQ_LINE_PAIR_BYTES) uint64_t head;
} busq_queue;

/* A private view of one queue; sizes are private copies that no other process can change. */
typedef struct {
  busq_queue *queue;
  busq_pair *slots;
  uint64_t slot_count; /* a power of two */
  uint32_t lap_shift;  /* positions of a lap, as a power of two: of a ring that may be short, of that */
  bool grows;          /* `backing` shows which slots it has; otherwise it has all */
} busq_ring;

typedef struct {
  uint32_t sender;
  uint32_t record;
  uint64_t tag;
} busq_reference;

typedef struct {
  uint64_t position;
  busq_pair *slot;
  busq_pair before;   /* what the slot held when the position was taken */
  uint64_t timestamp; /* proposed, or the stamp */
  uint64_t clock;   /* of the queue, before it was taken */
} busq_ring_claim;

typedef enum {
  BUSQ_RING_ACCEPTED, /* stands at the proposed timestamp */
  BUSQ_RING_LATE,     /* the clock had passed the proposal: stands behind the clock */
  BUSQ_RING_FULL,
  BUSQ_RING_AT_END, /* of a short ring, or a bare one */
  BUSQ_RING_GONE, /* closed, or another life */
  BUSQ_RING_DAMAGED
} busq_ring_outcome;

static inline uint64_t busq_ring_life_bits(uint32_t incarnation)
{
  return (uint64_t)(incarnation & BUSQ_RING_LIFE_MASK) << BUSQ_RING_POSITION_BITS;
}

static inline uint64_t busq_ring_position(uint64_t tail_word)
{
  return tail_word & BUSQ_RING_POSITION_MASK;
}

static inline uint64_t busq_ring_lap(const busq_ring *ring, uint64_t position)
{
  return ((position >> ring->lap_shift) & (BUSQ_RING_USED - 1)) | BUSQ_RING_USED;
}

/* May a ring of so many slots be short?  Positions in the same slot, one after the other, must differ in their laps. */
static inline bool busq_ring_may_be_short(uint64_t slot_count)
{
  return slot_count > BUSQ_RING_SHORT && slot_count < BUSQ_RING_SHORT << BUSQ_RING_LAP_BITS;
}

/* Where a position stands, as the backing shows, of which the caller has a copy: damaged, it leads to a wrong slot, and
 * to none outside. */
static inline busq_pair *busq_ring_slot_in(const busq_ring *ring, uint64_t backing, uint64_t position)
{
  const uint64_t inside = position & (BUSQ_RING_SHORT - 1), turn = backing - BUSQ_RING_SHORT;
  const uint64_t page = backing & BUSQ_RING_WHOLE ? (position - turn) & ~(BUSQ_RING_SHORT - 1) : 0;
  return &ring->slots[(page | inside) & (ring->slot_count - 1)];
}

static inline uint64_t busq_ring_backing(const busq_ring *ring)
{
  /* SYNC POINT backing: its slots have memory, and what stood in them before is done. */
  return busq_load_acquire(&ring->queue->backing);
}

/* Is there a slot for the position? */
BUSQ_ALWAYS_INLINE bool busq_ring_reaches(const busq_ring *ring, uint64_t position)
{
  return BUSQ_LIKELY(!ring->grows) || BUSQ_LIKELY(position < busq_ring_backing(ring));
}

/* The slot of a position that was taken. */
static inline busq_pair *busq_ring_slot(const busq_ring *ring, uint64_t position)
{
  if (BUSQ_LIKELY(!ring->grows))
    return &ring->slots[position & (ring->slot_count - 1)];
  return busq_ring_slot_in(ring, busq_ring_backing(ring), position);
}

/*
 * Takes the next position of a queue of the given life.  Proposed is the timestamp to stand at; with `stamp`, the
 * reference instead ticks the clock past both `proposed - 1` and its present value and the result is stored there
 * before any process can see it.  Fails with BUSQ_RING_FULL at `limit` references, and with BUSQ_RING_AT_END where
 * there is no slot for the next one; *head_seen caches the reader's head between calls.
 */
static inline busq_ring_outcome busq_ring_place_in(const busq_ring *ring, uint64_t life, uint64_t proposed,
                                                   uint64_t *stamp, uint64_t limit, uint64_t *head_seen,
                                                   busq_ring_claim *claim)
{
  busq_pair seen = busq_pair_load(&ring->queue->clock_tail);
  for (;;) {
    const uint64_t position = busq_ring_position(seen.hi);
    if (BUSQ_UNLIKELY((seen.hi & ~BUSQ_RING_POSITION_MASK) != life))
      return BUSQ_RING_GONE;
    if (BUSQ_UNLIKELY(!busq_timestamp_is_sound(seen.lo)))
      return BUSQ_RING_DAMAGED;
    if (BUSQ_UNLIKELY(position - *head_seen >= limit)) {
      /* SYNC POINT ring-head: what the reader has consumed up to here, and with it the content of the slots, is
       * settled. */
      *head_seen = busq_load_acquire(&ring->queue->head);
      /* The head may have passed the tail that we read before it: then the swap below fails, and we look again. */
      if (position - *head_seen >= limit && position >= *head_seen)
        return position - *head_seen <= ring->slot_count ? BUSQ_RING_FULL : BUSQ_RING_DAMAGED;
    }
    if (BUSQ_UNLIKELY(!busq_ring_reaches(ring, position)))
      return BUSQ_RING_AT_END;
    claim->slot = busq_ring_slot(ring, position);
    claim->before = busq_pair_load(claim->slot);
    const uint64_t timestamp = stamp ? busq_timestamp_max(proposed, seen.lo + 1) : proposed;
    const bool accepted = seen.lo < timestamp;
    if (stamp)
      busq_store_relaxed(stamp, timestamp);
    BUSQ_STEP("place");
    const busq_pair next = {accepted ? timestamp : seen.lo, seen.hi + 1};
    BUSQ_ASSERT(next.lo >= seen.lo); /* a clock never goes back */
    BUSQ_ASSERT(accepted || !stamp); /* a stamp is never late */
    claim->clock = seen.lo;
    claim->timestamp = timestamp;
    if (BUSQ_LIKELY(busq_pair_cas(&ring->queue->clock_tail, &seen, next))) {
      claim->position = position;
      return accepted ? BUSQ_RING_ACCEPTED : BUSQ_RING_LATE;
    }
  }
}

static inline busq_ring_outcome busq_ring_place(const busq_ring *ring, uint32_t incarnation, uint64_t proposed,
                                                uint64_t *stamp, uint64_t limit, uint64_t *head_seen,
                                                busq_ring_claim *claim)
{
  return busq_ring_place_in(ring, busq_ring_life_bits(incarnation), proposed, stamp, limit, head_seen, claim);
}

/* In a queue that has ended, for what was promised a place before. */
busq_ring_outcome busq_ring_place_behind(const busq_ring *ring, uint64_t proposed, uint64_t *stamp, uint64_t limit,
                                         uint64_t *head_seen, busq_ring_claim *claim);

static inline busq_pair busq_ring_content(const busq_ring *ring, uint64_t position, busq_reference reference)
{
  return (busq_pair){busq_ring_lap(ring, position) << BUSQ_RING_LAP_SHIFT | (uint64_t)reference.sender << 32 |
                         reference.record,
                     reference.tag};
}

/* The content of a position that is not needed. */
static inline busq_reference busq_ring_nothing(uint64_t position)
{
  return (busq_reference){BUSQ_RING_NOBODY, UINT32_MAX, position};
}

static inline busq_pair busq_ring_skipped(const busq_ring *ring, uint64_t position)
{
  return busq_ring_content(ring, position, busq_ring_nothing(position));
}

/* Publishes the reference at the claimed position; false where a reader has skipped the hole meanwhile.  The slot is that of
 * the claim: to a sender that was stopped until the ring became whole, far behind its position, the backing shows another
 * one, which no reader looks at, and which may hold what the slot held. */
static inline bool busq_ring_publish(const busq_ring *ring, const busq_ring_claim *claim, busq_reference reference)
{
  busq_pair expected = claim->before;
  BUSQ_ASSERT(reference.sender <= BUSQ_RING_NOBODY);
  BUSQ_STEP("publish");
  /* SYNC POINT slot: payload, destinations and proposal of the record come before its reference. */
  return busq_pair_cas(claim->slot, &expected, busq_ring_content(ring, claim->position, reference));
}

static inline bool busq_ring_look_into(const busq_ring *ring, busq_pair *slot, uint64_t position,
                                       busq_reference *reference)
{
  /* SYNC POINT slot */
  const busq_pair seen = busq_pair_load(slot);
  if (seen.lo >> BUSQ_RING_LAP_SHIFT != busq_ring_lap(ring, position))
    return false;
  reference->sender = (uint32_t)(seen.lo >> 32) & 0xffff;
  reference->record = (uint32_t)seen.lo;
  reference->tag = seen.hi;
  return true;
}

/* The reference at a position; false while it is a hole.  A skipped one has the sender BUSQ_RING_NOBODY. */
static inline bool busq_ring_look(const busq_ring *ring, uint64_t position, busq_reference *reference)
{
  return busq_ring_look_into(ring, busq_ring_slot(ring, position), position, reference);
}

/* Changes what stands at a position, if that is still what was seen there. */
static inline bool busq_ring_change(const busq_ring *ring, uint64_t position, busq_reference seen, busq_reference to)
{
  busq_pair expected = busq_ring_content(ring, position, seen);
  return busq_pair_cas(busq_ring_slot(ring, position), &expected, busq_ring_content(ring, position, to));
}

/* The position behind the last one taken. */
static inline uint64_t busq_ring_tail(const busq_ring *ring)
{
  return busq_ring_position(busq_load_acquire(&ring->queue->clock_tail.hi));
}

/* How many positions stand between head and tail; no more than the ring has, also where the bus is damaged. */
static inline uint64_t busq_ring_depth(const busq_ring *ring)
{
  const uint64_t head = busq_load_acquire(&ring->queue->head);
  const uint64_t depth = busq_ring_tail(ring) - head;
  return depth <= ring->slot_count ? depth : ring->slot_count;
}

static inline uint64_t busq_ring_clock(const busq_ring *ring)
{
  return busq_load_relaxed(&ring->queue->clock_tail.lo);
}

/* Raises the clock to at least the timestamp; a clock never goes back. */
static inline void busq_ring_raise(const busq_ring *ring, uint64_t timestamp)
{
  busq_pair seen = busq_pair_load(&ring->queue->clock_tail);
  while (seen.lo < timestamp) {
    BUSQ_STEP("raise");
    if (busq_pair_cas(&ring->queue->clock_tail, &seen, (busq_pair){timestamp, seen.hi}))
      return;
  }
}

/* Makes a hole a skipped position; false where the producer was faster. */
bool busq_ring_skip(const busq_ring *ring, uint64_t position);
/* For a reader of several, which does so only if the head has not passed the position: stopped before, while others went on, it
 * would put a hole in the place of a message of a later lap. */
bool busq_ring_skip_if_not_passed(const busq_ring *ring, uint64_t position);
/* Ends this life: nothing is placed from now on.  Returns the tail, which stands still. */
uint64_t busq_ring_close(const busq_ring *ring);
/* Ends an open queue for good, or drops one that has ended, in one step; false where it is closed otherwise. */
bool busq_ring_end(const busq_ring *ring, bool drops);
/* BUSQ_RING_ENDED or BUSQ_RING_DROPPED; 0 for all that has not ended. */
static inline uint64_t busq_ring_ending(const busq_ring *ring)
{
  const uint64_t bits = busq_load_acquire(&ring->queue->clock_tail.hi) & ~BUSQ_RING_POSITION_MASK;
  return bits == BUSQ_RING_ENDED || bits == BUSQ_RING_DROPPED ? bits : 0;
}
/* Begins a life on a closed queue; clock and positions go on rising. */
void busq_ring_open(const busq_ring *ring, uint32_t incarnation);
/* A new ring in zeroed memory: position and clock start above what zeroed slots could be mistaken for.  Several processes may
 * do it, and one of them late: no word is zero again. */
void busq_ring_init(const busq_ring *ring);
bool busq_ring_verify(const busq_ring *ring);

#endif /* BUSQ_QUEUE_RING_H */
