/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_CHECK_GROUPS_MODEL_H
#define BUSQ_CHECK_GROUPS_MODEL_H
/*
 * The protocol of groups, at the level of multicasts, as one flat state.
 *
 * Guarantee: what can happen from a state depends on nothing else, every move makes something advance that never goes
 * back, and the moves are all that can happen next.  Equal states are equal bytes: what is not in use is zero.
 *
 * What is modelled.  Each process has a queue with a clock; a multicast is staged at one destination after the other,
 * is committed at once where no clock was in its way, and else is sealed, raises the clocks one after the other, and is
 * committed then (shm/send/multicast.h).  A group has a word with the number of its view, its members, and the change
 * under way, which may be broken while it is staged, and is completed and installed by any process once it is sealed.
 * Any process sends at any moment, member or not; enters when it is out, leaves when it is in; dies, or stops for ever,
 * between any two steps.
 *
 * The rules, of which each variant leaves one out (busq_groups_variant):
 *   a receiver passes a message over whose view is not the one that it has delivered last;
 *   a sender looks at the group again when its message is committed, and sends again where the change came first;
 *   it puts a change off that is still being staged, so that it comes behind, and installs one that is committed;
 *   one change at a time, held by a word that a process which wants to change the group may free from one that does not end;
 *   the members old and new get the change, the dead are mourned once, by one that is left.
 *
 * Not given.  The steps inside of a step: that each is one swap, or may be taken for one, is what the search of
 * interleavings of the core itself shows (explore/).  Records that are used again, queues that are full, and names that
 * come back.  A process puts off what is staged by another one a bounded number of times, so that every execution ends.
 */
#include "busq_lab.h"
#include "base/types.h"

enum {
  BUSQ_GROUPS_EVENTS_MAX = BUSQ_GROUPS_MESSAGES_MAX + BUSQ_GROUPS_CHANGES_MAX,
  BUSQ_GROUPS_RECORDS_MAX = 14,
  BUSQ_GROUPS_MOVES_MAX = 160
};

/* Of a claim: no change is under way; 1 + a record; or one whose record is undone, and which was not freed so far. */
enum { BUSQ_GROUPS_IDLE = 0, BUSQ_GROUPS_GONE = 0xff };

typedef enum {
  BUSQ_GROUPS_STAGING = 0,
  BUSQ_GROUPS_SEALED = 1,
  BUSQ_GROUPS_COMMITTED = 2
} busq_groups_phase;

/* Where a process is with what it does. */
typedef enum {
  BUSQ_GROUPS_RESTS = 0,
  BUSQ_GROUPS_LOOKS = 1,  /* it has a message, and no view for it */
  BUSQ_GROUPS_TORN = 2,   /* a variant: it has read the members (`subject`), and not the number of the view */
  BUSQ_GROUPS_STAGES = 3, /* its record is in hand */
  BUSQ_GROUPS_RETURNS = 4, /* its message is committed */
  BUSQ_GROUPS_AGAIN = 5,  /* passed over: it will look when the next view is installed */
  BUSQ_GROUPS_WANTS = 6,  /* a change, and another process has the claim */
  BUSQ_GROUPS_INSTALLS = 7
} busq_groups_place;

typedef struct {
  uint8_t number; /* of the view that is installed */
  uint8_t members;
  uint8_t claim;
  uint8_t n_records;
  uint8_t n_begun; /* messages */
  uint8_t n_changes;
  uint8_t n_killed;
  uint8_t n_stopped;
  uint8_t dead; /* sets of bits */
  uint8_t stopped;
  uint8_t is_endless; /* a process sends to the same view again, and may for ever */
  uint8_t serial; /* of the next record; 0: they have none, so that equal states are equal */
  /* The keys of changes, by the view that they ended, as long as a process may ask. */
  uint8_t change_time[BUSQ_GROUPS_CHANGES_MAX + 2];
  uint8_t change_owner[BUSQ_GROUPS_CHANGES_MAX + 2];
  uint8_t message_sender[BUSQ_GROUPS_MESSAGES_MAX];
  uint8_t message_view[BUSQ_GROUPS_MESSAGES_MAX]; /* in which it returned; 0; or BUSQ_GROUPS_REFUSED */
  uint8_t n_messages; /* that are not forgotten */
  uint8_t first_members; /* of view 1 */
  uint8_t gone;          /* whose deaths are forgotten */
  uint8_t unused; /* to a whole number of words */
} busq_groups_head;

enum { BUSQ_GROUPS_REFUSED = 0xff, BUSQ_GROUPS_NOBODY = 0xff };

