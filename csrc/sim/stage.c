/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/stage.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/growing.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int out_of_memory(void)
{
  return busq_error(BUSQ_NO_SPACE, "no memory for the stage: use fewer processes or messages");
}

/* An effect that no driver could perform; the first such fault is the one that is reported. */
#define BROKEN(stage, ...) \
  ((void)((stage)->is_broken || (busq_error(BUSQ_CORRUPT, __VA_ARGS__), (stage)->is_broken = true)))

static bool add_event(busq_stage *stage, uint32_t kind, uint64_t message, const busq_stage_packet *packet,
                      uint32_t peer)
{
  if (!busq_reserve(&stage->events, &stage->events_capacity, stage->n_events + 1, sizeof *stage->events))
    return false;
  stage->events[stage->n_events++] = (busq_stage_event){
      .message = message,
      .step = stage->step,
      .process = stage->acting,
      .kind = kind,
      .packet = packet ? packet->packet : BUSQ_STAGE_NOTHING,
      .what = packet ? packet->what : BUSQ_STAGE_NOTHING,
      .peer = peer,
  };
  return true;
}

/* ---- which process keeps what ---- */

static busq_stage_process *acting(busq_stage *stage)
{
  return &stage->processes[stage->acting];
}

static busq_stage_kept *find_kept(busq_stage *stage, uint64_t message)
{
  busq_stage_process *process = acting(stage);
  for (uint32_t place = 0; place < process->n_kept; place++)
    if (process->kept[place].message == message)
      return &process->kept[place];
  return NULL;
}

static bool is_kept(busq_stage *stage, uint64_t message)
{
  return (message && message == stage->visiting) || find_kept(stage, message);
}

static bool keep(busq_stage *stage, uint64_t message, uint32_t reason)
{
  busq_stage_process *process = acting(stage);
  busq_stage_kept *kept = find_kept(stage, message);
  if (!kept) {
    if (!busq_reserve(&process->kept, &process->kept_capacity, process->n_kept + 1, sizeof *process->kept))
      return false;
    kept = &process->kept[process->n_kept++];
    *kept = (busq_stage_kept){.message = message};
  }
  kept->reasons |= reason;
  return true;
}

static void let_go(busq_stage *stage, busq_stage_kept *kept, uint32_t reason)
{
  kept->reasons &= ~reason;
  if (!(kept->reasons & (STAGE_AS_ORIGIN | STAGE_AS_DESTINATION | STAGE_AS_WITNESS)))
    *kept = acting(stage)->kept[--acting(stage)->n_kept];
}

static const uint32_t *vector_of(const busq_order_world *world, uint64_t message)
{
  busq_stage *stage = ((const busq_stage_world *)(const void *)world)->stage;
  const busq_order_world *kept = &stage->messages.world;
  const uint32_t *clock = is_kept(stage, message) ? kept->vector(kept, message) : NULL;
  if (!clock)
    BROKEN(stage, "process %u asks for the clock of message %" PRIx64 ", which it does not keep", stage->acting,
           message);
  return clock ? clock : stage->blank;
}

static const uint32_t *row_of(const busq_order_world *world, uint64_t message, uint32_t row)
{
  busq_stage *stage = ((const busq_stage_world *)(const void *)world)->stage;
  const busq_order_world *kept = &stage->messages.world;
  const uint32_t *clock = is_kept(stage, message) ? kept->row(kept, message, row) : NULL;
  if (!clock)
    BROKEN(stage, "process %u asks for row %u of the clock of message %" PRIx64 ", which it does not keep",
           stage->acting, row, message);
  return clock ? clock : stage->blank;
}

/* ---- effects ---- */

/* Whether the acting process still does this; one that is doomed does only so much. */
static bool lives_to_do_it(busq_stage *stage)
{
  if (stage->acting != stage->doomed)
    return true;
  stage->is_dying |= !stage->units;
  return !stage->is_dying && stage->units--;
}

