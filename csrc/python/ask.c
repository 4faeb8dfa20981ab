/* SPDX-License-Identifier: Apache-2.0 */
#include "python/port.h"
#include <pythread.h>
#include <string.h>
#include <structmember.h>
/*
 * Asking.
 *
 * Guarantee: a reply is handed to the request whose number it carries in the same step in which it is taken, by whichever thread takes
 * it; what raises before that leaves it in the queue.
 *
 * Mechanism: replies come to a port of their own.  Where no other request waits, `ask` sends and waits here; whatever takes longer than a
 * slice of time, and whatever concerns other requests, goes on in busq/_port/requests.py, which finds the request registered as if
 * it had done so.  Without an interpreter's lock all of it goes on there, since requests of several threads meet in dictionaries.
 *
 * A request that is registered holds the place of its reply (shm/request.h), and both end together.
 *
 * Not given: waking others, or looking whether the one asked lives: requests.py does.
 */

/* A message that was asked, and the place for its reply. */
typedef struct {
  PyObject_HEAD
  PyObject *asked; /* by its name */
  PyObject *wake;  /* called, in any thread, when the reply is there; or NULL */
  PyObject *reply; /* the message, or NULL */
  unsigned long long number, target, began; /* began: which life of the target was asked */
  unsigned long thread;                     /* that waits for it, if it is a thread */
  char is_lost;                             /* the process that has it seems to have died */
} Request;

static int request_traverse(Request *self, visitproc visit, void *arg)
{
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(self->wake);
  return 0;
}

static int request_clear(Request *self)
{
  Py_CLEAR(self->asked);
  Py_CLEAR(self->wake);
  Py_CLEAR(self->reply);
  return 0;
}

static void request_dealloc(Request *self)
{
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  (void)request_clear(self);
  object_free((PyObject *)self, type);
}

static PyMemberDef request_members[] = {{"asked", T_OBJECT, offsetof(Request, asked), 0, NULL},
                                        {"wake", T_OBJECT, offsetof(Request, wake), 0, NULL},
                                        {"reply", T_OBJECT, offsetof(Request, reply), 0, NULL},
                                        {"number", T_ULONGLONG, offsetof(Request, number), 0, NULL},
                                        {"target", T_ULONGLONG, offsetof(Request, target), 0, NULL},
                                        {"began", T_ULONGLONG, offsetof(Request, began), 0, NULL},
                                        {"thread", T_ULONG, offsetof(Request, thread), 0, NULL},
                                        {"is_lost", T_BOOL, offsetof(Request, is_lost), 0, NULL},
                                        {NULL, 0, 0, 0, NULL}};

static PyType_Slot request_slots[] = {{Py_tp_doc, "A message that was asked, and the place for its reply."},
                                      {Py_tp_dealloc, (void *)request_dealloc},
                                      {Py_tp_traverse, (void *)request_traverse},
                                      {Py_tp_clear, (void *)request_clear},
                                      {Py_tp_members, request_members},
                                      {0, NULL}};

PyType_Spec request_spec = {"busq._native._core.Request", sizeof(Request), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, request_slots};

/* ---- replies ---- */

static uint64_t number_of(const busq_message *found)
{
  busq_request request = {0, 0};
  if (found->form == BUSQ_FORM_REPLY && found->size_bytes >= sizeof request)
    memcpy(&request, (const char *)found->data + found->size_bytes - sizeof request, sizeof request);
  return request.number;
}

static int peek_reply(Port *replies, busq_message *found, int may_spin)
{
  int result = busq_peer_receive_begin(replies->peer);
  if (result != BUSQ_OK)
    return result;
  result = busq_peer_receive_peek(replies->peer, found);
  if (result == BUSQ_EMPTY && may_spin)
    result = busq_peer_receive_spin(replies->peer, found);
  if (result != BUSQ_OK)
    busq_peer_receive_end(replies->peer);
  return result;
}

