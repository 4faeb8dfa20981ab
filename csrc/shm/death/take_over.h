/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_DEATH_TAKE_OVER_H
#define BUSQ_SHM_DEATH_TAKE_OVER_H
/*
 * What the next peer of a name does with what the last one left.
 *
 * Guarantee: a peer that joins with BUSQ_JOIN_RESUME continues a dead or closed one of the same name: the same slot,
 * the same incarnation, the same queue. Senders that knew the predecessor need not notice; messages that it had sent
 * are as good as before; what it had not received comes now, in order; what it had received and not acknowledged comes
 * again.
 *
 * Mechanism.  The state of a queue is its ring, its head, and the marks in the records: so a successor starts to scan
 * at the head, and asks the marks about everything that stood there before it came (busq_look_inherited in shm/receive/look.h).
 * Heap, free lists and counters are private and derived anew.  A non-durable queue was closed when its peer went, and
 * is opened again.
 *
 * Not given: what was dropped because its slot or memory was needed (grave.h), unless the predecessor was durable.
 */
#include "shm/burial/grave.h"
#include "shm/memory/peer.h"

/* For the successor of a peer that is gone, and for its removal: takes its name, or returns that it is taken, with what
 * to do then; enters its slot's grave, or returns why that can't be now. */
int busq_take_over_name(int fd, int64_t lock, const busq_bus *bus, const char *name, size_t name_bytes, const char *advice);
int busq_take_over_enter(busq_grave *grave, uint32_t slot, const char *name, size_t name_bytes);

/* Continues the last peer of that name; BUSQ_EMPTY where there was none.  The name is held. */
int busq_take_over(busq_peer *peer, busq_grave *grave, const char *name, size_t name_bytes);
/* Gives up what is left under that name; BUSQ_PEER_EXISTS where it was promised to be kept. */
int busq_take_over_drop(busq_grave *grave, const char *name, size_t name_bytes);

#endif /* BUSQ_SHM_DEATH_TAKE_OVER_H */
