/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator from C: its parts, and every order on a network where everything goes wrong (for the sanitizers, above all). */
#include "busq_lab.h"
#include "harness/test.h"
#include "order/order.h"
#include "sim/latency_histogram.h"
#include "sim/messages.h"
#include "sim/agenda.h"

/* ---- the heap of times ---- */

TEST(test_what_was_pushed_comes_out_by_time_and_then_in_the_order_of_pushing)
{
  check_chance chance = {test_seed};
  busq_sim_agenda times = {0};
  uint64_t last_ns = 0;
  uint64_t last_what = 0;
  for (uint32_t what = 0; what < check_share(20000) || times.n; what++) {
    const bool is_filling = what < check_share(20000);
    for (uint64_t turn = 0; is_filling && turn < check_below(&chance, 3); turn++)
      CHECK(busq_sim_agenda_push(&times, last_ns + check_below(&chance, 10), what));
    if (!times.n)
      continue;
    const busq_sim_time first = times.entries[0];
    CHECK(first.time_ns > last_ns || (first.time_ns == last_ns && busq_sim_time_what(first) >= last_what));
    last_ns = first.time_ns;
    last_what = busq_sim_time_what(first);
    if (is_filling && check_below(&chance, 2))
      busq_sim_agenda_replace(&times, last_ns + check_below(&chance, 10), what);
    else
      busq_sim_agenda_pop(&times);
    if (!times.n || times.entries[0].time_ns > last_ns)
      last_what = 0;
  }
  free(times.entries);
}

/* ---- latencies ---- */

static int compare(const void *a, const void *b)
{
  const uint64_t left = *(const uint64_t *)a;
  const uint64_t right = *(const uint64_t *)b;
  return (left > right) - (left < right);
}

TEST(test_quantiles_are_those_of_the_sorted_values)
{
  enum { N = 5000 };
  static busq_sim_latencies latencies;
  static uint64_t values[N];
  check_chance chance = {test_seed};
  for (uint32_t place = 0; place < N; place++) {
    values[place] = check_next(&chance) >> check_below(&chance, 64);
    busq_sim_latencies_add(&latencies, values[place]);
  }
  qsort(values, N, sizeof *values, compare);
  for (uint32_t percent = 1; percent <= 100; percent++) {
    const uint64_t exact = values[(N * percent + 99) / 100 - 1];
    const uint64_t found = busq_sim_latencies_quantile(&latencies, percent);
    const uint64_t off = found > exact ? found - exact : exact - found;
    CHECK(exact < 2048 ? off == 0 : off <= exact / 2048);
  }
  CHECK_EQUAL(latencies.max_ns, values[N - 1]);
}

/* ---- messages ---- */

TEST(test_a_message_knows_its_destinations_few_many_or_all_others)
{
  enum { N = 64 };
  check_chance chance = {test_seed};
  busq_messages store;
  CHECK_EQUAL(busq_messages_init(&store, N, BUSQ_CLOCK_NONE), BUSQ_OK);
  for (uint32_t round = 0; round < 500; round++) {
    uint32_t list[N];
    uint64_t message;
    const uint32_t origin = (uint32_t)check_below(&chance, N);
    const uint32_t n = round % 3 ? 1 + (uint32_t)check_below(&chance, N) : N - 1;
    for (uint32_t place = 0; place < N; place++)
      list[place] = (origin + 1 + place * (round % 3 ? 5 : 1)) % N; /* 5 has no factor with 64: each once */
    CHECK_EQUAL(busq_messages_add(&store, origin, list, n, &message), BUSQ_OK);
    const busq_message_facts *facts = busq_messages_find(&store, message);
    CHECK_EQUAL(busq_message_origin(message), origin);
    CHECK_EQUAL(facts->n_destinations, n);
    CHECK(memcmp(busq_messages_destinations(&store, message, facts), list, n * sizeof *list) == 0);
    for (uint32_t place = 0; place < N; place++)
      CHECK_EQUAL(busq_messages_is_for(&store, message, list[place]), place < n);
  }
  CHECK(!busq_messages_is_for(&store, 0, 0));
  CHECK(!busq_messages_find(&store, busq_message_name(N, 1)));
  busq_messages_deinit(&store);
}

