/* SPDX-License-Identifier: Apache-2.0 */
#include "base/assert.h"
#include "base/error.h"
#include "base/growing.h"
#include "record/recorder.h"

static bool queue_push(busq_source *from, const busq_trace_record *record)
{
  if (!busq_reserve_long(&from->queue, &from->room, from->n + 1, sizeof *from->queue))
    return false;
  from->queue[from->n++] = *record;
  return true;
}

static void source_begin(busq_recorder *self, uint32_t slot, uint32_t process)
{
  busq_source *from = &self->sources[slot];
  from->process = from->writer = process;
  self->processes[process].slot = slot;
  from->has_process = from->has_writer = from->is_new_life = true;
}

/* The join stands before what a recorder before us has taken. */
static int source_adopt(busq_recorder *self, uint32_t slot)
{
  const busq_source *from = &self->sources[slot];
  if (!busq_recorder_life_look_up(self, slot))
    return busq_recorder_ring_damaged(self, slot);
  source_begin(self, slot, from->lives[from->n_lives - 1].process);
  return BUSQ_OK;
}

/* The process of a join at a position of the ring, and a life of its slot; UINT32_MAX with an error. */
static uint32_t join_process(busq_recorder *self, uint32_t slot, const busq_trace_record *join, uint64_t position, int *result)
{
  char name[BUSQ_TRACE_TEXT_BYTES * 6];
  busq_source *from = &self->sources[slot];
  busq_trace_record more;
  const uint32_t n_more = busq_trace_records_after(join);
  *result = join->count && join->count <= BUSQ_LAYOUT_NAME_BYTES_MAX ? BUSQ_OK : busq_recorder_ring_damaged(self, slot);
  for (uint32_t i = 0; i < n_more && !*result; i++) {
    if (busq_trace_ring_look(&from->ring, position + 1 + i, &more) != BUSQ_TRACE_LOOK_DONE)
      *result = busq_recorder_ring_damaged(self, slot);
    else
      memcpy(name + i * BUSQ_TRACE_TEXT_BYTES, more.text, BUSQ_TRACE_TEXT_BYTES);
  }
  if (*result)
    return UINT32_MAX;
  const uint32_t index = join->flags & BUSQ_TRACE_READER ? busq_recorder_reader_find(self, name, join->count, slot)
                                                         : busq_recorder_process_find(self, name, join->count);
  if (index != UINT32_MAX && busq_source_life_add(from, join->incarnation, index))
    return index;
  *result = busq_recorder_no_memory(self);
  return UINT32_MAX;
}

/* The join that a recorder before us has taken stands in the ring until it is written over.  By now another peer may
 * have the slot. */
static int source_look_back(busq_recorder *self, uint32_t slot)
{
  const busq_source *from = &self->sources[slot];
  busq_trace_record record;
  for (uint64_t at = from->head; at-- > 0 && from->head - at <= from->ring.size;) {
    const busq_trace_look look = busq_trace_ring_look(&from->ring, at, &record);
    if (look == BUSQ_TRACE_LOOK_DONE && record.kind == BUSQ_TRACE_JOIN) {
      int result;
      const uint32_t index = join_process(self, slot, &record, at, &result);
      if (!result && !(from->has_process && from->process == index))
        source_begin(self, slot, index);
      return result;
    }
  }
  return BUSQ_OK;
}

/* The facts needed at once, so that deliveries find their sends: the writer, and which messages are its. */
static int record_note(busq_recorder *self, uint32_t slot, const busq_trace_record *record)
{
  busq_source *from = &self->sources[slot];
  if (!from->has_process) {
    const int result = self->facts.is_continued ? source_adopt(self, slot) : busq_recorder_ring_damaged(self, slot);
    if (result)
      return result;
  }
  if ((record->kind == BUSQ_TRACE_SEND || record->kind == BUSQ_TRACE_ABORT) &&
      !busq_recorder_segment_extend(self, from, record->message))
    return busq_recorder_no_memory(self);
  return BUSQ_OK;
}

/* `record` is a join whose name follows.  Rows of the same process in another slot come before its own. */
static int join_note(busq_recorder *self, uint32_t slot, busq_trace_record *record)
{
  busq_source *from = &self->sources[slot];
  int result;
  const uint32_t index = join_process(self, slot, record, from->head, &result);
  if (result)
    return result;
  const uint32_t before = self->processes[index].slot;
  self->processes[index].slot = slot;
  record->end = index;
  record->stamp = before != UINT32_MAX && before != slot ? before + UINT64_C(1) : 0;
  record->word = record->stamp ? self->sources[before].behind + self->sources[before].n : 0;
  from->process = index;
  from->has_process = from->is_new_life = true;
  return BUSQ_OK;
}

