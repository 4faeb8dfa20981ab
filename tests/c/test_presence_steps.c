/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Death, and being stopped, between any two steps of a peer that is watched, or watches.
 *
 *      test_presence_steps                  at every BUSQ_STEP
 *      test_presence_steps --every-access   at every access of shared memory: some minutes
 *
 * alice and bob watch "victim" and "fred", and live in the parent with eve.  A child follows a script; at its n-th step
 * it ends without another instruction, or stops, for n = 1, 2, 3 and so on until it comes through.  After every death,
 * and after it has gone on,
 *
 *   - each of alice and bob has heard of comings and goings in turn: a going behind the last message of the one that
 *     went, a coming before its first one.  One of them may have heard of a peer that ended before the other one had
 *     its notice;
 *   - the next coming and going is announced, once.
 * While it is stopped, the others send, and hear which others come and go.
 */
#include "harness/groups.h"
#include "harness/strike.h"

#define PEERS 6
#define CAPACITY 64
#define ARENA_BYTES (1 << 18)

typedef struct {
  const char *name;
  void (*prepare)(void); /* with the child's first steps, before they count */
  void (*act)(void);
  bool is_watched; /* by the name of "victim", from its first step on */
} script;

static strike_words *words;
static busq_peer *alice, *bob, *eve, *victim;
static transcript of_alice, of_bob;

static void watches(busq_peer *peer, const char *name)
{
  int result;
  do
    result = busq_peer_watch(peer, name, strlen(name), COMPANY_PATIENCE_NS);
  while (result == BUSQ_INTERRUPTED);
  if (result != BUSQ_OK)
    check_fail(__FILE__, __LINE__, "can't watch %s: %d, %s", name, result, busq_error_text());
}

/* ---- the scripts ---- */

static void act_come_and_go(void)
{
  victim = join("victim");
  said(victim, "alice bob", "v");
  CHECK_EQUAL(busq_peer_close(victim), BUSQ_OK);
}

/* It ends as a process, without a word. */
static void act_come(void)
{
  victim = join("victim");
  said(victim, "alice bob", "v");
}

static void prepare_watcher(void)
{
  victim = join("watcher");
}

static void act_watch(void)
{
  watches(victim, "eve");
  watches(victim, "victim");
  (void)heard(victim);
  CHECK_EQUAL(busq_peer_unwatch(victim, "eve", 3, COMPANY_PATIENCE_NS), BUSQ_OK);
}

static void zoe_body(void *argument)
{
  (void)argument;
  arrive();
  said(join("victim"), "alice bob watcher", "z");
}

/* A peer that it watches has died, unnoticed. */
static void prepare_mourner(void)
{
  transcript of_watcher = {.text = " ", .used = 1};
  victim = join("watcher");
  watches(victim, "victim");
  ends_well(in_a_child(zoe_body, NULL));
  do
    listen(victim, &of_watcher);
  while (!times(&of_watcher, "z"));
}

static void act_mourn(void)
{
  (void)busq_peer_wait(victim, 2000000);
  (void)heard(victim);
  (void)busq_peer_wait(victim, 2000000);
  (void)heard(victim);
}

/* ---- one run ---- */

static void victim_body(void *argument)
{
  const strike_task *self = argument;
  const script *s = self->script;
  arrive();
  if (s->prepare)
    s->prepare();
  tell(&words->is_ready);
  wait_for(&words->may_go_on, 1);
  strike_begin(self->steps, self->stops, words->struck_at);
  s->act();
  strike_end();
  words->has_survived = 1;
}

static void both_listen(void)
{
  (void)busq_peer_wait(alice, 1000000);
  listen(alice, &of_alice);
  (void)busq_peer_wait(bob, 1000000);
  listen(bob, &of_bob);
}

static void listen_until(const char *what, uint32_t n_of_alice, uint32_t n_of_bob)
{
  while (times(&of_alice, what) < n_of_alice || times(&of_bob, what) < n_of_bob)
    both_listen();
}

