/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_CHECK_PAST_H
#define BUSQ_CHECK_PAST_H
/*
 * Fingerprints on disk, for which the set in memory has no room.
 *
 * Guarantee: once the past was read, every fingerprint of the set that the past has is marked.  No fingerprint is in the past twice.
 *
 * Mechanism: delayed duplicate detection.  A set that is full is written down as it stands, and emptied.  From then on a fingerprint that
 * is not in the set may be an old one; whether it is, is asked for many of them at once, before their states are gone on from: the
 * past is read from its beginning to its end, and each fingerprint of it is looked up in the set.  Tables stand in the order of their
 * fingerprints (check/seen.h), in memory and on disk: so both are walked through side by side, and nothing is ever sorted or merged.
 *
 * Not given: an answer at once.
 */
#include "check/seen.h"
#include "check/store.h"

typedef struct {
  busq_store file; /* fingerprints: tables, one behind the other */
  uint64_t count;
  _Atomic uint8_t *marks; /* a bit for each slot of the set; NULL: no table was written so far */
  uint64_t marks_bytes;
  atomic_ullong n_taken; /* parts of the file that a thread has taken to read */
  atomic_ullong n_marked;
} busq_past;

bool busq_past_init(busq_past *past, busq_disk *disk);
void busq_past_deinit(busq_past *past, busq_account *account);

/* Whether a set was written down so far. */
static inline bool busq_past_is_there(const busq_past *past)
{
  return past->marks;
}

/* Before it is read. */
void busq_past_rewind(busq_past *past);
/* Reads all of it, and marks what the set has; of several threads each its share. */
void busq_past_read(busq_past *past, const busq_seen *seen, const atomic_bool *must_stop);
/* Writes down what is in the set and not marked, and empties the set.  False where there is no room, or `must_stop` was set. */
bool busq_past_write(busq_past *past, busq_seen *seen, busq_account *account, const atomic_bool *must_stop);

/* Whether a fingerprint of the set is marked. */
static inline bool busq_past_has(const busq_past *past, const busq_seen *seen, uint64_t fingerprint)
{
  bool is_there;
  const uint64_t slot = busq_seen_find(seen, fingerprint, &is_there);
  return atomic_load_explicit(&past->marks[slot / 8], memory_order_relaxed) >> slot % 8 & 1;
}

#endif /* BUSQ_CHECK_PAST_H */
