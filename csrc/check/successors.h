/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_CHECK_SUCCESSORS_H
#define BUSQ_CHECK_SUCCESSORS_H
/*
 * The states that follow a state: all of them, or those that the reductions leave.
 *
 * Mechanism: they are played side by side, each in as many bytes as it needs, so that they stay in the cache; and all of their
 * fingerprints are announced to the set of those that were seen before the first is asked for.
 */
#include "check/search_threads.h"
#include "check/seen.h"

typedef struct {
  uint64_t fingerprint;
  size_t at;            /* in the room */
  busq_model_move move;
} busq_successor;

typedef struct {
  uint32_t count;
  uint64_t n_asked; /* states whose moves were found */
  busq_successor each[BUSQ_MODEL_MOVES_MAX];
  busq_model_move moves[BUSQ_MODEL_MOVES_MAX];
  char *room;
  size_t room_bytes;
} busq_successors;

bool busq_successors_init(busq_successors *self, busq_crew *crew);
void busq_successors_deinit(busq_successors *self, busq_crew *crew);

/* The moves of a state that are to be played; how many. */
uint32_t busq_successors_find(busq_successors *self, busq_crew *crew, busq_tally *tally, const void *state);
/* Plays them.  False where the crew was stopped, because memory or the model's bounds do not suffice. */
bool busq_successors_play(busq_successors *self, busq_crew *crew, busq_tally *tally, const busq_seen *seen,
                          const void *state);

uint64_t busq_successors_fingerprint(const busq_crew *crew, const void *state);

static inline void *busq_successors_state(const busq_successors *self, uint32_t place)
{
  return self->room + self->each[place].at;
}

#endif /* BUSQ_CHECK_SUCCESSORS_H */
