/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order "wbam": a Skeen whose processes are replicated (Gotsman, Lefort and Chockler: White-Box Atomic Multicast, DSN 2019).
 * Processes with neighbouring numbers form a group: three, or as many as the option group= has; the last may be smaller.  A
 * message concerns the groups of its destinations.  Each has a leader, at first its lowest process; a *quorum* is more than half.
 *
 *   submit m:                 send MULTICAST(m) to the leaders of the groups of m
 *   leader gets MULTICAST:    for the first time: tick the clock; propose (clock, group), which is the LocalTS of m; m is PROPOSED.  Send
 *                             ACCEPT(m, LocalTS) to all processes of the groups of m, once as this leader
 *   ACCEPT from the leaders of all groups of m, one's own among them:   m is ACCEPTED with the LocalTS of one's own group; clock =
 *                             max(clock, the largest of them); send ACCEPT_ACK(m, these leaders) to them
 *   leader gets ACCEPT_ACK of the same leaders from a quorum of each group:   GlobalTS = the largest LocalTS; m is COMMITTED
 *   at a leader, GlobalTS of m is below the LocalTS of all that is PROPOSED or ACCEPTED:   send DELIVER(m, GlobalTS) to one's group, in
 *                             the order of GlobalTS
 *   receive DELIVER from one's leader:   if GlobalTS is above that of all that was delivered here: clock = max(clock, GlobalTS); deliver
 *                             m, if this is one of its destinations; send DELIVERED(m) to its sender
 *   sender gets DELIVERED from all processes of the groups of m that are not suspected:   m is done
 *
 * A sender has WINDOW messages under way at most, so what is known of the one before the last WINDOW is forgotten.
 *
 * With the option on_crash=go-on a leader that dies has a successor: order/wbam_recovery.h.
 *
 * Guarantee: total order, that of GlobalTS.  As in order/skeen.c, what comes later has a larger one: a quorum has passed the GlobalTS of m
 * before m is COMMITTED anywhere, and so has any process that leads later.  While more than half of each group live,
 * it is uniform: these deliver all that any process has delivered, and all that one of them has sent, and none waits for ever.
 * No process waits for one that is slow while a quorum is not.
 *
 * Packets: among g groups with p processes in all, where the sender is in none: g MULTICAST, g (p - 1) ACCEPT, as many ACCEPT_ACK,
 * p - g DELIVER, p DELIVERED.
 *
 * Not given: FIFO, and so no causality, as in order/skeen.c; anything without FIFO channels; groups of more than
 * BUSQ_ORDER_MORTALS_MAX processes.  A group half of which is dead does nothing any more; messages for it stay open, and hold up what
 * comes after them at their other groups.
 */
#include "order/wbam_recovery.h"

/* ACCEPT of what its sender has delivered is "again"; the report of a message in a recovery is "data", "local", "global". */
static const busq_order_kind kinds[] = {{"multicast", true}, {"accept", true},     {"data", true},   {"again", false},
                                        {"ack", false},      {"deliver", false},   {"delivered", false}, {"newleader", false},
                                        {"local", false},    {"global", false},    {"newleader-ack", false},
                                        {"newstate", false}, {"newstate-ack", false}};

static const busq_order_option_name option_names[] = {{"group=1", BUSQ_OPTION_GROUP_1, false},
                                                      {"group=2", BUSQ_OPTION_GROUP_2, false},
                                                      {"group=5", BUSQ_OPTION_GROUP_5, false},
                                                      {"on_crash=go-on", BUSQ_OPTION_GO_ON, true},
                                                      {NULL, 0, false}};

/* ---- sending ---- */

/* Whether all of it is sent. */
static bool have_sent(wbam_state *self, busq_order_effects *effects)
{
  for (; self->to; self->to &= self->to - 1) {
    if (!busq_effects_have_room(effects, 1))
      return false;
    busq_do_send(effects, (uint32_t)__builtin_ctz(self->to), self->packet);
  }
  memset(&self->packet, 0, sizeof self->packet);
  return true;
}

