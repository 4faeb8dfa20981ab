/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUSQ_ORDER_ORDER_H
#define BUSQ_ORDER_ORDER_H
/*
 * The waist: an ordering protocol as a machine that takes events and gives effects.
 *
 * Guarantee.  A protocol is one constant struct.  Its step function sees its own state, one event and, of a message,
 * only what never changes; it has no clock, no randomness, no memory of its own and does no I/O.  So the same state and
 * the same event always give the same state and the same effects, wherever it runs: the simulator moves its packets
 * through a heap of times, the live driver through mailboxes of a bus, the checker through every interleaving, the
 * stage as its user decides.
 *
 * Mechanism.  A group is n processes, numbered from 0.  The state of a process is one block of busq_order.state_size
 * bytes without pointers, which a driver may copy, compare and hash: what is not in use is zero.  A driver
 *   1. calls busq_order_init once, with a block of zeros;
 *   2. calls step for every event, and performs the effects in their order;
 *   3. while effects.is_cut, since there was more to do than room for its effects, calls step again with BUSQ_ON_MORE, before
 *      any other event.
 * A refused event has changed nothing: BUSQ_FULL, no room to keep the message (at a submit, while waiting_max messages
 * are not done; under a rendezvous perhaps while one is not); BUSQ_CORRUPT, a packet that no process of this order
 * sends.  Drivers call busq_order_run, which does 2 and 3, and refuses what makes no sense under any order.
 *
 * Messages and packets.  A message is what an application submits; its name is (origin << 32 | number), numbers
 * counting from 1 at every origin.  A packet is what travels.  Payload, destinations and clock belong to the message
 * and never change; they stay with the driver, and a packet whose kind `has_payload` brings all three along.  A driver
 * keeps them
 *   at the origin         from the submit until BUSQ_DO_DONE;
 *   at a destination      from the packet with the payload until BUSQ_DO_DELIVER or BUSQ_DO_DROP;
 *   at any other one      while the packet with the payload is received, that is until the step has returned; but in orders of the
 *                         whole group (WHOLE_GROUP) or of replicas (REPLICATED), where it has its place in the order too, until
 *                         BUSQ_DO_DROP.
 * Sending to BUSQ_TO_DESTINATIONS or BUSQ_TO_ALL is one effect; the driver knows the destinations.
 *
 * Orders whose traits have POINT_TO_POINT see one destination per message: the driver submits a multicast as several
 * messages, in the order given.  A message to oneself is one whose `is_for_me` is set at the submit.
 *
 * Crashes.  A process may die between any two effects, and, where a packet goes to several, between any two receivers.
 * What it has handed to a channel arrives: mailboxes outlive their writers.  Where the options have
 * BUSQ_OPTION_GO_ON, a driver gives every process that lives BUSQ_ON_SUSPECT for every one that died, once, and after
 * the last packet of the dead to it has arrived.  It suspects none that lives.  What an order promises then is in
 * `crashes`; its claims about order it keeps anyhow, for a dead process looks like a slow one.
 *
 * Not given: more than `crashes` has when processes die, and, but for what `fifo` promises about gaps, when the network loses or
 * doubles packets. Packets may overtake each other unless the traits have FIFO_CHANNELS, or FIFO_TO_GO_ON and the options GO_ON.
 */
#include "base/types.h"
#include "busq.h"

/* ---- events ---- */

typedef enum {
  BUSQ_ON_SUBMIT = 0,  /* the application sends packet.message */
  BUSQ_ON_RECEIVE = 1, /* a packet has come */
  BUSQ_ON_TICK = 2,    /* the time of a BUSQ_DO_ALARM is over */
  BUSQ_ON_MORE = 3,    /* go on: the last step had more effects than room */
  BUSQ_ON_SUSPECT = 4  /* the process packet.from is dead, and nothing of it will come any more; the group has it */
} busq_order_event_kind;

typedef struct {
  uint64_t message; /* 0: it is about none */
  uint64_t stamp;   /* a sequence number, a Lamport timestamp: as the kind has it */
  uint32_t note;    /* the same */
  uint32_t kind;    /* a place in busq_order.kinds */
  uint32_t from;    /* the sender of the packet; the driver writes it */
  uint32_t unused;
} busq_order_packet;

