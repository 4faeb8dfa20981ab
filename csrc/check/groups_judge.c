/* SPDX-License-Identifier: Apache-2.0 */
/* What the applications of a state have seen, as events for an observer. */
#include "check/groups_model.h"
#include "observe/views.h"
#include <string.h>

enum { VIEWS_MAX = BUSQ_GROUPS_CHANGES_MAX + 2, SETS = 1 << BUSQ_GROUPS_PROCESSES_MAX };

typedef struct {
  busq_views_event events[BUSQ_GROUPS_PROCESSES_MAX][BUSQ_GROUPS_EVENTS_MAX];
  busq_views_log logs[BUSQ_GROUPS_PROCESSES_MAX];
  busq_views_message messages[BUSQ_GROUPS_MESSAGES_MAX];
  busq_views_place places[BUSQ_GROUPS_MESSAGES_MAX];
  busq_views_view views[VIEWS_MAX];
  uint32_t gone[BUSQ_GROUPS_PROCESSES_MAX];
} told;

/* Every set of processes stands at the place that is its bits. */
static void fill_sets(uint64_t *sets)
{
  for (uint32_t set = 0; set < SETS; set++)
    sets[set] = set;
}

static void tell_process(const busq_groups_state *state, uint32_t process, told *all)
{
  const busq_groups_process *self = &state->processes[process];
  for (uint32_t at = 0; at < self->n_events; at++) {
    const uint16_t event = self->events[at];
    const uint32_t view = busq_groups_event_view(event);
    all->events[process][at] = view ? (busq_views_event){.view = view, .members = event >> 4 & 0x3f, .died = event & 0xf}
                                    : (busq_views_event){.message = event};
  }
  all->logs[process] = (busq_views_log){.events = all->events[process],
                                        .n_events = self->n_events,
                                        .is_cut = (state->head.dead | state->head.stopped) >> process & 1};
}

uint32_t busq_groups_judge(const busq_groups_config *config, const busq_groups_state *state, bool is_over,
                           busq_groups_finding *finding)
{
  uint64_t sets[SETS];
  told all;
  busq_views_witness witness = {0};
  fill_sets(sets);
  memset(all.places, 0, sizeof all.places);
  memset(all.views, 0, sizeof all.views);
  for (uint32_t process = 0; process < config->processes; process++) {
    all.gone[process] = state->head.gone >> process & 1;
    tell_process(state, process, &all);
  }
  for (uint32_t message = 0; message < state->head.n_messages; message++) {
    const uint8_t view = state->head.message_view[message];
    all.messages[message] = (busq_views_message){.sender = state->head.message_sender[message],
                                                 .view = view == BUSQ_GROUPS_REFUSED ? BUSQ_VIEWS_REFUSED : view,
                                                 .named = config->names_last ? 1u << (config->processes - 1) : 0};
  }
  const busq_views_history history = {.n_processes = config->processes,
                                      .n_messages = state->head.n_messages,
                                      .n_views = VIEWS_MAX,
                                      .words = 1,
                                      .sets = sets,
                                      .logs = all.logs,
                                      .messages = all.messages,
                                      .first_members = 1u + state->head.first_members,
                                      .is_over = is_over,
                                      .places = all.places,
                                      .views = all.views,
                                      .gone = all.gone};
  if (busq_views_judge(&history, &witness))
    return 0;
  if (finding)
    *finding = (busq_groups_finding){witness.fault, witness.process, witness.other, witness.message, witness.view};
  return 1u << witness.fault;
}