/* A peer comes, sends something, and goes. */
static void goes_by(const char *name, const char *text)
{
  char coming[16], going[16];
  snprintf(coming, sizeof coming, "+%s", name);
  snprintf(going, sizeof going, "-%s", name);
  const uint32_t n_of_alice = times(&of_alice, coming) + 1, n_of_bob = times(&of_bob, coming) + 1;
  busq_peer *one = join(name);
  said(one, "alice bob", text);
  listen_until(text, 1, 1);
  leave(one);
  listen_until(going, n_of_alice, n_of_bob);
  CHECK_EQUAL(times(&of_alice, coming), n_of_alice);
  CHECK_EQUAL(times(&of_bob, coming), n_of_bob);
}

static void come_and_go_alternate(const char *text)
{
  const char *at = text;
  for (bool is_there = false; (at = strstr(at, "victim ")) != NULL; is_there = !is_there, at++)
    CHECK_EQUAL(at[-1], is_there ? '-' : '+');
  const char *const v = strstr(text, " v "), *const come = strstr(text, "+victim"), *const go = strstr(text, "-victim");
  if (v)
    CHECK(come && go && come < v && v < go);
}

/* Nothing more comes: as many have gone as have come. */
static void listen_until_it_is_over(void)
{
  int quiet = 0;
  while (quiet < 3) {
    both_listen();
    quiet = times(&of_alice, "+victim") == times(&of_alice, "-victim") && times(&of_bob, "+victim") == times(&of_bob, "-victim")
                ? quiet + 1
                : 0;
  }
}

static void judge(const script *s)
{
  listen_until_it_is_over();
  goes_by("victim", "last");
  come_and_go_alternate(of_alice.text);
  come_and_go_alternate(of_bob.text);
  CHECK(times(&of_alice, "v") <= 1);
  CHECK_EQUAL(times(&of_alice, "v"), times(&of_bob, "v"));
  if (s->is_watched && words->has_survived)
    CHECK_EQUAL(times(&of_alice, "v"), 1);
  (void)heard(eve);
  leave(alice);
  leave(bob);
  leave(eve);
  part();
}

static pid_t begin(const script *s, uint64_t steps, bool stops)
{
  memset(words, 0, sizeof *words);
  of_alice = of_bob = (transcript){.text = " ", .used = 1};
  meet(PEERS, CAPACITY, ARENA_BYTES);
  alice = join("alice"), bob = join("bob"), eve = join("eve");
  watches(alice, "victim");
  watches(bob, "victim");
  watches(alice, "fred"); /* a name that is not watched yet is given under a lock */
  watches(bob, "fred");
  const pid_t pid = in_a_child(victim_body, &(strike_task){s, steps, stops});
  wait_for(&words->is_ready, 1);
  check_test = s->name;
  tell(&words->may_go_on);
  return pid;
}

static void meanwhile(void)
{
  said(eve, "alice bob", "hi");
  listen_until("hi", 1, 1);
  goes_by("fred", "ho");
}

/* True if the victim came through. */
static bool strike_once(const void *argument, uint64_t steps, bool stops)
{
  const script *s = argument;
  const pid_t pid = begin(s, steps, stops);
  if (strike_await(pid, s->name, steps, stops, words->struck_at)) {
    meanwhile();
    strike_go_on(pid);
  }
  judge(s);
  return words->has_survived && !words->struck_at[0];
}

int main(int n_arguments, char **arguments)
{
  strike_options(n_arguments, arguments);
  company_groups = 4;
  const script scripts[] = {
      {.name = "coming and going", .act = act_come_and_go, .is_watched = true},
      {.name = "coming", .act = act_come, .is_watched = true},
      {.name = "watching", .prepare = prepare_watcher, .act = act_watch},
      {.name = "telling of a death", .prepare = prepare_mourner, .act = act_mourn},
  };
  words = shared_memory(sizeof *words);
  for (unsigned i = 0; i < sizeof scripts / sizeof scripts[0]; i++)
    strike_tell(scripts[i].name, strike_once, &scripts[i]);
  return 0;
}
