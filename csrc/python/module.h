/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_PYTHON_MODULE_H
#define BUSQ_PYTHON_MODULE_H
/*
 * The module `busq._native._core`: what one interpreter has of it.
 *
 * Guarantee: nothing that belongs to an interpreter stands in a static variable, so that each interpreter has the module for itself.
 *
 * Mechanism: multi-phase initialisation, and a state that every object reaches: by a pointer of its own where it is made often or may
 * belong to a subclass written in Python, which knows no module.  A type keeps its module, and a module its state, for as long as
 * objects of the type live.
 *
 * Not given: anything beyond the limited API of CPython 3.10.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include "busq.h"

/* Kinds of messages, as indices of busq_state.kinds. */
typedef enum {
  KIND_DATA,
  KIND_VIEW,
  KIND_JOINED,
  KIND_LEFT,
  KIND_NODE_DESTROYED,
  KIND_NODE_RELEASED,
  KIND_CONTROL,
  N_KINDS
} message_kind;

/* What `go_on` of a filter returns, together. */
enum {
  FILTER_UNSENT = 1, /* it has words that found no room */
  FILTER_SORTS = 2   /* it wants to sort every message, not only views and words */
};

/* Names of arguments, as indices of busq_state.arguments. */
typedef enum {
  ARGUMENT_NONE,
  ARGUMENT_TO,
  ARGUMENT_DATA,
  ARGUMENT_HANDLES,
  ARGUMENT_TIMEOUT,
  ARGUMENT_MESSAGES,
  ARGUMENT_OBJ,
  ARGUMENT_SIZE,
  ARGUMENT_RECEIVERS,
  ARGUMENT_ACK,
  ARGUMENT_LIMIT,
  N_ARGUMENTS
} argument_name;

enum {
  BUSQ_STATE_OBJECTS = 20 + N_KINDS + N_ARGUMENTS
};

typedef struct {
  union {
    PyObject *objects[BUSQ_STATE_OBJECTS];
    struct {
      PyObject *peer_owner_type, *port_type, *message_type, *draft_type, *handle_type, *node_type, *bus_type;
      PyObject *note_type, *request_type, *pin_type, *shown_type, *async_port_type, *awaiting_type;
      PyObject *errors;       /* busq.errors */
      PyObject *empty_error, *shut_down_error;
      PyObject *guard;        /* called before a thread waits: raises where it may not; or NULL */
      PyObject *helpers;      /* busq._port.called_from_c, once it was needed */
      PyObject *handle_class, *node_class; /* of busq.nodes, once a peer has met the first node */
      PyObject *kinds[N_KINDS];
      PyObject *arguments[N_ARGUMENTS]; /* interned */
    };
  };
} busq_state;
_Static_assert(sizeof(busq_state) == BUSQ_STATE_OBJECTS * sizeof(PyObject *), "each object is in the list");

/* A function of busq._port.called_from_c: what is rare, and better written in Python.  New reference, or NULL with an exception. */
PyObject *helper(busq_state *state, const char *name);

extern PyType_Spec peer_owner_spec, port_spec, message_spec, draft_spec, handle_spec, node_spec, bus_spec, note_spec, request_spec,
    pin_spec, shown_spec, async_port_spec, awaiting_spec;
extern PyMethodDef bus_functions[], port_functions[], send_functions[], filter_functions[], ask_functions[], node_functions[],
    message_functions[], pickling_functions[], copy_functions[], overflow_functions[], async_port_functions[];

/* Objects of these types are made by the library alone.  The flag has a name since 3.10, but not in every header of the limited API. */
#ifndef Py_TPFLAGS_DISALLOW_INSTANTIATION
#define Py_TPFLAGS_DISALLOW_INSTANTIATION (1UL << 7)
#endif

/* With the limited API these cost a call each, but for objects of the type itself. */
#define IS_STR(object) (PyUnicode_CheckExact(object) || PyUnicode_Check(object))
#define IS_BYTES(object) (PyBytes_CheckExact(object) || PyBytes_Check(object))
#define IS_TUPLE(object) (PyTuple_CheckExact(object) || PyTuple_Check(object))

#define FASTCALL(function) (PyCFunction)(void (*)(void))(function), METH_FASTCALL | METH_KEYWORDS
#define NOARGS(function) (PyCFunction)(void (*)(void))(function), METH_NOARGS
#define VARARGS(function) (PyCFunction)(void (*)(void))(function), METH_VARARGS
#define ONE_ARG(function) (PyCFunction)(void (*)(void))(function), METH_O

/* In a dealloc: frees what PyType_GenericAlloc or a subclass has made. */
static inline void object_free(PyObject *self, PyTypeObject *type)
{
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF(type);
}

static inline PyObject *new_ref(PyObject *object)
{
  Py_XINCREF(object);
  return object;
}

#endif /* BUSQ_PYTHON_MODULE_H */
