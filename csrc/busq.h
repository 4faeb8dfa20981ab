/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_H
#define BUSQ_H
/*
 * busq: ordered messages between the processes of one machine.
 *
 * The guarantee.  A bus is a file in shared memory; every process joins it as a peer with one queue.  A message goes to
 * one peer or to several at once.  (1) Peers that receive two common messages receive them in the same order, and all
 * these orders together have no cycle.  (2) An effect never arrives before its cause at the same receiver, not even
 * where the cause travelled outside the bus.  (3) A multicast reaches all its receivers or none, each of them once.
 *
 * The mechanism stands in shm/send/multicast.h (sending), shm/receive/receive.h (receiving) and queue/ring.h (the queue
 * between them).
 *
 * A process may be killed, stopped or forked at any instruction: no other process waits for it, and a peer can take
 * over what a dead one of its name had not finished (busq_peer_join_as; shm/death/take_over.h).
 *
 * Not given: order between messages that share no receiver and no cause, delivery to a process that has died and
 * is not resumed, protection from a process of the same user that writes into the file on purpose (damage is found and
 * reported, not prevented), or anything between machines.
 *
 * Calls return a busq_result.  BUSQ_OK is 0; everything else leaves bus and peer as they were, and busq_error_text()
 * returns in words what was found, what was expected and what to do.  Times are nanoseconds of CLOCK_MONOTONIC; a
 * timeout of -1 waits for ever, 0 tries once.  A peer may be used by many threads at once.
 */
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* The Python binding also reads the text between the two cffi marks: plain declarations, no preprocessor. */
/* cffi: begin */
typedef enum {
  BUSQ_OK = 0,
  BUSQ_EMPTY = 1,        /* nothing can be received now */
  BUSQ_FULL = 2,         /* a destination's queue or the memory for messages is full */
  BUSQ_SHUTDOWN = 3,     /* the bus was shut down */
  BUSQ_CLOSED = 4,       /* this handle was closed */
  BUSQ_FORKED = 5,       /* this handle belongs to the parent process */
  BUSQ_UNKNOWN_PEER = 6, /* no peer of that name has joined */
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
  BUSQ_SYSTEM = 18,      /* the system refused; errno has the reason */
  BUSQ_OWN_FULL = 19     /* full is the sender's own queue, from which no other thread receives: waiting would not end */
} busq_result;

typedef struct busq_bus busq_bus;
typedef struct busq_peer busq_peer;
typedef struct busq_window busq_window;

typedef struct {
  uint32_t peers;       /* how many may be joined at once */
  uint32_t capacity;    /* messages a queue holds before its senders wait */
  uint64_t arena_bytes; /* memory for messages on their way, all peers together; the largest payload, unless takes_larger */
  uint32_t permissions; /* mode bits of the file */
  const char *order;    /* as people write it: "lamport:ack=all"; NULL: bus1 */
  uint32_t is_temporary; /* the name goes with the last process that has it open */
  uint32_t groups;      /* names of groups and of watched peers; 0: none */
  uint32_t nodes;       /* of each peer; 0: none */
  uint32_t reserves_late; /* memory is reserved when a peer joins, and when messages or a queue need it, instead of now */
  uint32_t takes_larger; /* up to 4 GiB: what the arena can't hold takes memory while it is on its way; the bus has 32 GiB of addresses more, so
                          * this is ignored where the process has a limit on those, and where the order is not bus1 */
} busq_config;

typedef struct {
  uint32_t peers;
  uint32_t capacity;
  uint64_t arena_bytes;
  uint64_t payload_bytes_max; /* the largest payload */
  uint64_t arena_used_bytes; /* extents in use, rounded up */
  uint64_t segment_bytes;
  uint64_t created_ns; /* CLOCK_REALTIME */
  uint32_t creator_pid;
  uint32_t is_shut_down;
  char order[64]; /* "bus1", or what busq_order_read reads */
  uint32_t permissions; /* mode bits that its creator asked for */
  uint32_t is_temporary;
  uint32_t groups;
  uint32_t nodes;
} busq_bus_facts;

typedef struct {
  char name[256];
  uint32_t name_bytes;
  uint32_t is_alive; /* by the kernel */
  uint32_t pid;
  uint32_t incarnation;
  uint64_t joined_ns; /* CLOCK_REALTIME */
  uint64_t clock;     /* Lamport clock of the queue */
  uint64_t depth;     /* references waiting in the queue */
  uint64_t growth_bytes; /* of memory that it has not got, and needs to hold as many as it may; 0: none */
  uint64_t sent;      /* messages sent, a multicast counts once */
  uint64_t received;
  uint64_t late;         /* multicasts with a lost proposal */
  uint64_t memory_bytes; /* that hold its messages, or are kept for them */
  uint64_t helped;       /* stalled messages of others that it got out of its way */
  uint64_t waited_ns;    /* for how long it has been asleep, waiting */
  uint32_t waits;        /* a busq_waiting */
  uint32_t waits_for;    /* the slot that it waits for: for room, or a message */
  uint32_t state;        /* a busq_peer_state */
  uint32_t is_durable;
  uint64_t target; /* what busq_peer_send takes */
  uint32_t is_shared;   /* a queue of several readers */
  uint32_t is_consumer; /* one of those: it sends under the name of the queue, and can't be found by name */
  uint32_t consumers;   /* of a shared queue, that live */
} busq_peer_facts;

typedef enum {
  BUSQ_PEER_LIVE = 0,
  BUSQ_PEER_CLOSING = 1, /* closed, but messages that it took are still being looked at */
  BUSQ_PEER_CLOSED = 2,
  BUSQ_PEER_UNBURIED = 3, /* dead, and not buried so far */
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
  uint32_t sender_life; /* which of the processes that have joined with its slot has sent it */
  uint16_t sender; /* slot */
  uint16_t mark;   /* which of the record's marks is ours */
  uint16_t is_redelivered; /* a predecessor had received it, and did not acknowledge it */
  uint16_t form;           /* a busq_form */
  uint16_t kind;           /* a busq_kind */
  /* Where the form has BUSQ_FORM_ENVELOPE; the names stand behind the data, those of nodes first
   * (busq_message_node). */
  uint16_t n_nodes;
  uint16_t n_handles;
  uint16_t group;
  uint64_t view;
  uint64_t handles_alive; /* once it is taken: a bit for each that came alive, and is to be released */
} busq_message;

