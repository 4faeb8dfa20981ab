/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_TESTS_EXPLORE_JUDGE_H
#define BUSQ_TESTS_EXPLORE_JUDGE_H
/*
 * Was it a good end? No process is stuck, nothing is left in queues, all memory comes back when all have gone, and
 * the observers find no fault in the logs.  While a process is stopped: the others have all that was sent to them.
 */
#include "busq_lab.h"
#include "explore/explore_stage.h"

static char explore_verdict[1024];
static explore_log explore_logs_judged[EXPLORE_PEERS_MAX]; /* the last ones */

#define explore_blame(...) (void)snprintf(explore_verdict, sizeof explore_verdict, __VA_ARGS__)

static bool explore_is_gone(uint32_t peer)
{
  return explore_shared.is_closed[peer] || explore_shared.is_dead[peer];
}

/* Where it is in its script; NULL at the end. */
static const explore_op *explore_op_of(uint32_t index)
{
  const explore_actor *actor = &explore_actors[index];
  const uint32_t op = explore_progresses[index].op;
  return op < actor->n_ops ? &actor->ops[op] : NULL;
}

static bool explore_is_receiver(uint32_t index)
{
  const explore_op *op = explore_op_of(index);
  return op && (op->verb == EXPLORE_HEAR || op->verb == EXPLORE_RECEIVE || op->verb == EXPLORE_LISTEN ||
                op->verb == EXPLORE_HOLD || op->verb == EXPLORE_WORK);
}

static bool explore_has_receiver(uint32_t peer, uint32_t stopped)
{
  for (uint32_t i = 0; i < explore_n_actors; i++)
    if (i != stopped && explore_actors[i].peer == peer && explore_is_receiver(i))
      return true;
  return false;
}

/* ---- what was sent ---- */

static const explore_event *explore_find(uint32_t peer, uint8_t kind, uint8_t message, bool is_taken_back)
{
  for (uint32_t e = 0; e < explore_logs[peer].count; e++) {
    const explore_event *event = &explore_logs[peer].events[e];
    const bool is_meant = kind != BUSQ_EVENT_SEND || !event->targets == is_taken_back;
    if (event->kind == kind && event->message == message && is_meant)
      return event;
  }
  return NULL;
}

/* Its sender is still at it, or was when it died: then no process need have received it. */
static bool explore_is_unfinished(uint32_t peer, uint8_t message)
{
  for (uint32_t i = 0; i < explore_n_actors; i++) {
    const explore_op *op = explore_op_of(i);
    if (explore_actors[i].peer == peer && op && (op->verb == EXPLORE_SEND || op->verb == EXPLORE_HAND || op->verb == EXPLORE_POST) && op->message == message)
      return true;
  }
  return false;
}

static bool explore_was_delivered_anywhere(uint8_t message)
{
  for (uint32_t i = 0; i < explore_scene->peers; i++)
    if (explore_was_delivered(i, message))
      return true;
  return false;
}

/* Must this receiver have got it? */
static bool explore_counts(uint32_t sender, const explore_event *event, uint32_t target)
{
  if (event->message == EXPLORE_NOTICE)
    return explore_was_delivered(target, EXPLORE_NOTICE);
  if (!(event->targets >> target & 1) || explore_find(sender, BUSQ_EVENT_SEND, event->message, true))
    return false;
  return !explore_is_gone(target) || explore_was_delivered(target, event->message);
}

