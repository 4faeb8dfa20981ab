/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_MEMORY_PEER_H
#define BUSQ_SHM_MEMORY_PEER_H
/*
 * The private side of a peer: what a process keeps for itself about one that it has joined. Nothing here is visible to
 * other processes, and everything in it could be derived again from the segment.
 *
 * Locks.  Two latches per peer, one for sending and one for receiving, order the threads of this process among
 * themselves.  They lie in private memory and are held for a bounded number of steps, never while waiting:
 *
 *      peer.sender.latch
 *        peer.receiver.latch    only busq_peer_close takes both, and busq_peer_discard of a closed peer
 *          peer.tracer.latch    around the mapping of the file that events go to
 */
#include "base/assert.h"
#include "base/error.h"
#include "base/latch.h"
#include "base/types.h"
#include "busq.h"
#include "queue/heap.h"
#include "shm/memory/arena.h"
#include "shm/memory/bus.h"
#include "shm/memory/life.h"
#include "trace/event_ring.h"
#include <string.h>

/* Results of the core to itself, and never to a caller: what was sent does not count, or was not sent because the world
 * has changed meanwhile, and is begun anew; and one of the targets is a group (group.h). */
#define BUSQ_AGAIN 64
#define BUSQ_TO_GROUP 65

/* ---- targets: a peer as senders name it ---- */

#define BUSQ_NO_TARGET UINT64_MAX
/* A target that is a group: how often its entry got a name (32) | index (16) | this. */
#define BUSQ_TARGET_GROUP UINT64_C(0xfffe)

static inline uint32_t busq_target_slot(uint64_t target)
{
  return (uint32_t)target & 0xffff;
}

static inline uint32_t busq_target_incarnation(uint64_t target)
{
  return (uint32_t)(target >> 16);
}

/* Is the peer that it names still the one of its slot? */
static inline int busq_target_check(const busq_bus *bus, uint64_t target)
{
  const uint32_t slot = busq_target_slot(target);
  if (BUSQ_LIKELY(slot < busq_slots_reached(bus) &&
                  (uint32_t)(busq_load_acquire(&bus->slots[slot].life) >> 32) == busq_target_incarnation(target)))
    return BUSQ_OK;
  return busq_error(BUSQ_PEER_DEAD, "the peer of slot %u of bus \"%s\" is another by now", slot, bus->name);
}

/* ---- what was found in a queue ---- */

/* Is what was found for us at its place in the order (envelope.h)? */
typedef enum { BUSQ_ADMIT_DELIVER, BUSQ_ADMIT_PASS, BUSQ_ADMIT_DAMAGED } busq_admission;

/* A message that can be delivered now; sizes and pointers were checked. */
typedef struct {
  busq_key key;
  busq_record *record;
  uint64_t position;
  const void *payload;
  uint64_t size_bytes;
  uint32_t sender_life;
  uint32_t mark;
  uint32_t form;
  busq_envelope envelope; /* where the form has the bit for one */
  bool is_late;        /* it is the least of the heap, not the next of the ring */
  bool is_redelivered; /* a predecessor had it, and did not acknowledge it */
  bool was_given_back; /* it was taken once, and its delivery recorded */
} busq_found;

/* The names behind the payload of a message with an envelope (envelope.h), copied; `at` counts the nodes first, then
 * the handles. */
static inline busq_node_name busq_found_name(const busq_found *found, uint32_t at)
{
  busq_node_name name;
  BUSQ_ASSERT(at < (uint32_t)found->envelope.n_nodes + found->envelope.n_handles);
  memcpy(&name, (const char *)found->payload + found->size_bytes + at * sizeof name, sizeof name);
  return name;
}

/* The obstacle at the front of a queue, and since when it is there. */
typedef struct {
  busq_reference reference;
  uint64_t position;
  uint64_t tail; /* of the queue at since_ns */
  uint64_t since_ns;
  uint64_t help_in_ns;
} busq_blocker;

/* A sender's memory of each destination. */
typedef struct {
  uint64_t head_seen;
  uint32_t incarnation;    /* that the message at hand is meant for */
  uint64_t glanced_ns;     /* when the kernel was last asked whether it lives, by the tick */
  uint64_t tended_ns;      /* and when we last looked for dead readers of it, if it is shared; 0: never */
  uint32_t tended;         /* the slot at which that goes on */
  uint64_t refused_ns;     /* when its ring last got no memory to become whole; 0: never */
  int fifo_fd;             /* -1 until it was needed */
  uint64_t fifo;           /* which one that is, as in the slot */
} busq_destination_cache;

/* ---- recording (tracer.h) ---- */

typedef struct busq_tracer_map busq_tracer_map;

