/* SPDX-License-Identifier: Apache-2.0 */
#include "python/async_attempt.h"
#include <time.h>

/* For so long a task may go on without letting others run: SLICE_S in busq/_port/wait_queues.py. */
#define SLICE_S 200e-6

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
  PyObject *resumed = PyObject_GetAttr(owner->queues, owner->resumed);
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
  return run_inner(self, STATE_PAUSES, PyObject_CallMethod(awaiting_owner(self)->queues, "pause", NULL));
}

/* The argument `timeout`, or None; borrowed. */
static PyObject *timeout_of(const Awaiting *self)
{
  static const int places[] = {3, 1, 3, 2, 0, 1, 0};
  PyObject *given = self->kind == AWAIT_NEXT ? NULL : self->values[places[self->kind]];
  return given ? given : Py_None;
}

/* The deadline of a call with a timeout begins with its first wait; borrowed. */
static PyObject *deadline_of_call(Awaiting *self)
{
  if (!self->deadline) {
    PyObject *make = helper(awaiting_owner(self)->state, "Deadline");
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
  AsyncPort *owner = awaiting_owner(self);
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
  AsyncPort *owner = awaiting_owner(self);
  const int result = self->values[2] ? SEND_UNKNOWN : send_now(owner, self->values[0], self->values[1]);
  if (result == BUSQ_OK) {
    *resultp = new_ref(Py_None);
    return PYGEN_RETURN;
  }
  if (result == BUSQ_FULL && self->timeout_ns == 0)
    error_raise(owner->state, result);
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

/* False at the end, and with an exception. */
static int next_pair(Awaiting *self)
{
  PyObject *message = PyIter_Next(self->iterator);
  if (!message || (PyTuple_CheckExact(message) && PyTuple_Size(message) == 2)) {
    self->pair = message;
  } else {
    self->pair = pair_of(message, self->n_sent);
    Py_DECREF(message);
  }
  return self->pair != NULL;
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
  AsyncPort *owner = awaiting_owner(self);
  if (!self->iterator && !begin_many(self))
    return PYGEN_ERROR;
  for (Py_ssize_t since = 1;; since++) {
    if (!self->pair && !next_pair(self)) {
      *resultp = PyErr_Occurred() ? NULL : PyLong_FromSsize_t(self->n_sent);
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
  AsyncPort *owner = awaiting_owner(self);
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
  AsyncPort *owner = awaiting_owner(self);
  if (!owner->is_port)
    return receive_by_method(self);
  return self->kind == AWAIT_RECV_MANY ? busq_port_recv_many_try(owner->peer, self->limit, self->is_ack)
                                       : busq_port_recv_try(owner->peer, self->is_ack);
}

static PySendResult try_receive(Awaiting *self, PyObject **resultp)
{
  AsyncPort *owner = awaiting_owner(self);
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
    return send_inner(self, "_send_object", self->values[0], self->values[1], self->values[2]);
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

PySendResult attempt_begin(Awaiting *self, PyObject **resultp)
{
  if (!read_values(self) || check_loop(awaiting_owner(self)) < 0)
    return PYGEN_ERROR;
  const int is_time = is_time_to_pause(awaiting_owner(self));
  return is_time < 0 ? PYGEN_ERROR : is_time ? pause_now(self) : try_now(self, resultp);
}

PySendResult attempt_go_on(Awaiting *self, PyObject **resultp)
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

/* Has what was sent to other machines counted itself?  It may be open whether it was sent (busq/_port/wide_aio.py). */
static int has_counted(Awaiting *self)
{
  PyObject *type, *error, *trace;
  if (self->kind != AWAIT_SEND)
    return 0;
  PyErr_Fetch(&type, &error, &trace);
  PyErr_NormalizeException(&type, &error, &trace);
  PyObject *sent = error && PyObject_HasAttrString(error, "sent") ? PyObject_GetAttrString(error, "sent") : NULL;
  PyObject *unreachable = PyObject_GetAttrString(awaiting_owner(self)->state->errors, "Unreachable");
  const int result = sent == Py_None || (sent && unreachable && PyErr_GivenExceptionMatches(error, unreachable));
  Py_XDECREF(unreachable);
  Py_XDECREF(sent);
  PyErr_Restore(type, error, trace);
  return result;
}

PySendResult attempt_end(Awaiting *self, PySendResult status)
{
  self->state = STATE_OVER;
  Py_CLEAR(self->inner);
  if (status != PYGEN_ERROR)
    return status;
  if (self->kind <= AWAIT_ASK && !has_counted(self))
    error_set_sent(self->n_sent + note_read(awaiting_owner(self), self->note));
  if (self->kind == AWAIT_NEXT && PyErr_ExceptionMatches(awaiting_owner(self)->state->shut_down_error)) {
    PyErr_Clear();
    PyErr_SetNone(PyExc_StopAsyncIteration);
  }
  return status;
}
