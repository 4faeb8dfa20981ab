/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Putting a bus in order from outside, for `busq doctor` and `busq gc`; the calls are declared in busq.h.
 *
 * Guarantee: nothing that a live process does is disturbed beyond having to stage a message again; repairing twice, or
 * by two at a time, is the same as once.
 *
 * Mechanism: what any process does that meets the remains of a dead peer (grave.h), or is kept waiting by a message
 * that is not final (commit.h), done for all of them.  A message counts as stalled if two looks, some milliseconds
 * apart, find it in the same state.
 *
 * Not given: holes in the ring of a live reader: that skips them itself as soon as it waits.
 */
#include "base/error.h"
#include "shm/burial/grave.h"
#include "shm/death/take_over.h"
#include "shm/group/group.h"
#include "shm/memory/names.h"
#include "shm/message/commit.h"
#include <time.h>

/* ---- messages that stand still ---- */

typedef struct {
  busq_record *record;
  uint64_t state;
} stalled;

enum { STALLED_MAX = 256 };

/* Counts references of one queue that are not final. */
static uint32_t queue_look(const busq_bus *bus, uint32_t slot, stalled *found, uint32_t n_found)
{
  const busq_ring ring = busq_bus_ring(bus, slot);
  const uint64_t head = busq_load_acquire(&ring.queue->head), tail = busq_ring_tail(&ring);
  if (tail - head > ring.slot_count)
    return n_found; /* damage, which its reader will report */
  for (uint64_t at = head; at != tail && n_found < STALLED_MAX; at++) {
    busq_reference reference;
    if (!busq_ring_look(&ring, at, &reference) || !busq_bus_has_units(bus, reference.record + UINT64_C(1)))
      continue;
    busq_record *record = busq_bus_record(bus, reference.record);
    const uint64_t state = busq_load_acquire(&record->state.lo);
    const uint64_t phase = state & BUSQ_PHASE_MASK;
    if ((state & ~BUSQ_PHASE_MASK) == reference.tag && (phase == BUSQ_PHASE_STAGING || phase == BUSQ_PHASE_SEALED))
      found[n_found++] = (stalled){record, state};
  }
  return n_found;
}

static uint32_t help_stalled(busq_bus *bus)
{
  const struct timespec pause = {0, 5000000};
  stalled found[STALLED_MAX];
  uint32_t n_found = 0, n_helped = 0;
  for (uint32_t slot = 0; slot < busq_slots_reached(bus); slot++)
    n_found = queue_look(bus, slot, found, n_found);
  if (n_found)
    nanosleep(&pause, NULL);
  for (uint32_t i = 0; i < n_found; i++)
    if (busq_load_acquire(&found[i].record->state.lo) == found[i].state &&
        busq_commit_help(bus, found[i].record, found[i].state & ~BUSQ_PHASE_MASK))
      n_helped++;
  return n_helped;
}

int busq_bus_repair(busq_bus *bus, uint32_t *buriedp, uint32_t *helpedp)
{
  busq_grave grave;
  *buriedp = *helpedp = 0;
  /* A caller that may not bury gets an error; a count of 0 would be another answer. */
  const int result = busq_grave_open(&grave, bus);
  if (result)
    return result;
  busq_grave_close(&grave);
  *buriedp = busq_grave_reclaim(bus);
  *helpedp = help_stalled(bus);
  return BUSQ_OK;
}

/* ---- what the gone have left ---- */

static int leftovers_remove(busq_grave *grave, const char *name, size_t name_bytes)
{
  busq_bus *bus = grave->bus;
  bool some = false;
  uint64_t n_dropped = 0, looks = UINT64_MAX;
  for (uint32_t slot = 0; slot < busq_slots_reached(bus); slot++) {
    uint64_t life;
    if (!busq_name_is(bus, slot, name, name_bytes, &life))
      continue;
    const int result = busq_take_over_enter(grave, slot, name, name_bytes);
    if (result == BUSQ_EMPTY)
      continue;
    if (result)
      return result;
    if (busq_name_is(bus, slot, name, name_bytes, &life)) {
      while (!busq_grave_bury(bus, slot) || !busq_grave_discard(bus, slot, &n_dropped))
        ;
      (void)busq_arena_reclaim(bus, slot, &looks);
      some = true;
    }
    busq_grave_leave(grave, slot);
  }
  if (!some)
    return busq_error(BUSQ_UNKNOWN_PEER, "nobody named \"%.*s\" is remembered on bus \"%s\"", (int)name_bytes, name, bus->name);
  return BUSQ_OK;
}

int busq_bus_remove_peer(busq_bus *bus, const char *name, size_t name_bytes)
{
  busq_grave grave;
  int result = busq_name_check(name, name_bytes);
  if (result)
    return result;
  result = busq_grave_open(&grave, bus);
  if (result)
    return result;
  result = busq_take_over_name(grave.fd, busq_name_lock(name, name_bytes), bus, name, name_bytes,
                               "what it leaves can be removed once it has closed or ended");
  if (!result)
    result = leftovers_remove(&grave, name, name_bytes);
  busq_grave_close(&grave);
  return result;
}

/* One step; true if there is more.  A peer that wants the slot gets it in between. */
static bool leftovers_drop(busq_grave *grave, uint32_t slot, uint64_t *droppedp)
{
  busq_bus *bus = grave->bus;
  if (!busq_grave_enter(grave, slot))
    return false;
  bool is_over = busq_grave_bury(bus, slot);
  if (is_over && !(busq_load_acquire(&bus->slots[slot].life) & BUSQ_LIFE_DURABLE) && busq_grave_has_messages(bus, slot))
    is_over = busq_grave_discard(bus, slot, droppedp);
  busq_grave_leave(grave, slot);
  return !is_over;
}

int busq_bus_collect(busq_bus *bus, uint64_t *droppedp)
{
  busq_grave grave;
  *droppedp = 0;
  const int result = busq_grave_open(&grave, bus);
  if (result)
    return result;
  for (uint32_t slot = 0; slot < busq_slots_reached(bus); slot++)
    while (leftovers_drop(&grave, slot, droppedp))
      ;
  busq_grave_close(&grave);
  for (uint32_t index = 0; index < bus->geometry.groups; index++)
    (void)busq_group_empty_of_dead(bus, index);
  (void)busq_grave_reclaim(bus);
  return BUSQ_OK;
}
