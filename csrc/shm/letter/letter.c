/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/letter/letter.h"
#include "base/error.h"
#include "shm/group/group.h"
#include "shm/node/node_table.h"
#include <stdlib.h>
#include <string.h>

/* ---- sending to nodes, and sending handles ---- */

typedef struct {
  busq_send_hooks hooks;
  const busq_letter *letter;
  uint8_t *missed; /* [n_nodes] */
  uint32_t n_missed;
  uint64_t group;              /* among the targets of the letter; 0: none */
  const busq_sender_view *view; /* of the group, in the view that the message is for; NULL without a group */
  bool has_others;             /* receivers that are no members */
} node_sending;

static busq_node_name letter_node(const busq_letter *letter, uint32_t at)
{
  return busq_node_unpack(letter->nodes[at]);
}

/* Sets GRANTED for all receivers of the handle before any can receive it; then looks at the claim. */
static void handle_grant(busq_peer *peer, busq_node_name name, uint32_t n_targets)
{
  busq_node *node = busq_node_at(peer->bus, name);
  busq_key end;
  uint64_t before;
  for (uint32_t i = 0; node && i < n_targets; i++) {
    const uint32_t slot = peer->sender.destinations[i];
    if (slot != name.slot)
      (void)busq_node_word_change(peer->bus, node, slot, name.generation, peer->sender.known[slot].incarnation,
                                  BUSQ_NODE_EVENT_GRANTED, &before);
  }
  busq_fence_full();
  /* Behind the end, it arrives dead everywhere. */
  if (busq_node_settle(peer->bus, name, BUSQ_NODE_BREAK, peer->sender.destinations, n_targets, &end) == BUSQ_NODE_ENDED)
    peer->sender.lamport = busq_timestamp_max(peer->sender.lamport, end.timestamp);
}

static int sending_begin(busq_send_hooks *hooks, busq_peer *peer, busq_record *record, uint64_t tag)
{
  const node_sending *sending = (const node_sending *)(const void *)hooks;
  const busq_letter *letter = sending->letter;
  const uint32_t n_targets = busq_record_destinations(record);
  uint64_t granting = 0;
  (void)tag;
  for (uint32_t i = 0; i < letter->n_handles; i++)
    granting |= busq_node_granting_bit(peer->bus, busq_node_unpack(letter->handles[i]));
  busq_store_release(&peer->self->granting, granting);
  busq_fence_full();
  for (uint32_t i = 0; i < letter->n_handles; i++)
    handle_grant(peer, busq_node_unpack(letter->handles[i]), n_targets);
  return BUSQ_OK;
}

static void sending_undone(busq_send_hooks *hooks, busq_peer *peer, busq_record *record, uint64_t tag)
{
  (void)hooks;
  (void)record;
  (void)tag;
  busq_store_release(&peer->self->granting, 0);
}

/* Did a message that is committed come before the end?  An end that is still open comes later than it, once it is put
 * off. */
static bool node_was_reached(busq_peer *peer, busq_node_name name, busq_key key)
{
  busq_key end;
  busq_node *node = busq_node_at(peer->bus, name);
  busq_fence_after_swap(); /* our place is taken before we look */
  if (busq_node_is_idle(node, name.generation))
    return true;
  const busq_node_state state = busq_node_settle(peer->bus, name, BUSQ_NODE_PUT_OFF, NULL, 0, &end);
  if (state == BUSQ_NODE_OTHER) {
    /* Another node stands there by now; the mark is still that of the one before it. */
    const uint64_t number = busq_claim_number(busq_claim_load(&node->claim)) - 1;
    return (uint32_t)number == name.generation && busq_place_read(&node->end, number, &end) == BUSQ_PLACE_THERE &&
           busq_node_is_before(key, end);
  }
  return state == BUSQ_NODE_ALIVE || busq_node_is_before(key, end);
}

