/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/memory/layout.h"
#include "base/hash.h"
#include <string.h>

#define PAGE_BYTES 4096u
#define EXTENT_BYTES_MIN UINT64_C(4096)
#define EXTENT_BYTES_MAX (UINT64_C(256) << 10)
#define EXTENT_BYTES_MAX_LATE (UINT64_C(64) << 10) /* a peer that joins reserves one */

_Static_assert(sizeof(busq_destination) == 4, "destinations are packed");
_Static_assert(offsetof(busq_record, destination) == 36, "a unicast of 24 bytes fits into one line");
_Static_assert(offsetof(busq_record, destination) + BUSQ_DRAFT_TARGETS * sizeof(busq_destination) == 64,
               "a draft's payload stays where it was written");
_Static_assert(sizeof(busq_node_name) == 8, "a node's name is one word");
_Static_assert(sizeof(busq_header) <= PAGE_BYTES, "the header is one page");
_Static_assert(BUSQ_ALIGN_UP(UINT64_C(0x100000001), 4096u) == UINT64_C(0x100001000), "offsets have 64 bits");
_Static_assert(BUSQ_LAYOUT_PEERS_MAX <= BUSQ_RING_SENDER_MASK + 1, "a slot fits beside the bits of a claim");
_Static_assert(sizeof(busq_slot) == 896, "a place for a peer has no empty lines");
_Static_assert(sizeof(busq_pair) == 16, "two words that change together");

static uint64_t power_of_two_up(uint64_t value)
{
  uint64_t power = 1;
  while (power < value)
    power <<= 1;
  return power;
}

/* Every peer has one extent of its own, so that it can always send something small; the common part holds one message
 * of `arena_bytes` with its header even so. */
static void geometry_arena(busq_geometry *geometry)
{
  uint64_t extent_bytes = power_of_two_up(geometry->arena_bytes / 512);
  if (extent_bytes < EXTENT_BYTES_MIN)
    extent_bytes = EXTENT_BYTES_MIN;
  const uint64_t extent_bytes_max = geometry->reserves_late ? EXTENT_BYTES_MAX_LATE : EXTENT_BYTES_MAX;
  if (extent_bytes > extent_bytes_max)
    extent_bytes = extent_bytes_max;
  const uint64_t header_bytes = busq_record_payload_offset(geometry->peers, 512);
  geometry->extent_bytes = extent_bytes;
  geometry->huge_from = geometry->peers + (geometry->arena_bytes + header_bytes + extent_bytes - 1) / extent_bytes;
  geometry->extents = geometry->huge_from + (geometry->takes_larger ? BUSQ_LAYOUT_HUGE_EXTENTS : 0);
}

static bool numbers_are_in_range(const busq_geometry *asked)
{
  return asked->peers >= 1 && asked->peers <= BUSQ_LAYOUT_PEERS_MAX && asked->capacity >= 1 &&
         asked->capacity <= BUSQ_LAYOUT_CAPACITY_MAX && asked->arena_bytes >= BUSQ_LAYOUT_ARENA_BYTES_MIN &&
         asked->arena_bytes <= BUSQ_LAYOUT_ARENA_BYTES_MAX && asked->groups <= BUSQ_LAYOUT_GROUPS_MAX &&
         asked->nodes <= BUSQ_LAYOUT_NODES_MAX && asked->reserves_late <= 1 && asked->takes_larger <= 1;
}

/* The tables of groups and nodes; what a bus does not have takes no room. */
static void geometry_tables(busq_geometry *geometry)
{
  const uint64_t peers = geometry->peers;
  geometry->group_bytes =
      BUSQ_ALIGN_UP(sizeof(busq_group) + peers * (sizeof(busq_pair) + sizeof(busq_watcher) + sizeof(uint64_t)), BUSQ_LINE_PAIR_BYTES);
  geometry->node_bytes = BUSQ_ALIGN_UP(sizeof(busq_node) + peers * sizeof(uint64_t), BUSQ_LINE_PAIR_BYTES);
  geometry->nodes_offset = BUSQ_ALIGN_UP(geometry->groups_offset + geometry->groups * geometry->group_bytes,
                                         PAGE_BYTES);
  geometry->table_offset = BUSQ_ALIGN_UP(geometry->nodes_offset + peers * geometry->nodes * geometry->node_bytes,
                                         PAGE_BYTES);
}

