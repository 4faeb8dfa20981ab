/* SPDX-License-Identifier: Apache-2.0 */
#include "python/port.h"
#include <stdlib.h>

/* ---- receivers ---- */

/* Looking a name up may run Python code (a str with a hash or an equality of its own), and that may take anything out of the list. */
__attribute__((noinline)) static Py_ssize_t look_up_targets(Port *self, PyObject *to, uint64_t *targets)
{
  if (IS_STR(to))
    return port_known_target(self, to, targets);
  const int is_tuple = PyTuple_Check(to);
  if (!is_tuple && !PyList_Check(to))
    return 0;
  const Py_ssize_t count = is_tuple ? PyTuple_Size(to) : PyList_Size(to);
  for (Py_ssize_t i = 0; i < count && count <= TARGETS_MAX; i++) {
    PyObject *name = busq_sequence_item(to, i, is_tuple);
    const int found = name && IS_STR(name) ? port_known_target(self, name, &targets[i]) : 0;
    Py_XDECREF(name);
    if (found <= 0)
      return found;
  }
  return count <= TARGETS_MAX ? count : 0;
}

__attribute__((always_inline)) static inline Py_ssize_t find_targets(Port *self, PyObject *to, uint64_t *targets)
{
  if (to == self->last_to) {
    for (Py_ssize_t i = 0; i < self->n_last; i++)
      targets[i] = self->last_targets[i];
    return self->n_last;
  }
  const Py_ssize_t count = look_up_targets(self, to, targets);
  if (count > 0)
    port_remember(self, to, targets, count);
  return count;
}

static int is_handle(const busq_state *state, PyObject *object)
{
  return PyObject_TypeCheck(object, (PyTypeObject *)state->handle_type);
}

PyObject *receivers_of(busq_state *state, PyObject *to)
{
  PyObject *list = NULL;
  if (IS_STR(to) || is_handle(state, to)) {
    list = PyList_New(1);
    if (list)
      PyList_SetItem(list, 0, new_ref(to));
    return list;
  }
  if (IS_BYTES(to) || PyByteArray_Check(to) || !is_iterable(to))
    return error_wrong_type("to", to, "str, the name of a peer, or an iterable of names");
  list = PySequence_List(to);
  if (list && !PyList_Size(list)) {
    PyErr_SetString(PyExc_ValueError, "no receivers (to): expected a name, or an iterable of at least one");
    Py_CLEAR(list);
  }
  return list;
}

/* ---- one attempt ---- */

static int send_step(void *given, int64_t left_ns)
{
  sending *call = given;
  const busq_letter *to = &call->to;
  if (call->draft)
    return busq_pin_send(call->draft, to->targets, to->n_targets, call->draft_bytes, call->form, left_ns, call->sent);
  if (call->missed && call->is_asking)
    return busq_peer_send_letter_asking(call->peer, to, call->parts, call->n_parts, call->form, call->missed, call->sent);
  if (call->missed)
    return busq_peer_send_letter(call->peer, to, call->parts, call->n_parts, call->form, left_ns, call->missed, call->sent);
  if (call->is_asking)
    return busq_peer_send_asking(call->peer, to->targets, to->n_targets, call->parts, call->n_parts, call->form, call->sent);
  return busq_peer_send_parts(call->peer, to->targets, to->n_targets, call->parts, call->n_parts, call->form, left_ns, call->sent);
}

static int is_large(const sending *call)
{
  uint64_t size = 0;
  for (uint32_t i = 0; i < call->n_parts; i++)
    size += call->parts[i].size_bytes;
  return size > SEND_BYTES_MAX;
}

/* A small message keeps the interpreter's lock for as long as it need not wait. */
static int send_resolved(Port *self, sending *call, int64_t deadline_ns, Py_ssize_t before)
{
  if (!is_large(call)) {
    const int result = send_step(call, 0);
    if (result != BUSQ_INTERRUPTED && (result != BUSQ_FULL || deadline_ns == 0))
      return result;
  }
  return gate_run(self->state, send_step, call, deadline_ns, before, call->sent);
}

/* ---- to names ---- */

/* A result, or RAISED: also where a lookup has failed, whose error is another one than the send's. */
static int resolve(Port *self, PyObject *names, uint64_t *targets)
{
  for (Py_ssize_t i = 0; i < PyList_Size(names); i++) {
    PyObject *name = busq_sequence_item(names, i, 0);
    const int result = name ? port_target(self, name, &targets[i]) : RAISED;
    Py_XDECREF(name);
    if (result == RAISED)
      return RAISED;
    if (result != BUSQ_OK) {
      error_raise(self->state, result);
      return RAISED;
    }
  }
  return BUSQ_OK;
}

