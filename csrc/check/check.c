/* SPDX-License-Identifier: Apache-2.0 */
/* The public face of the searches: reads the arguments, starts what was asked for, and returns what came of it. */
#include "base/error.h"
#include "check/check.h"
#include <stdlib.h>
#include <string.h>

enum { MEMORY_BYTES_MIN = 1 << 20, DISK_BYTES_MIN = 1 << 24 };
static const long long DISK_BYTES_MAX = 1LL << 42; /* for each file so much address space */

struct busq_check {
  busq_crew *crew;
  busq_check_step *steps; /* of the witness, once it was asked for */
  busq_check_transition transitions[BUSQ_TRANSITIONS_MAX]; /* as they were when the first was asked for */
  uint32_t n_transitions;
  uint32_t destinations[BUSQ_MODEL_MESSAGES_MAX];
  uint32_t counts[BUSQ_MODEL_PROCESSES_MAX];
};

/* ---- arguments ---- */

static int check_bounds(const busq_check_config *config)
{
  if (config->processes < 2 || config->processes > BUSQ_MODEL_PROCESSES_MAX)
    return busq_error(BUSQ_INVALID, "%u processes: expected 2 to %u", config->processes, BUSQ_MODEL_PROCESSES_MAX);
  const uint32_t messages_max = BUSQ_MODEL_MESSAGES_MAX / config->processes;
  if (config->messages < 1 || config->messages > messages_max)
    return busq_error(BUSQ_INVALID, "%u messages of each of %u processes: expected 1 to %u", config->messages,
                      config->processes, messages_max);
  if (config->behaviour > BUSQ_CHECK_INFORMED)
    return busq_error(BUSQ_INVALID, "there is no behaviour %u", config->behaviour);
  if (config->channels > BUSQ_CHANNELS_UNORDERED)
    return busq_error(BUSQ_INVALID, "there are no channels %u", config->channels);
  if (config->search > BUSQ_CHECK_WALK)
    return busq_error(BUSQ_INVALID, "there is no search %u", config->search);
  const uint32_t reductions = BUSQ_CHECK_ALL_REDUCTIONS | BUSQ_CHECK_MORTAL_REDUCTIONS;
  if (config->reductions & ~reductions)
    return busq_error(BUSQ_INVALID, "there is no reduction %#x", config->reductions & ~reductions);
  if (config->threads < 1 || config->threads > BUSQ_CREW_THREADS_MAX)
    return busq_error(BUSQ_INVALID, "%u threads: expected 1 to %d", config->threads, BUSQ_CREW_THREADS_MAX);
  if (config->memory_bytes < MEMORY_BYTES_MIN)
    return busq_error(BUSQ_INVALID, "%llu bytes of memory: expected at least %d",
                      (unsigned long long)config->memory_bytes, MEMORY_BYTES_MIN);
  if (config->crashes_max >= config->processes)
    return busq_error(BUSQ_INVALID, "%u of %u processes die: expected one to be left", config->crashes_max,
                      config->processes);
  if (config->crashes_max && (config->doubled_max || config->lost_max || config->behaviour == BUSQ_CHECK_JOB))
    return busq_error(BUSQ_INVALID, "processes die where neither packets are lost or doubled nor a job is done");
  if (config->directory && config->search != BUSQ_CHECK_BREADTH)
    return busq_error(BUSQ_INVALID, "a search on disk: it goes breadth first");
  if (config->directory && (config->disk_bytes < DISK_BYTES_MIN || config->disk_bytes > DISK_BYTES_MAX))
    return busq_error(BUSQ_INVALID, "%llu bytes of disk: expected %d to %lld", (unsigned long long)config->disk_bytes,
                      DISK_BYTES_MIN, DISK_BYTES_MAX);
  if (config->search == BUSQ_CHECK_WALK && !config->walks)
    return busq_error(BUSQ_INVALID, "0 random executions: expected at least 1");
  return BUSQ_OK;
}

/* Refuses what this order does not support. */
static int check_order(const busq_check_config *config, const busq_order *order, uint32_t options)
{
  const bool is_single = order->traits & BUSQ_ORDER_POINT_TO_POINT;
  const uint32_t fan_out_max = is_single ? 1 : config->processes - !config->with_self;
  if (config->fan_out_max < 1 || config->fan_out_max > fan_out_max)
    return busq_error(BUSQ_INVALID, is_single ? "%u destinations per message: under %s, which is point to point, expected %u"
                                              : "%u destinations per message: under %s expected 1 to %u",
                      config->fan_out_max, order->name, fan_out_max);
  if (config->lost_max && order != &busq_order_none && !(options & BUSQ_OPTION_SKIP_GAPS))
    return busq_error(BUSQ_INVALID, "a network that loses packets: only none and fifo:on_gap=skip go on without, not %s",
                      order->name);
  if (config->search == BUSQ_CHECK_BREADTH && !config->directory && config->reductions & (BUSQ_CHECK_QUIET_PACKETS | BUSQ_CHECK_SILENT_PACKETS))
    return busq_error(BUSQ_INVALID, "breadth first, with quiet or silent packets first, would not find the shortest violation: leave "
                                    "that reduction out, or search depth first");
  return BUSQ_OK;
}

/* ---- beginning and end ---- */

