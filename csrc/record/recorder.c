/* SPDX-License-Identifier: Apache-2.0 */
#include "record/recorder.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/time.h"
#include "shm/memory/mapping.h"
#include "trace/columns.h"
#include <stdlib.h>
#include <string.h>

#define LOCK_OF_RECORDER (INT64_C(1) << 42)
#define RINGS_BYTES_MAX (UINT64_C(256) << 20)

static uint64_t size_choose(const busq_bus *bus, uint32_t wanted)
{
  uint64_t size = wanted ? wanted : BUSQ_RINGS_SIZE_DEFAULT;
  while (!wanted && size > 1024 && size * bus->geometry.peers * sizeof(busq_trace_record) > RINGS_BYTES_MAX)
    size /= 2;
  return size;
}

/* Events that a former recorder had taken and not written are lost. */
static int source_continue(busq_recorder *self, uint32_t slot)
{
  busq_source *from = &self->sources[slot];
  const int result = busq_recorder_source_find(self, slot);
  if (result || !from->is_there)
    return result;
  const uint64_t saved = busq_load_relaxed(&from->ring.shared->saved);
  if (saved > from->head || busq_load_acquire(&from->ring.shared->tail) - from->head > from->ring.size)
    return busq_recorder_ring_damaged(self, slot);
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
  self->members = calloc(bus->geometry.peers, sizeof *self->members);
  int result = self->sources && self->to && self->members ? BUSQ_OK : busq_recorder_no_memory(self);
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
  /* From here on peers write.  The number is never 0, which means that there is no recording, and never that of a
   * recording which a peer may still have mapped. */
  const uint32_t mixed = (uint32_t)busq_hash_mix(busq_time_wall_ns()) << 2 | 2;
  if (!self->facts.is_continued)
    busq_store_release(&bus->header->recording, self->rings.scale.factor ? mixed | BUSQ_TRACE_TICKS : mixed);
  *recorderp = self;
  return BUSQ_OK;
}

int busq_recorder_know(busq_recorder *self, const char *name, size_t name_bytes, int64_t position, int64_t number)
{
  const uint32_t index = busq_recorder_process_find(self, name, name_bytes);
  if (index == UINT32_MAX)
    return busq_recorder_no_memory(self);
  self->processes[index].position = position;
  self->processes[index].number = number;
  return BUSQ_OK;
}

int busq_recorder_know_reader(busq_recorder *self, uint32_t index, uint32_t queue, uint32_t slot)
{
  if (index >= self->n_processes || queue >= self->n_processes || slot >= self->bus->geometry.peers)
    return busq_error(BUSQ_INVALID, "reader %u of queue %u in slot %u: expected processes that are known, and a slot",
                      index, queue, slot);
  busq_recorder_process *reader = &self->processes[index];
  memcpy(reader->name, self->processes[queue].name, sizeof reader->name);
  reader->name_bytes = self->processes[queue].name_bytes;
  reader->queue = queue;
  reader->reader_plus_1 = slot + 1;
  return BUSQ_OK;
}

/* Where a recorder before us has stopped in the same files, the writers and the numbers of their messages are known. */
int busq_recorder_resume(busq_recorder *self)
{
  for (uint32_t slot = 0; slot < self->bus->geometry.peers; slot++) {
    busq_source *from = &self->sources[slot];
    const uint32_t index = from->is_there ? busq_load_relaxed(&from->ring.shared->process_plus_1) : 0;
    if (!index)
      continue;
    const busq_segment last = {.first = busq_load_relaxed(&from->ring.shared->first),
                          .last = busq_load_relaxed(&from->ring.shared->last),
                          .number = busq_load_relaxed(&from->ring.shared->number),
                          .process = index - 1};
    if (index > self->n_processes || last.first > last.last || last.number < 0)
      return busq_recorder_ring_damaged(self, slot);
    from->process = from->writer = index - 1;
    from->has_process = from->has_writer = true;
    from->is_new_life = !last.first;
    if (last.first && !busq_source_segment_add(from, last))
      return busq_recorder_no_memory(self);
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

int busq_recorder_reader(busq_recorder *self, uint32_t index, uint32_t *queuep, uint32_t *slotp)
{
  if (index >= self->n_processes || !self->processes[index].reader_plus_1)
    return BUSQ_EMPTY;
  *queuep = self->processes[index].queue;
  *slotp = self->processes[index].reader_plus_1 - 1;
  return BUSQ_OK;
}

int busq_recorder_examine(busq_recorder *self, busq_recorder_facts *facts)
{
  *facts = self->facts;
  facts->processes = self->n_processes;
  facts->left = 0;
  for (uint32_t slot = 0; slot < self->bus->geometry.peers; slot++)
    facts->left += self->sources[slot].is_there ? busq_source_left(&self->sources[slot]) : 0;
  return BUSQ_OK;
}

/* A peer that is gone has written all that it will write, as long as there is a recording. */
void busq_recorder_look_for_dead(busq_recorder *self)
{
  for (uint32_t slot = 0; slot < self->bus->geometry.peers; slot++) {
    busq_source *from = &self->sources[slot];
    from->is_gone = from->is_there && !busq_life_is_held(self->bus, slot);
    if (from->is_gone)
      from->gone_at = busq_load_acquire(&from->ring.shared->tail);
  }
}

void busq_recorder_stop(busq_recorder *self)
{
  busq_recorder_look_for_dead(self);
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
  free(self->members);
  free(self->groups);
  free(self);
}

/* ---- rows, and how far they were written ---- */

void busq_recorder_take(busq_recorder *self, uint32_t index, busq_trace_columns **columnsp)
{
  if (index >= self->n_processes)
    return;
  *columnsp = self->processes[index].columns;
  self->processes[index].columns = NULL;
}

void busq_recorder_mark(busq_recorder *self)
{
  for (uint32_t slot = 0; slot < self->bus->geometry.peers; slot++) {
    busq_source *from = &self->sources[slot];
    from->marked = from->head - (from->n - from->done);
    from->marked_dropped = from->dropped;
    from->marked_segment = from->n_segments ? from->segments[from->n_segments - 1] : (busq_segment){0};
    from->marked_process_plus_1 = from->has_process ? from->process + 1 : 0;
  }
}

void busq_recorder_saved(busq_recorder *self)
{
  for (uint32_t slot = 0; slot < self->bus->geometry.peers; slot++) {
    busq_source *from = &self->sources[slot];
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
