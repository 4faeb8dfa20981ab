/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views in recorded logs: did members see the same ones, at the same places of the order?
 *
 * Guarantee.  Of each group:
 *
 *   unequal   the sights of a view whose members are not those that the lowest process saw
 *   skipped   the sights of a view by a member of another one than the view before, or of one that was over
 *   outside   first deliveries of a message at a place where its receiver is not in the view that it was sent in, though it is, or
 *             should be, a member
 *   missed    (message, member): it went from the message's view to the next one without it, and some member delivered it
 *
 * So where nothing is found, every message is delivered in the view that it was sent in, and a member that leaves a
 * view for the next one has delivered the same messages in it as all others that do.
 *
 *   - A process is in the last view that it saw since it joined: of one that came back, nothing is assumed.
 *   - One that is not a member may be named beside the group: it may deliver messages of views that it never saw, none
 *     of a view that was over where it was last in the group, or that began later than one it sees after it.
 *   - A log that lacks events may lack views: whatever follows from a view that is not there is open then, and no
 *     fault.
 *   - Members that the log does not know any more are written as -1; what a view has besides is not compared.
 *
 * The witness is of the first kind of these that there is; of its kind the lowest group, there the lowest view, process
 * and message.
 *
 * Mechanism.  Sights are noted with the event of the history in front of which they stand, and each log is walked once,
 * with the present view of each group.  What a member should have delivered is looked through at the end of its log, by
 * view.
 *
 * Not given: the order of messages within a view, which the others judge.  Views before the recording, of which nothing
 * is known, and the last one of each process, which may have ended before.
 *
 * Cost: O(events + copies of what goes to groups), and a search in the sorted sights for each view.
 */
#include "base/growing.h"
#include "observe/rows.h"
#include "observe/spec.h"
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

/* A view in a log; or, without a group, the beginning of another life. */
typedef struct {
  uint32_t process;
  uint32_t place; /* the event of its log in front of which it stands, or that it is */
  uint32_t group;
  uint32_t n_members;
  int64_t view;
  uint64_t members; /* where they stand in the pool; ascending, each once */
  bool is_whole;    /* all of them are known */
  bool is_event;    /* it came with the delivery at that place */
} sight;

/* A message to a group. */
typedef struct {
  uint32_t message; /* its number */
  uint32_t group;
  int64_t view;
} letter;

/* A view that its member left for the next one. */
typedef struct {
  uint32_t group;
  int64_t view;
} closing;

struct busq_sights {
  const busq_history *history;
  uint8_t *is_incomplete;
  uint32_t n_groups;
  uint32_t *n_read; /* events, by process */
  sight *sights;    /* by process, in the order of its log */
  uint32_t n_sights;
  uint32_t room_sights;
  int32_t *pool;
  uint32_t n_pool;
  uint32_t room_pool;
  letter *letters;
  uint32_t n_letters;
  uint32_t room_letters;
  uint32_t *letter_of;   /* by message: 1 + its place among the letters, by view */
  uint32_t *by_view;     /* places of sights */
  uint32_t n_by_view;
  uint32_t *deliverer;   /* by letter: 1 + the lowest process that delivered it */
  uint32_t *delivered;   /* by letter: 1 + the last process looked at that did */
  uint32_t *now;         /* by group: the sight of the view that the process is in; NONE */
  uint32_t *next;        /* by group: 1 + the first sight of its life, NONE where there is none; 0: not looked for */
  closing *closings;
  uint32_t n_closings;
  uint32_t room_closings;
  busq_sights_found *found;
  uint64_t key[4]; /* of the witness, after its kind */
};

static int out_of_memory(void)
{
  return busq_observe_out_of_memory();
}

