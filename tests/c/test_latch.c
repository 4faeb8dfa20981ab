/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A latch with a bias: no thread is inside with another one, before, while and after the bias is taken away.
 *
 * In each of many rounds the owner enters and leaves a new latch without a pause; the others come after a while, of a
 * length that differs each time, and enter as often as it does.  What the latch orders is counted by a load and a
 * store: two that are inside at once lose counts.  A latch without the barrier fails here within a few rounds.
 */
#include "base/latch.h"
#include "harness/test.h"
#include <pthread.h>
#include <sched.h>

#define OTHERS 2u
#define ROUNDS 300u
#define STAYS 400u

typedef struct {
  busq_biased_latch latch;
  uint32_t round; /* that may begin */
  uint32_t n_done;
  uint64_t count; /* under the latch */
  uint64_t twice; /* the same, written last */
} scene;

static void stay(scene *at)
{
  busq_biased_latch_acquire(&at->latch);
  const uint64_t seen = *(volatile uint64_t *)&at->count;
  *(volatile uint64_t *)&at->count = seen + 1;
  CHECK_EQUAL(*(volatile uint64_t *)&at->twice, seen);
  *(volatile uint64_t *)&at->twice = seen + 1;
  busq_biased_latch_release(&at->latch);
}

static void *come_later(void *argument)
{
  scene *at = argument;
  for (uint32_t round = 1; round <= ROUNDS; round++) {
    while (__atomic_load_n(&at->round, __ATOMIC_ACQUIRE) < round)
      sched_yield();
    for (volatile uint32_t wait = 0; wait < round * 7919u % 3001u; wait++)
      continue;
    for (uint32_t i = 0; i < STAYS; i++)
      stay(at);
    (void)__atomic_fetch_add(&at->n_done, 1, __ATOMIC_ACQ_REL);
  }
  return NULL;
}

TEST(test_nobody_is_inside_with_anybody_else)
{
  static scene at;
  pthread_t others[OTHERS];
  for (uint32_t i = 0; i < OTHERS; i++)
    CHECK_EQUAL(pthread_create(&others[i], NULL, come_later, &at), 0);
  for (uint32_t round = 1; round <= ROUNDS; round++) {
    uint64_t own = 0;
    busq_biased_latch_init(&at.latch);
    stay(&at);
    CHECK(at.latch.owner == busq_latch_thread() || at.latch.owner == BUSQ_LATCH_UNBIASED);
    __atomic_store_n(&at.n_done, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&at.round, round, __ATOMIC_RELEASE);
    for (; __atomic_load_n(&at.n_done, __ATOMIC_ACQUIRE) < OTHERS; own++)
      stay(&at);
    CHECK_EQUAL(at.count, own + 1 + OTHERS * STAYS);
    CHECK_EQUAL(at.latch.owner, BUSQ_LATCH_UNBIASED);
    at.count = at.twice = 0;
  }
  for (uint32_t i = 0; i < OTHERS; i++)
    CHECK_EQUAL(pthread_join(others[i], NULL), 0);
}

static void *claim(void *argument)
{
  for (uint32_t i = 0; i < STAYS; i++)
    stay(argument);
  return NULL;
}

TEST(test_many_may_come_first)
{
  for (uint32_t round = 0; round < ROUNDS / 4; round++) {
    scene at = {0};
    pthread_t threads[OTHERS + 1];
    busq_biased_latch_init(&at.latch);
    for (uint32_t i = 0; i <= OTHERS; i++)
      CHECK_EQUAL(pthread_create(&threads[i], NULL, claim, &at), 0);
    for (uint32_t i = 0; i <= OTHERS; i++)
      CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
    CHECK_EQUAL(at.count, (OTHERS + 1) * STAYS);
  }
}
