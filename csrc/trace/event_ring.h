/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_TRACE_EVENT_RING_H
#define BUSQ_TRACE_EVENT_RING_H
/*
 * The ring that carries the events of one peer to the recorder.
 *
 * Guarantee: writing never waits; what there is no room for is dropped and counted.  A ring that was full takes nothing
 * before a quarter of it is free: so what comes out of a ring that is always full are stretches that belong together,
 * and dropping costs little.  Events come out in the order in which they were reserved, each whole.  A writer that dies
 * between reserving and publishing leaves a hole, which is passed only when it is certain that no writer will fill it.
 *
 * Mechanism: the tail is moved by a swap, which fails where the reader's head is a lap behind; a record is published by
 * its word, which names the position it stands at, so that what a lap before has left is never taken for it.  Several
 * threads of one peer may write; one recorder reads.
 *
 * Not given: protection from a process that writes nonsense into the file.  The reader never leaves the mapping for it,
 * and ends with an error where the ring's words contradict each other.
 */
#include "base/assert.h"
#include "base/atomic.h"
#include "trace/record.h"

/* Counts by side: each side is one thread at a time, so that counting needs no swap. */
typedef enum { BUSQ_TRACE_SENDING, BUSQ_TRACE_RECEIVING, BUSQ_TRACE_SIDES } busq_trace_side;

typedef struct {
  /* Written by the peer. */
  _Alignas(BUSQ_LINE_PAIR_BYTES) uint64_t tail;
  uint64_t began;    /* what stands before it was reserved by peers that are gone */
  uint64_t dropped[BUSQ_TRACE_SIDES];
  uint32_t is_there; /* the memory of the ring is reserved */
  /* Written by the recorder. */
  _Alignas(BUSQ_LINE_PAIR_BYTES) uint64_t head;
  uint64_t saved; /* what stands before it is in files */
  uint64_t told;  /* how many of the dropped events are already in files */
  /* The writer, by its index in the files, and the numbering of its messages there: for a recorder that goes on. */
  uint64_t first; /* sequence numbers; 0: nothing was sent */
  uint64_t last;
  int64_t number; /* of the first */
  uint32_t process_plus_1;
} busq_trace_shared;

/* A private view. */
typedef struct {
  busq_trace_shared *shared;
  busq_trace_record *records;
  uint64_t size; /* a power of two */
  uint64_t head_seen;
  uint64_t limit; /* so many may stand there; fewer than `size` since it was full */
} busq_trace_ring;

enum { BUSQ_TRACE_BEGUN = 1, BUSQ_TRACE_DONE = 2, BUSQ_TRACE_PHASE_MASK = 3 };

typedef enum {
  BUSQ_TRACE_LOOK_NOTHING, /* no more */
  BUSQ_TRACE_LOOK_HOLE,    /* reserved, not published */
  BUSQ_TRACE_LOOK_BEGUN,
  BUSQ_TRACE_LOOK_DONE,
  BUSQ_TRACE_LOOK_DAMAGED
} busq_trace_look;

static inline busq_trace_record *busq_trace_ring_at(const busq_trace_ring *ring, uint64_t position)
{
  return &ring->records[position & (ring->size - 1)];
}

/* Is there room for `count` behind `tail`?  Only the answer no is sure: several may write. */
static inline bool busq_trace_ring_fits(busq_trace_ring *ring, uint64_t tail, uint32_t count)
{
  /* Signed: a writer that was held up since it read the tail may find that the recorder is ahead of it. */
  const int64_t used_seen = (int64_t)(tail - busq_load_acquire(&ring->head_seen));
  const uint64_t limit = busq_load_relaxed(&ring->limit);
  if (BUSQ_LIKELY(used_seen + count <= (int64_t)limit)) {
    if (BUSQ_UNLIKELY(limit != ring->size)) /* a quarter is free: from here on all of it may be used */
      busq_store_relaxed(&ring->limit, ring->size);
    return true;
  }
  /* SYNC POINT trace-head: the recorder has read what stood there. */
  const uint64_t head = busq_load_acquire(&ring->shared->head);
  const int64_t used = (int64_t)(tail - head);
  /* Into an empty ring goes what fits at all. */
  const bool fits = used + count <= (int64_t)(used > 0 ? limit : ring->size);
  busq_store_release(&ring->head_seen, head); /* another thread may rely on what we have seen */
  busq_store_relaxed(&ring->limit, fits ? ring->size : ring->size - ring->size / 4);
  return fits;
}

/* Is there room for one more? */
static inline bool busq_trace_ring_has_room(busq_trace_ring *ring)
{
  return busq_trace_ring_fits(ring, busq_load_relaxed(&ring->shared->tail), 1);
}

/* Reserves places that follow each other; false where there is no room: then the event is to be counted as dropped. */
bool busq_trace_ring_reserve(busq_trace_ring *ring, uint32_t count, uint64_t *positionp);

static inline void busq_trace_ring_drop(const busq_trace_ring *ring, busq_trace_side side, uint32_t n_events)
{
  busq_store_relaxed(&ring->shared->dropped[side], busq_load_relaxed(&ring->shared->dropped[side]) + n_events);
}

/* Takes back a drop that was counted and did not happen. */
static inline void busq_trace_ring_undrop(const busq_trace_ring *ring, busq_trace_side side)
{
  busq_store_relaxed(&ring->shared->dropped[side], busq_load_relaxed(&ring->shared->dropped[side]) - 1);
}

static inline uint64_t busq_trace_ring_dropped(const busq_trace_ring *ring)
{
  return busq_load_relaxed(&ring->shared->dropped[BUSQ_TRACE_SENDING]) +
         busq_load_relaxed(&ring->shared->dropped[BUSQ_TRACE_RECEIVING]);
}

static inline void busq_trace_ring_publish(const busq_trace_ring *ring, uint64_t position, uint32_t phase)
{
  BUSQ_ASSERT(phase == BUSQ_TRACE_BEGUN || phase == BUSQ_TRACE_DONE);
  /* SYNC POINT trace-record: the content of the record comes before its word. */
  busq_store_release(&busq_trace_ring_at(ring, position)->word, position << 2 | phase);
}

/* For the recorder: what stands at a position, copied where it is published. */
busq_trace_look busq_trace_ring_look(const busq_trace_ring *ring, uint64_t position, busq_trace_record *copy);

#endif /* BUSQ_TRACE_EVENT_RING_H */
