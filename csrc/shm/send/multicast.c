/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/send/multicast.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/time.h"
#include "shm/burial/grave.h"
#include "shm/message/commit.h"
#include "shm/message/share.h"
#include "shm/trace/tracer.h"
#include "shm/wake/wake.h"
#include <string.h>

/* A destination, looked up once: past an access to shared memory the compiler has to read everything anew. */
typedef struct {
  uint32_t slot;
  busq_slot *reader;
  busq_destination_cache *known;
  busq_ring ring;
} route;

BUSQ_ALWAYS_INLINE route route_to(const busq_peer *peer, uint32_t slot)
{
  return (route){slot, &peer->bus->slots[slot], &peer->known[slot], busq_bus_ring(peer->bus, slot)};
}

/* ---- before anything is touched ---- */

BUSQ_COLD static int destination_beyond(const busq_peer *peer, uint32_t at, uint32_t slot)
{
  if (slot == BUSQ_TARGET_GROUP)
    return BUSQ_TO_GROUP;
  return busq_error(BUSQ_INVALID, "receiver %u is slot %u of a bus with %u slots", at, slot, peer->bus->geometry.peers);
}

BUSQ_COLD static int destination_gone(busq_peer *peer, uint32_t slot)
{
  peer->failed_target = (uint64_t)peer->known[slot].incarnation << 16 | slot;
  return busq_error(BUSQ_PEER_DEAD, "a receiver has left bus \"%s\" or died; nobody got the message", peer->bus->name);
}

/* The same slot in two lives: a member of a group that has died, and another peer that has its slot now and is named beside the group. */
BUSQ_COLD static int destination_twice(busq_peer *peer, uint64_t target)
{
  const uint32_t slot = busq_target_slot(target), incarnation = busq_target_incarnation(target);
  busq_destination_cache *known = &peer->known[slot];
  if (known->incarnation == incarnation) {
    peer->failed_target = target;
    return busq_error(BUSQ_INVALID, "receiver \"%.255s\" is given twice; each receiver gets a message once", peer->bus->slots[slot].name);
  }
  if ((uint32_t)(busq_load_acquire(&peer->bus->slots[slot].life) >> 32) != incarnation)
    known->incarnation = incarnation; /* it is this one that is gone, or both are */
  return destination_gone(peer, slot);
}

/* Sorts the targets by slot into the scratch list; every sender visits queues in this order, which keeps proposals from
 * getting lost.  Incarnations stay with the caller's targets and are looked up by slot.  Where there are more than the bus has slots, one
 * of them is met twice. */
static int destinations_sort(busq_peer *peer, const uint64_t *targets, uint32_t n_targets)
{
  uint16_t *sorted = peer->destinations;
  if (n_targets == 0)
    return busq_error(BUSQ_INVALID, "no receivers: expected 1 to %u, each of them once", peer->bus->geometry.peers);
  for (uint32_t i = 0; i < n_targets; i++) {
    const uint16_t slot = (uint16_t)busq_target_slot(targets[i]);
    if (BUSQ_UNLIKELY(slot >= peer->bus->geometry.peers))
      return destination_beyond(peer, i, slot);
    uint32_t at = i;
    while (at > 0 && sorted[at - 1] > slot) {
      sorted[at] = sorted[at - 1];
      at--;
    }
    if (BUSQ_UNLIKELY(at > 0 && sorted[at - 1] == slot))
      return destination_twice(peer, targets[i]);
    sorted[at] = slot;
    peer->known[slot].incarnation = busq_target_incarnation(targets[i]);
  }
  return BUSQ_OK;
}

BUSQ_COLD static int queue_damaged(const busq_peer *peer, uint32_t slot)
{
  return busq_error(BUSQ_CORRUPT, "the queue of peer slot %u of bus \"%s\" is damaged; remove the bus and create it again", slot,
                    peer->bus->name);
}

/* May the kernel be asked about this destination?  Always, for who sends now and then; in a burst, a limited number of times
 * per tick, and each destination at least every few ticks. */
BUSQ_ALWAYS_INLINE bool may_glance(busq_peer *peer, busq_destination_cache *known, uint64_t tick_ns)
{
  enum { GLANCES_PER_TICK = 64 };
  const uint64_t overdue_ns = 50000000;
  if (BUSQ_UNLIKELY(tick_ns != peer->tick_ns)) {
    peer->tick_ns = tick_ns;
    peer->glances = 0;
  }
  if (BUSQ_LIKELY(peer->glances >= GLANCES_PER_TICK && tick_ns - known->glanced_ns < overdue_ns))
    return false;
  peer->glances++;
  known->glanced_ns = tick_ns;
  return true;
}

/* Asks the kernel. */
__attribute__((noinline)) static int destination_ask(busq_peer *peer, uint32_t slot)
{
  return busq_grave_check(peer->bus, slot, peer->known[slot].incarnation) ? BUSQ_OK : destination_gone(peer, slot);
}

BUSQ_ALWAYS_INLINE int destination_check(busq_peer *peer, const route *to, uint64_t tick_ns)
{
  const uint64_t life = busq_load_acquire(&to->reader->life);
  if (BUSQ_LIKELY((life & ~(uint64_t)(BUSQ_LIFE_DURABLE | BUSQ_LIFE_SHARED)) == busq_life_word(to->known->incarnation, BUSQ_LIFE_LIVE)) &&
      (BUSQ_LIKELY(!may_glance(peer, to->known, tick_ns)) || to->slot == peer->slot))
    return BUSQ_OK;
  return destination_ask(peer, to->slot);
}

