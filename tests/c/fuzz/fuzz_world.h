/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_TESTS_FUZZ_WORLD_H
#define BUSQ_TESTS_FUZZ_WORLD_H
/*
 * A small bus with a past, players that do what an input chooses, and an input that may change any word of the segment
 * between two of their steps, or stop or kill one of them in the middle of a call.
 *
 * Guarantee: the same input does the same in every run; an operation that takes more than STEPS_MAX steps (accesses
 * that are marked in the core, readings of the clock, sleeps) ends the process as a hang; so does any access outside of
 * the mapping, any undocumented result, and whatever a sanitizer finds.
 *
 * Mechanism.  Time is virtual: it passes when a player looks at the clock, and a sleep takes it to the end of the
 * slice.  Every execution copies the past over the mapping, so that nothing of the one before is left.  A player's call
 * is a coroutine that may stop in the step hook: others go on meanwhile, and it goes on later, or is dead: its
 * descriptors are closed, as the kernel would do it, and nothing else is put in order. Places are named by what they
 * mean (slot 2, its head) and not by their offset, so that inputs outlive changes of the layout.
 *
 * Not given: weak memory orders and true concurrency; for those, see the explorer and the stress test.
 */
#include "fuzz/fuzz_coroutine.h"
#include "harness/play.h"
#include "shm/burial/grave.h"
#include "shm/send/multicast.h"
#include "shm/wake/wake.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

/* ---- the input ---- */

static const uint8_t *input_at, *input_end;

static uint32_t input_byte(void)
{
  return input_at < input_end ? *input_at++ : 0;
}

static uint64_t input_word(uint32_t bytes)
{
  uint64_t word = 0;
  for (uint32_t i = 0; i < bytes; i++)
    word |= (uint64_t)input_byte() << 8 * i;
  return word;
}

/* 1 to 1152: one by one as far as most calls go. */
static uint32_t input_steps(void)
{
  const uint32_t byte = input_byte();
  return byte < 128 ? byte + 1 : 128 + (byte - 127) * 8;
}

static uint32_t play_choose(uint32_t limit)
{
  return input_byte() % limit;
}

/* ---- time, and how much of it a call may take ---- */

#define STEPS_MAX 2000000u

static bool is_within_call; /* otherwise clocks and system calls are those of the process */
static uint32_t steps_taken;
static uint64_t virtual_ns = UINT64_C(1000000000000);

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
int __real_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
int __real_sched_yield(void);
int __wrap_sched_yield(void);
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

static void step_count(void)
{
  if (++steps_taken <= STEPS_MAX)
    return;
  fprintf(stderr, "a call takes more than %u steps: it hangs\n", STEPS_MAX);
  abort();
}