/* The messages taken between begin and end of receiving: recorded at the end, with one look at the clock. */
typedef struct {
  uint64_t message;
  uint64_t stamp;
  uint32_t incarnation;
  uint16_t slot;
  uint16_t kind;
  bool is_view; /* the one that stands in `viewed` */
} busq_tracer_taken;

/* A view that was taken: one of them at a time waits for the end of receiving. */
typedef struct {
  busq_trace_destination *members; /* [peers]; NULL before the first one */
  uint64_t number;
  uint32_t n_members;
  uint32_t group; /* 1 + its index */
} busq_tracer_viewed;

enum { BUSQ_TRACER_TAKEN_MAX = 64 };

/* A ring that had no room, and the recording that it belongs to: a ring of one that has ended stays full for ever. */
typedef struct {
  busq_trace_ring *ring;
  uint32_t generation;
} busq_tracer_full;

typedef struct {
  uint32_t generation; /* of the recording that `map` belongs to; 0 before the first one */
  busq_latch latch;    /* around mapping the file */
  bool is_silent; /* what it sends and takes are packets of a protocol, which records by itself */
  bool is_fresh;
  busq_tracer_map *map; /* NULL where it can't be recorded */
  busq_tracer_map *old; /* of recordings that have ended: another thread may still look at them */
  busq_tracer_full full[BUSQ_TRACE_SIDES]; /* where there was no room for what a side did last; under its latch */

  /* Under the send latch. */
  uint64_t begun;      /* when the send at hand was called; 0: it is not recorded */
  uint64_t blocked;    /* when it began to wait for room; 0: it did not */
  uint64_t position;   /* of its record */
  uint64_t commit;
  busq_trace_ring *ring; /* of its record; NULL where it was dropped */
  busq_trace_ring *app_ring; /* of the send that busq_tracer_app_sent will end: there may be another recording by then */

  /* Under the receive latch. */
  uint32_t n_taken;
  busq_tracer_viewed viewed;
  busq_tracer_taken taken[BUSQ_TRACER_TAKEN_MAX];
} busq_tracer;

/* ---- peers whose deaths make work for this one (notice.h) ---- */

enum {
  BUSQ_CARES_FOR_MEMBERS = 1, /* of its groups; and of peers that it watches */
  BUSQ_CARES_FOR_NODES = 2    /* that it has or holds a handle of: for their owners and holders */
};

/* ---- groups (group.h) ---- */

typedef struct busq_sender_view busq_sender_view;
typedef struct busq_viewed busq_viewed;

struct busq_payload;

/* ---- calls upward ---- */

/*
 * The calls of a room to one that stands above it: messages with an envelope are judged where groups and nodes are
 * known, and deaths are noticed there.  Set once, when a peer joins (join.c).
 */
typedef struct {
  /* envelope.h */
  busq_admission (*admit)(busq_peer *peer, busq_found *found);
  void (*take)(busq_peer *peer, const busq_found *found, uint32_t mode);
  void (*taken)(busq_peer *peer, const busq_found *found);
  /* group.h: with the send latch, to targets of which one is a group */
  int (*send_to_group)(busq_peer *peer, const uint64_t *targets, uint32_t n_targets,
                       const struct busq_payload *payload);
  /* watch.h: with the send latch, before a message to these */
  int (*owed_send)(busq_peer *peer, const uint64_t *targets, uint32_t n_targets);
  /* notice.h */
  void (*notice_deaths)(busq_peer *peer);
} busq_upcalls;

/* ---- the parts of a peer, each with its latch ---- */

typedef struct busq_node_memory busq_node_memory;

/* Sending.  All of it under `latch`, but for fields that are marked as read by others. */
typedef struct {
  busq_biased_latch latch;
  bool sends_behind;       /* also into queues that have ended (queue_end.c) */
  bool proposes_stale;     /* tests force lost proposals with it */
  uint64_t lamport;        /* no message that this peer has sent, and no reply that it has got, has a higher timestamp */
  uint64_t sequence;       /* of the last message */
  uint64_t sequence_limit; /* reserved in the slot up to here */
  uint64_t sent;
  uint64_t late;
  uint32_t memory_wanted_seen; /* read without the latch */
  uint32_t reclaims_slot;      /* where the search for memory that the gone have left goes on */
  bool finds_more;             /* the last send found no room, but made some progress: it is worth trying again at once; read without the latch */
  bool is_short;               /* a queue without room for the message at hand has fewer than it may: there is no memory for more */
  uint64_t asked_ns;           /* when peers that sleep were last asked for memory */
  uint64_t tick_ns;            /* of the last send, and how often the kernel was asked since which peers live */
  uint32_t glances;
  busq_arena arena;
  uint64_t drafts; /* records in the hands of the application, neither sent nor given back; once closed, under both latches */
  busq_destination_cache *known; /* [peers] */
  uint16_t *destinations;        /* [peers + 1], scratch: the sorted slots of the multicast at hand */
  uint64_t failed_target;
  uint64_t owed_watchers; /* the group of those that watch us, while one of them has no notice of our coming; 0: none */
  busq_sender_view *views; /* [groups], made by the first send to one */
  uint64_t *gathering;     /* [2 * (peers + 1)], scratch: the targets of a message to a group and others */
} busq_sender;

