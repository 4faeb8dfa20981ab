/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_CHECK_STORE_H
#define BUSQ_CHECK_STORE_H
/*
 * Bytes that grow in place, in memory or in a file.
 *
 * Guarantee: what lies in a store never moves, and what it uses is counted by pieces, in the account of its search or of its disk.
 *
 * Mechanism: address space is reserved for the largest that it may become; memory comes from the system where it is touched, and
 * goes back from the beginning on.  A file is mapped there, and what of it is in memory is for the system to decide.
 *
 * Not given: threads.  Growing and releasing belong to one thread at a time; others may use meanwhile what is there.
 */
#include "check/disk.h"
#include <stddef.h>

typedef struct {
  char *bytes;
  size_t reserved_bytes;
  size_t used_bytes;     /* from the beginning */
  size_t counted_bytes;  /* in the account: up to here */
  size_t released_bytes; /* given back: up to here */
  busq_account *account;
  busq_disk *disk; /* NULL: in memory */
  int file;
} busq_store;

bool busq_store_init(busq_store *store, busq_account *account, size_t bytes_max);
/* In a file. */
bool busq_store_init_on(busq_store *store, busq_disk *disk);
void busq_store_deinit(busq_store *store);
/* False where the account, the disk or the address space does not go along. */
bool busq_store_grow(busq_store *store, size_t used_bytes);
/* Entries before this are not needed any more: gives their memory back, and what was reserved for more. */
void busq_store_trim(busq_store *store, size_t before);
/* Empty again; keeps the memory for what comes, if none was given back. */
void busq_store_clear(busq_store *store);

#endif /* BUSQ_CHECK_STORE_H */
