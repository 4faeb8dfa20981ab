/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/trace/tracer.h"
#include "shm/trace/rings.h"
#include "trace/clock.h"
#include <stdlib.h>
#include <string.h>

struct busq_tracer_map {
  busq_trace_ring ring;
  busq_rings rings;
  busq_tracer_map *next;
  uint32_t generation; /* of the recording that it belongs to */
  uint64_t dropped;    /* by peers that had the slot before */
  uint32_t has_joined; /* its join stands in the ring: nothing of it may come before */
};

/* ---- mapping ---- */

static void name_write(busq_trace_ring *ring, uint64_t position, const char *name, uint32_t bytes)
{
  for (uint32_t done = 0; done < bytes; done += BUSQ_TRACE_TEXT_BYTES) {
    busq_trace_record *more = busq_trace_ring_at(ring, position);
    const uint32_t left = bytes - done;
    more->kind = BUSQ_TRACE_MORE;
    memcpy(more->text, name + done, left < BUSQ_TRACE_TEXT_BYTES ? left : BUSQ_TRACE_TEXT_BYTES);
    busq_trace_ring_publish(ring, position++, BUSQ_TRACE_DONE);
  }
}

static uint64_t now_of(const busq_peer *peer)
{
  return busq_trace_now(busq_load_relaxed(&peer->tracer.generation));
}

/* Writes a join, which names the peer that writes into the ring from here on. */
static bool map_join(busq_peer *peer, busq_tracer_map *map)
{
  busq_trace_ring *ring = &map->ring;
  uint64_t position;
  const uint32_t bytes = peer->self->name_bytes <= BUSQ_LAYOUT_NAME_BYTES_MAX ? peer->self->name_bytes : 0;
  const uint32_t n_more = (bytes + BUSQ_TRACE_TEXT_BYTES - 1) / BUSQ_TRACE_TEXT_BYTES;
  if (!busq_trace_ring_reserve(ring, 1 + n_more, &position))
    return false;
  busq_trace_record *record = busq_trace_ring_at(ring, position);
  record->kind = BUSQ_TRACE_JOIN;
  record->flags = (uint8_t)((peer->tracer.is_fresh ? BUSQ_TRACE_FRESH : 0) |
                            (peer->life_flags & BUSQ_LIFE_CONSUMER ? BUSQ_TRACE_READER : 0));
  record->count = (uint16_t)bytes;
  record->dropped = (uint32_t)busq_trace_ring_dropped(ring);
  record->message = map->dropped;
  record->stamp = 0;
  record->time = record->end = now_of(peer);
  record->commit = 0;
  record->incarnation = peer->incarnation;
  record->slot = (uint16_t)peer->slot;
  name_write(ring, position + 1, peer->self->name, bytes);
  busq_trace_ring_publish(ring, position, BUSQ_TRACE_DONE);
  busq_store_release(&map->has_joined, 1);
  return true;
}

/* NULL where it can't be recorded. */
static busq_tracer_map *map_new(busq_peer *peer)
{
  busq_tracer_map *map = calloc(1, sizeof *map);
  if (!map)
    return NULL;
  if (busq_rings_open(&map->rings, peer->bus) != BUSQ_OK) {
    free(map);
    return NULL;
  }
  if (busq_rings_reserve(&map->rings, peer->slot) != BUSQ_OK) {
    busq_rings_close(&map->rings);
    free(map);
    return NULL;
  }
  busq_rings_close_file(&map->rings);
  map->ring = busq_rings_ring(&map->rings, peer->slot);
  map->dropped = busq_trace_ring_dropped(&map->ring);
  busq_store_relaxed(&map->ring.shared->began, busq_load_relaxed(&map->ring.shared->tail));
  busq_store_release(&map->ring.shared->is_there, 1);
  return map;
}

static void tracer_attach(busq_peer *peer, uint32_t generation)
{
  busq_tracer *tracer = &peer->tracer;
  busq_latch_acquire(&tracer->latch);
  if (tracer->generation != generation) {
    busq_tracer_map *map = map_new(peer);
    if (map)
      map->generation = generation;
    if (tracer->map) {
      busq_rings_abandon(&tracer->map->rings);
      tracer->map->next = tracer->old;
      tracer->old = tracer->map;
    }
    busq_store_release(&tracer->map, map);
    busq_store_release(&tracer->generation, generation);
  }
  if (tracer->map && !tracer->map->has_joined)
    (void)map_join(peer, tracer->map);
  busq_latch_release(&tracer->latch);
}

