/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/share.h"
#include "base/assert.h"
#include "shm/life.h"
#include "shm/reference.h"
#include "shm/wake.h"

bool busq_share_is_reader_of(const busq_bus *bus, uint32_t reader, uint32_t slot)
{
  const uint64_t life = busq_load_acquire(&bus->slots[reader].life);
  const uint64_t consumes = busq_load_acquire(&bus->slots[reader].consumes);
  return (life & BUSQ_LIFE_CONSUMER) &&
         consumes == busq_share_word(slot, (uint32_t)(busq_load_acquire(&bus->slots[slot].life) >> 32));
}

uint32_t busq_share_readers(const busq_bus *bus, uint32_t slot)
{
  uint32_t n_readers = 0;
  for (uint32_t reader = 0; reader < bus->geometry.peers; reader++)
    n_readers += busq_share_is_reader_of(bus, reader, slot) &&
                 (busq_load_acquire(&bus->slots[reader].life) & BUSQ_LIFE_MASK) == BUSQ_LIFE_LIVE && busq_life_is_held(bus, reader);
  return n_readers;
}

/* ---- the head ---- */

void busq_share_done(const busq_ring *ring, uint64_t position)
{
  busq_reference seen;
  BUSQ_STEP("done");
  if (busq_ring_look(ring, position, &seen) && seen.sender != BUSQ_RING_NOBODY)
    (void)busq_ring_change(ring, position, seen, busq_ring_nothing(position));
}

/* Nobody will ever receive what stands there.  A claim is somebody's, who ends it. */
static bool position_is_done(const busq_bus *bus, uint32_t slot, const busq_ring *ring, uint64_t position)
{
  busq_reference seen;
  if (!busq_ring_look(ring, position, &seen))
    return false;
  if (seen.sender == BUSQ_RING_NOBODY)
    return true;
  return !(seen.sender & BUSQ_RING_CLAIMED) && busq_reference_fate(bus, slot, seen) == BUSQ_FATE_DEAD;
}

/*
 * Looked at again behind the swap: of two that are through with neighbours, one moves the head over both.
 *
 *      one     is done with the head's position; looks at the next: not done
 *      other   is done with the next; looks at the head: not its own
 *      one     moves the head by one; looks at the next: done
 */
void busq_share_advance(busq_bus *bus, uint32_t slot)
{
  busq_slot *queue = &bus->slots[slot];
  const busq_ring ring = busq_bus_ring(bus, slot);
  bool has_moved = false;
  for (;;) {
    const uint64_t head = busq_load_acquire(&queue->queue.head);
    uint64_t to = head;
    const uint64_t tail = busq_ring_tail(&ring);
    while (to < tail && to - head < ring.slot_count && position_is_done(bus, slot, &ring, to))
      to++;
    if (to == head)
      break;
    BUSQ_STEP("head");
    /* SYNC POINT ring-head: from here on these slots may be written again. */
    has_moved |= busq_cas64(&queue->queue.head, head, to);
    busq_fence_full();
  }
  if (has_moved)
    busq_wake_waiters(&queue->room_waiters, &queue->room_seq);
}

/* ---- what comes back ---- */

void busq_share_returned(busq_bus *bus, uint32_t slot)
{
  busq_slot *queue = &bus->slots[slot];
  BUSQ_STEP("returned");
  (void)busq_fetch_add(&queue->returns, 1);
  busq_wake_readers_of(bus, slot);
}

/* A record that its reader has released may be used again, and then holds another message. */
static bool claim_is_over(const busq_bus *bus, uint32_t slot, const busq_record *record, uint64_t tag, uint32_t *markp)
{
  const uint64_t state = busq_load_acquire(&record->state.lo);
  const uint32_t destinations = busq_record_destinations(record);
  *markp = destinations <= bus->geometry.peers ? busq_record_mark_of(record, destinations, slot) : BUSQ_NO_MARK;
  return state != (tag | BUSQ_PHASE_COMMITTED) || *markp == BUSQ_NO_MARK ||
         (busq_load_acquire(&record->destination[*markp].mark) & BUSQ_MARK_RELEASED) || !busq_record_is_still(record, state);
}

static void record_release(busq_bus *bus, uint32_t reader, busq_record *record, uint32_t mark)
{
  const uint32_t from = busq_record_sender(record);
  busq_arena_release(bus, reader, record, mark);
  if (from < bus->geometry.peers)
    busq_wake_waiters(&bus->slots[from].memory_waits, &bus->slots[from].memory_seq);
}

/* True where something came back. */
static bool position_settle(busq_bus *bus, uint32_t slot, uint32_t reader, const busq_ring *ring, uint64_t position, bool is_dead)
{
  busq_reference seen;
  uint32_t mark;
  if (!busq_ring_look(ring, position, &seen) || seen.sender == BUSQ_RING_NOBODY ||
      (seen.sender & (BUSQ_RING_CLAIMED | BUSQ_RING_SENDER_MASK)) != busq_share_reader(reader))
    return false;
  if ((seen.sender & BUSQ_RING_TAKEN) && !is_dead)
    return false;
  busq_record *record = busq_reference_record(bus, seen);
  const bool is_over = !record || claim_is_over(bus, slot, record, seen.tag, &mark);
  if (!is_over && !(seen.sender & BUSQ_RING_TAKEN)) {
    const uint32_t had = seen.sender & (BUSQ_RING_OFFERED | BUSQ_RING_RETURNED);
    return busq_ring_change(ring, position, seen, (busq_reference){busq_record_sender(record) | had, seen.record, seen.tag});
  }
  if (!is_over)
    record_release(bus, reader, record, mark);
  (void)busq_ring_change(ring, position, seen, busq_ring_nothing(position));
  return false;
}

bool busq_share_settle(busq_bus *bus, uint32_t reader, bool is_dead)
{
  busq_slot *self = &bus->slots[reader];
  const uint64_t consumes = busq_load_acquire(&self->consumes);
  const uint32_t slot = (uint32_t)consumes;
  if (slot >= bus->geometry.peers || slot == reader ||
      (uint32_t)(busq_load_acquire(&bus->slots[slot].life) >> 32) != (uint32_t)(consumes >> 32))
    return true; /* the queue could not have ended before this was over */
  const busq_ring ring = busq_bus_ring(bus, slot);
  const uint64_t head = busq_load_acquire(&ring.queue->head), tail = busq_ring_tail(&ring);
  const uint64_t begun = is_dead ? busq_load_relaxed(&self->settled) : 0;
  uint64_t at = begun > head && begun <= tail ? begun : head;
  if (tail - at > ring.slot_count)
    at = tail; /* damage, which its readers will report */
  bool is_back = false;
  for (uint32_t i = 0; at != tail && (i < busq_step_looks || !is_dead); at++, i++)
    is_back |= position_settle(bus, slot, reader, &ring, at, is_dead);
  BUSQ_STEP("settle");
  /* Told before it is written down how far we came: killed in between, the next one finds nothing and tells it again. */
  if (is_back || at == tail)
    busq_share_returned(bus, slot);
  if (is_dead)
    busq_store_relaxed(&self->settled, at);
  if (at != tail)
    return false;
  busq_share_advance(bus, slot);
  return true;
}
