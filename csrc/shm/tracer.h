/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_TRACER_H
#define BUSQ_SHM_TRACER_H
/*
 * A peer's side of recording.
 *
 * Guarantee: while nobody records, a call costs one look at a word that it reads anyway.  While somebody does, every send,
 * delivery, long wait, join and leave of this peer becomes an event of the ring that is its own; nothing waits for the recorder,
 * and nothing fails because of it.
 *
 * Mechanism.  The recorder makes a file of rings beside the bus (rings.h) and writes its number into the bus's header.  A peer
 * that sees a number it does not know maps the file, and says who it is (a join).  A number of 0 ends it.
 *
 * Not given: events of a peer that has no memory for its ring, or may not open the file: it is simply not recorded.
 */
#include "trace/event_ring.h"

typedef struct busq_peer busq_peer;
typedef struct busq_tracer_map busq_tracer_map;

/* What was taken between begin and end of receiving: recorded at the end, with one look at the clock. */
typedef struct {
  uint64_t message;
  uint64_t stamp;
  uint32_t incarnation;
  uint16_t slot;
  uint16_t kind;
} busq_tracer_taken;

enum { BUSQ_TRACER_TAKEN_MAX = 64 };

#define BUSQ_TRACER_UNRECORDED UINT64_MAX

typedef struct {
  uint32_t generation; /* of the recording that `map` belongs to; 0 before the first one */
  uint32_t latch;
  bool is_silent; /* what it sends and takes are packets of a protocol: whoever runs that records */
  bool is_fresh;
  busq_tracer_map *map; /* NULL where it can't be recorded */
  busq_tracer_map *old; /* of recordings that have ended: another thread may still look at them */
  busq_trace_ring *full[BUSQ_TRACE_SIDES]; /* where there was no room for what a side did last; under its latch */

  /* Under the send latch. */
  uint64_t begun;      /* when the send at hand was called; 0: it is not recorded */
  uint64_t blocked;    /* when it began to wait for room; 0: it did not */
  uint64_t position;   /* of its record */
  uint64_t commit;
  busq_trace_ring *ring; /* of its record; NULL where it was dropped */

  /* Under the receive latch. */
  uint32_t n_taken;
  busq_tracer_taken taken[BUSQ_TRACER_TAKEN_MAX];
} busq_tracer;

/* Whether there is still no room for what a side does: then it is counted as dropped, and costs no more than that. */
static inline bool busq_tracer_drops(busq_tracer *tracer, uint32_t recording, busq_trace_side side)
{
  busq_trace_ring *ring = tracer->full[side];
  if (!ring || recording != busq_load_relaxed(&tracer->generation))
    return false;
  if (busq_trace_ring_has_room(ring)) {
    tracer->full[side] = NULL;
    return false;
  }
  busq_trace_ring_drop(ring, side, 1);
  return true;
}

/* The ring to write to; NULL where nothing is to be recorded.  Wants the handle not to be closed. */
busq_trace_ring *busq_tracer_ring(busq_peer *peer);
void busq_tracer_deinit(busq_peer *peer);

/* The peer has joined, or is about to leave (with both latches). */
void busq_tracer_join(busq_peer *peer);
void busq_tracer_leave(busq_peer *peer);

/* With the send latch, before a send: when it was called, or BUSQ_TRACER_UNRECORDED.  Where its ring is full it is counted as dropped
 * here, once for all attempts. */
uint64_t busq_tracer_call(busq_peer *peer);

/* With the send latch: a send whose tag is known, what became of its stages, and how it ended. */
void busq_tracer_send_begin(busq_peer *peer, uint64_t sequence, uint32_t n_targets);
void busq_tracer_send_commit(busq_peer *peer);
void busq_tracer_send_end(busq_peer *peer, uint64_t timestamp, int result);
void busq_tracer_stage(busq_peer *peer, uint64_t sequence, uint32_t slot, uint64_t timestamp);
void busq_tracer_seal(busq_peer *peer, uint64_t sequence, uint64_t timestamp);
/* A send that found no room until its time was over. */
void busq_tracer_send_timed_out(busq_peer *peer, uint64_t sequence);

/* With the receive latch. */
void busq_tracer_take(busq_peer *peer, const busq_tracer_taken *taken);
void busq_tracer_flush(busq_peer *peer);
void busq_tracer_waited(busq_peer *peer, uint64_t since_ns); /* CLOCK_MONOTONIC; all else is the recording's clock */

/* For whoever runs a protocol over a silent peer, one thread at a time: the messages of its application.  A send that was begun is
 * ended by busq_tracer_app_sent, with the position that begin returned; UINT64_MAX: it is not recorded. */
uint64_t busq_tracer_app_send(busq_peer *peer, uint64_t message, const busq_trace_destination *to, uint32_t n,
                              uint64_t begun, uint64_t blocked);
void busq_tracer_app_sent(busq_peer *peer, uint64_t position, bool has_returned);
void busq_tracer_app_waited(busq_peer *peer, uint64_t since);

#endif /* BUSQ_SHM_TRACER_H */
