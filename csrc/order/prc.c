/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order "prc": causal broadcast by flooding over channels that keep the order (Nedelec, Molli, Mostefaoui, "Causal Broadcast: How
 * to Forget?", OPODIS 2018, R-broadcast; that flooding is causal: the same, "Breaking the scalability barrier of causal broadcast
 * for large and dynamic systems", SRDS 2018).
 *
 *   submit m:                     expect a copy of m from every other process; send DATA(m) to all others; deliver m
 *   receive DATA(m), unexpected:  it is the first copy.  Expect one from every other process but the one that sent this; send
 *                                 DATA(m) to all others, also to that one; deliver m
 *   receive DATA(m), expected:    that copy is no longer expected.  With the last one m is forgotten, and at its origin done
 *
 * Guarantee: causal order, and uniform agreement.  A process sends m on before it delivers it, and so before it sends what m causes: over
 * each channel an effect travels behind its causes.  The first copy is delivered at once: nothing is ever held back, and what any
 * process delivers is on its way to all.  Each channel brings m exactly once, so a copy that is not expected is the first of all.
 *
 * What is expected is a number for each channel and origin.  The paper keeps sets of messages; but each channel brings those of one
 * origin in the order in which it sent them, so where any is expected, the next that comes is one.  At rest all are 0.
 * Beside them stands the newest number of each origin.  The order does not need it; but a copy too many would count as new, and
 * go round for ever: so it is refused.
 * A message carries its name and nothing else, in a group of any size.  Packets: n (n - 1) per message.
 *
 * Why all must get every message: it travels through processes for which it is not meant.  One that is no destination sends it on and
 * ignores the contents.
 *
 * With the option on_crash=go-on copies of the dead are no longer expected: those that were sent have come before the
 * suspicion.  Without it the others deliver all the same, but messages of their own are never done.
 *
 * Not given: a sparse overlay, and links that come and go, which the paper joins to it by four control messages: every process is here
 * linked to every other from the first message on.
 */
#include "order/rename.h"

enum { DATA };

static const busq_order_kind kinds[] = {{"data", true}};

/* Behind it an outbox: messages of one's own of which copies are expected. */
typedef struct {
  busq_order_group group;
  uint32_t numbers[]; /* n x n: from each process, how many copies of messages of each origin are expected; n: the newest of each origin */
} prc_state;

static size_t prc_head_size(const busq_order_group *group)
{
  return BUSQ_ALIGN_UP(sizeof(prc_state) + sizeof(uint32_t) * group->n_processes * (group->n_processes + 1), 8);
}

static busq_outbox *mine_of(const prc_state *self)
{
  return (busq_outbox *)(void *)((char *)self + prc_head_size(&self->group));
}

static uint32_t *expected_from(prc_state *self, uint32_t process)
{
  return &self->numbers[(size_t)process * self->group.n_processes];
}

static uint32_t *newest_of(prc_state *self, uint32_t origin)
{
  return &expected_from(self, self->group.n_processes)[origin];
}

static bool is_own(const prc_state *self, uint64_t message)
{
  return busq_message_origin(message) == self->group.self;
}

static void expect(prc_state *self, uint32_t origin)
{
  for (uint32_t process = 0; process < self->group.n_processes; process++)
    if (process != self->group.self && !busq_group_suspects(&self->group, process))
      expected_from(self, process)[origin]++;
}

static void send_on(uint64_t message, busq_order_effects *effects)
{
  busq_do_send(effects, BUSQ_TO_ALL, (busq_order_packet){.message = message, .kind = DATA});
}

static uint32_t most_expected_of_mine(prc_state *self)
{
  uint32_t most = 0;
  for (uint32_t process = 0; process < self->group.n_processes; process++) {
    const uint32_t expected = expected_from(self, process)[self->group.self];
    most = expected > most ? expected : most;
  }
  return most;
}

static void end_mine(prc_state *self, busq_order_effects *effects)
{
  busq_outbox *mine = mine_of(self);
  const uint32_t most = most_expected_of_mine(self);
  while (mine->count > most && busq_effects_have_room(effects, 1))
    busq_do_done(effects, busq_outbox_pop(mine).message);
}

static int submit(prc_state *self, const busq_order_event *event, busq_order_effects *effects)
{
  const uint64_t message = event->packet.message;
  if (busq_outbox_is_full(mine_of(self)))
    return BUSQ_FULL;
  busq_outbox_push(mine_of(self), (busq_outbox_entry){.message = message, .to = self->group.self});
  expect(self, self->group.self);
  busq_do_sent(effects, message, NULL);
  if (self->group.n_processes > 1)
    send_on(message, effects);
  if (event->is_for_me)
    busq_do_deliver(effects, message);
  return BUSQ_OK;
}

static int receive_first(prc_state *self, const busq_order_event *event, busq_order_effects *effects)
{
  const uint64_t message = event->packet.message;
  uint32_t *newest = newest_of(self, busq_message_origin(message));
  if (is_own(self, message) || busq_message_number(message) <= *newest)
    return BUSQ_CORRUPT;
  *newest = busq_message_number(message);
  expect(self, busq_message_origin(message));
  send_on(message, effects);
  if (event->is_for_me)
    busq_do_deliver(effects, message);
  else
    busq_do_drop(effects, message);
  --expected_from(self, event->packet.from)[busq_message_origin(message)];
  return BUSQ_OK;
}

static int receive(prc_state *self, const busq_order_event *event, busq_order_effects *effects)
{
  const uint32_t origin = busq_message_origin(event->packet.message);
  uint32_t *expected = &expected_from(self, event->packet.from)[origin];
  if (!*expected)
    return receive_first(self, event, effects);
  --*expected;
  busq_do_ignore(effects);
  return BUSQ_OK;
}

static int prc_step(void *state, const busq_order_event *event, busq_order_effects *effects)
{
  prc_state *self = state;
  int result = BUSQ_OK;
  if (event->kind == BUSQ_ON_SUBMIT)
    result = submit(self, event, effects);
  else if (event->kind == BUSQ_ON_RECEIVE)
    result = receive(self, event, effects);
  else if (event->kind == BUSQ_ON_SUSPECT)
    memset(expected_from(self, event->packet.from), 0, self->group.n_processes * sizeof *self->numbers);
  if (result == BUSQ_OK)
    end_mine(self, effects);
  return result;
}

/* One's own messages end in the order in which they were sent: those that wait are as many as the slowest process owes. */
static bool prc_verify(const void *state)
{
  prc_state *self = (prc_state *)state;
  for (uint32_t process = 0; process < self->group.n_processes; process++)
    for (uint32_t origin = 0; origin < self->group.n_processes; origin++)
      if (expected_from(self, process)[origin] &&
          (process == self->group.self || busq_group_suspects(&self->group, process)))
        return false;
  return mine_of(self)->count == most_expected_of_mine(self);
}

static void prc_rename(const void *from, void *to, const uint32_t *names)
{
  const prc_state *self = from;
  const uint32_t n = self->group.n_processes;
  prc_state *renamed = to;
  busq_rename_begin(from, to, busq_order_state_size(&busq_order_prc, &self->group), names);
  for (uint32_t process = 0; process < n; process++)
    busq_rename_words(&self->numbers[(size_t)process * n], expected_from(renamed, names[process]), n, names);
  busq_rename_words(&self->numbers[(size_t)n * n], newest_of(renamed, 0), n, names);
  busq_rename_outbox(mine_of(renamed), names);
}

static void prc_gauge(const void *state, busq_order_gauge *gauge)
{
  *gauge = (busq_order_gauge){.waiting = mine_of(state)->count};
}

const busq_order busq_order_prc = {
    .name = "prc",
    .promise = "causal, broadcasts, by flooding and forgetting",
    .source = "Nedelec, Molli, Mostefaoui 2018",
    .claims = BUSQ_CLAIMS_FIFO | BUSQ_CLAIMS_CAUSAL,
    .traits = BUSQ_ORDER_WHOLE_GROUP | BUSQ_ORDER_FIFO_CHANNELS,
    .crashes = BUSQ_CRASH_VALIDITY | BUSQ_CRASH_AGREEMENT | BUSQ_CRASH_UNIFORM,
    .crashes_go_on = BUSQ_CRASH_VALIDITY | BUSQ_CRASH_AGREEMENT | BUSQ_CRASH_UNIFORM | BUSQ_CRASH_GOES_ON,
    .options = busq_order_may_go_on,
    .silent_always = 1u << DATA,
    .kinds = kinds,
    .n_kinds = 1,
    .head_size = prc_head_size,
    .buffers = {{BUSQ_OUTBOX, .own = true}},
    .step = prc_step,
    .rename = prc_rename,
    .verify = prc_verify,
    .gauge = prc_gauge,
};
