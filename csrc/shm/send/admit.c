/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/send/admit.h"
#include "base/error.h"

int busq_message_refuse(const busq_peer *peer, uint64_t size_bytes)
{
  const busq_bus *bus = peer->bus;
  if (size_bytes <= bus->payload_bytes_max)
    return busq_error(BUSQ_SHUTDOWN, "bus \"%s\" was shut down", bus->name);
  return busq_error(BUSQ_TOO_LARGE, "a message of %llu bytes: bus \"%s\" takes at most %llu%s",
                    (unsigned long long)size_bytes, bus->name, (unsigned long long)bus->payload_bytes_max,
                    bus->payload_bytes_max < BUSQ_LAYOUT_PAYLOAD_BYTES_MAX
                        ? "; create it with a larger arena, and with reserve=False, if that should take memory only where it is used"
                        : "");
}

int busq_message_admit(busq_peer *peer, const uint64_t *targets, uint32_t n_targets, uint64_t size_bytes)
{
  peer->sender.failed_target = BUSQ_NO_TARGET;
  peer->sender.is_short = false;
  busq_store_relaxed(&peer->sender.finds_more, false);
  int result = busq_message_check_size(peer, size_bytes);
  if (!result)
    result = busq_destinations_sort(peer, targets, n_targets);
  BUSQ_TIME("sorted");
  const uint64_t tick_ns = busq_time_tick_ns();
  BUSQ_TIME("tick");
  for (uint32_t i = 0; i < n_targets && !result; i++) {
    const busq_route to = busq_route_to(peer, peer->sender.destinations[i]);
    result = busq_destination_check(peer, &to, tick_ns);
  }
  BUSQ_TIME("checked");
  for (uint32_t i = 0; i < n_targets && !result; i++) {
    const busq_route to = busq_route_to(peer, peer->sender.destinations[i]);
    result = busq_destination_room(peer, &to);
  }
  BUSQ_TIME("has room");
  return result;
}
