/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The searches of the checker: what they report about a search, whatever order is searched; what hurries one (memory
 * that is too small, a caller that gives up, an order that never comes to an end); and that they agree with each other.
 */
#include "harness/test.h"
#include "base/error.h"
#include "check/check.h"
#include "check/packed.h"
#include "check/seen.h"
#include <errno.h>
#include <stddef.h>

enum {
  LOST = 1 << BUSQ_PROPERTY_LOST,
  CAUSAL = 1 << BUSQ_PROPERTY_CAUSAL,
  STUCK = 1 << BUSQ_CHECK_STUCK,
  ENDLESS = 1 << BUSQ_CHECK_ENDLESS,
  SECOND_NS = 1000000000
};

static const busq_check_config plain = {
    .processes = 3, .messages = 2, .fan_out_max = 1, .threads = 2, .memory_bytes = 256 << 20, .walks = 1, .seed = 1};

/* Some ten thousand states. */
static const busq_check_config small = {
    .processes = 4, .messages = 1, .fan_out_max = 1, .threads = 2, .memory_bytes = 256 << 20, .walks = 1, .seed = 1};

/* Slow machinery leaves large searches out. */
static bool is_slow(void)
{
  return check_share(2) < 2;
}

static busq_check *begin(const char *order, const busq_check_config *config)
{
  busq_check *check;
  if (busq_check_new(order, config, &check) != BUSQ_OK)
    check_fail(__FILE__, __LINE__, "%s can't be checked: %s", order, busq_error_text());
  return check;
}

/* To its end. */
static busq_check *search(const char *order, const busq_check_config *config, busq_check_facts *facts)
{
  busq_check *check = begin(order, config);
  int result;
  while ((result = busq_check_advance(check, SECOND_NS)) == BUSQ_INTERRUPTED)
    ;
  CHECK_EQUAL(result, BUSQ_OK);
  busq_check_examine(check, facts);
  CHECK(facts->is_over);
  CHECK(facts->memory_bytes > 0 && facts->memory_bytes <= config->memory_bytes);
  return check;
}

static busq_check_facts facts_of(const char *order, busq_check_config config)
{
  busq_check_facts facts;
  busq_check_free(search(order, &config, &facts));
  return facts;
}

/* ---- the same answer from all searches ---- */

TEST(test_a_bound_on_moves_leaves_the_same_out_of_both_searches)
{
  const busq_check_facts all = facts_of("mfss", small);
  for (uint32_t depth_max = 1; depth_max <= all.depth_max + 1; depth_max++) {
    busq_check_config config = small;
    config.depth_max = depth_max;
    const busq_check_facts depth = facts_of("mfss", config);
    config.search = BUSQ_CHECK_BREADTH;
    const busq_check_facts breadth = facts_of("mfss", config);
    CHECK_EQUAL(depth.unique, breadth.unique);
    CHECK_EQUAL(depth.left_out, breadth.left_out);
    CHECK_EQUAL(depth.is_complete, depth_max >= all.depth_max);
    CHECK_EQUAL(breadth.is_complete, depth_max >= all.depth_max);
    CHECK_EQUAL(depth.left_out == 0, depth_max >= all.depth_max);
    CHECK_EQUAL(depth.unique == all.unique, depth_max >= all.depth_max);
    CHECK(depth.depth_max <= depth_max && breadth.depth_max <= depth_max);
  }
}

TEST(test_what_was_given_may_be_forgotten_once_the_search_has_begun)
{
  uint32_t destinations[] = {2, 4, 8, 1};
  char order[] = "cykas";
  busq_check_config config = small;
  config.destinations = destinations;
  busq_check_facts facts;
  busq_check *check = search(order, &config, &facts);
  busq_check_free(check);
  check = begin(order, &config);
  memset(destinations, 0xff, sizeof destinations);
  memset(order, 'x', sizeof order - 1);
  memset(&config, 0xff, sizeof config);
  while (busq_check_advance(check, SECOND_NS) == BUSQ_INTERRUPTED)
    ;
  busq_check_facts again;
  busq_check_examine(check, &again);
  CHECK_EQUAL(again.unique, facts.unique);
  CHECK(facts.unique < facts_of("cykas", small).unique);
  busq_check_free(check);
}