/* The meaning of a payload for its readers; the core does not look into it. */
typedef enum {
  BUSQ_FORM_DATA = 0,
  BUSQ_FORM_OBJECT = 1, /* pickled */
  BUSQ_FORM_CODED = 2,  /* an object as the application's own codec writes it */
  BUSQ_FORM_ASK = 3,    /* the sender waits for a reply: a busq_request stands behind it, and is counted with it */
  BUSQ_FORM_REPLY = 4,  /* the same request stands behind it */
  BUSQ_FORM_CONTROL = 5, /* for the library above, and never handed to an application */
  BUSQ_FORM_WIDE = 6,    /* from another machine, or from this one by the same way: a busq_wide stands behind it, and is counted with it */
  BUSQ_FORM_MAX = 7,
  BUSQ_FORM_ENVELOPE = 8 /* beside one of these: an envelope stands behind the payload (shm/letter/envelope.h), and is not counted with it */
} busq_form;

/* The end of a payload of BUSQ_FORM_WIDE.  Before it stand the bridge's own bytes and the name of the sender, "MACHINE/peer"; before those, what
 * was sent. */
typedef struct {
  uint64_t place;       /* in the domain's stream */
  uint64_t view;        /* of the group, in which it was sent there; 0: in none that is known */
  uint32_t index;       /* in the batch that stands there */
  uint16_t name_bytes;
  uint8_t bridge_bytes;
  uint8_t flags;        /* BUSQ_WIDE_OWN ... */
} busq_wide;

enum {
  BUSQ_WIDE_OWN = 1, /* it was sent on this bus */
  BUSQ_WIDE_VIEW = 2 /* it is a view of the group, for the library above */
};

#define BUSQ_WIDE_NONE 0xffffffff /* the index of no message, but of a note that the bridge writes for itself */

/* The kind of a message, beside its form: data, or an event that stands in the order as messages do. */
typedef enum {
  BUSQ_KIND_DATA = 0,
  BUSQ_KIND_VIEW = 1,           /* a group has another view */
  BUSQ_KIND_JOINED = 2,         /* a peer that is watched is there */
  BUSQ_KIND_LEFT = 3,           /* it has left, or died */
  BUSQ_KIND_NODE_DESTROYED = 4,
  BUSQ_KIND_NODE_RELEASED = 5,  /* no handle of the node is held any more */
  BUSQ_KIND_WATCH = 7,          /* a peer is watched by others than before; passed by every reader.  6 is free */
  BUSQ_KIND_MAX = 7
} busq_kind;

/* Behind the payload of a message with BUSQ_FORM_ENVELOPE in its form. */
typedef struct {
  uint16_t kind;      /* a busq_kind */
  uint16_t n_nodes;   /* that it is addressed to */
  uint16_t n_handles; /* that it carries */
  uint16_t group;     /* that it is addressed to: 1 + its index; 0: none */
  uint64_t view;      /* of the group, that it is for; of a view, its own number */
} busq_envelope;

typedef struct {
  uint64_t number; /* of one of the asker's requests (shm/message/reply_place.h) */
  uint64_t to;     /* the target that takes the reply */
} busq_request;

/* The receivers of a message, names and nodes, and the nodes of the handles that it carries. */
typedef struct {
  const uint64_t *targets;
  const uint64_t *nodes;
  const uint64_t *handles;
  uint32_t n_targets;
  uint32_t n_nodes;
  uint32_t n_handles;
} busq_letter;

/* A piece of a payload. */
typedef struct {
  const void *data;
  uint64_t size_bytes;
} busq_part;

/* The mode in which a message is taken. */
typedef enum {
  BUSQ_TAKE_COPIED = 0, /* it is done with */
  BUSQ_TAKE_PINNED = 1, /* its memory stays until busq_peer_release */
  BUSQ_TAKE_OFFERED = 2, /* it stays until busq_peer_ack; a successor receives it again if that does not come */
  BUSQ_TAKE_DRAFT = 3, /* of a pin: it was not received, but is going to be sent */
  BUSQ_TAKE_ACKED = 4 /* of a pin: it was offered, and acknowledged while it was shown */
} busq_take;

const char *busq_error_text(void);
int busq_error_errno(void);

/* Why the latest BUSQ_FULL in this thread came. */
typedef enum {
  BUSQ_SHORT_OF_NOTHING = 0, /* a queue held as many as it may */
  BUSQ_SHORT_OF_MEMORY = 1,  /* the memory for messages was full */
  BUSQ_SHORT_QUEUE = 2       /* a queue held fewer than it may, and its file system had no memory for more */
} busq_shortage;
int busq_error_shortage(void);

int busq_bus_create(const char *directory, const char *name, const busq_config *config, busq_bus **busp);
int busq_bus_open(const char *directory, const char *name, busq_bus **busp);
int busq_bus_unlink(const char *directory, const char *name);
/* Is this the file of a bus whose name was taken away by others than busq, as when its directory was wiped?  Processes
 * that use it go on, and no other one finds it.  The name that it had is copied. */
int busq_file_lost_its_name(int fd, char *name256);
int busq_bus_lost_its_name(busq_bus *bus);
/* Lets go of all temporary buses, as the end of a process does that does not end by _exit. */
void busq_bus_leave_all(void);
/* Removes temporary buses if all their processes were killed, as creating or opening one does; *removedp is how
 * many. */
int busq_bus_sweep(const char *directory, uint32_t *removedp);
void busq_bus_free(busq_bus *bus);
int busq_bus_shutdown(busq_bus *bus);
int busq_bus_is_shut_down(const busq_bus *bus);
int busq_bus_examine(busq_bus *bus, busq_bus_facts *facts);
int busq_bus_examine_peer(busq_bus *bus, uint32_t slot, busq_peer_facts *facts);
/* All of them, by slot: a name of no bytes where no peer is remembered. */
void busq_bus_examine_peers(busq_bus *bus, busq_peer_facts *facts);
/* How many places of a peer's queue are taken. */
int busq_bus_depth(busq_bus *bus, uint64_t target, uint64_t *depthp);
/* How many places of a peer's queue were given back so far, as what stood there was taken. */
int busq_bus_passed(busq_bus *bus, uint64_t target, uint64_t *passedp);
/* Can its queue hold no more than it does, though it may, for want of memory?  It is asked for. */
int busq_bus_is_short(busq_bus *bus, uint64_t target, int *is_shortp);
/* 1 while a peer has neither closed nor died, by the kernel, buried or not; a target out of range is none. */
int busq_bus_is_live(const busq_bus *bus, uint64_t target);

