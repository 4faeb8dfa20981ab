/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pins: holds on messages that a language binding can own (busq.h).
 *
 * Guarantee: a message that was taken through a pin is released, acknowledged or given back once, however often and
 * from whichever thread that is asked for; and what is shown of it in place stays what it was (memory/shown.h), until
 * the last view ends: acknowledged before that, it is kept as one that was received without having to be.
 *
 * Mechanism: the thread that gets the state to BUSY by a CAS is the one that lets go.  Views are counted.
 *
 * Not given: what a forked child writes into the memory of a draft is lost.
 */
#include "base/assert.h"
#include "base/error.h"
#include "base/types.h"
#include "shm/memory/shown.h"
#include "shm/node/node.h"
#include <sched.h>

/* ---- one pin ---- */

/* A thread of the parent had it in hand when this process was forked.  That thread is not here, and no other thread
 * ends what it began. */
static bool pin_is_orphaned(const busq_pin *pin)
{
  return busq_load_acquire(&pin->state) == BUSQ_PIN_BUSY &&
         busq_load_relaxed(&pin->fork_generation) != busq_fork_generation;
}

/* Leaves the pin BUSY and to the caller alone; the state it had, or EMPTY where there is nothing to be had. */
static uint32_t pin_seize(busq_pin *pin)
{
  for (;;) {
    const uint32_t state = busq_load_acquire(&pin->state);
    if (state == BUSQ_PIN_EMPTY || pin_is_orphaned(pin))
      return BUSQ_PIN_EMPTY;
    if (state == BUSQ_PIN_BUSY)
      sched_yield();
    else if (busq_cas32(&pin->state, state, BUSQ_PIN_BUSY))
      return state;
  }
}

static void pin_empty(busq_pin *pin)
{
  busq_peer *peer = pin->peer;
  BUSQ_ASSERT(busq_load_relaxed(&pin->state) == BUSQ_PIN_BUSY); /* ours alone */
  BUSQ_ASSERT(peer && !pin->link);
  pin->peer = NULL;
  busq_shown_close(pin);
  busq_store_release(&pin->state, BUSQ_PIN_EMPTY);
  busq_peer_free(peer);
}

/* The handles that it has brought and the application has not taken over are let go with it. */
static void pin_let_go_handles(const busq_pin *pin)
{
  if (pin->mode != BUSQ_TAKE_DRAFT)
    busq_node_release_handles(pin->peer, &pin->message);
}

static void pin_let_go(busq_pin *pin, uint32_t state)
{
  if (state == BUSQ_PIN_SHOWN)
    busq_shown_remove(pin);
  if (pin->fork_generation == busq_fork_generation)
    pin_let_go_handles(pin);
  if (pin->mode == BUSQ_TAKE_PINNED || pin->mode == BUSQ_TAKE_ACKED)
    busq_peer_release(pin->peer, &pin->message);
  else if (pin->mode == BUSQ_TAKE_DRAFT)
    busq_peer_discard(pin->peer, &pin->message);
  pin_empty(pin);
}

static void pin_fill(busq_pin *pin, busq_peer *peer, uint32_t mode)
{
  busq_peer_retain(peer);
  pin->peer = peer;
  pin->mode = mode;
  pin->n_views = 0;
  pin->window = NULL;
  busq_store_relaxed(&pin->fork_generation, busq_fork_generation);
  busq_store_release(&pin->state, BUSQ_PIN_TAKEN);
}

int busq_pin_recv(busq_pin *pin, busq_peer *peer, uint32_t mode, int64_t timeout_ns)
{
  uint32_t count;
  if (busq_load_acquire(&pin->state) != BUSQ_PIN_EMPTY)
    return BUSQ_INVALID;
  const int result = busq_peer_recv_as(peer, mode, &pin->message, 1, &count, timeout_ns);
  if (result == BUSQ_OK)
    pin_fill(pin, peer, mode);
  return result;
}

int busq_pin_reserve(busq_pin *pin, busq_peer *peer, uint64_t size_bytes, uint32_t n_targets, int64_t timeout_ns)
{
  if (busq_load_acquire(&pin->state) != BUSQ_PIN_EMPTY)
    return BUSQ_INVALID;
  const int result = busq_peer_reserve(peer, size_bytes, n_targets, timeout_ns, &pin->message);
  if (result == BUSQ_OK)
    pin_fill(pin, peer, BUSQ_TAKE_DRAFT);
  return result;
}

/* The pin is BUSY for as long as that lasts: no view is made that could write to what is sent. */
int busq_pin_send(busq_pin *pin, const uint64_t *targets, uint32_t n_targets, uint64_t size_bytes, uint32_t form,
                  int64_t timeout_ns, uint32_t *sentp)
{
  const uint32_t state = pin_seize(pin);
  if (state == BUSQ_PIN_EMPTY)
    return pin_is_orphaned(pin) ? BUSQ_FORKED : busq_error(BUSQ_INVALID, "this draft was sent, or given back, before");
  int result = BUSQ_OK;
  if (state != BUSQ_PIN_TAKEN || pin->mode != BUSQ_TAKE_DRAFT)
    result = busq_error(BUSQ_INVALID, "a draft that somebody still looks at, and could write to: drop all views of it first");
  if (result == BUSQ_OK)
    result = busq_peer_send_draft(pin->peer, targets, n_targets, &pin->message, size_bytes, form, timeout_ns, sentp);
  if (result == BUSQ_OK)
    pin_empty(pin);
  else
    busq_store_release(&pin->state, state);
  return result;
}

