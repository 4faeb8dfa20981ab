/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_OBSERVE_HISTORY_H
#define BUSQ_OBSERVE_HISTORY_H
/*
 * A history: what every process sent and delivered, in the order of its own log.
 *
 * Guarantee: an append takes effect whole or not at all, and the history does not depend on the order in which
 * different processes' logs are appended.
 *
 * Mechanism: an event is one 32-bit word, the message's number and whether it was sent or delivered here.  Messages are
 * numbered as they appear first, so that arrays indexed by message are walked nearly in order by every log.  Where a
 * message was sent, and to which receivers, stands in a table; the destination sets are sorted and packed into one
 * pool, and a process that sends to the same set as the time before does not store it again.  So a history costs 4
 * bytes per event, some 40 per message and 4 per destination.
 *
 * A message has one send.  Where logs hold several of the same message, the one at the lowest process, there the
 * earliest, is the send; the others are kept as events that no observer looks at, and counted.
 *
 * Not given: more than BUSQ_OBSERVE_EVENTS_MAX events (almost 2^32) or 2^30 messages.
 */
#include "base/hash.h"
#include "base/types.h"
#include "busq_lab.h"

#define BUSQ_OBSERVE_NOBODY UINT32_MAX
#define BUSQ_OBSERVE_SEND_BIT (UINT32_C(1) << 31)
#define BUSQ_OBSERVE_PROCESSES_MAX 65536
/* Leaves room to number the events of all logs with a mark at the end of each. */
#define BUSQ_OBSERVE_EVENTS_MAX (UINT32_MAX - 2u * BUSQ_OBSERVE_PROCESSES_MAX)

typedef struct {
  uint32_t *events;
  uint32_t n_events;
  uint32_t capacity;
  uint64_t last_set; /* the destinations of the last send, if last_set_size is not 0 */
  uint32_t last_set_size;
  uint32_t died_behind; /* how many of the events stand before its last death, if it has_died */
  bool has_died;
  bool came_back; /* it joined after that */
} busq_observe_log;

typedef struct {
  uint64_t destinations; /* where they start in the pool; ascending, each once */
  uint32_t n_destinations;
  uint32_t sender;  /* BUSQ_OBSERVE_NOBODY: no log holds a send of it */
  uint32_t sent_at; /* index in the sender's log */
} busq_observe_message;

struct busq_history {
  uint32_t n_processes;
  uint32_t messages_capacity;
  uint64_t n_events; /* of all logs */
  busq_observe_log *logs;
  busq_index index; /* from a message's name to its number */
  busq_observe_message *messages;
  uint32_t *pool;
  uint64_t pool_size;
  uint64_t pool_capacity;
};

static inline bool busq_observe_event_is_send(uint32_t event)
{
  return event & BUSQ_OBSERVE_SEND_BIT;
}

static inline uint32_t busq_observe_event_message(uint32_t event)
{
  return event & ~BUSQ_OBSERVE_SEND_BIT;
}

/* Whether the message was sent to the process. */
static inline bool busq_observe_message_is_for(const busq_history *history, const busq_observe_message *message,
                                               uint32_t process)
{
  const uint32_t *set = history->pool + message->destinations;
  uint32_t low = 0;
  uint32_t high = message->n_destinations;
  while (high - low > 8) {
    const uint32_t middle = (low + high) / 2;
    if (set[middle] <= process)
      low = middle;
    else
      high = middle;
  }
  while (low < high && set[low] < process)
    low++;
  return low < high && set[low] == process;
}

/* Whether the event at this place of a process's log is the message's send, rather than a repetition. */
static inline bool busq_observe_message_was_sent_at(const busq_observe_message *message, uint32_t process, uint32_t place)
{
  return message->sender == process && message->sent_at == place;
}

/* BUSQ_INVALID where there is no such process. */
int busq_observe_check_process(const busq_history *history, uint32_t process);

/* Takes a receiver from a message's destinations, among which it is; false: there is no memory for the others as a set
 * of their own, which they need since several messages may share one. */
bool busq_observe_message_remove(busq_history *history, busq_observe_message *message, uint32_t process);

#endif /* BUSQ_OBSERVE_HISTORY_H */
