/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring on its own, in private memory: positions, clocks, holes, laps, lives, and where its counters end.
 *
 * How far the counters reach.  Positions have 52 bits: at 50 million messages per second into one queue they last 2.8
 * years, and the test at their end shows that the queue then refuses messages instead of mixing them up.  Lives have 11
 * bits: a producer that was stopped between two instructions during exactly 2048 lives of the queue, or a multiple,
 * would take the present one for the one it meant.
 */
#include "harness/test.h"
#include "queue/ring.h"
#include <pthread.h>
#include <sched.h>

#define NO_LIMIT UINT64_MAX

static busq_ring ring_new(uint64_t slot_count)
{
  busq_ring ring = {.slot_count = slot_count, .lap_shift = (uint32_t)__builtin_ctzll(slot_count)};
  ring.queue = aligned_alloc(BUSQ_LINE_PAIR_BYTES, sizeof *ring.queue);
  ring.slots = aligned_alloc(BUSQ_LINE_PAIR_BYTES, BUSQ_ALIGN_UP(slot_count * sizeof *ring.slots, 128));
  CHECK(ring.queue && ring.slots);
  memset(ring.queue, 0, sizeof *ring.queue);
  memset(ring.slots, 0, slot_count * sizeof *ring.slots);
  busq_ring_init(&ring);
  CHECK(busq_ring_verify(&ring));
  return ring;
}

/* The first life has incarnation 1, as the first peer of a slot. */
static busq_ring ring_open(uint64_t slot_count)
{
  const busq_ring ring = ring_new(slot_count);
  busq_ring_open(&ring, 1);
  return ring;
}

static void ring_free(const busq_ring *ring)
{
  free(ring->queue);
  free(ring->slots);
}

static busq_reference reference_of(uint64_t number)
{
  return (busq_reference){.sender = (uint32_t)(number % 5), .record = (uint32_t)(number * 7), .tag = number << 10};
}

/* Places without a proposal that could be lost: what a unicast does. */
static busq_ring_outcome place(const busq_ring *ring, uint64_t limit, busq_ring_claim *claim)
{
  uint64_t stamp = 0, head_seen = busq_load_relaxed(&ring->queue->head);
  return busq_ring_place(ring, 1, 1, &stamp, limit, &head_seen, claim);
}

static busq_ring_outcome propose(const busq_ring *ring, uint64_t timestamp, busq_ring_claim *claim)
{
  uint64_t head_seen = busq_load_relaxed(&ring->queue->head);
  return busq_ring_place(ring, 1, timestamp, NULL, NO_LIMIT, &head_seen, claim);
}

static void put(const busq_ring *ring, uint64_t number)
{
  busq_ring_claim claim;
  CHECK_EQUAL(place(ring, ring->slot_count, &claim), BUSQ_RING_ACCEPTED);
  CHECK(busq_ring_publish(ring, &claim, reference_of(number)));
}

static void stands_at(const busq_ring *ring, uint64_t position, uint64_t number)
{
  busq_reference found;
  CHECK(busq_ring_look(ring, position, &found));
  CHECK_EQUAL(found.sender, reference_of(number).sender);
  CHECK_EQUAL(found.record, reference_of(number).record);
  CHECK_EQUAL(found.tag, reference_of(number).tag);
}

static void is_skipped(const busq_ring *ring, uint64_t position)
{
  busq_reference found;
  CHECK(busq_ring_look(ring, position, &found));
  CHECK_EQUAL(found.sender, BUSQ_RING_NOBODY);
}

static void is_hole(const busq_ring *ring, uint64_t position)
{
  busq_reference found;
  CHECK(!busq_ring_look(ring, position, &found));
}

static void consume_to(const busq_ring *ring, uint64_t position)
{
  busq_store_release(&ring->queue->head, position);
}

/* ---- positions and clocks ---- */

TEST(test_a_new_ring_is_closed_and_zeroed_slots_are_holes)
{
  const busq_ring ring = ring_new(8);
  busq_ring_claim claim;
  CHECK_EQUAL(place(&ring, 8, &claim), BUSQ_RING_GONE);
  CHECK_EQUAL(busq_ring_tail(&ring), 8);
  for (uint64_t position = 8; position < 16; position++)
    is_hole(&ring, position);
  ring_free(&ring);
}

