/* SPDX-License-Identifier: Apache-2.0 */
/* The ordered multicast through the public interface, first in one process step by step, then between processes that run.  What a
 * message is, of any size and to any receivers, is in tests/core/test_api.py. */
#include "busq_lab.h"
#include "harness/company.h"
#include "harness/test.h"

/* ---- one process ---- */

/* Two senders, two receivers, all clocks different, receivers named in opposite orders. */
TEST(test_two_senders_two_receivers_in_crossed_orders)
{
  meet(4, 16, 4096);
  busq_peer *a = join("a"), *b = join("b"), *x = join("x"), *y = join("y");
  said(a, "x", "1");
  said(b, "y", "2");
  said(b, "y", "3");
  said(b, "y", "4");
  hears(x, "1");
  hears(y, "2 3 4");
  said(a, "x y", "from-a");
  said(b, "y x", "from-b");
  hears(x, "from-a from-b");
  hears(y, "from-a from-b");
  said(b, "x y", "from-b");
  said(a, "y x", "from-a");
  hears(y, "from-b from-a");
  hears(x, "from-b from-a");
}

/* The news overtakes on its way outside the bus, yet not on the bus. */
TEST(test_an_effect_comes_after_its_cause_even_through_a_side_channel)
{
  meet(4, 8, 4096);
  busq_peer *a = join("a"), *b = join("b"), *c = join("c"), *d = join("d");
  for (int round = 0; round < 100; round++) {
    said(a, "b c", "cause");
    hears(b, "cause");
    said(d, "c", "effect"); /* d learned it from b, but not through the bus */
    hears(c, "cause effect");
  }
}

/* ---- what is refused, is refused before any peer got anything ---- */

TEST(test_one_bad_receiver_and_nobody_gets_the_message)
{
  meet(4, 8, 4096);
  busq_peer *a = join("a"), *b = join("b"), *c = join("c");
  uint64_t targets[3] = {0};
  CHECK_EQUAL(look_up(a, "b c", targets), 2);
  targets[2] = targets[0];
  CHECK_EQUAL(busq_peer_send(a, targets, 3, "x", 1, 0), BUSQ_INVALID);
  CHECK_EQUAL(busq_peer_send(a, targets, 0, "x", 1, 0), BUSQ_INVALID);
  targets[2] = UINT64_C(1) << 16 | 60000;
  CHECK_EQUAL(busq_peer_send(a, targets, 3, "x", 1, 0), BUSQ_INVALID);
  CHECK_EQUAL(say(a, "b nobody", "x"), BUSQ_UNKNOWN_PEER);
  leave(c);
  CHECK_EQUAL(busq_peer_send(a, targets, 2, "x", 1, 0), BUSQ_PEER_DEAD);
  CHECK_EQUAL(busq_peer_failed_target(a), targets[1]);
  CHECK_EQUAL(say(a, "b c", "x"), BUSQ_PEER_DEAD);
  hears(b, "");
  said(a, "b", "y");
  hears(b, "y");
}

TEST(test_a_full_receiver_and_nobody_gets_the_message)
{
  meet(4, 4, 65536);
  busq_peer *a = join("a"), *b = join("b"), *c = join("c");
  for (int i = 0; i < 4; i++)
    said(a, "c", "x");
  CHECK_EQUAL(say(a, "b c", "y"), BUSQ_FULL);
  CHECK_EQUAL(strncmp(busq_error_text(), "the queue of \"c\" on bus", 23), 0);
  CHECK_EQUAL(say(a, "c", "y"), BUSQ_FULL);
  busq_message draft[2];
  CHECK_EQUAL(busq_peer_reserve(a, 65536, 0, 0, &draft[0]), BUSQ_OK);
  CHECK_EQUAL(busq_peer_reserve(a, 65536, 0, 0, &draft[1]), BUSQ_FULL);
  CHECK_EQUAL(strncmp(busq_error_text(), "the memory for messages of bus", 30), 0);
  CHECK_EQUAL(say(a, "c", "y"), BUSQ_FULL);
  CHECK_EQUAL(strncmp(busq_error_text(), "the queue of \"c\" on bus", 23), 0);
  busq_peer_discard(a, &draft[0]);
  uint64_t target;
  CHECK_EQUAL(look_up(a, "c", &target), 1);
  CHECK_EQUAL(busq_peer_failed_target(a), target);
  hears(b, "");
  hears(c, "x x x x");
  said(a, "b c", "y");
  hears(b, "y");
  hears(c, "y");
}

