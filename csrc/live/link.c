/* SPDX-License-Identifier: Apache-2.0 */
#include "live/link.h"
#include "base/hash.h"
#include "base/growing.h"
#include "base/time.h"
#include "live/live_group.h"

#define RETRY_NS_MIN UINT64_C(20000)
#define RETRY_NS_MAX UINT64_C(1000000)

/* ---- into the mailbox ---- */

static void count_sent(busq_live *live, uint16_t kind, size_t bytes)
{
  live->facts.bytes_sent += bytes;
  if (kind < BUSQ_LIVE_KINDS_MAX)
    live->facts.sent[kind]++;
  else
    live->facts.credits_sent += kind == BUSQ_WIRE_CREDIT || kind == BUSQ_WIRE_SETTLED;
}

/* False where the mailbox is full. */
static bool post(busq_live *live, uint32_t to, const busq_wire_packet *packet, busq_live_entry *entry)
{
  const void *data = packet;
  size_t bytes = sizeof *packet;
  if (!busq_group_find(live, to) || live->members[to].state == BUSQ_MEMBER_GONE || live->failure) {
    live->facts.dropped++;
    return true;
  }
  if (entry) {
    busq_wire_packet *header = &busq_entry_header(entry)->packet;
    *header = *packet;
    header->n_destinations = (uint16_t)entry->n_destinations;
    data = entry->wire;
    bytes = entry->wire_bytes;
  }
  const int result = busq_peer_send(live->port, &live->members[to].target, 1, data, bytes, 0);
  if (result == BUSQ_FULL)
    return false;
  if (result == BUSQ_OK) {
    count_sent(live, packet->kind, bytes);
    return true;
  }
  live->facts.dropped++;
  if (result == BUSQ_PEER_DEAD)
    busq_group_lose(live, to);
  else if (!live->failure)
    live->failure = result;
  return true;
}

static busq_live_pending *pending_new(busq_live *live, uint32_t to, busq_wire_packet packet, busq_live_entry *entry)
{
  busq_live_pending *pending = malloc(sizeof *pending);
  if (!pending) {
    live->failure = BUSQ_NO_SPACE;
    return NULL;
  }
  *pending = (busq_live_pending){.packet = packet, .entry = entry, .to = to};
  if (entry)
    busq_entry_retain(entry);
  return pending;
}

static void pending_free(busq_live_pending *pending)
{
  if (pending->entry)
    busq_entry_release(pending->entry);
  free(pending);
}

static void outbox_add(busq_live *live, busq_live_pending *pending)
{
  busq_live_link *link = &live->links[pending->to];
  pending->next = NULL;
  if (link->first) {
    link->last->next = pending;
  } else {
    link->first = pending;
    live->n_outboxes++;
    live->retry_ns = RETRY_NS_MIN;
    busq_link_nudge(live, busq_time_now_ns() + live->retry_ns);
  }
  link->last = pending;
  pending->sequence = live->n_pending_ever++;
  live->n_pending++;
}

/* A process may die at any moment, and what waits here dies with it.  So where others go on then, each packet leaves after all
 * earlier ones to any member. */
static bool must_wait(const busq_live *live, uint32_t to)
{
  return live->goes_on ? live->n_outboxes : live->links[to].first != NULL;
}

/* Behind what waits already; `pending` where the packet was held back. */
static void leave(busq_live *live, uint32_t to, busq_wire_packet packet, busq_live_entry *entry,
                  busq_live_pending *pending)
{
  if (!must_wait(live, to) && post(live, to, &packet, entry)) {
    if (pending)
      pending_free(pending);
    return;
  }
  if (!pending)
    pending = pending_new(live, to, packet, entry);
  if (pending)
    outbox_add(live, pending);
}

/* False where the first packet of this outbox finds no room. */
static bool post_first(busq_live *live, busq_live_link *link)
{
  busq_live_pending *pending = link->first;
  if (!post(live, pending->to, &pending->packet, pending->entry))
    return false;
  link->first = pending->next;
  live->n_outboxes -= !link->first;
  live->n_pending--;
  pending_free(pending);
  return true;
}

/* The outbox with the packet that has waited longest; there is one. */
static busq_live_link *oldest_outbox(const busq_live *live)
{
  busq_live_link *oldest = NULL;
  for (uint32_t to = 0; to < live->n; to++) {
    busq_live_link *link = &live->links[to];
    if (link->first && (!oldest || link->first->sequence < oldest->first->sequence))
      oldest = link;
  }
  return oldest;
}

static bool outboxes_work(busq_live *live)
{
  bool has_moved = false;
  while (live->goes_on && live->n_outboxes && post_first(live, oldest_outbox(live)))
    has_moved = true;
  for (uint32_t to = 0; to < live->n && live->n_outboxes && !live->goes_on; to++)
    while (live->links[to].first && post_first(live, &live->links[to]))
      has_moved = true;
  if (has_moved) {
    busq_link_announce(live, &live->moved);
    busq_link_announce(live, &live->came); /* a message may have waited for it */
  }
  return has_moved;
}

/* ---- what leaves later ---- */

