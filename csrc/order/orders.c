/* SPDX-License-Identifier: Apache-2.0 */
/* The table of all orders, and finding one by what people write. */
#include "base/error.h"
#include "order/order.h"
#include <stdio.h>
#include <string.h>

const busq_order *const busq_orders[] = {
    &busq_order_none,
    &busq_order_fifo,
    &busq_order_fifo_ack,
    &busq_order_causal_vector,
    &busq_order_prc,
    &busq_order_causal_matrix,
    &busq_order_ses,
    &busq_order_ks,
    &busq_order_mfss,
    &busq_order_cykas,
    &busq_order_cykas_telling,
    &busq_order_sync,
    &busq_order_sync_naive,
    &busq_order_sequencer,
    &busq_order_token,
    &busq_order_lamport,
    &busq_order_lamport_literal,
    &busq_order_abcast,
    &busq_order_skeen,
    &busq_order_wbam,
    &busq_order_bus1,
    NULL,
};

const busq_order_option_name busq_order_may_go_on[] = {{"on_crash=go-on", BUSQ_OPTION_GO_ON, true}, {NULL, 0, false}};

static const busq_order *find(const char *name, size_t bytes)
{
  for (const busq_order *const *order = busq_orders; *order; order++)
    if (strlen((*order)->name) == bytes && memcmp((*order)->name, name, bytes) == 0)
      return *order;
  return NULL;
}

static void list_orders(char *text, size_t size)
{
  size_t used = 0;
  for (const busq_order *const *order = busq_orders; *order && used < size; order++)
    used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", (*order)->name);
}

static void list_options(const busq_order *order, char *text, size_t size)
{
  size_t used = (size_t)snprintf(text, size, "%s", order->options ? "" : "none");
  for (const busq_order_option_name *option = order->options; option && option->name && used < size; option++)
    used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", option->name);
}

static uint32_t option_of(const busq_order *order, const char *name, size_t bytes)
{
  for (const busq_order_option_name *option = order->options; option && option->name; option++)
    if (strlen(option->name) == bytes && memcmp(option->name, name, bytes) == 0)
      return option->option;
  return 0;
}

const busq_order *busq_order_parse(const char *text, uint32_t *optionsp)
{
  char known[512];
  const size_t bytes = strcspn(text, ":");
  const busq_order *order = find(text, bytes);
  if (!order) {
    list_orders(known, sizeof known);
    busq_error(BUSQ_INVALID, "order '%s': expected one of %s", text, known);
    return NULL;
  }
  uint32_t options = 0;
  for (const char *rest = text + bytes; *rest;) {
    rest++;
    const size_t length = strcspn(rest, ",");
    const uint32_t option = option_of(order, rest, length);
    if (!option) {
      list_options(order, known, sizeof known);
      busq_error(BUSQ_INVALID, "option '%.*s' of order %s: expected %s", (int)length, rest, order->name, known);
      return NULL;
    }
    options |= option;
    rest += length;
  }
  *optionsp = options;
  return order;
}

/* ---- for callers that know orders by number ---- */

static const busq_order *numbered(uint32_t number)
{
  const uint32_t n_orders = sizeof busq_orders / sizeof busq_orders[0] - 1;
  return number < n_orders ? busq_orders[number] : NULL;
}

int busq_order_examine(uint32_t number, busq_order_facts *facts)
{
  const busq_order *order = numbered(number);
  if (!order)
    return BUSQ_EMPTY;
  *facts = (busq_order_facts){
      .name = order->name,
      .promise = order->promise,
      .source = order->source,
      .claims = order->claims,
      .traits = order->traits,
      .clock = order->clock,
      .n_kinds = order->n_kinds,
      .crashes = order->crashes,
      .crashes_go_on = order->crashes_go_on,
      .crashes_majority = order->crashes_majority,
  };
  return BUSQ_OK;
}

int busq_order_check_in_flight(uint32_t options, uint64_t n_messages)
{
  const uint64_t most = options & BUSQ_OPTION_SAFE ? (UINT64_C(1) << BUSQ_ORDER_SAFE_BITS) - 1 : UINT64_MAX;
  if (n_messages <= most)
    return BUSQ_OK;
  return busq_error(BUSQ_INVALID,
                    "token:delivery=safe, and %llu messages that may be in flight: a token has room for %llu; use fewer "
                    "processes or messages, or a smaller capacity",
                    (unsigned long long)n_messages, (unsigned long long)most);
}

const char *busq_order_kind_name(uint32_t number, uint32_t kind)
{
  const busq_order *order = numbered(number);
  return order && kind < order->n_kinds ? order->kinds[kind].name : NULL;
}

int busq_order_kind_has_payload(uint32_t number, uint32_t kind)
{
  const busq_order *order = numbered(number);
  return order && kind < order->n_kinds && order->kinds[kind].has_payload;
}

const char *busq_order_option_text(uint32_t number, uint32_t place)
{
  const busq_order *order = numbered(number);
  const busq_order_option_name *option = order ? order->options : NULL;
  for (; option && option->name; option++)
    if (!option->is_experiment && !place--)
      return option->name;
  return NULL;
}

uint32_t busq_order_replicas_of(uint32_t number, uint32_t options)
{
  const busq_order *order = numbered(number);
  return order && order->traits & BUSQ_ORDER_REPLICATED ? busq_order_replicas(options) : 0;
}

int busq_order_read(const char *text, uint32_t *numberp, uint32_t *optionsp)
{
  const busq_order *order = busq_order_parse(text, optionsp);
  if (!order)
    return BUSQ_INVALID;
  *numberp = 0;
  while (busq_orders[*numberp] != order)
    ++*numberp;
  return BUSQ_OK;
}
