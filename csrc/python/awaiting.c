/* SPDX-License-Identifier: Apache-2.0 */
#include "python/port.h"
#include "python/threads.h"
#include <time.h>
/*
 * The short way to await send and recv.
 *
 * Guarantee: what busq/aio.py does in coroutines, and the same of exceptions that come between any two instructions: a message is
 * taken by C code that hands it to the frame of whoever awaits it, with no Python frame of ours and no Python code in between, and what
 * raises before that has taken nothing.  Likewise for what is sent.
 *
 * Mechanism: an object that is awaited in place of a coroutine.  It tries at once; where it can't go on it asks its station
 * (busq/_port/event_loops.py) for a coroutine that waits and does nothing else, lets that run to its end, and tries again.  Uncommon
 * arguments go to the coroutines of busq/aio.py, whose names begin with an underscore.  One thread at a time goes on with it: another
 * one, or code that it runs itself, is told so.
 *
 * Not given: anything beyond the limited API of CPython 3.10.
 */

/* For so long a task may go on without letting others run: SLICE_S in busq/_port/event_loops.py. */
#define SLICE_S 200e-6

typedef struct {
  PyObject_HEAD
  PyObject *port;
  PyObject *station;
  PyObject *receivers; /* of the station: tasks that wait */
  PyObject *senders;
  PyObject *loop;         /* of asyncio; NULL: the station checks */
  PyObject *running_loop; /* asyncio._get_running_loop */
  PyObject *deadline_type;
} Desk;

typedef enum {
  AWAIT_SEND,
  AWAIT_RECV,
  AWAIT_RECV_MANY,
  AWAIT_NEXT
} awaiting_kind;

typedef enum {
  STATE_NEW,
  STATE_PAUSES, /* `inner` lets others run */
  STATE_WAITS,  /* `inner` waits for its turn, or, of a send, for its end */
  STATE_OVER
} awaiting_state;

typedef struct {
  PyObject_HEAD
  Desk *desk;
  PyObject *to;
  PyObject *data;
  PyObject *timeout;  /* NULL: none */
  PyObject *deadline; /* of all its waits together, once it has begun to wait */
  PyObject *inner;    /* the coroutine that runs in its place */
  Py_ssize_t limit;
  int64_t timeout_ns;
  awaiting_kind kind;
  awaiting_state state;
  int is_ack;
  int has_tried;
  char is_running;
} Awaiting;

/* ---- trying ---- */

/* Raises where this is not the event loop of the peer. */
static int desk_check(Desk *self)
{
  PyObject *found;
  if (self->loop) {
    found = PyObject_CallNoArgs(self->running_loop);
    const int is_ours = found == self->loop;
    Py_XDECREF(found);
    if (is_ours)
      return 0;
    if (!found)
      return -1;
  }
  found = PyObject_CallMethod(self->station, "check", NULL);
  Py_XDECREF(found);
  return found ? 0 : -1;
}

/* Whether a task of this peer has run for so long that it is time to let others run; -1 with an exception. */
static int desk_is_time_to_pause(Desk *self)
{
  struct timespec now;
  PyObject *resumed = PyObject_GetAttrString(self->station, "resumed");
  const double since = resumed ? PyFloat_AsDouble(resumed) : -1;
  Py_XDECREF(resumed);
  if (PyErr_Occurred())
    return -1;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9 - since > SLICE_S;
}

static int goes_on_with(Awaiting *self, awaiting_state state, PyObject *coroutine)
{
  self->inner = coroutine;
  self->state = state;
  return coroutine ? 0 : -1;
}

/* The deadline of a call with a timeout begins with its first wait. */
static PyObject *awaiting_deadline(Awaiting *self)
{
  if (!self->deadline)
    self->deadline = PyObject_CallFunctionObjArgs(self->desk->deadline_type, self->timeout ? self->timeout : Py_None, NULL);
  return self->deadline;
}

