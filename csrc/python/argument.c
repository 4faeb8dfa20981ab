/* SPDX-License-Identifier: Apache-2.0 */
#include "python/argument.h"
#include "python/threads.h"
#include <stdlib.h>
#include <string.h>

/* ---- calls ---- */

/* Finds a name that was put together while the program ran, which is another object than the one that is known. */
__attribute__((noinline, cold)) static int place_of_text(const busq_state *state, const signature *expected, PyObject *name)
{
  for (int i = 0; i < ARGUMENTS_MAX && expected->names[i]; i++)
    if (PyUnicode_Compare(name, state->arguments[expected->names[i]]) == 0)
      return i;
  return -1;
}

/* Names that stand in a program are interned, and an argument by name stands behind those by position. */
__attribute__((noinline)) static int read_named(const busq_state *state, const signature *expected, PyObject *const *args,
                                                Py_ssize_t n_args, PyObject *names, PyObject **values)
{
  const Py_ssize_t n_named = PyTuple_Size(names);
  for (Py_ssize_t i = 0; i < n_named; i++) {
    PyObject *name = PyTuple_GetItem(names, i);
    int place = (int)n_args;
    while (place < ARGUMENTS_MAX && name != state->arguments[expected->names[place]])
      place++;
    if (place == ARGUMENTS_MAX || !expected->names[place]) /* "" stands where there is no argument */
      place = place_of_text(state, expected, name);
    if (place < 0 || values[place])
      return 0;
    values[place] = args[n_args + i];
  }
  return 1;
}

__attribute__((noinline, cold)) static int misused(busq_state *state, PyObject *self, const signature *expected, PyObject *const *args, Py_ssize_t n_args,
                   PyObject *names)
{
  PyObject *refuse = helper(state, "misused");
  PyObject *given = refuse ? PyTuple_New(n_args) : NULL, *named = given ? PyDict_New() : NULL;
  int failed = !named;
  for (Py_ssize_t i = 0; i < n_args && given; i++)
    PyTuple_SetItem(given, i, new_ref(args[i]));
  for (Py_ssize_t i = 0; names && i < PyTuple_Size(names) && !failed; i++)
    failed = PyDict_SetItem(named, PyTuple_GetItem(names, i), args[n_args + i]);
  PyObject *none = failed ? NULL : PyObject_CallFunction(refuse, "OssOO", self, expected->class, expected->method, given, named);
  Py_XDECREF(none);
  Py_XDECREF(named);
  Py_XDECREF(given);
  Py_XDECREF(refuse);
  return 0;
}

int arguments_read(busq_state *state, PyObject *self, const signature *expected, PyObject *const *args, Py_ssize_t n_args,
                   PyObject *names, PyObject **values)
{
  for (int i = 0; i < ARGUMENTS_MAX; i++)
    values[i] = i < n_args ? args[i] : NULL;
  int fits = n_args <= expected->n_positional && (!names || read_named(state, expected, args, n_args, names, values));
  for (Py_ssize_t i = n_args; i < expected->n_required && fits; i++)
    fits = values[i] != NULL;
  return fits || misused(state, self, expected, args, n_args, names);
}

/* ---- values ---- */

static int timeout_wrong(PyObject *timeout)
{
  PyErr_Format(PyExc_ValueError, "timeout %R: expected None (for ever) or seconds, 0 or more", timeout);
  return 0;
}

/* A small whole number, and most are, need not become a float. */
static int seconds_read(PyObject *timeout, int64_t *timeout_ns)
{
  int overflow = 0;
  const long long seconds = PyLong_CheckExact(timeout) ? PyLong_AsLongLongAndOverflow(timeout, &overflow) : -1;
  if (overflow || seconds < 0 || seconds >= 1000000000)
    return 0;
  *timeout_ns = (int64_t)seconds * 1000000000;
  return 1;
}

