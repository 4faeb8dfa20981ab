/* SPDX-License-Identifier: Apache-2.0 */
#include "check/model.h"
#include <string.h>

enum { EFFECTS = 64 };

/* ---- where things stand in a state; `unused` of a packet in flight is where it goes ---- */

static busq_model_process *process_of(const busq_model *model, const void *state, uint32_t process)
{
  return (busq_model_process *)((char *)state + model->processes_at) + process;
}

static busq_model_message *message_at(const busq_model *model, const void *state, uint32_t index)
{
  return (busq_model_message *)((char *)state + model->messages_at) + index;
}

static uint32_t index_of(const busq_model *model, uint64_t name)
{
  return busq_message_origin(name) * model->config.n_messages + busq_message_number(name) - 1;
}

static uint8_t *log_of(const busq_model *model, const void *state, uint32_t process)
{
  return (uint8_t *)state + model->logs_at + process * model->log_bytes;
}

static uint32_t *clock_of(const busq_model *model, const void *state, uint32_t index)
{
  return (uint32_t *)((char *)state + model->clocks_at) + (size_t)index * model->clock_words;
}

static char *order_of(const busq_model *model, const void *state, uint32_t process)
{
  return (char *)state + model->orders_at + process * model->order_bytes;
}

static busq_order_packet *packets_of(const busq_model *model, const void *state)
{
  return (busq_order_packet *)((char *)state + model->packets_at);
}

/* ---- making one ---- */

static busq_order_group group_of(const busq_model *model, uint32_t self)
{
  return (busq_order_group){.n_processes = model->config.n_processes,
                            .self = self,
                            .waiting_max = model->config.n_messages,
                            .held_max = model->n_all,
                            .options = model->config.options};
}

static bool is_ordered_totally(const busq_model *model)
{
  return model->config.order->claims & (BUSQ_CLAIMS_TOTAL | BUSQ_CLAIMS_CONSISTENT);
}

int busq_model_init(busq_model *model, const busq_model_config *config)
{
  *model = (busq_model){.config = *config};
  const uint32_t n = config->n_processes;
  model->n_all = n * config->n_messages;
  if (n < 1 || n > BUSQ_MODEL_PROCESSES_MAX || model->n_all > BUSQ_MODEL_MESSAGES_MAX)
    return BUSQ_INVALID;
  const busq_order_clock_shape shape = config->order->clock;
  model->clock_words = shape == BUSQ_CLOCK_VECTOR ? n : shape == BUSQ_CLOCK_MATRIX ? n * (n + 1) : 0;
  const busq_order_group group = group_of(model, 0);
  model->order_bytes = BUSQ_ALIGN_UP(config->order->state_size(&group), 8);
  model->log_bytes = is_ordered_totally(model) ? BUSQ_ALIGN_UP(model->n_all, 8) : 0;
  model->processes_at = sizeof(busq_model_head);
  model->messages_at = model->processes_at + n * sizeof(busq_model_process);
  model->logs_at = model->messages_at + model->n_all * sizeof(busq_model_message);
  model->clocks_at = model->logs_at + n * model->log_bytes;
  model->orders_at = BUSQ_ALIGN_UP(model->clocks_at + (size_t)model->n_all * model->clock_words * sizeof(uint32_t), 8);
  model->packets_at = model->orders_at + n * model->order_bytes;
  model->state_bytes_max = model->packets_at + BUSQ_MODEL_PACKETS_MAX * sizeof(busq_order_packet);
  return BUSQ_OK;
}

void busq_model_start(const busq_model *model, void *state)
{
  memset(state, 0, model->state_bytes_max);
  for (uint32_t self = 0; self < model->config.n_processes; self++) {
    const busq_order_group group = group_of(model, self);
    model->config.order->init(order_of(model, state, self), &group);
  }
}

/* ---- what can happen ---- */

static bool may_submit(const busq_model *model, const void *state, uint32_t process)
{
  const busq_model_process *self = process_of(model, state, process);
  if (self->n_submitted == model->config.n_messages)
    return false;
  if (model->config.order->traits & BUSQ_ORDER_RENDEZVOUS)
    return !self->n_submitted ||
           message_at(model, state, process * model->config.n_messages + self->n_submitted - 1)->is_done;
  return true;
}

