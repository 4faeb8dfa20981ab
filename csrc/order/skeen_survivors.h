/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_ORDER_SKEEN_SURVIVORS_H
#define BUSQ_ORDER_SKEEN_SURVIVORS_H
/*
 * Proposed timestamps without a sender that decides: "skeen:on_crash=go-on", "abcast:on_crash=go-on".  Each destination hears
 * the proposals of all others, and those that live decide.
 *
 *   submit m:                tick the clock; send DATA(m, clock, D) to the destinations D; if this process is one, queue m under
 *                            the clock, which is its own proposal; otherwise m is done
 *   receive DATA(m, t, D):   for the first time: clock = max(clock, t) + 1, queue m under max(clock, t), send DATA(m, clock, D)
 *                            to the others of D.  In any case its sender is heard, and so is its proposal t
 *   a proposal t is heard:   queue m under t, if that is above its place
 *   suspect p:               for each m that is not settled send PROPOSAL(m, its place, those whose proposals were not heard) to D; then
 *                            FLUSH(all that are suspected) to all
 *   receive PROPOSAL(m, t, U): what is not in U is heard; its maximum is t
 *   m is settled:            when its sender and all of D that are not suspected were heard; and either all proposals, or each process
 *                            that is not suspected has flushed, suspecting all that this process does.  Then clock = max(clock,
 *                            its place); send FINAL(m, its place) to D
 *   receive FINAL(m, t):     as PROPOSAL(m, t, none): all proposals that count were heard
 *   the first of the queue is settled:   deliver it
 *
 * Guarantee: total order, uniform: when any number of processes but one die, the others deliver all that any process has
 * delivered, and all that one of them has sent, and none
 * waits for ever, where each has room (see below).  A message is the business of its sender and its destinations, a FLUSH one of
 * all processes.
 *
 * Why.  A message stands in the queue at its largest proposal that was heard, and is settled nowhere below that: so nothing smaller comes
 * after the first of the queue, as in order/skeen.c.  All settle m at the same place: whether a proposal of the dead counts is the
 * question.  Let a have heard it, and b not.  Either a has settled m: then FINAL is before its FLUSH in the channel to b, and b does not
 * decide without that FLUSH.  Or its PROPOSAL is.  Should a be dead as well, the same holds of each that has heard of the proposal from a.
 * A process that delivers m has sent FINAL to all of D before.
 * No DATA of m comes after m has been settled: all that send it are heard then, or will never be.
 *
 * Packets: k (k - 1) DATA and as many FINAL among the k destinations, and k DATA where the sender is none of them.
 *
 * Not given: order where channels do not keep it; an end where the places for messages of others (held_max) are too few for all
 * that have been sent and not delivered here: two destinations that are full may each refuse what the other one waits for, as in
 * order/skeen.c.  waiting_max does not bound them: a sender that is no destination is done at once, others when they deliver.
 */
#include "order/order.h"

enum { BUSQ_SURVIVORS_DATA, BUSQ_SURVIVORS_PROPOSAL, BUSQ_SURVIVORS_FINAL, BUSQ_SURVIVORS_FLUSH };

/* For the checker (order.h).  Knowledge of a message only grows, but the news of a death makes a process hand all of it on. */
enum {
  BUSQ_SURVIVORS_SILENT_ALWAYS = 1 << BUSQ_SURVIVORS_FLUSH,
  BUSQ_SURVIVORS_SILENT_AT_LAST = 1 << BUSQ_SURVIVORS_DATA | 1 << BUSQ_SURVIVORS_PROPOSAL | 1 << BUSQ_SURVIVORS_FINAL
};

/* The bytes before the buffers, under the option; of these the first, an outbox, is not in use. */
size_t busq_survivors_head_size(const busq_order_group *group);
int busq_survivors_step(void *state, const busq_order_event *event, busq_order_effects *effects, bool has_timestamps);
uint64_t busq_survivors_rebase(void *const *states, uint32_t n_states, busq_order_packet *packets, uint32_t n_packets);
bool busq_survivors_verify(const void *state);
void busq_survivors_gauge(const void *state, busq_order_gauge *gauge);

#endif /* BUSQ_ORDER_SKEEN_SURVIVORS_H */
