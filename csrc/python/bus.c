/* SPDX-License-Identifier: Apache-2.0 */
#include "python/argument.h"
#include "python/message.h"
#include <string.h>
/*
 * A bus: its file, and what is known of its peers.
 *
 * Guarantee: the bus stays mapped for as long as the object lives.
 * Mechanism: calls that may take time let go of the interpreter's lock.
 * Not given: checks of names and arguments, which busq/bus.py makes before it calls.
 */

typedef struct {
  PyObject_HEAD
  busq_state *state;
  busq_bus *bus;
} Bus;

static PyObject *bus_new(busq_state *state, busq_bus *bus)
{
  Bus *self = PyObject_New(Bus, (PyTypeObject *)state->bus_type);
  if (!self) {
    busq_bus_free(bus);
    return NULL;
  }
  self->state = state;
  self->bus = bus;
  return (PyObject *)self;
}

static void bus_dealloc(Bus *self)
{
  PyTypeObject *type = Py_TYPE(self);
  Py_BEGIN_ALLOW_THREADS
  busq_bus_free(self->bus);
  Py_END_ALLOW_THREADS
  PyObject_Free(self);
  Py_DECREF(type);
}

/* ---- files ---- */

/* create(directory, name, order, peers, capacity, arena, permissions, groups, nodes, temporary, reserve): None where it exists. */
static PyObject *create(PyObject *module, PyObject *args)
{
  busq_state *state = PyModule_GetState(module);
  const char *directory, *name;
  busq_config config = {0};
  unsigned long long arena_bytes;
  busq_bus *bus = NULL;
  int is_temporary, reserves, result;
  if (!PyArg_ParseTuple(args, "yyyIIKIIIpp", &directory, &name, &config.order, &config.peers, &config.capacity, &arena_bytes,
                        &config.permissions, &config.groups, &config.nodes, &is_temporary, &reserves))
    return NULL;
  config.arena_bytes = arena_bytes;
  config.is_temporary = is_temporary != 0;
  config.reserves_late = !reserves;
  config.takes_larger = 1;
  Py_BEGIN_ALLOW_THREADS
  result = busq_bus_create(directory, name, &config, &bus);
  Py_END_ALLOW_THREADS
  return result == BUSQ_OK ? bus_new(state, bus) : error_raise(state, result);
}

static PyObject *open_bus(PyObject *module, PyObject *args)
{
  busq_state *state = PyModule_GetState(module);
  const char *directory, *name;
  busq_bus *bus = NULL;
  int result;
  if (!PyArg_ParseTuple(args, "yy", &directory, &name))
    return NULL;
  Py_BEGIN_ALLOW_THREADS
  result = busq_bus_open(directory, name, &bus);
  Py_END_ALLOW_THREADS
  return result == BUSQ_OK ? bus_new(state, bus) : error_raise(state, result);
}

static PyObject *unlink_bus(PyObject *module, PyObject *args)
{
  const char *directory, *name;
  int result;
  if (!PyArg_ParseTuple(args, "yy", &directory, &name))
    return NULL;
  Py_BEGIN_ALLOW_THREADS
  result = busq_bus_unlink(directory, name);
  Py_END_ALLOW_THREADS
  return result == BUSQ_OK ? new_ref(Py_None) : error_raise(PyModule_GetState(module), result);
}

/* lost_name(fd): the name that the bus in this file had, None where it was not lost. */
static PyObject *lost_name(PyObject *module, PyObject *descriptor)
{
  char name[256];
  (void)module;
  const long fd = PyLong_AsLong(descriptor);
  if (PyErr_Occurred())
    return NULL;
  if (!busq_file_lost_its_name((int)fd, name))
    Py_RETURN_NONE;
  return PyUnicode_DecodeUTF8(name, (Py_ssize_t)strlen(name), "replace");
}

static PyObject *leave_all(PyObject *module, PyObject *unused)
{
  (void)module;
  (void)unused;
  Py_BEGIN_ALLOW_THREADS
  busq_bus_leave_all();
  Py_END_ALLOW_THREADS
  Py_RETURN_NONE;
}

/* check(result): raises what a result of the core stands for, unless it is OK. */
static PyObject *check(PyObject *module, PyObject *result)
{
  const long code = PyLong_AsLong(result);
  if (code == -1 && PyErr_Occurred())
    return NULL;
  return code == BUSQ_OK ? new_ref(Py_None) : error_raise(PyModule_GetState(module), (int)code);
}