/* ---- violations ---- */

/* Plays the witness again: what it breaks is broken by its last move, and not before. */
static void check_replays(const busq_crew *crew)
{
  const busq_crew_witness *witness = &crew->witness;
  const busq_model *model = &crew->model;
  char *state = malloc(model->state_bytes_max);
  busq_model_start(model, state);
  for (uint32_t place = 0; place < witness->n_moves; place++) {
    busq_model_move moves[BUSQ_MODEL_MOVES_MAX];
    const uint32_t n_moves = busq_model_moves(model, state, moves);
    bool is_possible = false;
    for (uint32_t which = 0; which < n_moves; which++)
      is_possible |= memcmp(&moves[which], &witness->moves[place], sizeof *moves) == 0;
    CHECK(is_possible);
    CHECK_EQUAL(busq_model_faults(state) & witness->faults, 0);
    CHECK_EQUAL(busq_model_play(model, state, &witness->moves[place], NULL), BUSQ_OK);
  }
  CHECK_EQUAL(busq_model_faults(state) & witness->faults, witness->faults);
  free(state);
}

static busq_crew *crew_of(const busq_order *order, const busq_crew_kind *kind, uint32_t reductions, uint32_t n_threads)
{
  const busq_crew_config config = {
      .model = {.order = order, .n_processes = 3, .n_messages = 2, .fan_out_max = 1},
      .kind = kind,
      .reductions = reductions,
      .n_threads = n_threads,
      .judged = CAUSAL | ENDLESS,
      .memory_bytes = 256 << 20,
      .walks = 100000};
  busq_crew *crew;
  CHECK_EQUAL(busq_crew_new(&config, &crew), BUSQ_OK);
  while (busq_crew_wait(crew, SECOND_NS) == BUSQ_INTERRUPTED)
    ;
  return crew;
}

TEST(test_the_first_violation_breadth_first_is_a_shortest_one_whatever_the_threads)
{
  busq_crew *first = crew_of(&busq_order_cykas_telling, &busq_breadth, 0, 1);
  CHECK(first->witness.faults & CAUSAL);
  check_replays(first);
  for (uint32_t n_threads = 2; n_threads <= check_share(4); n_threads++) {
    busq_crew *other = crew_of(&busq_order_cykas_telling, &busq_breadth, 0, n_threads);
    CHECK_EQUAL(other->witness.n_moves, first->witness.n_moves);
    CHECK(memcmp(other->witness.moves, first->witness.moves, first->witness.n_moves * sizeof(busq_model_move)) == 0);
    busq_crew_free(other);
  }
  for (uint32_t reductions = 0; reductions <= BUSQ_CHECK_ALL_REDUCTIONS; reductions++) {
    busq_crew *deep = crew_of(&busq_order_cykas_telling, &busq_exhaust, reductions, 2);
    CHECK(deep->witness.faults & CAUSAL);
    CHECK(deep->witness.n_moves >= first->witness.n_moves);
    check_replays(deep);
    busq_crew_free(deep);
    if (reductions & BUSQ_CHECK_QUIET_PACKETS || (is_slow() && reductions != 5))
      continue;
    busq_crew *reduced = crew_of(&busq_order_cykas_telling, &busq_breadth, reductions, 2);
    CHECK_EQUAL(reduced->witness.n_moves, first->witness.n_moves);
    check_replays(reduced);
    busq_crew_free(reduced);
  }
  busq_crew_free(first);
}

/* ---- random executions ---- */

