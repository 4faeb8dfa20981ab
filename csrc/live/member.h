/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_LIVE_MEMBER_H
#define BUSQ_LIVE_MEMBER_H
/*
 * The live driver: a process of an ordering protocol between real processes.
 *
 * Guarantee.  What the bus's order promises (order/order.h), among processes that live; every message sent is delivered
 * to each of its destinations once.  Protocol packets are answered while the application computes, without it.  Memory
 * is bounded: a sender may have `capacity` messages at a destination that its application has not taken, and then
 * waits.  Nothing waits for ever for a process that is gone.
 *
 * Mechanism.  A member of the group is a peer of the bus (its mailbox); its slot is the number of the process, and the
 * group has as many processes as the bus has slots.  Packets travel as unicasts between mailboxes (wire.h, link.h).
 * One engine per member holds the state of the protocol under one lock (engine.h): the application's threads take its
 * steps for what they send, and the thread that is there takes the steps for what comes, that is, a thread that waits
 * in recv, or else the progress thread (progress.h), which never waits for anything but packets.  What does not fit
 * into a mailbox waits in an outbox of its own.
 *
 * Locks.  `mutex` is held for a bounded number of steps, never while waiting; the latches of the mailbox are taken
 * inside it.
 *
 * Not given.  Resuming, durable queues and acknowledgements: a protocol's state dies with its process, and only bus1
 * can hand it over.  For the same reason each slot of the bus is given once.  Delivery of what was on its way through
 * the protocol when the bus was shut down.
 */
#include "live/message.h"
#include "shm/memory/peer.h"
#include "shm/trace/tracer.h"
#include <pthread.h>

/* ---- the group ---- */

typedef enum {
  BUSQ_MEMBER_UNKNOWN = 0, /* no process of that number has joined, as far as we know */
  BUSQ_MEMBER_HERE = 1,
  BUSQ_MEMBER_GONE = 2 /* closed or dead */
} busq_member_state;

typedef struct {
  uint32_t state; /* a busq_member_state */
  uint32_t incarnation;
  uint64_t target; /* what busq_peer_send takes */
  uint64_t glanced_ns; /* when its life was last looked at before a send, by the tick */
  uint64_t to_take;    /* so many packets had come for it at compared_ns; of one that is gone, for us, at that time */
  uint32_t name_bytes;
  char name[256];
} busq_member;

/* ---- packets that wait ---- */

/* A packet on this side of the destination's mailbox: held back to reorder, or until there is room. */
typedef struct busq_live_pending busq_live_pending;
struct busq_live_pending {
  busq_live_pending *next;
  busq_live_entry *entry; /* holds a reference; NULL where the kind has no payload */
  busq_wire_packet packet;
  uint64_t sequence; /* in an outbox: how many came before it into any */
  uint32_t to;
};

typedef struct {
  uint64_t due_ns;
  uint64_t sequence;          /* first come, first served */
  busq_live_pending *pending; /* NULL: a tick */
} busq_live_due;

/* A process's knowledge of the way to, and from, another. */
typedef struct {
  busq_live_pending *first; /* the outbox */
  busq_live_pending *last;
  uint64_t last_due_ns; /* FIFO channels: what is sent later may not leave earlier */
  uint64_t delay_ns;    /* for demonstrations */
  uint64_t owed;        /* copies of ours that its application has not taken; so many more may be on their way back */
  uint64_t owed_bytes;
  uint64_t taken; /* copies of its that our application has taken and that it does not know of */
  uint64_t taken_bytes;
  uint64_t held;    /* whole groups: messages of ours that the order there has neither delivered nor dropped */
  uint64_t held_bytes;
  uint64_t settled; /* messages of its that ours has, and that it does not know of */
  uint64_t settled_bytes;
  bool has_asked; /* that it reports to us; until it does */
  bool is_wanted; /* it has asked us */
} busq_live_link;

/* A packet that the order had no room for. */
typedef struct busq_live_refused busq_live_refused;
struct busq_live_refused {
  busq_live_refused *next;
  busq_wire_packet packet;
  uint32_t from;
};

/* ---- one member ---- */

enum { BUSQ_LIVE_EFFECTS = 64 };