/* error_text(): why the last call of the core in this thread was in vain. */
static PyObject *error_text(PyObject *module, PyObject *unused)
{
  const char *text = busq_error_text();
  (void)module;
  (void)unused;
  return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

/* Seconds as an application gives them, for what Python waits for itself. */
static PyObject *timeout_ns(PyObject *module, PyObject *timeout)
{
  int64_t read_ns;
  (void)module;
  return timeout_read(timeout, &read_ns) ? PyLong_FromLongLong(read_ns) : NULL;
}

PyMethodDef bus_functions[] = {{"create", VARARGS(create), NULL},
                               {"open", VARARGS(open_bus), NULL},
                               {"unlink", VARARGS(unlink_bus), NULL},
                               {"lost_name", ONE_ARG(lost_name), NULL},
                               {"leave_all", NOARGS(leave_all), NULL},
                               {"check", ONE_ARG(check), NULL},
                               {"error_text", NOARGS(error_text), NULL},
                               {"timeout_ns", ONE_ARG(timeout_ns), NULL},
                               {NULL, NULL, 0, NULL}};

/* ---- facts ---- */

static PyObject *text_of(const char *text, size_t bytes)
{
  return PyUnicode_DecodeUTF8(text, (Py_ssize_t)bytes, "replace");
}

static PyObject *bus_facts(Bus *self, PyObject *unused)
{
  busq_bus_facts facts;
  (void)unused;
  const int result = busq_bus_examine(self->bus, &facts);
  if (result != BUSQ_OK)
    return error_raise(self->state, result);
  const size_t bytes = sizeof facts.order;
  size_t n = 0;
  while (n < bytes && facts.order[n])
    n++;
  return Py_BuildValue("{s:N,s:I,s:I,s:I,s:I,s:K,s:K,s:K,s:K,s:d,s:I,s:N,s:N,s:I}", "order", text_of(facts.order, n), "peers", facts.peers,
                       "capacity", facts.capacity, "groups", facts.groups, "nodes", facts.nodes, "arena",
                       (unsigned long long)facts.arena_bytes, "largest",
                       (unsigned long long)facts.payload_bytes_max, "arena_used_bytes", (unsigned long long)facts.arena_used_bytes,
                       "segment_bytes", (unsigned long long)facts.segment_bytes, "created_s", (double)facts.created_ns / 1e9,
                       "creator_pid", facts.creator_pid, "shut_down", PyBool_FromLong(facts.is_shut_down != 0), "temporary",
                       PyBool_FromLong(facts.is_temporary != 0), "permissions", facts.permissions);
}

static const char *const states[] = {[BUSQ_PEER_LIVE] = "live",
                                     [BUSQ_PEER_CLOSING] = "closing",
                                     [BUSQ_PEER_CLOSED] = "closed",
                                     [BUSQ_PEER_UNBURIED] = "dead, unnoticed",
                                     [BUSQ_PEER_GONE] = "dead"};
static const char *const waits[] = {[BUSQ_WAITING_NOT] = NULL,
                                    [BUSQ_WAITING_MESSAGE] = "message",
                                    [BUSQ_WAITING_BLOCKED] = "blocked",
                                    [BUSQ_WAITING_ROOM] = "room",
                                    [BUSQ_WAITING_MEMORY] = "memory"};

/* A number, or None. */
static PyObject *optional(int is_there, uint32_t number)
{
  return is_there ? PyLong_FromUnsignedLong(number) : new_ref(Py_None);
}

static PyObject *dict_of_peer(const busq_peer_facts *facts, unsigned slot)
{
  const int is_for_another = facts->waits == BUSQ_WAITING_BLOCKED || facts->waits == BUSQ_WAITING_ROOM;
  return Py_BuildValue(
      "{s:N,s:N,s:s,s:N,s:N,s:z,s:N,s:d,s:I,s:I,s:I,s:d,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K}", "name", text_of(facts->name, facts->name_bytes),
      "alive", PyBool_FromLong(facts->is_alive != 0), "state", facts->state <= BUSQ_PEER_GONE ? states[facts->state] : "damaged",
      "durable", PyBool_FromLong(facts->is_durable != 0), "consumers", optional(facts->is_shared != 0, facts->consumers), "waits",
      facts->waits <= BUSQ_WAITING_MEMORY ? waits[facts->waits] : NULL, "waits_for_slot", optional(is_for_another, facts->waits_for),
      "waited_s", (double)facts->waited_ns / 1e9, "pid", facts->pid, "slot", slot, "incarnation", facts->incarnation, "joined_s",
      (double)facts->joined_ns / 1e9, "clock", (unsigned long long)facts->clock, "depth", (unsigned long long)facts->depth,
      "growth_bytes", (unsigned long long)facts->growth_bytes, "sent",
      (unsigned long long)facts->sent, "received", (unsigned long long)facts->received, "late", (unsigned long long)facts->late,
      "helped", (unsigned long long)facts->helped, "memory_bytes", (unsigned long long)facts->memory_bytes);
}

/* peers(): those that are remembered, but for readers of shared queues, which have their number. */
static PyObject *bus_peers(Bus *self, PyObject *Py_UNUSED(none))
{
  busq_bus_facts bus;
  (void)busq_bus_examine(self->bus, &bus);
  busq_peer_facts *facts = PyMem_Malloc(bus.peers * sizeof *facts);
  PyObject *peers = facts ? PyList_New(0) : PyErr_NoMemory();
  if (facts)
    busq_bus_examine_peers(self->bus, facts);
  for (unsigned slot = 0; peers && slot < bus.peers; slot++) {
    if (!facts[slot].name_bytes || facts[slot].is_consumer)
      continue;
    PyObject *peer = dict_of_peer(&facts[slot], slot);
    if (!peer || PyList_Append(peers, peer) < 0)
      Py_CLEAR(peers);
    Py_XDECREF(peer);
  }
  PyMem_Free(facts);
  return peers;
}

/* A number about the queue of a target; None where the target is another's by now. */
static PyObject *number_of_queue(Bus *self, PyObject *number, int (*look)(busq_bus *bus, uint64_t target, uint64_t *foundp))
{
  uint64_t found = 0;
  const unsigned long long target = PyLong_AsUnsignedLongLong(number);
  if (PyErr_Occurred())
    return NULL;
  return look(self->bus, target, &found) == BUSQ_OK ? PyLong_FromUnsignedLongLong(found) : new_ref(Py_None);
}

/* depth(target): how many places are taken. */
static PyObject *bus_depth(Bus *self, PyObject *number)
{
  return number_of_queue(self, number, busq_bus_depth);
}

/* passed(target): how many places were given back so far. */
static PyObject *bus_passed(Bus *self, PyObject *number)
{
  return number_of_queue(self, number, busq_bus_passed);
}

/* is_short(target): it can hold no more, for want of memory; None where the target is another's by now. */
static PyObject *bus_is_short(Bus *self, PyObject *number)
{
  int is_short = 0;
  const unsigned long long target = PyLong_AsUnsignedLongLong(number);
  if (PyErr_Occurred())
    return NULL;
  return busq_bus_is_short(self->bus, target, &is_short) == BUSQ_OK ? PyBool_FromLong(is_short) : new_ref(Py_None);
}

/* dead(targets): those whose peers have closed or died. */
static PyObject *bus_dead(Bus *self, PyObject *targets)
{
  PyObject *dead = PyList_New(0), *iterator = dead ? PyObject_GetIter(targets) : NULL, *number;
  while (iterator && (number = PyIter_Next(iterator))) {
    const unsigned long long target = PyLong_AsUnsignedLongLong(number);
    if (!PyErr_Occurred() && !busq_bus_is_live(self->bus, target))
      (void)PyList_Append(dead, number);
    Py_DECREF(number);
    if (PyErr_Occurred())
      break;
  }
  Py_XDECREF(iterator);
  if (PyErr_Occurred())
    Py_CLEAR(dead);
  return dead;
}

/* name_at(target): the name of the peer that has it, or None. */
static PyObject *bus_name_at(Bus *self, PyObject *number)
{
  busq_peer_facts facts;
  const unsigned long long target = PyLong_AsUnsignedLongLong(number);
  if (PyErr_Occurred())
    return NULL;
  if (busq_bus_examine_peer(self->bus, (uint32_t)(target & 0xFFFF), &facts) != BUSQ_OK || facts.target != target)
    Py_RETURN_NONE;
  return text_of(facts.name, facts.name_bytes);
}

/* count(target): messages that wait, and those that are not done with; None where the target is another's by now. */
static PyObject *bus_count(Bus *self, PyObject *number)
{
  uint64_t waiting, unfinished;
  const unsigned long long target = PyLong_AsUnsignedLongLong(number);
  if (PyErr_Occurred())
    return NULL;
  const int result = busq_bus_count(self->bus, target, &waiting, &unfinished);
  if (result == BUSQ_PEER_DEAD)
    Py_RETURN_NONE;
  return result == BUSQ_OK ? Py_BuildValue("(KK)", (unsigned long long)waiting, (unsigned long long)unfinished)
                           : error_raise(self->state, result);
}

/* peek(target, cursor, room): the next message that waits there, as (cursor, timestamp, sequence, sender, form,
 * is_redelivered, size, data); None where there is no more. */
static PyObject *bus_peek(Bus *self, PyObject *args)
{
  unsigned long long target, begin;
  Py_ssize_t room;
  busq_peeked peeked;
  if (!PyArg_ParseTuple(args, "KKn", &target, &begin, &room))
    return NULL;
  char *data = malloc((size_t)room + 1);
  if (!data)
    return PyErr_NoMemory();
  uint64_t cursor = begin;
  const int result = busq_bus_peek(self->bus, target, &cursor, &peeked, data, (size_t)room);
  PyObject *found = NULL;
  if (result == BUSQ_OK) {
    const uint64_t copied = peeked.size_bytes < (uint64_t)room ? peeked.size_bytes : (uint64_t)room;
    found = Py_BuildValue("(KKKNINKy#)", (unsigned long long)cursor, (unsigned long long)peeked.timestamp,
                          (unsigned long long)peeked.sequence, text_of(peeked.sender, peeked.sender_bytes), peeked.form,
                          PyBool_FromLong(peeked.is_redelivered != 0), (unsigned long long)peeked.size_bytes, data,
                          (Py_ssize_t)copied);
  }
  free(data);
  if (result == BUSQ_OK)
    return found;
  if (result == BUSQ_EMPTY || result == BUSQ_PEER_DEAD)
    Py_RETURN_NONE;
  return error_raise(self->state, result);
}

/* tally(key): how much all processes keep that found no room. */
static PyObject *bus_tally(Bus *self, PyObject *number)
{
  const unsigned long long key = PyLong_AsUnsignedLongLong(number);
  return PyErr_Occurred() ? NULL : PyLong_FromUnsignedLongLong(busq_bus_tally(self->bus, key));
}

/* end_queue(target, drops): the errors of a target that is another queue's by now are those of the core. */
static PyObject *bus_end_queue(Bus *self, PyObject *args)
{
  unsigned long long target;
  int drops;
  if (!PyArg_ParseTuple(args, "Kp", &target, &drops))
    return NULL;
  const int result = busq_bus_end_queue(self->bus, target, drops);
  return result == BUSQ_OK ? new_ref(Py_None) : error_raise(self->state, result);
}

/* queue_end(target): 0 while it is open, 1 where it has ended, 2 where it was dropped; None where it is another queue by now. */
static PyObject *bus_queue_end(Bus *self, PyObject *number)
{
  const unsigned long long target = PyLong_AsUnsignedLongLong(number);
  busq_queue_end end;
  if (PyErr_Occurred())
    return NULL;
  return busq_bus_queue_end(self->bus, target, &end) == BUSQ_OK ? PyLong_FromLong((long)end) : new_ref(Py_None);
}

/* ahead(target): the word that counts messages which were reported as done without being taken; swap_ahead(target, seen, ahead):
 * whether it was the one that was seen. */
static PyObject *bus_ahead(Bus *self, PyObject *number)
{
  const unsigned long long target = PyLong_AsUnsignedLongLong(number);
  return PyErr_Occurred() ? NULL : PyLong_FromUnsignedLongLong(busq_bus_ahead(self->bus, target));
}

static PyObject *bus_swap_ahead(Bus *self, PyObject *args)
{
  unsigned long long target, seen;
  unsigned ahead;
  if (!PyArg_ParseTuple(args, "KKI", &target, &seen, &ahead))
    return NULL;
  return PyBool_FromLong(busq_bus_swap_ahead(self->bus, target, seen, ahead));
}

/* handed(name, change): how often a queue was handed on and not opened, after the change. */
static PyObject *bus_handed(Bus *self, PyObject *args)
{
  const char *name;
  Py_ssize_t bytes;
  int change;
  if (!PyArg_ParseTuple(args, "s#i", &name, &bytes, &change))
    return NULL;
  return PyLong_FromUnsignedLongLong(busq_bus_handed(self->bus, name, (size_t)bytes, change));
}

static PyObject *bus_taken(Bus *self, PyObject *unused)
{
  (void)unused;
  return PyLong_FromUnsignedLong(busq_bus_taken(self->bus));
}

/* readers(name): a result of the core; how many live processes read its queue, and whether they share it. */
static PyObject *bus_readers(Bus *self, PyObject *args)
{
  const char *name;
  Py_ssize_t bytes;
  uint32_t count = 0, is_shared = 0;
  if (!PyArg_ParseTuple(args, "y#", &name, &bytes))
    return NULL;
  const int result = busq_bus_readers(self->bus, name, (size_t)bytes, &count, &is_shared);
  return Py_BuildValue("(iIN)", result, count, PyBool_FromLong(is_shared != 0));
}

static PyObject *bus_lost_its_name(Bus *self, PyObject *unused)
{
  (void)unused;
  return PyBool_FromLong(busq_bus_lost_its_name(self->bus));
}

static PyObject *bus_is_shut_down(Bus *self, PyObject *unused)
{
  (void)unused;
  return PyBool_FromLong(busq_bus_is_shut_down(self->bus));
}

static PyObject *bus_generation(Bus *self, PyObject *unused)
{
  uint8_t generation[16];
  (void)unused;
  busq_bus_generation(self->bus, generation);
  return PyBytes_FromStringAndSize((const char *)generation, sizeof generation);
}

/* ---- groups ---- */

static PyObject *tuple_of(const uint64_t *numbers, uint32_t count)
{
  PyObject *tuple = PyTuple_New((Py_ssize_t)count);
  for (uint32_t i = 0; tuple && i < count; i++)
    PyTuple_SetItem(tuple, (Py_ssize_t)i, PyLong_FromUnsignedLongLong(numbers[i]));
  return tuple;
}

/* view(group): its number, the targets of its members, and their lives (message_life). */
static PyObject *bus_view(Bus *self, PyObject *args)
{
  const char *name;
  Py_ssize_t bytes;
  busq_bus_facts facts;
  uint64_t number;
  uint32_t count = 0;
  if (!PyArg_ParseTuple(args, "y#", &name, &bytes))
    return NULL;
  int result = busq_bus_examine(self->bus, &facts);
  if (result != BUSQ_OK)
    return error_raise(self->state, result);
  uint64_t *members = PyMem_Malloc(2 * (size_t)facts.peers * sizeof *members);
  uint32_t *lives = PyMem_Malloc((size_t)facts.peers * sizeof *lives);
  PyObject *view = NULL;
  if (!members || !lives) {
    PyErr_NoMemory();
  } else {
    result = busq_bus_view(self->bus, name, (size_t)bytes, &number, members, &count);
    if (result == BUSQ_OK)
      result = busq_bus_view_lives(self->bus, name, (size_t)bytes, members, count, lives);
    PyObject *targets = result == BUSQ_OK ? tuple_of(members, count) : error_raise(self->state, result);
    for (uint32_t i = 0; targets && i < count; i++)
      members[i] = message_life(lives[i], (uint16_t)members[i]);
    view = targets ? Py_BuildValue("(KNN)", (unsigned long long)number, targets, tuple_of(members, count)) : NULL;
  }
  PyMem_Free(members);
  PyMem_Free(lives);
  return view;
}

/* group_name(index): with its "@", as bytes; None where the entry is not a group's. */
static PyObject *bus_group_name(Bus *self, PyObject *index)
{
  char name[257];
  size_t bytes;
  const unsigned long at = PyLong_AsUnsignedLong(index);
  if (PyErr_Occurred())
    return NULL;
  if (busq_bus_group_name(self->bus, (uint32_t)at, name, &bytes) != BUSQ_OK || name[0] != '@')
    Py_RETURN_NONE;
  return PyBytes_FromStringAndSize(name, (Py_ssize_t)bytes);
}

static PyObject *bus_group_seen(Bus *self, PyObject *args)
{
  unsigned index, slot;
  uint64_t number;
  if (!PyArg_ParseTuple(args, "II", &index, &slot))
    return NULL;
  const int result = busq_bus_group_seen(self->bus, index, slot, &number);
  return result == BUSQ_OK ? PyLong_FromUnsignedLongLong(number) : error_raise(self->state, result);
}

/* ---- changes ---- */

static PyObject *bus_remove(Bus *self, PyObject *args)
{
  const char *name;
  Py_ssize_t bytes;
  int result;
  if (!PyArg_ParseTuple(args, "y#", &name, &bytes))
    return NULL;
  Py_BEGIN_ALLOW_THREADS
  result = busq_bus_remove_peer(self->bus, name, (size_t)bytes);
  Py_END_ALLOW_THREADS
  return result == BUSQ_OK ? new_ref(Py_None) : error_raise(self->state, result);
}

static PyObject *bus_repair(Bus *self, PyObject *unused)
{
  uint32_t buried, helped;
  int result;
  (void)unused;
  Py_BEGIN_ALLOW_THREADS
  result = busq_bus_repair(self->bus, &buried, &helped);
  Py_END_ALLOW_THREADS
  return result == BUSQ_OK ? Py_BuildValue("(II)", buried, helped) : error_raise(self->state, result);
}

static PyObject *bus_collect(Bus *self, PyObject *unused)
{
  uint64_t dropped;
  int result;
  (void)unused;
  Py_BEGIN_ALLOW_THREADS
  result = busq_bus_collect(self->bus, &dropped);
  Py_END_ALLOW_THREADS
  return result == BUSQ_OK ? PyLong_FromUnsignedLongLong(dropped) : error_raise(self->state, result);
}

static PyObject *bus_expect_another_user(Bus *self, PyObject *unused)
{
  (void)unused;
  busq_bus_expect_another_user(self->bus);
  Py_RETURN_NONE;
}

static PyObject *bus_shutdown(Bus *self, PyObject *unused)
{
  int result;
  (void)unused;
  Py_BEGIN_ALLOW_THREADS
  result = busq_bus_shutdown(self->bus);
  Py_END_ALLOW_THREADS
  return result == BUSQ_OK ? new_ref(Py_None) : error_raise(self->state, result);
}

/* ---- the type ---- */

/* For those that call the core by another way: valid while the object lives. */
static PyObject *bus_get_address(Bus *self, void *closure)
{
  (void)closure;
  return PyLong_FromVoidPtr(self->bus);
}

static PyMethodDef bus_methods[] = {{"facts", NOARGS(bus_facts), NULL},
                                    {"peers", NOARGS(bus_peers), NULL},
                                    {"depth", ONE_ARG(bus_depth), NULL},
                                    {"passed", ONE_ARG(bus_passed), NULL},
                                    {"is_short", ONE_ARG(bus_is_short), NULL},
                                    {"dead", ONE_ARG(bus_dead), NULL},
                                    {"name_at", ONE_ARG(bus_name_at), NULL},
                                    {"count", ONE_ARG(bus_count), NULL},
                                    {"peek", VARARGS(bus_peek), NULL},
                                    {"tally", ONE_ARG(bus_tally), NULL},
                                    {"ahead", ONE_ARG(bus_ahead), NULL},
                                    {"swap_ahead", VARARGS(bus_swap_ahead), NULL},
                                    {"handed", VARARGS(bus_handed), NULL},
                                    {"end_queue", VARARGS(bus_end_queue), NULL},
                                    {"queue_end", ONE_ARG(bus_queue_end), NULL},
                                    {"taken", NOARGS(bus_taken), NULL},
                                    {"readers", VARARGS(bus_readers), NULL},
                                    {"is_shut_down", NOARGS(bus_is_shut_down), NULL},
                                    {"lost_its_name", NOARGS(bus_lost_its_name), NULL},
                                    {"generation", NOARGS(bus_generation), NULL},
                                    {"view", VARARGS(bus_view), NULL},
                                    {"group_name", ONE_ARG(bus_group_name), NULL},
                                    {"group_seen", VARARGS(bus_group_seen), NULL},
                                    {"remove", VARARGS(bus_remove), NULL},
                                    {"repair", NOARGS(bus_repair), NULL},
                                    {"collect", NOARGS(bus_collect), NULL},
                                    {"expect_another_user", NOARGS(bus_expect_another_user), NULL},
                                    {"shutdown", NOARGS(bus_shutdown), NULL},
                                    {NULL, NULL, 0, NULL}};

static PyGetSetDef bus_getset[] = {{"address", (getter)bus_get_address, NULL, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot bus_slots[] = {{Py_tp_doc, "A bus that is open."},
                                  {Py_tp_dealloc, (void *)bus_dealloc},
                                  {Py_tp_methods, bus_methods},
                                  {Py_tp_getset, bus_getset},
                                  {0, NULL}};

PyType_Spec bus_spec = {"busq._native._core.Bus", sizeof(Bus), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, bus_slots};
