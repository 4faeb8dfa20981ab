/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts about a bus, its peers, queues and groups, for `busq doctor`, `ls` and `info`, and for applications that ask;
 * the calls are declared in busq.h.
 *
 * Guarantee: a look changes nothing but what it has to bury, and nothing that it reads is used as an index or a length
 * unchecked.
 *
 * Not given: one moment for all of it.  Each word is read by itself, while others go on.
 */
#include "base/error.h"
#include "base/time.h"
#include "shm/burial/grave.h"
#include "shm/group/group.h"
#include "shm/memory/reserve.h"
#include "shm/memory/names.h"
#include "shm/memory/peer.h"
#include "shm/message/reference.h"
#include "shm/message/shared_take.h"
#include "shm/send/multicast.h"
#include <string.h>

/* ---- the bus and its peers ---- */

int busq_bus_examine(busq_bus *bus, busq_bus_facts *facts)
{
  *facts = (busq_bus_facts){
      .peers = bus->geometry.peers,
      .capacity = bus->geometry.capacity,
      .arena_bytes = bus->geometry.arena_bytes,
      .payload_bytes_max = bus->payload_bytes_max,
      .arena_used_bytes = busq_arena_used_bytes(bus, BUSQ_ARENA_NONE),
      .segment_bytes = busq_geometry_arena_end(&bus->geometry),
      .created_ns = bus->header->created_ns,
      .creator_pid = bus->header->creator_pid,
      .is_shut_down = busq_load_acquire(&bus->header->is_shut_down) != 0,
      .permissions = bus->header->permissions,
      .is_temporary = bus->is_temporary,
      .groups = bus->geometry.groups,
      .nodes = bus->geometry.nodes,
  };
  memcpy(facts->order, bus->order, sizeof facts->order);
  return BUSQ_OK;
}

uint32_t busq_bus_taken(const busq_bus *bus)
{
  uint32_t n_taken = 0;
  for (uint32_t slot = 0; slot < busq_slots_reached(bus); slot++) {
    const uint64_t life = busq_load_acquire(&bus->slots[slot].life);
    const uint32_t state = (uint32_t)life & BUSQ_LIFE_MASK;
    n_taken += (life & BUSQ_LIFE_DURABLE) != 0 || state == BUSQ_LIFE_JOINING || state == BUSQ_LIFE_LIVE ||
               state == BUSQ_LIFE_LEAVING;
  }
  return n_taken;
}

static uint32_t peer_state(const busq_bus *bus, uint32_t slot, uint64_t life)
{
  const uint32_t state = (uint32_t)life & BUSQ_LIFE_MASK;
  if (state == BUSQ_LIFE_DEAD)
    return BUSQ_PEER_GONE;
  if (state == BUSQ_LIFE_LEFT)
    return BUSQ_PEER_CLOSED;
  if (!busq_life_is_held(bus, slot))
    return BUSQ_PEER_UNBURIED;
  return state == BUSQ_LIFE_LEAVING ? BUSQ_PEER_CLOSING : BUSQ_PEER_LIVE;
}

/* A peer with waiting senders and waiting receivers is shown as waiting to send: that is what holds others up. */
static void examine_waiting(const busq_slot *self, busq_peer_facts *facts)
{
  const busq_waits *waits = busq_load_acquire(&self->sends.what) != BUSQ_WAITING_NOT ? &self->sends : &self->receives;
  const uint32_t what = busq_load_acquire(&waits->what);
  const uint64_t since_ns = busq_load_relaxed(&waits->since_ns);
  const uint64_t now_ns = busq_time_host_ns();
  if (what == BUSQ_WAITING_NOT || what > BUSQ_WAITING_MEMORY)
    return;
  facts->waits = what;
  facts->waits_for = busq_load_relaxed(&waits->for_slot);
  facts->waited_ns = now_ns > since_ns ? now_ns - since_ns : 0;
}