/* Puts in order what dead peers left behind: completes or undoes what they were sending, gives back memory that is not
 * needed. *buriedp is the number of deaths that had not been noticed.  Completes or puts off messages of live senders
 * that stand still as well; *helpedp is how many. */
int busq_bus_repair(busq_bus *bus, uint32_t *buriedp, uint32_t *helpedp);
/* Keeps descriptors of the bus in store, here and in forked children, for a process that becomes another user, as a worker
 * that drops root does: it may not open the bus once more.  Six at a time: a peer takes one, and a look after the dead. */
void busq_bus_expect_another_user(busq_bus *bus);
/* As busq_bus_repair, and drops messages that wait for peers that are gone and not durable; *droppedp is how many.
 * Groups of such members alone are empty then. */
int busq_bus_collect(busq_bus *bus, uint64_t *droppedp);
/* Messages in the queue of a peer (busq_peer_facts.target) that were not taken, and those as well that were received
 * and are not acknowledged.  A step per message; BUSQ_PEER_DEAD where the slot is another's by now. */
int busq_bus_count(busq_bus *bus, uint64_t target, uint64_t *waitingp, uint64_t *unfinishedp);

/* A message that waits in a queue, as a look found it (shm/peek.c). */
typedef struct {
  uint64_t timestamp;
  uint64_t sequence; /* among those of its sender: messages of one queue are ordered by timestamp, sender and this */
  uint64_t size_bytes;
  uint32_t form; /* BUSQ_FORM_* */
  uint32_t is_redelivered;
  uint32_t sender_bytes; /* 0: its name is another peer's by now */
  char sender[256];
} busq_peeked;

/* Copies the next message that waits for a peer, dead or alive (busq_peer_facts.target), and takes none: `room` bytes of
 * it at most.  *cursorp begins at 0.  BUSQ_EMPTY: no more; BUSQ_PEER_DEAD where the slot is another's by now. */
int busq_bus_peek(busq_bus *bus, uint64_t target, uint64_t *cursorp, busq_peeked *peeked, void *data, size_t room);
/* Drops what a dead or closed peer has left, durable or not. */
int busq_bus_remove_peer(busq_bus *bus, const char *name, size_t name_bytes);
void busq_bus_generation(const busq_bus *bus, uint8_t *generation16);

typedef enum {
  BUSQ_JOIN_RESUME = 1, /* goes on where the last peer of that name stopped, if there was one */
  BUSQ_JOIN_DURABLE = 2, /* the queue goes on filling while its peer is gone */
  BUSQ_JOIN_SHARED = 4   /* with others that join under the same name: each message goes to one of them */
} busq_join_flags;

int busq_peer_join(busq_bus *bus, const char *name, size_t name_bytes, busq_peer **peerp);
int busq_peer_join_as(busq_bus *bus, const char *name, size_t name_bytes, uint32_t flags, busq_peer **peerp);
/* Lets senders wait at fewer messages in the queue that the peer reads than the bus's capacity; 0: no longer.  A
 * message to several receivers may exceed it, by one for each sender that sends one just then. */
int busq_peer_limit(busq_peer *peer, uint32_t limit);
/* Counts what a process keeps for a queue that has no room: beside a peer of it, for all processes to see, until the
 * peer is gone.  The key names the queue among all that are counted on this bus; 0 is none.
 *   add     one more.  BUSQ_FULL: all processes together have `bound` of them, where that is not 0.  BUSQ_NO_SPACE:
 *           this peer counts for another key, and does so until it has settled all of it; take another peer.
 *   settle  one less. */
int busq_peer_tally_add(busq_peer *peer, uint64_t key, uint64_t bound);
void busq_peer_tally_settle(busq_peer *peer);
/* How many all processes that live keep.  A step per peer. */
uint64_t busq_bus_tally(busq_bus *bus, uint64_t key);
/* Ends a shared queue: nothing is put into it any more, by any process, but by a peer that sends behind the end what waited in
 * its process before.  What is in it is received, and then each receive is BUSQ_SHUTDOWN, as every send is; with `drops`, at
 * once, and nothing of it is received.  Twice is harmless. */
typedef enum { BUSQ_QUEUE_OPEN, BUSQ_QUEUE_ENDED, BUSQ_QUEUE_DROPPED } busq_queue_end;
int busq_bus_end_queue(busq_bus *bus, uint64_t target, int drops);
int busq_bus_queue_end(busq_bus *bus, uint64_t target, busq_queue_end *endp);
void busq_peer_send_behind(busq_peer *peer);
busq_queue_end busq_peer_queue_end(const busq_peer *peer, uint64_t target); /* OPEN also where it is another queue by now */
/* How often the queue of that name was handed on, and not opened so far, after a change by +1, -1 or 0: a process that hands it
 * on keeps the bus open for as long.  Never below 0; 0 where there is no such queue. */
uint64_t busq_bus_handed(busq_bus *bus, const char *name, size_t name_bytes, int change);
/* Messages of a shared queue that are reported as done by a process that has not taken them: how many are, in the low half of
 * the word; the other half changes with each swap.  0 where it is another queue by now; the swap fails then, and where the
 * word is no longer the one that was seen. */
uint64_t busq_bus_ahead(busq_bus *bus, uint64_t target);
int busq_bus_swap_ahead(busq_bus *bus, uint64_t target, uint64_t seen, uint32_t ahead);
/* How many places no new peer can have without another one's being given up: those of peers that live, or died unnoticed, and
 * of durable ones.  A step per place. */
uint32_t busq_bus_taken(const busq_bus *bus);
/* How many places are taken in the hands of a reader of a shared queue, from the first message on that is not done with. */
uint64_t busq_peer_hands(busq_peer *peer);
int busq_peer_close(busq_peer *peer);
/* The handle lives until it was freed once more than it was retained. */
void busq_peer_retain(busq_peer *peer);
void busq_peer_free(busq_peer *peer);
int busq_peer_lookup(busq_peer *peer, const char *name, size_t name_bytes, uint64_t *targetp);
/* The slot and the life are those of the sender of a message. */
int busq_peer_slot_name(busq_peer *peer, uint32_t slot, uint32_t life, char *name, size_t *name_bytesp);
int busq_peer_send(busq_peer *peer, const uint64_t *targets, uint32_t n_targets, const void *data, size_t size_bytes,
                   int64_t timeout_ns);
int busq_peer_recv(busq_peer *peer, busq_message *messages, uint32_t limit, uint32_t *countp, int64_t timeout_ns);
/* As busq_peer_recv, in another mode than BUSQ_TAKE_PINNED. */
int busq_peer_recv_as(busq_peer *peer, uint32_t mode, busq_message *messages, uint32_t limit, uint32_t *countp,
                      int64_t timeout_ns);
