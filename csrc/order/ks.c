/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order "ks": causal order for any destinations, with no more control information than that takes (Kshemkalyani and
 * Singhal 1998).
 *
 * L[s][d] names the message of s, by its number among those of s, that d may still have to wait for, or is 0.  N[s] is the newest
 * message of s in the past.  That m goes to d is forgotten
 *   I.  after m was delivered to d, in what that causes;
 *   II. after another message was sent to d, in what that causes: d will deliver m before that one.
 * That it was forgotten is not written down anywhere.  It follows: a message of s that is not newer than N[s] and is not in L[s][d]
 * has been there.
 *
 *   submit (m -> D):              send DATA(m, N[self] + 1, D, N, L) to D; then L[s][d] = 0 for all s and d in D;
 *                                 N[self] += 1; L[self][d] = N[self] for d in D
 *   receive DATA(m, t, D, P, O):  m is deliverable when O[s][self] <= S[s] for every s, S[s] being the last message of s that
 *                                 was delivered here; otherwise hold it back, and look again after each delivery
 *   deliver m of k:               S[k] = t.  O as k has it after the send, and without this process: O[s][d] = 0 for all s and d in D;
 *                                 P[k] = t; O[k][d] = t for the other d in D.  Then for each s and d keep what both have; of
 *                                 what only one has, keep what is newer than all that the other one knows of s; and N = max(N, P)
 *
 * Guarantee: causal order.  A message to d in m's past is in O[.][d], or one that d has to deliver after it is, or it was
 * delivered to d in m's past.
 *
 * With the option on_crash=go-on no process waits for what the dead have not sent it, as in order/causal_matrix.c, and the promises are
 * those: validity and an end to all waiting, no agreement.  II then holds for messages to one destination alone.  One to
 * several may come to others and never to d: they would have forgotten for its sake what d still has to deliver before its effects.
 * One to d alone is in the channel before it has any effect.
 *
 * The paper's log has entries (s, t, destinations), several for one s.  A destination is in at most one entry of s, for II
 * takes it out of those before; so a number per sender and destination comes to the same.  Its per-destination copies leave out
 * the other destinations of m in O; one list serves all here, and each receiver leaves them out.
 *
 * Packets: one per destination.  It carries what is not 0: two entries for each s that is known, and two for each d that may
 * still have to wait for it; a message to several also carries their names.
 *
 * Not given: cheap steps.  They go through L, which is n x n.
 */
#include "order/order.h"
#include "queue/causal_buffer.h"

enum { DATA };

static const busq_order_kind kinds[] = {{"data", true}};

/* Behind it: the hold-back buffer, keyed by (sender, number), with a place to spare for what nothing blocks.
 * Invariant: L[s][d] <= N[s], L[s][self] = 0, S[s] <= N[s]. */
typedef struct {
  busq_order_group group;
  uint32_t delivered[]; /* S, then N, then the n rows of L, then a list: zero between steps */
} ks_state;

/* What travels: how many words follow; the number; how many other destinations there are if it is more than one, and their
 * names, ascending; then for each s with N[s] > 0, ascending, a row: s and the number of pairs in one word, N[s], and a pair
 * (d, L[s][d]) for each d where that is not 0, ascending. */
typedef struct {
  uint32_t number;
  const uint32_t *destinations;
  const uint32_t *rows; /* where the destinations end */
  const uint32_t *end;
} ks_list;

typedef struct {
  uint32_t sender;
  uint32_t newest;
  const uint32_t *pairs;
  const uint32_t *end;
} ks_row;

typedef struct {
  const ks_state *self;
  const busq_order_world *world;
} ks_context;

static size_t head_size(const busq_order_group *group)
{
  const size_t n = group->n_processes;
  return BUSQ_ALIGN_UP(sizeof(ks_state) + sizeof(uint32_t) * (2 * n + n * n + busq_clock_words(BUSQ_CLOCK_LIST, n)), 8);
}

static busq_holdback *held_of(const ks_state *self)
{
  return (busq_holdback *)((char *)self + head_size(&self->group));
}

static uint32_t *newest_of(const ks_state *self)
{
  return (uint32_t *)self->delivered + self->group.n_processes;
}

static uint32_t *row_of(const ks_state *self, uint32_t process)
{
  const size_t n = self->group.n_processes;
  return (uint32_t *)self->delivered + 2 * n + n * process;
}

/* ---- lists ---- */

static ks_list read_list(const busq_order_world *world, uint64_t message)
{
  const uint32_t *words = world->vector(world, message);
  return (ks_list){words[1], words + 3, words + 3 + words[2], words + 1 + words[0]};
}

