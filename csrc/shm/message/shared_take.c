/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/message/shared_take.h"
#include "base/assert.h"
#include "shm/memory/life.h"
#include "shm/message/reference.h"
#include "shm/wake/wake.h"

/* ---- its readers ---- */

static uint32_t life_state(const busq_bus *bus, uint32_t slot)
{
  return (uint32_t)busq_load_acquire(&bus->slots[slot].life) & BUSQ_LIFE_MASK;
}

bool busq_share_is_reader_of(const busq_bus *bus, uint32_t reader, uint32_t slot)
{
  const uint64_t life = busq_load_acquire(&bus->slots[reader].life);
  return (life & BUSQ_LIFE_CONSUMER) && reader != slot &&
         busq_load_acquire(&bus->slots[reader].consumes) ==
             busq_share_word(slot, (uint32_t)(busq_load_acquire(&bus->slots[slot].life) >> 32));
}

bool busq_share_lives(const busq_bus *bus, uint32_t reader, uint32_t slot)
{
  return busq_share_is_reader_of(bus, reader, slot) && life_state(bus, reader) == BUSQ_LIFE_LIVE &&
         busq_life_is_held(bus, reader);
}

uint32_t busq_share_readers(const busq_bus *bus, uint32_t slot)
{
  uint32_t n_readers = 0;
  for (uint32_t reader = 0; reader < busq_slots_reached(bus); reader++)
    n_readers += busq_share_lives(bus, reader, slot);
  return n_readers;
}

/* ---- places ---- */

bool busq_share_look(const busq_bus *bus, busq_place place, busq_reference *seen)
{
  const busq_ring ring = busq_bus_ring(bus, busq_place_slot(place));
  return busq_ring_look(&ring, busq_place_position(place), seen);
}

bool busq_share_change(const busq_bus *bus, busq_place place, busq_reference seen, busq_reference to)
{
  const busq_ring ring = busq_bus_ring(bus, busq_place_slot(place));
  return busq_ring_change(&ring, busq_place_position(place), seen, to);
}

void busq_share_put(const busq_bus *bus, uint32_t reader, uint64_t position, busq_reference reference)
{
  const busq_ring ring = busq_bus_ring(bus, reader);
  busq_pair seen = busq_pair_load(&ring.queue->clock_tail);
  BUSQ_STEP("hand");
  if (busq_ring_position(seen.hi) == position) /* no other process does that with a ring that is closed */
    (void)busq_pair_cas(&ring.queue->clock_tail, &seen, (busq_pair){seen.lo, seen.hi + 1});
  seen = busq_pair_load(busq_ring_slot(&ring, position));
  BUSQ_STEP("hand");
  (void)busq_pair_cas(busq_ring_slot(&ring, position), &seen, busq_ring_content(&ring, position, reference));
}

/* Will what stands there never be received? A claim is ended by the process that made it; where the tail went up and
 * nothing was put yet, nothing ever will be, since the reader is gone. */
static bool position_is_done(const busq_bus *bus, uint32_t slot, uint32_t queue, const busq_ring *ring,
                             uint64_t position)
{
  busq_reference seen;
  if (!busq_ring_look(ring, position, &seen))
    return slot != queue;
  if (seen.sender == BUSQ_RING_NOBODY)
    return true;
  return !(seen.sender & BUSQ_RING_CLAIMED) && busq_reference_fate(bus, queue, seen) == BUSQ_FATE_DEAD;
}

/*
 * Looked at again behind the swap: of two that are through with neighbours, one moves the head over both.
 *
 *      one     is done with the head's position; looks at the next: not done
 *      other   is done with the next; looks at the head: not its own
 *      one     moves the head by one; looks at the next: done
 */
void busq_share_advance(busq_bus *bus, uint32_t slot, uint32_t queue)
{
  busq_slot *self = &bus->slots[slot];
  const busq_ring ring = busq_bus_ring(bus, slot);
  bool has_moved = false;
  for (;;) {
    const uint64_t head = busq_load_acquire(&self->queue.head), tail = busq_ring_tail(&ring);
    uint64_t to = head;
    while (to < tail && to - head < ring.slot_count && position_is_done(bus, slot, queue, &ring, to))
      to++;
    if (to == head)
      break;
    BUSQ_STEP("head");
    /* SYNC POINT ring-head: from here on these slots may be written again. */
    has_moved |= busq_cas64(&self->queue.head, head, to);
    busq_fence_full();
  }
  if (has_moved)
    busq_wake_for_room(bus, slot);
}

void busq_share_done(busq_bus *bus, busq_place place, uint32_t queue)
{
  const uint32_t slot = busq_place_slot(place);
  busq_reference seen;
  BUSQ_STEP("done");
  if (busq_share_look(bus, place, &seen) && seen.sender != BUSQ_RING_NOBODY)
    (void)busq_share_change(bus, place, seen, busq_ring_nothing(busq_place_position(place)));
  busq_fence_after_swap();
  if (busq_load_acquire(&bus->slots[slot].queue.head) == busq_place_position(place) &&
      (slot == queue || life_state(bus, slot) != BUSQ_LIFE_LIVE))
    busq_share_advance(bus, slot, queue);
}

/* ---- what comes back ---- */

void busq_share_returned(busq_bus *bus, uint32_t slot)
{
  BUSQ_STEP("returned");
  (void)busq_fetch_add(&bus->slots[slot].returns, 1);
  busq_wake_readers_of(bus, slot);
}

