/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_PYTHON_ASYNC_CALL_H
#define BUSQ_PYTHON_ASYNC_CALL_H
/*
 * Calls that are awaited: send, send_many, send_object, ask, recv and recv_many of busq.aio.
 *
 * Guarantee: between taking a message and handing it to the frame that awaits it, no Python code runs that could lose it; what raises
 * before that has taken nothing.  An exception that ends a call that sends has an attribute `sent`: how many messages were sent.
 *
 * Mechanism: an object that is awaited in place of a coroutine (async_call.c).  It tries at once (async_attempt.c).  Where it can't go
 * on it asks busq/aio.py for a coroutine, and lets that run in its place (`inner`): one that waits for its turn to receive, and does
 * nothing else, so that it tries again behind it; or one that sends or asks, with a note of the core on it.  One thread at a time goes
 * on with it; another one, and code that it runs itself, gets an error.
 *
 * A peer of another order than bus1 has no C code that tries: it receives by its method, and sends by a coroutine alone.
 *
 * Not given: anything beyond the limited API of CPython 3.10.
 */
#include "python/async_attempt.h"

/* A call that was not begun; its values are borrowed, in the order of its signature (async_port.c), and NULL where they were left out. */
PyObject *awaiting_new(AsyncPort *owner, awaiting_kind kind, PyObject *const *values);

#endif /* BUSQ_PYTHON_ASYNC_CALL_H */
