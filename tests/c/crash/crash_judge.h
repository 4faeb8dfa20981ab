/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_TESTS_CRASH_JUDGE_H
#define BUSQ_TESTS_CRASH_JUDGE_H
/*
 * The verdict on one run, from the ledgers alone.
 *
 * What counts as sent: a send that returned OK, and one that never returned because its process died, if any process
 * has heard it.  A send that returned an error must not be heard by any process.  What was sent must reach every
 * receiver that neither died nor left, once; all orders must be consistent and causal.  The observers of the library
 * (busq.h) decide that.
 *
 * What was sent to a shared queue must reach one of its readers, once; and then another one only if the first died or
 * left with it, marked, and not if it was acknowledged, or taken for good.  What is marked has no place in the orders.
 *
 * How long a process was blocked: the time that a call took after the victim met its fate; for a receiver, the time
 * from when it was listening and the message was known to be sent until it heard it.  A send that found no room in
 * the time that it was given has waited for a reader; where that is a stopped one, and no process is dead, it does
 * not count.
 */
#include "busq_lab.h"
#include "crash/crash_stage.h"

typedef struct {
  uint64_t fate_ns; /* when the stage knew that the victim was dead or stopped */
  uint16_t dead;    /* a bit per role */
  uint16_t gone;    /* the dead, and those that left before the end */
  bool is_shared;   /* the victim and those of its name read one queue */
} crash_outcome;

typedef struct {
  uint64_t longest_ns;
  char longest_what[64];
  char fault[256]; /* empty: nothing is wrong */
} crash_verdict;

static const crash_event *role_event(unsigned role, uint32_t index)
{
  return &stage->boxes[role].events[index];
}

/* A bit per role; one that took over has the same target as its predecessor. */
static uint16_t who_was_meant(const crash_event *event)
{
  uint16_t roles = 0;
  for (unsigned role = 0; role < ROLES; role++)
    for (uint32_t i = 0; i < event->n_targets; i++)
      if (stage->boxes[role].target && stage->boxes[role].target == event->targets[i])
        roles = (uint16_t)(roles | 1u << role);
  return roles;
}

static uint16_t who_has_heard(uint32_t message, bool with_marked)
{
  uint16_t roles = 0;
  for (unsigned role = 0; role < ROLES; role++)
    for (uint32_t i = 0; i < stage->boxes[role].n_events; i++)
      if (role_event(role, i)->kind == EVENT_HEARD && role_event(role, i)->message == message &&
          (with_marked || !role_event(role, i)->is_redelivered))
        roles = (uint16_t)(roles | 1u << role);
  return roles;
}

static const crash_event *end_of_send(uint32_t message)
{
  for (unsigned role = 0; role < ROLES; role++)
    for (uint32_t i = 0; i < stage->boxes[role].n_events; i++)
      if (role_event(role, i)->kind == EVENT_SENT && role_event(role, i)->message == message)
        return role_event(role, i);
  return NULL;
}

