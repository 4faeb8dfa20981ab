/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_TESTS_CRASH_ACTOR_H
#define BUSQ_TESTS_CRASH_ACTOR_H
/*
 * What an actor can do, and how it follows a script: text, sentences with semicolons between them.  The list of verbs
 * stands behind their bodies.
 */
#include "crash/crash_stage.h"
#include <poll.h>
#include <sys/prctl.h>

/* ---- words ---- */

/* The next word of a sentence; false at its end. */
static bool word_next(const char **at, char *word, size_t room)
{
  size_t count = 0;
  *at += strspn(*at, " ");
  while (**at && **at != ' ' && **at != ';' && count + 1 < room)
    word[count++] = *(*at)++;
  word[count] = '\0';
  return count > 0;
}

static crash_role role_of_name(const char *name)
{
  crash_role role = 0;
  while (role < ROLES && strcmp(role_names[role], name) != 0)
    role++;
  CHECK(role < ROLES);
  return role;
}

static int actor_looks_up(const char *name, uint64_t *targetp)
{
  const crash_role role = role_of_name(name);
  if (actor.has_met[role]) {
    *targetp = actor.met[role];
    return BUSQ_OK;
  }
  return busq_peer_lookup(actor.peer, name, strlen(name), targetp);
}

/* ---- what an actor can do ---- */

typedef int (*verb_body)(const char *rest, uint32_t how);

/* The rest of its sentence; and how, where several verbs have one body: flags of joining, or how many bytes. */
#define VERB(name) static int verb_##name(__attribute__((unused)) const char *rest, __attribute__((unused)) uint32_t how)

VERB(open)
{
  actor.n_sent = 0;
  memset(actor.has_met, 0, sizeof actor.has_met);
  return busq_bus_open(stage->directory, "bus", &actor.bus);
}

static int actor_joins_by(const char *name, uint32_t flags)
{
  int result = busq_peer_join_as(actor.bus, name, strlen(name), flags, &actor.peer);
  if (result != BUSQ_OK)
    return result;
  busq_peer_set_spin(actor.peer, 0, 0);
  actor.box->target = busq_peer_target(actor.peer);
  actor.box->is_reader = flags & BUSQ_JOIN_SHARED;
  if (actor.box->is_reader)
    result = busq_peer_lookup(actor.peer, name, strlen(name), &actor.box->target);
  busq_store_release(&actor.box->has_joined, true);
  return result;
}

VERB(join)
{
  return actor_joins_by(role_names[actor.box->has_victims_name ? ROLE_VICTIM : actor.role], how);
}

VERB(beside)
{
  return actor_joins_by("beside", 0);
}

VERB(remove)
{
  char name[16];
  CHECK(word_next(&rest, name, sizeof name));
  return busq_bus_remove_peer(actor.bus, name, strlen(name));
}

VERB(leave)
{
  if (!actor.peer)
    return BUSQ_OK;
  busq_store_release(&actor.box->has_joined, false);
  const int result = busq_peer_close(actor.peer);
  for (uint32_t i = 0; i < actor.n_held; i++)
    if (!actor.is_offered[i])
      busq_peer_release(actor.peer, &actor.held[i]);
  actor.n_held = 0;
  while (actor.n_drafts)
    busq_peer_discard(actor.peer, &actor.drafts[--actor.n_drafts]);
  if (actor.replies)
    busq_peer_free(actor.replies);
  actor.replies = NULL;
  actor.asked_number = 0;
  actor.awaits = false;
  busq_peer_free(actor.peer);
  actor.peer = NULL;
  return result;
}

VERB(part)
{
  (void)verb_leave(rest, how);
  busq_bus_free(actor.bus);
  actor.bus = NULL;
  return BUSQ_OK;
}

VERB(propose)
{
  actor.peer->sender.proposes_stale = how != 0;
  return BUSQ_OK;
}