/* NULL where there is no recording, or it can't be recorded.  The join of a peer may still have to be written into its
 * ring. */
static busq_tracer_map *map_of(busq_peer *peer)
{
  const uint32_t generation = busq_load_acquire(&peer->bus->header->recording);
  if (!generation)
    return NULL;
  if (BUSQ_UNLIKELY(busq_load_acquire(&peer->tracer.generation) != generation))
    tracer_attach(peer, generation);
  busq_tracer_map *map = busq_load_acquire(&peer->tracer.map);
  if (BUSQ_UNLIKELY(map && !busq_load_acquire(&map->has_joined)))
    tracer_attach(peer, generation);
  return map;
}

/* The ring to write to, if there is room; else NULL, and so many events of a side are counted as dropped. */
static busq_trace_ring *ring_for(busq_peer *peer, busq_trace_side side, uint32_t n_events)
{
  busq_tracer_map *map = map_of(peer);
  if (!map)
    return NULL;
  if (BUSQ_LIKELY(busq_load_acquire(&map->has_joined) && busq_trace_ring_has_room(&map->ring)))
    return &map->ring;
  peer->tracer.full[side] = (busq_tracer_full){&map->ring, map->generation};
  busq_trace_ring_drop(&map->ring, side, n_events);
  return NULL;
}

static void map_free(busq_tracer_map *map)
{
  while (map) {
    busq_tracer_map *next = map->next;
    busq_rings_close(&map->rings);
    free(map);
    map = next;
  }
}

void busq_tracer_deinit(busq_peer *peer)
{
  free(peer->tracer.viewed.members);
  map_free(peer->tracer.old);
  map_free(peer->tracer.map);
}

/* ---- events ---- */

/* A record of `kind`, without a timestamp, to be completed and published; NULL where there is no ring, or no room in
 * it. */
static busq_trace_record *record_new(busq_trace_ring *ring, busq_trace_side side, uint32_t count, busq_trace_kind kind,
                                     uint64_t message, uint64_t time, uint64_t end, uint64_t *positionp)
{
  if (!ring)
    return NULL;
  if (BUSQ_UNLIKELY(!busq_trace_ring_reserve(ring, count, positionp))) {
    busq_trace_ring_drop(ring, side, 1);
    return NULL;
  }
  busq_trace_record *record = busq_trace_ring_at(ring, *positionp);
  record->kind = (uint8_t)kind;
  record->flags = 0;
  record->count = 0;
  record->dropped = (uint32_t)busq_trace_ring_dropped(ring);
  record->message = message;
  record->stamp = 0;
  record->time = time;
  record->end = end;
  record->commit = 0;
  return record;
}

/* Reserves records on the sending side. */
static void event_add(busq_peer *peer, busq_trace_kind kind, uint64_t message, uint64_t time, uint64_t end)
{
  uint64_t position;
  busq_trace_ring *ring = ring_for(peer, BUSQ_TRACE_SENDING, 1);
  if (record_new(ring, BUSQ_TRACE_SENDING, 1, kind, message, time, end, &position))
    busq_trace_ring_publish(ring, position, BUSQ_TRACE_DONE);
}

void busq_tracer_join(busq_peer *peer)
{
  peer->tracer.is_fresh = true;
  (void)map_of(peer);
  peer->tracer.is_fresh = false;
}

void busq_tracer_leave(busq_peer *peer)
{
  const uint64_t now = now_of(peer);
  busq_tracer_flush(peer);
  event_add(peer, BUSQ_TRACE_LEAVE, 0, now, now);
}

/* ---- sending ---- */

static busq_trace_destination destination_of(const busq_peer *peer, uint32_t slot)
{
  return (busq_trace_destination){(uint16_t)slot, (uint16_t)peer->sender.known[slot].incarnation};
}

/* A message of `n` destinations takes so many records. */
static uint32_t records_of(uint32_t n)
{
  return n <= BUSQ_TRACE_INLINE ? 1 : 1 + (n - BUSQ_TRACE_INLINE + BUSQ_TRACE_PER_MORE - 1) / BUSQ_TRACE_PER_MORE;
}

