/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/views.h"
#include <string.h>

typedef struct {
  const busq_views_history *history;
  busq_views_witness *witness;
  uint32_t process;
  uint32_t view;    /* the last one that it saw; 0: none */
  uint32_t members; /* of that */
  uint32_t n_delivered; /* in it */
  bool is_in;
} walk;

static bool contains(const busq_views_history *history, uint32_t set, uint32_t process)
{
  return history->sets[(size_t)set * history->words + process / 64] >> process % 64 & 1;
}

static bool are_equal(const busq_views_history *history, uint32_t a, uint32_t b)
{
  const size_t bytes = history->words * sizeof *history->sets;
  return a == b || !memcmp(&history->sets[(size_t)a * history->words], &history->sets[(size_t)b * history->words], bytes);
}

static bool blame(walk *self, busq_views_fault fault, uint32_t other, uint32_t message, uint32_t view)
{
  *self->witness = (busq_views_witness){
      .fault = fault, .process = self->process, .other = other, .message = message, .view = view};
  return false;
}

/* ---- one process ---- */

/* All that a view is to this process is over: how many it has delivered is final. */
static bool close_view(walk *self)
{
  busq_views_view *view = &self->history->views[self->view];
  if (view->n_closed && view->n_closed != 1 + self->n_delivered)
    return blame(self, BUSQ_VIEWS_MISSED, view->closed_by, 0, self->view);
  view->n_closed = 1 + self->n_delivered;
  view->closed_by = self->process;
  return true;
}

static bool see_view(walk *self, const busq_views_event *event)
{
  const busq_views_history *history = self->history;
  busq_views_view *view = &history->views[event->view];
  if (self->is_in ? event->view != self->view + 1 : event->view <= self->view)
    return blame(self, BUSQ_VIEWS_SKIPPED, self->process, 0, event->view);
  if (view->members && !are_equal(history, view->members - 1, event->members))
    return blame(self, BUSQ_VIEWS_UNEQUAL, view->seen_by, 0, event->view);
  if (self->is_in && are_equal(history, self->members, event->members))
    return blame(self, BUSQ_VIEWS_UNEQUAL, self->process, 0, event->view);
  if (self->is_in && !close_view(self))
    return false;
  if (!view->members)
    view->seen_by = self->process;
  if (event->died)
    history->gone[event->died - 1] = event->view;
  view->members = 1 + event->members;
  self->view = event->view;
  self->members = event->members;
  self->is_in = contains(history, event->members, self->process);
  self->n_delivered = 0;
  return true;
}

/* A member gives the message its place, or finds the place that others have given it. */
static bool place_message(walk *self, uint32_t message)
{
  const busq_views_history *history = self->history;
  const busq_views_message *facts = &history->messages[message];
  busq_views_place *place = &history->places[message];
  busq_views_view *view = &history->views[self->view];
  const uint32_t number = ++self->n_delivered;
  if (facts->view != BUSQ_VIEWS_OPEN && facts->view != self->view)
    return blame(self, BUSQ_VIEWS_MISPLACED, facts->sender, message, self->view);
  if (place->view && (place->view != self->view || place->number != number))
    return blame(self, BUSQ_VIEWS_MISPLACED, self->process, message, self->view);
  place->view = self->view;
  place->number = number;
  if (number > view->n_most) {
    view->n_most = number;
    view->most_by = self->process;
  }
  return true;
}

/* Beside the group, to a process that is not in it at that place. */
static bool deliver_beside(walk *self, uint32_t message)
{
  const busq_views_message *facts = &self->history->messages[message];
  if (!contains(self->history, facts->named, self->process))
    return blame(self, BUSQ_VIEWS_OUTSIDE, facts->sender, message, self->view);
  return facts->view != BUSQ_VIEWS_REFUSED || blame(self, BUSQ_VIEWS_MISPLACED, facts->sender, message, 0);
}

static bool deliver(walk *self, uint32_t message)
{
  const busq_views_history *history = self->history;
  busq_views_place *place = &history->places[message];
  const uint32_t sender = history->messages[message].sender;
  if (place->seen_at == 1 + self->process)
    return blame(self, BUSQ_VIEWS_DOUBLED, sender, message, self->view);
  if (self->is_in && history->gone[sender] && history->gone[sender] <= self->view)
    return blame(self, BUSQ_VIEWS_GHOST, sender, message, self->view);
  if (!(self->is_in ? place_message(self, message) : deliver_beside(self, message)))
    return false;
  place->seen_at = 1 + self->process;
  return true;
}

