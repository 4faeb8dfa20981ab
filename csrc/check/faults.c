/* SPDX-License-Identifier: Apache-2.0 */
#include "check/faults.h"
#include "check/logs.h"

/* ---- where the driver has a message ---- */

static bool judges_keeping(const busq_model *model)
{
  return !model->config.lost_max && !model->config.doubled_max;
}

/* At the origin it is kept until it is done, besides. */
static void note_kept(const busq_model *model, void *state, uint32_t process, uint64_t name)
{
  const busq_model_message *message = busq_model_message_at(model, state, busq_model_index_of(model, name));
  const bool is_there = message->kept & 1u << process || (process == busq_message_origin(name) && !message->is_done);
  if (!is_there && judges_keeping(model))
    busq_model_head_of(state)->faults |= 1u << BUSQ_CHECK_KEPT;
}

static void let_go(const busq_model *model, void *state, uint32_t process, uint64_t name)
{
  busq_model_message_at(model, state, busq_model_index_of(model, name))->kept &= (uint8_t)~(1u << process);
}

/* ---- orders ---- */

static void add_to_log(const busq_model *model, void *state, uint32_t process, uint32_t index)
{
  busq_model_log_of(model, state, process)[busq_model_process_of(model, state, process)->n_logged++] = (uint8_t)index;
}

static void learn(uint8_t *clock, const uint8_t *other)
{
  for (uint32_t process = 0; process < 8; process++)
    clock[process] = clock[process] < other[process] ? other[process] : clock[process];
}

static bool is_informed(const busq_model *model)
{
  return model->config.behaviour == BUSQ_CHECK_INFORMED;
}

void busq_model_note_submitted(const busq_model *model, void *state, uint64_t name)
{
  uint8_t *clock = busq_model_side_clock_of(model, state, busq_model_index_of(model, name));
  for (uint32_t process = 0; is_informed(model) && process < model->config.n_processes; process++)
    learn(clock, busq_model_side_late_of(model, state, process));
}

void busq_model_note_sent(const busq_model *model, void *state, uint64_t name, uint32_t part)
{
  const uint32_t origin = busq_message_origin(name);
  const uint32_t index = busq_model_index_of(model, name);
  busq_model_process *self = busq_model_process_of(model, state, origin);
  busq_model_message *message = busq_model_message_at(model, state, index);
  self->n_sent++;
  message->stamp = self->knows[origin] = self->n_sent;
  message->part = (uint8_t)part;
  memcpy(message->clock, self->knows, sizeof message->clock);
  if (is_informed(model))
    learn(busq_model_side_clock_of(model, state, index), message->clock);
  if (model->logs_sends)
    add_to_log(model, state, origin, index | BUSQ_MODEL_SEND);
}

/* Whether something that its sender sent here later was delivered before. */
static bool is_overtaken(const busq_model *model, const void *state, uint32_t process, uint32_t index)
{
  const uint32_t first = index - index % model->config.n_messages;
  const uint8_t stamp = busq_model_message_at(model, state, index)->stamp;
  for (uint32_t index_of_other = first; index_of_other < first + model->config.n_messages; index_of_other++) {
    const busq_model_message *other = busq_model_message_at(model, state, index_of_other);
    if (other->delivered & other->destinations & 1u << process && other->stamp > stamp)
      return true;
  }
  return false;
}

/* Whether something that was submitted by a process that knew of the message was delivered before. */
static bool is_late_for_the_informed(const busq_model *model, void *state, uint32_t process, uint32_t index)
{
  const uint32_t origin = index / model->config.n_messages;
  uint8_t *late = busq_model_side_late_of(model, state, process);
  const bool is_late = late[origin] >= busq_model_message_at(model, state, index)->stamp;
  learn(late, busq_model_side_clock_of(model, state, index));
  return is_late;
}

void busq_model_note_fate(const busq_model *model, void *state, uint32_t process, uint64_t name, uint32_t fate)
{
  busq_model_message *message = busq_model_message_at(model, state, busq_model_index_of(model, name));
  const uint8_t me = (uint8_t)(1u << process);
  if (message->delivered & me)
    return;
  message->passed |= fate == BUSQ_NODE_PASSED ? me : 0;
  message->dead |= fate == BUSQ_NODE_DEAD ? me : 0;
}

