/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "observe/spec.h"
#include <stdlib.h>
#include <string.h>

_Static_assert(BUSQ_PROPERTY_MYSTERIOUS + 1 == BUSQ_N_PROPERTIES, "a verdict for every property");
_Static_assert((1 << BUSQ_N_PROPERTIES) - 1 == BUSQ_ALL_PROPERTIES, "a bit for every property");
_Static_assert((1 << (BUSQ_PROPERTY_IMPOSSIBLE + 1)) - 1 == BUSQ_BUS1_PROPERTIES, "the first nine");
_Static_assert(sizeof((busq_witness *)0)->messages == BUSQ_WITNESS_MESSAGES * sizeof(uint64_t), "busq.h agrees");
_Static_assert(sizeof((busq_judgement *)0)->verdicts == BUSQ_N_PROPERTIES * sizeof(busq_verdict), "busq.h agrees");
_Static_assert(sizeof((busq_witness *)0)->steps == BUSQ_WITNESS_STEPS * sizeof(busq_witness_step), "busq.h agrees");

const char *busq_property_name(busq_property property)
{
  static const char *const names[] = {"lost",  "duplicated", "phantom",    "fifo",        "causal", "consistent",
                                      "total", "resent",     "impossible", "synchronous", "c2",     "mysterious"};
  _Static_assert(sizeof names == BUSQ_N_PROPERTIES * sizeof *names, "a name for every property");
  return (unsigned)property < BUSQ_N_PROPERTIES ? names[property] : NULL;
}

static void case_deinit(busq_observe_case *c)
{
  free(c->log_starts);
  free(c->marks);
  free(c->tallies);
}

static int case_init(busq_observe_case *c, const busq_history *history, busq_judgement *judgement)
{
  *c = (busq_observe_case){.history = history, .judgement = judgement, .n_messages = history->index.n_names};
  c->log_starts = malloc((history->n_processes + (size_t)1) * sizeof *c->log_starts);
  c->marks = calloc(history->n_events + 1, sizeof *c->marks);
  c->tallies = calloc(c->n_messages + (size_t)1, sizeof *c->tallies);
  if (!c->log_starts || !c->marks || !c->tallies) {
    case_deinit(c);
    return busq_observe_out_of_memory();
  }
  uint64_t start = 0;
  for (uint32_t process = 0; process < history->n_processes; process++) {
    c->log_starts[process] = start;
    start += history->logs[process].n_events;
  }
  return BUSQ_OK;
}

int busq_history_judge(const busq_history *history, uint32_t properties, busq_judgement *judgement)
{
  if (properties & ~(uint32_t)BUSQ_ALL_PROPERTIES)
    return busq_error(BUSQ_INVALID, "0x%x is no set of properties: only the lowest %d bits mean something",
                      (unsigned)properties, BUSQ_N_PROPERTIES);
  memset(judgement, 0, sizeof *judgement);
  busq_observe_case c;
  int result = case_init(&c, history, judgement);
  if (result != BUSQ_OK)
    return result;
  result = busq_observe_judge_ledger(&c);
  const bool is_mysterious_asked = properties & 1u << BUSQ_PROPERTY_MYSTERIOUS;
  /* Crowns of two need to know which deliveries are impossible. */
  const uint32_t by_causal = 1u << BUSQ_PROPERTY_CAUSAL | 1u << BUSQ_PROPERTY_C2 | 1u << BUSQ_PROPERTY_IMPOSSIBLE |
                             1u << BUSQ_PROPERTY_MYSTERIOUS;
  if (result == BUSQ_OK && properties & by_causal)
    result = busq_observe_judge_causal(&c);
  if (result == BUSQ_OK && properties & (1u << BUSQ_PROPERTY_CONSISTENT | 1u << BUSQ_PROPERTY_TOTAL))
    result = busq_observe_judge_orders(&c);
  if (result == BUSQ_OK && properties & (1u << BUSQ_PROPERTY_SYNCHRONOUS | 1u << BUSQ_PROPERTY_MYSTERIOUS))
    result = busq_observe_judge_crowns(&c, is_mysterious_asked);
  case_deinit(&c);
  for (uint32_t property = 0; property < BUSQ_N_PROPERTIES; property++)
    if (properties & 1u << property)
      judgement->verdicts[property].was_judged = 1;
    else
      memset(&judgement->verdicts[property], 0, sizeof judgement->verdicts[property]);
  return result;
}