/* Into records that go on with one; the position of the last one. */
static uint64_t more_write(busq_trace_ring *ring, uint64_t position, const busq_trace_destination *to, uint32_t n)
{
  for (uint32_t done = 0; done < n; done += BUSQ_TRACE_PER_MORE) {
    busq_trace_record *more = busq_trace_ring_at(ring, ++position);
    more->kind = BUSQ_TRACE_MORE;
    for (uint32_t i = 0; i < BUSQ_TRACE_PER_MORE && done + i < n; i++)
      more->more[i] = to[done + i];
    busq_trace_ring_publish(ring, position, BUSQ_TRACE_DONE);
  }
  return position;
}

static uint64_t targets_write(busq_trace_ring *ring, uint64_t position, const busq_trace_destination *to, uint32_t n)
{
  busq_trace_record *record = busq_trace_ring_at(ring, position);
  record->count = (uint16_t)n;
  for (uint32_t i = 0; i < n && i < BUSQ_TRACE_INLINE; i++)
    record->to[i] = to[i];
  return n <= BUSQ_TRACE_INLINE ? position : more_write(ring, position, to + BUSQ_TRACE_INLINE, n - BUSQ_TRACE_INLINE);
}

/* What stands behind the last destination, of a message to a group and of one that a bridge re-sends. */
typedef struct {
  uint32_t group; /* 1 + its index; 0: none */
  uint64_t view;
  busq_wide wide;
  uint8_t flags; /* 0: there is nothing of it */
} send_detail;

/* A record that was filled just now, and that no other process knows. */
static send_detail detail_of(const busq_record *record, uint32_t n_targets, uint32_t group, uint64_t view)
{
  send_detail detail = {.group = group, .view = view, .flags = group ? BUSQ_TRACE_GROUP : 0};
  const uint32_t form = busq_record_form(record);
  if ((form & BUSQ_FORM_MAX) != BUSQ_FORM_WIDE)
    return detail;
  const uint64_t envelope = form & BUSQ_FORM_ENVELOPE ? sizeof(busq_envelope) : 0, bytes = record->size_bytes;
  if (bytes < envelope + sizeof detail.wide)
    return detail;
  const char *payload = (const char *)record + busq_record_payload_offset(n_targets, bytes);
  memcpy(&detail.wide, payload + bytes - envelope - sizeof detail.wide, sizeof detail.wide);
  if (detail.wide.index != BUSQ_WIDE_NONE)
    detail.flags |= (uint8_t)(BUSQ_TRACE_WIDE | (detail.wide.flags & BUSQ_WIDE_OWN ? BUSQ_TRACE_OWN : 0));
  return detail;
}

static void detail_write(busq_trace_ring *ring, uint64_t position, const send_detail *detail)
{
  busq_trace_record *more = busq_trace_ring_at(ring, position);
  more->kind = BUSQ_TRACE_MORE;
  more->sent.group = detail->group;
  more->sent.view = detail->flags & BUSQ_TRACE_WIDE ? detail->wide.view : detail->view;
  more->sent.place = detail->wide.place;
  more->sent.index = detail->wide.index;
  busq_trace_ring_publish(ring, position, BUSQ_TRACE_DONE);
}

/* Written down before the message can be seen anywhere; UINT64_MAX where there is no room. */
static uint64_t send_add(busq_trace_ring *ring, uint64_t message, const busq_trace_destination *to, uint32_t n,
                         uint64_t begun, const send_detail *detail)
{
  uint64_t position;
  busq_trace_record *record = record_new(ring, BUSQ_TRACE_SENDING, records_of(n) + (detail->flags != 0), BUSQ_TRACE_SEND,
                                         message, begun, 0, &position);
  if (!record)
    return UINT64_MAX;
  const uint64_t last = targets_write(ring, position, to, n);
  if (detail->flags) {
    record->flags = detail->flags;
    detail_write(ring, last + 1, detail);
  }
  busq_trace_ring_publish(ring, position, BUSQ_TRACE_BEGUN);
  return position;
}

