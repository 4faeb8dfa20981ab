/* SPDX-License-Identifier: Apache-2.0 */
#include "python/port.h"
#include <stdlib.h>
#include <string.h>
/*
 * Receiving.
 *
 * A message goes through three steps.  Prepared: a Python object has all that may fail, while the message still stands in the queue.
 * Taken: nothing in that can fail.  Finished, for those that are about nodes or are events, once the queue is left: Python code may run,
 * and what it raises gives the message back.  It is handed over behind the last look at signals.
 */

enum {
  RECEIVE_FILTERED = -3 /* the port has a filter, and nothing was taken */
};

#define COPIED_BELOW (UINT64_C(1) + COPY_BYTES_MAX)
#define COPIED_WHATEVER_SIZE (UINT64_MAX - 1)

/* ---- preparing ---- */

static int is_wide_view(const busq_message *found)
{
  busq_wide tail;
  if (found->form != BUSQ_FORM_WIDE || found->size_bytes < sizeof tail)
    return 0;
  memcpy(&tail, (const char *)found->data + found->size_bytes - sizeof tail, sizeof tail);
  return tail.flags & BUSQ_WIDE_VIEW;
}

static int is_control(const busq_message *found)
{
  return (found->form & ~BUSQ_FORM_ENVELOPE) == BUSQ_FORM_CONTROL;
}

static message_kind kind_of(const busq_message *found)
{
  if (is_control(found))
    return KIND_CONTROL;
  if (is_wide_view(found))
    return KIND_VIEW;
  if (!(found->form & BUSQ_FORM_ENVELOPE) || found->kind == BUSQ_KIND_DATA)
    return KIND_DATA;
  switch (found->kind) {
  case BUSQ_KIND_VIEW:
    return KIND_VIEW;
  case BUSQ_KIND_NODE_DESTROYED:
    return KIND_NODE_DESTROYED;
  case BUSQ_KIND_NODE_RELEASED:
    return KIND_NODE_RELEASED;
  case BUSQ_KIND_JOINED:
    return KIND_JOINED;
  case BUSQ_KIND_LEFT:
    return KIND_LEFT;
  default:
    return KIND_VIEW; /* what is damaged: reading the event finds out */
  }
}

static int is_event(message_kind kind)
{
  return kind == KIND_VIEW || kind == KIND_JOINED || kind == KIND_LEFT;
}

/* False where something has failed.  A reply is copied, of whatever size: kept in its queue, it would keep the places behind it as well, and
 * an application that keeps it and asks again would wait for itself. */
__attribute__((always_inline)) static inline int fill(Port *self, Message *message, const busq_message *found, message_kind kind,
                                                      int is_ack, uint64_t copied_below, int *result)
{
  const int is_copied = (uint64_t)message->size < copied_below || is_event(kind) || message->form == BUSQ_FORM_REPLY;
  message->is_offered = is_ack != 0;
  message->comes_back = is_ack && self->takes_back_dropped;
  message->is_redelivered = found->is_redelivered != 0;
  if (!is_event(kind)) {
    message->sender = port_sender(self, found, result);
    if (!message->sender)
      return 0;
    message->life = message_life(found->sender_life, found->sender);
  }
  if (is_copied)
    message->data = PyBytes_FromStringAndSize(found->data, (Py_ssize_t)message->size);
  return !is_copied || message->data;
}

/* The tail of a wide message is no part of what was sent. */
static int wide_begin(Message *message, const busq_message *found)
{
  busq_wide tail;
  if (found->size_bytes < sizeof tail)
    return 1;
  memcpy(&tail, (const char *)found->data + found->size_bytes - sizeof tail, sizeof tail);
  const uint64_t bytes = sizeof tail + tail.name_bytes + tail.bridge_bytes;
  if (bytes > found->size_bytes)
    return 1; /* damaged: it is shown as it is */
  if (!message_need_more(message))
    return 0;
  message->size -= bytes;
  message->more->wide = PyBytes_FromStringAndSize((const char *)found->data + message->size, (Py_ssize_t)bytes);
  return message->more->wide != NULL;
}

