/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_TESTS_EXPLORE_SYSTEM_H
#define BUSQ_TESTS_EXPLORE_SYSTEM_H
/*
 * What the core asks of the system, played: several processes live in this one, and what the kernel knows of them
 * lies in memory that a search can put back.
 *
 *   byte locks     a table; a process that is killed loses those that its descriptors hold
 *   futexes        a waiter sleeps until it is woken, or loses patience, which is when the slice has passed
 *   time           stands still but for slices that pass
 *   memory         comes from the part that belongs to the process whose turn it is
 *   a full disk    refuses to reserve so many bytes at once, as often as a scene wants it to
 *
 * The linker leads the calls here (-Wl,--wrap); as long as no process is on, they go on to the system.
 */
#include "base/atomic.h"
#include "harness/check.h"
#include "explore/explore.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/syscall.h>

#define SYSTEM_PROCESSES_MAX 6u /* the last one is an undertaker's, which comes when all is over */
#define SYSTEM_LOCKS_MAX 32u
#define SYSTEM_HEAP_BYTES (20u << 10)       /* enough for two peers, one after the other */
#define SYSTEM_HEAP_BYTES_OF_ONE (13u << 10)
#define SYSTEM_FD_FIRST 1000
#define SYSTEM_FDS_MAX 10 /* so that those of all processes have a bit each */
#define SYSTEM_STATE_BYTES 64u

typedef struct {
  int64_t byte;
  uint64_t holder;  /* alone: descriptor + 1, or 0 */
  uint64_t sharers; /* a bit for each descriptor that holds it with others */
} system_lock;

typedef struct {
  _Alignas(64) uint64_t now_ns;
  uint32_t fds; /* a bit for each that is open */
  char state[SYSTEM_STATE_BYTES]; /* the core's BUSQ_PROCESS_STATE */
  uint64_t heap_used;
  _Alignas(128) char heap[SYSTEM_HEAP_BYTES];
} system_process;

static _Alignas(64) system_lock system_locks[SYSTEM_LOCKS_MAX];
static system_process system_processes[SYSTEM_PROCESSES_MAX];
static system_process *system_now; /* NULL: none is on */
static struct {
  _Alignas(64) uint64_t bytes; /* that are refused; 0: none */
  uint64_t times;              /* still */
} system_disk;
static size_t system_heap_bytes = SYSTEM_HEAP_BYTES; /* of it that are watched, and so may be used */

extern char __start_busq_process[] __attribute__((weak));
extern char __stop_busq_process[] __attribute__((weak));

static void system_enter(uint32_t process)
{
  const size_t bytes = (size_t)(__stop_busq_process - __start_busq_process);
  CHECK(bytes <= SYSTEM_STATE_BYTES);
  system_now = &system_processes[process];
  memcpy(__start_busq_process, system_now->state, bytes);
}

static void system_leave(void)
{
  memcpy(system_now->state, __start_busq_process, (size_t)(__stop_busq_process - __start_busq_process));
  system_now = NULL;
}

static void system_announce(busq_access access, void *address, size_t bytes)
{
  if (busq_access_hook)
    busq_access_hook(access, address, bytes);
}

/* ---- descriptors and locks ---- */

static system_lock *system_lock_of(int64_t byte)
{
  for (uint32_t i = 0; i < SYSTEM_LOCKS_MAX; i++) {
    if (!system_locks[i].byte)
      system_locks[i].byte = byte;
    if (system_locks[i].byte == byte)
      return &system_locks[i];
  }
  check_fail(__FILE__, __LINE__, "more byte locks than are played");
}

static uint64_t system_sharer(int fd)
{
  return UINT64_C(1) << (fd - SYSTEM_FD_FIRST);
}

static bool system_holds(const system_lock *lock, int fd)
{
  return lock->holder == (uint64_t)fd + 1 || (lock->sharers & system_sharer(fd));
}

static void system_drop(system_lock *lock, int fd)
{
  if (lock->holder == (uint64_t)fd + 1)
    lock->holder = 0;
  lock->sharers &= ~system_sharer(fd);
}

/* All that a descriptor holds of so many bytes; 0: to the end. */
static void system_unlock_from(int fd, int64_t byte, int64_t bytes)
{
  for (uint32_t i = 0; i < SYSTEM_LOCKS_MAX; i++) {
    system_lock *lock = &system_locks[i];
    if (!system_holds(lock, fd) || lock->byte < byte || (bytes && lock->byte >= byte + bytes))
      continue;
    system_announce(BUSQ_ACCESS_STORE, &lock->holder, sizeof lock->holder);
    system_drop(lock, fd);
  }
}

