/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_ORDER_SUCCESSOR_H
#define BUSQ_ORDER_SUCCESSOR_H
/*
 * A sequencer that outlives its coordinator: "sequencer:on_crash=go-on".
 *
 *   submit m:              keep m; ask the coordinator, REQUEST(m), as soon as there is one
 *   receive REQUEST(m):    the coordinator, if m is the next of its sender: give m the next number, send DATA(m, number)
 *                          to all, deliver it here
 *   receive DATA(m, q):    known: ignore it.  Else send it on to all; deliver m when all numbers before q have been
 *                          delivered, or passed over; a message of one's own is done then
 *   suspect p:             forget that the coordinator was asked for anything, if it was p; send FLUSH(all that are suspected)
 *                          to the next coordinator, which is the lowest process that is not
 *   receive FLUSH, suspect: the next coordinator, when all that it does not suspect have flushed, suspecting all that it
 *                          does: send GO to all, and go on with the next number
 *   receive GO:            ask the new coordinator for all that one keeps, in order
 *
 * Guarantee: causal total order, uniform: when any number of processes but one die, the others deliver all that any
 * process has delivered, and all that one of them has sent, and none waits for ever.
 *
 * Why.  A process that delivers a message has handed it to all before.  One that has flushed has sent on all that it will
 * ever get from those that are suspected, and channels keep the order; so the new coordinator knows every number that was
 * given and that a living process will see.  There are no gaps: a coordinator hands a message to all before it numbers the next.
 * A REQUEST counts if it is the next of its sender, so one that was asked twice, or came too early, changes nothing.
 *
 * Packets: n (n - 1) per message, and a REQUEST where the sender is not the coordinator.
 *
 * Not given: order where channels do not keep it.
 */
#include "order/order.h"

enum { BUSQ_SUCCESSOR_DATA, BUSQ_SUCCESSOR_REQUEST, BUSQ_SUCCESSOR_FLUSH, BUSQ_SUCCESSOR_GO };

/* Without the option, states are groups, and sound. */
size_t busq_successor_head_size(const busq_order_group *group);
void busq_successor_init(void *state);
int busq_successor_step(void *state, const busq_order_event *event, busq_order_effects *effects);
bool busq_successor_verify(const void *state);
void busq_successor_gauge(const void *state, busq_order_gauge *gauge);

#endif /* BUSQ_ORDER_SUCCESSOR_H */