static uint32_t add_submits(const busq_model *model, uint32_t process, busq_model_move *moves)
{
  uint32_t n_moves = 0;
  for (uint32_t set = 1; set < 1u << model->config.n_processes; set++) {
    const bool is_allowed = !(set & 1u << process) && (uint32_t)__builtin_popcount(set) <= model->config.fan_out_max;
    if (is_allowed)
      moves[n_moves++] = (busq_model_move){.process = process, .destinations = set};
  }
  return n_moves;
}

/* Whether it is the same as an earlier packet, or stands behind one in its channel. */
static bool is_shadowed(const busq_model *model, const busq_order_packet *packets, uint32_t place)
{
  const busq_order_packet *packet = &packets[place];
  for (uint32_t before = 0; before < place; before++) {
    const bool is_same_channel = packets[before].from == packet->from && packets[before].unused == packet->unused;
    if (is_same_channel && (model->config.order->traits & BUSQ_ORDER_FIFO_CHANNELS ||
                            memcmp(&packets[before], packet, sizeof *packet) == 0))
      return true;
  }
  return false;
}

uint32_t busq_model_moves(const busq_model *model, const void *state, busq_model_move *moves)
{
  uint32_t n_moves = 0;
  for (uint32_t process = 0; process < model->config.n_processes; process++)
    if (may_submit(model, state, process))
      n_moves += add_submits(model, process, moves + n_moves);
  const busq_order_packet *packets = packets_of(model, state);
  for (uint32_t place = 0; place < busq_model_head_of(state)->n_packets; place++)
    if (!is_shadowed(model, packets, place))
      moves[n_moves++] = (busq_model_move){.is_receive = 1, .process = packets[place].unused, .place = place};
  return n_moves;
}

/* ---- what happens ---- */

static void note_sent(const busq_model *model, void *state, const busq_order_effect *effect)
{
  const uint32_t origin = busq_message_origin(effect->packet.message);
  const uint32_t index = index_of(model, effect->packet.message);
  busq_model_process *self = process_of(model, state, origin);
  busq_model_message *message = message_at(model, state, index);
  self->n_sent++;
  if (effect->clock)
    memcpy(clock_of(model, state, index), effect->clock, model->clock_words * sizeof(uint32_t));
  message->stamp = ++self->knows[origin];
  memcpy(message->clock, self->knows, sizeof message->clock);
}

static bool has_delivered(const busq_model *model, const void *state, uint32_t process, uint32_t index)
{
  return message_at(model, state, index)->delivered & 1u << process;
}

/* Whether some other process has delivered both, and the other way round. */
static bool is_contradicted(const busq_model *model, const void *state, uint32_t process, uint32_t first, uint32_t second)
{
  for (uint32_t other = 0; other < model->config.n_processes; other++) {
    if (other == process || !has_delivered(model, state, other, first) || !has_delivered(model, state, other, second))
      continue;
    const uint8_t *log = log_of(model, state, other);
    const uint8_t n = process_of(model, state, other)->n_delivered;
    if ((uint8_t *)memchr(log, (int)second, n) < (uint8_t *)memchr(log, (int)first, n))
      return true;
  }
  return false;
}

/* Whether the union of all logs has a cycle. */
static bool has_cycle(const busq_model *model, const void *state)
{
  uint32_t after[BUSQ_MODEL_MESSAGES_MAX] = {0};
  for (uint32_t process = 0; process < model->config.n_processes; process++) {
    const uint8_t *log = log_of(model, state, process);
    for (uint32_t place = 1; place < process_of(model, state, process)->n_delivered; place++)
      after[log[place - 1]] |= 1u << log[place];
  }
  for (uint32_t middle = 0; middle < model->n_all; middle++)
    for (uint32_t first = 0; first < model->n_all; first++)
      if (after[first] & 1u << middle)
        after[first] |= after[middle];
  for (uint32_t index = 0; index < model->n_all; index++)
    if (after[index] & 1u << index)
      return true;
  return false;
}

static uint32_t judge_orders(const busq_model *model, void *state, uint32_t process, uint32_t index)
{
  busq_model_process *self = process_of(model, state, process);
  uint8_t *log = log_of(model, state, process);
  uint32_t faults = 0;
  for (uint32_t place = 0; place < self->n_delivered; place++)
    if (is_contradicted(model, state, process, log[place], index))
      faults |= 1u << BUSQ_PROPERTY_CONSISTENT;
  log[self->n_delivered++] = (uint8_t)index;
  if (has_cycle(model, state))
    faults |= 1u << BUSQ_PROPERTY_TOTAL;
  return faults;
}