/* A new reference; NULL for one that nothing waits for. */
static Request *request_of(PyObject *waiting, uint64_t number)
{
  PyObject *key = PyLong_FromUnsignedLongLong(number);
  Request *request = key ? (Request *)new_ref(PyDict_GetItemWithError(waiting, key)) : NULL;
  Py_XDECREF(key);
  if (request && request->reply)
    Py_CLEAR(request);
  return request;
}

/* Takes what stands next and hands it over; *handed is its request, or NULL.  The queue is left while the request is looked for, since
 * nothing that may wait is done in it (threads.h). */
static int take_now(Port *replies, PyObject *waiting, Request **handed)
{
  busq_message seen, found;
  int result = peek_reply(replies, &seen, 0);
  *handed = NULL;
  if (result != BUSQ_OK)
    return result;
  busq_peer_receive_end(replies->peer);
  const uint64_t number = number_of(&seen);
  Request *request = request_of(waiting, number);
  if (PyErr_Occurred() || (result = peek_reply(replies, &found, 0)) != BUSQ_OK) {
    Py_XDECREF(request);
    return PyErr_Occurred() ? RAISED : result;
  }
  Message *message = NULL;
  if (found.position != seen.position || found.tag != seen.tag)
    result = BUSQ_INTERRUPTED; /* another thread was faster */
  else if (!request)
    busq_peer_receive_take(replies->peer, BUSQ_TAKE_COPIED);
  else
    message = receive_prepare(replies, replies->peer, &found, 0, &result);
  if (message) {
    receive_take(replies->peer_owner, message, &found, 0);
    request->reply = (PyObject *)message;
    *handed = request;
  }
  busq_peer_receive_end(replies->peer);
  if (message || (!request && result == BUSQ_OK))
    busq_peer_request_answered(replies->peer, number);
  if (!message)
    Py_XDECREF(request);
  return PyErr_Occurred() ? RAISED : result;
}

static int wait_replies(Port *replies, int64_t timeout_ns, int has_spun)
{
  int result;
  Py_BEGIN_ALLOW_THREADS
  result = has_spun ? busq_peer_wait_spun(replies->peer, timeout_ns) : busq_peer_wait(replies->peer, timeout_ns);
  Py_END_ALLOW_THREADS
  return PyErr_CheckSignals() < 0 ? RAISED : result;
}

static int wake(Request *request)
{
  PyObject *call = new_ref(request->wake);
  PyObject *none = call && call != Py_None ? PyObject_CallNoArgs(call) : NULL;
  const int failed = call && call != Py_None && !none;
  Py_XDECREF(none);
  Py_XDECREF(call);
  return failed ? RAISED : BUSQ_OK;
}

/* take_reply(replies, waiting, timeout_ns): takes one, and hands it to its request, whose `wake` is called; a result of the core. */
static PyObject *take_reply(PyObject *module, PyObject *args)
{
  PyObject *object, *waiting;
  long long timeout_ns;
  if (!PyArg_ParseTuple(args, "OO!L", &object, &PyDict_Type, &waiting, &timeout_ns))
    return NULL;
  Port *replies = port_checked(module, object);
  Request *handed = NULL;
  if (!replies)
    return NULL;
  int result = take_now(replies, waiting, &handed);
  if (result == BUSQ_EMPTY) { /* or the bus was shut down: a look finds that out, and taking does not */
    result = timeout_ns ? wait_replies(replies, timeout_ns, 0) : busq_port_look(object);
    if (result == BUSQ_OK)
      result = take_now(replies, waiting, &handed);
  }
  if (handed && wake(handed) < 0)
    result = RAISED;
  Py_XDECREF(handed);
  return result == RAISED ? NULL : PyLong_FromLong(result);
}

/* ---- sending a request ---- */

typedef struct {
  Port *port;
  const busq_part *parts;
  uint32_t n_parts;
  int is_asking;
  Request *request;
  uint32_t *sent;
} asking;

