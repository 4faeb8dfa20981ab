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
 * With nodes=one, for the laboratory, messages have to do with nodes of process 0, their owner.  The applications of the laboratory
 * know nothing of nodes, so it is from its place that a message has its part:
 *
 *   of process 0        the handle of its node; one with an even number that goes to all others ends the node, and the next
 *                       message has the handle of the next one
 *   of another process  the handle of the last node whose handle has come to it, unless it knows of the end; otherwise none
 *
 * A message with a handle is one to the node where process 0 gets it, and brings the handle to any other.
 *
 *   the first of the queue is an end:            the node has ended here.  A holder gets it, as does the owner; others pass it over
 *   it has the handle of a node that has ended:  the owner passes it over; at others it is delivered, with a dead handle
 *
 * An end is a multicast from the owner's clock, with a place in the owner's queue, destination or not.  So whatever has the node's
 * handle stands before it everywhere, or behind it everywhere: it is to a node that is valid, or to one that was destroyed, whatever
 * its sender knew; and no handle comes behind the notice of its end.
 *
 * A process sends one multicast at a time, since the calls that these messages stand for return when they are done.
 * Further ones wait.  The payload travels with the last step, for it is not needed before.  QUEUE is not answered: a
 * block stays until it has come, and the clock behind it was synchronised.
 *
 * Packets: 5 per destination other than the sender; a message to oneself takes none, a direct unicast 2.
 *
 * Not given: that an end goes to holders alone.  In shared memory it does, for there the holders are written down, and the list grows
 * while the end is decided; here destinations never change, and a handle may be on its way to any process.
 *
 * Nor speed.  Three round trips lie between a send and its end, where shared memory needs a few instructions.
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
                                                      {"nodes=one", BUSQ_OPTION_NODES, true},
                                                      {NULL, 0, false}};

/* At its end and behind it:
 *   outbox: one's own messages that were not queued at their destinations so far; `to` is the number of other destinations,
 *   `note` whether this process is one too, or has it in its queue all the same.  Unless the phase is IDLE the first one is
 *   under way, and `stamp` is its part;
 *   queue, a hold-back buffer: a message of timestamp T has the key 2T, and its part as its note; a block behind the clock C has
 *   the key 2C + 1. */
typedef struct {
  busq_order_group group;
  uint64_t clock;
  uint64_t timestamp; /* COLLECTING: the largest clock so far; SYNCING: T, or 0 of a direct unicast */
  uint32_t phase;
  uint32_t n_missing;    /* answers */
  uint32_t n_unfinished; /* Invariant: at most waiting_max; those in the outbox, and one's own that are queued here */
  uint32_t n_queued_own; /* Invariant: messages and blocks in the queue that are this process's own */
  uint32_t node;  /* whose handle has come last; of the owner, how many it has ended */
  uint32_t ended; /* the last node that has ended here */
  busq_outbox outbox;
} bus1_state;

static busq_holdback *queue_of(const bus1_state *self)
{
  return busq_outbox_end(&self->outbox);
}

/* ---- the queue ---- */

/* In the note of a message of one's own: for the outbox, and, in the queue, besides its part. */
enum { FOR_ME = 1, IN_QUEUE = 2 };
#define NOT_FOR_ME (UINT32_C(1) << 31)

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

static void replace_block(bus1_state *self, uint64_t message, uint32_t from, uint64_t timestamp, uint32_t note)
{
  busq_holdback *queue = queue_of(self);
  uint32_t place = 0;
  while (place < queue->count && !is_block_of(busq_holdback_at(queue, place), message, from))
    place++;
  if (place == queue->count)
    return;
  busq_holdback_at(queue, place)->note = note;
  busq_holdback_rekey(queue, place, 2 * timestamp);
}

static void finish(bus1_state *self, uint64_t message, busq_order_effects *effects)
{
  busq_do_done(effects, message);
  self->n_unfinished--;
}

static bool is_owner(const bus1_state *self)
{
  return self->group.self == BUSQ_NODE_OWNER;
}

/* Decides about a message with this part, whose turn it is. */
static busq_node_fate meet_node(bus1_state *self, uint32_t part)
{
  const uint32_t node = busq_node_of(part);
  if (!node)
    return BUSQ_NODE_TAKEN;
  if (busq_node_is_end(part)) {
    self->ended = node;
    return is_owner(self) || self->node == node ? BUSQ_NODE_TAKEN : BUSQ_NODE_PASSED;
  }
  if (node <= self->ended)
    return is_owner(self) ? BUSQ_NODE_PASSED : BUSQ_NODE_DEAD;
  if (!is_owner(self))
    self->node = node;
  return BUSQ_NODE_TAKEN;
}

static void dequeue(bus1_state *self, busq_order_effects *effects)
{
  busq_holdback *queue = queue_of(self);
  while (queue->count && !is_block(busq_holdback_at(queue, 0)) && busq_effects_have_room(effects, 2)) {
    const busq_held_entry first = busq_holdback_remove(queue, 0);
    const busq_node_fate fate = meet_node(self, first.note & ~NOT_FOR_ME);
    if (!(first.note & NOT_FOR_ME))
      busq_effects_add(effects, BUSQ_DO_DELIVER, first.message)->packet.note = fate;
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

/* Sends a packet that brings the message, and so its part. */
static void bring_to_destinations(uint32_t kind, const busq_outbox_entry *entry, uint64_t stamp, busq_order_effects *effects)
{
  busq_do_send(effects, BUSQ_TO_DESTINATIONS,
               (busq_order_packet){.message = entry->message, .stamp = stamp, .note = (uint32_t)entry->stamp, .kind = kind});
}

/* Gives the message that is to be started its part. */
static void give_part(bus1_state *self, busq_outbox_entry *entry)
{
  const bool goes_to_all_others = entry->to + 1 == self->group.n_processes;
  const bool is_end = is_owner(self) && goes_to_all_others && busq_message_number(entry->message) % 2 == 0;
  const uint32_t held = self->node > self->ended ? self->node : 0;
  entry->stamp = busq_node_part(is_owner(self) ? self->node + 1 : held, is_end);
  if (!is_end)
    return;
  entry->note |= IN_QUEUE;
  self->node++;
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
    bring_to_destinations(QUEUE, &first, self->timestamp, effects);
  if (first.note)
    replace_block(self, first.message, self->group.self, self->timestamp,
                  (uint32_t)first.stamp | (first.note & FOR_ME ? 0 : NOT_FOR_ME));
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
    bring_to_destinations(UNICAST, first, 0, effects);
  else
    send_to_destinations(BLOCK, first->message, tells_estimate ? self->clock : 0, effects);
}

static bool start_next(bus1_state *self, busq_order_effects *effects)
{
  busq_outbox *outbox = &self->outbox;
  if (self->phase != IDLE || !outbox->count || !busq_effects_have_room(effects, 2))
    return false;
  busq_outbox_entry *first = busq_outbox_at(outbox, 0);
  if (self->group.options & BUSQ_OPTION_NODES)
    give_part(self, first);
  busq_effects_add(effects, BUSQ_DO_SENT, first->message)->packet.note = (uint32_t)first->stamp;
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
                                                         .from = packet->from,
                                                         .note = packet->note});
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
    replace_block(self, packet->message, packet->from, packet->stamp, packet->note);
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
