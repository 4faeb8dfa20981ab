/* SPDX-License-Identifier: Apache-2.0 */
#include "python/port.h"
#include "python/threads.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>
/*
 * The short way from Python to send and recv.
 *
 * Guarantee: exactly what busq/_port/core.py does through cffi, or else its very code: whatever is not the common case (bad
 * arguments, unknown names, errors, payloads that are not plain bytes, what a codec has written, queues that are full) is handed to the
 * methods _send_slow, _recv_slow and so on of the Python subclass.  Without this module everything works, more slowly.
 *
 * Mechanism: a base class with METH_FASTCALL methods that call the core through a table of functions, so that there is one
 * core in the process.  The interpreter lock is kept for what takes nanoseconds and released for what may wait.  Where there is
 * no such lock, threads.h keeps threads apart that use the same object; what is asked goes the slow way there, since requests of
 * several threads meet in dictionaries.  What belongs to an interpreter stands in the module's state (port.h); the core's
 * functions, and the texts of methods, are those of the process.
 *
 * Not given: anything beyond the limited API of CPython 3.10.
 */

/* Payloads up to this size are copied out when they are received; larger ones stay in place until they are read. */
#define COPY_BYTES_MAX 4096
/* Payloads up to this size are copied in with the interpreter lock held, and parts gathered. */
#define SEND_BYTES_MAX 65536
#define TARGETS_MAX 64

typedef struct {
  uint32_t incarnation;
  PyObject *name;
} sender_name;

typedef struct {
  PyObject_HEAD
  busq_peer *peer;
  const busq_fast_state *state; /* NULL, as all else, before it is attached */
  PyObject *module;  /* owns the state */
  PyObject *handle;  /* owns the peer */
  PyObject *targets; /* dict: name -> target */
  sender_name *names;
  PyObject *replaced; /* by another one in `names`; or NULL */
  busq_flag names_flag; /* of both */
  uint32_t slots;
  /* Of one that has asked; see busq/_port/requests.py. */
  busq_peer *replies;
  uint64_t replies_target;
  PyObject *requests, *replies_handle;
  PyObject *waiting, *leader, *asleep, *numbers, *request_type; /* of `requests` */
  PyObject *last_node; /* that a message was sent to, and its number */
  uint64_t last_node_number;
  PyObject *nodes; /* dict: number -> busq.nodes.Node, of its own; NULL before there is one */
  int has_codec; /* for objects; the port holds it in Python's sight, since a codec may hold the port */
  char is_covered; /* what is received goes through Python first: busq/_state/group_state.py */
} Port;

typedef struct {
  PyObject_HEAD
  PyObject *data;   /* bytes, or NULL while the payload is still in place */
  PyObject *sender; /* str */
  PyObject *handle; /* keeps the peer alive while the payload is in place, or while it waits to be acknowledged; not the
                     * Port, which may hold this message: no collector would take such a circle apart */
  PyObject *view;
  PyObject *node;   /* that it was sent to, or NULL */
  busq_peer *peer;
  uint16_t is_offered; /* not acknowledged so far */
  uint16_t is_object;  /* pickled */
  int is_redelivered;
  int is_replied;
  busq_request request;  /* of one that was asked: */
  PyObject *replier;     /* the handle that received it, or NULL */
  PyObject *slow_reply;  /* a busq._port.core.Reply, once one was needed */
  busq_message pinned; /* where the message waits to be released or acknowledged, if it does */
} Message;

/* Owns the pin of a payload that is shown in place, or of a draft; called by cffi when a view of it is released or dropped. */
typedef struct {
  PyObject_HEAD
  PyObject *handle; /* keeps the peer: what the pin lets go of last must not be all of it, for closing takes its time */
  busq_pin pin;
} Pin;

/* Memory for a message: its owner is the pin, which its views keep as well. */
typedef struct {
  PyObject_HEAD
  PyObject *port;
  Pin *pin;         /* NULL once it was sent or given back */
  PyObject *buffer; /* the view that was handed out last, or NULL */
} Draft;

/* The base of busq.nodes.Handle. */
typedef struct {
  PyObject_HEAD
  busq_peer *peer; /* that may send to it */
  uint64_t node;
} Handle;

/* Of the one core in this process: a constant, written by each interpreter that imports busq. */
static const busq_calls *calls;

static busq_fast_state *state_of(PyTypeObject *type)
{
  return PyType_GetModuleState(type);
}

/* With the limited API these cost a call each, but for objects of the type itself. */
#define IS_STR(object) (PyUnicode_CheckExact(object) || PyUnicode_Check(object))
#define IS_BYTES(object) (PyBytes_CheckExact(object) || PyBytes_Check(object))
#define IS_TUPLE(object) (PyTuple_CheckExact(object) || PyTuple_Check(object))

/* ---- pins ---- */

static Pin *pin_new(const busq_fast_state *state)
{
  Pin *pin = PyObject_New(Pin, (PyTypeObject *)state->pin_type);
  if (pin) {
    pin->handle = NULL;
    pin->pin = (busq_pin){.state = BUSQ_PIN_EMPTY};
  }
  return pin;
}

static void pin_dealloc(Pin *self)
{
  PyTypeObject *type = Py_TYPE(self);
  calls->pin_drop(&self->pin);
  Py_XDECREF(self->handle);
  PyObject_Free(self);
  Py_DECREF(type);
}

static PyType_Slot pin_slots[] = {
    {Py_tp_doc, "A hold on a payload that is shown in place."},
    {Py_tp_dealloc, (void *)pin_dealloc},
    {0, NULL}};

/* Messages and pins come from receiving only.  The flag has a name since 3.10, but not in every header of the limited API. */
#ifndef Py_TPFLAGS_DISALLOW_INSTANTIATION
#define Py_TPFLAGS_DISALLOW_INSTANTIATION (1UL << 7)
#endif
static PyType_Spec pin_spec = {"busq._native._fast.Pin", sizeof(Pin), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, pin_slots};

/* ---- views ---- */

/* Exporters of buffers are in the limited API since 3.11; struct and slot are the same in 3.10, where they have no names in it. */
#if !defined(Py_LIMITED_API) || Py_LIMITED_API + 0 >= 0x030B0000
typedef Py_buffer Buffer;
#else
typedef struct {
  void *buf;
  PyObject *obj;
  Py_ssize_t len, itemsize;
  int readonly, ndim;
  char *format;
  Py_ssize_t *shape, *strides, *suboffsets;
  void *internal;
} Buffer;
enum {
  PyBUF_WRITABLE = 0x1,
  PyBUF_FORMAT = 0x4,
  PyBUF_ND = 0x8,
  PyBUF_STRIDES = 0x10 | PyBUF_ND
};
#ifndef Py_bf_getbuffer
#define Py_bf_getbuffer 1
#endif
#endif

/* A payload, or the memory of a draft, as it is shown by one memoryview, its slices, and all who look through them. */
typedef struct {
  PyObject_HEAD
  Pin *pin;
  void *data;
  Py_ssize_t size;
  int is_readonly;
} Shown;

/* With the last of those who look the pin lets go; also where an exception is on its way. */
static void shown_dealloc(Shown *self)
{
  PyTypeObject *type = Py_TYPE(self);
  PyObject *kind, *value, *trace;
  PyErr_Fetch(&kind, &value, &trace);
  calls->pin_end(&self->pin->pin, NULL);
  if (self->pin->pin.mode != BUSQ_TAKE_DRAFT) {
    PyObject *handle;
    BUSQ_GUARD(self->pin)
    handle = self->pin->handle;
    self->pin->handle = NULL;
    BUSQ_GUARD_END
    Py_XDECREF(handle);
  }
  Py_DECREF(self->pin);
  PyErr_Restore(kind, value, trace);
  PyObject_Free(self);
  Py_DECREF(type);
}

static int shown_get_buffer(Shown *self, Buffer *filled, int flags)
{
  if (self->is_readonly && flags & PyBUF_WRITABLE) {
    filled->obj = NULL;
    PyErr_SetString(PyExc_BufferError, "the payload of a message is read-only: copy what you want to change");
    return -1;
  }
  Py_INCREF(self);
  *filled = (Buffer){.buf = self->data, .obj = (PyObject *)self, .len = self->size, .itemsize = 1, .ndim = 1};
  filled->readonly = self->is_readonly;
  filled->format = flags & PyBUF_FORMAT ? "B" : NULL;
  filled->shape = flags & PyBUF_ND ? &filled->len : NULL;
  filled->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? &filled->itemsize : NULL;
  return 0;
}

static PyType_Slot shown_slots[] = {{Py_tp_doc, "What a view shows."},
                                    {Py_tp_dealloc, (void *)shown_dealloc},
                                    {Py_bf_getbuffer, (void *)shown_get_buffer},
                                    {0, NULL}};

static PyType_Spec shown_spec = {"busq._native._fast.Shown", sizeof(Shown), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, shown_slots};

/* A memoryview; once it is released or dropped, its part of the pin ends. */
static PyObject *view_of(const busq_fast_state *state, Pin *pin, const void *data, uint64_t size, int is_readonly)
{
  Shown *shown = PyObject_New(Shown, (PyTypeObject *)state->shown_type);
  if (!shown) {
    calls->pin_end(&pin->pin, NULL);
    return NULL;
  }
  Py_INCREF(pin);
  shown->pin = pin;
  shown->data = (void *)(uintptr_t)data;
  shown->size = (Py_ssize_t)size;
  shown->is_readonly = is_readonly;
  PyObject *view = PyMemoryView_FromObject((PyObject *)shown);
  Py_DECREF(shown);
  return view;
}

/* ---- messages ---- */

/* An offered message is let go without releasing it: it comes again, to a successor. */
static void message_unpin(Message *self)
{
  if (self->handle) {
    if (!self->is_offered)
      calls->release(self->peer, &self->pinned);
    Py_CLEAR(self->handle);
  }
}

static void message_dealloc(Message *self)
{
  PyTypeObject *type = Py_TYPE(self);
  message_unpin(self);
  Py_XDECREF(self->data);
  Py_XDECREF(self->sender);
  Py_XDECREF(self->view);
  Py_XDECREF(self->node);
  Py_XDECREF(self->replier);
  Py_XDECREF(self->slow_reply);
  PyObject_Free(self);
  Py_DECREF(type);
}

