/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments and errors of the public calls that need checks, and the table of calls for language bindings.  What the
 * calls do stands in csrc/shm; calls without arguments to check are defined there.
 */
#include "busq.h"
#include "base/error.h"
#include "shm/death/notice.h"
#include "shm/group/group.h"
#include "shm/group/watch.h"
#include "shm/letter/letter.h"
#include "shm/memory/names.h"
#include "shm/memory/peer.h"
#include "shm/node/node.h"
#include "shm/receive/receive.h"
#include "shm/wait/descriptor_settle.h"
#include "shm/wait/send_call.h"
#include "shm/wake/poll_descriptor.h"
#include "shm/wake/end_watch.h"
#include "shm/wake/room_request.h"
#include "shm/wake/wake.h"
#include <string.h>

#if defined(BUSQ_STEPS) || defined(BUSQ_TIMES)
void (*busq_step_hook)(const char *where);
#endif

/* ---- the bus ---- */

int busq_bus_shutdown(busq_bus *bus)
{
  /* Deep sleepers behind a descriptor have no slices: they are woken first, and look every slice, should we be killed
   * half-way. */
  uint32_t *const words[] = {&bus->header->is_ending, &bus->header->is_shut_down};
  for (unsigned i = 0; i < 2; i++) {
    BUSQ_STEP("shutdown");
    busq_store_release(words[i], 1);
    busq_fence_full();
    busq_wake_all(bus);
  }
  return BUSQ_OK;
}

int busq_bus_is_shut_down(const busq_bus *bus)
{
  return busq_load_acquire(&bus->header->is_shut_down) != 0;
}

void busq_bus_generation(const busq_bus *bus, uint8_t *generation16)
{
  memcpy(generation16, bus->header->generation, sizeof bus->header->generation);
}

/* ---- a peer ---- */

uint64_t busq_peer_target(const busq_peer *peer)
{
  return busq_peer_address(peer);
}

uint64_t busq_peer_failed_target(busq_peer *peer)
{
  return peer->sender.failed_target;
}

int busq_peer_limit(busq_peer *peer, uint32_t limit)
{
  const int result = busq_peer_check(peer);
  if (!result)
    busq_store_relaxed(&peer->receiver.inbox->limit, limit);
  return result;
}

int busq_peer_is_forked(const busq_peer *peer)
{
  return peer->fork_generation != busq_fork_generation;
}

/* ---- the descriptor ---- */

int busq_peer_ask_for_room(busq_peer *peer)
{
  return busq_descriptor_ask_for_room(peer, busq_peer_failed_target(peer));
}

int busq_peer_listen(busq_peer *peer, uint32_t what)
{
  int result = busq_peer_receive_begin(peer);
  if (result != BUSQ_OK)
    return result;
  result = busq_fifo_open(peer);
  if (result == BUSQ_OK) {
    if (what == BUSQ_LISTEN_NOT) {
      busq_room_forget(peer);
      busq_fifo_disarm(peer);
      (void)busq_lives_are_quiet(peer);
    }
    peer->descriptor.listens = what;
  }
  busq_peer_receive_end(peer);
  return result;
}

int busq_peer_fileno(busq_peer *peer, int *fdp)
{
  int result = busq_receive_begin(peer);
  if (result != BUSQ_OK)
    return result;
  const bool is_first = peer->descriptor.poll_fd < 0;
  result = busq_fifo_open(peer);
  if (result == BUSQ_OK) {
    *fdp = peer->descriptor.poll_fd;
    if (is_first)
      peer->descriptor.listens = BUSQ_LISTEN_MESSAGES;
  }
  busq_peer_receive_end(peer);
  return result;
}

/* ---- letters ---- */

typedef struct {
  const busq_letter *letter;
  const busq_payload *payload;
  uint8_t *missed;
} letter_arguments;

static int letter_attempt(busq_peer *peer, const void *arguments)
{
  const letter_arguments *sent = arguments;
  return busq_letter_try(peer, sent->letter, sent->payload, sent->missed);
}

static int letter_send(busq_peer *peer, const busq_letter *letter, const busq_part *parts, uint32_t n_parts,
                       uint32_t form, bool is_asking, int64_t timeout_ns, uint8_t *missed, uint32_t *sentp)
{
  busq_payload payload;
  const letter_arguments sent = {letter, &payload, missed};
  const busq_send_job job = {letter_attempt, &sent, letter->n_targets + letter->n_nodes};
  int result = busq_send_make_payload(&payload, parts, n_parts, form);
  if (result)
    return result;
  result = is_asking ? busq_send_asking(peer, &job) : busq_send_do(peer, &job, timeout_ns);
  *sentp = result == BUSQ_OK || result == BUSQ_LETTER_MISSED;
  if (result != BUSQ_LETTER_MISSED)
    return result;
  return busq_error(BUSQ_PEER_DEAD, "a node was destroyed before the message's place in the order, or its owner is gone");
}

