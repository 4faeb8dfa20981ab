/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/growing.h"
#include "base/time.h"
#include "sim/deaths.h"
#include "sim/simulation.h"

enum {
  EFFECTS_MAX = 64,
  EVENTS_PER_LOOK = 64, /* at the clock, to see whether the slice is over */
  SENDS_PER_LOOK = 256, /* likewise, while sends are counted */
  PROCESSES_MAX = 65536,
  BYTES_MAX = 1 << 30 /* of a payload, a header, a control packet, a clock: their sum fits into 32 bits */
};

static int out_of_memory(const busq_sim *sim)
{
  return busq_error(BUSQ_NO_SPACE, "no memory to simulate %u processes under %s: use fewer processes or messages",
                    sim->config.processes, sim->order->name);
}

static int schedule(busq_sim *sim, uint32_t at, uint64_t time_ns, uint32_t process)
{
  return busq_sim_agenda_push(&sim->agenda, time_ns, at << BUSQ_SIM_AT_SHIFT | process) ? BUSQ_OK : out_of_memory(sim);
}

static int too_late(const busq_sim *sim)
{
  return busq_error(BUSQ_INVALID, "the simulation under %s comes to more than 146 years: use more bandwidth, shorter delays or jobs",
                    sim->order->name);
}

/* ---- building ---- */

static int check_config(const busq_sim_config *config)
{
  const bool is_trace = config->workload == BUSQ_SIM_TRACE;
  if (config->processes < 1 || config->processes > PROCESSES_MAX)
    return busq_error(BUSQ_INVALID, "%u processes: expected 1 to %d", config->processes, PROCESSES_MAX);
  if (!is_trace && (config->fan_out < 1 || config->fan_out >= config->processes))
    return busq_error(BUSQ_INVALID, "%u destinations per message: expected 1 to %u, the other processes", config->fan_out,
                      config->processes - 1);
  if (config->payload_bytes > BYTES_MAX || config->header_bytes > BYTES_MAX || config->control_bytes > BYTES_MAX)
    return busq_error(BUSQ_INVALID, "packets of more than %d bytes", BYTES_MAX);
  for (uint64_t row = 0; is_trace && row < config->n_trace; row++)
    if (config->trace_sizes_bytes[row] > BYTES_MAX)
      return busq_error(BUSQ_INVALID, "message %llu of the trace has %llu bytes: expected up to %d", (unsigned long long)row,
                        (unsigned long long)config->trace_sizes_bytes[row], BYTES_MAX);
  if (!(config->bandwidth_bytes_per_s > 0))
    return busq_error(BUSQ_INVALID, "a bandwidth of %g bytes/s: expected more than 0", config->bandwidth_bytes_per_s);
  if (!(config->downlink_bytes_per_s >= 0))
    return busq_error(BUSQ_INVALID, "downlinks of %g bytes/s: expected more than 0, or 0 for no limit", config->downlink_bytes_per_s);
  if (config->coordinator >= config->processes)
    return busq_error(BUSQ_INVALID, "process %u as the coordinator: there are %u", config->coordinator, config->processes);
  if (config->workload > BUSQ_SIM_TRACE)
    return busq_error(BUSQ_INVALID, "there is no workload %u", config->workload);
  return BUSQ_OK;
}

/* The clock that a packet with a payload carries: bytes, or UINT32_MAX where they are too many.  Of a list, the most. */
static uint32_t clock_bytes(const busq_sim *sim)
{
  const uint64_t n = sim->config.processes;
  const uint64_t entries = sim->order->clock == BUSQ_CLOCK_MATRIX ? n * n : busq_clock_words(sim->order->clock, n);
  const uint64_t bytes = entries * sim->config.clock_entry_bytes;
  return bytes <= BYTES_MAX ? (uint32_t)bytes : UINT32_MAX;
}

/* Counts a send: as many messages as the order sees, and what it sends to others. */
static void count_send(busq_sim *sim, uint32_t number, const busq_sim_send *send)
{
  busq_sim_count *counts = sim->counts;
  counts[number].own += sim->is_point_to_point ? send->n_destinations : 1;
  for (uint32_t k = 0; k < send->n_destinations; k++) {
    busq_sim_count *receiver = &counts[send->destinations[k]];
    receiver->others++;
    if (!busq_sim_programs_answers(&sim->programs, send->destinations[k]))
      continue;
    receiver->own++;
    counts[number].others++;
    sim->n_messages++; /* the answer */
  }
  sim->n_messages += sim->is_point_to_point ? send->n_destinations : 1;
  sim->n_copies += send->n_destinations;
}

