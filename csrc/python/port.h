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

/* Results beside those of the core. */
enum {
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

int busq_find_options(PyObject *const *args, Py_ssize_t n_args, PyObject *names, Py_ssize_t before, int is_receive,
                      busq_call_options *options);
/* Passes the very arguments on to a method. */
PyObject *busq_call_slowly(PyObject *self, const char *method, PyObject *const *args, Py_ssize_t n_args, PyObject *names);
/* Lets the exception that is set say how many messages were sent before it. */
void busq_error_set_sent(Py_ssize_t sent);
/* Raises busq.Empty or busq.Full. */
void busq_raise_empty(void);
void busq_raise_full(void);
/* Whether busq.ShutDown is set. */
int busq_is_shut_down_error(void);

/* Gives the methods of Desk their texts; NULL for one that has none. */
int busq_desk_set_texts(PyObject *texts, const char *(*text_of)(PyObject *texts, const char *name));
/* The type Desk; NULL with an exception. */
PyObject *busq_desk_type(void);

#endif /* BUSQ_PYTHON_PORT_H */
