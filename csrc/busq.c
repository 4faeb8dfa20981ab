/* SPDX-License-Identifier: Apache-2.0 */
#include "busq.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/time.h"
#include "shm/burial/grave.h"
#include "shm/death/join.h"
#include "shm/death/name.h"
#include "shm/death/notice.h"
#include "shm/group/group.h"
#include "shm/letter/envelope.h"
#include "shm/memory/peer.h"
#include "shm/message/reference.h"
#include "shm/message/share.h"
#include "shm/node/node.h"
#include "shm/receive/receive.h"
#include "shm/send/multicast.h"
#include "shm/trace/tracer.h"
#include "shm/wake/wake.h"
#include <string.h>

#if defined(BUSQ_STEPS) || defined(BUSQ_TIMES)
void (*busq_step_hook)(const char *where);
#endif

/* ---- the bus ---- */

int busq_bus_shutdown(busq_bus *bus)
{
  /* Who sleeps deeply behind a descriptor has no slices: it is woken first, and looks every slice, should we be killed half-way. */
  uint32_t *const words[] = {&bus->header->is_ending, &bus->header->is_shut_down};
  for (unsigned i = 0; i < 2; i++) {
    BUSQ_STEP("shutdown");
    busq_store_release(words[i], 1);
    busq_fence_full();
    busq_wake_all(bus);
  }
  return BUSQ_OK;
}

int busq_bus_is_shut_down(const busq_bus *bus)
{
  return busq_load_acquire(&bus->header->is_shut_down) != 0;
}

int busq_bus_examine(busq_bus *bus, busq_bus_facts *facts)
{
  *facts = (busq_bus_facts){
      .peers = bus->geometry.peers,
      .capacity = bus->geometry.capacity,
      .arena_bytes = bus->geometry.arena_bytes,
      .arena_used_bytes = busq_arena_used_bytes(bus, BUSQ_ARENA_NONE),
      .segment_bytes = bus->geometry.segment_bytes,
      .created_ns = bus->header->created_ns,
      .creator_pid = bus->header->creator_pid,
      .is_shut_down = busq_load_acquire(&bus->header->is_shut_down) != 0,
      .permissions = bus->header->permissions,
      .is_temporary = bus->is_temporary,
      .groups = bus->geometry.groups,
      .nodes = bus->geometry.nodes,
  };
  memcpy(facts->order, bus->order, sizeof facts->order);
  return BUSQ_OK;
}

static uint32_t peer_state(const busq_bus *bus, uint32_t slot, uint64_t life)
{
  const uint32_t state = (uint32_t)life & BUSQ_LIFE_MASK;
  if (state == BUSQ_LIFE_DEAD)
    return BUSQ_PEER_GONE;
  if (state == BUSQ_LIFE_LEFT)
    return BUSQ_PEER_CLOSED;
  if (!busq_life_is_held(bus, slot))
    return BUSQ_PEER_UNBURIED;
  return state == BUSQ_LIFE_LEAVING ? BUSQ_PEER_CLOSING : BUSQ_PEER_LIVE;
}

/* A peer with waiting senders and waiting receivers is shown as waiting to send: that is what holds others up. */
static void examine_waiting(const busq_slot *self, busq_peer_facts *facts)
{
  const busq_waits *waits = busq_load_acquire(&self->sends.what) != BUSQ_WAITING_NOT ? &self->sends : &self->receives;
  const uint32_t what = busq_load_acquire(&waits->what);
  const uint64_t since_ns = busq_load_relaxed(&waits->since_ns);
  const uint64_t now_ns = busq_time_host_ns();
  if (what == BUSQ_WAITING_NOT || what > BUSQ_WAITING_MEMORY)
    return;
  facts->waits = what;
  facts->waits_for = busq_load_relaxed(&waits->for_slot);
  facts->waited_ns = now_ns > since_ns ? now_ns - since_ns : 0;
}

/* What they have received and sent counts as received and sent by the queue; its process is one of theirs. */
static void examine_consumers(const busq_bus *bus, uint32_t slot, busq_peer_facts *facts)
{
  facts->consumers = busq_share_readers(bus, slot);
  for (uint32_t reader = 0; reader < bus->geometry.peers; reader++) {
    const busq_slot *self = &bus->slots[reader];
    if (!busq_share_is_reader_of(bus, reader, slot))
      continue;
    facts->received += busq_load_relaxed(&self->received);
    facts->sent += busq_load_relaxed(&self->sent);
    facts->memory_bytes += busq_arena_used_bytes(bus, reader);
    if (peer_state(bus, reader, busq_load_acquire(&self->life)) == BUSQ_PEER_LIVE)
      facts->pid = self->pid;
  }
}

int busq_bus_examine_peer(busq_bus *bus, uint32_t slot, busq_peer_facts *facts)
{
  memset(facts, 0, sizeof *facts);
  if (slot >= bus->geometry.peers)
    return busq_error(BUSQ_INVALID, "peer slot %u of a bus with %u slots", slot, bus->geometry.peers);
  busq_slot *self = &bus->slots[slot];
  const busq_ring ring = busq_bus_ring(bus, slot);
  const uint64_t life = busq_load_acquire(&self->life);
  const uint32_t state = (uint32_t)life & BUSQ_LIFE_MASK;
  if (state == BUSQ_LIFE_FREE || state == BUSQ_LIFE_JOINING)
    return BUSQ_EMPTY;
  const uint32_t bytes = busq_load_relaxed(&self->name_bytes);
  facts->name_bytes = bytes <= BUSQ_LAYOUT_NAME_BYTES_MAX ? bytes : BUSQ_LAYOUT_NAME_BYTES_MAX;
  memcpy(facts->name, self->name, facts->name_bytes);
  facts->state = peer_state(bus, slot, life);
  facts->is_alive = facts->state == BUSQ_PEER_LIVE;
  facts->is_durable = (life & BUSQ_LIFE_DURABLE) != 0;
  facts->is_shared = (life & BUSQ_LIFE_SHARED) != 0;
  facts->is_consumer = (life & BUSQ_LIFE_CONSUMER) != 0;
  facts->pid = self->pid;
  if (facts->is_shared)
    examine_consumers(bus, slot, facts);
  facts->incarnation = (uint32_t)(life >> 32);
  facts->target = (uint64_t)facts->incarnation << 16 | slot;
  facts->joined_ns = self->joined_ns;
  facts->clock = busq_ring_clock(&ring);
  const uint64_t head = busq_load_acquire(&self->queue.head);
  const uint64_t depth = busq_ring_tail(&ring) - head;
  facts->depth = depth <= ring.slot_count ? depth : ring.slot_count;
  facts->sent += busq_load_relaxed(&self->sent);
  facts->received += busq_load_relaxed(&self->received);
  facts->late = busq_load_relaxed(&self->late);
  facts->helped = busq_load_relaxed(&self->helped);
  facts->memory_bytes += busq_arena_used_bytes(bus, slot);
  if (facts->is_alive)
    examine_waiting(self, facts);
  return BUSQ_OK;
}

typedef struct {
  uint64_t waiting;
  uint64_t unfinished;
} message_count;

/* What stands in a ring and is a queue's: in its own, or in the hands of one of its readers (share.h). */
static void ring_count(const busq_bus *bus, uint32_t slot, uint32_t queue, message_count *count)
{
  const busq_ring ring = busq_bus_ring(bus, slot);
  const uint64_t head = busq_load_acquire(&ring.queue->head);
  const uint64_t tail = busq_ring_tail(&ring);
  for (uint64_t at = head; at < tail && at - head < ring.slot_count; at++) {
    busq_reference seen;
    if (!busq_ring_look(&ring, at, &seen) || seen.sender == BUSQ_RING_NOBODY)
      continue;
    const bool is_claimed = (seen.sender & BUSQ_RING_CLAIMED) != 0;
    if (is_claimed ? (seen.sender & BUSQ_RING_TAKEN) != 0 : busq_reference_fate(bus, queue, seen) == BUSQ_FATE_DEAD)
      continue;
    count->unfinished++;
    count->waiting += !is_claimed;
  }
}

