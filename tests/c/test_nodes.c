/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes and handles, in the words of those that wished for them: "The behaviour of the system may be different based on
 * an event happening before or after a node has been destroyed, so deciding when a node destruction takes place must be
 * done in terms of timestamps and clocks."
 */
#include "harness/company.h"
#include "harness/nodes.h"
#include "harness/test.h"

TEST(test_a_message_to_a_node_succeeds_before_its_end_and_fails_after)
{
  company_nodes = 4;
  meet(4, 16, 1 << 16);
  busq_peer *alice = join("alice"), *bob = join("bob");
  const uint64_t node = make_node(alice);
  hands(alice, "bob", node, "here");
  hears_all(bob, "here+1");
  sent_to(bob, node, "before");
  destroyed(alice, node);
  CHECK_EQUAL(send_to(bob, node, "after"), BUSQ_PEER_DEAD);
  hears_all(alice, "before@0 destroyed@0");
  hears_all(bob, "destroyed@0");
  part();
}

TEST(test_who_got_the_notice_never_gets_the_handle_again)
{
  meet(4, 16, 1 << 16);
  busq_peer *alice = join("alice"), *bob = join("bob"), *carol = join("carol");
  const uint64_t node = make_node(alice);
  hands(alice, "bob carol", node, "both");
  hears_all(bob, "both+1");
  hears_all(carol, "both+1");
  hands(bob, "carol", node, "early");
  destroyed(alice, node);
  hands(bob, "carol", node, "late");
  hears_all(carol, "early+1 destroyed@0 late+0");
  hears_all(bob, "destroyed@0");
  part();
}

TEST(test_a_handle_on_its_way_is_followed_by_its_notice)
{
  meet(4, 16, 1 << 16);
  busq_peer *alice = join("alice"), *bob = join("bob");
  const uint64_t node = make_node(alice);
  hands(alice, "bob", node, "here");
  destroyed(alice, node);
  hears_all(bob, "here+1 destroyed@0");
  hears_all(alice, "destroyed@0");
  part();
}

TEST(test_the_owner_is_told_once_when_nobody_holds_it_any_more)
{
  meet(4, 16, 1 << 16);
  busq_peer *alice = join("alice"), *bob = join("bob"), *carol = join("carol");
  const uint64_t node = make_node(alice);
  hands(alice, "bob carol", node, "x");
  hears_all(bob, "x+1");
  hears_all(carol, "x+1");
  busq_peer_handle_release(bob, node);
  hears_all(alice, "");
  sent_to(carol, node, "last");
  busq_peer_handle_release(carol, node);
  hears_all(alice, "last@0 released@0");
  hears_all(alice, "");
  hands(alice, "bob", node, "again");
  hears_all(alice, "");
  hears_all(bob, "again+1");
  busq_peer_handle_release(bob, node);
  hears_all(alice, "released@0");
  destroyed(alice, node);
  hears_all(alice, "destroyed@0");
  hears_all(bob, "");
  part();
}

TEST(test_a_handle_that_came_twice_is_released_twice)
{
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
  part();
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
  part();
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
  part();
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
  part();
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
  part();
}

TEST(test_a_name_and_a_node_of_its_owner_are_one_message)
{
  meet(4, 16, 1 << 16);
  busq_peer *alice = join("alice"), *bob = join("bob");
  const uint64_t node = make_node(alice);
  uint8_t missed[1];
  uint32_t sent;
  hands(alice, "bob", node, "1");
  hears_all(bob, "1+1");
  CHECK_EQUAL(send_letter(bob, "alice bob", &node, 1, NULL, 0, "x", missed, &sent), BUSQ_OK);
  hears_all(alice, "x@0");
  hears_all(bob, "x");
  part();
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
  part();
}

