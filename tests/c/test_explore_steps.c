/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All interleavings of small scenes, one access of shared memory at a time; see explore.h.
 *
 *      test_explore_steps                           every scene; the large ones with one preemption at most
 *      test_explore_steps SCENE...                  those whose names contain one of these words, or are =WORD
 *      test_explore_steps --deep [SCENE...]         the large ones too in full: takes hours
 *      test_explore_steps --preemptions N [SCENE...]  the large ones with up to N preemptions: with 2, minutes each
 *      test_explore_steps --first                   up to the first that fails
 *      test_explore_steps --list                    what there is
 *      test_explore_steps --follow SCENE SCHEDULE   one schedule, aloud
 *      test_explore_steps --steps SCENE STATES      all that a search of a scene does, up to so many states; see explore/explore_steps.h
 */
#define CHECK_SECONDS_MAX 900u /* other programs may run on this machine */
#include "explore/explore_scene.h"

#define STATES_MAX 2500000

#define EVERYBODY 255u

/* Peers are visited by slot, and equal keys are ordered by it: so it matters which number a sender has. */
static const explore_scenario scenarios[] = {
    {
        .name = "one sender, one receiver",
        .parts = {{0, "send 1 to p1"}, {1, "receive"}},
    },
    {
        .name = "one sender, one receiver, anybody may be killed",
        .parts = {{0, "send 1 to p1; stay"}, {1, "receive"}},
        .may_die = EVERYBODY,
    },
    {
        .name = "one sender, one receiver, anybody may be stopped",
        .parts = {{0, "send 1 to p1"}, {1, "receive"}},
        .may_stop = EVERYBODY,
    },
    {
        .name = "one sender, one receiver, who sleeps and is woken",
        .parts = {{0, "send 1 to p1"}, {1, "listen"}},
    },
    {
        .name = "two senders, one receiver, who sleeps and is woken",
        .parts = {{0, "send 1 to p2"}, {1, "send 2 to p2"}, {2, "listen"}},
    },
    {
        .name = "one multicast, the sender may be killed",
        .parts = {{0, "send 1 to p1 p2; stay"}, {1, "receive"}, {2, "receive"}},
        .may_die = 1,
    },
    {
        .name = "one multicast, proposal lost, the sender may be killed",
        .parts = {{0, "send 1 to p1 p2; stay"}, {1, "receive"}, {2, "receive"}},
        .may_die = 1,
        .is_stale = true,
    },
    {
        .name = "one multicast, a receiver may be killed",
        .parts = {{0, "send 1 to p1 p2"}, {1, "receive"}, {2, "receive"}},
        .may_die = 2,
        .asks_who_lives = true,
    },
    {
        .name = "one multicast, the sender may be stopped",
        .parts = {{0, "send 1 to p1 p2"}, {1, "receive"}, {2, "receive"}},
        .may_stop = 1,
    },
    {
        .name = "one multicast, proposal lost, the sender may be stopped",
        .parts = {{0, "send 1 to p1 p2"}, {1, "receive"}},
        .may_stop = 1,
        .is_stale = true,
    },
    {
        .name = "two senders, the same two receivers",
        .parts = {{0, "send 1 to p2 p3"}, {1, "send 2 to p2 p3"}, {2, "receive"}, {3, "receive"}},
    },
    {
        .name = "two senders, the same two receivers, proposals lost",
        .parts = {{0, "send 1 to p2 p3"}, {1, "send 2 to p2 p3"}, {2, "receive"}, {3, "receive"}},
        .is_stale = true,
    },
    {
        .name = "two senders, the same two receivers, anybody may be killed",
        .parts = {{0, "send 1 to p2 p3"}, {1, "send 2 to p2 p3"}, {2, "receive"}, {3, "receive"}},
        .may_die = EVERYBODY,
        .is_deep = true,
    },
    {
        .name = "two senders, the same two receivers, anybody may be stopped",
        .parts = {{0, "send 1 to p2 p3"}, {1, "send 2 to p2 p3"}, {2, "receive"}, {3, "receive"}},
        .may_stop = EVERYBODY,
        .is_deep = true,
    },
    {
        .name = "two senders, the same two receivers, proposals lost, anybody may be killed",
        .parts = {{0, "send 1 to p2 p3"}, {1, "send 2 to p2 p3"}, {2, "receive"}, {3, "receive"}},
        .may_die = EVERYBODY,
        .is_stale = true,
        .is_deep = true,
    },
    {
        .name = "two senders, the same two receivers, proposals lost, anybody may be stopped",
        .parts = {{0, "send 1 to p2 p3"}, {1, "send 2 to p2 p3"}, {2, "receive"}, {3, "receive"}},
        .may_stop = EVERYBODY,
        .is_stale = true,
        .is_rare = true,
        .is_deep = true,
    },
    {
        .name = "two senders, the same two receivers, different clocks",
        .parts = {{1, "send 1 to p2 p3"}, {0, "send 2 to p2 p3"}, {2, "receive"}, {3, "receive"}},
        .clocks = {2, 4, 6, 8},
        .is_stale = true,
        .is_deep = true,
    },
    {
        .name = "each sender to a queue of its own, then to two in common",
        .parts = {{0, "send 1 to p0 p2 p3"}, {1, "send 2 to p1 p2 p3"}, {2, "receive"}, {3, "receive"}},
    },
    {
        .name = "three senders, the same two receivers",
        .parts = {{0, "send 1 to p3 p4"}, {1, "send 2 to p3 p4"}, {2, "send 3 to p3 p4"}, {3, "receive"}, {4, "receive"}},
        .preemptions = 2,
        .is_deep = true,
    },
    {
        .name = "three senders, overlapping pairs of receivers",
        .parts = {{1, "send 1 to p1 p2"}, {2, "send 2 to p2 p3"}, {3, "send 3 to p3 p1"}},
    },
    {
        .name = "three senders, overlapping pairs of receivers, proposals lost",
        .parts = {{1, "send 1 to p1 p2"}, {2, "send 2 to p2 p3"}, {3, "send 3 to p3 p1"}},
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
        .preemptions = 2,
        .is_deep = true,
    },
    {
        .name = "who receives answers: cause before effect",
        .parts = {{0, "send 1 to p1 p2"}, {1, "hear 1; send 2 to p2"}, {3, "send 3 to p2"}, {2, "receive"}},
    },
    {
        .name = "who receives answers: cause before effect, proposals lost",
        .parts = {{3, "send 1 to p1 p2"}, {1, "hear 1; send 2 to p2"}, {0, "send 3 to p2"}, {2, "receive"}},
        .is_stale = true,
    },
    {
        .name = "a side channel: who receives tells another, who sends",
        .parts = {{3, "send 1 to p1 p2"}, {0, "send 3 to p2; await 1 at p1; send 2 to p2"}, {1, "receive"}, {2, "receive"}},
    },
    {
        .name = "a side channel, proposals lost",
        .parts = {{3, "send 1 to p1 p2"}, {0, "await 1 at p1; send 2 to p2"}, {1, "receive"}, {2, "receive"}},
        .clocks = {0, 9, 3, 0},
        .is_stale = true,
    },
    {
        .name = "a multicast against single messages",
        .parts = {{0, "send 1 to p2 p3"}, {1, "send 2 to p3; send 3 to p2"}, {2, "receive"}, {3, "receive"}},
        .is_deep = true,
    },
    {
        .name = "a multicast against single messages, proposals lost",
        .parts = {{1, "send 1 to p2 p3"}, {0, "send 2 to p3; send 3 to p2"}, {2, "receive"}, {3, "receive"}},
        .is_stale = true,
        .is_deep = true,
    },
    {
        .name = "two messages of one sender against another's",
        .parts = {{0, "send 1 to p2 p3; send 2 to p2 p3"}, {1, "send 3 to p2 p3"}, {2, "receive"}, {3, "receive"}},
        .is_deep = true,
    },
    {
        .name = "a thread that sends and one that receives, on both of two peers",
        .parts = {{0, "send 1 to p0 p1"}, {1, "send 2 to p0 p1"}, {0, "receive"}, {1, "receive"}},
    },
    {
        .name = "queues of one place, and records used again",
        .parts = {{0, "send 1 to p1 p2; send 2 to p1 p2"}, {2, "send 3 to p1"}, {1, "receive"}, {2, "receive"}},
        .capacity = 1,
        .is_deep = true,
    },
    {
        .name = "records used again while somebody still looks at the last message in place",
        .parts = {{0, "send 1 to p1 p2; send 2 to p1 p2; send 3 to p1"}, {1, "hold"}, {2, "hold"}},
    },
    {
        .name = "receivers who lose patience with holes",
        .parts = {{0, "send 1 to p2 p3"}, {1, "send 2 to p2; send 3 to p3"}, {2, "receive"}, {3, "receive"}},
        .patience = 1,
        .is_deep = true,
    },
    {
        .name = "a full queue whose receiver loses patience again and again",
        .parts = {{0, "send 1 to p1 p2"}, {1, "send 2 to p0 p2"}, {2, "receive"}},
        .capacity = 1,
        .patience = 4,
        .is_stale = true,
        .is_deep = true,
    },
    {
        .name = "a receiver who leaves anywhere",
        .parts = {{0, "send 1 to p2 p3; send 4 to p2 p3"}, {1, "send 2 to p3; send 3 to p3"}, {3, "leave"}, {2, "receive"}},
        .is_deep = true,
    },
    {
        .name = "a receiver who leaves after the first message, proposals lost",
        .parts = {{0, "send 1 to p2 p3"}, {1, "send 2 to p2 p3"}, {3, "hear 1; leave"}, {2, "receive"}},
        .is_stale = true,
        .is_deep = true,
    },
    {
        .name = "a durable receiver who leaves and returns while others send",
        .parts = {{0, "send 1 to p1 p2"}, {2, "send 2 to p1"}, {1, "leave; return; receive"}},
        .durable = 2,
    },
    {
        .name = "a durable receiver who leaves after a message and returns, proposals lost",
        .parts = {{0, "send 1 to p1 p2; send 2 to p1 p2"}, {1, "hear 1; leave; return; receive"}, {2, "receive"}},
        .durable = 2,
        .is_stale = true,
        .is_deep = true,
    },
    {
        .name = "a short ring that becomes whole, two senders",
        .parts = {{0, "send 1 to p2; send 2 to p2"}, {1, "send 3 to p2"}, {2, "receive"}},
        .short_slots = 2,
    },
    {
        .name = "a short ring that stays so, two senders",
        .parts = {{0, "send 1 to p2; send 2 to p2"}, {1, "send 3 to p2"}, {2, "receive"}},
        .short_slots = 2,
        .refusals = UINT64_MAX,
    },
    {
        .name = "a short ring that becomes whole at last, two senders",
        .parts = {{0, "send 1 to p2; send 2 to p2; send 3 to p2"}, {1, "send 4 to p2; send 5 to p2"}, {2, "receive"}},
        .short_slots = 2,
        .refusals = 1,
        .is_deep = true,
    },
    {
        .name = "a short ring, multicasts, proposals lost",
        .parts = {{0, "send 1 to p1 p2; send 2 to p1 p2"}, {1, "send 3 to p1 p2; receive"}, {2, "receive"}},
        .short_slots = 2,
        .refusals = 1,
        .is_stale = true,
        .is_deep = true,
    },
    {
        .name = "a short ring that becomes whole, anybody may be killed",
        .parts = {{0, "send 1 to p1; send 2 to p1; send 3 to p1; stay"}, {1, "receive"}},
        .short_slots = 2,
        .may_die = EVERYBODY,
    },
    {
        .name = "a short ring that stays so, anybody may be killed",
        .parts = {{0, "send 1 to p1; send 2 to p1; send 3 to p1; stay"}, {1, "receive"}},
        .short_slots = 2,
        .refusals = UINT64_MAX,
        .may_die = EVERYBODY,
        .asks_who_lives = true,
    },
    {
        .name = "a short ring that becomes whole, two senders, a sender may be stopped",
        .parts = {{0, "send 1 to p2; send 2 to p2"}, {1, "send 3 to p2; send 4 to p2"}, {2, "receive"}},
        .short_slots = 2,
        .may_stop = 3,
        .is_deep = true,
    },
    {
        .name = "a short ring that becomes whole far behind a sender that may be stopped",
        .parts = {{0, "send 1 to p2"}, {1, "send 2 to p2; send 3 to p2; send 4 to p2"}, {2, "receive"}},
        .short_slots = 2,
        .refusals = 1, /* for the reader loses its patience when no other process can go on */
        .may_stop = 1,
        .is_deep = true,
    },
    {
        .name = "two readers share a queue with a short ring",
        .parts = {{0, "send 1 to p1; send 2 to p1; send 3 to p1"}, {1, "receive"}, {2, "work"}},
        .shared = 6,
        .short_slots = 2,
        .refusals = 1,
        .is_deep = true,
    },
    {
        .name = "two readers share a queue with a short ring and acknowledge, a reader may be killed",
        .parts = {{0, "send 1 to p1; send 2 to p1; send 3 to p1"}, {1, "work"}, {2, "work"}},
        .shared = 6,
        .short_slots = 2,
        .may_die = 2,
        .is_deep = true,
    },
    {
        .name = "a message of a member against one who enters, with rings that become whole",
        .parts = {{0, "send 1 to @; send 2 to @"}, {2, "enter"}},
        .members = 3,
        .short_slots = 2,
        .is_deep = true,
    },
    {
        .name = "a message to a group against one who enters, with rings that stay short",
        .parts = {{0, "send 1 to @"}, {2, "enter"}, {1, "receive"}},
        .members = 2,
        .short_slots = 2,
        .refusals = UINT64_MAX,
        .is_deep = true,
    },
    {
        .name = "a message to a group against one who enters and may be killed, with rings that become whole at last",
        .parts = {{0, "send 1 to @"}, {2, "enter; stay"}, {1, "receive"}},
        .members = 2,
        .short_slots = 2,
        .refusals = 1,
        .may_die = 2,
        .is_deep = true,
    },
    {
        .name = "a node's end against messages to it, with rings that become whole",
        .parts = {{0, "destroy; receive"}, {1, "post 1; post 2; receive"}},
        .holders = 2,
        .short_slots = 2,
        .is_deep = true,
    },
    {
        .name = "a node's end against messages to it, with rings that become whole, anybody may be killed",
        .parts = {{0, "destroy; receive"}, {1, "post 1; post 2; receive"}},
        .holders = 2,
        .short_slots = 2,
        .may_die = EVERYBODY,
        .is_deep = true,
    },
    {
        .name = "two readers share a queue",
        .parts = {{0, "send 1 to p1; send 2 to p1"}, {1, "receive"}, {2, "receive"}},
        .shared = 6,
    },
    {
        .name = "two readers share a queue, and a record used again",
        .parts = {{0, "send 1 to p1; send 2 to p1"}, {1, "receive"}, {2, "receive"}},
        .capacity = 1,
        .shared = 6,
    },
    {
        .name = "two readers share a queue, a reader may be killed",
        .parts = {{0, "send 1 to p1; send 2 to p1"}, {1, "receive"}, {2, "receive"}},
        .shared = 6,
        .may_die = 2,
    },
    {
        .name = "two readers share a queue and acknowledge, a reader may be killed",
        .parts = {{0, "send 1 to p1; send 2 to p1"}, {1, "work"}, {2, "work"}},
        .shared = 6,
        .may_die = 2,
    },
    {
        .name = "two readers share a queue and acknowledge, a reader may be stopped",
        .parts = {{0, "send 1 to p1; send 2 to p1"}, {1, "work"}, {2, "work"}},
        .shared = 6,
        .may_stop = 2,
    },
    {
        .name = "two readers share a queue and look in place, anybody may be stopped",
        .parts = {{0, "send 1 to p1; send 2 to p1"}, {1, "hold"}, {2, "hold"}},
        .shared = 6,
        .may_stop = EVERYBODY,
        .is_deep = true,
    },
    {
        .name = "two readers share a queue and acknowledge, the sender may be killed",
        .parts = {{0, "send 1 to p1; send 2 to p1; stay"}, {1, "work"}, {2, "work"}},
        .shared = 6,
        .may_die = 1,
    },
    {
        .name = "two readers share a queue, one message, anybody may be killed",
        .parts = {{0, "send 1 to p1; stay"}, {1, "work"}, {2, "work"}},
        .shared = 6,
        .may_die = EVERYBODY,
    },
    {
        .name = "two readers share a queue, one message, anybody may be stopped",
        .parts = {{0, "send 1 to p1"}, {1, "work"}, {2, "work"}},
        .shared = 6,
        .may_stop = EVERYBODY,
    },
    {
        .name = "two readers share a queue, who sleep and are woken",
        .parts = {{0, "send 1 to p1; send 2 to p1"}, {1, "listen"}, {2, "listen"}},
        .shared = 6,
        .is_deep = true,
    },
    {
        .name = "two readers share a queue, who sleep and are woken, one of whom may be killed",
        .parts = {{0, "send 1 to p1"}, {1, "listen"}, {2, "listen"}},
        .shared = 6,
        .may_die = 2,
        .is_deep = true,
    },
    {
        .name = "two readers share a queue, of whom one leaves anywhere",
        .parts = {{0, "send 1 to p1; send 2 to p1"}, {1, "hear 1; leave"}, {2, "receive"}},
        .shared = 6,
    },
    {
        .name = "the end of a queue against a sender",
        .parts = {{0, "send 1 to p1; send 2 to p1"}, {1, "receive"}, {2, "finish"}},
        .shared = 2,
        .ends = true,
    },
    {
        .name = "the end of a queue against two readers",
        .parts = {{0, "send 1 to p1; finish"}, {1, "receive"}, {2, "receive"}},
        .shared = 6,
        .ends = true,
    },
    {
        .name = "the end of a queue that two readers share, anybody may be killed",
        .parts = {{0, "send 1 to p1; finish; stay"}, {1, "receive"}, {2, "receive"}},
        .shared = 6,
        .ends = true,
        .may_die = EVERYBODY,
    },
    {
        .name = "the end of a queue against a sender, anybody may be stopped",
        .parts = {{0, "send 1 to p1"}, {1, "receive"}, {2, "finish"}},
        .shared = 2,
        .ends = true,
        .may_stop = EVERYBODY,
    },
    {
        .name = "the end of a queue against a reader who sleeps and is woken",
        .parts = {{0, "send 1 to p1"}, {1, "listen"}, {2, "finish"}},
        .shared = 2,
        .ends = true,
    },
    {
        .name = "a message to a group against one who enters",
        .parts = {{0, "send 1 to @"}, {2, "enter; receive"}, {1, "receive"}},
        .members = 2,
        .is_deep = true,
    },
    {
        .name = "a message of a member against one who enters",
        .parts = {{0, "send 1 to @"}, {2, "enter"}},
        .members = 3,
    },
    {
        .name = "two enter a group at the same time",
        .parts = {{0, "enter"}, {2, "enter"}, {1, "receive"}},
        .capacity = 8,
        .members = 2,
        .is_deep = true,
    },
    {
        .name = "a message to a group against one who enters, and may be killed",
        .parts = {{0, "send 1 to @"}, {2, "enter; stay"}, {1, "receive"}},
        .members = 2,
        .may_die = 2,
        .is_deep = true,
    },
    {
        .name = "a message to a group, whose sender may be killed, against one who enters",
        .parts = {{0, "send 1 to @; stay"}, {2, "enter"}, {1, "receive"}},
        .members = 2,
        .may_die = 1,
        .is_deep = true,
    },
    {
        .name = "a node's end against a message to it",
        .parts = {{0, "destroy; receive"}, {1, "post 1; receive"}},
        .holders = 2,
    },
    {
        .name = "a node's end against a message to it, proposals lost",
        .parts = {{0, "destroy; receive"}, {1, "post 1; receive"}},
        .holders = 2,
        .is_stale = true,
    },
    {
        .name = "a node's end against a message to it, anybody may be killed",
        .parts = {{0, "destroy; receive"}, {1, "post 1; receive"}},
        .holders = 2,
        .may_die = EVERYBODY,
    },
    {
        .name = "a node's end against a message to it, anybody may be stopped",
        .parts = {{0, "destroy; receive"}, {1, "post 1; receive"}},
        .holders = 2,
        .may_stop = EVERYBODY,
        .is_deep = true,
    },
    {
        .name = "a node's end against a message that brings its handle",
        .parts = {{0, "destroy; receive"}, {1, "hand 1 to p2; receive"}, {2, "receive"}},
        .holders = 2,
        .is_deep = true,
    },
    {
        .name = "a node's end against a message that brings its handle, the owner may be killed",
        .parts = {{0, "destroy; receive"}, {1, "hand 1 to p2; receive"}, {2, "receive"}},
        .holders = 2,
        .may_die = 1,
        .is_deep = true,
    },
    {
        .name = "a message to a group against one who enters, anybody may be stopped",
        .parts = {{0, "send 1 to @"}, {2, "enter"}, {1, "receive"}},
        .members = 2,
        .may_stop = 3,
        .is_deep = true,
    },
    {
        .name = "a node's end against a message that brings its handle, whoever sends it may be killed",
        .parts = {{0, "destroy; receive"}, {1, "hand 1 to p2; receive"}, {2, "receive"}},
        .holders = 2,
        .may_die = 2,
        .is_deep = true,
    },
    {
        .name = "a node's end against a message that brings its handle, anybody may be stopped",
        .parts = {{0, "destroy; receive"}, {1, "hand 1 to p2; receive"}, {2, "receive"}},
        .holders = 2,
        .may_stop = EVERYBODY,
        .is_deep = true,
    },
    {
        .name = "the death of a node's owner against a message that brings its handle",
        .parts = {{0, "send 2 to p1 p2; stay"}, {1, "hand 1 to p2; receive"}, {2, "receive"}},
        .holders = 2,
        .may_die = 1,
        .is_deep = true,
    },
    {
        .name = "a node's end against the death of its owner",
        .parts = {{0, "destroy; stay"}, {1, "receive"}, {2, "receive"}},
        .holders = 6,
        .may_die = 1,
        .is_deep = true,
    },
    {
        .name = "the death of a node's owner against a message to it",
        .parts = {{0, "stay"}, {1, "post 1; receive"}, {2, "receive"}},
        .holders = 6,
        .may_die = 1,
    },
    {
        .name = "a node's end against a message that brings its handle to the owner, too",
        .parts = {{0, "destroy; receive"}, {1, "hand 1 to p0 p2"}, {2, "receive"}},
        .holders = 2,
        .is_deep = true,
    },
    {
        .name = "one leaves a group against a message to it",
        .parts = {{0, "depart; receive"}, {1, "send 1 to @; receive"}},
        .members = 3,
    },
    {
        .name = "one leaves a group against a message to it, anybody may be killed",
        .parts = {{0, "depart; receive"}, {1, "send 1 to @; receive"}},
        .members = 3,
        .may_die = EVERYBODY,
    },
    {
        .name = "one leaves a group against a message to it, anybody may be stopped",
        .parts = {{0, "depart; receive"}, {1, "send 1 to @; receive"}},
        .members = 3,
        .may_stop = EVERYBODY,
        .is_deep = true,
    },
    {
        .name = "the death of a member against a message to its group",
        .parts = {{0, "send 1 to @"}, {1, "receive"}, {2, "stay"}},
        .members = 7,
        .may_die = 4,
    },
    {
        .name = "the death of a member against a message to its group, whose sender asks who lives",
        .parts = {{0, "send 1 to @"}, {1, "receive"}, {2, "stay"}},
        .members = 7,
        .may_die = 4,
        .asks_who_lives = true,
    },
    {
        .name = "the death of a member who sends, against one who enters",
        .parts = {{2, "send 1 to p0 p1; stay"}, {0, "enter; receive"}, {1, "receive"}},
        .members = 6,
        .may_die = 1,
        .is_stale = true,
        .is_rare = true,
        .is_deep = true,
    },
    {
        .name = "the death of a member against one who enters its group",
        .parts = {{0, "stay"}, {2, "enter; receive"}, {1, "receive"}},
        .members = 3,
        .may_die = 1,
        .is_deep = true,
    },
    {
        .name = "one enters a group, another leaves it",
        .parts = {{0, "depart"}, {2, "enter"}, {1, "receive"}},
        .capacity = 8,
        .members = 3,
        .is_deep = true,
    },
    {
        .name = "one enters a group, another leaves it, and either may be killed",
        .parts = {{0, "depart; stay"}, {2, "enter; stay"}, {1, "receive"}},
        .capacity = 8,
        .members = 3,
        .may_die = 3,
        .is_rare = true,
        .is_deep = true,
    },
    {
        .name = "one enters a group, another leaves it, and either may be stopped",
        .parts = {{0, "depart"}, {2, "enter"}, {1, "receive"}},
        .capacity = 8,
        .members = 3,
        .may_stop = 3,
        .is_rare = true,
        .is_deep = true,
    },
    {
        .name = "two enter a group, and either may be killed",
        .parts = {{0, "enter; stay"}, {2, "enter; stay"}, {1, "receive"}},
        .capacity = 8,
        .members = 2,
        .may_die = 3,
        .is_rare = true,
        .is_deep = true,
    },
    {
        .name = "two enter a group, and either may be stopped",
        .parts = {{0, "enter"}, {2, "enter"}, {1, "receive"}},
        .capacity = 8,
        .members = 2,
        .may_stop = 3,
        .is_rare = true,
        .is_deep = true,
    },
    {
        .name = "a message to a group whose members do not receive, against one who enters and may be stopped",
        .parts = {{0, "send 1 to @"}, {2, "enter"}},
        .members = 3,
        .may_stop = 2,
        .is_roomy = true,
    },
    {
        .name = "a message to a group and to one beside it, against one who leaves the group",
        .parts = {{0, "send 1 to @ p2"}, {1, "depart; receive"}, {2, "receive"}},
        .members = 3,
    },
    {
        .name = "the death of the only member against a message to its group and to one beside it, and one who enters",
        .parts = {{0, "send 1 to @ p2"}, {1, "stay"}, {3, "enter"}, {2, "receive"}},
        .clocks = {0, 0, 9, 0},
        .members = 2,
        .may_die = 2,
        .is_deep = true,
    },
    {
        .name = "one enters a group, and whoever gives it the state may be killed",
        .parts = {{0, "hear 203; send 1 to p2; stay"}, {1, "hear 204; send 2 to p2; receive"}, {2, "enter; receive"}},
        .members = 3,
        .may_die = 1,
        .taker = 2,
        .is_deep = true,
    },
    {
        .name = "a sender who dies anywhere, then a side channel",
        .parts = {{3, "send 1 to p1 p2"}, {0, "await 1 at p1; send 2 to p2"}, {1, "receive"}, {2, "receive"}},
        .clocks = {0, 9, 3, 0},
        .patience = 1,
        .is_stale = true,
        .may_die = 1,
        .is_deep = true,
    },
    {
        .name = "a sender who dies anywhere, another who sends, proposals lost",
        .parts = {{0, "send 1 to p2 p3"}, {1, "send 2 to p3"}, {2, "receive"}, {3, "receive"}},
        .is_stale = true,
        .may_die = 1,
        .is_deep = true,
    },
};

