/* SPDX-License-Identifier: Apache-2.0 */
#include "python/message.h"
#include "python/threads.h"
#include <busq_texts.h>
#include <string.h>

#define CONTENT_BEGIN sizeof(PyObject)
#define CONTENT_BYTES (sizeof(Message) - CONTENT_BEGIN)

/* In two halves: from some size on, gcc clears with `rep stos`, which takes longer than all stores of a message. */
static inline void content_clear(Message *message)
{
  enum { HALF = CONTENT_BYTES / 2 };
  char *content = (char *)message + CONTENT_BEGIN;
  memset(content, 0, HALF);
  memset(content + HALF, 0, CONTENT_BYTES - HALF);
}

/* Room that was allocated together with a message; an object of a subclass has its own fields there, and never this. */
static message_more *more_behind(Message *message)
{
  return (message_more *)(void *)(message + 1);
}

static void more_clear(message_more *more)
{
  memset((char *)more + sizeof more->pinned, 0, sizeof *more - sizeof more->pinned);
}

Message *message_new(busq_state *state, busq_peer *peer, int has_more)
{
  Message *message = PyObject_Malloc(sizeof *message + (has_more ? sizeof(message_more) : 0));
  if (!message)
    return (Message *)PyErr_NoMemory();
  PyObject_Init((PyObject *)message, (PyTypeObject *)state->message_type);
  content_clear(message);
  message->state = state;
  message->peer = peer;
  if (has_more) {
    message->more = more_behind(message);
    more_clear(message->more);
  }
  return message;
}

int message_need_more(Message *self)
{
  if (self->more)
    return 1;
  message_more *more = PyObject_Malloc(sizeof *more);
  if (!more) {
    PyErr_NoMemory();
    return 0;
  }
  more_clear(more);
  self->more = more;
  return 1;
}

Message *message_move(Message *message, PyObject *type)
{
  Message *moved = (Message *)PyType_GenericAlloc((PyTypeObject *)type, 0);
  if (!moved)
    return NULL;
  moved->is_derived = 1;
  message_more *more = message->more;
  if (more == more_behind(message)) {
    if (!message_need_more(moved)) {
      Py_DECREF(moved);
      return NULL;
    }
    *moved->more = *more;
    more = moved->more;
  }
  memcpy((char *)moved + CONTENT_BEGIN, (char *)message + CONTENT_BEGIN, CONTENT_BYTES);
  content_clear(message);
  message->state = moved->state;
  moved->more = more;
  moved->is_derived = 1;
  return moved;
}

/* The core lets go of handles that came alive with a message where it gives it back; otherwise they end here. */
static void let_go_handles(Message *self)
{
  if (!(self->more->pinned.form & BUSQ_FORM_ENVELOPE))
    return;
  for (uint32_t i = 0; i < self->more->pinned.n_handles; i++)
    if (self->more->pinned.handles_alive >> i & 1)
      busq_peer_handle_release(self->peer, busq_message_node(&self->more->pinned, self->more->pinned.n_nodes + i));
  self->more->pinned.handles_alive = 0;
}

/* An offered message is let go without releasing it: it comes again, to a successor. */
static void message_unpin(Message *self)
{
  PeerOwner *peer_owner = self->peer_owner;
  if (!peer_owner)
    return;
  let_go_handles(self);
  if (!self->is_offered)
    busq_peer_release(self->peer, &self->more->pinned);
  self->peer_owner = NULL;
  Py_DECREF(peer_owner);
}

/* Does anything look, in place, at one that waits to be acknowledged? */
static int is_shown(const Message *self)
{
  const uint32_t state = self->more->pin ? BUSQ_PUBLISHED(self->more->pin->pin.state) : BUSQ_PIN_EMPTY;
  return state != BUSQ_PIN_KEPT && state != BUSQ_PIN_EMPTY;
}

