/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SIM_STAGE_H
#define BUSQ_SIM_STAGE_H
/*
 * A stage: the processes of one order, and a network on which the caller decides what arrives next.
 *
 * Guarantee: the step functions are those that run everywhere else, and a stage has no will of its own: the same calls
 * always give the same events.  It holds orders to the waist (order/order.h): when an event has been dealt with the
 * state must verify, and an order that asks about a message, delivers it or sends its payload where a driver need not
 * keep it any more is found out (BUSQ_CORRUPT).
 *
 * Mechanism: packets in flight stand in a list, oldest first, until busq_stage_receive or busq_stage_lose takes one
 * out.  Where the order needs channels that keep the order, only the oldest packet of each may arrive.  What an
 * application submits waits in a queue per process while the order has no room for it or, at a rendezvous, until the
 * last message is done.  Everything that happens is written down, with the number of the call that caused it.
 *
 * Not given: time.  An alarm goes off when the caller wants it.  Nor speed: for long runs there is the simulator.
 */
#include "busq_lab.h"
#include "order/order.h"
#include "sim/messages.h"

/* Why a process keeps a message (a witness is none of its destinations, but needs its clock); and of one's own
 * message to oneself, whether it was not delivered so far. */
enum { STAGE_AS_ORIGIN = 1, STAGE_AS_DESTINATION = 2, STAGE_AS_WITNESS = 4, STAGE_IS_OWED = 8 };

typedef struct {
  uint64_t message;
  uint32_t reasons; /* Invariant: one reason at least. */
  uint32_t unused;
} busq_stage_kept;

typedef struct {
  void *state;
  uint64_t *submits; /* messages that the order has not taken so far, oldest first */
  uint32_t n_submits;
  uint32_t submits_capacity;
  busq_stage_kept *kept;
  uint32_t n_kept;
  uint32_t kept_capacity;
  uint32_t *firsts; /* by number - 1 of its messages: the number of the first copy of the same multicast */
  uint32_t n_firsts;
  uint32_t firsts_capacity;
  uint64_t unfinished; /* at a rendezvous: the message whose end it waits for; 0: none */
  uint64_t n_alarms;
  bool is_secret;
  bool is_dead;
} busq_stage_process;

/* The world as a step sees it.  Invariant: `world` comes first. */
typedef struct {
  busq_order_world world;
  busq_stage *stage;
} busq_stage_world;

struct busq_stage {
  const busq_order *order;
  busq_order_group group; /* with self = 0 */
  bool is_fifo;           /* only the oldest packet of each channel may arrive */
  busq_messages messages;
  busq_stage_world world;
  busq_stage_process *processes;
  uint32_t acting;   /* the process whose step runs */
  uint64_t visiting; /* the message whose payload it sees during this step alone */
  uint32_t *others;  /* room for the destinations of a submit but the process itself */
  uint32_t *blank;   /* a clock for callers that ask where there is none */
  bool is_broken;    /* the order broke the waist; the error text says how */
  uint32_t step;     /* the number of the current call */
  busq_stage_packet *packets;
  uint32_t n_packets;
  uint32_t packets_capacity;
  uint32_t packets_ever;
  uint32_t n_doubled; /* packets that the network has doubled */
  uint32_t doomed;    /* the process that dies in its next step, or BUSQ_STAGE_NOTHING */
  uint32_t units;     /* which it still does of what can be cut: sends, deliveries, packets to one receiver each */
  uint32_t first;     /* the process with which its multicasts begin */
  bool is_dying;      /* its step has been made */
  bool ignores;       /* the order has nothing to do with the packet that has come */
  bool bears_unsound; /* a process whose state is not sound goes on */
  busq_stage_event *events;
  uint32_t n_events;
  uint32_t events_capacity;
  uint64_t n_alarms;
  uint64_t n_undelivered; /* (message, destination) pairs */
  uint64_t n_waiting;     /* in the queues of submits */
};

/* How many deaths processes have not learnt of so far; *processp and *deadp, if wanted, get some that can be learnt now. */
uint64_t busq_stage_find_notice(const busq_stage *stage, uint32_t *processp, uint32_t *deadp);
/* The process is gone, with all that is on its way to it. */
void busq_stage_bury(busq_stage *stage, uint32_t process);

#endif /* BUSQ_SIM_STAGE_H */
