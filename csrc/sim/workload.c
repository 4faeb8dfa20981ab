/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/workload.h"
#include "base/error.h"
#include "base/prng.h"
#include <stdlib.h>
#include <string.h>

/* The uses of random streams. */
enum { DESTINATIONS = 1, JOBS = 2, STARTS = 3, AFTERS = 5 };

/* ---- traces ---- */

enum { TRACE_SECONDS_MAX = 1000000000 };

/* `last_rows`, by process: the last row that it received, from 1. */
static int check_recipients(const busq_sim_config *config, uint64_t row, uint64_t *last_rows)
{
  for (uint64_t place = config->trace_starts[row]; place < config->trace_starts[row + 1]; place++) {
    const uint32_t recipient = config->trace_recipients[place];
    if (recipient >= config->processes)
      return busq_error(BUSQ_INVALID, "message %llu of the trace goes to process %u: there are %u", (unsigned long long)row,
                        recipient, config->processes);
    if (last_rows[recipient] == row + 1)
      return busq_error(BUSQ_INVALID, "message %llu of the trace goes to process %u twice", (unsigned long long)row,
                        recipient);
    last_rows[recipient] = row + 1;
  }
  return BUSQ_OK;
}

static int check_trace(const busq_sim_config *config, uint64_t *last_rows)
{
  for (uint64_t row = 0; row < config->n_trace; row++) {
    const uint64_t begin = config->trace_starts[row];
    const uint64_t end = config->trace_starts[row + 1];
    if (!(config->trace_times_s[row] - config->trace_times_s[0] <= TRACE_SECONDS_MAX))
      return busq_error(BUSQ_INVALID, "message %llu of the trace comes at %g s: expected a time up to %d s after the first",
                        (unsigned long long)row, config->trace_times_s[row], TRACE_SECONDS_MAX);
    if (!(config->trace_times_s[row] - config->trace_times_s[row ? row - 1 : 0] >= 0))
      return busq_error(BUSQ_INVALID, "message %llu of the trace comes before the one before it", (unsigned long long)row);
    if (config->trace_senders[row] >= config->processes || begin >= end || end > config->trace_starts[config->n_trace])
      return busq_error(BUSQ_INVALID, "message %llu of the trace has no sender among %u processes, or no destination",
                        (unsigned long long)row, config->processes);
    const int result = check_recipients(config, row, last_rows);
    if (result != BUSQ_OK)
      return result;
  }
  return BUSQ_OK;
}

/* Sorts the rows of the trace by their senders. */
static int init_trace(busq_sim_programs *programs)
{
  const busq_sim_config *config = programs->config;
  uint64_t *last_rows = calloc(config->processes, sizeof *last_rows);
  const int result = last_rows ? check_trace(config, last_rows) : busq_error(BUSQ_NO_SPACE, "no memory for a trace");
  free(last_rows);
  if (result != BUSQ_OK)
    return result;
  programs->rows_start = calloc((size_t)config->processes + 1, sizeof *programs->rows_start);
  programs->rows = malloc((config->n_trace + 1) * sizeof *programs->rows);
  if (!programs->rows_start || !programs->rows)
    return busq_error(BUSQ_NO_SPACE, "no memory for a trace of %llu messages", (unsigned long long)config->n_trace);
  uint64_t *starts = programs->rows_start;
  for (uint64_t row = 0; row < config->n_trace; row++)
    starts[config->trace_senders[row] + 1]++;
  for (uint32_t process = 0; process < config->processes; process++)
    starts[process + 1] += starts[process];
  for (uint64_t row = config->n_trace; row > 0; row--)
    programs->rows[--starts[config->trace_senders[row - 1] + 1]] = row - 1;
  /* Each start has moved to the beginning of its process, and stands one place too far. */
  memmove(starts, starts + 1, config->processes * sizeof *starts);
  starts[config->processes] = config->n_trace;
  return BUSQ_OK;
}

/* The progress of the players of a trace. */
typedef struct {
  uint64_t *places; /* sends that are done */
  uint32_t *delivered;
  uint32_t *ready; /* processes that may be able to go on; each at most once */
  bool *is_ready;
  uint32_t n_ready;
} trace_play;

static void wake(trace_play *play, uint32_t process)
{
  if (!play->is_ready[process])
    play->ready[play->n_ready++] = process;
  play->is_ready[process] = true;
}

