/* SPDX-License-Identifier: Apache-2.0 */
#include "check/groups_rules.h"
#include "base/assert.h"
#include <string.h>

/* ---- records ---- */

/* They stand in the order of their owners, so that equal states have equal bytes.  BUSQ_GROUPS_NONE where there is
 * no room. */
static uint32_t record_add(state_t *state, const record_t *record)
{
  busq_groups_head *head = &state->head;
  uint32_t at = head->n_records;
  if (at == BUSQ_GROUPS_RECORDS_MAX)
    return BUSQ_GROUPS_NONE;
  for (; at > 0 && state->records[at - 1].owner > record->owner; at--)
    state->records[at] = state->records[at - 1];
  if (busq_groups_claimed(state) != BUSQ_GROUPS_NONE && head->claim > at)
    head->claim++;
  state->records[at] = *record;
  state->records[at].serial = head->serial;
  head->serial = (uint8_t)(head->serial + (head->serial > 0));
  head->n_records++;
  return at;
}

static void record_remove(state_t *state, uint32_t at)
{
  busq_groups_head *head = &state->head;
  if (busq_groups_claimed(state) == at)
    head->claim = BUSQ_GROUPS_GONE;
  else if (busq_groups_claimed(state) != BUSQ_GROUPS_NONE && busq_groups_claimed(state) > at)
    head->claim--;
  head->n_records--;
  memmove(&state->records[at], &state->records[at + 1], (head->n_records - at) * sizeof(record_t));
  memset(&state->records[head->n_records], 0, sizeof(record_t));
}

static bool record_is_needed(config_t *config, const state_t *state, uint32_t at)
{
  const record_t *record = &state->records[at];
  return record->phase != BUSQ_GROUPS_COMMITTED || record->is_in_hand || record->queued ||
         (record->change && !is_installed(state, record) && config->variant != BUSQ_GROUPS_NO_CLAIM);
}

static void record_put_off(record_t *record)
{
  record->queued = record->staged = record->proposal = record->highest = 0;
}

/* ---- what comes of it ---- */

static void rest(process_t *self)
{
  self->place = BUSQ_GROUPS_RESTS;
  self->message = self->seen = self->change = self->subject = self->n_broken = 0;
}

/* A change is over, whichever process has made it; a sender that had to make one goes on with its message. */
static void end_change(process_t *self)
{
  self->change = self->subject = self->n_broken = 0;
  if (self->message)
    self->place = BUSQ_GROUPS_LOOKS;
  else
    rest(self);
}

static bool is_wanted(config_t *config, const state_t *state, const process_t *self)
{
  const bool is_member = has(state->head.members, self->subject);
  if (self->change == BUSQ_GROUPS_MOURN && config->variant == BUSQ_GROUPS_MOURN_TWICE)
    return true;
  return self->change == BUSQ_GROUPS_ENTER ? !is_member : is_member;
}

/* Frees the change's owner, and each that wants what it has brought about already. */
static void install(config_t *config, state_t *state, uint32_t at)
{
  busq_groups_head *head = &state->head;
  record_t *record = &state->records[at];
  head->change_time[record->view - 1] = record->time;
  head->change_owner[record->view - 1] = config->whole ? record->highest : record->owner;
  head->number = record->view;
  head->members = record->members;
  if (busq_groups_claimed(state) == at)
    head->claim = BUSQ_GROUPS_IDLE;
  if (record->is_in_hand && runs(state, record->owner))
    end_change(&state->processes[record->owner]);
  record->is_in_hand = 0;
  for (uint32_t process = 0; process < config->processes; process++) {
    process_t *self = &state->processes[process];
    if (self->place == BUSQ_GROUPS_WANTS && !is_wanted(config, state, self))
      end_change(self);
  }
}

static void return_in(state_t *state, uint32_t process, uint32_t view)
{
  process_t *self = &state->processes[process];
  const uint32_t hand = busq_groups_hand_of(state, process);
  state->head.message_view[self->message - 1] = (uint8_t)view;
  if (hand != BUSQ_GROUPS_NONE)
    state->records[hand].is_in_hand = 0;
  rest(self);
}

