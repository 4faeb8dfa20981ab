/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/message/reply_place.h"
#include "shm/memory/peer.h"
#include <string.h>

bool busq_reply_place_change(const busq_bus *bus, uint32_t slot, uint64_t number, busq_reply_state from,
                             busq_reply_state to, uint64_t holder)
{
  busq_reply_place *place = busq_reply_place_of(bus, slot, number);
  const uint64_t turn = busq_reply_turn(bus, number);
  busq_pair seen = busq_pair_load(place);
  while (seen.lo == busq_reply_word(turn, from)) {
    BUSQ_STEP("reply place");
    if (busq_pair_cas(place, &seen, (busq_pair){busq_reply_word(turn, to), holder}))
      return true;
  }
  return false;
}

bool busq_reply_place_request(uint32_t form, const void *payload, uint64_t size_bytes, busq_request *request)
{
  if (form != BUSQ_FORM_ASK || size_bytes < sizeof *request)
    return false;
  memcpy(request, (const char *)payload + size_bytes - sizeof *request, sizeof *request);
  return true;
}

/* A request is read from another process's memory: its slot is checked, and a place that was not given to it has another
 * turn. */
void busq_reply_place_taken(const busq_bus *bus, const busq_request *request, uint64_t holder)
{
  const uint32_t slot = busq_target_slot(request->to);
  if (slot < busq_slots_reached(bus))
    (void)busq_reply_place_change(bus, slot, request->number, BUSQ_REPLY_AWAITED, BUSQ_REPLY_AWAITED, holder);
}

void busq_reply_place_returned(const busq_bus *bus, const busq_request *request, uint64_t holder)
{
  const uint32_t slot = busq_target_slot(request->to);
  if (slot >= busq_slots_reached(bus))
    return;
  const uint64_t word = busq_reply_word(busq_reply_turn(bus, request->number), BUSQ_REPLY_AWAITED);
  (void)busq_pair_cas(busq_reply_place_of(bus, slot, request->number), &(busq_pair){word, holder}, (busq_pair){word, 0});
}
