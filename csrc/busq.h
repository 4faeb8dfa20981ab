/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_H
#define BUSQ_H
/*
 * busq: ordered messages between the processes of one machine.
 *
 * The guarantee.  A bus is a file in shared memory; every process joins it as a peer with one queue.  A message goes to one
 * peer or to several at once.  (1) Peers that receive two common messages receive them in the same order, and all these
 * orders together have no cycle.  (2) An effect never arrives before its cause at the same receiver, not even where the
 * cause travelled outside the bus.  (3) A multicast reaches all its receivers or none, each of them once.
 *
 * The mechanism stands in shm/multicast.h (sending), shm/receive.h (receiving) and queue/ring.h (the queue between them).
 *
 * A process may be killed, stopped or forked at any instruction: nobody else waits for it, and a peer can take over what a dead
 * one of its name had not finished (busq_peer_join_as; shm/join.h).
 *
 * What it does not give: order between messages that share no receiver and no cause, delivery to a process that has
 * died and that nobody resumes, protection from a process of the same user that writes into the file on purpose (damage is
 * found and reported, not prevented), or anything between machines.
 *
 * Calls return a busq_result.  BUSQ_OK is 0; everything else leaves bus and peer as they were, and busq_error_text() says in
 * words what was found, what was expected and what to do.  Times are nanoseconds of CLOCK_MONOTONIC; a timeout of -1 waits
 * for ever, 0 tries once.  A peer may be used by many threads at once.
 */
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What stands between the two cffi marks is also read by the Python binding: plain declarations, no preprocessor. */
/* cffi: begin */
typedef enum {
  BUSQ_OK = 0,
  BUSQ_EMPTY = 1,        /* nothing can be received now */
  BUSQ_FULL = 2,         /* a destination's queue or the memory for messages is full */
  BUSQ_SHUTDOWN = 3,     /* the bus was shut down */
  BUSQ_CLOSED = 4,       /* this handle was closed */
  BUSQ_FORKED = 5,       /* this handle belongs to the parent process */
  BUSQ_UNKNOWN_PEER = 6, /* nobody of that name has joined */
  BUSQ_PEER_DEAD = 7,    /* it had joined and is gone */
  BUSQ_PEER_EXISTS = 8,  /* a live process has joined under that name */
  BUSQ_INVALID = 9,      /* an argument is wrong */
  BUSQ_TOO_LARGE = 10,   /* the message can never fit */
  BUSQ_NO_SPACE = 11,    /* memory, file space or peer slots ran out */
  BUSQ_CORRUPT = 12,     /* the segment is damaged or is not a bus */
  BUSQ_VERSION = 13,     /* the segment was made by an incompatible build */
  BUSQ_EXISTS = 14,      /* a bus of that name exists */
  BUSQ_NOT_FOUND = 15,   /* there is no bus of that name */
  BUSQ_DENIED = 16,      /* not ours to open */
  BUSQ_INTERRUPTED = 17, /* a signal or the end of a slice: call again with the time that is left */
  BUSQ_SYSTEM = 18       /* the system refused; errno says why */
} busq_result;

typedef struct busq_bus busq_bus;
typedef struct busq_peer busq_peer;

typedef struct {
  uint32_t peers;       /* how many may be joined at once */
  uint32_t capacity;    /* messages a queue holds before its senders wait */
  uint64_t arena_bytes; /* memory for messages on their way, all peers together; the largest payload */
  uint32_t permissions; /* mode bits of the file */
} busq_config;

typedef struct {
  uint32_t peers;
  uint32_t capacity;
  uint64_t arena_bytes;
  uint64_t arena_used_bytes; /* extents in use, rounded up */
  uint64_t segment_bytes;
  uint64_t created_ns; /* CLOCK_REALTIME */
  uint32_t creator_pid;
  uint32_t is_shut_down;
} busq_bus_facts;

