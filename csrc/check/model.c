/* SPDX-License-Identifier: Apache-2.0 */
#include "check/model.h"
#include "base/error.h"
#include "check/crashes.h"
#include "check/faults.h"
#include "check/fingerprint.h"
#include "check/forget.h"
#include "check/logs.h"

enum { EFFECTS = 64 };

/* ---- making one ---- */

static int check_size(const busq_model_config *config)
{
  if (config->n_processes < 1 || config->n_processes > BUSQ_MODEL_PROCESSES_MAX)
    return busq_error(BUSQ_INVALID, "%u processes: a model has 1 to %u", config->n_processes, BUSQ_MODEL_PROCESSES_MAX);
  if (config->n_messages < 1 || config->n_messages > BUSQ_MODEL_MESSAGES_MAX / config->n_processes)
    return busq_error(BUSQ_INVALID,
                      "%u messages of each of %u processes: a model has at least 1 of each, and at most %u of all",
                      config->n_messages, config->n_processes, BUSQ_MODEL_MESSAGES_MAX);
  if (config->behaviour == BUSQ_CHECK_REPLY && config->n_messages > BUSQ_MODEL_ANSWERS_MAX + 1)
    return busq_error(BUSQ_INVALID, "%u messages of each process: with replies at most %d", config->n_messages,
                      BUSQ_MODEL_ANSWERS_MAX + 1);
  if (config->doubled_max > BUSQ_MODEL_ACCIDENTS_MAX || config->lost_max > BUSQ_MODEL_ACCIDENTS_MAX)
    return busq_error(BUSQ_INVALID, "%u packets doubled and %u lost: at most %u of each", config->doubled_max,
                      config->lost_max, BUSQ_MODEL_ACCIDENTS_MAX);
  if (config->crashes_max && config->n_processes > BUSQ_MODEL_MORTALS_MAX)
    return busq_error(BUSQ_INVALID, "%u processes of which some die: a model has at most %u then", config->n_processes,
                      BUSQ_MODEL_MORTALS_MAX);
  return BUSQ_OK;
}

static int check_counts(const busq_model_config *config)
{
  for (uint32_t process = 0; config->counts && process < config->n_processes; process++)
    if (config->counts[process] > config->n_messages)
      return busq_error(BUSQ_INVALID, "%u messages of process %u: expected at most %u", config->counts[process], process,
                        config->n_messages);
  return BUSQ_OK;
}

static int check_destinations(const busq_model_config *config)
{
  const uint32_t everybody = (1u << config->n_processes) - 1;
  for (uint32_t index = 0; config->destinations && index < config->n_processes * config->n_messages; index++) {
    const uint32_t others = config->with_self ? everybody : everybody & ~(1u << index / config->n_messages);
    const uint32_t set = config->destinations[index];
    if (config->counts && index % config->n_messages >= config->counts[index / config->n_messages])
      continue;
    if (!set || set & ~others || (uint32_t)__builtin_popcount(set) > config->fan_out_max)
      return busq_error(BUSQ_INVALID, "destinations 0x%x of message %u of process %u: expected 1 to %u processes%s",
                        set, index % config->n_messages + 1, index / config->n_messages, config->fan_out_max,
                        config->with_self ? "" : " other than itself");
  }
  return BUSQ_OK;
}

static void lay_out(busq_model *model)
{
  const busq_model_config *config = &model->config;
  const uint32_t n = config->n_processes;
  const busq_order_group group = busq_model_group_of(model, 0);
  model->order_bytes = BUSQ_ALIGN_UP(busq_order_state_size(config->order, &group), 8);
  const uint32_t logged = (model->logs_deliveries ? model->n_all : 0) + (model->logs_sends ? config->n_messages : 0);
  model->log_bytes = BUSQ_ALIGN_UP(logged, 8);
  model->processes_at = sizeof(busq_model_head) + n * sizeof(uint64_t);
  model->messages_at = model->processes_at + n * sizeof(busq_model_process);
  model->logs_at = model->messages_at + model->n_all * sizeof(busq_model_message);
  model->clocks_at = model->logs_at + n * model->log_bytes;
  model->sides_at = BUSQ_ALIGN_UP(model->clocks_at + (size_t)model->n_all * model->clock_words * sizeof(uint32_t), 8);
  const uint32_t n_sides = config->behaviour == BUSQ_CHECK_INFORMED ? model->n_all + n : 0;
  model->orders_at = model->sides_at + n_sides * BUSQ_MODEL_PROCESSES_MAX;
  model->packets_at = model->orders_at + n * model->order_bytes;
  model->state_bytes_max = model->packets_at + BUSQ_MODEL_PACKETS_MAX * sizeof(busq_order_packet);
}

