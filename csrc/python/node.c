/* SPDX-License-Identifier: Apache-2.0 */
#include "python/port.h"
#include <structmember.h>
/*
 * Nodes and handles (csrc/shm/node) as Python objects.
 *
 * Guarantee: one object for each node that a peer owns and for each handle that it has, in whatever order threads finish what they
 * have taken; a handle that came alive is let go of once, with its object or before; it is dead once the notice was received.
 *
 * Mechanism: the port remembers its own nodes, and has weak references of handles, of dead ones too.  A handle that the core counts for
 * an object has `is_counted` set, and a message's bit for it is cleared in the same step.  What a successor has inherited has its
 * objects, which the port keeps, before it receives anything: so each count is some object's, or some message's.
 *
 * A thread that has taken a handle may come to its object after another thread has finished the notice of the end.  So it puts the
 * object where others find it first, and then asks the core whether the notice was taken:
 *
 *      the notice was taken   before the core was asked: it makes the object dead itself
 *                             later: the thread that finishes the notice finds the object
 *
 * Not given: handles in a forked child.
 */

enum {
  BY_NAME = 0xFFFF /* in place of an index: the owner is meant by its name as well */
};

int nodes_import(busq_state *state)
{
  if (state->handle_class)
    return 1;
  PyObject *module = PyImport_ImportModule("busq.nodes");
  PyObject *handle = module ? PyObject_GetAttrString(module, "Handle") : NULL;
  PyObject *node = handle ? PyObject_GetAttrString(module, "Node") : NULL;
  if (node && !state->handle_class) {
    state->node_class = new_ref(node);
    state->handle_class = new_ref(handle);
  }
  Py_XDECREF(node);
  Py_XDECREF(handle);
  Py_XDECREF(module);
  return state->handle_class != NULL && !PyErr_Occurred();
}

/* ---- handles ---- */

static Handle *handle_new(Port *port, uint64_t node, PyObject *owner, int is_counted)
{
  if (!owner)
    return NULL;
  Handle *handle = (Handle *)PyType_GenericAlloc((PyTypeObject *)port->state->handle_class, 0);
  if (!handle)
    return NULL;
  handle->state = port->state;
  handle->peer_owner = (PeerOwner *)new_ref((PyObject *)port->peer_owner);
  handle->node = node;
  handle->owner = new_ref(owner);
  handle->is_counted = is_counted != 0;
  return handle;
}

static void handle_let_go(Handle *self)
{
  int is_counted;
  BUSQ_GUARD(self)
  is_counted = self->is_counted;
  self->is_counted = 0;
  BUSQ_GUARD_END
  if (is_counted)
    busq_peer_handle_release(self->peer_owner->peer, self->node);
}

static int is_own(const PeerOwner *peer_owner, uint64_t node)
{
  return (node & 0xFFFF) == (busq_peer_target(peer_owner->peer) & 0xFFFF);
}

static void handle_dealloc(Handle *self)
{
  PyTypeObject *type = Py_TYPE(self);
  if (self->weak_references)
    PyObject_ClearWeakRefs((PyObject *)self);
  handle_let_go(self); /* in a forked child the core does nothing */
  Py_XDECREF(self->owner);
  Py_XDECREF(self->peer_owner);
  object_free((PyObject *)self, type);
}

static PyObject *handle_release(Handle *self, PyObject *unused)
{
  (void)unused;
  if (busq_peer_is_forked(self->peer_owner->peer))
    return error_raise(self->state, BUSQ_FORKED);
  if (!is_own(self->peer_owner, self->node)) {
    self->is_released = 1;
    handle_let_go(self);
  }
  Py_RETURN_NONE;
}

static PyObject *handle_get_owner(Handle *self, void *closure)
{
  (void)closure;
  return new_ref(self->owner);
}

static PyObject *handle_get_is_dead(Handle *self, void *closure)
{
  (void)closure;
  return PyBool_FromLong(self->is_dead);
}

static PyObject *handle_repr(Handle *self)
{
  return PyUnicode_FromFormat("<Handle of a node of %R%s>", self->owner,
                              self->is_released ? " (released)" : self->is_dead ? " (dead)" : "");
}

/* The library makes them in C: an object made otherwise has no peer. */
static PyObject *handle_refuse(PyTypeObject *type, PyObject *args, PyObject *named)
{
  (void)type, (void)args, (void)named;
  PyErr_SetString(PyExc_TypeError, "a Handle is received in a message, or taken from `Node.handle`");
  return NULL;
}

