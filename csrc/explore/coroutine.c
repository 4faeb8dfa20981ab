/* SPDX-License-Identifier: Apache-2.0 */
#include "explore/coroutine.h"
#include <string.h>

#define CLEARED_BYTES 2048u /* as deep as calls between two pauses go, as a rule */

static busq_coroutine *running;
static ucontext_t caller_context;
static jmp_buf caller_registers;

void busq_coroutine_init(busq_coroutine *self, void (*body)(void *argument), void *argument)
{
  self->body = body;
  self->argument = argument;
  self->is_started = self->has_ended = false;
  self->stack_pointer = self->stack + sizeof self->stack;
  memset(self->registers, 0, sizeof self->registers);
}

/* Below everything that the function which calls this has put on the stack, the registers it has saved included. */
__attribute__((noinline)) static char *stack_end(void)
{
  __asm__ volatile("" ::: "memory");
  return __builtin_frame_address(0);
}

__attribute__((noinline)) void busq_coroutine_pause(void)
{
  running->stack_pointer = (char *)((uintptr_t)stack_end() & ~(uintptr_t)15);
  if (_setjmp(running->registers) == 0)
    _longjmp(caller_registers, 1);
}

static void enter(void)
{
  running->body(running->argument);
  running->has_ended = true;
  _longjmp(caller_registers, 1);
}

static void first_run(busq_coroutine *self)
{
  self->is_started = true;
  memset(self->stack + sizeof self->stack - CLEARED_BYTES, 0, CLEARED_BYTES);
  getcontext(&self->context);
  self->context.uc_stack.ss_sp = self->stack;
  self->context.uc_stack.ss_size = sizeof self->stack;
  self->context.uc_link = NULL;
  makecontext(&self->context, enter, 0);
  swapcontext(&caller_context, &self->context);
}

static void clear_unused(busq_coroutine *self)
{
  if (self->has_ended) {
    self->stack_pointer = self->stack + sizeof self->stack;
    memset(self->registers, 0, sizeof self->registers);
    return;
  }
  memset(self->stack_pointer - CLEARED_BYTES, 0, CLEARED_BYTES);
}

__attribute__((noinline)) void busq_coroutine_run(busq_coroutine *self)
{
  running = self;
  if (_setjmp(caller_registers) == 0) {
    if (!self->is_started)
      first_run(self);
    _longjmp(self->registers, 1);
  }
  clear_unused(running);
}
