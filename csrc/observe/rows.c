/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows into a history.  Where all rows are events, the columns of kinds and messages are handed on as they are, and so
 * are the destinations where those of the sends follow each other without a gap; else they are copied together first.
 */
#include "observe/rows.h"
#include "base/error.h"
#include "observe/history.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
  const busq_rows *rows;
  size_t n_events;
  size_t n_sends;
  size_t n_destinations;
  bool is_packed;     /* the destinations of the sends follow each other */
  size_t destinations_begin;
  size_t died_behind; /* so many of the events, if it has_died */
  bool has_died;
  bool came_back;     /* it joined, after its last death if that is among the rows */
  uint8_t *kinds;     /* NULL: those of the rows */
  uint64_t *messages;
  uint32_t *counts;
  uint32_t *destinations;
} selection;

static void selection_note_life(selection *s, uint32_t kind)
{
  if (kind == BUSQ_ROW_DIE) {
    s->has_died = true;
    s->came_back = false;
    s->died_behind = s->n_events;
  } else if (kind == BUSQ_ROW_JOIN) {
    s->came_back = true;
  }
}

static void selection_measure(selection *s)
{
  size_t end = 0;
  s->is_packed = true;
  for (size_t row = 0; row < s->rows->n_rows; row++) {
    if (!busq_rows_is_event(s->rows, row)) {
      selection_note_life(s, busq_rows_kind(s->rows, row));
      continue;
    }
    s->n_events++;
    if (busq_rows_kind(s->rows, row) != BUSQ_EVENT_SEND)
      continue;
    size_t begin = end;
    const uint32_t count = busq_column_list(&s->rows->destinations, row, &begin);
    if (count && !s->n_destinations)
      s->destinations_begin = end = begin;
    s->is_packed &= !count || begin == end;
    end += count;
    s->n_destinations += count;
    s->n_sends++;
  }
}

static bool selection_reserve(selection *s)
{
  const bool is_whole = s->n_events == s->rows->n_rows;
  s->counts = malloc((s->n_sends + 1) * sizeof *s->counts);
  if (!is_whole) {
    s->kinds = malloc((s->n_events + 1) * sizeof *s->kinds);
    s->messages = malloc((s->n_events + 1) * sizeof *s->messages);
  }
  if (!s->is_packed)
    s->destinations = malloc((s->n_destinations + 1) * sizeof *s->destinations);
  return s->counts && (is_whole || (s->kinds && s->messages)) && (s->is_packed || s->destinations);
}

static void selection_fill(selection *s)
{
  const busq_column *items = &s->rows->destination_items;
  size_t n_events = 0, n_sends = 0, n_destinations = 0;
  for (size_t row = 0; row < s->rows->n_rows; row++) {
    if (!busq_rows_is_event(s->rows, row))
      continue;
    const uint32_t kind = busq_rows_kind(s->rows, row);
    if (s->kinds) {
      s->kinds[n_events] = (uint8_t)kind;
      s->messages[n_events++] = (uint64_t)busq_column_number(&s->rows->messages, row);
    }
    if (kind != BUSQ_EVENT_SEND)
      continue;
    size_t begin = 0;
    const uint32_t count = busq_column_list(&s->rows->destinations, row, &begin);
    s->counts[n_sends++] = count;
    if (s->destinations && count)
      memcpy(s->destinations + n_destinations, (const int32_t *)items->values + items->offset + begin,
             count * sizeof *s->destinations);
    n_destinations += count;
  }
}

static int selection_append(const selection *s, busq_history *history, uint32_t process)
{
  const busq_rows *rows = s->rows;
  const uint8_t *kinds = s->kinds ? s->kinds : (const uint8_t *)rows->kinds.values + rows->kinds.offset;
  const uint64_t *messages =
      s->messages ? s->messages : (const uint64_t *)rows->messages.values + rows->messages.offset;
  const uint32_t *destinations = s->destinations;
  if (!destinations && s->n_destinations)
    destinations = (const uint32_t *)rows->destination_items.values + rows->destination_items.offset +
                   s->destinations_begin;
  return busq_history_append(history, process, s->n_events, kinds, messages, s->counts, destinations,
                             s->n_destinations);
}

/* After the events were appended. */
static void selection_tell_life(const selection *s, busq_observe_log *log)
{
  if (s->has_died) {
    log->has_died = true;
    log->came_back = s->came_back;
    log->died_behind = log->n_events - (uint32_t)(s->n_events - s->died_behind);
  } else if (s->came_back && log->has_died) {
    log->came_back = true;
  }
}

int busq_history_append_rows(busq_history *history, uint32_t process, const busq_rows *rows)
{
  selection s = {.rows = rows};
  selection_measure(&s);
  int result = BUSQ_NO_SPACE;
  if (!s.n_events) {
    result = busq_observe_check_process(history, process);
  } else if (selection_reserve(&s)) {
    selection_fill(&s);
    result = selection_append(&s, history, process);
  } else {
    result = busq_error(BUSQ_NO_SPACE, "no memory to read %zu rows: judge them in parts, or on a larger machine",
                        rows->n_rows);
  }
  if (result == BUSQ_OK)
    selection_tell_life(&s, &history->logs[process]);
  free(s.kinds);
  free(s.messages);
  free(s.counts);
  free(s.destinations);
  return result;
}

int busq_rows_check(const busq_rows *rows, const busq_history *history, uint32_t process, uint32_t n_read)
{
  if (busq_observe_check_process(history, process) != BUSQ_OK)
    return BUSQ_INVALID;
  size_t n_events = 0;
  for (size_t row = 0; row < rows->n_rows; row++)
    n_events += busq_rows_is_event(rows, row);
  const uint32_t left = history->logs[process].n_events - n_read;
  if (n_events > left)
    return busq_error(BUSQ_INVALID, "%zu more events of process %u, but its history has only %u left", n_events, process, left);
  return BUSQ_OK;
}

void busq_rows_count(const busq_rows *rows, uint64_t *counts)
{
  for (size_t row = 0; row < rows->n_rows; row++) {
    const uint32_t kind = busq_rows_kind(rows, row);
    counts[kind < BUSQ_ROW_KINDS ? kind : BUSQ_ROW_KINDS - 1]++;
  }
}
