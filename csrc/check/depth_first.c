/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All states, depth first.
 *
 * Guarantee: every state that some execution reaches is judged once, but for those that reductions leave out and those
 * whose fingerprint collides (check/check.h).  What is found is given with the moves that lead to it.
 *
 * Mechanism: a set of fingerprints, shared by all threads, and for each thread a stack of states to go on from, each
 * with the moves that lead to it.  A thread that has nothing left to do asks; one that has gives away the older half of
 * its stack.  When the set has to grow, all threads meet at a gate, and one of them makes it grow.  Every addition to a
 * large set is a miss of the cache: so the successors of a state are added only when those of the next state have been
 * played, and their slots have come from memory.
 *
 * Not given: the shortest violation; and which one is found depends on the threads.
 */
#include "check/state.h"
#include "check/successors.h"
#include <stdlib.h>
#include <string.h>

enum { STATES_PER_REPORT = 1024, ADDITIONS_PER_DRAW = 4096, DRAWS_MIN = 256 };

/* Stands on the stack behind its state and the moves that lead to it. */
typedef struct {
  uint32_t bytes; /* of the state */
  uint32_t depth;
} frame;

/* Moves from the start, as words. */
typedef struct {
  uint32_t depth;
  uint32_t moves[BUSQ_CREW_DEPTH_MAX + 1];
} path;

/* States that were played and not added so far, and how the state before them was reached. */
typedef struct {
  path path;
  uint32_t faults; /* of the state before */
  busq_successors successors;
} batch;

typedef struct {
  char *bytes;
  size_t used;
  size_t room;
  uint32_t n_frames;
  uint32_t unused;
} stack;

typedef struct {
  busq_crew *crew;
  stack frames;
  char *state;        /* the one that is expanded */
  uint64_t additions; /* drawn */
  busq_tally tally;
  batch batches[2];
  uint32_t played; /* the batch that is to be added */
} worker;

typedef struct {
  busq_seen seen;
  worker *workers[BUSQ_CREW_THREADS_MAX];
  atomic_uint n_hungry;      /* workers without work */
  atomic_bool wants_growth;  /* the set is full: all to the gate */
  /* Under the mutex of the crew: */
  bool is_growing;
  uint32_t n_at_gate;
  uint32_t n_busy;
  uint32_t n_given;
  stack *given; /* work that no thread has taken; room for one per thread */
} exhaust;

static exhaust *exhaust_of(const busq_crew *crew)
{
  return crew->own;
}

/* ---- stacks ---- */

static void stack_free(stack *self, busq_account *account)
{
  busq_account_free(account, self->bytes, self->room);
  *self = (stack){0};
}

/* The bytes of a path, rounded up so that states stay aligned. */
static size_t path_bytes(uint32_t depth)
{
  return BUSQ_ALIGN_UP(depth * sizeof(uint32_t), 8);
}

static size_t frame_bytes(const frame *top)
{
  return top->bytes + path_bytes(top->depth) + sizeof *top;
}

/* A state that one move leads to from where a path ends; without a path, the first. */
static bool push(worker *self, const void *state, const path *before, const busq_model_move *move)
{
  stack *frames = &self->frames;
  const uint32_t depth = before ? before->depth + 1 : 0;
  const size_t bytes = BUSQ_ALIGN_UP(busq_model_bytes(&self->crew->model, state), 8);
  const size_t used = bytes + path_bytes(depth) + sizeof(frame);
  if (!busq_account_reserve(&self->crew->account, &frames->bytes, &frames->room, frames->used + used))
    return false;
  char *at = frames->bytes + frames->used;
  memcpy(at, state, bytes);
  uint32_t *moves = (uint32_t *)(void *)(at + bytes);
  if (before) {
    memcpy(moves, before->moves, before->depth * sizeof *moves);
    moves[before->depth] = busq_crew_word(move);
  }
  *(frame *)(void *)(at + bytes + path_bytes(depth)) = (frame){.bytes = (uint32_t)bytes, .depth = depth};
  frames->used += used;
  frames->n_frames++;
  return true;
}

