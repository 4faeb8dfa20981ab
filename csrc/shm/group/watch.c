/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/group/watch.h"
#include "base/error.h"
#include "shm/burial/grave.h"
#include "shm/memory/names.h"
#include "shm/send/multicast.h"
#include "shm/trace/tracer.h"
#include <string.h>

/* A life in the words: the incarnation (32), which life of that it is, from 0 (19, round and round), the slot (12), it is
 * there (1).  0: none was announced. */
static const uint64_t IS_THERE = 1;
enum { LIFE_SHIFT = 13, LIFE_MASK = (1 << 19) - 1 };
_Static_assert(BUSQ_LAYOUT_PEERS_MAX <= 1 << 12, "a slot fits into the word");

static uint64_t life_in_word(uint32_t slot, uint32_t incarnation, uint32_t life)
{
  return (uint64_t)incarnation << 32 | (uint64_t)((life - incarnation) & LIFE_MASK) << LIFE_SHIFT | slot << 1 | IS_THERE;
}

static uint32_t subject_slot(uint64_t subject)
{
  return (uint32_t)(subject >> 1) & (BUSQ_LAYOUT_PEERS_MAX - 1);
}

static uint32_t subject_incarnation(uint64_t subject)
{
  return (uint32_t)(subject >> 32);
}

static uint32_t subject_life(uint64_t subject)
{
  return subject_incarnation(subject) + ((uint32_t)(subject >> LIFE_SHIFT) & LIFE_MASK);
}

static busq_watcher *watch_at(const busq_bus *bus, uint32_t index, uint32_t slot)
{
  return &busq_group_watchers(busq_bus_group(bus, index), bus->geometry.peers)[slot];
}

/* ---- the claim of one watcher ---- */

static void notice_install(busq_bus *bus, void *about, const busq_claim_look *look)
{
  busq_watcher *watch = about;
  busq_view_event change;
  const uint64_t number = busq_claim_number(look->word) + 1;
  if (!busq_claim_read(bus, look, &change, sizeof change) || change.number != number ||
      change.slot >= busq_slots_reached(bus))
    return;
  const uint64_t subject = life_in_word(change.slot, change.incarnation, change.life);
  busq_numbered_install(&watch->told, number, change.what == BUSQ_CHANGE_UP ? subject : subject & ~IS_THERE);
  (void)busq_claim_move(&watch->claim, look->word, number, BUSQ_CLAIM_IDLE);
}

/* A new watcher got no notice: that is decided without a message. */
static void nothing_install(busq_bus *bus, void *about, const busq_claim_look *look)
{
  busq_watcher *watch = about;
  (void)bus;
  const uint64_t number = busq_claim_number(look->word) + 1;
  busq_numbered_install(&watch->told, number, 0);
  (void)busq_claim_move(&watch->claim, look->word, number, BUSQ_CLAIM_IDLE);
}

static busq_claimed claimed_by(busq_watcher *watch)
{
  return (busq_claimed){&watch->claim, watch, notice_install, nothing_install};
}

static void install_until(busq_bus *bus, busq_watcher *watch, uint64_t number)
{
  const busq_claimed claimed = claimed_by(watch);
  busq_claim_install_until(bus, &claimed, number);
}

/* Finds the number at which the next notice can be claimed.  False: damage. */
static bool claim_settle(busq_bus *bus, busq_watcher *watch, uint64_t *numberp)
{
  const busq_claimed claimed = claimed_by(watch);
  return busq_claim_settle(bus, &claimed, numberp);
}

void busq_watch_install_until(busq_peer *peer, uint32_t index, uint64_t number)
{
  install_until(peer->bus, watch_at(peer->bus, index, peer->slot), number);
}

bool busq_watch_begin(busq_peer *peer, uint32_t index)
{
  busq_watcher *watch = watch_at(peer->bus, index, peer->slot);
  uint64_t number;
  for (int turn = 0; turn < BUSQ_CLAIM_TURNS && claim_settle(peer->bus, watch, &number); turn++) {
    const busq_pair told = busq_numbered_load(&watch->told);
    BUSQ_STEP("watch");
    if (!told.hi && told.lo == number)
      return true;
    (void)busq_claim_move(&watch->claim, busq_claim_pair(number, BUSQ_CLAIM_IDLE), number, BUSQ_CLAIM_EMPTY);
  }
  return false;
}

/* ---- what has changed ---- */

static bool is_this_life(const busq_bus *bus, uint64_t subject)
{
  const uint32_t slot = subject_slot(subject), incarnation = subject_incarnation(subject);
  return life_in_word(slot, incarnation, busq_load_acquire(&bus->slots[slot].lives)) == (subject | IS_THERE);
}

/* For good: a peer that is resumed has another life.  The number of a life is given before it lives, and when what the
 * one before had in its hand is settled. */
static bool subject_is_gone(busq_bus *bus, uint64_t subject)
{
  return !is_this_life(bus, subject) || busq_group_is_gone(bus, subject_slot(subject), subject_incarnation(subject)) ||
         !is_this_life(bus, subject);
}