/* Sharing what is held alone, and the other way round, is one step. */
static int system_lock_set(system_lock *lock, int fd, short type)
{
  const bool is_others = (lock->holder && lock->holder != (uint64_t)fd + 1) ||
                         (type == F_WRLCK && (lock->sharers & ~system_sharer(fd)));
  if (type == F_UNLCK || !is_others)
    system_drop(lock, fd);
  if (type == F_UNLCK)
    return 0;
  if (is_others) {
    errno = EAGAIN;
    return -1;
  }
  if (type == F_WRLCK)
    lock->holder = (uint64_t)fd + 1;
  else
    lock->sharers |= system_sharer(fd);
  return 0;
}

static int system_lock_ask(int fd, int command, struct flock *wanted)
{
  if (wanted->l_len != 1) {
    CHECK(wanted->l_type == F_UNLCK);
    system_unlock_from(fd, wanted->l_start, wanted->l_len);
    return 0;
  }
  system_lock *lock = system_lock_of(wanted->l_start);
  system_announce(command == F_OFD_GETLK ? BUSQ_ACCESS_LOAD : BUSQ_ACCESS_SWAP, &lock->holder, sizeof lock->holder);
  if (command == F_OFD_SETLK)
    return system_lock_set(lock, fd, wanted->l_type);
  /* The one that asks has a descriptor for it that holds nothing. */
  if (!lock->holder && !lock->sharers)
    wanted->l_type = F_UNLCK;
  return 0;
}

static int system_open(void)
{
  const uint32_t k = (uint32_t)__builtin_ctz(~system_now->fds);
  CHECK(k < SYSTEM_FDS_MAX);
  system_now->fds |= 1u << k;
  return SYSTEM_FD_FIRST + (int)(system_now - system_processes) * SYSTEM_FDS_MAX + (int)k;
}

static void system_close(int fd, bool is_announced)
{
  const uint32_t process = (uint32_t)(fd - SYSTEM_FD_FIRST) / SYSTEM_FDS_MAX;
  for (uint32_t i = 0; i < SYSTEM_LOCKS_MAX; i++) {
    if (!system_holds(&system_locks[i], fd))
      continue;
    if (is_announced)
      system_announce(BUSQ_ACCESS_STORE, &system_locks[i].holder, sizeof system_locks[i].holder);
    system_drop(&system_locks[i], fd);
  }
  system_processes[process].fds &= ~(1u << ((uint32_t)(fd - SYSTEM_FD_FIRST) % SYSTEM_FDS_MAX));
}

/* The end of a process: the kernel closes what it had open. */
static void system_kill(uint32_t process)
{
  for (uint32_t k = 0; k < SYSTEM_FDS_MAX; k++)
    system_close(SYSTEM_FD_FIRST + (int)(process * SYSTEM_FDS_MAX + k), false);
  memset(&system_processes[process], 0, sizeof system_processes[process]);
}

/* By what others find out whether a process lives: the lock that the descriptor holds, of the lowest byte. */
static const void *system_life_of(int fd)
{
  const system_lock *life = NULL;
  for (uint32_t i = 0; i < SYSTEM_LOCKS_MAX; i++)
    if (system_locks[i].holder == (uint64_t)fd + 1 && (!life || system_locks[i].byte < life->byte))
      life = &system_locks[i];
  CHECK(life);
  return &life->holder;
}

/* ---- the calls ---- */

int __real_fcntl(int fd, int command, ...);
int __real_open(const char *path, int flags, ...);
int __real_close(int fd);
int __real_fallocate(int fd, int mode, off_t begin, off_t bytes);
long __real_syscall(long number, ...);
int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __real_sched_yield(void);
int __real_unlinkat(int directory, const char *path, int flags);
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void __real_free(void *memory);
int __real_posix_memalign(void **memory, size_t alignment, size_t bytes);

int __wrap_fcntl(int fd, int command, void *argument);
int __wrap_fcntl(int fd, int command, void *argument)
{
  if (system_now && (command == F_OFD_SETLK || command == F_OFD_GETLK))
    return system_lock_ask(fd, command, argument);
  return __real_fcntl(fd, command, argument);
}

int __wrap_open(const char *path, int flags, unsigned mode);
int __wrap_open(const char *path, int flags, unsigned mode)
{
  if (system_now && strncmp(path, "/proc/self/fd/", 14) == 0)
    return system_open();
  return __real_open(path, flags, mode);
}

int __wrap_close(int fd);
int __wrap_close(int fd)
{
  if (fd < SYSTEM_FD_FIRST || !system_now)
    return __real_close(fd);
  system_close(fd, true);
  return 0;
}

