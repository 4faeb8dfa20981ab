/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_TESTS_EXPLORE_STEPS_H
#define BUSQ_TESTS_EXPLORE_STEPS_H
/*
 * What a search does, as a stream of records for a program that follows it (busq.lab.proof.follow): the accesses that decide something
 * about messages, and the steps that they belong to.
 *
 * The stream begins with one line of text, "busq steps: " and the names below in the order of their numbers.  Then each record is eight
 * words of 8 bytes, of which the first is such a number.  A message is named by the slot of its sender and its sequence number.
 */
#include "explore/explore_judge.h"

#define EXPLORE_STEP_NAMES                                                                                       \
  "search"    /* queues: begins, at depth 0 */                                                                   \
  " queue"    /* queue, clock: in the beginning */                                                               \
  " step"     /* depth, actor, how, accesses: what came since the last one was of this step from that depth */   \
  " begin"    /* actor, sender, sequence, attempt, is it one that its reference commits, bits of destinations */ \
  " propose"  /* actor, sender, sequence, timestamp */                                                           \
  " clock"    /* actor, queue, before, after, position that was taken, or -1 */                                  \
  " publish"  /* actor, queue, position, sender, sequence, attempt */                                            \
  " skip"     /* actor, queue, position */                                                                       \
  " state"    /* actor, sender, sequence, attempt, phase before, attempt, phase */                               \
  " stamp"    /* timestamp of the state that follows */                                                          \
  " look"     /* actor, queue: at a place of the actor's own queue */                                            \
  " deliver"  /* actor, queue, position, sender, sequence */                                                     \
  " resume"   /* actor, queue: another life of its reader */                                                     \
  " notice"   /* actor, sender, sequence: looks at the state of a message of its own */                           \
  " reach"    /* actor, queue, position, is it a claim: one of several readers changes what stands there */      \
  " hands"    /* actor, queue: the same in the ring in which a reader keeps what it has in hands */

typedef enum {
  STEP_SEARCH,
  STEP_QUEUE,
  STEP_STEP,
  STEP_BEGIN,
  STEP_PROPOSE,
  STEP_CLOCK,
  STEP_PUBLISH,
  STEP_SKIP,
  STEP_STATE,
  STEP_STAMP,
  STEP_LOOK,
  STEP_DELIVER,
  STEP_RESUME,
  STEP_NOTICE,
  STEP_REACH,
  STEP_HANDS
} explore_step_kind;

static void explore_step_write(explore_step_kind kind, const int64_t *words, size_t n_words)
{
  int64_t record[8] = {kind};
  CHECK(n_words < sizeof record / sizeof record[0]);
  memcpy(record + 1, words, n_words * sizeof *words);
  CHECK(fwrite(record, sizeof record, 1, stdout) == 1);
}

#define explore_step(kind, ...)                                                        \
  do {                                                                                 \
    const int64_t step_words[] = {__VA_ARGS__};                                        \
    explore_step_write((kind), step_words, sizeof step_words / sizeof step_words[0]);  \
  } while (0)

/* Several readers share one queue, and each has a ring of its own, which none sends to. */
static bool explore_is_in_hands[EXPLORE_PEERS_MAX + 1]; /* by slot */

static void explore_step_note_hands(void)
{
  memset(explore_is_in_hands, 0, sizeof explore_is_in_hands);
  for (uint32_t i = 0; i < explore_scene->peers; i++)
    if (explore_shared.peers[i]->receiver.is_consumer)
      explore_is_in_hands[explore_shared.peers[i]->slot] = true;
}

/* ---- a queue ---- */

static void explore_step_clock(uint32_t actor, uint32_t queue, const busq_explore_made *made)
{
  const uint64_t from = busq_ring_position(made->before[1]), to = busq_ring_position(made->after[1]);
  if (made->n_granules == 2 && (made->before[0] != made->after[0] || from != to))
    explore_step(STEP_CLOCK, actor, queue, (int64_t)made->before[0], (int64_t)made->after[0], from != to ? (int64_t)from : -1);
}