static ks_row read_row(const uint32_t *at)
{
  return (ks_row){at[0] >> 16, at[1], at + 2, at + 2 + 2 * (size_t)(at[0] & 0xffff)};
}

static bool is_sound(const uint32_t *words, uint32_t n)
{
  if (words[0] < 2 || words[0] >= busq_clock_words(BUSQ_CLOCK_LIST, n) || words[2] >= n || words[2] + 2 > words[0])
    return false;
  const uint32_t *end = words + 1 + words[0];
  const uint32_t *at = words + 3;
  for (const uint32_t *rows = at + words[2]; at < rows; at++)
    if (*at >= n)
      return false;
  while (end - at >= 2) {
    const ks_row row = read_row(at);
    if (row.sender >= n || (size_t)(end - row.pairs) < 2 * (size_t)(at[0] & 0xffff))
      return false;
    at = row.end;
  }
  return at == end;
}

static uint32_t *write_destinations(uint32_t *at, const busq_order_event *event)
{
  if (event->n_others < 2)
    return at + 1;
  uint32_t *first = at + 1;
  *at = event->n_others;
  for (uint32_t count = 0; count < event->n_others; count++) {
    uint32_t *place = first + count;
    for (; place > first && place[-1] > event->others[count]; place--)
      *place = place[-1];
    *place = event->others[count];
  }
  return first + *at;
}

static uint32_t *write_row(const ks_state *self, uint32_t process, uint32_t *at)
{
  const uint32_t *row = row_of(self, process);
  uint32_t *pair = at + 2;
  for (uint32_t destination = 0; destination < self->group.n_processes; destination++) {
    if (!row[destination])
      continue;
    *pair++ = destination;
    *pair++ = row[destination];
  }
  at[0] = process << 16 | (uint32_t)(pair - at - 2) / 2;
  at[1] = newest_of(self)[process];
  return pair;
}

static uint32_t *write_list(ks_state *self, const busq_order_event *event)
{
  uint32_t *list = row_of(self, self->group.n_processes);
  list[1] = newest_of(self)[self->group.self] + 1;
  uint32_t *at = write_destinations(list + 2, event);
  for (uint32_t process = 0; process < self->group.n_processes; process++)
    if (newest_of(self)[process])
      at = write_row(self, process, at);
  list[0] = (uint32_t)(at - list - 1);
  return list;
}

/* ---- sending ---- */

/* II.  Under on_crash=go-on a message to several may come to some of them alone. */
static bool forgets(const ks_state *self, bool is_to_several)
{
  return !(is_to_several && self->group.options & BUSQ_OPTION_GO_ON);
}

static void submit(ks_state *self, const busq_order_event *event, busq_order_effects *effects)
{
  const uint64_t message = event->packet.message;
  const uint32_t me = self->group.self;
  if (!event->n_others) {
    busq_do_deliver_own(effects, message);
    return;
  }
  busq_do_sent(effects, message, write_list(self, event));
  const uint32_t number = ++newest_of(self)[me];
  for (uint32_t place = 0; place < event->n_others; place++) {
    for (uint32_t process = 0; process < self->group.n_processes && forgets(self, event->n_others > 1); process++)
      row_of(self, process)[event->others[place]] = 0;
    row_of(self, me)[event->others[place]] = number;
  }
  if (event->is_for_me)
    busq_do_deliver(effects, message);
  busq_do_send(effects, BUSQ_TO_DESTINATIONS, (busq_order_packet){.message = message, .kind = DATA});
  busq_do_done(effects, message);
  effects->is_cut = true; /* the list goes when the driver has it */
}

/* ---- receiving ---- */

static uint32_t passed(const ks_state *self, uint32_t process)
{
  const bool is_dead = busq_group_suspects(&self->group, process);
  return busq_causal_passed(held_of(self), process, is_dead, self->delivered[process]);
}

static uint32_t blocker(const void *context, const busq_held_entry *entry)
{
  const ks_context *c = context;
  const ks_list list = read_list(c->world, entry->message);
  for (const uint32_t *at = list.rows; at < list.end;) {
    const ks_row row = read_row(at);
    for (const uint32_t *pair = row.pairs; pair < row.end; pair += 2)
      if (pair[0] == c->self->group.self && pair[1] > passed(c->self, row.sender))
        return row.sender;
    at = row.end;
  }
  return BUSQ_BLOCKER_NONE;
}

static int receive(ks_state *self, const busq_order_event *event)
{
  const busq_order_packet *packet = &event->packet;
  const uint32_t *words = event->world->vector(event->world, packet->message);
  if (!is_sound(words, self->group.n_processes) || words[1] <= self->delivered[packet->from])
    return BUSQ_CORRUPT;
  const ks_context context = {self, event->world};
  const uint64_t key = (uint64_t)packet->from << 33 | words[1];
  const busq_held_entry entry = {.key = key, .message = packet->message, .from = packet->from};
  return busq_causal_hold(held_of(self), entry, blocker, &context) ? BUSQ_OK : BUSQ_FULL;
}

