/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Senders sleep in poll() behind their descriptors until there is room, or memory; and no death keeps them asleep.
 *
 * A child receives, leaves, or waits for room beside them, and ends without another instruction at its n-th BUSQ_STEP,
 * for n = 1, 2, 3 and so on until it comes through alive.  They sleep without a timeout: one that is neither woken, nor
 * looks by the timer of its descriptor, sleeps on, and the test comes to its time limit.
 */
#include "harness/strike.h"
#include "harness/test.h"
#include "shm/memory/peer.h"
#include "shm/wake/wake.h"
#include <poll.h>
#include <sys/timerfd.h>

#define PEERS 6
#define CAPACITY 2
#define LARGE_BYTES 20000
#define HOUR_NS UINT64_C(3600000000000)

typedef struct {
  const char *name;
  const char *victim;
  void (*act)(busq_peer *victim);
  bool is_large; /* what is sent: memory is short, not room */
} script;

static strike_words *words;
static char large[LARGE_BYTES];

/* ---- waiting behind a descriptor ---- */

static int asks(busq_peer *peer, const char *to, bool is_large)
{
  uint64_t targets[PEERS];
  uint32_t sent = 0;
  const int count = look_up(peer, to, targets);
  if (count < 0)
    return -count;
  const busq_part part = {large, is_large ? LARGE_BYTES : 1};
  const int result = busq_peer_send_asking(peer, targets, (uint32_t)count, &part, 1, BUSQ_FORM_DATA, &sent);
  CHECK_EQUAL(sent, result == BUSQ_OK);
  return result;
}

/* The descriptor of busq_peer_fileno, which would look whether the timer is set. */
static bool is_readable(const busq_peer *peer)
{
  return poll(&(struct pollfd){.fd = peer->descriptor.poll_fd, .events = POLLIN}, 1, 0) == 1;
}

/* As one that has had nothing to do for long: a timer for messages alone would come in an hour. */
static void listens(busq_peer *peer, uint32_t what)
{
  peer->descriptor.naps = BUSQ_NAPS;
  peer->descriptor.net_ns = HOUR_NS;
  CHECK_EQUAL(busq_peer_listen(peer, what), BUSQ_OK);
}

/* Finds no room, and goes to sleep. */
static void begins_to_wait(busq_peer *peer, const char *to, bool is_large)
{
  listens(peer, BUSQ_LISTEN_NOT);
  CHECK_EQUAL(asks(peer, to, is_large), BUSQ_FULL);
  listens(peer, BUSQ_LISTEN_ROOM);
}

/* Sleeps until it has sent it, or hears that it can't. */
static int waits_on(busq_peer *peer, const char *to, bool is_large)
{
  int result;
  do {
    listens(peer, BUSQ_LISTEN_ROOM);
    CHECK_EQUAL(poll(&(struct pollfd){.fd = peer->descriptor.poll_fd, .events = POLLIN}, 1, -1), 1);
    listens(peer, BUSQ_LISTEN_NOT);
    result = asks(peer, to, is_large);
  } while (result == BUSQ_FULL);
  return result;
}

static void fills(busq_peer *peer, const char *to, bool is_large)
{
  int result;
  do
    result = asks(peer, to, is_large);
  while (result == BUSQ_OK);
  CHECK_EQUAL(result, BUSQ_FULL);
}

/* From here on it is woken by a write to its FIFO, and by nothing else. */
static void stops_its_timer(const busq_peer *peer)
{
  CHECK_EQUAL(timerfd_settime(peer->descriptor.timer_fd, 0, &(struct itimerspec){.it_value = {0, 0}}, NULL), 0);
}

/* ---- the deaths ---- */

static void takes_all(busq_peer *peer)
{
  busq_message message;
  while (take_now(peer, &message) == BUSQ_OK)
    busq_peer_release(peer, &message);
}

static void act_receive(busq_peer *victim)
{
  takes_all(victim);
}

static void act_leave(busq_peer *victim)
{
  CHECK_EQUAL(busq_peer_close(victim), BUSQ_OK);
}

static void act_wait(busq_peer *victim)
{
  begins_to_wait(victim, "bob", false);
}

