/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "shm/group/group.h"
#include "shm/send/draft.h"
#include "shm/send/multicast.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
  busq_send_hooks hooks;
  bool has_others; /* named beside the group */
} message_hooks;

/* The verdict stands in the record, for receivers that were named and come late. */
static void verdict_note(busq_record *record, uint16_t verdict)
{
  const uint16_t seen = busq_load_relaxed(&record->outline);
  if (!(seen & (BUSQ_RECORD_COUNTS | BUSQ_RECORD_MISSED)))
    (void)busq_fetch_or(&record->outline, verdict);
}

int busq_group_judge(busq_peer *peer, const busq_send_hooks *hooks, busq_record *record, busq_key key, bool has_others)
{
  const uint32_t index = hooks->group - 1;
  const busq_group_verdict verdict = busq_group_counts(peer->bus, index, hooks->view, key);
  bool is_missed = verdict == BUSQ_GROUP_MISSED;
  if (verdict == BUSQ_GROUP_FORGOTTEN)
    is_missed = (busq_load_acquire(&record->outline) & BUSQ_RECORD_MISSED) != 0;
  if (has_others)
    verdict_note(record, is_missed ? BUSQ_RECORD_MISSED : BUSQ_RECORD_COUNTS);
  if (is_missed)
    return BUSQ_AGAIN;
  return verdict == BUSQ_GROUP_DAMAGED ? busq_group_damaged(peer->bus, index) : BUSQ_OK;
}

static void message_end(busq_send_hooks *hooks, busq_peer *peer, busq_record *record, busq_key key)
{
  const message_hooks *message = (message_hooks *)(void *)hooks;
  hooks->outcome = busq_group_judge(peer, hooks, record, key, message->has_others);
}

int busq_group_among(busq_peer *peer, const uint64_t *targets, uint32_t n_targets, uint64_t *groupp)
{
  uint32_t n_groups = 0;
  for (uint32_t i = 0; i < n_targets; i++) {
    const bool is_group = busq_target_slot(targets[i]) == BUSQ_TARGET_GROUP;
    if (is_group) {
      *groupp = targets[i];
      n_groups++;
    } else if (busq_target_slot(targets[i]) >= busq_slots_reached(peer->bus)) {
      return busq_error(BUSQ_INVALID, "receiver %u is slot %u of a bus with %u slots", i, busq_target_slot(targets[i]),
                        peer->bus->geometry.peers);
    } else if (busq_load_acquire(&peer->bus->slots[busq_target_slot(targets[i])].life) & BUSQ_LIFE_SHARED) {
      return busq_error(BUSQ_INVALID, "\"%.255s\" is a queue of several readers, and can't stand beside a group: send to it by itself",
                        peer->bus->slots[busq_target_slot(targets[i])].name);
    }
  }
  if (n_groups > 1)
    return busq_error(BUSQ_INVALID, "%u groups among the receivers: a message goes to one group, and to peers beside it", n_groups);
  return busq_group_index(*groupp) < peer->bus->geometry.groups
             ? BUSQ_OK
             : busq_error(BUSQ_INVALID, "group %u of a bus with %u groups", busq_group_index(*groupp), peer->bus->geometry.groups);
}

/* The members, and the peers named beside them: each once, though one may be both.  Named twice is the caller's
 * mistake. */
static uint32_t receivers_gather(busq_peer *peer, const busq_sender_view *view, const uint64_t *targets,
                                 uint32_t n_targets, uint64_t *receivers)
{
  uint32_t count = view->n_members;
  memcpy(receivers, view->members, count * sizeof *receivers);
  for (uint32_t i = 0; i < n_targets; i++)
    if (busq_target_slot(targets[i]) != BUSQ_TARGET_GROUP && !busq_sender_view_has(view, targets[i]) &&
        count < 2 * peer->bus->geometry.peers)
      receivers[count++] = targets[i];
  return count;
}

static bool is_named_twice(const uint64_t *targets, uint32_t n_targets)
{
  for (uint32_t i = 0; i < n_targets; i++)
    for (uint32_t j = 0; j < i; j++)
      if (targets[i] == targets[j])
        return true;
  return false;
}

typedef struct {
  const busq_payload *payload; /* as it was given; with room behind its parts for an envelope */
  busq_part *parts;
} message_parts;

