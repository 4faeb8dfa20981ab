/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/collect.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/time.h"
#include "shm/life.h"
#include "shm/region.h"
#include "shm/rings.h"
#include "trace/columns.h"
#include <stdlib.h>
#include <string.h>

/* ---- who is who ---- */

/* A run of messages of one slot whose numbers rise with their sequence numbers. */
typedef struct {
  uint64_t first; /* sequence numbers */
  uint64_t last;
  int64_t number; /* of the first */
  uint32_t process;
} segment;

typedef struct {
  uint32_t incarnation;
  uint32_t process;
} life;

typedef struct {
  busq_trace_ring ring;
  bool is_there;
  uint64_t head;
  uint64_t stuck_at; /* where a record that is not done was seen, and since how many passes */
  uint32_t stuck;
  uint64_t dropped; /* told so far */
  /* What was drained and is not translated. */
  busq_trace_record *queue;
  uint64_t n;
  uint64_t room;
  uint64_t done;
  uint64_t settled; /* of them were there a pass ago: the sends that they need are known */
  uint64_t marked;  /* the ring's position up to which rows were taken, and how many dropped events they tell */
  uint64_t marked_dropped;
  segment marked_segment;
  uint32_t marked_process_plus_1;
  uint32_t seen;    /* how many events had been dropped, by the last record */
  segment *segments;
  uint32_t n_segments;
  uint32_t room_segments;
  life *lives;
  uint32_t n_lives;
  uint32_t room_lives;
  uint32_t process; /* of the peer that writes now */
  uint32_t writer;  /* the same, as far as rows were made */
  bool has_process;
  bool has_writer;
  bool is_new_life; /* the next send begins a segment */
  uint64_t begun;     /* the send that was seen begun, and not done: has anybody delivered it? */
  bool is_delivered;
  uint32_t patience;  /* passes for which a send whose sender is dead was waited for */
  uint64_t lost;    /* events that a recorder before us had taken and not written; not told so far */
} source;

typedef struct {
  char name[BUSQ_LAYOUT_NAME_BYTES_MAX + 1];
  size_t name_bytes;
  int64_t position;
  int64_t number; /* of its next message */
  uint32_t slot;  /* where it wrote last */
  busq_trace_columns *columns;
} process;

struct busq_recorder {
  busq_bus *bus;
  busq_rings rings;
  busq_guard guard;
  int lock_fd;
  bool is_stopped;
  bool is_damaged;
  source *sources; /* [peers] */
  process *processes;
  uint32_t n_processes;
  uint32_t room_processes;
  int32_t *to; /* [peers], scratch */
  busq_recorder_facts facts;
};

static int no_memory(const busq_recorder *self)
{
  return busq_error(BUSQ_NO_SPACE, "no memory to record bus \"%s\"", self->bus->name);
}

/* Room for one more of `bytes` each; false where there is none. */
static bool array_reserve(void *array, uint32_t n, uint32_t *room, size_t bytes)
{
  void **place = array;
  if (n < *room)
    return true;
  const uint32_t wanted = *room ? 2 * *room : 8;
  void *grown = realloc(*place, wanted * bytes);
  if (!grown)
    return false;
  *place = grown;
  *room = wanted;
  return true;
}

/* The index of a name, which is new where it was not known; UINT32_MAX where there is no memory. */
static uint32_t process_find(busq_recorder *self, const char *name, size_t bytes)
{
  for (uint32_t i = 0; i < self->n_processes; i++)
    if (self->processes[i].name_bytes == bytes && memcmp(self->processes[i].name, name, bytes) == 0)
      return i;
  if (bytes > BUSQ_LAYOUT_NAME_BYTES_MAX ||
      !array_reserve(&self->processes, self->n_processes, &self->room_processes, sizeof *self->processes))
    return UINT32_MAX;
  process *found = &self->processes[self->n_processes];
  memset(found, 0, sizeof *found);
  memcpy(found->name, name, bytes);
  found->name_bytes = bytes;
  found->number = 1;
  found->slot = UINT32_MAX;
  return self->n_processes++;
}