static void commit(config_t *config, state_t *state, uint32_t at)
{
  record_t *record = &state->records[at];
  process_t *owner = &state->processes[record->owner];
  for (uint32_t process = 0; process < config->processes && config->whole && config->variant != BUSQ_GROUPS_NO_SYNC; process++)
    if (has(record->targets & ~state->head.dead, process))
      state->processes[process].clock = max_of(state->processes[process].clock, record->time);
  record->phase = BUSQ_GROUPS_COMMITTED;
  record->proposal = record->staged = record->n_put_off = 0;
  record->highest = config->whole ? record->highest : 0;
  if (!record->is_in_hand || !runs(state, record->owner)) {
    record->is_in_hand = 0;
    return;
  }
  if (record->change && is_installed(state, record)) { /* only where two may change one view */
    record->is_in_hand = 0;
    end_change(owner);
  } else if (record->change) {
    owner->place = BUSQ_GROUPS_INSTALLS;
  } else if (config->variant == BUSQ_GROUPS_NAIVE || config->variant == BUSQ_GROUPS_NO_LOOK) {
    return_in(state, record->owner, record->view);
  } else {
    owner->place = BUSQ_GROUPS_RETURNS;
  }
}

/* ---- a message ---- */

static uint32_t named_by(config_t *config)
{
  return config->names_last ? 1u << (config->processes - 1) : 0;
}

static bool add_message(config_t *config, state_t *state, uint32_t process, uint8_t members)
{
  process_t *self = &state->processes[process];
  if (!members) { /* UnknownPeer */
    return_in(state, process, BUSQ_GROUPS_REFUSED);
    return true;
  }
  self->place = BUSQ_GROUPS_STAGES;
  const record_t record = {.owner = (uint8_t)process,
                           .is_in_hand = 1,
                           .view = self->seen,
                           .members = members,
                           .message = self->message - 1,
                           .targets = members | (uint8_t)(named_by(config) & ~(uint32_t)state->head.dead)};
  return record_add(state, &record) != BUSQ_GROUPS_NONE;
}

static bool play_look(config_t *config, state_t *state, uint32_t process)
{
  process_t *self = &state->processes[process];
  if (!self->message) {
    state->head.n_begun++;
    self->message = ++state->head.n_messages;
    state->head.message_sender[self->message - 1] = (uint8_t)process;
  }
  state->head.is_endless |= self->place == BUSQ_GROUPS_AGAIN && self->seen == state->head.number;
  self->seen = state->head.number;
  if (config->variant != BUSQ_GROUPS_TORN_LOOK)
    return add_message(config, state, process, state->head.members);
  const uint8_t members = self->subject;
  self->subject = self->place == BUSQ_GROUPS_TORN ? 0 : state->head.members;
  if (self->place == BUSQ_GROUPS_TORN)
    return add_message(config, state, process, members);
  self->place = BUSQ_GROUPS_TORN;
  return true;
}

static void play_return(config_t *config, state_t *state, uint32_t process)
{
  const uint32_t hand = busq_groups_hand_of(state, process);
  const busq_groups_answer found = busq_groups_ask(config, state, &state->records[hand]);
  if (found == BUSQ_GROUPS_COUNTS_PUT_OFF)
    record_put_off(&state->records[busq_groups_claimed(state)]);
  if (found != BUSQ_GROUPS_PASSED_OVER) {
    return_in(state, process, state->records[hand].view);
    return;
  }
  state->records[hand].is_in_hand = 0;
  state->processes[process].place = BUSQ_GROUPS_AGAIN;
}

/* ---- a change ---- */

