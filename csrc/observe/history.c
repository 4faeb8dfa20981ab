/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/history.h"
#include "base/error.h"
#include "base/growing.h"

/* How many events ahead the index learns what will be looked up. */
#define LOOK_AHEAD 16

/* The rows that one call appends; kinds and destination_counts may be NULL, as in busq.h. */
typedef struct {
  uint32_t process;
  size_t n_events;
  const uint8_t *kinds;
  const uint64_t *names;
  const uint32_t *destination_counts;
  const uint32_t *destinations;
  size_t n_destinations;
} batch;

static int out_of_memory(void)
{
  return busq_error(BUSQ_NO_SPACE, "the history does not fit into memory: judge it in parts, or on a larger machine");
}

int busq_history_new(uint32_t n_processes, busq_history **historyp)
{
  if (n_processes > BUSQ_OBSERVE_PROCESSES_MAX)
    return busq_error(BUSQ_INVALID, "a history has at most %u processes, not %u", (unsigned)BUSQ_OBSERVE_PROCESSES_MAX,
                      n_processes);
  busq_history *history = calloc(1, sizeof *history);
  if (!history)
    return out_of_memory();
  history->n_processes = n_processes;
  history->logs = calloc(n_processes ? n_processes : 1, sizeof *history->logs);
  if (!history->logs) {
    free(history);
    return out_of_memory();
  }
  *historyp = history;
  return BUSQ_OK;
}

void busq_history_free(busq_history *history)
{
  if (!history)
    return;
  for (uint32_t process = 0; process < history->n_processes; process++)
    free(history->logs[process].events);
  free(history->logs);
  free(history->messages);
  free(history->pool);
  busq_index_deinit(&history->index);
  free(history);
}

/* ---- what is checked before anything is touched ---- */

int busq_observe_check_process(const busq_history *history, uint32_t process)
{
  if (process < history->n_processes)
    return BUSQ_OK;
  return busq_error(BUSQ_INVALID, "process %u: the history has %u", process, history->n_processes);
}

static int batch_check_destinations(const busq_history *history, const batch *b)
{
  if (!b->destination_counts && b->n_destinations > UINT32_MAX)
    return busq_error(BUSQ_INVALID, "%zu destinations of one send, but there are %u processes", b->n_destinations,
                      history->n_processes);
  for (size_t i = 0; i < b->n_destinations; i++)
    if (b->destinations[i] >= history->n_processes)
      return busq_error(BUSQ_INVALID, "destination %u is not one of the %u processes", b->destinations[i],
                        history->n_processes);
  return BUSQ_OK;
}

static int batch_check(const busq_history *history, const batch *b)
{
  if (b->process >= history->n_processes)
    return busq_error(BUSQ_INVALID, "process %u is not one of the %u processes", b->process, history->n_processes);
  if (b->n_events > BUSQ_OBSERVE_EVENTS_MAX - history->n_events)
    return busq_error(BUSQ_TOO_LARGE, "a history holds at most %u events: judge it in parts",
                      (unsigned)BUSQ_OBSERVE_EVENTS_MAX);
  size_t n_sends = 0;
  for (size_t i = 0; b->kinds && i < b->n_events; i++) {
    if (b->kinds[i] > BUSQ_EVENT_SEND)
      return busq_error(BUSQ_INVALID, "event %zu is of kind %u, which is neither a delivery (0) nor a send (1)", i,
                        b->kinds[i]);
    n_sends += b->kinds[i];
  }
  uint64_t n_destinations = 0;
  for (size_t i = 0; b->destination_counts && i < n_sends; i++)
    n_destinations += b->destination_counts[i];
  if (b->destination_counts && n_destinations != b->n_destinations)
    return busq_error(BUSQ_INVALID, "the sends count %llu destinations, but %zu are given",
                      (unsigned long long)n_destinations, b->n_destinations);
  return batch_check_destinations(history, b);
}

/* ---- room for it ---- */

