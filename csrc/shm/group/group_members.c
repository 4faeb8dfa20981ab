/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/group/group.h"
#include "base/assert.h"
#include "base/error.h"
#include "shm/burial/grave.h"
#include "shm/memory/life.h"
#include <string.h>

int busq_group_damaged(const busq_bus *bus, uint32_t index)
{
  return busq_error(BUSQ_CORRUPT, "the table of group %u of bus \"%s\" is damaged; remove the bus and create it again", index,
                    bus->name);
}

static busq_place_mark *change_mark(busq_group *group, uint64_t number)
{
  return &group->change[number % BUSQ_GROUP_CHANGES];
}

/* ---- installing ---- */

/* Installs what a decided message announces, once it is known to be that message still: in swaps that fail if they come
 * late. */
static void change_install(busq_bus *bus, void *about, const busq_claim_look *look)
{
  busq_group *group = about;
  busq_view_event change;
  const uint64_t number = busq_claim_number(look->word) + 1;
  if (!busq_claim_read(bus, look, &change, sizeof change) || change.number != number ||
      change.slot >= busq_slots_reached(bus))
    return;
  if (change.what == BUSQ_CHANGE_ENTERS)
    busq_numbered_install(&group->member[change.slot], number, busq_member_in(change.incarnation, change.life));
  else
    busq_numbered_install(&group->member[change.slot], number, (uint64_t)change.incarnation << 1);
  busq_place_install(change_mark(group, number), number, look->key);
  (void)busq_claim_move(&group->claim, look->word, number, BUSQ_CLAIM_IDLE);
}

/* Settles the key of an empty view above the clocks of its former members; the first process to come sets it. */
static void emptiness_install(busq_bus *bus, void *about, const busq_claim_look *look)
{
  busq_group *group = about;
  const uint64_t number = busq_claim_number(look->word) + 1;
  busq_key last;
  uint64_t highest = busq_place_read(change_mark(group, number - 1), number - 1, &last) == BUSQ_PLACE_THERE
                         ? last.timestamp
                         : 0;
  for (uint32_t slot = 0; slot < bus->geometry.peers; slot++) {
    const busq_pair member = busq_numbered_load(&group->member[slot]);
    const busq_ring ring = busq_bus_ring(bus, slot);
    if (member.lo && (member.hi & BUSQ_MEMBER_IS_IN || member.lo == number))
      highest = busq_timestamp_max(highest, busq_ring_clock(&ring));
  }
  busq_place_install(change_mark(group, number), number, (busq_key){highest + 1, 0, 0xfff});
  for (uint32_t slot = 0; slot < bus->geometry.peers; slot++) {
    const busq_pair member = busq_numbered_load(&group->member[slot]);
    if (member.lo < number && (member.hi & BUSQ_MEMBER_IS_IN))
      busq_numbered_install(&group->member[slot], number, member.hi & ~BUSQ_MEMBER_IS_IN);
  }
  (void)busq_claim_move(&group->claim, look->word, number, BUSQ_CLAIM_IDLE);
}

static busq_claimed claimed_by(busq_group *group)
{
  return (busq_claimed){&group->claim, group, change_install, emptiness_install};
}

void busq_group_install_until(busq_bus *bus, uint32_t index, uint64_t number)
{
  const busq_claimed claimed = claimed_by(busq_bus_group(bus, index));
  busq_claim_install_until(bus, &claimed, number);
}

bool busq_group_settle(busq_bus *bus, uint32_t index, uint64_t *numberp)
{
  const busq_claimed claimed = claimed_by(busq_bus_group(bus, index));
  return busq_claim_settle(bus, &claimed, numberp);
}

/* False: another process was faster. */
static bool view_empty(busq_bus *bus, uint32_t index, uint64_t number)
{
  busq_group *group = busq_bus_group(bus, index);
  if (!busq_claim_move(&group->claim, busq_claim_pair(number, BUSQ_CLAIM_IDLE), number, BUSQ_CLAIM_EMPTY))
    return false;
  busq_group_install_until(bus, index, number + 1);
  return true;
}

/* ---- members ---- */

/* In the order in which they entered; few of the entries that stand there already come behind a new one. */
static void member_insert(uint64_t *members, uint64_t *since, uint32_t count, uint64_t member, uint64_t number)
{
  for (; count && since[count - 1] > number; count--) {
    since[count] = since[count - 1];
    members[count] = members[count - 1];
  }
  since[count] = number;
  members[count] = member;
}

/* With the claim at that number, no entry is of a later one, unless a decided change is being installed: that is
 * brought to its end, or the view could not be read while its installer is stopped. */
