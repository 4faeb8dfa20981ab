/* SPDX-License-Identifier: Apache-2.0 */
/* Members of every order in one process, with many threads each: for sanitizers, which see all of them. */
#include "harness/company.h"
#include "harness/test.h"
#include "order/order.h"
#include <pthread.h>

enum { MEMBERS = 3, SENDERS = 2, SENDS = 60, ALL = MEMBERS * SENDERS * SENDS };

typedef struct {
  busq_live *live;
  uint32_t number;
  uint64_t names[ALL]; /* of the multicasts, as they were received */
  uint32_t n_received;
} member;

static member members[MEMBERS];
static uint64_t shuffle_ns;

static void assemble(const char *order, uint32_t capacity)
{
  company_order = order;
  meet(MEMBERS, capacity, 65536);
  const char *const names[MEMBERS] = {"a", "b", "c"};
  const busq_live_options options = {.shuffle_ns = shuffle_ns, .shuffle_seed = 7};
  memset(members, 0, sizeof members);
  for (uint32_t i = 0; i < MEMBERS; i++) {
    members[i].number = i;
    if (busq_live_join(company_bus, names[i], 1, &options, &members[i].live) != BUSQ_OK)
      check_fail(__FILE__, __LINE__, "%s", busq_error_text());
  }
}

static void dissolve(void)
{
  for (uint32_t i = 0; i < MEMBERS; i++)
    busq_live_free(members[i].live);
  part();
}

static int send_to_all(member *from, const char *text)
{
  const uint32_t to[MEMBERS] = {0, 1, 2};
  busq_live_ticket ticket;
  int result;
  do
    result = busq_live_send(from->live, to, MEMBERS, text, strlen(text), -1, &ticket);
  while (result == BUSQ_INTERRUPTED);
  while (result == BUSQ_OK && (result = busq_live_finish(from->live, &ticket, -1)) == BUSQ_INTERRUPTED)
    result = BUSQ_OK;
  return result;
}

static void *send_main(void *argument)
{
  member *self = argument;
  for (int i = 0; i < SENDS; i++)
    if (send_to_all(self, "a message of some length") != BUSQ_OK)
      check_fail(__FILE__, __LINE__, "%s", busq_error_text());
  return NULL;
}

static void *receive_main(void *argument)
{
  member *self = argument;
  while (self->n_received < ALL) {
    busq_live_message found[8];
    uint32_t count;
    const int result = busq_live_recv(self->live, found, 8, &count, COMPANY_PATIENCE_NS);
    if (result != BUSQ_OK && result != BUSQ_INTERRUPTED)
      check_fail(__FILE__, __LINE__, "receiving ended with %d after %u: %s", result, self->n_received, busq_error_text());
    for (uint32_t i = 0; i < count; i++) {
      CHECK(found[i].size_bytes == 24 && memcmp(found[i].data, "a message of some length", 24) == 0);
      self->names[self->n_received++] = found[i].multicast;
      busq_live_release(&found[i]);
    }
  }
  return NULL;
}

static int compare_names(const void *a, const void *b)
{
  const uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
  return left < right ? -1 : left > right;
}

static void check_received(const busq_order *order)
{
  for (uint32_t i = 1; i < MEMBERS && (order->claims & BUSQ_CLAIMS_TOTAL); i++)
    CHECK(memcmp(members[i].names, members[0].names, sizeof members[0].names) == 0);
  for (uint32_t i = 0; i < MEMBERS; i++) {
    qsort(members[i].names, ALL, sizeof members[i].names[0], compare_names);
    for (uint32_t place = 0; place < ALL; place++)
      CHECK_EQUAL(members[i].names[place], busq_message_name(place / (SENDERS * SENDS), place % (SENDERS * SENDS) + 1));
  }
}

static void run_order(const busq_order *order)
{
  pthread_t threads[MEMBERS][SENDERS + 1];
  assemble(order->name, 16);
  for (uint32_t i = 0; i < MEMBERS; i++)
    CHECK(busq_live_assemble(members[i].live, COMPANY_PATIENCE_NS) == BUSQ_OK);
  for (uint32_t i = 0; i < MEMBERS; i++)
    for (uint32_t t = 0; t <= SENDERS; t++)
      CHECK(pthread_create(&threads[i][t], NULL, t ? send_main : receive_main, &members[i]) == 0);
  for (uint32_t i = 0; i < MEMBERS; i++)
    for (uint32_t t = 0; t <= SENDERS; t++)
      pthread_join(threads[i][t], NULL);
  check_received(order);
  dissolve();
}

static bool is_live(const busq_order *order)
{
  return !(order->traits & BUSQ_ORDER_LABORATORY) && strcmp(order->name, "bus1") != 0;
}

