/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long messages took.
 *
 * Guarantee: the first delivery of each message at each receiver is measured once, if its time and that of the send
 * that counts are known; quantiles are off by less than 1 %, counts and maxima are exact.  A delivery before its send
 * took no time.
 *
 * Not given: quantiles of other sets of deliveries than those of a receiver or of a fan-out.
 */
#include "observe/times.h"
#include <stdlib.h>

int busq_times_new(const busq_history *history, busq_times **timesp)
{
  const size_t n = history->n_processes + (size_t)1;
  busq_times *times = calloc(1, sizeof *times);
  if (!times)
    return busq_observe_out_of_memory();
  times->history = history;
  times->n_processes = history->n_processes;
  times->messages = malloc((history->index.n_names + (size_t)1) * sizeof *times->messages);
  times->logs = calloc(n, sizeof *times->logs);
  bool went_well = times->messages && times->logs;
  for (int what = 0; what < 2; what++) {
    times->receivers[what] = calloc(n, sizeof *times->receivers[what]);
    times->fan_outs[what] = calloc(n, sizeof *times->fan_outs[what]);
    went_well = went_well && times->receivers[what] && times->fan_outs[what];
  }
  if (!went_well) {
    busq_times_free(times);
    return busq_observe_out_of_memory();
  }
  for (uint32_t process = 0; process < history->n_processes; process++)
    times->logs[process].latest_ns = BUSQ_OBSERVE_NEVER;
  for (uint32_t message = 0; message < history->index.n_names; message++)
    times->messages[message] = (busq_times_message){.called_ns = BUSQ_OBSERVE_NEVER,
                                                    .committed_ns = BUSQ_OBSERVE_NEVER,
                                                    .returned_ns = BUSQ_OBSERVE_NEVER,
                                                    .delivered_ns = BUSQ_OBSERVE_NEVER};
  *timesp = times;
  return BUSQ_OK;
}

void busq_times_free(busq_times *times)
{
  if (!times)
    return;
  for (int what = 0; what < 2; what++) {
    for (uint32_t i = 0; i <= times->n_processes; i++) {
      if (times->receivers[what])
        free(times->receivers[what][i]);
      if (times->fan_outs[what])
        free(times->fan_outs[what][i]);
    }
    free(times->receivers[what]);
    free(times->fan_outs[what]);
  }
  free(times->messages);
  free(times->logs);
  free(times);
}

/* ---- noting ---- */

static void note_delivery(busq_times *times, uint32_t receiver, uint32_t message, int64_t time_ns)
{
  busq_times_message *m = &times->messages[message];
  if (m->last_receiver == receiver + 1)
    return;
  m->last_receiver = receiver + 1;
  m->is_delivered = 1;
  if (time_ns == BUSQ_OBSERVE_NEVER) {
    m->misses_delivery = 1;
  } else if (m->delivered_ns == BUSQ_OBSERVE_NEVER || time_ns < m->delivered_ns ||
             (time_ns == m->delivered_ns && receiver < m->receiver)) {
    m->delivered_ns = time_ns;
    m->receiver = receiver;
  }
}

/* Whether the clock of a process went back between two deliveries. */
static void note_time(busq_times_log *log, uint64_t row, int64_t time_ns)
{
  if (time_ns == BUSQ_OBSERVE_NEVER)
    return;
  if (time_ns < log->latest_ns && !log->n_backwards++)
    log->first_backwards = row;
  log->latest_ns = time_ns;
}

int busq_times_note_rows(busq_times *times, uint32_t process, const busq_rows *rows)
{
  busq_times_log *log = &times->logs[process];
  const int result = busq_rows_check(rows, times->history, process, process < times->n_processes ? log->noted : 0);
  if (result != BUSQ_OK)
    return result;
  const uint32_t *events = times->history->logs[process].events;
  uint32_t place = log->noted;
  for (size_t row = 0; row < rows->n_rows; row++) {
    if (!busq_rows_is_event(rows, row))
      continue;
    const uint32_t message = busq_observe_event_message(events[place]);
    const int64_t time_ns = busq_column_time(&rows->times_ns, row);
    if (!busq_observe_event_is_send(events[place])) {
      note_delivery(times, process, message, time_ns);
      note_time(log, log->row + row, time_ns);
    } else if (busq_observe_message_was_sent_at(&times->history->messages[message], process, place)) {
      times->messages[message].called_ns = time_ns;
      times->messages[message].committed_ns = busq_column_time(&rows->commits_ns, row);
      times->messages[message].returned_ns = busq_column_time(&rows->ends_ns, row);
    }
    place++;
  }
  log->noted = place;
  log->row += rows->n_rows;
  return BUSQ_OK;
}

uint64_t busq_times_count_backwards(const busq_times *times, uint32_t process, uint64_t *rowp)
{
  if (process >= times->n_processes)
    return 0;
  *rowp = times->logs[process].first_backwards;
  return times->logs[process].n_backwards;
}

/* ---- measuring ---- */

