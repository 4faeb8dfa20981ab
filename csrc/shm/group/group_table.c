/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/hash.h"
#include "base/time.h"
#include "shm/group/group.h"
#include "shm/memory/life.h"
#include <string.h>
#include <time.h>

/* A process that gives an entry a name holds this byte of the bus file; the kernel lets go of it for the dead
 * (life.h). */
#define LOCK_OF_NAMES (INT64_C(1) << 44) /* beside those of slots, graves and the recorder */

static uint64_t name_hash(const char *name, size_t bytes)
{
  const uint64_t hash = busq_hash_bytes(name, bytes);
  return hash ? hash : 1;
}

static uint64_t target_of(uint32_t index, busq_pair identity)
{
  return identity.lo << 32 | (uint64_t)index << 16 | BUSQ_TARGET_GROUP;
}

bool busq_group_is_still(const busq_bus *bus, uint64_t target)
{
  const uint32_t index = busq_group_index(target);
  return index < bus->geometry.groups &&
         (uint32_t)busq_load_acquire(&busq_bus_group(bus, index)->identity.lo) == (uint32_t)(target >> 32);
}

/* The identity is the same before and after: the name was this one's. */
static bool entry_is(busq_group *group, uint64_t hash, const char *name, size_t bytes, busq_pair *identity)
{
  *identity = busq_numbered_load(&group->identity);
  if (identity->hi != hash || busq_load_relaxed(&group->name_bytes) != bytes || memcmp(group->name, name, bytes) != 0)
    return false;
  busq_fence_full();
  return busq_load_acquire(&group->identity.lo) == identity->lo;
}

static bool entry_find(busq_bus *bus, const char *name, size_t bytes, uint64_t *targetp)
{
  const uint64_t hash = name_hash(name, bytes);
  for (uint32_t index = 0; index < bus->geometry.groups; index++) {
    busq_pair identity;
    if (busq_load_acquire(&busq_bus_group(bus, index)->identity.hi) == hash &&
        entry_is(busq_bus_group(bus, index), hash, name, bytes, &identity)) {
      *targetp = target_of(index, identity);
      return true;
    }
  }
  return false;
}

/* ---- giving names ---- */

static bool is_empty(const busq_bus *bus, busq_group *group)
{
  for (uint32_t slot = 0; slot < bus->geometry.peers; slot++)
    if (busq_numbered_load(&group->member[slot]).hi & BUSQ_MEMBER_IS_IN)
      return false;
  return true;
}

/* It can't be claimed any more: it is empty, and stays so. An entry whose namer was killed is over already. */
static bool entry_end(busq_bus *bus, uint32_t index, uint64_t *numberp)
{
  busq_group *group = busq_bus_group(bus, index);
  busq_pair word = busq_claim_load(&group->claim);
  if (busq_claim_state(word) != BUSQ_CLAIM_OVER && !busq_group_settle(bus, index, numberp))
    return false;
  word = busq_claim_load(&group->claim);
  *numberp = busq_claim_number(word);
  if (busq_claim_state(word) == BUSQ_CLAIM_OVER)
    return true;
  return busq_claim_state(word) == BUSQ_CLAIM_IDLE && is_empty(bus, group) &&
         busq_claim_move(&group->claim, word, *numberp, BUSQ_CLAIM_OVER);
}

/* Where the last number of a group of that name is kept when it loses its entry. */
static uint64_t *number_place(const busq_bus *bus, uint64_t hash)
{
  const uint64_t place = hash % (bus->geometry.groups * (uint64_t)BUSQ_GROUP_NUMBERS);
  return &busq_bus_group(bus, (uint32_t)(place / BUSQ_GROUP_NUMBERS))->numbers[place % BUSQ_GROUP_NUMBERS];
}

static void number_keep(const busq_bus *bus, const busq_group *group, uint64_t hash, uint64_t number)
{
  uint64_t *place = number_place(bus, hash);
  const uint64_t shown = number - busq_group_shown_above(group);
  if (busq_load_relaxed(place) < shown)
    busq_store_relaxed(place, shown);
}

/* In this order: killed in between, the entry is over, and gets a name from the next one; the number goes on, and so
 * does what was kept of the last group: it is not taken for this one's. */