int busq_pin_open(busq_pin *pin, busq_peer *peer, uint32_t mode, const busq_message *message)
{
  BUSQ_ASSERT(busq_load_relaxed(&pin->state) == BUSQ_PIN_EMPTY);
  pin->message = *message;
  pin->mode = mode;
  pin->n_views = 0;
  busq_store_relaxed(&pin->fork_generation, busq_fork_generation);
  return busq_shown_open(pin, peer->bus);
}

void busq_pin_adopt(busq_pin *pin, busq_peer *peer)
{
  BUSQ_ASSERT(busq_load_relaxed(&pin->state) == BUSQ_PIN_EMPTY);
  busq_peer_retain(peer);
  pin->peer = peer;
  busq_store_release(&pin->state, BUSQ_PIN_KEPT);
}

/* The first view.  The peer of a message that is not acknowledged may be closed just now, and a successor receive it:
 * either the closing thread finds the pin in the list, or we find the peer closed. */
static int pin_show_first(busq_pin *pin)
{
  if (pin->peer->fork_generation != busq_fork_generation)
    return BUSQ_FORKED;
  if (pin->mode != BUSQ_TAKE_DRAFT && !pin->window && busq_shown_open(pin, pin->peer->bus) != BUSQ_OK)
    return BUSQ_SYSTEM;
  busq_shown_add(pin);
  busq_fence_full(); /* SYNC POINT shown */
  if (pin->mode != BUSQ_TAKE_OFFERED || !busq_load_acquire(&pin->peer->is_closed))
    return BUSQ_OK;
  busq_shown_remove(pin);
  return BUSQ_CLOSED;
}

int busq_pin_show(busq_pin *pin)
{
  const uint32_t state = pin_seize(pin);
  if (state == BUSQ_PIN_EMPTY)
    return pin_is_orphaned(pin) ? BUSQ_FORKED : busq_error(BUSQ_INVALID, "what is to be shown was released before");
  const int result = state == BUSQ_PIN_SHOWN ? BUSQ_OK : pin_show_first(pin);
  pin->n_views += result == BUSQ_OK;
  busq_store_release(&pin->state, result == BUSQ_OK ? (uint32_t)BUSQ_PIN_SHOWN : state);
  return result;
}

int busq_pin_ack(busq_pin *pin)
{
  const uint32_t state = pin_seize(pin);
  if (state == BUSQ_PIN_EMPTY)
    return pin_is_orphaned(pin) ? BUSQ_FORKED : BUSQ_OK;
  const bool is_offered = pin->mode == BUSQ_TAKE_OFFERED;
  int result = BUSQ_OK;
  if (is_offered && pin->n_views)
    result = busq_peer_ack_and_keep(pin->peer, &pin->message);
  else if (is_offered)
    result = busq_peer_ack(pin->peer, &pin->message);
  if (is_offered && result == BUSQ_OK && !pin->n_views) {
    pin_empty(pin);
    return BUSQ_OK;
  }
  if (is_offered && result == BUSQ_OK)
    pin->mode = BUSQ_TAKE_ACKED;
  busq_store_release(&pin->state, state);
  return result;
}

void busq_pin_give_back(busq_pin *pin)
{
  const uint32_t state = pin_seize(pin);
  if (state == BUSQ_PIN_EMPTY)
    return;
  if (pin->mode != BUSQ_TAKE_DRAFT && state != BUSQ_PIN_SHOWN &&
      busq_peer_give_back(pin->peer, pin->mode, &pin->message) == BUSQ_OK)
    pin_empty(pin);
  else
    pin_let_go(pin, state);
}

/* A draft belongs to its owner, not to its views: it may be sent once the last of them is gone.  A message that waits
 * to be acknowledged stays, too. */
static void view_ended(busq_pin *pin)
{
  BUSQ_ASSERT(pin->n_views > 0);
  if (--pin->n_views) {
    busq_store_release(&pin->state, BUSQ_PIN_SHOWN);
    return;
  }
  busq_shown_remove(pin); /* and then looks at the mode (busq_shown_keep) */
  if (pin->mode == BUSQ_TAKE_DRAFT)
    busq_store_release(&pin->state, BUSQ_PIN_TAKEN);
  else if (pin->mode == BUSQ_TAKE_OFFERED)
    busq_store_release(&pin->state, BUSQ_PIN_KEPT);
  else
    pin_let_go(pin, BUSQ_PIN_KEPT);
}

void busq_pin_end(busq_pin *pin, const void *data)
{
  (void)data;
  const uint32_t state = pin_seize(pin);
  if (state == BUSQ_PIN_SHOWN)
    view_ended(pin);
  else if (state == BUSQ_PIN_TAKEN)
    busq_store_release(&pin->state, state);
  else if (state != BUSQ_PIN_EMPTY)
    pin_let_go(pin, state);
}

/* Also one that is shown: what looks at it has gone with it. */
void busq_pin_drop(busq_pin *pin)
{
  if (busq_load_acquire(&pin->state) == BUSQ_PIN_TAKEN || pin->mode == BUSQ_TAKE_DRAFT) {
    busq_pin_give_back(pin);
  } else {
    const uint32_t state = pin_seize(pin);
    if (state != BUSQ_PIN_EMPTY)
      pin_let_go(pin, state);
  }
  busq_shown_close(pin); /* of one that was opened and not adopted */
}
