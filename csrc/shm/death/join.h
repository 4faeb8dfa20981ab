/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_DEATH_JOIN_H
#define BUSQ_SHM_DEATH_JOIN_H
/* Joining: a new peer is made (new_slot.h), or the queue of a dead one taken over (take_over.h).  The calls themselves
 * are declared in busq.h. */
#include "shm/memory/peer.h"

/* Joins under a name that no application can give (busq_name_check_hidden). */
int busq_join_hidden(busq_bus *bus, const char *name, size_t name_bytes, busq_peer **peerp);

#endif /* BUSQ_SHM_DEATH_JOIN_H */
