/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model of the checker: what can happen in it, what is printed of it, and what its fingerprints see.
 */
#include "harness/test.h"
#include "base/prng.h"
#include "check/fingerprint.h"
#include "check/reduce.h"

enum { EXECUTIONS = 200 };

static busq_model_move moves[BUSQ_MODEL_MOVES_MAX];

static busq_model make(const busq_model_config *config)
{
  busq_model model;
  CHECK_EQUAL(busq_model_init(&model, config), BUSQ_OK);
  return model;
}

static void *start(const busq_model *model)
{
  void *state = malloc(model->state_bytes_max);
  busq_model_start(model, state);
  return state;
}

static void play(const busq_model *model, void *state, busq_model_move move)
{
  CHECK_EQUAL(busq_model_play(model, state, &move, NULL), BUSQ_OK);
}

static busq_model_move submit(uint32_t process, uint32_t destinations)
{
  return (busq_model_move){.kind = BUSQ_CHECK_SUBMIT, .process = process, .destinations = destinations};
}

/* How many moves of this kind the process has. */
static uint32_t count_moves(const busq_model *model, const void *state, uint32_t kind, uint32_t process)
{
  const uint32_t n_moves = busq_model_moves(model, state, moves);
  uint32_t count = 0;
  for (uint32_t place = 0; place < n_moves; place++)
    count += moves[place].kind == kind && moves[place].process == process;
  return count;
}

static busq_model_move first_move(const busq_model *model, const void *state, uint32_t kind, uint32_t process)
{
  const uint32_t n_moves = busq_model_moves(model, state, moves);
  for (uint32_t place = 0; place < n_moves; place++)
    if (moves[place].kind == kind && moves[place].process == process)
      return moves[place];
  check_fail(__FILE__, __LINE__, "process %u has no move of kind %u", process, kind);
  return moves[0];
}

/* Some move that is possible; false at an end. */
static bool draw(const busq_model *model, const void *state, busq_prng *prng, busq_model_move *move)
{
  const uint32_t n_moves = busq_model_moves(model, state, moves);
  if (n_moves)
    *move = moves[busq_prng_below(prng, n_moves)];
  return n_moves > 0;
}

/* ---- fingerprints ---- */

/* All sums put together anew. */
static uint64_t fingerprint_anew(const busq_model *model, const void *state, void *copy)
{
  memcpy(copy, state, busq_model_bytes(model, state));
  busq_model_head *head = busq_model_head_of(copy);
  const uint32_t n_packets = head->n_packets;
  head->packet_sum = head->order_sum = 0;
  for (uint32_t process = 0; process < model->config.n_processes; process++) {
    busq_model_prints(copy)[process] = 0;
    busq_model_print_process(model, copy, process);
  }
  for (head->n_packets = 1; head->n_packets <= n_packets; head->n_packets++)
    busq_model_print_added(model, copy);
  head->n_packets = n_packets;
  return busq_model_fingerprint(model, copy);
}

static void check_sums(const char *order, bool is_fifo)
{
  uint32_t options;
  const busq_model_config config = {.order = busq_order_parse(order, &options),
                                    .options = options,
                                    .n_processes = 3,
                                    .n_messages = 2,
                                    .fan_out_max = 1,
                                    .channels = is_fifo ? BUSQ_CHANNELS_FIFO : BUSQ_CHANNELS_AS_NEEDED,
                                    .doubled_max = 1};
  const busq_model model = make(&config);
  void *state = start(&model), *copy = start(&model);
  busq_prng prng = busq_prng_of(test_seed, 0, 0, 0);
  for (uint32_t execution = 0; execution < EXECUTIONS; execution++) {
    busq_model_move move;
    busq_model_start(&model, state);
    while (draw(&model, state, &prng, &move)) {
      play(&model, state, move);
      CHECK_EQUAL(busq_model_fingerprint(&model, state), fingerprint_anew(&model, state, copy));
    }
  }
  free(state);
  free(copy);
}

TEST(test_a_fingerprint_that_is_kept_up_move_by_move_is_that_of_the_state)
{
  check_sums("cykas", false);
  check_sums("cykas", true);
  check_sums("skeen", false);
  check_sums("lamport", true);
  check_sums("fifo:on_gap=skip", true);
}