/* The frame that ends there. */
static const frame *frame_before(const stack *frames, size_t end)
{
  return (const frame *)(const void *)(frames->bytes + end - sizeof(frame));
}

/* Into self->state and the path. */
static void pop(worker *self, path *to)
{
  stack *frames = &self->frames;
  const frame *top = frame_before(frames, frames->used);
  frames->used -= frame_bytes(top);
  frames->n_frames--;
  to->depth = top->depth;
  memcpy(self->state, frames->bytes + frames->used, top->bytes);
  memcpy(to->moves, frames->bytes + frames->used + top->bytes, top->depth * sizeof *to->moves);
}

/* ---- a set that grows ---- */

static void grow(busq_crew *crew, exhaust *search)
{
  search->is_growing = true;
  pthread_mutex_unlock(&crew->mutex);
  const bool has_grown = busq_seen_grow(&search->seen, &crew->must_stop);
  if (!has_grown)
    busq_crew_stop(crew, busq_crew_must_stop(crew) ? BUSQ_CREW_GIVEN_UP : BUSQ_CREW_FULL);
  pthread_mutex_lock(&crew->mutex);
  search->is_growing = false;
  atomic_store(&search->wants_growth, false);
  pthread_cond_broadcast(&crew->changed);
}

/* Waits until the set has grown; the last one makes it grow.  Under the mutex. */
static void wait_at_gate(busq_crew *crew, exhaust *search)
{
  search->n_at_gate++;
  while (atomic_load(&search->wants_growth) && !busq_crew_must_stop(crew)) {
    if (search->n_at_gate == search->n_busy && !search->is_growing)
      grow(crew, search);
    else
      pthread_cond_wait(&crew->changed, &crew->mutex);
  }
  search->n_at_gate--;
}

/* Draws so many additions; false where the search is over. */
static bool draw(worker *self, uint32_t count)
{
  busq_crew *crew = self->crew;
  exhaust *search = exhaust_of(crew);
  while (self->additions < count && !busq_crew_must_stop(crew)) {
    /* Many at once, but not so many that little is left for others. */
    const uint64_t share = search->seen.n_slots / DRAWS_MIN;
    const uint64_t wanted = share < count ? count : share < ADDITIONS_PER_DRAW ? share : ADDITIONS_PER_DRAW;
    const uint64_t drawn = busq_seen_draw(&search->seen, wanted);
    self->additions += drawn;
    if (drawn)
      continue;
    pthread_mutex_lock(&crew->mutex);
    if (!busq_seen_has_room(&search->seen, 1))
      atomic_store(&search->wants_growth, true);
    wait_at_gate(crew, search);
    pthread_mutex_unlock(&crew->mutex);
  }
  return self->additions >= count;
}

static void pass_gate(worker *self)
{
  pthread_mutex_lock(&self->crew->mutex);
  wait_at_gate(self->crew, exhaust_of(self->crew));
  pthread_mutex_unlock(&self->crew->mutex);
}

/* ---- expanding a state ---- */

static void report(worker *self, uint32_t faults, const path *before, const busq_model_move *last)
{
  busq_crew *crew = self->crew;
  self->tally.facts.faults |= faults;
  if (!(faults & crew->config.judged))
    return;
  pthread_mutex_lock(&crew->mutex);
  busq_crew_witness *witness = &crew->witness;
  if (!witness->faults) {
    witness->faults = faults;
    for (uint32_t place = 0; place < before->depth; place++)
      witness->moves[place] = busq_crew_move(before->moves[place]);
    if (last)
      witness->moves[before->depth] = *last;
    witness->n_moves = before->depth + (last != NULL);
  }
  pthread_mutex_unlock(&crew->mutex);
  busq_crew_stop(crew, BUSQ_CREW_FOUND);
}

