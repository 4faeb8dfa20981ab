/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SIM_AGENDA_H
#define BUSQ_SIM_AGENDA_H
/*
 * The next events: a heap of times.
 *
 * Guarantee: what was pushed comes out by time, and at the same time in the order of pushing.  Pushing and popping cost
 * O(log n).
 *
 * Mechanism: a heap with four children per entry, whose entries are 16 bytes, compared as one number: above the time,
 * below it a running number and 28 bits for what happens.  Behind the last entry stand three that come after
 * everything, so that the least of four children is found without asking how many there are, and without a branch that
 * guesses.
 *
 * Not given: more than 2^36 pushes, or taking out what is not first.  Times up to BUSQ_SIM_TIME_MAX_NS are of use: to
 * one that has come everything that a configuration may ask for can be added without an overflow, and what has come
 * later ends the run.
 */
#include "base/types.h"
#include <stdlib.h>

enum { BUSQ_SIM_WHAT_BITS = 28 };
#define BUSQ_SIM_TIME_MAX_NS (UINT64_C(1) << 62) /* 146 years */

typedef struct {
  uint64_t time_ns;
  uint64_t ticket;
} busq_sim_time;

/* Invariant: n + 3 <= capacity, or nothing was ever pushed; entries[n .. n + 3) are BUSQ_SIM_NEVER. */
typedef struct {
  busq_sim_time *entries;
  size_t n;
  size_t capacity;
  uint64_t pushed;
} busq_sim_agenda;

#define BUSQ_SIM_NEVER ((busq_sim_time){UINT64_MAX, UINT64_MAX})

static inline uint32_t busq_sim_time_what(busq_sim_time time)
{
  return (uint32_t)time.ticket & ((UINT32_C(1) << BUSQ_SIM_WHAT_BITS) - 1);
}

static inline bool busq_sim_time_is_before(const busq_sim_time *a, const busq_sim_time *b)
{
  return ((unsigned __int128)a->time_ns << 64 | a->ticket) < ((unsigned __int128)b->time_ns << 64 | b->ticket);
}

/* Room for one entry more; false where memory ran out. */
static inline bool busq_sim_agenda_reserve(busq_sim_agenda *agenda)
{
  if (BUSQ_LIKELY(agenda->n + 3 < agenda->capacity))
    return true;
  const size_t capacity = agenda->capacity ? 2 * agenda->capacity : 1024;
  busq_sim_time *entries = realloc(agenda->entries, capacity * sizeof *entries);
  if (!entries)
    return false;
  for (size_t place = agenda->n; place < agenda->n + 3; place++)
    entries[place] = BUSQ_SIM_NEVER;
  agenda->entries = entries;
  agenda->capacity = capacity;
  return true;
}

static inline busq_sim_time busq_sim_time_of(busq_sim_agenda *agenda, uint64_t time_ns, uint32_t what)
{
  return (busq_sim_time){.time_ns = time_ns, .ticket = agenda->pushed++ << BUSQ_SIM_WHAT_BITS | what};
}

static inline void busq_sim_agenda_sink(busq_sim_agenda *agenda, busq_sim_time entry)
{
  busq_sim_time *entries = agenda->entries;
  size_t hole = 0;
  for (;;) {
    const busq_sim_time *children = &entries[4 * hole + 1];
    if (4 * hole + 1 >= agenda->n)
      break;
    const size_t left = busq_sim_time_is_before(&children[1], &children[0]);
    const size_t right = 2 + busq_sim_time_is_before(&children[3], &children[2]);
    const size_t least = busq_sim_time_is_before(&children[right], &children[left]) ? right : left;
    if (!busq_sim_time_is_before(&children[least], &entry))
      break;
    entries[hole] = children[least];
    hole = 4 * hole + 1 + least;
  }
  entries[hole] = entry;
}

static inline bool busq_sim_agenda_push(busq_sim_agenda *agenda, uint64_t time_ns, uint32_t what)
{
  if (!busq_sim_agenda_reserve(agenda))
    return false;
  const busq_sim_time entry = busq_sim_time_of(agenda, time_ns, what);
  size_t hole = agenda->n++;
  agenda->entries[agenda->n + 2] = BUSQ_SIM_NEVER;
  while (hole && busq_sim_time_is_before(&entry, &agenda->entries[(hole - 1) / 4])) {
    agenda->entries[hole] = agenda->entries[(hole - 1) / 4];
    hole = (hole - 1) / 4;
  }
  agenda->entries[hole] = entry;
  return true;
}

/* Takes the first one out; there is one. */
static inline void busq_sim_agenda_pop(busq_sim_agenda *agenda)
{
  const busq_sim_time last = agenda->entries[--agenda->n];
  agenda->entries[agenda->n] = BUSQ_SIM_NEVER;
  if (agenda->n)
    busq_sim_agenda_sink(agenda, last);
}

/* Takes the first one out and pushes another, which is cheaper than both. */
static inline void busq_sim_agenda_replace(busq_sim_agenda *agenda, uint64_t time_ns, uint32_t what)
{
  busq_sim_agenda_sink(agenda, busq_sim_time_of(agenda, time_ns, what));
}

#endif /* BUSQ_SIM_AGENDA_H */
