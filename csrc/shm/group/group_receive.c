/* SPDX-License-Identifier: Apache-2.0 */
#include "base/assert.h"
#include "shm/group/group.h"
#include "shm/group/watch.h"
#include <stdlib.h>
#include <string.h>

void busq_group_forget(const busq_peer *peer)
{
  for (uint32_t index = 0; index < peer->bus->geometry.groups; index++)
    busq_store_relaxed(&busq_group_viewed(busq_bus_group(peer->bus, index), peer->bus->geometry.peers)[peer->slot], 0);
}

/* NULL where memory ran out. */
static busq_viewed *viewed_of(busq_peer *peer, uint32_t index)
{
  const busq_geometry *geometry = &peer->bus->geometry;
  if (!peer->receiver.views)
    peer->receiver.views = calloc(geometry->groups, sizeof *peer->receiver.views);
  if (!peer->receiver.views)
    return NULL;
  busq_viewed *viewed = &peer->receiver.views[index];
  if (!viewed->is_read) {
    const uint64_t left = busq_load_relaxed(
        &busq_group_viewed(busq_bus_group(peer->bus, index), geometry->peers)[peer->slot]);
    *viewed = (busq_viewed){.number = left >> 1, .was_in = left & BUSQ_MEMBER_IS_IN, .is_read = true};
  }
  return viewed;
}

/* A receiver that passes it notes that in the record, for the sender, should that come so late that the change is
 * forgotten. */
static void missed_note(const busq_found *found)
{
  if (!(busq_load_relaxed(&found->record->outline) & (BUSQ_RECORD_COUNTS | BUSQ_RECORD_MISSED)))
    (void)busq_fetch_or(&found->record->outline, BUSQ_RECORD_MISSED);
}

/* The verdict of a receiver that is no member, or resumed and may have ceased to be one: what the sender sees, and the
 * record perhaps holds. */
static busq_group_verdict verdict_from_outside(busq_peer *peer, const busq_found *found, const busq_viewed *viewed)
{
  const uint16_t noted = busq_load_acquire(&found->record->outline);
  if (noted & (BUSQ_RECORD_COUNTS | BUSQ_RECORD_MISSED))
    return noted & BUSQ_RECORD_MISSED ? BUSQ_GROUP_MISSED : BUSQ_GROUP_COUNTS;
  const busq_group_verdict verdict =
      busq_group_counts(peer->bus, found->envelope.group - 1u, found->envelope.view, found->key);
  if (verdict != BUSQ_GROUP_FORGOTTEN)
    return verdict;
  return viewed->number == found->envelope.view && viewed->was_in ? BUSQ_GROUP_COUNTS : BUSQ_GROUP_MISSED;
}

/* A peer that has missed a change is no member for itself, though for the others it is one until there is room for the
 * view without it. */
static bool is_missing(const busq_peer *peer, const busq_found *found, busq_viewed *viewed)
{
  const uint32_t index = found->envelope.group - 1u;
  const busq_pair member = busq_numbered_load(&busq_bus_group(peer->bus, index)->member[peer->slot]);
  viewed->has_missed = busq_group_has_missed(peer->bus, index, busq_peer_address(peer)) ||
                       found->envelope.view < member.lo;
  return viewed->has_missed;
}

void busq_group_miss(busq_peer *peer, uint32_t index)
{
  busq_viewed *viewed = viewed_of(peer, index);
  if (viewed)
    viewed->has_missed = true;
}

/* A member has the change that ends its view in its own queue: as long as it has not come, the message counts. */
static busq_admission message_admit(busq_peer *peer, const busq_found *found)
{
  busq_viewed *viewed = viewed_of(peer, found->envelope.group - 1u);
  if (!viewed)
    return BUSQ_ADMIT_DAMAGED;
  if (BUSQ_UNLIKELY(viewed->has_missed) && is_missing(peer, found, viewed))
    return BUSQ_ADMIT_PASS;
  busq_group_verdict verdict = BUSQ_GROUP_COUNTS;
  if (viewed->number > found->envelope.view)
    verdict = BUSQ_GROUP_MISSED;
  else if (!(viewed->is_ours && viewed->was_in && viewed->number == found->envelope.view))
    verdict = verdict_from_outside(peer, found, viewed);
  if (verdict == BUSQ_GROUP_DAMAGED)
    return BUSQ_ADMIT_DAMAGED;
  if (verdict == BUSQ_GROUP_COUNTS)
    return BUSQ_ADMIT_DELIVER;
  missed_note(found);
  return BUSQ_ADMIT_PASS;
}

busq_admission busq_group_admit(busq_peer *peer, const busq_found *found)
{
  const busq_envelope *envelope = &found->envelope;
  if (envelope->kind == BUSQ_KIND_DATA)
    return message_admit(peer, found);
  if (found->size_bytes < sizeof(busq_view_event))
    return BUSQ_ADMIT_DAMAGED;
  /* Installed before it is delivered, so its record holds it until then. */
  if (envelope->kind == BUSQ_KIND_JOINED || envelope->kind == BUSQ_KIND_LEFT)
    busq_watch_install_until(peer, envelope->group - 1u, envelope->view);
  else
    busq_group_install_until(peer->bus, envelope->group - 1u, envelope->view);
  return envelope->kind == BUSQ_KIND_WATCH ? BUSQ_ADMIT_PASS : BUSQ_ADMIT_DELIVER;
}

/* Read from shared memory once; the worst that another content could do is to make us ask the table. */
static bool is_in_after(const busq_peer *peer, const busq_found *found)
{
  busq_view_event change;
  memcpy(&change, found->payload, sizeof change);
  const bool is_about_us = change.slot == peer->slot && change.incarnation == peer->incarnation;
  return !is_about_us || change.what == BUSQ_CHANGE_ENTERS;
}

/* Will the change that ends this view come to our own queue?  Not where it was made while a predecessor was dead, and
 * without it. */
static bool is_told_of_next(const busq_peer *peer, uint32_t index, uint64_t view)
{
  const busq_pair member = busq_numbered_load(&busq_bus_group(peer->bus, index)->member[peer->slot]);
  return (member.hi & BUSQ_MEMBER_IS_IN) && !(member.hi & BUSQ_MEMBER_MISSED) &&
         busq_member_incarnation(member.hi) == peer->incarnation && member.lo <= view;
}

/* A view that comes again to a successor is older than what its predecessor has delivered. */
void busq_group_take(busq_peer *peer, const busq_found *found)
{
  const uint32_t index = found->envelope.group - 1u;
  busq_viewed *viewed = found->envelope.kind == BUSQ_KIND_VIEW ? viewed_of(peer, index) : NULL;
  if (!viewed || found->envelope.view < viewed->number)
    return;
  viewed->number = found->envelope.view;
  viewed->was_in = is_in_after(peer, found);
  viewed->is_ours = is_told_of_next(peer, index, viewed->number);
  BUSQ_STEP("viewed");
  busq_store_release(&busq_group_viewed(busq_bus_group(peer->bus, index), peer->bus->geometry.peers)[peer->slot],
                     viewed->number << 1 | viewed->was_in);
  if (viewed->was_in)
    busq_peer_care(peer, BUSQ_CARES_FOR_MEMBERS);
}
