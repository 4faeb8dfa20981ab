/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_ORDER_WBAM_STATE_H
#define BUSQ_ORDER_WBAM_STATE_H
/*
 * The state of order "wbam", for its protocol (wbam.c) and for the change of a leader (wbam_recovery.c): what is known of each message, and
 * what sends it.
 */
#include "order/order.h"
#include "queue/outbox.h"

enum { MULTICAST, ACCEPT, DATA, AGAIN, ACK, DELIVER, DELIVERED, NEWLEADER, LOCAL, GLOBAL, NEWLEADER_ACK, NEWSTATE, NEWSTATE_ACK };
enum { START, PROPOSED, ACCEPTED, COMMITTED };
enum { LEADER, FOLLOWER, RECOVERING };
enum {
  HAS_PAYLOAD = 1,  /* it came here, or is one's own */
  IS_ASKED = 2,     /* MULTICAST came, and waits for this process to lead */
  HAS_PROPOSED = 4, /* ACCEPT was sent, as this leader */
  HAS_ACKED = 8,    /* ACCEPT_ACK was sent, of the leaders in `acked` */
  IS_HANDED = 16,   /* DELIVER was sent, as this leader */
  IS_DELIVERED = 32,
  IS_DONE = 64 /* one's own */
};
enum { WINDOW = 4, GROUP_BITS = 5, PLACE_BITS = 3 };

/* Of a message.  Timestamps are the time, and below it the group.  Sets are of processes, or of groups; a vector has a place in the group, of
 * a leader, for each of them.  What a recovery reports is taken over at its end. */
typedef struct {
  uint64_t local;  /* LocalTS of one's own group; 0 at START */
  uint64_t global; /* GlobalTS; 0 unless COMMITTED */
  uint64_t reported_local;
  uint64_t reported_global;
  uint32_t reported_after; /* the leader that the reporting process followed: a place */
  uint32_t number;         /* of the message, at its sender; 0: there was none */
  uint32_t destinations;   /* a set of processes */
  uint32_t phase;
  uint32_t remarks;
  uint32_t asks;      /* processes that MULTICAST is to be sent to; between steps none */
  uint32_t proposed;  /* groups of which there is an ACCEPT, */
  uint32_t leaders;   /* of these leaders, a vector */
  uint32_t acked;     /* a vector */
  uint32_t ack;       /* the vector of most leaders that ACCEPT_ACK came for, */
  uint32_t ack_from;  /* and from which processes */
  uint32_t delivered; /* of one's own: the processes that have delivered */
  uint64_t locals[];  /* of each group, as its ACCEPT has it */
} wbam_entry;

/* Behind it, rounded up: an entry for each process and each number of its window; then
 *   mine, an outbox: one's own messages that are not under way; `to` has the destinations. */
typedef struct {
  busq_order_group group;
  uint64_t clock;
  uint64_t passed;   /* GlobalTS of what was delivered last */
  uint32_t status;
  uint32_t ballot;   /* the latest leader that was heard of: its place in the group */
  uint32_t leader;   /* the one that was followed last.  Invariant: leader <= ballot */
  uint32_t n_own;    /* one's own messages under way */
  uint32_t heard;    /* in one's own recovery: the processes whose NEWLEADER_ACK, or NEWSTATE_ACK, came */
  uint32_t latest;   /* the latest leader that any of these followed */
  /* The rest is about a step that is cut; between steps it is 0. */
  uint32_t to;             /* processes that `packet` is to be sent to */
  uint32_t delivering;     /* 1 + the place of an entry that is being delivered, */
  uint32_t is_handed_on;   /* and whether others of the group have it */
  uint32_t reporting;      /* processes that hear of all entries, */
  uint32_t reported;       /* of so many they have, */
  uint32_t part;           /* and of this part of the next one */
  busq_order_packet packet;
} wbam_state;

/* ---- groups ---- */

static inline uint32_t wbam_size_of_groups(const busq_order_group *group)
{
  return busq_order_replicas(group->options);
}

static inline uint32_t wbam_n_groups(const busq_order_group *group)
{
  return (group->n_processes + wbam_size_of_groups(group) - 1) / wbam_size_of_groups(group);
}

static inline uint32_t wbam_group_of(const busq_order_group *group, uint32_t process)
{
  return process / wbam_size_of_groups(group);
}

static inline uint32_t wbam_place_of(const busq_order_group *group, uint32_t process)
{
  return process % wbam_size_of_groups(group);
}

static inline uint32_t wbam_set_of(uint32_t number)
{
  return 1u << number;
}

static inline uint32_t wbam_members_of(const busq_order_group *group, uint32_t number)
{
  uint32_t members = 0;
  for (uint32_t process = number * wbam_size_of_groups(group); process < group->n_processes && wbam_group_of(group, process) == number; process++)
    members |= wbam_set_of(process);
  return members;
}

static inline bool wbam_is_quorum(const busq_order_group *group, uint32_t number, uint32_t processes)
{
  const uint32_t members = wbam_members_of(group, number);
  return __builtin_popcount(members & processes) * 2 > __builtin_popcount(members);
}

static inline uint32_t wbam_groups_of(const busq_order_group *group, uint32_t processes)
{
  uint32_t groups = 0;
  for (uint32_t rest = processes; rest; rest &= rest - 1)
    groups |= wbam_set_of(wbam_group_of(group, (uint32_t)__builtin_ctz(rest)));
  return groups;
}