/* Its sender is named there, and was no process of this bus, or not this life of it. */
static int wide_end(Message *message)
{
  busq_wide tail;
  const Py_ssize_t size = PyBytes_Size(message->more->wide) - (Py_ssize_t)sizeof tail;
  const char *text = PyBytes_AsString(message->more->wide);
  memcpy(&tail, text + size, sizeof tail);
  message->form = BUSQ_FORM_DATA;
  if (is_event((message_kind)message->kind)) /* reading it finds out its sender */
    return 1;
  PyObject *name = PyUnicode_DecodeUTF8(text + size - tail.name_bytes, tail.name_bytes, "replace");
  if (!name)
    return 0;
  Py_XDECREF(message->sender);
  message->sender = name;
  message->life = 0;
  return 1;
}

/* Fills in what is more than bytes from one peer to another; false where something has failed. */
__attribute__((noinline)) static int fill_rest(Port *self, Message *message, const busq_message *found)
{
  const uint16_t form = message->form;
  message->kind = (uint8_t)kind_of(found);
  if (found->form & BUSQ_FORM_ENVELOPE) {
    message->group_number = found->group;
    message->is_unfinished = (is_event((message_kind)message->kind) || found->n_nodes || found->n_handles) &&
                             !nodes_fill_known(self, message, found);
  }
  if (form == BUSQ_FORM_WIDE) {
    if (!wide_begin(message, found))
      return 0;
    message->is_unfinished = message->is_unfinished || is_event((message_kind)message->kind);
  }
  const int is_object = (form == BUSQ_FORM_OBJECT || form == BUSQ_FORM_CODED) && self->codec;
  const int is_request = (form == BUSQ_FORM_ASK || form == BUSQ_FORM_REPLY) && found->size_bytes >= sizeof(busq_request);
  if (message->is_unfinished || is_object || is_request) {
    if (!message_need_more(message))
      return 0;
    message->more->pinned = *found;
  }
  if (is_object)
    message->more->codec = new_ref(self->codec);
  if (is_request) {
    message->size -= sizeof(busq_request);
    memcpy(&message->more->request, (const char *)found->data + message->size, sizeof(busq_request));
    if (form == BUSQ_FORM_ASK)
      message->more->replier = (PeerOwner *)new_ref((PyObject *)self->peer_owner);
  }
  return 1;
}

/* Bytes to the node that was sent to last are as plain as those to a peer. */
static int is_plain(Port *self, Message *message, const busq_message *found)
{
  if (found->form == BUSQ_FORM_DATA)
    return 1;
  if (found->form != (BUSQ_FORM_DATA | BUSQ_FORM_ENVELOPE) || found->kind != BUSQ_KIND_DATA ||
      !nodes_fill_known(self, message, found))
    return 0;
  message->group_number = found->group;
  return 1;
}

__attribute__((always_inline)) static inline Message *prepare(Port *self, busq_peer *peer, const busq_message *found, int is_ack,
                                                              uint64_t copied_below, int *result)
{
  *result = BUSQ_OK;
  const int is_kept = is_ack || found->size_bytes >= copied_below;
  Message *message = message_new(self->state, peer, is_kept);
  if (!message)
    return NULL;
  if (is_kept)
    message->more->pinned = *found;
  message->size = found->size_bytes;
  message->form = found->form & (uint16_t)~BUSQ_FORM_ENVELOPE;
  if (is_plain(self, message, found)) {
    if (fill(self, message, found, KIND_DATA, is_ack, copied_below, result))
      return message;
  } else if (fill_rest(self, message, found) && fill(self, message, found, (message_kind)message->kind, is_ack, copied_below, result) &&
             (message->form != BUSQ_FORM_WIDE || !message->more || !message->more->wide || wide_end(message))) {
    return message;
  }
  Py_DECREF(message);
  return NULL;
}

Message *receive_prepare(Port *self, busq_peer *peer, const busq_message *found, int is_ack, int *result)
{
  return prepare(self, peer, found, is_ack, COPIED_BELOW, result);
}

/* ---- taking ---- */

__attribute__((always_inline)) static inline void take(PeerOwner *peer_owner, Message *message, const busq_message *found, int is_held)
{
  const int is_kept = message->is_offered || !message->data || message->is_unfinished; /* beyond the call */
  if (is_kept)
    message->peer_owner = (PeerOwner *)new_ref((PyObject *)peer_owner);
  busq_peer_receive_take(message->peer, message->is_offered      ? BUSQ_TAKE_OFFERED
                                        : is_kept || is_held ? BUSQ_TAKE_PINNED
                                                             : BUSQ_TAKE_COPIED);
  if (is_kept && found->form & BUSQ_FORM_ENVELOPE)
    message->more->pinned.handles_alive = busq_peer_handles_alive(message->peer);
}

