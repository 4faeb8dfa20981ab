/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/wake/wake.h"
#include "base/error.h"
#include "base/time.h"
#include "shm/memory/files.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* ---- futexes ---- */

static void futex_wake_all(uint32_t *word)
{
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static int futex_wait_slice(uint32_t *word, uint32_t value, uint64_t slice_ns)
{
  const struct timespec slice = {(time_t)(slice_ns / 1000000000u), (long)(slice_ns % 1000000000u)};
  return syscall(SYS_futex, word, FUTEX_WAIT, value, &slice, NULL, 0) == 0 ? 0 : errno;
}

/* ---- waking ---- */

/* In a directory for all, others may make files too.  A name that they can't know beforehand is one that they can't take away
 * from us; those who may know it read it in the slot. */
static int fifo_name(const busq_bus *bus, uint32_t slot, uint32_t incarnation, uint64_t fifo, char *name, size_t bytes)
{
  uint64_t generation;
  __builtin_memcpy(&generation, bus->header->generation, sizeof generation);
  return snprintf(name, bytes, ".busq-%016llx-%u-%u-%016llx", (unsigned long long)generation, slot, incarnation,
                  (unsigned long long)fifo);
}

/* Of a FIFO that is open. */
static bool fifo_is_sound(const busq_bus *bus, int fd)
{
  struct stat status;
  return fstat(fd, &status) == 0 && S_ISFIFO(status.st_mode) && busq_beside_is_of_bus(bus, &status);
}

/* Open for both directions: writing to a FIFO that nobody reads any more would end the process with SIGPIPE. */
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

/* For who has no further use of it. */
static void fifo_write_once(const busq_bus *bus, uint32_t slot)
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
  busq_acquaintance *known = &peer->known[slot];
  const uint64_t fifo = busq_load_acquire(&peer->bus->slots[slot].fifo);
  if (known->fifo_fd >= 0 && known->fifo == fifo)
    return known->fifo_fd;
  if (known->fifo_fd >= 0)
    close(known->fifo_fd);
  known->fifo_fd = fifo_open_writer(peer->bus, slot);
  if (known->fifo_fd < 0 && (errno == EMFILE || errno == ENFILE)) {
    /* Descriptors have run out, and some of them are ours to do without. */
    for (uint32_t other = 0; other < peer->bus->geometry.peers; other++) {
      if (peer->known[other].fifo_fd >= 0)
        close(peer->known[other].fifo_fd);
      peer->known[other].fifo_fd = -1;
    }
    known->fifo_fd = fifo_open_writer(peer->bus, slot);
  }
  known->fifo = fifo;
  return known->fifo_fd;
}

/* Out of descriptors, or not allowed to: the reader has to look for itself. */
static void fifo_fail(busq_peer *peer, uint32_t slot)
{
  const uint64_t fifo = peer->known[slot].fifo;
  if (fifo) /* of that one: by now it may be a successor's slot */
    busq_store_relaxed(&peer->bus->slots[slot].fifo_failed, (uint32_t)fifo);
}

/* The byte goes first and the flag second: killed in between, the flag stays up and the next sender writes again.  The
 * swap carries the number of the arming, so that it can't take down a flag that was raised after our byte was drained. */
static void fifo_signal(busq_peer *peer, uint32_t slot, uint32_t seen)
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

void busq_wake_announce_slow(busq_peer *peer, uint32_t slot)
{
  const uint32_t seen = busq_load_acquire(&peer->bus->slots[slot].wake_flags);
  if (seen & BUSQ_WAKE_DEEP)
    fifo_signal(peer, slot, seen);
}

void busq_wake_reader_slow(busq_peer *peer, uint32_t slot)
{
  busq_slot *reader = &peer->bus->slots[slot];
  const uint32_t seen = busq_load_acquire(&reader->wake_flags);
  if (seen & ~1u)
    fifo_signal(peer, slot, seen);
  if (busq_fetch_and(&reader->wake_flags, ~(uint32_t)BUSQ_WAKE_FUTEX) & BUSQ_WAKE_FUTEX) {
    (void)busq_fetch_add(&reader->wake_seq, 1);
    futex_wake_all(&reader->wake_seq);
  }
}

void busq_wake_readers_of(busq_bus *bus, uint32_t slot)
{
  busq_slot *reader = &bus->slots[slot];
  busq_fence_full();
  const uint32_t seen = busq_load_acquire(&reader->wake_flags);
  if (seen & ~BUSQ_WAKE_FUTEX)
    fifo_write_once(bus, slot);
  if (busq_fetch_and(&reader->wake_flags, ~(uint32_t)BUSQ_WAKE_FUTEX) & BUSQ_WAKE_FUTEX) {
    (void)busq_fetch_add(&reader->wake_seq, 1);
    futex_wake_all(&reader->wake_seq);
  }
}