TEST(test_all_random_executions_are_made_where_nothing_is_violated)
{
  busq_check_config config = plain;
  config.search = BUSQ_CHECK_WALK;
  config.messages = 4;
  config.judged = LOST | (1u << BUSQ_PROPERTY_DUPLICATED) | (1u << BUSQ_PROPERTY_PHANTOM) |
                  (1u << BUSQ_PROPERTY_FIFO) | CAUSAL | ENDLESS | STUCK | (1u << BUSQ_CHECK_BUFFERS) |
                  (1u << BUSQ_CHECK_REFUSED) | (1u << BUSQ_CHECK_KEPT) | (1u << BUSQ_CHECK_INVARIANT);
  config.walks = check_share(2000);
  config.seed = test_seed;
  busq_check_facts facts[2];
  for (uint32_t n = 0; n < 2; n++) {
    config.threads = 1 + 2 * n;
    facts[n] = facts_of("cykas", config);
    CHECK_EQUAL(facts[n].ends, config.walks);
    CHECK_EQUAL(facts[n].faults, 0);
    CHECK_EQUAL(facts[n].left_out, 0);
    CHECK_EQUAL(facts[n].total, facts[n].unique + 1);
  }
  CHECK_EQUAL(facts[0].total, facts[1].total);
  CHECK_EQUAL(facts[0].n_transitions, facts[1].n_transitions);
  config.depth_max = 10;
  facts[0] = facts_of("cykas", config);
  CHECK_EQUAL(facts[0].left_out, config.walks);
  CHECK_EQUAL(facts[0].depth_max, 10);
}

/* ---- what hurries a search ---- */

TEST(test_a_search_that_runs_out_of_memory_says_so_and_keeps_what_it_knows)
{
  static const uint32_t sizes_kib[] = {1024, 1500, 2048, 3000, 8192, 20000};
  for (uint32_t kind = BUSQ_CHECK_DEPTH; kind <= BUSQ_CHECK_BREADTH; kind++)
    for (size_t which = 0; which < sizeof sizes_kib / sizeof *sizes_kib; which++) {
      busq_check_config config = plain;
      if (is_slow() && sizes_kib[which] > 4000)
        continue;
      config.search = kind;
      config.messages = 3;
      config.threads = which % 2 ? 2 : 1;
      config.memory_bytes = (uint64_t)sizes_kib[which] << 10;
      const busq_check_facts facts = facts_of("cykas", config);
      CHECK(facts.is_full && !facts.is_complete);
      CHECK(facts.unique > 10 && facts.depth_max > 1);
      /* Depth first, most of it is fingerprints. */
      if (kind == BUSQ_CHECK_DEPTH && sizes_kib[which] > 4000)
        CHECK(facts.unique * 8 * 2 > config.memory_bytes);
    }
}

TEST(test_a_search_can_be_given_up_at_any_moment)
{
  for (uint32_t kind = BUSQ_CHECK_DEPTH; kind <= BUSQ_CHECK_WALK; kind++)
    for (uint64_t slice_ns = 0; slice_ns <= 64000000; slice_ns = 4 * slice_ns + 1000) {
      busq_check_config config = plain;
      config.search = kind;
      config.messages = 4;
      config.walks = UINT64_MAX;
      config.threads = 3;
      busq_check *check = begin("cykas", &config);
      busq_check_facts facts;
      size_t count;
      uint32_t faults;
      CHECK_EQUAL(busq_check_advance(check, slice_ns), BUSQ_INTERRUPTED);
      busq_check_examine(check, &facts);
      CHECK(!facts.is_over && !facts.is_complete);
      CHECK(!busq_check_witness(check, &count, &faults));
      busq_check_free(check);
    }
}

/* ---- on disk ---- */

/* In the directory in which the test runs. */
static busq_check_config on_disk(busq_check_config config, uint64_t memory_bytes)
{
  config.search = BUSQ_CHECK_BREADTH;
  config.directory = ".";
  config.disk_bytes = UINT64_C(1) << 32;
  config.memory_bytes = memory_bytes;
  return config;
}

