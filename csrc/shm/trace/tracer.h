/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_TRACE_TRACER_H
#define BUSQ_SHM_TRACE_TRACER_H
/*
 * A peer's side of recording.
 *
 * Guarantee: without a recording, a call costs one look at a word that it reads anyway. During one, every send,
 * delivery, long wait, join and leave of this peer becomes an event of the ring that is its own; nothing waits for the
 * recorder, and nothing fails because of it.
 *
 * Mechanism.  The recorder makes a file of rings beside the bus (rings.h) and writes its number into the bus's header.
 * A peer that sees a number it does not know maps the file, and names itself (a join).  A number of 0 ends it.
 *
 * Not given: events of a peer that has no memory for its ring, or may not open the file: it is simply not recorded.
 */
#include "shm/memory/peer.h"

/* The ring of this recording in which there is still no room for what a side does; NULL: look.  With the latch of the
 * side.  It is the short way of a peer whose ring is always full: to count as dropped is all that is left to do. */
static inline busq_trace_ring *busq_tracer_still_full(busq_tracer *tracer, uint32_t recording, busq_trace_side side)
{
  busq_tracer_full *full = &tracer->full[side];
  if (!full->ring || full->generation != recording)
    return NULL;
  if (busq_trace_ring_has_room(full->ring))
    full->ring = NULL;
  return full->ring;
}

void busq_tracer_deinit(busq_peer *peer);

/* The peer has joined, or is about to leave (with both latches). */
void busq_tracer_join(busq_peer *peer);
void busq_tracer_leave(busq_peer *peer);

/* With the send latch: a send whose tag is known, what became of its stages, and how it ended. */
void busq_tracer_send_begin(busq_peer *peer, const busq_record *record, uint32_t n_targets,
                            uint32_t group /* 1 + its index; 0: none */, uint64_t view);
/* A message that is no call's, but made on the way, is recorded as a send that begins here.  True if it is; `end` gets
 * that answer. */
static inline bool busq_tracer_begin_on_the_way(busq_peer *peer)
{
  if (BUSQ_LIKELY(!busq_bus_is_recorded(peer->bus)) || peer->tracer.begun || peer->tracer.is_silent)
    return false;
  peer->tracer.begun = busq_bus_recording_now(peer->bus);
  return true;
}

static inline void busq_tracer_end_on_the_way(busq_peer *peer, bool is_on_the_way)
{
  if (BUSQ_UNLIKELY(is_on_the_way))
    peer->tracer.begun = 0;
}

void busq_tracer_send_commit(busq_peer *peer);
void busq_tracer_send_end(busq_peer *peer, uint64_t timestamp, int result);
void busq_tracer_stage(busq_peer *peer, uint64_t sequence, uint32_t slot, uint64_t timestamp);
void busq_tracer_seal(busq_peer *peer, uint64_t sequence, uint64_t timestamp);
/* A send that found no room until its time was over. */
void busq_tracer_send_timed_out(busq_peer *peer, uint64_t sequence);

/* With the receive latch. */
void busq_tracer_take(busq_peer *peer, const busq_tracer_taken *taken);
/* Records that a view was taken. Returns room for as many members as the bus has peers, to be filled at once, together
 * with their count; NULL where there is no memory, and then it is recorded as a message like any other. */
busq_tracer_viewed *busq_tracer_take_view(busq_peer *peer, const busq_tracer_taken *taken);
void busq_tracer_flush(busq_peer *peer);
void busq_tracer_waited(busq_peer *peer, uint64_t since_ns); /* the host's clock (time.h); all else is the recording's clock */

/* For a protocol over a silent peer, one thread at a time: the messages of its application.  A send that was begun is
 * ended by busq_tracer_app_sent, with the position that begin returned; UINT64_MAX: it is not recorded. */
uint64_t busq_tracer_app_send(busq_peer *peer, uint64_t message, const busq_trace_destination *to, uint32_t n,
                              uint64_t begun, uint64_t blocked);
void busq_tracer_app_sent(busq_peer *peer, uint64_t position, bool has_returned);
void busq_tracer_app_waited(busq_peer *peer, uint64_t since);

#endif /* BUSQ_SHM_TRACE_TRACER_H */
