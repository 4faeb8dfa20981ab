/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Missing deliveries, and whether their absence can be known.
 *
 * Guarantee: every pair that counts as lost, and every delivery that counts as phantom, is either definite or open,
 * never both.  A loss is open where the receiver's log is incomplete or that of several lives, or delivers no message that its sender sent later
 * (it may have ended before).  A phantom is open where no process sent it, and the log of the process that it names as
 * its sender is incomplete or sends nothing with a higher number; where it names no process, if any log is incomplete.
 * All else is definite.
 *
 * Mechanism: for each receiver one pass over its log, which notes what was delivered and the latest message of each
 * sender, then one over the messages that do not reach all receivers.
 *
 * Not given: whether an open loss is one.
 */
#include "observe/spec.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
  const busq_history *history;
  const uint8_t *is_incomplete;
  uint32_t *delivered; /* by message: 1 + the last receiver looked at that delivered it */
  uint32_t *reached;   /* by message: how many of its destinations delivered it */
  uint32_t *latest;    /* by sender: 1 + place of the latest send that was delivered at the present receiver */
  uint64_t *past;      /* by process: 1 + the highest number of its own messages that its log sends; 0: it sends none */
  uint32_t *unreached; /* messages */
  uint32_t n_unreached;
  bool is_any_incomplete;
  uint64_t n_nobodys; /* open phantoms whose sender is not known */
  busq_absence *lost;
  uint64_t *open_losses;
  busq_absence *phantom;
  uint64_t *open_phantoms;
} absence;

static bool absence_init(absence *a)
{
  const size_t n_messages = a->history->index.n_names + (size_t)1;
  const size_t n_processes = a->history->n_processes + (size_t)1;
  a->delivered = calloc(n_messages, sizeof *a->delivered);
  a->reached = calloc(n_messages, sizeof *a->reached);
  a->latest = calloc(n_processes, sizeof *a->latest);
  a->past = calloc(n_processes, sizeof *a->past);
  a->unreached = malloc(n_messages * sizeof *a->unreached);
  return a->delivered && a->reached && a->latest && a->past && a->unreached;
}

static void absence_deinit(absence *a)
{
  free(a->delivered);
  free(a->reached);
  free(a->latest);
  free(a->past);
  free(a->unreached);
}

static uint64_t name_sender(uint64_t name)
{
  return name >> 32;
}

static uint64_t name_number(uint64_t name)
{
  return name & UINT32_MAX;
}

/* ---- phantoms ---- */

static bool lacks_events(const absence *a, uint64_t process)
{
  return a->is_incomplete[process] & BUSQ_LOG_LACKS;
}

static void note_past(absence *a)
{
  for (uint32_t message = 0; message < a->history->index.n_names; message++) {
    const uint64_t name = a->history->index.names[message];
    const uint32_t sender = a->history->messages[message].sender; /* a name may be that of no process, too */
    if (sender != BUSQ_OBSERVE_NOBODY && sender == name_sender(name) && a->past[sender] <= name_number(name))
      a->past[sender] = name_number(name) + 1;
  }
}

static bool phantom_is_open(const absence *a, uint64_t name, const busq_observe_message *m)
{
  const uint64_t sender = name_sender(name);
  if (m->sender != BUSQ_OBSERVE_NOBODY)
    return false;
  if (sender >= a->history->n_processes)
    return a->is_any_incomplete;
  return lacks_events(a, sender) || a->past[sender] <= name_number(name);
}

static void note_phantom(absence *a, uint32_t receiver, uint32_t message)
{
  const busq_observe_message *m = &a->history->messages[message];
  const uint64_t name = a->history->index.names[message];
  if (phantom_is_open(a, name, m)) {
    a->phantom->n_open++;
    if (name_sender(name) < a->history->n_processes)
      a->open_phantoms[name_sender(name)]++;
    else
      a->n_nobodys++;
  } else if (!a->phantom->n_definite++) {
    a->phantom->message = name;
    a->phantom->processes[0] = receiver;
    a->phantom->n_processes = m->sender == BUSQ_OBSERVE_NOBODY ? 1 : 2;
    if (m->sender != BUSQ_OBSERVE_NOBODY)
      a->phantom->processes[1] = m->sender;
  }
}

