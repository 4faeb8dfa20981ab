/* SPDX-License-Identifier: Apache-2.0 */
#include "python/port.h"
#include <busq_texts.h>
#include <pythread.h>
#include <stdlib.h>
/*
 * The type of a port: joining, closing, facts, and the table of its methods, which stand in the files of what they do.
 */

/* ---- joining ---- */

/* join(port, bus, name, flags, codec): before any other thread has the port. */
static PyObject *join(PyObject *module, PyObject *args)
{
  busq_state *state = PyModule_GetState(module);
  PyObject *object, *raw, *name, *codec;
  unsigned long long address;
  unsigned flags;
  const char *text;
  size_t bytes;
  if (!PyArg_ParseTuple(args, "O!OUIO", state->port_type, &object, &raw, &name, &flags, &codec))
    return NULL;
  PyObject *number = PyObject_GetAttrString(raw, "address");
  address = number ? PyLong_AsUnsignedLongLong(number) : 0;
  Py_XDECREF(number);
  Port *self = (Port *)object;
  if (address && self->peer)
    PyErr_SetString(PyExc_ValueError, "this peer has joined before");
  if (!address || self->peer || !name_read("name", name, &text, &bytes))
    return NULL;
  busq_bus *bus = (busq_bus *)(uintptr_t)address;
  busq_peer *peer = NULL;
  busq_bus_facts facts;
  int result = busq_bus_examine(bus, &facts);
  if (result == BUSQ_OK) {
    Py_BEGIN_ALLOW_THREADS
    result = busq_peer_join_as(bus, text, bytes, flags, &peer);
    Py_END_ALLOW_THREADS
  }
  if (result != BUSQ_OK)
    return error_raise(state, result);
  self->name = new_ref(name);
  self->codec = codec == Py_None ? NULL : new_ref(codec);
  return port_open(self, module, &peer, facts.peers) && nodes_adopt(self) ? new_ref(Py_None) : NULL;
}

static PyObject *close_port(PyObject *module, PyObject *object)
{
  Port *self = port_checked(module, object);
  if (!self) {
    PyErr_Clear(); /* it has not joined */
    Py_RETURN_NONE;
  }
  Py_BEGIN_ALLOW_THREADS
  (void)busq_peer_close(self->peer);
  Py_END_ALLOW_THREADS
  if (!busq_peer_is_forked(self->peer))
    filter_close(self);
  Py_RETURN_NONE;
}

static PyObject *set_spin(PyObject *module, PyObject *args)
{
  PyObject *object;
  unsigned spin_ns;
  if (!PyArg_ParseTuple(args, "OI", &object, &spin_ns))
    return NULL;
  Port *self = port_checked(module, object);
  if (!self)
    return NULL;
  busq_peer_set_spin(self->peer, spin_ns, 0);
  Py_RETURN_NONE;
}

/* ---- facts ---- */

static PyObject *target(PyObject *module, PyObject *object)
{
  Port *self = port_checked(module, object);
  return self ? PyLong_FromUnsignedLongLong(busq_peer_target(self->peer)) : NULL;
}

static PyObject *is_forked(PyObject *module, PyObject *object)
{
  Port *self = port_checked(module, object);
  return self ? PyBool_FromLong(busq_peer_is_forked(self->peer)) : NULL;
}

static PyObject *address(PyObject *module, PyObject *object)
{
  Port *self = port_checked(module, object);
  return self ? PyLong_FromVoidPtr(self->peer) : NULL;
}

/* owner(port): the part of a port that its messages keep. */
static PyObject *owner(PyObject *module, PyObject *object)
{
  Port *self = port_checked(module, object);
  return self ? new_ref((PyObject *)self->peer_owner) : NULL;
}

/* lookup(port, name): a target, asked anew. */
static PyObject *lookup(PyObject *module, PyObject *args)
{
  PyObject *object, *name;
  const char *text;
  size_t bytes;
  uint64_t found;
  if (!PyArg_ParseTuple(args, "OO", &object, &name))
    return NULL;
  Port *self = port_checked(module, object);
  if (!self || !name_read("name", name, &text, &bytes))
    return NULL;
  const int result = busq_peer_lookup(self->peer, text, bytes, &found);
  return result == BUSQ_OK ? PyLong_FromUnsignedLongLong(found) : error_raise(self->state, result);
}

