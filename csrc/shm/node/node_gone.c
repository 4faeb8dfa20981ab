/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/burial/grave.h"
#include "shm/node/node_table.h"
#include "shm/trace/tracer.h"

/* ---- what the gone have left: their nodes, and the handles that they held ---- */

static bool may_be_granting(const busq_bus *bus, busq_node_name name)
{
  const uint64_t bit = busq_node_granting_bit(bus, name);
  for (uint32_t slot = 0; slot < busq_slots_reached(bus); slot++)
    if ((busq_load_acquire(&bus->slots[slot].granting) & bit) &&
        busq_node_life_is_there(bus, slot, busq_node_incarnation_of(bus, slot)))
      return true;
  return false;
}

/* True once no message with the handle can be on its way to this peer any more.  See node.h. */
static bool grant_is_over(busq_peer *peer, busq_node_name name, uint32_t slot, uint64_t word)
{
  const busq_bus *bus = peer->bus;
  busq_node_grant *known = &peer->nodes->grants[(uint64_t)name.index * bus->geometry.peers + slot];
  const busq_ring ring = busq_bus_ring(bus, slot);
  if (known->word != word) {
    busq_fence_full();
    if (may_be_granting(bus, name))
      return false;
    *known = (busq_node_grant){word, busq_ring_tail(&ring)};
  }
  return busq_load_acquire(&ring.queue->head) >= known->tail;
}

/* Corrects the word of one holder; false where that holder neither has the handle nor may get it.  Where the swap fails,
 * the word has just been changed: it counts as held, and the next call looks again. */
static bool holder_settle(busq_peer *peer, busq_node *node, busq_node_name name, uint32_t slot)
{
  const uint64_t word = busq_load_acquire(&node->holder[slot]);
  uint64_t state = word & BUSQ_NODE_WORD_STATE;
  if (!busq_node_word_is_of(word, name.generation) || !(state & (BUSQ_NODE_HELD | BUSQ_NODE_GRANTED)))
    return false;
  if (!busq_node_life_is_there(peer->bus, slot, busq_node_word_life(word))) {
    busq_grave_settle_hand(peer->bus, slot);
    state &= BUSQ_NODE_NOTIFIED;
  } else if ((state & BUSQ_NODE_GRANTED) && grant_is_over(peer, name, slot, word)) {
    state &= BUSQ_NODE_HELD | BUSQ_NODE_NOTIFIED;
  }
  if (state == (word & BUSQ_NODE_WORD_STATE))
    return true;
  BUSQ_STEP("clear");
  return !busq_cas64(&node->holder[slot], word,
                     busq_node_word_next(word, word & ~(BUSQ_NODE_WORD_CHANGES | BUSQ_NODE_WORD_STATE), state)) ||
         (state & BUSQ_NODE_HELD);
}

/* To ourselves, behind all that was sent to the node. */
static int release_tell(busq_peer *peer, busq_node_name name, uint64_t holds)
{
  struct {
    busq_node_name name;
    busq_envelope envelope;
  } tail = {name, {.kind = BUSQ_KIND_NODE_RELEASED, .n_nodes = 1, .view = holds}};
  const uint64_t self = (uint64_t)peer->incarnation << 16 | peer->slot;
  const busq_part part = {&tail, sizeof tail};
  const busq_payload payload = {
      .parts = &part, .n_parts = 1, .form = BUSQ_FORM_DATA | BUSQ_FORM_ENVELOPE, .size_bytes = sizeof tail};
  const bool is_on_the_way = busq_tracer_begin_on_the_way(peer);
  const int result = busq_multicast_try(peer, &self, 1, &payload);
  busq_tracer_end_on_the_way(peer, is_on_the_way);
  return result;
}