/* The tail between two looks at the head: if that stood still meanwhile, the three belong together.  A reader that is so busy
 * that it never does makes room faster than we can look: full, try again. */
static int destination_room_slow(busq_peer *peer, uint32_t slot)
{
  enum { LOOKS = 16 };
  const busq_ring ring = busq_bus_ring(peer->bus, slot);
  busq_destination_cache *known = &peer->known[slot];
  for (int look = 0; look < LOOKS; look++) {
    known->head_seen = busq_load_acquire(&ring.queue->head);
    const uint64_t depth = busq_ring_tail(&ring) - known->head_seen;
    if (depth < busq_bus_limit(peer->bus, &peer->bus->slots[slot]))
      return BUSQ_OK;
    if (depth > ring.slot_count && busq_load_acquire(&ring.queue->head) == known->head_seen)
      return queue_damaged(peer, slot);
    if (depth <= ring.slot_count)
      break;
  }
  peer->failed_target = (uint64_t)known->incarnation << 16 | slot;
  return BUSQ_FULL;
}

/* The line where the reference will stand is the one that a reader looks at who waits: asked for as early as it is known, it comes
 * while the record is filled. */
BUSQ_ALWAYS_INLINE void destination_ask_for(const route *to)
{
  busq_prefetch_write(busq_ring_slot(&to->ring, busq_ring_tail(&to->ring)));
}

/* The head of a shared queue does not move over what a reader has released and not taken out of it when it was killed: the other
 * readers see to that when they look at the queue, but they may be busy with what they have taken. */
static int destination_room_left(busq_peer *peer, uint32_t slot)
{
  busq_destination_cache *known = &peer->known[slot];
  const uint64_t tick_ns = busq_time_tick_ns();
  if (known->tended_ns && tick_ns - known->tended_ns < BUSQ_SLICE_NS)
    return BUSQ_FULL;
  known->tended_ns = tick_ns;
  busq_grave_bury_readers(peer->bus, slot, peer->slot, &known->tended);
  busq_share_advance(peer->bus, slot, slot);
  return destination_room_slow(peer, slot);
}

/* A full queue that nobody reads may be full of what nobody will ever receive. */
BUSQ_COLD static int destination_room_unread(busq_peer *peer, uint32_t slot)
{
  int result = destination_room_slow(peer, slot);
  if (result == BUSQ_FULL && (busq_load_acquire(&peer->bus->slots[slot].life) & BUSQ_LIFE_SHARED))
    result = destination_room_left(peer, slot);
  if (result != BUSQ_FULL)
    return result;
  const busq_compact_outcome outcome = busq_grave_compact(peer->bus, slot);
  busq_store_relaxed(&peer->finds_more, outcome == BUSQ_COMPACT_NOT_OVER);
  return outcome == BUSQ_COMPACT_ROOM ? destination_room_slow(peer, slot) : BUSQ_FULL;
}

/* Room at a destination, before the first is touched.  Each peer has at most one message between here and its last stage, and
 * the ring has a slot to spare for every peer: so staging never finds a ring full. */
BUSQ_ALWAYS_INLINE int destination_room(busq_peer *peer, const route *to)
{
  const uint64_t tail = busq_ring_tail(&to->ring);
  if (BUSQ_LIKELY(tail - to->known->head_seen < busq_bus_limit(peer->bus, to->reader)))
    return BUSQ_OK;
  return destination_room_unread(peer, to->slot);
}

BUSQ_ALWAYS_INLINE int size_check(const busq_peer *peer, uint64_t size_bytes)
{
  const busq_bus *bus = peer->bus;
  if (BUSQ_UNLIKELY(size_bytes > bus->geometry.arena_bytes || size_bytes > BUSQ_LAYOUT_PAYLOAD_BYTES_MAX))
    return busq_error(BUSQ_TOO_LARGE, "a message of %llu bytes: bus \"%s\" takes at most %llu; create it with a larger arena",
                      (unsigned long long)size_bytes, bus->name,
                      (unsigned long long)(bus->geometry.arena_bytes < BUSQ_LAYOUT_PAYLOAD_BYTES_MAX
                                               ? bus->geometry.arena_bytes
                                               : BUSQ_LAYOUT_PAYLOAD_BYTES_MAX));
  if (BUSQ_UNLIKELY(busq_load_relaxed(&bus->header->is_shut_down)))
    return busq_error(BUSQ_SHUTDOWN, "bus \"%s\" was shut down", bus->name);
  return BUSQ_OK;
}

static int message_check(busq_peer *peer, const uint64_t *targets, uint32_t n_targets,
                                     uint64_t size_bytes)
{
  int result = size_check(peer, size_bytes);
  if (BUSQ_UNLIKELY(result != BUSQ_OK))
    return result;
  result = destinations_sort(peer, targets, n_targets);
  BUSQ_TIME("sorted");
  const uint64_t tick_ns = busq_time_tick_ns();
  BUSQ_TIME("tick");
  for (uint32_t i = 0; i < n_targets && !result; i++) {
    const route to = route_to(peer, peer->destinations[i]);
    result = destination_check(peer, &to, tick_ns);
  }
  return result;
}

/* ---- the record ---- */

/* Sequence numbers are never used twice in the life of a slot: a block of them is reserved before its first is used. */
static uint64_t sequence_next(busq_peer *peer)
{
  enum { BLOCK = 1 << 16 };
  if (BUSQ_UNLIKELY(++peer->sequence >= peer->sequence_limit)) {
    peer->sequence_limit = peer->sequence + BLOCK;
    busq_store_release(&peer->self->sequence_reserved, peer->sequence_limit);
  }
  return peer->sequence;
}

