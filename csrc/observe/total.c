/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cycles of the union of delivery orders, or of orders that hold sends as well (crown.c).
 *
 * For reachability it is enough that each event leads to the next one of its process; the messages on cycles are
 * those of the strongly connected components with more than one member (Tarjan's algorithm on a stack of our own).
 *
 * For the shortest cycle every delivery leads to *all* later ones of its receiver.  A breadth-first search need not
 * look at a receiver's deliveries twice: what stands behind a place once reached has been reached too.
 */
#include "observe/sequences.h"
#include <stdlib.h>

/* ---- components ---- */

/* Together, for they are needed together, and messages are met in no order. */
typedef struct {
  uint32_t arrival;   /* when it was reached, from 1; 0: not yet */
  uint32_t lowest;    /* the earliest arrival still open that it leads back to */
  uint32_t cursor;    /* its next place to follow */
  uint32_t component; /* which one, from 1; 0: not closed */
} tarjan_message;

typedef struct {
  const busq_observe_orders *orders;
  tarjan_message *messages;
  uint32_t *sizes;      /* by component */
  uint32_t *path;       /* from the root to where we are */
  uint32_t *open;       /* reached, component not closed */
  uint32_t n_path;
  uint32_t n_open;
  uint32_t n_reached;
  uint32_t n_components;
} tarjan;

static bool tarjan_init(tarjan *t, const busq_observe_orders *orders)
{
  const size_t n = orders->n_messages;
  *t = (tarjan){.orders = orders};
  t->messages = calloc(n + 1, sizeof *t->messages);
  t->sizes = calloc(n + 1, sizeof *t->sizes);
  t->path = malloc((n + 1) * sizeof *t->path);
  t->open = malloc((n + 1) * sizeof *t->open);
  return t->messages && t->sizes && t->path && t->open;
}

static void tarjan_deinit(tarjan *t)
{
  free(t->messages);
  free(t->sizes);
  free(t->path);
  free(t->open);
}

static void tarjan_enter(tarjan *t, uint32_t message)
{
  t->n_reached++;
  t->messages[message] = (tarjan_message){t->n_reached, t->n_reached, t->orders->place_starts[message], 0};
  t->path[t->n_path++] = message;
  t->open[t->n_open++] = message;
}

/* Closes the component whose root the message is, if it is one, and goes back to where we came from. */
static void tarjan_leave(tarjan *t, uint32_t message)
{
  const tarjan_message *m = &t->messages[message];
  if (m->lowest == m->arrival) {
    const uint32_t component = ++t->n_components;
    uint32_t member;
    do {
      member = t->open[--t->n_open];
      t->messages[member].component = component;
      t->sizes[component]++;
    } while (member != message);
  }
  t->n_path--;
  if (t->n_path) {
    tarjan_message *parent = &t->messages[t->path[t->n_path - 1]];
    if (m->lowest < parent->lowest)
      parent->lowest = m->lowest;
  }
}

static void tarjan_step(tarjan *t)
{
  const busq_observe_orders *orders = t->orders;
  const uint32_t message = t->path[t->n_path - 1];
  tarjan_message *m = &t->messages[message];
  if (m->cursor == orders->place_starts[message + 1]) {
    tarjan_leave(t, message);
    return;
  }
  const uint32_t next = orders->sequence[orders->places[m->cursor++] + 1];
  if (next == BUSQ_OBSERVE_END)
    return;
  if (!t->messages[next].arrival)
    tarjan_enter(t, next);
  else if (!t->messages[next].component && t->messages[next].arrival < m->lowest)
    m->lowest = t->messages[next].arrival;
}

/* Finds, of the smallest components, the one that holds the message with the lowest number; 0: there are no cycles. */
static uint32_t tarjan_smallest(const tarjan *t)
{
  uint32_t smallest = 0;
  for (uint32_t message = 0; message < t->orders->n_messages; message++) {
    const uint32_t component = t->messages[message].component;
    if (t->sizes[component] > 1 && (!smallest || t->sizes[component] < t->sizes[smallest]))
      smallest = component;
  }
  return smallest;
}

int busq_observe_find_cycles(const busq_observe_orders *orders, uint8_t *chosen, uint8_t *smallest, uint64_t *countp)
{
  tarjan t;
  const bool went_well = tarjan_init(&t, orders);
  for (uint32_t root = 0; went_well && root < orders->n_messages; root++) {
    if (!t.messages[root].arrival)
      tarjan_enter(&t, root);
    while (t.n_path)
      tarjan_step(&t);
  }
  const uint32_t least = went_well ? tarjan_smallest(&t) : 0;
  for (uint32_t message = 0; went_well && message < orders->n_messages; message++) {
    const uint32_t component = t.messages[message].component;
    *countp += t.sizes[component] > 1;
    chosen[orders->numbers[message]] = t.sizes[component] > 1;
    smallest[orders->numbers[message]] = component == least;
  }
  tarjan_deinit(&t);
  return went_well ? BUSQ_OK : busq_observe_out_of_memory();
}

/* ---- the shortest cycle ---- */

/* After so many deliveries looked at, no search from a further message begins: the cycle found by then may not be
 * the shortest. */
#define SEARCH_STEPS_MAX (UINT64_C(1) << 26)

typedef struct {
  uint32_t start;    /* 1 + the message whose search reached this one last */
  uint32_t depth;    /* edges from there */
  uint32_t before;   /* the message before it on the way */
  uint32_t receiver; /* which delivered that one before this one */
} search_visit;

typedef struct {
  const busq_observe_case *c;
  const busq_observe_orders *orders;
  busq_witness *witness;
  search_visit *visits; /* by message */
  uint32_t *queue;
  uint32_t n_queue;
  uint32_t *limits; /* by receiver: places from here on have been looked at */
  uint64_t n_steps;
  uint32_t shortest;
} search;

/* The way from the start to `last`, whose receiver delivered it before the start. */
static void search_note_cycle(search *s, uint32_t last, uint32_t receiver)
{
  s->shortest = s->visits[last].depth + 1;
  *s->witness = (busq_witness){.n_steps = s->shortest};
  uint32_t message = last;
  for (uint32_t i = s->shortest; i-- > 0;) {
    if (i < BUSQ_WITNESS_STEPS)
      s->witness->steps[i] = (busq_witness_step){.message = busq_observe_name(s->c, s->orders->numbers[message]),
                                                 .process = receiver};
    receiver = s->visits[message].receiver;
    message = s->visits[message].before;
  }
}

/* Reaches what this receiver delivered behind the place.  True when that includes the start. */
static bool search_follow(search *s, uint32_t start, uint32_t message, uint32_t slot)
{
  const uint32_t receiver = s->orders->receivers[slot];
  const uint32_t first = s->orders->places[slot] + 1;
  for (uint32_t place = first; place < s->limits[receiver]; place++) {
    const uint32_t next = s->orders->sequence[place];
    s->n_steps++;
    if (next == start) {
      search_note_cycle(s, message, receiver);
      return true;
    }
    if (s->visits[next].start == start + 1)
      continue;
    s->visits[next] = (search_visit){start + 1, s->visits[message].depth + 1, message, receiver};
    s->queue[s->n_queue++] = next;
  }
  if (first < s->limits[receiver])
    s->limits[receiver] = first;
  return false;
}

/* Looks for a cycle through the start that is shorter than the shortest one so far. */
static void search_from(search *s, uint32_t start)
{
  const busq_observe_orders *orders = s->orders;
  for (uint32_t receiver = 0; receiver < orders->n_receivers; receiver++)
    s->limits[receiver] = orders->starts[receiver + 1] - 1; /* there stands BUSQ_OBSERVE_END */
  s->n_steps += orders->n_receivers;
  s->visits[start] = (search_visit){.start = start + 1};
  s->queue[0] = start;
  s->n_queue = 1;
  for (uint32_t i = 0; i < s->n_queue; i++) {
    const uint32_t message = s->queue[i];
    if (s->shortest && s->visits[message].depth + 1 >= s->shortest)
      return;
    for (uint32_t slot = orders->place_starts[message]; slot < orders->place_starts[message + 1]; slot++)
      if (search_follow(s, start, message, slot))
        return;
  }
}

int busq_observe_find_shortest_cycle(const busq_observe_case *c, const busq_observe_orders *orders)
{
  search s = {.c = c, .orders = orders, .witness = &busq_observe_verdict(c, BUSQ_PROPERTY_TOTAL)->witness};
  s.visits = calloc(orders->n_messages + (size_t)1, sizeof *s.visits);
  s.queue = malloc((orders->n_messages + (size_t)1) * sizeof *s.queue);
  s.limits = malloc((orders->n_receivers + (size_t)1) * sizeof *s.limits);
  const bool went_well = s.visits && s.queue && s.limits;
  for (uint32_t start = 0; went_well && start < orders->n_messages; start++) {
    search_from(&s, start);
    if (s.shortest == 2 || s.n_steps > SEARCH_STEPS_MAX)
      break;
  }
  free(s.visits);
  free(s.queue);
  free(s.limits);
  return went_well ? BUSQ_OK : busq_observe_out_of_memory();
}
