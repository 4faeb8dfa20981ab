/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/death/new_slot.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/time.h"
#include "shm/group/group.h"
#include "shm/memory/peer_slots.h"
#include "shm/memory/reserve.h"
#include "shm/message/shared_take.h"
#include "shm/wake/end_watch.h"
#include <string.h>
#include <unistd.h>

/* Messages that a reader of the same queue has left in its hands may stay there, for all of its readers: or the only
 * one that there is room for could not come back. */
static bool slot_hands_are_ours(const busq_peer *peer, uint32_t slot)
{
  return peer->receiver.is_consumer && busq_share_is_reader_of(peer->bus, slot, peer->receiver.inbox_slot);
}

/* In the slot's grave: can a new peer have it?  Messages of the last one that are still on their way need its name and
 * its memory, and what is durable waits for its own peer. */
static bool slot_make_free(const busq_peer *peer, uint32_t slot)
{
  busq_bus *bus = peer->bus;
  while (!busq_grave_bury(bus, slot))
    ;
  /* With another order than bus1 every slot is given once: its number is part of the protocol's state everywhere. */
  if (strcmp(bus->order, "bus1") != 0 && busq_load_acquire(&bus->slots[slot].life) != 0)
    return false;
  return !(busq_load_acquire(&bus->slots[slot].life) & BUSQ_LIFE_DURABLE) &&
         (!busq_grave_has_messages(bus, slot) || slot_hands_are_ours(peer, slot)) && busq_arena_vacate(bus, slot);
}

/* A peer that died as a member of a group, and whose death was not noticed so far (notice.h): its name is still needed.
 * Where there is no other slot, the view without it gives it no name. */
static bool slot_is_missed(const busq_bus *bus, uint32_t slot)
{
  const uint32_t incarnation = (uint32_t)(busq_load_acquire(&bus->slots[slot].life) >> 32);
  for (uint32_t index = 0; incarnation && index < bus->geometry.groups; index++)
    if (busq_group_has(bus, index, slot, incarnation))
      return true;
  return false;
}

/* A free slot, from one on.  Leaves its grave entered. */
static bool slot_find_from(const busq_peer *peer, busq_grave *grave, uint32_t from, bool is_choosy, uint32_t *slotp,
                           uint32_t *n_held)
{
  busq_bus *bus = grave->bus;
  for (*slotp = from; *slotp < busq_slots_reached(bus); ++*slotp) {
    if (!busq_grave_enter(grave, *slotp)) {
      ++*n_held;
      continue;
    }
    if (!(is_choosy && slot_is_missed(bus, *slotp)) && slot_make_free(peer, *slotp))
      return true;
    busq_grave_leave(grave, *slotp);
  }
  return false;
}

/* Finds a slot among those that were used, or else reaches more. */
static int slot_find_new(const busq_peer *peer, busq_grave *grave, bool is_choosy, uint32_t *slotp, uint32_t *n_held)
{
  int result = BUSQ_OK;
  *slotp = *n_held = 0;
  while (!slot_find_from(peer, grave, *slotp, is_choosy, slotp, n_held))
    if ((result = busq_slots_reach(grave->bus, *slotp)) != BUSQ_OK)
      return result;
  return BUSQ_OK;
}

/* BUSQ_EMPTY where all are taken.  The messages of departed peers are kept for as long as the room is not needed. */
static int slot_find(const busq_peer *peer, busq_grave *grave, uint32_t *slotp, uint32_t *n_held)
{
  int result;
  do {
    result = slot_find_new(peer, grave, grave->bus->geometry.groups != 0, slotp, n_held);
    if (result && grave->bus->geometry.groups) /* once more, and any slot will do */
      result = slot_find_new(peer, grave, false, slotp, n_held);
  } while (result && busq_grave_discard_oldest(grave));
  return result;
}

void busq_new_slot_describe(busq_peer *peer)
{
  busq_slot *self = peer->self;
  self->pid = (uint32_t)getpid();
  self->pid_space = busq_lives_pid_space();
  busq_store_relaxed(&self->mourners, 0);
  busq_store_relaxed(&self->awaits_readers, 0);
  self->joined_ns = busq_time_wall_ns();
  self->began_ns = busq_time_host_ns();
  busq_store_relaxed(&self->sends.what, BUSQ_WAITING_NOT);
  busq_store_relaxed(&self->receives.what, BUSQ_WAITING_NOT);
  busq_store_relaxed(&self->wake_flags, 0);
  busq_store_relaxed(&self->fifo_failed, 0);
  busq_store_relaxed(&self->memory_waits, 0);
  busq_store_relaxed(&self->asks, 0);
  busq_store_relaxed(&self->in_hand, busq_load_relaxed(&self->sent) << 32); /* nothing */
  busq_store_relaxed(&self->searched, 0);
  self->tally = (busq_pair){0, 0};
  peer->sender.sequence = peer->sender.sequence_limit = busq_load_relaxed(&self->sequence_reserved);
}