int busq_model_init(busq_model *model, const busq_model_config *config)
{
  *model = (busq_model){.config = *config};
  int result = check_size(config);
  if (result == BUSQ_OK)
    result = check_counts(config);
  if (result == BUSQ_OK)
    result = check_destinations(config);
  if (result != BUSQ_OK)
    return result;
  const busq_order *order = config->order;
  const uint32_t n = config->n_processes;
  model->n_all = n * config->n_messages;
  model->clock_words = (uint32_t)busq_clock_words(order->clock, n);
  model->is_fifo = busq_channels_keep_order(order, config->options, config->channels);
  model->watched = busq_model_watched(order->claims, config->asked, config->options);
  model->logs_sends = model->watched & BUSQ_MODEL_OF_SENDS;
  model->logs_deliveries = model->watched;
  lay_out(model);
  if (model->order_bytes > BUSQ_MODEL_ORDER_BYTES_MAX)
    return busq_error(BUSQ_INVALID,
                      "a process of %s has %zu bytes of state: a model has room for %u; take fewer messages or processes",
                      order->name, model->order_bytes, BUSQ_MODEL_ORDER_BYTES_MAX);
  return BUSQ_OK;
}

void busq_model_start(const busq_model *model, void *state)
{
  memset(state, 0, model->state_bytes_max);
  for (uint32_t self = 0; self < model->config.n_processes; self++) {
    const busq_order_group group = busq_model_group_of(model, self);
    busq_order_init(model->config.order, busq_model_order_of(model, state, self), &group);
    busq_model_print_process(model, state, self);
  }
}

/* ---- what can happen ---- */

static bool is_working(const void *state, uint32_t process)
{
  return process == 0 && busq_model_head_of(state)->job == BUSQ_MODEL_JOB_RUNS;
}

static bool has_messages_left(const busq_model *model, const void *state, uint32_t process)
{
  return busq_model_process_of(model, state, process)->n_submitted < busq_model_n_messages(model, process);
}

/* A rendezvous takes one message at a time. */
static bool is_free(const busq_model *model, const void *state, uint32_t process)
{
  const uint32_t n_submitted = busq_model_process_of(model, state, process)->n_submitted;
  return !(model->config.order->traits & BUSQ_ORDER_RENDEZVOUS) || !n_submitted ||
         busq_model_message_at(model, state, process * model->config.n_messages + n_submitted - 1)->is_done;
}

static bool may_be_sent_to(const busq_model *model, const void *state, uint32_t process, uint32_t set)
{
  const busq_model_process *self = busq_model_process_of(model, state, process);
  const bool is_strange = set & 1u << process && !model->config.with_self;
  if (is_strange || (uint32_t)__builtin_popcount(set) > model->config.fan_out_max)
    return false;
  if (model->config.behaviour == BUSQ_CHECK_REPLY && self->n_submitted)
    return set == 1u << self->senders[self->n_submitted - 1];
  const uint32_t *given = model->config.destinations;
  return !given || set == given[process * model->config.n_messages + self->n_submitted];
}

static uint32_t add_submits(const busq_model *model, const void *state, uint32_t process, busq_model_move *moves)
{
  const busq_model_process *self = busq_model_process_of(model, state, process);
  const bool waits_for_query = model->config.behaviour == BUSQ_CHECK_REPLY && self->n_submitted > self->n_delivered;
  if (!has_messages_left(model, state, process) || !is_free(model, state, process) || waits_for_query)
    return 0;
  uint32_t n_moves = 0;
  for (uint32_t set = 1; set < 1u << model->config.n_processes; set++)
    if (may_be_sent_to(model, state, process, set))
      moves[n_moves++] = (busq_model_move){.kind = BUSQ_CHECK_SUBMIT, .process = process, .destinations = set};
  return n_moves;
}

