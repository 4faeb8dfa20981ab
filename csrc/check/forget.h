/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_CHECK_FORGET_H
#define BUSQ_CHECK_FORGET_H
/*
 * History that can't matter any more.
 *
 * Guarantee: what can still happen, and each verdict on it, is the same with what is forgotten and without; so states that
 * differ by that alone become one.  For an application that is free, where processes may die.
 *
 * A message is *over* when it was sent, and every living destination has delivered it.
 *
 *   causal pasts      A clock has a number for each process: up to which of its sends are known.  It is read in comparisons with the stamps of
 *                     messages that come to a first delivery, and merged with others by taking the larger number.  So of the sends
 *                     of a process only those count that are not over, and of those in the past of what was delivered here only
 *                     those that are still to be delivered here: a number becomes the largest such stamp that it covers, or 0.  That
 *                     is monotonic, so taking the larger one before or after it is the same; fewer stamps count from step to step,
 *                     but for new ones, which are above all numbers.
 *   clocks            The clock of a message is read when it is delivered first: of what is over, never.  What its order has stored
 *                     beside it is read where a process has the message, or gets a packet with it.
 *   logs              They are searched for cycles.  A message that is over, and first in all logs that have it, has nothing before it
 *                     and never will, so it is on no cycle.
 *   the dead          What a dead process knows, how many messages it has sent and delivered, and which are done, is asked of
 *                     the living only.  That it has delivered something counts until that is over.
 *
 * Not given: a verdict on what comes behind a delivery to a process that is no destination, or behind a second one; those are faults
 * themselves, and the rest may be judged milder.
 */
#include "check/state.h"

void busq_model_forget(const busq_model *model, void *state);

#endif /* BUSQ_CHECK_FORGET_H */