/* Times beyond 30 years are all alike. */
int timeout_read(PyObject *timeout, int64_t *timeout_ns)
{
  *timeout_ns = -1;
  if (!timeout || timeout == Py_None || seconds_read(timeout, timeout_ns))
    return 1;
  /* Text is a number for float(), and none for us. */
  const int is_number = PyFloat_CheckExact(timeout) || PyLong_CheckExact(timeout);
  const int is_text = !is_number && (IS_STR(timeout) || IS_BYTES(timeout) || PyByteArray_Check(timeout));
  const double seconds = is_text ? -1 : PyFloat_AsDouble(timeout);
  if (is_text || (seconds == -1 && PyErr_Occurred())) {
    if (!is_text && PyErr_ExceptionMatches(PyExc_OverflowError)) {
      PyErr_Clear(); /* longer than a float can hold is for ever */
      return 1;
    }
    if (!is_text && !PyErr_ExceptionMatches(PyExc_TypeError))
      return 0;
    PyErr_Clear();
    error_wrong_type("timeout", timeout, "None (for ever) or seconds, 0 or more");
    return 0;
  }
  if (!(seconds >= 0))
    return timeout_wrong(timeout);
  *timeout_ns = seconds < 1e9 ? (int64_t)(seconds * 1e9) : 1000000000000000000;
  return 1;
}

int ack_read(PyObject *ack, int *is_ack)
{
  *is_ack = ack == Py_True;
  if (!ack || PyBool_Check(ack))
    return 1;
  error_wrong_type("ack", ack, "True or False");
  return 0;
}

int limit_read(PyObject *limit, Py_ssize_t *most)
{
  PyObject *index = PyNumber_Index(limit);
  if (!index) {
    if (PyErr_ExceptionMatches(PyExc_TypeError)) {
      PyErr_Clear();
      error_wrong_type("limit", limit, "a whole number, 1 or more");
    }
    return 0;
  }
  *most = PyNumber_AsSsize_t(index, NULL); /* more than there can be is as much as there can be */
  Py_DECREF(index);
  if (*most < 1)
    PyErr_Format(PyExc_ValueError, "limit %R: expected a whole number, 1 or more", limit);
  return *most >= 1;
}

int natural_read(const char *argument, PyObject *value, int least, uint32_t *number)
{
  const char *expected = least ? "a whole number, 1 or more" : "a whole number, 0 or more";
  PyObject *index = PyNumber_Index(value);
  if (!index) {
    if (PyErr_ExceptionMatches(PyExc_TypeError)) {
      PyErr_Clear();
      error_wrong_type(argument, value, expected);
    }
    return 0;
  }
  const long long found = PyLong_AsLongLong(index);
  const int is_right = !PyErr_Occurred() && found >= least && found <= (long long)UINT32_MAX;
  if (!is_right) {
    PyErr_Clear();
    PyErr_Format(PyExc_ValueError, "%s is %S: expected %s and below 2**32", argument, index, expected);
  }
  Py_DECREF(index);
  *number = (uint32_t)found;
  return is_right;
}

static void name_wrong(PyObject *name)
{
  PyObject *type, *error, *trace;
  PyErr_Fetch(&type, &error, &trace);
  PyErr_NormalizeException(&type, &error, &trace);
  PyObject *reason = error ? PyObject_GetAttrString(error, "reason") : NULL;
  PyObject *start = reason ? PyObject_GetAttrString(error, "start") : NULL;
  if (start)
    PyErr_Format(PyExc_ValueError, "peer name %R can't be written in UTF-8 (%S at %S)", name, reason, start);
  Py_XDECREF(start);
  Py_XDECREF(reason);
  Py_XDECREF(type);
  Py_XDECREF(error);
  Py_XDECREF(trace);
}

