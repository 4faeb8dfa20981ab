/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_TESTS_PLAY_H
#define BUSQ_TESTS_PLAY_H
/*
 * Everything that a program can do with a bus, chosen step by step; for programs that damage the bus meanwhile.
 *
 * Guarantee: the process ends with abort() if a call gives something else than a documented result, or a failure that a
 * person must read about without a text.  Every mapping of a file lies between guard areas larger than any offset that
 * 32 bits of 64-byte units can express, so that an access outside of it ends the process wherever it leads.
 *
 * Mechanism: the includer defines play_choose(), which chooses what comes next, and links with
 * -Wl,--wrap=mmap,--wrap=munmap.
 *
 * Not given: that calls end.  The includer sets an alarm, or counts steps.
 */
#include "base/error.h"
#include "busq.h"
#include "shm/memory/peer.h"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* 0 .. limit - 1 */
static uint32_t play_choose(uint32_t limit);

/* ---- guard areas ---- */

#define GUARD_LOW_BYTES ((size_t)1 << 33)
#define GUARD_HIGH_BYTES ((size_t)1 << 39)
#define GUARDED_BYTES_MAX ((size_t)1 << 30)

void *__real_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
int __real_munmap(void *address, size_t bytes);
int __wrap_munmap(void *address, size_t bytes);

enum {
  GUARDED_AREAS = 4
};

static struct {
  char *base;
  bool is_taken;
} guarded[GUARDED_AREAS];

static char *guarded_reserve(void)
{
  char *area = __real_mmap(NULL, GUARD_LOW_BYTES + GUARDED_BYTES_MAX + GUARD_HIGH_BYTES, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return area == MAP_FAILED ? NULL : area + GUARD_LOW_BYTES;
}

void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
  if (fd < 0 || address || bytes > GUARDED_BYTES_MAX)
    return __real_mmap(address, bytes, protection, flags, fd, offset);
  for (int i = 0; i < GUARDED_AREAS; i++) {
    if (guarded[i].is_taken || (!guarded[i].base && !(guarded[i].base = guarded_reserve())))
      continue;
    void *const found = __real_mmap(guarded[i].base, bytes, protection, flags | MAP_FIXED, fd, offset);
    guarded[i].is_taken = found != MAP_FAILED;
    return found;
  }
  return __real_mmap(address, bytes, protection, flags, fd, offset);
}

