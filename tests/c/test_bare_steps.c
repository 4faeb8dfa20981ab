/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring gets its memory as messages come (queue/ring.h): what others do while a sender finds none at its next position.
 */
#include "base/atomic.h"
#include "harness/company.h"
#include "harness/test.h"

#define CAPACITY 300 /* a ring of 512 slots; the first page holds half of them */
#define PAGE_SLOTS 256

static busq_peer *alice, *bob, *carol;

static void ends_jobs(const char *where)
{
  uint64_t jobs;
  if (strcmp(where, "bare") != 0)
    return;
  busq_step_hook = NULL;
  CHECK_EQUAL(look_up(carol, "jobs", &jobs), 1);
  CHECK_EQUAL(busq_bus_end_queue(company_bus, jobs, 0), BUSQ_OK);
}

static void takes_the_last_place(const char *where)
{
  if (strcmp(where, "place") != 0)
    return;
  busq_step_hook = NULL;
  said(carol, "jobs", "last");
  busq_step_hook = ends_jobs;
}

/* All but one of the positions with memory are used; alice looks for room, and carol is faster. */
static int send_where_another_is_faster_and_ends(bool is_promised)
{
  company_is_late = 1;
  meet(5, CAPACITY, 1 << 18);
  alice = join("alice");
  if (is_promised)
    busq_peer_send_behind(alice);
  carol = join("carol");
  CHECK_EQUAL(busq_peer_join_as(company_bus, "jobs", 4, BUSQ_JOIN_SHARED, &bob), BUSQ_OK);
  for (int i = 1; i < PAGE_SLOTS; i++) {
    said(carol, "jobs", "x");
    hears(bob, "x");
  }
  busq_step_hook = takes_the_last_place;
  const int result = say(alice, "jobs", "late");
  CHECK(!busq_step_hook); /* it was there */
  return result;
}

static void part_with_bob(void)
{
  CHECK_EQUAL(busq_peer_close(bob), BUSQ_OK);
  busq_peer_free(bob);
  part();
}

TEST(test_a_queue_that_ends_while_a_sender_asks_for_memory_refuses_it)
{
  CHECK_EQUAL(send_where_another_is_faster_and_ends(false), BUSQ_SHUTDOWN);
  hears(bob, "last");
  part_with_bob();
}

TEST(test_what_was_promised_a_place_gets_it_with_memory_behind_the_end)
{
  CHECK_EQUAL(send_where_another_is_faster_and_ends(true), BUSQ_OK);
  hears(bob, "last late");
  part_with_bob();
}
