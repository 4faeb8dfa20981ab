/* SPDX-License-Identifier: Apache-2.0 */
/* What can happen in a state of the model of groups, and what has to. */
#include "base/assert.h"
#include "check/groups_rules.h"

/* ---- what can happen ---- */

typedef struct {
  config_t *config;
  const state_t *state;
  busq_groups_move *moves;
  uint32_t count;
} finder;

static void add(finder *self, busq_groups_step_kind kind, uint32_t process, uint32_t change, uint32_t what)
{
  BUSQ_ASSERT(self->count < BUSQ_GROUPS_MOVES_MAX);
  self->moves[self->count++] = (busq_groups_move){
      .kind = (uint8_t)kind, .process = (uint8_t)process, .change = (uint8_t)change, .what = (uint8_t)what};
}

/* Nothing of the dead may come between. */
static bool is_settled(config_t *config, const state_t *state, uint32_t dead)
{
  for (uint32_t at = 0; at < state->head.n_records && config->variant != BUSQ_GROUPS_NO_SETTLE; at++)
    if (state->records[at].owner == dead && state->records[at].phase != BUSQ_GROUPS_COMMITTED)
      return false;
  return true;
}

static void find_beginnings(finder *self, uint32_t process)
{
  config_t *config = self->config;
  const busq_groups_head *head = &self->state->head;
  const bool is_member = has(head->members, process);
  if (head->n_begun < config->messages && head->members)
    add(self, BUSQ_GROUPS_LOOK, process, 0, 0);
  if (head->n_changes < config->changes)
    add(self, BUSQ_GROUPS_CLAIM, process, is_member ? BUSQ_GROUPS_LEAVE : BUSQ_GROUPS_ENTER, process);
  for (uint32_t dead = 0; dead < config->processes; dead++)
    if (is_member && has(head->dead & head->members, dead) && is_settled(config, self->state, dead))
      add(self, BUSQ_GROUPS_CLAIM, process, BUSQ_GROUPS_MOURN, dead);
}

/* A process that wants to change the group gets what is in its way out of it. */
static void find_wanted(finder *self, uint32_t process)
{
  config_t *config = self->config;
  const state_t *state = self->state;
  const process_t *one = &state->processes[process];
  const uint32_t at = busq_groups_claimed(state);
  if (state->head.claim == BUSQ_GROUPS_IDLE) {
    if (one->change != BUSQ_GROUPS_MOURN || is_settled(config, state, one->subject))
      add(self, BUSQ_GROUPS_CLAIM, process, one->change, one->subject);
  } else if (state->head.claim == BUSQ_GROUPS_GONE) {
    if (config->variant != BUSQ_GROUPS_NO_RELEASE)
      add(self, BUSQ_GROUPS_RELEASE, process, 0, 0);
  } else if (state->records[at].phase == BUSQ_GROUPS_STAGING && config->variant != BUSQ_GROUPS_NO_BREAK) {
    const uint32_t owner = state->records[at].owner;
    if (!runs(state, owner) || state->processes[owner].n_broken < config->put_offs)
      add(self, BUSQ_GROUPS_BREAK, process, 0, at);
  }
}

/* A time is settled with the seal, or, where there is one destination, with its stage. */
static void find_steps(finder *self, uint32_t process, uint32_t hand)
{
  config_t *config = self->config;
  const record_t *record = &self->state->records[hand];
  const bool stages = busq_groups_next_stage(config, record) < config->processes;
  const bool seals = record->highest || config->whole;
  const busq_groups_step_kind kind = stages ? BUSQ_GROUPS_STAGE : seals ? BUSQ_GROUPS_SEAL : BUSQ_GROUPS_COMMIT;
  add(self, kind, process, 0, hand);
  if (config->whole && (!stages || is_for_one(record)) && busq_groups_is_tied(self->state, hand, busq_groups_propose(config, self->state, record)))
    add(self, kind, process, 1, hand);
}

static void find_doings(finder *self, uint32_t process)
{
  config_t *config = self->config;
  const state_t *state = self->state;
  const process_t *one = &state->processes[process];
  const uint32_t hand = busq_groups_hand_of(state, process);
  const bool must_wait = one->place == BUSQ_GROUPS_AGAIN && one->seen == state->head.number;
  switch ((busq_groups_place)one->place) {
  case BUSQ_GROUPS_RESTS:
    find_beginnings(self, process);
    break;
  case BUSQ_GROUPS_LOOKS:
  case BUSQ_GROUPS_TORN:
  case BUSQ_GROUPS_AGAIN:
    if (!must_wait || config->variant == BUSQ_GROUPS_NO_INSTALL)
      add(self, BUSQ_GROUPS_LOOK, process, 0, 0);
    break;
  case BUSQ_GROUPS_STAGES:
    if (state->records[hand].phase != BUSQ_GROUPS_STAGING)
      break;
    find_steps(self, process, hand);
    break;
  case BUSQ_GROUPS_RETURNS:
    if (busq_groups_ask(config, state, &state->records[hand]) != BUSQ_GROUPS_WAITS)
      add(self, BUSQ_GROUPS_RETURN, process, 0, hand);
    break;
  case BUSQ_GROUPS_WANTS:
    find_wanted(self, process);
    break;
  case BUSQ_GROUPS_INSTALLS:
    break;
  }
}