void busq_tracer_send_begin(busq_peer *peer, const busq_record *record, uint32_t n_targets, uint32_t group, uint64_t view)
{
  enum { FEW = 16 };
  busq_tracer *tracer = &peer->tracer;
  busq_trace_destination few[FEW] = {0}, *to = few;
  tracer->ring = tracer->is_silent ? NULL : ring_for(peer, BUSQ_TRACE_SENDING, 1);
  if (!tracer->ring) {
    tracer->begun = 0; /* nothing more is recorded of this attempt */
    return;
  }
  if (tracer->blocked)
    event_add(peer, BUSQ_TRACE_BLOCK, peer->sender.sequence, tracer->blocked, now_of(peer));
  tracer->blocked = 0;
  if (n_targets > FEW)
    to = malloc(n_targets * sizeof *to);
  for (uint32_t i = 0; to && i < n_targets; i++)
    to[i] = destination_of(peer, peer->sender.destinations[i]);
  const send_detail detail = detail_of(record, n_targets, group, view);
  tracer->position = to ? send_add(tracer->ring, peer->sender.sequence, to, n_targets, tracer->begun, &detail)
                        : UINT64_MAX;
  if (tracer->position == UINT64_MAX)
    tracer->ring = NULL;
  if (to != few)
    free(to);
}

void busq_tracer_send_commit(busq_peer *peer)
{
  if (peer->tracer.ring)
    peer->tracer.commit = now_of(peer);
}

void busq_tracer_send_end(busq_peer *peer, uint64_t timestamp, int result)
{
  busq_tracer *tracer = &peer->tracer;
  if (!tracer->ring)
    return;
  busq_trace_record *record = busq_trace_ring_at(tracer->ring, tracer->position);
  const uint64_t end = now_of(peer);
  const uint64_t since = tracer->commit && result == BUSQ_OK ? end - tracer->commit : 0;
  if (result == BUSQ_FULL || result == BUSQ_AGAIN)
    record->kind = BUSQ_TRACE_VOID; /* it is tried again, under another number */
  else if (result != BUSQ_OK)
    record->kind = BUSQ_TRACE_ABORT;
  record->stamp = timestamp;
  record->end = end;
  record->commit = since <= UINT32_MAX ? (uint32_t)since : UINT32_MAX;
  busq_trace_ring_publish(tracer->ring, tracer->position, BUSQ_TRACE_DONE);
  tracer->commit = 0;
  tracer->ring = NULL;
}

/* A step of the send at hand, now; NULL where it is not recorded.  To be published. */
static busq_trace_record *step_new(busq_peer *peer, busq_trace_kind kind, uint64_t sequence, uint64_t timestamp,
                                   uint64_t *positionp)
{
  const uint64_t now = peer->tracer.ring ? now_of(peer) : 0;
  busq_trace_record *record = record_new(peer->tracer.ring, BUSQ_TRACE_SENDING, 1, kind, sequence, now, now, positionp);
  if (record)
    record->stamp = timestamp;
  return record;
}

void busq_tracer_stage(busq_peer *peer, uint64_t sequence, uint32_t slot, uint64_t timestamp)
{
  uint64_t position;
  busq_trace_record *record = step_new(peer, BUSQ_TRACE_STAGE, sequence, timestamp, &position);
  if (!record)
    return;
  record->count = 1;
  record->to[0] = destination_of(peer, slot);
  busq_trace_ring_publish(peer->tracer.ring, position, BUSQ_TRACE_DONE);
}

void busq_tracer_seal(busq_peer *peer, uint64_t sequence, uint64_t timestamp)
{
  uint64_t position;
  if (step_new(peer, BUSQ_TRACE_SEAL, sequence, timestamp, &position))
    busq_trace_ring_publish(peer->tracer.ring, position, BUSQ_TRACE_DONE);
}

void busq_tracer_send_timed_out(busq_peer *peer, uint64_t sequence)
{
  const uint64_t now = now_of(peer);
  if (peer->tracer.is_silent)
    return;
  if (peer->tracer.blocked)
    event_add(peer, BUSQ_TRACE_BLOCK, sequence, peer->tracer.blocked, now);
  event_add(peer, BUSQ_TRACE_ABORT, sequence, peer->tracer.begun, now);
}

/* ---- receiving ---- */

void busq_tracer_take(busq_peer *peer, const busq_tracer_taken *taken)
{
  if (peer->tracer.n_taken == BUSQ_TRACER_TAKEN_MAX)
    busq_tracer_flush(peer);
  peer->tracer.taken[peer->tracer.n_taken++] = *taken;
}

