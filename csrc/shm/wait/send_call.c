/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/wait/send_call.h"
#include "base/assert.h"
#include "base/error.h"
#include "shm/message/shared_take.h"
#include "shm/send/draft.h"
#include "shm/trace/tracer.h"
#include "shm/wait/descriptor_settle.h"
#include "shm/wait/pacing.h"
#include "shm/wait/published.h"
#include "shm/wait/receiving_threads.h"
#include "shm/wake/wake.h"

/* ---- recording ---- */

/* When the call at hand began, and since when it waits; 0 where it does not. */
typedef struct {
  uint64_t begun;
  uint64_t blocked;
  uint32_t recording; /* whose clock gave these times; 0: none */
} send_times;

/* Before an attempt of a send.  Returns the ring that has no room for it: then the send is counted as dropped, and no
 * more is recorded.  That comes before the message can be seen: its receiver must not find a message that was never
 * sent. */
__attribute__((noinline)) static busq_trace_ring *send_record_slow(busq_peer *peer, send_times *times,
                                                                   uint32_t recording)
{
  if (peer->tracer.is_silent)
    return NULL;
  if (times->recording != recording) /* a call that goes on in another recording begins there */
    *times = (send_times){.recording = recording, .blocked = times->blocked ? busq_trace_now(recording) : 0};
  busq_trace_ring *full = busq_tracer_still_full(&peer->tracer, recording, BUSQ_TRACE_SENDING);
  if (full) {
    busq_trace_ring_drop(full, BUSQ_TRACE_SENDING, 1);
    return full;
  }
  if (!times->begun)
    times->begun = times->blocked ? times->blocked : busq_trace_now(recording);
  peer->tracer.begun = times->begun;
  peer->tracer.blocked = times->blocked;
  return NULL;
}

static inline busq_trace_ring *send_record(busq_peer *peer, send_times *times)
{
  const uint32_t recording = busq_load_relaxed(&peer->bus->header->recording);
  return BUSQ_LIKELY(!recording) ? NULL : send_record_slow(peer, times, recording);
}

static void record_timeout(busq_peer *peer, send_times *times)
{
  busq_biased_latch_acquire(&peer->sender.latch);
  if (!busq_load_relaxed(&peer->is_closed) && !send_record(peer, times)) {
    busq_multicast_timed_out(peer);
    peer->tracer.begun = peer->tracer.blocked = 0;
  }
  busq_biased_latch_release(&peer->sender.latch);
}

/* ---- one attempt ---- */

/* Under the latch: which of its receivers has no room is another send's affair afterwards. */
__attribute__((noinline)) static void full_note(const busq_peer *peer)
{
  const uint64_t target = peer->sender.failed_target;
  const uint32_t slot = busq_target_slot(target);
  const bool is_memory = target == BUSQ_NO_TARGET || slot >= busq_slots_reached(peer->bus);
  const busq_slot *queue = is_memory ? NULL : &peer->bus->slots[slot];
  (void)busq_error_full(peer->bus->name, queue ? queue->name : NULL, queue ? busq_load_relaxed(&queue->name_bytes) : 0,
                        peer->sender.is_short);
}

/* Without a job: a message to targets that are all peers, for which nothing has to be written down as long as it can be
 * sent. */
BUSQ_ALWAYS_INLINE int send_once(busq_peer *peer, const busq_send_job *job, const uint64_t *targets, uint32_t n_targets,
                                 const busq_payload *payload, send_times *times, uint64_t *failed_targetp)
{
  /* Before the latch: another thread of the parent may have held it at the fork, and would never release it here. */
  if (BUSQ_UNLIKELY(peer->fork_generation != busq_fork_generation))
    return BUSQ_FORKED;
  busq_biased_latch_acquire(&peer->sender.latch);
  BUSQ_TIME("latched");
  int result = BUSQ_CLOSED;
  if (BUSQ_LIKELY(!busq_load_relaxed(&peer->is_closed))) {
    const busq_trace_ring *full = send_record(peer, times);
    result = job ? job->attempt(peer, job->arguments) : busq_multicast_try(peer, targets, n_targets, payload);
    if (BUSQ_UNLIKELY(full) && result != BUSQ_OK)
      busq_trace_ring_undrop(full, BUSQ_TRACE_SENDING); /* and may be tried again */
    peer->tracer.begun = peer->tracer.blocked = 0;
    if (BUSQ_UNLIKELY(result == BUSQ_FULL))
      full_note(peer);
    if (failed_targetp)
      *failed_targetp = peer->sender.failed_target;
  }
  busq_biased_latch_release(&peer->sender.latch);
  return result;
}

