/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All states, breadth first.
 *
 * Guarantee: all states that can be reached by so many moves are judged before any that takes more, so the violation
 * that ends the search is a shortest one; and of the shortest ones it is the first in the order of their moves,
 * whatever the number of threads.
 *
 * Mechanism.  The states of a level stand packed in a row (check/packed.h), in the order of the paths by which they
 * were found first: moves are ordered as busq_model_moves names them.  A log keeps, of every state, its parent's place
 * in the row before and the move; from it a path is rebuilt.  A level is done by rounds, each as many parents as the
 * threads' rooms hold the successors of; all threads meet between the steps of a round:
 *
 *   expand   threads take units of parents, in their order, and keep those successors that are not in the set so far;
 *   add      each thread adds its share of the fingerprints to the set, in the order of the successors: of equal ones the first
 *            is new;
 *   settle   one thread numbers the new ones, in their order, and looks for violations;
 *   keep     threads write the new ones into the next row, and into the log.
 *
 * With a disk, rows and log lie in files, and a set that is full goes there too, and begins anew (check/past.h).  From then on a new
 * state is one that is not in the set, and may yet be an old one: at the end of a level, and before the set is written down, all
 * threads read the past, and drop those states of the next row that it has:
 *
 *   read     threads mark the fingerprints of the set that the past has;
 *   drop     the places of such states in the row lose their fingerprints, and are passed over when the row is expanded.
 *
 * An old state dropped, or one that was met twice between two such readings, has its first place still: so states, their numbers and
 * the violation are the same as without a disk.
 *
 * Not given: without a disk, a small memory; a level and the next one have to fit.
 */
#include "check/packed.h"
#include "check/past.h"
#include "check/state.h"
#include "check/store.h"
#include "check/successors.h"
#include <stdlib.h>
#include <string.h>

enum {
  PARENTS_PER_UNIT = 16,
  UNITS_MAX = 1 << 10, /* of a round */
  ROOM_BYTES = 1 << 22, /* of a thread: after so many it takes no more units */
  RECENT = 1 << 13, /* fingerprints */
  SHARES = 1 << 16, /* of fingerprints, to be divided among threads */
  AHEAD = 16, /* fingerprints that are announced before they are added */
  PLACES_PER_PART = 1 << 14 /* of a row whose old states are dropped */
};

/* A state that may be new, and its bytes. */
typedef struct {
  uint64_t fingerprint;
  uint64_t parent; /* its place in the row */
  busq_model_move move;
  uint32_t faults; /* of its last move */
  uint32_t bytes;
  uint64_t at; /* in the room of packed states */
  bool is_new;
} candidate;

/* A run of parents, and what has come of them. */
typedef struct {
  uint32_t thread;
  uint32_t end_faults; /* of the first execution that ends there and violates what is judged */
  uint64_t end_parent;
  uint64_t first_candidate, n_candidates; /* in the thread's room */
  uint64_t first_new, bytes_before;       /* in the next row */
} unit;

/* Room that is used again in every round. */
typedef struct {
  char *bytes;
  size_t used_bytes;
  size_t room_bytes;
} room;

typedef struct {
  busq_crew *crew;
  uint64_t *state;
  room candidates;
  room packed;
  uint64_t recent[RECENT]; /* some fingerprints of candidates: the set has them, or will have them */
  busq_tally tally;
  busq_successors successors;
} worker;

/* The states of one level. */
typedef struct {
  busq_store states;  /* packed, each after two words: how many bytes, and how many words unpacked */
  busq_store corners; /* where the first state of each unit stands */
  busq_store prints;  /* with a disk: the fingerprint of each, 0 where it was dropped */
  uint64_t count;
  uint64_t n_asked;   /* so many of them are in the past, or were looked for there */
  uint64_t n_dropped; /* of them */
} row;

typedef struct {
  uint32_t faults;
  uint32_t depth;
  uint64_t place;
} violation;

