/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order "token": the right to number rotates (Garg 12.3.1: "The token assigns sequence numbers to broadcasts, and
 * messages are delivered only in this sequence order").  The processes form a ring, in the order of their numbers; the
 * token starts parked at process 0.  Everything is a broadcast; what is not meant for a process has its number there
 * too, and is ignored in its turn.
 *
 *   submit m:                 m waits.  With the token here: number. Without it: send WANT to the next process, unless one's last
 *                             WANT still waits for the token
 *   number:                   each message that waits gets the next number k: send DATA(m, k) to all
 *   receive DATA(m, k):       deliver in the order of numbers, without gaps
 *   receive WANT of w:        with the token here (parked): send it on.  Without it: remember that a process wants it, and send
 *                             the WANT on, unless the next process is w
 *   receive TOKEN(k, idle):   number; if something was numbered, or a process is remembered to want it, idle = 0 and none is
 *                             remembered, otherwise idle + 1.  At n the token parks; otherwise it goes on to the next process
 *
 * Guarantee: causal total order, over any network.  Total: there is one token, and it counts.  Causal: a message is
 * sent when it is numbered, and what its sender has sent or delivered before was numbered before, when the token had
 * counted less.
 *
 * It falls silent, and no process is forgotten.  Let w send a WANT.  Where it meets the parked token, that sets out
 * with idle = 0 and makes n - 1 steps at least, so it comes to w.  Otherwise it leaves a note at all others, behind
 * which the token cannot park: sooner or later it comes to w, or to such a note, which sets idle = 0 again and so
 * brings it to w as well.  A note is used up when it is seen, and every WANT ends after one circle: so when no process
 * submits, the circles end.
 *
 * Packets: n - 1 per message, and what the token needs: n - 1 DATA alone where the parked token's holder goes on
 * sending.
 *
 * Not given: locality.  Every process works for every message.
 *
 * With the option delivery=safe, a message is delivered when it is known that all processes have it, as in Totem's single ring (Amir,
 * Moser, Melliar-Smith, Agarwal, Ciarfella 1995; what that calls agreed delivery is the order without the option).  The token brings along
 * aru, all received up to, and the process that has set it:
 *
 *   the token leaves:         let mine be the number up to which all has come here.  If mine < aru, or it was set here, or by no process:
 *                             aru = mine, set here, or by none where that is all that was numbered.  What is at most aru,
 *                             and at most the aru with which it left here before, is safe
 *   deliver:                  in the order of numbers, what is safe
 *   DATA comes late:          that is, the token has counted it here: WANT, as for a message of one's own
 *   park:                     when n visits in succession have changed neither aru nor what is safe
 *   suspect:                  a new token has no aru; what was safe stays so
 *
 * Once is not enough: the process that has set aru raises it, perhaps above what another one has, which lowers it at its own next
 * visit.  A number that aru reached at two departures, with all others between, was not missing at any of them.
 *
 * So what one process delivers, even one that dies then, every process has received.  Not that all deliver it:
 * that takes the token, which is lost with a process.  The price is two rounds of the token before a delivery.
 * Fewer than 2^24 messages in flight at a time have room in a token, which drivers see to (busq_order_check_in_flight).  So have 2^40 in
 * all, which are not counted: a million a second for twelve days.
 *
 * With the option on_crash=go-on, over channels that keep the order, each death ends a token, wherever it is, and the survivors
 * agree on what it has numbered before the lowest of them makes another one:
 *
 *   receive DATA(m, k), the first time:   send it on to all before anything else
 *   suspect p:                give the token up; send FLUSH(all that are suspected) to the lowest that is not
 *   receive FLUSH, suspect:   the lowest, when all that it does not suspect have flushed, suspecting all that it does: make a
 *                             token with the next number
 *   receive TOKEN:            forget one that was made before as many deaths were known here
 *   the next process:         of those that are not suspected; a WANT of one that is, ends
 *
 * A token is sent behind all that it has numbered, and a process has sent on what comes from the dead before it flushes: so the
 * lowest knows all numbers that any survivor will see, without gaps.  Tokens differ in how many deaths they were made for; that grows
 * from one to the next, and a process that gets one has flushed for it.  A new one visits all before it parks.
 *
 * Proven without a bound: busq/lab/proof/models/token.py and token_rest.py.
 */