int busq_sights_new(const busq_history *history, const uint8_t *is_incomplete, uint32_t n_groups, busq_sights **sightsp)
{
  const size_t n = history->n_processes + (size_t)1;
  busq_sights *self = calloc(1, sizeof *self);
  if (!self)
    return out_of_memory();
  self->history = history;
  self->n_groups = n_groups;
  self->is_incomplete = malloc(n);
  self->n_read = calloc(n, sizeof *self->n_read);
  self->letter_of = calloc(history->index.n_names + (size_t)1, sizeof *self->letter_of);
  self->now = malloc((n_groups + (size_t)1) * sizeof *self->now);
  self->next = malloc((n_groups + (size_t)1) * sizeof *self->next);
  if (!self->is_incomplete || !self->n_read || !self->letter_of || !self->now || !self->next) {
    busq_sights_free(self);
    return out_of_memory();
  }
  memcpy(self->is_incomplete, is_incomplete, history->n_processes);
  *sightsp = self;
  return BUSQ_OK;
}

void busq_sights_free(busq_sights *self)
{
  if (!self)
    return;
  void *arrays[] = {self->is_incomplete, self->n_read,   self->sights,    self->pool,      self->letters, self->letter_of,
                    self->by_view,       self->deliverer, self->delivered, self->now,       self->next,    self->closings};
  for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
    free(arrays[i]);
  free(self);
}

/* ---- noting ---- */

static bool members_note(busq_sights *self, const busq_rows *rows, size_t row, sight *seen)
{
  size_t begin = 0;
  const uint32_t n = busq_column_list(&rows->members, row, &begin);
  const int32_t *items = (const int32_t *)rows->member_items.values + rows->member_items.offset + begin;
  if (!busq_reserve(&self->pool, &self->room_pool, self->n_pool + (uint64_t)n, sizeof *self->pool))
    return false;
  int32_t *members = self->pool + self->n_pool;
  seen->members = self->n_pool;
  seen->is_whole = true;
  if (!n)
    return true;
  memcpy(members, items, n * sizeof *members);
  qsort(members, n, sizeof *members, busq_compare_words); /* those that are not known, below 0, come last */
  for (uint32_t i = 0; i < n; i++) {
    seen->is_whole &= members[i] >= 0;
    if (members[i] >= 0 && (!seen->n_members || members[seen->n_members - 1] != members[i]))
      members[seen->n_members++] = members[i];
  }
  self->n_pool += seen->n_members;
  return true;
}

static bool sight_note(busq_sights *self, sight seen)
{
  if (!busq_reserve(&self->sights, &self->room_sights, self->n_sights + UINT64_C(1), sizeof *self->sights))
    return false;
  self->sights[self->n_sights++] = seen;
  return true;
}

static bool letter_note(busq_sights *self, uint32_t message, uint32_t group, int64_t view)
{
  if (!busq_reserve(&self->letters, &self->room_letters, self->n_letters + UINT64_C(1), sizeof *self->letters))
    return false;
  self->letters[self->n_letters++] = (letter){message, group, view};
  return true;
}

/* A view that came again, marked as such, is a local event that names its message; one whose message is not known
 * names none. */
static bool row_is_sight(const busq_rows *rows, size_t row, uint32_t kind)
{
  return busq_column_has(&rows->members, row) &&
         (kind == BUSQ_EVENT_DELIVER || (kind == BUSQ_ROW_LOCAL && !busq_column_has(&rows->messages, row)));
}

static bool row_note(busq_sights *self, uint32_t process, const busq_rows *rows, size_t row)
{
  const uint32_t kind = busq_rows_kind(rows, row), place = self->n_read[process];
  const bool is_event = busq_rows_is_event(rows, row);
  self->n_read[process] += is_event;
  if (kind == BUSQ_ROW_JOIN || kind == BUSQ_ROW_LEAVE)
    return sight_note(self, (sight){.process = process, .place = place, .group = NONE});
  if (!busq_column_has(&rows->groups, row) || !busq_column_has(&rows->views, row))
    return true;
  const int32_t group = ((const int32_t *)rows->groups.values)[rows->groups.offset + row];
  const int64_t view = busq_column_number(&rows->views, row);
  if (group < 0 || (uint32_t)group >= self->n_groups)
    return true;
  if (row_is_sight(rows, row, kind)) {
    sight seen = {.process = process, .place = place, .group = (uint32_t)group, .view = view, .is_event = is_event};
    return members_note(self, rows, row, &seen) && sight_note(self, seen);
  }
  if (!is_event || kind != BUSQ_EVENT_SEND)
    return true;
  const uint32_t message = busq_observe_event_message(self->history->logs[process].events[place]);
  if (!busq_observe_message_was_sent_at(&self->history->messages[message], process, place))
    return true;
  return letter_note(self, message, (uint32_t)group, view);
}

