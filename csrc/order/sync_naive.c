/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order "sync-naive": blocking sends, and acknowledgements that queue behind them (blog post on sender-side causal
 * delivery, "The sender-side protocol").
 *
 *   submit m to j:        refused while an ACK is awaited; otherwise send DATA(m), await the ACK
 *   receive DATA(m):      while an ACK is awaited, m waits in line; otherwise deliver m, send ACK
 *   receive ACK:          the send is over; deliver what waits in line, and send its ACKs
 *
 * Guarantee: synchronous (no crown), hence causal and FIFO, as far as it goes: a process neither sends nor delivers
 * between a send and its ACK, so the message can be drawn as a point in time, where it was delivered.
 *
 * Packets: 2.
 *
 * Not given: that it goes on.  Two processes that send to each other at the same time wait for each other for ever, and
 * so does any circle of processes.  It is here to be caught.
 */
#include "order/rename.h"

enum { DATA, ACK };

static const busq_order_kind kinds[] = {{"data", true}, {"ack", false}};

/* At its end: the line, an outbox of messages that came while the process waited; `to` is their sender.  Every
 * process waits for the end of its send, so the line holds one message of each at most. */
typedef struct {
  busq_order_group group;
  uint64_t awaited; /* the message whose ACK is awaited; 0: none */
  busq_outbox line;
} sync_naive_state;

static void serve_line(sync_naive_state *self, busq_order_effects *effects)
{
  busq_outbox *line = &self->line;
  while (!self->awaited && line->count && busq_effects_have_room(effects, 2)) {
    const busq_outbox_entry first = busq_outbox_pop(line);
    busq_do_deliver_and_ack(effects, first.message, first.to, ACK);
  }
}

static int submit(sync_naive_state *self, const busq_order_event *event, busq_order_effects *effects)
{
  const uint64_t message = event->packet.message;
  if (self->awaited)
    return BUSQ_FULL;
  if (event->is_for_me) {
    busq_do_deliver_own(effects, message);
    return BUSQ_OK;
  }
  self->awaited = message;
  busq_do_sent(effects, message, NULL);
  busq_do_send(effects, event->to, (busq_order_packet){.message = message, .kind = DATA});
  return BUSQ_OK;
}

static int receive(sync_naive_state *self, const busq_order_packet *packet, busq_order_effects *effects)
{
  busq_outbox *line = &self->line;
  if (packet->kind == ACK) {
    if (packet->message != self->awaited)
      return BUSQ_OK;
    busq_do_done(effects, self->awaited);
    self->awaited = 0;
    return BUSQ_OK;
  }
  if (busq_outbox_is_full(line))
    return BUSQ_FULL;
  busq_outbox_push(line, (busq_outbox_entry){.message = packet->message, .to = packet->from});
  return BUSQ_OK;
}

static int sync_naive_step(void *state, const busq_order_event *event, busq_order_effects *effects)
{
  sync_naive_state *self = state;
  int result = BUSQ_OK;
  if (event->kind == BUSQ_ON_SUBMIT)
    result = submit(self, event, effects);
  else if (event->kind == BUSQ_ON_RECEIVE)
    result = receive(self, &event->packet, effects);
  if (result == BUSQ_OK)
    serve_line(self, effects);
  return result;
}

static void sync_naive_rename(const void *from, void *to, const uint32_t *names)
{
  const sync_naive_state *self = from;
  sync_naive_state *renamed = to;
  busq_rename_begin(from, to, busq_order_state_size(&busq_order_sync_naive, &self->group), names);
  renamed->awaited = self->awaited ? busq_rename_message(self->awaited, names) : 0;
  busq_rename_outbox(&renamed->line, names);
}

static bool sync_naive_verify(const void *state)
{
  const sync_naive_state *self = state;
  const busq_outbox *line = &self->line;
  for (uint32_t place = 0; place < line->count; place++)
    for (uint32_t before = 0; before < place; before++)
      if (busq_outbox_at(line, before)->to == busq_outbox_at(line, place)->to)
        return false;
  return !self->awaited || busq_message_origin(self->awaited) == self->group.self;
}

static void sync_naive_gauge(const void *state, busq_order_gauge *gauge)
{
  const sync_naive_state *self = state;
  *gauge = (busq_order_gauge){.waiting = self->awaited != 0, .held = self->line.count};
}

const busq_order busq_order_sync_naive = {
    .name = "sync-naive",
    .promise = "synchronous, until two processes send to each other",
    .source = "blog post on sender-side causal delivery: the deadlock",
    .claims = BUSQ_CLAIMS_FIFO | BUSQ_CLAIMS_CAUSAL | BUSQ_CLAIMS_SYNCHRONOUS,
    .traits = BUSQ_ORDER_POINT_TO_POINT | BUSQ_ORDER_RENDEZVOUS | BUSQ_ORDER_LABORATORY,
    .crashes = BUSQ_CRASH_AGREEMENT | BUSQ_CRASH_UNIFORM,
    .kinds = kinds,
    .n_kinds = sizeof kinds / sizeof *kinds,
    /* Until it comes the application may not submit, and what comes stands in the line; then that is served, as it
     * would have been on arrival. */
    .quiet_always = 1u << ACK,
    .head_bytes = offsetof(sync_naive_state, line),
    .buffers = {{BUSQ_OUTBOX, .processes = true, .more = -1}},
    .step = sync_naive_step,
    .rename = sync_naive_rename,
    .verify = sync_naive_verify,
    .gauge = sync_naive_gauge,
};