/* Whether it is the same as an earlier packet, or stands behind one in its channel. */
static bool is_shadowed(const busq_model *model, const busq_order_packet *packets, uint32_t place)
{
  const busq_order_packet *packet = &packets[place];
  for (uint32_t before = 0; before < place; before++) {
    const bool is_same_channel = packets[before].from == packet->from && packets[before].unused == packet->unused;
    if (is_same_channel && (model->is_fifo || memcmp(&packets[before], packet, sizeof *packet) == 0))
      return true;
  }
  return false;
}

/* The network loses or doubles the oldest of a channel only, where that keeps the order: what happens to the others can happen to
 * them when they are the oldest. */
static uint32_t add_packets(const busq_model *model, const void *state, busq_model_move *moves)
{
  const busq_model_head *head = busq_model_head_of(state);
  const busq_order_packet *packets = busq_model_packets_of(model, state);
  uint32_t n_moves = 0;
  for (uint32_t place = 0; place < head->n_packets; place++) {
    if (is_shadowed(model, packets, place))
      continue;
    const busq_model_move move = {.process = packets[place].unused, .place = place};
    for (uint32_t kind = BUSQ_CHECK_RECEIVE; kind <= BUSQ_CHECK_DOUBLE; kind++) {
      const bool is_possible = kind == BUSQ_CHECK_RECEIVE  ? !is_working(state, move.process)
                               : kind == BUSQ_CHECK_LOSE   ? head->n_lost < model->config.lost_max
                               : kind == BUSQ_CHECK_DOUBLE ? head->n_doubled < model->config.doubled_max
                                                           : false;
      moves[n_moves] = move;
      moves[n_moves].kind = kind;
      n_moves += is_possible;
    }
  }
  return n_moves;
}

static uint32_t add_end_of_job(const busq_model *model, const void *state, busq_model_move *moves)
{
  const bool has_answer = has_messages_left(model, state, 0) && is_free(model, state, 0);
  if (!is_working(state, 0))
    return 0;
  const uint32_t set = has_answer ? 1u << busq_model_head_of(state)->job_sender : 0;
  moves[0] = (busq_model_move){.kind = BUSQ_CHECK_END_JOB, .destinations = set};
  return 1;
}

/* ---- what happens ---- */

/* A step that is being made. */
typedef struct {
  const busq_model *model;
  void *state;
  uint32_t process;
  uint32_t units;  /* left to its process (check/crashes.h); at 0 the next one is its death */
  uint32_t first;  /* of the receivers of a multicast */
  uint64_t inside; /* after which units a multicast is under way, a set of bits */
  bool ignores;    /* the packet that has come */
  busq_check_transition *transition;
} model_step;

static int spend(model_step *step)
{
  return step->units-- ? BUSQ_OK : BUSQ_PEER_DEAD;
}

static bool add_packet(const busq_model *model, void *state, busq_order_packet packet, uint32_t from, uint32_t to)
{
  busq_model_head *head = busq_model_head_of(state);
  if (head->n_packets == BUSQ_MODEL_PACKETS_MAX)
    return false;
  packet.from = from;
  packet.unused = to;
  busq_model_packets_of(model, state)[head->n_packets++] = packet;
  busq_model_print_added(model, state);
  if (packet.message)
    busq_model_note_packet(model, state, &packet, to);
  return true;
}

static busq_order_packet take_packet(const busq_model *model, void *state, uint32_t place)
{
  busq_model_head *head = busq_model_head_of(state);
  busq_order_packet *at = busq_model_packets_of(model, state) + place;
  const busq_order_packet packet = *at;
  busq_model_print_removed(model, state, place);
  memmove(at, at + 1, (--head->n_packets - place) * sizeof *at);
  return packet;
}

static int send_to(model_step *step, const busq_order_packet *packet, uint32_t to)
{
  if (busq_model_is_dead(step->model, step->state, to))
    return BUSQ_OK;
  const int result = spend(step);
  if (result != BUSQ_OK)
    return result;
  return add_packet(step->model, step->state, *packet, step->process, to) ? BUSQ_OK : BUSQ_NO_SPACE;
}