static void verdict_fault(crash_verdict *verdict, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void verdict_fault(crash_verdict *verdict, const char *format, ...)
{
  va_list arguments;
  if (verdict->fault[0])
    return;
  va_start(arguments, format);
  vsnprintf(verdict->fault, sizeof verdict->fault, format, arguments);
  va_end(arguments);
}

/* ---- one peer, several lives ---- */

/* In the order in which they may take over from each other. */
static const crash_role lives[] = {ROLE_PRIOR, ROLE_VICTIM, ROLE_NEXT};

#define N_LIVES (sizeof lives / sizeof lives[0])

/* Those of them that were the same peer: a bit per role, or nothing. */
static uint16_t who_was_one(void)
{
  uint16_t roles = 0;
  for (unsigned a = 0; a < N_LIVES; a++)
    for (unsigned b = 0; b < N_LIVES; b++)
      if (a != b && stage->boxes[lives[a]].target && stage->boxes[lives[a]].target == stage->boxes[lives[b]].target)
        roles = (uint16_t)(roles | 1u << lives[a]);
  return roles;
}

/* The one that stands for all lives of a peer. */
static unsigned merged_role(uint16_t one, unsigned role)
{
  return one >> role & 1 ? (unsigned)__builtin_ctz(one) : role;
}

static uint16_t merged(uint16_t one, uint16_t roles)
{
  return roles & one ? (uint16_t)((roles & ~one) | 1u << __builtin_ctz(one)) : roles;
}

/* ---- the order ---- */

typedef struct {
  busq_history *history;
  const crash_outcome *outcome;
  crash_verdict *verdict;
  uint16_t one;      /* the lives of a peer that was resumed */
  bool is_one;       /* and they are judged as one process; otherwise only the orders of each of them count */
  uint32_t unheard;
} crash_judging;

/* Returns what a process killed in the middle of taking a message may have taken: whether it did is unknown. */
static uint32_t unknown_takes(const crash_judging *judging)
{
  uint32_t count = 0;
  for (unsigned i = 0; i < N_LIVES; i++)
    count += judging->one >> lives[i] & 1 && stage->boxes[lives[i]].is_taking;
  return count;
}

/* The processes that must have heard it, if any has; and those that have. */
static uint16_t who_counts(crash_judging *judging, const crash_event *event, uint16_t heard_by)
{
  const uint16_t one = judging->one;
  uint16_t meant = who_was_meant(event), present = (uint16_t)~judging->outcome->gone;
  if (judging->outcome->is_shared) {
    const uint16_t readers = who_was_one();
    meant = (uint16_t)((meant & ~readers) | (meant & who_has_heard(event->message, false)));
    present = (uint16_t)(present & ~readers);
  }
  if (!one)
    return (uint16_t)((meant & present) | (meant & heard_by));
  if (!judging->is_one)
    return (uint16_t)((meant & one ? meant | one : meant) & heard_by);
  if (present & one)
    present |= one;
  meant = merged(one, meant);
  if (meant & present & ~heard_by & one) {
    meant &= (uint16_t)~one;
    if (++judging->unheard > unknown_takes(judging))
      verdict_fault(judging->verdict, "message %u was sent to a peer that was resumed, and no life of it has heard it",
                    event->message);
  }
  return (uint16_t)((meant & present) | (meant & heard_by));
}

static void judge_send(crash_judging *judging, unsigned process, const crash_event *event)
{
  const crash_event *end = end_of_send(event->message);
  const uint16_t heard_by =
      judging->is_one ? merged(judging->one, who_has_heard(event->message, true)) : who_has_heard(event->message, true);
  uint32_t destinations[ROLES], count = 0;
  if (end && end->result != BUSQ_OK && heard_by)
    verdict_fault(judging->verdict, "message %u was heard (by roles %x), but its send returned %u", event->message,
                  heard_by, end->result);
  if (end ? end->result != BUSQ_OK : !heard_by)
    return;
  const uint16_t counts = who_counts(judging, event, heard_by);
  for (uint32_t to = 0; to < ROLES; to++)
    if (counts & 1u << to)
      destinations[count++] = to;
  if (count)
    CHECK_EQUAL(busq_history_send(judging->history, process, event->message, destinations, count), BUSQ_OK);
}

static bool has_event(unsigned role, crash_event_kind kind, uint32_t message)
{
  for (uint32_t i = 0; i < stage->boxes[role].n_events; i++)
    if (role_event(role, i)->kind == kind && role_event(role, i)->message == message)
      return true;
  return false;
}

/* A message that comes again to a successor must be marked so, and must not have been acknowledged. */
static void judge_heard(crash_judging *judging, unsigned role, const crash_event *event)
{
  bool is_known = false;
  if (judging->outcome->is_shared && stage->boxes[role].is_reader && event->is_redelivered)
    return;
  for (unsigned i = 0; i < N_LIVES && lives[i] != role && event->is_redelivered; i++) {
    if (!(judging->one >> lives[i] & 1))
      continue;
    is_known |= has_event(lives[i], EVENT_HEARD, event->message);
    if (has_event(lives[i], EVENT_ACKED, event->message))
      verdict_fault(judging->verdict, "message %u was acknowledged and has come again", event->message);
  }
  if (judging->is_one && is_known)
    return;
  const unsigned process = judging->is_one ? merged_role(judging->one, role) : role;
  CHECK_EQUAL(busq_history_deliver(judging->history, process, event->message), BUSQ_OK);
}

static void judge_order(const crash_outcome *outcome, bool is_one, crash_verdict *verdict)
{
  static const crash_role order[ROLES] = {ROLE_PRIOR, ROLE_VICTIM, ROLE_NEXT,   ROLE_BOB,
                                          ROLE_CAROL, ROLE_DAN,    ROLE_SECOND, ROLE_THIRD};
  crash_judging judging = {.outcome = outcome, .verdict = verdict, .is_one = is_one};
  if (!outcome->is_shared)
    judging.one = who_was_one();
  busq_judgement judgement;
  CHECK_EQUAL(busq_history_new(ROLES, &judging.history), BUSQ_OK);
  for (unsigned i = 0; i < ROLES; i++)
    for (uint32_t at = 0; at < stage->boxes[order[i]].n_events; at++) {
      const crash_event *event = role_event(order[i], at);
      if (event->kind == EVENT_SENDING)
        judge_send(&judging, is_one ? merged_role(judging.one, order[i]) : order[i], event);
      else if (event->kind == EVENT_HEARD)
        judge_heard(&judging, order[i], event);
    }
  CHECK_EQUAL(busq_history_judge(judging.history, BUSQ_BUS1_PROPERTIES, &judgement), BUSQ_OK);
  for (unsigned property = 0; property < BUSQ_N_PROPERTIES; property++) {
    const busq_verdict *found = &judgement.verdicts[property];
    if (found->count)
      verdict_fault(verdict, "%s: %" PRIu64 " (message %" PRIu64 ", %" PRIu64 "; %s)",
                    busq_property_name((busq_property)property), found->count, found->witness.messages[0],
                    found->witness.messages[1],
                    found->witness.n_processes ? role_titles[found->witness.processes[0]] : "");
  }
  busq_history_free(judging.history);
}

/* ---- one queue, several readers ---- */

/* When a reader let go of what it held: by its end, or by leaving. */
static uint64_t let_go_ns(unsigned role, const crash_outcome *outcome)
{
  const uint32_t count = stage->boxes[role].n_events;
  for (uint32_t i = 0; i < count; i++)
    if (role_event(role, i)->kind == EVENT_CALL &&
        (strcmp(role_event(role, i)->verb, "leave") == 0 || strcmp(role_event(role, i)->verb, "part") == 0))
      return role_event(role, i)->begin_ns;
  return !(outcome->dead >> role & 1) ? UINT64_MAX : count ? role_event(role, count - 1)->end_ns : 0;
}

/* Had by one reader, then by another, or again by the same. */
static void judge_again(unsigned first, const crash_event *had, const crash_event *again, const crash_outcome *outcome,
                        crash_verdict *verdict)
{
  const char *why = !again->is_redelivered                            ? "without a mark"
                    : strcmp(had->verb, "offer") != 0                 ? "after it was taken for good"
                    : has_event(first, EVENT_ACKED, had->message)     ? "after it was acknowledged"
                    : again->end_ns < let_go_ns(first, outcome)       ? "while it still had it"
                                                                      : NULL;
  if (why)
    verdict_fault(verdict, "message %u was heard by %s, and again %s", had->message, role_titles[first], why);
}

static uint32_t judge_sharing_of(uint32_t message, const crash_outcome *outcome, crash_verdict *verdict)
{
  const crash_event *had = NULL;
  unsigned first = 0;
  uint32_t count = 0;
  for (unsigned i = 0; i < N_LIVES; i++)
    for (uint32_t at = 0; at < stage->boxes[lives[i]].n_events; at++) {
      const crash_event *event = role_event(lives[i], at);
      if (event->kind != EVENT_HEARD || event->message != message)
        continue;
      if (had && had->end_ns > event->end_ns)
        judge_again(lives[i], event, had, outcome, verdict);
      else if (had)
        judge_again(first, had, event, outcome, verdict);
      had = event;
      first = lives[i];
      count++;
    }
  return count;
}

static void judge_sharing(const crash_outcome *outcome, crash_verdict *verdict)
{
  uint32_t n_unheard = 0, n_unknown = 0;
  for (unsigned i = 0; i < N_LIVES; i++)
    n_unknown += stage->boxes[lives[i]].is_taking;
  for (unsigned role = 0; role < ROLES; role++)
    for (uint32_t at = 0; at < stage->boxes[role].n_events; at++) {
      const crash_event *event = role_event(role, at), *end;
      if (event->kind != EVENT_SENDING || !(who_was_meant(event) & 1u << ROLE_NEXT))
        continue;
      end = end_of_send(event->message);
      const uint32_t count = judge_sharing_of(event->message, outcome, verdict);
      const bool was_sent = end ? end->result == BUSQ_OK : who_has_heard(event->message, true) != 0;
      if (was_sent && !count && ++n_unheard > n_unknown)
        verdict_fault(verdict, "message %u was sent to a shared queue, and nobody has heard it", event->message);
    }
}

static uint64_t later(uint64_t a, uint64_t b)
{
  return a > b ? a : b;
}

static void judge_wait(crash_verdict *verdict, unsigned role, const crash_event *event, uint64_t since_ns)
{
  if (event->end_ns <= since_ns || event->end_ns - since_ns <= verdict->longest_ns)
    return;
  verdict->longest_ns = event->end_ns - since_ns;
  snprintf(verdict->longest_what, sizeof verdict->longest_what, "%s: %s %u", role_titles[role], event->verb,
           event->message);
}

static void judge_waits_of(unsigned role, const crash_outcome *outcome, crash_verdict *verdict)
{
  uint64_t listens_ns = 0;
  for (uint32_t i = 0; i < stage->boxes[role].n_events; i++) {
    const crash_event *event = role_event(role, i);
    if (event->kind == EVENT_LISTENS) {
      listens_ns = event->begin_ns;
    } else if (event->kind == EVENT_HEARD) {
      const crash_event *sent = end_of_send(event->message);
      /* What comes back was with another reader, which may have been stopped. */
      if (!(outcome->is_shared && event->is_redelivered && !outcome->dead))
        judge_wait(verdict, role, event, later(later(listens_ns, outcome->fate_ns), sent ? sent->end_ns : 0));
      listens_ns = event->end_ns;
    } else if (event->kind == EVENT_CALL ||
               (event->kind == EVENT_SENT && (event->result != BUSQ_FULL || outcome->dead))) {
      judge_wait(verdict, role, event, later(event->begin_ns, outcome->fate_ns));
    }
  }
}

static void judge(const crash_outcome *outcome, crash_verdict *verdict)
{
  for (unsigned role = 0; role < ROLES; role++)
    if (stage->boxes[role].complaint[0])
      verdict_fault(verdict, "%s: %s", role_titles[role], stage->boxes[role].complaint);
  judge_order(outcome, true, verdict);
  if (outcome->is_shared)
    judge_sharing(outcome, verdict);
  else if (who_was_one())
    judge_order(outcome, false, verdict);
  for (unsigned role = ROLE_BOB; role <= ROLE_NEXT; role++)
    judge_waits_of(role, outcome, verdict);
}

#endif /* BUSQ_TESTS_CRASH_JUDGE_H */
