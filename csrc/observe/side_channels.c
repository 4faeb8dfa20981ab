/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Side channels: did messages come in the order in which the world could see them sent?
 *
 * Guarantee.  Of a message that was delivered anywhere, or whose send has returned, any process may know by then, by
 * whatever means, that it is sent: D is the earlier of both times.  What is sent after D may be its effect, so no
 * process should deliver it before.  Counted are the first deliveries, at each receiver, of messages sent to it, that
 * come after one of a message whose send was called later than D.  With one clock and processes of one thread, every
 * FIFO and causal fault is among them.  The witness is the late delivery whose overtaker stands nearest; of equals,
 * that of the lowest receiver, there the first.
 *
 * Which events take part in which relation: as with causal order (observe/spec.h).  Repeated deliveries prove nothing;
 * messages that were never sent neither, since nothing is known about their calls; one that was sent, but not to this
 * receiver, is never late, but may show others to be.
 *
 * Mechanism: a running maximum of calls per receiver.
 *
 * Not given: an opinion about times that are not known; then a fault may be missed, none is invented.  Two clocks that
 * differ do invent them.
 */
#include "observe/times.h"
#include <stdlib.h>

/* Looking back for the nearest overtaker may cost this many steps per event, all faults together. */
#define SIDE_STEPS_PER_EVENT 4

typedef struct {
  const busq_times *times;
  busq_side *side;
  uint32_t *delivered; /* by message: 1 + the last receiver looked at that delivered it */
  uint64_t steps_left;
  uint32_t nearest_distance; /* of the witness; 0: there is none */
} search;

/* When the message was known to be sent; BUSQ_OBSERVE_NEVER if that is not known. */
static int64_t known_ns(const busq_times_message *m)
{
  if (m->delivered_ns == BUSQ_OBSERVE_NEVER)
    return m->returned_ns;
  return m->returned_ns == BUSQ_OBSERVE_NEVER || m->delivered_ns < m->returned_ns ? m->delivered_ns : m->returned_ns;
}

static void search_note(search *s, uint32_t receiver, uint32_t place, uint32_t distance)
{
  const busq_history *history = s->times->history;
  const uint32_t *events = history->logs[receiver].events;
  const uint32_t late = events[place];
  const uint32_t other = events[place - distance];
  const busq_times_message *m = &s->times->messages[late];
  const bool was_delivered = known_ns(m) != m->returned_ns;
  const uint32_t sender = history->messages[late].sender;
  s->nearest_distance = distance;
  *s->side = (busq_side){.count = s->side->count,
                         .n_messages = s->side->n_messages,
                         .n_unknown = s->side->n_unknown,
                         .late = history->index.names[late],
                         .other = history->index.names[other],
                         .known_ns = known_ns(m),
                         .called_ns = s->times->messages[other].called_ns,
                         .processes = {receiver, sender, history->messages[other].sender,
                                       was_delivered ? m->receiver : sender},
                         .was_delivered = was_delivered};
}

static void search_look_back(search *s, uint32_t receiver, uint32_t place)
{
  const busq_history *history = s->times->history;
  const uint32_t *events = history->logs[receiver].events;
  const int64_t known = known_ns(&s->times->messages[events[place]]);
  for (uint32_t distance = 1; distance <= place; distance++) {
    if (s->nearest_distance && (distance >= s->nearest_distance || !s->steps_left))
      return;
    s->steps_left -= s->steps_left > 0;
    const uint32_t event = events[place - distance];
    if (busq_observe_event_is_send(event) || history->messages[event].sender == BUSQ_OBSERVE_NOBODY ||
        s->times->messages[event].called_ns <= known)
      continue;
    search_note(s, receiver, place, distance);
    return;
  }
}

static void search_log(search *s, uint32_t receiver)
{
  const busq_history *history = s->times->history;
  const busq_observe_log *log = &history->logs[receiver];
  int64_t latest_ns = BUSQ_OBSERVE_NEVER; /* call of a message delivered here */
  for (uint32_t place = 0; place < log->n_events; place++) {
    const uint32_t event = log->events[place];
    if (busq_observe_event_is_send(event) || history->messages[event].sender == BUSQ_OBSERVE_NOBODY ||
        s->delivered[event] == receiver + 1)
      continue;
    s->delivered[event] = receiver + 1;
    const busq_times_message *m = &s->times->messages[event];
    const int64_t known = known_ns(m);
    if (BUSQ_UNLIKELY(known != BUSQ_OBSERVE_NEVER && known < latest_ns) &&
        busq_observe_message_is_for(history, &history->messages[event], receiver)) {
      s->side->count++;
      search_look_back(s, receiver, place);
    }
    if (m->called_ns > latest_ns)
      latest_ns = m->called_ns;
  }
}

static void count_unknown(search *s)
{
  const busq_history *history = s->times->history;
  for (uint32_t message = 0; message < history->index.n_names; message++) {
    const busq_times_message *m = &s->times->messages[message];
    if (history->messages[message].sender == BUSQ_OBSERVE_NOBODY || !m->is_delivered)
      continue;
    s->side->n_messages++;
    s->side->n_unknown += m->called_ns == BUSQ_OBSERVE_NEVER || m->returned_ns == BUSQ_OBSERVE_NEVER || m->misses_delivery;
  }
}

int busq_times_judge_side(const busq_times *times, busq_side *side)
{
  search s = {.times = times, .side = side, .steps_left = times->history->n_events * SIDE_STEPS_PER_EVENT};
  *side = (busq_side){0};
  s.delivered = calloc(times->history->index.n_names + (size_t)1, sizeof *s.delivered);
  if (!s.delivered)
    return busq_observe_out_of_memory();
  count_unknown(&s);
  for (uint32_t receiver = 0; receiver < times->history->n_processes; receiver++)
    search_log(&s, receiver);
  free(s.delivered);
  return BUSQ_OK;
}
