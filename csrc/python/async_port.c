/* SPDX-License-Identifier: Apache-2.0 */
#include "python/async_call.h"
#include <busq_texts.h>

/* The peers of busq.aio, and the calls that they make. */

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
  given[7] = PyUnicode_InternFromString("resumed");
  if (!given[7])
    return NULL;
  for (int i = 0; i < ASYNC_PORT_OBJECTS; i++)
    self->objects[i] = new_ref(given[i] == Py_None ? NULL : given[i]);
  Py_DECREF(given[7]);
  self->is_port = is_port;
  self->state = state;
  Py_RETURN_NONE;
}

PyMethodDef async_port_functions[] = {{"attach_tasks", VARARGS(attach_tasks), NULL}, {NULL, NULL, 0, NULL}};

static int is_attached(const AsyncPort *self)
{
  if (!self->state)
    PyErr_SetString(PyExc_TypeError, "a Peer is made by joining a bus: call `busq.aio.join`");
  return self->state != NULL;
}

static PyObject *call_new(AsyncPort *self, awaiting_kind kind, PyObject *const *args, Py_ssize_t n_args, PyObject *names)
{
  static const signature expected[] = {
      [AWAIT_SEND] = {"aio.Peer", "send", {ARGUMENT_TO, ARGUMENT_DATA, ARGUMENT_HANDLES, ARGUMENT_TIMEOUT}, 2, 2},
      [AWAIT_SEND_MANY] = {"aio.Peer", "send_many", {ARGUMENT_MESSAGES, ARGUMENT_TIMEOUT}, 1, 1},
      [AWAIT_SEND_OBJECT] = {"aio.Peer", "send_object", {ARGUMENT_TO, ARGUMENT_OBJ, ARGUMENT_HANDLES, ARGUMENT_TIMEOUT}, 2, 2},
      [AWAIT_ASK] = {"aio.Peer", "ask", {ARGUMENT_TO, ARGUMENT_DATA, ARGUMENT_TIMEOUT}, 2, 2},
      [AWAIT_RECV] = {"aio.Peer", "recv", {ARGUMENT_TIMEOUT, ARGUMENT_ACK}, 1, 0},
      [AWAIT_RECV_MANY] = {"aio.Peer", "recv_many", {ARGUMENT_LIMIT, ARGUMENT_TIMEOUT, ARGUMENT_ACK}, 2, 1}};
  PyObject *values[ARGUMENTS_MAX] = {NULL, NULL, NULL, NULL};
  if (!is_attached(self))
    return NULL;
  if (!names && n_args == expected[kind].n_required) {
    for (Py_ssize_t i = 0; i < n_args; i++)
      values[i] = args[i];
  } else if (!arguments_read(self->state, (PyObject *)self, &expected[kind], args, n_args, names, values)) {
    return NULL;
  }
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
