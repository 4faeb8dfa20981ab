/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/request.h"
#include "base/assert.h"
#include "base/error.h"
#include "shm/death/join.h"
#include "shm/memory/names.h"
#include "shm/receive/receive.h"
#include "shm/send/multicast.h"
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
  return result == BUSQ_NO_SPACE ? replies_without_slot(peer) : result;
}

/* ---- awaiting ---- */

void busq_peer_await(busq_peer *replies, uint64_t number)
{
  if (!busq_peer_check(replies)) /* once closed, the slot may be another peer's */
    busq_store_release(&replies->self->awaited, number);
}

int busq_peer_is_awaited(busq_peer *peer, uint64_t target, uint64_t number)
{
  const int result = busq_peer_check(peer);
  if (result)
    return result;
  const uint32_t slot = busq_target_slot(target);
  if (slot >= peer->bus->geometry.peers)
    return busq_error(BUSQ_CORRUPT, "a request from slot %u of a bus with %u slots", slot, peer->bus->geometry.peers);
  const busq_slot *asker = &peer->bus->slots[slot];
  const uint64_t awaited = busq_load_acquire(&asker->awaited);
  busq_fence_full();
  /* Read before the life: the number may be another asker's only if this one is gone. */
  if ((uint32_t)(busq_load_acquire(&asker->life) >> 32) != busq_target_incarnation(target))
    return busq_error(BUSQ_PEER_DEAD, "the one who asked has left bus \"%s\" or died; nobody waits for the reply", peer->bus->name);
  return number < awaited ? BUSQ_EMPTY : BUSQ_OK;
}

/* ---- lives ---- */

static int target_life(busq_peer *peer, uint64_t target, bool asks_kernel, uint64_t *beganp)
{
  const int result = busq_peer_check(peer);
  if (result)
    return result;
  const uint32_t slot = busq_target_slot(target), incarnation = busq_target_incarnation(target);
  if (slot < peer->bus->geometry.peers) {
    const busq_slot *other = &peer->bus->slots[slot];
    const uint64_t life = busq_load_acquire(&other->life);
    *beganp = busq_load_relaxed(&other->began_ns);
    busq_fence_full();
    if ((uint32_t)(life >> 32) == incarnation && (life & BUSQ_LIFE_MASK) == BUSQ_LIFE_LIVE &&
        (!(asks_kernel || (life & BUSQ_LIFE_DURABLE)) || busq_life_is_held(peer->bus, slot)) &&
        busq_load_acquire(&other->life) == life)
      return BUSQ_OK;
  }
  return busq_error(BUSQ_PEER_DEAD, "the peer has left bus \"%s\" or died", peer->bus->name);
}

int busq_peer_life(busq_peer *peer, uint64_t target, uint64_t *beganp)
{
  return target_life(peer, target, true, beganp);
}

int busq_peer_life_at_send(busq_peer *peer, uint64_t target, uint64_t *beganp)
{
  return target_life(peer, target, false, beganp);
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
