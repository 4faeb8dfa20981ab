/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_TRACE_RECORD_H
#define BUSQ_TRACE_RECORD_H
/*
 * One event of a trace: 64 bytes, a line of the cache.
 *
 * Guarantee: whatever was delivered has its send before it in the ring of its sender; a sender that was killed while it
 * sent leaves a record that shows it; a list of destinations is never torn.
 *
 * Mechanism: a send is one record, written in two steps: begun before the message can be seen, done when its call is
 * about to return.  More destinations (or a longer name) than fit in go into records that follow at once; all are
 * reserved together.
 *
 * Not given: room for it.  What finds a full ring is dropped, and shows as a gap (record/recorder.h).
 */
#include "base/types.h"

/* Kept equal to busq.trace.schema.Kind for what stands in files; the others stay in rings. */
typedef enum {
  BUSQ_TRACE_DELIVER = 0,
  BUSQ_TRACE_SEND = 1,
  BUSQ_TRACE_LOCAL = 2, /* only in files */
  BUSQ_TRACE_REDELIVER = 3,
  BUSQ_TRACE_ABORT = 4,
  BUSQ_TRACE_STAGE = 5,
  BUSQ_TRACE_SEAL = 6,
  BUSQ_TRACE_BLOCK = 7,
  BUSQ_TRACE_JOIN = 8,
  BUSQ_TRACE_LEAVE = 9,
  BUSQ_TRACE_GAP = 10, /* only in files */
  BUSQ_TRACE_PASS = 11, /* it came, and was not for this receiver at its place in the order */
  BUSQ_TRACE_DIE = 12,  /* only in files */
  BUSQ_TRACE_MORE = 13, /* goes on with the one before */
  BUSQ_TRACE_VOID = 14  /* nothing came of it */
} busq_trace_kind;

enum {
  BUSQ_TRACE_FRESH = 1, /* of a join: it has just joined; otherwise it was there before the recording */
  BUSQ_TRACE_OPEN = 2,  /* of a send: `end` is when it was final; its call had not returned */
  BUSQ_TRACE_ORPHAN = 4, /* of a send: its sender died in it; set by the recorder */
  BUSQ_TRACE_PLAIN = 8,  /* times are nanoseconds, whatever clock the recording has */
  BUSQ_TRACE_GROUP =
      16, /* of a send: to a group, which the last of its records names; of a delivery: a view, whose members follow */
  BUSQ_TRACE_READER = 32, /* of a join: the name is that of a shared queue, of which this is one reader */
  BUSQ_TRACE_WIDE = 64,   /* of a send: a bridge re-sends it; the last of its records has the place */
  BUSQ_TRACE_OWN = 128    /* of such a send: it was sent on this bus */
};

/* A destination: its slot, and the last bits of the incarnation that the message was meant for. */
typedef struct {
  uint16_t slot;
  uint16_t incarnation;
} busq_trace_destination;

enum { BUSQ_TRACE_INLINE = 3, BUSQ_TRACE_PER_MORE = 12, BUSQ_TRACE_TEXT_BYTES = 48 };

typedef struct {
  uint64_t word; /* position << 2 | phase; changed last */
  uint8_t kind;  /* a busq_trace_kind */
  uint8_t flags;
  uint16_t count;   /* destinations of a send; bytes of the name of a joining peer */
  uint32_t dropped; /* how many events this ring had no room for before this one */
  union {
    struct {
      uint64_t message; /* the sequence number of its sender; 0: none.  Of a join: how many events others had dropped here before */
      uint64_t stamp;
      uint64_t time;   /* of the recording's clock (clock.h), as all of them */
      uint64_t end;    /* 0: not yet; of a view: its number */
      uint32_t commit; /* of a send: so long before `end` it was final; at most what fits; of a view: 1 + the index of its group */
      union {
        busq_trace_destination to[BUSQ_TRACE_INLINE];
        struct {
          uint32_t incarnation; /* of the sender, or of the joining peer */
          uint16_t slot;        /* of the sender */
          uint16_t unused;
        };
      };
    };
    busq_trace_destination more[BUSQ_TRACE_PER_MORE];
    struct {
      uint64_t view; /* in which a message was sent to a group, of this bus or of several machines */
      uint32_t group; /* 1 + its index; 0: to none, but by a bridge */
      uint32_t index; /* of a message that a bridge re-sends, at its place */
      uint64_t place;
    } sent;
    char text[BUSQ_TRACE_TEXT_BYTES];
  };
} busq_trace_record;

_Static_assert(sizeof(busq_trace_record) == 64, "an event is a line of the cache");

/* The records that a head announces, and that are reserved together with it. */
static inline uint32_t busq_trace_records_after(const busq_trace_record *record)
{
  if (record->kind == BUSQ_TRACE_JOIN)
    return (record->count + BUSQ_TRACE_TEXT_BYTES - 1u) / BUSQ_TRACE_TEXT_BYTES;
  const uint32_t grouped = record->flags & (BUSQ_TRACE_GROUP | BUSQ_TRACE_WIDE) ? 1 : 0;
  if (record->kind == BUSQ_TRACE_SEND || record->kind == BUSQ_TRACE_ABORT || record->kind == BUSQ_TRACE_VOID)
    return grouped + (record->count <= BUSQ_TRACE_INLINE
                          ? 0
                          : (record->count - BUSQ_TRACE_INLINE + BUSQ_TRACE_PER_MORE - 1u) / BUSQ_TRACE_PER_MORE);
  return grouped ? (record->count + BUSQ_TRACE_PER_MORE - 1u) / BUSQ_TRACE_PER_MORE : 0;
}

#endif /* BUSQ_TRACE_RECORD_H */
