/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/burial/compact.h"
#include "base/assert.h"
#include "shm/message/reference.h"
#include "shm/wake/wake.h"

/* The word: is a pass under way? | was something not final in it? | to - head (28 bits) | from - head (28 bits).  Where
 * none is: was the last one clean, up to `packed`? */
#define PACK_UNDER_WAY (UINT64_C(1) << 63)
#define PACK_UNFINISHED (UINT64_C(1) << 62)
#define PACK_CLEAN (UINT64_C(1) << 61)
#define PACK_OFFSET_BITS 28
#define PACK_OFFSET_MASK ((UINT64_C(1) << PACK_OFFSET_BITS) - 1)
_Static_assert(UINT64_C(2) * (BUSQ_LAYOUT_CAPACITY_MAX + BUSQ_LAYOUT_PEERS_MAX) <= PACK_OFFSET_MASK, "offsets fit");

typedef struct {
  busq_bus *bus;
  busq_slot *self;
  uint32_t slot;
  busq_ring ring;
  uint64_t head; /* stands still during a pass */
  uint64_t from;
  uint64_t to;
  uint64_t unfinished; /* PACK_UNFINISHED or 0 */
} pack_pass;

static uint64_t pass_word(const pack_pass *pass)
{
  BUSQ_ASSERT(pass->head <= pass->from && pass->from <= pass->to);
  BUSQ_ASSERT(pass->to - pass->head <= pass->ring.slot_count);
  return PACK_UNDER_WAY | pass->unfinished | (pass->to - pass->head) << PACK_OFFSET_BITS | (pass->from - pass->head);
}

static void pass_note(const pack_pass *pass)
{
  const uint64_t word = pass_word(pass);
  if (busq_load_relaxed(&pass->self->packing) == word)
    return;
  BUSQ_STEP("pack");
  busq_store_release(&pass->self->packing, word);
}

/* The pass that is under way; false where there is none, or its word can't be right. */
static bool pass_load(pack_pass *pass, busq_bus *bus, uint32_t slot)
{
  busq_slot *self = &bus->slots[slot];
  const busq_ring ring = busq_bus_ring(bus, slot);
  const uint64_t word = busq_load_acquire(&self->packing), head = busq_load_acquire(&self->queue.head);
  const uint64_t from = word & PACK_OFFSET_MASK, to = word >> PACK_OFFSET_BITS & PACK_OFFSET_MASK;
  *pass = (pack_pass){bus, self, slot, ring, head, head + from, head + to, word & PACK_UNFINISHED};
  const uint64_t tail = busq_ring_tail(&ring);
  return (word & PACK_UNDER_WAY) && from <= to && to <= tail - head && tail - head <= ring.slot_count;
}

/* The content of one position, as it would stand at another. */
static busq_pair slot_moved(const busq_ring *ring, uint64_t position, uint64_t to)
{
  const busq_pair seen = busq_pair_load(busq_ring_slot(ring, position));
  return (busq_pair){
      busq_ring_lap(ring, to) << BUSQ_RING_LAP_SHIFT | (seen.lo & ((UINT64_C(1) << BUSQ_RING_LAP_SHIFT) - 1)), seen.hi};
}

static void slot_become(const busq_ring *ring, uint64_t position, busq_pair content)
{
  busq_pair seen = busq_pair_load(busq_ring_slot(ring, position));
  if (seen.lo == content.lo && seen.hi == content.hi)
    return;
  BUSQ_STEP("pack");
  (void)busq_pair_cas(busq_ring_slot(ring, position), &seen, content);
}

/* The content that was left where the last move began. */
static void pass_clear(const pack_pass *pass)
{
  if (pass->from < pass->to)
    slot_become(&pass->ring, pass->from, busq_ring_skipped(&pass->ring, pass->from));
}

/* One position. */
static void pass_look(pack_pass *pass)
{
  busq_reference reference;
  const uint64_t at = pass->from - 1;
  while (!busq_ring_look(&pass->ring, at, &reference))
    (void)busq_ring_skip(&pass->ring, at);
  const busq_fate fate = busq_reference_fate(pass->bus, pass->slot, reference);
  if (fate == BUSQ_FATE_UNFINISHED)
    pass->unfinished = PACK_UNFINISHED;
  if (fate == BUSQ_FATE_DEAD) {
    pass->from = at;
  } else if (pass->to == pass->from) {
    pass->from = pass->to = at;
  } else {
    pass_note(pass);
    slot_become(&pass->ring, pass->to - 1, slot_moved(&pass->ring, at, pass->to - 1));
    pass->from = at;
    pass->to--;
    pass_note(pass);
    pass_clear(pass);
  }
}

/* The word first: killed in between, the next pass finds what is dead at the head once more; the other way round it
 * would move the head twice.  That the queue is clean comes last, because no process would look at it again. */
static busq_compact_outcome pass_end(const pack_pass *pass)
{
  BUSQ_ASSERT(pass->from == pass->head);
  BUSQ_ASSERT(pass->to >= pass->head); /* a head never goes back */
  BUSQ_STEP("pack");
  busq_store_release(&pass->self->packing, 0);
  if (pass->to != pass->head) {
    BUSQ_STEP("pack");
    /* SYNC POINT ring-head */
    busq_store_release(&pass->self->queue.head, pass->to);
    busq_wake_for_room(pass->bus, pass->slot);
  }
  BUSQ_STEP("pack");
  busq_store_release(&pass->self->packing, pass->unfinished ? 0 : PACK_CLEAN);
  return pass->to == pass->head ? BUSQ_COMPACT_NOTHING : BUSQ_COMPACT_ROOM;
}

busq_compact_outcome busq_compact_step(busq_bus *bus, uint32_t slot)
{
  pack_pass pass;
  if (!pass_load(&pass, bus, slot)) {
    const uint64_t tail = busq_ring_tail(&pass.ring);
    if (tail - pass.head > pass.ring.slot_count)
      return BUSQ_COMPACT_NOTHING; /* damage, which a reader will report */
    pass.from = pass.to = tail;
    pass.unfinished = 0;
    /* In this order: that the last pass was clean is not true up to the new tail. */
    busq_store_release(&pass.self->packing, 0);
    BUSQ_STEP("pack");
    busq_store_release(&pass.self->packed, tail);
  }
  pass_clear(&pass);
  for (uint32_t i = 0; i < busq_step_looks && pass.from != pass.head; i++)
    pass_look(&pass);
  if (pass.from == pass.head)
    return pass_end(&pass);
  pass_note(&pass);
  return BUSQ_COMPACT_NOT_OVER;
}

bool busq_compact_is_clean(const busq_bus *bus, uint32_t slot)
{
  const busq_slot *self = &bus->slots[slot];
  const busq_ring ring = busq_bus_ring(bus, slot);
  return busq_load_acquire(&self->packing) == PACK_CLEAN && busq_load_relaxed(&self->packed) == busq_ring_tail(&ring);
}

void busq_compact_settle(busq_bus *bus, uint32_t slot)
{
  pack_pass pass;
  if (pass_load(&pass, bus, slot)) {
    pass_clear(&pass);
    if (pass.from < pass.to && pass.from != pass.head) {
      const busq_pair copy = slot_moved(&pass.ring, pass.from - 1, pass.to - 1);
      const busq_pair seen = busq_pair_load(busq_ring_slot(&pass.ring, pass.to - 1));
      if (seen.lo == copy.lo && seen.hi == copy.hi)
        slot_become(&pass.ring, pass.from - 1, busq_ring_skipped(&pass.ring, pass.from - 1));
    }
  }
  busq_store_release(&bus->slots[slot].packing, 0);
}
