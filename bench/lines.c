/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same messages, again and again, for a tool that writes down each access to memory (lines.py).
 *
 *   lines RECEIVERS SIZE MESSAGES ROUNDS
 *
 * In each round one peer sends all messages to all receivers, and each receiver then takes its own, one per call, and
 * copies it.  All are peers of one process and go through one mapping; a store to `phase` begins the turn of each, so it
 * shows whose accesses follow.  Prints where the segment and `phase` are, first.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "busq.h"

#define RECEIVERS_MAX 16u
#define SIZE_BYTES_MAX 65536u
#define MESSAGES_MAX 512u
#define LINE_CHARACTERS 512

static volatile uint32_t phase;
static char directory[] = "/dev/shm/busq-lines-XXXXXX";

static void check(int r, const char *what)
{
  if (r == BUSQ_OK)
    return;
  fprintf(stderr, "lines: %s: error %d\n", what, r);
  exit(1);
}

static busq_peer *join(busq_bus *bus, unsigned me)
{
  const char name = (char)('a' + me);
  busq_peer *peer = NULL;

  check(busq_peer_join(bus, &name, 1, &peer), "join");
  return peer;
}

static void print_places(void)
{
  char line[LINE_CHARACTERS];
  FILE *maps = fopen("/proc/self/maps", "r");

  while (maps && fgets(line, sizeof(line), maps)) {
    if (strstr(line, directory))
      printf("%.*s %p\n", (int)strcspn(line, " "), line, (void *)(uintptr_t)&phase);
  }
  if (maps)
    fclose(maps);
  fflush(stdout);
}

static void receive(busq_peer *peer, unsigned char *copy)
{
  busq_message message;

  check(busq_peer_receive_begin(peer), "receive");
  check(busq_peer_receive_peek_to_copy(peer, SIZE_BYTES_MAX + 1, &message), "receive");
  memcpy(copy, message.data, message.size_bytes);
  busq_peer_receive_take(peer, 0);
  busq_peer_receive_end(peer);
}

int main(int argc, char **argv)
{
  static unsigned char data[SIZE_BYTES_MAX], copy[SIZE_BYTES_MAX];
  unsigned long numbers[4] = { 0 };
  uint64_t targets[RECEIVERS_MAX];
  busq_peer *receivers[RECEIVERS_MAX], *sender;
  busq_bus *bus = NULL;

  for (int i = 1; i < argc && i <= 4; ++i)
    numbers[i - 1] = strtoul(argv[i], NULL, 10);
  const uint32_t n_receivers = (uint32_t)numbers[0], messages = (uint32_t)numbers[2];
  if (argc != 5 || n_receivers < 1 || n_receivers > RECEIVERS_MAX || numbers[1] > SIZE_BYTES_MAX || messages < 1 ||
      messages > MESSAGES_MAX || !mkdtemp(directory)) {
    fprintf(stderr, "usage: lines RECEIVERS SIZE MESSAGES ROUNDS\n");
    return 2;
  }
  const busq_config config = { .peers = 32, .capacity = MESSAGES_MAX, .arena_bytes = 64u << 20, .permissions = 0600 };
  check(busq_bus_create(directory, "lines", &config, &bus), "create");
  print_places();
  busq_bus_unlink(directory, "lines");
  rmdir(directory);
  sender = join(bus, 0);
  for (uint32_t i = 0; i < n_receivers; ++i) {
    const char name = (char)('b' + i);
    receivers[i] = join(bus, 1 + i);
    check(busq_peer_lookup(sender, &name, 1, &targets[i]), "lookup");
  }
  for (unsigned long round = 0; round < numbers[3]; ++round) {
    phase = 0;
    for (uint32_t i = 0; i < messages; ++i)
      check(busq_peer_send(sender, targets, n_receivers, data, numbers[1], -1), "send");
    for (uint32_t who = 0; who < n_receivers; ++who) {
      phase = 1 + who;
      for (uint32_t i = 0; i < messages; ++i)
        receive(receivers[who], copy);
    }
  }
  phase = 0;
  for (uint32_t i = 0; i < n_receivers; ++i)
    busq_peer_free(receivers[i]);
  busq_peer_free(sender);
  busq_bus_free(bus);
  return 0;
}