static void explore_fill_history(busq_history *history)
{
  for (uint32_t i = 0; i < explore_scene->peers; i++) {
    for (uint32_t e = 0; e < explore_logs[i].count; e++) {
      const explore_event *event = &explore_logs[i].events[e];
      uint32_t targets[EXPLORE_PEERS_MAX], count = 0;
      for (uint32_t t = 0; t < explore_scene->peers; t++)
        if (explore_counts(i, event, t))
          targets[count++] = t;
      const bool was_cut_off =
          explore_is_unfinished(i, event->message) && !explore_was_delivered_anywhere(event->message);
      if (explore_scene->members)
        continue; /* judged by views */
      if (event->message == EXPLORE_NOTICE && explore_shared.is_dead[0])
        continue;
      if (event->kind == BUSQ_EVENT_DELIVER)
        CHECK_EQUAL(busq_history_deliver(history, i, event->message), BUSQ_OK);
      else if (count && !was_cut_off)
        CHECK_EQUAL(busq_history_send(history, i, event->message, targets, count), BUSQ_OK);
    }
  }
}

static void explore_describe(const busq_judgement *judgement)
{
  size_t used = 0;
  for (uint32_t p = 0; p < BUSQ_N_PROPERTIES; p++) {
    const busq_verdict *verdict = &judgement->verdicts[p];
    if (!verdict->count || used + 100 > sizeof explore_verdict)
      continue;
    used += (size_t)snprintf(explore_verdict + used, sizeof explore_verdict - used, "%s%s (%" PRIu64 ":",
                             used ? "; " : "", busq_property_name((busq_property)p), verdict->count);
    for (uint32_t i = 0; i < verdict->witness.n_messages; i++)
      used += (size_t)snprintf(explore_verdict + used, sizeof explore_verdict - used, " message %" PRIu64,
                               verdict->witness.messages[i]);
    for (uint32_t i = 0; i < verdict->witness.n_processes; i++)
      used += (size_t)snprintf(explore_verdict + used, sizeof explore_verdict - used, " p%u",
                               verdict->witness.processes[i]);
    used += (size_t)snprintf(explore_verdict + used, sizeof explore_verdict - used, ")");
  }
}

static void explore_judge_order(void)
{
  busq_history *history;
  busq_judgement judgement;
  CHECK_EQUAL(busq_history_new(explore_scene->peers, &history), BUSQ_OK);
  explore_fill_history(history);
  CHECK_EQUAL(busq_history_judge(history, BUSQ_BUS1_PROPERTIES, &judgement), BUSQ_OK);
  busq_history_free(history);
  explore_describe(&judgement);
}

/* ---- no process is stuck ---- */

/* Its wait can't end any more, and no process is at fault. */
static bool explore_waits_for_the_dead(const explore_op *op)
{
  if (op->verb != EXPLORE_AWAIT && op->verb != EXPLORE_HEAR)
    return false;
  return explore_somebody_left() && (!explore_was_delivered_anywhere(op->message) ||
                                     (op->verb == EXPLORE_AWAIT && explore_is_gone(op->at)));
}

/* A queue without a reader is full, of proposals that came to nothing, perhaps. */
static bool explore_somebody_is_full(uint32_t stopped)
{
  for (uint32_t i = 0; i < explore_scene->peers && !explore_scene->is_roomy; i++) {
    const busq_peer *peer = explore_shared.peers[i];
    if (!explore_is_gone(i) && !explore_has_receiver(i, stopped) &&
        busq_ring_tail(&peer->receiver.ring) - busq_load_relaxed(&peer->receiver.ring.queue->head) >= explore_scene->capacity)
      return true;
  }
  return false;
}

/* For room in a queue without a reader. */
static bool explore_waits_for_nobody(const explore_op *op)
{
  if (explore_scene->members && (op->verb == EXPLORE_SEND || op->verb == EXPLORE_ENTER || op->verb == EXPLORE_DEPART))
    return explore_somebody_is_full(BUSQ_EXPLORE_NOBODY);
  for (uint32_t i = 0; i < op->n_targets; i++)
    if (op->slots[i] != EXPLORE_GROUP && !explore_has_receiver(op->slots[i], BUSQ_EXPLORE_NOBODY))
      return op->verb == EXPLORE_SEND;
  return false;
}

