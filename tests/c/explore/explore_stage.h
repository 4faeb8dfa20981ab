/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_TESTS_EXPLORE_STAGE_H
#define BUSQ_TESTS_EXPLORE_STAGE_H
/*
 * The stage on which schedules are played: a bus, and actors that follow scripts.  explore.h describes what it is for.
 *
 * What an actor does is text, sentences with semicolons between them:
 *
 *      send 1 to p2 p3     one message; waits where there is no room
 *      hear 1              receives until message 1 has come; from 200 on, numbers are those of views: of the first peer that entered, 201
 *      receive             receives for as long as any peer has something to do
 *      listen              the same with the waiting of the core: it sleeps, and is woken
 *      hold                the same as receive, but looks at each message in place before it gives it back
 *      work                the same as receive, but has each message to acknowledge, and does so in a turn of its own
 *      await 1 at p2       goes on when p2 has received 1; it learns that outside the bus
 *      enter               the group "@g" of those that the scene names as members
 *      depart              leaves that group, and lives on
 *      send 1 to @         to the group
 *      hand 1 to p2        one message that brings the handle of the node, which p0 owns
 *      post 1              one message to the node
 *      destroy             ends the node
 *      leave               closes the peer, whatever it has not received
 *      return              joins again after that, with all that is left to receive
 *      stay                does nothing, but lives
 *      finish              ends the queue that several share, for all
 */
#include "busq_lab.h"
#include "explore/explore_system.h"
#include "harness/company.h"
#include "shm/burial/grave.h"
#include "shm/memory/peer.h"
#include "shm/node/node.h"
#include "shm/receive/holes.h"
#include "shm/receive/receive.h"
#include "shm/receive/shared_receive.h"

#ifndef BUSQ_STEPS
#error "the search needs a core built with BUSQ_STEPS"
#endif

#define EXPLORE_PEERS_MAX 5
#define EXPLORE_OPS_MAX 7
#define EXPLORE_EVENTS_MAX 20
#define EXPLORE_TIDINGS 100     /* messages outside the bus are numbered from here on, by the one that gets them */
#define EXPLORE_NOTICE 90        /* the number of the notice of the node's end */
#define EXPLORE_RECORD_BYTES 512 /* how much of each extent a scenario uses at most */

typedef struct {
  uint32_t peer;
  const char *script;
} explore_part;

typedef struct {
  const char *name;
  explore_part parts[BUSQ_EXPLORE_ACTORS_MAX]; /* up to one without a script */
  uint64_t clocks[EXPLORE_PEERS_MAX];          /* at least this high to begin with */
  uint32_t peers;       /* up to the highest that the parts name; set with the stage */
  uint32_t capacity;    /* 0: four */
  uint32_t patience;    /* how often each receiver may lose it while others could go on */
  uint32_t preemptions; /* at most so many changes from an actor that could have gone on; 0: no limit */
  uint32_t may_die;     /* a bit for each actor that may be killed */
  uint32_t may_stop;    /* or stopped, and continued after others have lost patience */
  bool is_stale;        /* every proposal is lost */
  bool is_roomy;        /* whatever happens in it needs fewer places than the queues have: that one is full is no excuse */
  uint32_t shared;      /* a bit for each peer that reads, with the others of these, the queue that is sent to by any of their names */
  uint32_t durable;     /* a bit for each peer that is sent to even while it is away */
  uint32_t members;     /* a bit for each peer that is in the group "@g" to begin with */
  uint32_t taker;       /* the peer that enters and must get a state from a member, by a message to it alone; 0: none */
  uint32_t holders;     /* a bit for each peer that has the handle of p0's node to begin with; 0: there is no node */
  bool ends;            /* a peer ends the queue that several share */
  uint32_t short_slots; /* rings are of so many slots until they need more; 0: whole from the beginning */
  uint64_t refusals;    /* so often there is no memory for the rest of one */
  bool asks_who_lives;  /* senders ask the kernel about every receiver */
  bool is_deep;         /* large: in full only when asked for */
  bool is_rare;         /* so large that it is left out unless asked for */
} explore_scenario;

typedef enum {
  EXPLORE_SEND,
  EXPLORE_HEAR,
  EXPLORE_RECEIVE,
  EXPLORE_LISTEN,
  EXPLORE_HOLD,
  EXPLORE_WORK,
  EXPLORE_AWAIT,
  EXPLORE_ENTER,
  EXPLORE_DEPART,
  EXPLORE_LEAVE,
  EXPLORE_RETURN,
  EXPLORE_STAY,
  EXPLORE_HAND,
  EXPLORE_POST,
  EXPLORE_DESTROY,
  EXPLORE_FINISH
} explore_verb;

typedef struct {
  explore_verb verb;
  uint8_t message;
  uint8_t at; /* AWAIT */
  uint8_t n_targets;
  uint32_t slots[EXPLORE_PEERS_MAX + 1];
} explore_op;

typedef struct {
  uint32_t index;
  uint32_t peer;
  explore_op ops[EXPLORE_OPS_MAX];
  uint32_t n_ops;
} explore_actor;

/* What changes. */
typedef struct {
  _Alignas(64) uint32_t op;
  bool has_begun; /* the send was noted */
  bool holds;     /* a message, in place */
  busq_message held;
} explore_progress;

