/* SPDX-License-Identifier: Apache-2.0 */
#include "base/growing.h"
#include "record/recorder.h"
#include "shm/message/claim.h"

/* The entry's name now, if it is that of a group: it has a name before, and the same one after.  While it gets another
 * one it has none, and what stands there may be half of the old one and half of the new one. */
static bool entry_read(const busq_bus *bus, uint32_t index, busq_recorder_group_life *life)
{
  busq_group *group = busq_bus_group(bus, index);
  const busq_pair before = busq_numbered_load(&group->identity);
  const uint32_t bytes = busq_load_relaxed(&group->name_bytes);
  if (!before.hi || bytes < 2 || bytes >= sizeof group->name || group->name[0] != '@')
    return false;
  *life = (busq_recorder_group_life){.index = index, .base = busq_load_relaxed(&group->base), .named = before.lo, .name_bytes = bytes - 1};
  memcpy(life->name, group->name + 1, bytes - 1);
  busq_fence_full();
  return busq_load_acquire(&group->identity.lo) == before.lo;
}

/* The latest life that began before the view; -1: none is known. */
static int32_t life_of(const busq_recorder *self, uint32_t index, uint64_t view)
{
  int32_t found = -1;
  for (uint32_t i = 0; i < self->n_groups; i++) {
    const busq_recorder_group_life *life = &self->groups[i];
    if (life->index == index && life->base < view && (found < 0 || self->groups[found].base < life->base))
      found = (int32_t)i;
  }
  return found;
}

/* The next of the lives that are known; NULL: there is none. */
static const busq_recorder_group_life *life_behind(const busq_recorder *self, const busq_recorder_group_life *life)
{
  const busq_recorder_group_life *found = NULL;
  for (uint32_t i = 0; i < self->n_groups; i++) {
    const busq_recorder_group_life *other = &self->groups[i];
    if (other->index == life->index && other->base > life->base && (!found || other->base < found->base))
      found = other;
  }
  return found;
}

/* A group that came and went between two looks has its views between those of two others. Views that were written for a
 * life by then are its own; all else between them belongs to no group, for members and senders alike: the audit misses
 * the last views of a life, and no part of one. */
static bool is_its_own(const busq_recorder *self, const busq_recorder_group_life *life, uint64_t view,
                       uint64_t named_now)
{
  const busq_recorder_group_life *behind = life_behind(self, life);
  const bool is_followed = behind ? behind->named - life->named <= 2 : named_now - life->named <= 1;
  return is_followed || view <= life->last;
}

static bool is_known(const busq_recorder *self, const busq_recorder_group_life *life)
{
  for (uint32_t i = 0; i < self->n_groups; i++)
    if (self->groups[i].index == life->index && self->groups[i].base == life->base)
      return true;
  return false;
}

/* An entry gets another name only while the group is empty, so the base of its present life shows whether the view
 * belongs to it: a view of an earlier life is below, and is looked for among those that were seen. */
bool busq_recorder_group_find(busq_recorder *self, uint32_t index, uint64_t view, int32_t *groupp, uint64_t *basep)
{
  busq_recorder_group_life now;
  *groupp = -1;
  *basep = 0;
  if (index >= self->bus->geometry.groups)
    return true;
  if (entry_read(self->bus, index, &now) && !is_known(self, &now)) {
    if (!busq_reserve(&self->groups, &self->room_groups, self->n_groups + UINT64_C(1), sizeof *self->groups))
      return false;
    self->groups[self->n_groups++] = now;
  }
  const int32_t found = life_of(self, index, view);
  const uint64_t named_now = busq_load_acquire(&busq_bus_group(self->bus, index)->identity.lo);
  if (found < 0 || !is_its_own(self, &self->groups[found], view, named_now))
    return true;
  *groupp = found;
  *basep = self->groups[found].base;
  if (self->groups[found].last < view)
    self->groups[found].last = view;
  return true;
}

int busq_recorder_group(busq_recorder *self, uint32_t group, char *name, size_t *name_bytesp, uint32_t *indexp,
                        uint64_t *basep)
{
  if (group >= self->n_groups)
    return BUSQ_EMPTY;
  *indexp = self->groups[group].index;
  *basep = self->groups[group].base;
  *name_bytesp = self->groups[group].name_bytes;
  memcpy(name, self->groups[group].name, self->groups[group].name_bytes);
  return BUSQ_OK;
}