#define N_SCENARIOS (sizeof scenarios / sizeof scenarios[0])

static int follow(const char *name, const char *schedule)
{
  for (uint32_t i = 0; i < N_SCENARIOS; i++)
    if (strcmp(scenarios[i].name, name) == 0)
      return explore_follow(&scenarios[i], schedule) ? 0 : 1;
  fprintf(stderr, "no scene is called \"%s\"\n", name);
  return 2;
}

static const char *judge_nothing(void *context, busq_end end, uint32_t stopped)
{
  (void)context;
  (void)end;
  (void)stopped;
  return NULL;
}

/* A bad end ends no search here: what counts is the first step that the program which follows does not allow. */
static int write_steps(const char *name, uint64_t states_max)
{
  for (uint32_t i = 0; i < N_SCENARIOS; i++) {
    explore_scenario scene = scenarios[i];
    if (strcmp(scene.name, name) != 0)
      continue;
    scene.preemptions = scene.is_deep ? 1 : scene.preemptions;
    explore_steps_begin();
    explore_watcher = &explore_steps;
    explore_cast(&scene);
    explore_set_stage(&scene);
    explore_world.judge = judge_nothing;
    explore_search(&scene, scene.preemptions ? scene.preemptions : BUSQ_EXPLORE_UNBOUNDED, states_max, &explore_result);
    explore_strike_stage();
    return fflush(stdout) == 0 ? 0 : 2;
  }
  fprintf(stderr, "no scene is called \"%s\"\n", name);
  return 2;
}

