/* SPDX-License-Identifier: Apache-2.0 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "machine.h"
/*
 * What is the least that a message between two processes costs in Python?  A ring of one producer and one consumer behind an
 * extension module: `put` copies bytes in, `get` makes bytes of what comes out.  It is in memory that is shared with the children of
 * a fork.  A side that waits pauses and yields; with `sleeps` the consumer sleeps on a futex at once, and lets other threads run.
 *
 * Not given: order, a second producer, signals while waiting, or messages above ROOM_BYTES.
 */
#define RECORDS 1024u
#define ROOM_BYTES 1024u
#define PAUSES_BEFORE_YIELD 40u

typedef struct {
  uint32_t size_bytes;
  char data[ROOM_BYTES + 64 - sizeof(uint32_t)];
} record;

typedef struct {
  _Alignas(LINE_PAIR_BYTES) _Atomic uint64_t tail; /* records published; the producer's word */
  uint64_t head_seen;                              /* by the producer */
  _Atomic uint32_t is_asleep;                      /* the consumer, or is about to be */
  _Alignas(LINE_PAIR_BYTES) _Atomic uint64_t head; /* records taken; the consumer's word */
  uint64_t tail_seen;                              /* by the consumer */
  _Alignas(LINE_PAIR_BYTES) record records[RECORDS];
} shared_ring;

typedef struct {
  PyObject_HEAD
  shared_ring *ring;
  int sleeps;
} Ring;

static void wake(shared_ring *ring)
{
  if (atomic_exchange(&ring->is_asleep, 0))
    syscall(SYS_futex, &ring->is_asleep, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void sleep_until(shared_ring *ring, uint64_t head)
{
  /* SYNC POINT asleep: either the producer sees the flag, or this sees its record. */
  atomic_store(&ring->is_asleep, 1);
  while (atomic_load(&ring->tail) == head && atomic_load(&ring->is_asleep))
    syscall(SYS_futex, &ring->is_asleep, FUTEX_WAIT, 1, NULL, NULL, 0);
}

static void wait_step(unsigned *stepsp)
{
  if ((*stepsp)++ < PAUSES_BEFORE_YIELD) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    __asm__ __volatile__("yield");
#endif
  } else {
    sched_yield();
  }
}

static PyObject *ring_put(Ring *self, PyObject *data)
{
  shared_ring *ring = self->ring;
  const uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
  unsigned steps = 0;
  Py_ssize_t size_bytes;
  char *bytes;

  if (PyBytes_AsStringAndSize(data, &bytes, &size_bytes) < 0)
    return NULL;
  if ((size_t)size_bytes > sizeof(ring->records[0].data))
    return PyErr_Format(PyExc_ValueError, "%zd bytes: expected at most %u", size_bytes, ROOM_BYTES);
  while (tail - ring->head_seen >= RECORDS) {
    /* SYNC POINT slot free: the copy out is done */
    ring->head_seen = atomic_load_explicit(&ring->head, memory_order_acquire);
    if (tail - ring->head_seen >= RECORDS)
      wait_step(&steps);
  }
  ring->records[tail % RECORDS].size_bytes = (uint32_t)size_bytes;
  memcpy(ring->records[tail % RECORDS].data, bytes, (size_t)size_bytes);
  atomic_store_explicit(&ring->tail, tail + 1, memory_order_release); /* SYNC POINT slot full: the copy in is done */
  if (self->sleeps) {
    atomic_thread_fence(memory_order_seq_cst); /* SYNC POINT asleep */
    if (atomic_load_explicit(&ring->is_asleep, memory_order_relaxed))
      wake(ring);
  }
  Py_RETURN_NONE;
}

static PyObject *ring_get(Ring *self, PyObject *unused)
{
  shared_ring *ring = self->ring;
  const uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
  unsigned steps = 0;
  PyObject *data;

  (void)unused;
  while (head == ring->tail_seen) {
    ring->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire); /* SYNC POINT slot full: the copy in is done */
    if (head != ring->tail_seen)
      break;
    if (self->sleeps) {
      Py_BEGIN_ALLOW_THREADS
      sleep_until(ring, head);
      Py_END_ALLOW_THREADS
    } else {
      wait_step(&steps);
    }
  }
  data = PyBytes_FromStringAndSize(ring->records[head % RECORDS].data, ring->records[head % RECORDS].size_bytes);
  atomic_store_explicit(&ring->head, head + 1, memory_order_release); /* SYNC POINT slot free: the copy out is done */
  return data;
}

static PyObject *ring_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
  allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  static char *names[] = { "sleeps", NULL };
  int sleeps = 0;
  Ring *self;

  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|p", names, &sleeps) || !(self = (Ring *)alloc(type, 0)))
    return NULL;
  self->sleeps = sleeps;
  self->ring = mmap(NULL, sizeof(*self->ring), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (self->ring == MAP_FAILED) {
    self->ring = NULL;
    Py_DECREF(self);
    return PyErr_SetFromErrno(PyExc_OSError);
  }
  return (PyObject *)self;
}

static void ring_dealloc(Ring *self)
{
  PyTypeObject *type = Py_TYPE(self);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

  if (self->ring)
    munmap(self->ring, sizeof(*self->ring));
  release(self);
  Py_DECREF(type);
}

static PyMethodDef ring_methods[] = { { "put", (PyCFunction)(void *)ring_put, METH_O, "Copy bytes in; waits for room." },
                                      { "get", (PyCFunction)(void *)ring_get, METH_NOARGS, "Take bytes out; waits for them." },
                                      { NULL, NULL, 0, NULL } };

static PyType_Slot ring_slots[] = { { Py_tp_doc, "A ring of one producer and one consumer." },
                                    { Py_tp_new, (void *)ring_new },
                                    { Py_tp_dealloc, (void *)ring_dealloc },
                                    { Py_tp_methods, ring_methods },
                                    { 0, NULL } };

static PyType_Spec ring_spec = { "busq.bench._ring.Ring", sizeof(Ring), 0, Py_TPFLAGS_DEFAULT, ring_slots };

static int ring_exec(PyObject *module)
{
  PyObject *type = PyType_FromSpec(&ring_spec);
  const int result = type ? PyModule_AddObjectRef(module, "Ring", type) : -1;

  Py_XDECREF(type);
  return result;
}

static PyModuleDef_Slot module_slots[] = { { Py_mod_exec, (void *)ring_exec },
#ifdef Py_GIL_DISABLED
                                           { Py_mod_gil, Py_MOD_GIL_NOT_USED },
#endif
                                           { 0, NULL } };

static struct PyModuleDef module_definition = { PyModuleDef_HEAD_INIT, "_ring", NULL, 0, NULL, module_slots, NULL, NULL,
                                                NULL };

PyMODINIT_FUNC PyInit__ring(void)
{
  return PyModuleDef_Init(&module_definition);
}
