/* SPDX-License-Identifier: Apache-2.0 */
#include "live/engine.h"
#include "base/error.h"
#include "base/growing.h"
#include "base/time.h"
#include "live/live_group.h"
#include "live/link.h"
#include <unistd.h>

/* ---- for observers ---- */

static void journal_add(busq_live *live, uint32_t kind, busq_live_entry *entry, uint32_t process)
{
  if (!busq_reserve_long(&live->journal, &live->journal_room, live->n_journal + 1, sizeof *live->journal)) {
    live->failure = BUSQ_NO_SPACE;
    return;
  }
  live->journal[live->n_journal++] = (busq_live_event){
      .message = entry->name, .multicast = busq_entry_header(entry)->multicast, .kind = kind, .process = process};
}

/* For the recording: a message of ours, as its application sent it.  What a rendezvous promises it promises of what the
 * order does, so there that is what is recorded. */
static uint64_t record_send(busq_live *live, busq_live_entry *entry)
{
  enum { FEW = 16 };
  busq_trace_destination few[FEW] = {0}, *to = few;
  const uint32_t n = entry->n_destinations;
  if (n > FEW)
    to = malloc(n * sizeof *to);
  for (uint32_t i = 0; to && i < n; i++) {
    const uint16_t slot = busq_entry_destinations(entry)[i];
    to[i] = (busq_trace_destination){slot, (uint16_t)live->members[slot].incarnation};
  }
  const uint64_t number = busq_message_number(entry->name);
  const uint64_t position =
      to ? busq_tracer_app_send(live->port, number, to, n, entry->begun, live->blocked) : UINT64_MAX;
  live->blocked = 0;
  if (to != few)
    free(to);
  return position;
}

static void record_delivery(busq_live *live, const busq_live_entry *entry)
{
  const busq_tracer_taken taken = {
      .message = busq_message_number(entry->name),
      .slot = (uint16_t)busq_message_origin(entry->name),
      .kind = BUSQ_TRACE_DELIVER,
  };
  busq_tracer_take(live->port, &taken);
}

static bool is_rendezvous(const busq_live *live)
{
  return (live->order->traits & BUSQ_ORDER_RENDEZVOUS) != 0;
}

static void gauge(busq_live *live)
{
  const busq_order_gauge seen = busq_order_look(live->order, live->state);
  busq_live_facts *facts = &live->facts;
  facts->waiting_max = seen.waiting > facts->waiting_max ? seen.waiting : facts->waiting_max;
  facts->held_max = seen.held > facts->held_max ? seen.held : facts->held_max;
  if (seen.is_secret == (live->secret_since_ns != 0))
    return;
  const uint64_t now_ns = busq_time_now_ns();
  if (!seen.is_secret)
    facts->secret_ns += now_ns - live->secret_since_ns;
  live->secret_since_ns = seen.is_secret ? now_ns : 0;
}

void busq_engine_settle_event(busq_live *live)
{
  uint64_t count = 1;
  if (live->event_fd < 0)
    return;
  const bool is_ready = busq_engine_has_message(live) || live->is_drained || live->is_closed ||
                        (live->failure && live->failure != BUSQ_SHUTDOWN) ||
                        busq_group_check_wait(live, true) != BUSQ_OK;
  if (live->event_is_raised == is_ready)
    return;
  live->event_is_raised = is_ready;
  if (is_ready)
    (void)!write(live->event_fd, &count, sizeof count);
  else
    (void)!read(live->event_fd, &count, sizeof count);
}

/* ---- effects ---- */

