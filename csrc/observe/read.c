/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a history back: what was appended to a log, and to whom a message went.  The log comes as it was appended; of a
 * message that was sent more than once, the destinations are those of the send that counts.
 */
#include "base/error.h"
#include "observe/history.h"

int busq_history_read(const busq_history *history, uint32_t process, size_t max, uint8_t *kinds, uint64_t *messages,
                      size_t *countp)
{
  if (process >= history->n_processes)
    return busq_error(BUSQ_INVALID, "process %u: the history has %u", process, history->n_processes);
  const busq_observe_log *log = &history->logs[process];
  for (size_t place = 0; place < log->n_events && place < max; place++) {
    const uint32_t event = log->events[place];
    kinds[place] = busq_observe_event_is_send(event) ? BUSQ_EVENT_SEND : BUSQ_EVENT_DELIVER;
    messages[place] = history->index.names[busq_observe_event_message(event)];
  }
  *countp = log->n_events;
  return BUSQ_OK;
}

int busq_history_read_destinations(const busq_history *history, uint64_t message, const uint32_t **destinationsp,
                                   uint32_t *countp)
{
  *destinationsp = NULL;
  *countp = 0;
  if (!history->index.n_names)
    return BUSQ_OK;
  const uint32_t number = history->index.slots[busq_index_probe(&history->index, message)];
  if (!number || history->messages[number - 1].sender == BUSQ_OBSERVE_NOBODY)
    return BUSQ_OK;
  *destinationsp = history->pool + history->messages[number - 1].destinations;
  *countp = history->messages[number - 1].n_destinations;
  return BUSQ_OK;
}
