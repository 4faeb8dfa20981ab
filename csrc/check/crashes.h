/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_CHECK_CRASHES_H
#define BUSQ_CHECK_CRASHES_H
/*
 * Processes of a model that die, as order/order.h has it.
 *
 * Guarantee: whatever a death may leave is among the moves.  A process dies between two steps, or in one, behind any
 * number of its units: that a message is sent, that it is delivered, and each packet to each receiver, a multicast in
 * the order of their numbers, around from any of them.  What it has sent stays in flight; what was on its way to it is
 * gone.  Where the order goes on, each living process learns of each death, at any moment after the last packet of the
 * dead to it.  No process has to die: where nothing but deaths is left, the execution may have ended.
 *
 * Why a multicast is cut around alone: it has three receivers at most, and of these any that have it follow one another.
 *
 * Not given: the reductions of check/check.h for processes that do not die.  A packet that commutes with all that its receiver does
 * does not with its death; a submit that waits goes with its process; and cuts see names.  Two others take their place: silent
 * packets (check/reduce.h) and forgetting (check/forget.h).  That a process dies only directly behind a step of its own would be
 * enough, too, but saves no state: what others do until it dies leads to the same states when it is dead.
 */
#include "check/state.h"

static inline bool busq_model_may_crash(const busq_model *model, const void *state)
{
  const uint32_t n_living = (uint32_t)__builtin_popcount(busq_model_living(model, state));
  return model->config.n_processes - n_living < model->config.crashes_max;
}

/* All moves by which a process learns of a death, or dies between two steps; how many. */
uint32_t busq_model_add_learning(const busq_model *model, const void *state, busq_model_move *moves);
uint32_t busq_model_add_deaths(const busq_model *model, const void *state, busq_model_move *moves);
void busq_model_crash(const busq_model *model, void *state, uint32_t process);

#endif /* BUSQ_CHECK_CRASHES_H */
