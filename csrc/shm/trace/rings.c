/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/trace/rings.h"
#include "base/error.h"
#include "base/hash.h"
#include "shm/memory/side_file_trust.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define RINGS_MAGIC UINT64_C(0x0a63727471737562) /* "busqtrc\n" */
#define RINGS_VERSION 4u
#define PAGE_BYTES UINT64_C(4096)

static void rings_name(const busq_bus *bus, char name[64])
{
  uint64_t generation;
  memcpy(&generation, bus->header->generation, sizeof generation);
  snprintf(name, 64, ".busq-%016llx-trace-%016llx", (unsigned long long)generation,
           (unsigned long long)busq_load_acquire(&bus->header->trace));
}

static uint64_t rings_records_offset(uint32_t peers)
{
  return PAGE_BYTES + BUSQ_ALIGN_UP((uint64_t)peers * sizeof(busq_trace_shared), PAGE_BYTES);
}

static uint64_t rings_bytes(uint32_t peers, uint64_t size)
{
  return rings_records_offset(peers) + peers * size * sizeof(busq_trace_record);
}

static uint64_t rings_checksum(const busq_rings_header *header)
{
  return busq_hash_bytes(header, offsetof(busq_rings_header, checksum));
}

static int rings_map(busq_rings *rings, const busq_bus *bus, uint64_t size)
{
  rings->size = size;
  rings->peers = bus->geometry.peers;
  rings->bytes = rings_bytes(rings->peers, size);
  char *base = mmap(NULL, rings->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, rings->fd, 0);
  if (base == MAP_FAILED)
    return busq_error_system("can't map %llu bytes of the trace of bus \"%s\"", (unsigned long long)rings->bytes, bus->name);
  rings->base = base;
  return BUSQ_OK;
}

/* A process that may open the bus may open its trace: same owner, same permissions. */
static int rings_check_file(const busq_rings *rings, const busq_bus *bus, uint64_t *bytesp)
{
  struct stat mine;
  if (fstat(rings->fd, &mine) < 0)
    return busq_error_system("can't examine the trace of bus \"%s\"", bus->name);
  if (!S_ISREG(mine.st_mode) || !busq_file_is_of_bus(bus, &mine))
    return busq_error(BUSQ_DENIED, "the trace of bus \"%s\" has owner %u and mode %03o: expected those of the bus; remove it", bus->name,
                      mine.st_uid, mine.st_mode & 0777);
  *bytesp = (uint64_t)mine.st_size;
  return BUSQ_OK;
}

static int rings_damaged(const busq_bus *bus, const char *what)
{
  return busq_error(BUSQ_CORRUPT, "the trace of bus \"%s\" is damaged (%s): remove .busq-*-trace-* beside the bus, and record again",
                    bus->name, what);
}

static int rings_check_header(busq_rings *rings, const busq_bus *bus, uint64_t bytes, uint64_t *sizep)
{
  busq_rings_header header;
  if (pread(rings->fd, &header, sizeof header, 0) != sizeof header)
    return rings_damaged(bus, "it has no header");
  if (header.magic != RINGS_MAGIC || header.checksum != rings_checksum(&header))
    return rings_damaged(bus, "its header");
  if (header.version != RINGS_VERSION)
    return busq_error(BUSQ_VERSION, "the trace of bus \"%s\" has format %u; this busq has format %u", bus->name, header.version,
                      RINGS_VERSION);
  if (header.peers != bus->geometry.peers || memcmp(header.bus, bus->header->generation, sizeof header.bus) != 0 ||
      header.size < BUSQ_RINGS_SIZE_MIN || header.size > BUSQ_RINGS_SIZE_MAX || (header.size & (header.size - 1)) ||
      header.bytes != rings_bytes(header.peers, header.size) || bytes != header.bytes)
    return rings_damaged(bus, "its sizes");
  rings->scale = header.scale;
  *sizep = header.size;
  return BUSQ_OK;
}

