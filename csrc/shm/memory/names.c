/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/memory/names.h"
#include "base/error.h"
#include "base/hash.h"
#include <string.h>

/* ---- what may be a name ---- */

/* Bytes of the sequence that begins here, 0 where it is not UTF-8. */
static size_t utf8_length(const unsigned char *text, size_t bytes)
{
  const unsigned char c = text[0];
  if (c < 0x80)
    return 1;
  const size_t length = c >= 0xc2 && c <= 0xdf ? 2 : (c & 0xf0) == 0xe0 ? 3 : c >= 0xf0 && c <= 0xf4 ? 4 : 0;
  if (length == 0 || length > bytes)
    return 0;
  for (size_t i = 1; i < length; i++)
    if ((text[i] & 0xc0) != 0x80)
      return 0;
  const bool overlong = (c == 0xe0 && text[1] < 0xa0) || (c == 0xf0 && text[1] < 0x90);
  const bool surrogate = c == 0xed && text[1] >= 0xa0;
  const bool beyond = c == 0xf4 && text[1] >= 0x90;
  return overlong || surrogate || beyond ? 0 : length;
}

static int name_check(const char *what, const char *name, size_t bytes, bool is_hidden)
{
  if (bytes == 0 || bytes > BUSQ_LAYOUT_NAME_BYTES_MAX)
    return busq_error(BUSQ_INVALID, "a %s's name of %zu bytes: expected 1 to %u bytes of UTF-8", what, bytes,
                      BUSQ_LAYOUT_NAME_BYTES_MAX);
  if (name[0] == '@')
    return busq_error(BUSQ_INVALID, "a %s's name that begins with \"@\": such names are kept for groups", what);
  for (size_t at = 0; at < bytes;) {
    const size_t length = utf8_length((const unsigned char *)name + at, bytes - at);
    if (length == 0)
      return busq_error(BUSQ_INVALID, "a %s's name with the byte 0x%02x at %zu: expected UTF-8", what, (unsigned char)name[at], at);
    if (name[at] == '\0' || (name[at] == '/' && !is_hidden))
      return busq_error(BUSQ_INVALID, "a %s's name with %s at byte %zu: neither NUL nor \"/\" may be in a name", what,
                        name[at] ? "\"/\"" : "NUL", at);
    at += length;
  }
  return BUSQ_OK;
}

/* With the "@". */
int busq_group_check(const char *name, size_t bytes)
{
  if (bytes < 2 || bytes > BUSQ_LAYOUT_NAME_BYTES_MAX || name[0] != '@')
    return busq_error(BUSQ_INVALID, "a group's name of %zu bytes: expected \"@\" and 1 to %u bytes of UTF-8", bytes,
                      BUSQ_LAYOUT_NAME_BYTES_MAX - 1);
  return name_check("group", name + 1, bytes - 1, false);
}

int busq_name_check(const char *name, size_t bytes)
{
  return name_check("peer", name, bytes, false);
}

int busq_name_check_hidden(const char *name, size_t bytes)
{
  return name_check("peer", name, bytes, true);
}

#define LOCK_OF_NAME(hash) ((INT64_C(1) << 61) | (int64_t)((hash) >> 4))

int64_t busq_name_lock(const char *name, size_t bytes)
{
  const uint64_t hash = busq_hash_bytes(name, bytes);
  return LOCK_OF_NAME((hash ^ hash >> 32) * UINT64_C(0x9e3779b97f4a7c15));
}

/* ---- peers and their names ---- */

bool busq_name_is(busq_bus *bus, uint32_t slot, const char *name, size_t bytes, uint64_t *lifep)
{
  busq_slot *self = &bus->slots[slot];
  const uint64_t life = busq_load_acquire(&self->life);
  const uint32_t state = (uint32_t)life & BUSQ_LIFE_MASK;
  if (state == BUSQ_LIFE_FREE || state == BUSQ_LIFE_JOINING || (life & BUSQ_LIFE_CONSUMER) ||
      busq_load_relaxed(&self->name_bytes) != bytes || memcmp(self->name, name, bytes) != 0)
    return false;
  *lifep = life;
  busq_fence_full();
  return busq_load_acquire(&self->life) >> 32 == life >> 32;
}

int busq_peer_slot_name(busq_peer *peer, uint32_t slot, uint32_t life, char *name, size_t *name_bytesp)
{
  if (slot >= busq_slots_reached(peer->bus))
    return busq_error(BUSQ_CORRUPT, "a message from slot %u of a bus with %u slots", slot, peer->bus->geometry.peers);
  const busq_slot *other = &peer->bus->slots[slot];
  uint32_t bytes = busq_load_acquire(&other->name_bytes);
  if (bytes > BUSQ_LAYOUT_NAME_BYTES_MAX)
    bytes = BUSQ_LAYOUT_NAME_BYTES_MAX;
  memcpy(name, other->name, bytes);
  *name_bytesp = bytes;
  /* A slot keeps its name for as long as messages from it are on their way: all lives of an incarnation have it. */
  const uint32_t first = (uint32_t)(busq_load_acquire(&other->life) >> 32);
  if (life - first > busq_load_acquire(&other->lives) - first)
    return busq_error(BUSQ_CORRUPT, "a message from a peer of slot %u that is gone", slot);
  return BUSQ_OK;
}