VERB(meet)
{
  char name[16];
  while (word_next(&rest, name, sizeof name)) {
    const crash_role role = role_of_name(name);
    const int result = busq_peer_lookup(actor.peer, name, strlen(name), &actor.met[role]);
    if (result != BUSQ_OK)
      return result;
    actor.has_met[role] = true;
  }
  return BUSQ_OK;
}

/* The draft that was reserved last, written now. */
static int actor_sends_draft(const uint64_t *targets, uint32_t count, const unsigned char *bytes)
{
  uint32_t sent = 0;
  const busq_message *draft = &actor.drafts[actor.n_drafts - 1];
  memcpy((void *)(uintptr_t)draft->data, bytes, draft->size_bytes);
  const int result = busq_peer_send_draft(actor.peer, targets, count, draft, draft->size_bytes, BUSQ_FORM_DATA, 0, &sent);
  actor.n_drafts -= result == BUSQ_OK;
  return result;
}

/* As ask() in Python does it: on record before it is sent. */
static int actor_sends_request(uint64_t target, const unsigned char *bytes, uint32_t size_bytes)
{
  uint32_t sent = 0;
  busq_request request = {0, busq_peer_target(actor.replies)};
  const busq_part parts[] = {{bytes, size_bytes}, {&request, sizeof request}};
  if (actor.asked_number)
    busq_peer_request_end(actor.replies, actor.asked_number);
  int result = busq_peer_request_begin(actor.peer, actor.replies, 0, &request.number);
  if (result == BUSQ_OK)
    actor.asked_number = request.number;
  if (result == BUSQ_OK)
    result = busq_peer_life_at_send(actor.peer, target, &actor.asked_began);
  if (result == BUSQ_OK)
    result = busq_peer_send_parts(actor.peer, &target, 1, parts, 2, BUSQ_FORM_ASK, 0, &sent);
  actor.awaits = result == BUSQ_OK;
  actor.asked_target = target;
  return result;
}

static int actor_sends_at_once(const uint64_t *targets, uint32_t count, const unsigned char *bytes, uint32_t size_bytes,
                               int64_t timeout_ns)
{
  if (actor.is_dispatching)
    return actor_sends_draft(targets, count, bytes);
  if (actor.is_asking)
    return actor_sends_request(*targets, bytes, size_bytes);
  return busq_peer_send(actor.peer, targets, count, bytes, size_bytes, timeout_ns);
}

static int actor_sends(const char *rest, int64_t timeout_ns)
{
  static unsigned char bytes[STAGE_HUGE_BYTES];
  crash_event event = {.kind = EVENT_SENDING, .verb = "send"};
  uint64_t *targets = event.targets;
  uint32_t count = 0;
  char name[16];
  while (word_next(&rest, name, sizeof name)) {
    CHECK(count < EVENT_TARGETS_MAX);
    const int found = actor_looks_up(name, &targets[count++]);
    if (found != BUSQ_OK)
      return found;
  }
  const uint32_t message = actor.id ? actor.id : (actor.role + 1) * 1000u + ++actor.n_sent;
  const uint32_t size_bytes = actor.bytes ? actor.bytes : STAGE_SMALL_BYTES;
  message_fill(bytes, size_bytes, message);
  if (actor.is_asking)
    actor.asked = message;
  event.message = message;
  event.n_targets = (uint8_t)count;
  event.begin_ns = event.end_ns = busq_time_now_ns();
  ledger_add(event);
  const uint64_t deadline_ns = event.begin_ns + (uint64_t)timeout_ns;
  int result;
  do
    result = actor_sends_at_once(targets, count, bytes, size_bytes, left_until(deadline_ns));
  while (result == BUSQ_INTERRUPTED);
  event.kind = EVENT_SENT;
  event.result = (uint8_t)result;
  event.end_ns = busq_time_now_ns();
  ledger_add(event);
  return result;
}

VERB(send)
{
  actor.id = 0;
  actor.bytes = how;
  return actor_sends(rest, 0);
}