/* Counts what each process may send and get, until all is counted or the time is over. */
static int count_sends(busq_sim *sim, uint64_t end_ns)
{
  for (; sim->n_counted < sim->config.processes; sim->n_counted++) {
    busq_sim_process *process = &sim->processes[sim->n_counted];
    const uint64_t n_sends = busq_sim_programs_sends(&sim->programs, sim->n_counted);
    if (n_sends > UINT32_MAX / 2)
      return busq_error(BUSQ_INVALID, "%llu sends of one process are too many", (unsigned long long)n_sends);
    process->n_sends = (uint32_t)n_sends;
    for (; process->place < process->n_sends; process->place++) {
      if (process->place % SENDS_PER_LOOK == SENDS_PER_LOOK - 1 && busq_time_now_ns() >= end_ns)
        end_ns = 0;
      const busq_sim_send send = busq_sim_programs_send(&sim->programs, sim->n_counted, process->place, sim->rooms[0]);
      count_send(sim, sim->n_counted, &send);
      if (sim->programs.addressed)
        busq_sim_programs_count(&sim->programs, sim->n_counted, process->place, &send);
      if (sim->n_copies > UINT32_MAX / 4)
        return busq_error(BUSQ_INVALID, "more than %u deliveries are too many", UINT32_MAX / 4);
      if (!end_ns) {
        process->place++;
        return BUSQ_INTERRUPTED;
      }
    }
    process->place = 0;
  }
  busq_sim_programs_counted(&sim->programs);
  return BUSQ_OK;
}

static int init_states(busq_sim *sim)
{
  const bool is_whole_group = sim->order->traits & BUSQ_ORDER_WHOLE_GROUP;
  const busq_sim_count *counts = sim->counts;
  const uint32_t all = (uint32_t)sim->n_messages;
  const uint32_t times = sim->config.faults.lets_copies_pass ? 2 : 1; /* that a message may come, or be answered */
  for (uint32_t number = 0; number < sim->config.processes; number++) {
    const busq_order_group group = {
        .n_processes = sim->config.processes,
        .self = number,
        .waiting_max = times * counts[number].own + 1,
        .held_max = times * (is_whole_group ? all : counts[number].own + counts[number].others) + 1,
        .options = sim->options,
        .patience_ns = sim->config.patience_ns,
    };
    sim->processes[number].state = calloc(1, busq_order_state_size(sim->order, &group));
    if (!sim->processes[number].state)
      return out_of_memory(sim);
    busq_order_init(sim->order, sim->processes[number].state, &group);
  }
  return BUSQ_OK;
}

static int schedule_next(busq_sim *sim, uint32_t number);

/* Counts, and then makes the states and schedules the first sends.  BUSQ_INTERRUPTED: not ready so far. */
static int prepare(busq_sim *sim, uint64_t end_ns)
{
  int result = count_sends(sim, end_ns);
  if (result == BUSQ_OK)
    result = busq_order_check_in_flight(sim->options, sim->n_messages);
  if (result == BUSQ_OK)
    result = init_states(sim);
  for (uint32_t number = 0; number < sim->config.processes && result == BUSQ_OK; number++)
    result = schedule_next(sim, number);
  if (result == BUSQ_OK) {
    free(sim->counts);
    sim->counts = NULL;
  }
  return result;
}

