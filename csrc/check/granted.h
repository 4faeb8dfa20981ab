/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_CHECK_GRANTED_H
#define BUSQ_CHECK_GRANTED_H
/* What reductions take for granted, tried on a state at hand: both ways are played and compared. */
#include "check/model.h"

/* Whether two moves that are possible in this state lead to the same one in either order, and neither prevents the other.
 * `room` takes two states. */
bool busq_model_commute(const busq_model *model, const void *state, const busq_model_move *one,
                        const busq_model_move *other, void *room);
/* Whether playing the move and giving the processes other names, drawn by the number `choice`, come to the same in either order.
 * `room` takes two states. */
bool busq_model_keeps_names(const busq_model *model, const void *state, const busq_model_move *move, uint64_t choice,
                            void *room);

#endif /* BUSQ_CHECK_GRANTED_H */
