/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_MEMORY_TEMPORARY_H
#define BUSQ_SHM_MEMORY_TEMPORARY_H
/*
 * Temporary buses: the name of one goes with the last process that has it open.
 *
 * Guarantee: the last process to let go of a temporary bus, by closing it or by its end, removes the name, and the
 * files beside it; where that process was killed, the next one that creates or opens a bus in the same directory does.  No name is removed while a
 * process has the bus open, or just gets it open: an open succeeds for good, or finds that there is none.
 *
 * Mechanism.  The sticky bit of the file marks it as temporary.  A process that has it open holds a read lock on one
 * byte of it, through a description of its own, which a forked child inherits: it has the bus open too.  A name is
 * removed under a write lock on that byte, and an opening process takes its read lock first and looks afterwards
 * whether the file still has a name.
 *
 *      opens       open;  read lock;  has it a name?
 *      removes     write lock, if there is none;  remove the name
 *
 * A closing process gives up its own lock before it tries for that: if it tried first, two that close at once would
 * each find the other's lock, and both leave the name behind.
 *
 * Not given: a name that is removed at once by a process that is killed, or ends by _exit; and that no process waits
 * for one that is stopped between its write lock and the removal: until it goes on, the name is taken, though no
 * process can open it.
 */
#include "shm/memory/bus.h"
#include <sys/stat.h>

#define BUSQ_HOLD_MODE S_ISVTX

/* For a bus whose file is open and temporary.  BUSQ_NOT_FOUND where its name is gone, or just going; a file that is
 * only being made has none yet.  `end` is called if the process ends with it as the last one: it removes the files
 * beside it, and nothing of its memory. */
int busq_temporary_take(busq_bus *bus, bool has_name, void (*end)(busq_bus *));
/* Gives it up, and removes the name if that was the last one: true where it did.  Does nothing where nothing is
 * held. */
bool busq_temporary_drop(busq_bus *bus);
/* Removes the name of a temporary bus that no process has open.  Gives its file, open and locked, or -1. */
int busq_temporary_clear(int directory_fd, const char *name);

#endif /* BUSQ_SHM_MEMORY_TEMPORARY_H */