static int system_reserve(int fd, int mode, off_t begin, off_t bytes)
{
  if (!system_now || (uint64_t)bytes != system_disk.bytes)
    return __real_fallocate(fd, mode, begin, bytes);
  const uint64_t times = busq_load_relaxed(&system_disk.times);
  if (times == 0)
    return 0;
  if (times != UINT64_MAX)
    busq_store_relaxed(&system_disk.times, times - 1);
  errno = ENOSPC;
  return -1;
}

int __wrap_fallocate(int fd, int mode, off_t begin, off_t bytes);
int __wrap_fallocate(int fd, int mode, off_t begin, off_t bytes)
{
  return system_reserve(fd, mode, begin, bytes);
}

int __wrap_fallocate64(int fd, int mode, off_t begin, off_t bytes);
int __wrap_fallocate64(int fd, int mode, off_t begin, off_t bytes)
{
  return system_reserve(fd, mode, begin, bytes);
}

static long system_futex(uint32_t *word, long operation, uint32_t value, const struct timespec *slice)
{
  system_announce(operation == FUTEX_WAIT ? BUSQ_ACCESS_LOAD : BUSQ_ACCESS_OR, word, sizeof *word);
  if (operation == FUTEX_WAKE) {
    busq_explore_wake(word);
    return 0;
  }
  if (*word != value) {
    errno = EAGAIN;
    return -1;
  }
  if (busq_explore_sleep(word))
    return 0;
  system_now->now_ns += (uint64_t)slice->tv_sec * 1000000000u + (uint64_t)slice->tv_nsec;
  errno = ETIMEDOUT;
  return -1;
}

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
  if (system_now && number == SYS_futex)
    return system_futex((uint32_t *)a, b, (uint32_t)c, (const struct timespec *)d);
  return __real_syscall(number, a, b, c, d, e, f);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
  if (!system_now)
    return __real_clock_gettime(clock, now);
  const uint64_t ns = UINT64_C(1000000000) + system_now->now_ns;
  *now = (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
  return 0;
}

int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
  if (system_now)
    check_fail(__FILE__, __LINE__, "two threads of a peer compete for a latch, which the search does not see");
  return __real_sched_yield();
}

int __wrap_unlinkat(int directory, const char *path, int flags);
int __wrap_unlinkat(int directory, const char *path, int flags)
{
  return system_now ? 0 : __real_unlinkat(directory, path, flags);
}

/* ---- memory: used again only where it was the last, so that equal histories have equal addresses ---- */

static void *system_allocate(size_t bytes, size_t alignment)
{
  const uint64_t begin = BUSQ_ALIGN_UP(system_now->heap_used + sizeof(uint64_t), alignment);
  if (begin + bytes > system_heap_bytes)
    check_fail(__FILE__, __LINE__, "a process wants more memory than is played");
  memcpy(system_now->heap + begin - sizeof(uint64_t), &(uint64_t){bytes}, sizeof(uint64_t));
  system_now->heap_used = begin + bytes;
  return system_now->heap + begin;
}

static bool system_has(const void *memory)
{
  return (uintptr_t)memory - (uintptr_t)system_processes < sizeof system_processes;
}

/* The last one leaves nothing behind that would make equal states look different. */
static void system_give_back(void *memory)
{
  const uint64_t begin = (uint64_t)((char *)memory - system_now->heap);
  uint64_t bytes;
  if ((uintptr_t)memory - (uintptr_t)system_now->heap >= sizeof system_now->heap)
    return;
  memcpy(&bytes, (char *)memory - sizeof bytes, sizeof bytes);
  if (begin + bytes != system_now->heap_used)
    return;
  system_now->heap_used = begin - sizeof bytes;
  memset((char *)memory - sizeof bytes, 0, sizeof bytes + bytes);
}

void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
  return system_now ? system_allocate(bytes, 16) : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
  return system_now ? system_allocate(count * bytes, 16) : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes)
{
  uint64_t before = 0;
  if (!system_now && !system_has(memory))
    return __real_realloc(memory, bytes);
  CHECK(system_now);
  if (memory)
    memcpy(&before, (char *)memory - sizeof before, sizeof before);
  void *grown = system_allocate(bytes, 16);
  if (before)
    memcpy(grown, memory, before < bytes ? before : bytes);
  return grown;
}

void __wrap_free(void *memory);
void __wrap_free(void *memory)
{
  if (!system_has(memory))
    __real_free(memory);
  else if (system_now)
    system_give_back(memory);
}

int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes)
{
  if (!system_now)
    return __real_posix_memalign(memory, alignment, bytes);
  *memory = system_allocate(bytes, alignment);
  return 0;
}

#endif /* BUSQ_TESTS_EXPLORE_SYSTEM_H */