static bool send_to(busq_stage *stage, uint32_t to, const busq_order_packet *packet)
{
  if (to == stage->acting || to >= stage->group.n_processes) {
    BROKEN(stage, "process %u sends a packet to process %u", stage->acting, to);
    return true;
  }
  if (stage->processes[to].is_dead || !lives_to_do_it(stage))
    return true;
  if (!busq_reserve(&stage->packets, &stage->packets_capacity, stage->n_packets + 1, sizeof *stage->packets))
    return false;
  busq_stage_packet *sent = &stage->packets[stage->n_packets++];
  *sent = (busq_stage_packet){
      .message = packet->message,
      .stamp = packet->stamp,
      .note = packet->note,
      .packet = stage->packets_ever++,
      .what = packet->kind,
      .from = stage->acting,
      .to = to,
  };
  if (stage->order->kinds[packet->kind].has_payload)
    busq_messages_hold(&stage->messages, packet->message);
  return add_event(stage, BUSQ_STAGE_SEND, packet->message, sent, to);
}

static bool send(busq_stage *stage, uint32_t to, const busq_order_packet *packet)
{
  const busq_message_facts *facts = busq_messages_find(&stage->messages, packet->message);
  if (packet->kind >= stage->order->n_kinds || (packet->message && !facts)) {
    BROKEN(stage, "process %u sends a packet of kind %u about message %" PRIx64, stage->acting, packet->kind,
           packet->message);
    return true;
  }
  if (stage->order->kinds[packet->kind].has_payload && !is_kept(stage, packet->message)) {
    BROKEN(stage, "process %u sends the payload of message %" PRIx64 ", which it does not keep", stage->acting,
           packet->message);
    return true;
  }
  if (to != BUSQ_TO_ALL && to != BUSQ_TO_DESTINATIONS && to != BUSQ_TO_REST)
    return send_to(stage, to, packet);
  const bool is_to_all = to != BUSQ_TO_DESTINATIONS;
  const uint32_t left_out = to == BUSQ_TO_REST ? busq_message_origin(packet->message) : stage->acting;
  const uint32_t *destinations = facts ? busq_messages_destinations(&stage->messages, packet->message, facts) : NULL;
  const uint32_t count = is_to_all ? stage->group.n_processes : facts ? facts->n_destinations : 0;
  uint32_t begin = 0;
  while (stage->acting == stage->doomed && begin < count && (is_to_all ? begin : destinations[begin]) < stage->first)
    begin++;
  bool is_good = true;
  for (uint32_t place = 0; place < count && is_good; place++) {
    const uint32_t at = (begin + place) % count;
    to = is_to_all ? at : destinations[at];
    is_good = to == stage->acting || to == left_out || send_to(stage, to, packet);
  }
  return is_good;
}

/* Whether the acting process has delivered or dropped the message before; that is no fault of the order, but of a
 * network that has doubled a packet. */
static bool has_ended_before(const busq_stage *stage, uint64_t message)
{
  for (uint32_t place = 0; stage->n_doubled && place < stage->n_events; place++) {
    const busq_stage_event *event = &stage->events[place];
    const bool is_end = event->kind == BUSQ_STAGE_DELIVER || event->kind == BUSQ_STAGE_DROP;
    if (is_end && event->message == message && event->process == stage->acting)
      return true;
  }
  return false;
}

static bool end_again(busq_stage *stage, uint32_t kind, uint64_t message)
{
  busq_stage_kept *kept = find_kept(stage, message);
  if (kept)
    let_go(stage, kept, STAGE_AS_DESTINATION);
  return add_event(stage, kind, message, NULL, BUSQ_STAGE_NOTHING);
}

/* Delivered or dropped: here the message is not needed any more. */
static bool end(busq_stage *stage, uint32_t kind, uint64_t message)
{
  if (has_ended_before(stage, message))
    return end_again(stage, kind, message);
  busq_stage_kept *kept = find_kept(stage, message);
  const bool is_witness = kept && kept->reasons == STAGE_AS_WITNESS && kind == BUSQ_STAGE_DROP;
  const bool is_owed = kept && kept->reasons & (STAGE_AS_DESTINATION | STAGE_IS_OWED);
  if (!is_witness && !is_owed) {
    BROKEN(stage, "process %u delivers or drops message %" PRIx64 ", which it does not keep, or get, or has delivered",
           stage->acting, message);
    return true;
  }
  let_go(stage, kept, STAGE_AS_DESTINATION | STAGE_AS_WITNESS | STAGE_IS_OWED);
  busq_messages_release(&stage->messages, message);
  if (is_witness)
    return true;
  stage->n_undelivered--;
  return add_event(stage, kind, message, NULL, BUSQ_STAGE_NOTHING);
}

