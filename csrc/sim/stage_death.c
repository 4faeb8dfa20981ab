/* SPDX-License-Identifier: Apache-2.0 */
/* Deaths on a stage: their traces, and the processes that have not learnt of them. */
#include "sim/stage.h"
#include <string.h>

uint64_t busq_stage_find_notice(const busq_stage *stage, uint32_t *processp, uint32_t *deadp)
{
  const uint32_t n = stage->group.n_processes;
  uint64_t count = 0;
  for (uint32_t dead = 0; dead < n && stage->group.options & BUSQ_OPTION_GO_ON; dead++)
    for (uint32_t process = 0; process < n && stage->processes[dead].is_dead; process++) {
      const busq_stage_process *learner = &stage->processes[process];
      if (learner->is_dead || busq_group_suspects(learner->state, dead))
        continue;
      count++;
      if (processp)
        *processp = process;
      if (deadp)
        *deadp = dead;
    }
  return count;
}

void busq_stage_bury(busq_stage *stage, uint32_t process)
{
  busq_stage_process *buried = &stage->processes[process];
  buried->is_dead = true;
  stage->n_waiting -= buried->n_submits;
  stage->n_alarms -= buried->n_alarms;
  buried->n_submits = 0;
  buried->n_alarms = 0;
  for (uint32_t place = stage->n_packets; place-- > 0;) {
    busq_stage_packet *packet = &stage->packets[place];
    if (packet->to != process)
      continue;
    if (stage->order->kinds[packet->what].has_payload)
      busq_messages_release(&stage->messages, packet->message);
    memmove(packet, packet + 1, (--stage->n_packets - place) * sizeof *packet);
  }
}
