/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_CHECK_DISK_H
#define BUSQ_CHECK_DISK_H
/*
 * Files of a search, in a directory that its caller names.
 *
 * Guarantee: they have no names, so nothing of them is left however the search ends; together they take no more than the limit; and
 * what was allocated can be written to: a disk that is full refuses to allocate, and ends the search.
 *
 * Not given: a device that fails, and a file system that finds no room for what it has allocated: SIGBUS.
 */
#include "check/account.h"

typedef struct {
  int directory;     /* -1: there is none */
  atomic_int number; /* the system's, of what was refused first; 0: nothing was */
  busq_account account;
} busq_disk;

/* BUSQ_NOT_FOUND, BUSQ_DENIED, BUSQ_SYSTEM. */
int busq_disk_open(busq_disk *disk, const char *path, uint64_t limit_bytes);
void busq_disk_close(busq_disk *disk);

static inline bool busq_disk_is_open(const busq_disk *disk)
{
  return disk->directory >= 0;
}

/* A file without a name; -1 where there can't be one. */
int busq_disk_file(busq_disk *disk);
/* Room from the one byte on to before the other, whole pages. */
bool busq_disk_allocate(busq_disk *disk, int file, uint64_t begin, uint64_t end);
/* Gives it back; false where the file system can't. */
bool busq_disk_release(busq_disk *disk, int file, uint64_t begin, uint64_t end);

#endif /* BUSQ_CHECK_DISK_H */
