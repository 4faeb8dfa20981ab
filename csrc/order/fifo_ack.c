/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order "fifo-ack": the next message to a receiver leaves when the last one to it is acknowledged (lecture notes on
 * FIFO delivery, "ACK").
 *
 *   submit (m -> j):    append to what waits for j; send DATA(m) to j if nothing to j is unacknowledged
 *   receive DATA(m):    deliver m; send ACK to its sender
 *   receive ACK from j: the message is done; send the next one for j, if any
 *
 * Guarantee: FIFO, without numbers and without holding back.  Not given: anything between different receivers.
 *
 * Mechanism: one buffer, sorted by (destination, message), so the first entry of a destination is the one that is on
 * its way. Packets: 2 per message, and a round trip between two messages to the same receiver.
 *
 * With the option on_crash=go-on what goes to the dead needs no acknowledgement: it is sent and done.
 *
 * Proven without a bound: busq/lab/proof/models/fifo_ack.py.
 */
#include "order/rename.h"

enum { DATA, ACK };

static const busq_order_kind kinds[] = {{"data", true}, {"ack", false}};

/* Invariant: of each destination the first entry of `mine`, and no other, has the note 1: it was sent. */
typedef struct {
  busq_order_group group;
  busq_holdback mine;
} ack_state;

/* Sends the first message for this process, if there is one and it was not sent. */
static void send_next(ack_state *self, uint32_t to, busq_order_effects *effects)
{
  const uint32_t place = busq_holdback_place(&self->mine, to, 0);
  busq_held_entry *first = busq_holdback_at(&self->mine, place);
  if (place == self->mine.count || first->key != to || first->note)
    return;
  first->note = 1;
  busq_do_sent(effects, first->message, NULL);
  busq_do_send(effects, to, (busq_order_packet){.message = first->message, .kind = DATA});
}

static int submit(ack_state *self, const busq_order_event *event, busq_order_effects *effects)
{
  if (event->is_for_me) {
    busq_do_deliver_own(effects, event->packet.message);
    return BUSQ_OK;
  }
  if (busq_holdback_is_full(&self->mine))
    return BUSQ_FULL;
  busq_holdback_insert(&self->mine, (busq_held_entry){.key = event->to, .message = event->packet.message});
  send_next(self, event->to, effects);
  return BUSQ_OK;
}

/* Whether anything is on its way to this process. */
static bool acknowledge(ack_state *self, uint32_t process, busq_order_effects *effects)
{
  const uint32_t place = busq_holdback_place(&self->mine, process, 0);
  if (place == self->mine.count || busq_holdback_at(&self->mine, place)->key != process)
    return false;
  busq_do_done(effects, busq_holdback_remove(&self->mine, place).message);
  send_next(self, process, effects);
  return true;
}

static int receive(ack_state *self, const busq_order_packet *packet, busq_order_effects *effects)
{
  if (packet->kind == ACK)
    return acknowledge(self, packet->from, effects) ? BUSQ_OK : BUSQ_CORRUPT;
  busq_do_deliver_and_ack(effects, packet->message, packet->from, ACK);
  return BUSQ_OK;
}

static void acknowledge_for_the_dead(ack_state *self, busq_order_effects *effects)
{
  for (uint32_t process = 0; process < self->group.n_processes && self->group.suspected; process++)
    while (busq_group_suspects(&self->group, process) && busq_effects_have_room(effects, 3) &&
           acknowledge(self, process, effects))
      ;
}

static int ack_step(void *state, const busq_order_event *event, busq_order_effects *effects)
{
  int result = BUSQ_OK;
  if (event->kind == BUSQ_ON_SUBMIT)
    result = submit(state, event, effects);
  else if (event->kind == BUSQ_ON_RECEIVE)
    result = receive(state, &event->packet, effects);
  if (result == BUSQ_OK)
    acknowledge_for_the_dead(state, effects);
  return result;
}

static void rename_mine(busq_held_entry *entry, const uint32_t *names)
{
  entry->key = names[entry->key];
  entry->message = busq_rename_message(entry->message, names);
}

static void ack_rename(const void *from, void *to, const uint32_t *names)
{
  const ack_state *self = from;
  busq_rename_begin(from, to, busq_order_state_size(&busq_order_fifo_ack, &self->group), names);
  busq_rename_held(&((ack_state *)to)->mine, names, rename_mine);
}

static bool ack_verify(const void *state)
{
  const ack_state *self = state;
  for (uint32_t place = 0; place < self->mine.count; place++) {
    const busq_held_entry *entry = busq_holdback_at(&self->mine, place);
    const bool is_first = place == 0 || busq_holdback_at(&self->mine, place - 1)->key != entry->key;
    if (entry->note != is_first)
      return false;
  }
  return true;
}

static void ack_gauge(const void *state, busq_order_gauge *gauge)
{
  const ack_state *self = state;
  *gauge = (busq_order_gauge){.waiting = self->mine.count};
}

const busq_order busq_order_fifo_ack = {
    .name = "fifo-ack",
    .promise = "FIFO, by waiting for acknowledgements",
    .source = "lecture notes, FIFO delivery: ACK",
    .claims = BUSQ_CLAIMS_FIFO,
    .traits = BUSQ_ORDER_POINT_TO_POINT, /* what waits for one receiver is passed by what goes to another */
    .crashes = BUSQ_CRASH_VALIDITY | BUSQ_CRASH_AGREEMENT | BUSQ_CRASH_UNIFORM,
    .crashes_go_on = BUSQ_CRASH_VALIDITY | BUSQ_CRASH_AGREEMENT | BUSQ_CRASH_UNIFORM | BUSQ_CRASH_GOES_ON,
    .options = busq_order_may_go_on,
    .kinds = kinds,
    .n_kinds = 2,
    .quiet_when_all_is_sent = 1u << ACK, /* it only reports that a message is done */
    .head_bytes = offsetof(ack_state, mine),
    .buffers = {{BUSQ_HOLDBACK, .own = true}},
    .step = ack_step,
    .rename = ack_rename,
    .verify = ack_verify,
    .gauge = ack_gauge,
};