static bool life_add(source *from, uint32_t incarnation, uint32_t index)
{
  if (!array_reserve(&from->lives, from->n_lives, &from->room_lives, sizeof *from->lives))
    return false;
  from->lives[from->n_lives++] = (life){incarnation, index};
  return true;
}

/* Who has the slot now, as the bus tells it. */
static bool life_look_up(busq_recorder *self, uint32_t slot)
{
  busq_slot *peer = &self->bus->slots[slot];
  char name[BUSQ_LAYOUT_NAME_BYTES_MAX + 1];
  const uint64_t word = busq_load_acquire(&peer->life);
  const uint32_t state = (uint32_t)word & BUSQ_LIFE_MASK;
  const uint32_t bytes = busq_load_relaxed(&peer->name_bytes);
  if (state == BUSQ_LIFE_FREE || state == BUSQ_LIFE_JOINING || bytes == 0 || bytes > BUSQ_LAYOUT_NAME_BYTES_MAX)
    return false;
  memcpy(name, peer->name, bytes);
  busq_fence_full();
  if (busq_load_acquire(&peer->life) >> 32 != word >> 32)
    return false;
  const uint32_t index = process_find(self, name, bytes);
  return index != UINT32_MAX && life_add(&self->sources[slot], (uint32_t)(word >> 32), index);
}

/* The process behind a slot in a life, of whose incarnation at least the last bits are known. */
static uint32_t life_find(busq_recorder *self, uint32_t slot, uint32_t incarnation, uint32_t mask)
{
  source *from = &self->sources[slot];
  for (int is_again = 0; is_again < 2; is_again++) {
    for (uint32_t i = from->n_lives; i-- > 0;)
      if (((from->lives[i].incarnation ^ incarnation) & mask) == 0)
        return from->lives[i].process;
    if (is_again || !life_look_up(self, slot))
      break;
  }
  return UINT32_MAX;
}

/* ---- numbers of messages ---- */

/* A message was sent by whoever writes into this ring. */
static bool segment_extend(busq_recorder *self, source *from, uint64_t sequence)
{
  process *sender = &self->processes[from->process];
  segment *last = from->n_segments ? &from->segments[from->n_segments - 1] : NULL;
  if (last && sequence <= last->last && sequence >= last->first)
    return true;
  if (last && !from->is_new_life && sequence > last->last) {
    last->last = sequence;
  } else {
    if (!array_reserve(&from->segments, from->n_segments, &from->room_segments, sizeof *from->segments))
      return false;
    last = &from->segments[from->n_segments++];
    *last = (segment){sequence, sequence, sender->number, from->process};
    from->is_new_life = false;
  }
  sender->number = last->number + (int64_t)(last->last - last->first) + 1;
  return true;
}

/* 0 where the message was sent before the recording began, or its send was dropped and none has come since. */
static int64_t message_of(const source *from, uint64_t sequence)
{
  for (uint32_t i = from->n_segments; i-- > 0;) {
    const segment *found = &from->segments[i];
    if (sequence >= found->first && sequence <= found->last)
      return (int64_t)found->process << 32 | ((found->number + (int64_t)(sequence - found->first)) & UINT32_MAX);
  }
  return 0;
}

/* ---- out of the rings ---- */

static bool queue_push(source *from, const busq_trace_record *record)
{
  if (from->n == from->room) {
    const uint64_t room = from->room ? 2 * from->room : 4096;
    busq_trace_record *grown = realloc(from->queue, room * sizeof *grown);
    if (!grown)
      return false;
    from->queue = grown;
    from->room = room;
  }
  from->queue[from->n++] = *record;
  return true;
}

static int ring_damaged(busq_recorder *self, uint32_t slot)
{
  self->is_damaged = true;
  return busq_error(BUSQ_CORRUPT, "the ring of peer slot %u in the trace of bus \"%s\" is damaged; what was written before stays: remove .busq-*-trace beside the bus, and record again",
                    slot, self->bus->name);
}

/* The records that a head announces, and that are reserved together with it. */
static uint32_t records_after(const busq_trace_record *record)
{
  if (record->kind == BUSQ_TRACE_JOIN)
    return (record->count + BUSQ_TRACE_TEXT_BYTES - 1u) / BUSQ_TRACE_TEXT_BYTES;
  if ((record->kind == BUSQ_TRACE_SEND || record->kind == BUSQ_TRACE_ABORT || record->kind == BUSQ_TRACE_VOID) &&
      record->count > BUSQ_TRACE_INLINE)
    return (record->count - BUSQ_TRACE_INLINE + BUSQ_TRACE_PER_MORE - 1u) / BUSQ_TRACE_PER_MORE;
  return 0;
}

