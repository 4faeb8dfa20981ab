/* SPDX-License-Identifier: Apache-2.0 */
#include "check/reduce.h"
#include "check/crashes.h"
#include "check/fingerprint.h"

/* ---- moves that commute ---- */

/* A move again, after another one: a packet has moved up where an older one was taken. */
static busq_model_move move_after(const busq_model_move *move, const busq_model_move *other)
{
  busq_model_move moved = *move;
  const bool takes = other->kind == BUSQ_CHECK_RECEIVE || other->kind == BUSQ_CHECK_LOSE;
  moved.place -= takes && busq_model_move_is_of_packet(move) && other->place < move->place;
  return moved;
}

static bool play_both(const busq_model *model, void *state, const busq_model_move *one, const busq_model_move *other)
{
  const busq_model_move second = move_after(other, one);
  return busq_model_play(model, state, one, NULL) == BUSQ_OK && busq_model_play(model, state, &second, NULL) == BUSQ_OK;
}

/* Equal but for counted turns: the same may have come about in more of them. */
static bool are_alike(const busq_model *model, void *one, const void *other)
{
  if (model->config.counts_turns)
    busq_model_head_of(one)->n_moves = busq_model_head_of(other)->n_moves;
  return busq_model_fingerprint(model, one) == busq_model_fingerprint(model, other);
}

bool busq_model_commute(const busq_model *model, const void *state, const busq_model_move *one,
                        const busq_model_move *other, void *room)
{
  void *first = room;
  void *second = (char *)room + model->state_bytes_max;
  memcpy(first, state, busq_model_bytes(model, state));
  memcpy(second, state, busq_model_bytes(model, state));
  return play_both(model, first, one, other) && play_both(model, second, other, one) && are_alike(model, first, second);
}

/* ---- names that do not matter ---- */

/* A permutation of the processes, of which those with a role, the first n_roles, keep their numbers. */
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
  busq_model_move renamed_move = *move;
  draw_names(model, choice, names);
  renamed_move.process = names[move->process];
  renamed_move.destinations = busq_model_rename_set((uint8_t)move->destinations, names);
  busq_model_rename(model, state, renamed, names);
  memcpy(played, state, busq_model_bytes(model, state));
  return busq_model_play(model, renamed, &renamed_move, NULL) == busq_model_play(model, played, move, NULL) &&
         busq_model_fingerprint(model, renamed) == busq_model_fingerprint_as(model, played, names);
}

/* ---- moves that need not be tried ---- */

/* Whether the packet or alarm commutes with all others of its process. */
static bool commutes(const busq_model *model, const void *state, const busq_model_move *moves, uint32_t n_moves,
                     uint32_t place, void *room)
{
  for (uint32_t other = 0; other < n_moves; other++)
    if (other != place && moves[other].process == moves[place].process && moves[other].kind != BUSQ_CHECK_SUBMIT &&
        !busq_model_commute(model, state, &moves[place], &moves[other], room))
      return false;
  return true;
}

/* Whether it also commutes with whatever its process may submit, one message behind the other; `tries_all`:
 * with every choice of destinations, which is enough for the first.  Rows, because what waits is left out, so that no state would ever show what a
 * second message in the buffer does.  `room` takes two states, and one more for each message. */
static bool commutes_with_rows(const busq_model *model, const void *state, const busq_model_move *move, bool tries_all,
                               char *room)
{
  busq_model_move moves[BUSQ_MODEL_MOVES_MAX];
  const uint32_t n_moves = busq_model_moves(model, state, moves);
  char *later = room, *rest = room + model->state_bytes_max;
  for (uint32_t place = 0; place < n_moves; place++) {
    if (moves[place].kind != BUSQ_CHECK_SUBMIT || moves[place].process != move->process)
      continue;
    if (!busq_model_commute(model, state, move, &moves[place], rest))
      return false;
    memcpy(later, state, busq_model_bytes(model, state));
    if (busq_model_play(model, later, &moves[place], NULL) != BUSQ_OK ||
        !commutes_with_rows(model, later, move, false, rest))
      return false;
    if (!tries_all)
      return true;
  }
  return true;
}

/* Whether this submit, which waits, and others behind it commute with all that their process may take next. */
static bool may_be_late(const busq_model *model, const void *state, const busq_model_move *moves, uint32_t n_moves,
                        uint32_t place, char *room)
{
  char *later = room, *rest = room + model->state_bytes_max;
  for (uint32_t other = 0; other < n_moves; other++) {
    if (moves[other].process != moves[place].process || moves[other].kind == BUSQ_CHECK_SUBMIT)
      continue;
    memcpy(later, state, busq_model_bytes(model, state));
    if (!busq_model_commute(model, state, &moves[other], &moves[place], rest) ||
        busq_model_play(model, later, &moves[place], NULL) != BUSQ_OK ||
        !commutes_with_rows(model, later, &moves[other], false, rest))
      return false;
  }
  return true;
}

static bool is_buffered_submit(const busq_model *model, const void *state, const busq_model_move *move, void *room)
{
  if (move->kind != BUSQ_CHECK_SUBMIT || !(model->config.order->traits & BUSQ_ORDER_OUTPUT_BUFFER))
    return false;
  memcpy(room, state, busq_model_bytes(model, state));
  return busq_model_play(model, room, move, NULL) == BUSQ_OK && busq_model_is_waiting(model, room, move);
}

