/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/receive/holes.h"
#include "base/time.h"
#include "shm/burial/grave.h"
#include "shm/message/commit.h"
#include "shm/message/reference.h"
#include "shm/receive/receive.h"

/* The queue waits for this: a reference, or the hole at `scan` (sender BUSQ_RING_NOBODY). */
static busq_reference blocker_of(const busq_peer *peer)
{
  busq_reference reference = {BUSQ_RING_NOBODY, 0, 0};
  if (peer->receiver.backing != peer->receiver.ring.slot_count) /* it is not bare */
    (void)busq_ring_look(&peer->receiver.ring, peer->receiver.scan, &reference);
  return reference;
}

/* The dead are buried while we are at it; for what blocks us it makes no difference whether they are. */
static bool blocker_help(busq_peer *peer, busq_reference blocker)
{
  busq_slot *self = peer->self;
  if (blocker.sender == BUSQ_RING_NOBODY) {
    if (busq_ring_tail(&peer->receiver.ring) == peer->receiver.scan)
      return false;
    (void)(peer->receiver.is_consumer ? busq_ring_skip_if_not_passed : busq_ring_skip)(&peer->receiver.ring, peer->receiver.scan);
  } else {
    busq_record *record = busq_reference_record(peer->bus, blocker);
    if (!record || !busq_commit_help(peer->bus, record, blocker.tag))
      return false;
    if (blocker.sender < busq_slots_reached(peer->bus) && blocker.sender != peer->slot)
      (void)busq_grave_check(peer->bus, blocker.sender,
                            (uint32_t)(busq_load_acquire(&peer->bus->slots[blocker.sender].life) >> 32));
  }
  busq_store_relaxed(&self->helped, self->helped + 1);
  return true;
}

bool busq_receive_unblock(busq_peer *peer)
{
  return blocker_help(peer, blocker_of(peer));
}

/* A millisecond is what a sender that was merely preempted needs; one that was put off before gets more, so that a
 * large multicast of a slow sender comes to its end, and never so much that a stopped one is noticed. */
static uint64_t patience_ns(busq_reference blocker)
{
  const uint64_t first_ns = 1000000;
  const uint32_t attempt = blocker.sender == BUSQ_RING_NOBODY ? 0 : busq_tag_attempt(blocker.tag);
  return first_ns << (attempt < 5 ? attempt : 5);
}

/* A reference that stood in the queue when we began to wait has waited as long: however many senders are stopped, we
 * lose patience once. */
static void blocker_note(busq_peer *peer, busq_reference reference, uint64_t now_ns)
{
  busq_blocker *known = &peer->receiver.blocker;
  if (known->position == peer->receiver.scan && known->reference.sender == reference.sender &&
      known->reference.tag == reference.tag)
    return;
  known->reference = reference;
  known->position = peer->receiver.scan;
  if (known->position < known->tail)
    return;
  known->since_ns = now_ns;
  known->tail = busq_ring_tail(&peer->receiver.ring);
}

bool busq_receive_help(busq_peer *peer)
{
  busq_blocker *known = &peer->receiver.blocker;
  if (busq_receive_is_drained(peer)) {
    known->help_in_ns = UINT64_MAX;
    return false;
  }
  if (peer->receiver.ring.grows) /* damaged, it may differ where it can't: then our senders are right */
    peer->receiver.backing = busq_ring_backing(&peer->receiver.ring);
  const uint64_t now_ns = busq_time_now_ns();
  blocker_note(peer, blocker_of(peer), now_ns);
  const uint64_t waited_ns = now_ns - known->since_ns;
  const uint64_t patience = patience_ns(known->reference);
  known->help_in_ns = waited_ns < patience ? patience - waited_ns : patience;
  return waited_ns >= patience && blocker_help(peer, known->reference);
}

int busq_receive_peek_helping(busq_peer *peer)
{
  enum { TURNS = 64 };
  int result = busq_receive_peek(peer);
  for (int turn = 0; result == BUSQ_EMPTY && turn < TURNS && busq_receive_help(peer); turn++)
    result = busq_receive_peek(peer);
  return result;
}
