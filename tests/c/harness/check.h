/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_TESTS_CHECK_H
#define BUSQ_TESTS_CHECK_H
/*
 * What a C test needs: conditions that are always checked, whatever NDEBUG is, and one printed line per test.
 *
 * A condition that does not hold prints itself, where it stands and which test it belongs to, and ends the process with
 * 1; so does a test that takes longer than CHECK_SECONDS_MAX.  A test that must clean up registers with atexit().
 */
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef CHECK_SECONDS_MAX
#define CHECK_SECONDS_MAX 600u
#endif

static const char *check_test = "before the first test";
static void (*check_on_timeout)(void); /* async-signal-safe */
static void (*check_after)(void);      /* a test that held */

__attribute__((noreturn, format(printf, 3, 4), unused)) static void check_fail(const char *file, int line,
                                                                               const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "%s:%d: in %s: ", file, line, check_test);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  exit(1);
}

#define CHECK(condition)                                           \
  do {                                                             \
    if (!(condition))                                              \
      check_fail(__FILE__, __LINE__, "not true: %s", #condition);  \
  } while (0)

/* Two numbers; prints both. */
#define CHECK_EQUAL(found, expected)                                                                               \
  do {                                                                                                             \
    const uint64_t check_found = (uint64_t)(found), check_expected = (uint64_t)(expected);                         \
    if (check_found != check_expected)                                                                             \
      check_fail(__FILE__, __LINE__, "%s is %" PRIu64 ", expected %s, which is %" PRIu64, #found, check_found,     \
                 #expected, check_expected);                                                                       \
  } while (0)

#define CHECK_TEXT(found, expected)                                                                            \
  do {                                                                                                         \
    const char *const check_found = (found), *const check_expected = (expected);                               \
    if (strcmp(check_found, check_expected) != 0)                                                              \
      check_fail(__FILE__, __LINE__, "%s is \"%s\", expected \"%s\"", #found, check_found, check_expected);    \
  } while (0)

static inline const char *check_spaced(const char *name)
{
  static char text[160];
  snprintf(text, sizeof text, "%s", strncmp(name, "test_", 5) == 0 ? name + 5 : name);
  for (char *c = text; *c; c++)
    if (*c == '_')
      *c = ' ';
  return text;
}

/* Runs one test and prints what it has shown. */
static inline void check_run(const char *name, void (*run)(void))
{
  check_test = name;
  run();
  if (check_after)
    check_after();
  printf("ok  %s\n", check_spaced(name));
  fflush(stdout);
}

static inline void check_timeout(int number)
{
  static const char message[] = "a test takes too long: stuck?\n";
  (void)number;
  (void)!write(STDERR_FILENO, message, sizeof message - 1);
  (void)!write(STDERR_FILENO, check_test, strlen(check_test));
  (void)!write(STDERR_FILENO, "\n", 1);
  if (check_on_timeout)
    check_on_timeout();
  _exit(1);
}

/* First thing in main. */
static inline void check_begin(void)
{
  signal(SIGALRM, check_timeout);
  alarm(CHECK_SECONDS_MAX);
}

/* ---- chance, from a seed that is printed and can be given again ---- */

typedef struct {
  uint64_t state;
} check_chance;

static inline uint64_t check_next(check_chance *chance)
{
  uint64_t x = chance->state += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

/* 0 .. below - 1 */
static inline uint64_t check_below(check_chance *chance, uint64_t below)
{
  return check_next(chance) % below;
}

/* From the first argument, from BUSQ_SEED, or from the time. */
static inline uint64_t check_seed(int n_arguments, char **arguments)
{
  const char *text = n_arguments > 1 ? arguments[1] : getenv("BUSQ_SEED");
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  const uint64_t seed = text ? strtoull(text, NULL, 0) : (uint64_t)now.tv_sec ^ (uint64_t)now.tv_nsec << 20;
  printf("seed %" PRIu64 "\n", seed);
  fflush(stdout);
  return seed;
}

/* Slow machinery (a sanitizer, valgrind, an emulator) takes a smaller part of the randomised work:
 * BUSQ_TEST_SHARE=10 is a tenth. */
static inline uint64_t check_share(uint64_t count)
{
  const char *text = getenv("BUSQ_TEST_SHARE");
  const uint64_t share = text ? strtoull(text, NULL, 0) : 1;
  return share > 1 ? (count + share - 1) / share : count;
}

#endif /* BUSQ_TESTS_CHECK_H */
