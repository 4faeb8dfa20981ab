/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/receive/trace_taken.h"

/* The members, as the maker of the change wrote them down; what is read of it is checked, as all that lies in shared
 * memory. */
static void view_read(const busq_peer *peer, const busq_found *found, busq_tracer_viewed *viewed)
{
  busq_view_event change;
  const uint32_t peers = peer->bus->geometry.peers;
  memcpy(&change, found->payload, sizeof change);
  const uint64_t room = (found->size_bytes - sizeof change) / sizeof(busq_view_member);
  viewed->group = found->envelope.group;
  viewed->number = found->envelope.view;
  viewed->n_members = change.n_members <= room && change.n_members <= peers ? change.n_members : 0;
  for (uint32_t i = 0; i < viewed->n_members; i++) {
    busq_view_member entry;
    memcpy(&entry, (const char *)found->payload + sizeof change + i * sizeof entry, sizeof entry);
    viewed->members[i] = (busq_trace_destination){entry.slot, (uint16_t)entry.incarnation};
  }
}

static bool is_view(const busq_found *found)
{
  return (found->form & BUSQ_FORM_ENVELOPE) && found->envelope.kind == BUSQ_KIND_VIEW &&
         found->size_bytes >= sizeof(busq_view_event);
}

__attribute__((noinline)) void busq_trace_taken_write(busq_peer *peer, const busq_found *found, busq_trace_kind kind)
{
  const busq_tracer_taken taken = {
      .message = busq_tag_sequence(found->key.sequence),
      .stamp = found->key.timestamp,
      .incarnation = busq_slot_incarnation(peer->bus, found->key.sender),
      .slot = (uint16_t)found->key.sender,
      .kind = (uint16_t)kind,
  };
  if (BUSQ_LIKELY(kind == BUSQ_TRACE_PASS || !is_view(found))) {
    busq_tracer_take(peer, &taken);
    return;
  }
  busq_tracer_viewed *viewed = busq_tracer_take_view(peer, &taken);
  if (viewed)
    view_read(peer, found, viewed);
}