static bool due_less(const busq_live_due *a, const busq_live_due *b)
{
  return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->sequence < b->sequence;
}

static void due_add(busq_live *live, uint64_t due_ns, busq_live_pending *pending)
{
  if (!busq_reserve(&live->due, &live->due_room, live->n_due + UINT64_C(1), sizeof *live->due)) {
    live->failure = BUSQ_NO_SPACE;
    if (pending)
      pending_free(pending);
    return;
  }
  const busq_live_due added = {.due_ns = due_ns, .sequence = live->due_sequence++, .pending = pending};
  uint32_t place = live->n_due++;
  for (; place && due_less(&added, &live->due[(place - 1) / 2]); place = (place - 1) / 2)
    live->due[place] = live->due[(place - 1) / 2];
  live->due[place] = added;
  busq_link_nudge(live, due_ns);
}

static busq_live_due due_pop(busq_live *live)
{
  const busq_live_due first = live->due[0];
  const busq_live_due moved = live->due[--live->n_due];
  uint32_t place = 0;
  for (uint32_t child; (child = 2 * place + 1) < live->n_due; place = child) {
    child += child + 1 < live->n_due && due_less(&live->due[child + 1], &live->due[child]);
    if (!due_less(&live->due[child], &moved))
      break;
    live->due[place] = live->due[child];
  }
  live->due[place] = moved;
  return first;
}

void busq_link_send(busq_live *live, uint32_t to, busq_wire_packet packet, busq_live_entry *entry)
{
  busq_live_link *link = &live->links[to];
  uint64_t delay_ns = link->delay_ns;
  if (live->shuffle_ns)
    delay_ns += busq_hash_mix(live->shuffle_state += UINT64_C(0x9e3779b97f4a7c15)) % live->shuffle_ns;
  if (BUSQ_LIKELY(!delay_ns && !link->last_due_ns)) {
    leave(live, to, packet, entry, NULL);
    return;
  }
  uint64_t due_ns = busq_time_now_ns() + delay_ns;
  if (live->keeps_order && due_ns < link->last_due_ns)
    due_ns = link->last_due_ns;
  link->last_due_ns = due_ns;
  busq_live_pending *pending = pending_new(live, to, packet, entry);
  if (pending)
    due_add(live, due_ns, pending);
}

void busq_link_set_alarm(busq_live *live, uint64_t delay_ns)
{
  due_add(live, busq_time_now_ns() + delay_ns, NULL);
}

uint32_t busq_link_work(busq_live *live)
{
  uint32_t ticks = 0;
  if (live->n_due) {
    const uint64_t now_ns = busq_time_now_ns();
    while (live->n_due && live->due[0].due_ns <= now_ns) {
      const busq_live_due due = due_pop(live);
      if (due.pending)
        leave(live, due.pending->to, due.pending->packet, due.pending->entry, due.pending);
      else
        ticks++;
    }
  }
  if (live->n_outboxes) {
    const bool has_moved = outboxes_work(live);
    const uint64_t longer_ns = 2 * live->retry_ns;
    live->retry_ns = has_moved ? RETRY_NS_MIN : longer_ns < RETRY_NS_MAX ? longer_ns : RETRY_NS_MAX;
  }
  return ticks;
}

uint64_t busq_link_idle_ns(const busq_live *live)
{
  uint64_t idle_ns = live->n_outboxes ? live->retry_ns : UINT64_C(3600000000000);
  if (live->n_due) {
    const uint64_t now_ns = busq_time_now_ns();
    const uint64_t left_ns = live->due[0].due_ns > now_ns ? live->due[0].due_ns - now_ns : 0;
    idle_ns = left_ns < idle_ns ? left_ns : idle_ns;
  }
  return idle_ns;
}

void busq_link_nudge(busq_live *live, uint64_t due_ns)
{
  if (!live->n_asleep || due_ns >= live->sleeps_until_ns || live->failure)
    return;
  const busq_wire_packet wake = {.kind = BUSQ_WIRE_WAKE};
  /* Once is enough.  Where there is no room for it, the next one tries again. */
  if (busq_peer_send(live->port, &live->members[live->self].target, 1, &wake, sizeof wake, 0) == BUSQ_OK)
    live->sleeps_until_ns = due_ns;
}

/* A thread that polls, or waits to send, may be faster than the sleeper, and does not do all that the sleeper was to
 * do. */
void busq_link_pass_wake(busq_live *live)
{
  if (!live->took_wake)
    return;
  live->took_wake = false;
  live->sleeps_until_ns = UINT64_MAX;
  busq_link_nudge(live, 0);
}

void busq_link_announce(busq_live *live, pthread_cond_t *condition)
{
  pthread_cond_broadcast(condition);
  if (live->driver_waits_on == condition)
    busq_link_nudge(live, 0);
}

/* ---- credits ---- */

/* Members, numbered from 0, whose order holds every message, whatever its destinations. */
static uint32_t n_holders(const busq_live *live)
{
  return live->order->traits & BUSQ_ORDER_WHOLE_GROUP ? live->n : 0;
}

