/* SPDX-License-Identifier: Apache-2.0 */
#include "python/port.h"
#include <busq_texts.h>
/*
 * Drafts: messages that are written in place before they are sent.
 *
 * Guarantee: what is sent is not written to any more, for nothing looks at it that could; a draft that is left unsent gives its memory
 * back, with the last array that looks at it.
 *
 * Mechanism: a draft is a pin of the core's, which its views keep as well, and which the core sends only where no view is left.
 *
 * Not given: sending to nodes, or with handles.
 */

typedef struct {
  PyObject_HEAD
  Port *port;
  Pin *pin;         /* NULL once it was given back */
  PyObject *buffer; /* the view that was handed out last, or NULL */
} Draft;

static int draft_is_used(const Draft *self)
{
  return !self->pin || BUSQ_PUBLISHED(self->pin->pin.state) == BUSQ_PIN_EMPTY;
}

static PyObject *fail_used(void)
{
  PyErr_SetString(PyExc_ValueError, "this draft was sent, or given back: reserve another one");
  return NULL;
}

/* ---- reserving ---- */

typedef struct {
  busq_pin *pin;
  busq_peer *peer;
  uint32_t size, n_receivers;
} reserving;

static int reserve_step(void *given, int64_t left_ns)
{
  const reserving *call = given;
  return busq_pin_reserve(call->pin, call->peer, call->size, call->n_receivers, left_ns);
}

PyObject *port_reserve(Port *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names);
PyObject *port_reserve(Port *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names)
{
  static const signature expected = {"Peer", "reserve", {ARGUMENT_SIZE, ARGUMENT_RECEIVERS, ARGUMENT_TIMEOUT}, 1, 1};
  PyObject *values[ARGUMENTS_MAX];
  int64_t timeout_ns;
  reserving call = {.peer = self->peer};
  if (!port_has_joined(self) || !arguments_read(self->state, (PyObject *)self, &expected, args, n_args, names, values) ||
      !natural_read("size", values[0], 0, &call.size) ||
      (values[1] && values[1] != Py_None && !natural_read("receivers", values[1], 1, &call.n_receivers)) ||
      !timeout_read(values[2], &timeout_ns))
    return NULL;
  Draft *draft = (Draft *)PyType_GenericAlloc((PyTypeObject *)self->state->draft_type, 0);
  if (!draft)
    return NULL;
  draft->port = (Port *)new_ref((PyObject *)self);
  draft->pin = pin_new(self->state);
  int result = RAISED;
  if (draft->pin) {
    draft->pin->peer_owner = (PeerOwner *)new_ref((PyObject *)self->peer_owner);
    call.pin = &draft->pin->pin;
    result = reserve_step(&call, 0);
    if (result == BUSQ_INTERRUPTED || (result == BUSQ_FULL && timeout_ns != 0))
      result = gate_run(self->state, reserve_step, &call, deadline_of(timeout_ns), 0, NULL);
  }
  if (result == BUSQ_OK)
    return (PyObject *)draft;
  Py_DECREF(draft);
  return result == RAISED ? NULL : error_raise(self->state, result);
}

/* ---- the memory ---- */

/* A view of a pin, counted before it is made: one that is not counted could be written to after the draft was sent. */
static PyObject *draft_make_view(busq_state *state, Pin *pin)
{
  const int result = busq_pin_show(&pin->pin);
  if (result != BUSQ_OK)
    return error_raise(state, result);
  return pin_view(state, pin, pin->pin.message.data, pin->pin.message.size_bytes, 0);
}

