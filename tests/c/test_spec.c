/* SPDX-License-Identifier: Apache-2.0 */
/* The observers: how histories are taken, and what is shown of many faults.  Verdicts on histories of all kinds, single or in
 * columns, are held against an oracle by tests/lab/test_spec.py. */
#undef NDEBUG
#include "harness/test.h"
#include "base/hash.h"
#include "busq_lab.h"
#include "clock/vector.h"
#include "harness/spec_transcript.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static busq_judgement judgement; /* too large for comfort on a stack */

static void judge(const char *const *logs)
{
  busq_history *history = perform(logs);
  assert(busq_history_judge(history, BUSQ_ALL_PROPERTIES, &judgement) == BUSQ_OK);
  busq_history_free(history);
}

#define JUDGE(...) judge((const char *const[]){__VA_ARGS__, NULL})

static const busq_witness *witness_of(busq_property property)
{
  return &judgement.verdicts[property].witness;
}

/* Asserts counts, in the order of busq_property. */
static void expect(const uint64_t counts[9])
{
  for (int property = BUSQ_PROPERTY_LOST; property < BUSQ_PROPERTY_LOST + 9; property++) {
    const uint64_t expected = counts[property - BUSQ_PROPERTY_LOST];
    assert(judgement.verdicts[property].was_judged);
    if (judgement.verdicts[property].count == expected)
      continue;
    printf("%s: %llu faults found, %llu expected\n", busq_property_name((busq_property)property),
           (unsigned long long)judgement.verdicts[property].count, (unsigned long long)expected);
    abort();
  }
}

#define EXPECT(...) expect((const uint64_t[9]){__VA_ARGS__})

static void expect_pair(busq_property property, uint64_t m0, uint64_t m1, uint32_t p0, uint32_t p1)
{
  const busq_witness *w = witness_of(property);
  assert(w->n_messages == 2);
  assert(w->messages[0] == m0);
  assert(w->messages[1] == m1);
  assert(w->n_processes >= 2);
  assert(w->processes[0] == p0);
  assert(w->processes[1] == p1);
}

/* ---- which of several faults is shown, and what a witness has no place for ---- */

TEST(test_a_destination_named_twice_is_one)
{
  JUDGE("send 1 to p1 p0 p1 p0", "");
  EXPECT(2, 0, 0, 0, 0, 0, 0, 0, 0);
  assert(judgement.n_copies == 2);
}

/* p3 is late by a chain of two messages, p4 further down its log by a chain of one: that is the witness. */
TEST(test_causal_takes_the_receiver_with_the_shortest_chain)
{
  JUDGE("send 1 to p1 p3 p4", "deliver 1; send 2 to p2; send 5 to p4", "deliver 2; send 3 to p3",
        "deliver 3; deliver 1", "send 6 to p4; deliver 6; deliver 5; deliver 1");
  EXPECT(0, 0, 0, 0, 2, 0, 0, 0, 0);
  expect_pair(BUSQ_PROPERTY_CAUSAL, 1, 5, 4, 0);
  assert(witness_of(BUSQ_PROPERTY_CAUSAL)->n_steps == 1);
  /* The same when it comes first. */
  JUDGE("send 1 to p1 p3 p4", "deliver 1; send 2 to p2; send 5 to p4", "deliver 2; send 3 to p3",
        "send 6 to p3; deliver 6; deliver 3; deliver 1", "deliver 5; deliver 1");
  EXPECT(0, 0, 0, 0, 2, 0, 0, 0, 0);
  expect_pair(BUSQ_PROPERTY_CAUSAL, 1, 5, 4, 0);
}

/* Two chains of one message: then the nearer overtaker decides, whichever comes first. */
TEST(test_causal_takes_the_nearest_overtaker)
{
  JUDGE("send 1 to p1 p2 p3", "deliver 1; send 2 to p2 p3", "deliver 2; deliver 1",
        "send 7 to p3; deliver 2; deliver 7; deliver 1");
  EXPECT(0, 0, 0, 0, 2, 0, 0, 0, 0);
  expect_pair(BUSQ_PROPERTY_CAUSAL, 1, 2, 2, 0);
  JUDGE("send 1 to p1 p2 p3", "deliver 1; send 2 to p2 p3", "deliver 2; send 8 to; deliver 1",
        "send 7 to p3; deliver 7; deliver 2; deliver 1");
  EXPECT(0, 0, 0, 0, 2, 0, 0, 0, 0);
  expect_pair(BUSQ_PROPERTY_CAUSAL, 1, 2, 3, 0);
}

TEST(test_every_property_has_a_name)
{
  assert(!strcmp(busq_property_name(BUSQ_PROPERTY_LOST), "lost"));
  assert(!strcmp(busq_property_name(BUSQ_PROPERTY_MYSTERIOUS), "mysterious"));
  assert(!busq_property_name((busq_property)BUSQ_N_PROPERTIES));
}

/* ---- the interface ---- */