uint64_t busq_geometry_head_bytes(const busq_geometry *geometry)
{
  return BUSQ_ALIGN_UP(busq_record_payload_offset(geometry->peers, 512), PAGE_BYTES);
}

uint64_t busq_geometry_arena_end(const busq_geometry *geometry)
{
  return geometry->arena_offset + geometry->huge_from * geometry->extent_bytes + busq_geometry_head_bytes(geometry);
}

bool busq_geometry_compute(busq_geometry *geometry, const busq_geometry *asked)
{
  if (!numbers_are_in_range(asked))
    return false;
  *geometry = (busq_geometry){
      .peers = asked->peers,
      .capacity = asked->capacity,
      .arena_bytes = asked->arena_bytes,
      .groups = asked->groups,
      .nodes = asked->nodes,
      .reserves_late = asked->reserves_late,
      .takes_larger = asked->takes_larger,
      .slot_count = power_of_two_up((uint64_t)asked->capacity + asked->peers),
  };
  const uint64_t peers = geometry->peers;
  geometry_arena(geometry);
  geometry->peers_offset = PAGE_BYTES;
  geometry->rings_offset = BUSQ_ALIGN_UP(geometry->peers_offset + peers * sizeof(busq_slot), PAGE_BYTES);
  geometry->groups_offset =
      BUSQ_ALIGN_UP(geometry->rings_offset + peers * geometry->slot_count * sizeof(busq_pair), PAGE_BYTES);
  geometry_tables(geometry);
  geometry->reply_places_offset =
      BUSQ_ALIGN_UP(geometry->table_offset + geometry->extents * sizeof(busq_extent), PAGE_BYTES);
  geometry->reply_places_bytes = BUSQ_ALIGN_UP(geometry->capacity * sizeof(busq_reply_place), PAGE_BYTES);
  geometry->arena_offset = geometry->reply_places_offset + peers * geometry->reply_places_bytes;
  /* A look at the header of the last possible record stays inside the mapping. */
  geometry->segment_bytes = busq_geometry_arena_end(geometry) +
                            (geometry->extents - geometry->huge_from) * BUSQ_LAYOUT_HUGE_BYTES;
  return true;
}

uint64_t busq_layout_stamp(void)
{
  const uint64_t facts[] = {
      BUSQ_LAYOUT_VERSION,
      sizeof(void *),
      UINT64_C(0x0102030405060708), /* hashed byte by byte: the order of bytes */
      sizeof(busq_header),
      sizeof(busq_slot),
      sizeof(busq_queue),
      sizeof(busq_extent),
      sizeof(busq_geometry),
      sizeof(busq_group),
      sizeof(busq_watcher),
      sizeof(busq_node),
      offsetof(busq_slot, life),
      offsetof(busq_slot, room_seq),
      offsetof(busq_slot, sequence_reserved),
      offsetof(busq_slot, in_hand),
      offsetof(busq_slot, joined_ns),
      offsetof(busq_slot, pid),
      offsetof(busq_slot, name),
      offsetof(busq_record, destination),
      BUSQ_RING_POSITION_BITS,
      BUSQ_LAYOUT_UNIT_BYTES,
  };
  return busq_hash_bytes(facts, sizeof facts);
}

uint64_t busq_header_checksum(const busq_header *header)
{
  busq_header copy = *header;
  copy.state = 0;
  return busq_hash_bytes(&copy, offsetof(busq_header, checksum));
}