/* Lets go of one that was acknowledged before it was read, and has a pin. */
static void drop_share(Message *self)
{
  Pin *pin = self->is_offered ? NULL : self->more->pin;
  if (!pin)
    return;
  self->more->pin = NULL;
  pin_view_end(pin);
  Py_DECREF(pin);
}

void message_give_back(Message *self)
{
  const uint32_t mode = self->is_offered ? BUSQ_TAKE_OFFERED : BUSQ_TAKE_PINNED;
  if (self->peer_owner && busq_peer_give_back(self->peer, mode, &self->more->pinned) == BUSQ_OK) {
    self->more->pinned.handles_alive = 0;
    Py_CLEAR(self->peer_owner);
  }
}

static void message_drop_more(Message *self)
{
  message_more *more = self->more;
  drop_share(self);
  Py_XDECREF(more->handles);
  Py_XDECREF(more->codec);
  Py_XDECREF(more->event);
  Py_XDECREF(more->group);
  Py_XDECREF(more->replier);
  Py_XDECREF(more->wide);
  Py_XDECREF(more->pin);
  if (more != more_behind(self))
    PyObject_Free(more);
}

/* At the end of an interpreter the module, and its state, may be gone before the last message. */
static void message_dealloc(Message *self)
{
  PyTypeObject *type = Py_TYPE(self);
  if (self->comes_back && self->is_offered && !is_shown(self))
    message_give_back(self);
  if (self->peer_owner)
    message_unpin(self);
  Py_XDECREF(self->data);
  Py_XDECREF(self->sender);
  Py_XDECREF(self->view);
  Py_XDECREF(self->node);
  if (self->more)
    message_drop_more(self);
  if (self->is_derived) {
    object_free((PyObject *)self, type);
  } else {
    PyObject_Free(self);
    Py_DECREF(type);
  }
}

/* ---- the payload ---- */

/* A message of another order gives its place back with the view that it holds. */
static PyObject *message_read_view(Message *self)
{
  PyObject *data = PyBytes_FromObject(self->view);
  if (!data && PyErr_ExceptionMatches(PyExc_ValueError))
    PyErr_SetString(PyExc_ValueError, "the view of this message was released, and its memory with it: read `data` before that");
  if (data && self->more && self->more->multicast) {
    BUSQ_PUBLISH(self->data, new_ref(data));
    Py_CLEAR(self->view);
  }
  return data;
}

/* Raises what failed for one that waits, or waited, to be acknowledged. */
static PyObject *offered_fail(const Message *self, int result)
{
  if (result == BUSQ_CLOSED)
    PyErr_SetString(self->state->shut_down_error,
                    "this message was not read before its peer was closed, nor acknowledged: it comes to a successor");
  else
    error_raise(self->state, result);
  return NULL;
}

/* The pin of its views, made with the first one. */
static int offered_need_pin(Message *self)
{
  if (self->more->pin)
    return BUSQ_OK;
  if (busq_peer_is_forked(self->peer)) /* the parent may release it at any moment, and its memory be used again */
    return BUSQ_FORKED;
  Pin *pin = pin_new(self->state);
  if (!pin)
    return RAISED;
  busq_message pinned = self->more->pinned;
  pinned.handles_alive = 0; /* those stay with the message */
  const int result = busq_pin_open(&pin->pin, self->peer, BUSQ_TAKE_OFFERED, &pinned);
  if (result == BUSQ_OK) {
    busq_pin_adopt(&pin->pin, self->peer);
    pin->peer_owner = (PeerOwner *)new_ref((PyObject *)self->peer_owner);
    self->more->pin = pin;
  } else {
    Py_DECREF(pin);
  }
  return result;
}

/* Each view is one by itself. */
static PyObject *offered_show(Message *self)
{
  int result = offered_need_pin(self);
  Pin *pin = result == BUSQ_OK ? self->more->pin : NULL;
  if (pin)
    result = busq_pin_show(&pin->pin);
  if (result == BUSQ_OK)
    return pin_view(self->state, pin, pin->pin.message.data, self->size, 1);
  return result == RAISED ? NULL : offered_fail(self, result);
}

