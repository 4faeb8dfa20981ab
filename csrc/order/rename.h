/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_ORDER_RENAME_H
#define BUSQ_ORDER_RENAME_H
/*
 * Renaming processes in what states are made of (busq_order.rename).
 *
 * Guarantee: entries keep their places in an output buffer, and in a hold-back buffer come to stand where their new
 * keys belong.  What is not in use stays zero.  So a group that had been called so from the start would have the same
 * bytes.
 *
 * Mechanism: a state is copied as it is, then names are put right in the copy, in the entries in use only.
 */
#include "order/order.h"
#include "queue/holdback.h"
#include "queue/outbox.h"

static inline uint64_t busq_rename_message(uint64_t message, const uint32_t *names)
{
  return busq_message_name(names[busq_message_origin(message)], busq_message_number(message));
}

/* The whole state, and in it the name of the process itself. */
static inline void busq_rename_begin(const void *from, void *to, size_t bytes, const uint32_t *names)
{
  busq_order_group *group = to;
  memcpy(to, from, bytes);
  group->self = names[group->self];
  group->suspected = 0;
  for (uint32_t rest = ((const busq_order_group *)from)->suspected; rest; rest &= rest - 1)
    group->suspected |= 1u << names[__builtin_ctz(rest)];
}

/* An output buffer in which `to` is a process. */
static inline void busq_rename_outbox(busq_outbox *outbox, const uint32_t *names)
{
  for (uint32_t place = 0; place < outbox->count; place++) {
    busq_outbox_entry *entry = busq_outbox_at(outbox, place);
    entry->message = busq_rename_message(entry->message, names);
    entry->to = names[entry->to];
  }
}

/* An array with a word for every process. */
static inline void busq_rename_words(const uint32_t *from, uint32_t *to, uint32_t n_processes, const uint32_t *names)
{
  for (uint32_t process = 0; process < n_processes; process++)
    to[names[process]] = from[process];
}

typedef void busq_rename_held_entry(busq_held_entry *entry, const uint32_t *names);

/* `rename` puts an entry's names right, key included. */
static inline void busq_rename_held(busq_holdback *held, const uint32_t *names, busq_rename_held_entry *rename)
{
  for (uint32_t place = 0; place < held->count; place++) {
    busq_held_entry *at = busq_holdback_at(held, place);
    busq_held_entry entry = *at;
    rename(&entry, names);
    for (uint32_t before = place; before > 0 && busq_held_less(&entry, at[-1].key, at[-1].message); before--, at--)
      *at = at[-1];
    *at = entry;
  }
}

/* Renames an entry of a causal buffer (queue/causal_buffer.h) whose key is its sender above 33 bits of the order's
 * own.  Where several processes block a message, the entry names the one with the smallest number, and so another
 * one than a group of these names would have named.  It is as good: all of them have to be waited for. */
static inline void busq_rename_blocked(busq_held_entry *entry, const uint32_t *names)
{
  entry->key = (uint64_t)names[entry->from] << 33 | (entry->key & UINT64_C(0x1ffffffff));
  entry->message = busq_rename_message(entry->message, names);
  entry->from = names[entry->from];
  entry->note = entry->note ? names[entry->note - 1] + 1 : 0;
}

#endif /* BUSQ_ORDER_RENAME_H */
