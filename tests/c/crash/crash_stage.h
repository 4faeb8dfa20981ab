/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_TESTS_CRASH_STAGE_H
#define BUSQ_TESTS_CRASH_STAGE_H
/*
 * The stage: real processes that follow scripts, each with its own mapping of the bus, and a ledger of each outside
 * of it.
 *
 * Guarantee: what a process has begun, sent and heard stands in its ledger however the process ended; the ledger is
 * written before and after every call, in memory that the bus knows nothing of and that outlives its writers.
 *
 * Mechanism.  An actor is a forked process that waits for a script, follows it and answers.  A script is text:
 * sentences with semicolons between them (crash_actor.h).  A "!" is where the actor reports that it is ready, waits for
 * its cue, and from where on the points of crash_points.h are counted: at the one that its box names it kills or stops
 * itself.
 *
 * Not given: a ledger's last line, where its writer was killed between the return of a call and writing it.
 */
#include "base/atomic.h"
#include "base/time.h"
#include "busq.h"
#include "crash/crash_points.h"
#include "harness/check.h"
#include "shm/memory/peer.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#ifndef BUSQ_STEPS
#error "this needs a core built with BUSQ_STEPS"
#endif

/* ---- the players ---- */

typedef enum {
  ROLE_VICTIM,
  ROLE_BOB,
  ROLE_CAROL,
  ROLE_DAN,
  ROLE_NEXT, /* joins under the victim's name after it */
  ROLE_PRIOR, /* has died or stopped before the victim acts */
  ROLE_SECOND,
  ROLE_THIRD, /* bury the victim, and die of it */
  ROLES
} crash_role;

static const char *const role_names[ROLES] = {"victim", "bob", "carol", "dan", "victim", "prior", "second", "third"};
static const char *const role_titles[ROLES] = {"victim", "bob", "carol", "dan", "next", "prior", "second", "third"};

#define STAGE_PEERS 8u
#define STAGE_CAPACITY 8u
#define STAGE_ARENA_BYTES (UINT64_C(32) << 10)
#define STAGE_SMALL_BYTES 16u
#define STAGE_LARGE_BYTES 9000u  /* three extents */
#define STAGE_HUGE_BYTES 40000u  /* more than the arena, on a bus that takes those */
#define STAGE_MIDDLE_BYTES 1800u /* two to an extent */
#define STAGE_EVENTS_MAX 384u
#define STAGE_HELD_MAX 8u
#define WAIT_NS INT64_C(20000000)
#define PRESS_NS INT64_C(2000000)
#define SLICE_NS INT64_C(5000000)
#define EVENT_TARGETS_MAX 5u

/* ---- ledgers ---- */

typedef enum {
  EVENT_SENDING,
  EVENT_SENT,
  EVENT_HEARD,
  EVENT_ACKED,
  EVENT_LISTENS, /* from here on it would take what there is */
  EVENT_CALL     /* any other call, from begin to end */
} crash_event_kind;

typedef struct {
  uint8_t kind;
  uint8_t result;
  bool is_redelivered;
  uint8_t n_targets;
  uint32_t message;
  const char *verb;
  uint64_t begin_ns;
  uint64_t end_ns;
  uint64_t targets[EVENT_TARGETS_MAX];
} crash_event;

typedef enum {
  FATE_NONE,
  FATE_KILL,
  FATE_STOP
} crash_fate;

/* One actor's part of the memory that the stage and its actors share, beside the bus. */
typedef struct {
  uint32_t asked;    /* scripts given */
  uint32_t answered; /* scripts followed to the end */
  uint32_t ready;
  uint32_t go;
  uint32_t result;   /* of the last sentence */
  uint32_t open_descriptors;
  int64_t patience_ns;
  uint64_t target; /* own, while joined; of the queue that it shares */
  uint64_t point;  /* the access before which it meets its fate; counted from 1 */
  uint64_t accesses;
  crash_fate fate;
  points_kind kind;
  uint32_t n_events;
  bool has_joined;
  bool is_reader; /* one of several, of a shared queue */
  bool has_victims_name;
  bool is_taking; /* between taking a message, at most once, and writing that down */
  char script[256];
  char where[96];
  char complaint[160];
  crash_event events[STAGE_EVENTS_MAX];
} crash_box;

typedef struct {
  char directory[256];
  uint64_t refused_bytes; /* by the file system */
  crash_box boxes[ROLES];
} crash_shared;

