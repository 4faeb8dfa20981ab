/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/death/unread.h"
#include "shm/message/reference.h"
#include "shm/trace/tracer.h"
#include <string.h>

/* Final, for us, fresh, and not a message of an application.  Lengths are read once, and checked before they are
 * used. */
static bool is_fresh_event(const busq_peer *peer, const busq_record *record, uint32_t unit, uint64_t tag)
{
  const busq_bus *bus = peer->bus;
  const uint32_t destinations = busq_record_destinations(record);
  const uint64_t size_bytes = busq_load_relaxed(&record->size_bytes);
  const uint64_t begin = (uint64_t)unit * BUSQ_LAYOUT_UNIT_BYTES;
  busq_envelope envelope;
  if (busq_load_acquire(&record->state.lo) != (tag | BUSQ_PHASE_COMMITTED) ||
      !(busq_record_form(record) & BUSQ_FORM_ENVELOPE) || destinations == 0 || destinations > bus->geometry.peers ||
      size_bytes < sizeof envelope)
    return false;
  const uint64_t end = begin + busq_record_payload_offset(destinations, size_bytes) + size_bytes;
  if (!busq_bus_has_bytes(bus, end))
    return false;
  const uint32_t mark = destinations == 1 ? 0 : busq_record_mark_of(record, destinations, peer->slot);
  if (mark == BUSQ_NO_MARK || busq_load_acquire(&record->destination[mark].mark))
    return false;
  memcpy(&envelope, (const char *)record + (end - begin) - sizeof envelope, sizeof envelope);
  return envelope.kind != BUSQ_KIND_DATA;
}

static void rest_note(busq_peer *peer, uint32_t sender, uint32_t unit, uint64_t tag)
{
  if (!busq_bus_has_units(peer->bus, unit + UINT64_C(1)) || sender >= busq_slots_reached(peer->bus))
    return;
  const busq_record *record = busq_bus_record(peer->bus, unit);
  if (!is_fresh_event(peer, record, unit, tag))
    return;
  const busq_tracer_taken taken = {
      .message = busq_tag_sequence(tag),
      .stamp = busq_load_relaxed(&record->state.hi),
      .incarnation = busq_slot_incarnation(peer->bus, sender),
      .slot = (uint16_t)sender,
      .kind = BUSQ_TRACE_PASS,
  };
  busq_tracer_take(peer, &taken);
}

void busq_unread_record(busq_peer *peer)
{
  const uint64_t tail = busq_ring_tail(&peer->receiver.ring);
  busq_reference reference;
  if (peer->tracer.is_silent)
    return;
  for (size_t i = 0; i < peer->receiver.heap.count; i++) {
    const busq_heap_entry *entry = &peer->receiver.heap.entries[i];
    rest_note(peer, entry->key.sender, entry->record, entry->key.sequence);
  }
  for (uint64_t position = peer->receiver.scan; position < tail && tail - position <= peer->receiver.ring.slot_count;
       position++)
    if (busq_ring_look(&peer->receiver.ring, position, &reference))
      rest_note(peer, reference.sender, reference.record, reference.tag);
}
