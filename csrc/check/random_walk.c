/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random executions.
 *
 * Guarantee: execution k depends on the seed and k alone, and is judged at every step and at its end.  The violation
 * that is reported is that of the smallest k, whatever the number of threads; all executions before it were made.
 *
 * Mechanism: threads take the executions by number.  An execution that chose among all moves alike would have used up
 * its submits before the first packet had gone far, for there are many ways to submit; and what needs a packet that is
 * very late would hardly ever come up.  So each draws a temper for itself: how often it submits, and, every second one,
 * a process that it neglects.  In every state it first draws whether it is time for a submit, by that share; then one
 * move among those of this kind, each as likely as the others.  Where that is a packet that goes to, or comes from, the
 * neglected process, it draws again, three times at most.
 *
 * Not given: states that were not met, and how likely it is that there are any.
 */
#include "base/prng.h"
#include "check/search_threads.h"
#include <stdlib.h>
#include <string.h>

enum { WALKS_PER_REPORT = 64, PURPOSE_MOVES = 'w', SHARES = 16, NEGLECTS = 4 };

typedef struct {
  uint32_t submit_share; /* of SHARES */
  uint32_t neglected;    /* a process, or beyond all processes */
} temper;

typedef struct {
  busq_crew *crew;
  char *state;
  busq_prng prng;
  temper temper;
  uint32_t n_moves;
  busq_model_move moves[BUSQ_MODEL_MOVES_MAX];
  busq_model_move path[BUSQ_CREW_DEPTH_MAX + 1];
  busq_tally tally;
} worker;

typedef struct {
  worker *workers[BUSQ_CREW_THREADS_MAX];
  atomic_ullong next;  /* the execution that no thread has taken */
  atomic_ullong limit; /* executions from here on are not needed: one before violates */
} walks;

static walks *walks_of(const busq_crew *crew)
{
  return crew->own;
}

/* ---- one execution ---- */

static temper temper_of(busq_prng *prng, uint32_t n_processes)
{
  static const uint32_t shares[] = {1, 2, 4, 8};
  const uint32_t submit_share = shares[busq_prng_below(prng, 4)];
  return (temper){.submit_share = submit_share, .neglected = busq_prng_below(prng, 2 * n_processes)};
}

static bool is_submit(const busq_model_move *move)
{
  return move->kind == BUSQ_CHECK_SUBMIT;
}

/* The moves of one kind, submits or others, to the front; how many. */
static uint32_t sort_out(worker *self, bool wants_submit)
{
  uint32_t count = 0;
  for (uint32_t place = 0; place < self->n_moves; place++)
    if (is_submit(&self->moves[place]) == wants_submit)
      self->moves[count++] = self->moves[place];
  return count;
}

static bool is_neglected(const worker *self, const busq_model_move *move)
{
  if (move->process == self->temper.neglected || move->kind != BUSQ_CHECK_RECEIVE)
    return move->process == self->temper.neglected;
  busq_check_step step;
  busq_model_describe(&self->crew->model, self->state, move, &step);
  return step.from == self->temper.neglected;
}

static busq_model_move choose(worker *self)
{
  uint32_t n_submits = 0;
  for (uint32_t place = 0; place < self->n_moves; place++)
    n_submits += is_submit(&self->moves[place]);
  const bool is_time = busq_prng_below(&self->prng, SHARES) < self->temper.submit_share;
  const bool wants_submit = n_submits && (is_time || n_submits == self->n_moves);
  const uint32_t count = sort_out(self, wants_submit);
  uint32_t chosen = busq_prng_below(&self->prng, count);
  if (!wants_submit && self->temper.neglected < self->crew->model.config.n_processes)
    for (uint32_t draws = 1; draws < NEGLECTS && is_neglected(self, &self->moves[chosen]); draws++)
      chosen = busq_prng_below(&self->prng, count);
  return self->moves[chosen];
}

