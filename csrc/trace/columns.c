/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/columns.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
  busq_trace_columns public; /* first: what is handed out is a pointer to it */
  uint64_t room;
  uint64_t room_to;
  uint64_t room_members;
} columns;

busq_trace_columns *busq_trace_columns_new(void)
{
  columns *self = calloc(1, sizeof *self);
  return self ? &self->public : NULL;
}

static bool grow(void *array, size_t bytes)
{
  void **place = array;
  void *grown = realloc(*place, bytes);
  if (grown)
    *place = grown;
  return grown != NULL;
}

/* A multiple of 8, so that bitmaps end with a byte; 64 bytes more than that where readers look at whole words. */
static bool columns_reserve(columns *self)
{
  busq_trace_columns *shown = &self->public;
  const uint64_t room = self->room ? 2 * self->room : 1024;
  const size_t bits = room / 8 + 64;
  if (!grow(&shown->position, room * 8) || !grow(&shown->message, room * 8) || !grow(&shown->stamp, room * 8) ||
      !grow(&shown->time_ns, room * 8) || !grow(&shown->commit_ns, room * 8) || !grow(&shown->end_ns, room * 8) ||
      !grow(&shown->view, room * 8) || !grow(&shown->place, room * 8) || !grow(&shown->place_index, room * 8) || !grow(&shown->group, room * 4 + 64) ||
      !grow(&shown->members_start, (room + 1) * 4) || !grow(&shown->has_group, bits) ||
      !grow(&shown->has_members, bits) || !grow(&shown->kind, room + 64) || !grow(&shown->label, room + 64) ||
      !grow(&shown->to_start, (room + 1) * 4) || !grow(&shown->has_message, bits) || !grow(&shown->has_stamp, bits) ||
      !grow(&shown->has_time, bits) || !grow(&shown->has_commit, bits) || !grow(&shown->has_end, bits) ||
      !grow(&shown->has_to, bits))
    return false;
  self->room = room;
  return true;
}

static bool items_reserve(int32_t **items, uint64_t *roomp, uint64_t n)
{
  uint64_t room = *roomp ? *roomp : 1024;
  while (room < n)
    room *= 2;
  if (room > INT32_MAX || !grow(items, room * 4))
    return false;
  *roomp = room;
  return true;
}

static inline void bit_put(uint8_t *bits, uint64_t at, bool value)
{
  if (at % 8 == 0)
    bits[at / 8] = 0;
  bits[at / 8] |= (uint8_t)((unsigned)value << (at % 8));
}

bool busq_trace_columns_add(busq_trace_columns *shown, const busq_trace_row *row)
{
  columns *self = (columns *)(void *)shown;
  const uint64_t at = shown->n_rows;
  const uint32_t n_to = row->to ? row->n_to : 0;
  const uint32_t n_members = row->members ? row->n_members : 0;
  if (BUSQ_UNLIKELY(at == self->room) && !columns_reserve(self))
    return false;
  if (BUSQ_UNLIKELY(shown->n_to + n_to > self->room_to) &&
      !items_reserve(&shown->to, &self->room_to, shown->n_to + n_to))
    return false;
  if (BUSQ_UNLIKELY(shown->n_members + n_members > self->room_members) &&
      !items_reserve(&shown->members, &self->room_members, shown->n_members + n_members))
    return false;
  shown->position[at] = row->position;
  shown->message[at] = row->message;
  shown->stamp[at] = row->stamp;
  shown->time_ns[at] = row->time_ns;
  shown->commit_ns[at] = row->commit_ns;
  shown->end_ns[at] = row->end_ns;
  shown->view[at] = row->view;
  shown->place[at] = row->place;
  shown->place_index[at] = row->place_index;
  shown->group[at] = row->group;
  shown->n_grouped += row->group >= 0;
  shown->kind[at] = row->kind;
  shown->label[at] = row->label;
  shown->n_labels += row->label != 0;
  bit_put(shown->has_message, at, row->has_message);
  bit_put(shown->has_stamp, at, row->has_stamp);
  bit_put(shown->has_time, at, row->has_time);
  bit_put(shown->has_commit, at, row->has_commit);
  bit_put(shown->has_end, at, row->has_end);
  bit_put(shown->has_to, at, row->to != NULL);
  bit_put(shown->has_group, at, row->group >= 0);
  bit_put(shown->has_members, at, row->members != NULL);
  shown->members_start[at] = (int32_t)shown->n_members;
  if (n_members)
    memcpy(shown->members + shown->n_members, row->members, n_members * sizeof *row->members);
  shown->n_members += n_members;
  shown->members_start[at + 1] = (int32_t)shown->n_members;
  shown->to_start[at] = (int32_t)shown->n_to;
  if (n_to)
    memcpy(shown->to + shown->n_to, row->to, n_to * sizeof *row->to);
  shown->n_to += n_to;
  shown->to_start[at + 1] = (int32_t)shown->n_to;
  shown->n_rows++;
  return true;
}

void busq_trace_columns_free(busq_trace_columns *shown)
{
  if (!shown)
    return;
  void *arrays[] = {shown->position,    shown->message,    shown->stamp,    shown->time_ns,       shown->commit_ns,
                    shown->end_ns,      shown->kind,       shown->label,    shown->to_start,      shown->to,
                    shown->has_message, shown->has_stamp,  shown->has_time, shown->has_commit,    shown->has_end,
                    shown->has_to,      shown->view,       shown->group,    shown->members_start, shown->members,
                    shown->has_group,   shown->has_members, shown->place,     shown->place_index};
  for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
    free(arrays[i]);
  free(shown);
}