static bool finish(busq_stage *stage, uint64_t message)
{
  busq_stage_kept *kept = find_kept(stage, message);
  if (!kept || !(kept->reasons & STAGE_AS_ORIGIN)) {
    BROKEN(stage, "process %u is done with message %" PRIx64 ", which is not its own or was done before", stage->acting,
           message);
    return true;
  }
  if (!add_event(stage, BUSQ_STAGE_DONE, message, NULL, BUSQ_STAGE_NOTHING))
    return false;
  let_go(stage, kept, STAGE_AS_ORIGIN);
  busq_messages_release(&stage->messages, message);
  if (acting(stage)->unfinished == message)
    acting(stage)->unfinished = 0;
  return true;
}

/* Puts it into the last event. */
static bool note(busq_stage *stage, uint32_t what)
{
  if (stage->n_events)
    stage->events[stage->n_events - 1].note = what;
  return true;
}

static bool perform(busq_stage *stage, const busq_order_effect *effect)
{
  const uint64_t message = effect->packet.message;
  if ((effect->kind == BUSQ_DO_SENT || effect->kind == BUSQ_DO_DELIVER) && !lives_to_do_it(stage))
    return true;
  switch (effect->kind) {
  case BUSQ_DO_SEND:
    return send(stage, effect->to, &effect->packet);
  case BUSQ_DO_DELIVER:
    return end(stage, BUSQ_STAGE_DELIVER, message) && note(stage, effect->packet.note);
  case BUSQ_DO_DROP:
    return end(stage, BUSQ_STAGE_DROP, message);
  case BUSQ_DO_SENT:
    return busq_messages_set_clock(&stage->messages, message, effect->clock) == BUSQ_OK &&
           add_event(stage, BUSQ_STAGE_SENT, message, NULL, BUSQ_STAGE_NOTHING) && note(stage, effect->packet.note);
  case BUSQ_DO_DONE:
    return finish(stage, message);
  case BUSQ_DO_ALARM:
    acting(stage)->n_alarms++;
    stage->n_alarms++;
    return true;
  case BUSQ_DO_IGNORE:
    stage->ignores = true;
    return true;
  default:
    BROKEN(stage, "process %u gives the effect %u, which does not exist", stage->acting, effect->kind);
    return true;
  }
}

/* ---- steps ---- */

/* Comes before the effects of the step, so that what a process does after it was let out of its silence reads that
 * way. */
static bool note_mode(busq_stage *stage)
{
  const busq_order_gauge gauge = busq_order_look(stage->order, acting(stage)->state);
  if (gauge.is_secret == acting(stage)->is_secret)
    return true;
  acting(stage)->is_secret = gauge.is_secret;
  return add_event(stage, gauge.is_secret ? BUSQ_STAGE_SECRET : BUSQ_STAGE_OPEN, 0, NULL, BUSQ_STAGE_NOTHING);
}

static int broken(busq_stage *stage)
{
  char reason[512];
  snprintf(reason, sizeof reason, "%s", busq_error_text());
  return busq_error(BUSQ_CORRUPT, "order %s breaks the rules of orders: %s", stage->order->name, reason);
}

/* Orders promise nothing of a packet that comes twice: they may refuse it, or go astray. */
static int judge_step(void *driver, const busq_order_event *event, const busq_order_effects *effects, int result)
{
  busq_stage *stage = driver;
  if (result == BUSQ_FULL)
    return result;
  if (result != BUSQ_OK && !stage->n_doubled)
    BROKEN(stage, "process %u refuses an event of kind %u with code %d", stage->acting, event->kind, result);
  if (!effects->is_cut && !stage->n_doubled && !stage->bears_unsound &&
      !busq_order_verify(stage->order, acting(stage)->state))
    BROKEN(stage, "the state of process %u does not verify", stage->acting);
  return note_mode(stage) ? BUSQ_OK : BUSQ_NO_SPACE;
}