typedef struct {
  char name[256];
  uint32_t name_bytes;
  uint32_t is_alive; /* the kernel says so */
  uint32_t pid;
  uint32_t incarnation;
  uint64_t joined_ns; /* CLOCK_REALTIME */
  uint64_t clock;     /* Lamport clock of the queue */
  uint64_t depth;     /* references waiting in the queue */
  uint64_t sent;      /* messages sent, a multicast counts once */
  uint64_t received;
  uint64_t late;         /* multicasts whose proposal was lost */
  uint64_t memory_bytes; /* that hold its messages, or are kept for them */
  uint64_t helped;       /* stalled messages of others that it got out of its way */
  uint64_t waited_ns;    /* for how long it has been asleep, waiting */
  uint32_t waits;        /* a busq_waiting */
  uint32_t waits_for;    /* the slot whose room or whose message it waits for */
  uint32_t state;        /* a busq_peer_state */
  uint32_t is_durable;
} busq_peer_facts;

typedef enum {
  BUSQ_PEER_LIVE = 0,
  BUSQ_PEER_CLOSING = 1, /* closed, but messages that it took are still being looked at */
  BUSQ_PEER_CLOSED = 2,
  BUSQ_PEER_UNBURIED = 3, /* dead, and nobody has noticed so far */
  BUSQ_PEER_GONE = 4      /* dead, and what it was doing has been put in order */
} busq_peer_state;

typedef enum {
  BUSQ_WAITING_NOT = 0,
  BUSQ_WAITING_MESSAGE = 1, /* its queue is empty */
  BUSQ_WAITING_BLOCKED = 2, /* what is in its queue is not final; waits_for is the sender, or 0xffff where that is unknown */
  BUSQ_WAITING_ROOM = 3,    /* the queue of waits_for is full */
  BUSQ_WAITING_MEMORY = 4   /* all memory for messages is in use */
} busq_waiting;

/* A message that was taken: the payload stays in place until it is released. */
typedef struct {
  const void *data;
  uint64_t size_bytes;
  uint64_t position; /* in the receiver's ring */
  uint64_t tag;      /* which message of its sender it is */
  uint32_t record;   /* 64-byte unit in the arena */
  uint32_t sender_incarnation;
  uint16_t sender; /* slot */
  uint16_t mark;   /* which of the record's marks is ours */
  uint32_t is_redelivered; /* a predecessor had received it, and did not acknowledge it */
} busq_message;

/* What becomes of a message that is taken. */
typedef enum {
  BUSQ_TAKE_COPIED = 0, /* it is done with */
  BUSQ_TAKE_PINNED = 1, /* its memory stays until busq_peer_release */
  BUSQ_TAKE_OFFERED = 2 /* it stays until busq_peer_ack; a successor receives it again if that does not come */
} busq_take;

const char *busq_error_text(void);
int busq_error_errno(void);

int busq_bus_create(const char *directory, const char *name, const busq_config *config, busq_bus **busp);
int busq_bus_open(const char *directory, const char *name, busq_bus **busp);
int busq_bus_unlink(const char *directory, const char *name);
void busq_bus_free(busq_bus *bus);
int busq_bus_shutdown(busq_bus *bus);
int busq_bus_examine(busq_bus *bus, busq_bus_facts *facts);
int busq_bus_examine_peer(busq_bus *bus, uint32_t slot, busq_peer_facts *facts);

/* Puts in order what dead peers left behind: completes or undoes what they were sending, gives back memory that nobody needs.
 * *buriedp says of how many of them nobody had noticed the death.  Completes or puts off messages of live senders that stand
 * still as well; *helpedp says how many. */
int busq_bus_repair(busq_bus *bus, uint32_t *buriedp, uint32_t *helpedp);
/* The same, and drops messages that wait for peers that are gone and not durable; *droppedp
 * says how many. */
int busq_bus_collect(busq_bus *bus, uint64_t *droppedp);
/* Drops what a dead or closed peer has left, durable or not. */
int busq_bus_remove_peer(busq_bus *bus, const char *name, size_t name_bytes);
void busq_bus_generation(const busq_bus *bus, uint8_t *generation16);

typedef enum {
  BUSQ_JOIN_RESUME = 1, /* goes on where the last peer of that name stopped, if there was one */
  BUSQ_JOIN_DURABLE = 2 /* the queue goes on filling while its peer is gone */
} busq_join_flags;

