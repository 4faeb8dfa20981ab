/* SPDX-License-Identifier: Apache-2.0 */
#include "check/exhaust.h"
#include "base/error.h"
#include "base/time.h"
#include "check/seen.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS_MAX = 64, MOVES_PER_LOOK = 256 };

/* A state to go on from, and how it was reached from the one that is `depth - 1` moves from the start. */
typedef struct {
  uint32_t depth;
  uint32_t unused;
  busq_model_move move;
} frame;

typedef struct {
  busq_exhaust *search;
  pthread_t thread;
  char *frames; /* each a frame and its state */
  size_t n_frames;
  size_t room;
  char *successors; /* room for the states that follow one */
  busq_model_move path[BUSQ_EXHAUST_DEPTH_MAX]; /* of the state that is expanded */
  /* What it has found out, told to the search now and then. */
  uint64_t unique, total, ends;
  uint32_t depth_max, faults;
} worker;

/* States that were given away, with their paths. */
typedef struct {
  busq_model_move path[BUSQ_EXHAUST_DEPTH_MAX];
  char *frames;
  size_t n_frames;
} parcel;

struct busq_exhaust {
  busq_exhaust_config config;
  busq_model model;
  busq_seen seen;
  size_t frame_bytes;
  worker *workers;
  uint32_t n_started;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  atomic_uint n_hungry; /* workers without work */
  atomic_bool must_stop;
  parcel *given; /* under the mutex: work that nobody has taken */
  uint32_t n_given;
  uint32_t n_running; /* under the mutex: workers that have work */
  bool is_over;
  bool is_cut; /* ended before everything was seen */
  busq_exhaust_facts facts;
  busq_exhaust_witness witness;
};

static frame *frame_at(const busq_exhaust *search, char *frames, size_t place)
{
  return (frame *)(frames + place * search->frame_bytes);
}

static void *state_of(frame *f)
{
  return f + 1;
}

/* ---- one worker's stack ---- */

static bool push(worker *self, const void *state, uint32_t depth, const busq_model_move *move)
{
  const busq_exhaust *search = self->search;
  if (self->n_frames == self->room) {
    const size_t room = self->room ? 2 * self->room : 64;
    char *frames = realloc(self->frames, room * search->frame_bytes);
    if (!frames)
      return false;
    self->frames = frames;
    self->room = room;
  }
  frame *top = frame_at(search, self->frames, self->n_frames++);
  *top = (frame){.depth = depth, .move = *move};
  memcpy(state_of(top), state, busq_model_bytes(&search->model, state));
  return true;
}

/* ---- telling ---- */

/* False where the set of fingerprints is as full as it should be. */
static bool report(worker *self)
{
  busq_exhaust_facts *facts = &self->search->facts;
  pthread_mutex_lock(&self->search->mutex);
  facts->unique += self->unique;
  facts->total += self->total;
  facts->ends += self->ends;
  facts->faults |= self->faults;
  if (self->depth_max > facts->depth_max)
    facts->depth_max = self->depth_max;
  const bool is_full = busq_seen_is_full(&self->search->seen, facts->unique);
  pthread_mutex_unlock(&self->search->mutex);
  self->unique = self->total = self->ends = 0;
  return !is_full;
}

typedef enum { STOP_FOUND, STOP_FULL, STOP_BROKEN } stop_reason;

static void stop(busq_exhaust *search, stop_reason reason)
{
  pthread_mutex_lock(&search->mutex);
  search->is_cut = true;
  search->facts.is_full |= reason == STOP_FULL;
  search->facts.is_broken |= reason == STOP_BROKEN;
  atomic_store(&search->must_stop, true);
  pthread_cond_broadcast(&search->changed);
  pthread_mutex_unlock(&search->mutex);
}

static void found(worker *self, uint32_t faults, uint32_t depth, const busq_model_move *last)
{
  busq_exhaust *search = self->search;
  self->faults |= faults;
  if (!(faults & search->config.judged))
    return;
  pthread_mutex_lock(&search->mutex);
  busq_exhaust_witness *witness = &search->witness;
  if (!witness->faults) {
    witness->faults = faults;
    witness->n_moves = depth;
    memcpy(witness->moves, self->path, depth * sizeof *self->path);
    if (last)
      witness->moves[depth - 1] = *last;
  }
  pthread_mutex_unlock(&search->mutex);
  stop(search, STOP_FOUND);
}

/* ---- expanding a state ---- */

/* Where a packet is quiet, it is the only move. */
static uint32_t reduce(const busq_exhaust *search, const void *state, busq_model_move *moves, uint32_t n_moves)
{
  if (!(search->config.reductions & BUSQ_EXHAUST_QUIET_PACKETS))
    return n_moves;
  for (uint32_t place = 0; place < n_moves; place++)
    if (busq_model_is_quiet(&search->model, state, &moves[place])) {
      moves[0] = moves[place];
      return 1;
    }
  return n_moves;
}

static char *successor(worker *self, uint32_t place)
{
  return self->successors + place * self->search->model.state_bytes_max;
}

