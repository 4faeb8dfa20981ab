/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/memory/life.h"
#include "base/error.h"
#include "base/latch.h"
#include "base/thread.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

/* ---- kernel locks ---- */

#define LOCK_OF_SLOT(slot) ((off_t)((INT64_C(1) << 40) + (slot)))

static int lock_set(int fd, int64_t byte, short type)
{
  struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
  int result;
  do
    result = fcntl(fd, F_OFD_SETLK, &lock);
  while (result < 0 && errno == EINTR);
  return result;
}

int busq_lock_try(int fd, int64_t byte)
{
  return lock_set(fd, byte, F_WRLCK);
}

int busq_lock_share(int fd, int64_t byte)
{
  return lock_set(fd, byte, F_RDLCK);
}

void busq_lock_drop_range(int fd, int64_t byte, int64_t bytes)
{
  struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = bytes};
  (void)fcntl(fd, F_OFD_SETLK, &lock);
}

void busq_lock_drop(int fd, int64_t byte)
{
  busq_lock_drop_range(fd, byte, 1);
}

bool busq_life_is_held(const busq_bus *bus, uint32_t slot)
{
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = LOCK_OF_SLOT(slot), .l_len = 1};
  /* If the kernel does not answer, no peer is declared dead. */
  return fcntl(bus->fd, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

/* A life that was resumed has its incarnation in common with the one before. */
uint64_t busq_life_name(const busq_bus *bus, uint32_t slot)
{
  const busq_slot *peer = &bus->slots[slot];
  const uint32_t incarnation = (uint32_t)(busq_load_acquire(&peer->life) >> 32);
  return busq_life_name_of(slot, incarnation, busq_load_relaxed(&peer->began_ns));
}

bool busq_life_is_going_on(const busq_bus *bus, uint64_t name)
{
  const uint32_t slot = busq_life_name_slot(name);
  return slot < busq_slots_reached(bus) && (busq_load_acquire(&bus->slots[slot].life) & BUSQ_LIFE_MASK) == BUSQ_LIFE_LIVE &&
         busq_life_name(bus, slot) == name && busq_life_is_held(bus, slot);
}

int busq_life_hold(int fd, uint32_t slot)
{
  return busq_lock_try(fd, LOCK_OF_SLOT(slot));
}

int busq_life_share(int fd, uint32_t slot)
{
  return busq_lock_share(fd, LOCK_OF_SLOT(slot));
}

/* ---- fork ---- */

uint32_t busq_fork_generation = 1;
static BUSQ_PROCESS_STATE busq_guard *fork_guards;
static BUSQ_PROCESS_STATE busq_bus *fork_stores;
static BUSQ_PROCESS_STATE busq_latch fork_latch;

/* A description of its own: locks taken through it are shared with no other descriptor. */
static int description_open(const busq_bus *bus)
{
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", bus->fd);
  return open(path, O_RDWR | O_CLOEXEC);
}

static void store_empty(busq_bus *bus)
{
  for (uint32_t i = 0; i < BUSQ_SPARES; i++) {
    if (bus->spares[i] >= 0)
      close(bus->spares[i]);
    bus->spares[i] = -1;
  }
}

static void store_fill(busq_bus *bus)
{
  for (uint32_t i = 0; i < BUSQ_SPARES; i++)
    bus->spares[i] = description_open(bus);
}

static void fork_prepare(void)
{
  busq_latch_acquire(&fork_latch);
}

static void fork_parent(void)
{
  busq_latch_release(&fork_latch);
}

/* The child has copies of the descriptors whose locks show that our peers live, and that we are burying one: with them
 * it would keep a dead parent alive.  Nothing else is touched. */
static void fork_child(void)
{
  busq_fork_generation++;
  busq_thread_forget();
  for (busq_guard *guard = fork_guards; guard; guard = guard->next) {
    close(*guard->fd);
    *guard->fd = -1;
  }
  fork_guards = NULL;
  for (busq_bus *bus = fork_stores; bus; bus = bus->spares_next) {
    store_empty(bus); /* the parent's locks would be ours, too */
    store_fill(bus);
  }
  busq_latch_release(&fork_latch);
}

static void fork_watch(void)
{
  pthread_atfork(fork_prepare, fork_parent, fork_child);
}

static void watch_forks(void)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, fork_watch);
}

/* One of the store, or -1. */
static int store_take(busq_bus *bus)
{
  int fd = -1;
  for (uint32_t i = 0; bus->has_spares && fd < 0 && i < BUSQ_SPARES; i++) {
    fd = bus->spares[i];
    bus->spares[i] = -1;
  }
  return fd;
}

/* Back into the store, where only another user could open the next one. */
static bool store_put(busq_bus *bus, int fd)
{
  for (uint32_t i = 0; bus->has_spares && geteuid() != bus->user && i < BUSQ_SPARES; i++)
    if (bus->spares[i] < 0) {
      bus->spares[i] = fd;
      return true;
    }
  return false;
}

void busq_bus_expect_another_user(busq_bus *bus)
{
  watch_forks();
  busq_latch_acquire(&fork_latch);
  if (!bus->has_spares) {
    store_fill(bus);
    bus->has_spares = true;
    bus->spares_next = fork_stores;
    fork_stores = bus;
  }
  busq_latch_release(&fork_latch);
}

void busq_guard_store_end(busq_bus *bus)
{
  if (!bus->has_spares)
    return;
  busq_latch_acquire(&fork_latch);
  store_empty(bus);
  bus->has_spares = false;
  for (busq_bus **link = &fork_stores; *link; link = &(*link)->spares_next) {
    if (*link == bus) {
      *link = bus->spares_next;
      break;
    }
  }
  busq_latch_release(&fork_latch);
}

/* Opened and listed under one latch, so that no fork comes between. */
int busq_guard_open(busq_guard *guard, busq_bus *bus, int *fd)
{
  watch_forks();
  busq_latch_acquire(&fork_latch);
  *fd = description_open(bus);
  const int number = errno;
  if (*fd < 0 && number == EACCES)
    *fd = store_take(bus);
  if (*fd >= 0) {
    *guard = (busq_guard){fd, bus, fork_guards};
    fork_guards = guard;
  }
  busq_latch_release(&fork_latch);
  /* We may use the file that we have open, but perhaps not open it again. */
  if (*fd < 0 && number == EACCES && geteuid() != bus->user)
    return busq_error(BUSQ_DENIED, "can't open bus \"%s\" once more for its locks: user %u opened it, and this process is user %u now; join before changing the user, or open a bus of the new one",
                      bus->name, bus->user, geteuid());
  errno = number;
  return *fd >= 0 ? BUSQ_OK : busq_error_system("can't open bus \"%s\" once more for its locks", bus->name);
}

void busq_guard_close(busq_guard *guard)
{
  struct flock all = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
  busq_latch_acquire(&fork_latch);
  for (busq_guard **link = &fork_guards; *link; link = &(*link)->next) {
    if (*link == guard) {
      *link = guard->next;
      /* Let go of expressly: a child that is just being forked, or about to exec, may still have a copy of the
       * descriptor. */
      (void)fcntl(*guard->fd, F_OFD_SETLK, &all);
      if (!store_put(guard->bus, *guard->fd))
        close(*guard->fd);
      *guard->fd = -1;
      break;
    }
  }
  busq_latch_release(&fork_latch);
}