/* PYGEN_RETURN with the result, PYGEN_ERROR, or PYGEN_NEXT where `inner` is to go on. */
static PySendResult try_send(Awaiting *self, PyObject **resultp)
{
  const int is_alone = PyDict_Size(self->desk->senders) == 0;
  const int result = is_alone ? busq_port_send_now(self->desk->port, self->to, self->data) : BUSQ_PORT_SLOWLY;
  if (result == BUSQ_OK) {
    Py_INCREF(Py_None);
    *resultp = Py_None;
    return PYGEN_RETURN;
  }
  if (result == BUSQ_FULL && self->timeout_ns == 0)
    busq_raise_full(self->desk->port);
  PyObject *deadline = PyErr_Occurred() ? NULL : awaiting_deadline(self);
  PyObject *coroutine = deadline ? PyObject_CallMethod((PyObject *)self->desk, "_send", "OOO", self->to, self->data, deadline) : NULL;
  if (goes_on_with(self, STATE_WAITS, coroutine) == 0)
    return PYGEN_NEXT;
  busq_error_set_sent(0);
  return PYGEN_ERROR;
}

/* What the core says otherwise than by a message, the slow way puts into words; or it receives one after all. */
static PyObject *receive_slowly(Awaiting *self)
{
  PyObject *method = PyObject_GetAttrString(self->desk->port, self->kind == AWAIT_RECV_MANY ? "_recv_many_slow" : "_recv_slow");
  PyObject *args = self->kind == AWAIT_RECV_MANY ? Py_BuildValue("(ni)", self->limit, 0) : Py_BuildValue("(i)", 0);
  PyObject *names = Py_BuildValue("{s:O}", "ack", self->is_ack ? Py_True : Py_False);
  PyObject *result = method && args && names ? PyObject_Call(method, args, names) : NULL;
  Py_XDECREF(names);
  Py_XDECREF(args);
  Py_XDECREF(method);
  return result;
}

static PyObject *receive_now(Awaiting *self, int *result)
{
  return self->kind == AWAIT_RECV_MANY ? busq_port_recv_many_now(self->desk->port, self->limit, self->is_ack, result)
                                       : busq_port_recv_now(self->desk->port, self->is_ack, result);
}

static PySendResult try_receive(Awaiting *self, PyObject **resultp)
{
  int result = BUSQ_EMPTY;
  const Py_ssize_t n_before = self->has_tried ? 0 : PyObject_Length(self->desk->receivers);
  const int is_first = n_before == 0; /* its turn has come, or nobody waits */
  const int may_be_over = self->has_tried || self->timeout_ns == 0;
  if (n_before < 0)
    return PYGEN_ERROR;
  self->has_tried = 1;
  *resultp = is_first ? receive_now(self, &result) : NULL;
  if (*resultp)
    return PYGEN_RETURN;
  if (result == BUSQ_PORT_COVERED) {
    *resultp = receive_slowly(self);
    if (*resultp)
      return PYGEN_RETURN;
    if (!busq_is_empty_error(self->desk->port))
      return PYGEN_ERROR;
    PyErr_Clear();
    result = BUSQ_EMPTY;
  }
  if (result == BUSQ_PORT_RAISED)
    return PYGEN_ERROR;
  if (result == BUSQ_EMPTY && is_first && may_be_over)
    result = busq_port_look(self->desk->port);
  if (result != BUSQ_EMPTY && result != BUSQ_OK) {
    *resultp = receive_slowly(self);
    return *resultp ? PYGEN_RETURN : PYGEN_ERROR;
  }
  if (is_first && self->timeout_ns == 0)
    busq_raise_empty(self->desk->port);
  PyObject *deadline = PyErr_Occurred() ? NULL : awaiting_deadline(self);
  PyObject *coroutine = deadline ? PyObject_CallMethod(self->desk->station, "receive_turn", "OO", deadline, is_first ? Py_True : Py_False)
                                 : NULL;
  return goes_on_with(self, STATE_WAITS, coroutine) == 0 ? PYGEN_NEXT : PYGEN_ERROR;
}

static PySendResult try_now(Awaiting *self, PyObject **resultp)
{
  return self->kind == AWAIT_SEND ? try_send(self, resultp) : try_receive(self, resultp);
}

/* ---- going on ---- */

static PySendResult begin(Awaiting *self, PyObject **resultp)
{
  if (desk_check(self->desk) < 0)
    return PYGEN_ERROR;
  const int is_time = desk_is_time_to_pause(self->desk);
  if (is_time > 0)
    return goes_on_with(self, STATE_PAUSES, PyObject_CallMethod(self->desk->station, "pause", NULL)) == 0 ? PYGEN_NEXT
                                                                                                           : PYGEN_ERROR;
  return is_time < 0 ? PYGEN_ERROR : try_now(self, resultp);
}