void busq_peer_release(busq_peer *peer, const busq_message *message);
int busq_peer_is_forked(const busq_peer *peer); /* 1: the handle belongs to the parent process */
int busq_peer_ack(busq_peer *peer, const busq_message *message);
/* Acknowledges one whose memory is still looked at: from now on it is pinned, and has to be released; a pin sees to
 * that. */
int busq_peer_ack_and_keep(busq_peer *peer, const busq_message *message);
/* Gives back a message that was taken, pinned or offered, and that the application has not seen: it comes next, as if
 * it had not been taken.  BUSQ_INVALID where that can't be; then it is still taken. */
int busq_peer_give_back(busq_peer *peer, uint32_t mode, const busq_message *message);
int busq_peer_fileno(busq_peer *peer, int *fdp);

/*
 * Sending and receiving behind the descriptor of busq_peer_fileno, for an event loop (shm/wake/wake.h):
 *
 *   1. busq_peer_listen(NOT): takes back what was asked for; the descriptor is unreadable, and no sender writes to it
 *   2. receive with timeout 0 (busq_peer_recv), send with busq_peer_send_asking: BUSQ_FULL has asked for the room that
 *   was missing
 *   3. to go on waiting: busq_peer_listen(MESSAGES or ROOM); the descriptor is readable as soon as 1 to 3 are worth
 *   doing again
 */
typedef enum {
  BUSQ_LISTEN_NOT = 0,
  BUSQ_LISTEN_MESSAGES = 1, /* readable while there is something to receive; for room as well, where it was asked for */
  BUSQ_LISTEN_ROOM = 2,     /* for room alone, while messages in the queue are left where they are */
  BUSQ_LISTEN_LIVES = 4     /* beside one of these: every slice, so that lives can be looked at */
} busq_listen;

int busq_peer_listen(busq_peer *peer, uint32_t what);
/* Tries once, as busq_peer_send_parts with no time; where there is no room, asks for it and tries again. */
int busq_peer_send_asking(busq_peer *peer, const uint64_t *targets, uint32_t n_targets, const busq_part *parts, uint32_t n_parts,
                          uint32_t form, uint32_t *sentp);

uint64_t busq_peer_failed_target(busq_peer *peer);
/* For what was tried with no time, and got BUSQ_FULL: asks for the room that was missing, as busq_peer_send_asking
 * does.  Try once more before you sleep; where another target is full then, ask for its room, too. */
int busq_peer_ask_for_room(busq_peer *peer);
int busq_peer_wait(busq_peer *peer, int64_t timeout_ns);
/* As busq_peer_wait without spinning, for a caller that has done that already. */
int busq_peer_wait_spun(busq_peer *peer, int64_t timeout_ns);

/* Receiving without a copy, step by step: between begin and end this thread alone receives. */
int busq_peer_receive_begin(busq_peer *peer);
int busq_peer_receive_peek(busq_peer *peer, busq_message *message);
/* As peek, for a caller that takes plain bytes, fewer than so many, in the mode BUSQ_TAKE_COPIED; UINT64_MAX: whatever comes.
 * One of several readers needs memory for what it keeps, and none for that. */
int busq_peer_receive_peek_to_copy(busq_peer *peer, uint64_t copied_below, busq_message *message);
/* Peeks for as long as this peer spins before it sleeps: microseconds.  BUSQ_EMPTY: go on with busq_peer_wait_spun.
 * One of several readers has nothing then before it peeks again: others may be faster. */
int busq_peer_receive_spin(busq_peer *peer, busq_message *message);
void busq_peer_receive_take(busq_peer *peer, uint32_t mode);
/* Releases a pinned message. */
void busq_peer_receive_release(busq_peer *peer, const busq_message *messages, size_t n_messages);
void busq_peer_receive_end(busq_peer *peer);

/*
 * A hold on one message, for a language where an exception may come between any two steps: it is there before the
 * message is taken, and it is let go once, however often that is asked for.
 *
 *   EMPTY -> TAKEN     busq_pin_recv; dropped now, the message is given back
 *   TAKEN -> KEPT      the caller's own store, as its last step before it hands the message over; dropped now, it is
 *                      released, or, where it was offered, left to a successor
 *   EMPTY -> KEPT      busq_pin_open and then busq_pin_adopt, for a message that the caller has taken by itself
 *   KEPT -> SHOWN      busq_pin_show for each view of it, and busq_pin_end where a view ends: it is looked at in place,
 *                      at message.data, where it can't be written to; a forked child goes on seeing what it was
 *   SHOWN -> KEPT      the last view of a message that is not acknowledged has ended
 *   -> EMPTY           everything else
 */
typedef enum { BUSQ_PIN_EMPTY = 0, BUSQ_PIN_TAKEN = 1, BUSQ_PIN_KEPT = 2, BUSQ_PIN_SHOWN = 3, BUSQ_PIN_BUSY = 4 } busq_pin_state;

typedef struct busq_pin busq_pin;
struct busq_pin {
  uint32_t state;
  uint32_t mode; /* BUSQ_TAKE_PINNED or BUSQ_TAKE_OFFERED */
  uint32_t fork_generation; /* of the process that took it */
  busq_peer *peer;
  busq_message message;
  busq_pin *next; /* of those that are shown */
  busq_pin **link;
  busq_window *window; /* through which its message is shown; NULL: it is a draft, or was not shown so far */
  void *copy; /* while the process forks */
  uint32_t n_views;
};

int busq_pin_recv(busq_pin *pin, busq_peer *peer, uint32_t mode, int64_t timeout_ns);
/* Prepares an empty pin for what the caller has taken, in a mode, and held in its own way so far: message.data is where
 * it can be shown.  From busq_pin_adopt on the pin holds it. */
int busq_pin_open(busq_pin *pin, busq_peer *peer, uint32_t mode, const busq_message *message);
void busq_pin_adopt(busq_pin *pin, busq_peer *peer);
/* BUSQ_CLOSED: it waits to be acknowledged, and belongs to a successor of its peer. */
int busq_pin_show(busq_pin *pin);
/* Only once; then, and where there is nothing to acknowledge, BUSQ_OK.  It stays for as long as it is shown. */
int busq_pin_ack(busq_pin *pin);
void busq_pin_give_back(busq_pin *pin);
/* For the memory that shows a message: lets go of one that is kept, not of one that is only taken. */
void busq_pin_end(busq_pin *pin, const void *data);
void busq_pin_drop(busq_pin *pin);