static void hands_count(const busq_bus *bus, uint32_t queue, message_count *count)
{
  for (uint32_t reader = 0; reader < bus->geometry.peers; reader++)
    if (busq_share_is_reader_of(bus, reader, queue))
      ring_count(bus, reader, queue, count);
}

/* The queue before the hands, since messages go that way.  Where nothing was found, the hands once more: from those of a reader
 * that died a message may have gone to one whom we had looked at before. */
int busq_bus_count(busq_bus *bus, uint64_t target, uint64_t *waitingp, uint64_t *unfinishedp)
{
  const uint32_t slot = busq_target_slot(target);
  message_count count = {0};
  if (slot >= bus->geometry.peers || (uint32_t)(busq_load_acquire(&bus->slots[slot].life) >> 32) != (uint32_t)(target >> 16))
    return busq_error(BUSQ_PEER_DEAD, "the peer of slot %u of bus \"%s\" is another by now", slot, bus->name);
  ring_count(bus, slot, slot, &count);
  const bool is_shared = (busq_load_acquire(&bus->slots[slot].life) & BUSQ_LIFE_SHARED) != 0;
  for (int i = 0; i < 2 && is_shared && (i == 0 || !count.unfinished); i++)
    hands_count(bus, slot, &count);
  *waitingp = count.waiting;
  *unfinishedp = count.unfinished;
  return BUSQ_OK;
}

void busq_bus_generation(const busq_bus *bus, uint8_t *generation16)
{
  memcpy(generation16, bus->header->generation, sizeof bus->header->generation);
}

/* A peer's reason for waiting, published for anybody who asks; written only around sleeps.  A wait that was interrupted, by a
 * signal or by the end of a slice, is the same wait when the caller goes on with it at once.  Of several threads, the last one
 * to leave says that nobody waits any more. */
static void waits_begin(busq_waits *waits, uint64_t *left_ns, uint32_t what, uint32_t for_slot)
{
  enum { AT_ONCE_NS = 200000000 };
  const bool is_same = busq_load_relaxed(&waits->what) == what && busq_load_relaxed(&waits->for_slot) == for_slot;
  if (!is_same) {
    const uint64_t now_ns = busq_time_host_ns();
    const bool was_left = busq_load_relaxed(&waits->what) == BUSQ_WAITING_NOT && busq_load_relaxed(&waits->for_slot) == for_slot &&
                          now_ns - busq_load_relaxed(left_ns) < AT_ONCE_NS;
    if (!was_left)
      busq_store_relaxed(&waits->since_ns, now_ns);
  }
  busq_store_relaxed(&waits->for_slot, for_slot);
  busq_store_release(&waits->what, what);
}

static void waits_end(const busq_peer *peer, busq_waits *waits, uint64_t *left_ns, int result)
{
  if (busq_load_relaxed(&waits->what) == BUSQ_WAITING_NOT || busq_load_relaxed(&peer->is_closed))
    return;
  busq_store_relaxed(left_ns, result == BUSQ_INTERRUPTED ? busq_time_host_ns() : 0);
  busq_store_release(&waits->what, BUSQ_WAITING_NOT);
}

/* ---- sending ---- */

/* Keeps away from shared memory for a while. */
static void stay_away(uint64_t duration_ns)
{
  const uint64_t end_ns = busq_time_now_ns() + duration_ns;
  while (busq_time_now_ns() < end_ns)
    busq_cpu_relax();
}

/* For the recording: when the call at hand began, and since when it waits; 0 where it does not. */
typedef struct {
  uint64_t begun;
  uint64_t blocked;
  uint32_t recording; /* whose clock says so; 0: none */
} send_times;

/* Before an attempt of a send.  Returns the ring that has no room for it: then it is counted as dropped, and nothing more is told.  That
 * comes before anybody can see the message: who gets it must not think that it was never sent. */
__attribute__((noinline)) static busq_trace_ring *send_record_slow(busq_peer *peer, send_times *times, uint32_t recording)
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

/* What a call tries until it has come to pass: to send to targets, or what `attempt` does.  Whoever has more to say embeds it. */
typedef struct send_job send_job;
struct send_job {
  int (*attempt)(busq_peer *peer, const send_job *job);
  const uint64_t *targets;
  uint32_t n_targets;
  const busq_payload *payload;
};

/* A message to targets of which one is a group. */
static int group_attempt(busq_peer *peer, const send_job *job)
{
  return busq_group_try(peer, job->targets, job->n_targets, job->payload);
}

/* One may be. */
static int targets_attempt(busq_peer *peer, const send_job *job)
{
  const int result = busq_multicast_try(peer, job->targets, job->n_targets, job->payload);
  return result == BUSQ_TO_GROUP ? group_attempt(peer, job) : result;
}

/* Without a job: a message to targets that are all peers, of which nothing has to be written down as long as it can be sent. */
BUSQ_ALWAYS_INLINE int send_once(busq_peer *peer, const send_job *job, const uint64_t *targets, uint32_t n_targets,
                                 const busq_payload *payload, send_times *times, uint64_t *failed_targetp)
{
  /* Before the latch: another thread of the parent may have held it when the child was forked, and nobody lets go of it there. */
  if (BUSQ_UNLIKELY(peer->fork_generation != busq_fork_generation))
    return BUSQ_FORKED;
  busq_biased_latch_acquire(&peer->send_latch);
  BUSQ_TIME("latched");
  int result = BUSQ_CLOSED;
  if (BUSQ_LIKELY(!busq_load_relaxed(&peer->is_closed))) {
    const busq_trace_ring *full = send_record(peer, times);
    result = job ? job->attempt(peer, job) : busq_multicast_try(peer, targets, n_targets, payload);
    if (BUSQ_UNLIKELY(full) && result != BUSQ_OK)
      busq_trace_ring_undrop(full, BUSQ_TRACE_SENDING); /* and may be tried again */
    peer->tracer.begun = peer->tracer.blocked = 0;
    if (failed_targetp)
      *failed_targetp = peer->failed_target;
  }
  busq_biased_latch_release(&peer->send_latch);
  return result;
}

static int job_once(busq_peer *peer, const send_job *job, send_times *times, uint64_t *failed_targetp)
{
  return send_once(peer, job, job->targets, job->n_targets, job->payload, times, failed_targetp);
}

/* A sender that found no room waits on this: the reader of a full queue, or the readers of its own messages. */
typedef struct {
  uint64_t target; /* whose room; BUSQ_NO_TARGET: memory */
  uint32_t *sequence;
  uint32_t value;
  uint32_t n_changes; /* of the target since the last sleep */
  bool is_armed;
} room_wait;

static bool room_is_memory(const room_wait *room)
{
  return room->target == BUSQ_NO_TARGET;
}

static void room_wait_arm(room_wait *room, busq_peer *peer, uint64_t failed_target)
{
  room->n_changes = room->is_armed && room->target != failed_target ? room->n_changes + 1 : 0;
  room->target = failed_target;
  busq_slot *slot = room_is_memory(room) ? peer->self : &peer->bus->slots[busq_target_slot(failed_target)];
  uint32_t *flag = room_is_memory(room) ? &slot->memory_waits : &slot->room_waiters;
  room->sequence = room_is_memory(room) ? &slot->memory_seq : &slot->room_seq;
  room->value = busq_load_acquire(room->sequence);
  (void)busq_fetch_or(flag, BUSQ_WAITS_FUTEX);
  busq_fence_full();
  room->is_armed = true;
}

/* May it sleep?  While it looked, the queue that was full may have got room, and another of its destinations none: then nobody
 * who makes room there knows of it yet.  Readers who keep changing places with each other do not keep it awake for ever. */
static bool room_wait_is_armed(const room_wait *room, uint64_t failed_target, uint32_t n_targets)
{
  return room->is_armed && (room->target == failed_target || room->n_changes > n_targets);
}