/* Takes the flag down, and wakes those who sleep in a call; what is left are the bits of the others. */
static uint32_t waiters_wake(uint32_t *flag, uint32_t *sequence)
{
  const uint32_t waiters = busq_exchange(flag, 0);
  if (waiters & BUSQ_WAITS_FUTEX) {
    (void)busq_fetch_add(sequence, 1);
    futex_wake_all(sequence);
  }
  return waiters & ~BUSQ_WAITS_FUTEX;
}

/* A reader of a shared queue waits behind the FIFO of that. */
static uint32_t fifo_slot_of(const busq_bus *bus, uint32_t slot)
{
  const busq_slot *sender = &bus->slots[slot];
  const uint32_t queue = (uint32_t)busq_load_acquire(&sender->consumes);
  return (busq_load_acquire(&sender->life) & BUSQ_LIFE_CONSUMER) && queue < bus->geometry.peers ? queue : slot;
}

/* SYNC POINT asks: the bit is cleared first, so that whoever drains the byte finds that it is; and by one of us alone. */
static void sender_tell(const busq_bus *bus, uint32_t slot, uint64_t what)
{
  BUSQ_STEP("tell");
  if (!(busq_fetch_and(&bus->slots[slot].asks, ~what) & what))
    return;
  BUSQ_STEP("tell");
  fifo_write_once(bus, fifo_slot_of(bus, slot));
}

void busq_wake_for_room_slow(const busq_bus *bus, uint32_t slot)
{
  busq_slot *reader = &bus->slots[slot];
  for (uint32_t waiters = waiters_wake(&reader->room_waiters, &reader->room_seq); waiters; waiters &= waiters - 1)
    for (uint32_t sender = (uint32_t)__builtin_ctz(waiters) - 1; sender < bus->geometry.peers; sender += BUSQ_WAITS_BITS)
      sender_tell(bus, sender, busq_asks_room(slot));
}

void busq_wake_owner_slow(const busq_bus *bus, uint32_t slot)
{
  busq_slot *owner = &bus->slots[slot];
  if (waiters_wake(&owner->memory_waits, &owner->memory_seq))
    sender_tell(bus, slot, BUSQ_ASKS_MEMORY);
}

void busq_wake_deep_sleepers(busq_bus *bus)
{
  for (uint32_t slot = 0; slot < bus->geometry.peers; slot++)
    if (busq_load_acquire(&bus->slots[slot].wake_flags) & BUSQ_WAKE_DEEP)
      fifo_write_once(bus, slot);
}

void busq_wake_for_memory(busq_bus *bus)
{
  busq_fence_full();
  for (uint32_t slot = 0; slot < bus->geometry.peers; slot++)
    busq_wake_owner(bus, slot);
}

void busq_wake_self(busq_peer *peer)
{
  uint32_t *const words[] = {&peer->inbox->wake_seq, &peer->self->memory_seq};
  for (unsigned i = 0; i < 2; i++) {
    (void)busq_fetch_add(words[i], 1);
    futex_wake_all(words[i]);
  }
}

void busq_wake_all(busq_bus *bus)
{
  for (uint32_t slot = 0; slot < bus->geometry.peers; slot++) {
    busq_slot *peer = &bus->slots[slot];
    uint32_t *const words[] = {&peer->wake_seq, &peer->room_seq, &peer->memory_seq};
    for (unsigned i = 0; i < 3; i++) {
      (void)busq_fetch_add(words[i], 1);
      futex_wake_all(words[i]);
    }
    if (busq_load_acquire(&peer->wake_flags) & ~BUSQ_WAKE_FUTEX)
      fifo_write_once(bus, slot);
  }
}

/* ---- waiting ---- */

enum {
  STAGE_SPIN,
  STAGE_YIELD,
  STAGE_SLEEP
};

#define FIRST_SLICE_NS UINT64_C(1000000)
#define ROOM_SLICE_NS FIRST_SLICE_NS /* behind a descriptor */

void busq_wait_begin(busq_wait *wait, int64_t timeout_ns)
{
  *wait = (busq_wait){.stage = STAGE_SPIN, .slice_ns = FIRST_SLICE_NS, .timeout_ns = timeout_ns};
}

void busq_wait_begin_spun(busq_wait *wait, int64_t timeout_ns)
{
  busq_wait_begin(wait, timeout_ns);
  wait->stage = STAGE_YIELD;
}

