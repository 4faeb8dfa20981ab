/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/memory/shown.h"
#include "base/assert.h"
#include "base/latch.h"
#include "base/types.h"
#include "shm/memory/mapping.h"
#include <pthread.h>
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
  busq_window_hold();
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
  busq_window_let_go();
  busq_latch_release(&shown_latch);
}

/* Two payloads may share a page: each is copied to its own bytes, over what the other one has put there.  Another
 * thread that looks meanwhile finds the one page or the other.  Where there is a copy, what is copied may be released,
 * and its memory gone behind the arena: to read it there would take it from the file system for good, or be a SIGBUS. */
static void pages_replace(const busq_pin *pin)
{
  const page_range pages = pages_of(pin);
  const size_t before = (size_t)((const char *)pin->message.data - pages.begin);
  char *private = mmap(NULL, pages.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (private == MAP_FAILED)
    return;
  const size_t end = before + pin->message.size_bytes;
  memcpy(private, pages.begin, before);
  memcpy(private + before, (pin->copy ? (const char *)pin->copy : pages.begin) + before, pin->message.size_bytes);
  if (pin->message.record < pin->peer->bus->huge_unit)
    memcpy(private + end, pages.begin + end, pages.bytes - end);
  if (pin->window)
    (void)mprotect(private, pages.bytes, PROT_READ);
  (void)mremap(private, pages.bytes, pages.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, pages.begin);
}

/* No pin stays in the list: the next fork copies what is private already.  What this process receives may stand in the
 * same pages by then: it looks at that through another window. */
static void fork_child(void)
{
  busq_window_let_go();
  for (busq_pin *pin = shown, *next; pin; pin = next) {
    next = pin->next;
    pin->next = NULL;
    pin->link = NULL;
    if (pin->copy && (pin->window || busq_bus_move(pin->peer->bus)))
      pages_replace(pin);
    if (pin->window)
      busq_window_change(pin->peer->bus);
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

static void watch(void)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, fork_watch);
}

void busq_shown_add(busq_pin *pin)
{
  watch();
  busq_latch_acquire(&shown_latch);
  pin->next = shown;
  pin->link = &shown;
  if (shown)
    shown->link = &pin->next;
  shown = pin;
  busq_latch_release(&shown_latch);
}

void busq_shown_remove(busq_pin *pin)
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

/* ---- windows ---- */

int busq_shown_open(busq_pin *pin, busq_bus *bus)
{
  watch();
  busq_window *window = busq_window_open(bus, pin->message.data, pin->message.size_bytes);
  if (!window)
    return BUSQ_SYSTEM;
  BUSQ_ASSERT(!pin->window);
  pin->window = window;
  pin->message.data = window->base + ((const char *)pin->message.data - bus->base);
  return BUSQ_OK;
}

void busq_shown_close(busq_pin *pin)
{
  busq_window_close(pin->window);
  pin->window = NULL;
}

static bool is_kept_of(const busq_pin *pin, const busq_peer *peer)
{
  return pin->peer == peer && (pin->mode == BUSQ_TAKE_OFFERED || pin->mode == BUSQ_TAKE_ACKED);
}

/* A view that ends just now takes its pin out of the list first, and then looks at the mode.  The window is changed
 * before the pages: or another thread could receive what is written behind the copy, and look for it in the old one. */
void busq_shown_keep(busq_peer *peer, void (*release)(busq_peer *peer, const busq_message *message))
{
  bool is_changed = false;
  busq_latch_acquire(&shown_latch);
  for (busq_pin *pin = shown; pin; pin = pin->next) {
    if (!is_kept_of(pin, peer))
      continue;
    if (!is_changed)
      busq_window_change(peer->bus);
    is_changed = true;
    pages_replace(pin);
    if (pin->mode == BUSQ_TAKE_ACKED)
      release(peer, &pin->message);
    pin->mode = BUSQ_TAKE_OFFERED; /* nothing is left to be released */
  }
  busq_latch_release(&shown_latch);
}
