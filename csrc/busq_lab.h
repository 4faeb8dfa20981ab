/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_LAB_H
#define BUSQ_LAB_H
/*
 * The laboratory around the bus (busq.h): what judges executions, recorded or simulated, and what makes and searches
 * them.  Programs that only send and receive do without it.  Results and error texts are those of busq.h.
 */
#include "busq.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* cffi: begin */
/*
 * Observers: judge a history, that is, what every process sent and delivered in its own order (observe/spec.h defines
 * exactly what each property means and counts).  A history belongs to one thread at a time.
 */
typedef struct busq_history busq_history;

typedef enum {
  BUSQ_PROPERTY_LOST = 0,       /* (message, destination) pairs sent and never delivered */
  BUSQ_PROPERTY_DUPLICATED = 1, /* deliveries of a message to a receiver beyond the first */
  BUSQ_PROPERTY_PHANTOM = 2,    /* deliveries of a message that was not sent to this receiver */
  BUSQ_PROPERTY_FIFO = 3,       /* deliveries after one that the same sender sent later */
  BUSQ_PROPERTY_CAUSAL = 4,     /* deliveries after one whose send causally follows theirs */
  BUSQ_PROPERTY_CONSISTENT = 5, /* pairs of receivers that deliver two common messages in opposite orders */
  BUSQ_PROPERTY_TOTAL = 6,      /* messages on a cycle of the union of all receivers' orders */
  BUSQ_PROPERTY_RESENT = 7,     /* remark on the history: sends of a message beyond the one that counts */
  BUSQ_PROPERTY_IMPOSSIBLE = 8, /* remark on the history: deliveries whose send could only have come after them */
  BUSQ_PROPERTY_SYNCHRONOUS = 9, /* messages on a crown */
  BUSQ_PROPERTY_C2 = 10,         /* deliveries that come causally after that of one which the same sender sent later */
  BUSQ_PROPERTY_MYSTERIOUS = 11  /* messages on a crown of two */
} busq_property;

enum {
  BUSQ_N_PROPERTIES = 12,
  BUSQ_ALL_PROPERTIES = 4095,
  BUSQ_BUS1_PROPERTIES = 511, /* the first nine: what bus1 promises, and the remarks */
  BUSQ_WITNESS_MESSAGES = 8,
  BUSQ_WITNESS_STEPS = 64
};

typedef enum { BUSQ_EVENT_DELIVER = 0, BUSQ_EVENT_SEND = 1 } busq_event_kind;

typedef struct {
  uint64_t message;
  uint32_t process;
  uint32_t kind; /* a busq_event_kind: whether the process sent the message or delivered it */
} busq_witness_step;

/*
 * The smallest evidence that was found.  m[] and p[] stand for messages[] and processes[]:
 *   lost        p[0] never delivered m[0], which p[1] sent to it
 *   duplicated  p[0] delivered m[0] again
 *   phantom     p[0] delivered m[0]; n_processes is 2 where a process, p[1], did send it, but not to p[0]
 *   fifo        p[0] delivered m[1] before m[0], and p[1] sent m[0] before m[1]
 *   causal      p[0] delivered m[1], sent by p[2], before m[0], sent by p[1]; the steps lead from the one send to the
 *               other: p[1] sent m[0] and then (or as) the first step's message; the process of each step delivered its
 *               message, then sent the next one; that of the last step (without steps p[1]) is p[2], and sent m[1]
 *   consistent  p[0] delivered m[0] before m[1], p[1] m[1] before m[0]
 *   total       steps: the process of each step delivered its message before that of the next, the last one before that
 *               of the first
 *   resent      p[0] sent m[0], and the send that counts is another one, by p[1]
 *   impossible  p[0] delivered m[0], and p[1] could send it only after that
 *   synchronous the send of each m[] comes before a delivery of the next one, that of the last before one of the first.
 *               The steps show it: two and two, they are events of one process, the first before the second; each
 *               second one has the same message as the first one of the next two
 *   mysterious  the same, for m[0] and m[1]
 *   c2          as causal, and the first step's message, if there are steps, is not m[0]
 */
typedef struct {
  uint64_t messages[8];
  uint32_t processes[3];
  uint32_t n_messages; /* may exceed BUSQ_WITNESS_MESSAGES: then the rest was left out */
  uint32_t n_processes;
  uint32_t n_steps; /* may exceed BUSQ_WITNESS_STEPS: then the rest was left out */
  busq_witness_step steps[64];
} busq_witness;

typedef struct {
  uint64_t count;      /* 0: the property holds */
  uint32_t was_judged; /* 0: it was not asked for */
  uint32_t unused;
  busq_witness witness; /* where count is not 0 */
} busq_verdict;

typedef struct {
  uint64_t n_messages; /* distinct ones that were sent */
  uint64_t n_copies;   /* (message, destination) pairs */
  uint64_t n_deliveries;
  uint64_t n_shared; /* messages that more than one process delivered */
  busq_verdict verdicts[12]; /* by busq_property */
} busq_judgement;

int busq_history_new(uint32_t n_processes, busq_history **historyp);
void busq_history_free(busq_history *history);
int busq_history_send(busq_history *history, uint32_t process, uint64_t message, const uint32_t *destinations,
                      uint32_t n_destinations);
int busq_history_deliver(busq_history *history, uint32_t process, uint64_t message);
/*
 * Appends many events of one process, all or none.  `kinds` holds a busq_event_kind for each; NULL means deliveries
 * only.  The destinations of all sends stand one after the other, `destination_counts` holds how many each send has;
 * where it is NULL, every send goes to all of them.
 */
int busq_history_append(busq_history *history, uint32_t process, size_t n_events, const uint8_t *kinds,
                        const uint64_t *messages, const uint32_t *destination_counts, const uint32_t *destinations,
                        size_t n_destinations);
/* Reads a log back: its first `max` events at most; *countp: how many it has. */
int busq_history_read(const busq_history *history, uint32_t process, size_t max, uint8_t *kinds, uint64_t *messages,
                      size_t *countp);
/* The receivers that a message was sent to, ascending; none where it was not.  The memory belongs to the history,
 * until it changes. */
int busq_history_read_destinations(const busq_history *history, uint64_t message, const uint32_t **destinationsp,
                                   uint32_t *countp);
