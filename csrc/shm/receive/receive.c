/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/receive/receive.h"
#include "base/assert.h"
#include "base/error.h"
#include "shm/message/shared_take.h"
#include "shm/receive/trace_taken.h"
#include "shm/receive/look.h"
#include "shm/receive/shared_receive.h"

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

static inline void position_done(busq_peer *peer, uint64_t position)
{
  if (BUSQ_UNLIKELY(peer->receiver.is_consumer)) {
    busq_several_done(peer, position);
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
  const uint64_t position = peer->receiver.scan + AHEAD;
  busq_pair *const slot = busq_receiver_slot(&peer->receiver, position);
  if (BUSQ_UNLIKELY(!slot) || !busq_ring_look_into(&peer->receiver.ring, slot, position, &reference) ||
      !busq_bus_has_units(peer->bus, reference.record + UINT64_C(1)))
    return;
  const char *record = (const char *)busq_bus_record(peer->bus, reference.record);
  busq_prefetch_write(record);
  __builtin_prefetch(record + BUSQ_LAYOUT_UNIT_BYTES, 0, 3);
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
  return busq_found_fill(peer->bus, peer->receiver.inbox_slot, reference, busq_bus_record(peer->bus, least->record), found);
}

BUSQ_ALWAYS_INLINE int peek_single(busq_peer *peer)
{
  busq_found *found = &peer->receiver.found;
  for (;;) {
    const busq_look_outcome outcome = busq_look(peer, peer->receiver.scan, found);
    if (BUSQ_LIKELY(outcome == BUSQ_LOOK_READY && !peer->receiver.heap.count)) {
      prefetch_next(peer);
      return BUSQ_OK;
    }
    switch (outcome) {
    case BUSQ_LOOK_AGAIN:
      continue;
    case BUSQ_LOOK_PASS:
      position_done(peer, peer->receiver.scan++);
      continue;
    case BUSQ_LOOK_LATE:
      if (!busq_look_hold_back(peer, found))
        return busq_error(BUSQ_NO_SPACE, "no memory to hold back %zu late messages", peer->receiver.heap.count + 1);
      peer->receiver.scan++;
      continue;
    case BUSQ_LOOK_DAMAGED:
      return busq_look_damaged(peer);
    case BUSQ_LOOK_READY:
      prefetch_next(peer);
      if (!busq_look_heap_may_go(peer, outcome, found))
        return BUSQ_OK;
      break;
    case BUSQ_LOOK_NOTHING:
    case BUSQ_LOOK_BLOCKED:
      if (!busq_look_heap_may_go(peer, outcome, found))
        return BUSQ_EMPTY;
      break;
    }
    return found_from_heap(peer, busq_heap_least(&peer->receiver.heap)) ? BUSQ_OK : busq_look_damaged(peer);
  }
}

/* The mark first: died in between, the reference is found released; the other way round no process would release it. */
BUSQ_ALWAYS_INLINE void found_release(busq_peer *peer, const busq_found *found)
{
  busq_found_release_record(peer, found->record, found->mark);
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
  busq_trace_taken_found(peer, found->envelope.kind == BUSQ_KIND_WATCH ? BUSQ_TRACE_DELIVER : BUSQ_TRACE_PASS);
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
      return busq_look_damaged(peer);
    found_pass(peer);
    result = peek_single(peer);
  }
  return result;
}

int busq_receive_peek(busq_peer *peer)
{
  if (BUSQ_UNLIKELY(peer->receiver.is_consumer))
    return peer->receiver.has_reached ? BUSQ_OK : busq_several_peek(peer);
  int result = busq_look_has_memory(peer);
  if (BUSQ_LIKELY(result == BUSQ_OK))
    result = peek_single(peer);
  if (BUSQ_UNLIKELY(result == BUSQ_OK && (peer->receiver.found.form & BUSQ_FORM_ENVELOPE)))
    return peek_enveloped(peer);
  return result;
}

/* ---- taking ---- */

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
  busq_trace_taken_message(peer);
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
  peer->upcalls->take(peer, found, mode);
  take_begin(peer);
  if (mode != BUSQ_TAKE_COPIED) {
    take_mark(peer, mode);
    peer->upcalls->taken(peer, found);
    return;
  }
  busq_found_release_record(peer, found->record, found->mark);
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
    busq_several_take(peer, mode);
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
  BUSQ_ASSERT(busq_bus_has_units(peer->bus, unit + UINT64_C(1)));
  busq_found_release_record(peer, busq_bus_record(peer->bus, unit), mark);
  peer->receiver.pins--;
  if (!busq_load_relaxed(&peer->is_closed) || peer->receiver.is_consumer)
    position_done(peer, position);
}

/* All marks before the head that they free, as for one; the senders are woken once. */
void busq_receive_release_all(busq_peer *peer, const busq_message *messages, size_t n_messages)
{
  bool has_moved = false;
  for (size_t i = 0; i < n_messages; i++) {
    busq_found_release_record(peer, busq_bus_record(peer->bus, messages[i].record), messages[i].mark);
    if (BUSQ_UNLIKELY(peer->receiver.is_consumer))
      busq_several_done(peer, messages[i].position);
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

/* All of acknowledging but for what becomes of its memory. */
static int ack_begin(busq_peer *peer, const busq_message *message)
{
  if (!message_is_ours(peer, BUSQ_TAKE_OFFERED, message))
    return busq_error(BUSQ_INVALID, "a message that \"%s\" does not have to acknowledge: it was acknowledged before, or was received without ack",
                      peer->self->name);
  if (peer->receiver.is_consumer)
    busq_several_answers_for(peer, message->form, message->data, message->size_bytes);
  return BUSQ_OK;
}

int busq_receive_ack(busq_peer *peer, const busq_message *message)
{
  const int result = ack_begin(peer, message);
  if (result != BUSQ_OK)
    return result;
  busq_found_release_record(peer, busq_bus_record(peer->bus, message->record), message->mark);
  position_done(peer, message->position);
  return BUSQ_OK;
}

int busq_receive_ack_and_keep(busq_peer *peer, const busq_message *message)
{
  const int result = ack_begin(peer, message);
  if (result != BUSQ_OK)
    return result;
  BUSQ_STEP("keep");
  if (peer->receiver.is_consumer)
    busq_several_keep(peer, message->position);
  else
    busq_store_release(&busq_bus_record(peer->bus, message->record)->destination[message->mark].mark, BUSQ_MARK_TAKEN);
  peer->receiver.pins++;
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
  if (!(peer->receiver.is_consumer ? busq_several_give_back(peer, message) : message_return(peer, message)))
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

bool busq_receive_has_ended(const busq_peer *peer)
{
  const uint64_t ending = peer->receiver.is_consumer ? busq_ring_ending(&peer->receiver.ring) : 0;
  return ending == BUSQ_RING_DROPPED || (ending && busq_receive_is_drained(peer));
}
