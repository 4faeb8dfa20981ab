/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_HANDLE_H
#define BUSQ_SHM_HANDLE_H
/*
 * The private side: what a process keeps for itself about a bus it has mapped and a peer it has joined.  Nothing here is
 * visible to others, and everything in it could be derived again from the segment.
 *
 * Locks.  Two latches per peer, one for sending and one for receiving, order the threads of this process among
 * themselves.  They lie in private memory and are held for a bounded number of steps, never while waiting:
 *
 *      peer.send_latch
 *        peer.receive_latch     only busq_peer_close takes both
 */
#include "base/types.h"
#include "busq.h"
#include "queue/heap.h"
#include "queue/ring.h"
#include "shm/arena.h"
#include "shm/layout.h"
#include "shm/tracer.h"
#include "trace/clock.h"

typedef struct {
  uint32_t held;
} busq_latch;

struct busq_bus {
  busq_geometry geometry; /* a private copy: nobody else can change it */
  char *base;
  busq_header *header;
  busq_slot *slots;
  busq_extent *table;
  char *arena;
  uint32_t references; /* handles that use the mapping */
  int fd;              /* asks the kernel who is alive; holds no locks */
  int directory_fd;    /* for the FIFOs of peers that are waited for by file descriptor */
  uint32_t fork_generation;
  char name[BUSQ_LAYOUT_NAME_BYTES_MAX + 1];
  char order[BUSQ_LAYOUT_ORDER_BYTES]; /* "bus1", or an order with its options */
};

/* A message that can be delivered now; sizes and pointers were checked. */
typedef struct {
  busq_key key;
  busq_record *record;
  uint64_t position;
  const void *payload;
  uint64_t size_bytes;
  uint32_t sender_incarnation;
  uint32_t mark;
  bool is_late;        /* it is the least of the heap, not the next of the ring */
  bool is_redelivered; /* a predecessor had it, and did not acknowledge it */
} busq_found;

/* What keeps a queue from being received from, and since when. */
typedef struct {
  busq_reference reference;
  uint64_t position;
  uint64_t tail; /* of the queue at since_ns */
  uint64_t since_ns;
  uint64_t help_in_ns;
} busq_blocker;

/* What a sender remembers of each destination. */
typedef struct {
  uint64_t head_seen;
  uint32_t incarnation;    /* that the message at hand is meant for */
  uint64_t glanced_ns;     /* when the kernel was last asked whether it lives, by the tick */
  int fifo_fd;             /* -1 until it was needed */
  uint64_t fifo_began_ns;  /* whose FIFO that is: a successor has the same incarnation, and a FIFO of its own */
} busq_acquaintance;

/* A descriptor that holds locks of this process.  A forked child closes its copy, or it would hold them too. */
typedef struct busq_guard {
  int *fd;
  struct busq_guard *next;
} busq_guard;

struct busq_peer {
  busq_bus *bus;
  busq_slot *self;
  uint32_t slot;
  uint32_t incarnation;
  uint32_t fork_generation;
  uint32_t is_closed;
  int lock_fd;
  busq_guard lock_guard;
  int64_t name_lock; /* the byte that stands for our name */
  bool is_durable;

  /* Sending: under send_latch. */
  _Alignas(BUSQ_LINE_PAIR_BYTES) busq_latch send_latch;
  bool proposes_stale;     /* tests force lost proposals with it */
  uint64_t lamport;        /* no message that this peer has sent has a higher timestamp */
  uint64_t sequence;       /* of the last message */
  uint64_t sequence_limit; /* reserved in the slot up to here */
  uint64_t sent;
  uint64_t late;
  uint32_t memory_wanted_seen;
  uint64_t tick_ns; /* of the last send, and how often the kernel was asked since who lives */
  uint32_t glances;
  busq_arena arena;
  busq_acquaintance *known; /* [peers] */
  uint16_t *destinations;   /* [peers], scratch: the sorted slots of the multicast at hand */
  uint64_t failed_target;