static int owned_tend(busq_peer *peer, uint32_t index)
{
  const busq_bus *bus = peer->bus;
  busq_node *node = busq_bus_node(bus, peer->slot, index);
  const busq_pair claim = busq_claim_load(&node->claim);
  const busq_node_name name = {(uint16_t)peer->slot, (uint16_t)index, (uint32_t)busq_claim_number(claim)};
  const uint64_t owner = busq_load_acquire(&node->owner);
  bool is_held_by_any = false;
  if (!name.generation || busq_claim_state(claim) == BUSQ_CLAIM_OVER)
    return BUSQ_OK;
  if ((uint32_t)owner != peer->incarnation) /* of a peer that had the slot before us, and is gone */
    return busq_node_end(peer, name);
  const uint64_t holds = busq_load_acquire(&node->holds);
  busq_fence_full();
  for (uint32_t slot = 0; slot < bus->geometry.peers; slot++)
    is_held_by_any |= holder_settle(peer, node, name, slot);
  if (is_held_by_any || holds <= busq_load_relaxed(&node->told) || holds == peer->nodes->telling[index])
    return BUSQ_OK;
  const int result = release_tell(peer, name, holds);
  if (result == BUSQ_OK)
    peer->nodes->telling[index] = holds;
  return result;
}

/* Ends the nodes of the gone of which we hold a handle.  Nodes of one slot may have owners of two lives: where the end of
 * a dead owner's node was put off, for a full queue, its successor in the slot lives and has nodes beside it. */
static int held_tend(busq_peer *peer)
{
  const busq_bus *bus = peer->bus;
  int result = BUSQ_OK;
  for (uint32_t slot = 0; slot < busq_slots_reached(bus); slot++) {
    uint32_t looked_at = 0; /* the owner, as incarnation, of which `is_there` is known */
    bool is_there = false;
    for (uint32_t index = 0; index < bus->geometry.nodes; index++) {
      busq_node_name name = {(uint16_t)slot, (uint16_t)index, 0};
      name.generation = (uint32_t)(__atomic_load_n(busq_node_held(peer, name), __ATOMIC_ACQUIRE) >> 32);
      const bool is_held = name.generation && busq_node_is_held(peer, name);
      const uint32_t owner = is_held ? busq_node_owner_of(busq_bus_node(bus, slot, index), name.generation) : 0;
      if (!owner)
        continue;
      if (owner != looked_at)
        is_there = busq_node_life_is_there(bus, slot, owner);
      looked_at = owner;
      if (is_there)
        continue;
      busq_grave_settle_hand(peer->bus, slot);
      const int ended = busq_node_end(peer, name);
      result = result ? result : ended;
    }
  }
  return result;
}

int busq_node_tend(busq_peer *peer)
{
  int result = BUSQ_OK;
  if (!peer->nodes)
    return BUSQ_OK;
  busq_store_relaxed(&peer->self->unheld, 0);
  busq_fence_full(); /* a peer that lets go after this sets it again */
  for (uint32_t index = 0; index < peer->bus->geometry.nodes; index++) {
    const int tended = owned_tend(peer, index);
    result = result ? result : tended;
  }
  const int held = held_tend(peer);
  return result ? result : held;
}

/* ---- coming and going ---- */

/* Ours to end, or of a peer that had the slot before us. */
static bool own_adopt(busq_peer *peer, busq_node_name name, busq_node *node, busq_node_state state, busq_key end)
{
  if (state == BUSQ_NODE_ENDED && busq_node_owner_of(node, name.generation) == peer->incarnation) {
    busq_ring_raise(&peer->receiver.ring, end.timestamp); /* what is sent to it from now on comes behind its end */
    peer->receiver.inherited = busq_ring_tail(&peer->receiver.ring); /* and what came before that may have to be judged by it */
  }
  return state == BUSQ_NODE_ENDED || busq_node_remember(peer) == BUSQ_OK;
}

/* Swaps our word for itself, with one change more; false where the handle is not held.  An owner that has found our
 * predecessor dead, and was stopped before its swap, would clear it under our hands.  We are counted as a holder as well: a
 * predecessor that was killed between its word and the count was not, and the message, when it comes to us, finds the
 * handle held.  The owner notices no release without a count. */
