/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_PYTHON_THREADS_H
#define BUSQ_PYTHON_THREADS_H
/*
 * What keeps the threads of a process apart in objects of Python.
 *
 * Guarantee: threads that use one peer, message or draft at the same time see each of its changes as one step, with and without an
 * interpreter lock.
 *
 * Mechanism: with the lock, all of this is nothing, or one instruction.  Without it (Py_GIL_DISABLED) an object that changes is
 * guarded by its critical section, and what is fetched from a list or a dictionary is held, since others may take it out.  A thread that
 * holds a peer's latch (between receive_begin and receive_end) must wait for nothing: threads that wait for the latch do not let
 * the collector stop them, and so a holder that the collector has stopped would never go on.  What is looked at there has a flag,
 * which is asked and not waited for.
 *
 * Not given: one step where Python code runs in the middle.  Critical sections are left while it waits, as the lock is; whatever was
 * read before has to be looked at again.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#ifdef Py_GIL_DISABLED
/* Nothing between the two returns. */
#define BUSQ_GUARD(object) Py_BEGIN_CRITICAL_SECTION(object);
#define BUSQ_GUARD_END Py_END_CRITICAL_SECTION();
#else
#define BUSQ_GUARD(object) {
#define BUSQ_GUARD_END }
#endif

/* SYNC POINT published: a thread that sees the object sees what is in it.  Once there, it stays. */
#define BUSQ_PUBLISH(place, object) __atomic_store_n(&(place), object, __ATOMIC_RELEASE)
#define BUSQ_PUBLISHED(place) __atomic_load_n(&(place), __ATOMIC_ACQUIRE)

/* A flag that is tried, never waited for. */
typedef struct {
  char is_taken;
} busq_flag;

static inline int busq_flag_take(busq_flag *flag)
{
#ifdef Py_GIL_DISABLED
  return !__atomic_test_and_set(&flag->is_taken, __ATOMIC_ACQUIRE);
#else
  (void)flag;
  return 1;
#endif
}

static inline void busq_flag_drop(busq_flag *flag)
{
#ifdef Py_GIL_DISABLED
  __atomic_clear(&flag->is_taken, __ATOMIC_RELEASE);
#else
  (void)flag;
#endif
}

/* A new reference, or NULL without an exception where a list is shorter by now. */
static inline PyObject *busq_sequence_item(PyObject *sequence, Py_ssize_t at, int is_tuple)
{
#ifdef Py_GIL_DISABLED
  PyObject *item = is_tuple ? Py_XNewRef(PyTuple_GetItem(sequence, at)) : PyList_GetItemRef(sequence, at);
#else
  PyObject *item = is_tuple ? PyTuple_GetItem(sequence, at) : PyList_GetItem(sequence, at);
  Py_XINCREF(item);
#endif
  if (!item)
    PyErr_Clear();
  return item;
}

/* For as long as no Python code runs, and to be dropped; NULL where it is not there, or with an exception. */
static inline PyObject *busq_dict_item(PyObject *dict, PyObject *key)
{
#ifdef Py_GIL_DISABLED
  PyObject *item;
  (void)PyDict_GetItemRef(dict, key, &item);
  return item;
#else
  return PyDict_GetItemWithError(dict, key);
#endif
}

static inline void busq_item_drop(PyObject *item)
{
#ifdef Py_GIL_DISABLED
  Py_DECREF(item);
#else
  (void)item;
#endif
}

#endif /* BUSQ_PYTHON_THREADS_H */
