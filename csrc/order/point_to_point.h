/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_ORDER_POINT_TO_POINT_H
#define BUSQ_ORDER_POINT_TO_POINT_H
/*
 * Submitting a message to one destination, in orders that keep what they send in an output buffer.
 *
 * Guarantee: a message to oneself is delivered at once and is done; any other stands last in the buffer.  BUSQ_FULL where the
 * buffer has no room; then nothing has changed.
 *
 * Not given: sending.  That is the order's own rule.
 */
#include "order/order.h"
#include "queue/outbox.h"

static inline int busq_point_to_point_submit(busq_outbox *outbox, const busq_order_event *event,
                                             busq_order_effects *effects)
{
  if (event->is_for_me) {
    busq_do_deliver_own(effects, event->packet.message);
    return BUSQ_OK;
  }
  if (busq_outbox_is_full(outbox))
    return BUSQ_FULL;
  busq_outbox_push(outbox, (busq_outbox_entry){.message = event->packet.message, .to = event->to});
  return BUSQ_OK;
}

#endif /* BUSQ_ORDER_POINT_TO_POINT_H */