/* Lets a process send what it can.  Messages arrive at once. */
static void go_on(const busq_sim_programs *programs, trace_play *play, uint32_t process)
{
  const busq_sim_config *config = programs->config;
  const uint64_t *rows = &programs->rows[programs->rows_start[process]];
  const uint64_t n_rows = programs->rows_start[process + 1] - programs->rows_start[process];
  uint64_t *place = &play->places[process];
  for (; *place < n_rows && config->trace_afters[rows[*place]] <= play->delivered[process]; ++*place) {
    const uint64_t row = rows[*place];
    for (uint64_t at = config->trace_starts[row]; at < config->trace_starts[row + 1]; at++) {
      play->delivered[config->trace_recipients[at]]++;
      wake(play, config->trace_recipients[at]);
    }
  }
}

static int play_trace(const busq_sim_programs *programs, trace_play *play)
{
  const busq_sim_config *config = programs->config;
  if (!play->places || !play->delivered || !play->ready || !play->is_ready)
    return busq_error(BUSQ_NO_SPACE, "no memory for a trace");
  for (uint32_t process = 0; process < config->processes; process++)
    wake(play, process);
  while (play->n_ready) {
    const uint32_t process = play->ready[--play->n_ready];
    play->is_ready[process] = false;
    go_on(programs, play, process);
  }
  for (uint32_t process = 0; process < config->processes; process++) {
    const uint64_t at = programs->rows_start[process] + play->places[process];
    if (at < programs->rows_start[process + 1])
      return busq_error(BUSQ_INVALID,
                        "message %llu of the trace waits until its sender has received %u: it never gets more than %u before",
                        (unsigned long long)programs->rows[at], config->trace_afters[programs->rows[at]],
                        play->delivered[process]);
  }
  return BUSQ_OK;
}

/* Refuses a trace whose sends wait for each other in a circle, or for more than there is. */
static int check_afters(const busq_sim_programs *programs)
{
  const uint32_t n = programs->config->processes;
  trace_play play = {
      .places = calloc(n, sizeof *play.places),
      .delivered = calloc(n, sizeof *play.delivered),
      .ready = calloc(n, sizeof *play.ready),
      .is_ready = calloc(n, sizeof *play.is_ready),
  };
  const int result = play_trace(programs, &play);
  free(play.places);
  free(play.delivered);
  free(play.ready);
  free(play.is_ready);
  return result;
}

/* ---- drawing ---- */

/* Two groups to draw from, one behind the other in candidates: hotspots and the rest.  The sender and every
 * process that is drawn move behind the end of their group. */
typedef struct {
  uint32_t begin;
  uint32_t n;
} pot;

static uint32_t take(uint32_t *candidates, pot *from, uint32_t place)
{
  const uint32_t taken = candidates[place], end = from->begin + --from->n;
  candidates[place] = candidates[end];
  candidates[end] = taken;
  return taken;
}

/* The one destination of a send: what draw_several would take first. */
static uint32_t draw_one(const busq_sim_programs *programs, uint32_t process, uint32_t place)
{
  const busq_sim_config *config = programs->config;
  busq_prng prng = busq_prng_of(config->seed, DESTINATIONS, process, place);
  const uint32_t n_hot = programs->n_hot;
  pot pots[2] = {{0, n_hot}, {n_hot, config->processes - n_hot}};
  pots[process >= n_hot].n--;
  const bool is_hot = n_hot && busq_prng_uniform(&prng) < config->hotspot_draw;
  const pot *from = pots[!is_hot].n ? &pots[!is_hot] : &pots[is_hot];
  const uint32_t drawn = from->begin + busq_prng_below(&prng, from->n);
  return drawn == process ? from->begin + from->n : drawn;
}

static void draw_several(busq_sim_programs *programs, uint32_t process, uint32_t place, uint32_t *chosen)
{
  const busq_sim_config *config = programs->config;
  busq_prng prng = busq_prng_of(config->seed, DESTINATIONS, process, place);
  uint32_t *candidates = programs->candidates;
  const uint32_t n_hot = programs->n_hot;
  pot pots[2] = {{0, n_hot}, {n_hot, config->processes - n_hot}};
  take(candidates, &pots[process >= n_hot], process);
  for (uint32_t k = 0; k < config->fan_out; k++) {
    const bool is_hot = n_hot && busq_prng_uniform(&prng) < config->hotspot_draw;
    pot *from = &pots[!is_hot];
    if (!from->n)
      from = &pots[is_hot];
    chosen[k] = take(candidates, from, from->begin + busq_prng_below(&prng, from->n));
  }
  /* A process out of place was taken, or exchanged with one that was: each stands at a place that was given up or
   * taken from. */
  candidates[process] = process;
  for (uint32_t k = 0; k < config->fan_out; k++)
    candidates[chosen[k]] = chosen[k];
  for (uint32_t at = pots[0].n; at < n_hot; at++)
    candidates[at] = at;
  for (uint32_t at = n_hot + pots[1].n; at < config->processes; at++)
    candidates[at] = at;
}