VERB(reserve)
{
  const int result = busq_peer_reserve(actor.peer, how, 0, 0, &actor.drafts[actor.n_drafts]);
  actor.n_drafts += result == BUSQ_OK;
  return result;
}

VERB(dispatch)
{
  if (!actor.n_drafts)
    return BUSQ_EMPTY;
  actor.id = 0;
  actor.bytes = (uint32_t)actor.drafts[actor.n_drafts - 1].size_bytes;
  actor.is_dispatching = true;
  const int result = actor_sends(rest, 0);
  actor.is_dispatching = false;
  return result;
}

VERB(scrap)
{
  if (!actor.n_drafts)
    return BUSQ_EMPTY;
  busq_peer_discard(actor.peer, &actor.drafts[--actor.n_drafts]);
  return BUSQ_OK;
}

VERB(push)
{
  actor.bytes = actor.id = 0;
  return actor_sends(rest, actor.box->fate == FATE_STOP ? actor.box->patience_ns / 8 : actor.box->patience_ns);
}

VERB(press)
{
  actor.bytes = actor.id = 0;
  return actor_sends(rest, PRESS_NS);
}

VERB(probe)
{
  char word[16];
  CHECK(word_next(&rest, word, sizeof word));
  actor.bytes = 0;
  actor.id = (uint32_t)atoi(word);
  return actor_sends(rest, actor.box->patience_ns);
}

VERB(fill)
{
  int result;
  do
    result = verb_send(rest, how);
  while (result == BUSQ_OK);
  return result == BUSQ_FULL ? BUSQ_OK : result;
}

/* Compares a payload, behind which a request may stand. */
static uint64_t size_of(const busq_message *message)
{
  const bool has_request = message->form == BUSQ_FORM_ASK || message->form == BUSQ_FORM_REPLY;
  return message->size_bytes - (has_request ? sizeof(busq_request) : 0);
}

static busq_request request_of(const busq_message *message)
{
  busq_request request;
  memcpy(&request, (const char *)message->data + size_of(message), sizeof request);
  return request;
}

static void actor_has_heard(const busq_message *message)
{
  crash_event event = {.kind = EVENT_HEARD, .verb = "recv"};
  event.message = message_read(message->data, size_of(message));
  event.begin_ns = event.end_ns = busq_time_now_ns();
  event.is_redelivered = message->is_redelivered != 0;
  ledger_add(event);
  actor.box->is_taking = false;
}

static int actor_receives(busq_message *message, int64_t timeout_ns)
{
  const uint64_t deadline_ns = busq_time_now_ns() + (uint64_t)timeout_ns;
  for (;;) {
    uint32_t count;
    actor.box->is_taking = true;
    const int result = busq_peer_recv(actor.peer, message, 1, &count, left_until(deadline_ns));
    actor.box->is_taking = result == BUSQ_OK;
    if (result != BUSQ_INTERRUPTED)
      return result;
  }
}

VERB(hold)
{
  busq_message *message = &actor.held[actor.n_held];
  const int result = actor_receives(message, 0);
  if (result == BUSQ_OK) {
    actor_has_heard(message);
    actor.is_offered[actor.n_held] = false;
    actor.n_held++;
  }
  return result;
}

/* A message, if there is one; as recv() in Python does it, look, perhaps copy, and only then take. */
static int actor_takes(busq_message *message, uint32_t mode)
{
  static unsigned char bytes[STAGE_HUGE_BYTES];
  int result = busq_peer_receive_begin(actor.peer);
  if (result != BUSQ_OK)
    return result;
  result = busq_peer_receive_peek(actor.peer, message);
  if (result == BUSQ_OK && mode == BUSQ_TAKE_COPIED) {
    message->size_bytes = message->size_bytes < sizeof bytes ? message->size_bytes : sizeof bytes;
    message->data = memcpy(bytes, message->data, message->size_bytes);
  }
  if (result == BUSQ_OK) {
    actor.box->is_taking = mode != BUSQ_TAKE_OFFERED;
    busq_peer_receive_take(actor.peer, mode);
  }
  busq_peer_receive_end(actor.peer);
  return result;
}