static int room_wait_sleep(room_wait *room, busq_peer *peer, busq_wait *wait)
{
  if (!wait->is_told)
    (void)busq_fetch_add(&peer->senders_asleep, 1);
  wait->is_told = true;
  waits_begin(&peer->self->sends, &peer->send_left_ns, room_is_memory(room) ? BUSQ_WAITING_MEMORY : BUSQ_WAITING_ROOM,
              room_is_memory(room) ? BUSQ_RING_NOBODY : busq_target_slot(room->target));
  return busq_wait_sleep(wait, room->sequence, room->value, UINT64_MAX);
}

static void room_wait_end(busq_peer *peer, const busq_wait *wait, int result)
{
  if (wait->is_told && busq_fetch_add(&peer->senders_asleep, UINT32_MAX) == 1)
    waits_end(peer, &peer->self->sends, &peer->send_left_ns, result);
}

/* As for a reader that has caught up: a sender that has run against the end of a long queue lets some room gather. */
static void let_room_gather(const busq_peer *peer)
{
  enum { LONG_QUEUE = 64, GATHER_NS = 1000 };
  if (peer->bus->geometry.capacity >= LONG_QUEUE && peer->spin_ns)
    stay_away(GATHER_NS);
}

static void send_timed_out(busq_peer *peer, send_times *times)
{
  busq_biased_latch_acquire(&peer->send_latch);
  if (!busq_load_relaxed(&peer->is_closed) && !send_record(peer, times)) {
    busq_multicast_timed_out(peer);
    peer->tracer.begun = peer->tracer.blocked = 0;
  }
  busq_biased_latch_release(&peer->send_latch);
}

__attribute__((noinline)) static int send_waiting(busq_peer *peer, const send_job *job, int64_t timeout_ns, send_times *times,
                                                  uint64_t failed_target)
{
  room_wait room = {0};
  busq_wait wait;
  let_room_gather(peer);
  busq_wait_begin(&wait, timeout_ns);
  (void)busq_wait_is_over(&wait); /* the time counts from now on */
  for (;;) {
    const bool goes_on = busq_load_relaxed(&peer->finds_more) && !busq_wait_is_over(&wait);
    if (!goes_on && !busq_wait_spin(&wait, peer, NULL) && !busq_wait_yield(&wait, peer)) {
      if (room_wait_is_armed(&room, failed_target, job->n_targets)) {
        const int result = room_wait_sleep(&room, peer, &wait);
        if (result != BUSQ_OK) {
          room_wait_end(peer, &wait, result);
          if (result == BUSQ_EMPTY && busq_bus_is_recorded(peer->bus))
            send_timed_out(peer, times);
          return result == BUSQ_EMPTY ? BUSQ_FULL : result;
        }
      }
      room_wait_arm(&room, peer, failed_target);
    }
    const int result = job_once(peer, job, times, &failed_target);
    if (result != BUSQ_FULL) {
      room_wait_end(peer, &wait, result);
      return result;
    }
  }
}

static int send_job_do(busq_peer *peer, const send_job *job, int64_t timeout_ns)
{
  uint64_t failed_target;
  send_times times = {0};
  const int result = job_once(peer, job, &times, &failed_target);
  if (result != BUSQ_FULL || timeout_ns == 0)
    return result;
  times.blocked = busq_bus_recording_now(peer->bus);
  return send_waiting(peer, job, timeout_ns, &times, failed_target);
}

/* A first attempt was in vain.  Where one of the targets is a group, or there may be room by now, another one follows. */
__attribute__((noinline)) static int payload_go_on(busq_peer *peer, const uint64_t *targets, uint32_t n_targets,
                                                   const busq_payload *payload, int64_t timeout_ns, send_times *times, int result)
{
  const send_job job = {.attempt = result == BUSQ_TO_GROUP ? group_attempt : targets_attempt,
                        .targets = targets,
                        .n_targets = n_targets,
                        .payload = payload};
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
  return send_waiting(peer, &job, timeout_ns, times, failed_target);
}

BUSQ_ALWAYS_INLINE int send_payload(busq_peer *peer, const uint64_t *targets, uint32_t n_targets, const busq_payload *payload,
                                    int64_t timeout_ns)
{
  send_times times = {0};
  const int result = send_once(peer, NULL, targets, n_targets, payload, &times, NULL);
  if (BUSQ_LIKELY(result == BUSQ_OK))
    return BUSQ_OK;
  return payload_go_on(peer, targets, n_targets, payload, timeout_ns, &times, result);
}

int busq_peer_send(busq_peer *peer, const uint64_t *targets, uint32_t n_targets, const void *data, size_t size_bytes,
                   int64_t timeout_ns)
{
  const busq_part part = {data, size_bytes};
  const busq_payload payload = {&part, 1, BUSQ_FORM_DATA, size_bytes, NULL, NULL};
  return send_payload(peer, targets, n_targets, &payload, timeout_ns);
}

static int form_unknown(uint32_t form)
{
  return busq_error(BUSQ_INVALID, "form %u of a message: expected 0 to %u", form, BUSQ_FORM_MAX);
}

static int payload_make(busq_payload *payload, const busq_part *parts, uint32_t n_parts, uint32_t form)
{
  *payload = (busq_payload){parts, n_parts, form, 0, NULL, NULL};
  if (form > BUSQ_FORM_MAX)
    return form_unknown(form);
  for (uint32_t i = 0; i < n_parts; i++)
    if (__builtin_add_overflow(payload->size_bytes, parts[i].size_bytes, &payload->size_bytes))
      return busq_error(BUSQ_TOO_LARGE, "the %u parts of a message have more than 2^64 bytes", n_parts);
  return BUSQ_OK;
}

int busq_peer_send_parts(busq_peer *peer, const uint64_t *targets, uint32_t n_targets, const busq_part *parts, uint32_t n_parts,
                         uint32_t form, int64_t timeout_ns, uint32_t *sentp)
{
  busq_payload payload;
  int result = payload_make(&payload, parts, n_parts, form);
  if (result == BUSQ_OK)
    result = send_payload(peer, targets, n_targets, &payload, timeout_ns);
  if (result == BUSQ_OK)
    *sentp = 1;
  return result;
}

/* ---- sending behind a descriptor ---- */

static int room_ask(busq_peer *peer, uint64_t failed_target)
{
  const bool is_memory = failed_target == BUSQ_NO_TARGET || busq_target_slot(failed_target) >= peer->bus->geometry.peers;
  const uint32_t slot = is_memory ? BUSQ_RING_NOBODY : busq_target_slot(failed_target);
  int result = busq_peer_receive_begin(peer);
  if (result != BUSQ_OK)
    return result;
  result = busq_fifo_open(peer);
  if (result == BUSQ_OK) {
    busq_room_ask(peer, slot);
    /* There may be room for who looks once more; nobody else would say so. */
    if (busq_load_relaxed(&peer->finds_more))
      busq_room_come(peer, slot);
  }
  busq_biased_latch_release(&peer->receive_latch);
  return result;
}

/* While it looks, one of its destinations may get room and another one none: it asks there as well. */
static int send_job_asking(busq_peer *peer, const send_job *job)
{
  uint64_t failed_target = BUSQ_NO_TARGET, asked_target = 0;
  send_times times = {0};
  int result = job_once(peer, job, &times, &failed_target);
  for (uint32_t i = 0; result == BUSQ_FULL && i <= job->n_targets && !(i && failed_target == asked_target); i++) {
    asked_target = failed_target;
    result = room_ask(peer, failed_target);
    if (result == BUSQ_OK)
      result = job_once(peer, job, &times, &failed_target);
  }
  return result;
}

int busq_peer_ask_for_room(busq_peer *peer)
{
  return room_ask(peer, busq_peer_failed_target(peer));
}