static bool explore_may_stay_here(const explore_op *op)
{
  if (op->verb == EXPLORE_HEAR && explore_scene->shared && explore_was_delivered_anywhere(op->message))
    return true; /* to another reader */
  if (op->verb == EXPLORE_HEAR && op->message >= EXPLORE_VIEWS)
    return true; /* a view that has not come about, perhaps; otherwise it is missed below */
  return op->verb == EXPLORE_RECEIVE || op->verb == EXPLORE_LISTEN || op->verb == EXPLORE_HOLD ||
         op->verb == EXPLORE_WORK || op->verb == EXPLORE_STAY || explore_waits_for_nobody(op) || explore_waits_for_the_dead(op);
}

static void explore_judge_actors(void)
{
  static const char *const verbs[] = {"send",  "hear",  "receive", "listen", "hold", "work", "await",
                                      "enter", "depart", "leave",  "return", "stay", "hand", "post", "destroy", "finish"};
  for (uint32_t i = 0; i < explore_n_actors; i++) {
    const explore_op *op = explore_op_of(i);
    if (op && !explore_shared.is_dead[explore_actors[i].peer] && !explore_may_stay_here(op))
      explore_blame("p%u is stuck: \"%s %u\"", explore_actors[i].peer, verbs[op->verb], op->message);
  }
}

/* The peers whose queues were not received from. */
static void explore_drain(uint32_t peer)
{
  for (int vain = 0; vain < 8 && !explore_shared.fault[0]; vain++) {
    while (explore_receive(peer))
      vain = 0;
    if (busq_receive_is_drained(explore_shared.peers[peer]))
      return;
    explore_lose_patience(peer);
  }
}

static void explore_judge_queues(void)
{
  for (uint32_t i = 0; i < explore_scene->peers; i++) {
    const busq_peer *peer = explore_shared.peers[i];
    if (explore_is_gone(i))
      continue;
    if (!explore_has_receiver(i, BUSQ_EXPLORE_NOBODY)) {
      system_enter(i);
      explore_drain(i);
      system_leave();
    }
    if (peer->receiver.is_consumer) { /* what one does before it sleeps */
      system_enter(i);
      explore_lose_patience(i);
      system_leave();
    }
    if (!busq_ring_verify(&peer->receiver.ring) || busq_load_relaxed(&peer->receiver.ring.queue->head) != busq_ring_tail(&peer->receiver.ring))
      explore_blame("something is left in the queue of p%u, which waits for it in vain", i);
  }
}

static void explore_judge_memory(void)
{
  busq_bus_facts facts;
  for (uint32_t i = 0; i < explore_scene->peers; i++) {
    if (explore_is_gone(i))
      continue;
    system_enter(i);
    CHECK_EQUAL(busq_peer_close(explore_shared.peers[i]), BUSQ_OK);
    system_leave();
  }
  system_enter(SYSTEM_PROCESSES_MAX - 1);
  busq_grave_reclaim(company_bus);
  uint32_t goes_on_at = 0;
  while (busq_grave_make_room(company_bus, &goes_on_at))
    ;
  busq_grave_reclaim(company_bus);
  CHECK_EQUAL(busq_bus_examine(company_bus, &facts), BUSQ_OK);
  system_leave();
  if (facts.arena_used_bytes)
    explore_blame("everybody has gone, and %" PRIu64 " bytes are still in use", facts.arena_used_bytes);
}

/* ---- the node ---- */

static bool explore_node_is_over(uint32_t peer)
{
  system_enter(peer);
  const bool is_over = !busq_peer_node_is_alive(explore_shared.peers[peer], explore_node);
  system_leave();
  return is_over;
}

