/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file behind a bus: making, opening, validating and removing it; the calls are declared in busq.h.
 *
 * Guarantee: a bus appears under its name complete or not at all, even when its creator is killed; its memory is
 * reserved, at creation or where it is needed (reserve.h), so that a full file system is an error and not a SIGBUS; a file of another version, of
 * another boot, cut short, damaged, planted by another user or reached through a symbolic link is refused with its
 * reason.
 *
 * Mechanism: an unnamed file (O_TMPFILE) is reserved and filled and then linked to its name in one step.  An opening
 * process reads the header into private memory, checks it there, and maps the file with those private sizes.
 *
 * Not given: protection from a process of the same user that cuts the file short while it is mapped.
 */
#include "base/error.h"
#include "base/hash.h"
#include "base/time.h"
#include "order/order.h"
#include "shm/death/bus_end.h"
#include "shm/memory/side_file_trust.h"
#include "shm/memory/mapping.h"
#include "shm/memory/reserve.h"
#include "shm/memory/peer_slots.h"
#include "shm/memory/temporary.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- names and directories ---- */

static int region_check_name(const char *name)
{
  const size_t bytes = strlen(name);
  if (bytes == 0 || bytes > 200 || name[0] == '.' || strchr(name, '/'))
    return busq_error(BUSQ_INVALID, "bus name \"%.64s\" (%zu bytes): a name has 1 to 200 bytes, no \"/\" and no leading \".\"",
                      name, bytes);
  return BUSQ_OK;
}

/* The directory of buses: ours, and no other user may plant something in it. */
static int region_open_directory(const char *directory, int *fdp)
{
  struct stat status;
  const int fd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT)
    return busq_error(BUSQ_NOT_FOUND, "there is no directory \"%s\" for buses: make it, with mode 0700, or name another one",
                      directory);
  if (fd < 0)
    return busq_error_system("can't open the directory of buses \"%s\"", directory);
  if (fstat(fd, &status) < 0) {
    const int result = busq_error_system("can't examine \"%s\"", directory);
    close(fd);
    return result;
  }
  /* The owner of the directory can replace what is in it; one that is meant for a group has its setgid bit set. */
  if (status.st_uid != geteuid() && status.st_uid != 0 && !(status.st_mode & S_ISGID)) {
    close(fd);
    return busq_error(BUSQ_DENIED, "\"%s\" belongs to user %u; expected user %u, or root, or a setgid directory of a group",
                      directory, status.st_uid, geteuid());
  }
  if ((status.st_mode & 0002) && !(status.st_mode & S_ISVTX)) {
    close(fd);
    return busq_error(BUSQ_DENIED, "\"%s\" has mode %03o: everybody could replace a bus in it; chmod it to 0700, or to 2770 for a group",
                      directory, status.st_mode & 0777);
  }
  *fdp = fd;
  return BUSQ_OK;
}

static int region_boot_id(uint8_t boot_id[16])
{
  char text[64] = {0};
  const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return busq_error_system("can't read the boot id");
  const ssize_t count = read(fd, text, sizeof text - 1);
  close(fd);
  memset(boot_id, 0, 16);
  unsigned digits = 0;
  for (ssize_t i = 0; i < count && digits < 32; i++) {
    const char c = text[i];
    const int value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (value >= 0) {
      boot_id[digits / 2] = (uint8_t)(boot_id[digits / 2] << 4 | value);
      digits++;
    }
  }
  return BUSQ_OK;
}

/* ---- creating ---- */

/* The order's name, with options, is kept as it was written. */
static int region_check_order(const char *order, uint32_t peers, uint32_t capacity)
{
  uint32_t options;
  if (!order || strcmp(order, "bus1") == 0)
    return BUSQ_OK;
  if (strlen(order) >= BUSQ_LAYOUT_ORDER_BYTES)
    return busq_error(BUSQ_INVALID, "order \"%.80s\": expected less than %u bytes", order, BUSQ_LAYOUT_ORDER_BYTES);
  const busq_order *found = busq_order_parse(order, &options);
  if (!found)
    return BUSQ_INVALID;
  if (peers > busq_order_processes_max(found, options))
    return busq_error(BUSQ_INVALID, "order \"%s\" for %u peers: expected at most %d", order, peers, BUSQ_ORDER_MORTALS_MAX);
  return busq_order_check_in_flight(options, (uint64_t)peers * (capacity > peers ? capacity : peers));
}

