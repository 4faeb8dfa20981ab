/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_OBSERVE_SPEC_H
#define BUSQ_OBSERVE_SPEC_H
/*
 * The observers: was a history in order?
 *
 * Guarantee.  Given what every process sent and delivered, in the order of its own log and without any timestamp, each
 * property gets the exact number of faults and, where there is one, a witness that can be checked by hand:
 *
 *   lost        (message, destination) pairs sent and never delivered
 *   duplicated  deliveries of a message to a receiver beyond the first
 *   phantom     deliveries of a message that was not sent to this receiver, by any process
 *   fifo        deliveries that come after a message which the same sender sent later to the same receiver
 *   causal      deliveries that come, at the same receiver, after a message whose send causally follows theirs; every
 *               FIFO fault is one too
 *   consistent  unordered pairs of receivers that deliver some two common messages in opposite orders
 *   total       messages on a cycle of the union of all receivers' delivery orders
 *   synchronous messages on a crown, a cycle of the relation "the send of m comes before a delivery of n" between
 *               different messages; without crowns, every message could have taken no time
 *   c2          deliveries that come causally after that of a message which the same sender sent later
 *   mysterious  messages on a crown of two
 *
 * Which events take part in which property:
 *   - Only the first delivery of a message at a receiver counts as its time.  A repetition counts as duplicated
 *     (and as phantom if the first one did), never again as a fault of order.
 *   - A phantom breaks no order of sending, so it is never a FIFO or causal fault itself.  If the message was sent,
 *     though not to this receiver, its contents did arrive: it carries causality on, and others may be late behind it.
 *   - Two receivers of phantoms may disagree about them, so phantoms do take part in consistent and total.
 *   - Sent causally before: earlier in the same log, or sent before a delivery there of a message that was, and so on.
 *   - A multicast has one send and several deliveries: it is on a crown where its send comes before any delivery of the
 *     next message, and any of its own deliveries after the send of the one before.  So without crowns there is one
 *     instant for its send and all its deliveries; copies that are sent one after the other are messages of their own.
 *   - On crowns are only messages that were sent, and delivered somewhere; there a phantom counts as a delivery.
 *   - Of several sends of one message only the first counts (observe/history.h); the others are remarked as "resent".
 *   - Logs may contradict each other: a delivery whose send could only come after it.  Such a circle of waiting
 *     processes is broken at its lowest process; that delivery is remarked as "impossible" and hands no causality on
 *     (it still counts for FIFO, which needs the sender's log alone).  Which deliveries these are depends on the
 *     history alone.  Synchronous takes contradictory logs at their word; they have crowns anyway.  Mysterious leaves
 *     impossible deliveries out.
 *
 * How they follow from each other, in a history without phantoms and contradictions: synchronous is mysterious, causal
 * and total; mysterious is causal and consistent; causal is c2, c2 is FIFO; total is consistent.  Where every message
 * has one receiver, c2 is causal.  Nothing else follows (tests/lab/test_classes.py has a counterexample to each).
 *
 * The chapter of the conditions C1, C2 and C3 (Garg, problem 12.3) has a third one, s1 -> s2 and r2 -> r1, that needs
 * no judge: a delivery breaks it exactly when it is causally late.  For if the news of r2 comes from another process to
 * where r1 is, it comes by a message that was sent causally after s2 and is delivered here before r1.
 *
 * Mechanism, one file each, in this order:
 *   ledger.c      one pass over each log: which process got what; marks repetitions and phantoms for the others; FIFO by one
 *                 running maximum per sender.
 *   causal.c      vector clocks in a linear extension of the history; kept for messages in flight only.
 *   sequences.c   the n-way merge of all delivery orders: emit what stands first at all its receivers.  If everything
 *                 comes out, that is a total order and consistent is settled as well.
 *   total.c       strongly connected components of what did not come out; the shortest cycle in the smallest one.
 *   consistent.c  pairs of receivers, comparing only messages that lie on cycles.
 *   crown.c       the same components, of points that are a message's send and deliveries together; the shortest crown in
 *                 the smallest one.
 *   mysterious.c  crowns of two among the messages on crowns, by vectors that run through the history both ways.
 *
 * Witnesses are the smallest of their kind, within bounds: lost, the first message that was sent and misses a receiver;
 * duplicated and phantom, the first one of the lowest receiver; fifo, the overtaker nearest to the late message (of all
 * faults, as long as the looking back stays below 4 steps per event); causal, the fewest messages from send to send,
 * then the nearest overtaker (of the earliest faults of 8 receivers, no FIFO fault if there is another); consistent,
 * the closest neighbours; total, the shortest cycle in the smallest component (of all cycles, as long as the search
 * stays below 2^26 steps); synchronous, the shortest crown in the smallest component, within the same bounds; c2, as
 * causal; mysterious, the crown that takes the fewest steps to show, of those looked at.  They depend on the history
 * alone.
 *
 * Cost: time O(events + deliveries x processes), the latter for vector clocks, for mysterious where there are crowns,
 * and, where orders disagree, for pairs; synchronous alone is O(events).  Memory O(events + messages + processes^2 +
 * processes x messages in flight).  Nothing recurses.
 *
 * Not given: an opinion on histories that are still going on (a message on its way is lost so far), or on time.
 */