VERB(offer)
{
  busq_message *message = &actor.held[actor.n_held];
  const int result = actor_takes(message, BUSQ_TAKE_OFFERED);
  if (result != BUSQ_OK)
    return result;
  actor_has_heard(message);
  actor.box->events[actor.box->n_events - 1].verb = "offer";
  actor.is_offered[actor.n_held] = true;
  actor.held_number[actor.n_held] = actor.box->events[actor.box->n_events - 1].message;
  actor.n_held++;
  return BUSQ_OK;
}

VERB(ack)
{
  char word[16];
  const uint32_t index = word_next(&rest, word, sizeof word) ? (uint32_t)atoi(word) : 0;
  if (index >= actor.n_held || !actor.is_offered[index])
    return BUSQ_EMPTY;
  const int result = busq_peer_ack(actor.peer, &actor.held[index]);
  if (result == BUSQ_OK)
    ledger_add((crash_event){.kind = EVENT_ACKED, .message = actor.held_number[index], .verb = "ack"});
  actor.n_held--;
  actor.held[index] = actor.held[actor.n_held];
  actor.is_offered[index] = actor.is_offered[actor.n_held];
  actor.held_number[index] = actor.held_number[actor.n_held];
  return result;
}

VERB(drop)
{
  char word[16];
  const uint32_t index = word_next(&rest, word, sizeof word) ? (uint32_t)atoi(word) : 0;
  if (index >= actor.n_held)
    return BUSQ_EMPTY;
  busq_peer_release(actor.peer, &actor.held[index]);
  actor.held[index] = actor.held[--actor.n_held];
  actor.is_offered[index] = actor.is_offered[actor.n_held];
  return BUSQ_OK;
}

/* Takes one, and gives it back before any process has seen it. */
VERB(undo)
{
  busq_message message;
  int result = actor_takes(&message, how);
  if (result == BUSQ_OK)
    result = busq_peer_give_back(actor.peer, how, &message);
  actor.box->is_taking = false;
  return result;
}

/* Looked at, and not taken. */
VERB(peek)
{
  busq_message message;
  int result = busq_peer_receive_begin(actor.peer);
  if (result != BUSQ_OK)
    return result;
  result = busq_peer_receive_peek(actor.peer, &message);
  busq_peer_receive_end(actor.peer);
  return result;
}

VERB(take)
{
  const int result = verb_hold(rest, how);
  if (result == BUSQ_OK)
    busq_peer_release(actor.peer, &actor.held[--actor.n_held]);
  return result;
}

VERB(wait)
{
  busq_message *message = &actor.held[actor.n_held];
  const int result = actor_receives(message, WAIT_NS);
  if (result == BUSQ_OK) {
    actor_has_heard(message);
    busq_peer_release(actor.peer, message);
  }
  return result;
}

VERB(copy)
{
  busq_message message;
  const int result = actor_takes(&message, BUSQ_TAKE_COPIED);
  if (result == BUSQ_OK)
    actor_has_heard(&message);
  return result;
}

/* Whatever is there. */
VERB(poll)
{
  ledger_add((crash_event){.kind = EVENT_LISTENS, .begin_ns = busq_time_now_ns(), .end_ns = busq_time_now_ns()});
  while (verb_take(rest, how) == BUSQ_OK)
    ;
  return BUSQ_OK;
}

/* ---- requests ---- */

VERB(asker)
{
  const int result = busq_peer_join_replies(actor.peer, &actor.replies);
  if (result == BUSQ_OK)
    busq_peer_set_spin(actor.replies, 0, 0);
  return result;
}

VERB(ask)
{
  if (!actor.replies)
    return BUSQ_EMPTY;
  actor.bytes = actor.id = 0;
  actor.is_asking = true;
  const int result = actor_sends(rest, 0);
  actor.is_asking = false;
  return result;
}