typedef struct {
  busq_seen seen;
  busq_past past;
  bool asks_past;     /* all threads read it */
  bool is_level_over; /* or only the set is full */
  atomic_ullong n_parts_taken, n_dropped;
  worker *workers[BUSQ_CREW_THREADS_MAX];
  row rows[2];
  busq_store log; /* of every state: parent << 32 | move */
  uint64_t log_of_level[BUSQ_CREW_DEPTH_MAX + 2]; /* where its entries begin */
  uint32_t depth;
  violation first; /* faults 0: none so far */
  unit *units; /* of this round */
  uint64_t round_begin; /* the unit of the level with which it begins */
  atomic_ullong n_taken, n_kept;
  bool is_done;
  uint32_t n_met; /* under the mutex, as the next */
  uint64_t n_meetings;
} breadth;

static breadth *breadth_of(const busq_crew *crew)
{
  return crew->own;
}

static row *row_of(breadth *search, uint32_t depth)
{
  return &search->rows[depth % 2];
}

/* ---- room ---- */

/* The next so many bytes. */
static void *room_add(room *self, busq_account *account, size_t bytes)
{
  if (!busq_account_reserve(account, &self->bytes, &self->room_bytes, self->used_bytes + bytes))
    return NULL;
  self->used_bytes += bytes;
  return self->bytes + self->used_bytes - bytes;
}

static candidate *candidates_of(const breadth *search, const unit *self)
{
  candidate *all = (candidate *)(void *)search->workers[self->thread]->candidates.bytes;
  return all ? all + self->first_candidate : NULL; /* without memory there has been none so far */
}

/* ---- rows ---- */

enum { HEAD_BYTES = 2 * sizeof(uint32_t) };

/* Unpacks the state that stands there; where the next one stands. */
static const char *unpack(const char *at, uint64_t *state)
{
  uint32_t head[2];
  memcpy(head, at, sizeof head);
  busq_unpack((const uint8_t *)at + sizeof head, state, head[1]);
  return at + sizeof head + head[0];
}

/* Where the next state stands. */
static const char *pass_over(const char *at)
{
  uint32_t head[2];
  memcpy(head, at, sizeof head);
  return at + sizeof head + head[0];
}

/* With a disk. */
static uint64_t *prints_of(const row *level)
{
  return (uint64_t *)(void *)level->prints.bytes;
}

static uint64_t n_units_of(const row *level)
{
  return (level->count + PARENTS_PER_UNIT - 1) / PARENTS_PER_UNIT;
}

static uint64_t corner_of(const row *level, uint64_t number)
{
  return ((const uint64_t *)(const void *)level->corners.bytes)[number];
}

/* ---- expand ---- */

static bool add_candidate(worker *self, uint64_t parent, const busq_successor *next, const void *state, uint32_t faults)
{
  busq_account *account = &self->crew->account;
  const size_t n_words = BUSQ_ALIGN_UP(busq_model_bytes(&self->crew->model, state), 8) / 8;
  const size_t bytes_max = HEAD_BYTES + busq_pack_bytes_max(n_words);
  const size_t at = self->packed.used_bytes;
  candidate *added = room_add(&self->candidates, account, sizeof *added);
  char *packed = added ? room_add(&self->packed, account, bytes_max) : NULL;
  if (!packed) {
    busq_crew_stop(self->crew, BUSQ_CREW_FULL);
    return false;
  }
  const size_t bytes = busq_pack(state, n_words, (uint8_t *)packed + HEAD_BYTES);
  memcpy(packed, (uint32_t[2]){(uint32_t)bytes, (uint32_t)n_words}, HEAD_BYTES);
  self->packed.used_bytes = at + HEAD_BYTES + bytes;
  *added = (candidate){.fingerprint = next->fingerprint,
                       .parent = parent,
                       .move = next->move,
                       .faults = faults,
                       .bytes = (uint32_t)(HEAD_BYTES + bytes),
                       .at = at};
  return true;
}

static void add_candidates(worker *self, unit *to, uint64_t parent)
{
  busq_crew *crew = self->crew;
  const busq_successors *successors = &self->successors;
  const uint32_t faults_before = busq_model_faults(self->state);
  for (uint32_t place = 0; place < successors->count; place++) {
    const busq_successor *next = &successors->each[place];
    uint64_t *recent = &self->recent[next->fingerprint % RECENT];
    if (*recent == next->fingerprint || busq_seen_contains(&breadth_of(crew)->seen, next->fingerprint))
      continue;
    *recent = next->fingerprint;
    const void *state = busq_successors_state(successors, place);
    busq_crew_gauge(crew, &self->tally, state, &next->move);
    if (!add_candidate(self, parent, next, state, busq_model_faults(state) & ~faults_before))
      return;
    to->n_candidates++;
  }
}

