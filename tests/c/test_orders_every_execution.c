/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every execution of every order, within bounds that take a few seconds: what it claims holds in all of them, everything is delivered
 * in all of them, and what it does not claim is missed in some.
 */
#include "check.h"
#include "check/model.h"

/* ---- the states that were seen, and those to go on from ---- */

typedef struct {
  uint64_t *slots;
  uint64_t mask;
  uint64_t count;
} seen_set;

static bool is_new(seen_set *seen, uint64_t fingerprint)
{
  uint64_t slot = fingerprint & seen->mask;
  while (seen->slots[slot] && seen->slots[slot] != fingerprint)
    slot = (slot + 1) & seen->mask;
  if (seen->slots[slot])
    return false;
  CHECK(++seen->count < seen->mask / 4 * 3);
  seen->slots[slot] = fingerprint;
  return true;
}

typedef struct {
  busq_model model;
  seen_set seen;
  char *stack; /* of states */
  size_t n_stack, room;
  uint64_t n_moves;
  uint32_t faults;
  uint32_t faults_at_ends;
} search;

static void push(search *s, const void *state)
{
  if (s->n_stack == s->room) {
    s->room = s->room ? s->room * 2 : 256;
    s->stack = realloc(s->stack, s->room * s->model.state_bytes_max);
    CHECK(s->stack != NULL);
  }
  memcpy(s->stack + s->n_stack++ * s->model.state_bytes_max, state, busq_model_bytes(&s->model, state));
}

static void expand(search *s, const void *state, void *next)
{
  busq_model_move moves[BUSQ_MODEL_MOVES_MAX];
  const uint32_t n_moves = busq_model_moves(&s->model, state, moves);
  s->faults |= busq_model_head_of(state)->faults;
  if (!n_moves)
    s->faults_at_ends |= busq_model_judge_end(&s->model, state);
  for (uint32_t place = 0; place < n_moves; place++) {
    memcpy(next, state, busq_model_bytes(&s->model, state));
    CHECK_EQUAL(busq_model_play(&s->model, next, &moves[place]), BUSQ_OK);
    s->n_moves++;
    if (is_new(&s->seen, busq_model_fingerprint(&s->model, next)))
      push(s, next);
  }
}

static void run(search *s, const busq_model_config *config)
{
  memset(s, 0, sizeof *s);
  CHECK_EQUAL(busq_model_init(&s->model, config), BUSQ_OK);
  s->seen.mask = (UINT64_C(1) << 23) - 1;
  s->seen.slots = calloc(s->seen.mask + 1, sizeof(uint64_t));
  char *state = malloc(2 * s->model.state_bytes_max);
  CHECK(s->seen.slots != NULL && state != NULL);
  busq_model_start(&s->model, state);
  is_new(&s->seen, busq_model_fingerprint(&s->model, state));
  push(s, state);
  while (s->n_stack) {
    const char *top = s->stack + --s->n_stack * s->model.state_bytes_max;
    memcpy(state, top, busq_model_bytes(&s->model, top));
    expand(s, state, state + s->model.state_bytes_max);
  }
  free(state);
  free(s->stack);
  free(s->seen.slots);
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
  uint32_t faults_at_ends;
  bool is_long; /* more than a million states */
} expected[] = {
    {"none", 3, 2, 1, FIFO | CAUSAL, 0, false},
    {"fifo", 3, 2, 1, CAUSAL, 0, false},
    {"fifo-ack", 3, 2, 1, CAUSAL, 0, true},
    {"causal-vector", 3, 1, 2, 0, 0, false},
    {"causal-matrix", 3, 1, 2, 0, 0, false},
    {"causal-matrix", 2, 3, 1, 0, 0, false},
    {"mfss", 3, 2, 1, 0, 0, true},
    {"cykas", 3, 2, 1, 0, 0, true},
    {"cykas", 4, 1, 1, 0, 0, false},
    {"cykas-telling", 3, 2, 1, CAUSAL, 0, true},
    {"sync", 3, 2, 1, 0, 0, false},
    {"sync-naive", 3, 1, 1, 0, LOST, false},
    {"sequencer", 3, 1, 2, 0, 0, false},
    {"token", 3, 1, 1, 0, 0, false},
    {"lamport", 3, 1, 2, 0, 0, true},
    {"lamport:ack=all", 2, 2, 1, 0, 0, false},
    {"lamport-literal", 3, 1, 2, CAUSAL | TOTAL, 0, true},
    {"skeen", 3, 1, 2, 0, 0, false},
    {"skeen", 2, 2, 1, FIFO | CAUSAL, 0, false},
    {"bus1", 3, 1, 2, 0, 0, false},
};

static uint32_t claims_of(const busq_order *order)
{
  uint32_t claims = 1u << BUSQ_PROPERTY_LOST | 1u << BUSQ_PROPERTY_DUPLICATED | 1u << BUSQ_PROPERTY_PHANTOM;
  claims |= order->claims & BUSQ_CLAIMS_FIFO ? FIFO : 0;
  claims |= order->claims & BUSQ_CLAIMS_CAUSAL ? CAUSAL : 0;
  claims |= order->claims & BUSQ_CLAIMS_CONSISTENT ? CONSISTENT : 0;
  return claims | (order->claims & BUSQ_CLAIMS_TOTAL ? TOTAL : 0);
}

static void test_what_an_order_claims_holds_in_every_execution(void)
{
  for (size_t row = 0; row < sizeof expected / sizeof *expected; row++) {
    search s;
    if (expected[row].is_long && check_share(2) < 2)
      continue;
    uint32_t options;
    const busq_order *order = busq_order_parse(expected[row].order, &options);
    CHECK(order != NULL);
    const busq_model_config config = {.order = order,
                                      .options = options,
                                      .n_processes = expected[row].n_processes,
                                      .n_messages = expected[row].n_messages,
                                      .fan_out_max = expected[row].fan_out_max};
    run(&s, &config);
    printf("    %-16s %u x %u to at most %u: %" PRIu64 " states, %" PRIu64 " moves\n", expected[row].order,
           config.n_processes, config.n_messages, config.fan_out_max, s.seen.count, s.n_moves);
    CHECK_EQUAL(s.faults, expected[row].faults);
    CHECK_EQUAL(s.faults_at_ends, expected[row].faults_at_ends);
    if (!(order->traits & BUSQ_ORDER_LABORATORY))
      CHECK_EQUAL((s.faults | s.faults_at_ends) & claims_of(order), 0);
  }
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

int main(void)
{
  check_begin();
  CHECK_RUN(test_every_order_stands_in_the_table);
  CHECK_RUN(test_what_an_order_claims_holds_in_every_execution);
  return 0;
}