/* ---- a message, in what does not depend on others; each gives whether there was something to do ---- */

static void note_proposal(wbam_state *self, wbam_entry *entry, uint32_t from, uint64_t local)
{
  const busq_order_group *group = &self->group;
  const uint32_t number = wbam_group_of(group, from), place = wbam_place_of(group, from);
  if (entry->proposed & wbam_set_of(number) && wbam_leader_in(group, entry->leaders, number) > place)
    return;
  entry->proposed |= wbam_set_of(number);
  entry->leaders = wbam_put_leader(group, entry->leaders, number, place);
  entry->locals[number] = local;
}

static bool ask(wbam_state *self, uint32_t place)
{
  wbam_entry *entry = wbam_entry_at(self, place);
  if (!entry->asks)
    return false;
  wbam_send_of(self, entry->asks, MULTICAST, place, 0);
  if (entry->asks & wbam_me(self))
    entry->remarks |= IS_ASKED;
  entry->asks = 0;
  return true;
}

static bool propose(wbam_state *self, uint32_t place)
{
  wbam_entry *entry = wbam_entry_at(self, place);
  if (self->status != LEADER || !(entry->remarks & IS_ASKED))
    return false;
  entry->remarks &= ~IS_ASKED;
  if (entry->phase == START) {
    entry->local = ++self->clock << GROUP_BITS | wbam_own_group(self);
    entry->phase = PROPOSED;
  }
  if (entry->remarks & HAS_PROPOSED)
    return true;
  entry->remarks |= HAS_PROPOSED;
  note_proposal(self, entry, self->group.self, entry->local);
  if (busq_group_suspects(&self->group, wbam_origin_at(place)))
    wbam_retry(self, entry);
  wbam_send_of(self, wbam_concerned(&self->group, entry->destinations), entry->remarks & IS_DELIVERED ? AGAIN : ACCEPT, place, entry->local);
  return true;
}

/* Whether the leaders of all groups have proposed, that of one's own being the one that is followed. */
static bool is_proposed(const wbam_state *self, const wbam_entry *entry)
{
  return entry->number && entry->proposed == wbam_groups_of(&self->group, entry->destinations) && wbam_is_concerned(self, entry) &&
         wbam_leader_in(&self->group, entry->leaders, wbam_own_group(self)) == self->leader;
}

static uint64_t largest_local(const wbam_state *self, const wbam_entry *entry)
{
  uint64_t largest = 0;
  for (uint32_t number = 0; number < wbam_n_groups(&self->group); number++)
    largest = wbam_larger(largest, entry->locals[number]);
  return largest;
}

static void note_ack(wbam_entry *entry, uint32_t from, uint32_t leaders)
{
  if (entry->phase == COMMITTED || leaders < entry->ack)
    return;
  entry->ack_from = (leaders == entry->ack ? entry->ack_from : 0) | wbam_set_of(from);
  entry->ack = leaders;
}

static uint32_t leaders_of(const wbam_state *self, const wbam_entry *entry)
{
  const busq_order_group *group = &self->group;
  uint32_t leaders = 0;
  for (uint32_t rest = entry->proposed; rest; rest &= rest - 1) {
    const uint32_t number = (uint32_t)__builtin_ctz(rest);
    leaders |= wbam_set_of(number * wbam_size_of_groups(group) + wbam_leader_in(group, entry->leaders, number));
  }
  return leaders;
}

static bool acknowledge(wbam_state *self, uint32_t place)
{
  wbam_entry *entry = wbam_entry_at(self, place);
  if (self->status == RECOVERING || !is_proposed(self, entry) ||
      (entry->remarks & HAS_ACKED && entry->acked == entry->leaders))
    return false;
  if (entry->phase != COMMITTED) {
    entry->phase = ACCEPTED;
    entry->local = entry->locals[wbam_own_group(self)];
  }
  self->clock = wbam_larger(self->clock, largest_local(self, entry) >> GROUP_BITS);
  entry->remarks |= HAS_ACKED;
  entry->acked = entry->leaders;
  if (self->status == LEADER)
    note_ack(entry, self->group.self, entry->leaders);
  wbam_send(self, leaders_of(self, entry),
       (busq_order_packet){.message = wbam_message_at(self, place), .note = entry->leaders, .kind = ACK});
  return true;
}