static void victim_body(void *argument)
{
  const strike_task *self = argument;
  const script *s = self->script;
  arrive();
  busq_peer *victim = join(s->victim);
  tell(&words->is_ready);
  wait_for(&words->may_go_on, 1);
  strike_begin(self->steps, false, words->struck_at);
  s->act(victim);
  strike_end();
  words->has_survived = 1;
  wait_for(&words->may_go_on, 2);
}

/* True if the victim came through. */
static bool die(const void *argument, uint64_t steps, bool stops)
{
  const script *s = argument;
  memset(words, 0, sizeof *words);
  meet(PEERS, s->is_large ? 64 : CAPACITY, 1 << 16);
  const bool is_reader = strcmp(s->victim, "bob") == 0;
  busq_peer *ann = join("ann"), *dave = join("dave"), *bob = is_reader ? NULL : join("bob");
  const pid_t pid = in_a_child(victim_body, &(strike_task){s, steps, stops});
  wait_for(&words->is_ready, 1);
  fills(ann, "bob", s->is_large);
  begins_to_wait(ann, "bob", s->is_large);
  if (!s->is_large)
    begins_to_wait(dave, "bob", false);
  tell(&words->may_go_on);
  if (bob) {
    const struct timespec pause = {0, 2000000};
    nanosleep(&pause, NULL);
    takes_all(bob);
  }
  const int results[] = {waits_on(ann, "bob", s->is_large), s->is_large ? BUSQ_OK : waits_on(dave, "bob", false)};
  tell(&words->may_go_on);
  (void)strike_await(pid, s->name, steps, stops, words->struck_at);
  for (unsigned i = 0; i < 2; i++)
    CHECK(results[i] == BUSQ_OK || (is_reader && results[i] == BUSQ_PEER_DEAD));
  leave(ann);
  leave(dave);
  if (bob)
    leave(bob);
  part();
  return words->has_survived;
}

/* ---- announced, not found by the timer ---- */

TEST(test_all_who_wait_are_told_of_room)
{
  meet(PEERS, CAPACITY, 1 << 16);
  busq_peer *ann = join("ann"), *bob = join("bob"), *carol = join("carol"), *dave = join("dave");
  fills(ann, "bob", false);
  fills(ann, "carol", false);
  begins_to_wait(ann, "bob", false);
  begins_to_wait(dave, "carol bob", false);
  busq_peer *const both[] = {ann, dave};
  for (unsigned i = 0; i < 2; i++) {
    stops_its_timer(both[i]);
    CHECK(!is_readable(both[i]));
  }
  busq_message message;
  CHECK_EQUAL(take_now(bob, &message), BUSQ_OK);
  CHECK(!is_readable(ann)); /* not before it has let go of its place */
  busq_peer_release(bob, &message);
  CHECK(is_readable(ann));
  /* Which of its queues is announced is its affair: here it waits for the other one. */
  CHECK_EQUAL(take_now(carol, &message), BUSQ_OK);
  busq_peer_release(carol, &message);
  CHECK(is_readable(dave));
  listens(dave, BUSQ_LISTEN_NOT);
  CHECK_EQUAL(asks(dave, "carol bob", false), BUSQ_OK);
  begins_to_wait(ann, "bob", false);
  leave(ann);
  leave(bob);
  leave(carol);
  leave(dave);
}

/* Its byte is drained by a thread of the same process that receives, and by a peer that listens for messages. */
TEST(test_who_receives_meanwhile_swallows_nothing)
{
  meet(PEERS, CAPACITY, 1 << 16);
  busq_peer *ann = join("ann"), *bob = join("bob");
  busq_message message;
  fills(ann, "bob", false);
  listens(ann, BUSQ_LISTEN_NOT);
  CHECK_EQUAL(asks(ann, "bob", false), BUSQ_FULL);
  listens(ann, BUSQ_LISTEN_MESSAGES);
  stops_its_timer(ann);
  takes_all(bob);
  CHECK(is_readable(ann));
  for (int i = 0; i < 3; i++) {
    CHECK_EQUAL(take_now(ann, &message), BUSQ_EMPTY);
    CHECK(is_readable(ann));
  }
  listens(ann, BUSQ_LISTEN_NOT);
  CHECK(!is_readable(ann));
  CHECK_EQUAL(asks(ann, "bob", false), BUSQ_OK);
  leave(ann);
  leave(bob);
}