/*
 * Drafts: messages that are written in place before they are sent, without a copy.  A draft is a pin, too:
 *
 *   EMPTY -> TAKEN     busq_pin_reserve; message.data and message.size_bytes are its memory; dropped, it is given back
 *   TAKEN <-> SHOWN    busq_pin_show for each view of it, busq_pin_end where a view ends
 *   TAKEN -> EMPTY     busq_pin_send: no view is left that could write to what is sent
 *
 * `n_targets`: to how many receivers it can be sent; 0: to BUSQ_DRAFT_TARGETS.  A payload of 512 bytes or more is where
 * it was written when that many or fewer get it; others are moved inside the record.
 */
enum { BUSQ_DRAFT_TARGETS = 7 }; /* as fit into a record's first line */
int busq_peer_reserve(busq_peer *peer, uint64_t size_bytes, uint32_t n_targets, int64_t timeout_ns, busq_message *draft);
/* Sends the first so many bytes of it.  From BUSQ_OK on, it is no draft any more; otherwise it is still there. */
/* Sends parts to names and nodes, and with handles.  BUSQ_PEER_DEAD with *sentp 1: it is sent, and some of the nodes
 * were over at its place in the order; missed[n_nodes] shows which.  With *sentp 0 it is not sent. */
int busq_peer_send_letter(busq_peer *peer, const busq_letter *letter, const busq_part *parts, uint32_t n_parts, uint32_t form,
                          int64_t timeout_ns, uint8_t *missed, uint32_t *sentp);
int busq_peer_send_letter_asking(busq_peer *peer, const busq_letter *letter, const busq_part *parts, uint32_t n_parts, uint32_t form,
                                 uint8_t *missed, uint32_t *sentp);

/*
 * Nodes and handles (shm/node/node.h).  A node is named by a number: which of its owner's, and which generation.
 */
int busq_peer_node(busq_peer *peer, uint64_t *nodep);
/* Ends it, for all peers at one place in the order; BUSQ_FULL where the queue of a holder has no room. */
int busq_peer_node_destroy(busq_peer *peer, uint64_t node, int64_t timeout_ns);
int busq_peer_node_is_alive(busq_peer *peer, uint64_t node); /* 1; 0 also where there never was one */
/* One less keeps the handle: each message that brings it alive counts for one. */
void busq_peer_handle_release(busq_peer *peer, uint64_t node);
/* Does this peer hold it? */
int busq_peer_handle_is_held(busq_peer *peer, uint64_t node);
/* Has the node ended, and this peer taken the notice, or gets none? */
int busq_peer_handle_is_over(busq_peer *peer, uint64_t node);
/* The name of its owner. */
int busq_peer_node_owner(busq_peer *peer, uint64_t node, char *name, size_t *name_bytesp);
/* From `from` on, the next node that this peer owns, or holds a handle of; BUSQ_EMPTY where there are none.  *fromp
 * moves on. */
int busq_peer_next_node(busq_peer *peer, uint64_t *fromp, uint64_t *nodep, uint32_t *is_ownp);
uint64_t busq_message_node(const busq_message *message, uint32_t at);
/* The handles of the message that was taken last, between begin and end. */
uint64_t busq_peer_handles_alive(const busq_peer *peer);

int busq_peer_send_draft(busq_peer *peer, const uint64_t *targets, uint32_t n_targets, const busq_message *draft,
                         uint64_t size_bytes, uint32_t form, int64_t timeout_ns, uint32_t *sentp);
/* Gives it back, also after its peer was closed. */
void busq_peer_discard(busq_peer *peer, const busq_message *draft);
int busq_pin_reserve(busq_pin *pin, busq_peer *peer, uint64_t size_bytes, uint32_t n_targets, int64_t timeout_ns);
/* BUSQ_INVALID where it is shown, or is no draft (any more). */
int busq_pin_send(busq_pin *pin, const uint64_t *targets, uint32_t n_targets, uint64_t size_bytes, uint32_t form,
                  int64_t timeout_ns, uint32_t *sentp);

/* As busq_peer_send: the parts become one payload, of that form, and *sentp becomes 1 as soon as it was sent, because
 * the result may be lost to an exception. */
int busq_peer_send_parts(busq_peer *peer, const uint64_t *targets, uint32_t n_targets, const busq_part *parts, uint32_t n_parts,
                         uint32_t form, int64_t timeout_ns, uint32_t *sentp);

/*
 * Requests (shm/request.h).  A peer that asks joins a second time, for the replies; it sends a payload of BUSQ_FORM_ASK
 * and receives one of BUSQ_FORM_REPLY there.
 */
int busq_peer_join_replies(busq_peer *peer, busq_peer **repliesp);
uint64_t busq_peer_target(const busq_peer *peer);
/* Holds the place of a reply, and gives the request that is to be sent its number.  BUSQ_FULL where as many wait, or
 * replies are kept, as a queue holds messages; the second form then asks for room, as busq_peer_send_asking. */
int busq_peer_request_begin(busq_peer *peer, busq_peer *replies, int64_t timeout_ns, uint64_t *numberp);
int busq_peer_request_begin_asking(busq_peer *peer, busq_peer *replies, uint64_t *numberp);
/* The reply was taken. */
void busq_peer_request_answered(busq_peer *replies, uint64_t number);
/* The request waits no more: a reply to it is not sent, or, if that has begun, is to be dropped where it arrives.
 * Changes nothing where the reply was taken. */
void busq_peer_request_end(busq_peer *replies, uint64_t number);
/* The life that a request depends on, as a name: of the reader that has taken it, or of the peer that was asked, which
 * began then.  0: its reply was taken. */
uint64_t busq_peer_request_life(busq_peer *replies, uint64_t number, uint64_t target, uint64_t began);
/* Asks the kernel about it. */
int busq_peer_life_goes_on(busq_peer *peer, uint64_t life);
/* Makes the peer's descriptor readable at the end of that life; BUSQ_EMPTY where nothing can report that (wake/end_watch.h). */
int busq_peer_watch_life(busq_peer *peer, uint64_t life);
/* Wakes a thread of this process that waits for what this peer receives. */
void busq_peer_wake(busq_peer *peer);
/* BUSQ_PEER_DEAD where one of the processes has ended, and then none is watched any more; nor if it does not go on. */
int busq_peer_watched_lives(busq_peer *peer, int goes_on);
/* Replies, if the asker waits for it; BUSQ_EMPTY if it does not, and lives.  The parts end with the request. */
int busq_peer_reply(busq_peer *peer, const busq_request *request, const busq_part *parts, uint32_t n_parts,
                    int64_t timeout_ns, uint32_t *sentp);