/* The join stands before what a recorder before us has taken. */
static int source_adopt(busq_recorder *self, uint32_t slot)
{
  source *from = &self->sources[slot];
  if (!life_look_up(self, slot))
    return ring_damaged(self, slot);
  from->process = from->writer = from->lives[from->n_lives - 1].process;
  self->processes[from->process].slot = slot;
  from->has_process = from->has_writer = from->is_new_life = true;
  return BUSQ_OK;
}

/* What is known at once, so that deliveries find the sends they need: who writes, and which messages are his. */
static int record_note(busq_recorder *self, uint32_t slot, const busq_trace_record *record)
{
  source *from = &self->sources[slot];
  if (!from->has_process) {
    const int result = self->facts.is_continued ? source_adopt(self, slot) : ring_damaged(self, slot);
    if (result)
      return result;
  }
  if ((record->kind == BUSQ_TRACE_SEND || record->kind == BUSQ_TRACE_ABORT) &&
      !segment_extend(self, from, record->message))
    return no_memory(self);
  return BUSQ_OK;
}

static int source_drain(busq_recorder *self, uint32_t slot);

/* `record` is a join whose name follows.  What the same process wrote in another slot comes before it. */
static int join_note(busq_recorder *self, uint32_t slot, busq_trace_record *record)
{
  source *from = &self->sources[slot];
  char name[BUSQ_TRACE_TEXT_BYTES * 6];
  busq_trace_record more;
  const uint32_t n_more = records_after(record);
  if (record->count == 0 || record->count > BUSQ_LAYOUT_NAME_BYTES_MAX)
    return ring_damaged(self, slot);
  for (uint32_t i = 0; i < n_more; i++) {
    if (busq_trace_ring_look(&from->ring, from->head + 1 + i, &more) != BUSQ_TRACE_LOOK_DONE)
      return ring_damaged(self, slot);
    memcpy(name + i * BUSQ_TRACE_TEXT_BYTES, more.text, BUSQ_TRACE_TEXT_BYTES);
  }
  const uint32_t index = process_find(self, name, record->count);
  if (index == UINT32_MAX || !life_add(from, record->incarnation, index))
    return no_memory(self);
  const uint32_t before = self->processes[index].slot;
  self->processes[index].slot = slot;
  record->end = index;
  record->stamp = before != UINT32_MAX && before != slot ? before + UINT64_C(1) : 0;
  from->process = index;
  from->has_process = from->is_new_life = true;
  return record->stamp ? source_drain(self, before) : BUSQ_OK;
}

static bool is_delivery_of(const busq_trace_record *record, uint32_t slot, uint64_t message)
{
  return record->kind == BUSQ_TRACE_DELIVER && record->slot == slot && record->message == message;
}

/* Takes the record at the head, and those that belong to it. */
static int record_take(busq_recorder *self, uint32_t slot, busq_trace_record *record)
{
  source *from = &self->sources[slot];
  const uint32_t n_more = records_after(record);
  busq_trace_record more;
  int result = record->kind == BUSQ_TRACE_JOIN ? join_note(self, slot, record) : record_note(self, slot, record);
  if (result)
    return result;
  if (record->kind >= BUSQ_TRACE_MORE + 2 || record->kind == BUSQ_TRACE_MORE || n_more >= from->ring.size ||
      record->count > (record->kind == BUSQ_TRACE_JOIN ? BUSQ_LAYOUT_NAME_BYTES_MAX : self->bus->geometry.peers))
    return ring_damaged(self, slot);
  from->seen = record->dropped;
  if (record->kind == BUSQ_TRACE_DELIVER && record->slot < self->bus->geometry.peers &&
      self->sources[record->slot].begun == record->message)
    self->sources[record->slot].is_delivered = true;
  if (!queue_push(from, record))
    return no_memory(self);
  /* A join needs its name no more, but who reads the queue goes by the same rule for all. */
  for (uint32_t i = 0; i < n_more; i++) {
    if (busq_trace_ring_look(&from->ring, from->head + 1 + i, &more) != BUSQ_TRACE_LOOK_DONE)
      return ring_damaged(self, slot);
    if (!queue_push(from, &more))
      return no_memory(self);
  }
  from->head += 1 + n_more;
  self->facts.events++;
  return BUSQ_OK;
}

