/* SPDX-License-Identifier: Apache-2.0 */
#include "explore/memory.h"
#include "base/hash.h"
#include "base/growing.h"
#include <stdio.h>

#define BLOCK_BYTES 512u

static void *allocate(size_t count, size_t bytes)
{
  void *memory = calloc(count, bytes);
  if (!memory) {
    fprintf(stderr, "no memory for the search\n");
    exit(2);
  }
  return memory;
}

/* ---- hashes ---- */

void busq_memory_mix(busq_memory_hash *hash, const void *bytes, size_t count)
{
  const char *at = bytes;
  uint64_t a = hash->a, b = hash->b;
  for (size_t i = 0; i < count; i += 16) {
    uint64_t words[2] = {0, 0};
    memcpy(words, at + i, count - i < 16 ? count - i : 16);
    a = busq_hash_fold(a ^ words[0] ^ UINT64_C(0x9fb21c651e98df25), words[1] ^ UINT64_C(0xa0761d6478bd642f));
    b = busq_hash_fold(b + words[1] + UINT64_C(0xd6e8feb86659fd93), words[0] ^ UINT64_C(0xe7037ed1a0b428db));
    a += b;
  }
  hash->a = a ^ a >> 29;
  hash->b = b ^ b >> 31;
}

/* Hashes a line with its number, so that the sum over all of them determines what stands where. */
static busq_memory_hash line_hash(uint32_t number, const void *bytes)
{
  busq_memory_hash hash = {number * UINT64_C(0x9e3779b97f4a7c15), ~(uint64_t)number};
  busq_memory_mix(&hash, bytes, BUSQ_MEMORY_LINE_BYTES);
  return hash;
}

/* Takes the bytes of a line into the hash of all, in the place of what it had there. */
static void line_note(busq_memory *memory, uint32_t line, const void *bytes)
{
  memory->hash.a -= memory->hashes[line].a;
  memory->hash.b -= memory->hashes[line].b;
  memory->hashes[line] = line_hash(line, bytes);
  memory->hash.a += memory->hashes[line].a;
  memory->hash.b += memory->hashes[line].b;
}

/* ---- regions ---- */

void busq_memory_add(busq_memory *memory, void *base, size_t bytes, uint32_t process)
{
  if (memory->n_regions == BUSQ_MEMORY_REGIONS_MAX || bytes % BUSQ_MEMORY_LINE_BYTES ||
      (process == BUSQ_MEMORY_SHARED && memory->n_lines != memory->n_shared_lines)) {
    fprintf(stderr, "a region of %zu bytes does not fit into what a search can watch\n", bytes);
    exit(2);
  }
  memory->regions[memory->n_regions++] =
      (busq_memory_region){.base = base, .bytes = bytes, .process = process, .line = memory->n_lines};
  memory->n_lines += (uint32_t)(bytes / BUSQ_MEMORY_LINE_BYTES);
  if (process == BUSQ_MEMORY_SHARED)
    memory->n_shared_lines = memory->n_lines;
  if (memory->n_shared_lines > BUSQ_MEMORY_SHARED_LINES_MAX) {
    fprintf(stderr, "%u shared lines are more than a search can watch\n", memory->n_shared_lines);
    exit(2);
  }
}

void busq_memory_begin(busq_memory *memory)
{
  memory->hashes = allocate(memory->n_lines, sizeof *memory->hashes);
  memory->log = NULL;
  memory->log_room = memory->log_count = 0;
  memory->hash = (busq_memory_hash){0, 0};
  for (uint32_t r = 0; r < memory->n_regions; r++) {
    busq_memory_region *region = &memory->regions[r];
    region->copy = allocate(1, region->bytes);
    memcpy(region->copy, region->base, region->bytes);
    for (uint32_t i = 0; i < region->bytes / BUSQ_MEMORY_LINE_BYTES; i++)
      line_note(memory, region->line + i, region->base + i * BUSQ_MEMORY_LINE_BYTES);
  }
}

void busq_memory_end(busq_memory *memory)
{
  for (uint32_t r = 0; r < memory->n_regions; r++)
    free(memory->regions[r].copy);
  free(memory->hashes);
  free(memory->log);
  memset(memory, 0, sizeof *memory);
}

