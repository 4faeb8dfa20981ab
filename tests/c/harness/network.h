/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_TESTS_NETWORK_H
#define BUSQ_TESTS_NETWORK_H
/*
 * A small group on a network whose arrivals chance, or a test, decides; and everything that a driver may expect of an
 * order, held against every single step:
 *
 *   - the state is sound before and after, and with a larger buffer for effects the same step ends in the same bytes
 *     and in the same effects (so cutting a step changes nothing), and what is refused has changed nothing;
 *   - a message is sent once, before its first packet, is done once, and is delivered once and only where it is meant
 *     for;
 *   - no process delivers what it does not have: the payload came, or the message is its own and not done;
 *   - no process sends packets with a payload that it does not have any more.
 *
 * A network is a plain value: nothing to free but its history.
 */
#include "busq_lab.h"
#include "harness/check.h"
#include "order/order.h"

enum {
  NETWORK_PROCESSES = 6,
  NETWORK_MESSAGES = 64,
  NETWORK_PACKETS = 4096,
  NETWORK_STATE_BYTES = 16384,
  NETWORK_KINDS = 8,
  NETWORK_LOG = 512,
  NETWORK_BOTH = 2048
};

typedef struct {
  busq_order_packet packet;
  uint32_t to;
} network_packet;

/* What was submitted, and how far it came.  Sets of processes are bits. */
typedef struct {
  uint64_t name;
  uint64_t whole; /* POINT_TO_POINT: the multicast that it is a copy of; otherwise the name */
  uint32_t origin;
  uint32_t destinations;
  uint32_t arrived; /* which have got the payload */
  uint32_t delivered;
  uint32_t dropped; /* by those that it is not for */
  uint32_t sent_at; /* in the log; 0: not so far */
  uint32_t first_delivered_at;
  bool is_sent, is_done;
} network_message;

/* What happened, in the order of an all-seeing observer. */
typedef struct {
  uint32_t process;
  uint32_t message; /* its place in messages */
  bool is_send;
} network_event;

typedef struct {
  const busq_order *order;
  uint32_t n, n_messages, n_packets, n_log;
  uint32_t n_by_kind[NETWORK_KINDS]; /* packets sent */
  uint32_t numbers[NETWORK_PROCESSES];
  network_message messages[NETWORK_MESSAGES];
  network_packet packets[NETWORK_PACKETS]; /* in flight, oldest first */
  network_event log[NETWORK_LOG];
  busq_history *history, *wholes;
  _Alignas(16) char states[NETWORK_PROCESSES][NETWORK_STATE_BYTES];
} network;

static inline void network_init(network *net, const busq_order *order, uint32_t options, uint32_t n,
                                uint32_t waiting_max, uint32_t held_max)
{
  memset(net, 0, sizeof *net);
  net->order = order;
  net->n = n;
  net->n_log = 1;
  CHECK_EQUAL(busq_history_new(n, &net->history), BUSQ_OK);
  CHECK_EQUAL(busq_history_new(n, &net->wholes), BUSQ_OK);
  for (uint32_t self = 0; self < n; self++) {
    const busq_order_group group = {
        .n_processes = n, .self = self, .waiting_max = waiting_max, .held_max = held_max, .options = options};
    CHECK(busq_order_state_size(order, &group) <= NETWORK_STATE_BYTES);
    busq_order_init(order, net->states[self], &group);
    CHECK(busq_order_verify(order, net->states[self]));
  }
}

static inline void network_deinit(network *net)
{
  busq_history_free(net->history);
  busq_history_free(net->wholes);
}

static inline network_message *network_message_of(network *net, uint64_t name)
{
  for (uint32_t place = 0; place < net->n_messages; place++)
    if (net->messages[place].name == name)
      return &net->messages[place];
  check_fail(__FILE__, __LINE__, "an effect about message %" PRIx64 ", which nobody has submitted", name);
}

static inline uint32_t network_list(uint32_t set, uint32_t *list)
{
  uint32_t count = 0;
  for (uint32_t process = 0; process < NETWORK_PROCESSES; process++)
    if (set & 1u << process)
      list[count++] = process;
  return count;
}

/* ---- performing effects ---- */

static inline void network_send_one(network *net, uint32_t from, uint32_t to, busq_order_packet packet)
{
  CHECK(net->n_packets < NETWORK_PACKETS);
  CHECK(to < net->n && to != from);
  packet.from = from;
  net->n_by_kind[packet.kind]++;
  net->packets[net->n_packets++] = (network_packet){.packet = packet, .to = to};
}

