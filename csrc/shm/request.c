/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/request.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/growing.h"
#include "shm/death/join.h"
#include "shm/memory/names.h"
#include "shm/memory/reserve.h"
#include "shm/message/reply_place.h"
#include "shm/receive/receive.h"
#include "shm/send/multicast.h"
#include "shm/wait/descriptor_settle.h"
#include "shm/wait/send_call.h"
#include "shm/wake/end_watch.h"
#include "shm/wake/wake.h"
#include <stdio.h>
#include <string.h>

/* ---- the second slot ---- */

#define REPLIES "/replies"

/* "alice/replies"; where a name is too long for that, its beginning, without half a character at the end, and a
 * number. */
static size_t replies_name(const busq_peer *peer, uint32_t number, char *name)
{
  char end[sizeof REPLIES + 12];
  const int end_bytes = snprintf(end, sizeof end, number ? REPLIES "-%u" : REPLIES, number);
  size_t bytes = busq_load_relaxed(&peer->self->name_bytes);
  if (bytes > BUSQ_LAYOUT_NAME_BYTES_MAX - (size_t)end_bytes) {
    bytes = BUSQ_LAYOUT_NAME_BYTES_MAX - (size_t)end_bytes;
    while (bytes && ((unsigned char)peer->self->name[bytes] & 0xc0) == 0x80)
      bytes--;
  }
  memcpy(name, peer->self->name, bytes);
  memcpy(name + bytes, end, (size_t)end_bytes);
  return bytes + (size_t)end_bytes;
}

static int replies_without_slot(const busq_peer *peer)
{
  char why[512];
  snprintf(why, sizeof why, "%s", busq_error_text());
  return busq_error(BUSQ_NO_SPACE, "\"%.255s\" asks, for which it needs a second peer slot, where the replies come, and there is none: %s",
                    peer->self->name, why);
}

int busq_peer_join_replies(busq_peer *peer, busq_peer **repliesp)
{
  char name[BUSQ_LAYOUT_NAME_BYTES_MAX + 1];
  int result = busq_peer_check(peer);
  if (result)
    return result;
  /* Numbers are for long names that begin alike. */
  for (uint32_t number = 0; number < peer->bus->geometry.peers; number++) {
    const size_t bytes = replies_name(peer, number, name);
    result = busq_join_hidden(peer->bus, name, bytes, repliesp);
    if (result != BUSQ_PEER_EXISTS)
      break;
  }
  if (result == BUSQ_NO_SPACE)
    return replies_without_slot(peer);
  if (result == BUSQ_OK && (result = busq_reserve_replies((*repliesp)->bus, (*repliesp)->slot)) != BUSQ_OK) {
    busq_peer_free(*repliesp);
    *repliesp = NULL;
  }
  return result;
}

/* ---- places: what the asker keeps about them, with the send latch of the peer that takes its replies ---- */

static void place_is_free(busq_replies *places, const busq_bus *bus, uint64_t number)
{
  BUSQ_ASSERT(places->n_used > 0 && places->n_free < places->free_room);
  places->free[places->n_free++] = (uint32_t)(number % bus->geometry.capacity);
  places->n_used--;
}

static bool place_change(const busq_peer *replies, uint64_t number, busq_reply_state from, busq_reply_state to, uint64_t holder)
{
  return busq_reply_place_change(replies->bus, replies->slot, number, from, to, holder);
}

static bool place_was_answered(const busq_peer *replies, uint64_t number)
{
  return place_change(replies, number, BUSQ_REPLY_SENDING, BUSQ_REPLY_FREE, 0) ||
         place_change(replies, number, BUSQ_REPLY_GIVEN_UP, BUSQ_REPLY_FREE, 0);
}

/* The reply to a request that was given up will not come any more. */
static bool place_is_left(const busq_peer *replies, uint64_t number)
{
  const busq_pair seen = busq_pair_load(busq_reply_place_of(replies->bus, replies->slot, number));
  return seen.lo != busq_reply_word(busq_reply_turn(replies->bus, number), BUSQ_REPLY_GIVEN_UP) ||
         (!busq_life_is_going_on(replies->bus, seen.hi) && place_was_answered(replies, number));
}