void busq_model_note_delivery(const busq_model *model, void *state, uint32_t process, uint64_t name)
{
  const uint32_t index = busq_model_index_of(model, name);
  const uint32_t me = 1u << process;
  busq_model_message *message = busq_model_message_at(model, state, index);
  busq_model_process *self = busq_model_process_of(model, state, process);
  const bool is_first = !(message->delivered & me);
  const bool is_phantom = !(message->destinations & me) || !message->stamp;
  uint32_t faults = 0;
  if (!is_first)
    faults |= 1u << BUSQ_PROPERTY_DUPLICATED;
  if (is_phantom)
    faults |= 1u << BUSQ_PROPERTY_PHANTOM;
  if (is_first && !is_phantom && is_overtaken(model, state, process, index))
    faults |= 1u << BUSQ_PROPERTY_FIFO;
  if (is_first && !is_phantom && self->late[busq_message_origin(name)] >= message->stamp)
    faults |= 1u << BUSQ_PROPERTY_CAUSAL;
  if (is_first && !is_phantom && is_informed(model) && is_late_for_the_informed(model, state, process, index))
    faults |= 1u << BUSQ_CHECK_SIDE;
  message->delivered |= (uint8_t)me;
  self->n_delivered += is_first;
  if (is_first && busq_model_n_senders(model, self) == self->n_delivered)
    self->senders[self->n_delivered - 1] = (uint8_t)busq_message_origin(name);
  learn(self->knows, message->clock);
  learn(self->late, message->clock);
  if (model->logs_deliveries && is_first) {
    add_to_log(model, state, process, index);
    faults |= busq_model_judge_logs(model, state);
  }
  busq_model_head_of(state)->faults |= faults;
  note_kept(model, state, process, name);
  let_go(model, state, process, name);
}

/* ---- the rest of a message's life ---- */

void busq_model_note_dropped(const busq_model *model, void *state, uint32_t process, uint64_t name)
{
  note_kept(model, state, process, name);
  let_go(model, state, process, name);
}

void busq_model_note_done(const busq_model *model, void *state, uint64_t name)
{
  busq_model_message_at(model, state, busq_model_index_of(model, name))->is_done = 1;
}

void busq_model_note_payload(const busq_model *model, void *state, uint32_t process, uint64_t name, bool is_in)
{
  busq_model_message *message = busq_model_message_at(model, state, busq_model_index_of(model, name));
  const bool stays = message->destinations & 1u << process || busq_order_keeps_for_others(model->config.order);
  if (is_in)
    message->kept |= (uint8_t)(1u << process);
  else if (!stays)
    let_go(model, state, process, name);
}

void busq_model_note_packet(const busq_model *model, void *state, const busq_order_packet *packet, uint32_t to)
{
  const uint64_t name = packet->message;
  const uint32_t set = busq_model_message_at(model, state, busq_model_index_of(model, name))->destinations |
                       1u << busq_message_origin(name);
  if (~set & (1u << packet->from | 1u << to))
    busq_model_head_of(state)->faults |= 1u << BUSQ_CHECK_GENUINE;
  if (model->config.order->kinds[packet->kind].has_payload)
    note_kept(model, state, packet->from, name);
}

/* ---- at an end ---- */

/* Something waits, is held back, or must keep silent, and will for ever. */
static bool is_unfinished(const busq_model *model, const void *state)
{
  for (uint32_t process = 0; process < model->config.n_processes; process++) {
    if (busq_model_is_dead(model, state, process))
      continue;
    const busq_order_gauge gauge = busq_order_look(model->config.order, busq_model_order_of(model, state, process));
    if (gauge.waiting || gauge.held || gauge.is_secret)
      return true;
  }
  return false;
}

static uint32_t judge_deaths(const busq_model *model, const busq_model_message *message, uint32_t living)
{
  if (!model->config.crashes_max || !(message->destinations & ~message->delivered & living))
    return 0;
  return (message->delivered & living ? 1u << BUSQ_CHECK_AGREEMENT : 0) |
         (message->delivered ? 1u << BUSQ_CHECK_UNIFORM : 0);
}

uint32_t busq_model_judge_end(const busq_model *model, const void *state)
{
  const uint32_t living = busq_model_living(model, state);
  uint32_t faults = is_unfinished(model, state) ? 1u << BUSQ_CHECK_STUCK : 0;
  for (uint32_t index = 0; index < model->n_all; index++) {
    const busq_model_message *message = busq_model_message_at(model, state, index);
    if (!message->destinations)
      continue; /* never submitted */
    const bool has_sender = living >> index / model->config.n_messages & 1;
    faults |= judge_deaths(model, message, living);
    if (has_sender && message->stamp && message->destinations & ~message->delivered & living)
      faults |= 1u << BUSQ_PROPERTY_LOST;
    if (has_sender && (!message->stamp || !message->is_done))
      faults |= 1u << BUSQ_CHECK_STUCK;
    if (message->kept && judges_keeping(model))
      faults |= 1u << BUSQ_CHECK_KEPT;
  }
  return faults;
}