TEST(test_all_sizes_arrive_intact)
{
  meet(3, 8, 1 << 20);
  busq_peer *a = join("a"), *b = join("b"), *c = join("c");
  check_chance chance = {test_seed};
  uint64_t targets[2];
  CHECK_EQUAL(look_up(a, "b c", targets), 2);
  uint8_t *bytes = malloc(1 << 20);
  CHECK(bytes);
  for (uint64_t turn = 0; turn < check_share(2000); turn++) {
    const uint32_t n_targets = 1 + (uint32_t)check_below(&chance, 2);
    const size_t size_bytes = check_below(&chance, UINT64_C(1) << check_below(&chance, 20));
    memset(bytes, (int)turn, size_bytes);
    CHECK_EQUAL(busq_peer_send(a, targets, n_targets, bytes, size_bytes, 0), BUSQ_OK);
    for (uint32_t i = 0; i < n_targets; i++) {
      busq_message message;
      CHECK_EQUAL(take_now(i ? c : b, &message), BUSQ_OK);
      CHECK_EQUAL(message.size_bytes, size_bytes);
      CHECK(size_bytes == 0 || memcmp(message.data, bytes, size_bytes) == 0);
      busq_peer_release(i ? c : b, &message);
    }
  }
  free(bytes);
}

/* ---- lost proposals ---- */

/* Sends many multicasts with every proposal lost on purpose; what is late waits in the heap of its receiver. */
TEST(test_lost_proposals_change_nothing_but_the_way)
{
  CHECK(setenv("BUSQ_STALE_PROPOSALS", "1", 1) == 0);
  meet(4, 64, 65536);
  busq_peer *a = join("a"), *b = join("b"), *x = join("x"), *y = join("y");
  said(a, "x y", "1");
  said(b, "y x", "2");
  said(a, "x", "3");
  said(b, "x y", "4");
  said(a, "y x", "5");
  hears(x, "1 2 3 4 5");
  hears(y, "1 2 4 5");
  busq_peer_facts facts;
  CHECK_EQUAL(busq_bus_examine_peer(company_bus, 0, &facts), BUSQ_OK);
  CHECK_EQUAL(facts.sent, 3);
  CHECK_EQUAL(facts.late, 2);
  CHECK(unsetenv("BUSQ_STALE_PROPOSALS") == 0);
}

/* ---- between processes, some of which are killed ---- */

#define N_RECEIVERS 3
#define N_SENDERS 3
#define N_MURDERS_FOR 40
#define DELIVERIES_MAX (1u << 22)

typedef struct {
  uint64_t id; /* sender's life and the number of its message */
  uint64_t receivers;
} letter;

typedef struct {
  uint32_t ready;
  uint32_t is_over;
  struct {
    uint32_t count;
    letter letters[DELIVERIES_MAX];
  } boxes[N_RECEIVERS];
} post_office;

typedef struct {
  post_office *office;
  uint32_t index;
  uint64_t life;
  uint64_t seed;
} person;

static uint64_t depth_of(uint64_t target)
{
  busq_peer_facts facts;
  CHECK_EQUAL(busq_bus_examine_peer(company_bus, (uint32_t)target & 0xffff, &facts), BUSQ_OK);
  return facts.depth;
}

static void receiver_body(void *argument)
{
  const person *self = argument;
  const char name[] = {'r', (char)('0' + self->index), '\0'};
  uint64_t target;
  arrive();
  busq_peer *peer = join(name);
  CHECK_EQUAL(look_up(peer, name, &target), 1);
  tell(&self->office->ready);
  for (;;) {
    busq_message message;
    uint32_t count;
    const bool is_over = __atomic_load_n(&self->office->is_over, __ATOMIC_ACQUIRE);
    const int result = busq_peer_recv(peer, &message, 1, &count, 2000000);
    /* Not before the queue is empty to its last position: what a killed sender left must not block it for ever. */
    if (is_over && result == BUSQ_EMPTY && depth_of(target) == 0)
      return;
    if (result != BUSQ_OK)
      continue;
    uint32_t *n_letters = &self->office->boxes[self->index].count;
    CHECK_EQUAL(message.size_bytes, sizeof(letter));
    CHECK(*n_letters < DELIVERIES_MAX);
    memcpy(&self->office->boxes[self->index].letters[*n_letters], message.data, sizeof(letter));
    ++*n_letters;
    busq_peer_release(peer, &message);
  }
}

/* Sends for as long as it lives. */
static void sender_body(void *argument)
{
  const person *self = argument;
  char name[32];
  uint64_t targets[N_RECEIVERS];
  check_chance chance = {self->seed ^ self->life << 32};
  arrive();
  snprintf(name, sizeof name, "s%u", self->index);
  busq_peer *peer;
  for (int result; (result = try_join(name, &peer)) != BUSQ_OK;) {
    CHECK_EQUAL(result, BUSQ_NO_SPACE); /* what the last life of this sender has sent must be received first */
    sched_yield();
  }
  CHECK_EQUAL(look_up(peer, "r0 r1 r2", targets), N_RECEIVERS);
  for (uint64_t number = 0;; number++) {
    const letter text = {self->life << 32 | number, 1 + check_below(&chance, (1 << N_RECEIVERS) - 1)};
    uint64_t some[N_RECEIVERS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < N_RECEIVERS; i++)
      if (text.receivers >> i & 1)
        some[count++] = targets[i];
    CHECK_EQUAL(say_patiently(peer, some, count, &text, sizeof text), BUSQ_OK);
  }
}

