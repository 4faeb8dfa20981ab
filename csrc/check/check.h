/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_CHECK_CHECK_H
#define BUSQ_CHECK_CHECK_H
/*
 * The search, and what it leaves out.
 *
 * Guarantee.  Where a search reports "complete", every execution within the bound (check/model.h) was judged, at every
 * step and at its end, but for what depends on a state whose 64-bit fingerprint is that of another one; how many those
 * are on average is reported.  What is found is given as the steps that lead there, and every step can be made:
 * reductions leave states out, and never make one up.
 *
 * Mechanism.  Three searches: depth first (check/depth_first.c), the fastest and smallest; breadth first (check/breadth_first.c), whose
 * violation is a shortest one; random executions (check/random_walk.c), for bounds that the others do not get through.
 *
 * A state that was seen is not looked at again, whichever way leads to it: what can happen from it, and what was
 * violated on the way, is part of it.  An execution that goes on for more than BUSQ_CREW_DEPTH_MAX moves is taken for
 * one without end; whether there may be others that go in circles, from a state to itself, the transitions show
 * (check/model.h).
 *
 * Reductions, each of which can be switched off:
 *
 *   late submits    A submit that only waits in an output buffer is tried later, where it is sent at once.  Both ways take
 *                   the same number of moves, so a shortest violation stays one.
 *
 *   quiet packets   A packet whose arrival commutes with everything that can happen before it is let in at once.  It comes
 *                   sooner than it would have to, so the shortest way to a violation may be left out; breadth first goes
 *                   without.
 *
 *                   Why nothing is lost by these two, and what is not taken on an order's word: check/reduce.h.
 *
 *   symmetry        Where no process is special (busq_model_is_symmetric), states that differ by the names of processes only
 *                   are taken for one: what can happen from one can happen from the other, under other names, in as many
 *                   moves, and no property asks for names.  The states that are kept are real ones: whoever of a class comes
 *                   first stands for it.  So the steps of a violation are real too.  States and ends are counted by class.
 *
 * Where processes die these do not hold (check/crashes.h), and two others do:
 *
 *   silent packets  A packet that has no effect at its receiver, and takes none from what comes before it, is let in at once.  As with
 *                   quiet packets, the shortest way to a violation may be left out (check/reduce.h).
 *
 *   forgetting      History that can't matter any more is no part of a state: pasts of what all that live have delivered, and what
 *                   only the dead knew (check/forget.h).  Ways stay as long as they are.
 *
 * They go together: each finds for a state what may be left out because of what can happen from it, and the names of
 * processes change nothing of that.  What they take for granted is tried where it is used (check/reduce.h), and, of
 * names, on every move of the first states and on a few of the others.  What was found wrong is counted; then a search
 * that holds has shown nothing, and has to be made again without reductions.
 */
#include "check/search_threads.h"

#endif /* BUSQ_CHECK_CHECK_H */