int busq_peer_send_asking(busq_peer *peer, const uint64_t *targets, uint32_t n_targets, const busq_part *parts, uint32_t n_parts,
                          uint32_t form, uint32_t *sentp)
{
  busq_payload payload;
  const send_job job = {.attempt = targets_attempt, .targets = targets, .n_targets = n_targets, .payload = &payload};
  int result = payload_make(&payload, parts, n_parts, form);
  if (result == BUSQ_OK)
    result = send_job_asking(peer, &job);
  if (result == BUSQ_OK)
    *sentp = 1;
  return result;
}

/* ---- nodes ---- */

typedef struct {
  send_job job;
  const busq_letter *letter;
  uint8_t *missed;
} letter_job;

static int letter_attempt(busq_peer *peer, const send_job *job)
{
  const letter_job *mine = (const letter_job *)(const void *)job;
  return busq_node_send(peer, mine->letter, job->payload, mine->missed);
}

static int letter_result(int result, uint32_t *sentp)
{
  *sentp = result == BUSQ_OK || result == BUSQ_NODE_MISSED;
  if (result != BUSQ_NODE_MISSED)
    return result;
  return busq_error(BUSQ_PEER_DEAD, "a node was destroyed before the message's place in the order, or its owner is gone");
}

/* A message in the order of the application's wishes, waiting or not. */
static int letter_send(busq_peer *peer, const busq_letter *letter, const busq_part *parts, uint32_t n_parts, uint32_t form,
                       bool is_asking, int64_t timeout_ns, uint8_t *missed, uint32_t *sentp)
{
  busq_payload payload;
  const letter_job mine = {
      .job = {.attempt = letter_attempt, .n_targets = letter->n_targets + letter->n_nodes, .payload = &payload},
      .letter = letter,
      .missed = missed,
  };
  const int result = payload_make(&payload, parts, n_parts, form);
  if (result)
    return result;
  return letter_result(is_asking ? send_job_asking(peer, &mine.job) : send_job_do(peer, &mine.job, timeout_ns), sentp);
}

int busq_peer_send_letter(busq_peer *peer, const busq_letter *letter, const busq_part *parts, uint32_t n_parts, uint32_t form,
                          int64_t timeout_ns, uint8_t *missed, uint32_t *sentp)
{
  return letter_send(peer, letter, parts, n_parts, form, false, timeout_ns, missed, sentp);
}

int busq_peer_send_letter_asking(busq_peer *peer, const busq_letter *letter, const busq_part *parts, uint32_t n_parts, uint32_t form,
                                 uint8_t *missed, uint32_t *sentp)
{
  return letter_send(peer, letter, parts, n_parts, form, true, 0, missed, sentp);
}

static int nodes_check(const busq_peer *peer)
{
  if (peer->is_consumer)
    return busq_error(BUSQ_INVALID, "\"%.255s\" is a queue that several processes read: it has no nodes and no handles", peer->inbox->name);
  if (!peer->bus->geometry.nodes)
    return busq_error(BUSQ_INVALID, "bus \"%s\" has no room for nodes: create it with nodes=1 or more", peer->bus->name);
  return BUSQ_OK;
}

typedef struct {
  send_job job;
  uint64_t *node;
} node_job;

static int node_make_attempt(busq_peer *peer, const send_job *job)
{
  busq_node_name name;
  int result = nodes_check(peer);
  if (!result)
    result = busq_node_make(peer, &name);
  if (!result)
    *((const node_job *)(const void *)job)->node = busq_node_pack(name);
  return result;
}

int busq_peer_node(busq_peer *peer, uint64_t *nodep)
{
  const node_job mine = {{.attempt = node_make_attempt}, nodep};
  return send_job_do(peer, &mine.job, 0);
}

static int node_end_attempt(busq_peer *peer, const send_job *job)
{
  return busq_node_end(peer, busq_node_unpack(*((const node_job *)(const void *)job)->node));
}

int busq_peer_node_destroy(busq_peer *peer, uint64_t node, int64_t timeout_ns)
{
  const node_job mine = {{.attempt = node_end_attempt, .n_targets = peer->bus->geometry.peers}, &node};
  if (busq_node_unpack(node).slot != peer->slot)
    return busq_error(BUSQ_INVALID, "a node of another peer: its owner alone destroys it");
  return send_job_do(peer, &mine.job, timeout_ns);
}

int busq_peer_node_is_alive(busq_peer *peer, uint64_t node)
{
  return busq_node_is_alive(peer, busq_node_unpack(node));
}

void busq_peer_handle_release(busq_peer *peer, uint64_t node)
{
  if (peer->fork_generation == busq_fork_generation)
    busq_node_release(peer, busq_node_unpack(node));
}

int busq_peer_handle_is_held(busq_peer *peer, uint64_t node)
{
  return busq_node_is_held(peer, busq_node_unpack(node));
}

int busq_peer_node_owner(busq_peer *peer, uint64_t node, char *name, size_t *name_bytesp)
{
  const busq_node_name which = busq_node_unpack(node);
  return busq_peer_slot_name(peer, which.slot, busq_node_owner(peer->bus, which), name, name_bytesp);
}

int busq_peer_next_node(busq_peer *peer, uint64_t *fromp, uint64_t *nodep, uint32_t *is_ownp)
{
  busq_node_name name;
  bool is_own;
  if (!busq_node_next(peer, fromp, &name, &is_own))
    return BUSQ_EMPTY;
  *nodep = busq_node_pack(name);
  *is_ownp = is_own;
  return BUSQ_OK;
}

uint64_t busq_peer_handles_alive(const busq_peer *peer)
{
  return peer->handles_alive;
}

int busq_peer_send_draft(busq_peer *peer, const uint64_t *targets, uint32_t n_targets, const busq_message *draft,
                         uint64_t size_bytes, uint32_t form, int64_t timeout_ns, uint32_t *sentp)
{
  const busq_payload payload = {NULL, 0, form, size_bytes, draft, NULL};
  if (form > BUSQ_FORM_MAX)
    return form_unknown(form);
  const int result = send_payload(peer, targets, n_targets, &payload, timeout_ns);
  if (result == BUSQ_OK)
    *sentp = 1;
  return result;
}

int busq_peer_listen(busq_peer *peer, uint32_t what)
{
  int result = busq_peer_receive_begin(peer);
  if (result != BUSQ_OK)
    return result;
  result = busq_fifo_open(peer);
  if (result == BUSQ_OK) {
    if (what == BUSQ_LISTEN_NOT) {
      busq_room_forget(peer);
      busq_fifo_hush(peer);
    }
    peer->listens = what;
  }
  busq_peer_receive_end(peer);
  return result;
}

/* ---- memory for a message ---- */

static int reserve_once(busq_peer *peer, uint64_t size_bytes, uint32_t n_targets, busq_message *draft)
{
  if (BUSQ_UNLIKELY(peer->fork_generation != busq_fork_generation))
    return BUSQ_FORKED;
  busq_biased_latch_acquire(&peer->send_latch);
  const int result = busq_load_relaxed(&peer->is_closed) ? BUSQ_CLOSED : busq_multicast_reserve(peer, size_bytes, n_targets, draft);
  busq_biased_latch_release(&peer->send_latch);
  return result;
}

/* As send_waiting, but that only memory can be missing. */
static int reserve_waiting(busq_peer *peer, uint64_t size_bytes, uint32_t n_targets, int64_t timeout_ns, busq_message *draft)
{
  room_wait room = {0};
  busq_wait wait;
  busq_wait_begin(&wait, timeout_ns);
  (void)busq_wait_is_over(&wait); /* the time counts from now on */
  for (;;) {
    int result = BUSQ_OK;
    const bool goes_on = busq_load_relaxed(&peer->finds_more) && !busq_wait_is_over(&wait);
    if (!goes_on && !busq_wait_spin(&wait, peer, NULL) && !busq_wait_yield(&wait, peer)) {
      if (room.is_armed)
        result = room_wait_sleep(&room, peer, &wait);
      room_wait_arm(&room, peer, BUSQ_NO_TARGET);
    }
    if (result == BUSQ_OK)
      result = reserve_once(peer, size_bytes, n_targets, draft);
    if (result != BUSQ_FULL) {
      room_wait_end(peer, &wait, result);
      return result == BUSQ_EMPTY ? BUSQ_FULL : result;
    }
  }
}