bool busq_group_members(busq_bus *bus, uint32_t index, uint64_t *members, uint32_t *countp, uint64_t *numberp)
{
  busq_group *group = busq_bus_group(bus, index);
  for (int turn = 0; turn < BUSQ_CLAIM_TURNS; turn++) {
    const uint64_t number = busq_claim_number(busq_claim_load(&group->claim));
    bool is_whole = true;
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < bus->geometry.peers && is_whole; slot++) {
      const busq_pair member = busq_numbered_load(&group->member[slot]);
      is_whole = member.lo <= number;
      if (member.hi & BUSQ_MEMBER_IS_IN)
        member_insert(members, members + bus->geometry.peers, count++, busq_member_target(member.hi, slot), member.lo);
    }
    if (is_whole && busq_claim_number(busq_claim_load(&group->claim)) == number) {
      *countp = count;
      *numberp = number;
      return true;
    }
    busq_group_install_until(bus, index, number + 1);
  }
  return false;
}

bool busq_group_has(const busq_bus *bus, uint32_t index, uint32_t slot, uint32_t incarnation)
{
  busq_group *group = busq_bus_group(bus, index);
  const uint64_t member = busq_numbered_load(&group->member[slot]).hi;
  return (member & BUSQ_MEMBER_IS_IN) && busq_member_incarnation(member) == incarnation;
}

/* Set before the change that it does not get can be decided; never taken back, for a death that was noticed is one.
 * SYNC POINT member resumed: a successor that has come before the swap makes it fail. */
bool busq_group_note_missed(busq_bus *bus, uint32_t index, uint64_t target)
{
  const uint32_t slot = busq_target_slot(target);
  busq_pair *member = &busq_bus_group(bus, index)->member[slot];
  busq_pair seen = busq_numbered_load(member);
  for (;;) {
    const bool is_member = (seen.hi & BUSQ_MEMBER_IS_IN) && busq_member_target(seen.hi, slot) == target;
    if (!is_member || (seen.hi & BUSQ_MEMBER_MISSED))
      return true;
    BUSQ_STEP("missed");
    if (!busq_group_is_gone(bus, slot, busq_target_incarnation(target)))
      return false;
    BUSQ_STEP("mark");
    if (busq_pair_cas(member, &seen, (busq_pair){seen.lo, seen.hi | BUSQ_MEMBER_MISSED}))
      return true;
  }
}

/* SYNC POINT member resumed: the word shows another life than before, so that a swap of what it was fails. */
void busq_group_note_resumed(busq_bus *bus, uint32_t index, uint64_t target, uint32_t life)
{
  const uint32_t slot = busq_target_slot(target);
  busq_pair *member = &busq_bus_group(bus, index)->member[slot];
  busq_pair seen = busq_numbered_load(member);
  while ((seen.hi & BUSQ_MEMBER_IS_IN) && !(seen.hi & BUSQ_MEMBER_MISSED) &&
         busq_member_target(seen.hi, slot) == target) {
    BUSQ_STEP("resumed");
    if (busq_pair_cas(member, &seen, (busq_pair){seen.lo, busq_member_in(busq_target_incarnation(target), life)}))
      return;
  }
}

void busq_group_note_closes(busq_bus *bus, uint32_t index, uint64_t target)
{
  const uint32_t slot = busq_target_slot(target);
  busq_pair *member = &busq_bus_group(bus, index)->member[slot];
  busq_pair seen = busq_numbered_load(member);
  while ((seen.hi & BUSQ_MEMBER_IS_IN) && busq_member_target(seen.hi, slot) == target) {
    BUSQ_STEP("closes");
    if (busq_pair_cas(member, &seen, (busq_pair){seen.lo, seen.hi | BUSQ_MEMBER_CLOSES}))
      return;
  }
}

bool busq_group_closes(const busq_bus *bus, uint32_t index, uint64_t target)
{
  const uint32_t slot = busq_target_slot(target);
  const uint64_t member = busq_numbered_load(&busq_bus_group(bus, index)->member[slot]).hi;
  return (member & BUSQ_MEMBER_IS_IN) && (member & BUSQ_MEMBER_CLOSES) && busq_member_target(member, slot) == target;
}

bool busq_group_has_missed(const busq_bus *bus, uint32_t index, uint64_t target)
{
  const uint32_t slot = busq_target_slot(target);
  const uint64_t member = busq_numbered_load(&busq_bus_group(bus, index)->member[slot]).hi;
  return (member & BUSQ_MEMBER_IS_IN) && (member & BUSQ_MEMBER_MISSED) && busq_member_target(member, slot) == target;
}