static int perform_one(void *driver, busq_order_effect *effect)
{
  if (!perform(driver, effect))
    return BUSQ_NO_SPACE;
  return ((const busq_stage *)driver)->is_dying ? BUSQ_PEER_DEAD : BUSQ_OK;
}

static int end_step(void *driver)
{
  busq_stage *stage = driver;
  stage->visiting = 0;
  return stage->is_broken ? BUSQ_CORRUPT : BUSQ_OK;
}

/* An event of the acting process and all that comes of it.  The buffer is as small as an order must bear. */
static int step(busq_stage *stage, busq_order_event *event)
{
  static const busq_order_hands hands = {judge_step, perform_one, end_step};
  busq_order_effect items[BUSQ_ORDER_EFFECTS_MIN];
  busq_order_effects effects = {.items = items, .max = BUSQ_ORDER_EFFECTS_MIN};
  event->world = &stage->world.world;
  stage->ignores = false;
  const int result = busq_order_run(stage->order, acting(stage)->state, event, &effects, &hands, stage);
  if (stage->acting == stage->doomed && (result == BUSQ_OK || result == BUSQ_PEER_DEAD)) {
    stage->is_dying = true;
    stage->visiting = 0;
    return BUSQ_OK;
  }
  if (stage->is_broken && result != BUSQ_FULL)
    return broken(stage);
  return result == BUSQ_NO_SPACE ? out_of_memory() : result;
}

static int submit_step(busq_stage *stage, uint64_t message)
{
  busq_order_event event = {.kind = BUSQ_ON_SUBMIT, .packet.message = message};
  busq_messages_address(&stage->messages, stage->others, &event);
  return step(stage, &event);
}

/* Hands the order what the application wants to send, as long as it takes it. */
static int pump(busq_stage *stage)
{
  busq_stage_process *process = acting(stage);
  while (process->n_submits && !process->unfinished && !stage->is_dying) {
    if (stage->order->traits & BUSQ_ORDER_RENDEZVOUS)
      process->unfinished = process->submits[0];
    const int result = submit_step(stage, process->submits[0]);
    if (result == BUSQ_FULL) {
      process->unfinished = 0;
      return BUSQ_OK;
    }
    if (result != BUSQ_OK)
      return result;
    memmove(process->submits, process->submits + 1, --process->n_submits * sizeof *process->submits);
    stage->n_waiting--;
  }
  return BUSQ_OK;
}

/* ---- what the user decides ---- */

static int die(busq_stage *stage)
{
  if (stage->doomed == stage->acting)
    stage->doomed = BUSQ_STAGE_NOTHING;
  stage->is_dying = false;
  busq_stage_bury(stage, stage->acting);
  return add_event(stage, BUSQ_STAGE_DIE, 0, NULL, BUSQ_STAGE_NOTHING) ? BUSQ_OK : out_of_memory();
}

/* The submits that wait come next, unless the process is dead by now. */
static int go_on(busq_stage *stage)
{
  const int result = pump(stage);
  return result == BUSQ_OK && stage->is_dying ? die(stage) : result;
}

static int begin(busq_stage *stage, uint32_t process)
{
  if (stage->is_broken)
    return busq_error(BUSQ_CORRUPT, "order %s broke the rules of orders before: use a new stage", stage->order->name);
  if (process >= stage->group.n_processes)
    return busq_error(BUSQ_INVALID, "process %u: the stage has %u", process, stage->group.n_processes);
  if (stage->processes[process].is_dead)
    return busq_error(BUSQ_INVALID, "process %u is dead", process);
  stage->acting = process;
  stage->step++;
  return BUSQ_OK;
}

