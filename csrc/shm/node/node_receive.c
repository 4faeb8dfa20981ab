/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/node/node_table.h"

/* ---- handles that arrive ---- */

static bool own_is_alive(busq_peer *peer, busq_node_name name, busq_key key)
{
  busq_claim_look look;
  busq_key end;
  busq_node *node = busq_node_at(peer->bus, name);
  if (!node || busq_node_owner_of(node, name.generation) != peer->incarnation)
    return false;
  const busq_node_state state = busq_node_look(peer->bus, name, &end, &look);
  return state == BUSQ_NODE_ALIVE || state == BUSQ_NODE_ENDING ||
         (state == BUSQ_NODE_ENDED && busq_node_is_before(key, end));
}

/* Set before the claim is looked at: see node.h. */
static bool hold_begin(busq_peer *peer, busq_node *node, busq_node_name name, busq_node_event event)
{
  uint64_t before;
  (void)busq_node_held_more(busq_node_held(peer, name), name.generation);
  if (!busq_node_word_change(peer->bus, node, peer->slot, name.generation, peer->incarnation, event, &before))
    return false;
  BUSQ_STEP("count"); /* a peer that is killed here is counted by its successor (held_confirm) */
  if (!(busq_node_word_bits(before, name.generation, peer->incarnation) & BUSQ_NODE_HELD))
    (void)busq_fetch_add(&node->holds, 1);
  busq_fence_full();
  return true;
}

static bool handle_install(busq_peer *peer, busq_node_name name, busq_key key, busq_node_event event)
{
  const uint16_t self = (uint16_t)peer->slot;
  busq_node *node = busq_node_at(peer->bus, name);
  busq_key end;
  uint32_t left;
  if (!node)
    return false;
  if (busq_node_is_own(peer, name))
    return own_is_alive(peer, name, key);
  bool is_alive = hold_begin(peer, node, name, event);
  if (is_alive) {
    const busq_node_state state = busq_node_settle(peer->bus, name, BUSQ_NODE_BREAK, &self, 1, &end);
    const uint64_t word = busq_load_acquire(&node->holder[peer->slot]);
    is_alive = state == BUSQ_NODE_ALIVE ||
               (state == BUSQ_NODE_ENDED && busq_node_is_before(key, end) &&
                (busq_node_word_bits(word, name.generation, peer->incarnation) & BUSQ_NODE_NOTIFIED));
  }
  if (!is_alive && busq_node_held_less(busq_node_held(peer, name), name.generation, &left) && !left)
    busq_node_hold_end(peer, name);
  return is_alive;
}

/* ---- judging what is in the queue ---- */

/* Is any of our nodes that it is addressed to alive at its place? False where it is addressed to us by name. */
static bool nodes_of_ours(busq_peer *peer, const busq_found *found, bool *is_any_alivep)
{
  bool is_addressed = false;
  *is_any_alivep = false;
  for (uint32_t i = 0; i < found->envelope.n_nodes; i++) {
    const busq_node_name name = busq_found_name(found, i);
    if (name.slot != peer->slot)
      continue;
    if (name.index == BUSQ_NODE_BY_NAME)
      return false;
    is_addressed = true;
    *is_any_alivep = *is_any_alivep || own_is_alive(peer, name, found->key);
  }
  return is_addressed;
}

/* The notice has come to us. */
static void told_end(busq_peer *peer, busq_node_name name)
{
  busq_node *node = busq_node_at(peer->bus, name);
  uint64_t before;
  if (node)
    (void)busq_node_word_change(peer->bus, node, peer->slot, name.generation, peer->incarnation,
                                BUSQ_NODE_EVENT_NOT_NOTIFIED, &before);
}

