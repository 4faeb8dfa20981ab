/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order "ses": causal order for any destinations, with a vector per process that may have to wait (Schiper, Eggli, Sandoz 1989).
 *
 * T counts the sends of each process that are in this one's past.  V[d], if there is one, is a vector: what d must have come
 * to before anything sent from here may be delivered there, the largest T of the messages to d in the past.
 *
 *   submit (m -> d, ..):        T[self] += 1; send DATA(m, T, V) to all destinations d; then V[d] = T
 *   receive DATA(m, W, U):      m is deliverable when there is no U[self], or U[self] <= T; otherwise hold it back, and look again after
 *                               each delivery
 *   deliver m with W, U:        T = max(T, W); V[d] = max(V[d], U[d]) for every other d, and max(V[d], W) for the other
 *                               destinations of m
 *
 * Guarantee: causal order.  Let m' be sent to self in m's past, with the vector W'.  Then W' <= U[self] <= T: a message
 * delivered here had m' in its past, or was m', and by induction m' was delivered no later than it.
 *
 * With the option on_crash=go-on no process waits for what the dead have not sent it, as in order/causal_matrix.c, and the promises are
 * those: validity and an end to all waiting, no agreement.  Of T, V[d] then takes T[self] alone, the number of m itself.  For the rest of T
 * counts sends to others, too: m would have brought it to d, and where m never comes, d would wait for it for ever.  A
 * message to d in the past of m has its own number in V[d].
 *
 * The paper has one destination per message.  With several, m itself constrains the others, so its names travel with it.
 *
 * Packets: one per destination, with n entries for T and n + 1 for each process that V has; a message to several carries
 * their names.  V grows with the processes that are written to: where all write to all it comes to n x n entries.
 *
 * Not given: forgetting.  What was delivered long ago stays in V.
 */
#include "order/order.h"
#include "queue/causal_buffer.h"

enum { DATA };

static const busq_order_kind kinds[] = {{"data", true}};

/* Behind it: the hold-back buffer, keyed by (sender, T[sender]), with a place to spare for what nothing blocks.  What is blocked
 * waits for any delivery, and has self as its blocker.
 * Invariant: V[d] is zero, or what d must have come to; V[self] is zero. */
typedef struct {
  busq_order_group group;
  uint32_t clock[]; /* T, then the n rows of V, then a list: zero between steps */
} ses_state;

/* What travels: how many words follow, the sender's T, how many other destinations there are if it is more than one, their
 * names, and of each row of V that is not zero its name and the row. */
typedef struct {
  const uint32_t *clock;
  const uint32_t *destinations;
  uint32_t n_destinations;
  const uint32_t *rows;
  const uint32_t *end;
} ses_list;

typedef struct {
  const ses_state *self;
  const busq_order_world *world;
} ses_context;

static size_t head_size(const busq_order_group *group)
{
  const size_t n = group->n_processes;
  return BUSQ_ALIGN_UP(sizeof(ses_state) + sizeof(uint32_t) * (n + n * n + busq_clock_words(BUSQ_CLOCK_LIST, n)), 8);
}

static busq_holdback *held_of(const ses_state *self)
{
  return (busq_holdback *)((char *)self + head_size(&self->group));
}

static uint32_t *row_of(const ses_state *self, uint32_t process)
{
  const size_t n = self->group.n_processes;
  return (uint32_t *)self->clock + n + n * process;
}

static ses_list read_list(const ses_state *self, const busq_order_world *world, uint64_t message)
{
  const uint32_t *words = world->vector(world, message);
  const uint32_t *count = words + 1 + self->group.n_processes;
  return (ses_list){words + 1, count + 1, *count, count + 1 + *count, words + 1 + words[0]};
}

static bool is_sound(const ses_list *list, uint32_t n)
{
  const ptrdiff_t words = list->end - list->clock;
  if (list->n_destinations >= n || words < (ptrdiff_t)(n + 1 + list->n_destinations) ||
      words > (ptrdiff_t)busq_clock_words(BUSQ_CLOCK_LIST, n) || (list->end - list->rows) % (n + 1))
    return false;
  for (uint32_t place = 0; place < list->n_destinations; place++)
    if (list->destinations[place] >= n)
      return false;
  for (const uint32_t *row = list->rows; row < list->end; row += n + 1)
    if (*row >= n)
      return false;
  return true;
}

static void raise_to(uint32_t *row, const uint32_t *other, uint32_t n)
{
  for (uint32_t process = 0; process < n; process++)
    if (other[process] > row[process])
      row[process] = other[process];
}

/* A message of `sender`, sent at this time, went to a destination. */
static void note_sent(ses_state *self, uint32_t destination, uint32_t sender, const uint32_t *clock)
{
  uint32_t *row = row_of(self, destination);
  if (!(self->group.options & BUSQ_OPTION_GO_ON))
    raise_to(row, clock, self->group.n_processes);
  else if (clock[sender] > row[sender])
    row[sender] = clock[sender];
}

static uint32_t passed(const ses_state *self, uint32_t process)
{
  const bool is_dead = busq_group_suspects(&self->group, process);
  return busq_causal_passed(held_of(self), process, is_dead, self->clock[process]);
}

static bool is_past(const ses_state *self, const uint32_t *row)
{
  for (uint32_t process = 0; process < self->group.n_processes; process++)
    if (row[process] > passed(self, process))
      return false;
  return true;
}

