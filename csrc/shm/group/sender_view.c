/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "shm/group/group.h"
#include <stdlib.h>

static busq_sender_view *sender_view_of(busq_peer *peer, uint32_t index)
{
  const busq_geometry *geometry = &peer->bus->geometry;
  if (!peer->sender.views)
    peer->sender.views = calloc(geometry->groups, sizeof *peer->sender.views);
  if (!peer->sender.gathering)
    peer->sender.gathering = calloc(2 * ((size_t)geometry->peers + 1), sizeof *peer->sender.gathering);
  if (!peer->sender.views || !peer->sender.gathering)
    return NULL;
  busq_sender_view *view = &peer->sender.views[index];
  if (!view->members)
    view->members = calloc(2 * (size_t)geometry->peers, sizeof *view->members);
  else
    return view;
  view->number = UINT64_MAX;
  return view->members ? view : NULL;
}

/* The members of the view that stands in the claim's word now. */
static int sender_view_refresh(busq_peer *peer, uint32_t index, busq_sender_view **viewp)
{
  busq_sender_view *view = sender_view_of(peer, index);
  if (!view)
    return busq_error(BUSQ_NO_SPACE, "no memory to keep track of groups");
  *viewp = view;
  const uint64_t word = busq_load_acquire(&busq_bus_group(peer->bus, index)->claim.lo);
  if (BUSQ_LIKELY(word >> 16 == view->number))
    return BUSQ_OK;
  view->number = UINT64_MAX;
  uint64_t number;
  if (!busq_group_members(peer->bus, index, view->members, &view->n_members, &number))
    return busq_group_damaged(peer->bus, index);
  view->number = number;
  return BUSQ_OK;
}

/* The entry has got another name, or is about to: number and members that were read before are those of the group only
 * if it was still that one afterwards. */
int busq_group_refresh(busq_peer *peer, uint64_t group, busq_sender_view **viewp)
{
  const int result = sender_view_refresh(peer, busq_group_index(group), viewp);
  if (result || busq_group_is_still(peer->bus, group))
    return result;
  peer->sender.failed_target = group;
  return busq_error(BUSQ_UNKNOWN_PEER, "the group has no members any more, and its name was forgotten");
}

bool busq_sender_view_has(const busq_sender_view *view, uint64_t target)
{
  for (uint32_t i = 0; i < view->n_members; i++)
    if (view->members[i] == target)
      return true;
  return false;
}

void busq_group_deinit(busq_peer *peer)
{
  for (uint32_t i = 0; peer->sender.views && i < peer->bus->geometry.groups; i++)
    free(peer->sender.views[i].members);
  free(peer->sender.views);
  free(peer->sender.gathering);
  free(peer->receiver.views);
}

int busq_group_sender_view(busq_peer *peer, uint64_t group, busq_sender_view **viewp)
{
  const int result = busq_group_refresh(peer, group, viewp);
  if (result || (*viewp)->n_members)
    return result;
  peer->sender.failed_target = group;
  return busq_error(BUSQ_UNKNOWN_PEER, "group \"%.256s\" of bus \"%s\" has no members",
                    busq_bus_group(peer->bus, busq_group_index(group))->name, peer->bus->name);
}
