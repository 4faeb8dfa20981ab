/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/node.h"
#include "base/assert.h"
#include "base/error.h"
#include "shm/claim.h"
#include "shm/grave.h"
#include "shm/reference.h"
#include "shm/wake.h"
#include <stdlib.h>
#include <string.h>

/* ---- a peer's word: generation (16) | life (20) | count of changes (17) | grants (8) | bits (3) ---- */

#define WORD_BITS UINT64_C(7)
#define WORD_GRANT UINT64_C(8)
#define WORD_GRANTS (UINT64_C(0xff) * WORD_GRANT) /* full: so many, or more */
#define WORD_STATE (WORD_BITS | WORD_GRANTS)
#define WORD_CHANGE (UINT64_C(1) << 11)
#define WORD_CHANGES ((UINT64_C(1) << 28) - WORD_CHANGE)
#define WORD_LIFE_SHIFT 28
#define WORD_LIFE_MASK UINT32_C(0xfffff)
#define WORD_GENERATION_SHIFT 48

static uint64_t word_about(uint32_t generation, uint32_t incarnation)
{
  return (uint64_t)(generation & 0xffff) << WORD_GENERATION_SHIFT | (uint64_t)(incarnation & WORD_LIFE_MASK) << WORD_LIFE_SHIFT;
}

static bool word_is_of(uint64_t word, uint32_t generation)
{
  return word >> WORD_GENERATION_SHIFT == (generation & 0xffff);
}

static uint32_t word_life(uint64_t word)
{
  return (uint32_t)(word >> WORD_LIFE_SHIFT) & WORD_LIFE_MASK;
}

static uint32_t word_bits(uint64_t word, uint32_t generation, uint32_t incarnation)
{
  return word_is_of(word, generation) && word_life(word) == (incarnation & WORD_LIFE_MASK) ? (uint32_t)(word & WORD_BITS) : 0;
}

/* `state`: the bits, and the grants, which are some where the bit for them is set. */
static uint64_t word_next(uint64_t word, uint64_t about, uint64_t state)
{
  BUSQ_ASSERT(!(state & WORD_GRANTS) == !(state & BUSQ_NODE_GRANTED));
  return about | ((word + WORD_CHANGE) & WORD_CHANGES) | state;
}

static uint64_t word_state(uint64_t word, uint32_t generation, uint32_t incarnation)
{
  return word_bits(word, generation, incarnation) ? word & WORD_STATE : 0;
}

static uint64_t state_granted(uint64_t state)
{
  return ((state & WORD_GRANTS) == WORD_GRANTS ? state : state + WORD_GRANT) | BUSQ_NODE_GRANTED;
}

/* Of as many as can be counted, and more, only the owner knows when they are over. */
static uint64_t state_arrived(uint64_t state)
{
  if (!(state & WORD_GRANTS) || (state & WORD_GRANTS) == WORD_GRANTS)
    return state;
  state -= WORD_GRANT;
  return state & WORD_GRANTS ? state : state & ~(uint64_t)BUSQ_NODE_GRANTED;
}

typedef enum { WORD_GRANTED, WORD_HELD_ANEW, WORD_HELD_ARRIVED, WORD_NOT_TOLD } word_event;

static uint64_t state_after(uint64_t state, word_event event)
{
  switch (event) {
  case WORD_GRANTED:
    return state_granted(state);
  case WORD_HELD_ARRIVED:
    return state_arrived(state) | BUSQ_NODE_HELD;
  case WORD_HELD_ANEW:
    return state | BUSQ_NODE_HELD;
  case WORD_NOT_TOLD:
    return state & ~(uint64_t)BUSQ_NODE_TOLD;
  }
  return state;
}

/* Swaps in what becomes of it, and counts a change even where that is nothing.  False where the entry is another node's by now, or
 * the slot another peer's.  *beforep is what stood there. */
static bool word_change(const busq_bus *bus, busq_node *node, uint32_t slot, uint32_t generation, uint32_t incarnation,
                        word_event event, uint64_t *beforep)
{
  uint64_t *const word = &node->holder[slot];
  for (;;) {
    const uint64_t seen = busq_load_acquire(word);
    if (!word_is_of(seen, generation) || (uint32_t)(busq_load_acquire(&bus->slots[slot].life) >> 32) != incarnation)
      return false;
    const uint64_t state = state_after(word_state(seen, generation, incarnation), event);
    BUSQ_STEP("holder");
    if (busq_cas64(word, seen, word_next(seen, word_about(generation, incarnation), state))) {
      *beforep = seen;
      return true;
    }
  }
}

/* ---- nodes ---- */

static busq_node *node_at(const busq_bus *bus, busq_node_name name)
{
  return name.slot < bus->geometry.peers && name.index < bus->geometry.nodes ? busq_bus_node(bus, name.slot, name.index) : NULL;
}

/* Whose it is; 0 where the entry is another node's by now. */
static uint32_t node_owner(busq_node *node, uint32_t generation)
{
  const uint64_t owner = busq_load_acquire(&node->owner);
  return (uint32_t)(owner >> 32) == generation ? (uint32_t)owner : 0;
}

static uint32_t incarnation_of(const busq_bus *bus, uint32_t slot)
{
  return (uint32_t)(busq_load_acquire(&bus->slots[slot].life) >> 32);
}

/* Is somebody there, or coming back, who takes what stands in the queue of that life?  The kernel is asked. */
static bool life_is_there(const busq_bus *bus, uint32_t slot, uint32_t life_bits)
{
  const uint64_t life = busq_load_acquire(&bus->slots[slot].life);
  const uint32_t state = (uint32_t)life & BUSQ_LIFE_MASK;
  if (((uint32_t)(life >> 32) & WORD_LIFE_MASK) != (life_bits & WORD_LIFE_MASK) || (life & BUSQ_LIFE_DROPPED) || state == BUSQ_LIFE_FREE)
    return false;
  return (life & BUSQ_LIFE_DURABLE) || (state == BUSQ_LIFE_LIVE && busq_life_is_held(bus, slot));
}

/* ---- the end of a node ---- */

/* Who is told of the end: whose word says so, and the owner.  What somebody else has read from the record counts only while it is that
 * message; and a word that was read before the claim was seen still standing can't be one whose peer has taken the notice since. */