static void look_at_given_up(busq_peer *replies)
{
  busq_replies *places = &replies->replies;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < places->n_given_up; i++) {
    const uint64_t number = places->given_up[i];
    if (place_is_left(replies, number))
      place_is_free(places, replies->bus, number);
    else
      places->given_up[kept++] = number;
  }
  places->n_given_up = kept;
}

/* Each request that waits has room for its reply, whichever replies come first, and however long those that have come,
 * or are looked at in place, stay in the queue. */
static bool places_are_taken(const busq_peer *replies)
{
  const uint64_t head = busq_load_acquire(&replies->self->queue.head);
  return replies->replies.n_used + (busq_ring_tail(&replies->receiver.ring) - head) >= replies->bus->geometry.capacity;
}

static int place_take(busq_peer *replies, uint64_t *numberp)
{
  busq_replies *places = &replies->replies;
  const busq_bus *bus = replies->bus;
  if (places_are_taken(replies) && places->n_given_up)
    look_at_given_up(replies);
  if (places_are_taken(replies))
    return busq_error_full(bus->name, replies->self->name, busq_load_relaxed(&replies->self->name_bytes), false);
  if (!busq_reserve(&places->free, &places->free_room, (uint64_t)places->n_known + 1, sizeof *places->free) ||
      !busq_reserve(&places->given_up, &places->given_up_room, (uint64_t)places->n_known + 1, sizeof *places->given_up))
    return busq_error(BUSQ_NO_SPACE, "no memory for %u requests at once", places->n_used + 1);
  const uint32_t index = places->n_free ? places->free[--places->n_free] : places->n_known++;
  busq_reply_place *place = busq_bus_reply_places(bus, replies->slot) + index;
  busq_pair seen = busq_pair_load(place);
  uint64_t turn;
  do
    turn = ((seen.lo >> 2) + 1) & BUSQ_REPLY_TURN_MASK;
  while (!busq_pair_cas(place, &seen, (busq_pair){busq_reply_word(turn, BUSQ_REPLY_AWAITED), 0}));
  *numberp = turn * bus->geometry.capacity + index;
  places->n_used++;
  return BUSQ_OK;
}

static bool places_enter(busq_peer *replies)
{
  if (replies->fork_generation != busq_fork_generation)
    return false;
  busq_biased_latch_acquire(&replies->sender.latch);
  if (!busq_load_relaxed(&replies->is_closed)) /* once closed, the slot may be another peer's */
    return true;
  busq_biased_latch_release(&replies->sender.latch);
  return false;
}

/* A thread that waits for a place waits for room in the queue for replies. */
static void places_leave(busq_peer *replies, bool has_freed)
{
  busq_biased_latch_release(&replies->sender.latch);
  if (has_freed)
    busq_wake_for_room(replies->bus, replies->slot);
}

/* ---- asking ---- */

typedef struct {
  busq_peer *replies;
  uint64_t *numberp;
} asking;

static int request_begin(busq_peer *peer, const void *arguments, uint64_t *failed_targetp)
{
  const asking *call = arguments;
  int result = busq_peer_check(peer);
  *failed_targetp = busq_peer_address(call->replies);
  if (result == BUSQ_OK && !places_enter(call->replies))
    result = BUSQ_CLOSED;
  if (result != BUSQ_OK)
    return result;
  result = place_take(call->replies, call->numberp);
  places_leave(call->replies, false);
  return result;
}

int busq_peer_request_begin(busq_peer *peer, busq_peer *replies, int64_t timeout_ns, uint64_t *numberp)
{
  return busq_send_wait(peer, request_begin, &(asking){replies, numberp}, timeout_ns);
}