static bool commit(wbam_state *self, uint32_t place)
{
  const busq_order_group *group = &self->group;
  wbam_entry *entry = wbam_entry_at(self, place);
  if (self->status != LEADER || entry->phase != ACCEPTED || !is_proposed(self, entry) || entry->ack != entry->leaders)
    return false;
  for (uint32_t rest = entry->proposed; rest; rest &= rest - 1)
    if (!wbam_is_quorum(group, (uint32_t)__builtin_ctz(rest), entry->ack_from))
      return false;
  entry->phase = COMMITTED;
  entry->global = largest_local(self, entry);
  entry->ack = entry->ack_from = 0;
  return true;
}

static bool finish(wbam_state *self, uint32_t place, busq_order_effects *effects)
{
  wbam_entry *entry = wbam_entry_at(self, place);
  const uint32_t all = wbam_concerned(&self->group, entry->destinations) & ~self->group.suspected;
  if (wbam_origin_at(place) != self->group.self || !entry->number || entry->remarks & IS_DONE || all & ~entry->delivered ||
      !busq_effects_have_room(effects, 1))
    return false;
  entry->remarks |= IS_DONE;
  self->n_own--;
  busq_do_done(effects, wbam_message_at(self, place));
  return true;
}

static bool go_on_with(wbam_state *self, uint32_t place, busq_order_effects *effects)
{
  return ask(self, place) || propose(self, place) || acknowledge(self, place) || commit(self, place) ||
         finish(self, place, effects);
}

static bool go_on_with_any(wbam_state *self, busq_order_effects *effects)
{
  for (uint32_t place = 0; place < wbam_n_entries(&self->group); place++)
    if (go_on_with(self, place, effects))
      return true;
  return false;
}

/* ---- delivering ---- */

static bool may_deliver_before(const wbam_state *self, uint64_t global)
{
  for (uint32_t place = 0; place < wbam_n_entries(&self->group); place++) {
    const wbam_entry *entry = wbam_entry_at(self, place);
    if (wbam_is_undecided(entry) && entry->local <= global)
      return false;
  }
  return true;
}

/* A leader hands the next message to its group. */
static bool hand_out(wbam_state *self)
{
  uint32_t first = wbam_n_entries(&self->group);
  if (self->status != LEADER)
    return false;
  for (uint32_t place = 0; place < wbam_n_entries(&self->group); place++) {
    const wbam_entry *entry = wbam_entry_at(self, place);
    if (entry->phase == COMMITTED && !(entry->remarks & IS_HANDED) &&
        (first == wbam_n_entries(&self->group) || entry->global < wbam_entry_at(self, first)->global))
      first = place;
  }
  if (first == wbam_n_entries(&self->group) || !may_deliver_before(self, wbam_entry_at(self, first)->global))
    return false;
  wbam_entry *entry = wbam_entry_at(self, first);
  entry->remarks |= IS_HANDED;
  wbam_send_of(self, wbam_members_of(&self->group, wbam_own_group(self)), DELIVER, first, entry->global);
  if (entry->global > self->passed) {
    self->passed = entry->global;
    self->delivering = first + 1;
  }
  return true;
}