void receive_take(PeerOwner *peer_owner, Message *message, const busq_message *found, int is_held)
{
  take(peer_owner, message, found, is_held);
}

/* Between begin and end: what stands next, without words of the library, unless those are wanted. */
__attribute__((always_inline)) static inline int peek(Port *self, busq_message *found, int takes_words, uint64_t copied_below)
{
  int result;
  while ((result = busq_peer_receive_peek_to_copy(self->peer, copied_below, found)) == BUSQ_OK && __builtin_expect(!takes_words && is_control(found), 0))
    busq_peer_receive_take(self->peer, BUSQ_TAKE_COPIED);
  return result;
}

/* ---- finishing ---- */

/* An instance of the event's class takes over what the message holds: it is made here, since making it may collect garbage. */
static Message *event_of(Message *message, PyObject *facts)
{
  PyObject *type, *sender, *view, *group;
  unsigned long long life;
  if (!PyArg_ParseTuple(facts, "O!UKOU", &PyType_Type, &type, &sender, &life, &view, &group))
    return NULL;
  PyObject *nothing = PyBytes_FromStringAndSize(NULL, 0);
  Message *event = nothing ? message_move(message, type) : NULL;
  if (!event) {
    Py_XDECREF(nothing);
    return NULL;
  }
  Py_XDECREF(event->data);
  event->data = nothing;
  event->size = 0;
  event->sender = new_ref(sender);
  event->life = life;
  event->more->event = view == Py_None ? NULL : new_ref(view);
  event->more->group = new_ref(group);
  return event;
}

static Message *read_event(Port *self, Message *message)
{
  PyObject *read = helper(self->state, "read_event");
  PyObject *facts = NULL;
  if (read)
    facts = PyObject_CallFunction(read, "OOiiO", (PyObject *)self, self->name ? self->name : Py_None, (int)message->more->pinned.kind,
                                  (int)message->group_number, message->data);
  Message *event = facts ? event_of(message, facts) : NULL;
  Py_XDECREF(facts);
  Py_XDECREF(read);
  return event;
}

/* False with an exception; an event becomes another object in *place. */
static int finish(Port *self, Message **place)
{
  Message *message = *place;
  message->is_unfinished = 0;
  if (!is_event((message_kind)message->kind))
    return nodes_fill(self, message);
  Message *event = read_event(self, message);
  if (!event)
    return 0;
  *place = event;
  Py_DECREF(message);
  return 1;
}

/* Lets go of what was copied; where it waits to be acknowledged, handles have their objects by now. */
static void release_copied(Message *message)
{
  if (message->data && message->peer_owner && !message->is_offered) {
    busq_peer_release(message->peer, &message->more->pinned);
    Py_CLEAR(message->peer_owner);
  }
}

/* ---- one message ---- */

typedef struct {
  int is_ack;
  int may_spin;
  int takes_words; /* of the library: for a filter */
} how;

/* A message that was taken, or NULL with *result.  Where nothing is there and it may wait, it spins before it lets go of the interpreter's
 * lock: letting go and taking it again costs more than what a busy sender needs. */
__attribute__((always_inline)) static inline Message *take_one(Port *self, how given, int *result)
{
  busq_message found;
  Message *message = NULL;
  *result = busq_peer_receive_begin(self->peer);
  if (*result != BUSQ_OK)
    return NULL;
  if (self->filter && !given.takes_words) { /* since it was asked for */
    busq_peer_receive_end(self->peer);
    *result = RECEIVE_FILTERED;
    return NULL;
  }
  uint64_t copied_below = COPIED_BELOW;
  *result = peek(self, &found, given.takes_words, given.is_ack ? 0 : copied_below);
  if (__builtin_expect(*result == BUSQ_NO_SPACE, 0) && !given.is_ack && busq_error_errno()) {
    /* One of several readers has no memory to keep it in shared memory, which is full. */
    copied_below = COPIED_WHATEVER_SIZE;
    *result = peek(self, &found, given.takes_words, copied_below);
  }
  if (*result == BUSQ_EMPTY && given.may_spin && busq_peer_receive_spin(self->peer, &found) == BUSQ_OK) {
    /* As after every wait: signals first.  A handler that raises after a message is taken would lose it. */
    busq_peer_receive_end(self->peer);
    *result = PyErr_CheckSignals() < 0 ? RAISED : BUSQ_OK;
    return NULL;
  }
  if (*result == BUSQ_OK) {
    message = prepare(self, self->peer, &found, given.is_ack, copied_below, result);
    if (message)
      take(self->peer_owner, message, &found, 0);
    else if (*result == BUSQ_OK)
      *result = RAISED;
  }
  busq_peer_receive_end(self->peer);
  if (BUSQ_PUBLISHED(self->replaced))
    port_drop_replaced(self);
  return message;
}

