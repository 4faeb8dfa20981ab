/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/death/join.h"
#include "base/error.h"
#include "base/thread.h"
#include "base/time.h"
#include "shm/burial/grave.h"
#include "shm/death/bus_end.h"
#include "shm/death/new_slot.h"
#include "shm/death/notice.h"
#include "shm/death/take_over.h"
#include "shm/group/group.h"
#include "shm/group/watch.h"
#include "shm/letter/envelope.h"
#include "shm/memory/mapping.h"
#include "shm/memory/names.h"
#include "shm/memory/peer_slots.h"
#include "shm/message/shared_take.h"
#include "shm/node/node.h"
#include "shm/trace/tracer.h"
#include "shm/wait/pacing.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- handles ---- */

static int peer_allocate(busq_peer *peer)
{
  const busq_geometry *geometry = &peer->bus->geometry;
  peer->sender.known = calloc(geometry->peers, sizeof *peer->sender.known);
  peer->sender.destinations = calloc(geometry->peers + 1, sizeof *peer->sender.destinations);
  peer->receiver.done = calloc((geometry->slot_count + 63) / 64, sizeof *peer->receiver.done);
  if (!peer->sender.known || !peer->sender.destinations || !peer->receiver.done)
    return busq_error(BUSQ_NO_SPACE, "no memory for a peer handle (%u peers, %llu slots)", geometry->peers,
                      (unsigned long long)geometry->slot_count);
  for (uint32_t slot = 0; slot < geometry->peers; slot++)
    peer->sender.known[slot].fifo_fd = -1;
  return BUSQ_OK;
}

static const busq_upcalls upcalls = {
    .admit = busq_envelope_admit,
    .take = busq_envelope_take,
    .taken = busq_envelope_taken,
    .send_to_group = busq_group_try,
    .owed_send = busq_watch_owed_send,
    .notice_deaths = busq_notice_deaths,
};

static busq_peer *peer_new(busq_bus *bus)
{
  busq_peer *peer;
  if (posix_memalign((void **)&peer, BUSQ_LINE_PAIR_BYTES, sizeof *peer) != 0)
    return NULL;
  memset(peer, 0, sizeof *peer);
  peer->bus = bus;
  peer->lock_fd = peer->descriptor.poll_fd = peer->descriptor.fifo_fd = peer->descriptor.timer_fd = -1;
  peer->fork_generation = busq_fork_generation;
  busq_biased_latch_init(&peer->sender.latch);
  busq_biased_latch_init(&peer->receiver.latch);
  peer->references = 1;
  peer->upcalls = &upcalls;
  busq_pacing_init(peer);
  peer->receiver.joined_by = busq_thread_self();
  const char *stale = getenv("BUSQ_STALE_PROPOSALS");
  peer->sender.proposes_stale = stale && *stale && *stale != '0';
  busq_bus_retain(bus);
  return peer;
}

/* ---- joining ---- */

/* The queue is read by the peer that made its slot. */
static void inbox_is_own(busq_peer *peer)
{
  peer->receiver.inbox = peer->self;
  peer->receiver.inbox_slot = peer->slot;
}

static int peer_join(busq_peer *peer, busq_grave *grave, const char *name, size_t name_bytes, uint32_t flags)
{
  busq_bus *bus = peer->bus;
  int result = flags & BUSQ_JOIN_RESUME ? busq_take_over(peer, grave, name, name_bytes) : BUSQ_EMPTY;
  if (result != BUSQ_EMPTY)
    return result;
  if (busq_load_acquire(&bus->header->is_shut_down))
    return busq_error(BUSQ_SHUTDOWN, "bus \"%s\" was shut down", bus->name);
  result = busq_take_over_drop(grave, name, name_bytes);
  return result ? result : busq_new_slot_take(peer, grave, name, name_bytes);
}

static int peer_join_alone(busq_peer *peer, busq_grave *grave, const char *name, size_t name_bytes, uint32_t flags)
{
  int result = busq_take_over_name(peer->lock_fd, peer->name_lock, peer->bus, name, name_bytes, "choose another name");
  if (!result)
    result = peer_join(peer, grave, name, name_bytes, flags);
  if (!result)
    inbox_is_own(peer);
  return result;
}

/* ---- joining with others ---- */