static PyObject *offered_read(Message *self)
{
  PyObject *shown = offered_show(self);
  PyObject *data = shown ? PyBytes_FromObject(shown) : NULL;
  Py_XDECREF(shown);
  if (data && self->data) { /* since the view was made, which may have collected garbage */
    Py_DECREF(data);
    return new_ref(self->data);
  }
  if (data) {
    BUSQ_PUBLISH(self->data, new_ref(data));
    drop_share(self);
  }
  return data;
}

/* There is a pin, or will be one with the first view. */
static int is_by_pin(const Message *self)
{
  return self->is_offered || (self->more && self->more->pin);
}

static PyObject *message_read(Message *self)
{
  if (self->data) /* since it was looked for */
    return new_ref(self->data);
  if (self->view)
    return message_read_view(self);
  if (is_by_pin(self))
    return offered_read(self);
  if (busq_peer_is_forked(self->peer))
    return error_raise(self->state, BUSQ_FORKED);
  PyObject *data = PyBytes_FromStringAndSize(self->more->pinned.data, (Py_ssize_t)self->size);
  if (!data)
    return NULL;
  BUSQ_PUBLISH(self->data, new_ref(data));
  message_unpin(self);
  return data;
}

static PyObject *message_get_data(Message *self, void *closure)
{
  (void)closure;
  PyObject *data = BUSQ_PUBLISHED(self->data); /* once it is there, it stays */
  if (data)
    return new_ref(data);
  BUSQ_GUARD(self)
  data = message_read(self);
  BUSQ_GUARD_END
  return data;
}

/* The hold goes over to the view: releasing the view releases the message.  Making a view may collect garbage, in which anything may
 * happen: also another thread that asks this message for its view, or its data.  So it makes a view whose pin is empty, and only
 * then, in one step, the one becomes the holder and the other ceases to be. */
static PyObject *message_make_view(Message *self)
{
  Pin *pin = pin_new(self->state);
  const int result = pin ? busq_pin_open(&pin->pin, self->peer, BUSQ_TAKE_PINNED, &self->more->pinned) : RAISED;
  PyObject *view = result == BUSQ_OK ? pin_view(self->state, pin, pin->pin.message.data, self->size, 1) : NULL;
  if (result != BUSQ_OK && result != RAISED)
    error_raise(self->state, result);
  if (view && !self->data && !self->view) {
    busq_pin_adopt(&pin->pin, self->peer);
    (void)busq_pin_show(&pin->pin); /* received by this process, and not to be acknowledged: nothing in that can fail */
    pin->peer_owner = self->peer_owner;
    self->peer_owner = NULL;
    self->view = new_ref(view);
  }
  const int is_made = view != NULL;
  Py_XDECREF(view);
  Py_XDECREF(pin);
  if (!is_made)
    return NULL;
  return self->data ? PyMemoryView_FromObject(self->data) : new_ref(self->view);
}

static PyObject *message_show(Message *self)
{
  if (self->data)
    return PyMemoryView_FromObject(self->data);
  if (self->view)
    return new_ref(self->view);
  if (is_by_pin(self))
    return offered_show(self);
  return busq_peer_is_forked(self->peer) ? error_raise(self->state, BUSQ_FORKED) : message_make_view(self);
}

static PyObject *message_view(Message *self, PyObject *unused)
{
  PyObject *view;
  (void)unused;
  BUSQ_GUARD(self)
  view = message_show(self);
  BUSQ_GUARD_END
  return view;
}

static PyObject *message_object(Message *self, PyObject *unused)
{
  (void)unused;
  if (self->form != BUSQ_FORM_OBJECT && self->form != BUSQ_FORM_CODED) {
    PyErr_SetString(PyExc_ValueError,
                    "this message is no object: it was sent by `send`, not by `send_object`; read its data");
    return NULL;
  }
  PyObject *read = helper(self->state, "read_object");
  PyObject *object = NULL;
  if (read)
    object = PyObject_CallFunctionObjArgs(read, (PyObject *)self, self->more && self->more->codec ? self->more->codec : Py_None,
                                          self->form == BUSQ_FORM_OBJECT ? Py_True : Py_False, NULL);
  Py_XDECREF(read);
  return object;
}

