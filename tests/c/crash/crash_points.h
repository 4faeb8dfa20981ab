/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_TESTS_CRASH_POINTS_H
#define BUSQ_TESTS_CRASH_POINTS_H
/*
 * The points at which a process is killed or stopped.
 *
 * Guarantee: between two points that follow each other a process does not change what others can see, nor look at it.
 *  There are two kinds:
 *
 *      store    before every instruction that writes to the segment, whatever it belongs to: an atomic, a plain
 *               assignment, memcpy.  The segment is mapped read-only while its process is armed; the fault is the
 *               point, and then the one instruction is let through by stepping over it (x86-64; elsewhere only what
 *               goes through base/atomic.h)
 *      access   the same, and before every load through base/atomic.h: a process stopped there may find something
 *               else when it goes on.  For a killed one there is no difference
 *
 * System calls of the core are points too, since locks and FIFOs are seen by others, and so is the end.
 *
 * Not given: plain loads as points; and stores into the middle of a large payload, which no process looks at before the
 * record's state allows it, are none.
 */
#include "base/atomic.h"
#include "shm/memory/peer.h"
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#ifdef __x86_64__
#define POINTS_HAVE_STORES 1
#else
#define POINTS_HAVE_STORES 0
#endif

typedef enum {
  POINTS_STORE,
  POINTS_ACCESS
} points_kind;

static struct {
  bool is_armed;
  points_kind kind;
  const busq_bus *bus;
  void (*reached)(const char *where);
} watch;

/* ---- where it is ---- */

static const char *slot_field(uint64_t offset)
{
  static const struct {
    size_t begin;
    const char *name;
  } fields[] = {
      {offsetof(busq_slot, queue.clock_tail), "clock and tail"}, {offsetof(busq_slot, queue.head), "head"},
      {offsetof(busq_slot, queue.backing), "backing"},
      {offsetof(busq_slot, life), "life"},                       {offsetof(busq_slot, wake_seq), "wake_seq"},
      {offsetof(busq_slot, wake_flags), "wake_flags"},           {offsetof(busq_slot, room_seq), "room_seq"},
      {offsetof(busq_slot, room_waiters), "room_waiters"},       {offsetof(busq_slot, memory_seq), "memory_seq"},
      {offsetof(busq_slot, memory_waits), "memory_waits"},       {offsetof(busq_slot, asks), "asks"},
      {offsetof(busq_slot, sequence_reserved), "sequence"},
      {offsetof(busq_slot, sent), "sent"},                       {offsetof(busq_slot, late), "late"},
      {offsetof(busq_slot, received), "received"},               {offsetof(busq_slot, joined_ns), "joined_ns"},
      {offsetof(busq_slot, pid), "pid"},                         {offsetof(busq_slot, name_bytes), "name_bytes"},
      {offsetof(busq_slot, name), "name"},
  };
  const char *name = "?";
  for (unsigned i = 0; i < sizeof fields / sizeof fields[0]; i++)
    if (offset >= fields[i].begin)
      name = fields[i].name;
  return name;
}

/* An address in the segment, in words. */
static void point_describe(char *text, size_t room, const char *verb, const void *address)
{
  const busq_geometry *geometry = &watch.bus->geometry;
  const uint64_t offset = (uint64_t)((const char *)address - watch.bus->base);
  if (offset < geometry->peers_offset) {
    snprintf(text, room, "%s header+%llu", verb, (unsigned long long)offset);
  } else if (offset < geometry->rings_offset) {
    const uint64_t at = offset - geometry->peers_offset;
    snprintf(text, room, "%s slot %llu %s", verb, (unsigned long long)(at / sizeof(busq_slot)),
             slot_field(at % sizeof(busq_slot)));
  } else if (offset < geometry->table_offset) {
    const uint64_t at = (offset - geometry->rings_offset) / sizeof(busq_pair);
    snprintf(text, room, "%s ring %llu [%llu]", verb, (unsigned long long)(at / geometry->slot_count),
             (unsigned long long)(at % geometry->slot_count));
  } else if (offset < geometry->reply_places_offset) {
    const uint64_t at = offset - geometry->table_offset;
    snprintf(text, room, "%s extent %llu %s", verb, (unsigned long long)(at / sizeof(busq_extent)),
             at % sizeof(busq_extent) < offsetof(busq_extent, length) ? "word" : "length");
  } else if (offset < geometry->arena_offset) {
    const uint64_t at = offset - geometry->reply_places_offset;
    snprintf(text, room, "%s reply places %llu [%llu]", verb, (unsigned long long)(at / geometry->reply_places_bytes),
             (unsigned long long)(at % geometry->reply_places_bytes / sizeof(busq_reply_place)));
  } else {
    const uint64_t at = offset - geometry->arena_offset;
    snprintf(text, room, "%s arena extent %llu+%llu", verb, (unsigned long long)(at / geometry->extent_bytes),
             (unsigned long long)(at % geometry->extent_bytes));
  }
}