static void explore_judge_nodes(void)
{
  uint8_t alive = 0, dead = 0;
  for (uint32_t turn = 0; turn < 3; turn++)
    for (uint32_t i = 0; i < explore_scene->peers; i++) {
      if (explore_is_gone(i))
        continue;
      system_enter(i);
      explore_lose_patience(i);
      explore_drain(i);
      system_leave();
    }
  for (uint32_t i = 0; i < explore_scene->peers && !explore_shared.fault[0]; i++) {
    if (explore_is_gone(i))
      continue;
    if (explore_node_is_over(i) && (explore_shared.alive[i] || i == 0) && !explore_shared.notices[i])
      explore_blame("p%u had the handle, and is not told of the end", i);
    if (explore_shared.is_dead[0] && explore_shared.alive[i] && !explore_shared.notices[i])
      explore_blame("the owner is dead, and p%u, who had the handle, is not told of the end", i);
    alive |= explore_shared.came_alive[i];
    dead |= explore_shared.came_dead[i];
    if (!explore_shared.is_dead[0] && (explore_shared.judged[i] & ~explore_shared.posted[0]))
      explore_blame("p%u was told that its message came to the node, and it did not", i);
    if (explore_shared.missed[i] & explore_shared.posted[0])
      explore_blame("p%u was told that its message missed the node, and it came there", i);
  }
  if (alive & dead)
    explore_blame("a handle came alive to one and dead to another, in the same message");
  if (explore_shared.fault[0])
    explore_blame("%s", explore_shared.fault);
}

/* ---- while a process is stopped ---- */

static void explore_judge_waiting_for(uint32_t sender, const explore_event *event, uint32_t stopped)
{
  for (uint32_t t = 0; t < explore_scene->peers; t++)
    if (explore_counts(sender, event, t) && explore_has_receiver(t, stopped) &&
        !explore_was_delivered(t, event->message))
      explore_blame("p%u is stopped, and p%u waits for message %u in vain", explore_actors[stopped].peer, t,
                    event->message);
}

static void explore_judge_waiting(uint32_t stopped)
{
  for (uint32_t i = 0; i < explore_scene->peers; i++)
    for (uint32_t e = 0; e < explore_logs[i].count; e++) {
      const explore_event *event = &explore_logs[i].events[e];
      if (event->kind == BUSQ_EVENT_SEND && event->message < EXPLORE_TIDINGS &&
          !explore_is_unfinished(i, event->message))
        explore_judge_waiting_for(i, event, stopped);
    }
}

/* ---- several readers of one queue ---- */

static uint32_t explore_n_delivered_to(uint32_t peer, uint8_t message)
{
  uint32_t count = 0;
  for (uint32_t e = 0; e < explore_logs[peer].count; e++)
    count += explore_logs[peer].events[e].kind == BUSQ_EVENT_DELIVER && explore_logs[peer].events[e].message == message;
  return count;
}

/* A message that comes again comes to another one. */
static uint32_t explore_n_delivered(uint8_t message)
{
  uint32_t count = 0;
  for (uint32_t i = 0; i < explore_scene->peers; i++) {
    const uint32_t n_here = explore_is_shared(i) ? explore_n_delivered_to(i, message) : 0;
    if (n_here > 1)
      explore_blame("message %u came to p%u twice", message, i);
    count += n_here;
  }
  return count;
}

/* How many readers have died or are stopped; and do they acknowledge? */
static uint32_t explore_n_struck(uint32_t stopped, bool *acknowledgep)
{
  uint32_t count = 0;
  *acknowledgep = false;
  for (uint32_t i = 0; i < explore_n_actors; i++) {
    const uint32_t peer = explore_actors[i].peer;
    count += explore_is_shared(peer) && (explore_is_gone(peer) || i == stopped);
    *acknowledgep |= explore_actors[i].ops[0].verb == EXPLORE_WORK;
  }
  return count;
}

/* Each message goes to one of them.  One that is stopped has one in its hands at most; so has one that died, and if
 * it would have acknowledged it, another one gets it, perhaps again. */