static void explore_step_in_queue(uint32_t actor, uint64_t offset, const busq_explore_made *made)
{
  const uint32_t queue = (uint32_t)(offset / sizeof(busq_slot));
  const size_t inside = offset % sizeof(busq_slot);
  if (explore_is_in_hands[queue])
    return;
  if (inside == offsetof(busq_slot, queue.clock_tail))
    explore_step_clock(actor, queue, made);
  else if (inside == offsetof(busq_slot, life) && made->before[0] != made->after[0])
    explore_step(STEP_RESUME, actor, queue);
}

static void explore_step_in_ring(uint32_t actor, uint64_t offset, const busq_explore_made *made)
{
  const uint64_t slots = company_bus->geometry.slot_count, place = offset / sizeof(busq_pair);
  const int64_t queue = (int64_t)(place / slots);
  const uint64_t lap = made->after[0] >> BUSQ_RING_LAP_SHIFT;
  const uint32_t shift = company_bus->lap_shift;
  const int64_t position = (int64_t)((lap & (BUSQ_RING_USED - 1)) << shift | (place & ((UINT64_C(1) << shift) - 1)));
  const uint32_t sender = (uint32_t)(made->after[0] >> 32) & 0xffff;
  const busq_peer *peer = explore_shared.peers[explore_actors[actor].peer];
  if (made->access == BUSQ_ACCESS_LOAD) {
    if (offset % sizeof(busq_pair) == 0 && peer && queue == peer->receiver.inbox_slot && !peer->receiver.is_consumer)
      explore_step(STEP_LOOK, actor, queue);
  } else if (made->before[0] == made->after[0] && made->before[1] == made->after[1]) {
    return;
  } else if (explore_is_in_hands[queue]) {
    explore_step(STEP_HANDS, actor, queue);
  } else if (made->before[0] >> BUSQ_RING_LAP_SHIFT == lap) {
    explore_step(STEP_REACH, actor, queue, position, sender != BUSQ_RING_NOBODY && (sender & BUSQ_RING_CLAIMED) != 0);
  } else if (sender == BUSQ_RING_NOBODY) {
    explore_step(STEP_SKIP, actor, queue, position);
  } else {
    explore_step(STEP_PUBLISH, actor, queue, position, sender, (int64_t)busq_tag_sequence(made->after[1]),
                 busq_tag_attempt(made->after[1]));
  }
}

/* ---- a record ---- */

static int64_t explore_step_targets(const busq_record *record)
{
  int64_t bits = 0;
  for (uint32_t i = 0; i < busq_record_destinations(record); i++)
    bits |= INT64_C(1) << record->destination[i].slot;
  return bits;
}

/* A store fills a record; what a swap changes has begun. */
static void explore_step_state(uint32_t actor, const busq_record *record, const busq_explore_made *made)
{
  const uint64_t from = made->before[0], to = made->after[0];
  const int64_t sender = busq_record_sender(record), phase = (int64_t)(to & BUSQ_PHASE_MASK);
  if (from == to)
    return;
  if (made->n_granules == 1 && phase != BUSQ_PHASE_FREE) {
    explore_step(STEP_BEGIN, actor, sender, (int64_t)busq_tag_sequence(to), busq_tag_attempt(to),
                 phase == BUSQ_PHASE_COMMITTED, explore_step_targets(record));
  } else if ((from & BUSQ_PHASE_MASK) == BUSQ_PHASE_STAGING || (from & BUSQ_PHASE_MASK) == BUSQ_PHASE_SEALED) {
    explore_step(STEP_STAMP, (int64_t)record->state.hi);
    explore_step(STEP_STATE, actor, sender, (int64_t)busq_tag_sequence(from), busq_tag_attempt(from),
                 (int64_t)(from & BUSQ_PHASE_MASK), busq_tag_attempt(to), phase);
  }
}

/* A reader releases later what it had taken; one that closes its queue marks what it has not read as read; and a burial by a
 * destination marks for itself a message of the dead that never came into its queue. */
