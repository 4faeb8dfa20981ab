/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "shm/node/node_table.h"
#include "shm/trace/tracer.h"
#include <string.h>

/* ---- making nodes ---- */

/* Have all peers taken the notice of the last node's end, or gone? */
static bool entry_is_over(const busq_bus *bus, busq_node *node, uint32_t generation)
{
  for (uint32_t slot = 0; slot < bus->geometry.peers; slot++) {
    const uint64_t word = busq_load_acquire(&node->holder[slot]);
    if (busq_node_word_is_of(word, generation) && (word & BUSQ_NODE_NOTIFIED) &&
        busq_node_life_is_there(bus, slot, busq_node_word_life(word)))
      return false;
  }
  return true;
}

/* A node may have ended while its owner was dead, which it does not know: what was sent to the node before stands in
 * the queue that it has resumed, and would be taken for what came too late, were the entry another node's by then. */
static bool entry_is_awaited(const busq_peer *peer)
{
  return busq_load_acquire(&peer->self->queue.head) < peer->receiver.inherited;
}

/* No process knows of the next node, and swaps that are meant for the last one fail once its words are gone. */
static bool entry_begin(busq_peer *peer, busq_node *node, busq_pair seen)
{
  const uint64_t number = busq_claim_number(seen) + 1;
  const uint32_t generation = (uint32_t)number;
  for (uint32_t slot = 0; slot < peer->bus->geometry.peers; slot++) {
    uint64_t word = busq_load_acquire(&node->holder[slot]);
    BUSQ_STEP("wipe");
    while (!busq_cas64(&node->holder[slot], word, busq_node_word_next(word, busq_node_word_about(generation, 0), 0)))
      word = busq_load_acquire(&node->holder[slot]);
  }
  busq_store_relaxed(&node->holds, 0);
  busq_store_relaxed(&node->told, 0);
  busq_store_release(&node->owner, (uint64_t)generation << 32 | peer->incarnation);
  BUSQ_STEP("node");
  return busq_claim_move(&node->claim, seen, number, BUSQ_CLAIM_IDLE);
}

int busq_node_make(busq_peer *peer, busq_node_name *namep)
{
  busq_bus *bus = peer->bus;
  uint32_t n_alive = 0;
  const int result = busq_node_remember(peer);
  if (result)
    return result;
  for (uint32_t index = 0; index < bus->geometry.nodes; index++) {
    busq_node *node = busq_bus_node(bus, peer->slot, index);
    const busq_pair seen = busq_claim_load(&node->claim);
    const uint32_t generation = (uint32_t)busq_claim_number(seen);
    const bool is_new = busq_claim_number(seen) == 0;
    if (!is_new && busq_claim_state(seen) != BUSQ_CLAIM_OVER) {
      n_alive++;
      continue;
    }
    /* The number that has 0 for its generation is left out. */
    if ((!is_new && (entry_is_awaited(peer) || !entry_is_over(bus, node, generation))) || generation == UINT32_MAX ||
        !entry_begin(peer, node, seen))
      continue;
    peer->nodes->telling[index] = 0;
    memset(&peer->nodes->grants[(uint64_t)index * bus->geometry.peers], 0,
           bus->geometry.peers * sizeof *peer->nodes->grants);
    *namep = (busq_node_name){(uint16_t)peer->slot, (uint16_t)index, generation + 1};
    return BUSQ_OK;
  }
  return busq_error(BUSQ_NO_SPACE,
                    "\"%.255s\" has all of its %u nodes: %u are alive, of %u the notice of the end is not received by everybody who held them, \"%.255s\" itself among them; destroy some, receive what is there, or create the bus with more nodes",
                    peer->self->name, bus->geometry.nodes, n_alive, bus->geometry.nodes - n_alive, peer->self->name);
}

/* ---- ending nodes ---- */

/* The receivers of the notice: holders, peers that may become holders, and the owner. */
static uint32_t told_list(busq_peer *peer, busq_node *node, busq_node_name name, uint64_t *targets)
{
  const busq_bus *bus = peer->bus;
  const uint32_t owner = busq_node_owner_of(node, name.generation);
  uint32_t n_targets = 0;
  for (uint32_t slot = 0; slot < busq_slots_reached(bus); slot++) {
    const uint64_t word = busq_load_acquire(&node->holder[slot]);
    const uint32_t incarnation = slot == name.slot ? owner : busq_node_incarnation_of(bus, slot);
    const bool is_told = slot == name.slot || (busq_node_word_bits(word, name.generation, incarnation) &
                                               (BUSQ_NODE_HELD | BUSQ_NODE_GRANTED));
    const bool is_leaving = peer->nodes->is_leaving && slot == peer->slot;
    if (is_told && !is_leaving && busq_node_incarnation_of(bus, slot) == incarnation &&
        busq_node_life_is_there(bus, slot, incarnation))
      targets[n_targets++] = (uint64_t)incarnation << 16 | slot;
  }
  return n_targets;
}

