/* SPDX-License-Identifier: Apache-2.0 */
#include "check/groups_rules.h"

uint32_t busq_groups_hand_of(const state_t *state, uint32_t process)
{
  for (uint32_t at = 0; at < state->head.n_records; at++)
    if (state->records[at].owner == process && state->records[at].is_in_hand)
      return at;
  return BUSQ_GROUPS_NONE;
}

uint32_t busq_groups_claimed(const state_t *state)
{
  const uint8_t claim = state->head.claim;
  return claim == BUSQ_GROUPS_IDLE || claim == BUSQ_GROUPS_GONE ? BUSQ_GROUPS_NONE : claim - 1u;
}

/* ---- keys ---- */

uint32_t busq_groups_key_of(config_t *config, const record_t *record)
{
  if (record->phase != BUSQ_GROUPS_COMMITTED)
    return (uint32_t)record->proposal << 8 | (config->whole ? 0 : record->owner);
  return (uint32_t)record->time << 8 | (config->whole ? record->highest : record->owner);
}

static bool is_before(config_t *config, const record_t *one, const record_t *other)
{
  return busq_groups_key_of(config, one) < busq_groups_key_of(config, other);
}

uint32_t busq_groups_next_of(config_t *config, const state_t *state, uint32_t process, uint32_t *blockerp)
{
  uint32_t next = BUSQ_GROUPS_NONE, blocker = BUSQ_GROUPS_NONE;
  for (uint32_t at = 0; at < state->head.n_records; at++) {
    const record_t *record = &state->records[at];
    uint32_t *least = record->phase == BUSQ_GROUPS_COMMITTED ? &next : &blocker;
    if (has(record->queued, process) && (*least == BUSQ_GROUPS_NONE || is_before(config, record, &state->records[*least])))
      *least = at;
  }
  if (next != BUSQ_GROUPS_NONE && blocker != BUSQ_GROUPS_NONE && is_before(config, &state->records[next], &state->records[blocker]))
    blocker = BUSQ_GROUPS_NONE;
  *blockerp = blocker;
  return blocker == BUSQ_GROUPS_NONE ? next : BUSQ_GROUPS_NONE;
}

uint8_t busq_groups_propose(config_t *config, const state_t *state, const record_t *record)
{
  uint8_t highest = 0;
  uint32_t asked = record->targets & ~(uint32_t)state->head.dead;
  if (record->change && config->variant != BUSQ_GROUPS_FORGET_DEAD)
    asked = record->targets | (state->head.members & state->head.dead);
  for (uint32_t process = 0; process < config->processes; process++)
    if (has(asked, process))
      highest = max_of(highest, state->processes[process].clock);
  return highest + 1;
}

bool busq_groups_is_tied(const state_t *state, uint32_t at, uint8_t time)
{
  for (uint32_t other = 0; other < state->head.n_records; other++)
    if (other != at && state->records[other].phase != BUSQ_GROUPS_STAGING && state->records[other].time == time)
      return true;
  for (uint32_t view = 0; view < state->head.number; view++)
    if (state->head.change_time[view] == time)
      return true;
  return false;
}

/* ---- destinations ---- */

uint32_t busq_groups_next_sync(config_t *config, const state_t *state, const record_t *record)
{
  for (uint32_t process = 0; process < config->processes && config->variant != BUSQ_GROUPS_NO_SYNC && !config->whole; process++)
    if (has(record->targets & ~state->head.dead, process) && state->processes[process].clock < record->time)
      return process;
  return BUSQ_GROUPS_PROCESSES_MAX;
}

uint32_t busq_groups_next_stage(config_t *config, const record_t *record)
{
  uint32_t process = 0;
  while (process < config->processes && !has(record->targets & ~record->staged, process))
    process++;
  return process;
}

/* ---- what a look finds ---- */

busq_groups_answer busq_groups_ask(config_t *config, const state_t *state, const record_t *record)
{
  const busq_groups_head *head = &state->head;
  if (config->variant == BUSQ_GROUPS_BY_NUMBER)
    return head->number == record->view ? BUSQ_GROUPS_COUNTS : BUSQ_GROUPS_PASSED_OVER;
  if (head->number > record->view) {
    const uint32_t change = (uint32_t)head->change_time[record->view] << 8 | head->change_owner[record->view];
    return busq_groups_key_of(config, record) < change ? BUSQ_GROUPS_COUNTS : BUSQ_GROUPS_PASSED_OVER;
  }
  if (busq_groups_claimed(state) == BUSQ_GROUPS_NONE)
    return BUSQ_GROUPS_COUNTS;
  const record_t *change = &state->records[busq_groups_claimed(state)];
  if (change->phase == BUSQ_GROUPS_STAGING)
    return config->variant == BUSQ_GROUPS_NO_PUT_OFF ? BUSQ_GROUPS_COUNTS : BUSQ_GROUPS_COUNTS_PUT_OFF;
  if (change->phase == BUSQ_GROUPS_SEALED)
    return BUSQ_GROUPS_WAITS;
  return busq_groups_key_of(config, record) < busq_groups_key_of(config, change) ? BUSQ_GROUPS_COUNTS : BUSQ_GROUPS_PASSED_OVER;
}

busq_groups_answer busq_groups_judge_next(config_t *config, const state_t *state, uint32_t process, const record_t *record)
{
  const process_t *self = &state->processes[process];
  if (record->change)
    return is_installed(state, record) || config->variant == BUSQ_GROUPS_READER_LEAVES ? BUSQ_GROUPS_COUNTS : BUSQ_GROUPS_WAITS;
  if (config->variant == BUSQ_GROUPS_NAIVE)
    return BUSQ_GROUPS_COUNTS;
  if (config->variant == BUSQ_GROUPS_BY_WORD && is_for_member(record, process))
    return state->head.number == record->view ? BUSQ_GROUPS_COUNTS : BUSQ_GROUPS_PASSED_OVER;
  if (is_for_member(record, process))
    return self->view > record->view ? BUSQ_GROUPS_PASSED_OVER : BUSQ_GROUPS_COUNTS;
  return config->variant == BUSQ_GROUPS_BLIND_NAMED ? BUSQ_GROUPS_COUNTS : busq_groups_ask(config, state, record);
}
