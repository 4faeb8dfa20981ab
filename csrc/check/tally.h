/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_CHECK_TALLY_H
#define BUSQ_CHECK_TALLY_H
/*
 * The findings of a search's thread that it has not shared so far, and the table of transitions of all of them.
 *
 * Guarantee: every move that was made is counted in its kind of transition, as long as there are no more than
 * BUSQ_TRANSITIONS_MAX kinds.
 *
 * Mechanism: what makes a kind fits into a word.  A small table of each thread counts them; now and then, and where it
 * is full, it is added to the table of all.
 */
#include "base/types.h"
#include "busq_lab.h"

enum { BUSQ_TALLY_SLOTS = 256, BUSQ_TRANSITIONS_SLOTS = 4096, BUSQ_TRANSITIONS_MAX = 3072 };

typedef struct {
  uint64_t kind; /* 0: free */
  uint64_t count;
} busq_transition_count;

typedef struct {
  busq_transition_count slots[BUSQ_TRANSITIONS_SLOTS];
  uint32_t count;
} busq_transitions;

typedef struct {
  busq_check_facts facts; /* sums and maxima since the last report */
  busq_transition_count slots[BUSQ_TALLY_SLOTS];
} busq_tally;

/* False where there is no room left, and the tally has to be reported first. */
bool busq_tally_note(busq_tally *tally, const busq_check_transition *transition);
/* Adds everything, and begins again at nothing. */
void busq_tally_tell(busq_tally *tally, busq_check_facts *facts, busq_transitions *transitions);
/* The kinds that were seen, the most frequent first; how many. */
uint32_t busq_transitions_list(const busq_transitions *transitions, busq_check_transition *list);
/* Whether some kind of packet, or an alarm, can lead to itself, over steps that do nothing but to bring about the
 * next. */
bool busq_transitions_have_circle(const busq_transitions *transitions);

static inline void busq_tally_raise(uint32_t *most, uint32_t value)
{
  *most = value > *most ? value : *most;
}

#endif /* BUSQ_CHECK_TALLY_H */