static void do_send(busq_live *live, const busq_order_effect *effect)
{
  const busq_order_packet *said = &effect->packet;
  const busq_wire_packet packet = {
      .message = said->message, .stamp = said->stamp, .note = said->note, .kind = (uint16_t)said->kind};
  const bool needs_entry = live->order->kinds[said->kind].has_payload || effect->to == BUSQ_TO_DESTINATIONS;
  busq_live_entry *entry = needs_entry ? busq_table_find(&live->messages, said->message) : NULL;
  if (needs_entry && !entry) {
    live->failure = BUSQ_CORRUPT;
    return;
  }
  busq_live_entry *sent = live->order->kinds[said->kind].has_payload ? entry : NULL;
  if (effect->to < live->n) {
    busq_link_send(live, effect->to, packet, sent);
    return;
  }
  const bool is_to_all = effect->to != BUSQ_TO_DESTINATIONS;
  const uint32_t left_out = effect->to == BUSQ_TO_REST ? busq_message_origin(said->message) : live->self;
  const uint32_t count = is_to_all ? live->n : entry->n_destinations;
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t to = is_to_all ? i : busq_entry_destinations(entry)[i];
    if (to != live->self && to != left_out)
      busq_link_send(live, to, packet, sent);
  }
}

static void do_deliver(busq_live *live, busq_live_entry *entry)
{
  if (live->has_journal)
    journal_add(live, BUSQ_LIVE_DELIVERED, entry, busq_message_origin(entry->name));
  live->facts.delivered++;
  if (busq_bus_is_recorded(live->bus) && is_rendezvous(live)) {
    record_delivery(live, entry);
    busq_tracer_flush(live->port);
  }
  busq_link_settle(live, busq_message_origin(entry->name), entry->payload_bytes);
  if (live->is_lingering) {
    busq_link_take(live, busq_message_origin(entry->name), entry->payload_bytes);
    busq_table_drop(&live->messages, entry, BUSQ_KEPT_FOR_ME);
    return;
  }
  busq_entry_retain(entry);
  entry->next = NULL;
  entry->after = live->n_pending_ever;
  if (live->inbox_first)
    live->inbox_last->next = entry;
  else
    live->inbox_first = entry;
  live->inbox_last = entry;
  busq_table_drop(&live->messages, entry, BUSQ_KEPT_FOR_ME);
  busq_engine_settle_event(live);
  busq_link_announce(live, &live->came);
}

static void do_drop(busq_live *live, busq_live_entry *entry)
{
  if (entry->kept & BUSQ_KEPT_MINE) {
    live->facts.dropped_late++;
    busq_link_take(live, busq_message_origin(entry->name), entry->payload_bytes);
  }
  busq_link_settle(live, busq_message_origin(entry->name), entry->payload_bytes);
  busq_table_drop(&live->messages, entry, BUSQ_KEPT_FOR_ME | BUSQ_KEPT_PASSING);
}

static void do_sent(busq_live *live, busq_live_entry *entry, const uint32_t *clock)
{
  if (clock)
    memcpy(busq_entry_clock(entry), clock, busq_clock_used(live->order->clock, live->n, clock) * sizeof(uint32_t));
  live->facts.messages_sent++;
  if (busq_bus_is_recorded(live->bus) && entry->begun && is_rendezvous(live))
    busq_tracer_app_sent(live->port, record_send(live, entry), false);
  for (uint32_t i = 0; live->has_journal && i < entry->n_destinations; i++)
    journal_add(live, BUSQ_LIVE_SENT, entry, busq_entry_destinations(entry)[i]);
}

static void do_done(busq_live *live, busq_live_entry *entry)
{
  live->n_undone--;
  busq_table_drop(&live->messages, entry, BUSQ_KEPT_OWN);
  busq_link_announce(live, &live->moved);
}

/* The packet has brought its message again, perhaps after it was done with here. */
static int do_ignore(busq_live *live, uint64_t message)
{
  busq_live_entry *entry = message ? busq_table_find(&live->messages, message) : NULL;
  if (entry && entry->is_new)
    busq_table_drop(&live->messages, entry, BUSQ_KEPT_FOR_ME | BUSQ_KEPT_PASSING);
  return BUSQ_OK;
}

