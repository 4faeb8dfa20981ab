/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order "skeen": proposed timestamps (Garg 12.3.3).  Genuine: a message is the business of its sender and its
 * destinations.
 *
 *   submit m:                  tick the clock; send DATA(m, clock) to the destinations; if this process is one, queue m under
 *                              the clock, which is its own proposal
 *   receive DATA(m, t):        clock = max(clock, t) + 1; queue m under the clock, open; send PROPOSAL(m, clock) to the sender
 *   receive PROPOSAL(m, p):    when all are in, the final timestamp is their maximum: send FINAL(m, maximum) to the destinations
 *   receive FINAL(m, t):       clock = max(clock, t); queue m under t, settled
 *   the first of the queue is settled:   deliver it
 *
 * Guarantee: total order, that of (final timestamp, name), over any network.  Final timestamps are nowhere below
 * proposals, so what is open sorts behind its place in the queue; what comes later is proposed a timestamp above the
 * clock, which has passed everything settled.  So nothing smaller comes after the first of the queue.  Names begin with
 * the sender; they settle ties the same way everywhere.
 *
 * Packets: 3 per destination other than the sender; a message to oneself takes none.
 *
 * Not given: FIFO, and so no causality either: a second message, or its effect, may be settled where the first one has
 * not arrived.  What a process has *delivered*, though, comes before all that this causes: a process that delivers m
 * has passed its final timestamp, and DATA hands that on; and the destinations of m knew of it before any process
 * delivered it.  Nor is an end given where the places for messages of others are too few (held_max in order/order.h).
 *
 * With the option on_crash=go-on destinations decide, and go on without the dead: order/skeen_survivors.h.
 *
 * Proven without a bound: busq/lab/proof/models/skeen.py.
 *
 * Order "abcast": the same as ISIS had it before (Birman and Joseph 1987): DATA carries no timestamp, and a sender that is
 * no destination proposes none.  So what a process has delivered no longer comes before all that this causes: the destinations of
 * the effect may not have heard of that final timestamp.  (The paper settles ties by the process that proposed; names do as well.)
 * That model has not its steps; all its executions within a bound were searched.
 */
#include "order/order.h"
#include "order/skeen_survivors.h"
#include "queue/holdback.h"
#include "queue/outbox.h"

enum { DATA = BUSQ_SURVIVORS_DATA, PROPOSAL = BUSQ_SURVIVORS_PROPOSAL, FINAL = BUSQ_SURVIVORS_FINAL };
enum { SETTLED = 1 }; /* the note of what is queued */

static const busq_order_kind kinds[] = {{"data", true}, {"proposal", false}, {"final", false}, {"flush", false}};
/* At its end and behind it:
 *   mine, an outbox: one's own messages, oldest first; `stamp` is the largest proposal, `to` how many are missing, `note` whether
 *   it is for this process too;
 *   queue, a hold-back buffer keyed by timestamp: all messages that are for this process. */
typedef struct {
  busq_order_group group;
  uint64_t clock;
  uint32_t n_queued_own; /* Invariant: the messages in the queue that this process sent */
  uint32_t unused;
  busq_outbox mine;
} skeen_state;

static bool goes_on(const busq_order_group *group)
{
  return group->options & BUSQ_OPTION_GO_ON;
}

static size_t skeen_head_size(const busq_order_group *group)
{
  return goes_on(group) ? busq_survivors_head_size(group) : offsetof(skeen_state, mine);
}

static busq_holdback *queue_of(const skeen_state *self)
{
  return busq_outbox_end(&self->mine);
}

static void pass(skeen_state *self, uint64_t timestamp)
{
  if (timestamp > self->clock)
    self->clock = timestamp;
}

/* Its place in mine, or beyond the last one. */
static uint32_t find_mine(const skeen_state *self, uint64_t message)
{
  const busq_outbox *mine = &self->mine;
  uint32_t place = 0;
  while (place < mine->count && busq_outbox_at(mine, place)->message != message)
    place++;
  return place;
}

static void end(skeen_state *self, uint32_t place, busq_order_effects *effects)
{
  busq_do_done(effects, busq_outbox_remove(&self->mine, place).message);
}

static bool is_open(const busq_held_entry *entry, uint64_t message, uint32_t from)
{
  return entry->message == message && entry->from == from && !(entry->note & SETTLED);
}