static void entry_name(busq_bus *bus, uint32_t index, uint64_t number, const char *name, size_t bytes)
{
  busq_group *group = busq_bus_group(bus, index);
  busq_pair identity = busq_numbered_load(&group->identity);
  if (identity.hi)
    number_keep(bus, group, identity.hi, number);
  BUSQ_STEP("name");
  (void)busq_pair_cas(&group->identity, &identity, (busq_pair){identity.lo + 1, 0});
  memcpy(group->name, name, bytes);
  group->name[bytes] = '\0';
  busq_store_relaxed(&group->name_bytes, (uint32_t)bytes);
  busq_store_relaxed(&group->base, number + 1);
  busq_store_relaxed(&group->kept, busq_load_relaxed(number_place(bus, name_hash(name, bytes))));
  identity = busq_numbered_load(&group->identity);
  BUSQ_STEP("name");
  (void)busq_pair_cas(&group->identity, &identity, (busq_pair){identity.lo + 1, name_hash(name, bytes)});
  (void)busq_claim_move(&group->claim, busq_claim_pair(number, BUSQ_CLAIM_OVER), number + 1, BUSQ_CLAIM_IDLE);
}

/* Takes an entry that never had a name first: then late readers of the others find what they look for; and one that
 * only the dead are in last. */
enum { TURN_NEW, TURN_EMPTY, TURN_DEAD, TURNS };

static bool entry_take(busq_bus *bus, uint32_t index, int turn, uint64_t *numberp)
{
  const bool is_new = !busq_load_acquire(&busq_bus_group(bus, index)->identity.lo);
  return is_new == (turn == TURN_NEW) && (turn != TURN_DEAD || busq_group_empty_of_dead(bus, index)) &&
         entry_end(bus, index, numberp);
}

static int entry_make(busq_bus *bus, const char *name, size_t bytes, uint64_t *targetp)
{
  uint64_t number;
  for (int turn = 0; turn < TURNS; turn++)
    for (uint32_t index = 0; index < bus->geometry.groups; index++) {
      if (!entry_take(bus, index, turn, &number))
        continue;
      entry_name(bus, index, number, name, bytes);
      return entry_find(bus, name, bytes, targetp) ? BUSQ_OK : busq_group_damaged(bus, index);
    }
  return busq_error(BUSQ_NO_SPACE, "bus \"%s\" has room for the names of %u groups and watched peers, and all of them are in use; create the bus with more groups",
                    bus->name, bus->geometry.groups);
}

static bool names_lock(int fd)
{
  const struct timespec pause = {0, 1000000};
  const uint64_t end_ns = busq_time_now_ns() + 100000000;
  do {
    if (busq_lock_try(fd, LOCK_OF_NAMES) == 0)
      return true;
    nanosleep(&pause, NULL);
  } while (busq_time_now_ns() < end_ns);
  return false;
}

static bool is_over(const busq_bus *bus, uint64_t target)
{
  return busq_claim_state(busq_claim_load(&busq_bus_group(bus, busq_group_index(target))->claim)) == BUSQ_CLAIM_OVER;
}

/* The entry of that name, whose namer was killed before it had taken the name away, gets it anew. */
static int entry_revive(busq_bus *bus, uint32_t index, const char *name, size_t bytes, uint64_t *targetp)
{
  const uint64_t number = busq_claim_number(busq_claim_load(&busq_bus_group(bus, index)->claim));
  entry_name(bus, index, number, name, bytes);
  return entry_find(bus, name, bytes, targetp) ? BUSQ_OK : busq_group_damaged(bus, index);
}

/* An entry whose namer was killed in the middle is over, and has no name, or its old one: as good as new. */
static int entry_find_or_make(busq_bus *bus, const char *name, size_t bytes, uint64_t *targetp)
{
  busq_guard guard;
  int fd, result = busq_guard_open(&guard, bus, &fd);
  if (result)
    return result;
  if (!names_lock(fd))
    result = busq_error(BUSQ_NO_SPACE, "another process gives a group of bus \"%s\" its name, and seems to be stopped; wake it, or try again later",
                        bus->name);
  else if (!entry_find(bus, name, bytes, targetp))
    result = entry_make(bus, name, bytes, targetp);
  else if (is_over(bus, *targetp))
    result = entry_revive(bus, busq_group_index(*targetp), name, bytes, targetp);
  busq_guard_close(&guard);
  return result;
}

int busq_group_named(busq_bus *bus, const char *name, size_t bytes, bool is_made, uint64_t *targetp)
{
  if (entry_find(bus, name, bytes, targetp) && !is_over(bus, *targetp))
    return BUSQ_OK;
  if (is_made && bus->geometry.groups)
    return entry_find_or_make(bus, name, bytes, targetp);
  if (is_made)
    return busq_error(BUSQ_INVALID, "bus \"%s\" has no groups, and watches nobody: create it with groups", bus->name);
  return busq_error(BUSQ_UNKNOWN_PEER, "nobody has entered the group \"%.*s\" of bus \"%s\"", (int)bytes, name, bus->name);
}