static void sending_end(busq_send_hooks *hooks, busq_peer *peer, busq_record *record, busq_key key)
{
  node_sending *sending = (node_sending *)(void *)hooks;
  if (sending->letter->n_handles)
    busq_store_release(&peer->self->granting, 0);
  /* A message that does not count is passed by all, owners of nodes among them. */
  if (sending->view)
    hooks->outcome = busq_group_judge(peer, hooks, record, key, sending->has_others);
  if (hooks->outcome != BUSQ_OK)
    return;
  for (uint32_t i = 0; i < sending->letter->n_nodes; i++)
    if (!sending->missed[i] && !node_was_reached(peer, letter_node(sending->letter, i), key)) {
      sending->missed[i] = 1;
      sending->n_missed++;
    }
}

static int handles_check(busq_peer *peer, const busq_letter *letter)
{
  if (letter->n_handles > BUSQ_NODE_HANDLES_MAX)
    return busq_error(BUSQ_INVALID, "%u handles in one message: expected at most %u", letter->n_handles, BUSQ_NODE_HANDLES_MAX);
  for (uint32_t i = 0; i < letter->n_handles; i++) {
    const busq_node_name name = busq_node_unpack(letter->handles[i]);
    busq_claim_look look;
    busq_key end;
    const busq_node_state state = busq_node_look(peer->bus, name, &end, &look);
    const bool is_over = state == BUSQ_NODE_ENDED || state == BUSQ_NODE_OTHER; /* a dead handle may be handed on by any peer */
    if (!is_over && !busq_node_is_held(peer, name) &&
        !(busq_node_is_own(peer, name) &&
          busq_node_owner_of(busq_node_at(peer->bus, name), name.generation) == peer->incarnation))
      return busq_error(BUSQ_INVALID, "handle %u of a message is of a node that \"%.255s\" neither owns nor holds a handle of", i,
                        peer->self->name);
  }
  return BUSQ_OK;
}

/* ---- the list of receivers ---- */

/* Unless it is among the first so many of them. */
static void target_add(busq_peer *peer, uint64_t target, uint32_t n_first, uint32_t *n_targetsp)
{
  busq_node_memory *memory = peer->nodes;
  for (uint32_t i = 0; i < n_first; i++)
    if (memory->targets[i] == target)
      return;
  memory->targets[(*n_targetsp)++] = target;
}

static bool is_group(uint64_t target)
{
  return busq_target_slot(target) == BUSQ_TARGET_GROUP;
}

static int targets_too_many(const busq_peer *peer)
{
  return busq_error(BUSQ_INVALID, "a message to more than the %u peers of bus \"%s\"", peer->bus->geometry.peers, peer->bus->name);
}

/* The named peers, each once, as everywhere; and the members of the group, some of which may be named as well.  There
 * may be more of them than slots: a member that has died may stand beside the peer that has its slot now. */
static int targets_begin(busq_peer *peer, node_sending *sending, uint32_t *n_targetsp)
{
  const busq_letter *letter = sending->letter;
  const uint32_t peers = peer->bus->geometry.peers;
  busq_sender_view *view = NULL;
  *n_targetsp = 0;
  if (letter->n_targets > peers + (sending->group != 0))
    return busq_error(BUSQ_INVALID, "%u receivers: expected at most %u, each of them once", letter->n_targets, peers);
  for (uint32_t i = 0; i < letter->n_targets; i++)
    if (!is_group(letter->targets[i]))
      peer->nodes->targets[(*n_targetsp)++] = letter->targets[i];
  if (!sending->group)
    return BUSQ_OK;
  const int result = busq_group_sender_view(peer, sending->group, &view);
  if (result)
    return result;
  sending->view = view;
  sending->hooks.group = busq_group_index(sending->group) + 1;
  sending->hooks.view = view->number;
  const uint32_t n_named = *n_targetsp;
  for (uint32_t i = 0; i < view->n_members; i++)
    target_add(peer, view->members[i], n_named, n_targetsp);
  return BUSQ_OK;
}

