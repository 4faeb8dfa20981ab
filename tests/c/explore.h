/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_TESTS_EXPLORE_H
#define BUSQ_TESTS_EXPLORE_H
/*
 * Every interleaving of the compiled core, one BUSQ_STEP at a time.
 *
 * Guarantee: where the search says "complete", every order in which the scenario's actors can take their steps was
 * looked at, and the outcome of each was judged.  A schedule that ends badly is printed step by step, with as few changes of
 * actor as it takes, and can be given back to be followed again.
 *
 * Mechanism.  Actors are coroutines of one process on one bus, each a sender or a receiver of some peer.  At each BUSQ_STEP
 * of the core, and at the places where an actor waits, control goes back to the search, which decides who goes on: depth
 * first, and back by starting over and repeating the choices.  Starting over is cheap: the bus is copied back to what it
 * was when everybody had joined.  A state that was seen before is not gone into again.  The state is everything that later
 * steps may depend on: the segment, the peers' private parts, each coroutine's registers and stack, and the logs of
 * what was sent and delivered, on which the verdict depends.  Seen states are kept as 128-bit hashes.
 *
 * What an actor does is text, sentences with semicolons between them:
 *
 *      send 1 to p2 p3     one message; waits where there is no room
 *      hear 1              receives until message 1 has come
 *      receive             receives for as long as anybody has something to do
 *      await 1 at p2       goes on when p2 has received 1; p2 has told it outside the bus
 *      leave               closes the peer, whatever it has not received
 *
 * A schedule is text too, one letter per step: 0, 1, ... who goes on; a, b, ... who, having found nothing, loses patience with
 * what blocks its queue; X: the first actor is killed.
 *
 * Not given: reorderings that the processor makes between two steps, and steps that the core does not mark.
 */
#include "base/atomic.h"
#include "company.h"
#include "coroutine.h"
#include "shm/handle.h"
#include "shm/receive.h"
#include <ctype.h>
#include <fcntl.h>

#ifndef BUSQ_STEPS
#error "the search needs a core built with BUSQ_STEPS"
#endif

#define EXPLORE_PEERS_MAX 5
#define EXPLORE_ACTORS_MAX 8
#define EXPLORE_OPS_MAX 8
#define EXPLORE_EVENTS_MAX 32
#define EXPLORE_DEPTH_MAX 1000
#define EXPLORE_TIDINGS 100 /* messages outside the bus are numbered from here on, by who gets them */
#define EXPLORE_RECORD_BYTES 1024 /* how much of each extent a scenario uses at most */
#define EXPLORE_KILL 'X'
#define EXPLORE_LOCKS_MAX (2 * EXPLORE_PEERS_MAX)

typedef struct {
  uint32_t peer;
  const char *script;
} explore_part;

typedef struct {
  const char *name;
  explore_part parts[EXPLORE_ACTORS_MAX]; /* up to one without a script */
  const char *steps;                      /* at which steps control changes hands, between spaces; NULL for all */
  uint64_t clocks[EXPLORE_PEERS_MAX];     /* at least this high to begin with */
  uint32_t peers;       /* 0: four */
  uint32_t capacity;    /* 0: four */
  uint32_t patience;    /* how often, all together, receivers may lose it before the end: they can do so for ever */
  uint32_t preemptions; /* at most so many changes from an actor that could have gone on; 0: no limit */
  bool is_stale;        /* every proposal is lost */
  bool may_die;         /* the first actor may be killed between any two steps */
} explore_scenario;

typedef struct {
  enum { EXPLORE_SEND, EXPLORE_HEAR, EXPLORE_RECEIVE, EXPLORE_AWAIT, EXPLORE_LEAVE } verb;
  uint8_t message;
  uint8_t at; /* AWAIT */
  uint8_t n_targets;
  uint32_t slots[EXPLORE_PEERS_MAX];
} explore_op;

typedef struct {
  uint32_t index;
  uint32_t peer;
  explore_op ops[EXPLORE_OPS_MAX];
  uint32_t n_ops;
  /* From here on: what changes, and is part of the state. */
  uint32_t op;
  const char *where;
  bool is_idle;  /* found nothing to receive, or no room, since anybody else took a step */
  bool is_stirred; /* somebody else changed something while it looked: waiting begins with another look */
  bool is_tried; /* and has lost patience since then, in vain */
  bool loses_patience;
  bool is_done;
  bool is_dead;
} explore_actor;

typedef struct {
  uint8_t kind; /* busq_event_kind */
  uint8_t message;
  uint8_t targets; /* a bit per peer */
} explore_event;

typedef struct {
  uint32_t count;
  explore_event events[EXPLORE_EVENTS_MAX];
} explore_log;

typedef struct {
  uint64_t a, b;
} explore_hash;

/* A set of hashes: open addressing, at most half full. */
typedef struct {
  explore_hash *entries;
  uint64_t size;
  uint64_t count;
} explore_set;

typedef struct {
  off_t begins;
  off_t bytes;
} explore_lock;

/* What a peer looked like when everybody had joined. */
typedef struct {
  busq_peer *peer;
  busq_peer saved;
  busq_acquaintance known[EXPLORE_PEERS_MAX];
  uint64_t target;
  explore_lock locks[4];
  uint32_t n_locks;
} explore_peer;

typedef struct {
  uint64_t states;
  uint64_t transitions;
  uint64_t schedules; /* that came to their end */
  uint64_t outcomes;  /* different ones among them */
  uint64_t which;     /* all of them, added up */
  uint32_t depth_max;
  bool is_complete;
  bool has_failed;
  char schedule[EXPLORE_DEPTH_MAX + 1]; /* the one that failed */
} explore_result;

