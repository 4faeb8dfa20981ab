/* SPDX-License-Identifier: Apache-2.0 */
#include "explore/actors.h"
#include "base/growing.h"
#include "explore/coroutine.h"
#include <stdio.h>

#define GRANULES_MAX (BUSQ_MEMORY_SHARED_LINES_MAX * 8)

#define ACCESSES_MAX 200000u

explorer explorer_now;

typedef struct {
  uint64_t reads[GRANULES_MAX / 64];
  uint64_t writes[GRANULES_MAX / 64];
  busq_memory_lines written;
} footprint;

/* By actor and phase: of this phase and the later ones. */
static footprint footprints[BUSQ_EXPLORE_ACTORS_MAX][BUSQ_EXPLORE_PHASES_MAX];
static busq_coroutine coroutines[BUSQ_EXPLORE_ACTORS_MAX];
static uint32_t running = BUSQ_EXPLORE_NOBODY;
static busq_turn turn_result;
static bool turn_is_impatient;

static void on_access(busq_access access, const volatile void *address, size_t bytes);

/* ---- footprints ---- */

static bool bit_is(const uint64_t *words, uint32_t bit)
{
  return words[bit / 64] >> bit % 64 & 1;
}

static uint32_t phase_of(uint32_t index)
{
  const uint32_t phase = *explorer_now.world->actors[index].phase;
  return phase < BUSQ_EXPLORE_PHASES_MAX ? phase : BUSQ_EXPLORE_PHASES_MAX - 1;
}

/* A new entry matters if another actor conflicts with it. */
static bool is_new_conflict(uint32_t index, uint32_t granule, bool is_write)
{
  for (uint32_t other = 0; other < explorer_now.world->n_actors; other++) {
    const footprint *theirs = &footprints[other][0];
    if (other != index && (bit_is(theirs->writes, granule) || (is_write && bit_is(theirs->reads, granule))))
      return true;
  }
  return false;
}

static void footprint_add(uint32_t index, uint32_t granule, bool is_write)
{
  const uint32_t phase = phase_of(index);
  for (uint32_t p = phase + 1; p-- > 0;) {
    footprint *mine = &footprints[index][p];
    uint64_t *words = is_write ? mine->writes : mine->reads;
    if (bit_is(words, granule))
      return;
    words[granule / 64] |= UINT64_C(1) << granule % 64;
    if (is_write)
      mine->written.words[granule / 8 / 64] |= UINT64_C(1) << (granule / 8) % 64;
    explorer_now.has_grown |= is_new_conflict(index, granule, is_write);
  }
}

void footprints_forget(void)
{
  memset(footprints, 0, sizeof footprints);
}

bool actor_is_live(uint32_t index)
{
  const uint8_t status = explorer_now.now.actors[index].status;
  return status != ACTOR_DONE && status != ACTOR_DEAD;
}

static bool writes(busq_access access)
{
  return access != BUSQ_ACCESS_LOAD;
}

static bool reads(busq_access access)
{
  return access != BUSQ_ACCESS_STORE;
}

bool actors_conflict(const actor_access *access, uint32_t other)
{
  const footprint *theirs = &footprints[other][phase_of(other)];
  for (uint32_t g = access->granule; g < access->granule + access->n_granules; g++)
    if (bit_is(theirs->writes, g) || (writes(access->access) && bit_is(theirs->reads, g)))
      return true;
  return false;
}

bool actors_conflict_waiting(uint32_t index, uint32_t other)
{
  return busq_memory_lines_meet(&explorer_now.now.actors[index].lines, &footprints[other][phase_of(other)].written,
                                explorer_now.world->memory.n_shared_lines);
}

bool actors_mind(uint32_t index, const actor_access *access)
{
  for (uint32_t other = 0; other < explorer_now.world->n_actors; other++)
    if (other != index && actor_is_live(other) && actors_conflict(access, other))
      return true;
  return false;
}

bool actors_fight_for(uint32_t index, uint32_t granule)
{
  const footprint *mine = &footprints[index][0];
  const bool writes_it = bit_is(mine->writes, granule);
  if (!writes_it && !bit_is(mine->reads, granule))
    return false;
  for (uint32_t other = 0; other < explorer_now.world->n_actors; other++) {
    const footprint *theirs = &footprints[other][0];
    if (other != index && (bit_is(theirs->writes, granule) || (writes_it && bit_is(theirs->reads, granule))))
      return true;
  }
  return false;
}

