/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders "cykas" and "cykas-telling": can you keep a secret? (Cykas paper, section 2.)
 *
 *   submit (m -> j):              append to the output buffer OB; pump
 *   pump:                         while OB is not empty, with head (m -> j):
 *                                   stop if MODE > 0 or j is in UNACK
 *                                   if UNACK is empty: send NORMAL(m) to j
 *                                   otherwise: append UNACK + {j} to EAGER_SENT[j], send EAGER(m) to j
 *                                   add j to UNACK; remove the head
 *   receive NORMAL/EAGER(m), s:   if EAGER: MODE += 1; deliver m; send ACK to s
 *   receive ACK from j:           remove j from UNACK and from every set in EAGER_SENT;
 *                                 for each k, while the first set of EAGER_SENT[k] is empty: remove it, send YCT to k; pump
 *   receive YCT:                  MODE -= 1; pump
 *
 * Guarantee: causal order.  A message that is sent while an earlier one is unacknowledged makes its receiver keep
 * silent, from the delivery until the earlier one has arrived; so no process can hear of the later message and reach
 * the receiver of the earlier one before it.  The receiver may work meanwhile.  ACK and YCT are sent even in secret
 * mode.
 *
 * Mechanism: how this file keeps UNACK and EAGER_SENT.  At most one message to each destination is unacknowledged, so
 * UNACK is the set of destinations of unacknowledged messages, and when message number s goes out eagerly, UNACK + {j}
 * are the destinations of the unacknowledged messages up to and including s.  An ACK takes a destination out of UNACK
 * and out of all sets at once, and a later message to the same destination enters none of the older sets.  Hence at all
 * times
 *
 *   the set of eager message s = the destinations of the unacknowledged messages up to and including s,
 *
 * and it is empty exactly when all messages up to s are acknowledged.  So one window is enough, from the oldest
 * unacknowledged message to the newest that was sent: when its front is acknowledged, the acknowledged ones there leave
 * it, and each of them that went out eagerly gets its YCT.  The window and OB are one ring: first what was sent, then
 * what waits.  The sets would cost n bits per eager message; the window costs nothing beside the messages themselves.
 * The set includes j itself, so that a YCT can't overtake its own EAGER.
 *
 * The option own=left-out is for the laboratory.  The paper says both: in section 2.1 that the YCT of figure 2 is sent
 * when its own EAGER is acknowledged too, in section 2.2.1 that for it Alice waits for Carol, and not for Bob, its
 * receiver.  With this option the set of eager message s leaves out its receiver: its YCT is sent as soon as all
 * *earlier* messages are acknowledged, so it may overtake its EAGER.  MODE stays what it is, a count, less one at a
 * YCT, whichever process sent it; at -1 it waits for the EAGER that was overtaken.  The window shows this too: all that
 * is earlier than s is acknowledged exactly when s has come to its front.
 *
 * The options yct= are for the laboratory, too.  Section 2.1: "a process that receives any of the above message types sends
 * ACK back", and YCT is one of them.
 *   acked        A YCT is answered by an ACK like any other, which takes its sender out of UNACK and all sets.  So it may be
 *                taken for the ACK of a message that is still on its way.
 *   acked-unack  A YCT also puts its receiver into UNACK.  So no message follows it before its ACK, but it may itself
 *                follow an unacknowledged message, and then its ACK is taken for that one's.
 *   acked-waits  A YCT also waits while its receiver is in UNACK: what is unacknowledged at any process is one thing.
 * A YCT that stands in UNACK is an entry of the window, in the place of the message that it belongs to, which is done when the
 * YCT is acknowledged.  Where its receiver is in UNACK already, that one bit stands for both.
 *
 * Two more are for the laboratory: what the blog post on sender-side causal delivery asks ("Some design considerations").
 *   ack=late      An EAGER is acknowledged when its YCT comes.
 *   secret=eager  In secret mode a process sends, EAGER only.  The YCT of what it sends so waits, beside the set, until the
 *                 process is out of secret mode.
 *
 * With the option on_crash=go-on no process waits for the dead.  When d is known to be dead,
 *
 *   a message to d:               is sent and done; what is unacknowledged at d counts as acknowledged
 *   suspect d:                    send FLUSH(all that are suspected) to all
 *   secrets of d, at a process:   end when each process that is not suspected has flushed, suspecting d: MODE loses the YCTs
 *                                 that d owes
 * A secret of d is kept for the sake of earlier messages of d, which may still be on their way.  Where they go to a process that has
 * flushed they have arrived; where they go to the dead they will never.
 *
 * "cykas-telling" (section 2.3) may, in secret mode, also send to the sender of its most recently delivered eager
 * message. That is not causal; the paper's figure 3 is the counterexample.
 *
 * Not given: consistent orders of multicasts; a multicast is several messages.  Packets: 2 per normal, 3 per eager
 * message.
 *
 * Proven without a bound: busq/lab/proof/models/cykas.py.
 */
