/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/node/node_table.h"
#include "base/error.h"
#include "shm/burial/grave.h"
#include "shm/message/reference.h"
#include "shm/wake/wake.h"
#include <stdlib.h>

/* ---- the words ---- */

static uint64_t state_granted(uint64_t state)
{
  return ((state & BUSQ_NODE_WORD_GRANTS) == BUSQ_NODE_WORD_GRANTS ? state : state + BUSQ_NODE_WORD_GRANT) |
         BUSQ_NODE_GRANTED;
}

/* Where they are as many as can be counted, or more, only the owner knows when they are over. */
static uint64_t state_arrived(uint64_t state)
{
  if (!(state & BUSQ_NODE_WORD_GRANTS) || (state & BUSQ_NODE_WORD_GRANTS) == BUSQ_NODE_WORD_GRANTS)
    return state;
  state -= BUSQ_NODE_WORD_GRANT;
  return state & BUSQ_NODE_WORD_GRANTS ? state : state & ~(uint64_t)BUSQ_NODE_GRANTED;
}

static uint64_t state_after(uint64_t state, busq_node_event event)
{
  switch (event) {
  case BUSQ_NODE_EVENT_GRANTED:
    return state_granted(state);
  case BUSQ_NODE_EVENT_ARRIVED:
    return state_arrived(state) | BUSQ_NODE_HELD;
  case BUSQ_NODE_EVENT_ACKED:
    return state_arrived(state);
  case BUSQ_NODE_EVENT_HELD_ANEW:
    return state | BUSQ_NODE_HELD;
  case BUSQ_NODE_EVENT_NOT_NOTIFIED:
    return state & ~(uint64_t)BUSQ_NODE_NOTIFIED;
  }
  return state;
}

/* Swaps in what becomes of it, and counts a change even where that is nothing.  False where the entry is another node's
 * by now, or the slot another peer's.  *beforep is what stood there. */
bool busq_node_word_change(const busq_bus *bus, busq_node *node, uint32_t slot, uint32_t generation,
                           uint32_t incarnation, busq_node_event event, uint64_t *beforep)
{
  uint64_t *const word = &node->holder[slot];
  for (;;) {
    const uint64_t seen = busq_load_acquire(word);
    if (!busq_node_word_is_of(seen, generation) ||
        (uint32_t)(busq_load_acquire(&bus->slots[slot].life) >> 32) != incarnation)
      return false;
    const uint64_t state = state_after(busq_node_word_state(seen, generation, incarnation), event);
    BUSQ_STEP("holder");
    if (busq_cas64(word, seen, busq_node_word_next(seen, busq_node_word_about(generation, incarnation), state))) {
      *beforep = seen;
      return true;
    }
  }
}

/* Is there a peer, or may one come back, that takes what stands in the queue of that life?  The kernel is asked. */
bool busq_node_life_is_there(const busq_bus *bus, uint32_t slot, uint32_t life_bits)
{
  const uint64_t life = busq_load_acquire(&bus->slots[slot].life);
  const uint32_t state = (uint32_t)life & BUSQ_LIFE_MASK;
  const bool is_its = !(((uint32_t)(life >> 32) ^ life_bits) & BUSQ_NODE_WORD_LIFE_MASK);
  if (!is_its || (life & BUSQ_LIFE_DROPPED) || state == BUSQ_LIFE_FREE)
    return false;
  return (life & BUSQ_LIFE_DURABLE) || (state == BUSQ_LIFE_LIVE && busq_life_is_held(bus, slot));
}

/* ---- the end of a node ---- */

/* Sets NOTIFIED for the receivers of the end: those with HELD or GRANTED in their word, and the owner.  A list that was
 * read from another's record counts only while it is that message; and a word that was read before the claim was seen
 * still standing can't be one whose peer has taken the notice since. */