uint32_t actors_words(void)
{
  uint32_t count = 0;
  for (uint32_t g = 0; g < explorer_now.world->memory.n_shared_lines * 8; g++) {
    bool is_fought_for = false;
    for (uint32_t i = 0; i < explorer_now.world->n_actors; i++)
      is_fought_for |= actors_fight_for(i, g);
    count += is_fought_for;
  }
  return count;
}

/* ---- for the onlooker ---- */

static struct {
  bool is_used;
  busq_explore_made access;
} making[BUSQ_EXPLORE_ACTORS_MAX];

static void value_at(const busq_explore_made *access, uint64_t *values)
{
  const size_t bytes = access->bytes > 8 ? 8 : access->bytes;
  for (uint32_t half = 0; half < access->n_granules; half++) {
    values[half] = 0;
    memcpy(&values[half], (const char *)(uintptr_t)access->address + 8 * half, bytes);
  }
}

/* An access has been made by the time its actor makes the next one, or pauses. */
static void show_made(uint32_t index)
{
  if (!explorer_now.watcher || !making[index].is_used)
    return;
  making[index].is_used = false;
  value_at(&making[index].access, making[index].access.after);
  busq_access_hook = NULL; /* the onlooker's own accesses are no actor's */
  explorer_now.watcher->made(index, &making[index].access);
  busq_access_hook = on_access;
}

static void note_making(uint32_t index, const actor_access *access)
{
  if (!explorer_now.watcher)
    return;
  show_made(index);
  making[index].is_used = true;
  making[index].access = (busq_explore_made){.access = access->access,
                                             .granule = access->granule,
                                             .n_granules = access->n_granules,
                                             .address = access->address,
                                             .bytes = access->bytes};
  value_at(&making[index].access, making[index].access.before);
}

/* ---- on the stack of an actor ---- */

static void note_access(uint32_t index, const actor_access *access)
{
  actor *self = &explorer_now.now.actors[index];
  for (uint32_t g = access->granule; g < access->granule + access->n_granules; g++) {
    if (reads(access->access)) {
      footprint_add(index, g, false);
      self->lines.words[g / 8 / 64] |= UINT64_C(1) << (g / 8) % 64;
    }
    if (writes(access->access))
      footprint_add(index, g, true);
  }
}

static bool is_to_pause(uint32_t index, const actor_access *access)
{
  switch (explorer_now.rule) {
  case PAUSE_EVERYWHERE:
    return true;
  case PAUSE_AFTER:
    return explorer_now.accesses >= explorer_now.accesses_max;
  default:
    return actors_mind(index, access);
  }
}

static void on_access(busq_access access, const volatile void *address, size_t bytes)
{
  const uint32_t index = running;
  if (index == BUSQ_EXPLORE_NOBODY)
    return;
  const uint32_t granule = busq_memory_granule(&explorer_now.world->memory, address);
  if (granule == UINT32_MAX)
    return;
  const actor_access now = {access, granule, bytes > 8 ? 2 : 1, address, bytes};
  note_access(index, &now);
  if (is_to_pause(index, &now)) {
    explorer_now.now.actors[index].pending = now;
    explorer_now.now.actors[index].status = ACTOR_READY;
    busq_coroutine_pause();
  }
  if (++explorer_now.accesses > ACCESSES_MAX) {
    fprintf(stderr, "actor %u makes %u accesses in one step: does it go round in circles?\n", index, ACCESSES_MAX);
    exit(1);
  }
  note_making(index, &now);
}

bool busq_explore_sleep(const void *address)
{
  const uint32_t index = running;
  actor *self = &explorer_now.now.actors[index];
  self->status = ACTOR_ASLEEP;
  self->bed = address;
  self->is_stirred = false;
  busq_coroutine_pause();
  const bool was_woken = !turn_is_impatient;
  turn_is_impatient = false;
  self->is_stirred = false;
  memset(&self->lines, 0, sizeof self->lines);
  return was_woken;
}

void busq_explore_wake(const void *address)
{
  for (uint32_t i = 0; i < explorer_now.world->n_actors; i++) {
    actor *other = &explorer_now.now.actors[i];
    if (running != BUSQ_EXPLORE_NOBODY && i != running && other->status == ACTOR_ASLEEP && other->bed == address)
      other->is_stirred = true;
  }
}

static void take_turn(void *argument)
{
  const uint32_t index = (uint32_t)(uintptr_t)argument;
  const bool has_lost_patience = turn_is_impatient;
  turn_is_impatient = false;
  turn_result = explorer_now.world->turn(explorer_now.world->context, index, has_lost_patience);
}

/* ---- steps ---- */