typedef struct {
  uint8_t kind; /* busq_event_kind */
  uint8_t message;
  uint8_t targets; /* a bit per peer; of a send that was taken back, 0 */
} explore_event;

typedef struct {
  _Alignas(64) uint32_t count;
  explore_event events[EXPLORE_EVENTS_MAX];
} explore_log;

typedef struct {
  _Alignas(64) uint64_t is_told[BUSQ_EXPLORE_ACTORS_MAX]; /* by actor that awaits something */
  _Alignas(64) uint64_t is_over;    /* the shared queue was ended, as one knows */
  busq_peer *peers[EXPLORE_PEERS_MAX];
  uint8_t sees_end[EXPLORE_PEERS_MAX]; /* of the shared queue */
  uint8_t is_dead[EXPLORE_PEERS_MAX];
  uint8_t is_closed[EXPLORE_PEERS_MAX];
  uint8_t alive[EXPLORE_PEERS_MAX];   /* handles that came alive */
  uint8_t notices[EXPLORE_PEERS_MAX]; /* of the node's end */
  uint8_t posted[EXPLORE_PEERS_MAX];  /* a bit for each message to the node that was delivered */
  uint8_t judged[EXPLORE_PEERS_MAX];  /* of the sender: a bit for each of those that the send reported as delivered, */
  uint8_t missed[EXPLORE_PEERS_MAX];  /* or was not */
  uint8_t came_alive[EXPLORE_PEERS_MAX], came_dead[EXPLORE_PEERS_MAX]; /* a bit for each message that brought it so */
  uint8_t last[EXPLORE_PEERS_MAX]; /* of several readers of a queue: the last that came unmarked */
  char fault[128];
} explore_common;

static explore_scenario explore_scene_now;
static const explore_scenario *const explore_scene = &explore_scene_now;
static uint64_t explore_targets[EXPLORE_PEERS_MAX + 1]; /* the last one is the group's */
#define EXPLORE_GROUP EXPLORE_PEERS_MAX
#define EXPLORE_VIEWS 200 /* views are numbered from here on */
static explore_actor explore_actors[BUSQ_EXPLORE_ACTORS_MAX];
static uint32_t explore_n_actors;
static explore_progress explore_progresses[BUSQ_EXPLORE_ACTORS_MAX];
static explore_log explore_logs[EXPLORE_PEERS_MAX];
static explore_common explore_shared;
static busq_world explore_world;
static uint64_t explore_node;

/* ---- logs ---- */

static uint32_t explore_actors_of(uint32_t peer)
{
  uint32_t count = 0;
  for (uint32_t i = 0; i < explore_n_actors; i++)
    count += explore_actors[i].peer == peer;
  return count;
}

static void explore_note(uint32_t peer, uint8_t kind, uint8_t message, uint8_t targets)
{
  explore_log *log = &explore_logs[peer];
  CHECK(log->count < EXPLORE_EVENTS_MAX);
  if (explore_actors_of(peer) > 1)
    system_announce(BUSQ_ACCESS_ADD, &log->count, sizeof log->count);
  log->events[log->count++] = (explore_event){kind, message, targets};
}

/* A message that one hears, it passes on to those that wait for it. */
static void explore_deliver(uint32_t peer, uint8_t message)
{
  explore_note(peer, BUSQ_EVENT_DELIVER, message, 0);
  for (uint32_t i = 0; i < explore_n_actors; i++)
    for (uint32_t o = 0; o < explore_actors[i].n_ops; o++) {
      const explore_op *op = &explore_actors[i].ops[o];
      if (op->verb != EXPLORE_AWAIT || op->message != message || op->at != peer)
        continue;
      explore_note(peer, BUSQ_EVENT_SEND, (uint8_t)(EXPLORE_TIDINGS + i), (uint8_t)(1u << explore_actors[i].peer));
      system_announce(BUSQ_ACCESS_STORE, &explore_shared.is_told[i], 8);
      explore_shared.is_told[i] = 1;
    }
}

static bool explore_was_delivered(uint32_t peer, uint8_t message)
{
  for (uint32_t i = 0; i < explore_logs[peer].count; i++)
    if (explore_logs[peer].events[i].kind == BUSQ_EVENT_DELIVER && explore_logs[peer].events[i].message == message)
      return true;
  return false;
}

static bool explore_is_shared(uint32_t peer)
{
  return (explore_scene->shared >> peer & 1) != 0;
}

/* ---- what actors do ---- */

static uint8_t explore_read(const busq_message *message)
{
  CHECK_EQUAL(message->size_bytes, 1);
  system_announce(BUSQ_ACCESS_LOAD, (void *)(uintptr_t)message->data, 1);
  return *(const uint8_t *)message->data;
}

/* Compares what a message shows of the node, before it is taken. */
static uint8_t explore_read_envelope(const busq_message *message)
{
  if (message->kind == BUSQ_KIND_NODE_DESTROYED)
    return EXPLORE_NOTICE;
  return message->kind == BUSQ_KIND_DATA ? explore_read(message) : 0;
}

#define explore_node_fault(...) snprintf(explore_shared.fault, sizeof explore_shared.fault, __VA_ARGS__)

