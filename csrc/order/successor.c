/* SPDX-License-Identifier: Apache-2.0 */
#include "order/successor.h"
#include "queue/holdback.h"
#include "queue/outbox.h"

enum { DATA = BUSQ_SUCCESSOR_DATA, REQUEST = BUSQ_SUCCESSOR_REQUEST, FLUSH = BUSQ_SUCCESSOR_FLUSH, GO = BUSQ_SUCCESSOR_GO };
enum { NONE = UINT32_MAX };

/* Behind it: messages of one's own that are not done, and what came too early, by its number.
 * Invariants: passed <= known; asked <= what the outbox holds; only the coordinator is_active. */
typedef struct {
  busq_order_group group;
  uint64_t passed; /* the last number that was delivered here, or passed over */
  uint64_t known;  /* the highest number that was given, as far as is known here */
  uint32_t coordinator; /* which takes requests; NONE: there is none so far */
  uint32_t is_active;   /* this process gives numbers */
  uint32_t asked;       /* so many of the outbox were sent to the coordinator, or numbered */
  uint32_t unused;
  uint32_t words[]; /* n: of each process, the last of its messages that has a number; n: those that it suspected when it flushed */
} successor_state;

size_t busq_successor_head_size(const busq_order_group *group)
{
  if (!(group->options & BUSQ_OPTION_GO_ON))
    return sizeof *group;
  return BUSQ_ALIGN_UP(sizeof(successor_state) + 2 * sizeof(uint32_t) * group->n_processes, 8);
}

static busq_outbox *outbox_of(const successor_state *self)
{
  return (busq_outbox *)(void *)((char *)self + busq_successor_head_size(&self->group));
}

static busq_holdback *held_of(const successor_state *self)
{
  return busq_outbox_end(outbox_of(self));
}

static uint32_t *numbered_of(successor_state *self, uint32_t process)
{
  return &self->words[process];
}

static uint32_t *flushed_of(successor_state *self, uint32_t process)
{
  return &self->words[self->group.n_processes + process];
}

void busq_successor_init(void *state)
{
  successor_state *self = state;
  if (self->group.options & BUSQ_OPTION_GO_ON)
    self->is_active = self->group.self == 0;
}

/* ---- numbers ---- */

static void pass(successor_state *self, uint64_t message, bool is_for_me, busq_order_effects *effects)
{
  self->passed++;
  if (is_for_me)
    busq_do_deliver(effects, message);
  if (busq_message_origin(message) != self->group.self)
    return;
  busq_outbox_pop(outbox_of(self));
  self->asked -= self->asked > 0;
  busq_do_done(effects, message);
}

/* Gives it the next number, by the coordinator, which has passed all others. */
static void number(successor_state *self, uint64_t message, bool is_for_me, busq_order_effects *effects)
{
  ++*numbered_of(self, busq_message_origin(message));
  busq_do_send(effects, BUSQ_TO_ALL, (busq_order_packet){.message = message, .stamp = ++self->known, .kind = DATA});
  pass(self, message, is_for_me, effects);
}

/* Numbers messages of one's own, or asks for it; an entry's note is whether it is for this process. */
static void ask(successor_state *self, busq_order_effects *effects)
{
  busq_outbox *outbox = outbox_of(self);
  while (self->is_active && outbox->count && busq_effects_have_room(effects, 3))
    number(self, busq_outbox_at(outbox, 0)->message, busq_outbox_at(outbox, 0)->note, effects);
  while (!self->is_active && self->coordinator != NONE && self->asked < outbox->count &&
         busq_effects_have_room(effects, 1)) {
    const uint64_t message = busq_outbox_at(outbox, self->asked++)->message;
    busq_do_send(effects, self->coordinator, (busq_order_packet){.message = message, .kind = REQUEST});
  }
}

static void pass_in_turn(successor_state *self, busq_order_effects *effects)
{
  busq_holdback *held = held_of(self);
  while (held->count && busq_holdback_at(held, 0)->key == self->passed + 1 && busq_effects_have_room(effects, 2)) {
    const busq_held_entry next = busq_holdback_remove(held, 0);
    pass(self, next.message, next.note, effects);
  }
}

/* ---- events ---- */

static int submit(successor_state *self, const busq_order_event *event, busq_order_effects *effects)
{
  busq_outbox *outbox = outbox_of(self);
  if (busq_outbox_is_full(outbox))
    return BUSQ_FULL;
  busq_do_sent(effects, event->packet.message, NULL);
  busq_outbox_push(outbox, (busq_outbox_entry){.message = event->packet.message, .note = event->is_for_me});
  return BUSQ_OK;
}

