/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_TESTS_COROUTINE_H
#define BUSQ_TESTS_COROUTINE_H
/*
 * Coroutines that can be told apart by what they are going to do.
 *
 * Guarantee: coroutine_run goes on where the coroutine last said coroutine_pause, and comes back at its next pause.  Between
 * two pauses, coroutine_registers and coroutine_stack show all that the coroutine remembers: two coroutines with the
 * same body and the same bytes there will do the same with the same memory.
 *
 * Mechanism: ucontext for the first entry, _setjmp and _longjmp afterwards, because they need no system call.  AddressSanitizer
 * wants to be told about each change of stacks; there swapcontext is used.
 *
 * Not given: threads.
 */
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#define COROUTINE_STACK_BYTES (128u << 10)
#define COROUTINE_USED_BYTES (4u << 10) /* as a rule */

#if defined(__SANITIZE_ADDRESS__)
#define COROUTINE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define COROUTINE_ASAN 1
#endif
#endif

#ifdef COROUTINE_ASAN
void __sanitizer_start_switch_fiber(void **fake_stack, const void *bottom, size_t size);
void __sanitizer_finish_switch_fiber(void *fake_stack, const void **old_bottom, size_t *old_size);
#endif

typedef struct {
  jmp_buf registers;
  ucontext_t context;
  void (*body)(void *argument);
  void *argument;
  const char *stack_pointer; /* at the last pause */
  bool is_started;
  _Alignas(64) char stack[COROUTINE_STACK_BYTES];
} coroutine;

static ucontext_t coroutine_caller_context;
static coroutine *coroutine_now;
#ifndef COROUTINE_ASAN
static jmp_buf coroutine_caller_registers;
#else
static const void *coroutine_caller_stack;
static size_t coroutine_caller_stack_bytes;
#endif

/* Below everything that the function which calls this has put on the stack, the registers it has saved included. */
__attribute__((noinline)) static const char *coroutine_stack_end(void)
{
  __asm__ volatile("" ::: "memory");
  return __builtin_frame_address(0);
}

static void coroutine_leave(void)
{
#ifdef COROUTINE_ASAN
  void *fake_stack;
  __sanitizer_start_switch_fiber(&fake_stack, coroutine_caller_stack, coroutine_caller_stack_bytes);
  swapcontext(&coroutine_now->context, &coroutine_caller_context);
  __sanitizer_finish_switch_fiber(fake_stack, &coroutine_caller_stack, &coroutine_caller_stack_bytes);
#else
  _longjmp(coroutine_caller_registers, 1);
#endif
}

/* On the coroutine's stack: back to whoever runs it. */
__attribute__((noinline)) static void coroutine_pause(void)
{
  coroutine_now->stack_pointer = coroutine_stack_end();
  memset(coroutine_now->registers, 0, sizeof coroutine_now->registers);
  if (_setjmp(coroutine_now->registers) == 0)
    coroutine_leave();
}

static void coroutine_enter(void)
{
#ifdef COROUTINE_ASAN
  __sanitizer_finish_switch_fiber(NULL, &coroutine_caller_stack, &coroutine_caller_stack_bytes);
#endif
  coroutine_now->body(coroutine_now->argument);
  for (;;)
    coroutine_pause(); /* it has ended; nobody should run it again */
}

static inline void coroutine_init(coroutine *self, void (*body)(void *argument), void *argument)
{
  self->body = body;
  self->argument = argument;
  self->is_started = false;
  self->stack_pointer = self->stack + sizeof self->stack;
  memset(self->registers, 0, sizeof self->registers);
  /* What an earlier run has left in places that nobody writes to would make equal states look different. */
  memset(self->stack + sizeof self->stack - COROUTINE_USED_BYTES, 0, COROUTINE_USED_BYTES);
}

static void coroutine_first_run(void)
{
  getcontext(&coroutine_now->context);
  coroutine_now->context.uc_stack.ss_sp = coroutine_now->stack;
  coroutine_now->context.uc_stack.ss_size = sizeof coroutine_now->stack;
  coroutine_now->context.uc_link = NULL;
  makecontext(&coroutine_now->context, coroutine_enter, 0);
}

/* Until its next pause. */
__attribute__((noinline)) static void coroutine_run(coroutine *self)
{
  const bool is_first = !self->is_started;
  coroutine_now = self;
  self->is_started = true;
  if (is_first)
    coroutine_first_run();
#ifdef COROUTINE_ASAN
  void *fake_stack;
  __sanitizer_start_switch_fiber(&fake_stack, self->stack, sizeof self->stack);
  swapcontext(&coroutine_caller_context, &self->context);
  __sanitizer_finish_switch_fiber(fake_stack, NULL, NULL);
#else
  if (_setjmp(coroutine_caller_registers) == 0) {
    if (is_first)
      swapcontext(&coroutine_caller_context, &coroutine_now->context);
    _longjmp(coroutine_now->registers, 1);
  }
#endif
}

/* What it remembers, beside its registers. */
static inline const char *coroutine_stack(const coroutine *self, size_t *bytesp)
{
  *bytesp = (size_t)(self->stack + sizeof self->stack - self->stack_pointer);
  return self->stack_pointer;
}

#endif /* BUSQ_TESTS_COROUTINE_H */
