/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_MESSAGE_CLAIM_H
#define BUSQ_SHM_MESSAGE_CLAIM_H
/*
 * Changes that are decided by a multicast: a group's view, the end of a node.
 *
 * Guarantee: of the changes that several processes propose at a number, exactly one is decided, and its place in the
 * order is the key of its message.  No process waits for a proposer that is dead or stopped: its proposal is completed,
 * put off or broken.
 *
 * Mechanism.  One word shows at which number the thing stands, and which message may be about to change it:
 *
 *      lo: number (48) | state (4) | slot of the claimer (12)          hi: record (32) | low half of its sequence (32)
 *
 *   1. The claimer fills its record and calls it STAGING, while no other process knows of it, then swaps the word: IDLE
 *   -> CLAIMED.
 *   2. It looks again at what its list of receivers was made from.  Has that changed, it takes the record back.
 *   3. It stages, seals, syncs and commits as every multicast does (multicast.h).
 *   4. The record's state alone decides.  A process that finds a claim and its record
 *        STAGING    may put it off, so that it comes later in the order than all that was sent so far; or break it: the
 *                   record is undone, then the word is IDLE again at the same number
 *        SEALED     completes it
 *        COMMITTED  installs what it announces (group.h, node.h), and moves the word on
 *        gone       makes the word IDLE again.  A record is not used anew before all its receivers have released it,
 *                   and they install before they do; so no process has seen this one.
 *   5. Installing is swaps of words that carry the number they belong to: one that comes late fails.
 *
 * Why it can't decide twice.  A claimer commits only by a swap of its record from STAGING, or SEALED, and a proposal is
 * broken by a swap of the same word.  A second claim at the number needs the word IDLE at it, which it becomes only
 * after the first one's record can't be committed any more:
 *      claimer A  claims, is stopped
 *      other B    breaks A's record, the word is IDLE; claims, commits, installs
 *      A          comes back: its commit fails, and it begins again at the next number
 *
 * Before each attempt the claimer raises its clock above whatever its message must come after (`hooks.attempt` in
 * send_hooks.h), also where that is a queue that it does not send to.
 *
 * Not given: fairness between claimers.  A process that finds a fresh proposal waits a little before it breaks it
 * (busq_claim_wait).
 */
#include "shm/memory/bus.h"
#include "shm/memory/peer.h"
#include "shm/message/commit.h"

enum {
  BUSQ_CLAIM_IDLE = 0,
  BUSQ_CLAIM_CLAIMED = 1,
  BUSQ_CLAIM_OVER =
      2, /* nothing will be claimed at this number: a node that was destroyed, a group that gets another name */
  BUSQ_CLAIM_EMPTY = 3 /* decided without a message, since no receiver is left (group.h) */
};

#define BUSQ_CLAIM_NUMBER_MAX ((UINT64_C(1) << 48) - 1)

static inline busq_pair busq_claim_pair(uint64_t number, uint32_t state)
{
  return (busq_pair){number << 16 | (uint64_t)state << 12, 0};
}

static inline uint64_t busq_claim_number(busq_pair word)
{
  return word.lo >> 16;
}

static inline uint32_t busq_claim_state(busq_pair word)
{
  return (uint32_t)(word.lo >> 12) & 0xf;
}

/* A claim and its record, as they were found. */
typedef enum {
  BUSQ_CLAIM_NOTHING,  /* the word is not claimed */
  BUSQ_CLAIM_OPEN,     /* proposed, and its place is not fixed */
  BUSQ_CLAIM_SEALED,   /* its place is fixed: help, and it is decided */
  BUSQ_CLAIM_DECIDED,
  BUSQ_CLAIM_GONE      /* the record is undone, or holds another message */
} busq_claim_phase;

typedef struct {
  busq_pair word;
  busq_claim_phase phase;
  busq_record *record;
  uint64_t tag;  /* with the attempt, without the phase */
  busq_key key;  /* where it is sealed or decided */
} busq_claim_look;

/* The word, read as one: both halves are of the same moment. */
busq_pair busq_claim_load(busq_claim_word *word);
busq_claim_look busq_claim_examine(const busq_bus *bus, busq_claim_word *word);
/* The first bytes of a decided claim's payload, copied; false where the record is not that message any more, or is
 * shorter. */
bool busq_claim_read(const busq_bus *bus, const busq_claim_look *look, void *begin, uint64_t bytes);

/* For a caller that needs the decision to come after all that it has sent: from BUSQ_CLAIM_OPEN it begins again.
 * False: look again. */
