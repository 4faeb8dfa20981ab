/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for messages on their way: which peer has it, when it comes back, and that none is left without. */
#include "harness/company.h"
#include "harness/test.h"
#include "shm/memory/extent.h"
#include "shm/memory/peer.h"
#include <pthread.h>

#define PEERS 4
#define ARENA_BYTES (1u << 16)
#define RECORDS_MAX 4096

static uint64_t next_tag = 1 << 20;

static busq_record *take(busq_peer *peer, uint64_t bytes)
{
  busq_record *record = NULL;
  const int result = busq_arena_take(&peer->sender.arena, bytes, &record);
  CHECK(result == BUSQ_OK || result == BUSQ_FULL);
  CHECK((result == BUSQ_OK) == (record != NULL));
  return record;
}

/* As if it had been sent to the first so many slots, and committed. */
static void commit(busq_peer *peer, busq_record *record, uint64_t bytes, uint16_t destinations)
{
  record->outline = destinations;
  for (uint16_t i = 0; i < destinations; i++)
    record->destination[i] = (busq_destination){i, 0};
  record->state.hi = 7;
  record->state.lo = (next_tag += 1024) | BUSQ_PHASE_COMMITTED;
  busq_arena_sent(&peer->sender.arena, bytes, record);
}

static void release(busq_record *record, uint32_t mark)
{
  busq_arena_release(company_bus, mark, record, mark);
}

static void release_all(busq_record **records, uint32_t count, uint16_t destinations)
{
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t mark = 0; mark < destinations; mark++)
      release(records[i], mark);
}

/* Takes and commits until there is no more. */
static uint32_t take_until_full(busq_peer *peer, uint64_t bytes, uint16_t destinations, busq_record **records)
{
  uint32_t count = 0;
  busq_record *record;
  while ((record = take(peer, bytes))) {
    CHECK(count < RECORDS_MAX);
    commit(peer, record, bytes, destinations);
    records[count++] = record;
  }
  return count;
}

static uint64_t extent_bytes(void)
{
  return company_bus->geometry.extent_bytes;
}

static uint64_t header_bytes(uint32_t destinations)
{
  return offsetof(busq_record, destination) + destinations * sizeof(busq_destination);
}

/* ---- small records ---- */

TEST(test_records_of_all_sizes_stand_apart)
{
  meet(PEERS, 8, 4 * ARENA_BYTES);
  busq_peer *a = join("a");
  busq_record *records[RECORDS_MAX];
  uint64_t sizes[RECORDS_MAX];
  uint32_t count = 0;
  for (uint64_t bytes = 44; bytes < 3 * extent_bytes() && (records[count] = take(a, bytes)); bytes += bytes / 9 + 1) {
    CHECK_EQUAL((uint64_t)((char *)records[count] - company_bus->arena) % BUSQ_LAYOUT_UNIT_BYTES, 0);
    memset(records[count], (int)count, bytes);
    sizes[count++] = bytes;
  }
  CHECK(count > 40);
  for (uint32_t i = 0; i < count; i++)
    for (uint64_t byte = 0; byte < sizes[i]; byte++)
      CHECK_EQUAL(((unsigned char *)records[i])[byte], (unsigned char)i);
  for (uint32_t i = 0; i < count; i++) {
    memset(records[i], 0, sizeof *records[i]);
    busq_arena_cancel(&a->sender.arena, sizes[i], records[i]);
  }
}

TEST(test_what_is_cancelled_is_there_again)
{
  meet(PEERS, 8, ARENA_BYTES);
  busq_peer *a = join("a");
  const uint64_t sizes[] = {64, 200, 3 * extent_bytes()};
  for (int i = 0; i < 3; i++) {
    busq_record *first = take(a, sizes[i]);
    const uint64_t used = used_bytes();
    busq_arena_cancel(&a->sender.arena, sizes[i], first);
    CHECK(take(a, sizes[i]) == first);
    CHECK_EQUAL(used_bytes(), used);
    busq_arena_cancel(&a->sender.arena, sizes[i], first);
  }
}

TEST(test_a_record_comes_back_when_its_last_destination_has_released_it)
{
  meet(PEERS, 8, ARENA_BYTES);
  busq_peer *a = join("a");
  busq_record *records[RECORDS_MAX];
  const uint32_t count = take_until_full(a, 64, 3, records);
  busq_record *const third = records[2];
  release(third, 1);
  CHECK(take(a, 64) == NULL);
  release(third, 0);
  CHECK(take(a, 64) == NULL);
  release(third, 2);
  CHECK(take(a, 64) == third);
  CHECK(take(a, 64) == NULL);
  CHECK(count > 900);
}

