/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_SHM_MEMORY_LIFE_H
#define BUSQ_SHM_MEMORY_LIFE_H
/*
 * The life and death of peers.
 *
 * Guarantee: whether a peer lives is decided by the kernel, never by a timeout.
 *
 * Mechanism.  Open-file-description locks on single bytes far behind the end of the bus file: two bytes per slot, one
 * per name.  The kernel releases them when the last copy of the descriptor is gone, which is when the process is dead,
 * however it died, zombies included, and across pid namespaces.  A forked child would keep the copy alive, so a fork
 * handler closes it there.
 *
 *      the slot's byte     held for life by its peer; that of a shared queue, by all of its readers together
 *      the grave's byte    held by the process that changes a slot whose peer is gone (grave.h)
 */
#include "shm/memory/bus.h"

/* 0, or -1 with errno: EAGAIN where another process holds the byte. */
int busq_lock_try(int fd, int64_t byte);
/* Holds the byte together with others; turns a byte that is held alone into a shared one in one step. */
int busq_lock_share(int fd, int64_t byte);
void busq_lock_drop(int fd, int64_t byte);
void busq_lock_drop_range(int fd, int64_t byte, int64_t bytes);
/* A descriptor that holds locks of this process.  A forked child closes its copy, or it would hold them too. */
typedef struct busq_guard {
  int *fd;
  busq_bus *bus;
  struct busq_guard *next;
} busq_guard;

/* Counts the forks that lie between the first process and this one. */
extern uint32_t busq_fork_generation;
/* A descriptor for locks, closed in forked children. */
int busq_guard_open(busq_guard *guard, busq_bus *bus, int *fd);
void busq_guard_close(busq_guard *guard);
/* The end of the store (busq_bus_expect_another_user), of which guards are served in turn: a closed one's goes back. */
void busq_guard_store_end(busq_bus *bus);

/* True where the kernel knows the process behind a slot to live. */
bool busq_life_is_held(const busq_bus *bus, uint32_t slot);
/* A life as a number that no other life has: its incarnation, when it began, and the slot. */
static inline uint64_t busq_life_name_of(uint32_t slot, uint32_t incarnation, uint64_t began_ns)
{
  return (uint64_t)incarnation << 32 | ((began_ns >> 10) & 0xfffff) << 12 | slot;
}

static inline uint32_t busq_life_name_slot(uint64_t name)
{
  return (uint32_t)name & (BUSQ_LAYOUT_PEERS_MAX - 1);
}

/* The life that a slot has now. */
uint64_t busq_life_name(const busq_bus *bus, uint32_t slot);
/* True where the kernel knows the process of that life to live, and it has not left. */
bool busq_life_is_going_on(const busq_bus *bus, uint64_t name);
/* Takes the slot's byte, for a peer to be: 0 or -1.  The caller is in the slot's grave. */
int busq_life_hold(int fd, uint32_t slot);
/* Holds the slot's byte as one of the readers of a shared queue (shared_take.h). */
int busq_life_share(int fd, uint32_t slot);

#endif /* BUSQ_SHM_MEMORY_LIFE_H */