static int job_once(busq_peer *peer, const busq_send_job *job, send_times *times, uint64_t *failed_targetp)
{
  return send_once(peer, job, NULL, 0, NULL, times, failed_targetp);
}

/* ---- waiting for room ---- */

/* A sender without room waits on this: for the reader of a full queue, or for the readers of its own messages. */
typedef struct {
  uint64_t target; /* whose queue; BUSQ_NO_TARGET: memory */
  uint32_t *sequence;
  uint32_t value;
  uint32_t n_changes; /* of the target since the last sleep */
  bool is_armed;
  bool leaves_yields_out;
  bool is_of_own; /* it was its own queue at least once, and another thread may make room there */
} waited_room;

static busq_slot *room_slot(const busq_peer *peer, uint64_t target)
{
  return target == BUSQ_NO_TARGET ? peer->self : &peer->bus->slots[busq_target_slot(target)];
}

static uint32_t *room_sequence(const busq_peer *peer, uint64_t target)
{
  busq_slot *slot = room_slot(peer, target);
  return target == BUSQ_NO_TARGET ? &slot->memory_seq : &slot->room_seq;
}

static void room_wait_arm(waited_room *room, busq_peer *peer, uint64_t failed_target)
{
  room->n_changes = room->is_armed && room->target != failed_target ? room->n_changes + 1 : 0;
  room->target = failed_target;
  busq_slot *slot = room_slot(peer, failed_target);
  uint32_t *flag = failed_target == BUSQ_NO_TARGET ? &slot->memory_waits : &slot->room_waiters;
  room->sequence = room_sequence(peer, failed_target);
  room->value = busq_load_acquire(room->sequence);
  (void)busq_fetch_or(flag, BUSQ_WAITS_FUTEX);
  busq_fence_full();
  room->is_armed = true;
}

/* May it sleep?  While it looked, the full queue may have got room, and another of its destinations none: then the
 * reader that makes room there does not know of it yet.  Readers that keep changing places with each other do not keep
 * it awake for ever. */
static bool room_wait_is_armed(const waited_room *room, uint64_t failed_target, uint32_t n_targets)
{
  return room->is_armed && (room->target == failed_target || room->n_changes > n_targets);
}

static int room_wait_sleep(waited_room *room, busq_peer *peer, busq_wait *wait)
{
  const bool is_memory = room->target == BUSQ_NO_TARGET;
  if (!wait->is_published)
    (void)busq_fetch_add(&peer->sleepers.senders_asleep, 1);
  wait->is_published = true;
  busq_published_begin(&peer->self->sends, &peer->sleepers.send_left_ns,
                       is_memory ? BUSQ_WAITING_MEMORY : BUSQ_WAITING_ROOM,
                       is_memory ? BUSQ_RING_NOBODY : busq_target_slot(room->target));
  return busq_wait_sleep(wait, room->sequence, room->value, UINT64_MAX);
}

static void other_readers_end(busq_peer *peer)
{
  if (peer->receiver.inbox_slot != peer->slot)
    busq_store_relaxed(&peer->self->awaits_readers, 0);
}

static void room_wait_end(busq_peer *peer, const waited_room *room, const busq_wait *wait, int result)
{
  busq_wait_end(result);
  if (room->is_of_own)
    busq_readers_await_end(peer);
  other_readers_end(peer);
  if (wait->is_published && busq_fetch_add(&peer->sleepers.senders_asleep, UINT32_MAX) == 1)
    busq_published_end(peer, &peer->self->sends, &peer->sleepers.send_left_ns, result);
}

static bool is_its_own(const busq_peer *peer, uint64_t failed_target)
{
  return failed_target == busq_peer_address(peer) ||
         (failed_target != BUSQ_NO_TARGET && peer->receiver.inbox_slot != peer->slot &&
          busq_target_slot(failed_target) == peer->receiver.inbox_slot);
}

/* Another process reads it as well, and does not wait for the same.
 * SYNC POINT readers await: our own word, a fence, a look at theirs.  Of readers that all send, the last one goes on. */
