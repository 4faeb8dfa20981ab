/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All interleavings of small scenarios; see explore.h.
 *
 *      test_explore_steps                          every scenario
 *      test_explore_steps SCENARIO...              those whose names contain one of these words
 *      test_explore_steps --deep                   every scenario, and more of it: takes long
 *      test_explore_steps --first                  up to the first that fails
 *      test_explore_steps --follow SCENARIO STEPS  one schedule, aloud
 */
#include "explore.h"

#define STATES_MAX 4000000

#define SENDING "clock stage place publish state sync raise"
#define RECEIVING "look read tail"
#define RELEASING "mark head"

/* Peers are visited by slot, and equal keys are ordered by it: so it matters which number a sender has. */
static const explore_scenario scenarios[] = {
    {
        .name = "two senders, the same two receivers",
        .parts = {{0, "send 1 to p2 p3"}, {1, "send 2 to p2 p3"}, {2, "receive"}, {3, "receive"}},
        .steps = SENDING " " RECEIVING,
    },
    {
        .name = "two senders, the same two receivers, proposals lost",
        .parts = {{0, "send 1 to p2 p3"}, {1, "send 2 to p2 p3"}, {2, "receive"}, {3, "receive"}},
        .steps = SENDING " " RECEIVING,
        .is_stale = true,
    },
    {
        .name = "two senders, the same two receivers, different clocks",
        .parts = {{1, "send 1 to p2 p3"}, {0, "send 2 to p2 p3"}, {2, "receive"}, {3, "receive"}},
        .steps = SENDING " " RECEIVING,
        .clocks = {2, 4, 6, 8},
        .is_stale = true,
    },
    {
        .name = "each sender to a queue of its own, then to two in common",
        .parts = {{0, "send 1 to p0 p2 p3"}, {1, "send 2 to p1 p2 p3"}, {2, "receive"}, {3, "receive"}},
        .steps = "clock stage place publish state sync raise",
    },
    {
        .name = "three senders, overlapping pairs of receivers",
        .parts = {{1, "send 1 to p1 p2"}, {2, "send 2 to p2 p3"}, {3, "send 3 to p3 p1"}},
        .steps = SENDING,
    },
    {
        .name = "three senders, overlapping pairs of receivers, proposals lost",
        .parts = {{1, "send 1 to p1 p2"}, {2, "send 2 to p2 p3"}, {3, "send 3 to p3 p1"}},
        .steps = "place publish state raise",
        .is_stale = true,
    },
    {
        .name = "three senders who receive, overlapping pairs",
        .parts = {{1, "send 1 to p1 p2"},
                  {2, "send 2 to p2 p3"},
                  {3, "send 3 to p3 p1"},
                  {1, "receive"},
                  {2, "receive"},
                  {3, "receive"}},
        .steps = "place publish state raise",
        .preemptions = 2,
    },
    {
        .name = "who receives answers: cause before effect",
        .parts = {{0, "send 1 to p1 p2"}, {1, "hear 1; send 2 to p2"}, {3, "send 3 to p2"}, {2, "receive"}},
        .steps = SENDING " " RECEIVING,
    },
    {
        .name = "who receives answers: cause before effect, proposals lost",
        .parts = {{3, "send 1 to p1 p2"}, {1, "hear 1; send 2 to p2"}, {0, "send 3 to p2"}, {2, "receive"}},
        .steps = SENDING " " RECEIVING,
        .is_stale = true,
    },
    {
        .name = "a side channel: who receives tells another, who sends",
        .parts = {{3, "send 1 to p1 p2"}, {0, "send 3 to p2; await 1 at p1; send 2 to p2"}, {1, "receive"}, {2, "receive"}},
        .steps = SENDING " " RECEIVING,
    },
    {
        .name = "a side channel, proposals lost",
        .parts = {{3, "send 1 to p1 p2"}, {0, "await 1 at p1; send 2 to p2"}, {1, "receive"}, {2, "receive"}},
        .steps = SENDING " " RECEIVING,
        .clocks = {0, 9, 3, 0},
        .is_stale = true,
    },
    {
        .name = "a multicast against single messages",
        .parts = {{0, "send 1 to p2 p3"}, {1, "send 2 to p3; send 3 to p2"}, {2, "receive"}, {3, "receive"}},
        .steps = SENDING " " RECEIVING,
    },
    {
        .name = "a multicast against single messages, proposals lost",
        .parts = {{1, "send 1 to p2 p3"}, {0, "send 2 to p3; send 3 to p2"}, {2, "receive"}, {3, "receive"}},
        .steps = SENDING " " RECEIVING,
        .is_stale = true,
    },
    {
        .name = "two messages of one sender against another's",
        .parts = {{0, "send 1 to p2 p3; send 2 to p2 p3"}, {1, "send 3 to p2 p3"}, {2, "receive"}, {3, "receive"}},
        .steps = "clock place publish state raise",
    },
    {
        .name = "a thread that sends and one that receives, on both of two peers",
        .parts = {{0, "send 1 to p0 p1"}, {1, "send 2 to p0 p1"}, {0, "receive"}, {1, "receive"}},
        .steps = SENDING " " RECEIVING " " RELEASING,
        .peers = 2,
    },
    {
        .name = "queues of one place, and records used again",
        .parts = {{0, "send 1 to p1 p2; send 2 to p1 p2"}, {2, "send 3 to p1"}, {1, "receive"}, {2, "receive"}},
        .steps = "place publish state raise look read tail mark head",
        .peers = 3,
        .capacity = 1,
    },
    {
        .name = "records used again while somebody still has to read the last message",
        .parts = {{0, "send 1 to p1 p2; send 2 to p1 p2; send 3 to p1"}, {1, "receive"}, {2, "receive"}},
        .steps = "place publish state raise read mark head",
        .peers = 3,
    },
    {
        .name = "receivers who lose patience with holes",
        .parts = {{0, "send 1 to p2 p3"}, {1, "send 2 to p2; send 3 to p3"}, {2, "receive"}, {3, "receive"}},
        .steps = "place publish state raise skip",
        .patience = 2,
    },
    {
        .name = "a full queue whose receiver loses patience again and again",
        .parts = {{0, "send 1 to p1 p2"}, {1, "send 2 to p0 p2"}, {2, "receive"}},
        .steps = "place publish state raise skip",
        .peers = 3,
        .capacity = 1,
        .patience = 4,
        .is_stale = true,
    },
    {
        .name = "a receiver who leaves anywhere",
        .parts = {{0, "send 1 to p2 p3; send 4 to p2 p3"}, {1, "send 2 to p3; send 3 to p3"}, {3, "leave"}, {2, "receive"}},
        .steps = "place publish state raise close skip leave mark",
    },
    {
        .name = "a receiver who leaves after the first message, proposals lost",
        .parts = {{0, "send 1 to p2 p3"}, {1, "send 2 to p2 p3"}, {3, "hear 1; leave"}, {2, "receive"}},
        .steps = "place publish state raise close skip leave mark",
        .is_stale = true,
    },
    {
        .name = "a sender who dies anywhere",
        .parts = {{0, "send 1 to p2 p3"}, {1, "send 2 to p2 p3"}, {2, "receive"}, {3, "receive"}},
        .steps = "place publish state raise skip undo bury",
        .patience = 1,
        .may_die = true,
    },
    {
        .name = "a sender who dies anywhere, then a side channel",
        .parts = {{3, "send 1 to p1 p2"}, {0, "await 1 at p1; send 2 to p2"}, {1, "receive"}, {2, "receive"}},
        .steps = "place publish state sync raise skip undo bury",
        .clocks = {0, 9, 3, 0},
        .patience = 3,
        .is_stale = true,
        .may_die = true,
    },
    {
        .name = "a sender who dies anywhere, proposals lost",
        .parts = {{0, "send 1 to p2 p3"}, {1, "send 2 to p3"}, {2, "receive"}, {3, "receive"}},
        .steps = "place publish state raise skip undo bury",
        .is_stale = true,
        .patience = 2,
        .may_die = true,
    },
};

