/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_PYTHON_PORT_H
#define BUSQ_PYTHON_PORT_H
/*
 * A port: one process's end of a peer of a bus of order bus1, as a Python object.
 *
 * Guarantee: busq/peer.py.  Between taking a message and handing it over, and between committing one and returning, no Python code runs
 * that could lose it; where some has to (an event is read), what it raises gives the message back.
 *
 * Mechanism: port_type.c joins, and has the table of methods; port.c knows names; send.c and receive.c move messages; ask.c asks; node.c
 * makes nodes and handles.  What takes nanoseconds keeps the interpreter's lock, and what may wait goes through the gate (exceptions.h).
 * Where there is no such lock, threads.h keeps threads apart that use the same object.
 *
 * A port may have a filter (filter.c), which is asked wherever the port receives; it sees words of the library, too.
 *
 * Not given: anything beyond the limited API of CPython 3.10.
 */
#include "python/message.h"
#include "python/threads.h"

/* Payloads up to this size are copied in with the interpreter's lock held, and parts gathered. */
enum {
  SEND_BYTES_MAX = 65536,
  TARGETS_MAX = 64,
  LAST_MAX = 8 /* receivers that are remembered together */
};

typedef struct {
  uint32_t life;
  PyObject *name;
} sender_name;

typedef struct {
  PyObject_HEAD
  busq_peer *peer;
  busq_state *state; /* NULL, as all else, before it has joined */
  PeerOwner *peer_owner; /* owns the peer */
  PyObject *module;  /* owns the state */
  PyObject *name;    /* NULL: of replies */
  PyObject *codec;
  /* Of one with a filter (filter.c). */
  PyObject *filter;
  PyObject *inbox, *ready; /* lists: taken and not looked at; for the owner */
  void *turn;              /* a lock: of the thread that is at it */
  long sorter;             /* that thread */
  int has_unsent;          /* words that had no room */
  int holds_back;          /* what comes has to be sorted, whatever it is */
  int is_closed;
  int takes_back_dropped;  /* what it has received to be acknowledged, and nothing holds any more */
  PyObject *targets; /* dict: name -> target */
  PyObject *last_to; /* str, or tuple of them: the receivers that were looked up last; or NULL */
  Py_ssize_t n_last;
  uint64_t last_targets[LAST_MAX]; /* theirs */
  sender_name *names;
  PyObject *replaced;   /* by another one in `names`; or NULL */
  busq_flag names_flag; /* of both */
  uint32_t slots;
  /* Nodes, and handles of others' nodes. */
  PyObject *nodes; /* dict: number -> Node, of its own */
  PyObject *last_node; /* of those, that was sent to last; or NULL */
  PyObject *held;  /* dict: number -> weak reference of a Handle */
  Py_ssize_t held_limit;
  PyObject *inherited; /* list: the handles that a predecessor held; or NULL */
  /* Of one that has asked: what busq/_port/requests.py shares with ask.c. */
  struct {
    PyObject *port;     /* where replies come */
    PyObject *requests; /* what goes on with what takes longer */
    PyObject *waiting, *leader, *asleep;
  } ask;
} Port;

/* The port of an object that a function was given, if it is one that has joined; otherwise NULL with an exception. */
Port *port_checked(PyObject *module, PyObject *object);
/* False with an exception for one that has not joined, where a method is called on a half-made object. */
static inline int port_has_joined(const Port *self)
{
  if (!self->peer)
    PyErr_SetString(PyExc_ValueError, "this peer has not joined a bus: join with Bus.join");
  return self->peer != NULL;
}

/* Joins with what the core has made, which is NULL from then on.  False with an exception. */
int port_open(Port *self, PyObject *module, busq_peer **peer, uint32_t slots);

/* The name of a sender, if it is the one that is known of its slot. */
static inline PyObject *port_known_name(Port *self, const busq_message *message)
{
  PyObject *name = NULL;
  if (message->sender < self->slots && busq_flag_take(&self->names_flag)) {
    const sender_name *known = &self->names[message->sender];
    if (known->name && known->life == message->sender_life)
      name = new_ref(known->name);
    busq_flag_drop(&self->names_flag);
  }
  return name;
}

PyObject *port_look_up_sender(Port *self, const busq_message *message, int *result);
/* The name of a sender, remembered per slot; a new reference.  NULL with BUSQ_OK in *result: out of memory.  A slot keeps the name of
 * its peer while messages from it are in a queue, so this comes before such a message is taken. */
static inline PyObject *port_sender(Port *self, const busq_message *message, int *result)
{
  PyObject *name = port_known_name(self, message);
  return name ? name : port_look_up_sender(self, message, result);
}

void port_drop_replaced(Port *self);
/* A name's target, from what is remembered: 1, 0 where it is not known, or -1 with an exception. */
int port_known_target(Port *self, PyObject *name, uint64_t *target);
/* Remembers the receivers of a call by their object, which can't change, since an application mostly sends to the same.  Not where there is
 * no interpreter lock: a thread might take the names of one call and the targets of another. */
