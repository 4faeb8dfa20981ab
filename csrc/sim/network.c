/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/network.h"
#include "base/error.h"
#include "base/growing.h"

enum { FAULTS = 4, FLYING_MAX = 1 << BUSQ_SIM_AT_SHIFT };

static int out_of_memory(void)
{
  return busq_error(BUSQ_NO_SPACE, "no memory for the packets on their way: use fewer processes or messages");
}

/* ---- the network as a whole ---- */

static bool has_faults(const busq_sim_faults *faults)
{
  return faults->jitter_ns || faults->reordered_share > 0 || faults->doubled_share > 0 || faults->lost_share > 0 ||
         faults->n_partitions;
}

int busq_sim_network_init(busq_sim_network *network, const busq_sim_config *config, const busq_order *order, uint32_t options,
                          const busq_messages *messages, busq_sim_agenda *agenda)
{
  const size_t n = config->processes;
  const bool keeps_order = busq_channels_keep_order(order, options, BUSQ_CHANNELS_AS_NEEDED);
  *network = (busq_sim_network){
      .config = config,
      .messages = messages,
      .agenda = agenda,
      .n_processes = config->processes,
      .has_faults = has_faults(&config->faults),
      .ns_per_byte = 1e9 / config->bandwidth_bytes_per_s,
      .down_ns_per_byte = config->downlink_bytes_per_s > 0 ? 1e9 / config->downlink_bytes_per_s : 0,
      .prng = busq_prng_of(config->seed, FAULTS, 0, 0),
      .first_free = UINT32_MAX,
  };
  network->uplinks = calloc(n, sizeof *network->uplinks);
  network->downlinks = calloc(n, sizeof *network->downlinks);
  network->traffic = calloc(order->n_kinds, sizeof *network->traffic);
  if (network->has_faults && keeps_order)
    network->last_arrivals_ns = calloc(n * n, sizeof *network->last_arrivals_ns);
  const bool is_whole = network->last_arrivals_ns || !network->has_faults || !keeps_order;
  return network->uplinks && network->downlinks && network->traffic && is_whole ? BUSQ_OK : out_of_memory();
}

void busq_sim_network_deinit(busq_sim_network *network)
{
  for (uint32_t process = 0; network->uplinks && process < network->n_processes; process++)
    free(network->uplinks[process].ring);
  free(network->uplinks);
  free(network->downlinks);
  free(network->traffic);
  free(network->flying);
  free(network->last_arrivals_ns);
}

/* ---- receivers ---- */

uint32_t busq_sim_network_target(const busq_sim_network *network, const busq_order_packet *packet, uint32_t to,
                                 uint32_t *placep)
{
  if (to < network->n_processes)
    return (*placep)++ ? UINT32_MAX : to;
  if (to == BUSQ_TO_ALL || to == BUSQ_TO_REST) {
    uint32_t next = packet->from + ++*placep;
    next -= next < network->n_processes ? 0 : network->n_processes;
    if (to == BUSQ_TO_REST && next == busq_message_origin(packet->message) && next != packet->from)
      next = (packet->from + ++*placep) % network->n_processes;
    return *placep >= network->n_processes ? UINT32_MAX : next;
  }
  const busq_message_facts *facts = busq_messages_find(network->messages, packet->message);
  const uint32_t *list = busq_messages_destinations(network->messages, packet->message, facts);
  while (*placep < facts->n_destinations) {
    const uint32_t target = list[(*placep)++];
    if (target != packet->from)
      return target;
  }
  return UINT32_MAX;
}

static uint32_t count_targets(const busq_sim_network *network, const busq_order_packet *packet, uint32_t to)
{
  if (to < network->n_processes)
    return 1;
  if (to == BUSQ_TO_ALL || to == BUSQ_TO_REST)
    return network->n_processes - 1 - (to == BUSQ_TO_REST && busq_message_origin(packet->message) != packet->from);
  const busq_message_facts *facts = busq_messages_find(network->messages, packet->message);
  return facts->n_destinations - busq_messages_is_for(network->messages, packet->message, packet->from);
}

/* ---- uplinks ---- */

static busq_sim_sending *first_of(busq_sim_uplink *uplink)
{
  return &uplink->ring[uplink->head];
}

static bool grow(busq_sim_uplink *uplink)
{
  const uint32_t capacity = uplink->capacity ? 2 * uplink->capacity : 4;
  busq_sim_sending *ring = capacity ? malloc(capacity * sizeof *ring) : NULL;
  if (!ring)
    return false;
  for (uint32_t place = 0; place < uplink->n; place++)
    ring[place] = uplink->ring[(uplink->head + place) & (uplink->capacity - 1)];
  free(uplink->ring);
  uplink->ring = ring;
  uplink->head = 0;
  uplink->capacity = capacity;
  return true;
}

