/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_PYTHON_MESSAGE_H
#define BUSQ_PYTHON_MESSAGE_H
/*
 * The one type of message: what was sent to a peer, to a node or to a group, bytes or object, asked or not; an event; a word of the
 * library; a message of another order.
 *
 * Guarantee: `data` is what was sent, `view` shows it without a copy, and whatever holds memory of the bus gives it back with the last
 * that looks.  Threads that use a message at once see each of its changes as one step.
 *
 * Mechanism: payloads up to COPY_BYTES_MAX, and all replies, are copied when they are received; others stay in place until they are read.
 * What is in place is held by the message or, once there is a view, by the view's pin.  One that waits to be acknowledged is held by its place in
 * the queue until then; afterwards by its views, or, where it was not looked at, by the message.  Events are instances of subclasses
 * that add no field (busq/groups.py).
 *
 * Not given: pickling, comparing.
 */
#include "python/pin.h"

enum {
  COPY_BYTES_MAX = 4096
};

/* What only some messages have: all that are not bytes, of a few kilobytes, from one peer to another. */
typedef struct {
  busq_message pinned; /* as it was found, for as long as it waits to be released or acknowledged, if it does */
  busq_request request;
  uint64_t multicast;  /* of another order: the name of the send that it comes from */
  PyObject *handles;   /* tuple, or NULL: none */
  PyObject *codec;     /* of an object, that of the peer; or NULL */
  PyObject *event;     /* the busq.View of a view; or NULL */
  PyObject *group;     /* its name, of a view; or NULL */
  PeerOwner *replier;  /* that received it, where it was asked; or NULL */
  PyObject *wide;      /* bytes: the tail of a message of a wide group, up to its busq_wide; or NULL */
  Pin *pin;            /* of the views of one that waited to be acknowledged when the first was made; or NULL */
} message_more;

typedef struct {
  PyObject_HEAD
  busq_state *state;
  PyObject *data;   /* bytes, or NULL while the payload is still in place */
  PyObject *sender; /* str */
  PyObject *view;
  PyObject *node;   /* that it was sent to, or that an event is about; or NULL */
  PeerOwner *peer_owner;   /* keeps the peer while the payload is in place, or while it waits to be acknowledged */
  message_more *more; /* behind the message or by itself, or NULL */
  busq_peer *peer;
  uint64_t life; /* of its sender, or of the peer that an event is about: which of its slot's (message_life); 0: not known */
  uint64_t size;
  uint16_t form;
  uint16_t group_number; /* that it was sent to: 1 + its index; 0: none */
  uint8_t kind;          /* a message_kind */
  uint8_t is_offered;    /* not acknowledged so far */
  uint8_t is_redelivered;
  uint8_t is_replied;
  uint8_t comes_back;    /* at once, if it is dropped without having been acknowledged */
  uint8_t is_derived;    /* of a subclass, whose objects Python allocates */
  uint8_t is_unfinished; /* nodes, handles or an event: what Python objects they are is found out once the queue is left */
} Message;

/* A number that no other process on the bus has: which of those that have joined with a slot, and the slot. */
static inline uint64_t message_life(uint32_t life, uint16_t slot)
{
  return (uint64_t)life << 16 | slot;
}

/* A message, with room for what only some have or not; the rest is up to the caller.  It collects no garbage, and so runs no Python
 * code. */
Message *message_new(busq_state *state, busq_peer *peer, int has_more);
/* Gives it room for what only some have; false with an exception. */
int message_need_more(Message *self);
/* An instance of a subclass that has all that a message had, which has nothing from then on; NULL with an exception. */
Message *message_move(Message *message, PyObject *type);
/* Lets go of a message that was taken and not handed over: it comes next, as if it had not been taken. */
void message_give_back(Message *self);

#endif /* BUSQ_PYTHON_MESSAGE_H */