/* ---- what it is ---- */

static PyObject *message_get_sender(Message *self, void *closure)
{
  (void)closure;
  return new_ref(self->sender);
}

static PyObject *message_get_sender_life(Message *self, void *closure)
{
  (void)closure;
  const int is_of_a_node = self->kind == KIND_NODE_DESTROYED || self->kind == KIND_NODE_RELEASED;
  return is_of_a_node || !self->life ? new_ref(Py_None) : PyLong_FromUnsignedLongLong(self->life);
}

static PyObject *message_get_kind(Message *self, void *closure)
{
  (void)closure;
  return new_ref(self->state->kinds[self->kind]);
}

static PyObject *message_get_node(Message *self, void *closure)
{
  (void)closure;
  return new_ref(self->node ? self->node : Py_None);
}

static PyObject *message_get_handles(Message *self, void *closure)
{
  (void)closure;
  return self->more && self->more->handles ? new_ref(self->more->handles) : PyTuple_New(0);
}

static PyObject *message_get_redelivered(Message *self, void *closure)
{
  (void)closure;
  return PyBool_FromLong(self->is_redelivered);
}

static PyObject *message_get_place(Message *self, void *closure)
{
  busq_wide tail;
  (void)closure;
  if (!self->more || !self->more->wide)
    Py_RETURN_NONE;
  memcpy(&tail, PyBytes_AsString(self->more->wide) + PyBytes_Size(self->more->wide) - sizeof tail, sizeof tail);
  return Py_BuildValue("(KI)", (unsigned long long)tail.place, tail.index);
}

static PyObject *message_repr(Message *self)
{
  return PyUnicode_FromFormat("<Message of %llu bytes from %R>", (unsigned long long)self->size, self->sender);
}

static PyObject *message_reduce(Message *self, PyObject *unused)
{
  (void)self;
  (void)unused;
  PyErr_SetString(PyExc_TypeError, "a message can't be pickled; send its data");
  return NULL;
}

/* ---- acknowledging and replying ---- */

/* Read, it is let go of, unless something looks at it; otherwise it stays, and this message has a share in it, as if it looked. */
static int offered_ack(Message *self)
{
  if (self->data && !self->more->pin)
    return busq_peer_ack(self->peer, &self->more->pinned);
  int result = offered_need_pin(self);
  Pin *pin = self->more->pin;
  if (result == BUSQ_OK && !self->data)
    result = busq_pin_show(&pin->pin);
  if (result != BUSQ_OK)
    return result;
  result = busq_pin_ack(&pin->pin);
  if (result != BUSQ_OK && !self->data)
    pin_view_end(pin);
  return result;
}

/* Acknowledging twice is harmless. */
static PyObject *message_ack(Message *self, PyObject *unused)
{
  int result = BUSQ_OK;
  (void)unused;
  BUSQ_GUARD(self)
  if (self->is_offered) {
    result = offered_ack(self);
    if (result == BUSQ_OK) {
      self->is_offered = 0;
      if (self->data)
        Py_CLEAR(self->more->pin);
      if (self->data || self->more->pin)
        Py_CLEAR(self->peer_owner);
    }
  }
  BUSQ_GUARD_END
  if (result != BUSQ_OK)
    return result == RAISED ? NULL : error_raise(self->state, result);
  Py_RETURN_NONE;
}

typedef struct {
  const Message *message;
  const payload *data;
  uint32_t sent;
} replying;

/* Looked at again after every slice: its asker may have given up.  BUSQ_EMPTY: it has. */
static int reply_step(void *call, int64_t left_ns)
{
  replying *self = call;
  return busq_peer_reply(self->message->peer, &self->message->more->request, self->data->parts, self->data->n_parts, left_ns,
                         &self->sent);
}