static inline void network_send(network *net, uint32_t from, const busq_order_effect *effect)
{
  const busq_order_packet *packet = &effect->packet;
  const network_message *message = packet->message ? network_message_of(net, packet->message) : NULL;
  CHECK(packet->kind < net->order->n_kinds);
  CHECK(!message || message->is_sent);
  if (net->order->kinds[packet->kind].has_payload)
    CHECK(message->origin == from ? !message->is_done : (message->arrived & ~message->delivered & 1u << from) != 0);
  if (effect->to != BUSQ_TO_ALL && effect->to != BUSQ_TO_DESTINATIONS) {
    network_send_one(net, from, effect->to, *packet);
    return;
  }
  const uint32_t set = effect->to == BUSQ_TO_ALL ? (1u << net->n) - 1 : message->destinations;
  for (uint32_t to = 0; to < net->n; to++)
    if (set & 1u << to && to != from)
      network_send_one(net, from, to, *packet);
}

/* The multicast as a whole is sent with its first copy. */
static inline void network_note_send(network *net, uint32_t process, network_message *message)
{
  uint32_t list[NETWORK_PROCESSES];
  uint32_t everybody = 0;
  bool is_first = true;
  for (uint32_t place = 0; place < net->n_messages; place++)
    if (net->messages[place].whole == message->whole) {
      everybody |= net->messages[place].destinations;
      is_first &= !net->messages[place].is_sent;
    }
  CHECK(!message->is_sent && message->origin == process);
  message->is_sent = true;
  message->sent_at = net->n_log;
  busq_history_send(net->history, process, message->name, list, network_list(message->destinations, list));
  if (is_first)
    busq_history_send(net->wholes, process, message->whole, list, network_list(everybody, list));
}

static inline void network_note_delivery(network *net, uint32_t process, network_message *message)
{
  const uint32_t me = 1u << process;
  CHECK(message->is_sent);
  CHECK(message->destinations & me);
  CHECK(!(message->delivered & me));
  CHECK(message->origin == process ? !message->is_done || message->arrived & me : (message->arrived & me) != 0);
  message->delivered |= me;
  if (!message->first_delivered_at)
    message->first_delivered_at = net->n_log;
  busq_history_deliver(net->history, process, message->name);
  busq_history_deliver(net->wholes, process, message->whole);
}

/* A packet for others has its turn here too, where the whole group takes part. */
static inline void network_note_drop(network *net, uint32_t process, network_message *message)
{
  const uint32_t me = 1u << process;
  CHECK(net->order->traits & BUSQ_ORDER_WHOLE_GROUP && message->origin != process);
  CHECK(!(message->destinations & me) && message->arrived & me && !(message->dropped & me));
  message->dropped |= me;
}

static inline void network_perform(network *net, uint32_t process, const busq_order_effect *effect)
{
  if (effect->kind == BUSQ_DO_SEND) {
    network_send(net, process, effect);
    return;
  }
  network_message *message = network_message_of(net, effect->packet.message);
  if (effect->kind == BUSQ_DO_SENT) {
    network_note_send(net, process, message);
  } else if (effect->kind == BUSQ_DO_DELIVER) {
    network_note_delivery(net, process, message);
  } else if (effect->kind == BUSQ_DO_DROP) {
    network_note_drop(net, process, message);
    return;
  } else {
    CHECK_EQUAL(effect->kind, BUSQ_DO_DONE); /* no order here wants to be woken */
    CHECK(message->is_sent && !message->is_done && message->origin == process);
    message->is_done = true;
    return;
  }
  CHECK(net->n_log < NETWORK_LOG);
  net->log[net->n_log++] = (network_event){.process = process,
                                           .message = (uint32_t)(message - net->messages),
                                           .is_send = effect->kind == BUSQ_DO_SENT};
}

/* ---- steps ---- */

/* Runs a step to its end in a buffer of this size; the effects come one after the other. */
static inline int network_run_step(network *net, char *state, const busq_order_event *event, uint32_t buffer_size,
                                   busq_order_effect *effects, uint32_t *n_effectsp)
{
  busq_order_event now = *event;
  uint32_t n = 0;
  int result;
  bool is_cut;
  do {
    busq_order_effects buffer = {.items = &effects[n], .max = buffer_size};
    CHECK(n + buffer_size <= NETWORK_BOTH);
    result = net->order->step(state, &now, &buffer);
    CHECK(buffer.n <= buffer.max);
    CHECK(busq_order_verify(net->order, state));
    CHECK(result == BUSQ_OK || (!buffer.n && !buffer.is_cut));
    n += buffer.n;
    is_cut = buffer.is_cut;
    now = (busq_order_event){.kind = BUSQ_ON_MORE};
  } while (is_cut);
  *n_effectsp = n;
  return result;
}