static int submit_one(busq_stage *stage, const uint32_t *destinations, uint32_t n_destinations, uint32_t *firstp,
                      uint64_t *messagep)
{
  busq_stage_process *process = acting(stage);
  if (!busq_reserve(&process->submits, &process->submits_capacity, process->n_submits + 1, sizeof *process->submits) ||
      !busq_reserve(&process->firsts, &process->firsts_capacity, process->n_firsts + 1, sizeof *process->firsts))
    return out_of_memory();
  const int result = busq_messages_add(&stage->messages, stage->acting, destinations, n_destinations, messagep);
  if (result != BUSQ_OK)
    return result;
  if (!*firstp)
    *firstp = busq_message_number(*messagep);
  process->firsts[process->n_firsts++] = *firstp;
  process->submits[process->n_submits++] = *messagep;
  stage->n_waiting++;
  stage->n_undelivered += n_destinations;
  const uint32_t peer = n_destinations == 1 ? *destinations : BUSQ_STAGE_NOTHING;
  const bool is_for_me = busq_messages_is_for(&stage->messages, *messagep, stage->acting);
  if (!keep(stage, *messagep, STAGE_AS_ORIGIN | (is_for_me ? STAGE_IS_OWED : 0)) ||
      !add_event(stage, BUSQ_STAGE_SUBMIT, *messagep, NULL, peer))
    return out_of_memory();
  return BUSQ_OK;
}

static int check_destinations(const busq_stage *stage, const uint32_t *destinations, uint32_t n_destinations)
{
  if (!n_destinations)
    return busq_error(BUSQ_INVALID, "no destination: expected at least one");
  for (uint32_t place = 0; place < n_destinations; place++) {
    if (destinations[place] >= stage->group.n_processes)
      return busq_error(BUSQ_INVALID, "process %u: the stage has %u", destinations[place], stage->group.n_processes);
    for (uint32_t other = 0; other < place; other++)
      if (destinations[other] == destinations[place])
        return busq_error(BUSQ_INVALID, "process %u is given twice: a message goes to each destination once",
                          destinations[place]);
  }
  return BUSQ_OK;
}

int busq_stage_submit(busq_stage *stage, uint32_t process, const uint32_t *destinations, uint32_t n_destinations,
                      uint64_t *namep)
{
  int result = check_destinations(stage, destinations, n_destinations);
  if (result == BUSQ_OK)
    result = begin(stage, process);
  const bool is_split = stage->order->traits & BUSQ_ORDER_POINT_TO_POINT;
  uint32_t first = 0;
  for (uint32_t place = 0; place < (is_split ? n_destinations : 1) && result == BUSQ_OK; place++) {
    uint64_t message;
    result = submit_one(stage, destinations + place, is_split ? 1 : n_destinations, &first, &message);
  }
  *namep = busq_message_name(process, first);
  return result == BUSQ_OK ? go_on(stage) : result;
}

/* The place of a packet; BUSQ_INVALID where it is not in flight. */
static int find_packet(const busq_stage *stage, uint32_t packet, uint32_t *placep)
{
  uint32_t low = 0;
  uint32_t high = stage->n_packets;
  while (low < high) {
    const uint32_t middle = (low + high) / 2;
    if (stage->packets[middle].packet < packet)
      low = middle + 1;
    else
      high = middle;
  }
  *placep = low;
  if (low < stage->n_packets && stage->packets[low].packet == packet)
    return BUSQ_OK;
  return busq_error(BUSQ_INVALID, "packet %u is not in flight; %u are", packet, stage->n_packets);
}

/* The place of the oldest packet in the channel of this one. */
static uint32_t oldest_beside(const busq_stage *stage, uint32_t place)
{
  const busq_stage_packet *packet = &stage->packets[place];
  uint32_t oldest = 0;
  while (stage->packets[oldest].from != packet->from || stage->packets[oldest].to != packet->to)
    oldest++;
  return oldest;
}

static void take_out(busq_stage *stage, uint32_t place)
{
  busq_stage_packet *packet = &stage->packets[place];
  memmove(packet, packet + 1, (--stage->n_packets - place) * sizeof *packet);
}

/* Returns where a message that came is kept beyond the step: at its destinations; where the whole group takes part,
 * at all others too. */
static uint32_t reason_to_keep(const busq_stage *stage, const busq_stage_packet *packet)
{
  if (!stage->order->kinds[packet->what].has_payload)
    return 0;
  if (busq_messages_is_for(&stage->messages, packet->message, packet->to))
    return STAGE_AS_DESTINATION;
  return busq_order_keeps_for_others(stage->order) ? STAGE_AS_WITNESS : 0;
}