struct busq_live {
  busq_order_world world; /* first: the order is given a pointer to it */
  busq_peer *port;
  busq_bus *bus;
  const busq_order *order;
  void *state;
  uint32_t options;
  bool keeps_order; /* of packets between two members */
  bool goes_on;     /* on_crash=go-on */
  uint32_t n;
  uint32_t self;
  uint32_t capacity;
  uint64_t payload_bytes_max; /* of one message to all */
  uint64_t credit_bytes;
  size_t clock_bytes;
  uint32_t fork_generation;
  bool is_closed;
  bool is_lingering; /* closing: no thread receives any more */

  pthread_mutex_t mutex;
  pthread_cond_t came;   /* for receiving threads */
  pthread_cond_t moved;  /* for sending threads: room, credits, ends of rendezvous */
  pthread_cond_t parked; /* for the progress thread, while others do its work */

  /* Everything from here on is protected by the mutex. */
  busq_live_table messages;
  busq_live_entry *inbox_first;
  busq_live_entry *inbox_last;
  busq_live_entry *early_first; /* messages of ours that the order had no room for, oldest first */
  busq_live_entry *early_last;
  busq_live_refused *refused_first;
  busq_live_refused *refused_last;
  uint64_t received; /* the message that the packet at hand is about */
  busq_member *members; /* [n] */
  busq_live_link *links; /* [n] */
  uint32_t *others;      /* [n], scratch: destinations of the message at hand */
  uint32_t *no_clock;    /* zeros, for questions about messages that are not there */
  bool is_assembled;     /* all members that the order needs have joined */
  uint32_t n_known;      /* members that are here or gone */
  uint32_t n_gone;
  uint32_t last_gone;
  uint32_t n_learnt; /* of them, the order goes on without so many */
  uint32_t n_told; /* of members that are gone: recv has reported that messages to them are stuck */
  uint32_t next_number;    /* of our next message */
  uint32_t next_multicast; /* of our next send */
  uint32_t n_undone;       /* messages of ours between submit and BUSQ_DO_DONE.  Invariant: <= waiting_max. */
  uint32_t waiting_max;
  uint32_t n_outboxes; /* links with packets that found no room */
  uint64_t n_pending;  /* these packets */
  uint64_t n_pending_ever;
  busq_live_due *due;  /* a heap */
  uint32_t n_due;
  uint32_t due_room;
  uint64_t due_sequence;
  uint64_t shuffle_state;
  uint64_t shuffle_ns;
  uint64_t moved_ns; /* when the last packet came, or a member was found gone, or something may still come */
  uint64_t compared_ns;
  uint64_t looked_ns; /* when the lives of the others were last looked at */
  uint64_t retry_ns;
  uint64_t tick_ns; /* of the last send, and how many lives were looked at since */
  uint32_t glances;
  int failure; /* BUSQ_SHUTDOWN, BUSQ_CORRUPT, BUSQ_NO_SPACE: it can't go on */
  bool is_drained; /* after a shutdown: the mailbox is empty */
  int event_fd;
  bool event_is_raised;

  /* The progress thread. */
  pthread_t thread;
  bool must_stop;
  uint32_t n_asleep;      /* threads in the mailbox: one comes back at sleeps_until_ns */
  pthread_cond_t *driver_waits_on; /* what the driver in the mailbox would wait on if it did not drive; or NULL */
  uint32_t n_drivers;     /* threads in recv that do the progress thread's work: 0 or 1 */
  uint32_t n_waiting;     /* threads that wait on conditions while another one drives */
  bool is_parked;
  bool is_parked_for_good; /* until the driving thread stops */
  uint64_t sleeps_until_ns;
  bool took_wake; /* meant, perhaps, for a thread that still sleeps */
  uint64_t left_ns; /* when the last driver left */

  busq_order_effect effects[BUSQ_LIVE_EFFECTS];
  busq_live_facts facts;
  uint64_t secret_since_ns;
  busq_live_event *journal;
  uint64_t n_journal;
  uint64_t journal_room;
  bool has_journal;

  /* During a recording: when the send at hand was called, and when it began to wait for room. */
  uint64_t begun;
  uint64_t blocked;
  uint64_t waits_since; /* of the receiving thread; 0: none waits */
};

#endif /* BUSQ_LIVE_MEMBER_H */
