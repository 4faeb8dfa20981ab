/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/simulation.h"
#include "base/error.h"
#include "base/growing.h"

/* The name of the multicast that the message is, or is a copy of. */
static uint64_t whole_of(const busq_sim *sim, uint64_t message)
{
  return busq_message_name(busq_message_origin(message), busq_sim_sent_of(sim, message)->place + 1);
}

/* ---- records ---- */

static int record(busq_sim *sim, busq_sim_event event)
{
  if (!busq_reserve_long(&sim->records, &sim->records_capacity, sim->n_records + UINT64_C(1), sizeof *sim->records))
    return busq_error(BUSQ_NO_SPACE, "no memory to record more than %zu events: record a shorter run", sim->n_records);
  if (event.message)
    event.send = whole_of(sim, event.message);
  sim->records[sim->n_records++] = event;
  return BUSQ_OK;
}

int busq_sim_record(busq_sim *sim, uint64_t time_ns, uint32_t process, uint32_t kind, uint64_t message)
{
  if (!sim->config.is_recorded)
    return BUSQ_OK;
  return record(sim, (busq_sim_event){.time_ns = time_ns,
                                      .message = message,
                                      .process = process,
                                      .kind = kind,
                                      .packet = UINT32_MAX,
                                      .what = UINT32_MAX,
                                      .peer = UINT32_MAX});
}

int busq_sim_record_effect(busq_sim *sim, uint32_t process, uint32_t kind, const busq_order_effect *effect)
{
  const int result = busq_sim_record(sim, sim->now_ns, process, kind, effect->packet.message);
  if (result == BUSQ_OK && sim->config.is_recorded)
    sim->records[sim->n_records - 1].note = effect->packet.note;
  return result;
}

int busq_sim_record_packet(busq_sim *sim, uint32_t process, uint32_t kind, const busq_order_packet *packet, uint32_t number,
                           uint32_t peer)
{
  if (!sim->config.is_recorded)
    return BUSQ_OK;
  return record(sim, (busq_sim_event){.time_ns = sim->now_ns,
                                      .message = packet->message,
                                      .process = process,
                                      .kind = kind,
                                      .packet = number,
                                      .what = packet->kind,
                                      .peer = peer});
}

int busq_sim_record_learning(busq_sim *sim, uint32_t process, uint32_t dead)
{
  const int result = busq_sim_record(sim, sim->now_ns, process, BUSQ_SIM_LEARN, 0);
  if (result == BUSQ_OK && sim->config.is_recorded)
    sim->records[sim->n_records - 1].peer = dead;
  return result;
}

int busq_sim_record_sending(busq_sim *sim, const busq_order_packet *packet, uint32_t to, uint32_t first_number)
{
  uint32_t place = 0;
  int result = BUSQ_OK;
  for (uint32_t number = first_number; sim->config.is_recorded && result == BUSQ_OK; number++) {
    const uint32_t target = busq_sim_network_target(&sim->network, packet, to, &place);
    if (target == UINT32_MAX)
      break;
    result = busq_sim_record_packet(sim, packet->from, BUSQ_SIM_SEND, packet, number, target);
  }
  return result;
}

const busq_sim_event *busq_sim_events(const busq_sim *sim, size_t *countp)
{
  *countp = sim->n_records;
  return sim->records;
}

/* ---- histories ---- */

static int tell_whole_sent(busq_sim *sim, uint64_t message)
{
  const uint32_t origin = busq_message_origin(message);
  busq_sim_process *process = &sim->processes[origin];
  busq_sim_sent *first = &process->sent[busq_sim_sent_of(sim, message)->first - 1];
  if (first->is_told)
    return BUSQ_OK;
  first->is_told = 1;
  if (busq_sim_programs_answers(&sim->programs, origin)) {
    const uint32_t client = process->requests[first->place].client;
    return busq_history_send(sim->config.wholes, origin, whole_of(sim, message), &client, 1);
  }
  const busq_sim_send send = busq_sim_programs_send(&sim->programs, origin, first->place, sim->rooms[2]);
  return busq_history_send(sim->config.wholes, origin, whole_of(sim, message), send.destinations, send.n_destinations);
}

