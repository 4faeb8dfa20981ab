/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that may hold anything is opened as a bus, and used where it opens; for guarantees and mechanism see
 * fuzz_world.h.
 *
 *      input: flags (1 byte) | past (1 byte) | with RAW: the content of the file
 *                                            | otherwise: words that change (1 byte: how many), then turns; see world_run()
 *
 * A mutation of bytes never gets past the stamp, the boot id and the checksum of a header.  So the flags choose what is
 * put right after the damage was done: to reach what stands behind each check.
 */
#include "fuzz/fuzz_world.h"

enum {
  RAW = 1,       /* the content stands in the input; otherwise it is a bus with a past */
  FIX_STAMP = 2, /* magic, version, state and stamp */
  FIX_BOOT = 4,
  FIX_SIZES = 8, /* what follows from peers, capacity and arena_bytes, if these are small; and the length of the file */
  FIX_SUM = 16,
  CUT = 32 /* the file ends somewhere (2 bytes) */
};

#define FILE_BYTES_MAX (UINT64_C(1) << 20)

int LLVMFuzzerInitialize(int *n_arguments, char ***arguments);
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes);

static busq_bus *template_bus; /* stays open; its header is a sound one */
static busq_bus file_view;     /* the same sizes, in the file */
static int file_fd;
static char *file_at; /* the file, seen without a guard; always FILE_BYTES_MAX long */

static void file_open(void)
{
  file_fd = openat(world_fd, "file", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file_fd < 0 || ftruncate(file_fd, (off_t)FILE_BYTES_MAX) < 0)
    world_fail("no file");
  file_at = __real_mmap(NULL, FILE_BYTES_MAX, PROT_READ | PROT_WRITE, MAP_SHARED, file_fd, 0);
  if (file_at == MAP_FAILED)
    world_fail("no mapping");
}

int LLVMFuzzerInitialize(int *n_arguments, char ***arguments)
{
  (void)n_arguments;
  (void)arguments;
  world_begin();
  file_open();
  template_bus = play_bus;
  file_view = *template_bus;
  file_view.base = file_at;
  file_view.header = (busq_header *)(void *)file_at;
  file_view.slots = (busq_slot *)(void *)(file_at + file_view.geometry.peers_offset);
  file_view.table = (busq_extent *)(void *)(file_at + file_view.geometry.table_offset);
  file_view.arena = file_at + file_view.geometry.arena_offset;
  return 0;
}

static uint64_t header_put_right(busq_header *header, uint32_t flags, uint64_t file_bytes)
{
  busq_geometry sizes, asked = header->geometry;
  if (flags & FIX_STAMP) {
    header->magic = template_bus->header->magic;
    header->version = template_bus->header->version;
    header->state = template_bus->header->state;
    header->stamp = template_bus->header->stamp;
  }
  if (flags & FIX_BOOT)
    memcpy(header->boot_id, template_bus->header->boot_id, sizeof header->boot_id);
  asked.peers %= 9;
  asked.capacity %= 17;
  asked.arena_bytes %= 65536;
  asked.groups %= 5;
  asked.nodes %= 5;
  if (flags & FIX_SIZES && busq_geometry_compute(&sizes, &asked) && sizes.segment_bytes <= FILE_BYTES_MAX) {
    header->geometry = sizes;
    file_bytes = sizes.segment_bytes;
  }
  if (flags & FIX_SUM)
    header->checksum = busq_header_checksum(header);
  return file_bytes;
}

static uint64_t file_fill_raw(void)
{
  uint64_t bytes = (uint64_t)(input_end - input_at);
  if (bytes > FILE_BYTES_MAX)
    bytes = FILE_BYTES_MAX;
  memcpy(file_at, input_at, bytes);
  input_at = input_end;
  return bytes;
}

/* The words are changed in a copy of the bus that no process has opened. */
static uint64_t file_fill_past(const char *past)
{
  memcpy(file_at, past, world_bytes);
  play_bus = &file_view;
  for (uint32_t n = play_choose(16); n; n--) {
    const patch now = choose_patch();
    patch_apply(&now);
  }
  return world_bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes)
{
  input_at = input;
  input_end = input + bytes;
  const uint32_t flags = input_byte();
  const char *const past = pasts[play_choose(n_pasts)];
  play_bus = template_bus;
  uint64_t file_bytes = flags & RAW ? file_fill_raw() : file_fill_past(past);
  file_bytes = header_put_right((busq_header *)(void *)file_at, flags, file_bytes);
  if (flags & CUT)
    file_bytes = input_word(2) * 8;
  if (ftruncate(file_fd, (off_t)file_bytes) < 0)
    world_fail("can't set the length");
  (void)busq_error(BUSQ_OK, "%s", "");
  play_bus = NULL;
  if (play_note(busq_bus_open(world_directory, "file", &play_bus)) == BUSQ_OK) {
    world_play();
    busq_bus_free(play_bus);
  }
  (void)ftruncate(file_fd, 0);
  if (ftruncate(file_fd, (off_t)FILE_BYTES_MAX) < 0)
    world_fail("can't set the length");
  return 0;
}
