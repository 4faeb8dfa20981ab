/* SPDX-License-Identifier: Apache-2.0 */
/* How handles are counted, and entries of nodes used again.  What users were promised of nodes is in tests/core/test_nodes.py. */
#include "harness/company.h"
#include "harness/nodes.h"
#include "harness/test.h"

TEST(test_a_handle_that_came_twice_is_released_twice)
{
  company_nodes = 4;
  meet(4, 16, 1 << 16);
  busq_peer *alice = join("alice"), *bob = join("bob");
  const uint64_t node = make_node(alice);
  hands(alice, "bob", node, "x");
  hands(alice, "bob", node, "y");
  hears_all(bob, "x+1 y+1");
  busq_peer_handle_release(bob, node);
  CHECK(busq_peer_handle_is_held(bob, node));
  hears_all(alice, "");
  busq_peer_handle_release(bob, node);
  CHECK(!busq_peer_handle_is_held(bob, node));
  busq_peer_handle_release(bob, node);
  hears_all(alice, "released@0");
}

TEST(test_a_grant_that_was_not_taken_keeps_it)
{
  meet(4, 16, 1 << 16);
  busq_peer *alice = join("alice"), *bob = join("bob");
  const uint64_t node = make_node(alice);
  hands(alice, "bob", node, "x");
  hears_all(bob, "x+1");
  hands(bob, "bob", node, "mine");
  busq_peer_handle_release(bob, node);
  hears_all(alice, "");
  hears_all(bob, "mine+1");
  busq_peer_handle_release(bob, node);
  hears_all(alice, "released@0");
}

TEST(test_a_message_that_was_given_back_keeps_it)
{
  meet(4, 16, 1 << 16);
  busq_peer *alice = join("alice"), *bob = join("bob");
  const uint64_t node = make_node(alice);
  busq_message message;
  hands(alice, "bob", node, "x");
  for (int i = 0; i < 3; i++) {
    CHECK_EQUAL(take_now(bob, &message), BUSQ_OK);
    CHECK_EQUAL(busq_peer_give_back(bob, BUSQ_TAKE_PINNED, &message), BUSQ_OK);
    CHECK(!busq_peer_handle_is_held(bob, node));
    hears_all(alice, "");
  }
  hears_all(bob, "x+1");
  hears_all(alice, "");
  busq_peer_handle_release(bob, node);
  hears_all(alice, "released@0");
  hears_all(alice, "");
}

TEST(test_a_message_that_was_given_back_does_not_stand_for_another)
{
  meet(4, 16, 1 << 16);
  busq_peer *alice = join("alice"), *bob = join("bob");
  const uint64_t node = make_node(alice);
  busq_message message;
  hands(alice, "bob", node, "x");
  hands(alice, "bob", node, "y");
  CHECK_EQUAL(take_now(bob, &message), BUSQ_OK);
  CHECK_EQUAL(busq_peer_give_back(bob, BUSQ_TAKE_PINNED, &message), BUSQ_OK);
  CHECK_EQUAL(take_now(bob, &message), BUSQ_OK);
  busq_peer_handle_release(bob, node);
  hears_all(alice, "");
  busq_peer_release(bob, &message);
  hears_all(bob, "y+1");
  busq_peer_handle_release(bob, node);
  hears_all(alice, "released@0");
}

TEST(test_others_get_what_a_dead_node_misses)
{
  meet(4, 16, 1 << 16);
  busq_peer *alice = join("alice"), *bob = join("bob"), *carol = join("carol");
  const uint64_t one = make_node(alice), two = make_node(alice), three = make_node(carol);
  hands(alice, "bob", one, "1");
  hands(alice, "bob", two, "2");
  hands(carol, "bob", three, "3");
  hears_all(bob, "1+1 2+1 3+1");
  destroyed(alice, one);
  uint8_t missed[3];
  uint32_t sent = 0;
  const uint64_t nodes[] = {one, two, three};
  CHECK_EQUAL(send_letter(bob, "", nodes, 3, NULL, 0, "all", missed, &sent), BUSQ_PEER_DEAD);
  CHECK_EQUAL(sent, 1);
  CHECK(missed[0] && !missed[1] && !missed[2]);
  hears_all(alice, "destroyed@0 all@1");
  hears_all(carol, "all@0");
  destroyed(alice, two);
  const uint64_t dead[] = {one, two};
  CHECK_EQUAL(send_letter(bob, "", dead, 2, NULL, 0, "none", missed, &sent), BUSQ_PEER_DEAD);
  CHECK_EQUAL(sent, 0);
  CHECK_EQUAL(send_letter(bob, "alice", dead, 2, NULL, 0, "by name", missed, &sent), BUSQ_PEER_DEAD);
  CHECK_EQUAL(sent, 1);
  hears_all(alice, "destroyed@1 by name");
  hears_all(bob, "destroyed@0 destroyed@1");
}

TEST(test_entries_are_used_again_when_everybody_was_told)
{
  company_nodes = 1;
  meet(4, 16, 1 << 16);
  busq_peer *alice = join("alice"), *bob = join("bob");
  for (int i = 0; i < 100; i++) {
    const uint64_t node = make_node(alice);
    uint64_t none;
    hands(alice, "bob", node, "x");
    CHECK_EQUAL(busq_peer_node(alice, &none), BUSQ_NO_SPACE);
    destroyed(alice, node);
    CHECK_EQUAL(busq_peer_node(alice, &none), BUSQ_NO_SPACE);
    hears_all(alice, "destroyed@0");
    CHECK_EQUAL(busq_peer_node(alice, &none), BUSQ_NO_SPACE);
    if (i % 2)
      hears_all(bob, "x+1 destroyed@0");
    else {
      leave(bob);
      bob = join("bob");
    }
  }
  company_nodes = 4;
}
