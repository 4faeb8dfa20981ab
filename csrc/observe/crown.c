/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Crowns: could every message have taken no time?
 *
 * Messages on a crown are those of the strongly connected components of "the send of m comes before a delivery of n".
 * To find them, all events of a message become one point, and each event leads to the next one of its process.  An edge
 * of this graph is a pair of the relation (whichever events they are, the send of the one comes before the delivery of
 * the other), and a pair of the relation is a way through the graph; so both have the same components.  The graph has
 * an edge per event, the relation up to one per pair of messages.
 *
 * The shortest crown needs the relation itself.  From the send of a message a search runs along everything that
 * follows, which costs nothing; going from a delivery back to the send of its message costs one, for then that message
 * is on the crown.  It has closed the crown when it comes to a send that some delivery of the first message follows.
 */
#include "observe/sequences.h"
#include <stdlib.h>
#include <string.h>

#define NO_PLACE UINT32_MAX
/* After so many events looked at, no search from a further message begins: the crown found by then may not be the
 * shortest. */
#define SEARCH_STEPS_MAX (UINT64_C(1) << 26)
/* A crown of two is as small as can be; so much more is spent on one that takes fewer words. */
#define EXTRA_STEPS_MAX (UINT64_C(1) << 22)
/* Two events of each of two processes. */
#define FEWEST_STEPS 4

/* When a place was reached, and by way of which other. */
typedef struct {
  uint32_t start; /* 1 + the message whose search reached it last */
  uint32_t from;
} visit;

typedef struct {
  const busq_observe_case *c;
  const busq_observe_orders *orders;
  busq_witness *witness; /* the best one; n_messages is 0 while there is none */
  visit *ahead;    /* by place: follows the start's send; `from` leads back there */
  visit *behind;   /* by place: some delivery of the start follows; `from` leads on to it */
  uint32_t *queue; /* places to go on from at the present cost */
  uint32_t *next;  /* deliveries from which to go back to the send, at one more */
  uint32_t n_queue;
  uint32_t n_next;
  uint32_t shortest; /* larger crowns are of no interest */
  busq_witness found;
  uint64_t n_steps;
} hunt;

static uint32_t place_message(const hunt *s, uint32_t place)
{
  return s->orders->sequence[place];
}

static bool place_is_send(const hunt *s, uint32_t place)
{
  return s->orders->sends[place_message(s, place)] == place;
}

/* Queues the place unless the start's search has been there. */
static void hunt_reach(hunt *s, visit *visits, uint32_t start, uint32_t place, uint32_t from)
{
  s->n_steps++;
  if (visits[place].start == start + 1)
    return;
  visits[place] = (visit){start + 1, from};
  s->queue[s->n_queue++] = place;
}

/* Everything that comes before a delivery of the start. */
static void hunt_look_behind(hunt *s, uint32_t start)
{
  const busq_observe_orders *orders = s->orders;
  s->n_queue = 0;
  for (uint32_t slot = orders->place_starts[start]; slot < orders->place_starts[start + 1]; slot++)
    if (orders->places[slot] != orders->sends[start])
      hunt_reach(s, s->behind, start, orders->places[slot], NO_PLACE);
  for (uint32_t i = 0; i < s->n_queue; i++) {
    const uint32_t place = s->queue[i];
    if (!place_is_send(s, place))
      hunt_reach(s, s->behind, start, orders->sends[place_message(s, place)], place);
    if (place && orders->sequence[place - 1] != BUSQ_OBSERVE_END)
      hunt_reach(s, s->behind, start, place - 1, place);
  }
}

/* Goes on from what is queued; returns the delivery whose message closes the crown, or NO_PLACE. */
static uint32_t hunt_look_ahead(hunt *s, uint32_t start)
{
  const busq_observe_orders *orders = s->orders;
  for (uint32_t i = 0; i < s->n_queue; i++) {
    const uint32_t place = s->queue[i];
    const uint32_t message = place_message(s, place);
    if (place_is_send(s, place)) {
      for (uint32_t slot = orders->place_starts[message]; slot < orders->place_starts[message + 1]; slot++)
        hunt_reach(s, s->ahead, start, orders->places[slot], place);
    } else if (message != start) {
      if (s->behind[orders->sends[message]].start == start + 1)
        return place;
      s->next[s->n_next++] = place;
    }
    if (orders->sequence[place + 1] != BUSQ_OBSERVE_END)
      hunt_reach(s, s->ahead, start, place + 1, place);
  }
  return NO_PLACE;
}

