/* SPDX-License-Identifier: Apache-2.0 */
/* The names of processes and messages in a state of the model of groups, and states that differ by nothing else. */
#include "base/hash.h"
#include "check/groups_model.h"
#include <string.h>

enum { PROCESSES = BUSQ_GROUPS_PROCESSES_MAX };

typedef const busq_groups_config config_t;
typedef const busq_groups_state state_t;

/* The name of a process, or the process of a name. */
typedef struct {
  uint8_t name_of[PROCESSES];
  uint8_t called[PROCESSES];
  uint8_t message_of[BUSQ_GROUPS_MESSAGES_MAX];
  uint32_t n;
} names;

static uint64_t hash_words(const void *bytes, size_t n_bytes, uint64_t hash)
{
  for (size_t at = 0; at < n_bytes; at += sizeof(uint64_t)) {
    uint64_t word;
    memcpy(&word, (const char *)bytes + at, sizeof word);
    hash = busq_hash_fold(hash ^ word, UINT64_C(0x9e3779b97f4a7c15)) + at;
  }
  return hash;
}

/* ---- renaming ---- */

static uint32_t rename_set(const names *renaming, uint32_t set)
{
  uint32_t renamed = 0;
  for (uint32_t process = 0; process < renaming->n; process++)
    renamed |= (set >> process & 1) << renaming->name_of[process];
  return renamed;
}

/* Messages are called by their senders' names, and those of one sender in their order. */
static void name_messages(names *renaming, state_t *state)
{
  uint8_t next = 0;
  for (uint32_t name = 0; name < renaming->n; name++)
    for (uint32_t message = 0; message < state->head.n_messages; message++)
      if (renaming->name_of[state->head.message_sender[message]] == name)
        renaming->message_of[message] = next++;
}

static uint16_t rename_event(const names *renaming, uint16_t event)
{
  if (!busq_groups_event_view(event))
    return renaming->message_of[event];
  const uint32_t died = event & 0xf;
  return busq_groups_view_event(busq_groups_event_view(event), rename_set(renaming, event >> 4 & 0x3f),
                                died ? renaming->name_of[died - 1] + 1u : 0);
}

static void rename_process(const names *renaming, const busq_groups_process *from, busq_groups_process *to, bool is_torn)
{
  *to = *from;
  to->message = from->message ? renaming->message_of[from->message - 1] + 1 : 0;
  to->subject = is_torn ? (uint8_t)rename_set(renaming, from->subject) : from->change ? renaming->name_of[from->subject] : 0;
  for (uint32_t at = 0; at < from->n_events; at++)
    to->events[at] = rename_event(renaming, from->events[at]);
}

static void rename_record(const names *renaming, const busq_groups_record *from, busq_groups_record *to)
{
  *to = *from;
  to->owner = renaming->name_of[from->owner];
  to->members = (uint8_t)rename_set(renaming, from->members);
  to->targets = (uint8_t)rename_set(renaming, from->targets);
  to->queued = (uint8_t)rename_set(renaming, from->queued);
  to->staged = (uint8_t)rename_set(renaming, from->staged);
  if (from->change)
    to->subject = renaming->name_of[from->subject];
  else
    to->message = renaming->message_of[from->message];
}

static void rename_head(const names *renaming, const busq_groups_head *from, busq_groups_head *to)
{
  *to = *from;
  to->members = (uint8_t)rename_set(renaming, from->members);
  to->dead = (uint8_t)rename_set(renaming, from->dead);
  to->stopped = (uint8_t)rename_set(renaming, from->stopped);
  to->first_members = (uint8_t)rename_set(renaming, from->first_members);
  to->gone = (uint8_t)rename_set(renaming, from->gone);
  for (uint32_t message = 0; message < from->n_messages; message++) {
    to->message_sender[renaming->message_of[message]] = renaming->name_of[from->message_sender[message]];
    to->message_view[renaming->message_of[message]] = from->message_view[message];
  }
}

