/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/wake/room_request.h"
#include "shm/wake/slice.h"

#define ROOM_SLICE_NS UINT64_C(1000000)

void busq_room_begin(busq_peer *peer)
{
  peer->descriptor.room_slice_ns = ROOM_SLICE_NS;
}

static uint64_t room_of(uint32_t slot)
{
  return slot == BUSQ_RING_NOBODY ? BUSQ_ASKS_MEMORY : busq_asks_room(slot);
}

void busq_room_ask(busq_peer *peer, uint32_t slot)
{
  const uint64_t what = room_of(slot);
  uint32_t *flag = slot == BUSQ_RING_NOBODY ? &peer->self->memory_waits : &peer->bus->slots[slot].room_waiters;
  peer->descriptor.asked |= what;
  /* SYNC POINT asks: our bit stands before any process can look for it. */
  (void)busq_fetch_or(&peer->self->asks, what);
  BUSQ_STEP("ask");
  (void)busq_fetch_or(flag, busq_waits_bit(peer->slot));
  BUSQ_STEP("ask");
  busq_fence_full();
}

void busq_room_come(busq_peer *peer, uint32_t slot)
{
  (void)busq_fetch_and(&peer->self->asks, ~room_of(slot));
}

bool busq_room_has_come(const busq_peer *peer)
{
  return (peer->descriptor.asked & ~busq_load_acquire(&peer->self->asks)) != 0;
}

/* A wait in vain is followed by one twice as long. */
void busq_room_forget(busq_peer *peer)
{
  busq_descriptor *descriptor = &peer->descriptor;
  const bool is_watched = descriptor->room_slice_ns >= BUSQ_SLICE_NS && !descriptor->room_is_unwatched;
  const uint64_t most_ns = is_watched ? BUSQ_NET_NS : BUSQ_LOOK_NS;
  if (!descriptor->asked || busq_room_has_come(peer))
    descriptor->room_slice_ns = ROOM_SLICE_NS;
  else if (2 * descriptor->room_slice_ns < most_ns)
    descriptor->room_slice_ns *= 2;
  else
    descriptor->room_slice_ns = most_ns;
  descriptor->asked = 0;
  descriptor->room_is_unwatched = false;
  busq_store_relaxed(&peer->self->asks, 0);
}
