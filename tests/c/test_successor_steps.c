/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Death, and being stopped, between any two steps of a peer that comes after another: it resumes what that had, or gets
 * its slot.
 *
 *      test_successor_steps                  at every BUSQ_STEP
 *      test_successor_steps --every-access   at every access of shared memory: some minutes
 *
 * A predecessor has died with a node, a handle, or as a member of a group.  A child joins in its place, and follows a
 * script; at its n-th step it ends without another instruction, or stops, for n = 1, 2, 3 and so on until it comes
 * through.  Then another one comes after it.  Both together, with the stopped one,
 *
 *   - have got the notice of the end of a node that they held, once; where the notice was to be acknowledged, until it
 *     was; and so where the handle came in a message that comes again, though it was let go of the first time;
 *   - have received what was sent to their own node before its end, once, and its sender learned that;
 *   - hear what is sent to the group, at the place where others hear it.
 *
 * One that sends goes on in the extent that its predecessor has cut records from, and its successor after it.
 *
 * In the last scripts it is the child that changes the group, beside members that are dead; one of those, which is not
 * durable, is resumed meanwhile.  If its join has returned with it as a member, it stays one.  So it is with one that
 * is durable, and with one that holds a handle.
 */
#include "harness/groups.h"
#include "harness/nodes.h"
#include "harness/strike.h"
#include "shm/group/group.h"
#include "shm/memory/peer.h"
#include "shm/node/node.h"

#define PEERS 5
#define CAPACITY 32
#define ARENA_BYTES (1 << 18)

typedef struct {
  uint64_t node;
  uint32_t is_ready;
  uint32_t may_go_on;
  uint32_t has_heard; /* it was at hearing when it was struck, or later */
  uint32_t has_survived;
  uint32_t begun, ended; /* acknowledgements of the notice */
  char heard[512];
  char struck_at[STRIKE_WHERE_BYTES];
} last_words;

typedef struct {
  const char *name;
  void (*prepare)(void);   /* in the parent: there was a predecessor */
  void (*before)(void);    /* in the child, with steps that do not count; and */
  void (*between)(void);   /* in the parent, behind that */
  void (*act)(void);
  void (*meanwhile)(void); /* in the parent, while the child is stopped, or once it is dead */
  void (*judge)(void);
  bool has_no_carol;
} script;

static last_words *words;
static bool is_struck_to_stop;
static busq_peer *alice, *bob, *carol, *victim;
static char of_alice[1024], of_bob[1024];

/* ---- what they do ---- */

/* NULL where a process is stopped that puts in order what the last one has left. */
static busq_peer *may_resume(const char *name, uint32_t flags)
{
  busq_peer *peer;
  return busq_peer_join_as(company_bus, name, strlen(name), BUSQ_JOIN_RESUME | flags, &peer) == BUSQ_OK ? peer : NULL;
}

static busq_peer *resume(const char *name)
{
  return join_as(name, BUSQ_JOIN_RESUME | BUSQ_JOIN_DURABLE);
}

/* Looks after its nodes and handles at once, which it does otherwise now and then. */
static void hear(busq_peer *peer, char *text, size_t bytes)
{
  if (peer->nodes)
    busq_store_relaxed(&peer->self->unheld, 1);
  for (int turn = 0; turn < 2; turn++) {
    (void)busq_peer_wait(peer, 1000000);
    const char *const more = all_heard(peer);
    if (*more)
      snprintf(text + strlen(text), bytes - strlen(text), "%s ", more);
  }
}

static void victim_hears(void)
{
  words->has_heard = 1;
  hear(victim, words->heard, sizeof words->heard);
}

/* By the victim, and by the one that comes after it. */
static uint32_t both(const char *after, const char *what)
{
  return count_of(words->heard, what) + count_of(after, what);
}

/* The messages that it had in its hands when it died may be lost. */
static bool may_be_lost(void)
{
  return !is_struck_to_stop && words->has_heard && words->struck_at[0];
}

static void fail_heard(const char *what, const char *after)
{
  check_fail(__FILE__, __LINE__, "%s: alice heard \"%s\", bob \"%s\", the child \"%s\", the next one \"%s\"", what, of_alice, of_bob,
             words->heard, after);
}

