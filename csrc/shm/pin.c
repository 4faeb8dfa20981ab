/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pins: holds on messages that a language binding can own (busq.h).
 *
 * Guarantee: a message that was taken through a pin is released, acknowledged or given back once, however often and
 * from whichever thread that is asked for; and what is shown of it in place stays what it was, in a forked child too.
 *
 * Mechanism: the thread that gets the state to BUSY by a CAS is the one that lets go.  Pins that are shown stand in a
 * list.  Before a fork their payloads are copied; in the child the copies take the place of the pages in the old
 * mapping, which no other code uses there:  the bus gets a new one.  Without a pin that is shown a fork costs nothing.
 * A draft is shown while there are views of it: what a child writes into its copy is lost.
 *
 * Not given: a copy where memory runs out.  The child then sees what the parent, and later users of the memory, make of
 * it.
 */
#include "base/assert.h"
#include "base/error.h"
#include "base/types.h"
#include "shm/memory/mapping.h"
#include "shm/memory/peer.h"
#include "shm/node/node.h"
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- what is shown when the process forks ---- */

static busq_pin *shown;
static busq_latch shown_latch; /* of the list; taken last */

typedef struct {
  char *begin;
  size_t bytes;
} page_range;

/* The pages of the payload. */
static page_range pages_of(const busq_pin *pin)
{
  const uintptr_t mask = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
  const uintptr_t begin = (uintptr_t)pin->message.data & ~mask;
  const uintptr_t end = ((uintptr_t)pin->message.data + pin->message.size_bytes + mask) & ~mask;
  return (page_range){(char *)begin, end - begin};
}

/* Copied here, not in the child: the parent may release it, and its memory be used again, before the child has run. */
static void fork_prepare(void)
{
  busq_latch_acquire(&shown_latch);
  for (busq_pin *pin = shown; pin; pin = pin->next) {
    const page_range pages = pages_of(pin);
    void *copy = mmap(NULL, pages.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pin->copy = copy == MAP_FAILED ? NULL : copy;
    if (pin->copy)
      memcpy((char *)copy + ((const char *)pin->message.data - pages.begin), pin->message.data,
             pin->message.size_bytes);
  }
}

static void fork_parent(void)
{
  for (busq_pin *pin = shown; pin; pin = pin->next) {
    if (pin->copy)
      munmap(pin->copy, pages_of(pin).bytes);
    pin->copy = NULL;
  }
  busq_latch_release(&shown_latch);
}

/* Two payloads may share a page: each is copied to its own bytes, over what the other one has put there. */
static void pages_replace(const busq_pin *pin)
{
  const page_range pages = pages_of(pin);
  const size_t before = (size_t)((const char *)pin->message.data - pages.begin);
  char *private = mmap(NULL, pages.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (private == MAP_FAILED)
    return;
  memcpy(private, pages.begin, pages.bytes);
  memcpy(private + before, (const char *)pin->copy + before, pin->message.size_bytes);
  (void)mremap(private, pages.bytes, pages.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, pages.begin);
}

/* No pin stays in the list: the next fork copies what is private already. */
static void fork_child(void)
{
  for (busq_pin *pin = shown, *next; pin; pin = next) {
    next = pin->next;
    pin->next = NULL;
    pin->link = NULL;
    if (pin->copy && busq_bus_move(pin->peer->bus))
      pages_replace(pin);
    if (pin->copy)
      munmap(pin->copy, pages_of(pin).bytes);
    pin->copy = NULL;
  }
  shown = NULL;
  busq_latch_release(&shown_latch);
}

static void fork_watch(void)
{
  pthread_atfork(fork_prepare, fork_parent, fork_child);
}

static void list_add(busq_pin *pin)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, fork_watch);
  busq_latch_acquire(&shown_latch);
  pin->next = shown;
  pin->link = &shown;
  if (shown)
    shown->link = &pin->next;
  shown = pin;
  busq_latch_release(&shown_latch);
}

