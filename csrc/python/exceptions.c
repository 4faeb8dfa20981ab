/* SPDX-License-Identifier: Apache-2.0 */
#include "python/exceptions.h"
#include <errno.h>
#include <string.h>
#include <time.h>

PyObject *helper(busq_state *state, const char *name)
{
  if (!state->helpers) {
    PyObject *found = PyImport_ImportModule("busq._port.called_from_c");
    if (!found)
      return NULL;
    if (!state->helpers)
      state->helpers = found;
    else
      Py_DECREF(found);
  }
  return PyObject_GetAttrString(state->helpers, name);
}

/* ---- results ---- */

typedef struct {
  int result;
  int number;        /* of errno, for those that are OSErrors */
  const char *class; /* of busq.errors, or of Python */
  const char *text;  /* NULL: the core's */
} error_kind;

static const error_kind kinds[] = {
    {BUSQ_FULL, 0, "Full", NULL},
    {BUSQ_OWN_FULL, 0, "Full", NULL},
    {BUSQ_CLOSED, 0, "ShutDown", "this peer was closed"},
    {BUSQ_FORKED, 0, "ForkedHandle",
     "this handle belongs to the parent process: open the bus and join again in the child"},
    {BUSQ_SHUTDOWN, 0, "ShutDown", NULL},
    {BUSQ_UNKNOWN_PEER, 0, "UnknownPeer", NULL},
    {BUSQ_PEER_DEAD, 0, "PeerDead", NULL},
    {BUSQ_PEER_EXISTS, 0, "PeerExists", NULL},
    {BUSQ_CORRUPT, 0, "CorruptSegment", NULL},
    {BUSQ_VERSION, 0, "VersionMismatch", NULL},
    {BUSQ_NO_SPACE, ENOSPC, "NoSpace", NULL},
};

/* Those that Python has itself. */
static PyObject *class_of_python(int result, int *number)
{
  switch (result) {
  case BUSQ_INVALID:
  case BUSQ_TOO_LARGE:
    return PyExc_ValueError;
  case BUSQ_EXISTS:
    *number = EEXIST;
    return PyExc_FileExistsError;
  case BUSQ_NOT_FOUND:
    *number = ENOENT;
    return PyExc_FileNotFoundError;
  case BUSQ_DENIED:
    *number = EACCES;
    return PyExc_PermissionError;
  case BUSQ_SYSTEM:
    *number = EIO;
    return PyExc_OSError;
  default:
    return NULL;
  }
}

PyObject *error_raise(busq_state *state, int result)
{
  if (result == BUSQ_EMPTY) { /* some poll */
    PyErr_SetString(state->empty_error, "nothing came before the timeout");
    return NULL;
  }
  const char *text = busq_error_text(), *name = "BusqError";
  int number = 0;
  PyObject *class = new_ref(class_of_python(result, &number));
  for (size_t i = 0; !class && i < sizeof kinds / sizeof kinds[0]; i++)
    if (kinds[i].result == result) {
      name = kinds[i].class;
      number = kinds[i].number;
      text = kinds[i].text ? kinds[i].text : text;
    }
  PyObject *said = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
  if (number && busq_error_errno())
    number = busq_error_errno();
  if (!class)
    class = PyObject_GetAttrString(state->errors, name);
  PyObject *error = NULL;
  if (class && said)
    error = number ? PyObject_CallFunction(class, "iO", number, said) : PyObject_CallFunctionObjArgs(class, said, NULL);
  if (error)
    PyErr_SetObject((PyObject *)Py_TYPE(error), error);
  Py_XDECREF(error);
  Py_XDECREF(said);
  Py_XDECREF(class);
  return NULL;
}

PyObject *error_wrong_type(const char *argument, PyObject *value, const char *expected)
{
  PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE(value), "__name__");
  if (name)
    PyErr_Format(PyExc_TypeError, "%s has type %U: expected %s", argument, name, expected);
  Py_XDECREF(name);
  return NULL;
}

static void set_sent(Py_ssize_t sent, int replaces)
{
  PyObject *type, *error, *trace;
  PyErr_Fetch(&type, &error, &trace);
  PyErr_NormalizeException(&type, &error, &trace);
  PyObject *number = PyLong_FromSsize_t(sent);
  if (!number || !error || ((replaces || !PyObject_HasAttrString(error, "sent")) && PyObject_SetAttrString(error, "sent", number) < 0))
    PyErr_Clear();
  Py_XDECREF(number);
  PyErr_Restore(type, error, trace);
}

/* It is counted here, where no Python code runs: a signal may raise wherever some does, also where an error is about to get the number. */
void error_set_sent(Py_ssize_t sent)
{
  set_sent(sent, 1);
}

void error_set_sent_where_unknown(Py_ssize_t sent)
{
  set_sent(sent, 0);
}

/* ---- time ---- */

int64_t now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t deadline_of(int64_t timeout_ns)
{
  return timeout_ns <= 0 ? timeout_ns : now_ns() + timeout_ns;
}

int64_t deadline_left(int64_t deadline_ns)
{
  if (deadline_ns <= 0)
    return deadline_ns;
  const int64_t left_ns = deadline_ns - now_ns();
  return left_ns > 0 ? left_ns : 0;
}

/* ---- the gate ---- */

int gate_may_wait(busq_state *state)
{
  PyObject *none = state->guard ? PyObject_CallNoArgs(state->guard) : NULL;
  Py_XDECREF(none);
  return none || !state->guard;
}

/* Where waiting may be refused, it is tried without waiting first. */
static int64_t gate_left(busq_state *state, int is_first, int64_t deadline_ns)
{
  return is_first && state->guard ? 0 : deadline_left(deadline_ns);
}

int gate_run(busq_state *state, gate_step step, void *call, int64_t deadline_ns, Py_ssize_t before, const uint32_t *sent)
{
  int result, is_first = 1, goes_on;
  do {
    const int64_t left_ns = gate_left(state, is_first, deadline_ns);
    Py_BEGIN_ALLOW_THREADS
    result = step(call, left_ns);
    Py_END_ALLOW_THREADS
    goes_on = result == BUSQ_INTERRUPTED || (left_ns == 0 && deadline_left(deadline_ns) != 0 && (result == BUSQ_FULL || result == BUSQ_EMPTY));
    if (PyErr_CheckSignals() < 0 || (goes_on && is_first && !gate_may_wait(state))) {
      if (sent)
        error_set_sent(before + (Py_ssize_t)*sent);
      return RAISED;
    }
    is_first = 0;
  } while (goes_on);
  return result;
}