/* ---- drafts ---- */

static busq_record *draft_record(const busq_peer *peer, const busq_message *draft)
{
  return busq_bus_record(peer->bus, draft->record);
}

static uint64_t draft_bytes(const busq_peer *peer, const busq_message *draft)
{
  return (uint64_t)((const char *)draft->data - (const char *)draft_record(peer, draft)) + draft->size_bytes;
}

/* Free first, as in record_fill: the record's last message may have had so many destinations that a payload would be written over
 * their marks. */
static void draft_begin(busq_peer *peer, busq_record *record, uint64_t size_bytes, uint32_t n_targets, busq_message *draft)
{
  BUSQ_STEP("draft");
  busq_store_release(&record->state.lo, BUSQ_PHASE_FREE);
  __atomic_thread_fence(__ATOMIC_RELEASE);
  peer->drafts++;
  *draft = (busq_message){
      .data = (char *)record + busq_record_payload_offset(n_targets, size_bytes),
      .size_bytes = size_bytes,
      .record = (uint32_t)((uint64_t)((char *)record - peer->bus->arena) / BUSQ_LAYOUT_UNIT_BYTES),
  };
}

/* The payload's place depends on how many destinations it has, and on whether it is small: that of a large one to no more than
 * BUSQ_DRAFT_TARGETS is always the same. */
static void draft_move(void *to, const void *from, uint64_t size_bytes)
{
  if (BUSQ_UNLIKELY(to != from))
    memmove(to, from, size_bytes);
}

static int draft_check(const busq_peer *peer, const busq_payload *payload, uint32_t n_targets)
{
  const busq_message *draft = payload->draft;
  const uint64_t needed = busq_record_payload_offset(n_targets, payload->size_bytes) + payload->size_bytes;
  if (payload->size_bytes > draft->size_bytes)
    return busq_error(BUSQ_INVALID, "size %llu of a draft of %llu bytes", (unsigned long long)payload->size_bytes,
                      (unsigned long long)draft->size_bytes);
  if (needed > draft_bytes(peer, draft))
    return busq_error(BUSQ_INVALID, "a draft that is sent to %u receivers: say so when it is reserved", n_targets);
  return BUSQ_OK;
}

/* One part is what most messages have. */
BUSQ_ALWAYS_INLINE void payload_gather(char *to, const busq_payload *payload)
{
  if (BUSQ_LIKELY(payload->n_parts == 1 && payload->parts->size_bytes)) {
    memcpy(to, payload->parts->data, payload->parts->size_bytes);
    return;
  }
  for (uint32_t i = 0; i < payload->n_parts; i++) {
    const busq_part *part = &payload->parts[i];
    if (part->size_bytes)
      memcpy(to, part->data, part->size_bytes);
    to += part->size_bytes;
  }
}

BUSQ_ALWAYS_INLINE void record_fill(busq_peer *peer, busq_record *record, uint32_t n_targets, const busq_payload *payload)
{
  /* Free first: one who dies here must not leave marks behind that look as if the record's last message were needed. */
  busq_store_release(&record->state.lo, BUSQ_PHASE_FREE);
  __atomic_thread_fence(__ATOMIC_RELEASE);
  record->size_bytes = (uint32_t)payload->size_bytes;
  record->sender_incarnation = peer->incarnation;
  record->origin = (uint16_t)(payload->form << BUSQ_RECORD_FORM_SHIFT | peer->slot);
  /* Atomic, because others may be late and still look at them: somebody who completes the record's last message, or who released
   * it and asks whether he was the last (large_release; the swap that follows his look fails). */
  busq_store_relaxed(&record->outline, (uint16_t)n_targets);
  for (uint32_t i = 0; i < n_targets; i++) {
    BUSQ_ASSERT(peer->destinations[i] < peer->bus->geometry.peers);
    BUSQ_ASSERT(i == 0 || peer->destinations[i - 1] < peer->destinations[i]); /* readers look for themselves by halving */
    busq_store_relaxed(&record->destination[i].slot, peer->destinations[i]);
    busq_store_relaxed(&record->destination[i].mark, 0);
  }
  BUSQ_STEP("fill");
  payload_gather((char *)record + busq_record_payload_offset(n_targets, payload->size_bytes), payload);
}

static busq_reference record_reference(const busq_peer *peer, const busq_record *record, uint64_t tag)
{
  const uint64_t offset = (uint64_t)((const char *)record - peer->bus->arena);
  BUSQ_ASSERT(offset % BUSQ_LAYOUT_UNIT_BYTES == 0);
  BUSQ_ASSERT(offset / BUSQ_LAYOUT_UNIT_BYTES < busq_bus_units(peer->bus));
  return (busq_reference){peer->slot, (uint32_t)(offset / BUSQ_LAYOUT_UNIT_BYTES), tag};
}

/* The state is stored, not swapped, while nobody else can know the record; the release orders it before the marks'
 * next readers, who come by way of the extent table. */
static void record_set_state(busq_record *record, uint64_t tag, uint32_t phase, uint64_t timestamp)
{
  BUSQ_ASSERT(!(tag & BUSQ_PHASE_MASK));
  BUSQ_ASSERT(phase == BUSQ_PHASE_STAGING || phase == BUSQ_PHASE_COMMITTED);
  busq_store_relaxed(&record->state.hi, timestamp);
  busq_store_release(&record->state.lo, tag | phase);
}

/* ---- one destination ---- */

