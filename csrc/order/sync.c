/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order "sync": blocking sends without deadlock.  A send is over (BUSQ_DO_DONE) when the receiver has delivered.
 * Processes stand in the order of their numbers; "bigger" and "smaller" mean them.  The protocol is in the manner of
 * Murty and Garg.
 *
 * A process is active, or passive: waiting for one message or one acknowledgement of one smaller process.  Messages of
 * one's own wait in an output buffer; the first one is under way until it is done.
 *
 *   the first message goes to a smaller process:   when active, send DATA, become passive
 *   the first message goes to a bigger process:    send REQUEST
 *   receive REQUEST of a smaller process:          when active, send PERMIT, become passive
 *   receive PERMIT of a bigger process:            when active, send DATA (and stay active)
 *   receive DATA of a bigger process:              when active, deliver, send ACK (and stay active)
 *   receive DATA of a smaller process:             that is what this process is passive for: deliver, send ACK, become active
 *   receive ACK:                                   the first message is done; if it went to a smaller process become active
 *
 * Events that must wait until the process is active stand in a line, first come first served.
 *
 * Guarantee: synchronous (no crown), hence causal and FIFO.  Give every message the instant of its event at the smaller
 * of its two processes: a delivery of what came from above, a sending of what goes up.  At the bigger process its event
 * lies in a time of being passive that spans that instant, and in which nothing else is sent or delivered.  So at every
 * process messages follow each other in the order of their instants, and a message can be drawn as a point in time:
 * there is no circle.
 *
 * No deadlock: the smallest process is never passive; a process that waits for an active one gets what it waits for,
 * since lines are served; so by induction every process becomes active again, and none is forgotten.
 *
 * A message to oneself is a point in time whenever it happens, so it is delivered at once.
 *
 * Packets: 2 to a smaller process (DATA, ACK); 4 to a bigger one (REQUEST, PERMIT, DATA, ACK: the last one allows the
 * sender to go on).
 *
 * Not given: concurrency.  REQUEST and PERMIT carry no message: the message is sent with its DATA, and not before.
 *
 * With the option on_crash=go-on no process waits for the dead: when d is known to be dead, nothing of it can come any more,
 *
 *   passive for d:                   become active
 *   REQUEST or PERMIT of d in line:  forget it; its DATA stays
 *   the first message goes to d:     send it, where it is not sent so far; it is done
 *
 * Synchronous all the same: what is sent to the dead is never delivered, and all else has its instant as before.
 *
 * Proven without a bound: busq/lab/proof/models/sync.py.
 */
#include "order/point_to_point.h"

enum { DATA, ACK, REQUEST, PERMIT };
enum { OWN = 4 };                      /* in the line: one's own first message */
enum { NOBODY = 0, HEAD_IS_ASKING = 1, HEAD_IS_SENT = 2 };

static const busq_order_kind kinds[] = {{"data", true}, {"ack", false}, {"request", false}, {"permit", false}};

/* Behind it, outboxes both:
 *   mine: one's own messages, the first one under way;
 *   line: what waits until the process is active; `note` is the kind, `to` the process that it came from.  Of every other process
 *   at most one thing waits at a time, and one of one's own. */
typedef struct {
  busq_order_group group;
  uint32_t passive_for; /* the smaller process that is waited for, plus one; `NOBODY`: active */
  uint32_t head;        /* how far the first of mine is: 0, HEAD_IS_ASKING, HEAD_IS_SENT */
} sync_state;

static busq_outbox *mine_of(const sync_state *self)
{
  return (busq_outbox *)(self + 1);
}

static busq_outbox *line_of(const sync_state *self)
{
  return busq_outbox_end(mine_of(self));
}

static void send(uint32_t kind, uint32_t to, uint64_t message, busq_order_effects *effects)
{
  busq_do_send(effects, to, (busq_order_packet){.message = message, .kind = kind});
}

/* Whether there is a first message of one's own, and it goes to the dead. */
static bool is_head_to_the_dead(const sync_state *self)
{
  return mine_of(self)->count && busq_group_suspects(&self->group, busq_outbox_at(mine_of(self), 0)->to);
}