/* Does a process stand behind a target?  Its lives differ in when they began.  Asked right before a send, which asks the
 * kernel itself unless messages may go to the dead: then this does. */
int busq_peer_life_at_send(busq_peer *peer, uint64_t target, uint64_t *beganp);
/* Has a live process that name?  BUSQ_PEER_DEAD: one had.  *countp is how many processes read the queue of that name: 1,
 * unless it is shared. */
int busq_bus_readers(busq_bus *bus, const char *name, size_t name_bytes, uint32_t *countp, uint32_t *is_sharedp);
/* The end of the queue, as it is now; and whether everything before such an end was taken. */
uint64_t busq_peer_tail(const busq_peer *replies);
int busq_peer_has_received(busq_peer *replies, uint64_t position);
/* All that this peer sends from now on is later than what the other handle has received. */
void busq_peer_follow(busq_peer *peer, const busq_peer *replies);

/*
 * Groups (shm/group/group.h), and peers that are watched.  A group's name has "@" before it, and busq_peer_lookup gives
 * its target, once a peer has entered it: sent to, alone or beside peers, it stands for its members.  Entering what one
 * is in, and leaving what one is not, is done at once.  A change takes room in its receivers' queues: BUSQ_FULL as for
 * a message.  A message in a durable queue "wide@NAME" closes "@NAME": a peer that enters gets BUSQ_INVALID.  A process that
 * sends it, and then leaves the group, knows its members: no other peer is about to enter.
 *
 * What is delivered then has an envelope with its kind; the payload of a view, of `joined` and of `left` is
 *
 *      busq_view_event | so many times busq_view_member | their names | the name of the group, with "@"
 */
enum {
  BUSQ_CHANGE_ENTERS = 1,
  BUSQ_CHANGE_LEAVES = 2,
  BUSQ_CHANGE_DIES = 3,
  BUSQ_CHANGE_UP = 4,  /* of a watched name: is there */
  BUSQ_CHANGE_DOWN = 5 /* ... and is not */
};
typedef struct {
  uint64_t number;      /* of the view */
  uint32_t incarnation; /* of the peer that has entered, left or died */
  uint32_t life;        /* of it: the number of its process, among those that have joined with that slot */
  uint16_t slot;
  uint16_t what;        /* BUSQ_CHANGE_... */
  uint32_t n_entries;
  uint32_t n_members;   /* the first of the entries; behind them the one that has gone, or that is watched */
  uint32_t nothing;
  uint64_t shown_above; /* of a group: its numbers are shown above this, which wraps around where it is below 0 */
} busq_view_event;

typedef struct {
  uint32_t incarnation;
  uint32_t life;
  uint16_t slot;
  uint16_t name_bytes;
} busq_view_member;

int busq_peer_enter(busq_peer *peer, const char *group, size_t group_bytes, int64_t timeout_ns);
int busq_peer_leave(busq_peer *peer, const char *group, size_t group_bytes, int64_t timeout_ns);
int busq_peer_watch(busq_peer *peer, const char *name, size_t name_bytes, int64_t timeout_ns);
int busq_peer_unwatch(busq_peer *peer, const char *name, size_t name_bytes, int64_t timeout_ns);
/* The envelope of a message that was found or taken; kind BUSQ_KIND_DATA and nothing else where it has none. */
void busq_message_envelope(const busq_message *message, busq_envelope *envelope);
/* The view that is installed: its number, which never goes back under one name, from 1, and its members' targets in the order in which they entered; there
 * must be room for twice as many as the bus has slots. */
int busq_bus_view(busq_bus *bus, const char *group, size_t group_bytes, uint64_t *numberp, uint64_t *members, uint32_t *countp);
/* The lives of those members, as numbers of busq_message.sender_life. */
int busq_bus_view_lives(busq_bus *bus, const char *group, size_t group_bytes, const uint64_t *members, uint32_t count, uint32_t *lives);
/* The groups that have a name, by index; BUSQ_EMPTY where one has none.  With "@", or "?" where it is a peer's that is
 * watched. */
int busq_bus_group_name(busq_bus *bus, uint32_t index, char *name257, size_t *name_bytesp);
/* The last view of a group that the peer in a slot has delivered, by its number from 1; 0: none so far. */
int busq_bus_group_seen(busq_bus *bus, uint32_t index, uint32_t slot, uint64_t *numberp);

void busq_peer_set_spin(busq_peer *peer, uint32_t spin_ns, uint32_t yield_ns);
/* cffi: end */

/* cffi: begin */
/*
 * Recording: what every peer of a bus does, event by event (record/recorder.h).  A recorder belongs to one thread at a
 * time.
 */
typedef struct busq_recorder busq_recorder;

enum {
  BUSQ_LABEL_NONE = 0,
  BUSQ_LABEL_BEFORE = 1,     /* a delivery of a message whose send is not there: before the recording, or dropped */
  BUSQ_LABEL_UNFINISHED = 2, /* a send whose sender died in it */
  BUSQ_LABEL_DIED = 3,       /* the process died here: what it had begun to write down is missing */
  BUSQ_LABEL_KILLED = 4,     /* the recorder was killed here, and another one went on */
  BUSQ_LABEL_WIDE = 5,       /* a message to a wide group is re-sent here: the row has its place, its index there, and its view */
  BUSQ_LABEL_WIDE_OWN = 6    /* so is one that was sent on this bus */
};

/* Rows in program order, as columns in Arrow's layout; has_* are bitmaps. */
typedef struct {
  uint64_t n_rows;
  uint64_t n_to;
  uint64_t n_labels; /* rows with a label */
  uint64_t n_grouped; /* rows about a group */
  uint64_t n_members;
  int64_t *position;
  int64_t *message;
  int64_t *stamp;
  int64_t *time_ns;
  int64_t *commit_ns;
  int64_t *end_ns;
  int64_t *view;
  int64_t *place; /* of rows with BUSQ_LABEL_WIDE*, as the next one */
  int64_t *place_index;
  int32_t *group; /* a number of the recorder's */
  int8_t *kind;
  uint8_t *label;    /* BUSQ_LABEL_* */
  int32_t *to_start; /* [n_rows + 1] */
  int32_t *to;
  int32_t *members_start;
  int32_t *members; /* -1: one that is not known any more */
  uint8_t *has_message;
  uint8_t *has_stamp;
  uint8_t *has_time;
  uint8_t *has_commit;
  uint8_t *has_end;
  uint8_t *has_to;
  uint8_t *has_group; /* and a view */
  uint8_t *has_members;
} busq_trace_columns;

