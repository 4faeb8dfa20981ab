/* SPDX-License-Identifier: Apache-2.0 */
/* Logs as columns, and the times beside them.  What is missing, and clocks, an oracle judges in tests/audit/test_audit_agreement.py. */
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

TEST(test_a_destination_that_is_nobody_is_refused)
{
  busq_history *history = NULL;
  CHECK_EQUAL(busq_history_new(1, &history), BUSQ_OK);
  const busq_rows rows = audit_rows(0);
  CHECK_EQUAL(busq_history_append_rows(history, 0, &rows), BUSQ_INVALID);
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
