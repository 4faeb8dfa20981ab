/* SPDX-License-Identifier: Apache-2.0 */
#include "explore/listing.h"
#include "explore/choices.h"
#include "explore/explore.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMN 38

static void print_in_column(uint32_t index, const char *text)
{
  const int indent = (int)index * COLUMN;
  printf("%*s%s\n", indent, "", text);
}

static void describe_value(const busq_explore_made *made, uint32_t half, uint64_t value, char *text, size_t bytes)
{
  const busq_world *world = explorer_now.world;
  world->value(world->context, (const char *)(uintptr_t)made->address + 8 * half, value, text, bytes);
}

static const char *verb(busq_access access, bool has_changed)
{
  switch (access) {
  case BUSQ_ACCESS_LOAD:
    return "reads";
  case BUSQ_ACCESS_STORE:
    return "stores";
  case BUSQ_ACCESS_EXCHANGE:
    return "exchanges";
  case BUSQ_ACCESS_ADD:
    return "adds to";
  case BUSQ_ACCESS_OR:
  case BUSQ_ACCESS_AND:
    return "changes bits of";
  default:
    return has_changed ? "swaps" : "can't swap";
  }
}

static void show(uint32_t index, const busq_explore_made *made)
{
  const busq_world *world = explorer_now.world;
  char line[512], place[96], before[96], after[96];
  bool has_changed = false;
  if (made->access == BUSQ_ACCESS_LOAD && !actors_fight_for(index, made->granule))
    return;
  for (uint32_t half = 0; half < made->n_granules; half++)
    has_changed |= made->after[half] != made->before[half];
  world->name(world->context, (const void *)(uintptr_t)made->address, place, sizeof place);
  size_t used = (size_t)snprintf(line, sizeof line, "%s %s %s", world->title(world->context, index),
                                 verb(made->access, has_changed), place);
  for (uint32_t half = 0; half < made->n_granules; half++) {
    const bool is_same = made->after[half] == made->before[half];
    describe_value(made, half, made->before[half], before, sizeof before);
    describe_value(made, half, made->after[half], after, sizeof after);
    used += (size_t)snprintf(line + used, sizeof line - used, is_same ? "%s%s" : "%s%s -> %s", half ? ", " : ": ",
                             before, after);
  }
  print_in_column(index, line);
}

static const busq_explore_watcher watcher = {.made = show};

/* ---- following a schedule ---- */

static void say(uint32_t index, const char *what)
{
  char line[128];
  snprintf(line, sizeof line, "%s %s", explorer_now.world->title(explorer_now.world->context, index), what);
  print_in_column(index, line);
}

static void follow_choice(choice taken, uint32_t accesses)
{
  static const char *const words[] = {NULL, "loses patience", "IS KILLED", "IS STOPPED"};
  if (words[taken.kind])
    say(taken.actor, words[taken.kind]);
  if (taken.kind == CHOICE_STEP && explorer_now.now.stopped == taken.actor)
    say(taken.actor, "IS CONTINUED");
  explorer_now.accesses_max = accesses;
  actors_take(taken);
}

/* A step may end before all of its accesses, where its actor has to wait; the rest belongs to the next. */
static const char *follow_one(const char *at)
{
  static const char letters[] = CHOICE_LETTERS;
  char *end;
  choice taken = {CHOICE_STEP, (uint8_t)strtoul(at, &end, 10)};
  const char *const kind = *end ? strchr(letters, *end) : NULL;
  if (!kind || taken.actor >= explorer_now.world->n_actors) {
    fprintf(stderr, "not a schedule: \"%s\"\n", at);
    exit(2);
  }
  taken.kind = (uint8_t)(kind - letters);
  uint32_t left = (uint32_t)strtoul(end + 1, &end, 10);
  do {
    if (choice_is_step(taken) && !actor_is_live(taken.actor)) {
      fprintf(stderr, "the schedule lets actor %u go on, who can't\n", taken.actor);
      exit(2);
    }
    follow_choice(taken, left);
    left -= explorer_now.accesses < left ? explorer_now.accesses : left;
    taken.kind = CHOICE_STEP;
  } while (left && actor_is_enabled(taken.actor));
  return *end == ',' ? end + 1 : end;
}

/* Every actor that can goes on, each as far as it comes. */
static void follow_rest(void)
{
  choice choices[CHOICES_MAX];
  bool has_said = false;
  for (uint32_t steps = 0; steps < BUSQ_EXPLORE_DEPTH_MAX && !choices_is_standstill(); steps++) {
    const uint32_t count = choices_find(choices, CHOOSE_BOUNDED, BUSQ_EXPLORE_NOBODY);
    if (!count || !choice_is_step(choices[0]))
      return;
    if (!has_said)
      printf("(the rest in turn)\n");
    has_said = true;
    follow_choice(choices[0], UINT32_MAX);
  }
}

const char *busq_explore_follow(busq_world *world, const char *schedule)
{
  static const busq_explore_options options = {.preemptions_max = BUSQ_EXPLORE_UNBOUNDED, .reduces = true, .walks = 300,
                                               .faults_max = 1};
  static busq_explore_result ignored;
  /* A few executions at random, to know which places others mind. */
  busq_explore(world, &options, &ignored);
  actors_begin(world);
  actors_reset(1);
  explorer_now.rule = PAUSE_AFTER;
  explorer_now.watcher = &watcher;
  while (*schedule)
    schedule = follow_one(schedule);
  follow_rest();
  explorer_now.watcher = NULL;
  const char *fault = choices_judge();
  actors_end();
  return fault;
}
