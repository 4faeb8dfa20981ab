/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The observers while memory runs out: every single request fails once, and each time the call reports it, leaks
 * nothing and changes nothing.  The sources are compiled into this file, with an allocator that counts and refuses.
 */
#undef NDEBUG
#include "harness/test.h"
#include "harness/counted_memory.h"
#include "observe/causal.c"
#include "observe/consistent.c"
#include "observe/crown.c"
#include "observe/history.c"
#include "observe/judge.c"
#include "observe/ledger.c"
#include "observe/mysterious.c"
#include "observe/sequences.c"
#include "observe/total.c"
#include "harness/spec_transcript.h"

static busq_judgement judgement;

/* Builds and judges a history with every kind of fault while the n-th request fails; false when there was none. */
static bool fails_at(long n)
{
  static const char *const logs[] = {
      "send 1 to p1 p2; send 2 to p1 p2; deliver 9; deliver 5", "deliver 2; deliver 1",
      "deliver 1; deliver 2; send 3 to p3", "deliver 3; deliver 3; send 5 to p0; deliver 4",
      "deliver 5; send 4 to p3; send 4 to p3; deliver 3; send 6 to p3"};
  busq_history *history = NULL;
  requests_left = n;
  int result = busq_history_new(5, &history);
  if (result == BUSQ_OK) {
    for (uint32_t process = 0; process < 5 && result == BUSQ_OK; process++)
      result = enact_log(history, process, logs[process]);
    if (result == BUSQ_OK)
      result = busq_history_judge(history, BUSQ_ALL_PROPERTIES, &judgement);
    busq_history_free(history);
  }
  assert(n_live == 0);
  assert(result == BUSQ_OK || result == BUSQ_NO_SPACE);
  return result == BUSQ_NO_SPACE;
}

TEST(test_every_request_fails_once)
{
  long n = 0;
  while (fails_at(n))
    n++;
  assert(n > 90);
  assert(judgement.verdicts[BUSQ_PROPERTY_TOTAL].count == 2);
  assert(judgement.verdicts[BUSQ_PROPERTY_DUPLICATED].count == 1);
  assert(judgement.verdicts[BUSQ_PROPERTY_CAUSAL].count == 1);
  assert(judgement.verdicts[BUSQ_PROPERTY_C2].count == 1);
  assert(judgement.verdicts[BUSQ_PROPERTY_SYNCHRONOUS].count > 2);
  assert(judgement.verdicts[BUSQ_PROPERTY_MYSTERIOUS].count > 2);
}

/* Appends to a history that has something in it; enough for every array to grow. */
TEST(test_a_failed_append_changes_nothing)
{
  enum { N = 1000 };
  static uint8_t kinds[N];
  static uint64_t messages[N];
  static uint32_t counts[N];
  static uint32_t destinations[N];
  busq_history *history = NULL;
  requests_left = -1;
  assert(busq_history_new(2, &history) == BUSQ_OK);
  assert(enact_log(history, 0, "send 5000 to p1; deliver 5001") == BUSQ_OK);
  for (uint32_t i = 0; i < N; i++) {
    kinds[i] = i % 2;
    messages[i] = i;
    counts[i] = 2;
    destinations[i] = i % 2;
  }
  long n = 0;
  int result;
  do {
    requests_left = n++;
    result = busq_history_append(history, 0, N, kinds, messages, counts, destinations, N);
    requests_left = -1;
    assert(busq_history_judge(history, 0, &judgement) == BUSQ_OK);
    assert(result == BUSQ_OK || (judgement.n_messages == 1 && judgement.n_deliveries == 1 && judgement.n_copies == 1));
  } while (result == BUSQ_NO_SPACE);
  assert(result == BUSQ_OK && n > 3);
  assert(judgement.n_messages == 1 + N / 2 && judgement.n_deliveries == 1 + N / 2 && judgement.n_copies == 1 + N);
  busq_history_free(history);
  assert(n_live == 0);
}