/* Since the clock was first asked. */
uint64_t busq_wait_spent_ns(busq_wait *wait)
{
  const uint64_t now_ns = busq_time_now_ns();
  if (!wait->began_ns)
    wait->began_ns = now_ns;
  return now_ns - wait->began_ns;
}

static uint64_t wait_left_ns(busq_wait *wait)
{
  if (wait->timeout_ns < 0)
    return UINT64_MAX;
  const uint64_t spent_ns = busq_wait_spent_ns(wait);
  return spent_ns < (uint64_t)wait->timeout_ns ? (uint64_t)wait->timeout_ns - spent_ns : 0;
}

bool busq_wait_is_over(busq_wait *wait)
{
  return !wait_left_ns(wait);
}

/* A yield that takes this long has let somebody else run. */
#define CROWDED_NS 3000u

/* The clock is asked after the first turn only: asking costs as much as a pause. */
bool busq_wait_spin(busq_wait *wait, const busq_peer *peer, const busq_watch *watch)
{
  enum { PAUSES = 8 };
  if (wait->stage != STAGE_SPIN)
    return false;
  const bool is_crowded = __atomic_load_n(&peer->is_crowded, __ATOMIC_RELAXED);
  if (!peer->spin_ns || is_crowded || (wait->has_spun && busq_wait_spent_ns(wait) >= peer->spin_ns)) {
    wait->stage = STAGE_YIELD;
    return false;
  }
  wait->has_spun = true;
  int left = watch ? PAUSES : 1;
  do
    busq_cpu_relax();
  while (--left && __atomic_load_n(watch->word, __ATOMIC_RELAXED) >> BUSQ_RING_LAP_SHIFT != watch->lap);
  return true;
}

bool busq_wait_yield(busq_wait *wait, busq_peer *peer)
{
  if (wait->stage == STAGE_SLEEP)
    return false;
  const uint64_t spent_ns = busq_wait_spent_ns(wait);
  if (spent_ns >= (uint64_t)peer->spin_ns + peer->yield_ns || busq_wait_is_over(wait)) {
    wait->stage = STAGE_SLEEP;
    return false;
  }
  sched_yield();
  const bool was_long = busq_wait_spent_ns(wait) - spent_ns > CROWDED_NS;
  if (was_long != __atomic_load_n(&peer->is_crowded, __ATOMIC_RELAXED))
    __atomic_store_n(&peer->is_crowded, was_long, __ATOMIC_RELAXED);
  return true;
}

int busq_wait_sleep(busq_wait *wait, uint32_t *word, uint32_t value, uint64_t limit_ns)
{
  const uint64_t left_ns = wait_left_ns(wait);
  if (!left_ns)
    return BUSQ_EMPTY;
  uint64_t slice_ns = wait->slice_ns < limit_ns ? wait->slice_ns : limit_ns;
  if (slice_ns > left_ns)
    slice_ns = left_ns;
  const int number = futex_wait_slice(word, value, slice_ns);
  if (number == EINTR)
    return BUSQ_INTERRUPTED;
  if (number != ETIMEDOUT || slice_ns == limit_ns)
    return BUSQ_OK;
  /* Twice as long next time, up to a slice: what a killed waker costs is in proportion to what was waited already. */
  if (wait->slice_ns >= BUSQ_SLICE_NS)
    return busq_wait_is_over(wait) ? BUSQ_EMPTY : BUSQ_INTERRUPTED;
  wait->slice_ns *= 2;
  if (wait->slice_ns > BUSQ_SLICE_NS)
    wait->slice_ns = BUSQ_SLICE_NS;
  return BUSQ_OK;
}

/* ---- the FIFO ---- */

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

/* That of a shared queue is made by whoever asks for it first, and is the same for all of its readers. */
static int fifo_make_shared(const busq_peer *peer, char *name, size_t bytes)
{
  busq_slot *inbox = peer->inbox;
  if (!busq_load_acquire(&inbox->fifo))
    (void)busq_cas64(&inbox->fifo, 0, busq_beside_draw());
  fifo_name(peer->bus, peer->inbox_slot, (uint32_t)(busq_load_acquire(&inbox->life) >> 32), busq_load_acquire(&inbox->fifo), name, bytes);
  if (mkfifoat(peer->bus->directory_fd, name, peer->bus->header->permissions & 0660) == 0 || errno == EEXIST)
    return BUSQ_OK;
  return busq_error_system("can't make the FIFO behind fileno() beside bus \"%s\", as user %u", peer->bus->name, geteuid());
}

