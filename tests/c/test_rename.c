/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What busq_order.rename promises, in random executions: whether processes change their names before a step or after it
 * comes to the same.  And that orders without it, or with roles, do look at names.
 *
 * Beside each execution runs its image, in which every process has another name from the start; and after every step
 * all renamings are tried on the state that the step began in.
 */
#include "harness/test.h"
#include "order/order.h"

enum { PROCESSES = 4, WORDS = PROCESSES * (PROCESSES + 1) };
enum { MESSAGES = 32, PACKETS = 512, STATE_BYTES = 4096, EFFECTS = 128 };
enum { STEPS_MAX = 90, MESSAGES_EACH = 5 };

typedef struct {
  uint64_t name;
  uint32_t destinations; /* a set of bits */
  bool is_done;
  uint64_t past; /* messages that cause it, a set of their places */
  uint32_t clock[WORDS];
} known_message;

typedef struct {
  busq_order_packet packet;
  uint32_t to;
} packet_in_flight;

typedef struct {
  const busq_order *order;
  uint32_t n, n_messages, n_packets;
  uint32_t n_submitted[PROCESSES];
  uint32_t n_alarms[PROCESSES];
  uint64_t knows[PROCESSES];
  known_message messages[MESSAGES];
  packet_in_flight packets[PACKETS];
  _Alignas(16) char states[PROCESSES][STATE_BYTES];
} group;

typedef struct {
  int result;
  uint32_t n;
  busq_order_effect effects[EFFECTS];
  uint32_t clocks[EFFECTS][WORDS]; /* where effects point */
} outcome;

/* ---- names ---- */

typedef struct {
  uint32_t n;
  uint32_t of[PROCESSES];
} naming;

static naming identity(uint32_t n)
{
  naming names = {.n = n};
  for (uint32_t process = 0; process < n; process++)
    names.of[process] = process;
  return names;
}

/* Knuth's number of a permutation of those from `first` on. */
static naming numbered(uint32_t n, uint32_t first, uint32_t number)
{
  naming names = identity(n);
  for (uint32_t place = first; place < n; place++) {
    const uint32_t other = place + number % (n - place);
    const uint32_t name = names.of[place];
    number /= n - place;
    names.of[place] = names.of[other];
    names.of[other] = name;
  }
  return names;
}

static uint32_t factorial(uint32_t n)
{
  return n < 2 ? 1 : n * factorial(n - 1);
}

static naming inverse(const naming *names)
{
  naming back = {.n = names->n};
  for (uint32_t process = 0; process < names->n; process++)
    back.of[names->of[process]] = process;
  return back;
}

static uint64_t rename_message(uint64_t message, const naming *names)
{
  return message ? busq_message_name(names->of[busq_message_origin(message)], busq_message_number(message)) : 0;
}

static uint32_t rename_set(uint32_t set, const naming *names)
{
  uint32_t renamed = 0;
  for (uint32_t process = 0; process < names->n; process++)
    renamed |= set & 1u << process ? 1u << names->of[process] : 0;
  return renamed;
}

static void rename_row(const uint32_t *from, uint32_t *to, const naming *names)
{
  for (uint32_t process = 0; process < names->n; process++)
    to[names->of[process]] = from[process];
}

/* ---- a world, perhaps under other names ---- */

typedef struct {
  busq_order_world world;
  const group *of;
  naming names, back;
  uint32_t vector[PROCESSES], row[PROCESSES];
} world;

static uint32_t place_of(const group *g, uint64_t name)
{
  uint32_t place = 0;
  while (place < g->n_messages && g->messages[place].name != name)
    place++;
  CHECK(place < g->n_messages);
  return place;
}

static const uint32_t *clock_of(const world *self, uint64_t message)
{
  return self->of->messages[place_of(self->of, rename_message(message, &self->back))].clock;
}

static const uint32_t *vector_of(const busq_order_world *asked, uint64_t message)
{
  world *self = (world *)asked;
  rename_row(clock_of(self, message), self->vector, &self->names);
  return self->vector;
}

static const uint32_t *row_of(const busq_order_world *asked, uint64_t message, uint32_t row)
{
  world *self = (world *)asked;
  rename_row(clock_of(self, message) + (1 + self->back.of[row]) * self->of->n, self->row, &self->names);
  return self->row;
}

/* ---- events ---- */