#include "order/point_to_point.h"
#include "order/rename.h"

enum { NORMAL, EAGER, ACK, YCT, FLUSH };

static const busq_order_kind kinds[] = {{"normal", true}, {"eager", true}, {"ack", false}, {"yct", false}, {"flush", false}};
static const busq_order_option_name option_names[] = {
    {"own=left-out", BUSQ_OPTION_OWN_LEFT_OUT, true},
    {"yct=acked", BUSQ_OPTION_YCT_ACKED, true},
    {"yct=acked-unack", BUSQ_OPTION_YCT_UNACK, true},
    {"yct=acked-waits", BUSQ_OPTION_YCT_WAITS, true},
    {"ack=late", BUSQ_OPTION_ACK_LATE, true},
    {"secret=eager", BUSQ_OPTION_SECRET_EAGER, true},
    {"on_crash=go-on", BUSQ_OPTION_GO_ON, true},
    {NULL, 0, false},
};

/* Notes of entries in the window: its YCT is to be sent; its ACK has come; it is a YCT; it was sent in secret mode. */
enum { WAS_EAGER = 1, IS_ACKED = 2, IS_YCT = 4, IN_SECRET = 8 };

/* Behind it, with on_crash=go-on, an outbox with an entry for each process: `to` is how many YCTs that one owes, `note` the dead that it
 * has flushed for.
 * Invariant: n_sent <= ring.count, and the first entry of the window is not acknowledged, or its YCT waits. */
typedef struct {
  busq_order_group group;
  uint32_t n_sent; /* the window: the first n_sent entries of the ring; the others are OB */
  int32_t mode;    /* YCTs that are awaited; 0 is normal mode, less: as many YCTs have overtaken their messages */
  uint32_t may_tell;
  uint32_t secret_from; /* may_tell, in secret mode: the sender of the eager message delivered last; else 0 */
  busq_outbox ring;
} cykas_state;

static void telling_init(void *state)
{
  ((cykas_state *)state)->may_tell = 1;
}

static bool goes_on(const cykas_state *self)
{
  return self->group.options & BUSQ_OPTION_GO_ON;
}

static busq_outbox *others_of(const cykas_state *self)
{
  return busq_outbox_end(&self->ring);
}

static busq_outbox_entry *other_at(const cykas_state *self, uint32_t process)
{
  return busq_outbox_at(others_of(self), process);
}

static void cykas_init(void *state)
{
  const cykas_state *self = state;
  if (goes_on(self))
    others_of(self)->count = self->group.n_processes;
}

static bool is_own_left_out(const cykas_state *self)
{
  return self->group.options & BUSQ_OPTION_OWN_LEFT_OUT;
}

static bool is_yct_acked(const cykas_state *self)
{
  return self->group.options & (BUSQ_OPTION_YCT_ACKED | BUSQ_OPTION_YCT_UNACK | BUSQ_OPTION_YCT_WAITS);
}

static bool is_yct_in_unack(const cykas_state *self)
{
  return self->group.options & (BUSQ_OPTION_YCT_UNACK | BUSQ_OPTION_YCT_WAITS);
}

static bool does_yct_wait(const cykas_state *self)
{
  return self->group.options & BUSQ_OPTION_YCT_WAITS;
}

static bool is_ack_late(const cykas_state *self)
{
  return self->group.options & BUSQ_OPTION_ACK_LATE;
}

static bool sends_in_secret(const cykas_state *self)
{
  return self->group.options & BUSQ_OPTION_SECRET_EAGER;
}

/* The lowest mode there can be: no process sends a second message to a process before the first has arrived, so of
 * every other process one YCT at most is ahead of its message.  Where an ACK may be that of something else, there is no
 * such limit. */
static int32_t mode_min(const cykas_state *self)
{
  if (does_yct_wait(self) || !(is_yct_acked(self) || is_own_left_out(self)))
    return 0;
  return is_yct_acked(self) || is_ack_late(self) ? INT32_MIN : 1 - (int32_t)self->group.n_processes;
}