static uint64_t transfer_ns(uint32_t bytes, double ns_per_byte)
{
  const double sending_ns = bytes * ns_per_byte + 0.5;
  const uint64_t longest_ns = 2 * BUSQ_SIM_TIME_MAX_NS; /* too late in any case */
  return sending_ns < (double)longest_ns ? (uint64_t)sending_ns : longest_ns;
}

/* When the next packet of this uplink will have left, which is when the one after it may begin; and when that is of
 * interest. */
static uint64_t next_time(const busq_sim_network *network, busq_sim_uplink *uplink)
{
  const busq_sim_sending *next = first_of(uplink);
  const uint64_t begin_ns = uplink->free_ns > next->ready_ns ? uplink->free_ns : next->ready_ns;
  uplink->free_ns = begin_ns + transfer_ns(next->bytes, network->ns_per_byte);
  return uplink->free_ns + (network->has_faults ? 0 : network->config->propagation_delay_ns);
}

int busq_sim_network_send(busq_sim_network *network, uint64_t now_ns, const busq_order_packet *packet, uint32_t to,
                          uint32_t bytes, uint32_t *n_targetsp)
{
  busq_sim_uplink *uplink = &network->uplinks[packet->from];
  const uint32_t n_targets = count_targets(network, packet, to);
  *n_targetsp = n_targets;
  if (!n_targets)
    return BUSQ_OK;
  if (uplink->n == uplink->capacity && !grow(uplink))
    return out_of_memory();
  uplink->ring[(uplink->head + uplink->n++) & (uplink->capacity - 1)] = (busq_sim_sending){
      .packet = *packet, .ready_ns = now_ns, .to = to, .number = network->n_packets, .bytes = bytes};
  network->n_packets += n_targets;
  busq_sim_traffic *traffic = &network->traffic[packet->kind];
  traffic->packets += n_targets;
  traffic->bytes += (uint64_t)n_targets * bytes;
  uplink->bytes += (uint64_t)n_targets * bytes;
  if (uplink->n > 1)
    return BUSQ_OK;
  const uint32_t what = (uint32_t)BUSQ_SIM_AT_UPLINK << BUSQ_SIM_AT_SHIFT | packet->from;
  return busq_sim_agenda_push(network->agenda, next_time(network, uplink), what) ? BUSQ_OK : out_of_memory();
}

/* The receiver of the packet that is next; *is_lastp: its entry has no other. */
static uint32_t next_target(const busq_sim_network *network, busq_sim_sending *sending, bool *is_lastp)
{
  *is_lastp = true;
  if (BUSQ_LIKELY(sending->to < network->n_processes))
    return sending->to;
  const uint32_t target = busq_sim_network_target(network, &sending->packet, sending->to, &sending->place);
  uint32_t place = sending->place;
  *is_lastp = busq_sim_network_target(network, &sending->packet, sending->to, &place) == UINT32_MAX;
  return target;
}

/* Takes the packet that is next from its uplink, and puts the one after it into the heap. */
static uint64_t take(busq_sim_network *network, uint32_t process, busq_sim_arrival *arrival)
{
  busq_sim_uplink *uplink = &network->uplinks[process];
  busq_sim_sending *first = first_of(uplink);
  const uint64_t left_ns = uplink->free_ns;
  bool is_last;
  arrival->packet = first->packet;
  arrival->to = next_target(network, first, &is_last);
  arrival->number = first->number++;
  arrival->bytes = first->bytes;
  arrival->is_copy = false;
  arrival->is_through = false;
  if (is_last) {
    uplink->head = (uplink->head + 1) & (uplink->capacity - 1);
    uplink->n--;
  }
  if (uplink->n) {
    const uint32_t what = (uint32_t)BUSQ_SIM_AT_UPLINK << BUSQ_SIM_AT_SHIFT | process;
    busq_sim_agenda_replace(network->agenda, next_time(network, uplink), what);
  } else {
    busq_sim_agenda_pop(network->agenda);
  }
  return left_ns;
}

/* ---- faults ---- */

static bool is_on_side(const busq_sim_partition *partition, uint32_t process)
{
  for (uint32_t place = 0; place < partition->n_side; place++)
    if (partition->side[place] == process)
      return true;
  return false;
}

/* When a packet that left at this time gets through. */
static uint64_t after_partitions(const busq_sim_faults *faults, uint32_t from, uint32_t to, uint64_t left_ns)
{
  for (uint32_t place = 0; place < faults->n_partitions;) {
    const busq_sim_partition *partition = &faults->partitions[place++];
    const bool is_held_up = partition->begin_ns <= left_ns && left_ns < partition->end_ns &&
                            is_on_side(partition, from) != is_on_side(partition, to);
    if (is_held_up) {
      left_ns = partition->end_ns;
      place = 0; /* another one may have begun meanwhile */
    }
  }
  return left_ns;
}

static uint64_t drawn_up_to(busq_prng *prng, uint64_t max_ns)
{
  return max_ns ? (uint64_t)(busq_prng_uniform(prng) * (double)max_ns + 0.5) : 0;
}

