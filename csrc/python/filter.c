/* SPDX-License-Identifier: Apache-2.0 */
#include "python/port.h"
#include <pythread.h>
/*
 * A port with a filter: an object that looks at what comes before the owner does (busq/_state/group_state.py).
 *
 * Guarantee: what is taken out of the queue stands in `inbox` until it was sorted as a whole, and in `ready` until the owner gets it: whatever
 * the filter raises, and whatever a handler of a signal raises in it, loses nothing, as long as the port is open.
 *
 * Mechanism: go_on() sends the words of the filter, and returns whether some are left, and whether every message is to be sorted, and not
 * only views and words of the library.  It is called before one is taken: what needs no sorting goes from the queue to the owner with no
 * bytecode in between, where a handler could raise and a port that is closed then could not give it back to a successor.  sort(message)
 * returns what the owner is to get now; where it raises, the message is sorted again by the next call.  drop() lets go of everything, once
 * the port is closed.  One thread at a time is at it; a thread that calls again from within is refused.
 *
 * Not given: waking a thread that waits when another one finds more than it takes; it looks by itself after a slice of time.
 */

enum {
  RETRY_NS = 1000000,  /* what had no room is tried again */
  TURN_US = 20000      /* signals are looked at while another thread is at it */
};

static int filter_turn_is_mine(const Port *self)
{
  return self->sorter == (long)PyThread_get_thread_ident();
}

/* BUSQ_OK, FILTER_BUSY where the deadline came first, or RAISED. */
static int filter_enter(Port *self, int64_t deadline_ns)
{
  if (busq_peer_is_forked(self->peer)) { /* another thread of the parent may have had the lock */
    error_raise(self->state, BUSQ_FORKED);
    return RAISED;
  }
  if (filter_turn_is_mine(self)) {
    PyErr_SetString(PyExc_RuntimeError, "`state` and `take` may not receive: they are called by a call that receives");
    return RAISED;
  }
  while (PyThread_acquire_lock(self->turn, NOWAIT_LOCK) != 1) {
    PyLockStatus status;
    if (deadline_left(deadline_ns) == 0)
      return FILTER_BUSY;
    Py_BEGIN_ALLOW_THREADS
    status = PyThread_acquire_lock_timed(self->turn, TURN_US, 0);
    Py_END_ALLOW_THREADS
    if (status == PY_LOCK_ACQUIRED)
      break;
    if (PyErr_CheckSignals() < 0)
      return RAISED;
  }
  self->sorter = (long)PyThread_get_thread_ident();
  return BUSQ_OK;
}

/* Lets go of what was not shown: it keeps places in the queue, which a successor may want. */
static void drop_rest(Port *self)
{
  PyObject *type, *error, *trace;
  PyErr_Fetch(&type, &error, &trace);
  (void)PyList_SetSlice(self->inbox, 0, PyList_Size(self->inbox), NULL);
  (void)PyList_SetSlice(self->ready, 0, PyList_Size(self->ready), NULL);
  PyObject *said = PyObject_CallMethod(self->filter, "drop", NULL);
  if (!said)
    PyErr_WriteUnraisable(self->filter);
  Py_XDECREF(said);
  PyErr_Restore(type, error, trace);
}

static void filter_leave(Port *self)
{
  if (self->is_closed)
    drop_rest(self);
  self->sorter = 0;
  PyThread_release_lock(self->turn);
}

void filter_close(Port *self)
{
  self->is_closed = 1; /* what has the turn drops the rest when it leaves */
  if (self->filter && !filter_turn_is_mine(self) && PyThread_acquire_lock(self->turn, NOWAIT_LOCK) == 1) {
    self->sorter = (long)PyThread_get_thread_ident();
    filter_leave(self);
  }
}

/* Sends the words that there is room for, and learns what is to be sorted; false with an exception. */
static int filter_go_on(Port *self)
{
  PyObject *said = PyObject_CallMethod(self->filter, "go_on", NULL);
  const long bits = said ? PyLong_AsLong(said) : -1;
  Py_XDECREF(said);
  self->has_unsent = bits > 0 && (bits & FILTER_UNSENT);
  self->holds_back = bits < 0 || (bits & FILTER_SORTS);
  return bits >= 0;
}