/* A view of its own for each that asks again once the last one was released. */
static PyObject *draft_show(Draft *self)
{
  PyObject *shown = new_ref(self->buffer);
  if (shown && PyObject_Size(shown) >= 0)
    return shown;
  PyErr_Clear(); /* it was released */
  if (shown && self->buffer == shown)
    Py_CLEAR(self->buffer);
  Py_XDECREF(shown);
  if (draft_is_used(self))
    return fail_used();
  Pin *pin = (Pin *)new_ref((PyObject *)self->pin); /* making a view may collect garbage, in which the draft may be given back */
  PyObject *view = draft_make_view(self->port->state, pin);
  Py_DECREF(pin);
  if (view) {
    PyObject *quicker = self->buffer; /* of another thread: then there are two views */
    self->buffer = new_ref(view);
    Py_XDECREF(quicker);
  }
  return view;
}

static PyObject *draft_get_buffer(Draft *self, void *closure)
{
  PyObject *view;
  (void)closure;
  BUSQ_GUARD(self)
  view = draft_show(self);
  BUSQ_GUARD_END
  return view;
}

/* Releases the view that was handed out; false where arrays still look at it, or slices, which keep the pin shown. */
static int draft_withdraw(Draft *self)
{
  PyObject *shown = new_ref(self->buffer);
  if (shown) {
    PyObject *released = PyObject_CallMethod(shown, "release", NULL);
    if (released && self->buffer == shown)
      Py_CLEAR(self->buffer);
    Py_DECREF(shown);
    if (!released) {
      PyErr_Clear();
      return 0;
    }
    Py_DECREF(released);
  }
  return self->pin && BUSQ_PUBLISHED(self->pin->pin.state) != BUSQ_PIN_SHOWN;
}

/* ---- sending ---- */

static int size_read(const Draft *self, PyObject *size, uint64_t *bytes)
{
  const uint64_t most = self->pin->pin.message.size_bytes;
  uint32_t chosen;
  *bytes = most;
  if (!size || size == Py_None)
    return 1;
  if (!natural_read("size", size, 0, &chosen))
    return 0;
  *bytes = chosen;
  if (chosen <= most)
    return 1;
  PyErr_Format(PyExc_ValueError, "size is %u: expected at most %llu, as was reserved", chosen, (unsigned long long)most);
  return 0;
}

static PyObject *names_of(const Draft *self, PyObject *to)
{
  PyObject *names = receivers_of(self->port->state, to);
  for (Py_ssize_t i = 0; names && i < PyList_Size(names); i++)
    if (PyObject_TypeCheck(PyList_GetItem(names, i), (PyTypeObject *)self->port->state->handle_type)) {
      PyErr_SetString(PyExc_ValueError, "a draft is sent to names: send data to a node with `send`");
      Py_CLEAR(names);
    }
  return names;
}

/* Looking names up may run Python code, also such that gives the draft back: the pin is held until this is over. */
static int draft_send_pin(Draft *self, Pin *pin, PyObject *const *values, uint32_t *sent)
{
  int64_t timeout_ns;
  sending call = {.form = BUSQ_FORM_DATA, .draft = &pin->pin, .sent = sent};
  if (!size_read(self, values[1], &call.draft_bytes))
    return RAISED;
  if (!draft_withdraw(self)) {
    if (draft_is_used(self))
      fail_used();
    else
      PyErr_SetString(PyExc_BufferError, "something still looks at the draft's memory, and could write to what is sent: "
                                         "drop arrays and slices of its buffer first");
    return RAISED;
  }
  if (!timeout_read(values[2], &timeout_ns))
    return RAISED;
  const int64_t deadline_ns = deadline_of(timeout_ns);
  int result = send_known(self->port, &call, values[0], deadline_ns, 0);
  if (result != SEND_UNKNOWN)
    return result;
  PyObject *names = names_of(self, values[0]);
  result = names ? send_names(self->port, &call, names, deadline_ns, 0) : RAISED;
  Py_XDECREF(names);
  return result;
}

