/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is there one order in which all delivered?
 *
 * The merge: every receiver points at its next delivery; a message that all its receivers point at comes next, and they
 * move on.  If everything comes out, it came out in a total order that agrees with every receiver.  If the merge gets
 * stuck, what is left holds every cycle (and what stands behind one), and only that is looked at further.
 */
#include "observe/sequences.h"
#include <stdlib.h>
#include <string.h>

/* ---- the merge ---- */

typedef struct {
  uint32_t awaited; /* receivers that do not point at it yet; 0: it came out */
  uint32_t pointer; /* 1 + one of those that do; merge.others leads to the rest */
} merge_message;

typedef struct {
  const busq_observe_case *c;
  merge_message *messages;
  uint32_t *cursors; /* by receiver: the place behind the delivery it points at */
  uint32_t *others;  /* by receiver: 1 + another that points at the same message */
  uint32_t *ready;   /* messages that all their receivers point at: no more than there are receivers */
  uint32_t n_ready;
} merge;

static int merge_init(merge *m, const busq_observe_case *c)
{
  const size_t n = c->history->n_processes;
  *m = (merge){.c = c};
  m->messages = malloc((c->n_messages + (size_t)1) * sizeof *m->messages);
  m->cursors = calloc(n + 1, sizeof *m->cursors);
  m->others = calloc(n + 1, sizeof *m->others);
  m->ready = malloc((n + 1) * sizeof *m->ready);
  if (!m->messages || !m->cursors || !m->others || !m->ready)
    return busq_observe_out_of_memory();
  for (uint32_t message = 0; message < c->n_messages; message++)
    m->messages[message] = (merge_message){.awaited = c->tallies[message].receivers};
  return BUSQ_OK;
}

static void merge_deinit(merge *m)
{
  free(m->messages);
  free(m->cursors);
  free(m->others);
  free(m->ready);
}

/* The receiver points at its next first delivery, if there is one. */
static void merge_move_on(merge *m, uint32_t receiver)
{
  const busq_observe_log *log = &m->c->history->logs[receiver];
  const uint8_t *marks = busq_observe_marks(m->c, receiver);
  uint32_t place = m->cursors[receiver];
  while (place < log->n_events && !busq_observe_is_first_delivery(log->events[place], marks[place]))
    place++;
  m->cursors[receiver] = place + (place < log->n_events);
  if (place == log->n_events)
    return;
  const uint32_t message = log->events[place];
  m->others[receiver] = m->messages[message].pointer;
  m->messages[message].pointer = receiver + 1;
  if (!--m->messages[message].awaited)
    m->ready[m->n_ready++] = message;
}

static void merge_run(merge *m)
{
  for (uint32_t receiver = 0; receiver < m->c->history->n_processes; receiver++)
    merge_move_on(m, receiver);
  while (m->n_ready) {
    const uint32_t message = m->ready[--m->n_ready];
    uint32_t receiver = m->messages[message].pointer;
    while (receiver) {
      const uint32_t other = m->others[receiver - 1];
      merge_move_on(m, receiver - 1);
      receiver = other;
    }
  }
}

/* Sets the bytes of the messages that do not come out of the merge; *foundp: there are some. */
static int find_unordered(const busq_observe_case *c, uint8_t *chosen, bool *foundp)
{
  merge m;
  const int result = merge_init(&m, c);
  if (result == BUSQ_OK) {
    merge_run(&m);
    *foundp = false;
    for (uint32_t message = 0; message < c->n_messages; message++) {
      chosen[message] = m.messages[message].awaited > 0;
      *foundp |= chosen[message];
    }
  }
  merge_deinit(&m);
  return result;
}

/* ---- orders, cut down ---- */

void busq_observe_orders_deinit(busq_observe_orders *orders)
{
  free(orders->starts);
  free(orders->sequence);
  free(orders->numbers);
  free(orders->place_starts);
  free(orders->places);
  free(orders->receivers);
  free(orders->sends);
  *orders = (busq_observe_orders){0};
}

static bool orders_keep(const busq_observe_orders *orders, const busq_observe_case *c, const uint8_t *chosen,
                        uint32_t process, uint32_t place)
{
  const uint32_t event = c->history->logs[process].events[place];
  const uint32_t message = busq_observe_event_message(event);
  if (!chosen[message])
    return false;
  if (busq_observe_event_is_send(event))
    return orders->selection.with_sends &&
           busq_observe_message_was_sent_at(&c->history->messages[message], process, place);
  return !(busq_observe_marks(c, process)[place] & orders->selection.marks_omitted);
}

/* Numbers the chosen messages, sets where their places start, and returns how many places there are. */
static uint32_t orders_number(busq_observe_orders *orders, const busq_observe_case *c, const uint8_t *chosen, uint32_t *local)
{
  uint32_t n = 0;
  memset(local, 0xff, c->n_messages * sizeof *local); /* BUSQ_INDEX_NONE */
  for (uint32_t process = 0; process < orders->n_receivers; process++) {
    const busq_observe_log *log = &c->history->logs[process];
    for (uint32_t place = 0; place < log->n_events; place++) {
      if (!orders_keep(orders, c, chosen, process, place))
        continue;
      const uint32_t message = busq_observe_event_message(log->events[place]);
      if (local[message] == BUSQ_INDEX_NONE) {
        local[message] = n;
        orders->place_starts[n] = 0;
        orders->numbers[n++] = message;
      }
      orders->place_starts[local[message]]++;
    }
  }
  uint32_t n_places = 0;
  for (uint32_t message = 0; message < n; message++) {
    const uint32_t count = orders->place_starts[message];
    orders->place_starts[message] = n_places;
    n_places += count;
  }
  orders->place_starts[n] = n_places;
  orders->n_messages = n;
  return n_places;
}

