/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search through the model of groups: level by level, so that the first violation is a shortest one; or depth
 * first, in less memory, which finds whether there is one, and not how it comes about.
 *
 * Of a state that was seen 64 bits are kept, as in check/seen.h.  Level by level besides: of the level that is searched
 * and of the next one the states themselves, packed; and of every state the move that led to it and its parent, for the
 * way of a witness.  Depth first: the states that are still to be looked at, packed, as a stack.
 */
#include "base/error.h"
#include "base/time.h"
#include "check/groups_model.h"
#include "check/packed.h"
#include "check/seen.h"
#include "check/store.h"
#include <stdlib.h>
#include <string.h>

enum {
  MEMORY_BYTES_MIN = 1 << 20,
  STATES_PER_LOOK = 256, /* between two looks at the clock */
  DEPTH_MAX = 512
};

typedef struct {
  busq_store states;
  uint64_t count;
  uint64_t next; /* the one that is looked at, */
  size_t at;     /* and where it stands */
} row;

/* How a state came about: the move, and which state of the level before it was made from. */
typedef struct {
  uint32_t parent;
  busq_groups_move move;
} origin;

struct busq_groups_check {
  busq_groups_config config;
  busq_account account;
  busq_seen seen;
  row rows[2];
  busq_store origins;
  uint32_t depth;
  uint64_t first_of_level[DEPTH_MAX + 1]; /* among the origins */
  atomic_bool must_stop;   /* never: for the set */
  busq_groups_facts facts;
  busq_groups_finding finding;
  busq_groups_step steps[DEPTH_MAX];
  uint32_t n_steps;
};

/* ---- states ---- */

/* Before a packed state stands how long it is, packed and not. */
typedef struct {
  uint16_t bytes;
  uint16_t n_words;
} packing;

static bool push(row *self, const busq_groups_state *state)
{
  const size_t at = self->states.used_bytes;
  packing head = {.n_words = (uint16_t)(busq_groups_bytes(state) / sizeof(uint64_t))};
  if (!busq_store_grow(&self->states, at + sizeof head + busq_pack_bytes_max(head.n_words)))
    return false;
  uint8_t *packed = (uint8_t *)self->states.bytes + at + sizeof head;
  head.bytes = (uint16_t)busq_pack((const uint64_t *)(const void *)state, head.n_words, packed);
  memcpy(self->states.bytes + at, &head, sizeof head);
  self->states.used_bytes = at + sizeof head + head.bytes;
  self->count++;
  return true;
}

static void pull(row *self, busq_groups_state *state)
{
  packing head;
  memcpy(&head, self->states.bytes + self->at, sizeof head);
  memset(state, 0, sizeof *state);
  busq_unpack((const uint8_t *)self->states.bytes + self->at + sizeof head, (uint64_t *)(void *)state, head.n_words);
  self->at += sizeof head + head.bytes;
  self->next++;
}

/* ---- depth first: the first row is the stack ---- */

/* Behind each state. */
typedef struct {
  uint32_t bytes;
  uint32_t depth;
} frame;

static bool stack_push(row *self, const busq_groups_state *state, uint32_t depth)
{
  const size_t begin = self->states.used_bytes;
  if (!push(self, state))
    return false;
  const size_t end = self->states.used_bytes;
  const frame mine = {.bytes = (uint32_t)(end - begin), .depth = depth};
  if (!busq_store_grow(&self->states, end + sizeof mine))
    return false;
  memcpy(self->states.bytes + end, &mine, sizeof mine);
  return true;
}

/* Its depth. */
static uint32_t stack_pop(row *self, busq_groups_state *state)
{
  frame top;
  const size_t end = self->states.used_bytes - sizeof top;
  memcpy(&top, self->states.bytes + end, sizeof top);
  self->at = end - top.bytes;
  pull(self, state);
  self->states.used_bytes = end - top.bytes;
  self->count--;
  return top.depth;
}

/* ---- the witness ---- */

static void tell_steps(busq_groups_check *check, uint64_t place, const busq_groups_move *last, busq_groups_state *state)
{
  const origin *origins = (const origin *)(const void *)check->origins.bytes;
  busq_groups_move moves[DEPTH_MAX];
  uint32_t count = check->depth + (last != NULL);
  check->n_steps = count;
  if (last)
    moves[check->depth] = *last;
  for (uint32_t at = check->depth; at > 0; at--) {
    const origin *one = &origins[check->first_of_level[at] + place];
    moves[at - 1] = one->move;
    place = one->parent;
  }
  busq_groups_start(&check->config, state);
  state->head.serial = 1;
  for (uint32_t at = 0; at < count; at++) {
    const uint8_t serial = state->head.serial;
    busq_groups_describe(&check->config, state, &moves[at], &check->steps[at]);
    (void)busq_groups_play(&check->config, state, &moves[at]);
    if (state->head.serial != serial)
      check->steps[at].record = serial;
  }
}