/* Takes a message and replies to it: with its own number, from which the asker sees that it is the right one. */
VERB(reply)
{
  unsigned char bytes[16];
  busq_message message;
  int result = actor_receives(&message, 0);
  if (result != BUSQ_OK)
    return result;
  actor_has_heard(&message);
  if (message.form == BUSQ_FORM_ASK) {
    uint32_t sent = 0;
    const busq_request request = request_of(&message);
    const busq_part parts[] = {{bytes, sizeof bytes}, {&request, sizeof request}};
    message_fill(bytes, sizeof bytes, message_read(message.data, size_of(&message)));
    result = busq_peer_reply(actor.peer, &request, parts, 2, 0, &sent);
  } else {
    result = BUSQ_EMPTY;
  }
  busq_peer_release(actor.peer, &message);
  return result;
}

static int actor_takes_reply(int64_t timeout_ns)
{
  busq_message reply;
  uint32_t count;
  const int result = busq_peer_recv(actor.replies, &reply, 1, &count, timeout_ns);
  if (result != BUSQ_OK)
    return result;
  if (reply.form != BUSQ_FORM_REPLY)
    actor_complains("a message of form %u among the replies", reply.form);
  else if (actor.awaits && request_of(&reply).number == actor.asked_number) {
    if (message_read(reply.data, size_of(&reply)) != actor.asked)
      actor_complains("the reply to message %u is that to another", actor.asked);
    busq_peer_follow(actor.peer, actor.replies);
    actor.awaits = false;
  }
  busq_peer_request_answered(actor.replies, request_of(&reply).number);
  busq_peer_release(actor.replies, &reply);
  return result;
}

/* A reply that had come before the one asked died is its last word. */
static int actor_takes_last_words(void)
{
  const uint64_t end = busq_peer_tail(actor.replies);
  while (actor.awaits && busq_peer_has_received(actor.replies, end) == BUSQ_EMPTY)
    (void)actor_takes_reply(1000000);
  return actor.awaits ? BUSQ_PEER_DEAD : BUSQ_OK;
}

VERB(answer)
{
  const uint64_t end_ns = busq_time_now_ns() + (uint64_t)actor.box->patience_ns;
  while (actor.awaits) {
    const int result = actor_takes_reply(SLICE_NS);
    if (result != BUSQ_OK && result != BUSQ_EMPTY && result != BUSQ_INTERRUPTED)
      return result;
    const uint64_t life =
        busq_peer_request_life(actor.replies, actor.asked_number, actor.asked_target, actor.asked_began);
    if (life && busq_peer_life_goes_on(actor.peer, life) != BUSQ_OK)
      return actor_takes_last_words();
    if (actor.awaits && busq_time_now_ns() > end_ns)
      return BUSQ_EMPTY;
  }
  return BUSQ_OK;
}

/* Waits for none any more. */
VERB(giveup)
{
  if (!actor.replies)
    return BUSQ_EMPTY;
  actor.awaits = false;
  busq_peer_request_end(actor.replies, actor.asked_number);
  while (actor_takes_reply(0) == BUSQ_OK)
    ;
  return BUSQ_OK;
}

/* Until a given message has come. */
VERB(hear)
{
  char word[16];
  CHECK(word_next(&rest, word, sizeof word));
  const uint32_t last = (uint32_t)atoi(word);
  const uint64_t begin_ns = busq_time_now_ns();
  ledger_add((crash_event){.kind = EVENT_LISTENS, .begin_ns = begin_ns, .end_ns = begin_ns});
  for (;;) {
    busq_message message;
    const int result = actor_receives(&message, left_until(begin_ns + (uint64_t)actor.box->patience_ns));
    if (result != BUSQ_OK)
      return result;
    actor_has_heard(&message);
    busq_peer_release(actor.peer, &message);
    if (actor.box->events[actor.box->n_events - 1].message == last)
      return BUSQ_OK;
  }
}

