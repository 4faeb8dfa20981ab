/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Death, and being stopped, between any two steps of what is done with nodes and handles.
 *
 *      test_node_steps                  at every BUSQ_STEP
 *      test_node_steps --every-access   at every access of shared memory: some minutes
 *
 * A child plays one of alice, which owns a node, bob and carol, which have its handle or get it.  At its n-th step it
 * ends without another instruction, or stops, for n = 1, 2, 3 and so on until it comes through; the parent plays the
 * others.  Whatever was left half done,
 *
 *   - each peer that has received the handle alive gets the notice of the node's end, once, and the others get none;
 *   - the owner gets one notice that the node has no holder any more, behind what was sent to the node;
 *   - a sender knows whether its message came before the end;
 *   - while the child is stopped, the others go on;
 *   - no memory is lost.
 */
#include "harness/nodes.h"
#include "harness/strike.h"
#include "shm/memory/peer.h"

#define PEERS 4
#define CAPACITY 32
#define ARENA_BYTES (1 << 18)

typedef enum { ALICE, BOB, CAROL, N_ROLES } role;

static const char *const names[N_ROLES] = {"alice", "bob", "carol"};

typedef struct {
  uint64_t node;
  uint32_t is_ready;
  uint32_t may_go_on;
  uint32_t has_survived;
  int32_t result; /* of what it sent; -1: it did not return */
  char heard[1024]; /* by the child */
  char struck_at[STRIKE_WHERE_BYTES];
} last_words;

typedef struct {
  const char *name;
  role victim;
  void (*act)(busq_peer *victim);
  bool bob_holds; /* it has received it; otherwise none has */
  bool carol_is_granted;
  bool alice_is_dead; /* it was killed before */
  bool alice_destroys; /* while the victim is stopped, or once it is dead */
  bool is_resumed;     /* the dead victim: by the parent, before alice looks */
  void (*judge)(void);
} script;

static last_words *words;
static const script *script_now;
static bool is_struck_to_stop;
static char transcript[N_ROLES][1024];
static busq_peer *cast[N_ROLES];

/* Looks after its nodes at once, which it does otherwise now and then. */
static void hear(busq_peer *peer, char *text)
{
  if (peer->nodes)
    busq_store_relaxed(&peer->self->unheld, 1);
  const char *const more = all_heard(peer);
  if (*more)
    snprintf(text + strlen(text), 1024 - strlen(text), "%s%s", *text ? " " : "", more);
}

/* ---- the scripts ---- */

static void act_destroy(busq_peer *victim)
{
  said(victim, "bob carol", "one");
  words->result = busq_peer_node_destroy(victim, words->node, 0);
  said(victim, "bob carol", "two");
}

static void act_send(busq_peer *victim)
{
  words->result = send_to(victim, words->node, "m");
}

static void act_release(busq_peer *victim)
{
  act_send(victim);
  busq_peer_handle_release(victim, words->node);
}

static void act_hand(busq_peer *victim)
{
  (void)hand(victim, "carol", words->node, "pass");
}

static void act_hear(busq_peer *victim)
{
  hear(victim, words->heard);
}

/* The second time it has a handle, and looks whether its owner lives. */
static void act_mourn(busq_peer *victim)
{
  act_hear(victim);
  act_hear(victim);
}

static void act_hear_and_release(busq_peer *victim)
{
  act_hear(victim);
  busq_peer_handle_release(victim, words->node);
  act_send(victim);
}

static void act_close(busq_peer *victim)
{
  CHECK_EQUAL(busq_peer_close(victim), BUSQ_OK);
}

static void act_make(busq_peer *victim)
{
  uint64_t node = make_node(victim);
  CHECK_EQUAL(busq_peer_node_destroy(victim, node, 0), BUSQ_OK);
  hear(victim, words->heard);
  (void)make_node(victim);
}

/* ---- the verdicts ---- */