/* Another way to distinguish states: byte by byte, the packets sorted by channel and content. */
typedef struct {
  uint64_t fingerprint;
  uint64_t other;
} seen_state;

static uint64_t hash_bytes(const void *bytes, size_t n_bytes, uint64_t sum)
{
  for (size_t place = 0; place < n_bytes; place++)
    sum = (sum ^ ((const unsigned char *)bytes)[place]) * UINT64_C(0x100000001b3);
  return sum;
}

static uint64_t hash_otherwise(const busq_model *model, const void *state)
{
  const busq_order_packet *packets = busq_model_packets_of(model, state);
  const uint32_t n_packets = busq_model_n_packets(state);
  uint64_t sum = hash_bytes((const char *)state + model->processes_at, model->packets_at - model->processes_at, busq_model_faults(state));
  uint64_t bag = 0;
  for (uint32_t place = 0; place < n_packets; place++) {
    uint64_t packet = UINT64_C(14695981039346656037);
    for (uint32_t before = 0; model->is_fifo && before < place; before++)
      if (packets[before].from == packets[place].from && packets[before].unused == packets[place].unused)
        packet = hash_bytes(&packets[before], sizeof *packets, packet); /* all that stand before it */
    packet = hash_bytes(&packets[place], sizeof *packets, packet);
    bag += packet * packet;
  }
  return sum + bag * 7;
}

enum { SEEN_SLOTS = 1 << 18 };

/* Goes on from a state to all that follow it; how many are new. */
static uint64_t explore(const busq_model *model, const void *state, seen_state *seen)
{
  uint64_t n_new = 0;
  busq_model_move *here = malloc(BUSQ_MODEL_MOVES_MAX * sizeof *here);
  void *next = malloc(model->state_bytes_max);
  const uint32_t n_moves = busq_model_moves(model, state, here);
  for (uint32_t place = 0; place < n_moves; place++) {
    memcpy(next, state, busq_model_bytes(model, state));
    play(model, next, here[place]);
    const seen_state found = {busq_model_fingerprint(model, next), hash_otherwise(model, next)};
    uint64_t slot = found.fingerprint % SEEN_SLOTS;
    while (seen[slot].fingerprint && seen[slot].fingerprint != found.fingerprint)
      slot = (slot + 1) % SEEN_SLOTS;
    const bool is_new = !seen[slot].fingerprint;
    if (is_new)
      seen[slot] = found;
    CHECK_EQUAL(seen[slot].other, found.other);
    n_new += is_new ? 1 + explore(model, next, seen) : 0;
  }
  free(next);
  free(here);
  return n_new;
}

/* Once, a rank in a channel and a stamp could stand for each other: 2,898 states of lamport were taken for others. */
TEST(test_different_states_have_different_fingerprints)
{
  static const struct {
    const char *order;
    uint32_t n_processes, n_messages, fan_out_max;
  } bounds[] = {{"lamport", 2, 3, 1}, {"lamport:ack=all", 2, 3, 1}, {"skeen", 2, 2, 1},         {"token", 2, 2, 1},
                {"fifo", 2, 4, 1},    {"sync", 3, 1, 1},            {"cykas", 2, 3, 1},         {"bus1", 2, 2, 1},
                {"sequencer", 3, 1, 2}, {"causal-matrix", 3, 1, 2}, {"causal-vector", 3, 1, 2}};
  seen_state *seen = malloc(SEEN_SLOTS * sizeof *seen);
  for (size_t which = 0; which < sizeof bounds / sizeof *bounds; which++) {
    uint32_t options;
    const busq_model_config config = {.order = busq_order_parse(bounds[which].order, &options),
                                      .options = options,
                                      .n_processes = bounds[which].n_processes,
                                      .n_messages = bounds[which].n_messages,
                                      .fan_out_max = bounds[which].fan_out_max};
    const busq_model model = make(&config);
    void *state = start(&model);
    memset(seen, 0, SEEN_SLOTS * sizeof *seen);
    const uint64_t n_states = explore(&model, state, seen);
    printf("    %-16s %" PRIu64 " states\n", bounds[which].order, n_states);
    CHECK(n_states > 200);
    free(state);
  }
  free(seen);
}

