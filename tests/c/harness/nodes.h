/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_TESTS_NODES_H
#define BUSQ_TESTS_NODES_H
/*
 * Nodes and handles in transcripts:
 *
 *      hands(alice, "bob", node, "here");        alice sends bob a message with a handle of the node
 *      sent_to(bob, node, "hello");              a message to the node; must succeed
 *      hears_all(bob, "here+1 destroyed@0");     all that comes: data, @ and the index of each node of bob's that it is addressed to,
 *                                                or that it is about, and for each handle +1 where it came alive, +0 where it came
 *                                                dead; "view" for a view
 */
#include "harness/company.h"

__attribute__((unused)) static uint64_t make_node(busq_peer *peer)
{
  uint64_t node;
  if (busq_peer_node(peer, &node) != BUSQ_OK)
    check_fail(__FILE__, __LINE__, "can't make a node: %s", busq_error_text());
  return node;
}

__attribute__((unused)) static int send_letter(busq_peer *peer, const char *to, const uint64_t *nodes, uint32_t n_nodes,
                                               const uint64_t *handles, uint32_t n_handles, const char *text, uint8_t *missed,
                                               uint32_t *sentp)
{
  uint64_t targets[COMPANY_PEERS_MAX];
  const int count = look_up(peer, to, targets);
  const busq_part part = {text, strlen(text)};
  const busq_letter letter = {
      .targets = targets, .nodes = nodes, .handles = handles, .n_targets = (uint32_t)count, .n_nodes = n_nodes, .n_handles = n_handles};
  *sentp = 0;
  return count < 0 ? -count : busq_peer_send_letter(peer, &letter, &part, 1, BUSQ_FORM_DATA, 0, missed, sentp);
}

__attribute__((unused)) static int send_to(busq_peer *peer, uint64_t node, const char *text)
{
  uint8_t missed;
  uint32_t sent;
  return send_letter(peer, "", &node, 1, NULL, 0, text, &missed, &sent);
}

__attribute__((unused)) static void sent_to(busq_peer *peer, uint64_t node, const char *text)
{
  const int result = send_to(peer, node, text);
  if (result != BUSQ_OK)
    check_fail(__FILE__, __LINE__, "can't send %s to a node: %d, %s", text, result, busq_error_text());
}

__attribute__((unused)) static int hand(busq_peer *peer, const char *to, uint64_t node, const char *text)
{
  uint8_t missed;
  uint32_t sent;
  return send_letter(peer, to, NULL, 0, &node, 1, text, &missed, &sent);
}

__attribute__((unused)) static void hands(busq_peer *peer, const char *to, uint64_t node, const char *text)
{
  const int result = hand(peer, to, node, text);
  if (result != BUSQ_OK)
    check_fail(__FILE__, __LINE__, "can't hand a handle to %s: %d, %s", to, result, busq_error_text());
}

__attribute__((unused)) static void destroyed(busq_peer *peer, uint64_t node)
{
  const int result = busq_peer_node_destroy(peer, node, 0);
  if (result != BUSQ_OK)
    check_fail(__FILE__, __LINE__, "can't destroy a node: %d, %s", result, busq_error_text());
}

__attribute__((unused)) static size_t event_write(char *text, const busq_peer *peer, const busq_message *message)
{
  size_t used = 0;
  if (message->kind == BUSQ_KIND_NODE_DESTROYED)
    used = (size_t)sprintf(text, "destroyed");
  else if (message->kind == BUSQ_KIND_NODE_RELEASED)
    used = (size_t)sprintf(text, "released");
  else if (message->kind == BUSQ_KIND_VIEW)
    used = (size_t)sprintf(text, "view");
  else if (message->size_bytes)
    memcpy(text, message->data, used = message->size_bytes);
  if (message->form & BUSQ_FORM_ENVELOPE) {
    for (uint32_t i = 0; i < message->n_nodes; i++)
      if (message->kind != BUSQ_KIND_DATA ||
          ((busq_message_node(message, i) >> 16 & 0xffff) != 0xffff && (uint16_t)busq_message_node(message, i) == (uint16_t)busq_peer_target(peer)))
        used += (size_t)sprintf(text + used, "@%u", (uint32_t)(busq_message_node(message, i) >> 16) & 0xffff);
    for (uint32_t i = 0; i < message->n_handles; i++)
      used += (size_t)sprintf(text + used, "+%u", (uint32_t)(message->handles_alive >> i) & 1);
  }
  return used;
}

/* All that can be received now, separated by spaces. */
__attribute__((unused)) static const char *all_heard(busq_peer *peer)
{
  static char text[4096];
  size_t used = 0;
  busq_message message;
  text[0] = '\0';
  while (take_now(peer, &message) == BUSQ_OK) {
    if (used)
      text[used++] = ' ';
    used += event_write(text + used, peer, &message);
    text[used] = '\0';
    busq_peer_release(peer, &message);
  }
  return text;
}

/* How often something stands in what was heard. */
__attribute__((unused)) static uint32_t count_of(const char *text, const char *what)
{
  uint32_t n = 0;
  for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
    n++;
  return n;
}

#define hears_all(peer, expected)                                                                                \
  do {                                                                                                           \
    const char *const hears_found = all_heard(peer);                                                             \
    if (strcmp(hears_found, (expected)) != 0)                                                                    \
      check_fail(__FILE__, __LINE__, #peer " hears \"%s\", expected \"%s\"", hears_found, (expected));           \
  } while (0)

#endif /* BUSQ_TESTS_NODES_H */
