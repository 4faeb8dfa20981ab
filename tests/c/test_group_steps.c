/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Death, and being stopped, between any two steps of a peer that changes a group, or sends to it.
 *
 *      test_group_steps                  at every BUSQ_STEP
 *      test_group_steps --every-access   at every access of shared memory: some minutes
 *
 * alice and bob are members of "@g", and live in the parent with eve, which is none and is named beside the group.  A
 * child follows a script; at its n-th step it ends without another instruction, or stops, for n = 1, 2, 3 and so on
 * until it comes through. After every death, and while it is stopped, and after it has gone on,
 *
 *   - alice and bob have heard the same views and the same messages in the same order;
 *   - the view without the dead comes, once, and behind its last message; a peer that has closed has left in it, and not died;
 *   - the child's message was heard by all that it was for, once, or, where its sender died, by none;
 *   - a group that is closed while the child enters it has the child as a member from then on, or never;
 *   - the group goes on: others enter, and what is sent to it is heard;
 *   - a group whose place was needed by another one can be entered again, and its numbers have not gone back.
 */
#include "harness/groups.h"
#include "harness/strike.h"

#define PEERS 8
#define CAPACITY 64
#define ARENA_BYTES (1 << 18)

typedef struct {
  const char *name;
  void (*prepare)(busq_peer *victim);
  void (*act)(busq_peer *victim);
  bool sends;     /* a message that must be heard once if it comes through */
  bool names_eve; /* beside the group */
  bool closes;
  bool is_full; /* stopped, it holds up those that send to it */
  void (*meanwhile)(void); /* while it is stopped */
  void (*judge)(void);
} script;

static strike_words *words;
static uint32_t *has_entered; /* what was closed meanwhile; in shared memory */
static bool is_closed;
static uint32_t n_when_closed; /* members */

/* ---- what happens ---- */

static void act_enter(busq_peer *victim)
{
  enters(victim);
}

static void act_send(busq_peer *victim)
{
  said(victim, "@g", "v");
}

static void act_send_beside(busq_peer *victim)
{
  said(victim, "@g eve", "v");
}

static void act_leave(busq_peer *victim)
{
  CHECK_EQUAL(busq_peer_leave(victim, "@g", 2, COMPANY_PATIENCE_NS), BUSQ_OK);
}

static void act_close(busq_peer *victim)
{
  CHECK_EQUAL(busq_peer_close(victim), BUSQ_OK);
}

static void act_receive(busq_peer *victim)
{
  (void)heard(victim);
}

static void zoe_body(void *argument)
{
  (void)argument;
  arrive();
  enters(join("zoe"));
}

/* A member that has died, unnoticed. */
static void prepare_dead(busq_peer *victim)
{
  enters(victim);
  ends_well(in_a_child(zoe_body, NULL));
}

static void prepare_outside_dead(busq_peer *victim)
{
  (void)victim;
  ends_well(in_a_child(zoe_body, NULL));
}

static void prepare_inside(busq_peer *victim)
{
  enters(victim);
}

/* A member whose own queue is full, so that there is no room for the view without it. */
static void prepare_full(busq_peer *victim)
{
  enters(victim);
  while (say(victim, "victim", "x") == BUSQ_OK)
    ;
}

static void enters_group(busq_peer *peer, const char *group)
{
  CHECK_EQUAL(busq_peer_enter(peer, group, strlen(group), COMPANY_PATIENCE_NS), BUSQ_OK);
}

/* All places are given: "@d" needs the one of "@a", which has had two views, and is empty. */
static void prepare_names(busq_peer *victim)
{
  enters_group(victim, "@a");
  CHECK_EQUAL(busq_peer_leave(victim, "@a", 2, COMPANY_PATIENCE_NS), BUSQ_OK);
  enters_group(victim, "@b");
  enters_group(victim, "@c");
}

static void act_name(busq_peer *victim)
{
  enters_group(victim, "@d");
}