static bool walk_log(walk *self)
{
  const busq_views_log *log = &self->history->logs[self->process];
  const uint32_t first = self->history->first_members;
  self->view = self->members = self->n_delivered = 0;
  self->is_in = first && contains(self->history, first - 1, self->process);
  if (self->is_in) {
    self->view = 1;
    self->members = first - 1;
  }
  for (uint32_t at = 0; at < log->n_events; at++) {
    const busq_views_event *event = &log->events[at];
    if (!(event->view ? see_view(self, event) : deliver(self, event->message)))
      return false;
  }
  return true;
}

/* ---- all of them ---- */

/* Finds a member that has gone on without what another one delivered there. */
static bool judge_closed(walk *self)
{
  for (uint32_t number = 1; number < self->history->n_views; number++) {
    const busq_views_view *view = &self->history->views[number];
    self->process = view->closed_by;
    if (view->n_closed && view->n_most > view->n_closed - 1)
      return blame(self, BUSQ_VIEWS_MISSED, view->most_by, 0, number);
  }
  return true;
}

/* The last view of a process that goes on for ever: nothing may be missing in it, and none may follow. */
static bool judge_last(walk *self)
{
  const busq_views_history *history = self->history;
  if (history->logs[self->process].is_cut)
    return true;
  if (!walk_log(self))
    return false;
  if (!self->is_in)
    return true;
  if (history->views[self->view].n_closed || (self->view + 1 < history->n_views && history->views[self->view + 1].members))
    return blame(self, BUSQ_VIEWS_SKIPPED, history->views[self->view].closed_by, 0, self->view);
  if (history->views[self->view].n_most > self->n_delivered)
    return blame(self, BUSQ_VIEWS_MISSED, history->views[self->view].most_by, 0, self->view);
  return true;
}

static bool has_delivered(const busq_views_log *log, uint32_t message)
{
  for (uint32_t at = 0; at < log->n_events; at++)
    if (!log->events[at].view && log->events[at].message == message)
      return true;
  return false;
}

/* A send that returned was no lie: all in its view that go on have the message, and so have those that it named. */
static bool judge_returned(walk *self, uint32_t message)
{
  const busq_views_history *history = self->history;
  const busq_views_message *facts = &history->messages[message];
  const bool has_returned = facts->view != BUSQ_VIEWS_OPEN && facts->view != BUSQ_VIEWS_REFUSED;
  const uint32_t view = has_returned ? facts->view : history->places[message].view;
  const uint32_t members = view && view < history->n_views ? history->views[view].members : 0;
  for (self->process = 0; self->process < history->n_processes; self->process++) {
    const busq_views_log *log = &history->logs[self->process];
    const bool is_owed = (members && contains(history, members - 1, self->process)) ||
                         (view && contains(history, facts->named, self->process));
    if (is_owed && !log->is_cut && !has_delivered(log, message))
      return blame(self, BUSQ_VIEWS_MISSED, facts->sender, message, view);
  }
  return true;
}

/* Whether a process that goes on is a member of every view: then no message is lost with all that had it. */
static bool is_always_inhabited(const busq_views_history *history)
{
  for (uint32_t number = 1; number < history->n_views; number++) {
    const uint32_t members = history->views[number].members;
    bool is_inhabited = !members;
    for (uint32_t process = 0; process < history->n_processes && !is_inhabited; process++)
      is_inhabited = !history->logs[process].is_cut && contains(history, members - 1, process);
    if (!is_inhabited)
      return false;
  }
  return true;
}

/* A message that was delivered beside the group goes to the group, too, whether or not its sender lived to hear of
 * it. */
static bool judge_alone(walk *self, uint32_t message)
{
  const busq_views_history *history = self->history;
  const busq_views_place *place = &history->places[message];
  const busq_views_message *facts = &history->messages[message];
  if (facts->view != BUSQ_VIEWS_OPEN || !place->seen_at || place->view || !is_always_inhabited(history))
    return true;
  self->process = place->seen_at - 1;
  return blame(self, BUSQ_VIEWS_MISPLACED, facts->sender, message, 0);
}

bool busq_views_judge(const busq_views_history *history, busq_views_witness *witness)
{
  walk self = {.history = history, .witness = witness};
  if (history->first_members)
    history->views[1].members = history->first_members;
  for (self.process = 0; self.process < history->n_processes; self.process++)
    if (!walk_log(&self))
      return false;
  if (!judge_closed(&self))
    return false;
  if (!history->is_over)
    return true;
  for (uint32_t message = 0; message < history->n_messages; message++)
    if (!judge_returned(&self, message) || !judge_alone(&self, message))
      return false;
  for (uint32_t message = 0; message < history->n_messages; message++)
    history->places[message].seen_at = 0;
  for (self.process = 0; self.process < history->n_processes; self.process++)
    if (!judge_last(&self))
      return false;
  return true;
}
