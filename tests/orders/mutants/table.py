# SPDX-License-Identifier: Apache-2.0
"""The mutants: orders with one slip each, of the kind that people make, and what the checker must find broken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Bound:
    """How far a search goes, and what the network does."""

    processes: int
    messages: int
    fan_out: int = 1
    to_all: int = 0  # every message goes to all that it may go to
    with_self: int = 0  # messages may go to their own sender
    doubled: int = 0
    lost: int = 0
    behaviour: str = "free"  # or side: every process hears of every delivery
    crashes: int = 0
    counts_moves: int = 0  # states that differ in their number of moves are different: no circles
    walks: int = 0  # random executions instead of a search

    def arguments(self) -> list[str]:
        return [f"{name}={value}" for name, value in vars(self).items()]

    def __str__(self) -> str:
        text = f"{self.processes} x {self.messages}"
        text += " to all" if self.to_all else f" to {self.fan_out}" if self.fan_out > 1 else ""
        text += " and oneself" if self.with_self else ""
        text += f", {self.doubled} doubled" if self.doubled else ""
        text += f", {self.lost} lost" if self.lost else ""
        text += f", {self.crashes} dead" if self.crashes else ""
        text += f", {self.walks} walks" if self.walks else ""
        text += ", side channels" if self.behaviour == "side" else ""
        return text + (", moves counted" if self.counts_moves else "")


@dataclass(frozen=True)
class Mutant:
    """An order whose file differs in some places; each of the old texts stands there once."""

    order: str
    slip: str  # what is broken, in one sentence
    breaks: str  # the property that is violated
    bound: Bound
    changes: tuple[tuple[str, str], ...]
    source: str = ""  # the file in csrc/order, where it is another one than that of the order

    @property
    def name(self) -> str:
        return f"{self.order}: {self.slip}"

    @property
    def file(self) -> str:
        """In csrc/order."""
        name, _, options = self.order.partition(":")
        if self.source:
            return self.source
        if options == "on_crash=go-on" and name in ("sequencer", "skeen", "abcast"):
            return "successor.c" if name == "sequencer" else "survivors.c"
        name = name.removesuffix("-literal").removesuffix("-telling").replace("-", "_")
        return {"abcast": "skeen"}.get(name, name) + ".c"


def slips(order: str, *rows: tuple[Any, ...], source: str = "") -> list[Mutant]:
    """Of one order; in a row: what is broken, the property that is violated, the bound, and the changes."""
    return [Mutant(order, slip, breaks, bound, tuple(changes), source) for slip, breaks, bound, *changes in rows]


# In both of its forms.
KEEPS_TOKEN = (
    "who passes the token on keeps one",
    "lost",
    Bound(2, 1, to_all=1, with_self=1),
    ("  self->token = AWAY;\n  self->next_number = 0;\n", ""),
)
NUMBER_OF_SES = ("list.clock[packet->from] <= self->clock[packet->from]", "!list.clock[packet->from]")
NUMBER_OF_KS = ("words[1] <= self->delivered[packet->from]", "!words[1]")
GLOBAL = ("  entry->global = largest_local(self, entry);\n", "  entry->global = entry->local;\n")
NO_CHANNELS = ("BUSQ_ORDER_REPLICATED | BUSQ_ORDER_FIFO_CHANNELS", "BUSQ_ORDER_REPLICATED")
FORWARD = "  send_on(message, effects);\n  if (event->is_for_me)\n    busq_do_deliver(effects, message);\n  else"

WBAM = [
    *slips(
        "wbam",
        (
            "DELIVER may overtake another one, and is taken as it comes",
            "total",
            Bound(2, 2, fan_out=2, with_self=1),
            NO_CHANNELS,
            ("packet->stamp <= self->passed)", "0)"),
        ),
        ("it says that it needs no channels that keep the order", "lost", Bound(3, 1), NO_CHANNELS),
        (
            "a sender does not count itself among those that have delivered",
            "stuck",
            Bound(3, 1),
            ("    entry->delivered |= wbam_me(self);\n", "    (void)origin;\n"),
        ),
    ),
    *slips(
        "wbam:group=1",
        (
            "each group takes its own LocalTS for the GlobalTS",
            "total",
            Bound(2, 1, to_all=1, with_self=1),
            GLOBAL,
        ),
        (
            "ACCEPT does not raise the clock",
            "lost",
            Bound(2, 2, fan_out=2, with_self=1),
            ("  self->clock = wbam_larger(self->clock, largest_local(self, entry) >> GROUP_BITS);\n", ""),
        ),
        (
            "it does not wait for what has a smaller LocalTS",
            "lost",
            Bound(2, 1, to_all=1, with_self=1),
            ("wbam_is_undecided(entry) && entry->local <= global", "wbam_is_undecided(entry) && !global"),
        ),
        (
            "it does not wait for what has a smaller LocalTS, and delivers that late",
            "total",
            Bound(2, 2, fan_out=2, with_self=1),
            ("wbam_is_undecided(entry) && entry->local <= global", "wbam_is_undecided(entry) && !global"),
            ("  if (entry->global > self->passed) {", "  if (1) {"),
        ),
        (
            "two messages are proposed with the same time",
            "lost",
            Bound(2, 2, fan_out=2, with_self=1),
            ("++self->clock << GROUP_BITS", "(self->clock + 1) << GROUP_BITS"),
        ),
    ),
    *slips(
        "wbam:group=2",
        (
            "each group takes its own LocalTS for the GlobalTS",
            "total",
            Bound(3, 1, to_all=1, with_self=1),
            GLOBAL,
        ),
        (
            "what is for others is never let go",
            "kept",
            Bound(3, 1),
            ("    busq_do_drop(effects, message);\n", "    (void)effects;\n"),
        ),
    ),
]

MUTANTS = [
    *WBAM,
    *slips(
        "none",
        (
            "a message to a single receiver is not sent",
            "lost",
            Bound(3, 1, fan_out=2),
            ("if (event->n_others)", "if (event->n_others > 1)"),
        ),
        (
            "it is sent to everybody, not to its destinations",
            "phantom",
            Bound(3, 1, fan_out=2),
            ("BUSQ_TO_DESTINATIONS", "BUSQ_TO_ALL"),
        ),
        (
            "nobody is told that a send is done",
            "stuck",
            Bound(2, 1),
            ("  busq_do_done(effects, packet->message);\n", ""),
        ),
    ),
    *slips(
        "fifo",
        (
            "whatever comes is delivered",
            "fifo",
            Bound(2, 2),
            ("if (number <= *last) {", "if (number < 1) {"),
            ("if (number == *last + 1) {", "if (number) {"),
        ),
        (
            "one counter serves all receivers",
            "lost",
            Bound(3, 2),
            ("return &self->numbers[process];", "return &self->numbers[process - process];"),
        ),
        (
            "what was held back behind a gap goes with the first message that comes",
            "lost",
            Bound(2, 3),
            ("if ((number != *last + 1 && next->note != RIPE)", "if ((number < *last + 1 && next->note != RIPE)"),
        ),
        (
            "what came before is delivered once more",
            "duplicated",
            Bound(2, 2, doubled=1),
            ("busq_do_drop(effects, packet->message);", "busq_do_deliver(effects, packet->message);"),
        ),
    ),
    *slips(
        "fifo:on_gap=skip",
        (
            "what comes late, after its gap was skipped, is delivered",
            "fifo",
            Bound(2, 2),
            ("busq_do_drop(effects, packet->message);", "busq_do_deliver(effects, packet->message);"),
        ),
        (
            "behind a gap it counts on, and does not take over the number that it has delivered",
            "fifo",
            Bound(2, 3),
            (
                "*last = number;\n    busq_do_deliver(effects, busq_holdback_remove",
                "++*last;\n    busq_do_deliver(effects, busq_holdback_remove",
            ),
        ),
        (
            "what an alarm has seen once it sees for the first time again",
            "endless",
            Bound(2, 2, lost=1, counts_moves=1),
            (
                "entry->note = entry->from == ripe_from ? RIPE : SEEN;",
                "entry->note = entry->from == ripe_from ? SEEN : SEEN;",
            ),
        ),
        (
            "the alarm is not set again",
            "stuck",
            Bound(2, 2, lost=1),
            ("  set_alarm(self, effects);\n  deliver_all(self, effects);", "  deliver_all(self, effects);"),
        ),
    ),
    *slips(
        "fifo-ack",
        (
            "after an acknowledgement nothing is sent",
            "stuck",
            Bound(2, 2),
            ("  send_next(self, process, effects);\n", ""),
        ),
        (
            "what is on its way is sent again with the next submit",
            "duplicated",
            Bound(2, 2),
            ("first->key != to || first->note)", "first->key != to)"),
        ),
        (
            "a submit does not look whether something is on its way",
            "fifo",
            Bound(2, 2),
            (
                ".message = event->packet.message});\n  send_next(self, event->to, effects);",
                ".message = event->packet.message, .note = 1});\n"
                "  busq_do_sent(effects, event->packet.message, NULL);\n"
                "  busq_do_send(effects, event->to, "
                "(busq_order_packet){.message = event->packet.message, .kind = DATA});",
            ),
        ),
        (
            "an acknowledgement ends the oldest message, whoever has sent it",
            "refused",
            Bound(3, 2),
            (
                "busq_holdback_place(&self->mine, process, 0);",
                "busq_holdback_place(&self->mine, 0, 0);",
            ),
        ),
    ),
    *slips(
        "causal-vector",
        (
            "one message of the past may be missing",
            "causal",
            Bound(3, 1, fan_out=2),
            ("if (clock[process] > self->clock[process] &&", "if (clock[process] > self->clock[process] + 1 &&"),
        ),
        (
            "process 0 is left out when clocks are compared",
            "causal",
            Bound(3, 1, fan_out=2),
            (
                "for (uint32_t process = 0; process < self->group.n_processes; process++)\n    if (clock[process] >",
                "for (uint32_t process = 1; process < self->group.n_processes; process++)\n    if (clock[process] >",
            ),
        ),
        (
            "process 1 does not wait for 0 where 2 has sent",
            "causal",
            Bound(3, 1, fan_out=2),
            (
                "if (clock[process] > self->clock[process] &&",
                "if (clock[process] > self->clock[process]"
                " && !(!process && entry->from == 2 && self->group.self == 1) &&",
            ),
        ),
        (
            "it is sent to its destinations, not to everybody",
            "lost",
            Bound(3, 1),
            ("BUSQ_TO_ALL", "BUSQ_TO_DESTINATIONS"),
        ),
        (
            "after a delivery nobody looks at what is held back",
            "lost",
            Bound(2, 2),
            (
                "busq_causal_wake(held, next.from, blocker, &context);",
                "busq_causal_wake(held, UINT32_MAX - 1, blocker, &context);",
            ),
        ),
        (
            "what is for others is kept for ever",
            "kept",
            Bound(3, 1),
            (
                "    else\n      busq_do_drop(effects, next.message);\n",
                "",
            ),
        ),
        (
            "a newer message of the same sender is let through",
            "refused",
            Bound(2, 2),
            (
                "if (clock[entry->from] != self->clock[entry->from] + 1)",
                "if (clock[entry->from] < self->clock[entry->from] + 1)",
            ),
        ),
    ),
    *slips(
        "prc",
        (
            "it says that it needs no channels that keep the order",
            "fifo",
            Bound(2, 2),
            ("BUSQ_ORDER_WHOLE_GROUP | BUSQ_ORDER_FIFO_CHANNELS", "BUSQ_ORDER_WHOLE_GROUP"),
        ),
        (
            "what comes is not sent on",
            "causal",
            Bound(3, 1, fan_out=2),
            (
                FORWARD,
                "  if (event->is_for_me)\n    busq_do_deliver(effects, message);\n  else",
            ),
        ),
        (
            "what is for others is not sent on",
            "stuck",
            Bound(3, 1),
            (
                FORWARD,
                "  if (event->is_for_me)\n    send_on(message, effects), busq_do_deliver(effects, message);\n  else",
            ),
        ),
        (
            "it is sent on to those who have not sent it",
            "stuck",
            Bound(2, 1),
            (
                "  busq_do_send(effects, BUSQ_TO_ALL,",
                "  busq_do_send(effects, effects->n ? BUSQ_TO_ALL : BUSQ_TO_REST,",
            ),
        ),
        (
            "it is forgotten when the last process has not sent its copy",
            "refused",
            Bound(3, 1),
            (
                "    if (process != self->group.self && !busq_group_suspects(&self->group, process))\n",
                "    if (process != self->group.self && process + 1 < self->group.n_processes)\n",
            ),
        ),
        (
            "the first copy is expected once more",
            "lost",
            Bound(2, 2),
            ("  --expected_from(self, event->packet.from)[busq_message_origin(message)];\n", ""),
        ),
    ),
    *slips(
        "causal-matrix",
        (
            "it does not count the messages of the sender itself",
            "fifo",
            Bound(2, 2),
            ("if ((uint32_t)entry->key != passed(self, entry->from) + 1)", "if (!(uint32_t)entry->key)"),
            ("if (number <= row_of(self, packet->from)[self->group.self])", "if (!number)"),
        ),
        (
            "one message of the past may be missing",
            "lost",
            Bound(3, 1, fan_out=2),
            (
                "[me] > passed(self, process))",
                "[me] > passed(self, process) + 1)",
            ),
        ),
        (
            "a row is taken over, its version is not",
            "causal",
            Bound(3, 1, fan_out=2),
            ("    self->clock[process] = versions[process];\n", ""),
        ),
        (
            "the last row is not merged",
            "causal",
            Bound(3, 1, fan_out=2),
            (
                "process < n; process++) {\n    if (versions[process] <= self->clock[process])",
                "process + 1 < n; process++) {\n    if (versions[process] <= self->clock[process])",
            ),
        ),
        (
            "the matrix of what is delivered is not merged",
            "lost",
            Bound(2, 2),
            ("    merge(self, world, next.message);\n", "    (void)merge;\n"),
        ),
        (
            "only the first destination is counted",
            "refused",
            Bound(3, 1, fan_out=2),
            ("row[event->others[place]]++;", "row[event->others[0]]++;"),
        ),
    ),
    *slips(
        "ses",
        (
            "what a process has sent is not written into its own pairs",
            "fifo",
            Bound(2, 2),
            (
                "    note_sent(self, event->others[place], self->group.self, self->clock);\n",
                "    (void)place;\n",
            ),
            NUMBER_OF_SES,
        ),
        (
            "the pairs of what is delivered are not kept",
            "causal",
            Bound(3, 2),
            ("      raise_to(row_of(self, *row), row + 1, n);\n", "      (void)row;\n"),
            NUMBER_OF_SES,
        ),
        (
            "the other destinations of a multicast are forgotten",
            "causal",
            Bound(3, 1, fan_out=2),
            ("      note_sent(self, list->destinations[place], from, list->clock);\n", "      (void)from;\n"),
            NUMBER_OF_SES,
        ),
        (
            "a delivery does not raise the time",
            "lost",
            Bound(2, 2),
            ("  raise_to(self->clock, list->clock, n);\n", ""),
        ),
    ),
    *slips(
        "ks",
        (
            "what a process has sent is not written into its own log",
            "fifo",
            Bound(2, 2),
            ("    row_of(self, me)[event->others[place]] = number;\n", "    (void)number;\n"),
            NUMBER_OF_KS,
        ),
        (
            "a send makes forget what goes to others, too",
            "causal",
            Bound(3, 2),
            (
                "      row_of(self, process)[event->others[place]] = 0;\n",
                "      memset(row_of(self, process), 0, self->group.n_processes * sizeof(uint32_t));\n",
            ),
        ),
        (
            "of what only one of two knows nothing is kept",
            "causal",
            Bound(3, 2),
            (
                "mine[process] = other > *newest ? other : mine[process] > theirs.newest ? mine[process] : 0;",
                "mine[process] = 0;",
            ),
        ),
        (
            "the other destinations of a multicast are forgotten",
            "causal",
            Bound(3, 1, fan_out=2),
            ("other = is_own ? list->number : forgets(self, true) ? 0 : other;", "other = 0;"),
        ),
        (
            "a delivery is not noted",
            "lost",
            Bound(2, 2),
            ("  self->delivered[from] = list->number;\n", "  (void)list->number;\n"),
        ),
        (
            "what is delivered here is still waited for",
            "invariant",
            Bound(3, 1, fan_out=2),
            ("    if (process == self->group.self)\n      other = 0;\n", ""),
        ),
    ),
    *slips(
        "mfss",
        (
            "after an acknowledgement nothing is sent",
            "stuck",
            Bound(2, 2),
            (
                "if (!effects->is_cut)\n    pump(self, effects);",
                "if (!effects->is_cut && event->kind == BUSQ_ON_SUBMIT)\n    pump(self, effects);",
            ),
        ),
        (
            "an acknowledgement lets everything go that waits",
            "causal",
            Bound(2, 3),
            (
                """  const busq_outbox_entry *head = busq_outbox_at(&self->outbox, 0);
  self->is_unacked = 1;
  busq_do_sent(effects, head->message, NULL);
  busq_do_send(effects, head->to, (busq_order_packet){.message = head->message, .kind = DATA});
