/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders "lamport" and "lamport-literal": timestamps and acknowledgements (Garg 12.3.2).  Everything is a broadcast;
 * what is not meant for a process is ordered there like the rest, and ignored when its turn comes.
 *
 *   submit m:               tick the clock; queue m under (clock, self); send DATA(m, clock) to all
 *   receive DATA(m, t):     clock = max(clock, t) + 1; queue m under (t, sender); send ACK(m, clock) to the sender
 *   all ACKs of m are in and m is the first of the queue, at its sender:   send RELEASE(m) to all; deliver m
 *   receive RELEASE(m):     mark m
 *   the first of the queue is marked:   deliver it
 *
 * Guarantee: causal total order, that of (timestamp, sender); needs channels that keep the order.
 *
 * Why a marked message may go when it is the first.  Let m, of s, be marked at r, and m' be smaller.  (1) s had
 * received m' when it released m: an ACK of m' s sender shows that its clock has passed m, so whatever it sent with a
 * smaller timestamp was sent before the ACK and came before it.  (2) m' was no longer in the queue of s, or m would not
 * have been the first; so m' was released, which takes an ACK of r: r had received m' before.  (3) So at r, too, m' is
 * in the queue, and m is not the first of it, or delivered.  That is why the mark alone does not do: the two RELEASEs
 * come from different processes, over different channels, and the one of m may come first.
 *
 * The order is causal since clocks follow causality: a process that has delivered m, or sent it, has a clock not below
 * m's.
 *
 * Packets: 3 (n - 1) per message.
 *
 * With the option ack=all an ACK goes to all and there is no RELEASE: the first of the queue, with timestamp t, is
 * delivered when something with a timestamp of t or more was heard from every process; what that process sends from
 * then on sorts behind.  Packets: n (n - 1) per message, one hop less.
 *
 * With the option on_crash=go-on, the same; but the ACK of m to all is m itself, DATA(m, t) from a process that has it now,
 * and the living decide without the dead:
 *
 *   suspect p:              send FLUSH(all that are suspected) to all
 *   deliver the first, t:   when something with a timestamp of t or more was heard from every process that is not suspected, and each
 *                           of them has flushed, suspecting all that this process does
 *
 * One that has flushed has sent on all that it will ever get from those that are suspected, and channels keep the order: so
 * nothing smaller of the dead can come any more.  What any process delivers it has handed to all before; hence, uniformly,
 * the others deliver it, and in its place.  Packets: n (n - 1) per message.
 *
 * "lamport-literal" takes the chapter's fourth rule to the letter: "On receiving this notification, the corresponding
 * message is delivered", whatever stands before it in the queue.  It claims what the chapter claims, and breaks it from
 * three processes on.
 *
 * Not given: anything without FIFO channels, or silence of processes that are not concerned: every process works for
 * every message.
 *
 * Proven without a bound: busq/lab/proof/models/lamport.py and lamport_release.py.
 */
#include "order/order.h"
#include "queue/holdback.h"
#include "queue/outbox.h"

enum { DATA, ACK, RELEASE, FLUSH };
enum { FOR_ME = 1, RELEASED = 2 }; /* the note of what is queued */

static const busq_order_kind kinds[] = {{"data", true}, {"ack", false}, {"release", false}, {"flush", false}};
static const busq_order_option_name option_names[] = {
    {"ack=all", BUSQ_OPTION_ACK_ALL, false}, {"on_crash=go-on", BUSQ_OPTION_GO_ON, true}, {NULL, 0, false}};

/* Behind it, one after the other:
 *   heard, with ack=all or on_crash=go-on: by process, the largest timestamp that came from it;
 *   with on_crash=go-on, by process, those that it suspected when it flushed, and then the last of its messages that has come;
 *   mine, an outbox: one's own messages in the queue, oldest first; `stamp` is the timestamp, `to` how many ACKs are missing;
 *   queue, a hold-back buffer keyed by timestamp, all messages; names begin with the sender, so they settle ties. */
typedef struct {
  busq_order_group group;
  uint64_t clock;
  uint32_t is_literal;
  uint32_t unused;
  uint64_t heard[];
} lamport_state;

static bool goes_on(const busq_order_group *group)
{
  return group->options & BUSQ_OPTION_GO_ON;
}

static bool is_ack_all(const busq_order_group *group)
{
  return group->options & (BUSQ_OPTION_ACK_ALL | BUSQ_OPTION_GO_ON);
}

