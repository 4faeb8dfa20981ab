/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "record/recorder.h"

int busq_recorder_no_memory(const busq_recorder *self)
{
  return busq_error(BUSQ_NO_SPACE, "no memory to record bus \"%s\"", self->bus->name);
}

int busq_recorder_ring_damaged(busq_recorder *self, uint32_t slot)
{
  self->is_damaged = true;
  return busq_error(BUSQ_CORRUPT, "the ring of peer slot %u in the trace of bus \"%s\" is damaged; what was written before stays: remove .busq-*-trace-* beside the bus, and record again",
                    slot, self->bus->name);
}
