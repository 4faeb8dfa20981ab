/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_ORDER_SEQUENCER_SUCCESSOR_H
#define BUSQ_ORDER_SEQUENCER_SUCCESSOR_H
/*
 * A sequencer that outlives its coordinator: "sequencer:on_crash=go-on".
 *
 *   submit m:              keep m; ask the coordinator, REQUEST(m), or number m, at the coordinator
 *   receive REQUEST(m):    number m
 *   number m:              give m the next number q, send DATA(m, q) to all, deliver m; what is of one's own is done then
 *   receive DATA(m, q):    known: ignore it.  Else the same with the number that it has: send it on to all, deliver m
 *   suspect p:             send FLUSH(all that are suspected) to the next coordinator, which is the lowest process that is not
 *   receive FLUSH, suspect: the next coordinator, when all that it does not suspect have flushed, suspecting all that it
 *                          does: send GO to all, and go on with the next number
 *   receive GO:            ask the new coordinator for all that one keeps, in order
 *
 * Guarantee: causal total order, uniform: when any number of processes but one die, the others deliver all that any
 * process has delivered, and all that one of them has sent, and none waits for ever.
 *
 * Why.  A process that delivers a message has handed it to all before.  One that has flushed has sent on all that it will
 * ever get from those that are suspected, and channels keep the order; so the new coordinator knows every number that was
 * given and that a living process will see, and has sent on each of them before its GO: what is asked for behind that has none.
 * No process sees a gap: a coordinator hands a message to all before it numbers the next, as does each that sends it on.
 *
 * Packets: n (n - 1) per message, and a REQUEST where the sender is not the coordinator.
 *
 * Not given: order where channels do not keep it.
 */
#include "order/order.h"

enum { BUSQ_SUCCESSOR_DATA, BUSQ_SUCCESSOR_REQUEST, BUSQ_SUCCESSOR_FLUSH, BUSQ_SUCCESSOR_GO };

/* Without the option, states are groups, and sound. */
size_t busq_successor_head_size(const busq_order_group *group);
int busq_successor_step(void *state, const busq_order_event *event, busq_order_effects *effects);
bool busq_successor_verify(const void *state);
void busq_successor_gauge(const void *state, busq_order_gauge *gauge);

#endif /* BUSQ_ORDER_SEQUENCER_SUCCESSOR_H */