static size_t mine_offset(const busq_order_group *group)
{
  const size_t n_words = goes_on(group) ? 3 : is_ack_all(group);
  return sizeof(lamport_state) + n_words * group->n_processes * sizeof(uint64_t);
}

static uint64_t *flushed_of(lamport_state *self, uint32_t process)
{
  return &self->heard[self->group.n_processes + process];
}

static uint64_t *come_of(lamport_state *self, uint32_t process)
{
  return &self->heard[2 * self->group.n_processes + process];
}

static busq_outbox *mine_of(const lamport_state *self)
{
  return (busq_outbox *)((char *)self + mine_offset(&self->group));
}

static busq_holdback *queue_of(const lamport_state *self)
{
  return busq_outbox_end(mine_of(self));
}

static void literal_init(void *state)
{
  ((lamport_state *)state)->is_literal = 1;
}

/* While no process is suspected, each has flushed. */
static bool is_heard_from_all(lamport_state *self, uint64_t timestamp)
{
  const busq_order_group *group = &self->group;
  for (uint32_t process = 0; process < group->n_processes; process++)
    if (process != group->self && !busq_group_suspects(group, process) &&
        (self->heard[process] < timestamp || (group->suspected && group->suspected & ~*flushed_of(self, process))))
      return false;
  return true;
}

static bool is_deliverable(lamport_state *self, const busq_held_entry *first)
{
  if (is_ack_all(&self->group))
    return is_heard_from_all(self, first->key);
  /* One's own messages have ascending timestamps: the first in the queue is the oldest of mine. */
  return first->from == self->group.self ? busq_outbox_at(mine_of(self), 0)->to == 0 : first->note & RELEASED;
}

static void deliver_from_place(lamport_state *self, uint32_t place, busq_order_effects *effects)
{
  const busq_held_entry entry = busq_holdback_remove(queue_of(self), place);
  if (entry.note & FOR_ME)
    busq_do_deliver(effects, entry.message);
  else if (entry.from != self->group.self)
    busq_do_drop(effects, entry.message);
  if (entry.from != self->group.self)
    return;
  busq_outbox_pop(mine_of(self));
  busq_do_done(effects, entry.message);
}

static void advance(lamport_state *self, busq_order_effects *effects)
{
  const busq_holdback *queue = queue_of(self);
  while (queue->count && is_deliverable(self, busq_holdback_at(queue, 0)) && busq_effects_have_room(effects, 3)) {
    const busq_held_entry *first = busq_holdback_at(queue, 0);
    if (first->from == self->group.self && !is_ack_all(&self->group) && self->group.n_processes > 1)
      busq_do_send(effects, BUSQ_TO_ALL,
                   (busq_order_packet){.message = first->message, .stamp = first->key, .kind = RELEASE});
    deliver_from_place(self, 0, effects);
  }
}

static int submit(lamport_state *self, const busq_order_event *event, busq_order_effects *effects)
{
  const uint64_t message = event->packet.message;
  if (busq_outbox_is_full(mine_of(self)))
    return BUSQ_FULL;
  self->clock++;
  if (goes_on(&self->group))
    *come_of(self, self->group.self) = busq_message_number(message);
  busq_outbox_push(mine_of(self),
                   (busq_outbox_entry){.message = message, .stamp = self->clock, .to = self->group.n_processes - 1});
  busq_holdback_insert(queue_of(self), (busq_held_entry){.key = self->clock,
                                                         .message = message,
                                                         .from = self->group.self,
                                                         .note = event->is_for_me ? FOR_ME : 0});
  busq_do_sent(effects, message, NULL);
  if (self->group.n_processes > 1)
    busq_do_send(effects, BUSQ_TO_ALL, (busq_order_packet){.message = message, .stamp = self->clock, .kind = DATA});
  return BUSQ_OK;
}

static void note_heard(lamport_state *self, const busq_order_packet *packet)
{
  if (is_ack_all(&self->group) && packet->stamp > self->heard[packet->from])
    self->heard[packet->from] = packet->stamp;
}

static void hear(lamport_state *self, const busq_order_packet *packet)
{
  self->clock = (packet->stamp > self->clock ? packet->stamp : self->clock) + 1;
  note_heard(self, packet);
}

/* Whether another process has sent it on before. */
static bool has_come(lamport_state *self, const busq_order_packet *packet, busq_order_effects *effects)
{
  if (!goes_on(&self->group) || busq_message_number(packet->message) > *come_of(self, busq_message_origin(packet->message)))
    return false;
  busq_do_ignore(effects);
  return true;
}

