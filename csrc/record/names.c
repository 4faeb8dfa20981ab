/* SPDX-License-Identifier: Apache-2.0 */
#include "record/recorder.h"
#include "base/growing.h"

/* ---- names ---- */

static bool is_called(const busq_recorder_process *process, const char *name, size_t bytes)
{
  return process->name_bytes == bytes && memcmp(process->name, name, bytes) == 0;
}

static uint32_t process_add(busq_recorder *self, const char *name, size_t bytes)
{
  if (bytes > BUSQ_LAYOUT_NAME_BYTES_MAX ||
      !busq_reserve(&self->processes, &self->room_processes, self->n_processes + UINT64_C(1), sizeof *self->processes))
    return UINT32_MAX;
  busq_recorder_process *found = &self->processes[self->n_processes];
  memset(found, 0, sizeof *found);
  memcpy(found->name, name, bytes);
  found->name_bytes = bytes;
  found->number = 1;
  found->slot = UINT32_MAX;
  found->queue = self->n_processes;
  return self->n_processes++;
}

uint32_t busq_recorder_process_find(busq_recorder *self, const char *name, size_t bytes)
{
  for (uint32_t i = 0; i < self->n_processes; i++)
    if (self->processes[i].queue == i && is_called(&self->processes[i], name, bytes))
      return i;
  return process_add(self, name, bytes);
}

uint32_t busq_recorder_reader_find(busq_recorder *self, const char *name, size_t bytes, uint32_t slot)
{
  const uint32_t queue = busq_recorder_process_find(self, name, bytes);
  if (queue == UINT32_MAX)
    return queue;
  for (uint32_t i = 0; i < self->n_processes; i++)
    if (self->processes[i].queue == queue && self->processes[i].reader_plus_1 == slot + 1)
      return i;
  const uint32_t index = self->processes[queue].reader_plus_1 ? process_add(self, name, bytes) : queue;
  if (index == UINT32_MAX)
    return index;
  self->processes[index].queue = queue;
  self->processes[index].reader_plus_1 = slot + 1;
  return index;
}

bool busq_source_life_add(busq_source *from, uint32_t incarnation, uint32_t index)
{
  if (!busq_reserve(&from->lives, &from->room_lives, from->n_lives + UINT64_C(1), sizeof *from->lives))
    return false;
  from->lives[from->n_lives++] = (busq_source_life){incarnation, index};
  return true;
}

bool busq_recorder_life_look_up(busq_recorder *self, uint32_t slot)
{
  if (slot >= busq_slots_reached(self->bus))
    return false;
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
  const uint32_t index = word & BUSQ_LIFE_CONSUMER ? busq_recorder_reader_find(self, name, bytes, slot)
                                                   : busq_recorder_process_find(self, name, bytes);
  return index != UINT32_MAX && busq_source_life_add(&self->sources[slot], (uint32_t)(word >> 32), index);
}

uint32_t busq_recorder_life_find(busq_recorder *self, uint32_t slot, uint32_t incarnation, uint32_t mask)
{
  busq_source *from = &self->sources[slot];
  for (int is_again = 0; is_again < 2; is_again++) {
    for (uint32_t i = from->n_lives; i-- > 0;)
      if (((from->lives[i].incarnation ^ incarnation) & mask) == 0)
        return from->lives[i].process;
    if (is_again || !busq_recorder_life_look_up(self, slot))
      break;
  }
  return UINT32_MAX;
}

/* ---- numbers of messages ---- */

bool busq_source_segment_add(busq_source *from, busq_segment added)
{
  if (!busq_reserve(&from->segments, &from->room_segments, from->n_segments + UINT64_C(1), sizeof *from->segments))
    return false;
  from->segments[from->n_segments++] = added;
  return true;
}

bool busq_recorder_segment_extend(busq_recorder *self, busq_source *from, uint64_t sequence)
{
  busq_recorder_process *sender = &self->processes[from->process];
  busq_segment *last = from->n_segments ? &from->segments[from->n_segments - 1] : NULL;
  if (last && sequence <= last->last && sequence >= last->first)
    return true;
  if (last && !from->is_new_life && sequence > last->last) {
    last->last = sequence;
  } else {
    if (!busq_source_segment_add(from, (busq_segment){sequence, sequence, sender->number, from->process}))
      return false;
    last = &from->segments[from->n_segments - 1];
    from->is_new_life = false;
  }
  sender->number = last->number + (int64_t)(last->last - last->first) + 1;
  return true;
}

int64_t busq_source_message(const busq_source *from, uint64_t sequence)
{
  for (uint32_t i = from->n_segments; i-- > 0;) {
    const busq_segment *found = &from->segments[i];
    if (sequence >= found->first && sequence <= found->last)
      return (int64_t)found->process << 32 | ((found->number + (int64_t)(sequence - found->first)) & UINT32_MAX);
  }
  return 0;
}