/* ---- the crown, as a walk around it ---- */

static void crown_note_message(hunt *s, uint32_t message)
{
  if (s->found.n_messages < BUSQ_WITNESS_MESSAGES)
    s->found.messages[s->found.n_messages] = busq_observe_name(s->c, s->orders->numbers[message]);
  s->found.n_messages++;
}

static void crown_note_step(hunt *s, uint32_t process, uint32_t place)
{
  if (s->found.n_steps < BUSQ_WITNESS_STEPS)
    s->found.steps[s->found.n_steps] =
        (busq_witness_step){.message = busq_observe_name(s->c, s->orders->numbers[place_message(s, place)]),
                            .process = process,
                            .kind = place_is_send(s, place) ? BUSQ_EVENT_SEND : BUSQ_EVENT_DELIVER};
  s->found.n_steps++;
}

/* Two events of one process; nothing for one alone, which only hands its message on. */
static void crown_note_stretch(hunt *s, uint32_t first, uint32_t last)
{
  uint32_t low = 0;
  uint32_t high = s->orders->n_receivers;
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    if (s->orders->starts[middle] <= first)
      low = middle;
    else
      high = middle;
  }
  if (first == last)
    return;
  crown_note_step(s, low, first);
  crown_note_step(s, low, last);
}

/* The walk from the start's send to the closing delivery.  It was kept backwards; the queue is free to turn it. */
static uint32_t crown_collect(hunt *s, uint32_t closing)
{
  uint32_t n = 0;
  for (uint32_t place = closing; place != NO_PLACE; place = s->ahead[place].from)
    s->queue[n++] = place;
  for (uint32_t i = 0; i < n / 2; i++) {
    const uint32_t other = s->queue[i];
    s->queue[i] = s->queue[n - 1 - i];
    s->queue[n - 1 - i] = other;
  }
  return n;
}

static void crown_note(hunt *s, uint32_t start, uint32_t closing)
{
  const uint32_t n = crown_collect(s, closing);
  uint32_t first = s->queue[0];
  uint32_t last = first;
  s->found = (busq_witness){0};
  crown_note_message(s, start);
  for (uint32_t i = 1; i < n; i++) {
    const uint32_t place = s->queue[i];
    if (place != last + 1) {
      if (place_is_send(s, place))
        crown_note_message(s, place_message(s, place));
      crown_note_stretch(s, first, last);
      first = place;
    }
    last = place;
  }
  crown_note_stretch(s, first, last);
  crown_note_message(s, place_message(s, closing));
  last = first = s->orders->sends[place_message(s, closing)];
  for (uint32_t place = s->behind[last].from; place != NO_PLACE; place = s->behind[place].from) {
    if (place != last + 1) {
      crown_note_stretch(s, first, last);
      first = place;
    }
    last = place;
  }
  crown_note_stretch(s, first, last);
}

/* ---- the hunt ---- */

/* Keeps the crown just found if it is smaller than the best one, or takes fewer words. */
static void hunt_compare(hunt *s)
{
  busq_witness *best = s->witness;
  if (best->n_messages && s->found.n_messages == best->n_messages && s->found.n_steps >= best->n_steps)
    return;
  *best = s->found;
  s->shortest = best->n_messages;
}

/* Looks for a crown through the start that is no larger than the best one so far. */
static void hunt_from(hunt *s, uint32_t start)
{
  hunt_look_behind(s, start);
  s->n_queue = 0;
  s->n_next = 0;
  hunt_reach(s, s->ahead, start, s->orders->sends[start], NO_PLACE);
  for (uint32_t size = 2; size <= s->shortest && s->n_queue; size++) {
    const uint32_t closing = hunt_look_ahead(s, start);
    if (closing != NO_PLACE) {
      crown_note(s, start, closing);
      hunt_compare(s);
      return;
    }
    s->n_queue = 0;
    for (uint32_t i = 0; i < s->n_next; i++)
      hunt_reach(s, s->ahead, start, s->orders->sends[place_message(s, s->next[i])], s->next[i]);
    s->n_next = 0;
  }
}

/* Makes the shortest crown the witness of the property: of at most `size_max` messages, and the lowest of them at
 * least `first`; there has to be one. */
