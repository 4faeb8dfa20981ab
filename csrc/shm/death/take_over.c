/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/death/take_over.h"
#include "base/error.h"
#include "base/time.h"
#include "shm/burial/compact.h"
#include "shm/death/new_slot.h"
#include "shm/memory/names.h"
#include "shm/memory/peer_slots.h"
#include <errno.h>
#include <time.h>

int busq_take_over_name(int fd, int64_t lock, const busq_bus *bus, const char *name, size_t name_bytes, const char *advice)
{
  if (busq_lock_try(fd, lock) == 0)
    return BUSQ_OK;
  if (errno == EAGAIN || errno == EACCES)
    return busq_error(BUSQ_PEER_EXISTS, "a live process has joined bus \"%s\" as \"%.*s\"; %s", bus->name, (int)name_bytes,
                      name, advice);
  return busq_error_system("can't lock the name \"%.*s\" on bus \"%s\"", (int)name_bytes, name, bus->name);
}

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
int busq_take_over_enter(busq_grave *grave, uint32_t slot, const char *name, size_t name_bytes)
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
static int queue_continue(busq_peer *peer)
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
  busq_new_slot_life_begin(peer);
  busq_new_slot_describe(peer);
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
static int predecessor_continue(busq_peer *peer, busq_grave *grave, uint32_t slot, const char *name, size_t name_bytes)
{
  busq_bus *bus = peer->bus;
  uint64_t life;
  int result = busq_take_over_enter(grave, slot, name, name_bytes);
  if (result)
    return result;
  peer->slot = slot;
  peer->self = &bus->slots[slot];
  busq_new_slot_ring_take(peer, slot);
  if (!busq_name_is(bus, slot, name, name_bytes, &life))
    result = BUSQ_EMPTY;
  else if ((life ^ peer->life_flags) & BUSQ_LIFE_SHARED)
    result = busq_error(
        BUSQ_INVALID,
        "what \"%.*s\" left on bus \"%s\" is that of %s: resume it as such, or join without resume to drop it",
        (int)name_bytes, name, bus->name, life & BUSQ_LIFE_SHARED ? "a shared queue" : "a single reader");
  if (!result) {
    predecessor_settle(bus, slot);
    busq_arena_init(&peer->sender.arena, bus, slot);
    result = busq_arena_adopt(&peer->sender.arena);
  }
  if (!result && busq_life_hold(peer->lock_fd, slot) < 0)
    result = busq_error_system("can't lock peer slot %u of bus \"%s\"", slot, bus->name);
  if (!result)
    result = queue_continue(peer);
  if (result)
    busq_arena_deinit(&peer->sender.arena);
  busq_grave_leave(grave, slot);
  return result;
}

/* A peer that joins anew under an old name gives up what is left under it, but not what was promised to be kept. The
 * dropping is begun here, and goes on when the slot or the memory is needed. */
int busq_take_over_drop(busq_grave *grave, const char *name, size_t name_bytes)
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

/* Again where the slot that was found has become another peer's. */
int busq_take_over(busq_peer *peer, busq_grave *grave, const char *name, size_t name_bytes)
{
  int result;
  do {
    const uint32_t slot = predecessor_find(peer->bus, name, name_bytes);
    if (slot == peer->bus->geometry.peers)
      return BUSQ_EMPTY;
    result = predecessor_continue(peer, grave, slot, name, name_bytes);
  } while (result == BUSQ_EMPTY);
  return result;
}