/* Receives, waiting by file descriptor. */
VERB(watch)
{
  char word[16];
  CHECK(word_next(&rest, word, sizeof word));
  const uint32_t last = (uint32_t)atoi(word);
  const uint64_t begin_ns = busq_time_now_ns();
  struct pollfd watched = {.events = POLLIN};
  int result = busq_peer_fileno(actor.peer, &watched.fd);
  ledger_add((crash_event){.kind = EVENT_LISTENS, .begin_ns = begin_ns, .end_ns = begin_ns});
  while (result == BUSQ_OK) {
    const int64_t left_ns = left_until(begin_ns + (uint64_t)actor.box->patience_ns);
    if (!left_ns || poll(&watched, 1, (int)(left_ns / 1000000) + 1) < 0)
      return BUSQ_EMPTY;
    while ((result = verb_take(rest, how)) == BUSQ_OK)
      if (actor.box->events[actor.box->n_events - 1].message == last)
        return BUSQ_OK;
    result = result == BUSQ_EMPTY ? BUSQ_OK : result;
  }
  return result;
}

/* Counts what is left in the queue, or in the hands of the processes that share it, dead ones too. */
static int actor_counts_what_is_left(uint64_t *countp)
{
  busq_peer_facts facts;
  uint64_t n_waiting, n_unfinished = 0;
  int result = busq_bus_examine_peer(actor.bus, (uint32_t)actor.box->target & 0xffff, &facts);
  if (result == BUSQ_OK && actor.box->is_reader)
    result = busq_bus_count(actor.bus, actor.box->target, &n_waiting, &n_unfinished);
  *countp = facts.depth + n_unfinished;
  return result;
}

/* Nothing more may come, and nothing may be left that blocks. */
VERB(settle)
{
  const uint64_t end_ns = busq_time_now_ns() + (uint64_t)actor.box->patience_ns;
  uint64_t n_left;
  do {
    busq_message message;
    const int result = actor_receives(&message, 1000000);
    if (result == BUSQ_OK) {
      actor_has_heard(&message);
      busq_peer_release(actor.peer, &message);
    } else if (result != BUSQ_EMPTY) {
      return result;
    }
    if (actor_counts_what_is_left(&n_left) != BUSQ_OK)
      return BUSQ_CORRUPT;
  } while (n_left && busq_time_now_ns() < end_ns);
  return n_left ? BUSQ_FULL : BUSQ_OK;
}

VERB(lookup)
{
  char name[16];
  uint64_t target;
  CHECK(word_next(&rest, name, sizeof name));
  return busq_peer_lookup(actor.peer, name, strlen(name), &target);
}

VERB(fileno)
{
  int fd;
  return busq_peer_fileno(actor.peer, &fd);
}

VERB(unlink)
{
  return busq_bus_unlink(stage->directory, "bus");
}

VERB(gc)
{
  uint64_t dropped;
  return busq_bus_collect(actor.bus, &dropped);
}

/* Every slot of the bus can be had. */
VERB(crowd)
{
  busq_peer *peers[STAGE_PEERS];
  uint32_t count = 0;
  int result = BUSQ_OK;
  for (; count < STAGE_PEERS && result == BUSQ_OK; count++) {
    const char name[] = {'n', (char)('0' + count), '\0'};
    result = busq_peer_join(actor.bus, name, 2, &peers[count]);
  }
  for (uint32_t i = 0; i < count - (result != BUSQ_OK); i++)
    busq_peer_free(peers[i]);
  return result;
}