#define N_SCENARIOS (sizeof scenarios / sizeof scenarios[0])

static int follow(const char *name, const char *schedule)
{
  for (uint32_t i = 0; i < N_SCENARIOS; i++)
    if (strcmp(scenarios[i].name, name) == 0)
      return explore_follow(&scenarios[i], schedule) ? 0 : 1;
  fprintf(stderr, "no scenario is called \"%s\"\n", name);
  return 2;
}

static bool is_asked_for(const char *name, int n_words, char **words)
{
  for (int i = 0; i < n_words; i++)
    if (strstr(name, words[i]))
      return true;
  return n_words == 0;
}

/* Going into seen states again costs a multiple and finds the same. */
static void test_leaving_out_seen_states_misses_nothing(void)
{
  const explore_scenario small[] = {
      {.name = "two senders", .parts = {{0, "send 1 to p2 p3"}, {1, "send 2 to p2 p3"}}, .steps = "place publish state"},
      {.name = "three senders of single messages",
       .parts = {{0, "send 1 to p3"}, {1, "send 2 to p3"}, {2, "send 3 to p3"}},
       .steps = "place publish"},
      {.name = "a sender and a receiver",
       .parts = {{0, "send 1 to p2 p3"}, {1, "send 2 to p2"}, {2, "receive"}},
       .steps = "publish state read"},
  };
  for (unsigned i = 0; i < sizeof small / sizeof small[0]; i++) {
    explore_result merged, plain;
    CHECK(explore_run(&small[i], UINT64_MAX, true, &merged));
    CHECK(explore_run(&small[i], UINT64_MAX, false, &plain));
    CHECK(merged.is_complete && plain.is_complete);
    CHECK_EQUAL(merged.outcomes, plain.outcomes);
    CHECK_EQUAL(merged.which, plain.which);
    CHECK(merged.schedules < plain.schedules);
  }
}

/* True if it ends well, whatever happens. */
static bool search(explore_scenario scene, bool is_deep, const char *program)
{
  explore_result result;
  check_test = scene.name;
  if (is_deep) {
    scene.preemptions += scene.preemptions ? 2 : 0;
    scene.patience += scene.patience ? 1 : 0;
  }
  if (explore_run(&scene, is_deep ? UINT64_MAX : check_share(STATES_MAX), true, &result))
    return true;
  explore_follow(&scene, result.schedule);
  printf("    again: %s --follow \"%s\" %s\n", program, scene.name, result.schedule);
  return false;
}

int main(int n_arguments, char **arguments)
{
  const char *option = n_arguments > 1 && strncmp(arguments[1], "--", 2) == 0 ? arguments[1] : "";
  const bool is_deep = strcmp(option, "--deep") == 0, stops_at_first = strcmp(option, "--first") == 0;
  const int n_options = *option ? 2 : 1;
  bool is_good = true;
  check_begin();
  if (is_deep)
    alarm(0);
  if (n_arguments == 4 && strcmp(option, "--follow") == 0)
    return follow(arguments[2], arguments[3]);
  for (uint32_t i = 0; i < N_SCENARIOS && (is_good || !stops_at_first); i++)
    if (is_asked_for(scenarios[i].name, n_arguments - n_options, arguments + n_options))
      is_good &= search(scenarios[i], is_deep, arguments[0]);
  if (is_good && n_arguments == n_options)
    CHECK_RUN(test_leaving_out_seen_states_misses_nothing);
  return is_good ? 0 : 1;
}
