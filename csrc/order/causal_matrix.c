/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order "causal-matrix": causal order for any destinations (Raynal, Schiper, Toueg; Garg, figures 12.2 and 12.4).
 *
 * M[j][k] is the number of messages that j sent to k, as known here.
 *
 *   submit (m -> j, ..):         M[self][j] += 1 for every destination j, then send DATA(m, M) to all of them
 *   receive DATA(m, W) from j:   m is deliverable when W[j][self] = M[j][self] + 1 and W[k][self] <= M[k][self] for every k but j;
 *                                otherwise hold it back, and look again after each delivery
 *   deliver m with W from j:     M = max(M, W)
 *
 * Guarantee: causal order.  W names every message in m's past that was sent to the receiver; all of them have been delivered.
 *
 * Mechanism: a row M[k] changes when k sends, so what two processes know of k differs only in how far they know it, and max(M, W)
 * takes from each pair of rows the newer one.  Each row has a version, the number of messages that k had sent; rows of the same
 * version are equal.  Comparing versions instead of rows makes deciding and merging cost what is new.  A message to oneself
 * is delivered at once and not counted.
 *
 * With the option on_crash=go-on no process waits for what the dead have not sent it: once k is suspected, and so its channel is empty,
 * W[k][self] asks for what is held of k alone.  However many die but one, all living destinations deliver what a living process has
 * sent, and none waits for ever.  The order stays causal: W counts what each living process has sent here, through whichever process m knows of it.
 * It is not uniform, nor do the living agree: a multicast whose sender dies in it comes to some destinations, and the others go
 * on without it, and deliver its effects.
 *
 * Not given: small messages.  n x n clock entries travel with each message.
 *
 * Proven without a bound: busq/lab/proof/models/causal.py.
 */
#include "order/rename.h"
#include "queue/causal_buffer.h"
#include <string.h>

enum { DATA };

static const busq_order_kind kinds[] = {{"data", true}};

/* Behind it: the hold-back buffer, keyed by (sender, how many of its messages for us there are up to this one), with a place to spare
 * for what nothing blocks.
 * Invariant: M[k][self] is the number of messages of k that were delivered here. */
typedef struct {
  busq_order_group group;
  uint32_t clock[]; /* n versions, then the n rows of M */
} matrix_state;

typedef struct {
  const matrix_state *self;
  const busq_order_world *world;
} matrix_context;

static size_t clock_size(const busq_order_group *group)
{
  const size_t n = group->n_processes;
  return BUSQ_ALIGN_UP(sizeof(matrix_state) + sizeof(uint32_t) * n * (n + 1), 8);
}

static busq_holdback *held_of(const matrix_state *self)
{
  return (busq_holdback *)((char *)self + clock_size(&self->group));
}

static uint32_t *row_of(const matrix_state *self, uint32_t process)
{
  const size_t n = self->group.n_processes;
  return (uint32_t *)self->clock + n + n * process;
}

static uint32_t passed(const matrix_state *self, uint32_t process)
{
  const bool is_dead = busq_group_suspects(&self->group, process);
  return busq_causal_passed(held_of(self), process, is_dead, row_of(self, process)[self->group.self]);
}

static uint32_t blocker(const void *context, const busq_held_entry *entry)
{
  const matrix_context *c = context;
  const matrix_state *self = c->self;
  const uint32_t me = self->group.self;
  const uint32_t *versions = c->world->vector(c->world, entry->message);
  if ((uint32_t)entry->key != passed(self, entry->from) + 1)
    return entry->from;
  for (uint32_t process = 0; process < self->group.n_processes; process++) {
    if (versions[process] <= self->clock[process] || process == entry->from)
      continue; /* what is known here is at least as new */
    if (c->world->row(c->world, entry->message, process)[me] > passed(self, process))
      return process;
  }
  return BUSQ_BLOCKER_NONE;
}

static void submit(matrix_state *self, const busq_order_event *event, busq_order_effects *effects)
{
  const uint64_t message = event->packet.message;
  uint32_t *row = row_of(self, self->group.self);
  for (uint32_t place = 0; place < event->n_others; place++)
    row[event->others[place]]++;
  self->clock[self->group.self]++;
  busq_do_sent(effects, message, self->clock);
  if (event->is_for_me)
    busq_do_deliver(effects, message);
  if (event->n_others)
    busq_do_send(effects, BUSQ_TO_DESTINATIONS, (busq_order_packet){.message = message, .kind = DATA});
  busq_do_done(effects, message);
}