/* Its name in Python and on the command line; NULL for what is no property. */
const char *busq_property_name(busq_property property);
/* `properties` is a set of bits, 1 << property. */
int busq_history_judge(const busq_history *history, uint32_t properties, busq_judgement *judgement);
/* cffi: end */

/* cffi: begin */
/*
 * Audits: histories from recorded logs, whose columns are read where they stand, and what such logs show besides.  The
 * layout of columns is that of Arrow.
 */
typedef struct {
  const void *values;   /* NULL: there is no such column */
  const uint8_t *valid; /* a bit per value, 0 for a null; NULL: there are none */
  size_t offset;        /* where the first value stands, in both */
} busq_column;

/* Some rows of the log of one process, in program order. */
typedef struct {
  size_t n_rows;
  busq_column kinds;             /* int8_t, no nulls: a busq_event_kind; rows of other kinds are passed over */
  busq_column messages;          /* int64_t; so are rows without a message */
  busq_column destinations;      /* int32_t: where the items of a row begin, and behind the last one where they end */
  busq_column destination_items; /* int32_t, no nulls */
  busq_column times_ns;          /* int64_t: of a delivery; of a send, when it was called, */
  busq_column commits_ns;        /* when it was decided */
  busq_column ends_ns;           /* and when the call returned */
  busq_column clocks;            /* int32_t, as destinations */
  busq_column clock_items;       /* int64_t, no nulls */
  busq_column groups;            /* int32_t: of a send to a group, or of a view that was seen, a number for the group, */
  busq_column views;             /* int64_t: and the number of the view */
  busq_column members;           /* int32_t, as destinations: of a view that was seen */
  busq_column member_items;      /* int32_t, no nulls; -1: a process that is not known any more */
} busq_rows;

enum { BUSQ_ROW_LOCAL = 2, BUSQ_ROW_JOIN = 8, BUSQ_ROW_LEAVE = 9, BUSQ_ROW_DIE = 12, BUSQ_ROW_KINDS = 16 };

/* Appends the sends and deliveries among the rows, all or none, and notes between which of them the process died. */
int busq_history_append_rows(busq_history *history, uint32_t process, const busq_rows *rows);
/* The process passed these messages, so they were not for it: from here on, they were not sent to it, unless it
 * delivered them. */
int busq_history_pass(busq_history *history, uint32_t process, const uint64_t *messages, size_t n_messages);
/* How many events of a process stand before its last death; -1: none of its rows was one.  *came_backp: whether it
 * joined after that. */
int64_t busq_history_read_death(const busq_history *history, uint32_t process, uint32_t *came_backp);
/* Takes from the destinations of messages those that deaths left owed nothing, once all rows are appended. */
int busq_history_spare(busq_history *history);
/* Adds to counts[] how many rows are of each kind; the last one counts all that are higher. */
void busq_rows_count(const busq_rows *rows, uint64_t *counts);

/*
 * The knowledge of the logs about messages that are missing.  A loss is definite where a later message of its sender
 * was delivered at the same receiver; else that log may only have ended before.  Of a delivery without a send it is
 * held likewise whether its sender's log must have held the send; where the sender is not known, any log that lacks
 * events may.
 */
typedef struct {
  uint64_t n_definite;
  uint64_t n_open;
  uint64_t message;   /* of the first definite one */
  uint32_t processes[2]; /* the receiver, and the sender if there is one */
  uint32_t n_processes;
  uint32_t unused;
} busq_absence;

/* Of a process: events are missing in its log; it died and came back, so that what it did not get may have been for the
 * life before. */
enum { BUSQ_LOG_LACKS = 1, BUSQ_LOG_OF_SEVERAL_LIVES = 2 };

/* `is_incomplete` has a byte of these bits for each process.  Adds to open_losses[] by
 * receiver, to open_phantoms[] by sender.  A name is taken to be sender << 32 | number. */
int busq_history_judge_absence(const busq_history *history, const uint8_t *is_incomplete, busq_absence *lost,
                               uint64_t *open_losses, busq_absence *phantom, uint64_t *open_phantoms);

/*
 * Times: how long messages took, and whether they came in the order in which the world could see them sent.  One
 * monotonic clock for all logs.  The history has to be complete; then each row that was appended to it is noted once,
 * and after that, where latencies are asked for, measured once, both times in the order of appending.
 */
typedef struct busq_times busq_times;

/*
 * The side channel: a message was known to be sent at D, when it was first delivered or when its send returned,
 * whichever came first.  A delivery is late where, at the same receiver, one before it is of a message whose send was
 * called after D.
 */
typedef struct {
  uint64_t count;      /* late deliveries, by the times that are known */
  uint64_t n_messages; /* sent and delivered */
  uint64_t n_unknown;  /* of these: some time that could matter is not known */
  uint64_t late;       /* the witness: this message came after the other one at processes[0]; processes[1] sent it */
  uint64_t other;
  int64_t known_ns;       /* D of the late one, known at processes[3] */
  int64_t called_ns;      /* of the other one's send, by processes[2] */
  uint32_t processes[4];
  uint32_t was_delivered; /* D is a delivery, not the return of the send */
  uint32_t unused;
} busq_side;

/* Quantiles within 1 %; the largest is exact. */
typedef struct {
  uint64_t count;
  int64_t p50_ns;
  int64_t p90_ns;
  int64_t p99_ns;
  int64_t max_ns;
} busq_quantiles;

typedef enum {
  BUSQ_LATENCY = 0, /* from the call of the send to the delivery */
  BUSQ_QUEUEING = 1 /* from the commit to the delivery */
} busq_duration;

int busq_times_new(const busq_history *history, busq_times **timesp);
void busq_times_free(busq_times *times);
int busq_times_note_rows(busq_times *times, uint32_t process, const busq_rows *rows);
int busq_times_measure_rows(busq_times *times, uint32_t process, const busq_rows *rows);
int busq_times_judge_side(const busq_times *times, busq_side *side);
/* How many deliveries of a process come, in its log, before one with an earlier time; *rowp: where the first does. */
uint64_t busq_times_count_backwards(const busq_times *times, uint32_t process, uint64_t *rowp);
/* Latencies of the deliveries to one receiver, or of messages with this number of destinations. */
void busq_times_read_receiver(const busq_times *times, uint32_t what, uint32_t receiver, busq_quantiles *quantiles);
void busq_times_read_fan_out(const busq_times *times, uint32_t what, uint32_t fan_out, busq_quantiles *quantiles);