static busq_admission notice_admit(busq_peer *peer, const busq_found *found)
{
  const busq_node_name name = busq_found_name(found, 0);
  busq_claim_look look;
  busq_key end;
  /* Installs it: its record may be used again once we have passed it. */
  const busq_node_state state = busq_node_look(peer->bus, name, &end, &look);
  if (state == BUSQ_NODE_OTHER)
    return BUSQ_ADMIT_PASS;
  const bool is_ours = busq_node_is_own(peer, name) &&
                       busq_node_owner_of(busq_node_at(peer->bus, name), name.generation) == peer->incarnation;
  if (is_ours || busq_node_is_held(peer, name))
    return BUSQ_ADMIT_DELIVER;
  told_end(peer, name);
  return BUSQ_ADMIT_PASS;
}

/* Sent twice where we died before we noted that we had sent it. */
static busq_admission release_admit(busq_peer *peer, const busq_found *found)
{
  const busq_node_name name = busq_found_name(found, 0);
  busq_node *node = busq_node_at(peer->bus, name);
  if (!node || !busq_node_is_own(peer, name) || !own_is_alive(peer, name, found->key))
    return BUSQ_ADMIT_PASS;
  return busq_load_relaxed(&node->told) < found->envelope.view ? BUSQ_ADMIT_DELIVER : BUSQ_ADMIT_PASS;
}

busq_admission busq_node_admit(busq_peer *peer, busq_found *found)
{
  bool is_any_alive;
  switch (found->envelope.kind) {
  case BUSQ_KIND_NODE_DESTROYED:
    return found->envelope.n_nodes == 1 ? notice_admit(peer, found) : BUSQ_ADMIT_DAMAGED;
  case BUSQ_KIND_NODE_RELEASED:
    return found->envelope.n_nodes == 1 ? release_admit(peer, found) : BUSQ_ADMIT_DAMAGED;
  default:
    return nodes_of_ours(peer, found, &is_any_alive) && !is_any_alive ? BUSQ_ADMIT_PASS : BUSQ_ADMIT_DELIVER;
  }
}

/* ---- taking ---- */

/* Before the mark: killed in between, a successor does not have the handle any more, and passes the notice. */
static void notice_take(busq_peer *peer, busq_node_name name)
{
  told_end(peer, name);
  if (peer->nodes && busq_node_at(peer->bus, name) && !busq_node_is_own(peer, name))
    __atomic_store_n(busq_node_held(peer, name), 0, __ATOMIC_RELEASE);
}

uint64_t busq_node_take(busq_peer *peer, const busq_found *found, uint32_t mode)
{
  const busq_envelope *envelope = &found->envelope;
  uint64_t alive = 0;
  /* A handle that a predecessor had in its hands may have been counted as arrived.  One that we gave back is counted as
   * granted again (busq_node_return_handles). */
  const bool may_have_come = found->is_redelivered || found->position < peer->receiver.inherited;
  /* What is to be acknowledged may come again until then (busq_node_acked). */
  const busq_node_event event =
      may_have_come || mode == BUSQ_TAKE_OFFERED ? BUSQ_NODE_EVENT_HELD_ANEW : BUSQ_NODE_EVENT_ARRIVED;
  if (envelope->kind == BUSQ_KIND_NODE_RELEASED)
    peer->receiver.unheld_node = busq_found_name(found, 0);
  if (envelope->kind == BUSQ_KIND_NODE_DESTROYED)
    notice_take(peer, busq_found_name(found, 0));
  /* Also of a message that was judged before, by a predecessor.  Without memory they arrive dead. */
  const bool can_hold = envelope->n_handles && busq_node_remember(peer) == BUSQ_OK;
  for (uint32_t i = 0; can_hold && i < envelope->n_handles && i < BUSQ_NODE_HANDLES_MAX; i++)
    if (handle_install(peer, busq_found_name(found, envelope->n_nodes + i), found->key, event))
      alive |= UINT64_C(1) << i;
  return alive;
}

/* Behind the mark: killed in between, the owner gets the notice again. */
void busq_node_taken(busq_peer *peer, const busq_found *found)
{
  const busq_node_name name = peer->receiver.unheld_node; /* its record may hold another message by now */
  busq_node *node = busq_node_at(peer->bus, name);
  if (node && busq_node_is_own(peer, name) && found->envelope.view > busq_load_relaxed(&node->told))
    busq_store_release(&node->told, found->envelope.view);
}