static bool other_readers_await(busq_peer *peer)
{
  const uint32_t queue = peer->receiver.inbox_slot;
  bool may_wait = false;
  if (queue == peer->slot)
    return false;
  busq_store_relaxed(&peer->self->awaits_readers, 1);
  busq_fence_full();
  for (uint32_t reader = 0; reader < busq_slots_reached(peer->bus) && !may_wait; reader++)
    may_wait = reader != peer->slot && busq_share_lives(peer->bus, reader, queue) &&
               !busq_load_acquire(&peer->bus->slots[reader].awaits_readers);
  if (!may_wait)
    other_readers_end(peer);
  return may_wait;
}

/* Room in its own queue comes from itself; this thread is here, and another one may not be. */
static int room_wait_check(waited_room *room, busq_peer *peer, uint64_t failed_target)
{
  if (BUSQ_LIKELY(!is_its_own(peer, failed_target)))
    return BUSQ_OK;
  room->is_of_own = busq_readers_await(peer);
  return room->is_of_own || other_readers_await(peer) ? BUSQ_OK : BUSQ_OWN_FULL;
}

/* One more attempt, also where no reader is left: the last one may have made room before it ended, or ended because the
 * peer was closed.
 *
 *      sender   finds no room
 *      another  closes the peer, or empties the queue
 *      reader   sees that nothing comes any more; its thread ends
 *      sender   finds itself alone: closed, and not full for ever */
static int room_wait_attempt(busq_peer *peer, busq_room_attempt *attempt, const void *arguments, bool is_alone,
                             uint64_t *failed_targetp)
{
  const int result = attempt(peer, arguments, failed_targetp);
  if (result != BUSQ_FULL || !is_alone || !is_its_own(peer, *failed_targetp))
    return result;
  return busq_error(BUSQ_OWN_FULL,
                    "the queue of \"%.255s\" is full, and \"%.255s\" itself sends to it, while no other thread or reader "
                    "receives from it: the call would wait for itself; receive first, and send again",
                    peer->receiver.inbox->name, peer->self->name);
}

static uint64_t room_head(const busq_peer *peer, uint64_t target)
{
  return busq_load_acquire(&peer->bus->slots[busq_target_slot(target)].queue.head);
}

/* Learns from how far the reader has come meanwhile, and not from the room that is there: other senders have filled that,
 * and with four of them each yield looked dear.  How many records have come free in memory is not known. */
static bool room_wait_yield(const waited_room *room, busq_peer *peer, busq_wait *wait, uint64_t failed_target)
{
  if (room->leaves_yields_out)
    return false;
  const bool is_known = failed_target != BUSQ_NO_TARGET;
  const uint64_t head = is_known ? room_head(peer, failed_target) : 0;
  if (!busq_wait_yield(wait, peer))
    return false;
  if (is_known)
    busq_pacing_learn_from_yield(peer, &peer->pacing.room_yields, wait->yielded_ns,
                                 busq_pacing_is_crowded(peer) ? room_head(peer, failed_target) - head : 0);
  return true;
}

/* Until the next try: BUSQ_OK, or why there is none. */
static int room_wait_turn(waited_room *room, busq_peer *peer, busq_wait *wait, uint64_t failed_target, uint32_t n_targets)
{
  int result = BUSQ_OK;
  const bool finds_more = busq_load_relaxed(&peer->sender.finds_more) && !busq_wait_is_over(wait);
  if (finds_more || busq_wait_spin(wait, peer, NULL) || room_wait_yield(room, peer, wait, failed_target))
    return BUSQ_OK;
  result = room_wait_check(room, peer, failed_target);
  if (result == BUSQ_OK && room_wait_is_armed(room, failed_target, n_targets))
    result = room_wait_sleep(room, peer, wait);
  if (result == BUSQ_OK)
    room_wait_arm(room, peer, failed_target);
  return result;
}

/* After a first attempt in vain.  BUSQ_EMPTY: there was none until the deadline. */
__attribute__((noinline)) static int room_wait(busq_peer *peer, busq_room_attempt *attempt, const void *arguments,
                                               uint32_t n_targets, int64_t timeout_ns, uint64_t failed_target)
{
  waited_room room = {0};
  busq_wait wait;
  int result = room_wait_check(&room, peer, failed_target);
  room.leaves_yields_out =
      failed_target != BUSQ_NO_TARGET && busq_pacing_leaves_yields_out(peer, &peer->pacing.room_yields);
  busq_pacing_let_room_gather(peer);
  busq_wait_begin_for(&wait, room_sequence(peer, failed_target), timeout_ns);
  (void)busq_wait_is_over(&wait); /* the time counts from now on */
  do {
    if (result != BUSQ_OWN_FULL)
      result = room_wait_turn(&room, peer, &wait, failed_target, n_targets);
    if (result == BUSQ_OK || result == BUSQ_OWN_FULL)
      result = room_wait_attempt(peer, attempt, arguments, result == BUSQ_OWN_FULL, &failed_target);
  } while (result == BUSQ_FULL);
  room_wait_end(peer, &room, &wait, result);
  return result;
}

