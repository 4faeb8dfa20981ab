/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/send/multicast.h"
#include "base/assert.h"
#include "base/error.h"
#include "shm/message/commit.h"
#include "shm/send/admit.h"
#include "shm/send/draft.h"
#include "shm/send/find_record.h"
#include "shm/send/record.h"
#include "shm/trace/tracer.h"
#include "shm/wake/wake.h"

/*
 * A send, from top to bottom:
 *
 *      busq_multicast_try      one message, once; chooses the form that was compiled for it
 *        one_try, many_try     is it admitted (admit.h)?
 *          admitted_try        takes a record and fills it (record.h)
 *            send_filled       numbers it, makes it final, calls hooks and recording, wakes the readers
 *              unicast         one destination: ticks its clock and takes a position in one swap
 *              multicast_with  several: attempt_once stages, seals, syncs and commits; again where a helper was faster
 */

/* ---- one position in one queue ---- */

/* The process's own Lamport clock: no message that it has sent or received has a higher timestamp. */
static uint64_t peer_clock(const busq_peer *peer)
{
  return busq_timestamp_max(peer->sender.lamport, busq_load_relaxed(&peer->receiver.delivered));
}

/* A ring knows the last bits of its incarnation only: a sender that was stopped for long before it took a position may
 * have taken it from a peer that has the slot now, two thousand lives later.  Publishes nothing there but a hole to be
 * passed; as a reference would be, by a swap that can't hit a later lap. */
BUSQ_ALWAYS_INLINE bool position_is_foreign(const busq_route *to, const busq_ring_claim *claim)
{
  if (BUSQ_LIKELY((uint32_t)(busq_load_acquire(&to->reader->life) >> 32) == to->known->incarnation))
    return false;
  (void)busq_ring_publish(&to->ring, claim, busq_ring_nothing(claim->position));
  return true;
}

/* A short ring was at its end.  Or the queue is closed, as it may come to be meanwhile: it has ended, or its reader has
 * gone; what was promised a place still gets it. */
__attribute__((noinline)) static int place_again(busq_peer *peer, uint32_t slot, uint64_t proposed, uint64_t *stamp,
                                                 uint64_t limit, busq_ring_claim *claim, busq_ring_outcome *outcomep)
{
  busq_destination_cache *known = &peer->sender.known[slot];
  const busq_ring ring = busq_bus_ring(peer->bus, slot);
  for (bool is_behind = false;;) {
    if (*outcomep == BUSQ_RING_AT_END) {
      const int result = busq_destination_reserve(peer, slot, busq_ring_tail(&ring));
      if (result)
        return result;
    } else if (*outcomep == BUSQ_RING_GONE && peer->sender.sends_behind && !is_behind) {
      is_behind = true;
    } else {
      return BUSQ_OK;
    }
    *outcomep = is_behind
                    ? busq_ring_place_behind(&ring, proposed, stamp, limit, &known->head_seen, claim)
                    : busq_ring_place(&ring, known->incarnation, proposed, stamp, limit, &known->head_seen, claim);
  }
}

/* Takes a position in a destination's queue, or returns why there is none. */
BUSQ_ALWAYS_INLINE int position_take(busq_peer *peer, const busq_route *to, uint64_t proposed, uint64_t *stamp,
                                     uint64_t limit, busq_ring_claim *claim, bool *is_latep)
{
  BUSQ_ASSERT(limit <= to->ring.slot_count);
  busq_ring_outcome outcome =
      busq_ring_place(&to->ring, to->known->incarnation, proposed, stamp, limit, &to->known->head_seen, claim);
  if (BUSQ_UNLIKELY(outcome == BUSQ_RING_GONE || outcome == BUSQ_RING_AT_END)) {
    const int result = place_again(peer, to->slot, proposed, stamp, limit, claim, &outcome);
    if (result)
      return result;
  }
  *is_latep = outcome == BUSQ_RING_LATE;
  if (BUSQ_UNLIKELY(outcome == BUSQ_RING_FULL)) {
    peer->sender.failed_target = (uint64_t)to->known->incarnation << 16 | to->slot;
    return BUSQ_FULL;
  }
  if (BUSQ_UNLIKELY(outcome == BUSQ_RING_DAMAGED)) {
    (void)busq_queue_damaged(peer, to->slot);
    return BUSQ_CORRUPT;
  }
  if (BUSQ_UNLIKELY(outcome == BUSQ_RING_GONE || position_is_foreign(to, claim))) {
    return busq_destination_over(peer, to->slot);
  }
  return BUSQ_OK;
}

