/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_MEMORY_LAYOUT_H
#define BUSQ_SHM_MEMORY_LAYOUT_H
/*
 * The layout of a segment.  Everything here is mapped by strangers: offsets instead of pointers, and code that reads an
 * index or a length checks it against private copies of the sizes before using it.
 *
 *      header | peer 0 .. peers-1 | ring 0 .. peers-1 | groups | nodes of peer 0 .. peers-1 | extent table |
 *      places for replies of peer 0 .. peers-1 | arena | extents of larger messages
 *
 * Of the last line the arena alone is reserved when a bus is created: a peer that asks reserves its own places
 * (request.c); on a bus that reserves late, not even that, nor most of the peers and the middle of the extent table (reserve.h).  The file ends with the arena until a message that is larger extends it (huge.h).
 *
 * The header's `stamp` is a hash over everything that two builds must agree on, so that a stranger's segment is
 * refused at the door instead of being misread; its `checksum` covers the fields that never change after creation.
 */
#include "base/atomic.h"
#include "base/types.h"
#include "busq.h"
#include "queue/ring.h"

#define BUSQ_LAYOUT_MAGIC UINT64_C(0x0a316c7173756231) /* "1busql1\n": text tools see a name and a line end */
#define BUSQ_LAYOUT_VERSION 20u
#define BUSQ_LAYOUT_NAME_BYTES_MAX 255u
#define BUSQ_LAYOUT_ORDER_BYTES 64u
#define BUSQ_LAYOUT_PEERS_MAX 4096u
#define BUSQ_LAYOUT_GROUPS_MAX 65534u /* an envelope has 16 bits for one, and 0 for none */
#define BUSQ_LAYOUT_NODES_MAX 65535u  /* of one peer */
#define BUSQ_LAYOUT_CAPACITY_MAX (UINT32_C(1) << 26)
#define BUSQ_LAYOUT_ARENA_BYTES_MIN UINT64_C(4096)
#define BUSQ_LAYOUT_ARENA_BYTES_MAX (UINT64_C(1) << 37)
#define BUSQ_LAYOUT_PAYLOAD_BYTES_MAX UINT64_C(0xffffffff)
#define BUSQ_LAYOUT_UNIT_BYTES 64u /* records begin at multiples of this */
#define BUSQ_LAYOUT_HUGE_EXTENTS 512u
#define BUSQ_LAYOUT_HUGE_SHIFT 20u /* units of one of those, as a power of two: 64 MiB */
#define BUSQ_LAYOUT_HUGE_BYTES ((uint64_t)BUSQ_LAYOUT_UNIT_BYTES << BUSQ_LAYOUT_HUGE_SHIFT)

/* Sizes and offsets, computed from seven numbers and from nothing else. */
typedef struct {
  uint32_t peers;
  uint32_t capacity;
  uint64_t arena_bytes; /* asked for; the largest payload, where takes_larger is 0 */
  uint32_t groups;
  uint32_t nodes;       /* of each peer */
  uint32_t reserves_late; /* 1: memory is reserved where it is needed (reserve.h) */
  uint32_t takes_larger;  /* 1: messages that the arena can not hold have extents behind it (huge.h) */
  uint64_t slot_count;  /* per ring */
  uint64_t extent_bytes;
  uint64_t extents;
  uint64_t huge_from;   /* the first of the extents for messages that the arena can not hold; as many as all, where there are none */
  uint64_t peers_offset;
  uint64_t rings_offset;
  uint64_t groups_offset;
  uint64_t group_bytes; /* of one, with its members */
  uint64_t nodes_offset;
  uint64_t node_bytes;  /* of one, with its holders */
  uint64_t table_offset;
  uint64_t arena_offset;
  uint64_t reply_places_offset;
  uint64_t reply_places_bytes; /* of one peer */
  uint64_t segment_bytes;
} busq_geometry;

