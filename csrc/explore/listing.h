/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_EXPLORE_LISTING_H
#define BUSQ_EXPLORE_LISTING_H
/* A schedule for people: one column per actor, one line per access but for reads of what no other one writes. */
#include "explore/world.h"

/* Plays a schedule, and prints it access by access; then each one that can goes on in turn.  NULL for a good end, or
 * what is wrong. */
const char *busq_explore_follow(busq_world *world, const char *schedule);

#endif /* BUSQ_EXPLORE_LISTING_H */
