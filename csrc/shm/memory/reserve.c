/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/memory/reserve.h"
#include "base/assert.h"
#include "base/error.h"
#include "shm/memory/extent.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define EXTENTS_AT_ONCE UINT64_C(1024)

#ifdef BUSQ_STEPS
uint32_t busq_slots_at_once = 32;
#endif

/* An errno, or 0.  Behind a signal mask: kernels before 6.18 give up and undo the call where a signal comes, and one
 * that comes again and again, like a profiler's, would have it begin for ever. */
static int quietly(int (*call)(int fd, off_t begin, off_t bytes), int fd, uint64_t begin, uint64_t bytes)
{
  sigset_t all, before;
  int number;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  do
    number = call(fd, (off_t)begin, (off_t)bytes);
  while (number == EINTR);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return number;
}

static int range_allocate(int fd, off_t begin, off_t bytes)
{
  return fallocate(fd, 0, begin, bytes) == 0 ? 0 : errno;
}

/* An errno where there is no memory.  Where the file system can't reserve, all was reserved at creation. */
static int range_reserve(const busq_bus *bus, uint64_t begin, uint64_t bytes)
{
  const int number = quietly(range_allocate, bus->fd, begin, bytes);
  return number == EOPNOTSUPP ? 0 : number;
}

static int all_reserve(const busq_bus *bus)
{
  const busq_geometry *geometry = &bus->geometry;
  const int number = quietly(posix_fallocate, bus->fd, 0, geometry->reply_places_offset);
  return number ? number
                : quietly(posix_fallocate, bus->fd, geometry->arena_offset,
                          busq_geometry_arena_end(geometry) - geometry->arena_offset);
}

static int tables_reserve(const busq_bus *bus)
{
  const busq_geometry *geometry = &bus->geometry;
  const uint64_t slots_end = geometry->peers_offset + busq_reserve_first_slots(geometry) * sizeof(busq_slot);
  const int number = quietly(range_allocate, bus->fd, 0, slots_end);
  if (number)
    return number == EOPNOTSUPP ? all_reserve(bus) : number;
  const uint64_t reached = geometry->table_offset + busq_reserve_first_reach(geometry) * sizeof(busq_extent);
  const uint64_t huge = geometry->table_offset + geometry->huge_from * sizeof(busq_extent);
  const int failed = range_reserve(bus, geometry->groups_offset, reached - geometry->groups_offset);
  return failed || huge == geometry->reply_places_offset ? failed
                                                         : range_reserve(bus, huge, geometry->reply_places_offset - huge);
}

uint32_t busq_reserve_first_slots(const busq_geometry *geometry)
{
  return geometry->reserves_late && geometry->peers > busq_slots_at_once ? busq_slots_at_once : geometry->peers;
}

uint64_t busq_reserve_first_reach(const busq_geometry *geometry)
{
  const uint64_t few = geometry->peers + EXTENTS_AT_ONCE;
  return geometry->reserves_late && geometry->takes_larger && few < geometry->huge_from ? few : geometry->huge_from;
}

uint64_t busq_reserve_reach(busq_bus *bus, uint64_t length)
{
  const uint64_t found = busq_load_acquire(&bus->header->extents_reached); /* lower than what is seen if damaged */
  const uint64_t seen = busq_extents_reached(bus), all = bus->geometry.huge_from;
  const uint64_t step = length > EXTENTS_AT_ONCE ? length : EXTENTS_AT_ONCE;
  const uint64_t next = all - seen < step ? all : seen + step;
  if (next == seen)
    return seen;
  const uint64_t begin = bus->geometry.table_offset + seen * sizeof(busq_extent);
  const bool is_short = range_reserve(bus, begin, (next - seen) * sizeof(busq_extent)) != 0;
  __atomic_store_n(&bus->is_short, is_short, __ATOMIC_RELAXED);
  if (is_short)
    return seen;
  BUSQ_STEP("reach");
  /* SYNC POINT reach: these words have memory before any process can see that they are reached. */
  (void)busq_cas64(&bus->header->extents_reached, found, next);
  return busq_extents_reached(bus);
}

int busq_reserve_new(const busq_bus *bus)
{
  const int number = bus->geometry.reserves_late ? tables_reserve(bus) : all_reserve(bus);
  return number == 0 && ftruncate(bus->fd, (off_t)busq_geometry_arena_end(&bus->geometry)) < 0 ? errno : number;
}