/* Whether the target lives is asked for every slice: a durable one that is dead takes messages, but gives no replies. */
static int ask_step(const asking *call, int64_t left_ns)
{
  const uint64_t target = call->request->target;
  uint64_t began = 0;
  const int result = busq_peer_life_at_send(call->port->peer, target, &began);
  if (result)
    return result;
  call->request->began = began;
  if (call->is_asking)
    return busq_peer_send_asking(call->port->peer, &target, 1, call->parts, call->n_parts, BUSQ_FORM_ASK, call->sent);
  return busq_peer_send_parts(call->port->peer, &target, 1, call->parts, call->n_parts, BUSQ_FORM_ASK, left_ns, call->sent);
}

/* ask_slice(port, request, data, replies, timeout_ns, is_asking, note): waits for room for a slice of time at most; a result. */
static PyObject *ask_slice(PyObject *module, PyObject *args)
{
  const busq_state *state = PyModule_GetState(module);
  PyObject *object, *request, *data, *replies, *note;
  long long timeout_ns;
  payload read;
  int is_asking;
  if (!PyArg_ParseTuple(args, "OO!OOLpO!", &object, state->request_type, &request, &data, &replies, &timeout_ns, &is_asking,
                        state->note_type, &note))
    return NULL;
  Port *self = port_checked(module, object), *back = self ? port_checked(module, replies) : NULL;
  Request *asked = (Request *)request;
  const busq_request tail = {asked->number, back ? busq_peer_target(back->peer) : 0};
  uint64_t target;
  if (!back || !payload_read(&read, data, "data", &tail, sizeof tail))
    return NULL;
  int result = asked->asked ? port_target(self, asked->asked, &target) : BUSQ_INVALID;
  if (result == BUSQ_OK) {
    const asking call = {self, read.parts, read.n_parts, is_asking, asked, &((Note *)note)->sent};
    asked->target = target;
    Py_BEGIN_ALLOW_THREADS
    result = ask_step(&call, timeout_ns);
    Py_END_ALLOW_THREADS
    if (PyErr_CheckSignals() < 0)
      result = RAISED;
  } else if (result != RAISED) {
    error_raise(self->state, result); /* a name that is not known: no send of it is tried again */
    result = RAISED;
  }
  payload_free(&read);
  return result == RAISED ? NULL : PyLong_FromLong(result);
}

/* request_begin(port, replies, request, waiting, timeout_ns, is_asking): holds a place for its reply, and registers it; a result. */
static PyObject *request_begin(PyObject *module, PyObject *args)
{
  const busq_state *state = PyModule_GetState(module);
  PyObject *object, *replies, *request, *waiting;
  long long timeout_ns;
  int is_asking, result;
  uint64_t number = 0;
  if (!PyArg_ParseTuple(args, "OOO!O!Lp", &object, &replies, state->request_type, &request, &PyDict_Type, &waiting, &timeout_ns,
                        &is_asking))
    return NULL;
  Port *self = port_checked(module, object), *back = self ? port_checked(module, replies) : NULL;
  if (!back)
    return NULL;
  Py_BEGIN_ALLOW_THREADS
  result = is_asking ? busq_peer_request_begin_asking(self->peer, back->peer, &number)
                     : busq_peer_request_begin(self->peer, back->peer, timeout_ns, &number);
  Py_END_ALLOW_THREADS
  ((Request *)request)->number = number;
  PyObject *key = result == BUSQ_OK ? PyLong_FromUnsignedLongLong(number) : NULL;
  if (key)
    (void)PyDict_SetItem(waiting, key, request);
  Py_XDECREF(key);
  return PyErr_Occurred() || PyErr_CheckSignals() < 0 ? NULL : PyLong_FromLong(result);
}

/* request_end(replies, request): its place is free, or will be when a reply that is on its way has come. */
static PyObject *request_end(PyObject *module, PyObject *args)
{
  const busq_state *state = PyModule_GetState(module);
  PyObject *object, *request;
  if (!PyArg_ParseTuple(args, "OO!", &object, state->request_type, &request))
    return NULL;
  Port *replies = port_checked(module, object);
  if (!replies)
    return NULL;
  busq_peer_request_end(replies->peer, ((Request *)request)->number);
  ((Request *)request)->number = 0;
  Py_RETURN_NONE;
}