int busq_peer_reserve(busq_peer *peer, uint64_t size_bytes, uint32_t n_targets, int64_t timeout_ns, busq_message *draft)
{
  const int result = reserve_once(peer, size_bytes, n_targets, draft);
  if (BUSQ_LIKELY(result != BUSQ_FULL) || timeout_ns == 0)
    return result;
  return reserve_waiting(peer, size_bytes, n_targets, timeout_ns, draft);
}

void busq_peer_discard(busq_peer *peer, const busq_message *draft)
{
  if (peer->fork_generation != busq_fork_generation)
    return;
  busq_biased_latch_acquire(&peer->send_latch);
  if (!busq_load_relaxed(&peer->is_closed)) {
    busq_multicast_discard(peer, draft);
  } else {
    /* Its memory goes with all the rest: the lists that it would stand on are nobody's any more. */
    busq_biased_latch_acquire(&peer->receive_latch);
    if (!--peer->drafts && !peer->pins)
      busq_join_finish_close(peer);
    busq_biased_latch_release(&peer->receive_latch);
  }
  busq_biased_latch_release(&peer->send_latch);
}

uint64_t busq_peer_failed_target(busq_peer *peer)
{
  return peer->failed_target;
}

int busq_peer_limit(busq_peer *peer, uint32_t limit)
{
  const int result = busq_peer_check(peer);
  if (!result)
    busq_store_relaxed(&peer->inbox->limit, limit);
  return result;
}

/* ---- groups ---- */

typedef struct {
  send_job job;
  busq_change change;
} change_job;

static int change_attempt(busq_peer *peer, const send_job *job)
{
  return busq_group_change_try(peer, &((const change_job *)(const void *)job)->change);
}

/* The name may be forgotten, and its entry another's, between the look and the change. */
static int group_change(busq_peer *peer, const char *name, size_t bytes, bool is_made, uint32_t what, int64_t timeout_ns)
{
  change_job mine = {{.attempt = change_attempt, .n_targets = 1}, {.who = busq_peer_target(peer), .what = what}};
  int result;
  do {
    result = busq_group_named(peer->bus, name, bytes, is_made, &mine.change.group);
    if (result)
      return result;
    result = send_job_do(peer, &mine.job, timeout_ns);
  } while (is_made && result == BUSQ_UNKNOWN_PEER);
  if (result == BUSQ_OK && is_made)
    busq_peer_care(peer, BUSQ_CARES_FOR_MEMBERS);
  return result;
}

static int group_may_change(const busq_peer *peer, const char *what)
{
  const int result = busq_peer_check(peer);
  if (!result && peer->is_consumer)
    return busq_error(BUSQ_INVALID, "one of several readers of \"%s\" can't %s: what came of it would go to any of them",
                      peer->inbox->name, what);
  return result;
}

int busq_peer_enter(busq_peer *peer, const char *group, size_t group_bytes, int64_t timeout_ns)
{
  int result = group_may_change(peer, "enter a group");
  if (!result)
    result = busq_group_check(group, group_bytes);
  return result ? result : group_change(peer, group, group_bytes, true, BUSQ_CHANGE_ENTERS, timeout_ns);
}

/* A group that nobody knows is one that we are not in. */
int busq_peer_leave(busq_peer *peer, const char *group, size_t group_bytes, int64_t timeout_ns)
{
  int result = group_may_change(peer, "leave a group");
  if (!result)
    result = busq_group_check(group, group_bytes);
  if (!result)
    result = group_change(peer, group, group_bytes, false, BUSQ_CHANGE_LEAVES, timeout_ns);
  return result == BUSQ_UNKNOWN_PEER ? BUSQ_OK : result;
}

static int watched_name(const busq_peer *peer, const char *name, size_t bytes, char *group)
{
  int result = group_may_change(peer, "watch a peer");
  if (!result)
    result = busq_name_check(name, bytes);
  if (result)
    return result;
  group[0] = '?';
  memcpy(group + 1, name, bytes);
  return BUSQ_OK;
}

/* Whoever comes or goes while we begin to watch is told of by itself, or was found by us; what we have missed, we tell now. */
int busq_peer_watch(busq_peer *peer, const char *name, size_t name_bytes, int64_t timeout_ns)
{
  char group[BUSQ_LAYOUT_NAME_BYTES_MAX + 1];
  uint64_t target;
  int result = watched_name(peer, name, name_bytes, group);
  if (!result)
    result = group_change(peer, group, name_bytes + 1, true, BUSQ_CHANGE_ENTERS, timeout_ns);
  if (result || busq_group_named(peer->bus, group, name_bytes + 1, false, &target))
    return result;
  busq_biased_latch_acquire(&peer->send_latch);
  if (!busq_load_relaxed(&peer->is_closed))
    (void)busq_group_subject_tell(peer, target);
  busq_biased_latch_release(&peer->send_latch);
  return BUSQ_OK;
}

int busq_peer_unwatch(busq_peer *peer, const char *name, size_t name_bytes, int64_t timeout_ns)
{
  char group[BUSQ_LAYOUT_NAME_BYTES_MAX + 1];
  int result = watched_name(peer, name, name_bytes, group);
  if (!result)
    result = group_change(peer, group, name_bytes + 1, false, BUSQ_CHANGE_LEAVES, timeout_ns);
  return result == BUSQ_UNKNOWN_PEER ? BUSQ_OK : result;
}

/* It was checked when the message was found. */
void busq_message_envelope(const busq_message *message, busq_envelope *envelope)
{
  *envelope = (busq_envelope){.kind = BUSQ_KIND_DATA};
  if (message->form & BUSQ_FORM_ENVELOPE)
    memcpy(envelope, (const char *)message->data + message->size_bytes +
                         (message->n_nodes + (uint64_t)message->n_handles) * sizeof(busq_node_name),
           sizeof *envelope);
}

int busq_bus_view(busq_bus *bus, const char *group, size_t group_bytes, uint64_t *numberp, uint64_t *members, uint32_t *countp)
{
  uint64_t target;
  int result = busq_group_check(group, group_bytes);
  if (!result)
    result = busq_group_named(bus, group, group_bytes, false, &target);
  if (result)
    return result;
  const uint32_t index = busq_group_index(target);
  if (!busq_group_members(bus, index, members, countp, numberp))
    return busq_group_damaged(bus, index);
  *numberp -= busq_load_relaxed(&busq_bus_group(bus, index)->base);
  return BUSQ_OK;
}

int busq_bus_group_name(busq_bus *bus, uint32_t index, char *name257, size_t *name_bytesp)
{
  if (index >= bus->geometry.groups)
    return busq_error(BUSQ_INVALID, "group %u of a bus with %u groups", index, bus->geometry.groups);
  const busq_group *group = busq_bus_group(bus, index);
  const uint32_t bytes = busq_load_relaxed(&group->name_bytes);
  if (!busq_load_acquire(&group->identity.hi) || bytes < 2 || bytes >= sizeof group->name)
    return BUSQ_EMPTY;
  memcpy(name257, group->name, bytes);
  *name_bytesp = bytes;
  return BUSQ_OK;
}

int busq_bus_group_seen(busq_bus *bus, uint32_t index, uint32_t slot, uint64_t *numberp)
{
  if (index >= bus->geometry.groups || slot >= bus->geometry.peers)
    return busq_error(BUSQ_INVALID, "slot %u and group %u of a bus with %u peer slots and %u groups", slot, index,
                      bus->geometry.peers, bus->geometry.groups);
  busq_group *group = busq_bus_group(bus, index);
  const uint64_t seen = busq_load_relaxed(&busq_group_viewed(group, bus->geometry.peers)[slot]) >> 1;
  const uint64_t base = busq_load_relaxed(&group->base); /* what is below belongs to a group that had the entry before */
  *numberp = seen > base ? seen - base : 0;
  return BUSQ_OK;
}