/* The end of what ran in its place: of a send, that was all. */
static PySendResult goes_on(Awaiting *self, PyObject **resultp)
{
  const int has_sent = self->kind == AWAIT_SEND && self->state == STATE_WAITS;
  Py_CLEAR(self->inner);
  if (!has_sent)
    return try_now(self, resultp);
  Py_INCREF(Py_None);
  *resultp = Py_None;
  return PYGEN_RETURN;
}

/* However it has ended. */
static PySendResult end(Awaiting *self, PySendResult status)
{
  const awaiting_state before = self->state;
  self->state = STATE_OVER;
  Py_CLEAR(self->inner);
  if (status != PYGEN_ERROR)
    return status;
  if (self->kind == AWAIT_SEND && before != STATE_WAITS)
    busq_error_set_sent(0);
  if (self->kind == AWAIT_NEXT && busq_is_shut_down_error(self->desk->port)) {
    PyErr_Clear();
    PyErr_SetNone(PyExc_StopAsyncIteration);
  }
  return status;
}

/* As Python's own coroutines do; false with an exception. */
static int awaiting_enter(Awaiting *self)
{
  if (!__atomic_test_and_set(&self->is_running, __ATOMIC_ACQUIRE)) {
    Py_INCREF(self); /* what runs may let go of it */
    return 1;
  }
  PyErr_SetString(PyExc_ValueError, "coroutine already executing");
  return 0;
}

static void awaiting_leave(Awaiting *self)
{
  __atomic_clear(&self->is_running, __ATOMIC_RELEASE);
  Py_DECREF(self);
}

static PySendResult awaiting_go_on(Awaiting *self, PyObject *argument, PyObject **resultp)
{
  PySendResult status;
  if (self->state == STATE_OVER) {
    PyErr_SetString(PyExc_RuntimeError, "cannot reuse already awaited coroutine");
    return PYGEN_ERROR;
  }
  if (self->state == STATE_NEW) {
    self->state = STATE_PAUSES;
    status = begin(self, resultp);
    argument = Py_None;
  } else {
    status = PYGEN_NEXT;
  }
  while (status == PYGEN_NEXT) {
    PyObject *inner = self->inner;
    Py_INCREF(inner);
    status = PyIter_Send(inner, argument, resultp);
    Py_DECREF(inner);
    if (status == PYGEN_NEXT)
      return status;
    if (status == PYGEN_RETURN) {
      Py_CLEAR(*resultp);
      status = goes_on(self, resultp);
    }
    argument = Py_None;
  }
  return end(self, status);
}

static PySendResult awaiting_send(Awaiting *self, PyObject *argument, PyObject **resultp)
{
  *resultp = NULL;
  if (!awaiting_enter(self))
    return PYGEN_ERROR;
  const PySendResult status = awaiting_go_on(self, argument, resultp);
  awaiting_leave(self);
  return status;
}

static PyObject *as_iterator_does(PySendResult status, PyObject *result)
{
  if (status != PYGEN_RETURN)
    return result;
  if (result != Py_None)
    PyErr_SetObject(PyExc_StopIteration, result);
  else
    PyErr_SetNone(PyExc_StopIteration);
  Py_DECREF(result);
  return NULL;
}

static PyObject *awaiting_next(Awaiting *self)
{
  PyObject *result;
  const PySendResult status = awaiting_send(self, Py_None, &result);
  return as_iterator_does(status, result);
}

static PyObject *awaiting_send_method(Awaiting *self, PyObject *argument)
{
  PyObject *result;
  const PySendResult status = awaiting_send(self, argument, &result);
  return as_iterator_does(status, result);
}

/* Raises what throw() was given; always NULL. */
static PyObject *raise_given(PyObject *args)
{
  PyObject *type, *value = NULL, *trace = NULL;
  if (!PyArg_UnpackTuple(args, "throw", 1, 3, &type, &value, &trace))
    return NULL;
  if (PyExceptionInstance_Check(type))
    PyErr_SetObject((PyObject *)Py_TYPE(type), type);
  else
    PyErr_SetObject(type, value == Py_None ? NULL : value);
  return NULL;
}