TEST(test_after_a_flood_everything_comes_back)
{
  meet(PEERS, 8, ARENA_BYTES);
  busq_peer *a = join("a");
  busq_record *records[RECORDS_MAX];
  const uint64_t sizes[] = {64, 128, 300, 1000, 64, 5000, 64};
  uint32_t first_count = 0;
  for (int i = 0; i < 7; i++) {
    const uint32_t count = take_until_full(a, sizes[i], 2, records);
    CHECK(i != 0 || (first_count = count));
    CHECK(sizes[i] != 64 || count == first_count);
    CHECK(count > 0);
    CHECK(take(a, sizes[i]) == NULL);
    release_all(records, count, 2);
  }
  CHECK_EQUAL(busq_peer_wait(a, 20000000), BUSQ_EMPTY); /* a peer that goes to sleep gives back what it does not need */
  CHECK(used_bytes() <= 3 * extent_bytes());
  leave(a);
  CHECK_EQUAL(used_bytes(), 0);
}

TEST(test_one_slow_reader_does_not_make_its_sender_take_more_and_more)
{
  meet(PEERS, 8, ARENA_BYTES);
  busq_peer *a = join("a");
  busq_record *slow = take(a, 64);
  commit(a, slow, 64, 1);
  for (int i = 0; i < 10000; i++) {
    busq_record *record = take(a, 64);
    CHECK(record && record != slow);
    commit(a, record, 64, 1);
    release(record, 0);
  }
  CHECK(used_bytes() <= 5 * extent_bytes());
  release(slow, 0);
}

/* Its predecessor has as many on their way as there is room for in a new line. */
TEST(test_a_successor_gets_no_record_twice)
{
  enum { LEFT = 256, BYTES = 64 };
  busq_record *left[LEFT], *again[LEFT + 1];
  meet(PEERS, 8, 4 * ARENA_BYTES);
  busq_peer *a = join("a");
  for (uint32_t i = 0; i < LEFT; i++)
    commit(a, left[i] = take(a, BYTES), BYTES, 1);
  busq_arena_deinit(&a->sender.arena);
  busq_arena_init(&a->sender.arena, company_bus, a->slot);
  CHECK_EQUAL(busq_arena_adopt(&a->sender.arena), BUSQ_OK);
  busq_record *first = take(a, BYTES);
  commit(a, first, BYTES, 1);
  CHECK_EQUAL(a->sender.arena.classes[0].line_tail - a->sender.arena.classes[0].line_head, LEFT + 1);
  release_all(left, LEFT, 1);
  release(first, 0);
  for (uint32_t i = 0; i < LEFT + 1; i++) {
    again[i] = take(a, BYTES);
    for (uint32_t before = 0; before < i; before++)
      CHECK(again[before] != again[i]);
  }
}

/* However many lives, one after another, have something on its way. */
TEST(test_short_lives_go_on_in_the_extent_of_the_last)
{
  enum { LIVES = 6000, BYTES = 64 };
  meet(PEERS, 8, 128 * ARENA_BYTES);
  busq_peer *a = join("a");
  for (uint32_t i = 0; i < LIVES; i++) {
    busq_arena_deinit(&a->sender.arena);
    busq_arena_init(&a->sender.arena, company_bus, a->slot);
    CHECK_EQUAL(busq_arena_adopt(&a->sender.arena), BUSQ_OK);
    busq_record *record = take(a, BYTES);
    CHECK(record);
    commit(a, record, BYTES, 1);
  }
  CHECK(used_bytes() <= LIVES * BYTES + extent_bytes());
}

TEST(test_nobody_can_keep_another_from_sending_something_small)
{
  meet(PEERS, 8, ARENA_BYTES);
  busq_peer *a = join("a"), *b = join("b"), *c = join("c");
  busq_record *records[RECORDS_MAX];
  const uint32_t count = take_until_full(a, 64, 1, records);
  CHECK(take(a, extent_bytes()) == NULL);
  CHECK(take(b, 64));
  CHECK(take(c, extent_bytes() / 2));
  release_all(records, count, 1);
}

/* The first use of its own extent must not decide what it can be used for later. */
TEST(test_nor_from_sending_something_small_of_another_size)
{
  meet(PEERS, 8, ARENA_BYTES);
  busq_peer *a = join("a"), *b = join("b");
  busq_record *records[RECORDS_MAX], *record = take(b, 64);
  commit(b, record, 64, 1);
  release(record, 0);
  const uint32_t count = take_until_full(a, 64, 1, records);
  CHECK(take(b, 200));
  release_all(records, count, 1);
}

/* ---- large records ---- */

