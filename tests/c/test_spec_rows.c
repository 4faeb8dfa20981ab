/* SPDX-License-Identifier: Apache-2.0 */
/* Logs as columns: what becomes of them, and what is judged by the times and clocks beside them. */
#include "harness/audit_rows.h"
#include "harness/test.h"

static busq_history *read_both(void)
{
  busq_history *history = NULL;
  CHECK_EQUAL(busq_history_new(2, &history), BUSQ_OK);
  for (uint32_t process = 0; process < 2; process++) {
    const busq_rows rows = audit_rows(process);
    CHECK_EQUAL(busq_history_append_rows(history, process, &rows), BUSQ_OK);
  }
  return history;
}

TEST(test_rows_become_events)
{
  busq_history *history = read_both();
  uint8_t kinds[4];
  uint64_t messages[4];
  size_t count = 0;
  CHECK_EQUAL(busq_history_read(history, 0, 4, kinds, messages, &count), BUSQ_OK);
  CHECK_EQUAL(count, 2);
  CHECK_EQUAL(kinds[0], BUSQ_EVENT_SEND);
  CHECK_EQUAL(messages[1], AUDIT_SEND_2);
  const uint32_t *to = NULL;
  uint32_t n = 0;
  CHECK_EQUAL(busq_history_read_destinations(history, AUDIT_SEND_1, &to, &n), BUSQ_OK);
  CHECK_EQUAL(n, 2);
  CHECK_EQUAL(to[0], 0);
  CHECK_EQUAL(to[1], 1);
  CHECK_EQUAL(busq_history_read_destinations(history, AUDIT_SEND_2, &to, &n), BUSQ_OK);
  CHECK_EQUAL(n, 1);
  CHECK_EQUAL(to[0], 1);
  busq_history_free(history);
}

TEST(test_rows_are_counted_by_kind)
{
  uint64_t counts[BUSQ_ROW_KINDS] = {0};
  const busq_rows rows = audit_rows(0);
  busq_rows_count(&rows, counts);
  CHECK_EQUAL(counts[0], 1);
  CHECK_EQUAL(counts[1], 2);
  CHECK_EQUAL(counts[2], 1);
}

TEST(test_a_destination_that_is_nobody_is_refused)
{
  busq_history *history = NULL;
  CHECK_EQUAL(busq_history_new(1, &history), BUSQ_OK);
  const busq_rows rows = audit_rows(0);
  CHECK_EQUAL(busq_history_append_rows(history, 0, &rows), BUSQ_INVALID);
  busq_history_free(history);
}

/* Process 0 never gets message 1; message 7 may be of any process. */
TEST(test_what_is_missing_is_sure_or_open)
{
  busq_history *history = read_both();
  const uint8_t whole[2] = {0, 0}, torn[2] = {1, 0};
  busq_absence lost, phantom;
  uint64_t open_losses[2] = {0}, open_phantoms[2] = {0};
  CHECK_EQUAL(busq_history_judge_absence(history, whole, &lost, open_losses, &phantom, open_phantoms), BUSQ_OK);
  CHECK_EQUAL(lost.n_definite, 0);
  CHECK_EQUAL(lost.n_open, 1);
  CHECK_EQUAL(open_losses[0], 1);
  CHECK_EQUAL(phantom.n_open + phantom.n_definite, 1);
  CHECK_EQUAL(open_phantoms[0], 1);
  CHECK_EQUAL(busq_history_judge_absence(history, torn, &lost, open_losses, &phantom, open_phantoms), BUSQ_OK);
  CHECK_EQUAL(lost.n_open, 1);
  busq_history_free(history);
}

