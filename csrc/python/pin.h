/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_PYTHON_PIN_H
#define BUSQ_PYTHON_PIN_H
/*
 * What keeps shared memory where it is: peers, pins, and what a memoryview shows.
 *
 * Guarantee: a payload stays in place for as long as anything looks at it, also behind the end of its peer's port; and what lets go
 * of it does so once, also where an exception is on its way.
 *
 * Mechanism: a PeerOwner owns a peer of the core.  A Pin owns a hold of the core's (busq_pin), and a Shown exports the memory; the
 * memoryview that shows it, its slices and arrays over it keep the Shown.  A message keeps the PeerOwner and not the Port, which may
 * hold that message: no collector would take such a circle apart.
 *
 * Not given: memory that can be written to, but for drafts: a write that goes around that ends in a fault (shm/memory/shown.h).
 */
#include "python/argument.h"

/* Owns a peer of the core. */
typedef struct {
  PyObject_HEAD
  busq_peer *peer;
} PeerOwner;

/* Of a payload that is shown in place, or of a draft. */
typedef struct {
  PyObject_HEAD
  PeerOwner *peer_owner; /* what the pin lets go of last must not be all of the peer, for closing takes its time */
  busq_pin pin;
} Pin;

/* Of a message that is about to be sent: the core notes on it when it was. */
typedef struct {
  PyObject_HEAD
  uint32_t sent;
} Note;

/* Owns what *peer is, which is NULL from then on; NULL with an exception, and the peer is freed. */
PeerOwner *peer_owner_new(busq_state *state, busq_peer **peer);
Pin *pin_new(busq_state *state);
/* Ends what busq_pin_show has counted, also where no object stands for it. */
void pin_view_end(Pin *pin);
/* A memoryview of memory that a pin holds; once it is released or dropped, its part of the pin ends. */
PyObject *pin_view(busq_state *state, Pin *pin, const void *data, uint64_t size, int is_readonly);

#endif /* BUSQ_PYTHON_PIN_H */
