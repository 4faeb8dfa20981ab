/* SPDX-License-Identifier: Apache-2.0 */
/* Depth first through all states; explore.h describes what is left out. */
#include "explore/explore.h"
#include "explore/choices.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a set of hashes: open addressing, at most two thirds full ---- */

typedef struct {
  busq_memory_hash *entries;
  uint64_t size;
  uint64_t count;
} hash_set;

/* True if it was not there. */
static bool hash_set_add(hash_set *set, busq_memory_hash hash)
{
  if (set->count * 3 >= set->size * 2) {
    const hash_set old = *set;
    set->size = old.size ? old.size * 2 : 1 << 12;
    set->count = 0;
    set->entries = calloc(set->size, sizeof *set->entries);
    if (!set->entries) {
      fprintf(stderr, "no memory for %" PRIu64 " states\n", set->size);
      exit(2);
    }
    for (uint64_t i = 0; i < old.size; i++)
      if (old.entries[i].a)
        (void)hash_set_add(set, old.entries[i]);
    free(old.entries);
  }
  hash.a |= 1; /* zero is none */
  uint64_t at = hash.b & (set->size - 1);
  for (; set->entries[at].a; at = (at + 1) & (set->size - 1))
    if (set->entries[at].a == hash.a && set->entries[at].b == hash.b)
      return false;
  set->entries[at] = hash;
  set->count++;
  return true;
}

static void hash_set_clear(hash_set *set)
{
  free(set->entries);
  memset(set, 0, sizeof *set);
}

/* ---- the search ---- */

typedef struct {
  choice choices[CHOICES_MAX];
  uint32_t count;
  uint32_t next;
  uint32_t preemptions; /* up to here, with the choice taken */
  uint32_t accesses;    /* of the step taken */
  uint64_t aside;       /* the mark up to which actors are restored, which undoes this step */
  uint32_t last;        /* which went on before */
} search_frame;

typedef struct {
  const busq_explore_options *options;
  search_frame frames[BUSQ_EXPLORE_DEPTH_MAX + 1];
  uint32_t depth;
  hash_set seen;
  hash_set outcomes;
  choice_rule rule;
} search;

static uint32_t preemptions_at(const search *self, uint32_t depth)
{
  return depth ? self->frames[depth - 1].preemptions : 0;
}

/* The actor that went on before this state. */
static uint32_t last_actor(const search *self)
{
  const search_frame *before = self->depth ? &self->frames[self->depth - 1] : NULL;
  return before ? before->choices[before->next].actor : BUSQ_EXPLORE_NOBODY;
}

/* Does this choice take over from an actor that could go on?  Faults do not count. */
static uint32_t preempts(uint32_t last, choice next)
{
  return last != BUSQ_EXPLORE_NOBODY && choice_is_step(next) && next.actor != last && actor_is_enabled(last);
}

static void open_frame(search *self)
{
  search_frame *frame = &self->frames[self->depth];
  choice all[CHOICES_MAX];
  const uint32_t before = preemptions_at(self, self->depth);
  frame->last = last_actor(self);
  const uint32_t count = choices_find(all, self->rule, frame->last);
  frame->count = frame->next = 0;
  /* The last actor first: so the first schedules have few changes of actor. */
  for (uint32_t i = 0; i < count; i++)
    if (before + (self->rule == CHOOSE_BOUNDED ? preempts(frame->last, all[i]) : 0) <= self->options->preemptions_max)
      frame->choices[frame->count++] = all[i];
  for (uint32_t i = 1; i < frame->count; i++)
    if (frame->choices[i].kind == CHOICE_STEP && frame->choices[i].actor == frame->last) {
      const choice first = frame->choices[0];
      frame->choices[0] = frame->choices[i];
      frame->choices[i] = first;
    }
}

static void go(search *self)
{
  search_frame *frame = &self->frames[self->depth];
  const choice taken = frame->choices[frame->next];
  frame->preemptions = preemptions_at(self, self->depth);
  if (self->rule == CHOOSE_BOUNDED)
    frame->preemptions += preempts(frame->last, taken);
  frame->aside = actors_put_aside(taken.actor);
  explorer_now.accesses = 0;
  actors_take(taken);
  frame->accesses = explorer_now.accesses;
  if (explorer_now.watcher)
    explorer_now.watcher->went(self->depth, taken.actor, CHOICE_LETTERS[taken.kind], frame->accesses);
  self->depth++;
}

static void write_schedule(const search *self, char *text, size_t bytes)
{
  size_t used = 0;
  text[0] = '\0';
  for (uint32_t d = 0; d < self->depth && used + 16 < bytes; d++) {
    const search_frame *frame = &self->frames[d];
    const choice taken = frame->choices[frame->next];
    uint32_t accesses = frame->accesses;
    /* One actor's steps in a row are one. */
    while (choice_is_step(taken) && d + 1 < self->depth) {
      const search_frame *next = &self->frames[d + 1];
      const choice then = next->choices[next->next];
      if (then.kind != CHOICE_STEP || then.actor != taken.actor)
        break;
      accesses += next->accesses;
      d++;
    }
    used += (size_t)snprintf(text + used, bytes - used, "%s%u%c", used ? "," : "", taken.actor, CHOICE_LETTERS[taken.kind]);
    if (choice_is_step(taken))
      used += (size_t)snprintf(text + used, bytes - used, "%u", accesses);
  }
}

static void fail(const search *self, busq_explore_result *result, const char *fault)
{
  result->has_failed = true;
  snprintf(result->fault, sizeof result->fault, "%s", fault);
  write_schedule(self, result->schedule, sizeof result->schedule);
}