static int receive_step(busq_stage *stage, const busq_stage_packet *packet)
{
  busq_order_event event = {
      .kind = BUSQ_ON_RECEIVE,
      .is_for_me = busq_messages_is_for(&stage->messages, packet->message, packet->to),
      .packet = {packet->message, packet->stamp, packet->note, packet->what, packet->from, 0},
  };
  stage->visiting = stage->order->kinds[packet->what].has_payload ? packet->message : 0;
  const int result = step(stage, &event);
  stage->visiting = 0;
  return result;
}

static int receive_at(busq_stage *stage, uint32_t place)
{
  const busq_stage_packet packet = stage->packets[place];
  int result = begin(stage, packet.to);
  if (result != BUSQ_OK)
    return result;
  const uint32_t n_events = stage->n_events;
  const uint32_t reason = reason_to_keep(stage, &packet);
  const busq_stage_kept *kept = find_kept(stage, packet.message);
  const bool is_new = reason && !(kept && kept->reasons & reason);
  if ((is_new && !keep(stage, packet.message, reason)) ||
      !add_event(stage, BUSQ_STAGE_RECEIVE, packet.message, &packet, packet.from))
    return out_of_memory();
  result = receive_step(stage, &packet);
  if (result == BUSQ_FULL) {
    stage->n_events = n_events;
    if (is_new)
      let_go(stage, find_kept(stage, packet.message), reason);
    return result;
  }
  if (result != BUSQ_OK)
    return result;
  take_out(stage, place);
  /* A witness goes on using what the packet brought. */
  if (stage->order->kinds[packet.what].has_payload && !(is_new && reason == STAGE_AS_WITNESS && !stage->ignores))
    busq_messages_release(&stage->messages, packet.message);
  busq_stage_kept *left = find_kept(stage, packet.message); /* not where the same step was done with it */
  if (left && is_new && stage->ignores)
    let_go(stage, left, reason);
  return go_on(stage);
}

int busq_stage_receive(busq_stage *stage, uint32_t packet)
{
  uint32_t place;
  const int result = find_packet(stage, packet, &place);
  if (result != BUSQ_OK)
    return result;
  const uint32_t oldest = oldest_beside(stage, place);
  if (stage->is_fifo && oldest != place)
    return busq_error(BUSQ_INVALID, "packet %u can't arrive before packet %u: the channels of order %s keep the order",
                      packet, stage->packets[oldest].packet, stage->order->name);
  return receive_at(stage, place);
}

int busq_stage_lose(busq_stage *stage, uint32_t packet)
{
  uint32_t place;
  const int result = find_packet(stage, packet, &place);
  if (result != BUSQ_OK)
    return result;
  if (stage->order->kinds[stage->packets[place].what].has_payload)
    busq_messages_release(&stage->messages, stage->packets[place].message);
  take_out(stage, place);
  return BUSQ_OK;
}

int busq_stage_double(busq_stage *stage, uint32_t packet)
{
  uint32_t place;
  int result = find_packet(stage, packet, &place);
  if (result == BUSQ_OK)
    result = begin(stage, stage->packets[place].from);
  if (result != BUSQ_OK)
    return result;
  const busq_stage_packet *doubled = &stage->packets[place];
  const busq_order_packet copy = {doubled->message, doubled->stamp, doubled->note, doubled->what, doubled->from, 0};
  stage->n_doubled++;
  return send_to(stage, doubled->to, &copy) ? BUSQ_OK : out_of_memory();
}

int busq_stage_tick(busq_stage *stage, uint32_t process)
{
  const int result = begin(stage, process);
  if (result != BUSQ_OK)
    return result;
  if (!acting(stage)->n_alarms)
    return busq_error(BUSQ_INVALID, "process %u has set no alarm", process);
  acting(stage)->n_alarms--;
  stage->n_alarms--;
  busq_order_event event = {.kind = BUSQ_ON_TICK};
  const int outcome = step(stage, &event);
  return outcome == BUSQ_OK ? go_on(stage) : outcome;
}

