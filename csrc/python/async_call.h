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
#include "python/port.h"

/* The base of the peers of busq.aio. */
typedef struct {
  PyObject_HEAD
  union {
    PyObject *objects[8];
    struct {
      PyObject *module; /* owns the state; NULL, as all else, before it is attached */
      PyObject *peer;
      PyObject *queues;    /* busq._port.wait_queues.WaitQueues */
      PyObject *receivers; /* of the queues: tasks that wait */
      PyObject *senders;
      PyObject *loop;          /* of asyncio; NULL: the queues check */
      PyObject *running_loop; /* asyncio._get_running_loop */
      PyObject *resumed;      /* the name of an attribute of the queues */
    };
  };
  busq_state *state;
  int is_port; /* the order is bus1 */
} AsyncPort;

typedef enum {
  AWAIT_SEND,
  AWAIT_SEND_MANY,
  AWAIT_SEND_OBJECT,
  AWAIT_ASK,
  AWAIT_RECV,
  AWAIT_RECV_MANY,
  AWAIT_NEXT
} awaiting_kind;

typedef enum {
  STATE_NEW,
  STATE_PAUSES, /* `inner` lets others run */
  STATE_WAITS,  /* `inner` waits for its turn to receive */
  STATE_SENDS,  /* `inner` sends, or asks */
  STATE_OVER
} awaiting_state;

typedef struct {
  PyObject_HEAD
  union {
    PyObject *objects[10];
    struct {
      PyObject *owner; /* the AsyncPort */
      PyObject *values[ARGUMENTS_MAX]; /* as given; NULL where left out */
      PyObject *iterator; /* of what send_many was given */
      PyObject *pair;     /* of it, that is in hand */
      PyObject *deadline; /* of all its waits together */
      PyObject *note;     /* of what `inner` sends */
      PyObject *inner;    /* the coroutine that runs in its place */
    };
  };
  Py_ssize_t limit, n_sent;
  int64_t timeout_ns;
  awaiting_kind kind;
  awaiting_state state;
  int is_ack;
  int has_tried;
  char is_running;
} Awaiting;

enum {
  AWAITING_OBJECTS = sizeof((Awaiting *)NULL)->objects / sizeof(PyObject *),
  ASYNC_PORT_OBJECTS = sizeof((AsyncPort *)NULL)->objects / sizeof(PyObject *)
};

static inline AsyncPort *awaiting_owner(const Awaiting *self)
{
  return (AsyncPort *)self->owner;
}

/* A call that was not begun; its values are borrowed, in the order of its signature (async_port.c), and NULL where they were left out. */
PyObject *awaiting_new(AsyncPort *owner, awaiting_kind kind, PyObject *const *values);

/* ---- attempts (async_attempt.c): PYGEN_RETURN with a result, PYGEN_ERROR, or PYGEN_NEXT where `inner` is to go on ---- */

PySendResult attempt_begin(Awaiting *self, PyObject **resultp);
/* Goes on behind `inner`, which has ended with *resultp. */
PySendResult attempt_go_on(Awaiting *self, PyObject **resultp);
/* Notes the end of the call, in whatever way it came; returns `status`. */
PySendResult attempt_end(Awaiting *self, PySendResult status);

#endif /* BUSQ_PYTHON_ASYNC_CALL_H */
