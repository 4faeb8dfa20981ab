/* SPDX-License-Identifier: Apache-2.0 */
#include "check/disk.h"
#include "base/error.h"
#include "busq.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_BYTES = 48, TRIES = 100 };

static bool refuse(busq_disk *disk, int number)
{
  int none = 0;
  (void)atomic_compare_exchange_strong(&disk->number, &none, number);
  return false;
}

int busq_disk_open(busq_disk *disk, const char *path, uint64_t limit_bytes)
{
  disk->account.limit_bytes = limit_bytes;
  disk->directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (!busq_disk_is_open(disk))
    return busq_error_system("no files of a search in %s", path);
  const int file = busq_disk_file(disk);
  if (file < 0) {
    errno = atomic_load(&disk->number);
    return busq_error_system("no files of a search in %s", path);
  }
  close(file);
  return BUSQ_OK;
}

void busq_disk_close(busq_disk *disk)
{
  if (busq_disk_is_open(disk))
    close(disk->directory);
  disk->directory = -1;
}

/* Where the file system knows none without a name: one that is taken away at once. */
static int named_file(const busq_disk *disk)
{
  for (uint32_t number = 0; number < TRIES; number++) {
    char name[NAME_BYTES];
    snprintf(name, sizeof name, ".busq-check-%ld-%u", (long)getpid(), number);
    const int file = openat(disk->directory, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (file >= 0)
      (void)unlinkat(disk->directory, name, 0);
    if (file >= 0 || errno != EEXIST)
      return file;
  }
  return -1;
}

int busq_disk_file(busq_disk *disk)
{
  int file = openat(disk->directory, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL))
    file = named_file(disk);
  if (file < 0)
    (void)refuse(disk, errno);
  return file;
}

bool busq_disk_allocate(busq_disk *disk, int file, uint64_t begin, uint64_t end)
{
  if (!busq_account_take(&disk->account, end - begin))
    return refuse(disk, ENOSPC);
  int number;
  do
    number = posix_fallocate(file, (off_t)begin, (off_t)(end - begin));
  while (number == EINTR);
  if (!number)
    return true;
  busq_account_give_back(&disk->account, end - begin);
  return refuse(disk, number);
}

bool busq_disk_release(busq_disk *disk, int file, uint64_t begin, uint64_t end)
{
  if (fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)begin, (off_t)(end - begin)))
    return false;
  busq_account_give_back(&disk->account, end - begin);
  return true;
}