static int is_outdated(int result)
{
  return result == BUSQ_PEER_DEAD || result == BUSQ_INVALID || result == BUSQ_UNKNOWN_PEER;
}

/* A remembered receiver may be out of date: it has joined again since, or another peer has its slot, so that the two look like one
 * receiver given twice.  If not, looking up once more changes nothing. */
static int send_looking_up(Port *self, sending *call, PyObject *names, uint64_t *targets, int64_t deadline_ns, Py_ssize_t before)
{
  for (int is_retry = 0;; is_retry = 1) {
    int result = resolve(self, names, targets);
    if (result == BUSQ_OK)
      result = send_resolved(self, call, deadline_ns, before);
    if (!is_outdated(result) || *call->sent || !PyList_Size(names))
      return result;
    for (Py_ssize_t i = 0; i < PyList_Size(names); i++)
      if (!port_forget(self, PyList_GetItem(names, i)))
        return RAISED;
    if (is_retry)
      return result;
  }
}

int send_known(Port *self, sending *call, PyObject *to, int64_t deadline_ns, Py_ssize_t before)
{
  uint64_t targets[TARGETS_MAX];
  const Py_ssize_t count = find_targets(self, to, targets);
  if (count <= 0)
    return count ? RAISED : SEND_UNKNOWN;
  call->peer = self->peer;
  call->to.targets = targets;
  call->to.n_targets = (uint32_t)count;
  const int result = send_resolved(self, call, deadline_ns, before);
  return is_outdated(result) && !*call->sent ? SEND_UNKNOWN : result;
}

int send_names(Port *self, sending *call, PyObject *names, int64_t deadline_ns, Py_ssize_t before)
{
  uint64_t few[TARGETS_MAX];
  const size_t n = (size_t)PyList_Size(names);
  uint64_t *targets = n <= TARGETS_MAX ? few : malloc(n * sizeof *targets);
  if (!targets) {
    PyErr_NoMemory();
    return RAISED;
  }
  call->peer = self->peer;
  call->to.targets = targets;
  call->to.n_targets = (uint32_t)n;
  const int result = send_looking_up(self, call, names, targets, deadline_ns, before);
  if (targets != few)
    free(targets);
  return result;
}

/* ---- to nodes, and with handles ---- */

static int handle_check(const Port *self, PyObject *object)
{
  const Handle *handle = (const Handle *)object;
  if (!is_handle(self->state, object))
    error_wrong_type("a handle", object, "a busq.Handle (of a node: `node.handle`)");
  else if (!handle->peer_owner || handle->peer_owner->peer != self->peer)
    PyErr_Format(PyExc_ValueError,
                 "%R belongs to another peer: who needs it gets it in a message, by `send(..., handles=[handle])`", object);
  else if (handle->is_released)
    PyErr_Format(PyExc_ValueError, "%R was released: this peer can use it again when a message brings it again", object);
  else
    return 1;
  return 0;
}

static int handles_check(const Port *self, PyObject *handles)
{
  for (Py_ssize_t i = 0; i < PyTuple_Size(handles); i++)
    if (!handle_check(self, PyTuple_GetItem(handles, i)))
      return 0;
  return 1;
}

/* The handles that a message carries, as a tuple; NULL with an exception. */
static PyObject *carried(const busq_state *state, PyObject *handles)
{
  if (!handles)
    return PyTuple_New(0);
  if (is_handle(state, handles) || !is_iterable(handles))
    return error_wrong_type("handles", handles, "an iterable of handles");
  return PySequence_Tuple(handles);
}

/* Takes the handles out of a list of receivers, as a tuple. */
static PyObject *split_receivers(const busq_state *state, PyObject *receivers)
{
  PyObject *nodes = PyList_New(0);
  int failed = !nodes;
  for (Py_ssize_t i = 0; i < PyList_Size(receivers) && !failed;) {
    PyObject *one = PyList_GetItem(receivers, i);
    if (!is_handle(state, one)) {
      i++;
      continue;
    }
    failed = PyList_Append(nodes, one) < 0 || PyList_SetSlice(receivers, i, i + 1, NULL) < 0;
  }
  PyObject *tuple = failed ? NULL : PyList_AsTuple(nodes);
  Py_XDECREF(nodes);
  return tuple;
}

static int are_different(PyObject *nodes)
{
  PyObject *set = PySet_New(nodes);
  const int are = set && PySet_Size(set) == PyTuple_Size(nodes);
  if (set && !are)
    PyErr_SetString(PyExc_ValueError, "a node is given twice; each receiver gets a message once");
  Py_XDECREF(set);
  return are;
}

