/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/burial/grave.h"
#include "base/assert.h"
#include "base/time.h"
#include "shm/memory/arena.h"
#include "shm/message/commit.h"
#include "shm/message/reference.h"
#include "shm/message/shared_take.h"
#include "shm/wake/poll_descriptor.h"
#include "shm/wake/wake.h"
#include <sys/types.h>

/* ---- the right to change a slot ---- */

#define LOCK_OF_GRAVE(slot) ((off_t)((INT64_C(1) << 41) + (slot)))

int64_t busq_grave_lock(uint32_t slot)
{
  return LOCK_OF_GRAVE(slot);
}

int busq_grave_open(busq_grave *grave, busq_bus *bus)
{
  grave->bus = bus;
  return busq_guard_open(&grave->guard, bus, &grave->fd);
}

void busq_grave_close(busq_grave *grave)
{
  busq_guard_close(&grave->guard);
}

static uint32_t life_state(uint64_t life)
{
  return (uint32_t)life & BUSQ_LIFE_MASK;
}

static bool life_needs_burial(uint64_t life)
{
  const uint32_t state = life_state(life);
  return state == BUSQ_LIFE_LIVE || state == BUSQ_LIFE_JOINING || state == BUSQ_LIFE_LEAVING;
}

/* Finds a reader of the shared queue in that slot with something left in its hands. */
static bool reader_is_unsettled(const busq_bus *bus, uint32_t reader, uint32_t slot)
{
  return reader != slot && busq_share_is_reader_of(bus, reader, slot) &&
         life_needs_burial(busq_load_acquire(&bus->slots[reader].life));
}

/* Messages in the hands of the last readers of a shared queue are buried with it: their graves are entered with its
 * own. */
static bool readers_enter(const busq_grave *grave, uint32_t slot)
{
  const busq_bus *bus = grave->bus;
  for (uint32_t reader = 0; reader < busq_slots_reached(bus); reader++)
    if (reader_is_unsettled(bus, reader, slot) &&
        (busq_life_is_held(bus, reader) || busq_lock_try(grave->fd, LOCK_OF_GRAVE(reader)) < 0))
      return false;
  return true;
}

static bool is_shared(const busq_bus *bus, uint32_t slot)
{
  return (busq_load_acquire(&bus->slots[slot].life) & BUSQ_LIFE_SHARED) != 0;
}

/* The second look at the life's lock counts: before the first of ours, a new peer may have come and gone. */
bool busq_grave_enter(busq_grave *grave, uint32_t slot)
{
  BUSQ_ASSERT(slot < grave->bus->geometry.peers);
  if (busq_life_is_held(grave->bus, slot) || !busq_grave_visit(grave, slot))
    return false;
  if (!busq_life_is_held(grave->bus, slot) && (!is_shared(grave->bus, slot) || readers_enter(grave, slot)))
    return true;
  busq_grave_leave(grave, slot);
  return false;
}

bool busq_grave_visit(busq_grave *grave, uint32_t slot)
{
  return busq_lock_try(grave->fd, LOCK_OF_GRAVE(slot)) == 0;
}

/* One grave is entered at a time, with or without those of its readers. */
void busq_grave_leave(busq_grave *grave, uint32_t slot)
{
  if (is_shared(grave->bus, slot))
    busq_lock_drop_range(grave->fd, LOCK_OF_GRAVE(0), grave->bus->geometry.peers);
  else
    busq_lock_drop(grave->fd, LOCK_OF_GRAVE(slot));
}

/* ---- burying ---- */

typedef enum {
  SEARCH_FOUND,
  SEARCH_NOTHING,
  SEARCH_NOT_OVER
} search_outcome;

/* Does a reference to the record stand in the queue of its destination?  From the head on, because references that are
 * moved (compact.h) move away from it: one that this has not met is still before it. */
static search_outcome queue_search(const busq_bus *bus, uint32_t slot, uint32_t unit, uint64_t tag, uint64_t *searched)
{
  const busq_ring ring = busq_bus_ring(bus, slot);
  const uint64_t begun = busq_load_relaxed(searched);
  const uint64_t head = busq_load_acquire(&ring.queue->head), tail = busq_ring_tail(&ring);
  if (head > tail || tail - head > ring.slot_count)
    return SEARCH_FOUND; /* damage: nothing is known */
  uint64_t at = begun > head && begun <= tail ? begun : head;
  for (uint32_t i = 0; at != tail; at++, i++) {
    busq_reference reference;
    if (i == busq_step_looks) {
      BUSQ_STEP("search");
      busq_store_relaxed(searched, at);
      return SEARCH_NOT_OVER;
    }
    if (busq_ring_look(&ring, at, &reference) && reference.record == unit && reference.tag == tag)
      return SEARCH_FOUND;
  }
  return SEARCH_NOTHING;
}