/* The head, and those that belong to it, or nothing: where one of them is damaged, a head alone would announce records
 * that are not there. A join needs its name no more, but the queue is read by the same rule for all. */
static int queue_push_all(busq_recorder *self, uint32_t slot, const busq_trace_record *record, uint32_t n_more)
{
  busq_source *from = &self->sources[slot];
  const uint64_t begin = from->n;
  busq_trace_record more = *record;
  int result = BUSQ_OK;
  for (uint32_t i = 0; i <= n_more && result == BUSQ_OK; i++) {
    if (i && busq_trace_ring_look(&from->ring, from->head + i, &more) != BUSQ_TRACE_LOOK_DONE)
      result = busq_recorder_ring_damaged(self, slot);
    else if (!queue_push(from, &more))
      result = busq_recorder_no_memory(self);
  }
  if (result)
    from->n = begin;
  return result;
}

/* Takes the record at the head, and those that belong to it. */
static int record_take(busq_recorder *self, uint32_t slot, busq_trace_record *record)
{
  busq_source *from = &self->sources[slot];
  const uint32_t n_more = busq_trace_records_after(record);
  int result = record->kind == BUSQ_TRACE_JOIN ? join_note(self, slot, record) : record_note(self, slot, record);
  if (result)
    return result;
  if (record->kind >= BUSQ_TRACE_MORE + 2 || record->kind == BUSQ_TRACE_MORE || n_more >= from->ring.size ||
      record->count > (record->kind == BUSQ_TRACE_JOIN ? BUSQ_LAYOUT_NAME_BYTES_MAX : self->bus->geometry.peers))
    return busq_recorder_ring_damaged(self, slot);
  from->seen = record->dropped;
  if (record->kind == BUSQ_TRACE_DELIVER && record->slot < self->bus->geometry.peers &&
      self->sources[record->slot].begun == record->message)
    self->sources[record->slot].is_delivered = true;
  result = queue_push_all(self, slot, record, n_more);
  if (result)
    return result;
  from->head += 1 + n_more;
  self->facts.events++;
  return BUSQ_OK;
}

/* A send that is not done: should its sender die in it, a receiver may have delivered it all the same. */
static int begun_note(busq_recorder *self, uint32_t slot, const busq_trace_record *record)
{
  busq_source *from = &self->sources[slot];
  if (from->begun == record->message)
    return BUSQ_OK;
  from->begun = record->message;
  from->is_delivered = false;
  for (uint32_t other = 0; other < self->bus->geometry.peers; other++) {
    const busq_source *to = &self->sources[other];
    for (uint64_t i = to->done; i < to->n; i += 1 + busq_trace_records_after(&to->queue[i]))
      from->is_delivered |= to->queue[i].kind == BUSQ_TRACE_DELIVER && to->queue[i].slot == slot &&
                            to->queue[i].message == record->message;
  }
  return record_note(self, slot, record);
}

/* The record at the head will not be finished: the thread that reserved it is gone. */
static bool head_is_orphaned(busq_recorder *self, uint32_t slot)
{
  busq_source *from = &self->sources[slot];
  enum { PASSES = 4 };
  if (from->stuck_at != from->head) {
    from->stuck_at = from->head;
    from->stuck = 0;
  }
  if (from->head < busq_load_acquire(&from->ring.shared->began))
    return true;
  /* The kernel is asked after a few passes, and about what was reserved before it was asked. */
  return ++from->stuck > PASSES && !busq_life_is_held(self->bus, slot);
}

static int head_skip(busq_recorder *self, uint32_t slot, bool is_begun, busq_trace_record *record)
{
  busq_source *from = &self->sources[slot];
  if (is_begun) {
    record->flags |= BUSQ_TRACE_ORPHAN;
    record->stamp = record->end = 0;
    return record_take(self, slot, record);
  }
  *record = (busq_trace_record){.kind = BUSQ_TRACE_GAP, .dropped = from->seen};
  from->head++;
  self->facts.gaps++;
  return queue_push(from, record) ? BUSQ_OK : busq_recorder_no_memory(self);
}

