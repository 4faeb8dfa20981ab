/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The notices that a watcher gets, and when: with room and without, and with other watchers beside it.
 */
#include "harness/company.h"
#include "harness/test.h"
#include "shm/group/group.h"
#include "shm/memory/peer.h"

enum { CAPACITY = 16 };

static busq_peer *alice, *carol;

static void watches(busq_peer *peer)
{
  CHECK_EQUAL(busq_peer_watch(peer, "bob", 3, 0), BUSQ_OK);
}

static int sends(busq_peer *from, busq_peer *to, const char *letter)
{
  const uint64_t target = busq_peer_target(to);
  return busq_peer_send(from, &target, 1, letter, 1, 0);
}

/* At most so many: "+" for "joined", "-" for "left", and the letter of a message. */
static const char *takes(busq_peer *peer, int n_most)
{
  static char text[64];
  size_t used = 0;
  busq_message message;
  while (n_most-- && take_now(peer, &message) == BUSQ_OK) {
    busq_envelope envelope;
    busq_message_envelope(&message, &envelope);
    CHECK(used + 2 < sizeof text);
    text[used++] = envelope.kind == BUSQ_KIND_JOINED  ? '+'
                   : envelope.kind == BUSQ_KIND_LEFT ? '-'
                                                     : *(const char *)message.data;
    busq_peer_release(peer, &message);
  }
  text[used] = '\0';
  return text;
}

static const char *takes_all(busq_peer *peer)
{
  return takes(peer, -1);
}

static void begin(void)
{
  company_groups = 4;
  meet(8, CAPACITY, 1 << 20);
  alice = join("alice");
  carol = join("carol");
  watches(alice);
  watches(carol);
  CHECK_TEXT(takes_all(alice), "");
  CHECK_TEXT(takes_all(carol), "");
}

static void fill(busq_peer *from, busq_peer *to, const char *letter)
{
  while (sends(from, to, letter) == BUSQ_OK)
    continue;
}

/* There is room for one: for "left", which goes first, then for "joined", and then for a message. */
TEST(test_nothing_of_the_next_one_comes_before_the_notices)
{
  begin();
  busq_peer *bob = join("bob");
  CHECK_TEXT(takes_all(alice), "+");
  fill(carol, alice, "x");
  leave(bob);
  bob = join("bob");
  CHECK_EQUAL(sends(bob, alice, "b"), BUSQ_FULL);
  CHECK_TEXT(takes(alice, 1), "x");
  CHECK_EQUAL(sends(bob, alice, "b"), BUSQ_FULL);
  CHECK_EQUAL(sends(carol, alice, "y"), BUSQ_FULL);
  CHECK_TEXT(takes(alice, 2), "xx");
  CHECK_EQUAL(sends(bob, alice, "b"), BUSQ_OK);
  CHECK_TEXT(takes_all(alice), "xxxxxxxxxxxxx-+b");
  CHECK_EQUAL(sends(bob, alice, "c"), BUSQ_OK);
  CHECK_TEXT(takes_all(alice), "c");
}

/* It has the target of the one before. */
TEST(test_nothing_of_one_that_is_resumed_comes_before_the_notices)
{
  begin();
  busq_peer *bob = join("bob");
  CHECK_TEXT(takes_all(alice), "+");
  fill(bob, alice, "b");
  leave(bob);
  bob = join_as("bob", BUSQ_JOIN_RESUME);
  CHECK_EQUAL(sends(bob, alice, "c"), BUSQ_FULL);
  CHECK_EQUAL(sends(bob, carol, "c"), BUSQ_OK);
  CHECK_TEXT(takes_all(carol), "+-+c");
  CHECK_TEXT(takes(alice, 2), "bb");
  CHECK_EQUAL(sends(bob, alice, "c"), BUSQ_FULL); /* the room is that of the notices */
  CHECK_TEXT(takes(alice, 1), "b");
  CHECK_EQUAL(sends(bob, alice, "c"), BUSQ_OK);
  CHECK_TEXT(takes_all(alice), "bbbbbbbbbbbbb-+c");
  CHECK_EQUAL(busq_peer_close(bob), BUSQ_OK);
  busq_peer_free(bob);
  CHECK_TEXT(takes_all(alice), "-");
}

TEST(test_a_multicast_waits_for_the_notice_of_one_receiver)
{
  begin();
  fill(carol, alice, "x");
  busq_peer *bob = join("bob");
  const uint64_t both[] = {busq_peer_target(alice), busq_peer_target(carol)};
  CHECK_EQUAL(busq_peer_send(bob, both, 2, "b", 1, 0), BUSQ_FULL);
  CHECK_TEXT(takes(alice, 1), "x");
  CHECK_EQUAL(busq_peer_send(bob, both, 2, "b", 1, 0), BUSQ_FULL); /* that was the notice's */
  CHECK_TEXT(takes(alice, 1), "x");
  CHECK_EQUAL(busq_peer_send(bob, both, 2, "b", 1, 0), BUSQ_OK);
  CHECK_TEXT(takes_all(carol), "+b");
  CHECK_TEXT(takes_all(alice), "xxxxxxxxxxxxxx+b");
}

TEST(test_one_that_went_before_there_was_room_is_not_told_of)
{
  begin();
  fill(carol, alice, "x");
  leave(join("bob"));
  CHECK_TEXT(takes_all(carol), "+-");
  CHECK_EQUAL((int)strlen(takes_all(alice)), CAPACITY);
  leave(join("bob"));
  CHECK_TEXT(takes_all(alice), "+-");
}

TEST(test_a_peer_that_watches_again_begins_anew)
{
  begin();
  busq_peer *bob = join("bob");
  CHECK_TEXT(takes_all(alice), "+");
  CHECK_EQUAL(busq_peer_unwatch(alice, "bob", 3, 0), BUSQ_OK);
  watches(alice);
  CHECK_TEXT(takes_all(alice), "+");
  watches(alice); /* it does */
  CHECK_EQUAL(busq_peer_unwatch(alice, "bob", 3, 0), BUSQ_OK);
  leave(bob);
  watches(alice);
  CHECK_TEXT(takes_all(alice), "");
  join("bob");
  CHECK_TEXT(takes_all(alice), "+");
}

TEST(test_what_the_last_peer_of_a_slot_was_told_is_not_the_next_ones)
{
  begin();
  join("bob");
  CHECK_TEXT(takes_all(alice), "+");
  leave(alice);
  alice = join("another");
  watches(alice);
  CHECK_TEXT(takes_all(alice), "+");
}
