/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_MEMORY_BUS_H
#define BUSQ_SHM_MEMORY_BUS_H
/*
 * The private side of a bus: what a process keeps for itself about one that it has mapped, and where things lie in it.
 */
#include "base/latch.h"
#include "base/types.h"
#include "busq.h"
#include "queue/ring.h"
#include "shm/memory/layout.h"
#include "trace/clock.h"

/* A second mapping of the file, through which an application looks at messages (shown.h). */
/* For a process that becomes another user: a reader, a sender and a grave at once, and three more. */
#define BUSQ_SPARES 6u

struct busq_window {
  char *base;     /* where the file would begin */
  uint64_t begin; /* what is mapped of it */
  uint64_t bytes;
  uint32_t references;
};

struct busq_bus {
  busq_geometry geometry; /* a private copy: no other process can change it */
  char *base;
  busq_header *header;
  busq_slot *slots;
  busq_extent *table;
  char *arena;
  /* Derived from the geometry; used for every message. */
  busq_pair *rings;
  uint64_t units;         /* of the arena, and of what is behind it, as far as the file was seen to go; any thread sets it */
  uint64_t huge_unit;     /* the first unit behind the arena */
  uint64_t first_reach;   /* so many extents of the arena had a new bus reached (reserve.h) */
  uint32_t first_slots;   /* and so many slots (peer_slots.h) */
  uint64_t payload_bytes_max;
  uint32_t ring_shift;    /* slots of a ring, as a power of two */
  uint32_t lap_shift;     /* the same of a lap (queue/ring.h) */
  uint32_t extent_shift;  /* units of an extent, as a power of two */
  uint32_t references; /* handles that use the mapping */
  int fd;              /* asks the kernel which peers live; holds no locks */
  int directory_fd;    /* for the FIFOs of peers that are waited for by file descriptor */
  bool is_short; /* the file system had no memory when some was to be reserved last (reserve.h); any thread sets it */
  bool is_temporary;   /* its name goes with the last process that has it open (temporary.h) */
  int temporary_fd;         /* its lock shows that we have; -1 where that need not be shown */
  uint32_t users;      /* of this process: handles and peers that are not closed */
  busq_bus *temporary_next;
  void (*temporary_end)(busq_bus *); /* where the process ends with it, and was the last one */
  busq_window *window; /* for the views to come; NULL before the first one */
  uint32_t fork_generation;
  uint32_t user; /* the user that opened it */
  int spares[BUSQ_SPARES]; /* descriptors in store (life.h); -1 where one is used */
  bool has_spares;
  busq_bus *spares_next;
  char name[BUSQ_LAYOUT_NAME_BYTES_MAX + 1];
  char order[BUSQ_LAYOUT_ORDER_BYTES]; /* "bus1", or an order with its options */
};

/* Behind the last slot that can be in use.  The number of a slot that comes from outside is compared with this.
 * SYNC POINT slots: those before it have memory, and are as new ones are, or in use. */
static inline uint32_t busq_slots_reached(const busq_bus *bus)
{
  if (BUSQ_LIKELY(bus->first_slots == bus->geometry.peers))
    return bus->first_slots;
  const uint32_t reached = busq_load_acquire(&bus->header->slots_reached);
  if (BUSQ_UNLIKELY(reached < bus->first_slots)) /* damage */
    return bus->first_slots;
  return BUSQ_LIKELY(reached <= bus->geometry.peers) ? reached : bus->geometry.peers;
}

/* May its rings be short? */
static inline bool busq_bus_has_short_rings(const busq_bus *bus)
{
  return bus->geometry.reserves_late && busq_ring_may_be_short(bus->geometry.slot_count);
}

static inline busq_ring busq_bus_ring(const busq_bus *bus, uint32_t slot)
{
  busq_ring ring;
  ring.queue = &bus->slots[slot].queue;
  ring.slot_count = bus->geometry.slot_count;
  ring.lap_shift = bus->lap_shift;
  ring.slots = bus->rings + ((uint64_t)slot << bus->ring_shift);
  ring.grows = bus->geometry.reserves_late;
  return ring;
}

/* The index comes from shared memory: the caller has compared it with the geometry's. */
static inline busq_group *busq_bus_group(const busq_bus *bus, uint32_t index)
{
  return (busq_group *)(void *)(bus->base + bus->geometry.groups_offset + index * bus->geometry.group_bytes);
}

static inline busq_node *busq_bus_node(const busq_bus *bus, uint32_t slot, uint32_t index)
{
  const uint64_t at = (uint64_t)slot * bus->geometry.nodes + index;
  return (busq_node *)(void *)(bus->base + bus->geometry.nodes_offset + at * bus->geometry.node_bytes);
}

/* The first of a peer's places for replies, of which it has as many as its queue has for messages. */
static inline busq_reply_place *busq_bus_reply_places(const busq_bus *bus, uint32_t slot)
{
  return (busq_reply_place *)(void *)(bus->base + bus->geometry.reply_places_offset +
                                      slot * bus->geometry.reply_places_bytes);
}

/* How many messages a queue holds before senders wait. */
static inline uint32_t busq_bus_limit(const busq_bus *bus, const busq_slot *reader)
{
  const uint32_t limit = busq_load_relaxed(&reader->limit);
  return BUSQ_UNLIKELY(limit && limit < bus->geometry.capacity) ? limit : bus->geometry.capacity;
}

static inline busq_record *busq_bus_record(const busq_bus *bus, uint32_t unit)
{
  return (busq_record *)(void *)(bus->arena + (uint64_t)unit * BUSQ_LAYOUT_UNIT_BYTES);
}

static inline uint64_t busq_life_word(uint32_t incarnation, uint32_t life)
{
  return (uint64_t)incarnation << 32 | life;
}

/* The incarnation in a slot; while a message from there is on its way, that of its sender. */
static inline uint32_t busq_slot_incarnation(const busq_bus *bus, uint32_t slot)
{
  return (uint32_t)(busq_load_acquire(&bus->slots[slot].life) >> 32);
}

/* Is there a recording of this bus? */
static inline bool busq_bus_is_recorded(const busq_bus *bus)
{
  return BUSQ_UNLIKELY(busq_load_relaxed(&bus->header->recording));
}

/* The time on the recording's clock; 0 where there is none. */
static inline uint64_t busq_bus_recording_now(const busq_bus *bus)
{
  const uint32_t recording = busq_load_relaxed(&bus->header->recording);
  return BUSQ_UNLIKELY(recording) ? busq_trace_now(recording) : 0;
}

#endif /* BUSQ_SHM_MEMORY_BUS_H */