/*
 * Vector clocks in logs.  A row with a clock is an event.  Its clock has to be the maximum of that of the event before
 * and of the messages delivered since, up to this row; its own component is one more than before.  A message has the
 * clock of the last event up to its send.  The rows that were appended to a history are noted in the order of
 * appending, each once, and after that judged in the same order; their columns have to stay where they are until then.
 */
typedef struct busq_clocks busq_clocks;

typedef struct {
  uint64_t n_events;
  uint64_t count;   /* events whose clock is wrong */
  uint64_t message; /* the witness, the first one of the lowest process: the last message that it had delivered */
  uint64_t row;     /* of the process's rows */
  uint32_t has_message;
  uint32_t process;
  uint32_t component; /* which one is wrong, */
  uint32_t unused;
  int64_t found; /* what it holds, */
  int64_t right; /* and what follows from the logs */
} busq_clock_faults;

/* `is_incomplete` has a byte for each process: where events are missing, its own component may rise by more than
 * one. */
int busq_clocks_new(const busq_history *history, const uint8_t *is_incomplete, busq_clocks **clocksp);
void busq_clocks_free(busq_clocks *clocks);
int busq_clocks_note_rows(busq_clocks *clocks, uint32_t process, const busq_rows *rows);
int busq_clocks_judge_rows(busq_clocks *clocks, uint32_t process, const busq_rows *rows, busq_clock_faults *faults);

/*
 * Views of groups in logs (observe/recorded_views.c): rows that were appended to a history are noted in the order of processes,
 * and in that of appending, each once; then they are judged, once.
 */
typedef struct busq_sights busq_sights;

enum {
  BUSQ_SIGHTS_UNEQUAL = 0, /* a view has other members at processes[0] than at processes[1] */
  BUSQ_SIGHTS_SKIPPED = 1, /* processes[0] saw it behind other_view, which it does not follow */
  BUSQ_SIGHTS_OUTSIDE = 2, /* processes[0] delivered the message, sent in it by processes[1], in other_view */
  BUSQ_SIGHTS_MISSED = 3,  /* processes[0] left it for the next one without the message, which processes[1] delivered */
  BUSQ_SIGHTS_FAULTS = 4
};

typedef struct {
  uint64_t counts[4];  /* by kind of fault */
  uint64_t n_open;     /* what would be faults, if no events were missing */
  uint64_t n_sights;   /* of views */
  uint64_t message;    /* the witness */
  int64_t view;
  int64_t other_view;
  const int32_t *members[2]; /* of the view, as each of the processes saw it, where that differs; good as long as the sights are */
  uint32_t n_members[2];
  uint32_t processes[2];
  uint32_t group;
  uint32_t fault;     /* BUSQ_SIGHTS_FAULTS: there is none */
  uint32_t is_before; /* of a delivery outside: in front of other_view, the first one that was seen */
  uint32_t unused;
} busq_sights_found;

/* `is_incomplete` as above; groups are numbered from 0. */
int busq_sights_new(const busq_history *history, const uint8_t *is_incomplete, uint32_t n_groups, busq_sights **sightsp);
void busq_sights_free(busq_sights *sights);
int busq_sights_note_rows(busq_sights *sights, uint32_t process, const busq_rows *rows);
int busq_sights_judge(busq_sights *sights, busq_sights_found *found);
/* cffi: end */

/* cffi: begin */
/*
 * A stage: the processes of one order, and a network on which the caller decides what arrives next (sim/stage.h).  A
 * stage belongs to one thread at a time.
 */
typedef struct busq_stage busq_stage;

enum { BUSQ_STAGE_NOTHING = 0xffffffff };

typedef enum {
  BUSQ_STAGE_SUBMIT = 0, /* the application asks for a message to be sent; peer: its receiver, where that is one process */
  BUSQ_STAGE_SENT = 1,
  BUSQ_STAGE_SEND = 2,    /* a packet to peer */
  BUSQ_STAGE_RECEIVE = 3, /* a packet from peer */
  BUSQ_STAGE_DELIVER = 4,
  BUSQ_STAGE_DROP = 5,
  BUSQ_STAGE_DONE = 6,
  BUSQ_STAGE_SECRET = 7, /* from now on the process may not send */
  BUSQ_STAGE_OPEN = 8,   /* and now it may again */
  BUSQ_STAGE_DIE = 9,
  BUSQ_STAGE_LEARN = 10  /* that peer is dead */
} busq_stage_event_kind;

/* Where there is no packet, kind of packet or peer, the field is BUSQ_STAGE_NOTHING; without a message that is 0. */
typedef struct {
  uint64_t message;
  uint32_t step; /* the number of the call that caused it, from 1 */
  uint32_t process;
  uint32_t kind; /* a busq_stage_event_kind */
  uint32_t packet;
  uint32_t what; /* kind of packet */
  uint32_t peer;
  uint32_t note; /* sent, deliver: of the effect (order/order.h), where messages have to do with nodes */
  uint32_t unused;
} busq_stage_event;

typedef struct {
  uint64_t message;
  uint64_t stamp;
  uint32_t note;
  uint32_t packet; /* its number */
  uint32_t what;
  uint32_t from;
  uint32_t to;
  uint32_t unused;
} busq_stage_packet;

typedef struct {
  uint32_t processes;
  uint32_t waiting_max; /* messages of its own that a process may keep waiting; more wait outside */
  uint32_t held_max;    /* messages of others that it may hold back; more stay in flight */
  uint32_t channels;    /* a busq_channels */
  uint32_t bears_unsound; /* a process whose state is not sound goes on */
} busq_stage_config;

typedef struct {
  uint32_t is_point_to_point;
  uint32_t is_fifo; /* only the oldest packet of each channel may arrive */
  uint32_t n_kinds; /* of packets */
  uint32_t n_calls; /* that decided something */
  uint32_t n_events;
  uint32_t n_packets;     /* in flight */
  uint64_t n_alarms;      /* that have not gone off */
  uint64_t n_undelivered; /* (message, destination) pairs */
  uint64_t n_waiting;     /* submits that the order has not taken so far */
  uint64_t n_notices;     /* deaths of which some process will still learn, for each */
} busq_stage_facts;