static PyMethodDef handle_methods[] = {{"release", NOARGS(handle_release), NULL}, {NULL, NULL, 0, NULL}};
static PyGetSetDef handle_getset[] = {{"owner", (getter)handle_get_owner, NULL, NULL, NULL},
                                      {"is_dead", (getter)handle_get_is_dead, NULL, NULL, NULL},
                                      {NULL, NULL, NULL, NULL, NULL}};
static PyMemberDef handle_members[] = {{"__weaklistoffset__", T_PYSSIZET, offsetof(Handle, weak_references), READONLY, NULL},
                                       {NULL, 0, 0, 0, NULL}};

static PyType_Slot handle_slots[] = {{Py_tp_doc, "The right to send to a node."},
                                     {Py_tp_new, (void *)handle_refuse},
                                     {Py_tp_dealloc, (void *)handle_dealloc},
                                     {Py_tp_repr, (void *)handle_repr},
                                     {Py_tp_methods, handle_methods},
                                     {Py_tp_getset, handle_getset},
                                     {Py_tp_members, handle_members},
                                     {0, NULL}};

PyType_Spec handle_spec = {"busq._native._core.Handle", sizeof(Handle), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, handle_slots};

/* ---- nodes ---- */

static Node *node_new(Port *port, uint64_t number, PyObject *owner)
{
  Handle *handle = handle_new(port, number, owner, 0);
  Node *node = handle ? (Node *)PyType_GenericAlloc((PyTypeObject *)port->state->node_class, 0) : NULL;
  if (!node) {
    Py_XDECREF(handle);
    return NULL;
  }
  node->state = port->state;
  node->peer_owner = (PeerOwner *)new_ref((PyObject *)port->peer_owner);
  node->node = number;
  node->handle = handle;
  return node;
}

static void node_dealloc(Node *self)
{
  PyTypeObject *type = Py_TYPE(self);
  Py_XDECREF(self->handle);
  Py_XDECREF(self->peer_owner);
  object_free((PyObject *)self, type);
}

static int destroy_step(void *given, int64_t left_ns)
{
  const Node *self = given;
  return busq_peer_node_destroy(self->peer_owner->peer, self->node, left_ns);
}

static PyObject *node_destroy(Node *self, PyObject *timeout)
{
  int64_t timeout_ns;
  if (!timeout_read(timeout, &timeout_ns))
    return NULL;
  const int result = gate_run(self->state, destroy_step, self, deadline_of(timeout_ns), 0, NULL);
  return result == BUSQ_OK ? new_ref(Py_None) : result == RAISED ? NULL : error_raise(self->state, result);
}

static PyObject *node_get_handle(Node *self, void *closure)
{
  (void)closure;
  return new_ref((PyObject *)self->handle);
}

static PyObject *node_get_is_destroyed(Node *self, void *closure)
{
  (void)closure;
  return PyBool_FromLong(self->handle->is_dead);
}

static PyObject *node_repr(Node *self)
{
  return PyUnicode_FromFormat("<Node of %R%s>", self->handle->owner, self->handle->is_dead ? " (destroyed)" : "");
}

static PyObject *node_refuse(PyTypeObject *type, PyObject *args, PyObject *named)
{
  (void)type, (void)args, (void)named;
  PyErr_SetString(PyExc_TypeError, "a Node is made by a peer: call `Peer.node`");
  return NULL;
}