static PyObject *set_limit(PyObject *module, PyObject *args)
{
  PyObject *object;
  unsigned limit;
  if (!PyArg_ParseTuple(args, "OI", &object, &limit))
    return NULL;
  Port *self = port_checked(module, object);
  const int result = self ? busq_peer_limit(self->peer, limit) : RAISED;
  return result == BUSQ_OK ? new_ref(Py_None) : self ? error_raise(self->state, result) : NULL;
}

/* Messages that it receives to be acknowledged from now on come again as soon as they are dropped, and not only to a successor. */
static PyObject *take_back_dropped(PyObject *module, PyObject *object)
{
  Port *self = port_checked(module, object);
  if (!self)
    return NULL;
  self->takes_back_dropped = 1;
  Py_RETURN_NONE;
}

static PyObject *hands(PyObject *module, PyObject *object)
{
  Port *self = port_checked(module, object);
  return self ? PyLong_FromUnsignedLongLong(busq_peer_hands(self->peer)) : NULL;
}

static PyObject *port_fileno(Port *self, PyObject *unused)
{
  int descriptor;
  (void)unused;
  if (!port_has_joined(self))
    return NULL;
  const int result = busq_peer_fileno(self->peer, &descriptor);
  return result == BUSQ_OK ? PyLong_FromLong(descriptor) : error_raise(self->state, result);
}

/* ---- groups, and peers that are watched ---- */

typedef int (*change_call)(busq_peer *, const char *, size_t, int64_t);

typedef struct {
  change_call call;
  busq_peer *peer;
  const char *name;
  size_t bytes;
} changing;

static int change_step(void *call, int64_t left_ns)
{
  const changing *self = call;
  return self->call(self->peer, self->name, self->bytes, left_ns);
}

/* change(port, what, name, timeout): `what` is "enter", "leave", "watch" or "unwatch"; of a group, the name has its "@". */
static PyObject *change(PyObject *module, PyObject *args)
{
  PyObject *object, *timeout, *name;
  const char *what;
  int64_t timeout_ns;
  changing call;
  if (!PyArg_ParseTuple(args, "OsOO", &object, &what, &name, &timeout))
    return NULL;
  Port *self = port_checked(module, object);
  if (!self || !name_read("name", name, &call.name, &call.bytes) || !timeout_read(timeout, &timeout_ns))
    return NULL;
  call.peer = self->peer;
  call.call = what[0] == 'e' ? busq_peer_enter : what[0] == 'l' ? busq_peer_leave : what[0] == 'w' ? busq_peer_watch
                                                                                                    : busq_peer_unwatch;
  const int result = gate_run(self->state, change_step, &call, deadline_of(timeout_ns), 0, NULL);
  return result == BUSQ_OK ? new_ref(Py_None) : result == RAISED ? NULL : error_raise(self->state, result);
}

/* ---- for event loops ---- */

static PyObject *listen(PyObject *module, PyObject *args)
{
  PyObject *object;
  unsigned what;
  if (!PyArg_ParseTuple(args, "OI", &object, &what))
    return NULL;
  Port *self = port_checked(module, object);
  return self ? PyLong_FromLong(busq_peer_listen(self->peer, what)) : NULL;
}

static PyObject *failed_target(PyObject *module, PyObject *object)
{
  Port *self = port_checked(module, object);
  return self ? PyLong_FromUnsignedLongLong(busq_peer_failed_target(self->peer)) : NULL;
}

static PyObject *ask_for_room(PyObject *module, PyObject *object)
{
  Port *self = port_checked(module, object);
  const int result = self ? busq_peer_ask_for_room(self->peer) : RAISED;
  return result == BUSQ_OK ? new_ref(Py_None) : self ? error_raise(self->state, result) : NULL;
}

/* set_guard(callable): called before a thread waits. */
static PyObject *set_guard(PyObject *module, PyObject *guard)
{
  busq_state *state = PyModule_GetState(module);
  PyObject *before = state->guard;
  state->guard = new_ref(guard == Py_None ? NULL : guard);
  Py_XDECREF(before);
  Py_RETURN_NONE;
}

