/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking into a queue without taking part; the calls are declared in busq.h.
 *
 * Guarantee: a look changes nothing, and the queue's readers, alive or dead, do not notice it.  What is returned was in
 * the queue, whole, at some moment of the call; nothing that is read is used as an index or a length unchecked.
 *
 * Mechanism: a message is copied, and then its record's state is read again.  Where that is the same, no process has
 * used the record for another message while it was copied; and where its receiver has not released it, its memory was
 * there.
 *
 * Not given: the queue at one moment: of what is taken meanwhile, a look may miss what follows.  Its order, which the
 * keys of messages show; messages that are not final, or that a reader has in its hands.
 */
#include "base/error.h"
#include "shm/message/shared_take.h"
#include "shm/receive/look.h"
#include <string.h>
#include <unistd.h>

/* Is it taken, or in the hands of a reader?  Otherwise the reference shows its sender afterwards. */
static bool is_had(busq_reference *seen, busq_peeked *peeked)
{
  if (seen->sender == BUSQ_RING_NOBODY || (seen->sender & BUSQ_RING_CLAIMED))
    return true;
  peeked->is_redelivered = (seen->sender & BUSQ_RING_OFFERED) != 0;
  seen->sender &= BUSQ_RING_SENDER_MASK;
  return false;
}

static void sender_name(const busq_bus *bus, const busq_found *found, busq_peeked *peeked)
{
  const busq_slot *sender = &bus->slots[found->key.sender];
  const uint32_t bytes = busq_load_relaxed(&sender->name_bytes);
  peeked->sender_bytes = 0;
  const uint32_t first = (uint32_t)(busq_load_acquire(&sender->life) >> 32);
  /* All lives of an incarnation have one name (names.c). */
  if (found->sender_life - first > busq_load_acquire(&sender->lives) - first || bytes > BUSQ_LAYOUT_NAME_BYTES_MAX)
    return;
  memcpy(peeked->sender, sender->name, bytes);
  peeked->sender_bytes = bytes;
}

/* Behind the arena (huge.h) by a call: the memory of what is released goes meanwhile, and a look at it there would take
 * some for good, or be a SIGBUS. */
static bool payload_copy(const busq_bus *bus, busq_reference seen, const busq_found *found, char *data, size_t bytes)
{
  if (seen.record < bus->huge_unit) {
    memcpy(data, found->payload, bytes);
    return true;
  }
  const off_t begin = (const char *)found->payload - bus->base;
  for (size_t done = 0; done < bytes;) {
    const ssize_t n = pread(bus->fd, data + done, bytes - done, begin + (off_t)done);
    if (n <= 0)
      return false;
    done += (size_t)n;
  }
  return true;
}

/* Copies what stands at a position of a ring that belongs to the queue of `slot`; false where nothing waits there. */
static bool peek_at(const busq_bus *bus, const busq_ring *ring, uint32_t slot, uint64_t position, busq_peeked *peeked,
                    void *data, size_t room)
{
  busq_reference seen;
  busq_found found;
  if (!busq_ring_look(ring, position, &seen) || is_had(&seen, peeked))
    return false;
  busq_record *record = busq_reference_record(bus, seen);
  const uint64_t state = record ? busq_load_acquire(&record->state.lo) : 0;
  if (!record || state != (seen.tag | BUSQ_PHASE_COMMITTED))
    return false;
  found.key = (busq_key){busq_load_relaxed(&record->state.hi), seen.tag, seen.sender};
  if (!busq_found_fill(bus, slot, seen, record, &found))
    return false;
  const uint16_t *const mark = &record->destination[found.mark].mark;
  peeked->is_redelivered |= (busq_load_acquire(mark) & BUSQ_MARK_OFFERED) != 0;
  peeked->timestamp = found.key.timestamp;
  peeked->sequence = busq_tag_sequence(seen.tag);
  peeked->size_bytes = found.size_bytes;
  peeked->form = found.form;
  sender_name(bus, &found, peeked);
  return payload_copy(bus, seen, &found, data, found.size_bytes < room ? found.size_bytes : room) &&
         busq_record_is_still(record, state) && !(busq_load_acquire(mark) & (BUSQ_MARK_RELEASED | BUSQ_MARK_TAKEN)) &&
         busq_record_is_still(record, state); /* so that was its mark */
}

/* The queue's own ring, then the hands of its readers, to which what came back may have gone. */
static bool belongs(const busq_bus *bus, uint32_t ring, uint32_t slot)
{
  return ring == slot || busq_share_is_reader_of(bus, ring, slot);
}

int busq_bus_peek(busq_bus *bus, uint64_t target, uint64_t *cursorp, busq_peeked *peeked, void *data, size_t room)
{
  const uint32_t slot = busq_target_slot(target);
  const int result = busq_target_check(bus, target);
  if (result != BUSQ_OK)
    return result;
  const uint64_t per_ring = bus->geometry.slot_count + UINT64_C(1);
  for (; *cursorp < per_ring * bus->geometry.peers; (*cursorp)++) {
    const uint32_t at = (uint32_t)((slot + *cursorp / per_ring) % bus->geometry.peers);
    if (at >= busq_slots_reached(bus)) {
      *cursorp += per_ring - 1; /* no peer was there so far */
      continue;
    }
    const busq_ring ring = busq_bus_ring(bus, at);
    const uint64_t head = busq_load_acquire(&ring.queue->head), tail = busq_ring_tail(&ring);
    const uint64_t offset = *cursorp % per_ring;
    if (offset >= tail - head || tail - head > ring.slot_count || !belongs(bus, at, slot)) {
      *cursorp += per_ring - 1 - offset; /* the next ring */
      continue;
    }
    memset(peeked, 0, sizeof *peeked);
    if (peek_at(bus, &ring, slot, head + offset, peeked, data, room)) {
      (*cursorp)++;
      return BUSQ_OK;
    }
  }
  return BUSQ_EMPTY;
}
