/* SPDX-License-Identifier: Apache-2.0 */
#include "python/port.h"
#include "python/texts.h"
#include <time.h>
/*
 * Calls that are awaited: send, send_many, send_object, ask, recv and recv_many of busq.aio.
 *
 * Guarantee: between taking a message and handing it to the frame that awaits it, no Python code runs that could lose it; what raises
 * before that has taken nothing.  An exception that ends a call that sends says in its attribute `sent` how many messages were sent.
 *
 * Mechanism: an object that is awaited in place of a coroutine.  It tries at once.  Where it can't go on it asks busq/aio.py for a
 * coroutine, and lets that run in its place (`inner`): one that waits for its turn to receive, and does nothing else, so that it tries
 * again behind it; or one that sends or asks, whose note says what was sent.  One thread at a time goes on with it; another one, and
 * code that it runs itself, gets an error.
 *
 * A peer of another order than bus1 has no C code that tries: it receives by its method, and sends by a coroutine alone.
 *
 * Not given: anything beyond the limited API of CPython 3.10.
 */

/* For so long a task may go on without letting others run: SLICE_S in busq/_port/event_loops.py. */
#define SLICE_S 200e-6

/* The base of the peers of busq.aio. */
typedef struct {
  PyObject_HEAD
  union {
    PyObject *objects[7];
    struct {
      PyObject *module; /* owns the state; NULL, as all else, before it is attached */
      PyObject *peer;
      PyObject *queues;    /* busq._port.event_loops.WaitQueues */
      PyObject *receivers; /* of the queues: tasks that wait */
      PyObject *senders;
      PyObject *loop;          /* of asyncio; NULL: the queues check */
      PyObject *running_loop; /* asyncio._get_running_loop */
    };
  };
  busq_state *state;
  int is_port; /* the order is bus1 */
} AsyncPort;

typedef enum {
  AWAIT_SEND,
  AWAIT_SEND_MANY,
  AWAIT_SEND_OBJECT,
  AWAIT_ASK,
  AWAIT_RECV,
  AWAIT_RECV_MANY,
  AWAIT_NEXT
} awaiting_kind;

typedef enum {
  STATE_NEW,
  STATE_PAUSES, /* `inner` lets others run */
  STATE_WAITS,  /* `inner` waits for its turn to receive */
  STATE_SENDS,  /* `inner` sends, or asks */
  STATE_OVER
} awaiting_state;

typedef struct {
  PyObject_HEAD
  union {
    PyObject *objects[10];
    struct {
      PyObject *owner; /* the AsyncPort */
      PyObject *values[ARGUMENTS_MAX]; /* as given; NULL where left out */
      PyObject *iterator; /* of what send_many was given */
      PyObject *pair;     /* of it, that is in hand */
      PyObject *deadline; /* of all its waits together */
      PyObject *note;     /* of what `inner` sends */
      PyObject *inner;    /* the coroutine that runs in its place */
    };
  };
  Py_ssize_t limit, n_sent;
  int64_t timeout_ns;
  awaiting_kind kind;
  awaiting_state state;
  int is_ack;
  int has_tried;
  char is_running;
} Awaiting;

static AsyncPort *owner_of(const Awaiting *self)
{
  return (AsyncPort *)self->owner;
}

/* ---- the event loop ---- */

/* Raises where this is not the event loop of the peer. */
static int check_loop(AsyncPort *owner)
{
  PyObject *found;
  if (owner->loop) {
    found = PyObject_CallNoArgs(owner->running_loop);
    const int is_ours = found == owner->loop;
    Py_XDECREF(found);
    if (is_ours)
      return 0;
    if (!found)
      return -1;
  }
  found = PyObject_CallMethod(owner->queues, "check", NULL);
  Py_XDECREF(found);
  return found ? 0 : -1;
}

