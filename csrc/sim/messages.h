/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SIM_MESSAGES_H
#define BUSQ_SIM_MESSAGES_H
/*
 * The constant facts of messages: their receivers, and the clock of their send.  One store for all processes of a
 * group, where a driver keeps everything in one place (simulator, stage).
 *
 * Guarantee: a message that may still be asked about has its destinations and its clock; finding it costs O(1), asking
 * whether it is for a process O(log destinations).  A message in flight costs n words under vector and under matrix
 * clocks.
 *
 * Mechanism: messages stand in one array per origin, indexed by their number.  Destinations lie in one pool, in the
 * order given; one destination needs none of it, and "everybody else" is a window of a list that all such messages
 * share.  A vector clock is a block of n words, taken at the send and given back with the last use of the message: the
 * origin uses it until BUSQ_DO_DONE, each destination until it is delivered or dropped, and another process that a
 * packet brings it to as long as a driver holds it there.  Of a matrix clock a message keeps the n versions of its rows
 * alone: row k changes only when k sends, so row k at version v is the same in every clock that has it, and is kept
 * once, when k's own send first shows it.  A list is a block of its own length.
 *
 * Not given: messages of other clocks in one store, forgetting destinations or rows before the store goes (a row costs
 * n words per send), or use by several threads.
 */
#include "order/order.h"

#define BUSQ_MESSAGES_NO_CLOCK UINT32_MAX

typedef struct {
  union {
    uint64_t start; /* of several destinations: where they start in the pool */
    uint32_t only;  /* of one: itself */
  } destinations;
  uint32_t n_destinations;
  uint32_t uses;         /* Invariant: 0 means that the clock has been given back. */
  uint32_t clock;        /* a block, or BUSQ_MESSAGES_NO_CLOCK */
  uint32_t is_to_others; /* all but the origin get it */
  uint32_t *list;        /* where clocks are lists: its own */
} busq_message_facts;

typedef struct {
  busq_message_facts *facts; /* by number - 1 */
  uint32_t n;
  uint32_t capacity;
} busq_messages_of_origin;

/* Blocks of n words; those given back are used again. */
typedef struct {
  uint32_t **chunks;
  uint32_t n_chunks;
  uint32_t n_blocks;   /* ever taken */
  uint32_t first_free; /* its first word is the next one; BUSQ_MESSAGES_NO_CLOCK ends the list */
  uint32_t n_used;
} busq_clock_blocks;

/* The rows of one process, by version - 1. */
typedef struct {
  uint32_t *blocks;
  uint32_t n;
  uint32_t capacity;
} busq_clock_rows;

/* Invariant: the address of `world` is the address of the store. */
typedef struct {
  busq_order_world world;
  uint32_t n_processes;
  busq_order_clock_shape shape;
  busq_messages_of_origin *origins;
  uint32_t *pool;
  uint64_t pool_size;
  uint64_t pool_capacity;
  uint32_t *circle; /* 0 .. n-1 and again 0 .. n-1 */
  busq_clock_blocks clocks;
  busq_clock_blocks row_blocks;
  busq_clock_rows *rows;
  uint32_t *zeros; /* the row of a process that has sent nothing */
} busq_messages;

/* BUSQ_OK or BUSQ_NO_SPACE; after a failure, too, deinit may be called. */
int busq_messages_init(busq_messages *store, uint32_t n_processes, busq_order_clock_shape shape);
void busq_messages_deinit(busq_messages *store);

/*
 * Names the next message of its origin and keeps it, with a use for the origin and one for each destination (the origin
 * itself may be one).  Destinations are different processes of the group, at least one.  BUSQ_OK or BUSQ_NO_SPACE.
 */
int busq_messages_add(busq_messages *store, uint32_t origin, const uint32_t *destinations, uint32_t n_destinations,
                      uint64_t *messagep);
/* Fills in the receivers of the message that its origin submits: to, others, n_others, is_for_me.  The list of
 * others is valid until the next message is added, and as long as `room`, with places for n - 1 processes, is not
 * used otherwise. */
void busq_messages_address(const busq_messages *store, uint32_t *room, busq_order_event *event);
/* Carries out BUSQ_DO_SENT: keeps a copy of the clock, which may be NULL.  BUSQ_OK or BUSQ_NO_SPACE. */
int busq_messages_set_clock(busq_messages *store, uint64_t message, const uint32_t *clock);
/* One use more: a packet brings its payload to a process that is no destination. */
void busq_messages_hold(busq_messages *store, uint64_t message);
/* One use less: BUSQ_DO_DONE at the origin, BUSQ_DO_DELIVER or BUSQ_DO_DROP at a receiver. */
void busq_messages_release(busq_messages *store, uint64_t message);
/* NULL where there is no such message; valid until the next one is added. */
static inline busq_message_facts *busq_messages_find(const busq_messages *store, uint64_t message)
{
  const uint32_t origin = busq_message_origin(message);
  const uint32_t place = busq_message_number(message) - 1;
  if (origin >= store->n_processes || place >= store->origins[origin].n)
    return NULL;
  return &store->origins[origin].facts[place];
}

/* The destinations in the order given, as many as facts->n_destinations; valid until the next message is added. */
static inline const uint32_t *busq_messages_destinations(const busq_messages *store, uint64_t message,
                                                         const busq_message_facts *facts)
{
  if (facts->is_to_others)
    return &store->circle[busq_message_origin(message) + 1];
  return facts->n_destinations == 1 ? &facts->destinations.only : &store->pool[facts->destinations.start];
}

bool busq_messages_is_among(const busq_messages *store, uint64_t message, const busq_message_facts *facts, uint32_t process);

/* Whether the process is one of the destinations; false for message 0. */
static inline bool busq_messages_is_for(const busq_messages *store, uint64_t message, uint32_t process)
{
  const busq_message_facts *facts = message ? busq_messages_find(store, message) : NULL;
  if (facts && facts->n_destinations == 1 && !facts->is_to_others)
    return facts->destinations.only == process;
  return facts && busq_messages_is_among(store, message, facts, process);
}

#endif /* BUSQ_SIM_MESSAGES_H */