static int find_shortest_crown(const busq_observe_case *c, const busq_observe_orders *orders, uint32_t first,
                               uint32_t size_max, busq_property property)
{
  const size_t n = orders->starts[orders->n_receivers] + (size_t)1;
  hunt s = {.c = c,
              .orders = orders,
              .witness = &busq_observe_verdict(c, property)->witness,
              .shortest = size_max};
  uint64_t n_steps_max = SEARCH_STEPS_MAX;
  s.ahead = calloc(n, sizeof *s.ahead);
  s.behind = calloc(n, sizeof *s.behind);
  s.queue = malloc(n * sizeof *s.queue);
  s.next = malloc(n * sizeof *s.next);
  const bool went_well = s.ahead && s.behind && s.queue && s.next;
  for (uint32_t start = first; went_well && start < orders->n_messages && s.n_steps < n_steps_max; start++) {
    hunt_from(&s, start);
    if (s.witness->n_messages != 2)
      continue;
    if (s.witness->n_steps == FEWEST_STEPS)
      break;
    if (n_steps_max == SEARCH_STEPS_MAX)
      n_steps_max = s.n_steps + EXTRA_STEPS_MAX;
  }
  free(s.ahead);
  free(s.behind);
  free(s.queue);
  free(s.next);
  return went_well ? BUSQ_OK : busq_observe_out_of_memory();
}

/* ---- the verdicts ---- */

/* Clears the bytes of messages that have no delivery but impossible ones. */
static void omit_impossible(const busq_observe_case *c, uint8_t *chosen, uint8_t *has_possible)
{
  memset(has_possible, 0, c->n_messages);
  for (uint32_t process = 0; process < c->history->n_processes; process++) {
    const busq_observe_log *log = &c->history->logs[process];
    const uint8_t *marks = busq_observe_marks(c, process);
    for (uint32_t place = 0; place < log->n_events; place++)
      if (busq_observe_hands_on(log->events[place], marks[place]))
        has_possible[log->events[place]] = 1;
  }
  for (uint32_t message = 0; message < c->n_messages; message++)
    chosen[message] &= has_possible[message];
}

static int judge_mysterious(busq_observe_case *c, uint8_t *chosen, uint8_t *has_possible)
{
  busq_observe_orders orders;
  uint64_t *count = &busq_observe_verdict(c, BUSQ_PROPERTY_MYSTERIOUS)->count;
  uint32_t lowest = 0;
  omit_impossible(c, chosen, has_possible);
  int result = busq_observe_orders_init(&orders, c, chosen, BUSQ_OBSERVE_POSSIBLE_EVENTS);
  if (result == BUSQ_OK)
    result = busq_observe_count_mysterious(&orders, count, &lowest);
  if (result == BUSQ_OK && *count)
    result = find_shortest_crown(c, &orders, lowest, 2, BUSQ_PROPERTY_MYSTERIOUS);
  busq_observe_orders_deinit(&orders);
  return result;
}

static int find_shortest(const busq_observe_case *c, const busq_observe_orders *orders)
{
  return find_shortest_crown(c, orders, 0, UINT32_MAX, BUSQ_PROPERTY_SYNCHRONOUS);
}

int busq_observe_judge_crowns(busq_observe_case *c, bool is_mysterious_asked)
{
  uint8_t *chosen = calloc(c->n_messages + (size_t)1, sizeof *chosen);
  uint8_t *smallest = calloc(c->n_messages + (size_t)1, sizeof *smallest);
  int result = chosen && smallest ? BUSQ_OK : busq_observe_out_of_memory();
  if (result == BUSQ_OK) {
    for (uint32_t message = 0; message < c->n_messages; message++)
      chosen[message] = c->history->messages[message].sender != BUSQ_OBSERVE_NOBODY && c->tallies[message].receivers;
    result = busq_observe_judge_cycles(c, chosen, smallest, BUSQ_OBSERVE_SENDS_AND_DELIVERIES, BUSQ_PROPERTY_SYNCHRONOUS,
                                       find_shortest);
  }
  if (result == BUSQ_OK && is_mysterious_asked && busq_observe_verdict(c, BUSQ_PROPERTY_SYNCHRONOUS)->count)
    result = judge_mysterious(c, chosen, smallest);
  free(chosen);
  free(smallest);
  return result;
}
