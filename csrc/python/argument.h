/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_PYTHON_ARGUMENT_H
#define BUSQ_PYTHON_ARGUMENT_H
/*
 * Arguments of Python's calls, and the texts of errors where one is wrong.
 *
 * Guarantee: the errors of functions written in Python: a call that does not fit is refused in Python's own words and by the name that
 * was called, and a wrong value with the argument, what was found and what was expected.
 *
 * Mechanism: a table has what a method takes.  A call that does not fit is made again with the method of the public class
 * (busq/peer.py), whose Python code refuses it.
 *
 * Not given: defaults; an argument that was left out is NULL.
 */
#include "python/exceptions.h"

enum {
  ARGUMENTS_MAX = 4
};

typedef struct {
  const char *class;  /* of busq/peer.py */
  const char *method;
  argument_name names[ARGUMENTS_MAX]; /* those by position come first */
  int n_positional;
  int n_required; /* of those */
} signature;

/* False with an exception.  The values are borrowed. */
int arguments_read(busq_state *state, PyObject *self, const signature *expected, PyObject *const *args, Py_ssize_t n_args,
                   PyObject *names, PyObject **values);

/* Each returns false with an exception. */
int timeout_read(PyObject *timeout, int64_t *timeout_ns); /* NULL: for ever */
int ack_read(PyObject *ack, int *is_ack);                 /* NULL: False */
int limit_read(PyObject *limit, Py_ssize_t *most);
int natural_read(const char *argument, PyObject *value, int least, uint32_t *number);
/* The name of a peer in UTF-8, for as long as the object lives. */
int name_read(const char *argument, PyObject *name, const char **text, size_t *bytes);
/* As collections.abc.Iterable has it. */
int is_iterable(PyObject *object);

/* Buffers as the limited API of 3.10 has them: by the slots of their types, in a struct that has no name in it. */
#if !defined(Py_LIMITED_API) || Py_LIMITED_API + 0 >= 0x030B0000
typedef Py_buffer Buffer;
#else
typedef struct {
  void *buf;
  PyObject *obj;
  Py_ssize_t len, itemsize;
  int readonly, ndim;
  char *format;
  Py_ssize_t *shape, *strides, *suboffsets;
  void *internal;
} Buffer;
enum {
  PyBUF_SIMPLE = 0,
  PyBUF_WRITABLE = 0x1,
  PyBUF_FORMAT = 0x4,
  PyBUF_ND = 0x8,
  PyBUF_STRIDES = 0x10 | PyBUF_ND
};
#ifndef Py_bf_getbuffer
#define Py_bf_getbuffer 1
#define Py_bf_releasebuffer 2
#endif
#endif

/* How many bytes a buffer has, wherever they lie; -1 with an exception. */
Py_ssize_t buffer_bytes(PyObject *data);

/* What is sent: buffers that are gathered into one message. */
enum {
  PAYLOAD_FEW = 8
};
typedef struct {
  busq_part *parts;
  Buffer *buffers;
  uint32_t n_buffers;
  uint32_t n_parts; /* one more with `end` */
  busq_part few_parts[PAYLOAD_FEW + 1];
  Buffer few_buffers[PAYLOAD_FEW];
} payload;

/* Reads one buffer, or a list or tuple of them, and what stands behind it (or NULL).  False with an exception; then there is nothing
 * to be freed. */
int payload_read(payload *self, PyObject *data, const char *argument, const void *end, size_t end_bytes);
/* An exception that is set stays. */
void payload_free(payload *self);

#endif /* BUSQ_PYTHON_ARGUMENT_H */