static void find_delivery(finder *self, uint32_t process)
{
  config_t *config = self->config;
  const state_t *state = self->state;
  uint32_t blocker;
  const uint32_t next = busq_groups_next_of(config, state, process, &blocker);
  if (next != BUSQ_GROUPS_NONE && busq_groups_judge_next(config, state, process, &state->records[next]) != BUSQ_GROUPS_WAITS)
    add(self, BUSQ_GROUPS_DELIVER, process, 0, next);
}

/* Whether a process may bring a sealed record to its end: its owner, each that has it in a queue or waits for it,
 * and for the dead all. */
static bool completes(config_t *config, const state_t *state, uint32_t process, uint32_t at)
{
  const record_t *record = &state->records[at];
  const process_t *self = &state->processes[process];
  if (record->owner == process)
    return true;
  if (config->variant == BUSQ_GROUPS_NO_HELP)
    return false;
  return has(record->queued, process) || has(state->head.dead, record->owner) ||
         (busq_groups_claimed(state) == at && (self->place == BUSQ_GROUPS_WANTS || self->place == BUSQ_GROUPS_RETURNS));
}

/* Whether a process installs a change: its owner, each that waits for it, and those that are to deliver it. */
static bool installs(config_t *config, const state_t *state, uint32_t process, uint32_t at)
{
  const process_t *self = &state->processes[process];
  uint32_t blocker;
  if (state->records[at].owner == process && state->records[at].is_in_hand)
    return true;
  if (self->place == BUSQ_GROUPS_AGAIN && self->seen == state->head.number)
    return config->variant != BUSQ_GROUPS_NO_INSTALL;
  return self->place == BUSQ_GROUPS_WANTS || busq_groups_next_of(config, state, process, &blocker) == at;
}

static bool puts_off(config_t *config, const state_t *state, uint32_t process, uint32_t at)
{
  const record_t *record = &state->records[at];
  uint32_t blocker;
  if (!has(record->queued, process))
    return false;
  if (!runs(state, record->owner))
    return true;
  (void)busq_groups_next_of(config, state, process, &blocker);
  bool is_kept_waiting = false;
  for (uint32_t other = 0; other < state->head.n_records; other++)
    is_kept_waiting |= has(state->records[other].queued, process) && state->records[other].phase == BUSQ_GROUPS_COMMITTED;
  return is_kept_waiting && blocker == at && record->n_put_off < config->put_offs;
}

/* Finds what any process may do with a record, once, by the first one that can, its owner before all. */
static void find_help(finder *self, uint32_t at)
{
  config_t *config = self->config;
  const state_t *state = self->state;
  const record_t *record = &state->records[at];
  const bool is_dead = has(state->head.dead, record->owner);
  for (uint32_t turn = 0; turn < config->processes; turn++) {
    const uint32_t process = (record->owner + turn) % config->processes;
    if (!runs(state, process))
      continue;
    if (record->phase == BUSQ_GROUPS_SEALED && completes(config, state, process, at)) {
      const bool is_synced = busq_groups_next_sync(config, state, record) == BUSQ_GROUPS_PROCESSES_MAX;
      add(self, is_synced ? BUSQ_GROUPS_COMMIT : BUSQ_GROUPS_SYNC, process, 0, at);
      return;
    }
    if (record->phase == BUSQ_GROUPS_STAGING && is_dead && config->variant != BUSQ_GROUPS_NO_UNDO) {
      add(self, BUSQ_GROUPS_UNDO, process, 0, at);
      return;
    }
    if (record->phase == BUSQ_GROUPS_STAGING && puts_off(config, state, process, at)) {
      add(self, BUSQ_GROUPS_PUT_OFF, process, 0, at);
      return;
    }
    if (record->phase == BUSQ_GROUPS_COMMITTED && record->change && !is_installed(state, record) &&
        installs(config, state, process, at)) {
      add(self, BUSQ_GROUPS_INSTALL, process, 0, at);
      return;
    }
  }
}