static void reply_fail(const Message *self, int result)
{
  PyObject *dead = result == BUSQ_PEER_DEAD ? PyObject_GetAttrString(self->state->errors, "PeerDead") : NULL;
  if (dead)
    PyErr_Format(dead, "%R, who asked, has left or died: nobody waits for the reply", self->sender);
  else
    error_raise(self->state, result);
  Py_XDECREF(dead);
}

static int message_reply_once(Message *self, const payload *data, int64_t timeout_ns)
{
  replying call = {self, data, 0};
  int is_first;
  BUSQ_GUARD(self)
  is_first = !self->is_replied;
  self->is_replied = 1;
  BUSQ_GUARD_END
  if (!is_first) {
    PyErr_SetString(PyExc_ValueError, "this message was replied to before: each is replied to once");
    return -1;
  }
  int result = reply_step(&call, 0);
  if (result == BUSQ_INTERRUPTED || (result == BUSQ_FULL && timeout_ns != 0))
    result = gate_run(self->state, reply_step, &call, deadline_of(timeout_ns), 0, &call.sent);
  if (result == BUSQ_OK || result == BUSQ_EMPTY)
    return 0;
  if (!call.sent)
    self->is_replied = 0;
  if (result != RAISED) {
    reply_fail(self, result);
    error_set_sent((Py_ssize_t)call.sent);
  }
  return -1;
}

static PyObject *message_reply(Message *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names)
{
  static const signature expected = {"Message", "reply", {ARGUMENT_DATA, ARGUMENT_TIMEOUT}, 1, 1};
  PyObject *values[ARGUMENTS_MAX];
  payload data;
  int64_t timeout_ns;
  const int is_asked = self->more && self->more->replier;
  if (!arguments_read(self->state, (PyObject *)self, &expected, args, n_args, names, values) ||
      !payload_read(&data, values[0], "data", is_asked ? &self->more->request : NULL, sizeof(busq_request))) {
    error_set_sent(0);
    return NULL;
  }
  int result = timeout_read(values[1], &timeout_ns) ? 0 : -1;
  if (result == 0 && !is_asked) {
    PyErr_SetString(PyExc_ValueError,
                    "nobody waits for a reply to this message: it was sent, and only one that was asked has a reply");
    result = -1;
  } else if (result == 0) {
    result = message_reply_once(self, &data, timeout_ns);
  } else {
    error_set_sent(0);
  }
  payload_free(&data);
  return result < 0 ? NULL : new_ref(Py_None);
}

/* ---- the type ---- */

static PyObject *message_refuse(PyTypeObject *type, PyObject *args, PyObject *named)
{
  (void)type, (void)args, (void)named;
  PyErr_SetString(PyExc_TypeError, "a Message is made by receiving: call `recv`, `recv_many` or `for message in peer`");
  return NULL;
}

static PyMethodDef message_methods[] = {{"__reduce__", NOARGS(message_reduce), NULL},
                                        {"ack", NOARGS(message_ack), BUSQ_TEXT_Message_ack},
                                        {"reply", FASTCALL(message_reply), BUSQ_TEXT_Message_reply},
                                        {"view", NOARGS(message_view), BUSQ_TEXT_Message_view},
                                        {"object", NOARGS(message_object), BUSQ_TEXT_Message_object},
                                        {NULL, NULL, 0, NULL}};

