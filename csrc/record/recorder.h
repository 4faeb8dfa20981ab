/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_RECORD_RECORDER_H
#define BUSQ_RECORD_RECORDER_H
/*
 * The recorder: takes events out of all rings of a bus and makes rows of them.
 *
 * Guarantee.  Rows of a process come in the order in which it wrote its events, over all its lives, and hold only what
 * it wrote; what is missing is a gap of that size.  A message has one name everywhere: the index of its sender << 32 |
 * its number among the sends of that sender.  Whatever a ring holds, the recorder stays inside of it; where it
 * contradicts itself, it ends with an error, and what was taken before stays good.
 *
 * Mechanism.  A pass empties all rings, one after the other, into private queues, up to the next join; joins are taken
 * in the order of their times, each only once all rings were read that may hold an earlier one.  So the lives of a
 * process come in turn, in whichever slots they are, and its join waits, as a row, for those of its life before.  A send is in its ring before any
 * receiver can deliver the message; so when a delivery has been in a queue for a whole pass, the send it belongs to has
 * been seen, or was not recorded.  Then it becomes a row.  What a peer has reserved and not written is passed when the
 * kernel reports that the peer is gone, or when a successor writes behind it.
 *
 * A writer has died that left no row of leaving: before another one writes in its ring, before its own next life begins
 * in another ring, or where the kernel knows of no peer and nothing is left in the ring.  Where something may be missing behind its last row,
 * there is no row of its death.
 *
 * Slots name senders and receivers; the names belonging to them come from joins in the rings, and from the bus for
 * peers that do nothing themselves.  The readers of a shared queue have one name and run at the same time, each with its
 * own numbers, so each is a process of its own: a slot, in all of the lives in which it reads that queue.  The first of
 * them is the process of the name, to which messages for the queue are sent; a delivery shows which reader took one.
 *
 * Not given: what peers dropped because the rings were full, or what a recorder that was killed had taken and not
 * written.
 */
#include "busq.h"
#include "shm/memory/life.h"
#include "shm/trace/rings.h"

/* A run of messages of one slot; their numbers rise with their sequence numbers. */
typedef struct {
  uint64_t first; /* sequence numbers */
  uint64_t last;
  int64_t number; /* of the first */
  uint32_t process;
} busq_segment;

/* The owner of a slot in one of its lives. */
typedef struct {
  uint32_t incarnation;
  uint32_t process;
} busq_source_life;

/* The ring of a slot, and what was taken out of it. */
typedef struct {
  busq_trace_ring ring;
  bool is_there;
  uint64_t head;
  uint64_t tail;    /* when it was looked at last */
  uint64_t known;   /* the same before all rings were looked at last */
  bool is_at_join;  /* the next record is one, of this time */
  uint64_t join_time;
  uint64_t stuck_at; /* where a record that is not done was seen, and since how many passes */
  uint32_t stuck;
  uint64_t dropped; /* written so far */
  /* Drained and not yet translated. */
  busq_trace_record *queue;
  uint64_t n;
  uint64_t room;
  uint64_t done;
  uint64_t behind;  /* records that have left the queue: so each has a number that stays */
  uint64_t settled; /* of them were there a pass ago: the sends that they need are known */
  uint64_t marked;  /* the ring's position up to which rows were taken, and how many dropped events they report */
  uint64_t marked_dropped;
  busq_segment marked_segment;
  uint32_t marked_process_plus_1;
  uint32_t seen;    /* how many events had been dropped, by the last record */
  busq_segment *segments;
  uint32_t n_segments;
  uint32_t room_segments;
  busq_source_life *lives;
  uint32_t n_lives;
  uint32_t room_lives;
  uint32_t process; /* of the peer that writes now */
  uint32_t writer;  /* the same, as far as rows were made */
  bool has_process;
  bool has_writer;
  bool is_new_life; /* the next send begins a segment */
  bool is_at_work;  /* there are rows of its writer's life, which has not ended with them */
  bool has_ended;   /* that it left or died is written */
  bool is_gone;     /* the kernel knew of no peer here when the ring ended at `gone_at` */
  uint64_t gone_at;
  uint64_t begun;     /* the send that was seen begun, and not done: was it delivered? */
  bool is_delivered;
  uint32_t patience;  /* passes for which a dead sender's send was waited for */
  uint64_t lost;    /* events that a recorder before us had taken and not written; not reported so far */
} busq_source;

