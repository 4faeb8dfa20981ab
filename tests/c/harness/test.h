/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_TESTS_TEST_H
#define BUSQ_TESTS_TEST_H
/*
 * A program of tests: each TEST() of its file, in their order.
 *
 *     TEST(test_that_one_is_one)
 *     {
 *       CHECK_EQUAL(1, 1);
 *     }
 */
#include "harness/check.h"

typedef struct test {
  const char *name;
  void (*run)(void);
  struct test *next;
} test;

static test *tests_first, **tests_end = &tests_first;
__attribute__((unused)) static uint64_t test_seed; /* for what is random: see check_seed */

#define TEST(function)                                                  \
  static void function(void);                                           \
  __attribute__((constructor)) static void list_##function(void)        \
  {                                                                     \
    static test listed = {.name = #function, .run = function};          \
    *tests_end = &listed;                                               \
    tests_end = &listed.next;                                           \
  }                                                                     \
  static void function(void)

int main(int n_arguments, char **arguments)
{
  check_begin();
  test_seed = check_seed(n_arguments, arguments);
  for (const test *one = tests_first; one; one = one->next)
    check_run(one->name, one->run);
  return 0;
}

#endif /* BUSQ_TESTS_TEST_H */
