/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many executions a search without states would have to make: the number of traces of an order, counted.
 *
 *     traces ORDER [NAME=VALUE...]
 *
 *     processes=3  messages=1  fan_out=1  to_all=0  fifo=0  crashes=0  memory_mib=4096
 *
 * A trace is what is common to executions that differ only in the order of moves of different processes.  Dynamic partial-order
 * reduction makes at least one execution of each trace; an optimal one makes no more, and shares what they have in common at their
 * beginnings, so its steps are the nodes of a tree with a leaf for each trace.
 *
 * Prints one line of JSON: states and moves without any reduction; traces; steps of the tree; pairs of a state and a sleep set, which are
 * the states of a search that has both; moves of such a search; the longest execution.  Counts beyond 2^53 are rounded.  Moves of different processes that do not commute, where
 * one is tried behind the other, are an error.  Ends with 2 where memory does not suffice, or executions go in circles.
 */
#include "harness/traces.h"
#include <inttypes.h>

/* ---- arguments ---- */

static uint32_t number_of(const char *text)
{
  char *end;
  const unsigned long number = strtoul(text, &end, 10);
  if (!*text || *end || number > UINT32_MAX)
    fail("expected a number", text);
  return (uint32_t)number;
}

static void read_argument(busq_model_config *config, uint32_t *to_allp, uint32_t *memory_mibp, const char *name, const char *value)
{
  const struct {
    const char *name;
    uint32_t *number;
  } numbers[] = {{"processes", &config->n_processes}, {"messages", &config->n_messages},  {"fan_out", &config->fan_out_max},
                 {"fifo", &config->channels},         {"crashes", &config->crashes_max}, {"to_all", to_allp},
                 {"memory_mib", memory_mibp}};
  size_t place = 0;
  while (place < sizeof numbers / sizeof *numbers && strcmp(name, numbers[place].name) != 0)
    place++;
  if (place == sizeof numbers / sizeof *numbers)
    fail("there is no such argument", name);
  *numbers[place].number = number_of(value);
}

static void send_to_all(busq_model_config *config)
{
  static uint32_t destinations[BUSQ_MODEL_MESSAGES_MAX];
  if (config->n_processes > BUSQ_MODEL_PROCESSES_MAX || config->n_processes * config->n_messages > BUSQ_MODEL_MESSAGES_MAX)
    fail("expected less", "processes and messages");
  for (uint32_t index = 0; index < config->n_processes * config->n_messages; index++)
    destinations[index] = ((1u << config->n_processes) - 1) & ~(1u << index / config->n_messages);
  config->fan_out_max = config->n_processes - 1;
  config->destinations = destinations;
}

int main(int n_arguments, char **arguments)
{
  busq_model_config config = {.n_processes = 3, .n_messages = 1, .fan_out_max = 1};
  uint32_t is_to_all = 0, memory_mib = 4096;
  if (n_arguments < 2)
    fail("expected ORDER [NAME=VALUE...]", "usage");
  config.order = busq_order_parse(arguments[1], &config.options);
  if (!config.order)
    fail(busq_error_text(), arguments[1]);
  for (int place = 2; place < n_arguments; place++) {
    char *value = strchr(arguments[place], '=');
    if (!value)
      fail("expected NAME=VALUE", arguments[place]);
    *value = 0;
    read_argument(&config, &is_to_all, &memory_mib, arguments[place], value + 1);
  }
  if (is_to_all)
    send_to_all(&config);
  const known all = traces_count(&config, (uint64_t)memory_mib << 20);
  printf("{\"order\": \"%s\", \"states\": %" PRIu64 ", \"moves\": %" PRIu64 ", \"traces\": %.0f, \"steps\": %.0f, ", arguments[1],
         counts.states, counts.moves, all.traces, all.steps);
  printf("\"pairs\": %" PRIu64 ", \"pair_moves\": %" PRIu64 ", \"longest\": %u}\n", counts.pairs, counts.pair_moves, counts.longest);
  return 0;
}