TEST(test_a_large_record_is_freed_by_whoever_releases_it_last)
{
  meet(PEERS, 8, ARENA_BYTES);
  busq_peer *a = join("a");
  const uint64_t bytes = 3 * extent_bytes() + 1;
  for (uint32_t order = 0; order < 6; order++) {
    const uint32_t last = order % 3, first = (last + 1 + order / 3) % 3, second = 3 - last - first;
    busq_record *record = take(a, bytes);
    commit(a, record, bytes, 3);
    CHECK_EQUAL(used_bytes(), 4 * extent_bytes());
    release(record, first);
    release(record, second);
    CHECK_EQUAL(used_bytes(), 4 * extent_bytes());
    release(record, last);
    CHECK_EQUAL(used_bytes(), 0);
  }
}

/* A destination that left releases before the commit; then the memory is still needed. */
TEST(test_a_large_record_is_not_freed_before_it_is_committed)
{
  meet(PEERS, 8, ARENA_BYTES);
  busq_peer *a = join("a");
  busq_record *record = take(a, 2 * extent_bytes());
  commit(a, record, 2 * extent_bytes(), 1);
  record->state.lo = (record->state.lo & ~UINT64_C(3)) | BUSQ_PHASE_STAGING;
  release(record, 0);
  CHECK_EQUAL(used_bytes(), 2 * extent_bytes());
  busq_large_sweep(company_bus, a->slot);
  CHECK_EQUAL(used_bytes(), 2 * extent_bytes());
  record->state.lo = (record->state.lo & ~UINT64_C(3)) | BUSQ_PHASE_COMMITTED;
  busq_large_sweep(company_bus, a->slot);
  CHECK_EQUAL(used_bytes(), 0);
}

TEST(test_the_largest_message_fits_when_nothing_else_is_there)
{
  meet(PEERS, 8, ARENA_BYTES);
  busq_peer *a = join("a"), *b = join("b");
  const uint64_t largest = header_bytes(PEERS) + ARENA_BYTES;
  for (int round = 0; round < 3; round++) {
    busq_record *record = take(round % 2 ? a : b, largest);
    CHECK(record);
    commit(round % 2 ? a : b, record, largest, 1);
    CHECK(take(a, largest) == NULL);
    release(record, 0);
  }
}

TEST(test_a_damaged_reach_hides_no_memory)
{
  meet(PEERS, 8, ARENA_BYTES);
  busq_peer *a = join("a");
  const uint64_t reached = busq_extents_reached(company_bus);
  company_bus->header->extents_reached = 1;
  CHECK(busq_extents_reached(company_bus) == reached);
  CHECK(take(a, ARENA_BYTES / 2));
}

/* Small messages came and went; what is kept of their memory for the next ones must not stand in the way for ever. */
static void small_messages_come_and_go(busq_peer *from, busq_peer *to, const char *to_name)
{
  busq_message message;
  for (int i = 0; i < 300; i++)
    said(from, to_name, "small");
  for (int i = 0; i < 300; i++) {
    CHECK_EQUAL(take_now(to, &message), BUSQ_OK);
    busq_peer_release(to, &message);
  }
}

static void *wait_for_anything(void *argument)
{
  busq_message message;
  CHECK_EQUAL(take_patiently(argument, &message), BUSQ_OK);
  busq_peer_release(argument, &message);
  return NULL;
}

static int send_largest(busq_peer *peer, const char *to, bool waits)
{
  uint64_t target;
  char *bytes = calloc(1, ARENA_BYTES);
  CHECK(bytes);
  CHECK_EQUAL(look_up(peer, to, &target), 1);
  const int result = waits ? say_patiently(peer, &target, 1, bytes, ARENA_BYTES)
                           : busq_peer_send(peer, &target, 1, bytes, ARENA_BYTES, 0);
  free(bytes);
  return result;
}

TEST(test_the_largest_message_fits_again_when_small_ones_have_gone)
{
  meet(PEERS, 512, ARENA_BYTES);
  busq_peer *a = join("a"), *b = join("b");
  small_messages_come_and_go(a, b, "b");
  int result = send_largest(b, "b", false);
  CHECK(result == BUSQ_OK || result == BUSQ_FULL);
  if (result == BUSQ_FULL) { /* a has learned that memory is wanted: it gives it back when it next does something */
    said(a, "b", "small");
    hears(b, "small");
    result = send_largest(b, "b", false);
  }
  CHECK_EQUAL(result, BUSQ_OK);
}

TEST(test_even_if_who_keeps_the_memory_is_asleep)
{
  meet(PEERS, 512, ARENA_BYTES);
  busq_peer *a = join("a"), *b = join("b");
  pthread_t sleeper;
  const struct timespec pause = {0, 50000000};
  small_messages_come_and_go(a, b, "b");
  CHECK(pthread_create(&sleeper, NULL, wait_for_anything, a) == 0);
  nanosleep(&pause, NULL);
  CHECK_EQUAL(send_largest(b, "b", true), BUSQ_OK);
  said(b, "a", "wake up");
  CHECK(pthread_join(sleeper, NULL) == 0);
}

/* ---- many steps at random ---- */

