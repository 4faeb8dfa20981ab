/* SPDX-License-Identifier: Apache-2.0 */
#include "python/async_call.h"

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
    status = attempt_begin(self, resultp);
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
      status = attempt_go_on(self, resultp);
    argument = Py_None;
  }
  return attempt_end(self, status);
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

/* Takes the returned value out of the StopIteration that is set. */
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
    (void)attempt_end(self, PYGEN_ERROR);
    return NULL;
  }
  PyObject *method = PyObject_GetAttrString(self->inner, "throw");
  PyObject *yielded = method ? PyObject_Call(method, args, NULL) : NULL;
  Py_XDECREF(method);
  if (yielded)
    return yielded;
  if (!PyErr_ExceptionMatches(PyExc_StopIteration)) {
    (void)attempt_end(self, PYGEN_ERROR);
    return NULL;
  }
  result = returned_value(); /* it went on, in spite of the exception */
  PySendResult status = result ? attempt_go_on(self, &result) : PYGEN_ERROR;
  status = status == PYGEN_NEXT ? awaiting_go_on(self, Py_None, &result) : attempt_end(self, status);
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

/* Warns as Python does of its own coroutines. */
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

PyObject *awaiting_new(AsyncPort *owner, awaiting_kind kind, PyObject *const *values)
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
