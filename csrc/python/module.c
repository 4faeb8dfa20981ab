/* SPDX-License-Identifier: Apache-2.0 */
#include "python/module.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* Results of the core, and what else Python code has to name. */
static const struct {
  const char *name;
  int value;
} constants[] = {{"OK", BUSQ_OK},
                 {"EMPTY", BUSQ_EMPTY},
                 {"FULL", BUSQ_FULL},
                 {"SHUTDOWN", BUSQ_SHUTDOWN},
                 {"CLOSED", BUSQ_CLOSED},
                 {"FORKED", BUSQ_FORKED},
                 {"UNKNOWN_PEER", BUSQ_UNKNOWN_PEER},
                 {"PEER_DEAD", BUSQ_PEER_DEAD},
                 {"SHORT_OF_NOTHING", BUSQ_SHORT_OF_NOTHING},
                 {"INVALID", BUSQ_INVALID},
                 {"INTERRUPTED", BUSQ_INTERRUPTED},
                 {"JOIN_RESUME", BUSQ_JOIN_RESUME},
                 {"JOIN_DURABLE", BUSQ_JOIN_DURABLE},
                 {"JOIN_SHARED", BUSQ_JOIN_SHARED},
                 {"LISTEN_NOT", BUSQ_LISTEN_NOT},
                 {"LISTEN_MESSAGES", BUSQ_LISTEN_MESSAGES},
                 {"LISTEN_ROOM", BUSQ_LISTEN_ROOM},
                 {"LISTEN_LIVES", BUSQ_LISTEN_LIVES},
                 {"KIND_DATA", BUSQ_KIND_DATA},
                 {"KIND_VIEW", BUSQ_KIND_VIEW},
                 {"KIND_JOINED", BUSQ_KIND_JOINED},
                 {"KIND_LEFT", BUSQ_KIND_LEFT},
                 {"FILTER_UNSENT", FILTER_UNSENT},
                 {"FILTER_SORTS", FILTER_SORTS}};

static const char *const arguments[N_ARGUMENTS] = {"", "to", "data", "handles", "timeout", "messages", "obj", "size", "receivers", "ack", "limit"};
static const char *const kinds[N_KINDS] = {"data", "view", "joined", "left", "node_destroyed", "node_released", "control"};

/* Makes a type; with a name, others see it in the module. */
static PyObject *add_type(PyObject *module, PyType_Spec *spec, const char *name)
{
  PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
  if (type && name && PyModule_AddObjectRef(module, name, type) < 0)
    Py_CLEAR(type);
  return type;
}

static int add_types(PyObject *module, busq_state *state)
{
  const struct {
    PyObject **place;
    PyType_Spec *spec;
    const char *name;
  } types[] = {{&state->peer_owner_type, &peer_owner_spec, NULL}, {&state->port_type, &port_spec, "Port"},
               {&state->message_type, &message_spec, "Message"}, {&state->draft_type, &draft_spec, "Draft"},
               {&state->handle_type, &handle_spec, "Handle"},    {&state->node_type, &node_spec, "Node"},
               {&state->bus_type, &bus_spec, "Bus"},             {&state->note_type, &note_spec, "Note"},
               {&state->request_type, &request_spec, "Request"}, {&state->pin_type, &pin_spec, NULL},
               {&state->shown_type, &shown_spec, NULL},          {&state->async_port_type, &async_port_spec, "AsyncPort"},
               {&state->awaiting_type, &awaiting_spec, NULL}};
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
    if (!(*types[i].place = add_type(module, types[i].spec, types[i].name)))
      return -1;
  return 0;
}

static int add_errors(busq_state *state)
{
  state->errors = PyImport_ImportModule("busq.errors");
  if (!state->errors)
    return -1;
  state->empty_error = PyObject_GetAttrString(state->errors, "Empty");
  state->shut_down_error = PyObject_GetAttrString(state->errors, "ShutDown");
  return state->empty_error && state->shut_down_error ? 0 : -1;
}

/* A program that Ctrl-C ends kills itself with SIGINT behind the end of its interpreter, without what `atexit` has. */
static void end_with_interpreter(void)
{
  (void)Py_AtExit(busq_bus_leave_all); /* where there is no room for that, the next process removes the names */
}

static int module_exec(PyObject *module)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, end_with_interpreter);
  busq_state *state = PyModule_GetState(module);
  PyMethodDef *const functions[] = {bus_functions,  port_functions,    send_functions,     filter_functions,    ask_functions,
                                    node_functions, message_functions, pickling_functions, copy_functions,     overflow_functions,  async_port_functions};
  if (add_types(module, state) < 0 || add_errors(state) < 0)
    return -1;
  for (int i = 0; i < N_KINDS; i++)
    if (!(state->kinds[i] = PyUnicode_InternFromString(kinds[i])))
      return -1;
  for (int i = 0; i < N_ARGUMENTS; i++)
    if (!(state->arguments[i] = PyUnicode_InternFromString(arguments[i])))
      return -1;
  for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
    if (PyModule_AddFunctions(module, functions[i]) < 0)
      return -1;
  for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++)
    if (PyModule_AddIntConstant(module, constants[i].name, constants[i].value) < 0)
      return -1;
  return 0;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
  busq_state *state = PyModule_GetState(module);
  for (size_t i = 0; state && i < BUSQ_STATE_OBJECTS; i++)
    Py_VISIT(state->objects[i]);
  return 0;
}

static int module_clear(PyObject *module)
{
  busq_state *state = PyModule_GetState(module);
  for (size_t i = 0; state && i < BUSQ_STATE_OBJECTS; i++)
    Py_CLEAR(state->objects[i]);
  return 0;
}

static void module_free(void *module)
{
  (void)module_clear(module);
}

/* Since 3.12 a module declares by this slot that it can live in an interpreter with a lock of its own.  Earlier versions do not know the slot,
 * and the limited API of 3.10 has no name for it. */
#define MOD_MULTIPLE_INTERPRETERS 3
#define MOD_PER_INTERPRETER_GIL_SUPPORTED ((void *)2)

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, (void *)module_exec},
#ifdef Py_GIL_DISABLED
                                          {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
                                          {MOD_MULTIPLE_INTERPRETERS, MOD_PER_INTERPRETER_GIL_SUPPORTED},
                                          {0, NULL}};
static PyModuleDef_Slot slots_before_3_12[] = {{Py_mod_exec, (void *)module_exec}, {0, NULL}};

static struct PyModuleDef module_definition = {PyModuleDef_HEAD_INIT,
                                               "_core",
                                               "Peers and messages of buses whose order is bus1.",
                                               sizeof(busq_state),
                                               NULL,
                                               module_slots,
                                               module_traverse,
                                               module_clear,
                                               module_free};

/* Every interpreter of a process has the same version, and gets the same slots. */
PyMODINIT_FUNC PyInit__core(void)
{
  int major = 0, minor = 0;
  if (sscanf(Py_GetVersion(), "%d.%d", &major, &minor) == 2 && major == 3 && minor < 12)
    module_definition.m_slots = slots_before_3_12;
  return PyModuleDef_Init(&module_definition);
}
