/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One search for faults of one order, printed as one line of JSON.
 *
 *     check_order ORDER [NAME=VALUE...]
 *
 *     processes=3  messages=1  fan_out=1  to_all=0  with_self=0  fifo=0  doubled=0  lost=0  crashes=0
 *     behaviour=free|reply|job|side  search=depth|breadth  counts_moves=0  walks=0  reductions=SET  judged=NAME,NAME...  memory_mib=256
 *
 * With walks that many random executions are tried, and nothing is searched.
 *
 * With to_all every message goes to all that it may go to, instead of to every choice of at most fan_out.
 *
 * The search ends at the first violation of a property that is judged; if none are given, of one that the order claims
 * or that every order owes.  Ends with 0 where a search was made, whatever it has found, and with 2 where there was
 * none.
 *
 * It is linked once for each mutant (tests/orders/mutants): the table of orders finds the mutant's object before the
 * core's own.
 */
#include "busq_lab.h"
#include "order/order.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *name;
  uint32_t bit;
  uint32_t claim; /* 0: every order owes it */
} properties[] = {
    {"lost", BUSQ_PROPERTY_LOST, 0},
    {"duplicated", BUSQ_PROPERTY_DUPLICATED, 0},
    {"phantom", BUSQ_PROPERTY_PHANTOM, 0},
    {"fifo", BUSQ_PROPERTY_FIFO, BUSQ_CLAIMS_FIFO},
    {"causal", BUSQ_PROPERTY_CAUSAL, BUSQ_CLAIMS_CAUSAL},
    {"consistent", BUSQ_PROPERTY_CONSISTENT, BUSQ_CLAIMS_CONSISTENT},
    {"total", BUSQ_PROPERTY_TOTAL, BUSQ_CLAIMS_TOTAL},
    {"synchronous", BUSQ_PROPERTY_SYNCHRONOUS, BUSQ_CLAIMS_SYNCHRONOUS},
    {"stuck", BUSQ_CHECK_STUCK, 0},
    {"genuine", BUSQ_CHECK_GENUINE, 0},
    {"buffers", BUSQ_CHECK_BUFFERS, 0},
    {"refused", BUSQ_CHECK_REFUSED, 0},
    {"invariant", BUSQ_CHECK_INVARIANT, 0},
    {"endless", BUSQ_CHECK_ENDLESS, 0},
    {"kept", BUSQ_CHECK_KEPT, 0},
    {"side", BUSQ_CHECK_SIDE, 0},
    {"agreement", BUSQ_CHECK_AGREEMENT, 0},
    {"uniform", BUSQ_CHECK_UNIFORM, 0},
    {"node", BUSQ_CHECK_NODE, 0},
    {"handle", BUSQ_CHECK_HANDLE, 0},
};
enum { N_PROPERTIES = sizeof properties / sizeof *properties };

_Noreturn static void fail(const char *why, const char *what)
{
  fprintf(stderr, "check_order: %s: %s\n", what, why);
  exit(2);
}

/* ---- arguments ---- */

static uint32_t number_of(const char *text)
{
  char *end;
  const unsigned long number = strtoul(text, &end, 0);
  if (!*text || *end || number > UINT32_MAX)
    fail("expected a number", text);
  return (uint32_t)number;
}

static uint32_t choice_of(const char *text, const char *const *choices, uint32_t n_choices)
{
  for (uint32_t choice = 0; choice < n_choices; choice++)
    if (strcmp(text, choices[choice]) == 0)
      return choice;
  fail("there is no such choice", text);
}

static uint32_t judged_of(char *names)
{
  uint32_t set = 0;
  for (char *name = strtok(names, ","); name; name = strtok(NULL, ",")) {
    uint32_t place = 0;
    while (place < N_PROPERTIES && strcmp(name, properties[place].name) != 0)
      place++;
    if (place == N_PROPERTIES)
      fail("there is no such property", name);
    set |= 1u << properties[place].bit;
  }
  return set;
}

/* A network that loses messages makes orders lose them; so does an order that goes on without. */
static uint32_t owed(const char *text, const busq_check_config *config)
{
  uint32_t options = 0;
  const busq_order *order = busq_order_parse(text, &options);
  if (!order)
    fail(busq_error_text(), text);
  uint32_t set = 0;
  for (uint32_t place = 0; place < N_PROPERTIES; place++)
    if (!properties[place].claim || order->claims & properties[place].claim)
      set |= 1u << properties[place].bit;
  if (config->lost_max || options & BUSQ_OPTION_SKIP_GAPS)
    set &= ~(1u << BUSQ_PROPERTY_LOST);
  if (!(order->traits & BUSQ_ORDER_SIDE_CHANNELS))
    set &= ~(1u << BUSQ_CHECK_SIDE);
  if (order->traits & (BUSQ_ORDER_WHOLE_GROUP | BUSQ_ORDER_COORDINATED | BUSQ_ORDER_REPLICATED))
    set &= ~(1u << BUSQ_CHECK_GENUINE);
  return set;
}

