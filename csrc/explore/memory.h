/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_EXPLORE_MEMORY_H
#define BUSQ_EXPLORE_MEMORY_H
/*
 * The memory that a search watches: what has changed, which state it is, and the way back.
 *
 * Guarantee: after busq_memory_sync, `hash` depends on nothing but the bytes of all regions, and busq_memory_return
 * brings all of them back to what they were at a mark.
 *
 * Mechanism: a copy of every region, compared line by line of 64 bytes after each step.  A line that has changed goes
 * to a log with its old content, and the hash, a sum over all lines, is brought up to date.  So a step costs one
 * comparison of what may have changed, and going back costs what did change.
 *
 * Shared regions are what several actors may touch; each of the others belongs to one process and is compared only
 * after steps of that process.
 */
#include "base/types.h"

#define BUSQ_MEMORY_LINE_BYTES 64u
#define BUSQ_MEMORY_REGIONS_MAX 48u
#define BUSQ_MEMORY_SHARED_LINES_MAX 1024u
#define BUSQ_MEMORY_SHARED UINT32_MAX

typedef struct {
  uint64_t a, b;
} busq_memory_hash;

typedef struct {
  char *base;
  char *copy;
  size_t bytes;
  uint32_t process; /* or BUSQ_MEMORY_SHARED */
  uint32_t line;    /* number of its first */
} busq_memory_region;

/* A bit per shared line. */
typedef struct {
  uint64_t words[BUSQ_MEMORY_SHARED_LINES_MAX / 64];
} busq_memory_lines;

typedef struct {
  uint32_t region;
  uint32_t line; /* in its region */
  busq_memory_hash hash;
  char bytes[BUSQ_MEMORY_LINE_BYTES];
} busq_memory_change;

typedef struct {
  busq_memory_region regions[BUSQ_MEMORY_REGIONS_MAX];
  uint32_t n_regions;
  uint32_t n_lines;
  uint32_t n_shared_lines;
  busq_memory_hash *hashes; /* by line */
  busq_memory_hash hash;
  busq_memory_change *log;
  uint64_t log_count;
  uint64_t log_room;
} busq_memory;

/* All shared regions before the first of another kind.  Both numbers are multiples of 64. */
void busq_memory_add(busq_memory *memory, void *base, size_t bytes, uint32_t process);
void busq_memory_begin(busq_memory *memory);
void busq_memory_end(busq_memory *memory);

/* After a step of a process: takes in what has changed.  `changed` gets the changed shared lines, and `written` is
 * called with each changed 8 bytes of them. */
typedef void (*busq_memory_written)(void *context, uint32_t granule);
void busq_memory_sync(busq_memory *memory, uint32_t process, busq_memory_lines *changed, busq_memory_written written,
                      void *context);
void busq_memory_return(busq_memory *memory, uint64_t log_count);
/* Forgets what has changed since the last sync or return. */
void busq_memory_discard(busq_memory *memory);

/* The shared 8 bytes at an address, counted through all regions; UINT32_MAX if it is not in one. */
uint32_t busq_memory_granule(const busq_memory *memory, const volatile void *address);

void busq_memory_mix(busq_memory_hash *hash, const void *bytes, size_t count);

static inline bool busq_memory_lines_meet(const busq_memory_lines *a, const busq_memory_lines *b, uint32_t n_lines)
{
  for (uint32_t i = 0; i < (n_lines + 63) / 64; i++)
    if (a->words[i] & b->words[i])
      return true;
  return false;
}

#endif /* BUSQ_EXPLORE_MEMORY_H */