/* The facts about a message that a driver knows and that never change.  To be asked about messages that it keeps
 * (see above) only. */
typedef struct busq_order_world busq_order_world;
struct busq_order_world {
  /* The vector clock, or the list, that BUSQ_DO_SENT gave; of a matrix clock, the versions of its rows.  Row k of version v holds
   * how many messages k had sent to each process when it had sent v messages; it never changes, so a driver needs to
   * keep it only once. */
  const uint32_t *(*vector)(const busq_order_world *world, uint64_t message);
  /* One row of its matrix clock. */
  const uint32_t *(*row)(const busq_order_world *world, uint64_t message, uint32_t row);
};

typedef struct {
  uint32_t kind;     /* a busq_order_event_kind */
  uint32_t to;       /* submit, POINT_TO_POINT: the destination, perhaps oneself */
  uint32_t n_others; /* submit: destinations other than oneself */
  const uint32_t *others; /* submit: their names, each once */
  bool is_for_me;    /* the process is one of the message's destinations */
  busq_order_packet packet;
  const busq_order_world *world;
} busq_order_event;

/* ---- effects ---- */

typedef enum {
  BUSQ_DO_SEND = 0,    /* packet travels to `to` */
  BUSQ_DO_DELIVER = 1, /* packet.message goes to the application */
  BUSQ_DO_DROP = 2,    /* packet.message will not be delivered here: it is for others, or came late after a gap was skipped */
  BUSQ_DO_SENT = 3,    /* packet.message is sent now: its send event, and `clock` is its clock.  Comes before its first packet. */
  BUSQ_DO_DONE = 4,    /* the origin will not be asked for packet.message again; a rendezvous is over */
  BUSQ_DO_ALARM = 5,   /* a BUSQ_ON_TICK is wanted after packet.stamp nanoseconds */
  BUSQ_DO_IGNORE = 6   /* the packet that has come changes nothing: the payload that it brought need not be kept, but as before */
} busq_order_effect_kind;

#define BUSQ_TO_DESTINATIONS (UINT32_MAX - 1) /* all destinations of the message, but not to the sender of this packet */
#define BUSQ_TO_ALL (UINT32_MAX - 2)          /* all processes of the group, but not to the sender of this packet */
#define BUSQ_TO_REST (UINT32_MAX - 3)         /* the same, nor to the origin of the message */

typedef struct {
  uint32_t kind; /* a busq_order_effect_kind */
  uint32_t to;
  busq_order_packet packet;
  const uint32_t *clock; /* points into the state, for the driver to copy: see busq_clock_words */
} busq_order_effect;

/* The outcome for a message that has to do with a node, where its turn has come. */
typedef enum {
  BUSQ_NODE_TAKEN = 0,
  BUSQ_NODE_PASSED = 1, /* the application does not get it: the node has ended, or the message ends one whose handle is not here */
  BUSQ_NODE_DEAD = 2    /* it does, and the handle that came along is dead */
} busq_node_fate;

/* Under BUSQ_OPTION_NODES the note of a BUSQ_DO_SENT is the part of its message, and that of a BUSQ_DO_DELIVER a busq_node_fate; both
 * are 0 otherwise.  A part: which node's handle the message has, from 1, or which it ends; 0: none. */
enum { BUSQ_NODE_OWNER = 0 };

static inline uint32_t busq_node_part(uint32_t node, bool is_end)
{
  return node << 1 | is_end;
}

static inline uint32_t busq_node_of(uint32_t part)
{
  return part >> 1;
}

static inline bool busq_node_is_end(uint32_t part)
{
  return part & 1;
}

enum { BUSQ_ORDER_EFFECTS_MIN = 8 };

/* Invariant: n <= max, and max >= BUSQ_ORDER_EFFECTS_MIN. */
typedef struct {
  busq_order_effect *items;
  uint32_t n;
  uint32_t max;
  bool is_cut;
} busq_order_effects;

/* ---- protocols ---- */

/* The words of a clock in a group of n: of a matrix n versions, then its n rows; of a list the most that it may have, and its
 * first word is how many follow. */
static inline size_t busq_clock_words(uint32_t shape, size_t n)
{
  return shape == BUSQ_CLOCK_NONE     ? 0
         : shape == BUSQ_CLOCK_VECTOR ? n
         : shape == BUSQ_CLOCK_MATRIX ? n + n * n
                                      : 2 + n + 2 * n * n;
}

