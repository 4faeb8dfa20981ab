/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_WAKE_FUTEX_H
#define BUSQ_SHM_WAKE_FUTEX_H
/* Sleeping on a word of shared memory. */
#include "base/types.h"
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline void busq_futex_wake_all(uint32_t *word)
{
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* 0, or the error: EAGAIN where the word has another value, ETIMEDOUT, EINTR. */
static inline int busq_futex_wait(uint32_t *word, uint32_t value, uint64_t slice_ns)
{
  const struct timespec slice = {(time_t)(slice_ns / 1000000000u), (long)(slice_ns % 1000000000u)};
  return syscall(SYS_futex, word, FUTEX_WAIT, value, &slice, NULL, 0) == 0 ? 0 : errno;
}

#endif /* BUSQ_SHM_WAKE_FUTEX_H */
