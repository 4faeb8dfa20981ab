/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/receive/receive.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/time.h"
#include "shm/burial/grave.h"
#include "shm/message/reference.h"
#include "shm/message/share.h"
#include "shm/trace/tracer.h"
#include "shm/wake/wake.h"
#include <string.h>

/* ---- looking ---- */

typedef enum {
  LOOK_NOTHING,
  LOOK_PASS,
  LOOK_BLOCKED,
  LOOK_READY,
  LOOK_LATE,
  LOOK_AGAIN,
  LOOK_DAMAGED
} look_outcome;

/* Everything that is used as an index or a length is read once and checked before it is used. */
BUSQ_ALWAYS_INLINE bool found_fill(const busq_bus *bus, uint32_t slot, busq_reference reference, busq_record *record,
                                   busq_found *found)
{
  const uint32_t destinations = busq_record_destinations(record);
  const uint64_t size_bytes = busq_load_relaxed(&record->size_bytes);
  const uint64_t begin = (uint64_t)reference.record * BUSQ_LAYOUT_UNIT_BYTES;
  const uint64_t end = begin + busq_record_payload_offset(destinations, size_bytes) + size_bytes;
  if (destinations == 0 || destinations > bus->geometry.peers || busq_record_sender(record) != reference.sender ||
      reference.sender >= bus->geometry.peers || end > busq_bus_units(bus) * BUSQ_LAYOUT_UNIT_BYTES)
    return false;
  found->mark = destinations == 1 ? 0 : busq_record_mark_of(record, destinations, slot);
  if (found->mark == BUSQ_NO_MARK || record->destination[found->mark].slot != slot)
    return false;
  found->record = record;
  found->payload = (const char *)record + (end - size_bytes - begin);
  found->size_bytes = size_bytes;
  found->form = busq_record_form(record);
  found->sender_incarnation = busq_load_relaxed(&record->sender_incarnation);
  return busq_timestamp_is_sound(found->key.timestamp);
}

static inline void record_release(busq_peer *peer, busq_record *record, uint32_t mark)
{
  const uint32_t slot = busq_record_sender(record); /* once: it may change between the check and the use */
  busq_arena_release(peer->bus, peer->slot, record, mark);
  busq_wake_owner(peer->bus, slot < peer->bus->geometry.peers ? slot : peer->slot);
}

/* A predecessor's state of a message before it died: released, it is done; taken and not released, it had it, once;
 * offered and not acknowledged, it comes again. */
__attribute__((noinline)) static look_outcome look_inherited(busq_peer *peer, busq_found *found, uint64_t state,
                                                             look_outcome outcome)
{
  if (peer->receiver.is_consumer)
    return busq_record_is_still(found->record, state) ? outcome : LOOK_PASS; /* others may have taken it meanwhile */
  const uint32_t mark = busq_load_acquire(&found->record->destination[found->mark].mark);
  found->is_redelivered = (mark & BUSQ_MARK_OFFERED) != 0;
  found->was_given_back = (mark & BUSQ_MARK_RETURNED) != 0;
  if ((mark & BUSQ_MARK_RELEASED) || !busq_record_is_still(found->record, state))
    return LOOK_PASS;
  if (!(mark & BUSQ_MARK_TAKEN))
    return outcome;
  record_release(peer, found->record, found->mark);
  return LOOK_PASS;
}

/* Where there are several readers, what others have reached for is passed; what came back shows what became of it
 * before. */
static bool reference_may_be_had(const busq_peer *peer, busq_reference *reference, busq_found *found)
{
  const uint32_t bits = reference->sender;
  if (bits == BUSQ_RING_NOBODY)
    return false;
  if (!peer->receiver.is_consumer)
    return true; /* damage, which is found */
  found->is_redelivered = (bits & BUSQ_RING_OFFERED) != 0;
  found->was_given_back = (bits & BUSQ_RING_RETURNED) != 0;
  reference->sender &= BUSQ_RING_SENDER_MASK;
  return !(bits & BUSQ_RING_CLAIMED);
}