static uint64_t arrives_at(busq_sim_network *network, const busq_sim_arrival *arrival, uint64_t left_ns)
{
  const busq_sim_faults *faults = &network->config->faults;
  uint64_t at_ns = after_partitions(faults, arrival->packet.from, arrival->to, left_ns);
  at_ns += network->config->propagation_delay_ns + drawn_up_to(&network->prng, faults->jitter_ns);
  if (faults->reordered_share > 0 && busq_prng_uniform(&network->prng) < faults->reordered_share)
    at_ns += drawn_up_to(&network->prng, faults->reordered_ns);
  return at_ns;
}

static int fly(busq_sim_network *network, const busq_sim_arrival *arrival, uint64_t at_ns)
{
  uint32_t slot = network->first_free;
  if (slot != UINT32_MAX) {
    network->first_free = network->flying[slot].to;
  } else {
    if (network->n_flying == FLYING_MAX ||
        !busq_reserve(&network->flying, &network->flying_capacity, network->n_flying + 1, sizeof *network->flying))
      return out_of_memory();
    slot = network->n_flying++;
  }
  network->flying[slot] = *arrival;
  const uint32_t what = (uint32_t)BUSQ_SIM_AT_ARRIVAL << BUSQ_SIM_AT_SHIFT | slot;
  return busq_sim_agenda_push(network->agenda, at_ns, what) ? BUSQ_OK : out_of_memory();
}

/* A packet flies to its receiver, behind those before it where channels keep the order. */
static int fly_in_turn(busq_sim_network *network, const busq_sim_arrival *arrival, uint64_t at_ns)
{
  const bool is_thrown_away = arrival->is_copy && !network->config->faults.lets_copies_pass;
  if (network->last_arrivals_ns && !is_thrown_away) {
    uint64_t *last_ns = &network->last_arrivals_ns[(size_t)arrival->packet.from * network->n_processes + arrival->to];
    at_ns = *last_ns = at_ns > *last_ns ? at_ns : *last_ns;
  }
  return fly(network, arrival, at_ns);
}

static int depart(busq_sim_network *network, busq_sim_arrival *arrival, uint64_t left_ns)
{
  const busq_sim_faults *faults = &network->config->faults;
  if (faults->lost_share > 0 && busq_prng_uniform(&network->prng) < faults->lost_share) {
    network->n_lost++;
    return BUSQ_OK;
  }
  const uint64_t at_ns = arrives_at(network, arrival, left_ns);
  const int result = fly_in_turn(network, arrival, at_ns);
  if (result != BUSQ_OK || faults->doubled_share <= 0 || busq_prng_uniform(&network->prng) >= faults->doubled_share)
    return result;
  network->n_doubled++;
  arrival->is_copy = true;
  return fly_in_turn(network, arrival, at_ns + drawn_up_to(&network->prng, faults->doubled_ns));
}

/* ---- arriving ---- */

/* A packet goes through a slow downlink.  BUSQ_EMPTY: it will be through later, and is in the heap. */
static int go_through(busq_sim_network *network, busq_sim_arrival *arrival, uint64_t now_ns)
{
  busq_sim_downlink *downlink = &network->downlinks[arrival->to];
  const uint64_t begin_ns = downlink->free_ns > now_ns ? downlink->free_ns : now_ns;
  downlink->free_ns = begin_ns + transfer_ns(arrival->bytes, network->down_ns_per_byte);
  arrival->is_through = true;
  const int result = fly(network, arrival, downlink->free_ns);
  return result == BUSQ_OK ? BUSQ_EMPTY : result;
}

/* A packet has come to the downlink of its receiver. */
static inline int come_down(busq_sim_network *network, busq_sim_arrival *arrival, uint64_t now_ns)
{
  network->downlinks[arrival->to].bytes += arrival->bytes;
  return BUSQ_LIKELY(network->down_ns_per_byte <= 0) ? BUSQ_OK : go_through(network, arrival, now_ns);
}

int busq_sim_network_take(busq_sim_network *network, uint32_t uplink, busq_sim_arrival *arrival)
{
  const uint64_t left_ns = take(network, uplink, arrival);
  if (!network->has_faults)
    return come_down(network, arrival, left_ns + network->config->propagation_delay_ns);
  const int result = depart(network, arrival, left_ns);
  return result == BUSQ_OK ? BUSQ_EMPTY : result;
}

int busq_sim_network_land(busq_sim_network *network, uint32_t flying, busq_sim_arrival *arrival)
{
  const uint64_t now_ns = network->agenda->entries[0].time_ns;
  busq_sim_agenda_pop(network->agenda);
  *arrival = network->flying[flying];
  network->flying[flying].to = network->first_free;
  network->first_free = flying;
  return arrival->is_through ? BUSQ_OK : come_down(network, arrival, now_ns);
}