typedef struct {
  busq_send_hooks hooks;
  busq_node *node;
  busq_node_name name;
  uint64_t number;
  const uint64_t *targets;
  uint32_t n_targets;
} node_ending;

/* Are all peers on the list that should be? Those that are gone may be missing. */
static bool list_is_whole(busq_peer *peer, const node_ending *ending)
{
  uint64_t *const now = peer->nodes->list;
  const uint32_t n_now = told_list(peer, ending->node, ending->name, now);
  uint32_t at = 0;
  for (uint32_t i = 0; i < n_now; i++) { /* both are sorted by slot */
    while (at < ending->n_targets && ending->targets[at] != now[i])
      at++;
    if (at == ending->n_targets)
      return false;
  }
  return true;
}

static int ending_begin(busq_send_hooks *hooks, busq_peer *peer, busq_record *record, uint64_t tag)
{
  const node_ending *ending = (const node_ending *)(const void *)hooks;
  if (!busq_claim_take(peer, &ending->node->claim, ending->number, record, tag))
    return BUSQ_AGAIN;
  busq_fence_full(); /* a sender that finds no claim has granted before this */
  return list_is_whole(peer, ending) ? BUSQ_OK : BUSQ_AGAIN;
}

/* Above whatever was committed at the owner, though that may be dead and receive nothing of this: a sender to the node
 * that found no claim believes that it has reached it, and a successor finds the message in its queue. */
static int ending_attempt(busq_send_hooks *hooks, busq_peer *peer)
{
  const node_ending *ending = (const node_ending *)(const void *)hooks;
  return busq_multicast_rise(peer, ending->name.slot);
}

static void ending_undone(busq_send_hooks *hooks, busq_peer *peer, busq_record *record, uint64_t tag)
{
  const node_ending *ending = (const node_ending *)(const void *)hooks;
  busq_claim_drop(peer, &ending->node->claim, ending->number, record, tag);
}

/* Installed while the record is ours, though others may have done so before. */
static void ending_end(busq_send_hooks *hooks, busq_peer *peer, busq_record *record, busq_key key)
{
  const node_ending *ending = (const node_ending *)(const void *)hooks;
  busq_claim_look look;
  busq_key end;
  (void)record;
  (void)key;
  (void)busq_node_look(peer->bus, ending->name, &end, &look);
}

/* Once; BUSQ_AGAIN where the world has changed meanwhile. */
static int ending_try(busq_peer *peer, busq_node *node, busq_node_name name, uint64_t number)
{
  node_ending ending = {
      .hooks = {.begin = ending_begin, .attempt = ending_attempt, .undone = ending_undone, .end = ending_end},
      .node = node,
      .name = name,
      .number = number,
      .targets = peer->nodes->targets,
  };
  struct {
    busq_node_name name;
    busq_envelope envelope;
  } tail = {name, {.kind = BUSQ_KIND_NODE_DESTROYED, .n_nodes = 1}};
  const busq_part part = {&tail, sizeof tail};
  const busq_payload payload = {.parts = &part,
                                .n_parts = 1,
                                .form = BUSQ_FORM_DATA | BUSQ_FORM_ENVELOPE,
                                .size_bytes = sizeof tail,
                                .hooks = &ending.hooks};
  ending.n_targets = told_list(peer, node, name, peer->nodes->targets);
  if (!ending.n_targets) /* no receiver is left; the end is a message even so */
    peer->nodes->targets[ending.n_targets++] = (uint64_t)peer->incarnation << 16 | peer->slot;
  const bool is_on_the_way = busq_tracer_begin_on_the_way(peer);
  const int result = busq_multicast_try(peer, ending.targets, ending.n_targets, &payload);
  busq_tracer_end_on_the_way(peer, is_on_the_way);
  return result == BUSQ_PEER_DEAD ? BUSQ_AGAIN : result;
}

int busq_node_end(busq_peer *peer, busq_node_name name)
{
  enum { TURNS = 1024 };
  int result = busq_node_remember(peer);
  busq_node *node = busq_node_at(peer->bus, name);
  for (int turn = 0; node && !result && turn < TURNS; turn++) {
    busq_key end;
    const busq_node_state state = busq_node_settle(peer->bus, name, BUSQ_NODE_BREAK, NULL, 0, &end);
    if (state != BUSQ_NODE_ALIVE)
      return BUSQ_OK;
    const busq_pair word = busq_claim_load(&node->claim);
    if ((uint32_t)busq_claim_number(word) != name.generation)
      return BUSQ_OK;
    result = ending_try(peer, node, name, busq_claim_number(word));
    if (result == BUSQ_OK)
      return BUSQ_OK;
    if (result == BUSQ_AGAIN)
      result = BUSQ_OK;
  }
  return result ? result : BUSQ_FULL;
}