static inline void readers_wake(busq_peer *peer, uint32_t n_targets)
{
  for (uint32_t i = 0; i < n_targets; i++)
    busq_wake_reader(peer, &peer->bus->slots[peer->sender.destinations[i]], peer->sender.destinations[i]);
}

/* ---- one destination ---- */

BUSQ_ALWAYS_INLINE int unicast(busq_peer *peer, const busq_route *to, busq_record *record, uint64_t tag)
{
  const busq_reference reference = {peer->slot, busq_send_record_unit(peer, record), tag};
  busq_ring_claim claim;
  bool is_late;
  record->proposal = 0; /* one destination: never late */
  busq_send_set_state(record, tag, BUSQ_PHASE_COMMITTED, 0);
  do {
    const int result = position_take(peer, to, peer_clock(peer) + 1, &record->state.hi,
                                     busq_bus_limit(peer->bus, to->reader), &claim, &is_late);
    if (BUSQ_UNLIKELY(result != BUSQ_OK))
      return result;
    BUSQ_STEP("announce");
    busq_fence_after_swap();
    busq_wake_announce(peer, to->reader, to->slot);
    /* Where the hole was skipped meanwhile, no reader has seen the record: place it again, behind. */
  } while (BUSQ_UNLIKELY(!busq_ring_publish(&to->ring, &claim, reference)));
  BUSQ_ASSERT(claim.timestamp > peer->sender.lamport);
  peer->sender.lamport = claim.timestamp;
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
} attempt;

/* One more than any clock that we know of.  Higher would be as right; lower gets lost.  It is only looked up here, and
 * settled by the swap that stages at the first destination: since all senders visit queues in the same order, two that
 * propose the same there part ways there, instead of losing to each other later. */
BUSQ_ALWAYS_INLINE int propose(busq_peer *peer, attempt *self)
{
  uint64_t highest = peer_clock(peer);
  for (uint32_t i = 0; i < self->n_targets; i++)
    busq_prefetch_write(&peer->bus->slots[peer->sender.destinations[i]].queue.clock_tail);
  for (uint32_t i = 0; i < self->n_targets; i++) {
    const busq_ring ring = busq_bus_ring(peer->bus, peer->sender.destinations[i]);
    BUSQ_STEP("clock");
    const uint64_t clock = busq_ring_clock(&ring);
    /* Before any queue is touched: a proposal above a damaged clock would damage all the others. */
    if (BUSQ_UNLIKELY(!busq_timestamp_is_sound(clock)))
      return busq_queue_damaged(peer, peer->sender.destinations[i]);
    highest = busq_timestamp_max(highest, clock);
  }
  self->proposal = BUSQ_UNLIKELY(peer->sender.proposes_stale) ? 1 : highest + 1; /* every clock starts at 1 */
  busq_store_relaxed(&self->record->proposal, self->proposal);
  return BUSQ_OK;
}

/* Puts the reference into one queue.  Where that cannot be, nothing is final so far: the caller takes the message
 * back. */
BUSQ_ALWAYS_INLINE int stage(busq_peer *peer, attempt *self, uint32_t index, const busq_send_hooks *hooks)
{
  const busq_route to = busq_route_to(peer, peer->sender.destinations[index]);
  const busq_reference reference = {peer->slot, busq_send_record_unit(peer, self->record), self->tag};
  /* A message to a single queue is never late: its reader does not ask.  Without hooks it does not come here. */
  const bool is_stamped = index == 0 && (!peer->sender.proposes_stale || (hooks && self->n_targets == 1));
  uint64_t *const stamp = is_stamped ? &self->record->proposal : NULL;
  busq_ring_claim claim;
  bool is_late;
  do {
    const int result = position_take(peer, &to, self->proposal, stamp, to.ring.slot_count, &claim, &is_late);
    if (BUSQ_UNLIKELY(result != BUSQ_OK))
      return result;
    if (BUSQ_UNLIKELY(peer->tracer.begun))
      busq_tracer_stage(peer, busq_tag_sequence(self->tag), to.slot, claim.timestamp);
    BUSQ_ASSERT(claim.timestamp >= self->proposal);
    if (is_late) {
      BUSQ_ASSERT(!stamp);
      self->is_lost = true;
      self->clock_max = busq_timestamp_max(self->clock_max, claim.clock);
    }
  } while (BUSQ_UNLIKELY(!busq_ring_publish(&to.ring, &claim, reference)));
  self->proposal = claim.timestamp;
  return BUSQ_OK;
}

