/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a shared queue, for all processes; the calls are declared in busq.h.
 *
 * Guarantee: from one moment on, no message is placed in the queue by any process.  What was placed before is received
 * by its readers, also what one had in its hands that is dead by then, and then each of them finds the end; or, where the
 * queue is dropped, from the same moment on nothing is received any more.  A process that is killed on the way has ended
 * the queue for all, or for none.
 *
 * Mechanism.  One swap of the word from which positions are taken (ring.h): a sender takes its position before, or finds
 * the queue closed.  It is never opened again, also not by the first reader that comes after the last one has gone.  Behind the
 * swap all are woken that wait for a message or for room; should the process be killed before, they look within a
 * slice of their sleep.  Readers learn that a queue was dropped as they learn that something came back.
 *
 * What was put, and waits in its process for room (overflow_tally.c), was put before the end: a peer that may, sends it behind.
 *
 *      puts    counts it             looks for the end: takes it back, or keeps it
 *      ends    ends the queue        (a reader that finds the end)  looks whether some is counted
 *
 * At least one of them sees the other.
 *
 * Not given: the end of a queue that one peer alone reads.  And a reader that dies later leaves what it has in its hands to
 * the others, though they have found the end: each finds it once more behind that.
 */
#include "base/error.h"
#include "shm/memory/peer.h"
#include "shm/message/shared_take.h"
#include "shm/wake/wake.h"

int busq_bus_end_queue(busq_bus *bus, uint64_t target, int drops)
{
  const int result = busq_target_check(bus, target);
  const uint32_t slot = busq_target_slot(target);
  if (result != BUSQ_OK)
    return result;
  const busq_ring ring = busq_bus_ring(bus, slot);
  if (!(busq_load_acquire(&bus->slots[slot].life) & BUSQ_LIFE_SHARED) || !busq_ring_end(&ring, drops != 0))
    return busq_error(BUSQ_PEER_DEAD, "the queue of slot %u of bus \"%s\" is gone, or is no shared queue", slot, bus->name);
  busq_fence_full();
  busq_share_returned(bus, slot);
  busq_wake_for_room_slow(bus, slot);
  return BUSQ_OK;
}

int busq_bus_queue_end(busq_bus *bus, uint64_t target, busq_queue_end *endp)
{
  const int result = busq_target_check(bus, target);
  if (result != BUSQ_OK)
    return result;
  const busq_ring ring = busq_bus_ring(bus, busq_target_slot(target));
  const uint64_t ending = busq_ring_ending(&ring);
  *endp = ending == BUSQ_RING_DROPPED ? BUSQ_QUEUE_DROPPED : ending ? BUSQ_QUEUE_ENDED : BUSQ_QUEUE_OPEN;
  return BUSQ_OK;
}

busq_queue_end busq_peer_queue_end(const busq_peer *peer, uint64_t target)
{
  busq_queue_end end = BUSQ_QUEUE_OPEN;
  (void)busq_bus_queue_end(peer->bus, target, &end);
  return end;
}

void busq_peer_send_behind(busq_peer *peer)
{
  peer->sender.sends_behind = true;
}
