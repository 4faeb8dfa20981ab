/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer sleeps deeply behind a descriptor for as long as its queue is empty; and yet no death keeps it asleep.
 *
 * A child sends, or shuts the bus down, and ends without another instruction at its n-th BUSQ_STEP, for n = 1, 2, 3 and
 * so on until it comes through alive.  The receivers sleep in poll() without a timeout, and the timer behind the
 * descriptor, where it is armed for an empty queue, comes in an hour: a peer that is not woken sleeps on, and the test
 * comes to its time limit.
 */
#include "harness/strike.h"
#include "harness/test.h"
#include "shm/memory/peer.h"
#include "shm/wake/wake.h"
#include <poll.h>

#define PEERS 4
#define HOUR_NS UINT64_C(3600000000000)

typedef struct {
  const char *name;
  void (*act)(busq_peer *victim);
  bool is_stale;
} script;

static strike_words *words;

static void act_unicast(busq_peer *victim)
{
  said(victim, "bob", "v");
}

static void act_multicast(busq_peer *victim)
{
  said(victim, "bob carol", "v");
}

static void act_shutdown(busq_peer *victim)
{
  (void)victim;
  CHECK_EQUAL(busq_bus_shutdown(company_bus), BUSQ_OK);
}

static void victim_body(void *argument)
{
  const strike_task *self = argument;
  const script *s = self->script;
  CHECK(!s->is_stale || setenv("BUSQ_STALE_PROPOSALS", "1", 1) == 0);
  arrive();
  busq_peer *victim = join("victim");
  tell(&words->is_ready);
  wait_for(&words->may_go_on, 1);
  strike_begin(self->steps, false, words->struck_at);
  s->act(victim);
  words->has_survived = 1;
}

/* Behind its descriptor, with a timer that is of no use where the queue is empty. */
static int falls_asleep(busq_peer *peer)
{
  int fd;
  busq_message message;
  CHECK_EQUAL(busq_peer_fileno(peer, &fd), BUSQ_OK);
  peer->descriptor.naps = BUSQ_NAPS;
  peer->descriptor.net_ns = HOUR_NS;
  peer->descriptor.timer_due_ns = 0;
  const uint64_t before_ns = busq_time_now_ns();
  CHECK_EQUAL(take_now(peer, &message), BUSQ_EMPTY);
  CHECK(busq_load_acquire(&peer->self->wake_flags) & BUSQ_WAKE_DEEP);
  CHECK(peer->descriptor.timer_due_ns >= before_ns + BUSQ_NET_NS); /* the most that there is */
  return fd;
}

static bool has_something(const busq_peer *peer)
{
  busq_peer_facts facts;
  CHECK_EQUAL(busq_bus_examine_peer(company_bus, peer->slot, &facts), BUSQ_OK);
  return facts.depth != 0;
}

/* Receives when the descriptor is readable; the letter that came, or '\0'. */
static char wakes_once(busq_peer *peer, int fd)
{
  busq_message message;
  CHECK_EQUAL(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, -1), 1);
  const int result = take_now(peer, &message);
  CHECK(result == BUSQ_OK || result == BUSQ_EMPTY);
  const char letter = result == BUSQ_OK ? *(const char *)message.data : '\0';
  if (result == BUSQ_OK)
    busq_peer_release(peer, &message);
  return letter;
}

/* Each committed message comes without any help: the descriptor is readable, or the timer makes it so until the
 * queue is at its end.  What was not stays until another peer sends something; and does not keep that. */
static void hears_all(busq_peer *peer, int fd, busq_peer *dave)
{
  if (poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0) == 1)
    while (has_something(peer))
      (void)wakes_once(peer, fd);
  said(dave, peer->self->name, "x");
  char letter;
  while ((letter = wakes_once(peer, fd)) != 'x')
    CHECK(letter == '\0'); /* else it had been there before, and no peer had announced it */
}

static void hears_of_the_end(busq_peer *peer, int fd)
{
  busq_message message;
  int result;
  do {
    CHECK_EQUAL(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, -1), 1);
    result = take_now(peer, &message);
  } while (result == BUSQ_EMPTY);
  CHECK_EQUAL(result, BUSQ_SHUTDOWN);
}

/* True if the victim came through. */
static bool die(const void *argument, uint64_t steps, bool stops)
{
  const script *s = argument;
  memset(words, 0, sizeof *words);
  meet(PEERS, 8, 1 << 16);
  busq_peer *bob = join("bob"), *carol = join("carol"), *dave = join("dave");
  const pid_t pid = in_a_child(victim_body, &(strike_task){s, steps, stops});
  wait_for(&words->is_ready, 1);
  const int fds[] = {falls_asleep(bob), falls_asleep(carol)};
  tell(&words->may_go_on);
  (void)strike_await(pid, s->name, steps, stops, words->struck_at);
  if (busq_bus_is_shut_down(company_bus)) {
    hears_of_the_end(bob, fds[0]);
    hears_of_the_end(carol, fds[1]);
  } else {
    hears_all(bob, fds[0], dave);
    hears_all(carol, fds[1], dave);
  }
  leave(bob);
  leave(carol);
  leave(dave);
  part();
  return words->has_survived;
}

/* A message ends the deep sleep, and the next one is none before the receiver has waited again. */
TEST(test_who_receives_sleeps_lightly)
{
  meet(PEERS, 8, 1 << 16);
  busq_peer *bob = join("bob"), *dave = join("dave");
  const int fd = falls_asleep(bob);
  said(dave, "bob", "x");
  while (wakes_once(bob, fd) != 'x')
    ;
  CHECK_EQUAL(bob->descriptor.naps, 0);
  CHECK(!(busq_load_acquire(&bob->self->wake_flags) & BUSQ_WAKE_DEEP));
  leave(bob);
  leave(dave);
}

/* A sender that was stopped between its byte and its swap, while the first bob slept, goes on while the second does:
 * its swap expects the number of an arming that must not come again. */
TEST(test_the_numbers_of_a_successor_are_others)
{
  meet(PEERS, 8, 1 << 16);
  busq_peer *bob = join("bob");
  (void)falls_asleep(bob);
  const uint32_t slot = bob->slot, first = busq_load_acquire(&bob->self->wake_flags);
  leave(bob);
  busq_peer *next = join("bob");
  (void)falls_asleep(next);
  CHECK_EQUAL(next->slot, slot);
  CHECK(busq_load_acquire(&next->self->wake_flags) != first);
  leave(next);
}

TEST(test_who_listens_is_told_by_one_that_dies_at_any_step)
{
  const script scripts[] = {
      {"a unicast", act_unicast, false},
      {"a multicast", act_multicast, false},
      {"a multicast whose proposal is lost", act_multicast, true},
      {"a shutdown", act_shutdown, false},
  };
  words = shared_memory(sizeof *words);
  for (unsigned i = 0; i < sizeof scripts / sizeof scripts[0]; i++)
    strike_tell_deaths(scripts[i].name, die, &scripts[i]);
}