/* Plays all moves; a fingerprint of 0 says that the move is left out. */
static bool play_all(worker *self, const void *state, const busq_model_move *moves, uint32_t n_moves, uint64_t *prints)
{
  busq_exhaust *search = self->search;
  const size_t bytes = busq_model_bytes(&search->model, state);
  const bool is_late = search->config.reductions & BUSQ_EXHAUST_LATE_SUBMITS;
  for (uint32_t place = 0; place < n_moves; place++) {
    char *next = successor(self, place);
    memcpy(next, state, bytes);
    if (busq_model_play(&search->model, next, &moves[place]) != BUSQ_OK)
      return false;
    prints[place] = 0;
    if (is_late && busq_model_is_waiting(&search->model, next, &moves[place]))
      continue;
    prints[place] = busq_model_fingerprint(&search->model, next);
    busq_seen_announce(&search->seen, prints[place]);
  }
  return true;
}

static void expand(worker *self, const void *state, uint32_t depth)
{
  busq_exhaust *search = self->search;
  busq_model_move moves[BUSQ_MODEL_MOVES_MAX];
  uint64_t prints[BUSQ_MODEL_MOVES_MAX];
  const uint32_t n_moves = reduce(search, state, moves, busq_model_moves(&search->model, state, moves));
  if (!n_moves) {
    self->ends++;
    found(self, busq_model_judge_end(&search->model, state), depth, NULL);
    return;
  }
  if (depth + 1 >= BUSQ_EXHAUST_DEPTH_MAX || !play_all(self, state, moves, n_moves, prints)) {
    stop(search, STOP_BROKEN);
    return;
  }
  for (uint32_t place = n_moves; place-- > 0;) {
    const char *next = successor(self, place);
    self->total += prints[place] != 0;
    if (!prints[place] || !busq_seen_add(&search->seen, prints[place]))
      continue;
    self->unique++;
    self->depth_max = depth + 1 > self->depth_max ? depth + 1 : self->depth_max;
    if (busq_model_head_of(next)->faults)
      found(self, busq_model_head_of(next)->faults, depth + 1, &moves[place]);
    if (!push(self, next, depth + 1, &moves[place]))
      stop(search, STOP_FULL);
  }
}

/* ---- sharing work ---- */

/* Gives the older half of the stack away. */
static void give(worker *self)
{
  busq_exhaust *search = self->search;
  const size_t n_frames = self->n_frames / 2;
  char *frames = n_frames ? malloc(n_frames * search->frame_bytes) : NULL;
  if (!frames)
    return;
  memcpy(frames, self->frames, n_frames * search->frame_bytes);
  pthread_mutex_lock(&search->mutex);
  if (search->n_given < search->config.n_threads) {
    parcel *given = &search->given[search->n_given++];
    memcpy(given->path, self->path, sizeof given->path);
    given->frames = frames;
    given->n_frames = n_frames;
    frames = NULL;
    pthread_cond_broadcast(&search->changed);
  }
  pthread_mutex_unlock(&search->mutex);
  if (frames) {
    free(frames);
    return;
  }
  self->n_frames -= n_frames;
  memmove(self->frames, self->frames + n_frames * search->frame_bytes, self->n_frames * search->frame_bytes);
}

/* Waits for work; false where there will be none. */
static bool take(worker *self)
{
  busq_exhaust *search = self->search;
  bool has_work = false;
  pthread_mutex_lock(&search->mutex);
  search->n_running--;
  atomic_fetch_add(&search->n_hungry, 1);
  while (!search->n_given && search->n_running && !atomic_load(&search->must_stop))
    pthread_cond_wait(&search->changed, &search->mutex);
  if (search->n_given && !atomic_load(&search->must_stop)) {
    parcel *given = &search->given[--search->n_given];
    free(self->frames);
    self->frames = given->frames;
    self->n_frames = self->room = given->n_frames;
    memcpy(self->path, given->path, sizeof self->path);
    search->n_running++;
    has_work = true;
  }
  atomic_fetch_sub(&search->n_hungry, 1);
  pthread_cond_broadcast(&search->changed);
  pthread_mutex_unlock(&search->mutex);
  return has_work;
}

static void work(worker *self, char *state)
{
  busq_exhaust *search = self->search;
  for (uint32_t count = 0; self->n_frames && !atomic_load_explicit(&search->must_stop, memory_order_relaxed); count++) {
    frame *top = frame_at(search, self->frames, --self->n_frames);
    const uint32_t depth = top->depth;
    if (depth)
      self->path[depth - 1] = top->move;
    memcpy(state, state_of(top), busq_model_bytes(&search->model, state_of(top)));
    expand(self, state, depth);
    if (count % MOVES_PER_LOOK == 0 && !report(self))
      stop(search, STOP_FULL);
    if (self->n_frames > 1 && atomic_load_explicit(&search->n_hungry, memory_order_relaxed))
      give(self);
  }
}

static void *run(void *argument)
{
  worker *self = argument;
  char *state = malloc(self->search->model.state_bytes_max);
  if (!state)
    stop(self->search, STOP_FULL);
  do {
    if (state)
      work(self, state);
    (void)report(self);
  } while (take(self));
  free(state);
  return NULL;
}

