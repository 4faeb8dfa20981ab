/* SPDX-License-Identifier: Apache-2.0 */
#include "busq.h"
#include "base/error.h"
#include "base/time.h"
#include "shm/handle.h"
#include "shm/life.h"
#include "shm/multicast.h"
#include "shm/receive.h"
#include "shm/wake.h"
#include <string.h>

#ifdef BUSQ_STEPS
void (*busq_step_hook)(const char *where);
#endif

/* ---- the bus ---- */

int busq_bus_shutdown(busq_bus *bus)
{
  busq_store_release(&bus->header->is_shut_down, 1);
  busq_fence_full();
  busq_wake_all(bus);
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

/* Who has threads that send and threads that receive is shown as waiting to send: that is what holds others up. */
static void examine_waiting(const busq_slot *self, busq_peer_facts *facts)
{
  const busq_waits *waits = busq_load_acquire(&self->sends.what) != BUSQ_WAITS_NOT ? &self->sends : &self->receives;
  const uint32_t what = busq_load_acquire(&waits->what);
  const uint64_t since_ns = busq_load_relaxed(&waits->since_ns);
  const uint64_t now_ns = busq_time_now_ns();
  if (what == BUSQ_WAITS_NOT || what > BUSQ_WAITS_MEMORY)
    return;
  facts->waits = what;
  facts->waits_for = busq_load_relaxed(&waits->for_slot);
  facts->waited_ns = now_ns > since_ns ? now_ns - since_ns : 0;
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
  facts->pid = self->pid;
  facts->incarnation = (uint32_t)(life >> 32);
  facts->target = (uint64_t)facts->incarnation << 16 | slot;
  facts->joined_ns = self->joined_ns;
  facts->clock = busq_ring_clock(&ring);
  const uint64_t head = busq_load_acquire(&self->queue.head);
  const uint64_t depth = busq_ring_tail(&ring) - head;
  facts->depth = depth <= ring.slot_count ? depth : ring.slot_count;
  facts->sent = busq_load_relaxed(&self->sent);
  facts->received = busq_load_relaxed(&self->received);
  facts->late = busq_load_relaxed(&self->late);
  facts->helped = busq_load_relaxed(&self->helped);
  facts->memory_bytes = busq_arena_used_bytes(bus, slot);
  if (facts->is_alive)
    examine_waiting(self, facts);
  return BUSQ_OK;
}

void busq_bus_generation(const busq_bus *bus, uint8_t *generation16)
{
  memcpy(generation16, bus->header->generation, sizeof bus->header->generation);
}

/* What a peer waits for, told to whoever asks; written only around sleeps.  A wait that was interrupted, by a signal or by the
 * end of a slice, is the same wait when the caller goes on with it at once. */
static void waits_begin(busq_waits *waits, uint64_t *left_ns, uint32_t what, uint32_t for_slot)
{
  enum { AT_ONCE_NS = 200000000 };
  const bool is_same = busq_load_relaxed(&waits->what) == what && busq_load_relaxed(&waits->for_slot) == for_slot;
  if (!is_same) {
    const uint64_t now_ns = busq_time_now_ns();
    const bool was_left = busq_load_relaxed(&waits->what) == BUSQ_WAITS_NOT && busq_load_relaxed(&waits->for_slot) == for_slot &&
                          now_ns - busq_load_relaxed(left_ns) < AT_ONCE_NS;
    if (!was_left)
      busq_store_relaxed(&waits->since_ns, now_ns);
  }
  busq_store_relaxed(&waits->for_slot, for_slot);
  busq_store_release(&waits->what, what);
}

static void waits_end(const busq_peer *peer, busq_waits *waits, uint64_t *left_ns, int result)
{
  if (busq_load_relaxed(&waits->what) == BUSQ_WAITS_NOT || busq_load_relaxed(&peer->is_closed))
    return;
  busq_store_relaxed(left_ns, result == BUSQ_INTERRUPTED ? busq_time_now_ns() : 0);
  busq_store_release(&waits->what, BUSQ_WAITS_NOT);
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
static busq_trace_ring *send_record(busq_peer *peer, send_times *times)
{
  const uint32_t recording = busq_load_relaxed(&peer->bus->header->recording);
  if (BUSQ_LIKELY(!recording) || peer->tracer.is_silent)
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

static int send_once(busq_peer *peer, const uint64_t *targets, uint32_t n_targets, const void *data, size_t size_bytes,
                     send_times *times, uint64_t *failed_targetp)
{
  /* Before the latch: another thread of the parent may have held it when the child was forked, and nobody lets go of it there. */
  if (BUSQ_UNLIKELY(peer->fork_generation != busq_fork_generation))
    return BUSQ_FORKED;
  busq_latch_acquire(&peer->send_latch);
  int result = BUSQ_CLOSED;
  if (BUSQ_LIKELY(!busq_load_relaxed(&peer->is_closed))) {
    const busq_trace_ring *full = send_record(peer, times);
    result = busq_multicast_try(peer, targets, n_targets, data, size_bytes);
    if (BUSQ_UNLIKELY(full) && result != BUSQ_OK)
      busq_trace_ring_undrop(full, BUSQ_TRACE_SENDING); /* and may be tried again */
    peer->tracer.begun = peer->tracer.blocked = 0;
    *failed_targetp = peer->failed_target;
  }
  busq_latch_release(&peer->send_latch);
  return result;
}

/* What a sender that found no room waits on: the reader of a full queue, or the readers of its own messages. */
typedef struct {
  uint32_t *flag;
  uint32_t *sequence;
  uint32_t value;
  bool is_armed;
  bool is_memory;
} room_wait;

static void room_wait_arm(room_wait *room, busq_peer *peer, uint64_t failed_target)
{
  room->is_memory = failed_target == BUSQ_NO_TARGET;
  busq_slot *slot = room->is_memory ? peer->self : &peer->bus->slots[busq_target_slot(failed_target)];
  room->flag = room->is_memory ? &slot->memory_waits : &slot->room_waiters;
  room->sequence = room->is_memory ? &slot->memory_seq : &slot->room_seq;
  room->value = busq_load_acquire(room->sequence);
  busq_store_release(room->flag, 1);
  busq_fence_full();
  room->is_armed = true;
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
  busq_latch_acquire(&peer->send_latch);
  if (!busq_load_relaxed(&peer->is_closed) && !send_record(peer, times)) {
    busq_multicast_timed_out(peer);
    peer->tracer.begun = peer->tracer.blocked = 0;
  }
  busq_latch_release(&peer->send_latch);
}

static int send_waiting(busq_peer *peer, const uint64_t *targets, uint32_t n_targets, const void *data,
                        size_t size_bytes, int64_t timeout_ns, send_times *times, uint64_t failed_target)
{
  room_wait room = {0};
  busq_wait wait;
  let_room_gather(peer);
  busq_wait_begin(&wait, timeout_ns);
  for (;;) {
    if (!busq_wait_turn(&wait, peer)) {
      if (room.is_armed) {
        waits_begin(&peer->self->sends, &peer->send_left_ns, room.is_memory ? BUSQ_WAITS_MEMORY : BUSQ_WAITS_ROOM,
                    room.is_memory ? BUSQ_RING_NOBODY : busq_target_slot(failed_target));
        const int result = busq_wait_sleep(&wait, room.sequence, room.value, UINT64_MAX);
        if (result != BUSQ_OK) {
          waits_end(peer, &peer->self->sends, &peer->send_left_ns, result);
          if (result == BUSQ_EMPTY && busq_bus_is_recorded(peer->bus))
            send_timed_out(peer, times);
          return result == BUSQ_EMPTY ? BUSQ_FULL : result;
        }
      }
      room_wait_arm(&room, peer, failed_target);
    }
    const int result = send_once(peer, targets, n_targets, data, size_bytes, times, &failed_target);
    if (result != BUSQ_FULL) {
      waits_end(peer, &peer->self->sends, &peer->send_left_ns, result);
      return result;
    }
  }
}

int busq_peer_send(busq_peer *peer, const uint64_t *targets, uint32_t n_targets, const void *data, size_t size_bytes,
                   int64_t timeout_ns)
{
  uint64_t failed_target;
  send_times times = {0};
  const int result = send_once(peer, targets, n_targets, data, size_bytes, &times, &failed_target);
  if (BUSQ_LIKELY(result != BUSQ_FULL) || timeout_ns == 0)
    return result;
  times.blocked = busq_bus_recording_now(peer->bus);
  return send_waiting(peer, targets, n_targets, data, size_bytes, timeout_ns, &times, failed_target);
}

uint64_t busq_peer_failed_target(busq_peer *peer)
{
  return peer->failed_target;
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

/* fileno() is readable while something can be received, or while receiving would fail at once; and, for a moment, whenever it is
 * time to look whether a sender was stopped or killed before he could say that something can. */
static void fifo_settle(busq_peer *peer)
{
  const bool is_armed =
      peer->fifo_epoch && busq_load_acquire(&peer->self->wake_flags) >> 1 == peer->fifo_epoch;
  int result = receive_look(peer);
  if (result == BUSQ_EMPTY && busq_load_acquire(&peer->bus->header->is_shut_down))
    result = BUSQ_SHUTDOWN;
  /* A sender writes its byte first and takes the flag down afterwards: armed, there may still be a byte of a message that is
   * gone. */
  if (result == BUSQ_EMPTY && (!is_armed || peer->fifo_is_raised || busq_fifo_drain(peer))) {
    busq_fifo_arm(peer);
    peer->fifo_is_raised = false;
    result = receive_look(peer);
  }
  if (result == BUSQ_EMPTY) {
    busq_fifo_look_again(peer, peer->blocker.help_in_ns);
  } else if (!peer->fifo_is_raised) {
    busq_fifo_raise(peer);
    peer->fifo_is_raised = true;
  }
}

/* Also a peer that only receives may keep memory from what it sent once. */
static void share_memory(busq_peer *peer)
{
  busq_latch_acquire(&peer->send_latch);
  if (!busq_load_relaxed(&peer->is_closed))
    busq_multicast_share_memory(peer);
  busq_latch_release(&peer->send_latch);
}

int busq_peer_receive_begin(busq_peer *peer)
{
  if (BUSQ_UNLIKELY(peer->fork_generation != busq_fork_generation))
    return BUSQ_FORKED;
  busq_latch_acquire(&peer->receive_latch);
  if (BUSQ_UNLIKELY(busq_load_relaxed(&peer->is_closed))) {
    busq_latch_release(&peer->receive_latch);
    return BUSQ_CLOSED;
  }
  return BUSQ_OK;
}

void busq_peer_receive_end(busq_peer *peer)
{
  if (BUSQ_UNLIKELY(peer->fifo_fd >= 0))
    fifo_settle(peer);
  if (BUSQ_UNLIKELY(peer->tracer.n_taken))
    busq_tracer_flush(peer);
  busq_latch_release(&peer->receive_latch);
  if (BUSQ_UNLIKELY(busq_multicast_is_memory_wanted(peer)))
    share_memory(peer);
}

int busq_peer_receive_peek(busq_peer *peer, busq_message *message)
{
  const int result = busq_receive_peek(peer);
  if (result != BUSQ_OK)
    return result;
  const busq_found *found = &peer->found;
  message->data = found->payload;
  message->size_bytes = found->size_bytes;
  message->position = found->position;
  message->tag = found->key.sequence;
  message->record = (uint32_t)((uint64_t)((char *)found->record - peer->bus->arena) / BUSQ_LAYOUT_UNIT_BYTES);
  message->sender_incarnation = found->sender_incarnation;
  message->sender = (uint16_t)found->key.sender;
  message->mark = (uint16_t)found->mark;
  message->is_redelivered = found->is_redelivered;
  return BUSQ_OK;
}

void busq_peer_receive_take(busq_peer *peer, uint32_t mode)
{
  busq_receive_take(peer, mode);
}

static int receive_available(busq_peer *peer, uint32_t mode, busq_message *messages, uint32_t limit, uint32_t *countp)
{
  int result = busq_peer_receive_begin(peer);
  *countp = 0;
  if (result != BUSQ_OK)
    return result;
  while (*countp < limit && (result = busq_peer_receive_peek(peer, &messages[*countp])) == BUSQ_OK) {
    busq_receive_take(peer, mode);
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

void busq_peer_release(busq_peer *peer, const busq_message *message)
{
  if (peer->fork_generation != busq_fork_generation)
    return;
  busq_latch_acquire(&peer->receive_latch);
  busq_receive_release(peer, message->record, message->mark, message->position);
  busq_latch_release(&peer->receive_latch);
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
  int result = busq_peer_receive_begin(peer);
  if (result != BUSQ_OK)
    return result;
  result = receive_look(peer);
  if (blocker)
    *blocker = peer->blocker;
  if (BUSQ_UNLIKELY(result == BUSQ_EMPTY && busq_load_acquire(&peer->bus->header->is_shut_down)) &&
      busq_receive_is_drained(peer))
    result = busq_error(BUSQ_SHUTDOWN, "bus \"%s\" was shut down and nothing is left to receive", peer->bus->name);
  busq_latch_release(&peer->receive_latch);
  if (BUSQ_UNLIKELY(busq_multicast_is_memory_wanted(peer)))
    share_memory(peer);
  return result;
}

/* Before going to sleep: nobody must wait for what we could do now.  This is also where the fence stands that the wake-ups of
 * waiting senders do without. */
static void receive_tidy(busq_peer *peer)
{
  busq_fence_full();
  busq_wake_waiters(&peer->self->room_waiters, &peer->self->room_seq);
  busq_latch_acquire(&peer->send_latch);
  if (!busq_load_relaxed(&peer->is_closed) && peer->arena.owned)
    busq_arena_collect(&peer->arena);
  busq_latch_release(&peer->send_latch);
}

/* The flag is raised only around a sleep: left up, it would cost the next sender a system call for nothing. */
static int wait_one_sleep(busq_peer *peer, busq_wait *wait)
{
  busq_blocker blocker;
  const uint32_t value = busq_load_acquire(&peer->self->wake_seq);
  (void)busq_fetch_or(&peer->self->wake_flags, BUSQ_WAKE_FUTEX);
  busq_fence_full();
#ifdef BUSQ_MUTANT_SLEEP_WITHOUT_LOOKING
  int result = BUSQ_EMPTY;
  blocker.help_in_ns = UINT64_MAX;
#else
  int result = receive_ready(peer, &blocker);
#endif
  if (result == BUSQ_EMPTY) {
    /* Nothing is on its way: somebody will wake us, and a long slice spares the processor a timer.  Otherwise we come back when
     * our patience ends. */
    const bool is_blocked = blocker.help_in_ns != UINT64_MAX;
    if (!is_blocked)
      wait->slice_ns = BUSQ_SLICE_NS;
    waits_begin(&peer->self->receives, &peer->receive_left_ns, is_blocked ? BUSQ_WAITS_BLOCKED : BUSQ_WAITS_MESSAGE,
                is_blocked ? blocker.reference.sender : BUSQ_RING_NOBODY);
    result = busq_wait_sleep(wait, &peer->self->wake_seq, value, blocker.help_in_ns);
    if (result == BUSQ_INTERRUPTED)
      return result;
    const bool is_over = result == BUSQ_EMPTY;
    result = receive_ready(peer, NULL);
    if (result == BUSQ_EMPTY && !is_over)
      return BUSQ_FULL; /* sleep again */
  }
  /* Once closed, the flag may be a successor's. */
  if (result != BUSQ_CLOSED && (busq_load_relaxed(&peer->self->wake_flags) & BUSQ_WAKE_FUTEX))
    (void)busq_fetch_and(&peer->self->wake_flags, ~BUSQ_WAKE_FUTEX);
  return result;
}

/* A wait that goes on with the next call is one wait. */
static void wait_record(busq_peer *peer, uint64_t since_ns, int result)
{
  if (result == BUSQ_INTERRUPTED || result == BUSQ_CLOSED || busq_peer_receive_begin(peer) != BUSQ_OK)
    return;
  busq_tracer_waited(peer, since_ns);
  busq_latch_release(&peer->receive_latch);
}

static int wait_asleep(busq_peer *peer, busq_wait *wait)
{
  int result;
  receive_tidy(peer);
  do
    result = wait_one_sleep(peer, wait);
  while (result == BUSQ_FULL);
  const bool has_slept = busq_load_relaxed(&peer->self->receives.what) != BUSQ_WAITS_NOT;
  const uint64_t since_ns = busq_load_relaxed(&peer->self->receives.since_ns);
  waits_end(peer, &peer->self->receives, &peer->receive_left_ns, result);
  if (busq_bus_is_recorded(peer->bus) && has_slept)
    wait_record(peer, since_ns, result);
  return result;
}

int busq_peer_wait(busq_peer *peer, int64_t timeout_ns)
{
  busq_wait wait;
  int result = receive_ready(peer, NULL);
  if (result != BUSQ_EMPTY || timeout_ns == 0)
    return result;
  let_messages_gather(peer);
  busq_wait_begin(&wait, timeout_ns);
  while (busq_wait_turn(&wait, peer)) {
    result = receive_ready(peer, NULL);
    if (result != BUSQ_EMPTY)
      return result;
  }
  busq_store_relaxed(&peer->short_waits, 0);
  return wait_asleep(peer, &wait);
}

int busq_peer_fileno(busq_peer *peer, int *fdp)
{
  int result = busq_peer_receive_begin(peer);
  if (result != BUSQ_OK)
    return result;
  result = busq_fifo_open(peer);
  if (result == BUSQ_OK)
    *fdp = peer->poll_fd;
  busq_peer_receive_end(peer);
  return result;
}

void busq_peer_set_spin(busq_peer *peer, uint32_t spin_ns, uint32_t yield_ns)
{
  peer->spin_ns = spin_ns;
  peer->yield_ns = yield_ns;
}

/* ---- the table for the accelerator ---- */

const busq_calls *busq_calls_table(void)
{
  static const busq_calls calls = {
      .send = busq_peer_send,
      .receive_begin = busq_peer_receive_begin,
      .receive_peek = busq_peer_receive_peek,
      .receive_take = busq_peer_receive_take,
      .receive_end = busq_peer_receive_end,
      .wait = busq_peer_wait,
      .release = busq_peer_release,
      .ack = busq_peer_ack,
      .slot_name = busq_peer_slot_name,
  };
  return &calls;
}
