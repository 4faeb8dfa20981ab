/* SPDX-License-Identifier: Apache-2.0 */
/* What a state of the model of groups need not know any more. */
#include "check/groups_rules.h"
#include <string.h>

/* ---- messages ---- */

static uint32_t find_delivery(const busq_groups_process *self, uint32_t message)
{
  uint32_t at = 0;
  while (at < self->n_events && self->events[at] != message)
    at++;
  return at;
}

/* In which view the process delivered the message, and with which members; 0: it did not, or is in no view there. */
static uint32_t view_of(const state_t *state, uint32_t process, uint32_t message, uint32_t *membersp)
{
  const busq_groups_process *self = &state->processes[process];
  const uint32_t end = find_delivery(self, message);
  uint32_t view = has(state->head.first_members, process), members = state->head.first_members;
  for (uint32_t at = 0; at < end && end < self->n_events; at++) {
    const uint16_t event = self->events[at];
    if (busq_groups_event_view(event)) {
      members = event >> 4 & 0x3f;
      view = busq_groups_event_view(event);
    }
  }
  *membersp = members;
  return end < self->n_events && has(members, process) ? view : 0;
}

/* Nothing can happen to it any more. */
static bool is_over(config_t *config, const state_t *state, uint32_t message)
{
  if (!state->head.message_view[message] && !has(state->head.dead, state->head.message_sender[message]))
    return false;
  for (uint32_t at = 0; at < state->head.n_records; at++)
    if (!state->records[at].change && state->records[at].message == message)
      return false;
  for (uint32_t process = 0; process < config->processes; process++)
    if (state->processes[process].message == message + 1)
      return false;
  return true;
}

/* All that go on and are owed it have it, at one view: the observer will not ask for it again. */
static bool is_all_well(config_t *config, const state_t *state, uint32_t message)
{
  const uint32_t cut = state->head.dead | state->head.stopped;
  const uint8_t returned = state->head.message_view[message];
  uint32_t view = 0, members = 0, owed = 0, delivered = 0;
  for (uint32_t process = 0; process < config->processes; process++) {
    uint32_t own_members;
    const uint32_t own = view_of(state, process, message, &own_members);
    const bool has_it = find_delivery(&state->processes[process], message) < state->processes[process].n_events;
    if (own && view && own != view)
      return false;
    view = own ? own : view;
    members = own ? own_members : members;
    delivered |= (uint32_t)has_it << process;
  }
  if (returned == BUSQ_GROUPS_REFUSED || (!returned && !view))
    return !delivered;
  if (!view || (returned && returned != view))
    return false;
  owed = members | (config->names_last ? 1u << (config->processes - 1) : 0);
  return !(owed & ~delivered & ~cut);
}

static void forget_message(config_t *config, state_t *state, uint32_t message)
{
  busq_groups_head *head = &state->head;
  const uint32_t behind = head->n_messages - message - 1u;
  memmove(&head->message_sender[message], &head->message_sender[message + 1], behind);
  memmove(&head->message_view[message], &head->message_view[message + 1], behind);
  head->n_messages--;
  head->message_sender[head->n_messages] = head->message_view[head->n_messages] = 0;
  for (uint32_t at = 0; at < head->n_records; at++)
    state->records[at].message = (uint8_t)(state->records[at].message - (state->records[at].message > message));
  for (uint32_t process = 0; process < config->processes; process++) {
    busq_groups_process *self = &state->processes[process];
    uint32_t kept = 0;
    self->message = (uint8_t)(self->message - (self->message > message + 1));
    for (uint32_t at = 0; at < self->n_events; at++) {
      const uint16_t event = self->events[at];
      if (event != message)
        self->events[kept++] = (uint16_t)(event - (!busq_groups_event_view(event) && event > message));
    }
    memset(&self->events[kept], 0, (self->n_events - kept) * sizeof self->events[0]);
    self->n_events = (uint8_t)kept;
  }
}

/* ---- views ---- */

static uint32_t least_of(uint32_t a, uint32_t b)
{
  return a < b ? a : b;
}

/* The last view that no process has to come to any more, and that nothing under way belongs to an earlier one than. */
static uint32_t find_base(config_t *config, const state_t *state)
{
  uint32_t base = state->head.number;
  for (uint32_t process = 0; process < config->processes; process++) {
    const busq_groups_process *self = &state->processes[process];
    const bool is_cut = has(state->head.dead | state->head.stopped, process);
    if (!is_cut && self->is_in)
      base = least_of(base, self->view);
    if (self->seen)
      base = least_of(base, self->seen);
  }
  for (uint32_t at = 0; at < state->head.n_records; at++)
    base = least_of(base, state->records[at].view - (state->records[at].change != 0));
  return base;
}