static int init(busq_sim *sim)
{
  const busq_sim_config *config = &sim->config;
  sim->is_point_to_point = sim->order->traits & BUSQ_ORDER_POINT_TO_POINT;
  sim->is_rendezvous = sim->order->traits & BUSQ_ORDER_RENDEZVOUS;
  sim->has_clock = sim->order->clock != BUSQ_CLOCK_NONE;
  sim->forgets_clocks = sim->has_clock && !(sim->options & BUSQ_OPTION_GO_ON);
  sim->clock_bytes = clock_bytes(sim);
  if (sim->clock_bytes == UINT32_MAX)
    return busq_error(BUSQ_INVALID, "the clock of %u processes does not fit into a packet", config->processes);
  if (sim->order->clock == BUSQ_CLOCK_LIST)
    sim->clock_bytes = 0; /* counted when a message is sent */
  if (config->faults.lost_share > 0 && sim->order != &busq_order_none && !(sim->options & BUSQ_OPTION_SKIP_GAPS))
    return busq_error(BUSQ_INVALID, "a network that loses packets: only none and fifo:on_gap=skip go on without, not %s",
                      config->order);
  if (config->faults.lets_copies_pass && sim->has_clock)
    return busq_error(BUSQ_INVALID, "copies that pass: %s asks for the clock of each message it receives, and forgets it",
                      sim->order->name);
  sim->effects = malloc(EFFECTS_MAX * sizeof *sim->effects);
  for (uint32_t room = 0; room < 3; room++)
    sim->rooms[room] = malloc(config->processes * sizeof *sim->rooms[room]);
  sim->processes = calloc(config->processes, sizeof *sim->processes);
  sim->counts = calloc(config->processes, sizeof *sim->counts);
  if (!sim->effects || !sim->rooms[0] || !sim->rooms[1] || !sim->rooms[2] || !sim->processes || !sim->counts)
    return out_of_memory(sim);
  int result = busq_messages_init(&sim->messages, config->processes, sim->order->clock);
  if (result == BUSQ_OK)
    result = busq_sim_programs_init(&sim->programs, config);
  if (result == BUSQ_OK)
    result = busq_sim_network_init(&sim->network, config, sim->order, sim->options, &sim->messages, &sim->agenda);
  if (result == BUSQ_OK)
    result = busq_sim_plan_deaths(sim);
  return result;
}

int busq_sim_new(const busq_sim_config *config, busq_sim **simp)
{
  uint32_t options = 0;
  int result = check_config(config);
  if (result != BUSQ_OK)
    return result;
  const busq_order *order = busq_order_parse(config->order, &options);
  if (!order)
    return BUSQ_INVALID;
  if (config->processes > busq_order_processes_max(order, options))
    return busq_error(BUSQ_INVALID, "%s: %u processes: expected at most %d", config->order, config->processes,
                      BUSQ_ORDER_MORTALS_MAX);
  busq_sim *sim = calloc(1, sizeof *sim);
  if (!sim)
    return busq_error(BUSQ_NO_SPACE, "no memory for a simulation");
  sim->config = *config;
  sim->config.order = order->name;
  if (!(order->traits & BUSQ_ORDER_COORDINATED))
    sim->config.coordinator = 0; /* no process has a name that matters */
  sim->order = order;
  sim->options = options;
  result = init(sim);
  if (result != BUSQ_OK) {
    busq_sim_free(sim);
    return result;
  }
  *simp = sim;
  return BUSQ_OK;
}

void busq_sim_free(busq_sim *sim)
{
  if (!sim)
    return;
  for (uint32_t number = 0; sim->processes && number < sim->config.processes; number++) {
    free(sim->processes[number].state);
    free(sim->processes[number].sent);
    free(sim->processes[number].requests);
    free(sim->processes[number].jobs);
    free(sim->processes[number].delivered_ns);
    free(sim->processes[number].inbox.items);
  }
  free(sim->processes);
  free(sim->counts);
  free(sim->effects);
  for (uint32_t room = 0; room < 3; room++)
    free(sim->rooms[room]);
  free(sim->in_flight);
  free(sim->records);
  free(sim->agenda.entries);
  busq_messages_deinit(&sim->messages);
  busq_sim_programs_deinit(&sim->programs);
  busq_sim_network_deinit(&sim->network);
  free(sim);
}

/* ---- effects ---- */

/* A packet brings its payload to a process that is no destination: it may ask for the clock until it drops the
 * message. */
static void hold_for_strangers(busq_sim *sim, const busq_order_effect *effect, uint32_t from)
{
  const uint64_t message = effect->packet.message;
  uint32_t n_strangers = 0;
  if (effect->to == BUSQ_TO_ALL) {
    const uint32_t n_destinations = busq_messages_find(&sim->messages, message)->n_destinations;
    n_strangers = sim->config.processes - 1 - n_destinations + busq_messages_is_for(&sim->messages, message, from);
  } else if (effect->to < sim->config.processes) {
    n_strangers = !busq_messages_is_for(&sim->messages, message, effect->to);
  }
  while (n_strangers--)
    busq_messages_hold(&sim->messages, message);
}