/* The peer that has the name now, as in the words; 0: none has it. */
static uint64_t subject_now(busq_bus *bus, uint32_t index)
{
  busq_group *group = busq_bus_group(bus, index);
  const uint32_t bytes = busq_load_relaxed(&group->name_bytes);
  if (bytes < 2 || bytes >= sizeof group->name)
    return 0;
  for (uint32_t slot = 0; slot < busq_slots_reached(bus); slot++) {
    uint64_t life;
    if (!busq_name_is(bus, slot, group->name + 1, bytes - 1, &life))
      continue;
    const uint64_t subject = life_in_word(slot, (uint32_t)(life >> 32), busq_load_acquire(&bus->slots[slot].lives));
    if (!subject_is_gone(bus, subject))
      return subject;
  }
  return 0;
}

/* The watcher in that slot, as a target, if something can be sent to it; 0: there is none. */
static uint64_t watcher_at(busq_bus *bus, uint64_t group, uint32_t slot)
{
  const uint32_t index = busq_group_index(group);
  const uint64_t member = busq_numbered_load(&busq_bus_group(bus, index)->member[slot]).hi;
  const uint64_t watcher = busq_member_target(member, slot);
  const bool is_one = (member & BUSQ_MEMBER_IS_IN) && !(member & BUSQ_MEMBER_MISSED) && busq_group_is_still(bus, group);
  return is_one && busq_grave_check(bus, slot, busq_target_incarnation(watcher)) ? watcher : 0;
}

static bool is_told(uint64_t told, uint64_t now)
{
  return told == now || (!now && !(told & IS_THERE));
}

/* ---- one notice ---- */

typedef struct {
  busq_send_hooks hooks;
  busq_watcher *watch;
  uint64_t number;  /* at which it is claimed */
  uint64_t subject; /* that has come, or gone */
  bool has_come;
  uint32_t index;
} notice;

/* A busq_send_hooks is the first in it. */
static notice *notice_of(busq_send_hooks *hooks)
{
  return (notice *)(void *)hooks;
}

static int notice_begin(busq_send_hooks *hooks, busq_peer *peer, busq_record *record, uint64_t tag)
{
  const notice *self = notice_of(hooks);
  return busq_claim_take(peer, &self->watch->claim, self->number, record, tag) ? BUSQ_OK : BUSQ_AGAIN;
}

static void notice_undone(busq_send_hooks *hooks, busq_peer *peer, busq_record *record, uint64_t tag)
{
  const notice *self = notice_of(hooks);
  busq_claim_drop(peer, &self->watch->claim, self->number, record, tag);
}

static void notice_end(busq_send_hooks *hooks, busq_peer *peer, busq_record *record, busq_key key)
{
  const notice *self = notice_of(hooks);
  (void)record;
  (void)key;
  install_until(peer->bus, self->watch, self->number + 1);
}

enum { NOTICE_BYTES_MAX = sizeof(busq_view_event) + sizeof(busq_view_member) + 2 * BUSQ_LAYOUT_NAME_BYTES_MAX + 2 };

/* A change of a view that has no members: the peer with its name, and the group's.  A watched peer is called by the name
 * it is watched under: its slot may be another's by now. */
static uint64_t notice_write(const busq_bus *bus, const notice *self, char *to)
{
  const busq_group *group = busq_bus_group(bus, self->index);
  const uint32_t slot = subject_slot(self->subject);
  const uint32_t incarnation = subject_incarnation(self->subject), life = subject_life(self->subject);
  const uint32_t read = busq_load_relaxed(&group->name_bytes);
  const uint32_t bytes = read >= 1 && read <= BUSQ_LAYOUT_NAME_BYTES_MAX + 1 ? read : 1;
  const busq_view_event head = {.number = self->number + 1,
                                 .incarnation = incarnation,
                                 .life = life,
                                 .slot = (uint16_t)slot,
                                 .what = self->has_come ? BUSQ_CHANGE_UP : BUSQ_CHANGE_DOWN,
                                 .n_entries = 1};
  const busq_view_member entry = {incarnation, life, (uint16_t)slot, (uint16_t)(bytes - 1)};
  memcpy(to, &head, sizeof head);
  memcpy(to + sizeof head, &entry, sizeof entry);
  char *name = to + sizeof head + sizeof entry;
  memcpy(name, group->name + 1, bytes - 1);
  memcpy(name + bytes - 1, group->name, bytes);
  return sizeof head + sizeof entry + 2u * bytes - 1;
}

static int notice_send(busq_peer *peer, notice *self, uint64_t watcher)
{
  char written[NOTICE_BYTES_MAX];
  const busq_envelope envelope = {.kind = self->has_come ? BUSQ_KIND_JOINED : BUSQ_KIND_LEFT,
                                  .group = (uint16_t)(self->index + 1),
                                  .view = self->number + 1};
  const busq_part parts[] = {{written, notice_write(peer->bus, self, written)}, {&envelope, sizeof envelope}};
  const busq_payload sent = {.parts = parts,
                             .n_parts = 2,
                             .form = BUSQ_FORM_DATA | BUSQ_FORM_ENVELOPE,
                             .size_bytes = parts[0].size_bytes + sizeof envelope,
                             .hooks = &self->hooks};
  const int result = busq_multicast_try(peer, &watcher, 1, &sent);
  return result == BUSQ_PEER_DEAD ? BUSQ_AGAIN : result;
}