static PyObject *awaiting_take_exception(Awaiting *self, PyObject *args)
{
  PyObject *result = NULL;
  if (!self->inner) {
    raise_given(args);
    (void)end(self, PYGEN_ERROR);
    return NULL;
  }
  PyObject *method = PyObject_GetAttrString(self->inner, "throw");
  PyObject *yielded = method ? PyObject_Call(method, args, NULL) : NULL;
  Py_XDECREF(method);
  PySendResult status = yielded ? PYGEN_NEXT : PYGEN_ERROR;
  if (!yielded && PyErr_ExceptionMatches(PyExc_StopIteration)) { /* it took the exception for no reason to end */
    PyErr_Clear();
    status = goes_on(self, &result);
    status = status == PYGEN_NEXT ? awaiting_go_on(self, Py_None, &result) : end(self, status);
    yielded = as_iterator_does(status, result);
  } else if (!yielded) {
    (void)end(self, status);
  }
  return yielded;
}

static PyObject *awaiting_throw(Awaiting *self, PyObject *args)
{
  if (!awaiting_enter(self))
    return NULL;
  PyObject *yielded = awaiting_take_exception(self, args);
  awaiting_leave(self);
  return yielded;
}

static PyObject *awaiting_close(Awaiting *self, PyObject *unused)
{
  (void)unused;
  if (!awaiting_enter(self))
    return NULL;
  PyObject *closed = self->inner ? PyObject_CallMethod(self->inner, "close", NULL) : NULL;
  const int failed = self->inner && !closed;
  Py_XDECREF(closed);
  self->state = STATE_OVER;
  Py_CLEAR(self->inner);
  awaiting_leave(self);
  if (failed)
    return NULL;
  Py_RETURN_NONE;
}

static PyObject *awaiting_self(PyObject *self)
{
  Py_INCREF(self);
  return self;
}

static const char *const kind_names[] = {"Peer.send", "Peer.recv", "Peer.recv_many", "Peer.__anext__"};

/* As Python says of its own coroutines. */
static void warn_if_new(const Awaiting *self)
{
  PyObject *type, *value, *trace;
  if (self->state != STATE_NEW)
    return;
  PyErr_Fetch(&type, &value, &trace);
  if (PyErr_WarnFormat(PyExc_RuntimeWarning, 1, "coroutine '%s' was never awaited", kind_names[self->kind]) < 0)
    PyErr_WriteUnraisable(NULL);
  PyErr_Restore(type, value, trace);
}

static int awaiting_traverse(Awaiting *self, visitproc visit, void *arg)
{
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(self->desk);
  Py_VISIT(self->to);
  Py_VISIT(self->data);
  Py_VISIT(self->timeout);
  Py_VISIT(self->deadline);
  Py_VISIT(self->inner);
  return 0;
}

static int awaiting_clear(Awaiting *self)
{
  Py_CLEAR(self->desk);
  Py_CLEAR(self->to);
  Py_CLEAR(self->data);
  Py_CLEAR(self->timeout);
  Py_CLEAR(self->deadline);
  Py_CLEAR(self->inner);
  self->state = STATE_OVER;
  return 0;
}

static void awaiting_dealloc(Awaiting *self)
{
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  warn_if_new(self);
  (void)awaiting_clear(self);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}

static PyObject *awaiting_repr(const Awaiting *self)
{
  return PyUnicode_FromFormat("<coroutine object %s at %p>", kind_names[self->kind], (const void *)self);
}

static PyObject *awaiting_get_name(Awaiting *self, void *closure)
{
  (void)closure;
  return PyUnicode_FromString(kind_names[self->kind]);
}

static PyGetSetDef awaiting_getset[] = {{"__name__", (getter)awaiting_get_name, NULL, NULL, NULL},
                                        {"__qualname__", (getter)awaiting_get_name, NULL, NULL, NULL},
                                        {NULL, NULL, NULL, NULL, NULL}};