static int do_send(busq_sim *sim, uint32_t number, busq_order_effect *effect)
{
  const bool has_payload = sim->order->kinds[effect->packet.kind].has_payload;
  const uint32_t bytes = has_payload ? busq_sim_sent_of(sim, effect->packet.message)->bytes : sim->config.control_bytes;
  const uint32_t first_number = sim->network.n_packets;
  uint32_t n_targets;
  effect->packet.from = number;
  if (has_payload && sim->forgets_clocks)
    hold_for_strangers(sim, effect, number);
  if (BUSQ_UNLIKELY(sim->config.n_crashes))
    return busq_sim_send_one_by_one(sim, &effect->packet, effect->to, bytes);
  const int result = busq_sim_network_send(&sim->network, sim->now_ns, &effect->packet, effect->to, bytes, &n_targets);
  if (result != BUSQ_OK || !sim->config.is_recorded)
    return result;
  return busq_sim_record_sending(sim, &effect->packet, effect->to, first_number);
}

static int begin_job(busq_sim *sim, uint32_t number, uint64_t message, const busq_sim_sent *sent)
{
  busq_sim_process *process = &sim->processes[number];
  uint64_t duration_ns;
  if (!busq_sim_programs_job(&sim->programs, busq_message_origin(message), sent->place, &duration_ns))
    return BUSQ_OK;
  const uint64_t start_ns = process->busy_until_ns > sim->now_ns ? process->busy_until_ns : sim->now_ns;
  if (start_ns > BUSQ_SIM_TIME_MAX_NS)
    return too_late(sim);
  process->busy_until_ns = start_ns + duration_ns;
  if (sim->config.n_crashes) {
    if (!busq_reserve(&process->jobs, &process->jobs_capacity, process->n_jobs + UINT64_C(1), sizeof *process->jobs))
      return out_of_memory(sim);
    process->jobs[process->n_jobs++] = (busq_sim_job){start_ns, start_ns - sent->wanted_ns};
  }
  sim->facts.jobs++;
  sim->job_start_sum_ns += start_ns;
  sim->job_wait_sum_ns += start_ns - sent->wanted_ns;
  int result = busq_sim_record(sim, start_ns, number, BUSQ_SIM_JOB, message);
  if (result == BUSQ_OK)
    result = busq_sim_record(sim, process->busy_until_ns, number, BUSQ_SIM_REST, message);
  return result == BUSQ_OK ? schedule(sim, BUSQ_SIM_AT_REST, process->busy_until_ns, number) : result;
}

/* A server answers what its clients send. */
static int answer(busq_sim *sim, uint32_t number, uint32_t client)
{
  busq_sim_process *process = &sim->processes[number];
  if (!busq_sim_programs_answers(&sim->programs, number))
    return BUSQ_OK;
  if (!busq_reserve(&process->requests, &process->requests_capacity, process->n_requests + 1, sizeof *process->requests))
    return out_of_memory(sim);
  process->requests[process->n_requests++] = (busq_sim_request){.wanted_ns = sim->now_ns, .client = client};
  process->n_sends++;
  return schedule_next(sim, number);
}

/* Sends of this process may have waited for a delivery. */
static int note_delivery(busq_sim *sim, uint32_t number)
{
  busq_sim_process *process = &sim->processes[number];
  if (!busq_reserve(&process->delivered_ns, &process->delivered_capacity, process->n_delivered + 1,
                    sizeof *process->delivered_ns))
    return out_of_memory(sim);
  process->delivered_ns[process->n_delivered++] = sim->now_ns;
  return schedule_next(sim, number);
}

static int do_deliver(busq_sim *sim, uint32_t number, const busq_order_effect *effect)
{
  const uint64_t message = effect->packet.message;
  const busq_sim_sent *sent = busq_sim_sent_of(sim, message);
  sim->facts.deliveries++;
  busq_sim_latencies_add(&sim->latencies, sim->now_ns - sent->wanted_ns);
  if (sim->forgets_clocks)
    busq_messages_release(&sim->messages, message);
  int result = busq_sim_record_effect(sim, number, BUSQ_SIM_DELIVER, effect);
  if (result == BUSQ_OK)
    result = busq_sim_tell_delivered(sim, number, message);
  const bool is_passed = effect->packet.note == BUSQ_NODE_PASSED;
  if (result == BUSQ_OK && !is_passed)
    result = begin_job(sim, number, message, sent);
  if (result == BUSQ_OK && sim->programs.has_afters)
    result = note_delivery(sim, number);
  return result == BUSQ_OK && !is_passed ? answer(sim, number, busq_message_origin(message)) : result;
}

