# SPDX-License-Identifier: Apache-2.0
"""What both forms of the order `lamport` share: messages to all, delivered in the order of timestamps and names.

A clock may run ahead of what a rule asks for: a message that arrives puts it at any time that is no lower than before,
and no lower than the message's own.  The code takes the next one above both.
"""

from __future__ import annotations

from collections.abc import Sequence

from busq.lab.proof.logic import *
from busq.lab.proof.models.ends import one_of_each
from busq.lab.proof.models.keys import history_invariants, key_below
from busq.lab.proof.states import Scene

__all__ = [
    "ABOVE_THE_CLOCK",
    "AXIOMS",
    "INVARIANTS",
    "IS_FIRST",
    "NO_LOWER",
    "NO_LOWER_THAN_IT",
    "PROPERTIES",
    "SYMBOLS",
    "Msg",
    "Proc",
    "Time",
    "before",
    "clock",
    "delivered",
    "delivers",
    "m",
    "m1",
    "m2",
    "p",
    "queued",
    "scene",
    "sender",
    "sent",
    "stamp",
    "submit",
    "t",
]

Msg = Sort("Msg", is_ordered=True)  # by name, which settles ties
Proc = Sort("Proc")
Time = Sort("Time", is_ordered=True)

sender = relation("sender", Msg, Proc, is_fixed=True)

clock = function("clock", Proc, to=Time)
sent = relation("sent", Msg)
stamp = function("stamp", Msg, to=Time)
queued = relation("queued", Proc, Msg)
delivered = relation("delivered", Proc, Msg)
# History, on which no step depends.
before = relation("before", Proc, Msg, Msg)  # that process has delivered the one, and then the other
cause = relation("cause", Msg, Msg)  # the sender of the other had delivered the one, or sent it

SYMBOLS = (sender, clock, sent, stamp, queued, delivered, before, cause)

m, m1, m2 = variables("m m1 m2", Msg)
p, p1, p2 = variables("p p1 p2", Proc)
(t,) = variables("t", Time)

ABOVE_THE_CLOCK = below(clock(p), t)
NO_LOWER = at_most(clock(p), t)
NO_LOWER_THAN_IT = NO_LOWER & at_most(stamp(m), t)
IS_FIRST = forall(m1, all_of(queued(p, m1), ~delivered(p, m1)) >> ~key_below(stamp(m1), m1, stamp(m), m))


def submit(when: Expr = ABOVE_THE_CLOCK) -> Action:
    """A process ticks, queues its message, and sends it to all."""
    known = all_of(same(m2, m), any_of(delivered(p, m1), sender(m1, p) & sent(m1)))
    return Action(
        "submit",
        (m, p, t),
        all_of(sender(m, p), ~sent(m), when),
        (
            put(clock, p, t),
            set_(sent, m),
            put(stamp, m, t),
            set_(queued, p, m),
            map_to(cause, (m1, m2), cause(m1, m2) | known),
        ),
    )


def delivers() -> tuple[Update, Update]:
    """Return the updates after which `p` has delivered a message behind all others."""
    follows = all_of(same(p1, p), same(m2, m), delivered(p, m1))
    return set_(delivered, p, m), map_to(before, (p1, m1, m2), before(p1, m1, m2) | follows)


INVARIANTS = {
    "what was sent has a sender": forall(m, sent(m) >> exists(p, sender(m, p))),
    "what is queued was sent": forall(p, m, queued(p, m) >> sent(m)),
    "what is delivered was queued": forall(p, m, delivered(p, m) >> queued(p, m)),
    "a process queues what it sends": forall(p, m, (sender(m, p) & sent(m)) >> queued(p, m)),
    "a clock has reached what is queued": forall(p, m, queued(p, m) >> at_most(stamp(m), clock(p))),
    "what is still to come is above what is delivered": forall(
        *(p, m1, m2),
        all_of(delivered(p, m1), sent(m2), ~delivered(p, m2)) >> key_below(stamp(m1), m1, stamp(m2), m2),
    ),
    **history_invariants(p, (m1, m2), delivered, before, stamp),
    "causes have lower timestamps": forall(
        m1, m2, cause(m1, m2) >> all_of(sent(m1), sent(m2), below(stamp(m1), stamp(m2)))
    ),
}

PROPERTIES = {
    "consistency: no two processes deliver two messages in opposite orders": forall(
        *(p1, p2, m1, m2), ~(before(p1, m1, m2) & before(p2, m2, m1))
    ),
    "total order: every process delivers in ascending order of one unique key": INVARIANTS[
        "the history is in the order of keys"
    ],
    "no gap: what is delivered comes after all that has a lower key, now and for ever": forall(
        *(p, m1, m2),
        all_of(delivered(p, m2), sent(m1), key_below(stamp(m1), m1, stamp(m2), m2)) >> before(p, m1, m2),
    ),
    "causality: what a process has sent or delivered comes before what it sends then": forall(
        *(p, m1, m2), all_of(cause(m1, m2), delivered(p, m2)) >> before(p, m1, m2)
    ),
    "no invention, no duplicate: only what was sent is delivered, and once": forall(
        p, m, all_of(delivered(p, m) >> sent(m), ~before(p, m, m))
    ),
}

AXIOMS = one_of_each(sender)


def scene(senders: Sequence[int], *, processes: int = 2, times: int = 4) -> Scene:
    """Return a scene with the sender of each message; processes are numbers from 0."""
    return Scene({Msg: len(senders), Proc: processes, Time: times}, {sender: frozenset(enumerate(senders))})