/* A send that is not done: should its sender die in it, somebody may have delivered it all the same. */
static int begun_note(busq_recorder *self, uint32_t slot, const busq_trace_record *record)
{
  source *from = &self->sources[slot];
  if (from->begun == record->message)
    return BUSQ_OK;
  from->begun = record->message;
  from->is_delivered = false;
  for (uint32_t other = 0; other < self->bus->geometry.peers; other++) {
    const source *to = &self->sources[other];
    for (uint64_t i = to->done; i < to->n; i += 1 + records_after(&to->queue[i]))
      if (is_delivery_of(&to->queue[i], slot, record->message))
        from->is_delivered = true;
  }
  return record_note(self, slot, record);
}

/* Nobody will finish what stands at the head: who reserved it is gone. */
static bool head_is_orphaned(busq_recorder *self, uint32_t slot)
{
  source *from = &self->sources[slot];
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
  source *from = &self->sources[slot];
  if (is_begun) {
    record->flags = BUSQ_TRACE_ORPHAN;
    record->stamp = record->end = 0;
    return record_take(self, slot, record);
  }
  *record = (busq_trace_record){.kind = BUSQ_TRACE_GAP, .dropped = from->seen};
  from->head++;
  self->facts.gaps++;
  return queue_push(from, record) ? BUSQ_OK : no_memory(self);
}

static int source_drain(busq_recorder *self, uint32_t slot)
{
  source *from = &self->sources[slot];
  busq_trace_record record;
  int result = BUSQ_OK;
  const uint64_t tail = busq_load_acquire(&from->ring.shared->tail);
  const uint64_t fill = tail - from->head;
  if (fill > from->ring.size)
    return ring_damaged(self, slot);
  const uint32_t percent = (uint32_t)(fill * 100 / from->ring.size);
  self->facts.fill_percent = percent > self->facts.fill_percent ? percent : self->facts.fill_percent;
  while (result == BUSQ_OK && from->head < tail) {
    const busq_trace_look look = busq_trace_ring_look(&from->ring, from->head, &record);
    if (BUSQ_LIKELY(look == BUSQ_TRACE_LOOK_DONE)) {
      result = record_take(self, slot, &record);
    } else if (look == BUSQ_TRACE_LOOK_DAMAGED || look == BUSQ_TRACE_LOOK_NOTHING) {
      result = ring_damaged(self, slot);
    } else {
      /* Others may deliver it already. */
      if (look == BUSQ_TRACE_LOOK_BEGUN)
        result = begun_note(self, slot, &record);
      if (result || !head_is_orphaned(self, slot))
        break;
      result = head_skip(self, slot, look == BUSQ_TRACE_LOOK_BEGUN, &record);
    }
  }
  /* SYNC POINT trace-head */
  busq_store_release(&from->ring.shared->head, from->head);
  return result;
}

/* Records of a ring that were not taken yet. */
static uint64_t records_left(const source *from)
{
  const uint64_t left = busq_load_acquire(&from->ring.shared->tail) - from->head;
  return left <= from->ring.size ? left : 0;
}

/* A ring that has come since. */
static int source_find(busq_recorder *self, uint32_t slot)
{
  source *from = &self->sources[slot];
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
  for (uint32_t slot = 0; slot < self->bus->geometry.peers && !result; slot++) {
    if (!self->sources[slot].is_there)
      result = source_find(self, slot);
    if (!result && self->sources[slot].is_there)
      result = source_drain(self, slot);
  }
  return result;
}

/* ---- into columns ---- */

typedef struct {
  busq_recorder *self;
  source *from;
  process *writer;
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
  busq_trace_row row = {.kind = BUSQ_TRACE_GAP, .stamp = (int64_t)count, .has_stamp = true, .label = label};
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
    const uint32_t index = life_find(self, to.slot, to.incarnation, 0xffff);
    if (index != UINT32_MAX)
      self->to[row->n_to++] = (int32_t)index;
  }
}

