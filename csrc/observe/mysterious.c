/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Crowns of two: which messages x have another one, y, such that the send of each comes before a delivery of the other?
 *
 * Two numbers for every message x and process q decide it: the first event of q that follows the send of x, found by a
 * walk from the end of the history to its beginning, and the last delivery at q of a message that was sent before a
 * delivery of x, found by a walk the other way (it looks ahead: where a message will be delivered is known when it is
 * sent).  If for some q the second is not before the first, there is such a y, and only then.  The processes q
 * have nothing to do with each other, so they are taken a few at a time: that bounds the memory.
 *
 * The second number must leave out what x itself would add.  It comes only by way of a chain that leads to the
 * receiver of x before x does; but then the last message of that chain and x make a crown, and x counts rightly.  The
 * exception is a message to oneself, where the send and the delivery stand in one log: there x is on a crown if
 * anything stands between them, and otherwise the delivery adds nothing to what the send has seen.
 */
#include "observe/sequences.h"
#include <stdlib.h>
#include <string.h>

/* Processes at a time. */
#define LANES 8

#define NEVER UINT32_MAX

typedef struct {
  uint32_t lanes[LANES];
} row;

typedef struct {
  const busq_observe_orders *orders;
  uint16_t *order;   /* the processes of all events, each after what comes before it */
  uint32_t n_events;
  uint32_t *cursors; /* by process: the next event, or the one before which it stands */
  uint32_t *waiting; /* by message: 1 + a process that waits for its send; `others` leads to more */
  uint32_t *others;  /* by process */
  uint32_t *ready;   /* processes that can go on */
  row *at;           /* by process */
  row *firsts;       /* by message: the first events that follow its send */
  row *lasts;        /* by message: 1 + the last deliveries of what was sent before it, itself included; 0: none */
  uint32_t *slots;   /* by message: its first place of the present processes, or later */
  uint8_t *found;    /* by message: it is on a crown of two */
} pairs;

static bool pairs_init(pairs *p, const busq_observe_orders *orders)
{
  const size_t n_messages = orders->n_messages + (size_t)1;
  const size_t n_processes = orders->n_receivers + (size_t)1;
  *p = (pairs){.orders = orders};
  p->order = malloc((orders->place_starts[orders->n_messages] + (size_t)1) * sizeof *p->order);
  p->cursors = malloc(n_processes * sizeof *p->cursors);
  p->waiting = calloc(n_messages, sizeof *p->waiting);
  p->others = malloc(n_processes * sizeof *p->others);
  p->ready = malloc(n_processes * sizeof *p->ready);
  p->at = malloc(n_processes * sizeof *p->at);
  p->firsts = malloc(n_messages * sizeof *p->firsts);
  p->lasts = malloc(n_messages * sizeof *p->lasts);
  p->slots = malloc(n_messages * sizeof *p->slots);
  p->found = calloc(n_messages, sizeof *p->found);
  return p->order && p->cursors && p->waiting && p->others && p->ready && p->at && p->firsts && p->lasts &&
         p->slots && p->found;
}

static void pairs_deinit(pairs *p)
{
  free(p->order);
  free(p->cursors);
  free(p->waiting);
  free(p->others);
  free(p->ready);
  free(p->at);
  free(p->firsts);
  free(p->lasts);
  free(p->slots);
  free(p->found);
}

/* ---- the walk ---- */

/* The process goes on up to a delivery whose send was not passed yet, or to its end. */
static void pairs_advance(pairs *p, uint32_t process, uint32_t *n_readyp)
{
  const busq_observe_orders *orders = p->orders;
  for (;;) {
    const uint32_t place = p->cursors[process];
    const uint32_t message = orders->sequence[place];
    if (message == BUSQ_OBSERVE_END)
      return;
    if (orders->sends[message] != place && p->waiting[message] != NEVER) {
      p->others[process] = p->waiting[message];
      p->waiting[message] = process + 1;
      return;
    }
    p->order[p->n_events++] = (uint16_t)process;
    p->cursors[process]++;
    if (orders->sends[message] != place)
      continue;
    for (uint32_t other = p->waiting[message]; other; other = p->others[other - 1])
      p->ready[(*n_readyp)++] = other - 1;
    p->waiting[message] = NEVER;
  }
}

static void pairs_plan(pairs *p)
{
  uint32_t n_ready = 0;
  memcpy(p->cursors, p->orders->starts, p->orders->n_receivers * sizeof *p->cursors);
  for (uint32_t process = 0; process < p->orders->n_receivers; process++) {
    pairs_advance(p, process, &n_ready);
    while (n_ready)
      pairs_advance(p, p->ready[--n_ready], &n_ready);
  }
}

