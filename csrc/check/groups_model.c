/* SPDX-License-Identifier: Apache-2.0 */
#include "check/groups_model.h"
#include "base/assert.h"
#include <string.h>

enum { NONE = BUSQ_GROUPS_RECORDS_MAX };

typedef const busq_groups_config config_t;
typedef busq_groups_state state_t;
typedef busq_groups_process process_t;
typedef busq_groups_record record_t;

static bool has(uint32_t set, uint32_t process)
{
  return set >> process & 1;
}

static bool runs(const state_t *state, uint32_t process)
{
  return !has(state->head.dead | state->head.stopped, process);
}

static uint8_t max_of(uint8_t a, uint8_t b)
{
  return a > b ? a : b;
}

/* Of the record in hand; NONE. */
static uint32_t hand_of(const state_t *state, uint32_t process)
{
  for (uint32_t at = 0; at < state->head.n_records; at++)
    if (state->records[at].owner == process && state->records[at].is_in_hand)
      return at;
  return NONE;
}

/* The record of the change under way; NONE. */
static uint32_t claimed(const state_t *state)
{
  const uint8_t claim = state->head.claim;
  return claim == BUSQ_GROUPS_IDLE || claim == BUSQ_GROUPS_GONE ? NONE : claim - 1u;
}

static bool is_installed(const state_t *state, const record_t *record)
{
  return state->head.number >= record->view;
}

/* ---- keys ---- */

/* A message's key, or the least that it may come to.  Of two that have the same time the owners decide; where names are not to
 * decide, because steps are whole, the search has tried both ways, and `highest` says which. */
static uint32_t key_of(config_t *config, const record_t *record)
{
  if (record->phase != BUSQ_GROUPS_COMMITTED)
    return (uint32_t)record->proposal << 8 | (config->whole ? 0 : record->owner);
  return (uint32_t)record->time << 8 | (config->whole ? record->highest : record->owner);
}

/* The record that the process would deliver next; NONE while there is none, or one that is not decided may come before it. */
static uint32_t next_of(config_t *config, const state_t *state, uint32_t process, uint32_t *blockerp)
{
  uint32_t next = NONE, blocker = NONE;
  for (uint32_t at = 0; at < state->head.n_records; at++) {
    const record_t *record = &state->records[at];
    uint32_t *least = record->phase == BUSQ_GROUPS_COMMITTED ? &next : &blocker;
    if (has(record->queued, process) && (*least == NONE || key_of(config, record) < key_of(config, &state->records[*least])))
      *least = at;
  }
  if (next != NONE && blocker != NONE && key_of(config, &state->records[blocker]) > key_of(config, &state->records[next]))
    blocker = NONE;
  *blockerp = blocker;
  return blocker == NONE ? next : NONE;
}

/* ---- records ---- */