/* The rules of shm/node/node.h, as far as one peer sees them. */
static void explore_judge_node(uint32_t peer, const busq_message *message, uint8_t number)
{
  const uint8_t bit = (uint8_t)(1u << (number & 7));
  if (number == EXPLORE_NOTICE) {
    if (peer != 0 && !explore_shared.alive[peer])
      explore_node_fault("p%u is told of the end, and never had the handle", peer);
    if (explore_shared.notices[peer]++)
      explore_node_fault("p%u is told of the end twice", peer);
  } else if (message->n_nodes) {
    if (explore_shared.notices[peer])
      explore_node_fault("p%u gets message %u behind the node's end", peer, number);
    explore_shared.posted[peer] |= bit;
  } else if (message->n_handles && busq_peer_handles_alive(explore_shared.peers[peer])) {
    if (explore_shared.notices[peer])
      explore_node_fault("p%u gets the handle again behind the node's end, in message %u", peer, number);
    explore_shared.alive[peer] = 1;
    explore_shared.came_alive[peer] |= bit;
  } else if (message->n_handles) {
    explore_shared.came_dead[peer] |= bit;
  }
}

/* Several readers of a queue: what is not marked comes to each of them in order, which is that of the numbers where one sends, and
 * before the end. */
static void explore_judge_take(uint32_t peer, const busq_message *message)
{
  const uint8_t number = explore_read(message);
  if (!explore_is_shared(peer) || message->is_redelivered)
    return;
  if (explore_shared.sees_end[peer])
    snprintf(explore_shared.fault, sizeof explore_shared.fault, "p%u gets %u behind the end of the queue", peer, number);
  if (number <= explore_shared.last[peer])
    snprintf(explore_shared.fault, sizeof explore_shared.fault, "p%u gets %u after %u", peer, number, explore_shared.last[peer]);
  explore_shared.last[peer] = number;
}

/* The number of a view, and its members; 0 where it is none. */
static uint8_t explore_read_view(const busq_message *message, uint8_t *members)
{
  busq_envelope envelope;
  busq_view_event event;
  busq_message_envelope(message, &envelope);
  if (envelope.kind != BUSQ_KIND_VIEW)
    return 0;
  memcpy(&event, message->data, sizeof event);
  for (uint32_t i = 0; i < event.n_members; i++) {
    busq_view_member member;
    memcpy(&member, (const char *)message->data + sizeof event + i * sizeof member, sizeof member);
    *members |= (uint8_t)(1u << member.slot);
  }
  return (uint8_t)(EXPLORE_VIEWS + event.number - event.shown_above);
}

/* One message, if there is one; 0 otherwise. */
static uint8_t explore_take_one(uint32_t index, uint8_t *members)
{
  busq_peer *peer = explore_shared.peers[index];
  busq_message message;
  uint8_t number = 0;
  const int begun = busq_peer_receive_begin(peer);
  CHECK_EQUAL(begun, BUSQ_OK);
  const int result = busq_peer_receive_peek(peer, &message);
  if (result == BUSQ_OK && explore_scene->holders && (message.form & BUSQ_FORM_ENVELOPE)) {
    number = explore_read_envelope(&message);
    busq_peer_receive_take(peer, BUSQ_TAKE_COPIED);
    explore_judge_node(index, &message, number);
  } else if (result == BUSQ_OK) {
    number = explore_scene->members ? explore_read_view(&message, members) : 0;
    if (!number) {
      number = explore_read(&message);
      explore_judge_take(index, &message);
    }
    busq_peer_receive_take(peer, BUSQ_TAKE_COPIED);
  } else if (result == BUSQ_EMPTY && explore_scene->ends && busq_receive_has_ended(peer)) {
    explore_shared.sees_end[index] = 1; /* as a call that waits finds it */
  } else if (result != BUSQ_EMPTY) {
    snprintf(explore_shared.fault, sizeof explore_shared.fault, "receiving: result %d, %s", result, busq_error_text());
  }
  busq_peer_receive_end(peer);
  return number;
}

static bool explore_receive(uint32_t index)
{
  busq_peer *peer = explore_shared.peers[index];
  uint8_t members = 0;
  const uint8_t number = explore_take_one(index, &members);
  if (number >= EXPLORE_VIEWS)
    explore_note(index, BUSQ_EVENT_DELIVER, number, members);
  else if (number)
    explore_deliver(index, number);
  memset(&peer->receiver.found, 0, sizeof peer->receiver.found); /* it is not looked at again */
  return number != 0;
}

static void explore_lose_patience(uint32_t index)
{
  busq_peer *peer = explore_shared.peers[index];
  CHECK_EQUAL(busq_peer_receive_begin(peer), BUSQ_OK);
  if (peer->receiver.is_consumer)
    busq_several_tend(peer);
  if (busq_receive_peek(peer) == BUSQ_EMPTY)
    (void)busq_receive_unblock(peer);
  if (explore_scene->members)
    peer->deaths.cares |= BUSQ_CARES_FOR_MEMBERS;
  busq_peer_receive_end(peer);
  peer->deaths.cares &= ~(uint32_t)BUSQ_CARES_FOR_MEMBERS;
  if (explore_scene->holders && peer->nodes) {
    busq_biased_latch_acquire(&peer->sender.latch);
    (void)busq_node_tend(peer);
    busq_biased_latch_release(&peer->sender.latch);
  }
}