static void act_enter_closed(busq_peer *victim)
{
  const int result = busq_peer_enter(victim, "@h", 2, COMPANY_PATIENCE_NS);
  CHECK(result == BUSQ_OK || result == BUSQ_INVALID);
  *has_entered = result == BUSQ_OK;
}

/* ---- which peer hears what ---- */

static transcript of_alice, of_bob, of_eve;
static busq_peer *alice, *bob, *eve;

static void all_listen(void)
{
  listen(alice, &of_alice);
  listen(bob, &of_bob);
  listen(eve, &of_eve);
}

/* Until both members have heard a view of these members, and the last message. */
static void listen_until(const char *members, const char *last)
{
  do {
    all_listen();
    pause_shortly();
  } while (strcmp(of_alice.members, members) != 0 || strcmp(of_bob.members, members) != 0 || !times(&of_alice, last) ||
           !times(&of_bob, last));
}

/* ---- one run ---- */

static void victim_body(void *argument)
{
  const strike_task *self = argument;
  const script *s = self->script;
  arrive();
  busq_peer *victim = join("victim");
  if (s->prepare)
    s->prepare(victim);
  tell(&words->is_ready);
  wait_for(&words->may_go_on, 1);
  strike_begin(self->steps, self->stops, words->struck_at);
  s->act(victim);
  strike_end();
  words->has_survived = 1;
}

static pid_t begin(const script *s, uint64_t steps, bool stops)
{
  memset(words, 0, sizeof *words);
  is_closed = false;
  of_alice = of_bob = of_eve = (transcript){.text = " ", .used = 1};
  meet(PEERS, CAPACITY, ARENA_BYTES);
  alice = join("alice"), bob = join("bob"), eve = join("eve");
  enters(alice);
  enters(bob);
  all_listen();
  of_alice = of_bob = (transcript){.text = " ", .used = 1};
  const pid_t pid = in_a_child(victim_body, &(strike_task){s, steps, stops});
  wait_for(&words->is_ready, 1);
  check_test = s->name;
  tell(&words->may_go_on);
  return pid;
}

static void part_in_peace(void)
{
  leave(alice);
  leave(bob);
  (void)heard(eve);
  leave(eve);
  part();
}

static void judge_message(const script *s)
{
  CHECK_EQUAL(times(&of_alice, "v"), times(&of_bob, "v"));
  CHECK(times(&of_alice, "v") <= 1);
  if (s->names_eve)
    CHECK_EQUAL(times(&of_alice, "v"), times(&of_eve, "v"));
  if (s->sends && words->has_survived)
    CHECK_EQUAL(times(&of_alice, "v"), 1);
}

static uint32_t members_of(const char *group)
{
  uint64_t number, members[2 * PEERS];
  uint32_t count = 0;
  const int result = busq_bus_view(company_bus, group, strlen(group), &number, members, &count);
  CHECK(result == BUSQ_OK || result == BUSQ_UNKNOWN_PEER);
  return count;
}

static void close_meanwhile(void)
{
  uint64_t target;
  is_closed = true;
  leave(join_as("wide@h", BUSQ_JOIN_DURABLE));
  CHECK_EQUAL(busq_peer_lookup(alice, "wide@h", 6, &target), BUSQ_OK);
  CHECK_EQUAL(busq_peer_send(alice, &target, 1, "d", 1, COMPANY_PATIENCE_NS), BUSQ_OK);
  CHECK_EQUAL(busq_peer_leave(alice, "@h", 2, COMPANY_PATIENCE_NS), BUSQ_OK);
  n_when_closed = members_of("@h");
}

static void judge_closed(void)
{
  if (!is_closed)
    return;
  CHECK_EQUAL(*has_entered, n_when_closed);
  CHECK_EQUAL(busq_peer_enter(alice, "@h", 2, COMPANY_PATIENCE_NS), BUSQ_INVALID);
}

/* The victim is gone by now, and its groups lose their places where those are needed. */
static void judge_numbers(void)
{
  uint64_t number, members[2 * PEERS];
  uint32_t count;
  enters_group(alice, "@a");
  CHECK_EQUAL(busq_bus_view(company_bus, "@a", 2, &number, members, &count), BUSQ_OK);
  CHECK_EQUAL(number, 3);
  CHECK_EQUAL(count, 1);
}