/* ---- receiving ---- */

/* Looks, and where something blocks the queue for too long, gets it out of the way and looks again.  Each turn deals with one
 * message, so the number of turns only matters where somebody writes nonsense into the queue faster than we read it. */
static int receive_look(busq_peer *peer)
{
  enum { TURNS = 64 };
  int result = busq_receive_peek(peer);
  for (int turn = 0; result == BUSQ_EMPTY && turn < TURNS && busq_receive_help(peer); turn++)
    result = busq_receive_peek(peer);
  return result;
}

/* Whether something has come to pass that the descriptor tells of. */
static int fifo_look(busq_peer *peer)
{
  if (busq_room_has_come(peer))
    return BUSQ_OK;
  const int result = peer->listens & BUSQ_LISTEN_MESSAGES ? receive_look(peer) : BUSQ_EMPTY;
  return result == BUSQ_EMPTY && busq_load_acquire(&peer->bus->header->is_shut_down) ? BUSQ_SHUTDOWN : result;
}

/* For how long it may stay unreadable if nobody says anything. */
static uint64_t fifo_limit_ns(const busq_peer *peer)
{
  uint64_t limit_ns = peer->listens & BUSQ_LISTEN_MESSAGES ? peer->blocker.help_in_ns : UINT64_MAX;
  if (peer->asked && peer->room_slice_ns < limit_ns)
    limit_ns = peer->room_slice_ns;
  if (busq_load_acquire(&peer->bus->header->is_ending) && BUSQ_SLICE_NS < limit_ns)
    limit_ns = BUSQ_SLICE_NS;
  return limit_ns;
}

/* fileno() is readable while something can be received, or while receiving would fail at once; and, for a moment, whenever it is
 * time to look, and when a sender is about to wake it from a deep sleep. */
static void fifo_settle(busq_peer *peer)
{
  if (peer->listens == BUSQ_LISTEN_NOT)
    return;
  const bool is_armed =
      peer->fifo_epoch && busq_load_acquire(&peer->inbox->wake_flags) >> 1 == peer->fifo_epoch;
  int result = fifo_look(peer);
  if (peer->received != peer->fifo_received)
    busq_fifo_stir(peer);
  peer->fifo_received = peer->received;
  /* A sender writes its byte first and takes the flag down afterwards: armed, there may still be a byte of a message that is
   * gone.  Several readers have one FIFO: who finds nothing empties it for all, raises the flag, and looks again; so a message that
   * came since, whoever's byte was lost with the others, is found here, and told to all. */
  if (result == BUSQ_EMPTY &&
      (!is_armed || peer->fifo_is_raised || busq_fifo_may_deepen(peer) || busq_fifo_drain(peer))) {
    busq_fifo_arm(peer);
    peer->fifo_is_raised = false;
    busq_wake_for_room(peer->bus, peer->inbox_slot); /* behind a fence, as in receive_tidy */
    result = fifo_look(peer);
  }
  if (result == BUSQ_EMPTY) {
    busq_fifo_look_again(peer, fifo_limit_ns(peer));
    return;
  }
  busq_fifo_stir(peer);
  if (!peer->fifo_is_raised) {
    busq_fifo_raise(peer);
    peer->fifo_is_raised = true;
  }
}

/* Also a peer that only receives may keep memory from what it sent once. */
static void share_memory(busq_peer *peer)
{
  busq_biased_latch_acquire(&peer->send_latch);
  if (!busq_load_relaxed(&peer->is_closed))
    busq_multicast_share_memory(peer);
  busq_biased_latch_release(&peer->send_latch);
}

BUSQ_ALWAYS_INLINE int receive_begin(busq_peer *peer)
{
  if (BUSQ_UNLIKELY(peer->fork_generation != busq_fork_generation))
    return BUSQ_FORKED;
  busq_biased_latch_acquire(&peer->receive_latch);
  BUSQ_TIME("latched");
  if (BUSQ_UNLIKELY(busq_load_relaxed(&peer->is_closed))) {
    busq_biased_latch_release(&peer->receive_latch);
    return BUSQ_CLOSED;
  }
  return BUSQ_OK;
}

int busq_peer_receive_begin(busq_peer *peer)
{
  return receive_begin(peer);
}

void busq_peer_receive_end(busq_peer *peer)
{
  if (BUSQ_UNLIKELY(peer->has_reached))
    busq_receive_put_back(peer);
  if (BUSQ_UNLIKELY(peer->fifo_fd >= 0))
    fifo_settle(peer);
  if (BUSQ_UNLIKELY(peer->tracer.n_taken))
    busq_tracer_flush(peer);
  busq_biased_latch_release(&peer->receive_latch);
  if (BUSQ_UNLIKELY(busq_multicast_is_memory_wanted(peer)))
    share_memory(peer);
  busq_mourn(peer);
}

BUSQ_ALWAYS_INLINE void message_found(const busq_peer *peer, busq_message *message)
{
  const busq_found *found = &peer->found;
  message->data = found->payload;
  message->size_bytes = found->size_bytes;
  message->position = BUSQ_UNLIKELY(peer->is_consumer) ? peer->kept_at : found->position;
  message->tag = found->key.sequence;
  message->record = (uint32_t)((uint64_t)((char *)found->record - peer->bus->arena) / BUSQ_LAYOUT_UNIT_BYTES);
  message->sender_incarnation = found->sender_incarnation;
  message->sender = (uint16_t)found->key.sender;
  message->mark = (uint16_t)found->mark;
  message->is_redelivered = found->is_redelivered;
  message->form = (uint16_t)found->form;
  message->kind = BUSQ_KIND_DATA;
}

/* The rest of one that has an envelope. */
__attribute__((noinline)) static void message_open(const busq_peer *peer, busq_message *message, uint64_t handles_alive)
{
  const busq_envelope *envelope = &peer->found.envelope;
  message->kind = envelope->kind;
  message->n_nodes = envelope->n_nodes;
  message->n_handles = envelope->n_handles;
  message->group = envelope->group;
  message->view = envelope->view;
  message->handles_alive = handles_alive;
}

static int message_show(const busq_peer *peer, busq_message *message)
{
  message_found(peer, message);
  if (BUSQ_UNLIKELY(message->form & BUSQ_FORM_ENVELOPE))
    message_open(peer, message, 0);
  return BUSQ_OK;
}

static inline int receive_peek(busq_peer *peer)
{
  return BUSQ_UNLIKELY(peer->is_consumer) ? busq_receive_reach(peer) : busq_receive_peek(peer);
}

int busq_peer_receive_peek(busq_peer *peer, busq_message *message)
{
  const int result = receive_peek(peer);
  return result == BUSQ_OK ? message_show(peer, message) : result;
}

void busq_peer_receive_take(busq_peer *peer, uint32_t mode)
{
  busq_receive_take(peer, mode);
}

static int receive_available(busq_peer *peer, uint32_t mode, busq_message *messages, uint32_t limit, uint32_t *countp)
{
  int result = receive_begin(peer);
  *countp = 0;
  if (result != BUSQ_OK)
    return result;
  while (*countp < limit && (result = receive_peek(peer)) == BUSQ_OK) {
    busq_message *message = &messages[*countp];
    message_found(peer, message);
    busq_receive_take(peer, mode);
    if (BUSQ_UNLIKELY(message->form & BUSQ_FORM_ENVELOPE))
      message_open(peer, message, peer->handles_alive);
    ++*countp;
  }
  busq_peer_receive_end(peer);
  return *countp ? BUSQ_OK : result;
}

int busq_peer_recv(busq_peer *peer, busq_message *messages, uint32_t limit, uint32_t *countp, int64_t timeout_ns)
{
  return busq_peer_recv_as(peer, BUSQ_TAKE_PINNED, messages, limit, countp, timeout_ns);
}

