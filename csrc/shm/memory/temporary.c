/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/memory/temporary.h"
#include "base/error.h"
#include "base/latch.h"
#include "shm/memory/side_file_trust.h"
#include "shm/memory/life.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOCK_OF_HOLD (INT64_C(1) << 39) /* before those of slots, behind the end of any bus */

/* ---- all holds, for the end of the process ---- */

static BUSQ_PROCESS_STATE busq_bus *held_first;
static BUSQ_PROCESS_STATE busq_latch held_latch;

/* True where the bus was in the list, and is not any more. */
static bool held_forget(busq_bus *bus)
{
  for (busq_bus **link = &held_first; *link; link = &(*link)->temporary_next) {
    if (*link == bus) {
      *link = bus->temporary_next;
      return true;
    }
  }
  return false;
}

/* Under the latch: the memory of the bus may be freed by the thread that comes behind us. */
static bool hold_end(busq_bus *bus)
{
  if (!held_forget(bus))
    return false;
  /* A description that a child has inherited keeps its lock until the child closes it as well. */
  close(bus->temporary_fd);
  bus->temporary_fd = -1;
  const int fd = busq_temporary_clear(bus->directory_fd, bus->name);
  if (fd >= 0)
    close(fd);
  return fd >= 0;
}

void busq_bus_leave_all(void)
{
  busq_latch_acquire(&held_latch);
  while (held_first) {
    busq_bus *bus = held_first;
    if (hold_end(bus))
      bus->temporary_end(bus);
  }
  busq_latch_release(&held_latch);
}

static void held_prepare(void)
{
  busq_latch_acquire(&held_latch);
}

static void held_release(void)
{
  busq_latch_release(&held_latch);
}

static void held_watch(void)
{
  pthread_atfork(held_prepare, held_release, held_release);
  (void)atexit(busq_bus_leave_all);
}

/* ---- holding ---- */

static int hold_gone(const busq_bus *bus)
{
  return busq_error(BUSQ_NOT_FOUND, "there is no bus \"%s\" any more: it was temporary, and its last process has gone", bus->name);
}

static int hold_open(busq_bus *bus)
{
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", bus->fd);
  bus->temporary_fd = open(path, O_RDWR | O_CLOEXEC);
  return bus->temporary_fd >= 0 ? BUSQ_OK : busq_error_system("can't open temporary bus \"%s\" once more for its lock", bus->name);
}

int busq_temporary_take(busq_bus *bus, bool has_name, void (*end)(busq_bus *))
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = LOCK_OF_HOLD, .l_len = 1};
  struct stat status;
  pthread_once(&once, held_watch);
  int result = hold_open(bus);
  if (!result && fcntl(bus->temporary_fd, F_OFD_SETLK, &lock) < 0)
    result = errno == EAGAIN ? hold_gone(bus) : busq_error_system("can't lock temporary bus \"%s\"", bus->name);
  if (!result && has_name && fstat(bus->temporary_fd, &status) == 0 && status.st_nlink == 0)
    result = hold_gone(bus);
  if (result) {
    if (bus->temporary_fd >= 0)
      close(bus->temporary_fd);
    bus->temporary_fd = -1;
    return result;
  }
  busq_latch_acquire(&held_latch);
  bus->temporary_end = end;
  bus->temporary_next = held_first;
  held_first = bus;
  busq_latch_release(&held_latch);
  return BUSQ_OK;
}

bool busq_temporary_drop(busq_bus *bus)
{
  if (!bus->is_temporary)
    return false;
  busq_latch_acquire(&held_latch);
  const bool was_last = hold_end(bus);
  busq_latch_release(&held_latch);
  return was_last;
}

/* ---- removing ---- */

/* A temporary bus, and ours to judge: in a directory for all there may be anything. */
static bool hold_is_temporary(int directory_fd, const struct stat *status)
{
  return S_ISREG(status->st_mode) && (status->st_mode & BUSQ_HOLD_MODE) &&
         (status->st_uid == geteuid() || busq_file_is_for_group(directory_fd, status));
}

static bool hold_is_bus(int fd)
{
  uint64_t magic;
  return pread(fd, &magic, sizeof magic, 0) == sizeof magic && magic == BUSQ_LAYOUT_MAGIC;
}

int busq_temporary_clear(int directory_fd, const char *name)
{
  struct stat of_name;
  struct stat of_file;
  /* Looked at by its name first: opening is the dearer part, and most are not temporary. */
  if (fstatat(directory_fd, name, &of_name, AT_SYMLINK_NOFOLLOW) < 0 || !hold_is_temporary(directory_fd, &of_name))
    return -1;
  const int fd = openat(directory_fd, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return -1;
  /* Once more by its name, under the lock: another process may have cleared it, and made another one. */
  if (hold_is_bus(fd) && busq_lock_try(fd, LOCK_OF_HOLD) == 0 && fstat(fd, &of_file) == 0 &&
      hold_is_temporary(directory_fd, &of_file) && fstatat(directory_fd, name, &of_name, AT_SYMLINK_NOFOLLOW) == 0 &&
      of_name.st_ino == of_file.st_ino && of_name.st_dev == of_file.st_dev && unlinkat(directory_fd, name, 0) == 0)
    return fd;
  close(fd);
  return -1;
}