static void fail_missed(Port *self, PyObject *nodes, const uint8_t *missed, uint32_t sent)
{
  PyObject *fail = helper(self->state, "fail_missed");
  PyObject *none = fail ? PyObject_CallFunction(fail, "Oy#I", nodes, (const char *)missed, PyTuple_Size(nodes), sent) : NULL;
  Py_XDECREF(none);
  Py_XDECREF(fail);
}

static int send_letter(Port *self, sending *call, PyObject *names, PyObject *nodes, PyObject *brought, int64_t deadline_ns,
                       Py_ssize_t before)
{
  const size_t n_nodes = (size_t)PyTuple_Size(nodes), n_brought = (size_t)PyTuple_Size(brought);
  uint64_t *numbers = calloc(n_nodes + n_brought + 1, sizeof *numbers);
  uint8_t *missed = calloc(n_nodes + 1, 1);
  int result = RAISED;
  if (!numbers || !missed)
    PyErr_NoMemory();
  for (size_t i = 0; i < n_nodes + n_brought && numbers; i++) {
    PyObject *handle = i < n_nodes ? PyTuple_GetItem(nodes, (Py_ssize_t)i) : PyTuple_GetItem(brought, (Py_ssize_t)(i - n_nodes));
    numbers[i] = ((const Handle *)handle)->node;
  }
  if (numbers && missed) {
    call->to = (busq_letter){.nodes = numbers, .n_nodes = (uint32_t)n_nodes};
    call->to.handles = numbers + n_nodes;
    call->to.n_handles = (uint32_t)n_brought;
    call->missed = missed;
    result = send_names(self, call, names, deadline_ns, before);
    int is_missed = 0;
    for (size_t i = 0; i < n_nodes; i++)
      is_missed |= missed[i];
    if (result == BUSQ_PEER_DEAD && is_missed) {
      fail_missed(self, nodes, missed, *call->sent);
      result = RAISED;
    }
  }
  free(numbers);
  free(missed);
  return result;
}

/* The whole way: whatever the receivers are.  A result of the core, or RAISED. */
static int send_whole(Port *self, sending *call, PyObject *to, PyObject *handles, int64_t deadline_ns, Py_ssize_t before)
{
  if (!handles || (PyTuple_CheckExact(handles) && !PyTuple_Size(handles))) {
    const int result = send_known(self, call, to, deadline_ns, before);
    if (result != SEND_UNKNOWN)
      return result;
  }
  PyObject *names = receivers_of(self->state, to);
  PyObject *nodes = names ? split_receivers(self->state, names) : NULL;
  PyObject *brought = nodes ? carried(self->state, handles) : NULL;
  int result = RAISED;
  if (brought && handles_check(self, nodes) && handles_check(self, brought) && are_different(nodes))
    result = PyTuple_Size(nodes) || PyTuple_Size(brought) ? send_letter(self, call, names, nodes, brought, deadline_ns, before)
                                                          : send_names(self, call, names, deadline_ns, before);
  Py_XDECREF(brought);
  Py_XDECREF(nodes);
  Py_XDECREF(names);
  return result;
}

/* Any data, by the whole way. */
static int send_data(Port *self, PyObject *to, PyObject *data, const char *argument, uint32_t form, PyObject *handles,
                     int64_t deadline_ns, int is_asking, Py_ssize_t before, uint32_t *sent)
{
  payload read;
  if (!payload_read(&read, data, argument, NULL, 0))
    return RAISED;
  sending call = {.parts = read.parts, .n_parts = read.n_parts, .form = form, .is_asking = is_asking, .sent = sent};
  const int result = send_whole(self, &call, to, handles, deadline_ns, before);
  payload_free(&read);
  return result;
}

/* Returns None, or NULL with an exception that has the number of messages that were sent. */
static PyObject *send_done(Port *self, int result, Py_ssize_t sent)
{
  if (result == BUSQ_OK)
    Py_RETURN_NONE;
  if (result != RAISED)
    error_raise(self->state, result);
  error_set_sent(sent);
  return NULL;
}

/* ---- to groups of other machines: a name that the core does not know may be one (busq/_port/wide.py) ---- */

static PyObject *or_none(PyObject *value)
{
  return value ? value : Py_None;
}

static int may_be_group(PyObject *to)
{
  if (!PyUnicode_Check(to))
    return PyList_Check(to) || PyTuple_Check(to) || PyAnySet_Check(to);
  return PyUnicode_GetLength(to) > 0 && PyUnicode_ReadChar(to, 0) == '@';
}

/* With the exception of a send that has failed: calls `word` with the port and four values, if that is one that the library may know better.
 * Returns what that returns, or NULL with an exception, which has a number of messages: of those `sent` before, if it has none of its own.
 * Where `word` returns NotImplemented it is the one that there was. */