typedef struct {
  uint8_t clock;
  uint8_t view; /* the last one that was delivered here */
  uint8_t is_in;
  uint8_t place;   /* a busq_groups_place */
  uint8_t message; /* 1 + the one that it sends; 0: none */
  uint8_t seen;    /* the view that the message goes to */
  uint8_t change;  /* a busq_groups_change; 0: none */
  uint8_t subject; /* of a change: which enters, leaves, has died */
  uint8_t n_broken; /* how often others have broken its change */
  uint8_t n_events;
  uint16_t events[BUSQ_GROUPS_EVENTS_MAX]; /* what its application has seen: see busq_groups_event */
  uint8_t unused[2];
} busq_groups_process;

typedef struct {
  uint8_t phase;
  uint8_t owner;
  uint8_t change; /* a busq_groups_change; 0: it is a message */
  uint8_t is_in_hand;
  uint8_t view;    /* a message: to which it goes; a change: which it makes */
  uint8_t members; /* of that */
  uint8_t subject; /* of a change */
  uint8_t message;
  uint8_t targets; /* sets of bits: destinations, */
  uint8_t queued;  /* in whose queue it is, */
  uint8_t staged;  /* and where it has been staged so far */
  uint8_t proposal;
  uint8_t highest; /* clock in its way; 0: there was none.  Where steps are whole: its place among those of the same time */
  uint8_t time;    /* its key, once it is sealed */
  uint8_t n_put_off;
  uint8_t serial;
} busq_groups_record;

typedef struct {
  busq_groups_head head;
  busq_groups_process processes[BUSQ_GROUPS_PROCESSES_MAX];
  busq_groups_record records[BUSQ_GROUPS_RECORDS_MAX];
} busq_groups_state;

typedef struct {
  uint8_t kind;    /* a busq_groups_step_kind */
  uint8_t process; /* which does it */
  uint8_t change;  /* a busq_groups_change, where one begins; seal: 1, before others that have the same time */
  uint8_t what;    /* a destination, a subject, or a record */
} busq_groups_move;

/* An event of an application in 16 bits: a message, or the number of a view, its members, and whose death it is. */
static inline uint16_t busq_groups_view_event(uint32_t number, uint32_t members, uint32_t died)
{
  return (uint16_t)(0x8000u | number << 10 | members << 4 | died);
}

static inline uint32_t busq_groups_event_view(uint16_t event)
{
  return event & 0x8000u ? event >> 10 & 0x1f : 0;
}

void busq_groups_start(const busq_groups_config *config, busq_groups_state *state);
uint32_t busq_groups_moves(const busq_groups_config *config, const busq_groups_state *state, busq_groups_move *moves);
/* False where there are more records than a state holds. */
bool busq_groups_play(const busq_groups_config *config, busq_groups_state *state, const busq_groups_move *move);
/* Forgets the messages that nothing can happen to any more, as long as no process goes without them, and counts
 * views from the last one that all have delivered: what comes after does not depend on them, and its verdict does
 * not. */
void busq_groups_forget(const busq_groups_config *config, busq_groups_state *state);
/* Equal for equal states; where a move can be under any name, also for those that differ by names alone: of
 * messages, and, where no process is special and names break no ties, of processes. */
uint64_t busq_groups_fingerprint(const busq_groups_config *config, const busq_groups_state *state);
/* Times count from the lowest that is left: nothing but their order, and the next one to each, ever matters. */
void busq_groups_lower_times(const busq_groups_config *config, busq_groups_state *state);
/* The nature of a move, asked before it is played. */
void busq_groups_describe(const busq_groups_config *config, const busq_groups_state *state, const busq_groups_move *move,
                          busq_groups_step *step);
/* Where a record is staged next, and the first destination whose clock is behind its time; beyond the processes
 * where that is all. */
uint32_t busq_groups_next_stage(const busq_groups_config *config, const busq_groups_record *record);
uint32_t busq_groups_next_sync(const busq_groups_config *config, const busq_groups_state *state,
                               const busq_groups_record *record);
/* Whether the move commutes with all that can happen before it, so that no other needs to be tried first; asked of a
 * step's first one. */
bool busq_groups_is_quiet(const busq_groups_config *config, const busq_groups_state *state, const busq_groups_move *move);
/* Whether it has to happen: no process has to begin, die or stop. */
bool busq_groups_is_owed(const busq_groups_state *state, const busq_groups_move *move);
/* Where nothing is owed any more: whether a process waits all the same. */
bool busq_groups_is_stuck(const busq_groups_config *config, const busq_groups_state *state);
/* Whether the move may have changed what an observer sees. */
bool busq_groups_is_seen(const busq_groups_move *move);
/* Faults of the execution that has led here, as a set of bits, 1 << busq_groups_fault; `is_over`: nothing is owed
 * any more. */
uint32_t busq_groups_judge(const busq_groups_config *config, const busq_groups_state *state, bool is_over,
                           busq_groups_finding *finding);
/* How many bytes of a state are in use. */
static inline size_t busq_groups_bytes(const busq_groups_state *state)
{
  return offsetof(busq_groups_state, records) + state->head.n_records * sizeof(busq_groups_record);
}

#endif /* BUSQ_CHECK_GROUPS_MODEL_H */