/* BUSQ_OK without a message: try again. */
__attribute__((always_inline)) static inline Message *receive_one(Port *self, how given, int *result)
{
  Message *message = take_one(self, given, result);
  if (!message || !message->peer_owner)
    return message;
  if ((!message->is_unfinished || finish(self, &message)) && PyErr_CheckSignals() == 0) {
    release_copied(message);
    return message;
  }
  message_give_back(message);
  Py_DECREF(message);
  *result = RAISED;
  return NULL;
}

/* Takes what stands next in the queue, words of the library as well, for a filter: a message, or NULL with *result. */
static Message *receive_any(Port *self, int is_ack, int *result)
{
  return receive_one(self, (how){is_ack, 0, 1}, result);
}

/* ---- many ---- */

enum {
  FEW = 64
};

/* What a call has taken and not handed over so far.  What was copied is still pinned, in the hands of the batch. */
typedef struct {
  Py_ssize_t n, n_copied, room;
  int has_held; /* some are to be finished, or let go of, one by one */
  Message **messages;
  busq_message *copied;
  void *memory; /* of both, where they are more than a few */
  Message *few_messages[FEW];
  busq_message few_copied[FEW];
} batch;

static int batch_has_room(batch *self)
{
  if (self->n < self->room)
    return 1;
  const size_t room = (size_t)self->room * 4;
  busq_message *copied = malloc(room * (sizeof *copied + sizeof(Message *)));
  if (!copied)
    return 0;
  Message **messages = (Message **)(void *)(copied + room);
  memcpy(copied, self->copied, (size_t)self->n_copied * sizeof *copied);
  memcpy(messages, self->messages, (size_t)self->n * sizeof *messages);
  free(self->memory);
  self->memory = self->copied = copied;
  self->messages = messages;
  self->room = (Py_ssize_t)room;
  return 1;
}

/* Takes what is there.  There is room for a message before it is taken, so none is lost for want of it; and what was taken before is not
 * lost for an exception that the next call would raise as well. */
static int take_batch(Port *self, Py_ssize_t limit, how given, batch *taken)
{
  int result = busq_peer_receive_begin(self->peer);
  if (result != BUSQ_OK)
    return result;
  if (self->filter) {
    busq_peer_receive_end(self->peer);
    return RECEIVE_FILTERED;
  }
  while (taken->n < limit && batch_has_room(taken)) {
    busq_message *found = &taken->copied[taken->n_copied];
    result = peek(self, found, 0, 0);
    if (result == BUSQ_EMPTY && given.may_spin && !taken->n && busq_peer_receive_spin(self->peer, found) == BUSQ_OK)
      result = peek(self, found, 0, 0);
    Message *message = result == BUSQ_OK ? prepare(self, self->peer, found, given.is_ack, COPIED_BELOW, &result) : NULL;
    if (!message) {
      result = result == BUSQ_OK ? RAISED : result;
      break;
    }
    take(self->peer_owner, message, found, 1);
    taken->messages[taken->n++] = message;
    taken->n_copied += !message->peer_owner;
    taken->has_held |= message->is_unfinished || (message->peer_owner && !message->is_offered);
  }
  busq_peer_receive_end(self->peer);
  if (BUSQ_PUBLISHED(self->replaced))
    port_drop_replaced(self);
  if (result == RAISED && taken->n)
    PyErr_Clear();
  return result;
}

/* Lets go of what was copied, under one latch; of a peer that was closed meanwhile, one by one. */
static void batch_release(Port *self, const batch *taken)
{
  if (taken->n_copied && busq_peer_receive_begin(self->peer) == BUSQ_OK) {
    busq_peer_receive_release(self->peer, taken->copied, (size_t)taken->n_copied);
    busq_peer_receive_end(self->peer);
  } else {
    for (Py_ssize_t i = 0; i < taken->n_copied; i++)
      busq_peer_release(self->peer, &taken->copied[i]);
  }
  for (Py_ssize_t i = 0; i < taken->n && taken->has_held; i++)
    if (taken->messages[i]->peer_owner)
      release_copied(taken->messages[i]);
}