/* The moves are played once more, with all names and times as they are; that has to come to the same. */
static void found(busq_groups_check *check, uint32_t faults, uint64_t place, const busq_groups_move *last)
{
  busq_groups_state state;
  check->facts.faults |= faults;
  check->facts.is_over = 1;
  if (check->config.depth_first)
    return;
  tell_steps(check, place, last, &state);
  check->finding.fault = (uint32_t)__builtin_ctz(faults);
  if (check->finding.fault < BUSQ_GROUPS_STUCK)
    (void)busq_groups_judge(&check->config, &state, last == NULL, &check->finding);
}

/* ---- one state ---- */

static bool add_origin(busq_groups_check *check, uint64_t parent, const busq_groups_move *move)
{
  const size_t at = check->origins.used_bytes;
  if (!busq_store_grow(&check->origins, at + sizeof(origin)))
    return false;
  *(origin *)(void *)(check->origins.bytes + at) = (origin){.parent = (uint32_t)parent, .move = *move};
  return true;
}

static bool stop_full(busq_groups_check *check)
{
  check->facts.is_full = check->facts.is_over = 1;
  return false;
}

static bool keep(busq_groups_check *check, uint64_t place, const busq_groups_state *state, const busq_groups_move *move)
{
  if (check->config.depth_first)
    return stack_push(&check->rows[0], state, check->depth + 1);
  return push(&check->rows[(check->depth + 1) % 2], state) && add_origin(check, place, move);
}

/* A successor: judged, if it is new, and kept.  False where the search ends. */
static bool visit(busq_groups_check *check, uint64_t place, const busq_groups_state *from, const busq_groups_move *move)
{
  busq_groups_state state = *from;
  check->facts.total++;
  if (!busq_groups_play(&check->config, &state, move)) {
    check->facts.is_too_small = check->facts.is_over = 1;
    return false;
  }
  busq_groups_lower_times(&check->config, &state);
  uint32_t faults = state.head.is_endless ? 1u << BUSQ_GROUPS_ENDLESS : 0;
  if (!faults && busq_groups_is_seen(move))
    faults = busq_groups_judge(&check->config, &state, false, NULL);
  if (faults) {
    found(check, faults, place, move);
    return false;
  }
  if (check->config.reduces)
    busq_groups_forget(&check->config, &state);
  if (!busq_seen_draw(&check->seen, 1) &&
      (!busq_seen_grow(&check->seen, &check->must_stop) || !busq_seen_draw(&check->seen, 1)))
    return stop_full(check);
  if (!busq_seen_add(&check->seen, busq_groups_fingerprint(&check->config, &state))) {
    atomic_fetch_add_explicit(&check->seen.room, 1, memory_order_relaxed);
    return true;
  }
  check->facts.unique++;
  if (check->facts.depth_max <= check->depth)
    check->facts.depth_max = check->depth + 1;
  return keep(check, place, &state, move) || stop_full(check);
}

/* A state in which no process owes anything is an end, whatever may begin, or befall, after it. */
static bool judge_end(busq_groups_check *check, uint64_t place, const busq_groups_state *state)
{
  uint32_t faults = 0;
  check->facts.ends++;
  if (busq_groups_is_stuck(&check->config, state)) {
    faults = 1u << BUSQ_GROUPS_STUCK;
  } else {
    faults = busq_groups_judge(&check->config, state, true, NULL);
  }
  if (faults)
    found(check, faults, place, NULL);
  return !faults;
}

/* Whether two moves are the same step, with the one outcome or the other: before or behind what has its time. */
static bool is_same_step(const busq_groups_move *one, const busq_groups_move *other)
{
  return one->kind == other->kind && one->process == other->process && one->what == other->what;
}

/* A step that can come before all others. */
static bool expand_quiet(busq_groups_check *check, uint64_t place, const busq_groups_state *state, const busq_groups_move *moves,
                         uint32_t count)
{
  for (uint32_t at = 0; at < count && is_same_step(&moves[0], &moves[at]); at++)
    if (!visit(check, place, state, &moves[at]))
      return false;
  return true;
}

static bool expand(busq_groups_check *check, uint64_t place, const busq_groups_state *state)
{
  busq_groups_move moves[BUSQ_GROUPS_MOVES_MAX];
  const uint32_t count = busq_groups_moves(&check->config, state, moves);
  bool is_owed = false;
  for (uint32_t at = 0; at < count && check->config.reduces; at++)
    if (busq_groups_is_quiet(&check->config, state, &moves[at]))
      return expand_quiet(check, place, state, &moves[at], count - at);
  for (uint32_t at = 0; at < count; at++)
    is_owed |= busq_groups_is_owed(state, &moves[at]);
  if (!is_owed && !judge_end(check, place, state))
    return false;
  for (uint32_t at = 0; at < count; at++)
    if (!visit(check, place, state, &moves[at]))
      return false;
  return true;
}

/* ---- the search ---- */

static void next_level(busq_groups_check *check)
{
  row *done = &check->rows[check->depth % 2];
  check->first_of_level[check->depth + 1] = check->first_of_level[check->depth] + done->count;
  busq_store_clear(&done->states);
  done->count = done->next = done->at = 0;
  check->depth++;
  row *next = &check->rows[check->depth % 2];
  if (!next->count)
    check->facts.is_over = check->facts.is_complete = 1;
  else if (check->depth >= DEPTH_MAX - 1)
    check->facts.is_over = check->facts.is_too_small = 1;
}