/* Whether something that its sender sent later was delivered here before. */
static bool is_overtaken(const busq_model *model, const void *state, uint32_t process, uint32_t index)
{
  const uint32_t first = index - index % model->config.n_messages;
  const uint8_t stamp = message_at(model, state, index)->stamp;
  for (uint32_t other = first; other < first + model->config.n_messages; other++)
    if (has_delivered(model, state, process, other) && message_at(model, state, other)->stamp > stamp)
      return true;
  return false;
}

static void learn(uint8_t *clock, const uint8_t *other)
{
  for (uint32_t process = 0; process < 8; process++)
    clock[process] = clock[process] < other[process] ? other[process] : clock[process];
}

static void note_delivery(const busq_model *model, void *state, uint32_t process, uint64_t name)
{
  const uint32_t index = index_of(model, name);
  const uint32_t me = 1u << process;
  busq_model_message *message = message_at(model, state, index);
  busq_model_process *self = process_of(model, state, process);
  uint32_t faults = 0;
  if (message->delivered & me)
    faults |= 1u << BUSQ_PROPERTY_DUPLICATED;
  if (!(message->destinations & me) || !message->stamp)
    faults |= 1u << BUSQ_PROPERTY_PHANTOM;
  if (is_overtaken(model, state, process, index))
    faults |= 1u << BUSQ_PROPERTY_FIFO;
  if (self->late[busq_message_origin(name)] >= message->stamp)
    faults |= 1u << BUSQ_PROPERTY_CAUSAL;
  message->delivered |= (uint8_t)me;
  learn(self->knows, message->clock);
  learn(self->late, message->clock);
  if (model->log_bytes)
    faults |= judge_orders(model, state, process, index);
  busq_model_head_of(state)->faults |= faults;
}

static bool add_packet(const busq_model *model, void *state, busq_order_packet packet, uint32_t from, uint32_t to)
{
  busq_model_head *head = busq_model_head_of(state);
  if (head->n_packets == BUSQ_MODEL_PACKETS_MAX)
    return false;
  packet.from = from;
  packet.unused = to;
  packets_of(model, state)[head->n_packets++] = packet;
  return true;
}

static bool send(const busq_model *model, void *state, uint32_t from, const busq_order_effect *effect)
{
  if (effect->to < model->config.n_processes)
    return add_packet(model, state, effect->packet, from, effect->to);
  uint32_t set = (1u << model->config.n_processes) - 1;
  if (effect->to == BUSQ_TO_DESTINATIONS)
    set = message_at(model, state, index_of(model, effect->packet.message))->destinations;
  for (uint32_t to = 0; to < model->config.n_processes; to++)
    if (set & 1u << to && to != from && !add_packet(model, state, effect->packet, from, to))
      return false;
  return true;
}

static bool perform(const busq_model *model, void *state, uint32_t process, const busq_order_effect *effect)
{
  switch (effect->kind) {
  case BUSQ_DO_SEND:
    return send(model, state, process, effect);
  case BUSQ_DO_SENT:
    note_sent(model, state, effect);
    return true;
  case BUSQ_DO_DELIVER:
    note_delivery(model, state, process, effect->packet.message);
    return true;
  case BUSQ_DO_DONE:
    message_at(model, state, index_of(model, effect->packet.message))->is_done = 1;
    return true;
  default:
    return true;
  }
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
  return clock_of(self->model, self->state, index_of(self->model, name));
}

static const uint32_t *row_of(const busq_order_world *world, uint64_t name, uint32_t row)
{
  return vector_of(world, name) + (row + 1) * ((const model_world *)world)->model->config.n_processes;
}

static int run_step(const busq_model *model, void *state, uint32_t process, busq_order_event *event)
{
  const model_world world = {{vector_of, row_of}, model, state};
  busq_order_effect items[EFFECTS];
  event->world = &world.world;
  for (;;) {
    busq_order_effects effects = {.items = items, .max = EFFECTS};
    const int result = busq_order_step(model->config.order, order_of(model, state, process), event, &effects);
    if (result != BUSQ_OK)
      return result;
    for (uint32_t place = 0; place < effects.n; place++)
      if (!perform(model, state, process, &items[place]))
        return BUSQ_NO_SPACE;
    if (!effects.is_cut)
      return BUSQ_OK;
    event->kind = BUSQ_ON_MORE;
  }
}