static int do_sent(busq_sim *sim, uint32_t number, const busq_order_effect *effect)
{
  sim->processes[number].n_begun++;
  if (sim->order->clock == BUSQ_CLOCK_LIST && effect->clock)
    busq_sim_sent_of(sim, effect->packet.message)->bytes += effect->clock[0] * sim->config.clock_entry_bytes;
  int result = busq_messages_set_clock(&sim->messages, effect->packet.message, effect->clock);
  if (result == BUSQ_OK)
    result = busq_sim_record_effect(sim, number, BUSQ_SIM_SENT, effect);
  return result == BUSQ_OK ? busq_sim_tell_sent(sim, effect->packet.message) : result;
}

static int do_done(busq_sim *sim, uint32_t number, uint64_t message)
{
  busq_sim_process *process = &sim->processes[number];
  process->n_done++;
  if (sim->forgets_clocks)
    busq_messages_release(&sim->messages, message);
  const int result = busq_sim_record(sim, sim->now_ns, number, BUSQ_SIM_DONE, message);
  if (result != BUSQ_OK || process->unfinished != message)
    return result;
  process->unfinished = 0;
  return schedule_next(sim, number);
}

/* Where the whole group takes part, all processes drop what is for others in its turn: nothing that a user would
 * see. */
static int do_drop(busq_sim *sim, uint32_t number, uint64_t message)
{
  if (sim->forgets_clocks)
    busq_messages_release(&sim->messages, message);
  if (!busq_messages_is_for(&sim->messages, message, number))
    return BUSQ_OK;
  sim->facts.dropped++;
  return busq_sim_record(sim, sim->now_ns, number, BUSQ_SIM_DROP, message);
}

static int perform(busq_sim *sim, uint32_t number, busq_order_effect *effect)
{
  switch (effect->kind) {
  case BUSQ_DO_SEND:
    return do_send(sim, number, effect);
  case BUSQ_DO_DELIVER:
    return do_deliver(sim, number, effect);
  case BUSQ_DO_SENT:
    return do_sent(sim, number, effect);
  case BUSQ_DO_DONE:
    return do_done(sim, number, effect->packet.message);
  case BUSQ_DO_ALARM:
    return schedule(sim, BUSQ_SIM_AT_TICK, sim->now_ns + effect->packet.stamp, number);
  case BUSQ_DO_IGNORE:
    return BUSQ_OK;
  default:
    return do_drop(sim, number, effect->packet.message);
  }
}

/* ---- steps ---- */

static int look(busq_sim *sim, uint32_t number)
{
  busq_sim_process *process = &sim->processes[number];
  const busq_order_gauge gauge = busq_order_look(sim->order, process->state);
  if (gauge.waiting > sim->facts.waiting_max)
    sim->facts.waiting_max = gauge.waiting;
  if (gauge.held > sim->facts.held_max)
    sim->facts.held_max = gauge.held;
  if (BUSQ_LIKELY(gauge.is_secret == process->is_secret))
    return BUSQ_OK;
  process->is_secret = gauge.is_secret;
  if (gauge.is_secret)
    process->secret_since_ns = sim->now_ns;
  else
    sim->facts.secret_ns += sim->now_ns - process->secret_since_ns;
  return busq_sim_record(sim, sim->now_ns, number, gauge.is_secret ? BUSQ_SIM_SECRET : BUSQ_SIM_OPEN, 0);
}

typedef struct {
  busq_sim *sim;
  uint32_t number;
} sim_step;

/* Comes before the effects, so that what a process does after its silence reads that way. */
static int look_after(void *driver, const busq_order_event *event, const busq_order_effects *effects, int result)
{
  const sim_step *step = driver;
  (void)event;
  (void)effects;
  return result == BUSQ_OK ? look(step->sim, step->number) : result;
}

static int perform_one(void *driver, busq_order_effect *effect)
{
  const sim_step *step = driver;
  step->sim->is_idle &= effect->kind == BUSQ_DO_ALARM;
  const int result = perform(step->sim, step->number, effect);
  busq_sim_process *process = &step->sim->processes[step->number];
  if (BUSQ_LIKELY(!process->is_doomed) || result != BUSQ_OK)
    return result;
  process->units -= effect->kind == BUSQ_DO_SENT || effect->kind == BUSQ_DO_DELIVER;
  return process->units ? BUSQ_OK : BUSQ_PEER_DEAD;
}

