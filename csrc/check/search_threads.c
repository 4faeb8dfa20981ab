/* SPDX-License-Identifier: Apache-2.0 */
#include "check/search_threads.h"
#include "base/error.h"
#include "check/faults.h"
#include "check/fingerprint.h"
#include <errno.h>
#include <stdlib.h>

/* ---- for searches ---- */

void busq_crew_stop(busq_crew *crew, busq_crew_reason reason)
{
  pthread_mutex_lock(&crew->mutex);
  crew->is_cut = true;
  crew->facts.is_full |= reason == BUSQ_CREW_FULL;
  crew->is_too_small |= reason == BUSQ_CREW_TOO_SMALL;
  atomic_store(&crew->must_stop, true);
  pthread_cond_broadcast(&crew->changed);
  pthread_mutex_unlock(&crew->mutex);
}

int busq_crew_no_memory(const busq_crew *crew)
{
  errno = atomic_load(&crew->disk.number);
  if (errno)
    return busq_error_system("no files of a search, which needs %llu bytes of disk at least",
                             (unsigned long long)atomic_load(&crew->disk.account.most_bytes));
  return busq_error(BUSQ_NO_SPACE, "%llu bytes are too little for a search by %u threads: use more memory, or fewer threads",
                    (unsigned long long)crew->config.memory_bytes, crew->config.n_threads);
}

uint32_t busq_crew_judge_end(const busq_crew *crew, busq_tally *tally, const void *state, const busq_model_move *moves,
                             uint32_t n_moves, uint32_t depth)
{
  uint32_t faults = busq_crew_may_end(moves, n_moves) ? busq_model_judge_end(&crew->model, state) : 0;
  if (n_moves && depth >= crew->depth_max) {
    if (!crew->config.depth_max)
      faults |= 1u << BUSQ_CHECK_ENDLESS;
    else
      tally->facts.left_out++;
  }
  return faults;
}

void busq_crew_tell(busq_crew *crew, busq_tally *tally)
{
  pthread_mutex_lock(&crew->mutex);
  busq_tally_tell(tally, &crew->facts, &crew->transitions);
  pthread_mutex_unlock(&crew->mutex);
}

/* ---- beginning and end ---- */

static void *run(void *argument)
{
  busq_crew_member *member = argument;
  busq_crew *crew = member->crew;
  crew->config.kind->run(crew, member->number);
  pthread_mutex_lock(&crew->mutex);
  crew->n_running--;
  pthread_cond_broadcast(&crew->changed);
  pthread_mutex_unlock(&crew->mutex);
  return NULL;
}

static int start(busq_crew *crew)
{
  crew->n_running = crew->config.n_threads;
  for (uint32_t number = 0; number < crew->config.n_threads; number++) {
    busq_crew_member *member = &crew->members[number];
    *member = (busq_crew_member){.crew = crew, .number = number};
    if (pthread_create(&member->thread, NULL, run, member))
      return busq_error_system("can't start thread %u of the search: use fewer threads", number + 1);
    crew->n_started++;
  }
  return BUSQ_OK;
}

static int init(busq_crew *crew)
{
  const busq_crew_config *config = &crew->config;
  int result = busq_model_init(&crew->model, &config->model);
  if (result != BUSQ_OK)
    return result;
  result = config->directory ? busq_disk_open(&crew->disk, config->directory, config->disk_bytes) : BUSQ_OK;
  if (result != BUSQ_OK)
    return result;
  crew->account.limit_bytes = config->memory_bytes;
  crew->depth_max = BUSQ_CREW_DEPTH_MAX;
  if (config->depth_max && config->depth_max < BUSQ_CREW_DEPTH_MAX)
    crew->depth_max = config->depth_max;
  crew->is_by_class = config->reductions & BUSQ_CHECK_SYMMETRY && busq_model_is_symmetric(&crew->model);
  result = config->kind->begin(crew);
  return result == BUSQ_OK ? start(crew) : result;
}

int busq_crew_new(const busq_crew_config *config, busq_crew **crewp)
{
  busq_crew *crew = calloc(1, sizeof *crew);
  if (!crew)
    return busq_error(BUSQ_NO_SPACE, "no memory for a search");
  crew->config = *config;
  crew->disk.directory = -1;
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_mutex_init(&crew->mutex, NULL);
  pthread_cond_init(&crew->changed, &monotonic);
  pthread_condattr_destroy(&monotonic);
  const int result = init(crew);
  if (result != BUSQ_OK) {
    busq_crew_free(crew);
    return result;
  }
  *crewp = crew;
  return BUSQ_OK;
}

void busq_crew_free(busq_crew *crew)
{
  busq_crew_stop(crew, BUSQ_CREW_GIVEN_UP);
  for (uint32_t number = 0; number < crew->n_started; number++)
    pthread_join(crew->members[number].thread, NULL);
  if (crew->own)
    crew->config.kind->end(crew);
  busq_disk_close(&crew->disk);
  pthread_cond_destroy(&crew->changed);
  pthread_mutex_destroy(&crew->mutex);
  free(crew);
}

/* ---- looking ---- */

int busq_crew_wait(busq_crew *crew, uint64_t slice_ns)
{
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  const uint64_t end_ns = (uint64_t)until.tv_nsec + slice_ns % 1000000000;
  until.tv_sec += (time_t)(slice_ns / 1000000000 + end_ns / 1000000000);
  until.tv_nsec = (long)(end_ns % 1000000000);
  pthread_mutex_lock(&crew->mutex);
  int waited = 0;
  while (crew->n_running && !waited)
    waited = pthread_cond_timedwait(&crew->changed, &crew->mutex, &until);
  const bool is_over = !crew->n_running, is_too_small = crew->is_too_small;
  pthread_mutex_unlock(&crew->mutex);
  if (!is_over)
    return BUSQ_INTERRUPTED;
  if (!is_too_small)
    return BUSQ_OK;
  return busq_error(BUSQ_NO_SPACE, "an execution of %s has more than %u packets in flight, all that a check has room for: "
                    "use fewer processes or messages", crew->config.model.order->name, BUSQ_MODEL_PACKETS_MAX);
}

void busq_crew_examine(busq_crew *crew, busq_check_facts *facts)
{
  pthread_mutex_lock(&crew->mutex);
  *facts = crew->facts;
  facts->may_go_in_circles = busq_transitions_have_circle(&crew->transitions);
  facts->is_over = !crew->n_running;
  facts->is_complete = !crew->n_running && !crew->is_cut && !facts->left_out && !facts->contradicted;
  pthread_mutex_unlock(&crew->mutex);
  facts->memory_bytes = atomic_load(&crew->account.most_bytes);
  facts->disk_bytes = atomic_load(&crew->disk.account.most_bytes);
  facts->disk_error = (uint32_t)atomic_load(&crew->disk.number);
}
