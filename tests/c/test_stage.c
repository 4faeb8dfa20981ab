/* SPDX-License-Identifier: Apache-2.0 */
/* The stage: all orders on it at random, and orders that cheat. */
#include "harness/test.h"
#include "sim/stage.h"

enum { N_MAX = 6 };

static busq_stage *new_stage(const char *order, uint32_t n_processes, uint32_t waiting_max, uint32_t held_max)
{
  const busq_stage_config config = {.processes = n_processes, .waiting_max = waiting_max, .held_max = held_max};
  busq_stage *stage = NULL;
  CHECK_EQUAL(busq_stage_new(order, &config, &stage), BUSQ_OK);
  return stage;
}

static busq_stage_facts facts_of(const busq_stage *stage)
{
  busq_stage_facts facts;
  busq_stage_examine(stage, &facts);
  return facts;
}

static void submit_at_random(busq_stage *stage, check_chance *chance, uint32_t n)
{
  uint32_t destinations[N_MAX];
  uint32_t n_destinations = 0;
  uint64_t name;
  for (uint32_t process = 0; process < n; process++)
    if (check_below(chance, 2))
      destinations[n_destinations++] = process;
  if (!n_destinations)
    destinations[n_destinations++] = (uint32_t)check_below(chance, n);
  const uint32_t sender = (uint32_t)check_below(chance, n);
  CHECK_EQUAL(busq_stage_submit(stage, sender, destinations, n_destinations, &name), BUSQ_OK);
  CHECK_EQUAL(busq_message_origin(name), sender);
}

static busq_stage *play(const busq_order *order, uint64_t seed, uint32_t waiting_max, uint32_t held_max)
{
  check_chance chance = {seed};
  const uint32_t n = 1 + (uint32_t)check_below(&chance, N_MAX);
  busq_stage *stage = new_stage(order->name, n, waiting_max, held_max);
  uint64_t count;
  stage->order = order;
  for (int message = 0; message < 20; message++) {
    CHECK_EQUAL(busq_stage_run(stage, check_next(&chance), check_below(&chance, 5), 0, &count), BUSQ_OK);
    submit_at_random(stage, &chance, n);
  }
  CHECK_EQUAL(busq_stage_run(stage, check_next(&chance), 100000, 0, &count), BUSQ_OK);
  CHECK(count < 100000);
  return stage;
}

static uint64_t count_losses(const busq_stage *stage, uint32_t is_whole)
{
  busq_history *history;
  busq_judgement judgement;
  CHECK_EQUAL(busq_history_new(stage->group.n_processes, &history), BUSQ_OK);
  CHECK_EQUAL(busq_stage_tell(stage, is_whole, history), BUSQ_OK);
  CHECK_EQUAL(busq_history_judge(history, BUSQ_ALL_PROPERTIES, &judgement), BUSQ_OK);
  busq_history_free(history);
  CHECK_EQUAL(judgement.verdicts[BUSQ_PROPERTY_DUPLICATED].count, 0);
  CHECK_EQUAL(judgement.verdicts[BUSQ_PROPERTY_PHANTOM].count, 0);
  return judgement.verdicts[BUSQ_PROPERTY_LOST].count;
}

TEST(test_every_order_comes_to_rest_and_only_some_get_stuck)
{
  for (const busq_order *const *order = busq_orders; *order; order++)
    for (uint64_t play_number = 0; play_number < check_share(200); play_number++) {
      busq_stage *stage = play(*order, test_seed + play_number, 64, 256);
      const busq_stage_facts facts = facts_of(stage);
      CHECK_EQUAL(facts.n_packets, 0);
      const uint64_t n_lost = count_losses(stage, 0);
      if (!((*order)->traits & BUSQ_ORDER_LABORATORY)) {
        CHECK_EQUAL(facts.n_undelivered, 0);
        CHECK_EQUAL(n_lost, 0);
        CHECK_EQUAL(count_losses(stage, 1), 0);
      }
      busq_stage_free(stage);
    }
}

TEST(test_little_room_breaks_no_rule)
{
  for (const busq_order *const *order = busq_orders; *order; order++)
    for (uint32_t room = 1; room <= 4; room++)
      for (uint64_t play_number = 0; play_number < check_share(50); play_number++) {
        busq_stage *stage = play(*order, test_seed + play_number, room, room);
        count_losses(stage, 1);
        busq_stage_free(stage);
      }
}

/* ---- what every step keeps to ---- */

enum { EFFECTS_MAX = 1 << 12 };

static const busq_order *examined;
static busq_order_effect whole[EFFECTS_MAX];
static uint32_t n_whole, n_said, n_pieces, n_refusals;
static char *played;

static bool are_equal(const busq_order_effect *one, const busq_order_effect *other)
{
  return one->kind == other->kind && one->to == other->to && memcmp(&one->packet, &other->packet, sizeof one->packet) == 0;
}