/* Whether a task of this peer has run for so long that it is time to let others run; -1 with an exception. */
static int is_time_to_pause(AsyncPort *owner)
{
  struct timespec now;
  PyObject *resumed = PyObject_GetAttrString(owner->queues, "resumed");
  const double since = resumed ? PyFloat_AsDouble(resumed) : -1;
  Py_XDECREF(resumed);
  if (PyErr_Occurred())
    return -1;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9 - since > SLICE_S;
}

static PySendResult run_inner(Awaiting *self, awaiting_state state, PyObject *coroutine)
{
  self->inner = coroutine;
  self->state = state;
  return coroutine ? PYGEN_NEXT : PYGEN_ERROR;
}

static PySendResult pause_now(Awaiting *self)
{
  return run_inner(self, STATE_PAUSES, PyObject_CallMethod(owner_of(self)->queues, "pause", NULL));
}

/* What was given for `timeout`, or None; borrowed. */
static PyObject *timeout_of(const Awaiting *self)
{
  static const int places[] = {3, 1, 2, 2, 0, 1, 0};
  PyObject *given = self->kind == AWAIT_NEXT ? NULL : self->values[places[self->kind]];
  return given ? given : Py_None;
}

/* The deadline of a call with a timeout begins with its first wait; borrowed. */
static PyObject *deadline_of_call(Awaiting *self)
{
  if (!self->deadline) {
    PyObject *make = helper(owner_of(self)->state, "Deadline");
    self->deadline = make ? PyObject_CallFunctionObjArgs(make, timeout_of(self), NULL) : NULL;
    Py_XDECREF(make);
  }
  return self->deadline;
}

/* ---- sending ---- */

static PyObject *note_new(AsyncPort *owner)
{
  if (!owner->is_port)
    return PyObject_CallMethod((PyObject *)owner, "_new_note", NULL);
  return PyType_GenericAlloc((PyTypeObject *)owner->state->note_type, 0);
}

/* How many messages were sent by what is noted: 0 or 1.  An exception that is set stays. */
static Py_ssize_t note_read(AsyncPort *owner, PyObject *note)
{
  PyObject *type, *error, *trace;
  if (!note || owner->is_port)
    return note ? (Py_ssize_t)((Note *)note)->sent : 0;
  PyErr_Fetch(&type, &error, &trace);
  PyObject *sent = PyObject_CallMethod((PyObject *)owner, "_was_sent", "O", note);
  const Py_ssize_t count = sent ? PyLong_AsSsize_t(sent) : 0;
  Py_XDECREF(sent);
  PyErr_Restore(type, error, trace);
  return count > 0;
}

/* Lets a coroutine of busq/aio.py send `what` to `to`, in turn with others, or ask. */
static PySendResult send_inner(Awaiting *self, const char *method, PyObject *to, PyObject *what, PyObject *handles)
{
  AsyncPort *owner = owner_of(self);
  PyObject *deadline = deadline_of_call(self);
  self->note = deadline ? note_new(owner) : NULL;
  if (!self->note)
    return PYGEN_ERROR;
  PyObject *none = handles ? NULL : PyTuple_New(0);
  PyObject *carried = handles ? handles : none;
  PyObject *coroutine = carried ? PyObject_CallMethod((PyObject *)owner, method, "OOOOO", to, what, carried, deadline, self->note) : NULL;
  Py_XDECREF(none);
  return run_inner(self, STATE_SENDS, coroutine);
}

/* Tries in C, where that is possible: a result of the core, SEND_UNKNOWN, or RAISED. */
static int send_now(AsyncPort *owner, PyObject *to, PyObject *data)
{
  return owner->is_port && PyDict_Size(owner->senders) == 0 ? busq_port_send_now(owner->peer, to, data) : SEND_UNKNOWN;
}

static PySendResult try_send(Awaiting *self, PyObject **resultp)
{
  AsyncPort *owner = owner_of(self);
  const int result = self->values[2] ? SEND_UNKNOWN : send_now(owner, self->values[0], self->values[1]);
  if (result == BUSQ_OK) {
    *resultp = new_ref(Py_None);
    return PYGEN_RETURN;
  }
  if (result == BUSQ_FULL && self->timeout_ns == 0)
    busq_raise_full(owner->peer);
  if (result == RAISED || PyErr_Occurred())
    return PYGEN_ERROR;
  return send_inner(self, "_send", self->values[0], self->values[1], self->values[2]);
}

