/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every execution of every order, within bounds that take a few seconds: what it claims holds in all of them, everything is delivered
 * in all of them, and what it does not claim is missed in some.
 */
#include "check.h"
#include "base/time.h"
#include "check/exhaust.h"

static void run(const busq_order *order, uint32_t options, uint32_t n_processes, uint32_t n_messages, uint32_t fan_out_max,
                uint32_t reductions, busq_exhaust_facts *facts)
{
  const busq_exhaust_config config = {.model = {.order = order,
                                                .options = options,
                                                .n_processes = n_processes,
                                                .n_messages = n_messages,
                                                .fan_out_max = fan_out_max},
                                      .reductions = reductions,
                                      .n_threads = 2,
                                      .memory_bytes = UINT64_C(1) << 26};
  busq_exhaust *search;
  CHECK_EQUAL(busq_exhaust_new(&config, &search), BUSQ_OK);
  while (busq_exhaust_wait(search, 1000000000) != BUSQ_OK)
    ;
  busq_exhaust_examine(search, facts);
  CHECK(facts->is_complete);
  CHECK(!busq_exhaust_witness_of(search));
  busq_exhaust_free(search);
}

/* ---- the orders ---- */

enum {
  FIFO = 1 << BUSQ_PROPERTY_FIFO,
  CAUSAL = 1 << BUSQ_PROPERTY_CAUSAL,
  CONSISTENT = 1 << BUSQ_PROPERTY_CONSISTENT,
  TOTAL = 1 << BUSQ_PROPERTY_TOTAL,
  LOST = 1 << BUSQ_PROPERTY_LOST
};

/* What is found, by order and bound. */
static const struct {
  const char *order;
  uint32_t n_processes, n_messages, fan_out_max;
  uint32_t faults;
  bool is_long; /* more than a million states */
} expected[] = {
    {"none", 3, 2, 1, FIFO | CAUSAL, false},
    {"fifo", 3, 2, 1, CAUSAL, false},
    {"fifo-ack", 3, 2, 1, CAUSAL, true},
    {"causal-vector", 3, 1, 2, 0, false},
    {"causal-matrix", 3, 1, 2, 0, false},
    {"causal-matrix", 2, 3, 1, 0, false},
    {"mfss", 3, 2, 1, 0, true},
    {"cykas", 3, 2, 1, 0, true},
    {"cykas", 4, 1, 1, 0, false},
    {"cykas-telling", 3, 2, 1, CAUSAL, true},
    {"sync", 3, 2, 1, 0, false},
    {"sync-naive", 3, 1, 1, LOST, false},
    {"sequencer", 3, 1, 2, 0, false},
    {"token", 3, 1, 1, 0, true},
    {"lamport", 3, 1, 2, 0, true},
    {"lamport:ack=all", 2, 2, 1, 0, false},
    {"lamport-literal", 3, 1, 2, CAUSAL | TOTAL, true},
    {"skeen", 3, 1, 2, 0, false},
    {"skeen", 2, 2, 1, FIFO | CAUSAL, false},
    {"bus1", 3, 1, 2, 0, false},
};

static uint32_t claims_of(const busq_order *order)
{
  uint32_t claims = 1u << BUSQ_PROPERTY_LOST | 1u << BUSQ_PROPERTY_DUPLICATED | 1u << BUSQ_PROPERTY_PHANTOM;
  claims |= order->claims & BUSQ_CLAIMS_FIFO ? FIFO : 0;
  claims |= order->claims & BUSQ_CLAIMS_CAUSAL ? CAUSAL : 0;
  claims |= order->claims & BUSQ_CLAIMS_CONSISTENT ? CONSISTENT : 0;
  return claims | (order->claims & BUSQ_CLAIMS_TOTAL ? TOTAL : 0);
}

static void run_row(size_t row, uint32_t reductions, busq_exhaust_facts *facts)
{
  uint32_t options;
  const busq_order *order = busq_order_parse(expected[row].order, &options);
  CHECK(order != NULL);
  run(order, options, expected[row].n_processes, expected[row].n_messages, expected[row].fan_out_max, reductions, facts);
}

/* Slow machinery leaves the long ones out. */
static bool is_left_out(size_t row)
{
  return expected[row].is_long && check_share(2) < 2;
}

static void test_what_an_order_claims_holds_in_every_execution(void)
{
  for (size_t row = 0; row < sizeof expected / sizeof *expected; row++) {
    if (is_left_out(row))
      continue;
    busq_exhaust_facts facts;
    run_row(row, 0, &facts);
    printf("    %-16s %u x %u to at most %u: %" PRIu64 " states, %" PRIu64 " moves, %" PRIu64 " ends\n",
           expected[row].order, expected[row].n_processes, expected[row].n_messages, expected[row].fan_out_max,
           facts.unique, facts.total - 1, facts.ends);
    CHECK_EQUAL(facts.faults, expected[row].faults);
    uint32_t options;
    const busq_order *order = busq_order_parse(expected[row].order, &options);
    if (!(order->traits & BUSQ_ORDER_LABORATORY))
      CHECK_EQUAL(facts.faults & claims_of(order), 0);
  }
}

/* An end is a whole execution with its history: reductions may leave out ways, but no end. */
static void test_reductions_leave_no_end_out_and_find_the_same_faults(void)
{
  for (size_t row = 0; row < sizeof expected / sizeof *expected; row++) {
    busq_exhaust_facts all, reduced;
    uint32_t options;
    const busq_order *order = busq_order_parse(expected[row].order, &options);
    if (is_left_out(row) || !(order->traits & BUSQ_ORDER_OUTPUT_BUFFER))
      continue;
    run_row(row, 0, &all);
    for (uint32_t reductions = 1; reductions <= 3; reductions++) {
      run_row(row, reductions, &reduced);
      CHECK_EQUAL(reduced.ends, all.ends);
      CHECK_EQUAL(reduced.faults, all.faults);
      CHECK(reduced.unique <= all.unique);
    }
    if (strcmp(expected[row].order, "cykas") == 0 && expected[row].n_messages == 2)
      CHECK(reduced.unique * 5 < all.unique);
  }
}

