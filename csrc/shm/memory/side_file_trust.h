/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_MEMORY_SIDE_FILE_TRUST_H
#define BUSQ_SHM_MEMORY_SIDE_FILE_TRUST_H
/*
 * Files beside a bus, in its directory: FIFOs (wake.h) and the rings of a recording (rings.h).
 *
 * The directory may be one for all, such as /tmp.  There another user can make a file of any name known beforehand, and
 * only that user can remove it. So these names have a random part, which processes that use the bus read in the bus;
 * and what is found under such a name is looked at before it is used.
 */
#include "shm/memory/bus.h"
#include <sys/stat.h>

/* May others than its owner use a bus?  In a directory that is meant for a group, and by that group.  Sharing some
 * group with the user that was first to take the name in a directory for all (/dev/shm, /tmp) is no reason to trust
 * that user. */
bool busq_file_is_for_group(int directory_fd, const struct stat *file);
/* Does a file belong to a user that may use the bus, and is it open to no others? */
bool busq_file_is_of_bus(const busq_bus *bus, const struct stat *file);
/* A number that can't be guessed, never 0. */
uint64_t busq_file_random_part(void);

#endif /* BUSQ_SHM_MEMORY_SIDE_FILE_TRUST_H */