static busq_turn explore_receive_turn(uint32_t peer, bool has_lost_patience)
{
  if (has_lost_patience) {
    explore_lose_patience(peer);
    return BUSQ_TURN_AGAIN;
  }
  return explore_receive(peer) ? BUSQ_TURN_AGAIN : BUSQ_TURN_WAIT;
}

/* Taken, looked at, and given back, or acknowledged, in a turn of its own. */
static busq_turn explore_hold_turn(uint32_t index, explore_progress *progress, busq_take mode, bool has_lost_patience)
{
  busq_peer *peer = explore_shared.peers[index];
  uint32_t count = 0;
  if (progress->holds) {
    explore_deliver(index, explore_read(&progress->held));
    if (mode == BUSQ_TAKE_PINNED)
      busq_peer_release(peer, &progress->held);
    else
      CHECK_EQUAL(busq_peer_ack(peer, &progress->held), BUSQ_OK);
    memset(&progress->held, 0, sizeof progress->held);
    progress->holds = false;
    return BUSQ_TURN_AGAIN;
  }
  if (has_lost_patience) {
    explore_lose_patience(index);
    return BUSQ_TURN_AGAIN;
  }
  CHECK_EQUAL(busq_peer_receive_begin(peer), BUSQ_OK);
  if (busq_peer_receive_peek(peer, &progress->held) == BUSQ_OK) {
    explore_judge_take(index, &progress->held);
    busq_peer_receive_take(peer, mode);
    count = 1;
  }
  busq_peer_receive_end(peer);
  memset(&peer->receiver.found, 0, sizeof peer->receiver.found);
  if (!count)
    memset(&progress->held, 0, sizeof progress->held);
  progress->holds = count != 0;
  return count ? BUSQ_TURN_AGAIN : BUSQ_TURN_WAIT;
}

/* For as long as it takes; an interruption is the end of a long slice. */
static busq_turn explore_listen_turn(uint32_t index)
{
  busq_peer *peer = explore_shared.peers[index];
  const int result = busq_peer_wait(peer, -1);
  if (result == BUSQ_SHUTDOWN && explore_scene->ends) {
    explore_shared.sees_end[index] = 1;
    return BUSQ_TURN_WAIT;
  }
  if (result == BUSQ_OK)
    (void)explore_receive(index);
  else if (result != BUSQ_INTERRUPTED)
    snprintf(explore_shared.fault, sizeof explore_shared.fault, "waiting: result %d, %s", result, busq_error_text());
  return BUSQ_TURN_AGAIN;
}

static bool explore_somebody_left(void)
{
  for (uint32_t i = 0; i < explore_scene->peers; i++)
    if (explore_shared.is_closed[i] || explore_shared.is_dead[i])
      return true;
  return false;
}

/* Whether one has come back from ending the shared queue. */
static bool explore_is_over(void)
{
  if (explore_scene->ends)
    system_announce(BUSQ_ACCESS_LOAD, &explore_shared.is_over, 8);
  return explore_shared.is_over;
}

static busq_turn explore_finish_turn(const explore_actor *self, explore_progress *progress)
{
  uint32_t reader = 0;
  while (!explore_is_shared(reader))
    reader++;
  const int result = busq_bus_end_queue(explore_shared.peers[self->peer]->bus, explore_targets[reader], false);
  if (result != BUSQ_OK)
    snprintf(explore_shared.fault, sizeof explore_shared.fault, "ending the queue: result %d, %s", result, busq_error_text());
  system_announce(BUSQ_ACCESS_STORE, &explore_shared.is_over, 8);
  explore_shared.is_over = 1;
  progress->op++;
  return BUSQ_TURN_AGAIN;
}

static busq_turn explore_send_turn(const explore_actor *self, explore_progress *progress, const explore_op *op)
{
  uint64_t targets[EXPLORE_PEERS_MAX + 1];
  uint8_t bits = 0;
  for (uint32_t i = 0; i < op->n_targets; i++) {
    targets[i] = explore_targets[op->slots[i]];
    bits |= (uint8_t)(op->slots[i] == EXPLORE_GROUP ? 0x80 : 1u << op->slots[i]);
  }
  if (!progress->has_begun)
    explore_note(self->peer, BUSQ_EVENT_SEND, op->message, bits);
  progress->has_begun = true;
  const bool is_over = explore_is_over();
  const int result = busq_peer_send(explore_shared.peers[self->peer], targets, op->n_targets, &op->message, 1, 0);
  if (result == BUSQ_FULL)
    return BUSQ_TURN_WAIT;
  if ((result == BUSQ_PEER_DEAD || result == BUSQ_UNKNOWN_PEER) && explore_somebody_left())
    explore_note(self->peer, BUSQ_EVENT_SEND, op->message, 0); /* perhaps none gets it */
  else if (result == BUSQ_SHUTDOWN && explore_scene->ends)
    explore_note(self->peer, BUSQ_EVENT_SEND, op->message, 0);
  else if (is_over)
    snprintf(explore_shared.fault, sizeof explore_shared.fault, "%u is let in behind the end: result %d", op->message, result);
  else if (result != BUSQ_OK)
    snprintf(explore_shared.fault, sizeof explore_shared.fault, "sending %u: result %d, %s", op->message, result,
             busq_error_text());
  progress->has_begun = false;
  progress->op++;
  return BUSQ_TURN_AGAIN;
}

