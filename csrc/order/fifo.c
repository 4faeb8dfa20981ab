/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order "fifo": sequence numbers per sender and receiver (lecture notes on FIFO delivery, "Sequence Numbers").
 *
 *   submit (m -> j):       number m with the next number for j; send DATA(m, number)
 *   receive DATA(m, q):    deliver m if q follows the last number delivered from its sender, and then what was held back
 *                          behind it; otherwise hold m back
 *
 * Guarantee: FIFO.  Messages of one sender are delivered at each receiver in the order of sending.
 *
 * With the option on_gap=skip a message that does not come is not waited for longer than once or twice the patience of the
 * group: what is held back behind the gap is delivered, and the missing message is dropped if it comes after all.  FIFO holds
 * then too, but what was dropped is lost.  Why once or twice: one alarm serves all gaps, and what stands behind a gap must
 * have been seen by one alarm before the next one lets it go.
 *
 * Proven without a bound: busq/lab/proof/models/fifo.py.
 */
#include "order/rename.h"

enum { DATA };

static const busq_order_kind kinds[] = {{"data", true}};

/* Notes of what is held back: an alarm has found it waiting; so has the next one, and nothing before it is waited for. */
enum { SEEN = 1, RIPE = 2 };

static const busq_order_option_name option_names[] = {{"on_gap=skip", BUSQ_OPTION_SKIP_GAPS, false}, {NULL, 0, false}};

/* Behind it: the hold-back buffer, keyed by (sender, number). */
typedef struct {
  busq_order_group group;
  uint64_t n_dropped;
  uint32_t is_alarm_set;
  uint32_t unused;
  uint32_t numbers[]; /* n: the last one sent to each; n: the last one delivered of each */
} fifo_state;

static size_t numbers_size(const busq_order_group *group)
{
  return BUSQ_ALIGN_UP(sizeof(fifo_state) + 2 * sizeof(uint32_t) * group->n_processes, 8);
}

static busq_holdback *held_of(const fifo_state *self)
{
  return (busq_holdback *)((char *)self + numbers_size(&self->group));
}

static uint32_t *sent_to(fifo_state *self, uint32_t process)
{
  return &self->numbers[process];
}

static uint32_t *delivered_from(fifo_state *self, uint32_t process)
{
  return &self->numbers[self->group.n_processes + process];
}

static uint64_t key_of(uint32_t from, uint32_t number)
{
  return (uint64_t)from << 32 | number;
}

static void submit(fifo_state *self, const busq_order_event *event, busq_order_effects *effects)
{
  const uint64_t message = event->packet.message;
  if (event->is_for_me) {
    busq_do_deliver_own(effects, message);
    return;
  }
  const uint32_t number = ++*sent_to(self, event->to);
  busq_do_sent(effects, message, NULL);
  busq_do_send(effects, event->to, (busq_order_packet){.message = message, .stamp = number, .kind = DATA});
  busq_do_done(effects, message);
}

/* Delivers what is held back at this place if it is the next of its sender, and what follows it. */
static void deliver_from(fifo_state *self, uint32_t place, busq_order_effects *effects)
{
  busq_holdback *held = held_of(self);
  while (place < held->count) {
    const busq_held_entry *next = busq_holdback_at(held, place);
    uint32_t *last = delivered_from(self, next->from);
    const uint32_t number = (uint32_t)next->key;
    if ((number != *last + 1 && next->note != RIPE) || !busq_effects_have_room(effects, 1))
      return;
    *last = number;
    busq_do_deliver(effects, busq_holdback_remove(held, place).message);
  }
}

static void set_alarm(fifo_state *self, busq_order_effects *effects)
{
  if (!(self->group.options & BUSQ_OPTION_SKIP_GAPS) || self->is_alarm_set || !held_of(self)->count)
    return;
  self->is_alarm_set = 1;
  busq_do_alarm(effects, self->group.patience_ns);
}

static int receive(fifo_state *self, const busq_order_packet *packet, busq_order_effects *effects)
{
  busq_holdback *held = held_of(self);
  const uint32_t number = (uint32_t)packet->stamp;
  uint32_t *last = delivered_from(self, packet->from);
  if (number <= *last) {
    self->n_dropped++;
    busq_do_drop(effects, packet->message);
    return BUSQ_OK;
  }
  if (number == *last + 1) {
    *last = number;
    busq_do_deliver(effects, packet->message);
    deliver_from(self, busq_holdback_place(held, key_of(packet->from, number), 0), effects);
    return BUSQ_OK;
  }
  if (busq_holdback_find(held, key_of(packet->from, number), packet->message) < held->count)
    return BUSQ_CORRUPT; /* a copy of what is held back: it would stay for ever */
  if (busq_holdback_is_full(held))
    return BUSQ_FULL;
  busq_holdback_insert(
      held, (busq_held_entry){.key = key_of(packet->from, number), .message = packet->message, .from = packet->from});
  set_alarm(self, effects);
  return BUSQ_OK;
}

