/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_MEMORY_REGION_H
#define BUSQ_SHM_MEMORY_REGION_H
/*
 * The file behind a bus: making, opening, validating and removing it.
 *
 * Guarantee: a bus appears under its name complete or not at all, even when its creator is killed; its memory is reserved,
 * so that a full file system is an error at creation and not a SIGBUS later; a file of another version, of
 * another boot, cut short, damaged, planted by somebody else or reached through a symbolic link is refused with its reason.
 *
 * Mechanism: an unnamed file (O_TMPFILE) is reserved and filled and then linked to its name in one step.  Openers read the
 * header into private memory, check it there, and map the file with those private sizes.
 *
 * Not given: protection from a process of the same user that cuts the file short while it is mapped.
 */
#include "base/types.h"
#include "busq.h"

/* For a user more: busq_bus_free, or busq_bus_leave and then busq_bus_release. */
void busq_bus_retain(busq_bus *bus);
/* A user less: with the last one goes the hold on a temporary bus, while what it looks at stays mapped. */
void busq_bus_leave(busq_bus *bus);
void busq_bus_release(busq_bus *bus);
/* In a forked child: maps the bus again, elsewhere, so that what is looked at in the old mapping can be made private. */
bool busq_bus_move(busq_bus *bus);

#endif /* BUSQ_SHM_MEMORY_REGION_H */
