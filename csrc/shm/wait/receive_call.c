/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receiving calls, and waiting for a message; the calls are declared in busq.h (busq_peer_receive_begin and its kin,
 * busq_peer_recv, busq_peer_wait).
 *
 * Guarantee: a wait ends when a message can be received, when the bus is shut down and nothing is left, when a signal
 * handler has run, or at its deadline.  While a call sleeps, no latch is held; while it spins, the receive latch is.
 *
 * Mechanism: event counts (wake.h), in the stages of pacing.h.  Before it sleeps, a waiter does what others may wait
 * for: it makes room, gives memory back, and notices deaths that are its business (notice.h).
 *
 * Not given: turns among several threads of one peer.
 */
#include "base/assert.h"
#include "base/error.h"
#include "base/time.h"
#include "shm/burial/grave.h"
#include "shm/receive/holes.h"
#include "shm/receive/receive.h"
#include "shm/receive/shared_receive.h"
#include "shm/send/find_record.h"
#include "shm/send/multicast.h"
#include "shm/trace/tracer.h"
#include "shm/wait/descriptor_settle.h"
#include "shm/wait/pacing.h"
#include "shm/wait/published.h"
#include "shm/wait/receiving_threads.h"
#include "shm/wake/wake.h"

/* ---- between begin and end ---- */

/* A peer that only receives may also keep memory from what it sent once. */
static void share_memory(busq_peer *peer)
{
  busq_biased_latch_acquire(&peer->sender.latch);
  if (!busq_load_relaxed(&peer->is_closed))
    busq_send_return_memory(peer);
  busq_biased_latch_release(&peer->sender.latch);
}

/* A thread that waits for a message, or may be about to take one. */
BUSQ_ALWAYS_INLINE int begin_as_reader(busq_peer *peer)
{
  const int result = busq_receive_begin(peer);
  if (BUSQ_LIKELY(result == BUSQ_OK))
    busq_readers_note(peer);
  return result;
}

int busq_peer_receive_begin(busq_peer *peer)
{
  return begin_as_reader(peer);
}

void busq_peer_receive_end(busq_peer *peer)
{
  if (BUSQ_UNLIKELY(peer->receiver.has_reached))
    busq_several_put_back(peer);
  if (BUSQ_UNLIKELY(peer->descriptor.fifo_fd >= 0))
    busq_descriptor_settle(peer);
  if (BUSQ_UNLIKELY(peer->tracer.n_taken))
    busq_tracer_flush(peer);
  busq_biased_latch_release(&peer->receiver.latch);
  if (BUSQ_UNLIKELY(busq_send_is_memory_wanted(peer)))
    share_memory(peer);
  busq_peer_notice_deaths(peer);
}

BUSQ_ALWAYS_INLINE void message_found(const busq_peer *peer, busq_message *message)
{
  const busq_found *found = &peer->receiver.found;
  message->data = found->payload;
  message->size_bytes = found->size_bytes;
  message->position = BUSQ_UNLIKELY(peer->receiver.is_consumer) ? peer->receiver.kept_at : found->position;
  message->tag = found->key.sequence;
  message->record = (uint32_t)((uint64_t)((char *)found->record - peer->bus->arena) / BUSQ_LAYOUT_UNIT_BYTES);
  message->sender_life = found->sender_life;
  message->sender = (uint16_t)found->key.sender;
  message->mark = (uint16_t)found->mark;
  message->is_redelivered = found->is_redelivered;
  message->form = (uint16_t)found->form;
  message->kind = BUSQ_KIND_DATA;
}