/* And then the owners of nodes that are not over. */
static int targets_find(busq_peer *peer, node_sending *sending, uint32_t *n_targetsp)
{
  const busq_letter *letter = sending->letter;
  const uint32_t peers = peer->bus->geometry.peers;
  const int result = targets_begin(peer, sending, n_targetsp);
  if (result)
    return result;
  for (uint32_t i = 0; i < letter->n_nodes; i++) {
    const busq_node_name name = letter_node(letter, i);
    busq_claim_look look;
    busq_key end;
    busq_node *node = busq_node_at(peer->bus, name);
    const busq_node_state state = busq_node_look(peer->bus, name, &end, &look);
    const uint32_t owner = node ? busq_node_owner_of(node, name.generation) : 0;
    if (!node)
      return busq_error(BUSQ_INVALID, "receiver %u is node %u of slot %u: bus \"%s\" has %u slots with %u nodes each", i, name.index,
                        name.slot, peer->bus->name, peers, peer->bus->geometry.nodes);
    if (!sending->missed[i] && (state == BUSQ_NODE_ENDED || state == BUSQ_NODE_OTHER || !owner)) {
      sending->missed[i] = 1;
      sending->n_missed++;
    }
    if (!sending->missed[i])
      target_add(peer, (uint64_t)owner << 16 | name.slot, *n_targetsp, n_targetsp);
    if (*n_targetsp > 2 * peers)
      return targets_too_many(peer);
  }
  sending->has_others = sending->view && *n_targetsp > sending->view->n_members;
  return BUSQ_OK;
}

/* Where a queue has several readers, each would have to know what the others hold. */
static int targets_check(const busq_peer *peer, uint32_t n_targets)
{
  for (uint32_t i = 0; i < n_targets; i++) {
    const uint32_t slot = busq_target_slot(peer->nodes->targets[i]);
    if (slot < busq_slots_reached(peer->bus) && (busq_load_acquire(&peer->bus->slots[slot].life) & BUSQ_LIFE_SHARED))
      return busq_error(BUSQ_INVALID, "\"%.255s\" is a queue that several processes read: it takes no message that carries handles, or that goes to nodes as well; send it one of its own",
                        peer->bus->slots[slot].name);
  }
  return BUSQ_OK;
}

/* The owner of some of its nodes is gone: those are missed.  False where it is a receiver by name, or as a member, as
 * well. */
static bool owner_is_missed(busq_peer *peer, node_sending *sending)
{
  const busq_letter *letter = sending->letter;
  bool is_any = false;
  if (peer->sender.failed_target == BUSQ_NO_TARGET ||
      (sending->view && busq_sender_view_has(sending->view, peer->sender.failed_target)))
    return false;
  for (uint32_t i = 0; i < letter->n_targets; i++)
    if (letter->targets[i] == peer->sender.failed_target)
      return false;
  for (uint32_t i = 0; i < letter->n_nodes; i++)
    if (!sending->missed[i] && letter_node(letter, i).slot == busq_target_slot(peer->sender.failed_target)) {
      is_any = true;
      sending->missed[i] = 1;
      sending->n_missed++;
    }
  return is_any;
}

/* ---- the envelope ---- */

static bool is_among(const uint64_t *targets, uint32_t n_targets, uint32_t slot)
{
  for (uint32_t i = 0; i < n_targets; i++)
    if (busq_target_slot(targets[i]) == slot)
      return true;
  return false;
}

/* Also without its nodes: by name, or as a member. */
static bool is_named(const node_sending *sending, uint32_t slot)
{
  return is_among(sending->letter->targets, sending->letter->n_targets, slot) ||
         (sending->view && is_among(sending->view->members, sending->view->n_members, slot));
}