static void explore_judge_sharing(busq_end end, uint32_t stopped)
{
  bool acknowledge;
  const uint32_t n_struck = explore_n_struck(stopped, &acknowledge);
  const uint32_t n_missing_max = acknowledge && end == BUSQ_END_OVER ? 0 : n_struck;
  uint32_t n_missing = 0, n_again = 0;
  for (uint32_t i = 0; i < explore_scene->peers; i++)
    for (uint32_t e = 0; e < explore_logs[i].count; e++) {
      const explore_event *event = &explore_logs[i].events[e];
      if (event->kind != BUSQ_EVENT_SEND || !event->targets || !(event->targets & explore_scene->shared) ||
          explore_find(i, BUSQ_EVENT_SEND, event->message, true))
        continue;
      const uint32_t count = explore_n_delivered(event->message);
      n_missing += !count && !explore_is_unfinished(i, event->message);
      n_again += count > 1 ? count - 1 : 0;
    }
  if (n_missing > n_missing_max)
    explore_blame("%u messages came to none of the readers", n_missing);
  if (n_again > (acknowledge ? n_struck : 0))
    explore_blame("%u messages came twice", n_again);
}

/* ---- groups ---- */

/* The view in which an event of a peer stands: the scene's first one, with all its members, or the last before it. */
static void explore_view_of(uint32_t peer, uint32_t event, uint8_t *number, uint8_t *members)
{
  *number = 0;
  *members = (uint8_t)explore_scene->members;
  for (uint32_t e = 0; e < event; e++)
    if (explore_logs[peer].events[e].message >= EXPLORE_VIEWS && explore_logs[peer].events[e].kind == BUSQ_EVENT_DELIVER) {
      *number = explore_logs[peer].events[e].message;
      *members = explore_logs[peer].events[e].targets;
    }
}

static const explore_event *explore_delivery(uint32_t peer, uint8_t message, uint32_t *at)
{
  for (*at = 0; *at < explore_logs[peer].count; ++*at)
    if (explore_logs[peer].events[*at].kind == BUSQ_EVENT_DELIVER && explore_logs[peer].events[*at].message == message)
      return &explore_logs[peer].events[*at];
  return NULL;
}

/* The receivers: a bit per peer, and 0x80 for the group. */
static uint8_t explore_targets_of(uint8_t message)
{
  for (uint32_t i = 0; i < explore_scene->peers; i++) {
    const explore_event *sent = explore_find(i, BUSQ_EVENT_SEND, message, false);
    if (sent)
      return sent->targets;
  }
  return 0;
}

/* A delivery by one member is one by each other member of the view, in it, and by no other peer but a named one. */
static void explore_judge_delivery(uint32_t peer, uint32_t event)
{
  const uint8_t message = explore_logs[peer].events[event].message, targets = explore_targets_of(message);
  uint8_t number, members, number_there, members_there;
  uint32_t at;
  if (!(targets & 0x80))
    return;
  explore_view_of(peer, event, &number, &members);
  if (!(members >> peer & 1)) {
    if (!(targets >> peer & 1))
      explore_blame("message %u: p%u delivers it, and is neither a member nor named", message, peer);
    return;
  }
  for (uint32_t other = 0; other < explore_scene->peers; other++) {
    const explore_event *there = explore_delivery(other, message, &at);
    if (there)
      explore_view_of(other, at, &number_there, &members_there);
    const bool is_member = members >> other & 1, is_named = targets >> other & 1;
    if (there && is_member && (number_there != number || members_there != members))
      explore_blame("message %u: p%u delivers it in view %u, p%u in view %u", message, peer, number, other, number_there);
    else if (there && !is_member && !is_named)
      explore_blame("message %u: p%u delivers it in view %u, and p%u, which is not in it", message, peer, number, other);
    else if (!there && (is_member || is_named) && !explore_is_gone(other))
      explore_blame("message %u: p%u delivers it in view %u, and p%u never", message, peer, number, other);
  }
}

