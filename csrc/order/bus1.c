/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order "bus1": the algorithm of the bus1 wiki ("Message ordering", section "Algorithm"), its five steps as messages.
 * The baseline for the multicast in shared memory.
 *
 *   start m:                 send BLOCK(m) to the destinations (place a block on the own queue if this process is one)
 *   receive BLOCK(m):        place a block for m on the queue, behind the current clock; answer CLOCK(m, clock)
 *   all CLOCKs are in:       clock = max of them and one's own; tick; that is T.  Send SYNC(m, T) to the destinations
 *   receive SYNC(m, T):      clock = max(clock, T); answer SYNCED(m)
 *   all SYNCEDs are in:      send QUEUE(m, T) to the destinations (queue m here if this process is one); start the next
 *   receive QUEUE(m, T):     queue m under T in the place of its block
 *   the first of the queue is a message, not a block:   deliver it
 *
 * With unicast=direct a message to one other process takes a shorter way:
 *
 *   start m:                 send UNICAST(m)
 *   receive UNICAST(m):      tick the clock; queue m under it; answer SYNCED(m)
 *   SYNCED is in:            start the next
 *
 * With estimate=best BLOCK carries the sender's clock, and its receiver raises its own to that before it places the
 * block.
 *
 * Guarantee: causal total order, that of (T, name), over any network, and also where causes travel outside of it.  A
 * block stands behind all messages that its queue has, and in front of its own message; so what no block precedes,
 * nothing can precede later.  Before a message is queued anywhere all clocks of its destinations have passed T: a
 * process that learns of it, by whatever way, and sends to one of them gets a later timestamp.  Ties have no causal
 * relation; names, which begin with the sender, settle them the same way everywhere.
 *
 * A unicast needs no block, since its one destination fixes the timestamp and queues the message in the same step: no
 * message can slip between.  The blocks that stand there come first, and hold it back until it is known what they stand
 * for.  Its sender waits for the answer all the same.  Otherwise its next message could come to another process before
 * this one has its place; a process that learns of that next one, and writes to the destination of the first, would
 * overtake the first.
 *
 * The timestamp to come is above the sender's clock, which is above all timestamps that the sender has heard of.  A
 * block that stands lower blocks messages in between for nothing; a block at the estimate does not.  Raising a clock
 * harms nothing.
 *
 * A process sends one multicast at a time, since the calls that these messages stand for return when they are done.
 * Further ones wait.  The payload travels with the last step, for it is not needed before.  QUEUE is not answered: a
 * block stays until it has come, and the clock behind it was synchronised.
 *
 * Packets: 5 per destination other than the sender; a message to oneself takes none, a direct unicast 2.
 *
 * Not given: speed.  Three round trips lie between a send and its end, where shared memory needs a few instructions.
 *
 * Proven without a bound: busq/lab/proof/models/bus1.py.
 */
#include "order/order.h"
#include "queue/holdback.h"
#include "queue/outbox.h"

enum { BLOCK, CLOCK, SYNC, SYNCED, QUEUE, UNICAST };
enum { IDLE, COLLECTING, SYNCING };

static const busq_order_kind kinds[] = {
    {"block", false}, {"clock", false}, {"sync", false}, {"synced", false}, {"queue", true}, {"unicast", true}};
static const busq_order_option_name option_names[] = {{"unicast=direct", BUSQ_OPTION_DIRECT_UNICAST, false},
                                                      {"estimate=best", BUSQ_OPTION_BEST_ESTIMATE, false},
                                                      {NULL, 0, false}};

/* At its end and behind it:
 *   outbox: one's own messages that were not queued at their destinations so far; `to` is the number of other destinations,
 *   `note` whether this process is one too.  Unless the phase is IDLE the first one is under way;
 *   queue, a hold-back buffer: a message of timestamp T has the key 2T, a block behind the clock C the key 2C + 1. */
typedef struct {
  busq_order_group group;
  uint64_t clock;
  uint64_t timestamp; /* COLLECTING: the largest clock so far; SYNCING: T, or 0 of a direct unicast */
  uint32_t phase;
  uint32_t n_missing;    /* answers */
  uint32_t n_unfinished; /* Invariant: at most waiting_max; those in the outbox, and one's own that are queued here */
  uint32_t n_queued_own; /* Invariant: messages and blocks in the queue that are this process's own */
  busq_outbox outbox;
} bus1_state;

static busq_holdback *queue_of(const bus1_state *self)
{
  return busq_outbox_end(&self->outbox);
}

/* ---- the queue ---- */

static bool is_block(const busq_held_entry *entry)
{
  return entry->key & 1;
}

static void sync_clock(bus1_state *self, uint64_t timestamp)
{
  if (timestamp > self->clock)
    self->clock = timestamp;
}

static void place_block(bus1_state *self, uint64_t message, uint32_t from)
{
  busq_holdback_insert(queue_of(self),
                       (busq_held_entry){.key = 2 * self->clock + 1, .message = message, .from = from});
  self->n_queued_own += from == self->group.self;
}