/* What may happen, as the caller chooses it. */
typedef struct {
  uint32_t kind; /* a busq_order_event_kind */
  uint32_t process;
  uint32_t place;        /* receive: of the packet */
  uint32_t destinations; /* submit */
  busq_order_packet packet;
} step;

static step rename_step(const step *s, const naming *names)
{
  step renamed = *s;
  renamed.process = names->of[s->process];
  renamed.destinations = rename_set(s->destinations, names);
  renamed.packet.message = rename_message(s->packet.message, names);
  renamed.packet.from = names->of[s->packet.from];
  return renamed;
}

static uint32_t clock_words(const busq_order *order, uint32_t n)
{
  return (uint32_t)busq_clock_words(order->clock, n);
}

/* The result of the step on this state, in a group of these names; `s` speaks of the group under them, too. */
static void run(const group *g, const naming *names, char *state, const step *s, outcome *o)
{
  world w = {.world = {vector_of, row_of}, .of = g, .names = *names, .back = inverse(names)};
  uint32_t others[PROCESSES];
  busq_order_event event = {.kind = s->kind, .others = others, .packet = s->packet, .world = &w.world};
  const uint32_t me = 1u << s->process;
  for (uint32_t process = 0; process < g->n; process++)
    if (s->destinations & ~me & 1u << process)
      others[event.n_others++] = process;
  event.to = s->destinations ? (uint32_t)__builtin_ctz(s->destinations) : 0;
  event.is_for_me = (s->destinations & me) != 0;
  if (s->kind == BUSQ_ON_RECEIVE)
    event = (busq_order_event){
        .kind = s->kind, .is_for_me = event.is_for_me, .packet = s->packet, .world = event.world};
  busq_order_effects effects = {.items = o->effects, .max = EFFECTS};
  o->result = busq_order_step(g->order, state, &event, &effects);
  CHECK(!effects.is_cut);
  CHECK(busq_order_verify(g->order, state));
  o->n = effects.n;
  memset(o->clocks, 0, sizeof o->clocks);
  for (uint32_t i = 0; i < o->n; i++)
    if (o->effects[i].clock)
      memcpy(o->clocks[i], o->effects[i].clock, clock_words(g->order, g->n) * sizeof(uint32_t));
}

static void send(group *g, uint32_t from, const busq_order_effect *effect)
{
  uint32_t set = effect->to < g->n ? 1u << effect->to : (1u << g->n) - 1;
  if (effect->to == BUSQ_TO_DESTINATIONS)
    set = g->messages[place_of(g, effect->packet.message)].destinations;
  for (uint32_t to = 0; to < g->n; to++)
    if (set & 1u << to && to != from) {
      CHECK(g->n_packets < PACKETS);
      g->packets[g->n_packets] = (packet_in_flight){effect->packet, to};
      g->packets[g->n_packets++].packet.from = from;
    }
}

static void perform(group *g, uint32_t process, const outcome *o)
{
  for (uint32_t i = 0; i < o->n; i++) {
    const busq_order_effect *effect = &o->effects[i];
    if (effect->kind == BUSQ_DO_SEND) {
      send(g, process, effect);
    } else if (effect->kind == BUSQ_DO_ALARM) {
      g->n_alarms[process]++;
    } else if (effect->kind != BUSQ_DO_IGNORE) {
      const uint32_t place = place_of(g, effect->packet.message);
      known_message *message = &g->messages[place];
      if (effect->kind == BUSQ_DO_SENT) {
        memcpy(message->clock, o->clocks[i], sizeof message->clock);
        message->past = g->knows[process];
        g->knows[process] |= UINT64_C(1) << place;
      }
      if (effect->kind == BUSQ_DO_DELIVER)
        g->knows[process] |= message->past | UINT64_C(1) << place;
      message->is_done |= effect->kind == BUSQ_DO_DONE;
    }
  }
}

/* Before the step runs: what it uses up. */
static void use_up(group *g, const step *s)
{
  if (s->kind == BUSQ_ON_SUBMIT) {
    CHECK(g->n_messages < MESSAGES);
    g->messages[g->n_messages++] = (known_message){.name = s->packet.message, .destinations = s->destinations};
    g->n_submitted[s->process]++;
  } else if (s->kind == BUSQ_ON_RECEIVE) {
    memmove(&g->packets[s->place], &g->packets[s->place + 1], (--g->n_packets - s->place) * sizeof *g->packets);
  } else {
    g->n_alarms[s->process]--;
  }
}

