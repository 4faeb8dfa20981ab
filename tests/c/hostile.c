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
#include "busq.h"
#include "shm/handle.h"
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define GUARD_LOW_BYTES ((size_t)1 << 33)
#define GUARD_HIGH_BYTES ((size_t)1 << 39)
#define SECONDS_MAX 20

void *__real_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);

void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
  if (fd < 0 || address)
    return __real_mmap(address, bytes, protection, flags, fd, offset);
  char *area = __real_mmap(NULL, GUARD_LOW_BYTES + bytes + GUARD_HIGH_BYTES, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (area == MAP_FAILED)
    return MAP_FAILED;
  return __real_mmap(area + GUARD_LOW_BYTES, bytes, protection, flags | MAP_FIXED, fd, offset);
}

/* ---- what is drawn ---- */

static uint64_t drawn;

static uint32_t draw(uint32_t limit)
{
  drawn ^= drawn << 13;
  drawn ^= drawn >> 7;
  drawn ^= drawn << 17;
  return (uint32_t)(drawn >> 11) % limit;
}

static int64_t draw_timeout_ns(void)
{
  return draw(4) ? 0 : 1000000;
}

/* ---- what is used ---- */

enum {
  PEERS = 2,
  HELD_MAX = 8,
  N_RESULTS = BUSQ_SYSTEM + 1
};

typedef struct {
  busq_peer *peer;
  busq_message held[HELD_MAX];
  uint32_t n_held;
} member;

static busq_bus *bus;
static member members[PEERS];
static unsigned counts[N_RESULTS];
static volatile unsigned char sink;

static int note(int result)
{
  if (result < 0 || result >= N_RESULTS) {
    fprintf(stderr, "result %d is not a busq_result\n", result);
    abort();
  }
  counts[result]++;
  return result;
}

static void read_all(const busq_message *message)
{
  const unsigned char *byte = message->data;
  for (uint64_t i = 0; i < message->size_bytes; i++)
    sink ^= byte[i];
}

static void let_go(member *m, uint32_t index)
{
  busq_peer_release(m->peer, &m->held[index]);
  m->held[index] = m->held[--m->n_held];
}

/* ---- operations ---- */

static void op_send(member *m)
{
  static char payload[100000];
  static const uint32_t sizes[] = {1, 64, 600, 5000, sizeof payload};
  static const char *const names[] = {"h0", "h1", "v0", "v1"};
  uint64_t targets[4];
  uint32_t n_targets = 0;
  for (uint32_t i = 0; i < 4; i++)
    if (draw(2) && note(busq_peer_lookup(m->peer, names[i], 2, &targets[n_targets])) == BUSQ_OK)
      n_targets++;
  note(busq_peer_send(m->peer, targets, n_targets, payload, draw(sizes[draw(5)]), draw_timeout_ns()));
}

static void op_receive(member *m)
{
  uint32_t count = 0;
  if (m->n_held == HELD_MAX)
    return;
  note(busq_peer_recv(m->peer, &m->held[m->n_held], 1 + draw(HELD_MAX - m->n_held), &count, draw_timeout_ns()));
  for (uint32_t i = 0; i < count; i++) {
    char name[256];
    size_t bytes;
    const busq_message *message = &m->held[m->n_held++];
    read_all(message);
    note(busq_peer_slot_name(m->peer, message->sender, message->sender_incarnation, name, &bytes));
  }
}

static void op_receive_in_place(member *m)
{
  busq_message message;
  if (note(busq_peer_receive_begin(m->peer)) != BUSQ_OK)
    return;
  if (note(busq_peer_receive_peek(m->peer, &message)) == BUSQ_OK) {
    read_all(&message);
    busq_peer_receive_take(m->peer, 0);
  }
  busq_peer_receive_end(m->peer);
}

static void op_let_go(member *m)
{
  if (m->n_held)
    let_go(m, draw(m->n_held));
}

static void op_examine(member *m)
{
  busq_bus_facts facts;
  busq_peer_facts peer_facts;
  (void)m;
  note(busq_bus_examine(bus, &facts));
  for (uint32_t slot = 0; slot <= facts.peers; slot++)
    note(busq_bus_examine_peer(bus, slot, &peer_facts));
}

static void op_poll(member *m)
{
  int fd;
  if (note(busq_peer_fileno(m->peer, &fd)) != BUSQ_OK)
    return;
  struct pollfd wanted = {.fd = fd, .events = POLLIN};
  (void)poll(&wanted, 1, 0);
}

static int member_join(member *m)
{
  const char name[2] = {'h', (char)('0' + (m - members))};
  const int result = note(busq_peer_join(bus, name, sizeof name, &m->peer));
  if (result != BUSQ_OK)
    m->peer = NULL;
  return result;
}

static void member_leave(member *m)
{
  if (!m->peer)
    return;
  note(busq_peer_close(m->peer));
  while (m->n_held)
    let_go(m, m->n_held - 1);
  busq_peer_free(m->peer);
  m->peer = NULL;
}

static void op_join_again(member *m)
{
  member_leave(m);
  (void)member_join(m);
}

static void step(void)
{
  static void (*const operations[])(member *) = {op_send,   op_send,    op_send, op_receive,   op_receive,
                                                 op_let_go, op_examine, op_poll, op_join_again, op_receive_in_place};
  member *m = &members[draw(PEERS)];
  void (*const operation)(member *) = operations[draw(sizeof operations / sizeof *operations)];
  if (m->peer)
    operation(m);
  else
    (void)member_join(m);
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
  FIELD(life);
  FIELD(wake_seq);
  FIELD(wake_flags);
  FIELD(room_seq);
  FIELD(room_waiters);
  FIELD(memory_seq);
  FIELD(memory_waits);
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
  const busq_geometry *geometry = &bus->geometry;
  printf("header 0\npeers %lu\nrings %lu\ntable %lu\narena %lu\nend %lu\nslot %zu\nring %lu\nextent %lu\n",
         (unsigned long)geometry->peers_offset, (unsigned long)geometry->rings_offset,
         (unsigned long)geometry->table_offset, (unsigned long)geometry->arena_offset,
         (unsigned long)geometry->segment_bytes, sizeof(busq_slot),
         (unsigned long)(geometry->slot_count * sizeof(busq_pair)), (unsigned long)geometry->extent_bytes);
  print_fields();
  busq_bus_free(bus);
  return 0;
}

static void use(int fd, unsigned long steps, char **damages, int n_damages)
{
  for (int i = 0; i < PEERS; i++)
    (void)member_join(&members[i]);
  for (unsigned long i = 0; i < steps; i++) {
    if ((long)i < n_damages)
      damage(fd, damages[i]);
    step();
  }
  for (int i = 0; i < PEERS; i++)
    member_leave(&members[i]);
  note(busq_bus_shutdown(bus));
  busq_bus_free(bus);
}

int main(int argc, char **argv)
{
  char path[4096];
  if (argc < 4)
    return 2;
  alarm(SECONDS_MAX);
  const int result = note(busq_bus_open(argv[1], argv[2], &bus));
  if (result != BUSQ_OK) {
    printf("open %d %s\n", result, busq_error_text());
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
    if (counts[i])
      printf("%d:%u ", i, counts[i]);
  printf("end\n");
  return 0;
}