static void begin_turn(uint32_t index)
{
  actor *self = &explorer_now.now.actors[index];
  memset(&self->lines, 0, sizeof self->lines);
  memset(&self->pending, 0, sizeof self->pending);
  self->is_stirred = false;
  busq_coroutine_init(&coroutines[index], take_turn, (void *)(uintptr_t)index);
}

/* Up to its next pause; a turn after which there is more to do is followed by the next. */
static void actor_run(uint32_t index)
{
  enum { TURNS_MAX = 1000 };
  actor *self = &explorer_now.now.actors[index];
  busq_coroutine *coroutine = &coroutines[index];
  running = index;
  if (self->status != ACTOR_READY && self->status != ACTOR_ASLEEP)
    begin_turn(index);
  self->bed = NULL;
  explorer_now.world->enter(explorer_now.world->context, index);
  for (uint32_t turns = 0; turns < TURNS_MAX; turns++) {
    busq_coroutine_run(coroutine);
    if (!coroutine->has_ended)
      break;
    self->status = turn_result == BUSQ_TURN_DONE ? ACTOR_DONE : ACTOR_WAITING;
    memset(&self->pending, 0, sizeof self->pending);
    if (turn_result != BUSQ_TURN_AGAIN)
      break;
    begin_turn(index);
  }
  explorer_now.world->leave(explorer_now.world->context, index);
  running = BUSQ_EXPLORE_NOBODY;
}

static void note_written(void *context, uint32_t granule)
{
  footprint_add(*(const uint32_t *)context, granule, true);
}

static void take_in(uint32_t index)
{
  busq_world *world = explorer_now.world;
  busq_memory_lines changed;
  busq_memory_sync(&world->memory, world->actors[index].process, &changed, note_written, &index);
  for (uint32_t i = 0; i < world->n_actors; i++) {
    actor *other = &explorer_now.now.actors[i];
    if (i != index && other->status != ACTOR_ASLEEP && actor_is_live(i) && !other->is_stirred &&
        busq_memory_lines_meet(&other->lines, &changed, world->memory.n_shared_lines))
      other->is_stirred = true;
  }
}

static void note_stack(uint32_t index)
{
  const busq_coroutine *coroutine = &coroutines[index];
  busq_memory_hash *hash = &explorer_now.now.actors[index].stack;
  *hash = (busq_memory_hash){index, 0};
  busq_memory_mix(hash, coroutine->registers, sizeof coroutine->registers);
  busq_memory_mix(hash, coroutine->stack_pointer, busq_coroutine_used_bytes(coroutine));
}

static void step(uint32_t index, bool is_impatient)
{
  actor *self = &explorer_now.now.actors[index];
  explorer_now.accesses = 0;
  turn_is_impatient = is_impatient;
  if (is_impatient) {
    self->vain++;
    if (explorer_now.now.stopped != BUSQ_EXPLORE_NOBODY)
      explorer_now.now.is_impatient = true;
  } else if (self->status == ACTOR_WAITING || self->status == ACTOR_ASLEEP) {
    self->vain = 0;
  }
  if (explorer_now.now.stopped == index)
    explorer_now.now.stopped = BUSQ_EXPLORE_NOBODY;
  actor_run(index);
  note_stack(index);
  show_made(index);
  take_in(index);
}

static void die(uint32_t index)
{
  busq_world *world = explorer_now.world;
  explorer_now.now.has_death = true;
  for (uint32_t i = 0; i < world->n_actors; i++)
    if (world->actors[i].process == world->actors[index].process && actor_is_live(i)) {
      actor *victim = &explorer_now.now.actors[i];
      memset(victim, 0, sizeof *victim);
      victim->status = ACTOR_DEAD;
    }
  world->kill(world->context, index);
  take_in(index);
}

void actors_take(choice taken)
{
  actors_state *now = &explorer_now.now;
  switch (taken.kind) {
  case CHOICE_KILL:
    now->faults_left--;
    die(taken.actor);
    return;
  case CHOICE_STOP:
    now->faults_left--;
    now->stopped = taken.actor;
    now->is_impatient = false;
    return;
  case CHOICE_PATIENCE:
    if (now->actors[taken.actor].impatience_left)
      now->actors[taken.actor].impatience_left--;
    step(taken.actor, true);
    return;
  default:
    step(taken.actor, false);
  }
}

bool actor_is_enabled(uint32_t index)
{
  const actors_state *now = &explorer_now.now;
  const actor *self = &now->actors[index];
  if (now->stopped == index && !now->is_impatient)
    return false;
  switch (self->status) {
  case ACTOR_FRESH:
  case ACTOR_READY:
    return true;
  case ACTOR_WAITING:
  case ACTOR_ASLEEP:
    return self->is_stirred;
  default:
    return false;
  }
}