static uint32_t leave_late_out(const busq_model *model, const void *state, busq_model_move *moves, uint32_t n_moves,
                               void *room, uint64_t *contradicted)
{
  bool is_late[BUSQ_MODEL_MOVES_MAX];
  uint32_t n_late = 0;
  for (uint32_t place = 0; place < n_moves; place++) {
    const bool waits = is_buffered_submit(model, state, &moves[place], room);
    is_late[place] = waits && may_be_late(model, state, moves, n_moves, place, room);
    *contradicted += waits != is_late[place];
    n_late += is_late[place];
  }
  if (n_late == n_moves)
    return n_moves;
  uint32_t n_left = 0;
  for (uint32_t place = 0; place < n_moves; place++)
    if (!is_late[place])
      moves[n_left++] = moves[place];
  return n_left;
}

static bool delivers(const busq_model *model, const void *state, const busq_model_move *move, void *room)
{
  busq_check_transition transition;
  memcpy(room, state, busq_model_bytes(model, state));
  return busq_model_play(model, room, move, &transition) != BUSQ_OK || transition.n_delivered;
}

/* ---- where processes die ---- */

/* Whether nothing came of the move; where it is idle, the state is the same but for the packet. */
static bool is_silent(const busq_model *model, const void *state, const void *later,
                      const busq_check_transition *transition, busq_model_silence silence)
{
  const busq_model_head *before = busq_model_head_of(state), *after = busq_model_head_of(later);
  if (transition->n_sent || transition->n_delivered || transition->n_done || transition->n_dropped || transition->sends ||
      transition->is_refused || after->faults != before->faults || after->n_packets + 1 != before->n_packets)
    return false;
  const char *from = (const char *)state + model->processes_at, *to = (const char *)later + model->processes_at;
  return memcmp(from, to, model->orders_at - model->processes_at) == 0 &&
         (silence == BUSQ_MODEL_SILENT || after->order_sum == before->order_sum);
}

/* Whether another move of its process has what it has without the packet: if that dies in it, the same remains. */
static bool bears(const busq_model *model, const void *state, const busq_model_move *move, const busq_model_move *other,
                  char *room)
{
  char *later = room, *alone = room + model->state_bytes_max;
  if (!other->cut && other->kind != BUSQ_CHECK_CRASH)
    return busq_model_commute(model, state, move, other, room);
  const busq_model_move second = move_after(other, move);
  memcpy(later, state, busq_model_bytes(model, state));
  memcpy(alone, state, busq_model_bytes(model, state));
  if (busq_model_play(model, later, move, NULL) != BUSQ_OK || busq_model_play(model, later, &second, NULL) != BUSQ_OK ||
      busq_model_play(model, alone, other, NULL) != BUSQ_OK)
    return false;
  busq_model_head_of(later)->n_moves = busq_model_head_of(alone)->n_moves; /* the packet is one more */
  return busq_model_fingerprint(model, later) == busq_model_fingerprint(model, alone);
}

static bool bear_all(const busq_model *model, const void *state, const busq_model_move *moves, uint32_t n_moves,
                     const busq_model_move *move, char *room)
{
  for (uint32_t other = 0; other < n_moves; other++)
    if (moves[other].process == move->process && memcmp(&moves[other], move, sizeof *move) != 0 &&
        !bears(model, state, move, &moves[other], room))
      return false;
  return true;
}

enum { SILENT_SHARE = 8 };

/* Puts a silent packet in front, if there is one.  The order's word is tried on one of so many states, always the same ones. */
static bool find_silent(const busq_model *model, const void *state, busq_model_move *moves, uint32_t n_moves, char *room,
                        uint64_t *contradicted)
{
  const busq_model_head *head = busq_model_head_of(state);
  const bool is_tried = (head->order_sum + head->packet_sum) % SILENT_SHARE == 0;
  for (uint32_t place = 0; place < n_moves; place++) {
    const busq_model_silence silence = busq_model_may_be_silent(model, state, &moves[place]);
    busq_check_transition transition;
    if (!silence)
      continue;
    memcpy(room, state, busq_model_bytes(model, state));
    if (busq_model_play(model, room, &moves[place], &transition) != BUSQ_OK ||
        !is_silent(model, state, room, &transition, silence))
      continue;
    if (!is_tried || bear_all(model, state, moves, n_moves, &moves[place], room)) {
      moves[0] = moves[place];
      return true;
    }
    ++*contradicted;
  }
  return false;
}

/* ---- all of it ---- */

uint32_t busq_reduce(const busq_model *model, uint32_t reductions, const void *state, busq_model_move *moves,
                     uint32_t n_moves, void *room, uint64_t *contradicted)
{
  if (reductions & BUSQ_CHECK_SILENT_PACKETS && find_silent(model, state, moves, n_moves, room, contradicted))
    return 1;
  for (uint32_t place = 0; reductions & BUSQ_CHECK_QUIET_PACKETS && place < n_moves; place++) {
    if (!busq_model_is_quiet(model, state, &moves[place]) || delivers(model, state, &moves[place], room))
      continue;
    if (commutes(model, state, moves, n_moves, place, room) &&
        commutes_with_rows(model, state, &moves[place], true, room)) {
      moves[0] = moves[place];
      return 1;
    }
    ++*contradicted;
  }
  if (!(reductions & BUSQ_CHECK_LATE_SUBMITS))
    return n_moves;
  return leave_late_out(model, state, moves, n_moves, room, contradicted);
}
