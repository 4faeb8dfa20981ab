/* SPDX-License-Identifier: Apache-2.0 */
#include "record/recorder.h"
#include "shm/burial/grave.h"
#include "shm/memory/units.h"
#include "trace/columns.h"
#include <string.h>

typedef struct {
  busq_recorder *self;
  busq_source *from;
  busq_recorder_process *writer;
  uint64_t at; /* in the queue */
} translation;

static int64_t time_of(const translation *now, const busq_trace_record *record, uint64_t time)
{
  if (!time || (record->flags & BUSQ_TRACE_PLAIN))
    return (int64_t)time;
  return (int64_t)busq_trace_ns(&now->self->rings.scale, time);
}

static bool row_add(const translation *now, busq_trace_row *row)
{
  if (!now->writer->columns)
    now->writer->columns = busq_trace_columns_new();
  row->position = now->writer->position;
  if (!now->writer->columns || !busq_trace_columns_add(now->writer->columns, row))
    return false;
  now->writer->position++;
  return true;
}

/* So many events are missing here. */
static bool gap_add(const translation *now, uint64_t count, uint8_t label)
{
  busq_trace_row row = {
      .kind = BUSQ_TRACE_GAP, .group = -1, .stamp = (int64_t)count, .has_stamp = true, .label = label};
  const bool is_added = row_add(now, &row);
  now->writer->position += (int64_t)count;
  return is_added;
}

static busq_trace_destination destination_at(const translation *now, uint32_t i)
{
  const busq_trace_record *record = &now->from->queue[now->at];
  if (i < BUSQ_TRACE_INLINE)
    return record->to[i];
  i -= BUSQ_TRACE_INLINE;
  return record[1 + i / BUSQ_TRACE_PER_MORE].more[i % BUSQ_TRACE_PER_MORE];
}

static void row_destinations(const translation *now, busq_trace_row *row)
{
  busq_recorder *self = now->self;
  const uint32_t n = now->from->queue[now->at].count;
  row->to = self->to;
  for (uint32_t i = 0; i < n && i < self->bus->geometry.peers; i++) {
    const busq_trace_destination to = destination_at(now, i);
    if (to.slot >= self->bus->geometry.peers)
      continue;
    const uint32_t index = busq_recorder_life_find(self, to.slot, to.incarnation, 0xffff);
    if (index != UINT32_MAX)
      self->to[row->n_to++] = (int32_t)index;
  }
}

/* False where memory ran out. */
static bool row_group(const translation *now, busq_trace_row *row, uint32_t group, uint64_t view)
{
  uint64_t base;
  if (!busq_recorder_group_find(now->self, group - 1, view, &row->group, &base))
    return false;
  row->view = (int64_t)(view - base);
  return true;
}

/* In the order in which the view names them. */
static void row_members(const translation *now, busq_trace_row *row)
{
  busq_recorder *self = now->self;
  const busq_trace_record *record = &now->from->queue[now->at];
  row->members = self->members;
  for (uint32_t i = 0; i < record->count && i < self->bus->geometry.peers; i++) {
    const busq_trace_destination member = record[1 + i / BUSQ_TRACE_PER_MORE].more[i % BUSQ_TRACE_PER_MORE];
    const bool is_slot = member.slot < self->bus->geometry.peers;
    const uint32_t index = is_slot ? busq_recorder_life_find(self, member.slot, member.incarnation, 0xffff)
                                   : UINT32_MAX;
    self->members[row->n_members++] = index == UINT32_MAX ? -1 : (int32_t)index;
  }
}