static bool region_takes_larger(const busq_config *config)
{
  struct rlimit addresses;
  return config->takes_larger && (!config->order || strcmp(config->order, "bus1") == 0) &&
         getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur == RLIM_INFINITY;
}

static int region_check_config(const busq_config *config, busq_geometry *geometry)
{
  if (config->permissions != 0600 && config->permissions != 0660)
    return busq_error(BUSQ_INVALID, "permissions 0%o: expected 0600 (one user) or 0660 (and a group)", config->permissions);
  const busq_geometry asked = {
      .peers = config->peers,
      .capacity = config->capacity,
      .arena_bytes = config->arena_bytes,
      .groups = config->groups,
      .nodes = config->nodes,
      .reserves_late = config->reserves_late != 0,
      .takes_larger = region_takes_larger(config),
  };
  if (config->groups > BUSQ_LAYOUT_GROUPS_MAX || config->nodes > BUSQ_LAYOUT_NODES_MAX)
    return busq_error(BUSQ_INVALID, "groups=%u, nodes=%u: expected up to %u groups, and up to %u nodes of each peer", config->groups,
                      config->nodes, BUSQ_LAYOUT_GROUPS_MAX, BUSQ_LAYOUT_NODES_MAX);
  if (!busq_geometry_compute(geometry, &asked))
    return busq_error(BUSQ_INVALID,
                      "peers=%u, capacity=%u, arena=%llu: expected 1 to %u peers, a capacity of 1 to %u and an arena of %llu to %llu bytes",
                      config->peers, config->capacity, (unsigned long long)config->arena_bytes, BUSQ_LAYOUT_PEERS_MAX,
                      BUSQ_LAYOUT_CAPACITY_MAX, (unsigned long long)BUSQ_LAYOUT_ARENA_BYTES_MIN,
                      (unsigned long long)BUSQ_LAYOUT_ARENA_BYTES_MAX);
  return region_check_order(config->order, config->peers, config->capacity);
}

static int region_reserve(busq_bus *bus, const char *directory)
{
  const int number = busq_reserve_new(bus);
  if (number == 0)
    return BUSQ_OK;
  errno = number;
  const int result = busq_error_system("can't reserve %llu bytes for bus \"%s\" in \"%s\" (make arena, capacity or peers smaller, or %s)",
                                       (unsigned long long)busq_geometry_arena_end(&bus->geometry), bus->name, directory,
                                       number == EFBIG ? "raise the limit for files: ulimit -f"
                                                       : "that file system larger; in a container: --shm-size");
  return number == EFBIG ? BUSQ_NO_SPACE : result;
}

static int region_fill(busq_bus *bus, const busq_config *config)
{
  busq_header *header = bus->header;
  const int result = region_boot_id(header->boot_id);
  if (result)
    return result;
  header->magic = BUSQ_LAYOUT_MAGIC;
  header->version = BUSQ_LAYOUT_VERSION;
  header->stamp = busq_layout_stamp();
  header->geometry = bus->geometry;
  header->created_ns = busq_time_wall_ns();
  header->creator_pid = (uint32_t)getpid();
  header->permissions = config->permissions;
  header->extents_reached = busq_reserve_first_reach(&bus->geometry);
  memcpy(header->order, bus->order, sizeof header->order);
  memcpy(header->name, bus->name, sizeof header->name);
  if (getrandom(header->generation, sizeof header->generation, 0) != sizeof header->generation)
    return busq_error_system("can't draw the generation of bus \"%s\"", bus->name);
  header->slots_reached = bus->first_slots;
  busq_slots_init(bus, 0, bus->first_slots);
  header->checksum = busq_header_checksum(header);
  busq_store_release(&header->state, BUSQ_HEADER_READY);
  return BUSQ_OK;
}

