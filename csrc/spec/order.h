/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SPEC_ORDER_H
#define BUSQ_SPEC_ORDER_H
/*
 * Delivery orders, cut down to some messages: for every receiver the sequence of their first deliveries, and for every
 * message where it stands in them.  The chosen messages are numbered anew, from 0, as they come in these sequences; so
 * what is found does not depend on how the history was put together.
 */
#include "spec/spec.h"

#define BUSQ_SPEC_END UINT32_MAX

typedef struct {
  uint32_t n_receivers;
  uint32_t n_messages;
  uint32_t *starts;       /* by receiver, and one more: where its sequence starts */
  uint32_t *sequence;     /* all of them one after the other, each followed by BUSQ_SPEC_END */
  uint32_t *numbers;      /* by message: its number in the history */
  uint32_t *place_starts; /* by message, and one more: where its places start */
  uint32_t *places;       /* in the sequence, ascending: so no two of one message have the same receiver */
  uint16_t *receivers;    /* of each place */
} busq_spec_orders;

/* Keeps the messages whose byte in `chosen` is not 0. */
int busq_spec_orders_init(busq_spec_orders *orders, const busq_spec_case *c, const uint8_t *chosen);
void busq_spec_orders_deinit(busq_spec_orders *orders);

/* The messages on cycles of these orders: clears the others' bytes in `chosen`, which is indexed by numbers in the
 * history, and sets `smallest` for those of the smallest strongly connected component. */
int busq_spec_find_cycles(const busq_spec_orders *orders, uint8_t *chosen, uint8_t *smallest, uint64_t *countp);
/* Makes the shortest cycle the witness of the total order; every message has to lie on one. */
int busq_spec_find_shortest_cycle(const busq_spec_case *c, const busq_spec_orders *orders);
/* Counts the pairs of receivers that disagree, and finds the closest neighbours about which two do. */
int busq_spec_compare_receivers(busq_spec_case *c, const busq_spec_orders *orders);

#endif /* BUSQ_SPEC_ORDER_H */