static bool log_reserve(busq_observe_log *log, size_t n_events)
{
  const uint64_t need = log->n_events + (uint64_t)n_events;
  if (need <= log->capacity)
    return true;
  uint64_t capacity = log->capacity + log->capacity / 2 + 16u;
  if (capacity < need)
    capacity = need;
  if (capacity > BUSQ_OBSERVE_EVENTS_MAX)
    capacity = BUSQ_OBSERVE_EVENTS_MAX;
  uint32_t *events = realloc(log->events, capacity * sizeof *events);
  if (!events)
    return false;
  log->events = events;
  log->capacity = (uint32_t)capacity;
  return true;
}

static bool pool_reserve(busq_history *history, size_t n_destinations)
{
  const uint64_t need = history->pool_size + n_destinations;
  if (need <= history->pool_capacity)
    return true;
  uint64_t capacity = history->pool_capacity + history->pool_capacity / 2 + 16;
  if (capacity < need)
    capacity = need;
  uint32_t *pool = realloc(history->pool, capacity * sizeof *pool);
  if (!pool)
    return false;
  history->pool = pool;
  history->pool_capacity = capacity;
  return true;
}

/* The number of a name.  A name whose batch then fails stays behind as a message that no event mentions. */
static uint32_t message_intern(busq_history *history, uint64_t name)
{
  const uint32_t known = history->index.n_names;
  if (!busq_reserve(&history->messages, &history->messages_capacity, known + UINT64_C(1), sizeof *history->messages))
    return BUSQ_INDEX_NONE;
  const uint32_t message = busq_index_intern(&history->index, name);
  if (message == known)
    history->messages[message] = (busq_observe_message){.sender = BUSQ_OBSERVE_NOBODY};
  return message;
}

/* Writes the events behind the end of the log, where no observer sees them before they count. */
static bool batch_prepare(busq_history *history, const batch *b)
{
  busq_observe_log *log = &history->logs[b->process];
  if (!log_reserve(log, b->n_events) || !pool_reserve(history, b->n_destinations))
    return false;
  for (size_t i = 0; i < b->n_events; i++) {
    if (i + LOOK_AHEAD < b->n_events)
      busq_index_announce(&history->index, b->names[i + LOOK_AHEAD]);
    const uint32_t message = message_intern(history, b->names[i]);
    if (message == BUSQ_INDEX_NONE)
      return false;
    log->events[log->n_events + i] = message | (b->kinds && b->kinds[i] ? BUSQ_OBSERVE_SEND_BIT : 0);
  }
  return true;
}

/* ---- taking effect: nothing here can fail ---- */

/* Sorts what stands at the end of the pool and drops repetitions; returns the size of the set. */
static uint32_t set_normalise(uint32_t *set, uint32_t size)
{
  uint32_t kept = 1;
  while (kept < size && set[kept - 1] < set[kept])
    kept++;
  if (kept >= size)
    return size;
  qsort(set, size, sizeof *set, busq_compare_words);
  kept = 1;
  for (uint32_t i = 1; i < size; i++)
    if (set[i] != set[kept - 1])
      set[kept++] = set[i];
  return kept;
}

static void set_store(busq_history *history, busq_observe_log *log, const uint32_t *destinations, uint32_t size)
{
  if (!size) {
    log->last_set_size = 0;
    return;
  }
  uint32_t *set = history->pool + history->pool_size;
  memcpy(set, destinations, size * sizeof *set);
  size = set_normalise(set, size);
  if (size == log->last_set_size && !memcmp(set, history->pool + log->last_set, size * sizeof *set))
    return;
  log->last_set = history->pool_size;
  log->last_set_size = size;
  history->pool_size += size;
}

static void message_become_sent(busq_history *history, uint32_t message, uint32_t process, uint32_t place)
{
  busq_observe_message *m = &history->messages[message];
  if (m->sender <= process) /* BUSQ_OBSERVE_NOBODY is higher than every process */
    return;
  *m = (busq_observe_message){.destinations = history->logs[process].last_set,
                           .n_destinations = history->logs[process].last_set_size,
                           .sender = process,
                           .sent_at = place};
}

