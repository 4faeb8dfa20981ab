/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Causal order (and the chapter's C2), by vector clocks.
 *
 * A delivery of m is late exactly when the receiver's clock, joined from the clocks of what it delivered before,
 * already covers the send of m.  The clock's own component counts only what came back by deliveries, not what the
 * process itself has sent since: having sent a message is no reason why its arrival at oneself should be late.
 *
 * C2 asks for less: the late message must have been overtaken by a later one of its own sender, of which news came
 * from anywhere.  A process's component of the clock is its latest send that was delivered in the past of the clock's
 * owner, because every chain that leaves a process leaves it by a message.  So C2 is broken exactly when that send is a
 * later one than m's, and the only difference is where m itself brought the news, to another of its receivers.
 *
 * The events are visited in a linear extension of "happened before", without timestamps: a process advances until it
 * meets a delivery whose message was not sent yet, then the sender is advanced to that send first, and so on down a
 * stack of waiting processes.  If the one to be advanced already waits on the stack, the logs contradict each other:
 * the lowest process in that circle has its delivery declared impossible.  Such circles are disjoint and stay until
 * they are broken, so that which deliveries are impossible does not depend on which was advanced when.
 *
 * All processes advance at the same pace, measured in parts of their log; so few messages are in flight at a time, and
 * only those have a clock.
 */
#include "base/growing.h"
#include "clock/vector.h"
#include "observe/spec.h"

/* Events that the longest log advances at a time; with more processes than that, as many as there are. */
#define CAUSAL_PACE 256
/* Late deliveries, each the first one of its receiver, among which the smallest witness is chosen. */
#define CAUSAL_CANDIDATES 8

#define NO_PLACE UINT32_MAX

typedef struct {
  uint32_t clock;      /* where its clock stands, while it is in flight */
  uint32_t deliveries; /* first ones that were not visited yet */
} flight;

typedef struct {
  uint32_t process;
  uint32_t goal; /* the place in its log before which it has to arrive */
} errand;

/* The definition of late. */
typedef struct {
  busq_property property;
  uint32_t first_news;  /* what may have brought the news: 0, the message itself too; 1, only later ones of its sender */
  uint32_t *first_late; /* by process: place of its first late delivery that is no FIFO fault */
} lateness;

enum { LATE_CAUSAL, LATE_C2, N_LATE };

typedef struct {
  busq_observe_case *c;
  uint32_t n_processes;
  lateness late[N_LATE];
  size_t stride;           /* of the clocks, a multiple of 8: short loops without a rest */
  uint32_t *clocks;        /* by process */
  uint32_t *cursors;       /* by process: the next event */
  uint32_t *stack_heights; /* by process: 1 + where it stands on the stack */
  errand *stack;
  uint32_t stack_size;
  flight *flights;         /* by message */
  uint32_t *flight_clocks;
  uint32_t *free_clocks;
  uint32_t n_free;
  uint32_t clocks_capacity;
} walk;

static int walk_init(walk *w, busq_observe_case *c)
{
  const uint32_t n = c->history->n_processes;
  *w = (walk){.c = c, .n_processes = n, .stride = BUSQ_ALIGN_UP((size_t)n, (size_t)8)};
  w->clocks = calloc(n * w->stride + 1, sizeof *w->clocks);
  w->cursors = calloc(n + (size_t)1, sizeof *w->cursors);
  w->late[LATE_CAUSAL] = (lateness){.property = BUSQ_PROPERTY_CAUSAL, .first_news = 0};
  w->late[LATE_C2] = (lateness){.property = BUSQ_PROPERTY_C2, .first_news = 1};
  for (int kind = 0; kind < N_LATE; kind++)
    w->late[kind].first_late = malloc((n + (size_t)1) * sizeof *w->late[kind].first_late);
  w->stack_heights = calloc(n + (size_t)1, sizeof *w->stack_heights);
  w->stack = malloc((n + (size_t)1) * sizeof *w->stack);
  w->flights = malloc((c->n_messages + (size_t)1) * sizeof *w->flights);
  if (!w->clocks || !w->cursors || !w->stack_heights || !w->stack || !w->flights ||
      !w->late[LATE_CAUSAL].first_late || !w->late[LATE_C2].first_late)
    return busq_observe_out_of_memory();
  for (uint32_t process = 0; process < n; process++)
    w->late[LATE_CAUSAL].first_late[process] = w->late[LATE_C2].first_late[process] = NO_PLACE;
  for (uint32_t message = 0; message < c->n_messages; message++)
    w->flights[message] = (flight){.deliveries = c->tallies[message].receivers};
  return BUSQ_OK;
}

static void walk_deinit(walk *w)
{
  free(w->clocks);
  free(w->cursors);
  for (int kind = 0; kind < N_LATE; kind++)
    free(w->late[kind].first_late);
  free(w->stack_heights);
  free(w->stack);
  free(w->flights);
  free(w->flight_clocks);
  free(w->free_clocks);
}

/* ---- clocks of messages in flight ---- */

static bool clocks_grow(walk *w)
{
  const uint32_t capacity = w->clocks_capacity ? w->clocks_capacity * 2 : 64;
  uint32_t *clocks = capacity ? realloc(w->flight_clocks, capacity * w->stride * sizeof *clocks) : NULL;
  if (!clocks)
    return false;
  w->flight_clocks = clocks;
  uint32_t *free_clocks = realloc(w->free_clocks, capacity * sizeof *free_clocks);
  if (!free_clocks)
    return false;
  w->free_clocks = free_clocks;
  while (w->clocks_capacity < capacity)
    free_clocks[w->n_free++] = w->clocks_capacity++;
  return true;
}

static uint32_t *walk_clock(const walk *w, uint32_t process)
{
  return w->clocks + process * w->stride;
}

static uint32_t *walk_flight_clock(const walk *w, uint32_t message)
{
  return w->flight_clocks + w->flights[message].clock * w->stride;
}

/* ---- visiting one event ---- */

static bool visit_send(walk *w, uint32_t process, uint32_t place, uint32_t message)
{
  if (!busq_observe_message_was_sent_at(&w->c->history->messages[message], process, place) ||
      !w->flights[message].deliveries)
    return true;
  if (!w->n_free && !clocks_grow(w))
    return false;
  w->flights[message].clock = w->free_clocks[--w->n_free];
  uint32_t *clock = walk_flight_clock(w, message);
  busq_vector_copy(clock, walk_clock(w, process), w->stride);
  clock[process] = place + 1;
  return true;
}

static void count_late(walk *w, const lateness *late, uint32_t receiver, uint32_t place, uint8_t marks)
{
  busq_observe_verdict(w->c, late->property)->count++;
  if (!(marks & BUSQ_OBSERVE_FIFO_LATE) && late->first_late[receiver] == NO_PLACE)
    late->first_late[receiver] = place;
}

static void visit_delivery(walk *w, uint32_t receiver, uint32_t place, uint32_t message)
{
  const busq_observe_message *m = &w->c->history->messages[message];
  const uint8_t marks = busq_observe_marks(w->c, receiver)[place];
  uint32_t *clock = walk_clock(w, receiver);
  const bool is_late = marks & BUSQ_OBSERVE_FIFO_LATE || busq_vector_covers(clock, m->sender, m->sent_at + 1);
  if (BUSQ_UNLIKELY(is_late && !(marks & BUSQ_OBSERVE_STRAY))) {
    count_late(w, &w->late[LATE_CAUSAL], receiver, place, marks);
    if (marks & BUSQ_OBSERVE_FIFO_LATE || busq_vector_covers(clock, m->sender, m->sent_at + 2))
      count_late(w, &w->late[LATE_C2], receiver, place, marks);
  }
  busq_vector_join(clock, walk_flight_clock(w, message), w->stride);
  if (!--w->flights[message].deliveries)
    w->free_clocks[w->n_free++] = w->flights[message].clock;
}

/* A delivery that no send can precede: counted, noted, and passed over. */
static void visit_impossible(walk *w, uint32_t receiver)
{
  const uint32_t place = w->cursors[receiver]++;
  const uint32_t message = w->c->history->logs[receiver].events[place];
  uint8_t *marks = busq_observe_marks(w->c, receiver) + place;
  *marks |= BUSQ_OBSERVE_IMPOSSIBLE;
  for (int kind = 0; kind < N_LATE && *marks & BUSQ_OBSERVE_FIFO_LATE; kind++)
    count_late(w, &w->late[kind], receiver, place, *marks);
  w->flights[message].deliveries--;
  busq_verdict *verdict = busq_observe_verdict(w->c, BUSQ_PROPERTY_IMPOSSIBLE);
  /* The circles are met in no particular order: the lowest receiver's first one is the witness. */
  if (!verdict->count++ || receiver < verdict->witness.processes[0])
    verdict->witness = (busq_witness){.n_messages = 1,
                                      .messages = {busq_observe_name(w->c, message)},
                                      .n_processes = 2,
                                      .processes = {receiver, w->c->history->messages[message].sender}};
}

/* ---- the linear extension ---- */

static void stack_push(walk *w, uint32_t process, uint32_t goal)
{
  w->stack[w->stack_size++] = (errand){process, goal};
  w->stack_heights[process] = w->stack_size;
}

static void stack_pop(walk *w)
{
  w->stack_heights[w->stack[--w->stack_size].process] = 0;
}

/* From `bottom` to the top of the stack each waits for the next and the last for the first. */
static void stack_break_circle(walk *w, uint32_t bottom)
{
  uint32_t lowest = bottom;
  for (uint32_t i = bottom + 1; i < w->stack_size; i++)
    if (w->stack[i].process < w->stack[lowest].process)
      lowest = i;
  while (w->stack_size > lowest + 1)
    stack_pop(w);
  visit_impossible(w, w->stack[lowest].process);
}

/* Advances the process on top of the stack to its goal, or to a delivery that has to wait for another process's
 * errand. */
static bool stack_advance_top(walk *w)
{
  const errand top = w->stack[w->stack_size - 1];
  const uint32_t *events = w->c->history->logs[top.process].events;
  const uint8_t *marks = busq_observe_marks(w->c, top.process);
  while (w->cursors[top.process] < top.goal) {
    const uint32_t place = w->cursors[top.process];
    const uint32_t message = busq_observe_event_message(events[place]);
    if (busq_observe_event_is_send(events[place])) {
      if (!visit_send(w, top.process, place, message))
        return false;
    } else if (busq_observe_hands_on(events[place], marks[place])) {
      const busq_observe_message *m = &w->c->history->messages[message];
      if (w->cursors[m->sender] <= m->sent_at) {
        if (w->stack_heights[m->sender])
          stack_break_circle(w, w->stack_heights[m->sender] - 1);
        else
          stack_push(w, m->sender, m->sent_at + 1);
        return true;
      }
      visit_delivery(w, top.process, place, message);
    }
    w->cursors[top.process] = place + 1;
  }
  stack_pop(w);
  return true;
}

static bool walk_to(walk *w, uint32_t process, uint32_t goal)
{
  stack_push(w, process, goal);
  while (w->stack_size)
    if (!stack_advance_top(w))
      return false;
  return true;
}

static bool walk_all(walk *w)
{
  const busq_observe_log *logs = w->c->history->logs;
  uint32_t longest = 0;
  for (uint32_t process = 0; process < w->n_processes; process++)
    if (logs[process].n_events > longest)
      longest = logs[process].n_events;
  const uint64_t rounds = longest / (w->n_processes > CAUSAL_PACE ? w->n_processes : CAUSAL_PACE) + 1;
  for (uint64_t round = 1; round <= rounds; round++)
    for (uint32_t process = 0; process < w->n_processes; process++)
      if (!walk_to(w, process, (uint32_t)(logs[process].n_events * round / rounds)))
        return false;
  return true;
}

/* ---- the witness ---- */

/*
 * A flood from one send, in rounds of one message each: after round k, every process knows the first place in its log
 * that a chain of k messages can reach, and every message sent behind such a place is marked with the first round in
 * which it was.
 */
typedef struct {
  busq_observe_case *c;
  const lateness *late;
  uint32_t *arrivals; /* by round and process: that place, or the log's length */
  uint32_t n_rounds;
  uint32_t capacity;
  uint32_t *marked; /* by message: 1 + the round; 0: not reached */
} flood;

static uint32_t *flood_arrivals(const flood *f, uint32_t round)
{
  return f->arrivals + (size_t)round * f->c->history->n_processes;
}

static uint32_t *flood_add_round(flood *f)
{
  const uint32_t n = f->c->history->n_processes;
  if (!busq_reserve(&f->arrivals, &f->capacity, f->n_rounds + UINT64_C(1), n * sizeof *f->arrivals))
    return NULL;
  return flood_arrivals(f, f->n_rounds++);
}

/* Marks what the process sent from place `from` on, before place `to`. */
static void flood_mark(flood *f, uint32_t process, uint32_t from, uint32_t to)
{
  const uint32_t *events = f->c->history->logs[process].events;
  for (uint32_t place = from; place < to; place++) {
    const uint32_t message = busq_observe_event_message(events[place]);
    if (busq_observe_event_is_send(events[place]) && !f->marked[message] &&
        busq_observe_message_was_sent_at(&f->c->history->messages[message], process, place))
      f->marked[message] = f->n_rounds;
  }
}

static bool flood_reaches(const flood *f, uint32_t process, uint32_t place)
{
  const uint32_t event = f->c->history->logs[process].events[place];
  return busq_observe_hands_on(event, busq_observe_marks(f->c, process)[place]) &&
         f->marked[busq_observe_event_message(event)];
}

static bool flood_begin(flood *f, uint32_t message)
{
  const busq_history *history = f->c->history;
  memset(f->marked, 0, f->c->n_messages * sizeof *f->marked);
  f->n_rounds = 0;
  uint32_t *arrivals = flood_add_round(f);
  if (!arrivals)
    return false;
  for (uint32_t process = 0; process < history->n_processes; process++)
    arrivals[process] = history->logs[process].n_events;
  const busq_observe_message *m = &history->messages[message];
  flood_mark(f, m->sender, m->sent_at + f->late->first_news, arrivals[m->sender]);
  arrivals[m->sender] = m->sent_at;
  return true;
}

static bool flood_go_on(flood *f)
{
  const uint32_t n = f->c->history->n_processes;
  uint32_t *arrivals = flood_add_round(f);
  if (!arrivals)
    return false;
  const uint32_t *before = flood_arrivals(f, f->n_rounds - 2);
  /* First all arrivals, then all marks: a round is one message long. */
  for (uint32_t process = 0; process < n; process++) {
    uint32_t place = 0;
    while (place < before[process] && !flood_reaches(f, process, place))
      place++;
    arrivals[process] = place;
  }
  for (uint32_t process = 0; process < n; process++)
    flood_mark(f, process, arrivals[process], before[process]);
  return true;
}

/* How far before this place the nearest delivery stands that the flood has reached; 0: none has been. */
static uint32_t flood_find_overtaker(const flood *f, uint32_t receiver, uint32_t place)
{
  for (uint32_t distance = 1; distance <= place; distance++)
    if (flood_reaches(f, receiver, place - distance))
      return distance;
  return 0;
}

/* The chain, backwards: each message's sender was reached by the delivery at the place where it arrived. */
static void flood_trace_back(const flood *f, uint32_t message, busq_witness *witness)
{
  const busq_history *history = f->c->history;
  uint32_t round = f->marked[message] - 1;
  witness->n_steps = round;
  for (; round > 0; round--) {
    const uint32_t process = history->messages[message].sender;
    message = history->logs[process].events[flood_arrivals(f, round)[process]];
    if (round <= BUSQ_WITNESS_STEPS)
      witness->steps[round - 1] = (busq_witness_step){.message = busq_observe_name(f->c, message), .process = process};
  }
}

/* Follows the flood from the late message until it reaches what overtook it.  Keeps the witness if it is smaller. */
static bool flood_examine(flood *f, uint32_t receiver, uint32_t place, uint32_t *best_rounds, uint32_t *best_distance)
{
  const busq_history *history = f->c->history;
  const uint32_t message = history->logs[receiver].events[place];
  if (!flood_begin(f, message))
    return false;
  uint32_t distance;
  while (!(distance = flood_find_overtaker(f, receiver, place))) {
    if (f->n_rounds >= *best_rounds)
      return true;
    if (!flood_go_on(f))
      return false;
  }
  if (f->n_rounds == *best_rounds && distance >= *best_distance)
    return true;
  *best_rounds = f->n_rounds;
  *best_distance = distance;
  const uint32_t other = history->logs[receiver].events[place - distance];
  busq_witness *witness = &busq_observe_verdict(f->c, f->late->property)->witness;
  *witness = (busq_witness){
      .n_messages = 2,
      .messages = {busq_observe_name(f->c, message), busq_observe_name(f->c, other)},
      .n_processes = 3,
      .processes = {receiver, history->messages[message].sender, history->messages[other].sender}};
  flood_trace_back(f, other, witness);
  return true;
}

/* The receiver whose first late delivery stands earliest in its log. */
static uint32_t candidates_earliest(const uint32_t *first_late, uint32_t n_processes)
{
  uint32_t earliest = 0;
  for (uint32_t process = 1; process < n_processes; process++)
    if (first_late[process] < first_late[earliest])
      earliest = process;
  return earliest;
}

static bool witness_search(walk *w, const lateness *late)
{
  flood f = {.c = w->c, .late = late};
  f.marked = malloc((w->c->n_messages + (size_t)1) * sizeof *f.marked);
  uint32_t best_rounds = w->n_processes + 1; /* a shortest chain visits no process twice */
  uint32_t best_distance = 0;
  bool went_well = f.marked;
  for (uint32_t i = 0; went_well && i < CAUSAL_CANDIDATES; i++) {
    const uint32_t receiver = candidates_earliest(late->first_late, w->n_processes);
    const uint32_t place = late->first_late[receiver];
    if (place == NO_PLACE)
      break;
    late->first_late[receiver] = NO_PLACE;
    went_well = flood_examine(&f, receiver, place, &best_rounds, &best_distance);
  }
  free(f.arrivals);
  free(f.marked);
  return went_well;
}

/* All late deliveries are FIFO faults: the chain is empty, for both messages have one sender. */
static void witness_take_over(busq_observe_case *c, busq_property property)
{
  busq_witness *witness = &busq_observe_verdict(c, property)->witness;
  *witness = busq_observe_verdict(c, BUSQ_PROPERTY_FIFO)->witness;
  witness->n_processes = 3;
  witness->processes[2] = witness->processes[1];
}

static int witness_find(walk *w, const lateness *late)
{
  const busq_verdict *verdict = busq_observe_verdict(w->c, late->property);
  if (verdict->count > busq_observe_verdict(w->c, BUSQ_PROPERTY_FIFO)->count)
    return witness_search(w, late) ? BUSQ_OK : busq_observe_out_of_memory();
  if (verdict->count)
    witness_take_over(w->c, late->property);
  return BUSQ_OK;
}

int busq_observe_judge_causal(busq_observe_case *c)
{
  walk w;
  int result = walk_init(&w, c);
  if (result == BUSQ_OK && !walk_all(&w))
    result = busq_observe_out_of_memory();
  for (int kind = 0; kind < N_LATE && result == BUSQ_OK; kind++)
    result = witness_find(&w, &w.late[kind]);
  walk_deinit(&w);
  return result;
}