int busq_sim_tell_sent(busq_sim *sim, uint64_t message)
{
  const busq_message_facts *facts = busq_messages_find(&sim->messages, message);
  int result = BUSQ_OK;
  if (sim->config.copies)
    result = busq_history_send(sim->config.copies, busq_message_origin(message), message,
                               busq_messages_destinations(&sim->messages, message, facts), facts->n_destinations);
  return result == BUSQ_OK && sim->config.wholes ? tell_whole_sent(sim, message) : result;
}

int busq_sim_tell_delivered(busq_sim *sim, uint32_t process, uint64_t message)
{
  int result = BUSQ_OK;
  if (sim->config.copies)
    result = busq_history_deliver(sim->config.copies, process, message);
  if (result == BUSQ_OK && sim->config.wholes)
    result = busq_history_deliver(sim->config.wholes, process, whole_of(sim, message));
  return result;
}

int busq_sim_destinations(const busq_sim *sim, uint64_t message, const uint32_t **destinationsp, uint32_t *countp)
{
  const busq_message_facts *facts = message ? busq_messages_find(&sim->messages, message) : NULL;
  if (!facts)
    return busq_error(BUSQ_INVALID, "there is no message %llu", (unsigned long long)message);
  *destinationsp = busq_messages_destinations(&sim->messages, message, facts);
  *countp = facts->n_destinations;
  return BUSQ_OK;
}

/* ---- figures ---- */

static void find_busiest(const busq_sim *sim, busq_sim_facts *facts)
{
  const busq_sim_uplink *up = sim->network.uplinks;
  const busq_sim_downlink *down = sim->network.downlinks;
  for (uint32_t number = 1; number < sim->config.processes; number++) {
    facts->uplink_busiest = up[number].bytes > up[facts->uplink_busiest].bytes ? number : facts->uplink_busiest;
    facts->downlink_busiest = down[number].bytes > down[facts->downlink_busiest].bytes ? number : facts->downlink_busiest;
  }
  facts->uplink_busiest_bytes = up[facts->uplink_busiest].bytes;
  facts->downlink_busiest_bytes = down[facts->downlink_busiest].bytes;
}

void busq_sim_examine(const busq_sim *sim, busq_sim_facts *facts)
{
  *facts = sim->facts;
  facts->now_ns = sim->now_ns;
  facts->latency_mean_ns = busq_sim_mean(sim->latencies.sum_ns, sim->latencies.n);
  facts->job_start_mean_ns = busq_sim_mean(sim->job_start_sum_ns, sim->facts.jobs);
  facts->job_wait_mean_ns = busq_sim_mean(sim->job_wait_sum_ns, sim->facts.jobs);
  facts->latency_max_ns = sim->latencies.max_ns;
  facts->latency_p50_ns = busq_sim_latencies_quantile(&sim->latencies, 50);
  facts->latency_p99_ns = busq_sim_latencies_quantile(&sim->latencies, 99);
  facts->packets_lost = sim->network.n_lost;
  facts->packets_doubled = sim->network.n_doubled;
  facts->n_kinds = sim->order->n_kinds;
  facts->is_finished = sim->agenda.n == 0 && !sim->counts;
  find_busiest(sim, facts);
  for (uint32_t number = 0; number < sim->config.processes; number++) {
    const busq_sim_process *process = &sim->processes[number];
    if (process->is_dead)
      continue;
    const uint32_t left = process->n_sends - process->place;
    facts->unsent += left + process->n_sent - process->n_begun;
    if (process->state)
      facts->waits += left + process->n_sent - process->n_done + busq_order_look(sim->order, process->state).held;
    if (process->is_secret)
      facts->secret_ns += sim->now_ns - process->secret_since_ns;
  }
}

int busq_sim_examine_death(const busq_sim *sim, uint32_t process, uint64_t *died_nsp)
{
  if (process >= sim->config.processes || !sim->processes[process].is_dead)
    return BUSQ_EMPTY;
  *died_nsp = sim->processes[process].died_ns;
  return BUSQ_OK;
}

int busq_sim_examine_kind(const busq_sim *sim, uint32_t kind, const char **namep, uint64_t *packetsp, uint64_t *bytesp)
{
  if (kind >= sim->order->n_kinds)
    return BUSQ_EMPTY;
  *namep = sim->order->kinds[kind].name;
  *packetsp = sim->network.traffic[kind].packets;
  *bytesp = sim->network.traffic[kind].bytes;
  return BUSQ_OK;
}
