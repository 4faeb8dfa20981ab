/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_LIVE_LINK_H
#define BUSQ_LIVE_LINK_H
/*
 * The ways between the members.
 *
 * Guarantee: a packet reaches its mailbox once, unless its member is gone; packets to one member arrive in the order in
 * which they were sent, unless reordering was asked for, and even then where the order needs FIFO channels.  Sending
 * never waits.  A packet held back to be reordered leaves within the time that was asked for.
 *
 * Mechanism.  A packet that finds its mailbox full waits in the outbox of its link; so do all behind it.  Reordering
 * draws for each packet how long it is held back, in a heap by the time at which it leaves.
 *
 * Credits bound what a receiver must keep: a sender counts the copies, and their bytes, at each destination that the
 * application there has not taken.  A receiver reports in batches: by the time the sender may send no more, and
 * everything was taken, at least one batch is full.  A sender that has waited for longer than a moment asks, and gets a
 * report of the next copy that is taken.  Where the order needs the whole group, it holds every message at every
 * member: so many it may hold there, too, before it lets go of them.
 *
 * Not given: order between links.
 *
 * Everything here wants the mutex.
 */
#include "live/member.h"

/* `entry` where the packet's kind has a payload, NULL otherwise. */
void busq_link_send(busq_live *live, uint32_t to, busq_wire_packet packet, busq_live_entry *entry);
void busq_link_set_alarm(busq_live *live, uint64_t delay_ns);
/* Sends what may leave now, and what found no room before.  How many alarms have gone off. */
uint32_t busq_link_work(busq_live *live);
/* For how long nothing is to be done if nothing comes. */
uint64_t busq_link_idle_ns(const busq_live *live);
/* Wakes the thread that waits in the mailbox, unless it will come back before that time by itself. */
void busq_link_nudge(busq_live *live, uint64_t due_ns);
/* Wakes also the other threads that sleep, where the packet that was to wake them was taken. */
void busq_link_pass_wake(busq_live *live);
/* Wakes the threads that wait on the condition, and the one that waits in the mailbox instead. */
void busq_link_announce(busq_live *live, pthread_cond_t *condition);

/* The first of the members that has not taken what was sent to it before, and holds up a message to those destinations;
 * live->n: none. */
uint32_t busq_link_full(const busq_live *live, const uint32_t *destinations, uint32_t n_destinations);
void busq_link_owe(busq_live *live, const uint32_t *destinations, uint32_t n_destinations, uint64_t bytes);
/* The application has taken, or will never get, a copy of that origin's. */
void busq_link_take(busq_live *live, uint32_t origin, uint64_t bytes);
/* The order holds a message of that origin's no longer. */
void busq_link_settle(busq_live *live, uint32_t origin, uint64_t bytes);
/* Asks the receivers that keep it from being sent to these. */
void busq_link_ask(busq_live *live, const uint32_t *destinations, uint32_t n_destinations);
void busq_link_want(busq_live *live, uint32_t from);
void busq_link_credit(busq_live *live, uint32_t from, const busq_wire_packet *packet);
void busq_link_deinit(busq_live *live);

#endif /* BUSQ_LIVE_LINK_H */