static int send(model_step *step, const busq_order_effect *effect)
{
  const busq_model *model = step->model;
  if (effect->to < model->config.n_processes)
    return send_to(step, &effect->packet, effect->to);
  uint32_t set = (1u << model->config.n_processes) - 1;
  if (effect->to == BUSQ_TO_DESTINATIONS)
    set = busq_model_message_at(model, step->state, busq_model_index_of(model, effect->packet.message))->destinations;
  else if (effect->to == BUSQ_TO_REST)
    set &= ~(1u << busq_message_origin(effect->packet.message));
  const uint32_t n = model->config.n_processes, begin = UINT32_MAX - step->units;
  int result = BUSQ_OK;
  for (uint32_t place = 0; place < n && result == BUSQ_OK; place++) {
    const uint32_t to = (step->first + place) % n;
    if (set & 1u << to && to != step->process)
      result = send_to(step, &effect->packet, to);
  }
  for (uint32_t after = begin + 1; after < UINT32_MAX - step->units && after <= BUSQ_MODEL_UNITS_MAX; after++)
    step->inside |= UINT64_C(1) << after;
  return result;
}

static void deliver(const busq_model *model, void *state, uint32_t process, uint64_t message)
{
  busq_model_head *head = busq_model_head_of(state);
  busq_model_note_delivery(model, state, process, message);
  if (model->config.behaviour == BUSQ_CHECK_JOB && process == 0 && head->job == BUSQ_MODEL_NO_JOB) {
    head->job = BUSQ_MODEL_JOB_RUNS;
    head->job_sender = (uint8_t)busq_message_origin(message);
  }
}

/* Whether an effect speaks of a message that there is, and of a process or kind; a message is sent once. */
static bool is_sensible(const busq_model *model, const void *state, const busq_order_effect *effect)
{
  const uint64_t message = effect->packet.message;
  const bool is_send = effect->kind == BUSQ_DO_SEND;
  if (is_send && (effect->packet.kind >= model->config.order->n_kinds ||
                  (effect->to >= model->config.n_processes && effect->to < BUSQ_TO_REST)))
    return false;
  if (effect->kind == BUSQ_DO_ALARM || effect->kind == BUSQ_DO_IGNORE ||
      (is_send && !message && effect->to != BUSQ_TO_DESTINATIONS && effect->to != BUSQ_TO_REST))
    return true;
  const uint32_t origin = busq_message_origin(message), number = busq_message_number(message);
  if (origin >= model->config.n_processes || !number ||
      number > busq_model_process_of(model, state, origin)->n_submitted)
    return false;
  return effect->kind != BUSQ_DO_SENT || !busq_model_message_at(model, state, busq_model_index_of(model, message))->stamp;
}

static int perform(model_step *step, const busq_order_effect *effect)
{
  const busq_model *model = step->model;
  void *state = step->state;
  const uint64_t message = effect->packet.message;
  if (!is_sensible(model, state, effect)) {
    busq_model_head_of(state)->faults |= 1u << BUSQ_CHECK_REFUSED;
    return BUSQ_OK;
  }
  const bool is_unit = effect->kind == BUSQ_DO_SENT || effect->kind == BUSQ_DO_DELIVER;
  if (is_unit && spend(step) != BUSQ_OK)
    return BUSQ_PEER_DEAD;
  switch (effect->kind) {
  case BUSQ_DO_SEND:
    return send(step, effect);
  case BUSQ_DO_SENT:
    if (effect->clock)
      memcpy(busq_model_clock_of(model, state, busq_model_index_of(model, message)), effect->clock,
             busq_clock_used(model->config.order->clock, model->config.n_processes, effect->clock) * sizeof(uint32_t));
    busq_model_note_sent(model, state, message, effect->packet.note);
    return BUSQ_OK;
  case BUSQ_DO_DELIVER:
    busq_model_note_fate(model, state, step->process, message, effect->packet.note);
    deliver(model, state, step->process, message);
    return BUSQ_OK;
  case BUSQ_DO_DONE:
    busq_model_note_done(model, state, message);
    return BUSQ_OK;
  case BUSQ_DO_DROP:
    busq_model_note_dropped(model, state, step->process, message);
    return BUSQ_OK;
  case BUSQ_DO_ALARM:
    busq_model_process_of(model, state, step->process)->n_alarms++;
    return BUSQ_OK;
  case BUSQ_DO_IGNORE:
    step->ignores = true;
    return BUSQ_OK;
  default:
    return BUSQ_OK;
  }
}

