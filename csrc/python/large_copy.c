/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE
#include "python/argument.h"
#include "python/module.h"
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
/*
 * Copies of the buffers that stand beside a pickle (busq/_queues/pickles.py), for an object of a queue without views.
 *
 * Guarantee: a bytearray where the buffer could be written to, and otherwise bytes, with memory of its own.
 *
 * Mechanism: one copy.  Memory of some megabytes comes fresh from the system, and to map it page by page takes several times as long as
 * to write it; so, before it is written, the system is asked for huge pages, as NumPy does for its arrays.
 *
 * Not given: huge pages, where the system has none.
 */

enum {
  LARGE_BYTES = 4 << 20 /* two huge pages: one of them at least lies inside */
};

static void ask_for_huge_pages(char *data, size_t size_bytes)
{
  const uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
  const uintptr_t begin = ((uintptr_t)data + page_bytes - 1) & ~(page_bytes - 1);
  const uintptr_t end = ((uintptr_t)data + size_bytes) & ~(page_bytes - 1);
  (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE); /* a wish */
}

/* own_copy(buffer, is_writable): a bytearray, or bytes. */
static PyObject *own_copy(PyObject *module, PyObject *args)
{
  (void)module;
  PyObject *buffer;
  int is_writable;
  payload source;
  if (!PyArg_ParseTuple(args, "Op", &buffer, &is_writable) || !payload_read(&source, buffer, "buffer", NULL, 0))
    return NULL;
  const busq_part part = source.parts[0];
  const Py_ssize_t size_bytes = (Py_ssize_t)part.size_bytes;
  PyObject *copy = is_writable ? PyByteArray_FromStringAndSize(NULL, size_bytes) : PyBytes_FromStringAndSize(NULL, size_bytes);
  if (copy && size_bytes) {
    char *data = is_writable ? PyByteArray_AsString(copy) : PyBytes_AsString(copy);
    if (size_bytes >= LARGE_BYTES)
      ask_for_huge_pages(data, (size_t)size_bytes);
    memcpy(data, part.data, (size_t)size_bytes);
  }
  payload_free(&source);
  return copy;
}

PyMethodDef copy_functions[] = {{"own_copy", VARARGS(own_copy), NULL}, {NULL, NULL, 0, NULL}};