  /* Receiving: under receive_latch. */
  _Alignas(BUSQ_LINE_PAIR_BYTES) busq_latch receive_latch;
  uint64_t scan;      /* everything before it was taken, skipped, or is in the heap */
  uint64_t head;      /* private copy of the queue's head */
  uint64_t ahead;     /* positions from head on that are done out of order */
  uint64_t *done;     /* a bit per slot of the ring: this position is done */
  uint64_t delivered; /* no message that this peer has received has a higher timestamp */
  uint64_t received;
  uint64_t pins;      /* messages taken, not yet released */
  busq_ring ring;     /* our own */
  busq_heap heap;
  int poll_fd;        /* -1 until somebody asked for it; readable when one of the next two is */
  int fifo_fd;
  int timer_fd;
  uint64_t timer_due_ns;
  uint32_t fifo_epoch;
  bool fifo_is_raised; /* by ourselves, and not emptied since */
  uint64_t inherited;  /* positions before it were somebody else's: he may have taken what stands there */
  busq_blocker blocker;
  busq_found found;    /* what the last look has found */

  /* Waiting. */
  uint64_t send_left_ns; /* when a wait was interrupted that the caller will go on with; 0 where there is none */
  uint64_t receive_left_ns;
  uint32_t short_waits;       /* in a row that ended without sleeping */
  uint64_t short_waits_since; /* messages sent when the row began */
  uint32_t spin_ns;
  uint32_t yield_ns;
  bool is_crowded; /* yielding has lately let others run: more of them want to than there are cores */

  busq_tracer tracer;
};

extern uint32_t busq_fork_generation;

static inline busq_ring busq_bus_ring(const busq_bus *bus, uint32_t slot)
{
  busq_ring ring;
  ring.queue = &bus->slots[slot].queue;
  ring.slot_count = bus->geometry.slot_count;
  ring.slot_shift = (uint32_t)__builtin_ctzll(ring.slot_count);
  ring.slots = (busq_pair *)(void *)(bus->base + bus->geometry.rings_offset) + slot * ring.slot_count;
  return ring;
}

static inline busq_record *busq_bus_record(const busq_bus *bus, uint32_t unit)
{
  return (busq_record *)(void *)(bus->arena + (uint64_t)unit * BUSQ_LAYOUT_UNIT_BYTES);
}

/* The end of the arena, in units; whatever reads a unit from shared memory compares it with this first. */
static inline uint64_t busq_bus_units(const busq_bus *bus)
{
  return bus->geometry.extents * (bus->geometry.extent_bytes / BUSQ_LAYOUT_UNIT_BYTES);
}

static inline uint64_t busq_life_word(uint32_t incarnation, uint32_t life)
{
  return (uint64_t)incarnation << 32 | life;
}

void busq_latch_wait(busq_latch *latch);

static inline void busq_latch_acquire(busq_latch *latch)
{
  /* SYNC POINT latch: what the holder before us wrote comes before what we read. */
  if (BUSQ_UNLIKELY(__atomic_exchange_n(&latch->held, 1, __ATOMIC_ACQUIRE)))
    busq_latch_wait(latch);
}

static inline void busq_latch_release(busq_latch *latch)
{
  /* SYNC POINT latch */
  __atomic_store_n(&latch->held, 0, __ATOMIC_RELEASE);
}

/* Does somebody record what happens on this bus? */
static inline bool busq_bus_is_recorded(const busq_bus *bus)
{
  return BUSQ_UNLIKELY(busq_load_relaxed(&bus->header->recording));
}

/* What the clock of the recording says; 0 where there is none. */
static inline uint64_t busq_bus_recording_now(const busq_bus *bus)
{
  const uint32_t recording = busq_load_relaxed(&bus->header->recording);
  return BUSQ_UNLIKELY(recording) ? busq_trace_now(recording) : 0;
}

static inline int busq_peer_check(const busq_peer *peer)
{
  if (BUSQ_UNLIKELY(peer->fork_generation != busq_fork_generation))
    return BUSQ_FORKED;
  if (BUSQ_UNLIKELY(busq_load_relaxed(&peer->is_closed)))
    return BUSQ_CLOSED;
  return BUSQ_OK;
}

#endif /* BUSQ_SHM_HANDLE_H */