/* The process's own Lamport clock: no message that it has sent or received has a higher timestamp. */
static uint64_t peer_clock(const busq_peer *peer)
{
  return busq_timestamp_max(peer->lamport, busq_load_relaxed(&peer->delivered));
}

/* A ring knows the last bits of its incarnation only: whoever was stopped for long before he took a position may have taken it
 * from somebody who has the slot now, two thousand lives later.  Publishes nothing there but a hole to be passed; as a reference
 * would be, by a swap that can't hit a later lap. */
BUSQ_ALWAYS_INLINE bool claim_is_foreign(const route *to, const busq_ring_claim *claim)
{
  if (BUSQ_LIKELY((uint32_t)(busq_load_acquire(&to->reader->life) >> 32) == to->known->incarnation))
    return false;
  const busq_reference nothing = {BUSQ_RING_NOBODY, UINT32_MAX, claim->position};
  (void)busq_ring_publish(&to->ring, claim, nothing);
  return true;
}

/* Takes a position in a destination's queue, or says why there is none. */
BUSQ_ALWAYS_INLINE int position_take(busq_peer *peer, const route *to, uint64_t proposed, uint64_t *stamp, uint64_t limit,
                                     busq_ring_claim *claim, bool *is_latep)
{
  BUSQ_ASSERT(limit <= to->ring.slot_count);
  const busq_ring_outcome outcome =
      busq_ring_place(&to->ring, to->known->incarnation, proposed, stamp, limit, &to->known->head_seen, claim);
  *is_latep = outcome == BUSQ_RING_LATE;
  if (BUSQ_UNLIKELY(outcome == BUSQ_RING_FULL)) {
    peer->failed_target = (uint64_t)to->known->incarnation << 16 | to->slot;
    return BUSQ_FULL;
  }
  if (BUSQ_UNLIKELY(outcome == BUSQ_RING_DAMAGED)) {
    (void)queue_damaged(peer, to->slot);
    return BUSQ_CORRUPT;
  }
  if (BUSQ_UNLIKELY(outcome == BUSQ_RING_GONE || claim_is_foreign(to, claim))) {
    (void)destination_gone(peer, to->slot);
    return BUSQ_PEER_DEAD;
  }
  return BUSQ_OK;
}

static inline void readers_wake(busq_peer *peer, uint32_t n_targets)
{
  for (uint32_t i = 0; i < n_targets; i++)
    busq_wake_reader(peer, &peer->bus->slots[peer->destinations[i]], peer->destinations[i]);
}

/* The positions are taken, and nothing is committed: see wake.h. */
static inline void readers_announce(busq_peer *peer, uint32_t n_targets)
{
  BUSQ_STEP("announce");
  busq_fence_after_swap();
  for (uint32_t i = 0; i < n_targets; i++)
    busq_wake_announce(peer, &peer->bus->slots[peer->destinations[i]], peer->destinations[i]);
}

BUSQ_ALWAYS_INLINE void reader_announce(busq_peer *peer, const route *to)
{
  BUSQ_STEP("announce");
  busq_fence_after_swap();
  busq_wake_announce(peer, to->reader, to->slot);
}

BUSQ_ALWAYS_INLINE int unicast(busq_peer *peer, const route *to, busq_record *record, uint64_t tag)
{
  const busq_reference reference = record_reference(peer, record, tag);
  busq_ring_claim claim;
  bool is_late;
  record->proposal = 0; /* one destination: never late */
  record_set_state(record, tag, BUSQ_PHASE_COMMITTED, 0);
  do {
    const int result = position_take(peer, to, peer_clock(peer) + 1, &record->state.hi, busq_bus_limit(peer->bus, to->reader),
                                     &claim, &is_late);
    if (BUSQ_UNLIKELY(result != BUSQ_OK))
      return result;
    reader_announce(peer, to);
    /* Where the hole was skipped meanwhile, nobody has seen the record: place it again, behind. */
  } while (BUSQ_UNLIKELY(!busq_ring_publish(&to->ring, &claim, reference)));
  BUSQ_ASSERT(claim.timestamp > peer->lamport);
  peer->lamport = claim.timestamp;
  return BUSQ_OK;
}

/* ---- several destinations ---- */

typedef struct {
  busq_record *record;
  uint64_t tag;
  uint64_t proposal;
  uint64_t clock_max; /* the highest clock found where the proposal was lost */
  uint32_t n_targets;
  bool is_lost;
} busq_multicast;

/* Propose: one more than any clock that we know of.  Higher would be as right; lower gets lost.  It is only looked up here, and
 * settled by the swap that stages at the first destination: since all senders visit queues in the same order, two that
 * propose the same there part ways there, instead of losing to each other later. */
BUSQ_ALWAYS_INLINE int multicast_propose(busq_peer *peer, busq_multicast *multicast)
{
  uint64_t highest = peer_clock(peer);
  for (uint32_t i = 0; i < multicast->n_targets; i++)
    busq_prefetch_write(&peer->bus->slots[peer->destinations[i]].queue.clock_tail);
  for (uint32_t i = 0; i < multicast->n_targets; i++) {
    const busq_ring ring = busq_bus_ring(peer->bus, peer->destinations[i]);
    BUSQ_STEP("clock");
    const uint64_t clock = busq_ring_clock(&ring);
    /* Before any queue is touched: a proposal above a damaged clock would damage all the others. */
    if (BUSQ_UNLIKELY(!busq_timestamp_is_sound(clock)))
      return queue_damaged(peer, peer->destinations[i]);
    highest = busq_timestamp_max(highest, clock);
  }
  multicast->proposal = BUSQ_UNLIKELY(peer->proposes_stale) ? 1 : highest + 1; /* every clock starts at 1 */
  busq_store_relaxed(&multicast->record->proposal, multicast->proposal);
  return BUSQ_OK;
}

