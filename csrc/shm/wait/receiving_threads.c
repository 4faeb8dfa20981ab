/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/wait/receiving_threads.h"
#include <string.h>

/* The place of a thread; that of the last one where it has none. */
static uint32_t place_of(const busq_peer *peer, uint32_t thread)
{
  uint32_t at = 0;
  while (at < BUSQ_READERS_MAX - 1 && peer->receiver.readers[at].thread != thread)
    at++;
  return at;
}

void busq_readers_note_slow(busq_peer *peer)
{
  busq_reader *readers = peer->receiver.readers;
  const uint32_t thread = busq_thread_self();
  memmove(&readers[1], &readers[0], place_of(peer, thread) * sizeof *readers);
  readers[0] = (busq_reader){.thread = thread};
}

static void show_waiting(busq_peer *peer, uint32_t thread, bool is_waiting)
{
  busq_reader *reader = &peer->receiver.readers[place_of(peer, thread)];
  if (reader->thread == thread)
    reader->is_waiting = is_waiting;
}

static bool may_receive(const busq_reader *reader, uint32_t self)
{
  return reader->thread && reader->thread != self && !reader->is_waiting && busq_thread_lives(reader->thread);
}

bool busq_readers_await(busq_peer *peer)
{
  const uint32_t self = busq_thread_self();
  busq_biased_latch_acquire(&peer->receiver.latch);
  const busq_reader joiner = {.thread = peer->receiver.joined_by};
  bool may_wait = !peer->receiver.readers[0].thread && may_receive(&joiner, self);
  for (uint32_t i = 0; i < BUSQ_READERS_MAX && !may_wait; i++)
    may_wait = may_receive(&peer->receiver.readers[i], self);
  show_waiting(peer, self, may_wait);
  busq_biased_latch_release(&peer->receiver.latch);
  return may_wait;
}

void busq_readers_await_end(busq_peer *peer)
{
  busq_biased_latch_acquire(&peer->receiver.latch);
  show_waiting(peer, busq_thread_self(), false);
  busq_biased_latch_release(&peer->receiver.latch);
}
