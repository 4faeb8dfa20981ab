/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_TEST_TRACES_H
#define BUSQ_TEST_TRACES_H
/*
 * The traces of an order, counted without making the executions (tests/c/traces.c has what they are good for).
 *
 * Mechanism: of the executions of a trace exactly one comes through with sleep sets.  What comes of a state and its sleep set depends on
 * nothing else, so it is found once, and added up.
 */
#include "base/hash.h"
#include "check/fingerprint.h"
#include "check/reduce.h"
#include "check/state.h"
#include <stdio.h>
#include <stdlib.h>

enum { DEPTH_MAX = 100, ASLEEP_MAX = 512 };

_Noreturn static void fail(const char *why, const char *what)
{
  fprintf(stderr, "traces: %s: %s\n", what, why);
  exit(2);
}

/* ---- what is known of a pair ---- */

typedef struct {
  uint64_t key; /* 0: free */
  double traces; /* -1: it is being counted */
  double steps;
} known;

static struct {
  known *slots;
  uint64_t n_slots, count, limit_bytes;
} table;

static void *memory_of(size_t count, size_t bytes)
{
  void *memory = calloc(count, bytes);
  if (!memory)
    fail("no memory", "counting");
  return memory;
}

static known *slot_of(uint64_t key)
{
  uint64_t at = key & (table.n_slots - 1);
  while (table.slots[at].key && table.slots[at].key != key)
    at = (at + 1) & (table.n_slots - 1);
  return &table.slots[at];
}

static void grow(void)
{
  known *old = table.slots;
  const uint64_t n_old = table.n_slots;
  table.n_slots = n_old ? 2 * n_old : 1 << 16;
  if (table.n_slots * sizeof *old > table.limit_bytes)
    fail("memory does not suffice: give more by memory_mib, or a smaller bound", "counting");
  table.slots = memory_of(table.n_slots, sizeof *old);
  for (uint64_t at = 0; at < n_old; at++)
    if (old[at].key)
      *slot_of(old[at].key) = old[at];
  free(old);
}

/* A new one has the key 0. */
static known *find(uint64_t key)
{
  if (table.n_slots < 2 * (table.count + 1))
    grow();
  return slot_of(key);
}

static known *add(uint64_t key, known what)
{
  known *slot = find(key);
  table.count += !slot->key;
  *slot = what;
  slot->key = key;
  return slot;
}

/* ---- moves ---- */

/* A move by what it is, whatever happens elsewhere before it. */
typedef struct {
  uint64_t name;
  uint32_t process;
  bool is_death;
} identity;

typedef struct {
  uint32_t count;
  identity each[ASLEEP_MAX];
} sleepers;

static busq_model model;
static struct {
  uint64_t states, moves, pairs, pair_moves;
  uint32_t longest;
} counts;
static char *states;      /* for each depth one */
static char *room;        /* for two */
static sleepers *asleep;  /* for each depth */

static identity identity_of(const void *state, const busq_model_move *move)
{
  busq_model_move plain = *move;
  uint64_t name = 0;
  if (busq_model_move_is_of_packet(move)) {
    name = busq_hash_bytes(busq_model_packets_of(&model, state) + move->place, sizeof(busq_order_packet));
    plain.place = 0;
  }
  return (identity){.name = busq_hash_mix(name + busq_hash_bytes(&plain, sizeof plain)),
                    .process = move->process,
                    .is_death = move->cut || move->kind == BUSQ_CHECK_CRASH};
}

/* Deaths are so many in all, so one may prevent another. */
static bool depend(const identity *one, const identity *other)
{
  return one->process == other->process || (one->is_death && other->is_death);
}

static bool has(const sleepers *some, const identity *one)
{
  for (uint32_t place = 0; place < some->count; place++)
    if (some->each[place].name == one->name)
      return true;
  return false;
}

static void put(sleepers *some, const identity *one)
{
  if (some->count == ASLEEP_MAX)
    fail("too many moves", "a sleep set");
  some->each[some->count++] = *one;
}

static uint64_t key_of(uint64_t fingerprint, const sleepers *some)
{
  uint64_t sum = 0;
  for (uint32_t place = 0; place < some->count; place++)
    sum += busq_hash_mix(some->each[place].name);
  return busq_hash_mix(busq_hash_mix(fingerprint) + sum) | 1;
}