typedef struct {
  uint64_t n_alarms;
  uint32_t n_submits; /* that the order has not taken so far */
  uint32_t waiting;   /* messages of its own that wait to be sent */
  uint32_t held;      /* messages of others that came and were not delivered so far */
  uint32_t is_secret;
  uint32_t is_dead;
  uint32_t unused;
} busq_stage_gauge;

/* `order` as in "lamport:ack=all". */
int busq_stage_new(const char *order, const busq_stage_config *config, busq_stage **stagep);
void busq_stage_free(busq_stage *stage);
/* *namep is the name of the message; where the order is point to point, each destination has a message of its own,
 * and their names count up from it. */
int busq_stage_submit(busq_stage *stage, uint32_t process, const uint32_t *destinations, uint32_t n_destinations,
                      uint64_t *namep);
/* BUSQ_FULL: the receiver has no room to hold the message back, and the packet stays in flight. */
int busq_stage_receive(busq_stage *stage, uint32_t packet);
/* The network loses a packet. */
int busq_stage_lose(busq_stage *stage, uint32_t packet);
/* It doubles one: the copy leaves now. */
int busq_stage_double(busq_stage *stage, uint32_t packet);
/* An alarm of this process goes off. */
int busq_stage_tick(busq_stage *stage, uint32_t process);
/* A process dies; of a group of at most 32.  What it has sent arrives, what is on its way to it is gone. */
int busq_stage_crash(busq_stage *stage, uint32_t process);
/* It dies in its next step, behind so many of its effects, at least one: that a message is sent, that one is delivered,
 * and each packet to each receiver.  Others do not count.  In that step a multicast begins with process `first`, or
 * the next of its receivers, and goes around.  BUSQ_INVALID where another one is doomed. */
int busq_stage_doom(busq_stage *stage, uint32_t process, uint32_t units, uint32_t first);
/* A process learns that another one is dead.  BUSQ_INVALID where it lives, or a packet of it to the process is in
 * flight, or the process has learnt that before, or the order does not go on after deaths. */
int busq_stage_learn(busq_stage *stage, uint32_t process, uint32_t dead);
/* Lets packets arrive in an order drawn from the seed until none is left, or none finds room, but not more than
 * `limit`; *countp: how many.  When none is left, processes learn of the deaths that they do not know.  Alarms go off when nothing else can happen and something is undelivered, or, if the
 * stage is hasty, at any moment. */
int busq_stage_run(busq_stage *stage, uint64_t seed, uint64_t limit, uint32_t is_hasty, uint64_t *countp);
void busq_stage_examine(const busq_stage *stage, busq_stage_facts *facts);
int busq_stage_examine_process(const busq_stage *stage, uint32_t process, busq_stage_gauge *gauge);
/* "eager", "ack": what a kind of packet is called; NULL where there is none. */
const char *busq_stage_kind_name(const busq_stage *stage, uint32_t what);
/* Whether packets of this kind bring the message itself. */
uint32_t busq_stage_kind_has_payload(const busq_stage *stage, uint32_t what);
/* Both belong to the stage, until the next call that changes it. */
const busq_stage_event *busq_stage_events(const busq_stage *stage);
const busq_stage_packet *busq_stage_packets(const busq_stage *stage);
/* Appends what was sent and delivered so far to a history of as many processes.  With is_whole, the copies of a
 * multicast are one message, of the name of the first, sent when the first of them is. */
int busq_stage_tell(const busq_stage *stage, uint32_t is_whole, busq_history *history);
/* cffi: end */

/* cffi: begin */
/*
 * The simulator: the processes of one order on a simulated network, driven by programs (sim/simulation.h,
 * sim/network.h, sim/workload.h).  A simulation belongs to one thread at a time.  Shares are from 0 to 1.
 */
typedef struct busq_sim busq_sim;

typedef enum {
  BUSQ_SIM_RANDOM = 0,
  BUSQ_SIM_HOTSPOT = 1,
  BUSQ_SIM_RING = 2,
  BUSQ_SIM_CLIENT_SERVER = 3,
  BUSQ_SIM_TRACE = 4
} busq_sim_workload;

/* From begin to end no packet gets from one side to the other; what leaves meanwhile gets through at the end. */
typedef struct {
  uint64_t begin_ns;
  uint64_t end_ns;
  const uint32_t *side; /* the processes of one side */
  uint32_t n_side;
  uint32_t unused;
} busq_sim_partition;

/* Faults of the network.  All zero: none. */
typedef struct {
  uint64_t jitter_ns;     /* every packet takes up to so much longer, each time as likely as the others */
  double reordered_share; /* of the packets are held up, so that later ones overtake them, */
  uint64_t reordered_ns;  /* for up to so long */
  double doubled_share;   /* of the packets come twice, */
  uint64_t doubled_ns;    /* the second time up to so much later */
  double lost_share;      /* of the packets never come; for orders that go on without them */
  const busq_sim_partition *partitions;
  uint32_t n_partitions;
  uint32_t lets_copies_pass; /* the receiver does not throw away what comes twice: the order gets it twice */
} busq_sim_faults;

/* A process that dies: at that time, or, with effects, behind so many of those that it has from then on.  Effects are that a
 * message is sent, that one is delivered, and each packet to each receiver.  One that has fewer lives on. */
typedef struct {
  uint64_t at_ns;
  uint32_t process;
  uint32_t effects;
} busq_sim_crash;