static int perform(void *driver, busq_order_effect *effect)
{
  busq_live *live = driver;
  if (effect->kind == BUSQ_DO_IGNORE)
    return do_ignore(live, live->received);
  if (effect->kind == BUSQ_DO_SEND) {
    do_send(live, effect);
    return BUSQ_OK;
  }
  if (effect->kind == BUSQ_DO_ALARM) {
    busq_link_set_alarm(live, effect->packet.stamp);
    return BUSQ_OK;
  }
  busq_live_entry *entry = busq_table_find(&live->messages, effect->packet.message);
  const uint32_t wanted = effect->kind == BUSQ_DO_DELIVER ? BUSQ_KEPT_FOR_ME
                          : effect->kind == BUSQ_DO_DROP  ? BUSQ_KEPT_FOR_ME | BUSQ_KEPT_PASSING
                                                          : BUSQ_KEPT_OWN;
  if (!entry || !(entry->kept & wanted)) {
    live->facts.malformed += effect->kind != BUSQ_DO_DROP; /* that may be about what was not kept */
  } else if (effect->kind == BUSQ_DO_DELIVER && effect->packet.note != BUSQ_NODE_PASSED) {
    do_deliver(live, entry);
  } else if (effect->kind == BUSQ_DO_DELIVER || effect->kind == BUSQ_DO_DROP) {
    do_drop(live, entry);
  } else if (effect->kind == BUSQ_DO_SENT) {
    do_sent(live, entry, effect->clock);
  } else {
    do_done(live, entry);
  }
  return BUSQ_OK;
}

/* ---- steps ---- */

static int step(busq_live *live, busq_order_event *event)
{
  static const busq_order_hands hands = {.perform = perform};
  busq_order_effects effects = {.items = live->effects, .max = BUSQ_LIVE_EFFECTS};
  event->world = &live->world;
  const int result = busq_order_run(live->order, live->state, event, &effects, &hands, live);
  if (result != BUSQ_OK)
    return event->kind == BUSQ_ON_MORE ? BUSQ_CORRUPT : result;
  gauge(live);
  return BUSQ_OK;
}

/* False where the protocol has no room for it. */
static bool step_receive(busq_live *live, const busq_wire_packet *packet, uint32_t from)
{
  busq_live_entry *entry = packet->message ? busq_table_find(&live->messages, packet->message) : NULL;
  busq_order_event event = {
      .kind = BUSQ_ON_RECEIVE,
      .is_for_me = entry && (entry->kept & BUSQ_KEPT_MINE),
      .packet = {.message = packet->message, .stamp = packet->stamp, .note = packet->note, .kind = packet->kind},
  };
  event.packet.from = from;
  live->received = packet->message;
  const int result = step(live, &event);
  if (result == BUSQ_FULL)
    return false;
  if (result)
    live->failure = BUSQ_CORRUPT;
  entry = packet->message ? busq_table_find(&live->messages, packet->message) : NULL;
  if (entry)
    entry->is_new = false;
  if (entry && (entry->kept & BUSQ_KEPT_PASSING) && !busq_order_keeps_for_others(live->order))
    busq_table_drop(&live->messages, entry, BUSQ_KEPT_PASSING);
  return true;
}

/* Hands a message of this process to the protocol. */
static bool step_submit(busq_live *live, busq_live_entry *entry)
{
  const uint16_t *destinations = busq_entry_destinations(entry);
  busq_order_event event = {
      .kind = BUSQ_ON_SUBMIT,
      .to = destinations[0],
      .is_for_me = (entry->kept & BUSQ_KEPT_MINE) != 0,
      .others = live->others,
      .packet = {.message = entry->name},
  };
  for (uint32_t i = 0; i < entry->n_destinations; i++)
    if (destinations[i] != live->self)
      live->others[event.n_others++] = destinations[i];
  const int result = step(live, &event);
  if (result != BUSQ_OK && result != BUSQ_FULL)
    live->failure = BUSQ_CORRUPT;
  return result != BUSQ_FULL;
}

/* ---- what the protocol had no room for ---- */

static bool has_refused_of(const busq_live *live, uint32_t from)
{
  const busq_live_refused *refused = live->refused_first;
  while (refused && refused->from != from)
    refused = refused->next;
  return refused != NULL;
}

static void refuse(busq_live *live, const busq_wire_packet *packet, uint32_t from)
{
  busq_live_refused *refused = malloc(sizeof *refused);
  if (!refused) {
    live->failure = BUSQ_NO_SPACE;
    return;
  }
  *refused = (busq_live_refused){.packet = *packet, .from = from};
  if (live->refused_first)
    live->refused_last->next = refused;
  else
    live->refused_first = refused;
  live->refused_last = refused;
  live->facts.refused++;
}