static int reserve_for(const busq_bus *bus, uint64_t begin, uint64_t bytes, uint32_t slot, const char *what)
{
  const int number = range_reserve(bus, begin, bytes);
  errno = number;
  return number ? busq_error_system("can't reserve %llu bytes of bus \"%s\" for %s of peer slot %u",
                                    (unsigned long long)bytes, bus->name, what, slot)
                : BUSQ_OK;
}

int busq_reserve_slots(const busq_bus *bus, uint32_t first, uint32_t count)
{
  return reserve_for(bus, bus->geometry.peers_offset + first * sizeof(busq_slot), count * sizeof(busq_slot), first,
                     "the place");
}

/* The slots of a ring. */
static int slots_reserve(const busq_bus *bus, uint32_t slot, uint64_t first, uint64_t count)
{
  const uint64_t index = slot * bus->geometry.slot_count + first;
  return reserve_for(bus, bus->geometry.rings_offset + index * sizeof(busq_pair), count * sizeof(busq_pair), slot,
                     "the queue");
}

/* The first slots of a bare ring: what `backing` becomes, or 0 without memory. */
static int bare_reserve(const busq_bus *bus, uint32_t slot, uint64_t head, uint64_t *nextp)
{
  const bool is_short = busq_bus_has_short_rings(bus);
  *nextp = is_short ? head + BUSQ_RING_SHORT : bus->geometry.slot_count | BUSQ_RING_WHOLE;
  return slots_reserve(bus, slot, 0, is_short ? BUSQ_RING_SHORT : bus->geometry.slot_count);
}

/* The ring goes on as a short one as long as half of it is free: a queue whose reader keeps up never takes more. */
static bool short_is_enough(uint64_t end, uint64_t head)
{
  return head + BUSQ_RING_SHORT >= end + BUSQ_RING_SHORT / 2;
}

/* All that a short ring does not have. */
static bool rest_reserve(const busq_bus *bus, uint32_t slot, bool *refusedp)
{
  const uint64_t count = bus->geometry.slot_count - BUSQ_RING_SHORT;
  const bool is_there = refusedp && slots_reserve(bus, slot, BUSQ_RING_SHORT, count) == BUSQ_OK;
  if (refusedp)
    *refusedp = !is_there;
  return is_there;
}

int busq_reserve_ring(busq_bus *bus, uint32_t slot, uint64_t position, bool *refusedp)
{
  busq_queue *queue = &bus->slots[slot].queue;
  const uint64_t seen = busq_load_acquire(&queue->backing);
  if (position < seen) /* as every position is if it is whole */
    return BUSQ_OK;
  /* SYNC POINT ring-head */
  const uint64_t head = busq_load_acquire(&queue->head);
  uint64_t next = head + BUSQ_RING_SHORT;
  if (seen == bus->geometry.slot_count) {
    const int result = bare_reserve(bus, slot, head, &next);
    if (result)
      return result;
  } else if (!short_is_enough(seen, head) && rest_reserve(bus, slot, refusedp)) {
    next = seen | BUSQ_RING_WHOLE;
  }
  if (next <= seen)
    return BUSQ_FULL;
  BUSQ_STEP("backing");
  /* SYNC POINT backing.  Another process may have been faster: the caller looks again. */
  (void)busq_cas64(&queue->backing, seen, next);
  return BUSQ_OK;
}

uint64_t busq_reserve_growth(const busq_bus *bus, uint32_t slot)
{
  const uint64_t backing = busq_load_acquire(&bus->slots[slot].queue.backing), count = bus->geometry.slot_count;
  if (!bus->geometry.reserves_late || (backing & BUSQ_RING_WHOLE))
    return 0;
  const bool is_short = busq_bus_has_short_rings(bus);
  const bool is_enough = is_short && busq_bus_limit(bus, &bus->slots[slot]) <= BUSQ_RING_SHORT;
  const uint64_t has = is_short && backing != count ? BUSQ_RING_SHORT : 0;
  return ((is_enough ? BUSQ_RING_SHORT : count) - has) * sizeof(busq_pair);
}

int busq_reserve_hand(busq_bus *bus, uint32_t slot, uint64_t position)
{
  bool is_refused;
  const int result = bus->geometry.reserves_late ? busq_reserve_ring(bus, slot, position, &is_refused) : BUSQ_OK;
  return result == BUSQ_FULL ? BUSQ_NO_SPACE : result; /* the error is that of the memory */
}