#define HEARD(condition)             \
  do {                               \
    if (!(condition))                \
      fail_heard(#condition, after); \
  } while (0)

static void others_talk(void)
{
  said(alice ? alice : bob, "carol", "hi");
  while (!strstr(all_heard(carol), "hi"))
    ;
}

/* ---- a peer that has held a handle ---- */

static void holder_body(void *argument)
{
  (void)argument;
  arrive();
  busq_peer *peer = resume("bob");
  tell(&words->is_ready);
  while (!strstr(all_heard(peer), "x+1"))
    ;
}

static void prepare_holder(void)
{
  alice = join("alice");
  words->node = make_node(alice);
  const pid_t pid = in_a_child(holder_body, NULL);
  wait_for(&words->is_ready, 1);
  hands(alice, "bob", words->node, "x");
  ends_well(pid);
}

static void alice_destroys(void)
{
  destroyed(alice, words->node);
  hear(alice, of_alice, sizeof of_alice);
  others_talk();
}

static void prepare_ended(void)
{
  prepare_holder();
  alice_destroys();
}

static void act_resume(void)
{
  victim = resume("bob");
  victim_hears();
}

static void judge_holder(void)
{
  char after[512] = "";
  busq_peer *next = resume("bob");
  hear(next, after, sizeof after);
  hear(alice, of_alice, sizeof of_alice);
  HEARD(both(after, "destroyed@0") <= 1);
  HEARD(may_be_lost() || both(after, "destroyed@0") == 1);
  HEARD(count_of(of_alice, "destroyed@0") == 1);
  HEARD(!busq_peer_handles_alive(next));
  leave(next);
}

/* ---- a peer that has owned a node ---- */

static void owner_body(void *argument)
{
  (void)argument;
  arrive();
  busq_peer *peer = resume("alice");
  words->node = make_node(peer);
  hands(peer, "bob", words->node, "x");
}

static void prepare_owner(void)
{
  bob = join("bob");
  ends_well(in_a_child(owner_body, NULL));
  hear(bob, of_bob, sizeof of_bob);
  sent_to(bob, words->node, "m");
}

static int result_of_n;

static void act_own(void)
{
  victim = resume("alice");
  victim_hears();
  CHECK_EQUAL(busq_peer_node_destroy(victim, words->node, 0), BUSQ_OK);
}

static void bob_sends(void)
{
  result_of_n = send_to(bob, words->node, "n");
  CHECK(result_of_n == BUSQ_OK || result_of_n == BUSQ_PEER_DEAD);
  others_talk();
}

static void judge_owner(void)
{
  char after[512] = "";
  busq_peer *next = resume("alice");
  hear(next, after, sizeof after);
  if (busq_peer_node_is_alive(next, words->node)) {
    sent_to(bob, words->node, "o");
    hear(next, after, sizeof after);
    HEARD(count_of(after, "o@0") == 1);
    destroyed(next, words->node);
  }
  hear(next, after, sizeof after);
  hear(bob, of_bob, sizeof of_bob);
  HEARD(count_of(of_bob, "destroyed@0") == 1);
  HEARD(both(after, "destroyed@0") == 1);
  HEARD(both(after, "m@0") == 1 || (may_be_lost() && both(after, "m@0") == 0));
  HEARD(both(after, "n@0") == (result_of_n == BUSQ_OK));
  leave(next);
}

/* ---- the slot of one that has owned a node ---- */

static void stranger_body(void *argument)
{
  (void)argument;
  arrive();
  busq_peer *peer = join("dead");
  words->node = make_node(peer);
  hands(peer, "bob", words->node, "x");
  said(peer, "bob", "last");
}

/* All other slots are taken, and what it had sent is received: the next one to join gets that of the dead.  Its
 * death is unnoticed. */
static void prepare_slot(void)
{
  alice = join("alice"), bob = join("bob");
  (void)join("more");
  ends_well(in_a_child(stranger_body, NULL));
  snprintf(of_bob, sizeof of_bob, "%s ", all_heard(bob));
  CHECK(strstr(of_bob, "last") && busq_peer_node_is_alive(bob, words->node));
}

static void act_join(void)
{
  victim = join("dave");
  said(victim, "bob", "v");
}

static void bob_is_told(void)
{
  while (!strstr(of_bob, "destroyed@0"))
    hear(bob, of_bob, sizeof of_bob);
  others_talk();
}

static void judge_slot(void)
{
  const char *const after = "";
  hear(bob, of_bob, sizeof of_bob);
  HEARD(count_of(of_bob, "x+1") == 1 && count_of(of_bob, "destroyed@0") == 1);
  HEARD(strstr(of_bob, "last") < strstr(of_bob, "destroyed@0"));
  HEARD(count_of(of_bob, "v") <= 1 && (!words->has_survived || count_of(of_bob, "v") == 1));
  leave(join("next"));
}

/* ---- a notice that is acknowledged ---- */

static void prepare_sender(void)
{
  alice = join("alice");
  words->node = make_node(alice);
}

static void child_is_ready(void)
{
  tell(&words->is_ready);
  wait_for(&words->may_go_on, 1);
}

static void before_holding(void)
{
  victim = resume("bob");
  child_is_ready();
}

static void takes_and_acknowledges(const char *expected, uint32_t *begun, uint32_t *ended)
{
  busq_message message;
  uint32_t count;
  char text[64];
  CHECK_EQUAL(busq_peer_recv_as(victim, BUSQ_TAKE_OFFERED, &message, 1, &count, COMPANY_PATIENCE_NS), BUSQ_OK);
  text[event_write(text, victim, &message)] = '\0';
  CHECK(strcmp(text, expected) == 0);
  *begun = 1;
  CHECK_EQUAL(busq_peer_ack(victim, &message), BUSQ_OK);
  *ended = 1;
}

static void act_acknowledge(void)
{
  uint32_t begun, ended;
  takes_and_acknowledges("x+1", &begun, &ended);
  takes_and_acknowledges("destroyed@0", &words->begun, &words->ended);
}

static void hand_and_destroy(void)
{
  hands(alice, "bob", words->node, "x");
  destroyed(alice, words->node);
}

static void judge_acknowledged(void)
{
  char after[512] = "";
  busq_peer *next = resume("bob");
  hear(next, after, sizeof after);
  HEARD(count_of(after, "destroyed@0") <= 1);
  HEARD(!words->ended || count_of(after, "destroyed@0") == 0);
  /* One that was not taken for a live handle's is passed, and so is one whose handle comes back dead. */
  HEARD(!strstr(after, "x+1") || count_of(after, "destroyed@0") == 1);
  HEARD(!busq_peer_handles_alive(next));
  leave(next);
}

/* ---- a handle in a message that comes again ---- */

static uint32_t flags_of_bob; /* durable, or not */

static busq_peer *bob_resumes(void)
{
  return join_as("bob", BUSQ_JOIN_RESUME | flags_of_bob);
}

static void is_offered(busq_peer *peer, busq_message *message)
{
  uint32_t count;
  int result;
  do
    result = busq_peer_recv_as(peer, BUSQ_TAKE_OFFERED, message, 1, &count, COMPANY_PATIENCE_NS);
  while (result == BUSQ_INTERRUPTED);
  CHECK_EQUAL(result, BUSQ_OK);
}

static void takes(busq_peer *peer, char *heard)
{
  busq_message message;
  char text[64];
  is_offered(peer, &message);
  text[event_write(text, peer, &message)] = '\0';
  strcat(heard, text);
  words->begun = 1;
  CHECK_EQUAL(busq_peer_ack(peer, &message), BUSQ_OK);
  words->ended = 1;
}

/* It lets go of the handle, and does not acknowledge the message. */
static void careless_body(void *argument)
{
  busq_message message;
  (void)argument;
  arrive();
  busq_peer *peer = bob_resumes();
  tell(&words->is_ready);
  is_offered(peer, &message);
  CHECK_EQUAL(message.handles_alive, 1);
  busq_peer_handle_release(peer, words->node);
}

static void prepare_careless(void)
{
  alice = join("alice");
  words->node = make_node(alice);
  const pid_t pid = in_a_child(careless_body, NULL);
  wait_for(&words->is_ready, 1);
  hands(alice, "bob", words->node, "x");
  ends_well(pid);
  hear(alice, of_alice, sizeof of_alice);
  of_alice[0] = '\0';
}

static void prepare_careless_plain(void)
{
  flags_of_bob = 0;
  prepare_careless();
}

static void prepare_careless_durable(void)
{
  flags_of_bob = BUSQ_JOIN_DURABLE;
  prepare_careless();
}

static void act_take_again(void)
{
  victim = bob_resumes();
  takes(victim, words->heard);
  strcat(words->heard, " ");
  victim_hears();
}

static void judge_again(void)
{
  char after[512] = "";
  const bool has_ended = !busq_peer_node_is_alive(alice, words->node);
  busq_peer *next = bob_resumes();
  hear(next, after, sizeof after);
  HEARD(has_ended || !strstr(after, "x+0"));
  HEARD(words->ended ? !strstr(after, "x") : words->begun || strstr(after, "x"));
  if (!has_ended)
    destroyed(alice, words->node);
  hear(next, after, sizeof after);
  hear(alice, of_alice, sizeof of_alice);
  HEARD(both(after, "destroyed@0") <= 1 && count_of(of_alice, "destroyed@0") == 1);
  HEARD(!strstr(after, "x+1") || count_of(after, "destroyed@0") == 1);
  HEARD(!strstr(after, "x+1") || strstr(after, "x+1") < strstr(after, "destroyed@0"));
  if (flags_of_bob) /* what it holds, its successor holds on */
    HEARD(may_be_lost() || !strstr(words->heard, "x+1") || both(after, "destroyed@0") == 1);
  leave(next);
}

/* ---- a member ---- */

static transcript views_of_alice, views_of_bob;

static void member_body(void *argument)
{
  (void)argument;
  arrive();
  enters(resume("carol"));
}

static void prepare_member(void)
{
  alice = join("alice"), bob = join("bob");
  enters(alice);
  enters(bob);
  listen(alice, &views_of_alice);
  listen(bob, &views_of_bob);
  views_of_alice = views_of_bob = (transcript){.text = " ", .used = 1};
  ends_well(in_a_child(member_body, NULL));
}

static void act_return(void)
{
  victim = resume("carol");
  (void)heard(victim);
  enters(victim);
  said(victim, "@g", "v");
}

static void members_listen_until(const char *last)
{
  do {
    listen(alice, &views_of_alice);
    listen(bob, &views_of_bob);
    pause_shortly();
  } while (!times(&views_of_alice, last) || !times(&views_of_bob, last));
}

static void members_talk(void)
{
  said(alice, "@g", "meanwhile");
  members_listen_until("meanwhile");
}

static void judge_member(void)
{
  transcript of_next = {.text = " ", .used = 1};
  busq_peer *next = resume("carol");
  enters(next);
  said(alice, "@g", "last");
  members_listen_until("last");
  while (!times(&of_next, "last")) {
    (void)busq_peer_wait(next, 1000000);
    listen(next, &of_next);
  }
  agree_on(&views_of_alice, &views_of_bob);
  CHECK_EQUAL(times(&views_of_alice, "last"), 1);
  CHECK_EQUAL(times(&of_next, "last"), 1);
  CHECK(times(&views_of_alice, "v") <= 1);
  if (words->has_survived)
    CHECK_EQUAL(times(&views_of_alice, "v"), 1);
  leave(next);
  (void)heard(alice);
  (void)heard(bob);
}

/* ---- a change beside one that is resumed ---- */

static const char *who_resumes;
static busq_peer *resumed;
static transcript views_of_resumed;
static bool was_in;

static void two_members_body(void *argument)
{
  (void)argument;
  arrive();
  enters(join("carol"));
  enters(join("erin"));
}

static void prepare_dead(void)
{
  alice = join("alice");
  enters(alice);
  views_of_alice = views_of_resumed = (transcript){.text = " ", .used = 1};
}

static void prepare_first(void)
{
  prepare_dead();
  who_resumes = "carol";
}

static void prepare_second(void)
{
  prepare_dead();
  who_resumes = "erin";
}

/* It has its slot before the two die, in one process, so that both are dead before any process can look. */
static void before_entering(void)
{
  victim = join("dave");
  child_is_ready();
}

static void two_die(void)
{
  ends_well(in_a_child(two_members_body, NULL));
}

static void act_enter(void)
{
  enters(victim);
  (void)heard(victim);
  said(victim, "@g", "v");
}

static bool is_member(const busq_peer *peer)
{
  uint64_t group;
  if (busq_group_named(company_bus, "@g", 2, false, &group) != BUSQ_OK)
    return false;
  const uint32_t index = busq_group_index(group);
  return busq_group_has(company_bus, index, peer->slot, peer->incarnation) &&
         !busq_group_has_missed(company_bus, index, busq_peer_target(peer));
}

static void one_is_resumed(void)
{
  resumed = may_resume(who_resumes, 0);
  was_in = resumed && is_member(resumed);
}

static void judge_resumed(void)
{
  if (!resumed)
    one_is_resumed();
  CHECK(resumed);
  do {
    said(alice, "@g", "hm");
    listen(alice, &views_of_alice);
    listen(resumed, &views_of_resumed);
    pause_shortly();
  } while (!times(&views_of_alice, "hm"));
  if (was_in != busq_group_has(company_bus, 0, resumed->slot, resumed->incarnation))
    check_fail(__FILE__, __LINE__, "%s %s when its join returned; alice hears \"%s\", it hears \"%s\"", who_resumes,
               was_in ? "was a member" : "was none", views_of_alice.text, views_of_resumed.text);
  CHECK_EQUAL(times(&views_of_resumed, "hm") != 0, was_in);
  enters(resumed);
  said(alice, "@g", "last");
  while (!times(&views_of_resumed, "last")) {
    (void)busq_peer_wait(resumed, 1000000);
    listen(resumed, &views_of_resumed);
  }
  listen(alice, &views_of_alice);
  CHECK_EQUAL(times(&views_of_alice, "last"), 1);
  CHECK_EQUAL(times(&views_of_resumed, "last"), 1);
  if (words->has_survived)
    CHECK_EQUAL(times(&views_of_alice, "v"), 1);
  leave(resumed);
  (void)heard(alice);
}

/* ---- a group of the dead gives way to another, beside one that is resumed ---- */

/* With it all entries have names, and the dead are in one of them. */
static void prepare_full(void)
{
  alice = join("alice");
  CHECK_EQUAL(busq_peer_enter(alice, "@h", 2, COMPANY_PATIENCE_NS), BUSQ_OK);
  (void)heard(alice);
  views_of_resumed = (transcript){.text = " ", .used = 1};
  who_resumes = "erin";
}

static void act_give_way(void)
{
  (void)busq_peer_enter(victim, "@i", 2, 0);
}

static void act_collect(void)
{
  uint64_t dropped;
  (void)busq_bus_collect(company_bus, &dropped);
}

/* A member hears what is sent in its group, which is the same one still; and once it has left, any other may have
 * the entry. */
static void judge_way(void)
{
  if (!resumed)
    one_is_resumed();
  CHECK(resumed);
  const int result = say(alice, "@g", "hm");
  CHECK_EQUAL(was_in ? BUSQ_OK : BUSQ_UNKNOWN_PEER, result);
  listen(resumed, &views_of_resumed);
  CHECK_EQUAL(times(&views_of_resumed, "hm") != 0, was_in);
  leave(resumed);
  bob = join("bob");
  CHECK_EQUAL(busq_peer_leave(alice, "@h", 2, COMPANY_PATIENCE_NS), BUSQ_OK);
  CHECK_EQUAL(busq_peer_enter(bob, "@j", 2, COMPANY_PATIENCE_NS), BUSQ_OK);
  CHECK_EQUAL(busq_peer_enter(bob, "@k", 2, COMPANY_PATIENCE_NS), BUSQ_OK);
  (void)heard(alice);
}

/* ---- the death of a durable member, announced by one that is struck ---- */

static void durable_body(void *argument)
{
  (void)argument;
  arrive();
  enters(resume("bob"));
}

static void durable_dies(void)
{
  ends_well(in_a_child(durable_body, NULL));
}

static void alice_mourns(void)
{
  for (unsigned turn = 0; turn < 3; turn++) {
    listen(alice, &views_of_alice);
    (void)busq_peer_wait(alice, 1000000);
  }
  listen(alice, &views_of_alice);
}

static void durable_is_resumed(void)
{
  resumed = may_resume("bob", BUSQ_JOIN_DURABLE);
}

/* Its last view is one without it, as the others see it, or it is a member. */
static void judge_durable(void)
{
  if (!resumed)
    durable_is_resumed();
  CHECK(resumed);
  for (unsigned turn = 0; turn < 3; turn++) {
    listen(resumed, &views_of_resumed);
    alice_mourns();
    (void)busq_peer_wait(resumed, 1000000);
  }
  listen(resumed, &views_of_resumed);
  const bool is_in = busq_group_has(company_bus, 0, resumed->slot, resumed->incarnation);
  if (is_in != (strstr(views_of_resumed.members, "bob") != NULL))
    check_fail(__FILE__, __LINE__, "bob %s a member; alice hears \"%s\", bob \"%s\"", is_in ? "is" : "is not", views_of_alice.text,
               views_of_resumed.text);
  leave(resumed);
}

/* ---- a message that does not count, to one that is resumed ---- */

static pid_t carols;

/* Its slot is the lowest, so that what is sent to the group is staged there first. */
static void carol_body(void *argument)
{
  (void)argument;
  arrive();
  busq_peer *peer = join("carol");
  tell(&words->begun);
  wait_for(&words->may_go_on, 1);
  enters(peer);
  tell(&words->ended);
  for (;;)
    pause();
}

static void prepare_late(void)
{
  carols = in_a_child(carol_body, NULL);
  wait_for(&words->begun, 1);
  prepare_dead();
  tell(&words->may_go_on);
  wait_for(&words->ended, 1);
  words->may_go_on = 0;
}

static void nothing(void)
{
}

static void act_say(void)
{
  said(victim, "@g", "m");
}

static void carol_dies(void)
{
  murder(carols);
  alice_mourns();
}

/* Alice hears messages behind a view without carol that carol does not hear. */
static void judge_late(void)
{
  alice_mourns();
  who_resumes = "carol";
  one_is_resumed();
  CHECK(resumed);
  listen(resumed, &views_of_resumed);
  if (times(&views_of_resumed, "m") && strstr(views_of_alice.text, ":alice m "))
    check_fail(__FILE__, __LINE__, "alice hears \"%s\", carol \"%s\"", views_of_alice.text, views_of_resumed.text);
  leave(resumed);
}

/* ---- an owner that is struck, beside a holder that is resumed, and is not durable ---- */

static uint32_t was_held;
static char of_holder[512];

static void fleeting_body(void *argument)
{
  (void)argument;
  arrive();
  busq_peer *peer = join("bob");
  tell(&words->begun);
  while (!strstr(all_heard(peer), "x+1"))
    ;
}

static void before_ending(void)
{
  victim = join("alice");
  words->node = make_node(victim);
  tell(&words->is_ready);
  wait_for(&words->begun, 1);
  hands(victim, "bob", words->node, "x");
  wait_for(&words->may_go_on, 1);
}

static void holder_dies(void)
{
  ends_well(in_a_child(fleeting_body, NULL));
}

static void act_destroy(void)
{
  destroyed(victim, words->node);
}

static void act_look_after(void)
{
  victim_hears();
  strike_end();
  destroyed(victim, words->node);
  hear(victim, words->heard, sizeof words->heard);
}

static void holder_is_resumed(void)
{
  resumed = may_resume("bob", 0);
  was_held = resumed && busq_node_is_held(resumed, busq_node_unpack(words->node)) && busq_peer_node_is_alive(resumed, words->node);
}

static void judge_fleeting(void)
{
  if (!resumed)
    holder_is_resumed();
  CHECK(resumed);
  of_holder[0] = '\0';
  for (unsigned turn = 0; turn < 2; turn++)
    hear(resumed, of_holder, sizeof of_holder);
  const bool is_alive = busq_peer_node_is_alive(resumed, words->node);
  if (was_held && !is_alive && count_of(of_holder, "destroyed@0") != 1)
    check_fail(__FILE__, __LINE__, "bob held a handle when its join returned, and hears \"%s\"; alice \"%s\"", of_holder, words->heard);
  CHECK(is_alive || !busq_node_is_held(resumed, busq_node_unpack(words->node)));
  leave(resumed);
}

/* ---- one that announces a death, beside the one that comes after the dead ---- */

static void watches(busq_peer *peer)
{
  CHECK_EQUAL(busq_peer_watch(peer, "carol", 5, COMPANY_PATIENCE_NS), BUSQ_OK);
}

static void watched_body(void *argument)
{
  (void)argument;
  arrive();
  (void)join("carol");
}

static void prepare_watched(void)
{
  alice = join("alice");
  watches(alice);
  views_of_alice = views_of_resumed = (transcript){.text = " ", .used = 1};
  who_resumes = "carol";
}

static void before_telling(void)
{
  victim = join("dave");
  watches(victim);
  child_is_ready();
}

static void watched_dies(void)
{
  ends_well(in_a_child(watched_body, NULL));
}

static void act_tell(void)
{
  (void)busq_peer_wait(victim, 1000000);
  (void)busq_peer_wait(victim, 1000000);
}

static void watched_comes_again(void)
{
  alice_mourns();
  one_is_resumed();
  alice_mourns();
}

static void judge_watched(void)
{
  if (!resumed)
    one_is_resumed();
  CHECK(resumed);
  while (!times(&views_of_alice, "+carol") || (times(&views_of_alice, "-carol") && !strstr(views_of_alice.text, "-carol +carol")))
    alice_mourns();
  alice_mourns();
  if (times(&views_of_alice, "-carol") > 1)
    check_fail(__FILE__, __LINE__, "carol died once, and alice hears \"%s\"", views_of_alice.text);
  leave(resumed);
}

/* ---- a node of one that has a slot whose nodes were all used ---- */

static void two_nodes_body(void *argument)
{
  (void)argument;
  arrive();
  busq_peer *peer = join("dead");
  words->node = make_node(peer);
  hands(peer, "bob", words->node, "x");
  hands(peer, "bob", make_node(peer), "y");
}

static void prepare_used(void)
{
  alice = join("alice"), bob = join("bob");
  (void)join("more");
  ends_well(in_a_child(two_nodes_body, NULL));
  while (!strstr(of_bob, "destroyed@0") || !strstr(of_bob, "destroyed@1"))
    hear(bob, of_bob, sizeof of_bob);
}

static void act_make(void)
{
  victim = join("dave");
  (void)make_node(victim);
}

static void bob_greets(void)
{
  (void)say(bob, "dave", "z");
}

/* ---- the extent that a predecessor has cut records from ---- */

enum { LEFT_BEHIND = 5 };

/* A quarter of an extent each: the first four fill one, of which a successor looks at two at most. */
static void sends_a_quarter(busq_peer *peer, char text)
{
  static char bytes[ARENA_BYTES];
  const uint64_t quarter = company_bus->geometry.extent_bytes / 4;
  uint64_t target;
  CHECK(quarter > 256 && quarter <= sizeof bytes);
  bytes[0] = text;
  CHECK_EQUAL(look_up(peer, "bob", &target), 1);
  CHECK_EQUAL(busq_peer_send(peer, &target, 1, bytes, quarter - 256, COMPANY_PATIENCE_NS), BUSQ_OK);
}

static void short_life_body(void *argument)
{
  (void)argument;
  arrive();
  busq_peer *peer = resume("alice");
  for (int i = 0; i < LEFT_BEHIND; i++)
    sends_a_quarter(peer, 'a');
}

static void prepare_part_used(void)
{
  bob = join("bob");
  ends_well(in_a_child(short_life_body, NULL));
}

static void act_send_one(void)
{
  victim = resume("alice");
  sends_a_quarter(victim, 'v');
}

static void judge_part_used(void)
{
  busq_message message;
  uint32_t count;
  size_t used = 0;
  busq_peer *next = resume("alice");
  sends_a_quarter(next, 'w');
  CHECK_EQUAL(used_bytes(), 2 * company_bus->geometry.extent_bytes);
  do {
    CHECK_EQUAL(busq_peer_recv(bob, &message, 1, &count, COMPANY_PATIENCE_NS), BUSQ_OK);
    CHECK(used < sizeof of_bob - 1);
    of_bob[used++] = *(const char *)message.data;
    busq_peer_release(bob, &message);
  } while (of_bob[used - 1] != 'w');
  of_bob[used] = '\0';
  if (strcmp(of_bob, "aaaaavw") != 0 && (words->has_survived || strcmp(of_bob, "aaaaaw") != 0))
    check_fail(__FILE__, __LINE__, "bob hears \"%s\"", of_bob);
  leave(next);
}

/* ---- one run ---- */

static void victim_body(void *argument)
{
  const strike_task *self = argument;
  const script *s = self->script;
  arrive();
  if (s->before)
    s->before();
  strike_begin(self->steps, self->stops, words->struck_at);
  s->act();
  strike_end();
  words->has_survived = 1;
}

static void leave_and_forget(void)
{
  busq_peer **const cast[] = {&alice, &bob, &carol};
  for (unsigned i = 0; i < 3; i++) {
    if (*cast[i])
      leave(*cast[i]);
    *cast[i] = NULL;
  }
  part();
}

/* True if the victim came through. */
static bool strike_once(const void *argument, uint64_t steps, bool stops)
{
  const script *s = argument;
  memset(words, 0, sizeof *words);
  of_alice[0] = of_bob[0] = '\0';
  is_struck_to_stop = stops;
  result_of_n = BUSQ_FULL;
  meet(PEERS, CAPACITY, ARENA_BYTES);
  resumed = NULL;
  carol = s->has_no_carol ? NULL : join("carol");
  check_test = s->name;
  s->prepare();
  words->is_ready = 0;
  const pid_t pid = in_a_child(victim_body, &(strike_task){s, steps, stops});
  if (s->before) {
    wait_for(&words->is_ready, 1);
    s->between();
    tell(&words->may_go_on);
  }
  const bool is_stopped = strike_await(pid, s->name, steps, stops, words->struck_at);
  s->meanwhile();
  if (is_stopped)
    strike_go_on(pid);
  s->judge();
  leave_and_forget();
  return words->has_survived && !words->struck_at[0];
}

/* ---- one that has missed a view, and can't be taken off the group ---- */

static void erin_body(void *argument)
{
  (void)argument;
  arrive();
  enters(join("erin"));
}

static void one_that_has_missed_a_view_hears_nothing(void)
{
  check_test = "one that has missed a view";
  meet(PEERS, CAPACITY, ARENA_BYTES);
  prepare_dead();
  bob = join("bob");
  enters(bob);
  ends_well(in_a_child(erin_body, NULL));
  CHECK_EQUAL(busq_peer_leave(bob, "@g", 2, COMPANY_PATIENCE_NS), BUSQ_OK); /* of which erin gets no notice */
  while (say(bob, "alice", "z") == BUSQ_OK)
    ;
  who_resumes = "erin";
  one_is_resumed();
  CHECK(resumed && !was_in);
  busq_message message;
  CHECK_EQUAL(take_now(alice, &message), BUSQ_OK);
  busq_peer_release(alice, &message);
  said(bob, "@g", "hm");
  listen(resumed, &views_of_resumed);
  CHECK_EQUAL(times(&views_of_resumed, "hm"), 0);
  alice_mourns();
  CHECK_EQUAL(times(&views_of_alice, "hm"), 1);
  CHECK(!busq_group_has(company_bus, 0, resumed->slot, resumed->incarnation));
  listen(resumed, &views_of_resumed);
  CHECK_EQUAL(times(&views_of_resumed, "hm"), 0);
  enters(resumed);
  said(alice, "@g", "last");
  listen(resumed, &views_of_resumed);
  CHECK_EQUAL(times(&views_of_resumed, "last"), 1);
  leave(resumed);
  leave_and_forget();
  printf("ok  %s\n", "one that has missed a view hears nothing of the group");
}

/* ---- what a dead owner was sent before its node's end ---- */

static void short_lived_body(void *argument)
{
  (void)argument;
  arrive();
  busq_peer *peer = join("alice");
  words->node = make_node(peer);
  hands(peer, "bob", words->node, "x");
  hands(peer, "carol", words->node, "x");
  child_is_ready();
}

static void fleeting_member_body(void *argument)
{
  (void)argument;
  arrive();
  busq_peer *peer = join("carol");
  enters(peer);
  (void)heard(peer); /* or its slot would be kept for a successor */
  child_is_ready();
}

/* Carol has died as a member, unnoticed, and another carol has its slot.  All slots of the bus are in the group, or
 * not. */
static void who_has_the_slot_of_a_dead_member_takes_part(bool is_full, const char *to)
{
  check_test = "the slot of a dead member";
  meet(3, CAPACITY, ARENA_BYTES);
  alice = join("alice"), bob = join("bob");
  enters(alice);
  if (is_full)
    enters(bob);
  views_of_alice = (transcript){.text = " ", .used = 1};
  memset(words, 0, sizeof *words);
  const pid_t carol_pid = in_a_child(fleeting_member_body, NULL);
  wait_for(&words->is_ready, 1);
  listen(alice, &views_of_alice);
  (void)heard(bob);
  tell(&words->may_go_on);
  ends_well(carol_pid);
  resumed = join("carol");
  if (!to)
    enters(resumed);
  said(alice, to ? to : "@g", "hi");
  views_of_resumed = (transcript){.text = " ", .used = 1};
  listen(resumed, &views_of_resumed);
  CHECK_EQUAL(times(&views_of_resumed, "hi"), 1);
  listen(alice, &views_of_alice);
  CHECK_EQUAL(times(&views_of_alice, "hi"), 1);
  leave_and_forget();
  printf("ok  who has the slot of a dead member %s%s\n", to ? "is named beside the group" : "enters it", is_full ? ", of all" : "");
}

/* Bob's messages raise the clock of alice's queue alone, and carol, which ends the node, has heard of none of them. */
static void what_a_dead_owner_was_sent_before_the_end_comes_to_its_successor(void)
{
  check_test = "a dead owner";
  memset(words, 0, sizeof *words);
  meet(PEERS, CAPACITY, ARENA_BYTES);
  bob = join("bob");
  carol = join("carol");
  const pid_t alices = in_a_child(short_lived_body, NULL);
  wait_for(&words->is_ready, 1);
  (void)all_heard(bob);
  for (unsigned i = 0; i < 8; i++)
    sent_to(bob, words->node, "m");
  tell(&words->may_go_on);
  ends_well(alices);
  of_alice[0] = '\0';
  while (!strstr(of_alice, "destroyed@0"))
    hear(carol, of_alice, sizeof of_alice);
  resumed = may_resume("alice", 0);
  CHECK(resumed);
  of_alice[0] = '\0';
  hear(resumed, of_alice, sizeof of_alice);
  CHECK_EQUAL(count_of(of_alice, "m@0"), 8);
  leave(resumed);
  leave_and_forget();
  printf("ok  what a dead owner was sent before the node's end comes to its successor\n");
}

int main(int n_arguments, char **arguments)
{
  strike_options(n_arguments, arguments);
  busq_step_looks = 2;
  company_groups = 2;
  company_nodes = 2;
  const script scripts[] = {
      {"resuming what holds a handle, before the node's end", prepare_holder, NULL, NULL, act_resume, alice_destroys, judge_holder, false},
      {"resuming what holds a handle, behind the node's end", prepare_ended, NULL, NULL, act_resume, others_talk, judge_holder, false},
      {"resuming what owns a node", prepare_owner, NULL, NULL, act_own, bob_sends, judge_owner, false},
      {"getting the slot of one who owned a node", prepare_slot, NULL, NULL, act_join, bob_is_told, judge_slot, false},
      {"acknowledging the notice of an end", prepare_sender, before_holding, hand_and_destroy, act_acknowledge, others_talk, judge_acknowledged, false},
      {"a handle that comes again", prepare_careless_plain, NULL, NULL, act_take_again, others_talk, judge_again, false},
      {"a handle that comes again to one who is durable", prepare_careless_durable, NULL, NULL, act_take_again, others_talk, judge_again, false},
      {"a handle that comes again, of a node that ends", prepare_careless_plain, NULL, NULL, act_take_again, alice_destroys, judge_again, false},
      {"a handle that comes again to one who is durable, of a node that ends", prepare_careless_durable, NULL, NULL, act_take_again, alice_destroys, judge_again, false},
      {"resuming a member", prepare_member, NULL, NULL, act_return, members_talk, judge_member, true},
      {"a change beside the first of two dead, who is resumed", prepare_first, before_entering, two_die, act_enter, one_is_resumed, judge_resumed, true},
      {"the end of a member that is durable and dead", prepare_dead, before_entering, durable_dies, act_enter, alice_mourns, judge_durable, true},
      {"the end of a member that is durable and resumed", prepare_dead, before_entering, durable_dies, act_enter, durable_is_resumed, judge_durable, true},
      {"a name for which a group of the dead gives way", prepare_full, before_entering, two_die, act_give_way, one_is_resumed, judge_way, true},
      {"collecting a group of the dead", prepare_full, before_entering, two_die, act_collect, one_is_resumed, judge_way, true},
      {"a message to one who is resumed", prepare_late, before_entering, nothing, act_say, carol_dies, judge_late, true},
      {"destroying beside a holder who is resumed", nothing, before_ending, holder_dies, act_destroy, holder_is_resumed, judge_fleeting, true},
      {"tending beside a holder who is resumed", nothing, before_ending, holder_dies, act_look_after, holder_is_resumed, judge_fleeting, true},
      {"telling of a death beside one who is resumed", prepare_watched, before_telling, watched_dies, act_tell, watched_comes_again, judge_watched, true},
      {"getting a slot whose nodes are used", prepare_used, NULL, NULL, act_make, bob_greets, nothing, true},
      {"going on in an extent", prepare_part_used, NULL, NULL, act_send_one, nothing, judge_part_used, true},
      {"a change beside the second of two dead, who is resumed", prepare_second, before_entering, two_die, act_enter, one_is_resumed, judge_resumed, true},
  };
  words = shared_memory(sizeof *words);
  if (n_arguments < 2) {
    one_that_has_missed_a_view_hears_nothing();
    what_a_dead_owner_was_sent_before_the_end_comes_to_its_successor();
    for (int is_full = 0; is_full < 2; is_full++) {
      who_has_the_slot_of_a_dead_member_takes_part(is_full, "@g carol");
      who_has_the_slot_of_a_dead_member_takes_part(is_full, NULL);
    }
    who_has_the_slot_of_a_dead_member_takes_part(true, "@g alice bob carol");
  }
  for (unsigned i = 0; i < sizeof scripts / sizeof scripts[0]; i++)
    if (n_arguments < 2 || arguments[1][0] == '-' || strstr(scripts[i].name, arguments[1]))
      strike_tell(scripts[i].name, strike_once, &scripts[i]);
  return 0;
}