/* Each in its turn, until none finds room. */
static void retry(busq_live *live)
{
  bool has_moved = true;
  for (busq_live_entry *entry = live->early_first, *next; entry; entry = next) {
    next = entry->next; /* once it is submitted, it may be in the inbox */
    if (!step_submit(live, entry))
      break;
    live->early_first = next;
  }
  while (has_moved && live->refused_first) {
    busq_live_refused *rest = live->refused_first;
    live->refused_first = live->refused_last = NULL;
    has_moved = false;
    while (rest) {
      busq_live_refused *refused = rest;
      rest = refused->next;
      const bool must_wait = live->keeps_order && has_refused_of(live, refused->from);
      if (must_wait || !step_receive(live, &refused->packet, refused->from))
        refuse(live, &refused->packet, refused->from);
      else
        has_moved = true;
      free(refused);
    }
  }
}

/* ---- what comes ---- */

/* Puts the message that a packet brings into the table; false where the packet is damaged. */
static bool keep_payload(busq_live *live, const busq_message *message, const busq_wire_packet *packet)
{
  const uint32_t n_destinations = packet->n_destinations;
  const size_t before = sizeof(busq_wire_header) + busq_wire_destinations_bytes(n_destinations) + live->clock_bytes;
  if (!n_destinations || n_destinations > live->n || message->size_bytes < before ||
      busq_message_origin(packet->message) >= live->n)
    return false;
  if (busq_table_find(&live->messages, packet->message))
    return true; /* a message of our own that came back with its number */
  busq_live_entry *entry =
      busq_entry_new(packet->message, n_destinations, live->clock_bytes, message->size_bytes - before);
  if (!entry) {
    live->failure = BUSQ_NO_SPACE;
    return false;
  }
  memcpy(entry->wire, message->data, message->size_bytes);
  entry->kept = BUSQ_KEPT_PASSING;
  entry->is_new = true;
  for (uint32_t i = 0; i < n_destinations; i++)
    if (busq_entry_destinations(entry)[i] == live->self)
      entry->kept = BUSQ_KEPT_FOR_ME | BUSQ_KEPT_MINE;
  for (uint32_t i = 0; i < n_destinations; i++) {
    if (busq_entry_destinations(entry)[i] >= live->n) {
      busq_entry_release(entry);
      return false;
    }
    /* Every process that takes part in a message must be known, for its death to be noticed. */
    (void)busq_group_find(live, busq_entry_destinations(entry)[i]);
  }
  busq_table_add(&live->messages, entry);
  return true;
}

static void accept(busq_live *live, const busq_message *message)
{
  busq_wire_packet packet;
  const uint32_t from = message->sender;
  if (message->size_bytes < sizeof packet || from >= live->n || !busq_group_find(live, from) ||
      live->members[from].incarnation != message->sender_life) {
    live->facts.malformed++;
    return;
  }
  memcpy(&packet, message->data, sizeof packet);
  if (packet.kind == BUSQ_WIRE_WAKE) {
    if (from == live->self)
      live->took_wake = true;
    else
      live->looked_ns = 0; /* another one has found a member dead */
    return;
  }
  if (packet.kind == BUSQ_WIRE_CREDIT || packet.kind == BUSQ_WIRE_SETTLED) {
    busq_link_credit(live, from, &packet);
    return;
  }
  if (packet.kind == BUSQ_WIRE_WANT) {
    busq_link_want(live, from);
    return;
  }
  if (packet.kind >= live->order->n_kinds || from == live->self ||
      (live->order->kinds[packet.kind].has_payload && !keep_payload(live, message, &packet))) {
    live->facts.malformed++;
    return;
  }
  live->facts.bytes_received += message->size_bytes;
  if (packet.kind < BUSQ_LIVE_KINDS_MAX)
    live->facts.received[packet.kind]++;
  const bool must_wait = live->refused_first && live->keeps_order && has_refused_of(live, from);
  if (must_wait || !step_receive(live, &packet, from))
    refuse(live, &packet, from);
  else if (live->refused_first || live->early_first)
    retry(live);
}