/* An exception for what the core says. */
static PyObject *message_fail(Message *self, int result)
{
  return PyObject_CallFunction(state_of(Py_TYPE(self))->fail_helper, "i", result);
}

static PyObject *message_read(Message *self)
{
  if (self->data) { /* since we asked */
    Py_INCREF(self->data);
    return self->data;
  }
  if (self->view) /* raises ValueError once the view was released, and the message with it */
    return PyBytes_FromObject(self->view);
  if (calls->is_forked(self->peer)) /* the parent may release it at any moment, and its memory be used again */
    return message_fail(self, BUSQ_FORKED);
  PyObject *data = PyBytes_FromStringAndSize(self->pinned.data, (Py_ssize_t)self->pinned.size_bytes);
  if (!data)
    return NULL;
  Py_INCREF(data);
  BUSQ_PUBLISH(self->data, data);
  message_unpin(self);
  return data;
}

static PyObject *message_get_data(Message *self, void *closure)
{
  (void)closure;
  PyObject *data = BUSQ_PUBLISHED(self->data); /* once it is there, it stays */
  if (data) {
    Py_INCREF(data);
    return data;
  }
  BUSQ_GUARD(self)
  data = message_read(self);
  BUSQ_GUARD_END
  return data;
}

static PyObject *message_get_sender(Message *self, void *closure)
{
  (void)closure;
  Py_INCREF(self->sender);
  return self->sender;
}

static PyObject *message_get_kind(Message *self, void *closure)
{
  (void)self;
  (void)closure;
  return PyUnicode_InternFromString("data");
}

static PyObject *message_get_node(Message *self, void *closure)
{
  (void)closure;
  PyObject *node = self->node ? self->node : Py_None;
  Py_INCREF(node);
  return node;
}

/* One that brings handles is made the slow way. */
static PyObject *message_get_handles(Message *self, void *closure)
{
  (void)self;
  (void)closure;
  return PyTuple_New(0);
}

static PyObject *message_get_redelivered(Message *self, void *closure)
{
  (void)closure;
  return PyBool_FromLong(self->is_redelivered);
}

/* Acknowledging twice is harmless. */
static PyObject *message_ack(Message *self, PyObject *unused)
{
  int result = BUSQ_OK;
  (void)unused;
  BUSQ_GUARD(self)
  if (self->is_offered) {
    result = calls->ack(self->peer, &self->pinned);
    if (result == BUSQ_OK) {
      self->is_offered = 0;
      Py_CLEAR(self->handle);
    }
  }
  BUSQ_GUARD_END
  if (result != BUSQ_OK)
    return message_fail(self, result);
  Py_RETURN_NONE;
}

/* Tries once, with bytes and what is plainly a timeout: a result of the core. */
static int message_reply_fast(Message *self, PyObject *data)
{
  const busq_part parts[] = {{PyBytes_AsString(data), (uint64_t)PyBytes_Size(data)}, {&self->request, sizeof self->request}};
  uint32_t sent;
  const int result = calls->is_awaited(self->peer, self->request.to, self->request.number);
  if (result == BUSQ_EMPTY)
    return BUSQ_OK; /* nobody waits for it */
  return result ? result
                : calls->send_parts(self->peer, &self->request.to, 1, parts, 2, BUSQ_FORM_REPLY, 0, &sent);
}

/* The rest of it is Python's; which also knows from then on whether the reply was sent. */
static PyObject *message_slow_reply(Message *self)
{
  PyObject *made = self->slow_reply ? NULL
                                    : PyObject_CallFunction(state_of(Py_TYPE(self))->reply_type, "Oy#OO", self->replier, (const char *)&self->request,
                                                            (Py_ssize_t)sizeof self->request, self->sender,
                                                            self->is_replied ? Py_True : Py_False);
  if (!self->slow_reply) /* still: another thread may have made one meanwhile */
    self->slow_reply = made;
  else
    Py_XDECREF(made);
  Py_XINCREF(self->slow_reply);
  return self->slow_reply;
}

/* The hold goes over to the view: releasing the view releases the message.  The helper is Python code, in which anything may happen:
 * an exception, or another thread that asks this message for its view, or its data.  So it makes a view whose pin is empty, and
 * only then, in one step, the one becomes the holder and the other ceases to be. */
static int message_make_view(Message *self)
{
  const busq_fast_state *state = state_of(Py_TYPE(self));
  Pin *pin = pin_new(state);
  PyObject *view = pin ? view_of(state, pin, self->pinned.data, self->pinned.size_bytes, 1) : NULL;
  const int result = view ? 0 : -1;
  if (view && !self->data && !self->view) {
    calls->pin_adopt(&pin->pin, self->peer, &self->pinned);
    pin->handle = self->handle;
    self->handle = NULL;
    self->view = view;
    view = NULL;
  }
  Py_XDECREF(view);
  Py_XDECREF(pin);
  return result;
}

static PyObject *message_show(Message *self)
{
  if (!self->data && !self->view) {
    if (calls->is_forked(self->peer))
      return message_fail(self, BUSQ_FORKED);
    if (message_make_view(self) < 0)
      return NULL;
  }
  if (self->data)
    return PyMemoryView_FromObject(self->data);
  Py_INCREF(self->view);
  return self->view;
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
  const busq_fast_state *state = state_of(Py_TYPE(self));
  return self->is_object ? PyObject_CallFunctionObjArgs(state->object_helper, (PyObject *)self, Py_None, Py_True, NULL)
                         : PyObject_CallFunction(state->no_object_helper, NULL);
}

static PyObject *message_reply(Message *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names);

static PyObject *message_repr(Message *self)
{
  PyObject *data = BUSQ_PUBLISHED(self->data);
  const unsigned long long size = data ? (unsigned long long)PyBytes_Size(data) : (unsigned long long)self->pinned.size_bytes;
  return PyUnicode_FromFormat("<Message of %llu bytes from %R>", size, self->sender);
}

static PyObject *message_reduce(Message *self, PyObject *unused)
{
  (void)self;
  (void)unused;
  PyErr_SetString(PyExc_TypeError, "a message can't be pickled; send its data");
  return NULL;
}