int busq_peer_recv_as(busq_peer *peer, uint32_t mode, busq_message *messages, uint32_t limit, uint32_t *countp,
                      int64_t timeout_ns)
{
  const uint64_t begin_ns = timeout_ns > 0 ? busq_time_now_ns() : 0;
  for (int64_t left_ns = timeout_ns;;) {
    int result = receive_available(peer, mode, messages, limit, countp);
    if (result != BUSQ_EMPTY)
      return result;
    result = busq_peer_wait(peer, left_ns);
    if (result != BUSQ_OK)
      return result;
    /* Another thread of this peer may be quicker; that must not begin the timeout anew. */
    if (timeout_ns > 0) {
      const int64_t waited_ns = (int64_t)(busq_time_now_ns() - begin_ns);
      left_ns = waited_ns < timeout_ns ? timeout_ns - waited_ns : 0;
    }
  }
}

void busq_peer_receive_release(busq_peer *peer, const busq_message *messages, size_t n_messages)
{
  busq_receive_release_all(peer, messages, n_messages);
}

void busq_peer_release(busq_peer *peer, const busq_message *message)
{
  if (peer->fork_generation != busq_fork_generation)
    return;
  busq_biased_latch_acquire(&peer->receive_latch);
  busq_receive_release(peer, message->record, message->mark, message->position);
  busq_biased_latch_release(&peer->receive_latch);
}

int busq_peer_is_forked(const busq_peer *peer)
{
  return peer->fork_generation != busq_fork_generation;
}

int busq_peer_give_back(busq_peer *peer, uint32_t mode, const busq_message *message)
{
  if (peer->fork_generation != busq_fork_generation)
    return BUSQ_FORKED;
  busq_biased_latch_acquire(&peer->receive_latch);
  const bool is_back = busq_receive_give_back(peer, mode, message);
  if (!busq_load_relaxed(&peer->is_closed)) {
    busq_peer_receive_end(peer);
    busq_wake_self(peer); /* other threads of this peer may sleep, and nobody else will tell them */
  } else {
    busq_biased_latch_release(&peer->receive_latch);
  }
  return is_back ? BUSQ_OK : BUSQ_INVALID;
}

int busq_peer_ack(busq_peer *peer, const busq_message *message)
{
  int result = busq_peer_receive_begin(peer);
  if (result != BUSQ_OK)
    return result;
  result = busq_receive_ack(peer, message);
  busq_peer_receive_end(peer);
  return result;
}

/* ---- waiting for a message ---- */

/* A reader that has caught up with a busy sender meets it at every message: each waits for the other's cache lines, and both
 * crawl.  So one that only receives, and never waits for long, gives the sender time to get ahead by a few messages; one
 * that also sends may be part of a conversation, where nothing is gained by waiting. */
static void let_messages_gather(busq_peer *peer)
{
  enum { SHORT_WAITS = 16, GATHER_NS = 1000 };
  const uint64_t sent = busq_load_relaxed(&peer->self->sent);
  const uint32_t waits = busq_load_relaxed(&peer->short_waits);
  if (sent != busq_load_relaxed(&peer->short_waits_since) || !peer->spin_ns) {
    busq_store_relaxed(&peer->short_waits_since, sent);
    busq_store_relaxed(&peer->short_waits, 0);
  } else if (waits < SHORT_WAITS) {
    busq_store_relaxed(&peer->short_waits, waits + 1);
  } else {
    stay_away(GATHER_NS);
  }
}

static int receive_ready(busq_peer *peer, busq_blocker *blocker)
{
  busq_mourn(peer); /* first, for it may send itself something */
  int result = busq_peer_receive_begin(peer);
  if (result != BUSQ_OK)
    return result;
  result = receive_look(peer);
  if (blocker)
    *blocker = peer->blocker;
  if (BUSQ_UNLIKELY(result == BUSQ_EMPTY && busq_load_acquire(&peer->bus->header->is_shut_down)) &&
      busq_receive_is_drained(peer))
    result = busq_error(BUSQ_SHUTDOWN, "bus \"%s\" was shut down and nothing is left to receive", peer->bus->name);
  /* What was passed over; a silent peer passes nothing, and what whoever runs a protocol over it has taken down is that one's, who may be
   * writing it into the ring in this moment. */
  if (BUSQ_UNLIKELY(!peer->tracer.is_silent && peer->tracer.n_taken))
    busq_tracer_flush(peer);
  busq_biased_latch_release(&peer->receive_latch);
  if (BUSQ_UNLIKELY(busq_multicast_is_memory_wanted(peer)))
    share_memory(peer);
  return result;
}

/* Before going to sleep: nobody must wait for what we could do now.  This is also where the fence stands that the wake-ups of
 * waiting senders do without.  A sleep costs the same however many messages are under way: memory that this is too slow
 * to give back is asked for by who needs it. */
static void receive_tidy(busq_peer *peer)
{
  enum { LOOKS_PER_SLEEP = 64 };
  busq_fence_full();
  busq_wake_for_room(peer->bus, peer->inbox_slot);
  if (peer->is_consumer && busq_peer_receive_begin(peer) == BUSQ_OK) {
    busq_receive_tend(peer);
    busq_biased_latch_release(&peer->receive_latch);
  }
  busq_biased_latch_acquire(&peer->send_latch);
  if (!busq_load_relaxed(&peer->is_closed) && (peer->arena.owned || peer->arena.inherited_count) &&
      busq_arena_collect(&peer->arena, LOOKS_PER_SLEEP))
    busq_wake_for_memory(peer->bus);
  busq_biased_latch_release(&peer->send_latch);
}

static int wait_one_sleep(busq_peer *peer, busq_wait *wait)
{
  busq_blocker blocker;
  const uint32_t value = busq_load_acquire(&peer->inbox->wake_seq);
  (void)busq_fetch_or(&peer->inbox->wake_flags, BUSQ_WAKE_FUTEX);
  busq_fence_full();
  int result = receive_ready(peer, &blocker);
  if (result == BUSQ_EMPTY) {
    /* Nothing is on its way: somebody will wake us, and a long slice spares the processor a timer.  Otherwise we come back when
     * our patience ends. */
    const bool is_blocked = blocker.help_in_ns != UINT64_MAX;
    if (!is_blocked)
      wait->slice_ns = BUSQ_SLICE_NS;
    waits_begin(&peer->self->receives, &peer->receive_left_ns, is_blocked ? BUSQ_WAITING_BLOCKED : BUSQ_WAITING_MESSAGE,
                is_blocked ? blocker.reference.sender : BUSQ_RING_NOBODY);
    wait->is_told = true;
    result = busq_wait_sleep(wait, &peer->inbox->wake_seq, value, blocker.help_in_ns);
    if (result == BUSQ_INTERRUPTED)
      return result;
    const bool is_over = result == BUSQ_EMPTY;
    result = receive_ready(peer, NULL);
    if (result == BUSQ_EMPTY && !is_over)
      return BUSQ_FULL; /* sleep again */
  }
  return result;
}

/* The flag is up only around sleeps: left up, it would cost the next sender a system call for nothing.  It stands for all threads
 * that sleep, so only the last one to leave takes it down.  One that comes while it does so has raised a flag that is gone:
 *
 *      leaver   is the last; finds the flag up
 *      sibling  counts itself, raises the flag, looks, finds nothing
 *      leaver   takes the flag down; and, since a sibling is there, wakes it to raise the flag again
 *
 * SYNC POINT sleepers: a sibling counts itself before it raises the flag; a flag that we take down after that shows us its count. */
static void wait_leave(busq_peer *peer, int result)
{
  const uint32_t n_asleep = busq_fetch_add(&peer->receivers_asleep, UINT32_MAX);
  BUSQ_ASSERT(n_asleep > 0); /* we were one of them */
  if (n_asleep != 1)
    return;
  waits_end(peer, &peer->self->receives, &peer->receive_left_ns, result);
  /* An interrupted caller returns at once.  Once closed, the flag may be a successor's.  That of a queue of several readers stands
   * for those of other processes too. */
  if (peer->is_consumer || result == BUSQ_INTERRUPTED || result == BUSQ_CLOSED || !(busq_load_relaxed(&peer->self->wake_flags) & BUSQ_WAKE_FUTEX))
    return;
  (void)busq_fetch_and(&peer->self->wake_flags, ~BUSQ_WAKE_FUTEX);
  if (busq_load_acquire(&peer->receivers_asleep))
    busq_wake_self(peer);
}