static PyObject *forget(PyObject *module, PyObject *args)
{
  PyObject *object, *name;
  if (!PyArg_ParseTuple(args, "OO", &object, &name))
    return NULL;
  Port *self = port_checked(module, object);
  return self && port_forget(self, name) ? new_ref(Py_None) : NULL;
}

/* ---- what requests.py wants to know ---- */

/* Lives that the kernel was asked about, of different slots mostly. */
enum { LIVES_KNOWN = 64 };
typedef struct {
  uint64_t life;
  int is_over;
} life_seen;

typedef struct {
  life_seen lives[LIVES_KNOWN];
} life_cache;

static PyObject *join_replies(PyObject *module, PyObject *object)
{
  busq_state *state = PyModule_GetState(module);
  Port *self = port_checked(module, object);
  busq_peer *peer = NULL;
  int result;
  if (!self)
    return NULL;
  Py_BEGIN_ALLOW_THREADS
  result = busq_peer_join_replies(self->peer, &peer);
  Py_END_ALLOW_THREADS
  if (result != BUSQ_OK)
    return error_raise(state, result);
  Port *replies = (Port *)PyType_GenericAlloc((PyTypeObject *)state->port_type, 0);
  if (!replies) {
    busq_peer_free(peer);
    return NULL;
  }
  if (!port_open(replies, module, &peer, self->slots))
    Py_CLEAR(replies);
  return (PyObject *)replies;
}

static int request_is_lost(Port *replies, const Request *request, life_cache *known)
{
  if (!request->began) /* it was not sent so far */
    return 0;
  const uint64_t life = busq_peer_request_life(replies->peer, request->number, request->target, request->began);
  life_seen *seen = &known->lives[life % LIVES_KNOWN];
  if (!life)
    return 0;
  if (seen->life != life)
    *seen = (life_seen){life, busq_peer_life_goes_on(replies->peer, life) == BUSQ_PEER_DEAD};
  return seen->is_over;
}

/* is_lost(replies, request): no process lives that could still reply, if the reply is not there. */
static PyObject *is_lost(PyObject *module, PyObject *args)
{
  const busq_state *state = PyModule_GetState(module);
  life_cache known = {0};
  PyObject *object, *request;
  if (!PyArg_ParseTuple(args, "OO!", &object, state->request_type, &request))
    return NULL;
  Port *replies = port_checked(module, object);
  return replies ? PyBool_FromLong(request_is_lost(replies, (Request *)request, &known)) : NULL;
}

/* find_lost(replies, waiting): those requests, as a list.  The kernel is asked once about each process, however many requests depend on
 * it: a place in shared memory names it. */
static PyObject *find_lost(PyObject *module, PyObject *args)
{
  const busq_state *state = PyModule_GetState(module);
  life_cache known = {0};
  PyObject *object, *waiting;
  if (!PyArg_ParseTuple(args, "OO!", &object, &PyDict_Type, &waiting))
    return NULL;
  Port *replies = port_checked(module, object);
  PyObject *all = replies ? PyDict_Values(waiting) : NULL, *lost = all ? PyList_New(0) : NULL;
  for (Py_ssize_t i = 0; lost && i < PyList_Size(all); i++) {
    PyObject *request = PyList_GetItem(all, i);
    if (PyObject_TypeCheck(request, (PyTypeObject *)state->request_type) &&
        request_is_lost(replies, (Request *)request, &known) && PyList_Append(lost, request) < 0)
      Py_CLEAR(lost);
  }
  Py_XDECREF(all);
  return lost;
}