static void told_install(const busq_bus *bus, busq_node *node, uint32_t owner_slot, const busq_claim_look *look,
                         uint32_t slot)
{
  const uint32_t generation = (uint32_t)busq_claim_number(look->word);
  const uint64_t seen = busq_load_acquire(&node->holder[slot]);
  const bool is_owner = slot == owner_slot;
  if (!busq_node_word_is_of(seen, generation) || (!is_owner && !(seen & (BUSQ_NODE_HELD | BUSQ_NODE_GRANTED))) ||
      (seen & BUSQ_NODE_NOTIFIED))
    return;
  const busq_pair word = busq_claim_load(&node->claim);
  if (word.lo != look->word.lo || word.hi != look->word.hi)
    return;
  const uint64_t about = is_owner ? busq_node_word_about(generation, busq_node_owner_of(node, generation))
                                  : seen & ~(BUSQ_NODE_WORD_CHANGES | BUSQ_NODE_WORD_STATE);
  BUSQ_STEP("told");
  if (!busq_cas64(&node->holder[slot], seen,
                  busq_node_word_next(seen, about, (seen & BUSQ_NODE_WORD_STATE) | BUSQ_NODE_NOTIFIED)))
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
      return; /* then another process has installed it */
    if (slot < busq_slots_reached(bus))
      told_install(bus, node, owner_slot, look, slot);
  }
  busq_place_install(&node->end, number, look->key);
  (void)busq_claim_move(&node->claim, look->word, number, BUSQ_CLAIM_OVER);
}

/* The state of a node; an end that is decided is installed first.  The turns are for damage. */
busq_node_state busq_node_look_closely(busq_bus *bus, busq_node *node, busq_node_name name, busq_key *endp,
                                       busq_claim_look *look)
{
  enum { TURNS = 64 };
  for (int turn = 0; node && turn < TURNS; turn++) {
    *look = busq_claim_examine(bus, &node->claim);
    if ((uint32_t)busq_claim_number(look->word) != name.generation || !name.generation)
      return BUSQ_NODE_OTHER;
    if (busq_claim_state(look->word) == BUSQ_CLAIM_OVER) {
      if (busq_place_read(&node->end, busq_claim_number(look->word), endp) == BUSQ_PLACE_THERE)
        return BUSQ_NODE_ENDED;
    } else if (look->phase == BUSQ_CLAIM_NOTHING) {
      return BUSQ_NODE_ALIVE;
    } else if (look->phase == BUSQ_CLAIM_OPEN) {
      return BUSQ_NODE_ENDING;
    } else if (look->phase == BUSQ_CLAIM_SEALED) {
      busq_claim_complete(bus, look);
    } else if (look->phase == BUSQ_CLAIM_DECIDED) {
      node_install(bus, node, name.slot, look);
    } else {
      (void)busq_claim_move(&node->claim, look->word, busq_claim_number(look->word), BUSQ_CLAIM_IDLE);
    }
  }
  return BUSQ_NODE_OTHER;
}