uint32_t busq_memory_granule(const busq_memory *memory, const volatile void *address)
{
  for (uint32_t r = 0; r < memory->n_regions && memory->regions[r].process == BUSQ_MEMORY_SHARED; r++) {
    const uint64_t offset = (uint64_t)((uintptr_t)address - (uintptr_t)memory->regions[r].base);
    if (offset < memory->regions[r].bytes)
      return memory->regions[r].line * (BUSQ_MEMORY_LINE_BYTES / 8) + (uint32_t)(offset / 8);
  }
  return UINT32_MAX;
}

/* ---- forth and back ---- */

static void log_push(busq_memory *memory, uint32_t r, uint32_t line)
{
  const busq_memory_region *region = &memory->regions[r];
  if (!busq_reserve_long(&memory->log, &memory->log_room, memory->log_count + 1, sizeof *memory->log))
    exit(2);
  busq_memory_change *change = &memory->log[memory->log_count++];
  change->region = r;
  change->line = line;
  change->hash = memory->hashes[region->line + line];
  memcpy(change->bytes, region->copy + line * BUSQ_MEMORY_LINE_BYTES, BUSQ_MEMORY_LINE_BYTES);
}

static void line_take_in(busq_memory *memory, uint32_t r, uint32_t i)
{
  const busq_memory_region *region = &memory->regions[r];
  log_push(memory, r, i);
  memcpy(region->copy + i * BUSQ_MEMORY_LINE_BYTES, region->base + i * BUSQ_MEMORY_LINE_BYTES, BUSQ_MEMORY_LINE_BYTES);
  line_note(memory, region->line + i, region->base + i * BUSQ_MEMORY_LINE_BYTES);
}

static void tell_written(const busq_memory_region *region, uint32_t i, busq_memory_written written, void *context)
{
  for (uint32_t g = 0; g < BUSQ_MEMORY_LINE_BYTES / 8; g++) {
    const size_t offset = i * BUSQ_MEMORY_LINE_BYTES + g * 8;
    if (memcmp(region->base + offset, region->copy + offset, 8) != 0)
      written(context, (region->line + i) * (BUSQ_MEMORY_LINE_BYTES / 8) + g);
  }
}

void busq_memory_sync(busq_memory *memory, uint32_t process, busq_memory_lines *changed, busq_memory_written written,
                      void *context)
{
  memset(changed, 0, sizeof *changed);
  for (uint32_t r = 0; r < memory->n_regions; r++) {
    const busq_memory_region *region = &memory->regions[r];
    if (region->process != BUSQ_MEMORY_SHARED && region->process != process)
      continue;
    for (size_t block = 0; block < region->bytes; block += BLOCK_BYTES) {
      const size_t bytes = region->bytes - block < BLOCK_BYTES ? region->bytes - block : BLOCK_BYTES;
      if (memcmp(region->base + block, region->copy + block, bytes) == 0)
        continue;
      for (uint32_t i = (uint32_t)(block / BUSQ_MEMORY_LINE_BYTES); i < (block + bytes) / BUSQ_MEMORY_LINE_BYTES; i++) {
        const size_t offset = (size_t)i * BUSQ_MEMORY_LINE_BYTES;
        if (memcmp(region->base + offset, region->copy + offset, BUSQ_MEMORY_LINE_BYTES) == 0)
          continue;
        if (region->process == BUSQ_MEMORY_SHARED) {
          changed->words[(region->line + i) / 64] |= UINT64_C(1) << (region->line + i) % 64;
          tell_written(region, i, written, context);
        }
        line_take_in(memory, r, i);
      }
    }
  }
}

void busq_memory_return(busq_memory *memory, uint64_t log_count)
{
  while (memory->log_count > log_count) {
    const busq_memory_change *change = &memory->log[--memory->log_count];
    const busq_memory_region *region = &memory->regions[change->region];
    const uint32_t line = region->line + change->line;
    const size_t offset = (size_t)change->line * BUSQ_MEMORY_LINE_BYTES;
    memcpy(region->base + offset, change->bytes, BUSQ_MEMORY_LINE_BYTES);
    memcpy(region->copy + offset, change->bytes, BUSQ_MEMORY_LINE_BYTES);
    memory->hash.a += change->hash.a - memory->hashes[line].a;
    memory->hash.b += change->hash.b - memory->hashes[line].b;
    memory->hashes[line] = change->hash;
  }
}

void busq_memory_discard(busq_memory *memory)
{
  for (uint32_t r = 0; r < memory->n_regions; r++)
    memcpy(memory->regions[r].base, memory->regions[r].copy, memory->regions[r].bytes);
}