static PyObject *send_beyond(Port *self, const char *word, PyObject *to, PyObject *const *values, Py_ssize_t sent)
{
  PyObject *type, *error, *trace, *result = NULL;
  if (!may_be_group(to))
    return NULL;
  PyErr_Fetch(&type, &error, &trace);
  PyObject *unknown = PyObject_GetAttrString(self->state->errors, "UnknownPeer");
  const int is_unknown = unknown && PyErr_GivenExceptionMatches(type, unknown);
  PyObject *call = is_unknown ? helper(self->state, word) : NULL;
  if (call)
    result = PyObject_CallFunctionObjArgs(call, (PyObject *)self, values[0], values[1], values[2], values[3], NULL);
  else if (!is_unknown)
    result = new_ref(Py_NotImplemented);
  if (!result)
    error_set_sent_where_unknown(sent);
  Py_XDECREF(call);
  Py_XDECREF(unknown);
  if (result == Py_NotImplemented) {
    Py_CLEAR(result);
    PyErr_Restore(type, error, trace);
    return NULL;
  }
  Py_XDECREF(type);
  Py_XDECREF(error);
  Py_XDECREF(trace);
  return result;
}

/* ---- the short way: bytes, or a list of them, to names that are known, or bytes to a node ---- */

__attribute__((noinline)) static int send_node_now(Port *self, const Handle *to, PyObject *data)
{
  const busq_letter letter = {.nodes = &to->node, .n_nodes = 1};
  const Py_ssize_t size = PyBytes_Size(data);
  const busq_part part = {PyBytes_AsString(data), (uint64_t)size};
  uint8_t missed;
  uint32_t sent;
  if (!to->peer_owner || to->peer_owner->peer != self->peer || to->is_released || size > SEND_BYTES_MAX)
    return SEND_UNKNOWN;
  /* What has missed the only node there is was not sent: the whole way sends it again, and raises. */
  return busq_peer_send_letter(self->peer, &letter, &part, 1, BUSQ_FORM_DATA, 0, &missed, &sent);
}

/* Parts, if they are few, and each is bytes.  Looking the names up may run Python code; behind that none runs. */
__attribute__((noinline)) static int send_parts_now(Port *self, PyObject *to, PyObject *list)
{
  enum {
    PARTS_MAX = 64
  };
  uint64_t targets[TARGETS_MAX];
  busq_part parts[PARTS_MAX];
  PyObject *held[PARTS_MAX];
  uint64_t size = 0;
  uint32_t n_held = 0, sent;
  const Py_ssize_t count = find_targets(self, to, targets);
  if (count <= 0)
    return count ? RAISED : SEND_UNKNOWN;
  const Py_ssize_t n_parts = PyList_Size(list);
  int result = n_parts <= PARTS_MAX ? BUSQ_OK : SEND_UNKNOWN;
  while (n_held < n_parts && result == BUSQ_OK) {
    PyObject *part = busq_sequence_item(list, n_held, 0);
    if (part && PyBytes_CheckExact(part)) {
      parts[n_held] = (busq_part){PyBytes_AsString(part), (uint64_t)PyBytes_Size(part)};
      size += parts[n_held].size_bytes;
      held[n_held++] = part;
    } else {
      Py_XDECREF(part);
      result = SEND_UNKNOWN;
    }
  }
  if (result == BUSQ_OK)
    result = size > SEND_BYTES_MAX ? SEND_UNKNOWN
                                   : busq_peer_send_parts(self->peer, targets, (uint32_t)count, parts, n_held, BUSQ_FORM_DATA, 0, &sent);
  while (n_held)
    Py_DECREF(held[--n_held]);
  return result;
}

static int send_now(Port *self, PyObject *to, PyObject *data)
{
  uint64_t targets[TARGETS_MAX];
  if (!IS_BYTES(data))
    return PyList_CheckExact(data) ? send_parts_now(self, to, data) : SEND_UNKNOWN;
  if ((PyObject *)Py_TYPE(to) == self->state->handle_class)
    return send_node_now(self, (const Handle *)(const void *)to, data);
  const Py_ssize_t size = PyBytes_Size(data);
  if (size > SEND_BYTES_MAX)
    return SEND_UNKNOWN;
  const Py_ssize_t count = find_targets(self, to, targets);
  if (count < 0)
    return RAISED;
  if (!count)
    return SEND_UNKNOWN;
  return busq_peer_send(self->peer, targets, (uint32_t)count, PyBytes_AsString(data), (size_t)size, 0);
}

int busq_port_send_now(PyObject *port, PyObject *to, PyObject *data)
{
  return send_now((Port *)port, to, data);
}

/* ---- the methods ---- */

