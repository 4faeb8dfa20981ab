/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/wait/descriptor_settle.h"
#include "shm/memory/life.h"
#include "shm/receive/holes.h"
#include "shm/receive/receive.h"
#include "shm/send/multicast.h"
#include "shm/wake/poll_descriptor.h"
#include "shm/wake/end_watch.h"
#include "shm/wake/room_request.h"
#include "shm/wake/wake.h"

/* Is there a reason to be readable?  BUSQ_EMPTY: none. */
static int descriptor_look(busq_peer *peer)
{
  if (busq_room_has_come(peer))
    return BUSQ_OK;
  const int result = peer->descriptor.listens & BUSQ_LISTEN_MESSAGES ? busq_receive_peek_helping(peer) : BUSQ_EMPTY;
  const bool is_over = busq_load_acquire(&peer->bus->header->is_shut_down) || busq_receive_has_ended(peer);
  return result == BUSQ_EMPTY && is_over ? BUSQ_SHUTDOWN : result;
}

/* For how long it may stay unreadable if no process writes to it: for what blocks the queue, and for anything else. */
static uint64_t descriptor_blocked_ns(const busq_peer *peer)
{
  return peer->descriptor.listens & BUSQ_LISTEN_MESSAGES ? peer->receiver.blocker.help_in_ns : UINT64_MAX;
}

static uint64_t descriptor_limit_ns(const busq_peer *peer)
{
  uint64_t limit_ns = BUSQ_NET_NS;
  if (peer->descriptor.asked && peer->descriptor.room_slice_ns < limit_ns)
    limit_ns = peer->descriptor.room_slice_ns;
  if (busq_load_acquire(&peer->bus->header->is_ending) && BUSQ_SLICE_NS < limit_ns)
    limit_ns = BUSQ_SLICE_NS;
  return limit_ns;
}

void busq_descriptor_settle(busq_peer *peer)
{
  if (peer->descriptor.listens == BUSQ_LISTEN_NOT)
    return;
  const bool is_armed =
      peer->descriptor.epoch && busq_load_acquire(&peer->receiver.inbox->wake_flags) >> 1 == peer->descriptor.epoch;
  int result = descriptor_look(peer);
  if (peer->receiver.received != peer->descriptor.received_seen)
    busq_fifo_sleep_lightly(peer);
  peer->descriptor.received_seen = peer->receiver.received;
  /* A sender writes its byte first and takes the flag down afterwards: armed, there may still be a byte of a message
   * that is gone.  Several readers have one FIFO: a reader that finds nothing empties it for all, raises the flag, and
   * looks again; so a message that came since, though its byte was lost with the others, is found here, and all readers
   * are woken. */
  if (result == BUSQ_EMPTY &&
      (!is_armed || peer->descriptor.is_readable || busq_fifo_may_deepen(peer) || busq_fifo_drain(peer))) {
    busq_fifo_arm(peer);
    peer->descriptor.is_readable = false;
    busq_wake_for_room(peer->bus, peer->receiver.inbox_slot); /* behind a fence, as before a sleep in a call */
    result = descriptor_look(peer);
  }
  if (result == BUSQ_EMPTY) {
    busq_fifo_look_again(peer, descriptor_blocked_ns(peer), descriptor_limit_ns(peer));
    return;
  }
  busq_fifo_sleep_lightly(peer);
  if (!peer->descriptor.is_readable) {
    busq_fifo_make_readable(peer);
    peer->descriptor.is_readable = true;
  }
}

int busq_descriptor_ask_for_room(busq_peer *peer, uint64_t failed_target)
{
  const bool is_memory = failed_target == BUSQ_NO_TARGET ||
                         busq_target_slot(failed_target) >= busq_slots_reached(peer->bus);
  const uint32_t slot = is_memory ? BUSQ_RING_NOBODY : busq_target_slot(failed_target);
  int result = busq_receive_begin(peer);
  if (result != BUSQ_OK)
    return result;
  result = busq_fifo_open(peer);
  if (result == BUSQ_OK) {
    busq_room_ask(peer, slot);
    /* In a long sleep, the death of the reader that is to make room has to be reported. */
    if (peer->descriptor.room_slice_ns >= BUSQ_SLICE_NS)
      peer->descriptor.room_is_unwatched |= is_memory || !busq_lives_watch(peer, busq_life_name(peer->bus, slot));
    /* Another look may find room by itself, and then no process would wake us. */
    if (busq_load_relaxed(&peer->sender.finds_more))
      busq_room_come(peer, slot);
  }
  busq_biased_latch_release(&peer->receiver.latch);
  return result;
}