int __wrap_munmap(void *address, size_t bytes)
{
  for (int i = 0; i < GUARDED_AREAS; i++) {
    if (!guarded[i].is_taken || guarded[i].base != address)
      continue;
    guarded[i].is_taken = false;
    void *const found = __real_mmap(address, bytes, PROT_NONE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    return found == MAP_FAILED ? -1 : 0;
  }
  return __real_munmap(address, bytes);
}

/* ---- the players ---- */

enum {
  PLAYERS = 3,
  HELD_MAX = 8,
  N_RESULTS = BUSQ_OWN_FULL + 1
};

typedef struct {
  busq_peer *peer;
  busq_message held[HELD_MAX];
  bool is_offered[HELD_MAX]; /* to be acknowledged; otherwise it is to be released */
  uint32_t n_held;
  char name[2];
} player;

static busq_bus *play_bus;
static player *players[PLAYERS]; /* which plays under each of the names */
static unsigned play_counts[N_RESULTS];
static volatile unsigned char play_sink;

/* Outcomes of normal work set no text; for everything else a person must learn why. */
static bool result_needs_text(int result)
{
  switch (result) {
  case BUSQ_OK:
  case BUSQ_EMPTY:
  case BUSQ_FULL:
  case BUSQ_CLOSED:
  case BUSQ_FORKED:
  case BUSQ_INTERRUPTED:
    return false;
  default:
    return true;
  }
}

static int play_note(int result)
{
  if (result < 0 || result >= N_RESULTS) {
    fprintf(stderr, "result %d is not a busq_result\n", result);
    abort();
  }
  if (result_needs_text(result) && !*busq_error_text()) {
    fprintf(stderr, "result %d comes without a text\n", result);
    abort();
  }
  play_counts[result]++;
  (void)busq_error(BUSQ_OK, "%s", "");
  return result;
}

/* Touches all of it: what is handed out must be readable to its end. */
static void read_all(const busq_message *message)
{
  const unsigned char *byte = message->data;
  for (uint64_t i = 0; i < message->size_bytes; i++)
    play_sink ^= byte[i];
}

static void let_go(player *p, uint32_t index)
{
  const busq_message message = p->held[index];
  const bool is_offered = p->is_offered[index];
  p->n_held--;
  p->held[index] = p->held[p->n_held];
  p->is_offered[index] = p->is_offered[p->n_held];
  if (is_offered)
    play_note(busq_peer_ack(p->peer, &message));
  else
    busq_peer_release(p->peer, &message);
}

static int64_t choose_timeout_ns(void)
{
  return play_choose(4) ? 0 : 1000000;
}

/* ---- what they do ---- */

static void op_send(player *p)
{
  static char payload[100000];
  static const uint32_t sizes[] = {0, 1, 24, 200, 600, 3000, 5000, sizeof payload};
  static const char *const names[] = {"h0", "h1", "h2", "v0", "v1"};
  enum { NAMES = sizeof names / sizeof *names };
  uint64_t targets[NAMES];
  uint32_t n_targets = 0;
  const uint32_t chosen = play_choose(1u << NAMES);
  for (uint32_t i = 0; i < NAMES; i++)
    if (chosen >> i & 1 && play_note(busq_peer_lookup(p->peer, names[i], 2, &targets[n_targets])) == BUSQ_OK)
      n_targets++;
  const uint32_t size_bytes = sizes[play_choose(8)]; /* one choice per statement: compilers differ in the order of arguments */
  play_note(busq_peer_send(p->peer, targets, n_targets, payload, size_bytes, choose_timeout_ns()));
}

/* Proposals that get lost wherever they go. */
static void op_send_late(player *p)
{
  p->peer->sender.proposes_stale = true;
  op_send(p);
  p->peer->sender.proposes_stale = false;
}

static void look_at(player *p, const busq_message *message)
{
  char name[256];
  size_t bytes;
  read_all(message);
  play_note(busq_peer_slot_name(p->peer, message->sender, message->sender_life, name, &bytes));
}

static void op_receive(player *p)
{
  busq_message messages[HELD_MAX];
  uint32_t count = 0;
  if (p->n_held == HELD_MAX)
    return;
  const uint32_t limit = 1 + play_choose(HELD_MAX - p->n_held);
  play_note(busq_peer_recv(p->peer, messages, limit, &count, choose_timeout_ns()));
  for (uint32_t i = 0; i < count; i++) {
    p->is_offered[p->n_held] = false;
    p->held[p->n_held++] = messages[i];
  }
  for (uint32_t i = 0; i < count; i++)
    look_at(p, &messages[i]);
}

static void receive_one(player *p, uint32_t mode)
{
  busq_message message;
  if (p->n_held == HELD_MAX || play_note(busq_peer_receive_begin(p->peer)) != BUSQ_OK)
    return;
  const int result = play_note(busq_peer_receive_peek(p->peer, &message));
  if (result == BUSQ_OK) {
    read_all(&message);
    busq_peer_receive_take(p->peer, mode);
  }
  busq_peer_receive_end(p->peer);
  if (result == BUSQ_OK && mode != BUSQ_TAKE_COPIED) {
    p->is_offered[p->n_held] = mode == BUSQ_TAKE_OFFERED;
    p->held[p->n_held++] = message;
  }
}

static void op_receive_in_place(player *p)
{
  receive_one(p, BUSQ_TAKE_COPIED);
}

static void op_receive_offered(player *p)
{
  receive_one(p, BUSQ_TAKE_OFFERED);
}

static void op_let_go(player *p)
{
  if (p->n_held)
    let_go(p, play_choose(p->n_held));
}

static void op_examine(player *p)
{
  busq_bus_facts facts;
  busq_peer_facts peer_facts;
  (void)p;
  play_note(busq_bus_examine(play_bus, &facts));
  for (uint32_t slot = 0; slot <= facts.peers; slot++)
    play_note(busq_bus_examine_peer(play_bus, slot, &peer_facts));
}

static void op_poll(player *p)
{
  int fd;
  if (play_note(busq_peer_fileno(p->peer, &fd)) != BUSQ_OK)
    return;
  struct pollfd wanted = {.fd = fd, .events = POLLIN};
  (void)poll(&wanted, 1, 0);
}

static int player_join(player *p, uint32_t flags)
{
  const int result = play_note(busq_peer_join_as(play_bus, p->name, sizeof p->name, flags, &p->peer));
  if (result != BUSQ_OK)
    p->peer = NULL;
  return result;
}

/* Handles of messages that are still held are of no use any more, once the peer is gone. */
static void player_leave(player *p)
{
  if (!p->peer)
    return;
  play_note(busq_peer_close(p->peer));
  while (p->n_held)
    let_go(p, p->n_held - 1);
  busq_peer *peer = p->peer;
  p->peer = NULL;
  busq_peer_free(peer);
}

static void op_join_again(player *p)
{
  player_leave(p);
  (void)player_join(p, 0);
}

static void op_join_as(player *p)
{
  player_leave(p);
  (void)player_join(p, play_choose(4));
}

static void op_collect(player *p)
{
  uint64_t n_dropped;
  (void)p;
  play_note(busq_bus_collect(play_bus, &n_dropped));
}

static void op_remove(player *p)
{
  static const char *const names[] = {"h0", "h1", "h2", "v0", "v1", "v2"};
  (void)p;
  play_note(busq_bus_remove_peer(play_bus, names[play_choose(6)], 2));
}

static void op_shut_down(player *p)
{
  (void)p;
  play_note(busq_bus_shutdown(play_bus));
}

/* New ones go to the end, so that what was recorded goes on meaning the same. */
static void (*const play_operations[])(player *) = {
    op_send,      op_receive,   op_let_go,  op_examine,         op_poll,    op_join_again, op_receive_in_place,
    op_send_late, op_shut_down, op_join_as, op_receive_offered, op_collect, op_remove,
};
enum {
  PLAY_OPERATIONS = sizeof play_operations / sizeof *play_operations
};

/* A player that has not joined can do nothing else. */
static void play(player *p, uint32_t operation)
{
  if (p->peer)
    play_operations[operation % PLAY_OPERATIONS](p);
  else
    (void)player_join(p, play_choose(4));
}

static void player_init(player *p, uint32_t number)
{
  memset(p, 0, sizeof *p);
  p->name[0] = 'h';
  p->name[1] = (char)('0' + number);
}

#endif /* BUSQ_TESTS_PLAY_H */
