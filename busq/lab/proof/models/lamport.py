# SPDX-License-Identifier: Apache-2.0
"""The order `lamport` of `csrc/order/lamport.c` with the option ack=all (Garg, section 12.3.2), for any number of each.

Channels keep the order of what is sent over them, and delay it as they like.  An ACK shows a time that the clock of its
sender had reached; so here a process may hear any such time, when all that was sent before has arrived.  With RELEASE
instead, the order's usual form, another argument is needed, which is not here.  Each function below is one action; its
arguments are the rules that mutants break.
"""

from __future__ import annotations

from collections.abc import Sequence

from busq.lab.proof.logic import (
    TRUE,
    Action,
    Expr,
    Mutant,
    Sort,
    System,
    all_of,
    any_of,
    at_most,
    below,
    either,
    exists,
    forall,
    function,
    map_to,
    put,
    relation,
    same,
    set_,
    variables,
)
from busq.lab.proof.models.keys import history_invariants, key_below
from busq.lab.proof.states import Scene

__all__ = ["SYSTEM", "scene"]

Msg = Sort("Msg", is_ordered=True)  # by name, which settles ties
Proc = Sort("Proc")
Time = Sort("Time", is_ordered=True)

sender = relation("sender", Msg, Proc, is_fixed=True)

clock = function("clock", Proc, to=Time)
sent = relation("sent", Msg)
stamp = function("stamp", Msg, to=Time)
queued = relation("queued", Proc, Msg)
heard = relation("heard", Proc, Proc)  # something came to the first from the second
last = function("last", Proc, Proc, to=Time)  # the timestamp of it
delivered = relation("delivered", Proc, Msg)
# History, on which no step depends.
before = relation("before", Proc, Msg, Msg)  # that process has delivered the one, and then the other
cause = relation("cause", Msg, Msg)  # the sender of the other had delivered the one, or sent it

m, m1, m2 = variables("m m1 m2", Msg)
p, p1, p2, q = variables("p p1 p2 q", Proc)
(t,) = variables("t", Time)

ABOVE_THE_CLOCK = below(clock(p), t)


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


def raised(to: Expr) -> Expr:
    """Return the clock of a process that has seen a time."""
    return either(below(clock(p), to), to, clock(p))


def receive_data(raises: bool = True) -> Action:
    """A message arrives, and the clock passes its timestamp."""
    update = put(clock, p, raised(stamp(m)) if raises else clock(p))
    return Action("receive_data", (m, p), sent(m) & ~queued(p, m), (set_(queued, p, m), update))


ALL_BEFORE_IT = forall(m1, all_of(sender(m1, q), sent(m1), at_most(stamp(m1), t)) >> queued(p, m1))


def hear(behind: Expr = ALL_BEFORE_IT, raises: bool = True) -> Action:
    """A timestamp arrives that the clock of another process had reached, behind all that it had sent before."""
    updates = (set_(heard, p, q), put(last, p, q, t), put(clock, p, raised(t) if raises else clock(p)))
    is_new = heard(p, q) >> at_most(last(p, q), t)
    return Action("hear", (p, q, t), all_of(~same(p, q), at_most(t, clock(q)), is_new, behind), updates)


FROM_ALL = forall(q, ~same(p, q) >> (heard(p, q) & at_most(stamp(m), last(p, q))))


def deliver(from_all: Expr = FROM_ALL) -> Action:
    """The first of the queue is delivered when all others have shown a time that is no lower."""
    is_first = forall(m1, all_of(queued(p, m1), ~delivered(p, m1)) >> ~key_below(stamp(m1), m1, stamp(m), m))
    return Action(
        "deliver",
        (m, p),
        all_of(queued(p, m), ~delivered(p, m), is_first, from_all),
        (
            set_(delivered, p, m),
            map_to(before, (p1, m1, m2), before(p1, m1, m2) | all_of(same(p1, p), same(m2, m), delivered(p, m1))),
        ),
    )


INVARIANTS = {
    "what was sent has a sender": forall(m, sent(m) >> exists(p, sender(m, p))),
    "what is queued was sent": forall(p, m, queued(p, m) >> sent(m)),
    "what is delivered was queued": forall(p, m, delivered(p, m) >> queued(p, m)),
    "a process queues what it sends": forall(p, m, (sender(m, p) & sent(m)) >> queued(p, m)),
    "a clock has reached what is queued": forall(p, m, queued(p, m) >> at_most(stamp(m), clock(p))),
    "what was heard of a clock it has reached": forall(p, q, heard(p, q) >> at_most(last(p, q), clock(q))),
    "what was sent before it was heard has arrived": forall(
        *(p, q, m),
        all_of(heard(p, q), sender(m, q), sent(m), at_most(stamp(m), last(p, q))) >> queued(p, m),
    ),
    "all clocks have reached what is delivered": forall(p, q, m, delivered(p, m) >> at_most(stamp(m), clock(q))),
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

MUTANTS = (
    Mutant("unheard", "the first of the queue is delivered whatever was heard", (deliver(TRUE),)),
    Mutant("acks-overtake", "the channels do not keep the order", (hear(TRUE),)),
    Mutant("same-time", "a process sends at the time that its clock has", (submit(at_most(clock(p), t)),)),
    Mutant("no-raise", "the clock does not pass what arrives", (receive_data(raises=False), hear(raises=False))),
)

SYSTEM = System(
    name="lamport",
    meaning="the order lamport with ack=all, over channels that keep the order",
    sorts=(Msg, Proc, Time),
    symbols=(sender, clock, sent, stamp, queued, heard, last, delivered, before, cause),
    axioms={"a message has one sender": forall(m, p1, p2, (sender(m, p1) & sender(m, p2)) >> same(p1, p2))},
    actions=(submit(), receive_data(), hear(), deliver()),
    invariants=INVARIANTS,
    properties=PROPERTIES,
    mutants=MUTANTS,
)


def scene(senders: Sequence[int], *, processes: int = 2, times: int = 4) -> Scene:
    """Return a scene with the sender of each message; processes are numbers from 0."""
    return Scene({Msg: len(senders), Proc: processes, Time: times}, {sender: frozenset(enumerate(senders))})