static bool claim(config_t *config, state_t *state, uint32_t process)
{
  process_t *self = &state->processes[process];
  busq_groups_head *head = &state->head;
  const uint8_t subject = (uint8_t)(1u << self->subject);
  const uint8_t members = self->change == BUSQ_GROUPS_ENTER ? head->members | subject : head->members & (uint8_t)~subject;
  uint8_t targets = head->members | members;
  if (config->variant == BUSQ_GROUPS_NEW_ONLY)
    targets = members;
  if (config->variant == BUSQ_GROUPS_OLD_ONLY)
    targets = head->members;
  const record_t record = {.owner = (uint8_t)process,
                           .change = self->change,
                           .is_in_hand = 1,
                           .view = head->number + 1,
                           .members = members,
                           .subject = self->subject,
                           .targets = targets & (uint8_t)~head->dead};
  const uint32_t at = record_add(state, &record);
  if (at == BUSQ_GROUPS_NONE)
    return false;
  self->place = BUSQ_GROUPS_STAGES;
  if (config->variant != BUSQ_GROUPS_NO_CLAIM)
    head->claim = (uint8_t)(at + 1);
  if (!record.targets) { /* there is no receiver */
    state->records[at].time = busq_groups_propose(config, state, &record);
    commit(config, state, at);
  }
  return true;
}

static bool play_claim(config_t *config, state_t *state, const busq_groups_move *move)
{
  process_t *self = &state->processes[move->process];
  if (!self->change) {
    self->change = move->change;
    self->subject = move->what;
    state->head.n_changes = (uint8_t)(state->head.n_changes + (move->change != BUSQ_GROUPS_MOURN));
  }
  if (state->head.claim == BUSQ_GROUPS_IDLE)
    return claim(config, state, move->process);
  self->place = BUSQ_GROUPS_WANTS;
  return true;
}

/* ---- staging ---- */

/* A destination has died: the record is undone.  What is for the dead is not for a group that it belongs to. */
static void meet_dead(state_t *state, uint32_t at, uint32_t dead)
{
  const uint32_t process = state->records[at].owner;
  process_t *self = &state->processes[process];
  const bool is_change = state->records[at].change != 0;
  record_remove(state, at);
  self->place = is_change ? BUSQ_GROUPS_WANTS : BUSQ_GROUPS_LOOKS;
  if (!is_change && has(state->head.members, dead)) {
    self->place = BUSQ_GROUPS_WANTS;
    self->change = BUSQ_GROUPS_MOURN;
    self->subject = (uint8_t)dead;
  }
}

/* Before all others of its time, or behind them. */
static void break_tie(state_t *state, uint32_t at, bool is_before)
{
  record_t *record = &state->records[at];
  record->highest = 0;
  for (uint32_t other = 0; other < state->head.n_records; other++) {
    record_t *tied = &state->records[other];
    if (other == at || tied->phase == BUSQ_GROUPS_STAGING || tied->time != record->time)
      continue;
    tied->highest += is_before;
    record->highest = is_before ? 0 : max_of(record->highest, tied->highest + 1);
  }
  for (uint32_t view = 0; view < state->head.number; view++) {
    if (state->head.change_time[view] != record->time)
      continue;
    state->head.change_owner[view] += is_before;
    record->highest = is_before ? 0 : max_of(record->highest, state->head.change_owner[view] + 1);
  }
}

static bool refuses_dead(const state_t *state, const record_t *record, uint32_t target)
{
  return has(state->head.dead, target) && (record->change || has(record->members, target));
}

/* At one destination; one that is named beside the group, and dead, misses nothing. */
static void stage(state_t *state, record_t *record, uint32_t target, bool is_whole)
{
  uint8_t *clock = &state->processes[target].clock;
  record->staged |= (uint8_t)(1u << target);
  if (has(state->head.dead, target))
    return;
  record->queued |= (uint8_t)(runs(state, target) << target);
  if (is_whole)
    return;
  if (*clock < record->proposal)
    *clock = record->proposal;
  else
    record->highest = max_of(record->highest, *clock);
}

static void play_stage(config_t *config, state_t *state, uint32_t process, bool is_before)
{
  const uint32_t at = busq_groups_hand_of(state, process);
  record_t *record = &state->records[at];
  const bool is_single = is_for_one(record);
  if (!record->proposal) /* settled at the first destination */
    record->proposal = busq_groups_propose(config, state, record);
  do {
    const uint32_t target = busq_groups_next_stage(config, record);
    if (refuses_dead(state, record, target)) {
      meet_dead(state, at, target);
      return;
    }
    stage(state, record, target, config->whole && !is_single);
  } while (config->whole && busq_groups_next_stage(config, record) < config->processes);
  if (is_single) { /* staged and committed in one swap */
    record->time = record->proposal;
    if (config->whole)
      break_tie(state, at, is_before);
    commit(config, state, at);
  }
}