int busq_peer_send_letter(busq_peer *peer, const busq_letter *letter, const busq_part *parts, uint32_t n_parts,
                          uint32_t form, int64_t timeout_ns, uint8_t *missed, uint32_t *sentp)
{
  return letter_send(peer, letter, parts, n_parts, form, false, timeout_ns, missed, sentp);
}

int busq_peer_send_letter_asking(busq_peer *peer, const busq_letter *letter, const busq_part *parts, uint32_t n_parts,
                                 uint32_t form, uint8_t *missed, uint32_t *sentp)
{
  return letter_send(peer, letter, parts, n_parts, form, true, 0, missed, sentp);
}

/* ---- nodes ---- */

static int nodes_check(const busq_peer *peer)
{
  if (peer->receiver.is_consumer)
    return busq_error(BUSQ_INVALID, "\"%.255s\" is a queue that several processes read: it has no nodes and no handles", peer->receiver.inbox->name);
  if (!peer->bus->geometry.nodes)
    return busq_error(BUSQ_INVALID, "bus \"%s\" has no room for nodes: create it with nodes=1 or more", peer->bus->name);
  return BUSQ_OK;
}

static int node_make_attempt(busq_peer *peer, const void *arguments)
{
  uint64_t *const *nodep = arguments;
  busq_node_name name;
  int result = nodes_check(peer);
  if (!result)
    result = busq_node_make(peer, &name);
  if (!result)
    **nodep = busq_node_pack(name);
  return result;
}

int busq_peer_node(busq_peer *peer, uint64_t *nodep)
{
  return busq_send_do(peer, &(busq_send_job){node_make_attempt, &nodep, 0}, 0);
}

static int node_end_attempt(busq_peer *peer, const void *arguments)
{
  const uint64_t *node = arguments;
  return busq_node_end(peer, busq_node_unpack(*node));
}

int busq_peer_node_destroy(busq_peer *peer, uint64_t node, int64_t timeout_ns)
{
  if (busq_node_unpack(node).slot != peer->slot)
    return busq_error(BUSQ_INVALID, "a node of another peer: its owner alone destroys it");
  return busq_send_do(peer, &(busq_send_job){node_end_attempt, &node, peer->bus->geometry.peers}, timeout_ns);
}

int busq_peer_node_is_alive(busq_peer *peer, uint64_t node)
{
  return busq_node_is_alive(peer, busq_node_unpack(node));
}

void busq_peer_handle_release(busq_peer *peer, uint64_t node)
{
  if (peer->fork_generation == busq_fork_generation)
    busq_node_release(peer, busq_node_unpack(node));
}

int busq_peer_handle_is_held(busq_peer *peer, uint64_t node)
{
  return busq_node_is_held(peer, busq_node_unpack(node));
}

int busq_peer_handle_is_over(busq_peer *peer, uint64_t node)
{
  return busq_node_is_over(peer, busq_node_unpack(node));
}

int busq_peer_node_owner(busq_peer *peer, uint64_t node, char *name, size_t *name_bytesp)
{
  const busq_node_name which = busq_node_unpack(node);
  return busq_peer_slot_name(peer, which.slot, busq_node_owner(peer->bus, which), name, name_bytesp);
}

int busq_peer_next_node(busq_peer *peer, uint64_t *fromp, uint64_t *nodep, uint32_t *is_ownp)
{
  busq_node_name name;
  bool is_own;
  if (!busq_node_next(peer, fromp, &name, &is_own))
    return BUSQ_EMPTY;
  *nodep = busq_node_pack(name);
  *is_ownp = is_own;
  return BUSQ_OK;
}

uint64_t busq_peer_handles_alive(const busq_peer *peer)
{
  return peer->receiver.handles_alive;
}

/* ---- groups ---- */

static int change_attempt(busq_peer *peer, const void *arguments)
{
  return busq_group_change_try(peer, arguments);
}