bool busq_claim_put_off(const busq_claim_look *look);
/* Undoes an open one, and makes the word IDLE.  False: look again. */
bool busq_claim_break(busq_claim_word *word, const busq_claim_look *look);
/* Completes what is sealed. */
void busq_claim_complete(busq_bus *bus, const busq_claim_look *look);
/* The word moves on from what was found in it.  False where another process was faster. */
bool busq_claim_move(busq_claim_word *word, busq_pair seen, uint64_t number, uint32_t state);
/* Waits a moment for an open claim, as long as its claimer is likely to be at it: a usual one is sealed within
 * microseconds.  Counts in *spentp, from 0; false where it is not worth waiting any longer. */
bool busq_claim_wait(busq_claim_word *word, const busq_claim_look *look, uint64_t *spentp);

/* The claimer's own: IDLE at the number -> CLAIMED by this record.  False: another process was faster. */
bool busq_claim_take(const busq_peer *peer, busq_claim_word *word, uint64_t number, const busq_record *record,
                     uint64_t tag);
/* The claimer takes its own back, whatever others have made of it: its record can't be committed any more. */
void busq_claim_drop(const busq_peer *peer, busq_claim_word *word, uint64_t number, const busq_record *record,
                     uint64_t tag);

/* ---- what is decided number by number: views of a group, notices to a watcher ---- */

/* How often a process begins anew because the world has changed: each time another one has made a change, or a claim
 * came a step further; so only damage takes many. */
#ifdef BUSQ_STEPS
enum { BUSQ_CLAIM_TURNS = 50 };
#else
enum { BUSQ_CLAIM_TURNS = 10000 };
#endif

/* What a claim is about, and how the decision at a number is installed there: of a committed message, or without one.
 * Both move the word on. */
typedef struct {
  busq_claim_word *word;
  void *about;
  void (*install)(busq_bus *bus, void *about, const busq_claim_look *look);
  void (*install_empty)(busq_bus *bus, void *about, const busq_claim_look *look);
} busq_claimed;

/* One step that needs no patience; true if there was something to do. */
static inline bool busq_claim_advance(busq_bus *bus, const busq_claimed *claimed, const busq_claim_look *look)
{
  if (look->phase == BUSQ_CLAIM_SEALED)
    busq_claim_complete(bus, look);
  else if (look->phase == BUSQ_CLAIM_DECIDED)
    claimed->install(bus, claimed->about, look);
  else if (look->phase == BUSQ_CLAIM_GONE)
    (void)busq_claim_move(claimed->word, look->word, busq_claim_number(look->word), BUSQ_CLAIM_IDLE);
  else if (busq_claim_state(look->word) == BUSQ_CLAIM_EMPTY)
    claimed->install_empty(bus, claimed->about, look);
  else
    return false;
  return true;
}

/* Installs what is decided below that number. */
void busq_claim_install_until(busq_bus *bus, const busq_claimed *claimed, uint64_t number);
/* Finds the number at which the next change can be claimed; what is open is waited for a little, then broken.  False:
 * damage. */
bool busq_claim_settle(busq_bus *bus, const busq_claimed *claimed, uint64_t *numberp);

/* ---- places in the order ---- */

/* Is the mark of this number?  Then *keyp is its key; the sequence has 52 bits. */
typedef enum { BUSQ_PLACE_THERE, BUSQ_PLACE_EARLIER, BUSQ_PLACE_LATER } busq_place_outcome;
busq_place_outcome busq_place_read(busq_place_mark *mark, uint64_t number, busq_key *keyp);
/* Does nothing where the mark is of this number, or of a later one. */
void busq_place_install(busq_place_mark *mark, uint64_t number, busq_key key);
/* A pair whose first half is a number that only grows: installs, where the number is higher than what stands there. */
void busq_numbered_install(busq_pair *pair, uint64_t number, uint64_t value);
/* Reads both halves as of one moment. */
busq_pair busq_numbered_load(busq_pair *pair);

#define BUSQ_PLACE_SEQUENCE_MASK ((UINT64_C(1) << 52) - 1)

/* The key of a message in the form in which places are kept: compared with each other and with nothing else. */
static inline busq_key busq_place_key(busq_key key)
{
  return (busq_key){key.timestamp, busq_tag_sequence(key.sequence) & BUSQ_PLACE_SEQUENCE_MASK, key.sender};
}

#endif /* BUSQ_SHM_MESSAGE_CLAIM_H */