static void play_decide(config_t *config, state_t *state, uint32_t process, bool is_before)
{
  const uint32_t at = busq_groups_hand_of(state, process);
  record_t *record = &state->records[at];
  record->time = record->highest ? (uint8_t)(max_of(record->proposal, record->highest) + 1) : record->proposal;
  if (config->whole) {
    record->time = busq_groups_propose(config, state, record);
    break_tie(state, at, is_before);
  }
  if (record->highest || config->whole)
    record->phase = BUSQ_GROUPS_SEALED;
  else
    commit(config, state, at);
}

static void play_break(state_t *state, uint32_t at)
{
  process_t *owner = &state->processes[state->records[at].owner];
  if (runs(state, state->records[at].owner)) {
    owner->place = BUSQ_GROUPS_WANTS;
    owner->n_broken++;
  }
  record_remove(state, at);
}

/* ---- delivering ---- */

static void play_deliver(config_t *config, state_t *state, uint32_t process)
{
  uint32_t blocker;
  process_t *self = &state->processes[process];
  record_t *record = &state->records[busq_groups_next_of(config, state, process, &blocker)];
  const busq_groups_answer found = busq_groups_judge_next(config, state, process, record);
  record->queued &= (uint8_t)~(1u << process);
  if (found == BUSQ_GROUPS_COUNTS_PUT_OFF)
    record_put_off(&state->records[busq_groups_claimed(state)]);
  if (found == BUSQ_GROUPS_PASSED_OVER)
    return;
  BUSQ_ASSERT(self->n_events < BUSQ_GROUPS_EVENTS_MAX);
  if (!record->change) {
    self->events[self->n_events++] = record->message;
    return;
  }
  const uint32_t died = record->change == BUSQ_GROUPS_MOURN ? record->subject + 1u : 0;
  self->events[self->n_events++] = busq_groups_view_event(record->view, record->members, died);
  self->view = record->view;
  self->is_in = has(record->members, process);
}

/* ---- accidents ---- */

/* It will not be looked at again. */
static void drop_queue(state_t *state, uint32_t process)
{
  for (uint32_t at = 0; at < state->head.n_records; at++)
    state->records[at].queued &= (uint8_t)~(1u << process);
}

static void play_stop(state_t *state, uint32_t process)
{
  state->head.stopped |= (uint8_t)(1u << process);
  state->head.n_stopped++;
  drop_queue(state, process);
}

static void play_kill(state_t *state, uint32_t process)
{
  process_t *self = &state->processes[process];
  state->head.dead |= (uint8_t)(1u << process);
  state->head.n_killed++;
  state->head.n_changes++;
  rest(self);
  self->view = self->is_in = 0;
  drop_queue(state, process);
  for (uint32_t at = 0; at < state->head.n_records; at++) {
    record_t *record = &state->records[at];
    if (record->owner == process && record->phase == BUSQ_GROUPS_COMMITTED)
      record->is_in_hand = 0;
  }
}

/* ---- tidying up ---- */

/* Whether a process may still ask for the key of the change that ended the view. */
static bool is_key_needed(config_t *config, const state_t *state, uint32_t view)
{
  for (uint32_t process = 0; process < config->processes; process++) {
    const process_t *self = &state->processes[process];
    if (self->message && self->seen == view && self->place >= BUSQ_GROUPS_TORN && self->place <= BUSQ_GROUPS_RETURNS)
      return true;
  }
  for (uint32_t at = 0; at < state->head.n_records; at++)
    if (!state->records[at].change && state->records[at].view == view && config->names_last)
      return true;
  return false;
}

static uint8_t least_of(uint8_t least, uint8_t time)
{
  return time && time < least ? time : least;
}

