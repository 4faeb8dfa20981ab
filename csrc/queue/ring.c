/* SPDX-License-Identifier: Apache-2.0 */
#include "queue/ring.h"

#ifdef BUSQ_STEPS
uint64_t busq_ring_short = 256;
#endif

static bool hole_skip(const busq_ring *ring, uint64_t position, bool may_be_passed)
{
  busq_pair *slot = busq_ring_slot(ring, position);
  const uint64_t lap = busq_ring_lap(ring, position);
  const busq_pair skipped = busq_ring_skipped(ring, position);
  for (;;) {
    busq_pair seen = busq_pair_load(slot);
    /* SYNC POINT ring-head: read behind the slot.  As long as it is not past the position, no later one has stood in that slot. */
    if (seen.lo >> BUSQ_RING_LAP_SHIFT == lap || (may_be_passed && busq_load_acquire(&ring->queue->head) > position))
      return false;
    BUSQ_STEP("skip");
    if (busq_pair_cas(slot, &seen, skipped))
      return true;
  }
}

bool busq_ring_skip(const busq_ring *ring, uint64_t position)
{
  return hole_skip(ring, position, false);
}

bool busq_ring_skip_if_not_passed(const busq_ring *ring, uint64_t position)
{
  return hole_skip(ring, position, true);
}

uint64_t busq_ring_close(const busq_ring *ring)
{
  busq_pair seen = busq_pair_load(&ring->queue->clock_tail);
  while (!(seen.hi & BUSQ_RING_CLOSED)) {
    BUSQ_STEP("close");
    if (busq_pair_cas(&ring->queue->clock_tail, &seen, (busq_pair){seen.lo, busq_ring_position(seen.hi) | BUSQ_RING_CLOSED}))
      break;
  }
  return busq_ring_position(seen.hi);
}

bool busq_ring_end(const busq_ring *ring, bool drops)
{
  const uint64_t ending = drops ? BUSQ_RING_DROPPED : BUSQ_RING_ENDED;
  busq_pair seen = busq_pair_load(&ring->queue->clock_tail);
  for (;;) {
    const uint64_t bits = seen.hi & ~BUSQ_RING_POSITION_MASK;
    if (bits == ending || bits == BUSQ_RING_DROPPED)
      return true;
    if ((bits & BUSQ_RING_CLOSED) && bits != BUSQ_RING_ENDED)
      return false;
    BUSQ_STEP("end");
    if (busq_pair_cas(&ring->queue->clock_tail, &seen, (busq_pair){seen.lo, busq_ring_position(seen.hi) | ending}))
      return true;
  }
}

busq_ring_outcome busq_ring_place_behind(const busq_ring *ring, uint64_t proposed, uint64_t *stamp, uint64_t limit,
                                         uint64_t *head_seen, busq_ring_claim *claim)
{
  return busq_ring_place_in(ring, BUSQ_RING_ENDED, proposed, stamp, limit, head_seen, claim);
}

void busq_ring_open(const busq_ring *ring, uint32_t incarnation)
{
  busq_pair seen = busq_pair_load(&ring->queue->clock_tail);
  busq_pair next;
  do {
    next.lo = seen.lo;
    next.hi = busq_ring_position(seen.hi) | busq_ring_life_bits(incarnation);
  } while (!busq_pair_cas(&ring->queue->clock_tail, &seen, next));
}

void busq_ring_init(const busq_ring *ring)
{
  /* Lap 0 is what zeroed memory looks like, so positions start at lap 1.  The clock starts at 1, so that a proposal of
   * 1 is always too low: tests force lost proposals with it. */
  busq_pair zero = {0, 0};
  (void)busq_cas64(&ring->queue->head, 0, ring->slot_count);
  (void)busq_cas64(&ring->queue->backing, 0, ring->grows ? ring->slot_count : ring->slot_count | BUSQ_RING_WHOLE);
  (void)busq_pair_cas(&ring->queue->clock_tail, &zero, (busq_pair){1, ring->slot_count | BUSQ_RING_CLOSED});
}

bool busq_ring_verify(const busq_ring *ring)
{
  const uint64_t head = busq_load_acquire(&ring->queue->head);
  const uint64_t tail = busq_ring_tail(ring);
  const uint64_t backing = busq_load_acquire(&ring->queue->backing);
  return head <= tail && tail - head <= ring->slot_count && busq_timestamp_is_sound(busq_ring_clock(ring)) &&
         (tail <= backing) && (backing & ~BUSQ_RING_WHOLE) <= head + BUSQ_RING_SHORT;
}
