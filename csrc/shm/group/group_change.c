/* SPDX-License-Identifier: Apache-2.0 */
#include "base/assert.h"
#include "base/error.h"
#include "shm/burial/grave.h"
#include "shm/group/group.h"
#include "shm/group/watch.h"
#include "shm/memory/names.h"
#include "shm/message/reference.h"
#include "shm/send/multicast.h"
#include "shm/trace/tracer.h"
#include <string.h>

/* ---- changes ---- */

typedef struct {
  busq_send_hooks hooks;
  const busq_change *change;
  const busq_sender_view *view;
  const uint64_t *receivers;
  uint32_t n_receivers;
  uint32_t index;
  bool is_for_all; /* all members */
} change_maker;

/* A busq_send_hooks is the first in it. */
static change_maker *maker_of(busq_send_hooks *hooks)
{
  return (change_maker *)(void *)hooks;
}

static busq_claim_word *maker_word(const change_maker *maker, const busq_peer *peer)
{
  return &busq_bus_group(peer->bus, maker->index)->claim;
}

/* Members that receive no copy of this change are dead; marks them as having missed it. Receivers are in the order of
 * members. False: one of the others is there after all. A durable member whose own death is announced is a receiver,
 * and is not marked: should we die before the commit, a marked member would be passed over by later changes, and its
 * death would never be announced. */
static bool change_is_for_the_dead(busq_peer *peer, const change_maker *maker)
{
  const busq_change *change = maker->change;
  uint32_t at = 0;
  for (uint32_t i = 0; i < maker->view->n_members; i++) {
    const uint64_t member = maker->view->members[i];
    const bool is_changed = member == change->who && change->what == BUSQ_CHANGE_DIES;
    const bool is_receiver = at < maker->n_receivers && maker->receivers[at] == member;
    at += is_receiver;
    if (!is_receiver && (is_changed || maker->is_for_all) && !busq_group_note_missed(peer->bus, maker->index, member))
      return false;
  }
  return true;
}

/* As a look into the queue finds it (peek.c): what is not committed is none. */
static bool has_message(const busq_bus *bus, uint32_t slot)
{
  const busq_ring ring = busq_bus_ring(bus, slot);
  const uint64_t head = busq_load_acquire(&ring.queue->head), tail = busq_ring_tail(&ring);
  busq_reference seen;
  for (uint64_t at = head; at < tail && at - head < ring.slot_count; at++)
    if (busq_ring_look(&ring, at, &seen) && busq_reference_fate(bus, slot, seen) == BUSQ_FATE_GOOD)
      return true;
  return false;
}

/* A durable queue "wide@prices" in which a message stands closes the group "@prices". */
static bool group_is_closed(busq_bus *bus, uint32_t index)
{
  static const char before[] = "wide@";
  const busq_group *group = busq_bus_group(bus, index);
  const uint32_t bytes = busq_load_relaxed(&group->name_bytes);
  char name[sizeof before + sizeof group->name];
  uint64_t life;
  if (busq_group_is_of_watchers(bus, index) || bytes < 1 || bytes > sizeof group->name)
    return false;
  memcpy(name, before, sizeof before - 1);
  memcpy(name + sizeof before - 1, group->name + 1, bytes - 1);
  for (uint32_t slot = 0; slot < busq_slots_reached(bus); slot++)
    if (busq_name_is(bus, slot, name, sizeof before - 1 + bytes - 1, &life) && (life & BUSQ_LIFE_DURABLE))
      return has_message(bus, slot);
  return false;
}

/* A successor has the same incarnation as the peer whose death is announced: announced late, it would be out while it
 * lives. It settles our claim once it lives, and then looks whether it is a member.  So does the process that closes the group. */