static void note_effect(busq_check_transition *transition, const busq_order_effect *effect)
{
  uint32_t *count = effect->kind == BUSQ_DO_SENT      ? &transition->n_sent
                    : effect->kind == BUSQ_DO_DELIVER ? &transition->n_delivered
                    : effect->kind == BUSQ_DO_DONE    ? &transition->n_done
                    : effect->kind == BUSQ_DO_DROP    ? &transition->n_dropped
                                                      : NULL;
  if (effect->kind == BUSQ_DO_SEND && effect->packet.kind < 32)
    transition->sends |= 1u << effect->packet.kind;
  if (count && *count < 2)
    ++*count;
}

/* ---- what the order may ask ---- */

typedef struct {
  busq_order_world world;
  const busq_model *model;
  const void *state;
} model_world;

static const uint32_t *vector_of(const busq_order_world *world, uint64_t name)
{
  const model_world *self = (const model_world *)world;
  return busq_model_clock_of(self->model, self->state, busq_model_index_of(self->model, name));
}

static const uint32_t *row_of(const busq_order_world *world, uint64_t name, uint32_t row)
{
  return vector_of(world, name) + (row + 1) * ((const model_world *)world)->model->config.n_processes;
}

/* ---- steps ---- */

/* An order may refuse a doubled packet; any other refusal is a fault. */
static void note_refusal(void *state, int result)
{
  if (result == BUSQ_FULL)
    busq_model_head_of(state)->faults |= 1u << BUSQ_CHECK_BUFFERS;
  else if (!busq_model_head_of(state)->n_doubled)
    busq_model_head_of(state)->faults |= 1u << BUSQ_CHECK_REFUSED;
}

static int perform_noted(void *driver, busq_order_effect *effect)
{
  model_step *step = driver;
  note_effect(step->transition, effect);
  return perform(step, effect);
}

static int run_step(model_step *step, busq_order_event *event)
{
  static const busq_order_hands hands = {.perform = perform_noted};
  const busq_model *model = step->model;
  const busq_order *order = model->config.order;
  void *state = step->state;
  const model_world world = {{vector_of, row_of}, model, state};
  busq_order_effect items[EFFECTS];
  busq_order_effects effects = {.items = items, .max = EFFECTS};
  event->world = &world.world;
  const int result =
      busq_order_run(order, busq_model_order_of(model, state, step->process), event, &effects, &hands, step);
  if (result == BUSQ_NO_SPACE)
    return result;
  if (result == BUSQ_PEER_DEAD)
    return BUSQ_OK; /* with its state */
  if (result != BUSQ_OK) {
    note_refusal(state, result);
    step->transition->is_refused = 1;
  }
  busq_model_print_process(model, state, step->process);
  if (!busq_order_verify(order, busq_model_order_of(model, state, step->process)) && !model->config.doubled_max)
    busq_model_head_of(state)->faults |= 1u << BUSQ_CHECK_INVARIANT;
  return BUSQ_OK;
}

static int submit(model_step *step, const busq_model_move *move)
{
  const busq_model *model = step->model;
  void *state = step->state;
  busq_model_process *self = busq_model_process_of(model, state, move->process);
  const uint64_t name = busq_message_name(move->process, ++self->n_submitted);
  busq_model_message *message = busq_model_message_at(model, state, busq_model_index_of(model, name));
  const uint32_t me = 1u << move->process;
  message->destinations = (uint8_t)move->destinations;
  busq_model_note_submitted(model, state, name);
  uint32_t others[BUSQ_MODEL_PROCESSES_MAX];
  uint32_t n_others = 0;
  for (uint32_t rest = move->destinations & ~me; rest; rest &= rest - 1)
    others[n_others++] = (uint32_t)__builtin_ctz(rest);
  busq_order_event event = {.kind = BUSQ_ON_SUBMIT,
                            .to = n_others ? others[0] : move->process,
                            .n_others = n_others,
                            .others = others,
                            .is_for_me = move->destinations & me,
                            .packet = {.message = name}};
  return run_step(step, &event);
}