/* A wait that goes on with the next call is one wait. */
static void wait_record(busq_peer *peer, uint64_t since_ns, int result)
{
  if (result == BUSQ_INTERRUPTED || result == BUSQ_CLOSED || busq_peer_receive_begin(peer) != BUSQ_OK)
    return;
  busq_tracer_waited(peer, since_ns);
  busq_biased_latch_release(&peer->receive_latch);
}

static int wait_asleep(busq_peer *peer, busq_wait *wait)
{
  int result;
  receive_tidy(peer);
  (void)busq_fetch_add(&peer->receivers_asleep, 1); /* SYNC POINT sleepers */
  do
    result = wait_one_sleep(peer, wait);
  while (result == BUSQ_FULL);
  const uint64_t since_ns = busq_load_relaxed(&peer->self->receives.since_ns);
  wait_leave(peer, result);
  if (busq_bus_is_recorded(peer->bus) && wait->is_told)
    wait_record(peer, since_ns, result);
  return result;
}

/*
 * Spinning and yielding are worth it where they are mostly long enough.  A peer whose last waits all took many times as long sleeps at
 * once: for its next message that makes no difference, and its cores are spared.  The first wait that was not long at all, and was
 * spent asleep, makes it spin again; so the second message of a conversation is slow, and not the third.
 */
enum { IN_VAIN_MAX = 4, IN_VAIN_TIMES = 8 };

static bool waits_are_long(const busq_peer *peer)
{
  if (__atomic_load_n(&peer->is_to_go_on, __ATOMIC_RELAXED))
    return true;
  return busq_load_relaxed(&peer->waits_in_vain) >= IN_VAIN_MAX && !peer->spin_is_chosen;
}

static void wait_was_short(busq_peer *peer)
{
  if (busq_load_relaxed(&peer->waits_in_vain))
    busq_store_relaxed(&peer->waits_in_vain, 0);
}

static void wait_weigh(busq_peer *peer, busq_wait *wait, int result)
{
  const uint32_t in_vain = busq_load_relaxed(&peer->waits_in_vain);
  const bool was_long = busq_wait_spent_ns(wait) >= IN_VAIN_TIMES * ((uint64_t)peer->spin_ns + peer->yield_ns);
  __atomic_store_n(&peer->is_to_go_on, result == BUSQ_INTERRUPTED, __ATOMIC_RELAXED);
  if (!was_long && result != BUSQ_INTERRUPTED)
    wait_was_short(peer);
  else if (was_long && in_vain < IN_VAIN_MAX)
    busq_store_relaxed(&peer->waits_in_vain, in_vain + 1);
}

/* What has come, and nothing else: whether something blocks the queue, or the bus has ended, is seen a microsecond later.  Between
 * begin and end. */
static int receive_spin(busq_peer *peer, busq_wait *wait)
{
  int result;
  if (waits_are_long(peer))
    return busq_receive_peek(peer);
  let_messages_gather(peer);
  do {
    result = busq_receive_peek(peer);
  } while (result == BUSQ_EMPTY &&
           busq_wait_spin(wait, peer, &(busq_watch){&busq_ring_slot(&peer->ring, peer->scan)->lo,
                                                     busq_ring_lap(&peer->ring, peer->scan)}));
  if (result == BUSQ_OK)
    wait_was_short(peer);
  return result;
}

static int wait_spinning(busq_peer *peer, busq_wait *wait)
{
  int result = busq_peer_receive_begin(peer);
  if (result != BUSQ_OK)
    return result;
  result = receive_spin(peer, wait);
  busq_biased_latch_release(&peer->receive_latch);
  return result;
}

static int wait_yielding(busq_peer *peer, busq_wait *wait)
{
  while (!waits_are_long(peer) && busq_wait_yield(wait, peer)) {
    const int result = receive_ready(peer, NULL);
    if (result != BUSQ_EMPTY) {
      wait_was_short(peer);
      return result;
    }
  }
  busq_store_relaxed(&peer->short_waits, 0);
  (void)busq_wait_spent_ns(wait); /* the clock runs at the latest from now on */
  const int result = wait_asleep(peer, wait);
  wait_weigh(peer, wait, result);
  return result;
}

int busq_peer_wait(busq_peer *peer, int64_t timeout_ns)
{
  busq_wait wait;
  int result = receive_ready(peer, NULL);
  if (result != BUSQ_EMPTY || timeout_ns == 0)
    return result;
  busq_wait_begin(&wait, timeout_ns);
  result = wait_spinning(peer, &wait);
  return result == BUSQ_EMPTY ? wait_yielding(peer, &wait) : result;
}

int busq_peer_receive_spin(busq_peer *peer, busq_message *message)
{
  busq_wait wait;
  busq_wait_begin(&wait, -1);
  const int result = receive_spin(peer, &wait);
  return result == BUSQ_OK ? message_show(peer, message) : result;
}

int busq_peer_wait_spun(busq_peer *peer, int64_t timeout_ns)
{
  busq_wait wait;
  if (timeout_ns == 0)
    return receive_ready(peer, NULL);
  busq_wait_begin_spun(&wait, timeout_ns);
  return wait_yielding(peer, &wait);
}

int busq_peer_fileno(busq_peer *peer, int *fdp)
{
  int result = busq_peer_receive_begin(peer);
  if (result != BUSQ_OK)
    return result;
  const bool is_first = peer->poll_fd < 0;
  result = busq_fifo_open(peer);
  if (result == BUSQ_OK) {
    *fdp = peer->poll_fd;
    if (is_first)
      peer->listens = BUSQ_LISTEN_MESSAGES;
  }
  busq_peer_receive_end(peer);
  return result;
}

void busq_peer_set_spin(busq_peer *peer, uint32_t spin_ns, uint32_t yield_ns)
{
  /* Who spins holds the receive latch, and looks at nothing else: the rest of it is spent yielding. */
  const uint32_t spins_ns = spin_ns < BUSQ_SPIN_NS_MAX ? spin_ns : BUSQ_SPIN_NS_MAX;
  const uint64_t yields_ns = (uint64_t)yield_ns + (spin_ns - spins_ns);
  peer->spin_ns = spins_ns;
  peer->yield_ns = yields_ns < BUSQ_SLICE_NS ? (uint32_t)yields_ns : (uint32_t)BUSQ_SLICE_NS;
  peer->spin_is_chosen = true;
}

/* ---- the table for the accelerator ---- */

const busq_calls *busq_calls_table(void)
{
  static const busq_calls calls = {
      .send = busq_peer_send,
      .receive_begin = busq_peer_receive_begin,
      .receive_peek = busq_peer_receive_peek,
      .receive_take = busq_peer_receive_take,
      .receive_release = busq_peer_receive_release,
      .receive_end = busq_peer_receive_end,
      .receive_spin = busq_peer_receive_spin,
      .wait = busq_peer_wait_spun,
      .release = busq_peer_release,
      .ack = busq_peer_ack,
      .slot_name = busq_peer_slot_name,
      .give_back = busq_peer_give_back,
      .is_forked = busq_peer_is_forked,
      .pin_adopt = busq_pin_adopt,
      .pin_end = busq_pin_end,
      .pin_drop = busq_pin_drop,
      .pin_show = busq_pin_show,
      .pin_reserve = busq_pin_reserve,
      .pin_send = busq_pin_send,
      .send_parts = busq_peer_send_parts,
      .life_at_send = busq_peer_life_at_send,
      .await_from = busq_peer_await,
      .is_awaited = busq_peer_is_awaited,
      .follow = busq_peer_follow,
      .send_letter = busq_peer_send_letter,
      .message_node = busq_message_node,
  };
  return &calls;
}
