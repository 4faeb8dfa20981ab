/* SPDX-License-Identifier: Apache-2.0 */
/* The observers: how histories are taken, and what is shown of many faults.  Verdicts on histories of all kinds are
 * held against an oracle by tests/lab/test_spec.py. */
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
static void expect(int first, int n, const uint64_t *counts)
{
  for (int property = first; property < first + n; property++) {
    assert(judgement.verdicts[property].was_judged);
    if (judgement.verdicts[property].count == counts[property - first])
      continue;
    printf("%s: %llu faults found, %llu expected\n", busq_property_name((busq_property)property),
           (unsigned long long)judgement.verdicts[property].count, (unsigned long long)counts[property - first]);
    abort();
  }
}

#define EXPECT(...) expect(BUSQ_PROPERTY_LOST, 9, (const uint64_t[9]){__VA_ARGS__})
/* synchronous, c2, mysterious */
#define EXPECT_STRICT(...) expect(BUSQ_PROPERTY_SYNCHRONOUS, 3, (const uint64_t[3]){__VA_ARGS__})

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

static void expect_step(busq_property property, uint32_t step, uint64_t message, uint32_t process)
{
  const busq_witness *w = witness_of(property);
  assert(step < w->n_steps);
  assert(w->steps[step].message == message);
  assert(w->steps[step].process == process);
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

/* More messages than a witness names, more steps than it holds. */
TEST(test_a_crown_of_a_hundred)
{
  enum { N = 100 };
  busq_history *history = NULL;
  assert(busq_history_new(N, &history) == BUSQ_OK);
  for (uint32_t process = 0; process < N; process++) {
    const uint32_t next = (process + 1) % N;
    assert(busq_history_send(history, process, process, &next, 1) == BUSQ_OK);
    assert(busq_history_deliver(history, process, (process + N - 1) % N) == BUSQ_OK);
  }
  assert(busq_history_judge(history, BUSQ_ALL_PROPERTIES, &judgement) == BUSQ_OK);
  EXPECT_STRICT(N, 0, 0);
  assert(witness_of(BUSQ_PROPERTY_SYNCHRONOUS)->n_messages == N);
  assert(witness_of(BUSQ_PROPERTY_SYNCHRONOUS)->n_steps == 2 * N);
  busq_history_free(history);
}

TEST(test_every_property_has_a_name)
{
  assert(!strcmp(busq_property_name(BUSQ_PROPERTY_LOST), "lost"));
  assert(!strcmp(busq_property_name(BUSQ_PROPERTY_MYSTERIOUS), "mysterious"));
  assert(!busq_property_name((busq_property)BUSQ_N_PROPERTIES));
}

/* ---- the interface ---- */

static uint64_t random_next(uint64_t *state)
{
  *state += UINT64_C(0x9e3779b97f4a7c15);
  return busq_hash_mix(*state);
}

#define N_EVENTS 600

typedef struct {
  uint8_t kinds[N_EVENTS];
  uint64_t messages[N_EVENTS];
  uint32_t counts[N_EVENTS];
  uint32_t destinations[N_EVENTS * 3];
  size_t n_sends;
  size_t n_destinations;
} columns;

static void columns_fill(columns *c, uint64_t *random, uint32_t n_processes)
{
  *c = (columns){0};
  for (size_t i = 0; i < N_EVENTS; i++) {
    c->kinds[i] = random_next(random) % 3 == 0;
    c->messages[i] = random_next(random) % 700 * UINT64_C(0x100000000);
    if (!c->kinds[i])
      continue;
    const uint32_t count = (uint32_t)(random_next(random) % 4);
    for (uint32_t k = 0; k < count; k++)
      c->destinations[c->n_destinations++] = (uint32_t)(random_next(random) % n_processes);
    c->counts[c->n_sends++] = count;
  }
}

static void append_singly(busq_history *history, uint32_t process, const columns *c)
{
  const uint32_t *destinations = c->destinations;
  size_t send = 0;
  for (size_t i = 0; i < N_EVENTS; i++) {
    if (!c->kinds[i]) {
      assert(busq_history_deliver(history, process, c->messages[i]) == BUSQ_OK);
      continue;
    }
    assert(busq_history_send(history, process, c->messages[i], destinations, c->counts[send]) == BUSQ_OK);
    destinations += c->counts[send++];
  }
}

static int append_at_once(busq_history *history, uint32_t process, const columns *c)
{
  return busq_history_append(history, process, N_EVENTS, c->kinds, c->messages, c->counts, c->destinations,
                             c->n_destinations);
}

/* Neither does it matter in which order the logs are appended: verdicts and witnesses are the same, byte for byte. */
TEST(test_bulk_and_single_appends_are_the_same)
{
  static columns logs[3];
  static busq_judgement other;
  for (uint64_t seed = 1; seed <= 200; seed++) {
    uint64_t random = seed;
    busq_history *singly;
    busq_history *at_once;
    assert(busq_history_new(3, &singly) == BUSQ_OK);
    assert(busq_history_new(3, &at_once) == BUSQ_OK);
    for (uint32_t process = 0; process < 3; process++)
      columns_fill(&logs[process], &random, 3);
    for (uint32_t process = 0; process < 3; process++) {
      append_singly(singly, process, &logs[process]);
      assert(append_at_once(at_once, 2 - process, &logs[2 - process]) == BUSQ_OK);
    }
    assert(busq_history_judge(singly, BUSQ_ALL_PROPERTIES, &judgement) == BUSQ_OK);
    assert(busq_history_judge(at_once, BUSQ_ALL_PROPERTIES, &other) == BUSQ_OK);
    if (memcmp(&judgement, &other, sizeof other)) {
      printf("they differ for seed %llu\n", (unsigned long long)seed);
      abort();
    }
    assert(judgement.verdicts[BUSQ_PROPERTY_CAUSAL].count > 0);
    assert(judgement.verdicts[BUSQ_PROPERTY_TOTAL].count > 0);
    busq_history_free(singly);
    busq_history_free(at_once);
  }
}

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

TEST(test_only_what_was_asked_for_is_judged)
{
  busq_history *history = perform((const char *const[]){"send 1 to p1; send 2 to p1", "deliver 2; deliver 1", NULL});
  assert(busq_history_judge(history, 1u << BUSQ_PROPERTY_CAUSAL, &judgement) == BUSQ_OK);
  for (int property = 0; property < BUSQ_N_PROPERTIES; property++) {
    assert(judgement.verdicts[property].was_judged == (property == BUSQ_PROPERTY_CAUSAL));
    assert(judgement.verdicts[property].count == (property == BUSQ_PROPERTY_CAUSAL));
  }
  expect_pair(BUSQ_PROPERTY_CAUSAL, 1, 2, 1, 0);
  busq_history_free(history);
}

/* A chain through 100 processes, p0 -> p1 -> ... -> p99, and p100 hears of the end before the beginning. */
TEST(test_a_chain_longer_than_a_witness)
{
  busq_history *history = NULL;
  const uint32_t n = 100;
  assert(busq_history_new(n + 1, &history) == BUSQ_OK);
  for (uint32_t process = 0; process < n; process++) {
    const uint32_t destinations[] = {process + 1, n};
    if (process)
      assert(busq_history_deliver(history, process, 1000 + process - 1) == BUSQ_OK);
    assert(busq_history_send(history, process, 1000 + process, destinations, 2) == BUSQ_OK);
  }
  assert(busq_history_deliver(history, n, 1000 + n - 1) == BUSQ_OK);
  assert(busq_history_deliver(history, n, 1000) == BUSQ_OK);
  assert(busq_history_judge(history, BUSQ_ALL_PROPERTIES, &judgement) == BUSQ_OK);
  assert(judgement.verdicts[BUSQ_PROPERTY_CAUSAL].count == 1);
  assert(judgement.verdicts[BUSQ_PROPERTY_LOST].count == n - 2);
  assert(witness_of(BUSQ_PROPERTY_CAUSAL)->n_steps == n - 1);
  for (uint32_t step = 0; step < BUSQ_WITNESS_STEPS; step++)
    expect_step(BUSQ_PROPERTY_CAUSAL, step, 1000 + step, step + 1);
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