static int receive(model_step *step, const busq_model_move *move)
{
  const busq_model *model = step->model;
  void *state = step->state;
  busq_order_event event = {.kind = BUSQ_ON_RECEIVE, .packet = take_packet(model, state, move->place)};
  const uint64_t name = event.packet.message;
  const bool has_payload = name && model->config.order->kinds[event.packet.kind].has_payload;
  event.packet.unused = 0;
  step->transition->what = event.packet.kind;
  if (name)
    event.is_for_me =
        busq_model_message_at(model, state, busq_model_index_of(model, name))->destinations & 1u << move->process;
  const bool was_kept =
      has_payload &&
      busq_model_message_at(model, state, busq_model_index_of(model, name))->kept >> move->process & 1;
  if (has_payload)
    busq_model_note_payload(model, state, move->process, name, true);
  const int result = run_step(step, &event);
  if (has_payload)
    busq_model_note_payload(model, state, move->process, name, false);
  if (step->ignores && has_payload && !was_kept)
    busq_model_message_at(model, state, busq_model_index_of(model, name))->kept &= (uint8_t)~(1u << move->process);
  return result;
}

static int tick(model_step *step, const busq_model_move *move)
{
  busq_order_event event = {.kind = BUSQ_ON_TICK};
  busq_model_process_of(step->model, step->state, move->process)->n_alarms--;
  return run_step(step, &event);
}

/* The copy comes behind everything that was sent before. */
static int double_packet(const busq_model *model, void *state, const busq_model_move *move)
{
  busq_model_head_of(state)->n_doubled++;
  const busq_order_packet packet = busq_model_packets_of(model, state)[move->place];
  return add_packet(model, state, packet, packet.from, packet.unused) ? BUSQ_OK : BUSQ_NO_SPACE;
}

static int learn(model_step *step, const busq_model_move *move)
{
  busq_order_event event = {.kind = BUSQ_ON_SUSPECT, .packet = {.from = move->place}};
  return run_step(step, &event);
}

static int make(model_step *step, const busq_model_move *move)
{
  const busq_model *model = step->model;
  void *state = step->state;
  switch (move->kind) {
  case BUSQ_CHECK_SUBMIT:
    return submit(step, move);
  case BUSQ_CHECK_RECEIVE:
    return receive(step, move);
  case BUSQ_CHECK_TICK:
    return tick(step, move);
  case BUSQ_CHECK_LOSE:
    (void)take_packet(model, state, move->place);
    busq_model_head_of(state)->n_lost++;
    return BUSQ_OK;
  case BUSQ_CHECK_DOUBLE:
    return double_packet(model, state, move);
  case BUSQ_CHECK_CRASH:
    busq_model_crash(model, state, move->process);
    return BUSQ_OK;
  case BUSQ_CHECK_LEARN:
    return learn(step, move);
  case BUSQ_MODEL_NO_ROOM:
    return BUSQ_NO_SPACE;
  default:
    busq_model_head_of(state)->job = BUSQ_MODEL_JOB_IS_OVER;
    return move->destinations ? submit(step, move) : BUSQ_OK;
  }
}

/* Whether it brings nothing about but the next packet, or alarm. */
static bool is_turn(const busq_check_transition *transition)
{
  const bool is_progress = transition->n_sent || transition->n_delivered || transition->n_done;
  return !is_progress && (transition->event == BUSQ_CHECK_TICK || (transition->event == BUSQ_CHECK_RECEIVE && transition->sends));
}

int busq_model_play(const busq_model *model, void *state, const busq_model_move *move, busq_check_transition *transition)
{
  busq_check_transition ignored;
  transition = transition ? transition : &ignored;
  *transition = (busq_check_transition){.event = move->kind};
  model_step step = {
      .model = model,
      .state = state,
      .process = move->process,
      .units = move->cut ? busq_model_units_of(move->cut) : UINT32_MAX,
      .first = busq_model_first_of(move->cut),
      .transition = transition,
  };
  const int result = make(&step, move);
  busq_model_head_of(state)->n_moves += model->config.counts_moves || (model->config.counts_turns && is_turn(transition));
  if (move->cut && result == BUSQ_OK)
    busq_model_crash(model, state, move->process);
  if (model->config.forgets)
    busq_model_forget(model, state);
  return result;
}