static int begin_many(Awaiting *self)
{
  PyObject *messages = self->values[0];
  if (!is_iterable(messages))
    error_wrong_type("messages", messages, "an iterable of pairs (to, data)");
  else if (deadline_of_call(self))
    self->iterator = PyObject_GetIter(messages);
  return self->iterator != NULL;
}

static void count_sent(Awaiting *self)
{
  self->n_sent++;
  Py_CLEAR(self->pair);
  Py_CLEAR(self->note);
}

/* Sends one after the other, and pauses where others are to run. */
static PySendResult try_send_many(Awaiting *self, PyObject **resultp)
{
  enum { PER_LOOK = 16 };
  AsyncPort *owner = owner_of(self);
  if (!self->iterator && !begin_many(self))
    return PYGEN_ERROR;
  for (Py_ssize_t since = 1;; since++) {
    PyObject *message = self->pair ? NULL : PyIter_Next(self->iterator);
    if (message) {
      self->pair = pair_of(message, self->n_sent);
      Py_DECREF(message);
    }
    if (PyErr_Occurred())
      return PYGEN_ERROR;
    if (!self->pair) {
      *resultp = PyLong_FromSsize_t(self->n_sent);
      return *resultp ? PYGEN_RETURN : PYGEN_ERROR;
    }
    PyObject *to = PyTuple_GetItem(self->pair, 0), *data = PyTuple_GetItem(self->pair, 1);
    const int result = send_now(owner, to, data);
    if (result == RAISED)
      return PYGEN_ERROR;
    if (result != BUSQ_OK)
      return send_inner(self, "_send", to, data, NULL);
    count_sent(self);
    const int is_time = since % PER_LOOK ? 0 : is_time_to_pause(owner);
    if (is_time)
      return is_time < 0 ? PYGEN_ERROR : pause_now(self);
  }
}

/* ---- receiving ---- */

/* Receives by the method of a peer of another order; NULL without an exception where nothing is there. */
static PyObject *receive_by_method(Awaiting *self)
{
  AsyncPort *owner = owner_of(self);
  const int is_many = self->kind == AWAIT_RECV_MANY;
  PyObject *method = PyObject_GetAttrString(owner->peer, is_many ? "recv_many" : "recv");
  PyObject *args = is_many ? Py_BuildValue("(ni)", self->limit, 0) : Py_BuildValue("(i)", 0);
  PyObject *names = Py_BuildValue("{s:O}", "ack", self->is_ack ? Py_True : Py_False);
  PyObject *received = method && args && names ? PyObject_Call(method, args, names) : NULL;
  Py_XDECREF(names);
  Py_XDECREF(args);
  Py_XDECREF(method);
  if (!received && PyErr_ExceptionMatches(owner->state->empty_error))
    PyErr_Clear();
  return received;
}

static PyObject *receive_now(Awaiting *self)
{
  AsyncPort *owner = owner_of(self);
  if (!owner->is_port)
    return receive_by_method(self);
  return self->kind == AWAIT_RECV_MANY ? busq_port_recv_many_try(owner->peer, self->limit, self->is_ack)
                                       : busq_port_recv_try(owner->peer, self->is_ack);
}