static void check_pair(const void *state, const busq_model_move *one, const busq_model_move *other)
{
  if (!busq_model_commute(&model, state, one, other, room))
    fail("moves of different processes do not commute", model.config.order->name);
}

/* Tries moves of different processes in both orders; not deaths, which take packets from under the places of others. */
static void check_independence(const void *state, const busq_model_move *moves, const identity *names, uint32_t n_moves)
{
  for (uint32_t one = 0; one < n_moves; one++)
    for (uint32_t other = 0; other < one; other++)
      if (!names[one].is_death && !names[other].is_death && !depend(&names[one], &names[other]))
        check_pair(state, &moves[one], &moves[other]);
}

/* ---- counting ---- */

static known count_from(uint32_t depth);

static void note_state(uint64_t fingerprint, const void *state, const busq_model_move *moves, const identity *names, uint32_t n_moves)
{
  const uint64_t key = busq_hash_mix(fingerprint + 1) | 1; /* and no pair */
  if (find(key)->key)
    return;
  add(key, (known){0});
  counts.states++;
  counts.moves += n_moves;
  check_independence(state, moves, names, n_moves);
}

static char *state_at(uint32_t depth)
{
  return states + depth * model.state_bytes_max;
}

/* Counts what comes of one move, with these asleep. */
static known follow(uint32_t depth, const busq_model_move *move, const identity *name, const sleepers *before)
{
  sleepers *after = &asleep[depth + 1];
  after->count = 0;
  for (uint32_t place = 0; place < before->count; place++)
    if (!depend(&before->each[place], name))
      put(after, &before->each[place]);
  memcpy(state_at(depth + 1), state_at(depth), busq_model_bytes(&model, state_at(depth)));
  if (busq_model_play(&model, state_at(depth + 1), move, NULL) != BUSQ_OK)
    fail("too many packets", "a state");
  return count_from(depth + 1);
}

static known count_moves(uint32_t depth)
{
  busq_model_move moves[BUSQ_MODEL_MOVES_MAX];
  identity *names = memory_of(BUSQ_MODEL_MOVES_MAX, sizeof *names);
  const uint32_t n_moves = busq_model_moves(&model, state_at(depth), moves);
  known sum = {.traces = !n_moves, .steps = 1};
  for (uint32_t place = 0; place < n_moves; place++)
    names[place] = identity_of(state_at(depth), &moves[place]);
  note_state(busq_model_fingerprint(&model, state_at(depth)), state_at(depth), moves, names, n_moves);
  counts.longest = depth > counts.longest ? depth : counts.longest;
  for (uint32_t place = 0; place < n_moves; place++) {
    if (has(&asleep[depth], &names[place]))
      continue;
    counts.pair_moves++;
    const known next = follow(depth, &moves[place], &names[place], &asleep[depth]);
    sum.traces += next.traces;
    sum.steps += next.traces > 0 ? next.steps : 0; /* an optimal search goes no way that others have gone */
    put(&asleep[depth], &names[place]);
  }
  free(names);
  return sum;
}

static known count_from(uint32_t depth)
{
  if (depth == DEPTH_MAX)
    fail("an execution is too long", model.config.order->name);
  const uint64_t key = key_of(busq_model_fingerprint(&model, state_at(depth)), &asleep[depth]);
  const known *found = find(key);
  if (found->key && found->traces < 0)
    fail("executions go in circles", model.config.order->name);
  if (found->key)
    return *found;
  add(key, (known){.traces = -1});
  counts.pairs++;
  return *add(key, count_moves(depth));
}

/* Counts all from the start, for config; of one model at a time. */
static known traces_count(const busq_model_config *config, uint64_t memory_bytes)
{
  if (busq_model_init(&model, config) != BUSQ_OK)
    fail(busq_error_text(), config->order->name);
  memset(&counts, 0, sizeof counts);
  memset(&table, 0, sizeof table);
  table.limit_bytes = memory_bytes;
  states = memory_of(DEPTH_MAX + 1, model.state_bytes_max);
  room = memory_of(2, model.state_bytes_max);
  asleep = memory_of(DEPTH_MAX + 1, sizeof *asleep);
  busq_model_start(&model, states);
  const known all = count_from(0);
  free(states);
  free(room);
  free(asleep);
  free(table.slots);
  return all;
}

#endif /* BUSQ_TEST_TRACES_H */