static void look_at_level(busq_groups_check *check)
{
  row *level = &check->rows[check->depth % 2];
  if (level->next == level->count) {
    next_level(check);
    return;
  }
  busq_groups_state state;
  const uint64_t place = level->next;
  pull(level, &state);
  (void)expand(check, place, &state);
}

static void look_at_top(busq_groups_check *check)
{
  busq_groups_state state;
  if (!check->rows[0].count) {
    check->facts.is_over = check->facts.is_complete = 1;
    return;
  }
  check->depth = stack_pop(&check->rows[0], &state);
  (void)expand(check, 0, &state);
}

int busq_groups_check_advance(busq_groups_check *check, uint64_t slice_ns)
{
  const uint64_t end_ns = busq_time_now_ns() + slice_ns;
  for (uint32_t looked = 0; !check->facts.is_over; looked++) {
    if (looked % STATES_PER_LOOK == STATES_PER_LOOK - 1 && busq_time_now_ns() >= end_ns)
      return BUSQ_INTERRUPTED;
    if (check->config.depth_first)
      look_at_top(check);
    else
      look_at_level(check);
  }
  return BUSQ_OK;
}

/* ---- beginning and end ---- */

static int check_bounds(const busq_groups_config *config)
{
  const struct {
    const char *what;
    uint32_t found, least, most;
  } bounds[] = {{"processes", config->processes, 2, BUSQ_GROUPS_PROCESSES_MAX},
                {"members at the beginning", config->members, 0, config->processes},
                {"changes of views", config->changes, 0, BUSQ_GROUPS_CHANGES_MAX},
                {"messages", config->messages, 0, BUSQ_GROUPS_MESSAGES_MAX},
                {"kills", config->kills, 0, config->changes},
                {"stops", config->stops, 0, config->processes},
                {"times that a sender is put off", config->put_offs, 0, 8},
                {"as the rule that is left out", config->variant, 0, BUSQ_N_GROUPS_VARIANTS - 1}};
  for (size_t at = 0; at < sizeof bounds / sizeof *bounds; at++)
    if (bounds[at].found < bounds[at].least || bounds[at].found > bounds[at].most)
      return busq_error(BUSQ_INVALID, "%u %s: expected %u to %u", bounds[at].found, bounds[at].what, bounds[at].least,
                        bounds[at].most);
  if (config->memory_bytes < MEMORY_BYTES_MIN)
    return busq_error(BUSQ_INVALID, "%llu bytes of memory: expected at least %d",
                      (unsigned long long)config->memory_bytes, MEMORY_BYTES_MIN);
  return BUSQ_OK;
}

static bool begin(busq_groups_check *check)
{
  busq_groups_state state;
  const uint64_t bytes = check->config.memory_bytes;
  const busq_groups_move none = {0};
  check->account.limit_bytes = bytes;
  if (!busq_seen_init(&check->seen, &check->account, bytes) || !busq_store_init(&check->origins, &check->account, bytes))
    return false;
  for (uint32_t which = 0; which < 2; which++)
    if (!busq_store_init(&check->rows[which].states, &check->account, bytes))
      return false;
  busq_groups_start(&check->config, &state);
  busq_seen_add(&check->seen, busq_groups_fingerprint(&check->config, &state));
  check->facts.unique = check->facts.total = 1;
  if (check->config.depth_first)
    return stack_push(&check->rows[0], &state, 0);
  return push(&check->rows[0], &state) && add_origin(check, 0, &none);
}

int busq_groups_check_new(const busq_groups_config *config, busq_groups_check **checkp)
{
  const int result = check_bounds(config);
  if (result != BUSQ_OK)
    return result;
  busq_groups_check *check = calloc(1, sizeof *check);
  if (!check)
    return busq_error(BUSQ_NO_SPACE, "no memory for a search");
  check->config = *config;
  if (!begin(check)) {
    busq_groups_check_free(check);
    return busq_error(BUSQ_NO_SPACE, "no memory for a search of %llu bytes", (unsigned long long)config->memory_bytes);
  }
  *checkp = check;
  return BUSQ_OK;
}

void busq_groups_check_free(busq_groups_check *check)
{
  if (!check)
    return;
  busq_seen_deinit(&check->seen);
  busq_store_deinit(&check->origins);
  for (uint32_t which = 0; which < 2; which++)
    busq_store_deinit(&check->rows[which].states);
  free(check);
}

void busq_groups_check_examine(const busq_groups_check *check, busq_groups_facts *facts)
{
  *facts = check->facts;
  facts->memory_bytes = atomic_load(&check->account.most_bytes);
  facts->missed_expected = (double)facts->unique * (double)facts->unique / 2 / 18446744073709551616.0;
}

const busq_groups_step *busq_groups_check_witness(busq_groups_check *check, size_t *countp, busq_groups_finding *finding)
{
  if (!check->facts.faults || check->config.depth_first)
    return NULL;
  *countp = check->n_steps;
  *finding = check->finding;
  return check->steps;
}
