/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Death between any two steps.
 *
 * A child joins as "victim" and follows a script: it sends, receives, closes, buries a peer.  At its n-th BUSQ_STEP it
 * ends without another instruction, for n = 1, 2, 3 and so on until it comes through alive.  After every death those
 * that are left behind must find:
 *
 *   - a multicast of the victim at all of its receivers or at none, and what is sent afterwards behind it;
 *   - queues that come to their end: nothing blocks for ever;
 *   - the victim's name and slot free for the next one, once everything was received;
 *   - no memory lost when all have gone.
 */
#include "base/atomic.h"
#include "harness/strike.h"

#define PEERS 4
#define CAPACITY 8
#define ARENA_BYTES (1 << 16)
#define LARGE_BYTES 20000 /* several extents */

typedef struct {
  const char *name;
  void (*prepare)(busq_peer *victim); /* in the child, before its steps become deadly */
  void (*write)(busq_peer *bob);      /* in the parent, after that */
  void (*act)(busq_peer *victim);     /* with deadly steps */
  bool joins_deadly;               /* dies while joining already */
  bool is_stale;
} script;

static strike_words *words;
static char large[LARGE_BYTES];

/* ---- the scripts ---- */

static void send_bytes(busq_peer *peer, const char *to, const void *data, size_t size_bytes)
{
  uint64_t targets[PEERS];
  const int count = look_up(peer, to, targets);
  CHECK(count > 0);
  CHECK_EQUAL(busq_peer_send(peer, targets, (uint32_t)count, data, size_bytes, 0), BUSQ_OK);
}

static void act_unicast(busq_peer *victim)
{
  said(victim, "bob", "v");
}

static void act_multicast(busq_peer *victim)
{
  said(victim, "bob carol", "v");
}

static void act_several(busq_peer *victim)
{
  said(victim, "bob", "v");
  said(victim, "carol bob victim", "v");
  said(victim, "carol", "v");
  hears(victim, "v");
  said(victim, "bob carol", "v");
}

static void act_large_unicast(busq_peer *victim)
{
  send_bytes(victim, "bob", large, sizeof large);
}

static void act_large_multicast(busq_peer *victim)
{
  send_bytes(victim, "bob carol", large, sizeof large);
}

static void reserve(busq_peer *peer, uint64_t size_bytes, busq_message *draft)
{
  CHECK_EQUAL(busq_peer_reserve(peer, size_bytes, 0, 0, draft), BUSQ_OK);
  memset((void *)(uintptr_t)draft->data, 'v', size_bytes);
}

static void send_draft(busq_peer *peer, const char *to, const busq_message *draft, uint64_t size_bytes)
{
  uint64_t targets[PEERS];
  uint32_t sent = 0;
  const int count = look_up(peer, to, targets);
  CHECK(count > 0);
  CHECK_EQUAL(busq_peer_send_draft(peer, targets, (uint32_t)count, draft, size_bytes, BUSQ_FORM_DATA, 0, &sent), BUSQ_OK);
  CHECK_EQUAL(sent, 1);
}

/* Three drafts: one is sent, behind others that are sent later than it was reserved; one is given back; one is kept. */
static void act_drafts(busq_peer *victim)
{
  busq_message first, second, third;
  reserve(victim, 1, &first);
  said(victim, "victim", "w");
  reserve(victim, 500, &second);
  reserve(victim, 1, &third);
  send_draft(victim, "bob", &first, 1);
  hears(victim, "w");
  busq_peer_discard(victim, &third);
  reserve(victim, 1, &third);
}

static void act_draft_multicast(busq_peer *victim)
{
  busq_message draft;
  reserve(victim, 1, &draft);
  send_draft(victim, "bob carol", &draft, 1);
}

static void act_large_draft_multicast(busq_peer *victim)
{
  busq_message draft;
  reserve(victim, LARGE_BYTES + 1, &draft);
  send_draft(victim, "bob carol", &draft, LARGE_BYTES);
}

static void act_large_draft_discarded(busq_peer *victim)
{
  busq_message draft, kept;
  reserve(victim, LARGE_BYTES, &draft);
  busq_peer_discard(victim, &draft);
  reserve(victim, LARGE_BYTES, &kept);
}

static void act_close_drafting(busq_peer *victim)
{
  busq_message small, large_one;
  reserve(victim, 100, &small);
  reserve(victim, LARGE_BYTES, &large_one);
  CHECK_EQUAL(busq_peer_close(victim), BUSQ_OK);
  busq_peer_discard(victim, &large_one);
  memset((void *)(uintptr_t)small.data, 'w', 100);
  busq_peer_discard(victim, &small);
}

