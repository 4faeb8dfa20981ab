# SPDX-License-Identifier: Apache-2.0
"""The mutants of what orders do when processes die (on_crash=go-on): each rule removed, or weakened."""

from __future__ import annotations

from mutants.table import Bound, Mutant

ONE = Bound(3, 1, to_all=1, crashes=1)  # of the table in docs/explanation/when-processes-die.md
WITH_OWN = Bound(3, 1, to_all=1, with_self=1, crashes=1)
ALONE = Bound(3, 1, crashes=1)
DELIVER_OWN = "  if (event->is_for_me && goes_on)\n    busq_do_deliver(effects, message);\n"
DELIVER = "  if (is_for_me)\n    busq_do_deliver(effects, message);\n"
HAND_ON = (
    "  busq_do_send(effects, BUSQ_TO_ALL, (busq_order_packet)"
    "{.message = message, .stamp = ++self->passed, .kind = DATA});\n"
)


def slips(order: str, *rows: tuple[str, str, Bound, tuple[tuple[str, str], ...]]) -> list[Mutant]:
    return [Mutant(f"{order}:on_crash=go-on", slip, breaks, bound, changes) for slip, breaks, bound, changes in rows]


GO_ON = [
    *slips(
        "causal-vector",
        (
            "what comes is not sent on",
            "agreement",
            ONE,
            (
                (
                    "  else if (goes_on)\n    busq_do_send(effects, BUSQ_TO_REST",
                    "  else if (!goes_on)\n    busq_do_send(effects, BUSQ_TO_REST",
                ),
            ),
        ),
        (
            "a sender delivers its own first",
            "uniform",
            WITH_OWN,
            (("if (event->is_for_me && !goes_on)", "if (event->is_for_me)"), (DELIVER_OWN, "  (void)goes_on;\n")),
        ),
        (
            "what comes a second time is held back once more",
            "stuck",
            ONE,
            (("(goes_on && busq_holdback_find(held, key, packet->message) < held->count)", "false"),),
        ),
        (
            "who sends it on counts as its sender",
            "stuck",
            ONE,
            (("goes_on ? busq_message_origin(packet->message) : packet->from", "packet->from"),),
        ),
    ),
    *slips(
        "sequencer",
        (
            "only the coordinator sends numbers to all",
            "agreement",
            ONE,
            ((HAND_ON, "  ++self->passed;\n  if (gives_numbers(self))\n  " + HAND_ON.replace("++", "")),),
        ),
        (
            "it delivers before it sends to all",
            "uniform",
            WITH_OWN,
            ((HAND_ON + DELIVER, DELIVER + HAND_ON),),
        ),
        (
            "the successor does not wait for what others have got",
            "refused",
            ONE,
            (("&& group->suspected & ~self->flushed[process])", "&& !group->suspected)"),),
        ),
        (
            "nobody says that it has sent on all that came from the dead",
            "stuck",
            ONE,
            (("if (next && next != group->self)", "if (next && next == group->self)"),),
        ),
        (
            "the successor tells nobody that it goes on",
            "stuck",
            ONE,
            (("  busq_do_send(effects, BUSQ_TO_ALL, (busq_order_packet){.kind = GO});\n", ""),),
        ),
        (
            "what the dead was asked for is not asked for again",
            "stuck",
            ONE,
            (("    self->asked = 0;\n", ""),),
        ),
        (
            "the new coordinator is asked once more for what is done",
            "duplicated",
            ONE,
            (
                (
                    "  busq_outbox_pop(outbox_of(self));\n",
                    "  if (gives_numbers(self) || !self->group.suspected)\n    busq_outbox_pop(outbox_of(self));\n",
                ),
            ),
        ),
        (
            "requests go to process 0, whoever lives",
            "stuck",
            ONE,
            (("    self->coordinator = packet->from;\n", ""),),
        ),
        (
            "the highest process takes over, and flushes go to the lowest",
            "stuck",
            ONE,
            (
                (
                    "next_coordinator(group) != group->self ||",
                    "group->self + 1 != group->n_processes || !group->suspected ||",
                ),
            ),
        ),
    ),
    *slips(
        "fifo-ack",
        (
            "only what is on its way to the dead is done, and not what waits behind it",
            "stuck",
            Bound(3, 2, crashes=1),
            (
                (
                    "           acknowledge(self, process, effects))\n      ;",
                    "           acknowledge(self, process, effects))\n      return;",
                ),
            ),
        ),
        (
            "nothing is acknowledged for the dead",
            "stuck",
            ALONE,
            (
                (
                    "< self->group.n_processes && self->group.suspected",
                    "< self->group.n_processes && !self->group.suspected",
                ),
            ),
        ),
    ),
    *slips(
        "sync",
        (
            "who waits for the dead stays passive",
            "stuck",
            ALONE,
            (("  if (self->passive_for == dead + 1)\n    self->passive_for = NOBODY;\n", ""),),
        ),
        (
            "what the dead has asked for stays in line",
            "stuck",
            ALONE,
            ((": waiting->to == dead && waiting->note != DATA)", ": !dead && waiting->note == ACK)"),),
        ),
        (
            "what the dead has sent is forgotten, too",
            "kept",
            ALONE,
            ((": waiting->to == dead && waiting->note != DATA)", ": waiting->to == dead)"),),
        ),
        (
            "a message to the dead stays in line",
            "stuck",
            ALONE,
            (("waiting->note == OWN ? is_head_to_the_dead(self) :", "waiting->note == OWN ? false :"),),
        ),
        (
            "a message to the dead is not done",
            "stuck",
            ALONE,
            (("  end_heads_to_the_dead(self, effects);\n  serve", "  serve"),),
        ),
    ),
]
