/* SPDX-License-Identifier: Apache-2.0 */
/* A move of the model of groups, in the form in which people read it. */
#include "check/groups_rules.h"

static void describe_record(config_t *config, const state_t *state, const busq_groups_move *move, busq_groups_step *step)
{
  const record_t *record = &state->records[move->what];
  const process_t *self = &state->processes[move->process];
  step->other = record->owner;
  step->record = record->serial;
  step->message = record->change ? BUSQ_GROUPS_NOBODY : record->message;
  step->change = record->change;
  step->subject = record->change ? record->subject : BUSQ_GROUPS_NOBODY;
  step->view = record->view;
  step->members = record->members;
  step->time = record->time ? record->time : record->proposal;
  if (move->kind == BUSQ_GROUPS_SYNC)
    step->other = busq_groups_next_sync(config, state, record);
  if (move->kind == BUSQ_GROUPS_SEAL)
    step->time = config->whole ? busq_groups_propose(config, state, record) : max_of(record->proposal, record->highest) + 1u;
  if (move->kind == BUSQ_GROUPS_DELIVER)
    step->outcome = busq_groups_judge_next(config, state, move->process, record);
  if (move->kind == BUSQ_GROUPS_RETURN)
    step->outcome = busq_groups_ask(config, state, record);
  if (move->kind != BUSQ_GROUPS_STAGE || self->place != BUSQ_GROUPS_STAGES)
    return;
  step->other = busq_groups_next_stage(config, record);
  step->time = record->proposal ? record->proposal : busq_groups_propose(config, state, record);
  step->outcome = has(state->head.dead, step->other)                        ? 3
                  : state->processes[step->other].clock < step->time ? 1
                                                                     : 2;
}

void busq_groups_describe(config_t *config, const state_t *state, const busq_groups_move *move, busq_groups_step *step)
{
  const process_t *self = &state->processes[move->process];
  *step = (busq_groups_step){.kind = move->kind,
                             .process = move->process,
                             .other = BUSQ_GROUPS_NOBODY,
                             .subject = BUSQ_GROUPS_NOBODY,
                             .message = BUSQ_GROUPS_NOBODY};
  switch ((busq_groups_step_kind)move->kind) {
  case BUSQ_GROUPS_LOOK:
    step->message = self->message ? self->message - 1u : state->head.n_messages;
    step->view = state->head.number;
    step->members = self->place == BUSQ_GROUPS_TORN ? self->subject : state->head.members;
    break;
  case BUSQ_GROUPS_CLAIM:
    step->change = move->change;
    step->subject = move->what;
    step->view = state->head.number + 1u;
    step->outcome = state->head.claim == BUSQ_GROUPS_IDLE;
    break;
  case BUSQ_GROUPS_STOP:
  case BUSQ_GROUPS_KILL:
  case BUSQ_GROUPS_RELEASE:
    break;
  default:
    describe_record(config, state, move, step);
  }
}
