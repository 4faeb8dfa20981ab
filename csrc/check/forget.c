/* SPDX-License-Identifier: Apache-2.0 */
#include "check/forget.h"
#include "check/fingerprint.h"

/* By process: of its sends, those that are not over, or those that are to be delivered at one process; sets of bits, by stamp. */
typedef struct {
  uint32_t stamps[BUSQ_MODEL_PROCESSES_MAX];
} open_sends;

static bool is_over(const busq_model_message *message, uint32_t living)
{
  return message->stamp && !(message->destinations & ~message->delivered & living);
}

static uint32_t origin_of(const busq_model *model, uint32_t index)
{
  return index / model->config.n_messages;
}

/* ---- causal pasts ---- */

static open_sends sends_open_at(const busq_model *model, const void *state, uint32_t processes)
{
  open_sends open = {{0}};
  for (uint32_t index = 0; index < model->n_all; index++) {
    const busq_model_message *message = busq_model_message_at(model, state, index);
    if (message->stamp && !is_over(message, processes))
      open.stamps[origin_of(model, index)] |= 1u << message->stamp;
  }
  return open;
}

/* The largest stamp that counts and that the number covers, or 0. */
static uint8_t covered(uint32_t stamps, uint8_t number)
{
  const uint32_t below = stamps & ((2u << number) - 1);
  return below ? (uint8_t)(31 - __builtin_clz(below)) : 0;
}

static void shorten(const busq_model *model, uint8_t *clock, const open_sends *open)
{
  for (uint32_t process = 0; process < model->config.n_processes; process++)
    clock[process] = covered(open->stamps[process], clock[process]);
}

static void forget_pasts(const busq_model *model, void *state, uint32_t living)
{
  const open_sends open = sends_open_at(model, state, living);
  for (uint32_t index = 0; index < model->n_all; index++)
    shorten(model, busq_model_message_at(model, state, index)->clock, &open);
  for (uint32_t process = 0; process < model->config.n_processes; process++) {
    busq_model_process *self = busq_model_process_of(model, state, process);
    const open_sends open_here = sends_open_at(model, state, living & 1u << process);
    shorten(model, self->knows, &open);
    shorten(model, self->late, &open_here);
  }
}

/* ---- messages ---- */

static bool is_on_its_way(const busq_model *model, const void *state, uint32_t index)
{
  const busq_order_packet *packets = busq_model_packets_of(model, state);
  for (uint32_t place = 0; place < busq_model_head_of(state)->n_packets; place++)
    if (packets[place].message && busq_model_index_of(model, packets[place].message) == index &&
        model->config.order->kinds[packets[place].kind].has_payload)
      return true;
  return false;
}

static void forget_message(const busq_model *model, void *state, uint32_t index, uint32_t living)
{
  busq_model_message *message = busq_model_message_at(model, state, index);
  const bool is_of_dead = !(living >> origin_of(model, index) & 1);
  message->is_done |= message->destinations && is_of_dead;
  if (!is_over(message, living))
    return;
  message->delivered |= message->destinations;
  memset(message->clock, 0, sizeof message->clock);
  if (model->clock_words && !message->kept && message->is_done && !is_on_its_way(model, state, index))
    memset(busq_model_clock_of(model, state, index), 0, model->clock_words * sizeof(uint32_t));
}

/* The order forgets what it alone knows how to. */
static void forget_in_order(const busq_model *model, void *state, uint32_t living)
{
  const busq_order *order = model->config.order;
  void *states[BUSQ_MODEL_PROCESSES_MAX];
  uint32_t n_states = 0;
  for (uint32_t rest = living; rest; rest &= rest - 1)
    states[n_states++] = busq_model_order_of(model, state, (uint32_t)__builtin_ctz(rest));
  if (order->rebase && order->rebase(states, n_states, busq_model_packets_of(model, state), busq_model_head_of(state)->n_packets))
    busq_model_print_again(model, state);
  for (uint32_t index = 0; index < model->n_all && order->forget; index++)
    if (busq_model_message_at(model, state, index)->stamp)
      order->forget(busq_message_name(origin_of(model, index), index % model->config.n_messages + 1), busq_model_clock_of(model, state, index), states, n_states);
}

/* ---- logs ---- */

/* Whether the message is first in every log that has it. */
static bool is_first(const busq_model *model, const void *state, uint32_t index)
{
  for (uint32_t process = 0; process < model->config.n_processes; process++) {
    const uint8_t *log = busq_model_log_of(model, state, process);
    for (uint32_t place = 1; place < busq_model_process_of(model, state, process)->n_logged; place++)
      if (log[place] == index)
        return false;
  }
  return true;
}

static void remove_first(const busq_model *model, void *state, uint32_t index)
{
  for (uint32_t process = 0; process < model->config.n_processes; process++) {
    busq_model_process *self = busq_model_process_of(model, state, process);
    uint8_t *log = busq_model_log_of(model, state, process);
    if (!self->n_logged || log[0] != index)
      continue;
    memmove(log, log + 1, --self->n_logged);
    log[self->n_logged] = 0;
  }
}

static bool forget_one_logged(const busq_model *model, void *state, uint32_t living)
{
  for (uint32_t process = 0; process < model->config.n_processes; process++) {
    const uint32_t index = busq_model_log_of(model, state, process)[0];
    if (busq_model_process_of(model, state, process)->n_logged &&
        is_over(busq_model_message_at(model, state, index), living) && is_first(model, state, index)) {
      remove_first(model, state, index);
      return true;
    }
  }
  return false;
}

/* ---- all of it ---- */

void busq_model_forget(const busq_model *model, void *state)
{
  const uint32_t living = busq_model_living(model, state);
  for (uint32_t index = 0; index < model->n_all; index++)
    forget_message(model, state, index, living);
  forget_pasts(model, state, living);
  forget_in_order(model, state, living);
  for (uint32_t process = 0; process < model->config.n_processes; process++) {
    busq_model_process *self = busq_model_process_of(model, state, process);
    self->n_sent = living >> process & 1 ? self->n_sent : 0;
    self->n_delivered = living >> process & 1 ? self->n_delivered : 0;
  }
  while (model->logs_deliveries && !model->logs_sends && forget_one_logged(model, state, living))
    ;
}