/* The processes that follow this one, in a circle of `n`. */
static void follow(uint32_t first, uint32_t n, uint32_t fan_out, uint32_t *chosen)
{
  for (uint32_t k = 0; k < fan_out; k++)
    chosen[k] = (first + k) % n;
}

/* ---- programs ---- */

/* The name of a process of the order in the programs, and the other way round: two of them have changed places. */
static uint32_t renamed(const busq_sim_programs *programs, uint32_t process)
{
  const uint32_t coordinator = programs->config->coordinator;
  if (BUSQ_LIKELY(!coordinator))
    return process;
  return process == 0 ? coordinator : process == coordinator ? 0 : process;
}

static int init_afters(busq_sim_programs *programs)
{
  const busq_sim_config *config = programs->config;
  programs->has_afters = config->workload == BUSQ_SIM_TRACE ? config->trace_afters != NULL : config->dependent_share > 0;
  if (!programs->has_afters)
    return BUSQ_OK;
  if (config->workload == BUSQ_SIM_TRACE)
    return check_afters(programs);
  programs->addressed = calloc((size_t)config->processes * config->messages_per_process, sizeof *programs->addressed);
  return programs->addressed ? BUSQ_OK : busq_error(BUSQ_NO_SPACE, "no memory for the programs of %u processes", config->processes);
}

int busq_sim_programs_init(busq_sim_programs *programs, const busq_sim_config *config)
{
  *programs = (busq_sim_programs){.config = config};
  if (config->workload == BUSQ_SIM_HOTSPOT || config->workload == BUSQ_SIM_CLIENT_SERVER)
    programs->n_hot = (uint32_t)(config->hotspot_share * config->processes + 0.5);
  if (config->workload == BUSQ_SIM_CLIENT_SERVER)
    programs->n_hot += !programs->n_hot;
  programs->candidates = malloc(config->processes * sizeof *programs->candidates);
  if (!programs->candidates)
    return busq_error(BUSQ_NO_SPACE, "no memory for the programs of %u processes", config->processes);
  for (uint32_t process = 0; process < config->processes; process++)
    programs->candidates[process] = process;
  const int result = config->workload == BUSQ_SIM_TRACE ? init_trace(programs) : BUSQ_OK;
  return result == BUSQ_OK ? init_afters(programs) : result;
}

void busq_sim_programs_deinit(busq_sim_programs *programs)
{
  free(programs->candidates);
  free(programs->rows_start);
  free(programs->rows);
  free(programs->addressed);
}

bool busq_sim_programs_answers(const busq_sim_programs *programs, uint32_t process)
{
  return programs->config->workload == BUSQ_SIM_CLIENT_SERVER && renamed(programs, process) < programs->n_hot;
}

uint64_t busq_sim_programs_sends(const busq_sim_programs *programs, uint32_t process)
{
  const uint32_t name = renamed(programs, process);
  if (programs->config->workload == BUSQ_SIM_TRACE)
    return programs->rows_start[name + 1] - programs->rows_start[name];
  return busq_sim_programs_answers(programs, process) ? 0 : programs->config->messages_per_process;
}

uint64_t busq_sim_programs_time(const busq_sim_programs *programs, uint32_t process, uint32_t place)
{
  const busq_sim_config *config = programs->config;
  process = renamed(programs, process);
  if (config->workload == BUSQ_SIM_TRACE) {
    const uint64_t row = programs->rows[programs->rows_start[process] + place];
    return (uint64_t)((config->trace_times_s[row] - config->trace_times_s[0]) * 1e9 + 0.5);
  }
  uint64_t start_ns = 0;
  if (config->is_staggered) {
    busq_prng prng = busq_prng_of(config->seed, STARTS, process, 0);
    start_ns = (uint64_t)(busq_prng_uniform(&prng) * (double)config->interval_ns);
  }
  return start_ns + place * config->interval_ns;
}