/* The dead sender's message is final: was it received? Several receivers all have it, or it would not be final.  A
 * single one has not where its sender died before it published the reference; no other process will ever release the
 * record then.  A reader marks a message before it takes the reference out of its queue, so a mark that is still
 * missing after the search will stay missing. */
static bool record_release_unpublished(busq_bus *bus, uint32_t slot, busq_record *record)
{
  const uint64_t state = busq_load_acquire(&record->state.lo);
  const uint32_t destinations = busq_record_destinations(record), to = busq_load_relaxed(&record->destination[0].slot);
  const uint32_t unit = (uint32_t)((uint64_t)((char *)record - bus->arena) / BUSQ_LAYOUT_UNIT_BYTES);
  if ((state & BUSQ_PHASE_MASK) != BUSQ_PHASE_COMMITTED || destinations > bus->geometry.peers)
    return true;
  if (destinations == 1 && to < busq_slots_reached(bus) &&
      !(busq_load_acquire(&record->destination[0].mark) & BUSQ_MARK_RELEASED)) {
    const search_outcome outcome = queue_search(bus, to, unit, state & ~BUSQ_PHASE_MASK, &bus->slots[slot].searched);
    if (outcome == SEARCH_NOT_OVER)
      return false;
    if (outcome == SEARCH_NOTHING && !(busq_load_acquire(&record->destination[0].mark) & BUSQ_MARK_RELEASED))
      busq_arena_release(bus, slot, record, 0);
  }
  /* Last: from here on a large record may be given back, and hold another message. */
  busq_large_sender_done(record);
  return true;
}

/* Ends what the dead had begun to send. */
static bool life_finish_sending(busq_bus *bus, uint32_t slot)
{
  const busq_slot *self = &bus->slots[slot];
  const uint64_t in_hand = busq_load_acquire(&self->in_hand);
  if ((uint32_t)(in_hand >> 32) == (uint32_t)busq_load_acquire(&self->sent))
    return true; /* it was through with its last message */
  busq_record *record = busq_arena_record(bus, slot, (uint32_t)in_hand);
  if (!record)
    return true;
  busq_commit_finish(bus, record);
  return record_release_unpublished(bus, slot, record);
}

/* Settles what a reader had reached for; for a shared queue whose readers are all gone, what all of them had, and moves
 * its head: the last of them may have been killed before it did. */
static bool claims_settle(busq_bus *bus, uint32_t slot, uint64_t life)
{
  if (life & BUSQ_LIFE_CONSUMER)
    return busq_share_settle(bus, slot, true);
  for (uint32_t reader = 0; (life & BUSQ_LIFE_SHARED) && reader < busq_slots_reached(bus); reader++)
    if (reader_is_unsettled(bus, reader, slot) && !busq_share_settle(bus, reader, true))
      return false;
  if (life & BUSQ_LIFE_SHARED)
    busq_share_advance(bus, slot, slot);
  return true;
}

/* The hands of a reader that is gone are moved past what is done with: its slot is free when they are empty.  Again
 * whenever a peer asks for the slot: the reader that took the last of it may have died before it moved them. */
static void hands_advance(busq_bus *bus, uint32_t slot, uint64_t life)
{
  const uint32_t queue = (uint32_t)busq_load_acquire(&bus->slots[slot].consumes);
  if ((life & BUSQ_LIFE_CONSUMER) && queue < busq_slots_reached(bus) && busq_share_is_reader_of(bus, slot, queue))
    busq_share_advance(bus, slot, queue);
}