static PyMethodDef node_methods[] = {{"destroy", ONE_ARG(node_destroy), NULL}, {NULL, NULL, 0, NULL}};
static PyGetSetDef node_getset[] = {{"handle", (getter)node_get_handle, NULL, NULL, NULL},
                                    {"is_destroyed", (getter)node_get_is_destroyed, NULL, NULL, NULL},
                                    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot node_slots[] = {{Py_tp_doc, "An address of a peer beside its name."},
                                   {Py_tp_new, (void *)node_refuse},
                                   {Py_tp_dealloc, (void *)node_dealloc},
                                   {Py_tp_repr, (void *)node_repr},
                                   {Py_tp_methods, node_methods},
                                   {Py_tp_getset, node_getset},
                                   {0, NULL}};

PyType_Spec node_spec = {"busq._native._core.Node", sizeof(Node), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, node_slots};

/* ---- what a port remembers ---- */

static PyObject *dict_at(PyObject **place)
{
  if (!*place)
    *place = PyDict_New();
  return *place;
}

/* A new reference, or NULL, perhaps with an exception. */
static PyObject *remembered(PyObject *dict, uint64_t number)
{
  PyObject *key = dict ? PyLong_FromUnsignedLongLong(number) : NULL;
  PyObject *found = key ? new_ref(PyDict_GetItemWithError(dict, key)) : NULL;
  Py_XDECREF(key);
  return found;
}

static int remember(PyObject *dict, uint64_t number, PyObject *object)
{
  PyObject *key = dict ? PyLong_FromUnsignedLongLong(number) : NULL;
  const int result = key ? PyDict_SetItem(dict, key, object) : -1;
  Py_XDECREF(key);
  return result;
}

/* The referent of a weak reference, or NULL. */
static PyObject *referent(PyObject *reference)
{
#ifdef Py_GIL_DISABLED
  PyObject *object = NULL;
  (void)PyWeakref_GetRef(reference, &object);
  return object;
#else
  PyObject *object = PyWeakref_GetObject(reference);
  return object == Py_None ? NULL : new_ref(object);
#endif
}

static Handle *held_handle(Port *self, uint64_t number)
{
  PyObject *reference = remembered(self->held, number);
  Handle *handle = reference ? (Handle *)referent(reference) : NULL;
  Py_XDECREF(reference);
  return handle;
}

/* Forgets handles whose objects are gone. */
static void sweep_held(Port *self)
{
  PyObject *items = PyDict_Items(self->held);
  for (Py_ssize_t i = 0; items && i < PyList_Size(items); i++) {
    PyObject *item = PyList_GetItem(items, i), *object = referent(PyTuple_GetItem(item, 1));
    if (!object)
      (void)PyDict_DelItem(self->held, PyTuple_GetItem(item, 0));
    Py_XDECREF(object);
  }
  Py_XDECREF(items);
  PyErr_Clear();
  self->held_limit = 2 * PyDict_Size(self->held) + 16;
}

/* "" where it is not known any more. */
static PyObject *owner_of(const Port *self, uint64_t node)
{
  char name[256];
  size_t bytes = 0;
  if (busq_peer_node_owner(self->peer, node, name, &bytes) != BUSQ_OK)
    bytes = 0;
  return PyUnicode_DecodeUTF8(name, (Py_ssize_t)bytes, "replace");
}

/* The object of the handle of another's node.  Making one may run Python code (the collector's), and so other threads: one that was
 * faster has made the object that counts. */
static Handle *handle_of(Port *self, uint64_t number)
{
  Handle *handle = held_handle(self, number);
  if (handle || PyErr_Occurred())
    return handle;
  PyObject *owner = owner_of(self, number);
  Handle *made = handle_new(self, number, owner, 0);
  PyObject *reference = made ? PyWeakref_NewRef((PyObject *)made, NULL) : NULL;
  handle = reference ? held_handle(self, number) : NULL;
  if (!handle && !PyErr_Occurred() && remember(dict_at(&self->held), number, reference) == 0)
    handle = (Handle *)new_ref((PyObject *)made);
  Py_XDECREF(owner);
  Py_XDECREF(made);
  Py_XDECREF(reference);
  if (handle && PyDict_Size(self->held) > self->held_limit)
    sweep_held(self);
  return handle;
}

/* The notice was received, or the handle came behind it: the core counts nothing for it any more. */
static void handle_end(Handle *handle)
{
  handle->is_dead = 1;
  handle->is_counted = 0;
}

/* A node of this peer, also one that a predecessor has made. */
static Node *own_node(Port *self, uint64_t number)
{
  Node *node = (Node *)remembered(dict_at(&self->nodes), number);
  if (node || PyErr_Occurred())
    return node;
  node = node_new(self, number, self->name);
  if (node && remember(self->nodes, number, (PyObject *)node) < 0)
    Py_CLEAR(node);
  return node;
}

/* ---- what messages bring ---- */

/* The handle that a message has brought; from here on, the object counts for it, and once. */
static Handle *arrived(Port *self, Message *message, uint32_t place)
{
  const uint64_t number = busq_message_node(&message->more->pinned, message->more->pinned.n_nodes + place), bit = UINT64_C(1) << place;
  const int is_alive = (message->more->pinned.handles_alive & bit) != 0;
  if (is_own(self->peer_owner, number)) {
    Node *own = is_alive ? own_node(self, number) : (Node *)remembered(self->nodes, number);
    Handle *handle = own ? (Handle *)new_ref((PyObject *)own->handle) : NULL;
    Py_XDECREF(own);
    if (handle || PyErr_Occurred()) { /* the owner's own count for nothing */
      message->more->pinned.handles_alive &= ~bit;
      return handle;
    }
  }
  Handle *handle = handle_of(self, number);
  if (!handle)
    return NULL;
  if (!is_alive || busq_peer_handle_is_over(self->peer, number))
    handle_end(handle);
  message->more->pinned.handles_alive &= ~bit;
  handle->is_released = 0; /* also of a node that has ended: then it is dead, and not let go of */
  if (is_alive && (handle->is_counted || handle->is_dead)) {
    busq_peer_handle_release(self->peer, number);
  } else if (is_alive)
    handle->is_counted = 1;
  return handle;
}

/* The node, or the handle, whose end the message is about.  A node stays known until another one is made: the message may come again. */
static int fill_end(Port *self, Message *message, uint64_t number)
{
  Handle *handle;
  if (is_own(self->peer_owner, number)) {
    Node *own = own_node(self, number);
    if (!own)
      return 0;
    handle = (Handle *)new_ref((PyObject *)own->handle);
    message->node = (PyObject *)own;
  } else {
    handle = handle_of(self, number);
    if (!handle)
      return 0;
    message->node = new_ref((PyObject *)handle);
  }
  handle_end(handle);
  PyObject *before = message->sender;
  message->sender = new_ref(handle->owner);
  Py_XDECREF(before);
  Py_DECREF(handle);
  return 1;
}

/* A peer that is named, or a member, gets the message behind the node's end as well: not as one to the node. */
static int fill_node(Port *self, Message *message)
{
  for (uint32_t i = 0; i < message->more->pinned.n_nodes && !message->node; i++) {
    const uint64_t number = busq_message_node(&message->more->pinned, i);
    if (!is_own(self->peer_owner, number) || (number >> 16 & 0xFFFF) == BY_NAME)
      continue;
    Node *own = own_node(self, number);
    if (!own)
      return 0;
    if (own->handle->is_dead) {
      Py_DECREF(own);
      continue;
    }
    message->node = (PyObject *)own;
    PyObject *before = self->last_node;
    self->last_node = new_ref((PyObject *)own);
    Py_XDECREF(before);
  }
  return 1;
}

int nodes_fill_known(Port *self, Message *message, const busq_message *found)
{
#ifndef Py_GIL_DISABLED
  const Node *last = (Node *)self->last_node;
  if (!last || message->kind != KIND_DATA || found->n_nodes != 1 || found->n_handles || last->handle->is_dead ||
      busq_message_node(found, 0) != last->node)
    return 0;
  message->node = new_ref(self->last_node);
  return 1;
#else
  (void)self, (void)message, (void)found; /* looking at it may wait, which is not done here (threads.h) */
  return 0;
#endif
}

int nodes_fill(Port *self, Message *message)
{
  const uint32_t n_handles = message->more->pinned.n_handles;
  int is_filled = 1;
  if (!nodes_import(self->state))
    return 0;
  BUSQ_GUARD(self)
  if (message->kind == KIND_NODE_DESTROYED)
    is_filled = fill_end(self, message, busq_message_node(&message->more->pinned, 0));
  else if (message->kind == KIND_NODE_RELEASED)
    is_filled = (message->node = (PyObject *)own_node(self, busq_message_node(&message->more->pinned, 0))) != NULL;
  else
    is_filled = fill_node(self, message);
  message->more->handles = is_filled && n_handles ? PyTuple_New((Py_ssize_t)n_handles) : NULL;
  for (uint32_t place = 0; message->more->handles && place < n_handles && is_filled; place++) {
    Handle *handle = arrived(self, message, place);
    is_filled = handle && PyTuple_SetItem(message->more->handles, (Py_ssize_t)place, (PyObject *)handle) == 0;
  }
  BUSQ_GUARD_END
  return is_filled && !PyErr_Occurred();
}

/* ---- functions ---- */

/* Those that were destroyed are forgotten now. */
static int forget_destroyed(Port *self)
{
  PyObject *items = PyDict_Items(dict_at(&self->nodes));
  int failed = !items;
  for (Py_ssize_t i = 0; !failed && i < PyList_Size(items); i++) {
    PyObject *item = PyList_GetItem(items, i);
    if (((Node *)PyTuple_GetItem(item, 1))->handle->is_dead)
      failed = PyDict_DelItem(self->nodes, PyTuple_GetItem(item, 0)) < 0;
  }
  Py_XDECREF(items);
  return !failed;
}

static PyObject *make_node(PyObject *module, PyObject *object)
{
  Port *self = port_checked(module, object);
  uint64_t number;
  if (!self || !nodes_import(self->state))
    return NULL;
  const int result = busq_peer_node(self->peer, &number);
  if (result != BUSQ_OK)
    return error_raise(self->state, result);
  Node *node = NULL;
  BUSQ_GUARD(self)
  if (forget_destroyed(self))
    node = own_node(self, number);
  BUSQ_GUARD_END
  return (PyObject *)node;
}

/* Before any other thread has the port: what a predecessor held, and did not let go of, is held until it is released. */
int nodes_adopt(Port *self)
{
  uint64_t place = 0, number;
  uint32_t is_mine;
  while (busq_peer_next_node(self->peer, &place, &number, &is_mine) == BUSQ_OK) {
    Handle *handle = NULL;
    if (is_mine)
      continue;
    if (!self->inherited)
      self->inherited = PyList_New(0);
    if (self->inherited && nodes_import(self->state))
      handle = handle_of(self, number);
    if (handle)
      handle->is_counted = 1;
    const int failed = !handle || PyList_Append(self->inherited, (PyObject *)handle) < 0;
    Py_XDECREF(handle);
    if (failed)
      return 0;
  }
  return 1;
}

/* NULL, perhaps with an exception: a handle that only a message counts for, which another thread is just finishing, is not held yet. */
static PyObject *object_at(Port *self, uint64_t number, int is_mine)
{
  if (is_mine)
    return (PyObject *)own_node(self, number);
  Handle *handle = held_handle(self, number);
  if (handle && !handle->is_counted)
    Py_CLEAR(handle);
  return (PyObject *)handle;
}

/* Those that live: nodes of its own, or handles that it holds. */
static PyObject *list_of(Port *self, int of_its_own)
{
  uint64_t place = 0, number;
  uint32_t is_mine;
  if (busq_peer_is_forked(self->peer))
    return error_raise(self->state, BUSQ_FORKED);
  PyObject *list = PyList_New(0);
  while (list && busq_peer_next_node(self->peer, &place, &number, &is_mine) == BUSQ_OK) {
    if ((is_mine != 0) != of_its_own)
      continue;
    PyObject *object = NULL;
    if (nodes_import(self->state)) {
      BUSQ_GUARD(self)
      object = object_at(self, number, is_mine != 0);
      BUSQ_GUARD_END
    }
    if (object ? PyList_Append(list, object) < 0 : PyErr_Occurred() != NULL)
      Py_CLEAR(list);
    Py_XDECREF(object);
  }
  return list;
}

static PyObject *nodes_of(PyObject *module, PyObject *object)
{
  Port *self = port_checked(module, object);
  return self ? list_of(self, 1) : NULL;
}

static PyObject *handles_of(PyObject *module, PyObject *object)
{
  Port *self = port_checked(module, object);
  return self ? list_of(self, 0) : NULL;
}

/* node_number(node or handle): to write down which it was. */
static PyObject *node_number(PyObject *module, PyObject *object)
{
  const busq_state *state = PyModule_GetState(module);
  if (PyObject_TypeCheck(object, (PyTypeObject *)state->node_type))
    object = (PyObject *)((Node *)object)->handle;
  if (!PyObject_TypeCheck(object, (PyTypeObject *)state->handle_type))
    return error_wrong_type("node", object, "a node or a handle");
  return PyLong_FromUnsignedLongLong(((Handle *)object)->node);
}

PyMethodDef node_functions[] = {{"make_node", ONE_ARG(make_node), NULL},
                                {"nodes_of", ONE_ARG(nodes_of), NULL},
                                {"handles_of", ONE_ARG(handles_of), NULL},
                                {"node_number", ONE_ARG(node_number), NULL},
                                {NULL, NULL, 0, NULL}};
