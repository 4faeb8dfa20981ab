/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deliveries by message and receiver.  One pass over each log, in which a delivery costs a look at its message and one
 * comparison with the latest message that this process has delivered from the same sender.
 */
#include "observe/spec.h"
#include <stdlib.h>
#include <string.h>

/* Looking back for the nearest message that overtook a late one may cost this many steps per event, all faults
 * together. */
#define LEDGER_STEPS_PER_EVENT 4

typedef struct {
  busq_observe_case *c;
  uint32_t *latest;          /* by sender: 1 + place of the latest send delivered at the present receiver */
  uint64_t steps_left;       /* for looking back */
  uint32_t nearest_distance; /* of the FIFO witness; 0: there is none */
} ledger;

/* ---- witnesses ---- */

/* The first fault of a kind is its witness: logs are read in ascending order, so it is the same one every time. */
static void note(busq_verdict *verdict, uint64_t name, uint32_t process, uint32_t sender)
{
  if (verdict->count++)
    return;
  verdict->witness.n_messages = 1;
  verdict->witness.messages[0] = name;
  verdict->witness.processes[0] = process;
  verdict->witness.processes[1] = sender;
  verdict->witness.n_processes = sender == BUSQ_OBSERVE_NOBODY ? 1 : 2;
  if (sender == BUSQ_OBSERVE_NOBODY)
    verdict->witness.processes[1] = 0;
}

/* Whether this event is a delivery that the FIFO order of its sender applies to. */
static bool counts_for_fifo(uint32_t event, uint8_t marks)
{
  return busq_observe_is_first_delivery(event, marks) && !(marks & (BUSQ_OBSERVE_UNSENT | BUSQ_OBSERVE_STRAY));
}

/* Makes the late delivery at `place` the witness where what overtook it stands nearer than in the one we have. */
static void fifo_note(ledger *l, uint32_t receiver, uint32_t place)
{
  const busq_history *history = l->c->history;
  const uint32_t *events = history->logs[receiver].events;
  const uint8_t *marks = busq_observe_marks(l->c, receiver);
  const uint32_t message = busq_observe_event_message(events[place]);
  const busq_observe_message late = history->messages[message];
  busq_verdict *verdict = busq_observe_verdict(l->c, BUSQ_PROPERTY_FIFO);
  verdict->count++;
  for (uint32_t distance = 1; distance <= place; distance++) {
    if (l->nearest_distance && (distance >= l->nearest_distance || !l->steps_left))
      return;
    l->steps_left -= l->steps_left > 0;
    const uint32_t other = busq_observe_event_message(events[place - distance]);
    if (!counts_for_fifo(events[place - distance], marks[place - distance]) ||
        history->messages[other].sender != late.sender || history->messages[other].sent_at < late.sent_at)
      continue;
    l->nearest_distance = distance;
    verdict->witness = (busq_witness){.n_messages = 2,
                                      .messages = {busq_observe_name(l->c, message), busq_observe_name(l->c, other)},
                                      .n_processes = 2,
                                      .processes = {receiver, late.sender}};
    return;
  }
}

/* ---- one log ---- */

static void ledger_read_send(ledger *l, uint32_t process, uint32_t place, uint32_t event)
{
  const uint32_t message = busq_observe_event_message(event);
  const busq_observe_message *m = &l->c->history->messages[message];
  if (busq_observe_message_was_sent_at(m, process, place)) {
    l->c->judgement->n_messages++;
    l->c->judgement->n_copies += m->n_destinations;
  } else {
    note(busq_observe_verdict(l->c, BUSQ_PROPERTY_RESENT), busq_observe_name(l->c, message), process, m->sender);
  }
}

/* Returns the marks of the delivery. */
static uint8_t ledger_read_delivery(ledger *l, uint32_t receiver, uint32_t message)
{
  const busq_observe_message *m = &l->c->history->messages[message];
  busq_observe_tally *tally = &l->c->tallies[message];
  const bool is_repeated = tally->last_receiver == receiver + 1;
  uint8_t marks = is_repeated ? BUSQ_OBSERVE_REPEATED : 0;
  tally->last_receiver = receiver + 1;
  tally->receivers += !is_repeated;
  if (BUSQ_UNLIKELY(m->sender == BUSQ_OBSERVE_NOBODY))
    return marks | BUSQ_OBSERVE_UNSENT;
  if (BUSQ_UNLIKELY(!busq_observe_message_is_for(l->c->history, m, receiver)))
    return marks | BUSQ_OBSERVE_STRAY;
  if (BUSQ_UNLIKELY(is_repeated))
    return marks;
  tally->reached++;
  const uint32_t stamp = m->sent_at + 1;
  if (BUSQ_UNLIKELY(l->latest[m->sender] > stamp))
    return marks | BUSQ_OBSERVE_FIFO_LATE;
  l->latest[m->sender] = stamp;
  return marks;
}