""",
                """  self->is_unacked = self->outbox.count;
  for (uint32_t place = 0; place < self->outbox.count; place++) {
    const busq_outbox_entry *head = busq_outbox_at(&self->outbox, place);
    busq_do_sent(effects, head->message, NULL);
    busq_do_send(effects, head->to, (busq_order_packet){.message = head->message, .kind = DATA});
  }
""",
            ),
            ("is_unacked = 0;\n  busq", "is_unacked--;\n  busq"),
        ),
        (
            "what is sent is done, and nobody waits for the acknowledgement",
            "causal",
            Bound(3, 2),
            ("  self->is_unacked = 1;\n", ""),
            (
                "busq_do_send(effects, head->to, (busq_order_packet){.message = head->message, .kind = DATA});",
                "busq_do_send(effects, head->to, (busq_order_packet){.message = head->message, .kind = DATA});\n"
                "  busq_do_done(effects, busq_outbox_pop(&self->outbox).message);",
            ),
            (
                "if (!self->is_unacked || busq_outbox_at(&self->outbox, 0)->to != packet->from)",
                "if (!self->is_unacked)",
            ),
            ("return BUSQ_CORRUPT;", "return BUSQ_OK;"),
        ),
        (
            "what is unacknowledged is sent again with the next submit",
            "duplicated",
            Bound(2, 2),
            ("if (self->is_unacked || !self->outbox.count", "if (!self->outbox.count"),
        ),
        (
            "an acknowledgement does not end the waiting",
            "stuck",
            Bound(2, 2),
            ("is_unacked = 0;\n  busq", "is_unacked = self->outbox.count > 1;\n  busq"),
        ),
    ),
    *slips(
        "cykas",
        (
            "one unacknowledged message is not enough to make the next one eager",
            "causal",
            Bound(3, 2),
            ("self->n_sent > 0 || is", "self->n_sent > 1 || is"),
        ),
        (
            "who keeps one secret may send",
            "causal",
            Bound(3, 2),
            ("self->mode > 0 && !may_tell;", "self->mode > 1 && !may_tell;"),
        ),
        (
            "a second message to the same process does not wait for the first one's acknowledgement",
            "fifo",
            Bound(2, 2),
            ("return !is_silent && !unacked_to(self, to);", "return !is_silent;"),
        ),
        (
            "secrets are not counted: two of them are one",
            "refused",
            Bound(3, 2),
            ("self->mode++;", "self->mode = 1;"),
        ),
        (
            "the secrets of process 0 are not kept",
            "causal",
            Bound(3, 2),
            ("self->mode++;", "self->mode += packet->from > 0;"),
        ),
        (
            "process 1 tells its secrets to process 0",
            "causal",
            Bound(3, 2),
            (
                "const bool is_silent = self->mode > 0 && ",
                "const bool is_silent = self->mode > 0 && !(self->group.self == 1 && to == 0) && ",
            ),
        ),
        (
            "what is last in the window is not told",
            "stuck",
            Bound(3, 2),
            ("if (first.note & WAS_EAGER)", "if (first.note & WAS_EAGER && self->n_sent)"),
        ),
        (
            "after an acknowledgement, or a YCT, nothing is sent",
            "stuck",
            Bound(2, 2),
            (
                "if (result == BUSQ_OK && !effects->is_cut)\n    pump(self, effects);",
                "if (result == BUSQ_OK && !effects->is_cut && event->kind == BUSQ_ON_SUBMIT)\n    pump(self, effects);",
            ),
        ),
    ),
    *slips(
        "sync",
        (
            "who permits stays active",
            "synchronous",
            Bound(3, 2),
            (
                "    send(PERMIT, waiting->to, 0, effects);\n    self->passive_for = waiting->to + 1;",
                "    send(PERMIT, waiting->to, 0, effects);",
            ),
        ),
        (
            "who sends to a smaller process stays active",
            "synchronous",
            Bound(3, 2),
            ("    self->passive_for = busq_outbox_at(mine_of(self), 0)->to + 1;\n", ""),
        ),
        (
            "the acknowledgement of a smaller process does not make active",
            "stuck",
            Bound(3, 1),
            ("if (head.to < self->group.self)", "if (head.to > self->group.self)"),
        ),
        (
            "who is passive delivers what comes from above, and is active again",
            "synchronous",
            Bound(3, 2),
            ("self->passive_for == packet->from + 1)", "self->passive_for != NOBODY)"),
        ),
        (
            "who asks is passive until he is permitted",
            "stuck",
            Bound(3, 1),
            (
                "    self->head = HEAD_IS_ASKING;\n",
                "    self->head = HEAD_IS_ASKING;\n    self->passive_for = head->to + 1;\n",
            ),
        ),
        (
            "a message to a smaller process is done when it is sent",
            "fifo",
            Bound(3, 2),
            (
                "    self->passive_for = busq_outbox_at(mine_of(self), 0)->to + 1;\n",
                "    busq_do_done(effects, busq_outbox_pop(mine_of(self)).message);\n    start_head(self, effects);\n",
            ),
            ("line->count && busq_effects_have_room(effects, 2)", "line->count && busq_effects_have_room(effects, 4)"),
        ),
    ),
    *slips(
        "sequencer",
        (
            "who sends to the coordinator sends to all others himself",
            "total",
            Bound(3, 1, fan_out=2),
            ("if (group->self == COORDINATOR)", "if (group->self == COORDINATOR || event->others[0] == COORDINATOR)"),
        ),
        (
            "the coordinator passes on what is meant for itself, and does not deliver it",
            "lost",
            Bound(2, 1),
            (
                "multicast(event->packet.message, event->is_for_me, effects);",
                "multicast(event->packet.message, false, effects);",
            ),
        ),
        (
            "the coordinator delivers a message before it passes it on",
            "kept",
            Bound(2, 1, fan_out=2, with_self=1),
            (
                "  busq_do_send(effects, BUSQ_TO_DESTINATIONS, "
                "(busq_order_packet){.message = message, .kind = DATA});\n"
                "  if (is_for_me)\n    busq_do_deliver(effects, message);\n",
                "  if (is_for_me)\n    busq_do_deliver(effects, message);\n"
                "  busq_do_send(effects, BUSQ_TO_DESTINATIONS, "
                "(busq_order_packet){.message = message, .kind = DATA});\n",
            ),
        ),
        (
            "what one sends oneself is delivered at once",
            "consistent",
            Bound(2, 1, fan_out=2, with_self=1),
            (
                "  busq_do_sent(effects, message, NULL);\n",
                "  busq_do_sent(effects, message, NULL);\n"
                "  if (event->is_for_me && group->self != COORDINATOR)\n"
                "    busq_do_deliver(effects, message);\n",
            ),
        ),
        (
            "it says that it needs no channels that keep the order",
            "fifo",
            Bound(3, 2),
            ("BUSQ_ORDER_FIFO_CHANNELS | BUSQ_ORDER_COORDINATED", "BUSQ_ORDER_COORDINATED"),
        ),
        (
            "the coordinator sends to everybody, not to the destinations",
            "phantom",
            Bound(3, 1),
            ("BUSQ_TO_DESTINATIONS", "BUSQ_TO_ALL"),
        ),
    ),
    *slips(
        "token",
        (
            "what one sends oneself is ignored in its turn",
            "lost",
            Bound(2, 1, fan_out=2, with_self=1),
            ("if (first.note)", "if (first.note && first.from != self->group.self)"),
        ),
        KEEPS_TOKEN,
        (
            "it delivers whatever number comes",
            "total",
            Bound(3, 1, to_all=1),
            ("busq_holdback_at(held, 0)->key == self->next_delivered &&", "busq_holdback_at(held, 0)->key &&"),
        ),
        (
            "the token parks although somebody is remembered to want it",
            "stuck",
            Bound(3, 1),
            ("self->idle = self->is_wanted ? 0 : idle;", "self->idle = idle;"),
        ),
        (
            "who passes a WANT on does not remember it",
            "stuck",
            Bound(3, 1),
            ("  self->is_wanted = 1;\n", ""),
        ),
        (
            "nobody counts whom the token finds without need, and it never parks",
            "endless",
            Bound(2, 1, counts_moves=1),
            ("take(self, next_number, idle + 1)", "take(self, next_number, idle)"),
        ),
        (
            "who has asked once never asks again",
            "stuck",
            Bound(2, 2),
            ("  self->has_asked = 0;\n", ""),
        ),
        (
            "one's own messages take the room of others",
            "buffers",
            Bound(2, 2, to_all=1, with_self=1),
            ("held->count - self->n_held_own >= self->group.held_max", "held->count >= self->group.held_max"),
        ),
    ),
    *slips(
        "token:delivery=safe",
        (
            "what comes late does not ask for the token",
            "stuck",
            Bound(2, 1),
            ("  if (packet->stamp <= self->counted) {", "  if (0) {"),
        ),
        (
            "a parked token does not set out with what it has numbered",
            "stuck",
            Bound(2, 1),
            ("    self->token = is_safe(&self->group) ? WORKING : self->token;\n", ""),
        ),
        (
            "the token parks as soon as no process wants it",
            "stuck",
            Bound(2, 1),
            (
                "  if (self->aru != aru || self->aru != self->aru_before || both > self->safe)\n    self->idle = 0;\n",
                "  (void)aru;\n",
            ),
        ),
        (
            "who has set aru never raises it",
            "stuck",
            Bound(2, 1),
            (" || self->aru_by == self->group.self + 1) {", ") {"),
        ),
        KEEPS_TOKEN,
        (
            "it delivers whatever number comes",
            "total",
            Bound(2, 1, to_all=1, with_self=1),
            (
                "  return held->count && busq_holdback_at(held, 0)->key == self->next_delivered &&\n"
                "         (!is_safe(&self->group) || self->next_delivered <= self->safe);",
                "  return held->count;",
            ),
        ),
    ),
    *slips(
        "lamport",
        (
            "a clock is not raised by the timestamps that come",
            "invariant",
            Bound(3, 1, to_all=1),
            ("(packet->stamp > self->clock ? packet->stamp : self->clock) + 1;", "self->clock + 1;"),
        ),
        (
            "it releases when one acknowledgement is missing",
            "consistent",
            Bound(2, 1, to_all=1, with_self=1),
            ("busq_outbox_at(mine_of(self), 0)->to == 0 :", "busq_outbox_at(mine_of(self), 0)->to <= 1 :"),
        ),
        (
            "what is first in the queue is delivered without its release",
            "total",
            Bound(3, 1, to_all=1),
            (": first->note & RELEASED;", ": first->note <= RELEASED + FOR_ME;"),
        ),
        (
            "what is for others is kept for ever",
            "kept",
            Bound(3, 1),
            (
                "  else if (entry.from != self->group.self)\n    busq_do_drop(effects, entry.message);\n",
                "",
            ),
        ),
        (
            "nothing is released",
            "lost",
            Bound(2, 1),
            (
                "if (first->from == self->group.self && !is_ack_all(&self->group) && self->group.n_processes > 1)",
                "if (first->from != self->group.self)",
            ),
        ),
        (
            "it says that it needs no channels that keep the order",
            "consistent",
            Bound(2, 2, to_all=1, with_self=1),
            (
                ".traits = BUSQ_ORDER_FIFO_CHANNELS | BUSQ_ORDER_WHOLE_GROUP,",
                ".traits = BUSQ_ORDER_WHOLE_GROUP,",
            ),
        ),
    ),
    *slips(
        "lamport:ack=all",
        (
            "it does not wait for the last process",
            "consistent",
            Bound(2, 2, to_all=1, with_self=1),
            (
                "process < group->n_processes; process++)\n    if (process != group->self && !busq",
                "process + 1 < group->n_processes; process++)\n    if (process != group->self && !busq",
            ),
        ),
        (
            "it acknowledges to the sender alone",
            "lost",
            Bound(3, 1, to_all=1),
            ("is_ack_all(&self->group) ? BUSQ_TO_ALL : packet->from", "packet->from"),
        ),
        (
            "a timestamp one below is as good",
            "consistent",
            Bound(2, 1, to_all=1, with_self=1),
            ("self->heard[process] < timestamp ||", "self->heard[process] + 1 < timestamp ||"),
        ),
    ),
    *slips(
        "lamport",
        (
            "when the first in the queue may go, the last one goes",
            "fifo",
            Bound(2, 2, to_all=1, with_self=1),
            ("deliver_from_place(self, 0, effects);", "deliver_from_place(self, queue->count - 1, effects);"),
        ),
    ),
    *slips(
        "lamport:ack=all",
        (
            "when the first in the queue may go, the last one goes",
            "causal",
            Bound(2, 2, to_all=1, with_self=1),
            ("deliver_from_place(self, 0, effects);", "deliver_from_place(self, queue->count - 1, effects);"),
        ),
    ),
    *slips(
        "lamport",
        (
            "one's own messages take the room of others",
            "buffers",
            Bound(2, 2, to_all=1, with_self=1),
            ("queue->count - mine_of(self)->count >= self->group.held_max", "queue->count >= self->group.held_max"),
        ),
    ),
    *slips(
        "skeen",
        (
            "a sender's clock is not raised by the timestamp that it has decided",
            "consistent",
            Bound(2, 2, to_all=1, with_self=1),
            ("  pass(self, entry->stamp);\n", ""),
        ),
        (
            "it decides when one proposal is missing",
            "total",
            Bound(3, 1, to_all=1),
            ("if (--entry->to)", "if (--entry->to > 1)"),
        ),
        (
            "the last proposal counts, not the largest",
            "total",
            Bound(3, 1, fan_out=2),
            ("  if (packet->stamp > entry->stamp)\n    entry->stamp", "  entry->stamp"),
        ),
        (
            "what is settled stays under the timestamp that was proposed here",
            "total",
            Bound(3, 1, fan_out=2),
            ("  busq_holdback_rekey(queue, place, timestamp);\n", "  (void)timestamp;\n"),
        ),
        (
            "a clock is not raised by the final timestamp",
            "invariant",
            Bound(3, 1, to_all=1),
            ("    pass(self, packet->stamp);\n    settle(", "    settle("),
        ),
        (
            "the final timestamp goes to everybody",
            "genuine",
            Bound(3, 1),
            (
                "BUSQ_TO_DESTINATIONS,\n               (busq_order_packet){.message = packet->message,",
                "BUSQ_TO_ALL,\n               (busq_order_packet){.message = packet->message,",
            ),
        ),
        (
            "one's own messages take the room of others",
            "buffers",
            Bound(2, 2, to_all=1, with_self=1),
            ("queue->count - self->n_queued_own >= self->group.held_max", "queue->count >= self->group.held_max"),
        ),
    ),
    *slips(
        "abcast",
        (
            "the last proposal counts, not the largest",
            "total",
            Bound(3, 1, fan_out=2),
            ("  if (packet->stamp > entry->stamp)\n    entry->stamp", "  entry->stamp"),
        ),
        (
            "a sender's clock is not raised by the priority that it has decided",
            "consistent",
            Bound(2, 2, to_all=1, with_self=1),
            ("  pass(self, entry->stamp);\n", ""),
        ),
    ),
    *slips(
        "bus1",
        (
            "the sender places no block on its own queue",
            "lost",
            Bound(2, 1, fan_out=2, with_self=1),
            ("  if (first->note)\n    place_block(self, first->message, self->group.self);\n", ""),
        ),
        (
            "a block lets messages of the next timestamp pass",
            "consistent",
            Bound(2, 2, to_all=1, with_self=1),
            (".key = 2 * self->clock + 1,", ".key = 2 * self->clock + 3,"),
        ),
        (
            "a destination answers without raising its clock",
            "total",
            Bound(3, 1, to_all=1),
            ("    sync_clock(self, packet->stamp);\n", ""),
        ),
        (
            "the clock is not ticked: a message has the timestamp of another",
            "total",
            Bound(3, 1, to_all=1),
            ("self->timestamp = ++self->clock;", "self->timestamp = self->clock;"),
        ),
        (
            "the message is queued before the clocks of its destinations are synchronised",
            "total",
            Bound(3, 1, fan_out=2),
            (
                "  self->phase = SYNCING;\n  self->n_missing = busq_outbox_at(&self->outbox, 0)->to;\n"
                "  send_to_destinations(SYNC, packet->message, self->timestamp, effects);\n",
                "  commit(self, effects);\n",
            ),
        ),
        (
            "the last answer is not waited for",
            "invariant",
            Bound(3, 1, fan_out=2),
            ("--self->n_missing == 0;", "--self->n_missing <= 1;"),
        ),
        (
            "a send is done before the message is queued",
            "kept",
            Bound(2, 1),
            (
                "  if (first.to && !is_direct(self, &first))\n    send_to_destinations(QUEUE,",
                "  if (!first.note)\n    finish(self, first.message, effects);\n"
                "  if (first.to)\n    send_to_destinations(QUEUE,",
            ),
            ("  else\n    finish(self, first.message, effects);\n", ""),
        ),
        (
            "when the last answer has come, nothing goes on",
            "stuck",
            Bound(2, 2),
            (
                "if (result == BUSQ_OK)\n    advance(self, effects);",
                "if (result == BUSQ_OK && event->packet.kind != SYNCED)\n    advance(self, effects);",
            ),
        ),
        (
            "the queue goes to everybody",
            "genuine",
            Bound(3, 1),
            (
                "busq_do_send(effects, BUSQ_TO_DESTINATIONS, (busq_order_packet){.message = message, .stamp = stamp,",
                "busq_do_send(effects, kind == QUEUE ? BUSQ_TO_ALL : BUSQ_TO_DESTINATIONS,\n"
                "               (busq_order_packet){.message = message, .stamp = stamp,",
            ),
        ),
        (
            "one's own messages take the room of others",
            "buffers",
            Bound(2, 2, to_all=1, with_self=1),
            (
                "queue_of(self)->count - self->n_queued_own < self->group.held_max",
                "queue_of(self)->count < self->group.held_max",
            ),
        ),
        (
            "it is queued, and whoever hears of that may write to where the clock is behind",
            "side",
            Bound(3, 1, fan_out=2, behaviour="side"),
            (
                "  self->phase = SYNCING;\n  self->n_missing = busq_outbox_at(&self->outbox, 0)->to;\n"
                "  send_to_destinations(SYNC, packet->message, self->timestamp, effects);\n",
                "  commit(self, effects);\n",
            ),
        ),
    ),
    *slips(
        "bus1:unicast=direct",
        (
            "the sender of a unicast does not wait for the answer",
            "fifo",
            Bound(2, 2),
            (
                "  if (is_direct(self, first))\n    send_to_destinations(UNICAST, first->message, 0, effects);\n",
                "  if (is_direct(self, first)) {\n    send_to_destinations(UNICAST, first->message, 0, effects);\n"
                "    self->n_missing = 0;\n    commit(self, effects);\n  }\n",
            ),
        ),
        (
            "a unicast does not tick the clock of its destination",
            "causal",
            Bound(3, 1, fan_out=2),
            ("  self->clock++;\n  busq_holdback_insert", "  busq_holdback_insert"),
        ),
        (
            "a unicast passes the blocks that stand before it",
            "causal",
            Bound(3, 1, fan_out=2),
            ("(busq_held_entry){.key = 2 * self->clock,\n", "(busq_held_entry){.key = 0,\n"),
        ),
        (
            "a unicast takes room that is not there",
            "buffers",
            Bound(2, 1),
            (
                "(packet->kind == BLOCK || packet->kind == UNICAST) && !has_room(self)",
                "packet->kind == UNICAST && has_room(self)",
            ),
        ),
    ),
    *slips(
        "bus1:estimate=best",
        (
            "a clock is set to the estimate, even where it was above",
            "total",
            Bound(3, 1, to_all=1),
            ("  sync_clock(self, estimate);\n", "  self->clock = estimate;\n"),
        ),
        (
            "a block stands at the estimate, and the clock stays behind",
            "invariant",
            Bound(3, 1, fan_out=2),
            (
                "  sync_clock(self, estimate);\n  place_block(self, packet->message, packet->from);\n",
                "  const uint64_t before = self->clock;\n  sync_clock(self, estimate);\n"
                "  place_block(self, packet->message, packet->from);\n  self->clock = before;\n",
            ),
        ),
    ),
]

# Orders that are mutants themselves: as they are they break what they claim.
LABORATORY = [
    Mutant("cykas-telling", "in secret mode it tells the teller", "causal", Bound(3, 2), ()),
    Mutant("sync-naive", "acknowledgements queue behind blocking sends", "stuck", Bound(2, 1), ()),
    Mutant("lamport-literal", "a release delivers, whatever stands before", "total", Bound(3, 1, to_all=1), ()),
]
