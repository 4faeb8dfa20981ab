/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SIM_WORKLOAD_H
#define BUSQ_SIM_WORKLOAD_H
/*
 * Programs: what every process wants to send, when and to which ones, and which deliveries cause a job.
 *
 * Guarantee: a program depends on the configuration and its seed alone, not on the order or on what happens on the
 * network.  So two orders under the same seed are given the same sends and the same jobs.  (There is one exception: a
 * server answers a request when it is delivered, so the order of its answers follows that of the deliveries.)
 *
 * Partial order: a send may have to wait until its process has delivered some number of messages.  That can always come
 * to be. In drawn programs send k (of `dependent_share`) waits for everything that was sent to its process before round
 * k, that is by sends number 0 .. k-1 of all others, and those wait for earlier rounds alone.  A trace is played
 * through once without a network: a delivery only ever lets more sends begin, so what gets stuck there gets stuck under
 * every order, and is refused.
 *
 * Names: where an order has a coordinator, it is process 0; the programs of process 0 and of `coordinator` change
 * places, so that any process of the programs can be it.  All numbers that go in and come out here are those of the
 * order.
 *
 * Mechanism: nothing of a send is stored; send number k of a process is drawn again from its own stream whenever it is
 * asked for. Where sends depend on deliveries, a table has the number of messages that are sent to each process before
 * each round.
 *
 *   random          every destination is as likely as the others
 *   hotspot         the first processes, hotspot_share of all, draw hotspot_draw of the messages
 *   ring            process i sends to the next ones
 *   client-server   the first processes, hotspot_share of all but at least one, are servers; a client's requests go to the
 *                   server that is its own (and the next ones), and each is answered when it is delivered
 *   trace           times, senders, destinations and sizes from elsewhere
 */
#include "base/types.h"
#include "busq_lab.h"

typedef struct {
  const uint32_t *destinations; /* each once */
  uint32_t n_destinations;
  uint32_t payload_bytes;
} busq_sim_send;

/* Invariant: candidates[i] = i, but for the time of a drawing. */
typedef struct {
  const busq_sim_config *config;
  uint32_t n_hot; /* hotspots, or servers */
  uint32_t *candidates;
  uint64_t *rows_start; /* trace: of each process, in rows */
  uint64_t *rows;       /* trace: the places of its sends in the trace */
  bool has_afters;      /* some sends wait for deliveries */
  uint32_t *addressed;  /* drawn programs, by process and round: messages sent to it before, once all sends are counted */
} busq_sim_programs;

/* BUSQ_OK, BUSQ_NO_SPACE, or BUSQ_INVALID where a trace makes no sense.  `config` stays with its owner. */
int busq_sim_programs_init(busq_sim_programs *programs, const busq_sim_config *config);
void busq_sim_programs_deinit(busq_sim_programs *programs);

/* How many sends of its own a process has; answers are not among them. */
uint64_t busq_sim_programs_sends(const busq_sim_programs *programs, uint32_t process);
uint64_t busq_sim_programs_time(const busq_sim_programs *programs, uint32_t process, uint32_t place);
/* How many messages the process must have delivered before this send; 0 where it waits for none. */
uint32_t busq_sim_programs_after(const busq_sim_programs *programs, uint32_t process, uint32_t place);
/* Where there is a table: to be called for each send once, and then at the end, before the first _after. */
void busq_sim_programs_count(busq_sim_programs *programs, uint32_t process, uint32_t place, const busq_sim_send *send);
void busq_sim_programs_counted(busq_sim_programs *programs);
/* `room` takes one word per process; what comes back may point to it. */
busq_sim_send busq_sim_programs_send(busq_sim_programs *programs, uint32_t process, uint32_t place, uint32_t *room);
/* Whether deliveries of this send cause a job, and for how long. */
bool busq_sim_programs_job(const busq_sim_programs *programs, uint32_t process, uint32_t place, uint64_t *duration_nsp);
/* Whether this process answers what is sent to it. */
bool busq_sim_programs_answers(const busq_sim_programs *programs, uint32_t process);

#endif /* BUSQ_SIM_WORKLOAD_H */
