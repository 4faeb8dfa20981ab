/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/memory/side_file_trust.h"
#include "base/hash.h"
#include "base/time.h"
#include <sys/random.h>
#include <unistd.h>

bool busq_file_is_for_group(int directory_fd, const struct stat *file)
{
  struct stat directory;
  return (file->st_mode & 0060) == 0060 && fstat(directory_fd, &directory) == 0 && (directory.st_mode & S_ISGID) &&
         directory.st_gid == file->st_gid;
}

bool busq_file_is_of_bus(const busq_bus *bus, const struct stat *file)
{
  struct stat of_bus;
  if (fstat(bus->fd, &of_bus) < 0 || (file->st_mode & 0777 & ~of_bus.st_mode))
    return false;
  return file->st_uid == of_bus.st_uid || file->st_uid == geteuid() ||
         (busq_file_is_for_group(bus->directory_fd, &of_bus) && file->st_gid == of_bus.st_gid);
}

/* Where the kernel has no randomness to give, a name that may be guessed is all there is. */
uint64_t busq_file_random_part(void)
{
  uint64_t drawn = 0;
  if (getrandom(&drawn, sizeof drawn, 0) != sizeof drawn)
    drawn = busq_hash_mix(busq_time_wall_ns());
  return drawn | 1;
}