/* The message to be settled mostly stands near the beginning: the queue is in the order of timestamps. */
static void settle(skeen_state *self, uint64_t message, uint32_t from, uint64_t timestamp)
{
  busq_holdback *queue = queue_of(self);
  uint32_t place = 0;
  while (place < queue->count && !is_open(busq_holdback_at(queue, place), message, from))
    place++;
  if (place == queue->count)
    return;
  busq_holdback_at(queue, place)->note = SETTLED;
  busq_holdback_rekey(queue, place, timestamp);
}

static void advance(skeen_state *self, busq_order_effects *effects)
{
  busq_holdback *queue = queue_of(self);
  while (queue->count && busq_holdback_at(queue, 0)->note & SETTLED && busq_effects_have_room(effects, 2)) {
    const busq_held_entry first = busq_holdback_remove(queue, 0);
    busq_do_deliver(effects, first.message);
    if (first.from != self->group.self)
      continue;
    self->n_queued_own--;
    end(self, find_mine(self, first.message), effects);
  }
}

/* All proposals are in. */
static void decide(skeen_state *self, uint32_t place, busq_order_effects *effects)
{
  const busq_outbox_entry *entry = busq_outbox_at(&self->mine, place);
  pass(self, entry->stamp);
  if (entry->note)
    settle(self, entry->message, self->group.self, entry->stamp);
  else
    end(self, place, effects);
}

static int submit(skeen_state *self, const busq_order_event *event, busq_order_effects *effects, bool has_timestamps)
{
  const uint64_t message = event->packet.message;
  busq_outbox *mine = &self->mine;
  if (busq_outbox_is_full(mine))
    return BUSQ_FULL;
  const bool proposes = has_timestamps || event->is_for_me;
  self->clock += proposes;
  busq_outbox_push(mine, (busq_outbox_entry){.message = message,
                                             .stamp = proposes ? self->clock : 0,
                                             .to = event->n_others,
                                             .note = event->is_for_me});
  busq_do_sent(effects, message, NULL);
  if (event->is_for_me) {
    busq_holdback_insert(queue_of(self),
                         (busq_held_entry){.key = self->clock, .message = message, .from = self->group.self});
    self->n_queued_own++;
  }
  if (event->n_others)
    busq_do_send(effects, BUSQ_TO_DESTINATIONS,
                 (busq_order_packet){.message = message, .stamp = has_timestamps ? self->clock : 0, .kind = DATA});
  else
    decide(self, mine->count - 1, effects);
  return BUSQ_OK;
}

static int receive_data(skeen_state *self, const busq_order_packet *packet, busq_order_effects *effects)
{
  busq_holdback *queue = queue_of(self);
  if (queue->count - self->n_queued_own >= self->group.held_max)
    return BUSQ_FULL;
  pass(self, packet->stamp);
  self->clock++;
  busq_holdback_insert(queue,
                       (busq_held_entry){.key = self->clock, .message = packet->message, .from = packet->from});
  busq_do_send(effects, packet->from,
               (busq_order_packet){.message = packet->message, .stamp = self->clock, .kind = PROPOSAL});
  return BUSQ_OK;
}

static void receive_proposal(skeen_state *self, const busq_order_packet *packet, busq_order_effects *effects)
{
  const uint32_t place = find_mine(self, packet->message);
  busq_outbox_entry *entry = busq_outbox_at(&self->mine, place);
  if (place == self->mine.count || !entry->to)
    return;
  if (packet->stamp > entry->stamp)
    entry->stamp = packet->stamp;
  if (--entry->to)
    return;
  busq_do_send(effects, BUSQ_TO_DESTINATIONS,
               (busq_order_packet){.message = packet->message, .stamp = entry->stamp, .kind = FINAL});
  decide(self, place, effects);
}

static int step(skeen_state *self, const busq_order_event *event, busq_order_effects *effects, bool has_timestamps)
{
  if (goes_on(&self->group))
    return busq_survivors_step(self, event, effects, has_timestamps);
  const busq_order_packet *packet = &event->packet;
  int result = BUSQ_OK;
  if (event->kind == BUSQ_ON_SUBMIT) {
    result = submit(self, event, effects, has_timestamps);
  } else if (event->kind == BUSQ_ON_RECEIVE && packet->kind == DATA) {
    result = receive_data(self, packet, effects);
  } else if (event->kind == BUSQ_ON_RECEIVE && packet->kind == PROPOSAL) {
    receive_proposal(self, packet, effects);
  } else if (event->kind == BUSQ_ON_RECEIVE && packet->kind != FINAL) {
    result = BUSQ_CORRUPT;
  } else if (event->kind == BUSQ_ON_RECEIVE) {
    pass(self, packet->stamp);
    settle(self, packet->message, packet->from, packet->stamp);
  }
  if (result == BUSQ_OK)
    advance(self, effects);
  return result;
}

