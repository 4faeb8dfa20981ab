/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/death/join.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/thread.h"
#include "base/time.h"
#include "shm/burial/compact.h"
#include "shm/death/bus_end.h"
#include "shm/death/notice.h"
#include "shm/group/group.h"
#include "shm/group/watch.h"
#include "shm/letter/envelope.h"
#include "shm/memory/mapping.h"
#include "shm/memory/names.h"
#include "shm/memory/reserve.h"
#include "shm/memory/peer_slots.h"
#include "shm/message/shared_take.h"
#include "shm/node/node.h"
#include "shm/trace/tracer.h"
#include "shm/wait/pacing.h"
#include "shm/wake/end_watch.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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

/* ---- a slot of its own ---- */

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

static void slot_describe(busq_peer *peer)
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
static void life_begin(busq_peer *peer)
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
  life_begin(peer);
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
  slot_describe(peer);
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

static void ring_take(busq_peer *peer, uint32_t slot)
{
  peer->receiver.ring = busq_bus_ring(peer->bus, slot);
  peer->receiver.backing = peer->receiver.ring.grows ? busq_ring_backing(&peer->receiver.ring) : UINT64_MAX;
}

static int peer_join_new(busq_peer *peer, busq_grave *grave, const char *name, size_t name_bytes)
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
    result = busq_arena_init(&peer->sender.arena, bus, peer->slot);
  if (!result && busq_life_hold(peer->lock_fd, peer->slot) < 0)
    result = busq_error_system("can't lock peer slot %u of bus \"%s\"", peer->slot, bus->name);
  if (!result) {
    peer->self = &bus->slots[peer->slot];
    ring_take(peer, peer->slot);
    slot_begin(peer, name, name_bytes);
  }
  busq_grave_leave(grave, peer->slot);
  return result;
}

/* The queue is read by the peer that made its slot. */
static void inbox_is_own(busq_peer *peer)
{
  peer->receiver.inbox = peer->self;
  peer->receiver.inbox_slot = peer->slot;
}

/* ---- what a predecessor left ---- */

/* The slot of the last peer of that name; peers where there was none. */
static uint32_t predecessor_find(busq_bus *bus, const char *name, size_t name_bytes)
{
  uint32_t last = bus->geometry.peers;
  uint64_t life;
  for (uint32_t slot = 0; slot < busq_slots_reached(bus); slot++)
    if (busq_name_is(bus, slot, name, name_bytes, &life) &&
        (last == bus->geometry.peers || bus->slots[slot].began_ns > bus->slots[last].began_ns))
      last = slot;
  return last;
}

/* Another process may just be burying the predecessor, which takes a moment, unless it is stopped. */
int busq_join_enter(busq_grave *grave, uint32_t slot, const char *name, size_t name_bytes)
{
  const struct timespec pause = {0, 1000000};
  const uint64_t end_ns = busq_time_now_ns() + 50000000;
  do {
    if (busq_grave_enter(grave, slot))
      return BUSQ_OK;
    uint64_t life;
    /* A new peer may just have taken the slot: it holds the life before the slot shows its name. */
    if (!busq_name_is(grave->bus, slot, name, name_bytes, &life))
      return BUSQ_EMPTY;
    if ((life & BUSQ_LIFE_MASK) == BUSQ_LIFE_LEAVING && busq_life_is_held(grave->bus, slot))
      return busq_error(BUSQ_PEER_EXISTS, "\"%.*s\" has closed its handle on bus \"%s\", but still looks at messages that it took; release them first",
                        (int)name_bytes, name, grave->bus->name);
    nanosleep(&pause, NULL);
  } while (busq_time_now_ns() < end_ns);
  return busq_error(BUSQ_PEER_EXISTS, "another process puts in order what \"%.*s\" left on bus \"%s\", and seems to be stopped; wake it, or try again later",
                    (int)name_bytes, name, grave->bus->name);
}

/* Everything is made ready first and the life comes last, so that a process that dies on the way leaves its successor
 * the same. */
static int slot_continue(busq_peer *peer)
{
  busq_slot *self = peer->self;
  const uint64_t head = busq_load_acquire(&self->queue.head);
  const uint64_t tail = busq_ring_tail(&peer->receiver.ring);
  if (tail - head > peer->receiver.ring.slot_count)
    return busq_error(BUSQ_CORRUPT, "the queue of peer slot %u of bus \"%s\" is damaged; remove the bus and create it again",
                      peer->slot, peer->bus->name);
  peer->receiver.scan = peer->receiver.head = head;
  peer->receiver.inherited = tail;
  peer->incarnation = (uint32_t)(busq_load_acquire(&self->life) >> 32);
  peer->sender.sent = busq_load_relaxed(&self->sent);
  peer->sender.late = busq_load_relaxed(&self->late);
  peer->receiver.received = busq_load_relaxed(&self->received);
  life_begin(peer);
  slot_describe(peer);
  BUSQ_STEP("resume");
  if (!busq_ring_ending(&peer->receiver.ring)) /* which stays so */
    busq_ring_open(&peer->receiver.ring, peer->incarnation);
  BUSQ_STEP("resume");
  busq_store_release(&self->life, busq_life_word(peer->incarnation, BUSQ_LIFE_LIVE | peer->life_flags));
  return BUSQ_OK;
}