/* A delivery shows what was sent: each receiver of a letter knows the other ones. */
static void office_judge(const post_office *office, uint64_t *n_deliveriesp)
{
  busq_history *history;
  busq_judgement judgement;
  uint64_t n_deliveries = 0;
  CHECK_EQUAL(busq_history_new(N_RECEIVERS + 1, &history), BUSQ_OK);
  for (uint32_t r = 0; r < N_RECEIVERS; r++) {
    for (uint32_t i = 0; i < office->boxes[r].count; i++) {
      const letter *text = &office->boxes[r].letters[i];
      uint32_t destinations[N_RECEIVERS], count = 0;
      for (uint32_t d = 0; d < N_RECEIVERS; d++)
        if (text->receivers >> d & 1)
          destinations[count++] = d;
      if (destinations[0] == r) /* once per message, if its first receiver got it */
        CHECK_EQUAL(busq_history_send(history, N_RECEIVERS, text->id, destinations, count), BUSQ_OK);
      CHECK_EQUAL(busq_history_deliver(history, r, text->id), BUSQ_OK);
      n_deliveries++;
    }
  }
  const uint32_t asked = 1u << BUSQ_PROPERTY_LOST | 1u << BUSQ_PROPERTY_DUPLICATED | 1u << BUSQ_PROPERTY_PHANTOM |
                         1u << BUSQ_PROPERTY_CONSISTENT | 1u << BUSQ_PROPERTY_TOTAL | 1u << BUSQ_PROPERTY_RESENT;
  CHECK_EQUAL(busq_history_judge(history, asked, &judgement), BUSQ_OK);
  for (int property = 0; property < BUSQ_N_PROPERTIES; property++)
    if (judgement.verdicts[property].count)
      check_fail(__FILE__, __LINE__, "property %d: %" PRIu64 " faults", property, judgement.verdicts[property].count);
  busq_history_free(history);
  *n_deliveriesp = n_deliveries;
}

/* Numbers of one life rise at every receiver: FIFO, seen from its end. */
static void office_is_fifo(const post_office *office, uint64_t n_lives)
{
  uint64_t *last = calloc(n_lives, sizeof *last);
  CHECK(last);
  for (uint32_t r = 0; r < N_RECEIVERS; r++) {
    memset(last, 0, n_lives * sizeof *last);
    for (uint32_t i = 0; i < office->boxes[r].count; i++) {
      const uint64_t id = office->boxes[r].letters[i].id;
      CHECK(id >> 32 < n_lives);
      CHECK(last[id >> 32] < (id & UINT32_MAX) + 1);
      last[id >> 32] = (id & UINT32_MAX) + 1;
    }
  }
  free(last);
}

TEST(test_all_receivers_or_none_when_senders_are_killed_at_any_time)
{
  post_office *office = shared_memory(sizeof *office);
  const uint64_t n_murders = check_share(N_MURDERS_FOR);
  pid_t receivers[N_RECEIVERS], senders[N_SENDERS];
  check_chance chance = {test_seed};
  uint64_t life = 0, n_deliveries;
  meet(N_RECEIVERS + N_SENDERS, 16, 1 << 16);
  for (uint32_t i = 0; i < N_RECEIVERS; i++)
    receivers[i] = in_a_child(receiver_body, &(person){office, i, 0, 0});
  wait_for(&office->ready, N_RECEIVERS);
  for (uint32_t i = 0; i < N_SENDERS; i++)
    senders[i] = in_a_child(sender_body, &(person){office, i, life++, test_seed});
  for (uint64_t i = 0; i < n_murders; i++) {
    const uint32_t victim = (uint32_t)check_below(&chance, N_SENDERS);
    const struct timespec pause = {0, (long)check_below(&chance, 3000000)};
    nanosleep(&pause, NULL);
    murder(senders[victim]);
    senders[victim] = in_a_child(sender_body, &(person){office, victim, life++, test_seed});
  }
  for (uint32_t i = 0; i < N_SENDERS; i++)
    murder(senders[i]);
  __atomic_store_n(&office->is_over, 1, __ATOMIC_RELEASE);
  for (uint32_t i = 0; i < N_RECEIVERS; i++)
    ends_well(receivers[i]);
  office_judge(office, &n_deliveries);
  office_is_fifo(office, life);
  printf("    %" PRIu64 " lives of %d senders, %" PRIu64 " deliveries\n", life, N_SENDERS, n_deliveries);
  CHECK(n_deliveries > 0);
  munmap(office, sizeof *office);
}
