/* SPDX-License-Identifier: Apache-2.0 */
#include "order/wbam_recovery.h"

static void forget_reports(wbam_state *self)
{
  for (uint32_t place = 0; place < wbam_n_entries(&self->group); place++) {
    wbam_entry *entry = wbam_entry_at(self, place);
    entry->reported_local = entry->reported_global = 0;
    entry->reported_after = 0;
  }
}

/* Takes what a recovery has reported: what is COMMITTED, and of the rest what those have whose last leader was this one. */
static void take_over(wbam_state *self, uint32_t latest)
{
  for (uint32_t place = 0; place < wbam_n_entries(&self->group); place++) {
    wbam_entry *entry = wbam_entry_at(self, place);
    const bool is_accepted = entry->reported_local && entry->reported_after == latest;
    if (!(entry->remarks & IS_DELIVERED)) {
      entry->phase = entry->reported_global ? COMMITTED : is_accepted ? ACCEPTED : START;
      entry->local = entry->phase == START ? 0 : entry->reported_local;
      entry->global = entry->reported_global;
      self->clock = wbam_larger(self->clock, entry->local >> GROUP_BITS);
    }
    entry->ack = entry->ack_from = 0;
  }
  forget_reports(self);
  self->leader = self->ballot;
}

/* Sends the next part of what others hear of all messages; the last is that this was all. */
bool busq_wbam_report(wbam_state *self)
{
  while (self->reporting && self->reported < wbam_n_entries(&self->group)) {
    const uint32_t place = self->reported;
    const wbam_entry *entry = wbam_entry_at(self, place);
    const uint32_t part = self->part;
    const bool has_part = part == 0 ? entry->phase >= ACCEPTED && !(entry->remarks & IS_DELIVERED)
                          : part == 1 ? entry->phase >= ACCEPTED
                                      : entry->phase == COMMITTED;
    self->part = part == 2 ? 0 : part + 1;
    self->reported += part == 2;
    if (has_part) {
      wbam_send_of(self, self->reporting, part == 0 ? DATA : part == 1 ? LOCAL : GLOBAL, place,
              part == 1 ? entry->local << PLACE_BITS | self->leader : entry->global);
      return true;
    }
  }
  if (!self->reporting)
    return false;
  const bool is_own = self->ballot == wbam_own_place(self);
  wbam_send(self, self->reporting,
       (busq_order_packet){.stamp = self->clock, .note = self->leader, .kind = is_own ? NEWSTATE : NEWLEADER_ACK});
  self->reporting = self->reported = 0;
  return true;
}

static void recover(wbam_state *self)
{
  self->status = RECOVERING;
  self->ballot = wbam_own_place(self);
  self->latest = self->leader;
  self->heard = wbam_me(self);
  forget_reports(self);
  for (uint32_t place = 0; place < wbam_n_entries(&self->group); place++) {
    wbam_entry *entry = wbam_entry_at(self, place);
    entry->reported_local = entry->phase >= ACCEPTED ? entry->local : 0;
    entry->reported_global = entry->global;
    entry->reported_after = entry->reported_local ? self->leader : 0;
  }
  wbam_send(self, wbam_members_of(&self->group, wbam_own_group(self)), (busq_order_packet){.kind = NEWLEADER});
}

void busq_wbam_receive_newleader(wbam_state *self, uint32_t from)
{
  if (wbam_place_of(&self->group, from) <= self->ballot)
    return;
  self->status = RECOVERING;
  self->ballot = wbam_place_of(&self->group, from);
  forget_reports(self);
  self->reporting = wbam_set_of(from);
}

/* Whether this process recovers, and is still to learn what holds. */
static bool asks_what_holds(const wbam_state *self)
{
  return self->status == RECOVERING && self->ballot == wbam_own_place(self) && self->leader != self->ballot;
}

void busq_wbam_receive_newleader_ack(wbam_state *self, const busq_order_packet *packet)
{
  if (!asks_what_holds(self))
    return;
  self->clock = wbam_larger(self->clock, packet->stamp);
  self->latest = (uint32_t)wbam_larger(self->latest, packet->note);
  self->heard |= wbam_set_of(packet->from);
  if (!wbam_is_quorum(&self->group, wbam_own_group(self), self->heard))
    return;
  take_over(self, self->latest);
  self->latest = 0;
  self->heard = wbam_me(self);
  self->reporting = wbam_members_of(&self->group, wbam_own_group(self)) & ~wbam_me(self);
}

void busq_wbam_receive_newstate(wbam_state *self, const busq_order_packet *packet)
{
  if (self->status != RECOVERING || wbam_place_of(&self->group, packet->from) != self->ballot)
    return;
  self->clock = wbam_larger(self->clock, packet->stamp);
  take_over(self, self->ballot);
  self->status = FOLLOWER;
  wbam_send(self, wbam_set_of(packet->from), (busq_order_packet){.kind = NEWSTATE_ACK});
}

void busq_wbam_receive_newstate_ack(wbam_state *self, uint32_t from)
{
  if (self->status != RECOVERING || self->ballot != wbam_own_place(self))
    return;
  self->heard |= wbam_set_of(from);
  if (!wbam_is_quorum(&self->group, wbam_own_group(self), self->heard))
    return;
  self->status = LEADER;
  self->heard = 0;
  for (uint32_t place = 0; place < wbam_n_entries(&self->group); place++)
    if (wbam_entry_at(self, place)->phase == ACCEPTED)
      wbam_retry(self, wbam_entry_at(self, place));
}

void busq_wbam_receive_report(wbam_state *self, wbam_entry *entry, const busq_order_packet *packet)
{
  const bool is_for_all = wbam_place_of(&self->group, packet->from) == self->ballot;
  const uint32_t after = packet->stamp & ((1u << PLACE_BITS) - 1);
  if (self->status != RECOVERING || !(is_for_all || asks_what_holds(self)))
    return;
  if (packet->kind == GLOBAL) {
    entry->reported_global = packet->stamp;
  } else if (!entry->reported_local || after >= entry->reported_after) {
    entry->reported_local = packet->stamp >> PLACE_BITS;
    entry->reported_after = after;
  }
}

void busq_wbam_suspect(wbam_state *self, uint32_t dead)
{
  const busq_order_group *group = &self->group;
  const uint32_t successor = wbam_leader_of(group, wbam_group_of(group, dead));
  const bool is_before = wbam_set_of(dead) < successor;
  for (uint32_t place = 0; place < wbam_n_entries(group); place++) {
    wbam_entry *entry = wbam_entry_at(self, place);
    if (!entry->number)
      continue;
    const bool concerns = wbam_concerned(group, entry->destinations) & wbam_set_of(dead);
    if (wbam_origin_at(place) == group->self && !(entry->remarks & IS_DONE) && concerns && is_before)
      entry->asks |= successor;
    if (self->status == LEADER && wbam_is_undecided(entry) && (concerns || wbam_origin_at(place) == dead))
      wbam_retry(self, entry);
  }
  if (successor == wbam_me(self) && is_before && self->ballot != wbam_own_place(self))
    recover(self);
}