static void end_delivery(wbam_state *self, uint32_t place, busq_order_effects *effects)
{
  wbam_entry *entry = wbam_entry_at(self, place);
  const uint64_t message = wbam_message_at(self, place);
  const uint32_t origin = busq_message_origin(message);
  entry->remarks |= IS_DELIVERED;
  entry->remarks &= ~IS_ASKED;
  if (entry->destinations & wbam_me(self))
    busq_do_deliver(effects, message);
  else if (origin != self->group.self)
    busq_do_drop(effects, message);
  if (origin == self->group.self)
    entry->delivered |= wbam_me(self);
  else if (!busq_group_suspects(&self->group, origin))
    busq_do_send(effects, origin, (busq_order_packet){.message = message, .kind = DELIVERED});
  self->delivering = self->is_handed_on = 0;
}

static bool deliver(wbam_state *self, busq_order_effects *effects)
{
  const bool hands_on = self->group.options & BUSQ_OPTION_GO_ON && self->status != LEADER;
  const uint32_t leader = wbam_set_of(wbam_own_group(self) * wbam_size_of_groups(&self->group) + self->leader);
  if (!self->delivering)
    return false;
  if (hands_on && !self->is_handed_on) {
    self->is_handed_on = 1;
    wbam_send_of(self, wbam_members_of(&self->group, wbam_own_group(self)) & ~leader, DATA, self->delivering - 1, 0);
    return true;
  }
  if (!busq_effects_have_room(effects, 2))
    return false;
  end_delivery(self, self->delivering - 1, effects);
  return true;
}

/* ---- submitting ---- */

/* Puts the next message of one's own on its way. */
static bool launch(wbam_state *self, busq_order_effects *effects)
{
  const busq_order_group *group = &self->group;
  busq_outbox *mine = wbam_mine_of(self);
  if (!mine->count)
    return false;
  const uint64_t message = busq_outbox_at(mine, 0)->message;
  const uint32_t place = wbam_place_of_message(message);
  wbam_entry *entry = wbam_entry_at(self, place);
  if ((entry->number && !(entry->remarks & IS_DONE)) || !busq_effects_have_room(effects, 1))
    return false;
  wbam_begin(self, place, busq_message_number(message), busq_outbox_pop(mine).to);
  entry->remarks = HAS_PAYLOAD;
  for (uint32_t rest = wbam_groups_of(group, entry->destinations); rest; rest &= rest - 1)
    entry->asks |= wbam_leader_of(group, (uint32_t)__builtin_ctz(rest));
  self->n_own++;
  busq_do_sent(effects, message, NULL);
  return true;
}

static int submit(wbam_state *self, const busq_order_event *event)
{
  busq_outbox *mine = wbam_mine_of(self);
  uint32_t destinations = event->is_for_me ? wbam_me(self) : 0;
  if (mine->count + self->n_own == self->group.waiting_max)
    return BUSQ_FULL;
  for (uint32_t place = 0; place < event->n_others; place++)
    destinations |= wbam_set_of(event->others[place]);
  busq_outbox_push(mine, (busq_outbox_entry){.message = event->packet.message, .to = destinations});
  return BUSQ_OK;
}

/* ---- packets ---- */

/* Whether a packet has the destinations of its message. */
static bool has_destinations(uint32_t kind)
{
  return kind != ACK && kind != DELIVERED && kind < NEWLEADER_ACK && kind != NEWLEADER;
}

static bool is_sound(const wbam_state *self, const busq_order_packet *packet)
{
  const busq_order_group *group = &self->group;
  const uint32_t others = group->n_processes < 32 ? ~((1u << group->n_processes) - 1) : 0;
  const bool is_of_group = wbam_group_of(group, packet->from) == wbam_own_group(self);
  const bool is_of_crashes = packet->kind == DATA || packet->kind == AGAIN || (packet->kind >= NEWLEADER);
  if (is_of_crashes && !(group->options & BUSQ_OPTION_GO_ON))
    return false;
  if (packet->kind == NEWLEADER || packet->kind >= NEWLEADER_ACK)
    return is_of_group;
  if (busq_message_origin(packet->message) >= group->n_processes || !busq_message_number(packet->message))
    return false;
  if (!has_destinations(packet->kind))
    return true;
  return packet->note && !(packet->note & others) && wbam_groups_of(group, packet->note) & wbam_set_of(wbam_own_group(self)) &&
         (is_of_group || packet->kind == MULTICAST || packet->kind == ACCEPT || packet->kind == AGAIN);
}