int busq_multicast_rise(busq_peer *peer, uint32_t slot)
{
  const busq_ring ring = busq_bus_ring(peer->bus, slot);
  BUSQ_STEP("rise");
  const uint64_t clock = busq_ring_clock(&ring);
  if (!busq_timestamp_is_sound(clock))
    return queue_damaged(peer, slot);
  peer->lamport = busq_timestamp_max(peer->lamport, clock);
  return BUSQ_OK;
}

/* Puts the reference into one queue.  Where that cannot be, nothing is final so far: the caller takes the message back. */
BUSQ_ALWAYS_INLINE int multicast_stage(busq_peer *peer, busq_multicast *multicast, uint32_t index, const busq_send_hooks *hooks)
{
  const route to = route_to(peer, peer->destinations[index]);
  const busq_reference reference = record_reference(peer, multicast->record, multicast->tag);
  /* One that goes to a single queue is never late: its reader does not ask.  Without a hooks it does not come here. */
  const bool is_stamped = index == 0 && (!peer->proposes_stale || (hooks && multicast->n_targets == 1));
  uint64_t *const stamp = is_stamped ? &multicast->record->proposal : NULL;
  busq_ring_claim claim;
  bool is_late;
  do {
    const int result =
        position_take(peer, &to, multicast->proposal, stamp, to.ring.slot_count, &claim, &is_late);
    if (BUSQ_UNLIKELY(result != BUSQ_OK))
      return result;
    if (BUSQ_UNLIKELY(peer->tracer.begun))
      busq_tracer_stage(peer, busq_tag_sequence(multicast->tag), to.slot, claim.timestamp);
    BUSQ_ASSERT(claim.timestamp >= multicast->proposal);
    if (is_late) {
      BUSQ_ASSERT(!stamp);
      multicast->is_lost = true;
      multicast->clock_max = busq_timestamp_max(multicast->clock_max, claim.clock);
    }
  } while (BUSQ_UNLIKELY(!busq_ring_publish(&to.ring, &claim, reference)));
  multicast->proposal = claim.timestamp;
  return BUSQ_OK;
}

/* Takes back what has not been committed, as if it had never been begun, whatever attempt others have made current: the
 * references die with the attempt, and readers that they blocked may go on.  Each failure of the swap means that somebody has put
 * us off once more, which he can only once per attempt that we have staged. */
static void multicast_undo(busq_peer *peer, const busq_multicast *multicast)
{
  enum { TRIES = 4 };
  busq_pair seen = busq_pair_load(&multicast->record->state);
  for (int i = 0; i < TRIES && (seen.lo & BUSQ_PHASE_MASK) == BUSQ_PHASE_STAGING; i++) {
    BUSQ_STEP("state");
    if (busq_pair_cas(&multicast->record->state, &seen, (busq_pair){seen.lo & ~BUSQ_PHASE_MASK, 0}))
      break;
  }
  busq_fence_full();
  readers_wake(peer, multicast->n_targets);
}

/* The proposal was lost somewhere: the final timestamp lies above every clock at which the message stands.  0 where somebody
 * has put us off before it was fixed. */
static uint64_t multicast_seal_and_commit(busq_peer *peer, const busq_multicast *multicast)
{
  busq_record *record = multicast->record;
  const uint64_t tag = multicast->tag;
  const uint64_t timestamp = busq_timestamp_max(multicast->proposal, multicast->clock_max) + 1;
  /* Seal: from here on the timestamp is fixed, and anybody may finish the rest. */
  if (!busq_commit_swap(record, tag, BUSQ_PHASE_STAGING, 0, BUSQ_PHASE_SEALED, timestamp))
    return 0;
  if (BUSQ_UNLIKELY(peer->tracer.begun))
    busq_tracer_seal(peer, busq_tag_sequence(tag), timestamp);
  /* Sync: never commit before every clock has reached the timestamp. */
  busq_commit_sync(peer->bus, record, timestamp);
  /* Commit.  If somebody has finished it for us, it carries the same timestamp. */
  (void)busq_commit_swap(record, tag, BUSQ_PHASE_SEALED, timestamp, BUSQ_PHASE_COMMITTED, timestamp);
  peer->late++;
  busq_store_relaxed(&peer->self->late, peer->late);
  return timestamp;
}

/* Commit: at once where every queue accepted the proposal.  The timestamp, or 0 where somebody has put us off. */
static uint64_t multicast_commit(busq_peer *peer, const busq_multicast *multicast)
{
  if (BUSQ_UNLIKELY(multicast->is_lost))
    return multicast_seal_and_commit(peer, multicast);
  return BUSQ_LIKELY(busq_commit_swap(multicast->record, multicast->tag, BUSQ_PHASE_STAGING, 0, BUSQ_PHASE_COMMITTED,
                                 multicast->proposal))
             ? multicast->proposal
             : 0;
}

/* Propose and stage, once. */
BUSQ_ALWAYS_INLINE int multicast_attempt(busq_peer *peer, busq_multicast *multicast, busq_send_hooks *hooks)
{
  multicast->is_lost = false;
  int result = hooks && hooks->attempt ? hooks->attempt(hooks, peer) : BUSQ_OK;
  if (!result)
    result = multicast_propose(peer, multicast);
  for (uint32_t i = 0; i < multicast->n_targets && result == BUSQ_OK; i++) {
    BUSQ_STEP("stage");
    result = multicast_stage(peer, multicast, i, hooks);
  }
  return result;
}