static void read_argument(busq_check_config *config, uint32_t *to_allp, const char *name, char *value)
{
  static const char *const behaviours[] = {"free", "reply", "job", "side"};
  static const char *const searches[] = {"depth", "breadth"};
  struct {
    const char *name;
    uint32_t *number;
  } numbers[] = {
      {"processes", &config->processes},     {"messages", &config->messages},
      {"fan_out", &config->fan_out_max},     {"to_all", to_allp},
      {"with_self", &config->with_self},     {"fifo", &config->channels},
      {"doubled", &config->doubled_max},     {"lost", &config->lost_max},
      {"counts_moves", &config->counts_moves}, {"reductions", &config->reductions},
      {"crashes", &config->crashes_max},
  };
  if (strcmp(name, "behaviour") == 0)
    config->behaviour = choice_of(value, behaviours, 4);
  else if (strcmp(name, "search") == 0)
    config->search = choice_of(value, searches, 2);
  else if (strcmp(name, "walks") == 0)
    config->search = (config->walks = number_of(value)) ? BUSQ_CHECK_WALK : config->search;
  else if (strcmp(name, "judged") == 0)
    config->judged = judged_of(value);
  else if (strcmp(name, "memory_mib") == 0)
    config->memory_bytes = (uint64_t)number_of(value) << 20;
  else {
    size_t place = 0;
    while (place < sizeof numbers / sizeof *numbers && strcmp(name, numbers[place].name) != 0)
      place++;
    if (place == sizeof numbers / sizeof *numbers)
      fail("there is no such argument", name);
    *numbers[place].number = number_of(value);
  }
}

static void send_to_all(busq_check_config *config)
{
  static uint32_t destinations[32 * 32];
  if (!config->processes || config->processes > 32 || config->messages > 32)
    fail("expected less", "processes and messages");
  const uint32_t everybody = (uint32_t)((UINT64_C(1) << config->processes) - 1);
  for (uint32_t index = 0; index < config->processes * config->messages; index++)
    destinations[index] = config->with_self ? everybody : everybody & ~(1u << index / config->messages);
  config->fan_out_max = config->processes - !config->with_self;
  config->destinations = destinations;
}

/* ---- printing ---- */

static void print_set(const char *name, uint32_t set)
{
  printf("\"%s\": [", name);
  const char *between = "";
  for (uint32_t place = 0; place < N_PROPERTIES; place++)
    if (set & 1u << properties[place].bit) {
      printf("%s\"%s\"", between, properties[place].name);
      between = ", ";
    }
  printf("], ");
}

static void print_step(const busq_order *order, const busq_check_step *step)
{
  static const char *const kinds[] = {"submit", "receive", "tick", "lose", "double", "end of the job", "crash", "learn"};
  printf("{\"kind\": \"%s\", \"process\": %u, \"message\": [%u, %u]", kinds[step->kind], step->process,
         busq_message_origin(step->message), busq_message_number(step->message));
  if (step->kind == BUSQ_CHECK_SUBMIT || step->kind == BUSQ_CHECK_END_JOB)
    printf(", \"destinations\": %u}", step->destinations);
  else if (step->kind == BUSQ_CHECK_TICK || step->kind >= BUSQ_CHECK_CRASH)
    printf("}");
  else
    printf(", \"from\": %u, \"what\": \"%s\", \"stamp\": %" PRIu64 "}", step->from, order->kinds[step->what].name,
           step->stamp);
}

static void print(busq_check *check, const char *text, const busq_check_config *config)
{
  busq_check_facts facts;
  busq_check_examine(check, &facts);
  size_t n_steps = 0;
  uint32_t faults = 0;
  uint32_t options;
  const busq_order *order = busq_order_parse(text, &options);
  const busq_check_step *steps = busq_check_witness(check, &n_steps, &faults);
  printf("{");
  print_set("judged", config->judged);
  print_set("faults", facts.faults);
  print_set("broken", faults);
  printf("\"states\": %" PRIu64 ", \"moves\": %" PRIu64 ", \"ends\": %" PRIu64 ", \"depth\": %u, ", facts.unique,
         facts.total, facts.ends, facts.depth_max);
  printf("\"complete\": %s, \"circles\": %s, ", facts.is_complete ? "true" : "false",
         facts.may_go_in_circles ? "true" : "false");
  printf("\"contradicted\": %" PRIu64 ", ", facts.contradicted);
  printf("\"steps\": [");
  for (size_t place = 0; steps && place < n_steps; place++) {
    printf("%s", place ? ", " : "");
    print_step(order, &steps[place]);
  }
  printf("]}\n");
}

int main(int n_arguments, char **arguments)
{
  if (n_arguments < 2)
    fail("expected ORDER [NAME=VALUE...]", "usage");
  const char *order = arguments[1];
  busq_check_config config = {.processes = 3, .messages = 1, .fan_out_max = 1, .threads = 1, .memory_bytes = 1 << 28};
  uint32_t is_to_all = 0;
  for (int place = 2; place < n_arguments; place++) {
    char *value = strchr(arguments[place], '=');
    if (!value)
      fail("expected NAME=VALUE", arguments[place]);
    *value = 0;
    read_argument(&config, &is_to_all, arguments[place], value + 1);
  }
  if (is_to_all)
    send_to_all(&config);
  if (!config.judged)
    config.judged = owed(order, &config);
  busq_check *check;
  if (busq_check_new(order, &config, &check) != BUSQ_OK)
    fail(busq_error_text(), order);
  while (busq_check_advance(check, 1000000000) == BUSQ_INTERRUPTED)
    ;
  print(check, order, &config);
  busq_check_free(check);
  return 0;
}
