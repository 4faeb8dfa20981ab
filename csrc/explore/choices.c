/* SPDX-License-Identifier: Apache-2.0 */
#include "explore/choices.h"

/* A bit for each. */
static uint32_t enabled_actors(void)
{
  uint32_t enabled = 0;
  for (uint32_t i = 0; i < explorer_now.world->n_actors; i++)
    enabled |= (uint32_t)actor_is_enabled(i) << i;
  return enabled;
}

/* No actor goes on but, perhaps, the stopped one. */
static bool is_quiet(uint32_t enabled)
{
  const uint32_t stopped = explorer_now.now.stopped;
  return !enabled || (stopped != BUSQ_EXPLORE_NOBODY && enabled == UINT32_C(1) << stopped);
}

static bool may_lose_patience(uint32_t index, uint32_t enabled)
{
  const actors_state *now = &explorer_now.now;
  const actor *self = &now->actors[index];
  if ((self->status != ACTOR_WAITING && self->status != ACTOR_ASLEEP) || self->is_stirred ||
      self->vain >= BUSQ_EXPLORE_VAIN_MAX || now->stopped == index)
    return false;
  if (self->impatience_left)
    return true;
  return is_quiet(enabled) && (now->has_death || now->stopped != BUSQ_EXPLORE_NOBODY);
}

bool choices_is_standstill(void)
{
  const uint32_t enabled = enabled_actors();
  if (!is_quiet(enabled))
    return false;
  for (uint32_t i = 0; i < explorer_now.world->n_actors; i++)
    if (may_lose_patience(i, enabled))
      return false;
  return true;
}

const char *choices_judge(void)
{
  const uint32_t stopped = explorer_now.now.stopped;
  busq_world *world = explorer_now.world;
  const busq_end end = stopped == BUSQ_EXPLORE_NOBODY ? BUSQ_END_OVER : BUSQ_END_STOPPED;
  const char *fault = world->judge(world->context, end, stopped);
  busq_memory_discard(&world->memory);
  return fault;
}

/* ---- persistent sets ---- */

static bool is_about_to_conflict(uint32_t index, uint32_t other)
{
  const actor *self = &explorer_now.now.actors[index];
  if (self->status == ACTOR_READY)
    return actors_conflict(&self->pending, other);
  /* An actor that begins a turn, or goes on after waiting, touches nothing that others mind before its next pause. */
  return !actor_is_enabled(index) && actors_conflict_waiting(index, other);
}

static uint32_t persistent_from(uint32_t first)
{
  uint32_t members = UINT32_C(1) << first, looked_at = 0;
  while (members != looked_at) {
    const uint32_t index = (uint32_t)__builtin_ctz(members & ~looked_at);
    looked_at |= UINT32_C(1) << index;
    for (uint32_t other = 0; other < explorer_now.world->n_actors; other++)
      if (!(members >> other & 1) && actor_is_live(other) && is_about_to_conflict(index, other) &&
          (explorer_now.now.stopped != other || explorer_now.now.is_impatient))
        members |= UINT32_C(1) << other;
  }
  return members;
}

static uint32_t persistent_set(uint32_t enabled)
{
  uint32_t best = UINT32_MAX;
  int best_size = 33;
  for (uint32_t left = enabled; left; left &= left - 1) {
    const uint32_t members = persistent_from((uint32_t)__builtin_ctz(left));
    const int size = __builtin_popcount(members & enabled);
    if (size < best_size) {
      best = members;
      best_size = size;
    }
  }
  return best;
}

/* ---- faults ---- */

static bool asks_about(uint32_t index, uint32_t other)
{
  const busq_world *world = explorer_now.world;
  const actor *self = &explorer_now.now.actors[index];
  return self->status == ACTOR_READY && index != other && world->actors[other].life &&
         self->pending.address == world->actors[other].life;
}

/* Whether a fault may hit the actor, which is about to make an access. */
static bool may_be_hit(uint32_t index, uint32_t members, uint32_t enabled, choice_rule rule, uint32_t last)
{
  return rule == CHOOSE_ALL || (rule == CHOOSE_BOUNDED && index == last) ||
         (rule == CHOOSE_PERSISTENT && (members & enabled) == UINT32_C(1) << index);
}

static bool may_be_killed(uint32_t index, uint32_t members, uint32_t enabled, choice_rule rule, uint32_t last)
{
  const busq_world *world = explorer_now.world;
  const uint8_t status = explorer_now.now.actors[index].status;
  if (!world->actors[index].may_die || status == ACTOR_DEAD)
    return false;
  for (uint32_t other = 0; other < world->n_actors; other++)
    if ((members & enabled) >> other & 1 && asks_about(other, index))
      return true;
  if (status != ACTOR_READY)
    return !enabled && status != ACTOR_FRESH;
  return may_be_hit(index, members, enabled, rule, last);
}

static bool may_be_stopped(uint32_t index, uint32_t members, uint32_t enabled, choice_rule rule, uint32_t last)
{
  return explorer_now.world->actors[index].may_stop && explorer_now.now.actors[index].status == ACTOR_READY &&
         may_be_hit(index, members, enabled, rule, last);
}

uint32_t choices_find(choice *choices, choice_rule rule, uint32_t last)
{
  const actors_state *now = &explorer_now.now;
  const uint32_t enabled = enabled_actors();
  const bool is_narrow = rule == CHOOSE_PERSISTENT && !is_quiet(enabled);
  const uint32_t members = is_narrow ? persistent_set(enabled) : UINT32_MAX;
  uint32_t count = 0;
  for (uint32_t i = 0; i < explorer_now.world->n_actors; i++)
    if ((members & enabled) >> i & 1)
      choices[count++] = (choice){CHOICE_STEP, (uint8_t)i};
  for (uint32_t i = 0; i < explorer_now.world->n_actors; i++)
    if (members >> i & 1 && may_lose_patience(i, enabled))
      choices[count++] = (choice){CHOICE_PATIENCE, (uint8_t)i};
  if (!count && now->stopped != BUSQ_EXPLORE_NOBODY)
    choices[count++] = (choice){CHOICE_STEP, (uint8_t)now->stopped};
  for (uint32_t i = 0; i < explorer_now.world->n_actors && now->faults_left; i++) {
    if (may_be_killed(i, members, enabled, rule, last))
      choices[count++] = (choice){CHOICE_KILL, (uint8_t)i};
    if (may_be_stopped(i, members, enabled, rule, last))
      choices[count++] = (choice){CHOICE_STOP, (uint8_t)i};
  }
  return count;
}
