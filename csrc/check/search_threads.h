/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_CHECK_SEARCH_THREADS_H
#define BUSQ_CHECK_SEARCH_THREADS_H
/*
 * The threads of a search, and what they have in common.
 *
 * Guarantee: a search ends by itself, whatever happens: what was violated, memory that ran out and a bound that was too
 * small each stop all threads, and what they know is kept.  It can be looked at and given up at any moment; giving up
 * takes as long as the threads need to look at crew.must_stop, which they do after every few states.
 *
 * Mechanism: a kind of search is three functions.  Facts are under a mutex, reported now and then; `changed` is for all
 * that wait for anything.
 */
#include "check/account.h"
#include "check/disk.h"
#include "check/model.h"
#include "check/tally.h"
#include <pthread.h>

/* No execution that ends has as many moves within the bounds of a model, as long as nothing is doubled: the longest
 * are those of lamport:ack=all, with 57 moves for each of 32 messages of 8 processes. */
enum { BUSQ_CREW_THREADS_MAX = 64, BUSQ_CREW_DEPTH_MAX = 2048 };

typedef struct busq_crew busq_crew;

typedef struct {
  int (*begin)(busq_crew *crew);                /* memory, the first state; BUSQ_NO_SPACE */
  void (*run)(busq_crew *crew, uint32_t number); /* a thread */
  void (*end)(busq_crew *crew);                 /* also after a `begin` that failed */
} busq_crew_kind;

extern const busq_crew_kind busq_exhaust, busq_breadth, busq_walk;

typedef struct {
  busq_model_config model;
  const busq_crew_kind *kind;
  uint32_t reductions;
  uint32_t n_threads;
  uint32_t judged;
  uint32_t depth_max; /* 0: BUSQ_CREW_DEPTH_MAX, and whatever goes on beyond that is BUSQ_CHECK_ENDLESS */
  uint64_t memory_bytes;
  const char *directory; /* breadth first: of what memory has no room for; NULL: none */
  uint64_t disk_bytes;
  uint64_t walks;
  uint64_t seed;
} busq_crew_config;

/* A violation: what its last move breaks, and all moves that lead there. */
typedef struct {
  uint32_t faults;
  uint32_t n_moves;
  busq_model_move moves[BUSQ_CREW_DEPTH_MAX + 1];
} busq_crew_witness;

typedef struct {
  busq_crew *crew;
  uint32_t number;
  pthread_t thread;
} busq_crew_member;

struct busq_crew {
  busq_crew_config config;
  busq_model model;
  busq_account account;
  busq_disk disk;
  uint32_t depth_max; /* no execution is followed further */
  bool is_by_class;   /* states that differ by names only count as one */
  void *own;          /* what the kind of search keeps */
  busq_crew_member members[BUSQ_CREW_THREADS_MAX];
  uint32_t n_started;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  atomic_bool must_stop;
  /* Under the mutex: */
  uint32_t n_running;
  bool is_cut; /* ended before everything was seen */
  bool is_too_small; /* a bound of the model was too small */
  busq_check_facts facts;
  busq_transitions transitions;
  busq_crew_witness witness;
};

typedef enum { BUSQ_CREW_FOUND, BUSQ_CREW_FULL, BUSQ_CREW_TOO_SMALL, BUSQ_CREW_GIVEN_UP } busq_crew_reason;

/* Starts the threads.  BUSQ_INVALID, BUSQ_NO_SPACE. */
int busq_crew_new(const busq_crew_config *config, busq_crew **crewp);
/* Ends the threads, wherever they are. */
void busq_crew_free(busq_crew *crew);
/* Waits for the end.  BUSQ_INTERRUPTED: it is not over; BUSQ_NO_SPACE: it ended because more packets were in flight
 * than a model holds. */
int busq_crew_wait(busq_crew *crew, uint64_t slice_ns);
void busq_crew_examine(busq_crew *crew, busq_check_facts *facts);

/* ---- for searches ---- */

/* Ends all threads, soon. */
void busq_crew_stop(busq_crew *crew, busq_crew_reason reason);
/* The error of a search that can't even begin. */
int busq_crew_no_memory(const busq_crew *crew);
/* The faults of an execution that goes no further than this state, which has these moves: it may have ended, or is left
 * out, or goes on, without a fault. */
uint32_t busq_crew_judge_end(const busq_crew *crew, busq_tally *tally, const void *state, const busq_model_move *moves,
                             uint32_t n_moves, uint32_t depth);

/* Whether nothing has to happen any more: deaths come last among the moves. */
static inline bool busq_crew_may_end(const busq_model_move *moves, uint32_t n_moves)
{
  return !n_moves || moves[0].kind == BUSQ_CHECK_CRASH;
}

/* Shares the tally with the other threads. */
void busq_crew_tell(busq_crew *crew, busq_tally *tally);

/* A move as a word, for paths. */
static inline uint32_t busq_crew_word(const busq_model_move *move)
{
  return move->kind << 28 | move->process << 24 | move->cut << 16 | move->place << 8 | move->destinations;
}

static inline busq_model_move busq_crew_move(uint32_t word)
{
  return (busq_model_move){.kind = word >> 28,
                           .process = word >> 24 & 0xf,
                           .cut = word >> 16 & 0xff,
                           .place = word >> 8 & 0xff,
                           .destinations = word & 0xff};
}

static inline bool busq_crew_must_stop(busq_crew *crew)
{
  return BUSQ_UNLIKELY(atomic_load_explicit(&crew->must_stop, memory_order_relaxed));
}

static inline void busq_crew_note(busq_crew *crew, busq_tally *tally, const busq_check_transition *transition)
{
  while (BUSQ_UNLIKELY(!busq_tally_note(tally, transition)))
    busq_crew_tell(crew, tally);
}

/* A new state, reached by this move. */
static inline void busq_crew_gauge(const busq_crew *crew, busq_tally *tally, const void *state,
                                   const busq_model_move *move)
{
  const busq_order_gauge gauge = busq_model_gauge(&crew->model, state, move->process);
  busq_tally_raise(&tally->facts.waiting_max, gauge.waiting);
  busq_tally_raise(&tally->facts.held_max, gauge.held);
  busq_tally_raise(&tally->facts.packets_max, busq_model_n_packets(state));
}

#endif /* BUSQ_CHECK_SEARCH_THREADS_H */
