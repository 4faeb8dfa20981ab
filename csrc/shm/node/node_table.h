/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_NODE_NODE_TABLE_H
#define BUSQ_SHM_NODE_NODE_TABLE_H
/*
 * What the files of nodes have in common (node.h): the entries of the table, and what a peer keeps of each for itself.
 */
#include "shm/message/claim.h"
#include "shm/node/node.h"

/* ---- a peer's word: generation (16) | life (20) | count of changes (17) | grants (8) | bits (3) ---- */

#define BUSQ_NODE_WORD_BITS UINT64_C(7)
#define BUSQ_NODE_WORD_GRANT UINT64_C(8)
#define BUSQ_NODE_WORD_GRANTS (UINT64_C(0xff) * BUSQ_NODE_WORD_GRANT) /* full: so many, or more */
#define BUSQ_NODE_WORD_STATE (BUSQ_NODE_WORD_BITS | BUSQ_NODE_WORD_GRANTS)
#define BUSQ_NODE_WORD_CHANGE (UINT64_C(1) << 11)
#define BUSQ_NODE_WORD_CHANGES ((UINT64_C(1) << 28) - BUSQ_NODE_WORD_CHANGE)
#define BUSQ_NODE_WORD_LIFE_SHIFT 28
#define BUSQ_NODE_WORD_LIFE_MASK UINT32_C(0xfffff)
#define BUSQ_NODE_WORD_GENERATION_SHIFT 48

static inline uint64_t busq_node_word_about(uint32_t generation, uint32_t incarnation)
{
  return (uint64_t)(generation & 0xffff) << BUSQ_NODE_WORD_GENERATION_SHIFT |
         (uint64_t)(incarnation & BUSQ_NODE_WORD_LIFE_MASK) << BUSQ_NODE_WORD_LIFE_SHIFT;
}

static inline bool busq_node_word_is_of(uint64_t word, uint32_t generation)
{
  return word >> BUSQ_NODE_WORD_GENERATION_SHIFT == (generation & 0xffff);
}

static inline uint32_t busq_node_word_life(uint64_t word)
{
  return (uint32_t)(word >> BUSQ_NODE_WORD_LIFE_SHIFT) & BUSQ_NODE_WORD_LIFE_MASK;
}

static inline uint32_t busq_node_word_bits(uint64_t word, uint32_t generation, uint32_t incarnation)
{
  const bool is_its = busq_node_word_is_of(word, generation) &&
                      busq_node_word_life(word) == (incarnation & BUSQ_NODE_WORD_LIFE_MASK);
  return is_its ? (uint32_t)(word & BUSQ_NODE_WORD_BITS) : 0;
}

/* `state`: the bits, and the grants, which are some where the bit for them is set. */
static inline uint64_t busq_node_word_next(uint64_t word, uint64_t about, uint64_t state)
{
  BUSQ_ASSERT(!(state & BUSQ_NODE_WORD_GRANTS) == !(state & BUSQ_NODE_GRANTED));
  return about | ((word + BUSQ_NODE_WORD_CHANGE) & BUSQ_NODE_WORD_CHANGES) | state;
}

static inline uint64_t busq_node_word_state(uint64_t word, uint32_t generation, uint32_t incarnation)
{
  return busq_node_word_bits(word, generation, incarnation) ? word & BUSQ_NODE_WORD_STATE : 0;
}

/* The changes of such a word. */
typedef enum {
  BUSQ_NODE_EVENT_GRANTED,
  BUSQ_NODE_EVENT_HELD_ANEW,
  BUSQ_NODE_EVENT_ARRIVED, /* and is held */
  BUSQ_NODE_EVENT_ACKED,
  BUSQ_NODE_EVENT_NOT_NOTIFIED
} busq_node_event;

/* Swaps in what becomes of it, and counts a change even where that is nothing.  False where the entry is another node's
 * by now, or the slot another peer's.  *beforep is what stood there. */
bool busq_node_word_change(const busq_bus *bus, busq_node *node, uint32_t slot, uint32_t generation,
                           uint32_t incarnation, busq_node_event event, uint64_t *beforep);

/* ---- entries ---- */

static inline busq_node *busq_node_at(const busq_bus *bus, busq_node_name name)
{
  return name.slot < bus->geometry.peers && name.index < bus->geometry.nodes ? busq_bus_node(bus, name.slot, name.index)
                                                                             : NULL;
}