/* To the node, or with its handle. */
static busq_turn explore_letter_turn(const explore_actor *self, explore_progress *progress, const explore_op *op)
{
  uint64_t targets[EXPLORE_PEERS_MAX];
  const bool is_post = op->verb == EXPLORE_POST;
  const busq_part part = {&op->message, 1};
  uint8_t bits = is_post ? 1 : 0, missed = 0;
  uint32_t sent = 0;
  for (uint32_t i = 0; i < op->n_targets; i++) {
    targets[i] = explore_targets[op->slots[i]];
    bits |= (uint8_t)(1u << op->slots[i]);
  }
  const busq_letter letter = {.targets = targets,
                              .nodes = &explore_node,
                              .handles = &explore_node,
                              .n_targets = op->n_targets,
                              .n_nodes = is_post,
                              .n_handles = !is_post};
  if (!progress->has_begun)
    explore_note(self->peer, BUSQ_EVENT_SEND, op->message, bits);
  progress->has_begun = true;
  const int result = busq_peer_send_letter(explore_shared.peers[self->peer], &letter, &part, 1, BUSQ_FORM_DATA, 0, &missed, &sent);
  if (result == BUSQ_FULL)
    return BUSQ_TURN_WAIT;
  const uint8_t bit = (uint8_t)(1u << (op->message & 7));
  if (is_post && result == BUSQ_OK)
    explore_shared.judged[self->peer] |= bit;
  if (result == BUSQ_PEER_DEAD) {
    explore_shared.missed[self->peer] |= is_post ? bit : 0;
    explore_note(self->peer, BUSQ_EVENT_SEND, op->message, 0);
  } else if (result != BUSQ_OK) {
    explore_node_fault("sending %u: result %d, %s", op->message, result, busq_error_text());
  }
  progress->has_begun = false;
  progress->op++;
  return BUSQ_TURN_AGAIN;
}

static busq_turn explore_destroy_turn(const explore_actor *self, explore_progress *progress)
{
  if (!progress->has_begun)
    explore_note(self->peer, BUSQ_EVENT_SEND, EXPLORE_NOTICE, 0xff);
  progress->has_begun = true;
  const int result = busq_peer_node_destroy(explore_shared.peers[self->peer], explore_node, 0);
  if (result == BUSQ_FULL)
    return BUSQ_TURN_WAIT;
  if (result != BUSQ_OK)
    explore_node_fault("destroying: result %d, %s", result, busq_error_text());
  progress->has_begun = false;
  progress->op++;
  return BUSQ_TURN_AGAIN;
}

static busq_turn explore_await_turn(const explore_actor *self, explore_progress *progress)
{
  system_announce(BUSQ_ACCESS_LOAD, &explore_shared.is_told[self->index], 8);
  if (!explore_shared.is_told[self->index])
    return BUSQ_TURN_WAIT;
  explore_note(self->peer, BUSQ_EVENT_DELIVER, (uint8_t)(EXPLORE_TIDINGS + self->index), 0);
  progress->op++;
  return BUSQ_TURN_AGAIN;
}

static busq_turn explore_enter_turn(const explore_actor *self, explore_progress *progress)
{
  const int result = busq_peer_enter(explore_shared.peers[self->peer], "@g", 2, 0);
  if (result == BUSQ_FULL)
    return BUSQ_TURN_WAIT;
  if (result != BUSQ_OK)
    snprintf(explore_shared.fault, sizeof explore_shared.fault, "entering: result %d, %s", result, busq_error_text());
  progress->op++;
  return BUSQ_TURN_AGAIN;
}

static busq_turn explore_depart_turn(const explore_actor *self, explore_progress *progress)
{
  const int result = busq_peer_leave(explore_shared.peers[self->peer], "@g", 2, 0);
  if (result == BUSQ_FULL)
    return BUSQ_TURN_WAIT;
  if (result != BUSQ_OK)
    snprintf(explore_shared.fault, sizeof explore_shared.fault, "leaving: result %d, %s", result, busq_error_text());
  progress->op++;
  return BUSQ_TURN_AGAIN;
}

static busq_turn explore_leave_turn(const explore_actor *self, explore_progress *progress)
{
  explore_shared.is_closed[self->peer] = 1;
  CHECK_EQUAL(busq_peer_close(explore_shared.peers[self->peer]), BUSQ_OK);
  progress->op++;
  return BUSQ_TURN_AGAIN;
}

static int explore_join(uint32_t i, uint32_t flags)
{
  const char name[] = {explore_is_shared(i) ? 'q' : 'p', (char)('0' + (explore_is_shared(i) ? 0 : i)), '\0'};
  if (explore_is_shared(i))
    flags |= BUSQ_JOIN_SHARED;
  const int result = busq_peer_join_as(company_bus, name, 2, flags, &explore_shared.peers[i]);
  busq_peer *peer = explore_shared.peers[i];
  if (result != BUSQ_OK)
    return result;
  if (!explore_scene->asks_who_lives)
    peer->sender.glances = UINT32_MAX; /* only impatient peers ask the kernel which ones live */
  busq_peer_set_spin(peer, 0, 0);
  return BUSQ_OK;
}

static busq_turn explore_return_turn(const explore_actor *self, explore_progress *progress)
{
  const int result = explore_join(self->peer, BUSQ_JOIN_RESUME | BUSQ_JOIN_DURABLE);
  if (result != BUSQ_OK)
    snprintf(explore_shared.fault, sizeof explore_shared.fault, "returning: result %d, %s", result, busq_error_text());
  explore_shared.is_closed[self->peer] = 0;
  progress->op++;
  return BUSQ_TURN_AGAIN;
}