/* How many of them this clock has. */
static inline size_t busq_clock_used(uint32_t shape, size_t n, const uint32_t *clock)
{
  return shape == BUSQ_CLOCK_LIST ? 1 + (size_t)clock[0] : busq_clock_words(shape, n);
}

/* Options of single orders; an order takes those that it lists. */
typedef enum {
  BUSQ_OPTION_ACK_ALL = 1,   /* lamport: acknowledge to all, no release */
  BUSQ_OPTION_SKIP_GAPS = 2, /* fifo: after patience_ns go on without what is missing */
  BUSQ_OPTION_DIRECT_UNICAST = 8, /* bus1: a message to one other process goes without a block */
  BUSQ_OPTION_BEST_ESTIMATE = 16, /* bus1: a block stands at the best estimate of the timestamp to come */
  BUSQ_OPTION_OWN_LEFT_OUT = 4, /* cykas, for the laboratory: a YCT does not wait for the ACK of the message that it belongs to */
  BUSQ_OPTION_YCT_ACKED = 32,   /* likewise: a YCT is acknowledged, */
  BUSQ_OPTION_YCT_UNACK = 64,   /* and its receiver stands in UNACK until then, */
  BUSQ_OPTION_YCT_WAITS = 128,  /* and as long as it stands there for another reason, the YCT waits */
  BUSQ_OPTION_ACK_LATE = 256,   /* likewise: an eager message is acknowledged when its YCT comes */
  BUSQ_OPTION_SECRET_EAGER = 512, /* likewise: in secret mode a process sends, eagerly */
  BUSQ_OPTION_SAFE = 2048,      /* token: a message is delivered when all processes have it */
  BUSQ_OPTION_GROUP_1 = 4096,   /* wbam: how many processes form a group; */
  BUSQ_OPTION_GROUP_2 = 8192,   /* see busq_order_replicas */
  BUSQ_OPTION_GROUP_5 = 16384,
  BUSQ_OPTION_NODES = BUSQ_ORDER_NODES, /* bus1, for the laboratory: messages have to do with nodes of process 0 */
  BUSQ_OPTION_GO_ON = BUSQ_ORDER_GO_ON /* the living go on when processes die */
} busq_order_option;

typedef struct {
  const char *name; /* as people write it: "ack=all" */
  uint32_t option;
  bool is_experiment; /* for the laboratory: taken, but not offered; what the order claims is not known to hold with it
                       * (but for BUSQ_OPTION_GO_ON and BUSQ_OPTION_NODES) */
} busq_order_option_name;

extern const busq_order_option_name busq_order_may_go_on[]; /* of orders that have no other option */

/* Every state begins with its group.  held_max has to cover what all others may have outstanding towards this
 * process, or what is refused may be what everything else waits for; fifo, causal-vector and causal-matrix get on
 * with 1. Invariant: self < n_processes. */
typedef struct {
  uint32_t n_processes;
  uint32_t self;
  uint32_t waiting_max; /* messages of one's own that may be between their submit and BUSQ_DO_DONE */
  uint32_t held_max;    /* messages of others that may be held back; see below */
  uint32_t options;     /* busq_order_option */
  uint32_t suspected;   /* a set of bits; deaths are known in groups of at most BUSQ_ORDER_MORTALS_MAX */
  uint64_t patience_ns; /* before a gap is skipped */
} busq_order_group;

enum { BUSQ_ORDER_MORTALS_MAX = 32 };

/* How many processes form a group of replicas, where the traits have REPLICATED: neighbours, from 0; the last may be smaller. */
static inline uint32_t busq_order_replicas(uint32_t options)
{
  return options & BUSQ_OPTION_GROUP_1 ? 1 : options & BUSQ_OPTION_GROUP_2 ? 2 : options & BUSQ_OPTION_GROUP_5 ? 5 : 3;
}

static inline bool busq_group_suspects(const busq_order_group *group, uint32_t process)
{
  return process < BUSQ_ORDER_MORTALS_MAX && group->suspected >> process & 1;
}

typedef struct {
  const char *name; /* in transcripts and pictures: "eager", "ack" */
  bool has_payload;
} busq_order_kind;