static bool has_credit(const busq_live *live, uint32_t to)
{
  return live->links[to].owed < live->capacity && live->links[to].owed_bytes < live->credit_bytes;
}

static bool has_place(const busq_live *live, uint32_t to)
{
  if (live->members[to].state == BUSQ_MEMBER_GONE)
    return true;
  return live->links[to].held < live->capacity && live->links[to].held_bytes < live->credit_bytes;
}

uint32_t busq_link_full(const busq_live *live, const uint32_t *destinations, uint32_t n_destinations)
{
  for (uint32_t i = 0; i < n_destinations; i++)
    if (!has_credit(live, destinations[i]))
      return destinations[i];
  for (uint32_t to = 0; to < n_holders(live); to++)
    if (!has_place(live, to))
      return to;
  return live->n;
}

void busq_link_owe(busq_live *live, const uint32_t *destinations, uint32_t n_destinations, uint64_t bytes)
{
  for (uint32_t i = 0; i < n_destinations; i++) {
    live->links[destinations[i]].owed++;
    live->links[destinations[i]].owed_bytes += bytes;
  }
  for (uint32_t to = 0; to < n_holders(live); to++) {
    live->links[to].held += to != live->self;
    live->links[to].held_bytes += to != live->self ? bytes : 0;
  }
}

static void forgive(busq_live *live, uint32_t to, uint64_t copies, uint64_t bytes)
{
  busq_live_link *link = &live->links[to];
  link->owed -= copies < link->owed ? copies : link->owed;
  link->owed_bytes -= bytes < link->owed_bytes ? bytes : link->owed_bytes;
  busq_link_announce(live, &live->moved);
}

static void tell(busq_live *live, uint32_t origin)
{
  busq_live_link *link = &live->links[origin];
  const busq_wire_packet credit = {.kind = BUSQ_WIRE_CREDIT, .stamp = link->taken_bytes, .note = (uint32_t)link->taken};
  const busq_wire_packet settled = {
      .kind = BUSQ_WIRE_SETTLED, .stamp = link->settled_bytes, .note = (uint32_t)link->settled};
  link->taken = link->taken_bytes = link->settled = link->settled_bytes = 0;
  link->is_wanted = false;
  if (settled.note)
    leave(live, origin, settled, NULL, NULL);
  if (credit.note)
    leave(live, origin, credit, NULL, NULL);
}

void busq_link_take(busq_live *live, uint32_t origin, uint64_t bytes)
{
  busq_live_link *link = &live->links[origin];
  if (origin == live->self) {
    forgive(live, origin, 1, bytes);
    return;
  }
  link->taken++;
  link->taken_bytes += bytes;
  if (link->is_wanted || link->taken * 2 >= live->capacity || link->taken_bytes * 2 >= live->credit_bytes)
    tell(live, origin);
}

void busq_link_settle(busq_live *live, uint32_t origin, uint64_t bytes)
{
  busq_live_link *link = &live->links[origin];
  if (!n_holders(live) || origin == live->self)
    return;
  link->settled++;
  link->settled_bytes += bytes;
  if (link->is_wanted || link->settled * 2 >= live->capacity || link->settled_bytes * 2 >= live->credit_bytes)
    tell(live, origin);
}

static void ask(busq_live *live, uint32_t to)
{
  const busq_wire_packet want = {.kind = BUSQ_WIRE_WANT};
  if (to == live->self || live->links[to].has_asked)
    return;
  live->links[to].has_asked = true;
  leave(live, to, want, NULL, NULL);
}

void busq_link_ask(busq_live *live, const uint32_t *destinations, uint32_t n_destinations)
{
  for (uint32_t i = 0; i < n_destinations; i++)
    if (!has_credit(live, destinations[i]))
      ask(live, destinations[i]);
  for (uint32_t to = 0; to < n_holders(live); to++)
    if (!has_place(live, to))
      ask(live, to);
}

void busq_link_want(busq_live *live, uint32_t from)
{
  if (live->links[from].taken || live->links[from].settled)
    tell(live, from);
  else
    live->links[from].is_wanted = true;
}

void busq_link_credit(busq_live *live, uint32_t from, const busq_wire_packet *packet)
{
  live->facts.credits_received++;
  busq_live_link *link = &live->links[from];
  link->has_asked = false;
  if (packet->kind == BUSQ_WIRE_CREDIT) {
    forgive(live, from, packet->note, packet->stamp);
    return;
  }
  link->held -= packet->note < link->held ? packet->note : link->held;
  link->held_bytes -= packet->stamp < link->held_bytes ? packet->stamp : link->held_bytes;
  busq_link_announce(live, &live->moved);
}

void busq_link_deinit(busq_live *live)
{
  for (uint32_t to = 0; live->links && to < live->n; to++) {
    for (busq_live_pending *pending = live->links[to].first, *next; pending; pending = next) {
      next = pending->next;
      pending_free(pending);
    }
  }
  for (uint32_t i = 0; i < live->n_due; i++)
    if (live->due[i].pending)
      pending_free(live->due[i].pending);
  free(live->due);
  free(live->links);
}
