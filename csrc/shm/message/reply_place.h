/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_MESSAGE_REPLY_PLACE_H
#define BUSQ_SHM_MESSAGE_REPLY_PLACE_H
/*
 * The place of a reply: what all processes see of a request while its asker waits.
 *
 * Guarantee: a request gets one reply at most, and none once its asker has given it up, but for one that is being sent
 * at that moment.  The process that a request depends on can be named, so that the asker can ask the kernel about it.
 *
 * Mechanism.  A peer that asks has as many places as its queue for replies holds messages, and gives each request one
 * (request.c).  A place is a pair that changes by swaps alone: how often it was given away (its turn) | a state, and a
 * holder.
 *
 *      FREE      no request has it                                                       set by the asker
 *      AWAITED   the asker waits.  The holder has taken the request, and it is no        the asker; one of several
 *                other reader's any more; 0: it is in its queue, or is to be             readers of a queue, when it
 *                acknowledged, or its queue has a single reader                          takes the request
 *      SENDING   the holder is sending the reply; AWAITED again where it could not       the one that replies
 *      GIVEN_UP  the asker waits no more, and the holder is sending the reply; FREE      the asker
 *                where it could not, or has died, or when the reply has come
 *
 * The number of a request is made of the place and its turn.  Turns go on rising in the next life of the asker's slot,
 * so a process that was stopped since it looked finds another turn, and its swap fails.
 *
 * One of several readers writes itself down while the message is claimed by it alone (shared_take.h), and before it is
 * released.  Killed before that, it leaves the message to another reader; killed right behind it, too, and then the
 * asker may take the request for lost with this reader.
 *
 * Not given: room for the reply in the queue; the asker sees to that when it gives a place away (request.c).
 */
#include "shm/memory/bus.h"

typedef enum {
  BUSQ_REPLY_FREE = 0,
  BUSQ_REPLY_AWAITED = 1,
  BUSQ_REPLY_SENDING = 2,
  BUSQ_REPLY_GIVEN_UP = 3
} busq_reply_state;

/* Turns have so many bits that turn and place fit into a number. */
#define BUSQ_REPLY_TURN_MASK ((UINT64_C(1) << 37) - 1)

static inline uint64_t busq_reply_word(uint64_t turn, busq_reply_state state)
{
  return turn << 2 | (uint64_t)state;
}

static inline uint64_t busq_reply_turn(const busq_bus *bus, uint64_t number)
{
  return number / bus->geometry.capacity;
}

/* A slot of the bus, whatever is at work there. */
static inline busq_reply_place *busq_reply_place_of(const busq_bus *bus, uint32_t slot, uint64_t number)
{
  return busq_bus_reply_places(bus, slot) + number % bus->geometry.capacity;
}

/* Changes the place of a request, if it is in that state.  A holder is the name of a life (life.h). */
bool busq_reply_place_change(const busq_bus *bus, uint32_t slot, uint64_t number, busq_reply_state from,
                             busq_reply_state to, uint64_t holder);
/* The request behind a payload; false where it asks nothing. */
bool busq_reply_place_request(uint32_t form, const void *payload, uint64_t size_bytes, busq_request *request);
/* One of several readers has taken the request for good. */
void busq_reply_place_taken(const busq_bus *bus, const busq_request *request, uint64_t holder);
/* It has put the request back into its queue, from where another reader may have taken it since. */
void busq_reply_place_returned(const busq_bus *bus, const busq_request *request, uint64_t holder);

#endif /* BUSQ_SHM_MESSAGE_REPLY_PLACE_H */
