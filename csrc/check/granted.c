/* SPDX-License-Identifier: Apache-2.0 */
#include "check/granted.h"
#include "check/fingerprint.h"

/* ---- moves that commute ---- */

/* The same move after another one: a packet has moved up where an older one was taken. */
static busq_model_move after(const busq_model_move *move, const busq_model_move *other)
{
  busq_model_move same = *move;
  const bool takes = other->kind == BUSQ_CHECK_RECEIVE || other->kind == BUSQ_CHECK_LOSE;
  same.place -= takes && busq_model_move_is_of_packet(move) && other->place < move->place;
  return same;
}

static bool play_both(const busq_model *model, void *state, const busq_model_move *one, const busq_model_move *other)
{
  const busq_model_move second = after(other, one);
  return busq_model_play(model, state, one, NULL) == BUSQ_OK && busq_model_play(model, state, &second, NULL) == BUSQ_OK;
}

bool busq_model_commute(const busq_model *model, const void *state, const busq_model_move *one,
                        const busq_model_move *other, void *room)
{
  void *first = room;
  void *second = (char *)room + model->state_bytes_max;
  memcpy(first, state, busq_model_bytes(model, state));
  memcpy(second, state, busq_model_bytes(model, state));
  return play_both(model, first, one, other) && play_both(model, second, other, one) &&
         busq_model_fingerprint(model, first) == busq_model_fingerprint(model, second);
}

/* ---- names that do not matter ---- */

/* A permutation of all but those with a role. */
static void draw_names(const busq_model *model, uint64_t choice, uint32_t *names)
{
  const uint32_t n = model->config.n_processes;
  for (uint32_t process = 0; process < n; process++)
    names[process] = process;
  for (uint32_t left = n; left > busq_model_n_roles(model) + 1; left--) {
    const uint32_t other = busq_model_n_roles(model) + (uint32_t)(choice % (left - busq_model_n_roles(model)));
    const uint32_t swapped = names[left - 1];
    choice /= left - busq_model_n_roles(model);
    names[left - 1] = names[other];
    names[other] = swapped;
  }
}

bool busq_model_keeps_names(const busq_model *model, const void *state, const busq_model_move *move, uint64_t choice,
                            void *room)
{
  uint32_t names[BUSQ_MODEL_PROCESSES_MAX];
  char *renamed = room, *played = (char *)room + model->state_bytes_max;
  busq_model_move same = *move;
  draw_names(model, choice, names);
  same.process = names[move->process];
  same.destinations = busq_model_rename_set((uint8_t)move->destinations, names);
  busq_model_rename(model, state, renamed, names);
  memcpy(played, state, busq_model_bytes(model, state));
  return busq_model_play(model, renamed, &same, NULL) == busq_model_play(model, played, move, NULL) &&
         busq_model_fingerprint(model, renamed) == busq_model_fingerprint_as(model, played, names);
}