static int is_timeout_alone(const busq_state *state, PyObject *names)
{
  return PyTuple_Size(names) == 1 && PyTuple_GetItem(names, 0) == state->arguments[ARGUMENT_TIMEOUT];
}

/* Between the commit and the return no handler of a signal runs: what raises here was not sent. */
PyObject *port_send(Port *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names)
{
  static const signature expected = {"Peer", "send", {ARGUMENT_TO, ARGUMENT_DATA, ARGUMENT_HANDLES, ARGUMENT_TIMEOUT}, 2, 2};
  PyObject *values[ARGUMENTS_MAX] = {NULL, NULL, NULL, NULL};
  int64_t timeout_ns = -1;
  if (!port_has_joined(self))
    return NULL;
  const int has_timeout = n_args == 2 && names && is_timeout_alone(self->state, names);
  if (n_args == 2 && (!names || has_timeout)) {
    values[0] = args[0];
    values[1] = args[1];
    values[3] = has_timeout ? args[2] : NULL;
  } else if (!arguments_read(self->state, (PyObject *)self, &expected, args, n_args, names, values)) {
    return NULL;
  }
  if (values[3] && !timeout_read(values[3], &timeout_ns))
    return send_done(self, RAISED, 0);
  if (!values[2]) {
    const int result = send_now(self, values[0], values[1]);
    if (result == BUSQ_OK)
      Py_RETURN_NONE;
    if (result == RAISED || (result == BUSQ_FULL && timeout_ns == 0))
      return send_done(self, result, 0);
  }
  uint32_t sent = 0;
  const int64_t deadline_ns = deadline_of(timeout_ns);
  const int result = send_data(self, values[0], values[1], "data", BUSQ_FORM_DATA, values[2], deadline_ns, 0, 0, &sent);
  PyObject *none = send_done(self, result, (Py_ssize_t)sent);
  return none ? none
              : send_beyond(self, "send_wide", values[0],
                            (PyObject *[]){values[0], values[1], or_none(values[2]), or_none(values[3])}, (Py_ssize_t)sent);
}

/* A pair (to, data) that an iterable has given; NULL with an exception. */
PyObject *pair_of(PyObject *message, Py_ssize_t number)
{
  char argument[48];
  PyOS_snprintf(argument, sizeof argument, "messages[%zd]", number);
  if (!is_iterable(message))
    return error_wrong_type(argument, message, "a pair (to, data)");
  PyObject *pair = PySequence_Tuple(message);
  if (pair && PyTuple_Size(pair) != 2) {
    PyErr_Format(PyExc_ValueError, "%s has length %zd: expected a pair (to, data)", argument, PyTuple_Size(pair));
    Py_CLEAR(pair);
  }
  return pair;
}

/* One of many; a result, or RAISED. */
static int send_one(Port *self, PyObject *message, Py_ssize_t number, int64_t deadline_ns, uint32_t *sent)
{
  const int is_pair = IS_TUPLE(message) && PyTuple_Size(message) == 2;
  PyObject *pair = is_pair ? new_ref(message) : pair_of(message, number);
  if (!pair)
    return RAISED;
  const int whole = send_data(self, PyTuple_GetItem(pair, 0), PyTuple_GetItem(pair, 1), "data", BUSQ_FORM_DATA, NULL, deadline_ns, 0,
                              number, sent);
  Py_DECREF(pair);
  return whole;
}

/* The next message, or NULL at the end, and where an exception is set. */
static PyObject *next_of(PyObject *messages, PyObject *iterator, Py_ssize_t at)
{
  if (iterator)
    return PyIter_Next(iterator);
  return at < PyList_Size(messages) ? busq_sequence_item(messages, at, 0) : NULL;
}

/* As many of a list as go the short way; returns how many.  An exception stays: a name of a class of its own may have raised it. */
static Py_ssize_t send_many_now(Port *self, PyObject *messages)
{
  Py_ssize_t n_sent = 0;
  int result = BUSQ_OK;
  while (result == BUSQ_OK && n_sent < PyList_Size(messages)) {
    PyObject *pair = busq_sequence_item(messages, n_sent, 0);
    const int is_pair = pair && IS_TUPLE(pair) && PyTuple_Size(pair) == 2;
    result = is_pair ? send_now(self, PyTuple_GetItem(pair, 0), PyTuple_GetItem(pair, 1)) : SEND_UNKNOWN;
    Py_XDECREF(pair);
    n_sent += result == BUSQ_OK;
  }
  return n_sent;
}