typedef struct {
  const char *order; /* as in "lamport:ack=all" */
  uint32_t processes;
  uint32_t messages_per_process;
  uint64_t interval_ns; /* between sends of a process */
  uint32_t is_staggered; /* processes begin at random times within the first interval, not all at 0 */
  uint32_t workload;     /* a busq_sim_workload */
  double bandwidth_bytes_per_s; /* of the uplink that each process has */
  double downlink_bytes_per_s;  /* of the downlink that each process has; 0: no limit */
  uint64_t propagation_delay_ns;
  uint32_t payload_bytes;
  uint32_t header_bytes;  /* of packets with a payload */
  uint32_t control_bytes; /* of packets without */
  uint32_t clock_entry_bytes;
  uint32_t fan_out;      /* destinations of each send */
  uint32_t job_blocks_sends; /* a process sends nothing while a job of its own runs, */
  uint32_t job_blocks_all;   /* and does nothing else: what arrives waits, is neither delivered nor acknowledged */
  double hotspot_share;
  double hotspot_draw;
  double dependent_share; /* of the sends wait until their process has delivered all that was sent to it in earlier rounds */
  double job_share; /* of the sends cause a job at their receivers */
  double job_mean_ns;
  double job_spread_ns; /* 0: all take the mean; otherwise the standard deviation */
  uint64_t patience_ns; /* of fifo:on_gap=skip, with a gap */
  uint64_t seed;
  busq_sim_faults faults;
  /* A trace: send i leaves trace_senders[i] at trace_times_s[i], ascending and counted from the first, for
   * trace_recipients[trace_starts[i] .. trace_starts[i + 1]).  They stay with the caller, unchanged, until the
   * simulation is freed. */
  uint64_t n_trace;
  const double *trace_times_s;
  const uint32_t *trace_senders;
  const uint64_t *trace_starts;
  const uint32_t *trace_recipients;
  const uint64_t *trace_sizes_bytes;
  const uint32_t *trace_afters; /* how many messages its sender must have delivered before; NULL: none */
  /* Where not NULL: they get what was sent and delivered; they outlive the simulation, and have as many processes. */
  busq_history *copies; /* messages as the order knows them */
  busq_history *wholes; /* multicasts: copies of one send have one name, (process << 32 | number of the send, from 1) */
  uint32_t is_recorded; /* events are kept for busq_sim_events */
  uint32_t coordinator; /* the process of the programs that an order with a coordinator has for it; it and process 0 exchange
                         * their names in all that comes out (busq_order_trait, COORDINATED) */
  /* Fewer than processes.  They stay with the caller, as a trace does. */
  const busq_sim_crash *crashes;
  uint32_t n_crashes;
  uint32_t unused;
  uint64_t notice_ns; /* with on_crash=go-on each process that lives learns of a death within this time, or with the last packet */
} busq_sim_config;

typedef enum {
  BUSQ_SIM_SUBMIT = 0,
  BUSQ_SIM_SENT = 1,
  BUSQ_SIM_SEND = 2,    /* a packet to peer */
  BUSQ_SIM_RECEIVE = 3, /* a packet from peer */
  BUSQ_SIM_DELIVER = 4,
  BUSQ_SIM_DROP = 5,
  BUSQ_SIM_DONE = 6,
  BUSQ_SIM_SECRET = 7,
  BUSQ_SIM_OPEN = 8,
  BUSQ_SIM_JOB = 9,  /* begins; its time may lie ahead */
  BUSQ_SIM_REST = 10, /* and ends, likewise */
  BUSQ_SIM_DIE = 11,
  BUSQ_SIM_LEARN = 12 /* that peer is dead */
} busq_sim_event_kind;

/* Where there is no packet, kind of packet or peer, the field is 0xffffffff; without a message that is 0. */
typedef struct {
  uint64_t time_ns;
  uint64_t message;
  uint64_t send; /* the multicast that the message is, or is a copy of: as in `wholes` */
  uint32_t process;
  uint32_t kind; /* a busq_sim_event_kind */
  uint32_t packet;
  uint32_t what; /* kind of packet */
  uint32_t peer;
  uint32_t note; /* as in busq_stage_event */
} busq_sim_event;

typedef struct {
  uint64_t events;     /* submits, arrivals, ticks, ends of jobs */
  uint64_t now_ns;     /* of the last event */
  uint64_t execution_ns; /* of the last event that was not an idle tick */
  uint64_t communication_ns; /* of the last packet that arrived */
  uint64_t sends;      /* of the programs, so far */
  uint64_t messages;   /* that the order was given: with one destination each, where it is point to point */
  uint64_t copies;     /* (message, destination) pairs */
  uint64_t unsent;     /* of those that live: messages that were submitted and never sent, and sends that were not submitted */
  uint64_t waits;      /* likewise: the same sends, messages of their own that are not done, and others that they hold back */
  uint64_t deliveries;
  uint64_t dropped;
  double latency_mean_ns; /* from the time of the send in its program to the delivery */
  uint64_t latency_p50_ns;
  uint64_t latency_p99_ns;
  uint64_t latency_max_ns;
  uint64_t jobs; /* that began */
  double job_start_mean_ns; /* of the times at which jobs began, from the beginning of the simulation */
  double job_wait_mean_ns;  /* from the time of the send to the beginning of the job */
  uint64_t secret_ns;        /* in which some process could not send; of all processes together */
  uint64_t uplink_busiest_bytes;   /* that the process with the busiest uplink has sent, */
  uint64_t downlink_busiest_bytes; /* and that with the busiest downlink was sent */
  uint32_t uplink_busiest;         /* those processes */
  uint32_t downlink_busiest;
  uint64_t packets_lost;
  uint64_t packets_doubled;
  uint64_t packets_refused; /* copies that the order could not take */
  uint32_t waiting_max;
  uint32_t held_max;
  uint32_t n_kinds; /* of packets */
  uint32_t is_finished;
} busq_sim_facts;

/* `config` is copied, what it points to is not. */
int busq_sim_new(const busq_sim_config *config, busq_sim **simp);
void busq_sim_free(busq_sim *sim);
/* Goes on for about so long; BUSQ_INTERRUPTED: call again, there is more to do. */
int busq_sim_advance(busq_sim *sim, uint64_t slice_ns);
void busq_sim_examine(const busq_sim *sim, busq_sim_facts *facts);
/* Traffic by kind of packet: its name, and how much there was; BUSQ_EMPTY where there is no such kind. */
int busq_sim_examine_kind(const busq_sim *sim, uint32_t kind, const char **namep, uint64_t *packetsp, uint64_t *bytesp);
/* BUSQ_OK and when it died, or BUSQ_EMPTY: it lives. */
int busq_sim_examine_death(const busq_sim *sim, uint32_t process, uint64_t *died_nsp);
/* The recorded events; they belong to the simulation, until it goes on. */
const busq_sim_event *busq_sim_events(const busq_sim *sim, size_t *countp);
/* The receivers of a message, in the order given; belongs to the simulation. */
int busq_sim_destinations(const busq_sim *sim, uint64_t message, const uint32_t **destinationsp, uint32_t *countp);
/* cffi: end */

