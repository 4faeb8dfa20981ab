/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_PYTHON_PORT_H
#define BUSQ_PYTHON_PORT_H
/*
 * What the accelerator's Port (accelerator.c) does for those who wait in an event loop (awaiting.c).
 *
 * The first three try once, and run no Python code behind what they take or send: what they return was handed to nobody else, and who
 * passes it on at once loses it to no handler of a signal.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include "busq.h"

/* What the module holds for one interpreter. */
enum {
  BUSQ_FAST_OWN = 7,
  BUSQ_FAST_GIVEN = 9
};
typedef struct {
  union {
    PyObject *own[BUSQ_FAST_OWN];
    struct {
      PyObject *message_type, *pin_type, *awaiting_type, *shown_type;
      PyObject *timeout_name, *ack_name, *release_name; /* interned */
    };
  };
  union {
    PyObject *given[BUSQ_FAST_GIVEN]; /* by busq/_port/core.py, in this order */
    struct {
      PyObject *draft_class;       /* _FastDraft */
      PyObject *fail_helper;       /* fail */
      PyObject *no_object_helper;  /* no_object */
      PyObject *not_asked_helper;  /* _not_asked */
      PyObject *reply_type;        /* Reply */
      PyObject *object_helper;     /* read_object */
      PyObject *empty_error, *full_error, *shut_down_error;
    };
  };
  PyObject *handle_class; /* busq.nodes.Handle, once it was imported */
} busq_fast_state;
_Static_assert(sizeof(busq_fast_state) == (BUSQ_FAST_OWN + BUSQ_FAST_GIVEN + 1) * sizeof(PyObject *), "each is one of the lists");

/* Results beside those of the core. */
enum {
  BUSQ_PORT_COVERED = -3, /* Python's methods receive */
  BUSQ_PORT_SLOWLY = -2, /* only the slow way knows */
  BUSQ_PORT_RAISED = -1  /* an exception is set */
};

/* A message, or NULL with *result. */
PyObject *busq_port_recv_now(PyObject *port, int is_ack, int *result);
/* The same, a list of at least one. */
PyObject *busq_port_recv_many_now(PyObject *port, Py_ssize_t limit, int is_ack, int *result);
/* BUSQ_EMPTY, or why receiving is worth trying: BUSQ_SHUTDOWN, too. */
int busq_port_look(PyObject *port);
int busq_port_send_now(PyObject *port, PyObject *to, PyObject *data);

/* Reads how a call waits, and how it takes what it finds, behind `before` other arguments; false where only Python can. */
typedef struct {
  int64_t timeout_ns; /* -1: none */
  int is_ack;
  PyObject *timeout; /* as it was given; borrowed, or NULL */
} busq_call_options;

int busq_find_options(PyObject *port, PyObject *const *args, Py_ssize_t n_args, PyObject *names, Py_ssize_t before,
                      int is_receive, busq_call_options *options);
/* Passes the very arguments on to a method. */
PyObject *busq_call_slowly(PyObject *self, const char *method, PyObject *const *args, Py_ssize_t n_args, PyObject *names);
/* Lets the exception that is set say how many messages were sent before it. */
void busq_error_set_sent(Py_ssize_t sent);
/* Raises busq.Empty or busq.Full. */
void busq_raise_empty(PyObject *port);
void busq_raise_full(PyObject *port);
/* Whether busq.Empty, or busq.ShutDown, is set. */
int busq_is_empty_error(PyObject *port);
int busq_is_shut_down_error(PyObject *port);
/* What Desk makes; borrowed. */
PyTypeObject *busq_awaiting_type(PyObject *port);
extern PyType_Spec busq_awaiting_spec, busq_desk_spec;

/* Give methods their texts, which stay for as long as the process; -1 with an exception for one that has none. */
int busq_text_set(const char **textp, PyObject *texts, const char *name);
int busq_texts_set(PyMethodDef *methods, PyObject *texts);
int busq_desk_set_texts(PyObject *texts);

#endif /* BUSQ_PYTHON_PORT_H */