/* ---- a few processes at a time ---- */

static void row_fill(row *r, uint32_t value)
{
  for (int lane = 0; lane < LANES; lane++)
    r->lanes[lane] = value;
}

static void row_lower(row *r, const row *other)
{
  for (int lane = 0; lane < LANES; lane++)
    r->lanes[lane] = r->lanes[lane] < other->lanes[lane] ? r->lanes[lane] : other->lanes[lane];
}

static void row_raise(row *r, const row *other)
{
  for (int lane = 0; lane < LANES; lane++)
    r->lanes[lane] = r->lanes[lane] > other->lanes[lane] ? r->lanes[lane] : other->lanes[lane];
}

/* Whether some last delivery is not before the first event: the former are one more than their place. */
static bool rows_meet(const row *lasts, const row *firsts)
{
  unsigned meet = 0;
  for (int lane = 0; lane < LANES; lane++)
    meet |= lasts->lanes[lane] > firsts->lanes[lane];
  return meet;
}

/* From the end to the beginning: what follows each send first. */
static void pairs_look_ahead(pairs *p, uint32_t base)
{
  const busq_observe_orders *orders = p->orders;
  for (uint32_t process = 0; process < orders->n_receivers; process++)
    row_fill(&p->at[process], NEVER);
  for (uint32_t message = 0; message < orders->n_messages; message++)
    row_fill(&p->firsts[message], NEVER);
  for (uint32_t i = p->n_events; i-- > 0;) {
    const uint32_t process = p->order[i];
    const uint32_t place = --p->cursors[process];
    const uint32_t message = orders->sequence[place];
    row *at = &p->at[process];
    if (process - base < LANES)
      at->lanes[process - base] = place;
    row_lower(&p->firsts[message], at);
    if (orders->sends[message] == place)
      *at = p->firsts[message];
  }
}

static void pairs_visit_send(pairs *p, uint32_t base, row *at, uint32_t message)
{
  const busq_observe_orders *orders = p->orders;
  p->found[message] |= rows_meet(at, &p->firsts[message]);
  uint32_t slot = p->slots[message];
  for (; slot < orders->place_starts[message + 1] && orders->receivers[slot] - base < LANES; slot++) {
    const uint32_t stamp = orders->places[slot] + 1;
    uint32_t *lane = &at->lanes[orders->receivers[slot] - base];
    if (orders->places[slot] != orders->sends[message] && *lane < stamp)
      *lane = stamp;
  }
  p->slots[message] = slot;
  p->lasts[message] = *at;
}

static void pairs_visit_delivery(pairs *p, row *at, uint32_t process, uint32_t place, uint32_t message)
{
  const busq_observe_orders *orders = p->orders;
  const uint32_t sent = orders->sends[message];
  if (sent < orders->starts[process] || sent > place)
    p->found[message] |= rows_meet(at, &p->firsts[message]);
  else
    p->found[message] |= place - sent > 1;
  row_raise(at, &p->lasts[message]);
}

/* From the beginning to the end: what was sent before each delivery and is delivered last. */
static void pairs_look_back(pairs *p, uint32_t base)
{
  const busq_observe_orders *orders = p->orders;
  for (uint32_t process = 0; process < orders->n_receivers; process++)
    row_fill(&p->at[process], 0);
  for (uint32_t i = 0; i < p->n_events; i++) {
    const uint32_t process = p->order[i];
    const uint32_t place = p->cursors[process]++;
    const uint32_t message = orders->sequence[place];
    if (orders->sends[message] == place)
      pairs_visit_send(p, base, &p->at[process], message);
    else
      pairs_visit_delivery(p, &p->at[process], process, place, message);
  }
}

/* ---- the verdict ---- */

static uint64_t pairs_count(const pairs *p, uint32_t *lowestp)
{
  uint64_t count = 0;
  for (uint32_t message = p->orders->n_messages; message-- > 0;)
    if (p->found[message]) {
      count++;
      *lowestp = message;
    }
  return count;
}

int busq_observe_count_mysterious(const busq_observe_orders *orders, uint64_t *countp, uint32_t *lowestp)
{
  pairs p;
  const bool went_well = pairs_init(&p, orders);
  if (went_well) {
    pairs_plan(&p);
    memcpy(p.slots, orders->place_starts, orders->n_messages * sizeof *p.slots);
    for (uint32_t base = 0; base < orders->n_receivers; base += LANES) {
      pairs_look_ahead(&p, base);
      pairs_look_back(&p, base);
    }
    *countp = pairs_count(&p, lowestp);
  }
  pairs_deinit(&p);
  return went_well ? BUSQ_OK : busq_observe_out_of_memory();
}
