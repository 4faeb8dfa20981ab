/* SPDX-License-Identifier: Apache-2.0 */
#include "check/crashes.h"
#include "check/fingerprint.h"

/* ---- what can happen ---- */

static bool may_learn(const busq_model *model, const void *state, uint32_t process, uint32_t dead)
{
  const busq_order_group *group = (const busq_order_group *)(const void *)busq_model_order_of(model, state, process);
  const busq_order_packet *packets = busq_model_packets_of(model, state);
  bool may = !busq_group_suspects(group, dead);
  for (uint32_t place = 0; place < busq_model_head_of(state)->n_packets && may; place++)
    may = packets[place].from != dead || packets[place].unused != process;
  return may;
}

uint32_t busq_model_add_learning(const busq_model *model, const void *state, busq_model_move *moves)
{
  const uint32_t n = model->config.n_processes, living = busq_model_living(model, state);
  uint32_t n_moves = 0;
  if (!(model->config.options & BUSQ_OPTION_GO_ON))
    return 0;
  for (uint32_t dead = 0; dead < n; dead++)
    for (uint32_t process = 0; process < n && ~living >> dead & 1; process++)
      if (living >> process & 1 && may_learn(model, state, process, dead))
        moves[n_moves++] = (busq_model_move){.kind = BUSQ_CHECK_LEARN, .process = process, .place = dead};
  return n_moves;
}

uint32_t busq_model_add_deaths(const busq_model *model, const void *state, busq_model_move *moves)
{
  uint32_t n_moves = 0;
  for (uint32_t process = 0; process < model->config.n_processes && busq_model_may_crash(model, state); process++)
    if (!busq_model_is_dead(model, state, process))
      moves[n_moves++] = (busq_model_move){.kind = BUSQ_CHECK_CRASH, .process = process};
  return n_moves;
}

/* ---- what happens ---- */

void busq_model_crash(const busq_model *model, void *state, uint32_t process)
{
  busq_model_head *head = busq_model_head_of(state);
  busq_order_packet *packets = busq_model_packets_of(model, state);
  char *order = busq_model_order_of(model, state, process);
  const busq_order_group group = busq_model_group_of(model, process);
  busq_model_process_of(model, state, process)->is_dead = 1;
  busq_model_process_of(model, state, process)->n_alarms = 0;
  for (uint32_t index = 0; index < model->n_all; index++)
    busq_model_message_at(model, state, index)->kept &= (uint8_t)~(1u << process);
  for (uint32_t place = head->n_packets; place-- > 0;) {
    if (packets[place].unused != process)
      continue;
    busq_model_print_removed(model, state, place);
    memmove(packets + place, packets + place + 1, (--head->n_packets - place) * sizeof *packets);
  }
  memset(order, 0, model->order_bytes);
  busq_order_init(model->config.order, order, &group);
  busq_model_print_process(model, state, process);
}
