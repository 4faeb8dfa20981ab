/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_OBSERVE_SEQUENCES_H
#define BUSQ_OBSERVE_SEQUENCES_H
/*
 * Orders of events, cut down to some messages: for every process the sequence of their first deliveries (and, where
 * that is asked for, of their sends), and for every message where it stands in them.  The chosen messages are numbered
 * anew, from 0, as they come in these sequences; so what is found does not depend on how the history was put together.
 */
#include "observe/spec.h"

#define BUSQ_OBSERVE_END UINT32_MAX

/* Which events of the chosen messages are kept. */
typedef struct {
  bool with_sends;       /* besides deliveries the send of each, that has to exist */
  uint8_t marks_omitted; /* deliveries that have one of these marks are not kept */
} busq_observe_selection;

#define BUSQ_OBSERVE_DELIVERIES ((busq_observe_selection){false, BUSQ_OBSERVE_REPEATED})
#define BUSQ_OBSERVE_SENDS_AND_DELIVERIES ((busq_observe_selection){true, BUSQ_OBSERVE_REPEATED})
#define BUSQ_OBSERVE_POSSIBLE_EVENTS ((busq_observe_selection){true, BUSQ_OBSERVE_REPEATED | BUSQ_OBSERVE_IMPOSSIBLE})

typedef struct {
  busq_observe_selection selection;
  uint32_t n_receivers;
  uint32_t n_messages;
  uint32_t *starts;       /* by process, and one more: where its sequence starts */
  uint32_t *sequence;     /* all of them one after the other, each followed by BUSQ_OBSERVE_END */
  uint32_t *numbers;      /* by message: its number in the history */
  uint32_t *place_starts; /* by message, and one more: where its places start */
  uint32_t *places;       /* in the sequence, ascending; no two deliveries of one message have the same receiver */
  uint16_t *receivers;    /* of each place: whose sequence it is in */
  uint32_t *sends;        /* by message: the place of its send; NULL without sends */
} busq_observe_orders;

/* Keeps the messages whose byte in `chosen` is not 0. */
int busq_observe_orders_init(busq_observe_orders *orders, const busq_observe_case *c, const uint8_t *chosen,
                             busq_observe_selection selection);
void busq_observe_orders_deinit(busq_observe_orders *orders);

/* The messages on cycles of these orders: clears the others' bytes in `chosen`, which is indexed by numbers in the
 * history, and sets `smallest` for those of the smallest strongly connected component. */
int busq_observe_find_cycles(const busq_observe_orders *orders, uint8_t *chosen, uint8_t *smallest, uint64_t *countp);
/* Makes the shortest cycle the witness of the total order; every message has to lie on one. */
int busq_observe_find_shortest_cycle(const busq_observe_case *c, const busq_observe_orders *orders);

typedef int busq_observe_witness_finder(const busq_observe_case *c, const busq_observe_orders *orders);

/* Counts the messages on cycles of these events, of those chosen, which they then are; and has a witness found among the smallest. */
int busq_observe_judge_cycles(busq_observe_case *c, uint8_t *chosen, uint8_t *smallest, busq_observe_selection selection,
                              busq_property property, busq_observe_witness_finder *find);
/* Counts the pairs of receivers that disagree, and finds the closest neighbours about which two do. */
int busq_observe_compare_receivers(busq_observe_case *c, const busq_observe_orders *orders);
/* Counts the messages on a crown of two in possible events; *lowestp is the lowest of them, where there are any. */
int busq_observe_count_mysterious(const busq_observe_orders *orders, uint64_t *countp, uint32_t *lowestp);

#endif /* BUSQ_OBSERVE_SEQUENCES_H */