static void read_log(absence *a, uint32_t receiver, bool is_counting)
{
  const busq_observe_log *log = &a->history->logs[receiver];
  for (uint32_t place = 0; place < log->n_events; place++) {
    const uint32_t message = log->events[place];
    if (busq_observe_event_is_send(message))
      continue;
    const busq_observe_message *m = &a->history->messages[message];
    const bool is_for_me = m->sender != BUSQ_OBSERVE_NOBODY && busq_observe_message_is_for(a->history, m, receiver);
    if (is_counting && !is_for_me)
      note_phantom(a, receiver, message);
    if (is_counting && is_for_me && a->delivered[message] != receiver + 1)
      a->reached[message]++;
    if (m->sender != BUSQ_OBSERVE_NOBODY && a->latest[m->sender] < m->sent_at + 1)
      a->latest[m->sender] = m->sent_at + 1;
    a->delivered[message] = receiver + 1;
  }
}

/* ---- losses ---- */

/* Whether the one comes first among messages: the lowest sender's, there the earliest. */
static bool is_sent_before(const busq_observe_message *m, const busq_observe_message *other)
{
  return m->sender < other->sender || (m->sender == other->sender && m->sent_at < other->sent_at);
}

static void note_losses(absence *a, uint32_t receiver, uint32_t *first)
{
  for (uint32_t i = 0; i < a->n_unreached; i++) {
    const uint32_t message = a->unreached[i];
    const busq_observe_message *m = &a->history->messages[message];
    if (a->delivered[message] == receiver + 1 || !busq_observe_message_is_for(a->history, m, receiver))
      continue;
    if (a->is_incomplete[receiver] || a->latest[m->sender] <= m->sent_at + 1) {
      a->lost->n_open++;
      a->open_losses[receiver]++;
    } else if (!a->lost->n_definite++ || is_sent_before(m, &a->history->messages[*first])) {
      *first = message;
      a->lost->message = a->history->index.names[message];
      a->lost->processes[0] = receiver;
      a->lost->processes[1] = m->sender;
      a->lost->n_processes = 2;
    }
  }
}

static void judge(absence *a)
{
  const uint32_t n = a->history->n_processes;
  uint32_t first = 0;
  for (uint32_t process = 0; process < n; process++)
    a->is_any_incomplete |= lacks_events(a, process);
  note_past(a);
  for (uint32_t receiver = 0; receiver < n; receiver++)
    read_log(a, receiver, true);
  for (uint32_t process = 0; process < n; process++)
    a->open_phantoms[process] += lacks_events(a, process) ? a->n_nobodys : 0;
  for (uint32_t message = 0; message < a->history->index.n_names; message++) {
    const busq_observe_message *m = &a->history->messages[message];
    if (m->sender != BUSQ_OBSERVE_NOBODY && a->reached[message] < m->n_destinations)
      a->unreached[a->n_unreached++] = message;
  }
  for (uint32_t receiver = 0; a->n_unreached && receiver < n; receiver++) {
    memset(a->latest, 0, n * sizeof *a->latest);
    read_log(a, receiver, false);
    note_losses(a, receiver, &first);
  }
}

int busq_history_judge_absence(const busq_history *history, const uint8_t *is_incomplete, busq_absence *lost,
                               uint64_t *open_losses, busq_absence *phantom, uint64_t *open_phantoms)
{
  absence a = {.history = history,
               .is_incomplete = is_incomplete,
               .lost = lost,
               .open_losses = open_losses,
               .phantom = phantom,
               .open_phantoms = open_phantoms};
  *lost = *phantom = (busq_absence){0};
  const bool went_well = absence_init(&a);
  if (went_well)
    judge(&a);
  absence_deinit(&a);
  return went_well ? BUSQ_OK : busq_observe_out_of_memory();
}
