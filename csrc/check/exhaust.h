/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_CHECK_EXHAUST_H
#define BUSQ_CHECK_EXHAUST_H
/*
 * All states of a model: every execution of an order within a bound.
 *
 * Guarantee.  Where the search says "complete", every state that some execution reaches was judged, but for those whose fingerprint
 * collided with that of another: the expected number of these is told (facts.missed_expected).  What is found is given as a
 * schedule, the moves from the start, which busq_model_play plays again.
 *
 * Mechanism.  Depth first, by any number of threads: a set of the fingerprints of states that were seen, shared by all
 * (check/seen.h), and for each thread a stack of states to go on from.  Who has nothing left asks; whoever has most to do
 * gives away the older half of its stack.  The states of a model form no cycle, so a state needs to be expanded once.
 *
 * Reductions, each of which can be switched off:
 *
 *   late submits      In an order with an output buffer, a submit that is not sent at once changes nothing but the buffer; the step that
 *                     would send it from there does the same as that step with an empty buffer and the submit right after it.  So
 *                     of all times at which a message may be submitted, those at which it is sent at once are enough.
 *
 *   quiet packets     A packet whose arrival commutes with everything that can happen before it (busq_order.quiet_always and
 *                     quiet_when_all_is_sent say when) is let in at once, and nothing else is tried in that state: whatever else would have happened
 *                     first can happen after it and leads to the same states.
 *
 * Not given: a bound on time.  Who runs out of memory for fingerprints is told how far the search came.
 */
#include "check/model.h"
#include <stdatomic.h>

typedef enum { BUSQ_EXHAUST_LATE_SUBMITS = 1, BUSQ_EXHAUST_QUIET_PACKETS = 2 } busq_exhaust_reduction;

typedef struct {
  busq_model_config model;
  uint32_t reductions;
  uint32_t n_threads;
  uint64_t memory_bytes; /* for fingerprints */
  uint32_t judged;       /* properties whose violation ends the search, a set of bits; others are counted */
} busq_exhaust_config;

typedef struct {
  uint64_t unique;
  uint64_t total;   /* moves that were made, and the start */
  uint64_t ends;    /* states in which nothing can happen any more */
  uint32_t depth_max;
  uint32_t faults;  /* of all states together */
  bool is_complete; /* nothing was left out */
  bool is_full;     /* the memory for fingerprints, or for states to go on from, ran out */
  bool is_broken;   /* an order has refused an event of its own making, or a bound of the model was too small */
  double missed_expected;
} busq_exhaust_facts;

enum { BUSQ_EXHAUST_DEPTH_MAX = 512 };

/* A violation: what is broken, and the moves that lead there. */
typedef struct {
  uint32_t faults;
  uint32_t n_moves;
  busq_model_move moves[BUSQ_EXHAUST_DEPTH_MAX];
} busq_exhaust_witness;

typedef struct busq_exhaust busq_exhaust;

/* Starts the threads.  BUSQ_INVALID, BUSQ_NO_SPACE. */
int busq_exhaust_new(const busq_exhaust_config *config, busq_exhaust **searchp);
/* Waits for the end; BUSQ_INTERRUPTED: it is not over. */
int busq_exhaust_wait(busq_exhaust *search, uint64_t slice_ns);
void busq_exhaust_examine(busq_exhaust *search, busq_exhaust_facts *facts);
/* The first violation that was met, or NULL. */
const busq_exhaust_witness *busq_exhaust_witness_of(busq_exhaust *search);
/* Ends the threads, wherever they are. */
void busq_exhaust_free(busq_exhaust *search);

#endif /* BUSQ_CHECK_EXHAUST_H */
