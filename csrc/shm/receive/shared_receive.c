/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/receive/shared_receive.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/time.h"
#include "shm/burial/grave.h"
#include "shm/memory/reserve.h"
#include "shm/message/reply_place.h"
#include "shm/message/shared_take.h"
#include "shm/receive/trace_taken.h"
#include "shm/receive/look.h"

/* ---- looking ---- */

static bool hands_look(busq_peer *peer, uint32_t reader);

/* Looks anew at all that can be had: in the queue from its head on, and in the hands of its readers. */
static void look_anew(busq_peer *peer)
{
  bool is_whole = true;
  peer->receiver.is_dropped = busq_ring_ending(&peer->receiver.ring) == BUSQ_RING_DROPPED;
  peer->receiver.heap.count = 0;
  peer->receiver.scan = busq_load_acquire(&peer->receiver.inbox->queue.head);
  for (uint32_t reader = 0; reader < busq_slots_reached(peer->bus); reader++)
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

/* True if we can have what stands at a place outside of our way along the ring.  The record may be used again while we look. */
static bool place_may_be_had(busq_peer *peer, busq_place place, busq_found *found)
{
  busq_reference seen;
  found->is_redelivered = found->was_given_back = false;
  if (!busq_share_look(peer->bus, place, &seen) || !busq_look_may_be_had(peer, &seen, found))
    return false;
  busq_record *record = busq_reference_record(peer->bus, seen);
  const uint64_t state = record ? busq_load_acquire(&record->state.lo) : BUSQ_PHASE_FREE;
  if (state != (seen.tag | BUSQ_PHASE_COMMITTED))
    return false;
  found->key = (busq_key){busq_load_relaxed(&record->state.hi), seen.tag, seen.sender};
  found->position = place;
  found->is_late = true;
  return busq_found_fill(peer->bus, peer->receiver.inbox_slot, seen, record, found) && busq_record_is_still(record, state);
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
    if (place_may_be_had(peer, busq_place_at(reader, at), &found) && !busq_look_hold_back(peer, &found))
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
int busq_several_peek(busq_peer *peer)
{
  busq_found *found = &peer->receiver.found;
  const int result = busq_look_has_memory(peer);
  if (BUSQ_UNLIKELY(result != BUSQ_OK))
    return result;
  catch_up(peer);
  for (;;) {
    const busq_look_outcome outcome = busq_look(peer, peer->receiver.scan, found);
    found->position = busq_place_at(peer->receiver.inbox_slot, peer->receiver.scan);
    if (outcome == BUSQ_LOOK_AGAIN) {
      continue;
    } else if (outcome == BUSQ_LOOK_PASS) {
      peer->receiver.scan++;
    } else if (outcome == BUSQ_LOOK_LATE) {
      if (!busq_look_hold_back(peer, found))
        return busq_error(BUSQ_NO_SPACE, "no memory to hold back %zu late messages", peer->receiver.heap.count + 1);
      peer->receiver.scan++;
    } else if (outcome == BUSQ_LOOK_DAMAGED) {
      return busq_look_damaged(peer);
    } else if (busq_look_heap_may_go(peer, outcome, found)) {
      if (least_may_be_had(peer))
        return BUSQ_OK;
      busq_heap_pop(&peer->receiver.heap);
    } else if (outcome == BUSQ_LOOK_READY) {
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

/* Gives a claim back, marked, since others may have gone past it; false where it is not ours any more. */
static bool several_return(busq_peer *peer, busq_place place, uint32_t sender)
{
  busq_reference seen;
  if (!busq_share_look(peer->bus, place, &seen) || !busq_share_is_claim_of(seen, peer->slot) ||
      !busq_share_change(peer->bus, place, seen, (busq_reference){sender | BUSQ_RING_OFFERED, seen.record, seen.tag}))
    return false;
  busq_share_returned(peer->bus, peer->receiver.inbox_slot);
  return true;
}

/* The request is read before that: another reader may take the message at once, and its record be used again. */
bool busq_several_give_back(busq_peer *peer, const busq_message *message)
{
  busq_request request;
  const bool is_request = busq_reply_place_request(message->form, message->data, message->size_bytes, &request);
  if (!several_return(peer, busq_place_at(peer->slot, message->position), message->sender | BUSQ_RING_RETURNED))
    return false;
  if (is_request)
    busq_reply_place_returned(peer->bus, &request, busq_life_name(peer->bus, peer->slot));
  return true;
}

static busq_reference found_reference(const busq_peer *peer, uint32_t sender)
{
  const uint64_t offset = (uint64_t)((const char *)peer->receiver.found.record - peer->bus->arena);
  return (busq_reference){sender, (uint32_t)(offset / BUSQ_LAYOUT_UNIT_BYTES), peer->receiver.found.key.sequence};
}

/* The swap fails where another reader was faster; one that succeeds a whole number of times 32768 laps too late has hit
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
  (void)several_return(peer, found->position, found->key.sender | given_back);
  return false;
}

static bool is_in_our_hands(const busq_peer *peer, busq_place place)
{
  return busq_place_slot(place) == peer->slot;
}

static int reach_next(busq_peer *peer);

/* The queue has ended with all that stood there: its memory is given back, and the next call finds the end. */
__attribute__((noinline)) static int drop_all(busq_peer *peer)
{
  while (reach_next(peer) == BUSQ_OK)
    busq_several_take(peer, BUSQ_TAKE_COPIED);
  return BUSQ_EMPTY;
}

int busq_several_reach(busq_peer *peer)
{
  if (peer->receiver.has_reached)
    return BUSQ_OK;
  const int result = reach_next(peer);
  if (BUSQ_UNLIKELY(peer->receiver.is_dropped && result == BUSQ_OK)) {
    busq_several_take(peer, BUSQ_TAKE_COPIED);
    return drop_all(peer);
  }
  return result;
}

/* Another reader has reached for a message that we have passed, and did not come through with it so far: is it dead? */
__attribute__((noinline)) static bool dead_had_reached(busq_peer *peer)
{
  busq_several_tend(peer);
  return busq_load_acquire(&peer->receiver.inbox->returns) != peer->receiver.returns;
}

static bool has_passed_any(const busq_peer *peer)
{
  return busq_load_acquire(&peer->receiver.inbox->queue.head) < peer->receiver.scan;
}

/* A message in our own hands already stays where it is. */
static bool may_be_put_into_our_hands(const busq_peer *peer)
{
  const busq_found *found = &peer->receiver.found;
  const uint64_t copied_below = peer->receiver.copied_below;
  if (copied_below == UINT64_MAX || peer->receiver.is_dropped || is_in_our_hands(peer, found->position))
    return false;
  return found->size_bytes >= copied_below || found->form == BUSQ_FORM_WIDE || (found->form & BUSQ_FORM_ENVELOPE);
}

static int hand_prepare(busq_peer *peer)
{
  if (!hand_find(peer))
    return busq_error(BUSQ_NO_SPACE, "this reader of \"%s\" has %llu messages in its hands: acknowledge or release some of them first",
                      peer->receiver.inbox->name, (unsigned long long)peer->receiver.ring.slot_count);
  return busq_reserve_hand(peer->bus, peer->slot, peer->receiver.hand);
}

static int reach_next(busq_peer *peer)
{
  if (busq_time_tick_ns() - peer->receiver.tended_ns >= BUSQ_SLICE_NS)
    busq_several_tend(peer);
  for (;;) {
    int result = busq_several_peek(peer);
    if (result == BUSQ_EMPTY && has_passed_any(peer) && dead_had_reached(peer))
      continue;
    if (result != BUSQ_OK)
      return result;
    if (may_be_put_into_our_hands(peer) && (result = hand_prepare(peer)) != BUSQ_OK)
      return result;
    const bool is_ours = reach(peer);
    if (peer->receiver.found.is_late)
      busq_heap_pop(&peer->receiver.heap);
    else
      peer->receiver.scan++;
    if (is_ours)
      break;
  }
  peer->receiver.kept_at = is_in_our_hands(peer, peer->receiver.found.position)
                               ? busq_place_position(peer->receiver.found.position)
                               : peer->receiver.hand;
  peer->receiver.has_reached = true;
  return BUSQ_OK;
}

void busq_several_put_back(busq_peer *peer)
{
  const busq_found *found = &peer->receiver.found;
  peer->receiver.has_reached = false;
  (void)several_return(peer, found->position, found->key.sender | (found->was_given_back ? BUSQ_RING_RETURNED : 0));
}

void busq_several_tend(busq_peer *peer)
{
  peer->receiver.tended_ns = busq_time_tick_ns();
  busq_share_advance(peer->bus, peer->receiver.inbox_slot, peer->receiver.inbox_slot);
  busq_grave_bury_readers(peer->bus, peer->receiver.inbox_slot, peer->slot, &peer->receiver.tended);
  look_anew(peer);
}

/* ---- taking ---- */

/* The reader is one of several: the position is one in its hands. */
__attribute__((noinline)) void busq_several_done(busq_peer *peer, uint64_t position)
{
  busq_share_done(peer->bus, busq_place_at(peer->slot, position), peer->receiver.inbox_slot);
  if (position < peer->receiver.hand)
    peer->receiver.hand = position;
}

void busq_several_answers_for(const busq_peer *peer, uint32_t form, const void *payload, uint64_t size_bytes)
{
  busq_request request;
  if (BUSQ_UNLIKELY(busq_reply_place_request(form, payload, size_bytes, &request)))
    busq_reply_place_taken(peer->bus, &request, busq_life_name(peer->bus, peer->slot));
}

/* Only we change what is in our hands while we live. */
void busq_several_keep(busq_peer *peer, uint64_t position)
{
  const busq_place place = busq_place_at(peer->slot, position);
  busq_reference seen;
  if (busq_share_look(peer->bus, place, &seen))
    (void)busq_share_change(peer->bus, place, seen,
                            (busq_reference){busq_share_reader(peer->slot) | BUSQ_RING_TAKEN, seen.record, seen.tag});
}

/* The message that was reached for is ours.  Copied, its release shows that; otherwise its being in our hands does. */
__attribute__((noinline)) void busq_several_take(busq_peer *peer, uint32_t mode)
{
  const busq_found *found = &peer->receiver.found;
  BUSQ_ASSERT(peer->receiver.has_reached);
  peer->receiver.has_reached = false;
  if (mode != BUSQ_TAKE_OFFERED)
    busq_several_answers_for(peer, found->form, found->payload, found->size_bytes);
  if (mode == BUSQ_TAKE_COPIED)
    busq_found_release_record(peer, found->record, found->mark);
  else
    busq_share_put(peer->bus, peer->slot, peer->receiver.kept_at,
                   found_reference(peer, busq_share_reader(peer->slot) |
                                             (mode == BUSQ_TAKE_OFFERED ? BUSQ_RING_OFFERED : BUSQ_RING_TAKEN)));
  if (mode == BUSQ_TAKE_COPIED || !is_in_our_hands(peer, found->position))
    busq_share_done(peer->bus, found->position, peer->receiver.inbox_slot);
  peer->receiver.pins += mode == BUSQ_TAKE_PINNED;
  busq_store_relaxed(&peer->self->received, ++peer->receiver.received);
  busq_trace_taken_message(peer);
}
