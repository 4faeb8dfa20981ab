/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every execution of every order, within bounds that take a few seconds: what it claims holds in all of them,
 * everything is delivered in all of them, and what it does not claim is missed in some.
 */
#include "harness/test.h"
#include "check/check.h"
#include "check/fingerprint.h"

static void search(const char *order, const busq_check_config *config, busq_check_facts *facts)
{
  busq_check *check;
  size_t count;
  uint32_t faults;
  CHECK_EQUAL(busq_check_new(order, config, &check), BUSQ_OK);
  while (busq_check_advance(check, 1000000000) == BUSQ_INTERRUPTED)
    ;
  busq_check_examine(check, facts);
  CHECK(facts->is_complete);
  CHECK(!busq_check_witness(check, &count, &faults));
  busq_check_free(check);
}

static void run(const char *order, uint32_t n_processes, uint32_t n_messages, uint32_t fan_out_max, uint32_t reductions,
                busq_check_facts *facts)
{
  const busq_check_config config = {.processes = n_processes,
                                    .messages = n_messages,
                                    .fan_out_max = fan_out_max,
                                    .reductions = reductions,
                                    .threads = 2,
                                    .memory_bytes = 256 << 20};
  search(order, &config, facts);
}

/* ---- the orders ---- */

enum {
  FIFO = 1 << BUSQ_PROPERTY_FIFO,
  CAUSAL = 1 << BUSQ_PROPERTY_CAUSAL,
  CONSISTENT = 1 << BUSQ_PROPERTY_CONSISTENT,
  TOTAL = 1 << BUSQ_PROPERTY_TOTAL,
  LOST = 1 << BUSQ_PROPERTY_LOST,
  STUCK = 1 << BUSQ_CHECK_STUCK,
  GENUINE = 1 << BUSQ_CHECK_GENUINE,
  KEPT = 1 << BUSQ_CHECK_KEPT
};

/* What is found, by order and bound. */
static const struct {
  const char *order;
  uint32_t n_processes, n_messages, fan_out_max;
  uint32_t faults;
  bool is_long; /* hundreds of thousands of states, with many ways to each */
} expected[] = {
    {"none", 3, 2, 1, FIFO | CAUSAL, false},
    {"fifo", 3, 2, 1, CAUSAL, false},
    {"fifo-ack", 3, 2, 1, CAUSAL, true},
    {"causal-vector", 3, 1, 2, GENUINE, false},
    {"prc", 3, 1, 2, GENUINE, true},
    {"prc", 2, 3, 1, 0, false},
    {"causal-matrix", 3, 1, 2, 0, false},
    {"causal-matrix", 2, 3, 1, 0, false},
    {"ses", 3, 1, 2, 0, false},
    {"ses", 2, 3, 1, 0, false},
    {"ks", 3, 1, 2, 0, false},
    {"ks", 2, 3, 1, 0, false},
    {"mfss", 3, 2, 1, 0, true},
    {"cykas", 3, 2, 1, 0, true},
    {"cykas", 4, 1, 1, 0, false},
    {"cykas-telling", 3, 2, 1, CAUSAL, true},
    {"sync", 3, 2, 1, 0, false},
    {"sync-naive", 3, 1, 1, LOST | STUCK | KEPT, false},
    {"sequencer", 3, 1, 2, GENUINE, false},
    {"token", 3, 1, 1, GENUINE, true},
    {"token:delivery=safe", 2, 2, 1, 0, true},
    {"lamport", 3, 1, 2, GENUINE, true},
    {"lamport:ack=all", 2, 2, 1, 0, false},
    {"lamport-literal", 3, 1, 2, CAUSAL | TOTAL | GENUINE, true},
    {"skeen", 3, 1, 2, 0, true},
    {"skeen", 2, 2, 1, FIFO | CAUSAL, false},
    {"wbam", 3, 1, 2, GENUINE, true},
    {"wbam:group=1", 3, 1, 2, 0, false},
    {"wbam:group=2", 3, 1, 2, GENUINE, true},
    {"abcast", 3, 1, 2, CAUSAL, false},
    {"bus1", 3, 1, 2, 0, true},
    {"bus1", 2, 2, 1, 0, false},
};

