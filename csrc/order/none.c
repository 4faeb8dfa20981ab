/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order "none": what the network gives.
 *
 *   submit:        send DATA to all destinations
 *   receive DATA:  deliver
 *
 * Guarantee: none, beyond that everything arrives once.  The others are measured against it.
 */
#include "order/rename.h"

enum { DATA };

static const busq_order_kind kinds[] = {{"data", true}};

static int none_step(void *state, const busq_order_event *event, busq_order_effects *effects)
{
  (void)state;
  const busq_order_packet *packet = &event->packet;
  if (event->kind == BUSQ_ON_RECEIVE)
    busq_do_deliver(effects, packet->message);
  if (event->kind != BUSQ_ON_SUBMIT)
    return BUSQ_OK;
  busq_do_sent(effects, packet->message, NULL);
  if (event->is_for_me)
    busq_do_deliver(effects, packet->message);
  if (event->n_others)
    busq_do_send(effects, BUSQ_TO_DESTINATIONS, (busq_order_packet){.message = packet->message, .kind = DATA});
  busq_do_done(effects, packet->message);
  return BUSQ_OK;
}

static void none_rename(const void *from, void *to, const uint32_t *names)
{
  busq_rename_begin(from, to, sizeof(busq_order_group), names);
}

const busq_order busq_order_none = {
    .name = "none",
    .promise = "nothing: delivered as it comes",
    .source = "",
    .crashes = BUSQ_CRASH_VALIDITY | BUSQ_CRASH_GOES_ON,
    .kinds = kinds,
    .n_kinds = 1,
    .step = none_step,
    .rename = none_rename,
};