/* The name may be forgotten, and its entry given to another group, between the look and the change. */
static int group_change(busq_peer *peer, const char *name, size_t bytes, bool is_made, uint32_t what,
                        int64_t timeout_ns)
{
  busq_change change = {.who = busq_peer_address(peer), .what = what};
  int result;
  do {
    result = busq_group_named(peer->bus, name, bytes, is_made, &change.group);
    if (result)
      return result;
    result = busq_send_do(peer, &(busq_send_job){change_attempt, &change, 1}, timeout_ns);
  } while (is_made && result == BUSQ_UNKNOWN_PEER);
  if (result == BUSQ_OK && is_made)
    busq_peer_care(peer, BUSQ_CARES_FOR_MEMBERS);
  return result;
}

static int group_may_change(const busq_peer *peer, const char *what)
{
  const int result = busq_peer_check(peer);
  if (!result && peer->receiver.is_consumer)
    return busq_error(BUSQ_INVALID, "one of several readers of \"%s\" can't %s: what came of it would go to any of them",
                      peer->receiver.inbox->name, what);
  return result;
}

int busq_peer_enter(busq_peer *peer, const char *group, size_t group_bytes, int64_t timeout_ns)
{
  int result = group_may_change(peer, "enter a group");
  if (!result)
    result = busq_group_check(group, group_bytes);
  return result ? result : group_change(peer, group, group_bytes, true, BUSQ_CHANGE_ENTERS, timeout_ns);
}

/* A group without an entry is one that we are not in. */
int busq_peer_leave(busq_peer *peer, const char *group, size_t group_bytes, int64_t timeout_ns)
{
  int result = group_may_change(peer, "leave a group");
  if (!result)
    result = busq_group_check(group, group_bytes);
  if (!result)
    result = group_change(peer, group, group_bytes, false, BUSQ_CHANGE_LEAVES, timeout_ns);
  return result == BUSQ_UNKNOWN_PEER ? BUSQ_OK : result;
}

static int watched_name(const busq_peer *peer, const char *name, size_t bytes, char *group)
{
  int result = group_may_change(peer, "watch a peer");
  if (!result)
    result = busq_name_check(name, bytes);
  if (result)
    return result;
  group[0] = '?';
  memcpy(group + 1, name, bytes);
  return BUSQ_OK;
}

/* A peer that comes or goes while we begin to watch sends a notice by itself, or was found by us; what we have missed,
 * we announce now. */
int busq_peer_watch(busq_peer *peer, const char *name, size_t name_bytes, int64_t timeout_ns)
{
  char group[BUSQ_LAYOUT_NAME_BYTES_MAX + 1];
  uint64_t target;
  int result = watched_name(peer, name, name_bytes, group);
  if (!result)
    result = group_change(peer, group, name_bytes + 1, true, BUSQ_CHANGE_ENTERS, timeout_ns);
  if (result || busq_group_named(peer->bus, group, name_bytes + 1, false, &target))
    return result;
  busq_biased_latch_acquire(&peer->sender.latch);
  if (!busq_load_relaxed(&peer->is_closed))
    (void)busq_watch_notify(peer, target, peer->slot);
  busq_biased_latch_release(&peer->sender.latch);
  return BUSQ_OK;
}

int busq_peer_unwatch(busq_peer *peer, const char *name, size_t name_bytes, int64_t timeout_ns)
{
  char group[BUSQ_LAYOUT_NAME_BYTES_MAX + 1];
  int result = watched_name(peer, name, name_bytes, group);
  if (!result)
    result = group_change(peer, group, name_bytes + 1, false, BUSQ_CHANGE_LEAVES, timeout_ns);
  return result == BUSQ_UNKNOWN_PEER ? BUSQ_OK : result;
}

/* It was checked when the message was found. */
void busq_message_envelope(const busq_message *message, busq_envelope *envelope)
{
  *envelope = (busq_envelope){.kind = BUSQ_KIND_DATA};
  if (message->form & BUSQ_FORM_ENVELOPE)
    memcpy(envelope, (const char *)message->data + message->size_bytes +
                         (message->n_nodes + (uint64_t)message->n_handles) * sizeof(busq_node_name),
           sizeof *envelope);
}

/* ---- receiving ---- */

int busq_peer_recv(busq_peer *peer, busq_message *messages, uint32_t limit, uint32_t *countp, int64_t timeout_ns)
{
  return busq_peer_recv_as(peer, BUSQ_TAKE_PINNED, messages, limit, countp, timeout_ns);
}

void busq_peer_receive_release(busq_peer *peer, const busq_message *messages, size_t n_messages)
{
  busq_receive_release_all(peer, messages, n_messages);
}