typedef struct {
  uint64_t events;   /* taken from rings */
  uint64_t dropped;  /* by peers that found their ring full */
  uint64_t gaps;     /* holes that peers left which died while they wrote */
  uint64_t before;   /* deliveries of messages sent before the recording */
  uint64_t lost;     /* that a recorder had taken which was killed before it wrote them */
  uint32_t processes;
  uint32_t fill_percent; /* how full the fullest ring was, the last time */
  uint32_t ring_records;
  uint32_t is_continued; /* another recorder had been killed */
  uint64_t left; /* records that stand in the rings and were not taken yet */
} busq_recorder_facts;

void busq_trace_columns_free(busq_trace_columns *columns);
/* `ring_records`: per peer, a power of two, 0 for as many as are sensible.  BUSQ_EXISTS where another recorder is at
 * work. */
int busq_recorder_open(busq_bus *bus, uint32_t ring_records, busq_recorder **recorderp);
/* A process that an earlier recorder knew: its index is the number of calls before; its next position and message
 * number.  Before the first drain. */
int busq_recorder_know(busq_recorder *recorder, const char *name, size_t name_bytes, int64_t position, int64_t number);
/* One of those read a shared queue, from that slot; `queue` is the process of the queue's name. */
int busq_recorder_know_reader(busq_recorder *recorder, uint32_t process, uint32_t queue, uint32_t slot);
/* Behind those calls: the files of the recorder that was killed are gone on with. */
int busq_recorder_resume(busq_recorder *recorder);
/* Takes what is there out of the rings. */
int busq_recorder_drain(busq_recorder *recorder);
/* Makes rows of what is settled; with `is_all`, of everything. */
int busq_recorder_settle(busq_recorder *recorder, int is_all);
/* Takes the rows of a process; *columnsp stays NULL where there are none. */
void busq_recorder_take(busq_recorder *recorder, uint32_t process, busq_trace_columns **columnsp);
/* Everything up to here was taken, and later: that is written.  A recorder that comes after us goes on behind it. */
void busq_recorder_mark(busq_recorder *recorder);
void busq_recorder_saved(busq_recorder *recorder);
int busq_recorder_name(busq_recorder *recorder, uint32_t process, char *name, size_t *name_bytesp);
/* The process of the queue's name, which is its first reader, and the slot, of a process that reads a shared queue;
 * BUSQ_EMPTY: it does not. */
int busq_recorder_reader(busq_recorder *recorder, uint32_t process, uint32_t *queuep, uint32_t *slotp);
/* A group in one of its lives: its name, without "@", its entry, and the number below its views, which sets lives of an
 * entry apart; BUSQ_EMPTY: there are not so many. */
int busq_recorder_group(busq_recorder *recorder, uint32_t group, char *name, size_t *name_bytesp, uint32_t *indexp, uint64_t *basep);
int busq_recorder_examine(busq_recorder *recorder, busq_recorder_facts *facts);
/* Asks the kernel which peers are gone.  The next busq_recorder_settle records the deaths of those that had not left. */
void busq_recorder_look_for_dead(busq_recorder *recorder);
/* Makes the peers stop; what they have written by then can still be drained. */
void busq_recorder_stop(busq_recorder *recorder);
/* Ends the recording and removes its rings, if it was stopped; otherwise leaves them to another recorder. */
void busq_recorder_free(busq_recorder *recorder);
/* cffi: end */

/* cffi: begin */
/*
 * Orders: the protocols that a bus or a simulation can use (order/order.h), numbered from 0, the weakest first.
 */

/* The promises of an order; those of every order (nothing lost, doubled, invented) have no bit. */
typedef enum {
  BUSQ_CLAIMS_FIFO = 1,
  BUSQ_CLAIMS_CAUSAL = 2,
  BUSQ_CLAIMS_CONSISTENT = 4,
  BUSQ_CLAIMS_TOTAL = 8,
  BUSQ_CLAIMS_SYNCHRONOUS = 16
} busq_order_claim;

/* What holds, of the processes that live on, when others die. */
typedef enum {
  BUSQ_CRASH_VALIDITY = 1,  /* what a process that lives has sent is delivered wherever it should */
  BUSQ_CRASH_AGREEMENT = 2, /* what one of them has delivered, all destinations deliver */
  BUSQ_CRASH_UNIFORM = 4,   /* what any process has delivered, even one that died then */
  BUSQ_CRASH_GOES_ON = 8    /* none of them waits for ever */
} busq_order_crash;

enum { BUSQ_ORDER_GO_ON = 1024, BUSQ_ORDER_NODES = 32768 }; /* options that busq_order_read gives: on_crash=go-on; nodes=one, of bus1 */

typedef enum {
  BUSQ_ORDER_POINT_TO_POINT = 1, /* a multicast is submitted as one message per destination */
  BUSQ_ORDER_FIFO_CHANNELS = 2,  /* it needs channels that keep the order */
  BUSQ_ORDER_WHOLE_GROUP = 4,    /* every process of the group takes part in every message */
  BUSQ_ORDER_RENDEZVOUS = 8,     /* a send returns when its receiver has delivered, not at once */
  BUSQ_ORDER_LABORATORY = 16,    /* known to break, or to get stuck: not for use */
  BUSQ_ORDER_COORDINATED = 32,   /* process 0 takes part in every message */
  BUSQ_ORDER_OUTPUT_BUFFER = 64, /* a submit that is not sent at once only waits in a buffer, which no later one passes, until another
                                  * event lets it go */
  BUSQ_ORDER_SIDE_CHANNELS = 128, /* causes may travel outside of it: it delivers none of their effects before them */
  BUSQ_ORDER_FIFO_TO_GO_ON = 256, /* with on_crash=go-on it needs channels that keep the order */
  BUSQ_ORDER_REPLICATED = 512     /* the groups of replicas that its destinations belong to take part in a message */
} busq_order_trait;

/* The behaviour of channels towards the order of packets, to see what an order is worth on others than it needs. */
typedef enum {
  BUSQ_CHANNELS_AS_NEEDED = 0, /* they keep it where the order needs that */
  BUSQ_CHANNELS_FIFO = 1,
  BUSQ_CHANNELS_UNORDERED = 2
} busq_channels;

