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
 * nothing can be written to.  Where the system refuses one, for a process may have a limit on what it maps, one of the
 * payload alone; NULL, with the error that busq_error_text has, where it refuses that. */
busq_window *busq_window_open(busq_bus *bus, const char *data, uint64_t bytes);
void busq_window_close(busq_window *window);
/* From now on, those that ask get another one. */
void busq_window_change(busq_bus *bus);
/* Around a fork, so that no thread is at work on a window: or the child would wait for it for ever. */
void busq_window_hold(void);
void busq_window_let_go(void);

#endif /* BUSQ_SHM_MEMORY_MAPPING_H */