/* The queue that a reader shares; false where that has ended, which it does not before its readers' hands are empty. */
static bool queue_of(const busq_bus *bus, uint32_t reader, uint32_t *slotp)
{
  const uint32_t slot = (uint32_t)busq_load_acquire(&bus->slots[reader].consumes);
  *slotp = slot;
  return slot < busq_slots_reached(bus) && busq_share_is_reader_of(bus, reader, slot);
}

/* A record that its reader has released may be used again, and then holds another message. */
static bool claim_is_over(const busq_bus *bus, uint32_t queue, const busq_record *record, uint64_t tag, uint32_t *markp)
{
  const uint64_t state = busq_load_acquire(&record->state.lo);
  const uint32_t destinations = busq_record_destinations(record);
  *markp = destinations <= bus->geometry.peers ? busq_record_mark_of(record, destinations, queue) : BUSQ_NO_MARK;
  return state != (tag | BUSQ_PHASE_COMMITTED) || *markp == BUSQ_NO_MARK ||
         (busq_load_acquire(&record->destination[*markp].mark) & BUSQ_MARK_RELEASED) ||
         !busq_record_is_still(record, state);
}

static void record_release(busq_bus *bus, uint32_t reader, busq_record *record, uint32_t mark)
{
  const uint32_t from = busq_record_sender(record);
  busq_arena_release(bus, reader, record, mark);
  if (from < busq_slots_reached(bus))
    busq_wake_owner(bus, from);
}

/* A claim of the reader: released, it is over; otherwise it is set free. */
static void claim_settle(busq_bus *bus, uint32_t queue, uint32_t reader, busq_place place, busq_reference seen)
{
  uint32_t mark;
  busq_record *record = busq_reference_record(bus, seen);
  const bool is_over = !record || claim_is_over(bus, queue, record, seen.tag, &mark);
  if (!is_over && !(seen.sender & BUSQ_RING_TAKEN)) {
    const uint32_t bits = BUSQ_RING_OFFERED | (seen.sender & BUSQ_RING_RETURNED);
    (void)busq_share_change(bus, place, seen,
                            (busq_reference){busq_record_sender(record) | bits, seen.record, seen.tag});
    return;
  }
  if (!is_over)
    record_release(bus, reader, record, mark);
  busq_share_done(bus, place, queue);
}

static bool hands_hold(const busq_bus *bus, uint32_t reader, busq_reference reached)
{
  const busq_ring hands = busq_bus_ring(bus, reader);
  const uint64_t tail = busq_ring_tail(&hands);
  busq_reference seen;
  for (uint64_t at = busq_load_acquire(&hands.queue->head); at < tail; at++)
    if (busq_ring_look(&hands, at, &seen) && busq_share_is_claim_of(seen, reader) && seen.record == reached.record &&
        seen.tag == reached.tag)
      return true;
  return false;
}

/* Sets free what it was about to take when it died. */
static void reach_settle(busq_bus *bus, uint32_t queue, uint32_t reader)
{
  const busq_place place = busq_load_acquire(&bus->slots[reader].reaches);
  busq_reference seen;
  if (!place || busq_place_slot(place) >= busq_slots_reached(bus) || busq_place_slot(place) == reader ||
      !busq_share_look(bus, place, &seen) || !busq_share_is_claim_of(seen, reader))
    return;
  if (hands_hold(bus, reader, seen))
    busq_share_done(bus, place, queue);
  else
    claim_settle(bus, queue, reader, place, seen);
}

bool busq_share_settle(busq_bus *bus, uint32_t reader, bool is_dead)
{
  busq_slot *self = &bus->slots[reader];
  const busq_ring hands = busq_bus_ring(bus, reader);
  uint32_t queue;
  if (!queue_of(bus, reader, &queue))
    return true;
  reach_settle(bus, queue, reader);
  const uint64_t head = busq_load_acquire(&hands.queue->head), tail = busq_ring_tail(&hands);
  const uint64_t begun = is_dead ? busq_load_relaxed(&self->settled) : 0;
  uint64_t at = begun > head && begun <= tail ? begun : head;
  if (head > tail || tail - at > hands.slot_count)
    at = tail; /* damage */
  for (uint32_t i = 0; at != tail && (i < busq_step_looks || !is_dead); at++, i++) {
    busq_reference seen;
    if (busq_ring_look(&hands, at, &seen) && busq_share_is_claim_of(seen, reader) &&
        (is_dead || !(seen.sender & BUSQ_RING_TAKEN)))
      claim_settle(bus, queue, reader, busq_place_at(reader, at), seen);
  }
  if (is_dead) {
    BUSQ_STEP("settle");
    busq_store_relaxed(&self->settled, at);
  }
  busq_share_returned(bus, queue);
  return at == tail;
}

bool busq_share_has_hands_full(const busq_bus *bus, uint32_t reader)
{
  const busq_ring hands = busq_bus_ring(bus, reader);
  const busq_place place = busq_load_acquire(&bus->slots[reader].reaches);
  busq_reference seen;
  if (busq_load_acquire(&hands.queue->head) != busq_ring_tail(&hands))
    return true;
  return place && busq_place_slot(place) < busq_slots_reached(bus) && busq_share_look(bus, place, &seen) &&
         busq_share_is_claim_of(seen, reader);
}