static void receive_deliver(wbam_state *self, uint32_t place, const busq_order_packet *packet)
{
  wbam_entry *entry = wbam_entry_at(self, place);
  if (self->status != FOLLOWER || wbam_place_of(&self->group, packet->from) != self->leader || packet->stamp <= self->passed)
    return;
  entry->local = entry->phase == START ? entry->locals[wbam_own_group(self)] : entry->local;
  entry->phase = COMMITTED;
  entry->global = packet->stamp;
  self->clock = wbam_larger(self->clock, packet->stamp >> GROUP_BITS);
  self->passed = packet->stamp;
  self->delivering = place + 1;
}

static void receive_of(wbam_state *self, uint32_t place, const busq_order_packet *packet)
{
  wbam_entry *entry = wbam_entry_at(self, place);
  if (packet->kind == MULTICAST)
    entry->remarks |= IS_ASKED;
  else if (packet->kind == ACCEPT || packet->kind == AGAIN)
    note_proposal(self, entry, packet->from, packet->stamp);
  else if (packet->kind == ACK)
    note_ack(entry, packet->from, packet->note);
  else if (packet->kind == DELIVER)
    receive_deliver(self, place, packet);
  else if (packet->kind == DELIVERED)
    entry->delivered |= wbam_set_of(packet->from);
  else if (packet->kind == LOCAL || packet->kind == GLOBAL)
    busq_wbam_receive_report(self, entry, packet);
}

static int receive_message(wbam_state *self, const busq_order_packet *packet, busq_order_effects *effects)
{
  const uint32_t place = wbam_place_of_message(packet->message), number = busq_message_number(packet->message);
  wbam_entry *entry = wbam_entry_at(self, place);
  const bool is_own = wbam_origin_at(place) == self->group.self;
  const bool is_new = number > entry->number;
  if (is_new && (is_own || !wbam_is_over(entry) || !has_destinations(packet->kind)))
    return BUSQ_CORRUPT;
  if (is_new)
    wbam_begin(self, place, number, packet->note);
  if (kinds[packet->kind].has_payload && (number < entry->number || entry->remarks & HAS_PAYLOAD))
    busq_do_ignore(effects);
  if (number < entry->number)
    return BUSQ_OK;
  if (kinds[packet->kind].has_payload)
    entry->remarks |= HAS_PAYLOAD;
  receive_of(self, place, packet);
  return BUSQ_OK;
}

static int receive(wbam_state *self, const busq_order_packet *packet, busq_order_effects *effects)
{
  if (!is_sound(self, packet))
    return BUSQ_CORRUPT;
  if (packet->kind == NEWLEADER)
    busq_wbam_receive_newleader(self, packet->from);
  else if (packet->kind == NEWLEADER_ACK)
    busq_wbam_receive_newleader_ack(self, packet);
  else if (packet->kind == NEWSTATE)
    busq_wbam_receive_newstate(self, packet);
  else if (packet->kind == NEWSTATE_ACK)
    busq_wbam_receive_newstate_ack(self, packet->from);
  else
    return receive_message(self, packet, effects);
  return BUSQ_OK;
}

static int wbam_step(void *state, const busq_order_event *event, busq_order_effects *effects)
{
  wbam_state *self = state;
  int result = BUSQ_OK;
  if (event->kind == BUSQ_ON_SUBMIT)
    result = submit(self, event);
  else if (event->kind == BUSQ_ON_RECEIVE)
    result = receive(self, &event->packet, effects);
  else if (event->kind == BUSQ_ON_SUSPECT)
    busq_wbam_suspect(self, event->packet.from);
  if (result != BUSQ_OK)
    return result;
  while (have_sent(self, effects) && (deliver(self, effects) || (!effects->is_cut && (busq_wbam_report(self) || go_on_with_any(self, effects) ||
                                                                                   hand_out(self) || launch(self, effects)))))
    ;
  return BUSQ_OK;
}