/* Merges what the sender `from` of a message knew of one process. */
static void merge_row(ks_state *self, const ks_list *list, uint32_t from, ks_row theirs)
{
  uint32_t *mine = row_of(self, theirs.sender);
  uint32_t *newest = &newest_of(self)[theirs.sender];
  const uint32_t *destination = list->destinations;
  const bool is_own = theirs.sender == from;
  if (is_own)
    theirs.newest = list->number;
  for (uint32_t process = 0; process < self->group.n_processes; process++) {
    uint32_t other = 0;
    if (theirs.pairs < theirs.end && theirs.pairs[0] == process) {
      other = theirs.pairs[1];
      theirs.pairs += 2;
    }
    if (destination < list->rows && *destination == process) {
      other = is_own ? list->number : forgets(self, true) ? 0 : other;
      destination++;
    }
    if (process == self->group.self)
      other = 0;
    if (mine[process] != other)
      mine[process] = other > *newest ? other : mine[process] > theirs.newest ? mine[process] : 0;
  }
  if (theirs.newest > *newest)
    *newest = theirs.newest;
}

static void merge(ks_state *self, const ks_list *list, uint32_t from)
{
  bool has_own = false;
  for (const uint32_t *at = list->rows; at < list->end;) {
    const ks_row row = read_row(at);
    has_own |= row.sender == from;
    merge_row(self, list, from, row);
    at = row.end;
  }
  if (!has_own)
    merge_row(self, list, from, (ks_row){.sender = from});
  self->delivered[from] = list->number;
}

static void pump(ks_state *self, const busq_order_world *world, busq_order_effects *effects)
{
  busq_holdback *held = held_of(self);
  const ks_context context = {self, world};
  for (;;) {
    const uint32_t place = busq_causal_ready(held);
    if (place == held->count || !busq_effects_have_room(effects, 1))
      return;
    const busq_held_entry next = busq_holdback_remove(held, place);
    const ks_list list = read_list(world, next.message);
    merge(self, &list, next.from);
    busq_do_deliver(effects, next.message);
    busq_causal_wake(held, next.from, blocker, &context);
  }
}

static int ks_step(void *state, const busq_order_event *event, busq_order_effects *effects)
{
  ks_state *self = state;
  if (event->kind == BUSQ_ON_SUBMIT) {
    submit(self, event, effects);
    return BUSQ_OK;
  }
  uint32_t *list = row_of(self, self->group.n_processes);
  if (event->kind == BUSQ_ON_MORE)
    memset(list, 0, (1 + (size_t)list[0]) * sizeof *list);
  const int result = event->kind == BUSQ_ON_RECEIVE ? receive(self, event) : BUSQ_OK;
  if (event->kind == BUSQ_ON_SUSPECT)
    busq_causal_wake(held_of(self), event->packet.from, blocker, &(ks_context){self, event->world});
  if (result == BUSQ_OK)
    pump(self, event->world, effects);
  return result;
}

static bool ks_verify(const void *state)
{
  const ks_state *self = state;
  const uint32_t n = self->group.n_processes;
  for (uint32_t process = 0; process < n; process++) {
    const uint32_t newest = newest_of(self)[process];
    if (self->delivered[process] > newest || row_of(self, process)[self->group.self])
      return false;
    for (uint32_t destination = 0; destination < n; destination++)
      if (row_of(self, process)[destination] > newest)
        return false;
  }
  return !*row_of(self, n);
}

static void ks_gauge(const void *state, busq_order_gauge *gauge)
{
  *gauge = (busq_order_gauge){.held = held_of(state)->count};
}

const busq_order busq_order_ks = {
    .name = "ks",
    .promise = "causal, any destinations, with the least control information",
    .source = "Kshemkalyani and Singhal 1998",
    .claims = BUSQ_CLAIMS_FIFO | BUSQ_CLAIMS_CAUSAL,
    .clock = BUSQ_CLOCK_LIST,
    .kinds = kinds,
    .n_kinds = 1,
    .crashes_go_on = BUSQ_CRASH_VALIDITY | BUSQ_CRASH_GOES_ON,
    .options = busq_order_may_go_on,
    .head_size = head_size,
    .buffers = {{BUSQ_HOLDBACK, .others = true, .more = 1}},
    .step = ks_step, /* no rename: lists have names in them, in ascending order */
    .verify = ks_verify,
    .gauge = ks_gauge,
};
