/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_TESTS_EXPLORE_H
#define BUSQ_TESTS_EXPLORE_H
/*
 * Scenes of the bus for the search of csrc/explore, and what is printed of them. explore/explore.h has what the search
 * gives, explore_stage.h what a scene is made of, explore_judge.h what a good end is.
 */
#include "explore/explore_judge.h"
#include "explore/explore_names.h"
#include "explore/explore_steps.h"
#include "explore/listing.h"

#define EXPLORE_WALKS 300u

static busq_explore_result explore_result;
static const busq_explore_watcher *explore_watcher; /* of the next search, or NULL */

static void explore_print_logs(void)
{
  for (uint32_t i = 0; i < explore_scene->peers; i++) {
    printf("    p%u:", i);
    for (uint32_t e = 0; e < explore_logs_judged[i].count; e++)
      printf(" %s %u;", explore_logs_judged[i].events[e].kind == BUSQ_EVENT_SEND ? "send" : "deliver",
             explore_logs_judged[i].events[e].message);
    printf("\n");
  }
}

/* Follows a schedule aloud; true if it ends well. */
static bool explore_follow(const explore_scenario *scene, const char *schedule)
{
  explore_cast(scene);
  explore_set_stage(scene);
  printf("  %s\n", scene->name);
  const char *fault = busq_explore_follow(&explore_world, schedule);
  explore_print_logs();
  printf("    %s\n", fault ? fault : "all is well");
  explore_strike_stage();
  return !fault;
}

static void explore_search(const explore_scenario *scene, uint32_t preemptions, uint64_t states_max,
                           busq_explore_result *result)
{
  const busq_explore_options options = {.preemptions_max = preemptions,
                                        .states_max = states_max,
                                        .faults_max = scene->may_die || scene->may_stop,
                                        .walks = EXPLORE_WALKS,
                                        .merges = true,
                                        .reduces = true,
                                        .watcher = explore_watcher};
  busq_explore(&explore_world, &options, result);
}

/* A fault with as few changes of actor as it takes, if a short search finds one. */
static void explore_simplify(const explore_scenario *scene)
{
  const uint64_t states_max = 30000;
  static busq_explore_result simple;
  for (uint32_t preemptions = 0; preemptions < 4; preemptions++) {
    explore_search(scene, preemptions, states_max, &simple);
    if (simple.has_failed) {
      explore_result = simple;
      return;
    }
  }
}

static void explore_print_found(const explore_scenario *scene, const busq_explore_result *found, double seconds)
{
  if (found->has_failed) {
    printf("BAD  %s: %s", scene->name, found->fault);
    if (found->states)
      printf(" (after %" PRIu64 " states)\n", found->states);
    else
      printf(" (in an execution at random, before the search)\n");
    return;
  }
  printf("ok  %s: %" PRIu64 " states, %" PRIu64 " steps, %" PRIu64 " ends with %" PRIu64 " outcomes, ", scene->name,
         found->states, found->transitions, found->ends, found->outcomes);
  printf("up to %u steps deep, %u words fought for; ", found->depth_max, found->words);
  if (!found->is_complete)
    printf("NOT complete: gave up at that many states");
  else if (scene->preemptions)
    printf("all with up to %u preemptions", scene->preemptions);
  else
    printf("complete");
  printf(" (%.1f s of processor)\n", seconds);
}

/* Searches and prints; true if every end was good. */
static bool explore_run(const explore_scenario *scene, uint64_t states_max)
{
  struct timespec begin, end;
  explore_cast(scene);
  explore_set_stage(scene);
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
  explore_search(scene, scene->preemptions ? scene->preemptions : BUSQ_EXPLORE_UNBOUNDED, states_max, &explore_result);
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
  const busq_explore_result found = explore_result;
  explore_print_found(scene, &found, (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9);
  fflush(stdout);
  if (found.has_failed)
    explore_simplify(scene);
  explore_strike_stage();
  return !found.has_failed;
}

#endif /* BUSQ_TESTS_EXPLORE_H */