/* All that take part in a message for these processes. */
static inline uint32_t wbam_concerned(const busq_order_group *group, uint32_t processes)
{
  uint32_t all = 0;
  for (uint32_t rest = wbam_groups_of(group, processes); rest; rest &= rest - 1)
    all |= wbam_members_of(group, (uint32_t)__builtin_ctz(rest));
  return all;
}

/* As a set: empty where the whole group is dead. */
static inline uint32_t wbam_leader_of(const busq_order_group *group, uint32_t number)
{
  const uint32_t living = wbam_members_of(group, number) & ~group->suspected;
  return living & -living;
}

static inline uint32_t wbam_bits_of_place(const busq_order_group *group)
{
  return 32u - (uint32_t)__builtin_clz(2 * wbam_size_of_groups(group) - 1) - 1;
}

static inline uint32_t wbam_leader_in(const busq_order_group *group, uint32_t vector, uint32_t number)
{
  const uint32_t bits = wbam_bits_of_place(group);
  return bits ? vector >> number * bits & ((1u << bits) - 1) : 0;
}

static inline uint32_t wbam_put_leader(const busq_order_group *group, uint32_t vector, uint32_t number, uint32_t place)
{
  const uint32_t bits = wbam_bits_of_place(group);
  return bits ? (vector & ~(((1u << bits) - 1) << number * bits)) | place << number * bits : 0;
}

static inline uint64_t wbam_larger(uint64_t left, uint64_t right)
{
  return left > right ? left : right;
}

/* ---- entries ---- */

static inline size_t wbam_entry_bytes(const busq_order_group *group)
{
  return sizeof(wbam_entry) + wbam_n_groups(group) * sizeof(uint64_t);
}

static inline uint32_t wbam_n_entries(const busq_order_group *group)
{
  return group->n_processes * WINDOW;
}

static inline size_t wbam_head_size(const busq_order_group *group)
{
  return BUSQ_ALIGN_UP(sizeof(wbam_state), 8) + wbam_n_entries(group) * wbam_entry_bytes(group);
}

static inline busq_outbox *wbam_mine_of(const wbam_state *self)
{
  return (busq_outbox *)(void *)((char *)self + wbam_head_size(&self->group));
}

static inline wbam_entry *wbam_entry_at(const wbam_state *self, uint32_t place)
{
  return (wbam_entry *)(void *)((char *)self + BUSQ_ALIGN_UP(sizeof(wbam_state), 8) + place * wbam_entry_bytes(&self->group));
}

static inline uint32_t wbam_origin_at(uint32_t place)
{
  return place / WINDOW;
}

static inline uint32_t wbam_place_of_message(uint64_t message)
{
  return busq_message_origin(message) * WINDOW + busq_message_number(message) % WINDOW;
}

static inline uint64_t wbam_message_at(const wbam_state *self, uint32_t place)
{
  return busq_message_name(wbam_origin_at(place), wbam_entry_at(self, place)->number);
}

static inline uint32_t wbam_own_group(const wbam_state *self)
{
  return wbam_group_of(&self->group, self->group.self);
}

static inline uint32_t wbam_own_place(const wbam_state *self)
{
  return wbam_place_of(&self->group, self->group.self);
}

static inline uint32_t wbam_me(const wbam_state *self)
{
  return wbam_set_of(self->group.self);
}

static inline bool wbam_is_concerned(const wbam_state *self, const wbam_entry *entry)
{
  return wbam_groups_of(&self->group, entry->destinations) & wbam_set_of(wbam_own_group(self));
}

static inline bool wbam_is_undecided(const wbam_entry *entry)
{
  return entry->phase == PROPOSED || entry->phase == ACCEPTED;
}

static inline bool wbam_is_over(const wbam_entry *entry)
{
  return entry->remarks & IS_DELIVERED || entry->phase == START;
}

static inline void wbam_begin(wbam_state *self, uint32_t place, uint32_t number, uint32_t destinations)
{
  wbam_entry *entry = wbam_entry_at(self, place);
  memset(entry, 0, wbam_entry_bytes(&self->group));
  entry->number = number;
  entry->destinations = destinations;
}

/* ---- sending ---- */

static inline void wbam_send(wbam_state *self, uint32_t to, busq_order_packet packet)
{
  self->packet = packet;
  self->to = to & ~wbam_me(self) & ~self->group.suspected;
}

static inline void wbam_send_of(wbam_state *self, uint32_t to, uint32_t kind, uint32_t place, uint64_t stamp)
{
  wbam_send(self, to,
       (busq_order_packet){
           .message = wbam_message_at(self, place), .stamp = stamp, .note = wbam_entry_at(self, place)->destinations, .kind = kind});
}

/* As a leader, for a message that needs others: asks their leaders, where these have not proposed it. */
static inline void wbam_retry(const wbam_state *self, wbam_entry *entry)
{
  const busq_order_group *group = &self->group;
  for (uint32_t rest = wbam_groups_of(group, entry->destinations); rest; rest &= rest - 1) {
    const uint32_t number = (uint32_t)__builtin_ctz(rest), leader = wbam_leader_of(group, number);
    const bool has_proposed = entry->proposed & wbam_set_of(number) && leader &&
                              wbam_leader_in(group, entry->leaders, number) == wbam_place_of(group, (uint32_t)__builtin_ctz(leader));
    entry->asks |= has_proposed ? 0 : leader;
  }
}

#endif /* BUSQ_ORDER_WBAM_STATE_H */