TEST(test_references_stand_where_they_were_placed_for_many_laps)
{
  const busq_ring ring = ring_open(8);
  for (uint64_t number = 0; number < 1000; number++) {
    const uint64_t position = busq_ring_tail(&ring);
    is_hole(&ring, position);
    put(&ring, number);
    stands_at(&ring, position, number);
    CHECK_EQUAL(busq_ring_tail(&ring), position + 1);
    if (number >= 5) {
      stands_at(&ring, position - 5, number - 5);
      consume_to(&ring, position - 4);
    }
    CHECK(busq_ring_verify(&ring));
  }
  ring_free(&ring);
}

TEST(test_the_limit_is_respected_and_the_head_makes_room)
{
  const busq_ring ring = ring_open(8);
  busq_ring_claim claim;
  for (uint64_t number = 0; number < 5; number++)
    put(&ring, number);
  CHECK_EQUAL(place(&ring, 5, &claim), BUSQ_RING_FULL);
  CHECK_EQUAL(busq_ring_tail(&ring), 13);
  consume_to(&ring, 9);
  CHECK_EQUAL(place(&ring, 5, &claim), BUSQ_RING_ACCEPTED);
  CHECK_EQUAL(claim.position, 13);
  CHECK_EQUAL(place(&ring, 5, &claim), BUSQ_RING_FULL);
  for (uint64_t position = 14; position < 9 + 8; position++)
    CHECK_EQUAL(place(&ring, 8, &claim), BUSQ_RING_ACCEPTED);
  CHECK_EQUAL(place(&ring, 8, &claim), BUSQ_RING_FULL);
  ring_free(&ring);
}

TEST(test_an_old_look_at_the_head_is_renewed_before_it_says_full)
{
  const busq_ring ring = ring_open(8);
  busq_ring_claim claim;
  uint64_t head_seen = 8, stamp = 0;
  for (uint64_t number = 0; number < 4; number++)
    put(&ring, number);
  consume_to(&ring, 12);
  CHECK_EQUAL(busq_ring_place(&ring, 1, 1, &stamp, 4, &head_seen, &claim), BUSQ_RING_ACCEPTED);
  CHECK_EQUAL(head_seen, 12);
  ring_free(&ring);
}

TEST(test_a_stamp_is_above_the_clock_and_not_below_the_proposal)
{
  const busq_ring ring = ring_open(8);
  busq_ring_claim claim;
  uint64_t stamp = 0, head_seen = 8;
  CHECK_EQUAL(busq_ring_clock(&ring), 1);
  CHECK_EQUAL(busq_ring_place(&ring, 1, 1, &stamp, 8, &head_seen, &claim), BUSQ_RING_ACCEPTED);
  CHECK_EQUAL(stamp, 2);
  CHECK_EQUAL(busq_ring_place(&ring, 1, 40, &stamp, 8, &head_seen, &claim), BUSQ_RING_ACCEPTED);
  CHECK_EQUAL(stamp, 40);
  CHECK_EQUAL(busq_ring_place(&ring, 1, 7, &stamp, 8, &head_seen, &claim), BUSQ_RING_ACCEPTED);
  CHECK_EQUAL(stamp, 41);
  CHECK_EQUAL(busq_ring_clock(&ring), 41);
  ring_free(&ring);
}

/* "Where clock < T (strictly)": at T itself another message may stand, or may have been delivered already. */
TEST(test_a_proposal_is_accepted_only_above_the_clock)
{
  const busq_ring ring = ring_open(8);
  busq_ring_claim claim;
  CHECK_EQUAL(propose(&ring, 10, &claim), BUSQ_RING_ACCEPTED);
  CHECK_EQUAL(busq_ring_clock(&ring), 10);
  CHECK_EQUAL(propose(&ring, 10, &claim), BUSQ_RING_LATE);
  CHECK_EQUAL(claim.clock, 10);
  CHECK_EQUAL(propose(&ring, 9, &claim), BUSQ_RING_LATE);
  CHECK_EQUAL(claim.clock, 10);
  CHECK_EQUAL(busq_ring_clock(&ring), 10);
  CHECK_EQUAL(propose(&ring, 11, &claim), BUSQ_RING_ACCEPTED);
  CHECK_EQUAL(claim.clock, 10);
  CHECK_EQUAL(busq_ring_clock(&ring), 11);
  CHECK_EQUAL(busq_ring_tail(&ring), 12);
  ring_free(&ring);
}

