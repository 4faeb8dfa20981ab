/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_DEATH_BUS_END_H
#define BUSQ_SHM_DEATH_BUS_END_H
/*
 * The end of a process's use of a bus.
 *
 * Guarantee: the last user of a temporary bus removes its name (temporary.h), and with it the files of peers that were
 * killed, or that its process ends with.
 */
#include "shm/memory/bus.h"

/* One user less: with the last one goes the hold on a temporary bus, while what it looks at stays mapped. */
void busq_bus_leave(busq_bus *bus);
/* Removes the FIFOs that killed peers have left, and the rings of a recorder, of a bus that is about to lose its
 * name. */
void busq_bus_tidy(busq_bus *bus);
/* Removes them at the end of the last process, whose own peers are still there. */
void busq_bus_abandon(busq_bus *bus);

#endif /* BUSQ_SHM_DEATH_BUS_END_H */
