/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SIM_NETWORK_H
#define BUSQ_SIM_NETWORK_H
/*
 * The simulated network.
 *
 * Guarantee: each process has an uplink that carries one packet at a time, first come first served, at the bandwidth;
 * after that a packet takes the propagation delay to its receiver.  Without faults nothing is lost, doubled or
 * overtaken by what came later from the same process, and a packet that goes to several is as many packets, one after
 * the other.
 *
 * Mechanism: what a process sends stands in the ring of its uplink, a multicast as one entry; only the packet that is
 * next is known to the heap of times.  So memory grows with what was sent, not with the number of receivers, and the
 * heap with the number of processes.  Without faults the arrivals of an uplink come in the order of departure, so the
 * heap holds the next arrival; with faults it holds the next departure, and whatever the faults make of the packet goes
 * to the heap by itself.
 *
 * Downlinks.  What has arrived goes through the downlink of its receiver, one whole packet at a time, first come first
 * served, where the configuration gives them a bandwidth; then it is received.  So a packet that meets no other is
 * later by its own length there, as behind a switch that has to have all of it.
 *
 * Faults (busq_sim_faults) are drawn from a stream of their own.  The network underneath is one that repeats what got
 * lost: a partition holds packets up until it is over, and does not swallow them.  Where it doubles a packet, its
 * receiver throws the second copy away, as transports do, unless the configuration lets it pass.  Channels that must
 * keep the order keep it under any fault: a packet arrives no earlier than the one before it on the same channel.
 *
 * Not given: a limit on what waits at an uplink or a downlink.
 */
#include "base/prng.h"
#include "busq_lab.h"
#include "order/order.h"
#include "sim/agenda.h"
#include "sim/messages.h"

/* The kind of event at a time: the upper bits of busq_sim_time_what; below them stands a process, or an arrival. */
enum {
  BUSQ_SIM_AT_UPLINK = 0, /* its next packet arrives, or with faults departs */
  BUSQ_SIM_AT_SUBMIT = 1,
  BUSQ_SIM_AT_REST = 2, /* a job ends */
  BUSQ_SIM_AT_TICK = 3,
  BUSQ_SIM_AT_ARRIVAL = 4,
  BUSQ_SIM_AT_CRASH = 5,  /* below it its place in the configuration */
  BUSQ_SIM_AT_NOTICE = 6, /* below it the dead << 5 | the other process */
  BUSQ_SIM_AT_SHIFT = 25
};

/* One packet that has arrived. */
typedef struct {
  busq_order_packet packet;
  uint32_t to;
  uint32_t number; /* of the packet, for records */
  uint32_t bytes;
  bool is_copy;    /* the network has doubled it, and the other one came before */
  bool is_through; /* the downlink of its receiver */
} busq_sim_arrival;

/* The queue at an uplink. */
typedef struct {
  busq_order_packet packet;
  uint64_t ready_ns; /* since when */
  uint32_t to;       /* a process, BUSQ_TO_DESTINATIONS, BUSQ_TO_ALL or BUSQ_TO_REST */
  uint32_t place;    /* of several receivers: how many have had theirs, or were passed over */
  uint32_t number;   /* of its next packet */
  uint32_t bytes;
} busq_sim_sending;

/* Invariant: n <= capacity, a power of two or 0. */
typedef struct {
  busq_sim_sending *ring;
  uint32_t head;
  uint32_t n;
  uint32_t capacity;
  uint64_t free_ns; /* when the packet that is next in the heap will have left */
  uint64_t bytes;   /* that it was ever given */
} busq_sim_uplink;

typedef struct {
  uint64_t bytes;   /* that have come */
  uint64_t free_ns; /* where it has a bandwidth: when all of them will be through */
} busq_sim_downlink;

typedef struct {
  uint64_t packets;
  uint64_t bytes;
} busq_sim_traffic;

typedef struct {
  const busq_sim_config *config;
  const busq_messages *messages;
  busq_sim_agenda *agenda;
  uint32_t n_processes;
  bool has_faults;
  double ns_per_byte;
  double down_ns_per_byte; /* 0: downlinks have no limit */
  busq_sim_uplink *uplinks;
  busq_sim_downlink *downlinks;
  busq_sim_traffic *traffic; /* by kind of packet */
  uint32_t n_packets;        /* numbers given */
  /* With faults or slow downlinks only: */
  busq_prng prng;
  busq_sim_arrival *flying; /* slots; `to` of a free one is the next free one */
  uint32_t n_flying;
  uint32_t flying_capacity;
  uint32_t first_free;
  uint64_t *last_arrivals_ns; /* by sender and receiver, where channels keep the order */
  uint64_t n_lost;
  uint64_t n_doubled;
} busq_sim_network;

int busq_sim_network_init(busq_sim_network *network, const busq_sim_config *config, const busq_order *order, uint32_t options,
                          const busq_messages *messages, busq_sim_agenda *agenda);
void busq_sim_network_deinit(busq_sim_network *network);

/* Gives a packet of `bytes` bytes to the uplink of packet.from; how many it will be comes back in *n_targetsp.
 * BUSQ_OK or BUSQ_NO_SPACE. */
int busq_sim_network_send(busq_sim_network *network, uint64_t now_ns, const busq_order_packet *packet, uint32_t to,
                          uint32_t bytes, uint32_t *n_targetsp);

/* The next target behind `*placep`, which moves behind it; UINT32_MAX where there is none. */
uint32_t busq_sim_network_target(const busq_sim_network *network, const busq_order_packet *packet, uint32_t to,
                                 uint32_t *placep);

/* The first time in the heap is that of this uplink: takes its packet out.  Without faults it has arrived, BUSQ_OK;
 * with faults it departs, and behind a slow downlink it waits, BUSQ_EMPTY: its arrival is in the heap.
 * BUSQ_NO_SPACE. */
int busq_sim_network_take(busq_sim_network *network, uint32_t uplink, busq_sim_arrival *arrival);

/* The first time in the heap is that of this flying packet: takes it out.  BUSQ_OK; BUSQ_EMPTY where it still has to
 * get through a slow downlink. */
int busq_sim_network_land(busq_sim_network *network, uint32_t flying, busq_sim_arrival *arrival);

#endif /* BUSQ_SIM_NETWORK_H */
