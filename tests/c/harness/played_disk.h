/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_TESTS_HARNESS_PLAYED_DISK_H
#define BUSQ_TESTS_HARNESS_PLAYED_DISK_H
/*
 * A file system that is full.  The core's calls of fallocate come here instead of to the C library, and fail where disk_lacks,
 * which the test defines, is true of them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool disk_is_full;

static bool disk_lacks(int mode, off_t bytes);

static int disk_reserve(int fd, int mode, off_t begin, off_t bytes)
{
  if (!disk_lacks(mode, bytes))
    return (int)syscall(SYS_fallocate, fd, mode, begin, bytes);
  errno = ENOSPC;
  return -1;
}

int fallocate(int fd, int mode, off_t begin, off_t bytes);
int fallocate(int fd, int mode, off_t begin, off_t bytes)
{
  return disk_reserve(fd, mode, begin, bytes);
}

int fallocate64(int fd, int mode, off64_t begin, off64_t bytes);
int fallocate64(int fd, int mode, off64_t begin, off64_t bytes)
{
  return disk_reserve(fd, mode, begin, bytes);
}

#endif /* BUSQ_TESTS_HARNESS_PLAYED_DISK_H */
