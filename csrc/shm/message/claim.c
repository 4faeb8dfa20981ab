/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/message/claim.h"
#include "base/assert.h"
#include "base/time.h"
#include "shm/message/reference.h"
#include <sched.h>
#include <string.h>

/* ---- words of two halves ---- */

/* A first half that is the same before and after: the second one is of a moment at which it stood beside it.  The
 * number in the first only grows, and at one number a claimer's slot comes again only with another record. */
busq_pair busq_numbered_load(busq_pair *pair)
{
  busq_pair seen;
  do
    seen = busq_pair_load(pair);
  while (BUSQ_UNLIKELY(busq_load_acquire(&pair->lo) != seen.lo));
  return seen;
}

busq_pair busq_claim_load(busq_claim_word *word)
{
  return busq_numbered_load(word);
}

void busq_numbered_install(busq_pair *pair, uint64_t number, uint64_t value)
{
  busq_pair seen = busq_numbered_load(pair);
  while (seen.lo < number) {
    BUSQ_STEP("install");
    if (busq_pair_cas(pair, &seen, (busq_pair){number, value}))
      return;
  }
}

/* ---- claims ---- */

static uint64_t claim_record_half(const busq_bus *bus, const busq_record *record, uint64_t tag)
{
  const uint64_t unit = (uint64_t)((const char *)record - bus->arena) / BUSQ_LAYOUT_UNIT_BYTES;
  return unit << 32 | (uint32_t)busq_tag_sequence(tag);
}

static busq_pair claim_of(const busq_peer *peer, uint64_t number, const busq_record *record, uint64_t tag)
{
  busq_pair word = busq_claim_pair(number, BUSQ_CLAIM_CLAIMED);
  word.lo |= peer->slot;
  word.hi = claim_record_half(peer->bus, record, tag);
  return word;
}

/* The phase of a record, if it is the one that the word means. */
static void look_at_record(const busq_bus *bus, busq_claim_look *look)
{
  const uint32_t unit = (uint32_t)(look->word.hi >> 32);
  look->phase = BUSQ_CLAIM_GONE;
  if (!busq_bus_has_units(bus, unit + UINT64_C(1)))
    return;
  look->record = busq_bus_record(bus, unit);
  const busq_pair state = busq_numbered_load(&look->record->state);
  if ((uint32_t)busq_tag_sequence(state.lo) != (uint32_t)look->word.hi)
    return;
  look->tag = state.lo & ~BUSQ_PHASE_MASK;
  look->key = (busq_key){state.hi, look->tag, (uint32_t)look->word.lo & 0xfff};
  const uint32_t phase = state.lo & BUSQ_PHASE_MASK;
  if (phase == BUSQ_PHASE_STAGING)
    look->phase = BUSQ_CLAIM_OPEN;
  else if (phase == BUSQ_PHASE_SEALED)
    look->phase = BUSQ_CLAIM_SEALED;
  else if (phase == BUSQ_PHASE_COMMITTED)
    look->phase = BUSQ_CLAIM_DECIDED;
}

busq_claim_look busq_claim_examine(const busq_bus *bus, busq_claim_word *word)
{
  busq_claim_look look = {.word = busq_claim_load(word), .phase = BUSQ_CLAIM_NOTHING};
  if (BUSQ_UNLIKELY(busq_claim_state(look.word) == BUSQ_CLAIM_CLAIMED))
    look_at_record(bus, &look);
  return look;
}

/* All that is read is checked before it is used, and counts only if the record was still that message afterwards. */
bool busq_claim_read(const busq_bus *bus, const busq_claim_look *look, void *begin, uint64_t bytes)
{
  const busq_record *record = look->record;
  const uint32_t destinations = busq_record_destinations(record);
  const uint64_t size_bytes = busq_load_relaxed(&record->size_bytes);
  const uint64_t at = (uint64_t)((const char *)record - bus->arena) +
                      busq_record_payload_offset(destinations, size_bytes);
  if (destinations > bus->geometry.peers || size_bytes < bytes ||
      !busq_bus_has_bytes(bus, at + bytes))
    return false;
  memcpy(begin, bus->arena + at, bytes);
  return busq_record_is_still(record, look->tag | BUSQ_PHASE_COMMITTED);
}

bool busq_claim_put_off(const busq_claim_look *look)
{
  BUSQ_ASSERT(look->phase == BUSQ_CLAIM_OPEN);
  busq_pair seen = {look->tag | BUSQ_PHASE_STAGING, 0};
  if (busq_tag_attempt(look->tag) >= BUSQ_ATTEMPT_MAX - 1)
    return false;
  BUSQ_STEP("put off");
  return busq_pair_cas(&look->record->state, &seen, (busq_pair){seen.lo + BUSQ_TAG_NEXT_ATTEMPT, 0});
}

