/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/send/find_record.h"
#include "base/time.h"
#include "shm/burial/grave.h"
#include "shm/send/record.h"
#include "shm/wake/wake.h"

/* Peers that sleep are woken to give back what they do not need; once in a slice, for a sender without time tries again
 * at once. */
static void holders_ask(busq_peer *peer)
{
  (void)busq_fetch_add(&peer->bus->header->memory_wanted, 1);
  const uint64_t now_ns = busq_time_now_ns();
  if (now_ns - peer->sender.asked_ns < BUSQ_SLICE_NS)
    return;
  peer->sender.asked_ns = now_ns;
  busq_fence_full();
  busq_wake_keepers_of_memory(peer->bus);
}

/* A step of each at a time: a sender without time gets BUSQ_FULL, and the next call goes on from there.  What the gone
 * have left is kept for successors that may never come; what others keep and do not need they are asked for, and we try
 * again later. */
int busq_send_find_memory(busq_peer *peer, uint64_t bytes, busq_record **recordp)
{
  busq_grave_reclaim_some(peer->bus, &peer->sender.reclaims_slot);
  int result = busq_arena_take(&peer->sender.arena, bytes, recordp);
  if (result == BUSQ_FULL && busq_grave_make_room(peer->bus, &peer->sender.reclaims_slot)) {
    result = busq_arena_take(&peer->sender.arena, bytes, recordp);
    busq_store_relaxed(&peer->sender.finds_more, true);
  }
  if (result == BUSQ_FULL)
    holders_ask(peer);
  return result;
}

void busq_send_return_memory_slow(busq_peer *peer)
{
  busq_store_relaxed(&peer->sender.memory_wanted_seen, busq_load_acquire(&peer->bus->header->memory_wanted));
  if (busq_arena_collect(&peer->sender.arena, busq_step_looks))
    busq_wake_for_memory(peer->bus);
}