/* How many units a process does in this move, among which it may die; *insidep: after which a multicast is under way. */
static uint32_t count_units(const busq_model *model, const void *state, const busq_model_move *move, uint64_t *insidep)
{
  _Alignas(8) char room[model->state_bytes_max];
  busq_check_transition ignored = {0};
  model_step step = {
      .model = model, .state = room, .process = move->process, .units = UINT32_MAX, .transition = &ignored};
  memcpy(room, state, busq_model_bytes(model, state));
  (void)make(&step, move);
  *insidep = step.inside;
  return UINT32_MAX - step.units;
}

/* ---- what can happen, all in all ---- */

/* A move with the death of its process in the middle; where that is in a multicast, for each of its first receivers.
 * Round from the process itself is round from the next one. */
static uint32_t add_cut(const busq_model *model, busq_model_move move, uint32_t n_units, bool is_inside,
                        busq_model_move *moves)
{
  const uint32_t self = move.process;
  uint32_t n_moves = 0;
  for (uint32_t first = 0; first < (is_inside ? model->config.n_processes : 1); first++) {
    move.cut = busq_model_cut(n_units, first);
    moves[n_moves] = move;
    n_moves += first == 0 || first != (self ? self : 1);
  }
  return n_moves;
}

static uint32_t add_cuts(const busq_model *model, const void *state, busq_model_move *moves, uint32_t n_moves)
{
  const uint32_t n_whole = busq_model_may_crash(model, state) ? n_moves : 0;
  for (uint32_t place = 0; place < n_whole; place++) {
    const busq_model_move move = moves[place];
    uint64_t inside = 0;
    const uint32_t n_units = count_units(model, state, &move, &inside);
    if (n_units > BUSQ_MODEL_UNITS_MAX + 1 ||
        n_moves + BUSQ_MODEL_MORTALS_MAX * (n_units + BUSQ_MODEL_MORTALS_MAX) >= BUSQ_MODEL_MOVES_MAX) {
      moves[n_moves++] = (busq_model_move){.kind = BUSQ_MODEL_NO_ROOM};
      return n_moves;
    }
    for (uint32_t after = 1; after < n_units; after++)
      n_moves += add_cut(model, move, after, inside >> after & 1, moves + n_moves);
  }
  return n_moves;
}

uint32_t busq_model_moves(const busq_model *model, const void *state, busq_model_move *moves)
{
  uint32_t n_moves = 0;
  for (uint32_t process = 0; process < model->config.n_processes; process++) {
    if (is_working(state, process) || busq_model_is_dead(model, state, process))
      continue;
    n_moves += add_submits(model, state, process, moves + n_moves);
    if (busq_model_process_of(model, state, process)->n_alarms)
      moves[n_moves++] = (busq_model_move){.kind = BUSQ_CHECK_TICK, .process = process};
  }
  n_moves += add_packets(model, state, moves + n_moves);
  n_moves += add_end_of_job(model, state, moves + n_moves);
  if (!model->config.crashes_max)
    return n_moves;
  n_moves += busq_model_add_learning(model, state, moves + n_moves);
  n_moves = add_cuts(model, state, moves, n_moves);
  return n_moves + busq_model_add_deaths(model, state, moves + n_moves);
}

void busq_model_describe(const busq_model *model, const void *state, const busq_model_move *move, busq_check_step *step)
{
  *step = (busq_check_step){.kind = move->kind,
                            .process = move->process,
                            .destinations = move->destinations,
                            .cut = busq_model_units_of(move->cut),
                            .first = busq_model_first_of(move->cut)};
  if (move->kind == BUSQ_CHECK_LEARN) {
    step->from = move->place;
  } else if (busq_model_move_is_of_packet(move)) {
    const busq_order_packet *packet = &busq_model_packets_of(model, state)[move->place];
    step->message = packet->message;
    step->stamp = packet->stamp;
    step->note = packet->note;
    step->from = packet->from;
    step->what = packet->kind;
  } else if (move->destinations) {
    const uint32_t n_submitted = busq_model_process_of(model, state, move->process)->n_submitted;
    step->message = busq_message_name(move->process, n_submitted + 1);
  }
}