static PyMethodDef awaiting_methods[] = {
    {"send", (PyCFunction)(void (*)(void))awaiting_send_method, METH_O, NULL},
    {"throw", (PyCFunction)(void (*)(void))awaiting_throw, METH_VARARGS, NULL},
    {"close", (PyCFunction)(void (*)(void))awaiting_close, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};

static PyType_Slot awaiting_slots[] = {{Py_tp_doc, "A call of a busq.aio.Peer, to be awaited."},
                                       {Py_tp_dealloc, (void *)awaiting_dealloc},
                                       {Py_tp_traverse, (void *)awaiting_traverse},
                                       {Py_tp_clear, (void *)awaiting_clear},
                                       {Py_tp_repr, (void *)awaiting_repr},
                                       {Py_tp_iter, (void *)awaiting_self},
                                       {Py_tp_iternext, (void *)awaiting_next},
                                       {Py_am_await, (void *)awaiting_self},
                                       {Py_am_send, (void *)awaiting_send},
                                       {Py_tp_methods, awaiting_methods},
                                       {Py_tp_getset, awaiting_getset},
                                       {0, NULL}};

#ifndef Py_TPFLAGS_DISALLOW_INSTANTIATION
#define Py_TPFLAGS_DISALLOW_INSTANTIATION (1UL << 7)
#endif
PyType_Spec busq_awaiting_spec = {"busq._native._fast.Awaiting", sizeof(Awaiting), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, awaiting_slots};

static Awaiting *awaiting_new(Desk *desk, awaiting_kind kind, const busq_call_options *options)
{
  Awaiting *self = PyObject_GC_New(Awaiting, busq_awaiting_type(desk->port));
  if (!self)
    return NULL;
  Py_INCREF(desk);
  self->desk = desk;
  Py_XINCREF(options->timeout);
  self->timeout = options->timeout;
  self->to = self->data = self->deadline = self->inner = NULL;
  self->limit = 0;
  self->timeout_ns = options->timeout_ns;
  self->kind = kind;
  self->state = STATE_NEW;
  self->is_ack = options->is_ack;
  self->has_tried = 0;
  self->is_running = 0;
  PyObject_GC_Track(self);
  return self;
}

/* ---- the desk ---- */

static PyObject *desk_send(Desk *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names)
{
  busq_call_options options;
  if (!self->port || !busq_find_options(self->port, args, n_args, names, 2, 0, &options))
    return busq_call_slowly((PyObject *)self, "_send_slowly", args, n_args, names);
  Awaiting *made = awaiting_new(self, AWAIT_SEND, &options);
  if (made) {
    Py_INCREF(args[0]);
    made->to = args[0];
    Py_INCREF(args[1]);
    made->data = args[1];
  }
  return (PyObject *)made;
}

static PyObject *desk_recv(Desk *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names)
{
  busq_call_options options;
  if (!self->port || !busq_find_options(self->port, args, n_args, names, 0, 1, &options))
    return busq_call_slowly((PyObject *)self, "_recv_slowly", args, n_args, names);
  return (PyObject *)awaiting_new(self, AWAIT_RECV, &options);
}

static PyObject *desk_recv_many(Desk *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names)
{
  busq_call_options options;
  const int is_plain = self->port && busq_find_options(self->port, args, n_args, names, 1, 1, &options) && PyLong_CheckExact(args[0]);
  const Py_ssize_t limit = is_plain ? PyLong_AsSsize_t(args[0]) : 0;
  if (limit < 1) {
    PyErr_Clear();
    return busq_call_slowly((PyObject *)self, "_recv_many_slowly", args, n_args, names);
  }
  Awaiting *made = awaiting_new(self, AWAIT_RECV_MANY, &options);
  if (made)
    made->limit = limit;
  return (PyObject *)made;
}

static PyObject *desk_anext(Desk *self)
{
  const busq_call_options options = {-1, 0, NULL};
  if (!self->port)
    return PyObject_CallMethod((PyObject *)self, "_anext_slowly", NULL);
  return (PyObject *)awaiting_new(self, AWAIT_NEXT, &options);
}

/* From here on it serves a Port; before, and where it is none, everything goes to the coroutines. */
static PyObject *desk_sit(Desk *self, PyObject *args)
{
  PyObject *port, *station, *receivers, *senders, *loop, *running_loop, *deadline_type;
  if (!PyArg_ParseTuple(args, "OOOO!OOO", &port, &station, &receivers, &PyDict_Type, &senders, &loop, &running_loop, &deadline_type))
    return NULL;
  PyObject *const found[] = {port, station, receivers, senders, loop == Py_None ? NULL : loop, running_loop, deadline_type};
  PyObject **const places[] = {&self->port, &self->station,      &self->receivers,    &self->senders,
                               &self->loop, &self->running_loop, &self->deadline_type};
  for (unsigned i = 0; i < sizeof places / sizeof places[0]; i++) {
    Py_XINCREF(found[i]);
    *places[i] = found[i];
  }
  Py_RETURN_NONE;
}

static int desk_traverse(Desk *self, visitproc visit, void *arg)
{
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(self->port);
  Py_VISIT(self->station);
  Py_VISIT(self->receivers);
  Py_VISIT(self->senders);
  Py_VISIT(self->loop);
  Py_VISIT(self->running_loop);
  Py_VISIT(self->deadline_type);
  return 0;
}

static int desk_clear(Desk *self)
{
  Py_CLEAR(self->port);
  Py_CLEAR(self->station);
  Py_CLEAR(self->receivers);
  Py_CLEAR(self->senders);
  Py_CLEAR(self->loop);
  Py_CLEAR(self->running_loop);
  Py_CLEAR(self->deadline_type);
  return 0;
}

static void desk_dealloc(Desk *self)
{
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  (void)desk_clear(self);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF(type);
}

/* Sends what stands in a list behind the first sent[0], and counts on there, where no handler of a signal comes in between; until
 * one can't be sent this way, or others are to run.  What is left, Python sends one by one. */
static PyObject *desk_send_some(Desk *self, PyObject *args)
{
  enum { PER_LOOK = 16 };
  PyObject *list, *sent;
  if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &list, &PyList_Type, &sent))
    return NULL;
  PyObject *first_sent = busq_sequence_item(sent, 0, 0);
  Py_ssize_t at = first_sent ? PyLong_AsSsize_t(first_sent) : 0;
  Py_XDECREF(first_sent);
  int is_time = desk_is_time_to_pause(self);
  const Py_ssize_t first = at;
  while (!is_time && at < PyList_Size(list) && PyDict_Size(self->senders) == 0) {
    PyObject *pair = busq_sequence_item(list, at, 0);
    const int is_pair = pair && PyTuple_CheckExact(pair) && PyTuple_Size(pair) == 2;
    const int result = is_pair ? busq_port_send_now(self->port, PyTuple_GetItem(pair, 0), PyTuple_GetItem(pair, 1))
                               : BUSQ_PORT_SLOWLY;
    Py_XDECREF(pair);
    if (result == BUSQ_PORT_RAISED)
      PyErr_Clear(); /* the slow way finds it again */
    if (result != BUSQ_OK)
      break;
    at++;
    if ((at - first) % PER_LOOK == 0)
      is_time = desk_is_time_to_pause(self);
  }
  PyObject *count = is_time < 0 ? NULL : PyLong_FromSsize_t(at);
  if (!count || PyList_SetItem(sent, 0, count) < 0)
    return NULL;
  return PyBool_FromLong(is_time);
}