static bool send_add(const translation *now, const busq_trace_record *record)
{
  busq_trace_row row = {
      .kind = record->kind,
      .message = busq_source_message(now->from, record->message),
      .stamp = (int64_t)record->stamp,
      .time_ns = time_of(now, record, record->time),
      .end_ns = time_of(now, record, record->end),
      .commit_ns = time_of(now, record, record->end - record->commit),
      .has_message = true,
      .has_stamp = record->stamp != 0,
      .has_time = true,
      .has_end = record->end != 0 && !(record->flags & BUSQ_TRACE_OPEN),
      .has_commit = record->end != 0 && record->kind == BUSQ_TRACE_SEND,
      .label = record->flags & BUSQ_TRACE_ORPHAN ? BUSQ_LABEL_UNFINISHED : BUSQ_LABEL_NONE,
      .group = -1,
  };
  row_destinations(now, &row);
  const busq_trace_record *last = record + busq_trace_records_after(record);
  if ((record->flags & BUSQ_TRACE_GROUP) && !row_group(now, &row, last->sent.group, last->sent.view))
    return false;
  if (record->flags & BUSQ_TRACE_WIDE) {
    row.label = record->flags & BUSQ_TRACE_OWN ? BUSQ_LABEL_WIDE_OWN : BUSQ_LABEL_WIDE;
    row.place = (int64_t)last->sent.place;
    row.place_index = last->sent.index;
    row.view = (int64_t)last->sent.view;
  }
  return row_add(now, &row);
}

static bool delivery_add(const translation *now, const busq_trace_record *record)
{
  busq_recorder *self = now->self;
  const int64_t message =
      record->slot < self->bus->geometry.peers ? busq_source_message(&self->sources[record->slot], record->message) : 0;
  busq_trace_row row = {
      .kind = message ? record->kind : BUSQ_TRACE_LOCAL,
      .message = message,
      .stamp = (int64_t)record->stamp,
      .time_ns = time_of(now, record, record->time),
      .has_message = message != 0,
      .has_stamp = record->stamp != 0,
      .has_time = true,
      .label = message ? BUSQ_LABEL_NONE : BUSQ_LABEL_BEFORE,
      .group = -1,
  };
  if (record->flags & BUSQ_TRACE_GROUP) {
    row_members(now, &row);
    if (!row_group(now, &row, record->commit, record->end))
      return false;
  }
  if (record->kind == BUSQ_TRACE_PASS)
    return !message || row_add(now, &row);
  self->facts.before += message == 0;
  return row_add(now, &row);
}

static bool other_add(const translation *now, const busq_trace_record *record)
{
  const bool is_wait = record->kind == BUSQ_TRACE_BLOCK;
  busq_trace_row row = {
      .kind = record->kind,
      .message = record->message ? busq_source_message(now->from, record->message) : 0,
      .stamp = (int64_t)record->stamp,
      .time_ns = time_of(now, record, record->time),
      .end_ns = time_of(now, record, record->end),
      .has_message = record->message != 0,
      .has_stamp = record->stamp != 0,
      .has_time = true,
      .has_end = is_wait,
      .group = -1,
  };
  if (record->kind == BUSQ_TRACE_STAGE)
    row_destinations(now, &row);
  return row_add(now, &row);
}

static bool join_add(const translation *now, const busq_trace_record *record)
{
  busq_trace_row row = {
      .kind = BUSQ_TRACE_JOIN, .group = -1, .time_ns = time_of(now, record, record->time), .has_time = true};
  return row_add(now, &row);
}

static void life_note(busq_source *from, uint8_t kind)
{
  from->has_ended = kind == BUSQ_TRACE_LEAVE || (from->has_ended && kind != BUSQ_TRACE_JOIN);
  from->is_at_work = !from->has_ended; /* a thread that waited may write behind it */
}

/* The writer of a ring will write nothing more there, and has no row of leaving. */
static bool death_add(const translation *now, busq_source *from)
{
  busq_trace_row row = {.kind = BUSQ_TRACE_DIE, .group = -1};
  const bool has_died = from->is_at_work && !from->lost && busq_trace_ring_dropped(&from->ring) == from->dropped;
  const translation its = {.self = now->self, .from = from, .writer = &now->self->processes[from->writer]};
  from->is_at_work = false;
  from->has_ended = true;
  return !has_died || row_add(&its, &row);
}