/* Without its memory and, of a shared queue, its readers. */
static int examine_alone(const busq_bus *bus, uint32_t slot, busq_peer_facts *facts)
{
  memset(facts, 0, sizeof *facts);
  const busq_slot *self = &bus->slots[slot];
  const busq_ring ring = busq_bus_ring(bus, slot);
  const uint64_t life = busq_load_acquire(&self->life);
  const uint32_t state = (uint32_t)life & BUSQ_LIFE_MASK;
  if (state == BUSQ_LIFE_FREE || state == BUSQ_LIFE_JOINING)
    return BUSQ_EMPTY;
  const uint32_t bytes = busq_load_relaxed(&self->name_bytes);
  facts->name_bytes = bytes <= BUSQ_LAYOUT_NAME_BYTES_MAX ? bytes : BUSQ_LAYOUT_NAME_BYTES_MAX;
  memcpy(facts->name, self->name, facts->name_bytes);
  facts->state = peer_state(bus, slot, life);
  facts->is_alive = facts->state == BUSQ_PEER_LIVE;
  facts->is_durable = (life & BUSQ_LIFE_DURABLE) != 0;
  facts->is_shared = (life & BUSQ_LIFE_SHARED) != 0;
  facts->is_consumer = (life & BUSQ_LIFE_CONSUMER) != 0;
  facts->pid = self->pid;
  facts->incarnation = (uint32_t)(life >> 32);
  facts->target = (uint64_t)facts->incarnation << 16 | slot;
  facts->joined_ns = self->joined_ns;
  facts->clock = busq_ring_clock(&ring);
  facts->depth = busq_ring_depth(&ring);
  facts->growth_bytes = busq_reserve_growth(bus, slot);
  facts->sent = busq_load_relaxed(&self->sent);
  facts->received = busq_load_relaxed(&self->received);
  facts->late = busq_load_relaxed(&self->late);
  facts->helped = busq_load_relaxed(&self->helped);
  if (facts->is_alive)
    examine_waiting(self, facts);
  return BUSQ_OK;
}

/* A reader's messages count as received and sent by its queue, whose process is one of its readers'. */
static void reader_add(const busq_peer_facts *reader, busq_peer_facts *queue)
{
  queue->received += reader->received;
  queue->sent += reader->sent;
  queue->memory_bytes += reader->memory_bytes;
  queue->consumers += reader->is_alive;
  if (reader->is_alive)
    queue->pid = reader->pid;
}

static void examine_readers(const busq_bus *bus, uint32_t slot, busq_peer_facts *facts)
{
  busq_peer_facts seen;
  for (uint32_t reader = 0; reader < busq_slots_reached(bus); reader++)
    if (busq_share_is_reader_of(bus, reader, slot) && examine_alone(bus, reader, &seen) == BUSQ_OK) {
      seen.memory_bytes = busq_arena_used_bytes(bus, reader);
      reader_add(&seen, facts);
    }
}

int busq_bus_examine_peer(busq_bus *bus, uint32_t slot, busq_peer_facts *facts)
{
  if (slot >= bus->geometry.peers)
    return busq_error(BUSQ_INVALID, "peer slot %u of a bus with %u slots", slot, bus->geometry.peers);
  if (slot >= busq_slots_reached(bus)) { /* where no peer ever was */
    memset(facts, 0, sizeof *facts);
    return BUSQ_OK;
  }
  const int result = examine_alone(bus, slot, facts);
  if (result != BUSQ_OK)
    return result;
  facts->memory_bytes = busq_arena_used_bytes(bus, slot);
  if (facts->is_shared)
    examine_readers(bus, slot, facts);
  return BUSQ_OK;
}

/* One look at each slot and at each extent. */
void busq_bus_examine_peers(busq_bus *bus, busq_peer_facts *facts)
{
  const uint32_t n = busq_slots_reached(bus);
  memset(facts + n, 0, (bus->geometry.peers - n) * sizeof *facts);
  for (uint32_t slot = 0; slot < n; slot++)
    (void)examine_alone(bus, slot, &facts[slot]);
  for (uint64_t extent = 0; extent < bus->geometry.extents; extent = busq_extent_next(bus, extent)) {
    const uint64_t word = busq_load_relaxed(&bus->table[extent].word);
    const uint32_t owner = busq_extent_owner(word);
    if (owner < n)
      facts[owner].memory_bytes += busq_extent_used_bytes(bus, extent, word);
  }
  for (uint32_t reader = 0; reader < n; reader++) {
    const uint32_t queue = (uint32_t)busq_load_acquire(&bus->slots[reader].consumes);
    if (facts[reader].is_consumer && queue < n && facts[queue].is_shared && busq_share_is_reader_of(bus, reader, queue))
      reader_add(&facts[reader], &facts[queue]);
  }
}

int busq_bus_is_live(const busq_bus *bus, uint64_t target)
{
  const uint32_t slot = busq_target_slot(target);
  if (slot >= busq_slots_reached(bus))
    return 0;
  const uint64_t life = busq_load_acquire(&bus->slots[slot].life);
  return (uint32_t)(life >> 32) == busq_target_incarnation(target) && peer_state(bus, slot, life) == BUSQ_PEER_LIVE;
}

int busq_bus_depth(busq_bus *bus, uint64_t target, uint64_t *depthp)
{
  const int result = busq_target_check(bus, target);
  if (result != BUSQ_OK)
    return result;
  const busq_ring ring = busq_bus_ring(bus, busq_target_slot(target));
  *depthp = busq_ring_depth(&ring);
  return BUSQ_OK;
}

int busq_bus_passed(busq_bus *bus, uint64_t target, uint64_t *passedp)
{
  const int result = busq_target_check(bus, target);
  if (result != BUSQ_OK)
    return result;
  *passedp = busq_load_acquire(&busq_bus_ring(bus, busq_target_slot(target)).queue->head);
  return BUSQ_OK;
}