static bool die(const script *s, uint64_t steps)
{
  (void)strike_await(begin(s, steps, false), s->name, steps, false, words->struck_at);
  do {
    all_listen();
    pause_shortly();
    uint64_t number, members[2 * PEERS];
    uint32_t count;
    CHECK_EQUAL(busq_bus_view(company_bus, "@g", 2, &number, members, &count), BUSQ_OK);
    if (count == 2)
      break;
  } while (true);
  said(alice, "@g eve", "next");
  if (of_alice.n_views) {
    listen_until("alice,bob", "next");
  } else {
    all_listen();
  }
  agree_on(&of_alice, &of_bob);
  all_listen();
  CHECK_EQUAL(times(&of_eve, "next"), 1);
  judge_message(s);
  if (s->closes && words->has_survived)
    CHECK_EQUAL(of_alice.last_what, 2);
  if (s->judge)
    s->judge();
  const bool has_survived = words->has_survived;
  part_in_peace();
  return has_survived;
}

static void go_on_meanwhile(void)
{
  busq_peer *dave = join("dave");
  enters(dave);
  said(dave, "@g eve", "meanwhile");
  do {
    all_listen();
    pause_shortly();
  } while (!times(&of_alice, "meanwhile") || !times(&of_bob, "meanwhile") || !times(&of_eve, "meanwhile"));
  agree_on(&of_alice, &of_bob);
  leave(dave);
}

/* A stopped process holds up no other one. */
static bool be_stopped(const script *s, uint64_t steps)
{
  const pid_t pid = begin(s, steps, true);
  if (!strike_await(pid, s->name, steps, true, words->struck_at)) {
    part_in_peace();
    return true;
  }
  if (s->meanwhile)
    s->meanwhile();
  if (!s->is_full)
    go_on_meanwhile();
  strike_go_on(pid);
  said(alice, "@g eve", "next");
  listen_until("alice,bob", "next");
  said(alice, "@g eve", "last"); /* the views without the gone may have come behind the next one */
  listen_until("alice,bob", "last");
  agree_on(&of_alice, &of_bob);
  all_listen();
  judge_message(s);
  if (s->judge)
    s->judge();
  part_in_peace();
  return false;
}

/* True if the victim came through. */
static bool strike_once(const void *argument, uint64_t steps, bool stops)
{
  return stops ? be_stopped(argument, steps) : die(argument, steps);
}

int main(int n_arguments, char **arguments)
{
  strike_options(n_arguments, arguments);
  company_groups = 4;
  const script scripts[] = {
      {"entering", NULL, act_enter, .sends = false},
      {"sending as a member", prepare_inside, act_send, .sends = true},
      {"sending from outside", NULL, act_send, .sends = true},
      {"sending to somebody besides", NULL, act_send_beside, .sends = true, .names_eve = true},
      {"leaving", prepare_inside, act_leave, .sends = false},
      {"closing", prepare_inside, act_close, .closes = true},
      {"closing with a full queue", prepare_full, act_close, .closes = true, .is_full = true},
      {"taking the place of another group", prepare_names, act_name, .judge = judge_numbers},
      {"entering what is closed meanwhile", NULL, act_enter_closed, .meanwhile = close_meanwhile, .judge = judge_closed},
      {"receiving views", prepare_inside, act_receive, .sends = false},
      {"sending to one who is dead", prepare_outside_dead, act_send_beside, .sends = true, .names_eve = true},
      {"sending as a member to one who is dead", prepare_dead, act_send, .sends = true},
  };
  words = shared_memory(sizeof *words);
  has_entered = shared_memory(sizeof *has_entered);
  for (unsigned i = 0; i < sizeof scripts / sizeof scripts[0]; i++)
    strike_tell(scripts[i].name, strike_once, &scripts[i]);
  return 0;
}