static bool is_in_segment(const void *address)
{
  const uint64_t offset = (uint64_t)((const char *)address - watch.bus->base);
  return watch.bus->base && offset < watch.bus->geometry.segment_bytes;
}

/* ---- accesses and system calls ---- */

#ifdef BUSQ_ACCESS
/* Latches are private memory. */
static void points_access(busq_access access, const volatile void *address, size_t bytes)
{
  const bool is_load = access == BUSQ_ACCESS_LOAD;
  char where[96];
  (void)bytes;
  if (!watch.is_armed || !is_in_segment((const void *)(uintptr_t)address) ||
      (is_load ? watch.kind != POINTS_ACCESS : POINTS_HAVE_STORES))
    return;
  point_describe(where, sizeof where, is_load ? "load" : "store", (const void *)(uintptr_t)address);
  watch.reached(where);
}
#else
static void points_step(const char *where)
{
  if (watch.is_armed && (watch.kind == POINTS_ACCESS || !POINTS_HAVE_STORES))
    watch.reached(where);
}
#endif

static void points_system_call(const char *name)
{
  if (watch.is_armed)
    watch.reached(name);
}

/* The linker leads the core's calls here (--wrap). */
#define POINTS_WRAP(result, name, parameters, arguments) \
  result __real_##name parameters;                       \
  result __wrap_##name parameters;                       \
  result __wrap_##name parameters                        \
  {                                                      \
    points_system_call(#name);                           \
    return __real_##name arguments;                      \
  }

POINTS_WRAP(int, unlinkat, (int fd, const char *path, int flags), (fd, path, flags))
POINTS_WRAP(int, mkfifoat, (int fd, const char *path, mode_t mode), (fd, path, mode))
POINTS_WRAP(int, close, (int fd), (fd))
POINTS_WRAP(ssize_t, write, (int fd, const void *bytes, size_t count), (fd, bytes, count))
POINTS_WRAP(int, fcntl, (int fd, int command, void *argument), (fd, command, argument))
POINTS_WRAP(int, fcntl64, (int fd, int command, void *argument), (fd, command, argument))

/* Shared by all: there is no memory for so many bytes at once, which are what a short ring needs to become whole. */
static const uint64_t *points_refused_bytes;

#define POINTS_WRAP_RESERVE(name)                                                                           \
  int __real_##name(int fd, int mode, off64_t begin, off64_t bytes);                                        \
  int __wrap_##name(int fd, int mode, off64_t begin, off64_t bytes);                                        \
  int __wrap_##name(int fd, int mode, off64_t begin, off64_t bytes)                                         \
  {                                                                                                         \
    points_system_call(#name);                                                                              \
    if (points_refused_bytes && __atomic_load_n(points_refused_bytes, __ATOMIC_RELAXED) == (uint64_t)bytes) { \
      errno = ENOSPC;                                                                                       \
      return -1;                                                                                            \
    }                                                                                                       \
    return __real_##name(fd, mode, begin, bytes);                                                           \
  }

POINTS_WRAP_RESERVE(fallocate)
POINTS_WRAP_RESERVE(fallocate64)
POINTS_WRAP(long, syscall, (long number, long a, long b, long c, long d, long e, long f), (number, a, b, c, d, e, f))

/* ---- stores ---- */

#if POINTS_HAVE_STORES

#define TRAP_FLAG 0x100

static void segment_protect(int protection)
{
  if (mprotect(watch.bus->base, watch.bus->geometry.segment_bytes, protection) != 0)
    _exit(3);
}

/* Behind the beginning of a payload: records begin at multiples of half an extent, or are small. */
static bool is_in_a_payload(const void *address)
{
  const busq_geometry *geometry = &watch.bus->geometry;
  const uint64_t offset = (uint64_t)((const char *)address - watch.bus->base);
  return offset >= geometry->arena_offset && (offset - geometry->arena_offset) % (geometry->extent_bytes / 2) >= 1024;
}

/* A large copy is one instruction that would be stepped over byte by byte: done in its place. */
static bool copy_whole(greg_t *registers)
{
  const unsigned char *next = (const unsigned char *)registers[REG_RIP];
  if (next[0] != 0xf3 || next[1] != 0xa4)
    return false;
  const uint64_t count = (uint64_t)registers[REG_RCX];
  memcpy((void *)registers[REG_RDI], (const void *)registers[REG_RSI], count);
  registers[REG_RDI] += (greg_t)count;
  registers[REG_RSI] += (greg_t)count;
  registers[REG_RCX] = 0;
  registers[REG_RIP] += 2;
  return true;
}

static void store_faulted(int number, siginfo_t *info, void *context)
{
  ucontext_t *user = context;
  if (!watch.bus || !is_in_segment(info->si_addr) || info->si_code != SEGV_ACCERR) {
    signal(number, SIG_DFL); /* a fault of its own: it comes again */
    return;
  }
  if (watch.is_armed && !is_in_a_payload(info->si_addr)) {
    char where[96];
    point_describe(where, sizeof where, "store", info->si_addr);
    watch.reached(where);
  }
  segment_protect(PROT_READ | PROT_WRITE);
  if (copy_whole(user->uc_mcontext.gregs))
    segment_protect(PROT_READ);
  else
    user->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

static void store_done(int number, siginfo_t *info, void *context)
{
  ucontext_t *user = context;
  const unsigned char *next = (const unsigned char *)user->uc_mcontext.gregs[REG_RIP];
  (void)number;
  (void)info;
  /* movs and stos with a repeat prefix, and perhaps one for 64 bits */
  const unsigned char operation = next[(next[1] & 0xf0) == 0x40 ? 2 : 1];
  if (next[0] == 0xf3 && (operation == 0xa4 || operation == 0xa5 || operation == 0xaa || operation == 0xab))
    return; /* in the middle of a copy that is one instruction */
  user->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
  if (watch.is_armed)
    segment_protect(PROT_READ);
}

static void points_watch_stores(void)
{
  struct sigaction action = {.sa_flags = SA_SIGINFO | SA_NODEFER};
  sigemptyset(&action.sa_mask);
  action.sa_sigaction = store_faulted;
  sigaction(SIGSEGV, &action, NULL);
  action.sa_sigaction = store_done;
  sigaction(SIGTRAP, &action, NULL);
  segment_protect(PROT_READ);
}

#else

static void segment_protect(int protection)
{
  (void)protection;
}

static void points_watch_stores(void)
{
}

#endif

static void points_arm(points_kind kind, const busq_bus *bus, void (*reached)(const char *where))
{
  watch.kind = kind;
  watch.bus = bus;
  watch.reached = reached;
  watch.is_armed = true;
#ifdef BUSQ_ACCESS
  busq_access_hook = points_access;
#else
  busq_step_hook = points_step;
#endif
  points_watch_stores();
}

static void points_disarm(void)
{
  if (!watch.is_armed)
    return;
  watch.reached("the end");
  watch.is_armed = false;
  segment_protect(PROT_READ | PROT_WRITE);
}

#endif /* BUSQ_TESTS_CRASH_POINTS_H */