/* The incarnation of the queue that a reader shares, which it keeps alive. */
static uint32_t inbox_incarnation(const busq_peer *peer)
{
  return (uint32_t)(busq_load_acquire(&peer->receiver.inbox->life) >> 32);
}

/* Before it lives: killed on the way, it has used a number, and nothing else. */
void busq_new_slot_life_begin(busq_peer *peer)
{
  const uint32_t incarnation = (uint32_t)(busq_load_acquire(&peer->self->life) >> 32);
  const uint32_t lives = busq_load_relaxed(&peer->self->lives);
  peer->life = (lives > incarnation ? lives : incarnation) + 1;
  busq_store_release(&peer->self->lives, peer->life);
}

static void slot_begin(busq_peer *peer, const char *name, size_t name_bytes)
{
  busq_slot *self = peer->self;
  BUSQ_ASSERT(name_bytes > 0 && name_bytes <= BUSQ_LAYOUT_NAME_BYTES_MAX);
  BUSQ_ASSERT(peer->slot < peer->bus->geometry.peers);
  busq_new_slot_life_begin(peer);
  peer->incarnation = peer->life;
  const bool has_hands = slot_hands_are_ours(peer, peer->slot);
  const uint64_t consumes = peer->receiver.is_consumer
                                ? busq_share_word(peer->receiver.inbox_slot, inbox_incarnation(peer))
                                : 0;
  /* A reader's word first, and its life shows what it is from the beginning: what stands in its hands is always seen to
   * be its queue's. */
  busq_store_release(&self->consumes, consumes);
  /* Not durable before it lives: a peer that dies on the way has promised nothing, and has no name by which it could be
   * removed. */
  busq_store_release(&self->life,
                     busq_life_word(peer->incarnation, BUSQ_LIFE_JOINING | (peer->life_flags & BUSQ_LIFE_CONSUMER)));
  busq_fence_full();
  BUSQ_STEP("join");
  memcpy(self->name, name, name_bytes);
  self->name[name_bytes] = '\0';
  busq_store_relaxed(&self->name_bytes, (uint32_t)name_bytes);
  self->room_waiters = 0;
  busq_group_forget(peer);
  busq_store_relaxed(&self->limit, 0);
  busq_store_relaxed(&self->handed, 0);
  busq_store_relaxed(&self->ahead, 0);
  self->sent = self->late = self->received = self->helped = 0;
  busq_new_slot_describe(peer);
  const uint64_t tail = busq_ring_tail(&peer->receiver.ring);
  if (!has_hands)
    busq_store_release(&self->queue.head, tail);
  peer->receiver.scan = peer->receiver.head = peer->receiver.inherited = tail;
  busq_store_relaxed(&self->settled, 0);
  busq_store_relaxed(&self->reaches, 0);
  BUSQ_STEP("join");
  if (peer->receiver.is_consumer)
    (void)busq_ring_close(&peer->receiver.ring);
  else
    busq_ring_open(&peer->receiver.ring, peer->incarnation);
  BUSQ_STEP("join");
  busq_store_release(&self->life, busq_life_word(peer->incarnation, BUSQ_LIFE_LIVE | peer->life_flags));
}

void busq_new_slot_ring_take(busq_peer *peer, uint32_t slot)
{
  peer->receiver.ring = busq_bus_ring(peer->bus, slot);
  peer->receiver.backing = peer->receiver.ring.grows ? busq_ring_backing(&peer->receiver.ring) : UINT64_MAX;
}

int busq_new_slot_take(busq_peer *peer, busq_grave *grave, const char *name, size_t name_bytes)
{
  busq_bus *bus = peer->bus;
  uint32_t n_held;
  int result = slot_find(peer, grave, &peer->slot, &n_held);
  if (result && result != BUSQ_EMPTY)
    return result;
  if (result && strcmp(bus->order, "bus1") != 0)
    return busq_error(BUSQ_NO_SPACE, "bus \"%s\" has %u peer slots, and with order %s each of them is given once; create the bus with more peers",
                      bus->name, bus->geometry.peers, bus->order);
  if (result)
    return busq_error(BUSQ_NO_SPACE, "bus \"%s\" has %u peer slots: %u are taken by live peers, and %u are kept for durable peers or until messages of peers that left are received; create the bus with more peers",
                      bus->name, bus->geometry.peers, n_held, bus->geometry.peers - n_held);
  const bool is_shared = peer->receiver.is_consumer || (peer->life_flags & BUSQ_LIFE_SHARED);
  result = is_shared ? BUSQ_OK : busq_reserve_own(bus, peer->slot);
  if (!result)
    busq_arena_init(&peer->sender.arena, bus, peer->slot);
  if (!result && busq_life_hold(peer->lock_fd, peer->slot) < 0)
    result = busq_error_system("can't lock peer slot %u of bus \"%s\"", peer->slot, bus->name);
  if (!result) {
    peer->self = &bus->slots[peer->slot];
    busq_new_slot_ring_take(peer, peer->slot);
    slot_begin(peer, name, name_bytes);
  }
  busq_grave_leave(grave, peer->slot);
  return result;
}