/* They stand in the order of their owners, so that equal states have equal bytes.  NONE where there is no room. */
static uint32_t record_add(state_t *state, const record_t *record)
{
  busq_groups_head *head = &state->head;
  uint32_t at = head->n_records;
  if (at == BUSQ_GROUPS_RECORDS_MAX)
    return NONE;
  for (; at > 0 && state->records[at - 1].owner > record->owner; at--)
    state->records[at] = state->records[at - 1];
  if (claimed(state) != NONE && head->claim > at)
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
  if (claimed(state) == at)
    head->claim = BUSQ_GROUPS_GONE;
  else if (claimed(state) != NONE && claimed(state) > at)
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

/* ---- what comes of it ---- */

static void rest(process_t *self)
{
  self->place = BUSQ_GROUPS_RESTS;
  self->message = self->seen = self->change = self->subject = self->n_broken = 0;
}

/* A change is over, whoever has made it; a sender that had to make one goes on with its message. */
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

/* Frees the change's owner, and whoever wants what it has brought about already. */
static void install(config_t *config, state_t *state, uint32_t at)
{
  busq_groups_head *head = &state->head;
  record_t *record = &state->records[at];
  head->change_time[record->view - 1] = record->time;
  head->change_owner[record->view - 1] = config->whole ? record->highest : record->owner;
  head->number = record->view;
  head->members = record->members;
  if (claimed(state) == at)
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
  const uint32_t hand = hand_of(state, process);
  state->head.message_view[self->message - 1] = (uint8_t)view;
  if (hand != NONE)
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
  return record_add(state, &record) != NONE;
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

/* What a look at the group says of a message of an earlier view. */
typedef enum { WAITS = 0, COUNTS = 1, PASSED_OVER = 2, COUNTS_PUT_OFF = 3 } answer;

static answer ask(config_t *config, const state_t *state, const record_t *record)
{
  const busq_groups_head *head = &state->head;
  if (config->variant == BUSQ_GROUPS_BY_NUMBER)
    return head->number == record->view ? COUNTS : PASSED_OVER;
  if (head->number > record->view) {
    const uint32_t change = (uint32_t)head->change_time[record->view] << 8 | head->change_owner[record->view];
    return key_of(config, record) < change ? COUNTS : PASSED_OVER;
  }
  if (claimed(state) == NONE)
    return COUNTS;
  const record_t *change = &state->records[claimed(state)];
  if (change->phase == BUSQ_GROUPS_STAGING)
    return config->variant == BUSQ_GROUPS_NO_PUT_OFF ? COUNTS : COUNTS_PUT_OFF;
  if (change->phase == BUSQ_GROUPS_SEALED)
    return WAITS;
  return key_of(config, record) < key_of(config, change) ? COUNTS : PASSED_OVER;
}

static void play_return(config_t *config, state_t *state, uint32_t process)
{
  const uint32_t hand = hand_of(state, process);
  const answer found = ask(config, state, &state->records[hand]);
  if (found == COUNTS_PUT_OFF)
    record_put_off(&state->records[claimed(state)]);
  if (found != PASSED_OVER) {
    return_in(state, process, state->records[hand].view);
    return;
  }
  state->records[hand].is_in_hand = 0;
  state->processes[process].place = BUSQ_GROUPS_AGAIN;
}

/* ---- a change ---- */

/* One more than any clock of the destinations.  A change looks at those of dead members, too, which nobody raises any more: what
 * they had delivered, though everybody else of their view is dead, has to stay before the view that comes after it. */
static uint8_t propose(config_t *config, const state_t *state, const record_t *record)
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
  if (at == NONE)
    return false;
  self->place = BUSQ_GROUPS_STAGES;
  if (config->variant != BUSQ_GROUPS_NO_CLAIM)
    head->claim = (uint8_t)(at + 1);
  if (!record.targets) { /* nobody is there to be told */
    state->records[at].time = propose(config, state, &record);
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

/* Whether another message has this time. */
static bool is_tied(const state_t *state, uint32_t at, uint8_t time)
{
  for (uint32_t other = 0; other < state->head.n_records; other++)
    if (other != at && state->records[other].phase != BUSQ_GROUPS_STAGING && state->records[other].time == time)
      return true;
  for (uint32_t view = 0; view < state->head.number; view++)
    if (state->head.change_time[view] == time)
      return true;
  return false;
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

static bool is_for_one(const record_t *record)
{
  return !(record->targets & (record->targets - 1));
}

static bool refuses_dead(const state_t *state, const record_t *record, uint32_t target)
{
  return has(state->head.dead, target) && (record->change || has(record->members, target));
}

/* At one destination; who is named beside the group, and dead, misses nothing. */
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
  const uint32_t at = hand_of(state, process);
  record_t *record = &state->records[at];
  const bool is_single = is_for_one(record);
  if (!record->proposal) /* settled at the first destination */
    record->proposal = propose(config, state, record);
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
  const uint32_t at = hand_of(state, process);
  record_t *record = &state->records[at];
  record->time = record->highest ? (uint8_t)(max_of(record->proposal, record->highest) + 1) : record->proposal;
  if (config->whole) {
    record->time = propose(config, state, record);
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

static bool is_for_member(const record_t *record, uint32_t process)
{
  return has(record->members, process);
}

/* Whether the process may deliver its next record, or pass it over. */
static answer judge_next(config_t *config, const state_t *state, uint32_t process, const record_t *record)
{
  const process_t *self = &state->processes[process];
  if (record->change)
    return is_installed(state, record) || config->variant == BUSQ_GROUPS_READER_LEAVES ? COUNTS : WAITS;
  if (config->variant == BUSQ_GROUPS_NAIVE)
    return COUNTS;
  if (config->variant == BUSQ_GROUPS_BY_WORD && is_for_member(record, process))
    return state->head.number == record->view ? COUNTS : PASSED_OVER;
  if (is_for_member(record, process))
    return self->view > record->view ? PASSED_OVER : COUNTS;
  return config->variant == BUSQ_GROUPS_BLIND_NAMED ? COUNTS : ask(config, state, record);
}

static void play_deliver(config_t *config, state_t *state, uint32_t process)
{
  uint32_t blocker;
  process_t *self = &state->processes[process];
  record_t *record = &state->records[next_of(config, state, process, &blocker)];
  const answer found = judge_next(config, state, process, record);
  record->queued &= (uint8_t)~(1u << process);
  if (found == COUNTS_PUT_OFF)
    record_put_off(&state->records[claimed(state)]);
  if (found == PASSED_OVER)
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

/* Nobody will look at it again. */
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

/* Whether anybody may still ask for the key of the change that ended the view. */
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

/* Whoever wants to change the group gets what is in its way out of it. */
static void find_wanted(finder *self, uint32_t process)
{
  config_t *config = self->config;
  const state_t *state = self->state;
  const process_t *one = &state->processes[process];
  const uint32_t at = claimed(state);
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
  if (config->whole && (!stages || is_for_one(record)) && is_tied(self->state, hand, propose(config, self->state, record)))
    add(self, kind, process, 1, hand);
}

static void find_doings(finder *self, uint32_t process)
{
  config_t *config = self->config;
  const state_t *state = self->state;
  const process_t *one = &state->processes[process];
  const uint32_t hand = hand_of(state, process);
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
    if (ask(config, state, &state->records[hand]) != WAITS)
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
  const uint32_t next = next_of(config, state, process, &blocker);
  if (next != NONE && judge_next(config, state, process, &state->records[next]) != WAITS)
    add(self, BUSQ_GROUPS_DELIVER, process, 0, next);
}

/* Who brings a sealed record to its end: its owner, whoever has it in a queue or waits for it, and for the dead everybody. */
static bool completes(config_t *config, const state_t *state, uint32_t process, uint32_t at)
{
  const record_t *record = &state->records[at];
  const process_t *self = &state->processes[process];
  if (record->owner == process)
    return true;
  if (config->variant == BUSQ_GROUPS_NO_HELP)
    return false;
  return has(record->queued, process) || has(state->head.dead, record->owner) ||
         (claimed(state) == at && (self->place == BUSQ_GROUPS_WANTS || self->place == BUSQ_GROUPS_RETURNS));
}

/* Who installs a change: its owner, whoever waits for it, and who is to deliver it. */
static bool installs(config_t *config, const state_t *state, uint32_t process, uint32_t at)
{
  const process_t *self = &state->processes[process];
  uint32_t blocker;
  if (state->records[at].owner == process && state->records[at].is_in_hand)
    return true;
  if (self->place == BUSQ_GROUPS_AGAIN && self->seen == state->head.number)
    return config->variant != BUSQ_GROUPS_NO_INSTALL;
  return self->place == BUSQ_GROUPS_WANTS || next_of(config, state, process, &blocker) == at;
}

static bool puts_off(config_t *config, const state_t *state, uint32_t process, uint32_t at)
{
  const record_t *record = &state->records[at];
  uint32_t blocker;
  if (!has(record->queued, process))
    return false;
  if (!runs(state, record->owner))
    return true;
  (void)next_of(config, state, process, &blocker);
  bool is_kept_waiting = false;
  for (uint32_t other = 0; other < state->head.n_records; other++)
    is_kept_waiting |= has(state->records[other].queued, process) && state->records[other].phase == BUSQ_GROUPS_COMMITTED;
  return is_kept_waiting && blocker == at && record->n_put_off < config->put_offs;
}

/* What anybody may do with a record, once, by the first one who can, its owner before all. */
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

/* A delivery that no other process can tell from one a little later: its outcome is settled by what its process has delivered, or by
 * a change that is installed.  So is a look back at a view that is over. */
bool busq_groups_is_quiet(config_t *config, const state_t *state, const busq_groups_move *move)
{
  if (move->kind != BUSQ_GROUPS_DELIVER && move->kind != BUSQ_GROUPS_RETURN)
    return false;
  const record_t *record = &state->records[move->what];
  if (config->variant == BUSQ_GROUPS_BY_WORD || config->variant == BUSQ_GROUPS_BY_NUMBER)
    return false;
  if (move->kind == BUSQ_GROUPS_RETURN)
    return state->head.number > record->view;
  return record->change ? is_installed(state, record)
                           : is_for_member(record, move->process) || state->head.number > record->view;
}

/* ---- in words ---- */

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
    step->time = config->whole ? propose(config, state, record) : max_of(record->proposal, record->highest) + 1u;
  if (move->kind == BUSQ_GROUPS_DELIVER)
    step->outcome = judge_next(config, state, move->process, record);
  if (move->kind == BUSQ_GROUPS_RETURN)
    step->outcome = ask(config, state, record);
  if (move->kind != BUSQ_GROUPS_STAGE || self->place != BUSQ_GROUPS_STAGES)
    return;
  step->other = busq_groups_next_stage(config, record);
  step->time = record->proposal ? record->proposal : propose(config, state, record);
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