static uint64_t timespec_ns(const struct timespec *time)
{
  return (uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_nsec;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
  if (!is_within_call)
    return __real_clock_gettime(clock, time);
  step_count();
  virtual_ns += 500;
  *time = (struct timespec){(time_t)(virtual_ns / 1000000000u), (long)(virtual_ns % 1000000000u)};
  return 0;
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
  if (!is_within_call)
    return __real_nanosleep(time, left);
  step_count();
  virtual_ns += timespec_ns(time);
  return 0;
}

int __wrap_sched_yield(void)
{
  if (!is_within_call)
    return __real_sched_yield();
  step_count();
  return 0;
}

/* No other thread runs, so nothing will wake a sleeper: a sleep ends with its slice. */
static long virtual_futex(const uint32_t *word, int operation, uint32_t value, const struct timespec *slice)
{
  step_count();
  if ((operation & 127) != 0) /* FUTEX_WAKE */
    return 0;
  if (busq_load_acquire(word) != value) {
    errno = EAGAIN;
    return -1;
  }
  if (!slice) {
    fprintf(stderr, "a sleep without an end\n");
    abort();
  }
  virtual_ns += timespec_ns(slice);
  errno = ETIMEDOUT;
  return -1;
}

long __wrap_syscall(long number, ...)
{
  long a[6];
  va_list arguments;
  va_start(arguments, number);
  for (int i = 0; i < 6; i++)
    a[i] = va_arg(arguments, long);
  va_end(arguments);
  if (is_within_call && number == SYS_futex)
    return virtual_futex((const uint32_t *)a[0], (int)a[1], (uint32_t)a[2], (const struct timespec *)a[3]);
  return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* ---- descriptors that a dying player has opened ---- */

enum {
  OPENED_MAX = 32
};

static int opened[OPENED_MAX]; /* by the operation at hand, and not closed so far */
static int n_opened;

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __real_openat(int directory, const char *path, int flags, ...);
int __wrap_openat(int directory, const char *path, int flags, ...);
int __real_close(int fd);
int __wrap_close(int fd);

static int opened_add(int fd)
{
  if (is_within_call && fd >= 0 && n_opened < OPENED_MAX)
    opened[n_opened++] = fd;
  return fd;
}

int __wrap_open(const char *path, int flags, ...)
{
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return opened_add(__real_open(path, flags, mode));
}

int __wrap_openat(int directory, const char *path, int flags, ...)
{
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return opened_add(__real_openat(directory, path, flags, mode));
}

int __wrap_close(int fd)
{
  for (int i = 0; i < n_opened; i++)
    if (opened[i] == fd)
      opened[i--] = opened[--n_opened];
  return __real_close(fd);
}

/* ---- players that stop, or die, in the middle of a call ---- */

enum {
  CASTS_MAX = 16
};

/* A player and the call that it is in. */
typedef struct {
  coroutine call;
  player self;
  uint32_t operation;
  char error_text[256]; /* which is one per process elsewhere */
  bool is_within; /* stopped in the middle of it */
  bool is_dead;   /* and will never go on */
} cast;

static cast casts[CASTS_MAX];
static int n_casts;
static uint32_t steps_to_go; /* of the player at hand, until it stops; 0: to the end */
static int null_fd;

static cast *cast_of(player *p)
{
  return (cast *)(void *)((char *)p - offsetof(cast, self));
}

/* A new player plays under the name. */
static void cast_new(uint32_t number)
{
  cast *self = &casts[n_casts++];
  player_init(&self->self, number);
  self->error_text[0] = '\0';
  self->is_within = self->is_dead = false;
  players[number] = &self->self;
}

static void late_patch_step(void);

static void on_step(const char *where)
{
  (void)where;
  step_count();
  late_patch_step();
  if (steps_to_go && !--steps_to_go)
    coroutine_pause();
}

/* Only what others can see is a step: a player that stops in the middle of what is private, as another process would,
 * must not hold up those that share its private memory here. */
static void on_access(busq_access access, const volatile void *address, size_t bytes)
{
  const char *at = (const char *)(uintptr_t)address;
  (void)bytes;
  if (is_within_call && at >= play_bus->base && at < play_bus->base + play_bus->geometry.segment_bytes)
    on_step(access == BUSQ_ACCESS_LOAD ? "load" : "write");
}

static void call_body(void *argument)
{
  cast *self = argument;
  play(&self->self, self->operation);
  self->is_within = false;
}

/* Until the end of the call, or so many steps. */
static void cast_go_on(cast *self, uint32_t steps)
{
  steps_taken = 0;
  steps_to_go = steps;
  is_within_call = true;
  (void)busq_error(BUSQ_OK, "%s", self->error_text);
  coroutine_run(&self->call);
  snprintf(self->error_text, sizeof self->error_text, "%s", busq_error_text());
  is_within_call = false;
  steps_to_go = 0;
}

/* As the kernel does it: what was open is closed, and the locks are gone.  The numbers stay in use, because the call
 * is gone through to its end when nothing depends on it any more, and will close them. */
static void fd_close_for_good(int fd)
{
  if (fd >= 0 && fcntl(fd, F_GETFD) >= 0)
    (void)dup3(null_fd, fd, O_CLOEXEC);
}

static void cast_die(cast *self)
{
  const busq_peer *peer = self->self.peer;
  self->is_dead = true;
  while (n_opened)
    fd_close_for_good(opened[--n_opened]);
  if (!peer)
    return;
  fd_close_for_good(peer->lock_fd);
  fd_close_for_good(peer->descriptor.poll_fd);
  fd_close_for_good(peer->descriptor.fifo_fd);
  fd_close_for_good(peer->descriptor.timer_fd);
  for (uint32_t slot = 0; slot < play_bus->geometry.peers; slot++)
    fd_close_for_good(peer->sender.known[slot].fifo_fd);
}

/* One operation of one player; with `steps` it stops within it after so many of them, if it has so many.  A stopped one
 * goes on instead. */
static void fuzz_play(uint32_t who, uint32_t operation, uint32_t steps, bool dies)
{
  cast *self = cast_of(players[who % PLAYERS]);
  if (n_casts >= CASTS_MAX)
    steps = 0;
  n_opened = 0;
  if (!self->is_within) {
    self->operation = operation;
    self->is_within = true;
    coroutine_init(&self->call, call_body, self);
  }
  cast_go_on(self, steps);
  if (self->is_within && dies) {
    cast_die(self);
    cast_new(who % PLAYERS);
  }
}

/* ---- the bus, and what it looked like in the beginning ---- */

enum {
  PASTS_MAX = 96
};

static char world_directory[64];
static int world_fd; /* of the directory */
static char *pasts[PASTS_MAX];
static uint32_t n_pasts;
static uint64_t world_bytes; /* of the segment */

/* Takes away the FIFOs of those that died, and in the end everything. */
static void world_sweep(bool everything)
{
  DIR *directory = opendir(world_directory);
  for (const struct dirent *entry; directory && (entry = readdir(directory));)
    if (strncmp(entry->d_name, ".busq-", 6) == 0 || (everything && entry->d_name[0] != '.'))
      (void)unlinkat(world_fd, entry->d_name, 0);
  if (directory)
    closedir(directory);
}

static void world_end(void)
{
  world_sweep(true);
  (void)rmdir(world_directory);
}

static void world_fail(const char *what)
{
  fprintf(stderr, "%s: %s; %s\n", what, strerror(errno), busq_error_text());
  exit(2);
}

static void world_find_place(void)
{
  static const char *const places[] = {"/dev/shm", "/tmp"};
  for (int i = 0; i < 2; i++) {
    snprintf(world_directory, sizeof world_directory, "%s/busq-fuzz-XXXXXX", places[i]);
    if (!mkdtemp(world_directory))
      continue;
    world_fd = open(world_directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    atexit(world_end);
    return;
  }
  world_fail("no place for a bus");
}

/* All go: first the living, then, against a segment that holds nothing, what is left of the dead. */
static void world_leave(void)
{
  for (int alive = 1; alive >= 0; alive--) {
    if (!alive)
      memset(play_bus->base, 0, play_bus->geometry.segment_bytes);
    for (int i = 0; i < n_casts; i++) {
      cast *self = &casts[i];
      if (self->is_dead == alive)
        continue;
      while (self->is_within)
        cast_go_on(self, 0);
      steps_taken = 0;
      is_within_call = true;
      player_leave(&self->self);
      is_within_call = false;
    }
  }
  n_casts = 0;
}

static void world_enter(void)
{
  for (uint32_t i = 0; i < PLAYERS; i++)
    cast_new(i);
}

/* Plays what h0, h1 and h2 do before the input begins: "player operation choices" in a text. */
static void past_play(const char *script, uint32_t steps, bool dies)
{
  static uint8_t choices[16];
  uint32_t n_choices = 0;
  for (const char *c = script + 2; *c; c++)
    choices[n_choices++] = (uint8_t)(*c - 'a');
  input_at = choices;
  input_end = choices + n_choices;
  fuzz_play((uint32_t)(script[0] - '0'), (uint32_t)(script[1] - 'a'), steps, dies);
}

/* h2 left with messages on their way; h1 was killed while it looked at a message, h0 in step `steps` of a multicast
 * that loses its proposal, or of joining again.  Returns true if that was after the last step. */
static bool world_make_past(uint32_t steps)
{
  static const char *const script[] = {
      "0a", "1aa", "2ac",         /* they join, the last durably */
      "2abcb",                    /* h2 to h0, 24 bytes */
      "0ahdb",                    /* h0 to all, 200 bytes */
      "1acgb",                    /* h1 to h1, 5000 bytes */
      "1bab", "1kb",              /* h1 takes two messages, one to be acknowledged */
      "2fb",                      /* h2 joins again */
  };
  world_enter();
  for (unsigned i = 0; i < sizeof script / sizeof *script; i++)
    past_play(script[i], 0, false);
  const int n_before = n_casts;
  past_play("0hhcb", steps, true);
  const bool is_last = n_casts == n_before;
  cast_die(cast_of(players[1]));
  return is_last;
}

static void world_make_pasts(void)
{
  char *blank = malloc(world_bytes);
  bool is_last = false;
  if (!blank)
    world_fail("no memory");
  memcpy(blank, play_bus->base, world_bytes);
  for (; !is_last && n_pasts < PASTS_MAX; n_pasts++) {
    is_last = world_make_past(n_pasts + 1);
    if (!(pasts[n_pasts] = malloc(world_bytes)))
      world_fail("no memory");
    memcpy(pasts[n_pasts], play_bus->base, world_bytes);
    for (int i = 0; i < n_casts; i++)
      if (!casts[i].is_dead)
        cast_die(&casts[i]);
    world_leave();
    memcpy(play_bus->base, blank, world_bytes);
  }
  free(blank);
  world_sweep(false);
}

/* A library must not end the process of its user. */
static void on_broken_pipe(int number)
{
  (void)number;
  abort();
}

/* First thing in every program. */
static void world_begin(void)
{
  signal(SIGPIPE, on_broken_pipe);
  const busq_config config = {.peers = 6, .capacity = 4, .arena_bytes = 16384, .permissions = 0600};
  busq_step_hook = on_step;
  busq_access_hook = on_access;
  null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  world_find_place();
  if (busq_bus_create(world_directory, "bus", &config, &play_bus) != BUSQ_OK)
    world_fail("can't create a bus");
  world_bytes = play_bus->geometry.segment_bytes;
  world_make_pasts();
}

/* ---- changing a word ---- */

typedef struct {
  char *at;
  uint32_t bytes;
  uint64_t value;
} patch;

static patch late_patch; /* made in the middle of the next operation, */
static uint32_t late_patch_steps; /* so many steps from its beginning */

typedef struct {
  uint16_t offset;
  uint16_t bytes;
} field;

#define FIELD(type, name) {offsetof(type, name), sizeof(((type *)0)->name)}

static const field header_fields[] = {
    FIELD(busq_header, is_shut_down), FIELD(busq_header, memory_wanted), FIELD(busq_header, magic),
    FIELD(busq_header, version),      FIELD(busq_header, state),         FIELD(busq_header, stamp),
    FIELD(busq_header, generation),   FIELD(busq_header, permissions),   FIELD(busq_header, checksum),
    FIELD(busq_header, geometry.peers), FIELD(busq_header, geometry.capacity),
    FIELD(busq_header, geometry.arena_bytes), FIELD(busq_header, geometry.slot_count),
    FIELD(busq_header, geometry.extent_bytes), FIELD(busq_header, geometry.extents),
    FIELD(busq_header, geometry.rings_offset), FIELD(busq_header, geometry.segment_bytes),
};

static const field slot_fields[] = {
    FIELD(busq_slot, queue.clock_tail.lo), FIELD(busq_slot, queue.clock_tail.hi), FIELD(busq_slot, queue.head),
    FIELD(busq_slot, life),                FIELD(busq_slot, wake_seq),            FIELD(busq_slot, wake_flags),
    FIELD(busq_slot, room_seq),            FIELD(busq_slot, room_waiters),        FIELD(busq_slot, memory_seq),
    FIELD(busq_slot, memory_waits),        FIELD(busq_slot, asks),                FIELD(busq_slot, sequence_reserved),
    FIELD(busq_slot, sent),                FIELD(busq_slot, received),            FIELD(busq_slot, pid),
    FIELD(busq_slot, name_bytes),          FIELD(busq_slot, name),
};

static const field extent_fields[] = {FIELD(busq_extent, word), FIELD(busq_extent, length)};

static const field record_fields[] = {
    FIELD(busq_record, state.lo),           FIELD(busq_record, state.hi),      FIELD(busq_record, proposal),
    FIELD(busq_record, size_bytes),         FIELD(busq_record, origin),        FIELD(busq_record, outline),
    FIELD(busq_record, sender_life), {offsetof(busq_record, destination), 2},
    {offsetof(busq_record, destination) + 2, 2}, {offsetof(busq_record, destination) + 4, 2},
    {offsetof(busq_record, destination) + 6, 2},
};

#define CHOOSE_FIELD(patchp, base, fields) \
  choose_field((patchp), (char *)(base), fields, sizeof fields / sizeof *fields)

static void choose_field(patch *p, char *base, const field *fields, uint32_t n_fields)
{
  const field *chosen = &fields[play_choose(n_fields)];
  p->at = base + chosen->offset;
  p->bytes = chosen->bytes < 8 ? chosen->bytes : 8;
}

/* A reference in the ring of a peer: near the head, where it matters. */
static busq_pair *choose_cell(void)
{
  const busq_ring ring = busq_bus_ring(play_bus, play_choose(play_bus->geometry.peers));
  return busq_ring_slot(&ring, ring.queue->head + play_choose((uint32_t)ring.slot_count));
}

/* A record that some ring refers to, or what stands near the beginning of an extent. */
static char *choose_record(void)
{
  const busq_geometry *geometry = &play_bus->geometry;
  const uint64_t extent_units = geometry->extent_bytes / BUSQ_LAYOUT_UNIT_BYTES;
  uint64_t unit;
  if (play_choose(2)) {
    unit = (uint32_t)choose_cell()->lo;
  } else {
    unit = play_choose((uint32_t)geometry->extents) * extent_units;
    unit += play_choose(16);
  }
  return (char *)busq_bus_record(play_bus, (uint32_t)(unit % (geometry->extents * extent_units)));
}

static void choose_place(patch *p)
{
  const busq_geometry *geometry = &play_bus->geometry;
  p->bytes = 8;
  switch (play_choose(6)) {
  case 0:
    CHOOSE_FIELD(p, play_bus->base, header_fields);
    return;
  case 1:
    CHOOSE_FIELD(p, play_bus->base + geometry->peers_offset + play_choose(geometry->peers) * sizeof(busq_slot), slot_fields);
    return;
  case 2:
    p->at = (char *)choose_cell();
    p->at += play_choose(2) ? 8 : 0;
    return;
  case 3:
    CHOOSE_FIELD(p, play_bus->base + geometry->table_offset + play_choose((uint32_t)geometry->extents) * sizeof(busq_extent),
                 extent_fields);
    return;
  case 4:
    CHOOSE_FIELD(p, choose_record(), record_fields);
    return;
  default:
    p->at = play_bus->base + input_word(3) % (geometry->segment_bytes / 8) * 8;
    return;
  }
}

static uint64_t choose_value(uint64_t now)
{
  switch (play_choose(8)) {
  case 0:
    return input_byte();
  case 1:
    return now + (uint64_t)(int64_t)(int8_t)input_byte();
  case 2:
    return now ^ UINT64_C(1) << play_choose(64);
  case 3:
    return input_word(8);
  case 4:
    return UINT64_MAX - input_byte();
  case 5:
    return BUSQ_TIMESTAMP_MAX + (uint64_t)(int64_t)(int8_t)input_byte();
  case 6:
    return (now & ~UINT64_C(0xff)) | input_byte();
  default: {
    /* What stands elsewhere: a reference to another's record, an index of another kind. */
    const busq_pair *cell = choose_cell();
    return play_choose(2) ? cell->lo : cell->hi;
  }
  }
}

static patch choose_patch(void)
{
  patch p = {.at = play_bus->base};
  uint64_t now = 0;
  choose_place(&p);
  memcpy(&now, p.at, p.bytes);
  p.value = choose_value(now);
  return p;
}

static void patch_apply(const patch *p)
{
  memcpy(p->at, &p->value, p->bytes);
}

static void late_patch_step(void)
{
  if (late_patch_steps && !--late_patch_steps)
    patch_apply(&late_patch);
}

/* ---- one execution ---- */

enum {
  TURNS_MAX = 64
};

/* The rest of the input, as turns: a word that changes, now or in the middle of the next operation, or an operation. */
static void world_run(void)
{
  for (int turn = 0; turn < TURNS_MAX && input_at < input_end; turn++) {
    const uint32_t word = input_byte();
    if (word % 4 == 0) {
      const patch now = choose_patch();
      patch_apply(&now);
    } else if (word % 16 == 1) {
      late_patch_steps = input_steps();
      late_patch = choose_patch();
    } else {
      const uint32_t operation = input_byte();
      fuzz_play(word >> 2, operation, word >= 128 ? input_steps() : 0, word >= 192);
      late_patch_steps = 0;
    }
  }
}

/* Plays the turns of an input on a segment, and then the end of all. */
static void world_play(void)
{
  static uint32_t executions;
  world_enter();
  world_run();
  world_leave();
  late_patch_steps = 0;
  if (++executions % 1024 == 0)
    world_sweep(false);
}

#endif /* BUSQ_TESTS_FUZZ_WORLD_H */