/* watch_lives(replies, waiting): the descriptor reports the end of each process that requests depend on; False where it can't. */
static PyObject *watch_lives(PyObject *module, PyObject *args)
{
  const busq_state *state = PyModule_GetState(module);
  PyObject *object, *waiting;
  int result = BUSQ_OK;
  if (!PyArg_ParseTuple(args, "OO!", &object, &PyDict_Type, &waiting))
    return NULL;
  Port *replies = port_checked(module, object);
  PyObject *all = replies ? PyDict_Values(waiting) : NULL;
  for (Py_ssize_t i = 0; all && result == BUSQ_OK && i < PyList_Size(all); i++) {
    PyObject *object_at = PyList_GetItem(all, i);
    if (!PyObject_TypeCheck(object_at, (PyTypeObject *)state->request_type))
      continue;
    const Request *request = (Request *)object_at;
    const uint64_t life = busq_peer_request_life(replies->peer, request->number, request->target, request->began);
    result = !life ? BUSQ_OK : request->began ? busq_peer_watch_life(replies->peer, life) : BUSQ_EMPTY;
  }
  Py_XDECREF(all);
  return all ? PyBool_FromLong(result == BUSQ_OK) : NULL;
}

static PyObject *wake_waiter(PyObject *module, PyObject *object)
{
  Port *replies = port_checked(module, object);
  if (!replies)
    return NULL;
  busq_peer_wake(replies->peer);
  Py_RETURN_NONE;
}

/* watched_lives(replies, goes_on): False where one of the processes has ended; then, or where it does not go on, none is watched. */
static PyObject *watched_lives(PyObject *module, PyObject *args)
{
  PyObject *object;
  int goes_on;
  if (!PyArg_ParseTuple(args, "Op", &object, &goes_on))
    return NULL;
  Port *replies = port_checked(module, object);
  return replies ? PyBool_FromLong(busq_peer_watched_lives(replies->peer, goes_on) == BUSQ_OK) : NULL;
}

static PyObject *tail(PyObject *module, PyObject *object)
{
  Port *replies = port_checked(module, object);
  return replies ? PyLong_FromUnsignedLongLong(busq_peer_tail(replies->peer)) : NULL;
}

static PyObject *has_received(PyObject *module, PyObject *args)
{
  PyObject *object;
  unsigned long long end;
  if (!PyArg_ParseTuple(args, "OK", &object, &end))
    return NULL;
  Port *replies = port_checked(module, object);
  return replies ? PyBool_FromLong(busq_peer_has_received(replies->peer, end) != BUSQ_EMPTY) : NULL;
}

static PyObject *follow(PyObject *module, PyObject *args)
{
  PyObject *object, *replies;
  if (!PyArg_ParseTuple(args, "OO", &object, &replies))
    return NULL;
  Port *self = port_checked(module, object), *followed = self ? port_checked(module, replies) : NULL;
  if (!followed)
    return NULL;
  busq_peer_follow(self->peer, followed->peer);
  Py_RETURN_NONE;
}

/* attach_requests(port, requests, replies, waiting, leader, asleep): after the first ask. */
static PyObject *attach_requests(PyObject *module, PyObject *args)
{
  PyObject *object, *requests, *replies, *waiting, *leader, *asleep;
  if (!PyArg_ParseTuple(args, "OOOO!O!O!", &object, &requests, &replies, &PyDict_Type, &waiting, &PyDict_Type, &leader,
                        &PyDict_Type, &asleep))
    return NULL;
  Port *self = port_checked(module, object), *back = self ? port_checked(module, replies) : NULL;
  if (!back)
    return NULL;
  if (self->ask.requests)
    Py_RETURN_NONE;
  self->ask.waiting = new_ref(waiting);
  self->ask.leader = new_ref(leader);
  self->ask.asleep = new_ref(asleep);
  self->ask.port = new_ref((PyObject *)back);
  self->ask.requests = new_ref(requests);
  Py_RETURN_NONE;
}

PyMethodDef ask_functions[] = {{"take_reply", VARARGS(take_reply), NULL},
                               {"ask_slice", VARARGS(ask_slice), NULL},
                               {"forget", VARARGS(forget), NULL},
                               {"join_replies", ONE_ARG(join_replies), NULL},
                               {"request_begin", VARARGS(request_begin), NULL},
                               {"request_end", VARARGS(request_end), NULL},
                               {"is_lost", VARARGS(is_lost), NULL},
                               {"find_lost", VARARGS(find_lost), NULL},
                               {"watch_lives", VARARGS(watch_lives), NULL},
                               {"wake", ONE_ARG(wake_waiter), NULL},
                               {"watched_lives", VARARGS(watched_lives), NULL},
                               {"tail", ONE_ARG(tail), NULL},
                               {"has_received", VARARGS(has_received), NULL},
                               {"follow", VARARGS(follow), NULL},
                               {"attach_requests", VARARGS(attach_requests), NULL},
                               {NULL, NULL, 0, NULL}};