TEST(test_the_network_is_a_bag_unless_channels_keep_the_order)
{
  for (int is_fifo = 0; is_fifo <= 1; is_fifo++) {
    const busq_model_config config = {
        .order = &busq_order_none, .n_processes = 3, .n_messages = 2, .fan_out_max = 1, .channels = is_fifo ? BUSQ_CHANNELS_FIFO : BUSQ_CHANNELS_AS_NEEDED};
    const busq_model model = make(&config);
    void *state = start(&model);
    play(&model, state, submit(0, 2));
    play(&model, state, submit(0, 2));
    CHECK_EQUAL(count_moves(&model, state, BUSQ_CHECK_RECEIVE, 1), is_fifo ? 1 : 2);
    const uint64_t before = busq_model_fingerprint(&model, state);
    busq_order_packet *packets = busq_model_packets_of(&model, state);
    const busq_order_packet first = packets[0];
    packets[0] = packets[1];
    packets[1] = first;
    void *copy = start(&model);
    CHECK_EQUAL(fingerprint_anew(&model, state, copy) == before, !is_fifo);
    free(state);
    free(copy);
  }
}

/* An execution under other names, the same otherwise. */
static busq_model_move renamed(busq_model_move move, const uint32_t *names)
{
  uint32_t set = 0;
  for (uint32_t process = 0; process < BUSQ_MODEL_PROCESSES_MAX; process++)
    if (move.destinations & 1u << process)
      set |= 1u << names[process];
  move.process = names[move.process];
  move.destinations = set;
  return move;
}

/* Packets may be in another order in flight: the one that is the same but for the names. */
static void find_packet(const busq_model *model, const void *state, const void *other, busq_model_move *move, const uint32_t *names)
{
  const busq_order_packet *packet = &busq_model_packets_of(model, state)[move->place];
  for (uint32_t place = 0; place < busq_model_n_packets(other); place++) {
    const busq_order_packet *found = &busq_model_packets_of(model, other)[place];
    const bool is_about = !packet->message ? !found->message
                                           : found->message == busq_message_name(names[busq_message_origin(packet->message)],
                                                                                 busq_message_number(packet->message));
    if (is_about && found->kind == packet->kind && found->from == names[packet->from] &&
        found->unused == names[packet->unused] && found->stamp == packet->stamp && found->note == packet->note) {
      move->place = place;
      return;
    }
  }
  check_fail(__FILE__, __LINE__, "a packet is missing under other names");
}

static void check_classes(const busq_model_config *config)
{
  static const uint32_t names[] = {1, 2, 0, 3, 4, 5, 6, 7};
  const busq_model model = make(config);
  CHECK(busq_model_is_symmetric(&model));
  void *state = start(&model), *other = start(&model);
  busq_prng prng = busq_prng_of(test_seed, 0, 0, 0);
  uint32_t n_different = 0;
  for (uint32_t execution = 0; execution < EXECUTIONS; execution++) {
    busq_model_move move;
    busq_model_start(&model, state);
    busq_model_start(&model, other);
    while (draw(&model, state, &prng, &move)) {
      busq_model_move same = renamed(move, names);
      if (move.kind != BUSQ_CHECK_SUBMIT)
        find_packet(&model, state, other, &same, names);
      play(&model, state, move);
      play(&model, other, same);
      CHECK_EQUAL(busq_model_fingerprint_of_class(&model, state), busq_model_fingerprint_of_class(&model, other));
      n_different += busq_model_fingerprint(&model, state) != busq_model_fingerprint(&model, other);
    }
  }
  CHECK(n_different > EXECUTIONS);
  free(state);
  free(other);
}

TEST(test_states_that_differ_by_names_only_are_of_one_class)
{
  for (const busq_order *const *order = busq_orders; *order; order++) {
    busq_model_config config = {.order = *order, .n_processes = 3, .n_messages = 2, .fan_out_max = 1};
    if (!(*order)->rename || (*order)->n_roles)
      continue;
    check_classes(&config);
    config.behaviour = BUSQ_CHECK_REPLY;
    if (!(*order)->delivers_by_name)
      check_classes(&config);
    config.behaviour = BUSQ_CHECK_FREE;
    config.fan_out_max = (*order)->traits & BUSQ_ORDER_POINT_TO_POINT ? 1 : 3;
    config.with_self = true;
    check_classes(&config);
  }
}