TEST(test_raising_never_takes_a_clock_back)
{
  const busq_ring ring = ring_open(8);
  busq_ring_raise(&ring, 50);
  CHECK_EQUAL(busq_ring_clock(&ring), 50);
  busq_ring_raise(&ring, 49);
  CHECK_EQUAL(busq_ring_clock(&ring), 50);
  CHECK_EQUAL(busq_ring_tail(&ring), 8);
  ring_free(&ring);
}

/* ---- holes ---- */

TEST(test_a_skipped_hole_stays_skipped_and_its_producer_places_again_behind)
{
  const busq_ring ring = ring_open(8);
  busq_ring_claim late, again;
  CHECK_EQUAL(place(&ring, 8, &late), BUSQ_RING_ACCEPTED);
  put(&ring, 2);
  is_hole(&ring, 8);
  CHECK(busq_ring_skip(&ring, 8));
  is_skipped(&ring, 8);
  CHECK(!busq_ring_publish(&ring, &late, reference_of(1)));
  is_skipped(&ring, 8);
  CHECK_EQUAL(place(&ring, 8, &again), BUSQ_RING_ACCEPTED);
  CHECK_EQUAL(again.position, 10);
  CHECK(busq_ring_publish(&ring, &again, reference_of(1)));
  stands_at(&ring, 9, 2);
  stands_at(&ring, 10, 1);
  ring_free(&ring);
}

TEST(test_a_published_reference_can_not_be_skipped)
{
  const busq_ring ring = ring_open(8);
  put(&ring, 1);
  CHECK(!busq_ring_skip(&ring, 8));
  stands_at(&ring, 8, 1);
  ring_free(&ring);
}

TEST(test_a_position_that_the_head_has_passed_is_not_skipped)
{
  const busq_ring ring = ring_open(8);
  for (uint64_t number = 1; number <= 8; number++)
    put(&ring, number);
  busq_store_release(&ring.queue->head, 9);
  put(&ring, 9); /* in the slot of the first */
  CHECK(!busq_ring_skip_if_not_passed(&ring, 8));
  stands_at(&ring, 16, 9);
  ring_free(&ring);
}

TEST(test_a_hole_is_skipped_once)
{
  const busq_ring ring = ring_open(8);
  busq_ring_claim claim;
  CHECK_EQUAL(place(&ring, 8, &claim), BUSQ_RING_ACCEPTED);
  CHECK(busq_ring_skip(&ring, 8));
  CHECK(!busq_ring_skip(&ring, 8));
  ring_free(&ring);
}

/* ---- laps ---- */

static void pass_laps(const busq_ring *ring, uint64_t laps)
{
  for (uint64_t i = 0; i < laps * ring->slot_count; i++) {
    consume_to(ring, busq_ring_tail(ring));
    put(ring, i);
  }
  consume_to(ring, busq_ring_tail(ring));
}

/* Also after exactly as many laps as 16 bits count, when the slot's lap reads the same again. */
TEST(test_a_producer_that_slept_for_laps_harms_nothing)
{
  const uint64_t laps[] = {1, 2, 65535, 65536, 65537, 131072};
  for (unsigned i = 0; i < sizeof laps / sizeof laps[0]; i++) {
    const busq_ring ring = ring_open(2);
    busq_ring_claim sleeper;
    CHECK_EQUAL(place(&ring, 2, &sleeper), BUSQ_RING_ACCEPTED);
    CHECK(busq_ring_skip(&ring, sleeper.position));
    consume_to(&ring, busq_ring_tail(&ring));
    pass_laps(&ring, laps[i]);
    const busq_pair before = *busq_ring_slot(&ring, sleeper.position);
    CHECK(!busq_ring_publish(&ring, &sleeper, reference_of(99)));
    const busq_pair after = *busq_ring_slot(&ring, sleeper.position);
    CHECK(before.lo == after.lo && before.hi == after.hi);
    ring_free(&ring);
  }
}