/* The message that has failed, and all behind it, where it goes to a group of other machines: how many were sent, or NULL. */
static PyObject *send_rest_beyond(Port *self, PyObject *failed, PyObject *rest, Py_ssize_t n_sent, int64_t deadline_ns)
{
  if (!PyTuple_Check(failed) || PyTuple_Size(failed) != 2)
    return NULL;
  PyObject *type, *error, *trace, *result = NULL;
  PyErr_Fetch(&type, &error, &trace);
  PyObject *before = PyLong_FromSsize_t(n_sent), *deadline = PyLong_FromLongLong(deadline_ns);
  if (before && deadline) {
    PyErr_Restore(type, error, trace);
    result = send_beyond(self, "send_many_wide", PyTuple_GetItem(failed, 0), (PyObject *[]){failed, rest, before, deadline},
                         n_sent);
  } else {
    Py_XDECREF(type);
    Py_XDECREF(error);
    Py_XDECREF(trace);
  }
  Py_XDECREF(before);
  Py_XDECREF(deadline);
  return result;
}

PyObject *port_send_many(Port *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names)
{
  static const signature expected = {"Peer", "send_many", {ARGUMENT_MESSAGES, ARGUMENT_TIMEOUT}, 1, 1};
  PyObject *values[ARGUMENTS_MAX], *message, *failed = NULL;
  int64_t timeout_ns;
  if (!port_has_joined(self) || !arguments_read(self->state, (PyObject *)self, &expected, args, n_args, names, values))
    return NULL;
  if (!timeout_read(values[1], &timeout_ns))
    return send_done(self, RAISED, 0);
  const int64_t deadline_ns = deadline_of(timeout_ns);
  PyObject *iterator = NULL;
  if (!PyList_CheckExact(values[0])) {
    iterator = is_iterable(values[0]) ? PyObject_GetIter(values[0])
                                      : error_wrong_type("messages", values[0], "an iterable of pairs (to, data)");
    if (!iterator)
      return send_done(self, RAISED, 0);
  }
  Py_ssize_t n_sent = 0;
  uint32_t sent = 0;
  int result = BUSQ_OK;
  if (!iterator)
    n_sent = send_many_now(self, values[0]);
  if (PyErr_Occurred())
    result = RAISED;
  while (result == BUSQ_OK && (message = next_of(values[0], iterator, n_sent)) != NULL) {
    sent = 0;
    result = send_one(self, message, n_sent, deadline_ns, &sent);
    if (result == BUSQ_OK)
      Py_DECREF(message);
    else
      failed = message;
    n_sent += result == BUSQ_OK;
  }
  const int is_done = result == BUSQ_OK && !PyErr_Occurred();
  PyObject *count = is_done ? PyLong_FromSsize_t(n_sent) : NULL;
  if (!is_done) {
    send_done(self, result == BUSQ_OK ? RAISED : result, n_sent + (result == BUSQ_OK ? 0 : (Py_ssize_t)sent));
    if (failed)
      count = send_rest_beyond(self, failed, iterator ? iterator : values[0], n_sent, deadline_ns);
  }
  Py_XDECREF(failed);
  Py_XDECREF(iterator);
  return count;
}

/* The parts of an object, and the form that they have together: a tuple. */
static PyObject *encode_object(Port *self, PyObject *object)
{
  if (self->codec) {
    PyObject *made = PyObject_CallMethod(self->codec, "encode", "(O)", object);
    return made ? Py_BuildValue("(NI)", made, BUSQ_FORM_CODED) : NULL;
  }
  PyObject *encode = helper(self->state, "encode");
  PyObject *parts = encode ? PyObject_CallFunctionObjArgs(encode, object, NULL) : NULL;
  Py_XDECREF(encode);
  return parts ? Py_BuildValue("(NI)", parts, BUSQ_FORM_OBJECT) : NULL;
}

static int send_encoded(Port *self, PyObject *to, PyObject *encoded, PyObject *handles, int64_t deadline_ns, int is_asking,
                        uint32_t *sent)
{
  const uint32_t form = (uint32_t)PyLong_AsUnsignedLong(PyTuple_GetItem(encoded, 1));
  const char *argument = form == BUSQ_FORM_CODED ? "what the codec has made" : "data";
  return send_data(self, to, PyTuple_GetItem(encoded, 0), argument, form, handles, deadline_ns, is_asking, 0, sent);
}

PyObject *port_send_object(Port *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names)
{
  static const signature expected = {"Peer", "send_object", {ARGUMENT_TO, ARGUMENT_OBJ, ARGUMENT_HANDLES, ARGUMENT_TIMEOUT}, 2, 2};
  PyObject *values[ARGUMENTS_MAX];
  int64_t timeout_ns;
  uint32_t sent = 0;
  if (!port_has_joined(self) || !arguments_read(self->state, (PyObject *)self, &expected, args, n_args, names, values))
    return NULL;
  PyObject *encoded = encode_object(self, values[1]);
  int result = RAISED;
  if (encoded && timeout_read(values[3], &timeout_ns))
    result = send_encoded(self, values[0], encoded, values[2], deadline_of(timeout_ns), 0, &sent);
  Py_XDECREF(encoded);
  return send_done(self, result, (Py_ssize_t)sent);
}