/* How far large scenes are searched. */
typedef struct {
  uint32_t preemptions;
  bool is_full;    /* all of them */
  bool is_bounded; /* by a number of states */
} depth;

static bool is_asked_for(const explore_scenario *scene, const depth *asked, int n_words, char **words)
{
  for (int i = 0; i < n_words; i++)
    if (words[i][0] == '=' ? strcmp(scene->name, words[i] + 1) == 0 : strstr(scene->name, words[i]) != NULL)
      return true;
  return n_words == 0 && (!asked->is_bounded || !scene->is_rare);
}

/* The ends are the same, to the byte, when every access is a pause and all that can go on are tried everywhere. */
static void test_what_the_search_leaves_out_changes_nothing(void)
{
  static const explore_scenario small[] = {
      {.name = "a sender and a receiver", .parts = {{0, "send 1 to p1"}, {1, "receive"}}},
      {.name = "two senders", .parts = {{0, "send 1 to p1 p2"}, {1, "send 2 to p1 p2"}}},
      {.name = "two senders, proposals lost",
       .parts = {{0, "send 1 to p1 p2"}, {1, "send 2 to p1 p2"}},
       .is_stale = true},
      {.name = "two senders of single messages and their receiver",
       .parts = {{0, "send 1 to p2"}, {1, "send 2 to p2"}, {2, "receive"}}},
      {.name = "an impatient receiver", .parts = {{0, "send 1 to p1 p2"}, {1, "receive"}}, .patience = 1},
      {.name = "one who leaves", .parts = {{0, "send 1 to p1"}, {1, "leave"}}},
  };
  static busq_explore_result all;
  for (unsigned i = 0; i < sizeof small / sizeof small[0]; i++) {
    busq_explore_options options = {
        .preemptions_max = BUSQ_EXPLORE_UNBOUNDED, .states_max = UINT64_MAX, .merges = true};
    explore_cast(&small[i]);
    explore_set_stage(&small[i]);
    busq_explore(&explore_world, &options, &all);
    options.reduces = true;
    options.walks = EXPLORE_WALKS;
    busq_explore(&explore_world, &options, &explore_result);
    explore_strike_stage();
    CHECK(all.is_complete && explore_result.is_complete && explore_result.states < all.states);
    CHECK_EQUAL(explore_result.outcomes, all.outcomes);
    CHECK_EQUAL(explore_result.outcomes_sum, all.outcomes_sum);
  }
}