static PyMethodDef message_methods[] = {
    {"__reduce__", (PyCFunction)(void (*)(void))message_reduce, METH_NOARGS, NULL},
    {"ack", (PyCFunction)(void (*)(void))message_ack, METH_NOARGS, NULL},
    {"reply", (PyCFunction)(void (*)(void))message_reply, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"view", (PyCFunction)(void (*)(void))message_view, METH_NOARGS, NULL},
    {"object", (PyCFunction)(void (*)(void))message_object, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef message_getset[] = {
    {"data", (getter)message_get_data, NULL, NULL, NULL},
    {"sender", (getter)message_get_sender, NULL, NULL, NULL},
    {"kind", (getter)message_get_kind, NULL, NULL, NULL},
    {"node", (getter)message_get_node, NULL, NULL, NULL},
    {"handles", (getter)message_get_handles, NULL, NULL, NULL},
    {"redelivered", (getter)message_get_redelivered, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot message_slots[] = {
    {Py_tp_doc, "A message that was received through the accelerator."},
    {Py_tp_dealloc, (void *)message_dealloc},
    {Py_tp_methods, message_methods},
    {Py_tp_getset, message_getset},
    {Py_tp_repr, (void *)message_repr},
    {0, NULL}};

static PyType_Spec message_spec = {"busq._native._fast.Message", sizeof(Message), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, message_slots};

/* ---- names ---- */

/* The name of a sender, if it is the one that we know of its slot. */
static PyObject *port_known_name(Port *self, const busq_message *message)
{
  PyObject *name = NULL;
  if (message->sender < self->slots && busq_flag_take(&self->names_flag)) {
    const sender_name *known = &self->names[message->sender];
    if (known->name && known->incarnation == message->sender_incarnation) {
      name = known->name;
      Py_INCREF(name);
    }
    busq_flag_drop(&self->names_flag);
  }
  return name;
}

/* The name that it takes the place of waits in `replaced`: where there is no interpreter lock, letting go of an object may wait, and
 * nobody waits between receive_begin and receive_end (threads.h). */
static void port_learn_name(Port *self, const busq_message *message, PyObject *name)
{
  if (message->sender >= self->slots || !busq_flag_take(&self->names_flag))
    return;
  sender_name *known = &self->names[message->sender];
  if (!known->name || !self->replaced) {
    if (known->name)
      BUSQ_PUBLISH(self->replaced, known->name);
    Py_INCREF(name);
    known->name = name;
    known->incarnation = message->sender_incarnation;
  }
  busq_flag_drop(&self->names_flag);
}

static void port_drop_replaced(Port *self)
{
  PyObject *name = NULL;
  if (busq_flag_take(&self->names_flag)) {
    name = self->replaced;
    BUSQ_PUBLISH(self->replaced, NULL);
    busq_flag_drop(&self->names_flag);
  }
  Py_XDECREF(name);
}

/* The name of a sender, remembered per slot; a new reference.  NULL with BUSQ_OK in *result: out of memory.  A slot keeps the
 * name of its peer while messages from it are in a queue, so this comes before such a message is taken. */
static PyObject *port_sender(Port *self, const busq_message *message, int *result)
{
  char text[256];
  size_t bytes;
  PyObject *name = port_known_name(self, message);
  if (name)
    return name;
  *result = calls->slot_name(self->peer, message->sender, message->sender_incarnation, text, &bytes);
  name = *result == BUSQ_OK ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)bytes, "replace") : NULL;
  if (name)
    port_learn_name(self, message, name);
  return name;
}

/* 1 and the target, 0 where the name is not known (yet), -1 with an exception. */
static int port_target(Port *self, PyObject *name, uint64_t *target)
{
  PyObject *found = busq_dict_item(self->targets, name);
  if (!found)
    return PyErr_Occurred() ? -1 : 0;
  *target = PyLong_AsUnsignedLongLong(found);
  busq_item_drop(found);
  return 1;
}

/* How many targets, 0 where the slow way must decide, -1 with an exception.  Looking a name up may run Python code (a str with a
 * hash or an equality of its own), and that may take anything out of the list. */
__attribute__((always_inline)) static inline Py_ssize_t find_targets(Port *self, PyObject *to, uint64_t *targets)
{
  if (IS_STR(to))
    return port_target(self, to, targets);
  const int is_tuple = PyTuple_Check(to);
  if (!is_tuple && !PyList_Check(to))
    return 0;
  const Py_ssize_t count = is_tuple ? PyTuple_Size(to) : PyList_Size(to);
  for (Py_ssize_t i = 0; i < count && count <= TARGETS_MAX; i++) {
    PyObject *name = busq_sequence_item(to, i, is_tuple);
    const int found = name && IS_STR(name) ? port_target(self, name, &targets[i]) : 0;
    Py_XDECREF(name);
    if (found <= 0)
      return found;
  }
  return count <= TARGETS_MAX ? count : 0;
}

/* The same, for whom a call more is nothing. */
__attribute__((noinline)) static Py_ssize_t port_targets(Port *self, PyObject *to, uint64_t *targets)
{
  return find_targets(self, to, targets);
}

/* ---- sending ---- */

enum {
  SEND_SLOWLY = BUSQ_PORT_SLOWLY,
  SEND_RAISED = BUSQ_PORT_RAISED
};

static void error_set_sent(PyObject *sending, Py_ssize_t sent);

/* Without the interpreter lock.  Handlers of signals that came meanwhile run here, where what they raise can still be told whether
 * the message was sent. */
__attribute__((noinline)) static int port_send_large(Port *self, const uint64_t *targets, uint32_t count, PyObject *data,
                                                     Py_ssize_t before)
{
  const char *bytes = PyBytes_AsString(data);
  const Py_ssize_t size = PyBytes_Size(data);
  int result;
  Py_BEGIN_ALLOW_THREADS
  result = calls->send(self->peer, targets, count, bytes, (size_t)size, 0);
  Py_END_ALLOW_THREADS
  if (PyErr_CheckSignals() == 0)
    return result;
  error_set_sent(NULL, before + (result == BUSQ_OK));
  return SEND_RAISED;
}

/* To a node. */
static int port_send_node(Port *self, const Handle *to, PyObject *data)
{
  const busq_letter letter = {.nodes = &to->node, .n_nodes = 1};
  const Py_ssize_t size = PyBytes_Size(data);
  const busq_part part = {PyBytes_AsString(data), (uint64_t)size};
  uint8_t missed;
  uint32_t sent;
  if (to->peer != self->peer || size > SEND_BYTES_MAX)
    return SEND_SLOWLY;
  /* What is sent, and has missed the only node there is, came to nobody: the slow way sends it again, and is told so. */
  return calls->send_letter(self->peer, &letter, &part, 1, BUSQ_FORM_DATA, 0, &missed, &sent);
}

/* A result of the core, SEND_SLOWLY, or SEND_RAISED: then the exception says how many messages were sent, with those before. */
static int port_send_fast(Port *self, PyObject *to, PyObject *data, Py_ssize_t before)
{
  uint64_t targets[TARGETS_MAX];
  if (!self->peer || !IS_BYTES(data))
    return SEND_SLOWLY;
  if ((PyObject *)Py_TYPE(to) == self->state->handle_class)
    return port_send_node(self, (const Handle *)(const void *)to, data);
  const Py_ssize_t size = PyBytes_Size(data);
  const Py_ssize_t count = find_targets(self, to, targets);
  if (count < 0) {
    error_set_sent(NULL, before);
    return SEND_RAISED;
  }
  if (!count)
    return SEND_SLOWLY;
  if (size > SEND_BYTES_MAX)
    return port_send_large(self, targets, (uint32_t)count, data, before);
  return calls->send(self->peer, targets, (uint32_t)count, PyBytes_AsString(data), (size_t)size, 0);
}

/* The timeout of a call whose other arguments are all there: -1 for ever, 0 or more nanoseconds, TIMEOUT_SLOWLY for whatever is
 * not plainly right.  Times beyond 30 years are all alike. */
#define TIMEOUT_SLOWLY INT64_MIN
static int64_t parse_timeout(PyObject *timeout)
{
  if (timeout == Py_None)
    return -1;
  if (!PyFloat_CheckExact(timeout) && !PyLong_CheckExact(timeout))
    return TIMEOUT_SLOWLY;
  const double seconds = PyFloat_AsDouble(timeout);
  if (PyErr_Occurred())
    PyErr_Clear();
  else if (seconds >= 0)
    return seconds < 1e9 ? (int64_t)(seconds * 1e9) : 1000000000000000000;
  return TIMEOUT_SLOWLY;
}

/* How a call waits, and how it takes what it finds.  timeout_ns is TIMEOUT_SLOWLY for whatever is not plainly right. */
typedef struct {
  int64_t timeout_ns;
  int is_ack;
} call_options;

/* Finds the options behind `before` other arguments: the timeout by position (where it may be) or by name, ack by name.  Names that
 * stand in a program are interned; those that were put together while it ran go the slow way. */
static call_options find_options(const busq_fast_state *state, PyObject *const *args, Py_ssize_t n_args, PyObject *names,
                                 Py_ssize_t before, int is_receive)
{
  const Py_ssize_t named = names ? PyTuple_Size(names) : 0;
  call_options options = {-1, 0};
  if (n_args == before && !named)
    return options;
  if (!state || n_args < before || n_args > before + is_receive)
    options.timeout_ns = TIMEOUT_SLOWLY;
  else if (n_args > before)
    options.timeout_ns = parse_timeout(args[before]);
  for (Py_ssize_t i = 0; i < named && options.timeout_ns != TIMEOUT_SLOWLY; i++) {
    PyObject *name = PyTuple_GetItem(names, i), *value = args[n_args + i];
    if (name == state->timeout_name && n_args == before)
      options.timeout_ns = parse_timeout(value);
    else if (name == state->ack_name && is_receive && PyBool_Check(value))
      options.is_ack = value == Py_True;
    else
      options.timeout_ns = TIMEOUT_SLOWLY;
  }
  return options;
}

/* Passes the very arguments on, so that there is one place that knows the signature. */
static PyObject *call_slow(PyObject *slow, PyObject *const *args, Py_ssize_t n_args, PyObject *names)
{
  PyObject *tuple = slow ? PyTuple_New(n_args) : NULL;
  PyObject *keywords = tuple && names ? PyDict_New() : NULL;
  PyObject *result = NULL;
  if (tuple && (!names || keywords)) {
    int failed = 0;
    for (Py_ssize_t i = 0; i < n_args; i++) {
      Py_INCREF(args[i]);
      PyTuple_SetItem(tuple, i, args[i]);
    }
    for (Py_ssize_t i = 0; names && i < PyTuple_Size(names) && !failed; i++)
      failed = PyDict_SetItem(keywords, PyTuple_GetItem(names, i), args[n_args + i]);
    if (!failed)
      result = PyObject_Call(slow, tuple, keywords);
  }
  Py_XDECREF(keywords);
  Py_XDECREF(tuple);
  Py_XDECREF(slow);
  return result;
}

static PyObject *port_call_slow(PyObject *self, const char *method, PyObject *const *args, Py_ssize_t n_args, PyObject *names)
{
  return call_slow(PyObject_GetAttrString(self, method), args, n_args, names);
}

static PyObject *message_reply(Message *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names)
{
  const busq_fast_state *state = state_of(Py_TYPE(self));
  PyObject *slow = NULL;
  if (!self->replier) {
    Py_INCREF(state->not_asked_helper);
    return call_slow(state->not_asked_helper, args, n_args, names);
  }
  const int is_plain = find_options(state, args, n_args, names, 1, 0).timeout_ns != TIMEOUT_SLOWLY && IS_BYTES(args[0]) &&
                       PyBytes_Size(args[0]) <= SEND_BYTES_MAX;
  int is_sent = 0;
  BUSQ_GUARD(self)
  if (is_plain && !self->slow_reply && !self->is_replied)
    is_sent = message_reply_fast(self, args[0]) == BUSQ_OK;
  if (is_sent)
    self->is_replied = 1;
  else
    slow = message_slow_reply(self);
  BUSQ_GUARD_END
  if (!is_sent)
    return call_slow(slow, args, n_args, names);
  Py_RETURN_NONE;
}

/* The same for parts, if there are few of them, and each is plain bytes. */
__attribute__((noinline)) static int port_send_parts(Port *self, PyObject *to, PyObject *list, uint32_t form)
{
  enum { PARTS_MAX = 64 };
  uint64_t targets[TARGETS_MAX];
  busq_part parts[PARTS_MAX];
  PyObject *held[PARTS_MAX]; /* the list may lose them meanwhile */
  uint32_t sent = 0;
  Py_ssize_t size = 0;
  const Py_ssize_t n_parts = PyList_CheckExact(list) ? PyList_Size(list) : PARTS_MAX + 1;
  if (!self->peer || n_parts > PARTS_MAX)
    return SEND_SLOWLY;
  const Py_ssize_t count = port_targets(self, to, targets);
  if (count < 0)
    error_set_sent(NULL, 0);
  if (count <= 0)
    return count ? SEND_RAISED : SEND_SLOWLY;
  /* Looking the names up may have run Python code; from here on none does. */
  Py_ssize_t n_held = 0;
  int result = BUSQ_OK;
  while (n_held < n_parts && result == BUSQ_OK) {
    PyObject *part = busq_sequence_item(list, n_held, 0);
    if (part && IS_BYTES(part) && (size += PyBytes_Size(part)) <= SEND_BYTES_MAX) {
      parts[n_held] = (busq_part){PyBytes_AsString(part), (uint64_t)PyBytes_Size(part)};
      held[n_held++] = part;
    } else {
      Py_XDECREF(part);
      result = SEND_SLOWLY;
    }
  }
  if (result == BUSQ_OK)
    result = calls->send_parts(self->peer, targets, (uint32_t)count, parts, (uint32_t)n_parts, form, 0, &sent);
  while (n_held)
    Py_DECREF(held[--n_held]);
  return result;
}

/* Between the commit and the return no handler of a signal runs: what raises here was not sent. */
static PyObject *port_send(Port *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names)
{
  const int64_t timeout_ns = find_options(self->state, args, n_args, names, 2, 0).timeout_ns;
  if (timeout_ns != TIMEOUT_SLOWLY) {
    const int result = IS_BYTES(args[1]) ? port_send_fast(self, args[0], args[1], 0)
                                         : port_send_parts(self, args[0], args[1], BUSQ_FORM_DATA);
    if (result == BUSQ_OK)
      Py_RETURN_NONE;
    if (result == SEND_RAISED)
      return NULL;
    if (result == BUSQ_FULL && timeout_ns == 0) {
      busq_raise_full((PyObject *)self);
      return NULL;
    }
  }
  return port_call_slow((PyObject *)self, "_send_slow", args, n_args, names);
}

/* What `_encode` makes of the object is sent, as a list of parts: by the short way, or else by the long one. */
static PyObject *port_send_object(Port *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names)
{
  const int64_t timeout_ns = find_options(self->state, args, n_args, names, 2, 0).timeout_ns;
  if (timeout_ns == TIMEOUT_SLOWLY)
    return port_call_slow((PyObject *)self, "_send_object_slow", args, n_args, names);
  PyObject *encoded = PyObject_CallMethod((PyObject *)self, "_encode", "(O)", args[1]); /* (parts, form) */
  if (!encoded) {
    error_set_sent(NULL, 0);
    return NULL;
  }
  const uint32_t form = (uint32_t)PyLong_AsUnsignedLong(PyTuple_GetItem(encoded, 1));
  const int result = port_send_parts(self, args[0], PyTuple_GetItem(encoded, 0), form);
  PyObject *returned = NULL;
  if (result == BUSQ_OK) {
    Py_INCREF(Py_None);
    returned = Py_None;
  } else if (result != SEND_RAISED) {
    PyObject *timeout = names && PyTuple_Size(names) ? args[2] : Py_None;
    returned = PyObject_CallMethod((PyObject *)self, "_send_encoded_slow", "OOO", args[0], encoded, timeout);
  }
  Py_DECREF(encoded);
  return returned;
}

/* How many messages a busq._port.core.Sending has sent: those it has counted, and the one in hand, if the core has noted that. */
static Py_ssize_t sending_count(PyObject *sending)
{
  PyObject *zero = PyLong_FromLong(0);
  PyObject *done = PyObject_GetAttrString(sending, "_done");
  PyObject *noted = zero && done ? PyObject_GetItem(PyTuple_GetItem(done, 1), zero) : NULL;
  const Py_ssize_t sent = noted ? PyLong_AsSsize_t(PyTuple_GetItem(done, 0)) + PyLong_AsSsize_t(noted) : -1;
  Py_XDECREF(noted);
  Py_XDECREF(done);
  Py_XDECREF(zero);
  return sent;
}

/* Lets the exception that is set say how many messages were sent before it, unless its class takes no attributes: those that
 * `sending` has sent, or else the first `sent`.  It is counted here, where no Python code runs: a signal may raise wherever some
 * does, also where an error is about to be told the number. */
static void error_set_sent(PyObject *sending, Py_ssize_t sent)
{
  PyObject *type, *error, *trace;
  PyErr_Fetch(&type, &error, &trace);
  PyErr_NormalizeException(&type, &error, &trace);
  const Py_ssize_t count = sending ? sending_count(sending) : sent;
  PyObject *number = count < 0 ? NULL : PyLong_FromSsize_t(count);
  if (!number || PyObject_SetAttrString(error, "sent", number) < 0)
    PyErr_Clear();
  Py_XDECREF(number);
  PyErr_Restore(type, error, trace);
}

/* Sends what stands in a list behind the first `sent` the slow way. */
static PyObject *port_send_rest(Port *self, PyObject *list, Py_ssize_t sent)
{
  PyObject *sending = PyObject_CallMethod((PyObject *)self, "_sending", "n", sent);
  PyObject *result = sending ? PyObject_CallMethod((PyObject *)self, "_send_rest", "OO", list, sending) : NULL;
  if (!result)
    error_set_sent(sending, sent);
  Py_XDECREF(sending);
  return result;
}

static PyObject *port_send_many(Port *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names)
{
  if (n_args != 1 || (names && PyTuple_Size(names)) || !PyList_Check(args[0]))
    return port_call_slow((PyObject *)self, "_send_many_slow", args, n_args, names);
  PyObject *list = args[0];
  const Py_ssize_t count = PyList_Size(list);
  Py_ssize_t sent = 0;
  for (; sent < count; sent++) {
    PyObject *pair = busq_sequence_item(list, sent, 0);
    const int is_pair = pair && IS_TUPLE(pair) && PyTuple_Size(pair) == 2;
    const int result = is_pair ? port_send_fast(self, PyTuple_GetItem(pair, 0), PyTuple_GetItem(pair, 1), sent) : SEND_SLOWLY;
    Py_XDECREF(pair);
    if (result == SEND_RAISED)
      return NULL;
    if (result != BUSQ_OK)
      break;
  }
  if (sent && sent == PyList_Size(list))
    return PyLong_FromSsize_t(sent);
  return port_send_rest(self, list, sent);
}

/* ---- drafts ---- */

static PyObject *port_reserve(Port *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names)
{
  const int64_t timeout_ns = find_options(self->state, args, n_args, names, 1, 0).timeout_ns;
  const Py_ssize_t size = timeout_ns != TIMEOUT_SLOWLY && PyLong_CheckExact(args[0]) ? PyLong_AsSsize_t(args[0]) : -1;
  if (size < 0)
    PyErr_Clear();
  Draft *draft = size >= 0 && self->peer ? (Draft *)PyType_GenericAlloc((PyTypeObject *)self->state->draft_class, 0) : NULL;
  Pin *pin = draft ? pin_new(self->state) : NULL;
  if (pin && calls->pin_reserve(&pin->pin, self->peer, (uint64_t)size, 0, 0) == BUSQ_OK) {
    Py_INCREF(self->handle);
    pin->handle = self->handle;
    Py_INCREF(self);
    draft->port = (PyObject *)self;
    draft->pin = pin;
    return (PyObject *)draft;
  }
  Py_XDECREF(pin);
  Py_XDECREF(draft);
  return PyErr_Occurred() ? NULL : port_call_slow((PyObject *)self, "_reserve_slow", args, n_args, names);
}

static const busq_fast_state *draft_state(const Draft *self)
{
  return self->port ? ((const Port *)self->port)->state : NULL;
}

/* A view of a pin, counted before it is made: see busq._port.core. */
static PyObject *draft_make_view(const busq_fast_state *state, Pin *pin)
{
  const int result = calls->pin_show(&pin->pin);
  if (result != BUSQ_OK)
    return PyObject_CallFunction(state->fail_helper, "i", result);
  return view_of(state, pin, pin->pin.message.data, pin->pin.message.size_bytes, 0);
}

/* A view of its own for whoever asks again once the last one was released. */
static PyObject *draft_show(Draft *self)
{
  PyObject *shown = self->buffer;
  Py_XINCREF(shown);
  if (shown && PyObject_Size(shown) >= 0)
    return shown;
  PyErr_Clear(); /* it was released */
  if (shown && self->buffer == shown)
    Py_CLEAR(self->buffer);
  Py_XDECREF(shown);
  Pin *pin = self->pin;
  if (!pin || BUSQ_PUBLISHED(pin->pin.state) == BUSQ_PIN_EMPTY)
    return PyObject_CallMethod((PyObject *)self, "_fail_used", NULL);
  Py_INCREF(pin); /* making a view may collect garbage, in which the draft may be given back */
  PyObject *view = draft_make_view(draft_state(self), pin);
  Py_DECREF(pin);
  if (view) {
    PyObject *quicker = self->buffer; /* of another thread: then there are two views */
    Py_INCREF(view);
    self->buffer = view;
    Py_XDECREF(quicker);
  }
  return view;
}

static PyObject *draft_get_buffer(Draft *self, void *closure)
{
  PyObject *view;
  (void)closure;
  BUSQ_GUARD(self)
  view = draft_show(self);
  BUSQ_GUARD_END
  return view;
}

/* Releases the view that was handed out; false where arrays still look at it, or slices, which keep the pin shown. */
static int draft_withdraw(Draft *self)
{
  PyObject *shown = self->buffer;
  if (shown) {
    Py_INCREF(shown);
    PyObject *released = PyObject_CallMethodObjArgs(shown, draft_state(self)->release_name, NULL);
    if (released && self->buffer == shown)
      Py_CLEAR(self->buffer);
    Py_DECREF(shown);
    if (!released) {
      PyErr_Clear();
      return 0;
    }
    Py_DECREF(released);
  }
  return self->pin && BUSQ_PUBLISHED(self->pin->pin.state) == BUSQ_PIN_TAKEN;
}

/* True once it was sent; else the slow way has the word, unless there is an exception. */
static int draft_send_fast(Draft *self, PyObject *to)
{
  uint64_t targets[TARGETS_MAX];
  uint32_t sent = 0;
  if (!draft_withdraw(self))
    return 0;
  const Py_ssize_t count = port_targets((Port *)self->port, to, targets);
  /* Looking the names up may have run Python code, also such that has given the draft back. */
  busq_pin *pin = count > 0 && self->pin ? &self->pin->pin : NULL;
  return pin && calls->pin_send(pin, targets, (uint32_t)count, pin->message.size_bytes, BUSQ_FORM_DATA, 0, &sent) == BUSQ_OK;
}

static PyObject *draft_send(Draft *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names)
{
  int is_sent = 0;
  if (find_options(draft_state(self), args, n_args, names, 1, 0).timeout_ns != TIMEOUT_SLOWLY) {
    BUSQ_GUARD(self)
    is_sent = self->port && draft_send_fast(self, args[0]);
    BUSQ_GUARD_END
  }
  if (PyErr_Occurred())
    return NULL;
  if (is_sent)
    Py_RETURN_NONE;
  return port_call_slow((PyObject *)self, "_send_slow", args, n_args, names);
}

/* What still looks at the memory keeps it until it is dropped. */
static PyObject *draft_give_back(Draft *self, PyObject *unused)
{
  PyObject *buffer, *pin;
  (void)unused;
  BUSQ_GUARD(self)
  (void)draft_withdraw(self);
  buffer = self->buffer;
  pin = (PyObject *)self->pin;
  self->buffer = NULL;
  self->pin = NULL;
  BUSQ_GUARD_END
  Py_XDECREF(buffer);
  Py_XDECREF(pin);
  Py_RETURN_NONE;
}

static PyObject *draft_exit(Draft *self, PyObject *const *args, Py_ssize_t n_args)
{
  (void)args;
  (void)n_args;
  return draft_give_back(self, NULL);
}

static PyObject *draft_enter(Draft *self, PyObject *unused)
{
  (void)unused;
  Py_INCREF(self);
  return (PyObject *)self;
}

static PyObject *draft_get_port(Draft *self, void *closure)
{
  (void)closure;
  PyObject *port = self->port ? self->port : Py_None;
  Py_INCREF(port);
  return port;
}

/* Where the pin is, and what keeps it there; 0 and None once it is gone. */
static PyObject *draft_get_place(Draft *self, void *closure)
{
  Pin *pin;
  (void)closure;
  BUSQ_GUARD(self)
  pin = self->pin;
  Py_XINCREF(pin);
  BUSQ_GUARD_END
  PyObject *place = Py_BuildValue("NO", PyLong_FromVoidPtr(pin ? &pin->pin : NULL), pin ? (PyObject *)pin : Py_None);
  Py_XDECREF(pin);
  return place;
}

static PyObject *draft_get_view(Draft *self, void *closure)
{
  PyObject *view;
  (void)closure;
  BUSQ_GUARD(self)
  view = self->buffer ? self->buffer : Py_None;
  Py_INCREF(view);
  BUSQ_GUARD_END
  return view;
}

static void draft_dealloc(Draft *self)
{
  PyTypeObject *type = Py_TYPE(self);
  Py_XDECREF(self->buffer);
  Py_XDECREF(self->pin);
  Py_XDECREF(self->port);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF(type);
}

static PyMethodDef draft_methods[] = {
    {"__enter__", (PyCFunction)(void (*)(void))draft_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))draft_exit, METH_FASTCALL, NULL},
    {"send", (PyCFunction)(void (*)(void))draft_send, METH_FASTCALL | METH_KEYWORDS, NULL},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef draft_getset[] = {
    {"buffer", (getter)draft_get_buffer, NULL, NULL, NULL},
    {"_pin_place", (getter)draft_get_place, NULL, NULL, NULL},
    {"_port", (getter)draft_get_port, NULL, NULL, NULL},
    {"_view", (getter)draft_get_view, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot draft_slots[] = {{Py_tp_doc, "Memory for a message, reserved through the accelerator."},
                                    {Py_tp_dealloc, (void *)draft_dealloc},
                                    {Py_tp_methods, draft_methods},
                                    {Py_tp_getset, draft_getset},
                                    {0, NULL}};

static PyType_Spec draft_spec = {"busq._native._fast.Draft", sizeof(Draft), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, draft_slots};

/* ---- receiving ---- */

enum {
  RECEIVE_SLOWLY = BUSQ_PORT_SLOWLY,
  RECEIVE_RAISED = BUSQ_PORT_RAISED
};

/* The handler of a signal raises: the caller has not seen a message that was taken and is still held, so it comes again, next. */
static void message_give_back(Message *self)
{
  const uint32_t mode = self->is_offered ? BUSQ_TAKE_OFFERED : BUSQ_TAKE_PINNED;
  if (self->handle && calls->give_back(self->peer, mode, &self->pinned) == BUSQ_OK)
    Py_CLEAR(self->handle);
}

/* Takes the request off the end of a payload; false where none can stand there. */
static int request_read(busq_message *found, busq_request *request)
{
  if (found->size_bytes < sizeof *request)
    return 0;
  found->size_bytes -= sizeof *request;
  memcpy(request, (const char *)found->data + found->size_bytes, sizeof *request);
  return 1;
}

static Message *message_new(const busq_fast_state *state, busq_peer *peer, const busq_message *found, int is_ack)
{
  Message *message = PyObject_New(Message, (PyTypeObject *)state->message_type);
  if (message) {
    message->data = message->sender = message->handle = message->view = message->replier = message->slow_reply = NULL;
    message->node = NULL;
    message->is_replied = 0;
    message->peer = peer;
    message->is_offered = is_ack != 0;
    message->is_redelivered = (int)found->is_redelivered;
    message->is_object = found->form == BUSQ_FORM_OBJECT;
    if (is_ack || found->size_bytes > COPY_BYTES_MAX)
      message->pinned = *found;
  }
  return message;
}

/* Everything about a message that was found that may fail; it is taken later.  NULL with what the slow way must report in *result,
 * or with BUSQ_OK and an exception.  A message that waits for its acknowledgement is copied: it may outlive our hold on it. */
static Message *message_prepare(Port *self, busq_peer *peer, const busq_message *found, int is_ack, int *result)
{
  *result = BUSQ_OK;
  Message *message = message_new(self->state, peer, found, is_ack);
  if (!message)
    return NULL;
  message->sender = port_sender(self, found, result);
  if (message->sender && (found->size_bytes <= COPY_BYTES_MAX || is_ack))
    message->data = PyBytes_FromStringAndSize(found->data, (Py_ssize_t)found->size_bytes);
  if (message->sender && (message->data || (found->size_bytes > COPY_BYTES_MAX && !is_ack)))
    return message;
  Py_DECREF(message);
  return NULL;
}

/* A message that was sent to a group is data as any other; whatever else an envelope says, Python knows. */
static int envelope_open(busq_message *found)
{
  found->form &= (uint16_t)~BUSQ_FORM_ENVELOPE;
  return found->kind == BUSQ_KIND_DATA && !found->n_nodes && !found->n_handles;
}

#ifndef Py_GIL_DISABLED
/* The node that a message was sent to, if it is one, and nothing else is said about the message; borrowed. */
static PyObject *port_node(Port *self, const busq_message *found)
{
  uint64_t node;
  if (found->form != (BUSQ_FORM_DATA | BUSQ_FORM_ENVELOPE) || found->kind != BUSQ_KIND_DATA || found->n_nodes != 1 ||
      found->n_handles || found->group || !self->nodes)
    return NULL;
  node = calls->message_node(found, 0);
  if (self->last_node && node == self->last_node_number)
    return self->last_node;
  PyObject *key = PyLong_FromUnsignedLongLong(node);
  PyObject *known = key ? PyDict_GetItemWithError(self->nodes, key) : NULL;
  Py_XDECREF(key);
  if (known) {
    Py_INCREF(known);
    Py_XDECREF(self->last_node);
    self->last_node = known;
    self->last_node_number = node;
  }
  return known;
}
#endif

static int is_plain(const Port *self, const busq_message *found)
{
  return found->form == BUSQ_FORM_DATA || (found->form == BUSQ_FORM_OBJECT && !self->has_codec);
}

/* What is more than data. */
__attribute__((noinline)) static Message *port_prepare_rest(Port *self, const busq_message *found, int is_ack, int *result)
{
  busq_message inner = *found;
  busq_request request;
  if ((found->form & BUSQ_FORM_ENVELOPE) && envelope_open(&inner)) {
    if (is_plain(self, &inner))
      return message_prepare(self, self->peer, &inner, is_ack, result);
    found = &inner;
  }
  *result = RECEIVE_SLOWLY;
#ifdef Py_GIL_DISABLED
  PyObject *node = NULL; /* looking it up may wait, which nobody does here (threads.h) */
#else
  PyObject *node = found->form & BUSQ_FORM_ENVELOPE ? port_node(self, found) : NULL;
#endif
  if (node) {
    Message *message = message_prepare(self, self->peer, found, is_ack, result);
    if (message) {
      Py_INCREF(node);
      message->node = node;
    }
    return message;
  }
  PyErr_Clear();
  if (found->form != BUSQ_FORM_ASK || !request_read(&inner, &request))
    return NULL;
  Message *message = message_prepare(self, self->peer, &inner, is_ack, result);
  if (message) {
    message->request = request;
    Py_INCREF(self->handle);
    message->replier = self->handle;
  }
  return message;
}

static Message *port_prepare(Port *self, const busq_message *found, int is_ack, int *result)
{
  return is_plain(self, found) ? message_prepare(self, self->peer, found, is_ack, result)
                               : port_prepare_rest(self, found, is_ack, result);
}

/* Takes what was prepared; with is_held, what was copied stays pinned too, in the hands of the caller.  Nothing in here can fail, and
 * nothing between begin and end runs Python code. */
static void message_take(PyObject *handle, Message *message, int is_held)
{
  if (!message->data || message->is_offered) {
    Py_INCREF(handle);
    message->handle = handle;
  }
  calls->receive_take(message->peer, message->is_offered         ? BUSQ_TAKE_OFFERED
                                  : is_held || !message->data ? BUSQ_TAKE_PINNED
                                                              : BUSQ_TAKE_COPIED);
}

/* A message, or NULL with *result: BUSQ_EMPTY, or what the slow way must report; RECEIVE_RAISED for an exception. */
/* Where nothing is there and it may wait, it spins before it lets go of the interpreter lock: letting go and taking it again costs
 * more than what a busy sender needs. */
static Message *port_recv_fast(Port *self, int is_ack, int may_wait, int *result)
{
  busq_message found;
  Message *message = NULL;
  *result = self->peer ? calls->receive_begin(self->peer) : BUSQ_CLOSED;
  if (*result != BUSQ_OK)
    return NULL;
  *result = calls->receive_peek(self->peer, &found);
  if (*result == BUSQ_EMPTY && may_wait && calls->receive_spin(self->peer, &found) == BUSQ_OK) {
    /* As after every wait: signals first.  A handler that raises after a message is taken would lose it. */
    calls->receive_end(self->peer);
    *result = PyErr_CheckSignals() < 0 ? RECEIVE_RAISED : BUSQ_OK;
    return NULL;
  }
  if (*result == BUSQ_OK) {
    message = port_prepare(self, &found, is_ack, result);
    if (message)
      message_take(self->handle, message, 0);
    else if (*result == BUSQ_OK)
      *result = RECEIVE_RAISED;
  }
  calls->receive_end(self->peer);
  if (BUSQ_PUBLISHED(self->replaced))
    port_drop_replaced(self);
  return message;
}

static int64_t now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Waits without the interpreter lock until there may be a message or the deadline (-1: never) has passed; comes back to it at
 * least every slice, so that signals are seen. */
static int port_wait(Port *self, int64_t deadline_ns)
{
  int result;
  do {
    int64_t left_ns = deadline_ns < 0 ? -1 : deadline_ns - now_ns();
    if (deadline_ns >= 0 && left_ns < 0)
      left_ns = 0;
    Py_BEGIN_ALLOW_THREADS
    result = calls->wait(self->peer, left_ns);
    Py_END_ALLOW_THREADS
    /* Also before a message is taken: after that, an exception would lose it. */
    if (result != BUSQ_EMPTY && PyErr_CheckSignals() < 0)
      return -1;
  } while (result == BUSQ_INTERRUPTED);
  return result;
}

/* The same for a call with a timeout, whose deadline counts from its first wait; -1 with Empty where nothing came. */
static int port_await(Port *self, int64_t timeout_ns, int64_t *deadline_ns)
{
  if (timeout_ns > 0 && *deadline_ns == timeout_ns)
    *deadline_ns = now_ns() + timeout_ns;
  const int result = port_wait(self, *deadline_ns);
  if (result != BUSQ_EMPTY)
    return result;
  busq_raise_empty((PyObject *)self);
  return -1;
}

/* It may become so while a call waits. */
static int port_is_covered(const Port *self)
{
  return __atomic_load_n(&self->is_covered, __ATOMIC_RELAXED);
}

static PyObject *port_recv_as(Port *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names, int is_beneath)
{
  const call_options options = find_options(self->state, args, n_args, names, 0, 1);
  const int64_t timeout_ns = options.timeout_ns;
  int64_t deadline_ns = timeout_ns;
  int result = BUSQ_OK;
  while (timeout_ns != TIMEOUT_SLOWLY && result == BUSQ_OK && (is_beneath || !port_is_covered(self))) {
    Message *message = port_recv_fast(self, options.is_ack, timeout_ns != 0, &result);
    if (message && message->handle && PyErr_CheckSignals() < 0) {
      message_give_back(message);
      Py_DECREF(message);
      return NULL;
    }
    if (message)
      return (PyObject *)message;
    if (result == BUSQ_EMPTY)
      result = port_await(self, timeout_ns, &deadline_ns);
    if (result == RECEIVE_RAISED)
      return NULL;
  }
  return port_call_slow((PyObject *)self, is_beneath ? "_recv_slow_beneath" : "_recv_slow", args, n_args, names);
}

static PyObject *port_recv(Port *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names)
{
  return port_recv_as(self, args, n_args, names, 0);
}

/* For what covers it. */
static PyObject *port_recv_beneath(Port *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names)
{
  return port_recv_as(self, args, n_args, names, 1);
}

/* Receives for an iterator, which the end of the bus ends. */
static PyObject *port_next(Port *self, PyObject *unused)
{
  (void)unused;
  PyObject *message = port_recv(self, NULL, 0, NULL);
  if (!message && self->state && PyErr_ExceptionMatches(self->state->shut_down_error)) {
    PyErr_Clear();
    PyErr_SetNone(PyExc_StopIteration);
  }
  return message;
}

/* ---- receiving many ---- */

enum {
  FEW = 64
};

/* What a call has taken and not handed over so far.  What was copied is still pinned. */
typedef struct {
  Py_ssize_t n_messages, n_copied, room;
  Message **messages;
  busq_message *copied;
  void *memory; /* of both, where they are more than a few */
  Message *few_messages[FEW];
  busq_message few_copied[FEW];
} batch;

static void batch_init(batch *self)
{
  self->n_messages = self->n_copied = 0;
  self->room = FEW;
  self->messages = self->few_messages;
  self->copied = self->few_copied;
  self->memory = NULL;
}

static int batch_grow(batch *self)
{
  const size_t room = (size_t)self->room * 4;
  busq_message *copied = malloc(room * (sizeof *copied + sizeof(Message *)));
  if (!copied)
    return 0;
  Message **messages = (Message **)(void *)(copied + room);
  memcpy(copied, self->copied, (size_t)self->n_copied * sizeof *copied);
  memcpy(messages, self->messages, (size_t)self->n_messages * sizeof *messages);
  free(self->memory);
  self->memory = self->copied = copied;
  self->messages = messages;
  self->room = (Py_ssize_t)room;
  return 1;
}

/* Takes what is there.  There is room for a message before it is taken, so none is lost for want of it; and what was taken before is
 * not lost for an exception that the next call would raise as well. */
static int port_take_batch(Port *self, Py_ssize_t limit, int is_ack, int may_wait, batch *taken)
{
  int result = calls->receive_begin(self->peer);
  if (result != BUSQ_OK)
    return result;
  while (taken->n_messages < limit && (taken->n_messages < taken->room || batch_grow(taken))) {
    busq_message *found = &taken->copied[taken->n_copied];
    result = calls->receive_peek(self->peer, found);
    if (result == BUSQ_EMPTY && may_wait && !taken->n_messages && calls->receive_spin(self->peer, found) == BUSQ_OK)
      result = calls->receive_peek(self->peer, found);
    Message *message = result == BUSQ_OK ? port_prepare(self, found, is_ack, &result) : NULL;
    if (!message) {
      result = result == BUSQ_OK ? RECEIVE_RAISED : result;
      break;
    }
    message_take(self->handle, message, 1);
    taken->messages[taken->n_messages++] = message;
    taken->n_copied += !message->handle;
  }
  calls->receive_end(self->peer);
  if (BUSQ_PUBLISHED(self->replaced))
    port_drop_replaced(self);
  if (result == RECEIVE_RAISED && taken->n_messages)
    PyErr_Clear();
  return result;
}

/* Lets go of what was copied, under one latch; of a peer that was closed meanwhile, one by one. */
static void batch_release(Port *self, const batch *taken)
{
  if (!taken->n_copied)
    return;
  if (calls->receive_begin(self->peer) == BUSQ_OK) {
    calls->receive_release(self->peer, taken->copied, (size_t)taken->n_copied);
    calls->receive_end(self->peer);
    return;
  }
  for (Py_ssize_t i = 0; i < taken->n_copied; i++)
    calls->release(self->peer, &taken->copied[i]);
}

static void batch_give_back(Port *self, const batch *taken)
{
  for (Py_ssize_t i = 0; i < taken->n_copied; i++)
    if (calls->give_back(self->peer, BUSQ_TAKE_PINNED, &taken->copied[i]) != BUSQ_OK)
      calls->release(self->peer, &taken->copied[i]);
  for (Py_ssize_t i = 0; i < taken->n_messages; i++)
    message_give_back(taken->messages[i]);
}

/* The messages in a list, to which they belong from then on.  NULL without memory for it: they belong to the batch still. */
static PyObject *batch_list(const batch *taken)
{
  PyObject *list = PyList_New(taken->n_messages);
  for (Py_ssize_t i = 0; i < taken->n_messages && list; i++)
    (void)PyList_SetItem(list, i, (PyObject *)taken->messages[i]);
  return list;
}

/* Passes all on as a list, or NULL: then a handler of a signal raises, and all of them come again.  It is asked as late as can be:
 * behind the release nothing can be given back, so a handler that raises from then on loses what the caller has not seen. */
static PyObject *batch_hand_over(Port *self, batch *taken)
{
  PyObject *list = batch_list(taken);
  if (list && PyErr_CheckSignals() == 0) {
    batch_release(self, taken);
  } else {
    batch_give_back(self, taken);
    for (Py_ssize_t i = 0; i < taken->n_messages && !list; i++)
      Py_DECREF(taken->messages[i]);
    Py_CLEAR(list);
  }
  free(taken->memory);
  return list;
}

static PyObject *port_recv_many(Port *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names)
{
  const call_options options = find_options(self->state, args, n_args, names, 1, 1);
  const int64_t timeout_ns = options.timeout_ns;
  int64_t deadline_ns = timeout_ns;
  int result = BUSQ_OK;
  if (timeout_ns == TIMEOUT_SLOWLY || !PyLong_CheckExact(args[0]) || !self->peer)
    return port_call_slow((PyObject *)self, "_recv_many_slow", args, n_args, names);
  const Py_ssize_t limit = PyLong_AsSsize_t(args[0]);
  if (limit < 1)
    PyErr_Clear();
  while (limit >= 1 && result == BUSQ_OK && !port_is_covered(self)) {
    batch taken;
    batch_init(&taken);
    result = port_take_batch(self, limit, options.is_ack, timeout_ns != 0, &taken);
    if (taken.n_messages)
      return batch_hand_over(self, &taken);
    if (result == BUSQ_EMPTY)
      result = port_await(self, timeout_ns, &deadline_ns);
    if (result == RECEIVE_RAISED)
      return NULL;
  }
  return port_call_slow((PyObject *)self, "_recv_many_slow", args, n_args, names);
}

/* ---- for event loops (port.h) ---- */

PyObject *busq_port_recv_now(PyObject *port, int is_ack, int *result)
{
  *result = BUSQ_PORT_COVERED;
  Message *message = port_is_covered((Port *)port) ? NULL : port_recv_fast((Port *)port, is_ack, 0, result);
  if (message && message->handle && PyErr_CheckSignals() < 0) {
    message_give_back(message);
    Py_DECREF(message);
    *result = BUSQ_PORT_RAISED;
    return NULL;
  }
  return (PyObject *)message;
}

PyObject *busq_port_recv_many_now(PyObject *port, Py_ssize_t limit, int is_ack, int *result)
{
  Port *self = (Port *)port;
  batch taken;
  batch_init(&taken);
  if (port_is_covered(self)) {
    *result = BUSQ_PORT_COVERED;
    return NULL;
  }
  *result = self->peer ? port_take_batch(self, limit, is_ack, 0, &taken) : BUSQ_CLOSED;
  if (!taken.n_messages)
    return NULL;
  PyObject *list = batch_hand_over(self, &taken);
  *result = list ? BUSQ_OK : BUSQ_PORT_RAISED;
  return list;
}

int busq_port_look(PyObject *port)
{
  return calls->wait(((Port *)port)->peer, 0);
}

/* Not what is large: handlers of signals run while that is sent, and what they raise has to be told whether it was. */
int busq_port_send_now(PyObject *port, PyObject *to, PyObject *data)
{
  if (IS_BYTES(data) && PyBytes_Size(data) > SEND_BYTES_MAX)
    return BUSQ_PORT_SLOWLY;
  return port_send_fast((Port *)port, to, data, 0);
}

int busq_find_options(PyObject *port, PyObject *const *args, Py_ssize_t n_args, PyObject *names, Py_ssize_t before,
                      int is_receive, busq_call_options *options)
{
  const busq_fast_state *state = ((Port *)port)->state;
  const call_options found = find_options(state, args, n_args, names, before, is_receive);
  const Py_ssize_t named = names ? PyTuple_Size(names) : 0;
  *options = (busq_call_options){found.timeout_ns, found.is_ack, n_args > before ? args[before] : NULL};
  for (Py_ssize_t i = 0; i < named && state; i++)
    if (PyTuple_GetItem(names, i) == state->timeout_name)
      options->timeout = args[n_args + i];
  return found.timeout_ns != TIMEOUT_SLOWLY;
}

PyObject *busq_call_slowly(PyObject *self, const char *method, PyObject *const *args, Py_ssize_t n_args, PyObject *names)
{
  return port_call_slow(self, method, args, n_args, names);
}

void busq_error_set_sent(Py_ssize_t sent)
{
  error_set_sent(NULL, sent);
}

void busq_raise_empty(PyObject *port)
{
  PyErr_SetString(((Port *)port)->state->empty_error, "nothing came before the timeout");
}

void busq_raise_full(PyObject *port)
{
  PyErr_SetString(((Port *)port)->state->full_error, "a receiver's queue, or the memory for messages, is full");
}

int busq_is_empty_error(PyObject *port)
{
  return PyErr_ExceptionMatches(((Port *)port)->state->empty_error);
}

int busq_is_shut_down_error(PyObject *port)
{
  return PyErr_ExceptionMatches(((Port *)port)->state->shut_down_error);
}

PyTypeObject *busq_awaiting_type(PyObject *port)
{
  return (PyTypeObject *)((Port *)port)->state->awaiting_type;
}

/* ---- asking ---- */

/* One request, under way: registered as busq._port.requests would have done it, so that from any step on that can go on with it. */
typedef struct {
  uint64_t number, target, began;
  int64_t end_ns; /* -1: never */
  PyObject *request, *key;
} asking;

/* Nobody else waits for a reply: then nobody else receives any. */
static int port_may_ask(const Port *self, PyObject *to, PyObject *data)
{
  return self->requests && !PyDict_Size(self->waiting) && !PyDict_Size(self->leader) && PyUnicode_CheckExact(to) &&
         IS_BYTES(data) && PyBytes_Size(data) <= SEND_BYTES_MAX;
}

/* Between this and asking_end no Python code runs, but where that is said. */
static int asking_begin(Port *self, asking *asked)
{
  asked->request = PyObject_CallNoArgs(self->request_type);
  asked->key = asked->request ? PyIter_Next(self->numbers) : NULL;
  if (!asked->key)
    return -1;
  asked->number = PyLong_AsUnsignedLongLong(asked->key);
  if (PyDict_SetItem(self->waiting, asked->key, asked->request) < 0)
    return -1;
  return PyDict_SetItem(self->leader, Py_None, asked->request);
}

/* Waits no more.  An exception that is set stays; one that a handler raises here is returned as -1. */
static int asking_end(Port *self, asking *asked)
{
  PyObject *type, *error, *trace;
  PyErr_Fetch(&type, &error, &trace);
  if (asked->request && PyDict_GetItemWithError(self->leader, Py_None) == asked->request)
    (void)PyDict_DelItem(self->leader, Py_None);
  if (asked->key && PyDict_GetItemWithError(self->waiting, asked->key))
    (void)PyDict_DelItem(self->waiting, asked->key);
  if (asked->key && !PyDict_Size(self->waiting))
    calls->await_from(self->replies, asked->number + 1);
  PyErr_Clear();
  if (PyDict_Size(self->asleep)) /* Python code, for who has come meanwhile */
    Py_XDECREF(PyObject_CallMethod(self->requests, "wake", NULL));
  Py_CLEAR(asked->request);
  Py_CLEAR(asked->key);
  const int result = PyErr_Occurred() ? -1 : 0;
  if (type) {
    PyErr_Clear();
    PyErr_Restore(type, error, trace);
  }
  return result;
}

static int asking_send(Port *self, asking *asked, PyObject *data)
{
  const busq_request request = {asked->number, self->replies_target};
  const busq_part parts[] = {{PyBytes_AsString(data), (uint64_t)PyBytes_Size(data)}, {&request, sizeof request}};
  uint32_t sent;
  const int result = calls->life_at_send(self->peer, asked->target, &asked->began);
  return result ? result : calls->send_parts(self->peer, &asked->target, 1, parts, 2, BUSQ_FORM_ASK, 0, &sent);
}

static int is_waiting(const Port *self, uint64_t number)
{
  PyObject *key = PyLong_FromUnsignedLongLong(number);
  const int is_there = !key || PyDict_GetItemWithError(self->waiting, key) != NULL;
  Py_XDECREF(key);
  PyErr_Clear();
  return is_there;
}

/* Between begin and end.  The reply, or NULL with *result: BUSQ_OK where one was passed that nobody waits for. */
static Message *asking_take(Port *self, const asking *asked, busq_message *found, int *result)
{
  busq_request request;
  const int has_request = found->form == BUSQ_FORM_REPLY && request_read(found, &request);
  if (has_request && request.number == asked->number) {
    Message *message = message_prepare(self, self->replies, found, 0, result);
    if (message)
      message_take(self->replies_handle, message, 0);
    else
      *result = RECEIVE_SLOWLY;
    PyErr_Clear(); /* out of memory: that comes again, the slow way */
    return message;
  }
  *result = has_request && is_waiting(self, request.number) ? RECEIVE_SLOWLY : BUSQ_OK;
  if (*result == BUSQ_OK)
    calls->receive_take(self->replies, BUSQ_TAKE_COPIED);
  return NULL;
}

static Message *asking_receive(Port *self, const asking *asked, int *result)
{
  busq_message found;
  Message *message = NULL;
  *result = calls->receive_begin(self->replies);
  if (*result != BUSQ_OK)
    return NULL;
  *result = calls->receive_peek(self->replies, &found);
  if (*result == BUSQ_EMPTY)
    *result = calls->receive_spin(self->replies, &found);
  if (*result == BUSQ_OK)
    message = asking_take(self, asked, &found, result);
  calls->receive_end(self->replies);
  return message;
}

/* For a slice of time at most; -1 with an exception, or a result of the core. */
static int asking_sleep(Port *self, const asking *asked, int64_t slice_end_ns)
{
  const int64_t end_ns = asked->end_ns >= 0 && asked->end_ns < slice_end_ns ? asked->end_ns : slice_end_ns;
  const int64_t left_ns = end_ns - now_ns();
  int result;
  if (left_ns <= 0)
    return BUSQ_EMPTY;
  Py_BEGIN_ALLOW_THREADS
  result = calls->wait(self->replies, left_ns);
  Py_END_ALLOW_THREADS
  return PyErr_CheckSignals() < 0 ? -1 : result;
}

/* What Python goes on with: whatever takes longer than a slice, and whatever concerns others. */
static PyObject *asking_slow(Port *self, const asking *asked, PyObject *to)
{
  return PyObject_CallMethod(self->requests, "go_on", "OOOKKL", asked->request, to, asked->key,
                             (unsigned long long)asked->target, (unsigned long long)asked->began, (long long)asked->end_ns);
}

static PyObject *asking_wait(Port *self, const asking *asked, PyObject *to)
{
  enum { SLICE_NS = 50000000 };
  const int64_t slice_end_ns = now_ns() + SLICE_NS;
  int result;
  do {
    Message *message = asking_receive(self, asked, &result);
    if (message) {
      calls->follow(self->peer, self->replies);
      return (PyObject *)message;
    }
    if (result == BUSQ_EMPTY)
      result = asking_sleep(self, asked, slice_end_ns);
    if (result == RECEIVE_RAISED)
      return NULL;
    /* Somebody who did not see that we lead may have it. */
  } while (result == BUSQ_OK && PyDict_Size(self->waiting) == 1 && !PyDict_Size(self->asleep));
  return asking_slow(self, asked, to);
}

static PyObject *port_ask(Port *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names)
{
  const int64_t timeout_ns = find_options(self->state, args, n_args, names, 2, 0).timeout_ns;
  asking asked = {0};
  if (timeout_ns == TIMEOUT_SLOWLY || !timeout_ns || !port_may_ask(self, args[0], args[1]) ||
      port_target(self, args[0], &asked.target) <= 0 || PyErr_Occurred())
    return PyErr_Occurred() ? NULL : port_call_slow((PyObject *)self, "_ask_slow", args, n_args, names);
  asked.end_ns = timeout_ns < 0 ? -1 : now_ns() + timeout_ns;
  if (asking_begin(self, &asked) < 0 || asking_send(self, &asked, args[1]) != BUSQ_OK) {
    PyErr_Clear();
    if (asking_end(self, &asked) == 0)
      return port_call_slow((PyObject *)self, "_ask_slow", args, n_args, names);
    error_set_sent(NULL, 0);
    return NULL;
  }
  PyObject *message = asking_wait(self, &asked, args[0]);
  if (asking_end(self, &asked) < 0)
    Py_CLEAR(message);
  if (!message)
    error_set_sent(NULL, 1);
  return message;
}

/* After the first ask; without it, whatever is asked goes the slow way. */
#ifndef Py_GIL_DISABLED
static PyObject *port_attach_requests(Port *self, PyObject *args)
{
  unsigned long long replies, target;
  PyObject *requests, *handle, *waiting, *leader, *asleep, *numbers, *type;
  if (!PyArg_ParseTuple(args, "OOKKO!O!O!OO", &requests, &handle, &replies, &target, &PyDict_Type, &waiting, &PyDict_Type,
                        &leader, &PyDict_Type, &asleep, &numbers, &type))
    return NULL;
  if (self->requests)
    Py_RETURN_NONE;
  PyObject *all[] = {requests, handle, waiting, leader, asleep, numbers, type};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    Py_INCREF(all[i]);
  self->replies_handle = handle;
  self->replies = (busq_peer *)(uintptr_t)replies;
  self->replies_target = target;
  self->waiting = waiting;
  self->leader = leader;
  self->asleep = asleep;
  self->numbers = numbers;
  self->request_type = type;
  self->requests = requests;
  Py_RETURN_NONE;
}
#endif

/* ---- the type ---- */

/* Before anybody else has it. */
static PyObject *port_attach(Port *self, PyObject *args)
{
  unsigned long long peer;
  unsigned slots;
  int has_codec;
  PyObject *targets, *handle, *module;
  if (!PyArg_ParseTuple(args, "O!OKIO!p", &PyModule_Type, &module, &handle, &peer, &slots, &PyDict_Type, &targets, &has_codec))
    return NULL;
  const busq_fast_state *state = PyModule_GetState(module);
  sender_name *names = state ? calloc(slots, sizeof *names) : NULL;
  if (!names)
    return PyErr_Occurred() ? NULL : PyErr_NoMemory();
  self->has_codec = has_codec;
  self->names = names;
  self->slots = slots;
  self->state = state;
  Py_INCREF(module);
  self->module = module;
  Py_INCREF(handle);
  self->handle = handle;
  Py_INCREF(targets);
  self->targets = targets;
  self->peer = (busq_peer *)(uintptr_t)peer;
  Py_RETURN_NONE;
}

static PyObject *port_attach_nodes(Port *self, PyObject *nodes)
{
  if (!self->nodes && PyDict_Check(nodes)) {
    Py_INCREF(nodes);
    self->nodes = nodes;
  }
  Py_RETURN_NONE;
}

/* From here on Python's methods get what comes, also for calls that wait by now. */
static PyObject *port_cover(Port *self, PyObject *unused)
{
  (void)unused;
  __atomic_store_n(&self->is_covered, 1, __ATOMIC_RELAXED);
  Py_RETURN_NONE;
}

static void port_dealloc(Port *self)
{
  PyTypeObject *type = Py_TYPE(self);
  PyObject *all[] = {self->nodes,   self->last_node, self->targets, self->handle,       self->requests, self->replies_handle,
                     self->waiting, self->leader,    self->asleep,  self->numbers,      self->request_type,
                     self->replaced, self->module};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    Py_XDECREF(all[i]);
  for (uint32_t slot = 0; self->names && slot < self->slots; slot++)
    Py_XDECREF(self->names[slot].name);
  free(self->names);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF(type);
}

#define FASTCALL(function) (PyCFunction)(void (*)(void))(function), METH_FASTCALL | METH_KEYWORDS

static PyMethodDef port_methods[] = {
    {"_attach", (PyCFunction)port_attach, METH_VARARGS, NULL},
#ifndef Py_GIL_DISABLED
    {"_attach_requests", (PyCFunction)port_attach_requests, METH_VARARGS, NULL},
#endif
    {"_attach_nodes", (PyCFunction)port_attach_nodes, METH_O, NULL},
    {"_cover", (PyCFunction)port_cover, METH_NOARGS, NULL},
    {"_recv_beneath", FASTCALL(port_recv_beneath), NULL},
    {"_next", (PyCFunction)port_next, METH_NOARGS, NULL},
    {"send", FASTCALL(port_send), NULL},
    {"send_many", FASTCALL(port_send_many), NULL},
    {"send_object", FASTCALL(port_send_object), NULL},
    {"reserve", FASTCALL(port_reserve), NULL},
    {"ask", FASTCALL(port_ask), NULL},
    {"recv", FASTCALL(port_recv), NULL},
    {"recv_many", FASTCALL(port_recv_many), NULL},
    {NULL, NULL, 0, NULL}};

static PyType_Slot port_slots[] = {{Py_tp_doc, "Sending and receiving by the short way."},
                                   {Py_tp_dealloc, (void *)port_dealloc},
                                   {Py_tp_methods, port_methods},
                                   {0, NULL}};

static PyType_Spec port_spec = {"busq._native._fast.Port", sizeof(Port), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, port_slots};

/* ---- handles of nodes ---- */

static PyObject *handle_attach(Handle *self, PyObject *args)
{
  unsigned long long peer, node;
  if (!PyArg_ParseTuple(args, "KK", &peer, &node))
    return NULL;
  self->peer = (busq_peer *)(uintptr_t)peer;
  self->node = node;
  Py_RETURN_NONE;
}

/* Nobody sends to it any more. */
static PyObject *handle_detach(Handle *self, PyObject *unused)
{
  (void)unused;
  self->peer = NULL;
  Py_RETURN_NONE;
}

static PyMethodDef handle_methods[] = {{"_attach", (PyCFunction)handle_attach, METH_VARARGS, NULL},
                                       {"_detach", (PyCFunction)(void (*)(void))handle_detach, METH_NOARGS, NULL},
                                       {NULL, NULL, 0, NULL}};

static PyType_Slot handle_slots[] = {
    {Py_tp_doc, "What the accelerator knows of a handle."}, {Py_tp_methods, handle_methods}, {0, NULL}};

static PyType_Spec handle_spec = {"busq._native._fast.Handle", sizeof(Handle), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                                  handle_slots};

static PyObject *bind_handle(PyObject *module, PyObject *class)
{
  busq_fast_state *state = PyModule_GetState(module);
  if (!state->handle_class) {
    Py_INCREF(class);
    state->handle_class = class;
  }
  Py_RETURN_NONE;
}

/* ---- what busq/_port/core.py gives ---- */

/* Lets a method or property have its text, which stands in busq/peer.py.  The tables of methods are the process's, and so are the
 * texts: of several imports the first one's, which say the same. */
int busq_text_set(const char **textp, PyObject *texts, const char *name)
{
  if (*textp)
    return 0;
  PyObject *text = PyMapping_GetItemString(texts, name);
  const char *found = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
  *textp = found ? strdup(found) : NULL;
  Py_XDECREF(text);
  if (found && !*textp)
    PyErr_NoMemory();
  return *textp ? 0 : -1;
}

int busq_texts_set(PyMethodDef *methods, PyObject *texts)
{
  for (PyMethodDef *method = methods; method->ml_name; method++)
    if (method->ml_name[0] != '_' && busq_text_set(&method->ml_doc, texts, method->ml_name) < 0)
      return -1;
  return 0;
}

static int set_texts(PyObject *texts)
{
  for (PyGetSetDef *property = message_getset; property->name; property++)
    if (busq_text_set(&property->doc, texts, property->name) < 0)
      return -1;
  for (PyMethodDef *method = draft_methods; method->ml_name; method++)
    if (method->ml_name[0] != '_' && busq_text_set(&method->ml_doc, texts, "Draft.send") < 0)
      return -1;
  if (busq_texts_set(message_methods, texts) < 0 || busq_texts_set(port_methods, texts) < 0)
    return -1;
  return busq_text_set(&draft_getset[0].doc, texts, "buffer");
}

/* Once for each import: where busq/_port/core.py is loaded anew over this module, objects that exist keep the helpers that they know, and
 * the second load goes without the accelerator. */
static PyObject *bind(PyObject *module, PyObject *args)
{
  busq_fast_state *state = PyModule_GetState(module);
  unsigned long long table;
  PyObject *texts, *given[BUSQ_FAST_GIVEN];
  if (state->given[0]) {
    PyErr_SetString(PyExc_ImportError, "the accelerator serves busq as it was imported first");
    return NULL;
  }
  if (!PyArg_ParseTuple(args, "KOOOOOOOOOO", &table, &texts, &given[0], &given[1], &given[2], &given[3], &given[4], &given[5],
                        &given[6], &given[7], &given[8]) || set_texts(texts) < 0)
    return NULL;
  calls = (const busq_calls *)(uintptr_t)table;
  for (size_t i = 0; i < BUSQ_FAST_GIVEN; i++) {
    Py_INCREF(given[i]);
    state->given[i] = given[i];
  }
  Py_RETURN_NONE;
}

static PyObject *bind_desk(PyObject *module, PyObject *texts)
{
  (void)module;
  if (busq_desk_set_texts(texts) < 0)
    return NULL;
  Py_RETURN_NONE;
}

static PyMethodDef module_methods[] = {{"_bind", bind, METH_VARARGS, NULL},
                                       {"_bind_desk", bind_desk, METH_O, NULL},
                                       {"_bind_handle", bind_handle, METH_O, NULL},
                                       {NULL, NULL, 0, NULL}};

/* ---- the module ---- */

/* Makes a type; with a name, others see it in the module. */
static PyObject *add_type(PyObject *module, PyType_Spec *spec, const char *name)
{
  PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
  if (type && name && PyModule_AddObjectRef(module, name, type) < 0)
    Py_CLEAR(type);
  return type;
}

/* The module has it. */
static int add_public_type(PyObject *module, PyType_Spec *spec, const char *name)
{
  PyObject *type = add_type(module, spec, name);
  Py_XDECREF(type);
  return type ? 0 : -1;
}

static int module_exec(PyObject *module)
{
  busq_fast_state *state = PyModule_GetState(module);
  if (add_public_type(module, &port_spec, "Port") < 0 || add_public_type(module, &draft_spec, "Draft") < 0 ||
      add_public_type(module, &busq_desk_spec, "Desk") < 0 || add_public_type(module, &handle_spec, "Handle") < 0)
    return -1;
  state->message_type = add_type(module, &message_spec, "Message");
  state->pin_type = add_type(module, &pin_spec, NULL);
  state->awaiting_type = add_type(module, &busq_awaiting_spec, NULL);
  state->shown_type = add_type(module, &shown_spec, NULL);
  state->timeout_name = PyUnicode_InternFromString("timeout");
  state->ack_name = PyUnicode_InternFromString("ack");
  state->release_name = PyUnicode_InternFromString("release");
  for (size_t i = 0; i < BUSQ_FAST_OWN; i++)
    if (!state->own[i])
      return -1;
  return 0;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
  busq_fast_state *state = PyModule_GetState(module);
  for (size_t i = 0; i < BUSQ_FAST_OWN; i++)
    Py_VISIT(state->own[i]);
  for (size_t i = 0; i < BUSQ_FAST_GIVEN; i++)
    Py_VISIT(state->given[i]);
  Py_VISIT(state->handle_class);
  return 0;
}

static int module_clear(PyObject *module)
{
  busq_fast_state *state = PyModule_GetState(module);
  for (size_t i = 0; i < BUSQ_FAST_OWN; i++)
    Py_CLEAR(state->own[i]);
  for (size_t i = 0; i < BUSQ_FAST_GIVEN; i++)
    Py_CLEAR(state->given[i]);
  Py_CLEAR(state->handle_class);
  return 0;
}

static void module_free(void *module)
{
  (void)module_clear(module);
}

/* Without a slot that says more, Python lets a module of two phases into interpreters that share a lock: that much is true of this
 * one.  Who imports busq there is refused before (interpreter.c), for the sake of the module that cffi makes. */
static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, (void *)module_exec},
#ifdef Py_GIL_DISABLED
                                          {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
                                          {0, NULL}};

static struct PyModuleDef module_definition = {PyModuleDef_HEAD_INIT, "_fast", NULL, sizeof(busq_fast_state), module_methods,
                                               module_slots, module_traverse, module_clear, module_free};

PyMODINIT_FUNC PyInit__fast(void)
{
  return PyModuleDef_Init(&module_definition);
}