#include "order/order.h"
#include "queue/holdback.h"
#include "queue/outbox.h"

enum { DATA, TOKEN, WANT, FLUSH };
/* Of a TOKEN with delivery=safe: its stamp is the next number, and above it how many numbers before that are beyond aru.
 * Its note is idle, above it the process that has set aru, where any number is beyond it, and above that, where processes may
 * die, how many are dead. */
enum { NUMBER_BITS = 64 - BUSQ_ORDER_SAFE_BITS, IDLE_BITS = 16, DEAD_AT = 26 };
enum { AWAY, WORKING, PARKED }; /* where the token is */

static const busq_order_kind kinds[] = {{"data", true}, {"token", false}, {"want", false}, {"flush", false}};

/* Behind it:
 *   outbox: messages of one's own that have no number; `note` is whether they are for this process too;
 *   held, a hold-back buffer keyed by number: numbered, but not in turn; `note` is whether they are for this process. */
typedef struct {
  busq_order_group group;
  uint64_t next_delivered; /* the number that is in turn here */
  uint64_t next_number;    /* that the token gives; 0 while it is away */
  uint32_t token;
  uint32_t idle;           /* how many processes in succession the token has found without need; 0 while it is away */
  uint32_t is_wanted;      /* a WANT of another process came by */
  uint32_t has_asked;      /* one's own WANT waits for the token */
  uint32_t n_held_own;     /* Invariant: the messages in held that this process sent */
  uint32_t made_for;       /* so many of the dead were known when this process made a token */
  uint32_t aru_by;         /* 1 + the process that has set the token's aru; 0: none, or it is away */
  uint64_t aru;            /* 0 while the token is away.  This and the rest only with delivery=safe */
  uint64_t aru_before;     /* with which the token left here last, */
  uint64_t counted;        /* and what it had numbered then */
  uint64_t safe;           /* all processes have what is numbered up to this */
  uint32_t flushed[];      /* n, with on_crash=go-on: those that each process suspected when it flushed */
} token_state;

static const busq_order_option_name option_names[] = {
    {"delivery=safe", BUSQ_OPTION_SAFE, false}, {"on_crash=go-on", BUSQ_OPTION_GO_ON, true}, {NULL, 0, false}};

static bool is_safe(const busq_order_group *group)
{
  return group->options & BUSQ_OPTION_SAFE;
}

static bool goes_on(const busq_order_group *group)
{
  return group->options & BUSQ_OPTION_GO_ON;
}

static size_t token_head_size(const busq_order_group *group)
{
  return BUSQ_ALIGN_UP(sizeof(token_state) + (goes_on(group) ? sizeof(uint32_t) * group->n_processes : 0), 8);
}

static busq_outbox *outbox_of(const token_state *self)
{
  return (busq_outbox *)(void *)((char *)self + token_head_size(&self->group));
}

static busq_holdback *held_of(const token_state *self)
{
  return busq_outbox_end(outbox_of(self));
}

static uint32_t n_dead(const token_state *self)
{
  return (uint32_t)__builtin_popcount(self->group.suspected);
}

static void token_init(void *state)
{
  token_state *self = state;
  self->next_delivered = 1;
  if (!self->group.self) {
    self->token = PARKED;
    self->next_number = 1;
  }
}

static uint32_t next_process(const token_state *self)
{
  uint32_t next = self->group.self;
  do
    next = next + 1 == self->group.n_processes ? 0 : next + 1;
  while (busq_group_suspects(&self->group, next));
  return next;
}

static void number_waiting(token_state *self, busq_order_effects *effects)
{
  busq_outbox *outbox = outbox_of(self);
  while (self->token != AWAY && outbox->count && busq_effects_have_room(effects, 2)) {
    const busq_outbox_entry first = busq_outbox_pop(outbox);
    const uint64_t number = self->next_number++;
    self->idle = 0;
    self->token = is_safe(&self->group) ? WORKING : self->token;
    self->n_held_own++;
    busq_holdback_insert(held_of(self), (busq_held_entry){.key = number,
                                                          .message = first.message,
                                                          .from = self->group.self,
                                                          .note = first.note});
    busq_do_sent(effects, first.message, NULL);
    if (self->group.n_processes > 1)
      busq_do_send(effects, BUSQ_TO_ALL, (busq_order_packet){.message = first.message, .stamp = number, .kind = DATA});
  }
}