/* Adds what was played before the last state, in the order in which it was announced; then there is nothing to be
 * added. */
static void add(worker *self, batch *played)
{
  busq_crew *crew = self->crew;
  for (uint32_t place = 0; place < played->successors.count; place++) {
    const busq_successor *next = &played->successors.each[place];
    if (!busq_seen_add(&exhaust_of(crew)->seen, next->fingerprint))
      continue;
    const void *state = busq_successors_state(&played->successors, place);
    const uint32_t faults = busq_model_faults(state) & ~played->faults;
    self->additions--;
    self->tally.facts.unique++;
    busq_tally_raise(&self->tally.facts.depth_max, played->path.depth + 1);
    busq_crew_gauge(crew, &self->tally, state, &next->move);
    if (faults)
      report(self, faults, &played->path, &next->move);
    if (!push(self, state, &played->path, &next->move))
      busq_crew_stop(crew, BUSQ_CREW_FULL);
  }
  played->successors.count = 0;
}

/* Plays what follows the state; a batch without successors where nothing does, or nothing may. */
static void play(worker *self, batch *to)
{
  busq_crew *crew = self->crew;
  const uint32_t n_moves = busq_successors_find(&to->successors, crew, &self->tally, self->state);
  to->faults = busq_model_faults(self->state);
  const busq_model_move *moves = to->successors.moves;
  self->tally.facts.ends += busq_crew_may_end(moves, n_moves);
  report(self, busq_crew_judge_end(crew, &self->tally, self->state, moves, n_moves, to->path.depth), &to->path, NULL);
  if (n_moves && to->path.depth < crew->depth_max && draw(self, n_moves + self->batches[self->played].successors.count) &&
             busq_successors_play(&to->successors, crew, &self->tally, &exhaust_of(crew)->seen, self->state))
    return;
  to->successors.count = 0;
}

/* One state more, and what was played before it; false where nothing is left. */
static bool expand(worker *self)
{
  batch *before = &self->batches[self->played];
  batch *next = &self->batches[1 - self->played];
  if (!self->frames.n_frames) {
    add(self, before);
    return self->frames.n_frames;
  }
  pop(self, &next->path);
  play(self, next);
  if (!busq_crew_must_stop(self->crew))
    add(self, before);
  self->played = 1 - self->played;
  return true;
}

/* ---- sharing work ---- */

/* Where the older half of the frames ends. */
static size_t middle_of(const stack *frames)
{
  size_t end = frames->used;
  for (uint32_t count = (frames->n_frames + 1) / 2; count; count--)
    end -= frame_bytes(frame_before(frames, end));
  return end;
}

/* Gives the older half of the stack away. */
static void give(worker *self)
{
  busq_crew *crew = self->crew;
  exhaust *search = exhaust_of(crew);
  const size_t bytes = middle_of(&self->frames);
  stack older = {.n_frames = self->frames.n_frames / 2};
  if (!busq_account_reserve(&crew->account, &older.bytes, &older.room, bytes))
    return;
  memcpy(older.bytes, self->frames.bytes, bytes);
  older.used = bytes;
  bool is_given = false;
  pthread_mutex_lock(&crew->mutex);
  if (search->n_given < atomic_load(&search->n_hungry)) {
    search->given[search->n_given++] = older;
    is_given = true;
    pthread_cond_broadcast(&crew->changed);
  }
  pthread_mutex_unlock(&crew->mutex);
  if (!is_given) {
    stack_free(&older, &crew->account);
    return;
  }
  self->frames.n_frames -= older.n_frames;
  self->frames.used -= bytes;
  memmove(self->frames.bytes, self->frames.bytes + bytes, self->frames.used);
}