static inline bool network_are_equal(const busq_order_effect *one, const busq_order_effect *other)
{
  return one->kind == other->kind && one->to == other->to &&
         memcmp(&one->packet, &other->packet, sizeof one->packet) == 0;
}

static inline int network_step(network *net, uint32_t process, const busq_order_event *event)
{
  static busq_order_effect cut[NETWORK_BOTH], whole[NETWORK_BOTH];
  static char before[NETWORK_STATE_BYTES], copy[NETWORK_STATE_BYTES];
  uint32_t n_cut, n_whole;
  char *state = net->states[process];
  memcpy(before, state, sizeof before);
  memcpy(copy, state, sizeof copy);
  const int result = network_run_step(net, state, event, BUSQ_ORDER_EFFECTS_MIN, cut, &n_cut);
  CHECK_EQUAL(network_run_step(net, copy, event, NETWORK_BOTH / 2, whole, &n_whole), result);
  CHECK_EQUAL(n_cut, n_whole);
  CHECK(memcmp(state, result == BUSQ_OK ? copy : before, sizeof before) == 0);
  for (uint32_t place = 0; place < n_cut; place++) {
    CHECK(network_are_equal(&cut[place], &whole[place]));
    network_perform(net, process, &cut[place]);
  }
  return result;
}

/* Submits a message, or one copy of it; false where the order has no room. */
static inline bool network_submit_copy(network *net, uint32_t process, uint32_t destinations, uint64_t whole)
{
  uint32_t list[NETWORK_PROCESSES];
  const uint64_t name = busq_message_name(process, net->numbers[process] + 1);
  const uint32_t others = destinations & ~(1u << process);
  CHECK(net->n_messages < NETWORK_MESSAGES);
  net->messages[net->n_messages++] = (network_message){
      .name = name, .whole = whole ? whole : name, .origin = process, .destinations = destinations};
  network_list(destinations, list);
  const busq_order_event event = {.kind = BUSQ_ON_SUBMIT,
                                  .to = list[0],
                                  .n_others = network_list(others, (uint32_t[NETWORK_PROCESSES]){0}),
                                  .is_for_me = others != destinations,
                                  .packet = {.message = name}};
  if (network_step(net, process, &event) == BUSQ_OK) {
    net->numbers[process]++;
    return true;
  }
  net->n_messages--;
  return false;
}

/* The packet at this place arrives; false where the order has no room for it, and it stays in flight. */
static inline bool network_arrive_at(network *net, uint32_t place)
{
  const network_packet arriving = net->packets[place];
  network_message *message = NULL;
  busq_order_event event = {.kind = BUSQ_ON_RECEIVE, .packet = arriving.packet};
  if (arriving.packet.message) {
    message = network_message_of(net, arriving.packet.message);
    event.is_for_me = (message->destinations & 1u << arriving.to) != 0;
  }
  const bool brings_payload = message && net->order->kinds[arriving.packet.kind].has_payload;
  if (brings_payload)
    message->arrived |= 1u << arriving.to;
  memmove(&net->packets[place], &net->packets[place + 1], (--net->n_packets - place) * sizeof net->packets[0]);
  if (network_step(net, arriving.to, &event) == BUSQ_OK)
    return true;
  if (brings_payload)
    message->arrived &= ~(1u << arriving.to);
  memmove(&net->packets[place + 1], &net->packets[place], (net->n_packets++ - place) * sizeof net->packets[0]);
  net->packets[place] = arriving;
  return false;
}

/* The oldest packet of this kind between these two; the test knows that there is one. */
static inline void network_arrive(network *net, uint32_t from, uint32_t to, const char *kind)
{
  for (uint32_t place = 0; place < net->n_packets; place++) {
    const network_packet *in_flight = &net->packets[place];
    if (in_flight->packet.from == from && in_flight->to == to &&
        strcmp(net->order->kinds[in_flight->packet.kind].name, kind) == 0) {
      CHECK(network_arrive_at(net, place));
      return;
    }
  }
  check_fail(__FILE__, __LINE__, "no packet '%s' from %u to %u is in flight", kind, from, to);
}