static const struct {
  const char *name;
  verb_body body;
  uint32_t how;
  bool waits; /* for as long as its script gives it: what counts is when its messages come */
} verbs[] = {
    {"open", verb_open, 0, false},              /* the bus, for oneself */
    {"part", verb_part, 0, false},              /* from the bus */
    {"join", verb_join, 0, false},              /* under one's own name */
    {"durable", verb_join, BUSQ_JOIN_DURABLE, false}, /* the same, durable */
    {"resume", verb_join, BUSQ_JOIN_RESUME, false}, /* takes over from the last of that name */
    {"return", verb_join, BUSQ_JOIN_RESUME | BUSQ_JOIN_DURABLE, false}, /* the same, durable */
    {"share", verb_join, BUSQ_JOIN_SHARED, true}, /* beside others; waits for the one that makes the queue */
    {"queue", verb_join, BUSQ_JOIN_SHARED | BUSQ_JOIN_DURABLE | BUSQ_JOIN_RESUME, true}, /* as busq.Queue does it */
    {"beside", verb_beside, 0, false},          /* under a name that no other one has */
    {"remove", verb_remove, 0, false},          /* NAME: what it has left */
    {"leave", verb_leave, 0, false},            /* close the peer, whatever it holds */
    {"unlink", verb_unlink, 0, false},          /* the bus */
    {"crowd", verb_crowd, 0, false},            /* joins as often as there are slots, and leaves again */
    {"gc", verb_gc, 0, false},                  /* puts in order what the dead have left */
    /* On the bus: */
    {"stale", verb_propose, true, false},       /* from now on every proposal is lost */
    {"fresh", verb_propose, false, false},      /* and from now on not */
    {"meet", verb_meet, 0, false},              /* NAME...: looks them up once and for all */
    {"send", verb_send, STAGE_SMALL_BYTES, false}, /* NAME...: a small message, if there is room */
    {"middle", verb_send, STAGE_MIDDLE_BYTES, false}, /* NAME...: one of which two go into an extent */
    {"large", verb_send, STAGE_LARGE_BYTES, false}, /* NAME...: one of several extents */
    {"huge", verb_send, STAGE_HUGE_BYTES, false}, /* NAME...: one that the arena can't hold */
    {"push", verb_push, 0, true},               /* NAME...: a small message; waits for room */
    {"press", verb_press, 0, true},             /* NAME...: the same, but not for long */
    {"probe", verb_probe, 0, true},             /* NUMBER NAME...: the same, with a number that others know */
    {"fill", verb_fill, STAGE_SMALL_BYTES, true}, /* NAME...: small messages until there is no more room */
    {"glut", verb_fill, STAGE_LARGE_BYTES, true}, /* NAME...: large messages until there is no more memory */
    {"stuff", verb_fill, STAGE_MIDDLE_BYTES, true}, /* NAME...: the same with smaller ones */
    {"reserve", verb_reserve, STAGE_SMALL_BYTES, false}, /* a small draft */
    {"roomy", verb_reserve, STAGE_LARGE_BYTES, false}, /* one of several extents */
    {"dispatch", verb_dispatch, 0, false},      /* NAME...: the draft reserved last */
    {"scrap", verb_scrap, 0, false},            /* gives that one back */
    {"hold", verb_hold, 0, false},              /* takes a message, if there is one, and keeps looking at it */
    {"drop", verb_drop, 0, false},              /* INDEX: releases one of those held */
    {"offer", verb_offer, 0, false},            /* takes a message, if there is one, that is to be acknowledged */
    {"ack", verb_ack, 0, false},                /* INDEX: acknowledges one of those held */
    {"take", verb_take, 0, false},              /* takes a message, if there is one, and releases it */
    {"wait", verb_wait, 0, true},               /* the same, and waits for it */
    {"copy", verb_copy, 0, false},              /* the same by way of a copy */
    {"undo", verb_undo, BUSQ_TAKE_PINNED, false}, /* takes a message, if there is one, and gives it back */
    {"retract", verb_undo, BUSQ_TAKE_OFFERED, false}, /* the same with one that was to be acknowledged */
    {"peek", verb_peek, 0, false},              /* looks at a message, if there is one */
    {"poll", verb_poll, 0, false},              /* takes all there is */
    {"asker", verb_asker, 0, false},            /* is going to ask: joins a second time, for the replies */
    {"ask", verb_ask, 0, false},                /* NAME: sends a request, if there is room */
    {"reply", verb_reply, 0, false},            /* takes a message, if there is one, and replies to it if it was asked */
    {"answer", verb_answer, 0, true},           /* waits for the reply, until the one asked is dead */
    {"giveup", verb_giveup, 0, false},          /* waits for it no more */
    {"hear", verb_hear, 0, true},               /* NUMBER: takes messages until that one has come */
    {"watch", verb_watch, 0, true},             /* NUMBER: the same, by way of a file descriptor */
    {"settle", verb_settle, 0, true},           /* takes what is left, until nothing is, and nothing blocks */
    {"lookup", verb_lookup, 0, false},          /* NAME */
    {"fileno", verb_fileno, 0, false},          /* is waited for by file descriptor */
};