/* ---- by the short way: one request, while no other waits ---- */

#ifndef Py_GIL_DISABLED
static int may_ask_now(const Port *self, PyObject *to, PyObject *data)
{
  return self->ask.requests && !PyDict_Size(self->ask.waiting) && !PyDict_Size(self->ask.leader) && PyUnicode_CheckExact(to) &&
         PyBytes_CheckExact(data) && PyBytes_Size(data) <= SEND_BYTES_MAX;
}

/* Registered as requests.py would have done it, so that from any step on that can go on with it.  Between this and alone_end no Python
 * code runs, but where a comment names it.  NULL without an exception: no place is free. */
static PyObject *alone_begin(Port *self, Request *request)
{
  uint64_t number = 0;
  const int result = busq_peer_request_begin(self->peer, ((Port *)self->ask.port)->peer, 0, &number);
  if (result != BUSQ_OK)
    return result == BUSQ_FULL ? NULL : error_raise(self->state, result);
  request->number = number;
  PyObject *key = PyLong_FromUnsignedLongLong(request->number);
  if (key && (PyDict_SetItem(self->ask.waiting, key, (PyObject *)request) < 0 ||
              PyDict_SetItem(self->ask.leader, Py_None, (PyObject *)request) < 0))
    Py_CLEAR(key);
  return key;
}

/* Waits no more.  An exception that is set stays; one that a handler raises here is returned as -1. */
static int alone_end(Port *self, Request *request, PyObject *key)
{
  PyObject *type, *error, *trace;
  PyErr_Fetch(&type, &error, &trace);
  if (PyDict_GetItemWithError(self->ask.leader, Py_None) == (PyObject *)request)
    (void)PyDict_DelItem(self->ask.leader, Py_None);
  if (key && PyDict_GetItemWithError(self->ask.waiting, key))
    (void)PyDict_DelItem(self->ask.waiting, key);
  if (request->number)
    busq_peer_request_end(((Port *)self->ask.port)->peer, request->number);
  PyErr_Clear();
  if (PyDict_Size(self->ask.asleep)) /* Python code, for those that have come meanwhile */
    Py_XDECREF(PyObject_CallMethod(self->ask.requests, "wake", NULL));
  const int result = PyErr_Occurred() ? -1 : 0;
  if (type) {
    PyErr_Clear();
    PyErr_Restore(type, error, trace);
  }
  return result;
}

/* Takes the reply of the one request that waits, without leaving the queue to look for it; any other reply goes the general way. */
static int take_own(Port *self, Request *request)
{
  Port *replies = (Port *)self->ask.port;
  Request *handed;
  busq_message found;
  int result = peek_reply(replies, &found, 1);
  if (result != BUSQ_OK)
    return result;
  const int is_own = number_of(&found) == request->number;
  Message *message = is_own ? receive_prepare(replies, replies->peer, &found, 0, &result) : NULL;
  if (message) {
    receive_take(replies->peer_owner, message, &found, 0);
    request->reply = (PyObject *)message;
  }
  busq_peer_receive_end(replies->peer);
  if (message)
    busq_peer_request_answered(replies->peer, request->number);
  if (!is_own) {
    result = take_now(replies, self->ask.waiting, &handed);
    Py_XDECREF(handed);
  }
  return PyErr_Occurred() ? RAISED : result;
}

