/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/deaths.h"
#include "base/error.h"
#include "base/prng.h"

enum { NOTICES = 6 }; /* the use of a random stream; sim/workload.c and sim/network.c have others */

static int out_of_memory(void)
{
  return busq_error(BUSQ_NO_SPACE, "no memory for deaths: use fewer processes or messages");
}

/* ---- dying ---- */

int busq_sim_plan_deaths(busq_sim *sim)
{
  const busq_sim_config *config = &sim->config;
  const size_t n = config->processes;
  if (config->n_crashes >= n)
    return busq_error(BUSQ_INVALID, "%u of %u processes die: expected one to live", config->n_crashes, config->processes);
  if (config->n_crashes && config->faults.lets_copies_pass)
    return busq_error(BUSQ_INVALID, "copies that pass, and processes that die: nothing of the dead may come twice");
  for (uint32_t place = 0; place < config->n_crashes; place++) {
    const busq_sim_crash *crash = &config->crashes[place];
    if (crash->process >= n)
      return busq_error(BUSQ_INVALID, "process %u dies: there are %u", crash->process, config->processes);
    if (!busq_sim_agenda_push(&sim->agenda, crash->at_ns, (uint32_t)BUSQ_SIM_AT_CRASH << BUSQ_SIM_AT_SHIFT | place))
      return out_of_memory();
  }
  if (!config->n_crashes || !(sim->options & BUSQ_OPTION_GO_ON))
    return BUSQ_OK;
  sim->in_flight = calloc(n * n, sizeof *sim->in_flight);
  return sim->in_flight ? BUSQ_OK : out_of_memory();
}

static int announce(busq_sim *sim, uint32_t dead)
{
  for (uint32_t number = 0; sim->in_flight && number < sim->config.processes; number++) {
    busq_prng prng = busq_prng_of(sim->config.seed, NOTICES, dead, number);
    const uint64_t at_ns = sim->now_ns + (uint64_t)(busq_prng_uniform(&prng) * (double)sim->config.notice_ns);
    const uint32_t what = (uint32_t)BUSQ_SIM_AT_NOTICE << BUSQ_SIM_AT_SHIFT | dead << 5 | number;
    if (!sim->processes[number].is_dead && !busq_sim_agenda_push(&sim->agenda, at_ns, what))
      return out_of_memory();
  }
  return BUSQ_OK;
}

/* Jobs are counted and recorded when they are caused: those that have not begun never do, and the one at work ends now. */
static void cut_jobs(busq_sim *sim, uint32_t number)
{
  busq_sim_process *process = &sim->processes[number];
  for (; process->n_jobs && process->jobs[process->n_jobs - 1].start_ns > sim->now_ns; process->n_jobs--) {
    sim->facts.jobs--;
    sim->job_start_sum_ns -= process->jobs[process->n_jobs - 1].start_ns;
    sim->job_wait_sum_ns -= process->jobs[process->n_jobs - 1].wait_ns;
  }
  size_t n_kept = 0;
  for (size_t place = 0; place < sim->n_records; place++) {
    busq_sim_event event = sim->records[place];
    const bool is_later = event.process == number && event.time_ns > sim->now_ns;
    if (is_later && (event.kind == BUSQ_SIM_JOB || sim->records[place - 1].time_ns > sim->now_ns))
      continue; /* the end of a job follows its beginning */
    event.time_ns = is_later ? sim->now_ns : event.time_ns;
    sim->records[n_kept++] = event;
  }
  sim->n_records = n_kept;
}

int busq_sim_die(busq_sim *sim, uint32_t number)
{
  busq_sim_process *process = &sim->processes[number];
  process->is_dead = true;
  process->died_ns = sim->now_ns;
  process->inbox.head = process->inbox.n = 0;
  if (process->is_secret)
    sim->facts.secret_ns += sim->now_ns - process->secret_since_ns;
  cut_jobs(sim, number);
  const int result = busq_sim_record(sim, sim->now_ns, number, BUSQ_SIM_DIE, 0);
  return result == BUSQ_OK ? announce(sim, number) : result;
}

int busq_sim_meet_death(busq_sim *sim, uint32_t place)
{
  const busq_sim_crash *crash = &sim->config.crashes[place];
  busq_sim_process *process = &sim->processes[crash->process];
  if (process->is_dead || process->is_doomed)
    return BUSQ_OK;
  if (!crash->effects)
    return busq_sim_die(sim, crash->process);
  process->is_doomed = true;
  process->units = crash->effects;
  return BUSQ_OK;
}

/* ---- what the dead have sent ---- */

int busq_sim_send_one_by_one(busq_sim *sim, const busq_order_packet *packet, uint32_t to, uint32_t bytes)
{
  busq_sim_process *process = &sim->processes[packet->from];
  uint32_t place = 0, target, n_targets;
  int result = BUSQ_OK;
  while (result == BUSQ_OK && !(process->is_doomed && !process->units)) {
    const uint32_t number = sim->network.n_packets;
    target = busq_sim_network_target(&sim->network, packet, to, &place);
    if (target == UINT32_MAX)
      break;
    result = busq_sim_network_send(&sim->network, sim->now_ns, packet, target, bytes, &n_targets);
    if (sim->in_flight)
      sim->in_flight[packet->from * sim->config.processes + target]++;
    process->units -= process->is_doomed;
    if (result == BUSQ_OK)
      result = busq_sim_record_sending(sim, packet, target, number);
  }
  return result;
}

bool busq_sim_take_notice(busq_sim *sim, uint32_t number, uint32_t dead)
{
  busq_sim_process *process = &sim->processes[number];
  const bool takes = process->due >> dead & 1 && !sim->in_flight[dead * sim->config.processes + number];
  process->due &= takes ? ~(1u << dead) : UINT32_MAX;
  return takes;
}