/* Waits for work; false where there will be none. */
static bool take(worker *self)
{
  busq_crew *crew = self->crew;
  exhaust *search = exhaust_of(crew);
  bool has_work = false;
  pthread_mutex_lock(&crew->mutex);
  search->n_busy--;
  atomic_fetch_add(&search->n_hungry, 1);
  pthread_cond_broadcast(&crew->changed); /* perhaps all others are at the gate, or this was the last work */
  while ((!search->n_given || search->is_growing) && search->n_busy && !busq_crew_must_stop(crew))
    pthread_cond_wait(&crew->changed, &crew->mutex);
  if (search->n_given && !busq_crew_must_stop(crew)) {
    stack_free(&self->frames, &crew->account);
    self->frames = search->given[--search->n_given];
    search->n_busy++;
    has_work = true;
  }
  atomic_fetch_sub(&search->n_hungry, 1);
  pthread_mutex_unlock(&crew->mutex);
  return has_work;
}

static void work(worker *self)
{
  busq_crew *crew = self->crew;
  exhaust *search = exhaust_of(crew);
  for (uint32_t count = 1; !busq_crew_must_stop(crew) && expand(self); count++) {
    if (count % STATES_PER_REPORT == 0)
      busq_crew_tell(crew, &self->tally);
    if (atomic_load_explicit(&search->wants_growth, memory_order_relaxed))
      pass_gate(self);
    if (self->frames.n_frames > 1 && atomic_load_explicit(&search->n_hungry, memory_order_relaxed))
      give(self);
  }
}

static void run(busq_crew *crew, uint32_t number)
{
  worker *self = exhaust_of(crew)->workers[number];
  do {
    work(self);
    busq_crew_tell(crew, &self->tally);
  } while (take(self));
}

/* ---- beginning and end ---- */

static bool add_worker(busq_crew *crew, uint32_t number)
{
  worker *self = busq_account_calloc(&crew->account, sizeof(worker) + crew->model.state_bytes_max);
  if (!self)
    return false;
  exhaust_of(crew)->workers[number] = self;
  self->crew = crew;
  self->state = (char *)(self + 1);
  return busq_successors_init(&self->batches[0].successors, crew) &&
         busq_successors_init(&self->batches[1].successors, crew);
}

static bool init(busq_crew *crew, exhaust *search)
{
  const uint32_t n_threads = crew->config.n_threads;
  search->given = busq_account_calloc(&crew->account, n_threads * sizeof *search->given);
  if (!search->given)
    return false;
  for (uint32_t number = 0; number < n_threads; number++)
    if (!add_worker(crew, number))
      return false;
  const uint64_t left_bytes = busq_account_left(&crew->account);
  return busq_seen_init(&search->seen, &crew->account, left_bytes - left_bytes / 16);
}

static int begin(busq_crew *crew)
{
  exhaust *search = crew->own = calloc(1, sizeof *search);
  if (!search || !init(crew, search))
    return busq_crew_no_memory(crew);
  worker *first = search->workers[0];
  busq_model_start(&crew->model, first->state);
  busq_seen_add(&search->seen, busq_successors_fingerprint(crew, first->state));
  crew->facts.unique = crew->facts.total = 1;
  search->n_busy = crew->config.n_threads;
  return push(first, first->state, NULL, NULL) ? BUSQ_OK : busq_crew_no_memory(crew);
}

static void end(busq_crew *crew)
{
  exhaust *search = exhaust_of(crew);
  for (uint32_t number = 0; number < crew->config.n_threads; number++) {
    worker *self = search->workers[number];
    if (!self)
      continue;
    stack_free(&self->frames, &crew->account);
    for (uint32_t which = 0; which < 2; which++)
      busq_successors_deinit(&self->batches[which].successors, crew);
    free(self);
  }
  for (uint32_t place = 0; place < search->n_given; place++)
    stack_free(&search->given[place], &crew->account);
  busq_seen_deinit(&search->seen);
  free(search->given);
  free(search);
  crew->own = NULL;
}

const busq_crew_kind busq_exhaust = {begin, run, end};