PyMethodDef port_functions[] = {{"set_guard", ONE_ARG(set_guard), NULL},
                                {"join", VARARGS(join), NULL},
                                {"close", ONE_ARG(close_port), NULL},
                                {"set_spin", VARARGS(set_spin), NULL},
                                {"target", ONE_ARG(target), NULL},
                                {"is_forked", ONE_ARG(is_forked), NULL},
                                {"address", ONE_ARG(address), NULL},
                                {"owner", ONE_ARG(owner), NULL},
                                {"lookup", VARARGS(lookup), NULL},
                                {"set_limit", VARARGS(set_limit), NULL},
                                {"take_back_dropped", ONE_ARG(take_back_dropped), NULL},
                                {"hands", ONE_ARG(hands), NULL},
                                {"change", VARARGS(change), NULL},
                                {"listen", VARARGS(listen), NULL},
                                {"failed_target", ONE_ARG(failed_target), NULL},
                                {"ask_for_room", ONE_ARG(ask_for_room), NULL},
                                {NULL, NULL, 0, NULL}};

/* ---- the type ---- */

static int port_traverse(Port *self, visitproc visit, void *arg)
{
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(self->codec);
  Py_VISIT(self->targets); /* its names may be of a class of their own; clearing their attributes takes a circle apart */
  Py_VISIT(self->filter);
  Py_VISIT(self->inbox);
  Py_VISIT(self->ready);
  Py_VISIT(self->nodes);
  Py_VISIT(self->last_node);
  Py_VISIT(self->held);
  Py_VISIT(self->inherited);
  Py_VISIT(self->ask.port);
  Py_VISIT(self->ask.requests);
  return 0;
}

static int port_clear(Port *self)
{
  Py_CLEAR(self->codec);
  Py_CLEAR(self->filter);
  Py_CLEAR(self->inbox);
  Py_CLEAR(self->ready);
  Py_CLEAR(self->nodes);
  Py_CLEAR(self->last_node);
  Py_CLEAR(self->held);
  Py_CLEAR(self->inherited);
  Py_CLEAR(self->ask.port);
  Py_CLEAR(self->ask.requests);
  return 0;
}

static void port_dealloc(Port *self)
{
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  (void)port_clear(self);
  PyObject *all[] = {(PyObject *)self->peer_owner, self->module,     self->name,       self->targets, self->last_to, self->replaced,
                     self->ask.waiting,        self->ask.leader, self->ask.asleep};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
    Py_XDECREF(all[i]);
  for (uint32_t slot = 0; self->names && slot < self->slots; slot++)
    Py_XDECREF(self->names[slot].name);
  free(self->names);
  if (self->turn)
    PyThread_free_lock(self->turn);
  object_free((PyObject *)self, type);
}

PyObject *port_send(Port *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names);
PyObject *port_send_many(Port *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names);
PyObject *port_send_object(Port *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names);
PyObject *port_reserve(Port *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names);
PyObject *port_ask(Port *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names);
PyObject *port_recv(Port *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names);
PyObject *port_recv_many(Port *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names);
PyObject *port_next(Port *self, PyObject *unused);

static PyMethodDef port_methods[] = {{"send", FASTCALL(port_send), BUSQ_TEXT_Peer_send},
                                     {"send_many", FASTCALL(port_send_many), BUSQ_TEXT_Peer_send_many},
                                     {"send_object", FASTCALL(port_send_object), BUSQ_TEXT_Peer_send_object},
                                     {"reserve", FASTCALL(port_reserve), BUSQ_TEXT_Peer_reserve},
                                     {"ask", FASTCALL(port_ask), BUSQ_TEXT_Peer_ask},
                                     {"recv", FASTCALL(port_recv), BUSQ_TEXT_Peer_recv},
                                     {"recv_many", FASTCALL(port_recv_many), BUSQ_TEXT_Peer_recv_many},
                                     {"fileno", NOARGS(port_fileno), BUSQ_TEXT_Peer_fileno},
                                     {"_next", NOARGS(port_next), NULL},
                                     {NULL, NULL, 0, NULL}};

static PyType_Slot port_slots[] = {{Py_tp_doc, "The peer of a bus of order bus1."},
                                   {Py_tp_dealloc, (void *)port_dealloc},
                                   {Py_tp_traverse, (void *)port_traverse},
                                   {Py_tp_clear, (void *)port_clear},
                                   {Py_tp_methods, port_methods},
                                   {0, NULL}};

PyType_Spec port_spec = {"busq._native._core.Port", sizeof(Port), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, port_slots};