/* In the slot's grave: what others have begun with it comes to its end. */
static void predecessor_settle(busq_bus *bus, uint32_t slot)
{
  uint64_t n_dropped = 0;
  while (!busq_grave_bury(bus, slot))
    ;
  while ((busq_load_acquire(&bus->slots[slot].life) & BUSQ_LIFE_DROPPED) && !busq_grave_discard(bus, slot, &n_dropped))
    ;
  busq_compact_settle(bus, slot);
}

/* BUSQ_EMPTY where the slot has meanwhile become another peer's. */
static int peer_join_after(busq_peer *peer, busq_grave *grave, uint32_t slot, const char *name, size_t name_bytes)
{
  busq_bus *bus = peer->bus;
  uint64_t life;
  int result = busq_join_enter(grave, slot, name, name_bytes);
  if (result)
    return result;
  peer->slot = slot;
  peer->self = &bus->slots[slot];
  ring_take(peer, slot);
  if (!busq_name_is(bus, slot, name, name_bytes, &life))
    result = BUSQ_EMPTY;
  else if ((life ^ peer->life_flags) & BUSQ_LIFE_SHARED)
    result = busq_error(
        BUSQ_INVALID,
        "what \"%.*s\" left on bus \"%s\" is that of %s: resume it as such, or join without resume to drop it",
        (int)name_bytes, name, bus->name, life & BUSQ_LIFE_SHARED ? "a shared queue" : "a single reader");
  if (!result) {
    predecessor_settle(bus, slot);
    result = busq_arena_init(&peer->sender.arena, bus, slot);
  }
  if (!result)
    result = busq_arena_adopt(&peer->sender.arena);
  if (!result && busq_life_hold(peer->lock_fd, slot) < 0)
    result = busq_error_system("can't lock peer slot %u of bus \"%s\"", slot, bus->name);
  if (!result)
    result = slot_continue(peer);
  if (result)
    busq_arena_deinit(&peer->sender.arena);
  busq_grave_leave(grave, slot);
  return result;
}

/* A peer that joins anew under an old name gives up what is left under it, but not what was promised to be kept. The
 * dropping is begun here, and goes on when the slot or the memory is needed. */
static int predecessor_drop(busq_grave *grave, const char *name, size_t name_bytes)
{
  busq_bus *bus = grave->bus;
  uint64_t n_dropped = 0;
  for (uint32_t slot = 0; slot < busq_slots_reached(bus); slot++) {
    uint64_t life;
    if (!busq_name_is(bus, slot, name, name_bytes, &life))
      continue;
    if (life & BUSQ_LIFE_DURABLE)
      return busq_error(BUSQ_PEER_EXISTS, "a durable \"%.*s\" waits on bus \"%s\" for its process to come back: join with resume, or remove it first",
                        (int)name_bytes, name, bus->name);
    if (!busq_grave_enter(grave, slot))
      continue;
    if (busq_name_is(bus, slot, name, name_bytes, &life)) {
      /* Before the burial, which may take more than one step: what is given up is given up now. */
      busq_store_release(&bus->slots[slot].life, life | BUSQ_LIFE_DROPPED);
      if (busq_grave_bury(bus, slot))
        (void)busq_grave_discard(bus, slot, &n_dropped);
    }
    busq_grave_leave(grave, slot);
  }
  return BUSQ_OK;
}

/* ---- joining ---- */

int busq_join_take_name(int fd, int64_t lock, const busq_bus *bus, const char *name, size_t name_bytes)
{
  if (busq_lock_try(fd, lock) == 0)
    return BUSQ_OK;
  if (errno == EAGAIN || errno == EACCES)
    return busq_error(BUSQ_PEER_EXISTS, "a live process has joined bus \"%s\" as \"%.*s\"; choose another name", bus->name,
                      (int)name_bytes, name);
  return busq_error_system("can't lock the name \"%.*s\" on bus \"%s\"", (int)name_bytes, name, bus->name);
}

static int peer_join(busq_peer *peer, busq_grave *grave, const char *name, size_t name_bytes, uint32_t flags)
{
  busq_bus *bus = peer->bus;
  int result = BUSQ_EMPTY;
  while (result == BUSQ_EMPTY && (flags & BUSQ_JOIN_RESUME)) {
    const uint32_t slot = predecessor_find(bus, name, name_bytes);
    if (slot == bus->geometry.peers)
      break;
    result = peer_join_after(peer, grave, slot, name, name_bytes);
  }
  if (result != BUSQ_EMPTY)
    return result;
  if (busq_load_acquire(&bus->header->is_shut_down))
    return busq_error(BUSQ_SHUTDOWN, "bus \"%s\" was shut down", bus->name);
  result = predecessor_drop(grave, name, name_bytes);
  return result ? result : peer_join_new(peer, grave, name, name_bytes);
}

static int peer_join_alone(busq_peer *peer, busq_grave *grave, const char *name, size_t name_bytes, uint32_t flags)
{
  int result = busq_join_take_name(peer->lock_fd, peer->name_lock, peer->bus, name, name_bytes);
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
    ring_take(peer, slot);
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
  result = peer_join_new(peer, grave, name, name_bytes);
  (void)busq_lock_share(peer->lock_fd, peer->name_lock);
  if (result)
    return result;
  ring_take(peer, peer->receiver.inbox_slot);
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
