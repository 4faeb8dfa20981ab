/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/life.h"
#include "base/error.h"
#include "base/time.h"
#include "shm/multicast.h"
#include "shm/receive.h"
#include "shm/wake.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

/* ---- kernel locks ---- */

#define LOCK_OF_SLOT(slot) ((off_t)((INT64_C(1) << 40) + (slot)))
#define LOCK_OF_GRAVE(slot) ((off_t)((INT64_C(1) << 41) + (slot)))

int busq_lock_try(int fd, int64_t byte)
{
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
  int result;
  do
    result = fcntl(fd, F_OFD_SETLK, &lock);
  while (result < 0 && errno == EINTR);
  return result;
}

void busq_lock_drop(int fd, int64_t byte)
{
  struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
  (void)fcntl(fd, F_OFD_SETLK, &lock);
}

static bool lock_is_held(int fd, off_t byte)
{
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
  /* If the kernel will not say, nobody is declared dead. */
  return fcntl(fd, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

bool busq_life_is_held(const busq_bus *bus, uint32_t slot)
{
  return lock_is_held(bus->fd, LOCK_OF_SLOT(slot));
}

int busq_life_hold(int fd, uint32_t slot)
{
  return busq_lock_try(fd, LOCK_OF_SLOT(slot));
}

/* ---- fork ---- */

uint32_t busq_fork_generation = 1;
static BUSQ_PROCESS_STATE busq_guard *fork_guards;
static BUSQ_PROCESS_STATE busq_latch fork_latch;

static void fork_prepare(void)
{
  busq_latch_acquire(&fork_latch);
}

static void fork_parent(void)
{
  busq_latch_release(&fork_latch);
}

/* The child has copies of the descriptors whose locks say that our peers live, and that we are burying somebody: with them it
 * would keep a dead parent alive.  Nothing else is touched. */
static void fork_child(void)
{
  busq_fork_generation++;
  for (busq_guard *guard = fork_guards; guard; guard = guard->next) {
    close(*guard->fd);
    *guard->fd = -1;
  }
  fork_guards = NULL;
  busq_latch_release(&fork_latch);
}

static void fork_watch(void)
{
  pthread_atfork(fork_prepare, fork_parent, fork_child);
}

/* Opened and listed under one latch, so that no fork comes between.  A description of its own: locks taken through it are
 * shared with nobody. */
int busq_guard_open(busq_guard *guard, const busq_bus *bus, int *fd)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  char path[64];
  pthread_once(&once, fork_watch);
  snprintf(path, sizeof path, "/proc/self/fd/%d", bus->fd);
  busq_latch_acquire(&fork_latch);
  *fd = open(path, O_RDWR | O_CLOEXEC);
  if (*fd >= 0) {
    guard->fd = fd;
    guard->next = fork_guards;
    fork_guards = guard;
  }
  const int number = errno;
  busq_latch_release(&fork_latch);
  errno = number;
  return *fd >= 0 ? BUSQ_OK : busq_error_system("can't open bus \"%s\" once more for its locks", bus->name);
}

static void guard_unlock(int fd)
{
  struct flock all = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
  (void)fcntl(fd, F_OFD_SETLK, &all);
}

void busq_guard_close(busq_guard *guard)
{
  busq_latch_acquire(&fork_latch);
  for (busq_guard **link = &fork_guards; *link; link = &(*link)->next) {
    if (*link == guard) {
      *link = guard->next;
      /* Let go of expressly: a child that is just being forked, or about to exec, may still have a copy of the descriptor. */
      guard_unlock(*guard->fd);
      close(*guard->fd);
      *guard->fd = -1;
      break;
    }
  }
  busq_latch_release(&fork_latch);
}

/* ---- graves ---- */

int busq_grave_open(busq_grave *grave, busq_bus *bus)
{
  grave->bus = bus;
  return busq_guard_open(&grave->guard, bus, &grave->fd);
}

void busq_grave_close(busq_grave *grave)
{
  busq_guard_close(&grave->guard);
}

/* The second look at the life's lock counts: before the first of ours, a new peer may have come and gone. */
bool busq_grave_enter(busq_grave *grave, uint32_t slot)
{
  if (busq_life_is_held(grave->bus, slot) || busq_lock_try(grave->fd, LOCK_OF_GRAVE(slot)) < 0)
    return false;
  if (!busq_life_is_held(grave->bus, slot))
    return true;
  busq_grave_leave(grave, slot);
  return false;
}

void busq_grave_leave(busq_grave *grave, uint32_t slot)
{
  busq_lock_drop(grave->fd, LOCK_OF_GRAVE(slot));
}

/* ---- burying ---- */

/* Does a reference to the record stand in the queue of a destination? */
static bool queue_has(const busq_bus *bus, uint32_t slot, uint32_t unit, uint64_t tag)
{
  const busq_ring ring = busq_bus_ring(bus, slot);
  uint64_t head = busq_load_acquire(&ring.queue->head);
  const uint64_t tail = busq_ring_tail(&ring);
  if (head > tail || tail - head > ring.slot_count)
    return true; /* damage: nothing is known */
  for (; head != tail; head++) {
    busq_reference reference;
    if (busq_ring_look(&ring, head, &reference) && reference.record == unit && reference.tag == tag)
      return true;
  }
  return false;
}

/* A message that is final and that no queue refers to: its sender died before its reference was published, or while he
 * filled a record that was used before.  Nobody else will ever release it.  A reader marks a message before he takes its
 * reference out of his queue, so a mark that is still missing after the search will stay missing. */
static void record_release_unpublished(busq_bus *bus, busq_record *record)
{
  const uint64_t state = busq_load_acquire(&record->state.lo);
  const uint32_t destinations = busq_load_relaxed(&record->destinations);
  const uint32_t unit = (uint32_t)((uint64_t)((char *)record - bus->arena) / BUSQ_LAYOUT_UNIT_BYTES);
  if ((state & BUSQ_PHASE_MASK) != BUSQ_PHASE_COMMITTED || destinations > bus->geometry.peers)
    return;
  for (uint32_t i = 0; i < destinations; i++) {
    const uint32_t slot = record->destination[i].slot;
    if ((busq_load_acquire(&record->destination[i].mark) & BUSQ_MARK_RELEASED) || slot >= bus->geometry.peers ||
        queue_has(bus, slot, unit, state & ~BUSQ_PHASE_MASK))
      continue;
    if (!(busq_load_acquire(&record->destination[i].mark) & BUSQ_MARK_RELEASED))
      busq_arena_release(bus, record->sender < bus->geometry.peers ? record->sender : slot, record, i);
  }
  /* Last: from here on a large record may be given back, and hold another message. */
  busq_arena_sender_done(record);
}

static uint32_t life_state(uint64_t life)
{
  return (uint32_t)life & BUSQ_LIFE_MASK;
}

static bool life_needs_burial(uint64_t life)
{
  const uint32_t state = life_state(life);
  return state == BUSQ_LIFE_LIVE || state == BUSQ_LIFE_JOINING || state == BUSQ_LIFE_LEAVING;
}

void busq_life_bury(busq_bus *bus, uint32_t slot)
{
  busq_slot *self = &bus->slots[slot];
  const uint64_t life = busq_load_acquire(&self->life);
  const uint32_t incarnation = (uint32_t)(life >> 32);
  const busq_ring ring = busq_bus_ring(bus, slot);
  /* Also of one who left or was buried: somebody who resumed him may have been killed when he had opened the queue and nothing
   * else, or somebody who removed a durable one before he closed it. */
  if (!(life & BUSQ_LIFE_DURABLE))
    (void)busq_ring_close(&ring);
  if (!life_needs_burial(life))
    return;
  BUSQ_STEP("bury");
  busq_arena_visit(bus, slot, busq_multicast_finish);
  busq_arena_visit(bus, slot, record_release_unpublished);
  busq_store_relaxed(&self->wake_flags, 0);
  busq_store_relaxed(&self->sends.what, BUSQ_WAITS_NOT);
  busq_store_relaxed(&self->receives.what, BUSQ_WAITS_NOT);
  busq_fifo_unlink(bus, slot, incarnation);
  BUSQ_STEP("bury");
  (void)busq_arena_reclaim(bus, slot);
  busq_store_relaxed(&self->ended_ns, busq_time_now_ns());
  BUSQ_STEP("bury");
  busq_store_release(&self->life, busq_life_word(incarnation, BUSQ_LIFE_DEAD | ((uint32_t)life & BUSQ_LIFE_DURABLE)));
  busq_wake_waiters(&self->room_waiters, &self->room_seq);
}

/* ---- what the gone have left in their queues ---- */

bool busq_life_leaves_messages(const busq_bus *bus, uint32_t slot)
{
  const busq_ring ring = busq_bus_ring(bus, slot);
  const uint64_t life = busq_load_acquire(&bus->slots[slot].life);
  return life_state(life) != BUSQ_LIFE_FREE && busq_load_acquire(&ring.queue->head) != busq_ring_tail(&ring);
}

/* Nobody is there to receive it any more: gives what stands in the queue back to its senders. */
uint64_t busq_life_discard(busq_bus *bus, uint32_t slot)
{
  uint64_t n_dropped = 0;
  busq_slot *self = &bus->slots[slot];
  const busq_ring ring = busq_bus_ring(bus, slot);
  const uint64_t life = busq_load_acquire(&self->life);
  busq_store_release(&self->life, life & ~(uint64_t)BUSQ_LIFE_DURABLE);
  BUSQ_STEP("discard");
  const uint64_t tail = busq_ring_close(&ring);
  uint64_t head = busq_load_acquire(&ring.queue->head);
  if (head > tail || tail - head > ring.slot_count)
    head = tail - (tail < ring.slot_count ? tail : ring.slot_count); /* damage: look at all there can be */
  for (; head != tail; head++) {
    busq_reference reference;
    while (!busq_ring_look(&ring, head, &reference))
      (void)busq_ring_skip(&ring, head);
    n_dropped += busq_receive_discard(bus, slot, reference);
  }
  busq_store_release(&ring.queue->head, tail);
  busq_wake_waiters(&self->room_waiters, &self->room_seq);
  return n_dropped;
}

static bool gone_before(const busq_bus *bus, uint32_t a, uint32_t b)
{
  const uint64_t a_ns = bus->slots[a].ended_ns, b_ns = bus->slots[b].ended_ns;
  return a_ns != b_ns ? a_ns < b_ns : a < b;
}

/* The slot whose peer has been gone for longest, of those that leave messages nobody has been promised, and that went after
 * the one of `last` (the number of slots: of all); the number of slots where there is none. */
static uint32_t leftovers_next(const busq_bus *bus, uint32_t last)
{
  const uint32_t none = bus->geometry.peers;
  uint32_t oldest = none;
  for (uint32_t slot = 0; slot < none; slot++) {
    const uint64_t life = busq_load_acquire(&bus->slots[slot].life);
    if (life_needs_burial(life) || (life & BUSQ_LIFE_DURABLE) || !busq_life_leaves_messages(bus, slot))
      continue;
    if ((last == none || gone_before(bus, last, slot)) && (oldest == none || gone_before(bus, slot, oldest)))
      oldest = slot;
  }
  return oldest;
}

/* Where somebody else is at the slot, he may be stopped there: the next one will do. */
bool busq_life_discard_oldest(busq_grave *grave)
{
  busq_bus *bus = grave->bus;
  uint32_t slot = bus->geometry.peers;
  while ((slot = leftovers_next(bus, slot)) != bus->geometry.peers) {
    if (!busq_grave_enter(grave, slot))
      continue;
    const uint64_t life = busq_load_acquire(&bus->slots[slot].life);
    if (!life_needs_burial(life) && !(life & BUSQ_LIFE_DURABLE))
      (void)busq_life_discard(bus, slot);
    busq_grave_leave(grave, slot);
    return true;
  }
  return false;
}

/* ---- taking back ---- */

uint32_t busq_life_reclaim(busq_bus *bus)
{
  busq_grave grave;
  uint32_t n_buried = 0;
  if (busq_grave_open(&grave, bus) != BUSQ_OK)
    return 0;
  for (uint32_t slot = 0; slot < bus->geometry.peers; slot++) {
    if (life_state(busq_load_acquire(&bus->slots[slot].life)) == BUSQ_LIFE_FREE || !busq_grave_enter(&grave, slot))
      continue;
    n_buried += life_needs_burial(busq_load_acquire(&bus->slots[slot].life));
    busq_life_bury(bus, slot);
    (void)busq_arena_reclaim(bus, slot);
    busq_grave_leave(&grave, slot);
  }
  busq_grave_close(&grave);
  return n_buried;
}

bool busq_life_make_room(busq_bus *bus)
{
  busq_grave grave;
  if (busq_grave_open(&grave, bus) != BUSQ_OK)
    return false;
  const bool done = busq_life_discard_oldest(&grave);
  busq_grave_close(&grave);
  if (done)
    (void)busq_life_reclaim(bus);
  return done;
}

bool busq_life_check(busq_bus *bus, uint32_t slot, uint32_t incarnation)
{
  busq_grave grave;
  const uint64_t life = busq_load_acquire(&bus->slots[slot].life);
  const bool is_durable = (life & BUSQ_LIFE_DURABLE) != 0;
  if ((uint32_t)(life >> 32) != incarnation || life_state(life) == BUSQ_LIFE_FREE || life_state(life) == BUSQ_LIFE_JOINING)
    return false;
  if (life_state(life) != BUSQ_LIFE_LIVE || busq_life_is_held(bus, slot))
    return is_durable || life_state(life) == BUSQ_LIFE_LIVE;
  if (busq_grave_open(&grave, bus) == BUSQ_OK) {
    if (busq_grave_enter(&grave, slot)) {
      if (busq_load_acquire(&bus->slots[slot].life) == life)
        busq_life_bury(bus, slot);
      busq_grave_leave(&grave, slot);
    }
    busq_grave_close(&grave);
  }
  return is_durable;
}
