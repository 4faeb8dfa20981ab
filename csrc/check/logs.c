/* SPDX-License-Identifier: Apache-2.0 */
#include "check/logs.h"

enum { NONE = UINT8_MAX };

static uint32_t n_logged(const busq_model *model, const void *state, uint32_t process)
{
  return busq_model_process_of(model, state, process)->n_logged;
}

static uint32_t index_of(uint8_t logged)
{
  return logged & ~(uint32_t)BUSQ_MODEL_SEND;
}

/* ---- cycles of messages ---- */

/* Whether the logs of all processes together have a cycle, with the sends of what was delivered somewhere, or without. */
static bool has_cycle(const busq_model *model, const void *state, bool with_sends)
{
  uint32_t after[BUSQ_MODEL_MESSAGES_MAX] = {0};
  for (uint32_t process = 0; process < model->config.n_processes; process++) {
    const uint8_t *log = busq_model_log_of(model, state, process);
    uint32_t before = NONE;
    for (uint32_t place = 0; place < n_logged(model, state, process); place++) {
      const uint32_t index = index_of(log[place]);
      if (log[place] & BUSQ_MODEL_SEND && !(with_sends && busq_model_message_at(model, state, index)->delivered))
        continue;
      if (before != NONE && before != index) /* sent to oneself, and delivered at once */
        after[before] |= 1u << index;
      before = index;
    }
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

/* By message: those that were delivered before it at some process. */
static void look_before(const busq_model *model, const void *state, uint32_t *before)
{
  for (uint32_t process = 0; process < model->config.n_processes; process++) {
    const uint8_t *log = busq_model_log_of(model, state, process);
    uint32_t seen = 0;
    for (uint32_t place = 0; place < n_logged(model, state, process); place++) {
      if (log[place] & BUSQ_MODEL_SEND)
        continue;
      before[log[place]] |= seen;
      seen |= 1u << log[place];
    }
  }
}

/* Whether each of two messages was delivered before the other somewhere. */
static bool is_inconsistent(const busq_model *model, const uint32_t *before)
{
  for (uint32_t first = 0; first < model->n_all; first++)
    for (uint32_t second = 0; second < first; second++)
      if (before[first] & 1u << second && before[second] & 1u << first)
        return true;
  return false;
}

/* ---- the events once more ---- */

typedef enum { NO_QUEUES, PER_RECEIVER, PER_SENDER } queues;

typedef struct {
  const busq_model *model;
  const void *state;
  const uint32_t *before; /* by message: delivered before it */
  queues queues;
  uint32_t n_taken[BUSQ_MODEL_PROCESSES_MAX]; /* of each log */
  uint32_t sent;                              /* messages, as all sets here */
  uint8_t delivered[BUSQ_MODEL_MESSAGES_MAX]; /* by message: at which processes */
  uint32_t knows[BUSQ_MODEL_PROCESSES_MAX];   /* by process: sent in its past */
  uint32_t has_seen[BUSQ_MODEL_PROCESSES_MAX]; /* delivered somewhere in its past */
  uint32_t known[BUSQ_MODEL_MESSAGES_MAX], seen[BUSQ_MODEL_MESSAGES_MAX]; /* the same, of its send */
  uint32_t past[BUSQ_MODEL_MESSAGES_MAX]; /* by message: sent before some delivery of it */
  bool breaks_c2;
} replay;

/* The messages that its sender sent before it, or after it. */
static uint32_t siblings(const replay *self, uint32_t index, bool are_later)
{
  const uint32_t first = index - index % self->model->config.n_messages;
  const uint8_t stamp = busq_model_message_at(self->model, self->state, index)->stamp;
  uint32_t set = 0;
  for (uint32_t other = first; other < first + self->model->config.n_messages; other++) {
    const uint8_t its_own = busq_model_message_at(self->model, self->state, other)->stamp;
    if (its_own && (are_later ? its_own > stamp : its_own < stamp))
      set |= 1u << other;
  }
  return set;
}

/* A phantom waits for nothing: it has no send. */
static bool may_be_taken(const replay *self, uint8_t logged)
{
  const uint32_t index = index_of(logged);
  if (logged & BUSQ_MODEL_SEND)
    return self->queues != PER_RECEIVER || !(self->before[index] & ~self->sent);
  if (!busq_model_message_at(self->model, self->state, index)->stamp)
    return true;
  uint32_t rest = self->queues == PER_SENDER ? siblings(self, index, false) : 0;
  for (; rest; rest &= rest - 1) {
    const uint32_t other = (uint32_t)__builtin_ctz(rest);
    if (self->delivered[other] != busq_model_message_at(self->model, self->state, other)->delivered)
      return false;
  }
  return self->sent & 1u << index;
}

static void take(replay *self, uint32_t process, uint8_t logged)
{
  const uint32_t index = index_of(logged);
  if (logged & BUSQ_MODEL_SEND) {
    self->sent |= 1u << index;
    self->knows[process] |= 1u << index;
    self->known[index] = self->knows[process];
    self->seen[index] = self->has_seen[process];
    return;
  }
  self->knows[process] |= self->known[index];
  self->has_seen[process] |= self->seen[index];
  self->past[index] |= self->knows[process];
  const bool is_expected = busq_model_message_at(self->model, self->state, index)->destinations & 1u << process;
  self->breaks_c2 |= is_expected && self->has_seen[process] & siblings(self, index, true);
  self->has_seen[process] |= 1u << index;
  self->delivered[index] |= (uint8_t)(1u << process);
}

/* Whether all could be taken. */
static bool take_all(replay *self)
{
  bool is_whole, goes_on;
  do {
    is_whole = true;
    goes_on = false;
    for (uint32_t process = 0; process < self->model->config.n_processes; process++) {
      const uint8_t *log = busq_model_log_of(self->model, self->state, process);
      const uint32_t count = n_logged(self->model, self->state, process);
      while (self->n_taken[process] < count && may_be_taken(self, log[self->n_taken[process]])) {
        take(self, process, log[self->n_taken[process]++]);
        goes_on = true;
      }
      is_whole = is_whole && self->n_taken[process] == count;
    }
  } while (goes_on && !is_whole);
  return is_whole;
}

static bool has_crown_of_two(const replay *self)
{
  for (uint32_t first = 0; first < self->model->n_all; first++)
    for (uint32_t second = 0; second < first; second++)
      if (self->past[first] & 1u << second && self->past[second] & 1u << first)
        return true;
  return false;
}

/* ---- one queue for all ---- */

enum { POINTS = 2 * BUSQ_MODEL_MESSAGES_MAX }; /* a message's send, and, so many further on, all its deliveries */

static void close(uint64_t *after)
{
  for (uint32_t middle = 0; middle < POINTS; middle++)
    for (uint32_t first = 0; first < POINTS; first++)
      if (after[first] >> middle & 1)
        after[first] |= after[middle];
}

static bool has_no_common_queue(const busq_model *model, const void *state)
{
  const uint32_t further = BUSQ_MODEL_MESSAGES_MAX;
  uint64_t after[POINTS] = {0};
  for (uint32_t index = 0; index < model->n_all; index++)
    after[index] = UINT64_C(1) << (index + further);
  for (uint32_t process = 0; process < model->config.n_processes; process++) {
    const uint8_t *log = busq_model_log_of(model, state, process);
    for (uint32_t place = 1; place < n_logged(model, state, process); place++) {
      const uint32_t before = index_of(log[place - 1]) + (log[place - 1] & BUSQ_MODEL_SEND ? 0 : further);
      after[before] |= UINT64_C(1) << (index_of(log[place]) + (log[place] & BUSQ_MODEL_SEND ? 0 : further));
    }
  }
  for (bool is_closed = false; !is_closed;) {
    close(after);
    is_closed = true;
    for (uint32_t index = 0; index < model->n_all; index++) {
      if (after[index] >> index & 1 || after[index + further] >> (index + further) & 1)
        return true;
      const uint64_t missing = after[index + further] >> further & ~after[index];
      is_closed = is_closed && !missing;
      after[index] |= missing;
    }
  }
  return false;
}

/* ---- nodes ---- */

/* Where messages and the end of a node were delivered. */
typedef struct {
  const busq_model *model;
  const void *state;
  uint32_t node;
  uint32_t end;         /* NONE: it was not sent */
  uint32_t came_before; /* messages that some process delivered before the end, */
  uint32_t came_behind; /* and behind it: sets of bits */
} node_logs;

static uint32_t end_of(const busq_model *model, const void *state, uint32_t node)
{
  for (uint32_t index = 0; index < model->n_all; index++)
    if (busq_model_message_at(model, state, index)->part == busq_node_part(node, true))
      return index;
  return NONE;
}

static bool has_handle(const node_logs *self, uint32_t index)
{
  return busq_model_message_at(self->model, self->state, index)->part == busq_node_part(self->node, false);
}

static bool came_alive(const node_logs *self, uint32_t index, uint32_t process)
{
  return has_handle(self, index) && !(busq_model_message_at(self->model, self->state, index)->dead >> process & 1);
}

/* Takes a log, and returns whether the notice of the end has come where it should not, or not where it should. */
static bool misses_notice(node_logs *self, uint32_t process)
{
  const uint8_t *log = busq_model_log_of(self->model, self->state, process);
  bool is_holder = process == BUSQ_NODE_OWNER, has_ended = false, is_wrong = false;
  uint32_t seen = 0;
  for (uint32_t place = 0; place < n_logged(self->model, self->state, process); place++) {
    const uint32_t index = log[place];
    if (index & BUSQ_MODEL_SEND)
      continue;
    if (index == self->end) {
      has_ended = true;
      self->came_before |= seen;
      is_wrong = is_holder == (busq_model_message_at(self->model, self->state, index)->passed >> process & 1);
      continue;
    }
    seen |= 1u << index;
    self->came_behind |= has_ended ? 1u << index : 0;
    is_holder |= came_alive(self, index, process);
  }
  return is_wrong;
}

/* Whether it was passed over, or came with a dead handle, though it stands before the end, or not, though behind. */
static bool is_misjudged(const node_logs *self, uint32_t index, bool is_dead)
{
  const uint32_t me = 1u << index;
  return is_dead ? self->end == NONE || self->came_before & me : self->came_behind & me;
}

static uint32_t judge_message(const node_logs *self, uint32_t index)
{
  const busq_model_message *message = busq_model_message_at(self->model, self->state, index);
  const uint32_t owner = 1u << BUSQ_NODE_OWNER;
  uint32_t faults = message->dead & owner ? 1u << BUSQ_CHECK_NODE : 0;
  faults |= message->passed & ~owner ? 1u << BUSQ_CHECK_HANDLE : 0;
  if (message->delivered & owner && is_misjudged(self, index, message->passed & owner))
    faults |= 1u << BUSQ_CHECK_NODE;
  for (uint32_t rest = message->delivered & ~owner; rest; rest &= rest - 1)
    if (is_misjudged(self, index, message->dead & (rest & -rest)))
      faults |= 1u << BUSQ_CHECK_HANDLE;
  return faults;
}

static uint32_t judge_node(const busq_model *model, const void *state, uint32_t node)
{
  node_logs self = {.model = model, .state = state, .node = node, .end = end_of(model, state, node)};
  uint32_t faults = 0;
  for (uint32_t process = 0; process < model->config.n_processes; process++)
    faults |= misses_notice(&self, process) ? 1u << BUSQ_CHECK_HANDLE : 0;
  for (uint32_t index = 0; index < model->n_all; index++)
    faults |= has_handle(&self, index) ? judge_message(&self, index) : 0;
  return faults;
}

static uint32_t judge_nodes(const busq_model *model, const void *state)
{
  uint32_t faults = 0;
  for (uint32_t node = 1; node <= model->config.n_messages; node++)
    faults |= judge_node(model, state, node);
  for (uint32_t index = 0; index < model->n_all; index++) {
    const busq_model_message *message = busq_model_message_at(model, state, index);
    faults |= !busq_node_of(message->part) && (message->passed | message->dead) ? 1u << BUSQ_CHECK_NODE : 0;
  }
  return faults;
}

/* ---- all together ---- */

static uint32_t judge_replays(const busq_model *model, const void *state, const uint32_t *before)
{
  uint32_t faults = 0;
  replay plain = {.model = model, .state = state, .before = before};
  if (model->watched & (1u << BUSQ_PROPERTY_C2 | 1u << BUSQ_PROPERTY_MYSTERIOUS)) {
    (void)take_all(&plain);
    faults |= plain.breaks_c2 ? 1u << BUSQ_PROPERTY_C2 : 0;
    faults |= has_crown_of_two(&plain) ? 1u << BUSQ_PROPERTY_MYSTERIOUS : 0;
  }
  replay mailbox = {.model = model, .state = state, .before = before, .queues = PER_RECEIVER};
  if (model->watched & 1u << BUSQ_CHECK_MAILBOX && !take_all(&mailbox))
    faults |= 1u << BUSQ_CHECK_MAILBOX;
  replay senders = {.model = model, .state = state, .before = before, .queues = PER_SENDER};
  if (model->watched & 1u << BUSQ_CHECK_ONE_TO_N && !take_all(&senders))
    faults |= 1u << BUSQ_CHECK_ONE_TO_N;
  return faults;
}

uint32_t busq_model_judge_logs(const busq_model *model, const void *state)
{
  const uint32_t watched = model->watched;
  uint32_t before[BUSQ_MODEL_MESSAGES_MAX] = {0};
  uint32_t faults = 0;
  if (watched & 1u << BUSQ_PROPERTY_SYNCHRONOUS && has_cycle(model, state, true))
    faults |= 1u << BUSQ_PROPERTY_SYNCHRONOUS;
  look_before(model, state, before);
  if (watched & 1u << BUSQ_PROPERTY_CONSISTENT && is_inconsistent(model, before))
    faults |= 1u << BUSQ_PROPERTY_CONSISTENT;
  if (watched & 1u << BUSQ_PROPERTY_TOTAL && has_cycle(model, state, false))
    faults |= 1u << BUSQ_PROPERTY_TOTAL;
  if (watched & 1u << BUSQ_CHECK_N_TO_N && has_no_common_queue(model, state))
    faults |= 1u << BUSQ_CHECK_N_TO_N;
  if (watched & (1u << BUSQ_CHECK_NODE | 1u << BUSQ_CHECK_HANDLE))
    faults |= judge_nodes(model, state);
  return (faults | judge_replays(model, state, before)) & watched;
}
