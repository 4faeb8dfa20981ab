/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/life.h"
#include "base/error.h"
#include "base/time.h"
#include "shm/multicast.h"
#include "shm/receive.h"
#include "shm/region.h"
#include "shm/wake.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- kernel locks ---- */

#define LOCK_OF_SLOT(slot) ((off_t)((INT64_C(1) << 40) + (slot)))
#define LOCK_OF_NAME(hash) ((off_t)((INT64_C(1) << 61) | (int64_t)((hash) >> 4)))

static int lock_try(int fd, off_t byte)
{
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
  int result;
  do
    result = fcntl(fd, F_OFD_SETLK, &lock);
  while (result < 0 && errno == EINTR);
  return result;
}

static void lock_drop(int fd, off_t byte)
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

/* A description of its own: locks taken through it are not shared with anybody. */
static int lock_open(const busq_bus *bus)
{
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", bus->fd);
  return open(path, O_RDWR | O_CLOEXEC);
}

bool busq_life_is_held(const busq_bus *bus, uint32_t slot)
{
  return lock_is_held(bus->fd, LOCK_OF_SLOT(slot));
}

/* ---- fork ---- */

uint32_t busq_fork_generation = 1;
static busq_peer *fork_peers;
static busq_latch fork_latch;

static void fork_prepare(void)
{
  busq_latch_acquire(&fork_latch);
}

static void fork_parent(void)
{
  busq_latch_release(&fork_latch);
}

/* The child has copies of the descriptors whose locks say that our peers live: without them it would keep a dead parent
 * alive.  Nothing else is touched. */
static void fork_child(void)
{
  busq_fork_generation++;
  for (busq_peer *peer = fork_peers; peer; peer = peer->next) {
    close(peer->lock_fd);
    peer->lock_fd = -1;
  }
  fork_peers = NULL;
  busq_latch_release(&fork_latch);
}

static void fork_watch(void)
{
  pthread_atfork(fork_prepare, fork_parent, fork_child);
}

static void fork_list_add(busq_peer *peer)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, fork_watch);
  busq_latch_acquire(&fork_latch);
  peer->next = fork_peers;
  fork_peers = peer;
  busq_latch_release(&fork_latch);
}

static void fork_list_remove(busq_peer *peer)
{
  busq_latch_acquire(&fork_latch);
  for (busq_peer **link = &fork_peers; *link; link = &(*link)->next) {
    if (*link == peer) {
      *link = peer->next;
      break;
    }
  }
  busq_latch_release(&fork_latch);
}

/* ---- burying ---- */

/* Empties a closed queue on behalf of a reader that will not come back. */
static void queue_discard(busq_bus *bus, uint32_t slot)
{
  const busq_ring ring = busq_bus_ring(bus, slot);
  const uint64_t tail = busq_ring_close(&ring);
  uint64_t head = busq_load_acquire(&ring.queue->head);
  if (head > tail || tail - head > ring.slot_count)
    head = tail - (tail < ring.slot_count ? tail : ring.slot_count); /* damage: look at all there can be */
  for (; head != tail; head++) {
    busq_reference reference;
    while (!busq_ring_look(&ring, head, &reference))
      (void)busq_ring_skip(&ring, head);
    busq_receive_discard(bus, slot, reference);
  }
  busq_store_release(&ring.queue->head, tail);
}

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
  if ((state & 3) != BUSQ_PHASE_COMMITTED || destinations > bus->geometry.peers)
    return;
  for (uint32_t i = 0; i < destinations; i++) {
    const uint32_t slot = record->destination[i].slot;
    if ((busq_load_acquire(&record->destination[i].mark) & BUSQ_MARK_RELEASED) || slot >= bus->geometry.peers ||
        queue_has(bus, slot, unit, state & ~UINT64_C(3)))
      continue;
    if (!(busq_load_acquire(&record->destination[i].mark) & BUSQ_MARK_RELEASED))
      busq_arena_release(bus, record->sender < bus->geometry.peers ? record->sender : slot, record, i);
  }
}

