/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_EXPLORE_WORLD_H
#define BUSQ_EXPLORE_WORLD_H
/* A world to explore: its memory, its actors and what they do in a turn.  explore.h describes what a search makes of
 * it. */
#include "base/atomic.h"
#include "explore/memory.h"

#define BUSQ_EXPLORE_ACTORS_MAX 8u
#define BUSQ_EXPLORE_PHASES_MAX 8u
#define BUSQ_EXPLORE_VAIN_MAX 3u /* so often in a row an actor loses patience before it counts as stuck */
#define BUSQ_EXPLORE_NOBODY UINT32_MAX

typedef enum {
  BUSQ_TURN_AGAIN,
  BUSQ_TURN_WAIT, /* nothing to do until something that was read is changed */
  BUSQ_TURN_DONE
} busq_turn;

typedef enum {
  BUSQ_END_OVER,   /* none can go on */
  BUSQ_END_STOPPED /* none but the stopped one */
} busq_end;

/* The system to be explored.  All that an actor's behaviour depends on lies in `memory` or on its stack. */
typedef struct {
  void *context;
  uint32_t n_actors;
  struct {
    uint32_t process;      /* whose private regions its steps may change */
    const uint32_t *phase; /* only rises; in a region */
    const void *life;      /* what others access to find out whether it lives */
    bool may_die;
    bool may_stop;
    uint32_t impatience; /* so often it may lose patience while others could go on */
  } actors[BUSQ_EXPLORE_ACTORS_MAX];
  /* One turn of an actor, on a fresh stack. */
  busq_turn (*turn)(void *context, uint32_t actor, bool has_lost_patience);
  /* Around every step: brings what belongs to a process to where the code looks for it, and back. */
  void (*enter)(void *context, uint32_t actor);
  void (*leave)(void *context, uint32_t actor);
  void (*kill)(void *context, uint32_t actor);
  /* NULL for a good end, or what is wrong.  May change memory: it is put back afterwards. */
  const char *(*judge)(void *context, busq_end end, uint32_t stopped);
  /* For people: the name of a place, and what a value there means. */
  void (*name)(void *context, const void *address, char *text, size_t bytes);
  void (*value)(void *context, const void *address, uint64_t value, char *text, size_t bytes);
  const char *(*title)(void *context, uint32_t actor);
  busq_memory memory;
} busq_world;

/* An access that was made: 8 bytes, or two times 8, before and after it; the upper bytes of a smaller one are zero. */
typedef struct {
  busq_access access;
  uint32_t granule; /* first */
  uint32_t n_granules;
  const volatile void *address;
  size_t bytes;
  uint64_t before[2];
  uint64_t after[2];
} busq_explore_made;

/* An onlooker.  What a search reports is a tree, depth first: a step from depth d leads to depth d + 1, and what was known of that depth
 * and of deeper ones is over.  All accesses come before the step that they belong to. */
typedef struct {
  void (*made)(uint32_t actor, const busq_explore_made *made);
  /* A search begins, at depth 0.  It begins again where more is found out about what actors mind. */
  void (*begun)(void);
  /* `how` as in a schedule: '.' goes on, 'p' has lost patience, 'k' is killed, 's' is stopped. */
  void (*went)(uint32_t depth, uint32_t actor, char how, uint32_t accesses);
} busq_explore_watcher;

/* ---- for actors, during a turn ---- */

/* Sleeps until another actor calls busq_explore_wake with the same address (true), or patience is lost (false). */
bool busq_explore_sleep(const void *address);
void busq_explore_wake(const void *address);

#endif /* BUSQ_EXPLORE_WORLD_H */