static bool send_add(const translation *now, const busq_trace_record *record)
{
  busq_trace_row row = {
      .kind = record->kind,
      .message = message_of(now->from, record->message),
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
  };
  row_destinations(now, &row);
  return row_add(now, &row);
}

static bool delivery_add(const translation *now, const busq_trace_record *record)
{
  busq_recorder *self = now->self;
  const int64_t message =
      record->slot < self->bus->geometry.peers ? message_of(&self->sources[record->slot], record->message) : 0;
  busq_trace_row row = {
      .kind = message ? record->kind : BUSQ_TRACE_LOCAL,
      .message = message,
      .stamp = (int64_t)record->stamp,
      .time_ns = time_of(now, record, record->time),
      .has_message = message != 0,
      .has_stamp = record->stamp != 0,
      .has_time = true,
      .label = message ? BUSQ_LABEL_NONE : BUSQ_LABEL_BEFORE,
  };
  self->facts.before += message == 0;
  return row_add(now, &row);
}

static bool other_add(const translation *now, const busq_trace_record *record)
{
  const bool is_wait = record->kind == BUSQ_TRACE_BLOCK;
  busq_trace_row row = {
      .kind = record->kind,
      .message = record->message ? message_of(now->from, record->message) : 0,
      .stamp = (int64_t)record->stamp,
      .time_ns = time_of(now, record, record->time),
      .end_ns = time_of(now, record, record->end),
      .has_message = record->message != 0,
      .has_stamp = record->stamp != 0,
      .has_time = true,
      .has_end = is_wait,
  };
  if (record->kind == BUSQ_TRACE_STAGE)
    row_destinations(now, &row);
  return row_add(now, &row);
}

static bool join_add(const translation *now, const busq_trace_record *record)
{
  busq_trace_row row = {.kind = BUSQ_TRACE_JOIN, .time_ns = time_of(now, record, record->time), .has_time = true};
  return row_add(now, &row);
}

/* Tells the events that were dropped before there were `then` of them.  Of two threads of a peer, the one that reserved first may have
 * looked last: what is less than was told is told already. */
static bool dropped_add(const translation *now, uint64_t then)
{
  source *from = now->from;
  if (then <= from->dropped || then > busq_trace_ring_dropped(&from->ring))
    return true;
  const uint64_t count = then - from->dropped;
  from->dropped = then;
  now->self->facts.dropped += count;
  return gap_add(now, count, BUSQ_LABEL_NONE);
}

/* A record has the last bits of how many there were. */
static uint64_t dropped_before(const source *from, const busq_trace_record *record)
{
  const uint64_t now = busq_trace_ring_dropped(&from->ring);
  return now - (uint32_t)((uint32_t)now - record->dropped);
}