/* The first one makes the queue, as a peer would join, with everything held alone; then it shares what it holds. */
static int queue_make(busq_peer *peer, busq_grave *grave, const char *name, size_t name_bytes, uint32_t flags)
{
  const int result = peer_join(peer, grave, name, name_bytes, flags);
  if (result)
    return result;
  busq_arena_deinit(&peer->sender.arena); /* a queue sends nothing */
  inbox_is_own(peer);
  BUSQ_STEP("share");
  if (busq_life_share(peer->lock_fd, peer->slot) < 0)
    return busq_error_system("can't share the lock of peer slot %u of bus \"%s\"", peer->slot, peer->bus->name);
  return BUSQ_OK;
}

/* The grave's byte keeps out processes that would bury the queue if its last reader went just now; it lives on with us
 * then. */
static bool queue_share(busq_peer *peer, busq_grave *grave, uint32_t slot, const char *name, size_t name_bytes)
{
  busq_bus *bus = peer->bus;
  uint64_t life;
  if (!busq_grave_visit(grave, slot))
    return false;
  const bool is_ours = busq_life_is_held(bus, slot) && busq_name_is(bus, slot, name, name_bytes, &life) &&
                       (life & BUSQ_LIFE_SHARED) && (life & BUSQ_LIFE_MASK) == BUSQ_LIFE_LIVE &&
                       busq_life_share(peer->lock_fd, slot) == 0;
  if (is_ours) {
    peer->receiver.inbox = &bus->slots[slot];
    peer->receiver.inbox_slot = slot;
    busq_new_slot_ring_take(peer, slot);
    if (peer->life_flags & BUSQ_LIFE_DURABLE)
      busq_store_release(&peer->receiver.inbox->life, life | BUSQ_LIFE_DURABLE);
  }
  busq_lock_drop(grave->fd, busq_grave_lock(slot));
  return is_ours;
}

/* BUSQ_EMPTY where there is none, or another process is at it. */
static int queue_find(busq_peer *peer, busq_grave *grave, const char *name, size_t name_bytes)
{
  busq_bus *bus = peer->bus;
  if (busq_load_acquire(&bus->header->is_shut_down))
    return busq_error(BUSQ_SHUTDOWN, "bus \"%s\" was shut down", bus->name);
  for (uint32_t slot = 0; slot < busq_slots_reached(bus); slot++) {
    uint64_t life;
    if (busq_name_is(bus, slot, name, name_bytes, &life) && (life & BUSQ_LIFE_SHARED) &&
        queue_share(peer, grave, slot, name, name_bytes))
      return BUSQ_OK;
  }
  return BUSQ_EMPTY;
}

/* The name is held alone: by a peer that shares nothing, or that is just making the queue. */
static int name_is_taken(const busq_peer *peer, const char *name, size_t name_bytes)
{
  busq_bus *bus = peer->bus;
  for (uint32_t slot = 0; slot < busq_slots_reached(bus); slot++) {
    uint64_t life;
    if (busq_name_is(bus, slot, name, name_bytes, &life) && !(life & BUSQ_LIFE_SHARED) && busq_life_is_held(bus, slot))
      return busq_error(BUSQ_PEER_EXISTS, "a live process has joined bus \"%s\" as \"%.*s\", and does not share it; choose another name",
                        bus->name, (int)name_bytes, name);
  }
  return BUSQ_EMPTY;
}

/* One try. */
static int queue_enter(busq_peer *peer, busq_grave *grave, const char *name, size_t name_bytes, uint32_t flags)
{
  int result;
  if (busq_lock_try(peer->lock_fd, peer->name_lock) == 0)
    return queue_make(peer, grave, name, name_bytes, flags);
  if (busq_lock_share(peer->lock_fd, peer->name_lock) < 0)
    return name_is_taken(peer, name, name_bytes);
  result = queue_find(peer, grave, name, name_bytes);
  if (result)
    busq_lock_drop(peer->lock_fd, peer->name_lock);
  return result;
}