/* Whatever it was sent to: nothing of a dead member comes behind the view of its death. */
static void explore_judge_ghost(uint32_t peer, uint32_t event)
{
  const uint8_t message = explore_logs[peer].events[event].message;
  uint8_t number, members;
  explore_view_of(peer, event, &number, &members);
  for (uint32_t sender = 0; sender < explore_scene->peers; sender++)
    if (explore_shared.is_dead[sender] && (explore_scene->members >> sender & 1) && !(members >> sender & 1) &&
        explore_find(sender, BUSQ_EVENT_SEND, message, false))
      explore_blame("message %u: p%u delivers it in view %u, behind the death of p%u, which sent it", message, peer, number, sender);
}

static void explore_judge_placed(uint32_t peer, uint32_t event)
{
  explore_judge_delivery(peer, event);
  explore_judge_ghost(peer, event);
}

static void explore_judge_view(uint32_t peer, const explore_event *view)
{
  uint32_t at;
  for (uint32_t other = 0; other < explore_scene->peers; other++) {
    const explore_event *there = explore_delivery(other, view->message, &at);
    if (there && there->targets != view->targets)
      explore_blame("view %u has the members %x at p%u and %x at p%u", view->message, view->targets, peer, there->targets, other);
    else if (!there && (view->targets >> other & 1) && !explore_is_gone(other))
      explore_blame("p%u never comes to view %u, in which it is", other, view->message);
  }
}

/* A peer is left that must have got it: one that was a member, and still is one. */
static bool explore_has_living_members(void)
{
  for (uint32_t i = 0; i < explore_scene->peers; i++) {
    uint8_t number, members;
    explore_view_of(i, explore_logs[i].count, &number, &members);
    if ((explore_scene->members & members) >> i & 1 && !explore_is_gone(i))
      return true;
  }
  return false;
}

/* The peers that are named beside the group, whatever becomes of that. */
static void explore_judge_named(uint32_t sender, const explore_event *event)
{
  if (event->kind != BUSQ_EVENT_SEND || !(event->targets & 0x80) || explore_is_unfinished(sender, event->message) ||
      explore_find(sender, BUSQ_EVENT_SEND, event->message, true))
    return;
  for (uint32_t i = 0; i < explore_scene->peers; i++)
    if ((event->targets >> i & 1) && !explore_is_gone(i) && !explore_was_delivered(i, event->message))
      explore_blame("message %u was sent to p%u by name, beside the group, and it never delivers it", event->message, i);
}

static void explore_judge_group(void)
{
  for (uint32_t i = 0; i < explore_scene->peers; i++)
    for (uint32_t e = 0; e < explore_logs[i].count; e++) {
      const explore_event *event = &explore_logs[i].events[e];
      const bool is_delivery = event->kind == BUSQ_EVENT_DELIVER;
      explore_judge_named(i, event);
      if (is_delivery && event->message >= EXPLORE_VIEWS)
        explore_judge_view(i, event);
      else if (is_delivery)
        explore_judge_placed(i, e);
      else if ((event->targets & 0x80) && !explore_is_unfinished(i, event->message) && explore_has_living_members() &&
               !explore_find(i, BUSQ_EVENT_SEND, event->message, true) && !explore_was_delivered_anywhere(event->message))
        explore_blame("message %u was sent, and nobody delivers it", event->message);
    }
}

/* Each joiner gets a state from a member, behind its own view, whichever process dies meanwhile. */
static void explore_judge_taker(void)
{
  const uint32_t taker = explore_scene->taker;
  uint32_t n_states = 0;
  if (explore_is_gone(taker))
    return;
  for (uint32_t e = 0; e < explore_logs[taker].count; e++) {
    uint8_t number, members;
    explore_view_of(taker, e, &number, &members);
    if (explore_logs[taker].events[e].message >= EXPLORE_VIEWS)
      continue;
    n_states++;
    if (!number)
      explore_blame("p%u gets a state before its own view", taker);
  }
  if (!n_states)
    explore_blame("p%u has entered, and nobody has given it a state", taker);
}

/* ---- groups, while a process is stopped ---- */

