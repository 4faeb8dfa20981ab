/* SPDX-License-Identifier: Apache-2.0 */
#include "live/live_group.h"
#include "base/error.h"
#include "base/time.h"
#include <string.h>

/* For so long nothing has come since a member was found gone: what survivors had on its way is here. */
#define QUIET_NS UINT64_C(200000000)
#define LOOK_NS UINT64_C(50000000)
#define FRESH_NS (2 * QUIET_NS)
/* A longer time for the case that no message that is here has to do with the gone: the members we wait for may wait for
 * them, or only take long. */
#define CHAIN_NS UINT64_C(5000000000)
enum { NOBODY = UINT32_MAX };

bool busq_group_find(busq_live *live, uint32_t process)
{
  busq_member *member = &live->members[process];
  busq_peer_facts facts;
  if (member->state != BUSQ_MEMBER_UNKNOWN)
    return true;
  if (busq_bus_examine_peer(live->bus, process, &facts) != BUSQ_OK)
    return false;
  memcpy(member->name, facts.name, facts.name_bytes);
  member->name_bytes = facts.name_bytes;
  member->incarnation = facts.incarnation;
  member->target = facts.target;
  member->state = BUSQ_MEMBER_HERE;
  live->n_known++;
  if (!facts.is_alive)
    busq_group_lose(live, process);
  return true;
}

/* A member that waits for nothing rarely looks which others live, and these may wait for its answer to a death.  Where a
 * mailbox is full, its owner is awake, or stopped. */
static void wake_others(busq_live *live)
{
  const busq_wire_packet wake = {.kind = BUSQ_WIRE_WAKE};
  for (uint32_t process = 0; process < live->n; process++)
    if (process != live->self && live->members[process].state == BUSQ_MEMBER_HERE)
      (void)busq_peer_send(live->port, &live->members[process].target, 1, &wake, sizeof wake, 0);
}

void busq_group_lose(busq_live *live, uint32_t process)
{
  if (live->members[process].state == BUSQ_MEMBER_GONE)
    return;
  live->members[process].state = BUSQ_MEMBER_GONE;
  live->n_gone++;
  live->last_gone = process;
  live->moved_ns = busq_time_now_ns();
  pthread_cond_broadcast(&live->moved);
  if (live->goes_on)
    wake_others(live);
}

static uint32_t member_named(const busq_live *live, const char *name, size_t name_bytes)
{
  for (uint32_t process = 0; process < live->n; process++) {
    const busq_member *member = &live->members[process];
    if (member->state != BUSQ_MEMBER_UNKNOWN && member->name_bytes == name_bytes &&
        memcmp(member->name, name, name_bytes) == 0)
      return process;
  }
  return NOBODY;
}

int busq_group_lookup(busq_live *live, const char *name, size_t name_bytes, uint32_t *processp)
{
  uint64_t target;
  uint32_t found = member_named(live, name, name_bytes);
  if (found == NOBODY || live->members[found].state == BUSQ_MEMBER_GONE) {
    /* Another process may have joined under the name of one that is gone. */
    const int result = busq_peer_lookup(live->port, name, name_bytes, &target);
    if (result)
      return result;
    for (uint32_t process = 0; process < live->n; process++)
      if (busq_group_find(live, process) && live->members[process].target == target)
        found = process;
  }
  if (found == NOBODY)
    return busq_error(BUSQ_UNKNOWN_PEER, "nobody named \"%.*s\" belongs to the group", (int)name_bytes, name);
  *processp = found;
  return BUSQ_OK;
}

static bool needs(const busq_live *live, uint32_t process)
{
  return live->goes_on || busq_order_keeps_for_others(live->order) || (live->order->traits & BUSQ_ORDER_COORDINATED && process == 0);
}

int busq_group_assemble(busq_live *live)
{
  uint32_t n_needed = 0, n_joined = 0;
  for (uint32_t process = 0; process < live->n; process++) {
    if (!needs(live, process))
      continue;
    n_needed++;
    n_joined += busq_group_find(live, process);
  }
  if (n_joined == n_needed)
    return BUSQ_OK;
  if (n_needed == 1)
    return busq_error(BUSQ_UNKNOWN_PEER, "order %s needs its first member, which is not there", live->order->name);
  return busq_error(BUSQ_UNKNOWN_PEER,
                    "order %s needs its whole group, and %u of %u members have joined: create the bus with peers= as many as "
                    "will join",
                    live->order->name, n_joined, n_needed);
}

static void look_at(busq_live *live, uint32_t process)
{
  busq_peer_facts facts;
  const busq_member *member = &live->members[process];
  if (busq_bus_examine_peer(live->bus, process, &facts) != BUSQ_OK || facts.incarnation != member->incarnation ||
      !facts.is_alive)
    busq_group_lose(live, process);
}

