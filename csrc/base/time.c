/* SPDX-License-Identifier: Apache-2.0 */
#include "base/time.h"
#include "base/atomic.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static uint64_t offset_ns;
static uint32_t offset_is_known;

/* A process that has made a namespace for its children lives in its old one, and the kernel shows it theirs. */
static bool is_in_its_own_namespace(void)
{
  char own[64] = {0}, of_children[64] = {0};
  return readlink("/proc/self/ns/time", own, sizeof own - 1) > 0 &&
         readlink("/proc/self/ns/time_for_children", of_children, sizeof of_children - 1) > 0 &&
         strcmp(own, of_children) == 0;
}

static uint64_t offset_read(void)
{
  char text[256] = {0};
  long long seconds;
  long ns;
  const int fd = is_in_its_own_namespace() ? open("/proc/self/timens_offsets", O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0)
    return 0;
  const ssize_t count = read(fd, text, sizeof text - 1);
  close(fd);
  const char *line = count > 0 ? strstr(text, "monotonic") : NULL;
  if (!line || sscanf(line, "monotonic %lld %ld", &seconds, &ns) != 2)
    return 0;
  return (uint64_t)seconds * 1000000000u + (uint64_t)ns;
}

/* A child may have been born into another namespace. */
static void offset_forget(void)
{
  __atomic_store_n(&offset_is_known, 0, __ATOMIC_RELAXED);
}

static void offset_watch(void)
{
  pthread_atfork(NULL, NULL, offset_forget);
}

uint64_t busq_time_offset_ns(void)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  if (BUSQ_UNLIKELY(!__atomic_load_n(&offset_is_known, __ATOMIC_ACQUIRE))) {
    pthread_once(&once, offset_watch);
    __atomic_store_n(&offset_ns, offset_read(), __ATOMIC_RELAXED);
    __atomic_store_n(&offset_is_known, 1, __ATOMIC_RELEASE);
  }
  return __atomic_load_n(&offset_ns, __ATOMIC_RELAXED);
}