/* The caller holds the slot's kernel lock, so the process behind it is dead and nobody else is burying it. */
static void life_bury(busq_bus *bus, uint32_t slot)
{
  busq_slot *self = &bus->slots[slot];
  const uint32_t incarnation = (uint32_t)(busq_load_acquire(&self->life) >> 32);
  const busq_ring ring = busq_bus_ring(bus, slot);
  (void)busq_ring_close(&ring);
  BUSQ_STEP("bury");
  busq_arena_visit(bus, slot, busq_multicast_finish);
  busq_arena_visit(bus, slot, record_release_unpublished);
  BUSQ_STEP("bury");
  queue_discard(bus, slot);
  busq_store_relaxed(&self->wake_flags, 0);
  busq_fifo_unlink(bus, slot, incarnation);
  BUSQ_STEP("bury");
  (void)busq_arena_reclaim(bus, slot);
  BUSQ_STEP("bury");
  busq_store_release(&self->life, busq_life_word(incarnation, BUSQ_LIFE_DEAD));
  busq_wake_waiters(&self->room_waiters, &self->room_seq);
}

static bool life_needs_burial(uint64_t life)
{
  return (uint32_t)life == BUSQ_LIFE_LIVE || (uint32_t)life == BUSQ_LIFE_JOINING || (uint32_t)life == BUSQ_LIFE_LEAVING;
}

/* Memory is short: what peers that are gone still own may have been released meanwhile. */
void busq_life_reclaim(busq_bus *bus)
{
  const int fd = lock_open(bus);
  for (uint32_t slot = 0; fd >= 0 && slot < bus->geometry.peers; slot++) {
    const uint32_t life = (uint32_t)busq_load_acquire(&bus->slots[slot].life);
    if (life == BUSQ_LIFE_FREE || lock_try(fd, LOCK_OF_SLOT(slot)) < 0)
      continue;
    if (life_needs_burial(busq_load_acquire(&bus->slots[slot].life)))
      life_bury(bus, slot);
    else
      (void)busq_arena_reclaim(bus, slot);
    lock_drop(fd, LOCK_OF_SLOT(slot));
  }
  if (fd >= 0)
    close(fd);
}

bool busq_life_check(busq_bus *bus, uint32_t slot, uint32_t incarnation)
{
  const uint64_t expected = busq_life_word(incarnation, BUSQ_LIFE_LIVE);
  if (busq_load_acquire(&bus->slots[slot].life) != expected)
    return false;
  if (busq_life_is_held(bus, slot))
    return true;
  const int fd = lock_open(bus);
  if (fd < 0)
    return false;
  if (lock_try(fd, LOCK_OF_SLOT(slot)) == 0 && busq_load_acquire(&bus->slots[slot].life) == expected)
    life_bury(bus, slot);
  close(fd);
  return false;
}

/* ---- names ---- */

static uint64_t name_hash(const char *name, size_t bytes)
{
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < bytes; i++)
    hash = (hash ^ (unsigned char)name[i]) * UINT64_C(0x100000001b3);
  hash ^= hash >> 32;
  return hash * UINT64_C(0x9e3779b97f4a7c15);
}

/* Bytes of the sequence that begins here, 0 where it is not UTF-8. */
static size_t utf8_length(const unsigned char *text, size_t bytes)
{
  const unsigned char c = text[0];
  if (c < 0x80)
    return 1;
  const size_t length = c >= 0xc2 && c <= 0xdf ? 2 : (c & 0xf0) == 0xe0 ? 3 : c >= 0xf0 && c <= 0xf4 ? 4 : 0;
  if (length == 0 || length > bytes)
    return 0;
  for (size_t i = 1; i < length; i++)
    if ((text[i] & 0xc0) != 0x80)
      return 0;
  const bool overlong = (c == 0xe0 && text[1] < 0xa0) || (c == 0xf0 && text[1] < 0x90);
  const bool surrogate = c == 0xed && text[1] >= 0xa0;
  const bool beyond = c == 0xf4 && text[1] >= 0x90;
  return overlong || surrogate || beyond ? 0 : length;
}