bool busq_grave_bury(busq_bus *bus, uint32_t slot)
{
  uint64_t looks = busq_step_looks;
  busq_slot *self = &bus->slots[slot];
  const uint64_t life = busq_load_acquire(&self->life);
  const uint32_t incarnation = (uint32_t)(life >> 32);
  const busq_ring ring = busq_bus_ring(bus, slot);
  /* Also of a peer that left or was buried: its successor may have been killed when it had opened the queue and nothing
   * else, or a process that removed a durable peer before it closed the queue. */
  if (!(life & BUSQ_LIFE_DURABLE))
    (void)busq_ring_close(&ring);
  if (!life_needs_burial(life)) {
    hands_advance(bus, slot, life);
    return true;
  }
  BUSQ_STEP("bury");
  if (!life_finish_sending(bus, slot) || !claims_settle(bus, slot, life))
    return false;
  busq_store_relaxed(&self->wake_flags, 0);
  busq_store_relaxed(&self->sends.what, BUSQ_WAITING_NOT);
  busq_store_relaxed(&self->receives.what, BUSQ_WAITING_NOT);
  busq_fifo_unlink(bus, slot, incarnation);
  BUSQ_STEP("bury");
  busq_large_sweep(bus, slot); /* what it was the last to release, of others */
  (void)busq_arena_reclaim(bus, slot, &looks);
  busq_store_relaxed(&self->ended_ns, busq_time_host_ns());
  BUSQ_STEP("bury");
  const uint32_t flags = (uint32_t)life & ~(uint32_t)BUSQ_LIFE_MASK;
  busq_store_release(&self->life, busq_life_word(incarnation, BUSQ_LIFE_DEAD | flags));
  busq_wake_for_room(bus, slot);
  hands_advance(bus, slot, life);
  return true;
}

/* ---- what the gone have left in their queues ---- */

static bool ring_has_messages(const busq_bus *bus, uint32_t slot)
{
  const busq_ring ring = busq_bus_ring(bus, slot);
  return busq_load_acquire(&ring.queue->head) != busq_ring_tail(&ring);
}

/* Those of a shared queue include the messages in the hands of its readers. */
bool busq_grave_has_messages(const busq_bus *bus, uint32_t slot)
{
  const uint64_t life = busq_load_acquire(&bus->slots[slot].life);
  bool some = life_state(life) != BUSQ_LIFE_FREE && ring_has_messages(bus, slot);
  for (uint32_t reader = 0; (life & BUSQ_LIFE_SHARED) && reader < busq_slots_reached(bus) && !some; reader++)
    some = busq_share_is_reader_of(bus, reader, slot) && ring_has_messages(bus, reader);
  return some;
}

/* Discards what stands in the hands of its readers, which are all gone. */
static bool hands_discard(busq_bus *bus, uint32_t queue, uint64_t *n_droppedp)
{
  uint32_t looks = busq_step_looks;
  for (uint32_t reader = 0; reader < busq_slots_reached(bus); reader++) {
    if (!busq_share_is_reader_of(bus, reader, queue))
      continue;
    const busq_ring hands = busq_bus_ring(bus, reader);
    const uint64_t tail = busq_ring_tail(&hands);
    for (uint64_t at = busq_load_acquire(&hands.queue->head); at < tail; at++) {
      busq_reference seen;
      if (!looks--)
        return false;
      if (busq_ring_look(&hands, at, &seen) && seen.sender != BUSQ_RING_NOBODY)
        *n_droppedp += busq_reference_discard(bus, queue, seen);
      busq_share_done(bus, busq_place_at(reader, at), queue);
    }
  }
  return true;
}

/* The queue has no receiver any more: gives what stands in it back to its senders.  The process in the grave moves the
 * head, as the reader would; killed before it does, the next one finds the same messages released already. */
bool busq_grave_discard(busq_bus *bus, uint32_t slot, uint64_t *n_droppedp)
{
  busq_slot *self = &bus->slots[slot];
  const busq_ring ring = busq_bus_ring(bus, slot);
  const uint64_t life = busq_load_acquire(&self->life);
  if (life & BUSQ_LIFE_CONSUMER)
    return true; /* of its queue's estate */
  busq_store_release(&self->life, (life & ~(uint64_t)BUSQ_LIFE_DURABLE) | BUSQ_LIFE_DROPPED);
  BUSQ_STEP("discard");
  busq_compact_settle(bus, slot);
  const uint64_t tail = busq_ring_close(&ring);
  uint64_t head = busq_load_acquire(&ring.queue->head);
  if (head > tail || tail - head > ring.slot_count)
    head = tail - (tail < ring.slot_count ? tail : ring.slot_count); /* damage: look at all there can be */
  const uint64_t end = tail - head < busq_step_looks ? tail : head + busq_step_looks;
  for (; head != end; head++) {
    busq_reference reference;
    while (!busq_ring_look(&ring, head, &reference))
      (void)busq_ring_skip(&ring, head);
    *n_droppedp += busq_reference_discard(bus, slot, reference);
  }
  BUSQ_ASSERT(end <= tail);
  BUSQ_STEP("discard");
  busq_store_release(&ring.queue->head, end);
  busq_wake_for_room(bus, slot);
  return end == tail && (!(life & BUSQ_LIFE_SHARED) || hands_discard(bus, slot, n_droppedp));
}

