/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_TESTS_EXPLORE_NAMES_H
#define BUSQ_TESTS_EXPLORE_NAMES_H
/* What people call the places in a segment, and what the values there mean. */
#include "explore/explore_stage.h"

typedef struct {
  enum {
    PLACE_PLAIN,
    PLACE_STATE,    /* of a record */
    PLACE_TAG,      /* the same of a reference: sequence number and attempt */
    PLACE_POSITION, /* of a ring, with the life above */
    PLACE_REFERENCE,
    PLACE_LIFE,
    PLACE_EXTENT
  } kind;
  char name[80];
} explore_place;

static void explore_place_in_slot(uint32_t peer, size_t offset, explore_place *place)
{
  static const struct {
    size_t offset;
    const char *name;
    int kind;
  } fields[] = {
      {offsetof(busq_slot, queue.clock_tail.lo), "clock", PLACE_PLAIN},
      {offsetof(busq_slot, queue.clock_tail.hi), "tail", PLACE_POSITION},
      {offsetof(busq_slot, queue.head), "head", PLACE_PLAIN},
      {offsetof(busq_slot, queue.backing), "backing", PLACE_PLAIN},
      {offsetof(busq_slot, life), "life", PLACE_LIFE},
      {offsetof(busq_slot, wake_seq), "wake_seq", PLACE_PLAIN},
      {offsetof(busq_slot, wake_flags), "wake_flags", PLACE_PLAIN},
      {offsetof(busq_slot, room_seq), "room_seq", PLACE_PLAIN},
      {offsetof(busq_slot, room_waiters), "room_waiters", PLACE_PLAIN},
      {offsetof(busq_slot, memory_seq), "memory_seq", PLACE_PLAIN},
      {offsetof(busq_slot, memory_waits), "memory_waits", PLACE_PLAIN},
      {offsetof(busq_slot, asks), "asks", PLACE_PLAIN},
      {offsetof(busq_slot, sequence_reserved), "sequence_reserved", PLACE_PLAIN},
      {offsetof(busq_slot, sent), "sent", PLACE_PLAIN},
      {offsetof(busq_slot, late), "late", PLACE_PLAIN},
      {offsetof(busq_slot, received), "received", PLACE_PLAIN},
      {offsetof(busq_slot, returns), "returns", PLACE_PLAIN},
      {offsetof(busq_slot, reaches), "reaches", PLACE_PLAIN},
      {offsetof(busq_slot, settled), "settled", PLACE_PLAIN},
  };
  snprintf(place->name, sizeof place->name, "p%u.+%zu", peer, offset);
  for (unsigned i = 0; i < sizeof fields / sizeof fields[0]; i++)
    if (fields[i].offset == offset) {
      snprintf(place->name, sizeof place->name, "p%u.%s", peer, fields[i].name);
      place->kind = fields[i].kind;
    }
}

static void explore_place_in_arena(uint64_t offset, explore_place *place)
{
  static const struct {
    size_t offset;
    const char *name;
  } fields[] = {
      {offsetof(busq_record, state.lo), "state"},
      {offsetof(busq_record, state.hi), "timestamp"},
      {offsetof(busq_record, proposal), "proposal"},
      {offsetof(busq_record, size_bytes), "size"},
      {offsetof(busq_record, sender_life), "life"},
      {offsetof(busq_record, origin), "origin"},
      {offsetof(busq_record, outline), "outline"},
  };
  const busq_geometry *geometry = &company_bus->geometry;
  const uint64_t extent = offset / geometry->extent_bytes;
  const uint64_t inside = offset % BUSQ_LAYOUT_UNIT_BYTES, first = offsetof(busq_record, destination);
  const uint64_t number = (inside - first) / sizeof(busq_destination);
  const uint32_t unit = (uint32_t)(offset % geometry->extent_bytes / BUSQ_LAYOUT_UNIT_BYTES);
  char what[24] = "payload";
  for (unsigned i = 0; i < sizeof fields / sizeof fields[0]; i++)
    if (fields[i].offset == inside)
      snprintf(what, sizeof what, "%s", fields[i].name);
  if (inside >= first && inside < first + 2 * sizeof(busq_destination))
    snprintf(what, sizeof what, (inside - first) % sizeof(busq_destination) ? "mark %u" : "destination %u",
             (unsigned)number);
  const char *const owner = extent < geometry->peers ? "p" : "extent ";
  snprintf(place->name, sizeof place->name, "%s%u's record %u %s", owner, (unsigned)extent, unit, what);
  place->kind = inside == 0 ? PLACE_STATE : PLACE_PLAIN;
}