static PySendResult try_receive(Awaiting *self, PyObject **resultp)
{
  AsyncPort *owner = owner_of(self);
  const Py_ssize_t n_before = self->has_tried ? 0 : PyObject_Length(owner->receivers);
  const int is_first = n_before == 0; /* its turn has come, or no other task waits */
  if (n_before < 0)
    return PYGEN_ERROR;
  self->has_tried = 1;
  *resultp = is_first ? receive_now(self) : NULL;
  if (*resultp)
    return PYGEN_RETURN;
  if (!PyErr_Occurred() && is_first && self->timeout_ns == 0)
    PyErr_SetString(owner->state->empty_error, "nothing came before the timeout");
  PyObject *deadline = PyErr_Occurred() ? NULL : deadline_of_call(self);
  if (!deadline)
    return PYGEN_ERROR;
  return run_inner(self, STATE_WAITS,
                   PyObject_CallMethod(owner->queues, "receive_turn", "OO", deadline, is_first ? Py_True : Py_False));
}

/* ---- going on ---- */

static PySendResult try_now(Awaiting *self, PyObject **resultp)
{
  switch (self->kind) {
  case AWAIT_SEND:
    return try_send(self, resultp);
  case AWAIT_SEND_MANY:
    return try_send_many(self, resultp);
  case AWAIT_SEND_OBJECT:
    return send_inner(self, "_send_object", self->values[0], self->values[1], NULL);
  case AWAIT_ASK:
    return send_inner(self, "_ask", self->values[0], self->values[1], NULL);
  default:
    return try_receive(self, resultp);
  }
}

static int read_values(Awaiting *self)
{
  static const int ack_places[] = {[AWAIT_RECV] = 1, [AWAIT_RECV_MANY] = 2};
  const int takes_ack = self->kind == AWAIT_RECV || self->kind == AWAIT_RECV_MANY;
  if (self->kind == AWAIT_RECV_MANY && !limit_read(self->values[0], &self->limit))
    return 0;
  return timeout_read(timeout_of(self), &self->timeout_ns) &&
         (!takes_ack || ack_read(self->values[ack_places[self->kind]], &self->is_ack));
}

static PySendResult begin(Awaiting *self, PyObject **resultp)
{
  if (!read_values(self) || check_loop(owner_of(self)) < 0)
    return PYGEN_ERROR;
  const int is_time = is_time_to_pause(owner_of(self));
  return is_time < 0 ? PYGEN_ERROR : is_time ? pause_now(self) : try_now(self, resultp);
}

/* Goes on behind `inner`, which has ended with *resultp. */
static PySendResult go_on_behind(Awaiting *self, PyObject **resultp)
{
  const awaiting_state before = self->state;
  Py_CLEAR(self->inner);
  if (before == STATE_SENDS && self->kind != AWAIT_SEND_MANY)
    return PYGEN_RETURN;
  if (before == STATE_SENDS)
    count_sent(self);
  Py_CLEAR(*resultp);
  return try_now(self, resultp);
}