/* The unacknowledged message or YCT to this process, or NULL. */
static busq_outbox_entry *unacked_to(cykas_state *self, uint32_t process)
{
  for (uint32_t place = 0; place < self->n_sent; place++) {
    busq_outbox_entry *entry = busq_outbox_at(&self->ring, place);
    if (entry->to == process && !(entry->note & IS_ACKED))
      return entry;
  }
  return NULL;
}

static bool may_send(cykas_state *self, uint32_t to)
{
  const bool may_tell = sends_in_secret(self) || (self->may_tell && to == self->secret_from);
  const bool is_silent = self->mode > 0 && !may_tell;
  return !is_silent && !unacked_to(self, to);
}

static void pump(cykas_state *self, busq_order_effects *effects)
{
  while (self->n_sent < self->ring.count) {
    busq_outbox_entry *head = busq_outbox_at(&self->ring, self->n_sent);
    if (!may_send(self, head->to) || !busq_effects_have_room(effects, 2))
      return;
    if (busq_group_suspects(&self->group, head->to)) {
      const busq_outbox_entry lost = busq_outbox_remove(&self->ring, self->n_sent);
      busq_do_sent(effects, lost.message, NULL);
      busq_do_done(effects, lost.message);
      continue;
    }
    const bool is_in_secret = self->mode > 0 && sends_in_secret(self);
    const bool is_eager = self->n_sent > 0 || is_in_secret; /* the window begins with an unacknowledged message, or a secret */
    head->note = (is_eager ? WAS_EAGER : 0) | (is_in_secret ? IN_SECRET : 0);
    self->n_sent++;
    busq_do_sent(effects, head->message, NULL);
    busq_do_send(effects, head->to, (busq_order_packet){.message = head->message, .kind = is_eager ? EAGER : NORMAL});
  }
}

static void send_yct(const busq_outbox_entry *entry, busq_order_effects *effects)
{
  busq_do_send(effects, entry->to, (busq_order_packet){.message = entry->message, .kind = YCT});
}

static bool is_kept(const cykas_state *self, const busq_outbox_entry *entry)
{
  return entry->note & IN_SECRET && self->mode > 0;
}

/* With own=left-out: everything before the first message of the window is acknowledged. */
static void tell_before_ack(cykas_state *self, busq_order_effects *effects)
{
  busq_outbox_entry *first = busq_outbox_at(&self->ring, 0);
  const bool is_due = self->n_sent && (first->note & (WAS_EAGER | IS_ACKED)) == WAS_EAGER;
  if (!is_due || does_yct_wait(self) || is_kept(self, first) || !busq_effects_have_room(effects, 1))
    return;
  first->note &= ~WAS_EAGER;
  send_yct(first, effects);
}

/* Where YCTs stand in UNACK, that of a message that has just left the window takes its room there, behind all that was
 * sent.  False where it does not. */
static bool enter_yct(cykas_state *self, const busq_outbox_entry *told)
{
  if (!is_yct_in_unack(self) || !(told->note & WAS_EAGER) || unacked_to(self, told->to) ||
      busq_group_suspects(&self->group, told->to))
    return false;
  busq_outbox_push(&self->ring, (busq_outbox_entry){0});
  for (uint32_t place = self->ring.count - 1; place > self->n_sent; place--)
    *busq_outbox_at(&self->ring, place) = *busq_outbox_at(&self->ring, place - 1);
  *busq_outbox_at(&self->ring, self->n_sent++) =
      (busq_outbox_entry){.message = told->message, .to = told->to, .note = IS_YCT};
  return true;
}

/* Whether the first entry of the window, which is acknowledged, has to stay for its YCT to wait. */
static bool does_first_wait(cykas_state *self)
{
  const busq_outbox_entry *first = busq_outbox_at(&self->ring, 0);
  return is_kept(self, first) || (does_yct_wait(self) && first->note & WAS_EAGER && unacked_to(self, first->to));
}

/* An acknowledged message at the front of the window leaves it, and may get its YCT if it was a secret.  It is done
 * only now, so that there is room for as many messages as are not done. */