static int receive_data(lamport_state *self, const busq_order_event *event, busq_order_effects *effects)
{
  const busq_order_packet *packet = &event->packet;
  const uint32_t origin = busq_message_origin(packet->message);
  busq_holdback *queue = queue_of(self);
  if (has_come(self, packet, effects)) {
    note_heard(self, packet);
    return BUSQ_OK;
  }
  if (queue->count - mine_of(self)->count >= self->group.held_max)
    return BUSQ_FULL;
  hear(self, packet);
  busq_holdback_insert(queue, (busq_held_entry){.key = packet->stamp,
                                                .message = packet->message,
                                                .from = origin,
                                                .note = event->is_for_me ? FOR_ME : 0});
  if (goes_on(&self->group)) {
    *come_of(self, origin) = busq_message_number(packet->message);
    busq_do_send(effects, BUSQ_TO_ALL,
                 (busq_order_packet){.message = packet->message, .stamp = packet->stamp, .kind = DATA});
    return BUSQ_OK;
  }
  busq_do_send(effects, is_ack_all(&self->group) ? BUSQ_TO_ALL : packet->from,
               (busq_order_packet){.message = packet->message, .stamp = self->clock, .kind = ACK});
  return BUSQ_OK;
}

static void receive_ack(lamport_state *self, const busq_order_packet *packet)
{
  busq_outbox *mine = mine_of(self);
  hear(self, packet);
  for (uint32_t place = 0; place < mine->count; place++) {
    busq_outbox_entry *entry = busq_outbox_at(mine, place);
    if (entry->message == packet->message) {
      entry->to -= entry->to > 0;
      return;
    }
  }
}

/* Its stamp is the message's own, so that the message is found. */
static void receive_release(lamport_state *self, const busq_order_packet *packet, busq_order_effects *effects)
{
  busq_holdback *queue = queue_of(self);
  const uint32_t place = busq_holdback_find(queue, packet->stamp, packet->message);
  if (place == queue->count || busq_holdback_at(queue, place)->from != packet->from)
    return;
  busq_holdback_at(queue, place)->note |= RELEASED;
  if (self->is_literal)
    deliver_from_place(self, place, effects);
}

static int receive_flush(lamport_state *self, const busq_order_packet *packet)
{
  if (!goes_on(&self->group))
    return BUSQ_CORRUPT;
  *flushed_of(self, packet->from) = packet->note;
  return BUSQ_OK;
}

static int lamport_step(void *state, const busq_order_event *event, busq_order_effects *effects)
{
  lamport_state *self = state;
  int result = BUSQ_OK;
  if (event->kind == BUSQ_ON_SUBMIT)
    result = submit(self, event, effects);
  else if (event->kind == BUSQ_ON_RECEIVE && event->packet.kind == DATA)
    result = receive_data(self, event, effects);
  else if (event->kind == BUSQ_ON_RECEIVE && event->packet.kind == ACK)
    receive_ack(self, &event->packet);
  else if (event->kind == BUSQ_ON_RECEIVE && event->packet.kind == FLUSH)
    result = receive_flush(self, &event->packet);
  else if (event->kind == BUSQ_ON_RECEIVE)
    receive_release(self, &event->packet, effects);
  else if (event->kind == BUSQ_ON_SUSPECT)
    busq_do_send(effects, BUSQ_TO_ALL, (busq_order_packet){.note = self->group.suspected, .kind = FLUSH});
  if (result == BUSQ_OK)
    advance(self, effects);
  return result;
}

/* Timestamps are compared, and raised above each other.  One that was heard counts as nothing where it is below all that may be
 * compared with it. */
static uint64_t lamport_rebase(void *const *states, uint32_t n_states, busq_order_packet *packets, uint32_t n_packets)
{
  uint64_t least = UINT64_MAX;
  if (!goes_on(states[0]))
    return 0;
  for (uint32_t process = 0; process < n_states; process++) {
    const lamport_state *self = states[process];
    const uint64_t first = busq_holdback_least_key(queue_of(self));
    least = self->clock < least ? self->clock : least;
    least = first < least ? first : least;
  }
  for (uint32_t place = 0; place < n_packets; place++)
    if (packets[place].kind == DATA && packets[place].stamp < least)
      least = packets[place].stamp;
  const uint64_t base = least ? least - 1 : 0;
  for (uint32_t process = 0; process < n_states && base; process++) {
    lamport_state *self = states[process];
    self->clock -= base;
    for (uint32_t other = 0; other < self->group.n_processes; other++)
      self->heard[other] -= self->heard[other] < base ? self->heard[other] : base;
    for (uint32_t place = 0; place < mine_of(self)->count; place++)
      busq_outbox_at(mine_of(self), place)->stamp -= base;
    busq_holdback_lower(queue_of(self), base);
  }
  for (uint32_t place = 0; place < n_packets && base; place++)
    packets[place].stamp -= packets[place].kind == DATA ? base : 0;
  return base;
}