/* ---- for coroutines, and for words of the library: once, and the caller has the note ---- */

static PyObject *once_done(Port *self, int result)
{
  if (result == BUSQ_OK || result == BUSQ_FULL)
    return PyBool_FromLong(result == BUSQ_OK);
  return result == RAISED ? NULL : error_raise(self->state, result);
}

/* send_once(port, to, data, handles, note, is_asking): False where there is no room. */
static PyObject *send_once(PyObject *module, PyObject *args)
{
  const busq_state *state = PyModule_GetState(module);
  PyObject *object, *to, *data, *handles, *note;
  int is_asking;
  if (!PyArg_ParseTuple(args, "OOOOO!p", &object, &to, &data, &handles, state->note_type, &note, &is_asking))
    return NULL;
  Port *self = port_checked(module, object);
  if (!self)
    return NULL;
  return once_done(self, send_data(self, to, data, "data", BUSQ_FORM_DATA, handles, 0, is_asking, 0, &((Note *)note)->sent));
}

static PyObject *encode(PyObject *module, PyObject *args)
{
  PyObject *object, *thing;
  if (!PyArg_ParseTuple(args, "OO", &object, &thing))
    return NULL;
  Port *self = port_checked(module, object);
  return self ? encode_object(self, thing) : NULL;
}

/* send_encoded_once(port, to, encoded, handles, note, is_asking): of what encode() has returned. */
static PyObject *send_encoded_once(PyObject *module, PyObject *args)
{
  const busq_state *state = PyModule_GetState(module);
  PyObject *object, *to, *encoded, *handles, *note;
  int is_asking;
  if (!PyArg_ParseTuple(args, "OOO!OO!p", &object, &to, &PyTuple_Type, &encoded, &handles, state->note_type, &note, &is_asking))
    return NULL;
  Port *self = port_checked(module, object);
  if (!self)
    return NULL;
  return once_done(self, send_encoded(self, to, encoded, handles, 0, is_asking, &((Note *)note)->sent));
}

/* send_control_once(port, to, word): a word of the library. */
static PyObject *send_control_once(PyObject *module, PyObject *args)
{
  PyObject *object, *to, *word;
  uint32_t sent = 0;
  if (!PyArg_ParseTuple(args, "OOO", &object, &to, &word))
    return NULL;
  Port *self = port_checked(module, object);
  if (!self)
    return NULL;
  return once_done(self, send_data(self, to, word, "data", BUSQ_FORM_CONTROL, NULL, 0, 0, 0, &sent));
}

/* ---- for a bridge ---- */

enum {
  WIDE_TAIL_MAX = 1024 /* the bridge's own bytes, the sender's name and its machine's */
};

/* What `send_wide_many` is to send: messages whose sizes stand at the front of a body, each with a tail that differs in its number alone. */
typedef struct {
  const char *sizes, *data, *end;
  Py_ssize_t first, stop;
  char tail[WIDE_TAIL_MAX];
  uint64_t tail_bytes;
} wide_run;

/* Moves past a message, to which the part points then; 0 with an exception where it does not fit. */
static int wide_run_pass(wide_run *run, Py_ssize_t at, busq_part *part)
{
  uint32_t size;
  memcpy(&size, run->sizes + (size_t)at * sizeof size, sizeof size);
  if (size > (uint64_t)(run->end - run->data)) {
    PyErr_SetString(PyExc_ValueError, "a message ends behind the body that it stands in");
    return 0;
  }
  *part = (busq_part){run->data, size};
  run->data += size;
  return 1;
}

/* Moves to the first one; 0 with an exception where the sizes, or the tail, do not fit. */
static int wide_run_begin(wide_run *run, PyObject *body, Py_ssize_t count, PyObject *tail)
{
  const Py_ssize_t bytes = PyBytes_Size(body), tail_bytes = PyBytes_Size(tail);
  if (count < 0 || count > bytes / (Py_ssize_t)sizeof(uint32_t) || run->first < 0 || run->first > run->stop || run->stop > count ||
      tail_bytes < (Py_ssize_t)sizeof(busq_wide) || tail_bytes > WIDE_TAIL_MAX) {
    PyErr_Format(PyExc_ValueError, "messages %zd to %zd of %zd in %zd bytes, with a tail of %zd: these do not fit", run->first,
                 run->stop, count, bytes, tail_bytes);
    return 0;
  }
  run->sizes = PyBytes_AsString(body);
  run->data = run->sizes + (size_t)count * sizeof(uint32_t);
  run->end = run->sizes + bytes;
  memcpy(run->tail, PyBytes_AsString(tail), (size_t)tail_bytes);
  run->tail_bytes = (uint64_t)tail_bytes;
  busq_part passed;
  for (Py_ssize_t i = 0; i < run->first; i++)
    if (!wide_run_pass(run, i, &passed))
      return 0;
  return 1;
}