/* How many events of a process are views up to this one; its first delivery, and what is behind, is not forgotten. */
static uint32_t count_before(const busq_groups_process *self, uint32_t base)
{
  uint32_t count = 0;
  while (count < self->n_events && busq_groups_event_view(self->events[count]) &&
         busq_groups_event_view(self->events[count]) <= base)
    count++;
  return count;
}

/* What the first events of a process, which are views, show of this one: with which others it is, which have died. */
typedef struct {
  uint32_t members;
  uint32_t gone;
  bool is_seen;
} knowledge;

/* Whether the process comes to the view, and what is left of its log comes after it. */
static bool is_base_of(const state_t *state, uint32_t process, uint32_t base, knowledge *known)
{
  const busq_groups_process *self = &state->processes[process];
  const uint32_t count = count_before(self, base);
  uint32_t view = has(state->head.first_members, process);
  for (uint32_t at = 0; at < count; at++) {
    const uint16_t event = self->events[at];
    known->gone |= event & 0xf ? 1u << ((event & 0xf) - 1) : 0;
    view = busq_groups_event_view(event);
    if (view == base) {
      known->members = event >> 4 & 0x3f;
      known->is_seen = true;
    }
  }
  for (uint32_t at = count; at < self->n_events; at++) {
    const uint32_t later = busq_groups_event_view(self->events[at]);
    if (later ? later <= base : view < base)
      return false;
    view = later ? later : view;
  }
  return true;
}

/* No process that goes on is a member without knowing; and no message that is kept belongs to a view before. */
static bool is_base(config_t *config, const state_t *state, uint32_t base, knowledge *known)
{
  const uint32_t cut = state->head.dead | state->head.stopped;
  for (uint32_t process = 0; process < config->processes; process++)
    if (!is_base_of(state, process, base, known))
      return false;
  for (uint32_t process = 0; process < config->processes; process++)
    if (has(known->members & ~cut, process) && state->processes[process].view < base)
      return false;
  for (uint32_t message = 0; message < state->head.n_messages; message++)
    if (state->head.message_view[message] && state->head.message_view[message] < base)
      return false;
  return known->is_seen;
}

static void shift_views(config_t *config, state_t *state, uint32_t base)
{
  busq_groups_head *head = &state->head;
  const uint8_t by = (uint8_t)(base - 1);
  head->number -= by;
  memmove(&head->change_time[1], &head->change_time[base], head->number);
  memmove(&head->change_owner[1], &head->change_owner[base], head->number);
  memset(&head->change_time[head->number], 0, sizeof head->change_time - head->number);
  memset(&head->change_owner[head->number], 0, sizeof head->change_owner - head->number);
  for (uint32_t message = 0; message < head->n_messages; message++)
    if (head->message_view[message] && head->message_view[message] != BUSQ_GROUPS_REFUSED)
      head->message_view[message] -= by;
  for (uint32_t at = 0; at < head->n_records; at++)
    state->records[at].view -= by;
  for (uint32_t process = 0; process < config->processes; process++) {
    busq_groups_process *self = &state->processes[process];
    const uint32_t count = count_before(self, base);
    self->view = self->view > by ? self->view - by : 0;
    self->seen = (uint8_t)(self->seen - (self->seen ? by : 0));
    if (!self->is_in && self->view == 1)
      self->view = 0; /* it is out, as if it had never been in */
    memmove(&self->events[0], &self->events[count], (self->n_events - count) * sizeof self->events[0]);
    memset(&self->events[self->n_events - count], 0, count * sizeof self->events[0]);
    self->n_events -= (uint8_t)count;
    for (uint32_t at = 0; at < self->n_events; at++)
      self->events[at] = (uint16_t)(self->events[at] - (busq_groups_event_view(self->events[at]) ? by << 10 : 0));
  }
}

void busq_groups_forget(config_t *config, state_t *state)
{
  knowledge known = {0};
  for (uint32_t message = state->head.n_messages; message-- > 0;)
    if (is_over(config, state, message) && is_all_well(config, state, message))
      forget_message(config, state, message);
  const uint32_t base = find_base(config, state);
  if (base < 2 || !is_base(config, state, base, &known))
    return;
  state->head.first_members = (uint8_t)known.members;
  state->head.gone |= (uint8_t)known.gone;
  shift_views(config, state, base);
}