/* True where there may be more. */
static bool receive(busq_live *live)
{
  enum { BATCH = 32, ROUNDS = 8 };
  busq_message batch[BATCH];
  uint32_t count;
  for (int round = 0; round < ROUNDS; round++) {
    const int result = busq_peer_recv(live->port, batch, BATCH, &count, 0);
    if (result == BUSQ_EMPTY)
      return false;
    if (result) {
      live->failure = live->failure ? live->failure : result;
      live->is_drained = true;
      return false;
    }
    for (uint32_t i = 0; i < count; i++) {
      accept(live, &batch[i]);
      busq_peer_release(live->port, &batch[i]);
    }
    live->moved_ns = busq_time_now_ns();
    if (count < BATCH)
      return false;
  }
  return true;
}

/* ---- deaths ---- */

/* Whether all that the member, which is gone, has sent us is taken: its last packet was in our mailbox when it was found gone. */
static bool has_come(busq_live *live, uint32_t process)
{
  busq_peer_facts facts;
  busq_member *member = &live->members[process];
  if (busq_bus_examine_peer(live->bus, live->self, &facts) != BUSQ_OK)
    return false;
  if (!member->to_take)
    member->to_take = facts.received + facts.depth;
  return (!facts.depth || facts.received >= member->to_take) && !has_refused_of(live, process);
}

static void learn(busq_live *live)
{
  for (uint32_t process = 0; process < live->n && live->n_learnt < live->n_gone; process++) {
    busq_order_event event = {.kind = BUSQ_ON_SUSPECT, .packet.from = process};
    if (live->members[process].state != BUSQ_MEMBER_GONE || busq_group_suspects(live->state, process) ||
        !has_come(live, process))
      continue;
    live->n_learnt++;
    if (step(live, &event) != BUSQ_OK)
      live->failure = BUSQ_CORRUPT;
    retry(live);
  }
}

bool busq_engine_turn(busq_live *live)
{
  const int failed_before = live->failure;
  const bool has_more = !live->is_drained && receive(live);
  for (uint32_t ticks = busq_link_work(live); ticks; ticks--) {
    busq_order_event event = {.kind = BUSQ_ON_TICK};
    if (step(live, &event) != BUSQ_OK)
      live->failure = BUSQ_CORRUPT;
    retry(live);
  }
  if (BUSQ_UNLIKELY(live->goes_on && live->n_learnt < live->n_gone && !live->failure))
    learn(live);
  if (live->failure != failed_before) {
    busq_link_announce(live, &live->came);
    busq_link_announce(live, &live->moved);
  }
  busq_engine_settle_event(live);
  busq_link_pass_wake(live);
  return has_more;
}

/* ---- what the application sends and takes ---- */

bool busq_engine_has_room(const busq_live *live, const uint32_t *destinations, uint32_t n_destinations)
{
  const uint32_t n_messages = live->order->traits & BUSQ_ORDER_POINT_TO_POINT ? n_destinations : 1;
  if (live->early_first || live->n_undone + n_messages > live->waiting_max)
    return false;
  if (busq_link_full(live, destinations, n_destinations) != live->n)
    return false;
  /* Nor may packets pile up here for a member that does not take them from its mailbox, destination or not. */
  return live->n_outboxes == 0 || live->n_pending < live->capacity;
}

static busq_live_entry *entry_of_own(busq_live *live, const uint32_t *destinations, uint32_t n_destinations,
                                     const void *data, size_t size_bytes)
{
  busq_live_entry *entry =
      busq_entry_new(busq_message_name(live->self, live->next_number++), n_destinations, live->clock_bytes, size_bytes);
  if (!entry) {
    live->next_number--;
    return NULL;
  }
  entry->kept = BUSQ_KEPT_OWN;
  for (uint32_t i = 0; i < n_destinations; i++) {
    busq_entry_destinations(entry)[i] = (uint16_t)destinations[i];
    if (destinations[i] == live->self)
      entry->kept |= BUSQ_KEPT_FOR_ME | BUSQ_KEPT_MINE;
  }
  *busq_entry_header(entry) = (busq_wire_header){
      .packet = {.message = entry->name}, .multicast = busq_message_name(live->self, live->next_multicast)};
  if (size_bytes)
    memcpy(entry->wire + entry->payload_offset, data, size_bytes);
  return entry;
}