static void told_install(const busq_bus *bus, busq_node *node, uint32_t owner_slot, const busq_claim_look *look, uint32_t slot)
{
  const uint32_t generation = (uint32_t)busq_claim_number(look->word);
  const uint64_t seen = busq_load_acquire(&node->holder[slot]);
  const bool is_owner = slot == owner_slot;
  if (!word_is_of(seen, generation) || (!is_owner && !(seen & (BUSQ_NODE_HELD | BUSQ_NODE_GRANTED))) || (seen & BUSQ_NODE_TOLD))
    return;
  const busq_pair word = busq_claim_load(&node->claim);
  if (word.lo != look->word.lo || word.hi != look->word.hi)
    return;
  const uint64_t about = is_owner ? word_about(generation, node_owner(node, generation)) : seen & ~(WORD_CHANGES | WORD_STATE);
  BUSQ_STEP("told");
  if (!busq_cas64(&node->holder[slot], seen, word_next(seen, about, (seen & WORD_STATE) | BUSQ_NODE_TOLD)))
    told_install(bus, node, owner_slot, look, slot); /* its peer, or another sender, was faster: at most a few times */
}

static void node_install(const busq_bus *bus, busq_node *node, uint32_t owner_slot, const busq_claim_look *look)
{
  const busq_record *record = look->record;
  const uint64_t number = busq_claim_number(look->word);
  const uint32_t destinations = busq_record_destinations(record);
  for (uint32_t i = 0; i < destinations && destinations <= bus->geometry.peers; i++) {
    const uint32_t slot = busq_load_relaxed(&record->destination[i].slot);
    if (!busq_record_is_still(record, look->tag | BUSQ_PHASE_COMMITTED))
      return; /* then somebody has installed it */
    if (slot < bus->geometry.peers)
      told_install(bus, node, owner_slot, look, slot);
  }
  busq_place_install(&node->end, number, look->key);
  (void)busq_claim_move(&node->claim, look->word, number, BUSQ_CLAIM_OVER);
}

typedef enum {
  NODE_ALIVE,
  NODE_ENDING, /* claimed, by a message that is not sealed */
  NODE_ENDED,
  NODE_OTHER /* the entry is another node's, or nobody's */
} node_state;

/* What has become of a node; an end that is decided is installed first.  The turns are for damage. */
static node_state node_look_closely(busq_bus *bus, busq_node *node, busq_node_name name, busq_key *endp, busq_claim_look *look)
{
  enum { TURNS = 64 };
  for (int turn = 0; node && turn < TURNS; turn++) {
    *look = busq_claim_examine(bus, &node->claim);
    if ((uint32_t)busq_claim_number(look->word) != name.generation || !name.generation)
      return NODE_OTHER;
    if (busq_claim_state(look->word) == BUSQ_CLAIM_OVER) {
      if (busq_place_read(&node->end, busq_claim_number(look->word), endp) == BUSQ_PLACE_THERE)
        return NODE_ENDED;
    } else if (look->phase == BUSQ_CLAIM_NOTHING) {
      return NODE_ALIVE;
    } else if (look->phase == BUSQ_CLAIM_OPEN) {
      return NODE_ENDING;
    } else if (look->phase == BUSQ_CLAIM_SEALED) {
      busq_claim_complete(bus, look);
    } else if (look->phase == BUSQ_CLAIM_DECIDED) {
      node_install(bus, node, name.slot, look);
    } else {
      (void)busq_claim_move(&node->claim, look->word, busq_claim_number(look->word), BUSQ_CLAIM_IDLE);
    }
  }
  return NODE_OTHER;
}

/* One half of the word says so of a node that nobody ends. */
static inline bool node_is_idle(busq_node *node, uint32_t generation)
{
  const busq_pair word = {busq_load_acquire(&node->claim.lo), 0};
  return BUSQ_LIKELY((uint32_t)busq_claim_number(word) == generation && busq_claim_state(word) == BUSQ_CLAIM_IDLE && generation);
}

static inline node_state node_look(busq_bus *bus, busq_node_name name, busq_key *endp, busq_claim_look *look)
{
  busq_node *node = node_at(bus, name);
  if (BUSQ_LIKELY(node && node_is_idle(node, name.generation)))
    return NODE_ALIVE;
  return node_look_closely(bus, node, name, endp, look);
}

/* The same of whoever can't leave it open; `settle` says what to do about a message that is not sealed. */
typedef enum { SETTLE_BREAK, SETTLE_PUT_OFF } node_settling;

/* Is the slot a receiver of the message that claims the node?  Read from its record, which is not sealed. */
static bool claim_tells(const busq_claim_look *look, uint32_t slot)
{
  const uint32_t destinations = busq_record_destinations(look->record);
  const bool is_there = destinations <= BUSQ_LAYOUT_PEERS_MAX && busq_record_mark_of(look->record, destinations, slot) != BUSQ_NO_MARK;
  return is_there && (busq_load_acquire(&look->record->state.lo) & ~BUSQ_PHASE_MASK) == look->tag;
}

/* Does the end, if it comes, come to all of them?  Then it may. */
static bool claim_tells_all(const busq_claim_look *look, const uint16_t *slots, uint32_t n_slots)
{
  for (uint32_t i = 0; i < n_slots; i++)
    if (!claim_tells(look, slots[i]))
      return false;
  return n_slots > 0;
}

static node_state node_settle(busq_bus *bus, busq_node_name name, node_settling how, const uint16_t *slots, uint32_t n_slots,
                              busq_key *endp)
{
  uint64_t spent = 0;
  for (;;) {
    busq_claim_look look;
    busq_node *node = node_at(bus, name);
    const node_state state = node_look(bus, name, endp, &look);
    if (state != NODE_ENDING || claim_tells_all(&look, slots, n_slots))
      return state == NODE_ENDING ? NODE_ALIVE : state;
    if (busq_claim_wait(&node->claim, &look, &spent))
      continue;
    /* Put off, it comes later than all that was sent up to now; one that can't be put off any more is broken. */
    if (how == SETTLE_PUT_OFF && busq_claim_put_off(&look))
      return NODE_ALIVE;
    if (how == SETTLE_BREAK || busq_tag_attempt(look.tag) >= BUSQ_ATTEMPT_MAX - 1)
      (void)busq_claim_break(&node->claim, &look);
  }
}

static bool key_is_before(busq_key key, busq_key end)
{
  return busq_key_less(busq_place_key(key), end);
}

/* ---- what a peer keeps for itself ---- */

static uint64_t table_entries(const busq_bus *bus)
{
  return (uint64_t)bus->geometry.peers * bus->geometry.nodes;
}

static uint64_t table_entry(const busq_bus *bus, busq_node_name name)
{
  return (uint64_t)name.slot * bus->geometry.nodes + name.index;
}

static int memory_missing(const busq_peer *peer)
{
  return busq_error(BUSQ_NO_SPACE, "no memory to keep track of the nodes of bus \"%s\" (%u peers, %u nodes each)", peer->bus->name,
                    peer->bus->geometry.peers, peer->bus->geometry.nodes);
}