/* The fields that only a message with an envelope fills. */
__attribute__((noinline)) static void message_open(const busq_peer *peer, busq_message *message, uint64_t handles_alive)
{
  const busq_envelope *envelope = &peer->receiver.found.envelope;
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

static inline int receive_peek(busq_peer *peer, uint64_t copied_below)
{
  peer->receiver.copied_below = copied_below;
  return BUSQ_UNLIKELY(peer->receiver.is_consumer) ? busq_several_reach(peer) : busq_receive_peek(peer);
}

int busq_peer_receive_peek_to_copy(busq_peer *peer, uint64_t copied_below, busq_message *message)
{
  const int result = receive_peek(peer, copied_below);
  return result == BUSQ_OK ? message_show(peer, message) : result;
}

int busq_peer_receive_peek(busq_peer *peer, busq_message *message)
{
  return busq_peer_receive_peek_to_copy(peer, 0, message);
}

void busq_peer_receive_take(busq_peer *peer, uint32_t mode)
{
  busq_receive_take(peer, mode);
}

/* ---- waiting ---- */

/* The queue seems to have ended: what readers that are dead by now had in their hands comes before that. */
__attribute__((noinline)) static int receive_at_end(busq_peer *peer)
{
  busq_grave_bury_all_readers(peer->bus, peer->receiver.inbox_slot, peer->slot);
  const int result = busq_receive_peek_helping(peer);
  if (result == BUSQ_EMPTY && busq_receive_has_ended(peer))
    return busq_error(BUSQ_SHUTDOWN, "the queue of \"%.255s\" on bus \"%s\" was shut down and nothing is left to receive",
                      peer->receiver.inbox->name, peer->bus->name);
  return result;
}

static int receive_ready(busq_peer *peer, busq_blocker *blocker)
{
  busq_peer_notice_deaths(peer); /* first, since that may send this peer something */
  int result = begin_as_reader(peer);
  if (result != BUSQ_OK)
    return result;
  result = busq_receive_peek_helping(peer);
  if (blocker)
    *blocker = peer->receiver.blocker;
  if (BUSQ_UNLIKELY(result == BUSQ_EMPTY && busq_load_acquire(&peer->bus->header->is_shut_down)) &&
      busq_receive_is_drained(peer))
    result = busq_error(BUSQ_SHUTDOWN, "bus \"%s\" was shut down and nothing is left to receive", peer->bus->name);
  if (BUSQ_UNLIKELY(result == BUSQ_EMPTY && busq_receive_has_ended(peer)))
    result = receive_at_end(peer);
  /* Events of messages that were passed over.  A silent peer passes none; what is noted there is the business of the
   * protocol that runs over it, which may be writing it into the ring at this moment. */
  if (BUSQ_UNLIKELY(!peer->tracer.is_silent && peer->tracer.n_taken))
    busq_tracer_flush(peer);
  busq_biased_latch_release(&peer->receiver.latch);
  if (BUSQ_UNLIKELY(busq_send_is_memory_wanted(peer)))
    share_memory(peer);
  return result;
}

/* Before going to sleep: no process must wait for what this one could do now.  Here stands also the fence that the
 * wake-ups of waiting senders do without.  A sleep costs the same however many messages are under way: memory that this
 * is too slow to give back is asked for by the process that needs it. */
static void receive_tidy(busq_peer *peer)
{
  enum { LOOKS_PER_SLEEP = 64 };
  busq_fence_full();
  busq_wake_for_room(peer->bus, peer->receiver.inbox_slot);
  if (peer->receiver.is_consumer && busq_receive_begin(peer) == BUSQ_OK) {
    busq_several_tend(peer);
    busq_biased_latch_release(&peer->receiver.latch);
  }
  busq_biased_latch_acquire(&peer->sender.latch);
  const busq_arena *arena = &peer->sender.arena;
  if (!busq_load_relaxed(&peer->is_closed) && (arena->owned || arena->inherited_count) &&
      busq_arena_collect(&peer->sender.arena, LOOKS_PER_SLEEP))
    busq_wake_for_memory(peer->bus);
  /* Whether it is worth waking us where memory is wanted.  A sender that asks at this moment may miss it, and asks again
   * after a slice. */
  if (!busq_load_relaxed(&peer->is_closed))
    busq_store_relaxed(&peer->self->keeps_memory, arena->owned || arena->inherited_count);
  busq_biased_latch_release(&peer->sender.latch);
}

/* BUSQ_FULL: the sleep was over before anything happened, and another one follows. */
static int wait_one_sleep(busq_peer *peer, busq_wait *wait)
{
  busq_blocker blocker;
  const uint32_t value = busq_load_acquire(&peer->receiver.inbox->wake_seq);
  (void)busq_fetch_or(&peer->receiver.inbox->wake_flags, BUSQ_WAKE_FUTEX);
  busq_fence_full();
  int result = receive_ready(peer, &blocker);
  if (result == BUSQ_EMPTY) {
    /* Nothing is on its way: a sender will wake this thread, and a long slice spares the processor a timer.  Otherwise
     * it comes back when its patience with what blocks the queue ends. */
    const bool is_blocked = blocker.help_in_ns != UINT64_MAX;
    if (!is_blocked)
      wait->slice_ns = BUSQ_SLICE_NS;
    busq_published_begin(&peer->self->receives, &peer->sleepers.receive_left_ns,
                         is_blocked ? BUSQ_WAITING_BLOCKED : BUSQ_WAITING_MESSAGE,
                         is_blocked ? blocker.reference.sender : BUSQ_RING_NOBODY);
    wait->is_published = true;
    result = busq_wait_sleep(wait, &peer->receiver.inbox->wake_seq, value, blocker.help_in_ns);
    if (result == BUSQ_INTERRUPTED)
      return result;
    const bool is_over = result == BUSQ_EMPTY;
    result = receive_ready(peer, NULL);
    if (result == BUSQ_EMPTY && !is_over)
      return BUSQ_FULL;
  }
  return result;
}

/* The flag is up only around sleeps: left up, it would cost the next sender a system call for nothing.  It stands for all threads
 * that sleep, so only the last one to leave takes it down.  One that comes while it does so has raised a flag that is
 * gone:
 *
 *      leaver   is the last; finds the flag up
 *      sibling  counts itself, raises the flag, looks, finds nothing
 *      leaver   takes the flag down; and, since a sibling is there, wakes it to raise the flag again
 *
 * SYNC POINT sleepers: a sibling counts itself before it raises the flag; a flag that we take down after that shows us
 * its count. */
static void wait_leave(busq_peer *peer, int result)
{
  const uint32_t n_asleep = busq_fetch_add(&peer->sleepers.receivers_asleep, UINT32_MAX);
  BUSQ_ASSERT(n_asleep > 0); /* we were one of them */
  if (n_asleep != 1)
    return;
  busq_published_end(peer, &peer->self->receives, &peer->sleepers.receive_left_ns, result);
  /* An interrupted caller returns at once.  Once closed, the flag may be a successor's.  That of a queue of several
   * readers stands for those of other processes too. */
  if (peer->receiver.is_consumer || result == BUSQ_INTERRUPTED || result == BUSQ_CLOSED ||
      !(busq_load_relaxed(&peer->self->wake_flags) & BUSQ_WAKE_FUTEX))
    return;
  (void)busq_fetch_and(&peer->self->wake_flags, ~BUSQ_WAKE_FUTEX);
  if (busq_load_acquire(&peer->sleepers.receivers_asleep))
    busq_wake_self(peer);
}

/* A wait that goes on with the next call is one wait. */
static void wait_record(busq_peer *peer, uint64_t since_ns, int result)
{
  if (result == BUSQ_INTERRUPTED || result == BUSQ_CLOSED || busq_receive_begin(peer) != BUSQ_OK)
    return;
  busq_tracer_waited(peer, since_ns);
  busq_biased_latch_release(&peer->receiver.latch);
}

static int wait_asleep(busq_peer *peer, busq_wait *wait)
{
  int result;
  receive_tidy(peer);
  (void)busq_fetch_add(&peer->sleepers.receivers_asleep, 1); /* SYNC POINT sleepers */
  do
    result = wait_one_sleep(peer, wait);
  while (result == BUSQ_FULL);
  const uint64_t since_ns = busq_load_relaxed(&peer->self->receives.since_ns);
  wait_leave(peer, result);
  if (busq_bus_is_recorded(peer->bus) && wait->is_published)
    wait_record(peer, since_ns, result);
  return result;
}

/* With the next slot before its eyes, if there is one for it already. */
static bool spin_for_next(busq_peer *peer, busq_wait *wait)
{
  const uint64_t next = peer->receiver.scan;
  busq_pair *const slot = busq_receiver_slot(&peer->receiver, next);
  return busq_wait_spin(wait, peer, slot ? &(busq_watch){&slot->lo, busq_ring_lap(&peer->receiver.ring, next)} : NULL);
}

/* Between begin and end.  Looks for messages alone: whether something blocks the queue, or the bus has ended, is seen a
 * microsecond later. */
static int receive_spin(busq_peer *peer, busq_wait *wait)
{
  int result;
  if (busq_pacing_sleeps_at_once(peer))
    return busq_receive_peek(peer);
  busq_pacing_let_messages_gather(peer);
  do {
    result = busq_receive_peek(peer);
  } while (result == BUSQ_EMPTY && spin_for_next(peer, wait));
  if (result == BUSQ_OK)
    busq_pacing_wait_was_short(peer);
  return result;
}

/* Yields, then sleeps. */
static int wait_spun(busq_peer *peer, busq_wait *wait)
{
  const bool leaves_yields_out = busq_pacing_leaves_yields_out(peer, &peer->pacing.message_yields);
  while (!leaves_yields_out && !busq_pacing_sleeps_at_once(peer) && busq_wait_yield(wait, peer)) {
    const int result = receive_ready(peer, NULL);
    busq_pacing_learn_from_yield(peer, &peer->pacing.message_yields, wait->yielded_ns,
                                 busq_pacing_is_crowded(peer) ? busq_ring_depth(&peer->receiver.ring) : 0);
    if (result != BUSQ_EMPTY) {
      busq_pacing_wait_was_short(peer);
      return result;
    }
  }
  busq_store_relaxed(&peer->pacing.short_waits, 0);
  (void)busq_wait_spent_ns(wait); /* the clock runs at the latest from now on */
  const int result = wait_asleep(peer, wait);
  busq_pacing_wait_has_slept(peer, wait, result);
  return result;
}

int busq_peer_wait(busq_peer *peer, int64_t timeout_ns)
{
  busq_wait wait;
  int result = receive_ready(peer, NULL);
  if (result != BUSQ_EMPTY || timeout_ns == 0)
    return result;
  busq_wait_begin(&wait, timeout_ns);
  result = busq_receive_begin(peer);
  if (result != BUSQ_OK)
    return result;
  result = receive_spin(peer, &wait);
  busq_biased_latch_release(&peer->receiver.latch);
  return result == BUSQ_EMPTY ? wait_spun(peer, &wait) : result;
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
  return wait_spun(peer, &wait);
}

/* ---- the whole of a receive ---- */

static int receive_available(busq_peer *peer, uint32_t mode, busq_message *messages, uint32_t limit, uint32_t *countp)
{
  const uint64_t copied_below = mode == BUSQ_TAKE_COPIED ? UINT64_MAX : 0;
  int result = begin_as_reader(peer);
  *countp = 0;
  if (result != BUSQ_OK)
    return result;
  while (*countp < limit && (result = receive_peek(peer, copied_below)) == BUSQ_OK) {
    busq_message *message = &messages[*countp];
    message_found(peer, message);
    busq_receive_take(peer, mode);
    if (BUSQ_UNLIKELY(message->form & BUSQ_FORM_ENVELOPE))
      message_open(peer, message, peer->receiver.handles_alive);
    ++*countp;
  }
  busq_peer_receive_end(peer);
  return *countp ? BUSQ_OK : result;
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