/* The set of what was seen has a place for each part of the range. */
TEST(test_fingerprints_of_classes_are_spread_over_the_whole_range)
{
  const busq_model_config config = {.order = &busq_order_cykas, .n_processes = 6, .n_messages = 1, .fan_out_max = 1};
  const busq_model model = make(&config);
  void *state = start(&model);
  busq_prng prng = busq_prng_of(test_seed, 2, 0, 0);
  uint32_t counts[16] = {0}, n_all = 0;
  for (uint32_t execution = 0; execution < 10 * EXECUTIONS; execution++) {
    busq_model_move move;
    busq_model_start(&model, state);
    for (uint32_t depth = 0; depth < 10 && draw(&model, state, &prng, &move); depth++) {
      play(&model, state, move);
      counts[busq_model_fingerprint_of_class(&model, state) >> 60] += depth > 6; /* there are many by then */
      n_all += depth > 6;
    }
  }
  uint32_t n_low = 0;
  for (uint32_t part = 0; part < 8; part++)
    n_low += counts[part];
  printf("    %u of %u in the lower half\n", n_low, n_all);
  CHECK(n_low > n_all / 100 * 45 && n_low < n_all / 100 * 55);
  free(state);
}

/* An order that claims to be symmetric, and is not: it forgets what process 1 submits. */
static int forgetful_step(void *state, const busq_order_event *event, busq_order_effects *effects)
{
  const bool is_forgotten = event->kind == BUSQ_ON_SUBMIT && ((const busq_order_group *)state)->self == 1;
  return is_forgotten ? BUSQ_OK : busq_order_none.step(state, event, effects);
}

TEST(test_names_that_matter_are_noticed)
{
  busq_order forgetful = busq_order_none;
  forgetful.step = forgetful_step;
  const busq_order *const orders[] = {&busq_order_none, &forgetful, &busq_order_cykas, &busq_order_causal_matrix};
  for (uint32_t which = 0; which < 4; which++) {
    const busq_model_config config = {.order = orders[which], .n_processes = 3, .n_messages = 2, .fan_out_max = 1};
    const busq_model model = make(&config);
    void *state = start(&model), *room = malloc(2 * model.state_bytes_max);
    busq_prng prng = busq_prng_of(test_seed, 1, 0, 0);
    uint32_t n_different = 0;
    for (uint32_t execution = 0; execution < EXECUTIONS; execution++) {
      busq_model_move move;
      busq_model_start(&model, state);
      while (draw(&model, state, &prng, &move)) {
        n_different += !busq_model_keeps_names(&model, state, &move, busq_prng_next(&prng), room);
        play(&model, state, move);
      }
    }
    CHECK_EQUAL(n_different > 0, which == 1);
    free(state);
    free(room);
  }
}

TEST(test_roles_and_ties_by_name_are_not_renamed)
{
  busq_model_config config = {.order = &busq_order_skeen, .n_processes = 3, .n_messages = 1, .fan_out_max = 2};
  const busq_model skeen = make(&config);
  CHECK(!busq_model_is_symmetric(&skeen));
  config.order = &busq_order_mfss;
  config.fan_out_max = 1;
  config.behaviour = BUSQ_CHECK_JOB;
  const busq_model model = make(&config);
  void *state = start(&model), *other = start(&model), *third = start(&model);
  play(&model, state, submit(0, 2));
  play(&model, other, submit(1, 1));
  play(&model, third, submit(0, 4));
  CHECK(busq_model_fingerprint_of_class(&model, state) != busq_model_fingerprint_of_class(&model, other)); /* 0 works */
  CHECK_EQUAL(busq_model_fingerprint_of_class(&model, state), busq_model_fingerprint_of_class(&model, third));
  free(state);
  free(other);
  free(third);
}

/* ---- what the application does ---- */