typedef struct {
  const busq_send_job *job;
  send_times *times;
} recorded_job;

static int recorded_attempt(busq_peer *peer, const void *arguments, uint64_t *failed_targetp)
{
  const recorded_job *self = arguments;
  return job_once(peer, self->job, self->times, failed_targetp);
}

static int job_waiting(busq_peer *peer, const busq_send_job *job, int64_t timeout_ns, send_times *times,
                       uint64_t failed_target)
{
  const recorded_job recorded = {job, times};
  const int result = room_wait(peer, recorded_attempt, &recorded, job->n_targets, timeout_ns, failed_target);
  if (result != BUSQ_EMPTY)
    return result;
  if (busq_bus_is_recorded(peer->bus))
    record_timeout(peer, times);
  return BUSQ_FULL;
}

int busq_send_do(busq_peer *peer, const busq_send_job *job, int64_t timeout_ns)
{
  uint64_t failed_target;
  send_times times = {0};
  const int result = job_once(peer, job, &times, &failed_target);
  if (result != BUSQ_FULL || timeout_ns == 0)
    return result;
  times.blocked = busq_bus_recording_now(peer->bus);
  return job_waiting(peer, job, timeout_ns, &times, failed_target);
}

/* While it looks, one of its destinations may get room and another one none: it asks there as well. */
int busq_send_asking(busq_peer *peer, const busq_send_job *job)
{
  uint64_t failed_target = BUSQ_NO_TARGET, asked_target = 0;
  send_times times = {0};
  int result = job_once(peer, job, &times, &failed_target);
  for (uint32_t i = 0; result == BUSQ_FULL && i <= job->n_targets && !(i && failed_target == asked_target); i++) {
    asked_target = failed_target;
    result = busq_descriptor_ask_for_room(peer, failed_target);
    if (result == BUSQ_OK)
      result = job_once(peer, job, &times, &failed_target);
  }
  return result;
}

int busq_send_wait(busq_peer *peer, busq_room_attempt *attempt, const void *arguments, int64_t timeout_ns)
{
  uint64_t failed_target;
  int result = attempt(peer, arguments, &failed_target);
  if (BUSQ_LIKELY(result != BUSQ_FULL) || timeout_ns == 0)
    return result;
  result = room_wait(peer, attempt, arguments, 1, timeout_ns, failed_target);
  return result == BUSQ_EMPTY ? BUSQ_FULL : result;
}

/* ---- messages ---- */

typedef struct {
  const uint64_t *targets;
  uint32_t n_targets;
  const busq_payload *payload;
} message;

static int group_attempt(busq_peer *peer, const void *arguments)
{
  const message *sent = arguments;
  return peer->upcalls->send_to_group(peer, sent->targets, sent->n_targets, sent->payload);
}

static int targets_attempt(busq_peer *peer, const void *arguments)
{
  const message *sent = arguments;
  const int result = busq_multicast_try(peer, sent->targets, sent->n_targets, sent->payload);
  return result == BUSQ_TO_GROUP ? group_attempt(peer, arguments) : result;
}

/* A first attempt was in vain.  Where one of the targets is a group, or there may be room by now, another one
 * follows. */
__attribute__((noinline)) static int payload_go_on(busq_peer *peer, const message *sent, int64_t timeout_ns,
                                                   send_times *times, int result)
{
  const busq_send_job job = {result == BUSQ_TO_GROUP ? group_attempt : targets_attempt, sent, sent->n_targets};
  uint64_t failed_target;
  if (result != BUSQ_TO_GROUP && (result != BUSQ_FULL || timeout_ns == 0))
    return result;
  if (result == BUSQ_FULL)
    times->blocked = busq_bus_recording_now(peer->bus);
  result = job_once(peer, &job, times, &failed_target);
  if (result != BUSQ_FULL || timeout_ns == 0)
    return result;
  if (!times->blocked)
    times->blocked = busq_bus_recording_now(peer->bus);
  return job_waiting(peer, &job, timeout_ns, times, failed_target);
}

