/* SPDX-License-Identifier: Apache-2.0 */
#include "order/sequencer_successor.h"
#include "queue/outbox.h"

enum { DATA = BUSQ_SUCCESSOR_DATA, REQUEST = BUSQ_SUCCESSOR_REQUEST, FLUSH = BUSQ_SUCCESSOR_FLUSH, GO = BUSQ_SUCCESSOR_GO };

/* Behind it: messages of one's own that are not done.  Invariant: asked <= what the outbox holds. */
typedef struct {
  busq_order_group group;
  uint64_t passed;      /* the last number that was delivered here, or passed over */
  uint32_t coordinator; /* which takes requests, as far as is known here; oneself: this process gives numbers */
  uint32_t asked;       /* so many of the outbox were sent to the coordinator */
  uint32_t flushed[];   /* n: those that each process suspected when it flushed */
} successor_state;

size_t busq_successor_head_size(const busq_order_group *group)
{
  if (!(group->options & BUSQ_OPTION_GO_ON))
    return sizeof *group;
  return BUSQ_ALIGN_UP(sizeof(successor_state) + sizeof(uint32_t) * group->n_processes, 8);
}

static busq_outbox *outbox_of(const successor_state *self)
{
  return (busq_outbox *)(void *)((char *)self + busq_successor_head_size(&self->group));
}

static bool gives_numbers(const successor_state *self)
{
  return self->coordinator == self->group.self;
}

/* ---- numbers ---- */

/* Hands a message with the next number to all, and only then delivers it. */
static void pass(successor_state *self, uint64_t message, bool is_for_me, busq_order_effects *effects)
{
  busq_do_send(effects, BUSQ_TO_ALL, (busq_order_packet){.message = message, .stamp = ++self->passed, .kind = DATA});
  if (is_for_me)
    busq_do_deliver(effects, message);
  if (busq_message_origin(message) != self->group.self)
    return;
  busq_outbox_pop(outbox_of(self));
  self->asked -= self->asked > 0;
  busq_do_done(effects, message);
}

/* Numbers messages of one's own, or asks for it; an entry's note is whether it is for this process. */
static void ask(successor_state *self, busq_order_effects *effects)
{
  busq_outbox *outbox = outbox_of(self);
  while (gives_numbers(self) && outbox->count && busq_effects_have_room(effects, 3))
    pass(self, busq_outbox_at(outbox, 0)->message, busq_outbox_at(outbox, 0)->note, effects);
  while (!gives_numbers(self) && self->asked < outbox->count && busq_effects_have_room(effects, 1)) {
    const uint64_t message = busq_outbox_at(outbox, self->asked++)->message;
    busq_do_send(effects, self->coordinator, (busq_order_packet){.message = message, .kind = REQUEST});
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

/* Channels keep the order, and a process that sends a number on has sent on those before it. */
static int receive_data(successor_state *self, const busq_order_event *event, busq_order_effects *effects)
{
  if (event->packet.stamp > self->passed + 1 || (gives_numbers(self) && event->packet.stamp > self->passed))
    return BUSQ_CORRUPT;
  if (event->packet.stamp <= self->passed)
    busq_do_ignore(effects);
  else
    pass(self, event->packet.message, event->is_for_me, effects);
  return BUSQ_OK;
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
  if (gives_numbers(self) || next_coordinator(group) != group->self || !busq_effects_have_room(effects, 1))
    return;
  for (uint32_t process = 0; process < group->n_processes; process++)
    if (process != group->self && !busq_group_suspects(group, process) && group->suspected & ~self->flushed[process])
      return;
  self->coordinator = group->self;
  busq_do_send(effects, BUSQ_TO_ALL, (busq_order_packet){.kind = GO});
}

static void suspect(const busq_order_group *group, busq_order_effects *effects)
{
  const uint32_t next = next_coordinator(group);
  if (next && next != group->self)
    busq_do_send(effects, next, (busq_order_packet){.note = group->suspected, .kind = FLUSH});
}

static int receive(successor_state *self, const busq_order_event *event, busq_order_effects *effects)
{
  const busq_order_packet *packet = &event->packet;
  if (packet->kind == DATA)
    return receive_data(self, event, effects);
  if (packet->kind == REQUEST && !gives_numbers(self))
    return BUSQ_CORRUPT;
  if (packet->kind == REQUEST)
    pass(self, packet->message, event->is_for_me, effects);
  if (packet->kind == FLUSH)
    self->flushed[packet->from] = packet->note;
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
    suspect(&self->group, effects);
  if (result != BUSQ_OK)
    return result;
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
  return self->asked <= outbox_of(self)->count && self->coordinator < self->group.n_processes;
}

void busq_successor_gauge(const void *state, busq_order_gauge *gauge)
{
  const successor_state *self = state;
  if (self->group.options & BUSQ_OPTION_GO_ON)
    *gauge = (busq_order_gauge){.waiting = outbox_of(self)->count};
}