int busq_sights_note_rows(busq_sights *self, uint32_t process, const busq_rows *rows)
{
  const int result =
      busq_rows_check(rows, self->history, process, process < self->history->n_processes ? self->n_read[process] : 0);
  if (result != BUSQ_OK)
    return result;
  if (self->n_sights && self->sights[self->n_sights - 1].process > process)
    return busq_error(BUSQ_INVALID, "rows of process %u behind those of process %u: expected them in the order of processes",
                      process, self->sights[self->n_sights - 1].process);
  for (size_t row = 0; row < rows->n_rows; row++)
    if (!row_note(self, process, rows, row))
      return out_of_memory();
  return BUSQ_OK;
}

/* ---- by view ---- */

static int compare_u64(uint64_t a, uint64_t b)
{
  return a < b ? -1 : a > b;
}

static int compare_views(uint32_t group, int64_t view, uint32_t other_group, int64_t other_view)
{
  if (group != other_group)
    return group < other_group ? -1 : 1;
  return view < other_view ? -1 : view > other_view;
}

static int compare_letters(const void *a, const void *b)
{
  const letter *x = a, *y = b;
  const int by_view = compare_views(x->group, x->view, y->group, y->view);
  return by_view ? by_view : compare_u64(x->message, y->message);
}

static int compare_sights(const void *a, const void *b)
{
  const sight *x = *(sight *const *)a, *y = *(sight *const *)b;
  const int by_view = compare_views(x->group, x->view, y->group, y->view);
  return by_view ? by_view : compare_u64((uint64_t)(uintptr_t)x, (uint64_t)(uintptr_t)y);
}

static bool sort_by_view(busq_sights *self)
{
  sight **sorted = malloc((self->n_sights + (size_t)1) * sizeof *sorted);
  self->by_view = malloc((self->n_sights + (size_t)1) * sizeof *self->by_view);
  if (sorted && self->by_view) {
    for (uint32_t i = 0; i < self->n_sights; i++)
      if (self->sights[i].group != NONE)
        sorted[self->n_by_view++] = &self->sights[i];
    qsort(sorted, self->n_by_view, sizeof *sorted, compare_sights);
    for (uint32_t i = 0; i < self->n_by_view; i++)
      self->by_view[i] = (uint32_t)(sorted[i] - self->sights);
  }
  free(sorted);
  return sorted && self->by_view;
}

static bool letters_sort(busq_sights *self)
{
  const size_t n = self->n_letters + (size_t)1;
  if (self->n_letters)
    qsort(self->letters, self->n_letters, sizeof *self->letters, compare_letters);
  for (uint32_t i = 0; i < self->n_letters; i++)
    self->letter_of[self->letters[i].message] = i + 1;
  self->deliverer = calloc(n, sizeof *self->deliverer);
  self->delivered = calloc(n, sizeof *self->delivered);
  return self->deliverer && self->delivered;
}

static bool is_member(const busq_sights *self, const sight *seen, uint32_t process)
{
  const int32_t wanted = (int32_t)process;
  return seen->n_members && bsearch(&wanted, self->pool + seen->members, seen->n_members, sizeof wanted, busq_compare_words);
}