static bool held_confirm(busq_peer *peer, busq_node *node, uint32_t generation)
{
  uint64_t word = busq_load_acquire(&node->holder[peer->slot]);
  while (busq_node_word_bits(word, generation, peer->incarnation) & BUSQ_NODE_HELD) {
    const uint64_t about = word & ~(BUSQ_NODE_WORD_CHANGES | BUSQ_NODE_WORD_STATE);
    BUSQ_STEP("confirm");
    if (busq_cas64(&node->holder[peer->slot], word, busq_node_word_next(word, about, word & BUSQ_NODE_WORD_STATE))) {
      (void)busq_fetch_add(&node->holds, 1);
      return true;
    }
    word = busq_load_acquire(&node->holder[peer->slot]);
  }
  return false;
}

/* A handle that a predecessor held, without a notice of its end, is ours; our nodes are those in the table.  A process
 * that has found our predecessor dead may be about to end a node without us: broken, it begins anew, and has us among
 * its receivers. */
static bool entry_adopt(busq_peer *peer, busq_node_name name)
{
  const uint16_t self = (uint16_t)peer->slot;
  busq_node *node = busq_node_at(peer->bus, name);
  busq_key end;
  name.generation = (uint32_t)busq_claim_number(busq_claim_load(&node->claim));
  const bool is_own = busq_node_is_own(peer, name);
  if (!is_own && !held_confirm(peer, node, name.generation))
    return true;
  const busq_node_state state = busq_node_settle(peer->bus, name, BUSQ_NODE_BREAK, &self, 1, &end);
  if (state == BUSQ_NODE_OTHER)
    return true;
  if (is_own)
    return own_adopt(peer, name, node, state, end);
  const uint32_t bits = busq_node_word_bits(busq_load_acquire(&node->holder[peer->slot]), name.generation,
                                            peer->incarnation);
  if (state == BUSQ_NODE_ENDED && !(bits & BUSQ_NODE_NOTIFIED))
    return true;
  if (busq_node_remember(peer) != BUSQ_OK)
    return false;
  (void)busq_node_held_more(busq_node_held(peer, name), name.generation);
  return true;
}

int busq_node_adopt(busq_peer *peer)
{
  const busq_bus *bus = peer->bus;
  busq_store_relaxed(&peer->self->granting, 0);
  busq_fence_full(); /* a process that ends a node of ours looks, after it has claimed, whether we live */
  for (uint32_t slot = 0; slot < bus->geometry.peers; slot++)
    for (uint32_t index = 0; index < bus->geometry.nodes; index++)
      if (!entry_adopt(peer, (busq_node_name){(uint16_t)slot, (uint16_t)index, 0}))
        return busq_node_memory_missing(peer);
  if (peer->nodes)
    (void)busq_node_tend(peer);
  return BUSQ_OK;
}

/* With both latches, for a peer that leaves: what can't be ended at once is ended by the holders. */
void busq_node_leave(busq_peer *peer)
{
  const busq_bus *bus = peer->bus;
  if (!peer->nodes || (peer->life_flags & BUSQ_LIFE_DURABLE))
    return;
  peer->nodes->is_leaving = true;
  for (uint32_t index = 0; index < bus->geometry.nodes; index++) {
    busq_node *node = busq_bus_node(bus, peer->slot, index);
    const busq_pair claim = busq_claim_load(&node->claim);
    if (busq_claim_number(claim) && busq_claim_state(claim) != BUSQ_CLAIM_OVER)
      (void)busq_node_end(peer,
                          (busq_node_name){(uint16_t)peer->slot, (uint16_t)index, (uint32_t)busq_claim_number(claim)});
  }
  for (uint32_t slot = 0; slot < bus->geometry.peers; slot++)
    for (uint32_t index = 0; index < bus->geometry.nodes; index++) {
      busq_node_name name = {(uint16_t)slot, (uint16_t)index, 0};
      const uint64_t held = __atomic_exchange_n(busq_node_held(peer, name), 0, __ATOMIC_ACQ_REL);
      name.generation = (uint32_t)(held >> 32);
      if (!(uint32_t)held)
        continue;
      busq_node_hold_end(peer, name);
      busq_node_poke(peer->bus, slot);
    }
}