/* The first of a list, which has it no more; NULL where there is none. */
static PyObject *pop(PyObject *list)
{
  PyObject *first = busq_sequence_item(list, 0, 0);
  if (first && PyList_SetSlice(list, 0, 1, NULL) < 0)
    Py_CLEAR(first);
  return first;
}

static int is_for_filter(const Message *message)
{
  return message->kind == KIND_VIEW || message->kind == KIND_CONTROL;
}

/* Takes what comes next out of the queue: for the owner, where it need not be sorted, or into the inbox.  NULL with a result, or RAISED. */
static PyObject *take_next(Port *self, receive_step step, int is_ack, int *result)
{
  Message *message = step(self, is_ack, result);
  if (!message || (!self->holds_back && !is_for_filter(message)))
    return (PyObject *)message;
  if (PyList_Append(self->inbox, (PyObject *)message) < 0) {
    message_give_back(message);
    *result = RAISED;
  }
  Py_DECREF(message);
  return NULL;
}

/* Sorts the first of the inbox; false with an exception. */
static int sort_first(Port *self, PyObject *message)
{
  PyObject *shown = PyObject_CallMethod(self->filter, "sort", "O", message);
  PyObject *list = shown ? PySequence_List(shown) : NULL;
  Py_XDECREF(shown);
  if (!list)
    return 0;
  const Py_ssize_t n = PyList_Size(self->ready);
  const int failed = PyList_SetSlice(self->ready, n, n, list) < 0 || PyList_SetSlice(self->inbox, 0, 1, NULL) < 0;
  Py_DECREF(list);
  return !failed && filter_go_on(self); /* now, since its owner may receive much later */
}

/* The next message for the owner, or NULL with *result. */
static PyObject *next_shown(Port *self, receive_step step, int is_ack, int *result)
{
  *result = RAISED;
  while (!PyList_Size(self->ready)) {
    if (!PyList_Size(self->inbox)) {
      if (!filter_go_on(self))
        return NULL;
      PyObject *message = take_next(self, step, is_ack, result);
      if (message || *result != BUSQ_OK)
        return message;
      *result = RAISED;
    }
    PyObject *message = busq_sequence_item(self->inbox, 0, 0);
    const int is_sorted = message && sort_first(self, message);
    Py_XDECREF(message);
    if (!is_sorted)
      return NULL;
  }
  return PyErr_CheckSignals() < 0 ? NULL : pop(self->ready);
}

/* Takes one that is there behind the first, or returns NULL.  A state that is given holds what its owner has got: nothing is sorted before it has that. */
static PyObject *next_unsorted(Port *self, receive_step step, int is_ack)
{
  int ignored;
  if (PyList_Size(self->ready))
    return pop(self->ready);
  return PyList_Size(self->inbox) || self->holds_back ? NULL : take_next(self, step, is_ack, &ignored);
}

/* One message, or with a limit a list of at least one. */
static PyObject *take_shown(Port *self, receive_step step, Py_ssize_t limit, int is_ack, int *result)
{
  PyObject *message = next_shown(self, step, is_ack, result);
  if (!message || !limit)
    return message;
  PyObject *list = PyList_New(0);
  while (message && list) {
    const int failed = PyList_Append(list, message) < 0;
    Py_DECREF(message);
    if (failed)
      Py_CLEAR(list);
    message = list && PyList_Size(list) < limit ? next_unsorted(self, step, is_ack) : NULL;
  }
  if (list && PyErr_Occurred()) { /* all of it comes next */
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    (void)PyList_SetSlice(self->ready, 0, 0, list);
    PyErr_Restore(type, error, trace);
    Py_CLEAR(list);
  }
  if (!list)
    *result = RAISED;
  return list;
}

PyObject *filter_take(Port *self, receive_step step, Py_ssize_t limit, int is_ack, int64_t deadline_ns, int *result)
{
  *result = filter_enter(self, deadline_ns);
  if (*result != BUSQ_OK)
    return NULL;
  PyObject *taken = take_shown(self, step, limit, is_ack, result);
  filter_leave(self);
  return taken;
}

