/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/memory/mapping.h"
#include "base/error.h"
#include "shm/memory/life.h"
#include "shm/memory/reserve.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int busq_mapping_map(busq_bus *bus)
{
  char *base = mmap(NULL, bus->geometry.segment_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, bus->fd, 0);
  if (base == MAP_FAILED)
    return busq_error_system("can't map %llu bytes of bus \"%s\"%s", (unsigned long long)bus->geometry.segment_bytes, bus->name,
                             bus->geometry.takes_larger
                                 ? " (addresses, for messages larger than its arena: does RLIMIT_AS, ulimit -v, allow so many? A bus that a process with that limit creates takes fewer)"
                                 : "");
  bus->base = base;
  bus->header = (busq_header *)(void *)base;
  bus->slots = (busq_slot *)(void *)(base + bus->geometry.peers_offset);
  bus->table = (busq_extent *)(void *)(base + bus->geometry.table_offset);
  bus->arena = base + bus->geometry.arena_offset;
  bus->rings = (busq_pair *)(void *)(base + bus->geometry.rings_offset);
  bus->ring_shift = (uint32_t)__builtin_ctzll(bus->geometry.slot_count);
  bus->lap_shift = busq_bus_has_short_rings(bus) ? (uint32_t)__builtin_ctzll(BUSQ_RING_SHORT) : bus->ring_shift;
  bus->extent_shift = (uint32_t)__builtin_ctzll(bus->geometry.extent_bytes / BUSQ_LAYOUT_UNIT_BYTES);
  bus->huge_unit = bus->geometry.huge_from << bus->extent_shift;
  bus->first_reach = busq_reserve_first_reach(&bus->geometry);
  bus->first_slots = busq_reserve_first_slots(&bus->geometry);
  bus->units = bus->huge_unit;
  bus->payload_bytes_max = bus->geometry.takes_larger || bus->geometry.arena_bytes > BUSQ_LAYOUT_PAYLOAD_BYTES_MAX
                               ? BUSQ_LAYOUT_PAYLOAD_BYTES_MAX
                               : bus->geometry.arena_bytes;
  return BUSQ_OK;
}

/* The old mapping stays, since pins show what lies in it. */
bool busq_bus_move(busq_bus *bus)
{
  if (bus->fork_generation == busq_fork_generation)
    return true;
  if (busq_mapping_map(bus) != BUSQ_OK)
    return false;
  bus->fork_generation = busq_fork_generation;
  return true;
}

busq_bus *busq_mapping_new(const char *name)
{
  busq_bus *bus = calloc(1, sizeof *bus);
  if (!bus)
    return NULL;
  snprintf(bus->name, sizeof bus->name, "%s", name);
  bus->fd = bus->directory_fd = bus->temporary_fd = -1;
  bus->references = bus->users = 1;
  bus->fork_generation = busq_fork_generation;
  bus->user = geteuid();
  return bus;
}

void busq_bus_retain(busq_bus *bus)
{
  (void)busq_fetch_add(&bus->references, 1);
  (void)busq_fetch_add(&bus->users, 1);
}

/* ---- windows ---- */

static busq_latch window_latch; /* of the words bus->window; of all buses, so that a fork can hold it */

void busq_window_hold(void)
{
  busq_latch_acquire(&window_latch);
}

void busq_window_let_go(void)
{
  busq_latch_release(&window_latch);
}

static busq_window *window_new(const busq_bus *bus, uint64_t begin, uint64_t bytes)
{
  busq_window *window = calloc(1, sizeof *window);
  char *mapped = window ? mmap(NULL, bytes, PROT_READ, MAP_SHARED, bus->fd, (off_t)begin) : MAP_FAILED;
  if (mapped == MAP_FAILED) {
    (void)busq_error_system("can't map %llu bytes of bus \"%s\" to look at its messages", (unsigned long long)bytes,
                            bus->name);
    free(window);
    return NULL;
  }
  char *base = (char *)((uintptr_t)mapped - begin);
  *window = (busq_window){.base = base, .begin = begin, .bytes = bytes, .references = 1};
  return window;
}

static busq_window *window_of_all(busq_bus *bus)
{
  busq_window_hold();
  if (!bus->window)
    bus->window = window_new(bus, 0, bus->geometry.segment_bytes);
  busq_window *window = bus->window;
  if (window)
    (void)busq_fetch_add(&window->references, 1);
  busq_window_let_go();
  return window;
}

busq_window *busq_window_open(busq_bus *bus, const char *data, uint64_t bytes)
{
  busq_window *window = window_of_all(bus);
  if (window)
    return window;
  const uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE), at = (uint64_t)(data - bus->base);
  const uint64_t begin = at / page_bytes * page_bytes;
  return window_new(bus, begin, at - begin + (bytes ? bytes : 1));
}

void busq_window_close(busq_window *window)
{
  if (!window || busq_fetch_add(&window->references, UINT32_MAX) != 1)
    return;
  munmap(window->base + window->begin, window->bytes);
  free(window);
}

void busq_window_change(busq_bus *bus)
{
  busq_window_hold();
  busq_window *window = bus->window;
  bus->window = NULL;
  busq_window_let_go();
  busq_window_close(window);
}

void busq_bus_release(busq_bus *bus)
{
  if (busq_fetch_add(&bus->references, UINT32_MAX) != 1)
    return;
  busq_window_close(bus->window);
  busq_guard_store_end(bus);
  if (bus->base)
    munmap(bus->base, bus->geometry.segment_bytes);
  if (bus->fd >= 0)
    close(bus->fd);
  if (bus->directory_fd >= 0)
    close(bus->directory_fd);
  free(bus);
}
