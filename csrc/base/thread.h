/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_BASE_THREAD_H
#define BUSQ_BASE_THREAD_H
/*
 * The threads of this process, by the numbers that the kernel gives them.
 *
 * Guarantee: where busq_thread_lives returns false, the thread has ended; and asking for one's own number costs what a
 * look at a variable does.
 *
 * Mechanism: the kernel is asked for the number once per thread.  The place of a thread's storage would be quicker to
 * have, but the next thread may get the same.
 *
 * Not given: a thread that has ended may look alive, since another one has its number by now, or the kernel does not
 * answer.
 */
#include "base/types.h"

/* With the C library of GNU, storage of a thread that a module brings along lies at an offset that is known once the
 * module is loaded; elsewhere finding it is a call. */
#ifdef __GLIBC__
#define BUSQ_THREAD_STORAGE __attribute__((tls_model("initial-exec")))
#else
#define BUSQ_THREAD_STORAGE
#endif

extern _Thread_local uint32_t busq_thread_number BUSQ_THREAD_STORAGE;

uint32_t busq_thread_number_ask(void);

/* Never 0. */
static inline uint32_t busq_thread_self(void)
{
  return BUSQ_LIKELY(busq_thread_number) ? busq_thread_number : busq_thread_number_ask();
}

/* In a forked child, whose only thread has another number than the one that it is a copy of. */
static inline void busq_thread_forget(void)
{
  busq_thread_number = 0;
}

bool busq_thread_lives(uint32_t number);

#endif /* BUSQ_BASE_THREAD_H */