static bool was_seen(search *self)
{
  busq_memory_hash hash = actors_hash();
  if (self->rule == CHOOSE_BOUNDED && self->options->preemptions_max != BUSQ_EXPLORE_UNBOUNDED) {
    const uint64_t facts[] = {preemptions_at(self, self->depth), last_actor(self)};
    busq_memory_mix(&hash, facts, sizeof facts);
  }
  return self->options->merges && !hash_set_add(&self->seen, hash);
}

static void note_outcome(search *self, busq_explore_result *result)
{
  const busq_memory_hash hash = explorer_now.world->memory.hash;
  if (explorer_now.now.stopped != BUSQ_EXPLORE_NOBODY || !hash_set_add(&self->outcomes, hash))
    return;
  result->outcomes++;
  result->outcomes_sum += hash.b;
}

/* On from here, always the first choice, up to an end or a state seen before.  False at a bad end. */
static bool descend(search *self, busq_explore_result *result)
{
  for (;;) {
    if (self->depth > result->depth_max)
      result->depth_max = self->depth;
    if (was_seen(self))
      return true;
    result->states++;
    if (choices_is_standstill()) {
      const char *fault = choices_judge();
      result->ends++;
      note_outcome(self, result);
      if (fault) {
        fail(self, result, fault);
        return false;
      }
    }
    if (self->depth == BUSQ_EXPLORE_DEPTH_MAX) {
      fail(self, result, "they go round in circles and do not come to an end");
      return false;
    }
    open_frame(self);
    if (!self->frames[self->depth].count)
      return true;
    go(self);
    result->transitions++;
  }
}

/* Back to the last state that has another choice, and on with it; false if there is none. */
static bool back(search *self)
{
  while (self->depth > 0) {
    search_frame *frame = &self->frames[--self->depth];
    actors_put_back(frame->aside);
    if (++frame->next < frame->count) {
      go(self);
      return true;
    }
  }
  return false;
}

/* One search with the footprints known so far; false where it has to begin again. */
static bool search_through(search *self, busq_explore_result *result)
{
  hash_set_clear(&self->seen);
  hash_set_clear(&self->outcomes);
  self->depth = 0;
  result->states = result->transitions = result->ends = result->outcomes = result->outcomes_sum = 0;
  explorer_now.has_grown = false;
  actors_reset(self->options->faults_max);
  if (explorer_now.watcher)
    explorer_now.watcher->begun();
  for (;;) {
    if (!descend(self, result))
      return true;
    if (explorer_now.has_grown && self->options->reduces)
      return false;
    if (result->states >= self->options->states_max)
      return true;
    if (!back(self)) {
      result->is_complete = true;
      return true;
    }
    result->transitions++;
  }
}

/* ---- at random, to fill the footprints ---- */

static uint64_t chance = UINT64_C(0x2545f4914f6cdd1d);

static uint32_t chance_below(uint32_t limit)
{
  chance ^= chance << 13;
  chance ^= chance >> 7;
  chance ^= chance << 17;
  return (uint32_t)((chance >> 20) % limit);
}

static choice walk_choose(const choice *choices, uint32_t count, uint32_t last, uint32_t stickiness)
{
  uint32_t steps = 0;
  while (steps < count && choice_is_step(choices[steps]))
    steps++;
  if (steps < count && (!steps || !chance_below(40)))
    return choices[steps + chance_below(count - steps)];
  for (uint32_t i = 0; i < steps; i++)
    if (choices[i].actor == last && choices[i].kind == CHOICE_STEP && chance_below(stickiness))
      return choices[i];
  return choices[chance_below(steps)];
}

/* True at a good end. */
static bool walk(search *self, busq_explore_result *result)
{
  const uint32_t stickiness = 1 + chance_below(8);
  uint32_t last = BUSQ_EXPLORE_NOBODY;
  actors_reset(self->options->faults_max);
  for (self->depth = 0; self->depth < BUSQ_EXPLORE_DEPTH_MAX; self->depth++) {
    search_frame *frame = &self->frames[self->depth];
    choice all[CHOICES_MAX];
    const char *fault = choices_is_standstill() ? choices_judge() : NULL;
    if (fault) {
      fail(self, result, fault);
      return false;
    }
    const uint32_t count = choices_find(all, CHOOSE_ALL, last);
    if (!count)
      return true;
    frame->next = 0;
    frame->choices[0] = walk_choose(all, count, last, stickiness);
    last = frame->choices[0].actor;
    explorer_now.accesses = 0;
    actors_take(frame->choices[0]);
    frame->accesses = explorer_now.accesses;
  }
  fail(self, result, "they go round in circles and do not come to an end");
  return false;
}

static bool walk_about(search *self, busq_explore_result *result)
{
  chance = UINT64_C(0x2545f4914f6cdd1d);
  for (uint32_t i = 0; i < self->options->walks; i++)
    if (!walk(self, result))
      return false;
  return true;
}

void busq_explore(busq_world *world, const busq_explore_options *options, busq_explore_result *result)
{
  search *self = calloc(1, sizeof *self);
  if (!self)
    exit(2);
  memset(result, 0, sizeof *result);
  self->options = options;
  self->rule = options->preemptions_max != BUSQ_EXPLORE_UNBOUNDED ? CHOOSE_BOUNDED
               : options->reduces                                ? CHOOSE_PERSISTENT
                                                                 : CHOOSE_ALL;
  actors_begin(world);
  footprints_forget();
  explorer_now.rule = options->reduces ? PAUSE_WHERE_MINDED : PAUSE_EVERYWHERE;
  if (walk_about(self, result)) {
    explorer_now.watcher = options->watcher;
    do
      result->passes++;
    while (!search_through(self, result));
  }
  result->words = actors_words();
  actors_end();
  hash_set_clear(&self->seen);
  hash_set_clear(&self->outcomes);
  free(self);
}
