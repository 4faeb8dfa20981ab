/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector clocks: do those in the logs follow from each other?
 *
 * Guarantee.  Every row with a clock is compared with what follows from the row with a clock before it, in the same log,
 * and from the messages that were delivered since: the greatest of these in each component, and one more than before in
 * its own.  If no row is wrong, then every clock is right.  Where events are missing in a log, its own component may rise
 * by more than one; there, and where a message has no clock, the others may be greater than that, never less.
 *
 * Mechanism: first the clocks of messages are noted, by where they stand in the columns, then each log is read once.
 * Nothing is rebuilt, so a row after a wrong one may be called wrong, though it is right; the first one is wrong.
 *
 * Not given: an opinion on clocks that tick at some events only.
 */
#include "observe/rows.h"
#include "observe/spec.h"
#include <stdlib.h>
#include <string.h>

/* A clock in a column. */
typedef struct {
  const int64_t *components; /* NULL: there is none */
  uint32_t n_components;     /* those behind are 0 */
} clock_view;

/* One log that is being read. */
typedef struct {
  clock_view last; /* the clock of the last row that has one */
  bool is_incomplete;
  uint32_t place;  /* in the history's log */
  uint64_t row;
} cursor;

struct busq_clocks {
  const busq_history *history;
  clock_view *messages;
  cursor *noted;
  cursor *judged;
  /* Of the messages delivered since the last row with a clock, at the process that is being judged. */
  int64_t *joined;
  bool is_vague; /* one of them has no clock */
  bool has_message;
  uint64_t message;
};

int busq_clocks_new(const busq_history *history, const uint8_t *is_incomplete, busq_clocks **clocksp)
{
  const size_t n = history->n_processes + (size_t)1;
  busq_clocks *clocks = calloc(1, sizeof *clocks);
  if (!clocks)
    return busq_observe_out_of_memory();
  clocks->history = history;
  clocks->messages = calloc(history->index.n_names + (size_t)1, sizeof *clocks->messages);
  clocks->noted = calloc(n, sizeof *clocks->noted);
  clocks->judged = calloc(n, sizeof *clocks->judged);
  clocks->joined = calloc(n, sizeof *clocks->joined);
  if (!clocks->messages || !clocks->noted || !clocks->judged || !clocks->joined) {
    busq_clocks_free(clocks);
    return busq_observe_out_of_memory();
  }
  for (uint32_t process = 0; process < history->n_processes; process++)
    clocks->judged[process].is_incomplete = is_incomplete[process];
  *clocksp = clocks;
  return BUSQ_OK;
}

void busq_clocks_free(busq_clocks *clocks)
{
  if (!clocks)
    return;
  free(clocks->messages);
  free(clocks->noted);
  free(clocks->judged);
  free(clocks->joined);
  free(clocks);
}

static clock_view read_clock(const busq_rows *rows, size_t row)
{
  size_t begin = 0;
  const uint32_t n = busq_column_list(&rows->clocks, row, &begin);
  return (clock_view){n ? (const int64_t *)rows->clock_items.values + rows->clock_items.offset + begin : NULL, n};
}

static int64_t component(clock_view clock, uint32_t process)
{
  return process < clock.n_components ? clock.components[process] : 0;
}

/* How many events of the log were read. */
static uint32_t n_read(const busq_clocks *clocks, const cursor *cursors, uint32_t process)
{
  return process < clocks->history->n_processes ? cursors[process].place : 0;
}

int busq_clocks_note_rows(busq_clocks *clocks, uint32_t process, const busq_rows *rows)
{
  const int result = busq_rows_check(rows, clocks->history, process, n_read(clocks, clocks->noted, process));
  if (result != BUSQ_OK)
    return result;
  cursor *at = &clocks->noted[process];
  for (size_t row = 0; row < rows->n_rows; row++) {
    const clock_view clock = read_clock(rows, row);
    if (clock.components)
      at->last = clock;
    if (!busq_rows_is_event(rows, row))
      continue;
    const uint32_t event = clocks->history->logs[process].events[at->place];
    const uint32_t message = busq_observe_event_message(event);
    if (busq_observe_event_is_send(event) &&
        busq_observe_message_was_sent_at(&clocks->history->messages[message], process, at->place))
      clocks->messages[message] = at->last;
    at->place++;
  }
  return BUSQ_OK;
}

/* ---- judging ---- */

static void join_message(busq_clocks *clocks, uint32_t message)
{
  const clock_view clock = clocks->messages[message];
  const uint32_t n = clocks->history->n_processes;
  clocks->has_message = true;
  clocks->message = clocks->history->index.names[message];
  clocks->is_vague |= !clock.components;
  for (uint32_t i = 0; clock.components && i < n && i < clock.n_components; i++)
    if (clocks->joined[i] < clock.components[i])
      clocks->joined[i] = clock.components[i];
}

static void forget_messages(busq_clocks *clocks)
{
  if (clocks->has_message)
    memset(clocks->joined, 0, clocks->history->n_processes * sizeof *clocks->joined);
  clocks->has_message = clocks->is_vague = false;
}

/* Which component is wrong, the own one first; n_processes: none. */
static uint32_t find_wrong(const busq_clocks *clocks, uint32_t process, clock_view before, clock_view clock,
                           int64_t *rightp)
{
  const uint32_t n = clocks->history->n_processes;
  const int64_t last = component(before, process);
  const int64_t next = last < INT64_MAX ? last + 1 : last;
  const int64_t own = component(clock, process);
  const bool has_jumped = own > next;
  *rightp = next;
  if (own < next || (has_jumped && !clocks->judged[process].is_incomplete))
    return process;
  for (uint32_t i = 0; i < n; i++) {
    const int64_t known = component(before, i);
    const int64_t right = known > clocks->joined[i] ? known : clocks->joined[i];
    const int64_t found = component(clock, i);
    *rightp = right;
    if (i != process && (found < right || (found > right && !has_jumped && !clocks->is_vague)))
      return i;
  }
  return n;
}

static void judge_clock(busq_clocks *clocks, uint32_t process, clock_view clock, busq_clock_faults *faults)
{
  const cursor *at = &clocks->judged[process];
  int64_t right = 0;
  const uint32_t wrong = find_wrong(clocks, process, at->last, clock, &right);
  faults->n_events++;
  if (wrong == clocks->history->n_processes)
    return;
  if (!faults->count++ || process < faults->process) {
    faults->process = process;
    faults->row = at->row;
    faults->component = wrong;
    faults->found = component(clock, wrong);
    faults->right = right;
    faults->has_message = clocks->has_message;
    faults->message = clocks->message;
  }
}

int busq_clocks_judge_rows(busq_clocks *clocks, uint32_t process, const busq_rows *rows, busq_clock_faults *faults)
{
  const int result = busq_rows_check(rows, clocks->history, process, n_read(clocks, clocks->judged, process));
  if (result != BUSQ_OK)
    return result;
  cursor *at = &clocks->judged[process];
  if (!at->row) {
    clocks->has_message = true; /* whatever is left of another log */
    forget_messages(clocks);
  }
  for (size_t row = 0; row < rows->n_rows; row++, at->row++) {
    if (busq_rows_is_event(rows, row)) {
      const uint32_t event = clocks->history->logs[process].events[at->place++];
      if (!busq_observe_event_is_send(event))
        join_message(clocks, event);
    }
    const clock_view clock = read_clock(rows, row);
    if (!clock.components)
      continue;
    judge_clock(clocks, process, clock, faults);
    forget_messages(clocks);
    at->last = clock;
  }
  return BUSQ_OK;
}