static explore_place explore_place_of(const void *address)
{
  const busq_geometry *geometry = &company_bus->geometry;
  const uint64_t offset = (uint64_t)((const char *)address - company_bus->base);
  const uint64_t ring_bytes = geometry->slot_count * sizeof(busq_pair);
  const uint64_t in_locks = (uint64_t)((const char *)address - (const char *)system_locks);
  explore_place place = {PLACE_PLAIN, ""};
  snprintf(place.name, sizeof place.name, "%p", address);
  if (in_locks < sizeof system_locks) {
    const int64_t byte = system_locks[in_locks / sizeof(system_lock)].byte;
    snprintf(place.name, sizeof place.name, "lock %" PRIx64, (uint64_t)byte);
  } else if (offset >= geometry->segment_bytes) {
    return place;
  } else if (offset >= geometry->arena_offset) {
    explore_place_in_arena(offset - geometry->arena_offset, &place);
  } else if (offset >= geometry->reply_places_offset) {
    snprintf(place.name, sizeof place.name, "replies+%" PRIu64, offset - geometry->reply_places_offset);
    place.kind = PLACE_STATE; /* as that of a record: it changes by swaps */
  } else if (offset >= geometry->table_offset) {
    const uint64_t at = offset - geometry->table_offset;
    snprintf(place.name, sizeof place.name, "extent %u%s", (unsigned)(at / sizeof(busq_extent)),
             at % 16 ? " length" : "");
    place.kind = at % 16 ? PLACE_PLAIN : PLACE_EXTENT;
  } else if (offset >= geometry->rings_offset) {
    const uint64_t at = offset - geometry->rings_offset;
    snprintf(place.name, sizeof place.name, "p%u.slot[%u]%s", (unsigned)(at / ring_bytes),
             (unsigned)(at % ring_bytes / sizeof(busq_pair)), at % 16 ? ".tag" : "");
    place.kind = at % 16 ? PLACE_TAG : PLACE_REFERENCE;
  } else if (offset >= geometry->peers_offset) {
    const uint64_t at = offset - geometry->peers_offset;
    explore_place_in_slot((uint32_t)(at / sizeof(busq_slot)), at % sizeof(busq_slot), &place);
  } else {
    snprintf(place.name, sizeof place.name, "header +%u", (unsigned)offset);
  }
  return place;
}

static void explore_name(void *context, const void *address, char *text, size_t bytes)
{
  const explore_place place = explore_place_of(address);
  (void)context;
  snprintf(text, bytes, "%s", place.name);
}

static void explore_value(void *context, const void *address, uint64_t value, char *text, size_t bytes)
{
  static const char *const phases[] = {"free", "STAGING", "SEALED", "COMMITTED"};
  static const char *const kinds[] = {"free", "claimed", "slab", "large", "rest", "freeing", "?", "?"};
  (void)context;
  switch (explore_place_of(address).kind) {
  case PLACE_STATE:
    snprintf(text, bytes, "#%" PRIu64 ".%u %s", value >> 10, (unsigned)(value >> 2) & 255u, phases[value & 3]);
    return;
  case PLACE_TAG:
    snprintf(text, bytes, "#%" PRIu64 ".%u", value >> 10, (unsigned)(value >> 2) & 255u);
    return;
  case PLACE_POSITION:
    snprintf(text, bytes, "%" PRIu64 "%s", busq_ring_position(value), value & BUSQ_RING_CLOSED ? " closed" : "");
    return;
  case PLACE_REFERENCE:
    if ((value >> 32 & 0xffff) == BUSQ_RING_NOBODY)
      snprintf(text, bytes, "lap %u skipped", (unsigned)(value >> 48));
    else
      snprintf(text, bytes, "lap %u p%u/%u", (unsigned)(value >> 48), (unsigned)(value >> 32) & 0xffffu,
               (unsigned)value);
    return;
  case PLACE_LIFE:
    snprintf(text, bytes, "%u:%u", (unsigned)(value >> 32), (unsigned)value);
    return;
  case PLACE_EXTENT:
    snprintf(text, bytes, value >> 16 & 0xffff ? "%s of p%d" : "%s", kinds[value >> 8 & 7],
             (int)(value >> 16 & 0xffff) - 1);
    return;
  default:
    snprintf(text, bytes, value >> 40 ? "%" PRIx64 : "%" PRIu64, value);
  }
}

static const char *explore_title(void *context, uint32_t index)
{
  static char title[8];
  (void)context;
  snprintf(title, sizeof title, "p%u", explore_actors[index].peer);
  return title;
}

#endif /* BUSQ_TESTS_EXPLORE_NAMES_H */
