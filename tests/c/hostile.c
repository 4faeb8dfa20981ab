/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uses a bus whose file was damaged, or is being damaged meanwhile, in every way that a program can.
 *
 *      hostile DIRECTORY NAME layout                       prints where the parts of the segment lie
 *      hostile DIRECTORY NAME SEED STEPS [OFFSET:BYTE ...]  opens it, joins, and does STEPS operations drawn from SEED; before
 *                                                          each of them it writes the next byte into the file
 *
 * Guarantee: ends with 0 if every call returned one of its documented results.  Built with AddressSanitizer and
 * UndefinedBehaviorSanitizer; in addition every mapping of a file lies between guard areas larger than any offset that
 * 32 bits of 64-byte units can express, so that reading outside of it is noticed wherever it leads.  An alarm ends
 * what hangs.
 */
#include "harness/play.h"
#include <fcntl.h>

#define SECONDS_MAX 20

/* ---- what is drawn ---- */

static uint64_t drawn;

static uint32_t play_choose(uint32_t limit)
{
  drawn ^= drawn << 13;
  drawn ^= drawn >> 7;
  drawn ^= drawn << 17;
  return (uint32_t)(drawn >> 11) % limit;
}

/* Sending and receiving more often than the rest; shutting down only at the end. */
static void step(void)
{
  static const unsigned char often[] = {0, 0, 0, 7, 1, 1, 6, 10, 2, 2, 3, 4, 5, 9, 11, 12};
  player *const p = players[play_choose(PLAYERS)];
  play(p, often[play_choose(sizeof often)]);
}

/* ---- the whole ---- */

static void damage(int fd, const char *where)
{
  unsigned long offset;
  unsigned byte;
  if (sscanf(where, "%lu:%u", &offset, &byte) != 2)
    abort();
  const unsigned char value = (unsigned char)byte;
  if (pwrite(fd, &value, 1, (off_t)offset) != 1)
    abort();
}

/* Words of a peer that decide something; where they lie in its slot. */
static void print_fields(void)
{
#define FIELD(name) printf("field.%s %zu\n", #name, offsetof(busq_slot, name))
  FIELD(queue.clock_tail.lo);
  FIELD(queue.clock_tail.hi);
  FIELD(queue.head);
  FIELD(queue.backing);
  FIELD(life);
  FIELD(wake_seq);
  FIELD(wake_flags);
  FIELD(room_seq);
  FIELD(room_waiters);
  FIELD(memory_seq);
  FIELD(memory_waits);
  FIELD(asks);
  FIELD(sequence_reserved);
  FIELD(sent);
  FIELD(received);
  FIELD(pid);
  FIELD(name_bytes);
  FIELD(name);
#undef FIELD
}

static int print_layout(void)
{
  const busq_geometry *geometry = &play_bus->geometry;
  printf("header 0\npeers %lu\nrings %lu\ntable %lu\narena %lu\nend %lu\nslot %zu\nring %lu\nextent %lu\n",
         (unsigned long)geometry->peers_offset, (unsigned long)geometry->rings_offset,
         (unsigned long)geometry->table_offset, (unsigned long)geometry->arena_offset,
         (unsigned long)busq_geometry_arena_end(geometry), sizeof(busq_slot),
         (unsigned long)(geometry->slot_count * sizeof(busq_pair)), (unsigned long)geometry->extent_bytes);
  print_fields();
  busq_bus_free(play_bus);
  return 0;
}

static void use(int fd, unsigned long steps, char **damages, int n_damages)
{
  static player all[PLAYERS];
  for (uint32_t i = 0; i < PLAYERS; i++) {
    players[i] = &all[i];
    player_init(players[i], i);
    (void)player_join(players[i], 0);
  }
  for (unsigned long i = 0; i < steps; i++) {
    if ((long)i < n_damages)
      damage(fd, damages[i]);
    step();
  }
  for (int i = 0; i < PLAYERS; i++)
    player_leave(players[i]);
  play_note(busq_bus_shutdown(play_bus));
  busq_bus_free(play_bus);
}

int main(int argc, char **argv)
{
  char path[4096];
  if (argc < 4)
    return 2;
  alarm(SECONDS_MAX);
  const int result = busq_bus_open(argv[1], argv[2], &play_bus);
  if (result != BUSQ_OK) {
    printf("open %d %s\n", result, busq_error_text());
    play_note(result);
    return 0;
  }
  if (strcmp(argv[3], "layout") == 0)
    return print_layout();
  snprintf(path, sizeof path, "%s/%s", argv[1], argv[2]);
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  drawn = strtoull(argv[3], NULL, 10) * 2 + 1;
  use(fd, strtoul(argv[4], NULL, 10), argv + 5, argc - 5);
  close(fd);
  for (int i = 0; i < N_RESULTS; i++)
    if (play_counts[i])
      printf("%d:%u ", i, play_counts[i]);
  printf("end\n");
  return 0;
}
