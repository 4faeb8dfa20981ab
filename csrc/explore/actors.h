/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_EXPLORE_ACTORS_H
#define BUSQ_EXPLORE_ACTORS_H
/* The actors of a search, their steps and footprints: what choices.c chooses from, explore.c tries in turn and
 * listing.c shows. */
#include "explore/world.h"

typedef enum {
  ACTOR_FRESH, /* begins its turn */
  ACTOR_READY, /* about to make an access */
  ACTOR_WAITING,
  ACTOR_ASLEEP,
  ACTOR_DONE,
  ACTOR_DEAD
} actor_status;

typedef struct {
  busq_access access;
  uint32_t granule; /* first */
  uint32_t n_granules;
  const volatile void *address;
  size_t bytes;
} actor_access;

typedef struct {
  uint8_t status;
  bool is_stirred; /* another actor has changed a line that it has read in this turn, or woken it */
  uint8_t vain;    /* how often in a row it has lost patience */
  uint8_t impatience_left;
  const void *bed; /* where it sleeps */
  actor_access pending;
  busq_memory_hash stack;  /* registers and stack at its pause, hashed */
  busq_memory_lines lines; /* read in this turn */
} actor;

typedef struct {
  actor actors[BUSQ_EXPLORE_ACTORS_MAX];
  uint32_t faults_left;
  uint32_t stopped;        /* or BUSQ_EXPLORE_NOBODY */
  bool is_impatient;       /* since it was stopped, another actor has lost patience */
  bool has_death;
} actors_state;

typedef enum {
  CHOICE_STEP,
  CHOICE_PATIENCE,
  CHOICE_KILL,
  CHOICE_STOP
} choice_kind;

typedef struct {
  uint8_t kind;
  uint8_t actor;
} choice;

/* By kind, how a choice is written in a schedule. */
#define CHOICE_LETTERS ".pks"

/* The actor goes on, and is not killed or stopped. */
static inline bool choice_is_step(choice taken)
{
  return taken.kind <= CHOICE_PATIENCE;
}

#define CHOICES_MAX (4 * BUSQ_EXPLORE_ACTORS_MAX)

typedef enum {
  PAUSE_WHERE_MINDED,
  PAUSE_EVERYWHERE,
  PAUSE_AFTER /* so many accesses */
} pause_rule;

typedef struct {
  busq_world *world;
  actors_state now;
  pause_rule rule;
  uint32_t accesses;       /* in this step */
  uint32_t accesses_max;   /* with PAUSE_AFTER */
  bool has_grown;          /* footprints have got a new conflict */
  const busq_explore_watcher *watcher; /* or NULL */
} explorer;

extern explorer explorer_now;

void actors_begin(busq_world *world);
void actors_end(void);
/* All actors at the beginning. */
void actors_reset(uint32_t faults_max);
bool actor_is_enabled(uint32_t index);
bool actor_is_live(uint32_t index);
/* Another actor may still do something that conflicts with this access. */
bool actors_mind(uint32_t index, const actor_access *access);
bool actors_conflict(const actor_access *access, uint32_t other);
/* About to read again what it has read, while the other may write there. */
bool actors_conflict_waiting(uint32_t index, uint32_t other);
bool actors_fight_for(uint32_t index, uint32_t granule);
uint32_t actors_words(void);
void actors_take(choice taken);

/* Coroutine and flags of an actor, put aside on a stack of bytes. */
uint64_t actors_put_aside(uint32_t index);
void actors_put_back(uint64_t mark);
busq_memory_hash actors_hash(void);

void footprints_forget(void);

#endif /* BUSQ_EXPLORE_ACTORS_H */
