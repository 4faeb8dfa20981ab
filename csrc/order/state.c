/* SPDX-License-Identifier: Apache-2.0 */
/* The states of orders: their size, their beginning, and whether they are sound, as far as their orders have it
 * alike. */
#include "order/order.h"
#include "queue/holdback.h"
#include "queue/outbox.h"

enum { BUFFERS = sizeof((busq_order *)0)->buffers / sizeof(busq_order_buffer) };

static size_t head_size(const busq_order *order, const busq_order_group *group)
{
  if (order->head_size)
    return order->head_size(group);
  return order->head_bytes ? order->head_bytes : sizeof *group;
}

static uint32_t room_of(const busq_order_buffer *buffer, const busq_order_group *group)
{
  return (buffer->own ? group->waiting_max : 0) + (buffer->others ? group->held_max : 0) +
         (buffer->processes ? group->n_processes : 0) + (uint32_t)buffer->more;
}

/* Those that are only there under an option come last. */
static bool has_buffer(const busq_order *order, uint32_t place, const busq_order_group *group)
{
  const busq_order_buffer *buffer = &order->buffers[place];
  return buffer->kind && (!buffer->to_go_on || group->options & BUSQ_OPTION_GO_ON);
}

static size_t size_of(const busq_order_buffer *buffer, uint32_t room)
{
  return buffer->kind == BUSQ_OUTBOX ? busq_outbox_size(room) : busq_holdback_size(room);
}

size_t busq_order_state_size(const busq_order *order, const busq_order_group *group)
{
  size_t bytes = head_size(order, group);
  for (uint32_t i = 0; i < BUFFERS && has_buffer(order, i, group); i++)
    bytes += size_of(&order->buffers[i], room_of(&order->buffers[i], group));
  return bytes;
}

void busq_order_init(const busq_order *order, void *state, const busq_order_group *group)
{
  char *at = (char *)state + head_size(order, group);
  *(busq_order_group *)state = *group;
  for (uint32_t i = 0; i < BUFFERS && has_buffer(order, i, group); i++) {
    const uint32_t room = room_of(&order->buffers[i], group);
    if (order->buffers[i].kind == BUSQ_OUTBOX)
      busq_outbox_init((busq_outbox *)(void *)at, room);
    else
      busq_holdback_init((busq_holdback *)(void *)at, room);
    at += size_of(&order->buffers[i], room);
  }
  if (order->init)
    order->init(state);
}

bool busq_order_verify(const busq_order *order, const void *state)
{
  const busq_order_group *group = (const busq_order_group *)state;
  const char *at = (const char *)state + head_size(order, group);
  if (group->self >= group->n_processes)
    return false;
  for (uint32_t i = 0; i < BUFFERS && has_buffer(order, i, group); i++) {
    const uint32_t room = room_of(&order->buffers[i], group);
    if (order->buffers[i].kind == BUSQ_OUTBOX ? !busq_outbox_verify((const busq_outbox *)(const void *)at, room)
                                              : !busq_holdback_verify((const busq_holdback *)(const void *)at, room))
      return false;
    at += size_of(&order->buffers[i], room);
  }
  return !order->verify || order->verify(state);
}