static int receive_data(successor_state *self, const busq_order_event *event, busq_order_effects *effects)
{
  const busq_order_packet *packet = &event->packet;
  busq_holdback *held = held_of(self);
  const uint32_t origin = busq_message_origin(packet->message), last = busq_message_number(packet->message);
  if (packet->stamp <= self->passed || busq_holdback_find(held, packet->stamp, packet->message) < held->count) {
    busq_do_ignore(effects);
    return BUSQ_OK;
  }
  if (busq_holdback_is_full(held))
    return BUSQ_FULL;
  if (self->is_active)
    return BUSQ_CORRUPT;
  busq_holdback_insert(
      held, (busq_held_entry){.key = packet->stamp, .message = packet->message, .from = origin, .note = event->is_for_me});
  self->known = packet->stamp > self->known ? packet->stamp : self->known;
  *numbered_of(self, origin) = last > *numbered_of(self, origin) ? last : *numbered_of(self, origin);
  busq_do_send(effects, BUSQ_TO_ALL, (busq_order_packet){.message = packet->message, .stamp = packet->stamp, .kind = DATA});
  return BUSQ_OK;
}

static void receive_request(successor_state *self, const busq_order_event *event, busq_order_effects *effects)
{
  const uint64_t message = event->packet.message;
  const bool is_next = busq_message_number(message) == *numbered_of(self, busq_message_origin(message)) + 1;
  if (self->is_active && is_next)
    number(self, message, event->is_for_me, effects);
  else
    busq_do_ignore(effects);
}

static uint32_t next_coordinator(const busq_order_group *group)
{
  uint32_t process = 0;
  while (busq_group_suspects(group, process))
    process++;
  return process;
}

/* Becomes the coordinator, where it is its turn and nothing of its predecessors can turn up any more. */
static void take_over(successor_state *self, busq_order_effects *effects)
{
  const busq_order_group *group = &self->group;
  if (self->is_active || !group->suspected || next_coordinator(group) != group->self || self->passed < self->known)
    return;
  for (uint32_t process = 0; process < group->n_processes; process++)
    if (process != group->self && !busq_group_suspects(group, process) &&
        group->suspected & ~*flushed_of(self, process))
      return;
  if (!busq_effects_have_room(effects, 1))
    return;
  self->is_active = 1;
  self->coordinator = group->self;
  busq_do_send(effects, BUSQ_TO_ALL, (busq_order_packet){.kind = GO});
}

static void suspect(successor_state *self, uint32_t dead, busq_order_effects *effects)
{
  const uint32_t next = next_coordinator(&self->group);
  if (self->coordinator == dead) {
    self->coordinator = NONE;
    self->asked = 0;
  }
  if (next && next != self->group.self)
    busq_do_send(effects, next, (busq_order_packet){.note = self->group.suspected, .kind = FLUSH});
}

static int receive(successor_state *self, const busq_order_event *event, busq_order_effects *effects)
{
  const busq_order_packet *packet = &event->packet;
  if (packet->kind == DATA)
    return receive_data(self, event, effects);
  if (packet->kind == REQUEST)
    receive_request(self, event, effects);
  if (packet->kind == FLUSH)
    *flushed_of(self, packet->from) = packet->note;
  if (packet->kind == GO) {
    self->coordinator = packet->from;
    self->asked = 0;
  }
  return BUSQ_OK;
}

int busq_successor_step(void *state, const busq_order_event *event, busq_order_effects *effects)
{
  successor_state *self = state;
  int result = BUSQ_OK;
  if (event->kind == BUSQ_ON_SUBMIT)
    result = submit(self, event, effects);
  else if (event->kind == BUSQ_ON_RECEIVE)
    result = receive(self, event, effects);
  else if (event->kind == BUSQ_ON_SUSPECT)
    suspect(self, event->packet.from, effects);
  if (result != BUSQ_OK)
    return result;
  pass_in_turn(self, effects);
  take_over(self, effects);
  ask(self, effects);
  return BUSQ_OK;
}

/* ---- looking ---- */

bool busq_successor_verify(const void *state)
{
  const successor_state *self = state;
  if (!(self->group.options & BUSQ_OPTION_GO_ON))
    return true;
  const bool is_first = self->group.self == next_coordinator(&self->group);
  return self->passed <= self->known && self->asked <= outbox_of(self)->count && self->is_active <= is_first &&
         !self->unused;
}

void busq_successor_gauge(const void *state, busq_order_gauge *gauge)
{
  const successor_state *self = state;
  if (self->group.options & BUSQ_OPTION_GO_ON)
    *gauge = (busq_order_gauge){.waiting = outbox_of(self)->count, .held = held_of(self)->count};
}