static int name_check(const char *name, size_t bytes)
{
  if (bytes == 0 || bytes > BUSQ_LAYOUT_NAME_BYTES_MAX)
    return busq_error(BUSQ_INVALID, "a peer's name of %zu bytes: expected 1 to %u bytes of UTF-8", bytes,
                      BUSQ_LAYOUT_NAME_BYTES_MAX);
  if (name[0] == '@')
    return busq_error(BUSQ_INVALID, "a peer's name that begins with \"@\": such names are kept for groups");
  for (size_t at = 0; at < bytes;) {
    const size_t length = utf8_length((const unsigned char *)name + at, bytes - at);
    if (length == 0)
      return busq_error(BUSQ_INVALID, "a peer's name with the byte 0x%02x at %zu: expected UTF-8", (unsigned char)name[at], at);
    if (name[at] == '\0' || name[at] == '/')
      return busq_error(BUSQ_INVALID, "a peer's name with %s at byte %zu: neither NUL nor \"/\" may be in a name",
                        name[at] ? "\"/\"" : "NUL", at);
    at += length;
  }
  return BUSQ_OK;
}

static bool slot_has_name(const busq_slot *slot, const char *name, size_t bytes)
{
  return busq_load_relaxed(&slot->name_bytes) == bytes && memcmp(slot->name, name, bytes) == 0;
}

int busq_peer_lookup(busq_peer *peer, const char *name, size_t name_bytes, uint64_t *targetp)
{
  busq_bus *bus = peer->bus;
  bool was_here = false;
  int result = busq_peer_check(peer);
  if (!result)
    result = name_check(name, name_bytes);
  if (result)
    return result;
  for (uint32_t slot = 0; slot < bus->geometry.peers; slot++) {
    busq_slot *other = &bus->slots[slot];
    const uint64_t life = busq_load_acquire(&other->life);
    if ((uint32_t)life == BUSQ_LIFE_FREE || !slot_has_name(other, name, name_bytes))
      continue;
    /* The name was read while the slot had this life, or it does not count. */
    busq_fence_full();
    if (busq_load_acquire(&other->life) != life || (uint32_t)life == BUSQ_LIFE_JOINING)
      continue;
    was_here = true;
    const uint32_t incarnation = (uint32_t)(life >> 32);
    if (other == peer->self || busq_life_check(bus, slot, incarnation)) {
      *targetp = (uint64_t)incarnation << 16 | slot;
      return BUSQ_OK;
    }
  }
  if (was_here)
    return busq_error(BUSQ_PEER_DEAD, "peer \"%.*s\" has left bus \"%s\" or died", (int)name_bytes, name, bus->name);
  return busq_error(BUSQ_UNKNOWN_PEER, "nobody named \"%.*s\" has joined bus \"%s\"", (int)name_bytes, name, bus->name);
}

int busq_peer_slot_name(busq_peer *peer, uint32_t slot, uint32_t incarnation, char *name, size_t *name_bytesp)
{
  if (slot >= peer->bus->geometry.peers)
    return busq_error(BUSQ_CORRUPT, "a message from slot %u of a bus with %u slots", slot, peer->bus->geometry.peers);
  const busq_slot *other = &peer->bus->slots[slot];
  uint32_t bytes = busq_load_acquire(&other->name_bytes);
  if (bytes > BUSQ_LAYOUT_NAME_BYTES_MAX)
    bytes = BUSQ_LAYOUT_NAME_BYTES_MAX;
  memcpy(name, other->name, bytes);
  *name_bytesp = bytes;
  /* A slot keeps its name for as long as messages from it are on their way. */
  if ((uint32_t)(busq_load_acquire(&other->life) >> 32) != incarnation)
    return busq_error(BUSQ_CORRUPT, "a message from a peer of slot %u that is gone", slot);
  return BUSQ_OK;
}

/* ---- joining ---- */

/* With the slot's kernel lock held: can a new peer have it? */
static bool slot_make_free(busq_bus *bus, uint32_t slot)
{
  if (life_needs_burial(busq_load_acquire(&bus->slots[slot].life)))
    life_bury(bus, slot);
  /* Messages of the last peer that are still on their way need its name and its memory. */
  return busq_arena_reclaim(bus, slot) == 0;
}

static int slot_find(busq_bus *bus, int lock_fd, uint32_t *slotp)
{
  uint32_t held = 0, waiting = 0;
  for (uint32_t slot = 0; slot < bus->geometry.peers; slot++) {
    if (lock_try(lock_fd, LOCK_OF_SLOT(slot)) < 0) {
      held++;
      continue;
    }
    if (slot_make_free(bus, slot)) {
      *slotp = slot;
      return BUSQ_OK;
    }
    waiting++;
    lock_drop(lock_fd, LOCK_OF_SLOT(slot));
  }
  return busq_error(BUSQ_NO_SPACE, "bus \"%s\" has %u peer slots: %u are taken by live peers and %u wait until messages of peers that left are received; create the bus with more peers",
                    bus->name, bus->geometry.peers, held, waiting);
}