/* How a state looks from outside, for measurements and pictures. */
typedef struct {
  uint32_t waiting; /* messages of one's own that wait to be sent, or for their end */
  uint32_t held;    /* messages of others that came and were not delivered so far */
  bool is_secret;   /* it may receive and work, but not send */
} busq_order_gauge;

/* Of messages: an outbox (queue/outbox.h), or a hold-back buffer (queue/holdback.h).  It has room for as many as
 * there may be of one's own, of others and of processes, as far as they are named, and for some more. */
typedef struct {
  uint8_t kind; /* 0: there is none */
  bool to_go_on; /* there is none but under BUSQ_OPTION_GO_ON */
  bool own;
  bool others;
  bool processes;
  int more;
} busq_order_buffer;

enum { BUSQ_OUTBOX = 1, BUSQ_HOLDBACK = 2 };

typedef struct {
  const char *name;
  const char *promise; /* a line for people */
  const char *source;
  uint32_t claims;
  uint32_t traits;
  uint32_t crashes;       /* busq_order_crash: what holds among the living when any number of processes but one die, */
  uint32_t crashes_go_on; /* and under BUSQ_OPTION_GO_ON, */
  uint32_t crashes_majority; /* and under that, while more than half of each group of replicas live; 0: it has no such groups */
  busq_order_clock_shape clock;
  const busq_order_kind *kinds;
  uint32_t n_kinds;
  /* Kinds of packets, as sets of bits, whose arrival commutes with everything else that can happen to its receiver
   * before it: the same state and the same packets come of it, whichever comes first.  For the checker.  Always:
   * where messages are submitted only when they are sent at once; otherwise as soon as the receiver has nothing left
   * to send. */
  uint32_t quiet_always;
  uint32_t quiet_when_all_is_sent;
  uint32_t options_not_quiet; /* busq_order_option: under these, no kind is in quiet_when_all_is_sent */
  uint32_t options_never_quiet; /* and under these, no kind is in either */
  /* The same where processes die, under BUSQ_OPTION_GO_ON.  A packet whose arrival has no effect, and of one of these kinds, may come
   * earlier: whatever else its receiver takes before it then has the effects that it has without, in their order, and perhaps more
   * behind them, deliveries alone if there are others, and comes to the same state with it.  Always; when the news of no death can
   * come to its receiver before it; or, where it changes no state either: it will never change one, nor have an effect. */
  uint32_t silent_always;
  uint32_t silent_at_last;
  uint32_t idle_stays;
  const busq_order_option_name *options; /* ends with a name that is NULL; may be NULL */
  /* The state: a head that begins with the group, and the buffers behind it.  Where the head has arrays, head_size
   * returns how long it is; where both are 0, it is the group alone. */
  size_t head_bytes;
  size_t (*head_size)(const busq_order_group *group);
  busq_order_buffer buffers[2];
  /* The order's own part of a new state, and whether that part of a state is sound; NULL: there is none. */
  void (*init)(void *state);
  int (*step)(void *state, const busq_order_event *event, busq_order_effects *effects); /* BUSQ_OK, _FULL or _CORRUPT */
  /* For the checker, which need not look at two states that differ by names only.  Writes into `to` the state that this one is in a
   * group where every process p is called names[p], a permutation that leaves the first n_roles processes their names: each of
   * those has a role of its own.  NULL where names decide: they break ties, or are a ring.
   *
   * The law: renaming first and playing the renamed event then comes to the same as playing the event and renaming
   * then: the same effects, and the same bytes, or at least a state that can never be distinguished from it.  Messages are renamed in
   * their origins, packets in their messages, senders and receivers, clocks in their places; stamps and notes of packets
   * stay as they are, so an order that writes names there has no rename.
   *
   * Names do decide under the options in options_by_name.  With delivers_by_name several messages that one step delivers, none of
   * which causes another, come in the order of names: code that looks at more than what was delivered must not rename. */
  void (*rename)(const void *from, void *to, const uint32_t *names);
  uint32_t n_roles;
  /* Likewise, where processes die; the states are those of all that live.  NULL: there is nothing to be forgotten.
   *   forget   takes out of the clock of a message what can't matter any more;
   *   rebase   takes from all timestamps, in states and in packets in flight, what they have in common: the same happens then, with
   *            timestamps that are smaller by that.  Returns how much it is. */
  void (*forget)(uint64_t message, uint32_t *clock, void *const *states, uint32_t n_states);
  uint64_t (*rebase)(void *const *states, uint32_t n_states, busq_order_packet *packets, uint32_t n_packets);
  uint32_t options_by_name; /* busq_order_option */
  bool delivers_by_name;
  bool (*verify)(const void *state);
  void (*gauge)(const void *state, busq_order_gauge *gauge); /* NULL: always 0 */
} busq_order;