/* cffi: begin */
/*
 * The checker: every execution of an order within a bound, or many random ones (check/check.h describes what is
 * searched and what a reduction leaves out).  A check belongs to one thread at a time, and has threads of its own.
 */
typedef struct busq_check busq_check;

/* The behaviour of the application. */
typedef enum {
  BUSQ_CHECK_FREE = 0,  /* every process sends its messages whenever it likes */
  BUSQ_CHECK_REPLY = 1, /* every process sends its first message whenever it likes, and answers the senders of what it delivers */
  BUSQ_CHECK_JOB = 2,   /* free, but process 0 does one job: its first delivery begins it; until it ends, process 0 neither
                         * sends nor receives */
  BUSQ_CHECK_INFORMED = 3 /* free, but all know at once, by side channels, of every delivery anywhere */
} busq_check_behaviour;

typedef enum {
  BUSQ_CHECK_DEPTH = 0,   /* all states, depth first */
  BUSQ_CHECK_BREADTH = 1, /* all states, breadth first: the first violation is a shortest one */
  BUSQ_CHECK_WALK = 2     /* random executions */
} busq_check_search;

typedef enum {
  BUSQ_CHECK_LATE_SUBMITS = 1,
  BUSQ_CHECK_QUIET_PACKETS = 2,
  BUSQ_CHECK_SYMMETRY = 4,
  BUSQ_CHECK_ALL_REDUCTIONS = 7, /* where none dies; where some may: */
  BUSQ_CHECK_SILENT_PACKETS = 8,
  BUSQ_CHECK_FORGETTING = 16,
  BUSQ_CHECK_MORTAL_REDUCTIONS = 24
} busq_check_reduction;

/* Judged besides the properties of histories, in the same set of bits: 1 << this, or 1 << busq_property. */
typedef enum {
  BUSQ_CHECK_STUCK = 16,   /* at an end: a submit that was never taken, or a message that is never done */
  BUSQ_CHECK_GENUINE = 17, /* a packet about a message went to or came from a process that is neither its origin nor a destination */
  BUSQ_CHECK_BUFFERS = 18, /* a packet was refused for want of room */
  BUSQ_CHECK_REFUSED = 19, /* an order refused a packet that its own processes sent, or returned an effect that makes no sense */
  BUSQ_CHECK_ENDLESS = 20, /* an execution that goes on beyond all bounds */
  BUSQ_CHECK_KEPT = 21,    /* a message was delivered, dropped or passed on where the driver did not have it, or kept for ever */
  BUSQ_CHECK_SIDE = 22,    /* INFORMED: a message was delivered after one that was submitted when a process had delivered it, or
                            * an effect of it */
  BUSQ_CHECK_INVARIANT = 23, /* the state of a process is not sound: an invariant of the order does not hold */
  /* No run of all events, with queues that keep the order of what is sent, has these sends and deliveries (check/logs.h): */
  BUSQ_CHECK_MAILBOX = 24,  /* one queue per receiver */
  BUSQ_CHECK_ONE_TO_N = 25, /* one queue per sender */
  BUSQ_CHECK_N_TO_N = 26,   /* one queue for all */
  /* At an end, where processes have died; what is LOST and STUCK then, only the living have. */
  BUSQ_CHECK_AGREEMENT = 27, /* a process that lives has delivered a message, another one that should does not */
  BUSQ_CHECK_UNIFORM = 28,   /* any process has, even one that died then */
  /* Where messages have to do with nodes (check/logs.h): */
  BUSQ_CHECK_NODE = 29,   /* a message to a node came to it although it stands behind the node's end, or not although before */
  BUSQ_CHECK_HANDLE = 30  /* a handle came alive behind that, or dead before; a holder has no notice of it, or another one has */
} busq_check_property;

typedef struct {
  uint32_t processes;
  uint32_t messages;       /* of each process, or of the one with most */
  uint32_t fan_out_max;    /* destinations of a message; where the order is point to point, 1 */
  uint32_t behaviour;      /* a busq_check_behaviour */
  uint32_t channels;       /* a busq_channels */
  uint32_t doubled_max;    /* packets that the network doubles, in an execution */
  uint32_t lost_max;       /* packets that it loses */
  uint32_t crashes_max;    /* processes that die (check/crashes.h) */
  uint32_t with_self;      /* messages may go to their own sender too */
  uint32_t counts_moves;   /* of moves that only bring about others: for orders that may_go_in_circles (check/model.h) */
  uint32_t search;         /* a busq_check_search */
  uint32_t reductions;     /* a set of busq_check_reduction */
  uint32_t threads;
  uint32_t judged;         /* the search ends when one of these is violated; the others are counted among the faults */
  uint32_t depth_max;      /* moves of an execution; 0: no bound.  Longer ones are left out, and the search is not complete. */
  uint64_t memory_bytes;   /* for all that grows */
  const char *directory;   /* breadth, quiet and silent packets too: what memory has no room for goes there, into files without
                            * a name; NULL: nothing does */
  uint64_t disk_bytes;     /* in the directory */
  uint64_t walks;          /* walk: how many executions */
  uint64_t seed;           /* walk: execution k is drawn from seed + k */
  const uint32_t *destinations; /* of message k of process p, a set of bits at [p * messages + k]; NULL: every choice.  Replies, and
                                 * the answer to a job, go to the process that they answer all the same. */
  const uint32_t *counts; /* how many messages each process has, at most `messages`; NULL: all that many */
} busq_check_config;