/* Plays the step to its end on a copy; some orders cut a step whatever room there is. */
static int play_in_large_pieces(const void *state, size_t size, busq_order_event event)
{
  int result;
  bool is_cut;
  played = realloc(played, size);
  memcpy(played, state, size);
  n_whole = n_said = 0;
  do {
    busq_order_effects rest = {.items = &whole[n_whole], .max = EFFECTS_MAX - n_whole};
    result = examined->step(played, &event, &rest);
    n_whole += rest.n;
    is_cut = rest.is_cut;
    event.kind = BUSQ_ON_MORE;
  } while (is_cut);
  return result;
}

/* In large pieces it comes to the same effects and the same state; a refusal changes nothing and has no effects. */
static int examined_step(void *state, const busq_order_event *event, busq_order_effects *effects)
{
  const size_t size = busq_order_state_size(examined, state);
  if (event->kind != BUSQ_ON_MORE && play_in_large_pieces(state, size, *event) != BUSQ_OK) {
    CHECK_EQUAL(n_whole, 0);
    memcpy(played, state, size);
  }
  const int result = examined->step(state, event, effects);
  for (uint32_t place = 0; place < effects->n; place++)
    CHECK(n_said < n_whole && are_equal(&effects->items[place], &whole[n_said++]));
  if (!effects->is_cut)
    CHECK(n_said == n_whole && memcmp(state, played, size) == 0);
  n_pieces += effects->is_cut;
  n_refusals += result != BUSQ_OK;
  return result;
}

TEST(test_a_step_says_the_same_in_large_pieces_and_in_small_ones)
{
  for (const busq_order *const *order = busq_orders; *order; order++)
    for (uint64_t play_number = 0; play_number < check_share(200); play_number++) {
      busq_order watched = **order;
      watched.step = examined_step;
      examined = *order;
      busq_stage_free(play(&watched, test_seed + play_number, 4, 1 + (uint32_t)(play_number % 4)));
    }
  CHECK(check_share(200) < 200 || (n_pieces > 0 && n_refusals > 0));
  free(played);
}

TEST(test_verify_notices_what_is_not_zero_behind_the_buffers_and_who_is_not_in_the_group)
{
  for (const busq_order *const *order = busq_orders; *order; order++) {
    busq_stage *stage = new_stage((*order)->name, 3, 4, 4);
    char *const state = stage->processes[1].state;
    busq_order_group *const group = (busq_order_group *)state;
    const size_t size = busq_order_state_size(*order, group);
    CHECK(busq_order_verify(*order, state));
    if ((*order)->buffers[0].kind && !(*order)->buffers[0].to_go_on) {
      state[size - 1] = 1;
      CHECK(!busq_order_verify(*order, state));
      state[size - 1] = 0;
    }
    group->self = group->n_processes;
    CHECK(!busq_order_verify(*order, state));
    busq_stage_free(stage);
  }
}

/* The last acknowledgement lets twelve others send: more effects than the buffer of a step holds. */
TEST(test_a_step_with_many_effects_goes_on_until_all_are_said)
{
  busq_stage *stage = new_stage("cykas", 14, 64, 64);
  uint64_t name, count;
  for (uint32_t to = 1; to < 14; to++)
    CHECK_EQUAL(busq_stage_submit(stage, 0, &to, 1, &name), BUSQ_OK);
  for (uint32_t packet = 1; packet < 13; packet++)
    CHECK_EQUAL(busq_stage_receive(stage, packet), BUSQ_OK);
  for (uint32_t packet = 13; packet < 25; packet++)
    CHECK_EQUAL(busq_stage_receive(stage, packet), BUSQ_OK);
  CHECK_EQUAL(facts_of(stage).n_packets, 1);
  CHECK_EQUAL(busq_stage_receive(stage, 0), BUSQ_OK);
  CHECK_EQUAL(busq_stage_receive(stage, 25), BUSQ_OK);
  CHECK_EQUAL(facts_of(stage).n_packets, 12);
  for (uint32_t place = 0; place < 12; place++)
    CHECK_TEXT(busq_stage_kind_name(stage, busq_stage_packets(stage)[place].what), "yct");
  CHECK_EQUAL(busq_stage_run(stage, 1, 1000, 0, &count), BUSQ_OK);
  CHECK_EQUAL(count, 12);
  busq_stage_free(stage);
}

/* ---- orders that cheat ---- */

static int (*honest)(void *state, const busq_order_event *event, busq_order_effects *effects);

static int delivers_what_did_not_come(void *state, const busq_order_event *event, busq_order_effects *effects)
{
  if (event->kind == BUSQ_ON_SUBMIT)
    busq_do_deliver(effects, busq_message_name(1, 1));
  return honest(state, event, effects);
}