typedef struct {
  busq_record *record;
  uint64_t bytes;
  uint64_t pattern;
} held;

static void held_fill(held *h, busq_peer *peer, check_chance *chance)
{
  const uint64_t begin = header_bytes(2);
  h->pattern = check_next(chance);
  commit(peer, h->record, h->bytes, 2);
  for (uint64_t at = begin; at + 8 <= h->bytes; at += 8)
    memcpy((char *)h->record + at, &h->pattern, 8);
}

static void held_check(const held *h)
{
  for (uint64_t at = header_bytes(2); at + 8 <= h->bytes; at += 8)
    CHECK(memcmp((char *)h->record + at, &h->pattern, 8) == 0);
}

TEST(test_nobody_writes_into_a_record_that_is_still_needed)
{
  enum { HELD = 200 };
  meet(PEERS, 8, 8 * ARENA_BYTES);
  busq_peer *peers[] = {join("a"), join("b"), join("c")};
  static held all[HELD];
  memset(all, 0, sizeof all);
  check_chance chance = {test_seed};
  uint64_t n_full = 0;
  for (uint64_t turn = 0; turn < check_share(30000); turn++) {
    held *h = &all[check_below(&chance, HELD)];
    busq_peer *peer = peers[check_below(&chance, 3)];
    if (h->record) {
      held_check(h);
      release(h->record, 0);
      held_check(h);
      release(h->record, 1);
      h->record = NULL;
    }
    h->bytes = header_bytes(2) + 8 + check_below(&chance, UINT64_C(1) << (4 + check_below(&chance, 12)));
    h->record = take(peer, h->bytes);
    n_full += !h->record;
    if (h->record)
      held_fill(h, peer, &chance);
  }
  for (int i = 0; i < HELD; i++)
    if (all[i].record) {
      held_check(&all[i]);
      release(all[i].record, 0);
      release(all[i].record, 1);
    }
  printf("    full %" PRIu64 " times\n", n_full);
  for (int i = 0; i < 3; i++)
    leave(peers[i]);
  CHECK_EQUAL(used_bytes(), 0);
}

/* ---- two that release at the same time ---- */

typedef struct {
  pthread_barrier_t *barrier;
  busq_record **record;
  uint32_t mark;
  uint64_t rounds;
} releaser;

static void *releaser_run(void *argument)
{
  const releaser *self = argument;
  for (uint64_t i = 0; i < self->rounds; i++) {
    pthread_barrier_wait(self->barrier);
    release(*self->record, self->mark);
    pthread_barrier_wait(self->barrier);
  }
  return NULL;
}

TEST(test_two_who_release_a_large_record_at_once_free_it_once)
{
  meet(PEERS, 8, ARENA_BYTES);
  busq_peer *a = join("a");
  busq_record *record = NULL;
  pthread_barrier_t barrier;
  pthread_t threads[2];
  const uint64_t rounds = check_share(5000), bytes = 5 * extent_bytes();
  releaser releasers[2];
  CHECK(pthread_barrier_init(&barrier, NULL, 3) == 0);
  for (uint32_t i = 0; i < 2; i++) {
    releasers[i] = (releaser){&barrier, &record, i, rounds};
    CHECK(pthread_create(&threads[i], NULL, releaser_run, &releasers[i]) == 0);
  }
  for (uint64_t i = 0; i < rounds; i++) {
    record = take(a, bytes);
    CHECK(record);
    commit(a, record, bytes, 2);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    CHECK_EQUAL(used_bytes(), 0);
  }
  for (uint32_t i = 0; i < 2; i++)
    CHECK(pthread_join(threads[i], NULL) == 0);
  pthread_barrier_destroy(&barrier);
}

/* ---- a sender that leaves ---- */

TEST(test_what_a_sender_leaves_behind_is_freed_when_it_was_received)
{
  meet(2, 64, ARENA_BYTES);
  busq_peer *b = join("b");
  char *bytes = calloc(1, 3 * extent_bytes());
  CHECK(bytes);
  for (int life = 0; life < 20; life++) {
    busq_peer *a = join("a"), *other;
    uint64_t target;
    for (int i = 0; i < 10; i++)
      said(a, "b", "x");
    CHECK_EQUAL(look_up(a, "b", &target), 1);
    CHECK_EQUAL(busq_peer_send(a, &target, 1, bytes, 3 * extent_bytes(), 0), BUSQ_OK);
    leave(a);
    CHECK(used_bytes() > 0);
    CHECK_EQUAL(try_join("a", &other), BUSQ_NO_SPACE);
    busq_message message;
    for (int i = 0; i < 11; i++) {
      CHECK_EQUAL(take_now(b, &message), BUSQ_OK);
      busq_peer_release(b, &message);
    }
  }
  leave(join("a"));
  CHECK_EQUAL(used_bytes(), 0);
  free(bytes);
}