static busq_sim_send send_of_trace(const busq_sim_programs *programs, uint32_t process, uint32_t place)
{
  const busq_sim_config *config = programs->config;
  const uint64_t row = programs->rows[programs->rows_start[process] + place];
  const uint64_t start = config->trace_starts[row];
  return (busq_sim_send){
      .destinations = &config->trace_recipients[start],
      .n_destinations = (uint32_t)(config->trace_starts[row + 1] - start),
      .payload_bytes = (uint32_t)config->trace_sizes_bytes[row],
  };
}

/* ---- sends that wait for deliveries ---- */

static void count_addressed(busq_sim_programs *programs, uint32_t process, uint32_t place)
{
  const uint32_t n_rounds = programs->config->messages_per_process;
  if (place + 1 < n_rounds)
    programs->addressed[(size_t)process * n_rounds + place + 1]++;
}

void busq_sim_programs_count(busq_sim_programs *programs, uint32_t process, uint32_t place, const busq_sim_send *send)
{
  for (uint32_t k = 0; k < send->n_destinations; k++) {
    count_addressed(programs, send->destinations[k], place);
    if (busq_sim_programs_answers(programs, send->destinations[k]))
      count_addressed(programs, process, place);
  }
}

void busq_sim_programs_counted(busq_sim_programs *programs)
{
  const uint32_t n_rounds = programs->config->messages_per_process;
  for (uint32_t process = 0; programs->addressed && process < programs->config->processes; process++)
    for (uint32_t round = 1; round < n_rounds; round++)
      programs->addressed[(size_t)process * n_rounds + round] += programs->addressed[(size_t)process * n_rounds + round - 1];
}

uint32_t busq_sim_programs_after(const busq_sim_programs *programs, uint32_t process, uint32_t place)
{
  const busq_sim_config *config = programs->config;
  const uint32_t name = renamed(programs, process);
  if (!programs->has_afters || busq_sim_programs_answers(programs, process))
    return 0;
  if (config->workload == BUSQ_SIM_TRACE)
    return config->trace_afters[programs->rows[programs->rows_start[name] + place]];
  busq_prng prng = busq_prng_of(config->seed, AFTERS, name, place);
  const bool is_dependent = busq_prng_uniform(&prng) < config->dependent_share;
  return is_dependent ? programs->addressed[(size_t)process * config->messages_per_process + place] : 0;
}

/* ---- sends ---- */

/* The send of a process, both by their names in the programs. */
static busq_sim_send send_of(busq_sim_programs *programs, uint32_t process, uint32_t place, uint32_t *room)
{
  const busq_sim_config *config = programs->config;
  const uint32_t n = config->processes;
  if (config->workload == BUSQ_SIM_TRACE)
    return send_of_trace(programs, process, place);
  if (config->workload == BUSQ_SIM_CLIENT_SERVER)
    follow(process, programs->n_hot, config->fan_out, room);
  else if (config->fan_out == n - 1 || config->workload == BUSQ_SIM_RING) /* with all, nothing is drawn */
    follow(process + 1, n, config->fan_out, room);
  else if (config->fan_out == 1)
    room[0] = draw_one(programs, process, place);
  else
    draw_several(programs, process, place, room);
  return (busq_sim_send){room, config->fan_out, config->payload_bytes};
}

busq_sim_send busq_sim_programs_send(busq_sim_programs *programs, uint32_t process, uint32_t place, uint32_t *room)
{
  if (BUSQ_LIKELY(!programs->config->coordinator))
    return send_of(programs, process, place, room);
  busq_sim_send send = send_of(programs, renamed(programs, process), place, room);
  for (uint32_t k = 0; k < send.n_destinations; k++)
    room[k] = renamed(programs, send.destinations[k]);
  send.destinations = room;
  return send;
}

bool busq_sim_programs_job(const busq_sim_programs *programs, uint32_t process, uint32_t place, uint64_t *duration_nsp)
{
  const busq_sim_config *config = programs->config;
  if (config->job_share <= 0)
    return false;
  busq_prng prng = busq_prng_of(config->seed, JOBS, renamed(programs, process), place);
  if (busq_prng_uniform(&prng) >= config->job_share)
    return false;
  double duration_ns = config->job_mean_ns;
  if (config->job_spread_ns > 0)
    duration_ns += config->job_spread_ns * busq_prng_normal(&prng);
  *duration_nsp = duration_ns > 0 ? (uint64_t)(duration_ns + 0.5) : 0;
  return true;
}