TEST(test_whoever_leaves_ends_its_nodes_and_gives_up_its_handles)
{
  meet(4, 16, 1 << 16);
  busq_peer *alice = join("alice"), *bob = join("bob"), *carol = join("carol");
  const uint64_t node = make_node(alice), other = make_node(bob);
  hands(alice, "bob carol", node, "x");
  hands(bob, "alice", other, "y");
  hears_all(alice, "y+1");
  hears_all(bob, "x+1");
  said(alice, "bob", "last word");
  leave(alice);
  hears_all(bob, "last word destroyed@0 released@0");
  hears_all(carol, "x+1 destroyed@0");
  CHECK_EQUAL(send_to(bob, node, "too late"), BUSQ_PEER_DEAD);
  part();
}

static void enters(busq_peer *peer)
{
  CHECK_EQUAL(busq_peer_enter(peer, "@g", 2, 0), BUSQ_OK);
}

TEST(test_a_group_stands_beside_nodes_and_names)
{
  company_groups = 4;
  meet(6, 16, 1 << 16);
  busq_peer *alice = join("alice"), *bob = join("bob"), *carol = join("carol"), *dave = join("dave"), *eve = join("eve");
  const uint64_t node = make_node(carol);
  uint8_t missed[1];
  uint32_t sent;
  hands(carol, "eve", node, "here");
  hears_all(eve, "here+1");
  enters(alice);
  enters(bob);
  hears_all(alice, "view view");
  hears_all(bob, "view");
  CHECK_EQUAL(send_letter(eve, "@g dave", &node, 1, &node, 1, "all", missed, &sent), BUSQ_OK);
  hears_all(alice, "all+1");
  hears_all(bob, "all+1");
  hears_all(carol, "all@0+1");
  hears_all(dave, "all+1");
  destroyed(carol, node);
  CHECK_EQUAL(send_letter(eve, "@g", &node, 1, &node, 1, "rest", missed, &sent), BUSQ_PEER_DEAD);
  CHECK(sent == 1 && missed[0]);
  hears_all(alice, "destroyed@0 rest+0");
  hears_all(bob, "destroyed@0 rest+0");
  hears_all(carol, "destroyed@0");
  hears_all(dave, "destroyed@0");
  hears_all(eve, "destroyed@0");
  part();
}

TEST(test_a_member_gets_what_goes_to_its_node_and_its_group_once)
{
  meet(4, 16, 1 << 16);
  busq_peer *alice = join("alice"), *bob = join("bob");
  const uint64_t node = make_node(alice);
  uint8_t missed[1];
  uint32_t sent;
  enters(alice);
  enters(bob);
  hands(alice, "@g", node, "take");
  hears_all(alice, "view view take+1");
  hears_all(bob, "view take+1");
  CHECK_EQUAL(send_letter(bob, "alice @g", &node, 1, NULL, 0, "once", missed, &sent), BUSQ_OK);
  hears_all(alice, "once@0");
  hears_all(bob, "once");
  destroyed(alice, node);
  CHECK_EQUAL(send_letter(bob, "@g", &node, 1, NULL, 0, "member", missed, &sent), BUSQ_PEER_DEAD);
  hears_all(alice, "destroyed@0 member");
  hears_all(bob, "destroyed@0 member");
  part();
}

TEST(test_a_group_beside_nodes_has_members_and_is_one)
{
  meet(4, 16, 1 << 16);
  busq_peer *alice = join("alice"), *bob = join("bob");
  const uint64_t node = make_node(alice);
  uint8_t missed[1];
  uint32_t sent;
  enters(bob);
  CHECK_EQUAL(busq_peer_enter(bob, "@h", 2, 0), BUSQ_OK);
  CHECK_EQUAL(send_letter(alice, "@g @h", &node, 1, NULL, 0, "x", missed, &sent), BUSQ_INVALID);
  CHECK(strstr(busq_error_text(), "2 groups among the receivers"));
  CHECK_EQUAL(busq_peer_leave(bob, "@g", 2, 0), BUSQ_OK);
  CHECK_EQUAL(send_letter(alice, "@g", &node, 1, NULL, 0, "x", missed, &sent), BUSQ_UNKNOWN_PEER);
  CHECK_EQUAL(sent, 0);
  hears_all(alice, "");
  company_groups = 0;
  part();
}