TEST(test_a_clock_is_kept_until_its_last_use_and_its_memory_used_again)
{
  const uint32_t to[2] = {1, 2};
  const uint32_t clock[3] = {7, 8, 9};
  uint64_t message;
  busq_messages store;
  CHECK_EQUAL(busq_messages_init(&store, 3, BUSQ_CLOCK_VECTOR), BUSQ_OK);
  for (uint32_t round = 0; round < 200; round++) {
    CHECK_EQUAL(busq_messages_add(&store, 0, to, 2, &message), BUSQ_OK);
    CHECK_EQUAL(busq_messages_set_clock(&store, message, clock), BUSQ_OK);
    busq_messages_hold(&store, message);
    for (uint32_t use = 0; use < 4; use++) {
      CHECK(memcmp(store.world.vector(&store.world, message), clock, sizeof clock) == 0);
      busq_messages_release(&store, message);
    }
    CHECK(!store.world.vector(&store.world, message));
    CHECK_EQUAL(store.clocks.n_blocks, 1);
    CHECK_EQUAL(store.clocks.n_used, 0);
  }
  busq_messages_deinit(&store);
}

TEST(test_rows_that_are_shared_are_those_of_each_whole_matrix)
{
  enum { N = 5, SENDS = 200, WORDS = N + N * N };
  check_chance chance = {test_seed};
  static uint32_t known[N][WORDS]; /* versions and rows, as an order keeps them */
  static uint32_t sent[SENDS][WORDS];
  uint64_t names[SENDS];
  busq_messages store;
  memset(known, 0, sizeof known);
  CHECK_EQUAL(busq_messages_init(&store, N, BUSQ_CLOCK_MATRIX), BUSQ_OK);
  for (uint32_t turn = 0; turn < SENDS; turn++) {
    const uint32_t me = (uint32_t)check_below(&chance, N);
    const uint32_t to = (me + 1 + (uint32_t)check_below(&chance, N - 1)) % N;
    if (turn) {
      const uint32_t *other = sent[check_below(&chance, turn)];
      for (uint32_t row = 0; row < N; row++) {
        if (other[row] > known[me][row])
          memcpy(&known[me][N + N * row], &other[N + N * row], N * sizeof(uint32_t));
        known[me][row] = other[row] > known[me][row] ? other[row] : known[me][row];
      }
    }
    known[me][me]++;
    known[me][N + N * me + to]++;
    memcpy(sent[turn], known[me], sizeof sent[turn]);
    CHECK_EQUAL(busq_messages_add(&store, me, &to, 1, &names[turn]), BUSQ_OK);
    CHECK_EQUAL(busq_messages_set_clock(&store, names[turn], known[me]), BUSQ_OK);
  }
  for (uint32_t turn = 0; turn < SENDS; turn++) {
    CHECK(memcmp(store.world.vector(&store.world, names[turn]), sent[turn], N * sizeof(uint32_t)) == 0);
    for (uint32_t row = 0; row < N; row++)
      CHECK(memcmp(store.world.row(&store.world, names[turn], row), &sent[turn][N + N * row], N * sizeof(uint32_t)) == 0);
  }
  CHECK_EQUAL(store.row_blocks.n_used, SENDS);
  busq_messages_deinit(&store);
}

/* ---- whole runs ---- */

static const uint32_t side[] = {0, 2};
static const busq_sim_partition partitions[] = {{.begin_ns = 20000000, .end_ns = 60000000, .side = side, .n_side = 2}};