/* Takes what the ring holds, up to the next join. */
static int source_drain(busq_recorder *self, uint32_t slot)
{
  busq_source *from = &self->sources[slot];
  busq_trace_record record;
  int result = BUSQ_OK;
  while (result == BUSQ_OK && from->head < from->tail) {
    const busq_trace_look look = busq_trace_ring_look(&from->ring, from->head, &record);
    if (BUSQ_LIKELY(look == BUSQ_TRACE_LOOK_DONE)) {
      if (record.kind == BUSQ_TRACE_JOIN && !from->is_at_join) {
        from->is_at_join = true;
        from->join_time = record.time;
        break;
      }
      from->is_at_join = false;
      result = record_take(self, slot, &record);
    } else if (look == BUSQ_TRACE_LOOK_DAMAGED || look == BUSQ_TRACE_LOOK_NOTHING) {
      result = busq_recorder_ring_damaged(self, slot);
    } else {
      /* Others may deliver it already. */
      if (look == BUSQ_TRACE_LOOK_BEGUN)
        result = begun_note(self, slot, &record);
      if (result || !head_is_orphaned(self, slot))
        break;
      result = head_skip(self, slot, look == BUSQ_TRACE_LOOK_BEGUN, &record);
    }
  }
  BUSQ_ASSERT(from->done <= from->n && from->n <= from->room);
  /* SYNC POINT trace-head */
  busq_store_release(&from->ring.shared->head, from->head);
  return result;
}

static int source_look(busq_recorder *self, uint32_t slot)
{
  busq_source *from = &self->sources[slot];
  from->tail = busq_load_acquire(&from->ring.shared->tail);
  const uint64_t fill = from->tail - from->head;
  if (fill > from->ring.size)
    return busq_recorder_ring_damaged(self, slot);
  const uint32_t percent = (uint32_t)(fill * 100 / from->ring.size);
  self->facts.fill_percent = percent > self->facts.fill_percent ? percent : self->facts.fill_percent;
  const int result = self->facts.is_continued && !self->is_begun ? source_look_back(self, slot) : BUSQ_OK;
  return result || from->is_at_join ? result : source_drain(self, slot);
}

static int rings_look(busq_recorder *self)
{
  int result = BUSQ_OK;
  for (uint32_t slot = 0; slot < self->bus->geometry.peers; slot++)
    self->sources[slot].known = self->sources[slot].tail;
  for (uint32_t slot = 0; slot < self->bus->geometry.peers && !result; slot++) {
    if (!self->sources[slot].is_there)
      result = busq_recorder_source_find(self, slot);
    if (!result && self->sources[slot].is_there)
      result = source_look(self, slot);
  }
  return result;
}

/* The slot whose next record is the earliest join; UINT32_MAX where there is none. */
static uint32_t join_next(const busq_recorder *self)
{
  uint32_t first = UINT32_MAX;
  for (uint32_t slot = 0; slot < self->bus->geometry.peers; slot++)
    if (self->sources[slot].is_at_join &&
        (first == UINT32_MAX || self->sources[slot].join_time < self->sources[first].join_time))
      first = slot;
  return first;
}

uint64_t busq_source_left(const busq_source *from)
{
  const uint64_t left = busq_load_acquire(&from->ring.shared->tail) - from->head;
  return left <= from->ring.size ? left : 0;
}

int busq_recorder_source_find(busq_recorder *self, uint32_t slot)
{
  busq_source *from = &self->sources[slot];
  from->ring = busq_rings_ring(&self->rings, slot);
  if (!busq_load_acquire(&from->ring.shared->is_there))
    return BUSQ_OK;
  if (busq_rings_reserve(&self->rings, slot) != BUSQ_OK)
    return busq_error(BUSQ_NO_SPACE, "no space for the trace of bus \"%s\" beside it", self->bus->name);
  from->head = busq_load_acquire(&from->ring.shared->head);
  from->dropped = busq_load_relaxed(&from->ring.shared->told);
  from->marked = busq_load_relaxed(&from->ring.shared->saved);
  from->is_there = true;
  return BUSQ_OK;
}

int busq_recorder_drain(busq_recorder *self)
{
  int result = self->is_damaged ? BUSQ_CORRUPT : BUSQ_OK;
  self->facts.fill_percent = 0;
  for (uint32_t slot = 0; slot < self->bus->geometry.peers; slot++)
    self->sources[slot].settled = self->sources[slot].n;
  result = result ? result : rings_look(self);
  for (uint32_t slot; !result && (slot = join_next(self)) != UINT32_MAX;) {
    const busq_source *from = &self->sources[slot];
    /* It may have come since the other rings were read, and one of them may hold an earlier one by now. */
    result = from->head < from->known ? source_drain(self, slot) : rings_look(self);
  }
  self->is_begun = true;
  return result;
}
