/* SPDX-License-Identifier: Apache-2.0 */
/* Many that make and open a temporary bus at once (the rest is in tests/core/test_temporary.py).  Queues that hold less. */
#include "harness/company.h"
#include "harness/test.h"
#include <pthread.h>

static const busq_config temporary = {.peers = 4, .capacity = 8, .arena_bytes = 1 << 16, .permissions = 0600, .is_temporary = 1};

static bool is_there(const char *name)
{
  char path[300];
  snprintf(path, sizeof path, "%s/%s", company_directory, name);
  return access(path, F_OK) == 0;
}

/* ---- many at once ---- */

enum { ROUNDS = 2000 };

static void *makes_or_opens(void *unused)
{
  (void)unused;
  for (int i = 0; i < ROUNDS; i++) {
    busq_bus *bus, *again;
    int result = busq_bus_create(company_directory, "held", &temporary, &bus);
    if (result == BUSQ_EXISTS)
      result = busq_bus_open(company_directory, "held", &bus);
    if (result == BUSQ_NOT_FOUND)
      continue;
    CHECK_EQUAL(result, BUSQ_OK);
    /* Each process that has it open has its name, and the same one. */
    uint8_t mine[16], found[16];
    CHECK_EQUAL(busq_bus_open(company_directory, "held", &again), BUSQ_OK);
    busq_bus_generation(bus, mine);
    busq_bus_generation(again, found);
    CHECK_EQUAL(memcmp(mine, found, sizeof mine), 0);
    busq_bus_free(bus);
    busq_bus_free(again);
  }
  return NULL;
}

TEST(test_no_name_is_taken_from_who_has_it_open)
{
  company_find_place();
  pthread_t threads[4];
  for (int i = 0; i < 4; i++)
    CHECK_EQUAL(pthread_create(&threads[i], NULL, makes_or_opens, NULL), 0);
  for (int i = 0; i < 4; i++)
    CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
  CHECK(!is_there("held"));
}

/* ---- queues that hold less ---- */

static void take(busq_peer *peer, uint32_t mode, busq_message *message)
{
  uint32_t count;
  CHECK_EQUAL(busq_peer_recv_as(peer, mode, message, 1, &count, 0), BUSQ_OK);
  CHECK_EQUAL(count, 1);
}

TEST(test_a_queue_may_hold_less_than_others)
{
  meet(4, 8, 1 << 16);
  busq_peer *alice = join("alice"), *bob = join("bob");
  busq_message message;
  uint64_t target, waiting, unfinished;
  CHECK_EQUAL(busq_peer_lookup(alice, "bob", 3, &target), BUSQ_OK);
  CHECK_EQUAL(busq_peer_limit(bob, 3), BUSQ_OK);
  for (int i = 0; i < 3; i++)
    CHECK_EQUAL(busq_peer_send(alice, &target, 1, "x", 1, 0), BUSQ_OK);
  CHECK_EQUAL(busq_peer_send(alice, &target, 1, "x", 1, 0), BUSQ_FULL);
  CHECK_EQUAL(busq_bus_count(company_bus, target, &waiting, &unfinished), BUSQ_OK);
  CHECK_EQUAL(waiting, 3);
  take(bob, BUSQ_TAKE_PINNED, &message);
  busq_peer_release(bob, &message);
  CHECK_EQUAL(busq_peer_send(alice, &target, 1, "x", 1, 0), BUSQ_OK);
  CHECK_EQUAL(busq_peer_limit(bob, 0), BUSQ_OK);
  for (int i = 0; i < 5; i++)
    CHECK_EQUAL(busq_peer_send(alice, &target, 1, "x", 1, 0), BUSQ_OK);
  CHECK_EQUAL(busq_peer_send(alice, &target, 1, "x", 1, 0), BUSQ_FULL);
  /* The next one in the slot begins without a limit. */
  CHECK_EQUAL(busq_peer_limit(bob, 1), BUSQ_OK);
  leave(bob);
  bob = join("bob");
  CHECK_EQUAL(busq_bus_count(company_bus, target, &waiting, &unfinished), BUSQ_PEER_DEAD);
  CHECK_EQUAL(busq_peer_lookup(alice, "bob", 3, &target), BUSQ_OK);
  for (int i = 0; i < 8; i++)
    CHECK_EQUAL(busq_peer_send(alice, &target, 1, "x", 1, 0), BUSQ_OK);
}

TEST(test_what_a_reader_has_in_its_hands_is_counted)
{
  meet(6, 8, 1 << 16);
  busq_peer *alice = join("alice"), *readers[2];
  busq_message message;
  uint64_t target, waiting, unfinished;
  for (int i = 0; i < 2; i++)
    readers[i] = join_as("jobs", BUSQ_JOIN_SHARED);
  CHECK_EQUAL(busq_peer_lookup(alice, "jobs", 4, &target), BUSQ_OK);
  for (int i = 0; i < 4; i++)
    CHECK_EQUAL(busq_peer_send(alice, &target, 1, "x", 1, 0), BUSQ_OK);
  take(readers[0], BUSQ_TAKE_PINNED, &message);
  busq_peer_release(readers[0], &message);
  take(readers[1], BUSQ_TAKE_OFFERED, &message);
  CHECK_EQUAL(busq_bus_count(company_bus, target, &waiting, &unfinished), BUSQ_OK);
  CHECK_EQUAL(waiting, 2);
  CHECK_EQUAL(unfinished, 3);
  CHECK_EQUAL(busq_peer_ack(readers[1], &message), BUSQ_OK);
  CHECK_EQUAL(busq_bus_count(company_bus, target, &waiting, &unfinished), BUSQ_OK);
  CHECK_EQUAL(unfinished, 2);
  for (int i = 0; i < 2; i++)
    busq_peer_free(readers[i]);
}
