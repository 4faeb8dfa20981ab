/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SIM_SIMULATION_H
#define BUSQ_SIM_SIMULATION_H
/*
 * The simulator: programs (sim/workload.h), the step functions of an order, and a network (sim/network.h), in simulated
 * time.
 *
 * Guarantee: a run depends on its configuration alone, to the last bit; time is in whole nanoseconds.  It ends when
 * nothing is left to happen, and whatever has not been sent or delivered by then never will be.  An order runs here as
 * it runs everywhere, and never lacks room: its buffers are as large as the programs could make them.
 *
 * Mechanism: one loop takes the next time out of the heap: a send of a program, a packet, an alarm, the end of a job.
 * It hands the process one event, performs the effects, and looks at the gauge of the process.  States are blocks of
 * zeros that the system backs with memory where they are touched.
 *
 * Programs and jobs.  A process sends when its program has a send, or later where it waits: at a rendezvous for the end
 * of the last message, with job_blocks_sends for the end of its jobs, and where the program has dependent sends for
 * deliveries.  A job begins at the delivery that causes it, or when the jobs before it at that process are over;
 * packets are received and sent meanwhile, unless job_blocks_all: then what comes to the process waits for the end of its
 * jobs, packets, sends and alarms alike, and happens there one after the other until a delivery begins another job.  The
 * step that begins a job is done to its end: the acknowledgement that it makes of that very message leaves before the
 * job, and so do further messages that it delivers.
 *
 * Crashes (sim/deaths.h).  A process that has died does nothing; what it has given to its uplink goes its way, and what comes to
 * it is gone.  Under on_crash=go-on the others learn of its death, each at a time of its own.
 *
 * Not given: clocks that run differently, or programs whose sends depend on what was received in another way
 * than by their number (but for the answers of servers).
 */
#include "sim/inbox.h"
#include "sim/latency_histogram.h"
#include "sim/network.h"
#include "sim/workload.h"

/* The simulator's memory of a message. */
typedef struct {
  uint64_t wanted_ns; /* the time that the program has for it */
  uint32_t place;     /* which send of its process it belongs to, from 0 */
  uint32_t first;     /* the number of the first message of that send */
  uint32_t bytes;     /* of a packet with its payload */
  uint32_t is_told;   /* of the first message: `wholes` knows of the send */
} busq_sim_sent;

/* A request that waits to be answered. */
typedef struct {
  uint64_t wanted_ns;
  uint32_t client;
  uint32_t unused;
} busq_sim_request;

typedef struct {
  uint64_t start_ns;
  uint64_t wait_ns; /* since the time of the send */
} busq_sim_job;

typedef struct {
  void *state;
  uint64_t busy_until_ns; /* the end of its last job */
  uint64_t secret_since_ns;
  uint64_t unfinished; /* at a rendezvous: the message that is not done */
  uint64_t wanted_ns;  /* if is_scheduled: the time that the program has for its next send */
  busq_sim_sent *sent; /* by number - 1 */
  uint32_t n_sent;
  uint32_t sent_capacity;
  uint32_t n_begun; /* of its messages: effects BUSQ_DO_SENT */
  uint32_t n_done;  /* and BUSQ_DO_DONE */
  busq_sim_request *requests;
  uint32_t n_requests;
  uint32_t requests_capacity;
  uint64_t *delivered_ns; /* where sends wait for deliveries: their times, in their order */
  uint32_t n_delivered;
  uint32_t delivered_capacity;
  uint32_t n_sends;    /* of its program, answers included as they become known */
  uint32_t place;      /* its next send, */
  uint32_t copy;       /* and which message of it, at a rendezvous */
  bool is_scheduled;   /* its next send is in the heap of times */
  bool is_secret;
  bool is_dead;
  bool is_doomed;   /* Invariant: while it lives, units is more than 0: it dies behind so many more effects */
  uint32_t units;
  uint32_t due;     /* the dead that it learns of with their last packets: a set of bits */
  uint64_t died_ns;
  busq_sim_job *jobs; /* where processes may die: those that it has been given, in their order */
  uint32_t n_jobs;
  uint32_t jobs_capacity;
  busq_sim_inbox inbox; /* where a job blocks all: what waits for its end */
} busq_sim_process;

/* How much a process may have to keep. */
typedef struct {
  uint32_t own;    /* messages that it sends */
  uint32_t others; /* messages that are sent to it */
} busq_sim_count;

struct busq_sim {
  busq_sim_config config;
  const busq_order *order;
  uint32_t options;
  bool is_point_to_point;
  bool is_rendezvous;
  bool has_clock;
  bool forgets_clocks; /* not those of messages that come again, sent on by others */
  uint32_t *in_flight; /* with crashes, under on_crash=go-on: packets on their way, by sender and receiver */
  busq_messages messages;
  busq_sim_programs programs;
  busq_sim_agenda agenda;
  busq_sim_network network;
  busq_sim_process *processes;
  busq_sim_count *counts; /* while sends are counted, before anything happens */
  uint32_t n_counted;     /* processes, and what they send: messages, as the order sees them, answers too, and deliveries */
  uint64_t n_messages;
  uint64_t n_copies;
  uint64_t now_ns;
  uint32_t clock_bytes; /* in each packet with a payload */
  busq_order_effect *effects;
  uint32_t *rooms[3]; /* for destinations: of a send that is submitted, without its origin, and where observers get it */
  bool is_idle;       /* the last step did nothing, or set an alarm */
  busq_sim_facts facts;
  busq_sim_latencies latencies;
  unsigned __int128 job_start_sum_ns; /* times at which jobs began, */
  unsigned __int128 job_wait_sum_ns;  /* and how long after the time of the send */
  busq_sim_event *records;
  size_t n_records;
  uint64_t records_capacity;
};

static inline busq_sim_sent *busq_sim_sent_of(const busq_sim *sim, uint64_t message)
{
  return &sim->processes[busq_message_origin(message)].sent[busq_message_number(message) - 1];
}

/* ---- what a simulation reports (report.c): events and histories, each where it was asked for ---- */

int busq_sim_record(busq_sim *sim, uint64_t time_ns, uint32_t process, uint32_t kind, uint64_t message);
/* Records an effect, with its note. */
int busq_sim_record_effect(busq_sim *sim, uint32_t process, uint32_t kind, const busq_order_effect *effect);
int busq_sim_record_packet(busq_sim *sim, uint32_t process, uint32_t kind, const busq_order_packet *packet, uint32_t number,
                           uint32_t peer);
int busq_sim_record_learning(busq_sim *sim, uint32_t process, uint32_t dead);
int busq_sim_record_sending(busq_sim *sim, const busq_order_packet *packet, uint32_t to, uint32_t first_number);
int busq_sim_tell_sent(busq_sim *sim, uint64_t message);
int busq_sim_tell_delivered(busq_sim *sim, uint32_t process, uint64_t message);

#endif /* BUSQ_SIM_SIMULATION_H */