int name_read(const char *argument, PyObject *name, const char **text, size_t *bytes)
{
  Py_ssize_t size = 0;
  if (!IS_STR(name)) {
    error_wrong_type(argument, name, "str, the name of a peer");
    return 0;
  }
  *text = PyUnicode_AsUTF8AndSize(name, &size);
  *bytes = (size_t)size;
  if (!*text && PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
    name_wrong(name);
  return *text != NULL;
}

static int has_method(PyObject *object, const char *name)
{
  PyObject *method = PyObject_GetAttrString((PyObject *)Py_TYPE(object), name);
  const int has = method && method != Py_None;
  Py_XDECREF(method);
  PyErr_Clear();
  return has;
}

/* A peer is none here: going through it would receive its messages, and wait for the next one. */
int is_iterable(PyObject *object)
{
  return has_method(object, "__iter__") && !has_method(object, "recv");
}

/* ---- payloads ---- */

static int buffer_get_as(PyObject *data, Buffer *buffer, int flags)
{
  int (*get)(PyObject *, Buffer *, int) = (int (*)(PyObject *, Buffer *, int))PyType_GetSlot(Py_TYPE(data), Py_bf_getbuffer);
  *buffer = (Buffer){.buf = NULL};
  if (get)
    return get(data, buffer, flags);
  PyErr_SetNone(PyExc_TypeError);
  return -1;
}

/* With its format, if it has one that can be written down: dates of NumPy have none. */
static int buffer_get(PyObject *data, Buffer *buffer)
{
  if (buffer_get_as(data, buffer, PyBUF_ND | PyBUF_FORMAT) == 0)
    return 0;
  if (!PyErr_ExceptionMatches(PyExc_Exception))
    return -1;
  PyErr_Clear();
  return buffer_get_as(data, buffer, PyBUF_SIMPLE);
}

/* The letter in a format (of `struct`, with what PEP 3118 and ctypes add) that stands for an address: of a Python object, a function,
 * a text, or anything; 0 where there is none. */
static char address_in(const char *format)
{
  for (; format && *format; format++) {
    if (*format == ':') { /* a name, up to the next one */
      format = strchr(format + 1, ':');
      if (!format)
        return 0;
    } else if (*format == 'Z') { /* before f, d or g: a complex number */
      if (!format[1] || !strchr("fdgFDG", format[1]))
        return *format;
    } else if (strchr("O&PXz", *format)) {
      return *format;
    }
  }
  return 0;
}

/* Where NumPy can't write the format down, its type knows. */
static int type_has_objects(PyObject *data)
{
  PyObject *type = PyObject_GetAttrString(data, "dtype");
  PyObject *has = type ? PyObject_GetAttrString(type, "hasobject") : NULL;
  const int found = has == Py_True;
  Py_XDECREF(has);
  Py_XDECREF(type);
  PyErr_Clear();
  return found;
}

static void buffer_release(Buffer *buffer)
{
  PyObject *owner = buffer->obj;
  if (!owner || PyBytes_CheckExact(owner)) {
    Py_XDECREF(owner);
    return;
  }
  void (*release)(PyObject *, Buffer *) = (void (*)(PyObject *, Buffer *))PyType_GetSlot(Py_TYPE(owner), Py_bf_releasebuffer);
  if (release)
    release(owner, buffer);
  buffer->obj = NULL;
  Py_DECREF(owner);
}

Py_ssize_t buffer_bytes(PyObject *data)
{
  Buffer buffer;
  if (buffer_get_as(data, &buffer, PyBUF_STRIDES) < 0)
    return -1;
  const Py_ssize_t bytes = buffer.len;
  buffer_release(&buffer);
  return bytes;
}

/* An exception that is set stays. */
static void payload_release(payload *self)
{
  PyObject *type = NULL, *error = NULL, *trace = NULL;
  const int has_failed = PyErr_Occurred() != NULL;
  if (has_failed)
    PyErr_Fetch(&type, &error, &trace);
  while (self->n_buffers)
    buffer_release(&self->buffers[--self->n_buffers]);
  if (has_failed)
    PyErr_Restore(type, error, trace);
}

/* Addresses mean nothing in another process; false with an exception. */
static int buffer_check(PyObject *data, const char *argument, const Buffer *buffer)
{
  const char address = address_in(buffer->format);
  if (!address && (buffer->format || !type_has_objects(data)))
    return 1;
  PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE(data), "__name__");
  if (name)
    PyErr_Format(PyExc_TypeError,
                 "%s has type %U, and %s: these are addresses, which mean nothing in another process; "
                 "`send_object` sends objects", argument, name,
                 address && address != 'O' ? "holds pointers" : "holds Python objects");
  Py_XDECREF(name);
  return 0;
}