/* ---- the beginning, and the way back ---- */

static char *aside;
static uint64_t aside_bytes, aside_room;

void actors_begin(busq_world *world)
{
  memset(&explorer_now, 0, sizeof explorer_now);
  memset(making, 0, sizeof making);
  explorer_now.world = world;
  busq_memory_begin(&world->memory);
  busq_access_hook = on_access;
  aside_bytes = 0;
}

void actors_end(void)
{
  busq_access_hook = NULL;
  busq_memory_return(&explorer_now.world->memory, 0);
  busq_memory_discard(&explorer_now.world->memory);
}

void actors_reset(uint32_t faults_max)
{
  const busq_world *world = explorer_now.world;
  busq_memory_return(&explorer_now.world->memory, 0);
  memset(&explorer_now.now, 0, sizeof explorer_now.now);
  explorer_now.now.faults_left = faults_max;
  explorer_now.now.stopped = BUSQ_EXPLORE_NOBODY;
  for (uint32_t i = 0; i < world->n_actors; i++) {
    explorer_now.now.actors[i].status = ACTOR_FRESH;
    explorer_now.now.actors[i].impatience_left = (uint8_t)world->actors[i].impatience;
    busq_coroutine_init(&coroutines[i], NULL, NULL);
  }
  aside_bytes = 0;
}

typedef struct {
  actors_state state;
  uint64_t log_count;
  uint32_t index;
  bool is_started, has_ended;
  size_t stack_bytes;
  jmp_buf registers;
} aside_head;

uint64_t actors_put_aside(uint32_t index)
{
  const busq_coroutine *coroutine = &coroutines[index];
  const uint64_t mark = aside_bytes;
  aside_head head;
  memset(&head, 0, sizeof head);
  head.state = explorer_now.now;
  head.log_count = explorer_now.world->memory.log_count;
  head.index = index;
  head.is_started = coroutine->is_started;
  head.has_ended = coroutine->has_ended;
  head.stack_bytes = busq_coroutine_used_bytes(coroutine);
  memcpy(&head.registers, &coroutine->registers, sizeof head.registers);
  aside_bytes += sizeof head + head.stack_bytes;
  if (!busq_reserve_long(&aside, &aside_room, aside_bytes, 1))
    exit(2);
  memcpy(aside + mark, &head, sizeof head);
  memcpy(aside + mark + sizeof head, coroutine->stack_pointer, head.stack_bytes);
  return mark;
}

void actors_put_back(uint64_t mark)
{
  aside_head head;
  memcpy(&head, aside + mark, sizeof head);
  busq_coroutine *coroutine = &coroutines[head.index];
  explorer_now.now = head.state;
  busq_memory_return(&explorer_now.world->memory, head.log_count);
  coroutine->is_started = head.is_started;
  coroutine->has_ended = head.has_ended;
  coroutine->stack_pointer = coroutine->stack + sizeof coroutine->stack - head.stack_bytes;
  memcpy(&coroutine->registers, &head.registers, sizeof head.registers);
  memcpy(coroutine->stack_pointer, aside + mark + sizeof head, head.stack_bytes);
  aside_bytes = mark;
}

busq_memory_hash actors_hash(void)
{
  const actors_state *now = &explorer_now.now;
  const busq_world *world = explorer_now.world;
  busq_memory_hash hash = world->memory.hash;
  const uint64_t facts[] = {now->faults_left, now->stopped, now->is_impatient, now->has_death};
  busq_memory_mix(&hash, facts, sizeof facts);
  for (uint32_t i = 0; i < world->n_actors; i++) {
    const actor *self = &now->actors[i];
    const uint64_t flags[] = {(uint64_t)self->status | (uint64_t)self->is_stirred << 8 |
                                  (uint64_t)self->vain << 16 | (uint64_t)self->impatience_left << 24,
                              (uint64_t)(uintptr_t)self->bed};
    busq_memory_mix(&hash, flags, sizeof flags);
    if (!actor_is_live(i))
      continue;
    if (!self->is_stirred && self->status != ACTOR_ASLEEP)
      busq_memory_mix(&hash, self->lines.words, (world->memory.n_shared_lines + 63) / 64 * 8);
    if (self->status == ACTOR_READY || self->status == ACTOR_ASLEEP)
      busq_memory_mix(&hash, &self->stack, sizeof self->stack);
  }
  return hash;
}