void busq_group_glance(busq_live *live, uint32_t process)
{
  enum { GLANCES_PER_TICK = 64 };
  busq_member *member = &live->members[process];
  const uint64_t tick_ns = busq_time_tick_ns();
  if (member->state != BUSQ_MEMBER_HERE || process == live->self)
    return;
  if (tick_ns != live->tick_ns) {
    live->tick_ns = tick_ns;
    live->glances = 0;
  }
  if (live->glances >= GLANCES_PER_TICK && tick_ns - member->glanced_ns < LOOK_NS)
    return;
  live->glances++;
  member->glanced_ns = tick_ns;
  look_at(live, process);
}

void busq_group_look(busq_live *live)
{
  const uint64_t now_ns = busq_time_now_ns();
  if (now_ns - live->looked_ns < LOOK_NS)
    return;
  live->looked_ns = now_ns;
  for (uint32_t process = 0; process < live->n; process++) {
    if (needs(live, process))
      (void)busq_group_find(live, process);
    if (process != live->self && live->members[process].state == BUSQ_MEMBER_HERE)
      look_at(live, process);
  }
}

int busq_group_dead(const busq_live *live, uint32_t process)
{
  const busq_member *member = &live->members[process];
  return busq_error(BUSQ_PEER_DEAD, "\"%.*s\" has left the bus or died, and order %s can't go on without it",
                    (int)member->name_bytes, member->name, live->order->name);
}

/* A member that is gone and that the order needs for any message at all. */
static uint32_t missing(const busq_live *live)
{
  for (uint32_t process = 0; live->n_gone && !live->goes_on && process < live->n; process++)
    if (live->members[process].state == BUSQ_MEMBER_GONE && needs(live, process))
      return process;
  return NOBODY;
}

int busq_group_check_send(busq_live *live)
{
  const uint32_t process = missing(live);
  return process == NOBODY ? BUSQ_OK : busq_group_dead(live, process);
}

/* Whether a member that lives has still to take what came for it: it is stopped, or slow, and perhaps what we wait for
 * comes from it.  A member with unread packets at every look may only be busy: it is not behind once it has taken those
 * that were there before. */
static bool is_anybody_behind(busq_live *live, uint64_t now_ns)
{
  const bool is_fresh = now_ns - live->compared_ns < FRESH_NS;
  bool is_behind = false;
  for (uint32_t process = 0; process < live->n; process++) {
    busq_peer_facts facts;
    busq_member *member = &live->members[process];
    if (process == live->self || busq_bus_examine_peer(live->bus, process, &facts) != BUSQ_OK || !facts.is_alive)
      continue;
    is_behind |= facts.depth && !(is_fresh && facts.received >= member->to_take);
    if (!is_fresh)
      member->to_take = facts.received + facts.depth;
  }
  if (!is_fresh)
    live->compared_ns = now_ns;
  return is_behind;
}

/* A member that is gone and takes part in a message that is stuck here. */
static uint32_t culprit(const busq_live *live)
{
  for (uint32_t i = 0; i < live->messages.n_chains; i++) {
    for (busq_live_entry *entry = live->messages.chains[i]; entry; entry = entry->next_in_chain) {
      if (live->members[busq_message_origin(entry->name)].state == BUSQ_MEMBER_GONE)
        return busq_message_origin(entry->name);
      for (uint32_t k = 0; k < entry->n_destinations; k++)
        if (live->members[busq_entry_destinations(entry)[k]].state == BUSQ_MEMBER_GONE)
          return busq_entry_destinations(entry)[k];
    }
  }
  return NOBODY;
}

int busq_group_check_wait(busq_live *live, bool is_receiving)
{
  const uint64_t now_ns = busq_time_now_ns();
  if (!live->n_gone || live->goes_on || now_ns - live->moved_ns < QUIET_NS)
    return BUSQ_OK;
  uint32_t process = missing(live);
  if (process != NOBODY)
    return busq_group_dead(live, process);
  const busq_order_gauge gauge = busq_order_look(live->order, live->state);
  /* A packet stuck on its way out does not keep others from sending to us: noted once, and then waited on. */
  const bool has_told = is_receiving && live->n_told == live->n_gone;
  if (!gauge.held && (has_told || !(gauge.waiting || live->n_undone)))
    return BUSQ_OK;
  if (live->n_due || live->n_outboxes || is_anybody_behind(live, now_ns)) {
    live->moved_ns = now_ns;
    return BUSQ_OK;
  }
  process = culprit(live);
  if (process == NOBODY && now_ns - live->moved_ns < CHAIN_NS)
    return BUSQ_OK;
  return busq_group_dead(live, process == NOBODY ? live->last_gone : process);
}