/* The name is told before there is anything of that name: killed in between, whoever buries us finds what we have made. */
static int fifo_make(busq_peer *peer, char *name, size_t bytes)
{
  enum { TRIES = 16 };
  const mode_t mode = peer->bus->header->permissions & 0660;
  int result = -1;
  errno = EEXIST;
  for (int i = 0; i < TRIES && result < 0 && errno == EEXIST; i++) {
    const uint64_t fifo = busq_beside_draw();
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
  const int result = peer->is_consumer ? fifo_make_shared(peer, name, sizeof name) : fifo_make(peer, name, sizeof name);
  if (result)
    return result;
  /* Open for both directions, so that it never reads as ended while no sender has it open. */
  peer->fifo_fd = openat(peer->bus->directory_fd, name, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
  if (peer->fifo_fd < 0)
    return busq_error_system("can't open the FIFO behind fileno()");
  (void)fchmod(peer->fifo_fd, peer->bus->header->permissions & 0660); /* the umask may have taken something away */
  if (!fifo_is_sound(peer->bus, peer->fifo_fd))
    return busq_error(BUSQ_DENIED, "%s, the FIFO behind fileno() of bus \"%s\", was replaced by something else: nobody but user %u should be able to change its directory",
                      name, peer->bus->name, geteuid());
  return BUSQ_OK;
}

int busq_fifo_open(busq_peer *peer)
{
  if (peer->poll_fd >= 0)
    return BUSQ_OK;
  busq_fifo_stir(peer);
  peer->room_slice_ns = ROOM_SLICE_NS;
  int result = fifo_begin(peer);
  /* A sender that was stopped half-way through signalling a predecessor in this slot must not take down our flag by its swap: the
   * numbers of our armings begin somewhere else. */
  peer->fifo_epoch = (uint32_t)busq_load_relaxed(&peer->inbox->fifo) & (UINT32_MAX >> 1);
  if (!result && (peer->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) < 0)
    result = busq_error_system("can't make the timer behind fileno()");
  if (!result && (peer->poll_fd = epoll_create1(EPOLL_CLOEXEC)) < 0)
    result = busq_error_system("can't make the descriptor behind fileno()");
  const int inner[] = {peer->fifo_fd, peer->timer_fd};
  for (unsigned i = 0; i < 2 && !result; i++) {
    struct epoll_event event = {.events = EPOLLIN};
    if (epoll_ctl(peer->poll_fd, EPOLL_CTL_ADD, inner[i], &event) < 0)
      result = busq_error_system("can't fill the descriptor behind fileno()");
  }
  if (result)
    busq_fifo_close(peer);
  return result;
}

void busq_fifo_close(busq_peer *peer)
{
  int *const descriptors[] = {&peer->poll_fd, &peer->timer_fd, &peer->fifo_fd};
  if (!peer->is_consumer)
    busq_fifo_unlink(peer->bus, peer->slot, peer->incarnation);
  for (unsigned i = 0; i < 3; i++) {
    if (*descriptors[i] >= 0)
      close(*descriptors[i]);
    *descriptors[i] = -1;
  }
}

static bool fifo_is_deep(const busq_peer *peer)
{
  return (peer->fifo_epoch << 1 & BUSQ_WAKE_DEEP) != 0;
}

bool busq_fifo_may_deepen(const busq_peer *peer)
{
  return peer->naps >= BUSQ_NAPS && !fifo_is_deep(peer) && !busq_load_relaxed(&peer->cares);
}

/* How long to sleep where nothing is in the queue: deeply, twice as long as the last time. */
static uint64_t fifo_sleep_ns(busq_peer *peer, uint64_t now_ns)
{
  const bool was_in_vain = peer->timer_due_ns && now_ns >= peer->timer_due_ns;
  if (peer->naps < BUSQ_NAPS)
    peer->naps += was_in_vain;
  else if (was_in_vain && peer->was_deep)
    peer->net_ns = 2 * peer->net_ns < BUSQ_NET_NS ? 2 * peer->net_ns : BUSQ_NET_NS;
  return fifo_is_deep(peer) ? peer->net_ns : BUSQ_SLICE_NS;
}

void busq_fifo_stir(busq_peer *peer)
{
  peer->naps = 0;
  peer->net_ns = BUSQ_NAPS * BUSQ_SLICE_NS;
}

/* Setting a timer anew also makes it unreadable. */
void busq_fifo_look_again(busq_peer *peer, uint64_t in_ns)
{
  const uint64_t now_ns = busq_time_now_ns();
  const uint32_t failed = busq_load_relaxed(&peer->inbox->fifo_failed);
  /* Of several readers each looks for the others, should they die. */
  const bool may_sleep = in_ns == UINT64_MAX && !peer->is_consumer && !busq_load_relaxed(&peer->cares) &&
                         (!failed || failed != (uint32_t)busq_load_relaxed(&peer->inbox->fifo));
  if (!may_sleep)
    busq_fifo_stir(peer);
  const uint64_t limit_ns = may_sleep ? fifo_sleep_ns(peer, now_ns) : BUSQ_SLICE_NS;
  const uint64_t due_ns = now_ns + (in_ns < limit_ns ? in_ns : limit_ns);
  if (now_ns < peer->timer_due_ns && peer->timer_due_ns <= due_ns)
    return;
  peer->was_deep = may_sleep && fifo_is_deep(peer);
  const struct itimerspec when = {
      .it_value = {.tv_sec = (time_t)(due_ns / 1000000000u), .tv_nsec = (long)(due_ns % 1000000000u)}};
  (void)timerfd_settime(peer->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
  peer->timer_due_ns = due_ns;
}

void busq_fifo_hush(busq_peer *peer)
{
  uint64_t expirations;
  peer->listens = BUSQ_LISTEN_NOT;
  (void)!read(peer->timer_fd, &expirations, sizeof expirations);
  if (peer->is_consumer) /* flag and FIFO are those of others, too */
    return;
  (void)busq_fetch_and(&peer->self->wake_flags, BUSQ_WAKE_FUTEX);
  (void)busq_fifo_drain(peer);
  peer->fifo_is_raised = false;
}

/* ---- room ---- */

static uint64_t room_of(uint32_t slot)
{
  return slot == BUSQ_RING_NOBODY ? BUSQ_ASKS_MEMORY : busq_asks_room(slot);
}

void busq_room_ask(busq_peer *peer, uint32_t slot)
{
  const uint64_t what = room_of(slot);
  uint32_t *flag = slot == BUSQ_RING_NOBODY ? &peer->self->memory_waits : &peer->bus->slots[slot].room_waiters;
  peer->asked |= what;
  /* SYNC POINT asks: our bit stands before anybody can be told to look for it. */
  (void)busq_fetch_or(&peer->self->asks, what);
  BUSQ_STEP("ask");
  (void)busq_fetch_or(flag, busq_waits_bit(peer->slot));
  BUSQ_STEP("ask");
  busq_fence_full();
}

void busq_room_come(busq_peer *peer, uint32_t slot)
{
  (void)busq_fetch_and(&peer->self->asks, ~room_of(slot));
}

bool busq_room_has_come(const busq_peer *peer)
{
  return (peer->asked & ~busq_load_acquire(&peer->self->asks)) != 0;
}

/* A wait in vain is followed by one twice as long. */
void busq_room_forget(busq_peer *peer)
{
  if (peer->asked && !busq_room_has_come(peer))
    peer->room_slice_ns = 2 * peer->room_slice_ns < BUSQ_SLICE_NS ? 2 * peer->room_slice_ns : BUSQ_SLICE_NS;
  else
    peer->room_slice_ns = ROOM_SLICE_NS;
  peer->asked = 0;
  busq_store_relaxed(&peer->self->asks, 0);
}

bool busq_fifo_drain(busq_peer *peer)
{
  char bytes[256];
  bool some = false;
  ssize_t count;
  do {
    count = read(peer->fifo_fd, bytes, sizeof bytes);
    some |= count > 0;
  } while (count == sizeof bytes);
  return some;
}

void busq_fifo_arm(busq_peer *peer)
{
  const uint32_t is_deep = peer->naps >= BUSQ_NAPS;
  (void)busq_fifo_drain(peer);
  /* The next number of this parity that is not 0.  Of several readers no two have the same. */
  if (peer->is_consumer)
    peer->fifo_epoch = (uint32_t)busq_load_relaxed(&peer->inbox->fifo) + busq_fetch_add(&peer->inbox->armings, 2);
  peer->fifo_epoch = ((peer->fifo_epoch & ~1u) + 2) & (UINT32_MAX >> 1);
  peer->fifo_epoch = (peer->fifo_epoch ? peer->fifo_epoch : 2) | is_deep;
  uint32_t seen;
  do
    seen = busq_load_relaxed(&peer->inbox->wake_flags);
  while (!busq_cas32(&peer->inbox->wake_flags, seen, peer->fifo_epoch << 1 | (seen & 1u)));
  busq_fence_full();
}

void busq_fifo_raise(busq_peer *peer)
{
  if (write(peer->fifo_fd, "", 1) < 0) {
    /* Full of bytes is as readable as one byte. */
  }
}