static bool comes_before(const char *text, const char *first, const char *second)
{
  const char *a = strstr(text, first), *b = strstr(text, second);
  return !a || !b || a < b;
}

static void fail_heard(const char *what)
{
  check_fail(__FILE__, __LINE__, "%s: alice heard \"%s\", bob \"%s\", carol \"%s\"; the child heard \"%s\", its message: %d; struck at \"%s\"",
             what, transcript[ALICE], transcript[BOB], transcript[CAROL], words->heard, words->result, words->struck_at);
}

#define HEARD(condition)      \
  do {                        \
    if (!(condition))         \
      fail_heard(#condition); \
  } while (0)

static const char *told(role who)
{
  return script_now->victim == who ? words->heard : transcript[who];
}

/* Notices of the end: each peer that got the handle alive has one, behind it; no other one has. */
static void judge_notices(bool is_over)
{
  for (role who = BOB; who < N_ROLES; who++) {
    const bool has_died = script_now->victim == who && !is_struck_to_stop; /* it does not wait for more */
    const char *const text = told(who);
    const uint32_t n_alive = count_of(text, "+1"), n_notices = count_of(text, "destroyed@0");
    HEARD(n_notices <= 1);
    HEARD(!n_notices || n_alive);
    HEARD(has_died || !is_over || !n_alive || n_notices == 1);
    HEARD(comes_before(text, "+1", "destroyed@0"));
    HEARD(comes_before(text, "destroyed@0", "+0"));
  }
}

static void judge_end(void)
{
  judge_notices(true);
  for (role who = BOB; who < N_ROLES; who++) {
    HEARD(comes_before(transcript[who], "one", "destroyed@0"));
    HEARD(comes_before(transcript[who], "destroyed@0", "two"));
  }
  HEARD(count_of(transcript[BOB], "one") == count_of(transcript[CAROL], "one"));
  HEARD(count_of(transcript[BOB], "two") == count_of(transcript[CAROL], "two"));
}

static void judge_released(void)
{
  HEARD(count_of(transcript[ALICE], "released@0") == 1);
  HEARD(count_of(transcript[ALICE], "m@0") <= 1);
  HEARD(words->result != BUSQ_OK || count_of(transcript[ALICE], "m@0") == 1);
  HEARD(comes_before(transcript[ALICE], "m@0", "released@0"));
  judge_notices(false);
}

static void judge_handed(void)
{
  judge_notices(script_now->alice_destroys);
  HEARD(count_of(transcript[CAROL], "pass") <= 1);
  HEARD(!words->has_survived || count_of(transcript[CAROL], "pass") == 1);
  if (!script_now->alice_destroys)
    HEARD(count_of(transcript[ALICE], "released@0") == 1);
}

/* The sender got the truth. */
static void judge_sent(void)
{
  judge_notices(true);
  HEARD(words->result == -1 || (words->result == BUSQ_OK) == (count_of(transcript[ALICE], "m@0") == 1));
  HEARD(comes_before(transcript[ALICE], "m@0", "destroyed@0"));
  HEARD(count_of(transcript[ALICE], "destroyed@0") == 1);
}

static void judge_taken(void)
{
  judge_notices(false);
  HEARD(count_of(transcript[ALICE], "released@0") <= 1);
  HEARD(!strstr(words->heard, "+1") || count_of(transcript[ALICE], "released@0") == 1);
}

/* The message came to the dead or comes to its successor, which holds what the dead held; and lets go of it. */
static void judge_resumed(void)
{
  judge_taken();
  HEARD(is_struck_to_stop || count_of(transcript[ALICE], "released@0") == 1);
}

static void judge_nothing(void)
{
}

/* ---- one death ---- */

static void prelude(busq_peer *alice)
{
  words->node = make_node(alice);
  if (script_now->bob_holds)
    hands(alice, "bob", words->node, "x");
  if (script_now->carol_is_granted)
    hands(alice, "carol", words->node, "y");
}

static void alice_body(void *argument)
{
  (void)argument;
  arrive();
  prelude(join("alice"));
}

static void victim_body(void *argument)
{
  arrive();
  busq_peer *victim = join(names[script_now->victim]);
  tell(&words->is_ready);
  if (script_now->victim == ALICE) {
    prelude(victim);
    tell(&words->is_ready);
  }
  wait_for(&words->may_go_on, 1);
  if (script_now->victim == BOB && script_now->bob_holds)
    hear(victim, words->heard);
  tell(&words->is_ready);
  wait_for(&words->may_go_on, 2);
  words->result = -1;
  strike_begin(*(const uint64_t *)argument, is_struck_to_stop, words->struck_at);
  script_now->act(victim);
  strike_end();
  words->has_survived = 1;
  if (is_struck_to_stop && script_now->act != act_close) {
    hear(victim, words->heard);
    tell(&words->is_ready);
    wait_for(&words->may_go_on, 3);
    for (int i = 0; i < 3; i++)
      hear(victim, words->heard);
    CHECK_EQUAL(busq_peer_close(victim), BUSQ_OK);
  }
}

/* Notes what the peers hear that the parent plays, until it is quiet; what is stalled is got out of the way
 * meanwhile. */
static void settle(void)
{
  for (int turn = 0; turn < 4; turn++)
    for (role who = ALICE; who < N_ROLES; who++) {
      if (!cast[who])
        continue;
      /* What blocks a queue is waited for, with patience. */
      (void)busq_peer_wait(cast[who], 2000000);
      hear(cast[who], transcript[who]);
    }
}

/* The others talk to each other, whatever the one that is stopped has begun. */
static void others_go_on(void)
{
  for (role from = ALICE; from < N_ROLES; from++)
    for (role to = ALICE; to < N_ROLES; to++) {
      if (!cast[from] || !cast[to] || from == to)
        continue;
      said(cast[from], names[to], "hi");
      const uint32_t before = count_of(transcript[to], "hi");
      while (count_of(transcript[to], "hi") == before)
        hear(cast[to], transcript[to]);
    }
}

static void everybody_lets_go(void)
{
  for (role who = BOB; who < N_ROLES; who++)
    for (int i = 0; cast[who] && i < 3; i++)
      busq_peer_handle_release(cast[who], words->node);
}

static void others_leave(void)
{
  uint64_t n_dropped;
  for (role who = ALICE; who < N_ROLES; who++) {
    if (cast[who])
      leave(cast[who]);
    cast[who] = NULL;
  }
  for (int turn = 0; turn < 2; turn++) {
    all_places_are_free(PEERS);
    CHECK_EQUAL(busq_bus_collect(company_bus, &n_dropped), BUSQ_OK);
  }
  CHECK_EQUAL(used_bytes(), 0);
}

static void begin_scene(uint64_t *steps, pid_t *pidp)
{
  const role victim = script_now->victim;
  memset(words, 0, sizeof *words);
  memset(transcript, 0, sizeof transcript);
  company_nodes = 2;
  meet(PEERS, CAPACITY, ARENA_BYTES);
  for (role who = ALICE; who < N_ROLES; who++)
    cast[who] = who == victim || (who == ALICE && script_now->alice_is_dead) ? NULL : join(names[who]);
  *pidp = in_a_child(victim_body, steps);
  wait_for(&words->is_ready, victim == ALICE ? 2 : 1);
  if (script_now->alice_is_dead)
    ends_well(in_a_child(alice_body, NULL));
  else if (cast[ALICE])
    prelude(cast[ALICE]);
  tell(&words->may_go_on);
  wait_for(&words->is_ready, victim == ALICE ? 3 : 2);
  if (cast[BOB] && script_now->bob_holds && !script_now->alice_is_dead)
    hear(cast[BOB], transcript[BOB]);
  tell(&words->may_go_on);
}

/* True if the victim came through. */
static bool strike(const void *argument, uint64_t steps, bool stops)
{
  const script *s = argument;
  pid_t pid;
  int status = 0;
  script_now = s;
  is_struck_to_stop = stops;
  strike_scene(s->name, steps, stops, "");
  begin_scene(&steps, &pid);
  bool is_stopped = false;
  if (stops && s->act != act_close) {
    while (!is_stopped && !words->has_survived) {
      const pid_t changed = waitpid(pid, &status, WUNTRACED | WNOHANG);
      is_stopped = changed == pid && WIFSTOPPED(status);
      CHECK(changed != pid || is_stopped);
    }
  } else if (stops) {
    CHECK_EQUAL(waitpid(pid, &status, WUNTRACED), pid);
    is_stopped = WIFSTOPPED(status);
  } else {
    ends_well(pid);
  }
  if (is_stopped)
    others_go_on();
  if (s->is_resumed && !stops)
    cast[s->victim] = join_as(names[s->victim], BUSQ_JOIN_RESUME);
  if (s->alice_destroys)
    destroyed(cast[ALICE], words->node);
  settle();
  if (is_stopped)
    CHECK_EQUAL(kill(pid, SIGCONT), 0);
  if (stops && s->act != act_close)
    wait_for(&words->is_ready, s->victim == ALICE ? 4 : 3);
  settle();
  if (s->judge != judge_end && s->judge != judge_sent)
    everybody_lets_go();
  settle();
  if (stops && s->act != act_close)
    tell(&words->may_go_on);
  if (stops && (is_stopped || s->act != act_close))
    ends_well(pid);
  settle();
  s->judge();
  others_leave();
  part();
  return words->has_survived && !words->struck_at[0];
}

int main(int n_arguments, char **arguments)
{
  strike_options(n_arguments, arguments);
  busq_step_looks = 2;
  const script scripts[] = {
      {.name = "destroying", .victim = ALICE, .act = act_destroy, .bob_holds = true, .carol_is_granted = true, .judge = judge_end},
      {.name = "closing", .victim = ALICE, .act = act_close, .bob_holds = true, .carol_is_granted = true, .judge = judge_end},
      {.name = "making nodes", .victim = ALICE, .act = act_make, .judge = judge_nothing},
      {.name = "releasing", .victim = BOB, .act = act_release, .bob_holds = true, .judge = judge_released},
      {.name = "handing on", .victim = BOB, .act = act_hand, .bob_holds = true, .judge = judge_handed},
      {.name = "handing on what is destroyed", .victim = BOB, .act = act_hand, .bob_holds = true, .alice_destroys = true, .judge = judge_handed},
      {.name = "sending to what is destroyed", .victim = BOB, .act = act_send, .bob_holds = true, .alice_destroys = true, .judge = judge_sent},
      {.name = "receiving", .victim = CAROL, .act = act_hear, .carol_is_granted = true, .judge = judge_taken},
      {.name = "receiving and releasing", .victim = CAROL, .act = act_hear_and_release, .carol_is_granted = true, .judge = judge_taken},
      {.name = "receiving before one resumes it", .victim = CAROL, .act = act_hear, .carol_is_granted = true, .is_resumed = true, .judge = judge_resumed},
      {.name = "receiving what is destroyed", .victim = CAROL, .act = act_hear, .bob_holds = true, .carol_is_granted = true, .alice_destroys = true, .judge = judge_sent},
      {.name = "mourning", .victim = CAROL, .act = act_mourn, .bob_holds = true, .carol_is_granted = true, .alice_is_dead = true, .judge = judge_end},
  };
  words = shared_memory(sizeof *words);
  for (unsigned i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
    if (n_arguments > 1 && arguments[1][0] != '-' && !strstr(scripts[i].name, arguments[1]))
      continue;
    strike_tell(scripts[i].name, strike, &scripts[i]);
  }
  return 0;
}