static int peer_join_shared(busq_peer *peer, busq_grave *grave, const char *name, size_t name_bytes, uint32_t flags)
{
  const struct timespec pause = {0, 1000000};
  const uint64_t end_ns = busq_time_now_ns() + UINT64_C(2000000000);
  int result;
  while ((result = queue_enter(peer, grave, name, name_bytes, flags)) == BUSQ_EMPTY && busq_time_now_ns() < end_ns)
    nanosleep(&pause, NULL);
  if (result == BUSQ_EMPTY)
    return busq_error(BUSQ_PEER_EXISTS, "another process is joining bus \"%s\" as \"%.*s\", or putting it in order, and seems to be stopped; wake it, or try again later",
                      peer->bus->name, (int)name_bytes, name);
  if (result)
    return result;
  peer->receiver.is_consumer = true;
  peer->life_flags = BUSQ_LIFE_CONSUMER;
  result = busq_new_slot_take(peer, grave, name, name_bytes);
  (void)busq_lock_share(peer->lock_fd, peer->name_lock);
  if (result)
    return result;
  busq_new_slot_ring_take(peer, peer->receiver.inbox_slot);
  peer->receiver.returns = busq_load_acquire(&peer->receiver.inbox->returns) - 1; /* there may be something in the hands of the gone */
  peer->receiver.scan = busq_load_acquire(&peer->receiver.inbox->queue.head);
  peer->receiver.hand = busq_load_relaxed(&peer->self->queue.head);
  peer->receiver.inherited = UINT64_MAX; /* whatever stands there may be another reader's */
  return BUSQ_OK;
}

static int peer_prepare(busq_peer *peer, busq_grave *grave, const char *name, size_t name_bytes)
{
  int result = peer_allocate(peer);
  if (!result)
    result = busq_grave_open(grave, peer->bus);
  if (result)
    return result;
  peer->name_lock = busq_name_lock(name, name_bytes);
  result = busq_guard_open(&peer->lock_guard, peer->bus, &peer->lock_fd);
  if (result)
    busq_grave_close(grave);
  return result;
}

static int peer_join_checked(busq_bus *bus, const char *name, size_t name_bytes, uint32_t flags, busq_peer **peerp)
{
  busq_grave grave;
  busq_peer *peer = peer_new(bus);
  if (!peer)
    return busq_error(BUSQ_NO_SPACE, "no memory for a peer handle");
  peer->life_flags = (flags & BUSQ_JOIN_DURABLE ? (uint32_t)BUSQ_LIFE_DURABLE : 0) |
                     (flags & BUSQ_JOIN_SHARED ? (uint32_t)BUSQ_LIFE_SHARED : 0);
  int result = peer_prepare(peer, &grave, name, name_bytes);
  if (!result) {
    result = flags & BUSQ_JOIN_SHARED ? peer_join_shared(peer, &grave, name, name_bytes, flags)
                                      : peer_join_alone(peer, &grave, name, name_bytes, flags);
    busq_grave_close(&grave);
  }
  if (result) {
    peer->is_closed = 1;
    busq_guard_close(&peer->lock_guard);
    if (peer->receiver.inbox && peer->receiver.is_consumer)
      busq_grave_bury_one(bus, peer->receiver.inbox_slot); /* which we may have made for nothing */
    busq_bus_leave(bus);
    busq_peer_free(peer);
    return result;
  }
  if (bus->geometry.nodes && !peer->receiver.is_consumer)
    (void)busq_node_adopt(peer);
  if (busq_bus_is_recorded(bus))
    busq_tracer_join(peer);
  busq_notice_joined(peer);
  *peerp = peer;
  return BUSQ_OK;
}

int busq_peer_join_as(busq_bus *bus, const char *name, size_t name_bytes, uint32_t flags, busq_peer **peerp)
{
  int result = busq_name_check(name, name_bytes);
  if (!result && flags & ~(uint32_t)(BUSQ_JOIN_RESUME | BUSQ_JOIN_DURABLE | BUSQ_JOIN_SHARED))
    result = busq_error(BUSQ_INVALID, "flags %u for joining: expected BUSQ_JOIN_RESUME, BUSQ_JOIN_DURABLE and BUSQ_JOIN_SHARED", flags);
  return result ? result : peer_join_checked(bus, name, name_bytes, flags, peerp);
}

int busq_join_hidden(busq_bus *bus, const char *name, size_t name_bytes, busq_peer **peerp)
{
  const int result = busq_name_check_hidden(name, name_bytes);
  return result ? result : peer_join_checked(bus, name, name_bytes, 0, peerp);
}

int busq_peer_join(busq_bus *bus, const char *name, size_t name_bytes, busq_peer **peerp)
{
  return busq_peer_join_as(bus, name, name_bytes, 0, peerp);
}