static int wait_step(void *peer, int64_t left_ns)
{
  return busq_peer_wait(peer, left_ns);
}

/* Until something may have come, or it is time to try again to send what had no room: BUSQ_OK, BUSQ_EMPTY, BUSQ_SHUTDOWN, or
 * RAISED.  It asks nothing of the filter, which another thread may keep for longer than this one may wait. */
static int filter_wait(Port *self, int64_t deadline_ns)
{
  const int64_t left_ns = deadline_left(deadline_ns);
  const int is_slice = self->has_unsent && (left_ns < 0 || left_ns > RETRY_NS);
  int result;
  if (left_ns != 0 && !gate_may_wait(self->state))
    return RAISED;
  Py_BEGIN_ALLOW_THREADS
  result = wait_step(self->peer, is_slice ? RETRY_NS : left_ns);
  Py_END_ALLOW_THREADS
  if (PyErr_CheckSignals() < 0)
    return RAISED;
  if (result == BUSQ_SHUTDOWN || (result == BUSQ_EMPTY && !is_slice))
    return result;
  return BUSQ_OK; /* what else it returns, the next look finds out */
}

PyObject *filter_receive(Port *self, receive_step step, Py_ssize_t limit, int is_ack, int64_t deadline_ns)
{
  int result, is_shut_down = 0;
  do {
    PyObject *taken = filter_take(self, step, limit, is_ack, deadline_ns, &result);
    if (taken)
      return taken;
    if (result == FILTER_BUSY)
      result = BUSQ_EMPTY;
    else if (result == BUSQ_EMPTY && is_shut_down)
      result = BUSQ_SHUTDOWN;
    else if (result == BUSQ_EMPTY)
      result = filter_wait(self, deadline_ns);
    if (result == BUSQ_SHUTDOWN && !is_shut_down) { /* another thread may have put something into `ready` */
      is_shut_down = 1;
      result = BUSQ_OK;
    }
  } while (result == BUSQ_OK);
  return result == RAISED ? NULL : error_raise(self->state, result);
}

/* set_filter(port, filter): from here on all that comes goes through it.  Between begin and end no thread takes a message: one that
 * comes later finds the filter. */
static PyObject *set_filter(PyObject *module, PyObject *args)
{
  PyObject *object, *filter;
  if (!PyArg_ParseTuple(args, "OO", &object, &filter))
    return NULL;
  Port *self = port_checked(module, object);
  if (!self)
    return NULL;
  if (self->filter) {
    PyErr_SetString(PyExc_ValueError, "this peer has a filter");
    return NULL;
  }
  self->inbox = self->inbox ? self->inbox : PyList_New(0);
  self->ready = self->ready ? self->ready : PyList_New(0);
  self->turn = self->turn ? self->turn : PyThread_allocate_lock();
  if (!self->inbox || !self->ready || !self->turn)
    return PyErr_NoMemory();
  const int is_open = busq_peer_receive_begin(self->peer) == BUSQ_OK;
  BUSQ_PUBLISH(self->filter, new_ref(filter));
  if (is_open)
    busq_peer_receive_end(self->peer);
  Py_RETURN_NONE;
}

static PyObject *filter_of(PyObject *module, PyObject *object)
{
  Port *self = port_checked(module, object);
  return self ? new_ref(self->filter ? self->filter : Py_None) : NULL;
}

/* is_idle(port): nothing is there to be received; an error is something, too. */
static PyObject *is_idle(PyObject *module, PyObject *object)
{
  Port *self = port_checked(module, object);
  if (!self)
    return NULL;
  const int has_some = self->filter && (PyList_Size(self->inbox) || PyList_Size(self->ready));
  return PyBool_FromLong(!has_some && busq_peer_wait(self->peer, 0) == BUSQ_EMPTY);
}

PyMethodDef filter_functions[] = {{"set_filter", VARARGS(set_filter), NULL},
                                  {"filter_of", ONE_ARG(filter_of), NULL},
                                  {"is_idle", ONE_ARG(is_idle), NULL},
                                  {NULL, NULL, 0, NULL}};
