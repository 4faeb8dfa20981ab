/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_TRACE_RINGS_H
#define BUSQ_SHM_TRACE_RINGS_H
/*
 * The file of rings beside a bus: ".busq-<first half of the bus's generation>-trace-<random>", in the bus's directory,
 * with its owner and permissions; the bus's header holds the random part (side_file_trust.h).  Removed when the recording ends,
 * with the bus, or by `busq gc`.
 *
 *      header | words of ring 0 .. peers-1 | records of ring 0 .. peers-1
 *
 * Header and words are reserved when the file is made, the records of a ring when its peer comes: a writer never finds
 * the file system full.
 */
#include "shm/memory/bus.h"
#include "trace/event_ring.h"

typedef struct {
  uint64_t magic;
  uint32_t version;
  uint32_t peers;
  uint64_t size; /* records of a ring */
  uint8_t bus[16];
  uint64_t bytes;
  busq_trace_scale scale; /* of its times */
  uint64_t checksum; /* of everything above */
} busq_rings_header;

typedef struct {
  char *base;
  uint64_t bytes;
  uint64_t size;
  uint32_t peers;
  int fd;
  busq_trace_scale scale;
} busq_rings;

#define BUSQ_RINGS_SIZE_MIN UINT64_C(256)
#define BUSQ_RINGS_SIZE_MAX (UINT64_C(1) << 22)
#define BUSQ_RINGS_SIZE_DEFAULT UINT64_C(65536)

/* Opens the file that is there; BUSQ_NOT_FOUND where there is none. */
int busq_rings_open(busq_rings *rings, const busq_bus *bus);
/* Makes it anew, in place of one that is there. */
int busq_rings_create(busq_rings *rings, busq_bus *bus, uint64_t size);
void busq_rings_close(busq_rings *rings);
/* The mapping stays: nothing can be reserved any more. */
void busq_rings_close_file(busq_rings *rings);
/* Lets go of the file's memory, for a thread may still be about to write there: what it writes goes nowhere. */
void busq_rings_abandon(busq_rings *rings);
void busq_rings_unlink(const busq_bus *bus);
/* Reserves the memory of a ring. */
int busq_rings_reserve(const busq_rings *rings, uint32_t slot);
busq_trace_ring busq_rings_ring(const busq_rings *rings, uint32_t slot);

#endif /* BUSQ_SHM_TRACE_RINGS_H */
