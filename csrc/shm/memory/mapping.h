/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_MEMORY_MAPPING_H
#define BUSQ_SHM_MEMORY_MAPPING_H
/*
 * A process's handle of a bus, and the mappings behind it.
 *
 * Guarantee: the mapping stays for as long as the bus has a reference: its own handle, its peers, and the pins of
 * those.
 *
 * Mechanism: two counts.  Users are handles and peers that are not closed; bus_end.h has what the last one does.
 * References keep the memory.
 */
#include "shm/memory/bus.h"

/* A handle without a mapping, with one user and one reference; NULL where memory ran out. */
busq_bus *busq_mapping_new(const char *name);
/* Maps the file bus->fd with the sizes in bus->geometry. */
int busq_mapping_map(busq_bus *bus);
/* One more user and one more reference. */
void busq_bus_retain(busq_bus *bus);
/* One reference less. */
void busq_bus_release(busq_bus *bus);
/* In a forked child: maps the bus again, elsewhere, so that what is looked at in the old mapping can be made
 * private. */
bool busq_bus_move(busq_bus *bus);

/* One reference more to the window of a bus, which is made where there is none: a mapping of the whole file, of which
 * nothing can be written to.  NULL, with the error that busq_error_text has, where the system refuses one. */
busq_window *busq_window_open(busq_bus *bus);
void busq_window_close(busq_window *window);
/* From now on, those that ask get another one. */
void busq_window_change(busq_bus *bus);

#endif /* BUSQ_SHM_MEMORY_MAPPING_H */
