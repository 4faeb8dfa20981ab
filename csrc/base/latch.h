/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_BASE_LATCH_H
#define BUSQ_BASE_LATCH_H
/*
 * A latch orders the threads of one process among themselves, in private memory.
 *
 * Guarantee: a thread that waits for it soon stops using its core, so that a holder of lower priority comes to its end
 * there, real-time priorities included.
 *
 * A biased latch does the same, and costs its owner, the first thread that acquires it, no locked instruction, for as
 * long as no other thread does.  The first other one takes the bias away for good; from then on it is an ordinary
 * latch.
 *
 * Mechanism: the owner marks itself as inside, by a plain store, and looks whether it still is the owner.  Nothing
 * orders that store before that load but the thread that takes the bias away: between its own store and its own load it
 * makes every thread of the process pass a full barrier (membarrier).
 *
 *      owner     inside = 1   (in its store buffer)         owner? still me: goes in
 *      other     owner = none;  all threads: barrier;     inside? 1: waits until the owner has left
 *
 * Without the barrier both would go in.  Where the kernel has none, a latch has no bias from the beginning.
 *
 * Not given: turns, or a process that is killed while it holds one: all that it orders ends with it.
 */
#include "base/assert.h"
#include "base/atomic.h"
#include "base/types.h"

typedef struct {
  uint32_t held;
} busq_latch;

void busq_latch_wait(busq_latch *latch);

static inline void busq_latch_acquire(busq_latch *latch)
{
  /* SYNC POINT latch: what the holder before us wrote comes before what we read. */
  if (BUSQ_UNLIKELY(__atomic_exchange_n(&latch->held, 1, __ATOMIC_ACQUIRE)))
    busq_latch_wait(latch);
}

static inline void busq_latch_release(busq_latch *latch)
{
  BUSQ_ASSERT(__atomic_load_n(&latch->held, __ATOMIC_RELAXED)); /* by us */
  /* SYNC POINT latch */
  __atomic_store_n(&latch->held, 0, __ATOMIC_RELEASE);
}

/* ---- with a bias ---- */

typedef struct {
  uintptr_t owner;    /* a thread, or one of the states below */
  uint32_t is_inside; /* the owner */
  busq_latch latch;   /* of all threads, once it has no owner any more */
} busq_biased_latch;

enum {
  BUSQ_LATCH_UNCLAIMED = 0,
  BUSQ_LATCH_UNBIASED = 1,
  BUSQ_LATCH_TAKEN_AWAY = 2 /* the owner may still be inside */
};

/* A number that no other living thread of the process has: where its thread-local storage is. */
static inline uintptr_t busq_latch_thread(void)
{
  uintptr_t self;
#if defined(__x86_64__)
  __asm__("mov %%fs:0, %0" : "=r"(self));
#else
  __asm__("mrs %0, tpidr_el0" : "=r"(self));
#endif
  return self;
}

void busq_biased_latch_init(busq_biased_latch *latch);
void busq_biased_latch_acquire_slow(busq_biased_latch *latch);

static inline bool busq_biased_latch_enter(busq_biased_latch *latch)
{
  const uintptr_t self = busq_latch_thread();
  if (BUSQ_UNLIKELY(__atomic_load_n(&latch->owner, __ATOMIC_RELAXED) != self))
    return false;
  BUSQ_ASSERT(!__atomic_load_n(&latch->is_inside, __ATOMIC_RELAXED)); /* by ourselves, further up the stack */
  __atomic_store_n(&latch->is_inside, 1, __ATOMIC_RELAXED);
  __atomic_signal_fence(__ATOMIC_SEQ_CST); /* SYNC POINT bias */
  if (BUSQ_LIKELY(__atomic_load_n(&latch->owner, __ATOMIC_RELAXED) == self))
    return true;
  __atomic_store_n(&latch->is_inside, 0, __ATOMIC_RELEASE);
  return false;
}

static inline void busq_biased_latch_acquire(busq_biased_latch *latch)
{
  if (BUSQ_UNLIKELY(!busq_biased_latch_enter(latch)))
    busq_biased_latch_acquire_slow(latch);
}

/* A thread inside by its bias finds the other latch free: no thread takes that before the owner has left. */
static inline void busq_biased_latch_release(busq_biased_latch *latch)
{
  if (BUSQ_UNLIKELY(__atomic_load_n(&latch->latch.held, __ATOMIC_RELAXED))) {
    busq_latch_release(&latch->latch);
    return;
  }
  BUSQ_ASSERT(__atomic_load_n(&latch->is_inside, __ATOMIC_RELAXED));
  /* SYNC POINT latch */
  __atomic_store_n(&latch->is_inside, 0, __ATOMIC_RELEASE);
}

#endif /* BUSQ_BASE_LATCH_H */