/* ---- choosing ---- */

static bool choose_submit(const group *g, check_chance *chance, step *s)
{
  const uint32_t process = (uint32_t)check_below(chance, g->n);
  const uint64_t last = busq_message_name(process, g->n_submitted[process]);
  if (g->n_submitted[process] == MESSAGES_EACH)
    return false;
  if (g->order->traits & BUSQ_ORDER_RENDEZVOUS && g->n_submitted[process] && !g->messages[place_of(g, last)].is_done)
    return false;
  const bool is_single = g->order->traits & BUSQ_ORDER_POINT_TO_POINT;
  const uint64_t others = check_below(chance, (1u << g->n) - 1) + 1;
  const uint32_t set = is_single ? 1u << check_below(chance, g->n) : (uint32_t)others;
  *s = (step){.kind = BUSQ_ON_SUBMIT, .process = process, .destinations = set, .packet = {.message = last + 1}};
  return true;
}

static bool choose_packet(const group *g, check_chance *chance, step *s)
{
  if (!g->n_packets)
    return false;
  uint32_t place = (uint32_t)check_below(chance, g->n_packets);
  if (g->order->traits & BUSQ_ORDER_FIFO_CHANNELS)
    for (uint32_t older = place; older-- > 0;)
      if (g->packets[older].to == g->packets[place].to &&
          g->packets[older].packet.from == g->packets[place].packet.from)
        place = older;
  const packet_in_flight *packet = &g->packets[place];
  *s = (step){.kind = BUSQ_ON_RECEIVE, .process = packet->to, .place = place, .packet = packet->packet};
  s->destinations = packet->packet.message ? g->messages[place_of(g, packet->packet.message)].destinations : 0;
  return true;
}

static bool choose_alarm(const group *g, check_chance *chance, step *s)
{
  const uint32_t process = (uint32_t)check_below(chance, g->n);
  *s = (step){.kind = BUSQ_ON_TICK, .process = process};
  return g->n_alarms[process] > 0;
}

static bool choose(const group *g, check_chance *chance, step *s)
{
  for (uint32_t attempt = 0; attempt < 100; attempt++) {
    const uint64_t dice = check_below(chance, 10);
    if (dice < 3 ? choose_submit(g, chance, s) : dice < 9 ? choose_packet(g, chance, s) : choose_alarm(g, chance, s))
      return true;
  }
  return false;
}

/* ---- comparing ---- */

static void start(group *g, const busq_order *order, uint32_t options, uint32_t n)
{
  memset(g, 0, sizeof *g);
  g->order = order;
  g->n = n;
  for (uint32_t self = 0; self < n; self++) {
    const busq_order_group facts = {.n_processes = n,
                                    .self = self,
                                    .waiting_max = MESSAGES_EACH,
                                    .held_max = n * MESSAGES_EACH,
                                    .options = options};
    CHECK(busq_order_state_size(order, &facts) <= STATE_BYTES);
    busq_order_init(order, g->states[self], &facts);
  }
}

static size_t state_bytes(const group *g)
{
  return busq_order_state_size(g->order, (const busq_order_group *)g->states[0]);
}

/* Whether effect j of the image is what effect i is called under these names. */
static bool is_image(const group *g, const outcome *o, uint32_t i, const naming *names, const outcome *image, uint32_t j)
{
  const busq_order_effect *effect = &o->effects[i];
  const bool is_to_one = effect->kind == BUSQ_DO_SEND && effect->to < g->n;
  busq_order_packet packet = effect->packet;
  uint32_t clock[WORDS] = {0};
  packet.message = rename_message(packet.message, names);
  for (uint32_t row = 0; row < clock_words(g->order, g->n) / g->n; row++)
    rename_row(o->clocks[i] + row * g->n, clock + (row ? 1 + names->of[row - 1] : 0) * g->n, names);
  return image->effects[j].kind == effect->kind &&
         image->effects[j].to == (is_to_one ? names->of[effect->to] : effect->to) &&
         memcmp(&image->effects[j].packet, &packet, sizeof packet) == 0 &&
         memcmp(image->clocks[j], clock, sizeof clock) == 0;
}

static bool are_related(const group *g, const busq_order_effect *one, const busq_order_effect *other)
{
  const uint32_t first = place_of(g, one->packet.message);
  const uint32_t second = place_of(g, other->packet.message);
  return g->messages[second].past & UINT64_C(1) << first || g->messages[first].past & UINT64_C(1) << second;
}