/* Not committed: what blocks the queue, or LOOK_AGAIN where it has changed meanwhile. */
__attribute__((noinline)) static look_outcome look_open(busq_record *record, uint64_t state, busq_found *found)
{
  /* Sealed at a time that no clock can have reached: it will not be finished. */
  if (BUSQ_UNLIKELY((state & BUSQ_PHASE_MASK) == BUSQ_PHASE_SEALED &&
                    !busq_timestamp_is_sound(busq_load_relaxed(&record->state.hi)) &&
                    busq_load_acquire(&record->state.lo) == state))
    return LOOK_DAMAGED;
  found->key.timestamp = busq_load_acquire(&record->proposal);
  /* Undone and used again since we read its state, its proposal would be that of a later message: too high a bound. */
  return busq_load_relaxed(&record->state.lo) == state ? LOOK_BLOCKED : LOOK_AGAIN;
}

BUSQ_ALWAYS_INLINE look_outcome look(busq_peer *peer, uint64_t position, busq_found *found)
{
  busq_reference reference;
  BUSQ_STEP("look");
  if (!busq_ring_look(&peer->receiver.ring, position, &reference))
    return LOOK_NOTHING;
  found->is_late = found->is_redelivered = found->was_given_back = false;
  if (BUSQ_UNLIKELY(reference.sender > BUSQ_RING_SENDER_MASK) && !reference_may_be_had(peer, &reference, found))
    return LOOK_PASS;
  busq_record *record = busq_reference_record(peer->bus, reference);
  if (BUSQ_UNLIKELY(!record))
    return LOOK_DAMAGED;
  BUSQ_STEP("read");
  __builtin_prefetch((const char *)record + BUSQ_LAYOUT_UNIT_BYTES, 0, 3);
  /* SYNC POINT commit: what comes before the commit (all its clocks are raised) comes before our delivery. */
  const uint64_t state = busq_load_acquire(&record->state.lo);
  if (BUSQ_UNLIKELY(((state ^ reference.tag) & ~BUSQ_PHASE_MASK) || (state & BUSQ_PHASE_MASK) == BUSQ_PHASE_FREE))
    return LOOK_PASS;
  found->position = position;
  found->key.sender = reference.sender;
  found->key.sequence = reference.tag;
  if (BUSQ_UNLIKELY((state & BUSQ_PHASE_MASK) != BUSQ_PHASE_COMMITTED))
    return look_open(record, state, found);
  found->key.timestamp = busq_load_relaxed(&record->state.hi);
  if (BUSQ_UNLIKELY(!found_fill(peer->bus, peer->receiver.inbox_slot, reference, record, found)))
    return position < peer->receiver.inherited && !busq_record_is_still(record, state) ? LOOK_PASS : LOOK_DAMAGED;
  const bool in_place = busq_record_destinations(record) == 1 || found->key.timestamp == record->proposal;
  const look_outcome outcome = BUSQ_LIKELY(in_place) ? LOOK_READY : LOOK_LATE;
  return BUSQ_LIKELY(position >= peer->receiver.inherited) ? outcome : look_inherited(peer, found, state, outcome);
}

static int queue_damaged(const busq_peer *peer)
{
  return busq_error(BUSQ_CORRUPT, "the queue of \"%s\" is damaged at position %llu; remove bus \"%s\" and create it again",
                    peer->self->name, (unsigned long long)peer->receiver.scan, peer->bus->name);
}

/* ---- positions ---- */

static uint64_t *done_word(busq_peer *peer, uint64_t position, uint64_t *bit)
{
  const uint64_t index = position & (peer->receiver.ring.slot_count - 1);
  *bit = UINT64_C(1) << (index % 64);
  return &peer->receiver.done[index / 64];
}

static bool done_take(busq_peer *peer, uint64_t position)
{
  uint64_t bit;
  uint64_t *word = done_word(peer, position, &bit);
  if (!(*word & bit))
    return false;
  *word &= ~bit;
  return true;
}

/* A position is needed no longer.  True where that moves the head. */
static inline bool position_pass(busq_peer *peer, uint64_t position)
{
  BUSQ_ASSERT(position < peer->receiver.scan); /* it was looked at */
  if (BUSQ_UNLIKELY(position != peer->receiver.head)) {
    uint64_t bit;
    uint64_t *word = done_word(peer, position, &bit);
    *word |= bit;
    peer->receiver.ahead++;
    return false;
  }
  peer->receiver.head++;
  while (BUSQ_UNLIKELY(peer->receiver.ahead) && done_take(peer, peer->receiver.head)) {
    peer->receiver.ahead--;
    peer->receiver.head++;
  }
  BUSQ_ASSERT(peer->receiver.head <= peer->receiver.scan);
  return true;
}