static void note_end(worker *self, unit *to, uint64_t parent, uint32_t faults)
{
  self->tally.facts.faults |= faults;
  if (!(faults & self->crew->config.judged) || to->end_faults)
    return;
  to->end_faults = faults;
  to->end_parent = parent;
}

static void expand(worker *self, unit *to, uint64_t parent)
{
  busq_crew *crew = self->crew;
  const uint32_t n_moves = busq_successors_find(&self->successors, crew, &self->tally, self->state);
  const busq_model_move *moves = self->successors.moves;
  const uint32_t depth = breadth_of(crew)->depth;
  self->tally.facts.ends += busq_crew_may_end(moves, n_moves);
  note_end(self, to, parent, busq_crew_judge_end(crew, &self->tally, self->state, moves, n_moves, depth));
  if (n_moves && depth < crew->depth_max &&
      busq_successors_play(&self->successors, crew, &self->tally, &breadth_of(crew)->seen, self->state))
    add_candidates(self, to, parent);
}

static void expand_unit(worker *self, unit *to, uint64_t number)
{
  const row *level = row_of(breadth_of(self->crew), breadth_of(self->crew)->depth);
  const char *at = level->states.bytes + corner_of(level, number);
  const uint64_t begin = number * PARENTS_PER_UNIT;
  const uint64_t end = begin + PARENTS_PER_UNIT < level->count ? begin + PARENTS_PER_UNIT : level->count;
  for (uint64_t parent = begin; parent < end && !busq_crew_must_stop(self->crew); parent++) {
    if (level->prints.bytes && !prints_of(level)[parent]) {
      at = pass_over(at);
      continue;
    }
    at = unpack(at, self->state);
    expand(self, to, parent);
  }
}

/* Takes units until there are no more, or until its room is full. */
static void expand_units(worker *self, uint32_t number)
{
  breadth *search = breadth_of(self->crew);
  const uint64_t n_left = n_units_of(row_of(search, search->depth)) - search->round_begin;
  const uint64_t limit_bytes = self->crew->config.memory_bytes / 16 / self->crew->config.n_threads;
  self->candidates.used_bytes = self->packed.used_bytes = 0;
  while (!busq_crew_must_stop(self->crew) && self->packed.used_bytes + self->candidates.used_bytes < ROOM_BYTES &&
         self->packed.used_bytes + self->candidates.used_bytes <= limit_bytes) {
    const uint64_t taken = atomic_fetch_add(&search->n_taken, 1);
    if (taken >= n_left || taken >= UNITS_MAX)
      break;
    unit *mine = &search->units[taken];
    *mine = (unit){.thread = number, .first_candidate = self->candidates.used_bytes / sizeof(candidate)};
    expand_unit(self, mine, search->round_begin + taken);
  }
  busq_crew_tell(self->crew, &self->tally);
}

/* ---- what one thread does for all, while they meet ---- */

static uint64_t n_units_taken(const breadth *search)
{
  const uint64_t n_left = n_units_of(&search->rows[search->depth % 2]) - search->round_begin;
  const uint64_t taken = atomic_load(&search->n_taken);
  const uint64_t limit = n_left < UNITS_MAX ? n_left : UNITS_MAX;
  return taken < limit ? taken : limit;
}

/* Where memory is short: the states that were expanded, up to this round's, are not needed any more. */
static void spare(breadth *search)
{
  row *level = row_of(search, search->depth);
  const uint64_t next_unit = search->round_begin + n_units_taken(search);
  const bool is_last = next_unit == n_units_of(level);
  busq_store_trim(&level->states, is_last ? level->states.used_bytes : corner_of(level, next_unit));
}

/* ---- the past ---- */

/* Before the past is read, by all threads; then the level is over, or the set is full. */
static void ask_past(breadth *search, bool is_level_over)
{
  busq_past_rewind(&search->past);
  atomic_store(&search->n_parts_taken, 0);
  atomic_store(&search->n_dropped, 0);
  search->is_level_over = is_level_over;
  search->asks_past = true;
}