/* True where the execution violates what is judged, and is reported. */
static bool report(worker *self, uint64_t number, uint32_t faults, uint32_t depth)
{
  busq_crew *crew = self->crew;
  self->tally.facts.faults |= faults;
  if (!(faults & crew->config.judged))
    return false;
  pthread_mutex_lock(&crew->mutex);
  busq_crew_witness *witness = &crew->witness;
  if (number < atomic_load(&walks_of(crew)->limit)) {
    atomic_store(&walks_of(crew)->limit, number);
    crew->facts.witness_seed = crew->config.seed + number;
    witness->faults = faults;
    witness->n_moves = depth;
    memcpy(witness->moves, self->path, depth * sizeof *self->path);
  }
  pthread_mutex_unlock(&crew->mutex);
  return true;
}

static void note_state(worker *self, uint32_t depth, const busq_model_move *move,
                       const busq_check_transition *transition)
{
  busq_crew *crew = self->crew;
  busq_check_facts *facts = &self->tally.facts;
  facts->total++;
  facts->unique++;
  busq_tally_raise(&facts->depth_max, depth);
  busq_crew_gauge(crew, &self->tally, self->state, move);
  if (move->kind <= BUSQ_CHECK_TICK && !move->cut)
    busq_crew_note(crew, &self->tally, transition);
}

static void walk(worker *self, uint64_t number)
{
  busq_crew *crew = self->crew;
  self->prng = busq_prng_of(crew->config.seed + number, PURPOSE_MOVES, 0, 0);
  self->temper = temper_of(&self->prng, crew->model.config.n_processes);
  busq_model_start(&crew->model, self->state);
  self->tally.facts.ends++;
  for (uint32_t depth = 0;; depth++) {
    self->n_moves = busq_model_moves(&crew->model, self->state, self->moves);
    const uint32_t faults = busq_crew_judge_end(crew, &self->tally, self->state, self->moves, self->n_moves, depth);
    if (report(self, number, faults, depth) || !self->n_moves || depth == crew->depth_max)
      return;
    if (busq_crew_must_stop(crew))
      return;
    const uint32_t faults_before = busq_model_faults(self->state);
    busq_check_transition transition = {0};
    self->path[depth] = choose(self);
    if (busq_model_play(&crew->model, self->state, &self->path[depth], &transition) != BUSQ_OK) {
      busq_crew_stop(crew, BUSQ_CREW_TOO_SMALL);
      return;
    }
    note_state(self, depth + 1, &self->path[depth], &transition);
    if (report(self, number, busq_model_faults(self->state) & ~faults_before, depth + 1))
      return;
  }
}

static void run(busq_crew *crew, uint32_t number)
{
  walks *search = walks_of(crew);
  worker *self = search->workers[number];
  for (uint64_t count = 1; !busq_crew_must_stop(crew); count++) {
    const uint64_t taken = atomic_fetch_add(&search->next, 1);
    if (taken >= crew->config.walks || taken >= atomic_load(&search->limit))
      break;
    walk(self, taken);
    if (count % WALKS_PER_REPORT == 0)
      busq_crew_tell(crew, &self->tally);
  }
  busq_crew_tell(crew, &self->tally);
}

/* ---- beginning and end ---- */

static int begin(busq_crew *crew)
{
  walks *search = crew->own = calloc(1, sizeof *search);
  for (uint32_t number = 0; search && number < crew->config.n_threads; number++) {
    worker *self = busq_account_calloc(&crew->account, sizeof(worker) + crew->model.state_bytes_max);
    if (!self)
      return busq_crew_no_memory(crew);
    self->crew = crew;
    self->state = (char *)(self + 1);
    search->workers[number] = self;
  }
  if (!search)
    return busq_crew_no_memory(crew);
  atomic_store(&search->limit, UINT64_MAX);
  crew->facts.total = 1;
  crew->is_cut = true; /* whatever comes of it, most was left out */
  return BUSQ_OK;
}

static void end(busq_crew *crew)
{
  walks *search = walks_of(crew);
  for (uint32_t number = 0; number < crew->config.n_threads; number++)
    free(search->workers[number]);
  free(search);
  crew->own = NULL;
}

const busq_crew_kind busq_walk = {begin, run, end};