static void slot_take(busq_peer *peer, const char *name, size_t name_bytes)
{
  busq_slot *self = peer->self;
  peer->incarnation = (uint32_t)(busq_load_acquire(&self->life) >> 32) + 1;
  busq_store_release(&self->life, busq_life_word(peer->incarnation, BUSQ_LIFE_JOINING));
  busq_fence_full();
  BUSQ_STEP("join");
  memcpy(self->name, name, name_bytes);
  self->name[name_bytes] = '\0';
  busq_store_relaxed(&self->name_bytes, (uint32_t)name_bytes);
  self->pid = (uint32_t)getpid();
  self->joined_ns = busq_time_wall_ns();
  self->wake_flags = self->room_waiters = self->memory_waits = 0;
  self->sent = self->late = self->received = 0;
  peer->ring = busq_bus_ring(peer->bus, peer->slot);
  const uint64_t tail = busq_ring_tail(&peer->ring);
  busq_store_release(&self->queue.head, tail);
  peer->scan = peer->head = tail;
  peer->sequence = peer->sequence_limit = busq_load_relaxed(&self->sequence_reserved);
  BUSQ_STEP("join");
  busq_ring_open(&peer->ring, peer->incarnation);
  BUSQ_STEP("join");
  busq_store_release(&self->life, busq_life_word(peer->incarnation, BUSQ_LIFE_LIVE));
}

static int peer_allocate(busq_peer *peer)
{
  const busq_geometry *geometry = &peer->bus->geometry;
  peer->known = calloc(geometry->peers, sizeof *peer->known);
  peer->destinations = calloc(geometry->peers, sizeof *peer->destinations);
  peer->done = calloc((geometry->slot_count + 63) / 64, sizeof *peer->done);
  if (!peer->known || !peer->destinations || !peer->done)
    return busq_error(BUSQ_NO_SPACE, "no memory for a peer handle (%u peers, %llu slots)", geometry->peers,
                      (unsigned long long)geometry->slot_count);
  for (uint32_t slot = 0; slot < geometry->peers; slot++)
    peer->known[slot].fifo_fd = -1;
  return BUSQ_OK;
}

#define SPIN_NS_DEFAULT 1000u
#define YIELD_NS_DEFAULT 50000u

static busq_peer *peer_new(busq_bus *bus)
{
  busq_peer *peer;
  if (posix_memalign((void **)&peer, BUSQ_LINE_PAIR_BYTES, sizeof *peer) != 0)
    return NULL;
  memset(peer, 0, sizeof *peer);
  peer->bus = bus;
  peer->lock_fd = peer->fifo_fd = -1;
  peer->fork_generation = busq_fork_generation;
  peer->spin_ns = SPIN_NS_DEFAULT;
  peer->yield_ns = YIELD_NS_DEFAULT;
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
    peer->spin_ns = 0;
  const char *stale = getenv("BUSQ_STALE_PROPOSALS");
  peer->proposes_stale = stale && *stale && *stale != '0';
  busq_bus_retain(bus);
  return peer;
}

static int peer_take_locks(busq_peer *peer, const char *name, size_t name_bytes)
{
  busq_bus *bus = peer->bus;
  peer->lock_fd = lock_open(bus);
  if (peer->lock_fd < 0)
    return busq_error_system("can't open bus \"%s\" once more for its locks", bus->name);
  peer->name_lock = LOCK_OF_NAME(name_hash(name, name_bytes));
  if (lock_try(peer->lock_fd, peer->name_lock) < 0) {
    if (errno == EAGAIN || errno == EACCES)
      return busq_error(BUSQ_PEER_EXISTS, "a live process has joined bus \"%s\" as \"%.*s\"; choose another name", bus->name,
                        (int)name_bytes, name);
    return busq_error_system("can't lock the name \"%.*s\" on bus \"%s\"", (int)name_bytes, name, bus->name);
  }
  return slot_find(bus, peer->lock_fd, &peer->slot);
}