static int receive(matrix_state *self, const busq_order_event *event)
{
  const busq_order_packet *packet = &event->packet;
  const uint32_t number = event->world->row(event->world, packet->message, packet->from)[self->group.self];
  if (number <= row_of(self, packet->from)[self->group.self])
    return BUSQ_CORRUPT;
  const matrix_context context = {self, event->world};
  const uint64_t key = (uint64_t)packet->from << 33 | number;
  const busq_held_entry entry = {.key = key, .message = packet->message, .from = packet->from};
  return busq_causal_hold(held_of(self), entry, blocker, &context) ? BUSQ_OK : BUSQ_FULL;
}

static void merge(matrix_state *self, const busq_order_world *world, uint64_t message)
{
  const uint32_t n = self->group.n_processes;
  const uint32_t *versions = world->vector(world, message);
  for (uint32_t process = 0; process < n; process++) {
    if (versions[process] <= self->clock[process])
      continue;
    memcpy(row_of(self, process), world->row(world, message, process), n * sizeof(uint32_t));
    self->clock[process] = versions[process];
  }
}

static void pump(matrix_state *self, const busq_order_world *world, busq_order_effects *effects)
{
  busq_holdback *held = held_of(self);
  const matrix_context context = {self, world};
  for (;;) {
    const uint32_t place = busq_causal_ready(held);
    if (place == held->count || !busq_effects_have_room(effects, 1))
      return;
    const busq_held_entry next = busq_holdback_remove(held, place);
    merge(self, world, next.message);
    busq_do_deliver(effects, next.message);
    busq_causal_wake(held, next.from, blocker, &context);
  }
}

static int matrix_step(void *state, const busq_order_event *event, busq_order_effects *effects)
{
  matrix_state *self = state;
  if (event->kind == BUSQ_ON_SUBMIT) {
    submit(self, event, effects);
    return BUSQ_OK;
  }
  const int result = event->kind == BUSQ_ON_RECEIVE ? receive(self, event) : BUSQ_OK;
  if (event->kind == BUSQ_ON_SUSPECT)
    busq_causal_wake(held_of(self), event->packet.from, blocker, &(matrix_context){self, event->world});
  if (result == BUSQ_OK)
    pump(self, event->world, effects);
  return result;
}

static void matrix_rename(const void *from, void *to, const uint32_t *names)
{
  const matrix_state *self = from;
  matrix_state *renamed = to;
  const uint32_t n = self->group.n_processes;
  busq_rename_begin(from, to, busq_order_state_size(&busq_order_causal_matrix, &self->group), names);
  busq_rename_words(self->clock, renamed->clock, n, names);
  for (uint32_t process = 0; process < n; process++)
    busq_rename_words(row_of(self, process), row_of(renamed, names[process]), n, names);
  busq_rename_held(held_of(renamed), names, busq_rename_blocked);
}

static void matrix_gauge(const void *state, busq_order_gauge *gauge)
{
  *gauge = (busq_order_gauge){.held = held_of(state)->count};
}

const busq_order busq_order_causal_matrix = {
    .name = "causal-matrix",
    .promise = "causal, any destinations, by matrix clocks",
    .source = "Raynal, Schiper, Toueg 1991; Garg, figures 12.2 and 12.4",
    .claims = BUSQ_CLAIMS_FIFO | BUSQ_CLAIMS_CAUSAL,
    .clock = BUSQ_CLOCK_MATRIX,
    .kinds = kinds,
    .n_kinds = 1,
    .crashes_go_on = BUSQ_CRASH_VALIDITY | BUSQ_CRASH_GOES_ON,
    .options = busq_order_may_go_on,
    .head_size = clock_size,
    .buffers = {{BUSQ_HOLDBACK, .others = true, .more = 1}},
    .step = matrix_step,
    .rename = matrix_rename,
    .delivers_by_name = true,
    .gauge = matrix_gauge,
};