typedef struct {
  uint64_t magic;
  uint32_t version;
  uint32_t state; /* BUSQ_HEADER_READY once everything else is in place */
  uint64_t stamp;
  uint8_t boot_id[16];
  uint8_t generation[16];
  busq_geometry geometry;
  uint64_t created_ns;
  uint32_t creator_pid;
  uint32_t permissions;
  char order[BUSQ_LAYOUT_ORDER_BYTES]; /* ends with NUL; "bus1", or an order of order/order.h with its options */
  uint64_t checksum; /* of everything above but `state` */
  /* Read at every call, written almost never. */
  _Alignas(BUSQ_LINE_PAIR_BYTES) uint32_t is_shut_down;
  uint32_t memory_wanted; /* counts the times that a sender found no memory: peers with memory to spare give it back */
  uint32_t is_ending;     /* is_shut_down is about to be set */
  uint32_t recording;     /* which recording goes on, counted from 1; 0: none (tracer.h) */
  uint64_t extents_reached; /* so many extents of the arena can be in use; the words of the others may have no memory (reserve.h) */
  uint32_t slots_reached; /* so many peers were ever there; the slots of the others may have no memory (peer_slots.h) */
  uint64_t trace;         /* the random part of the name of its file (rings.h) */
  uint32_t is_removed;    /* its name was removed by busq, and not by others from under those that use it */
  char name[BUSQ_LAYOUT_NAME_BYTES_MAX + 1]; /* as it was created; for those that look for one that lost it */
} busq_header;

#define BUSQ_HEADER_READY UINT32_C(0x79646172)

/* The life of a peer slot.  Its peer changes it, and, once the kernel reports that the peer is gone, the process that
 * holds the lock for burying it. */
enum {
  BUSQ_LIFE_FREE = 0,
  BUSQ_LIFE_JOINING = 1,
  BUSQ_LIFE_LIVE = 2,
  BUSQ_LIFE_LEFT = 3, /* closed its handle */
  BUSQ_LIFE_DEAD = 4, /* the kernel released its lock, and what it left was put in order */
  BUSQ_LIFE_LEAVING = 5, /* closed, but messages that it took are still being looked at */
  BUSQ_LIFE_MASK = 0xff,
  BUSQ_LIFE_DURABLE = 0x100, /* beside the others: its queue stays open, whatever happens to its peer */
  BUSQ_LIFE_DROPPED =
      0x200, /* of a peer that is gone: what it left is given back once it is buried, and is no successor's any more */
  BUSQ_LIFE_SHARED = 0x400, /* a queue of several readers, each of which has a slot besides (shared_take.h) */
  BUSQ_LIFE_CONSUMER = 0x800 /* one of those: it sends, and receives from the queue that its slot names */
};

/* A peer's reason for waiting, published for `busq doctor` and others. */
typedef struct {
  uint64_t since_ns; /* the host's clock (time.h); while it sleeps */
  uint32_t what;     /* a busq_waiting */
  uint32_t for_slot;
} busq_waits;

/* The waiters of a queue: bit 0 of `wake_flags` for sleepers; the other 31 bits are the number of the arming of the
 * FIFO, 0 while no reader waits for that. */
#define BUSQ_WAKE_FUTEX 1u
/* The number is odd where the reader sleeps deeply (wake.h). */
#define BUSQ_WAKE_DEEP 2u

/* The waiters of `room_waiters` and `memory_waits`: bit 0 for threads that sleep in a call, another for a peer that
 * waits behind a descriptor, by its slot; several slots may share one, and then all of them are looked at. */
#define BUSQ_WAITS_FUTEX 1u
#define BUSQ_WAITS_BITS 31u

static inline uint32_t busq_waits_bit(uint32_t slot)
{
  return 2u << slot % BUSQ_WAITS_BITS;
}

/* The bits of `asks`: room in a queue, by its slot, again several for one; and memory. */
#define BUSQ_ASKS_BITS 63u
#define BUSQ_ASKS_MEMORY (UINT64_C(1) << BUSQ_ASKS_BITS)

static inline uint64_t busq_asks_room(uint32_t slot)
{
  return UINT64_C(1) << slot % BUSQ_ASKS_BITS;
}