/* A peer by name, over all its lives; of a shared queue, one of its readers. */
typedef struct {
  char name[BUSQ_LAYOUT_NAME_BYTES_MAX + 1];
  size_t name_bytes;
  int64_t position;
  int64_t number; /* of its next message */
  uint32_t slot;  /* where it wrote last */
  uint32_t queue; /* the process of its name: itself, but for further readers of a shared queue */
  uint32_t reader_plus_1; /* the slot of a reader; 0: it is none */
  busq_trace_columns *columns;
} busq_recorder_process;

/* A group in one of the lives of its entry: the numbers of its views begin above `base`. */
typedef struct {
  uint32_t index;
  uint64_t base;
  uint64_t named; /* the first half of its identity, which rises by two with each name */
  uint64_t last;  /* the highest view that is surely its own, 0: none */
  char name[BUSQ_LAYOUT_NAME_BYTES_MAX + 1];
  size_t name_bytes;
} busq_recorder_group_life;

struct busq_recorder {
  busq_bus *bus;
  busq_rings rings;
  busq_guard guard;
  int lock_fd;
  bool is_stopped;
  bool is_damaged;
  bool is_begun; /* a pass has been made */
  busq_source *sources; /* [peers] */
  busq_recorder_process *processes;
  uint32_t n_processes;
  uint32_t room_processes;
  int32_t *to; /* [peers], scratch */
  int32_t *members; /* the same */
  busq_recorder_group_life *groups;
  uint32_t n_groups;
  uint32_t room_groups;
  busq_recorder_facts facts;
};

/* errors.c */
int busq_recorder_no_memory(const busq_recorder *self);
int busq_recorder_ring_damaged(busq_recorder *self, uint32_t slot);

/* names.c: the names of processes, and the numbers of messages.  The index of a name, or of the reader of a shared queue
 * in that slot; it is new where it was not known; UINT32_MAX where there is no memory. */
uint32_t busq_recorder_process_find(busq_recorder *self, const char *name, size_t bytes);
uint32_t busq_recorder_reader_find(busq_recorder *self, const char *name, size_t bytes, uint32_t slot);
/* The present owner of the slot, according to the bus. */
bool busq_recorder_life_look_up(busq_recorder *self, uint32_t slot);
/* The process behind a slot in a life; at least the last bits of the incarnation are known. */
uint32_t busq_recorder_life_find(busq_recorder *self, uint32_t slot, uint32_t incarnation, uint32_t mask);
bool busq_source_life_add(busq_source *from, uint32_t incarnation, uint32_t index);
/* A message was sent by the writer of this ring. */
bool busq_recorder_segment_extend(busq_recorder *self, busq_source *from, uint64_t sequence);
bool busq_source_segment_add(busq_source *from, busq_segment added);
/* 0 where the message was sent before the recording began, or its send was dropped and none has come since. */
int64_t busq_source_message(const busq_source *from, uint64_t sequence);

/* groups.c: the number of the group that has this view, and what is to be taken off its number; -1 where its entry has
 * another name by now, and the group was not seen before, or may be another one; false where memory ran out. */
bool busq_recorder_group_find(busq_recorder *self, uint32_t index, uint64_t view, int32_t *groupp, uint64_t *basep);

/* drain.c: out of the rings.  A ring that has come since. */
int busq_recorder_source_find(busq_recorder *self, uint32_t slot);
/* Records of a ring that were not taken yet. */
uint64_t busq_source_left(const busq_source *from);

#endif /* BUSQ_RECORD_RECORDER_H */