/* Every message of one's own stands in both buffers, and in the same order; the clock has passed everything seen. */
static bool lamport_verify(const void *state)
{
  const lamport_state *self = state;
  busq_outbox *mine = mine_of(self);
  const busq_holdback *queue = queue_of(self);
  if (queue->count < mine->count || queue->count - mine->count > self->group.held_max)
    return false;
  uint32_t n_mine = 0;
  for (uint32_t place = 0; place < queue->count; place++) {
    const busq_held_entry *entry = busq_holdback_at(queue, place);
    if (entry->key > self->clock)
      return false;
    if (entry->from != self->group.self)
      continue;
    if (n_mine == mine->count || busq_outbox_at(mine, n_mine)->message != entry->message ||
        busq_outbox_at(mine, n_mine)->stamp != entry->key ||
        busq_outbox_at(mine, n_mine)->to >= self->group.n_processes)
      return false;
    n_mine++;
  }
  for (uint32_t process = 0; is_ack_all(&self->group) && process < self->group.n_processes; process++)
    if (self->heard[process] > self->clock)
      return false;
  return n_mine == mine->count;
}

static void lamport_gauge(const void *state, busq_order_gauge *gauge)
{
  const lamport_state *self = state;
  const uint32_t waiting = mine_of(self)->count;
  *gauge = (busq_order_gauge){.waiting = waiting, .held = queue_of(self)->count - waiting};
}

const busq_order busq_order_lamport = {
    .name = "lamport",
    .promise = "causal total order, by timestamps and acknowledgements",
    .source = "Garg, section 12.3.2",
    .claims = BUSQ_CLAIMS_FIFO | BUSQ_CLAIMS_CAUSAL | BUSQ_CLAIMS_CONSISTENT | BUSQ_CLAIMS_TOTAL,
    .traits = BUSQ_ORDER_FIFO_CHANNELS | BUSQ_ORDER_WHOLE_GROUP,
    .crashes_go_on = BUSQ_CRASH_VALIDITY | BUSQ_CRASH_AGREEMENT | BUSQ_CRASH_UNIFORM | BUSQ_CRASH_GOES_ON,
    .kinds = kinds,
    .n_kinds = sizeof kinds / sizeof *kinds,
    .options = option_names,
    .silent_always = 1u << DATA | 1u << FLUSH,
    .head_size = mine_offset,
    .buffers = {{BUSQ_OUTBOX, .own = true}, {BUSQ_HOLDBACK, .own = true, .others = true}},
    .step = lamport_step, /* no rename: names settle ties.  Nothing is quiet: clocks count every DATA and ACK. */
    .rebase = lamport_rebase,
    .verify = lamport_verify,
    .gauge = lamport_gauge,
};

const busq_order busq_order_lamport_literal = {
    .name = "lamport-literal",
    .promise = "causal total order, says the chapter: delivered on release, whatever stands before",
    .source = "Garg, section 12.3.2, the fourth rule to the letter",
    .claims = BUSQ_CLAIMS_FIFO | BUSQ_CLAIMS_CAUSAL | BUSQ_CLAIMS_CONSISTENT | BUSQ_CLAIMS_TOTAL,
    .traits = BUSQ_ORDER_FIFO_CHANNELS | BUSQ_ORDER_WHOLE_GROUP | BUSQ_ORDER_LABORATORY,
    .kinds = kinds,
    .n_kinds = sizeof kinds / sizeof *kinds,
    .head_size = mine_offset,
    .buffers = {{BUSQ_OUTBOX, .own = true}, {BUSQ_HOLDBACK, .own = true, .others = true}},
    .init = literal_init,
    .step = lamport_step, /* no rename: names settle ties.  Nothing is quiet: clocks count every DATA and ACK. */
    .verify = lamport_verify,
    .gauge = lamport_gauge,
};