static busq_turn explore_act(const explore_actor *self, explore_progress *progress, bool has_lost_patience)
{
  const explore_op *op = &self->ops[progress->op];
  switch (op->verb) {
  case EXPLORE_SEND:
    return explore_send_turn(self, progress, op);
  case EXPLORE_HEAR:
    if (explore_was_delivered(self->peer, op->message)) {
      progress->op++;
      return BUSQ_TURN_AGAIN;
    }
    return explore_receive_turn(self->peer, has_lost_patience);
  case EXPLORE_RECEIVE:
    return explore_receive_turn(self->peer, has_lost_patience);
  case EXPLORE_HOLD:
    return explore_hold_turn(self->peer, progress, BUSQ_TAKE_PINNED, has_lost_patience);
  case EXPLORE_WORK:
    return explore_hold_turn(self->peer, progress, BUSQ_TAKE_OFFERED, has_lost_patience);
  case EXPLORE_LISTEN:
    return explore_listen_turn(self->peer);
  case EXPLORE_AWAIT:
    return explore_await_turn(self, progress);
  case EXPLORE_ENTER:
    return explore_enter_turn(self, progress);
  case EXPLORE_DEPART:
    return explore_depart_turn(self, progress);
  case EXPLORE_LEAVE:
    return explore_leave_turn(self, progress);
  case EXPLORE_RETURN:
    return explore_return_turn(self, progress);
  case EXPLORE_HAND:
  case EXPLORE_POST:
    return explore_letter_turn(self, progress, op);
  case EXPLORE_DESTROY:
    return explore_destroy_turn(self, progress);
  case EXPLORE_FINISH:
    return explore_finish_turn(self, progress);
  default:
    return BUSQ_TURN_WAIT;
  }
}

static busq_turn explore_turn(void *context, uint32_t index, bool has_lost_patience)
{
  const explore_actor *self = &explore_actors[index];
  explore_progress *progress = &explore_progresses[index];
  (void)context;
  if (progress->op == self->n_ops)
    return BUSQ_TURN_DONE;
  const busq_turn result = explore_act(self, progress, has_lost_patience);
  return explore_shared.fault[0] ? BUSQ_TURN_DONE : progress->op == self->n_ops ? BUSQ_TURN_DONE : result;
}

static void explore_enter(void *context, uint32_t index)
{
  (void)context;
  system_enter(explore_actors[index].peer);
}

static void explore_leave(void *context, uint32_t index)
{
  (void)context;
  (void)index;
  system_leave();
}

static void explore_kill(void *context, uint32_t index)
{
  (void)context;
  explore_shared.is_dead[explore_actors[index].peer] = 1;
  system_kill(explore_actors[index].peer);
}

/* ---- scripts ---- */

static void explore_parse_op(const char *sentence, explore_op *op)
{
  static const struct {
    const char *word;
    explore_verb verb;
  } words[] = {{"receive", EXPLORE_RECEIVE}, {"listen", EXPLORE_LISTEN}, {"hold", EXPLORE_HOLD},
               {"work", EXPLORE_WORK},       {"enter", EXPLORE_ENTER},     {"depart", EXPLORE_DEPART},
               {"leave", EXPLORE_LEAVE},     {"return", EXPLORE_RETURN},   {"stay", EXPLORE_STAY},
               {"destroy", EXPLORE_DESTROY}, {"finish", EXPLORE_FINISH}};
  unsigned message = 0, at = 0;
  int used = 0;
  memset(op, 0, sizeof *op);
  if (sscanf(sentence, " send %u to%n", &message, &used) == 1 && used) {
    op->verb = EXPLORE_SEND;
    for (sentence += used; sscanf(sentence, " p%u%n", &at, &used) == 1; sentence += used)
      op->slots[op->n_targets++] = at;
    if (strstr(sentence, "@") && (!strchr(sentence, ';') || strstr(sentence, "@") < strchr(sentence, ';')))
      op->slots[op->n_targets++] = EXPLORE_GROUP;
  } else if (sscanf(sentence, " hand %u to%n", &message, &used) == 1 && used) {
    op->verb = EXPLORE_HAND;
    for (sentence += used; sscanf(sentence, " p%u%n", &at, &used) == 1; sentence += used)
      op->slots[op->n_targets++] = at;
  } else if (sscanf(sentence, " post %u", &message) == 1) {
    op->verb = EXPLORE_POST;
  } else if (sscanf(sentence, " hear %u", &message) == 1) {
    op->verb = EXPLORE_HEAR;
  } else if (sscanf(sentence, " await %u at p%u", &message, &at) == 2) {
    op->verb = EXPLORE_AWAIT;
    op->at = (uint8_t)at;
  } else {
    unsigned i = 0;
    sentence += strspn(sentence, " ");
    while (i < sizeof words / sizeof words[0] && strncmp(sentence, words[i].word, strlen(words[i].word)) != 0)
      i++;
    CHECK(i < sizeof words / sizeof words[0]);
    op->verb = words[i].verb;
  }
  op->message = (uint8_t)message;
}

