/* SPDX-License-Identifier: Apache-2.0 */
#include <Python.h>
#include <stdio.h>
/*
 * Lets busq be imported in the main interpreter of a process, and in no other.
 *
 * Guarantee: importing this module elsewhere is an ImportError; busq/_native/__init__.py imports it before anything else that
 * is compiled, so the main interpreter notices nothing.
 *
 * Mechanism: it is initialised in two phases, so that its exec slot runs for every import.  The other extension modules are
 * initialised in one: Python gives a second interpreter a copy of what they hold in the first without asking them, and the
 * modules would hold objects of the one in the other, beyond its end.
 *
 * Not given: anything beyond the limited API of CPython 3.10.
 */

static int interpreter_exec(PyObject *module)
{
  const long long number = (long long)PyInterpreterState_GetID(PyInterpreterState_Get());
  (void)module;
  if (number == 0)
    return 0;
  PyErr_Format(PyExc_ImportError,
               "busq was imported in interpreter %lld of this process; expected the main one, since its compiled core can't "
               "be shared between interpreters: import it in the main interpreter, or start another process",
               number);
  return -1;
}

/* Since 3.12 Python refuses in its own words to load a module in an interpreter with a lock of its own, unless the module declares
 * by this slot that it can live there; then the exec slot refuses in ours.  Earlier versions do not know the slot. */
#define MOD_MULTIPLE_INTERPRETERS 3
#define MOD_PER_INTERPRETER_GIL_SUPPORTED ((void *)2)

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, (void *)interpreter_exec},
#ifdef Py_GIL_DISABLED
                                          {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
                                          {0, NULL}, /* its place */
                                          {0, NULL}};
enum {
  N_SLOTS = sizeof module_slots / sizeof module_slots[0]
};

static struct PyModuleDef module_definition = {PyModuleDef_HEAD_INIT, "_interpreter", NULL, 0, NULL, module_slots, NULL,
                                               NULL, NULL};

PyMODINIT_FUNC PyInit__interpreter(void)
{
  int major = 0, minor = 0;
  if (sscanf(Py_GetVersion(), "%d.%d", &major, &minor) == 2 && (major > 3 || minor >= 12))
    module_slots[N_SLOTS - 2] = (PyModuleDef_Slot){MOD_MULTIPLE_INTERPRETERS, MOD_PER_INTERPRETER_GIL_SUPPORTED};
  return PyModuleDef_Init(&module_definition);
}