/* Is the slot a receiver of the message that claims the node?  Read from its record, which is not sealed. */
static bool claim_tells(const busq_claim_look *look, uint32_t slot)
{
  const uint32_t destinations = busq_record_destinations(look->record);
  const bool is_there = destinations <= BUSQ_LAYOUT_PEERS_MAX &&
                        busq_record_mark_of(look->record, destinations, slot) != BUSQ_NO_MARK;
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

busq_node_state busq_node_settle(busq_bus *bus, busq_node_name name, busq_node_settling how, const uint16_t *slots,
                                 uint32_t n_slots, busq_key *endp)
{
  uint64_t spent = 0;
  for (;;) {
    busq_claim_look look;
    busq_node *node = busq_node_at(bus, name);
    const busq_node_state state = busq_node_look(bus, name, endp, &look);
    if (state != BUSQ_NODE_ENDING || claim_tells_all(&look, slots, n_slots))
      return state == BUSQ_NODE_ENDING ? BUSQ_NODE_ALIVE : state;
    if (busq_claim_wait(&node->claim, &look, &spent))
      continue;
    /* Put off, it comes later than all that was sent up to now; one that can't be put off any more is broken. */
    if (how == BUSQ_NODE_PUT_OFF && busq_claim_put_off(&look))
      return BUSQ_NODE_ALIVE;
    if (how == BUSQ_NODE_BREAK || busq_tag_attempt(look.tag) >= BUSQ_ATTEMPT_MAX - 1)
      (void)busq_claim_break(&node->claim, &look);
  }
}

/* ---- what a peer keeps for itself ---- */

int busq_node_memory_missing(const busq_peer *peer)
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
  const uint64_t entries = busq_node_entries(bus);
  if (memory) {
    memory->held = calloc(entries, sizeof *memory->held);
    memory->grants = calloc(entries, sizeof *memory->grants);
    memory->telling = calloc(bus->geometry.nodes, sizeof *memory->telling);
    memory->targets = calloc(2 * bus->geometry.peers + 1, sizeof *memory->targets);
    memory->list = calloc(bus->geometry.peers + 1, sizeof *memory->list);
  }
  busq_node_memory *nobody = NULL;
  if (!memory || !memory->held || !memory->grants || !memory->telling || !memory->targets || !memory->list ||
      !__atomic_compare_exchange_n(&peer->nodes, &nobody, memory, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    busq_node_forget(&memory);
  if (__atomic_load_n(&peer->nodes, __ATOMIC_ACQUIRE))
    busq_peer_care(peer, BUSQ_CARES_FOR_NODES);
  return __atomic_load_n(&peer->nodes, __ATOMIC_ACQUIRE) ? BUSQ_OK : busq_node_memory_missing(peer);
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

/* One object more keeps it: how many now. */
uint32_t busq_node_held_more(uint64_t *held, uint32_t generation)
{
  uint64_t seen = __atomic_load_n(held, __ATOMIC_ACQUIRE), next;
  do
    next = seen >> 32 == generation ? seen + 1 : (uint64_t)generation << 32 | 1;
  while (!__atomic_compare_exchange_n(held, &seen, next, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
  return (uint32_t)next;
}

/* One less; false where none was left, or they were another node's. */
bool busq_node_held_less(uint64_t *held, uint32_t generation, uint32_t *leftp)
{
  uint64_t seen = __atomic_load_n(held, __ATOMIC_ACQUIRE);
  do
    if (seen >> 32 != generation || !(uint32_t)seen)
      return false;
  while (!__atomic_compare_exchange_n(held, &seen, seen - 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
  *leftp = (uint32_t)seen - 1;
  return true;
}

bool busq_node_is_held(const busq_peer *peer, busq_node_name name)
{
  if (!peer->nodes || !busq_node_at(peer->bus, name))
    return false;
  const uint64_t held = __atomic_load_n(busq_node_held(peer, name), __ATOMIC_ACQUIRE);
  return held >> 32 == name.generation && (uint32_t)held;
}

/* The thread that takes the last one off clears the word for all.  Another thread may just take the handle in anew: it
 * counts first, and changes the word afterwards, so either we see its count, or our swap fails. */
void busq_node_hold_end(busq_peer *peer, busq_node_name name)
{
  busq_node *node = busq_node_at(peer->bus, name);
  for (;;) {
    const uint64_t seen = busq_load_acquire(&node->holder[peer->slot]);
    if (busq_node_is_held(peer, name) ||
        !(busq_node_word_bits(seen, name.generation, peer->incarnation) & BUSQ_NODE_HELD))
      return;
    const uint64_t state = (seen & BUSQ_NODE_WORD_STATE) & ~(uint64_t)BUSQ_NODE_HELD;
    BUSQ_STEP("let go");
    if (busq_cas64(&node->holder[peer->slot], seen,
                   busq_node_word_next(seen, busq_node_word_about(name.generation, peer->incarnation), state)))
      return;
  }
}

void busq_node_poke(busq_bus *bus, uint32_t slot)
{
  busq_store_release(&bus->slots[slot].unheld, 1);
  busq_fence_full();
  busq_wake_readers_of(bus, slot);
}

void busq_node_release(busq_peer *peer, busq_node_name name)
{
  uint32_t left;
  if (!peer->nodes || !busq_node_at(peer->bus, name) || busq_node_is_own(peer, name))
    return;
  if (!busq_node_held_less(busq_node_held(peer, name), name.generation, &left) || left)
    return;
  if (busq_load_relaxed(&peer->is_closed))
    return; /* the slot may be another peer's; the owner sees that we have left */
  busq_node_hold_end(peer, name);
  busq_node_poke(peer->bus, name.slot);
}

/* ---- the handles of a message ---- */

uint64_t busq_message_node(const busq_message *message, uint32_t at)
{
  busq_node_name name;
  memcpy(&name, (const char *)message->data + message->size_bytes + at * sizeof name, sizeof name);
  return busq_node_pack(name);
}

void busq_node_release_handles(busq_peer *peer, const busq_message *message)
{
  if (!(message->form & BUSQ_FORM_ENVELOPE))
    return;
  for (uint32_t i = 0; i < message->n_handles; i++)
    if (message->handles_alive >> i & 1)
      busq_node_release(peer, busq_node_unpack(busq_message_node(message, message->n_nodes + i)));
}

static void handle_change(busq_peer *peer, busq_node_name name, busq_node_event event)
{
  uint64_t before;
  (void)busq_node_word_change(peer->bus, busq_node_at(peer->bus, name), peer->slot, name.generation, peer->incarnation,
                              event, &before);
}

/* Granted once more, each that the taking has counted as arrived: also one that came dead, or was let go of since. */
void busq_node_return_handles(busq_peer *peer, uint32_t mode, const busq_message *message)
{
  busq_node_name handles[BUSQ_NODE_HANDLES_MAX];
  const bool is_granted = mode == BUSQ_TAKE_OFFERED || busq_load_relaxed(&peer->is_closed);
  const uint32_t n_handles = is_granted ? 0 : busq_node_handles_of(peer, message, handles);
  for (uint32_t i = 0; i < n_handles; i++)
    handle_change(peer, handles[i], BUSQ_NODE_EVENT_GRANTED);
  busq_node_release_handles(peer, message);
}

uint32_t busq_node_handles_of(const busq_peer *peer, const busq_message *message, busq_node_name *handles)
{
  uint32_t n_handles = 0;
  if (!(message->form & BUSQ_FORM_ENVELOPE))
    return 0;
  for (uint32_t i = 0; i < message->n_handles && i < BUSQ_NODE_HANDLES_MAX; i++) {
    const busq_node_name name = busq_node_unpack(busq_message_node(message, message->n_nodes + i));
    if (busq_node_at(peer->bus, name) && name.slot < busq_slots_reached(peer->bus) && !busq_node_is_own(peer, name))
      handles[n_handles++] = name;
  }
  return n_handles;
}

/* A handle that may have been counted as arrived before, by a predecessor, is not counted again: its owner finds out once the
 * head has passed it. */
void busq_node_acked(busq_peer *peer, const busq_message *message, const busq_node_name *handles, uint32_t n_handles)
{
  const bool may_have_come = message->is_redelivered || message->position < peer->receiver.inherited;
  for (uint32_t i = 0; i < n_handles; i++) {
    if (!may_have_come)
      handle_change(peer, handles[i], BUSQ_NODE_EVENT_ACKED);
    if (!busq_node_is_held(peer, handles[i]))
      busq_node_poke(peer->bus, handles[i].slot);
  }
}

/* ---- for any process ---- */

uint32_t busq_node_owner(const busq_bus *bus, busq_node_name name)
{
  busq_node *node = busq_node_at(bus, name);
  return node ? busq_node_owner_of(node, name.generation) : 0;
}

bool busq_node_next(busq_peer *peer, uint64_t *fromp, busq_node_name *namep, bool *is_ownp)
{
  const uint32_t nodes = peer->bus->geometry.nodes;
  for (; peer->nodes && *fromp < busq_node_entries(peer->bus); ++*fromp) {
    busq_node_name name = {(uint16_t)(*fromp / nodes), (uint16_t)(*fromp % nodes), 0};
    busq_node *node = busq_node_at(peer->bus, name);
    *is_ownp = busq_node_is_own(peer, name);
    name.generation = *is_ownp ? (uint32_t)busq_claim_number(busq_claim_load(&node->claim))
                               : (uint32_t)(__atomic_load_n(busq_node_held(peer, name), __ATOMIC_ACQUIRE) >> 32);
    const bool is_ours =
        *is_ownp ? busq_node_owner_of(node, name.generation) == peer->incarnation && busq_node_is_alive(peer, name)
                 : busq_node_is_held(peer, name);
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
  const busq_node_state state = busq_node_look(peer->bus, name, &end, &look);
  return state == BUSQ_NODE_ALIVE || state == BUSQ_NODE_ENDING;
}

bool busq_node_is_over(busq_peer *peer, busq_node_name name)
{
  busq_claim_look look;
  busq_key end;
  const busq_node_state state = busq_node_look(peer->bus, name, &end, &look);
  if (state != BUSQ_NODE_ENDED)
    return state == BUSQ_NODE_OTHER;
  const uint64_t word = busq_load_acquire(&busq_node_at(peer->bus, name)->holder[peer->slot]);
  return !(busq_node_word_bits(word, name.generation, peer->incarnation) & BUSQ_NODE_NOTIFIED);
}