static busq_sim_config bad_network(const char *order, uint64_t seed)
{
  return (busq_sim_config){
      .order = order,
      .processes = 6,
      .messages_per_process = 30,
      .interval_ns = 3000000,
      .is_staggered = 1,
      .workload = BUSQ_SIM_HOTSPOT,
      .hotspot_share = 0.3,
      .hotspot_draw = 0.8,
      .bandwidth_bytes_per_s = 50000,
      .propagation_delay_ns = 5000000,
      .payload_bytes = 64,
      .header_bytes = 32,
      .control_bytes = 32,
      .clock_entry_bytes = 8,
      .fan_out = 3,
      .job_share = 0.2,
      .job_mean_ns = 5e6,
      .job_spread_ns = 2e6,
      .patience_ns = 100000000,
      .seed = seed,
      .faults = {.jitter_ns = 10000000,
                 .reordered_share = 0.2,
                 .reordered_ns = 30000000,
                 .doubled_share = 0.2,
                 .doubled_ns = 30000000,
                 .partitions = partitions,
                 .n_partitions = 1},
      .is_recorded = 1,
  };
}

static busq_sim_facts run(const busq_sim_config *config, uint64_t slice_ns)
{
  busq_sim_facts facts;
  busq_sim *sim;
  int result;
  CHECK_EQUAL(busq_sim_new(config, &sim), BUSQ_OK);
  while ((result = busq_sim_advance(sim, slice_ns)) == BUSQ_INTERRUPTED)
    continue;
  if (result != BUSQ_OK)
    check_fail(__FILE__, __LINE__, "%s: %s", config->order, busq_error_text());
  busq_sim_examine(sim, &facts);
  busq_sim_free(sim);
  return facts;
}

TEST(test_every_order_delivers_everything_on_a_network_where_everything_goes_wrong)
{
  for (const busq_order *const *order = busq_orders; *order; order++) {
    if ((*order)->traits & BUSQ_ORDER_LABORATORY)
      continue;
    busq_sim_config config = bad_network((*order)->name, test_seed);
    CHECK_EQUAL(busq_history_new(config.processes, &config.copies), BUSQ_OK);
    CHECK_EQUAL(busq_history_new(config.processes, &config.wholes), BUSQ_OK);
    const busq_sim_facts facts = run(&config, UINT64_MAX / 2);
    CHECK(facts.is_finished);
    CHECK_EQUAL(facts.deliveries, 6 * 30 * 3);
    CHECK_EQUAL(facts.unsent, 0);
    CHECK(facts.packets_doubled > 0);
    busq_history_free(config.copies);
    busq_history_free(config.wholes);
  }
}

TEST(test_it_does_not_matter_how_often_a_run_pauses)
{
  busq_sim_config config = bad_network("cykas", test_seed);
  config.messages_per_process = 2000;
  const busq_sim_facts whole = run(&config, UINT64_MAX / 2);
  const busq_sim_facts pieces = run(&config, 0);
  CHECK(memcmp(&whole, &pieces, sizeof whole) == 0);
}

TEST(test_a_run_that_was_not_finished_can_be_freed)
{
  busq_sim_config config = bad_network("causal-matrix", 1);
  busq_sim *sim;
  config.messages_per_process = 5000;
  for (int slices = 0; slices < 60; slices += 20) {
    CHECK_EQUAL(busq_sim_new(&config, &sim), BUSQ_OK);
    for (int slice = 0; slice < slices; slice++)
      CHECK_EQUAL(busq_sim_advance(sim, 0), BUSQ_INTERRUPTED);
    busq_sim_free(sim);
  }
}

TEST(test_what_makes_no_sense_is_refused_with_a_reason)
{
  busq_sim *sim;
  busq_sim_config config = bad_network("fast", 1);
  CHECK_EQUAL(busq_sim_new(&config, &sim), BUSQ_INVALID);
  CHECK(strstr(busq_error_text(), "order 'fast'"));
  config = bad_network("mfss", 1);
  config.fan_out = 6;
  CHECK_EQUAL(busq_sim_new(&config, &sim), BUSQ_INVALID);
  CHECK(strstr(busq_error_text(), "6 destinations per message"));
  config = bad_network("mfss", 1);
  config.faults.lost_share = 0.1;
  CHECK_EQUAL(busq_sim_new(&config, &sim), BUSQ_INVALID);
  CHECK(strstr(busq_error_text(), "loses packets"));
}