extern const busq_order busq_order_none, busq_order_fifo, busq_order_fifo_ack, busq_order_sync, busq_order_sync_naive,
    busq_order_causal_vector, busq_order_prc, busq_order_causal_matrix, busq_order_ses, busq_order_ks, busq_order_mfss, busq_order_cykas, busq_order_cykas_telling,
    busq_order_sequencer, busq_order_token, busq_order_lamport, busq_order_lamport_literal, busq_order_skeen, busq_order_wbam, busq_order_abcast, busq_order_bus1;

/* All orders, the weakest first; ends with NULL. */
extern const busq_order *const busq_orders[];

/* Reads "lamport" or "lamport:ack=all"; NULL with an error text where there is no such order or option. */
const busq_order *busq_order_parse(const char *text, uint32_t *optionsp);

size_t busq_order_state_size(const busq_order *order, const busq_order_group *group);
/* The state is a block of zeros. */
void busq_order_init(const busq_order *order, void *state, const busq_order_group *group);
/* Whether the state is sound; to be asked between events, not before a BUSQ_ON_MORE. */
bool busq_order_verify(const busq_order *order, const void *state);

static inline busq_order_gauge busq_order_look(const busq_order *order, const void *state)
{
  busq_order_gauge gauge = {0};
  if (order->gauge)
    order->gauge(state, &gauge);
  return gauge;
}

static inline int busq_order_step(const busq_order *order, void *state, const busq_order_event *event,
                                  busq_order_effects *effects)
{
  const busq_order_group *group = (const busq_order_group *)state;
  const busq_order_packet *packet = &event->packet;
  if (event->kind == BUSQ_ON_RECEIVE &&
      BUSQ_UNLIKELY(packet->kind >= order->n_kinds || packet->from >= group->n_processes || packet->from == group->self))
    return BUSQ_CORRUPT;
  if (BUSQ_UNLIKELY(event->kind == BUSQ_ON_SUSPECT))
    ((busq_order_group *)state)->suspected |= 1u << packet->from; /* before the order hears of it */
  return order->step(state, event, effects);
}

/* The hands of a driver in a run.  Each function gives BUSQ_OK, or ends the run with something else; all but perform
 * may be NULL. */
typedef struct {
  /* After a step, before its effects: how its result counts. */
  int (*stepped)(void *driver, const busq_order_event *event, const busq_order_effects *effects, int result);
  int (*perform)(void *driver, busq_order_effect *effect);
  int (*performed)(void *driver); /* after the last effect of a step */
} busq_order_hands;

/* One event and all that comes of it.  BUSQ_OK, or what has ended it: if that was a later step than the first, the
 * event has become BUSQ_ON_MORE.  `effects` has room, and is empty.  Inlined, so that drivers are called directly. */
__attribute__((always_inline)) static inline int busq_order_run(const busq_order *order, void *state,
                                                                busq_order_event *event, busq_order_effects *effects,
                                                                const busq_order_hands *hands, void *driver)
{
  for (;; event->kind = BUSQ_ON_MORE) {
    effects->n = 0;
    effects->is_cut = false;
    int result = busq_order_step(order, state, event, effects);
    if (hands->stepped)
      result = hands->stepped(driver, event, effects, result);
    for (uint32_t place = 0; place < effects->n && result == BUSQ_OK; place++)
      result = hands->perform(driver, &effects->items[place]);
    if (hands->performed && result == BUSQ_OK)
      result = hands->performed(driver);
    if (result != BUSQ_OK || !effects->is_cut)
      return result;
  }
}