static bool change_is_true(busq_peer *peer, const change_maker *maker)
{
  const busq_change *change = maker->change;
  busq_fence_full();
  if (change->what == BUSQ_CHANGE_ENTERS)
    return !group_is_closed(peer->bus, maker->index);
  return change->what != BUSQ_CHANGE_DIES || busq_group_is_to_go(peer->bus, maker->index, change->who);
}

/* The view is still the one that has our receivers as members, or the number would be another. */
static int change_begin(busq_send_hooks *hooks, busq_peer *peer, busq_record *record, uint64_t tag)
{
  const change_maker *maker = maker_of(hooks);
  busq_claim_word *word = maker_word(maker, peer);
  return busq_claim_take(peer, word, maker->view->number, record, tag) && change_is_for_the_dead(peer, maker) &&
                 change_is_true(peer, maker)
             ? BUSQ_OK
             : BUSQ_AGAIN;
}

/* Above the last change, and above whatever was committed at a member, though that may be dead and receive nothing of
 * this. */
static int change_attempt(busq_send_hooks *hooks, busq_peer *peer)
{
  const change_maker *maker = maker_of(hooks);
  busq_group *group = busq_bus_group(peer->bus, maker->index);
  const uint64_t number = maker->view->number;
  busq_key last;
  if (busq_place_read(&group->change[number % BUSQ_GROUP_CHANGES], number, &last) == BUSQ_PLACE_THERE) {
    if (!busq_timestamp_is_sound(last.timestamp))
      return busq_group_damaged(peer->bus, maker->index);
    peer->sender.lamport = busq_timestamp_max(peer->sender.lamport, last.timestamp);
  }
  int result = BUSQ_OK;
  for (uint32_t i = 0; i < maker->view->n_members && !result; i++)
    result = busq_multicast_rise(peer, busq_target_slot(maker->view->members[i]));
  return result;
}

static void change_undone(busq_send_hooks *hooks, busq_peer *peer, busq_record *record, uint64_t tag)
{
  const change_maker *maker = maker_of(hooks);
  busq_claim_drop(peer, maker_word(maker, peer), maker->view->number, record, tag);
}

static void change_end(busq_send_hooks *hooks, busq_peer *peer, busq_record *record, busq_key key)
{
  const change_maker *maker = maker_of(hooks);
  (void)record;
  (void)key;
  busq_group_install_until(peer->bus, maker->index, maker->view->number + 1);
}

/* ---- the payload of a change ---- */

/* The members of the new view, and the one that is changed, which may be none of them; its entry is the last then. */
static uint32_t change_members(const busq_bus *bus, const change_maker *maker, uint64_t *members)
{
  const busq_change *change = maker->change;
  uint32_t count = 0;
  if (busq_group_is_of_watchers(bus, maker->index))
    return 0;
  for (uint32_t i = 0; i < maker->view->n_members; i++)
    if (maker->view->members[i] != change->who)
      members[count++] = maker->view->members[i];
  if (change->what == BUSQ_CHANGE_ENTERS)
    members[count++] = change->who;
  return count;
}

static uint32_t name_of(const busq_bus *bus, uint64_t target, const char **namep)
{
  const busq_slot *slot = &bus->slots[busq_target_slot(target)];
  const uint32_t bytes = busq_load_relaxed(&slot->name_bytes);
  const bool is_its = (uint32_t)(busq_load_acquire(&slot->life) >> 32) == busq_target_incarnation(target);
  *namep = slot->name;
  return is_its && bytes <= BUSQ_LAYOUT_NAME_BYTES_MAX ? bytes : 0;
}

/* A member's life stands in the table: a successor that has come since is another one.  That of others stands in their
 * slot, if it is still theirs. */
static uint32_t life_of(const busq_bus *bus, const change_maker *maker, uint64_t target)
{
  const uint32_t slot = busq_target_slot(target), incarnation = busq_target_incarnation(target);
  const uint64_t member = busq_numbered_load(&busq_bus_group(bus, maker->index)->member[slot]).hi;
  const bool is_of_watchers = busq_group_is_of_watchers(bus, maker->index);
  if (!is_of_watchers && (member & BUSQ_MEMBER_IS_IN) && busq_member_target(member, slot) == target)
    return busq_member_life(member);
  return busq_slot_incarnation(bus, slot) == incarnation ? busq_load_relaxed(&bus->slots[slot].lives) : incarnation;
}