int busq_peer_request_begin_asking(busq_peer *peer, busq_peer *replies, uint64_t *numberp)
{
  const asking call = {replies, numberp};
  uint64_t target;
  int result = request_begin(peer, &call, &target);
  if (result != BUSQ_FULL || (result = busq_descriptor_ask_for_room(peer, target)) != BUSQ_OK)
    return result;
  return request_begin(peer, &call, &target);
}

/* Where its sender finds no room while we look, the place is awaited again. */
void busq_peer_request_end(busq_peer *replies, uint64_t number)
{
  busq_replies *places = &replies->replies;
  bool has_freed = false, is_given_up = false;
  if (!places_enter(replies))
    return;
  busq_reply_place *place = busq_reply_place_of(replies->bus, replies->slot, number);
  const uint64_t turn = busq_reply_turn(replies->bus, number);
  busq_pair seen = busq_pair_load(place);
  while (!has_freed && !is_given_up) {
    if (seen.lo == busq_reply_word(turn, BUSQ_REPLY_AWAITED))
      has_freed = busq_pair_cas(place, &seen, (busq_pair){busq_reply_word(turn, BUSQ_REPLY_FREE), 0});
    else if (seen.lo == busq_reply_word(turn, BUSQ_REPLY_SENDING))
      is_given_up = busq_pair_cas(place, &seen, (busq_pair){busq_reply_word(turn, BUSQ_REPLY_GIVEN_UP), seen.hi});
    else
      break;
  }
  if (has_freed)
    place_is_free(places, replies->bus, number);
  if (is_given_up)
    places->given_up[places->n_given_up++] = number;
  places_leave(replies, has_freed);
}

void busq_peer_request_answered(busq_peer *replies, uint64_t number)
{
  busq_replies *places = &replies->replies;
  if (!places_enter(replies))
    return;
  const bool has_freed = place_was_answered(replies, number);
  if (has_freed)
    place_is_free(places, replies->bus, number);
  for (uint32_t i = 0; has_freed && i < places->n_given_up; i++)
    if (places->given_up[i] == number)
      places->given_up[i--] = places->given_up[--places->n_given_up];
  places_leave(replies, has_freed);
}

/* ---- replying ---- */

static int asker_lives(const busq_bus *bus, uint64_t target)
{
  const uint64_t life = busq_load_acquire(&bus->slots[busq_target_slot(target)].life);
  return (uint32_t)(life >> 32) == busq_target_incarnation(target)
             ? BUSQ_OK
             : busq_error(BUSQ_PEER_DEAD, "the one who asked has left bus \"%s\" or died; nobody waits for the reply", bus->name);
}

int busq_peer_reply(busq_peer *peer, const busq_request *request, const busq_part *parts, uint32_t n_parts,
                    int64_t timeout_ns, uint32_t *sentp)
{
  const uint32_t slot = busq_target_slot(request->to);
  int result = busq_peer_check(peer);
  if (result)
    return result;
  const busq_bus *bus = peer->bus;
  if (slot >= busq_slots_reached(bus))
    return busq_error(BUSQ_CORRUPT, "a request from slot %u of a bus with %u slots", slot, bus->geometry.peers);
  const uint64_t self = busq_life_name(bus, peer->slot);
  const bool is_awaited = busq_reply_place_change(bus, slot, request->number, BUSQ_REPLY_AWAITED, BUSQ_REPLY_SENDING, self);
  busq_fence_full();
  /* Read behind the place: that may be another asker's only if this one is gone. */
  result = asker_lives(bus, request->to);
  if (result == BUSQ_OK && is_awaited)
    result = busq_peer_send_parts(peer, &request->to, 1, parts, n_parts, BUSQ_FORM_REPLY, timeout_ns, sentp);
  if (result != BUSQ_OK && is_awaited &&
      !busq_reply_place_change(bus, slot, request->number, BUSQ_REPLY_SENDING, BUSQ_REPLY_AWAITED, self))
    (void)busq_reply_place_change(bus, slot, request->number, BUSQ_REPLY_GIVEN_UP, BUSQ_REPLY_FREE, 0);
  return result == BUSQ_OK && !is_awaited ? BUSQ_EMPTY : result;
}