static int step(busq_sim *sim, uint32_t number, busq_order_event *event)
{
  static const busq_order_hands hands = {.stepped = look_after, .perform = perform_one};
  sim_step own = {sim, number};
  busq_order_effects effects = {.items = sim->effects, .max = EFFECTS_MAX};
  sim->is_idle = true;
  event->world = &sim->messages.world;
  const int result = busq_order_run(sim->order, sim->processes[number].state, event, &effects, &hands, &own);
  return BUSQ_LIKELY(result != BUSQ_PEER_DEAD) ? result : busq_sim_die(sim, number);
}

static int refused(const busq_sim *sim, int result, uint32_t number)
{
  if (result == BUSQ_FULL || result == BUSQ_CORRUPT)
    return busq_error(BUSQ_CORRUPT, "%s, process %u at %llu ns: the order refused an event of its own making (%s)",
                      sim->order->name, number, (unsigned long long)sim->now_ns, result == BUSQ_FULL ? "no room" : "corrupt");
  return result;
}

/* ---- submits ---- */

/* When the program wants the next send: at its time, and not before the deliveries that it waits for, of which there
 * have been enough. */
static uint64_t next_wanted_ns(const busq_sim *sim, uint32_t number, uint32_t after)
{
  const busq_sim_process *process = &sim->processes[number];
  if (busq_sim_programs_answers(&sim->programs, number))
    return process->requests[process->place].wanted_ns;
  const uint64_t time_ns = busq_sim_programs_time(&sim->programs, number, process->place);
  return after && process->delivered_ns[after - 1] > time_ns ? process->delivered_ns[after - 1] : time_ns;
}

static int schedule_next(busq_sim *sim, uint32_t number)
{
  busq_sim_process *process = &sim->processes[number];
  if (process->is_scheduled || process->unfinished || process->place == process->n_sends || process->is_dead)
    return BUSQ_OK;
  const uint32_t after = sim->programs.has_afters ? busq_sim_programs_after(&sim->programs, number, process->place) : 0;
  if (after > process->n_delivered)
    return BUSQ_OK; /* a delivery will come back to it */
  process->wanted_ns = next_wanted_ns(sim, number, after);
  process->is_scheduled = true;
  const uint64_t time_ns = process->wanted_ns > sim->now_ns ? process->wanted_ns : sim->now_ns;
  return schedule(sim, BUSQ_SIM_AT_SUBMIT, time_ns, number);
}

static busq_sim_send next_send(busq_sim *sim, uint32_t number)
{
  const busq_sim_process *process = &sim->processes[number];
  if (busq_sim_programs_answers(&sim->programs, number))
    return (busq_sim_send){&process->requests[process->place].client, 1, sim->config.payload_bytes};
  return busq_sim_programs_send(&sim->programs, number, process->place, sim->rooms[0]);
}

/* Makes a message of this send and hands it to the order. */
static int submit(busq_sim *sim, uint32_t number, const busq_sim_send *send, const uint32_t *destinations,
                  uint32_t n_destinations, uint32_t first)
{
  busq_sim_process *process = &sim->processes[number];
  busq_order_event event = {.kind = BUSQ_ON_SUBMIT, .packet.from = number};
  int result = busq_messages_add(&sim->messages, number, destinations, n_destinations, &event.packet.message);
  if (result != BUSQ_OK)
    return result;
  if (!busq_reserve(&process->sent, &process->sent_capacity, process->n_sent + 1, sizeof *process->sent))
    return out_of_memory(sim);
  process->sent[process->n_sent++] = (busq_sim_sent){
      .wanted_ns = process->wanted_ns,
      .place = process->place,
      .first = first,
      .bytes = send->payload_bytes + sim->config.header_bytes + sim->clock_bytes,
  };
  busq_messages_address(&sim->messages, sim->rooms[1], &event);
  sim->facts.messages++;
  sim->facts.copies += n_destinations;
  process->unfinished = sim->is_rendezvous ? event.packet.message : 0;
  result = busq_sim_record(sim, sim->now_ns, number, BUSQ_SIM_SUBMIT, event.packet.message);
  return result == BUSQ_OK ? refused(sim, step(sim, number, &event), number) : result;
}