static bool is_block_of(const busq_held_entry *entry, uint64_t message, uint32_t from)
{
  return is_block(entry) && entry->message == message && entry->from == from;
}

static void replace_block(bus1_state *self, uint64_t message, uint32_t from, uint64_t timestamp)
{
  busq_holdback *queue = queue_of(self);
  uint32_t place = 0;
  while (place < queue->count && !is_block_of(busq_holdback_at(queue, place), message, from))
    place++;
  if (place < queue->count)
    busq_holdback_rekey(queue, place, 2 * timestamp);
}

static void finish(bus1_state *self, uint64_t message, busq_order_effects *effects)
{
  busq_do_done(effects, message);
  self->n_unfinished--;
}

static void dequeue(bus1_state *self, busq_order_effects *effects)
{
  busq_holdback *queue = queue_of(self);
  while (queue->count && !is_block(busq_holdback_at(queue, 0)) && busq_effects_have_room(effects, 2)) {
    const busq_held_entry first = busq_holdback_remove(queue, 0);
    busq_do_deliver(effects, first.message);
    if (first.from != self->group.self)
      continue;
    self->n_queued_own--;
    finish(self, first.message, effects);
  }
}

/* ---- the transaction ---- */

static void send_to_destinations(uint32_t kind, uint64_t message, uint64_t stamp, busq_order_effects *effects)
{
  busq_do_send(effects, BUSQ_TO_DESTINATIONS, (busq_order_packet){.message = message, .stamp = stamp, .kind = kind});
}

static void choose_timestamp(bus1_state *self)
{
  sync_clock(self, self->timestamp);
  self->timestamp = ++self->clock;
}

/* Whether a message goes to its destination without a block. */
static bool is_direct(const bus1_state *self, const busq_outbox_entry *entry)
{
  return self->group.options & BUSQ_OPTION_DIRECT_UNICAST && entry->to == 1 && !entry->note;
}

static void commit(bus1_state *self, busq_order_effects *effects)
{
  const busq_outbox_entry first = busq_outbox_pop(&self->outbox);
  self->phase = IDLE;
  if (first.to && !is_direct(self, &first))
    send_to_destinations(QUEUE, first.message, self->timestamp, effects);
  if (first.note)
    replace_block(self, first.message, self->group.self, self->timestamp);
  else
    finish(self, first.message, effects);
  self->timestamp = 0;
}

static void send_first(bus1_state *self, const busq_outbox_entry *first, busq_order_effects *effects)
{
  const bool tells_estimate = self->group.options & BUSQ_OPTION_BEST_ESTIMATE;
  self->n_missing = first->to;
  self->phase = is_direct(self, first) ? SYNCING : COLLECTING;
  if (is_direct(self, first))
    send_to_destinations(UNICAST, first->message, 0, effects);
  else
    send_to_destinations(BLOCK, first->message, tells_estimate ? self->clock : 0, effects);
}

static bool start_next(bus1_state *self, busq_order_effects *effects)
{
  busq_outbox *outbox = &self->outbox;
  if (self->phase != IDLE || !outbox->count || !busq_effects_have_room(effects, 2))
    return false;
  const busq_outbox_entry *first = busq_outbox_at(outbox, 0);
  busq_do_sent(effects, first->message, NULL);
  if (first->note)
    place_block(self, first->message, self->group.self);
  if (first->to) {
    send_first(self, first, effects);
  } else {
    choose_timestamp(self);
    commit(self, effects);
  }
  return true;
}

static void advance(bus1_state *self, busq_order_effects *effects)
{
  do
    dequeue(self, effects);
  while (start_next(self, effects));
}

/* Whether it is an answer that is waited for, and the last one. */
static bool completes(bus1_state *self, uint32_t phase, const busq_order_packet *packet)
{
  const busq_outbox_entry *first = busq_outbox_at(&self->outbox, 0);
  return self->phase == phase && first->message == packet->message && --self->n_missing == 0;
}

static void receive_clock(bus1_state *self, const busq_order_packet *packet, busq_order_effects *effects)
{
  if (self->phase == COLLECTING && packet->stamp > self->timestamp)
    self->timestamp = packet->stamp;
  if (!completes(self, COLLECTING, packet))
    return;
  choose_timestamp(self);
  self->phase = SYNCING;
  self->n_missing = busq_outbox_at(&self->outbox, 0)->to;
  send_to_destinations(SYNC, packet->message, self->timestamp, effects);
}

static bool has_room(const bus1_state *self)
{
  return queue_of(self)->count - self->n_queued_own < self->group.held_max;
}

static void receive_block(bus1_state *self, const busq_order_packet *packet, busq_order_effects *effects)
{
  const uint64_t estimate = packet->stamp;
  sync_clock(self, estimate);
  place_block(self, packet->message, packet->from);
  busq_do_send(effects, packet->from,
               (busq_order_packet){.message = packet->message, .stamp = self->clock, .kind = CLOCK});
}

