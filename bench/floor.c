/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What does the machine itself cost?  Three exchanges between two processes that share an anonymous mapping, with
 * nothing that a message bus would need on top: no order, no second receiver, no liveness, no bounds to check.
 *
 *   floor ring    a single-producer single-consumer ring, 64-byte records, each published by itself
 *   floor spin    a ball on one word, both sides spin
 *   floor futex   the same ball, both sides sleep at once
 *
 * Prints one JSON object on one line.  What it does not give: a bound from below for more than two processes.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "machine.h"

#define RING_RECORDS 1024u
#define RECORD_BYTES 64u
#define WARM_ROUNDS 200u
#define SAMPLES_MAX (1u << 20)
#define PAUSES_BEFORE_YIELD 40u

enum { KIND_DATA = 1, KIND_END = 2 };
enum { BALL_LEFT = 0, BALL_RIGHT = 1, BALL_GONE = 2 };

typedef struct {
  uint64_t sequence;
  uint64_t kind;
  unsigned char filler[RECORD_BYTES - 16];
} record;

typedef struct {
  _Alignas(LINE_PAIR_BYTES) _Atomic uint32_t ready;
  _Alignas(LINE_PAIR_BYTES) _Atomic uint64_t tail; /* records published; the producer's word */
  _Alignas(LINE_PAIR_BYTES) _Atomic uint64_t head; /* records taken; the consumer's word */
  _Alignas(LINE_PAIR_BYTES) _Atomic uint32_t ball;
  _Alignas(LINE_PAIR_BYTES) _Atomic uint64_t end_ns;
  _Atomic uint64_t received;
  _Atomic uint64_t wrong;
  _Alignas(LINE_PAIR_BYTES) record records[RING_RECORDS];
} shared_area;

typedef struct {
  const char *test;
  double seconds;
  bool across; /* each process on a core of its own */
} options;

