/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order "mfss": the sender waits (Mattern and Fuenfrocken, as described in the Cykas paper, section 2.1, and in the
 * post on sender-side causal delivery).
 *
 *   submit (m -> j):       append to the output buffer; pump
 *   pump:                  while the buffer is not empty and nothing is unacknowledged: send DATA(m) to j, the head's destination
 *   receive DATA(m):       deliver m; send ACK to its sender, past the output buffer
 *   receive ACK:           nothing is unacknowledged any more; pump
 *
 * Guarantee: causal order.  Whatever a process sends after m, it sends when m has been delivered: so does every process
 * that learns of it, and nothing that depends on m can overtake it.  It is stronger than that: of two messages of a
 * process the second leaves when the first has arrived, whether or not they have anything to do with each other.
 *
 * Why acknowledgements pass the output buffer: two processes that send to each other would both wait behind their own
 * messages for the acknowledgement that stands in the other's buffer.
 *
 * Packets: 2 per message.
 *
 * With the option on_crash=go-on what goes to the dead is sent and done: nothing that it could pass will be delivered.
 *
 * Proven without a bound: busq/lab/proof/models/mfss.py.
 */
#include "order/point_to_point.h"
#include "order/rename.h"

enum { DATA, ACK };

static const busq_order_kind kinds[] = {{"data", true}, {"ack", false}};
/* Invariant: is_unacked implies that outbox holds the unacknowledged message at its head. */
typedef struct {
  busq_order_group group;
  uint64_t is_unacked;
  busq_outbox outbox;
} mfss_state;

static void pump(mfss_state *self, busq_order_effects *effects)
{
  if (self->is_unacked || !self->outbox.count || !busq_effects_have_room(effects, 2))
    return;
  const busq_outbox_entry *head = busq_outbox_at(&self->outbox, 0);
  self->is_unacked = 1;
  busq_do_sent(effects, head->message, NULL);
  busq_do_send(effects, head->to, (busq_order_packet){.message = head->message, .kind = DATA});
}

static void end_heads_to_the_dead(mfss_state *self, busq_order_effects *effects)
{
  while (self->outbox.count && busq_group_suspects(&self->group, busq_outbox_at(&self->outbox, 0)->to) &&
         busq_effects_have_room(effects, 2)) {
    const busq_outbox_entry head = busq_outbox_pop(&self->outbox);
    if (!self->is_unacked)
      busq_do_sent(effects, head.message, NULL);
    self->is_unacked = 0;
    busq_do_done(effects, head.message);
  }
}

static int receive(mfss_state *self, const busq_order_packet *packet, busq_order_effects *effects)
{
  if (packet->kind == DATA) {
    busq_do_deliver_and_ack(effects, packet->message, packet->from, ACK);
    return BUSQ_OK;
  }
  if (!self->is_unacked || busq_outbox_at(&self->outbox, 0)->to != packet->from)
    return BUSQ_CORRUPT;
  self->is_unacked = 0;
  busq_do_done(effects, busq_outbox_pop(&self->outbox).message);
  return BUSQ_OK;
}

static int mfss_step(void *state, const busq_order_event *event, busq_order_effects *effects)
{
  mfss_state *self = state;
  int result = BUSQ_OK;
  if (event->kind == BUSQ_ON_SUBMIT)
    result = busq_point_to_point_submit(&self->outbox, event, effects);
  else if (event->kind == BUSQ_ON_RECEIVE)
    result = receive(self, &event->packet, effects);
  if (result != BUSQ_OK)
    return result;
  end_heads_to_the_dead(self, effects);
  if (!effects->is_cut)
    pump(self, effects);
  return BUSQ_OK;
}

static void mfss_rename(const void *from, void *to, const uint32_t *names)
{
  const mfss_state *self = from;
  busq_rename_begin(from, to, busq_order_state_size(&busq_order_mfss, &self->group), names);
  busq_rename_outbox(&((mfss_state *)to)->outbox, names);
}

static bool mfss_verify(const void *state)
{
  const mfss_state *self = state;
  return self->is_unacked <= 1 && self->is_unacked <= self->outbox.count;
}

static void mfss_gauge(const void *state, busq_order_gauge *gauge)
{
  const mfss_state *self = state;
  *gauge = (busq_order_gauge){.waiting = self->outbox.count};
}

const busq_order busq_order_mfss = {
    .name = "mfss",
    .promise = "causal, by sending one message at a time",
    .source = "Mattern and Fuenfrocken 1995; Cykas paper, section 2.1",
    .claims = BUSQ_CLAIMS_FIFO | BUSQ_CLAIMS_CAUSAL,
    .traits = BUSQ_ORDER_POINT_TO_POINT | BUSQ_ORDER_OUTPUT_BUFFER,
    .crashes = BUSQ_CRASH_VALIDITY | BUSQ_CRASH_AGREEMENT | BUSQ_CRASH_UNIFORM,
    .crashes_go_on = BUSQ_CRASH_VALIDITY | BUSQ_CRASH_AGREEMENT | BUSQ_CRASH_UNIFORM | BUSQ_CRASH_GOES_ON,
    .options = busq_order_may_go_on,
    .kinds = kinds,
    .n_kinds = 2,
    .quiet_always = 1u << ACK, /* with nothing that waits it only reports that a message is done */
    .head_bytes = offsetof(mfss_state, outbox),
    .buffers = {{BUSQ_OUTBOX, .own = true}},
    .step = mfss_step,
    .rename = mfss_rename,
    .verify = mfss_verify,
    .gauge = mfss_gauge,
};
