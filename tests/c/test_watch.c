/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers that are watched, announced by a process that is late: what was right when it looked is not when it comes to
 * announce it.  Each test makes the change that such a one would make.
 */
#include "harness/company.h"
#include "shm/group/group.h"
#include "shm/memory/peer.h"

static busq_peer *alice;
static uint64_t watched; /* the group of those that watch bob */

static void begin(void)
{
  meet(8, 16, 1 << 20);
  alice = join("alice");
  CHECK_EQUAL(busq_peer_watch(alice, "bob", 3, 0), BUSQ_OK);
  CHECK_EQUAL(busq_group_named(company_bus, "?bob", 4, false, &watched), BUSQ_OK);
}

/* "+" for "joined", "-" for "left". */
static const char *told(void)
{
  static char text[64];
  size_t used = 0;
  busq_message message;
  while (take_now(alice, &message) == BUSQ_OK) {
    busq_envelope envelope;
    busq_message_envelope(&message, &envelope);
    CHECK(used + 2 < sizeof text);
    text[used++] = envelope.kind == BUSQ_KIND_JOINED ? '+' : envelope.kind == BUSQ_KIND_LEFT ? '-' : '?';
    busq_peer_release(alice, &message);
  }
  text[used] = '\0';
  return text;
}

static int say_late(uint64_t who, uint32_t what)
{
  busq_biased_latch_acquire(&alice->sender.latch);
  const int result = busq_group_change_try(alice, &(busq_change){watched, who, what});
  busq_biased_latch_release(&alice->sender.latch);
  return result;
}

static void test_one_who_is_gone_has_not_come(void)
{
  check_test = __func__;
  begin();
  busq_peer *bob = join("bob");
  const uint64_t first = busq_peer_target(bob);
  leave(bob);
  CHECK_TEXT(told(), "+-");
  CHECK_EQUAL(say_late(first, BUSQ_CHANGE_UP), BUSQ_OK);
  CHECK_TEXT(told(), "");
  part();
}

static void test_one_who_is_gone_has_not_come_after_another(void)
{
  check_test = __func__;
  begin();
  busq_peer *bob = join("bob");
  const uint64_t first = busq_peer_target(bob);
  leave(bob);
  join("bob");
  CHECK_EQUAL(say_late(first, BUSQ_CHANGE_UP), BUSQ_OK);
  CHECK_TEXT(told(), "+-+");
  part();
}

/* As if the process that announced the first one had done so after the second looked for one to announce. */
static void test_another_comes_after_the_one_before_has_gone(void)
{
  check_test = __func__;
  begin();
  busq_peer *bob = join("bob");
  const uint64_t first = busq_peer_target(bob);
  leave(bob);
  bob = join("bob");
  CHECK_TEXT(told(), "+-+");
  busq_pair *subject = &busq_bus_group(company_bus, busq_group_index(watched))->subject;
  const busq_pair seen = busq_numbered_load(subject);
  CHECK_EQUAL(seen.hi, busq_peer_target(bob) << 1 | 1);
  subject->hi = first << 1 | 1;
  CHECK_EQUAL(say_late(busq_peer_target(bob), BUSQ_CHANGE_UP), BUSQ_OK);
  CHECK_TEXT(told(), "-+");
  part();
}

int main(void)
{
  check_begin();
  company_groups = 4;
  test_one_who_is_gone_has_not_come();
  test_one_who_is_gone_has_not_come_after_another();
  test_another_comes_after_the_one_before_has_gone();
  printf("ok  what is told late of peers that are watched\n");
  return 0;
}