typedef enum { SAME, SAME_IN_ANOTHER_ORDER, DIFFERENT } likeness;

/* In another order: nothing but deliveries of messages that do not cause each other has changed places. */
static likeness compare(const group *g, const outcome *o, const naming *names, const outcome *image)
{
  uint32_t at[EFFECTS];
  uint64_t taken = 0;
  likeness like = SAME;
  if (o->result != image->result || o->n != image->n)
    return DIFFERENT;
  CHECK(o->n <= 64);
  for (uint32_t i = 0; i < o->n; i++) {
    uint32_t j = 0;
    while (j < o->n && (taken & UINT64_C(1) << j || !is_image(g, o, i, names, image, j)))
      j++;
    if (j == o->n)
      return DIFFERENT;
    taken |= UINT64_C(1) << j;
    at[i] = j;
    for (uint32_t before = 0; before < i; before++) {
      if (at[before] < at[i])
        continue;
      like = SAME_IN_ANOTHER_ORDER;
      const bool are_told = o->effects[i].kind <= BUSQ_DO_DROP && o->effects[before].kind <= BUSQ_DO_DROP &&
                            o->effects[i].kind != BUSQ_DO_SEND && o->effects[before].kind != BUSQ_DO_SEND;
      if (!are_told || are_related(g, &o->effects[before], &o->effects[i]))
        return DIFFERENT;
    }
  }
  return like;
}

/* ---- orders that are symmetric ---- */

typedef struct {
  uint32_t n_steps, n_images, n_other_order, n_other_bytes;
} tally;

/* A fresh copy under these names; beyond it the room stays as it was, zero. */
static void rename_state(const group *g, const char *state, char *renamed, const naming *names)
{
  memset(renamed, 0xa5, STATE_BYTES);
  g->order->rename(state, renamed, names->of);
  for (size_t place = state_bytes(g); place < STATE_BYTES; place++)
    CHECK_EQUAL((uint8_t)renamed[place], 0xa5);
  memset(renamed + state_bytes(g), 0, STATE_BYTES - state_bytes(g));
  CHECK(busq_order_verify(g->order, renamed));
}

static void check_renaming(const group *g, const char *before, const step *s, const outcome *o, const naming *names,
                           tally *t)
{
  static _Alignas(16) char first[STATE_BYTES], then[STATE_BYTES], again[STATE_BYTES];
  static outcome image;
  const char *after = g->states[s->process];
  const naming back = inverse(names);
  const step renamed = rename_step(s, names);
  rename_state(g, before, first, names);
  run(g, names, first, &renamed, &image);
  const likeness like = compare(g, o, names, &image);
  CHECK(like == SAME || (like == SAME_IN_ANOTHER_ORDER && g->order->delivers_by_name));
  t->n_other_order += like == SAME_IN_ANOTHER_ORDER;
  rename_state(g, after, then, names);
  const bool are_equal = memcmp(first, then, STATE_BYTES) == 0;
  CHECK(are_equal || (g->order->delivers_by_name && g->n > 3)); /* the blocking one: one of several others */
  t->n_other_bytes += !are_equal;
  t->n_images++;
  rename_state(g, then, again, &back);
  CHECK(memcmp(again, after, STATE_BYTES) == 0);
}

/* Sends to all go out in the order of numbers: under other names a packet may stand somewhere else. */
static uint32_t place_in_image(const group *image, const step *renamed)
{
  uint32_t place = 0;
  while (place < image->n_packets &&
         (image->packets[place].to != renamed->process ||
          memcmp(&image->packets[place].packet, &renamed->packet, sizeof renamed->packet) != 0))
    place++;
  CHECK(place < image->n_packets);
  return place;
}

/* Does the step in the image; returns how much it is like the one in the group. */
static likeness follow(const group *g, const step *s, const outcome *o, const naming *names, group *image)
{
  static outcome found;
  const naming own = identity(image->n);
  step renamed = rename_step(s, names);
  if (s->kind == BUSQ_ON_RECEIVE)
    renamed.place = place_in_image(image, &renamed);
  use_up(image, &renamed);
  run(image, &own, image->states[renamed.process], &renamed, &found);
  perform(image, renamed.process, &found);
  return compare(g, o, names, &found);
}