int busq_rings_open(busq_rings *rings, const busq_bus *bus)
{
  char name[64];
  uint64_t bytes = 0, size = 0;
  *rings = (busq_rings){.fd = -1};
  rings_name(bus, name);
  rings->fd = openat(bus->directory_fd, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (rings->fd < 0 && errno == ENOENT)
    return BUSQ_NOT_FOUND;
  if (rings->fd < 0)
    return busq_error_system("can't open the trace of bus \"%s\"", bus->name);
  int result = rings_check_file(rings, bus, &bytes);
  if (!result)
    result = rings_check_header(rings, bus, bytes, &size);
  if (!result)
    result = rings_map(rings, bus, size);
  if (result)
    busq_rings_close(rings);
  return result;
}

static int rings_fill(busq_rings *rings, const busq_bus *bus, uint64_t size)
{
  struct stat of_bus;
  if (fstat(bus->fd, &of_bus) < 0 || fchmod(rings->fd, of_bus.st_mode & 0777) < 0)
    return busq_error_system("can't give the trace of bus \"%s\" the permissions of the bus", bus->name);
  if (ftruncate(rings->fd, (off_t)rings_bytes(bus->geometry.peers, size)) < 0)
    return busq_error_system("can't make the trace of bus \"%s\"", bus->name);
  const int number = posix_fallocate(rings->fd, 0, (off_t)rings_records_offset(bus->geometry.peers));
  if (number)
    return busq_error(BUSQ_NO_SPACE, "no space for the trace of bus \"%s\" beside it", bus->name);
  const int result = rings_map(rings, bus, size);
  if (result)
    return result;
  busq_rings_header *header = (busq_rings_header *)(void *)rings->base;
  header->magic = RINGS_MAGIC;
  header->version = RINGS_VERSION;
  header->peers = rings->peers;
  header->size = size;
  header->bytes = rings->bytes;
  memcpy(header->bus, bus->header->generation, sizeof header->bus);
  rings->scale = header->scale = busq_trace_scale_measure();
  header->checksum = rings_checksum(header);
  return BUSQ_OK;
}

/* The name is published before there is anything of that name: killed in between, the process that removes the bus
 * finds what we have made. */
static int rings_publish(const busq_rings *rings, busq_bus *bus)
{
  enum { TRIES = 16 };
  char name[64], path[64];
  int result = -1;
  busq_rings_unlink(bus);
  snprintf(path, sizeof path, "/proc/self/fd/%d", rings->fd);
  errno = EEXIST;
  for (int i = 0; i < TRIES && result < 0 && errno == EEXIST; i++) {
    busq_store_release(&bus->header->trace, busq_file_random_part());
    rings_name(bus, name);
    result = linkat(AT_FDCWD, path, bus->directory_fd, name, AT_SYMLINK_FOLLOW);
  }
  return result == 0 ? BUSQ_OK : busq_error_system("can't give the trace of bus \"%s\" its name", bus->name);
}

/* Made without a name, so that it is never found half made. */
int busq_rings_create(busq_rings *rings, busq_bus *bus, uint64_t size)
{
  *rings = (busq_rings){.fd = openat(bus->directory_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)};
  if (rings->fd < 0)
    return busq_error_system("can't make the trace of bus \"%s\"", bus->name);
  int result = rings_fill(rings, bus, size);
  if (!result)
    result = rings_publish(rings, bus);
  if (result)
    busq_rings_close(rings);
  return result;
}

void busq_rings_close(busq_rings *rings)
{
  if (rings->base)
    munmap(rings->base, rings->bytes);
  if (rings->fd >= 0)
    close(rings->fd);
  *rings = (busq_rings){.fd = -1};
}

void busq_rings_close_file(busq_rings *rings)
{
  close(rings->fd);
  rings->fd = -1;
}

void busq_rings_abandon(busq_rings *rings)
{
  (void)mmap(rings->base, rings->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
             -1, 0);
}

void busq_rings_unlink(const busq_bus *bus)
{
  char name[64];
  rings_name(bus, name);
  (void)unlinkat(bus->directory_fd, name, 0);
}

static uint64_t rings_offset(const busq_rings *rings, uint32_t slot)
{
  return rings_records_offset(rings->peers) + slot * rings->size * sizeof(busq_trace_record);
}

int busq_rings_reserve(const busq_rings *rings, uint32_t slot)
{
  return posix_fallocate(rings->fd, (off_t)rings_offset(rings, slot), (off_t)(rings->size * sizeof(busq_trace_record)))
             ? BUSQ_NO_SPACE
             : BUSQ_OK;
}

busq_trace_ring busq_rings_ring(const busq_rings *rings, uint32_t slot)
{
  busq_trace_ring ring = {
      .shared = (busq_trace_shared *)(void *)(rings->base + PAGE_BYTES) + slot,
      .records = (busq_trace_record *)(void *)(rings->base + rings_offset(rings, slot)),
      .size = rings->size,
      .limit = rings->size,
  };
  ring.head_seen = busq_load_acquire(&ring.shared->head);
  return ring;
}