/* The set goes to disk, and begins anew. */
static void write_down(busq_crew *crew)
{
  breadth *search = breadth_of(crew);
  row *next = row_of(search, search->depth + 1);
  if (!busq_past_write(&search->past, &search->seen, &crew->account, &crew->must_stop))
    busq_crew_stop(crew, busq_crew_must_stop(crew) ? BUSQ_CREW_GIVEN_UP : BUSQ_CREW_FULL);
  next->n_asked = next->count;
}

static void drop_part(breadth *search, row *next, uint64_t begin, uint64_t end)
{
  uint64_t *prints = prints_of(next);
  uint64_t n_dropped = 0;
  for (uint64_t place = begin; place < end; place++) {
    if (place + AHEAD < end)
      busq_seen_announce(&search->seen, prints[place + AHEAD]);
    if (!busq_past_has(&search->past, &search->seen, prints[place]))
      continue;
    prints[place] = 0;
    n_dropped++;
  }
  atomic_fetch_add(&search->n_dropped, n_dropped);
}

/* Drops the states of the next row that the past has, of those that were not looked for so far; of several threads each its share. */
static void drop_old(busq_crew *crew)
{
  breadth *search = breadth_of(crew);
  row *next = row_of(search, search->depth + 1);
  while (atomic_load(&search->past.n_marked) && !busq_crew_must_stop(crew)) {
    const uint64_t begin = next->n_asked + atomic_fetch_add(&search->n_parts_taken, 1) * PLACES_PER_PART;
    if (begin >= next->count)
      return;
    drop_part(search, next, begin, begin + PLACES_PER_PART < next->count ? begin + PLACES_PER_PART : next->count);
  }
}

/* So many of the states that were found are new. */
static void note_new(busq_crew *crew, uint64_t count)
{
  pthread_mutex_lock(&crew->mutex);
  crew->facts.unique += count;
  if (count)
    busq_tally_raise(&crew->facts.depth_max, breadth_of(crew)->depth + 1);
  pthread_mutex_unlock(&crew->mutex);
}

/* ---- the set ---- */

static uint64_t n_candidates(const breadth *search)
{
  uint64_t count = 0;
  for (uint64_t place = 0; place < n_units_taken(search); place++)
    count += search->units[place].n_candidates;
  return count;
}

static bool grow_set(busq_crew *crew)
{
  breadth *search = breadth_of(crew);
  if (busq_past_is_there(&search->past))
    return false;
  spare(search);
  return busq_seen_grow(&search->seen, &crew->must_stop);
}

/* Before additions: the set must have room for all of them. */
static void make_room(busq_crew *crew)
{
  breadth *search = breadth_of(crew);
  const uint64_t count = n_candidates(search);
  while (!busq_seen_has_room(&search->seen, count))
    if (!grow_set(crew))
      break;
  if (busq_seen_has_room(&search->seen, count))
    return;
  if (busq_past_is_there(&search->past))
    ask_past(search, false);
  else if (busq_disk_is_open(&crew->disk) && !busq_crew_must_stop(crew))
    write_down(crew);
  else
    busq_crew_stop(crew, busq_crew_must_stop(crew) ? BUSQ_CREW_GIVEN_UP : BUSQ_CREW_FULL);
}

static void note_violation(breadth *search, uint32_t faults, uint32_t depth, uint64_t place)
{
  if (!search->first.faults || depth < search->first.depth)
    search->first = (violation){.faults = faults, .depth = depth, .place = place};
}

/* Numbers the new states; what they violate. */
static uint32_t number_all(busq_crew *crew, uint64_t *countp, uint64_t *bytesp)
{
  breadth *search = breadth_of(crew);
  uint32_t faults = 0;
  for (uint64_t place = 0; place < n_units_taken(search); place++) {
    unit *self = &search->units[place];
    const candidate *candidates = candidates_of(search, self);
    self->first_new = *countp;
    self->bytes_before = *bytesp;
    if (self->end_faults)
      note_violation(search, self->end_faults, search->depth, self->end_parent);
    for (uint64_t which = 0; which < self->n_candidates; which++) {
      if (!candidates[which].is_new)
        continue;
      if (candidates[which].faults & crew->config.judged)
        note_violation(search, candidates[which].faults, search->depth + 1, *countp);
      faults |= candidates[which].faults;
      *bytesp += candidates[which].bytes;
      ++*countp;
    }
  }
  return faults;
}