/* A thread of this process that has received (receiving_threads.h). */
enum { BUSQ_READERS_MAX = 8 };
typedef struct {
  uint32_t thread; /* 0: none */
  bool is_waiting; /* for room in its own queue */
} busq_reader;

/* Receiving.  All of it under `latch`; what join.c sets once (ring, inbox, inbox_slot, is_consumer) is read by all
 * threads. */
typedef struct {
  busq_biased_latch latch;
  uint64_t scan;      /* everything before it was taken, skipped, or is in the heap */
  uint64_t head;      /* private copy of the queue's head */
  uint64_t ahead;     /* positions from head on that are done out of order */
  uint64_t *done;     /* a bit per slot of the ring: this position is done */
  uint64_t delivered; /* no message that this peer has received has a higher timestamp; read by its senders */
  uint64_t received;
  uint64_t pins;      /* messages taken, not yet released */
  busq_ring ring;     /* our own, or the one that we share */
  uint64_t backing;   /* a copy of the ring's, if that grows; it may be out of date (queue/ring.h) */
  busq_slot *inbox;   /* the slot that it belongs to */
  uint32_t inbox_slot;
  bool is_consumer;   /* one of several readers of it (shared_take.h) */
  bool is_dropped;    /* its queue has ended, with what stood there (queue_end.c) */
  bool has_reached;   /* for what was found, and not taken it */
  busq_heap heap;
  uint64_t inherited; /* positions before it stood there before we came: what stands there may have been taken */
  busq_found found;   /* what the last look has found */
  busq_blocker blocker;
  uint64_t handles_alive;     /* of what was taken last: a bit for each */
  busq_node_name unheld_node; /* of the notice that was taken last */
  busq_viewed *views;         /* [groups], made by the first message of one */
  uint32_t joined_by; /* the thread that has made this peer */
  busq_reader readers[BUSQ_READERS_MAX]; /* the last one first */
  /* One of several readers (shared_take.h). */
  uint32_t returns;   /* of the queue, when we last began to scan at its head */
  uint64_t tended_ns; /* by the tick: when we last looked for dead readers */
  uint32_t tended;    /* the slot at which that goes on */
  uint64_t hand;      /* of our own ring: where the search for an empty position begins */
  uint64_t kept_at;   /* the one that was found for what we have reached for, and may keep */
  uint64_t copied_below; /* so many bytes: that is taken without being kept; UINT64_MAX: whatever comes */
} busq_receiver;

/* The slot of a position in the queue that it reads, or NULL where there is none, as far as it knows. */
static inline busq_pair *busq_receiver_slot(const busq_receiver *receiver, uint64_t position)
{
  const busq_ring *ring = &receiver->ring;
  if (BUSQ_LIKELY(!ring->grows))
    return &ring->slots[position & (ring->slot_count - 1)];
  return position < receiver->backing ? busq_ring_slot_in(ring, receiver->backing, position) : NULL;
}

/* Another peer's life, whose end makes the descriptor readable (wake/end_watch.h). */
typedef struct {
  uint64_t life;
  int fd; /* of its process */
} busq_watched_life;

/* The descriptor behind fileno() (poll_descriptor.h, room_request.h, end_watch.h): under the receiver's latch. */
typedef struct {
  int poll_fd; /* -1 until it was asked for; readable when one of the next two is */
  int fifo_fd;
  int timer_fd;
  uint64_t timer_due_ns;
  uint32_t naps;   /* in a row that ended in vain, with nothing in the queue */
  bool was_deep;   /* the sleep that the timer is set for */
  uint64_t net_ns; /* how long the next deep sleep may last */
  uint64_t quiet_since_ns; /* 0: not known */
  uint64_t received_seen; /* the receiver's `received` when it was last looked at */
  uint32_t epoch;
  bool is_readable; /* by ourselves, and not emptied since */
  uint32_t listens; /* of busq_listen: what the descriptor is readable for */
  uint64_t asked;   /* for room, as in the slot; what is not there any more has come */
  uint64_t room_slice_ns; /* how long the next sleep for room may last */
  bool room_is_unwatched; /* nothing reports the death of a reader that was asked for room */
  busq_watched_life *lives;
  uint32_t n_lives, lives_room;
} busq_descriptor;