static int skeen_step(void *state, const busq_order_event *event, busq_order_effects *effects)
{
  return step(state, event, effects, true);
}

static int abcast_step(void *state, const busq_order_event *event, busq_order_effects *effects)
{
  return step(state, event, effects, false);
}

static bool skeen_verify(const void *state)
{
  const skeen_state *self = state;
  if (goes_on(&self->group))
    return busq_survivors_verify(state);
  const busq_outbox *mine = &self->mine;
  const busq_holdback *queue = queue_of(self);
  if (self->unused)
    return false;
  uint32_t n_queued_own = 0;
  for (uint32_t place = 0; place < queue->count; place++) {
    n_queued_own += busq_holdback_at(queue, place)->from == self->group.self;
    if (busq_holdback_at(queue, place)->key > self->clock)
      return false;
  }
  uint32_t n_for_me = 0;
  for (uint32_t place = 0; place < mine->count; place++) {
    const busq_outbox_entry *entry = busq_outbox_at(mine, place);
    n_for_me += entry->note;
    if (entry->to >= self->group.n_processes || (!entry->to && !entry->note))
      return false;
  }
  return n_queued_own == self->n_queued_own && n_for_me == n_queued_own &&
         queue->count - n_queued_own <= self->group.held_max;
}

static void skeen_gauge(const void *state, busq_order_gauge *gauge)
{
  const skeen_state *self = state;
  if (goes_on(&self->group)) {
    busq_survivors_gauge(state, gauge);
    return;
  }
  *gauge = (busq_order_gauge){.waiting = self->mine.count, .held = queue_of(self)->count - self->n_queued_own};
}

const busq_order busq_order_skeen = {
    .name = "skeen",
    .promise = "total order, by proposed timestamps; only sender and destinations take part",
    .source = "Garg, section 12.3.3",
    .claims = BUSQ_CLAIMS_CONSISTENT | BUSQ_CLAIMS_TOTAL,
    .traits = BUSQ_ORDER_FIFO_TO_GO_ON,
    .crashes_go_on = BUSQ_CRASH_VALIDITY | BUSQ_CRASH_AGREEMENT | BUSQ_CRASH_UNIFORM | BUSQ_CRASH_GOES_ON,
    .kinds = kinds,
    .n_kinds = sizeof kinds / sizeof *kinds,
    .options = busq_order_may_go_on,
    .silent_always = BUSQ_SURVIVORS_SILENT_ALWAYS,
    .silent_at_last = BUSQ_SURVIVORS_SILENT_AT_LAST,
    .idle_stays = BUSQ_SURVIVORS_SILENT_AT_LAST,
    .head_size = skeen_head_size,
    .buffers = {{BUSQ_OUTBOX, .own = true}, {BUSQ_HOLDBACK, .own = true, .others = true}},
    .step = skeen_step, /* no rename: names settle ties.  Nothing is quiet: proposals depend on all that came before. */
    .rebase = busq_survivors_rebase,
    .verify = skeen_verify,
    .gauge = skeen_gauge,
};

const busq_order busq_order_abcast = {
    .name = "abcast",
    .promise = "total order, by proposed priorities alone; only sender and destinations take part",
    .source = "Birman and Joseph 1987",
    .claims = BUSQ_CLAIMS_CONSISTENT | BUSQ_CLAIMS_TOTAL,
    .traits = BUSQ_ORDER_FIFO_TO_GO_ON,
    .crashes_go_on = BUSQ_CRASH_VALIDITY | BUSQ_CRASH_AGREEMENT | BUSQ_CRASH_UNIFORM | BUSQ_CRASH_GOES_ON,
    .kinds = kinds,
    .n_kinds = sizeof kinds / sizeof *kinds,
    .options = busq_order_may_go_on,
    .silent_always = BUSQ_SURVIVORS_SILENT_ALWAYS,
    .silent_at_last = BUSQ_SURVIVORS_SILENT_AT_LAST,
    .idle_stays = BUSQ_SURVIVORS_SILENT_AT_LAST,
    .head_size = skeen_head_size,
    .buffers = {{BUSQ_OUTBOX, .own = true}, {BUSQ_HOLDBACK, .own = true, .others = true}},
    .step = abcast_step,
    .rebase = busq_survivors_rebase,
    .verify = skeen_verify,
    .gauge = skeen_gauge,
};