static PyGetSetDef message_getset[] = {
    {"data", (getter)message_get_data, NULL, BUSQ_TEXT_Message_data, NULL},
    {"sender", (getter)message_get_sender, NULL, BUSQ_TEXT_Message_sender, NULL},
    {"sender_life", (getter)message_get_sender_life, NULL, BUSQ_TEXT_Message_sender_life, NULL},
    {"kind", (getter)message_get_kind, NULL, BUSQ_TEXT_Message_kind, NULL},
    {"node", (getter)message_get_node, NULL, BUSQ_TEXT_Message_node, NULL},
    {"handles", (getter)message_get_handles, NULL, BUSQ_TEXT_Message_handles, NULL},
    {"redelivered", (getter)message_get_redelivered, NULL, BUSQ_TEXT_Message_redelivered, NULL},
    {"place", (getter)message_get_place, NULL, BUSQ_TEXT_Message_place, NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot message_slots[] = {{Py_tp_doc, BUSQ_TEXT_Message},
                                      {Py_tp_dealloc, (void *)message_dealloc},
                                      {Py_tp_methods, message_methods},
                                      {Py_tp_getset, message_getset},
                                      {Py_tp_repr, (void *)message_repr},
                                      {Py_tp_new, (void *)message_refuse},
                                      {0, NULL}};

/* ---- what the library wants to know of a message ---- */

static Message *checked(PyObject *module, PyObject *object)
{
  const busq_state *state = PyModule_GetState(module);
  if (PyObject_TypeCheck(object, (PyTypeObject *)state->message_type))
    return (Message *)object;
  error_wrong_type("message", object, "a message");
  return NULL;
}

static PyObject *group_number(PyObject *module, PyObject *object)
{
  const Message *message = checked(module, object);
  return message ? PyLong_FromLong(message->group_number) : NULL;
}

/* The view that an event brings, and the name of its group. */
static PyObject *event_view(PyObject *module, PyObject *object)
{
  const Message *message = checked(module, object);
  return message ? new_ref(message->more && message->more->event ? message->more->event : Py_None) : NULL;
}

static PyObject *event_group(PyObject *module, PyObject *object)
{
  const Message *message = checked(module, object);
  return message ? new_ref(message->more && message->more->group ? message->more->group : Py_None) : NULL;
}

static PyObject *multicast_of(PyObject *module, PyObject *object)
{
  const Message *message = checked(module, object);
  return message ? PyLong_FromUnsignedLongLong(message->more ? message->more->multicast : 0) : NULL;
}

/* The tail of a message of a wide group, as its bridge has written it; None for any other. */
static PyObject *wide_tail(PyObject *module, PyObject *object)
{
  const Message *message = checked(module, object);
  return message ? new_ref(message->more && message->more->wide ? message->more->wide : Py_None) : NULL;
}

/* The form of its payload, for those that hand a message on as it is. */
static PyObject *form_of(PyObject *module, PyObject *object)
{
  const Message *message = checked(module, object);
  return message ? PyLong_FromUnsignedLong(message->form) : NULL;
}

/* Makes one of another order: of its class, its payload as bytes or as a view, its sender, and the name of its send. */
static PyObject *ordered_message(PyObject *module, PyObject *args)
{
  busq_state *state = PyModule_GetState(module);
  PyObject *type, *shown, *sender;
  unsigned long long multicast;
  if (!PyArg_ParseTuple(args, "OOUK", &type, &shown, &sender, &multicast))
    return NULL;
  const Py_ssize_t size = PyObject_Size(shown);
  Message *message = size < 0 ? NULL : (Message *)PyType_GenericAlloc((PyTypeObject *)type, 0);
  if (!message)
    return NULL;
  message->state = state;
  message->is_derived = 1;
  if (!message_need_more(message)) {
    Py_DECREF(message);
    return NULL;
  }
  if (PyBytes_Check(shown))
    message->data = new_ref(shown);
  else
    message->view = new_ref(shown);
  message->size = (uint64_t)size;
  message->sender = new_ref(sender);
  message->life = message_life(1, (uint16_t)(multicast >> 32)); /* with other orders each slot is given once */
  message->more->multicast = multicast;
  return (PyObject *)message;
}

/* ---- for queues: what is got is kept, acknowledged or given back, in one step each ---- */

/* 1 where the first byte is 0; -1 with an exception. */
static int begins_with_zero(const Message *message, PyObject *view)
{
  if (!message->size)
    return 0;
  if (message->data)
    return *PyBytes_AsString(message->data) == 0;
  PyObject *first = PySequence_GetItem(view, 0);
  const long byte = first ? PyLong_AsLong(first) : -1;
  Py_XDECREF(first);
  return byte < 0 ? -1 : byte == 0;
}

/* The object of a view, by the function, or by that which `unpack` returns for it; *has_begun where one of them was called. */
static PyObject *load_view(const Message *message, PyObject *view, PyObject *function, PyObject *unpack, int *has_begun)
{
  const int is_packed = begins_with_zero(message, view);
  if (is_packed < 0)
    return NULL;
  PyObject *made = is_packed ? PyObject_CallFunctionObjArgs(unpack, view, NULL) : NULL;
  if (is_packed && !made)
    return NULL;
  *has_begun = 1;
  PyObject *loaded = made ? PyObject_CallFunctionObjArgs(made, NULL) : PyObject_CallFunctionObjArgs(function, view, NULL);
  Py_XDECREF(made);
  return loaded;
}

/* load(message, function, unpack): what the function makes of its view; or, where that begins with 0, what that makes which `unpack`
 * returns for it.  Where that fails the message is acknowledged: it would fail again.  Where `unpack` fails, that was a handler of
 * a signal. */
static PyObject *load(PyObject *module, PyObject *args)
{
  PyObject *object, *function, *unpack;
  if (!PyArg_ParseTuple(args, "OOO", &object, &function, &unpack))
    return NULL;
  Message *message = checked(module, object);
  PyObject *view = message ? message_view(message, NULL) : NULL;
  if (!view)
    return NULL;
  int has_begun = 0;
  PyObject *loaded = load_view(message, view, function, unpack, &has_begun);
  Py_DECREF(view);
  if (!loaded && has_begun && PyErr_ExceptionMatches(PyExc_Exception)) {
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyObject *done = message_ack(message, NULL);
    Py_XDECREF(done);
    PyErr_Restore(type, error, trace); /* in place of one of acknowledging */
  }
  return loaded;
}

/* ack_next(messages): takes the first out of a deque and acknowledges it; False where there is none. */
static PyObject *ack_next(PyObject *module, PyObject *messages)
{
  PyObject *first = PyObject_CallMethod(messages, "popleft", NULL);
  if (!first && PyErr_ExceptionMatches(PyExc_IndexError)) {
    PyErr_Clear();
    Py_RETURN_FALSE;
  }
  Message *message = first ? checked(module, first) : NULL;
  PyObject *done = message ? message_ack(message, NULL) : NULL;
  Py_XDECREF(first);
  if (!done)
    return NULL;
  Py_DECREF(done);
  Py_RETURN_TRUE;
}

static PyObject *give_back(PyObject *module, PyObject *object)
{
  Message *message = checked(module, object);
  if (!message)
    return NULL;
  BUSQ_GUARD(message)
  if (message->is_offered)
    message_give_back(message);
  BUSQ_GUARD_END
  Py_RETURN_NONE;
}

PyMethodDef message_functions[] = {{"group_number", ONE_ARG(group_number), NULL},
                                   {"event_view", ONE_ARG(event_view), NULL},
                                   {"event_group", ONE_ARG(event_group), NULL},
                                   {"multicast_of", ONE_ARG(multicast_of), NULL},
                                   {"form_of", ONE_ARG(form_of), NULL},
                                   {"wide_tail", ONE_ARG(wide_tail), NULL},
                                   {"ordered_message", VARARGS(ordered_message), NULL},
                                   {"load", VARARGS(load), NULL},
                                   {"ack_next", ONE_ARG(ack_next), NULL},
                                   {"give_back", ONE_ARG(give_back), NULL},
                                   {NULL, NULL, 0, NULL}};

PyType_Spec message_spec = {"busq._native._core.Message", sizeof(Message), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                            message_slots};