/* The image goes on from its own states or, now and then, from renamed ones. */
static void check_image(const group *g, const step *s, const outcome *o, const naming *names, group *image,
                        check_chance *chance)
{
  const likeness like = follow(g, s, o, names, image);
  CHECK(like == SAME || (like == SAME_IN_ANOTHER_ORDER && g->order->delivers_by_name));
  if (check_below(chance, 4) == 0)
    rename_state(g, g->states[s->process], image->states[names->of[s->process]], names);
}

static void rename_one_execution(const busq_order *order, uint32_t options, uint32_t n, uint64_t seed, tally *t)
{
  static group g, image;
  static outcome o;
  static _Alignas(16) char before[STATE_BYTES];
  check_chance chance = {seed};
  const uint32_t n_namings = factorial(n - order->n_roles);
  const naming own = identity(n);
  const naming names = numbered(n, order->n_roles, (uint32_t)check_below(&chance, n_namings));
  step s;
  start(&g, order, options, n);
  start(&image, order, options, n);
  for (uint32_t count = 0; count < STEPS_MAX && choose(&g, &chance, &s); count++) {
    memcpy(before, g.states[s.process], STATE_BYTES);
    use_up(&g, &s);
    run(&g, &own, g.states[s.process], &s, &o);
    for (uint32_t number = 0; number < n_namings; number++) {
      const naming other = numbered(n, order->n_roles, number);
      check_renaming(&g, before, &s, &o, &other, t);
    }
    perform(&g, s.process, &o);
    check_image(&g, &s, &o, &names, &image, &chance);
    t->n_steps++;
  }
}

static const char *const with_options[] = {
    "fifo:on_gap=skip", "cykas:own=left-out", "cykas:yct=acked", "cykas:yct=acked-unack", "cykas:yct=acked-waits",
    "cykas:ack=late", "cykas:secret=eager", "lamport:ack=all", NULL,
};

/* The text of the order with this number; those with options follow those without. */
static const char *text_of(uint32_t number)
{
  uint32_t n_orders = 0;
  while (busq_orders[n_orders])
    n_orders++;
  return number < n_orders ? busq_orders[number]->name : with_options[number - n_orders];
}

static bool has_names(const busq_order *order, uint32_t options)
{
  return !order->rename || options & order->options_by_name;
}

TEST(test_to_rename_before_a_step_or_after_it_comes_to_the_same)
{
  for (uint32_t number = 0; text_of(number); number++) {
    uint32_t options;
    const busq_order *order = busq_order_parse(text_of(number), &options);
    CHECK(order != NULL);
    if (has_names(order, options))
      continue;
    for (uint32_t n = 3; n <= 4; n++) {
      tally t = {0};
      const uint32_t n_executions = n == 3 ? 60 : 30;
      for (uint32_t execution = 0; execution < (uint32_t)check_share(n_executions); execution++)
        rename_one_execution(order, options, n, test_seed + execution, &t);
      printf("    %-18s %u processes: %u steps, %u renamings", text_of(number), n, t.n_steps, t.n_images);
      if (order->delivers_by_name)
        printf(", %u deliver in another order, %u wait for another process", t.n_other_order, t.n_other_bytes);
      putchar('\n');
    }
  }
}

/* ---- orders that look at names ---- */

typedef struct {
  naming names;
  uint32_t n_steps;
  step steps[STEPS_MAX];
} example;

/* An execution up to the step that differs in its image, if that comes before the last step of `shortest`. */
static bool find_difference(const busq_order *order, uint32_t options, const naming *names, uint64_t seed,
                            example *shortest)
{
  static group g, image;
  static outcome o;
  static example found;
  check_chance chance = {seed};
  const naming own = identity(names->n);
  const uint32_t n_steps_max = shortest->n_steps ? shortest->n_steps - 1 : STEPS_MAX;
  start(&g, order, options, names->n);
  start(&image, order, options, names->n);
  found = (example){.names = *names};
  while (found.n_steps < n_steps_max && choose(&g, &chance, &found.steps[found.n_steps])) {
    const step *s = &found.steps[found.n_steps++];
    use_up(&g, s);
    run(&g, &own, g.states[s->process], s, &o);
    perform(&g, s->process, &o);
    if (follow(&g, s, &o, names, &image) == DIFFERENT) {
      *shortest = found;
      return true;
    }
  }
  return false;
}

static void print_set(uint32_t set)
{
  for (uint32_t process = 0; process < PROCESSES; process++)
    if (set & 1u << process)
      printf(" %c", 'a' + (int)process);
}

