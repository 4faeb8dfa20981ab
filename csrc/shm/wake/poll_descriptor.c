/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/wake/poll_descriptor.h"
#include "base/error.h"
#include "base/time.h"
#include "shm/memory/side_file_trust.h"
#include "shm/wake/room_request.h"
#include "shm/wake/slice.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* ---- a sender's end ---- */

/* In a directory for all, others may make files too.  A name that they can't know beforehand is one that they can't
 * take away from us; processes that may know it read it in the slot. */
static int fifo_name(const busq_bus *bus, uint32_t slot, uint32_t incarnation, uint64_t fifo, char *name, size_t bytes)
{
  uint64_t generation;
  __builtin_memcpy(&generation, bus->header->generation, sizeof generation);
  return snprintf(name, bytes, ".busq-%016llx-%u-%u-%016llx", (unsigned long long)generation, slot, incarnation,
                  (unsigned long long)fifo);
}

/* Is the open file the FIFO that it should be? */
static bool fifo_is_sound(const busq_bus *bus, int fd)
{
  struct stat status;
  return fstat(fd, &status) == 0 && S_ISFIFO(status.st_mode) && busq_file_is_of_bus(bus, &status);
}

/* Open for both directions: writing to a FIFO without a reader would end the process with SIGPIPE. */
static int fifo_open_writer(const busq_bus *bus, uint32_t slot)
{
  char name[96];
  const busq_slot *reader = &bus->slots[slot];
  const uint64_t fifo = busq_load_acquire(&reader->fifo);
  if (!fifo)
    return -1;
  fifo_name(bus, slot, (uint32_t)(busq_load_acquire(&reader->life) >> 32), fifo, name, sizeof name);
  const int fd = openat(bus->directory_fd, name, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
  if (fd >= 0 && !fifo_is_sound(bus, fd)) {
    close(fd);
    errno = EACCES;
    return -1;
  }
  return fd;
}

/* Keeps no descriptor. */
void busq_fifo_write_once(const busq_bus *bus, uint32_t slot)
{
  const int fd = fifo_open_writer(bus, slot);
  if (fd < 0)
    return;
  (void)!write(fd, "", 1);
  close(fd);
}

/* The sender's end of a reader's FIFO, kept open for as long as the reader has this one. */
static int fifo_of_reader(busq_peer *peer, uint32_t slot)
{
  busq_destination_cache *known = &peer->sender.known[slot];
  const uint64_t fifo = busq_load_acquire(&peer->bus->slots[slot].fifo);
  if (known->fifo_fd >= 0 && known->fifo == fifo)
    return known->fifo_fd;
  if (known->fifo_fd >= 0)
    close(known->fifo_fd);
  known->fifo_fd = fifo_open_writer(peer->bus, slot);
  if (known->fifo_fd < 0 && (errno == EMFILE || errno == ENFILE)) {
    /* Descriptors have run out, and some of them are ours to do without. */
    for (uint32_t other = 0; other < busq_slots_reached(peer->bus); other++) {
      if (peer->sender.known[other].fifo_fd >= 0)
        close(peer->sender.known[other].fifo_fd);
      peer->sender.known[other].fifo_fd = -1;
    }
    known->fifo_fd = fifo_open_writer(peer->bus, slot);
  }
  known->fifo = fifo;
  return known->fifo_fd;
}

/* Out of descriptors, or not allowed to: the reader has to look for itself. */
static void fifo_fail(busq_peer *peer, uint32_t slot)
{
  const uint64_t fifo = peer->sender.known[slot].fifo;
  if (fifo) /* of that one: by now it may be a successor's slot */
    busq_store_relaxed(&peer->bus->slots[slot].fifo_failed, (uint32_t)fifo);
}

/* The byte goes first and the flag second: killed in between, the flag stays up and the next sender writes again.  The
 * swap carries the number of the arming, so that it can't take down a flag that was raised after our byte was
 * drained. */
void busq_fifo_signal(busq_peer *peer, uint32_t slot, uint32_t seen)
{
  uint32_t *flags = &peer->bus->slots[slot].wake_flags;
  const int fd = fifo_of_reader(peer, slot);
  if (fd < 0 || (write(fd, "", 1) < 0 && errno != EAGAIN)) {
    fifo_fail(peer, slot);
    return;
  }
  uint32_t now = seen;
  while ((now & ~1u) == (seen & ~1u) && !busq_cas32(flags, now, now & 1u))
    now = busq_load_acquire(flags);
}

/* ---- the reader's end ---- */

void busq_fifo_unlink(busq_bus *bus, uint32_t slot, uint32_t incarnation)
{
  char name[96];
  const uint64_t fifo = busq_load_acquire(&bus->slots[slot].fifo);
  if (!fifo)
    return;
  fifo_name(bus, slot, incarnation, fifo, name, sizeof name);
  (void)unlinkat(bus->directory_fd, name, 0);
  busq_store_release(&bus->slots[slot].fifo, 0);
}

/* The FIFO of a shared queue is made by the first reader that asks for it, and is the same for all of its readers. */
static int fifo_make_shared(const busq_peer *peer, char *name, size_t bytes)
{
  busq_slot *inbox = peer->receiver.inbox;
  if (!busq_load_acquire(&inbox->fifo))
    (void)busq_cas64(&inbox->fifo, 0, busq_file_random_part());
  fifo_name(peer->bus, peer->receiver.inbox_slot, (uint32_t)(busq_load_acquire(&inbox->life) >> 32),
            busq_load_acquire(&inbox->fifo), name, bytes);
  if (mkfifoat(peer->bus->directory_fd, name, peer->bus->header->permissions & 0660) == 0 || errno == EEXIST)
    return BUSQ_OK;
  return busq_error_system("can't make the FIFO behind fileno() beside bus \"%s\", as user %u", peer->bus->name, geteuid());
}

/* The name is published before there is anything of that name: killed in between, the process that buries us finds what
 * we have made. */
static int fifo_make(busq_peer *peer, char *name, size_t bytes)
{
  enum { TRIES = 16 };
  const mode_t mode = peer->bus->header->permissions & 0660;
  int result = -1;
  errno = EEXIST;
  for (int i = 0; i < TRIES && result < 0 && errno == EEXIST; i++) {
    const uint64_t fifo = busq_file_random_part();
    fifo_name(peer->bus, peer->slot, peer->incarnation, fifo, name, bytes);
    busq_store_release(&peer->self->fifo, fifo);
    result = mkfifoat(peer->bus->directory_fd, name, mode);
  }
  if (result == 0)
    return BUSQ_OK;
  const int number = errno;
  busq_store_release(&peer->self->fifo, 0);
  errno = number;
  return busq_error_system("can't make the FIFO behind fileno() beside bus \"%s\", as user %u", peer->bus->name, geteuid());
}

static int fifo_begin(busq_peer *peer)
{
  char name[96];
  const int result = peer->receiver.is_consumer ? fifo_make_shared(peer, name, sizeof name)
                                                : fifo_make(peer, name, sizeof name);
  if (result)
    return result;
  /* Open for both directions, so that it never reads as ended while no sender has it open. */
  peer->descriptor.fifo_fd = openat(peer->bus->directory_fd, name, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
  if (peer->descriptor.fifo_fd < 0)
    return busq_error_system("can't open the FIFO behind fileno()");
  (void)fchmod(peer->descriptor.fifo_fd, peer->bus->header->permissions & 0660); /* the umask may have taken something away */
  if (!fifo_is_sound(peer->bus, peer->descriptor.fifo_fd))
    return busq_error(BUSQ_DENIED, "%s, the FIFO behind fileno() of bus \"%s\", was replaced by something else: nobody but user %u should be able to change its directory",
                      name, peer->bus->name, geteuid());
  return BUSQ_OK;
}

int busq_fifo_open(busq_peer *peer)
{
  if (peer->descriptor.poll_fd >= 0)
    return BUSQ_OK;
  busq_fifo_sleep_lightly(peer);
  busq_room_begin(peer);
  int result = fifo_begin(peer);
  /* A sender that was stopped half-way through signalling a predecessor in this slot must not take down our flag by its
   * swap: the numbers of our armings begin somewhere else. */
  peer->descriptor.epoch = (uint32_t)busq_load_relaxed(&peer->receiver.inbox->fifo) & (UINT32_MAX >> 1);
  if (!result && (peer->descriptor.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) < 0)
    result = busq_error_system("can't make the timer behind fileno()");
  if (!result && (peer->descriptor.poll_fd = epoll_create1(EPOLL_CLOEXEC)) < 0)
    result = busq_error_system("can't make the descriptor behind fileno()");
  const int inner[] = {peer->descriptor.fifo_fd, peer->descriptor.timer_fd};
  for (unsigned i = 0; i < 2 && !result; i++) {
    struct epoll_event event = {.events = EPOLLIN};
    if (epoll_ctl(peer->descriptor.poll_fd, EPOLL_CTL_ADD, inner[i], &event) < 0)
      result = busq_error_system("can't fill the descriptor behind fileno()");
  }
  if (result)
    busq_fifo_close(peer);
  return result;
}

void busq_fifo_close(busq_peer *peer)
{
  int *const descriptors[] = {&peer->descriptor.poll_fd, &peer->descriptor.timer_fd, &peer->descriptor.fifo_fd};
  if (!peer->receiver.is_consumer)
    busq_fifo_unlink(peer->bus, peer->slot, peer->incarnation);
  for (unsigned i = 0; i < 3; i++) {
    if (*descriptors[i] >= 0)
      close(*descriptors[i]);
    *descriptors[i] = -1;
  }
}

static bool fifo_is_deep(const busq_peer *peer)
{
  return (peer->descriptor.epoch << 1 & BUSQ_WAKE_DEEP) != 0;
}

bool busq_fifo_may_deepen(const busq_peer *peer)
{
  return peer->descriptor.naps >= BUSQ_NAPS && !fifo_is_deep(peer) && !busq_load_relaxed(&peer->deaths.cares);
}

/* How long to sleep where nothing is in the queue: deeply, twice as long as the last time. */
static uint64_t fifo_sleep_ns(busq_peer *peer, uint64_t now_ns)
{
  const bool was_in_vain = peer->descriptor.timer_due_ns && now_ns >= peer->descriptor.timer_due_ns;
  if (peer->descriptor.naps < BUSQ_NAPS)
    peer->descriptor.naps += was_in_vain;
  else if (was_in_vain && peer->descriptor.was_deep)
    peer->descriptor.net_ns = 2 * peer->descriptor.net_ns < BUSQ_NET_NS ? 2 * peer->descriptor.net_ns : BUSQ_NET_NS;
  return fifo_is_deep(peer) ? peer->descriptor.net_ns : BUSQ_SLICE_NS;
}

static void fifo_begin_naps(busq_peer *peer)
{
  peer->descriptor.naps = 0;
  peer->descriptor.net_ns = BUSQ_NAPS * BUSQ_SLICE_NS;
}

void busq_fifo_sleep_lightly(busq_peer *peer)
{
  fifo_begin_naps(peer);
  peer->descriptor.quiet_since_ns = 0;
}

/* How long to sleep where something has to be looked at: twenty times a second first, and once in the end. */
static uint64_t fifo_look_ns(busq_peer *peer, uint64_t now_ns)
{
  enum { AWAY_NS = 200000000 };
  const bool was_away = now_ns > peer->descriptor.timer_due_ns + AWAY_NS;
  if (!peer->descriptor.quiet_since_ns || was_away)
    peer->descriptor.quiet_since_ns = now_ns;
  return busq_slice_after_ns(now_ns - peer->descriptor.quiet_since_ns);
}

/* Setting a timer anew also makes it unreadable. */
void busq_fifo_look_again(busq_peer *peer, uint64_t blocked_ns, uint64_t in_ns)
{
  const uint64_t now_ns = busq_time_now_ns();
  const uint32_t failed = busq_load_relaxed(&peer->receiver.inbox->fifo_failed);
  /* Where there are several readers, each looks for the others, should they die. */
  const bool must_look = peer->receiver.is_consumer || busq_load_relaxed(&peer->deaths.cares) ||
                         (peer->descriptor.listens & BUSQ_LISTEN_LIVES);
  const bool is_quiet = blocked_ns == UINT64_MAX &&
                        (!failed || failed != (uint32_t)busq_load_relaxed(&peer->receiver.inbox->fifo));
  const bool may_sleep = is_quiet && !must_look;
  if (!may_sleep)
    fifo_begin_naps(peer);
  if (is_quiet && must_look)
    busq_store_relaxed(&peer->self->keeps_memory, 1); /* it is not marked as deep, and may sleep as long (wake.c) */
  uint64_t limit_ns = may_sleep ? fifo_sleep_ns(peer, now_ns) : is_quiet ? fifo_look_ns(peer, now_ns) : BUSQ_SLICE_NS;
  if (!must_look && !(peer->descriptor.listens & BUSQ_LISTEN_MESSAGES))
    limit_ns = BUSQ_NET_NS; /* it waits for no sender, which might be killed before its second signal */
  if (in_ns < limit_ns)
    limit_ns = in_ns;
  const uint64_t due_ns = now_ns + (blocked_ns < limit_ns ? blocked_ns : limit_ns);
  if (now_ns < peer->descriptor.timer_due_ns && peer->descriptor.timer_due_ns <= due_ns)
    return;
  peer->descriptor.was_deep = may_sleep && fifo_is_deep(peer);
  const struct itimerspec when = {
      .it_value = {.tv_sec = (time_t)(due_ns / 1000000000u), .tv_nsec = (long)(due_ns % 1000000000u)}};
  (void)timerfd_settime(peer->descriptor.timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
  peer->descriptor.timer_due_ns = due_ns;
}

void busq_fifo_disarm(busq_peer *peer)
{
  uint64_t expirations;
  peer->descriptor.listens = BUSQ_LISTEN_NOT;
  (void)!read(peer->descriptor.timer_fd, &expirations, sizeof expirations);
  if (peer->receiver.is_consumer) /* flag and FIFO are those of others, too */
    return;
  (void)busq_fetch_and(&peer->self->wake_flags, BUSQ_WAKE_FUTEX);
  (void)busq_fifo_drain(peer);
  peer->descriptor.is_readable = false;
}

bool busq_fifo_drain(busq_peer *peer)
{
  char bytes[256];
  bool some = false;
  ssize_t count;
  do {
    count = read(peer->descriptor.fifo_fd, bytes, sizeof bytes);
    some |= count > 0;
  } while (count == sizeof bytes);
  return some;
}

void busq_fifo_arm(busq_peer *peer)
{
  const uint32_t is_deep = peer->descriptor.naps >= BUSQ_NAPS;
  (void)busq_fifo_drain(peer);
  /* The next number of this parity that is not 0.  Of several readers no two have the same. */
  if (peer->receiver.is_consumer)
    peer->descriptor.epoch = (uint32_t)busq_load_relaxed(&peer->receiver.inbox->fifo) +
                             busq_fetch_add(&peer->receiver.inbox->armings, 2);
  peer->descriptor.epoch = ((peer->descriptor.epoch & ~1u) + 2) & (UINT32_MAX >> 1);
  peer->descriptor.epoch = (peer->descriptor.epoch ? peer->descriptor.epoch : 2) | is_deep;
  uint32_t seen;
  do
    seen = busq_load_relaxed(&peer->receiver.inbox->wake_flags);
  while (!busq_cas32(&peer->receiver.inbox->wake_flags, seen, peer->descriptor.epoch << 1 | (seen & 1u)));
  busq_fence_full();
}

void busq_fifo_make_readable(busq_peer *peer)
{
  if (write(peer->descriptor.fifo_fd, "", 1) < 0) {
    /* Full of bytes is as readable as one byte. */
  }
}