busq_tracer_viewed *busq_tracer_take_view(busq_peer *peer, const busq_tracer_taken *taken)
{
  busq_tracer *tracer = &peer->tracer;
  busq_tracer_viewed *viewed = &tracer->viewed;
  if (!viewed->members)
    viewed->members = malloc(peer->bus->geometry.peers * sizeof *viewed->members);
  for (uint32_t i = 0; i < tracer->n_taken; i++)
    if (tracer->taken[i].is_view) {
      busq_tracer_flush(peer);
      break;
    }
  busq_tracer_take(peer, taken);
  if (!viewed->members)
    return NULL;
  tracer->taken[tracer->n_taken - 1].is_view = true;
  return viewed;
}

/* A record of what was taken, to be published; NULL where there is no room. */
static busq_trace_record *taken_new(busq_tracer *tracer, busq_trace_ring *ring, const busq_tracer_taken *taken,
                                    uint64_t now, uint64_t *positionp)
{
  const busq_tracer_viewed *viewed = &tracer->viewed;
  const uint32_t n_more = taken->is_view ? (viewed->n_members + BUSQ_TRACE_PER_MORE - 1) / BUSQ_TRACE_PER_MORE : 0;
  busq_trace_record *record =
      record_new(ring, BUSQ_TRACE_RECEIVING, 1 + n_more, taken->kind, taken->message, now, now, positionp);
  if (!record || BUSQ_LIKELY(!taken->is_view))
    return record;
  record->flags = BUSQ_TRACE_GROUP;
  record->count = (uint16_t)viewed->n_members;
  record->end = viewed->number;
  record->commit = viewed->group;
  (void)more_write(ring, *positionp, viewed->members, viewed->n_members);
  return record;
}

/* The clock is read after everything that it stands for: a delivery is never recorded as earlier than it was. */
void busq_tracer_flush(busq_peer *peer)
{
  busq_tracer *tracer = &peer->tracer;
  busq_trace_ring *ring = tracer->n_taken ? ring_for(peer, BUSQ_TRACE_RECEIVING, tracer->n_taken) : NULL;
  const uint64_t now = ring ? now_of(peer) : 0;
  for (uint32_t i = 0; ring && i < tracer->n_taken; i++) {
    const busq_tracer_taken *taken = &tracer->taken[i];
    uint64_t position;
    busq_trace_record *record = taken_new(tracer, ring, taken, now, &position);
    if (!record)
      continue;
    record->stamp = taken->stamp;
    record->incarnation = taken->incarnation;
    record->slot = taken->slot;
    busq_trace_ring_publish(ring, position, BUSQ_TRACE_DONE);
  }
  tracer->n_taken = 0;
}

void busq_tracer_waited(busq_peer *peer, uint64_t since_ns)
{
  uint64_t position;
  busq_trace_ring *ring = peer->tracer.is_silent ? NULL : ring_for(peer, BUSQ_TRACE_RECEIVING, 1);
  busq_trace_record *record =
      record_new(ring, BUSQ_TRACE_RECEIVING, 1, BUSQ_TRACE_BLOCK, 0, since_ns, busq_time_host_ns(), &position);
  if (!record)
    return;
  record->flags = BUSQ_TRACE_PLAIN;
  busq_trace_ring_publish(ring, position, BUSQ_TRACE_DONE);
}

/* ---- for a protocol over the peer ---- */

uint64_t busq_tracer_app_send(busq_peer *peer, uint64_t message, const busq_trace_destination *to, uint32_t n,
                              uint64_t begun, uint64_t blocked)
{
  busq_trace_ring *ring = ring_for(peer, BUSQ_TRACE_SENDING, 1);
  if (ring && blocked)
    event_add(peer, BUSQ_TRACE_BLOCK, message, blocked, now_of(peer));
  peer->tracer.app_ring = ring;
  return ring ? send_add(ring, message, to, n, begun, &(send_detail){0}) : UINT64_MAX;
}

void busq_tracer_app_sent(busq_peer *peer, uint64_t position, bool has_returned)
{
  busq_trace_ring *ring = position == UINT64_MAX ? NULL : peer->tracer.app_ring;
  if (!ring)
    return;
  busq_trace_record *record = busq_trace_ring_at(ring, position);
  record->end = now_of(peer);
  record->flags = has_returned ? 0 : BUSQ_TRACE_OPEN;
  busq_trace_ring_publish(ring, position, BUSQ_TRACE_DONE);
}

void busq_tracer_app_waited(busq_peer *peer, uint64_t since)
{
  event_add(peer, BUSQ_TRACE_BLOCK, 0, since, now_of(peer));
}