int busq_bus_is_short(busq_bus *bus, uint64_t target, int *is_shortp)
{
  const uint32_t slot = busq_target_slot(target);
  const int result = busq_target_check(bus, target);
  if (result != BUSQ_OK)
    return result;
  const busq_ring ring = busq_bus_ring(bus, slot);
  const uint64_t tail = busq_ring_tail(&ring);
  bool is_refused;
  *is_shortp = busq_ring_depth(&ring) && !busq_ring_reaches(&ring, tail) &&
               busq_reserve_ring(bus, slot, tail, &is_refused) == BUSQ_FULL;
  return BUSQ_OK;
}

typedef struct {
  uint64_t waiting;
  uint64_t unfinished;
} message_count;

/* Counts what stands in a ring and belongs to a queue: in its own ring, or in the hands of one of its readers
 * (shared_take.h). */
static void ring_count(const busq_bus *bus, uint32_t slot, uint32_t queue, message_count *count)
{
  const busq_ring ring = busq_bus_ring(bus, slot);
  const uint64_t head = busq_load_acquire(&ring.queue->head);
  const uint64_t tail = busq_ring_tail(&ring);
  for (uint64_t at = head; at < tail && at - head < ring.slot_count; at++) {
    busq_reference seen;
    if (!busq_ring_look(&ring, at, &seen) || seen.sender == BUSQ_RING_NOBODY)
      continue;
    const bool is_claimed = (seen.sender & BUSQ_RING_CLAIMED) != 0;
    if (is_claimed ? (seen.sender & BUSQ_RING_TAKEN) != 0 : busq_reference_fate(bus, queue, seen) == BUSQ_FATE_DEAD)
      continue;
    count->unfinished++;
    count->waiting += !is_claimed;
  }
}

static void hands_count(const busq_bus *bus, uint32_t queue, message_count *count)
{
  for (uint32_t reader = 0; reader < busq_slots_reached(bus); reader++)
    if (busq_share_is_reader_of(bus, reader, queue))
      ring_count(bus, reader, queue, count);
}

static uint64_t in_hands(const busq_bus *bus, uint32_t queue)
{
  message_count count = {0};
  hands_count(bus, queue, &count);
  return count.unfinished;
}

/* The queue before the hands, since messages go that way.  Where nothing was found, the hands once more: from those of
 * a reader that died a message may have gone to one that we had looked at before.  Where some are done ahead (done_ahead.c), one
 * too few would be as wrong as none: so the hands also before the queue, to which those of a reader that died go back. */
int busq_bus_count(busq_bus *bus, uint64_t target, uint64_t *waitingp, uint64_t *unfinishedp)
{
  const uint32_t slot = busq_target_slot(target);
  message_count count = {0};
  const int result = busq_target_check(bus, target);
  if (result != BUSQ_OK)
    return result;
  const bool is_shared = (busq_load_acquire(&bus->slots[slot].life) & BUSQ_LIFE_SHARED) != 0;
  const uint64_t before = is_shared && (uint32_t)busq_bus_ahead(bus, target) ? in_hands(bus, slot) : 0;
  ring_count(bus, slot, slot, &count);
  const uint64_t queued = count.unfinished;
  for (int i = 0; i < 2 && is_shared && (i == 0 || !count.unfinished); i++)
    hands_count(bus, slot, &count);
  *waitingp = count.waiting;
  *unfinishedp = count.unfinished < queued + before ? queued + before : count.unfinished;
  return BUSQ_OK;
}

/* Messages that are done with stay behind the head until the reader takes another one (shared_take.h). */
uint64_t busq_peer_hands(busq_peer *peer)
{
  const busq_ring ring = busq_bus_ring(peer->bus, peer->slot);
  const uint64_t head = busq_load_acquire(&ring.queue->head);
  const uint64_t depth = busq_ring_tail(&ring) - head;
  uint64_t done = 0;
  busq_reference seen;
  while (done < depth && done < ring.slot_count && busq_ring_look(&ring, head + done, &seen) &&
         seen.sender == BUSQ_RING_NOBODY)
    done++;
  return depth - done;
}

/* ---- names ---- */