static void give_up(token_state *self)
{
  self->token = AWAY;
  self->next_number = 0;
  self->idle = 0;
  self->aru = self->aru_by = 0;
}

static void pass_on(token_state *self, busq_order_effects *effects)
{
  const uint32_t setter = self->aru_by ? self->aru_by - 1 : 0;
  busq_do_send(effects, next_process(self),
               (busq_order_packet){.stamp = (self->counted - self->aru) << NUMBER_BITS | self->next_number,
                                   .note = n_dead(self) << DEAD_AT | setter << IDLE_BITS | self->idle,
                                   .kind = TOKEN});
  give_up(self);
}

/* The number up to which all has come here. */
static uint64_t all_received(const token_state *self)
{
  const busq_holdback *held = held_of(self);
  uint64_t number = self->next_delivered;
  for (uint32_t place = 0; place < held->count && busq_holdback_at(held, place)->key == number; place++)
    number++;
  return number - 1;
}

/* Brings aru up to date before the token leaves, and learns from it what is safe. */
static void settle_aru(token_state *self)
{
  const uint64_t aru = self->aru, mine = all_received(self);
  self->counted = self->next_number - 1;
  if (mine < aru || !self->aru_by || self->aru_by == self->group.self + 1) {
    self->aru = mine;
    self->aru_by = mine == self->counted ? 0 : self->group.self + 1;
  }
  const bool is_alone = next_process(self) == self->group.self;
  const uint64_t both = self->aru < self->aru_before || is_alone ? self->aru : self->aru_before;
  if (self->aru != aru || self->aru != self->aru_before || both > self->safe)
    self->idle = 0;
  self->safe = both > self->safe ? both : self->safe;
  self->aru_before = self->aru;
}

static void pass_or_park(token_state *self, busq_order_effects *effects)
{
  if (self->token != WORKING || outbox_of(self)->count || !busq_effects_have_room(effects, 1))
    return;
  if (is_safe(&self->group))
    settle_aru(self);
  if (self->idle < self->group.n_processes && next_process(self) != self->group.self) {
    pass_on(self, effects);
    return;
  }
  self->token = PARKED;
  self->idle = 0;
}

static bool is_in_turn(const token_state *self)
{
  const busq_holdback *held = held_of(self);
  return held->count && busq_holdback_at(held, 0)->key == self->next_delivered &&
         (!is_safe(&self->group) || self->next_delivered <= self->safe);
}

static void deliver_in_turn(token_state *self, busq_order_effects *effects)
{
  busq_holdback *held = held_of(self);
  while (is_in_turn(self) && busq_effects_have_room(effects, 2)) {
    const busq_held_entry first = busq_holdback_remove(held, 0);
    self->next_delivered++;
    if (first.note)
      busq_do_deliver(effects, first.message);
    else if (first.from != self->group.self)
      busq_do_drop(effects, first.message);
    if (first.from != self->group.self)
      continue;
    self->n_held_own--;
    busq_do_done(effects, first.message);
  }
}

static void ask_for_token(token_state *self, busq_order_effects *effects)
{
  if (self->token != AWAY || self->has_asked)
    return;
  self->has_asked = 1;
  if (next_process(self) != self->group.self)
    busq_do_send(effects, next_process(self), (busq_order_packet){.note = self->group.self, .kind = WANT});
}

static int submit(token_state *self, const busq_order_event *event, busq_order_effects *effects)
{
  busq_outbox *outbox = outbox_of(self);
  if (outbox->count + self->n_held_own == self->group.waiting_max)
    return BUSQ_FULL;
  busq_outbox_push(outbox, (busq_outbox_entry){.message = event->packet.message, .note = event->is_for_me});
  ask_for_token(self, effects);
  return BUSQ_OK;
}

