/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_LIVE_ENGINE_H
#define BUSQ_LIVE_ENGINE_H
/*
 * The engine: events for the protocol, its effects performed, in order and by one thread at a time.
 *
 * Guarantee: every packet that is taken from the mailbox becomes one step; every effect of a step is performed before
 * the next step begins.  What the protocol asks about messages it gets (message.h has how long).
 *
 * Mechanism: the thread that holds the mutex takes the steps.  A message or a packet that the protocol has no room for
 * (BUSQ_FULL) is kept and tried again after the steps that follow: messages in the order in which they were sent;
 * packets too, where the protocol needs FIFO channels.  What comes damaged, or from a process that is not the member of
 * that number, is dropped and counted.
 *
 * Under on_crash=go-on the order hears of a member that is gone when all is taken that was in the mailbox then.  A process that is
 * killed leaves the effects of its steps up to some place, as the model of deaths has it (order/order.h): a packet that finds no
 * room holds up all packets to any member that are sent after it, and messages that were delivered after it wait for it, too.  So a
 * member that is stopped may hold up those that send to it.
 *
 * Everything here wants the mutex.
 */
#include "live/member.h"

/* Whether the message may be submitted now: within its credits and the room for messages of one's own. */
bool busq_engine_has_room(const busq_live *live, const uint32_t *destinations, uint32_t n_destinations);
/* *ticket, unless NULL, gets the numbers of the messages that it became. */
int busq_engine_submit(busq_live *live, const uint32_t *destinations, uint32_t n_destinations, const void *data,
                       size_t size_bytes, busq_live_ticket *ticket);
/* Whether the origin still has to do with one of these messages. */
bool busq_engine_is_open(const busq_live *live, uint32_t first, uint32_t last);
/* Does what can be done: takes what has come, lets go what may leave.  True where more has come than it took. */
bool busq_engine_turn(busq_live *live);
/* Whether there is a message for the application.  Where others go on when this process dies, it waits until all packets that were
 * sent before its delivery have left. */
bool busq_engine_has_message(const busq_live *live);
/* A message for the application, which owns the reference; NULL where there is none. */
busq_live_entry *busq_engine_take(busq_live *live);
/* Messages that were taken and that the application has not seen stand before all others again, in the order in which
 * they were taken. */
void busq_engine_give_back(busq_live *live, busq_live_entry *entry);
/* Everything of our own is on its way, or done. */
bool busq_engine_is_quiet(const busq_live *live);
/* fileno(): readable while recv would not block. */
void busq_engine_settle_event(busq_live *live);
void busq_engine_deinit(busq_live *live);

#endif /* BUSQ_LIVE_ENGINE_H */