static void check_same(const char *order, busq_check_config config, uint64_t memory_bytes)
{
  config.search = BUSQ_CHECK_BREADTH;
  const busq_check_facts memory = facts_of(order, config);
  CHECK(memory.is_complete && !memory.disk_bytes);
  for (uint32_t n_threads = 1; n_threads <= 2; n_threads++) {
    config.threads = n_threads;
    const busq_check_facts disk = facts_of(order, on_disk(config, memory_bytes));
    CHECK(disk.is_complete && !disk.disk_error);
    CHECK(disk.disk_bytes > 8 * memory.unique);
    CHECK_EQUAL(disk.unique, memory.unique);
    CHECK_EQUAL(disk.total, memory.total);
    CHECK_EQUAL(disk.ends, memory.ends);
    CHECK_EQUAL(disk.depth_max, memory.depth_max);
    CHECK_EQUAL(disk.faults, memory.faults);
    CHECK_EQUAL(disk.held_max, memory.held_max);
    CHECK_EQUAL(disk.contradicted, 0);
  }
}

/* Their fingerprints fill the set of a MiB several times. */
TEST(test_a_search_on_disk_sees_the_same_states_as_one_in_memory)
{
  static const struct {
    const char *order;
    uint32_t processes, messages, fan_out, crashes, fifo, reductions;
  } rows[] = {{"mfss", 3, 2, 1, 1, 0, BUSQ_CHECK_FORGETTING},
              {"lamport", 2, 3, 1, 0, 1, 0},
              {"mfss", 3, 2, 1, 0, 0, BUSQ_CHECK_SYMMETRY},
              {"none", 3, 2, 1, 0, 0, 0},
              {"skeen", 3, 1, 2, 0, 0, 0}};
  for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
    busq_check_config config = plain;
    if (is_slow() && row > 1)
      continue;
    config.processes = rows[row].processes;
    config.messages = rows[row].messages;
    config.fan_out_max = rows[row].fan_out;
    config.crashes_max = rows[row].crashes;
    config.channels = rows[row].fifo;
    config.reductions = rows[row].reductions;
    check_same(rows[row].order, config, 5 << 18);
  }
}

TEST(test_on_disk_quiet_packets_come_first_too)
{
  busq_check_config config = plain;
  config.reductions = BUSQ_CHECK_ALL_REDUCTIONS & ~BUSQ_CHECK_SYMMETRY;
  const busq_check_facts depth = facts_of("mfss", config);
  const busq_check_facts disk = facts_of("mfss", on_disk(config, 5 << 18));
  CHECK(depth.is_complete && disk.is_complete);
  CHECK_EQUAL(disk.unique, depth.unique);
  CHECK_EQUAL(disk.ends, depth.ends);
}

TEST(test_the_violation_found_on_disk_is_the_one_that_is_found_in_memory)
{
  busq_crew_config config = {.model = {.order = &busq_order_cykas_telling, .n_processes = 3, .n_messages = 2, .fan_out_max = 1},
                             .kind = &busq_breadth,
                             .n_threads = 2,
                             .judged = CAUSAL | ENDLESS,
                             .memory_bytes = 256 << 20};
  busq_crew *found[2];
  for (uint32_t which = 0; which < 2; which++) {
    CHECK_EQUAL(busq_crew_new(&config, &found[which]), BUSQ_OK);
    while (busq_crew_wait(found[which], SECOND_NS) == BUSQ_INTERRUPTED)
      ;
    check_replays(found[which]);
    config.memory_bytes = 3 << 19;
    config.directory = ".";
    config.disk_bytes = UINT64_C(1) << 32;
  }
  CHECK(found[1]->disk.account.most_bytes > 0);
  CHECK_EQUAL(found[0]->witness.n_moves, found[1]->witness.n_moves);
  CHECK(memcmp(found[0]->witness.moves, found[1]->witness.moves, found[0]->witness.n_moves * sizeof(busq_model_move)) == 0);
  busq_crew_free(found[0]);
  busq_crew_free(found[1]);
}