static void tell(cykas_state *self, busq_order_effects *effects)
{
  while (self->n_sent && busq_outbox_at(&self->ring, 0)->note & IS_ACKED && !does_first_wait(self) &&
         busq_effects_have_room(effects, 2)) {
    const busq_outbox_entry first = busq_outbox_pop(&self->ring);
    self->n_sent--;
    if (!enter_yct(self, &first))
      busq_do_done(effects, first.message);
    if (first.note & WAS_EAGER)
      send_yct(&first, effects);
  }
  if (BUSQ_UNLIKELY(is_own_left_out(self)))
    tell_before_ack(self, effects);
}

static int receive_ack(cykas_state *self, uint32_t from)
{
  busq_outbox_entry *entry = unacked_to(self, from);
  if (!entry)
    return is_yct_acked(self) ? BUSQ_OK : BUSQ_CORRUPT;
  entry->note |= IS_ACKED;
  return BUSQ_OK;
}

/* A message that is unacknowledged at the dead has arrived there, or never will. */
static void suspect(cykas_state *self, uint32_t dead, busq_order_effects *effects)
{
  busq_outbox_entry *entry = unacked_to(self, dead);
  if (entry)
    entry->note |= IS_ACKED;
  busq_do_send(effects, BUSQ_TO_ALL, (busq_order_packet){.note = self->group.suspected, .kind = FLUSH});
}

static bool has_arrived_everywhere(const cykas_state *self, uint32_t dead)
{
  for (uint32_t process = 0; process < self->group.n_processes; process++)
    if (process != self->group.self && !busq_group_suspects(&self->group, process) &&
        !(other_at(self, process)->note >> dead & 1))
      return false;
  return true;
}

static void end_secrets_of_the_dead(cykas_state *self)
{
  for (uint32_t process = 0; process < self->group.n_processes && self->group.suspected; process++) {
    if (!busq_group_suspects(&self->group, process) || !has_arrived_everywhere(self, process))
      continue;
    self->mode -= (int32_t)other_at(self, process)->to;
    other_at(self, process)->to = 0;
  }
}

static int receive(cykas_state *self, const busq_order_packet *packet, busq_order_effects *effects)
{
  if (packet->kind == ACK)
    return receive_ack(self, packet->from);
  if (packet->kind == FLUSH && !goes_on(self))
    return BUSQ_CORRUPT;
  if (packet->kind == FLUSH) {
    other_at(self, packet->from)->note |= packet->note;
    return BUSQ_OK;
  }
  if (packet->kind == YCT) {
    if (self->mode == mode_min(self))
      return BUSQ_CORRUPT;
    if (goes_on(self))
      other_at(self, packet->from)->to--;
    if (--self->mode == 0)
      self->secret_from = 0;
    if (is_yct_acked(self) || is_ack_late(self))
      busq_do_send(effects, packet->from, (busq_order_packet){.message = packet->message, .kind = ACK});
    return BUSQ_OK;
  }
  if (packet->kind == EAGER) {
    self->mode++;
    self->secret_from = self->may_tell ? packet->from : 0;
    if (goes_on(self))
      other_at(self, packet->from)->to++;
  }
  if (packet->kind == EAGER && is_ack_late(self)) {
    busq_do_deliver(effects, packet->message);
    return BUSQ_OK;
  }
  busq_do_deliver_and_ack(effects, packet->message, packet->from, ACK);
  return BUSQ_OK;
}

static int cykas_step(void *state, const busq_order_event *event, busq_order_effects *effects)
{
  cykas_state *self = state;
  int result = BUSQ_OK;
  if (event->kind == BUSQ_ON_SUBMIT)
    result = busq_point_to_point_submit(&self->ring, event, effects);
  else if (event->kind == BUSQ_ON_RECEIVE)
    result = receive(self, &event->packet, effects);
  else if (event->kind == BUSQ_ON_SUSPECT)
    suspect(self, event->packet.from, effects);
  if (result == BUSQ_OK)
    end_secrets_of_the_dead(self);
  if (result == BUSQ_OK)
    tell(self, effects);
  if (result == BUSQ_OK && !effects->is_cut)
    pump(self, effects);
  return result;
}

static void cykas_rename(const void *from, void *to, const uint32_t *names)
{
  const cykas_state *self = from;
  cykas_state *renamed = to;
  busq_rename_begin(from, to, busq_order_state_size(&busq_order_cykas, &self->group), names);
  if (self->may_tell && self->mode > 0)
    renamed->secret_from = names[self->secret_from];
  busq_rename_outbox(&renamed->ring, names);
}

