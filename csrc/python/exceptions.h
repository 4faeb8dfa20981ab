/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_PYTHON_EXCEPTIONS_H
#define BUSQ_PYTHON_EXCEPTIONS_H
/*
 * The gate between Python and the core: where a result becomes an exception, and where what takes time lets go of the interpreter.
 *
 * Guarantee: a handler of a signal that raises does so either before anything was sent or taken, or with an exception whose
 * attribute `sent` is how much was sent.  This is the one place that sees to it.
 *
 * Mechanism: whatever may wait is tried in slices without the interpreter's lock; behind each slice handlers run, and what they raise
 * is given the number that the core has noted by then.  What is tried with the lock held runs no handler at all.
 *
 * Not given: a handler that raises once a call has returned: what it returned is its caller's.
 */
#include "python/module.h"

enum {
  RAISED = -1 /* in place of a result of the core: an exception is set */
};

/* Raises what a result stands for; always NULL. */
PyObject *error_raise(busq_state *state, int result);
/* Gives the exception that is set the number of messages that were sent before it, unless its class takes no attributes. */
void error_set_sent(Py_ssize_t sent);
/* Gives that number to an exception that Python code has raised, unless it has one already. */
void error_set_sent_where_unknown(Py_ssize_t sent);
/* Raises TypeError for an argument of a type that it can't have; always NULL. */
PyObject *error_wrong_type(const char *argument, PyObject *value, const char *expected);

int64_t now_ns(void);
/* The end of a timeout: -1 never, 0 where it is tried once. */
int64_t deadline_of(int64_t timeout_ns);
int64_t deadline_left(int64_t deadline_ns);

/* Something that may wait for a given time, and returns BUSQ_INTERRUPTED at the end of a slice of time. */
typedef int (*gate_step)(void *call, int64_t left_ns);
/* Does it until it has a result; RAISED where a handler of a signal raises: then the exception counts `before` messages, and those
 * in *sent, as sent.  `sent` is NULL where nothing is sent. */
int gate_run(busq_state *state, gate_step step, void *call, int64_t deadline_ns, Py_ssize_t before, const uint32_t *sent);
/* May this thread wait?  False with an exception where greenlets run in it (busq/_port/greenlets.py). */
int gate_may_wait(busq_state *state);

#endif /* BUSQ_PYTHON_EXCEPTIONS_H */
