/* SPDX-License-Identifier: Apache-2.0 */
#include "python/argument.h"
/*
 * What queues ask before and while they pickle (busq/_queues/pickles.py), for each object that is put.
 *
 * Guarantee: an object is called plain only where all of it has types of Python's own, which no pickler treats in a way of its own, and
 * which have no buffers.
 *
 * Mechanism: it looks at types alone, and runs no Python code.  It goes down a few levels, and gives up at some number of objects, which
 * take so long to pickle that the quicker pickler would save little.
 *
 * Not given: sets, and other types that could be plain.  Without an interpreter lock a list or a dictionary never is: others may
 * change it meanwhile.
 */

enum {
  PLAIN_DEPTH = 8,
  PLAIN_OBJECTS = 1000,
  BESIDE_BYTES = 256 << 10 /* a smaller buffer takes less time in the pickle */
};

/* ---- whether an object is plain ---- */

static int is_plain_within(PyObject *object, int depth, Py_ssize_t *left);

static int is_plain_tuple(PyObject *tuple, int depth, Py_ssize_t *left)
{
  const Py_ssize_t n = PyTuple_Size(tuple);
  for (Py_ssize_t i = 0; i < n; i++)
    if (!is_plain_within(PyTuple_GetItem(tuple, i), depth, left))
      return 0;
  return 1;
}

#ifndef Py_GIL_DISABLED
static int is_plain_list(PyObject *list, int depth, Py_ssize_t *left)
{
  const Py_ssize_t n = PyList_Size(list);
  for (Py_ssize_t i = 0; i < n; i++)
    if (!is_plain_within(PyList_GetItem(list, i), depth, left))
      return 0;
  return 1;
}

static int is_plain_dict(PyObject *dict, int depth, Py_ssize_t *left)
{
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);)
    if (!is_plain_within(key, depth, left) || !is_plain_within(value, depth, left))
      return 0;
  return 1;
}
#endif

static int is_plain_within(PyObject *object, int depth, Py_ssize_t *left)
{
  if (--*left < 0)
    return 0;
  if (PyUnicode_CheckExact(object) || PyLong_CheckExact(object) || PyBytes_CheckExact(object) || PyFloat_CheckExact(object) ||
      object == Py_None || PyBool_Check(object))
    return 1;
  if (!depth)
    return 0;
  if (PyTuple_CheckExact(object))
    return is_plain_tuple(object, depth - 1, left);
#ifndef Py_GIL_DISABLED
  if (PyList_CheckExact(object))
    return is_plain_list(object, depth - 1, left);
  if (PyDict_CheckExact(object))
    return is_plain_dict(object, depth - 1, left);
#endif
  return 0;
}

/* is_plain(object) */
static PyObject *is_plain(PyObject *module, PyObject *object)
{
  (void)module;
  Py_ssize_t left = PLAIN_OBJECTS;
  return PyBool_FromLong(is_plain_within(object, PLAIN_DEPTH, &left));
}

/* ---- which buffers stand beside a pickle ---- */

/* True for a buffer that goes into the pickle; of others a view is appended.  Pickle refuses by itself what lies scattered. */
static PyObject *goes_into_pickle(PyObject *beside, PyObject *buffer)
{
  const Py_ssize_t bytes = buffer_bytes(buffer);
  if (bytes < 0)
    return NULL;
  PyObject *view = bytes >= BESIDE_BYTES ? PyObject_CallMethod(buffer, "raw", NULL) : NULL;
  if (PyErr_Occurred()) {
    if (!PyErr_ExceptionMatches(PyExc_BufferError))
      return NULL;
    PyErr_Clear();
  }
  const int is_kept = view && PyList_Append(beside, view) == 0;
  Py_XDECREF(view);
  return PyErr_Occurred() ? NULL : PyBool_FromLong(!is_kept);
}

/* large_into(beside): what a pickler is to call with each buffer, so that the large ones come into that list. */
static PyObject *large_into(PyObject *module, PyObject *beside)
{
  static PyMethodDef function = {"goes_into_pickle", ONE_ARG(goes_into_pickle), NULL};
  if (!PyList_CheckExact(beside)) {
    PyErr_SetString(PyExc_TypeError, "large_into needs a list");
    return NULL;
  }
  (void)module;
  return PyCFunction_New(&function, beside);
}

PyMethodDef pickling_functions[] = {{"is_plain", ONE_ARG(is_plain), NULL}, {"large_into", ONE_ARG(large_into), NULL}, {NULL, NULL, 0, NULL}};