static inline void network_arrive_somewhere(network *net, check_chance *chance)
{
  uint32_t place = (uint32_t)check_below(chance, net->n_packets);
  if (net->order->traits & BUSQ_ORDER_FIFO_CHANNELS)
    for (uint32_t older = 0; older < place; older++)
      if (net->packets[older].to == net->packets[place].to &&
          net->packets[older].packet.from == net->packets[place].packet.from)
        place = older;
  CHECK(network_arrive_at(net, place));
}

/* ---- what remains at the end ---- */

static inline bool network_is_quiet(const network *net)
{
  for (uint32_t process = 0; process < net->n; process++) {
    const busq_order_gauge gauge = busq_order_look(net->order, net->states[process]);
    if (gauge.waiting || gauge.held || gauge.is_secret)
      return false;
  }
  return !net->n_packets;
}

static inline bool network_has_ended(const network *net)
{
  const uint32_t everybody = (1u << net->n) - 1;
  for (uint32_t place = 0; net->order->traits & BUSQ_ORDER_WHOLE_GROUP && place < net->n_messages; place++) {
    const network_message *message = &net->messages[place];
    if (message->dropped != (everybody & ~message->destinations & ~(1u << message->origin)))
      return false;
  }
  for (uint32_t place = 0; place < net->n_messages; place++)
    if (!net->messages[place].is_done || net->messages[place].delivered != net->messages[place].destinations)
      return false;
  return true;
}

static inline uint64_t network_faults(const network *net, busq_property property)
{
  busq_judgement judgement;
  const bool is_of_wholes = property == BUSQ_PROPERTY_CONSISTENT || property == BUSQ_PROPERTY_TOTAL;
  CHECK_EQUAL(busq_history_judge(is_of_wholes ? net->wholes : net->history, 1u << property, &judgement), BUSQ_OK);
  return judgement.verdicts[property].count;
}

/* Whether there is a crown: messages contracted to points, before each other where any of their events are, go in a
 * circle. */
static inline bool network_has_crown(const network *net)
{
  uint64_t after[NETWORK_MESSAGES] = {0};
  for (uint32_t first = 1; first < net->n_log; first++)
    for (uint32_t second = first + 1; second < net->n_log; second++)
      if (net->log[first].process == net->log[second].process && net->log[first].message != net->log[second].message)
        after[net->log[first].message] |= UINT64_C(1) << net->log[second].message;
  for (uint32_t middle = 0; middle < net->n_messages; middle++)
    for (uint32_t first = 0; first < net->n_messages; first++)
      if (after[first] & UINT64_C(1) << middle)
        after[first] |= after[middle];
  for (uint32_t message = 0; message < net->n_messages; message++)
    if (after[message] & UINT64_C(1) << message)
      return true;
  return false;
}

/* Deliveries that come, at the same process, after a message which was sent when theirs had been delivered
 * somewhere: late even for an observer that hears of deliveries by telephone. */
static inline uint32_t network_late_by_telephone(const network *net)
{
  uint32_t count = 0;
  for (uint32_t late = 1; late < net->n_log; late++)
    for (uint32_t before = 1; before < late; before++) {
      const network_event *first = &net->log[before], *second = &net->log[late];
      count += !first->is_send && !second->is_send && first->process == second->process &&
               net->messages[second->message].first_delivered_at < net->messages[first->message].sent_at;
    }
  return count;
}

/* Deliveries that come, at the same process, after a message which was sent when theirs had been delivered by its
 * sender, or by somebody of whose messages that sender had delivered one since, and so on: late behind what a
 * delivery has caused. */
static inline uint32_t network_late_behind_effects(const network *net)
{
  uint64_t known[NETWORK_PROCESSES] = {0}, carried[NETWORK_MESSAGES] = {0}, got[NETWORK_PROCESSES] = {0};
  uint32_t count = 0;
  for (uint32_t place = 1; place < net->n_log; place++) {
    const network_event *event = &net->log[place];
    if (event->is_send) {
      carried[event->message] = known[event->process];
      continue;
    }
    for (uint32_t cause = 0; cause < net->n_messages; cause++)
      count += carried[event->message] >> cause & 1 && net->messages[cause].destinations >> event->process & 1 &&
               !(got[event->process] >> cause & 1);
    got[event->process] |= UINT64_C(1) << event->message;
    known[event->process] |= carried[event->message] | UINT64_C(1) << event->message;
  }
  return count;
}

#endif /* BUSQ_TESTS_NETWORK_H */