typedef struct {
  uint64_t unique; /* states; walk: moves */
  uint64_t total;  /* moves that were made, and the start */
  uint64_t ends;   /* states in which nothing can happen any more; walk: executions */
  uint64_t left_out; /* states at depth_max that it would have gone on from; walk: executions */
  uint64_t contradicted; /* times that something which a reduction takes for granted was tried and found wrong */
  uint64_t witness_seed; /* walk: the execution of busq_check_witness was drawn from it */
  uint64_t memory_bytes; /* in use, at most so far */
  uint64_t disk_bytes;   /* the same */
  uint32_t disk_error;   /* errno of what the disk has refused first, ENOSPC of what would have been more than disk_bytes */
  uint32_t depth_max; /* of an execution, in moves */
  uint32_t depth;     /* breadth: of the states that are looked at now */
  uint32_t faults;    /* of all states together */
  uint32_t waiting_max; /* largest gauge of any process: messages of one's own between submit and end */
  uint32_t held_max;    /* messages of others, held back */
  uint32_t packets_max; /* in flight */
  uint32_t is_over;
  uint32_t is_complete; /* nothing was left out, and no reduction contradicted */
  uint32_t is_full;     /* memory ran out */
  uint32_t may_go_in_circles; /* some kind of packet, or an alarm, can lead to itself without anything else happening: only
                               * counts_moves finds whether every execution ends */
  uint32_t n_transitions; /* kinds of transitions that were seen */
  double missed_expected; /* states that were taken for others with the same fingerprint, on average */
} busq_check_facts;

typedef enum {
  BUSQ_CHECK_SUBMIT = 0,
  BUSQ_CHECK_RECEIVE = 1,
  BUSQ_CHECK_TICK = 2,     /* an alarm goes off */
  BUSQ_CHECK_LOSE = 3,     /* the network loses a packet */
  BUSQ_CHECK_DOUBLE = 4,   /* it doubles one */
  BUSQ_CHECK_END_JOB = 5,
  BUSQ_CHECK_CRASH = 6,    /* a process dies */
  BUSQ_CHECK_LEARN = 7     /* a process learns that another one is dead */
} busq_check_step_kind;

/* A step of an execution. */
typedef struct {
  uint64_t message; /* 0: a packet that is about none */
  uint64_t stamp;   /* of the packet */
  uint32_t note;    /* of the packet */
  uint32_t kind;    /* a busq_check_step_kind */
  uint32_t process; /* which submits, receives, wakes; the receiver of the packet */
  uint32_t from;    /* the sender of the packet; learn: the dead process */
  uint32_t what;    /* kind of packet */
  uint32_t destinations; /* submit: a set of bits */
  uint32_t cut;     /* the process dies in this step, behind so many of its effects (busq_stage_doom); 0: it does not */
  uint32_t first;   /* with a cut: of the receivers of a multicast */
} busq_check_step;

/* Transitions that look alike: an event, and what came of it. */
typedef struct {
  uint64_t count;
  uint32_t event;    /* a busq_check_step_kind: SUBMIT, RECEIVE or TICK */
  uint32_t what;     /* receive: kind of packet */
  uint32_t sends;    /* kinds of packets that were sent, a set of bits */
  uint32_t n_sent;   /* messages that were sent, 2: or more; and so on */
  uint32_t n_delivered;
  uint32_t n_done;
  uint32_t n_dropped;
  uint32_t is_refused;
} busq_check_transition;

/* `order` as in "lamport:ack=all"; starts the threads. */
int busq_check_new(const char *order, const busq_check_config *config, busq_check **checkp);
/* Ends the threads, wherever they are. */
void busq_check_free(busq_check *check);
/* Waits for about so long; BUSQ_INTERRUPTED: it is not over. */
int busq_check_advance(busq_check *check, uint64_t slice_ns);
void busq_check_examine(busq_check *check, busq_check_facts *facts);
/* The violation that ended the search (breadth: a shortest one), or NULL; belongs to the check.  *faultsp is a set
 * of bits, what is violated by its last step. */
const busq_check_step *busq_check_witness(busq_check *check, size_t *countp, uint32_t *faultsp);
/* The kinds of transitions that were seen, the most frequent first; BUSQ_EMPTY beyond the last. */
int busq_check_examine_transition(busq_check *check, uint32_t place, busq_check_transition *transition);
/* cffi: end */

/* cffi: begin */
/*
 * The protocol of groups, searched: every execution of a model at the level of multicasts (check/groups_model.h),
 * breadth first, so that a violation is a shortest one, or depth first.  A search runs in the thread that advances it.
 */
typedef struct busq_groups_check busq_groups_check;

/* A rule that is left out; the first is the protocol as it is. */
typedef enum {
  BUSQ_GROUPS_WHOLE = 0,
  BUSQ_GROUPS_NAIVE = 1,         /* whatever comes is delivered, whichever view it was sent to */
  BUSQ_GROUPS_NO_LOOK = 2,       /* a sender does not look at the group again when its message is committed */
  BUSQ_GROUPS_NO_INSTALL = 3,    /* one that was passed over does not install the change, but sends again at once */
  BUSQ_GROUPS_NO_PUT_OFF = 4,    /* one that finds a change being staged lets it be */
  BUSQ_GROUPS_BY_NUMBER = 5,     /* one that finds another view sends again, wherever its message stands */
  BUSQ_GROUPS_BY_WORD = 6,       /* a receiver compares with the view that is installed, not with that which it has delivered */
  BUSQ_GROUPS_TORN_LOOK = 7,     /* the members of a view, and then its number, are read as if nothing could come between */
  BUSQ_GROUPS_NO_CLAIM = 8,      /* two may change one view */
  BUSQ_GROUPS_NEW_ONLY = 9,      /* only members of the new view get it */
  BUSQ_GROUPS_OLD_ONLY = 10,     /* only members of the old one do */
  BUSQ_GROUPS_NO_SYNC = 11,      /* a message is committed before every clock has reached its time */
  BUSQ_GROUPS_NO_BREAK = 12,     /* a change that does not end is not broken */
  BUSQ_GROUPS_NO_HELP = 13,      /* a sealed message is completed by its sender only */
  BUSQ_GROUPS_NO_RELEASE = 14,   /* the claim of a change that was undone is not freed */
  BUSQ_GROUPS_NO_UNDO = 15,      /* what a dead process was staging is left as it is */
  BUSQ_GROUPS_MOURN_TWICE = 16,  /* a process that waited to mourn does so, though another one has */
  BUSQ_GROUPS_BLIND_NAMED = 17,  /* a peer named beside the group delivers whatever comes */
  BUSQ_GROUPS_NO_SETTLE = 18,    /* a dead member is mourned before what it had in hand is settled */
  BUSQ_GROUPS_READER_LEAVES = 19, /* a receiver delivers a view and leaves it to others to install it */
  BUSQ_GROUPS_FORGET_DEAD = 20    /* a change may come before what only members that are dead have delivered */
} busq_groups_variant;

