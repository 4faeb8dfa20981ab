/* SPDX-License-Identifier: Apache-2.0 */
#include "order/skeen_survivors.h"
#include "queue/holdback.h"
#include "queue/outbox.h"

enum { DATA = BUSQ_SURVIVORS_DATA, PROPOSAL = BUSQ_SURVIVORS_PROPOSAL, FINAL = BUSQ_SURVIVORS_FINAL, FLUSH = BUSQ_SURVIVORS_FLUSH };

/* Behind it an outbox that is not in use, and
 *   queue, a hold-back buffer keyed by the largest proposal that was heard.  Sets, both empty once it is settled: `from` has the
 *   destinations whose proposals were not heard, `note` those that may still send its DATA, and this process. */
typedef struct {
  busq_order_group group;
  uint64_t clock;
  uint32_t n_queued_own; /* Invariant: the messages in the queue that this process sent */
  uint32_t to_tell;      /* after a death: 1 + how many of the queue, from its beginning, others shall hear of; 0: none */
  uint32_t flushed[];    /* n: those that each process suspected when it flushed */
} survivors_state;

size_t busq_survivors_head_size(const busq_order_group *group)
{
  return BUSQ_ALIGN_UP(sizeof(survivors_state) + sizeof(uint32_t) * group->n_processes, 8);
}

static busq_holdback *queue_of(const survivors_state *self)
{
  return busq_outbox_end((busq_outbox *)(void *)((char *)self + busq_survivors_head_size(&self->group)));
}

static uint32_t set_of(uint32_t process)
{
  return 1u << process;
}

static uint64_t larger(uint64_t left, uint64_t right)
{
  return left > right ? left : right;
}

static bool is_own(const survivors_state *self, uint64_t message)
{
  return busq_message_origin(message) == self->group.self;
}

/* Its place in the queue, or beyond the last one. */
static uint32_t find(const survivors_state *self, uint64_t message)
{
  const busq_holdback *queue = queue_of(self);
  uint32_t place = 0;
  while (place < queue->count && busq_holdback_at(queue, place)->message != message)
    place++;
  return place;
}

/* ---- deciding ---- */

static bool have_all_flushed(const survivors_state *self)
{
  const busq_order_group *group = &self->group;
  for (uint32_t process = 0; process < group->n_processes; process++)
    if (process != group->self && !busq_group_suspects(group, process) && group->suspected & ~self->flushed[process])
      return false;
  return true;
}

static bool may_settle(const survivors_state *self, const busq_held_entry *entry)
{
  const uint32_t is_open = entry->note & set_of(self->group.self);
  return is_open && !(entry->note & ~self->group.suspected & ~is_open) && (!entry->from || have_all_flushed(self));
}

static void settle(survivors_state *self, busq_order_effects *effects)
{
  busq_holdback *queue = queue_of(self);
  for (uint32_t place = 0; place < queue->count; place++) {
    busq_held_entry *entry = busq_holdback_at(queue, place);
    if (!may_settle(self, entry))
      continue;
    if (!busq_effects_have_room(effects, 1))
      return;
    entry->from = entry->note = 0;
    self->clock = larger(self->clock, entry->key);
    busq_do_send(effects, BUSQ_TO_DESTINATIONS,
                 (busq_order_packet){.message = entry->message, .stamp = entry->key, .kind = FINAL});
  }
}

static void advance(survivors_state *self, busq_order_effects *effects)
{
  busq_holdback *queue = queue_of(self);
  while (queue->count && !busq_holdback_at(queue, 0)->note && busq_effects_have_room(effects, 2)) {
    const busq_held_entry first = busq_holdback_remove(queue, 0);
    busq_do_deliver(effects, first.message);
    if (!is_own(self, first.message))
      continue;
    self->n_queued_own--;
    busq_do_done(effects, first.message);
  }
}

/* Proposals are handed on before others count on them. */
static void tell(survivors_state *self, busq_order_effects *effects)
{
  for (; self->to_tell > 1 && busq_effects_have_room(effects, 1); self->to_tell--) {
    const busq_held_entry *entry = busq_holdback_at(queue_of(self), self->to_tell - 2);
    if (entry->note)
      busq_do_send(
          effects, BUSQ_TO_DESTINATIONS,
          (busq_order_packet){.message = entry->message, .stamp = entry->key, .note = entry->from, .kind = PROPOSAL});
  }
  if (self->to_tell == 1 && busq_effects_have_room(effects, 1)) {
    self->to_tell = 0;
    busq_do_send(effects, BUSQ_TO_ALL, (busq_order_packet){.note = self->group.suspected, .kind = FLUSH});
  }
}

/* ---- events ---- */

static int submit(survivors_state *self, const busq_order_event *event, busq_order_effects *effects, bool has_timestamps)
{
  const uint64_t message = event->packet.message;
  const uint32_t me = set_of(self->group.self);
  uint32_t others = 0;
  if (self->n_queued_own == self->group.waiting_max)
    return BUSQ_FULL;
  for (uint32_t place = 0; place < event->n_others; place++)
    others |= set_of(event->others[place]);
  const bool proposes = has_timestamps || event->is_for_me;
  self->clock += proposes;
  busq_do_sent(effects, message, NULL);
  if (others)
    busq_do_send(effects, BUSQ_TO_DESTINATIONS,
                 (busq_order_packet){.message = message,
                                     .stamp = proposes ? self->clock : 0,
                                     .note = others | (event->is_for_me ? me : 0),
                                     .kind = DATA});
  if (event->is_for_me) {
    busq_holdback_insert(queue_of(self), (busq_held_entry){.key = self->clock, .message = message, .from = others, .note = others | me});
    self->n_queued_own++;
  } else {
    busq_do_done(effects, message);
  }
  return BUSQ_OK;
}