static int region_publish(busq_bus *bus, const char *name)
{
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", bus->fd);
  if (linkat(AT_FDCWD, path, bus->directory_fd, name, AT_SYMLINK_FOLLOW) == 0)
    return BUSQ_OK;
  if (errno == EEXIST)
    return busq_error(BUSQ_EXISTS, "bus \"%s\" exists; open it, or remove it first", name);
  return busq_error_system("can't give bus \"%s\" its name", name);
}

static int region_make(busq_bus *bus, const char *directory, const busq_config *config)
{
  bus->fd = openat(bus->directory_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, config->permissions);
  if (bus->fd < 0)
    return busq_error_system("can't make a file in \"%s\"", directory);
  /* The umask must not take away what the creator asked for. */
  bus->is_temporary = config->is_temporary;
  if (fchmod(bus->fd, config->permissions | (bus->is_temporary ? BUSQ_HOLD_MODE : 0)) < 0)
    return busq_error_system("can't set the permissions of bus \"%s\"", bus->name);
  int result = region_reserve(bus, directory);
  if (!result)
    result = busq_mapping_map(bus);
  if (!result)
    result = region_fill(bus, config);
  if (!result && bus->is_temporary)
    result = busq_temporary_take(bus, false, busq_bus_abandon);
  return result;
}

/* ---- opening ---- */