/* Somebody who waited for us has made another attempt current.  Our references are dead; nobody but us stages for it, so go on
 * from there.  False where it is none of ours: the record is damaged, or the attempts are used up. */
static bool multicast_next_attempt(busq_multicast *multicast)
{
  const busq_pair seen = busq_pair_load(&multicast->record->state);
  const uint64_t expected = (multicast->tag + BUSQ_TAG_NEXT_ATTEMPT) | BUSQ_PHASE_STAGING;
  if (seen.lo != expected || busq_tag_attempt(expected) == BUSQ_ATTEMPT_MAX)
    return false;
  multicast->tag += BUSQ_TAG_NEXT_ATTEMPT;
  return true;
}

static int record_damaged(const busq_peer *peer)
{
  return busq_error(BUSQ_CORRUPT, "a message being sent by peer slot %u of bus \"%s\" is damaged; remove the bus and create it again",
                    peer->slot, peer->bus->name);
}

/* What a hooks claims with its message, somebody may break before we are through: then we begin anew. */
static int multicast_failed(busq_peer *peer, const busq_multicast *multicast, const busq_send_hooks *hooks, int result)
{
  if (result != BUSQ_OK)
    return result;
  if (hooks && hooks->begin)
    return BUSQ_AGAIN;
  return busq_tag_attempt(multicast->tag) + 1 >= BUSQ_ATTEMPT_MAX ? BUSQ_FULL : record_damaged(peer);
}

static int multicast_take_back(busq_peer *peer, const busq_multicast *multicast, busq_send_hooks *hooks, int result)
{
  multicast_undo(peer, multicast);
  if (hooks && hooks->undone)
    hooks->undone(hooks, peer, multicast->record, multicast->tag);
  return result;
}

/* Compiled twice: of one without a hooks, no question about it is left. */
BUSQ_ALWAYS_INLINE int multicast_with(busq_peer *peer, busq_record *record, uint64_t tag, uint32_t n_targets, busq_send_hooks *hooks)
{
  BUSQ_ASSERT(n_targets > 1 || hooks);
  busq_multicast multicast = {.record = record, .tag = tag, .n_targets = n_targets, .clock_max = peer_clock(peer)};
  record_set_state(record, tag, BUSQ_PHASE_STAGING, 0);
  if (hooks && hooks->begin) {
    const int result = hooks->begin(hooks, peer, record, tag);
    if (result != BUSQ_OK)
      return multicast_take_back(peer, &multicast, hooks, result);
  }
  for (;;) {
    /* A foreseeable failure has come before this; but a receiver may die while we stage; and there is a slot for every
     * peer's message (see destination_room), but holes that were skipped and attempts that were put off may use them up while a
     * reader's head stands still. */
    int result = multicast_attempt(peer, &multicast, hooks);
    if (BUSQ_LIKELY(result == BUSQ_OK))
      readers_announce(peer, n_targets);
    const uint64_t timestamp = BUSQ_LIKELY(result == BUSQ_OK) ? multicast_commit(peer, &multicast) : 0;
    if (BUSQ_LIKELY(timestamp)) {
      /* One that is forced to be lost is accepted by a clock that somebody has damaged. */
      BUSQ_ASSERT(timestamp > peer->lamport || peer->proposes_stale);
      peer->lamport = timestamp;
      return BUSQ_OK;
    }
    if (result == BUSQ_OK && multicast_next_attempt(&multicast))
      continue;
    return multicast_take_back(peer, &multicast, hooks, multicast_failed(peer, &multicast, hooks, result));
  }
}

__attribute__((noinline)) static int multicast(busq_peer *peer, busq_record *record, uint64_t tag, uint32_t n_targets)
{
  return multicast_with(peer, record, tag, n_targets, NULL);
}

__attribute__((noinline)) static int multicast_accompanied(busq_peer *peer, busq_record *record, uint64_t tag, uint32_t n_targets,
                                                           busq_send_hooks *hooks)
{
  return multicast_with(peer, record, tag, n_targets, hooks);
}

/* ---- the whole of a send ---- */

/* While the record is still ours. */
static int hooks_end(busq_peer *peer, busq_send_hooks *hooks, busq_record *record, uint64_t tag)
{
  hooks->outcome = BUSQ_OK;
  if (hooks->end)
    hooks->end(hooks, peer, record, (busq_key){peer->lamport, tag, peer->slot});
  return hooks->outcome;
}

/* `only` is the route where there is one destination. */
BUSQ_ALWAYS_INLINE int send_filled(busq_peer *peer, const route *only, busq_record *record, uint64_t bytes, uint32_t n_targets,
                                   busq_send_hooks *hooks)
{
  const uint64_t tag = busq_record_tag(sequence_next(peer), 0);
  if (BUSQ_UNLIKELY(peer->tracer.begun))
    busq_tracer_send_begin(peer, peer->sequence, n_targets, hooks ? hooks->group : 0, hooks ? hooks->view : 0);
  const bool is_unicast = n_targets == 1 && (!hooks || !hooks->begin);
  int result = is_unicast ? unicast(peer, only, record, tag)
               : hooks ? multicast_accompanied(peer, record, tag, n_targets, hooks)
                           : multicast(peer, record, tag, n_targets);
  if (BUSQ_UNLIKELY(result != BUSQ_OK)) {
    if (peer->tracer.begun)
      busq_tracer_send_end(peer, 0, result);
    return result;
  }
  if (BUSQ_UNLIKELY(peer->tracer.begun) && n_targets > 1)
    busq_tracer_send_commit(peer);
  if (hooks)
    result = hooks_end(peer, hooks, record, tag);
  busq_arena_sent(&peer->arena, bytes, record);
  busq_store_relaxed(&peer->self->sent, ++peer->sent);
  /* Wake.  The swaps above come before our look at the flags: see wake.h. */
  BUSQ_STEP("wake");
  busq_fence_after_swap();
  if (n_targets == 1)
    busq_wake_reader(peer, only->reader, only->slot);
  else
    readers_wake(peer, n_targets);
  if (BUSQ_UNLIKELY(peer->tracer.begun))
    busq_tracer_send_end(peer, peer->lamport, result);
  return BUSQ_OK;
}