typedef enum {
  BUSQ_CLOCK_NONE = 0,
  BUSQ_CLOCK_VECTOR = 1,
  BUSQ_CLOCK_MATRIX = 2,
  BUSQ_CLOCK_LIST = 3 /* as many words as the message needs */
} busq_order_clock_shape;

typedef struct {
  const char *name;
  const char *promise; /* a line for people */
  const char *source;
  uint32_t claims; /* of busq_order_claim */
  uint32_t traits; /* of busq_order_trait */
  uint32_t clock;  /* a busq_order_clock_shape: what travels with each message */
  uint32_t n_kinds;
  uint32_t crashes;       /* of busq_order_crash */
  uint32_t crashes_go_on; /* the same, with the option on_crash=go-on; 0: it has none, */
  uint32_t crashes_majority; /* or while more than half of each group of replicas live */
} busq_order_facts;

/* BUSQ_EMPTY where there is no order of that number. */
int busq_order_examine(uint32_t number, busq_order_facts *facts);
/* The name of a kind of packet, or of an option; NULL beyond the last one. */
const char *busq_order_kind_name(uint32_t number, uint32_t kind);
int busq_order_kind_has_payload(uint32_t number, uint32_t kind); /* 1: packets of this kind carry the message */
const char *busq_order_option_text(uint32_t number, uint32_t place);
/* How many processes are a group of replicas; 0: there are none. */
uint32_t busq_order_replicas_of(uint32_t number, uint32_t options);
/* Reads "lamport" or "lamport:ack=all". */
int busq_order_read(const char *text, uint32_t *numberp, uint32_t *optionsp);
/* cffi: end */

/* cffi: begin */
/*
 * Other orders, live (live/member.h): a member of the group of a bus that was created with an order.  The rules above
 * about results, timeouts and threads holds here too.  Members are numbered by their slots.
 */
typedef struct busq_live busq_live;

enum { BUSQ_LIVE_KINDS_MAX = 16 };

typedef struct {
  uint64_t shuffle_ns; /* packets are held back for up to so long, to reorder them; 0: not at all */
  uint64_t shuffle_seed;
} busq_live_options;

typedef struct {
  const void *data;
  uint64_t size_bytes;
  uint64_t name;      /* origin << 32 | number; where the order is point to point, each copy has its own */
  uint64_t multicast; /* the same of the send that it belongs to */
  void *entry;
  uint32_t sender;  /* the member that sent it */
  uint32_t is_kept; /* by the application, which reports it; until then it may be given back */
} busq_live_message;

/* The numbers of the messages that a send became. */
typedef struct {
  uint32_t first;
  uint32_t last;
} busq_live_ticket;

typedef struct {
  uint64_t multicasts_sent; /* sends of the application */
  uint64_t messages_sent;   /* what the order sent for them */
  uint64_t delivered;
  uint64_t taken;    /* by the application */
  uint64_t sent[16]; /* packets, by kind */
  uint64_t received[16];
  uint64_t credits_sent;
  uint64_t credits_received;
  uint64_t bytes_sent;
  uint64_t bytes_received;
  uint64_t dropped;      /* packets to members that are gone */
  uint64_t dropped_late; /* messages that the order gave up */
  uint64_t malformed;
  uint64_t refused;        /* packets that waited for room in the order */
  uint64_t thread_wakeups; /* of the progress thread: it slept, and was woken */
  uint64_t recv_wakeups;   /* the same of threads that waited in a call */
  uint64_t secret_ns;      /* in which it might receive, but not send */
  uint32_t waiting_max;
  uint32_t held_max;
  uint32_t self;
  uint32_t n_processes;
} busq_live_facts;

typedef enum { BUSQ_LIVE_SENT = 0, BUSQ_LIVE_DELIVERED = 1 } busq_live_event_kind;

/* The journal of the order, in its own order. */
typedef struct {
  uint64_t message;
  uint64_t multicast;
  uint32_t kind;    /* a busq_live_event_kind */
  uint32_t process; /* sent: the destination, one event for each; delivered: the sender */
} busq_live_event;

/* `options` may be NULL. */
int busq_live_join(busq_bus *bus, const char *name, size_t name_bytes, const busq_live_options *options, busq_live **livep);
/* Lingers for a second at most, until what is its own is on its way. */
int busq_live_close(busq_live *live);
void busq_live_free(busq_live *live);
int busq_live_lookup(busq_live *live, const char *name, size_t name_bytes, uint32_t *processp);
int busq_live_member_name(busq_live *live, uint32_t process, char *name, size_t *name_bytesp);
/* Waits until all members have joined that the order can't do without; BUSQ_UNKNOWN_PEER names a missing one. */
int busq_live_assemble(busq_live *live, int64_t timeout_ns);
/* `ticket` may be NULL where the order is no rendezvous. */
int busq_live_send(busq_live *live, const uint32_t *destinations, uint32_t n_destinations, const void *data, size_t size_bytes,
                   int64_t timeout_ns, busq_live_ticket *ticket);
/* The second half of a send: where the order is a rendezvous, waits for its end.  BUSQ_FULL: the message is on its
 * way. */
int busq_live_finish(busq_live *live, const busq_live_ticket *ticket, int64_t timeout_ns);
/* Each message that was received belongs to the caller until it is released, also when the member is gone by then. */
int busq_live_recv(busq_live *live, busq_live_message *messages, uint32_t limit, uint32_t *countp, int64_t timeout_ns);
/* Takes a message that is there, without waiting; otherwise BUSQ_EMPTY. */
int busq_live_take(busq_live *live, busq_live_message *message);
/* Once; and again it does nothing. */
void busq_live_release(busq_live_message *message);
/* A message that the application has not seen comes next, as if it had not been taken; that of a member closed
 * meanwhile is released. */
void busq_live_give_back(busq_live *live, busq_live_message *message);
/* For the memory that shows a message: releases it if it is kept. */
void busq_live_end(busq_live_message *message, const void *data);
int busq_live_fileno(busq_live *live, int *fdp);
void busq_live_set_spin(busq_live *live, uint32_t spin_ns, uint32_t yield_ns);
int busq_live_examine(busq_live *live, busq_live_facts *facts);
/* From now on, what the order does is kept. */
int busq_live_journal_start(busq_live *live);
/* Events from that place on; *countp is how many there are, which may be more than `limit`. */
int busq_live_journal(busq_live *live, uint64_t from, busq_live_event *events, uint64_t limit, uint64_t *countp);
/* For demonstrations: what is sent to this member from now on is so long on its way. */
int busq_live_delay(busq_live *live, uint32_t process, uint64_t delay_ns);
/* cffi: end */

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif /* BUSQ_H */
