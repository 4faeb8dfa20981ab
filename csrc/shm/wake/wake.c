/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/wake/wake.h"
#include "shm/wake/poll_descriptor.h"
#include "shm/wake/futex.h"

void busq_wake_announce_slow(busq_peer *peer, uint32_t slot)
{
  const uint32_t seen = busq_load_acquire(&peer->bus->slots[slot].wake_flags);
  if (seen & BUSQ_WAKE_DEEP)
    busq_fifo_signal(peer, slot, seen);
}

void busq_wake_reader_slow(busq_peer *peer, uint32_t slot)
{
  busq_slot *reader = &peer->bus->slots[slot];
  const uint32_t seen = busq_load_acquire(&reader->wake_flags);
  if (seen & ~1u)
    busq_fifo_signal(peer, slot, seen);
  if (busq_fetch_and(&reader->wake_flags, ~(uint32_t)BUSQ_WAKE_FUTEX) & BUSQ_WAKE_FUTEX) {
    (void)busq_fetch_add(&reader->wake_seq, 1);
    busq_futex_wake_all(&reader->wake_seq);
  }
}

void busq_wake_readers_of(busq_bus *bus, uint32_t slot)
{
  busq_slot *reader = &bus->slots[slot];
  busq_fence_full();
  const uint32_t seen = busq_load_acquire(&reader->wake_flags);
  if (seen & ~BUSQ_WAKE_FUTEX)
    busq_fifo_write_once(bus, slot);
  if (busq_fetch_and(&reader->wake_flags, ~(uint32_t)BUSQ_WAKE_FUTEX) & BUSQ_WAKE_FUTEX) {
    (void)busq_fetch_add(&reader->wake_seq, 1);
    busq_futex_wake_all(&reader->wake_seq);
  }
}

/* Takes the flag down, and wakes threads that sleep in a call; what is left are the bits of the others. */
static uint32_t waiters_wake(uint32_t *flag, uint32_t *sequence)
{
  const uint32_t waiters = busq_exchange(flag, 0);
  if (waiters & BUSQ_WAITS_FUTEX) {
    (void)busq_fetch_add(sequence, 1);
    busq_futex_wake_all(sequence);
  }
  return waiters & ~BUSQ_WAITS_FUTEX;
}

/* A reader of a shared queue waits behind the FIFO of that. */
static uint32_t fifo_slot_of(const busq_bus *bus, uint32_t slot)
{
  const busq_slot *sender = &bus->slots[slot];
  const uint32_t queue = (uint32_t)busq_load_acquire(&sender->consumes);
  return (busq_load_acquire(&sender->life) & BUSQ_LIFE_CONSUMER) && queue < busq_slots_reached(bus) ? queue : slot;
}

/* SYNC POINT asks: the bit is cleared first, so that a reader that drains the byte finds that it is; and by one of us
 * alone. */
static void sender_tell(const busq_bus *bus, uint32_t slot, uint64_t what)
{
  BUSQ_STEP("tell");
  if (!(busq_fetch_and(&bus->slots[slot].asks, ~what) & what))
    return;
  BUSQ_STEP("tell");
  busq_fifo_write_once(bus, fifo_slot_of(bus, slot));
}

void busq_wake_for_room_slow(const busq_bus *bus, uint32_t slot)
{
  busq_slot *reader = &bus->slots[slot];
  for (uint32_t waiters = waiters_wake(&reader->room_waiters, &reader->room_seq); waiters; waiters &= waiters - 1)
    for (uint32_t sender = (uint32_t)__builtin_ctz(waiters) - 1; sender < busq_slots_reached(bus);
         sender += BUSQ_WAITS_BITS)
      sender_tell(bus, sender, busq_asks_room(slot));
}

void busq_wake_owner_slow(const busq_bus *bus, uint32_t slot)
{
  busq_slot *owner = &bus->slots[slot];
  if (waiters_wake(&owner->memory_waits, &owner->memory_seq))
    sender_tell(bus, slot, BUSQ_ASKS_MEMORY);
}

void busq_wake_keepers_of_memory(busq_bus *bus)
{
  for (uint32_t slot = 0; slot < busq_slots_reached(bus); slot++)
    if (busq_load_acquire(&bus->slots[slot].wake_flags) & BUSQ_WAKE_DEEP)
      busq_fifo_write_once(bus, slot);
    else if (busq_load_relaxed(&bus->slots[slot].keeps_memory))
      busq_wake_readers_of(bus, fifo_slot_of(bus, slot));
}

void busq_wake_for_memory(busq_bus *bus)
{
  busq_fence_full();
  for (uint32_t slot = 0; slot < busq_slots_reached(bus); slot++)
    busq_wake_owner(bus, slot);
}

void busq_wake_self(busq_peer *peer)
{
  uint32_t *const words[] = {&peer->receiver.inbox->wake_seq, &peer->self->memory_seq};
  for (unsigned i = 0; i < 2; i++) {
    (void)busq_fetch_add(words[i], 1);
    busq_futex_wake_all(words[i]);
  }
}

void busq_wake_all(busq_bus *bus)
{
  for (uint32_t slot = 0; slot < busq_slots_reached(bus); slot++) {
    busq_slot *peer = &bus->slots[slot];
    uint32_t *const words[] = {&peer->wake_seq, &peer->room_seq, &peer->memory_seq};
    for (unsigned i = 0; i < 3; i++) {
      (void)busq_fetch_add(words[i], 1);
      busq_futex_wake_all(words[i]);
    }
    if (busq_load_acquire(&peer->wake_flags) & ~BUSQ_WAKE_FUTEX)
      busq_fifo_write_once(bus, slot);
  }
}