bool busq_group_is_to_go(busq_bus *bus, uint32_t index, uint64_t target)
{
  return busq_group_has_missed(bus, index, target) ||
         busq_group_is_gone(bus, busq_target_slot(target), busq_target_incarnation(target));
}

bool busq_group_is_gone(busq_bus *bus, uint32_t slot, uint32_t incarnation)
{
  busq_slot *self = &bus->slots[slot];
  const uint64_t life = busq_load_acquire(&self->life);
  if ((uint32_t)(life >> 32) != incarnation)
    return true;
  /* A peer that has closed its queue is leaving, though it may be stopped before its life shows that. */
  const bool is_open = !(busq_load_acquire(&self->queue.clock_tail.hi) & BUSQ_RING_CLOSED);
  if ((life & BUSQ_LIFE_MASK) == BUSQ_LIFE_LIVE && is_open && busq_life_is_held(bus, slot))
    return false;
  /* A successor may have come since; it has the same incarnation, and has made its predecessor's end its own. */
  if (busq_load_acquire(&self->life) != life)
    return false;
  busq_grave_settle_hand(bus, slot);
  return true;
}

/* A durable member receives every change, dead or not; one that has missed a change has ceased to be a member for
 * itself. */
static bool member_can_receive(busq_bus *bus, uint32_t slot, uint64_t member)
{
  return (member & BUSQ_MEMBER_IS_IN) && !(member & BUSQ_MEMBER_MISSED) &&
         busq_grave_check(bus, slot, busq_member_incarnation(member));
}

/* Read at a number that still stands when the view is emptied, or that fails.  A peer that is resumed meanwhile makes
 * its mark fail, or finds it, and ends its membership itself. */
bool busq_group_empty_of_dead(busq_bus *bus, uint32_t index)
{
  busq_group *group = busq_bus_group(bus, index);
  uint64_t number;
  bool some = false;
  if (!busq_group_settle(bus, index, &number))
    return false;
  for (uint32_t slot = 0; slot < bus->geometry.peers; slot++) {
    const uint64_t member = busq_numbered_load(&group->member[slot]).hi;
    if (member_can_receive(bus, slot, member))
      return false;
    some |= (member & BUSQ_MEMBER_IS_IN) != 0;
  }
  for (uint32_t slot = 0; slot < bus->geometry.peers; slot++) {
    const uint64_t member = busq_numbered_load(&group->member[slot]).hi;
    if ((member & BUSQ_MEMBER_IS_IN) && !busq_group_note_missed(bus, index, busq_member_target(member, slot)))
      return false;
  }
  return some && view_empty(bus, index, number);
}

/* ---- what counts ---- */

static busq_group_verdict verdict_by_mark(busq_group *group, uint64_t view, busq_key key)
{
  busq_key change;
  switch (busq_place_read(change_mark(group, view + 1), view + 1, &change)) {
  case BUSQ_PLACE_THERE:
    return busq_key_less(busq_place_key(key), change) ? BUSQ_GROUP_COUNTS : BUSQ_GROUP_MISSED;
  case BUSQ_PLACE_LATER:
    return BUSQ_GROUP_FORGOTTEN;
  default:
    return BUSQ_GROUP_DAMAGED;
  }
}

/* An open change is waited for a little, or busy senders would put it off for ever; then put off, and it comes behind
 * us. */
static bool open_is_put_off(busq_group *group, const busq_claim_look *look, uint64_t *spentp)
{
  if (busq_claim_wait(&group->claim, look, spentp))
    return false;
  return busq_claim_put_off(look) || busq_claim_break(&group->claim, look);
}

busq_group_verdict busq_group_counts(busq_bus *bus, uint32_t index, uint64_t view, busq_key key)
{
  busq_group *group = busq_bus_group(bus, index);
  const busq_claimed claimed = claimed_by(group);
  uint64_t spent = 0;
  for (int turn = 0; turn < BUSQ_CLAIM_TURNS; turn++) {
    const busq_claim_look look = busq_claim_examine(bus, &group->claim);
    const uint64_t number = busq_claim_number(look.word);
    if (number > view)
      return verdict_by_mark(group, view, key);
    if (number < view)
      break;
    if (look.phase == BUSQ_CLAIM_OPEN ? open_is_put_off(group, &look, &spent) : !busq_claim_advance(bus, &claimed, &look))
      return BUSQ_GROUP_COUNTS;
  }
  return BUSQ_GROUP_DAMAGED;
}