/* Until the reply is there, another request waits, or a slice is over: then requests.py goes on. */
static int wait_alone(Port *self, Request *request, int64_t end_ns)
{
  enum { SLICE_NS = 50000000 };
  const int64_t slice_end_ns = now_ns() + SLICE_NS;
  Port *replies = (Port *)self->ask.port;
  int result = BUSQ_OK;
  while (result == BUSQ_OK && !request->reply && PyDict_Size(self->ask.waiting) == 1 && !PyDict_Size(self->ask.asleep)) {
    result = take_own(self, request);
    if (result != BUSQ_EMPTY)
      continue;
    const int64_t until_ns = end_ns >= 0 && end_ns < slice_end_ns ? end_ns : slice_end_ns, left_ns = until_ns - now_ns();
    result = left_ns > 0 ? wait_replies(replies, left_ns, 1) : BUSQ_EMPTY;
  }
  return result == RAISED ? RAISED : request->reply ? BUSQ_OK : BUSQ_EMPTY;
}

/* The reply; NULL with an exception, or, with *is_sent 0, where all of it is to be done the other way. */
static PyObject *ask_alone(Port *self, PyObject *to, PyObject *data, int64_t timeout_ns, uint32_t *is_sent)
{
  uint64_t target;
  PyObject *reply = NULL;
  Request *request = NULL;
  if (timeout_ns && may_ask_now(self, to, data) && port_known_target(self, to, &target) == 1)
    request = (Request *)PyType_GenericAlloc((PyTypeObject *)self->state->request_type, 0);
  if (!request)
    return NULL;
  const int64_t end_ns = deadline_of(timeout_ns);
  PyObject *key = alone_begin(self, request);
  const busq_request tail_of = {request->number, busq_peer_target(((Port *)self->ask.port)->peer)};
  const busq_part parts[] = {{PyBytes_AsString(data), (uint64_t)PyBytes_Size(data)}, {&tail_of, sizeof tail_of}};
  const asking call = {self, parts, 2, 0, request, is_sent};
  request->target = target;
  request->thread = PyThread_get_thread_ident();
  request->asked = new_ref(to);
  if (key && ask_step(&call, 0) == BUSQ_OK) {
    const int result = wait_alone(self, request, end_ns);
    if (result == BUSQ_OK) {
      busq_peer_follow(self->peer, ((Port *)self->ask.port)->peer);
      reply = request->reply;
      request->reply = NULL;
    } else if (result != RAISED) {
      reply = PyObject_CallMethod(self->ask.requests, "go_on", "OL", (PyObject *)request, (long long)end_ns);
    }
  }
  if (alone_end(self, request, key) < 0)
    Py_CLEAR(reply);
  Py_XDECREF(key);
  Py_DECREF(request);
  return reply;
}
#endif

PyObject *port_ask(Port *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names);
PyObject *port_ask(Port *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names)
{
  static const signature expected = {"Peer", "ask", {ARGUMENT_TO, ARGUMENT_DATA, ARGUMENT_TIMEOUT}, 2, 2};
  PyObject *values[ARGUMENTS_MAX], *reply = NULL;
  int64_t timeout_ns;
  uint32_t is_sent = 0;
  if (!port_has_joined(self) || !arguments_read(self->state, (PyObject *)self, &expected, args, n_args, names, values))
    return NULL;
  if (!timeout_read(values[2], &timeout_ns) || (timeout_ns != 0 && !gate_may_wait(self->state))) {
    error_set_sent(0);
    return NULL;
  }
#ifndef Py_GIL_DISABLED
  reply = ask_alone(self, values[0], values[1], timeout_ns, &is_sent);
  if (!reply && !is_sent && !PyErr_Occurred())
#endif
  {
    PyObject *ask = helper(self->state, "ask");
    Note *note = ask ? (Note *)PyType_GenericAlloc((PyTypeObject *)self->state->note_type, 0) : NULL;
    if (note)
      reply = PyObject_CallFunctionObjArgs(ask, (PyObject *)self, values[0], values[1], values[2] ? values[2] : Py_None,
                                           (PyObject *)note, NULL);
    is_sent = note ? note->sent : 0;
    Py_XDECREF(note);
    Py_XDECREF(ask);
  }
  if (!reply)
    error_set_sent((Py_ssize_t)is_sent);
  return reply;
}