/* Room in the next row and in the log for so many states. */
static bool grow_row(breadth *search, row *next, uint64_t count, uint64_t bytes)
{
  const uint64_t n_corners = (count + PARENTS_PER_UNIT - 1) / PARENTS_PER_UNIT;
  const uint64_t n_logged = search->log_of_level[search->depth + 1] + count;
  return count <= UINT32_MAX && busq_store_grow(&next->states, bytes) &&
         busq_store_grow(&next->corners, n_corners * sizeof(uint64_t)) &&
         (!next->prints.bytes || busq_store_grow(&next->prints, count * sizeof(uint64_t))) &&
         busq_store_grow(&search->log, n_logged * sizeof(uint64_t));
}

/* After additions: numbers the new states, and makes room for them in row and log. */
static void settle(busq_crew *crew)
{
  breadth *search = breadth_of(crew);
  row *next = row_of(search, search->depth + 1);
  const uint64_t before = next->count;
  uint64_t count = before, bytes = next->states.used_bytes;
  const uint32_t faults = number_all(crew, &count, &bytes);
  (void)busq_seen_draw(&search->seen, count - before);
  bool has_room = grow_row(search, next, count, bytes);
  if (!has_room) {
    spare(search);
    has_room = grow_row(search, next, count, bytes);
  }
  next->count = count;
  atomic_store(&search->n_kept, 0);
  pthread_mutex_lock(&crew->mutex);
  crew->facts.faults |= faults;
  pthread_mutex_unlock(&crew->mutex);
  if (!busq_past_is_there(&search->past))
    note_new(crew, count - before);
  if (!has_room)
    busq_crew_stop(crew, BUSQ_CREW_FULL);
}

static void report_violation(busq_crew *crew)
{
  breadth *search = breadth_of(crew);
  const uint64_t *log = (const uint64_t *)(const void *)search->log.bytes;
  busq_crew_witness *witness = &crew->witness;
  uint64_t place = search->first.place;
  witness->faults = search->first.faults;
  witness->n_moves = search->first.depth;
  for (uint32_t depth = search->first.depth; depth > 0; depth--) {
    const uint64_t entry = log[search->log_of_level[depth] + place];
    witness->moves[depth - 1] = busq_crew_move((uint32_t)entry);
    place = entry >> 32;
  }
  busq_crew_stop(crew, BUSQ_CREW_FOUND);
}

static void clear_row(row *level)
{
  busq_store_clear(&level->states);
  busq_store_clear(&level->corners);
  if (level->prints.bytes)
    busq_store_clear(&level->prints);
  level->count = level->n_asked = level->n_dropped = 0;
}

static void advance(busq_crew *crew)
{
  breadth *search = breadth_of(crew);
  row *next = row_of(search, search->depth + 1);
  search->is_done = next->count == next->n_dropped;
  if (search->is_done)
    return;
  clear_row(row_of(search, search->depth));
  search->round_begin = 0;
  search->depth++;
  search->log_of_level[search->depth + 1] = search->log_of_level[search->depth] + next->count;
  pthread_mutex_lock(&crew->mutex);
  crew->facts.depth = search->depth;
  pthread_mutex_unlock(&crew->mutex);
}

/* Where the level is done, the next one. */
static void end_round(busq_crew *crew)
{
  breadth *search = breadth_of(crew);
  row *next = row_of(search, search->depth + 1);
  search->round_begin += n_units_taken(search);
  atomic_store(&search->n_taken, 0);
  if (search->round_begin < n_units_of(row_of(search, search->depth)))
    return;
  if (search->first.faults)
    report_violation(crew);
  else if (busq_past_is_there(&search->past) && next->n_asked < next->count)
    ask_past(search, true);
  else
    advance(crew);
}