TEST(test_who_replies_answers_the_senders_of_what_it_delivers_in_turn)
{
  const busq_model_config config = {
      .order = &busq_order_none, .n_processes = 3, .n_messages = 3, .fan_out_max = 1, .behaviour = BUSQ_CHECK_REPLY};
  const busq_model model = make(&config);
  void *state = start(&model);
  play(&model, state, submit(0, 2)); /* a query to process 1 */
  CHECK_EQUAL(count_moves(&model, state, BUSQ_CHECK_SUBMIT, 0), 0);
  play(&model, state, submit(2, 2));
  play(&model, state, submit(1, 1)); /* its own first message is free */
  CHECK_EQUAL(count_moves(&model, state, BUSQ_CHECK_SUBMIT, 1), 0);
  busq_model_move move = first_move(&model, state, BUSQ_CHECK_RECEIVE, 1);
  busq_check_step step;
  busq_model_describe(&model, state, &move, &step);
  CHECK_EQUAL(step.from, 0);
  play(&model, state, move);
  CHECK_EQUAL(count_moves(&model, state, BUSQ_CHECK_SUBMIT, 1), 1);
  CHECK_EQUAL(first_move(&model, state, BUSQ_CHECK_SUBMIT, 1).destinations, 1u << 0);
  play(&model, state, first_move(&model, state, BUSQ_CHECK_RECEIVE, 1));
  play(&model, state, first_move(&model, state, BUSQ_CHECK_SUBMIT, 1));
  CHECK_EQUAL(first_move(&model, state, BUSQ_CHECK_SUBMIT, 1).destinations, 1u << 2);
  free(state);
}

TEST(test_a_job_keeps_process_0_from_everything_and_is_answered)
{
  const busq_model_config config = {
      .order = &busq_order_mfss, .n_processes = 3, .n_messages = 2, .fan_out_max = 1, .behaviour = BUSQ_CHECK_JOB};
  const busq_model model = make(&config);
  void *state = start(&model);
  play(&model, state, submit(1, 1));
  play(&model, state, submit(2, 1));
  CHECK_EQUAL(count_moves(&model, state, BUSQ_CHECK_END_JOB, 0), 0);
  play(&model, state, first_move(&model, state, BUSQ_CHECK_RECEIVE, 0));
  CHECK_EQUAL(count_moves(&model, state, BUSQ_CHECK_RECEIVE, 0), 0);
  CHECK_EQUAL(count_moves(&model, state, BUSQ_CHECK_SUBMIT, 0), 0);
  play(&model, state, first_move(&model, state, BUSQ_CHECK_RECEIVE, 1)); /* its ack: the others go on */
  const busq_model_move end = first_move(&model, state, BUSQ_CHECK_END_JOB, 0);
  CHECK_EQUAL(end.destinations, 1u << 1);
  play(&model, state, end);
  CHECK_EQUAL(count_moves(&model, state, BUSQ_CHECK_RECEIVE, 1), 1); /* the answer */
  CHECK_EQUAL(count_moves(&model, state, BUSQ_CHECK_RECEIVE, 0), 1);
  play(&model, state, first_move(&model, state, BUSQ_CHECK_RECEIVE, 0));
  CHECK_EQUAL(count_moves(&model, state, BUSQ_CHECK_END_JOB, 0), 0); /* one job in an execution */
  free(state);
}

TEST(test_destinations_that_are_given_are_the_only_ones)
{
  static const uint32_t given[] = {6, 2, 4, 1, 3, 2};
  busq_model_config config = {
      .order = &busq_order_skeen, .n_processes = 3, .n_messages = 2, .fan_out_max = 2, .destinations = given};
  const busq_model model = make(&config);
  void *state = start(&model);
  CHECK_EQUAL(busq_model_moves(&model, state, moves), 3);
  CHECK_EQUAL(moves[0].destinations, 6);
  CHECK_EQUAL(moves[1].destinations, 4);
  CHECK_EQUAL(moves[2].destinations, 3);
  free(state);
  busq_model other;
  config.fan_out_max = 1;
  CHECK_EQUAL(busq_model_init(&other, &config), BUSQ_INVALID);
  CHECK_TEXT(busq_error_text(), "destinations 0x6 of message 1 of process 0: expected 1 to 1 processes other than itself");
}

/* ---- what the network does ---- */