TEST(test_one_set_for_all_sends)
{
  const uint8_t kinds[] = {BUSQ_EVENT_SEND, BUSQ_EVENT_DELIVER, BUSQ_EVENT_SEND};
  const uint64_t messages[] = {1, 1, 2};
  const uint32_t destinations[] = {2, 0};
  busq_history *history = NULL;
  assert(busq_history_new(3, &history) == BUSQ_OK);
  assert(busq_history_append(history, 0, 3, kinds, messages, NULL, destinations, 2) == BUSQ_OK);
  assert(busq_history_append(history, 2, 2, NULL, messages + 1, NULL, NULL, 0) == BUSQ_OK);
  assert(busq_history_judge(history, BUSQ_ALL_PROPERTIES, &judgement) == BUSQ_OK);
  EXPECT(1, 0, 0, 0, 0, 0, 0, 0, 0);
  assert(judgement.n_copies == 4);
  assert(witness_of(BUSQ_PROPERTY_LOST)->messages[0] == 2 && witness_of(BUSQ_PROPERTY_LOST)->processes[0] == 0);
  busq_history_free(history);
}

TEST(test_bad_arguments_change_nothing)
{
  const uint8_t kinds[] = {1, 0, 2};
  const uint64_t messages[] = {1, 2, 3};
  const uint32_t counts[] = {1, 1};
  const uint32_t destinations[] = {1, 2};
  busq_history *history = NULL;
  assert(busq_history_new(65537, &history) == BUSQ_INVALID);
  assert(busq_history_new(2, &history) == BUSQ_OK);
  assert(busq_history_deliver(history, 2, 1) == BUSQ_INVALID);
  assert(busq_history_send(history, 0, 1, destinations, 2) == BUSQ_INVALID);
  assert(strstr(busq_error_text(), "destination 2 is not one of the 2 processes"));
  assert(busq_history_append(history, 0, 3, kinds, messages, counts, destinations, 1) == BUSQ_INVALID);
  assert(busq_history_append(history, 0, 2, kinds, messages, counts, destinations, 2) == BUSQ_INVALID);
  assert(busq_history_append(history, 0, 2, kinds, messages, counts, destinations + 1, 1) == BUSQ_INVALID);
  assert(busq_history_judge(history, 1u << BUSQ_N_PROPERTIES, &judgement) == BUSQ_INVALID);
  assert(busq_history_judge(history, BUSQ_ALL_PROPERTIES, &judgement) == BUSQ_OK);
  EXPECT(0, 0, 0, 0, 0, 0, 0, 0, 0);
  assert(judgement.n_messages == 0 && judgement.n_deliveries == 0);
  busq_history_free(history);
}

/* 154 processes, each sends to all, and the last one hears everything the wrong way around. */
TEST(test_many_processes)
{
  enum { N = 154 };
  static uint32_t everybody[N];
  busq_history *history = NULL;
  assert(busq_history_new(N, &history) == BUSQ_OK);
  for (uint32_t process = 0; process < N; process++)
    everybody[process] = process;
  for (uint32_t process = 0; process < N; process++)
    assert(busq_history_send(history, process, process, everybody, N) == BUSQ_OK);
  for (uint32_t process = 0; process < N; process++)
    for (uint32_t i = 0; i < N; i++)
      assert(busq_history_deliver(history, process, process == N - 1 ? N - 1 - i : i) == BUSQ_OK);
  assert(busq_history_judge(history, BUSQ_ALL_PROPERTIES, &judgement) == BUSQ_OK);
  EXPECT(0, 0, 0, 0, 0, N - 1, N, 0, 0);
  busq_history_free(history);
}

/* ---- what the observers stand on ---- */

/* Names in steps of a power of two, as addresses and shifted numbers are, and at random. */
TEST(test_index_numbers_names_in_order)
{
  for (uint32_t shift = 0; shift < 48; shift += 3) {
    busq_index index = {0};
    for (uint32_t i = 0; i < 5000; i++)
      assert(busq_index_intern(&index, (uint64_t)i << shift) == i);
    for (uint32_t i = 0; i < 5000; i++)
      assert(busq_index_intern(&index, (uint64_t)i << shift) == i);
    assert(index.n_names == 5000);
    assert(index.slot_count >= 10000);
    busq_index_deinit(&index);
  }
}

static uint64_t random_next(uint64_t *state)
{
  *state += UINT64_C(0x9e3779b97f4a7c15);
  return busq_hash_mix(*state);
}

TEST(test_hash_spreads_every_bit)
{
  uint64_t random = 1;
  for (int bit = 0; bit < 64; bit++) {
    int n_flipped = 0;
    for (int i = 0; i < 256; i++) {
      const uint64_t x = random_next(&random);
      n_flipped += __builtin_popcountll(busq_hash_mix(x) ^ busq_hash_mix(x ^ UINT64_C(1) << bit));
    }
    assert(n_flipped > 256 * 28 && n_flipped < 256 * 36); /* half of 64, give or take an eighth */
  }
}

TEST(test_vector_clocks)
{
  uint32_t a[3] = {1, 5, 0};
  const uint32_t b[3] = {2, 3, 0};
  busq_vector_join(a, b, 3);
  assert(a[0] == 2 && a[1] == 5 && a[2] == 0);
  assert(busq_vector_covers(a, 1, 5) && !busq_vector_covers(a, 1, 6) && !busq_vector_covers(a, 2, 1));
  busq_vector_copy(a, b, 3);
  assert(a[0] == 2 && a[1] == 3);
}