static void relax(void)
{
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

/* One step of waiting: brief pauses, then the core is given away, so that two processes on one core still progress. */
static void wait_step(unsigned *stepsp)
{
  if (*stepsp < PAUSES_BEFORE_YIELD) {
    *stepsp += 1;
    relax();
  } else {
    sched_yield();
  }
}

static void fail(const char *what)
{
  fprintf(stderr, "floor: %s: %s\n", what, strerror(errno));
  exit(1);
}

/* Both sides are awake and have touched the memory before either begins. */
static void meet(shared_area *area)
{
  unsigned steps = 0;

  atomic_fetch_add(&area->ready, 1);
  while (atomic_load(&area->ready) < 2)
    wait_step(&steps);
}

/* ---- the ring ---- */

static void ring_push(shared_area *area, uint64_t tail, uint64_t *headp, const record *r)
{
  unsigned steps = 0;

  /* The consumer's index is looked at only where the last look found the ring full. */
  while (tail - *headp >= RING_RECORDS) {
    *headp = atomic_load_explicit(&area->head, memory_order_acquire); /* SYNC POINT slot free: the copy out is done */
    if (tail - *headp >= RING_RECORDS)
      wait_step(&steps);
  }
  area->records[tail % RING_RECORDS] = *r;
  atomic_store_explicit(&area->tail, tail + 1, memory_order_release); /* SYNC POINT slot full: the copy in is done */
}

static record ring_pop(shared_area *area, uint64_t head, uint64_t *tailp)
{
  unsigned steps = 0;
  record r;

  while (head == *tailp) {
    *tailp = atomic_load_explicit(&area->tail, memory_order_acquire); /* SYNC POINT slot full: the copy in is done */
    if (head == *tailp)
      wait_step(&steps);
  }
  r = area->records[head % RING_RECORDS];
  atomic_store_explicit(&area->head, head + 1, memory_order_release); /* SYNC POINT slot free: the copy out is done */
  return r;
}

static void ring_consume(shared_area *area)
{
  uint64_t head = 0, tail = 0, wrong = 0;
  record r;

  meet(area);
  for (;;) {
    r = ring_pop(area, head, &tail);
    wrong += r.sequence != head;
    if (r.kind != KIND_DATA)
      break;
    ++head;
  }
  atomic_store(&area->received, head);
  atomic_store(&area->wrong, wrong);
  atomic_store(&area->end_ns, machine_now_ns());
}

static int ring_produce(shared_area *area, const options *o, pid_t consumer)
{
  record r = { .kind = KIND_DATA };
  uint64_t start_ns, deadline_ns, tail = 0, head = 0, wrong;
  double seconds;

  meet(area);
  start_ns = machine_now_ns();
  deadline_ns = start_ns + (uint64_t)(o->seconds * 1e9);
  do {
    for (unsigned i = 0; i < RING_RECORDS; ++i) {
      r.sequence = tail;
      ring_push(area, tail++, &head, &r);
    }
  } while (machine_now_ns() < deadline_ns);
  r.kind = KIND_END;
  r.sequence = tail;
  ring_push(area, tail, &head, &r);
  waitpid(consumer, NULL, 0);

  seconds = (double)(atomic_load(&area->end_ns) - start_ns) / 1e9;
  wrong = atomic_load(&area->wrong) + (atomic_load(&area->received) != tail);
  printf("{\"test\": \"ring\", \"size_bytes\": %u, \"messages\": %llu, \"wrong\": %llu, \"seconds\": %.6f, "
         "\"rate_per_s\": %.1f}\n",
         RECORD_BYTES, (unsigned long long)tail, (unsigned long long)wrong, seconds, (double)tail / seconds);
  return wrong ? 1 : 0;
}

/* ---- the ball ---- */

static void futex_call(_Atomic uint32_t *word, int operation, uint32_t value)
{
  syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

/* Waits until the ball has left the other side; returns where it is. */
static uint32_t ball_await(shared_area *area, uint32_t other_side, bool sleeps)
{
  uint32_t ball;

  while ((ball = atomic_load_explicit(&area->ball, memory_order_acquire)) == other_side) {
    if (sleeps)
      futex_call(&area->ball, FUTEX_WAIT, other_side);
    else
      relax();
  }
  return ball;
}

static void ball_throw(shared_area *area, uint32_t to, bool sleeps)
{
  atomic_store_explicit(&area->ball, to, memory_order_release);
  if (sleeps)
    futex_call(&area->ball, FUTEX_WAKE, 1);
}

static void ball_return(shared_area *area, bool sleeps)
{
  meet(area);
  while (ball_await(area, BALL_LEFT, sleeps) != BALL_GONE)
    ball_throw(area, BALL_LEFT, sleeps);
}

static uint32_t ball_serve(shared_area *area, const options *o, bool sleeps, uint32_t *samples_ns)
{
  uint64_t before_ns, after_ns, deadline_ns;
  uint32_t n_samples = 0;

  meet(area);
  for (unsigned i = 0; i < WARM_ROUNDS; ++i) {
    ball_throw(area, BALL_RIGHT, sleeps);
    ball_await(area, BALL_RIGHT, sleeps);
  }
  before_ns = machine_now_ns();
  deadline_ns = before_ns + (uint64_t)(o->seconds * 1e9);
  while (before_ns < deadline_ns && n_samples < SAMPLES_MAX) {
    ball_throw(area, BALL_RIGHT, sleeps);
    ball_await(area, BALL_RIGHT, sleeps);
    after_ns = machine_now_ns();
    samples_ns[n_samples++] = (uint32_t)(after_ns - before_ns);
    before_ns = after_ns;
  }
  ball_throw(area, BALL_GONE, sleeps);
  return n_samples;
}

static int compare_samples(const void *a, const void *b)
{
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

  return (x > y) - (x < y);
}

static double sample_at_us(const uint32_t *sorted_ns, uint32_t n_samples, double share)
{
  return (double)sorted_ns[(uint32_t)(share * (double)(n_samples - 1))] / 1e3;
}

static int ball_print(const options *o, uint32_t *samples_ns, uint32_t n_samples)
{
  if (n_samples == 0) {
    fprintf(stderr, "floor: not one round in %.3f s\n", o->seconds);
    return 1;
  }
  qsort(samples_ns, n_samples, sizeof(*samples_ns), compare_samples);
  printf("{\"test\": \"%s\", \"across\": %s, \"rounds\": %u, \"rtt_us_min\": %.3f, \"rtt_us_p50\": %.3f, "
         "\"rtt_us_p99\": %.3f, \"rtt_us_p999\": %.3f}\n",
         o->test, o->across ? "true" : "false", n_samples, sample_at_us(samples_ns, n_samples, 0.0),
         sample_at_us(samples_ns, n_samples, 0.5), sample_at_us(samples_ns, n_samples, 0.99),
         sample_at_us(samples_ns, n_samples, 0.999));
  return 0;
}

/* ---- the command ---- */

static int run(shared_area *area, const options *o)
{
  bool is_ring = !strcmp(o->test, "ring"), sleeps = !strcmp(o->test, "futex");
  uint32_t *samples_ns, n_samples;
  pid_t other;
  int r;

  other = fork();
  if (other < 0)
    fail("fork");
  if (o->across && machine_pin(other ? 0 : 1) < 0)
    fail("no core of its own");
  if (other == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* no child is left spinning */
    if (is_ring)
      ring_consume(area);
    else
      ball_return(area, sleeps);
    _exit(0);
  }
  if (is_ring)
    return ring_produce(area, o, other);

  samples_ns = malloc(SAMPLES_MAX * sizeof(*samples_ns));
  if (!samples_ns)
    fail("malloc");
  memset(samples_ns, 0, SAMPLES_MAX * sizeof(*samples_ns)); /* no page fault inside a round */
  n_samples = ball_serve(area, o, sleeps, samples_ns);
  waitpid(other, NULL, 0);
  r = ball_print(o, samples_ns, n_samples);
  free(samples_ns);
  return r;
}

static int usage(void)
{
  fprintf(stderr, "usage: floor ring|spin|futex [--seconds S] [--across]\n");
  return 2;
}

int main(int argc, char **argv)
{
  options o = { .seconds = 0.5 };
  shared_area *area;

  if (argc < 2)
    return usage();
  o.test = argv[1];
  if (strcmp(o.test, "ring") && strcmp(o.test, "spin") && strcmp(o.test, "futex"))
    return usage();
  for (int i = 2; i < argc; ++i) {
    if (!strcmp(argv[i], "--across"))
      o.across = true;
    else if (!strcmp(argv[i], "--seconds") && i + 1 < argc)
      o.seconds = strtod(argv[++i], NULL);
    else
      return usage();
  }
  if (!(o.seconds > 0 && o.seconds <= 3600))
    return usage();

  area = mmap(NULL, sizeof(*area), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (area == MAP_FAILED)
    fail("mmap");
  memset(area, 0, sizeof(*area)); /* pages are faulted in before the clock starts */
  return run(area, &o);
}