/* One peer.  Fields with the same writer share a line pair of their own; what is rarely written stands beside those. */
typedef struct {
  busq_queue queue;
  /* Written by the reader when it goes to sleep and when it joins or leaves; read by every sender. */
  _Alignas(BUSQ_LINE_PAIR_BYTES) uint64_t life; /* incarnation (32 bits) | life */
  uint32_t wake_seq;
  uint32_t wake_flags;
  uint32_t limit;   /* messages that this queue holds before senders wait, where that is less than the bus's capacity; 0: it is not */
  uint32_t armings; /* of a shared queue: of its FIFO, by all readers together */
  uint32_t unheld;  /* a handle of one of its nodes was let go since it looked (node.h) */
  uint32_t mourners; /* peers that are woken when this one leaves (wake/end_watch.h), as in `room_waiters` */
  uint32_t returns; /* of a shared queue: how often something came back into it; its readers look again from the head on */
  uint32_t awaits_readers; /* of one of several readers: it waits for room in their queue, and none of its threads receives */
  uint32_t keeps_memory; /* while it sleeps: it has memory that it may give back (wake.h) */
  uint32_t pid;
  uint32_t lives; /* how many processes have joined with this slot: the number of the last one's life.  The first life of an incarnation has its number */
  uint32_t name_bytes;
  uint32_t fifo_failed; /* a sender could not write to the FIFO with this lower half of its number */
  uint64_t fifo;      /* the random part of the name of its FIFO; 0: it has made none (wake.h) */
  uint64_t pid_space; /* in which `pid` counts (wake/end_watch.h); 0: not known */
  uint64_t handed;    /* of a queue: how often it was handed on and not opened so far (overflow_tally.c) */
  uint64_t ahead;     /* of a queue: changes (32) | how many of its messages were reported as done without being taken (done_ahead.c) */
  /* Written by senders that wait for room in this queue (room) and by this peer when it waits for memory (memory). */
  _Alignas(BUSQ_LINE_PAIR_BYTES) uint32_t room_seq;
  uint32_t room_waiters;
  uint32_t memory_seq;
  uint32_t memory_waits;
  uint64_t asks; /* what this peer waits for behind its descriptor; set by it, cleared by the process that wakes it for that */
  busq_waits sends; /* what a thread of it waits for that sends */
  uint64_t joined_ns; /* CLOCK_REALTIME */
  uint64_t began_ns; /* the same on the host's clock (time.h), which is never set back */
  uint64_t ended_ns; /* the host's clock: when it was closed, or its death was noticed */
  /* Written by the process in the slot's grave (grave.h), so that another one can go on. */
  uint64_t searched;  /* positions before it do not hold the message in hand; 0: the search has not begun */
  uint64_t reclaimed; /* extents before it were looked at last; a hint */
  uint64_t packing;   /* how far the dead references are taken out of its queue (compact.c); 0: not begun */
  uint64_t packed;    /* the tail when that began */
  /* Written by the owner alone, read by facts.c: what sends, and then what receives. */
  _Alignas(BUSQ_LINE_PAIR_BYTES) uint64_t sequence_reserved; /* no life of this slot has used a number from here on */
  uint64_t sent;
  uint64_t late;
  uint64_t in_hand; /* which message is being sent (the low half of its number) | unit of its record; see grave.h */
  uint64_t granting; /* of which nodes it is sending handles (node.h); 0: none */
  busq_pair tally; /* for which queue, and how much of what found no room there its process keeps (overflow_tally.c) */
  _Alignas(64) uint64_t received;
  busq_waits receives;
  uint64_t helped; /* stalled messages of others that it completed, put off, or passed over */
  uint64_t settled;   /* of a consumer: positions of its ring before this one are in order (shared_take.c); 0: not begun */
  uint64_t reaches;   /* of a consumer: the place of the last message that it has reached for */
  uint64_t consumes;  /* of a consumer: the queue's incarnation (32) | its slot */
  _Alignas(BUSQ_LINE_PAIR_BYTES) char name[BUSQ_LAYOUT_NAME_BYTES_MAX + 1];
} busq_slot;

/* The use of an extent of the arena. */
typedef struct {
  _Alignas(16) uint64_t word; /* generation (32) | owner + 1 (16) | kind (8) | class (8); see arena.h */
  uint64_t length;            /* LARGE: extents of the run.  SLAB: records that were ever used, the others are blank */
} busq_extent;

/*
 * A message on its way: one record in the sender's part of the arena.
 *
 * The state word decides; it changes only by a 16-byte swap: {sequence (54) | attempt (8) | phase (2)} and the
 * timestamp.  Everything else is written before the first reference is published and does not change until the record
 * is free again, but for the marks: each is written by its own destination alone, or, once that has left its queue, in
 * its place.
 */
typedef struct {
  uint16_t slot;
  uint16_t mark; /* BUSQ_MARK_* bits, set by this destination */
} busq_destination;

typedef struct {
  busq_pair state;
  uint64_t proposal; /* no final timestamp is below it */
  uint32_t size_bytes;
  uint32_t sender_life;
  uint16_t origin;  /* a busq_form (4) | slot of the sender (12) */
  uint16_t outline; /* its sender is through with sending it (1) | a verdict on it (2) | destinations (13) */
  busq_destination destination[];
} busq_record;

#define BUSQ_RECORD_FORM_SHIFT 12
#define BUSQ_RECORD_SENT UINT16_C(0x8000)
/* The verdict on a message to a group: it was sent in its view, or too late for that (group.h). Set once, by the first
 * process that knows it. */