int busq_peer_join(busq_bus *bus, const char *name, size_t name_bytes, busq_peer **peerp);
int busq_peer_join_as(busq_bus *bus, const char *name, size_t name_bytes, uint32_t flags, busq_peer **peerp);
int busq_peer_close(busq_peer *peer);
void busq_peer_free(busq_peer *peer);
int busq_peer_lookup(busq_peer *peer, const char *name, size_t name_bytes, uint64_t *targetp);
int busq_peer_slot_name(busq_peer *peer, uint32_t slot, uint32_t incarnation, char *name, size_t *name_bytesp);
int busq_peer_send(busq_peer *peer, const uint64_t *targets, uint32_t n_targets, const void *data, size_t size_bytes,
                   int64_t timeout_ns);
int busq_peer_recv(busq_peer *peer, busq_message *messages, uint32_t limit, uint32_t *countp, int64_t timeout_ns);
/* The same in another mode than BUSQ_TAKE_PINNED. */
int busq_peer_recv_as(busq_peer *peer, uint32_t mode, busq_message *messages, uint32_t limit, uint32_t *countp,
                      int64_t timeout_ns);
void busq_peer_release(busq_peer *peer, const busq_message *message);
int busq_peer_ack(busq_peer *peer, const busq_message *message);
int busq_peer_fileno(busq_peer *peer, int *fdp);
uint64_t busq_peer_failed_target(busq_peer *peer);
int busq_peer_wait(busq_peer *peer, int64_t timeout_ns);

/* Receiving without a copy, step by step: between begin and end this thread alone receives. */
int busq_peer_receive_begin(busq_peer *peer);
int busq_peer_receive_peek(busq_peer *peer, busq_message *message);
void busq_peer_receive_take(busq_peer *peer, uint32_t mode);
void busq_peer_receive_end(busq_peer *peer);

/* The same functions as a table, for an extension module that is loaded beside the one that holds them. */
typedef struct {
  int (*send)(busq_peer *peer, const uint64_t *targets, uint32_t n_targets, const void *data, size_t size_bytes,
              int64_t timeout_ns);
  int (*receive_begin)(busq_peer *peer);
  int (*receive_peek)(busq_peer *peer, busq_message *message);
  void (*receive_take)(busq_peer *peer, uint32_t mode);
  void (*receive_end)(busq_peer *peer);
  int (*wait)(busq_peer *peer, int64_t timeout_ns);
  void (*release)(busq_peer *peer, const busq_message *message);
  int (*ack)(busq_peer *peer, const busq_message *message);
  int (*slot_name)(busq_peer *peer, uint32_t slot, uint32_t incarnation, char *name, size_t *name_bytesp);
} busq_calls;

const busq_calls *busq_calls_table(void);
void busq_peer_set_spin(busq_peer *peer, uint32_t spin_ns, uint32_t yield_ns);
/* cffi: end */

/* cffi: begin */
/*
 * Orders: the protocols that a bus or a simulation can use (order/order.h), numbered from 0, the weakest first.
 */

/* What an order promises; what every order promises (nothing lost, doubled, invented) has no bit. */
typedef enum {
  BUSQ_CLAIMS_FIFO = 1,
  BUSQ_CLAIMS_CAUSAL = 2,
  BUSQ_CLAIMS_CONSISTENT = 4,
  BUSQ_CLAIMS_TOTAL = 8,
  BUSQ_CLAIMS_SYNCHRONOUS = 16
} busq_order_claim;

typedef enum {
  BUSQ_ORDER_POINT_TO_POINT = 1, /* a multicast is submitted as one message per destination */
  BUSQ_ORDER_FIFO_CHANNELS = 2,  /* it needs channels that keep the order */
  BUSQ_ORDER_WHOLE_GROUP = 4,    /* every process of the group takes part in every message */
  BUSQ_ORDER_RENDEZVOUS = 8,     /* a send returns when its receiver has delivered, not at once */
  BUSQ_ORDER_LABORATORY = 16     /* known to break, or to get stuck: not for use */
} busq_order_trait;

typedef enum { BUSQ_CLOCK_NONE = 0, BUSQ_CLOCK_VECTOR = 1, BUSQ_CLOCK_MATRIX = 2 } busq_order_clock_shape;