/* Gives back to the senders what is done from the head on. */
static inline void head_publish(busq_peer *peer)
{
  BUSQ_STEP("head");
  /* SYNC POINT ring-head: from here on these slots may be written again. */
  busq_store_release(&peer->self->queue.head, peer->receiver.head);
  busq_wake_for_room(peer->bus, peer->slot);
}

/* The reader is one of several: the position is one in its hands. */
__attribute__((noinline)) static void hand_done(busq_peer *peer, uint64_t position)
{
  busq_share_done(peer->bus, busq_place_at(peer->slot, position), peer->receiver.inbox_slot);
  if (position < peer->receiver.hand)
    peer->receiver.hand = position;
}

static inline void position_done(busq_peer *peer, uint64_t position)
{
  if (BUSQ_UNLIKELY(peer->receiver.is_consumer)) {
    hand_done(peer, position);
    return;
  }
  if (BUSQ_LIKELY(position_pass(peer, position)))
    head_publish(peer);
}

/* ---- the order ---- */

/* The lines of a message come from the sender's cache, which takes longer than everything else about it.  So the ones
 * to come are asked for while this one is worked on; for writing, because our mark goes into the first. */
static void prefetch_next(const busq_peer *peer)
{
  enum { AHEAD = 3 };
  busq_reference reference;
  if (!busq_ring_look(&peer->receiver.ring, peer->receiver.scan + AHEAD, &reference) ||
      reference.record >= busq_bus_units(peer->bus))
    return;
  const char *record = (const char *)busq_bus_record(peer->bus, reference.record);
  busq_prefetch_write(record);
  __builtin_prefetch(record + BUSQ_LAYOUT_UNIT_BYTES, 0, 3);
}

static bool heap_take_in(busq_peer *peer, const busq_found *found)
{
  const uint64_t offset = (uint64_t)((const char *)found->record - peer->bus->arena);
  const busq_heap_entry entry = {found->key, found->position, (uint32_t)(offset / BUSQ_LAYOUT_UNIT_BYTES),
                                 (uint16_t)found->mark, found->is_redelivered, found->was_given_back};
  return busq_heap_push(&peer->receiver.heap, entry);
}

/* Checked again, for it lies in shared memory: what was checked when it went into the heap need not be there any
 * more. */
static bool found_from_heap(busq_peer *peer, const busq_heap_entry *least)
{
  busq_found *found = &peer->receiver.found;
  const busq_reference reference = {least->key.sender, least->record, least->key.sequence};
  found->key = least->key;
  found->position = least->position;
  found->is_late = true;
  found->is_redelivered = least->is_redelivered;
  found->was_given_back = least->was_given_back;
  return found_fill(peer->bus, peer->receiver.inbox_slot, reference, busq_bus_record(peer->bus, least->record), found);
}

/* The least of the heap against what stands at `scan`: true if nothing that is there or may come can be lower. */
static bool heap_may_go(const busq_peer *peer, look_outcome outcome, const busq_found *next)
{
  const busq_heap_entry *least = busq_heap_least(&peer->receiver.heap);
  if (!least)
    return false;
  if (outcome == LOOK_NOTHING) {
    BUSQ_STEP("tail");
    return busq_ring_tail(&peer->receiver.ring) == peer->receiver.scan;
  }
  return busq_key_less(least->key, next->key);
}

/* ---- of several readers ---- */

static bool hands_look(busq_peer *peer, uint32_t reader);

/* Looks anew at all that can be had: in the queue from its head on, and in the hands of its readers. */
static void look_anew(busq_peer *peer)
{
  bool is_whole = true;
  peer->receiver.heap.count = 0;
  peer->receiver.scan = busq_load_acquire(&peer->receiver.inbox->queue.head);
  for (uint32_t reader = 0; reader < peer->bus->geometry.peers; reader++)
    if (busq_share_is_reader_of(peer->bus, reader, peer->receiver.inbox_slot))
      is_whole &= hands_look(peer, reader);
  if (!is_whole)
    peer->receiver.returns--; /* memory ran out: once more next time */
}

/* Follows what others have done since: something came back, or the head has passed us. */
static void catch_up(busq_peer *peer)
{
  const uint32_t returns = busq_load_acquire(&peer->receiver.inbox->returns);
  const uint64_t head = busq_load_acquire(&peer->receiver.inbox->queue.head);
  if (BUSQ_UNLIKELY(returns != peer->receiver.returns)) {
    peer->receiver.returns = returns;
    look_anew(peer);
  } else if (head > peer->receiver.scan) {
    peer->receiver.scan = head;
  }
}