/*
 * One attempt: all that makes a message final.  BUSQ_OK with a timestamp: it is.  BUSQ_OK with 0: a helper has put the
 * attempt off, its references are dead, and another one follows.  Anything else: why there will be none.
 */
BUSQ_ALWAYS_INLINE int attempt_once(busq_peer *peer, attempt *self, busq_send_hooks *hooks, uint64_t *timestampp)
{
  busq_record *record = self->record;
  const uint64_t tag = self->tag;
  int result = hooks && hooks->attempt ? hooks->attempt(hooks, peer) : BUSQ_OK;
  self->is_lost = false;
  if (!result)
    result = propose(peer, self);
  /* Stage Round.  A foreseeable failure has come before this; but a receiver may die while we stage; and there is a
   * slot for every peer's message (busq_destination_room), but holes that were skipped and attempts that were put off
   * may use them up while a reader's head stands still. */
  for (uint32_t i = 0; i < self->n_targets && result == BUSQ_OK; i++) {
    BUSQ_STEP("stage");
    result = stage(peer, self, i, hooks);
  }
  if (BUSQ_UNLIKELY(result != BUSQ_OK))
    return result;
  /* Announce.  The positions are taken, and nothing is committed: deep sleepers must be awake, should we die in between
   * (wake.h). */
  BUSQ_STEP("announce");
  busq_fence_after_swap();
  for (uint32_t i = 0; i < self->n_targets; i++)
    busq_wake_announce(peer, &peer->bus->slots[peer->sender.destinations[i]], peer->sender.destinations[i]);
  if (BUSQ_LIKELY(!self->is_lost)) {
    /* Commit Round.  Every queue accepted the proposal, so every clock has reached it: one swap makes the message final
     * everywhere. */
    const bool is_ours = busq_commit_swap(record, tag, BUSQ_PHASE_STAGING, 0, BUSQ_PHASE_COMMITTED, self->proposal);
    *timestampp = BUSQ_LIKELY(is_ours) ? self->proposal : 0;
    return BUSQ_OK;
  }
  /* Seal Round.  The proposal was lost somewhere: the final timestamp lies above every clock at which the message
   * stands.  From here on it is fixed, and any process may finish the rest. */
  const uint64_t timestamp = busq_timestamp_max(self->proposal, self->clock_max) + 1;
  if (!busq_commit_swap(record, tag, BUSQ_PHASE_STAGING, 0, BUSQ_PHASE_SEALED, timestamp))
    return BUSQ_OK;
  if (BUSQ_UNLIKELY(peer->tracer.begun))
    busq_tracer_seal(peer, busq_tag_sequence(tag), timestamp);
  /* Sync Round.  Never commit before every clock has reached the timestamp: an effect could overtake its cause. */
  busq_commit_sync(peer->bus, record, timestamp);
  /* Commit Round.  If a helper was faster, it has committed at the same timestamp. */
  (void)busq_commit_swap(record, tag, BUSQ_PHASE_SEALED, timestamp, BUSQ_PHASE_COMMITTED, timestamp);
  busq_store_relaxed(&peer->self->late, ++peer->sender.late);
  *timestampp = timestamp;
  return BUSQ_OK;
}

/* A reader that waited for us has made another attempt current.  Our references are dead; only the sender stages, so go
 * on from there.  False where it is none of ours: the record is damaged, or the attempts are used up. */