/* True if it ends well, whatever happens. */
static bool search(explore_scenario scene, const depth *asked, const char *program)
{
  check_test = scene.name;
  if (asked->is_bounded)
    alarm(CHECK_SECONDS_MAX);
  if (scene.is_deep && !asked->is_full)
    scene.preemptions = asked->preemptions;
  if (explore_run(&scene, asked->is_bounded ? check_share(STATES_MAX) : UINT64_MAX))
    return true;
  explore_follow(&scene, explore_result.schedule);
  printf("    again: %s --follow \"%s\" %s\n", program, scene.name, explore_result.schedule);
  return false;
}

int main(int n_arguments, char **arguments)
{
  const char *option = n_arguments > 1 && strncmp(arguments[1], "--", 2) == 0 ? arguments[1] : "";
  const bool stops_at_first = strcmp(option, "--first") == 0, is_given = strcmp(option, "--preemptions") == 0 && n_arguments > 2;
  depth asked = {.preemptions = 1, .is_full = strcmp(option, "--deep") == 0};
  const int n_options = is_given ? 3 : *option ? 2 : 1;
  bool is_good = true;
  check_begin();
  busq_step_looks = 2;
  if (is_given)
    asked.preemptions = (uint32_t)strtoul(arguments[2], NULL, 10);
  asked.is_bounded = !asked.is_full && !is_given;
  if (!asked.is_bounded)
    alarm(0);
  if (strcmp(option, "--follow") == 0 && n_arguments == 4)
    return follow(arguments[2], arguments[3]);
  if (strcmp(option, "--steps") == 0 && n_arguments == 4) {
    alarm(0);
    return write_steps(arguments[2], strtoull(arguments[3], NULL, 10));
  }
  for (uint32_t i = 0; i < N_SCENARIOS && strcmp(option, "--list") == 0; i++)
    printf("%s%s\n", scenarios[i].name, scenarios[i].is_deep ? " (large)" : "");
  if (strcmp(option, "--list") == 0)
    return 0;
  for (uint32_t i = 0; i < N_SCENARIOS && (is_good || !stops_at_first); i++)
    if (is_asked_for(&scenarios[i], &asked, n_arguments - n_options, arguments + n_options))
      is_good &= search(scenarios[i], &asked, arguments[0]);
  if (is_good && n_arguments == n_options)
    check_run("what the search leaves out changes nothing", test_what_the_search_leaves_out_changes_nothing);
  return is_good ? 0 : 1;
}