void busq_multicast_share_memory_slow(busq_peer *peer)
{
  busq_store_relaxed(&peer->memory_wanted_seen, busq_load_acquire(&peer->bus->header->memory_wanted));
  if (busq_arena_collect(&peer->arena, busq_step_looks))
    busq_wake_for_memory(peer->bus);
}

/* Those who sleep behind a descriptor are woken to give back what they do not need; once in a slice, for a sender that has no time
 * tries again at once. */
static void holders_ask(busq_peer *peer)
{
  (void)busq_fetch_add(&peer->bus->header->memory_wanted, 1);
  const uint64_t now_ns = busq_time_now_ns();
  if (now_ns - peer->asked_ns < BUSQ_SLICE_NS)
    return;
  peer->asked_ns = now_ns;
  busq_fence_full();
  busq_wake_deep_sleepers(peer->bus);
}

/* Memory is short.  First what the gone do not need any more, then what they have left for successors who may never come, and
 * last what others keep and do not need: those are asked for it, and we try again later.  A step of each at a time: who has no
 * time is told that there is no room, and the next one goes on from there. */
BUSQ_COLD static int memory_find(busq_peer *peer, uint64_t bytes, busq_record **recordp)
{
  busq_grave_reclaim_some(peer->bus, &peer->reclaims_slot);
  int result = busq_arena_take(&peer->arena, bytes, recordp);
  if (result == BUSQ_FULL && busq_grave_make_room(peer->bus, &peer->reclaims_slot)) {
    result = busq_arena_take(&peer->arena, bytes, recordp);
    busq_store_relaxed(&peer->finds_more, true);
  }
  if (result == BUSQ_FULL)
    holders_ask(peer);
  return result;
}

void busq_multicast_timed_out(busq_peer *peer)
{
  (void)sequence_next(peer);
  busq_tracer_send_timed_out(peer, peer->sequence);
}

BUSQ_ALWAYS_INLINE int record_take(busq_peer *peer, uint64_t bytes, busq_record **recordp)
{
  busq_multicast_share_memory(peer);
  const int result = busq_arena_take(&peer->arena, bytes, recordp);
  return BUSQ_UNLIKELY(result == BUSQ_FULL) ? memory_find(peer, bytes, recordp) : result;
}

int busq_multicast_reserve(busq_peer *peer, uint64_t size_bytes, uint32_t n_targets, busq_message *draft)
{
  busq_record *record;
  peer->failed_target = BUSQ_NO_TARGET;
  busq_store_relaxed(&peer->finds_more, false);
  const uint32_t peers = peer->bus->geometry.peers;
  if (n_targets == 0)
    n_targets = peers < BUSQ_DRAFT_TARGETS ? peers : BUSQ_DRAFT_TARGETS;
  int result = size_check(peer, size_bytes);
  if (!result && n_targets > peers)
    result = busq_error(BUSQ_INVALID, "a draft for %u receivers on a bus with %u slots", n_targets, peers);
  if (!result)
    result = record_take(peer, busq_record_payload_offset(n_targets, size_bytes) + size_bytes, &record);
  if (!result)
    draft_begin(peer, record, size_bytes, n_targets, draft);
  return result;
}

void busq_multicast_discard(busq_peer *peer, const busq_message *draft)
{
  BUSQ_ASSERT(peer->drafts > 0);
  BUSQ_STEP("draft");
  busq_arena_cancel(&peer->arena, draft_bytes(peer, draft), draft_record(peer, draft));
  peer->drafts--;
  busq_wake_for_memory(peer->bus);
}

/* Everything that can be said before there is a record: of one destination. */
BUSQ_ALWAYS_INLINE int message_admit_one(busq_peer *peer, const route *only, uint64_t target, uint64_t size_bytes)
{
  peer->failed_target = BUSQ_NO_TARGET;
  busq_store_relaxed(&peer->finds_more, false);
  busq_prefetch_write(&only->reader->queue.clock_tail);
  int result = size_check(peer, size_bytes);
  if (BUSQ_UNLIKELY(result != BUSQ_OK))
    return result;
  peer->destinations[0] = (uint16_t)only->slot;
  only->known->incarnation = busq_target_incarnation(target);
  BUSQ_TIME("sorted");
  const uint64_t tick_ns = busq_time_tick_ns();
  BUSQ_TIME("tick");
  result = destination_check(peer, only, tick_ns);
  BUSQ_TIME("checked");
  destination_ask_for(only);
  if (BUSQ_LIKELY(!result))
    result = destination_room(peer, only);
  BUSQ_TIME("has room");
  return result;
}