static void batch_give_back(Port *self, const batch *taken)
{
  for (Py_ssize_t i = 0; i < taken->n_copied; i++)
    if (busq_peer_give_back(self->peer, BUSQ_TAKE_PINNED, &taken->copied[i]) != BUSQ_OK)
      busq_peer_release(self->peer, &taken->copied[i]);
  for (Py_ssize_t i = 0; i < taken->n; i++) {
    message_give_back(taken->messages[i]);
    Py_DECREF(taken->messages[i]);
  }
}

/* Passes all on as a list, or NULL: then an exception is set, and all of them come again.  Signals are looked at as late as can be: behind
 * the release nothing can be given back, so a handler that raises from then on loses what the caller has not seen. */
static PyObject *batch_hand_over(Port *self, batch *taken)
{
  PyObject *list = PyList_New(taken->n);
  int is_whole = list != NULL;
  for (Py_ssize_t i = 0; i < taken->n && taken->has_held && is_whole; i++)
    is_whole = !taken->messages[i]->is_unfinished || finish(self, &taken->messages[i]);
  if (is_whole && PyErr_CheckSignals() == 0) {
    batch_release(self, taken);
    for (Py_ssize_t i = 0; i < taken->n; i++)
      (void)PyList_SetItem(list, i, (PyObject *)taken->messages[i]);
  } else {
    batch_give_back(self, taken);
    Py_CLEAR(list);
  }
  free(taken->memory);
  return list;
}

static PyObject *receive_many(Port *self, Py_ssize_t limit, how given, int *result)
{
  batch taken;
  taken.n = taken.n_copied = taken.has_held = 0;
  taken.room = FEW;
  taken.messages = taken.few_messages;
  taken.copied = taken.few_copied;
  taken.memory = NULL;
  *result = take_batch(self, limit, given, &taken);
  if (taken.n) {
    PyObject *list = batch_hand_over(self, &taken);
    *result = list ? BUSQ_OK : RAISED;
    return list;
  }
  return NULL;
}

/* ---- waiting ---- */

static int wait_step(void *peer, int64_t left_ns)
{
  return busq_peer_wait_spun(peer, left_ns); /* what calls it has spun */
}

/* Until there may be a message: BUSQ_OK, or RAISED; the deadline counts from the first wait. */
static int await_message(Port *self, int64_t timeout_ns, int64_t *deadline_ns)
{
  if (timeout_ns > 0 && *deadline_ns == timeout_ns)
    *deadline_ns = now_ns() + timeout_ns;
  const int result = gate_run(self->state, wait_step, self->peer, *deadline_ns, 0, NULL);
  if (result == BUSQ_EMPTY)
    error_raise(self->state, result);
  else if (result != BUSQ_OK && result != RAISED)
    return result;
  return result == BUSQ_OK ? BUSQ_OK : RAISED;
}

/* ---- the methods ---- */

__attribute__((always_inline)) static inline PyObject *receive(Port *self, Py_ssize_t limit, int is_ack, int64_t timeout_ns)
{
  const how given = {is_ack, timeout_ns != 0, 0};
  int64_t deadline_ns = timeout_ns;
  int result = BUSQ_OK;
  do {
    PyObject *received = NULL;
    if (self->filter)
      result = RECEIVE_FILTERED;
    else
      received = limit ? receive_many(self, limit, given, &result) : (PyObject *)receive_one(self, given, &result);
    if (received)
      return received;
    if (result == RECEIVE_FILTERED)
      return filter_receive(self, receive_any, limit, is_ack, deadline_ns == timeout_ns ? deadline_of(timeout_ns) : deadline_ns);
    if (result == BUSQ_EMPTY)
      result = await_message(self, timeout_ns, &deadline_ns);
  } while (result == BUSQ_OK);
  return result == RAISED ? NULL : error_raise(self->state, result);
}

/* All the steps of receiving one message are put into this function: as calls of each other they cost 2 ns. */
__attribute__((noinline)) static PyObject *receive_single(Port *self, int is_ack, int64_t timeout_ns)
{
  return receive(self, 0, is_ack, timeout_ns);
}