/* An order that needs the whole group, or a coordinator, has packets that go to others than destinations. */
static uint32_t claims_of(const busq_order *order)
{
  const bool is_genuine = !(order->traits & (BUSQ_ORDER_WHOLE_GROUP | BUSQ_ORDER_COORDINATED | BUSQ_ORDER_REPLICATED));
  uint32_t claims = LOST | STUCK | KEPT | 1u << BUSQ_PROPERTY_DUPLICATED | 1u << BUSQ_PROPERTY_PHANTOM;
  claims |= 1u << BUSQ_CHECK_BUFFERS | 1u << BUSQ_CHECK_REFUSED | 1u << BUSQ_CHECK_INVARIANT;
  claims |= 1u << BUSQ_CHECK_ENDLESS;
  claims |= is_genuine ? GENUINE : 0;
  claims |= order->claims & BUSQ_CLAIMS_FIFO ? FIFO : 0;
  claims |= order->claims & BUSQ_CLAIMS_CAUSAL ? CAUSAL : 0;
  claims |= order->claims & BUSQ_CLAIMS_CONSISTENT ? CONSISTENT : 0;
  claims |= order->claims & BUSQ_CLAIMS_SYNCHRONOUS ? 1u << BUSQ_PROPERTY_SYNCHRONOUS : 0;
  return claims | (order->claims & BUSQ_CLAIMS_TOTAL ? TOTAL : 0);
}

static void run_row(size_t row, uint32_t reductions, busq_check_facts *facts)
{
  run(expected[row].order, expected[row].n_processes, expected[row].n_messages, expected[row].fan_out_max, reductions, facts);
}

/* Slow machinery leaves the long ones out. */
static bool is_left_out(size_t row)
{
  return expected[row].is_long && check_share(2) < 2;
}

/* Of every row, without reductions. */
static busq_check_facts unreduced[sizeof expected / sizeof *expected];

TEST(test_what_an_order_claims_holds_in_every_execution)
{
  for (size_t row = 0; row < sizeof expected / sizeof *expected; row++) {
    if (is_left_out(row))
      continue;
    busq_check_facts *facts = &unreduced[row];
    run_row(row, 0, facts);
    printf("    %-16s %u x %u to at most %u: %" PRIu64 " states, %" PRIu64 " moves, %" PRIu64 " ends\n",
           expected[row].order, expected[row].n_processes, expected[row].n_messages, expected[row].fan_out_max,
           facts->unique, facts->total - 1, facts->ends);
    CHECK_EQUAL(facts->faults, expected[row].faults);
    uint32_t options;
    const busq_order *order = busq_order_parse(expected[row].order, &options);
    if (!(order->traits & BUSQ_ORDER_LABORATORY))
      CHECK_EQUAL(facts->faults & claims_of(order), 0);
  }
}

static bool is_symmetric(size_t row)
{
  busq_model model;
  busq_model_config config = {.n_processes = expected[row].n_processes,
                              .n_messages = expected[row].n_messages,
                              .fan_out_max = expected[row].fan_out_max};
  config.order = busq_order_parse(expected[row].order, &config.options);
  CHECK_EQUAL(busq_model_init(&model, &config), BUSQ_OK);
  return busq_model_is_symmetric(&model);
}

/* An end is a whole execution with its history: reductions may leave out ways, but no end. */
static void check_reduced(size_t row, uint32_t reductions, uint64_t n_classes)
{
  const busq_check_facts *all = &unreduced[row];
  busq_check_facts reduced;
  run_row(row, reductions, &reduced);
  CHECK_EQUAL(reduced.faults, all->faults);
  CHECK_EQUAL(reduced.ends, reductions & BUSQ_CHECK_SYMMETRY ? n_classes : all->ends);
  CHECK_EQUAL(reduced.contradicted, 0);
  CHECK(reduced.unique <= all->unique && reduced.total <= all->total);
  CHECK(reduced.waiting_max <= all->waiting_max && reduced.held_max <= all->held_max);
}