void port_remember(Port *self, PyObject *to, const uint64_t *targets, Py_ssize_t count);
/* Finds a target, and looks it up where it is not known: a result, or RAISED. */
int port_target(Port *self, PyObject *name, uint64_t *target);
int port_forget(Port *self, PyObject *name);

/* ---- nodes (node.c) ---- */

/* The base of busq.nodes.Handle. */
typedef struct {
  PyObject_HEAD
  PyObject *weak_references;
  busq_state *state;
  PeerOwner *peer_owner; /* of the peer that may send to it */
  uint64_t node;
  PyObject *owner;    /* str */
  uint8_t is_counted; /* by the core, for this object */
  uint8_t is_dead;
  uint8_t is_released;
} Handle;

/* The base of busq.nodes.Node. */
typedef struct {
  PyObject_HEAD
  busq_state *state;
  PeerOwner *peer_owner;
  uint64_t node;
  Handle *handle;
} Node;

/* Looks for the classes of busq.nodes, which most programs never need.  False with an exception. */
int nodes_import(busq_state *state);
/* Between begin and end: fills in the node that a message was found to be sent to, if that is all and it is the last one; false where it is
 * not. */
int nodes_fill_known(Port *self, Message *message, const busq_message *found);
/* Turns the nodes and handles of a message that was taken into objects.  False with an exception. */
int nodes_fill(Port *self, Message *message);
/* Makes the objects of the handles that a predecessor has left.  False with an exception. */
int nodes_adopt(Port *self);

/* ---- sending (send.c) ---- */

enum {
  SEND_UNKNOWN = -2 /* only the whole way knows: names that were not looked up, other data than bytes ... */
};

/* Tries the short way, bytes to receivers that are known: a result of the core, SEND_UNKNOWN, or RAISED. */
int busq_port_send_now(PyObject *port, PyObject *to, PyObject *data);
/* A pair (to, data), which stands at that place of what an application gives; NULL with an exception. */
PyObject *pair_of(PyObject *message, Py_ssize_t number);
/* A list of receivers as an application gives them; NULL with an exception. */
PyObject *receivers_of(busq_state *state, PyObject *to);

/* What is sent, and how; the receivers are found by send_names or send_letter. */
typedef struct {
  busq_peer *peer;
  const busq_part *parts;
  uint32_t n_parts;
  uint32_t form;
  int is_asking;     /* tries once, and asks for the room that was missing */
  uint32_t *sent;    /* the core's note */
  busq_letter to;
  uint8_t *missed;   /* of the nodes; NULL: to names alone, without handles */
  busq_pin *draft;   /* that is sent in place of the parts, or NULL */
  uint64_t draft_bytes;
} sending;

/* Sends to names that are known; SEND_UNKNOWN where they are not, or are out of date. */
int send_known(Port *self, sending *call, PyObject *to, int64_t deadline_ns, Py_ssize_t before);
/* Sends to names (a list), and to what stands in `to` besides; looks names up again where they may be out of date.  A result of the core,
 * or RAISED, where the exception has the number of messages that were sent, with those before. */
int send_names(Port *self, sending *call, PyObject *names, int64_t deadline_ns, Py_ssize_t before);

/* ---- receiving (receive.c) ---- */

/* At once, past the filter if there is one: a message, or NULL with an exception, or without one where nothing is there. */
PyObject *busq_port_recv_try(PyObject *port, int is_ack);
/* Takes several: a list of at least one. */
PyObject *busq_port_recv_many_try(PyObject *port, Py_ssize_t limit, int is_ack);
/* BUSQ_EMPTY, or why receiving is worth trying: BUSQ_SHUTDOWN, too. */
int busq_port_look(PyObject *port);
/* Everything about a message that was found that may fail; it is taken later.  NULL with *result, or with BUSQ_OK and an exception. */
Message *receive_prepare(Port *self, busq_peer *peer, const busq_message *found, int is_ack, int *result);
/* Takes what was prepared; with is_held, what was copied stays pinned, too.  Nothing in here can fail. */
void receive_take(PeerOwner *peer_owner, Message *message, const busq_message *found, int is_held);
int busq_is_shut_down_error(PyObject *port);

/* ---- receiving past a filter (filter.c) ---- */

enum {
  FILTER_BUSY = -4 /* another thread is at the filter, and the deadline has come */
};

/* Takes past the filter of a port, by what takes one out of the queue (receive_any): a message or a list, or NULL with *result or, of the
 * second, with an exception. */
typedef Message *(*receive_step)(Port *self, int is_ack, int *result);
PyObject *filter_take(Port *self, receive_step step, Py_ssize_t limit, int is_ack, int64_t deadline_ns, int *result);
PyObject *filter_receive(Port *self, receive_step step, Py_ssize_t limit, int is_ack, int64_t deadline_ns);
/* Once the peer is closed: lets go of what has come through the filter, and was not shown. */
void filter_close(Port *self);

#endif /* BUSQ_PYTHON_PORT_H */