static int receive_data(token_state *self, const busq_order_event *event, busq_order_effects *effects)
{
  const busq_order_packet *packet = &event->packet;
  busq_holdback *held = held_of(self);
  if (goes_on(&self->group) && (packet->stamp < self->next_delivered ||
                                busq_holdback_find(held, packet->stamp, packet->message) < held->count)) {
    busq_do_ignore(effects);
    return BUSQ_OK;
  }
  if (held->count - self->n_held_own >= self->group.held_max)
    return BUSQ_FULL;
  busq_holdback_insert(held, (busq_held_entry){.key = packet->stamp,
                                               .message = packet->message,
                                               .from = busq_message_origin(packet->message),
                                               .note = event->is_for_me});
  if (goes_on(&self->group))
    busq_do_send(effects, BUSQ_TO_ALL,
                 (busq_order_packet){.message = packet->message, .stamp = packet->stamp, .kind = DATA});
  if (packet->stamp <= self->counted) {
    ask_for_token(self, effects);
    self->token = self->token == PARKED ? WORKING : self->token;
  }
  return BUSQ_OK;
}

static void take(token_state *self, uint64_t next_number, uint32_t idle)
{
  self->token = WORKING;
  self->next_number = next_number;
  self->idle = self->is_wanted ? 0 : idle;
  self->is_wanted = 0;
  self->has_asked = 0;
}

static void receive_token(token_state *self, const busq_order_packet *packet)
{
  const uint32_t n_dead_then = goes_on(&self->group) ? packet->note >> DEAD_AT : 0;
  const uint32_t idle = packet->note & ((1u << IDLE_BITS) - 1);
  const uint64_t next_number = is_safe(&self->group) ? packet->stamp & ((UINT64_C(1) << NUMBER_BITS) - 1) : packet->stamp;
  if (n_dead_then < n_dead(self))
    return;
  take(self, next_number, idle + 1);
  if (!is_safe(&self->group))
    return;
  const uint64_t n_beyond = packet->stamp >> NUMBER_BITS;
  const uint32_t setter = (packet->note & ((1u << DEAD_AT) - 1)) >> IDLE_BITS;
  self->aru = next_number - 1 - n_beyond;
  self->aru_by = n_beyond ? 1 + (goes_on(&self->group) ? setter : packet->note >> IDLE_BITS) : 0;
}

static uint32_t lowest(const token_state *self)
{
  uint32_t process = 0;
  while (busq_group_suspects(&self->group, process))
    process++;
  return process;
}

static void suspect(token_state *self, busq_order_effects *effects)
{
  self->aru_before = 0;
  give_up(self);
  if (lowest(self) != self->group.self)
    busq_do_send(effects, lowest(self), (busq_order_packet){.note = self->group.suspected, .kind = FLUSH});
}

/* Makes a token, where it is this process' turn and nothing that another one has numbered can turn up any more. */
static void make_token(token_state *self)
{
  const busq_order_group *group = &self->group;
  if (lowest(self) != group->self || self->made_for == n_dead(self))
    return;
  for (uint32_t process = 0; process < group->n_processes; process++)
    if (process != group->self && !busq_group_suspects(group, process) && group->suspected & ~self->flushed[process])
      return;
  self->made_for = n_dead(self);
  take(self, self->next_delivered + held_of(self)->count, 0);
}

static void receive_want(token_state *self, const busq_order_packet *packet, busq_order_effects *effects)
{
  if (busq_group_suspects(&self->group, packet->note))
    return;
  if (self->token == PARKED) {
    pass_on(self, effects);
    return;
  }
  self->is_wanted = 1;
  if (next_process(self) != packet->note)
    busq_do_send(effects, next_process(self), (busq_order_packet){.note = packet->note, .kind = WANT});
}

static int receive_flush(token_state *self, const busq_order_packet *packet)
{
  if (!goes_on(&self->group))
    return BUSQ_CORRUPT;
  self->flushed[packet->from] = packet->note;
  return BUSQ_OK;
}