/* Everything held back that is deliverable, of all senders: after an alarm, or where a step was cut. */
static void deliver_all(fifo_state *self, busq_order_effects *effects)
{
  busq_holdback *held = held_of(self);
  uint32_t place = 0;
  while (place < held->count && !effects->is_cut) {
    const uint32_t from = busq_holdback_at(held, place)->from;
    deliver_from(self, place, effects);
    place = busq_holdback_place(held, key_of(from + 1, 0), 0);
  }
}

/* A packet that an alarm finds for the second time goes, whatever is missing before it: that was missing at the last alarm, too. */
static void tick(fifo_state *self, busq_order_effects *effects)
{
  busq_holdback *held = held_of(self);
  uint32_t ripe_from = UINT32_MAX;
  self->is_alarm_set = 0;
  for (uint32_t place = held->count; place-- > 0;) {
    busq_held_entry *entry = busq_holdback_at(held, place);
    if (entry->note == SEEN)
      ripe_from = entry->from;
    entry->note = entry->from == ripe_from ? RIPE : SEEN;
  }
  set_alarm(self, effects);
  deliver_all(self, effects);
}

static int fifo_step(void *state, const busq_order_event *event, busq_order_effects *effects)
{
  fifo_state *self = state;
  switch (event->kind) {
  case BUSQ_ON_SUBMIT:
    submit(self, event, effects);
    return BUSQ_OK;
  case BUSQ_ON_RECEIVE:
    return receive(self, &event->packet, effects);
  case BUSQ_ON_TICK:
    tick(self, effects);
    return BUSQ_OK;
  default:
    deliver_all(self, effects);
    return BUSQ_OK;
  }
}

static void rename_held(busq_held_entry *entry, const uint32_t *names)
{
  entry->from = names[entry->from];
  entry->key = key_of(entry->from, (uint32_t)entry->key);
  entry->message = busq_rename_message(entry->message, names);
}

static void fifo_rename(const void *from, void *to, const uint32_t *names)
{
  const fifo_state *self = from;
  fifo_state *renamed = to;
  const uint32_t n = self->group.n_processes;
  busq_rename_begin(from, to, busq_order_state_size(&busq_order_fifo, &self->group), names);
  busq_rename_words(self->numbers, renamed->numbers, n, names);
  busq_rename_words(self->numbers + n, renamed->numbers + n, n, names);
  busq_rename_held(held_of(renamed), names, rename_held);
}

static bool fifo_verify(const void *state)
{
  const fifo_state *self = state;
  const busq_holdback *held = held_of(self);
  const uint32_t n = self->group.n_processes;
  if (self->is_alarm_set > 1 || self->unused)
    return false;
  for (uint32_t place = 0; place < held->count; place++) {
    const busq_held_entry *entry = busq_holdback_at(held, place);
    if (entry->from >= n || (uint32_t)entry->key <= self->numbers[n + entry->from])
      return false;
  }
  return true;
}

static void fifo_gauge(const void *state, busq_order_gauge *gauge)
{
  *gauge = (busq_order_gauge){.held = held_of(state)->count};
}

const busq_order busq_order_fifo = {
    .name = "fifo",
    .promise = "FIFO, by sequence numbers",
    .source = "lecture notes, FIFO delivery: sequence numbers",
    .claims = BUSQ_CLAIMS_FIFO,
    .traits = BUSQ_ORDER_POINT_TO_POINT,
    .crashes = BUSQ_CRASH_VALIDITY | BUSQ_CRASH_AGREEMENT | BUSQ_CRASH_UNIFORM | BUSQ_CRASH_GOES_ON,
    .kinds = kinds,
    .n_kinds = 1,
    .options = option_names,
    .head_size = numbers_size,
    .buffers = {{BUSQ_HOLDBACK, .others = true}},
    .step = fifo_step,
    .rename = fifo_rename,
    .options_by_name = BUSQ_OPTION_SKIP_GAPS,
    .verify = fifo_verify,
    .gauge = fifo_gauge,
};
