/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What found no room in a queue and waits in the process that put it (busq/_queues/overflow.py): a deque of pairs (port, data).
 *
 * Guarantee: whatever the handler of a signal raises, an object is in the deque and counted, or has gone and is not counted.  Each function is
 * one step for such handlers.  The send of a large object alone lets them run, and its exception has `sent` for whether the object has gone.
 */
#include "python/port.h"

/* shortage(): why the latest Full of this thread came. */
static PyObject *shortage(PyObject *module, PyObject *unused)
{
  (void)module, (void)unused;
  return PyLong_FromLong(busq_error_shortage());
}

/* Counted first, and looked for the end behind that (queue_end.c).  A call that waits for room finds the end here as well. */
static int keep_count(const Port *self, uint64_t key, uint64_t bound, uint64_t target)
{
  const int result = busq_peer_tally_add(self->peer, key, bound);
  if ((result != BUSQ_OK && result != BUSQ_FULL) || busq_peer_queue_end(self->peer, target) == BUSQ_QUEUE_OPEN)
    return result;
  if (result == BUSQ_OK)
    busq_peer_tally_settle(self->peer);
  return BUSQ_SHUTDOWN;
}

static PyObject *send_behind(PyObject *module, PyObject *object)
{
  Port *self = port_checked(module, object);
  if (!self)
    return NULL;
  busq_peer_send_behind(self->peer);
  Py_RETURN_NONE;
}

/* keep(items, port, key, bound, data, target): counts it beside the port and puts (port, data) into the deque, in one step.  False: it
 * would be more than the bound.  None: the port counts for another key.  ShutDown: the queue has ended. */
static PyObject *keep(PyObject *module, PyObject *args)
{
  PyObject *items, *object, *data;
  unsigned long long key, bound, target;
  if (!PyArg_ParseTuple(args, "OOKKOK", &items, &object, &key, &bound, &data, &target))
    return NULL;
  Port *self = port_checked(module, object);
  PyObject *item = self ? PyTuple_Pack(2, object, data) : NULL;
  if (!item)
    return NULL;
  const int result = keep_count(self, key, bound, target);
  PyObject *kept = NULL;
  if (result == BUSQ_OK && !(kept = PyObject_CallMethod(items, "append", "(O)", item)))
    busq_peer_tally_settle(self->peer);
  Py_DECREF(item);
  Py_XDECREF(kept);
  if (kept)
    Py_RETURN_TRUE;
  if (result == BUSQ_FULL)
    Py_RETURN_FALSE;
  if (result == BUSQ_NO_SPACE)
    Py_RETURN_NONE;
  return result == BUSQ_OK ? NULL : error_raise(self->state, result);
}

/* settle(items): the first of them has gone, or is given up. */
static PyObject *settle(PyObject *module, PyObject *items)
{
  PyObject *item = PyObject_CallMethod(items, "popleft", NULL);
  Port *self = item ? port_checked(module, PyTuple_GetItem(item, 0)) : NULL;
  if (self)
    busq_peer_tally_settle(self->peer);
  Py_XDECREF(item);
  return self ? new_ref(Py_None) : NULL;
}

/* ---- where no thread puts them ---- */

static PyObject *send_first(PyObject *items, PyObject *send)
{
  PyObject *item = PySequence_GetItem(items, 0);
  PyObject *done = item ? PyObject_CallFunctionObjArgs(send, PyTuple_GetItem(item, 1), NULL) : NULL;
  Py_XDECREF(item);
  return done;
}

/* Whether a send that has failed had sent its message by then. */
static int was_sent(PyObject *error)
{
  PyObject *sent = PyObject_GetAttrString(error, "sent");
  const int found = sent && PyObject_IsTrue(sent) == 1;
  Py_XDECREF(sent);
  return found;
}

/* Sends the first and settles it.  An exception of the send stays, in place of one of what follows. */
static void move(PyObject *module, PyObject *items, PyObject *send)
{
  PyObject *type, *error, *trace;
  PyObject *done = send_first(items, send);
  PyErr_Fetch(&type, &error, &trace);
  PyErr_NormalizeException(&type, &error, &trace);
  PyObject *settled = done || was_sent(error) ? settle(module, items) : NULL;
  Py_XDECREF(done);
  Py_XDECREF(settled);
  if (type)
    PyErr_Restore(type, error, trace);
}

/* move_first(items, fed, send): calls send(data) with the first of them and settles it, in one step, unless a thread is at it, which holds
 * the lock `fed`.  What `send` raises leaves it there, unless it was sent. */
static PyObject *move_first(PyObject *module, PyObject *args)
{
  PyObject *items, *fed, *send;
  if (!PyArg_ParseTuple(args, "OOO", &items, &fed, &send))
    return NULL;
  PyObject *held = PyObject_CallMethod(fed, "acquire", "i", 0);
  if (held == Py_True) {
    PyObject *type, *error, *trace;
    if (PySequence_Size(items) > 0)
      move(module, items, send);
    PyErr_Fetch(&type, &error, &trace);
    Py_XDECREF(PyObject_CallMethod(fed, "release", NULL));
    PyErr_Restore(type, error, trace);
  }
  Py_XDECREF(held);
  return held && !PyErr_Occurred() ? new_ref(Py_None) : NULL;
}

PyMethodDef overflow_functions[] = {{"shortage", NOARGS(shortage), NULL}, {"keep", VARARGS(keep), NULL},
                                    {"send_behind", ONE_ARG(send_behind), NULL}, {"settle", ONE_ARG(settle), NULL},
                                    {"move_first", VARARGS(move_first), NULL}, {NULL, NULL, 0, NULL}};
