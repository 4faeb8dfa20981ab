/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_TESTS_COUNTED_MEMORY_H
#define BUSQ_TESTS_COUNTED_MEMORY_H
/* An allocator that counts and refuses, for the sources that are included behind this. */
#include <stdlib.h>
#include <string.h>

static long requests_left = -1; /* -1: no limit */
static long n_live;             /* blocks */

static int is_refused(void)
{
  if (requests_left == 0)
    return 1;
  requests_left -= requests_left > 0;
  return 0;
}

static void *counted_malloc(size_t size_bytes)
{
  void *memory = is_refused() ? NULL : malloc(size_bytes);
  n_live += memory != NULL;
  return memory;
}

static void *counted_calloc(size_t n, size_t size_bytes)
{
  void *memory = is_refused() ? NULL : calloc(n, size_bytes);
  n_live += memory != NULL;
  return memory;
}

static void *counted_realloc(void *memory, size_t size_bytes)
{
  const int is_new = !memory;
  void *moved = is_refused() ? NULL : realloc(memory, size_bytes);
  n_live += moved && is_new;
  return moved;
}

static void counted_free(void *memory)
{
  n_live -= memory != NULL;
  free(memory);
}

#define malloc counted_malloc
#define calloc counted_calloc
#define realloc counted_realloc
#define free counted_free

#endif /* BUSQ_TESTS_COUNTED_MEMORY_H */