/* A watched peer is called by the name it is watched under: its slot may be another's by now. */
static uint32_t changed_name(const busq_bus *bus, const change_maker *maker, uint64_t target, const char **namep)
{
  busq_group *group = busq_bus_group(bus, maker->index);
  const uint32_t bytes = busq_load_relaxed(&group->name_bytes);
  if (!busq_group_is_of_watchers(bus, maker->index) || bytes < 1 || bytes > sizeof group->name)
    return name_of(bus, target, namep);
  *namep = group->name + 1;
  return bytes - 1;
}

/* With the group's name, since a peer that has left may read of it when the group's entry has another name. */
static char *maker_group_write(const busq_bus *bus, const change_maker *maker, char *to)
{
  const busq_group *group = busq_bus_group(bus, maker->index);
  const uint32_t bytes = busq_load_relaxed(&group->name_bytes);
  if (bytes > sizeof group->name)
    return to;
  memcpy(to, group->name, bytes);
  return to + bytes;
}

/* A member that closed, and found no room for its own change, has left; it did not die. */
static uint32_t what_is_told(const busq_bus *bus, const change_maker *maker)
{
  const busq_change *change = maker->change;
  const bool has_closed = change->what == BUSQ_CHANGE_DIES && busq_group_closes(bus, maker->index, change->who);
  return has_closed ? BUSQ_CHANGE_LEAVES : change->what;
}

/* The slot of a dead peer may have another name by now, and then its own is lost. */
static char *change_write(const busq_bus *bus, const change_maker *maker, const uint64_t *members, uint32_t n_members,
                          char *to)
{
  const busq_change *change = maker->change;
  const bool is_apart = change->what != BUSQ_CHANGE_ENTERS || busq_group_is_of_watchers(bus, maker->index);
  const busq_view_event head = {
      .number = maker->view->number + 1,
      .incarnation = busq_target_incarnation(change->who),
      .life = life_of(bus, maker, change->who),
      .slot = (uint16_t)busq_target_slot(change->who),
      .what = (uint16_t)what_is_told(bus, maker),
      .n_entries = n_members + is_apart,
      .n_members = n_members,
      .shown_above = busq_group_shown_above(busq_bus_group(bus, maker->index)),
  };
  char *entries = to + sizeof head, *names = entries + head.n_entries * sizeof(busq_view_member);
  memcpy(to, &head, sizeof head);
  for (uint32_t i = 0; i < head.n_entries; i++) {
    const uint64_t target = i < n_members ? members[i] : change->who;
    const char *name;
    const uint32_t bytes = i < n_members ? name_of(bus, target, &name) : changed_name(bus, maker, target, &name);
    const busq_view_member entry = {busq_target_incarnation(target), life_of(bus, maker, target),
                                   (uint16_t)busq_target_slot(target), (uint16_t)bytes};
    memcpy(entries + i * sizeof entry, &entry, sizeof entry);
    memcpy(names, name, bytes);
    names += bytes;
  }
  return maker_group_write(bus, maker, names);
}

/* ---- making a change ---- */

/* The change is still to be made. */
static bool change_is_due(busq_bus *bus, const busq_change *change)
{
  const uint32_t slot = busq_target_slot(change->who), incarnation = busq_target_incarnation(change->who);
  switch (change->what) {
  case BUSQ_CHANGE_ENTERS:
    return !busq_group_has(bus, busq_group_index(change->group), slot, incarnation) ||
           busq_group_has_missed(bus, busq_group_index(change->group), change->who);
  case BUSQ_CHANGE_DIES:
    return busq_group_has(bus, busq_group_index(change->group), slot, incarnation) &&
           busq_group_is_to_go(bus, busq_group_index(change->group), change->who);
  default:
    return busq_group_has(bus, busq_group_index(change->group), slot, incarnation);
  }
}