#define BUSQ_RECORD_COUNTS UINT16_C(0x4000)
#define BUSQ_RECORD_MISSED UINT16_C(0x2000)
#define BUSQ_RECORD_DESTINATIONS UINT16_C(0x1fff)
_Static_assert(BUSQ_LAYOUT_PEERS_MAX <= BUSQ_RECORD_DESTINATIONS, "destinations leave room for marks");
_Static_assert(BUSQ_LAYOUT_PEERS_MAX <= 1u << BUSQ_RECORD_FORM_SHIFT, "a slot leaves room for a form");
_Static_assert((BUSQ_FORM_MAX | BUSQ_FORM_ENVELOPE) < 1u << (16 - BUSQ_RECORD_FORM_SHIFT), "a form fits above a slot");
_Static_assert(!(BUSQ_FORM_MAX & BUSQ_FORM_ENVELOPE), "an envelope is no application's form");

static inline uint32_t busq_record_destinations(const busq_record *record)
{
  return busq_load_relaxed(&record->outline) & BUSQ_RECORD_DESTINATIONS;
}

static inline uint32_t busq_record_sender(const busq_record *record)
{
  return busq_load_relaxed(&record->origin) & ((1u << BUSQ_RECORD_FORM_SHIFT) - 1);
}

static inline uint32_t busq_record_form(const busq_record *record)
{
  return busq_load_relaxed(&record->origin) >> BUSQ_RECORD_FORM_SHIFT;
}

enum {
  BUSQ_PHASE_FREE = 0,
  BUSQ_PHASE_STAGING = 1,
  BUSQ_PHASE_SEALED = 2,
  BUSQ_PHASE_COMMITTED = 3
};

enum {
  BUSQ_MARK_TAKEN = 1,    /* recv has returned it */
  BUSQ_MARK_RELEASED = 2, /* its memory is no longer needed here */
  BUSQ_MARK_OFFERED = 4,  /* recv has returned it, and will again, to a successor, unless it is acknowledged */
  BUSQ_MARK_RETURNED = 8  /* it was taken and given back: its delivery is recorded already */
};

#define BUSQ_PHASE_MASK UINT64_C(3)
#define BUSQ_ATTEMPT_MAX 255u /* how often a message can be put off; its 8 bits in the tag are the bound */
#define BUSQ_TAG_NEXT_ATTEMPT UINT64_C(4)

static inline uint64_t busq_record_tag(uint64_t sequence, uint32_t attempt)
{
  return sequence << 10 | (uint64_t)(attempt & BUSQ_ATTEMPT_MAX) << 2;
}

static inline uint64_t busq_tag_sequence(uint64_t tag)
{
  return tag >> 10;
}

static inline uint32_t busq_tag_attempt(uint64_t tag)
{
  return (uint32_t)(tag >> 2) & BUSQ_ATTEMPT_MAX;
}

static inline uint64_t busq_record_payload_offset(uint32_t destinations, uint64_t size_bytes)
{
  const uint64_t header = offsetof(busq_record, destination) + (uint64_t)destinations * sizeof(busq_destination);
  /* Small messages stay together with their header in as few lines as possible; large ones are aligned for work in
   * place. */
  return BUSQ_ALIGN_UP(header, size_bytes >= 512 ? 64u : 8u);
}

/* The place of a reply (reply_place.h): how often it was given to a request << 2 | its state, and the life of the process
 * that has the request. */
typedef busq_pair busq_reply_place;

/* A word on which at most one multicast at a time may be decided (claim.h). */
typedef busq_pair busq_claim_word;

/* A place of the order: where a view begins, where a node ends.  Each half shows which of the changes of its owner it
 * belongs to; they change by swaps that fail where that is not a later one. */
typedef struct {
  busq_pair timestamp; /* number, timestamp */
  busq_pair source;    /* number, sequence (52) | slot of the sender (12) */
} busq_place_mark;

/* How many changes of a group's view are remembered. */
#define BUSQ_GROUP_CHANGES 256u
/* And for each entry, how many numbers of groups that have lost theirs. */
#define BUSQ_GROUP_NUMBERS 64u
#define BUSQ_MEMBER_IS_IN UINT64_C(1)
#define BUSQ_MEMBER_LIFE_SHIFT 33 /* which life of its incarnation it is, from 0: 29 bits, round and round */
#define BUSQ_MEMBER_LIFE_MASK ((UINT64_C(1) << 29) - 1)
#define BUSQ_MEMBER_CLOSES (UINT64_C(1) << 62)       /* it closes, and there was no room for the view without it: it has left, and not died */
#define BUSQ_MEMBER_MISSED (UINT64_C(1) << 63)       /* dead, and still in: a change may have gone to the others alone */