static bool explore_step_is_delivery(uint32_t actor, uint32_t queue, const busq_record *record, uint64_t mark)
{
  const explore_op *op = explore_op_of(actor);
  const busq_peer *peer = explore_shared.peers[explore_actors[actor].peer];
  const bool is_new = !mark || (mark & BUSQ_MARK_RELEASED);
  return is_new && op && op->verb != EXPLORE_LEAVE && peer->slot == queue && !peer->receiver.is_consumer &&
         peer->receiver.found.record == record;
}

static void explore_step_in_arena(uint32_t actor, uint64_t offset, const busq_explore_made *made)
{
  const uint64_t inside = offset % BUSQ_LAYOUT_UNIT_BYTES, first = offsetof(busq_record, destination);
  const busq_record *record = (const busq_record *)(company_bus->arena + (offset - inside));
  const int64_t sequence = (int64_t)busq_tag_sequence(record->state.lo);
  const busq_peer *peer = explore_shared.peers[explore_actors[actor].peer];
  if (made->access == BUSQ_ACCESS_LOAD) {
    if (inside == offsetof(busq_record, state) && peer && busq_record_sender(record) == peer->slot)
      explore_step(STEP_NOTICE, actor, peer->slot, sequence);
  } else if (inside == offsetof(busq_record, state)) {
    explore_step_state(actor, record, made);
  } else if (inside == offsetof(busq_record, proposal)) {
    explore_step(STEP_PROPOSE, actor, busq_record_sender(record), sequence, (int64_t)made->after[0]);
  } else if (inside >= first && (inside - first) % sizeof(busq_destination) == offsetof(busq_destination, mark)) {
    const uint32_t queue = record->destination[(inside - first) / sizeof(busq_destination)].slot;
    if (made->after[0] && explore_step_is_delivery(actor, queue, record, made->before[0]))
      explore_step(STEP_DELIVER, actor, queue, (int64_t)peer->receiver.found.position, busq_record_sender(record), sequence);
  }
}

/* ---- the onlooker ---- */

static void explore_step_made(uint32_t actor, const busq_explore_made *made)
{
  const busq_geometry *geometry = &company_bus->geometry;
  const uint64_t offset = (uint64_t)((const volatile char *)made->address - company_bus->base);
  if (offset >= geometry->segment_bytes)
    return;
  if (offset >= geometry->arena_offset)
    explore_step_in_arena(actor, offset - geometry->arena_offset, made);
  else if (offset >= geometry->rings_offset && offset < geometry->rings_offset + geometry->peers * geometry->slot_count * sizeof(busq_pair))
    explore_step_in_ring(actor, offset - geometry->rings_offset, made);
  else if (offset >= geometry->peers_offset && offset < geometry->peers_offset + geometry->peers * sizeof(busq_slot))
    explore_step_in_queue(actor, offset - geometry->peers_offset, made);
}

static void explore_step_begun(void)
{
  const uint32_t queues = company_bus->geometry.peers;
  explore_step_note_hands();
  explore_step(STEP_SEARCH, queues);
  for (uint32_t q = 0; q < queues; q++)
    explore_step(STEP_QUEUE, q, (int64_t)company_bus->slots[q].queue.clock_tail.lo);
}

static void explore_step_went(uint32_t depth, uint32_t actor, char how, uint32_t accesses)
{
  explore_step(STEP_STEP, depth, actor, how, accesses);
}

static const busq_explore_watcher explore_steps = {explore_step_made, explore_step_begun, explore_step_went};

/* To the standard output, which has nothing else. */
static void explore_steps_begin(void)
{
  static char buffer[1 << 16]; /* so that none comes from a process that is played */
  CHECK(setvbuf(stdout, buffer, _IOFBF, sizeof buffer) == 0);
  printf("busq steps: " EXPLORE_STEP_NAMES "\n");
}

#endif /* BUSQ_TESTS_EXPLORE_STEPS_H */