static bool attempt_next(attempt *self)
{
  const busq_pair seen = busq_pair_load(&self->record->state);
  const uint64_t expected = (self->tag + BUSQ_TAG_NEXT_ATTEMPT) | BUSQ_PHASE_STAGING;
  if (seen.lo != expected || busq_tag_attempt(expected) == BUSQ_ATTEMPT_MAX)
    return false;
  self->tag += BUSQ_TAG_NEXT_ATTEMPT;
  return true;
}

/* Why there is no next attempt.  A claim that hooks have made may be broken before the commit: then the whole send is
 * retried. */
static int attempts_ended(const busq_peer *peer, const attempt *self, const busq_send_hooks *hooks)
{
  if (hooks && hooks->begin)
    return BUSQ_AGAIN;
  if (busq_tag_attempt(self->tag) + 1 >= BUSQ_ATTEMPT_MAX)
    return BUSQ_FULL;
  return busq_error(BUSQ_CORRUPT, "a message being sent by peer slot %u of bus \"%s\" is damaged; remove the bus and create it again",
                    peer->slot, peer->bus->name);
}

/* Takes back what has not been committed, as if it had never been begun, whatever attempt others have made current: the
 * references die with the attempt, and readers that they blocked may go on.  Each failure of the swap means that a
 * reader has put us off once more, which it can only once per attempt that we have staged. */
static void take_back(busq_peer *peer, const attempt *self, busq_send_hooks *hooks)
{
  enum { TRIES = 4 };
  busq_pair seen = busq_pair_load(&self->record->state);
  for (int i = 0; i < TRIES && (seen.lo & BUSQ_PHASE_MASK) == BUSQ_PHASE_STAGING; i++) {
    BUSQ_STEP("state");
    if (busq_pair_cas(&self->record->state, &seen, (busq_pair){seen.lo & ~BUSQ_PHASE_MASK, 0}))
      break;
  }
  busq_fence_full();
  readers_wake(peer, self->n_targets);
  if (hooks && hooks->undone)
    hooks->undone(hooks, peer, self->record, self->tag);
}

/* Compiled twice, so that a message without hooks is sent without a question about them. */
BUSQ_ALWAYS_INLINE int multicast_with(busq_peer *peer, busq_record *record, uint64_t tag, uint32_t n_targets,
                                      busq_send_hooks *hooks)
{
  BUSQ_ASSERT(n_targets > 1 || hooks);
  attempt self = {.record = record, .tag = tag, .n_targets = n_targets, .clock_max = peer_clock(peer)};
  busq_send_set_state(record, tag, BUSQ_PHASE_STAGING, 0);
  int result = hooks && hooks->begin ? hooks->begin(hooks, peer, record, tag) : BUSQ_OK;
  while (result == BUSQ_OK) {
    uint64_t timestamp = 0;
    result = attempt_once(peer, &self, hooks, &timestamp);
    if (BUSQ_LIKELY(timestamp)) {
      /* A proposal that tests force to be lost is accepted by a clock that is damaged. */
      BUSQ_ASSERT(timestamp > peer->sender.lamport || peer->sender.proposes_stale);
      peer->sender.lamport = timestamp;
      return BUSQ_OK;
    }
    if (result == BUSQ_OK && !attempt_next(&self))
      result = attempts_ended(peer, &self, hooks);
  }
  take_back(peer, &self, hooks);
  return result;
}

__attribute__((noinline)) static int multicast(busq_peer *peer, busq_record *record, uint64_t tag, uint32_t n_targets)
{
  return multicast_with(peer, record, tag, n_targets, NULL);
}

__attribute__((noinline)) static int multicast_hooked(busq_peer *peer, busq_record *record, uint64_t tag,
                                                      uint32_t n_targets, busq_send_hooks *hooks)
{
  return multicast_with(peer, record, tag, n_targets, hooks);
}

int busq_multicast_rise(busq_peer *peer, uint32_t slot)
{
  const busq_ring ring = busq_bus_ring(peer->bus, slot);
  BUSQ_STEP("rise");
  const uint64_t clock = busq_ring_clock(&ring);
  if (!busq_timestamp_is_sound(clock))
    return busq_queue_damaged(peer, slot);
  peer->sender.lamport = busq_timestamp_max(peer->sender.lamport, clock);
  return BUSQ_OK;
}