/* The hardest case: all slots were skipped in every lap, so that they differ by nothing but lap and position. */
TEST(test_a_sleeper_among_skipped_positions_harms_nothing_either)
{
  const busq_ring ring = ring_open(2);
  busq_ring_claim sleeper, other;
  CHECK_EQUAL(place(&ring, 2, &sleeper), BUSQ_RING_ACCEPTED);
  for (uint64_t i = 0; i < 2 * 65536 + 2; i++) {
    CHECK(busq_ring_skip(&ring, busq_ring_tail(&ring) - 1));
    consume_to(&ring, busq_ring_tail(&ring));
    CHECK_EQUAL(place(&ring, 2, &other), BUSQ_RING_ACCEPTED);
    CHECK(i % 1021 || !busq_ring_publish(&ring, &sleeper, reference_of(99)));
  }
  CHECK(!busq_ring_publish(&ring, &sleeper, reference_of(99)));
  ring_free(&ring);
}

TEST(test_holes_are_told_from_references_when_the_lap_wraps)
{
  const busq_ring ring = ring_open(2);
  for (uint64_t number = 0; number < 3 * 65536 * 2; number++) {
    const uint64_t position = busq_ring_tail(&ring);
    consume_to(&ring, position);
    is_hole(&ring, position);
    put(&ring, number);
    stands_at(&ring, position, number);
  }
  ring_free(&ring);
}

/* ---- lives ---- */

TEST(test_nothing_is_placed_after_closing)
{
  const busq_ring ring = ring_open(8);
  busq_ring_claim before, after;
  put(&ring, 1);
  CHECK_EQUAL(place(&ring, 8, &before), BUSQ_RING_ACCEPTED);
  CHECK_EQUAL(busq_ring_close(&ring), 10);
  CHECK_EQUAL(place(&ring, 8, &after), BUSQ_RING_GONE);
  CHECK_EQUAL(busq_ring_close(&ring), 10);
  /* A position taken before may still be filled; the one that closes skips it if it is not. */
  CHECK(busq_ring_publish(&ring, &before, reference_of(2)));
  stands_at(&ring, 9, 2);
  ring_free(&ring);
}

TEST(test_the_next_life_goes_on_where_the_last_one_ended_and_refuses_its_senders)
{
  const busq_ring ring = ring_open(8);
  busq_ring_claim sleeper, claim;
  uint64_t stamp = 0, head_seen = 8;
  put(&ring, 1);
  CHECK_EQUAL(place(&ring, 8, &sleeper), BUSQ_RING_ACCEPTED);
  const uint64_t tail = busq_ring_close(&ring);
  CHECK(busq_ring_skip(&ring, 9));
  consume_to(&ring, tail);
  busq_ring_open(&ring, 2);
  CHECK_EQUAL(busq_ring_place(&ring, 1, 1, &stamp, 8, &head_seen, &claim), BUSQ_RING_GONE);
  CHECK(!busq_ring_publish(&ring, &sleeper, reference_of(9)));
  CHECK_EQUAL(busq_ring_place(&ring, 2, 1, &stamp, 8, &head_seen, &claim), BUSQ_RING_ACCEPTED);
  CHECK_EQUAL(claim.position, tail);
  CHECK_EQUAL(stamp, 4);
  CHECK(busq_ring_verify(&ring));
  ring_free(&ring);
}

TEST(test_two_thousand_lives_are_told_apart)
{
  const busq_ring ring = ring_new(8);
  busq_ring_claim claim;
  for (uint32_t incarnation = 1; incarnation <= 2047; incarnation++) {
    uint64_t stamp = 0, head_seen = busq_load_relaxed(&ring.queue->head);
    busq_ring_open(&ring, incarnation);
    for (uint32_t other = 1; other <= 2047; other += other < 5 ? 1 : 401)
      CHECK(other == incarnation || busq_ring_place(&ring, other, 1, &stamp, 8, &head_seen, &claim) == BUSQ_RING_GONE);
    CHECK_EQUAL(busq_ring_place(&ring, incarnation, 1, &stamp, 8, &head_seen, &claim), BUSQ_RING_ACCEPTED);
    CHECK(busq_ring_skip(&ring, claim.position));
    consume_to(&ring, busq_ring_close(&ring));
  }
  ring_free(&ring);
}