static void orders_fill(busq_observe_orders *orders, const busq_observe_case *c, const uint8_t *chosen, const uint32_t *local)
{
  uint32_t end = 0;
  for (uint32_t process = 0; process < orders->n_receivers; process++) {
    const busq_observe_log *log = &c->history->logs[process];
    orders->starts[process] = end;
    for (uint32_t place = 0; place < log->n_events; place++) {
      if (!orders_keep(orders, c, chosen, process, place))
        continue;
      const uint32_t message = local[busq_observe_event_message(log->events[place])];
      const uint32_t slot = orders->place_starts[message]++;
      orders->places[slot] = end;
      orders->receivers[slot] = (uint16_t)process;
      if (busq_observe_event_is_send(log->events[place]))
        orders->sends[message] = end;
      orders->sequence[end++] = message;
    }
    orders->sequence[end++] = BUSQ_OBSERVE_END;
  }
  orders->starts[orders->n_receivers] = end;
  /* Every start has moved to the next message's: back by one. */
  memmove(orders->place_starts + 1, orders->place_starts, orders->n_messages * sizeof *orders->place_starts);
  orders->place_starts[0] = 0;
}

int busq_observe_orders_init(busq_observe_orders *orders, const busq_observe_case *c, const uint8_t *chosen,
                             busq_observe_selection selection)
{
  *orders = (busq_observe_orders){.selection = selection, .n_receivers = c->history->n_processes};
  for (uint32_t message = 0; message < c->n_messages; message++)
    orders->n_messages += chosen[message] != 0;
  uint32_t *local = malloc((c->n_messages + (size_t)1) * sizeof *local);
  orders->starts = malloc((orders->n_receivers + (size_t)1) * sizeof *orders->starts);
  orders->numbers = malloc((orders->n_messages + (size_t)1) * sizeof *orders->numbers);
  orders->place_starts = malloc((orders->n_messages + (size_t)1) * sizeof *orders->place_starts);
  if (selection.with_sends)
    orders->sends = malloc((orders->n_messages + (size_t)1) * sizeof *orders->sends);
  bool went_well = local && orders->starts && orders->numbers && orders->place_starts &&
                   (orders->sends || !selection.with_sends);
  if (went_well) {
    const size_t n_places = orders_number(orders, c, chosen, local);
    orders->sequence = malloc((n_places + orders->n_receivers + 1) * sizeof *orders->sequence);
    orders->places = malloc((n_places + 1) * sizeof *orders->places);
    orders->receivers = malloc((n_places + 1) * sizeof *orders->receivers);
    went_well = orders->sequence && orders->places && orders->receivers;
  }
  if (went_well)
    orders_fill(orders, c, chosen, local);
  else
    busq_observe_orders_deinit(orders);
  free(local);
  return went_well ? BUSQ_OK : busq_observe_out_of_memory();
}

/* ---- the two verdicts ---- */

int busq_observe_judge_cycles(busq_observe_case *c, uint8_t *chosen, uint8_t *smallest, busq_observe_selection selection,
                              busq_property property, busq_observe_witness_finder *find)
{
  uint64_t *count = &busq_observe_verdict(c, property)->count;
  busq_observe_orders orders;
  int result = busq_observe_orders_init(&orders, c, chosen, selection);
  if (result == BUSQ_OK)
    result = busq_observe_find_cycles(&orders, chosen, smallest, count);
  busq_observe_orders_deinit(&orders);
  if (result != BUSQ_OK || !*count)
    return result;
  result = busq_observe_orders_init(&orders, c, smallest, selection);
  if (result == BUSQ_OK)
    result = find(c, &orders);
  busq_observe_orders_deinit(&orders);
  return result;
}

/* Two messages that two receivers deliver in opposite orders lie on one cycle: no others need to be compared. */
static int judge_consistent(busq_observe_case *c, const uint8_t *chosen)
{
  busq_observe_orders orders;
  int result = busq_observe_orders_init(&orders, c, chosen, BUSQ_OBSERVE_DELIVERIES);
  if (result == BUSQ_OK)
    result = busq_observe_compare_receivers(c, &orders);
  busq_observe_orders_deinit(&orders);
  return result;
}

int busq_observe_judge_orders(busq_observe_case *c)
{
  uint8_t *chosen = calloc(c->n_messages + (size_t)1, sizeof *chosen);
  uint8_t *smallest = calloc(c->n_messages + (size_t)1, sizeof *smallest);
  bool is_unordered = false;
  int result = chosen && smallest ? find_unordered(c, chosen, &is_unordered) : busq_observe_out_of_memory();
  if (result == BUSQ_OK && is_unordered) {
    result = busq_observe_judge_cycles(c, chosen, smallest, BUSQ_OBSERVE_DELIVERIES, BUSQ_PROPERTY_TOTAL,
                                       busq_observe_find_shortest_cycle);
    if (result == BUSQ_OK)
      result = judge_consistent(c, chosen);
  }
  free(chosen);
  free(smallest);
  return result;
}
