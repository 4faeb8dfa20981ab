/* SPDX-License-Identifier: Apache-2.0 */
/* The report of a stage: facts, packets in flight, events, and the history that observers judge. */
#include "base/error.h"
#include "sim/stage.h"
#include <stdlib.h>

void busq_stage_examine(const busq_stage *stage, busq_stage_facts *facts)
{
  *facts = (busq_stage_facts){
      .is_point_to_point = (stage->order->traits & BUSQ_ORDER_POINT_TO_POINT) != 0,
      .is_fifo = stage->is_fifo,
      .n_kinds = stage->order->n_kinds,
      .n_calls = stage->step,
      .n_events = stage->n_events,
      .n_packets = stage->n_packets,
      .n_alarms = stage->n_alarms,
      .n_undelivered = stage->n_undelivered,
      .n_waiting = stage->n_waiting,
      .n_notices = busq_stage_find_notice(stage, NULL, NULL),
  };
}

int busq_stage_examine_process(const busq_stage *stage, uint32_t process, busq_stage_gauge *gauge)
{
  if (process >= stage->group.n_processes)
    return busq_error(BUSQ_INVALID, "process %u: the stage has %u", process, stage->group.n_processes);
  const busq_stage_process *examined = &stage->processes[process];
  const busq_order_gauge seen = busq_order_look(stage->order, examined->state);
  *gauge = (busq_stage_gauge){
      .n_alarms = examined->n_alarms,
      .n_submits = examined->n_submits,
      .waiting = seen.waiting,
      .held = seen.held,
      .is_secret = seen.is_secret,
      .is_dead = examined->is_dead,
  };
  return BUSQ_OK;
}

const char *busq_stage_kind_name(const busq_stage *stage, uint32_t what)
{
  return what < stage->order->n_kinds ? stage->order->kinds[what].name : NULL;
}

uint32_t busq_stage_kind_has_payload(const busq_stage *stage, uint32_t what)
{
  return what < stage->order->n_kinds && stage->order->kinds[what].has_payload;
}

const busq_stage_event *busq_stage_events(const busq_stage *stage)
{
  return stage->events;
}

const busq_stage_packet *busq_stage_packets(const busq_stage *stage)
{
  return stage->packets;
}

/* ---- the history ---- */

/* The first copy of the multicast that the message belongs to. */
static uint64_t first_copy(const busq_stage *stage, uint64_t message)
{
  const uint32_t origin = busq_message_origin(message);
  return busq_message_name(origin, stage->processes[origin].firsts[busq_message_number(message) - 1]);
}

static int tell_send(const busq_stage *stage, uint64_t message, busq_history *history)
{
  const busq_message_facts *facts = busq_messages_find(&stage->messages, message);
  return busq_history_send(history, busq_message_origin(message), message,
                           busq_messages_destinations(&stage->messages, message, facts), facts->n_destinations);
}

/* `destinations` has room for all processes. */
static int tell_whole_send(const busq_stage *stage, uint64_t first, uint32_t *destinations, busq_history *history)
{
  const uint32_t origin = busq_message_origin(first);
  const busq_stage_process *process = &stage->processes[origin];
  const uint32_t number = busq_message_number(first);
  uint32_t n = 0;
  for (uint32_t place = number - 1; place < process->n_firsts && process->firsts[place] == number; place++) {
    const uint64_t copy = busq_message_name(origin, place + 1);
    destinations[n++] = *busq_messages_destinations(&stage->messages, copy, busq_messages_find(&stage->messages, copy));
  }
  return busq_history_send(history, origin, first, destinations, n);
}

static int tell_wholes(const busq_stage *stage, uint32_t *destinations, bool **is_told, busq_history *history)
{
  int result = BUSQ_OK;
  for (uint32_t place = 0; place < stage->n_events && result == BUSQ_OK; place++) {
    const busq_stage_event *event = &stage->events[place];
    if (event->kind != BUSQ_STAGE_SENT && event->kind != BUSQ_STAGE_DELIVER)
      continue;
    const uint64_t first = first_copy(stage, event->message);
    bool *told = &is_told[busq_message_origin(first)][busq_message_number(first) - 1];
    if (event->kind == BUSQ_STAGE_DELIVER)
      result = busq_history_deliver(history, event->process, first);
    else if (!*told)
      result = tell_whole_send(stage, first, destinations, history);
    *told |= event->kind == BUSQ_STAGE_SENT;
  }
  return result;
}

/* Makes room to work in. */
static int tell_whole(const busq_stage *stage, busq_history *history)
{
  const uint32_t n = stage->group.n_processes;
  uint32_t *destinations = calloc(n, sizeof *destinations);
  bool **is_told = calloc(n, sizeof *is_told);
  bool has_room = destinations && is_told;
  for (uint32_t process = 0; process < n && has_room; process++) {
    is_told[process] = calloc((size_t)stage->processes[process].n_firsts + 1, sizeof **is_told);
    has_room = is_told[process];
  }
  const int result = has_room ? tell_wholes(stage, destinations, is_told, history)
                              : busq_error(BUSQ_NO_SPACE, "no memory for the history of the stage");
  for (uint32_t process = 0; is_told && process < n; process++)
    free(is_told[process]);
  free(is_told);
  free(destinations);
  return result;
}

int busq_stage_tell(const busq_stage *stage, uint32_t is_whole, busq_history *history)
{
  if (is_whole && stage->order->traits & BUSQ_ORDER_POINT_TO_POINT)
    return tell_whole(stage, history);
  int result = BUSQ_OK;
  for (uint32_t place = 0; place < stage->n_events && result == BUSQ_OK; place++) {
    const busq_stage_event *event = &stage->events[place];
    if (event->kind == BUSQ_STAGE_SENT)
      result = tell_send(stage, event->message, history);
    else if (event->kind == BUSQ_STAGE_DELIVER)
      result = busq_history_deliver(history, event->process, event->message);
  }
  return result;
}