int busq_peer_lookup(busq_peer *peer, const char *name, size_t name_bytes, uint64_t *targetp)
{
  busq_bus *bus = peer->bus;
  bool was_here = false;
  int result = busq_peer_check(peer);
  if (!result && name_bytes && name[0] == '@')
    return busq_group_check(name, name_bytes) ? BUSQ_INVALID : busq_group_named(bus, name, name_bytes, false, targetp);
  if (!result)
    result = busq_name_check(name, name_bytes);
  if (result)
    return result;
  for (uint32_t slot = 0; slot < busq_slots_reached(bus); slot++) {
    uint64_t life;
    if (!busq_name_is(bus, slot, name, name_bytes, &life))
      continue;
    was_here = true;
    const uint32_t incarnation = (uint32_t)(life >> 32);
    if (slot == peer->slot || busq_grave_check(bus, slot, incarnation)) {
      *targetp = (uint64_t)incarnation << 16 | slot;
      return BUSQ_OK;
    }
  }
  if (was_here)
    return busq_error(BUSQ_PEER_DEAD, "peer \"%.*s\" has left bus \"%s\" or died", (int)name_bytes, name, bus->name);
  return busq_error(BUSQ_UNKNOWN_PEER, "nobody named \"%.*s\" is on bus \"%s\": where it is about to join, wait for it (Bus.wait_for)",
                    (int)name_bytes, name, bus->name);
}

int busq_bus_readers(busq_bus *bus, const char *name, size_t name_bytes, uint32_t *countp, uint32_t *is_sharedp)
{
  bool was_here = false;
  const int result = busq_name_check(name, name_bytes);
  if (result)
    return result;
  for (uint32_t slot = 0; slot < busq_slots_reached(bus); slot++) {
    uint64_t life;
    if (!busq_name_is(bus, slot, name, name_bytes, &life))
      continue;
    was_here = true;
    if ((life & BUSQ_LIFE_MASK) != BUSQ_LIFE_LIVE || !busq_life_is_held(bus, slot))
      continue;
    *is_sharedp = (life & BUSQ_LIFE_SHARED) != 0;
    *countp = *is_sharedp ? busq_share_readers(bus, slot) : 1;
    return BUSQ_OK;
  }
  return was_here ? BUSQ_PEER_DEAD : BUSQ_UNKNOWN_PEER;
}

/* ---- groups ---- */

int busq_bus_view(busq_bus *bus, const char *group, size_t group_bytes, uint64_t *numberp, uint64_t *members,
                  uint32_t *countp)
{
  uint64_t target;
  int result = busq_group_check(group, group_bytes);
  if (!result)
    result = busq_group_named(bus, group, group_bytes, false, &target);
  if (result)
    return result;
  const uint32_t index = busq_group_index(target);
  if (!busq_group_members(bus, index, members, countp, numberp))
    return busq_group_damaged(bus, index);
  *numberp -= busq_group_shown_above(busq_bus_group(bus, index));
  return BUSQ_OK;
}

int busq_bus_view_lives(busq_bus *bus, const char *group, size_t group_bytes, const uint64_t *members, uint32_t count,
                        uint32_t *lives)
{
  uint64_t target;
  int result = busq_group_check(group, group_bytes);
  if (!result)
    result = busq_group_named(bus, group, group_bytes, false, &target);
  for (uint32_t i = 0; i < count && !result; i++) {
    const uint32_t slot = busq_target_slot(members[i]);
    if (slot >= busq_slots_reached(bus))
      return busq_error(BUSQ_INVALID, "member %u is slot %u of a bus with %u slots", i, slot, bus->geometry.peers);
    const uint64_t member = busq_numbered_load(&busq_bus_group(bus, busq_group_index(target))->member[slot]).hi;
    const bool is_it = busq_member_target(member, slot) == members[i];
    lives[i] = is_it ? busq_member_life(member) : busq_target_incarnation(members[i]);
  }
  return result;
}

int busq_bus_group_name(busq_bus *bus, uint32_t index, char *name257, size_t *name_bytesp)
{
  if (index >= bus->geometry.groups)
    return busq_error(BUSQ_INVALID, "group %u of a bus with %u groups", index, bus->geometry.groups);
  const busq_group *group = busq_bus_group(bus, index);
  const uint32_t bytes = busq_load_relaxed(&group->name_bytes);
  if (!busq_load_acquire(&group->identity.hi) || bytes < 2 || bytes >= sizeof group->name)
    return BUSQ_EMPTY;
  memcpy(name257, group->name, bytes);
  *name_bytesp = bytes;
  return BUSQ_OK;
}

int busq_bus_group_seen(busq_bus *bus, uint32_t index, uint32_t slot, uint64_t *numberp)
{
  if (index >= bus->geometry.groups || slot >= bus->geometry.peers)
    return busq_error(BUSQ_INVALID, "slot %u and group %u of a bus with %u peer slots and %u groups", slot, index,
                      bus->geometry.peers, bus->geometry.groups);
  busq_group *group = busq_bus_group(bus, index);
  const uint64_t seen = busq_load_relaxed(&busq_group_viewed(group, bus->geometry.peers)[slot]) >> 1;
  const uint64_t base = busq_load_relaxed(&group->base); /* what is below belongs to a group that had the entry before */
  *numberp = seen > base ? seen - busq_group_shown_above(group) : 0;
  return BUSQ_OK;
}