static uint64_t tail_bytes_max(const busq_letter *letter)
{
  return (2 * (uint64_t)letter->n_nodes + letter->n_handles) * sizeof(busq_node_name) + sizeof(busq_envelope);
}

/* A node that is missed already is not mentioned, and one whose owner is named stands with that name. */
static uint64_t tail_write(const node_sending *sending, char *to)
{
  const busq_letter *letter = sending->letter;
  busq_envelope envelope = {.kind = BUSQ_KIND_DATA,
                            .n_handles = (uint16_t)letter->n_handles,
                            .group = (uint16_t)sending->hooks.group,
                            .view = sending->hooks.view};
  char *at = to;
  for (uint32_t i = 0; i < letter->n_nodes; i++) {
    const busq_node_name names[] = {letter_node(letter, i), {letter_node(letter, i).slot, BUSQ_NODE_BY_NAME, 0}};
    const uint32_t n_names = sending->missed[i] ? 0 : is_named(sending, names[0].slot) ? 2 : 1;
    memcpy(at, names, n_names * sizeof *names);
    at += n_names * sizeof *names;
    envelope.n_nodes = (uint16_t)(envelope.n_nodes + n_names);
  }
  for (uint32_t i = 0; i < letter->n_handles; i++, at += sizeof(busq_node_name)) {
    const busq_node_name name = busq_node_unpack(letter->handles[i]);
    memcpy(at, &name, sizeof name);
  }
  memcpy(at, &envelope, sizeof envelope);
  return (uint64_t)(at - to) + sizeof envelope;
}

static int letter_send(busq_peer *peer, node_sending *sending, const busq_payload *payload, char *tail,
                       busq_part *parts)
{
  uint32_t n_targets = 0;
  int result = targets_find(peer, sending, &n_targets);
  if (!result)
    result = targets_check(peer, n_targets);
  if (result)
    return result;
  if (!n_targets)
    return busq_error(BUSQ_PEER_DEAD, "the node was destroyed, or its owner has left bus \"%s\" or died; nobody got the message",
                      peer->bus->name);
  busq_payload whole = *payload;
  memcpy(parts, payload->parts, payload->n_parts * sizeof *parts);
  parts[payload->n_parts] = (busq_part){tail, tail_write(sending, tail)};
  whole.parts = parts;
  whole.n_parts++;
  whole.form |= BUSQ_FORM_ENVELOPE;
  whole.size_bytes += parts[payload->n_parts].size_bytes;
  whole.hooks = &sending->hooks;
  result = busq_multicast_try(peer, peer->nodes->targets, n_targets, &whole);
  return result == BUSQ_OK ? sending->hooks.outcome : result;
}

/* Until the world stands still for as long as one attempt takes: an owner has gone, and its nodes are missed, or the
 * group has another view. */
static int letter_send_again(busq_peer *peer, node_sending *sending, const busq_payload *payload, char *tail,
                             busq_part *parts)
{
  for (int turn = 0; turn < BUSQ_CLAIM_TURNS; turn++) {
    int result = letter_send(peer, sending, payload, tail, parts);
    if (result == BUSQ_PEER_DEAD && owner_is_missed(peer, sending))
      continue;
    if (result == BUSQ_PEER_DEAD && sending->view)
      result = busq_group_end_failed(peer, sending->group, sending->view);
    if (result != BUSQ_AGAIN)
      return result;
  }
  return BUSQ_FULL;
}

static int group_find(busq_peer *peer, node_sending *sending)
{
  const busq_letter *letter = sending->letter;
  for (uint32_t i = 0; i < letter->n_targets; i++)
    if (is_group(letter->targets[i]))
      return busq_group_among(peer, letter->targets, letter->n_targets, &sending->group);
  return BUSQ_OK;
}

