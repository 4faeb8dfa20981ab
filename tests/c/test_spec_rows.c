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

/* Rows of one process, by kinds and messages (0: none); what it sends goes to 0, 1 and 2. */
static void append(busq_history *history, uint32_t process, size_t n, const int8_t *kinds, const int64_t *messages)
{
  static const int32_t items[] = {0, 1, 2, 0, 1, 2, 0, 1, 2};
  int32_t starts[8] = {0};
  uint8_t valid = 0;
  for (size_t row = 0; row < n; row++) {
    starts[row + 1] = starts[row] + 3 * (kinds[row] == BUSQ_EVENT_SEND);
    valid |= (uint8_t)((messages[row] != 0) << row);
  }
  const busq_rows rows = {.n_rows = n,
                          .kinds = {kinds, NULL, 0},
                          .messages = {messages, &valid, 0},
                          .destinations = {starts, NULL, 0},
                          .destination_items = {items, NULL, 0}};
  CHECK_EQUAL(busq_history_append_rows(history, process, &rows), BUSQ_OK);
}

static void check_sent_to(const busq_history *history, uint64_t message, uint32_t n, const uint32_t *wanted)
{
  const uint32_t *found;
  uint32_t n_found;
  CHECK_EQUAL(busq_history_read_destinations(history, message, &found, &n_found), BUSQ_OK);
  CHECK_EQUAL(n_found, n);
  CHECK(!n || !memcmp(found, wanted, n * sizeof *wanted));
}

TEST(test_the_dead_are_owed_nothing)
{
  enum { GETS = BUSQ_EVENT_DELIVER, SENDS = BUSQ_EVENT_SEND, DIES = BUSQ_ROW_DIE, JOINS = BUSQ_ROW_JOIN };
  busq_history *history = NULL;
  uint32_t came_back;
  CHECK_EQUAL(busq_history_new(4, &history), BUSQ_OK);
  append(history, 0, 4, (const int8_t[]){SENDS, SENDS, DIES, SENDS}, (const int64_t[]){1, 2, 0, 3});
  append(history, 0, 1, (const int8_t[]){DIES}, (const int64_t[]){0}); /* in rows of its own */
  append(history, 1, 4, (const int8_t[]){JOINS, GETS, SENDS, DIES}, (const int64_t[]){0, 2, 4, 0});
  append(history, 1, 2, (const int8_t[]){JOINS, SENDS}, (const int64_t[]){0, 5});
  append(history, 2, 1, (const int8_t[]){DIES}, (const int64_t[]){0}); /* before everything it has */
  append(history, 2, 1, (const int8_t[]){SENDS}, (const int64_t[]){6});
  CHECK_EQUAL(busq_history_read_death(history, 0, &came_back), 3);
  CHECK_EQUAL(came_back, 0);
  CHECK_EQUAL(busq_history_read_death(history, 1, &came_back), 2);
  CHECK_EQUAL(came_back, 1);
  CHECK_EQUAL(busq_history_read_death(history, 2, &came_back), 0);
  CHECK_EQUAL(busq_history_read_death(history, 3, &came_back), -1);
  CHECK_EQUAL(busq_history_read_death(history, 4, &came_back), -1);
  CHECK_EQUAL(busq_history_spare(history), BUSQ_OK);
  CHECK_EQUAL(busq_history_spare(history), BUSQ_OK); /* twice is once */
  check_sent_to(history, 1, 0, NULL);                    /* no process got it, and its sender died */
  check_sent_to(history, 2, 1, (const uint32_t[]){1});   /* 1 has, so it is owed to those that live */
  check_sent_to(history, 3, 0, NULL);                    /* before the last death */
  check_sent_to(history, 4, 0, NULL);                    /* 1 came back, but this was before */
  check_sent_to(history, 5, 1, (const uint32_t[]){1});
  check_sent_to(history, 6, 1, (const uint32_t[]){1});
  busq_history_free(history);
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