static void ledger_note_marks(ledger *l, uint32_t receiver, uint32_t place, uint32_t message, uint8_t marks)
{
  const uint64_t name = busq_observe_name(l->c, message);
  const uint32_t sender = l->c->history->messages[message].sender;
  if (marks & BUSQ_OBSERVE_REPEATED)
    note(busq_observe_verdict(l->c, BUSQ_PROPERTY_DUPLICATED), name, receiver, BUSQ_OBSERVE_NOBODY);
  if (marks & (BUSQ_OBSERVE_UNSENT | BUSQ_OBSERVE_STRAY))
    note(busq_observe_verdict(l->c, BUSQ_PROPERTY_PHANTOM), name, receiver, sender);
  if (marks & BUSQ_OBSERVE_FIFO_LATE)
    fifo_note(l, receiver, place);
}

static void ledger_read_log(ledger *l, uint32_t process)
{
  const busq_observe_log *log = &l->c->history->logs[process];
  uint8_t *marks = busq_observe_marks(l->c, process);
  memset(l->latest, 0, l->c->history->n_processes * sizeof *l->latest);
  for (uint32_t place = 0; place < log->n_events; place++) {
    const uint32_t event = log->events[place];
    if (busq_observe_event_is_send(event)) {
      ledger_read_send(l, process, place, event);
      continue;
    }
    l->c->judgement->n_deliveries++;
    marks[place] = ledger_read_delivery(l, process, event);
    if (BUSQ_UNLIKELY(marks[place]))
      ledger_note_marks(l, process, place, event, marks[place]);
  }
}

/* ---- loss ---- */

static bool log_delivers(const busq_observe_log *log, uint32_t message)
{
  for (uint32_t place = 0; place < log->n_events; place++)
    if (log->events[place] == message) /* a delivery is its message's number and nothing else */
      return true;
  return false;
}

/* The first of the messages that did not arrive everywhere: the one sent at the lowest process, there first; its lowest
 * destination. */
static void lost_find_witness(ledger *l)
{
  const busq_history *history = l->c->history;
  uint32_t found = BUSQ_INDEX_NONE;
  for (uint32_t message = 0; message < l->c->n_messages; message++) {
    const busq_observe_message *m = &history->messages[message];
    if (m->sender == BUSQ_OBSERVE_NOBODY || l->c->tallies[message].reached == m->n_destinations)
      continue;
    const busq_observe_message *best = found == BUSQ_INDEX_NONE ? NULL : &history->messages[found];
    if (!best || m->sender < best->sender || (m->sender == best->sender && m->sent_at < best->sent_at))
      found = message;
  }
  const busq_observe_message *m = &history->messages[found];
  const uint32_t *destination = history->pool + m->destinations;
  while (log_delivers(&history->logs[*destination], found))
    destination++;
  busq_observe_verdict(l->c, BUSQ_PROPERTY_LOST)->witness = (busq_witness){.n_messages = 1,
                                                                           .messages = {busq_observe_name(l->c, found)},
                                                                           .n_processes = 2,
                                                                           .processes = {*destination, m->sender}};
}

static void ledger_count_lost(ledger *l)
{
  uint64_t reached = 0;
  for (uint32_t message = 0; message < l->c->n_messages; message++) {
    reached += l->c->tallies[message].reached;
    l->c->judgement->n_shared += l->c->tallies[message].receivers > 1;
  }
  busq_verdict *verdict = busq_observe_verdict(l->c, BUSQ_PROPERTY_LOST);
  verdict->count = l->c->judgement->n_copies - reached;
  if (verdict->count)
    lost_find_witness(l);
}

int busq_observe_judge_ledger(busq_observe_case *c)
{
  const busq_history *history = c->history;
  ledger l = {.c = c, .steps_left = history->n_events * LEDGER_STEPS_PER_EVENT};
  l.latest = malloc((history->n_processes + (size_t)1) * sizeof *l.latest);
  if (!l.latest)
    return busq_observe_out_of_memory();
  for (uint32_t process = 0; process < history->n_processes; process++)
    if (history->logs[process].n_events)
      ledger_read_log(&l, process);
  ledger_count_lost(&l);
  free(l.latest);
  return BUSQ_OK;
}