TEST(test_a_network_loses_and_doubles_so_many_packets_and_no_more)
{
  const busq_model_config config = {
      .order = &busq_order_none, .n_processes = 2, .n_messages = 2, .fan_out_max = 1, .doubled_max = 1, .lost_max = 1};
  const busq_model model = make(&config);
  void *state = start(&model);
  play(&model, state, submit(0, 2));
  play(&model, state, submit(0, 2));
  CHECK_EQUAL(count_moves(&model, state, BUSQ_CHECK_DOUBLE, 1), 2);
  play(&model, state, first_move(&model, state, BUSQ_CHECK_DOUBLE, 1));
  CHECK_EQUAL(busq_model_n_packets(state), 3);
  CHECK_EQUAL(count_moves(&model, state, BUSQ_CHECK_DOUBLE, 1), 0);
  CHECK_EQUAL(count_moves(&model, state, BUSQ_CHECK_RECEIVE, 1), 2); /* of two that are alike, one will do */
  play(&model, state, first_move(&model, state, BUSQ_CHECK_LOSE, 1));
  CHECK_EQUAL(count_moves(&model, state, BUSQ_CHECK_LOSE, 1), 0);
  CHECK_EQUAL(busq_model_n_packets(state), 2);
  free(state);
}

TEST(test_what_is_delivered_twice_is_a_fault_of_who_does_not_notice)
{
  const busq_order *const orders[] = {&busq_order_none, &busq_order_fifo};
  for (uint32_t which = 0; which < 2; which++) {
    const busq_model_config config = {
        .order = orders[which], .n_processes = 2, .n_messages = 1, .fan_out_max = 1, .doubled_max = 1};
    const busq_model model = make(&config);
    void *state = start(&model);
    play(&model, state, submit(0, 2));
    play(&model, state, first_move(&model, state, BUSQ_CHECK_DOUBLE, 1));
    play(&model, state, first_move(&model, state, BUSQ_CHECK_RECEIVE, 1));
    play(&model, state, first_move(&model, state, BUSQ_CHECK_RECEIVE, 1));
    CHECK_EQUAL(busq_model_faults(state), which ? 0 : 1u << BUSQ_PROPERTY_DUPLICATED);
    free(state);
  }
}

static bool has_delivered(const busq_model *model, const void *state, uint32_t process, uint32_t index)
{
  return busq_model_message_at(model, state, index)->delivered & 1u << process;
}

TEST(test_an_alarm_goes_off_at_any_moment_after_it_was_set)
{
  uint32_t options;
  const busq_order *order = busq_order_parse("fifo:on_gap=skip", &options);
  const busq_model_config config = {.order = order, .options = options, .n_processes = 2, .n_messages = 2, .fan_out_max = 1};
  const busq_model model = make(&config);
  void *state = start(&model);
  play(&model, state, submit(0, 2));
  play(&model, state, submit(0, 2));
  CHECK_EQUAL(count_moves(&model, state, BUSQ_CHECK_TICK, 1), 0);
  busq_model_move second = first_move(&model, state, BUSQ_CHECK_RECEIVE, 1);
  second.place = 1;
  play(&model, state, second); /* a gap */
  CHECK_EQUAL(count_moves(&model, state, BUSQ_CHECK_TICK, 1), 1);
  play(&model, state, first_move(&model, state, BUSQ_CHECK_TICK, 1)); /* seen by one alarm */
  CHECK(!has_delivered(&model, state, 1, 1));
  play(&model, state, first_move(&model, state, BUSQ_CHECK_TICK, 1));
  CHECK(has_delivered(&model, state, 1, 1)); /* skipped */
  play(&model, state, first_move(&model, state, BUSQ_CHECK_RECEIVE, 1));
  CHECK(!has_delivered(&model, state, 1, 0)); /* too late */
  CHECK_EQUAL(busq_model_faults(state), 0);
  free(state);
}

/* ---- what a broken order reports ---- */

static uint32_t nonsense;

static int nonsense_step(void *state, const busq_order_event *event, busq_order_effects *effects)
{
  if (event->kind != BUSQ_ON_SUBMIT || nonsense == 0)
    return busq_order_none.step(state, event, effects);
  const uint64_t names[] = {0, busq_message_name(7, 1), busq_message_name(0, 9), event->packet.message};
  busq_do_sent(effects, event->packet.message, NULL);
  if (nonsense == 1)
    busq_do_sent(effects, event->packet.message, NULL); /* twice */
  else if (nonsense < 5)
    busq_do_deliver(effects, names[nonsense - 2]); /* there is no such message */
  else
    busq_do_send(effects, nonsense == 5 ? 5 : 1, (busq_order_packet){.message = names[3], .kind = nonsense == 5 ? 0 : 40});
  return BUSQ_OK;
}

