/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_PYTHON_ASYNC_ATTEMPT_H
#define BUSQ_PYTHON_ASYNC_ATTEMPT_H
/*
 * What a call that is awaited (async_call.h) tries before it waits, and between two waits: its object, and how far it has come.
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

/* ---- attempts: PYGEN_RETURN with a result, PYGEN_ERROR, or PYGEN_NEXT where `inner` is to go on ---- */

PySendResult attempt_begin(Awaiting *self, PyObject **resultp);
/* Goes on behind `inner`, which has ended with *resultp. */
PySendResult attempt_go_on(Awaiting *self, PyObject **resultp);
/* Notes the end of the call, in whatever way it came; returns `status`. */
PySendResult attempt_end(Awaiting *self, PySendResult status);

#endif /* BUSQ_PYTHON_ASYNC_ATTEMPT_H */