TEST(test_a_search_whose_disk_is_full_says_so_and_keeps_what_it_knows)
{
  busq_check_config config = on_disk(plain, 3 << 19);
  config.messages = 3;
  for (uint64_t mib = 16; mib <= 64; mib *= 2) {
    config.disk_bytes = mib << 20;
    const busq_check_facts facts = facts_of("cykas", config);
    CHECK(facts.is_full && !facts.is_complete);
    CHECK_EQUAL(facts.disk_error, ENOSPC);
    CHECK(facts.disk_bytes <= config.disk_bytes && facts.disk_bytes > config.disk_bytes / 2);
    CHECK(facts.unique > 10000 && facts.depth_max > 1);
  }
}

TEST(test_a_search_on_disk_can_be_given_up_at_any_moment)
{
  for (uint64_t slice_ns = 0; slice_ns <= 256000000; slice_ns = 4 * slice_ns + 1000) {
    busq_check_config config = on_disk(plain, 4 << 20);
    busq_check_facts facts;
    config.messages = 4;
    config.threads = 3;
    busq_check *check = begin("cykas", &config);
    CHECK_EQUAL(busq_check_advance(check, slice_ns), BUSQ_INTERRUPTED);
    busq_check_examine(check, &facts);
    CHECK(!facts.is_over && !facts.is_complete);
    busq_check_free(check);
  }
}

/* ---- orders that should never be used: every packet is answered, for ever ---- */

enum { CIRCLE = 1, SPIRAL = 2, FLOOD = 4 };

static int loop_step(void *state, const busq_order_event *event, busq_order_effects *effects)
{
  const uint32_t options = ((const busq_order_group *)state)->options;
  busq_order_packet packet = {.message = event->packet.message, .stamp = event->packet.stamp};
  if (event->kind == BUSQ_ON_SUBMIT) {
    busq_do_sent(effects, packet.message, NULL);
    busq_do_send(effects, event->to, packet);
  } else if (event->kind == BUSQ_ON_RECEIVE) {
    packet.stamp += !(options & CIRCLE);
    for (uint32_t copy = 0; copy < (options & FLOOD ? 60 : 1); copy++)
      busq_do_send(effects, event->packet.from, packet);
  }
  return BUSQ_OK;
}

static const busq_order_kind loop_kinds[] = {{"ball", false}};

static const busq_order loop_order = {.name = "loop",
                                      .traits = BUSQ_ORDER_POINT_TO_POINT,
                                      .kinds = loop_kinds,
                                      .n_kinds = 1,
                                      .step = loop_step};

static const busq_crew_kind *const all_kinds[] = {&busq_exhaust, &busq_breadth, &busq_walk};

static busq_crew *loop(uint32_t options, bool counts_moves, uint32_t judged, const busq_crew_kind *kind, int result)
{
  const busq_crew_config config = {.model = {.order = &loop_order,
                                             .options = options,
                                             .n_processes = 2,
                                             .n_messages = 1,
                                             .fan_out_max = 1,
                                             .counts_moves = counts_moves},
                                   .kind = kind,
                                   .n_threads = 2,
                                   .judged = judged,
                                   .memory_bytes = 512 << 20, /* every state that waits has its path, of up to 2,048 moves */
                                   .walks = 10};
  busq_crew *crew;
  CHECK_EQUAL(busq_crew_new(&config, &crew), BUSQ_OK);
  int found;
  while ((found = busq_crew_wait(crew, SECOND_NS)) == BUSQ_INTERRUPTED)
    ;
  CHECK_EQUAL(found, result);
  return crew;
}