/* ---- the whole of a send ---- */

/* `only` is the route where there is one destination. */
BUSQ_ALWAYS_INLINE int send_filled(busq_peer *peer, const busq_route *only, busq_record *record, uint64_t bytes,
                                   uint32_t n_targets, busq_send_hooks *hooks)
{
  const uint64_t tag = busq_record_tag(busq_send_next_sequence(peer), 0);
  if (BUSQ_UNLIKELY(peer->tracer.begun))
    busq_tracer_send_begin(peer, record, n_targets, hooks ? hooks->group : 0, hooks ? hooks->view : 0);
  const bool is_unicast = n_targets == 1 && (!hooks || !hooks->begin);
  int result = is_unicast ? unicast(peer, only, record, tag)
               : hooks    ? multicast_hooked(peer, record, tag, n_targets, hooks)
                          : multicast(peer, record, tag, n_targets);
  if (BUSQ_UNLIKELY(result != BUSQ_OK)) {
    if (peer->tracer.begun)
      busq_tracer_send_end(peer, 0, result);
    return result;
  }
  if (BUSQ_UNLIKELY(peer->tracer.begun) && n_targets > 1)
    busq_tracer_send_commit(peer);
  if (hooks) {
    /* While the record is still ours. */
    hooks->outcome = BUSQ_OK;
    if (hooks->end)
      hooks->end(hooks, peer, record, (busq_key){peer->sender.lamport, tag, peer->slot});
    result = hooks->outcome;
  }
  busq_arena_sent(&peer->sender.arena, bytes, record);
  busq_store_relaxed(&peer->self->sent, ++peer->sender.sent);
  /* Wake.  The swaps above come before our look at the flags: see wake.h. */
  BUSQ_STEP("wake");
  busq_fence_after_swap();
  if (n_targets == 1)
    busq_wake_reader(peer, only->reader, only->slot);
  else
    readers_wake(peer, n_targets);
  if (BUSQ_UNLIKELY(peer->tracer.begun))
    busq_tracer_send_end(peer, peer->sender.lamport, result);
  return BUSQ_OK;
}

/* A message that was admitted.  Compiled for each of its callers: for one destination and no hooks, which is most of
 * what is sent, nothing is left of its loops and questions. */
BUSQ_ALWAYS_INLINE int admitted_try(busq_peer *peer, const busq_route *first, uint32_t n_targets,
                                    const busq_payload *payload, busq_send_hooks *hooks)
{
  busq_record *record;
  const uint64_t bytes = busq_record_payload_offset(n_targets, payload->size_bytes) + payload->size_bytes;
  int result = busq_send_take_record(peer, bytes, &record);
  if (BUSQ_UNLIKELY(result != BUSQ_OK))
    return result;
  BUSQ_ASSERT(record && n_targets > 0 && n_targets <= peer->bus->geometry.peers);
  busq_send_take_in_hand(peer, busq_send_record_unit(peer, record));
  BUSQ_TIME("taken");
  busq_send_fill(peer, record, n_targets, payload);
  result = send_filled(peer, first, record, bytes, n_targets, hooks);
  if (BUSQ_UNLIKELY(result != BUSQ_OK))
    busq_arena_cancel(&peer->sender.arena, bytes, record);
  return result;
}

BUSQ_ALWAYS_INLINE int one_try(busq_peer *peer, uint64_t target, const busq_payload *payload, busq_send_hooks *hooks)
{
  const busq_route only = busq_route_to(peer, busq_target_slot(target));
  const int result = busq_message_admit_one(peer, &only, target, payload->size_bytes);
  return BUSQ_UNLIKELY(result != BUSQ_OK) ? result : admitted_try(peer, &only, 1, payload, hooks);
}

BUSQ_ALWAYS_INLINE int many_try(busq_peer *peer, const uint64_t *targets, uint32_t n_targets,
                                const busq_payload *payload, busq_send_hooks *hooks)
{
  const int result = busq_message_admit(peer, targets, n_targets, payload->size_bytes);
  if (BUSQ_UNLIKELY(result != BUSQ_OK))
    return result;
  const busq_route first = busq_route_to(peer, peer->sender.destinations[0]);
  return admitted_try(peer, &first, n_targets, payload, hooks);
}