/* Space for what stands behind the payload, and for the list of parts. */
static int letter_room(busq_peer *peer, const busq_letter *letter, uint32_t n_parts, char **tailp, busq_part **partsp)
{
  busq_node_memory *memory = peer->nodes;
  const uint64_t tail_bytes = BUSQ_ALIGN_UP(tail_bytes_max(letter), 16u),
                 bytes = tail_bytes + ((uint64_t)n_parts + 1) * sizeof(busq_part);
  if (bytes > memory->scratch_bytes) {
    void *larger = realloc(memory->scratch, bytes);
    if (!larger)
      return busq_node_memory_missing(peer);
    memory->scratch = larger;
    memory->scratch_bytes = bytes;
  }
  *tailp = memory->scratch;
  *partsp = (busq_part *)(void *)((char *)memory->scratch + tail_bytes);
  return BUSQ_OK;
}

/* Most of what is sent to nodes goes to one, and brings no handle. */
static int node_send_one(busq_peer *peer, const busq_letter *letter, const busq_payload *payload, uint8_t *missed)
{
  const busq_node_name name = letter_node(letter, 0);
  busq_node *node = busq_node_at(peer->bus, name);
  const uint32_t owner = busq_node_owner_of(node, name.generation);
  const uint64_t target = (uint64_t)owner << 16 | name.slot;
  node_sending sending = {.hooks = {.end = sending_end}, .letter = letter, .missed = missed};
  struct {
    busq_node_name name;
    busq_envelope envelope;
  } tail = {name, {.kind = BUSQ_KIND_DATA, .n_nodes = 1}};
  const busq_part parts[] = {payload->parts[0], {&tail, sizeof tail}};
  const busq_payload whole = {.parts = parts,
                              .n_parts = 2,
                              .form = payload->form | BUSQ_FORM_ENVELOPE,
                              .size_bytes = payload->size_bytes + sizeof tail,
                              .hooks = &sending.hooks};
  missed[0] = 0;
  const int result = busq_multicast_try(peer, &target, 1, &whole);
  if (BUSQ_UNLIKELY(result == BUSQ_PEER_DEAD))
    missed[0] = 1;
  return result == BUSQ_OK && sending.n_missed ? BUSQ_LETTER_MISSED : result;
}

static bool letter_is_to_one(const busq_peer *peer, const busq_letter *letter, const busq_payload *payload)
{
  if (letter->n_nodes != 1 || letter->n_targets || letter->n_handles || payload->n_parts != 1 || payload->draft)
    return false;
  const busq_node_name name = letter_node(letter, 0);
  busq_node *node = busq_node_at(peer->bus, name);
  return node && busq_node_is_idle(node, name.generation) && busq_node_owner_of(node, name.generation);
}

int busq_letter_try(busq_peer *peer, const busq_letter *letter, const busq_payload *payload, uint8_t *missed)
{
  if (BUSQ_LIKELY(letter_is_to_one(peer, letter, payload)))
    return node_send_one(peer, letter, payload, missed);

  node_sending sending = {
      .hooks = {.begin = letter->n_handles ? sending_begin : NULL,
                    .undone = letter->n_handles ? sending_undone : NULL,
                    .end = sending_end},
      .letter = letter,
      .missed = missed,
  };
  char *tail = NULL;
  busq_part *parts = NULL;
  int result = busq_node_remember(peer);
  memset(missed, 0, letter->n_nodes);
  if (!result && letter->n_nodes > BUSQ_NODE_RECEIVERS_MAX)
    result = busq_error(BUSQ_INVALID, "a message to %u nodes: expected at most %u", letter->n_nodes, BUSQ_NODE_RECEIVERS_MAX);
  if (!result)
    result = handles_check(peer, letter);
  if (!result)
    result = group_find(peer, &sending);
  if (!result)
    result = letter_room(peer, letter, payload->n_parts, &tail, &parts);
  if (!result)
    result = letter_send_again(peer, &sending, payload, tail, parts);
  return result == BUSQ_OK && sending.n_missed ? BUSQ_LETTER_MISSED : result;
}