/* ---- from outside ---- */

static int start(busq_exhaust *search)
{
  worker *first = &search->workers[0];
  char *state = malloc(search->model.state_bytes_max);
  if (!state)
    return busq_error(BUSQ_NO_SPACE, "no memory for a state");
  busq_model_start(&search->model, state);
  busq_seen_add(&search->seen, busq_model_fingerprint(&search->model, state));
  search->facts.unique = search->facts.total = 1;
  const bool is_pushed = push(first, state, 0, &(busq_model_move){0});
  free(state);
  if (!is_pushed)
    return busq_error(BUSQ_NO_SPACE, "no memory for a state");
  search->n_running = search->config.n_threads;
  for (uint32_t number = 0; number < search->config.n_threads; number++, search->n_started++)
    if (pthread_create(&search->workers[number].thread, NULL, run, &search->workers[number]))
      return busq_error_system("can't start thread %u of the search", number + 1);
  return BUSQ_OK;
}

static int init(busq_exhaust *search)
{
  const busq_exhaust_config *config = &search->config;
  search->frame_bytes = sizeof(frame) + search->model.state_bytes_max;
  search->workers = calloc(config->n_threads, sizeof *search->workers);
  search->given = calloc(config->n_threads, sizeof *search->given);
  if (!search->workers || !search->given || !busq_seen_init(&search->seen, config->memory_bytes))
    return busq_error(BUSQ_NO_SPACE, "no memory for %llu bytes of fingerprints", (unsigned long long)config->memory_bytes);
  for (uint32_t number = 0; number < config->n_threads; number++) {
    search->workers[number].search = search;
    search->workers[number].successors = malloc(BUSQ_MODEL_MOVES_MAX * search->model.state_bytes_max);
    if (!search->workers[number].successors)
      return busq_error(BUSQ_NO_SPACE, "no memory for the states of thread %u", number + 1);
  }
  return start(search);
}

int busq_exhaust_new(const busq_exhaust_config *config, busq_exhaust **searchp)
{
  if (config->n_threads < 1 || config->n_threads > THREADS_MAX)
    return busq_error(BUSQ_INVALID, "%u threads: expected 1 to %d", config->n_threads, THREADS_MAX);
  busq_exhaust *search = calloc(1, sizeof *search);
  if (!search)
    return busq_error(BUSQ_NO_SPACE, "no memory for a search");
  search->config = *config;
  pthread_mutex_init(&search->mutex, NULL);
  pthread_cond_init(&search->changed, NULL);
  int result = busq_model_init(&search->model, &config->model);
  if (result == BUSQ_OK)
    result = init(search);
  if (result != BUSQ_OK) {
    busq_exhaust_free(search);
    return result;
  }
  *searchp = search;
  return BUSQ_OK;
}

int busq_exhaust_wait(busq_exhaust *search, uint64_t slice_ns)
{
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  const uint64_t end_ns = (uint64_t)until.tv_nsec + slice_ns;
  until.tv_sec += (time_t)(end_ns / 1000000000);
  until.tv_nsec = (long)(end_ns % 1000000000);
  pthread_mutex_lock(&search->mutex);
  int waited = 0;
  while (search->n_running && !waited)
    waited = pthread_cond_timedwait(&search->changed, &search->mutex, &until);
  search->is_over = !search->n_running;
  pthread_mutex_unlock(&search->mutex);
  return search->is_over ? BUSQ_OK : BUSQ_INTERRUPTED;
}

void busq_exhaust_examine(busq_exhaust *search, busq_exhaust_facts *facts)
{
  pthread_mutex_lock(&search->mutex);
  *facts = search->facts;
  facts->is_complete = search->is_over && !search->is_cut;
  pthread_mutex_unlock(&search->mutex);
  /* Of n random fingerprints of 64 bits about n^2 / 2^65 meet another. */
  facts->missed_expected = (double)facts->unique * (double)facts->unique / 36893488147419103232.0;
}

const busq_exhaust_witness *busq_exhaust_witness_of(busq_exhaust *search)
{
  return search->witness.faults ? &search->witness : NULL;
}

void busq_exhaust_free(busq_exhaust *search)
{
  atomic_store(&search->must_stop, true);
  pthread_mutex_lock(&search->mutex);
  pthread_cond_broadcast(&search->changed);
  pthread_mutex_unlock(&search->mutex);
  for (uint32_t number = 0; number < search->n_started; number++)
    pthread_join(search->workers[number].thread, NULL);
  for (uint32_t number = 0; search->workers && number < search->config.n_threads; number++) {
    free(search->workers[number].frames);
    free(search->workers[number].successors);
  }
  for (uint32_t place = 0; place < search->n_given; place++)
    free(search->given[place].frames);
  busq_seen_deinit(&search->seen);
  free(search->workers);
  free(search->given);
  pthread_cond_destroy(&search->changed);
  pthread_mutex_destroy(&search->mutex);
  free(search);
}