static void find_accidents(finder *self, uint32_t process)
{
  const busq_groups_head *head = &self->state->head;
  if (head->n_killed < self->config->kills && head->n_changes < self->config->changes)
    add(self, BUSQ_GROUPS_KILL, process, 0, process);
  if (head->n_stopped < self->config->stops)
    add(self, BUSQ_GROUPS_STOP, process, 0, process);
}

uint32_t busq_groups_moves(config_t *config, const state_t *state, busq_groups_move *moves)
{
  finder self = {.config = config, .state = state, .moves = moves};
  for (uint32_t process = 0; process < config->processes; process++)
    if (runs(state, process))
      find_delivery(&self, process);
  for (uint32_t at = 0; at < state->head.n_records; at++)
    find_help(&self, at);
  for (uint32_t process = 0; process < config->processes; process++)
    if (runs(state, process)) {
      find_doings(&self, process);
      find_accidents(&self, process);
    }
  return self.count;
}

bool busq_groups_is_owed(const state_t *state, const busq_groups_move *move)
{
  const process_t *self = &state->processes[move->process];
  if (move->kind == BUSQ_GROUPS_KILL || move->kind == BUSQ_GROUPS_STOP)
    return false;
  const bool begins = self->place == BUSQ_GROUPS_RESTS && move->change != BUSQ_GROUPS_MOURN;
  return !begins || (move->kind != BUSQ_GROUPS_LOOK && move->kind != BUSQ_GROUPS_CLAIM);
}

bool busq_groups_is_stuck(config_t *config, const state_t *state)
{
  uint32_t running = 0;
  for (uint32_t process = 0; process < config->processes; process++) {
    running |= (uint32_t)runs(state, process) << process;
    if (runs(state, process) && state->processes[process].place != BUSQ_GROUPS_RESTS)
      return true;
  }
  for (uint32_t at = 0; at < state->head.n_records; at++)
    if (state->records[at].queued & running)
      return true;
  return state->head.dead & state->head.members && running & state->head.members; /* unmourned */
}

bool busq_groups_is_seen(const busq_groups_move *move)
{
  return move->kind == BUSQ_GROUPS_DELIVER || move->kind == BUSQ_GROUPS_RETURN || move->kind == BUSQ_GROUPS_LOOK ||
         move->kind == BUSQ_GROUPS_COMMIT || move->kind == BUSQ_GROUPS_STAGE;
}

/* No process dies, stops, or is put off or broken by others while it runs, and steps are whole. */
static bool is_smooth(config_t *config)
{
  return config->whole && !config->kills && !config->stops && !config->put_offs;
}

static bool is_decided(const state_t *state)
{
  const uint32_t at = busq_groups_claimed(state);
  return at != BUSQ_GROUPS_NONE && state->records[at].phase == BUSQ_GROUPS_COMMITTED;
}

/* A step between the stage of a record and its seal can't see that it is staged, but for deliveries that wait for
 * it, and these can come behind the seal: so the seal comes at once.  What comes between a claim and the stage finds
 * the claim taken, as it does behind the seal; between a message's look and its stage, nothing concerns the message
 * but that a view is installed.  So a stage comes at once, too, unless such a view is decided, or was installed
 * since the look: a look that is to come before it can come then. */
static bool is_proposal_quiet(const state_t *state, const busq_groups_move *move)
{
  const record_t *record = &state->records[move->what];
  if (move->kind == BUSQ_GROUPS_SEAL || record->change)
    return true;
  return record->view == state->head.number && !is_decided(state);
}

/* A delivery that no other process can distinguish from one a little later: its outcome is settled by what its
 * process has delivered, or by a change that is installed.  So is a look back at a view that is over; and one at a
 * view that goes on, since whatever change is sealed later comes behind the message: where that were not so, members
 * would pass over what its sender believes to count. */
bool busq_groups_is_quiet(config_t *config, const state_t *state, const busq_groups_move *move)
{
  if (move->kind == BUSQ_GROUPS_STAGE || move->kind == BUSQ_GROUPS_SEAL)
    return is_smooth(config) && is_proposal_quiet(state, move);
  if (move->kind != BUSQ_GROUPS_DELIVER && move->kind != BUSQ_GROUPS_RETURN)
    return false;
  const record_t *record = &state->records[move->what];
  if (config->variant == BUSQ_GROUPS_BY_WORD || config->variant == BUSQ_GROUPS_BY_NUMBER)
    return false;
  if (move->kind == BUSQ_GROUPS_RETURN)
    return state->head.number > record->view || is_smooth(config);
  return record->change ? is_installed(state, record)
                           : is_for_member(record, move->process) || state->head.number > record->view;
}