/* Whether the channels of a network keep the order, `channels` being a busq_channels. */
static inline bool busq_channels_keep_order(const busq_order *order, uint32_t options, uint32_t channels)
{
  const uint32_t needs = BUSQ_ORDER_FIFO_CHANNELS | (options & BUSQ_OPTION_GO_ON ? BUSQ_ORDER_FIFO_TO_GO_ON : 0u);
  return channels == BUSQ_CHANNELS_FIFO || (channels == BUSQ_CHANNELS_AS_NEEDED && order->traits & needs);
}

/* Whether processes other than the destinations keep a message until they drop it. */
static inline bool busq_order_keeps_for_others(const busq_order *order)
{
  return order->traits & (BUSQ_ORDER_WHOLE_GROUP | BUSQ_ORDER_REPLICATED);
}

/* The largest group that it is for. */
static inline uint32_t busq_order_processes_max(const busq_order *order, uint32_t options)
{
  return options & BUSQ_OPTION_GO_ON || order->traits & BUSQ_ORDER_REPLICATED ? BUSQ_ORDER_MORTALS_MAX : UINT32_MAX;
}

enum { BUSQ_ORDER_SAFE_BITS = 24 };

/* BUSQ_INVALID where a group may have more messages in flight at a time than its order bears. */
int busq_order_check_in_flight(uint32_t options, uint64_t n_messages);

static inline uint64_t busq_message_name(uint32_t origin, uint32_t number)
{
  return (uint64_t)origin << 32 | number;
}

static inline uint32_t busq_message_origin(uint64_t message)
{
  return (uint32_t)(message >> 32);
}

static inline uint32_t busq_message_number(uint64_t message)
{
  return (uint32_t)message;
}

/* ---- for protocols: writing effects ---- */

/* Whether n more effects fit.  If not, the step ends, and goes on with BUSQ_ON_MORE. */
static inline bool busq_effects_have_room(busq_order_effects *effects, uint32_t n)
{
  const bool has_room = effects->max - effects->n >= n;
  effects->is_cut |= !has_room;
  return has_room;
}

static inline busq_order_effect *busq_effects_add(busq_order_effects *effects, uint32_t kind, uint64_t message)
{
  busq_order_effect *effect = &effects->items[effects->n++];
  *effect = (busq_order_effect){.kind = kind, .packet = {.message = message}};
  return effect;
}

static inline void busq_do_send(busq_order_effects *effects, uint32_t to, busq_order_packet packet)
{
  busq_effects_add(effects, BUSQ_DO_SEND, 0)->packet = packet;
  effects->items[effects->n - 1].to = to;
}

static inline void busq_do_deliver(busq_order_effects *effects, uint64_t message)
{
  busq_effects_add(effects, BUSQ_DO_DELIVER, message);
}

static inline void busq_do_drop(busq_order_effects *effects, uint64_t message)
{
  busq_effects_add(effects, BUSQ_DO_DROP, message);
}

static inline void busq_do_ignore(busq_order_effects *effects)
{
  busq_effects_add(effects, BUSQ_DO_IGNORE, 0);
}

static inline void busq_do_sent(busq_order_effects *effects, uint64_t message, const uint32_t *clock)
{
  busq_effects_add(effects, BUSQ_DO_SENT, message)->clock = clock;
}

static inline void busq_do_done(busq_order_effects *effects, uint64_t message)
{
  busq_effects_add(effects, BUSQ_DO_DONE, message);
}

static inline void busq_do_alarm(busq_order_effects *effects, uint64_t delay_ns)
{
  busq_effects_add(effects, BUSQ_DO_ALARM, 0)->packet.stamp = delay_ns;
}

/* Delivers, and answers `from`, which sent the message, with a packet of the kind `ack_kind`. */
static inline void busq_do_deliver_and_ack(busq_order_effects *effects, uint64_t message, uint32_t from,
                                           uint32_t ack_kind)
{
  busq_do_deliver(effects, message);
  busq_do_send(effects, from, (busq_order_packet){.message = message, .kind = ack_kind});
}

/* A message to oneself alone, where the order's promise asks for nothing more than to deliver it at once. */
static inline void busq_do_deliver_own(busq_order_effects *effects, uint64_t message)
{
  busq_do_sent(effects, message, NULL);
  busq_do_deliver(effects, message);
  busq_do_done(effects, message);
}

#endif /* BUSQ_ORDER_ORDER_H */