/* A peer, and not a group. */
static inline bool is_for_one(const busq_peer *peer, const uint64_t *targets, uint32_t n_targets)
{
  return n_targets == 1 && busq_target_slot(targets[0]) < busq_slots_reached(peer->bus);
}

__attribute__((noinline)) static int hooked_try(busq_peer *peer, const uint64_t *targets, uint32_t n_targets,
                                                const busq_payload *payload)
{
  return is_for_one(peer, targets, n_targets) ? one_try(peer, targets[0], payload, payload->hooks)
                                              : many_try(peer, targets, n_targets, payload, payload->hooks);
}

__attribute__((noinline)) static int plain_many_try(busq_peer *peer, const uint64_t *targets, uint32_t n_targets,
                                                    const busq_payload *payload)
{
  return many_try(peer, targets, n_targets, payload, NULL);
}

/* The payload's place depends on how many destinations it has, and on whether it is small: that of a large one to no
 * more than BUSQ_DRAFT_TARGETS is always the same. */
static void draft_move(void *to, const void *from, uint64_t size_bytes)
{
  if (BUSQ_UNLIKELY(to != from))
    memmove(to, from, size_bytes);
}

/* The record of a draft is there, and stays its owner's where it can't be sent. */
__attribute__((noinline)) static int draft_try(busq_peer *peer, const uint64_t *targets, uint32_t n_targets,
                                               const busq_payload *payload)
{
  const busq_message *draft = payload->draft;
  busq_record *record = busq_draft_record(peer, draft);
  int result = busq_message_admit(peer, targets, n_targets, payload->size_bytes);
  if (!result)
    result = busq_draft_check(peer, payload, n_targets);
  if (!result)
    result = busq_arena_keep(&peer->sender.arena, busq_draft_bytes(peer, draft));
  if (result)
    return result;
  busq_send_take_in_hand(peer, draft->record);
  /* Before the destinations: where they are more than it was reserved for, they stand where it began. */
  void *const written = (void *)(uintptr_t)draft->data;
  void *const place = (char *)record + busq_record_payload_offset(n_targets, payload->size_bytes);
  draft_move(place, written, payload->size_bytes);
  busq_send_fill(peer, record, n_targets, payload);
  const busq_route first = busq_route_to(peer, peer->sender.destinations[0]);
  result = send_filled(peer, &first, record, busq_draft_bytes(peer, draft), n_targets, NULL);
  if (BUSQ_LIKELY(result == BUSQ_OK)) {
    peer->sender.drafts--;
    return BUSQ_OK;
  }
  busq_send_free_record(record);
  draft_move(written, place, payload->size_bytes);
  return result;
}

/* A peer that owes notices of its coming sends those first. */
__attribute__((noinline)) static int rare_try(busq_peer *peer, const uint64_t *targets, uint32_t n_targets,
                                              const busq_payload *payload)
{
  const int result = peer->sender.owed_watchers ? peer->upcalls->owed_send(peer, targets, n_targets) : BUSQ_OK;
  if (result != BUSQ_OK)
    return result;
  return payload->draft ? draft_try(peer, targets, n_targets, payload) : hooked_try(peer, targets, n_targets, payload);
}

int busq_multicast_try(busq_peer *peer, const uint64_t *targets, uint32_t n_targets, const busq_payload *payload)
{
  if (BUSQ_UNLIKELY((uintptr_t)payload->draft | (uintptr_t)payload->hooks | (uintptr_t)peer->sender.owed_watchers))
    return rare_try(peer, targets, n_targets, payload);
  return BUSQ_LIKELY(is_for_one(peer, targets, n_targets)) ? one_try(peer, targets[0], payload, NULL)
                                                           : plain_many_try(peer, targets, n_targets, payload);
}

void busq_multicast_timed_out(busq_peer *peer)
{
  (void)busq_send_next_sequence(peer);
  busq_tracer_send_timed_out(peer, peer->sender.sequence);
}