/* A view that a sender knows, and everything that is sent to it. */
static int message_send(busq_peer *peer, uint32_t index, const busq_sender_view *view, const uint64_t *targets,
                        uint32_t n_targets, const message_parts *message)
{
  message_hooks hooks = {.hooks = {.end = message_end, .group = index + 1, .view = view->number}};
  const busq_envelope envelope = {.kind = BUSQ_KIND_DATA, .group = (uint16_t)(index + 1), .view = view->number};
  const uint32_t n_parts = message->payload->draft ? 1 : message->payload->n_parts;
  message->parts[n_parts] = (busq_part){&envelope, sizeof envelope};
  const busq_payload sent = {
      .parts = message->parts,
      .n_parts = n_parts + 1,
      .form = message->payload->form | BUSQ_FORM_ENVELOPE,
      .size_bytes = message->payload->size_bytes + sizeof envelope,
      .hooks = &hooks.hooks,
  };
  const uint64_t *receivers = view->members;
  uint32_t n_receivers = view->n_members;
  if (BUSQ_UNLIKELY(n_targets > 1)) {
    n_receivers = receivers_gather(peer, view, targets, n_targets, peer->sender.gathering);
    receivers = peer->sender.gathering;
    hooks.has_others = n_receivers > view->n_members;
  }
  const int result = busq_multicast_try(peer, receivers, n_receivers, &sent);
  return result == BUSQ_OK ? hooks.hooks.outcome : result;
}

int busq_group_end_failed(busq_peer *peer, uint64_t group, const busq_sender_view *view)
{
  const uint64_t who = peer->sender.failed_target;
  if (!busq_sender_view_has(view, who))
    return BUSQ_PEER_DEAD;
  if (!busq_group_is_gone(peer->bus, busq_target_slot(who), busq_target_incarnation(who)))
    return BUSQ_AGAIN; /* it was resumed just now */
  const int result = busq_group_change_try(peer, &(busq_change){group, who, BUSQ_CHANGE_DIES});
  return result == BUSQ_OK ? BUSQ_AGAIN : result;
}

static int message_once(busq_peer *peer, uint64_t group, const uint64_t *targets, uint32_t n_targets,
                        const message_parts *message)
{
  busq_sender_view *view = NULL;
  int result = busq_group_sender_view(peer, group, &view);
  if (result)
    return result;
  result = message_send(peer, busq_group_index(group), view, targets, n_targets, message);
  return result == BUSQ_PEER_DEAD ? busq_group_end_failed(peer, group, view) : result;
}

static int message_try(busq_peer *peer, uint64_t group, const uint64_t *targets, uint32_t n_targets,
                       const busq_payload *payload)
{
  enum { FEW = 16 };
  busq_part few[FEW];
  const uint32_t n_parts = payload->draft ? 1 : payload->n_parts;
  message_parts message = {payload, n_parts < FEW ? few : malloc((n_parts + 1) * sizeof *few)};
  int result = BUSQ_AGAIN;
  if (!message.parts)
    return busq_error(BUSQ_NO_SPACE, "no memory for the parts of a message to a group");
  if (payload->draft)
    message.parts[0] = (busq_part){payload->draft->data, payload->size_bytes};
  else if (n_parts)
    memcpy(message.parts, payload->parts, n_parts * sizeof *few);
  for (int turn = 0; turn < BUSQ_CLAIM_TURNS && result == BUSQ_AGAIN; turn++)
    result = message_once(peer, group, targets, n_targets, &message);
  if (message.parts != few)
    free(message.parts);
  if (result == BUSQ_OK && payload->draft)
    busq_draft_discard(peer, payload->draft);
  return result == BUSQ_AGAIN ? BUSQ_FULL : result;
}

int busq_group_try(busq_peer *peer, const uint64_t *targets, uint32_t n_targets, const busq_payload *payload)
{
  uint64_t group = 0;
  const uint32_t most = peer->bus->geometry.peers + 1; /* all peers, and the group */
  if (n_targets > most || is_named_twice(targets, n_targets))
    return busq_error(BUSQ_INVALID, "%u receivers: expected up to %u, each of them once", n_targets, most);
  const int result = busq_group_among(peer, targets, n_targets, &group);
  return result ? result : message_try(peer, group, targets, n_targets, payload);
}