static void explore_cast(const explore_scenario *scene)
{
  explore_n_actors = 0;
  while (explore_n_actors < BUSQ_EXPLORE_ACTORS_MAX && scene->parts[explore_n_actors].script) {
    explore_actor *actor = &explore_actors[explore_n_actors];
    const char *script = scene->parts[explore_n_actors].script;
    memset(actor, 0, sizeof *actor);
    actor->index = explore_n_actors;
    actor->peer = scene->parts[explore_n_actors].peer;
    for (; *script; script += strcspn(script, ";"), script += *script == ';') {
      CHECK(actor->n_ops < EXPLORE_OPS_MAX);
      explore_parse_op(script, &actor->ops[actor->n_ops++]);
    }
    explore_n_actors++;
  }
}

/* ---- setting the stage ---- */

static const char *explore_judge(void *context, busq_end end, uint32_t stopped);
static void explore_name(void *context, const void *address, char *text, size_t bytes);
static void explore_value(void *context, const void *address, uint64_t value, char *text, size_t bytes);
static const char *explore_title(void *context, uint32_t index);

static void explore_watch_memory(busq_memory *memory)
{
  const busq_geometry *geometry = &company_bus->geometry;
  char *base = company_bus->base;
  busq_memory_add(memory, &company_bus->header->is_shut_down, 64, BUSQ_MEMORY_SHARED);
  busq_memory_add(memory, company_bus->slots, geometry->peers * sizeof(busq_slot), BUSQ_MEMORY_SHARED);
  busq_memory_add(memory, base + geometry->rings_offset, geometry->peers * geometry->slot_count * sizeof(busq_pair),
                  BUSQ_MEMORY_SHARED);
  if (geometry->nodes)
    busq_memory_add(memory, base + geometry->nodes_offset, geometry->peers * geometry->nodes * geometry->node_bytes, BUSQ_MEMORY_SHARED);
  busq_memory_add(memory, company_bus->table, BUSQ_ALIGN_UP(geometry->extents * sizeof(busq_extent), 64),
                  BUSQ_MEMORY_SHARED);
  for (uint32_t i = 0; i < geometry->extents; i++)
    busq_memory_add(memory, company_bus->arena + i * geometry->extent_bytes, EXPLORE_RECORD_BYTES, BUSQ_MEMORY_SHARED);
  if (geometry->groups)
    busq_memory_add(memory, base + geometry->groups_offset, geometry->groups * geometry->group_bytes, BUSQ_MEMORY_SHARED);
  busq_memory_add(memory, system_locks, sizeof system_locks, BUSQ_MEMORY_SHARED);
  if (explore_scene->refusals)
    busq_memory_add(memory, &system_disk, sizeof system_disk, BUSQ_MEMORY_SHARED);
  busq_memory_add(memory, explore_logs, sizeof explore_logs, BUSQ_MEMORY_SHARED);
  busq_memory_add(memory, &explore_shared, sizeof explore_shared, BUSQ_MEMORY_SHARED);
  busq_memory_add(memory, explore_progresses, sizeof explore_progresses, BUSQ_MEMORY_SHARED);
  /* What belongs to a peer with several actors is shared between them. */
  const size_t bytes = offsetof(system_process, heap) + system_heap_bytes;
  for (uint32_t i = 0; i < explore_scene->peers; i++)
    if (explore_actors_of(i) > 1)
      busq_memory_add(memory, &system_processes[i], bytes, BUSQ_MEMORY_SHARED);
  for (uint32_t i = 0; i < explore_scene->peers; i++)
    if (explore_actors_of(i) <= 1)
      busq_memory_add(memory, &system_processes[i], bytes, i);
}

static void explore_set_up_peer(uint32_t i)
{
  const char name[] = {explore_is_shared(i) ? 'q' : 'p', (char)('0' + (explore_is_shared(i) ? 0 : i)), '\0'};
  system_enter(i);
  if (explore_join(i, explore_scene->durable >> i & 1 ? BUSQ_JOIN_DURABLE : 0) != BUSQ_OK)
    check_fail(__FILE__, __LINE__, "%s can't join: %s", name, busq_error_text());
  busq_peer *peer = explore_shared.peers[i];
  CHECK(explore_scene->shared || peer->slot == i);
  CHECK_EQUAL(busq_peer_lookup(peer, name, 2, &explore_targets[i]), BUSQ_OK);
  /* Numbers that are the same every time. */
  peer->self->sequence_reserved = peer->sender.sequence = peer->sender.sequence_limit = 0;
  busq_ring_raise(&peer->receiver.ring, explore_scene->clocks[i]);
  system_leave();
}

/* They have delivered the views of that before the scene begins. */
static void explore_set_up_group(void)
{
  for (uint32_t i = 0; i < explore_scene->peers; i++) {
    if (!(explore_scene->members >> i & 1))
      continue;
    system_enter(i);
    CHECK_EQUAL(busq_peer_enter(explore_shared.peers[i], "@g", 2, 0), BUSQ_OK);
    CHECK_EQUAL(busq_peer_lookup(explore_shared.peers[i], "@g", 2, &explore_targets[EXPLORE_GROUP]), BUSQ_OK);
    system_leave();
  }
  for (uint32_t i = 0; i < explore_scene->peers; i++) {
    system_enter(i);
    while (explore_receive(i))
      ;
    explore_shared.peers[i]->deaths.cares &= ~(uint32_t)BUSQ_CARES_FOR_MEMBERS; /* only impatient peers look for the dead */
    system_leave();
  }
}