int busq_stage_crash(busq_stage *stage, uint32_t process)
{
  const int result = begin(stage, process);
  if (result == BUSQ_OK && stage->group.n_processes > BUSQ_ORDER_MORTALS_MAX)
    return busq_error(BUSQ_INVALID, "%u processes: where one dies at most %d are expected", stage->group.n_processes,
                      BUSQ_ORDER_MORTALS_MAX);
  return result == BUSQ_OK ? die(stage) : result;
}

int busq_stage_doom(busq_stage *stage, uint32_t process, uint32_t units, uint32_t first)
{
  const int result = begin(stage, process);
  if (result != BUSQ_OK)
    return result;
  stage->step--; /* nothing has happened so far */
  if (!units || stage->group.n_processes > BUSQ_ORDER_MORTALS_MAX)
    return busq_error(BUSQ_INVALID, "a process dies behind %u effects: expected one at least, and a group of at most %d",
                      units, BUSQ_ORDER_MORTALS_MAX);
  if (first >= stage->group.n_processes)
    return busq_error(BUSQ_INVALID, "there is no process %u with which multicasts could begin", first);
  if (stage->doomed != BUSQ_STAGE_NOTHING && stage->doomed != process)
    return busq_error(BUSQ_INVALID, "process %u is doomed: expected one at a time", stage->doomed);
  stage->doomed = process;
  stage->units = units;
  stage->first = first;
  return BUSQ_OK;
}

int busq_stage_learn(busq_stage *stage, uint32_t process, uint32_t dead)
{
  int result = begin(stage, process);
  if (result != BUSQ_OK)
    return result;
  uint32_t n_packets = 0;
  for (uint32_t place = 0; place < stage->n_packets; place++)
    n_packets += stage->packets[place].from == dead && stage->packets[place].to == process;
  const busq_order_group *group = acting(stage)->state;
  if (dead >= group->n_processes || !stage->processes[dead].is_dead || busq_group_suspects(group, dead) || n_packets ||
      !(group->options & BUSQ_OPTION_GO_ON))
    return busq_error(BUSQ_INVALID, "process %u can't learn that process %u is dead: that it is, does not know, has got "
                      "all its packets (%u are in flight), and order %s has on_crash=go-on, was expected",
                      process, dead, n_packets, stage->order->name);
  busq_order_event event = {.kind = BUSQ_ON_SUSPECT, .packet.from = dead};
  if (!add_event(stage, BUSQ_STAGE_LEARN, 0, NULL, dead))
    return out_of_memory();
  result = step(stage, &event);
  return result == BUSQ_OK ? go_on(stage) : result;
}

/* The process of the alarm with this number. */
static uint32_t find_alarm(const busq_stage *stage, uint64_t alarm)
{
  uint32_t process = 0;
  while (alarm >= stage->processes[process].n_alarms)
    alarm -= stage->processes[process++].n_alarms;
  return process;
}

/* Lets the packet at this place arrive, or the oldest of its channel; where its receiver has no room, one that comes
 * later in the list.  BUSQ_FULL: no packet finds room. */
static int receive_near(busq_stage *stage, uint32_t place)
{
  int result = BUSQ_FULL;
  for (uint32_t more = 0; more < stage->n_packets && result == BUSQ_FULL; more++) {
    const uint32_t chosen = (uint32_t)(((uint64_t)place + more) % stage->n_packets);
    result = receive_at(stage, stage->is_fifo ? oldest_beside(stage, chosen) : chosen);
  }
  return result;
}

