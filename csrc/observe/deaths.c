/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deaths in recorded logs: what is lost, and what went with the dead, as simulations and the checker define it.
 *
 * A process that has died, and did not come back, is owed nothing: where it did not deliver a message, it is taken from
 * the destinations.  A message that was sent before its sender died is owed to those that live only if some process
 * has delivered it: the rest may have died with the sender.
 *
 * Mechanism: one pass over all logs marks what was heard of.  What was sent to the dead is put together by receiver, so
 * that each of them needs one pass over its own log.  The cost is that of the events and of the copies.
 *
 * Not given: another look at a message that was sent more than once.  Its send that counts (observe/history.h) decides.
 */
#include "base/error.h"
#include "observe/history.h"
#include <stdlib.h>
#include <string.h>

enum { HEARD = 1, DELIVERED_HERE = 2 };

typedef struct {
  busq_history *history;
  uint8_t *marks;   /* by message */
  uint64_t *starts; /* by process, and one more: where the messages that were sent to it start, if it is dead */
  uint32_t *owed;
} sparing;

int64_t busq_history_read_death(const busq_history *history, uint32_t process, uint32_t *came_backp)
{
  *came_backp = 0;
  if (process >= history->n_processes || !history->logs[process].has_died)
    return -1;
  *came_backp = history->logs[process].came_back;
  return history->logs[process].died_behind;
}

static bool is_dead(const busq_history *history, uint32_t process)
{
  return history->logs[process].has_died && !history->logs[process].came_back;
}

static bool has_deaths(const busq_history *history)
{
  for (uint32_t process = 0; process < history->n_processes; process++)
    if (history->logs[process].has_died)
      return true;
  return false;
}

/* Changes the marks of the messages that the process delivered. */
static void change_marks(const sparing *s, uint32_t process, uint8_t cleared, uint8_t set)
{
  const busq_observe_log *log = &s->history->logs[process];
  for (uint32_t place = 0; place < log->n_events; place++) {
    const uint32_t event = log->events[place];
    if (!busq_observe_event_is_send(event))
      s->marks[event] = (uint8_t)((s->marks[event] & ~cleared) | set);
  }
}

/* Whether it was sent before its sender's last death, and no process delivered it. */
static bool ended_with_its_sender(const sparing *s, uint32_t message)
{
  const busq_observe_message *m = &s->history->messages[message];
  const busq_observe_log *log = &s->history->logs[m->sender];
  return log->has_died && m->sent_at < log->died_behind && !(s->marks[message] & HEARD);
}

static void spare_what_died_with_its_sender(const sparing *s)
{
  for (uint32_t process = 0; process < s->history->n_processes; process++)
    change_marks(s, process, 0, HEARD);
  for (uint32_t message = 0; message < s->history->index.n_names; message++) {
    busq_observe_message *m = &s->history->messages[message];
    if (m->sender != BUSQ_OBSERVE_NOBODY && ended_with_its_sender(s, message))
      m->n_destinations = 0;
  }
}

/* Counts the copies to each of the dead, or else puts them where they belong. */
static void visit_copies(const sparing *s, bool is_counting)
{
  const busq_history *history = s->history;
  for (uint32_t message = 0; message < history->index.n_names; message++) {
    const busq_observe_message *m = &history->messages[message];
    for (uint32_t i = 0; m->sender != BUSQ_OBSERVE_NOBODY && i < m->n_destinations; i++) {
      const uint32_t receiver = history->pool[m->destinations + i];
      if (!is_dead(history, receiver))
        continue;
      if (is_counting)
        s->starts[receiver + 1]++;
      else
        s->owed[s->starts[receiver]++] = message;
    }
  }
}

/* Puts together what was sent to each of the dead. */
static bool collect_copies(sparing *s)
{
  const uint32_t n = s->history->n_processes;
  visit_copies(s, true);
  for (uint32_t process = 0; process < n; process++)
    s->starts[process + 1] += s->starts[process];
  s->owed = malloc((s->starts[n] + 1) * sizeof *s->owed);
  if (!s->owed)
    return false;
  visit_copies(s, false);
  /* Every start has moved to the next process's: back by one. */
  memmove(s->starts + 1, s->starts, n * sizeof *s->starts);
  s->starts[0] = 0;
  return true;
}

static bool spare_the_dead(const sparing *s)
{
  for (uint32_t process = 0; process < s->history->n_processes; process++) {
    if (s->starts[process] == s->starts[process + 1])
      continue;
    change_marks(s, process, 0, DELIVERED_HERE);
    for (uint64_t i = s->starts[process]; i < s->starts[process + 1]; i++)
      if (!(s->marks[s->owed[i]] & DELIVERED_HERE) &&
          !busq_observe_message_remove(s->history, &s->history->messages[s->owed[i]], process))
        return false;
    change_marks(s, process, DELIVERED_HERE, 0);
  }
  return true;
}

int busq_history_spare(busq_history *history)
{
  if (!has_deaths(history) || !history->index.n_names)
    return BUSQ_OK;
  sparing s = {.history = history};
  s.marks = calloc(history->index.n_names, sizeof *s.marks);
  s.starts = calloc(history->n_processes + (size_t)1, sizeof *s.starts);
  bool went_well = s.marks && s.starts;
  if (went_well) {
    spare_what_died_with_its_sender(&s);
    went_well = collect_copies(&s) && spare_the_dead(&s);
  }
  free(s.marks);
  free(s.starts);
  free(s.owed);
  return went_well ? BUSQ_OK
                   : busq_error(BUSQ_NO_SPACE, "what was sent to the dead does not fit into memory: judge the run in "
                                               "parts, or on a larger machine");
}