static void test_a_violation_comes_with_the_moves_that_lead_to_it(void)
{
  const busq_exhaust_config config = {
      .model = {.order = &busq_order_cykas_telling, .n_processes = 3, .n_messages = 2, .fan_out_max = 1},
      .n_threads = 2,
      .memory_bytes = UINT64_C(1) << 26,
      .judged = CAUSAL};
  busq_exhaust *search;
  busq_exhaust_facts facts;
  CHECK_EQUAL(busq_exhaust_new(&config, &search), BUSQ_OK);
  while (busq_exhaust_wait(search, 1000000000) != BUSQ_OK)
    ;
  busq_exhaust_examine(search, &facts);
  CHECK(!facts.is_complete);
  const busq_exhaust_witness *witness = busq_exhaust_witness_of(search);
  CHECK(witness && witness->faults & CAUSAL);
  busq_model model;
  CHECK_EQUAL(busq_model_init(&model, &config.model), BUSQ_OK);
  char *state = malloc(model.state_bytes_max);
  busq_model_start(&model, state);
  for (uint32_t place = 0; place < witness->n_moves; place++) {
    CHECK_EQUAL(busq_model_head_of(state)->faults, 0);
    CHECK_EQUAL(busq_model_play(&model, state, &witness->moves[place]), BUSQ_OK);
  }
  CHECK_EQUAL(busq_model_head_of(state)->faults, witness->faults);
  free(state);
  busq_exhaust_free(search);
}

static void test_a_search_that_runs_out_of_memory_says_so(void)
{
  const busq_exhaust_config config = {
      .model = {.order = &busq_order_cykas, .n_processes = 3, .n_messages = 2, .fan_out_max = 1},
      .n_threads = 2,
      .memory_bytes = 1 << 16};
  busq_exhaust *search;
  busq_exhaust_facts facts;
  CHECK_EQUAL(busq_exhaust_new(&config, &search), BUSQ_OK);
  while (busq_exhaust_wait(search, 1000000000) != BUSQ_OK)
    ;
  busq_exhaust_examine(search, &facts);
  CHECK(facts.is_full && !facts.is_complete);
  CHECK(facts.unique > 1000);
  busq_exhaust_free(search);
}

static void test_a_search_can_be_given_up(void)
{
  const busq_exhaust_config config = {
      .model = {.order = &busq_order_cykas, .n_processes = 3, .n_messages = 4, .fan_out_max = 1},
      .n_threads = 3,
      .memory_bytes = UINT64_C(1) << 28};
  busq_exhaust *search;
  CHECK_EQUAL(busq_exhaust_new(&config, &search), BUSQ_OK);
  CHECK_EQUAL(busq_exhaust_wait(search, 10000000), BUSQ_INTERRUPTED);
  busq_exhaust_free(search);
}

static void test_every_order_stands_in_the_table(void)
{
  for (const busq_order *const *order = busq_orders; *order; order++) {
    bool is_there = false;
    for (size_t row = 0; row < sizeof expected / sizeof *expected; row++)
      is_there |= strcmp(expected[row].order, (*order)->name) == 0;
    if (!is_there)
      check_fail(__FILE__, __LINE__, "order %s was not searched", (*order)->name);
  }
}

/* 3 processes with 3 messages each, reduced: some minutes and 8 GiB. */
static int run_deep(void)
{
  const busq_order *const orders[] = {&busq_order_mfss, &busq_order_cykas};
  int result = 0;
  for (size_t which = 0; which < 2; which++) {
    const busq_exhaust_config config = {
        .model = {.order = orders[which], .n_processes = 3, .n_messages = 3, .fan_out_max = 1},
        .reductions = BUSQ_EXHAUST_LATE_SUBMITS | BUSQ_EXHAUST_QUIET_PACKETS,
        .n_threads = 2,
        .memory_bytes = UINT64_C(1) << 33};
    busq_exhaust *search;
    busq_exhaust_facts facts;
    const uint64_t began_ns = busq_time_now_ns();
    CHECK_EQUAL(busq_exhaust_new(&config, &search), BUSQ_OK);
    while (busq_exhaust_wait(search, 1000000000) != BUSQ_OK)
      ;
    busq_exhaust_examine(search, &facts);
    printf("%-6s 3 x 3: %" PRIu64 " states, %" PRIu64 " moves, depth %u, %" PRIu64 " ends, faults %x, %s, %.0f s\n",
           orders[which]->name, facts.unique, facts.total, facts.depth_max, facts.ends, facts.faults,
           facts.is_complete ? "complete" : "not complete", (double)(busq_time_now_ns() - began_ns) / 1e9);
    fflush(stdout);
    result |= facts.faults || !facts.is_complete;
    busq_exhaust_free(search);
  }
  return result;
}

int main(int n_arguments, char **arguments)
{
  if (n_arguments > 1 && strcmp(arguments[1], "--deep") == 0)
    return run_deep();
  check_begin();
  CHECK_RUN(test_every_order_stands_in_the_table);
  CHECK_RUN(test_what_an_order_claims_holds_in_every_execution);
  CHECK_RUN(test_reductions_leave_no_end_out_and_find_the_same_faults);
  CHECK_RUN(test_a_violation_comes_with_the_moves_that_lead_to_it);
  CHECK_RUN(test_a_search_that_runs_out_of_memory_says_so);
  CHECK_RUN(test_a_search_can_be_given_up);
  return 0;
}