int busq_reserve_own(busq_bus *bus, uint32_t slot)
{
  const busq_geometry *geometry = &bus->geometry;
  if (!geometry->reserves_late)
    return BUSQ_OK;
  return reserve_for(bus, geometry->arena_offset + slot * geometry->extent_bytes, geometry->extent_bytes, slot,
                     "small messages");
}

int busq_reserve_replies(busq_bus *bus, uint32_t slot)
{
  const busq_geometry *geometry = &bus->geometry;
  return reserve_for(bus, geometry->reply_places_offset + slot * geometry->reply_places_bytes,
                     geometry->reply_places_bytes, slot, "the replies");
}

static int range_punch(int fd, off_t begin, off_t bytes)
{
  return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, begin, bytes) == 0 ? 0 : errno;
}

static uint64_t run_offset(const busq_bus *bus, uint64_t first)
{
  return bus->geometry.arena_offset + (uint64_t)busq_extent_unit(bus, first) * BUSQ_LAYOUT_UNIT_BYTES;
}

bool busq_reserve_run(const busq_bus *bus, uint64_t first, uint64_t bytes)
{
  const uint64_t begin = run_offset(bus, first);
  struct rlimit file;
  if (getrlimit(RLIMIT_FSIZE, &file) == 0 && file.rlim_cur < begin + bytes)
    return false; /* instead of SIGXFSZ */
  return quietly(range_allocate, bus->fd, begin, bytes) == 0;
}

void busq_reserve_give_back(const busq_bus *bus, uint64_t first, uint64_t length)
{
  const uint64_t head_bytes = busq_geometry_head_bytes(&bus->geometry);
  BUSQ_ASSERT(first >= bus->geometry.huge_from && first + length <= bus->geometry.extents);
  for (uint64_t extent = first; extent < first + length; extent++)
    (void)quietly(range_punch, bus->fd, run_offset(bus, extent) + head_bytes, BUSQ_LAYOUT_HUGE_BYTES - head_bytes);
}

static bool is_reserved(const busq_bus *bus, uint64_t extent)
{
  return busq_load_relaxed(&bus->table[extent].word) >> 32 != 0;
}

bool busq_reserve_extents(busq_bus *bus, uint64_t first, uint64_t count)
{
  const busq_geometry *geometry = &bus->geometry;
  bool is_all = true;
  if (!geometry->reserves_late)
    return true;
  BUSQ_ASSERT(first + count <= geometry->huge_from);
  for (uint64_t extent = first; extent < first + count && is_all; extent++)
    is_all = is_reserved(bus, extent);
  if (BUSQ_LIKELY(is_all))
    return true;
  const uint64_t begin = geometry->arena_offset + first * geometry->extent_bytes;
  const bool is_short = range_reserve(bus, begin, count * geometry->extent_bytes) != 0;
  __atomic_store_n(&bus->is_short, is_short, __ATOMIC_RELAXED);
  return !is_short;
}

bool busq_reserve_has_runs(const busq_bus *bus)
{
  for (uint64_t extent = bus->geometry.huge_from; extent < bus->geometry.extents; extent++)
    if (!busq_extent_is_free(bus, extent, false))
      return true;
  return false;
}

bool busq_reserve_may_ever_hold(const busq_bus *bus, uint64_t bytes)
{
  struct statvfs all;
  return fstatvfs(bus->fd, &all) != 0 || !all.f_blocks || all.f_blocks * (uint64_t)all.f_frsize >= bytes;
}

bool busq_reserve_may_fit_small(const busq_bus *bus, uint32_t slot)
{
  return !bus->geometry.reserves_late || is_reserved(bus, slot) || busq_reserve_has_runs(bus);
}

bool busq_reserve_may_fit(const busq_bus *bus, uint64_t n_extents)
{
  if (!__atomic_load_n(&bus->is_short, __ATOMIC_RELAXED))
    return true;
  uint64_t n_reserved = 0;
  for (uint64_t extent = bus->geometry.peers; extent < busq_extents_reached(bus); extent++)
    n_reserved += is_reserved(bus, extent);
  return n_reserved >= n_extents ||
         (busq_reserve_may_ever_hold(bus, n_extents * bus->geometry.extent_bytes) && busq_reserve_has_runs(bus));
}
