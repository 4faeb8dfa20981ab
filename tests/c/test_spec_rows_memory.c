/* SPDX-License-Identifier: Apache-2.0 */
/* As test_spec_memory, for the audit of two recorded logs. */
#undef NDEBUG
#include "harness/test.h"
#include "harness/counted_memory.h"
#include "observe/absence.c"
#include "observe/deaths.c"
#include "observe/vector_clocks.c"
#include "observe/history.c"
#include "observe/rows.c"
#include "observe/side_channels.c"
#include "observe/times.c"
#include "harness/audit_rows.h"
#include <assert.h>
#include <stdio.h>

static int audit_times(const busq_history *history)
{
  busq_times *times = NULL;
  busq_side side;
  int result = busq_times_new(history, &times);
  for (uint32_t process = 0; process < 2 && result == BUSQ_OK; process++) {
    const busq_rows rows = audit_rows(process);
    result = busq_times_note_rows(times, process, &rows);
  }
  for (uint32_t process = 0; process < 2 && result == BUSQ_OK; process++) {
    const busq_rows rows = audit_rows(process);
    result = busq_times_measure_rows(times, process, &rows);
  }
  if (result == BUSQ_OK)
    result = busq_times_judge_side(times, &side);
  busq_times_free(times);
  return result;
}

static int audit_clocks(const busq_history *history)
{
  static const uint8_t whole[2];
  busq_clocks *clocks = NULL;
  busq_clock_faults faults = {0};
  int result = busq_clocks_new(history, whole, &clocks);
  for (uint32_t process = 0; process < 2 && result == BUSQ_OK; process++) {
    const busq_rows rows = audit_rows(process);
    result = busq_clocks_note_rows(clocks, process, &rows);
    if (result == BUSQ_OK)
      result = busq_clocks_judge_rows(clocks, process, &rows, &faults);
  }
  busq_clocks_free(clocks);
  return result;
}

/* The observers' memory test, for the audit of two recorded logs. */
static bool audit_fails_at(long n)
{
  static const uint8_t whole[2];
  busq_history *history = NULL;
  busq_absence lost, phantom;
  uint64_t open_losses[2] = {0}, open_phantoms[2] = {0};
  requests_left = n;
  int result = busq_history_new(2, &history);
  for (uint32_t process = 0; process < 2 && result == BUSQ_OK; process++) {
    const busq_rows rows = audit_rows(process);
    result = busq_history_append_rows(history, process, &rows);
  }
  for (uint32_t process = 0; process < 2 && result == BUSQ_OK; process++) {
    const busq_rows death = {.n_rows = 1, .kinds = {(const int8_t[]){BUSQ_ROW_DIE}, NULL, 0}};
    result = busq_history_append_rows(history, process, &death);
  }
  if (result == BUSQ_OK)
    result = busq_history_spare(history);
  if (result == BUSQ_OK)
    result = busq_history_judge_absence(history, whole, &lost, open_losses, &phantom, open_phantoms);
  if (result == BUSQ_OK)
    result = audit_times(history);
  if (result == BUSQ_OK)
    result = audit_clocks(history);
  busq_history_free(history);
  assert(n_live == 0);
  assert(result == BUSQ_OK || result == BUSQ_NO_SPACE);
  return result == BUSQ_NO_SPACE;
}

TEST(test_every_request_of_an_audit_fails_once)
{
  long n = 0;
  while (audit_fails_at(n))
    n++;
  assert(n > 30);
  requests_left = -1;
}