#define FIRST_VERB_OF_PEERS 14u

static int actor_follows_sentence(const char *sentence)
{
  char word[16];
  CHECK(word_next(&sentence, word, sizeof word));
  for (unsigned i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
    if (strcmp(verbs[i].name, word) != 0)
      continue;
    crash_event event = {.kind = EVENT_CALL, .verb = verbs[i].name, .begin_ns = busq_time_now_ns()};
    const bool needs_peer = i >= FIRST_VERB_OF_PEERS;
    event.result = needs_peer && !actor.peer ? (uint8_t)BUSQ_CLOSED : (uint8_t)verbs[i].body(sentence, verbs[i].how);
    event.end_ns = busq_time_now_ns();
    if (!verbs[i].waits)
      ledger_add(event);
    return event.result;
  }
  check_fail(__FILE__, __LINE__, "no verb \"%s\"", word);
}

static void actor_awaits_cue(void)
{
  busq_store_release(&actor.box->ready, 1);
  stage_wake(&actor.box->ready);
  CHECK(stage_wait(&actor.box->go, 1, INT64_C(60000000000)));
  points_arm(actor.box->kind, actor.bus, actor_meets_fate);
}

/* An ordinary script ends at the first sentence that fails; an armed one goes on. */
static int actor_follows(const char *script)
{
  int result = BUSQ_OK;
  bool is_cued = false;
  while (*(script += strspn(script, " ;"))) {
    if (*script == '!') {
      actor_awaits_cue();
      is_cued = true;
      script++;
      continue;
    }
    result = actor_follows_sentence(script);
    if (result != BUSQ_OK && !is_cued)
      return result;
    script += strcspn(script, ";");
  }
  points_disarm();
  return result;
}

/* So few are ever open that looking at each of the first is the quickest way to count them. */
static uint32_t count_descriptors(void)
{
  uint32_t count = 0;
  for (int fd = 0; fd < 64; fd++)
    count += fcntl(fd, F_GETFD) >= 0;
  return count;
}

__attribute__((noreturn)) static void actor_lives(crash_role role)
{
  char script[sizeof actor.box->script];
  actor = (crash_actor){.role = role, .box = &stage->boxes[role]};
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (uint32_t follows = busq_load_acquire(&actor.box->answered) + 1;; follows++) {
    while (!stage_wait(&actor.box->asked, follows, INT64_C(60000000000)))
      ;
    memcpy(script, actor.box->script, sizeof script);
    actor.box->result = (uint32_t)actor_follows(script);
    if (actor.box->result != BUSQ_OK)
      snprintf(actor.box->where, sizeof actor.box->where, "%.90s", busq_error_text());
    actor.box->open_descriptors = count_descriptors();
    busq_store_release(&actor.box->answered, follows);
    stage_wake(&actor.box->answered);
    kill(getppid(), SIGCHLD); /* a stage that waits for our end hears that we came through */
  }
}

#endif /* BUSQ_TESTS_CRASH_ACTOR_H */