static int delivers_twice(void *state, const busq_order_event *event, busq_order_effects *effects)
{
  if (event->kind == BUSQ_ON_RECEIVE)
    busq_do_deliver(effects, event->packet.message);
  return honest(state, event, effects);
}

static int is_done_twice(void *state, const busq_order_event *event, busq_order_effects *effects)
{
  const int result = honest(state, event, effects);
  if (event->kind == BUSQ_ON_SUBMIT)
    busq_do_done(effects, event->packet.message);
  return result;
}

static int passes_on_what_it_delivered(void *state, const busq_order_event *event, busq_order_effects *effects)
{
  const int result = honest(state, event, effects);
  if (event->kind == BUSQ_ON_RECEIVE)
    busq_do_send(effects, 2, event->packet);
  if (event->kind == BUSQ_ON_MORE)
    busq_do_send(effects, 2, (busq_order_packet){.message = busq_message_name(0, 1)});
  effects->is_cut = event->kind == BUSQ_ON_RECEIVE;
  return result;
}

static int sends_to_itself(void *state, const busq_order_event *event, busq_order_effects *effects)
{
  busq_do_send(effects, ((busq_order_group *)state)->self, event->packet);
  return BUSQ_OK;
}

static int sends_what_has_no_name(void *state, const busq_order_event *event, busq_order_effects *effects)
{
  (void)state;
  (void)event;
  busq_do_send(effects, 1, (busq_order_packet){.kind = 77});
  return BUSQ_OK;
}

static int asks_for_a_clock_too_late(void *state, const busq_order_event *event, busq_order_effects *effects)
{
  if (event->kind == BUSQ_ON_RECEIVE)
    (void)event->world->vector(event->world, busq_message_name(0, 7));
  return honest(state, event, effects);
}

static int refuses(void *state, const busq_order_event *event, busq_order_effects *effects)
{
  return event->kind == BUSQ_ON_RECEIVE ? BUSQ_CORRUPT : honest(state, event, effects);
}

static int does_what_nobody_knows(void *state, const busq_order_event *event, busq_order_effects *effects)
{
  busq_effects_add(effects, 99, event->packet.message);
  return honest(state, event, effects);
}

static int spoils_its_state(void *state, const busq_order_event *event, busq_order_effects *effects)
{
  ((busq_order_group *)state)->self = UINT32_MAX;
  return honest(state, event, effects);
}

static void check_cheat(int (*step)(void *, const busq_order_event *, busq_order_effects *), const char *word)
{
  static busq_order cheat;
  cheat = busq_order_none;
  honest = cheat.step;
  cheat.step = step;
  busq_stage *stage = new_stage("none", 3, 4, 4);
  stage->order = &cheat;
  uint64_t name;
  const uint32_t to = 1;
  int result = busq_stage_submit(stage, 0, &to, 1, &name);
  if (result == BUSQ_OK)
    result = busq_stage_receive(stage, 0);
  CHECK_EQUAL(result, BUSQ_CORRUPT);
  if (!strstr(busq_error_text(), word) || !strstr(busq_error_text(), "order none breaks the rules"))
    check_fail(__FILE__, __LINE__, "the text is '%s', expected '%s' in it", busq_error_text(), word);
  CHECK_EQUAL(busq_stage_submit(stage, 0, &to, 1, &name), BUSQ_CORRUPT);
  CHECK(strstr(busq_error_text(), "before"));
  busq_stage_free(stage);
}

TEST(test_an_order_that_cheats_is_found_out)
{
  check_cheat(delivers_what_did_not_come, "delivers or drops message 100000001");
  check_cheat(delivers_twice, "delivers or drops message 1");
  check_cheat(is_done_twice, "is done with message 1");
  check_cheat(passes_on_what_it_delivered, "sends the payload of message 1");
  check_cheat(sends_to_itself, "sends a packet to process 0");
  check_cheat(sends_what_has_no_name, "of kind 77");
  check_cheat(asks_for_a_clock_too_late, "asks for the clock of message 7");
  check_cheat(refuses, "refuses an event");
  check_cheat(does_what_nobody_knows, "effect 99");
  check_cheat(spoils_its_state, "does not verify");
}

TEST(test_a_process_whose_state_is_not_sound_may_go_on)
{
  static busq_order cheat;
  cheat = busq_order_none;
  honest = cheat.step;
  cheat.step = spoils_its_state;
  for (uint32_t bears = 0; bears < 2; bears++) {
    const busq_stage_config config = {.processes = 2, .waiting_max = 4, .held_max = 4, .bears_unsound = bears};
    busq_stage *stage = NULL;
    CHECK_EQUAL(busq_stage_new("none", &config, &stage), BUSQ_OK);
    stage->order = &cheat;
    uint64_t name;
    const uint32_t to = 1;
    CHECK_EQUAL(busq_stage_submit(stage, 0, &to, 1, &name), bears ? BUSQ_OK : BUSQ_CORRUPT);
    busq_stage_free(stage);
  }
}