/* Messages that are not received keep no peer awake that waits for room. */
TEST(test_room_alone)
{
  meet(PEERS, CAPACITY, 1 << 16);
  busq_peer *ann = join("ann"), *bob = join("bob");
  fills(ann, "bob", false);
  said(bob, "ann", "x");
  begins_to_wait(ann, "bob", false);
  stops_its_timer(ann);
  CHECK(!is_readable(ann));
  said(bob, "ann", "y"); /* a false alarm, and the last one */
  listens(ann, BUSQ_LISTEN_NOT);
  begins_to_wait(ann, "bob", false);
  stops_its_timer(ann);
  CHECK(!is_readable(ann));
  takes_all(bob);
  CHECK(is_readable(ann));
  hears(ann, "x y");
  leave(ann);
  leave(bob);
}

TEST(test_who_waits_is_told_of_memory)
{
  meet(PEERS, 64, 1 << 16);
  busq_peer *ann = join("ann"), *bob = join("bob");
  fills(ann, "bob", true);
  begins_to_wait(ann, "bob", true);
  stops_its_timer(ann);
  CHECK(!is_readable(ann));
  takes_all(bob);
  CHECK(is_readable(ann));
  listens(ann, BUSQ_LISTEN_NOT);
  CHECK_EQUAL(asks(ann, "bob", true), BUSQ_OK);
  leave(ann);
  leave(bob);
}

/* A reader that was stopped between its claim and its byte writes to the peer that has the slot by then. */
TEST(test_a_late_byte_is_a_false_alarm)
{
  meet(PEERS, CAPACITY, 1 << 16);
  busq_peer *ann = join("ann"), *bob = join("bob");
  fills(ann, "bob", false);
  begins_to_wait(ann, "bob", false);
  CHECK_EQUAL(write(ann->descriptor.fifo_fd, "", 1), 1);
  CHECK(is_readable(ann));
  begins_to_wait(ann, "bob", false);
  stops_its_timer(ann);
  CHECK(!is_readable(ann));
  takes_all(bob);
  CHECK(is_readable(ann));
  leave(ann);
  leave(bob);
}

/* A waiting sender learns of the reader's end as of room. */
TEST(test_who_waits_is_told_when_its_reader_leaves)
{
  meet(PEERS, CAPACITY, 1 << 16);
  busq_peer *ann = join("ann"), *bob = join("bob");
  fills(ann, "bob", false);
  begins_to_wait(ann, "bob", false);
  stops_its_timer(ann);
  leave(bob);
  CHECK(is_readable(ann));
  listens(ann, BUSQ_LISTEN_NOT);
  CHECK_EQUAL(asks(ann, "bob", false), BUSQ_PEER_DEAD);
  leave(ann);
}

TEST(test_who_waits_is_told_of_the_end)
{
  meet(PEERS, CAPACITY, 1 << 16);
  busq_peer *ann = join("ann"), *bob = join("bob");
  fills(ann, "bob", false);
  begins_to_wait(ann, "bob", false);
  stops_its_timer(ann);
  CHECK_EQUAL(busq_bus_shutdown(company_bus), BUSQ_OK);
  CHECK(is_readable(ann));
  CHECK_EQUAL(asks(ann, "bob", false), BUSQ_SHUTDOWN);
  leave(ann);
  leave(bob);
}

TEST(test_who_waits_is_told_by_one_that_dies_at_any_step)
{
  const script scripts[] = {
      {"a reader that takes everything", "bob", act_receive, false},
      {"a reader that gives memory back", "bob", act_receive, true},
      {"a reader that leaves", "bob", act_leave, false},
      {"a sender that begins to wait", "victim", act_wait, false},
  };
  words = shared_memory(sizeof *words);
  for (unsigned i = 0; i < sizeof scripts / sizeof scripts[0]; i++)
    strike_tell_deaths(scripts[i].name, die, &scripts[i]);
}