/* One message of a point-to-point order for each destination; at a rendezvous, one at a time. */
static int submit_copies(busq_sim *sim, uint32_t number, const busq_sim_send *send)
{
  busq_sim_process *process = &sim->processes[number];
  uint32_t copy = process->copy;
  const uint32_t end = sim->is_rendezvous ? copy + 1 : send->n_destinations;
  int result = BUSQ_OK;
  process->copy = end < send->n_destinations ? end : 0;
  for (const uint32_t first = process->n_sent - copy + 1; copy < end && result == BUSQ_OK && !process->is_dead; copy++)
    result = submit(sim, number, send, &send->destinations[copy], 1, first);
  return result;
}

static int at_submit(busq_sim *sim, uint32_t number)
{
  busq_sim_process *process = &sim->processes[number];
  int result;
  sim->facts.execution_ns = sim->now_ns;
  if (sim->config.job_blocks_sends && process->busy_until_ns > sim->now_ns)
    return schedule(sim, BUSQ_SIM_AT_SUBMIT, process->busy_until_ns, number);
  const busq_sim_send send = next_send(sim, number);
  if (sim->is_point_to_point)
    result = submit_copies(sim, number, &send);
  else
    result = submit(sim, number, &send, send.destinations, send.n_destinations, process->n_sent + 1);
  if (!process->copy) {
    process->place++;
    sim->facts.sends++;
  }
  process->is_scheduled = false;
  return result == BUSQ_OK ? schedule_next(sim, number) : result;
}

/* ---- the loop ---- */

static int arrive(busq_sim *sim, const busq_sim_arrival *arrival)
{
  if (arrival->is_copy && !sim->config.faults.lets_copies_pass) {
    sim->facts.events--; /* for the transport, not for any other reader */
    return BUSQ_OK;
  }
  sim->facts.execution_ns = sim->facts.communication_ns = sim->now_ns;
  busq_order_event event = {.kind = BUSQ_ON_RECEIVE, .packet = arrival->packet};
  event.is_for_me = busq_messages_is_for(&sim->messages, arrival->packet.message, arrival->to);
  int result = busq_sim_record_packet(sim, arrival->to, BUSQ_SIM_RECEIVE, &arrival->packet, arrival->number,
                                      arrival->packet.from);
  if (result != BUSQ_OK)
    return result;
  result = step(sim, arrival->to, &event);
  if ((result == BUSQ_CORRUPT || result == BUSQ_FULL) && sim->config.faults.lets_copies_pass) {
    sim->facts.packets_refused++;
    return BUSQ_OK;
  }
  return refused(sim, result, arrival->to);
}

static int tick(busq_sim *sim, uint32_t number)
{
  busq_order_event event = {.kind = BUSQ_ON_TICK};
  const int result = step(sim, number, &event);
  if (!sim->is_idle)
    sim->facts.execution_ns = sim->now_ns;
  return refused(sim, result, number);
}

static int learn(busq_sim *sim, uint32_t number, uint32_t dead)
{
  busq_order_event event = {.kind = BUSQ_ON_SUSPECT, .packet.from = dead};
  int result = busq_sim_record_learning(sim, number, dead);
  if (result == BUSQ_OK)
    result = step(sim, number, &event);
  if (!sim->is_idle)
    sim->facts.execution_ns = sim->now_ns;
  return refused(sim, result, number);
}

/* Whether the process does nothing now.  What came before has its turn before what comes now. */
static bool is_away(const busq_sim *sim, uint32_t number)
{
  const busq_sim_process *process = &sim->processes[number];
  return sim->config.job_blocks_all && (process->busy_until_ns > sim->now_ns || !busq_sim_inbox_is_empty(&process->inbox));
}

static int happen(busq_sim *sim, uint32_t number, uint32_t what, const busq_sim_arrival *arrival)
{
  sim->facts.events++;
  switch (what) {
  case BUSQ_SIM_AT_ARRIVAL:
    return arrive(sim, arrival);
  case BUSQ_SIM_AT_SUBMIT:
    return at_submit(sim, number);
  case BUSQ_SIM_AT_NOTICE:
    return learn(sim, number, arrival->packet.from);
  default:
    return tick(sim, number);
  }
}

static int happen_or_wait(busq_sim *sim, uint32_t number, uint32_t what, const busq_sim_arrival *arrival)
{
  if (BUSQ_UNLIKELY(sim->processes[number].is_dead))
    return BUSQ_OK;
  if (BUSQ_LIKELY(!is_away(sim, number)))
    return happen(sim, number, what, arrival);
  return busq_sim_inbox_add(&sim->processes[number].inbox, what, arrival) ? BUSQ_OK : out_of_memory(sim);
}