/* ---- looking ---- */

static void wbam_init(void *state)
{
  wbam_state *self = state;
  self->status = wbam_own_place(self) ? FOLLOWER : LEADER;
}

static bool is_sound_entry(const wbam_state *self, uint32_t place)
{
  const wbam_entry *entry = wbam_entry_at(self, place);
  if (!entry->number)
    return !entry->destinations && entry->phase == START && !entry->remarks;
  if (entry->number % WINDOW != place % WINDOW || entry->asks || !entry->destinations)
    return false;
  if (entry->phase > COMMITTED || (entry->phase == START) != (entry->local == 0) || (entry->phase == COMMITTED) != (entry->global != 0) ||
      (entry->global && entry->global < entry->local))
    return false;
  return entry->local >> GROUP_BITS <= self->clock && (!(entry->remarks & IS_DELIVERED) || entry->phase == COMMITTED) &&
         (entry->phase == START || wbam_is_concerned(self, entry)) && (!entry->global || (entry->remarks & IS_DELIVERED) || entry->global > self->passed);
}

static bool wbam_verify(const void *state)
{
  const wbam_state *self = state;
  uint32_t n_own = 0;
  if (self->to || self->delivering || self->is_handed_on || self->reporting || self->reported || self->part || self->packet.message)
    return false;
  for (uint32_t place = 0; place < wbam_n_entries(&self->group); place++) {
    if (!is_sound_entry(self, place))
      return false;
    const wbam_entry *entry = wbam_entry_at(self, place);
    n_own += wbam_origin_at(place) == self->group.self && entry->number && !(entry->remarks & IS_DONE);
  }
  return self->status <= RECOVERING && self->leader <= self->ballot && (self->status != LEADER || self->leader == wbam_own_place(self)) &&
         self->passed >> GROUP_BITS <= self->clock && n_own == self->n_own &&
         wbam_mine_of(self)->count + n_own <= self->group.waiting_max;
}

/* A message that is at START here may never be proposed: its sender may have died. */
static void wbam_gauge(const void *state, busq_order_gauge *gauge)
{
  const wbam_state *self = state;
  uint32_t held = 0;
  for (uint32_t place = 0; place < wbam_n_entries(&self->group); place++)
    held += wbam_origin_at(place) != self->group.self && !wbam_is_over(wbam_entry_at(self, place));
  *gauge = (busq_order_gauge){.waiting = wbam_mine_of(self)->count + self->n_own, .held = held};
}

const busq_order busq_order_wbam = {
    .name = "wbam",
    .promise = "total order, by timestamps that replicated groups propose; only the groups of the destinations take part",
    .source = "Gotsman, Lefort and Chockler 2019",
    .claims = BUSQ_CLAIMS_CONSISTENT | BUSQ_CLAIMS_TOTAL,
    .traits = BUSQ_ORDER_REPLICATED | BUSQ_ORDER_FIFO_CHANNELS,
    .crashes_majority = BUSQ_CRASH_VALIDITY | BUSQ_CRASH_AGREEMENT | BUSQ_CRASH_UNIFORM | BUSQ_CRASH_GOES_ON,
    .kinds = kinds,
    .n_kinds = sizeof kinds / sizeof *kinds,
    .options = option_names,
    .silent_always = 1u << DELIVERED,
    .idle_stays = 1u << ACK | 1u << DATA | 1u << DELIVER | 1u << NEWLEADER_ACK | 1u << NEWSTATE_ACK,
    .head_size = wbam_head_size,
    .buffers = {{BUSQ_OUTBOX, .own = true}},
    .init = wbam_init,
    .step = wbam_step, /* no rename: groups are of neighbours, and the lowest leads.  Nothing is quiet, as in order/skeen.c. */
    .verify = wbam_verify,
    .gauge = wbam_gauge,
};
