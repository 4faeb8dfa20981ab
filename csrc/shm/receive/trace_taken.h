/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_RECEIVE_TRACE_TAKEN_H
#define BUSQ_SHM_RECEIVE_TRACE_TAKEN_H
/* Recording what a reader takes, and what it passes. */
#include "shm/memory/peer.h"
#include "shm/trace/tracer.h"

void busq_trace_taken_write(busq_peer *peer, const busq_found *found, busq_trace_kind kind);

/* An event about peer->receiver.found, where there is a recording. */
BUSQ_ALWAYS_INLINE void busq_trace_taken_found(busq_peer *peer, busq_trace_kind kind)
{
  const busq_found *found = &peer->receiver.found;
  const uint32_t recording = busq_load_relaxed(&peer->bus->header->recording);
  if (BUSQ_LIKELY(!recording) || peer->tracer.is_silent || found->was_given_back)
    return;
  const busq_trace_ring *full = busq_tracer_still_full(&peer->tracer, recording, BUSQ_TRACE_RECEIVING);
  if (full)
    busq_trace_ring_drop(full, BUSQ_TRACE_RECEIVING, 1);
  else
    busq_trace_taken_write(peer, found, kind);
}

BUSQ_ALWAYS_INLINE void busq_trace_taken_message(busq_peer *peer)
{
  busq_trace_taken_found(peer, peer->receiver.found.is_redelivered ? BUSQ_TRACE_REDELIVER : BUSQ_TRACE_DELIVER);
}

#endif /* BUSQ_SHM_RECEIVE_TRACE_TAKEN_H */