/* Starts the first message of one's own, if there is one. */
static void start_head(sync_state *self, busq_order_effects *effects)
{
  const busq_outbox_entry *head = busq_outbox_at(mine_of(self), 0);
  self->head = 0;
  if (!mine_of(self)->count || is_head_to_the_dead(self))
    return;
  if (head->to > self->group.self) {
    self->head = HEAD_IS_ASKING;
    send(REQUEST, head->to, 0, effects);
  } else {
    busq_outbox_push(line_of(self), (busq_outbox_entry){.to = self->group.self, .note = OWN});
  }
}

static void send_head(sync_state *self, busq_order_effects *effects)
{
  const busq_outbox_entry *head = busq_outbox_at(mine_of(self), 0);
  self->head = HEAD_IS_SENT;
  busq_do_sent(effects, head->message, NULL);
  send(DATA, head->to, head->message, effects);
}

/* Does what has waited for being active; at most two effects. */
static void serve(sync_state *self, const busq_outbox_entry *waiting, busq_order_effects *effects)
{
  switch (waiting->note) {
  case DATA:
    busq_do_deliver_and_ack(effects, waiting->message, waiting->to, ACK);
    break;
  case REQUEST:
    send(PERMIT, waiting->to, 0, effects);
    self->passive_for = waiting->to + 1;
    break;
  case PERMIT:
    if (self->head == HEAD_IS_ASKING)
      send_head(self, effects);
    break;
  default: /* OWN */
    send_head(self, effects);
    self->passive_for = busq_outbox_at(mine_of(self), 0)->to + 1;
  }
}

static void serve_line(sync_state *self, busq_order_effects *effects)
{
  busq_outbox *line = line_of(self);
  while (self->passive_for == NOBODY && line->count && busq_effects_have_room(effects, 2)) {
    const busq_outbox_entry first = busq_outbox_pop(line);
    serve(self, &first, effects);
  }
}

/* Forgets what the dead has asked for, and that one's own first message to it waits in the line. */
static void suspect(sync_state *self, uint32_t dead)
{
  busq_outbox *line = line_of(self);
  if (self->passive_for == dead + 1)
    self->passive_for = NOBODY;
  for (uint32_t place = line->count; place-- > 0;) {
    const busq_outbox_entry *waiting = busq_outbox_at(line, place);
    if (waiting->note == OWN ? is_head_to_the_dead(self) : waiting->to == dead && waiting->note != DATA)
      (void)busq_outbox_remove(line, place);
  }
}

static void end_heads_to_the_dead(sync_state *self, busq_order_effects *effects)
{
  while (is_head_to_the_dead(self) && busq_effects_have_room(effects, 3)) {
    const busq_outbox_entry head = busq_outbox_pop(mine_of(self));
    if (self->head != HEAD_IS_SENT)
      busq_do_sent(effects, head.message, NULL);
    busq_do_done(effects, head.message);
    start_head(self, effects);
  }
}

static int submit(sync_state *self, const busq_order_event *event, busq_order_effects *effects)
{
  busq_outbox *mine = mine_of(self);
  const bool was_empty = mine->count == 0;
  const int result = busq_point_to_point_submit(mine, event, effects);
  if (was_empty && mine->count)
    start_head(self, effects);
  return result;
}

static void receive_ack(sync_state *self, const busq_order_packet *packet, busq_order_effects *effects)
{
  busq_outbox *mine = mine_of(self);
  if (self->head != HEAD_IS_SENT || busq_outbox_at(mine, 0)->message != packet->message)
    return;
  const busq_outbox_entry head = busq_outbox_pop(mine);
  if (head.to < self->group.self)
    self->passive_for = NOBODY;
  busq_do_done(effects, head.message);
  start_head(self, effects);
}

static bool waits_in_line(busq_outbox *line, uint32_t process)
{
  uint32_t place = 0;
  while (place < line->count && busq_outbox_at(line, place)->to != process)
    place++;
  return place < line->count;
}

/* A second thing of the same process in the line could only be a packet that the network has doubled: it is ignored,
 * so that the line has room for all. */
