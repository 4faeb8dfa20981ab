/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_SEND_SEND_HOOKS_H
#define BUSQ_SHM_SEND_SEND_HOOKS_H
/* Calls that are made while a message is sent, and the payload that carries them. */
#include "shm/memory/peer.h"

/*
 * Calls that a send makes on its way: for a change that it decides (claim.h), or a group whose view it must not miss.
 * All with the send latch; each may be NULL.
 */
typedef struct busq_send_hooks busq_send_hooks;
struct busq_send_hooks {
  /* The record is filled and STAGING, and no other process knows of it. Anything but BUSQ_OK takes it back. */
  int (*begin)(busq_send_hooks *hooks, busq_peer *peer, busq_record *record, uint64_t tag);
  /* Before each attempt: raises peer->sender.lamport above all that the message must come after
   * (busq_multicast_rise). */
  int (*attempt)(busq_send_hooks *hooks, busq_peer *peer);
  /* It can't be committed any more, and was not. */
  void (*undone)(busq_send_hooks *hooks, busq_peer *peer, busq_record *record, uint64_t tag);
  /* It is final, and the record is still the sender's.  `outcome` is what the send comes to: BUSQ_OK, or what has to be
   * done besides. */
  void (*end)(busq_send_hooks *hooks, busq_peer *peer, busq_record *record, busq_key key);
  int outcome;
  /* For the recording: a message to a group, 1 + the index of that, and the view in which it is sent; 0: none. */
  uint32_t group;
  uint64_t view;
};

/* The parts of a message one behind the other, or a draft, a record that was filled before. */
typedef struct busq_payload {
  const busq_part *parts;
  uint32_t n_parts;
  uint32_t form;
  uint64_t size_bytes;       /* of all parts, or of what is sent of the draft */
  const busq_message *draft; /* its place; NULL: the parts */
  busq_send_hooks *hooks; /* of parts; NULL: none */
} busq_payload;

#endif /* BUSQ_SHM_SEND_SEND_HOOKS_H */