/* ---- the end of the counters, and damage ---- */

TEST(test_when_the_positions_end_the_queue_refuses_instead_of_mixing_up)
{
  const busq_ring ring = ring_open(8);
  busq_ring_claim claim;
  ring.queue->clock_tail.hi = busq_ring_life_bits(1) | (BUSQ_RING_POSITION_MASK - 1);
  consume_to(&ring, BUSQ_RING_POSITION_MASK - 1);
  put(&ring, 1);
  stands_at(&ring, BUSQ_RING_POSITION_MASK - 1, 1);
  CHECK_EQUAL(place(&ring, 8, &claim), BUSQ_RING_ACCEPTED);
  CHECK_EQUAL(claim.position, BUSQ_RING_POSITION_MASK);
  for (int i = 0; i < 3; i++)
    CHECK_EQUAL(place(&ring, 8, &claim), BUSQ_RING_GONE);
  ring_free(&ring);
}

TEST(test_a_clock_beyond_counting_and_a_head_beyond_the_ring_are_damage)
{
  const busq_ring ring = ring_open(8);
  busq_ring_claim claim;
  ring.queue->clock_tail.lo = BUSQ_TIMESTAMP_MAX;
  CHECK_EQUAL(place(&ring, 8, &claim), BUSQ_RING_DAMAGED);
  CHECK(!busq_ring_verify(&ring));
  ring.queue->clock_tail.lo = BUSQ_TIMESTAMP_SURE - 1;
  CHECK_EQUAL(place(&ring, 8, &claim), BUSQ_RING_ACCEPTED);
  ring.queue->clock_tail = (busq_pair){5, busq_ring_life_bits(1) | 30};
  consume_to(&ring, 30 - 9);
  CHECK_EQUAL(place(&ring, 8, &claim), BUSQ_RING_DAMAGED);
  CHECK(!busq_ring_verify(&ring));
  consume_to(&ring, 30 - 8);
  CHECK_EQUAL(place(&ring, 8, &claim), BUSQ_RING_FULL);
  CHECK(busq_ring_verify(&ring));
  ring_free(&ring);
}

/* ---- many steps at random, against a plain list ---- */

#define MODEL_SLOTS 16

typedef struct {
  enum { FREE, CLAIMED, PUBLISHED, SKIPPED } what;
  busq_ring_claim claim;
  uint64_t number;
} model_slot;

static void model_equals(const busq_ring *ring, const model_slot *model, uint64_t head, uint64_t tail)
{
  CHECK_EQUAL(busq_ring_tail(ring), tail);
  for (uint64_t position = head; position < tail; position++) {
    const model_slot *slot = &model[position % MODEL_SLOTS];
    if (slot->what == PUBLISHED)
      stands_at(ring, position, slot->number);
    else if (slot->what == SKIPPED)
      is_skipped(ring, position);
    else
      is_hole(ring, position);
  }
  is_hole(ring, tail);
}

static void model_step(const busq_ring *ring, model_slot *model, uint64_t *head, uint64_t *tail, check_chance *chance)
{
  model_slot *slot = *tail > *head ? &model[(*head + check_below(chance, *tail - *head)) % MODEL_SLOTS] : NULL;
  const uint64_t number = check_next(chance) >> 32;
  switch (check_below(chance, 4)) {
  case 0: {
    busq_ring_claim claim;
    const bool is_full = *tail - *head >= MODEL_SLOTS - 1;
    CHECK_EQUAL(place(ring, MODEL_SLOTS - 1, &claim), is_full ? BUSQ_RING_FULL : BUSQ_RING_ACCEPTED);
    if (is_full)
      return;
    CHECK_EQUAL(claim.position, *tail);
    model[*tail % MODEL_SLOTS] = (model_slot){CLAIMED, claim, 0};
    ++*tail;
    return;
  }
  case 1:
    if (!slot)
      return;
    CHECK_EQUAL(busq_ring_publish(ring, &slot->claim, reference_of(number)), slot->what == CLAIMED);
    if (slot->what == CLAIMED)
      *slot = (model_slot){PUBLISHED, slot->claim, number};
    return;
  case 2:
    if (!slot)
      return;
    CHECK_EQUAL(busq_ring_skip(ring, slot->claim.position), slot->what == CLAIMED);
    if (slot->what == CLAIMED)
      slot->what = SKIPPED;
    return;
  default:
    while (*head < *tail && model[*head % MODEL_SLOTS].what != CLAIMED)
      ++*head;
    consume_to(ring, *head);
  }
}