BUSQ_ALWAYS_INLINE int send_payload(busq_peer *peer, const uint64_t *targets, uint32_t n_targets,
                                    const busq_payload *payload, int64_t timeout_ns)
{
  send_times times = {0};
  const int result = send_once(peer, NULL, targets, n_targets, payload, &times, NULL);
  if (BUSQ_LIKELY(result == BUSQ_OK))
    return BUSQ_OK;
  return payload_go_on(peer, &(message){targets, n_targets, payload}, timeout_ns, &times, result);
}

int busq_peer_send(busq_peer *peer, const uint64_t *targets, uint32_t n_targets, const void *data, size_t size_bytes,
                   int64_t timeout_ns)
{
  const busq_part part = {data, size_bytes};
  const busq_payload payload = {&part, 1, BUSQ_FORM_DATA, size_bytes, NULL, NULL};
  return send_payload(peer, targets, n_targets, &payload, timeout_ns);
}

static int form_check(uint32_t form)
{
  return form <= BUSQ_FORM_MAX ? BUSQ_OK : busq_error(BUSQ_INVALID, "form %u of a message: expected 0 to %u", form, BUSQ_FORM_MAX);
}

int busq_send_make_payload(busq_payload *payload, const busq_part *parts, uint32_t n_parts, uint32_t form)
{
  *payload = (busq_payload){parts, n_parts, form, 0, NULL, NULL};
  const int result = form_check(form);
  if (result != BUSQ_OK)
    return result;
  for (uint32_t i = 0; i < n_parts; i++)
    if (__builtin_add_overflow(payload->size_bytes, parts[i].size_bytes, &payload->size_bytes))
      return busq_error(BUSQ_TOO_LARGE, "the %u parts of a message have more than 2^64 bytes", n_parts);
  return BUSQ_OK;
}

int busq_peer_send_parts(busq_peer *peer, const uint64_t *targets, uint32_t n_targets, const busq_part *parts,
                         uint32_t n_parts, uint32_t form, int64_t timeout_ns, uint32_t *sentp)
{
  busq_payload payload;
  int result = busq_send_make_payload(&payload, parts, n_parts, form);
  if (result == BUSQ_OK)
    result = send_payload(peer, targets, n_targets, &payload, timeout_ns);
  if (result == BUSQ_OK)
    *sentp = 1;
  return result;
}

int busq_peer_send_asking(busq_peer *peer, const uint64_t *targets, uint32_t n_targets, const busq_part *parts,
                          uint32_t n_parts, uint32_t form, uint32_t *sentp)
{
  busq_payload payload;
  const message sent = {targets, n_targets, &payload};
  int result = busq_send_make_payload(&payload, parts, n_parts, form);
  if (result == BUSQ_OK)
    result = busq_send_asking(peer, &(busq_send_job){targets_attempt, &sent, n_targets});
  if (result == BUSQ_OK)
    *sentp = 1;
  return result;
}

/* ---- drafts ---- */

int busq_peer_send_draft(busq_peer *peer, const uint64_t *targets, uint32_t n_targets, const busq_message *draft,
                         uint64_t size_bytes, uint32_t form, int64_t timeout_ns, uint32_t *sentp)
{
  const busq_payload payload = {NULL, 0, form, size_bytes, draft, NULL};
  int result = form_check(form);
  if (result == BUSQ_OK)
    result = send_payload(peer, targets, n_targets, &payload, timeout_ns);
  if (result == BUSQ_OK)
    *sentp = 1;
  return result;
}

typedef struct {
  uint64_t size_bytes;
  uint32_t n_targets;
  busq_message *draft;
} reservation;

static int reserve_once(busq_peer *peer, const void *arguments, uint64_t *failed_targetp)
{
  const reservation *wanted = arguments;
  *failed_targetp = BUSQ_NO_TARGET;
  if (BUSQ_UNLIKELY(peer->fork_generation != busq_fork_generation))
    return BUSQ_FORKED;
  busq_biased_latch_acquire(&peer->sender.latch);
  const int result = busq_load_relaxed(&peer->is_closed) ? BUSQ_CLOSED
                                                         : busq_draft_reserve(peer, wanted->size_bytes, wanted->n_targets, wanted->draft);
  if (result == BUSQ_FULL)
    full_note(peer);
  busq_biased_latch_release(&peer->sender.latch);
  return result;
}

int busq_peer_reserve(busq_peer *peer, uint64_t size_bytes, uint32_t n_targets, int64_t timeout_ns, busq_message *draft)
{
  return busq_send_wait(peer, reserve_once, &(reservation){size_bytes, n_targets, draft}, timeout_ns);
}
