/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order "causal-vector": causal broadcast with vector clocks in which only sends count (lecture notes, "Implementing
 * Causal Broadcast").
 *
 *   submit (m):               VC[self] += 1; send DATA(m, VC) to all others; deliver m here if it is for us
 *   receive DATA(m, W) of k:  m is deliverable when W[k] = VC[k] + 1 and W[j] <= VC[j] for every other j;
 *                             otherwise hold it back, and look again after each delivery
 *   deliver m of k:           VC = max(VC, W), which comes to VC[k] += 1
 *
 * Guarantee: causal order.  W counts the broadcasts in m's past; all of them have been delivered here before m is.
 *
 * Why all must get every message: a process that was left out would wait for ever for W[k] = VC[k] + 1.  One that is no
 * destination takes part and ignores the contents.  Packets: n - 1 per message, each with n clock entries.
 *
 * With the option on_crash=go-on a process that gets a message for the first time relays it to the others, before anything
 * else, and a sender delivers its own last.  So what any process delivers is on its way to all, and when any number of
 * processes but one die, the others deliver the same broadcasts, whether their senders live or not, and none waits for one that never comes.
 * Packets then: (n - 1)^2 per message.  (Eager reliable broadcast: Hadzilacos, Toueg 1993.)
 *
 * Proven without a bound: busq/lab/proof/models/causal.py.
 */
#include "order/rename.h"
#include "queue/causal_buffer.h"

enum { DATA };

static const busq_order_kind kinds[] = {{"data", true}};

/* Behind it: the hold-back buffer, keyed by (sender, its number), with a place to spare for what nothing blocks. */
typedef struct {
  busq_order_group group;
  uint32_t clock[]; /* n: broadcasts of each process that were delivered here, or sent */
} vector_state;

typedef struct {
  const vector_state *self;
  const busq_order_world *world;
} vector_context;

static size_t clock_size(const busq_order_group *group)
{
  return BUSQ_ALIGN_UP(sizeof(vector_state) + sizeof(uint32_t) * group->n_processes, 8);
}

static busq_holdback *held_of(const vector_state *self)
{
  return (busq_holdback *)((char *)self + clock_size(&self->group));
}

static uint32_t blocker(const void *context, const busq_held_entry *entry)
{
  const vector_context *c = context;
  const vector_state *self = c->self;
  const uint32_t *clock = c->world->vector(c->world, entry->message);
  if (clock[entry->from] != self->clock[entry->from] + 1)
    return entry->from;
  for (uint32_t process = 0; process < self->group.n_processes; process++)
    if (clock[process] > self->clock[process] && process != entry->from)
      return process;
  return BUSQ_BLOCKER_NONE;
}

static void submit(vector_state *self, const busq_order_event *event, busq_order_effects *effects)
{
  const uint64_t message = event->packet.message;
  self->clock[self->group.self]++;
  busq_do_sent(effects, message, self->clock);
  const bool goes_on = self->group.options & BUSQ_OPTION_GO_ON;
  if (event->is_for_me && !goes_on)
    busq_do_deliver(effects, message);
  busq_do_send(effects, BUSQ_TO_ALL, (busq_order_packet){.message = message, .kind = DATA});
  if (event->is_for_me && goes_on)
    busq_do_deliver(effects, message);
  busq_do_done(effects, message);
}

/* Bit 0 of a key is set where the message is for us. */
static int receive(vector_state *self, const busq_order_event *event, busq_order_effects *effects)
{
  const busq_order_packet *packet = &event->packet;
  const bool goes_on = self->group.options & BUSQ_OPTION_GO_ON;
  const uint32_t origin = goes_on ? busq_message_origin(packet->message) : packet->from;
  const vector_context context = {self, event->world};
  const uint64_t number = event->world->vector(event->world, packet->message)[origin];
  const uint64_t key = (uint64_t)origin << 33 | number << 1 | event->is_for_me;
  const busq_held_entry entry = {.key = key, .message = packet->message, .from = origin};
  busq_holdback *held = held_of(self);
  const bool is_known =
      number <= self->clock[origin] || (goes_on && busq_holdback_find(held, key, packet->message) < held->count);
  if (is_known && !goes_on)
    return BUSQ_CORRUPT;
  if (is_known)
    busq_do_ignore(effects);
  else if (!busq_causal_hold(held, entry, blocker, &context))
    return BUSQ_FULL;
  else if (goes_on)
    busq_do_send(effects, BUSQ_TO_REST, (busq_order_packet){.message = packet->message, .kind = DATA});
  return BUSQ_OK;
}

static void pump(vector_state *self, const busq_order_world *world, busq_order_effects *effects)
{
  busq_holdback *held = held_of(self);
  const vector_context context = {self, world};
  for (;;) {
    const uint32_t place = busq_causal_ready(held);
    if (place == held->count || !busq_effects_have_room(effects, 1))
      return;
    const busq_held_entry next = busq_holdback_remove(held, place);
    self->clock[next.from]++;
    if (next.key & 1)
      busq_do_deliver(effects, next.message);
    else
      busq_do_drop(effects, next.message);
    busq_causal_wake(held, next.from, blocker, &context);
  }
}

static int vector_step(void *state, const busq_order_event *event, busq_order_effects *effects)
{
  vector_state *self = state;
  if (event->kind == BUSQ_ON_SUBMIT) {
    submit(self, event, effects);
    return BUSQ_OK;
  }
  const int result = event->kind == BUSQ_ON_RECEIVE ? receive(self, event, effects) : BUSQ_OK;
  if (result == BUSQ_OK)
    pump(self, event->world, effects);
  return result;
}

static void vector_rename(const void *from, void *to, const uint32_t *names)
{
  const vector_state *self = from;
  vector_state *renamed = to;
  busq_rename_begin(from, to, busq_order_state_size(&busq_order_causal_vector, &self->group), names);
  busq_rename_words(self->clock, renamed->clock, self->group.n_processes, names);
  busq_rename_held(held_of(renamed), names, busq_rename_blocked);
}

/* A broadcast that all have delivered holds up no message: no clock need count it. */
static void vector_forget(uint64_t message, uint32_t *clock, void *const *states, uint32_t n_states)
{
  for (uint32_t process = 0; process < ((const vector_state *)states[0])->group.n_processes; process++) {
    bool is_passed = process != busq_message_origin(message);
    for (uint32_t place = 0; place < n_states && is_passed; place++)
      is_passed = clock[process] <= ((const vector_state *)states[place])->clock[process];
    clock[process] = is_passed ? 0 : clock[process];
  }
}

static void vector_gauge(const void *state, busq_order_gauge *gauge)
{
  *gauge = (busq_order_gauge){.held = held_of(state)->count};
}

const busq_order busq_order_causal_vector = {
    .name = "causal-vector",
    .promise = "causal, broadcasts, by vector clocks",
    .source = "lecture notes, causal broadcast; Birman, Schiper, Stephenson 1991",
    .claims = BUSQ_CLAIMS_FIFO | BUSQ_CLAIMS_CAUSAL,
    .traits = BUSQ_ORDER_WHOLE_GROUP,
    .clock = BUSQ_CLOCK_VECTOR,
    .kinds = kinds,
    .n_kinds = 1,
    .crashes_go_on = BUSQ_CRASH_VALIDITY | BUSQ_CRASH_AGREEMENT | BUSQ_CRASH_UNIFORM | BUSQ_CRASH_GOES_ON,
    .options = busq_order_may_go_on,
    .idle_stays = 1u << DATA,
    .head_size = clock_size,
    .buffers = {{BUSQ_HOLDBACK, .others = true, .more = 1}},
    .step = vector_step,
    .rename = vector_rename,
    .forget = vector_forget,
    .delivers_by_name = true,
    .gauge = vector_gauge,
};