/* Can we have what stands at a place outside of our way along the ring? the record may be used again while we look. */
static bool place_may_be_had(busq_peer *peer, busq_place place, busq_found *found)
{
  busq_reference seen;
  found->is_redelivered = found->was_given_back = false;
  if (!busq_share_look(peer->bus, place, &seen) || !reference_may_be_had(peer, &seen, found))
    return false;
  busq_record *record = busq_reference_record(peer->bus, seen);
  const uint64_t state = record ? busq_load_acquire(&record->state.lo) : BUSQ_PHASE_FREE;
  if (state != (seen.tag | BUSQ_PHASE_COMMITTED))
    return false;
  found->key = (busq_key){busq_load_relaxed(&record->state.hi), seen.tag, seen.sender};
  found->position = place;
  found->is_late = true;
  return found_fill(peer->bus, peer->receiver.inbox_slot, seen, record, found) && busq_record_is_still(record, state);
}

/* False where memory ran out. */
static bool hands_look(busq_peer *peer, uint32_t reader)
{
  const busq_ring hands = busq_bus_ring(peer->bus, reader);
  const uint64_t tail = busq_ring_tail(&hands);
  uint64_t at = busq_load_acquire(&hands.queue->head);
  if (tail - at > hands.slot_count)
    return true; /* damage */
  for (; at < tail; at++) {
    busq_found found;
    if (place_may_be_had(peer, busq_place_at(reader, at), &found) && !heap_take_in(peer, &found))
      return false;
  }
  return true;
}

/* An entry of our heap may have been taken by others since, and its record be used again.  True where the least can be
 * had, and is what was found. */
static bool least_may_be_had(busq_peer *peer)
{
  const busq_heap_entry least = *busq_heap_least(&peer->receiver.heap);
  busq_found *found = &peer->receiver.found;
  return place_may_be_had(peer, least.position, found) && found->key.sequence == least.key.sequence &&
         found->key.sender == least.key.sender;
}

/* As below; the heap's least is looked at before it counts. */
static int peek_shared(busq_peer *peer)
{
  busq_found *found = &peer->receiver.found;
  catch_up(peer);
  for (;;) {
    const look_outcome outcome = look(peer, peer->receiver.scan, found);
    found->position = busq_place_at(peer->receiver.inbox_slot, peer->receiver.scan);
    if (outcome == LOOK_AGAIN) {
      continue;
    } else if (outcome == LOOK_PASS) {
      peer->receiver.scan++;
    } else if (outcome == LOOK_LATE) {
      if (!heap_take_in(peer, found))
        return busq_error(BUSQ_NO_SPACE, "no memory to hold back %zu late messages", peer->receiver.heap.count + 1);
      peer->receiver.scan++;
    } else if (outcome == LOOK_DAMAGED) {
      return queue_damaged(peer);
    } else if (heap_may_go(peer, outcome, found)) {
      if (least_may_be_had(peer))
        return BUSQ_OK;
      busq_heap_pop(&peer->receiver.heap);
    } else if (outcome == LOOK_READY) {
      return BUSQ_OK;
    } else if (busq_load_acquire(&peer->receiver.inbox->queue.head) > peer->receiver.scan) {
      peer->receiver.scan = busq_load_acquire(&peer->receiver.inbox->queue.head);
    } else {
      return BUSQ_EMPTY;
    }
  }
}

/* An empty position for what we are about to take, in case that we keep it. */
static bool hand_find(busq_peer *peer)
{
  const busq_ring hands = busq_bus_ring(peer->bus, peer->slot);
  const uint64_t head = busq_load_relaxed(&hands.queue->head), tail = busq_ring_tail(&hands);
  busq_reference seen;
  for (int turn = 0; turn < 2; turn++, peer->receiver.hand = head) {
    for (; peer->receiver.hand < tail; peer->receiver.hand++)
      if (!busq_ring_look(&hands, peer->receiver.hand, &seen) || seen.sender == BUSQ_RING_NOBODY)
        return true;
    if (tail - head < hands.slot_count)
      return true;
  }
  return false;
}

/* Marked, since others may have gone past it. */
static bool claim_return(busq_peer *peer, busq_place place, uint32_t sender)
{
  busq_reference seen;
  if (!busq_share_look(peer->bus, place, &seen) || !busq_share_is_claim_of(seen, peer->slot) ||
      !busq_share_change(peer->bus, place, seen, (busq_reference){sender | BUSQ_RING_OFFERED, seen.record, seen.tag}))
    return false;
  busq_share_returned(peer->bus, peer->receiver.inbox_slot);
  return true;
}