static void write_letters(busq_peer *bob)
{
  said(bob, "victim carol", "x");
  said(bob, "victim", "y");
  said(bob, "victim carol", "z");
}

static void act_receive(busq_peer *victim)
{
  hears(victim, "x y z");
}

static void act_receive_and_hold(busq_peer *victim)
{
  busq_message messages[3];
  uint32_t count;
  CHECK_EQUAL(busq_peer_recv(victim, messages, 3, &count, 0), BUSQ_OK);
  CHECK_EQUAL(count, 3);
  busq_peer_release(victim, &messages[1]);
}

static void act_close_unread(busq_peer *victim)
{
  CHECK_EQUAL(busq_peer_close(victim), BUSQ_OK);
}

static void act_close_holding(busq_peer *victim)
{
  busq_message message;
  CHECK_EQUAL(take_now(victim, &message), BUSQ_OK);
  CHECK_EQUAL(busq_peer_close(victim), BUSQ_OK);
  busq_peer_release(victim, &message);
}

static void write_large_letters(busq_peer *bob)
{
  send_bytes(bob, "victim", large, sizeof large);
  send_bytes(bob, "victim", large, sizeof large);
}

static void act_receive_large(busq_peer *victim)
{
  busq_message message;
  for (int i = 0; i < 2; i++) {
    CHECK_EQUAL(take_now(victim, &message), BUSQ_OK);
    CHECK_EQUAL(message.size_bytes, LARGE_BYTES);
    busq_peer_release(victim, &message);
  }
}

/* Records that were used before still hold what they held then. */
static void prepare_used_records(busq_peer *victim)
{
  said(victim, "victim", "w");
  hears(victim, "w");
}

static void act_nothing(busq_peer *victim)
{
  (void)victim;
}

/* A peer that dies in the middle of a large multicast whose proposal is lost, with unread letters. */
static void prior_body(void *argument)
{
  CHECK(setenv("BUSQ_STALE_PROPOSALS", "1", 1) == 0);
  arrive();
  busq_peer *prior = join("prior");
  said(prior, "prior", "unread");
  send_bytes(prior, "prior", large, sizeof large);
  strike_begin(*(const uint64_t *)argument, false, words->struck_at);
  send_bytes(prior, "bob carol", large, sizeof large);
}

static uint64_t prior_steps;

static void prepare_dead(busq_peer *victim)
{
  (void)victim;
  ends_well(in_a_child(prior_body, &prior_steps));
}

/* Notices the death, and puts what the dead one left in order. */
static void act_bury(busq_peer *victim)
{
  CHECK_EQUAL(say(victim, "prior", "anybody?"), BUSQ_PEER_DEAD);
}

/* ---- one death ---- */

static void victim_body(void *argument)
{
  const strike_task *self = argument;
  const script *s = self->script;
  CHECK(!s->is_stale || setenv("BUSQ_STALE_PROPOSALS", "1", 1) == 0);
  arrive();
  if (s->joins_deadly) {
    tell(&words->is_ready);
    strike_begin(self->steps, false, words->struck_at);
  }
  busq_peer *victim = join("victim");
  if (s->prepare)
    s->prepare(victim);
  tell(&words->is_ready);
  wait_for(&words->may_go_on, 1);
  strike_begin(self->steps, false, words->struck_at);
  s->act(victim);
  words->has_survived = 1;
}

static uint64_t depth_of(busq_peer *peer, const char *name)
{
  uint64_t target;
  busq_peer_facts facts;
  CHECK_EQUAL(look_up(peer, name, &target), 1);
  CHECK_EQUAL(busq_bus_examine_peer(company_bus, (uint32_t)target & 0xffff, &facts), BUSQ_OK);
  return facts.depth;
}

/* Receives until the queue is at its very end; waits for what blocks.  Returns how many of the victim's messages
 * came. */
static uint64_t drain(busq_peer *peer, const char *name)
{
  uint64_t n_messages = 0;
  do {
    busq_message message;
    uint32_t count;
    const int result = busq_peer_recv(peer, &message, 1, &count, 1000000);
    CHECK(result == BUSQ_OK || result == BUSQ_EMPTY || result == BUSQ_INTERRUPTED);
    if (result != BUSQ_OK)
      continue;
    n_messages += message.size_bytes == sizeof large || (message.size_bytes == 1 && *(const char *)message.data == 'v');
    busq_peer_release(peer, &message);
  } while (depth_of(peer, name));
  return n_messages;
}