#define FASTCALL(function) (PyCFunction)(void (*)(void))(function), METH_FASTCALL | METH_KEYWORDS

static PyMethodDef desk_methods[] = {{"_sit", (PyCFunction)(void (*)(void))desk_sit, METH_VARARGS, NULL},
                                     {"_send_some", (PyCFunction)(void (*)(void))desk_send_some, METH_VARARGS, NULL},
                                     {"send", FASTCALL(desk_send), NULL},
                                     {"recv", FASTCALL(desk_recv), NULL},
                                     {"recv_many", FASTCALL(desk_recv_many), NULL},
                                     {NULL, NULL, 0, NULL}};

static PyType_Slot desk_slots[] = {{Py_tp_doc, "Sending and receiving in an event loop by the short way."},
                                   {Py_tp_dealloc, (void *)desk_dealloc},
                                   {Py_tp_traverse, (void *)desk_traverse},
                                   {Py_tp_clear, (void *)desk_clear},
                                   {Py_am_anext, (void *)desk_anext},
                                   {Py_tp_methods, desk_methods},
                                   {0, NULL}};

PyType_Spec busq_desk_spec = {"busq._native._fast.Desk", sizeof(Desk), 0,
                              Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, desk_slots};

int busq_desk_set_texts(PyObject *texts)
{
  return busq_texts_set(desk_methods, texts);
}