/* Writes rows for the events that were dropped before there were `then` of them.  Of two threads of a peer, the one
 * that reserved first may have looked last: a count below what was written is written already. */
static bool dropped_add(const translation *now, uint64_t then)
{
  busq_source *from = now->from;
  if (then <= from->dropped || then > busq_trace_ring_dropped(&from->ring))
    return true;
  const uint64_t count = then - from->dropped;
  from->dropped = then;
  now->self->facts.dropped += count;
  return gap_add(now, count, BUSQ_LABEL_NONE);
}

/* Writes a row for the events that a recorder before us had taken and not written. */
static bool lost_add(const translation *now)
{
  const uint64_t count = now->from->lost;
  now->from->lost = 0;
  now->self->facts.lost += count;
  return !count || gap_add(now, count, BUSQ_LABEL_KILLED);
}

/* A record has the last bits of how many there were. */
static uint64_t dropped_before(const busq_source *from, const busq_trace_record *record)
{
  const uint64_t now = busq_trace_ring_dropped(&from->ring);
  return now - (uint32_t)((uint32_t)now - record->dropped);
}

static bool record_translate(const translation *now)
{
  const busq_trace_record *record = &now->from->queue[now->at];
  busq_source *from = now->from;
  if (!lost_add(now) || !dropped_add(now, dropped_before(from, record)))
    return false;
  switch (record->kind) {
  case BUSQ_TRACE_SEND:
  case BUSQ_TRACE_ABORT:
    return send_add(now, record);
  case BUSQ_TRACE_DELIVER:
  case BUSQ_TRACE_REDELIVER:
  case BUSQ_TRACE_PASS:
    return delivery_add(now, record);
  case BUSQ_TRACE_GAP:
    return gap_add(now, 1, BUSQ_LABEL_DIED);
  case BUSQ_TRACE_VOID:
    return true;
  case BUSQ_TRACE_JOIN:
    return !(record->flags & BUSQ_TRACE_FRESH) || join_add(now, record);
  default:
    return other_add(now, record);
  }
}

/* Does the message stand in the queue of a peer that has not received it yet? */
static bool queue_holds(const busq_bus *bus, uint32_t slot, uint32_t sender, uint64_t sequence)
{
  const busq_ring ring = busq_bus_ring(bus, slot);
  uint64_t head = busq_load_acquire(&ring.queue->head);
  const uint64_t tail = busq_ring_tail(&ring);
  busq_reference reference;
  for (; head < tail && tail - head <= ring.slot_count; head++)
    if (busq_ring_look(&ring, head, &reference) && busq_tag_sequence(reference.tag) == sequence &&
        busq_bus_has_units(bus, reference.record + UINT64_C(1)) &&
        busq_record_sender(busq_bus_record(bus, reference.record)) == sender &&
        busq_load_acquire(&busq_bus_record(bus, reference.record)->state.lo) == (reference.tag | BUSQ_PHASE_COMMITTED))
      return true;
  return false;
}

/* The sender died in this send: what became of it, its receivers' events show, or still will.  False where that is not
 * certain yet. */
static bool orphan_is_settled(busq_recorder *self, busq_source *from, bool is_all)
{
  enum { PASSES = 50 };
  busq_trace_record *record = &from->queue[from->done];
  const translation now = {.self = self, .from = from, .at = from->done};
  const uint32_t slot = (uint32_t)(from - self->sources);
  if (from->begun == record->message && from->is_delivered)
    return true;
  (void)busq_grave_bury_all(self->bus); /* its burial finishes the message, or takes it back */
  for (uint32_t i = 0; i < record->count; i++) {
    const uint32_t to = destination_at(&now, i).slot;
    if (to < busq_slots_reached(self->bus) && queue_holds(self->bus, to, slot, record->message))
      return true;
  }
  if (from->patience++ < PASSES && !is_all)
    return false;
  from->patience = 0;
  record->kind = BUSQ_TRACE_ABORT;
  return true;
}