int busq_stage_run(busq_stage *stage, uint64_t seed, uint64_t limit, uint32_t is_hasty, uint64_t *countp)
{
  uint64_t random = busq_hash_mix(seed);
  int result = BUSQ_OK;
  for (*countp = 0; *countp < limit && result == BUSQ_OK; ++*countp) {
    const bool is_idle = !stage->n_packets;
    uint32_t process, dead = BUSQ_STAGE_NOTHING;
    if (is_idle && busq_stage_find_notice(stage, &process, &dead)) {
      result = busq_stage_learn(stage, process, dead);
      continue;
    }
    if (is_idle && (!stage->n_alarms || !stage->n_undelivered))
      break;
    random = busq_hash_mix(random + UINT64_C(0x9e3779b97f4a7c15));
    const uint64_t choice = random % (stage->n_packets + (is_hasty || is_idle ? stage->n_alarms : 0));
    if (choice >= stage->n_packets)
      result = busq_stage_tick(stage, find_alarm(stage, choice - stage->n_packets));
    else
      result = receive_near(stage, (uint32_t)choice);
  }
  return result == BUSQ_FULL ? BUSQ_OK : result;
}

/* ---- life ---- */

static int init_processes(busq_stage *stage)
{
  const int result = busq_messages_init(&stage->messages, stage->group.n_processes, stage->order->clock);
  stage->processes = calloc(stage->group.n_processes, sizeof *stage->processes);
  stage->blank = calloc(busq_clock_words(BUSQ_CLOCK_LIST, stage->group.n_processes), sizeof *stage->blank);
  stage->others = calloc(stage->group.n_processes, sizeof *stage->others);
  if (result != BUSQ_OK || !stage->processes || !stage->blank || !stage->others)
    return out_of_memory();
  busq_order_group group = stage->group;
  for (group.self = 0; group.self < group.n_processes; group.self++) {
    void *state = calloc(1, busq_order_state_size(stage->order, &group));
    if (!state)
      return out_of_memory();
    stage->processes[group.self].state = state;
    busq_order_init(stage->order, state, &group);
    if (!busq_order_verify(stage->order, state))
      return busq_error(BUSQ_CORRUPT, "order %s: the first state of process %u does not verify", stage->order->name,
                        group.self);
  }
  return BUSQ_OK;
}

int busq_stage_new(const char *order, const busq_stage_config *config, busq_stage **stagep)
{
  if (config->channels > BUSQ_CHANNELS_UNORDERED)
    return busq_error(BUSQ_INVALID, "there are no channels %u", config->channels);
  if (!config->processes || config->processes > 4096 || !config->waiting_max || !config->held_max)
    return busq_error(BUSQ_INVALID,
                      "%u processes with room for %u and %u messages: expected 1 to 4096, and room for one",
                      config->processes, config->waiting_max, config->held_max);
  uint32_t options = 0;
  const busq_order *found = busq_order_parse(order, &options);
  if (!found)
    return BUSQ_INVALID;
  if (config->processes > busq_order_processes_max(found, options))
    return busq_error(BUSQ_INVALID, "%s: %u processes: expected at most %d", order, config->processes, BUSQ_ORDER_MORTALS_MAX);
  const int checked = busq_order_check_in_flight(options, (uint64_t)config->processes * config->waiting_max);
  if (checked != BUSQ_OK)
    return checked;
  busq_stage *stage = calloc(1, sizeof *stage);
  if (!stage)
    return out_of_memory();
  stage->order = found;
  stage->is_fifo = busq_channels_keep_order(found, options, config->channels);
  stage->bears_unsound = config->bears_unsound;
  stage->doomed = BUSQ_STAGE_NOTHING;
  stage->world = (busq_stage_world){.world = {.vector = vector_of, .row = row_of}, .stage = stage};
  stage->group = (busq_order_group){
      .n_processes = config->processes,
      .waiting_max = config->waiting_max,
      .held_max = config->held_max,
      .options = options,
      .patience_ns = 1,
  };
  const int result = init_processes(stage);
  if (result == BUSQ_OK)
    *stagep = stage;
  else
    busq_stage_free(stage);
  return result;
}

void busq_stage_free(busq_stage *stage)
{
  if (!stage)
    return;
  for (uint32_t process = 0; stage->processes && process < stage->group.n_processes; process++) {
    free(stage->processes[process].state);
    free(stage->processes[process].submits);
    free(stage->processes[process].kept);
    free(stage->processes[process].firsts);
  }
  busq_messages_deinit(&stage->messages);
  free(stage->processes);
  free(stage->blank);
  free(stage->others);
  free(stage->packets);
  free(stage->events);
  free(stage);
}