#include "base/error.h"
#include "observe/history.h"

/* The ledger's marks of an event; sends have none. */
#define BUSQ_OBSERVE_REPEATED 1u   /* not the first delivery here */
#define BUSQ_OBSERVE_UNSENT 2u     /* no process sent it */
#define BUSQ_OBSERVE_STRAY 4u      /* a process sent it, but not to here */
#define BUSQ_OBSERVE_FIFO_LATE 8u  /* a FIFO fault */
#define BUSQ_OBSERVE_IMPOSSIBLE 16u /* comes before its send (causal.c) */

/* How far a message came. */
typedef struct {
  uint32_t last_receiver; /* the last process looked at that delivered it, plus one */
  uint32_t receivers;     /* how many processes delivered it */
  uint32_t reached;       /* how many of its destinations did */
} busq_observe_tally;

/* One history before its judge. */
typedef struct {
  const busq_history *history;
  busq_judgement *judgement;
  uint32_t n_messages;
  uint64_t *log_starts; /* by process: where its marks start */
  uint8_t *marks;       /* by event, all logs one after the other */
  busq_observe_tally *tallies; /* by message */
} busq_observe_case;

int busq_observe_judge_ledger(busq_observe_case *c);
int busq_observe_judge_causal(busq_observe_case *c);
int busq_observe_judge_orders(busq_observe_case *c);
/* Synchronous; and mysterious if that is asked for, after causal. */
int busq_observe_judge_crowns(busq_observe_case *c, bool is_mysterious_asked);

static inline int busq_observe_out_of_memory(void)
{
  return busq_error(BUSQ_NO_SPACE, "no memory to judge the history: judge it in parts, or on a larger machine");
}

static inline uint8_t *busq_observe_marks(const busq_observe_case *c, uint32_t process)
{
  return c->marks + c->log_starts[process];
}

static inline uint64_t busq_observe_name(const busq_observe_case *c, uint32_t message)
{
  return c->history->index.names[message];
}

static inline busq_verdict *busq_observe_verdict(const busq_observe_case *c, busq_property property)
{
  return &c->judgement->verdicts[property];
}

/* Whether this event is the message's delivery here. */
static inline bool busq_observe_is_first_delivery(uint32_t event, uint8_t marks)
{
  return !busq_observe_event_is_send(event) && !(marks & BUSQ_OBSERVE_REPEATED);
}

/* Whether this event hands the causal past of a message on. */
static inline bool busq_observe_hands_on(uint32_t event, uint8_t marks)
{
  return !busq_observe_event_is_send(event) &&
         !(marks & (BUSQ_OBSERVE_REPEATED | BUSQ_OBSERVE_UNSENT | BUSQ_OBSERVE_IMPOSSIBLE));
}

#endif /* BUSQ_OBSERVE_SPEC_H */
