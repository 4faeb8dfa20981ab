/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_CHECK_REDUCE_H
#define BUSQ_CHECK_REDUCE_H
/*
 * Moves that need not be tried.
 *
 * Guarantee: every end that some execution reaches is still reached, and every fault is still found, if what an order
 * claims of itself (quiet packets, an output buffer: order.h) is true.  Its claims are not taken on trust: each time a
 * move is left out, or everything but one, the moves that it has to commute with are played in both orders, and the
 * results are compared, history and all.  Where they differ nothing is left out.
 *
 * Mechanism.
 *
 *   Late submits    In an order with an output buffer, a submit that is not sent at once changes nothing but the buffer; the
 *                   step that would send it from there does the same as that step with an empty buffer and the submit right
 *                   after it.  So of all times at which a message may be submitted, those at which it is sent at once are
 *                   enough.  Such a submit is left out, if it, and others behind it, commute with every packet and alarm that
 *                   its process may take next; and if anything else is left to do, for a process that waits for something that never
 *                   comes is stuck, and has to be seen.
 *
 *   Quiet packets   A packet whose arrival commutes with everything that can happen before it is let in at once, and nothing
 *                   else is tried in that state: whatever else would have happened first can happen after it, and leads to
 *                   the same states.  What happens to others commutes with it anyway.  A packet that lets something be
 *                   delivered is never taken for quiet: whether deliveries may change places is what is to be found out.
 *
 *   Silent packets  Where processes die, let q be a packet to p that has no effect in this state: p sends, delivers and ends nothing
 *                   because of it.  The order's word (order.h, silent_always ...) is that whatever p takes before q it also takes
 *                   behind q, with the same effects in the same order and perhaps more behind them, and comes to the same state.
 *                   Then q alone is tried.  Take any execution from here, and let q come first instead.
 *                     p takes q later   What q lets out then comes sooner, behind the step that it would have waited for.  If that
 *                                       step has no other effects, let it wait, too: then all comes as it did.  If it has, what q
 *                                       lets out are deliveries alone: their order is the same, no other process notices, and what p sends
 *                                       in between has them in its past as well.  So what breaks causal order still does, and
 *                                       nothing else is judged by that: not so where sends are judged by their place among
 *                                       deliveries (logs_sends), and where an application answers, or knows of deliveries.
 *                     p dies before     Between two steps, or in one behind some of its effects: with q, p has those in the same order,
 *                                       and can die behind the same ones.  Its state is gone, and so is q.
 *                     p learns before   of a death: like any other event.  Not of that of q's sender, which is known behind q only.  Of
 *                                       kinds that do not commute with it, silent_at_last, no death may be unknown or to come.
 *                   A packet that changes nothing, and never will, lets nothing out: idle_stays.
 *
 * Why no state is put off for ever: every move uses something up, so there are no circles, unless packets go in
 * circles, which is found out (check/model.h).
 *
 * Not given: that all the commuting is played.  What is left out could meet, later, a move that is not possible yet;
 * that it commutes with those too is the order's word.  Wherever both finish, searches with and without reductions are
 * compared (tests).
 */
#include "check/model.h"

/* Puts the moves that are to be tried first, and returns how many they are: none only where there was none.  `room`
 * takes two states, and one more for each message of a process.  *contradicted grows where an order's word was found
 * wrong. */
uint32_t busq_reduce(const busq_model *model, uint32_t reductions, const void *state, busq_model_move *moves,
                     uint32_t n_moves, void *room, uint64_t *contradicted);

/* ---- what reductions take for granted, tried on a state at hand: both ways are played and compared ---- */

/* Whether two moves that are possible in this state lead to the same one in either order, and neither prevents the
 * other. `room` takes two states. */
bool busq_model_commute(const busq_model *model, const void *state, const busq_model_move *one,
                        const busq_model_move *other, void *room);
/* Whether playing the move and giving the processes other names, drawn by the number `choice`, come to the same in
 * either order. `room` takes two states. */
bool busq_model_keeps_names(const busq_model *model, const void *state, const busq_model_move *move, uint64_t choice,
                            void *room);

#endif /* BUSQ_CHECK_REDUCE_H */