static bool gone_before(const busq_bus *bus, uint32_t a, uint32_t b)
{
  const uint64_t a_ns = bus->slots[a].ended_ns, b_ns = bus->slots[b].ended_ns;
  return a_ns != b_ns ? a_ns < b_ns : a < b;
}

/* The slot whose peer has been gone for longest, among those that leave messages without a promise, and that went after
 * the one of `last` (the number of slots: of all); the number of slots where there is none. */
static uint32_t leftovers_next(const busq_bus *bus, uint32_t last)
{
  const uint32_t none = bus->geometry.peers;
  uint32_t oldest = none;
  for (uint32_t slot = 0; slot < busq_slots_reached(bus); slot++) {
    const uint64_t life = busq_load_acquire(&bus->slots[slot].life);
    if (life_needs_burial(life) || (life & (BUSQ_LIFE_DURABLE | BUSQ_LIFE_CONSUMER)) ||
        !busq_grave_has_messages(bus, slot))
      continue;
    if ((last == none || gone_before(bus, last, slot)) && (oldest == none || gone_before(bus, slot, oldest)))
      oldest = slot;
  }
  return oldest;
}

/* Another process that is at the slot may be stopped there: the next slot will do. */
bool busq_grave_discard_oldest(busq_grave *grave)
{
  busq_bus *bus = grave->bus;
  uint64_t n_dropped = 0;
  uint32_t slot = bus->geometry.peers;
  while ((slot = leftovers_next(bus, slot)) != bus->geometry.peers) {
    if (!busq_grave_enter(grave, slot))
      continue;
    const uint64_t life = busq_load_acquire(&bus->slots[slot].life);
    if (!life_needs_burial(life) && !(life & BUSQ_LIFE_DURABLE))
      (void)busq_grave_discard(bus, slot, &n_dropped);
    busq_grave_leave(grave, slot);
    return true;
  }
  return false;
}

/* ---- taking back ---- */

static bool is_in_use(const busq_bus *bus, uint32_t slot)
{
  return life_state(busq_load_acquire(&bus->slots[slot].life)) != BUSQ_LIFE_FREE;
}

/* Buries all of the dead, and looks for memory of the gone. */
static uint32_t take_back_all(busq_bus *bus, uint64_t looks)
{
  busq_grave grave;
  uint32_t n_buried = 0;
  if (busq_grave_open(&grave, bus) != BUSQ_OK)
    return 0;
  for (uint32_t slot = 0; slot < busq_slots_reached(bus); slot++) {
    if (!is_in_use(bus, slot) || !busq_grave_enter(&grave, slot))
      continue;
    n_buried += life_needs_burial(busq_load_acquire(&bus->slots[slot].life));
    while (!busq_grave_bury(bus, slot))
      ;
    if (looks)
      (void)busq_arena_reclaim(bus, slot, &looks);
    busq_grave_leave(&grave, slot);
  }
  busq_grave_close(&grave);
  return n_buried;
}

uint32_t busq_grave_bury_all(busq_bus *bus)
{
  return take_back_all(bus, 0);
}

uint32_t busq_grave_reclaim(busq_bus *bus)
{
  return take_back_all(bus, UINT64_MAX);
}

void busq_grave_reclaim_some(busq_bus *bus, uint32_t *slotp)
{
  busq_grave grave;
  uint64_t looks = busq_step_looks;
  if (busq_grave_open(&grave, bus) != BUSQ_OK)
    return;
  for (uint32_t i = 0; i < busq_slots_reached(bus) && looks; i++, *slotp = (*slotp + 1) % busq_slots_reached(bus)) {
    if (!is_in_use(bus, *slotp) || !busq_grave_enter(&grave, *slotp))
      continue;
    if (!busq_grave_bury(bus, *slotp))
      looks = 0;
    else
      (void)busq_arena_reclaim(bus, *slotp, &looks);
    busq_grave_leave(&grave, *slotp);
    if (!looks)
      break; /* with this one next time */
  }
  busq_grave_close(&grave);
}

bool busq_grave_make_room(busq_bus *bus, uint32_t *slotp)
{
  busq_grave grave;
  if (busq_grave_open(&grave, bus) != BUSQ_OK)
    return false;
  const bool done = busq_grave_discard_oldest(&grave);
  busq_grave_close(&grave);
  if (done)
    busq_grave_reclaim_some(bus, slotp);
  return done;
}

