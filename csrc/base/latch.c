/* SPDX-License-Identifier: Apache-2.0 */
#include "base/latch.h"
#include <sched.h>
#include <time.h>

void busq_latch_wait(busq_latch *latch)
{
  for (unsigned turn = 0;; turn++) {
    if (!__atomic_load_n(&latch->held, __ATOMIC_RELAXED) && !__atomic_exchange_n(&latch->held, 1, __ATOMIC_ACQUIRE))
      return;
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
}