static bool explore_stays_member(uint32_t peer)
{
  for (uint32_t i = 0; i < explore_n_actors; i++)
    for (uint32_t o = 0; o < explore_actors[i].n_ops && explore_actors[i].peer == peer; o++)
      if (explore_actors[i].ops[o].verb == EXPLORE_DEPART || explore_actors[i].ops[o].verb == EXPLORE_LEAVE)
        return false;
  return explore_scene->members >> peer & 1;
}

/* No other one is kept from sending and from changing the group. */
static void explore_judge_doings(uint32_t stopped)
{
  for (uint32_t i = 0; i < explore_n_actors && !explore_somebody_is_full(stopped); i++) {
    const explore_op *op = explore_op_of(i);
    if (i != stopped && op && (op->verb == EXPLORE_SEND || op->verb == EXPLORE_ENTER || op->verb == EXPLORE_DEPART))
      explore_blame("p%u is stopped, and p%u can't go on", explore_actors[stopped].peer, explore_actors[i].peer);
  }
}

/* And what was sent has come to all that receive, and are members all the time. */
static void explore_judge_group_waiting(uint32_t stopped)
{
  explore_judge_doings(stopped);
  for (uint32_t i = 0; i < explore_scene->peers; i++)
    for (uint32_t e = 0; e < explore_logs[i].count; e++) {
      const explore_event *event = &explore_logs[i].events[e];
      if (event->kind != BUSQ_EVENT_SEND || !(event->targets & 0x80) || explore_is_unfinished(i, event->message))
        continue;
      for (uint32_t member = 0; member < explore_scene->peers; member++)
        if (explore_stays_member(member) && explore_has_receiver(member, stopped) && !explore_was_delivered(member, event->message))
          explore_blame("p%u is stopped, and p%u waits for message %u in vain", explore_actors[stopped].peer, member, event->message);
    }
}

/* Behind what was let in, each reader finds the end. */
static void explore_judge_finish(uint32_t stopped)
{
  for (uint32_t i = 0; i < explore_scene->peers; i++)
    if (explore_shared.is_over && explore_is_shared(i) && explore_has_receiver(i, stopped) && !explore_is_gone(i) &&
        !explore_shared.sees_end[i])
      explore_blame("the queue has ended, and p%u waits in it", i);
}

static const char *explore_judge(void *context, busq_end end, uint32_t stopped)
{
  (void)context;
  explore_verdict[0] = '\0';
  memcpy(explore_logs_judged, explore_logs, sizeof explore_logs);
  if (explore_shared.fault[0])
    explore_blame("%s", explore_shared.fault);
  else if (end == BUSQ_END_STOPPED && !explore_scene->shared && !explore_scene->members)
    explore_judge_waiting(stopped);
  else if (end == BUSQ_END_STOPPED && explore_scene->members)
    explore_judge_group_waiting(stopped);
  else if (end == BUSQ_END_STOPPED)
    ; /* below */
  else
    explore_judge_actors();
  if (!explore_verdict[0] && end == BUSQ_END_OVER && explore_scene->holders)
    explore_judge_nodes();
  if (!explore_verdict[0] && end == BUSQ_END_OVER)
    explore_judge_queues();
  if (!explore_verdict[0] && explore_scene->shared)
    explore_judge_sharing(end, stopped);
  if (!explore_verdict[0] && explore_scene->ends)
    explore_judge_finish(stopped);
  if (!explore_verdict[0] && end == BUSQ_END_OVER && !explore_scene->shared)
    explore_judge_order();
  if (!explore_verdict[0] && end == BUSQ_END_OVER && explore_scene->members)
    explore_judge_group();
  if (!explore_verdict[0] && end == BUSQ_END_OVER && explore_scene->taker)
    explore_judge_taker();
  if (!explore_verdict[0] && end == BUSQ_END_OVER)
    explore_judge_memory();
  return explore_verdict[0] ? explore_verdict : NULL;
}

#endif /* BUSQ_TESTS_EXPLORE_JUDGE_H */