TEST(test_an_execution_without_end_is_a_violation)
{
  for (size_t kind = 0; kind < 3; kind++)
    for (uint32_t counts_moves = 0; counts_moves < 2; counts_moves++) {
      busq_crew *crew = loop(counts_moves ? CIRCLE : SPIRAL, counts_moves, ENDLESS, all_kinds[kind], BUSQ_OK);
      busq_check_facts facts;
      busq_crew_examine(crew, &facts);
      CHECK(facts.faults & ENDLESS && !facts.is_complete && facts.may_go_in_circles);
      CHECK_EQUAL(crew->witness.faults, ENDLESS);
      CHECK_EQUAL(crew->witness.n_moves, BUSQ_CREW_DEPTH_MAX);
      busq_crew_free(crew);
    }
}

TEST(test_that_an_execution_may_go_in_circles_is_told)
{
  for (size_t kind = 0; kind < 2; kind++) {
    busq_crew *crew = loop(CIRCLE, false, 0, all_kinds[kind], BUSQ_OK);
    busq_check_facts facts;
    busq_crew_examine(crew, &facts);
    CHECK(facts.is_complete && facts.may_go_in_circles && !(facts.faults & ENDLESS));
    CHECK_EQUAL(facts.ends, 0);
    busq_crew_free(crew);
  }
  CHECK(!facts_of("cykas", small).may_go_in_circles);
}

TEST(test_more_packets_than_a_model_holds_are_an_error)
{
  for (size_t kind = 0; kind < 3; kind++) {
    busq_crew *crew = loop(FLOOD, false, 0, all_kinds[kind], BUSQ_NO_SPACE);
    busq_check_facts facts;
    CHECK(strstr(busq_error_text(), "in flight") != NULL);
    busq_crew_examine(crew, &facts);
    CHECK(facts.is_over && !facts.is_complete);
    busq_crew_free(crew);
  }
}

/* ---- arguments ---- */

static void check_refused(const char *order, const busq_check_config *config, const char *says)
{
  busq_check *check;
  const int result = busq_check_new(order, config, &check);
  if (result != BUSQ_INVALID && result != BUSQ_NO_SPACE)
    check_fail(__FILE__, __LINE__, "\"%s\" is no error: %d", says, result);
  if (!strstr(busq_error_text(), says))
    check_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", busq_error_text(), says);
}

TEST(test_wrong_arguments_are_errors_that_say_what_is_expected)
{
  static const struct {
    const char *order;
    size_t field; /* of 32 bits */
    uint32_t value;
    const char *says;
  } rows[] = {{"cykass", offsetof(busq_check_config, processes), 3, "cykass"},
              {"cykas", offsetof(busq_check_config, processes), 1, "1 processes: expected 2 to"},
              {"cykas", offsetof(busq_check_config, processes), 9, "9 processes: expected 2 to"},
              {"cykas", offsetof(busq_check_config, messages), 0, "0 messages"},
              {"cykas", offsetof(busq_check_config, messages), 11, "expected 1 to 10"},
              {"cykas", offsetof(busq_check_config, fan_out_max), 2, "point to point, expected 1"},
              {"skeen", offsetof(busq_check_config, fan_out_max), 3, "expected 1 to 2"},
              {"skeen", offsetof(busq_check_config, fan_out_max), 0, "expected 1 to 2"},
              {"cykas", offsetof(busq_check_config, behaviour), 4, "no behaviour 4"},
              {"cykas", offsetof(busq_check_config, search), 3, "no search 3"},
              {"cykas", offsetof(busq_check_config, reductions), 32, "no reduction 0x20"},
              {"cykas", offsetof(busq_check_config, threads), 0, "0 threads: expected 1 to 64"},
              {"cykas", offsetof(busq_check_config, threads), 65, "65 threads: expected 1 to 64"},
              {"cykas", offsetof(busq_check_config, lost_max), 1, "only none and fifo:on_gap=skip"}};
  busq_check_config config;
  for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
    config = plain;
    memcpy((char *)&config + rows[row].field, &rows[row].value, sizeof rows[row].value);
    check_refused(rows[row].order, &config, rows[row].says);
  }
  config = plain;
  config.memory_bytes = 1000;
  check_refused("cykas", &config, "1000 bytes of memory: expected at least");
  config.memory_bytes = 1 << 20;
  config.threads = 64;
  check_refused("cykas", &config, "fewer threads");
  config = plain;
  config.search = BUSQ_CHECK_WALK;
  config.walks = 0;
  check_refused("cykas", &config, "0 random executions");
  config.search = BUSQ_CHECK_BREADTH;
  config.reductions = BUSQ_CHECK_QUIET_PACKETS;
  check_refused("cykas", &config, "shortest");
  config = plain;
  config.destinations = (const uint32_t[]){2, 2, 1, 2, 1, 1};
  check_refused("cykas", &config, "0x2");
  config = on_disk(plain, 256 << 20);
  config.search = BUSQ_CHECK_DEPTH;
  check_refused("cykas", &config, "breadth first");
  config.search = BUSQ_CHECK_BREADTH;
  config.disk_bytes = 1000;
  check_refused("cykas", &config, "1000 bytes of disk: expected");
  config = plain;
  config.destinations = NULL;
  config.counts = (const uint32_t[]){0, 1, 3};
  config.messages = 2;
  config.processes = 3;
  check_refused("cykas", &config, "3 messages of process 2: expected at most 2");
}