static PyObject *draft_send(Draft *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names)
{
  static const signature expected = {"Draft", "send", {ARGUMENT_TO, ARGUMENT_SIZE, ARGUMENT_TIMEOUT}, 1, 1};
  PyObject *values[ARGUMENTS_MAX];
  uint32_t sent = 0;
  busq_state *state = self->port->state;
  if (!arguments_read(state, (PyObject *)self, &expected, args, n_args, names, values))
    return NULL;
  Pin *pin;
  BUSQ_GUARD(self)
  pin = draft_is_used(self) ? NULL : (Pin *)new_ref((PyObject *)self->pin);
  BUSQ_GUARD_END
  if (!pin)
    return fail_used();
  const int result = draft_send_pin(self, pin, values, &sent);
  Py_DECREF(pin);
  if (result == BUSQ_OK)
    Py_RETURN_NONE;
  if (result != RAISED)
    error_raise(state, result);
  error_set_sent((Py_ssize_t)sent);
  return NULL;
}

/* ---- its end ---- */

/* A view that still looks at the memory keeps it until it is dropped. */
static PyObject *draft_exit(Draft *self, PyObject *const *args, Py_ssize_t n_args)
{
  PyObject *buffer, *pin;
  (void)args;
  (void)n_args;
  BUSQ_GUARD(self)
  (void)draft_withdraw(self);
  buffer = self->buffer;
  pin = (PyObject *)self->pin;
  self->buffer = NULL;
  self->pin = NULL;
  BUSQ_GUARD_END
  Py_XDECREF(buffer);
  Py_XDECREF(pin);
  Py_RETURN_NONE;
}

static PyObject *draft_enter(Draft *self, PyObject *unused)
{
  (void)unused;
  return new_ref((PyObject *)self);
}

/* A peer may hold a draft of its own in an attribute; clearing the peer's attributes takes that circle apart. */
static int draft_traverse(Draft *self, visitproc visit, void *arg)
{
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(self->port);
  Py_VISIT(self->buffer);
  return 0;
}

static void draft_dealloc(Draft *self)
{
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  Py_XDECREF(self->buffer);
  Py_XDECREF(self->pin);
  Py_XDECREF(self->port);
  object_free((PyObject *)self, type);
}

static PyObject *draft_repr(Draft *self)
{
  if (draft_is_used(self))
    return PyUnicode_FromString("<Draft that was sent or given back>");
  return PyUnicode_FromFormat("<Draft of %llu bytes>", (unsigned long long)self->pin->pin.message.size_bytes);
}

static PyObject *draft_reduce(Draft *self, PyObject *unused)
{
  (void)self;
  (void)unused;
  PyErr_SetString(PyExc_TypeError, "a draft can't be pickled; send it, or its content");
  return NULL;
}

static PyObject *draft_refuse(PyTypeObject *type, PyObject *args, PyObject *named)
{
  (void)type, (void)args, (void)named;
  PyErr_SetString(PyExc_TypeError, "a Draft is made by reserving memory for a message: call `reserve`");
  return NULL;
}

static PyMethodDef draft_methods[] = {
    {"__enter__", NOARGS(draft_enter), NULL},
    {"__exit__", (PyCFunction)(void (*)(void))draft_exit, METH_FASTCALL, NULL},
    {"__reduce__", NOARGS(draft_reduce), NULL},
    {"send", FASTCALL(draft_send), BUSQ_TEXT_Draft_send},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef draft_getset[] = {{"buffer", (getter)draft_get_buffer, NULL, BUSQ_TEXT_Draft_buffer, NULL},
                                     {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot draft_slots[] = {{Py_tp_doc, BUSQ_TEXT_Draft},
                                    {Py_tp_new, (void *)draft_refuse},
                                    {Py_tp_dealloc, (void *)draft_dealloc},
                                    {Py_tp_traverse, (void *)draft_traverse},
                                    {Py_tp_repr, (void *)draft_repr},
                                    {Py_tp_methods, draft_methods},
                                    {Py_tp_getset, draft_getset},
                                    {0, NULL}};

PyType_Spec draft_spec = {"busq._native._core.Draft", sizeof(Draft), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, draft_slots};
