/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_LIVE_MESSAGE_H
#define BUSQ_LIVE_MESSAGE_H
/*
 * Messages that a process keeps, found by their names.
 *
 * Guarantee: a message stays for as long as there is a reason to keep it (its origin until it is done, a destination
 * until it is delivered, its receiver until the step has returned); its block stays until the last reference is
 * dropped, by whatever thread.
 *
 * Mechanism: one block per message, which holds it exactly as it travels (wire.h), so that sending copies it once, into
 * the bus, and receiving once, out of it.  A hash table with chains; the lock of the engine protects it.  References
 * are counted without the lock: the application drops its own whenever it likes.
 *
 * Not given: a bound.  Credits (link.h) bound what comes.
 */
#include "live/wire.h"

/* Why a message is in the table. */
enum {
  BUSQ_KEPT_OWN = 1,     /* at its origin, until BUSQ_DO_DONE */
  BUSQ_KEPT_FOR_ME = 2,  /* until BUSQ_DO_DELIVER or BUSQ_DO_DROP */
  BUSQ_KEPT_PASSING = 4, /* while the packet with its payload is received; in a WHOLE_GROUP until BUSQ_DO_DROP */
  BUSQ_KEPT_MINE = 8     /* remark, no reason: this process is one of its destinations */
};

typedef struct busq_live_entry busq_live_entry;
struct busq_live_entry {
  busq_live_entry *next_in_chain;
  busq_live_entry *next; /* in the inbox, or before its submit */
  uint64_t name;
  uint32_t references;
  uint32_t kept;
  uint32_t is_new; /* it came with the packet that the order is given next, or now */
  uint32_t n_destinations;
  uint64_t wire_bytes;
  uint64_t payload_bytes;
  uint64_t payload_offset; /* in the wire block */
  uint64_t taken;          /* by the application, as its so-many-th; 0: not so far */
  uint64_t after;          /* delivered when so many packets had found no room so far */
  uint64_t begun;          /* of our own, during a recording: when it was sent */
  _Alignas(8) char wire[];
};

typedef struct {
  busq_live_entry **chains;
  uint32_t n_chains; /* a power of two */
  uint32_t count;
} busq_live_table;

static inline busq_wire_header *busq_entry_header(busq_live_entry *entry)
{
  return (busq_wire_header *)(void *)entry->wire;
}

static inline uint16_t *busq_entry_destinations(busq_live_entry *entry)
{
  return (uint16_t *)(void *)(entry->wire + sizeof(busq_wire_header));
}

static inline uint32_t *busq_entry_clock(busq_live_entry *entry)
{
  const size_t before = sizeof(busq_wire_header) + busq_wire_destinations_bytes(entry->n_destinations);
  return (uint32_t *)(void *)(entry->wire + before);
}

static inline const char *busq_entry_payload(const busq_live_entry *entry)
{
  return entry->wire + entry->payload_offset;
}

/* With one reference, that of the caller; NULL where memory ran out. */
busq_live_entry *busq_entry_new(uint64_t name, uint32_t n_destinations, size_t clock_bytes, size_t payload_bytes);
void busq_entry_retain(busq_live_entry *entry);
void busq_entry_release(busq_live_entry *entry);

bool busq_table_init(busq_live_table *table);
void busq_table_deinit(busq_live_table *table);
busq_live_entry *busq_table_find(const busq_live_table *table, uint64_t name);
/* The table takes over the reference. */
void busq_table_add(busq_live_table *table, busq_live_entry *entry);
/* One reason less; without any the table lets go of it. */
void busq_table_drop(busq_live_table *table, busq_live_entry *entry, uint32_t reason);

#endif /* BUSQ_LIVE_MESSAGE_H */
