/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/death/notice.h"
#include "base/time.h"
#include "shm/group/group.h"
#include "shm/group/watch.h"
#include "shm/node/node.h"
#include "shm/send/multicast.h"
#include "shm/wake/wake.h"
#include <string.h>

static uint64_t group_target(const busq_bus *bus, uint32_t index)
{
  return busq_load_acquire(&busq_bus_group(bus, index)->identity.lo) << 32 | (uint64_t)index << 16 | BUSQ_TARGET_GROUP;
}

static bool is_in(const busq_peer *peer, uint32_t index)
{
  return busq_group_has(peer->bus, index, peer->slot, peer->incarnation);
}

/* A member that is gone, or was, and has missed a change since; 0: none, for slots of lives begin at 1. */
static uint64_t gone_find(busq_peer *peer, uint32_t index)
{
  busq_bus *bus = peer->bus;
  for (uint32_t slot = 0; slot < busq_slots_reached(bus); slot++) {
    const uint64_t member = busq_numbered_load(&busq_bus_group(bus, index)->member[slot]).hi;
    const uint64_t target = busq_member_target(member, slot);
    if (!(member & BUSQ_MEMBER_IS_IN))
      continue;
    if (target == busq_peer_address(peer) ? busq_group_has_missed(bus, index, target)
                                          : busq_group_is_to_go(bus, index, target))
      return target;
  }
  return 0;
}

static void group_notice_deaths(busq_peer *peer, uint32_t index)
{
  const uint64_t group = group_target(peer->bus, index);
  uint64_t who;
  for (uint32_t i = 0; i < busq_slots_reached(peer->bus) && (who = gone_find(peer, index)) != 0; i++)
    if (busq_group_change_try(peer, &(busq_change){group, who, BUSQ_CHANGE_DIES}) != BUSQ_OK)
      return;
  if (busq_group_is_of_watchers(peer->bus, index))
    (void)busq_watch_notify_all(peer, group);
}

/* A thread that enters one while we look sets the bit again, behind this. */
static void groups_notice_deaths(busq_peer *peer)
{
  (void)busq_fetch_and(&peer->deaths.cares, ~(uint32_t)BUSQ_CARES_FOR_MEMBERS);
  for (uint32_t index = 0; index < peer->bus->geometry.groups; index++) {
    if (!is_in(peer, index))
      continue;
    busq_peer_care(peer, BUSQ_CARES_FOR_MEMBERS);
    group_notice_deaths(peer, index);
  }
}

void busq_notice_deaths(busq_peer *peer)
{
  const uint64_t tick_ns = busq_time_tick_ns();
  const bool is_due = tick_ns - busq_load_relaxed(&peer->deaths.noticed_ns) >= BUSQ_SLICE_NS;
  const uint32_t cares = busq_load_relaxed(&peer->deaths.cares);
  const bool for_members = (cares & BUSQ_CARES_FOR_MEMBERS) && (is_due || !tick_ns); /* in tests of steps there is no time */
  const bool for_nodes = (cares & BUSQ_CARES_FOR_NODES) && (is_due || busq_node_is_unheld(peer));
  if (!(for_members || for_nodes) || peer->fork_generation != busq_fork_generation)
    return;
  if (is_due)
    busq_store_relaxed(&peer->deaths.noticed_ns, tick_ns);
  busq_biased_latch_acquire(&peer->sender.latch);
  if (for_members && !busq_load_relaxed(&peer->is_closed))
    groups_notice_deaths(peer);
  if (for_nodes && !busq_load_relaxed(&peer->is_closed))
    (void)busq_node_tend(peer);
  busq_biased_latch_release(&peer->sender.latch);
}

/* ---- coming and going ---- */

/* The group of the peers that watch our name; 0: none ever did. */
static uint64_t our_watchers(busq_peer *peer)
{
  char name[BUSQ_LAYOUT_NAME_BYTES_MAX + 1];
  uint64_t group;
  const uint32_t bytes = busq_load_relaxed(&peer->receiver.inbox->name_bytes);
  if (!peer->bus->geometry.groups || bytes > BUSQ_LAYOUT_NAME_BYTES_MAX)
    return 0;
  name[0] = '?';
  memcpy(name + 1, peer->receiver.inbox->name, bytes);
  return busq_group_named(peer->bus, name, bytes + 1u, false, &group) == BUSQ_OK ? group : 0;
}

/* Takes over a predecessor's membership, and what has been noticed of its death. */
static void membership_adopt(busq_peer *peer, uint32_t index)
{
  const uint64_t us = busq_peer_address(peer);
  uint64_t number;
  busq_group_note_resumed(peer->bus, index, us, peer->life);
  (void)busq_group_settle(peer->bus, index, &number);
  if (busq_group_has_missed(peer->bus, index, us))
    (void)busq_group_change_try(peer, &(busq_change){group_target(peer->bus, index), us, BUSQ_CHANGE_DIES});
  if (busq_group_has_missed(peer->bus, index, us)) /* there was no room for that: it is made later */
    busq_group_miss(peer, index);
  if (is_in(peer, index))
    busq_peer_care(peer, BUSQ_CARES_FOR_MEMBERS);
}

void busq_notice_joined(busq_peer *peer)
{
  if (!peer->bus->geometry.groups)
    return;
  busq_biased_latch_acquire(&peer->sender.latch);
  busq_fence_full(); /* the maker of a change that goes to others alone looks, after it has claimed, whether we live */
  const uint64_t watchers = our_watchers(peer);
  if (watchers)
    busq_watch_joined(peer, watchers);
  for (uint32_t index = 0; index < peer->bus->geometry.groups; index++)
    if (is_in(peer, index))
      membership_adopt(peer, index);
  busq_biased_latch_release(&peer->sender.latch);
}

void busq_notice_left(busq_peer *peer)
{
  const uint64_t watchers = our_watchers(peer);
  if (watchers)
    (void)busq_watch_notify_all(peer, watchers);
}

static void group_leave(busq_peer *peer, uint32_t index)
{
  const uint64_t us = busq_peer_address(peer);
  const int result =
      busq_group_change_try(peer, &(busq_change){group_target(peer->bus, index), us, BUSQ_CHANGE_LEAVES});
  if (result != BUSQ_OK)
    busq_group_note_closes(peer->bus, index, us);
}

void busq_notice_leaving(busq_peer *peer)
{
  if (!peer->bus->geometry.groups)
    return;
  busq_biased_latch_acquire(&peer->sender.latch);
  for (uint32_t index = 0; !busq_load_relaxed(&peer->is_closed) && index < peer->bus->geometry.groups; index++)
    if (is_in(peer, index))
      group_leave(peer, index);
  busq_biased_latch_release(&peer->sender.latch);
}