TEST(test_ring_and_model_agree_after_every_step)
{
  const busq_ring ring = ring_open(MODEL_SLOTS);
  static model_slot model[MODEL_SLOTS];
  uint64_t head = MODEL_SLOTS, tail = MODEL_SLOTS;
  check_chance chance = {test_seed};
  for (uint64_t turn = 0; turn < check_share(100000); turn++) {
    model_step(&ring, model, &head, &tail, &chance);
    model_equals(&ring, model, head, tail);
  }
  ring_free(&ring);
}

/* ---- four producers and a consumer that loses patience ---- */

#define N_PRODUCERS 4

typedef struct {
  const busq_ring *ring;
  uint32_t sender;
  uint64_t messages;
} producer;

/* The tag carries what this producer's how-many-eth it is. */
static void *producer_run(void *argument)
{
  const producer *self = argument;
  uint64_t head_seen = self->ring->slot_count, stamp = 0;
  for (uint64_t number = 1; number <= self->messages;) {
    busq_ring_claim claim;
    const busq_ring_outcome outcome =
        busq_ring_place(self->ring, 1, 1, &stamp, self->ring->slot_count, &head_seen, &claim);
    if (number % 61 == self->sender)
      sched_yield(); /* stopped between its two steps, now and then */
    if (outcome == BUSQ_RING_ACCEPTED)
      number += busq_ring_publish(self->ring, &claim, (busq_reference){self->sender, (uint32_t)number, number});
    else if (outcome == BUSQ_RING_FULL)
      sched_yield();
    else
      check_fail(__FILE__, __LINE__, "outcome %d", outcome);
  }
  return NULL;
}

static uint64_t consume(const busq_ring *ring, uint64_t total, check_chance *chance)
{
  uint64_t taken[N_PRODUCERS] = {0}, skipped = 0, head = ring->slot_count;
  for (uint64_t count = 0; count < total;) {
    busq_reference found;
    if (!busq_ring_look(ring, head, &found)) {
      if (busq_ring_tail(ring) != head && check_below(chance, 16) == 0)
        skipped += busq_ring_skip(ring, head);
      else
        sched_yield();
      continue;
    }
    if (found.sender != BUSQ_RING_NOBODY) {
      CHECK(found.sender < N_PRODUCERS);
      CHECK_EQUAL(found.tag, taken[found.sender] + 1);
      CHECK_EQUAL(found.record, (uint32_t)found.tag);
      taken[found.sender]++;
      count++;
    }
    consume_to(ring, ++head);
  }
  CHECK_EQUAL(busq_ring_tail(ring), head);
  return skipped;
}

TEST(test_four_producers_and_an_impatient_consumer_lose_and_repeat_nothing)
{
  const busq_ring ring = ring_open(8);
  const uint64_t messages = check_share(50000);
  producer producers[N_PRODUCERS];
  pthread_t threads[N_PRODUCERS];
  check_chance chance = {test_seed};
  for (uint32_t i = 0; i < N_PRODUCERS; i++) {
    producers[i] = (producer){&ring, i, messages};
    CHECK(pthread_create(&threads[i], NULL, producer_run, &producers[i]) == 0);
  }
  const uint64_t skipped = consume(&ring, messages * N_PRODUCERS, &chance);
  for (uint32_t i = 0; i < N_PRODUCERS; i++)
    CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK_EQUAL(busq_ring_clock(&ring), 1 + messages * N_PRODUCERS + skipped);
  printf("    %" PRIu64 " messages, %" PRIu64 " holes skipped\n", messages * N_PRODUCERS, skipped);
  ring_free(&ring);
}
