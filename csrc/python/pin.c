/* SPDX-License-Identifier: Apache-2.0 */
#include "python/pin.h"
#include "python/threads.h"

/* ---- peers ---- */

PeerOwner *peer_owner_new(busq_state *state, busq_peer **peer)
{
  PeerOwner *peer_owner = PyObject_New(PeerOwner, (PyTypeObject *)state->peer_owner_type);
  if (peer_owner)
    peer_owner->peer = *peer;
  else
    busq_peer_free(*peer);
  *peer = NULL;
  return peer_owner;
}

/* The last one leaves the bus, unless the peer was closed before. */
static void peer_owner_dealloc(PeerOwner *self)
{
  PyTypeObject *type = Py_TYPE(self);
  Py_BEGIN_ALLOW_THREADS
  busq_peer_free(self->peer);
  Py_END_ALLOW_THREADS
  PyObject_Free(self);
  Py_DECREF(type);
}

static PyType_Slot peer_owner_slots[] = {
    {Py_tp_doc, "The owner of a peer."}, {Py_tp_dealloc, (void *)peer_owner_dealloc}, {0, NULL}};

PyType_Spec peer_owner_spec = {"busq._native._core.PeerOwner", sizeof(PeerOwner), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, peer_owner_slots};

/* ---- pins ---- */

Pin *pin_new(busq_state *state)
{
  Pin *pin = PyObject_New(Pin, (PyTypeObject *)state->pin_type);
  if (pin) {
    pin->peer_owner = NULL;
    /* An empty pin has no message: clearing it, too, would take longer than making the object. */
    pin->pin.state = BUSQ_PIN_EMPTY;
    pin->pin.mode = pin->pin.fork_generation = pin->pin.n_views = 0;
    pin->pin.peer = NULL;
    pin->pin.next = NULL;
    pin->pin.link = NULL;
    pin->pin.window = NULL;
    pin->pin.copy = NULL;
  }
  return pin;
}

static void pin_dealloc(Pin *self)
{
  PyTypeObject *type = Py_TYPE(self);
  busq_pin_drop(&self->pin);
  Py_XDECREF(self->peer_owner);
  PyObject_Free(self);
  Py_DECREF(type);
}

static PyType_Slot pin_slots[] = {
    {Py_tp_doc, "A hold on a payload that is shown in place."}, {Py_tp_dealloc, (void *)pin_dealloc}, {0, NULL}};

PyType_Spec pin_spec = {"busq._native._core.Pin", sizeof(Pin), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                        pin_slots};

/* ---- views ---- */

/* A payload, or the memory of a draft, as it is shown by one memoryview, its slices, and whatever looks through them. */
typedef struct {
  PyObject_HEAD
  Pin *pin;
  void *data;
  Py_ssize_t size;
  int is_readonly;
} Shown;

void pin_view_end(Pin *pin)
{
  busq_pin_end(&pin->pin, NULL);
  if (pin->pin.mode == BUSQ_TAKE_DRAFT || BUSQ_PUBLISHED(pin->pin.state) != BUSQ_PIN_EMPTY)
    return;
  PeerOwner *peer_owner;
  BUSQ_GUARD(pin)
  peer_owner = pin->peer_owner;
  pin->peer_owner = NULL;
  BUSQ_GUARD_END
  Py_XDECREF(peer_owner);
}

/* With the last one that looks the pin lets go; also where an exception is on its way. */
static void shown_dealloc(Shown *self)
{
  PyTypeObject *type = Py_TYPE(self);
  PyObject *kind, *value, *trace;
  PyErr_Fetch(&kind, &value, &trace);
  pin_view_end(self->pin);
  Py_DECREF(self->pin);
  PyErr_Restore(kind, value, trace);
  PyObject_Free(self);
  Py_DECREF(type);
}

static int shown_get_buffer(Shown *self, Buffer *filled, int flags)
{
  if (self->is_readonly && flags & PyBUF_WRITABLE) {
    filled->obj = NULL;
    PyErr_SetString(PyExc_BufferError, "the payload of a message is read-only: copy what you want to change");
    return -1;
  }
  Py_INCREF(self);
  *filled = (Buffer){.buf = self->data, .obj = (PyObject *)self, .len = self->size, .itemsize = 1, .ndim = 1};
  filled->readonly = self->is_readonly;
  filled->format = flags & PyBUF_FORMAT ? "B" : NULL;
  filled->shape = flags & PyBUF_ND ? &filled->len : NULL;
  filled->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? &filled->itemsize : NULL;
  return 0;
}

static PyType_Slot shown_slots[] = {{Py_tp_doc, "What a view shows."},
                                    {Py_tp_dealloc, (void *)shown_dealloc},
                                    {Py_bf_getbuffer, (void *)shown_get_buffer},
                                    {0, NULL}};

PyType_Spec shown_spec = {"busq._native._core.Shown", sizeof(Shown), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                          shown_slots};

PyObject *pin_view(busq_state *state, Pin *pin, const void *data, uint64_t size, int is_readonly)
{
  Shown *shown = PyObject_New(Shown, (PyTypeObject *)state->shown_type);
  if (!shown) {
    busq_pin_end(&pin->pin, NULL);
    return NULL;
  }
  Py_INCREF(pin);
  shown->pin = pin;
  shown->data = (void *)(uintptr_t)data;
  shown->size = (Py_ssize_t)size;
  shown->is_readonly = is_readonly;
  PyObject *view = PyMemoryView_FromObject((PyObject *)shown);
  Py_DECREF(shown);
  return view;
}

/* ---- notes ---- */

static PyObject *note_get_sent(Note *self, void *closure)
{
  (void)closure;
  return PyLong_FromUnsignedLong(self->sent);
}

static void note_dealloc(Note *self)
{
  object_free((PyObject *)self, Py_TYPE(self));
}

static PyGetSetDef note_getset[] = {{"sent", (getter)note_get_sent, NULL, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot note_slots[] = {{Py_tp_doc, "Whether a message was sent, as the core has noted."},
                                   {Py_tp_dealloc, (void *)note_dealloc},
                                   {Py_tp_getset, note_getset},
                                   {0, NULL}};

PyType_Spec note_spec = {"busq._native._core.Note", sizeof(Note), 0, Py_TPFLAGS_DEFAULT, note_slots};
