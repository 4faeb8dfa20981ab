/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_OBSERVE_VIEWS_H
#define BUSQ_OBSERVE_VIEWS_H
/*
 * Whether the members of a group agree about the members, and on where in the order that changed.
 *
 * Guarantee.  Judged are the logs alone: which views each process saw and what it delivered, in its own order, and of
 * each message its sender and in which view its send returned.  Nothing is known of how a group does it, so the same
 * judge serves the model of the protocol (check/groups_model.h) and what was recorded.
 *
 * Mechanism.  The place of a message is its view and its number among those that were delivered in that view.  All that
 * deliver it have to give it the same place, and all that leave a view for the next one have to have delivered as many
 * in it.  So two tables that are filled on one walk through the logs suffice: O(events), and no pair of processes is
 * compared.
 *
 * Not given: order beyond places.  Messages that do not go to the group are for the other observers.
 */
#include "base/types.h"

typedef enum {
  BUSQ_VIEWS_UNEQUAL = 0,  /* one view with two lists of members, or a view that changes nothing */
  BUSQ_VIEWS_SKIPPED = 1,  /* a member saw a later view, or none, after its own ended */
  BUSQ_VIEWS_OUTSIDE = 2,  /* a delivery by a process that is in no view at that place: a joiner's first event is its view */
  BUSQ_VIEWS_MISPLACED = 3, /* a message has two places, or another view than the one in which its send returned */
  BUSQ_VIEWS_MISSED = 4,   /* a member of the view in which a message was delivered, or its send returned, goes without */
  BUSQ_VIEWS_DOUBLED = 5,  /* a process delivered a message again */
  BUSQ_VIEWS_GHOST = 6,    /* a message of a dead sender came after the view of its death */
  BUSQ_N_VIEWS_FAULTS = 7
} busq_views_fault;

typedef struct {
  uint32_t view;    /* its number, which is not 0; 0: a delivery */
  uint32_t message; /* of a delivery: which one, from 0 */
  uint32_t members; /* of a view: a place among the sets */
  uint32_t died;    /* of a view: 1 + the process whose death it is; 0: none */
} busq_views_event;

typedef struct {
  const busq_views_event *events;
  uint32_t n_events;
  bool is_cut; /* the process died, or stopped: it may have gone without what comes later */
} busq_views_log;

enum { BUSQ_VIEWS_OPEN = 0, BUSQ_VIEWS_REFUSED = UINT32_MAX };

typedef struct {
  uint32_t sender;
  uint32_t view;  /* in which its send returned, or: it did not return, or it returned with the result that none got it */
  uint32_t named; /* destinations beside the group: a place among the sets */
} busq_views_message;

/* What is found on the walk; to be zero before, and good for nothing after. */
typedef struct {
  uint32_t view; /* in which it was delivered first; 0: not so far */
  uint32_t number;
  uint32_t seen_at; /* 1 + the last process that delivered it */
} busq_views_place;

typedef struct {
  uint32_t members; /* 1 + a place among the sets; 0: none saw it */
  uint32_t seen_by; /* which did, first */
  uint32_t n_most;  /* that any process delivered in it, and which */
  uint32_t most_by;
  uint32_t n_closed; /* 1 + how many were delivered by those that went on to the next; 0: none did */
  uint32_t closed_by;
} busq_views_view;

typedef struct {
  uint32_t n_processes;
  uint32_t n_messages;
  uint32_t n_views; /* numbers are below */
  uint32_t words;   /* of a set of processes, of 64 bits each */
  const uint64_t *sets;
  const busq_views_log *logs;
  const busq_views_message *messages;
  uint32_t first_members; /* 1 + the set that is in view 1 from the beginning, without an event; 0: none is */
  bool is_over;           /* nothing more will happen: what is not there is missing */
  busq_views_place *places; /* n_messages of them */
  busq_views_view *views;   /* n_views */
  uint32_t *gone;           /* n_processes: the view of the death of each, 0; the caller may know some */
} busq_views_history;

/* What was found first; the rest as far as the fault has it. */
typedef struct {
  uint32_t fault; /* a busq_views_fault */
  uint32_t process;
  uint32_t other;
  uint32_t message;
  uint32_t view;
} busq_views_witness;

/* Whether all is well; otherwise *witness shows what is not. */
bool busq_views_judge(const busq_views_history *history, busq_views_witness *witness);

#endif /* BUSQ_OBSERVE_VIEWS_H */