static busq_reference found_reference(const busq_peer *peer, uint32_t sender)
{
  const uint64_t offset = (uint64_t)((const char *)peer->receiver.found.record - peer->bus->arena);
  return (busq_reference){sender, (uint32_t)(offset / BUSQ_LAYOUT_UNIT_BYTES), peer->receiver.found.key.sequence};
}

/* The swap fails where another reader was faster; one that succeeds a whole number of times 65536 laps too late has hit
 * what stands there now, and gives it back. */
static bool reach(busq_peer *peer)
{
  const busq_found *found = &peer->receiver.found;
  const uint32_t given_back = found->was_given_back ? BUSQ_RING_RETURNED : 0;
  const uint32_t had = given_back | (found->is_redelivered ? BUSQ_RING_OFFERED : 0);
  busq_store_release(&peer->self->reaches, found->position);
  BUSQ_STEP("reach");
  if (!busq_share_change(peer->bus, found->position, found_reference(peer, found->key.sender | had),
                         found_reference(peer, busq_share_reader(peer->slot) | had)))
    return false;
  if (busq_place_slot(found->position) != peer->receiver.inbox_slot ||
      busq_load_acquire(&peer->receiver.inbox->queue.head) <= busq_place_position(found->position))
    return true;
  (void)claim_return(peer, found->position, found->key.sender | given_back);
  return false;
}

static bool is_in_our_hands(const busq_peer *peer, busq_place place)
{
  return busq_place_slot(place) == peer->slot;
}

int busq_receive_reach(busq_peer *peer)
{
  if (peer->receiver.has_reached)
    return BUSQ_OK;
  if (busq_time_tick_ns() - peer->receiver.tended_ns >= BUSQ_SLICE_NS)
    busq_receive_tend(peer);
  for (;;) {
    const int result = peek_shared(peer);
    if (result != BUSQ_OK)
      return result;
    if (!hand_find(peer))
      return busq_error(BUSQ_NO_SPACE, "this reader of \"%s\" has %llu messages in its hands: acknowledge or release some of them first",
                        peer->receiver.inbox->name, (unsigned long long)peer->receiver.ring.slot_count);
    const bool is_ours = reach(peer);
    if (peer->receiver.found.is_late)
      busq_heap_pop(&peer->receiver.heap);
    else
      peer->receiver.scan++;
    if (is_ours)
      break;
  }
  /* A message in our own hands already stays where it is. */
  peer->receiver.kept_at = is_in_our_hands(peer, peer->receiver.found.position)
                               ? busq_place_position(peer->receiver.found.position)
                               : peer->receiver.hand;
  peer->receiver.has_reached = true;
  return BUSQ_OK;
}

void busq_receive_put_back(busq_peer *peer)
{
  const busq_found *found = &peer->receiver.found;
  peer->receiver.has_reached = false;
  (void)claim_return(peer, found->position, found->key.sender | (found->was_given_back ? BUSQ_RING_RETURNED : 0));
}

void busq_receive_tend(busq_peer *peer)
{
  peer->receiver.tended_ns = busq_time_tick_ns();
  busq_share_advance(peer->bus, peer->receiver.inbox_slot, peer->receiver.inbox_slot);
  busq_grave_bury_readers(peer->bus, peer->receiver.inbox_slot, peer->slot, &peer->receiver.tended);
  look_anew(peer);
}

BUSQ_ALWAYS_INLINE int peek_single(busq_peer *peer)
{
  busq_found *found = &peer->receiver.found;
  for (;;) {
    const look_outcome outcome = look(peer, peer->receiver.scan, found);
    if (BUSQ_LIKELY(outcome == LOOK_READY && !peer->receiver.heap.count)) {
      prefetch_next(peer);
      return BUSQ_OK;
    }
    switch (outcome) {
    case LOOK_AGAIN:
      continue;
    case LOOK_PASS:
      position_done(peer, peer->receiver.scan++);
      continue;
    case LOOK_LATE:
      if (!heap_take_in(peer, found))
        return busq_error(BUSQ_NO_SPACE, "no memory to hold back %zu late messages", peer->receiver.heap.count + 1);
      peer->receiver.scan++;
      continue;
    case LOOK_DAMAGED:
      return queue_damaged(peer);
    case LOOK_READY:
      prefetch_next(peer);
      if (!heap_may_go(peer, outcome, found))
        return BUSQ_OK;
      break;
    case LOOK_NOTHING:
    case LOOK_BLOCKED:
      if (!heap_may_go(peer, outcome, found))
        return BUSQ_EMPTY;
      break;
    }
    return found_from_heap(peer, busq_heap_least(&peer->receiver.heap)) ? BUSQ_OK : queue_damaged(peer);
  }
}