/* The one that was announced goes before another one comes.  BUSQ_AGAIN: it was made, or the world has changed; BUSQ_OK:
 * no notice is due. */
static int notify_once(busq_peer *peer, uint64_t group, uint32_t slot)
{
  busq_bus *bus = peer->bus;
  const uint32_t index = busq_group_index(group);
  notice self = {.hooks = {.begin = notice_begin, .undone = notice_undone, .end = notice_end},
                 .watch = watch_at(bus, index, slot),
                 .index = index};
  if (!claim_settle(bus, self.watch, &self.number))
    return busq_group_damaged(bus, index);
  const busq_pair told = busq_numbered_load(&self.watch->told);
  const uint64_t now = subject_now(bus, index);
  const uint64_t watcher = watcher_at(bus, group, slot);
  if (!watcher || is_told(told.hi, now))
    return BUSQ_OK;
  if (told.lo > self.number)
    return BUSQ_AGAIN;
  self.has_come = !(told.hi & IS_THERE);
  self.subject = self.has_come ? now : told.hi;
  if (subject_is_gone(bus, self.subject) == self.has_come)
    return BUSQ_AGAIN;
  const int result = notice_send(peer, &self, watcher);
  return result == BUSQ_OK ? BUSQ_AGAIN : result;
}

int busq_watch_notify(busq_peer *peer, uint64_t group, uint32_t slot)
{
  const bool is_on_the_way = busq_tracer_begin_on_the_way(peer);
  int result = BUSQ_AGAIN;
  for (int turn = 0; turn < BUSQ_CLAIM_TURNS && result == BUSQ_AGAIN; turn++) {
    if (BUSQ_UNLIKELY(is_on_the_way))
      peer->tracer.begun = busq_bus_recording_now(peer->bus);
    result = notify_once(peer, group, slot);
  }
  busq_tracer_end_on_the_way(peer, is_on_the_way);
  if (result != BUSQ_AGAIN)
    return result;
  peer->sender.failed_target = BUSQ_NO_TARGET; /* a queue has room; it is worth trying later */
  return BUSQ_FULL;
}

/* Nothing is claimed, and nothing is due. */
static bool is_at_rest(busq_watcher *watch, uint64_t now)
{
  return busq_claim_state(busq_claim_load(&watch->claim)) == BUSQ_CLAIM_IDLE &&
         is_told(busq_numbered_load(&watch->told).hi, now);
}

int busq_watch_notify_all(busq_peer *peer, uint64_t group)
{
  const uint32_t index = busq_group_index(group), peers = peer->bus->geometry.peers;
  busq_group *watchers = busq_bus_group(peer->bus, index);
  const uint64_t now = subject_now(peer->bus, index);
  int result = BUSQ_OK;
  for (uint32_t i = 1; i <= peers; i++) {
    const uint32_t slot = (peer->slot + i) % peers;
    const bool is_one = busq_numbered_load(&watchers->member[slot]).hi & BUSQ_MEMBER_IS_IN;
    if (!is_one || is_at_rest(watch_at(peer->bus, index, slot), now))
      continue;
    const int one = busq_watch_notify(peer, group, slot);
    if (one != BUSQ_OK)
      result = one;
  }
  return result;
}

/* ---- what a peer owes to the watchers of its name ---- */

void busq_watch_joined(busq_peer *peer, uint64_t group)
{
  peer->sender.owed_watchers = busq_watch_notify_all(peer, group) == BUSQ_OK ? 0 : group;
}

/* Is a notice owed to one of them still? */
static bool owes(const busq_peer *peer, uint64_t group)
{
  const uint32_t index = busq_group_index(group);
  const uint64_t now = subject_now(peer->bus, index);
  for (uint32_t slot = 0; slot < peer->bus->geometry.peers; slot++)
    if (watcher_at(peer->bus, group, slot) &&
        !is_told(busq_numbered_load(&watch_at(peer->bus, index, slot)->told).hi, now))
      return true;
  return false;
}

int busq_watch_owed_send(busq_peer *peer, const uint64_t *targets, uint32_t n_targets)
{
  enum { SENDS_PER_LOOK = 256 };
  const uint64_t group = peer->sender.owed_watchers;
  bool is_due = peer->sender.sequence % SENDS_PER_LOOK == 0;
  int result = BUSQ_OK;
  peer->sender.owed_watchers = 0; /* the notices themselves owe nothing */
  for (uint32_t i = 0; i < n_targets && result == BUSQ_OK; i++) {
    const uint32_t slot = busq_target_slot(targets[i]);
    if (slot >= busq_slots_reached(peer->bus) || !watcher_at(peer->bus, group, slot))
      continue;
    result = busq_watch_notify(peer, group, slot);
    is_due = true;
  }
  if (result != BUSQ_OK || !is_due || owes(peer, group))
    peer->sender.owed_watchers = group;
  return result;
}