TEST(test_an_effect_that_makes_no_sense_is_a_fault_and_left_out)
{
  busq_order broken = busq_order_none;
  broken.step = nonsense_step;
  const busq_model_config config = {.order = &broken, .n_processes = 2, .n_messages = 2, .fan_out_max = 1};
  const busq_model model = make(&config);
  void *state = start(&model);
  for (nonsense = 0; nonsense < 7; nonsense++) {
    busq_model_start(&model, state);
    play(&model, state, submit(0, 2));
    CHECK_EQUAL(busq_model_faults(state), nonsense ? 1u << BUSQ_CHECK_REFUSED : 0);
    CHECK_EQUAL(busq_model_n_packets(state), nonsense ? 0 : 1);
  }
  free(state);
}

static bool is_never_sound(const void *state)
{
  return !state;
}

TEST(test_a_state_that_is_not_sound_is_a_fault_of_its_own_and_goes_on)
{
  busq_order broken = busq_order_none;
  broken.verify = is_never_sound;
  const busq_model_config config = {.order = &broken, .n_processes = 2, .n_messages = 1, .fan_out_max = 1};
  const busq_model model = make(&config);
  void *state = start(&model);
  play(&model, state, submit(0, 2));
  CHECK_EQUAL(busq_model_faults(state), 1u << BUSQ_CHECK_INVARIANT);
  play(&model, state, first_move(&model, state, BUSQ_CHECK_RECEIVE, 1));
  CHECK(has_delivered(&model, state, 1, 0));
  free(state);
}

/* A message that came to a process it was not sent to overtakes nothing: it is a phantom. */
TEST(test_what_strays_is_no_fault_of_fifo)
{
  const busq_model_config config = {.order = &busq_order_none, .n_processes = 3, .n_messages = 2, .fan_out_max = 1};
  const busq_model model = make(&config);
  void *state = start(&model);
  play(&model, state, submit(0, 4));
  play(&model, state, submit(0, 2));
  busq_model_packets_of(&model, state)[1].unused = 2; /* the network leads the second one astray */
  play(&model, state, (busq_model_move){.kind = BUSQ_CHECK_RECEIVE, .process = 2, .place = 1});
  play(&model, state, (busq_model_move){.kind = BUSQ_CHECK_RECEIVE, .process = 2, .place = 0});
  CHECK(busq_model_faults(state) & 1u << BUSQ_PROPERTY_PHANTOM);
  CHECK(busq_model_faults(state) & 1u << BUSQ_PROPERTY_CAUSAL);
  CHECK(!(busq_model_faults(state) & 1u << BUSQ_PROPERTY_FIFO));
  free(state);
}

/* ---- what commutes ---- */

TEST(test_moves_at_different_processes_commute_and_deliveries_at_one_need_not)
{
  const busq_model_config config = {.order = &busq_order_cykas, .n_processes = 3, .n_messages = 2, .fan_out_max = 1};
  const busq_model model = make(&config);
  void *state = start(&model), *room = malloc(2 * model.state_bytes_max);
  const busq_model_move one = submit(0, 2), other = submit(1, 1), third = submit(0, 4);
  CHECK(busq_model_commute(&model, state, &one, &other, room));
  CHECK(!busq_model_commute(&model, state, &one, &third, room)); /* which is message 1? */
  play(&model, state, one);
  play(&model, state, other);
  const busq_model_move arrival = first_move(&model, state, BUSQ_CHECK_RECEIVE, 0);
  CHECK(!busq_model_commute(&model, state, &arrival, &third, room)); /* eager, or after what it knows */
  const busq_model_move elsewhere = first_move(&model, state, BUSQ_CHECK_RECEIVE, 1);
  CHECK(busq_model_commute(&model, state, &arrival, &elsewhere, room));
  CHECK(busq_model_commute(&model, state, &elsewhere, &arrival, room));
  free(state);
  free(room);
}