static void found_record(busq_peer *peer, busq_trace_kind kind);

/* The mark first: died in between, the reference is found released; the other way round no process would release it. */
BUSQ_ALWAYS_INLINE void found_release(busq_peer *peer, const busq_found *found)
{
  record_release(peer, found->record, found->mark);
  position_done(peer, found->position);
}

/* The message that was found is not for us at its place in the order: as if it had never come.  The recording has a
 * PASS; an event of watchers was delivered all the same, to us. */
static void found_pass(busq_peer *peer)
{
  const busq_found *found = &peer->receiver.found;
  if (found->is_late)
    busq_heap_pop(&peer->receiver.heap);
  else
    peer->receiver.scan++;
  found_record(peer, found->envelope.kind == BUSQ_KIND_WATCH ? BUSQ_TRACE_DELIVER : BUSQ_TRACE_PASS);
  BUSQ_STEP("pass");
  found_release(peer, found);
}

/* Messages with an envelope are for us, or passed, or damaged. */
__attribute__((noinline)) static int peek_enveloped(busq_peer *peer)
{
  int result = BUSQ_OK;
  while (result == BUSQ_OK && (peer->receiver.found.form & BUSQ_FORM_ENVELOPE)) {
    const busq_admission admission = peer->upcalls->admit(peer, &peer->receiver.found);
    if (admission == BUSQ_ADMIT_DELIVER)
      return BUSQ_OK;
    if (admission == BUSQ_ADMIT_DAMAGED)
      return queue_damaged(peer);
    found_pass(peer);
    result = peek_single(peer);
  }
  return result;
}

int busq_receive_peek(busq_peer *peer)
{
  if (BUSQ_UNLIKELY(peer->receiver.is_consumer))
    return peer->receiver.has_reached ? BUSQ_OK : peek_shared(peer);
  const int result = peek_single(peer);
  if (BUSQ_UNLIKELY(result == BUSQ_OK && (peer->receiver.found.form & BUSQ_FORM_ENVELOPE)))
    return peek_enveloped(peer);
  return result;
}

/* ---- taking ---- */

/* The members, as the maker of the change wrote them down; what is read of it is checked, as all that lies in shared
 * memory. */
static void view_read(const busq_peer *peer, const busq_found *found, busq_tracer_viewed *viewed)
{
  busq_view_change change;
  const uint32_t peers = peer->bus->geometry.peers;
  memcpy(&change, found->payload, sizeof change);
  const uint64_t room = (found->size_bytes - sizeof change) / sizeof(busq_view_entry);
  viewed->group = found->envelope.group;
  viewed->number = found->envelope.view;
  viewed->n_members = change.n_members <= room && change.n_members <= peers ? change.n_members : 0;
  for (uint32_t i = 0; i < viewed->n_members; i++) {
    busq_view_entry entry;
    memcpy(&entry, (const char *)found->payload + sizeof change + i * sizeof entry, sizeof entry);
    viewed->members[i] = (busq_trace_destination){entry.slot, (uint16_t)entry.incarnation};
  }
}

static bool is_view(const busq_found *found)
{
  return (found->form & BUSQ_FORM_ENVELOPE) && found->envelope.kind == BUSQ_KIND_VIEW &&
         found->size_bytes >= sizeof(busq_view_change);
}

__attribute__((noinline)) static void take_record(busq_peer *peer, const busq_found *found, busq_trace_kind kind)
{
  const busq_tracer_taken taken = {
      .message = busq_tag_sequence(found->key.sequence),
      .stamp = found->key.timestamp,
      .incarnation = found->sender_incarnation,
      .slot = (uint16_t)found->key.sender,
      .kind = (uint16_t)kind,
  };
  if (BUSQ_LIKELY(kind == BUSQ_TRACE_PASS || !is_view(found))) {
    busq_tracer_take(peer, &taken);
    return;
  }
  busq_tracer_viewed *viewed = busq_tracer_take_view(peer, &taken);
  if (viewed)
    view_read(peer, found, viewed);
}

