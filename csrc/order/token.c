/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order "token": the right to number rotates (Garg 12.3.1: "The token assigns sequence numbers to broadcasts, and
 * messages are delivered only in this sequence order").  The processes form a ring, in the order of their numbers; the
 * token starts parked at process 0.  Everything is a broadcast; what is not meant for a process has its number there
 * too, and is ignored in its turn.
 *
 *   submit m:                 m waits.  With the token here: number. Without it: send WANT to the next process, unless one's last
 *                             WANT still waits for the token
 *   number:                   each message that waits gets the next number k: send DATA(m, k) to all
 *   receive DATA(m, k):       deliver in the order of numbers, without gaps
 *   receive WANT of w:        with the token here (parked): send it on.  Without it: remember that a process wants it, and send
 *                             the WANT on, unless the next process is w
 *   receive TOKEN(k, idle):   number; if something was numbered, or a process is remembered to want it, idle = 0 and none is
 *                             remembered, otherwise idle + 1.  At n the token parks; otherwise it goes on to the next process
 *
 * Guarantee: causal total order, over any network.  Total: there is one token, and it counts.  Causal: a message is
 * sent when it is numbered, and what its sender has sent or delivered before was numbered before, when the token had
 * counted less.
 *
 * It falls silent, and no process is forgotten.  Let w send a WANT.  Where it meets the parked token, that sets out
 * with idle = 0 and makes n - 1 steps at least, so it comes to w.  Otherwise it leaves a note at all others, behind
 * which the token cannot park: sooner or later it comes to w, or to such a note, which sets idle = 0 again and so
 * brings it to w as well.  A note is used up when it is seen, and every WANT ends after one circle: so when no process
 * submits, the circles end.
 *
 * Packets: n - 1 per message, and what the token needs: n - 1 DATA alone where the parked token's holder goes on
 * sending.
 *
 * Not given: locality.  Every process works for every message.
 *
 * Proven without a bound: busq/lab/proof/models/token.py and token_rest.py.
 */
#include "order/order.h"
#include "queue/holdback.h"
#include "queue/outbox.h"

enum { DATA, TOKEN, WANT };
enum { AWAY, WORKING, PARKED }; /* where the token is */

static const busq_order_kind kinds[] = {{"data", true}, {"token", false}, {"want", false}};

/* At its end and behind it:
 *   outbox: messages of one's own that have no number; `note` is whether they are for this process too;
 *   held, a hold-back buffer keyed by number: numbered, but not in turn; `note` is whether they are for this process. */
typedef struct {
  busq_order_group group;
  uint64_t next_delivered; /* the number that is in turn here */
  uint64_t next_number;    /* that the token gives; 0 while it is away */
  uint32_t token;
  uint32_t idle;           /* how many processes in succession the token has found without need; 0 while it is away */
  uint32_t is_wanted;      /* a WANT of another process came by */
  uint32_t has_asked;      /* one's own WANT waits for the token */
  uint32_t n_held_own;     /* Invariant: the messages in held that this process sent */
  uint32_t unused;
  busq_outbox outbox;
} token_state;

static busq_holdback *held_of(const token_state *self)
{
  return busq_outbox_end(&self->outbox);
}

static void token_init(void *state)
{
  token_state *self = state;
  self->next_delivered = 1;
  if (!self->group.self) {
    self->token = PARKED;
    self->next_number = 1;
  }
}

static uint32_t next_process(const token_state *self)
{
  return self->group.self + 1 == self->group.n_processes ? 0 : self->group.self + 1;
}

static void number_waiting(token_state *self, busq_order_effects *effects)
{
  busq_outbox *outbox = &self->outbox;
  while (self->token != AWAY && outbox->count && busq_effects_have_room(effects, 2)) {
    const busq_outbox_entry first = busq_outbox_pop(outbox);
    const uint64_t number = self->next_number++;
    self->idle = 0;
    self->n_held_own++;
    busq_holdback_insert(held_of(self), (busq_held_entry){.key = number,
                                                          .message = first.message,
                                                          .from = self->group.self,
                                                          .note = first.note});
    busq_do_sent(effects, first.message, NULL);
    if (self->group.n_processes > 1)
      busq_do_send(effects, BUSQ_TO_ALL, (busq_order_packet){.message = first.message, .stamp = number, .kind = DATA});
  }
}

static void pass_on(token_state *self, busq_order_effects *effects)
{
  busq_do_send(effects, next_process(self),
               (busq_order_packet){.stamp = self->next_number, .note = self->idle, .kind = TOKEN});
  self->token = AWAY;
  self->next_number = 0;
  self->idle = 0;
}

static void pass_or_park(token_state *self, busq_order_effects *effects)
{
  if (self->token != WORKING || self->outbox.count)
    return;
  if (self->idle < self->group.n_processes) {
    if (busq_effects_have_room(effects, 1))
      pass_on(self, effects);
    return;
  }
  self->token = PARKED;
  self->idle = 0;
}

static void deliver_in_turn(token_state *self, busq_order_effects *effects)
{
  busq_holdback *held = held_of(self);
  while (held->count && busq_holdback_at(held, 0)->key == self->next_delivered && busq_effects_have_room(effects, 2)) {
    const busq_held_entry first = busq_holdback_remove(held, 0);
    self->next_delivered++;
    if (first.note)
      busq_do_deliver(effects, first.message);
    else if (first.from != self->group.self)
      busq_do_drop(effects, first.message);
    if (first.from != self->group.self)
      continue;
    self->n_held_own--;
    busq_do_done(effects, first.message);
  }
}

static int submit(token_state *self, const busq_order_event *event, busq_order_effects *effects)
{
  busq_outbox *outbox = &self->outbox;
  if (outbox->count + self->n_held_own == self->group.waiting_max)
    return BUSQ_FULL;
  busq_outbox_push(outbox, (busq_outbox_entry){.message = event->packet.message, .note = event->is_for_me});
  if (self->token != AWAY || self->has_asked)
    return BUSQ_OK;
  self->has_asked = 1;
  busq_do_send(effects, next_process(self), (busq_order_packet){.note = self->group.self, .kind = WANT});
  return BUSQ_OK;
}

static int receive_data(token_state *self, const busq_order_event *event)
{
  const busq_order_packet *packet = &event->packet;
  busq_holdback *held = held_of(self);
  if (held->count - self->n_held_own >= self->group.held_max)
    return BUSQ_FULL;
  busq_holdback_insert(held, (busq_held_entry){.key = packet->stamp,
                                               .message = packet->message,
                                               .from = packet->from,
                                               .note = event->is_for_me});
  return BUSQ_OK;
}

static void receive_token(token_state *self, const busq_order_packet *packet)
{
  self->token = WORKING;
  self->next_number = packet->stamp;
  self->idle = self->is_wanted ? 0 : packet->note + 1;
  self->is_wanted = 0;
  self->has_asked = 0;
}

static void receive_want(token_state *self, const busq_order_packet *packet, busq_order_effects *effects)
{
  if (self->token == PARKED) {
    pass_on(self, effects);
    return;
  }
  self->is_wanted = 1;
  if (next_process(self) != packet->note)
    busq_do_send(effects, next_process(self), (busq_order_packet){.note = packet->note, .kind = WANT});
}

static int token_step(void *state, const busq_order_event *event, busq_order_effects *effects)
{
  token_state *self = state;
  int result = BUSQ_OK;
  if (event->kind == BUSQ_ON_SUBMIT)
    result = submit(self, event, effects);
  else if (event->kind == BUSQ_ON_RECEIVE && event->packet.kind == DATA)
    result = receive_data(self, event);
  else if (event->kind == BUSQ_ON_RECEIVE && event->packet.kind == TOKEN)
    receive_token(self, &event->packet);
  else if (event->kind == BUSQ_ON_RECEIVE)
    receive_want(self, &event->packet, effects);
  if (result != BUSQ_OK)
    return result;
  number_waiting(self, effects);
  pass_or_park(self, effects);
  deliver_in_turn(self, effects);
  return BUSQ_OK;
}

static bool token_verify(const void *state)
{
  const token_state *self = state;
  const busq_outbox *outbox = &self->outbox;
  const busq_holdback *held = held_of(self);
  const bool is_away = self->token == AWAY;
  if (self->unused || self->token > PARKED || is_away != (self->next_number == 0) || self->idle > self->group.n_processes ||
      (self->token != WORKING && self->idle) || (!is_away && (self->is_wanted || self->has_asked)))
    return false;
  if (is_away && outbox->count && !self->has_asked)
    return false;
  uint32_t n_held_own = 0;
  for (uint32_t place = 0; place < held->count; place++) {
    const busq_held_entry *entry = busq_holdback_at(held, place);
    n_held_own += entry->from == self->group.self;
    if (entry->key < self->next_delivered || (place && busq_holdback_at(held, place - 1)->key == entry->key) ||
        (!is_away && entry->key >= self->next_number))
      return false;
  }
  return n_held_own == self->n_held_own && outbox->count + n_held_own <= self->group.waiting_max &&
         held->count - n_held_own <= self->group.held_max;
}

static void token_gauge(const void *state, busq_order_gauge *gauge)
{
  const token_state *self = state;
  *gauge = (busq_order_gauge){.waiting = self->outbox.count + self->n_held_own,
                              .held = held_of(self)->count - self->n_held_own};
}

const busq_order busq_order_token = {
    .name = "token",
    .promise = "causal total order, by numbers that a rotating token gives",
    .source = "Garg, section 12.3.1",
    .claims = BUSQ_CLAIMS_FIFO | BUSQ_CLAIMS_CAUSAL | BUSQ_CLAIMS_CONSISTENT | BUSQ_CLAIMS_TOTAL,
    .traits = BUSQ_ORDER_WHOLE_GROUP,
    .crashes = BUSQ_CRASH_VALIDITY,
    .kinds = kinds,
    .n_kinds = sizeof kinds / sizeof *kinds,
    /* Deliveries go by number, in whatever order DATA comes; TOKEN and WANT have nothing to do with them.  Not a
     * buffer as OUTPUT_BUFFER has it: a submit asks for the token. */
    .quiet_when_all_is_sent = 1u << DATA,
    .head_bytes = offsetof(token_state, outbox),
    .buffers = {{BUSQ_OUTBOX, .own = true}, {BUSQ_HOLDBACK, .own = true, .others = true}},
    .init = token_init,
    .step = token_step, /* no rename: a ring, and a WANT has in its note whose it is */
    .verify = token_verify,
    .gauge = token_gauge,
};
