/* SPDX-License-Identifier: Apache-2.0 */
#include "python/port.h"
#include <stdlib.h>
#include <string.h>

/* ---- names of senders ---- */

/* The name that it takes the place of waits in `replaced`: where there is no interpreter lock, letting go of an object may wait, and
 * nothing waits between receive_begin and receive_end (threads.h). */
static void port_learn_name(Port *self, const busq_message *message, PyObject *name)
{
  if (message->sender >= self->slots || !busq_flag_take(&self->names_flag))
    return;
  sender_name *known = &self->names[message->sender];
  if (!known->name || !self->replaced) {
    if (known->name)
      BUSQ_PUBLISH(self->replaced, known->name);
    known->name = new_ref(name);
    known->life = message->sender_life;
  }
  busq_flag_drop(&self->names_flag);
}

void port_drop_replaced(Port *self)
{
  PyObject *name = NULL;
  if (busq_flag_take(&self->names_flag)) {
    name = self->replaced;
    BUSQ_PUBLISH(self->replaced, NULL);
    busq_flag_drop(&self->names_flag);
  }
  Py_XDECREF(name);
}

PyObject *port_look_up_sender(Port *self, const busq_message *message, int *result)
{
  char text[256];
  size_t bytes;
  *result = busq_peer_slot_name(self->peer, message->sender, message->sender_life, text, &bytes);
  PyObject *name = *result == BUSQ_OK ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)bytes, "replace") : NULL;
  if (name)
    port_learn_name(self, message, name);
  return name;
}

/* ---- names of receivers ---- */

int port_known_target(Port *self, PyObject *name, uint64_t *target)
{
  PyObject *found = busq_dict_item(self->targets, name);
  if (!found)
    return PyErr_Occurred() ? -1 : 0;
  *target = PyLong_AsUnsignedLongLong(found);
  busq_item_drop(found);
  return 1;
}

/* Neither it nor what it stands for can change: a name of a class of its own may be equal to another one each time. */
static int is_fixed(PyObject *to, Py_ssize_t count)
{
  if (PyUnicode_CheckExact(to))
    return 1;
  int are_plain = PyTuple_CheckExact(to);
  for (Py_ssize_t i = 0; i < count && are_plain; i++)
    are_plain = PyUnicode_CheckExact(PyTuple_GetItem(to, i));
  return are_plain;
}

void port_remember(Port *self, PyObject *to, const uint64_t *targets, Py_ssize_t count)
{
  if (count > LAST_MAX || !is_fixed(to, count))
    return;
#ifdef Py_GIL_DISABLED
  (void)self, (void)targets;
#else
  PyObject *replaced = self->last_to;
  self->last_to = new_ref(to);
  self->n_last = count;
  memcpy(self->last_targets, targets, (size_t)count * sizeof *targets);
  Py_XDECREF(replaced);
#endif
}

int port_target(Port *self, PyObject *name, uint64_t *target)
{
  const char *text;
  size_t bytes;
  const int known = IS_STR(name) ? port_known_target(self, name, target) : 0;
  if (known)
    return known > 0 ? BUSQ_OK : RAISED;
  if (!name_read("a receiver (to)", name, &text, &bytes))
    return RAISED;
  const int result = busq_peer_lookup(self->peer, text, bytes, target);
  if (result != BUSQ_OK)
    return result;
  PyObject *found = PyLong_FromUnsignedLongLong(*target);
  const int failed = !found || PyDict_SetItem(self->targets, name, found) < 0;
  Py_XDECREF(found);
  return failed ? RAISED : BUSQ_OK;
}

int port_forget(Port *self, PyObject *name)
{
  Py_CLEAR(self->last_to);
  if (PyDict_DelItem(self->targets, name) == 0)
    return 1;
  if (!PyErr_ExceptionMatches(PyExc_KeyError))
    return 0;
  PyErr_Clear();
  return 1;
}

/* ---- ports that have joined ---- */

Port *port_checked(PyObject *module, PyObject *object)
{
  const busq_state *state = PyModule_GetState(module);
  if (!PyObject_TypeCheck(object, (PyTypeObject *)state->port_type))
    error_wrong_type("port", object, "a peer of order bus1");
  else if (port_has_joined((Port *)object))
    return (Port *)object;
  return NULL;
}

int port_open(Port *self, PyObject *module, busq_peer **peer, uint32_t slots)
{
  busq_state *state = PyModule_GetState(module);
  busq_peer *joined = *peer;
  self->peer_owner = peer_owner_new(state, peer);
  self->targets = PyDict_New();
  self->names = calloc(slots ? slots : 1, sizeof *self->names);
  if (!self->peer_owner || !self->targets || !self->names) {
    if (!PyErr_Occurred())
      PyErr_NoMemory();
    return 0;
  }
  self->slots = slots;
  self->state = state;
  self->module = new_ref(module);
  self->peer = joined;
  return 1;
}
