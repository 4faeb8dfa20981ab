/* SPDX-License-Identifier: Apache-2.0 */
#include "check/successors.h"
#include "base/hash.h"
#include "check/fingerprint.h"
#include "check/reduce.h"
#include "check/state.h"
#include <string.h>

enum { NAMES_CHECKED = 10000, NAMES_SHARE = 64 };
enum { BEGIN_STATES = 2 + BUSQ_MODEL_MESSAGES_MAX / 2 /* as many as busq_reduce asks for, with two processes */ };

bool busq_successors_init(busq_successors *self, busq_crew *crew)
{
  return busq_account_reserve(&crew->account, &self->room, &self->room_bytes,
                              BEGIN_STATES * crew->model.state_bytes_max);
}

void busq_successors_deinit(busq_successors *self, busq_crew *crew)
{
  busq_account_free(&crew->account, self->room, self->room_bytes);
  self->room = NULL;
  self->room_bytes = 0;
}

uint64_t busq_successors_fingerprint(const busq_crew *crew, const void *state)
{
  return crew->is_by_class ? busq_model_fingerprint_of_class(&crew->model, state)
                           : busq_model_fingerprint(&crew->model, state);
}

/* Symmetry is the order's word too: of the first states all moves are tried under other names, then one move of a few states.  An
 * order whose bytes may differ under other names, though nothing else does, can't be asked. */
static void check_names(busq_successors *self, busq_crew *crew, busq_tally *tally, const void *state)
{
  const busq_model *model = &crew->model;
  const bool is_first = self->n_asked++ < NAMES_CHECKED;
  const bool can_be_asked = !model->config.order->delivers_by_name || model->config.n_processes <= 3;
  if ((!is_first && self->n_asked % NAMES_SHARE) || !can_be_asked)
    return;
  for (uint32_t place = 0; place < self->count && (is_first || place < 1); place++) {
    const uint64_t choice = busq_hash_mix(self->n_asked * BUSQ_MODEL_MOVES_MAX + place);
    const busq_model_move *move = &self->moves[is_first ? place : choice % self->count];
    tally->facts.contradicted += !busq_model_keeps_names(model, state, move, choice, self->room);
  }
}

uint32_t busq_successors_find(busq_successors *self, busq_crew *crew, busq_tally *tally, const void *state)
{
  self->count = busq_model_moves(&crew->model, state, self->moves);
  if (crew->is_by_class)
    check_names(self, crew, tally, state);
  if (crew->config.reductions & (BUSQ_CHECK_LATE_SUBMITS | BUSQ_CHECK_QUIET_PACKETS | BUSQ_CHECK_SILENT_PACKETS))
    self->count = busq_reduce(&crew->model, crew->config.reductions, state, self->moves, self->count, self->room,
                              &tally->facts.contradicted);
  return self->count;
}

/* Plays one move at this place of the room; how many bytes it takes, or 0. */
static size_t play(busq_successors *self, busq_crew *crew, busq_tally *tally, const void *state, size_t bytes,
                   busq_successor *next)
{
  char *room = self->room + next->at;
  busq_check_transition transition = {0};
  memcpy(room, state, bytes);
  const int result = busq_model_play(&crew->model, room, &next->move, &transition);
  if (result != BUSQ_OK) {
    busq_crew_stop(crew, BUSQ_CREW_TOO_SMALL);
    return 0;
  }
  next->fingerprint = busq_successors_fingerprint(crew, room);
  tally->facts.total++;
  if (next->move.kind <= BUSQ_CHECK_TICK && !next->move.cut)
    busq_crew_note(crew, tally, &transition);
  return BUSQ_ALIGN_UP(busq_model_bytes(&crew->model, room), 8);
}

bool busq_successors_play(busq_successors *self, busq_crew *crew, busq_tally *tally, const busq_seen *seen,
                          const void *state)
{
  const size_t bytes = busq_model_bytes(&crew->model, state);
  size_t at = 0;
  for (uint32_t place = 0; place < self->count; place++) {
    busq_successor *next = &self->each[place];
    if (busq_crew_must_stop(crew))
      return false; /* a state of a large group has thousands of successors */
    if (!busq_account_reserve(&crew->account, &self->room, &self->room_bytes, at + crew->model.state_bytes_max)) {
      busq_crew_stop(crew, BUSQ_CREW_FULL);
      return false;
    }
    next->at = at;
    next->move = self->moves[place];
    const size_t used = play(self, crew, tally, state, bytes, next);
    if (!used)
      return false;
    at += used;
    busq_seen_announce(seen, next->fingerprint);
  }
  return true;
}