/* Rows of the process's life in another slot come first. */
static bool join_may_go(const busq_recorder *self, const busq_trace_record *record)
{
  const busq_source *before = record->stamp ? &self->sources[record->stamp - 1] : NULL;
  return !before || before->behind + before->done >= record->word;
}

static void queue_shrink(busq_source *from)
{
  if (!from->done || (from->done < from->n && from->done < from->room / 2))
    return;
  memmove(from->queue, from->queue + from->done, (from->n - from->done) * sizeof *from->queue);
  from->behind += from->done;
  from->n -= from->done;
  from->settled -= from->settled < from->done ? from->settled : from->done;
  from->done = 0;
}

/* Another peer has the slot: what the one before it dropped, or a killed recorder, is reported in its log. */
static bool writer_change(translation *now, const busq_trace_record *join)
{
  busq_source *from = now->from;
  busq_source *before = join->stamp ? &now->self->sources[join->stamp - 1] : from;
  now->writer = &now->self->processes[from->writer];
  if (from->has_writer && (!death_add(now, from) || !lost_add(now) || !dropped_add(now, join->message)))
    return false;
  from->writer = (uint32_t)join->end;
  from->has_writer = true;
  return before == from || before->writer != from->writer || death_add(now, before);
}

static int source_settle(busq_recorder *self, busq_source *from, bool is_all)
{
  translation now = {.self = self, .from = from};
  const uint64_t end = is_all ? from->n : from->settled;
  while (from->done < end) {
    const busq_trace_record *record = &from->queue[from->done];
    now.at = from->done;
    if (record->kind == BUSQ_TRACE_JOIN && !join_may_go(self, record))
      break;
    if (record->kind == BUSQ_TRACE_SEND && (record->flags & BUSQ_TRACE_ORPHAN) &&
        !orphan_is_settled(self, from, is_all))
      break;
    if (record->kind == BUSQ_TRACE_JOIN && !writer_change(&now, record))
      return busq_recorder_no_memory(self);
    const uint32_t n_more = busq_trace_records_after(record);
    /* Of a writer that died before its join was written, there is only a hole, and no peer whose gap it could be. */
    if (from->has_process) {
      now.writer = &self->processes[from->writer];
      if (!record_translate(&now))
        return busq_recorder_no_memory(self);
      life_note(from, record->kind);
    }
    from->done += 1 + n_more;
  }
  if (from->is_gone && from->done == from->n && from->head == from->gone_at && !busq_source_left(from) &&
      !death_add(&now, from))
    return busq_recorder_no_memory(self);
  queue_shrink(from);
  return BUSQ_OK;
}

/* Events at the end with nothing behind them: those that were dropped, and those behind a record that is not
 * finished. */
static int source_end(busq_recorder *self, busq_source *from)
{
  translation now = {.self = self, .from = from};
  if (!from->has_writer)
    return BUSQ_OK;
  now.writer = &self->processes[from->writer];
  const uint64_t left = busq_source_left(from);
  self->facts.dropped += left;
  return (!left || gap_add(&now, left, BUSQ_LABEL_NONE)) && dropped_add(&now, busq_trace_ring_dropped(&from->ring))
             ? BUSQ_OK
             : busq_recorder_no_memory(self);
}

int busq_recorder_settle(busq_recorder *self, int is_all)
{
  int result = BUSQ_OK;
  bool is_moving = true; /* a join may wait for the rows of another slot, which come later here */
  while (is_moving && !result) {
    is_moving = false;
    for (uint32_t slot = 0; slot < self->bus->geometry.peers && !result; slot++) {
      busq_source *from = &self->sources[slot];
      const uint64_t before = from->behind + from->done;
      if (from->is_there)
        result = source_settle(self, from, is_all);
      is_moving |= from->behind + from->done != before;
    }
  }
  for (uint32_t slot = 0; slot < self->bus->geometry.peers && !result && is_all; slot++)
    if (self->sources[slot].is_there)
      result = source_end(self, &self->sources[slot]);
  return result;
}