/* Ends that differ by names only; at most as many of them are one class as there are permutations of names. */
static uint64_t classes_of(size_t row)
{
  static const uint64_t permutations[] = {1, 1, 2, 6, 24, 120, 720};
  busq_check_facts classes;
  run_row(row, BUSQ_CHECK_SYMMETRY, &classes);
  CHECK_EQUAL(classes.faults, unreduced[row].faults);
  CHECK(classes.ends <= unreduced[row].ends);
  CHECK(classes.ends * permutations[expected[row].n_processes] >= unreduced[row].ends);
  CHECK(classes.unique * permutations[expected[row].n_processes] >= unreduced[row].unique);
  uint32_t options;
  if (expected[row].n_processes > 2 && is_symmetric(row) && !busq_order_parse(expected[row].order, &options)->n_roles)
    CHECK(classes.unique * 2 < unreduced[row].unique);
  return classes.ends;
}

TEST(test_reductions_leave_no_end_out_and_find_the_same_faults)
{
  for (size_t row = 0; row < sizeof expected / sizeof *expected; row++) {
    uint32_t options;
    const busq_order *order = busq_order_parse(expected[row].order, &options);
    const bool is_reduced = order->traits & BUSQ_ORDER_OUTPUT_BUFFER || order->quiet_always || order->quiet_when_all_is_sent;
    if (is_left_out(row) || (!is_reduced && !is_symmetric(row)))
      continue;
    const uint64_t n_classes = classes_of(row);
    for (uint32_t reductions = 1; reductions <= BUSQ_CHECK_ALL_REDUCTIONS; reductions++)
      if (reductions != BUSQ_CHECK_SYMMETRY && (!expected[row].is_long || reductions == 3 || reductions == 7))
        check_reduced(row, reductions, n_classes);
  }
}

/* A packet to oneself passes the buffer, so that other messages wait there: an ACK that lets one go is not quiet
 * then. */
TEST(test_reductions_leave_no_end_out_where_messages_go_to_their_own_sender)
{
  static const char *const orders[] = {"mfss", "cykas", "fifo-ack"};
  for (size_t which = 0; which < 3; which++) {
    busq_check_config config = {
        .processes = 2, .messages = 3, .fan_out_max = 1, .with_self = 1, .threads = 2, .memory_bytes = 64 << 20};
    busq_check_facts all, reduced;
    search(orders[which], &config, &all);
    for (config.reductions = 1; config.reductions <= 3; config.reductions++) {
      search(orders[which], &config, &reduced);
      CHECK_EQUAL(reduced.ends, all.ends);
      CHECK_EQUAL(reduced.faults, all.faults);
    }
  }
}

/* fifo-ack keeps a buffer for each receiver: what waits for one is passed by what goes to another.  Once it was
 * taken to be one buffer, and executions with three messages were left out. */
TEST(test_reductions_leave_no_end_out_where_there_is_a_buffer_for_each_receiver)
{
  static const uint32_t destinations[] = {2, 2, 4, 1, 1, 1, 1, 1, 1};
  busq_check_config config = {.processes = 3,
                              .messages = 3,
                              .fan_out_max = 1,
                              .destinations = destinations,
                              .threads = 2,
                              .memory_bytes = 256 << 20};
  busq_check_facts all, reduced;
  if (check_share(2) < 2)
    return;
  search("fifo-ack", &config, &all);
  for (config.reductions = 1; config.reductions <= 3; config.reductions++) {
    search("fifo-ack", &config, &reduced);
    CHECK_EQUAL(reduced.contradicted, 0);
    CHECK_EQUAL(reduced.ends, all.ends);
  }
}

TEST(test_every_order_stands_in_the_table)
{
  for (const busq_order *const *order = busq_orders; *order; order++) {
    bool is_there = false;
    for (size_t row = 0; row < sizeof expected / sizeof *expected; row++)
      is_there |= strcmp(expected[row].order, (*order)->name) == 0;
    if (!is_there)
      check_fail(__FILE__, __LINE__, "order %s was not searched", (*order)->name);
  }
}
