/* SPDX-License-Identifier: Apache-2.0 */
#include "base/latch.h"
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void step_aside(unsigned turn)
{
  if (turn < 16) {
    busq_cpu_relax();
  } else if (turn < 64) {
    sched_yield();
  } else {
    /* The holder may have a lower priority and the same core: step aside for good. */
    const struct timespec pause = {0, 50000};
    nanosleep(&pause, NULL);
  }
}

void busq_latch_wait(busq_latch *latch)
{
  for (unsigned turn = 0;; turn++) {
    if (!__atomic_load_n(&latch->held, __ATOMIC_RELAXED) && !__atomic_exchange_n(&latch->held, 1, __ATOMIC_ACQUIRE))
      return;
    step_aside(turn);
  }
}

/* ---- with a bias ---- */

/* ThreadSanitizer does not know of this barrier. */
#ifdef BUSQ_TSAN
#define HAS_BARRIER 0
#else
#define HAS_BARRIER 1
#endif

static bool barrier(int command)
{
  return HAS_BARRIER && syscall(SYS_membarrier, command, 0, 0) == 0;
}

/* Each process registers once for the barrier; a child of a fork may not have done so. */
static bool barrier_register(void)
{
  static uint32_t registered_by;
  const uint32_t self = (uint32_t)getpid();
  if (__atomic_load_n(&registered_by, __ATOMIC_ACQUIRE) == self)
    return true;
  if (!barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
    return false;
  __atomic_store_n(&registered_by, self, __ATOMIC_RELEASE);
  return true;
}

/* A process that has forbidden itself the call since waits for as long as no store takes to leave its core. */
static void barrier_all_threads(void)
{
  const struct timespec long_enough = {0, 20000000};
  if (!barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED))
    nanosleep(&long_enough, NULL);
}

void busq_biased_latch_init(busq_biased_latch *latch)
{
  *latch = (busq_biased_latch){.owner = barrier_register() ? BUSQ_LATCH_UNCLAIMED : BUSQ_LATCH_UNBIASED};
}

/* From its owner, whose last stay is waited for. Several threads may do this at once, and each to its end: the one that
 * began it may be cancelled while it waits. */
static void bias_take_away(busq_biased_latch *latch)
{
  barrier_all_threads(); /* SYNC POINT bias */
  for (unsigned turn = 0; __atomic_load_n(&latch->is_inside, __ATOMIC_ACQUIRE); turn++) /* SYNC POINT latch */
    step_aside(turn);
  busq_latch_acquire(&latch->latch);
  __atomic_store_n(&latch->owner, BUSQ_LATCH_UNBIASED, __ATOMIC_RELEASE);
}

void busq_biased_latch_acquire_slow(busq_biased_latch *latch)
{
  for (;;) {
    uintptr_t owner = __atomic_load_n(&latch->owner, __ATOMIC_ACQUIRE);
    if (owner == BUSQ_LATCH_UNBIASED) {
      busq_latch_acquire(&latch->latch);
      return;
    }
    const bool is_unclaimed = owner == BUSQ_LATCH_UNCLAIMED;
    const uintptr_t next = is_unclaimed ? busq_latch_thread() : BUSQ_LATCH_TAKEN_AWAY;
    const bool is_done =
        __atomic_compare_exchange_n(&latch->owner, &owner, next, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    if (is_done && !is_unclaimed) {
      bias_take_away(latch);
      return;
    }
    if (busq_biased_latch_enter(latch))
      return;
  }
}
