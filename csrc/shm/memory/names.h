/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_MEMORY_NAMES_H
#define BUSQ_SHM_MEMORY_NAMES_H
/*
 * Names of peers.
 *
 * Guarantee: a name belongs to at most one live peer, because a peer that joins holds a kernel lock on the byte that
 * its name is hashed to; a slot keeps its name for as long as messages of its peer are on their way.
 *
 * Not given: one slot per name.  A peer that left, or died, leaves its name in its slot for a while, and a peer that
 * joins under it again without taking over gets another slot.
 */
#include "shm/memory/peer.h"

int busq_group_check(const char *name, size_t bytes);
int busq_name_check(const char *name, size_t bytes);
/* Checks the name of a second slot of a peer, which has a "/" in it: no call finds it by name. */
int busq_name_check_hidden(const char *name, size_t bytes);
/* The byte of the bus file that stands for a name; two names may share one, rarely: then only one of them can be
 * joined. */
int64_t busq_name_lock(const char *name, size_t bytes);
/* Does the peer of the slot, alive or gone, have this name?  Its life was *lifep when it had.  The readers of a shared
 * queue send under its name, but no call finds them by it. */
bool busq_name_is(busq_bus *bus, uint32_t slot, const char *name, size_t bytes, uint64_t *lifep);

#endif /* BUSQ_SHM_MEMORY_NAMES_H */