static int region_open_file(busq_bus *bus, struct stat *status)
{
  bus->fd = openat(bus->directory_fd, bus->name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (bus->fd < 0) {
    if (errno == ELOOP)
      return busq_error(BUSQ_DENIED, "\"%s\" is a symbolic link; a bus is a file of its own", bus->name);
    if (errno == EISDIR || errno == ENXIO)
      return busq_error(BUSQ_CORRUPT, "\"%s\" is not a regular file, so it is not a bus", bus->name);
    if (errno == ENOENT)
      return busq_error(BUSQ_NOT_FOUND, "there is no bus \"%s\"; create it first", bus->name);
    return busq_error_system("can't open bus \"%s\"", bus->name);
  }
  if (fstat(bus->fd, status) < 0)
    return busq_error_system("can't examine bus \"%s\"", bus->name);
  if (!S_ISREG(status->st_mode))
    return busq_error(BUSQ_CORRUPT, "\"%s\" is not a regular file, so it is not a bus", bus->name);
  if (status->st_uid != geteuid() && !busq_file_is_for_group(bus->directory_fd, status))
    return busq_error(BUSQ_DENIED, "bus \"%s\" belongs to user %u; this is user %u, expected the same, or mode 0660 in a setgid directory of the same group",
                      bus->name, status->st_uid, geteuid());
  if (status->st_mode & 0007)
    return busq_error(BUSQ_DENIED, "bus \"%s\" has mode %03o: everybody could write into it; expected 0600 or 0660", bus->name,
                      status->st_mode & 0777);
  return BUSQ_OK;
}

static int region_check_header(const busq_bus *bus, const busq_header *header, uint64_t file_bytes)
{
  busq_geometry expected;
  uint8_t boot_id[16];
  if (header->magic != BUSQ_LAYOUT_MAGIC)
    return busq_error(BUSQ_CORRUPT, "\"%s\" begins with %016llx, a bus with %016llx: not a bus, or overwritten", bus->name,
                      (unsigned long long)header->magic, (unsigned long long)BUSQ_LAYOUT_MAGIC);
  if (header->version != BUSQ_LAYOUT_VERSION || header->stamp != busq_layout_stamp())
    return busq_error(BUSQ_VERSION, "bus \"%s\" has format %u, layout %016llx; this busq has format %u, layout %016llx: use the same version on both sides",
                      bus->name, header->version, (unsigned long long)header->stamp, BUSQ_LAYOUT_VERSION,
                      (unsigned long long)busq_layout_stamp());
  if (header->state != BUSQ_HEADER_READY)
    return busq_error(BUSQ_CORRUPT, "bus \"%s\" is half made (state %08x): remove it and create it again", bus->name,
                      header->state);
  if (header->checksum != busq_header_checksum(header))
    return busq_error(BUSQ_CORRUPT, "the header of bus \"%s\" is damaged: remove it and create it again", bus->name);
  if (!memchr(header->order, '\0', sizeof header->order))
    return busq_error(BUSQ_CORRUPT, "the order in the header of bus \"%s\" does not end: remove it and create it again",
                      bus->name);
  const busq_geometry *found = &header->geometry;
  if (!busq_geometry_compute(&expected, found) ||
      memcmp(&expected, found, sizeof expected) != 0)
    return busq_error(BUSQ_CORRUPT, "the sizes in the header of bus \"%s\" contradict each other", bus->name);
  const uint64_t bytes_min = busq_geometry_arena_end(&expected); /* and more, once a message was larger than the arena */
  if (file_bytes < bytes_min || file_bytes > expected.segment_bytes)
    return busq_error(BUSQ_CORRUPT, "bus \"%s\" has %llu bytes, its header says %llu: it was cut short or extended",
                      bus->name, (unsigned long long)file_bytes, (unsigned long long)bytes_min);
  const int result = region_boot_id(boot_id);
  if (!result && memcmp(boot_id, header->boot_id, sizeof boot_id) != 0)
    return busq_error(BUSQ_CORRUPT, "bus \"%s\" was made before this machine was booted: remove it and create it again", bus->name);
  return result;
}

static int region_read_header(busq_bus *bus, busq_header *header, uint64_t file_bytes)
{
  const ssize_t count = pread(bus->fd, header, sizeof *header, 0);
  if (count < 0)
    return busq_error_system("can't read bus \"%s\"", bus->name);
  if ((size_t)count < sizeof *header)
    return busq_error(BUSQ_CORRUPT, "\"%s\" has %llu bytes, the header of a bus alone %zu: cut short, or not a bus", bus->name,
                      (unsigned long long)file_bytes, sizeof *header);
  return region_check_header(bus, header, file_bytes);
}

/* Maps the bus whose file is open, if it is a sound one. */
static int region_enter(busq_bus *bus, uint64_t file_bytes)
{
  busq_header header;
  const int result = region_read_header(bus, &header, file_bytes);
  if (result)
    return result;
  bus->geometry = header.geometry;
  memcpy(bus->order, header.order, sizeof bus->order);
  return busq_mapping_map(bus);
}

/* ---- removing ---- */

/* Removes what a bus that will not be opened again has left beside it. Takes over the file. */
static void region_tidy(int directory_fd, const char *name, int fd)
{
  struct stat status;
  busq_bus *bus = busq_mapping_new(name);
  if (!bus) {
    close(fd);
    return;
  }
  bus->fd = fd;
  bus->directory_fd = fcntl(directory_fd, F_DUPFD_CLOEXEC, 0);
  if (bus->directory_fd >= 0 && fstat(fd, &status) == 0 && region_enter(bus, (uint64_t)status.st_size) == BUSQ_OK) {
    busq_store_release(&bus->header->is_removed, 1);
    busq_bus_tidy(bus);
  }
  busq_bus_free(bus);
}

/* Temporary buses whose last process was killed. */
static uint32_t region_sweep(int directory_fd)
{
  uint32_t n_removed = 0;
  const int fd = openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *entries = fd < 0 ? NULL : fdopendir(fd);
  if (!entries) {
    if (fd >= 0)
      close(fd);
    return 0;
  }
  for (const struct dirent *entry; (entry = readdir(entries));) {
    if (entry->d_name[0] == '.' || (entry->d_type != DT_REG && entry->d_type != DT_UNKNOWN))
      continue;
    const int file = busq_temporary_clear(directory_fd, entry->d_name);
    if (file < 0)
      continue;
    region_tidy(directory_fd, entry->d_name, file);
    n_removed++;
  }
  closedir(entries);
  return n_removed;
}

/* ---- the calls ---- */

int busq_bus_create(const char *directory, const char *name, const busq_config *config, busq_bus **busp)
{
  busq_geometry geometry;
  int result = region_check_name(name);
  if (!result)
    result = region_check_config(config, &geometry);
  if (result)
    return result;
  busq_bus *bus = busq_mapping_new(name);
  if (!bus)
    return busq_error(BUSQ_NO_SPACE, "no memory for a bus handle");
  bus->geometry = geometry;
  snprintf(bus->order, sizeof bus->order, "%s", config->order ? config->order : "bus1");
  result = region_open_directory(directory, &bus->directory_fd);
  if (!result)
    (void)region_sweep(bus->directory_fd);
  /* A name that is taken is the likeliest failure, and need not cost a reservation; the link below decides. */
  if (!result && faccessat(bus->directory_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
    result = busq_error(BUSQ_EXISTS, "bus \"%s\" exists; open it, or remove it first", name);
  if (!result)
    result = region_make(bus, directory, config);
  if (!result)
    result = region_publish(bus, name);
  if (result)
    busq_bus_free(bus);
  else
    *busp = bus;
  return result;
}

int busq_bus_open(const char *directory, const char *name, busq_bus **busp)
{
  struct stat status;
  int result = region_check_name(name);
  if (result)
    return result;
  busq_bus *bus = busq_mapping_new(name);
  if (!bus)
    return busq_error(BUSQ_NO_SPACE, "no memory for a bus handle");
  result = region_open_directory(directory, &bus->directory_fd);
  if (!result) {
    (void)region_sweep(bus->directory_fd);
    result = region_open_file(bus, &status);
  }
  if (!result)
    result = region_enter(bus, (uint64_t)status.st_size);
  if (!result && (status.st_mode & BUSQ_HOLD_MODE)) {
    bus->is_temporary = true;
    result = busq_temporary_take(bus, true, busq_bus_abandon);
  }
  if (result)
    busq_bus_free(bus);
  else
    *busp = bus;
  return result;
}

int busq_bus_unlink(const char *directory, const char *name)
{
  struct stat status;
  int fd = -1;
  int result = region_check_name(name);
  if (!result)
    result = region_open_directory(directory, &fd);
  if (result)
    return result;
  if (fstatat(fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
    result = errno == ENOENT ? busq_error(BUSQ_NOT_FOUND, "there is no bus \"%s\"", name)
                             : busq_error_system("can't examine bus \"%s\"", name);
  else if (status.st_uid != geteuid() && geteuid() != 0 && !busq_file_is_for_group(fd, &status))
    result = busq_error(BUSQ_DENIED, "bus \"%s\" belongs to user %u; this is user %u", name, status.st_uid, geteuid());
  else {
    const int file = openat(fd, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (file >= 0)
      region_tidy(fd, name, file);
    if (unlinkat(fd, name, 0) < 0)
      result = busq_error_system("can't remove bus \"%s\"", name);
  }
  close(fd);
  return result;
}

int busq_file_lost_its_name(int fd, char *name256)
{
  busq_header header;
  struct stat status;
  if (fstat(fd, &status) < 0 || status.st_nlink || pread(fd, &header, sizeof header, 0) != (ssize_t)sizeof header ||
      header.magic != BUSQ_LAYOUT_MAGIC || header.version != BUSQ_LAYOUT_VERSION || header.state != BUSQ_HEADER_READY || header.is_removed)
    return 0;
  header.name[BUSQ_LAYOUT_NAME_BYTES_MAX] = '\0';
  memcpy(name256, header.name, sizeof header.name);
  return 1;
}

int busq_bus_lost_its_name(busq_bus *bus)
{
  char name[BUSQ_LAYOUT_NAME_BYTES_MAX + 1];
  return busq_file_lost_its_name(bus->fd, name);
}

int busq_bus_sweep(const char *directory, uint32_t *removedp)
{
  int fd = -1;
  const int result = region_open_directory(directory, &fd);
  if (result)
    return result;
  *removedp = region_sweep(fd);
  close(fd);
  return BUSQ_OK;
}
