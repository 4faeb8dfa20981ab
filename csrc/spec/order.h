/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SPEC_ORDER_H
#define BUSQ_SPEC_ORDER_H
/*
 * Orders of events, cut down to some messages: for every process the sequence of their first deliveries (and, where
 * that is asked for, of their sends), and for every message where it stands in them.  The chosen messages are numbered
 * anew, from 0, as they come in these sequences; so what is found does not depend on how the history was put together.
 */
#include "spec/spec.h"

#define BUSQ_SPEC_END UINT32_MAX

/* Which events of the chosen messages are kept. */
typedef struct {
  bool with_sends;       /* besides deliveries the send of each, that has to exist */
  uint8_t marks_omitted; /* deliveries that have one of these marks are not kept */
} busq_spec_selection;

#define BUSQ_SPEC_DELIVERIES ((busq_spec_selection){false, BUSQ_SPEC_REPEATED})
#define BUSQ_SPEC_SENDS_AND_DELIVERIES ((busq_spec_selection){true, BUSQ_SPEC_REPEATED})
#define BUSQ_SPEC_POSSIBLE_EVENTS ((busq_spec_selection){true, BUSQ_SPEC_REPEATED | BUSQ_SPEC_IMPOSSIBLE})

typedef struct {
  busq_spec_selection selection;
  uint32_t n_receivers;
  uint32_t n_messages;
  uint32_t *starts;       /* by process, and one more: where its sequence starts */
  uint32_t *sequence;     /* all of them one after the other, each followed by BUSQ_SPEC_END */
  uint32_t *numbers;      /* by message: its number in the history */
  uint32_t *place_starts; /* by message, and one more: where its places start */
  uint32_t *places;       /* in the sequence, ascending; no two deliveries of one message have the same receiver */
  uint16_t *receivers;    /* of each place: whose sequence it is in */
  uint32_t *sends;        /* by message: the place of its send; NULL without sends */
} busq_spec_orders;

/* Keeps the messages whose byte in `chosen` is not 0. */
int busq_spec_orders_init(busq_spec_orders *orders, const busq_spec_case *c, const uint8_t *chosen,
                          busq_spec_selection selection);
void busq_spec_orders_deinit(busq_spec_orders *orders);

/* The messages on cycles of these orders: clears the others' bytes in `chosen`, which is indexed by numbers in the
 * history, and sets `smallest` for those of the smallest strongly connected component. */
int busq_spec_find_cycles(const busq_spec_orders *orders, uint8_t *chosen, uint8_t *smallest, uint64_t *countp);
/* Makes the shortest cycle the witness of the total order; every message has to lie on one. */
int busq_spec_find_shortest_cycle(const busq_spec_case *c, const busq_spec_orders *orders);
/* Counts the pairs of receivers that disagree, and finds the closest neighbours about which two do. */
int busq_spec_compare_receivers(busq_spec_case *c, const busq_spec_orders *orders);
/* Finds the messages on a crown of two in possible events, and notes the count and a witness. */
int busq_spec_judge_mysterious(busq_spec_case *c, const busq_spec_orders *orders);

/* Makes the shortest crown the witness of the property: of at most `size_max` messages, and the lowest of them at least
 * `first`; there has to be one. */
int busq_spec_find_shortest_crown(const busq_spec_case *c, const busq_spec_orders *orders, uint32_t first,
                                  uint32_t size_max, busq_property property);

#endif /* BUSQ_SPEC_ORDER_H */