static PyObject *receive_with(Port *self, PyObject *timeout, PyObject *ack, Py_ssize_t limit)
{
  int64_t timeout_ns;
  int is_ack;
  if (!ack_read(ack, &is_ack) || !timeout_read(timeout, &timeout_ns))
    return NULL;
  return limit ? receive(self, limit, is_ack, timeout_ns) : receive_single(self, is_ack, timeout_ns);
}

/* Reads timeout and ack, both by name, as most calls have them; false where there is more to it. */
static int options_read(const busq_state *state, PyObject *names, PyObject *const *given, PyObject **timeout, PyObject **ack)
{
  const Py_ssize_t n = PyTuple_Size(names);
  *timeout = *ack = NULL;
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *name = PyTuple_GetItem(names, i);
    if (name == state->arguments[ARGUMENT_TIMEOUT])
      *timeout = given[i];
    else if (name == state->arguments[ARGUMENT_ACK])
      *ack = given[i];
    else
      return 0;
  }
  return 1;
}

PyObject *port_recv(Port *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names);
PyObject *port_recv(Port *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names)
{
  static const signature expected = {"Peer", "recv", {ARGUMENT_TIMEOUT, ARGUMENT_ACK}, 1, 0};
  PyObject *values[ARGUMENTS_MAX];
  if (!port_has_joined(self))
    return NULL;
  if (!n_args && !names)
    return receive_single(self, 0, -1);
  if (n_args == 0 && options_read(self->state, names, args, &values[0], &values[1]))
    return receive_with(self, values[0], values[1], 0);
  if (!arguments_read(self->state, (PyObject *)self, &expected, args, n_args, names, values))
    return NULL;
  return receive_with(self, values[0], values[1], 0);
}

PyObject *port_recv_many(Port *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names);
PyObject *port_recv_many(Port *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names)
{
  static const signature expected = {"Peer", "recv_many", {ARGUMENT_LIMIT, ARGUMENT_TIMEOUT, ARGUMENT_ACK}, 2, 1};
  PyObject *values[ARGUMENTS_MAX];
  Py_ssize_t limit;
  if (!port_has_joined(self) || !arguments_read(self->state, (PyObject *)self, &expected, args, n_args, names, values) ||
      !limit_read(values[0], &limit))
    return NULL;
  return receive_with(self, values[1], values[2], limit);
}

/* Receives for an iterator, which the end of the bus ends. */
PyObject *port_next(Port *self, PyObject *unused);
PyObject *port_next(Port *self, PyObject *unused)
{
  (void)unused;
  if (!port_has_joined(self))
    return NULL;
  PyObject *message = receive_single(self, 0, -1);
  if (!message && busq_is_shut_down_error((PyObject *)self)) {
    PyErr_Clear();
    PyErr_SetNone(PyExc_StopIteration);
  }
  return message;
}

/* ---- for event loops ---- */

static PyObject *receive_try(Port *self, Py_ssize_t limit, int is_ack)
{
  const how given = {is_ack, 0, 0};
  int result;
  do {
    PyObject *received = NULL;
    result = RECEIVE_FILTERED;
    if (!self->filter)
      received = limit ? receive_many(self, limit, given, &result) : (PyObject *)receive_one(self, given, &result);
    if (result == RECEIVE_FILTERED)
      received = filter_take(self, receive_any, limit, is_ack, 0, &result);
    if (received || result == FILTER_BUSY)
      return received;
    if (result == BUSQ_EMPTY)
      result = busq_port_look((PyObject *)self); /* the end of the bus is seen there */
  } while (result == BUSQ_OK);
  if (result != BUSQ_EMPTY && result != RAISED)
    error_raise(self->state, result);
  return NULL;
}

PyObject *busq_port_recv_try(PyObject *port, int is_ack)
{
  return receive_try((Port *)port, 0, is_ack);
}

PyObject *busq_port_recv_many_try(PyObject *port, Py_ssize_t limit, int is_ack)
{
  return receive_try((Port *)port, limit, is_ack);
}

int busq_port_look(PyObject *port)
{
  return busq_peer_wait(((Port *)port)->peer, 0);
}

int busq_is_shut_down_error(PyObject *port)
{
  return PyErr_ExceptionMatches(((Port *)port)->state->shut_down_error);
}