/* Small times have a range each; above, the highest bits of a time select one. */
static uint32_t range_of(uint64_t duration_ns)
{
  const uint64_t fine = UINT64_C(1) << (BUSQ_TIMES_RANGE_BITS + 1);
  if (duration_ns < fine)
    return (uint32_t)duration_ns;
  const uint32_t shift = 63u - (uint32_t)__builtin_clzll(duration_ns) - BUSQ_TIMES_RANGE_BITS;
  return (shift << BUSQ_TIMES_RANGE_BITS) + (uint32_t)(duration_ns >> shift);
}

/* The middle of a range. */
static uint64_t range_middle(uint32_t range)
{
  const uint32_t fine = 2u << BUSQ_TIMES_RANGE_BITS;
  if (range < fine)
    return range;
  const uint32_t shift = (range >> BUSQ_TIMES_RANGE_BITS) - 1;
  const uint64_t mantissa = range - (shift << BUSQ_TIMES_RANGE_BITS);
  return (mantissa << shift) + (UINT64_C(1) << shift >> 1);
}

static bool histogram_add(busq_times_histogram **histogramp, int64_t duration_ns)
{
  if (!*histogramp)
    *histogramp = calloc(1, sizeof **histogramp);
  if (!*histogramp)
    return false;
  if (duration_ns < 0)
    duration_ns = 0;
  (*histogramp)->count++;
  (*histogramp)->ranges[range_of((uint64_t)duration_ns)]++;
  if ((*histogramp)->max_ns < duration_ns)
    (*histogramp)->max_ns = duration_ns;
  return true;
}

/* The longest there is, where the difference is even longer. */
static int64_t duration(int64_t begin_ns, int64_t end_ns)
{
  int64_t duration_ns = 0;
  if (__builtin_sub_overflow(end_ns, begin_ns, &duration_ns))
    return end_ns < begin_ns ? 0 : INT64_MAX;
  return duration_ns;
}

static bool measure(busq_times *times, uint32_t receiver, uint32_t message, int64_t time_ns)
{
  busq_times_message *m = &times->messages[message];
  const uint32_t mark = times->n_processes + receiver + 1; /* those up to n are of noting */
  if (m->last_receiver == mark)
    return true;
  m->last_receiver = mark;
  const int64_t since_ns[2] = {m->called_ns, m->committed_ns};
  const uint32_t fan_out = times->history->messages[message].n_destinations;
  for (int what = 0; what < 2; what++)
    if (time_ns != BUSQ_OBSERVE_NEVER && since_ns[what] != BUSQ_OBSERVE_NEVER &&
        (!histogram_add(&times->receivers[what][receiver], duration(since_ns[what], time_ns)) ||
         !histogram_add(&times->fan_outs[what][fan_out], duration(since_ns[what], time_ns))))
      return false;
  return true;
}

int busq_times_measure_rows(busq_times *times, uint32_t process, const busq_rows *rows)
{
  const uint32_t n_read = process < times->n_processes ? times->logs[process].measured : 0;
  const int result = busq_rows_check(rows, times->history, process, n_read);
  if (result != BUSQ_OK)
    return result;
  const uint32_t *events = times->history->logs[process].events;
  for (size_t row = 0; row < rows->n_rows; row++) {
    if (!busq_rows_is_event(rows, row))
      continue;
    const uint32_t event = events[times->logs[process].measured++];
    if (!busq_observe_event_is_send(event) && !measure(times, process, event, busq_column_time(&rows->times_ns, row)))
      return busq_observe_out_of_memory();
  }
  return BUSQ_OK;
}

/* ---- reading ---- */

static int64_t histogram_quantile(const busq_times_histogram *histogram, uint32_t percent)
{
  const uint64_t rank = (histogram->count * percent + 99) / 100; /* so many are not larger */
  uint64_t passed = 0;
  uint32_t range = 0;
  while (range + 1 < BUSQ_TIMES_RANGES && (passed += histogram->ranges[range]) < rank)
    range++;
  const int64_t middle = (int64_t)range_middle(range);
  return middle < histogram->max_ns ? middle : histogram->max_ns;
}

static void histogram_read(const busq_times_histogram *histogram, busq_quantiles *quantiles)
{
  *quantiles = (busq_quantiles){0};
  if (!histogram)
    return;
  *quantiles = (busq_quantiles){.count = histogram->count,
                                .p50_ns = histogram_quantile(histogram, 50),
                                .p90_ns = histogram_quantile(histogram, 90),
                                .p99_ns = histogram_quantile(histogram, 99),
                                .max_ns = histogram->max_ns};
}

void busq_times_read_receiver(const busq_times *times, uint32_t what, uint32_t receiver, busq_quantiles *quantiles)
{
  histogram_read(what < 2 && receiver < times->n_processes ? times->receivers[what][receiver] : NULL,
                 quantiles);
}

void busq_times_read_fan_out(const busq_times *times, uint32_t what, uint32_t fan_out, busq_quantiles *quantiles)
{
  histogram_read(what < 2 && fan_out <= times->n_processes ? times->fan_outs[what][fan_out] : NULL,
                 quantiles);
}