/* Keeps the targets that something can be sent to: those that live, or are durable. */
static uint32_t keep_reachable(const busq_bus *bus, uint64_t *targets, uint32_t n_targets)
{
  uint32_t kept = 0;
  for (uint32_t i = 0; i < n_targets; i++)
    if (busq_grave_check((busq_bus *)bus, busq_target_slot(targets[i]), busq_target_incarnation(targets[i])))
      targets[kept++] = targets[i];
  return kept;
}

/* All members old and new; where the members are watchers, only the one that is changed, since no other needs to know
 * the other watchers, or the one that announces its death. */
static uint32_t change_receivers(const busq_peer *peer, change_maker *maker, uint64_t *targets)
{
  const busq_change *change = maker->change;
  uint32_t count = 0;
  maker->is_for_all = !busq_group_is_of_watchers(peer->bus, maker->index);
  for (uint32_t i = 0; i < maker->view->n_members && maker->is_for_all; i++)
    if (!busq_group_has_missed(peer->bus, maker->index,
                               maker->view->members[i])) /* it has ceased to be one for itself */
      targets[count++] = maker->view->members[i];
  if (change->what == BUSQ_CHANGE_ENTERS || !maker->is_for_all)
    targets[count++] = change->who;
  count = keep_reachable(peer->bus, targets, count);
  if (!count && !maker->is_for_all)
    targets[count++] = busq_peer_address(peer);
  maker->receivers = targets;
  maker->n_receivers = count;
  return count;
}

/* As much as there can be in it: the members, the one that comes or goes, and the group. */
static uint64_t change_room(const change_maker *maker)
{
  return sizeof(busq_view_event) +
         (uint64_t)(maker->view->n_members + 2) * (sizeof(busq_view_member) + BUSQ_LAYOUT_NAME_BYTES_MAX + 1) +
         sizeof(busq_envelope);
}

/* The memory for messages is the limit of everything that is sent; views grow with their members. */
static int change_check_size(const busq_bus *bus, const change_maker *maker, uint32_t n_members, uint64_t size_bytes)
{
  if (size_bytes <= bus->geometry.arena_bytes)
    return BUSQ_OK;
  return busq_error(BUSQ_TOO_LARGE, "a view of group \"%.256s\" with %u members and their names has %llu bytes, more than the %llu of the arena of bus \"%s\": create it with a larger arena, or give the members shorter names",
                    busq_bus_group(bus, maker->index)->name, n_members, (unsigned long long)size_bytes,
                    (unsigned long long)bus->geometry.arena_bytes, bus->name);
}

/* The members are the first half of the scratch list, the receivers the second.  A peer that enters may have the slot
 * of a member that has died, so there may be one more of them than slots. */
static int change_send(busq_peer *peer, change_maker *maker)
{
  busq_bus *bus = peer->bus;
  uint64_t *members = peer->sender.gathering, *receivers = members + bus->geometry.peers + 1;
  char *payload = malloc(change_room(maker));
  if (!payload)
    return busq_error(BUSQ_NO_SPACE, "no memory for a change of a group");
  const uint32_t n_members = change_members(bus, maker, members);
  char *end = change_write(bus, maker, members, n_members, payload);
  const busq_envelope envelope = {
      .kind = busq_group_is_of_watchers(bus, maker->index) ? BUSQ_KIND_WATCH : BUSQ_KIND_VIEW,
      .group = (uint16_t)(maker->index + 1),
      .view = maker->view->number + 1,
  };
  memcpy(end, &envelope, sizeof envelope);
  const busq_part part = {payload, (uint64_t)(end + sizeof envelope - payload)};
  const busq_payload sent = {.parts = &part,
                             .n_parts = 1,
                             .form = BUSQ_FORM_DATA | BUSQ_FORM_ENVELOPE,
                             .size_bytes = part.size_bytes,
                             .hooks = &maker->hooks};
  const uint32_t n_receivers = change_receivers(peer, maker, receivers);
  int result = BUSQ_OK;
  if (n_receivers)
    result = change_check_size(bus, maker, n_members, part.size_bytes);
  else if (!busq_group_is_of_watchers(bus, maker->index))
    result = busq_group_empty_of_dead(bus, maker->index) ? BUSQ_OK : BUSQ_AGAIN;
  if (n_receivers && !result)
    result = busq_multicast_try(peer, receivers, n_receivers, &sent);
  free(payload);
  return result;
}

