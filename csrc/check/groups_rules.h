/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_CHECK_GROUPS_RULES_H
#define BUSQ_CHECK_GROUPS_RULES_H
/* The rules of the protocol, asked of a state: what finding moves, playing them and describing them have in common. */
#include "check/groups_model.h"

typedef const busq_groups_config config_t;
typedef busq_groups_state state_t;
typedef busq_groups_process process_t;
typedef busq_groups_record record_t;

enum { BUSQ_GROUPS_NONE = BUSQ_GROUPS_RECORDS_MAX }; /* no record */

static inline bool has(uint32_t set, uint32_t process)
{
  return set >> process & 1;
}

static inline bool runs(const state_t *state, uint32_t process)
{
  return !has(state->head.dead | state->head.stopped, process);
}

static inline uint8_t max_of(uint8_t a, uint8_t b)
{
  return a > b ? a : b;
}

static inline bool is_installed(const state_t *state, const record_t *record)
{
  return state->head.number >= record->view;
}

static inline bool is_for_one(const record_t *record)
{
  return !(record->targets & (record->targets - 1));
}

static inline bool is_for_member(const record_t *record, uint32_t process)
{
  return has(record->members, process);
}

/* The record in the process's hand; BUSQ_GROUPS_NONE. */
uint32_t busq_groups_hand_of(const state_t *state, uint32_t process);
/* The record of the change under way; BUSQ_GROUPS_NONE. */
uint32_t busq_groups_claimed(const state_t *state);
/* A message's key, or the least that it may come to.  Of two that have the same time the owners decide; where names
 * are not to decide, because steps are whole, the search has tried both ways, and `highest` holds which. */
uint32_t busq_groups_key_of(config_t *config, const record_t *record);
/* The record that the process would deliver next; BUSQ_GROUPS_NONE while there is none, or one that is not decided
 * may come before it. */
uint32_t busq_groups_next_of(config_t *config, const state_t *state, uint32_t process, uint32_t *blockerp);
/* One more than any clock of the destinations.  A change looks at those of dead members, too, which no process
 * raises any more: what they had delivered, though all others of their view are dead, has to stay before the view
 * that comes after it. */
uint8_t busq_groups_propose(config_t *config, const state_t *state, const record_t *record);
/* Whether another message has this time. */
bool busq_groups_is_tied(const state_t *state, uint32_t at, uint8_t time);

/* What a look at the group finds about a message of an earlier view. */
typedef enum { BUSQ_GROUPS_WAITS = 0, BUSQ_GROUPS_COUNTS = 1, BUSQ_GROUPS_PASSED_OVER = 2, BUSQ_GROUPS_COUNTS_PUT_OFF = 3 } busq_groups_answer;
busq_groups_answer busq_groups_ask(config_t *config, const state_t *state, const record_t *record);
/* Whether the process may deliver its next record, or pass it over. */
busq_groups_answer busq_groups_judge_next(config_t *config, const state_t *state, uint32_t process,
                                          const record_t *record);

#endif /* BUSQ_CHECK_GROUPS_RULES_H */
