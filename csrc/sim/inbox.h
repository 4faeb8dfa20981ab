/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SIM_INBOX_H
#define BUSQ_SIM_INBOX_H
/*
 * The events that wait for a process that does nothing while it works at a job.
 *
 * Guarantee: first in, first out.  Adding and taking cost O(1) in the mean, and there is room for about twice as much as
 * ever waits at once.
 *
 * Mechanism: an array with a head.  Where the array is full and at least half of it was taken, the rest moves to the front;
 * otherwise it grows.
 *
 * Not given: a limit on what waits.
 */
#include "base/growing.h"
#include "sim/network.h"

/* `what` is one of BUSQ_SIM_AT_ARRIVAL, _SUBMIT and _TICK; only the first has an arrival. */
typedef struct {
  busq_sim_arrival arrival;
  uint32_t what;
  uint32_t unused;
} busq_sim_waiting;

/* Invariant: head <= n <= capacity, and head < n or both are 0. */
typedef struct {
  busq_sim_waiting *items;
  uint32_t head;
  uint32_t n;
  uint32_t capacity;
  uint32_t unused;
} busq_sim_inbox;

static inline bool busq_sim_inbox_is_empty(const busq_sim_inbox *inbox)
{
  return inbox->n == 0;
}

/* False where memory ran out.  `arrival` may be NULL. */
static inline bool busq_sim_inbox_add(busq_sim_inbox *inbox, uint32_t what, const busq_sim_arrival *arrival)
{
  if (inbox->n == inbox->capacity && inbox->head >= inbox->n - inbox->head && inbox->head) {
    memmove(inbox->items, inbox->items + inbox->head, (inbox->n - inbox->head) * sizeof *inbox->items);
    inbox->n -= inbox->head;
    inbox->head = 0;
  }
  if (!busq_reserve(&inbox->items, &inbox->capacity, (uint64_t)inbox->n + 1, sizeof *inbox->items))
    return false;
  inbox->items[inbox->n] = (busq_sim_waiting){.what = what};
  if (arrival)
    inbox->items[inbox->n].arrival = *arrival;
  inbox->n++;
  return true;
}

/* There is one. */
static inline busq_sim_waiting busq_sim_inbox_take(busq_sim_inbox *inbox)
{
  const busq_sim_waiting first = inbox->items[inbox->head++];
  if (inbox->head == inbox->n)
    inbox->head = inbox->n = 0;
  return first;
}

#endif /* BUSQ_SIM_INBOX_H */