TEST(test_times_tell_what_was_known_when)
{
  busq_history *history = read_both();
  busq_times *times = NULL;
  CHECK_EQUAL(busq_times_new(history, &times), BUSQ_OK);
  for (uint32_t process = 0; process < 2; process++) {
    const busq_rows rows = audit_rows(process);
    CHECK_EQUAL(busq_times_note_rows(times, process, &rows), BUSQ_OK);
    CHECK_EQUAL(busq_times_note_rows(times, process, &rows), BUSQ_INVALID); /* each once */
  }
  busq_side side;
  CHECK_EQUAL(busq_times_judge_side(times, &side), BUSQ_OK);
  CHECK_EQUAL(side.count, 1); /* 2 was called at 20, when 1 had returned at 12 */
  CHECK_EQUAL(side.late, AUDIT_SEND_1);
  CHECK_EQUAL(side.other, AUDIT_SEND_2);
  CHECK_EQUAL(side.known_ns, 12);
  CHECK_EQUAL(side.called_ns, 20);
  CHECK_EQUAL(side.n_unknown, 0);
  uint64_t row = 0;
  CHECK_EQUAL(busq_times_count_backwards(times, 1, &row), 1);
  CHECK_EQUAL(row, 1);
  const busq_rows rows = audit_rows(1);
  CHECK_EQUAL(busq_times_measure_rows(times, 1, &rows), BUSQ_OK);
  busq_quantiles found;
  busq_times_read_receiver(times, BUSQ_LATENCY, 1, &found);
  CHECK_EQUAL(found.count, 2);
  CHECK_EQUAL(found.p50_ns, 20);
  busq_times_read_fan_out(times, BUSQ_QUEUEING, 2, &found);
  CHECK_EQUAL(found.count, 1);
  CHECK_EQUAL(found.max_ns, 19);
  busq_history_free(history);
  busq_times_free(times); /* whichever goes first */
}

/* Quantiles of one receiver, of times of all sizes. */
TEST(test_long_times_keep_their_precision)
{
  for (int64_t ns = 1; ns < INT64_MAX / 4; ns *= 3) {
    busq_history *history = NULL;
    busq_times *times = NULL;
    CHECK_EQUAL(busq_history_new(1, &history), BUSQ_OK);
    const int8_t kinds[] = {1, 0, 1, 0};
    const int64_t messages[] = {1, 1, 2, 2}, begin[] = {0, ns, 0, 2 * ns};
    const int32_t starts[] = {0, 1, 1, 2, 2}, items[] = {0, 0};
    const busq_rows rows = {.n_rows = 4,
                            .kinds = {kinds, NULL, 0},
                            .messages = {messages, NULL, 0},
                            .destinations = {starts, NULL, 0},
                            .destination_items = {items, NULL, 0},
                            .times_ns = {begin, NULL, 0}};
    CHECK_EQUAL(busq_history_append_rows(history, 0, &rows), BUSQ_OK);
    CHECK_EQUAL(busq_times_new(history, &times), BUSQ_OK);
    CHECK_EQUAL(busq_times_note_rows(times, 0, &rows), BUSQ_OK);
    CHECK_EQUAL(busq_times_measure_rows(times, 0, &rows), BUSQ_OK);
    busq_quantiles found;
    busq_times_read_receiver(times, BUSQ_LATENCY, 0, &found);
    CHECK(found.p50_ns >= ns - ns / 100 && found.p50_ns <= ns + ns / 100);
    CHECK_EQUAL(found.max_ns, 2 * ns);
    busq_times_free(times);
    busq_history_free(history);
  }
}

/* Process 1 knows what 2 and 1 sent it; its third clock has come from nowhere, but what 7 held is unknown. */
TEST(test_clocks_are_compared)
{
  busq_history *history = read_both();
  const uint8_t whole[2] = {0, 0};
  busq_clocks *clocks = NULL;
  CHECK_EQUAL(busq_clocks_new(history, whole, &clocks), BUSQ_OK);
  for (uint32_t process = 0; process < 2; process++) {
    const busq_rows rows = audit_rows(process);
    CHECK_EQUAL(busq_clocks_note_rows(clocks, process, &rows), BUSQ_OK);
  }
  busq_clock_faults faults = {0};
  for (uint32_t process = 0; process < 2; process++) {
    const busq_rows rows = audit_rows(process);
    CHECK_EQUAL(busq_clocks_judge_rows(clocks, process, &rows, &faults), BUSQ_OK);
  }
  CHECK_EQUAL(faults.n_events, 5);
  CHECK_EQUAL(faults.count, 1);
  CHECK_EQUAL(faults.process, 1);
  CHECK_EQUAL(faults.row, 1);
  CHECK_EQUAL(faults.component, 0);
  CHECK_EQUAL(faults.found, 1);
  CHECK_EQUAL(faults.right, 2);
  CHECK_EQUAL(faults.message, AUDIT_SEND_1);
  busq_clocks_free(clocks);
  busq_history_free(history);
}