enum {
  BUSQ_N_GROUPS_VARIANTS = 21,
  BUSQ_GROUPS_PROCESSES_MAX = 6,
  BUSQ_GROUPS_MESSAGES_MAX = 6,
  BUSQ_GROUPS_CHANGES_MAX = 8
};

typedef enum { BUSQ_GROUPS_ENTER = 1, BUSQ_GROUPS_LEAVE = 2, BUSQ_GROUPS_MOURN = 3 } busq_groups_change;

/* What is judged; all but the last two by an observer that sees logs alone (observe/views.h). */
typedef enum {
  BUSQ_GROUPS_UNEQUAL = 0,   /* two processes know one view with different members, or a view changes nothing */
  BUSQ_GROUPS_SKIPPED = 1,   /* a member did not get the view that follows */
  BUSQ_GROUPS_OUTSIDE = 2,   /* a process delivered a message of the group while it was in none of its views */
  BUSQ_GROUPS_MISPLACED = 3, /* a message stands in two places, or in another view than its send returned */
  BUSQ_GROUPS_MISSED = 4,    /* a member of a view goes without a message of it */
  BUSQ_GROUPS_DOUBLED = 5,   /* a process delivered a message again */
  BUSQ_GROUPS_GHOST = 6,     /* a message of a dead process came after the view of its death */
  BUSQ_GROUPS_STUCK = 7,     /* nothing can happen any more, and a process is not done */
  BUSQ_GROUPS_ENDLESS = 8    /* a process sends to the same view again, and may for ever */
} busq_groups_fault;

enum { BUSQ_N_GROUPS_FAULTS = 9 };

typedef struct {
  uint32_t processes;
  uint32_t members;  /* in the first view: so many, the first ones */
  uint32_t changes;  /* of views, deaths among them */
  uint32_t messages; /* of all processes */
  uint32_t kills;
  uint32_t stops;
  uint32_t put_offs; /* of one record, and breaks of one change, while its sender runs */
  uint32_t names_last; /* every message names the last process, too, beside the group */
  uint32_t whole;    /* a multicast is staged, sealed and committed at all of its destinations at once, a step each */
  uint32_t variant;  /* a busq_groups_variant */
  uint32_t reduces;  /* a move that commutes with all others is made first, and what is over is forgotten */
  uint32_t depth_first; /* in less memory; of a violation it is known that there is one */
  uint64_t memory_bytes;
} busq_groups_config;

typedef struct {
  uint64_t unique;
  uint64_t total; /* moves that were made, and the start */
  uint64_t ends;  /* states in which no process owes anything */
  uint64_t memory_bytes; /* in use, at most so far */
  uint32_t depth_max;
  uint32_t faults;
  uint32_t is_over;
  uint32_t is_complete;
  uint32_t is_full; /* memory ran out */
  uint32_t is_too_small; /* more records than a state holds */
  double missed_expected; /* as in busq_check_facts */
} busq_groups_facts;

typedef enum {
  BUSQ_GROUPS_LOOK = 0,     /* a message begins, or begins again: which view, which members */
  BUSQ_GROUPS_CLAIM = 1,    /* a change begins: the claim is taken, or, where it is not free, wanted */
  BUSQ_GROUPS_STAGE = 2,    /* at one destination */
  BUSQ_GROUPS_SEAL = 3,
  BUSQ_GROUPS_SYNC = 4,     /* one clock */
  BUSQ_GROUPS_COMMIT = 5,
  BUSQ_GROUPS_RETURN = 6,   /* the sender's look afterwards */
  BUSQ_GROUPS_INSTALL = 7,
  BUSQ_GROUPS_DELIVER = 8,  /* or pass over */
  BUSQ_GROUPS_PUT_OFF = 9,
  BUSQ_GROUPS_BREAK = 10,
  BUSQ_GROUPS_RELEASE = 11, /* the claim of a change that was undone */
  BUSQ_GROUPS_UNDO = 12,    /* what a dead process was staging */
  BUSQ_GROUPS_KILL = 13,
  BUSQ_GROUPS_STOP = 14
} busq_groups_step_kind;

/* A step of an execution, as far as its kind has it; 255: none. */
typedef struct {
  uint32_t kind;    /* a busq_groups_step_kind */
  uint32_t process; /* which does it */
  uint32_t other;   /* a destination; whose record it is */
  uint32_t change;  /* a busq_groups_change: what the record, or what begins, is; 0: a message */
  uint32_t subject; /* of that change */
  uint32_t message; /* its number, from 0 */
  uint32_t view;    /* of the message; which the change makes */
  uint32_t members; /* of that */
  uint32_t time;    /* staged, sealed, committed at */
  uint32_t outcome; /* claim: 1, it was free.  Stage: 1, the proposal stands; 2, it is lost; 3, the destination is dead.  Return: 1,
                     * the message counts; 2, it was passed over; 3, it counts and the change was put off.  Deliver: 1; 2, passed over. */
  uint32_t record;  /* distinguishes one from another: a message is sent again as another one */
  uint32_t unused;
} busq_groups_step;

/* The finding of an observer, as far as the fault has it. */
typedef struct {
  uint32_t fault;
  uint32_t process;
  uint32_t other;
  uint32_t message;
  uint32_t view;
} busq_groups_finding;

int busq_groups_check_new(const busq_groups_config *config, busq_groups_check **checkp);
void busq_groups_check_free(busq_groups_check *check);
/* Goes on for about so long; BUSQ_INTERRUPTED: it is not over. */
int busq_groups_check_advance(busq_groups_check *check, uint64_t slice_ns);
void busq_groups_check_examine(const busq_groups_check *check, busq_groups_facts *facts);
/* The shortest violation, or NULL, as of all that go depth first; belongs to the check. */
const busq_groups_step *busq_groups_check_witness(busq_groups_check *check, size_t *countp, busq_groups_finding *finding);
/* cffi: end */

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif /* BUSQ_LAB_H */