static int token_step(void *state, const busq_order_event *event, busq_order_effects *effects)
{
  token_state *self = state;
  int result = BUSQ_OK;
  if (event->kind == BUSQ_ON_SUBMIT)
    result = submit(self, event, effects);
  else if (event->kind == BUSQ_ON_RECEIVE && event->packet.kind == DATA)
    result = receive_data(self, event, effects);
  else if (event->kind == BUSQ_ON_RECEIVE && event->packet.kind == TOKEN)
    receive_token(self, &event->packet);
  else if (event->kind == BUSQ_ON_RECEIVE && event->packet.kind == WANT)
    receive_want(self, &event->packet, effects);
  else if (event->kind == BUSQ_ON_RECEIVE)
    result = receive_flush(self, &event->packet);
  else if (event->kind == BUSQ_ON_SUSPECT)
    suspect(self, effects);
  if (result != BUSQ_OK)
    return result;
  make_token(self);
  number_waiting(self, effects);
  pass_or_park(self, effects);
  deliver_in_turn(self, effects);
  return BUSQ_OK;
}

static bool token_verify(const void *state)
{
  const token_state *self = state;
  const busq_outbox *outbox = outbox_of(self);
  const busq_holdback *held = held_of(self);
  const bool is_away = self->token == AWAY;
  if (self->aru_by > self->group.n_processes || (is_away && self->aru) ||
      (is_safe(&self->group) && self->safe + 1 < self->next_delivered) || self->aru_before > self->counted)
    return false;
  if (self->made_for > n_dead(self) || self->token > PARKED || is_away != (self->next_number == 0) || self->idle > self->group.n_processes ||
      (self->token != WORKING && self->idle) || (!is_away && (self->is_wanted || self->has_asked)))
    return false;
  if (is_away && outbox->count && !self->has_asked)
    return false;
  uint32_t n_held_own = 0;
  for (uint32_t place = 0; place < held->count; place++) {
    const busq_held_entry *entry = busq_holdback_at(held, place);
    n_held_own += entry->from == self->group.self;
    if (entry->key < self->next_delivered || (place && busq_holdback_at(held, place - 1)->key == entry->key) ||
        (!is_away && entry->key >= self->next_number))
      return false;
  }
  return n_held_own == self->n_held_own && outbox->count + n_held_own <= self->group.waiting_max &&
         held->count - n_held_own <= self->group.held_max;
}

static void token_gauge(const void *state, busq_order_gauge *gauge)
{
  const token_state *self = state;
  *gauge = (busq_order_gauge){.waiting = outbox_of(self)->count + self->n_held_own,
                              .held = held_of(self)->count - self->n_held_own};
}

const busq_order busq_order_token = {
    .name = "token",
    .promise = "causal total order, by numbers that a rotating token gives",
    .source = "Garg, section 12.3.1",
    .claims = BUSQ_CLAIMS_FIFO | BUSQ_CLAIMS_CAUSAL | BUSQ_CLAIMS_CONSISTENT | BUSQ_CLAIMS_TOTAL,
    .traits = BUSQ_ORDER_WHOLE_GROUP | BUSQ_ORDER_FIFO_TO_GO_ON,
    .crashes = BUSQ_CRASH_VALIDITY,
    .crashes_go_on = BUSQ_CRASH_VALIDITY | BUSQ_CRASH_AGREEMENT | BUSQ_CRASH_UNIFORM | BUSQ_CRASH_GOES_ON,
    .options = option_names,
    .kinds = kinds,
    .n_kinds = sizeof kinds / sizeof *kinds,
    /* Deliveries go by number, in whatever order DATA comes; TOKEN and WANT have nothing to do with them.  Not a
     * buffer as OUTPUT_BUFFER has it: a submit asks for the token. */
    .quiet_when_all_is_sent = 1u << DATA,
    .options_never_quiet = BUSQ_OPTION_SAFE,
    .idle_stays = 1u << DATA | 1u << TOKEN,
    .head_size = token_head_size,
    .buffers = {{BUSQ_OUTBOX, .own = true}, {BUSQ_HOLDBACK, .own = true, .others = true}},
    .init = token_init,
    .step = token_step, /* no rename: a ring, and a WANT has in its note whose it is */
    .verify = token_verify,
    .gauge = token_gauge,
};