static int part_read(payload *self, PyObject *data, const char *argument)
{
  Buffer *buffer = &self->buffers[self->n_buffers];
  if (PyBytes_CheckExact(data)) {
    buffer->obj = new_ref(data);
    self->parts[self->n_buffers++] = (busq_part){PyBytes_AsString(data), (uint64_t)PyBytes_Size(data)};
    return 1;
  }
  if (IS_STR(data)) {
    error_wrong_type(argument, data, "bytes; encode it first");
    return 0;
  }
  if (buffer_get(data, buffer) < 0) {
    if (PyErr_ExceptionMatches(PyExc_TypeError)) {
      PyErr_Clear();
      error_wrong_type(argument, data,
                       strcmp(argument, "data") ? "bytes, bytearray, memoryview or another buffer"
                                                : "bytes, bytearray, memoryview or another buffer, or a list of them");
    }
    return 0;
  }
  if (!buffer_check(data, argument, buffer)) {
    self->n_buffers++; /* released with the others */
    return 0;
  }
  self->parts[self->n_buffers++] = (busq_part){buffer->buf, (uint64_t)buffer->len};
  return 1;
}

static int payload_make_room(payload *self, Py_ssize_t n)
{
  self->parts = self->few_parts;
  self->buffers = self->few_buffers;
  self->n_buffers = self->n_parts = 0;
  if (n <= PAYLOAD_FEW)
    return 1;
  busq_part *parts = malloc(((size_t)n + 1) * sizeof *parts);
  Buffer *buffers = malloc((size_t)n * sizeof *buffers);
  if (parts && buffers) {
    self->parts = parts;
    self->buffers = buffers;
    return 1;
  }
  free(parts);
  free(buffers);
  PyErr_NoMemory();
  return 0;
}

/* Reads a list of bytes, during which no Python code runs; false where a part is something else. */
static int payload_read_bytes(payload *self, PyObject *list, Py_ssize_t n)
{
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *part = busq_sequence_item(list, i, 0);
    if (!part || !PyBytes_CheckExact(part)) {
      Py_XDECREF(part);
      payload_release(self);
      return 0;
    }
    self->buffers[self->n_buffers].obj = part;
    self->parts[self->n_buffers++] = (busq_part){PyBytes_AsString(part), (uint64_t)PyBytes_Size(part)};
  }
  return 1;
}

static int payload_read_parts(payload *self, PyObject *parts, const char *argument)
{
  for (Py_ssize_t i = 0; i < PyTuple_Size(parts); i++) {
    char name[64];
    PyOS_snprintf(name, sizeof name, "%s[%zd]", argument, i);
    if (!part_read(self, PyTuple_GetItem(parts, i), name))
      return 0;
  }
  return 1;
}

/* Getting a buffer may run Python code, which may take parts out of a list: so it is copied first. */
int payload_read(payload *self, PyObject *data, const char *argument, const void *end, size_t end_bytes)
{
  const int is_many = !PyBytes_CheckExact(data) && (PyList_Check(data) || IS_TUPLE(data));
  const Py_ssize_t n = PyList_CheckExact(data) ? PyList_Size(data) : 0;
  PyObject *parts = NULL;
  int is_right = payload_make_room(self, n);
  if (is_right && (!n || !payload_read_bytes(self, data, n))) {
    parts = is_many ? PySequence_Tuple(data) : NULL;
    if (parts && PyTuple_Size(parts) > (n > PAYLOAD_FEW ? n : PAYLOAD_FEW)) {
      payload_free(self);
      is_right = payload_make_room(self, PyTuple_Size(parts));
    }
    is_right = is_right && (!is_many || parts) && (parts ? payload_read_parts(self, parts, argument) : part_read(self, data, argument));
    Py_XDECREF(parts);
  }
  if (!is_right) {
    payload_free(self);
    return 0;
  }
  self->n_parts = self->n_buffers;
  if (end)
    self->parts[self->n_parts++] = (busq_part){end, end_bytes};
  return 1;
}

void payload_free(payload *self)
{
  payload_release(self);
  if (self->buffers != self->few_buffers) {
    free(self->parts);
    free(self->buffers);
  }
}