/* The owner's life; 0 where the entry is another node's by now. */
static inline uint32_t busq_node_owner_of(busq_node *node, uint32_t generation)
{
  const uint64_t owner = busq_load_acquire(&node->owner);
  return (uint32_t)(owner >> 32) == generation ? (uint32_t)owner : 0;
}

static inline uint32_t busq_node_incarnation_of(const busq_bus *bus, uint32_t slot)
{
  return (uint32_t)(busq_load_acquire(&bus->slots[slot].life) >> 32);
}

static inline bool busq_node_is_own(const busq_peer *peer, busq_node_name name)
{
  return name.slot == peer->slot;
}

/* Is there a peer, or may one come back, that takes what stands in the queue of that life?  The kernel is asked. */
bool busq_node_life_is_there(const busq_bus *bus, uint32_t slot, uint32_t life_bits);

/* ---- what has become of a node ---- */

typedef enum {
  BUSQ_NODE_ALIVE,
  BUSQ_NODE_ENDING, /* claimed, by a message that is not sealed */
  BUSQ_NODE_ENDED,
  BUSQ_NODE_OTHER /* the entry is another node's, or free */
} busq_node_state;

/* An end that is decided is installed first.  The turns are for damage. */
busq_node_state busq_node_look_closely(busq_bus *bus, busq_node *node, busq_node_name name, busq_key *endp,
                                       busq_claim_look *look);

/* For a node that is not being ended one half of the word shows that. */
static inline bool busq_node_is_idle(busq_node *node, uint32_t generation)
{
  const busq_pair word = {busq_load_acquire(&node->claim.lo), 0};
  return BUSQ_LIKELY((uint32_t)busq_claim_number(word) == generation && busq_claim_state(word) == BUSQ_CLAIM_IDLE &&
                     generation);
}

static inline busq_node_state busq_node_look(busq_bus *bus, busq_node_name name, busq_key *endp, busq_claim_look *look)
{
  busq_node *node = busq_node_at(bus, name);
  if (BUSQ_LIKELY(node && busq_node_is_idle(node, name.generation)))
    return BUSQ_NODE_ALIVE;
  return busq_node_look_closely(bus, node, name, endp, look);
}

typedef enum { BUSQ_NODE_BREAK, BUSQ_NODE_PUT_OFF } busq_node_settling;
/* Looks for a caller that can't leave the end open; `how` is what to do about a message that is not sealed.  One that
 * comes to all of those slots may stay as it is. */
busq_node_state busq_node_settle(busq_bus *bus, busq_node_name name, busq_node_settling how, const uint16_t *slots,
                                 uint32_t n_slots, busq_key *endp);

static inline bool busq_node_is_before(busq_key key, busq_key end)
{
  return busq_key_less(busq_place_key(key), end);
}

/* ---- what a peer keeps for itself ---- */

int busq_node_memory_missing(const busq_peer *peer);

static inline uint64_t busq_node_entries(const busq_bus *bus)
{
  return (uint64_t)bus->geometry.peers * bus->geometry.nodes;
}

static inline uint64_t busq_node_entry(const busq_bus *bus, busq_node_name name)
{
  return (uint64_t)name.slot * bus->geometry.nodes + name.index;
}

static inline uint64_t *busq_node_held(const busq_peer *peer, busq_node_name name)
{
  return &peer->nodes->held[busq_node_entry(peer->bus, name)];
}

/* One object more keeps it: how many now. */
uint32_t busq_node_held_more(uint64_t *held, uint32_t generation);
/* One less; false where none was left, or they were another node's. */
bool busq_node_held_less(uint64_t *held, uint32_t generation, uint32_t *leftp);
/* This process keeps it no more: clears the word for all. */
void busq_node_hold_end(busq_peer *peer, busq_node_name name);
/* Wakes the owner, since a handle was let go. */
void busq_node_poke(busq_bus *bus, uint32_t slot);

/* A bit for each node, shared by some: a look for a grant under way errs on the safe side. */
static inline uint64_t busq_node_granting_bit(const busq_bus *bus, busq_node_name name)
{
  return UINT64_C(1) << busq_node_entry(bus, name) % 64;
}

#endif /* BUSQ_SHM_NODE_NODE_TABLE_H */
