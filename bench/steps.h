/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_BENCH_STEPS_H
#define BUSQ_BENCH_STEPS_H
/*
 * How long does it take from one BUSQ_STEP to the next?
 *
 * In a build of the core with BUSQ_TIMES each step calls the hook below, which reads the processor's counter and adds what has
 * passed since the step before.  The counter is read again afterwards, so that this book-keeping is not counted; what the
 * reading itself costs is measured beforehand and taken off.  What a step overlaps with the next one in the processor is lost:
 * the sum is above the time of the same loop without steps, which stands beside it.
 *
 * In a build without BUSQ_TIMES all of this is nothing.
 */
#ifdef BUSQ_TIMES
#include "machine.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define STEPS_MAX 256u
#define STEPS_CALIBRATIONS 1000000u

extern void (*busq_step_hook)(const char *where);

typedef struct {
  const char *from, *to;
  uint64_t ticks, count;
} steps_edge;

static struct {
  steps_edge edges[STEPS_MAX];
  const char *last;
  uint64_t since, began_ticks, began_ns;
  double own_ticks; /* what reading the counter costs */
} steps;

static inline uint64_t steps_now(void)
{
#if defined(__x86_64__)
  uint32_t low, high;
  __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
  return (uint64_t)high << 32 | low;
#else
  uint64_t now;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(now));
  return now;
#endif
}

static steps_edge *steps_find(const char *from, const char *to)
{
  uint32_t i = (uint32_t)(((uintptr_t)from * 31 ^ (uintptr_t)to) >> 2) % STEPS_MAX;
  while (steps.edges[i].to && (steps.edges[i].from != from || steps.edges[i].to != to))
    i = (i + 1) % STEPS_MAX;
  return &steps.edges[i];
}

static void steps_mark(const char *where)
{
  const uint64_t now = steps_now();
  steps_edge *edge = steps_find(steps.last, where);
  edge->from = steps.last;
  edge->to = where;
  edge->ticks += now - steps.since;
  edge->count++;
  steps.last = where;
  steps.since = steps_now();
}

static void steps_begin(void)
{
  static const char here[] = "here";
  steps.last = here;
  steps.since = steps_now();
  for (uint32_t i = 0; i < STEPS_CALIBRATIONS; i++)
    steps_mark(here);
  steps.own_ticks = (double)steps_find(here, here)->ticks / STEPS_CALIBRATIONS;
  memset(steps.edges, 0, sizeof steps.edges);
  steps.began_ns = machine_now_ns();
  steps.began_ticks = steps_now();
  steps.since = steps_now();
  busq_step_hook = steps_mark;
}

/* A line of JSON: how often and how long, in ns for each time. */
static void steps_print(const char *name)
{
  busq_step_hook = NULL;
  const double ns_per_tick =
      (double)(machine_now_ns() - steps.began_ns) / (double)(steps_now() - steps.began_ticks);
  char line[1 << 14];
  int length = snprintf(line, sizeof line, "{\"steps\": \"%s\", \"own_ns\": %.2f, \"edges\": [", name,
                        steps.own_ticks * ns_per_tick);
  const char *separator = "";
  for (uint32_t i = 0; i < STEPS_MAX; i++) {
    const steps_edge *edge = &steps.edges[i];
    if (!edge->to || length > (int)sizeof line - 256)
      continue;
    const double each = (double)edge->ticks / (double)edge->count - steps.own_ticks;
    length += snprintf(line + length, sizeof line - (size_t)length,
                       "%s{\"from\": \"%s\", \"to\": \"%s\", \"count\": %" PRIu64 ", \"ns\": %.2f}", separator,
                       edge->from, edge->to, edge->count, each * ns_per_tick);
    separator = ", ";
  }
  printf("%s]}\n", line);
  fflush(stdout);
}

#else
#define steps_mark(where) ((void)0)
#define steps_begin() ((void)0)
#define steps_print(name) ((void)0)
#endif

#endif /* BUSQ_BENCH_STEPS_H */