static crash_shared *stage; /* of this lane */

/* ---- waiting across processes ---- */

static void stage_wake(uint32_t *word)
{
  syscall(SYS_futex, word, FUTEX_WAKE, 16, NULL, NULL, 0);
}

/* False after the limit. */
static bool stage_wait(uint32_t *word, uint32_t at_least, int64_t limit_ns)
{
  const uint64_t end_ns = busq_time_now_ns() + (uint64_t)limit_ns;
  for (;;) {
    const uint32_t seen = busq_load_acquire(word);
    if (seen >= at_least)
      return true;
    const uint64_t now_ns = busq_time_now_ns();
    if (now_ns >= end_ns)
      return false;
    const struct timespec left = {(time_t)((end_ns - now_ns) / 1000000000u), (long)((end_ns - now_ns) % 1000000000u)};
    syscall(SYS_futex, word, FUTEX_WAIT, seen, &left, NULL, 0);
  }
}

/* ---- the actor's side ---- */

typedef struct {
  crash_role role;
  crash_box *box;
  busq_bus *bus;
  busq_peer *peer;
  uint64_t met[ROLES];
  bool has_met[ROLES];
  busq_message held[STAGE_HELD_MAX];
  bool is_offered[STAGE_HELD_MAX]; /* to be acknowledged */
  uint32_t held_number[STAGE_HELD_MAX];
  uint32_t n_held;
  busq_message drafts[STAGE_HELD_MAX];
  uint32_t n_drafts;
  bool is_dispatching; /* what is sent is the last of them */
  busq_peer *replies;  /* NULL until it asks */
  bool is_asking;      /* what is sent is a request */
  uint64_t asked_number;
  bool awaits;         /* the reply to the last of them */
  uint32_t asked;      /* its number as a message */
  uint64_t asked_target;
  uint64_t asked_began;
  uint32_t n_sent;
  uint32_t bytes; /* of the next message */
  uint32_t id;    /* of the next message; 0: the next of its own */
} crash_actor;

static crash_actor actor;

static void actor_meets_fate(const char *where)
{
  crash_box *box = actor.box;
  if (++box->accesses != box->point)
    return;
  snprintf(box->where, sizeof box->where, "%s", where);
  kill(getpid(), box->fate == FATE_KILL ? SIGKILL : SIGSTOP);
}

static void actor_complains(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void actor_complains(const char *format, ...)
{
  va_list arguments;
  if (actor.box->complaint[0])
    return;
  va_start(arguments, format);
  vsnprintf(actor.box->complaint, sizeof actor.box->complaint, format, arguments);
  va_end(arguments);
}

static void ledger_add(crash_event event)
{
  crash_box *box = actor.box;
  const uint32_t at = busq_load_relaxed(&box->n_events);
  if (at == STAGE_EVENTS_MAX) {
    actor_complains("the ledger is full");
    return;
  }
  box->events[at] = event;
  busq_store_release(&box->n_events, at + 1);
}

static int64_t left_until(uint64_t deadline_ns)
{
  const uint64_t now_ns = busq_time_now_ns();
  return now_ns < deadline_ns ? (int64_t)(deadline_ns - now_ns) : 0;
}

/* ---- messages: a number, and a pattern made from it, so that a torn or mixed payload shows ---- */

static unsigned char pattern_byte(uint32_t message, uint32_t at)
{
  return (unsigned char)((message * 131u) ^ (at * 7u) ^ (at >> 8));
}

static void message_fill(unsigned char *bytes, uint32_t count, uint32_t message)
{
  memcpy(bytes, &message, sizeof message);
  for (uint32_t i = sizeof message; i < count; i++)
    bytes[i] = pattern_byte(message, i);
}

static uint32_t message_read(const unsigned char *bytes, uint64_t count)
{
  uint32_t message = 0;
  if (count < sizeof message) {
    actor_complains("a message of %" PRIu64 " bytes", count);
    return 0;
  }
  memcpy(&message, bytes, sizeof message);
  for (uint32_t i = sizeof message; i < count; i++)
    if (bytes[i] != pattern_byte(message, i)) {
      actor_complains("message %u is damaged at byte %u of %" PRIu64, message, i, count);
      break;
    }
  return message;
}

#endif /* BUSQ_TESTS_CRASH_STAGE_H */