static void list_remove(busq_pin *pin)
{
  busq_latch_acquire(&shown_latch);
  if (pin->link) {
    *pin->link = pin->next;
    if (pin->next)
      pin->next->link = pin->link;
    pin->link = NULL;
  }
  busq_latch_release(&shown_latch);
}

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
    list_remove(pin);
  if (pin->fork_generation == busq_fork_generation)
    pin_let_go_handles(pin);
  if (pin->mode == BUSQ_TAKE_PINNED)
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

void busq_pin_adopt(busq_pin *pin, busq_peer *peer, const busq_message *message)
{
  busq_peer_retain(peer);
  pin->peer = peer;
  pin->mode = BUSQ_TAKE_PINNED;
  BUSQ_ASSERT(busq_load_relaxed(&pin->state) == BUSQ_PIN_EMPTY);
  busq_store_relaxed(&pin->fork_generation, busq_fork_generation);
  pin->message = *message;
  list_add(pin);
  busq_store_release(&pin->state, BUSQ_PIN_SHOWN);
}

int busq_pin_check(const busq_pin *pin)
{
  const uint32_t state = busq_load_acquire(&pin->state);
  if (pin_is_orphaned(pin))
    return BUSQ_FORKED;
  return (state == BUSQ_PIN_TAKEN || state == BUSQ_PIN_KEPT) && pin->peer->fork_generation != busq_fork_generation
             ? BUSQ_FORKED
             : BUSQ_OK;
}

int busq_pin_show(busq_pin *pin)
{
  const uint32_t state = pin_seize(pin);
  if (state == BUSQ_PIN_EMPTY)
    return pin_is_orphaned(pin) ? BUSQ_FORKED : BUSQ_OK;
  const bool is_forked = state != BUSQ_PIN_SHOWN && pin->peer->fork_generation != busq_fork_generation;
  if (state != BUSQ_PIN_SHOWN && !is_forked)
    list_add(pin);
  if (!is_forked)
    pin->n_views++;
  busq_store_release(&pin->state, is_forked ? state : (uint32_t)BUSQ_PIN_SHOWN);
  return is_forked ? BUSQ_FORKED : BUSQ_OK;
}

int busq_pin_ack(busq_pin *pin)
{
  const uint32_t state = pin_seize(pin);
  if (state == BUSQ_PIN_EMPTY)
    return pin_is_orphaned(pin) ? BUSQ_FORKED : BUSQ_OK;
  const int result = pin->mode == BUSQ_TAKE_OFFERED ? busq_peer_ack(pin->peer, &pin->message) : BUSQ_OK;
  if (result == BUSQ_OK && pin->mode == BUSQ_TAKE_OFFERED)
    pin_empty(pin);
  else
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

/* A draft belongs to its owner, not to its views: the owner may send it once the last of them is gone. */
static void draft_view_ended(busq_pin *pin)
{
  BUSQ_ASSERT(pin->n_views > 0);
  if (!--pin->n_views)
    list_remove(pin);
  busq_store_release(&pin->state, pin->n_views ? BUSQ_PIN_SHOWN : BUSQ_PIN_TAKEN);
}

void busq_pin_end(busq_pin *pin, const void *data)
{
  (void)data;
  const uint32_t state = pin_seize(pin);
  if (state == BUSQ_PIN_TAKEN)
    busq_store_release(&pin->state, state);
  else if (state != BUSQ_PIN_EMPTY && pin->mode == BUSQ_TAKE_DRAFT)
    draft_view_ended(pin);
  else if (state != BUSQ_PIN_EMPTY)
    pin_let_go(pin, state);
}

void busq_pin_drop(busq_pin *pin)
{
  if (busq_load_acquire(&pin->state) == BUSQ_PIN_TAKEN || pin->mode == BUSQ_TAKE_DRAFT)
    busq_pin_give_back(pin);
  else
    busq_pin_end(pin, NULL);
}
