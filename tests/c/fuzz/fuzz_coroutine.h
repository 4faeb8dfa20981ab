/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_TESTS_FUZZ_COROUTINE_H
#define BUSQ_TESTS_FUZZ_COROUTINE_H
/*
 * Coroutines that AddressSanitizer knows about, for calls that are stopped in the middle.
 *
 * Guarantee: coroutine_run goes on where the coroutine last called coroutine_pause, and comes back at its next pause or
 * at its end.  Mechanism: swapcontext, and each change of stacks is announced to the sanitizer.
 *
 * Not given: threads, speed (a change of stacks is a system call), or looking into a coroutine, as explore/coroutine.h
 * allows.
 */
#include <stdbool.h>
#include <stddef.h>
#include <ucontext.h>

#define COROUTINE_STACK_BYTES (128u << 10)

#if defined(__SANITIZE_ADDRESS__)
#define COROUTINE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define COROUTINE_ASAN 1
#endif
#endif

typedef struct {
  ucontext_t context;
  void (*body)(void *argument);
  void *argument;
  bool is_started;
  _Alignas(64) char stack[COROUTINE_STACK_BYTES];
} coroutine;

static ucontext_t coroutine_caller;
static coroutine *coroutine_now;
static const void *coroutine_caller_stack;
static size_t coroutine_caller_stack_bytes;

#ifdef COROUTINE_ASAN
void __sanitizer_start_switch_fiber(void **fake_stack, const void *bottom, size_t size);
void __sanitizer_finish_switch_fiber(void *fake_stack, const void **old_bottom, size_t *old_size);
#else
static inline void __sanitizer_start_switch_fiber(void **fake_stack, const void *bottom, size_t size)
{
  (void)fake_stack, (void)bottom, (void)size;
}
static inline void __sanitizer_finish_switch_fiber(void *fake_stack, const void **old_bottom, size_t *old_size)
{
  (void)fake_stack, (void)old_bottom, (void)old_size;
}
#endif

/* On the coroutine's stack: back to its caller. */
static void coroutine_pause(void)
{
  void *fake_stack = NULL;
  __sanitizer_start_switch_fiber(&fake_stack, coroutine_caller_stack, coroutine_caller_stack_bytes);
  swapcontext(&coroutine_now->context, &coroutine_caller);
  __sanitizer_finish_switch_fiber(fake_stack, &coroutine_caller_stack, &coroutine_caller_stack_bytes);
}

static void coroutine_enter(void)
{
  __sanitizer_finish_switch_fiber(NULL, &coroutine_caller_stack, &coroutine_caller_stack_bytes);
  coroutine_now->body(coroutine_now->argument);
  for (;;)
    coroutine_pause(); /* it has ended; it should not be run again */
}

static void coroutine_init(coroutine *self, void (*body)(void *argument), void *argument)
{
  self->body = body;
  self->argument = argument;
  self->is_started = false;
}

/* Until its next pause. */
static void coroutine_run(coroutine *self)
{
  void *fake_stack = NULL;
  coroutine_now = self;
  if (!self->is_started) {
    self->is_started = true;
    getcontext(&self->context);
    self->context.uc_stack.ss_sp = self->stack;
    self->context.uc_stack.ss_size = sizeof self->stack;
    self->context.uc_link = NULL;
    makecontext(&self->context, coroutine_enter, 0);
  }
  __sanitizer_start_switch_fiber(&fake_stack, self->stack, sizeof self->stack);
  swapcontext(&coroutine_caller, &self->context);
  __sanitizer_finish_switch_fiber(fake_stack, NULL, NULL);
}

#endif /* BUSQ_TESTS_FUZZ_COROUTINE_H */