static void receive(sync_state *self, const busq_order_packet *packet, busq_order_effects *effects)
{
  busq_outbox *line = line_of(self);
  if (packet->kind == ACK) {
    receive_ack(self, packet, effects);
    return;
  }
  if (packet->kind == DATA && self->passive_for == packet->from + 1) {
    self->passive_for = NOBODY;
    busq_do_deliver_and_ack(effects, packet->message, packet->from, ACK);
    return;
  }
  if (!waits_in_line(line, packet->from))
    busq_outbox_push(line, (busq_outbox_entry){.message = packet->message, .to = packet->from, .note = packet->kind});
}

static int sync_step(void *state, const busq_order_event *event, busq_order_effects *effects)
{
  sync_state *self = state;
  int result = BUSQ_OK;
  if (event->kind == BUSQ_ON_SUBMIT)
    result = submit(self, event, effects);
  else if (event->kind == BUSQ_ON_RECEIVE)
    receive(self, &event->packet, effects);
  else if (event->kind == BUSQ_ON_SUSPECT)
    suspect(self, event->packet.from);
  if (result != BUSQ_OK)
    return result;
  end_heads_to_the_dead(self, effects);
  serve_line(self, effects);
  return BUSQ_OK;
}

/* Requests come from below, messages and permits from above, and of no process two things wait at a time. */
static bool verify_line(const sync_state *self)
{
  const uint32_t me = self->group.self;
  busq_outbox *line = line_of(self);
  for (uint32_t place = 0; place < line->count; place++) {
    const busq_outbox_entry *waiting = busq_outbox_at(line, place);
    const bool is_sound = waiting->note == REQUEST ? waiting->to < me
                          : waiting->note == OWN   ? waiting->to == me
                                                   : waiting->to > me && waiting->to < self->group.n_processes;
    if (!is_sound || waiting->note > OWN || waiting->note == ACK || (waiting->note == DATA) != (waiting->message != 0))
      return false;
    for (uint32_t before = 0; before < place; before++)
      if (busq_outbox_at(line, before)->to == waiting->to)
        return false;
  }
  return true;
}

static bool sync_verify(const void *state)
{
  const sync_state *self = state;
  busq_outbox *mine = mine_of(self);
  const uint32_t me = self->group.self;
  if (!verify_line(self) || self->passive_for > me || self->head > HEAD_IS_SENT || (self->head && !mine->count))
    return false;
  /* A message to a smaller process makes its sender passive until the ACK; only one to a bigger process asks first. */
  const uint32_t head_to = mine->count ? busq_outbox_at(mine, 0)->to : me;
  if (self->head == HEAD_IS_SENT && head_to < me && self->passive_for != head_to + 1)
    return false;
  return self->head != HEAD_IS_ASKING || head_to > me;
}

static void sync_gauge(const void *state, busq_order_gauge *gauge)
{
  const sync_state *self = state;
  *gauge = (busq_order_gauge){.waiting = mine_of(self)->count};
  for (uint32_t place = 0; place < line_of(self)->count; place++)
    gauge->held += busq_outbox_at(line_of(self), place)->note == DATA;
}

const busq_order busq_order_sync = {
    .name = "sync",
    .promise = "synchronous: a send ends when the receiver has delivered",
    .source = "in the manner of Murty and Garg 1995",
    .claims = BUSQ_CLAIMS_FIFO | BUSQ_CLAIMS_CAUSAL | BUSQ_CLAIMS_SYNCHRONOUS,
    .traits = BUSQ_ORDER_POINT_TO_POINT | BUSQ_ORDER_RENDEZVOUS,
    .crashes = BUSQ_CRASH_AGREEMENT | BUSQ_CRASH_UNIFORM,
    .crashes_go_on = BUSQ_CRASH_VALIDITY | BUSQ_CRASH_AGREEMENT | BUSQ_CRASH_UNIFORM | BUSQ_CRASH_GOES_ON,
    .options = busq_order_may_go_on,
    .kinds = kinds,
    .n_kinds = sizeof kinds / sizeof *kinds,
    /* Until it comes the application may not submit.  Earlier packets stand in the line, and are served then in the
     * same order as if the ACK had come after; if the process was active, it changes nothing for others. */
    .quiet_always = 1u << ACK,
    .head_bytes = sizeof(sync_state),
    .buffers = {{BUSQ_OUTBOX, .own = true}, {BUSQ_OUTBOX, .processes = true}},
    .step = sync_step, /* no rename: the order of numbers is the protocol */
    .verify = sync_verify,
    .gauge = sync_gauge,
};
