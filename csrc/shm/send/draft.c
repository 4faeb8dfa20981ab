/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/send/draft.h"
#include "base/error.h"
#include "shm/send/admit.h"
#include "shm/send/find_record.h"
#include "shm/send/record.h"
#include "shm/wake/wake.h"

int busq_draft_check(const busq_peer *peer, const busq_payload *payload, uint32_t n_targets)
{
  const busq_message *draft = payload->draft;
  const uint64_t needed = busq_record_payload_offset(n_targets, payload->size_bytes) + payload->size_bytes;
  if (payload->size_bytes > draft->size_bytes)
    return busq_error(BUSQ_INVALID, "size %llu of a draft of %llu bytes", (unsigned long long)payload->size_bytes,
                      (unsigned long long)draft->size_bytes);
  if (needed > busq_draft_bytes(peer, draft))
    return busq_error(BUSQ_INVALID, "a draft that is sent to %u receivers: say so when it is reserved", n_targets);
  return BUSQ_OK;
}

/* Free first, as when a record is filled: its last message may have had so many destinations that a payload would be
 * written over their marks. */
static void draft_begin(busq_peer *peer, busq_record *record, uint64_t size_bytes, uint32_t n_targets,
                        busq_message *draft)
{
  BUSQ_STEP("draft");
  busq_send_free_record(record);
  peer->sender.drafts++;
  *draft = (busq_message){
      .data = (char *)record + busq_record_payload_offset(n_targets, size_bytes),
      .size_bytes = size_bytes,
      .record = busq_send_record_unit(peer, record),
  };
}

int busq_draft_reserve(busq_peer *peer, uint64_t size_bytes, uint32_t n_targets, busq_message *draft)
{
  busq_record *record;
  peer->sender.failed_target = BUSQ_NO_TARGET;
  busq_store_relaxed(&peer->sender.finds_more, false);
  const uint32_t peers = peer->bus->geometry.peers;
  if (n_targets == 0)
    n_targets = peers < BUSQ_DRAFT_TARGETS ? peers : BUSQ_DRAFT_TARGETS;
  int result = busq_message_check_size(peer, size_bytes);
  if (!result && n_targets > peers)
    result = busq_error(BUSQ_INVALID, "a draft for %u receivers on a bus with %u slots", n_targets, peers);
  if (!result)
    result = busq_send_take_record(peer, busq_record_payload_offset(n_targets, size_bytes) + size_bytes, &record);
  if (!result)
    draft_begin(peer, record, size_bytes, n_targets, draft);
  return result;
}

void busq_draft_discard(busq_peer *peer, const busq_message *draft)
{
  BUSQ_ASSERT(peer->sender.drafts > 0);
  BUSQ_STEP("draft");
  busq_arena_cancel(&peer->sender.arena, busq_draft_bytes(peer, draft), busq_draft_record(peer, draft));
  peer->sender.drafts--;
  busq_wake_for_memory(peer->bus);
}