static void receive_unicast(bus1_state *self, const busq_order_packet *packet, busq_order_effects *effects)
{
  self->clock++;
  busq_holdback_insert(queue_of(self), (busq_held_entry){.key = 2 * self->clock,
                                                         .message = packet->message,
                                                         .from = packet->from});
  busq_do_send(effects, packet->from, (busq_order_packet){.message = packet->message, .kind = SYNCED});
}

static int receive(bus1_state *self, const busq_order_packet *packet, busq_order_effects *effects)
{
  if ((packet->kind == BLOCK || packet->kind == UNICAST) && !has_room(self))
    return BUSQ_FULL;
  switch (packet->kind) {
  case BLOCK:
    receive_block(self, packet, effects);
    break;
  case UNICAST:
    receive_unicast(self, packet, effects);
    break;
  case CLOCK:
    receive_clock(self, packet, effects);
    break;
  case SYNC:
    sync_clock(self, packet->stamp);
    busq_do_send(effects, packet->from, (busq_order_packet){.message = packet->message, .kind = SYNCED});
    break;
  case SYNCED:
    if (completes(self, SYNCING, packet))
      commit(self, effects);
    break;
  default:
    replace_block(self, packet->message, packet->from, packet->stamp);
  }
  return BUSQ_OK;
}

static int bus1_step(void *state, const busq_order_event *event, busq_order_effects *effects)
{
  bus1_state *self = state;
  int result = BUSQ_OK;
  if (event->kind == BUSQ_ON_SUBMIT && self->n_unfinished == self->group.waiting_max)
    return BUSQ_FULL;
  if (event->kind == BUSQ_ON_SUBMIT) {
    self->n_unfinished++;
    busq_outbox_push(&self->outbox, (busq_outbox_entry){.message = event->packet.message,
                                                          .to = event->n_others,
                                                          .note = event->is_for_me});
  } else if (event->kind == BUSQ_ON_RECEIVE) {
    result = receive(self, &event->packet, effects);
  }
  if (result == BUSQ_OK)
    advance(self, effects);
  return result;
}

static bool bus1_verify(const void *state)
{
  const bus1_state *self = state;
  const busq_outbox *outbox = &self->outbox;
  const busq_holdback *queue = queue_of(self);
  if (self->phase > SYNCING || (self->phase != IDLE) != (self->n_missing != 0) ||
      self->n_missing >= self->group.n_processes)
    return false;
  if (self->phase != IDLE && !outbox->count)
    return false;
  uint32_t n_blocks_own = 0;
  uint32_t n_messages_own = 0;
  for (uint32_t place = 0; place < queue->count; place++) {
    const busq_held_entry *entry = busq_holdback_at(queue, place);
    if (entry->key > 2 * self->clock + 1)
      return false;
    if (entry->from == self->group.self && is_block(entry))
      n_blocks_own++;
    else if (entry->from == self->group.self)
      n_messages_own++;
  }
  /* A block of one's own is there while the first message of the outbox is under way and is for this process too. */
  const bool has_block = self->phase != IDLE && busq_outbox_at(&self->outbox, 0)->note;
  return n_blocks_own == has_block && n_blocks_own + n_messages_own == self->n_queued_own &&
         outbox->count + n_messages_own == self->n_unfinished && self->n_unfinished <= self->group.waiting_max &&
         queue->count - self->n_queued_own <= self->group.held_max;
}

static void bus1_gauge(const void *state, busq_order_gauge *gauge)
{
  const bus1_state *self = state;
  *gauge = (busq_order_gauge){.waiting = self->n_unfinished, .held = queue_of(self)->count - self->n_queued_own};
}

const busq_order busq_order_bus1 = {
    .name = "bus1",
    .promise = "causal total order, side channels included: block, synchronise, queue",
    .source = "bus1 wiki, Message ordering",
    .claims = BUSQ_CLAIMS_FIFO | BUSQ_CLAIMS_CAUSAL | BUSQ_CLAIMS_CONSISTENT | BUSQ_CLAIMS_TOTAL,
    .traits = BUSQ_ORDER_OUTPUT_BUFFER | BUSQ_ORDER_SIDE_CHANNELS,
    .kinds = kinds,
    .n_kinds = sizeof kinds / sizeof *kinds,
    .options = option_names,
    /* SYNCED touches neither the clock nor the queue; a submit before the last of them would have waited.  QUEUE
     * does not touch the clock either; its message has its place already: a block that comes later stands behind it,
     * for the clock has passed its timestamp, and a block before it has a timestamp above the clock at which it was
     * placed.  The same holds of unicasts that come later.  So deliveries come in the same order. */
    .quiet_always = 1u << SYNCED,
    .quiet_when_all_is_sent = 1u << QUEUE,
    .head_bytes = offsetof(bus1_state, outbox),
    .buffers = {{BUSQ_OUTBOX, .own = true}, {BUSQ_HOLDBACK, .own = true, .others = true}},
    .step = bus1_step, /* no rename: names settle ties */
    .verify = bus1_verify,
    .gauge = bus1_gauge,
};
