/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_TESTS_SPEC_TRANSCRIPT_H
#define BUSQ_TESTS_SPEC_TRANSCRIPT_H
/* Histories written down as text: for every process a log, "send 7 to p1 p2; deliver 8". */
#include "busq_lab.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

#define N_PROCESSES_MAX 16

/* "send 7 to p1 p2" or "deliver 7" */
static inline int enact(busq_history *history, uint32_t process, const char *sentence)
{
  unsigned long long message;
  int used = 0;
  if (sscanf(sentence, " deliver %llu%n", &message, &used) == 1)
    return busq_history_deliver(history, process, message);
  assert(sscanf(sentence, " send %llu to%n", &message, &used) == 1 && used > 0);
  uint32_t destinations[N_PROCESSES_MAX];
  uint32_t n_destinations = 0;
  unsigned destination;
  for (sentence += used; sscanf(sentence, " p%u%n", &destination, &used) == 1; sentence += used)
    destinations[n_destinations++] = destination;
  return busq_history_send(history, process, message, destinations, n_destinations);
}

/* One log: sentences with semicolons between them. */
static inline int enact_log(busq_history *history, uint32_t process, const char *log)
{
  char sentence[256];
  int result = BUSQ_OK;
  while (*log && result == BUSQ_OK) {
    const size_t length = strcspn(log, ";");
    assert(length < sizeof sentence);
    memcpy(sentence, log, length);
    sentence[length] = 0;
    if (sentence[strspn(sentence, " ")])
      result = enact(history, process, sentence);
    log += length + (log[length] == ';');
  }
  return result;
}

/* Reads what p0, p1, ... sent and delivered, up to NULL. */
static inline busq_history *perform(const char *const *logs)
{
  uint32_t n_processes = 0;
  while (logs[n_processes])
    n_processes++;
  busq_history *history = NULL;
  assert(busq_history_new(n_processes, &history) == BUSQ_OK);
  for (uint32_t process = 0; process < n_processes; process++)
    assert(enact_log(history, process, logs[process]) == BUSQ_OK);
  return history;
}

#endif /* BUSQ_TESTS_SPEC_TRANSCRIPT_H */