typedef struct {
  const char *name;
  const char *promise; /* a line for people */
  const char *source;
  uint32_t claims; /* of busq_order_claim */
  uint32_t traits; /* of busq_order_trait */
  uint32_t clock;  /* a busq_order_clock_shape: what travels with each message */
  uint32_t n_kinds;
} busq_order_facts;

/* BUSQ_EMPTY where there is no order of that number. */
int busq_order_examine(uint32_t number, busq_order_facts *facts);
/* The name of a kind of packet, or of an option; NULL beyond the last one. */
const char *busq_order_kind_name(uint32_t number, uint32_t kind);
int busq_order_kind_has_payload(uint32_t number, uint32_t kind); /* 1: packets of this kind carry the message */
const char *busq_order_option_text(uint32_t number, uint32_t place);
/* Reads "lamport" or "lamport:ack=all". */
int busq_order_read(const char *text, uint32_t *numberp, uint32_t *optionsp);
/* cffi: end */

/* cffi: begin */
/*
 * Observers: judge a history, that is, what every process sent and delivered in its own order (spec/spec.h says exactly
 * what each property means and counts).  A history belongs to one thread at a time.
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
  BUSQ_PROPERTY_IMPOSSIBLE = 8  /* remark on the history: deliveries whose send could only have come after them */
} busq_property;

enum { BUSQ_N_PROPERTIES = 9, BUSQ_ALL_PROPERTIES = 511, BUSQ_WITNESS_STEPS = 64 };

typedef enum { BUSQ_EVENT_DELIVER = 0, BUSQ_EVENT_SEND = 1 } busq_event_kind;

typedef struct {
  uint64_t message;
  uint32_t process;
  uint32_t unused;
} busq_witness_step;

/*
 * The smallest evidence that was found.  m[] and p[] stand for messages[] and processes[]:
 *   lost        p[0] never delivered m[0], which p[1] sent to it
 *   duplicated  p[0] delivered m[0] again
 *   phantom     p[0] delivered m[0]; n_processes is 2 where somebody, p[1], did send it, but not to p[0]
 *   fifo        p[0] delivered m[1] before m[0], and p[1] sent m[0] before m[1]
 *   causal      p[0] delivered m[1], sent by p[2], before m[0], sent by p[1]; the steps lead from the one send to the
 *               other: p[1] sent m[0] and then (or as) the first step's message; the process of each step delivered its
 *               message, then sent the next one; that of the last step (without steps p[1]) is p[2], and sent m[1]
 *   consistent  p[0] delivered m[0] before m[1], p[1] m[1] before m[0]
 *   total       steps: the process of each step delivered its message before that of the next, the last one before that
 *               of the first
 *   resent      p[0] sent m[0], and the send that counts is another one, by p[1]
 *   impossible  p[0] delivered m[0], and p[1] could send it only after that
 */
typedef struct {
  uint64_t messages[2];
  uint32_t processes[3];
  uint32_t n_messages;
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
  busq_verdict verdicts[9]; /* by busq_property */
} busq_judgement;

int busq_history_new(uint32_t n_processes, busq_history **historyp);
void busq_history_free(busq_history *history);
int busq_history_send(busq_history *history, uint32_t process, uint64_t message, const uint32_t *destinations,
                      uint32_t n_destinations);
int busq_history_deliver(busq_history *history, uint32_t process, uint64_t message);
/*
 * Appends many events of one process, all or none.  `kinds` holds a busq_event_kind for each; NULL means deliveries
 * only.  The destinations of all sends stand one after the other, `destination_counts` says how many each send has;
 * where it is NULL, every send goes to all of them.
 */
int busq_history_append(busq_history *history, uint32_t process, size_t n_events, const uint8_t *kinds,
                        const uint64_t *messages, const uint32_t *destination_counts, const uint32_t *destinations,
                        size_t n_destinations);
/* `properties` is a set of bits, 1 << property. */
int busq_history_judge(const busq_history *history, uint32_t properties, busq_judgement *judgement);
/* cffi: end */

#ifdef __cplusplus
}
#endif
#endif /* BUSQ_H */