static void batch_commit(busq_history *history, const batch *b)
{
  busq_observe_log *log = &history->logs[b->process];
  const uint32_t *destinations = b->destinations;
  const uint32_t *count = b->destination_counts;
  if (b->kinds && !count)
    set_store(history, log, destinations, (uint32_t)b->n_destinations);
  for (size_t i = 0; b->kinds && i < b->n_events; i++) {
    if (!b->kinds[i])
      continue;
    const uint32_t place = log->n_events + (uint32_t)i;
    if (count) {
      set_store(history, log, destinations, *count);
      destinations += *count++;
    }
    message_become_sent(history, busq_observe_event_message(log->events[place]), b->process, place);
  }
  log->n_events += (uint32_t)b->n_events;
  history->n_events += b->n_events;
}

static int batch_append(busq_history *history, const batch *b)
{
  const int result = batch_check(history, b);
  if (result != BUSQ_OK)
    return result;
  if (!batch_prepare(history, b))
    return out_of_memory();
  batch_commit(history, b);
  return BUSQ_OK;
}

int busq_history_append(busq_history *history, uint32_t process, size_t n_events, const uint8_t *kinds,
                        const uint64_t *messages, const uint32_t *destination_counts, const uint32_t *destinations,
                        size_t n_destinations)
{
  return batch_append(history, &(batch){.process = process,
                                        .n_events = n_events,
                                        .kinds = kinds,
                                        .names = messages,
                                        .destination_counts = destination_counts,
                                        .destinations = destinations,
                                        .n_destinations = n_destinations});
}

int busq_history_send(busq_history *history, uint32_t process, uint64_t message, const uint32_t *destinations,
                      uint32_t n_destinations)
{
  const uint8_t kind = BUSQ_EVENT_SEND;
  return busq_history_append(history, process, 1, &kind, &message, NULL, destinations, n_destinations);
}

int busq_history_deliver(busq_history *history, uint32_t process, uint64_t message)
{
  return busq_history_append(history, process, 1, NULL, &message, NULL, NULL, 0);
}

/* ---- what was passed ---- */

bool busq_observe_message_remove(busq_history *history, busq_observe_message *m, uint32_t process)
{
  if (!pool_reserve(history, m->n_destinations))
    return false;
  const uint32_t *set = history->pool + m->destinations;
  uint32_t *kept = history->pool + history->pool_size;
  uint32_t n_kept = 0;
  for (uint32_t i = 0; i < m->n_destinations; i++)
    if (set[i] != process)
      kept[n_kept++] = set[i];
  m->destinations = history->pool_size;
  m->n_destinations = n_kept;
  history->pool_size += n_kept;
  return true;
}

static int messages_pass(busq_history *history, uint32_t process, const uint64_t *messages, size_t n_messages,
                         const uint8_t *is_delivered)
{
  for (size_t i = 0; i < n_messages; i++) {
    const uint32_t number = history->index.slots[busq_index_probe(&history->index, messages[i])];
    busq_observe_message *m = number && !is_delivered[number - 1] ? &history->messages[number - 1] : NULL;
    if (m && m->sender != BUSQ_OBSERVE_NOBODY && busq_observe_message_is_for(history, m, process) &&
        !busq_observe_message_remove(history, m, process))
      return out_of_memory();
  }
  return BUSQ_OK;
}

/* A message that its successor delivered all the same was for it. */
int busq_history_pass(busq_history *history, uint32_t process, const uint64_t *messages, size_t n_messages)
{
  if (busq_observe_check_process(history, process) != BUSQ_OK)
    return BUSQ_INVALID;
  if (!history->index.n_names)
    return BUSQ_OK;
  const busq_observe_log *log = &history->logs[process];
  uint8_t *is_delivered = calloc(history->index.n_names, sizeof *is_delivered);
  if (!is_delivered)
    return out_of_memory();
  for (uint32_t place = 0; place < log->n_events; place++)
    if (!busq_observe_event_is_send(log->events[place]))
      is_delivered[log->events[place]] = 1;
  const int result = messages_pass(history, process, messages, n_messages, is_delivered);
  free(is_delivered);
  return result;
}

/* ---- reading it back: a log as it was appended; of a message that was sent more than once, the send that counts
 * ---- */

int busq_history_read(const busq_history *history, uint32_t process, size_t max, uint8_t *kinds, uint64_t *messages,
                      size_t *countp)
{
  if (busq_observe_check_process(history, process) != BUSQ_OK)
    return BUSQ_INVALID;
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