static explore_scenario explore_scene_now;
static const explore_scenario *const explore_scene = &explore_scene_now;
static explore_peer explore_peers[EXPLORE_PEERS_MAX];
static explore_actor explore_actors[EXPLORE_ACTORS_MAX];
static coroutine explore_coroutines[EXPLORE_ACTORS_MAX];
static uint32_t explore_n_actors;
static explore_log explore_logs[EXPLORE_PEERS_MAX];
static uint32_t explore_patience_left;
static char *explore_segment; /* as it was to begin with */
static bool explore_is_loud;
static bool explore_is_finishing;
static bool explore_is_dirty; /* somebody was killed */
static int explore_free_fd;   /* from here on nothing is open that is to stay */
static char explore_fault[1024];

/* ---- the actors ---- */

static explore_actor *explore_self(void)
{
  return &explore_actors[coroutine_now - explore_coroutines];
}

static void explore_yield(const char *where)
{
  explore_self()->where = where;
  coroutine_pause();
}

static bool explore_has_step(const char *where)
{
  const size_t length = strlen(where);
  for (const char *at = explore_scene->steps; at && (at = strstr(at, where)); at += length)
    if ((at == explore_scene->steps || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
      return true;
  return !explore_scene->steps;
}

static void explore_step(const char *where)
{
  if (explore_has_step(where))
    explore_yield(where);
}

static void explore_note(uint32_t peer, uint8_t kind, uint8_t message, uint8_t targets)
{
  explore_log *log = &explore_logs[peer];
  CHECK(log->count < EXPLORE_EVENTS_MAX);
  log->events[log->count++] = (explore_event){kind, message, targets};
  if (explore_is_loud)
    printf("          p%u %s %u%s\n", peer, kind == BUSQ_EVENT_SEND ? "sends" : "delivers", message,
           message >= EXPLORE_TIDINGS ? " (outside the bus)" : "");
}

/* What somebody hears, he tells those who wait for it. */
static void explore_deliver(uint32_t peer, uint8_t message)
{
  explore_note(peer, BUSQ_EVENT_DELIVER, message, 0);
  for (uint32_t i = 0; i < explore_n_actors; i++)
    for (uint32_t o = 0; o < explore_actors[i].n_ops; o++) {
      const explore_op *op = &explore_actors[i].ops[o];
      if (op->verb == EXPLORE_AWAIT && op->message == message && op->at == peer)
        explore_note(peer, BUSQ_EVENT_SEND, (uint8_t)(EXPLORE_TIDINGS + i), (uint8_t)(1u << explore_actors[i].peer));
    }
}

static bool explore_was_delivered(uint32_t peer, uint8_t message)
{
  for (uint32_t i = 0; i < explore_logs[peer].count; i++)
    if (explore_logs[peer].events[i].kind == BUSQ_EVENT_DELIVER && explore_logs[peer].events[i].message == message)
      return true;
  return false;
}

/* One message, if there is one. */
static bool explore_receive(uint32_t index)
{
  busq_peer *peer = explore_peers[index].peer;
  busq_message message;
  uint8_t number = 0;
  CHECK_EQUAL(busq_peer_receive_begin(peer), BUSQ_OK);
  const int result = busq_peer_receive_peek(peer, &message);
  CHECK(result == BUSQ_OK || result == BUSQ_EMPTY);
  if (result == BUSQ_OK) {
    CHECK_EQUAL(message.size_bytes, 1);
    number = *(const uint8_t *)message.data;
    busq_peer_receive_take(peer, false);
  }
  busq_peer_receive_end(peer);
  if (result == BUSQ_OK)
    explore_deliver(index, number);
  return result == BUSQ_OK;
}

static void explore_lose_patience(uint32_t index)
{
  busq_peer *peer = explore_peers[index].peer;
  CHECK_EQUAL(busq_peer_receive_begin(peer), BUSQ_OK);
  if (busq_receive_peek(peer) == BUSQ_EMPTY)
    busq_receive_unblock(peer);
  busq_peer_receive_end(peer);
}

static void explore_listen(explore_actor *self)
{
  explore_yield("receive");
  if (self->loses_patience) {
    self->loses_patience = self->is_idle = false;
    self->is_tried = true;
    explore_lose_patience(self->peer);
  } else if (explore_receive(self->peer)) {
    self->is_tried = false;
  } else {
    self->is_idle = true;
  }
}

static bool explore_somebody_left(void)
{
  for (uint32_t i = 0; i < explore_scene->peers; i++)
    if (explore_peers[i].peer->is_closed)
      return true;
  return false;
}

static void explore_send(explore_actor *self, const explore_op *op)
{
  uint64_t targets[EXPLORE_PEERS_MAX];
  uint8_t bits = 0;
  for (uint32_t i = 0; i < op->n_targets; i++) {
    targets[i] = explore_peers[op->slots[i]].target;
    bits |= (uint8_t)(1u << op->slots[i]);
  }
  explore_note(self->peer, BUSQ_EVENT_SEND, op->message, bits);
  for (;;) {
    self->is_stirred = false;
    const int result = busq_peer_send(explore_peers[self->peer].peer, targets, op->n_targets, &op->message, 1, 0);
    if (result == BUSQ_OK)
      return;
    if (result == BUSQ_PEER_DEAD && explore_somebody_left()) {
      explore_note(self->peer, BUSQ_EVENT_SEND, op->message, 0); /* nobody may get it */
      return;
    }
    if (result != BUSQ_FULL) {
      snprintf(explore_fault, sizeof explore_fault, "sending %u: result %d, %s", op->message, result, busq_error_text());
      return;
    }
    self->is_idle = !self->is_stirred;
    explore_yield("full");
  }
}

static void explore_act(explore_actor *self, const explore_op *op)
{
  switch (op->verb) {
  case EXPLORE_SEND:
    explore_send(self, op);
    return;
  case EXPLORE_HEAR:
    while (!explore_was_delivered(self->peer, op->message))
      explore_listen(self);
    return;
  case EXPLORE_AWAIT:
    explore_yield("await");
    explore_note(self->peer, BUSQ_EVENT_DELIVER, (uint8_t)(EXPLORE_TIDINGS + self->index), 0);
    return;
  case EXPLORE_LEAVE:
    explore_yield("leave");
    CHECK_EQUAL(busq_peer_close(explore_peers[self->peer].peer), BUSQ_OK);
    return;
  case EXPLORE_RECEIVE:
    for (;;)
      explore_listen(self);
  }
}

static void explore_body(void *argument)
{
  explore_actor *self = argument;
  explore_yield("begin");
  for (; self->op < self->n_ops; self->op++)
    explore_act(self, &self->ops[self->op]);
  self->is_done = true;
}

/* ---- scripts ---- */

static void explore_parse_op(const char *sentence, explore_op *op)
{
  unsigned message = 0, at = 0;
  int used = 0;
  memset(op, 0, sizeof *op);
  if (sscanf(sentence, " send %u to%n", &message, &used) == 1 && used) {
    op->verb = EXPLORE_SEND;
    for (sentence += used; sscanf(sentence, " p%u%n", &at, &used) == 1; sentence += used)
      op->slots[op->n_targets++] = at;
  } else if (sscanf(sentence, " hear %u", &message) == 1) {
    op->verb = EXPLORE_HEAR;
  } else if (sscanf(sentence, " await %u at p%u", &message, &at) == 2) {
    op->verb = EXPLORE_AWAIT;
    op->at = (uint8_t)at;
  } else {
    op->verb = strstr(sentence, "leave") ? EXPLORE_LEAVE : EXPLORE_RECEIVE;
    CHECK(op->verb == EXPLORE_LEAVE || strstr(sentence, "receive"));
  }
  op->message = (uint8_t)message;
}

static void explore_cast(const explore_scenario *scene)
{
  explore_n_actors = 0;
  while (explore_n_actors < EXPLORE_ACTORS_MAX && scene->parts[explore_n_actors].script) {
    explore_actor *actor = &explore_actors[explore_n_actors];
    const char *script = scene->parts[explore_n_actors].script;
    memset(actor, 0, sizeof *actor);
    actor->index = explore_n_actors;
    actor->peer = scene->parts[explore_n_actors].peer;
    for (; *script; script += strcspn(script, ";"), script += *script == ';') {
      CHECK(actor->n_ops < EXPLORE_OPS_MAX);
      explore_parse_op(script, &actor->ops[actor->n_ops++]);
    }
    explore_n_actors++;
  }
}

static bool explore_is_daemon(const explore_actor *actor)
{
  return actor->op < actor->n_ops && actor->ops[actor->op].verb == EXPLORE_RECEIVE;
}

/* ---- the stage, and how it is set again ---- */

/* The byte locks by which the kernel knows that somebody lives, from one place to another; it names one of them at a time. */
static uint32_t explore_find_locks(off_t from, off_t to, explore_lock *locks, uint32_t count)
{
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  lock.l_start = from;
  lock.l_len = to - from;
  if (from >= to)
    return count;
  CHECK(fcntl(company_bus->fd, F_OFD_GETLK, &lock) == 0);
  if (lock.l_type == F_UNLCK)
    return count;
  CHECK(count < EXPLORE_LOCKS_MAX);
  locks[count++] = (explore_lock){lock.l_start, lock.l_len};
  count = explore_find_locks(from, lock.l_start, locks, count);
  return explore_find_locks(lock.l_start + lock.l_len, to, locks, count);
}

static void explore_lock_peer(const explore_peer *peer, short type)
{
  for (uint32_t i = 0; i < peer->n_locks; i++) {
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET};
    lock.l_start = peer->locks[i].begins;
    lock.l_len = peer->locks[i].bytes;
    CHECK(fcntl(peer->peer->lock_fd, F_OFD_SETLK, &lock) == 0);
  }
}

/* Of all locks, those that were not there before this peer joined. */
static void explore_own_locks(uint32_t index)
{
  explore_lock all[EXPLORE_LOCKS_MAX];
  explore_peer *self = &explore_peers[index];
  const uint32_t count = explore_find_locks(0, INT64_MAX, all, 0);
  self->n_locks = 0;
  for (uint32_t i = 0; i < count; i++) {
    bool is_known = false;
    for (uint32_t p = 0; p < index; p++)
      for (uint32_t l = 0; l < explore_peers[p].n_locks; l++)
        is_known |= explore_peers[p].locks[l].begins == all[i].begins;
    if (!is_known) {
      CHECK(self->n_locks < 4 && all[i].bytes == 1);
      self->locks[self->n_locks++] = all[i];
    }
  }
  CHECK_EQUAL(self->n_locks, 2);
}

static void explore_set_stage(const explore_scenario *scene)
{
  explore_scene_now = *scene;
  explore_scene_now.peers = scene->peers ? scene->peers : 4;
  explore_scene_now.capacity = scene->capacity ? scene->capacity : 4;
  scene = explore_scene;
  if (scene->is_stale)
    CHECK(setenv("BUSQ_STALE_PROPOSALS", "1", 1) == 0);
  meet(scene->peers, scene->capacity, 4096);
  for (uint32_t i = 0; i < scene->peers; i++) {
    const char name[] = {'p', (char)('0' + i), '\0'};
    explore_peer *self = &explore_peers[i];
    self->peer = join(name);
    CHECK_EQUAL(self->peer->slot, i);
    CHECK_EQUAL(look_up(self->peer, name, &self->target), 1);
    self->peer->glances = UINT32_MAX; /* the kernel is asked who lives by those who lose patience, and only then */
    explore_own_locks(i);
    busq_ring_raise(&self->peer->ring, scene->clocks[i]);
    self->saved = *self->peer;
    memcpy(self->known, self->peer->known, scene->peers * sizeof self->known[0]);
  }
  CHECK(unsetenv("BUSQ_STALE_PROPOSALS") == 0);
  explore_segment = malloc(company_bus->geometry.segment_bytes);
  CHECK(explore_segment);
  memcpy(explore_segment, company_bus->base, company_bus->geometry.segment_bytes);
  explore_is_dirty = false;
  explore_free_fd = dup(company_bus->fd);
  CHECK(explore_free_fd >= 0 && close(explore_free_fd) == 0);
}

/* Takes back the locks of one who was closing, or had closed. */
static void explore_call_back(explore_peer *self)
{
  char path[64];
  if (self->peer->lock_fd >= 0)
    close(self->peer->lock_fd);
  snprintf(path, sizeof path, "/proc/self/fd/%d", company_bus->fd);
  self->peer->lock_fd = self->saved.lock_fd = open(path, O_RDWR | O_CLOEXEC);
  CHECK(self->peer->lock_fd >= 0);
  explore_lock_peer(self, F_WRLCK);
}

/* Lists keep the memory they have, so that their addresses are the same every time; what is in them goes. */
static void explore_reset_peer(explore_peer *self)
{
  busq_peer *peer = self->peer;
  if (peer->is_closed)
    explore_call_back(self);
  const busq_peer before = *peer;
  *peer = self->saved;
  for (uint32_t i = 0; i < BUSQ_ARENA_CLASSES; i++) {
    peer->arena.classes[i].stack = before.arena.classes[i].stack;
    peer->arena.classes[i].stack_room = before.arena.classes[i].stack_room;
    peer->arena.classes[i].line = before.arena.classes[i].line;
    peer->arena.classes[i].line_room = before.arena.classes[i].line_room;
  }
  peer->heap.entries = before.heap.entries;
  peer->heap.room = before.heap.room;
  memcpy(peer->known, self->known, explore_scene->peers * sizeof self->known[0]);
  memset(peer->done, 0, (peer->ring.slot_count + 63) / 64 * sizeof *peer->done);
  memset(peer->destinations, 0, explore_scene->peers * sizeof *peer->destinations);
}

/* Who was in the middle of burying the dead had opened the bus for it. */
static void explore_bring_back_the_dead(void)
{
  for (int fd = explore_free_fd; fd < explore_free_fd + 4 * EXPLORE_ACTORS_MAX; fd++)
    (void)close(fd);
  explore_lock_peer(&explore_peers[explore_actors[0].peer], F_WRLCK);
  explore_is_dirty = false;
}

static void explore_reset(void)
{
  if (explore_is_dirty)
    explore_bring_back_the_dead();
  memcpy(company_bus->base, explore_segment, company_bus->geometry.segment_bytes);
  for (uint32_t i = 0; i < explore_scene->peers; i++)
    explore_reset_peer(&explore_peers[i]);
  memset(explore_logs, 0, sizeof explore_logs);
  explore_patience_left = explore_scene->patience;
  explore_fault[0] = '\0';
  explore_is_finishing = false;
  for (uint32_t i = 0; i < explore_n_actors; i++) {
    explore_actor *actor = &explore_actors[i];
    memset(&actor->op, 0, sizeof *actor - offsetof(explore_actor, op));
    actor->where = "begin";
    coroutine_init(&explore_coroutines[i], explore_body, actor);
    coroutine_run(&explore_coroutines[i]);
  }
}

static void explore_strike_stage(void)
{
  explore_reset(); /* nobody is in the middle of anything, holding a latch */
  free(explore_segment);
  part();
}

/* ---- the state ---- */

__attribute__((no_sanitize("address"))) static void explore_hash_bytes(explore_hash *hash, const void *bytes, size_t count)
{
  const char *at = bytes;
  uint64_t a = hash->a, b = hash->b;
  for (size_t i = 0; i + 8 <= count; i += 8) {
    uint64_t word;
    __builtin_memcpy(&word, at + i, 8);
    a = (a ^ word) * UINT64_C(0x9fb21c651e98df25);
    a ^= a >> 32;
    b = (b + word) * UINT64_C(0xd6e8feb86659fd93);
    b ^= b >> 29;
  }
  for (size_t i = count & ~(size_t)7; i < count; i++) {
    a = (a ^ (uint8_t)at[i]) * UINT64_C(0x9fb21c651e98df25);
    b = (b + (uint8_t)at[i]) * UINT64_C(0xd6e8feb86659fd93);
  }
  hash->a = a ^ a >> 31;
  hash->b = b ^ b >> 33;
}

static void explore_hash_arena(explore_hash *hash, const busq_arena *arena)
{
  for (uint32_t i = 0; i < 4; i++) {
    const busq_arena_class *class = &arena->classes[i];
    const uint64_t numbers[] = {class->stack_count, class->line_head, class->line_tail, class->searched, class->carving};
    explore_hash_bytes(hash, numbers, sizeof numbers);
    explore_hash_bytes(hash, class->stack, class->stack_count * sizeof *class->stack);
    for (uint64_t at = class->line_head; at != class->line_tail; at++)
      explore_hash_bytes(hash, &class->line[at & (class->line_room - 1)], sizeof *class->line);
  }
}

/* What is private and lasts; the latches, scratch and what the last look has found do not. */
static void explore_hash_peer(explore_hash *hash, const busq_peer *peer)
{
  const uint64_t numbers[] = {peer->lamport,   peer->sequence, peer->sent, peer->late,       peer->scan, peer->head,
                              peer->delivered, peer->received, peer->pins, peer->heap.count, peer->ahead};
  explore_hash_bytes(hash, numbers, sizeof numbers);
  explore_hash_bytes(hash, peer->done, (peer->ring.slot_count + 63) / 64 * sizeof *peer->done);
  for (size_t i = 0; i < peer->heap.count; i++) {
    const busq_heap_entry *entry = &peer->heap.entries[i];
    const uint64_t facts[] = {entry->key.timestamp, entry->key.sender, entry->key.sequence, entry->position, entry->record};
    explore_hash_bytes(hash, facts, sizeof facts);
  }
  for (uint32_t i = 0; i < explore_scene->peers; i++)
    explore_hash_bytes(hash, &peer->known[i].head_seen, sizeof peer->known[i].head_seen);
  const busq_found *found = &peer->found;
  const uint64_t facts[] = {found->key.timestamp, (uint64_t)(uintptr_t)found->record, found->position, found->is_late};
  if (peer->receive_latch.held) /* otherwise nobody will look at it again */
    explore_hash_bytes(hash, facts, sizeof facts);
  explore_hash_arena(hash, &peer->arena);
}

static void explore_hash_actor(explore_hash *hash, const explore_actor *actor)
{
  const coroutine *self = &explore_coroutines[actor->index];
  const uint64_t facts[] = {actor->op, (uint64_t)(uintptr_t)actor->where, actor->is_idle, actor->is_stirred, actor->is_tried, actor->is_done,
                            actor->is_dead};
  size_t bytes;
  explore_hash_bytes(hash, facts, sizeof facts);
  if (actor->is_done || actor->is_dead)
    return;
  const char *stack = coroutine_stack(self, &bytes);
  explore_hash_bytes(hash, self->registers, sizeof self->registers);
  explore_hash_bytes(hash, stack, bytes);
}

static explore_hash explore_hash_logs(void)
{
  explore_hash hash = {1, 2};
  for (uint32_t i = 0; i < explore_scene->peers; i++) {
    explore_hash_bytes(&hash, &explore_logs[i].count, sizeof explore_logs[i].count);
    explore_hash_bytes(&hash, explore_logs[i].events, explore_logs[i].count * sizeof explore_logs[i].events[0]);
  }
  return hash;
}

static explore_hash explore_hash_state(uint32_t preemptions, uint32_t last)
{
  const busq_bus *bus = company_bus;
  const busq_geometry *geometry = &bus->geometry;
  explore_hash hash = explore_hash_logs();
  const uint64_t numbers[] = {explore_patience_left, preemptions, last};
  explore_hash_bytes(&hash, numbers, sizeof numbers);
  for (uint32_t i = 0; i < explore_scene->peers; i++) {
    explore_hash_bytes(&hash, &bus->slots[i], offsetof(busq_slot, joined_ns));
    explore_hash_peer(&hash, explore_peers[i].peer);
  }
  explore_hash_bytes(&hash, bus->base + geometry->rings_offset, geometry->peers * geometry->slot_count * sizeof(busq_pair));
  explore_hash_bytes(&hash, bus->table, geometry->extents * sizeof *bus->table);
  for (uint32_t i = 0; i < geometry->extents; i++)
    explore_hash_bytes(&hash, bus->arena + i * geometry->extent_bytes, EXPLORE_RECORD_BYTES);
  for (uint32_t i = 0; i < explore_n_actors; i++)
    explore_hash_actor(&hash, &explore_actors[i]);
  return hash;
}

/* True if it was not there. */
static bool explore_set_add(explore_set *set, explore_hash hash)
{
  if (set->count * 2 >= set->size) {
    const explore_set old = *set;
    set->size = old.size ? old.size * 2 : 1 << 12;
    set->count = 0;
    set->entries = calloc(set->size, sizeof *set->entries);
    CHECK(set->entries);
    for (uint64_t i = 0; i < old.size; i++)
      if (old.entries[i].a | old.entries[i].b)
        (void)explore_set_add(set, old.entries[i]);
    free(old.entries);
  }
  hash.a |= 1; /* zero is nobody */
  uint64_t at = hash.b & (set->size - 1);
  for (; set->entries[at].a | set->entries[at].b; at = (at + 1) & (set->size - 1))
    if (set->entries[at].a == hash.a && set->entries[at].b == hash.b)
      return false;
  set->entries[at] = hash;
  set->count++;
  return true;
}

/* ---- one step ---- */

static bool explore_is_enabled(const explore_actor *actor)
{
  if (actor->is_done || actor->is_dead || actor->is_idle)
    return false;
  const explore_op *op = &actor->ops[actor->op];
  return strcmp(actor->where, "await") != 0 || explore_was_delivered(op->at, op->message);
}

static bool explore_is_over(void)
{
  for (uint32_t i = 0; i < explore_n_actors; i++)
    if (!explore_actors[i].is_done && !explore_actors[i].is_dead && !explore_is_daemon(&explore_actors[i]))
      return false;
  return true;
}

static bool explore_may_lose_patience(const explore_actor *actor)
{
  if (!actor->is_idle || actor->is_tried || actor->is_dead || strcmp(actor->where, "receive") != 0)
    return false;
  return explore_patience_left > 0;
}

/* All that can happen next. */
static uint32_t explore_choices(char *choices)
{
  uint32_t count = 0;
  for (uint32_t i = 0; i < explore_n_actors; i++)
    if (explore_is_enabled(&explore_actors[i]))
      choices[count++] = (char)('0' + i);
  for (uint32_t i = 0; i < explore_n_actors; i++)
    if (explore_may_lose_patience(&explore_actors[i]))
      choices[count++] = (char)('a' + i);
  if (explore_scene->may_die && !explore_actors[0].is_dead && !explore_actors[0].is_done)
    choices[count++] = EXPLORE_KILL;
  return count;
}

/* What others may be waiting for.  Who only looks changes nothing, nor does who loses patience in vain: two of them would
 * go on waking each other for ever. */
typedef struct {
  uint64_t head;
  uint64_t life;
  busq_pair slot;
  uint32_t events;
  bool is_looking;
  bool is_undoing; /* a send that ends with Full here has taken references back, which others may have waited for */
} explore_before;

static explore_before explore_observe(const explore_actor *actor)
{
  static const char *const looking[] = {"receive", "look", "read", "tail"};
  const busq_peer *peer = explore_peers[actor->peer].peer;
  explore_before before = {.head = peer->head,
                           .life = busq_load_relaxed(&company_bus->slots[explore_actors[0].peer].life),
                           .slot = *busq_ring_slot(&peer->ring, peer->scan),
                           .events = explore_logs[actor->peer].count,
                           .is_undoing = strcmp(actor->where, "state") == 0 || strcmp(actor->where, "wake") == 0};
  for (unsigned i = 0; i < sizeof looking / sizeof looking[0]; i++)
    before.is_looking |= strcmp(actor->where, looking[i]) == 0;
  return before;
}

static bool explore_has_changed(const explore_actor *actor, explore_before before)
{
  const explore_before after = explore_observe(actor);
  if (after.head != before.head || after.life != before.life || after.events != before.events ||
      after.slot.lo != before.slot.lo || after.slot.hi != before.slot.hi)
    return true;
  return !before.is_looking && (!actor->is_idle || before.is_undoing);
}

static void explore_others_may_look_again(uint32_t index)
{
  for (uint32_t i = 0; i < explore_n_actors; i++)
    if (i != index) {
      explore_actors[i].is_idle = explore_actors[i].is_tried = false;
      explore_actors[i].is_stirred = true;
    }
}

static void explore_take(char choice)
{
  if (choice == EXPLORE_KILL) {
    if (explore_is_loud)
      printf("          p%u is killed at \"%s\"\n", explore_actors[0].peer, explore_actors[0].where);
    explore_actors[0].is_dead = true;
    explore_is_dirty = true;
    explore_lock_peer(&explore_peers[explore_actors[0].peer], F_UNLCK);
    explore_others_may_look_again(0);
    return;
  }
  const bool loses_patience = choice >= 'a';
  const uint32_t index = (uint32_t)(choice - (loses_patience ? 'a' : '0'));
  explore_actor *actor = &explore_actors[index];
  actor->loses_patience = loses_patience;
  if (loses_patience) {
    actor->is_idle = false;
    explore_patience_left--;
  }
  if (explore_is_loud && !explore_is_finishing)
    printf("%8c  p%u %s\n", choice, actor->peer, loses_patience ? "loses patience" : actor->where);
  const explore_before before = explore_observe(actor);
  busq_step_hook = explore_step;
  coroutine_run(&explore_coroutines[index]);
  busq_step_hook = NULL;
  if (explore_has_changed(actor, before))
    explore_others_may_look_again(index);
}

/* ---- the end ---- */

static bool explore_is_gone(uint32_t peer)
{
  return explore_peers[peer].peer->is_closed || (explore_actors[0].is_dead && peer == explore_actors[0].peer);
}

/* Without further choice: everybody goes on until nobody can. */
static void explore_let_run(void)
{
  char choices[3 * EXPLORE_ACTORS_MAX];
  for (uint32_t steps = 0;; steps++) {
    uint32_t count = explore_choices(choices);
    while (count && choices[count - 1] == EXPLORE_KILL)
      count--;
    if (!count)
      return;
    if (steps == 10 * EXPLORE_DEPTH_MAX) {
      snprintf(explore_fault, sizeof explore_fault, "they go round in circles and do not come to an end");
      return;
    }
    explore_take(choices[0]);
  }
}

/* Everybody finishes what he is doing, and everything is received, also by peers without an actor that receives. */
static void explore_finish(void)
{
  bool has_moved = true;
  explore_is_finishing = true;
  if (explore_scene->patience)
    explore_patience_left = EXPLORE_DEPTH_MAX;
  while (has_moved && !explore_fault[0]) {
    explore_let_run();
    has_moved = false;
    for (uint32_t i = 0; i < explore_scene->peers; i++) {
      const uint64_t head = explore_peers[i].peer->head;
      while (!explore_is_gone(i) && explore_receive(i))
        ;
      has_moved |= explore_peers[i].peer->head != head;
    }
    if (has_moved)
      explore_others_may_look_again(EXPLORE_ACTORS_MAX);
  }
}

/* Of what the dead one was sending, nobody need have received anything. */
static bool explore_was_cut_off(uint32_t peer, uint32_t index)
{
  const explore_actor *first = &explore_actors[0];
  const explore_event *event = &explore_logs[peer].events[index];
  if (!first->is_dead || peer != first->peer || first->op >= first->n_ops || first->ops[first->op].message != event->message)
    return false;
  for (uint32_t i = 0; i < explore_scene->peers; i++)
    if (explore_was_delivered(i, event->message))
      return false;
  return true;
}

/* Who has left need not have received it, and if the sender was told so, nobody may. */
static bool explore_had_left(uint32_t sender, uint8_t message, uint32_t target)
{
  for (uint32_t e = 0; e < explore_logs[sender].count; e++) {
    const explore_event *event = &explore_logs[sender].events[e];
    if (event->kind == BUSQ_EVENT_SEND && event->message == message && !event->targets)
      return true;
  }
  return explore_peers[target].peer->is_closed && !explore_was_delivered(target, message);
}

static void explore_fill_history(busq_history *history)
{
  for (uint32_t i = 0; i < explore_scene->peers; i++) {
    for (uint32_t e = 0; e < explore_logs[i].count; e++) {
      const explore_event *event = &explore_logs[i].events[e];
      uint32_t targets[EXPLORE_PEERS_MAX], count = 0;
      for (uint32_t t = 0; t < explore_scene->peers; t++)
        if ((event->targets >> t & 1) && !explore_had_left(i, event->message, t))
          targets[count++] = t;
      if (event->kind == BUSQ_EVENT_DELIVER)
        CHECK_EQUAL(busq_history_deliver(history, i, event->message), BUSQ_OK);
      else if (count && !explore_was_cut_off(i, e))
        CHECK_EQUAL(busq_history_send(history, i, event->message, targets, count), BUSQ_OK);
    }
  }
}

static const char *const explore_properties[] = {"lost",   "duplicated", "phantom", "fifo",      "causal",
                                                 "consistent", "total",  "resent",  "impossible"};

static void explore_describe(const busq_judgement *judgement)
{
  size_t used = 0;
  for (uint32_t p = 0; p < BUSQ_N_PROPERTIES; p++) {
    const busq_verdict *verdict = &judgement->verdicts[p];
    if (!verdict->count || used + 100 > sizeof explore_fault)
      continue;
    used += (size_t)snprintf(explore_fault + used, sizeof explore_fault - used, "%s%s (%" PRIu64 ":", used ? "; " : "",
                             explore_properties[p], verdict->count);
    for (uint32_t i = 0; i < verdict->witness.n_messages; i++)
      used += (size_t)snprintf(explore_fault + used, sizeof explore_fault - used, " message %" PRIu64,
                               verdict->witness.messages[i]);
    for (uint32_t i = 0; i < verdict->witness.n_processes; i++)
      used += (size_t)snprintf(explore_fault + used, sizeof explore_fault - used, " p%u", verdict->witness.processes[i]);
    used += (size_t)snprintf(explore_fault + used, sizeof explore_fault - used, ")");
  }
}

/* Everything final was released, and nothing is left in a queue. */
static void explore_visit(busq_bus *bus, busq_record *record)
{
  const uint64_t phase = record->state.lo & 3;
  if (phase == BUSQ_PHASE_FREE || (phase == BUSQ_PHASE_COMMITTED && busq_record_is_released(bus, record)))
    return;
  /* One that was left alone while it was being filled is nobody's yet. */
  if (!explore_actors[0].is_dead || record->sender != explore_peers[explore_actors[0].peer].peer->slot)
    snprintf(explore_fault, sizeof explore_fault, "a record of p%u is in phase %u and not released", record->sender,
             (unsigned)phase);
}

static void explore_check_rest(void)
{
  for (uint32_t i = 0; i < explore_scene->peers; i++) {
    const busq_peer *peer = explore_peers[i].peer;
    busq_arena_visit(company_bus, i, explore_visit);
    if (explore_is_gone(i))
      continue;
    if (!busq_ring_verify(&peer->ring) || busq_load_relaxed(&peer->ring.queue->head) != busq_ring_tail(&peer->ring))
      snprintf(explore_fault, sizeof explore_fault, "something is left in the queue of p%u", i);
  }
  for (uint32_t i = 0; i < explore_n_actors; i++) {
    const explore_actor *actor = &explore_actors[i];
    const bool waits_for_the_dead = explore_actors[0].is_dead && strcmp(actor->where, "await") == 0;
    if (!actor->is_done && !actor->is_dead && !explore_is_daemon(actor) && !waits_for_the_dead)
      snprintf(explore_fault, sizeof explore_fault, "p%u is stuck at \"%s\"", actor->peer, actor->where);
  }
}

/* True if it was a good end.  Ends that were judged before are not judged again. */
static bool explore_judge(explore_set *ends)
{
  explore_finish();
  if (!explore_fault[0])
    explore_check_rest();
  if (explore_fault[0])
    return false;
  if (ends && !explore_set_add(ends, explore_hash_logs()))
    return true;
  busq_history *history;
  busq_judgement judgement;
  CHECK_EQUAL(busq_history_new(explore_scene->peers, &history), BUSQ_OK);
  explore_fill_history(history);
  CHECK_EQUAL(busq_history_judge(history, BUSQ_ALL_PROPERTIES, &judgement), BUSQ_OK);
  busq_history_free(history);
  explore_describe(&judgement);
  return !explore_fault[0];
}

/* ---- the search ---- */

typedef struct {
  char choices[3 * EXPLORE_ACTORS_MAX];
  uint32_t count;
  uint32_t next;
  uint32_t preemptions; /* up to here */
} explore_frame;

typedef struct {
  explore_frame frames[EXPLORE_DEPTH_MAX];
  char path[EXPLORE_DEPTH_MAX + 1];
  uint32_t depth;
  uint32_t preemptions_max;
  bool merges;
  explore_set seen;
  explore_set ends;
} explore_search;

static uint32_t explore_who(char choice)
{
  return choice == EXPLORE_KILL ? EXPLORE_ACTORS_MAX : (uint32_t)(choice - (choice >= 'a' ? 'a' : '0'));
}

/* Does this choice take over from somebody who could go on?  A death does not count. */
static bool explore_preempts(const explore_search *search, uint32_t depth, char choice)
{
  if (depth == 0 || choice == EXPLORE_KILL || search->path[depth - 1] == EXPLORE_KILL)
    return false;
  const uint32_t last = explore_who(search->path[depth - 1]);
  return explore_who(choice) != last && explore_is_enabled(&explore_actors[last]);
}

/* A state that is new: what can happen next.  False at an end. */
static bool explore_open(explore_search *search)
{
  explore_frame *frame = &search->frames[search->depth];
  const uint32_t before = search->depth ? search->frames[search->depth - 1].preemptions : 0;
  char all[3 * EXPLORE_ACTORS_MAX];
  const uint32_t count = explore_is_over() ? 0 : explore_choices(all);
  frame->count = frame->next = 0;
  for (uint32_t i = 0; i < count; i++)
    if (before + explore_preempts(search, search->depth, all[i]) <= search->preemptions_max)
      frame->choices[frame->count++] = all[i];
  return frame->count > 0;
}

static void explore_go(explore_search *search)
{
  explore_frame *frame = &search->frames[search->depth];
  const uint32_t before = search->depth ? search->frames[search->depth - 1].preemptions : 0;
  const char choice = frame->choices[frame->next];
  frame->preemptions = before + explore_preempts(search, search->depth, choice);
  search->path[search->depth++] = choice;
  explore_take(choice);
}

/* From the state at hand on, always the first choice, up to an end or a state seen before.  False at a bad end. */
static bool explore_descend(explore_search *search, explore_result *result)
{
  for (;;) {
    const bool is_bounded = search->preemptions_max != UINT32_MAX;
    const uint32_t last = search->depth && is_bounded ? explore_who(search->path[search->depth - 1]) : 0;
    const uint32_t preemptions = search->depth && is_bounded ? search->frames[search->depth - 1].preemptions : 0;
    if (search->depth > result->depth_max)
      result->depth_max = search->depth;
    if (search->merges && !explore_set_add(&search->seen, explore_hash_state(preemptions, last)))
      return true;
    result->states++;
    if (search->depth == EXPLORE_DEPTH_MAX)
      check_fail(__FILE__, __LINE__, "more than %d steps: does anybody go round in circles?  %s", EXPLORE_DEPTH_MAX,
                 search->path);
    if (!explore_open(search)) {
      result->schedules++;
      search->frames[search->depth].count = 0;
      return explore_judge(&search->ends);
    }
    explore_go(search);
    result->transitions++;
  }
}

/* Back to the last state that has another choice, by starting over; false if there is none. */
static bool explore_back(explore_search *search)
{
  while (search->depth > 0) {
    explore_frame *frame = &search->frames[search->depth - 1];
    if (++frame->next < frame->count) {
      const uint32_t depth = search->depth - 1;
      explore_reset();
      for (search->depth = 0; search->depth < depth; search->depth++)
        explore_take(search->path[search->depth]);
      explore_go(search);
      return true;
    }
    search->depth--;
  }
  return false;
}

/* Looks at all schedules with at most so many preemptions. */
static void explore_all(uint32_t preemptions_max, uint64_t states_max, bool merges, explore_result *result)
{
  explore_search *search = calloc(1, sizeof *search);
  CHECK(search);
  memset(result, 0, sizeof *result);
  search->preemptions_max = preemptions_max;
  search->merges = merges;
  explore_reset();
  for (;;) {
    if (!explore_descend(search, result)) {
      result->has_failed = true;
      memcpy(result->schedule, search->path, search->depth);
      break;
    }
    if (result->states >= states_max)
      break;
    if (!explore_back(search)) {
      result->is_complete = preemptions_max == UINT32_MAX;
      break;
    }
    result->transitions++;
  }
  result->outcomes = search->ends.count;
  for (uint64_t i = 0; i < search->ends.size; i++)
    result->which += search->ends.entries[i].b;
  free(search->seen.entries);
  free(search->ends.entries);
  free(search);
}

/* ---- for people ---- */

static void explore_print_logs(void)
{
  for (uint32_t i = 0; i < explore_scene->peers; i++) {
    printf("    p%u:", i);
    for (uint32_t e = 0; e < explore_logs[i].count; e++)
      printf(" %s %u;", explore_logs[i].events[e].kind == BUSQ_EVENT_SEND ? "send" : "deliver",
             explore_logs[i].events[e].message);
    printf("\n");
  }
}

/* Follows a schedule aloud; true if it ends well. */
static bool explore_follow(const explore_scenario *scene, const char *schedule)
{
  explore_cast(scene);
  explore_set_stage(scene);
  explore_reset();
  explore_is_loud = true;
  printf("  %s\n", scene->name);
  for (; *schedule; schedule++) {
    char choices[3 * EXPLORE_ACTORS_MAX];
    const uint32_t count = explore_choices(choices);
    if (!memchr(choices, *schedule, count))
      check_fail(__FILE__, __LINE__, "the schedule asks for '%c', which can't happen here", *schedule);
    explore_take(*schedule);
  }
  printf("          the rest in turn\n");
  const bool is_good = explore_judge(NULL);
  explore_is_loud = false;
  explore_print_logs();
  printf("    %s\n", is_good ? "all is well" : explore_fault);
  explore_strike_stage();
  return is_good;
}

/* The same fault, with as few changes of actor as it takes. */
static void explore_simplify(uint64_t states_max, explore_result *result)
{
  for (uint32_t preemptions = 0; preemptions < 8; preemptions++) {
    explore_result simple;
    explore_all(preemptions, states_max, true, &simple);
    if (simple.has_failed) {
      memcpy(result->schedule, simple.schedule, sizeof result->schedule);
      return;
    }
  }
}

/* Searches and prints; true if every end was good. */
static bool explore_run(const explore_scenario *scene, uint64_t states_max, bool merges, explore_result *result)
{
  const uint64_t began = (uint64_t)clock();
  explore_cast(scene);
  explore_set_stage(scene);
  explore_all(scene->preemptions ? scene->preemptions : UINT32_MAX, states_max, merges, result);
  const double seconds = (double)((uint64_t)clock() - began) / CLOCKS_PER_SEC;
  if (result->has_failed)
    explore_simplify(states_max, result);
  explore_strike_stage();
  printf("%s  %s: %" PRIu64 " states, %" PRIu64 " steps, %" PRIu64 " ends with %" PRIu64 " outcomes, up to %u steps deep; ",
         result->has_failed ? "BAD" : "ok", scene->name, result->states, result->transitions, result->schedules,
         result->outcomes, result->depth_max);
  if (result->has_failed)
    printf("stopped at the first fault");
  else if (result->is_complete)
    printf("complete");
  else if (scene->preemptions && result->states < states_max)
    printf("all with up to %u preemptions", scene->preemptions);
  else
    printf("NOT complete: gave up at that many states");
  printf(" (%.1f s)\n", seconds);
  fflush(stdout);
  return !result->has_failed;
}

#endif /* BUSQ_TESTS_EXPLORE_H */