static bool cykas_verify(const void *state)
{
  cykas_state *self = (cykas_state *)state;
  if (self->n_sent > self->ring.count || self->may_tell > 1 || self->secret_from >= self->group.n_processes ||
      self->mode < mode_min(self) || (self->secret_from && self->mode <= 0))
    return false;
  if (self->n_sent && busq_outbox_at(&self->ring, 0)->note & IS_ACKED && !does_first_wait(self))
    return false;
  for (uint32_t place = 0; place < self->n_sent; place++) {
    busq_outbox_entry *entry = busq_outbox_at(&self->ring, place);
    const bool is_second = !(entry->note & IS_ACKED) && unacked_to(self, entry->to) != entry;
    if (is_second)
      return false;
  }
  return true;
}

static void cykas_gauge(const void *state, busq_order_gauge *gauge)
{
  const cykas_state *self = state;
  *gauge = (busq_order_gauge){.waiting = self->ring.count, .is_secret = self->mode > 0};
}

/* Events that commute with everything at their receiver.
 *   YCT: a submit that is sent at once before it comes would be sent at once after it too, as MODE only gets lower; and those
 *     that are not sent at once count as late.  Deliveries do not look at MODE, and with OB empty nothing is pumped.
 *   ACK, where no message is left to send: what it takes out of UNACK decides about YCTs alone; they are sent when the last
 *     of the ACKs that they wait for has come, in whatever order those come.  Otherwise it decides whether the next message
 *     is a secret; and where YCTs stand in UNACK, which of them is unacknowledged.
 *   With secret=eager, none: MODE decides how a message is sent, and when its YCT is. */
#define QUIET_ALWAYS (1u << YCT)
#define QUIET_WHEN_ALL_IS_SENT (1u << ACK)

const busq_order busq_order_cykas = {
    .name = "cykas",
    .promise = "causal, by keeping secrets",
    .source = "Cykas paper, section 2.2",
    .claims = BUSQ_CLAIMS_FIFO | BUSQ_CLAIMS_CAUSAL,
    .traits = BUSQ_ORDER_POINT_TO_POINT | BUSQ_ORDER_OUTPUT_BUFFER,
    .crashes = BUSQ_CRASH_VALIDITY | BUSQ_CRASH_AGREEMENT | BUSQ_CRASH_UNIFORM,
    .crashes_go_on = BUSQ_CRASH_VALIDITY | BUSQ_CRASH_AGREEMENT | BUSQ_CRASH_UNIFORM | BUSQ_CRASH_GOES_ON,
    .kinds = kinds,
    .n_kinds = 5,
    .quiet_always = QUIET_ALWAYS,
    .quiet_when_all_is_sent = QUIET_WHEN_ALL_IS_SENT,
    .options_not_quiet = BUSQ_OPTION_YCT_UNACK | BUSQ_OPTION_YCT_WAITS,
    .options_never_quiet = BUSQ_OPTION_SECRET_EAGER,
    .options = option_names,
    .head_bytes = offsetof(cykas_state, ring),
    .buffers = {{BUSQ_OUTBOX, .own = true}, {BUSQ_OUTBOX, .to_go_on = true, .processes = true}},
    .init = cykas_init,
    .step = cykas_step,
    .rename = cykas_rename,
    .options_by_name = BUSQ_OPTION_GO_ON, /* a FLUSH has names */
    .verify = cykas_verify,
    .gauge = cykas_gauge,
};

const busq_order busq_order_cykas_telling = {
    .name = "cykas-telling",
    .promise = "claims to be causal, and is not: in secret mode it tells the teller",
    .source = "Cykas paper, section 2.3",
    .claims = BUSQ_CLAIMS_FIFO | BUSQ_CLAIMS_CAUSAL,
    .traits = BUSQ_ORDER_POINT_TO_POINT | BUSQ_ORDER_OUTPUT_BUFFER | BUSQ_ORDER_LABORATORY,
    .crashes = BUSQ_CRASH_VALIDITY | BUSQ_CRASH_AGREEMENT | BUSQ_CRASH_UNIFORM,
    .kinds = kinds,
    .n_kinds = 4,
    .quiet_always = QUIET_ALWAYS,
    .quiet_when_all_is_sent = QUIET_WHEN_ALL_IS_SENT,
    .head_bytes = offsetof(cykas_state, ring),
    .buffers = {{BUSQ_OUTBOX, .own = true}},
    .init = telling_init,
    .step = cykas_step,
    .rename = cykas_rename,
    .verify = cykas_verify,
    .gauge = cykas_gauge,
};
