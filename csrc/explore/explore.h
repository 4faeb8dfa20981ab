/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_EXPLORE_EXPLORE_H
#define BUSQ_EXPLORE_EXPLORE_H
/*
 * Every interleaving of compiled code, one access of shared memory at a time.
 *
 * Guarantee.  Where busq_explore reports "complete", the outcome of every order in which the actors of a world can make
 * their accesses of shared memory was judged; with faults, also for every access at which one of them may be killed,
 * or stopped and continued after others have lost their patience.  A schedule that ends badly is given as a string,
 * is found again from it, and is printed access by access.
 *
 * Mechanism.  Actors are coroutines.  The core is built so that it announces every access before it makes it
 * (base/atomic.h); there a coroutine may pause, and the search decides which actor goes on: depth first, and back by
 * putting memory and stacks back.  What is left out, and why nothing is lost by it:
 *
 *   - States that were seen before.  A state is everything that later steps may depend on: all regions, the
 *     coroutines' registers and stacks, and what the search knows of each actor.  Seen states are kept as 128-bit
 *     hashes, so "nothing is lost" is true but for collisions: for a hundred million states, once in 10^22 runs.
 *
 *   - Pauses before accesses that no actor minds.  The search keeps a footprint per actor: the words that it reads and
 *     writes from its present phase on, in any execution seen so far.  Where no other live actor's footprint
 *     conflicts with an access (the same 8 bytes, at least one writes) the actor does not pause.  Footprints begin
 *     empty; whenever one grows in a way that makes a new conflict, the search begins again with what is known, until
 *     nothing new comes up.  Then every access was classed rightly: take the shortest execution that makes a conflict
 *     which is not in the footprints.  Up to its last access it has none, so its accesses can be reordered, without
 *     changing what any actor reads, until actors change only at pauses; that order was searched, and the conflict
 *     would have been recorded.  Plain writes are taken into the footprints by comparing memory.
 *
 *   - Orders that cannot be distinguished.  In each state only a persistent set of actors is tried: a set such that
 *     whatever the others may still do, according to their footprints, conflicts with nothing that its members are
 *     about to do.  An actor that waits is about to read again what it has read.  Every maximal execution is then
 *     equivalent, by swapping neighbours that do not conflict, to one that is tried. (There are no cycles of states
 *     in which one could be put off for ever: a waiting one goes on only when something that it has read was changed.)
 *
 *   - Looking again at what has not changed.  An actor that found nothing to do (BUSQ_TURN_WAIT) takes its next turn
 *     when a line of 64 bytes that it has read in the last one was changed by another one; before that it would find
 *     the same.
 *
 *   - Faults at other times.  A kill changes nothing but what the kernel knows, and nothing at all happens to others
 *     when an actor is stopped.  So a fault comes at the last moment: when the actor to be hit is the only one of
 *     the persistent set that could go on, or when another one is about to ask whether it lives.  Time passes (patience
 *     is lost) when no actor but the stopped one can go on; it comes back at any moment after that.
 *
 * With a bound on preemptions the persistent sets are left out, because they reorder; all else holds.
 *
 * Not given: reorderings that the processor makes; time that passes while an actor could go on (but for worlds that
 * allow it); a second fault in the same execution.
 */
#include "explore/world.h"

#define BUSQ_EXPLORE_DEPTH_MAX 4000u
#define BUSQ_EXPLORE_UNBOUNDED UINT32_MAX

typedef struct {
  uint32_t preemptions_max; /* BUSQ_EXPLORE_UNBOUNDED: all interleavings */
  uint64_t states_max;
  uint32_t faults_max;    /* 0 or 1 */
  uint32_t walks;         /* random executions before the search, which fill the footprints */
  bool merges;            /* leaves out states seen before */
  bool reduces;           /* leaves out pauses that no actor minds, and orders that can't be distinguished */
  const busq_explore_watcher *watcher; /* of the search, but not of the walks before it; or NULL */
} busq_explore_options;

#define BUSQ_EXPLORE_SCHEDULE_BYTES (BUSQ_EXPLORE_DEPTH_MAX * 8)

typedef struct {
  uint64_t states;
  uint64_t transitions;
  uint64_t ends;
  uint64_t outcomes;     /* different contents of memory among them */
  uint64_t outcomes_sum; /* the hashes of all of these, added up: two searches that reach the same have the same */
  uint64_t passes; /* searches until the footprints stood still */
  uint32_t depth_max;
  uint32_t words; /* 8 bytes that two actors fight for */
  bool is_complete;
  bool has_failed;
  char fault[1024];
  char schedule[BUSQ_EXPLORE_SCHEDULE_BYTES]; /* the one that failed */
} busq_explore_result;

void busq_explore(busq_world *world, const busq_explore_options *options, busq_explore_result *result);

#endif /* BUSQ_EXPLORE_EXPLORE_H */
