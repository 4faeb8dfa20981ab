/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ends of a message that was taken, and of a draft that was not sent; the calls are declared in busq.h.
 *
 * Guarantee: a message is released, acknowledged or given back at most once, also where its peer was closed meanwhile;
 * the last of these frees the slot of a closed peer.
 *
 * Not given: anything in a forked child.  There these calls do nothing, or return BUSQ_FORKED.
 */
#include "shm/death/leave.h"
#include "shm/memory/peer.h"
#include "shm/node/node.h"
#include "shm/receive/receive.h"
#include "shm/send/draft.h"
#include "shm/send/multicast.h"
#include "shm/wake/wake.h"

/* With the receive latch.  A closed peer keeps its slot for as long as something of it is in the application's
 * hands. */
static void close_if_last(busq_peer *peer)
{
  if (busq_load_relaxed(&peer->is_closed) && !peer->receiver.pins && !peer->sender.drafts)
    busq_leave_finish(peer);
}

void busq_peer_release(busq_peer *peer, const busq_message *message)
{
  if (peer->fork_generation != busq_fork_generation)
    return;
  busq_biased_latch_acquire(&peer->receiver.latch);
  busq_receive_release(peer, message->record, message->mark, message->position);
  close_if_last(peer);
  busq_biased_latch_release(&peer->receiver.latch);
}

int busq_peer_give_back(busq_peer *peer, uint32_t mode, const busq_message *message)
{
  if (peer->fork_generation != busq_fork_generation)
    return BUSQ_FORKED;
  busq_biased_latch_acquire(&peer->receiver.latch);
  const bool is_back = busq_receive_give_back(peer, mode, message);
  if (is_back) {
    busq_node_return_handles(peer, mode, message);
    close_if_last(peer);
  }
  if (!busq_load_relaxed(&peer->is_closed)) {
    busq_peer_receive_end(peer);
    busq_wake_self(peer); /* other threads of this peer may sleep, and no sender will wake them for this */
  } else {
    busq_biased_latch_release(&peer->receiver.latch);
  }
  return is_back ? BUSQ_OK : BUSQ_INVALID;
}

/* Killed between the acknowledgement and the count of a handle, the owner clears the count (node.h). */
static int ack(busq_peer *peer, const busq_message *message, int acknowledge(busq_peer *peer, const busq_message *message))
{
  busq_node_name handles[BUSQ_NODE_HANDLES_MAX];
  int result = busq_receive_begin(peer);
  if (result != BUSQ_OK)
    return result;
  const uint32_t n_handles = busq_node_handles_of(peer, message, handles);
  result = acknowledge(peer, message);
  if (result == BUSQ_OK && n_handles)
    busq_node_acked(peer, message, handles, n_handles);
  busq_peer_receive_end(peer);
  return result;
}

int busq_peer_ack(busq_peer *peer, const busq_message *message)
{
  return ack(peer, message, busq_receive_ack);
}

int busq_peer_ack_and_keep(busq_peer *peer, const busq_message *message)
{
  return ack(peer, message, busq_receive_ack_and_keep);
}

void busq_peer_discard(busq_peer *peer, const busq_message *draft)
{
  if (peer->fork_generation != busq_fork_generation)
    return;
  busq_biased_latch_acquire(&peer->sender.latch);
  if (!busq_load_relaxed(&peer->is_closed)) {
    busq_draft_discard(peer, draft);
  } else {
    /* Its memory goes with all the rest: the lists that it would stand on are gone. */
    busq_biased_latch_acquire(&peer->receiver.latch);
    peer->sender.drafts--;
    close_if_last(peer);
    busq_biased_latch_release(&peer->receiver.latch);
  }
  busq_biased_latch_release(&peer->sender.latch);
}
