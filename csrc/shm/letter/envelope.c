/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/letter/envelope.h"
#include "base/assert.h"
#include "shm/group/group.h"
#include "shm/node/node.h"
#include <string.h>

static bool is_of_group(uint32_t kind)
{
  return kind == BUSQ_KIND_VIEW || kind == BUSQ_KIND_JOINED || kind == BUSQ_KIND_LEFT || kind == BUSQ_KIND_WATCH;
}

/* Lengths in shared memory are read once, and checked before they are used. */
static bool envelope_open(const busq_peer *peer, busq_found *found)
{
  busq_envelope *envelope = &found->envelope;
  if (found->size_bytes < sizeof *envelope)
    return false;
  memcpy(envelope, (const char *)found->payload + found->size_bytes - sizeof *envelope, sizeof *envelope);
  if (busq_envelope_bytes(envelope) > found->size_bytes || envelope->kind > BUSQ_KIND_MAX ||
      envelope->group > peer->bus->geometry.groups || (is_of_group(envelope->kind) && !envelope->group))
    return false;
  found->size_bytes -= busq_envelope_bytes(envelope);
  return true;
}

busq_admission busq_envelope_admit(busq_peer *peer, busq_found *found)
{
  if (!envelope_open(peer, found))
    return BUSQ_ADMIT_DAMAGED;
  if (found->is_redelivered || found->was_given_back)
    return BUSQ_ADMIT_DELIVER;
  const busq_admission admission = found->envelope.group ? busq_group_admit(peer, found) : BUSQ_ADMIT_DELIVER;
  if (admission != BUSQ_ADMIT_DELIVER)
    return admission;
  return is_of_group(found->envelope.kind) ? BUSQ_ADMIT_DELIVER : busq_node_admit(peer, found);
}

void busq_envelope_take(busq_peer *peer, const busq_found *found, uint32_t mode)
{
  if (found->envelope.group)
    busq_group_take(peer, found);
  if (BUSQ_LIKELY(found->envelope.kind == BUSQ_KIND_DATA && !found->envelope.n_handles))
    return;
  peer->receiver.handles_alive = busq_node_take(peer, found, mode);
}

void busq_envelope_taken(busq_peer *peer, const busq_found *found)
{
  if (found->envelope.kind == BUSQ_KIND_NODE_RELEASED)
    busq_node_taken(peer, found);
}