/* For the recording, if there is one. */
BUSQ_ALWAYS_INLINE void found_record_now(busq_peer *peer, busq_trace_kind kind)
{
  const busq_found *found = &peer->receiver.found;
  const uint32_t recording = busq_load_relaxed(&peer->bus->header->recording);
  if (BUSQ_LIKELY(!recording) || peer->tracer.is_silent || found->was_given_back)
    return;
  const busq_trace_ring *full = busq_tracer_still_full(&peer->tracer, recording, BUSQ_TRACE_RECEIVING);
  if (full)
    busq_trace_ring_drop(full, BUSQ_TRACE_RECEIVING, 1);
  else
    take_record(peer, found, kind);
}

BUSQ_ALWAYS_INLINE void taken_record(busq_peer *peer)
{
  found_record_now(peer, peer->receiver.found.is_redelivered ? BUSQ_TRACE_REDELIVER : BUSQ_TRACE_DELIVER);
}

static void found_record(busq_peer *peer, busq_trace_kind kind)
{
  found_record_now(peer, kind);
}

/* The message that was reached for is ours.  Copied, its release shows that; otherwise its being in our hands does. */
__attribute__((noinline)) static void take_shared(busq_peer *peer, uint32_t mode)
{
  const busq_found *found = &peer->receiver.found;
  BUSQ_ASSERT(peer->receiver.has_reached);
  peer->receiver.has_reached = false;
  if (mode == BUSQ_TAKE_COPIED)
    record_release(peer, found->record, found->mark);
  else
    busq_share_put(peer->bus, peer->slot, peer->receiver.kept_at,
                   found_reference(peer, busq_share_reader(peer->slot) |
                                             (mode == BUSQ_TAKE_OFFERED ? BUSQ_RING_OFFERED : BUSQ_RING_TAKEN)));
  if (mode == BUSQ_TAKE_COPIED || !is_in_our_hands(peer, found->position))
    busq_share_done(peer->bus, found->position, peer->receiver.inbox_slot);
  peer->receiver.pins += mode == BUSQ_TAKE_PINNED;
  busq_store_relaxed(&peer->self->received, ++peer->receiver.received);
  taken_record(peer);
}

/* Everything up to the mark. */
BUSQ_ALWAYS_INLINE void take_begin(busq_peer *peer)
{
  const busq_found *found = &peer->receiver.found;
  BUSQ_ASSERT(found->mark < peer->bus->geometry.peers);
  BUSQ_ASSERT(found->is_late ? busq_heap_least(&peer->receiver.heap)->position == found->position
                             : found->position == peer->receiver.scan);
  if (BUSQ_UNLIKELY(found->is_late))
    busq_heap_pop(&peer->receiver.heap);
  else
    peer->receiver.scan++;
  busq_store_relaxed(&peer->self->received, ++peer->receiver.received);
  taken_record(peer);
}

BUSQ_ALWAYS_INLINE void take_mark(busq_peer *peer, uint32_t mode)
{
  const busq_found *found = &peer->receiver.found;
  BUSQ_STEP("pin");
  busq_store_release(&found->record->destination[found->mark].mark,
                     mode == BUSQ_TAKE_OFFERED ? BUSQ_MARK_OFFERED : BUSQ_MARK_TAKEN);
  peer->receiver.pins += mode == BUSQ_TAKE_PINNED;
}

/* The changes of an envelope are made before the mark; or behind it, where they may be made twice. */
__attribute__((noinline)) static void take_enveloped(busq_peer *peer, uint32_t mode)
{
  const busq_found *found = &peer->receiver.found;
  peer->upcalls->take(peer, found);
  take_begin(peer);
  if (mode != BUSQ_TAKE_COPIED) {
    take_mark(peer, mode);
    peer->upcalls->taken(peer, found);
    return;
  }
  record_release(peer, found->record, found->mark);
  peer->upcalls->taken(peer, found);
  position_done(peer, found->position);
}

/* One of several readers never finds an envelope. */
void busq_receive_take(busq_peer *peer, uint32_t mode)
{
  const busq_found *found = &peer->receiver.found;
  if (found->key.timestamp > peer->receiver.delivered)
    busq_store_relaxed(&peer->receiver.delivered, found->key.timestamp);
  if (BUSQ_UNLIKELY(peer->receiver.is_consumer)) {
    take_shared(peer, mode);
    return;
  }
  if (BUSQ_UNLIKELY(found->form & BUSQ_FORM_ENVELOPE)) {
    take_enveloped(peer, mode);
    return;
  }
  take_begin(peer);
  if (mode != BUSQ_TAKE_COPIED)
    take_mark(peer, mode);
  else
    found_release(peer, found);
}

