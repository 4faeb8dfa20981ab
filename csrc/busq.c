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

int busq_bus_examine(busq_bus *bus, busq_bus_facts *facts)
{
  *facts = (busq_bus_facts){
      .peers = bus->geometry.peers,
      .capacity = bus->geometry.capacity,
      .arena_bytes = bus->geometry.arena_bytes,
      .arena_used_bytes = busq_arena_used_bytes(bus),
      .segment_bytes = bus->geometry.segment_bytes,
      .created_ns = bus->header->created_ns,
      .creator_pid = bus->header->creator_pid,
      .is_shut_down = busq_load_acquire(&bus->header->is_shut_down) != 0,
  };
  return BUSQ_OK;
}

int busq_bus_examine_peer(busq_bus *bus, uint32_t slot, busq_peer_facts *facts)
{
  memset(facts, 0, sizeof *facts);
  if (slot >= bus->geometry.peers)
    return busq_error(BUSQ_INVALID, "peer slot %u of a bus with %u slots", slot, bus->geometry.peers);
  busq_slot *self = &bus->slots[slot];
  const busq_ring ring = busq_bus_ring(bus, slot);
  const uint64_t life = busq_load_acquire(&self->life);
  if ((uint32_t)life == BUSQ_LIFE_FREE || (uint32_t)life == BUSQ_LIFE_JOINING)
    return BUSQ_EMPTY;
  const uint32_t bytes = busq_load_relaxed(&self->name_bytes);
  facts->name_bytes = bytes <= BUSQ_LAYOUT_NAME_BYTES_MAX ? bytes : BUSQ_LAYOUT_NAME_BYTES_MAX;
  memcpy(facts->name, self->name, facts->name_bytes);
  facts->is_alive = (uint32_t)life == BUSQ_LIFE_LIVE && busq_life_is_held(bus, slot);
  facts->pid = self->pid;
  facts->incarnation = (uint32_t)(life >> 32);
  facts->joined_ns = self->joined_ns;
  facts->clock = busq_ring_clock(&ring);
  const uint64_t head = busq_load_acquire(&self->queue.head);
  const uint64_t depth = busq_ring_tail(&ring) - head;
  facts->depth = depth <= ring.slot_count ? depth : ring.slot_count;
  facts->sent = busq_load_relaxed(&self->sent);
  facts->received = busq_load_relaxed(&self->received);
  facts->late = busq_load_relaxed(&self->late);
  return BUSQ_OK;
}

/* ---- sending ---- */

/* Keeps away from shared memory for a while. */
static void stay_away(uint64_t duration_ns)
{
  const uint64_t end_ns = busq_time_now_ns() + duration_ns;
  while (busq_time_now_ns() < end_ns)
    busq_cpu_relax();
}