/* In whatever way it has ended. */
static PySendResult end(Awaiting *self, PySendResult status)
{
  self->state = STATE_OVER;
  Py_CLEAR(self->inner);
  if (status != PYGEN_ERROR)
    return status;
  if (self->kind <= AWAIT_ASK)
    error_set_sent(self->n_sent + note_read(owner_of(self), self->note));
  if (self->kind == AWAIT_NEXT && PyErr_ExceptionMatches(owner_of(self)->state->shut_down_error)) {
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
    if (status == PYGEN_RETURN)
      status = go_on_behind(self, resultp);
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

/* What the StopIteration that is set says was returned; it is set no more. */
static PyObject *returned_value(void)
{
  PyObject *type, *error, *trace;
  PyErr_Fetch(&type, &error, &trace);
  PyErr_NormalizeException(&type, &error, &trace);
  PyObject *value = error ? PyObject_GetAttrString(error, "value") : NULL;
  Py_XDECREF(type);
  Py_XDECREF(error);
  Py_XDECREF(trace);
  return value;
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
  if (yielded)
    return yielded;
  if (!PyErr_ExceptionMatches(PyExc_StopIteration)) {
    (void)end(self, PYGEN_ERROR);
    return NULL;
  }
  result = returned_value(); /* it went on, in spite of the exception */
  PySendResult status = result ? go_on_behind(self, &result) : PYGEN_ERROR;
  status = status == PYGEN_NEXT ? awaiting_go_on(self, Py_None, &result) : end(self, status);
  return as_iterator_does(status, result);
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

static const char *const kind_names[] = {"Peer.send", "Peer.send_many", "Peer.send_object", "Peer.ask",
                                         "Peer.recv", "Peer.recv_many", "Peer.__anext__"};

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

enum {
  AWAITING_OBJECTS = sizeof((Awaiting *)NULL)->objects / sizeof(PyObject *),
  ASYNC_PORT_OBJECTS = sizeof((AsyncPort *)NULL)->objects / sizeof(PyObject *)
};

static int awaiting_traverse(Awaiting *self, visitproc visit, void *arg)
{
  Py_VISIT(Py_TYPE(self));
  for (int i = 0; i < AWAITING_OBJECTS; i++)
    Py_VISIT(self->objects[i]);
  return 0;
}

static int awaiting_clear(Awaiting *self)
{
  self->state = STATE_OVER;
  for (int i = 0; i < AWAITING_OBJECTS; i++)
    Py_CLEAR(self->objects[i]);
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

static PyMethodDef awaiting_methods[] = {{"send", ONE_ARG(awaiting_send_method), NULL},
                                         {"throw", VARARGS(awaiting_throw), NULL},
                                         {"close", NOARGS(awaiting_close), NULL},
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

PyType_Spec awaiting_spec = {"busq._native._core.Awaiting", sizeof(Awaiting), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, awaiting_slots};

/* ---- the peer ---- */

/* attach_tasks(peer of busq.aio, peer, is_port, queues, receivers, senders, loop, running_loop): once, before it is used. */
static PyObject *attach_tasks(PyObject *module, PyObject *args)
{
  busq_state *state = PyModule_GetState(module);
  PyObject *object, *given[ASYNC_PORT_OBJECTS] = {module};
  int is_port;
  if (!PyArg_ParseTuple(args, "O!OpOOO!OO", state->async_port_type, &object, &given[1], &is_port, &given[2], &given[3], &PyDict_Type,
                        &given[4], &given[5], &given[6]))
    return NULL;
  AsyncPort *self = (AsyncPort *)object;
  if (self->state || (is_port && !port_checked(module, given[1])))
    return PyErr_Occurred() ? NULL : new_ref(Py_None);
  for (int i = 0; i < ASYNC_PORT_OBJECTS; i++)
    self->objects[i] = new_ref(given[i] == Py_None ? NULL : given[i]);
  self->is_port = is_port;
  self->state = state;
  Py_RETURN_NONE;
}

PyMethodDef awaiting_functions[] = {{"attach_tasks", VARARGS(attach_tasks), NULL}, {NULL, NULL, 0, NULL}};

static PyObject *awaiting_new(AsyncPort *owner, awaiting_kind kind, PyObject *const *values)
{
  Awaiting *self = PyObject_GC_New(Awaiting, (PyTypeObject *)owner->state->awaiting_type);
  if (!self)
    return NULL;
  for (int i = 0; i < AWAITING_OBJECTS; i++)
    self->objects[i] = NULL;
  self->owner = new_ref((PyObject *)owner);
  for (int i = 0; i < ARGUMENTS_MAX; i++)
    self->values[i] = new_ref(values[i]);
  self->limit = self->n_sent = 0;
  self->timeout_ns = -1;
  self->kind = kind;
  self->state = STATE_NEW;
  self->is_ack = 0;
  self->has_tried = 0;
  self->is_running = 0;
  PyObject_GC_Track(self);
  return (PyObject *)self;
}

static int is_attached(const AsyncPort *self)
{
  if (!self->state)
    PyErr_SetString(PyExc_TypeError, "a Peer is made by joining a bus: call `busq.aio.join`");
  return self->state != NULL;
}

static PyObject *call_new(AsyncPort *self, awaiting_kind kind, PyObject *const *args, Py_ssize_t n_args, PyObject *names)
{
  static const signature expected[] = {[AWAIT_SEND] = {"aio.Peer", "send", {"to", "data", "handles", "timeout"}, 2, 2},
                                       [AWAIT_SEND_MANY] = {"aio.Peer", "send_many", {"messages", "timeout"}, 1, 1},
                                       [AWAIT_SEND_OBJECT] = {"aio.Peer", "send_object", {"to", "obj", "timeout"}, 2, 2},
                                       [AWAIT_ASK] = {"aio.Peer", "ask", {"to", "data", "timeout"}, 2, 2},
                                       [AWAIT_RECV] = {"aio.Peer", "recv", {"timeout", "ack"}, 1, 0},
                                       [AWAIT_RECV_MANY] = {"aio.Peer", "recv_many", {"limit", "timeout", "ack"}, 2, 1}};
  PyObject *values[ARGUMENTS_MAX] = {NULL, NULL, NULL, NULL};
  if (!is_attached(self) ||
      ((n_args || names || expected[kind].n_required) &&
       !arguments_read(self->state, (PyObject *)self, &expected[kind], args, n_args, names, values)))
    return NULL;
  return awaiting_new(self, kind, values);
}

#define CALL(name, kind)                                                                                                                \
  static PyObject *async_##name(AsyncPort *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names)                            \
  {                                                                                                                                     \
    return call_new(self, kind, args, n_args, names);                                                                                   \
  }
CALL(send, AWAIT_SEND)
CALL(send_many, AWAIT_SEND_MANY)
CALL(send_object, AWAIT_SEND_OBJECT)
CALL(ask, AWAIT_ASK)
CALL(recv, AWAIT_RECV)
CALL(recv_many, AWAIT_RECV_MANY)

static PyObject *async_next(AsyncPort *self)
{
  PyObject *const values[ARGUMENTS_MAX] = {NULL, NULL, NULL, NULL};
  return is_attached(self) ? awaiting_new(self, AWAIT_NEXT, values) : NULL;
}

static int async_port_traverse(AsyncPort *self, visitproc visit, void *arg)
{
  Py_VISIT(Py_TYPE(self));
  for (int i = 0; i < ASYNC_PORT_OBJECTS; i++)
    Py_VISIT(self->objects[i]);
  return 0;
}

static int async_port_clear(AsyncPort *self)
{
  self->state = NULL; /* its module may go with what follows */
  for (int i = 0; i < ASYNC_PORT_OBJECTS; i++)
    Py_CLEAR(self->objects[i]);
  return 0;
}

static void async_port_dealloc(AsyncPort *self)
{
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  (void)async_port_clear(self);
  object_free((PyObject *)self, type);
}

static PyMethodDef async_port_methods[] = {{"send", FASTCALL(async_send), BUSQ_TEXT_aio_Peer_send},
                                           {"send_many", FASTCALL(async_send_many), BUSQ_TEXT_aio_Peer_send_many},
                                           {"send_object", FASTCALL(async_send_object), BUSQ_TEXT_aio_Peer_send_object},
                                           {"ask", FASTCALL(async_ask), BUSQ_TEXT_aio_Peer_ask},
                                           {"recv", FASTCALL(async_recv), BUSQ_TEXT_aio_Peer_recv},
                                           {"recv_many", FASTCALL(async_recv_many), BUSQ_TEXT_aio_Peer_recv_many},
                                           {NULL, NULL, 0, NULL}};

static PyType_Slot async_port_slots[] = {{Py_tp_doc, "The base of the peers of busq.aio: calls that are awaited."},
                                         {Py_tp_dealloc, (void *)async_port_dealloc},
                                         {Py_tp_traverse, (void *)async_port_traverse},
                                         {Py_tp_clear, (void *)async_port_clear},
                                         {Py_am_anext, (void *)async_next},
                                         {Py_tp_methods, async_port_methods},
                                         {0, NULL}};

PyType_Spec async_port_spec = {"busq._native._core.AsyncPort", sizeof(AsyncPort), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, async_port_slots};