/* The past was read, and what it has dropped. */
static void end_asking(busq_crew *crew)
{
  breadth *search = breadth_of(crew);
  row *next = row_of(search, search->depth + 1);
  const uint64_t n_dropped = atomic_load(&search->n_dropped);
  search->asks_past = false;
  note_new(crew, next->count - next->n_asked - n_dropped);
  next->n_dropped += n_dropped;
  next->n_asked = next->count;
  if (search->is_level_over)
    advance(crew);
  else
    write_down(crew);
}

/* ---- add, keep ---- */

/* Adds those fingerprints that are this thread's to add. */
static void add_share(busq_crew *crew, uint32_t number)
{
  breadth *search = breadth_of(crew);
  for (uint64_t place = 0; place < n_units_taken(search); place++) {
    const unit *self = &search->units[place];
    candidate *candidates = candidates_of(search, self);
    for (uint64_t which = 0; which < self->n_candidates; which++) {
      if (which + AHEAD < self->n_candidates)
        busq_seen_announce(&search->seen, candidates[which + AHEAD].fingerprint);
      if (candidates[which].fingerprint % SHARES * crew->config.n_threads / SHARES == number)
        candidates[which].is_new = busq_seen_add(&search->seen, candidates[which].fingerprint);
    }
  }
}

static void keep_unit(busq_crew *crew, const unit *self)
{
  breadth *search = breadth_of(crew);
  row *next = row_of(search, search->depth + 1);
  const candidate *candidates = candidates_of(search, self);
  const char *packed = search->workers[self->thread]->packed.bytes;
  uint64_t *log = (uint64_t *)(void *)search->log.bytes + search->log_of_level[search->depth + 1];
  uint64_t *corners = (uint64_t *)(void *)next->corners.bytes;
  uint64_t place = self->first_new, at = self->bytes_before;
  for (uint64_t which = 0; which < self->n_candidates; which++) {
    const candidate *one = &candidates[which];
    if (!one->is_new)
      continue;
    if (place % PARENTS_PER_UNIT == 0)
      corners[place / PARENTS_PER_UNIT] = at;
    memcpy(next->states.bytes + at, packed + one->at, one->bytes);
    if (next->prints.bytes)
      prints_of(next)[place] = one->fingerprint;
    log[place++] = one->parent << 32 | busq_crew_word(&one->move);
    at += one->bytes;
  }
}

static void keep_units(busq_crew *crew)
{
  breadth *search = breadth_of(crew);
  const uint64_t n_units = n_units_taken(search);
  for (;;) {
    const uint64_t place = atomic_fetch_add(&search->n_kept, 1);
    if (place >= n_units)
      return;
    keep_unit(crew, &search->units[place]);
  }
}

/* ---- threads ---- */

/* Waits for the others; the last one does something for all.  False where the search is over. */
static bool meet(busq_crew *crew, void (*action)(busq_crew *crew))
{
  breadth *search = breadth_of(crew);
  pthread_mutex_lock(&crew->mutex);
  const uint64_t meeting = search->n_meetings;
  if (++search->n_met == crew->config.n_threads) {
    pthread_mutex_unlock(&crew->mutex);
    if (!busq_crew_must_stop(crew))
      action(crew);
    pthread_mutex_lock(&crew->mutex);
    search->n_met = 0;
    search->n_meetings++;
    pthread_cond_broadcast(&crew->changed);
  }
  while (search->n_meetings == meeting && !busq_crew_must_stop(crew))
    pthread_cond_wait(&crew->changed, &crew->mutex);
  pthread_mutex_unlock(&crew->mutex);
  return !busq_crew_must_stop(crew);
}

static void nothing(busq_crew *crew)
{
  (void)crew;
}

/* All threads read the past, if they have to.  False where the search is over. */
static bool look_back(busq_crew *crew)
{
  breadth *search = breadth_of(crew);
  if (!search->asks_past)
    return true;
  busq_past_read(&search->past, &search->seen, &crew->must_stop);
  if (!meet(crew, nothing))
    return false;
  drop_old(crew);
  return meet(crew, end_asking);
}

static void run(busq_crew *crew, uint32_t number)
{
  breadth *search = breadth_of(crew);
  while (!search->is_done) {
    expand_units(search->workers[number], number);
    if (!meet(crew, make_room) || !look_back(crew))
      return;
    add_share(crew, number);
    if (!meet(crew, settle))
      return;
    keep_units(crew);
    if (!meet(crew, end_round) || !look_back(crew))
      return;
  }
}