void busq_receive_release(busq_peer *peer, uint32_t unit, uint32_t mark, uint64_t position)
{
  BUSQ_ASSERT(peer->receiver.pins > 0);
  BUSQ_ASSERT(unit < busq_bus_units(peer->bus));
  record_release(peer, busq_bus_record(peer->bus, unit), mark);
  peer->receiver.pins--;
  if (!busq_load_relaxed(&peer->is_closed) || peer->receiver.is_consumer)
    position_done(peer, position);
}

/* All marks before the head that they free, as for one; the senders are woken once. */
void busq_receive_release_all(busq_peer *peer, const busq_message *messages, size_t n_messages)
{
  bool has_moved = false;
  for (size_t i = 0; i < n_messages; i++) {
    record_release(peer, busq_bus_record(peer->bus, messages[i].record), messages[i].mark);
    if (BUSQ_UNLIKELY(peer->receiver.is_consumer))
      hand_done(peer, messages[i].position);
    else
      has_moved |= position_pass(peer, messages[i].position);
  }
  peer->receiver.pins -= n_messages;
  if (has_moved)
    head_publish(peer);
}

/* Does a message that was taken in that mode still wait for its end? */
static bool message_is_ours(const busq_peer *peer, uint32_t mode, const busq_message *message)
{
  const busq_record *record = busq_bus_record(peer->bus, message->record);
  const bool is_offered = mode == BUSQ_TAKE_OFFERED;
  busq_reference seen;
  if (busq_load_acquire(&record->state.lo) != (message->tag | BUSQ_PHASE_COMMITTED))
    return false;
  if (BUSQ_LIKELY(!peer->receiver.is_consumer))
    return busq_load_acquire(&record->destination[message->mark].mark) ==
           (is_offered ? BUSQ_MARK_OFFERED : BUSQ_MARK_TAKEN);
  return busq_share_look(peer->bus, busq_place_at(peer->slot, message->position), &seen) &&
         seen.record == message->record && seen.tag == message->tag &&
         seen.sender == (busq_share_reader(peer->slot) | (is_offered ? BUSQ_RING_OFFERED : BUSQ_RING_TAKEN));
}

int busq_receive_ack(busq_peer *peer, const busq_message *message)
{
  busq_record *record = busq_bus_record(peer->bus, message->record);
  if (!message_is_ours(peer, BUSQ_TAKE_OFFERED, message))
    return busq_error(BUSQ_INVALID, "a message that \"%s\" does not have to acknowledge: it was acknowledged before, or was received without ack",
                      peer->self->name);
  record_release(peer, record, message->mark);
  position_done(peer, message->position);
  return BUSQ_OK;
}

/* A pinned message also goes back from a peer that was closed meanwhile, for a successor: none can have come before.
 * To what was offered one may have. */
static bool message_return(busq_peer *peer, const busq_message *message)
{
  busq_record *record = busq_bus_record(peer->bus, message->record);
  const busq_key key = {busq_load_relaxed(&record->state.hi), message->tag, message->sender};
  const busq_heap_entry entry = {key,           message->position,           message->record,
                                 message->mark, message->is_redelivered != 0, true};
  if (!busq_heap_push(&peer->receiver.heap, entry))
    return false;
  busq_store_release(&record->destination[message->mark].mark,
                     BUSQ_MARK_RETURNED | (message->is_redelivered ? BUSQ_MARK_OFFERED : 0));
  return true;
}

bool busq_receive_give_back(busq_peer *peer, uint32_t mode, const busq_message *message)
{
  if ((busq_load_relaxed(&peer->is_closed) && mode == BUSQ_TAKE_OFFERED) || !message_is_ours(peer, mode, message))
    return false;
  if (!(peer->receiver.is_consumer
            ? claim_return(peer, busq_place_at(peer->slot, message->position), message->sender | BUSQ_RING_RETURNED)
            : message_return(peer, message)))
    return false;
  BUSQ_ASSERT(mode != BUSQ_TAKE_PINNED || peer->receiver.pins > 0);
  busq_store_relaxed(&peer->self->received, --peer->receiver.received);
  peer->receiver.pins -= mode == BUSQ_TAKE_PINNED;
  return true;
}

bool busq_receive_is_drained(const busq_peer *peer)
{
  return !peer->receiver.heap.count && busq_ring_tail(&peer->receiver.ring) == peer->receiver.scan;
}