int busq_peer_join(busq_bus *bus, const char *name, size_t name_bytes, busq_peer **peerp)
{
  int result = name_check(name, name_bytes);
  if (result)
    return result;
  if (busq_load_acquire(&bus->header->is_shut_down))
    return busq_error(BUSQ_SHUTDOWN, "bus \"%s\" was shut down", bus->name);
  busq_peer *peer = peer_new(bus);
  if (!peer)
    return busq_error(BUSQ_NO_SPACE, "no memory for a peer handle");
  result = peer_allocate(peer);
  if (!result)
    result = peer_take_locks(peer, name, name_bytes);
  if (!result)
    result = busq_arena_init(&peer->arena, bus, peer->slot);
  if (result) {
    peer->is_closed = 1;
    if (peer->lock_fd >= 0)
      close(peer->lock_fd);
    busq_peer_free(peer);
    return result;
  }
  peer->self = &bus->slots[peer->slot];
  slot_take(peer, name, name_bytes);
  fork_list_add(peer);
  *peerp = peer;
  return BUSQ_OK;
}

/* ---- leaving ---- */

/* Releases what was never received.  Messages that were taken and are still being looked at keep their places. */
static void peer_discard_queue(busq_peer *peer)
{
  const uint64_t tail = busq_ring_close(&peer->ring);
  const uint64_t end = tail - peer->head <= peer->ring.slot_count ? tail : peer->head; /* else it is damaged */
  for (uint64_t at = peer->head; at != end; at++) {
    busq_reference reference;
    while (!busq_ring_look(&peer->ring, at, &reference))
      (void)busq_ring_skip(&peer->ring, at);
    if (!busq_receive_is_pinned(peer, reference))
      busq_receive_discard(peer->bus, peer->slot, reference);
  }
  if (!peer->pins)
    busq_store_release(&peer->self->queue.head, tail);
}

void busq_life_finish_close(busq_peer *peer)
{
  busq_store_release(&peer->self->queue.head, busq_ring_tail(&peer->ring));
  BUSQ_STEP("leave");
  (void)busq_arena_reclaim(peer->bus, peer->slot);
  BUSQ_STEP("leave");
  busq_store_release(&peer->self->life, busq_life_word(peer->incarnation, BUSQ_LIFE_LEFT));
  fork_list_remove(peer);
  if (peer->lock_fd >= 0)
    close(peer->lock_fd);
  peer->lock_fd = -1;
}

int busq_peer_close(busq_peer *peer)
{
  busq_bus *bus = peer->bus;
  if (peer->fork_generation != busq_fork_generation)
    return BUSQ_FORKED;
  busq_latch_acquire(&peer->send_latch);
  busq_latch_acquire(&peer->receive_latch);
  const bool was_closed = busq_load_relaxed(&peer->is_closed);
  if (!was_closed) {
    busq_store_release(&peer->is_closed, 1);
    BUSQ_STEP("leave");
    peer_discard_queue(peer);
    BUSQ_STEP("leave");
    busq_fifo_close(peer);
    lock_drop(peer->lock_fd, peer->name_lock);
    busq_store_release(&peer->self->life, busq_life_word(peer->incarnation, BUSQ_LIFE_LEAVING));
    BUSQ_STEP("leave");
    if (!peer->pins)
      busq_life_finish_close(peer);
    for (uint32_t slot = 0; slot < bus->geometry.peers; slot++)
      if (peer->known[slot].fifo_fd >= 0) {
        close(peer->known[slot].fifo_fd);
        peer->known[slot].fifo_fd = -1;
      }
  }
  busq_latch_release(&peer->receive_latch);
  busq_latch_release(&peer->send_latch);
  if (!was_closed) {
    busq_wake_waiters_slow(&peer->self->room_waiters, &peer->self->room_seq);
    busq_wake_self(peer);
  }
  return BUSQ_OK;
}

void busq_peer_free(busq_peer *peer)
{
  if (!peer)
    return;
  if (peer->fork_generation == busq_fork_generation && !peer->is_closed)
    (void)busq_peer_close(peer);
  busq_arena_deinit(&peer->arena);
  busq_heap_deinit(&peer->heap);
  free(peer->known);
  free(peer->destinations);
  free(peer->done);
  busq_bus_free(peer->bus);
  free(peer);
}