/* ---- what need not be tried ----
 *
 * A job comes between: a submit that comes later than it might would stand behind the job's answer, and during the job
 * process 0 can't be asked to receive.  A packet that can get lost has an alternative to its arrival.  A message to its
 * own sender, point to point, does not wait in the buffer, so that other messages may wait while it goes.  An informed process
 * knows more the later it submits.  An order's word about its packets is about a network that it can live with.
 */

/* Whether some messages pass the output buffer. */
static bool may_pass(const busq_model *model)
{
  return model->config.with_self && model->config.order->traits & BUSQ_ORDER_POINT_TO_POINT;
}

bool busq_model_is_waiting(const busq_model *model, const void *state, const busq_model_move *move)
{
  const busq_model_process *self = busq_model_process_of(model, state, move->process);
  return model->config.order->traits & BUSQ_ORDER_OUTPUT_BUFFER && move->kind == BUSQ_CHECK_SUBMIT && !may_pass(model) &&
         model->config.behaviour != BUSQ_CHECK_JOB && model->config.behaviour != BUSQ_CHECK_INFORMED &&
         self->n_sent < self->n_submitted;
}

bool busq_model_is_quiet(const busq_model *model, const void *state, const busq_model_move *move)
{
  const busq_model_config *config = &model->config;
  const busq_order *order = config->order;
  const bool may_vanish = config->lost_max || config->doubled_max;
  const bool lacks_fifo = order->traits & BUSQ_ORDER_FIFO_CHANNELS && !model->is_fifo;
  if (move->kind != BUSQ_CHECK_RECEIVE || config->behaviour == BUSQ_CHECK_JOB || may_vanish || lacks_fifo)
    return false;
  const uint32_t kind = config->options & order->options_never_quiet
                            ? 0
                            : 1u << busq_model_packets_of(model, state)[move->place].kind;
  const busq_model_process *self = busq_model_process_of(model, state, move->process);
  if (self->n_sent == busq_model_n_messages(model, move->process)) {
    const bool is_listed = !(config->options & order->options_not_quiet);
    return kind & (order->quiet_always | (is_listed ? order->quiet_when_all_is_sent : 0));
  }
  const bool has_waiting = order->traits & BUSQ_ORDER_OUTPUT_BUFFER && self->n_sent < self->n_submitted;
  return kind & order->quiet_always && !has_waiting && !may_pass(model);
}

/* Whether the news of a death may come to a process before this packet does. */
static bool may_hear_before(const busq_model *model, const void *state, const busq_order_packet *packet)
{
  const busq_order_group *group = (const busq_order_group *)(const void *)busq_model_order_of(model, state, packet->unused);
  const uint32_t unknown = ~busq_model_living(model, state) & ((1u << model->config.n_processes) - 1) & ~group->suspected;
  return busq_model_may_crash(model, state) || unknown & ~(1u << packet->from);
}

/* A packet of the dead comes before the news of that death. */
busq_model_silence busq_model_may_be_silent(const busq_model *model, const void *state, const busq_model_move *move)
{
  const busq_order *order = model->config.order;
  if (move->kind != BUSQ_CHECK_RECEIVE || move->cut || !(model->config.options & BUSQ_OPTION_GO_ON) || model->logs_sends ||
      model->config.behaviour != BUSQ_CHECK_FREE)
    return BUSQ_MODEL_HEARD;
  const busq_order_packet *packet = &busq_model_packets_of(model, state)[move->place];
  const uint32_t kind = 1u << packet->kind;
  if (kind & order->silent_always || (kind & order->silent_at_last && !may_hear_before(model, state, packet)))
    return BUSQ_MODEL_SILENT;
  return kind & order->idle_stays ? BUSQ_MODEL_IDLE : BUSQ_MODEL_HEARD;
}

/* ---- looking ---- */

uint32_t busq_model_n_packets(const void *state)
{
  return busq_model_head_of(state)->n_packets;
}

uint32_t busq_model_faults(const void *state)
{
  return busq_model_head_of(state)->faults;
}

busq_order_gauge busq_model_gauge(const busq_model *model, const void *state, uint32_t process)
{
  return busq_order_look(model->config.order, busq_model_order_of(model, state, process));
}
