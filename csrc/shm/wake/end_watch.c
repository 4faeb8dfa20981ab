/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/wake/end_watch.h"
#include "base/growing.h"
#include "shm/memory/life.h"
#include "shm/wake/poll_descriptor.h"
#include "shm/wake/wake.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

uint64_t busq_lives_pid_space(void)
{
  struct stat status;
  return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

static bool has_ended(int fd)
{
  struct pollfd process = {.fd = fd, .events = POLLIN};
  return poll(&process, 1, 0) != 0;
}

static bool is_watched(const busq_peer *peer, uint64_t life)
{
  for (uint32_t i = 0; i < peer->descriptor.n_lives; i++)
    if (peer->descriptor.lives[i].life == life)
      return true;
  return false;
}

/* -1 where its number means nothing here. */
static int process_open(const busq_slot *slot)
{
#ifdef BUSQ_STEPS
  (void)slot;
  return -1; /* a search of interleavings has one process */
#else
  const uint64_t space = busq_load_relaxed(&slot->pid_space);
  if (!space || space != busq_lives_pid_space() || (busq_load_acquire(&slot->life) & BUSQ_LIFE_SHARED))
    return -1;
  return (int)syscall(SYS_pidfd_open, (pid_t)busq_load_relaxed(&slot->pid), 0);
#endif
}

static bool process_add(busq_peer *peer, uint64_t life, int fd)
{
  busq_descriptor *descriptor = &peer->descriptor;
  struct epoll_event event = {.events = EPOLLIN};
  if (!busq_life_is_going_on(peer->bus, life) || has_ended(fd) ||
      !busq_reserve(&descriptor->lives, &descriptor->lives_room, (uint64_t)descriptor->n_lives + 1,
                    sizeof *descriptor->lives) ||
      epoll_ctl(descriptor->poll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
    return false;
  descriptor->lives[descriptor->n_lives++] = (busq_watched_life){life, fd};
  return true;
}

bool busq_lives_watch(busq_peer *peer, uint64_t life)
{
  const uint32_t slot = busq_life_name_slot(life);
  if (is_watched(peer, life))
    return true;
  if (slot >= busq_slots_reached(peer->bus) || busq_fifo_open(peer) != BUSQ_OK)
    return false;
  const int fd = process_open(&peer->bus->slots[slot]);
  if (fd < 0)
    return false;
  (void)busq_fetch_or(&peer->bus->slots[slot].mourners, busq_waits_bit(peer->slot));
  busq_fence_full();
  if (process_add(peer, life, fd))
    return true;
  close(fd);
  return false;
}

bool busq_lives_are_quiet(busq_peer *peer)
{
  for (uint32_t i = 0; i < peer->descriptor.n_lives; i++)
    if (has_ended(peer->descriptor.lives[i].fd)) {
      busq_lives_unwatch(peer);
      return false;
    }
  return true;
}

void busq_lives_unwatch(busq_peer *peer)
{
  while (peer->descriptor.n_lives)
    close(peer->descriptor.lives[--peer->descriptor.n_lives].fd);
}

void busq_lives_left(busq_bus *bus, uint32_t slot)
{
  busq_fence_full();
  if (!busq_load_relaxed(&bus->slots[slot].mourners))
    return;
  for (uint32_t waiters = busq_exchange(&bus->slots[slot].mourners, 0); waiters; waiters &= waiters - 1)
    for (uint32_t other = (uint32_t)__builtin_ctz(waiters) - 1; other < busq_slots_reached(bus); other += BUSQ_WAITS_BITS)
      busq_wake_readers_of(bus, other);
}