static void wide_run_count(wide_run *run)
{
  busq_wide last;
  char *at = run->tail + run->tail_bytes - sizeof last;
  memcpy(&last, at, sizeof last);
  last.index++;
  memcpy(at, &last, sizeof last);
}

/* Receivers of a bridge: queues by their names, and members by their targets, since another peer may have a name by now.  False with an exception. */
static int wide_targets(Port *self, PyObject *to, uint64_t *targets)
{
  for (Py_ssize_t i = 0; i < PyList_Size(to); i++) {
    PyObject *one = PyList_GetItem(to, i);
    int result = BUSQ_OK;
    if (PyLong_Check(one))
      targets[i] = PyLong_AsUnsignedLongLong(one);
    else
      result = port_target(self, one, &targets[i]);
    if (result != BUSQ_OK && result != RAISED)
      error_raise(self->state, result);
    if (PyErr_Occurred())
      return 0;
  }
  return 1;
}

/* A remembered receiver may be out of date. */
static int wide_forget(Port *self, PyObject *to)
{
  for (Py_ssize_t i = 0; i < PyList_Size(to); i++)
    if (!PyLong_Check(PyList_GetItem(to, i)) && !port_forget(self, PyList_GetItem(to, i)))
      return 0;
  return 1;
}

/* Sends a run to targets: a result of the core. */
static int wide_run_send(Port *self, wide_run *run, const uint64_t *targets, uint32_t n_targets, Note *note)
{
  int result = BUSQ_OK;
  for (Py_ssize_t i = run->first; i < run->stop && result == BUSQ_OK; i++) {
    uint32_t sent = 0;
    busq_part parts[] = {{NULL, 0}, {run->tail, run->tail_bytes}};
    if (!wide_run_pass(run, i, &parts[0]))
      return RAISED;
    sending call = {.peer = self->peer, .parts = parts, .n_parts = 2, .form = BUSQ_FORM_WIDE, .sent = &sent};
    call.to = (busq_letter){.targets = targets, .n_targets = n_targets};
    result = send_resolved(self, &call, 0, 0);
    note->sent += sent;
    wide_run_count(run);
  }
  return result;
}

/* send_wide_many(port, to, body, count, first, stop, tail, note): the messages from `first` to before `stop` of a body, where the
 * tail is that of the first one.  False where there is no room; the note counts what was sent, also before an exception. */
static PyObject *send_wide_many(PyObject *module, PyObject *args)
{
  const busq_state *state = PyModule_GetState(module);
  PyObject *object, *to, *body, *tail, *note;
  Py_ssize_t count;
  wide_run run;
  if (!PyArg_ParseTuple(args, "OO!SnnnSO!", &object, &PyList_Type, &to, &body, &count, &run.first, &run.stop, &tail,
                        state->note_type, &note))
    return NULL;
  Port *self = port_checked(module, object);
  if (!self || !wide_run_begin(&run, body, count, tail))
    return NULL;
  const size_t n = (size_t)PyList_Size(to);
  uint64_t *targets = malloc((n + 1) * sizeof *targets);
  if (!targets)
    return PyErr_NoMemory();
  int result = RAISED;
  if (wide_targets(self, to, targets))
    result = wide_run_send(self, &run, targets, (uint32_t)n, (Note *)note);
  free(targets);
  if (is_outdated(result) && !wide_forget(self, to))
    result = RAISED;
  return once_done(self, result);
}

/* check_plain(argument, data): raises unless it is plain memory, for those that read it in another way. */
static PyObject *check_plain(PyObject *module, PyObject *args)
{
  const char *argument;
  PyObject *data;
  payload read;
  (void)module;
  if (!PyArg_ParseTuple(args, "sO", &argument, &data) || !payload_read(&read, data, argument, NULL, 0))
    return NULL;
  payload_free(&read);
  Py_RETURN_NONE;
}

PyMethodDef send_functions[] = {{"check_plain", VARARGS(check_plain), NULL},
                                {"send_once", VARARGS(send_once), NULL},
                                {"encode", VARARGS(encode), NULL},
                                {"send_encoded_once", VARARGS(send_encoded_once), NULL},
                                {"send_control_once", VARARGS(send_control_once), NULL},
                                {"send_wide_many", VARARGS(send_wide_many), NULL},
                                {NULL, NULL, 0, NULL}};