static void lower(uint8_t *time, uint8_t by)
{
  *time = (uint8_t)(*time - (*time ? by : 0));
}

void busq_groups_lower_times(config_t *config, state_t *state)
{
  busq_groups_head *head = &state->head;
  uint8_t least = UINT8_MAX;
  for (uint32_t process = 0; process < config->processes; process++)
    least = least_of(least, state->processes[process].clock);
  for (uint32_t at = 0; at < head->n_records; at++) {
    least = least_of(least, state->records[at].proposal);
    least = least_of(least, state->records[at].time);
  }
  for (uint32_t view = 0; view < head->number; view++)
    least = least_of(least, head->change_time[view]);
  if (least <= 1)
    return;
  const uint8_t by = least - 1;
  for (uint32_t process = 0; process < config->processes; process++)
    lower(&state->processes[process].clock, by);
  for (uint32_t at = 0; at < head->n_records; at++) {
    lower(&state->records[at].proposal, by);
    lower(&state->records[at].highest, config->whole ? 0 : by);
    lower(&state->records[at].time, by);
  }
  for (uint32_t view = 0; view < head->number; view++)
    lower(&head->change_time[view], by);
}

static void tidy(config_t *config, state_t *state)
{
  for (uint32_t at = state->head.n_records; at-- > 0;)
    if (!record_is_needed(config, state, at))
      record_remove(state, at);
  for (uint32_t view = 0; view < state->head.number; view++)
    if (!is_key_needed(config, state, view))
      state->head.change_time[view] = state->head.change_owner[view] = 0;
}

/* ---- all moves ---- */

void busq_groups_start(config_t *config, state_t *state)
{
  memset(state, 0, sizeof *state);
  state->head.number = 1;
  state->head.members = state->head.first_members = (uint8_t)((1u << config->members) - 1);
  for (uint32_t process = 0; process < config->processes; process++) {
    state->processes[process].clock = 1;
    state->processes[process].is_in = process < config->members;
    state->processes[process].view = state->processes[process].is_in;
  }
}

bool busq_groups_play(config_t *config, state_t *state, const busq_groups_move *move)
{
  bool has_room = true;
  switch ((busq_groups_step_kind)move->kind) {
  case BUSQ_GROUPS_LOOK:
    has_room = play_look(config, state, move->process);
    break;
  case BUSQ_GROUPS_CLAIM:
    has_room = play_claim(config, state, move);
    break;
  case BUSQ_GROUPS_STAGE:
    play_stage(config, state, move->process, move->change);
    break;
  case BUSQ_GROUPS_SEAL:
    play_decide(config, state, move->process, move->change);
    break;
  case BUSQ_GROUPS_SYNC: {
    const record_t *record = &state->records[move->what];
    state->processes[busq_groups_next_sync(config, state, record)].clock = record->time;
    break;
  }
  case BUSQ_GROUPS_COMMIT:
    if (state->records[move->what].phase == BUSQ_GROUPS_SEALED)
      commit(config, state, move->what);
    else
      play_decide(config, state, move->process, move->change);
    break;
  case BUSQ_GROUPS_RETURN:
    play_return(config, state, move->process);
    break;
  case BUSQ_GROUPS_INSTALL:
    install(config, state, move->what);
    break;
  case BUSQ_GROUPS_DELIVER:
    play_deliver(config, state, move->process);
    break;
  case BUSQ_GROUPS_PUT_OFF:
    record_put_off(&state->records[move->what]);
    state->records[move->what].n_put_off += runs(state, state->records[move->what].owner);
    break;
  case BUSQ_GROUPS_BREAK:
    play_break(state, move->what);
    break;
  case BUSQ_GROUPS_RELEASE:
    state->head.claim = BUSQ_GROUPS_IDLE;
    break;
  case BUSQ_GROUPS_UNDO:
    record_remove(state, move->what);
    break;
  case BUSQ_GROUPS_KILL:
    play_kill(state, move->process);
    break;
  case BUSQ_GROUPS_STOP:
    play_stop(state, move->process);
    break;
  }
  tidy(config, state);
  return has_room;
}
