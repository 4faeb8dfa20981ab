/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_TESTS_STRIKE_H
#define BUSQ_TESTS_STRIKE_H
/*
 * A child that ends without another instruction, or stops, at its n-th step.
 *
 *      strike_begin(steps, stops, words->struck_at);      in the child: from here on
 *      strike_end();                                      up to here
 *      strike_await(pid, name, steps, stops, struck_at)   in the parent: true once the child is stopped, false once it has ended
 *      strike_go_on(pid)                                  a stopped one comes to its end
 *      strike_everywhere(strike_once, script, stops);     in the parent: for n = 1, 2, 3 and so on, until the child comes through
 *
 * A step is a BUSQ_STEP of the core or, after `--every-access`, an access of shared memory.
 */
#include "base/atomic.h"
#include "harness/company.h"

#ifndef BUSQ_STEPS
#error "this test needs a core built with BUSQ_STEPS"
#endif

#define STRIKE_WHERE_BYTES 32

/* What a child has written before it is struck. */
typedef struct {
  uint32_t is_ready;
  uint32_t may_go_on;
  uint32_t has_survived;
  char struck_at[STRIKE_WHERE_BYTES];
} strike_words;

/* What a child does, and when it is struck. */
typedef struct {
  const void *script;
  uint64_t steps;
  bool stops;
} strike_task;

static uint64_t strike_steps_left;
static bool strike_stops; /* instead of ending */
static bool strike_is_every_access;
static char *strike_where; /* [STRIKE_WHERE_BYTES] shared with the parent: empty unless the child was struck */

/* First thing in main. */
__attribute__((unused)) static void strike_options(int n_arguments, char **arguments)
{
  check_begin();
  strike_is_every_access = n_arguments > 1 && strcmp(arguments[1], "--every-access") == 0;
}

static void strike_end(void)
{
  busq_step_hook = NULL;
  busq_access_hook = NULL;
}

static void strike_step(const char *where)
{
  if (--strike_steps_left)
    return;
  snprintf(strike_where, STRIKE_WHERE_BYTES, "%s", where);
  if (!strike_stops)
    _exit(0);
  strike_end();
  raise(SIGSTOP);
}

static void strike_access(busq_access access, const volatile void *address, size_t bytes)
{
  (void)access;
  (void)address;
  (void)bytes;
  strike_step("access");
}

static void strike_begin(uint64_t steps, bool stops, char *where)
{
  strike_steps_left = steps;
  strike_stops = stops;
  strike_where = where;
  busq_step_hook = strike_step;
  busq_access_hook = strike_is_every_access ? strike_access : NULL;
}

/* Failures name the scene from here on. */
__attribute__((unused)) static void strike_scene(const char *name, uint64_t steps, bool stops, const char *struck_at)
{
  static char scene[160];
  snprintf(scene, sizeof scene, "%s, %s at step %" PRIu64 " (%s)", name, stops ? "stopped" : "dead", steps, struck_at);
  check_test = scene;
}

/* Waits until the child has ended, well, or is stopped. */
__attribute__((unused)) static bool strike_await(pid_t pid, const char *name, uint64_t steps, bool stops, const char *struck_at)
{
  siginfo_t found = {0};
  CHECK_EQUAL(waitid(P_PID, (id_t)pid, &found, WSTOPPED | WEXITED | WNOWAIT), 0);
  strike_scene(name, steps, stops, struck_at);
  if (found.si_code == CLD_STOPPED)
    return true;
  ends_well(pid);
  return false;
}

__attribute__((unused)) static void strike_go_on(pid_t pid)
{
  CHECK_EQUAL(kill(pid, SIGCONT), 0);
  ends_well(pid);
}

/* How many steps it has.  `once` gets the script, the step, and whether it stops there; true where the child came
 * through. */
__attribute__((unused)) static uint64_t strike_everywhere(bool (*once)(const void *script, uint64_t steps, bool stops),
                                                          const void *script, bool stops)
{
  uint64_t steps = 1;
  do
    alarm(CHECK_SECONDS_MAX);
  while (!once(script, steps, stops) && ++steps);
  CHECK(steps > 1);
  return steps - 1;
}

__attribute__((unused)) static void strike_tell_deaths(const char *name, bool (*once)(const void *script, uint64_t steps, bool stops),
                                                       const void *script)
{
  printf("ok  %s: died at each of %" PRIu64 " steps\n", name, strike_everywhere(once, script, false));
  fflush(stdout);
}

__attribute__((unused)) static void strike_tell(const char *name, bool (*once)(const void *script, uint64_t steps, bool stops),
                                                const void *script)
{
  const uint64_t n_deaths = strike_everywhere(once, script, false), n_stops = strike_everywhere(once, script, true);
  printf("ok  %s: died at each of %" PRIu64 " steps, stopped at each of %" PRIu64 "\n", name, n_deaths, n_stops);
  fflush(stdout);
}

#endif /* BUSQ_TESTS_STRIKE_H */