int busq_node_remember(busq_peer *peer)
{
  const busq_bus *bus = peer->bus;
  if (__atomic_load_n(&peer->nodes, __ATOMIC_ACQUIRE))
    return BUSQ_OK;
  busq_node_memory *memory = calloc(1, sizeof *memory);
  const uint64_t entries = table_entries(bus);
  if (memory) {
    memory->held = calloc(entries, sizeof *memory->held);
    memory->grants = calloc(entries, sizeof *memory->grants);
    memory->telling = calloc(bus->geometry.nodes, sizeof *memory->telling);
    memory->targets = calloc(bus->geometry.peers + 1, sizeof *memory->targets);
    memory->list = calloc(bus->geometry.peers + 1, sizeof *memory->list);
  }
  busq_node_memory *nobody = NULL;
  if (!memory || !memory->held || !memory->grants || !memory->telling || !memory->targets || !memory->list ||
      !__atomic_compare_exchange_n(&peer->nodes, &nobody, memory, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    busq_node_forget(&memory);
  return __atomic_load_n(&peer->nodes, __ATOMIC_ACQUIRE) ? BUSQ_OK : memory_missing(peer);
}

void busq_node_forget(busq_node_memory **memoryp)
{
  busq_node_memory *memory = *memoryp;
  *memoryp = NULL;
  if (!memory)
    return;
  free(memory->held);
  free(memory->grants);
  free(memory->telling);
  free(memory->targets);
  free(memory->list);
  free(memory->scratch);
  free(memory);
}

/* ---- holding ---- */

static uint64_t *held_entry(const busq_peer *peer, busq_node_name name)
{
  return &peer->nodes->held[table_entry(peer->bus, name)];
}

static bool is_own(const busq_peer *peer, busq_node_name name)
{
  return name.slot == peer->slot;
}

/* One object more keeps it: how many now. */
static uint32_t held_more(uint64_t *held, uint32_t generation)
{
  uint64_t seen = __atomic_load_n(held, __ATOMIC_ACQUIRE), next;
  do
    next = seen >> 32 == generation ? seen + 1 : (uint64_t)generation << 32 | 1;
  while (!__atomic_compare_exchange_n(held, &seen, next, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
  return (uint32_t)next;
}

/* One less; false where none was left, or they were another node's. */
static bool held_less(uint64_t *held, uint32_t generation, uint32_t *leftp)
{
  uint64_t seen = __atomic_load_n(held, __ATOMIC_ACQUIRE);
  do
    if (seen >> 32 != generation || !(uint32_t)seen)
      return false;
  while (!__atomic_compare_exchange_n(held, &seen, seen - 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
  *leftp = (uint32_t)seen - 1;
  return true;
}

static bool is_held(const busq_peer *peer, busq_node_name name)
{
  if (!peer->nodes || !node_at(peer->bus, name))
    return false;
  const uint64_t held = __atomic_load_n(held_entry(peer, name), __ATOMIC_ACQUIRE);
  return held >> 32 == name.generation && (uint32_t)held;
}

/* Who takes the last one off says so to all.  Another thread may just take the handle in anew: it counts first, and changes the word
 * afterwards, so either we see its count, or our swap fails. */
static void hold_end(busq_peer *peer, busq_node_name name)
{
  busq_node *node = node_at(peer->bus, name);
  for (;;) {
    const uint64_t seen = busq_load_acquire(&node->holder[peer->slot]);
    if (is_held(peer, name) || !(word_bits(seen, name.generation, peer->incarnation) & BUSQ_NODE_HELD))
      return;
    const uint64_t state = (seen & WORD_STATE) & ~(uint64_t)BUSQ_NODE_HELD;
    BUSQ_STEP("let go");
    if (busq_cas64(&node->holder[peer->slot], seen, word_next(seen, word_about(name.generation, peer->incarnation), state)))
      return;
  }
}

static void owner_poke(busq_bus *bus, uint32_t slot)
{
  busq_store_release(&bus->slots[slot].unheld, 1);
  busq_fence_full();
  busq_wake_readers_of(bus, slot);
}

void busq_node_release(busq_peer *peer, busq_node_name name)
{
  uint32_t left;
  if (!peer->nodes || !node_at(peer->bus, name) || is_own(peer, name) || !held_less(held_entry(peer, name), name.generation, &left) || left)
    return;
  if (busq_load_relaxed(&peer->is_closed))
    return; /* the slot may be another peer's; the owner sees that we have left */
  hold_end(peer, name);
  owner_poke(peer->bus, name.slot);
}

/* ---- handles that arrive ---- */

static bool own_is_alive(busq_peer *peer, busq_node_name name, busq_key key)
{
  busq_claim_look look;
  busq_key end;
  busq_node *node = node_at(peer->bus, name);
  if (!node || node_owner(node, name.generation) != peer->incarnation)
    return false;
  const node_state state = node_look(peer->bus, name, &end, &look);
  return state == NODE_ALIVE || state == NODE_ENDING || (state == NODE_ENDED && key_is_before(key, end));
}

/* Set before the claim is looked at: see node.h. */
static bool hold_begin(busq_peer *peer, busq_node *node, busq_node_name name, word_event event)
{
  uint64_t before;
  (void)held_more(held_entry(peer, name), name.generation);
  if (!word_change(peer->bus, node, peer->slot, name.generation, peer->incarnation, event, &before))
    return false;
  if (!(word_bits(before, name.generation, peer->incarnation) & BUSQ_NODE_HELD))
    (void)busq_fetch_add(&node->holds, 1);
  busq_fence_full();
  return true;
}

static bool handle_install(busq_peer *peer, busq_node_name name, busq_key key, word_event event)
{
  const uint16_t self = (uint16_t)peer->slot;
  busq_node *node = node_at(peer->bus, name);
  busq_key end;
  uint32_t left;
  if (!node)
    return false;
  if (is_own(peer, name))
    return own_is_alive(peer, name, key);
  bool is_alive = hold_begin(peer, node, name, event);
  if (is_alive) {
    const node_state state = node_settle(peer->bus, name, SETTLE_BREAK, &self, 1, &end);
    const uint64_t word = busq_load_acquire(&node->holder[peer->slot]);
    is_alive = state == NODE_ALIVE || (state == NODE_ENDED && key_is_before(key, end) &&
                                       (word_bits(word, name.generation, peer->incarnation) & BUSQ_NODE_TOLD));
  }
  if (!is_alive && held_less(held_entry(peer, name), name.generation, &left) && !left)
    hold_end(peer, name);
  return is_alive;
}

/* ---- judging what is in the queue ---- */

/* Of those of our nodes that it is addressed to, which are alive at its place; false where it is addressed to us by name. */
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
  busq_node *node = node_at(peer->bus, name);
  uint64_t before;
  if (node)
    (void)word_change(peer->bus, node, peer->slot, name.generation, peer->incarnation, WORD_NOT_TOLD, &before);
}

static busq_admission notice_admit(busq_peer *peer, const busq_found *found)
{
  const busq_node_name name = busq_found_name(found, 0);
  busq_claim_look look;
  busq_key end;
  /* Installs it: its record may be used again once we have passed it. */
  const node_state state = node_look(peer->bus, name, &end, &look);
  if (state == NODE_OTHER)
    return BUSQ_ADMIT_PASS;
  const bool is_ours = is_own(peer, name) && node_owner(node_at(peer->bus, name), name.generation) == peer->incarnation;
  if (is_ours || is_held(peer, name))
    return BUSQ_ADMIT_DELIVER;
  told_end(peer, name);
  return BUSQ_ADMIT_PASS;
}

/* Sent twice where we died before we noted that we had sent it. */
static busq_admission release_admit(busq_peer *peer, const busq_found *found)
{
  const busq_node_name name = busq_found_name(found, 0);
  busq_node *node = node_at(peer->bus, name);
  if (!node || !is_own(peer, name) || !own_is_alive(peer, name, found->key))
    return BUSQ_ADMIT_PASS;
  return busq_load_relaxed(&node->told) < found->envelope.view ? BUSQ_ADMIT_DELIVER : BUSQ_ADMIT_PASS;
}

busq_admission busq_node_admit(busq_peer *peer, busq_found *found)
{
  bool is_any_alive;
  if (found->envelope.n_handles)
    (void)busq_node_remember(peer); /* without memory they arrive dead */
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
  if (peer->nodes && node_at(peer->bus, name) && !is_own(peer, name))
    __atomic_store_n(held_entry(peer, name), 0, __ATOMIC_RELEASE);
}

uint64_t busq_node_take(busq_peer *peer, const busq_found *found)
{
  const busq_envelope *envelope = &found->envelope;
  uint64_t alive = 0;
  /* What a predecessor had in its hands may have been counted as arrived. */
  const bool may_have_come = found->is_redelivered || found->was_given_back || found->position < peer->inherited;
  const word_event event = may_have_come ? WORD_HELD_ANEW : WORD_HELD_ARRIVED;
  if (envelope->kind == BUSQ_KIND_NODE_RELEASED)
    peer->unheld_node = busq_found_name(found, 0);
  if (envelope->kind == BUSQ_KIND_NODE_DESTROYED)
    notice_take(peer, busq_found_name(found, 0));
  for (uint32_t i = 0; peer->nodes && i < envelope->n_handles && i < BUSQ_NODE_HANDLES_MAX; i++)
    if (handle_install(peer, busq_found_name(found, envelope->n_nodes + i), found->key, event))
      alive |= UINT64_C(1) << i;
  return alive;
}

/* Behind the mark: killed in between, the owner is told again. */
void busq_node_taken(busq_peer *peer, const busq_found *found)
{
  const busq_node_name name = peer->unheld_node; /* its record may hold another message by now */
  busq_node *node = node_at(peer->bus, name);
  if (node && is_own(peer, name) && found->envelope.view > busq_load_relaxed(&node->told))
    busq_store_release(&node->told, found->envelope.view);
}

/* ---- making nodes ---- */

/* Has everybody who was told of the last node's end taken the notice, or gone? */
static bool entry_is_over(const busq_bus *bus, busq_node *node, uint32_t generation)
{
  for (uint32_t slot = 0; slot < bus->geometry.peers; slot++) {
    const uint64_t word = busq_load_acquire(&node->holder[slot]);
    if (word_is_of(word, generation) && (word & BUSQ_NODE_TOLD) && life_is_there(bus, slot, word_life(word)))
      return false;
  }
  return true;
}

/* A node may have ended while its owner was dead, which nobody told it: what was sent to the node before stands in the queue that it has
 * resumed, and would be taken for what came too late, were the entry another node's by then. */
static bool entry_is_awaited(const busq_peer *peer)
{
  return busq_load_relaxed(&peer->head) < peer->inherited;
}

/* Nobody knows of the next node, and swaps that are meant for the last one fail once its words are gone. */
static bool entry_begin(busq_peer *peer, busq_node *node, busq_pair seen)
{
  const uint64_t number = busq_claim_number(seen) + 1;
  const uint32_t generation = (uint32_t)number;
  for (uint32_t slot = 0; slot < peer->bus->geometry.peers; slot++) {
    uint64_t word = busq_load_acquire(&node->holder[slot]);
    BUSQ_STEP("wipe");
    while (!busq_cas64(&node->holder[slot], word, word_next(word, word_about(generation, 0), 0)))
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
    /* The number that has 0 for its generation is nobody's. */
    if ((!is_new && (entry_is_awaited(peer) || !entry_is_over(bus, node, generation))) || generation == UINT32_MAX || !entry_begin(peer, node, seen))
      continue;
    peer->nodes->telling[index] = 0;
    memset(&peer->nodes->grants[(uint64_t)index * bus->geometry.peers], 0, bus->geometry.peers * sizeof *peer->nodes->grants);
    *namep = (busq_node_name){(uint16_t)peer->slot, (uint16_t)index, generation + 1};
    return BUSQ_OK;
  }
  return busq_error(BUSQ_NO_SPACE,
                    "\"%.255s\" has all of its %u nodes: %u are alive, of %u the notice of the end is not received by everybody who held them, \"%.255s\" itself among them; destroy some, receive what is there, or create the bus with more nodes",
                    peer->self->name, bus->geometry.nodes, n_alive, bus->geometry.nodes - n_alive, peer->self->name);
}

/* ---- ending nodes ---- */

/* Everybody who is told: holders, those who may become some, and the owner. */
static uint32_t told_list(busq_peer *peer, busq_node *node, busq_node_name name, uint64_t *targets)
{
  const busq_bus *bus = peer->bus;
  const uint32_t owner = node_owner(node, name.generation);
  uint32_t n_targets = 0;
  for (uint32_t slot = 0; slot < bus->geometry.peers; slot++) {
    const uint64_t word = busq_load_acquire(&node->holder[slot]);
    const uint32_t incarnation = slot == name.slot ? owner : incarnation_of(bus, slot);
    const bool is_told = slot == name.slot ||
                         (word_bits(word, name.generation, incarnation) & (BUSQ_NODE_HELD | BUSQ_NODE_GRANTED));
    if (is_told && !(peer->nodes->is_leaving && slot == peer->slot) && incarnation_of(bus, slot) == incarnation && life_is_there(bus, slot, incarnation))
      targets[n_targets++] = (uint64_t)incarnation << 16 | slot;
  }
  return n_targets;
}

typedef struct {
  busq_companion companion;
  busq_node *node;
  busq_node_name name;
  uint64_t number;
  const uint64_t *targets;
  uint32_t n_targets;
} node_ending;

/* Is everybody on the list that should be?  Those who are gone may be. */
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

static int ending_begin(busq_companion *companion, busq_peer *peer, busq_record *record, uint64_t tag)
{
  const node_ending *ending = (const node_ending *)(const void *)companion;
  if (!busq_claim_take(peer, &ending->node->claim, ending->number, record, tag))
    return BUSQ_AGAIN;
  busq_fence_full(); /* a sender that finds no claim has granted before this */
  if (list_is_whole(peer, ending))
    return BUSQ_OK;
  busq_commit_finish(peer->bus, record);
  busq_claim_drop(peer, &ending->node->claim, ending->number, record, tag);
  return BUSQ_AGAIN;
}

static void ending_undone(busq_companion *companion, busq_peer *peer, busq_record *record, uint64_t tag)
{
  const node_ending *ending = (const node_ending *)(const void *)companion;
  busq_claim_drop(peer, &ending->node->claim, ending->number, record, tag);
}

/* Installed while the record is ours, whoever has done so before. */
static void ending_end(busq_companion *companion, busq_peer *peer, busq_record *record, busq_key key)
{
  const node_ending *ending = (const node_ending *)(const void *)companion;
  busq_claim_look look;
  busq_key end;
  (void)record;
  (void)key;
  (void)node_look(peer->bus, ending->name, &end, &look);
}

/* Once; BUSQ_AGAIN where the world has changed meanwhile. */
static int ending_try(busq_peer *peer, busq_node *node, busq_node_name name, uint64_t number)
{
  node_ending ending = {
      .companion = {.begin = ending_begin, .undone = ending_undone, .end = ending_end},
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
                                .companion = &ending.companion};
  ending.n_targets = told_list(peer, node, name, peer->nodes->targets);
  if (!ending.n_targets) /* nobody is left to be told; that it is over is told by a message even so */
    peer->nodes->targets[ending.n_targets++] = (uint64_t)peer->incarnation << 16 | peer->slot;
  const int result = busq_multicast_try(peer, ending.targets, ending.n_targets, &payload);
  return result == BUSQ_PEER_DEAD ? BUSQ_AGAIN : result;
}

int busq_node_end(busq_peer *peer, busq_node_name name)
{
  enum { TURNS = 1024 };
  int result = busq_node_remember(peer);
  busq_node *node = node_at(peer->bus, name);
  for (int turn = 0; node && !result && turn < TURNS; turn++) {
    busq_key end;
    const node_state state = node_settle(peer->bus, name, SETTLE_BREAK, NULL, 0, &end);
    if (state != NODE_ALIVE)
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

/* ---- sending to nodes, and sending handles ---- */

typedef struct {
  busq_companion companion;
  const busq_letter *letter;
  uint8_t *missed; /* [n_nodes] */
  uint32_t n_missed;
} node_sending;

static busq_node_name letter_node(const busq_letter *letter, uint32_t at)
{
  return busq_node_unpack(letter->nodes[at]);
}

/* A bit for each node, shared by some: whoever looks whether a grant may be under way errs on the safe side. */
static uint64_t granting_bit(const busq_bus *bus, busq_node_name name)
{
  return UINT64_C(1) << table_entry(bus, name) % 64;
}

/* Everybody who will receive the handle, before anybody can; then the claim. */
static void handle_grant(busq_peer *peer, busq_node_name name, uint32_t n_targets)
{
  busq_node *node = node_at(peer->bus, name);
  busq_key end;
  uint64_t before;
  for (uint32_t i = 0; node && i < n_targets; i++) {
    const uint32_t slot = peer->destinations[i];
    if (slot != name.slot)
      (void)word_change(peer->bus, node, slot, name.generation, peer->known[slot].incarnation, WORD_GRANTED, &before);
  }
  busq_fence_full();
  /* Behind the end, it arrives dead everywhere. */
  if (node_settle(peer->bus, name, SETTLE_BREAK, peer->destinations, n_targets, &end) == NODE_ENDED)
    peer->lamport = busq_timestamp_max(peer->lamport, end.timestamp);
}

static int sending_begin(busq_companion *companion, busq_peer *peer, busq_record *record, uint64_t tag)
{
  const node_sending *sending = (const node_sending *)(const void *)companion;
  const busq_letter *letter = sending->letter;
  const uint32_t n_targets = busq_record_destinations(record);
  uint64_t granting = 0;
  (void)tag;
  for (uint32_t i = 0; i < letter->n_handles; i++)
    granting |= granting_bit(peer->bus, busq_node_unpack(letter->handles[i]));
  busq_store_release(&peer->self->granting, granting);
  busq_fence_full();
  for (uint32_t i = 0; i < letter->n_handles; i++)
    handle_grant(peer, busq_node_unpack(letter->handles[i]), n_targets);
  return BUSQ_OK;
}

static void sending_undone(busq_companion *companion, busq_peer *peer, busq_record *record, uint64_t tag)
{
  (void)companion;
  (void)record;
  (void)tag;
  busq_store_release(&peer->self->granting, 0);
}

/* Did a message that is committed come before the end?  An end that is still open comes later than it, once it is put off. */
static bool node_was_reached(busq_peer *peer, busq_node_name name, busq_key key)
{
  busq_key end;
  busq_node *node = node_at(peer->bus, name);
  busq_fence_after_swap(); /* our place is taken before we look */
  if (node_is_idle(node, name.generation))
    return true;
  const node_state state = node_settle(peer->bus, name, SETTLE_PUT_OFF, NULL, 0, &end);
  if (state == NODE_OTHER) {
    /* Another node stands there by now; the mark is still that of the one before it. */
    const uint64_t number = busq_claim_number(busq_claim_load(&node->claim)) - 1;
    return (uint32_t)number == name.generation && busq_place_read(&node->end, number, &end) == BUSQ_PLACE_THERE &&
           key_is_before(key, end);
  }
  return state == NODE_ALIVE || key_is_before(key, end);
}

static void sending_end(busq_companion *companion, busq_peer *peer, busq_record *record, busq_key key)
{
  node_sending *sending = (node_sending *)(void *)companion;
  (void)record;
  if (sending->letter->n_handles)
    busq_store_release(&peer->self->granting, 0);
  for (uint32_t i = 0; i < sending->letter->n_nodes; i++)
    if (!sending->missed[i] && !node_was_reached(peer, letter_node(sending->letter, i), key)) {
      sending->missed[i] = 1;
      sending->n_missed++;
    }
}

static int handles_check(busq_peer *peer, const busq_letter *letter)
{
  if (letter->n_handles > BUSQ_NODE_HANDLES_MAX)
    return busq_error(BUSQ_INVALID, "%u handles in one message: expected at most %u", letter->n_handles, BUSQ_NODE_HANDLES_MAX);
  for (uint32_t i = 0; i < letter->n_handles; i++) {
    const busq_node_name name = busq_node_unpack(letter->handles[i]);
    busq_claim_look look;
    busq_key end;
    const node_state state = node_look(peer->bus, name, &end, &look);
    const bool is_over = state == NODE_ENDED || state == NODE_OTHER; /* anybody may hand on what is dead */
    if (!is_over && !is_held(peer, name) &&
        !(is_own(peer, name) && node_owner(node_at(peer->bus, name), name.generation) == peer->incarnation))
      return busq_error(BUSQ_INVALID, "handle %u of a message is of a node that \"%.255s\" neither owns nor holds a handle of", i,
                        peer->self->name);
  }
  return BUSQ_OK;
}

/* ---- the list of receivers ---- */

static bool target_add(busq_peer *peer, uint64_t target, uint32_t *n_targetsp)
{
  busq_node_memory *memory = peer->nodes;
  for (uint32_t i = 0; i < *n_targetsp; i++)
    if (memory->targets[i] == target)
      return false;
  memory->targets[(*n_targetsp)++] = target;
  return true;
}

/* Names first, each once, as everywhere; then the owners of nodes that are not over. */
static int targets_find(busq_peer *peer, node_sending *sending, uint32_t *n_targetsp)
{
  const busq_letter *letter = sending->letter;
  const uint32_t peers = peer->bus->geometry.peers;
  if (letter->n_targets > peers)
    return busq_error(BUSQ_INVALID, "%u receivers: expected at most %u, each of them once", letter->n_targets, peers);
  for (uint32_t i = 0; i < letter->n_targets; i++)
    peer->nodes->targets[i] = letter->targets[i];
  *n_targetsp = letter->n_targets;
  for (uint32_t i = 0; i < letter->n_nodes; i++) {
    const busq_node_name name = letter_node(letter, i);
    busq_claim_look look;
    busq_key end;
    busq_node *node = node_at(peer->bus, name);
    const node_state state = node_look(peer->bus, name, &end, &look);
    const uint32_t owner = node ? node_owner(node, name.generation) : 0;
    if (!node)
      return busq_error(BUSQ_INVALID, "receiver %u is node %u of slot %u: bus \"%s\" has %u slots with %u nodes each", i, name.index,
                        name.slot, peer->bus->name, peers, peer->bus->geometry.nodes);
    if (!sending->missed[i] && (state == NODE_ENDED || state == NODE_OTHER || !owner)) {
      sending->missed[i] = 1;
      sending->n_missed++;
    }
    if (!sending->missed[i])
      (void)target_add(peer, (uint64_t)owner << 16 | name.slot, n_targetsp);
    if (*n_targetsp > peers)
      return busq_error(BUSQ_INVALID, "a message to more than the %u peers of bus \"%s\"", peers, peer->bus->name);
  }
  return BUSQ_OK;
}

/* Of a queue with several readers, each would have to know what the others hold. */
static int targets_check(const busq_peer *peer, uint32_t n_targets)
{
  for (uint32_t i = 0; i < n_targets; i++) {
    const uint32_t slot = busq_target_slot(peer->nodes->targets[i]);
    if (slot < peer->bus->geometry.peers && (busq_load_acquire(&peer->bus->slots[slot].life) & BUSQ_LIFE_SHARED))
      return busq_error(BUSQ_INVALID, "\"%.255s\" is a queue that several processes read: it takes no message that carries handles, or that goes to nodes as well; send it one of its own",
                        peer->bus->slots[slot].name);
  }
  return BUSQ_OK;
}

/* The owner of some of its nodes is gone: those are missed.  False where it is a receiver by name as well. */
static bool owner_is_missed(busq_peer *peer, node_sending *sending)
{
  const busq_letter *letter = sending->letter;
  bool is_any = false;
  if (peer->failed_target == BUSQ_NO_TARGET)
    return false;
  for (uint32_t i = 0; i < letter->n_targets; i++)
    if (letter->targets[i] == peer->failed_target)
      return false;
  for (uint32_t i = 0; i < letter->n_nodes; i++)
    if (!sending->missed[i] && letter_node(letter, i).slot == busq_target_slot(peer->failed_target)) {
      is_any = true;
      sending->missed[i] = 1;
      sending->n_missed++;
    }
  return is_any;
}

/* ---- the envelope ---- */

static bool is_named(const busq_letter *letter, uint32_t slot)
{
  for (uint32_t i = 0; i < letter->n_targets; i++)
    if (busq_target_slot(letter->targets[i]) == slot)
      return true;
  return false;
}

static uint64_t tail_bytes_max(const busq_letter *letter)
{
  return (2 * (uint64_t)letter->n_nodes + letter->n_handles) * sizeof(busq_node_name) + sizeof(busq_envelope);
}

/* A node that is missed already is not mentioned, and one whose owner is named stands with that name. */
static uint64_t tail_write(const node_sending *sending, char *to)
{
  const busq_letter *letter = sending->letter;
  busq_envelope envelope = {.kind = BUSQ_KIND_DATA, .n_handles = (uint16_t)letter->n_handles};
  char *at = to;
  for (uint32_t i = 0; i < letter->n_nodes; i++) {
    const busq_node_name names[] = {letter_node(letter, i), {letter_node(letter, i).slot, BUSQ_NODE_BY_NAME, 0}};
    const uint32_t n_names = sending->missed[i] ? 0 : is_named(letter, names[0].slot) ? 2 : 1;
    memcpy(at, names, n_names * sizeof *names);
    at += n_names * sizeof *names;
    envelope.n_nodes = (uint16_t)(envelope.n_nodes + n_names);
  }
  for (uint32_t i = 0; i < letter->n_handles; i++, at += sizeof(busq_node_name)) {
    const busq_node_name name = busq_node_unpack(letter->handles[i]);
    memcpy(at, &name, sizeof name);
  }
  memcpy(at, &envelope, sizeof envelope);
  return (uint64_t)(at - to) + sizeof envelope;
}

static int letter_send(busq_peer *peer, node_sending *sending, const busq_payload *payload, char *tail, busq_part *parts)
{
  uint32_t n_targets = 0;
  int result = targets_find(peer, sending, &n_targets);
  if (!result)
    result = targets_check(peer, n_targets);
  if (result)
    return result;
  if (!n_targets)
    return busq_error(BUSQ_PEER_DEAD, "the node was destroyed, or its owner has left bus \"%s\" or died; nobody got the message",
                      peer->bus->name);
  busq_payload whole = *payload;
  memcpy(parts, payload->parts, payload->n_parts * sizeof *parts);
  parts[payload->n_parts] = (busq_part){tail, tail_write(sending, tail)};
  whole.parts = parts;
  whole.n_parts++;
  whole.form |= BUSQ_FORM_ENVELOPE;
  whole.size_bytes += parts[payload->n_parts].size_bytes;
  whole.companion = &sending->companion;
  return busq_multicast_try(peer, peer->nodes->targets, n_targets, &whole);
}

/* Space for what stands behind the payload, and for the list of parts. */
static int letter_room(busq_peer *peer, const busq_letter *letter, uint32_t n_parts, char **tailp, busq_part **partsp)
{
  busq_node_memory *memory = peer->nodes;
  const uint64_t tail_bytes = BUSQ_ALIGN_UP(tail_bytes_max(letter), 16u), bytes = tail_bytes + ((uint64_t)n_parts + 1) * sizeof(busq_part);
  if (bytes > memory->scratch_bytes) {
    void *larger = realloc(memory->scratch, bytes);
    if (!larger)
      return memory_missing(peer);
    memory->scratch = larger;
    memory->scratch_bytes = bytes;
  }
  *tailp = memory->scratch;
  *partsp = (busq_part *)(void *)((char *)memory->scratch + tail_bytes);
  return BUSQ_OK;
}

/* Most of what is sent to nodes goes to one, and brings no handle. */
static int node_send_one(busq_peer *peer, const busq_letter *letter, const busq_payload *payload, uint8_t *missed)
{
  const busq_node_name name = letter_node(letter, 0);
  busq_node *node = node_at(peer->bus, name);
  const uint32_t owner = node_owner(node, name.generation);
  const uint64_t target = (uint64_t)owner << 16 | name.slot;
  node_sending sending = {.companion = {.end = sending_end}, .letter = letter, .missed = missed};
  struct {
    busq_node_name name;
    busq_envelope envelope;
  } tail = {name, {.kind = BUSQ_KIND_DATA, .n_nodes = 1}};
  const busq_part parts[] = {payload->parts[0], {&tail, sizeof tail}};
  const busq_payload whole = {.parts = parts,
                              .n_parts = 2,
                              .form = payload->form | BUSQ_FORM_ENVELOPE,
                              .size_bytes = payload->size_bytes + sizeof tail,
                              .companion = &sending.companion};
  missed[0] = 0;
  const int result = busq_multicast_try(peer, &target, 1, &whole);
  if (BUSQ_UNLIKELY(result == BUSQ_PEER_DEAD))
    missed[0] = 1;
  return result == BUSQ_OK && sending.n_missed ? BUSQ_NODE_MISSED : result;
}

static bool letter_is_to_one(const busq_peer *peer, const busq_letter *letter, const busq_payload *payload)
{
  if (letter->n_nodes != 1 || letter->n_targets || letter->n_handles || payload->n_parts != 1 || payload->draft)
    return false;
  const busq_node_name name = letter_node(letter, 0);
  busq_node *node = node_at(peer->bus, name);
  return node && node_is_idle(node, name.generation) && node_owner(node, name.generation);
}

int busq_node_send(busq_peer *peer, const busq_letter *letter, const busq_payload *payload, uint8_t *missed)
{
  if (BUSQ_LIKELY(letter_is_to_one(peer, letter, payload)))
    return node_send_one(peer, letter, payload, missed);

  node_sending sending = {
      .companion = {.begin = letter->n_handles ? sending_begin : NULL,
                    .undone = letter->n_handles ? sending_undone : NULL,
                    .end = sending_end},
      .letter = letter,
      .missed = missed,
  };
  char *tail = NULL;
  busq_part *parts = NULL;
  int result = busq_node_remember(peer);
  memset(missed, 0, letter->n_nodes);
  if (!result && letter->n_nodes > BUSQ_NODE_RECEIVERS_MAX)
    result = busq_error(BUSQ_INVALID, "a message to %u nodes: expected at most %u", letter->n_nodes, BUSQ_NODE_RECEIVERS_MAX);
  if (!result)
    result = handles_check(peer, letter);
  if (!result)
    result = letter_room(peer, letter, payload->n_parts, &tail, &parts);
  if (result)
    return result;
  do
    result = letter_send(peer, &sending, payload, tail, parts);
  while (result == BUSQ_PEER_DEAD && owner_is_missed(peer, &sending));
  return result == BUSQ_OK && sending.n_missed ? BUSQ_NODE_MISSED : result;
}

/* ---- looking after nodes and handles ---- */

/* What a dead sender had in its hand is settled, so that what we send comes behind all that it has sent. */
static void hand_settle(busq_bus *bus, uint32_t slot)
{
  const busq_slot *self = &bus->slots[slot];
  const uint64_t in_hand = busq_load_acquire(&self->in_hand);
  if ((uint32_t)(in_hand >> 32) == (uint32_t)busq_load_acquire(&self->sent))
    return;
  busq_record *record = busq_arena_record(bus, slot, (uint32_t)in_hand);
  if (record)
    busq_commit_finish(bus, record);
}

static bool may_be_granting(const busq_bus *bus, busq_node_name name)
{
  const uint64_t bit = granting_bit(bus, name);
  for (uint32_t slot = 0; slot < bus->geometry.peers; slot++)
    if ((busq_load_acquire(&bus->slots[slot].granting) & bit) && life_is_there(bus, slot, incarnation_of(bus, slot)))
      return true;
  return false;
}

/* Is what stands in the word true: is the handle, perhaps, on its way to the peer?  See node.h. */
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

/* False where nobody has the handle by this word, or may get it. */
static bool holder_look(busq_peer *peer, busq_node *node, busq_node_name name, uint32_t slot)
{
  const uint64_t word = busq_load_acquire(&node->holder[slot]);
  uint64_t state = word & WORD_STATE;
  if (!word_is_of(word, name.generation) || !(state & (BUSQ_NODE_HELD | BUSQ_NODE_GRANTED)))
    return false;
  if (!life_is_there(peer->bus, slot, word_life(word))) {
    hand_settle(peer->bus, slot);
    state &= BUSQ_NODE_TOLD;
  } else if ((state & BUSQ_NODE_GRANTED) && grant_is_over(peer, name, slot, word)) {
    state &= BUSQ_NODE_HELD | BUSQ_NODE_TOLD;
  }
  if (state == (word & WORD_STATE))
    return true;
  BUSQ_STEP("clear");
  return !busq_cas64(&node->holder[slot], word, word_next(word, word & ~(WORD_CHANGES | WORD_STATE), state)) ||
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
  return busq_multicast_try(peer, &self, 1, &payload);
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
  if ((uint32_t)owner != peer->incarnation) /* of one who had the slot before us, and is gone */
    return busq_node_end(peer, name);
  const uint64_t holds = busq_load_acquire(&node->holds);
  busq_fence_full();
  for (uint32_t slot = 0; slot < bus->geometry.peers; slot++)
    is_held_by_any |= holder_look(peer, node, name, slot);
  if (is_held_by_any || holds <= busq_load_relaxed(&node->told) || holds == peer->nodes->telling[index])
    return BUSQ_OK;
  const int result = release_tell(peer, name, holds);
  if (result == BUSQ_OK)
    peer->nodes->telling[index] = holds;
  return result;
}

/* The nodes of those who are gone, of which we hold a handle. */
static int held_tend(busq_peer *peer)
{
  const busq_bus *bus = peer->bus;
  int result = BUSQ_OK;
  for (uint32_t slot = 0; slot < bus->geometry.peers; slot++) {
    bool is_there = false, has_looked = false;
    for (uint32_t index = 0; index < bus->geometry.nodes; index++) {
      busq_node_name name = {(uint16_t)slot, (uint16_t)index, 0};
      name.generation = (uint32_t)(__atomic_load_n(held_entry(peer, name), __ATOMIC_ACQUIRE) >> 32);
      const uint32_t owner = name.generation && is_held(peer, name) ? node_owner(busq_bus_node(bus, slot, index), name.generation) : 0;
      if (!owner)
        continue;
      if (!has_looked)
        is_there = life_is_there(bus, slot, owner);
      has_looked = true;
      if (is_there)
        break;
      hand_settle(peer->bus, slot);
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
  busq_fence_full(); /* whoever lets go after this says so again */
  for (uint32_t index = 0; index < peer->bus->geometry.nodes; index++) {
    const int tended = owned_tend(peer, index);
    result = result ? result : tended;
  }
  const int held = held_tend(peer);
  return result ? result : held;
}

/* ---- coming and going ---- */

/* What a predecessor held, and has not been told the end of, is ours; our nodes are what stands in the table. */
static bool entry_adopt(busq_peer *peer, busq_node_name name)
{
  busq_node *node = node_at(peer->bus, name);
  busq_claim_look look;
  busq_key end;
  name.generation = (uint32_t)busq_claim_number(busq_claim_load(&node->claim));
  const node_state state = node_look(peer->bus, name, &end, &look);
  const uint32_t bits = word_bits(busq_load_acquire(&node->holder[peer->slot]), name.generation, peer->incarnation);
  if (state == NODE_OTHER)
    return true;
  if (is_own(peer, name) && state == NODE_ENDED)
    busq_ring_raise(&peer->ring, end.timestamp); /* what is sent to it from now on comes behind its end */
  if (is_own(peer, name))
    return state == NODE_ENDED || busq_node_remember(peer) == BUSQ_OK;
  if (!(bits & BUSQ_NODE_HELD) || (state == NODE_ENDED && !(bits & BUSQ_NODE_TOLD)))
    return true;
  if (busq_node_remember(peer) != BUSQ_OK)
    return false;
  (void)held_more(held_entry(peer, name), name.generation);
  return true;
}

int busq_node_adopt(busq_peer *peer)
{
  const busq_bus *bus = peer->bus;
  busq_store_relaxed(&peer->self->granting, 0);
  for (uint32_t slot = 0; slot < bus->geometry.peers; slot++)
    for (uint32_t index = 0; index < bus->geometry.nodes; index++)
      if (!entry_adopt(peer, (busq_node_name){(uint16_t)slot, (uint16_t)index, 0}))
        return memory_missing(peer);
  if (peer->nodes)
    (void)busq_node_tend(peer);
  return BUSQ_OK;
}

/* With both latches, of one who leaves: what can't be ended at once is, by those who hold it. */
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
      (void)busq_node_end(peer, (busq_node_name){(uint16_t)peer->slot, (uint16_t)index, (uint32_t)busq_claim_number(claim)});
  }
  for (uint32_t slot = 0; slot < bus->geometry.peers; slot++)
    for (uint32_t index = 0; index < bus->geometry.nodes; index++) {
      busq_node_name name = {(uint16_t)slot, (uint16_t)index, 0};
      const uint64_t held = __atomic_exchange_n(held_entry(peer, name), 0, __ATOMIC_ACQ_REL);
      name.generation = (uint32_t)(held >> 32);
      if (!(uint32_t)held)
        continue;
      hold_end(peer, name);
      owner_poke(peer->bus, slot);
    }
}

/* ---- for whoever asks ---- */

bool busq_node_is_held(const busq_peer *peer, busq_node_name name)
{
  return is_held(peer, name);
}

uint32_t busq_node_owner(const busq_bus *bus, busq_node_name name)
{
  busq_node *node = node_at(bus, name);
  return node ? node_owner(node, name.generation) : 0;
}

bool busq_node_next(busq_peer *peer, uint64_t *fromp, busq_node_name *namep, bool *is_ownp)
{
  const uint32_t nodes = peer->bus->geometry.nodes;
  for (; peer->nodes && *fromp < table_entries(peer->bus); ++*fromp) {
    busq_node_name name = {(uint16_t)(*fromp / nodes), (uint16_t)(*fromp % nodes), 0};
    busq_node *node = node_at(peer->bus, name);
    *is_ownp = is_own(peer, name);
    name.generation = *is_ownp ? (uint32_t)busq_claim_number(busq_claim_load(&node->claim))
                               : (uint32_t)(__atomic_load_n(held_entry(peer, name), __ATOMIC_ACQUIRE) >> 32);
    const bool is_ours = *is_ownp ? node_owner(node, name.generation) == peer->incarnation && busq_node_is_alive(peer, name) : is_held(peer, name);
    if (!name.generation || !is_ours)
      continue;
    *namep = name;
    ++*fromp;
    return true;
  }
  return false;
}

bool busq_node_is_alive(busq_peer *peer, busq_node_name name)
{
  busq_claim_look look;
  busq_key end;
  const node_state state = node_look(peer->bus, name, &end, &look);
  return state == NODE_ALIVE || state == NODE_ENDING;
}
