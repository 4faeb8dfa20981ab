/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_SEND_DRAFT_H
#define BUSQ_SHM_SEND_DRAFT_H
/*
 * Drafts: records that are filled in place before they are sent.
 *
 * A draft is FREE in its owner's hands: on no list, in no queue.  So no other process can know of it, a process that
 * buries its owner finds a record that is not needed, and a successor finds one that is free.  It is in hand (grave.h)
 * only while it is being sent.  A closed peer keeps its slot for as long as it has drafts: they can still be written
 * to.
 */
#include "shm/send/send_hooks.h"

/* Takes a record for a message of up to so many bytes to up to so many destinations; or BUSQ_FULL, ... */
int busq_draft_reserve(busq_peer *peer, uint64_t size_bytes, uint32_t n_targets, busq_message *draft);
/* Gives one back that was not sent; wants the send latch. */
void busq_draft_discard(busq_peer *peer, const busq_message *draft);

static inline busq_record *busq_draft_record(const busq_peer *peer, const busq_message *draft)
{
  return busq_bus_record(peer->bus, draft->record);
}

/* From the beginning of its record to the end of its payload. */
static inline uint64_t busq_draft_bytes(const busq_peer *peer, const busq_message *draft)
{
  return (uint64_t)((const char *)draft->data - (const char *)busq_draft_record(peer, draft)) + draft->size_bytes;
}

/* Can so much of a draft be sent to so many? */
int busq_draft_check(const busq_peer *peer, const busq_payload *payload, uint32_t n_targets);

#endif /* BUSQ_SHM_SEND_DRAFT_H */