static int send_once(busq_peer *peer, const uint64_t *targets, uint32_t n_targets, const void *data, size_t size_bytes,
                     uint64_t *failed_targetp)
{
  busq_latch_acquire(&peer->send_latch);
  int result = busq_peer_check(peer);
  if (BUSQ_LIKELY(result == BUSQ_OK)) {
    result = busq_multicast_try(peer, targets, n_targets, data, size_bytes);
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
} room_wait;

static void room_wait_arm(room_wait *room, busq_peer *peer, uint64_t failed_target)
{
  const bool is_memory = failed_target == BUSQ_NO_TARGET;
  busq_slot *slot = is_memory ? peer->self : &peer->bus->slots[busq_target_slot(failed_target)];
  room->flag = is_memory ? &slot->memory_waits : &slot->room_waiters;
  room->sequence = is_memory ? &slot->memory_seq : &slot->room_seq;
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

static int send_waiting(busq_peer *peer, const uint64_t *targets, uint32_t n_targets, const void *data,
                        size_t size_bytes, int64_t timeout_ns, uint64_t failed_target)
{
  room_wait room = {0};
  busq_wait wait;
  let_room_gather(peer);
  busq_wait_begin(&wait, timeout_ns);
  for (;;) {
    if (!busq_wait_turn(&wait, peer)) {
      if (room.is_armed) {
        const int result = busq_wait_sleep(&wait, room.sequence, room.value);
        if (result != BUSQ_OK)
          return result == BUSQ_EMPTY ? BUSQ_FULL : result;
      }
      room_wait_arm(&room, peer, failed_target);
    }
    const int result = send_once(peer, targets, n_targets, data, size_bytes, &failed_target);
    if (result != BUSQ_FULL)
      return result;
  }
}

int busq_peer_send(busq_peer *peer, const uint64_t *targets, uint32_t n_targets, const void *data, size_t size_bytes,
                   int64_t timeout_ns)
{
  uint64_t failed_target;
  const int result = send_once(peer, targets, n_targets, data, size_bytes, &failed_target);
  if (BUSQ_LIKELY(result != BUSQ_FULL) || timeout_ns == 0)
    return result;
  return send_waiting(peer, targets, n_targets, data, size_bytes, timeout_ns, failed_target);
}

uint64_t busq_peer_failed_target(busq_peer *peer)
{
  return peer->failed_target;
}

/* ---- receiving ---- */

/* fileno() is readable exactly while something can be received, or while receiving would fail at once. */
static void fifo_settle(busq_peer *peer)
{
  const bool is_armed =
      peer->fifo_epoch && busq_load_acquire(&peer->self->wake_flags) >> 1 == peer->fifo_epoch;
  int result = busq_receive_peek(peer);
  if (result == BUSQ_EMPTY && busq_load_acquire(&peer->bus->header->is_shut_down))
    result = BUSQ_SHUTDOWN;
  /* A sender writes its byte first and takes the flag down afterwards: armed, there may still be a byte of a message that is
   * gone. */
  if (result == BUSQ_EMPTY && is_armed && !peer->fifo_is_raised && !busq_fifo_drain(peer))
    return;
  if (result == BUSQ_EMPTY) {
    busq_fifo_arm(peer);
    peer->fifo_is_raised = false;
    result = busq_receive_peek(peer);
  }
  if (result != BUSQ_EMPTY && !peer->fifo_is_raised) {
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
  message->record = (uint32_t)((uint64_t)((char *)found->record - peer->bus->arena) / BUSQ_LAYOUT_UNIT_BYTES);
  message->sender_incarnation = found->sender_incarnation;
  message->sender = (uint16_t)found->key.sender;
  message->mark = (uint16_t)found->mark;
  return BUSQ_OK;
}

void busq_peer_receive_take(busq_peer *peer, int is_pinned)
{
  busq_receive_take(peer, is_pinned != 0);
}

static int receive_available(busq_peer *peer, busq_message *messages, uint32_t limit, uint32_t *countp)
{
  int result = busq_peer_receive_begin(peer);
  *countp = 0;
  if (result != BUSQ_OK)
    return result;
  while (*countp < limit && (result = busq_peer_receive_peek(peer, &messages[*countp])) == BUSQ_OK) {
    busq_receive_take(peer, true);
    ++*countp;
  }
  busq_peer_receive_end(peer);
  return *countp ? BUSQ_OK : result;
}

int busq_peer_recv(busq_peer *peer, busq_message *messages, uint32_t limit, uint32_t *countp, int64_t timeout_ns)
{
  const uint64_t begin_ns = timeout_ns > 0 ? busq_time_now_ns() : 0;
  for (int64_t left_ns = timeout_ns;;) {
    int result = receive_available(peer, messages, limit, countp);
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

static int receive_ready(busq_peer *peer)
{
  int result = busq_peer_receive_begin(peer);
  if (result != BUSQ_OK)
    return result;
  result = busq_receive_peek(peer);
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

static bool is_drained(busq_peer *peer)
{
  busq_latch_acquire(&peer->receive_latch);
  const bool result = busq_receive_is_drained(peer);
  busq_latch_release(&peer->receive_latch);
  return result;
}

static void receive_unblock(busq_peer *peer)
{
  if (busq_peer_receive_begin(peer) != BUSQ_OK)
    return;
  if (busq_receive_peek(peer) == BUSQ_EMPTY)
    busq_receive_unblock(peer);
  busq_latch_release(&peer->receive_latch);
}

/* The flag is raised only around a sleep: left up, it would cost the next sender a system call for nothing. */
static int wait_one_sleep(busq_peer *peer, busq_wait *wait)
{
  const uint32_t value = busq_load_acquire(&peer->self->wake_seq);
  (void)busq_fetch_or(&peer->self->wake_flags, BUSQ_WAKE_FUTEX);
  busq_fence_full();
  int result = receive_ready(peer);
  if (result == BUSQ_EMPTY) {
    result = busq_wait_sleep(wait, &peer->self->wake_seq, value);
    if (wait->has_timed_out)
      receive_unblock(peer);
    if (result == BUSQ_INTERRUPTED)
      return result;
    const bool is_over = result == BUSQ_EMPTY;
    result = receive_ready(peer);
    if (result == BUSQ_EMPTY && !is_over)
      return BUSQ_FULL; /* sleep again */
  }
  if (busq_load_relaxed(&peer->self->wake_flags) & BUSQ_WAKE_FUTEX)
    (void)busq_fetch_and(&peer->self->wake_flags, ~BUSQ_WAKE_FUTEX);
  return result;
}

static int wait_asleep(busq_peer *peer, busq_wait *wait)
{
  int result;
  receive_tidy(peer);
  /* Nothing is on its way: somebody will wake us, and a long slice spares the processor a timer.  Otherwise look again soon. */
  if (is_drained(peer))
    wait->slice_ns = BUSQ_SLICE_NS;
  do
    result = wait_one_sleep(peer, wait);
  while (result == BUSQ_FULL);
  return result;
}

int busq_peer_wait(busq_peer *peer, int64_t timeout_ns)
{
  busq_wait wait;
  int result = receive_ready(peer);
  if (result != BUSQ_EMPTY || timeout_ns == 0)
    return result;
  let_messages_gather(peer);
  busq_wait_begin(&wait, timeout_ns);
  while (busq_wait_turn(&wait, peer)) {
    result = receive_ready(peer);
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
    *fdp = peer->fifo_fd;
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
  };
  return &calls;
}