/* Of any number of them. */
static int message_admit(busq_peer *peer, const uint64_t *targets, uint32_t n_targets, uint64_t size_bytes)
{
  peer->failed_target = BUSQ_NO_TARGET;
  busq_store_relaxed(&peer->finds_more, false);
  int result = message_check(peer, targets, n_targets, size_bytes);
  BUSQ_TIME("checked");
  for (uint32_t i = 0; i < n_targets && !result; i++) {
    const route to = route_to(peer, peer->destinations[i]);
    result = destination_room(peer, &to);
  }
  BUSQ_TIME("has room");
  return result;
}

/* The record of a draft is there, and stays its owner's where it can't be sent. */
__attribute__((noinline)) static int draft_try(busq_peer *peer, const uint64_t *targets, uint32_t n_targets,
                                               const busq_payload *payload)
{
  const busq_message *draft = payload->draft;
  busq_record *record = draft_record(peer, draft);
  int result = message_admit(peer, targets, n_targets, payload->size_bytes);
  if (!result)
    result = draft_check(peer, payload, n_targets);
  if (!result)
    result = busq_arena_keep(&peer->arena, draft_bytes(peer, draft));
  if (result)
    return result;
  /* SYNC POINT in hand */
  busq_store_release(&peer->self->in_hand, (peer->sent + 1) << 32 | draft->record);
  /* Before the destinations: where they are more than it was reserved for, they stand where it began. */
  void *const written = (void *)(uintptr_t)draft->data;
  void *const place = (char *)record + busq_record_payload_offset(n_targets, payload->size_bytes);
  draft_move(place, written, payload->size_bytes);
  record_fill(peer, record, n_targets, payload);
  const route first = route_to(peer, peer->destinations[0]);
  result = send_filled(peer, &first, record, draft_bytes(peer, draft), n_targets, NULL);
  if (BUSQ_LIKELY(result == BUSQ_OK)) {
    peer->drafts--;
    return BUSQ_OK;
  }
  busq_store_release(&record->state.lo, BUSQ_PHASE_FREE);
  __atomic_thread_fence(__ATOMIC_RELEASE);
  draft_move(written, place, payload->size_bytes);
  return result;
}

/* What was admitted.  Compiled for each of its callers: for one destination and no hooks, which is most of what is sent, nothing is
 * left of its loops and questions. */
BUSQ_ALWAYS_INLINE int message_try(busq_peer *peer, const route *first, uint32_t n_targets, const busq_payload *payload,
                                   busq_send_hooks *hooks)
{
  busq_record *record;
  const uint64_t bytes = busq_record_payload_offset(n_targets, payload->size_bytes) + payload->size_bytes;
  int result = record_take(peer, bytes, &record);
  if (BUSQ_UNLIKELY(result != BUSQ_OK))
    return result;
  BUSQ_ASSERT(record && n_targets > 0 && n_targets <= peer->bus->geometry.peers);
  /* SYNC POINT in hand: the last message is done with before, and nobody knows of this one yet. */
  busq_store_release(&peer->self->in_hand, (peer->sent + 1) << 32 | record_reference(peer, record, 0).record);
  BUSQ_TIME("taken");
  record_fill(peer, record, n_targets, payload);
  result = send_filled(peer, first, record, bytes, n_targets, hooks);
  if (BUSQ_UNLIKELY(result != BUSQ_OK))
    busq_arena_cancel(&peer->arena, bytes, record);
  return result;
}

BUSQ_ALWAYS_INLINE int message_try_many(busq_peer *peer, const uint64_t *targets, uint32_t n_targets, const busq_payload *payload,
                                        busq_send_hooks *hooks)
{
  const int result = message_admit(peer, targets, n_targets, payload->size_bytes);
  if (BUSQ_UNLIKELY(result != BUSQ_OK))
    return result;
  const route first = route_to(peer, peer->destinations[0]);
  return message_try(peer, &first, n_targets, payload, hooks);
}

__attribute__((noinline)) static int message_try_more(busq_peer *peer, const uint64_t *targets, uint32_t n_targets,
                                                      const busq_payload *payload)
{
  return message_try_many(peer, targets, n_targets, payload, NULL);
}

BUSQ_ALWAYS_INLINE int message_try_one(busq_peer *peer, uint64_t target, const busq_payload *payload, busq_send_hooks *hooks)
{
  const route only = route_to(peer, busq_target_slot(target));
  const int result = message_admit_one(peer, &only, target, payload->size_bytes);
  return BUSQ_UNLIKELY(result != BUSQ_OK) ? result : message_try(peer, &only, 1, payload, hooks);
}

static bool is_for_one(const busq_peer *peer, const uint64_t *targets, uint32_t n_targets)
{
  return n_targets == 1 && busq_target_slot(targets[0]) < peer->bus->geometry.peers;
}

/* A draft, or what has a hooks. */
__attribute__((noinline)) static int special_try(busq_peer *peer, const uint64_t *targets, uint32_t n_targets, const busq_payload *payload)
{
  if (payload->draft)
    return draft_try(peer, targets, n_targets, payload);
  return is_for_one(peer, targets, n_targets) ? message_try_one(peer, targets[0], payload, payload->hooks)
                                              : message_try_many(peer, targets, n_targets, payload, payload->hooks);
}

int busq_multicast_try(busq_peer *peer, const uint64_t *targets, uint32_t n_targets, const busq_payload *payload)
{
  if (BUSQ_UNLIKELY((uintptr_t)payload->draft | (uintptr_t)payload->hooks))
    return special_try(peer, targets, n_targets, payload);
  return BUSQ_LIKELY(is_for_one(peer, targets, n_targets)) ? message_try_one(peer, targets[0], payload, NULL)
                                                           : message_try_more(peer, targets, n_targets, payload);
}