/* ---- lives ---- */

int busq_peer_life_at_send(busq_peer *peer, uint64_t target, uint64_t *beganp)
{
  const int result = busq_peer_check(peer);
  if (result)
    return result;
  const uint32_t slot = busq_target_slot(target), incarnation = busq_target_incarnation(target);
  if (slot < busq_slots_reached(peer->bus)) {
    const busq_slot *other = &peer->bus->slots[slot];
    const uint64_t life = busq_load_acquire(&other->life);
    *beganp = busq_load_relaxed(&other->began_ns);
    busq_fence_full();
    if ((uint32_t)(life >> 32) == incarnation && (life & BUSQ_LIFE_MASK) == BUSQ_LIFE_LIVE &&
        (!(life & BUSQ_LIFE_DURABLE) || busq_life_is_held(peer->bus, slot)) &&
        busq_load_acquire(&other->life) == life)
      return BUSQ_OK;
  }
  return busq_error(BUSQ_PEER_DEAD, "the peer has left bus \"%s\" or died", peer->bus->name);
}

uint64_t busq_peer_request_life(busq_peer *replies, uint64_t number, uint64_t target, uint64_t began)
{
  const uint64_t turn = busq_reply_turn(replies->bus, number);
  if (busq_peer_check(replies) != BUSQ_OK)
    return 0;
  const busq_pair seen = busq_pair_load(busq_reply_place_of(replies->bus, replies->slot, number));
  if (seen.lo != busq_reply_word(turn, BUSQ_REPLY_AWAITED) && seen.lo != busq_reply_word(turn, BUSQ_REPLY_SENDING))
    return 0;
  return seen.hi ? seen.hi : busq_life_name_of(busq_target_slot(target), busq_target_incarnation(target), began);
}

int busq_peer_watch_life(busq_peer *peer, uint64_t life)
{
  const int result = busq_peer_receive_begin(peer);
  if (result)
    return result;
  const bool is_watched = busq_lives_watch(peer, life);
  busq_peer_receive_end(peer);
  return is_watched ? BUSQ_OK : BUSQ_EMPTY;
}

void busq_peer_wake(busq_peer *peer)
{
  if (busq_peer_check(peer) == BUSQ_OK)
    busq_wake_readers_of(peer->bus, peer->slot);
}

int busq_peer_watched_lives(busq_peer *peer, int goes_on)
{
  const int result = busq_peer_receive_begin(peer);
  if (result)
    return result;
  const bool are_quiet = busq_lives_are_quiet(peer);
  if (!goes_on)
    busq_lives_unwatch(peer);
  busq_peer_receive_end(peer);
  return are_quiet ? BUSQ_OK : BUSQ_PEER_DEAD;
}

int busq_peer_life_goes_on(busq_peer *peer, uint64_t life)
{
  const int result = busq_peer_check(peer);
  return result ? result : busq_life_is_going_on(peer->bus, life) ? BUSQ_OK : BUSQ_PEER_DEAD;
}

/* ---- what has come ---- */

uint64_t busq_peer_tail(const busq_peer *replies)
{
  return busq_ring_tail(&replies->receiver.ring);
}

int busq_peer_has_received(busq_peer *replies, uint64_t position)
{
  const int result = busq_peer_receive_begin(replies);
  if (result)
    return result;
  const bool has = replies->receiver.scan >= position && !replies->receiver.heap.count;
  busq_peer_receive_end(replies);
  return has ? BUSQ_OK : BUSQ_EMPTY;
}

void busq_peer_follow(busq_peer *peer, const busq_peer *replies)
{
  const uint64_t seen = busq_load_relaxed(&replies->receiver.delivered);
  if (busq_peer_check(peer))
    return;
  /* By the latch that the asker's thread has just held for sending. */
  busq_biased_latch_acquire(&peer->sender.latch);
  peer->sender.lamport = busq_timestamp_max(peer->sender.lamport, seen);
  busq_biased_latch_release(&peer->sender.latch);
}