/* Each of the holders receives a message with the handle, before anything is searched. */
static void explore_set_up_node(void)
{
  uint8_t missed, members = 0;
  uint32_t sent;
  const busq_part part = {"", 1};
  system_enter(0);
  CHECK_EQUAL(busq_peer_node(explore_shared.peers[0], &explore_node), BUSQ_OK);
  system_leave();
  for (uint32_t i = 1; i < explore_scene->peers; i++) {
    system_enter(i);
    CHECK_EQUAL(busq_node_remember(explore_shared.peers[i]), BUSQ_OK);
    system_leave();
    if (!(explore_scene->holders >> i & 1))
      continue;
    const busq_letter letter = {
        .targets = &explore_targets[i], .handles = &explore_node, .n_targets = 1, .n_handles = 1};
    system_enter(0);
    CHECK_EQUAL(busq_peer_send_letter(explore_shared.peers[0], &letter, &part, 1, BUSQ_FORM_DATA, 0, &missed, &sent), BUSQ_OK);
    system_leave();
    system_enter(i);
    (void)explore_take_one(i, &members);
    system_leave();
    CHECK(explore_shared.alive[i]);
    explore_shared.came_alive[i] = 0;
  }
}

static bool explore_receives(const explore_actor *actor)
{
  for (uint32_t o = 0; o < actor->n_ops; o++)
    if (actor->ops[o].verb >= EXPLORE_HEAR && actor->ops[o].verb <= EXPLORE_WORK)
      return true;
  return false;
}

static uint32_t explore_peers_named(void)
{
  uint32_t named = 0; /* a bit each */
  for (uint32_t i = 0; i < explore_n_actors; i++) {
    const explore_actor *actor = &explore_actors[i];
    named |= 1u << actor->peer;
    for (const explore_op *op = actor->ops; op < actor->ops + actor->n_ops; op++) {
      named |= 1u << op->at;
      for (uint32_t t = 0; t < op->n_targets; t++)
        named |= op->slots[t] == EXPLORE_GROUP ? 0 : 1u << op->slots[t];
    }
  }
  return 32 - (uint32_t)__builtin_clz(named);
}

static void explore_set_stage(const explore_scenario *scene)
{
  explore_scene_now = *scene;
  explore_scene_now.peers = explore_peers_named();
  explore_scene_now.capacity = scene->capacity ? scene->capacity : 4;
  scene = explore_scene;
  if (scene->is_stale)
    CHECK(setenv("BUSQ_STALE_PROPOSALS", "1", 1) == 0);
  company_groups = scene->members != 0;
  company_nodes = scene->holders != 0;
  company_is_late = scene->short_slots != 0;
  busq_ring_short = scene->short_slots ? scene->short_slots : 256;
  meet(scene->peers + (scene->shared != 0), scene->capacity, scene->members ? 16384 : 4096); /* the queue has a slot of its own */
  memset(system_processes, 0, sizeof system_processes);
  memset(system_locks, 0, sizeof system_locks);
  memset(explore_logs, 0, sizeof explore_logs);
  memset(&explore_shared, 0, sizeof explore_shared);
  memset(explore_progresses, 0, sizeof explore_progresses);
  system_heap_bytes = scene->durable || scene->shared || scene->members || scene->holders ? SYSTEM_HEAP_BYTES : SYSTEM_HEAP_BYTES_OF_ONE;
  system_disk.bytes = scene->short_slots ? (company_bus->geometry.slot_count - scene->short_slots) * sizeof(busq_pair) : 0;
  system_disk.times = scene->refusals;
  for (uint32_t i = 0; i < scene->peers; i++)
    explore_set_up_peer(i);
  if (scene->holders)
    explore_set_up_node();
  CHECK(unsetenv("BUSQ_STALE_PROPOSALS") == 0);
  explore_set_up_group();
  explore_world = (busq_world){.n_actors = explore_n_actors,
                               .turn = explore_turn,
                               .enter = explore_enter,
                               .leave = explore_leave,
                               .kill = explore_kill,
                               .judge = explore_judge,
                               .name = explore_name,
                               .value = explore_value,
                               .title = explore_title};
  for (uint32_t i = 0; i < explore_n_actors; i++) {
    explore_world.actors[i].process = explore_actors[i].peer;
    explore_world.actors[i].phase = &explore_progresses[i].op;
    explore_world.actors[i].life = system_life_of(explore_shared.peers[explore_actors[i].peer]->lock_fd);
    explore_world.actors[i].may_die = scene->may_die >> i & 1;
    explore_world.actors[i].may_stop = scene->may_stop >> i & 1;
    explore_world.actors[i].impatience = explore_receives(&explore_actors[i]) ? scene->patience : 0;
  }
  explore_watch_memory(&explore_world.memory);
}

static void explore_strike_stage(void)
{
  busq_memory_end(&explore_world.memory);
  for (uint32_t i = 0; i < explore_scene->peers; i++) {
    system_enter(i);
    CHECK_EQUAL(busq_peer_close(explore_shared.peers[i]), BUSQ_OK);
    busq_peer_free(explore_shared.peers[i]);
    system_leave();
  }
  part();
}

#endif /* BUSQ_TESTS_EXPLORE_STAGE_H */