static int submit(busq_live *live, const uint32_t *destinations, uint32_t n_destinations, const void *data,
                  size_t size_bytes)
{
  busq_live_entry *entry = entry_of_own(live, destinations, n_destinations, data, size_bytes);
  if (!entry)
    return busq_error(BUSQ_NO_SPACE, "no memory for a message of %zu bytes", size_bytes);
  busq_table_add(&live->messages, entry);
  live->n_undone++;
  busq_link_owe(live, destinations, n_destinations, size_bytes);
  entry->begun = live->begun;
  const bool is_recorded = BUSQ_UNLIKELY(entry->begun) && !is_rendezvous(live);
  const uint64_t position = is_recorded ? record_send(live, entry) : UINT64_MAX;
  if (live->early_first || !step_submit(live, entry)) {
    entry->next = NULL;
    if (live->early_first)
      live->early_last->next = entry;
    else
      live->early_first = entry;
    live->early_last = entry;
  }
  busq_tracer_app_sent(live->port, position, true);
  return BUSQ_OK;
}

int busq_engine_submit(busq_live *live, const uint32_t *destinations, uint32_t n_destinations, const void *data,
                       size_t size_bytes, busq_live_ticket *ticket)
{
  int result = BUSQ_OK;
  const uint32_t first = live->next_number;
  if (live->order->traits & BUSQ_ORDER_POINT_TO_POINT) {
    for (uint32_t i = 0; i < n_destinations && result == BUSQ_OK; i++)
      result = submit(live, &destinations[i], 1, data, size_bytes);
  } else {
    result = submit(live, destinations, n_destinations, data, size_bytes);
  }
  live->next_multicast++;
  live->facts.multicasts_sent++;
  if (ticket)
    *ticket = (busq_live_ticket){.first = first, .last = live->next_number - 1};
  return result;
}

bool busq_engine_is_open(const busq_live *live, uint32_t first, uint32_t last)
{
  for (uint32_t number = first; number != last + 1; number++) {
    const busq_live_entry *entry = busq_table_find(&live->messages, busq_message_name(live->self, number));
    if (entry && (entry->kept & BUSQ_KEPT_OWN))
      return true;
  }
  return false;
}

bool busq_engine_has_message(const busq_live *live)
{
  const busq_live_entry *first = live->inbox_first;
  return first && (!live->goes_on || first->after <= live->n_pending_ever - live->n_pending);
}

busq_live_entry *busq_engine_take(busq_live *live)
{
  busq_live_entry *entry = live->inbox_first;
  if (!busq_engine_has_message(live))
    return NULL;
  live->inbox_first = entry->next;
  if (BUSQ_UNLIKELY(entry->taken)) /* and was given back */
    return entry;
  entry->taken = live->facts.taken + 1;
  busq_link_take(live, busq_message_origin(entry->name), entry->payload_bytes);
  live->facts.taken++;
  if (busq_bus_is_recorded(live->bus) && !is_rendezvous(live))
    record_delivery(live, entry);
  return entry;
}

void busq_engine_give_back(busq_live *live, busq_live_entry *entry)
{
  busq_live_entry **link = &live->inbox_first;
  while (*link && (*link)->taken && (*link)->taken < entry->taken)
    link = &(*link)->next;
  entry->next = *link;
  *link = entry;
  if (!entry->next)
    live->inbox_last = entry;
  busq_engine_settle_event(live);
  busq_link_announce(live, &live->came);
}

bool busq_engine_is_quiet(const busq_live *live)
{
  return live->failure || !(live->n_undone || live->n_outboxes || live->n_due);
}

void busq_engine_deinit(busq_live *live)
{
  for (busq_live_entry *entry = live->inbox_first, *next; entry; entry = next) {
    next = entry->next;
    busq_entry_release(entry);
  }
  for (busq_live_refused *refused = live->refused_first, *next; refused; refused = next) {
    next = refused->next;
    free(refused);
  }
  busq_table_deinit(&live->messages);
  free(live->journal);
  free(live->state);
}
