/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bus that reserves late has as many places as are used (shm/memory/peer_slots.h): a peer that joins reaches more, none of which was
 * touched before; on a full disk those that are there go on.  The disk is played: there is memory for more places, or not.
 */
#include "base/atomic.h"
#include "harness/company.h"
#include "harness/played_disk.h"
#include "harness/test.h"
#include "shm/memory/peer.h"
#include "shm/memory/reserve.h"
#include "shm/memory/peer_slots.h"

#define PEERS 11u
#define AT_ONCE 4u

/* Asked for places. */
static bool disk_lacks(int mode, off_t bytes)
{
  (void)mode;
  return disk_is_full && bytes % (off_t)sizeof(busq_slot) == 0;
}

static void late_bus(void)
{
  busq_slots_at_once = AT_ONCE;
  company_is_late = 1;
  disk_is_full = false;
  meet(PEERS, 8, 1 << 18);
}

static busq_peer *numbered(uint32_t number)
{
  char name[16];
  snprintf(name, sizeof name, "peer-%u", number);
  return join(name);
}

TEST(test_places_are_reached_as_peers_join)
{
  busq_peer *peers[PEERS], *more;
  late_bus();
  CHECK_EQUAL(busq_slots_reached(company_bus), AT_ONCE);
  for (uint32_t number = 0; number < PEERS; number++) {
    peers[number] = numbered(number);
    CHECK_EQUAL(peers[number]->slot, number);
    const uint32_t whole = (number / AT_ONCE + 1) * AT_ONCE;
    CHECK_EQUAL(busq_slots_reached(company_bus), whole < PEERS ? whole : PEERS);
  }
  CHECK_EQUAL(try_join("more", &more), BUSQ_NO_SPACE);
  said(peers[0], "peer-10", "first to last");
  CHECK_TEXT(heard(peers[10]), "first to last");
  busq_peer_close(peers[2]);
  CHECK_EQUAL(try_join("more", &more), BUSQ_OK);
  CHECK_EQUAL(more->slot, 2);
}

TEST(test_on_a_full_disk_those_that_are_there_go_on)
{
  busq_peer *peers[PEERS], *more;
  late_bus();
  for (uint32_t number = 0; number < AT_ONCE; number++)
    peers[number] = numbered(number);
  said(peers[0], "peer-1", "kept");
  disk_is_full = true;
  CHECK_EQUAL(try_join("more", &more), BUSQ_NO_SPACE);
  CHECK(strstr(busq_error_text(), "the place of peer slot 4"));
  CHECK_EQUAL(busq_slots_reached(company_bus), AT_ONCE);
  CHECK_TEXT(heard(peers[1]), "kept");
  busq_peer_close(peers[3]);
  CHECK_EQUAL(try_join("more", &more), BUSQ_OK);
  CHECK_EQUAL(more->slot, 3);
  disk_is_full = false;
  CHECK_EQUAL(numbered(AT_ONCE)->slot, AT_ONCE);
}

/* Another process has reached more since this one looked: it needs no memory, which there may be none of any more. */
TEST(test_who_looks_late_takes_what_others_have_reached)
{
  late_bus();
  CHECK_EQUAL(busq_slots_reach(company_bus, AT_ONCE), BUSQ_OK);
  disk_is_full = true;
  CHECK_EQUAL(busq_slots_reach(company_bus, AT_ONCE), BUSQ_OK);
  CHECK_EQUAL(busq_slots_reached(company_bus), 2 * AT_ONCE);
}

/* A look would take memory, or be a SIGBUS where there is none. */
TEST(test_no_number_from_outside_leads_behind_what_is_reached)
{
  late_bus();
  busq_peer *alice = numbered(0);
  (void)numbered(1);
  const uint64_t bob = UINT64_C(1) << 16 | 1, nobody = UINT64_C(1) << 16 | (PEERS - 1), both[] = {bob, nobody};
  CHECK_EQUAL(busq_peer_send(alice, &bob, 1, "it", 2, 0), BUSQ_OK);
  CHECK_EQUAL(busq_peer_send(alice, &nobody, 1, "it", 2, 0), BUSQ_INVALID);
  CHECK_EQUAL(busq_peer_send(alice, both, 2, "it", 2, 0), BUSQ_INVALID);
}

/* As a process does that was stopped behind its first step, and goes on when the places are in use. */
TEST(test_who_makes_places_late_changes_none)
{
  busq_peer *peers[PEERS];
  late_bus();
  for (uint32_t number = 0; number < PEERS; number++)
    peers[number] = numbered(number);
  said(peers[9], "peer-5", "before");
  busq_slot before[PEERS];
  memcpy(before, company_bus->slots, sizeof before);
  busq_slots_init(company_bus, 0, PEERS);
  CHECK(memcmp(before, company_bus->slots, sizeof before) == 0);
  CHECK_TEXT(heard(peers[5]), "before");
}

TEST(test_a_damaged_reach_hides_no_place)
{
  late_bus();
  (void)numbered(0);
  company_bus->header->slots_reached = 1;
  CHECK_EQUAL(busq_slots_reached(company_bus), AT_ONCE);
  company_bus->header->slots_reached = UINT32_MAX;
  CHECK_EQUAL(busq_slots_reached(company_bus), PEERS);
}

TEST(test_a_place_where_no_peer_ever_was_is_shown_as_free)
{
  busq_peer_facts facts, all[PEERS];
  late_bus();
  (void)numbered(0);
  CHECK_EQUAL(busq_bus_examine_peer(company_bus, PEERS - 1, &facts), BUSQ_OK);
  CHECK_EQUAL(facts.incarnation, 0);
  memset(all, 0xff, sizeof all);
  busq_bus_examine_peers(company_bus, all);
  CHECK_EQUAL(all[PEERS - 1].incarnation, 0);
  CHECK_EQUAL(all[PEERS - 1].is_alive, 0);
}