static uint32_t blocker(const void *context, const busq_held_entry *entry)
{
  const ses_context *c = context;
  const uint32_t n = c->self->group.n_processes;
  const uint32_t me = c->self->group.self;
  const ses_list list = read_list(c->self, c->world, entry->message);
  for (const uint32_t *row = list.rows; row < list.end; row += n + 1)
    if (*row == me)
      return is_past(c->self, row + 1) ? BUSQ_BLOCKER_NONE : me;
  return BUSQ_BLOCKER_NONE;
}

static uint32_t *write_list(ses_state *self, const busq_order_event *event)
{
  const uint32_t n = self->group.n_processes;
  uint32_t *list = row_of(self, n);
  uint32_t *at = list + 1;
  memcpy(at, self->clock, n * sizeof *at);
  at += n;
  *at = event->n_others > 1 ? event->n_others : 0;
  memcpy(at + 1, event->others, *at * sizeof *at);
  at += 1 + *at;
  for (uint32_t process = 0; process < n; process++) {
    const uint32_t *row = row_of(self, process);
    uint32_t largest = 0;
    for (uint32_t other = 0; other < n; other++)
      largest |= row[other];
    if (!largest)
      continue;
    *at = process;
    memcpy(at + 1, row, n * sizeof *at);
    at += n + 1;
  }
  list[0] = (uint32_t)(at - list - 1);
  return list;
}

static void submit(ses_state *self, const busq_order_event *event, busq_order_effects *effects)
{
  const uint64_t message = event->packet.message;
  if (!event->n_others) {
    busq_do_deliver_own(effects, message);
    return;
  }
  self->clock[self->group.self]++;
  busq_do_sent(effects, message, write_list(self, event));
  for (uint32_t place = 0; place < event->n_others; place++)
    note_sent(self, event->others[place], self->group.self, self->clock);
  if (event->is_for_me)
    busq_do_deliver(effects, message);
  busq_do_send(effects, BUSQ_TO_DESTINATIONS, (busq_order_packet){.message = message, .kind = DATA});
  busq_do_done(effects, message);
  effects->is_cut = true; /* the list goes when the driver has it */
}

static int receive(ses_state *self, const busq_order_event *event)
{
  const busq_order_packet *packet = &event->packet;
  const ses_list list = read_list(self, event->world, packet->message);
  if (!is_sound(&list, self->group.n_processes) || list.clock[packet->from] <= self->clock[packet->from])
    return BUSQ_CORRUPT;
  const ses_context context = {self, event->world};
  const uint64_t key = (uint64_t)packet->from << 33 | list.clock[packet->from];
  const busq_held_entry entry = {.key = key, .message = packet->message, .from = packet->from};
  return busq_causal_hold(held_of(self), entry, blocker, &context) ? BUSQ_OK : BUSQ_FULL;
}

static void learn(ses_state *self, const ses_list *list, uint32_t from)
{
  const uint32_t n = self->group.n_processes;
  for (const uint32_t *row = list->rows; row < list->end; row += n + 1)
    if (*row != self->group.self)
      raise_to(row_of(self, *row), row + 1, n);
  for (uint32_t place = 0; place < list->n_destinations; place++)
    if (list->destinations[place] != self->group.self)
      note_sent(self, list->destinations[place], from, list->clock);
  raise_to(self->clock, list->clock, n);
}

static void pump(ses_state *self, const busq_order_world *world, busq_order_effects *effects)
{
  busq_holdback *held = held_of(self);
  const ses_context context = {self, world};
  for (;;) {
    const uint32_t place = busq_causal_ready(held);
    if (place == held->count || !busq_effects_have_room(effects, 1))
      return;
    const busq_held_entry next = busq_holdback_remove(held, place);
    const ses_list list = read_list(self, world, next.message);
    learn(self, &list, next.from);
    busq_do_deliver(effects, next.message);
    busq_causal_wake(held, self->group.self, blocker, &context);
  }
}

static int ses_step(void *state, const busq_order_event *event, busq_order_effects *effects)
{
  ses_state *self = state;
  if (event->kind == BUSQ_ON_SUBMIT) {
    submit(self, event, effects);
    return BUSQ_OK;
  }
  uint32_t *list = row_of(self, self->group.n_processes);
  if (event->kind == BUSQ_ON_MORE)
    memset(list, 0, (1 + (size_t)list[0]) * sizeof *list);
  const int result = event->kind == BUSQ_ON_RECEIVE ? receive(self, event) : BUSQ_OK;
  if (event->kind == BUSQ_ON_SUSPECT)
    busq_causal_wake(held_of(self), self->group.self, blocker, &(ses_context){self, event->world});
  if (result == BUSQ_OK)
    pump(self, event->world, effects);
  return result;
}

static bool ses_verify(const void *state)
{
  const ses_state *self = state;
  return !*row_of(self, self->group.n_processes);
}

static void ses_gauge(const void *state, busq_order_gauge *gauge)
{
  *gauge = (busq_order_gauge){.held = held_of(state)->count};
}

const busq_order busq_order_ses = {
    .name = "ses",
    .promise = "causal, any destinations, by a vector for each process that was written to",
    .source = "Schiper, Eggli, Sandoz 1989",
    .claims = BUSQ_CLAIMS_FIFO | BUSQ_CLAIMS_CAUSAL,
    .clock = BUSQ_CLOCK_LIST,
    .kinds = kinds,
    .n_kinds = 1,
    .crashes_go_on = BUSQ_CRASH_VALIDITY | BUSQ_CRASH_GOES_ON,
    .options = busq_order_may_go_on,
    .head_size = head_size,
    .buffers = {{BUSQ_HOLDBACK, .others = true, .more = 1}},
    .step = ses_step, /* no rename: lists have names in them, in ascending order */
    .verify = ses_verify,
    .gauge = ses_gauge,
};