static bool record_translate(const translation *now)
{
  const busq_trace_record *record = &now->from->queue[now->at];
  source *from = now->from;
  if (from->lost) {
    now->self->facts.lost += from->lost;
    if (!gap_add(now, from->lost, BUSQ_LABEL_KILLED))
      return false;
    from->lost = 0;
  }
  if (!dropped_add(now, dropped_before(from, record)))
    return false;
  switch (record->kind) {
  case BUSQ_TRACE_SEND:
  case BUSQ_TRACE_ABORT:
    return send_add(now, record);
  case BUSQ_TRACE_DELIVER:
  case BUSQ_TRACE_REDELIVER:
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

/* Does the message stand in the queue of somebody who has not received it yet? */
static bool queue_holds(const busq_bus *bus, uint32_t slot, uint32_t sender, uint64_t sequence)
{
  const busq_ring ring = busq_bus_ring(bus, slot);
  uint64_t head = busq_load_acquire(&ring.queue->head);
  const uint64_t tail = busq_ring_tail(&ring);
  busq_reference reference;
  for (; head < tail && tail - head <= ring.slot_count; head++)
    if (busq_ring_look(&ring, head, &reference) && reference.sender == sender &&
        busq_tag_sequence(reference.tag) == sequence && reference.record < busq_bus_units(bus) &&
        busq_load_acquire(&busq_bus_record(bus, reference.record)->state.lo) == (reference.tag | BUSQ_PHASE_COMMITTED))
      return true;
  return false;
}

/* A send whose sender died in it: what became of it is told by whoever got it, or still will.  False where that is not certain
 * yet. */
static bool orphan_is_settled(busq_recorder *self, source *from, bool is_all)
{
  enum { PASSES = 50 };
  busq_trace_record *record = &from->queue[from->done];
  const translation now = {.self = self, .from = from, .at = from->done};
  const uint32_t slot = (uint32_t)(from - self->sources);
  if (from->begun == record->message && from->is_delivered)
    return true;
  (void)busq_life_reclaim(self->bus); /* its burial finishes the message, or takes it back */
  for (uint32_t i = 0; i < record->count; i++) {
    const uint32_t to = destination_at(&now, i).slot;
    if (to < self->bus->geometry.peers && queue_holds(self->bus, to, slot, record->message))
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
  const source *before = record->stamp ? &self->sources[record->stamp - 1] : NULL;
  return !before || before->done == before->n;
}

static void queue_shrink(source *from)
{
  if (!from->done || (from->done < from->n && from->done < from->room / 2))
    return;
  memmove(from->queue, from->queue + from->done, (from->n - from->done) * sizeof *from->queue);
  from->n -= from->done;
  from->settled -= from->settled < from->done ? from->settled : from->done;
  from->done = 0;
}

/* Another peer has the slot: what the one before it dropped is told in its log. */
static bool writer_change(translation *now, const busq_trace_record *join)
{
  source *from = now->from;
  now->writer = &now->self->processes[from->writer];
  if (from->has_writer && !dropped_add(now, join->message))
    return false;
  from->writer = (uint32_t)join->end;
  from->has_writer = true;
  return true;
}

static int source_settle(busq_recorder *self, source *from, bool is_all)
{
  translation now = {.self = self, .from = from};
  const uint64_t end = is_all ? from->n : from->settled;
  while (from->done < end) {
    const busq_trace_record *record = &from->queue[from->done];
    now.at = from->done;
    if (record->kind == BUSQ_TRACE_JOIN && !is_all && !join_may_go(self, record))
      break;
    if (record->kind == BUSQ_TRACE_SEND && (record->flags & BUSQ_TRACE_ORPHAN) && !orphan_is_settled(self, from, is_all))
      break;
    if (record->kind == BUSQ_TRACE_JOIN && !writer_change(&now, record))
      return no_memory(self);
    const uint32_t n_more = records_after(record);
    /* Of a writer that died before its join was written, there is only a hole, and nobody whose gap it could be. */
    if (from->has_process) {
      now.writer = &self->processes[from->writer];
      if (!record_translate(&now))
        return no_memory(self);
    }
    from->done += 1 + n_more;
  }
  queue_shrink(from);
  return BUSQ_OK;
}

/* Events at the end with nothing behind them: those that were dropped, and those behind a record that somebody has not finished. */
static int source_end(busq_recorder *self, source *from)
{
  translation now = {.self = self, .from = from};
  if (!from->has_writer)
    return BUSQ_OK;
  now.writer = &self->processes[from->writer];
  const uint64_t left = records_left(from);
  self->facts.dropped += left;
  return (!left || gap_add(&now, left, BUSQ_LABEL_NONE)) && dropped_add(&now, busq_trace_ring_dropped(&from->ring))
             ? BUSQ_OK
             : no_memory(self);
}

int busq_recorder_settle(busq_recorder *self, int is_all)
{
  int result = BUSQ_OK;
  for (uint32_t slot = 0; slot < self->bus->geometry.peers && !result; slot++)
    if (self->sources[slot].is_there)
      result = source_settle(self, &self->sources[slot], is_all);
  for (uint32_t slot = 0; slot < self->bus->geometry.peers && !result && is_all; slot++)
    if (self->sources[slot].is_there)
      result = source_end(self, &self->sources[slot]);
  return result;
}

busq_trace_columns *busq_recorder_take(busq_recorder *self, uint32_t index)
{
  if (index >= self->n_processes)
    return NULL;
  busq_trace_columns *taken = self->processes[index].columns;
  self->processes[index].columns = NULL;
  return taken;
}

void busq_recorder_mark(busq_recorder *self)
{
  for (uint32_t slot = 0; slot < self->bus->geometry.peers; slot++) {
    source *from = &self->sources[slot];
    from->marked = from->head - (from->n - from->done);
    from->marked_dropped = from->dropped;
    from->marked_segment = from->n_segments ? from->segments[from->n_segments - 1] : (segment){0};
    from->marked_process_plus_1 = from->has_process ? from->process + 1 : 0;
  }
}

void busq_recorder_saved(busq_recorder *self)
{
  for (uint32_t slot = 0; slot < self->bus->geometry.peers; slot++) {
    source *from = &self->sources[slot];
    if (!from->is_there)
      continue;
    busq_store_relaxed(&from->ring.shared->told, from->marked_dropped);
    busq_store_relaxed(&from->ring.shared->first, from->marked_segment.first);
    busq_store_relaxed(&from->ring.shared->last, from->marked_segment.last);
    busq_store_relaxed(&from->ring.shared->number, from->marked_segment.number);
    busq_store_relaxed(&from->ring.shared->process_plus_1, from->marked_process_plus_1);
    busq_store_release(&from->ring.shared->saved, from->marked);
  }
}

/* ---- the whole of it ---- */

#define LOCK_OF_RECORDER (INT64_C(1) << 42)
#define RINGS_BYTES_MAX (UINT64_C(256) << 20)

static uint64_t size_choose(const busq_bus *bus, uint32_t wanted)
{
  uint64_t size = wanted ? wanted : BUSQ_RINGS_SIZE_DEFAULT;
  while (!wanted && size > 1024 && size * bus->geometry.peers * sizeof(busq_trace_record) > RINGS_BYTES_MAX)
    size /= 2;
  return size;
}

/* What a recorder before us had taken and not written is gone. */
static int source_continue(busq_recorder *self, uint32_t slot)
{
  source *from = &self->sources[slot];
  const int result = source_find(self, slot);
  if (result || !from->is_there)
    return result;
  const uint64_t saved = busq_load_relaxed(&from->ring.shared->saved);
  if (saved > from->head || busq_load_acquire(&from->ring.shared->tail) - from->head > from->ring.size)
    return ring_damaged(self, slot);
  from->lost = from->head - saved;
  from->marked = saved;
  return BUSQ_OK;
}

static int recorder_rings(busq_recorder *self, uint32_t ring_records)
{
  busq_bus *bus = self->bus;
  if (ring_records && (ring_records < BUSQ_RINGS_SIZE_MIN || ring_records > BUSQ_RINGS_SIZE_MAX ||
                       (ring_records & (ring_records - 1))))
    return busq_error(BUSQ_INVALID, "rings of %u records: expected a power of two from %u to %u", ring_records,
                      (unsigned)BUSQ_RINGS_SIZE_MIN, (unsigned)BUSQ_RINGS_SIZE_MAX);
  int result = busq_load_relaxed(&bus->header->recording) ? busq_rings_open(&self->rings, bus) : BUSQ_NOT_FOUND;
  self->facts.is_continued = result == BUSQ_OK;
  for (uint32_t slot = 0; slot < bus->geometry.peers && !result; slot++)
    result = source_continue(self, slot);
  return result == BUSQ_NOT_FOUND ? busq_rings_create(&self->rings, bus, size_choose(bus, ring_records)) : result;
}

/* Never 0, and never that of a recording that a peer may still have mapped. */
static uint32_t recorder_generation(const busq_recorder *self)
{
  const uint32_t mixed = (uint32_t)busq_hash_mix(busq_time_wall_ns()) << 2 | 2;
  return self->rings.scale.factor ? mixed | BUSQ_TRACE_TICKS : mixed;
}

int busq_recorder_open(busq_bus *bus, uint32_t ring_records, busq_recorder **recorderp)
{
  busq_recorder *self = calloc(1, sizeof *self);
  if (!self)
    return busq_error(BUSQ_NO_SPACE, "no memory for a recorder");
  busq_bus_retain(bus);
  self->bus = bus;
  self->lock_fd = self->rings.fd = -1;
  self->sources = calloc(bus->geometry.peers, sizeof *self->sources);
  self->to = calloc(bus->geometry.peers, sizeof *self->to);
  int result = self->sources && self->to ? BUSQ_OK : no_memory(self);
  if (!result)
    result = busq_guard_open(&self->guard, bus, &self->lock_fd);
  if (!result && busq_lock_try(self->lock_fd, LOCK_OF_RECORDER) < 0)
    result = busq_error(BUSQ_EXISTS, "somebody else records bus \"%s\"; a bus has one recorder at a time", bus->name);
  if (!result)
    result = recorder_rings(self, ring_records);
  if (result) {
    busq_recorder_free(self);
    return result;
  }
  self->facts.ring_records = (uint32_t)self->rings.size;
  /* From here on peers write.  0 means that nobody records. */
  if (!self->facts.is_continued)
    busq_store_release(&bus->header->recording, recorder_generation(self));
  *recorderp = self;
  return BUSQ_OK;
}

int busq_recorder_know(busq_recorder *self, const char *name, size_t name_bytes, int64_t position, int64_t number)
{
  const uint32_t index = process_find(self, name, name_bytes);
  if (index == UINT32_MAX)
    return no_memory(self);
  self->processes[index].position = position;
  self->processes[index].number = number;
  return BUSQ_OK;
}

/* Where a recorder before us has stopped in the same files, the writers and the numbers of their messages are known. */
int busq_recorder_resume(busq_recorder *self)
{
  for (uint32_t slot = 0; slot < self->bus->geometry.peers; slot++) {
    source *from = &self->sources[slot];
    const uint32_t index = from->is_there ? busq_load_relaxed(&from->ring.shared->process_plus_1) : 0;
    if (!index)
      continue;
    const segment last = {.first = busq_load_relaxed(&from->ring.shared->first),
                          .last = busq_load_relaxed(&from->ring.shared->last),
                          .number = busq_load_relaxed(&from->ring.shared->number),
                          .process = index - 1};
    if (index > self->n_processes || last.first > last.last || last.number < 0)
      return ring_damaged(self, slot);
    from->process = from->writer = index - 1;
    from->has_process = from->has_writer = true;
    from->is_new_life = !last.first;
    if (last.first && !array_reserve(&from->segments, from->n_segments, &from->room_segments, sizeof *from->segments))
      return no_memory(self);
    if (last.first)
      from->segments[from->n_segments++] = last;
    self->processes[index - 1].slot = slot;
  }
  return BUSQ_OK;
}

int busq_recorder_name(busq_recorder *self, uint32_t index, char *name, size_t *name_bytesp)
{
  if (index >= self->n_processes)
    return BUSQ_EMPTY;
  *name_bytesp = self->processes[index].name_bytes;
  memcpy(name, self->processes[index].name, self->processes[index].name_bytes);
  return BUSQ_OK;
}

int busq_recorder_examine(busq_recorder *self, busq_recorder_facts *facts)
{
  *facts = self->facts;
  facts->processes = self->n_processes;
  facts->left = 0;
  for (uint32_t slot = 0; slot < self->bus->geometry.peers; slot++)
    facts->left += self->sources[slot].is_there ? records_left(&self->sources[slot]) : 0;
  return BUSQ_OK;
}

void busq_recorder_stop(busq_recorder *self)
{
  busq_store_release(&self->bus->header->recording, 0);
  self->is_stopped = true;
}

void busq_recorder_free(busq_recorder *self)
{
  if (!self)
    return;
  if (self->is_stopped)
    busq_rings_unlink(self->bus);
  for (uint32_t slot = 0; self->sources && slot < self->bus->geometry.peers; slot++) {
    free(self->sources[slot].queue);
    free(self->sources[slot].segments);
    free(self->sources[slot].lives);
  }
  for (uint32_t i = 0; i < self->n_processes; i++)
    busq_trace_columns_free(self->processes[i].columns);
  busq_rings_close(&self->rings);
  if (self->lock_fd >= 0)
    busq_guard_close(&self->guard);
  busq_bus_free(self->bus);
  free(self->processes);
  free(self->sources);
  free(self->to);
  free(self);
}