/* Records stand in the order of their owners; a claim holds the place. */
static void rename_state(names *renaming, state_t *from, busq_groups_state *to)
{
  uint32_t count = 0;
  name_messages(renaming, from);
  rename_head(renaming, &from->head, &to->head);
  for (uint32_t process = 0; process < renaming->n; process++) {
    const busq_groups_process *self = &from->processes[process];
    rename_process(renaming, self, &to->processes[renaming->name_of[process]], self->place == BUSQ_GROUPS_TORN);
  }
  for (uint32_t name = 0; name < renaming->n; name++)
    for (uint32_t at = 0; at < from->head.n_records; at++) {
      if (from->records[at].owner != renaming->called[name])
        continue;
      if (from->head.claim == at + 1)
        to->head.claim = (uint8_t)(count + 1);
      rename_record(renaming, &from->records[at], &to->records[count++]);
    }
}

static uint64_t hash_renamed(names *renaming, state_t *state)
{
  busq_groups_state renamed;
  memset(&renamed.processes[renaming->n], 0, (PROCESSES - renaming->n) * sizeof renamed.processes[0]);
  rename_state(renaming, state, &renamed);
  const uint64_t hash = busq_hash_mix(hash_words(&renamed, busq_groups_bytes(&renamed), state->head.n_records));
  return hash ? hash : 1;
}

/* ---- which names ---- */

/* Hashes a process without its name. */
static uint64_t sign(state_t *state, uint32_t process)
{
  const busq_groups_head *head = &state->head;
  const busq_groups_process *self = &state->processes[process];
  const uint8_t sets[8] = {head->members, head->dead, head->stopped, head->first_members, head->gone};
  uint64_t bits = 0, sum = 0;
  for (uint32_t which = 0; which < 5; which++)
    bits = bits << 1 | (sets[which] >> process & 1);
  bits = bits << 8 | self->clock;
  bits = bits << 8 | self->view;
  bits = bits << 8 | self->place;
  bits = bits << 8 | self->seen;
  bits = bits << 4 | self->change;
  bits = bits << 4 | self->n_events;
  bits = bits << 4 | (uint32_t)(self->message != 0) << 1 | self->is_in;
  for (uint32_t at = 0; at < head->n_records; at++) {
    const busq_groups_record *record = &state->records[at];
    const uint64_t part = (uint64_t)record->time << 32 | (uint64_t)record->proposal << 24 | (uint64_t)record->view << 16 |
                          (uint64_t)record->phase << 8 | record->change;
    sum += busq_hash_mix(part << 6 | (record->owner == process) << 4 | (record->targets >> process & 1) << 3 |
                         (record->queued >> process & 1) << 2 | (record->staged >> process & 1) << 1 |
                         (record->members >> process & 1));
  }
  return busq_hash_mix(bits) + sum;
}

static void call(names *renaming, uint32_t process, uint32_t name)
{
  renaming->called[name] = (uint8_t)process;
  renaming->name_of[process] = (uint8_t)name;
}

/* The least fingerprint over all ways to name those that look alike, from this name on. */
static uint64_t least_hash(names *self, state_t *state, const uint64_t *signs, uint32_t name)
{
  if (name + 1 >= self->n)
    return hash_renamed(self, state);
  uint64_t least = UINT64_MAX;
  const uint8_t first = self->called[name];
  for (uint32_t other = name; other < self->n && signs[self->called[other]] == signs[first]; other++) {
    const uint8_t chosen = self->called[other];
    call(self, first, other);
    call(self, chosen, name);
    const uint64_t hash = least_hash(self, state, signs, name + 1);
    least = hash < least ? hash : least;
    call(self, chosen, other);
    call(self, first, name);
  }
  return least;
}

static void name_by_sign(names *self, const uint64_t *signs)
{
  for (uint32_t process = 0; process < self->n; process++) {
    uint32_t name = process;
    for (; name > 0 && signs[self->called[name - 1]] > signs[process]; name--)
      call(self, self->called[name - 1], name);
    call(self, process, name);
  }
}

uint64_t busq_groups_fingerprint(config_t *config, state_t *state)
{
  names self = {.n = config->processes};
  uint64_t signs[PROCESSES];
  for (uint32_t process = 0; process < self.n; process++)
    call(&self, process, process);
  if (!config->reduces || !config->whole || config->names_last) {
    if (config->reduces)
      return hash_renamed(&self, state);
    const uint64_t hash = busq_hash_mix(hash_words(state, busq_groups_bytes(state), state->head.n_records));
    return hash ? hash : 1;
  }
  for (uint32_t process = 0; process < self.n; process++)
    signs[process] = sign(state, process);
  name_by_sign(&self, signs);
  return least_hash(&self, state, signs, 0);
}