static uint32_t reductions_of(const busq_check_config *config)
{
  if (config->search == BUSQ_CHECK_WALK)
    return 0;
  return config->reductions & (config->crashes_max ? BUSQ_CHECK_MORTAL_REDUCTIONS : BUSQ_CHECK_ALL_REDUCTIONS);
}

static int start(busq_check *check, const busq_check_config *config, const busq_order *order, uint32_t options)
{
  static const busq_crew_kind *const kinds[] = {&busq_exhaust, &busq_breadth, &busq_walk};
  /* Depth first, a state may be met on a long way before it is met on a short one: then a bound must not cut both. */
  const uint32_t reductions = reductions_of(config);
  const bool is_bounded = config->depth_max && config->search == BUSQ_CHECK_DEPTH;
  if (config->destinations)
    memcpy(check->destinations, config->destinations, config->processes * config->messages * sizeof(uint32_t));
  if (config->counts)
    memcpy(check->counts, config->counts, config->processes * sizeof(uint32_t));
  const busq_crew_config crew = {.model = {.order = order,
                                           .options = options,
                                           .n_processes = config->processes,
                                           .n_messages = config->messages,
                                           .fan_out_max = config->fan_out_max,
                                           .behaviour = config->behaviour,
                                           .channels = config->channels,
                                           .doubled_max = config->doubled_max,
                                           .lost_max = config->lost_max,
                                           .crashes_max = config->crashes_max,
                                           .with_self = config->with_self,
                                           .asked = config->judged,
                                           .counts_moves = is_bounded,
                                           .counts_turns = config->counts_moves,
                                           .forgets = reductions & BUSQ_CHECK_FORGETTING && config->behaviour == BUSQ_CHECK_FREE &&
                                                      !(options & BUSQ_OPTION_NODES), /* an end may come at any time */
                                           .destinations = config->destinations ? check->destinations : NULL,
                                           .counts = config->counts ? check->counts : NULL},
                                 .kind = kinds[config->search],
                                 .reductions = reductions,
                                 .n_threads = config->threads,
                                 .judged = config->judged,
                                 .depth_max = config->depth_max,
                                 .memory_bytes = config->memory_bytes,
                                 .directory = config->directory,
                                 .disk_bytes = config->disk_bytes,
                                 .walks = config->walks,
                                 .seed = config->seed};
  return busq_crew_new(&crew, &check->crew);
}

int busq_check_new(const char *order, const busq_check_config *config, busq_check **checkp)
{
  uint32_t options = 0;
  int result = check_bounds(config);
  if (result != BUSQ_OK)
    return result;
  const busq_order *found = busq_order_parse(order, &options);
  if (!found)
    return BUSQ_INVALID;
  result = check_order(config, found, options);
  if (result != BUSQ_OK)
    return result;
  busq_check *check = calloc(1, sizeof *check);
  if (!check)
    return busq_error(BUSQ_NO_SPACE, "no memory for a check");
  result = start(check, config, found, options);
  if (result != BUSQ_OK) {
    busq_check_free(check);
    return result;
  }
  *checkp = check;
  return BUSQ_OK;
}

void busq_check_free(busq_check *check)
{
  if (!check)
    return;
  if (check->crew)
    busq_crew_free(check->crew);
  free(check->steps);
  free(check);
}

/* ---- looking ---- */

int busq_check_advance(busq_check *check, uint64_t slice_ns)
{
  return busq_crew_wait(check->crew, slice_ns);
}

void busq_check_examine(busq_check *check, busq_check_facts *facts)
{
  busq_crew_examine(check->crew, facts);
  /* Of n random fingerprints of 64 bits about n^2 / 2^65 meet another. */
  if (check->crew->config.kind != &busq_walk)
    facts->missed_expected = (double)facts->unique * (double)facts->unique * 0x1p-65;
}

/* The moves, played again, as steps. */
static int describe(busq_check *check, const busq_crew_witness *witness)
{
  const busq_model *model = &check->crew->model;
  char *state = malloc(model->state_bytes_max);
  check->steps = malloc((witness->n_moves + 1) * sizeof *check->steps);
  if (!state || !check->steps) {
    free(state);
    return BUSQ_NO_SPACE;
  }
  busq_model_start(model, state);
  for (uint32_t place = 0; place < witness->n_moves; place++) {
    busq_model_describe(model, state, &witness->moves[place], &check->steps[place]);
    (void)busq_model_play(model, state, &witness->moves[place], NULL);
  }
  free(state);
  return BUSQ_OK;
}

const busq_check_step *busq_check_witness(busq_check *check, size_t *countp, uint32_t *faultsp)
{
  busq_check_facts facts;
  const busq_crew_witness *witness = &check->crew->witness;
  busq_crew_examine(check->crew, &facts);
  if (!facts.is_over || !witness->faults)
    return NULL;
  if (!check->steps && describe(check, witness) != BUSQ_OK)
    return NULL;
  *countp = witness->n_moves;
  *faultsp = witness->faults;
  return check->steps;
}

int busq_check_examine_transition(busq_check *check, uint32_t place, busq_check_transition *transition)
{
  if (place == 0) {
    pthread_mutex_lock(&check->crew->mutex);
    check->n_transitions = busq_transitions_list(&check->crew->transitions, check->transitions);
    pthread_mutex_unlock(&check->crew->mutex);
  }
  if (place >= check->n_transitions)
    return BUSQ_EMPTY;
  *transition = check->transitions[place];
  return BUSQ_OK;
}
