/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_EXPLORE_COROUTINE_H
#define BUSQ_EXPLORE_COROUTINE_H
/*
 * Coroutines whose whole memory can be looked at, put aside and put back.
 *
 * Guarantee: busq_coroutine_run goes on where the coroutine last called busq_coroutine_pause, and comes back at its
 * next pause or at its end.  Between two runs its registers and the used part of its stack are all that it remembers:
 * put back what was copied from there, and it goes on from that place again.
 *
 * Mechanism: ucontext for the first entry, _setjmp and _longjmp afterwards, because they need no system call.  What
 * lies below the used part of the stack is zeroed at every pause; otherwise what earlier calls have left there would
 * shine through the gaps of later frames, and make equal states look different.
 *
 * Not given: threads, or AddressSanitizer, which does not know that a stack was put back.
 */
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#define BUSQ_COROUTINE_STACK_BYTES (64u << 10)

typedef struct {
  jmp_buf registers;
  ucontext_t context;
  void (*body)(void *argument);
  void *argument;
  char *stack_pointer; /* at the last pause */
  bool is_started;
  bool has_ended;
  _Alignas(64) char stack[BUSQ_COROUTINE_STACK_BYTES];
} busq_coroutine;

/* From the beginning of the body, at the next run. */
void busq_coroutine_init(busq_coroutine *self, void (*body)(void *argument), void *argument);
void busq_coroutine_run(busq_coroutine *self);
/* On the coroutine's stack: back to its caller. */
void busq_coroutine_pause(void);

static inline size_t busq_coroutine_used_bytes(const busq_coroutine *self)
{
  return (size_t)(self->stack + sizeof self->stack - self->stack_pointer);
}

#endif /* BUSQ_EXPLORE_COROUTINE_H */