busq_compact_outcome busq_grave_compact(busq_bus *bus, uint32_t slot)
{
  busq_grave grave;
  busq_compact_outcome outcome = BUSQ_COMPACT_NOTHING;
  busq_slot *self = &bus->slots[slot];
  if (!(busq_load_acquire(&self->life) & BUSQ_LIFE_DURABLE) || busq_life_is_held(bus, slot) ||
      busq_compact_is_clean(bus, slot) || busq_grave_open(&grave, bus) != BUSQ_OK)
    return BUSQ_COMPACT_NOTHING;
  if (busq_grave_enter(&grave, slot)) {
    if (!busq_grave_bury(bus, slot))
      outcome = BUSQ_COMPACT_NOT_OVER;
    else if (busq_load_acquire(&self->life) & BUSQ_LIFE_DURABLE)
      outcome = busq_compact_step(bus, slot);
    busq_grave_leave(&grave, slot);
  }
  busq_grave_close(&grave);
  return outcome;
}

void busq_grave_bury_one(busq_bus *bus, uint32_t slot)
{
  busq_grave grave;
  if (busq_grave_open(&grave, bus) != BUSQ_OK)
    return;
  if (busq_grave_enter(&grave, slot)) {
    (void)busq_grave_bury(bus, slot);
    busq_grave_leave(&grave, slot);
  }
  busq_grave_close(&grave);
}

static void bury_readers(busq_bus *bus, uint32_t queue, uint32_t caller, uint32_t *nextp, uint32_t n_left)
{
  for (uint32_t i = 0; i < busq_slots_reached(bus) && n_left; i++, *nextp = (*nextp + 1) % busq_slots_reached(bus)) {
    const uint32_t reader = *nextp, state = life_state(busq_load_acquire(&bus->slots[reader].life));
    if (reader == caller || (state != BUSQ_LIFE_LIVE && state != BUSQ_LIFE_LEAVING) ||
        !busq_share_is_reader_of(bus, reader, queue) || !busq_share_has_hands_full(bus, reader))
      continue;
    n_left--;
    if (!busq_life_is_held(bus, reader))
      busq_grave_bury_one(bus, reader);
  }
}

void busq_grave_bury_readers(busq_bus *bus, uint32_t queue, uint32_t caller, uint32_t *nextp)
{
  enum { READERS = 8 };
  bury_readers(bus, queue, caller, nextp, READERS);
}

void busq_grave_bury_all_readers(busq_bus *bus, uint32_t queue, uint32_t caller)
{
  uint32_t next = 0;
  bury_readers(bus, queue, caller, &next, UINT32_MAX);
}

/* A message that is not sealed never will be. Whatever else the record may be by now, to complete what is sealed is
 * always right. */
void busq_grave_settle_hand(busq_bus *bus, uint32_t slot)
{
  const uint64_t in_hand = busq_load_acquire(&bus->slots[slot].in_hand);
  busq_record *record = busq_arena_record(bus, slot, (uint32_t)in_hand);
  if (!record)
    return;
  const uint64_t state = busq_load_acquire(&record->state.lo);
  if ((state & BUSQ_PHASE_MASK) == BUSQ_PHASE_SEALED)
    (void)busq_commit_help(bus, record, state & ~BUSQ_PHASE_MASK);
}

bool busq_grave_check(busq_bus *bus, uint32_t slot, uint32_t incarnation)
{
  busq_grave grave;
  const uint64_t life = busq_load_acquire(&bus->slots[slot].life);
  const bool is_durable = (life & BUSQ_LIFE_DURABLE) != 0;
  if ((uint32_t)(life >> 32) != incarnation || life_state(life) == BUSQ_LIFE_FREE ||
      life_state(life) == BUSQ_LIFE_JOINING)
    return false;
  if (life_state(life) != BUSQ_LIFE_LIVE || busq_life_is_held(bus, slot))
    return is_durable || life_state(life) == BUSQ_LIFE_LIVE;
  if (busq_grave_open(&grave, bus) == BUSQ_OK) {
    if (busq_grave_enter(&grave, slot)) {
      if (busq_load_acquire(&bus->slots[slot].life) == life)
        (void)busq_grave_bury(bus, slot);
      busq_grave_leave(&grave, slot);
    }
    busq_grave_close(&grave);
  }
  return is_durable;
}