static int submit(const busq_model *model, void *state, const busq_model_move *move)
{
  busq_model_process *self = process_of(model, state, move->process);
  const uint64_t name = busq_message_name(move->process, ++self->n_submitted);
  message_at(model, state, index_of(model, name))->destinations = (uint8_t)move->destinations;
  uint32_t others[BUSQ_MODEL_PROCESSES_MAX];
  uint32_t n_others = 0;
  for (uint32_t other = 0; other < model->config.n_processes; other++)
    if (move->destinations & 1u << other && other != move->process)
      others[n_others++] = other;
  busq_order_event event = {
      .kind = BUSQ_ON_SUBMIT, .to = others[0], .n_others = n_others, .others = others, .packet = {.message = name}};
  return run_step(model, state, move->process, &event);
}

static int receive(const busq_model *model, void *state, const busq_model_move *move)
{
  busq_model_head *head = busq_model_head_of(state);
  busq_order_packet *at = packets_of(model, state) + move->place;
  busq_order_event event = {.kind = BUSQ_ON_RECEIVE, .packet = *at};
  event.packet.unused = 0;
  memmove(at, at + 1, (--head->n_packets - move->place) * sizeof *at);
  if (event.packet.message)
    event.is_for_me =
        message_at(model, state, index_of(model, event.packet.message))->destinations & 1u << move->process;
  return run_step(model, state, move->process, &event);
}

int busq_model_play(const busq_model *model, void *state, const busq_model_move *move)
{
  return move->is_receive ? receive(model, state, move) : submit(model, state, move);
}

/* ---- what need not be tried ---- */

bool busq_model_is_waiting(const busq_model *model, const void *state, const busq_model_move *move)
{
  const busq_model_process *self = process_of(model, state, move->process);
  return model->config.order->traits & BUSQ_ORDER_OUTPUT_BUFFER && !move->is_receive && self->n_sent < self->n_submitted;
}

bool busq_model_is_quiet(const busq_model *model, const void *state, const busq_model_move *move)
{
  if (!move->is_receive)
    return false;
  const busq_order *order = model->config.order;
  const uint32_t kind = 1u << packets_of(model, state)[move->place].kind;
  const bool has_sent_all = process_of(model, state, move->process)->n_sent == model->config.n_messages;
  return kind & order->quiet_always || (kind & order->quiet_when_all_is_sent && has_sent_all);
}

/* ---- judging and comparing ---- */

uint32_t busq_model_judge_end(const busq_model *model, const void *state)
{
  for (uint32_t process = 0; process < model->config.n_processes; process++)
    if (process_of(model, state, process)->n_submitted < model->config.n_messages)
      return 1u << BUSQ_PROPERTY_LOST;
  for (uint32_t index = 0; index < model->n_all; index++) {
    const busq_model_message *message = message_at(model, state, index);
    if (message->delivered != message->destinations || !message->is_done)
      return 1u << BUSQ_PROPERTY_LOST;
  }
  return 0;
}

static inline uint64_t mix(uint64_t x)
{
  x *= UINT64_C(0x9fb21c651e98df25);
  return x ^ x >> 32;
}

/* Four lanes, so that multiplications overlap. */
static uint64_t hash_words(const void *bytes, size_t n_bytes, uint64_t seed)
{
  const uint64_t *words = bytes;
  const size_t n = n_bytes / 8;
  uint64_t lane[4] = {seed, seed ^ 1, seed ^ 2, seed ^ 3};
  size_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (size_t j = 0; j < 4; j++) {
      lane[j] = (lane[j] ^ words[i + j]) * UINT64_C(0x9e3779b97f4a7c15);
      lane[j] ^= lane[j] >> 29;
    }
  for (; i < n; i++)
    lane[0] = mix(lane[0] ^ words[i]);
  return mix(lane[0] + mix(lane[1] + mix(lane[2] + mix(lane[3]))));
}

uint64_t busq_model_fingerprint(const busq_model *model, const void *state)
{
  const char *bytes = state;
  const busq_order_packet *packets = packets_of(model, state);
  const bool is_fifo = model->config.order->traits & BUSQ_ORDER_FIFO_CHANNELS;
  uint64_t sum = busq_model_head_of(state)->faults;
  for (uint32_t place = 0; place < busq_model_head_of(state)->n_packets; place++) {
    uint64_t rank = 0;
    for (uint32_t before = 0; is_fifo && before < place; before++)
      rank += packets[before].from == packets[place].from && packets[before].unused == packets[place].unused;
    sum += hash_words(&packets[place], sizeof packets[place], rank);
  }
  const uint64_t whole = hash_words(bytes + model->processes_at, model->packets_at - model->processes_at, sum);
  return whole ? whole : 1; /* 0 is for tables, where nothing stands */
}