/* ---- beginning and end ---- */

static bool add_worker(busq_crew *crew, uint32_t number)
{
  worker *self = busq_account_calloc(&crew->account, sizeof(worker) + crew->model.state_bytes_max);
  if (!self)
    return false;
  breadth_of(crew)->workers[number] = self;
  self->crew = crew;
  self->state = (uint64_t *)(self + 1);
  return busq_successors_init(&self->successors, crew);
}

static bool init_store(busq_crew *crew, busq_store *store)
{
  return busq_disk_is_open(&crew->disk) ? busq_store_init_on(store, &crew->disk)
                                        : busq_store_init(store, &crew->account, crew->config.memory_bytes);
}

static bool init_row(busq_crew *crew, row *level)
{
  return init_store(crew, &level->states) && init_store(crew, &level->corners) &&
         (!busq_disk_is_open(&crew->disk) || init_store(crew, &level->prints));
}

/* With a disk the set leaves room for what threads find in a round, twice while that grows, and for the marks of the past. */
static bool init_set(busq_crew *crew, breadth *search)
{
  if (!busq_disk_is_open(&crew->disk))
    return busq_seen_init(&search->seen, &crew->account, crew->config.memory_bytes);
  const uint64_t left = busq_account_left(&crew->account);
  const uint64_t rounds = (uint64_t)crew->config.n_threads * 4 * ROOM_BYTES;
  const uint64_t bytes = left - (rounds < left / 2 ? rounds : left / 2);
  search->seen.is_emptied = true;
  return busq_seen_init(&search->seen, &crew->account, bytes - bytes / 32) && busq_past_init(&search->past, &crew->disk);
}

static bool init(busq_crew *crew, breadth *search)
{
  for (uint32_t number = 0; number < crew->config.n_threads; number++)
    if (!add_worker(crew, number))
      return false;
  search->units = busq_account_calloc(&crew->account, UNITS_MAX * sizeof *search->units);
  return search->units && init_row(crew, &search->rows[0]) && init_row(crew, &search->rows[1]) &&
         init_store(crew, &search->log) && init_set(crew, search);
}

/* The row of the first state: as if the first thread had found it. */
static bool add_first(busq_crew *crew)
{
  breadth *search = breadth_of(crew);
  worker *first = search->workers[0];
  row *level = &search->rows[0];
  busq_model_start(&crew->model, first->state);
  const busq_successor start = {.fingerprint = busq_successors_fingerprint(crew, first->state)};
  if (!add_candidate(first, 0, &start, first->state, 0) || !grow_row(search, level, 1, first->packed.used_bytes))
    return false;
  busq_seen_add(&search->seen, start.fingerprint);
  if (level->prints.bytes)
    prints_of(level)[0] = start.fingerprint;
  memcpy(level->states.bytes, first->packed.bytes, first->packed.used_bytes);
  level->count = search->log_of_level[1] = 1;
  crew->facts.unique = crew->facts.total = 1;
  return true;
}

static int begin(busq_crew *crew)
{
  breadth *search = crew->own = calloc(1, sizeof *search);
  if (!search || !init(crew, search) || !add_first(crew))
    return busq_crew_no_memory(crew);
  return BUSQ_OK;
}

static void end(busq_crew *crew)
{
  breadth *search = breadth_of(crew);
  for (uint32_t number = 0; number < crew->config.n_threads; number++) {
    worker *self = search->workers[number];
    if (!self)
      continue;
    busq_account_free(&crew->account, self->candidates.bytes, self->candidates.room_bytes);
    busq_account_free(&crew->account, self->packed.bytes, self->packed.room_bytes);
    busq_successors_deinit(&self->successors, crew);
    free(self);
  }
  for (uint32_t which = 0; which < 2; which++) {
    busq_store_deinit(&search->rows[which].states);
    busq_store_deinit(&search->rows[which].corners);
    busq_store_deinit(&search->rows[which].prints);
  }
  busq_store_deinit(&search->log);
  busq_seen_deinit(&search->seen);
  busq_past_deinit(&search->past, &crew->account);
  free(search->units);
  free(search);
  crew->own = NULL;
}

const busq_crew_kind busq_breadth = {begin, run, end};