bool busq_claim_break(busq_claim_word *word, const busq_claim_look *look)
{
  BUSQ_ASSERT(look->phase == BUSQ_CLAIM_OPEN);
  busq_pair seen = {look->tag | BUSQ_PHASE_STAGING, 0};
  BUSQ_STEP("break");
  if (!busq_pair_cas(&look->record->state, &seen,
                     (busq_pair){(look->tag + BUSQ_TAG_NEXT_ATTEMPT) | BUSQ_PHASE_FREE, 0}))
    return false;
  (void)busq_claim_move(word, look->word, busq_claim_number(look->word), BUSQ_CLAIM_IDLE);
  return true;
}

void busq_claim_complete(busq_bus *bus, const busq_claim_look *look)
{
  BUSQ_ASSERT(look->phase == BUSQ_CLAIM_SEALED);
  (void)busq_commit_help(bus, look->record, look->tag);
}

bool busq_claim_move(busq_claim_word *word, busq_pair seen, uint64_t number, uint32_t state)
{
  BUSQ_ASSERT(number >= busq_claim_number(seen));
  BUSQ_STEP("move on");
  return busq_pair_cas(word, &seen, busq_claim_pair(number, state));
}

/* Spinning first, for a claimer on another core; then letting it run.  In tests of steps the scheduler chooses which
 * process goes on, and none does while we wait here. */
bool busq_claim_wait(busq_claim_word *word, const busq_claim_look *look, uint64_t *spentp)
{
#ifdef BUSQ_STEPS
  const uint64_t turns = 0;
#else
  const uint64_t turns = 40;
#endif
  enum { SPINS = 256 };
  if (*spentp >= turns)
    return false;
  for (int i = 0; i < SPINS && busq_load_relaxed(&word->lo) == look->word.lo; i++)
    busq_cpu_relax();
  if (*spentp > turns / 4)
    (void)sched_yield();
  ++*spentp;
  return true;
}

bool busq_claim_take(const busq_peer *peer, busq_claim_word *word, uint64_t number, const busq_record *record,
                     uint64_t tag)
{
  busq_pair idle = busq_claim_pair(number, BUSQ_CLAIM_IDLE);
  BUSQ_STEP("claim");
  return busq_pair_cas(word, &idle, claim_of(peer, number, record, tag));
}

void busq_claim_drop(const busq_peer *peer, busq_claim_word *word, uint64_t number, const busq_record *record,
                     uint64_t tag)
{
  (void)busq_claim_move(word, claim_of(peer, number, record, tag), number, BUSQ_CLAIM_IDLE);
}

/* ---- what is decided number by number ---- */

void busq_claim_install_until(busq_bus *bus, const busq_claimed *claimed, uint64_t number)
{
  for (int turn = 0; turn < BUSQ_CLAIM_TURNS; turn++) {
    const busq_claim_look look = busq_claim_examine(bus, claimed->word);
    if (busq_claim_number(look.word) >= number || !busq_claim_advance(bus, claimed, &look))
      return;
  }
}

bool busq_claim_settle(busq_bus *bus, const busq_claimed *claimed, uint64_t *numberp)
{
  uint64_t spent = 0;
  for (int turn = 0; turn < BUSQ_CLAIM_TURNS; turn++) {
    const busq_claim_look look = busq_claim_examine(bus, claimed->word);
    *numberp = busq_claim_number(look.word);
    if (look.phase == BUSQ_CLAIM_OPEN) {
      if (!busq_claim_wait(claimed->word, &look, &spent))
        (void)busq_claim_break(claimed->word, &look);
    } else if (!busq_claim_advance(bus, claimed, &look)) {
      return true;
    }
  }
  return false;
}

/* ---- places in the order ---- */

busq_place_outcome busq_place_read(busq_place_mark *mark, uint64_t number, busq_key *keyp)
{
  const busq_pair timestamp = busq_numbered_load(&mark->timestamp), source = busq_numbered_load(&mark->source);
  if (timestamp.lo != number || source.lo != number)
    return timestamp.lo > number || source.lo > number ? BUSQ_PLACE_LATER : BUSQ_PLACE_EARLIER;
  *keyp = (busq_key){timestamp.hi, source.hi >> 12, (uint32_t)source.hi & 0xfff};
  return BUSQ_PLACE_THERE;
}

void busq_place_install(busq_place_mark *mark, uint64_t number, busq_key key)
{
  const busq_key place = busq_place_key(key);
  busq_numbered_install(&mark->timestamp, number, key.timestamp);
  busq_numbered_install(&mark->source, number, place.sequence << 12 | place.sender);
}