/* ---- parts ---- */

TEST(test_packed_states_come_back_as_they_were)
{
  enum { WORDS_MAX = 100 };
  check_chance chance = {test_seed};
  for (uint32_t round = 0; round < check_share(20000); round++) {
    uint64_t words[WORDS_MAX], unpacked[WORDS_MAX];
    uint8_t packed[10 * WORDS_MAX + BUSQ_PACK_BEYOND];
    const size_t n_words = check_below(&chance, WORDS_MAX + 1);
    for (size_t place = 0; place < n_words; place++) {
      words[place] = check_below(&chance, 2) ? check_next(&chance) & check_next(&chance) : 0;
      words[place] = words[place] >> check_below(&chance, 64) << check_below(&chance, 64);
    }
    CHECK(busq_pack(words, n_words, packed) + BUSQ_PACK_BEYOND <= busq_pack_bytes_max(n_words));
    busq_unpack(packed, unpacked, n_words);
    CHECK(memcmp(unpacked, words, n_words * sizeof *words) == 0);
  }
}

TEST(test_a_set_that_grows_forgets_nothing)
{
  const uint64_t limit_bytes = check_share(48) << 20;
  busq_account account = {.limit_bytes = limit_bytes};
  busq_seen seen = {0};
  atomic_bool must_stop = false;
  CHECK(busq_seen_init(&seen, &account, limit_bytes));
  check_chance chance = {test_seed};
  uint64_t count = 0, n_new = 0;
  for (;; count++) {
    if (!busq_seen_draw(&seen, 1) && !(busq_seen_grow(&seen, &must_stop) && busq_seen_draw(&seen, 1)))
      break;
    n_new += busq_seen_add(&seen, check_next(&chance) | 1);
  }
  CHECK(count * 8 > limit_bytes / 2);
  CHECK(n_new == count);
  CHECK(atomic_load(&account.most_bytes) <= limit_bytes);
  chance = (check_chance){test_seed};
  for (uint64_t place = 0; place < count; place++) {
    const uint64_t fingerprint = check_next(&chance) | 1;
    CHECK(busq_seen_contains(&seen, fingerprint));
    CHECK(!busq_seen_add(&seen, fingerprint));
  }
  for (uint32_t other = 0; other < 1000; other++)
    CHECK(!busq_seen_contains(&seen, check_next(&chance) & ~UINT64_C(1)));
  busq_seen_deinit(&seen);
  CHECK_EQUAL(atomic_load(&account.used_bytes), 0);
}
