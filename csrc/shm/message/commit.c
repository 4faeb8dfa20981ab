/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/message/commit.h"

/* Finishes a message whose timestamp is fixed.  The swap fails if another process, its sender included, was faster. */
static void message_complete(busq_bus *bus, busq_record *record, uint64_t tag, uint64_t timestamp)
{
  busq_commit_sync(bus, record, timestamp);
  (void)busq_commit_swap(record, tag, BUSQ_PHASE_SEALED, timestamp, BUSQ_PHASE_COMMITTED, timestamp);
}

/* A pair is read in two halves: they belong together if the first, which never comes twice, is the same after the
 * second. */
static bool record_look(busq_record *record, busq_pair *seen)
{
  *seen = busq_pair_load(&record->state);
  return busq_load_acquire(&record->state.lo) == seen->lo;
}

bool busq_commit_help(busq_bus *bus, busq_record *record, uint64_t tag)
{
  busq_pair seen;
  const bool is_whole = record_look(record, &seen);
  if (is_whole && seen.lo == (tag | BUSQ_PHASE_SEALED)) {
    if (!busq_timestamp_is_sound(seen.hi))
      return false;
    message_complete(bus, record, tag, seen.hi);
  } else if (is_whole && seen.lo == (tag | BUSQ_PHASE_STAGING)) {
    if (busq_tag_attempt(tag) == BUSQ_ATTEMPT_MAX)
      return false;
    BUSQ_STEP("put off");
    (void)busq_pair_cas(&record->state, &seen, (busq_pair){seen.lo + BUSQ_TAG_NEXT_ATTEMPT, 0});
  }
  return true;
}

void busq_commit_finish(busq_bus *bus, busq_record *record)
{
  enum { TRIES = 4 };
  busq_pair seen = busq_pair_load(&record->state);
  /* No reader can have delivered what is not sealed: its references die with the attempt.  Readers may be putting it
   * off meanwhile. */
  for (int i = 0; i < TRIES && (seen.lo & BUSQ_PHASE_MASK) == BUSQ_PHASE_STAGING; i++) {
    const busq_pair undone = {((seen.lo & ~BUSQ_PHASE_MASK) + BUSQ_TAG_NEXT_ATTEMPT) | BUSQ_PHASE_FREE, 0};
    BUSQ_STEP("undo");
    if (busq_pair_cas(&record->state, &seen, undone))
      return;
  }
  if ((seen.lo & BUSQ_PHASE_MASK) == BUSQ_PHASE_SEALED && busq_timestamp_is_sound(seen.hi))
    message_complete(bus, record, seen.lo & ~BUSQ_PHASE_MASK, seen.hi);
}