/* All slots are free but for those of bob and carol. */
static void rejoin_everybody(void)
{
  busq_peer *others[PEERS - 2];
  for (int i = 0; i < PEERS - 2; i++) {
    const char name[] = {'n', (char)('0' + i), '\0'};
    others[i] = join(name);
  }
  for (int i = 0; i < PEERS - 2; i++)
    leave(others[i]);
}

static char scene[128];

/* True if the victim came through. */
static bool die(const script *s, uint64_t steps)
{
  memset(words, 0, sizeof *words);
  meet(PEERS, CAPACITY, ARENA_BYTES);
  busq_peer *bob = join("bob"), *carol = join("carol");
  check_test = s->name;
  const pid_t pid = in_a_child(victim_body, &(strike_task){s, steps, false});
  wait_for(&words->is_ready, 1);
  if (s->write)
    s->write(bob);
  tell(&words->may_go_on);
  ends_well(pid);
  snprintf(scene, sizeof scene, "%s, dead at step %" PRIu64 " (%s)", s->name, steps,
           words->has_survived ? "alive" : words->struck_at);
  check_test = scene;
  const uint64_t heard_by_bob = drain(bob, "bob"), heard_by_carol = drain(carol, "carol");
  if (s->act == act_multicast || s->act == act_large_multicast || s->act == act_draft_multicast ||
      s->act == act_large_draft_multicast)
    CHECK_EQUAL(heard_by_bob, heard_by_carol);
  busq_peer *next = join("victim");
  said(next, "bob carol victim", "next");
  hears(next, "next");
  hears(bob, "next");
  hears(carol, "next");
  leave(next);
  rejoin_everybody();
  leave(bob);
  leave(carol);
  CHECK_EQUAL(used_bytes(), 0);
  part();
  return words->has_survived;
}

/* How many steps there are to die at. */
static uint64_t die_everywhere(const script *s)
{
  uint64_t steps = 1;
  while (!die(s, steps))
    steps++;
  CHECK(steps > 1);
  return steps - 1;
}

int main(void)
{
  check_begin();
  busq_step_looks = 2; /* a burial takes many steps, and the process that takes the first may be dead before the last */
  const script scripts[] = {
      {"a unicast", NULL, NULL, act_unicast, false, false},
      {"a unicast in a record used before", prepare_used_records, NULL, act_unicast, false, false},
      {"a multicast", NULL, NULL, act_multicast, false, false},
      {"a multicast in a record used before", prepare_used_records, NULL, act_multicast, false, false},
      {"a multicast whose proposal is lost", NULL, NULL, act_multicast, false, true},
      {"several messages, to itself too", NULL, NULL, act_several, false, true},
      {"a large unicast", NULL, NULL, act_large_unicast, false, false},
      {"a large multicast", NULL, NULL, act_large_multicast, false, true},
      {"drafts", NULL, NULL, act_drafts, false, false},
      {"a draft in a record used before", prepare_used_records, NULL, act_draft_multicast, false, false},
      {"a draft whose proposal is lost", NULL, NULL, act_draft_multicast, false, true},
      {"a large draft", NULL, NULL, act_large_draft_multicast, false, true},
      {"a large draft given back", NULL, NULL, act_large_draft_discarded, false, false},
      {"closing with drafts", NULL, NULL, act_close_drafting, false, false},
      {"receiving", NULL, write_letters, act_receive, false, false},
      {"receiving and holding", NULL, write_letters, act_receive_and_hold, false, false},
      {"receiving large messages", NULL, write_large_letters, act_receive_large, false, false},
      {"closing with unread messages", NULL, write_letters, act_close_unread, false, false},
      {"closing while a message is held", NULL, write_letters, act_close_holding, false, false},
      {"joining", NULL, NULL, act_nothing, true, false},
  };
  words = shared_memory(sizeof *words);
  for (unsigned i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
    const uint64_t steps = die_everywhere(&scripts[i]);
    printf("ok  %s: died at each of %" PRIu64 " steps\n", scripts[i].name, steps);
    fflush(stdout);
  }
  uint64_t steps = 0;
  for (prior_steps = 1; prior_steps < 32; prior_steps += 3)
    steps += die_everywhere(&(script){"burying", prepare_dead, NULL, act_bury, false, false});
  printf("ok  burying somebody who died in the middle of a multicast: died at each of %" PRIu64 " steps\n", steps);
  return 0;
}