/* A job is over: what waited for it happens, up to the next job. */
static int rest(busq_sim *sim, uint32_t number)
{
  busq_sim_process *process = &sim->processes[number];
  int result = BUSQ_OK;
  if (process->is_dead)
    return BUSQ_OK;
  sim->facts.events++;
  sim->facts.execution_ns = sim->now_ns;
  while (result == BUSQ_OK && process->busy_until_ns <= sim->now_ns && !busq_sim_inbox_is_empty(&process->inbox)) {
    const busq_sim_waiting waiting = busq_sim_inbox_take(&process->inbox);
    result = happen(sim, number, waiting.what, &waiting.arrival);
  }
  return result;
}

/* The process learns of a death whose notice has come, behind the last packet of the dead. */
static int learn_if_due(busq_sim *sim, uint32_t number, uint32_t dead)
{
  const busq_sim_arrival news = {.packet.from = dead, .to = number};
  return busq_sim_take_notice(sim, number, dead) ? happen_or_wait(sim, number, BUSQ_SIM_AT_NOTICE, &news) : BUSQ_OK;
}

static int come(busq_sim *sim, const busq_sim_arrival *arrival)
{
  const int result = happen_or_wait(sim, arrival->to, BUSQ_SIM_AT_ARRIVAL, arrival);
  if (BUSQ_LIKELY(!sim->in_flight) || result != BUSQ_OK || arrival->is_copy)
    return result;
  sim->in_flight[arrival->packet.from * sim->config.processes + arrival->to]--;
  return learn_if_due(sim, arrival->to, arrival->packet.from);
}

/* Lets the next thing happen.  A departure under faults is a matter of the network, and no event. */
static int next(busq_sim *sim)
{
  const busq_sim_time time = sim->agenda.entries[0];
  const uint32_t what = busq_sim_time_what(time) >> BUSQ_SIM_AT_SHIFT;
  const uint32_t whom = busq_sim_time_what(time) & ((UINT32_C(1) << BUSQ_SIM_AT_SHIFT) - 1);
  busq_sim_arrival arrival;
  int result = BUSQ_OK;
  if (BUSQ_UNLIKELY(time.time_ns > BUSQ_SIM_TIME_MAX_NS))
    return too_late(sim);
  sim->now_ns = time.time_ns;
  switch (what) {
  case BUSQ_SIM_AT_UPLINK:
  case BUSQ_SIM_AT_ARRIVAL:
    result = what == BUSQ_SIM_AT_UPLINK ? busq_sim_network_take(&sim->network, whom, &arrival)
                                        : busq_sim_network_land(&sim->network, whom, &arrival);
    if (result == BUSQ_OK)
      return come(sim, &arrival);
    return result == BUSQ_EMPTY ? BUSQ_OK : result;
  case BUSQ_SIM_AT_SUBMIT:
  case BUSQ_SIM_AT_TICK:
    busq_sim_agenda_pop(&sim->agenda);
    return happen_or_wait(sim, whom, what, NULL);
  case BUSQ_SIM_AT_CRASH:
    busq_sim_agenda_pop(&sim->agenda);
    return busq_sim_meet_death(sim, whom);
  case BUSQ_SIM_AT_NOTICE:
    busq_sim_agenda_pop(&sim->agenda);
    sim->processes[whom & 31].due |= 1u << (whom >> 5);
    return learn_if_due(sim, whom & 31, whom >> 5);
  default:
    busq_sim_agenda_pop(&sim->agenda);
    return rest(sim, whom);
  }
}

int busq_sim_advance(busq_sim *sim, uint64_t slice_ns)
{
  const uint64_t end_ns = busq_time_now_ns() + slice_ns;
  const int readiness = sim->counts ? prepare(sim, end_ns) : BUSQ_OK;
  if (readiness != BUSQ_OK)
    return readiness;
  while (sim->agenda.n) {
    for (uint32_t event = 0; event < EVENTS_PER_LOOK && sim->agenda.n; event++) {
      const int result = next(sim);
      if (result != BUSQ_OK)
        return result;
    }
    if (sim->agenda.n && busq_time_now_ns() >= end_ns)
      return BUSQ_INTERRUPTED;
  }
  return BUSQ_OK;
}
