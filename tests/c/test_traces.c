/* SPDX-License-Identifier: Apache-2.0 */
/* The count of traces, against all executions, one by one: each has a history of each process, and a trace is all of these. */
#include "harness/test.h"
#include "harness/traces.h"

enum { DISTINCT_MAX = 1 << 16 };

typedef struct {
  uint64_t of[BUSQ_MODEL_PROCESSES_MAX];
} histories;

static uint64_t distinct[DISTINCT_MAX];
static uint64_t n_distinct;

static void note(const histories *all)
{
  const uint64_t name = busq_hash_bytes(all, sizeof *all) | 1;
  uint64_t at = busq_hash_mix(name) % DISTINCT_MAX;
  while (distinct[at] && distinct[at] != name)
    at = (at + 1) % DISTINCT_MAX;
  n_distinct += !distinct[at];
  CHECK(n_distinct < DISTINCT_MAX / 2);
  distinct[at] = name;
}

static void play_all(const char *state, const histories *before)
{
  busq_model_move *moves = memory_of(BUSQ_MODEL_MOVES_MAX, sizeof *moves);
  char *next = memory_of(1, model.state_bytes_max);
  const uint32_t n_moves = busq_model_moves(&model, state, moves);
  if (!n_moves)
    note(before);
  for (uint32_t place = 0; place < n_moves; place++) {
    const identity name = identity_of(state, &moves[place]);
    histories after = *before;
    after.of[name.process] = busq_hash_mix(after.of[name.process] + name.name);
    memcpy(next, state, busq_model_bytes(&model, state));
    CHECK_EQUAL(busq_model_play(&model, next, &moves[place], NULL), BUSQ_OK);
    play_all(next, &after);
  }
  free(next);
  free(moves);
}

TEST(test_traces_are_counted_as_if_all_executions_were_made)
{
  static const struct {
    const char *order;
    uint32_t messages, fan_out, crashes;
  } rows[] = {{"fifo", 2, 1, 0},     {"mfss", 1, 1, 0},  {"cykas", 2, 1, 0},    {"skeen", 1, 1, 0},
              {"fifo-ack", 1, 1, 1}, {"token", 1, 1, 0}, {"mfss:on_crash=go-on", 1, 1, 1}};
  for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
    busq_model_config config = {
        .n_processes = 2, .n_messages = rows[row].messages, .fan_out_max = rows[row].fan_out, .crashes_max = rows[row].crashes};
    config.order = busq_order_parse(rows[row].order, &config.options);
    const known counted = traces_count(&config, 1 << 28);
    memset(distinct, 0, sizeof distinct);
    n_distinct = 0;
    char *start = memory_of(1, model.state_bytes_max);
    busq_model_start(&model, start);
    play_all(start, &(histories){{0}});
    free(start);
    CHECK_EQUAL((uint64_t)counted.traces, n_distinct);
    CHECK(n_distinct > 2 && counted.steps > counted.traces);
  }
}