/* A peer that enters must not find dead ones there, nor itself as what its predecessor was: they go first. */
static int dead_go_first(busq_peer *peer, const change_maker *maker)
{
  const busq_sender_view *view = maker->view;
  if (maker->change->what != BUSQ_CHANGE_ENTERS)
    return BUSQ_OK;
  for (uint32_t i = 0; i < view->n_members; i++) {
    const uint64_t who = view->members[i];
    if (!busq_group_is_to_go(peer->bus, maker->index, who))
      continue;
    const int result = busq_group_change_try(peer, &(busq_change){maker->change->group, who, BUSQ_CHANGE_DIES});
    return result == BUSQ_OK ? BUSQ_AGAIN : result;
  }
  return BUSQ_OK;
}

/* Tries once; BUSQ_AGAIN where another process was faster, or a receiver has died. */
static int change_once(busq_peer *peer, const busq_change *change)
{
  change_maker maker = {
      .hooks = {.begin = change_begin, .attempt = change_attempt, .undone = change_undone, .end = change_end},
      .change = change,
      .index = busq_group_index(change->group),
  };
  busq_sender_view *view = NULL;
  uint64_t number;
  if (!busq_group_settle(peer->bus, maker.index, &number))
    return busq_group_damaged(peer->bus, maker.index);
  int result = busq_group_refresh(peer, change->group, &view);
  if (result)
    return result;
  maker.view = view;
  if (!change_is_due(peer->bus, change))
    return view->number == number ? BUSQ_OK : BUSQ_AGAIN;
  if (view->number >= BUSQ_CLAIM_NUMBER_MAX)
    return busq_group_damaged(peer->bus, maker.index);
  if (change->what == BUSQ_CHANGE_ENTERS && group_is_closed(peer->bus, maker.index))
    return busq_error(BUSQ_INVALID, "a bridge has made group \"%.256s\" one of several machines: that lets peers enter", busq_bus_group(peer->bus, maker.index)->name);
  result = dead_go_first(peer, &maker);
  if (result)
    return result;
  if (change->what == BUSQ_CHANGE_ENTERS && busq_group_is_of_watchers(peer->bus, maker.index) &&
      !busq_watch_begin(peer, maker.index))
    return busq_group_damaged(peer->bus, maker.index);
  result = change_send(peer, &maker);
  return result == BUSQ_PEER_DEAD ? BUSQ_AGAIN : result;
}

/* Also of a change that is no call's, but made on the way. */
int busq_group_change_try(busq_peer *peer, const busq_change *change)
{
  const bool is_on_the_way = busq_tracer_begin_on_the_way(peer);
  int result = BUSQ_AGAIN;
  for (int turn = 0; turn < BUSQ_CLAIM_TURNS && result == BUSQ_AGAIN; turn++) {
    if (BUSQ_UNLIKELY(is_on_the_way))
      peer->tracer.begun = busq_bus_recording_now(peer->bus);
    result = change_once(peer, change);
  }
  busq_tracer_end_on_the_way(peer, is_on_the_way);
  return result == BUSQ_AGAIN ? BUSQ_FULL : result;
}
