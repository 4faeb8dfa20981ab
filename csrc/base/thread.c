/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

_Thread_local uint32_t busq_thread_number BUSQ_THREAD_STORAGE;

uint32_t busq_thread_number_ask(void)
{
  busq_thread_number = (uint32_t)syscall(SYS_gettid);
  return busq_thread_number;
}

bool busq_thread_lives(uint32_t number)
{
  return syscall(SYS_tgkill, getpid(), number, 0) == 0 || errno != ESRCH;
}