/* Returns what the lowest process saw of a view, of those that know all of its members; NULL: none does. */
static const sight *reference_of(const busq_sights *self, uint32_t group, int64_t view)
{
  uint32_t low = 0, high = self->n_by_view;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    const sight *seen = &self->sights[self->by_view[middle]];
    if (compare_views(seen->group, seen->view, group, view) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  for (; low < self->n_by_view; low++) {
    const sight *seen = &self->sights[self->by_view[low]];
    if (seen->group != group || seen->view != view)
      return NULL;
    if (seen->is_whole)
      return seen;
  }
  return NULL;
}

/* ---- faults ---- */

/* Counts a fault; true where it is the witness so far. */
static bool blame(busq_sights *self, uint32_t fault, uint32_t group, int64_t view, uint32_t process, uint64_t message)
{
  const uint64_t key[4] = {group, (uint64_t)view ^ UINT64_C(1) << 63, process, message};
  busq_sights_found *found = self->found;
  const bool is_first = found->counts[fault]++ == 0;
  if (found->fault < fault || (found->fault == fault && !is_first)) {
    int order = found->fault == fault ? 0 : 1;
    for (int i = 0; i < 4 && !order; i++)
      order = compare_u64(key[i], self->key[i]);
    if (order >= 0)
      return false;
  }
  memcpy(self->key, key, sizeof key);
  found->fault = fault;
  found->group = group;
  found->view = view;
  found->message = message;
  found->processes[0] = process;
  found->is_before = 0;
  return true;
}

static void compare_members(busq_sights *self)
{
  const sight *reference = NULL;
  for (uint32_t i = 0; i < self->n_by_view; i++) {
    const sight *seen = &self->sights[self->by_view[i]];
    if (!seen->is_whole)
      continue;
    if (!reference || compare_views(reference->group, reference->view, seen->group, seen->view)) {
      reference = seen;
      continue;
    }
    if (seen->n_members == reference->n_members &&
        (!seen->n_members ||
         !memcmp(self->pool + seen->members, self->pool + reference->members, seen->n_members * sizeof *self->pool)))
      continue;
    if (!blame(self, BUSQ_SIGHTS_UNEQUAL, seen->group, seen->view, seen->process, 0))
      continue;
    self->found->processes[1] = reference->process;
    self->found->members[0] = self->pool + seen->members;
    self->found->n_members[0] = seen->n_members;
    self->found->members[1] = self->pool + reference->members;
    self->found->n_members[1] = reference->n_members;
  }
}

/* The process sees a view: how does it follow the one before? */
static bool see(busq_sights *self, uint32_t at)
{
  const sight *seen = &self->sights[at];
  const uint32_t before = self->now[seen->group];
  self->now[seen->group] = at;
  if (before == NONE)
    return true;
  const sight *last = &self->sights[before];
  const bool was_in = is_member(self, last, seen->process);
  const bool is_next = seen->view > last->view && (uint64_t)seen->view - (uint64_t)last->view == 1; /* behind the last number is none */
  if (was_in && is_next) {
    if (!busq_reserve(&self->closings, &self->room_closings, self->n_closings + UINT64_C(1), sizeof *self->closings))
      return false;
    self->closings[self->n_closings++] = (closing){last->group, last->view};
  }
  if (is_next || (!was_in && seen->view > last->view))
    return true;
  if (seen->view > last->view && self->is_incomplete[seen->process])
    self->found->n_open++;
  else if (blame(self, BUSQ_SIGHTS_SKIPPED, seen->group, seen->view, seen->process, 0))
    self->found->other_view = last->view;
  return true;
}

/* The first view of the group that the process sees from here on in this life; NONE. */
static uint32_t next_of(busq_sights *self, uint32_t at, uint32_t process, uint32_t group)
{
  if (self->next[group])
    return self->next[group] == NONE ? NONE : self->next[group] - 1;
  uint32_t found = NONE;
  for (; at < self->n_sights && self->sights[at].process == process && self->sights[at].group != NONE; at++)
    if (self->sights[at].group == group) {
      found = at;
      break;
    }
  self->next[group] = found == NONE ? NONE : found + 1;
  return found;
}

/* `at`: the sights behind this place begin there. */
static void judge_delivery(busq_sights *self, uint32_t process, const letter *one, uint32_t at)
{
  const uint32_t now = self->now[one->group];
  const uint32_t after = now == NONE ? next_of(self, at, process, one->group) : NONE;
  const sight *seen = now != NONE ? &self->sights[now] : after != NONE ? &self->sights[after] : NULL;
  if (!seen || (now == NONE ? seen->view > one->view : seen->view == one->view))
    return;
  if (now != NONE && seen->view < one->view) {
    const sight *reference = is_member(self, seen, process) ? seen : reference_of(self, one->group, one->view);
    if (!reference || !is_member(self, reference, process))
      return;
    if (self->is_incomplete[process]) {
      self->found->n_open++;
      return;
    }
  }
  const uint64_t name = self->history->index.names[one->message];
  if (!blame(self, BUSQ_SIGHTS_OUTSIDE, one->group, one->view, process, name))
    return;
  self->found->processes[1] = self->history->messages[one->message].sender;
  self->found->other_view = seen->view;
  self->found->is_before = now == NONE;
}

/* Where the letters of a view begin. */
static uint32_t letters_of(const busq_sights *self, const closing *closed)
{
  uint32_t low = 0, high = self->n_letters;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (compare_views(self->letters[middle].group, self->letters[middle].view, closed->group, closed->view) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static void judge_closing(busq_sights *self, uint32_t process, const closing *closed)
{
  for (uint32_t i = letters_of(self, closed); i < self->n_letters; i++) {
    const letter *one = &self->letters[i];
    if (one->group != closed->group || one->view != closed->view)
      return;
    if (!self->deliverer[i] || self->delivered[i] == process + 1)
      continue;
    if (self->is_incomplete[process])
      self->found->n_open++;
    else if (blame(self, BUSQ_SIGHTS_MISSED, one->group, one->view, process, self->history->index.names[one->message]))
      self->found->processes[1] = self->deliverer[i] - 1;
  }
}

static bool walk_log(busq_sights *self, uint32_t process, uint32_t *atp)
{
  const busq_observe_log *log = &self->history->logs[process];
  const size_t bytes = self->n_groups * sizeof *self->now;
  uint32_t at = *atp;
  memset(self->now, 0xff, bytes);
  memset(self->next, 0, bytes);
  self->n_closings = 0;
  for (uint32_t place = 0; place <= log->n_events; place++) {
    bool is_sight = false;
    for (; at < self->n_sights && self->sights[at].process == process && self->sights[at].place == place; at++) {
      is_sight |= self->sights[at].is_event;
      if (self->sights[at].group != NONE) {
        if (!see(self, at))
          return false;
        continue;
      }
      memset(self->now, 0xff, bytes);
      memset(self->next, 0, bytes);
    }
    if (place == log->n_events || busq_observe_event_is_send(log->events[place]))
      continue;
    const uint32_t i = self->letter_of[log->events[place]];
    if (!i || self->delivered[i - 1] == process + 1)
      continue;
    self->delivered[i - 1] = process + 1;
    if (!is_sight)
      judge_delivery(self, process, &self->letters[i - 1], at);
  }
  for (uint32_t i = 0; i < self->n_closings; i++)
    judge_closing(self, process, &self->closings[i]);
  *atp = at;
  return true;
}

static void note_deliverers(busq_sights *self)
{
  for (uint32_t process = self->history->n_processes; process-- > 0;) {
    const busq_observe_log *log = &self->history->logs[process];
    for (uint32_t place = 0; place < log->n_events; place++) {
      const uint32_t event = log->events[place];
      if (!busq_observe_event_is_send(event) && self->letter_of[event])
        self->deliverer[self->letter_of[event] - 1] = process + 1;
    }
  }
}

int busq_sights_judge(busq_sights *self, busq_sights_found *found)
{
  *found = (busq_sights_found){.fault = BUSQ_SIGHTS_FAULTS};
  self->found = found;
  if (self->by_view)
    return busq_error(BUSQ_INVALID, "these views were judged already: note their rows anew");
  if (!sort_by_view(self) || !letters_sort(self))
    return out_of_memory();
  found->n_sights = self->n_by_view;
  note_deliverers(self);
  compare_members(self);
  uint32_t at = 0;
  for (uint32_t process = 0; process < self->history->n_processes; process++)
    if (!walk_log(self, process, &at))
      return out_of_memory();
  return BUSQ_OK;
}
