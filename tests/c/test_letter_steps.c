/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens meanwhile, between any two steps of a peer that sends to names, a group and a node, with a handle.
 *
 * alice and bob are members of "@g", carol has the node, dave is named, eve sends, frank is about to enter.  At eve's
 * n-th step something happens, for n = 1, 2, 3 and so on until it comes through; and then
 *
 *   - alice and bob have heard the same, and the message once;
 *   - frank has heard it if, and only if, its view comes before it;
 *   - dave has heard it once, and carol; but where carol's node ended before it carol has not, unless it is a member
 *     itself, and eve got PeerDead;
 *   - each peer that got the handle alive got the notice of its end, and one that had the notice before got it dead.
 */
#include "base/atomic.h"
#include "harness/nodes.h"
#include "harness/test.h"

#ifndef BUSQ_STEPS
#error "this test needs a core built with BUSQ_STEPS"
#endif

static busq_peer *alice, *bob, *carol, *dave, *eve, *frank;
static uint64_t node;
static uint64_t steps_left;
static void (*meanwhile)(void);
static bool carol_is_member;

static void step(const char *where)
{
  (void)where;
  if (--steps_left)
    return;
  busq_step_hook = NULL;
  meanwhile();
}

static void frank_enters(void)
{
  CHECK_EQUAL(busq_peer_enter(frank, "@g", 2, 0), BUSQ_OK);
}

static void bob_leaves(void)
{
  CHECK_EQUAL(busq_peer_leave(bob, "@g", 2, 0), BUSQ_OK);
}

static void bob_goes(void)
{
  leave(bob);
  bob = NULL;
}

static void node_ends(void)
{
  destroyed(carol, node);
}

static void both_change(void)
{
  node_ends();
  frank_enters();
}

static void company_meets(void)
{
  company_groups = 2;
  company_nodes = 2;
  meet(8, 32, 1 << 18);
  alice = join("alice");
  bob = join("bob");
  carol = join("carol");
  dave = join("dave");
  eve = join("eve");
  frank = join("frank");
  node = make_node(carol);
  hands(carol, "eve", node, "here");
  hears_all(eve, "here+1");
  CHECK_EQUAL(busq_peer_enter(alice, "@g", 2, 0), BUSQ_OK);
  CHECK_EQUAL(busq_peer_enter(bob, "@g", 2, 0), BUSQ_OK);
  hears_all(alice, "view view");
  hears_all(bob, "view");
  if (!carol_is_member)
    return;
  CHECK_EQUAL(busq_peer_enter(carol, "@g", 2, 0), BUSQ_OK);
  hears_all(alice, "view");
  hears_all(bob, "view");
  hears_all(carol, "view");
}

static bool comes_before(const char *text, const char *first, const char *second)
{
  const char *a = strstr(text, first), *b = strstr(text, second);
  return a && (!b || a < b);
}

typedef struct {
  char of_alice[256], of_bob[256], of_carol[256], of_dave[256], of_frank[256];
} transcripts;

static void hear(char *text, busq_peer *peer)
{
  snprintf(text, 256, "%s", peer ? all_heard(peer) : "");
}

#define HEARD(condition)                                                                                                           \
  do {                                                                                                                             \
    if (!(condition))                                                                                                              \
      check_fail(__FILE__, __LINE__, #condition ": alice \"%s\", bob \"%s\", carol \"%s\", dave \"%s\", frank \"%s\"; result %d", \
                 heard->of_alice, heard->of_bob, heard->of_carol, heard->of_dave, heard->of_frank, result);                        \
  } while (0)

static void judge_handle(const transcripts *heard, const char *text, int result)
{
  if (strstr(text, "m+1") || strstr(text, "m@0+1"))
    HEARD(count_of(text, "destroyed@0") == (meanwhile == node_ends || meanwhile == both_change));
  HEARD(!strstr(text, "+0") || !comes_before(text, "+0", "destroyed@0") || !strstr(text, "destroyed@0"));
  HEARD(!strstr(text, "destroyed@0") || !comes_before(text, "destroyed@0", "+1") || !strstr(text, "+1"));
}

static void judge(const transcripts *heard, int result, uint32_t sent)
{
  HEARD(sent == 1);
  HEARD(count_of(heard->of_alice, "m+") == 1);
  HEARD(count_of(heard->of_dave, "m+") == 1);
  if (meanwhile == frank_enters || meanwhile == node_ends || meanwhile == both_change)
    HEARD(strcmp(heard->of_alice, heard->of_bob) == 0);
  if (meanwhile == bob_leaves) /* bob's last view, or the one without it */
    HEARD(count_of(heard->of_bob, "m+") == comes_before(heard->of_alice, "m+", "view"));
  HEARD(count_of(heard->of_frank, "m+") == (strstr(heard->of_frank, "view") && comes_before(heard->of_alice, "view", "m+")));
  HEARD(result == BUSQ_OK || (result == BUSQ_PEER_DEAD && (meanwhile == node_ends || meanwhile == both_change)));
  HEARD(count_of(heard->of_carol, "m@0+") + count_of(heard->of_carol, "m+") == (result == BUSQ_OK || carol_is_member));
  HEARD(carol_is_member || !comes_before(heard->of_carol, "destroyed@0", "m@0") || !strstr(heard->of_carol, "m@0"));
  const char *const texts[] = {heard->of_alice, heard->of_dave, heard->of_frank};
  for (int i = 0; i < 3; i++)
    judge_handle(heard, texts[i], result);
}

/* False once the sender has come through before it. */
static bool happens_at(uint64_t steps)
{
  uint8_t missed[1];
  uint32_t sent;
  transcripts heard;
  company_meets();
  steps_left = steps;
  busq_step_hook = step;
  const int result = send_letter(eve, "dave @g", &node, 1, &node, 1, "m", missed, &sent);
  busq_step_hook = NULL;
  const bool has_happened = steps_left == 0;
  if (has_happened) {
    hear(heard.of_alice, alice);
    hear(heard.of_bob, bob);
    hear(heard.of_carol, carol);
    hear(heard.of_dave, dave);
    hear(heard.of_frank, frank);
    judge(&heard, result, sent);
  }
  part();
  return has_happened;
}

static void happens_at_every_step(void (*what)(void))
{
  enum { STEPS_MIN = 20 };
  uint64_t steps = 1;
  for (meanwhile = what; happens_at(steps); steps++)
    ;
  CHECK(steps > STEPS_MIN);
}

TEST(test_a_peer_enters_meanwhile)
{
  happens_at_every_step(frank_enters);
}

TEST(test_a_member_leaves_meanwhile)
{
  happens_at_every_step(bob_leaves);
}

TEST(test_a_member_closes_meanwhile)
{
  happens_at_every_step(bob_goes);
}

TEST(test_the_node_ends_meanwhile)
{
  happens_at_every_step(node_ends);
}

TEST(test_the_node_ends_and_a_peer_enters_meanwhile)
{
  happens_at_every_step(both_change);
}

TEST(test_the_node_of_a_member_ends_meanwhile)
{
  carol_is_member = true;
  happens_at_every_step(node_ends);
  happens_at_every_step(both_change);
  carol_is_member = false;
}