static int receive_first(survivors_state *self, const busq_order_packet *packet, busq_order_effects *effects, bool has_timestamps)
{
  busq_holdback *queue = queue_of(self);
  const uint32_t me = set_of(self->group.self), heard = set_of(packet->from);
  if (!(packet->note & me) || is_own(self, packet->message))
    return BUSQ_CORRUPT;
  if (queue->count - self->n_queued_own >= self->group.held_max)
    return BUSQ_FULL;
  self->clock = (has_timestamps ? larger(self->clock, packet->stamp) : self->clock) + 1;
  busq_holdback_insert(queue, (busq_held_entry){.key = larger(self->clock, packet->stamp),
                                                .message = packet->message,
                                                .from = packet->note & ~me & ~heard,
                                                .note = (packet->note | set_of(busq_message_origin(packet->message))) & ~heard});
  busq_do_send(effects, BUSQ_TO_DESTINATIONS,
               (busq_order_packet){.message = packet->message, .stamp = self->clock, .note = packet->note, .kind = DATA});
  return BUSQ_OK;
}

static int receive(survivors_state *self, const busq_order_packet *packet, busq_order_effects *effects, bool has_timestamps)
{
  busq_holdback *queue = queue_of(self);
  const uint32_t place = find(self, packet->message);
  busq_held_entry *entry = busq_holdback_at(queue, place);
  if (packet->kind == FLUSH)
    self->flushed[packet->from] = packet->note;
  if (place == queue->count)
    return packet->kind == DATA ? receive_first(self, packet, effects, has_timestamps) : BUSQ_OK;
  if (packet->kind == DATA) {
    entry->from &= ~set_of(packet->from);
    entry->note &= ~set_of(packet->from);
    busq_do_ignore(effects);
  } else {
    entry->from &= packet->note;
  }
  if (packet->stamp > entry->key)
    busq_holdback_rekey(queue, place, packet->stamp);
  return BUSQ_OK;
}

int busq_survivors_step(void *state, const busq_order_event *event, busq_order_effects *effects, bool has_timestamps)
{
  survivors_state *self = state;
  int result = BUSQ_OK;
  if (event->kind == BUSQ_ON_SUBMIT)
    result = submit(self, event, effects, has_timestamps);
  else if (event->kind == BUSQ_ON_RECEIVE)
    result = receive(self, &event->packet, effects, has_timestamps);
  else if (event->kind == BUSQ_ON_SUSPECT)
    self->to_tell = queue_of(self)->count + 1;
  if (result != BUSQ_OK)
    return result;
  tell(self, effects);
  if (!self->to_tell)
    settle(self, effects);
  if (!effects->is_cut)
    advance(self, effects);
  return BUSQ_OK;
}

/* ---- forgetting ---- */

/* Timestamps are compared, and raised above each other.  One in flight that is below all clocks and keys changes none of them. */
uint64_t busq_survivors_rebase(void *const *states, uint32_t n_states, busq_order_packet *packets, uint32_t n_packets)
{
  uint64_t least = UINT64_MAX;
  if (!(((const busq_order_group *)states[0])->options & BUSQ_OPTION_GO_ON))
    return 0;
  for (uint32_t process = 0; process < n_states; process++) {
    const survivors_state *self = states[process];
    const uint64_t first = busq_holdback_least_key(queue_of(self));
    least = self->clock < least ? self->clock : least;
    least = first < least ? first : least;
  }
  const uint64_t base = least ? least - 1 : 0;
  for (uint32_t process = 0; process < n_states && base; process++) {
    survivors_state *self = states[process];
    self->clock -= base;
    busq_holdback_lower(queue_of(self), base);
  }
  for (uint32_t place = 0; place < n_packets && base; place++)
    packets[place].stamp -= packets[place].stamp < base ? packets[place].stamp : base;
  return base;
}

/* ---- looking ---- */

bool busq_survivors_verify(const void *state)
{
  const survivors_state *self = state;
  const busq_holdback *queue = queue_of(self);
  uint32_t n_queued_own = 0;
  for (uint32_t place = 0; place < queue->count; place++) {
    const busq_held_entry *entry = busq_holdback_at(queue, place);
    n_queued_own += is_own(self, entry->message);
    if (entry->from & ~entry->note || (!entry->note && entry->key > self->clock))
      return false;
  }
  return !self->to_tell && n_queued_own == self->n_queued_own && queue->count - n_queued_own <= self->group.held_max;
}

void busq_survivors_gauge(const void *state, busq_order_gauge *gauge)
{
  const survivors_state *self = state;
  *gauge = (busq_order_gauge){.waiting = self->n_queued_own, .held = queue_of(self)->count - self->n_queued_own};
}