/* Threads that sleep in a call: without a latch, each word by itself. */
typedef struct {
  uint64_t send_left_ns; /* when a wait was interrupted that the caller will go on with; 0 where there is none */
  uint64_t receive_left_ns;
  uint32_t receivers_asleep; /* threads that sleep, or are about to: the flag in the slot stands for all of them */
  uint32_t senders_asleep;
} busq_sleepers;

/* Waits that leave the yields out: how many they were to be when yielding came out dear last, and how many of them are
 * still to come. */
typedef struct {
  uint32_t sleeps;
  uint32_t sleeps_left;
} busq_dear_yields;

/* Learned by the heuristics of pacing.h: without a latch, and right enough when two threads write at once. */
typedef struct {
  uint32_t short_waits;       /* in a row that ended without sleeping */
  uint64_t short_waits_since; /* messages sent when the row began */
  uint32_t spin_ns;
  uint32_t yield_ns;
  uint32_t waits_in_vain; /* in a row for which spinning and yielding would have been too short by far */
  busq_dear_yields message_yields;
  busq_dear_yields room_yields;
  bool spin_is_chosen;    /* by the application: always that long */
  bool is_to_go_on;       /* the last wait was interrupted, having slept: the call that goes on with it sleeps at once */
  bool is_crowded;        /* yielding has lately let others run: more of them want to than there are cores */
} busq_pacing;

/* The deaths that make work for this peer (notice.h): without a latch. */
typedef struct {
  uint32_t cares;      /* bits: BUSQ_CARES_FOR_... */
  uint64_t noticed_ns; /* by the tick: when it last looked for dead ones among them */
} busq_deaths;

/* The places for replies of a peer that takes replies (request.c): under its send latch, since it sends nothing. */
typedef struct {
  uint32_t *free; /* places that are free again, the last one on top */
  uint32_t n_free, free_room;
  uint32_t n_known; /* places that were in use in this life; the others are free, too */
  uint32_t n_used;
  uint64_t *given_up; /* requests that wait no more, while a reply to them was being sent */
  uint32_t n_given_up, given_up_room;
} busq_replies;

/* ---- a peer ---- */

struct busq_peer {
  /* Set when it joins. */
  busq_bus *bus;
  busq_slot *self;
  uint32_t slot;
  uint32_t incarnation;
  uint32_t life; /* the number of this process among those that have joined with the slot */
  uint32_t fork_generation;
  uint32_t references; /* the handle and the pins that use it */
  uint32_t is_closed;  /* written under both latches */
  int lock_fd;
  busq_guard lock_guard;
  int64_t name_lock;   /* the byte that stands for our name */
  uint32_t life_flags; /* of the slot that it makes or has */
  const busq_upcalls *upcalls;

  /* Threads that send and threads that receive write to lines of their own. */
  _Alignas(BUSQ_LINE_PAIR_BYTES) busq_sender sender;
  _Alignas(BUSQ_LINE_PAIR_BYTES) busq_receiver receiver;
  busq_descriptor descriptor;
  busq_sleepers sleepers;
  busq_pacing pacing;
  busq_deaths deaths;
  busq_replies replies;
  busq_node_memory *nodes; /* NULL before its first node or handle (node.h) */
  busq_tracer tracer;      /* has latches of its own (see there) */
};

static inline void busq_peer_care(busq_peer *peer, uint32_t whom)
{
  if (!(busq_load_relaxed(&peer->deaths.cares) & whom))
    (void)busq_fetch_or(&peer->deaths.cares, whom);
}

/* With no latch held.  A peer without groups and nodes has no deaths to notice, and pays for one look at one word. */
static inline void busq_peer_notice_deaths(busq_peer *peer)
{
  if (BUSQ_UNLIKELY(busq_load_relaxed(&peer->deaths.cares)))
    peer->upcalls->notice_deaths(peer);
}

/* The target that stands for this peer. */
static inline uint64_t busq_peer_address(const busq_peer *peer)
{
  return (uint64_t)peer->incarnation << 16 | peer->slot;
}

static inline int busq_peer_check(const busq_peer *peer)
{
  if (BUSQ_UNLIKELY(peer->fork_generation != busq_fork_generation))
    return BUSQ_FORKED;
  if (BUSQ_UNLIKELY(busq_load_relaxed(&peer->is_closed)))
    return BUSQ_CLOSED;
  return BUSQ_OK;
}

#endif /* BUSQ_SHM_MEMORY_PEER_H */