static void print_example(const char *text, const busq_order *order, const example *e)
{
  printf("    %s:", text);
  for (uint32_t place = 0; place < e->n_steps; place++) {
    const step *s = &e->steps[place];
    printf("%s %c ", place ? ";" : "", 'a' + (int)s->process);
    if (s->kind == BUSQ_ON_SUBMIT) {
      printf("sends to");
      print_set(s->destinations);
    } else if (s->kind == BUSQ_ON_RECEIVE) {
      printf("receives %s from %c", order->kinds[s->packet.kind].name, 'a' + (int)s->packet.from);
    } else {
      printf("is woken");
    }
  }
  printf("; and not so where a b c are called");
  for (uint32_t process = 0; process < e->names.n; process++)
    printf(" %c", 'a' + (int)e->names.of[process]);
  putchar('\n');
}

static void check_example(const char *text, const busq_order *order, uint32_t options, uint32_t first, uint64_t seed)
{
  example shortest = {.n_steps = 0};
  const uint32_t n = 3;
  for (uint32_t attempt = 0; attempt < 6000; attempt++) {
    const naming names = numbered(n, first, 1 + attempt % (factorial(n - first) - 1));
    find_difference(order, options, &names, seed + attempt, &shortest);
  }
  if (!shortest.n_steps)
    check_fail(__FILE__, __LINE__, "%s: names do not seem to matter", text);
  print_example(text, order, &shortest);
}

TEST(test_where_there_is_no_renaming_names_do_matter)
{
  for (uint32_t number = 0; text_of(number); number++) {
    uint32_t options;
    const busq_order *order = busq_order_parse(text_of(number), &options);
    if (!order->rename && order->clock != BUSQ_CLOCK_LIST) /* names stand in lists, which only their orders can read */
      check_example(text_of(number), order, options, 0, test_seed);
  }
}

/* c has lost the first message of a and the first one of b, and holds the second ones back; that of b is a cause of
 * that of a. */
TEST(test_an_alarm_lets_go_in_the_order_of_names_what_is_held_back)
{
  enum { A, B, C };
  static const struct {
    uint32_t kind, process, other;
  } script[] = {{BUSQ_ON_SUBMIT, B, C},  {BUSQ_ON_SUBMIT, B, C},  {BUSQ_ON_SUBMIT, B, A},  {BUSQ_ON_RECEIVE, A, B},
                {BUSQ_ON_SUBMIT, A, C},  {BUSQ_ON_SUBMIT, A, C},  {BUSQ_ON_RECEIVE, C, B}, {BUSQ_ON_RECEIVE, C, A},
                {BUSQ_ON_TICK, C, 0},    {BUSQ_ON_TICK, C, 0}};
  static group g, image;
  static outcome o;
  const naming names = {3, {B, A, C}};
  const naming own = identity(3);
  const size_t n_steps = sizeof script / sizeof *script;
  CHECK(busq_order_fifo.options_by_name & BUSQ_OPTION_SKIP_GAPS);
  start(&g, &busq_order_fifo, BUSQ_OPTION_SKIP_GAPS, 3);
  start(&image, &busq_order_fifo, BUSQ_OPTION_SKIP_GAPS, 3);
  for (size_t place = 0; place < n_steps; place++) {
    const uint32_t process = script[place].process;
    step s = {.kind = script[place].kind, .process = process};
    if (s.kind == BUSQ_ON_SUBMIT) {
      s.destinations = 1u << script[place].other;
      s.packet.message = busq_message_name(process, g.n_submitted[process] + 1);
    }
    for (uint32_t newest = 0; s.kind == BUSQ_ON_RECEIVE && newest < g.n_packets; newest++)
      if (g.packets[newest].to == process && g.packets[newest].packet.from == script[place].other) {
        s.place = newest;
        s.packet = g.packets[newest].packet;
        s.destinations = 1u << process;
      }
    use_up(&g, &s);
    run(&g, &own, g.states[process], &s, &o);
    perform(&g, process, &o);
    CHECK_EQUAL(follow(&g, &s, &o, &names, &image), place + 1 == n_steps ? DIFFERENT : SAME);
  }
}

TEST(test_whoever_has_a_role_can_not_change_his_name)
{
  for (const busq_order *const *order = busq_orders; *order; order++)
    if ((*order)->n_roles)
      check_example((*order)->name, *order, 0, 0, test_seed);
}