TEST(test_everything_arrives_once_between_many_threads_under_every_order)
{
  for (const busq_order *const *order = busq_orders; *order; order++)
    if (is_live(*order))
      run_order(*order);
}

TEST(test_the_same_over_a_network_that_reorders)
{
  shuffle_ns = 300000;
  for (const busq_order *const *order = busq_orders; *order; order++)
    if (is_live(*order))
      run_order(*order);
  shuffle_ns = 0;
}

/* ---- ends ---- */

static void *receive_until_the_end(void *argument)
{
  member *self = argument;
  int result;
  do {
    busq_live_message found;
    uint32_t count;
    result = busq_live_recv(self->live, &found, 1, &count, -1);
    if (result == BUSQ_OK)
      busq_live_release(&found);
  } while (result == BUSQ_OK || result == BUSQ_INTERRUPTED);
  self->n_received = (uint32_t)result;
  return NULL;
}

static void *send_until_the_end(void *argument)
{
  member *self = argument;
  int result;
  do
    result = send_to_all(self, "x");
  while (result == BUSQ_OK);
  self->number = (uint32_t)result;
  return NULL;
}

static void end_in_the_middle(const char *order, bool is_shutdown)
{
  pthread_t threads[MEMBERS][2];
  assemble(order, 4);
  for (uint32_t i = 0; i < MEMBERS; i++) {
    CHECK(pthread_create(&threads[i][0], NULL, receive_until_the_end, &members[i]) == 0);
    CHECK(pthread_create(&threads[i][1], NULL, send_until_the_end, &members[i]) == 0);
  }
  usleep(20000);
  for (uint32_t i = 0; i < MEMBERS && !is_shutdown; i++)
    CHECK(busq_live_close(members[i].live) == BUSQ_OK);
  if (is_shutdown)
    CHECK(busq_bus_shutdown(company_bus) == BUSQ_OK);
  for (uint32_t i = 0; i < MEMBERS; i++) {
    pthread_join(threads[i][0], NULL);
    pthread_join(threads[i][1], NULL);
    CHECK(members[i].n_received == BUSQ_SHUTDOWN || members[i].n_received == BUSQ_CLOSED ||
          members[i].n_received == BUSQ_PEER_DEAD);
    CHECK(members[i].number == BUSQ_SHUTDOWN || members[i].number == BUSQ_CLOSED ||
          members[i].number == BUSQ_PEER_DEAD);
  }
  dissolve();
}

TEST(test_a_shutdown_in_the_middle_ends_every_call)
{
  const char *const orders[] = {"fifo", "skeen", "cykas", "sync", "lamport"};
  for (unsigned i = 0; i < 5; i++)
    end_in_the_middle(orders[i], true);
}

TEST(test_closing_in_the_middle_ends_every_call)
{
  const char *const orders[] = {"fifo", "skeen", "cykas", "sync", "lamport"};
  for (unsigned i = 0; i < 5; i++)
    end_in_the_middle(orders[i], false);
}

/* ---- damage ---- */

TEST(test_packets_that_are_none_are_counted_and_passed_over)
{
  company_order = "skeen";
  meet(2, 16, 65536);
  busq_live *live;
  busq_peer *stranger;
  uint64_t target;
  CHECK(busq_live_join(company_bus, "a", 1, NULL, &live) == BUSQ_OK);
  CHECK(busq_peer_join(company_bus, "b", 1, &stranger) == BUSQ_OK); /* one that does not speak the language */
  CHECK(busq_peer_lookup(stranger, "a", 1, &target) == BUSQ_OK);
  uint64_t state = 1;
  uint32_t n_sent = 0;
  for (; n_sent < 2000; n_sent++) {
    uint8_t packet[96];
    for (unsigned i = 0; i < sizeof packet; i++)
      packet[i] = (uint8_t)((state = state * UINT64_C(6364136223846793005) + 1) >> 60 ? 0xff : state >> 33);
    packet[22] = 0xf0; /* no kind of any order's, nor of the driver's */
    packet[21] = 0xf0;
    CHECK(busq_peer_send(stranger, &target, 1, packet, n_sent % sizeof packet, COMPANY_PATIENCE_NS) == BUSQ_OK);
  }
  busq_live_message found;
  busq_live_facts facts;
  uint32_t count;
  do
    CHECK(busq_live_recv(live, &found, 1, &count, 0) == BUSQ_EMPTY && busq_live_examine(live, &facts) == BUSQ_OK);
  while (facts.malformed < n_sent);
  busq_live_free(live);
  busq_peer_free(stranger);
}