static inline uint32_t busq_member_incarnation(uint64_t member)
{
  return (uint32_t)(member >> 1);
}

static inline uint64_t busq_member_target(uint64_t member, uint32_t slot)
{
  return (uint64_t)busq_member_incarnation(member) << 16 | slot;
}

/* A peer that is in, in that life. */
static inline uint64_t busq_member_in(uint32_t incarnation, uint32_t life)
{
  return ((life - incarnation) & BUSQ_MEMBER_LIFE_MASK) << BUSQ_MEMBER_LIFE_SHIFT | (uint64_t)incarnation << 1 |
         BUSQ_MEMBER_IS_IN;
}

static inline uint32_t busq_member_life(uint64_t member)
{
  return busq_member_incarnation(member) + (uint32_t)((member >> BUSQ_MEMBER_LIFE_SHIFT) & BUSQ_MEMBER_LIFE_MASK);
}

/* Of one watcher, in a group of watchers (watch.h). */
typedef struct {
  busq_claim_word claim; /* of its next notice */
  busq_pair told;        /* number, and the last one: a life, and whether it is there (watch.c) */
} busq_watcher;

/* A group of peers (group.h).  Behind it: member[peers], watchers[peers] and viewed[peers]. */
typedef struct {
  _Alignas(BUSQ_LINE_PAIR_BYTES) busq_claim_word claim; /* the number of the view */
  busq_pair identity; /* how often the entry was given a name, and a hash of that; 0, 0: never */
  uint64_t base;      /* the number of the claim when it got the name */
  uint64_t kept;      /* the number that is shown of that one: the last of the group that had the name before */
  uint32_t name_bytes;
  char name[BUSQ_LAYOUT_NAME_BYTES_MAX + 2]; /* behind "@" that of a group, behind "?" that of a watched peer */
  _Alignas(BUSQ_LINE_PAIR_BYTES) busq_place_mark change[BUSQ_GROUP_CHANGES]; /* by its number */
  uint64_t numbers[BUSQ_GROUP_NUMBERS]; /* of the entries together: by a hash of its name, the last number that was shown of a group */
  busq_pair member[]; /* number of the view that changed it; MISSED (1), CLOSES (1), which life of the incarnation (29), incarnation (32), IS_IN (1) */
  /* busq_watcher watchers[peers] */
  /* uint64_t viewed[peers]: the last view that the peer has delivered << 1 | BUSQ_MEMBER_IS_IN, written by it alone */
} busq_group;

/* A node of a peer (node.h).  Behind it: holder[peers]. */
typedef struct {
  _Alignas(BUSQ_LINE_PAIR_BYTES) busq_claim_word claim; /* its generation */
  busq_place_mark end; /* by its generation */
  uint64_t owner; /* generation (32) | life of the owner (32) */
  uint64_t holds; /* how often a peer came to hold it that did not */
  uint64_t told;  /* how many of those are over, as far as its owner knows */
  uint64_t holder[]; /* by slot: what the peer has of it */
} busq_node;

/* The name of a node: of a slot, which of its nodes, and which in a row of those that stood there. */
typedef struct {
  uint16_t slot;
  uint16_t index;
  uint32_t generation;
} busq_node_name;

static inline busq_watcher *busq_group_watchers(busq_group *group, uint32_t peers)
{
  return (busq_watcher *)(void *)(group->member + peers);
}

static inline uint64_t *busq_group_viewed(busq_group *group, uint32_t peers)
{
  return (uint64_t *)(void *)(busq_group_watchers(group, peers) + peers);
}

/* False where the numbers are out of range or do not fit into 64 bits of file. */
bool busq_geometry_compute(busq_geometry *geometry, const busq_geometry *asked);
/* Pages at the begin of a run that hold its record's header. */
uint64_t busq_geometry_head_bytes(const busq_geometry *geometry);
/* The end of a file without larger messages: of the arena, and the header of a record that begins at its very end. */
uint64_t busq_geometry_arena_end(const busq_geometry *geometry);
uint64_t busq_layout_stamp(void);
uint64_t busq_header_checksum(const busq_header *header);

#endif /* BUSQ_SHM_MEMORY_LAYOUT_H */
