/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/death/leave.h"
#include "base/assert.h"
#include "base/time.h"
#include "shm/burial/grave.h"
#include "shm/death/bus_end.h"
#include "shm/death/notice.h"
#include "shm/death/unread.h"
#include "shm/group/group.h"
#include "shm/memory/life.h"
#include "shm/memory/mapping.h"
#include "shm/memory/shown.h"
#include "shm/message/shared_take.h"
#include "shm/node/node.h"
#include "shm/receive/receive.h"
#include "shm/trace/tracer.h"
#include "shm/wake/poll_descriptor.h"
#include "shm/wake/end_watch.h"
#include "shm/wake/wake.h"
#include <stdlib.h>
#include <unistd.h>

/* The last reader closes the queue, which no other reader holds then: as a peer would close its own. */
static void queue_leave(const busq_peer *peer)
{
  busq_slot *queue = peer->receiver.inbox;
  if (busq_life_hold(peer->lock_fd, peer->receiver.inbox_slot) < 0)
    return;
  busq_share_advance(peer->bus, peer->receiver.inbox_slot, peer->receiver.inbox_slot); /* no reader after us will */
  const uint64_t life = busq_load_acquire(&queue->life);
  if (!(life & BUSQ_LIFE_DURABLE))
    (void)busq_ring_close(&peer->receiver.ring);
  busq_fifo_unlink(peer->bus, peer->receiver.inbox_slot, (uint32_t)(life >> 32));
  busq_store_relaxed(&queue->ended_ns, busq_time_host_ns());
  BUSQ_STEP("leave");
  busq_store_release(&queue->life, (life & ~(uint64_t)BUSQ_LIFE_MASK) | BUSQ_LIFE_LEFT);
  busq_wake_for_room(peer->bus, peer->receiver.inbox_slot);
}

/* Unreceived messages stay where they are, for a successor. */
void busq_leave_finish(busq_peer *peer)
{
  uint64_t looks = UINT64_MAX; /* as much as it has sent in its life, at most */
  BUSQ_ASSERT(peer->is_closed);
  BUSQ_ASSERT(!peer->receiver.pins && !peer->sender.drafts);
  BUSQ_STEP("leave");
  (void)busq_arena_reclaim(peer->bus, peer->slot, &looks);
  busq_wake_for_memory(peer->bus);
  if (peer->receiver.is_consumer)
    busq_share_advance(peer->bus, peer->slot, peer->receiver.inbox_slot);
  busq_store_relaxed(&peer->self->ended_ns, busq_time_host_ns());
  BUSQ_STEP("leave");
  busq_store_release(&peer->self->life, busq_life_word(peer->incarnation, BUSQ_LIFE_LEFT | peer->life_flags));
  if (peer->receiver.is_consumer)
    queue_leave(peer);
  busq_guard_close(&peer->lock_guard);
  /* Two that leave at the same time may each have found the other there. */
  if (peer->receiver.is_consumer)
    busq_grave_bury_one(peer->bus, peer->receiver.inbox_slot);
}

static void release(busq_peer *peer, const busq_message *message)
{
  busq_receive_release(peer, message->record, message->mark, message->position);
}

static void peer_leave(busq_peer *peer)
{
  busq_node_leave(peer);
  busq_store_release(&peer->is_closed, 1);
  busq_fence_full(); /* SYNC POINT shown */
  busq_shown_keep(peer, release);
  BUSQ_STEP("leave");
  if (peer->receiver.is_consumer)
    (void)busq_share_settle(peer->bus, peer->slot, false); /* sets free what was not acknowledged */
  else if (!(peer->life_flags & BUSQ_LIFE_DURABLE))
    (void)busq_ring_close(&peer->receiver.ring);
  BUSQ_STEP("leave");
  busq_lives_unwatch(peer);
  busq_fifo_close(peer);
  busq_store_release(&peer->self->life, busq_life_word(peer->incarnation, BUSQ_LIFE_LEAVING | peer->life_flags));
  busq_lives_left(peer->bus, peer->slot);
  busq_notice_left(peer);
  if (busq_bus_is_recorded(peer->bus)) {
    if (!peer->receiver.is_consumer && !(peer->life_flags & BUSQ_LIFE_DURABLE))
      busq_unread_record(peer);
    busq_tracer_leave(peer);
  }
  if (!peer->receiver.pins && !peer->sender.drafts)
    busq_leave_finish(peer);
  else if (!peer->receiver.is_consumer)
    busq_lock_drop(peer->lock_fd, peer->name_lock);
  for (uint32_t slot = 0; slot < busq_slots_reached(peer->bus); slot++) {
    if (peer->sender.known[slot].fifo_fd >= 0)
      close(peer->sender.known[slot].fifo_fd);
    peer->sender.known[slot].fifo_fd = -1;
  }
}

int busq_peer_close(busq_peer *peer)
{
  if (peer->fork_generation != busq_fork_generation)
    return BUSQ_FORKED;
  busq_notice_leaving(peer);
  busq_biased_latch_acquire(&peer->sender.latch);
  busq_biased_latch_acquire(&peer->receiver.latch);
  const bool was_closed = busq_load_relaxed(&peer->is_closed);
  if (!was_closed)
    peer_leave(peer);
  busq_biased_latch_release(&peer->receiver.latch);
  busq_biased_latch_release(&peer->sender.latch);
  if (!was_closed) {
    if (!peer->receiver.is_consumer)
      busq_wake_for_room_slow(peer->bus, peer->slot);
    busq_wake_self(peer);
    busq_bus_leave(peer->bus);
  }
  return BUSQ_OK;
}

void busq_peer_retain(busq_peer *peer)
{
  (void)busq_fetch_add(&peer->references, 1);
}

void busq_peer_free(busq_peer *peer)
{
  if (!peer || busq_fetch_add(&peer->references, UINT32_MAX) != 1)
    return;
  if (peer->fork_generation == busq_fork_generation && !peer->is_closed)
    (void)busq_peer_close(peer);
  else if (!peer->is_closed)
    busq_bus_leave(peer->bus);
  busq_tracer_deinit(peer);
  busq_node_forget(&peer->nodes);
  busq_arena_deinit(&peer->sender.arena);
  busq_heap_deinit(&peer->receiver.heap);
  busq_group_deinit(peer);
  free(peer->sender.known);
  free(peer->sender.destinations);
  free(peer->receiver.done);
  free(peer->descriptor.lives);
  free(peer->replies.free);
  free(peer->replies.given_up);
  busq_bus_release(peer->bus);
  free(peer);
}
