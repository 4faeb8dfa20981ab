# SPDX-License-Identifier: Apache-2.0
"""The order `lamport` of `csrc/order/lamport.c` with the option ack=all (Garg, section 12.3.2), for any number of each.

Channels keep the order of what is sent over them, and delay it as they like.  An ACK shows a time that the clock of its
sender had reached; so here a process may hear any such time, when all that was sent before has arrived.  The form with
RELEASE is in `lamport_release.py`.  Each function below is one action; its arguments are the rules that mutants break.
"""

from __future__ import annotations

from busq.lab.proof.logic import *
from busq.lab.proof.models import stamped
from busq.lab.proof.models.keys import key_below
from busq.lab.proof.models.rest import at_rest
from busq.lab.proof.models.stamped import (
    IS_FIRST,
    NO_LOWER,
    NO_LOWER_THAN_IT,
    Msg,
    Proc,
    Time,
    clock,
    delivered,
    delivers,
    m,
    m1,
    p,
    queued,
    sender,
    sent,
    stamp,
    submit,
    t,
)

__all__ = ["STILL", "SYSTEM"]

heard = relation("heard", Proc, Proc)  # something came to the first from the second
last = function("last", Proc, Proc, to=Time)  # the timestamp of it

(q,) = variables("q", Proc)
(t1,) = variables("t1", Time)


def receive_data(passed: Expr = NO_LOWER_THAN_IT) -> Action:
    """A message arrives, and the clock passes its timestamp."""
    return Action(
        "receive_data", (m, p, t), all_of(sent(m), ~queued(p, m), passed), (set_(queued, p, m), put(clock, p, t))
    )


ALL_BEFORE_IT = forall(m1, all_of(sender(m1, q), sent(m1), at_most(stamp(m1), t1)) >> queued(p, m1))
NO_LOWER_THAN_HEARD = NO_LOWER & at_most(t1, t)


def hear(behind: Expr = ALL_BEFORE_IT, passed: Expr = NO_LOWER_THAN_HEARD) -> Action:
    """A timestamp arrives that the clock of another process had reached, behind all that it had sent before."""
    updates = (set_(heard, p, q), put(last, p, q, t1), put(clock, p, t))
    is_new = heard(p, q) >> at_most(last(p, q), t1)
    return Action("hear", (p, q, t1, t), all_of(~same(p, q), at_most(t1, clock(q)), is_new, behind, passed), updates)


FROM_ALL = forall(q, ~same(p, q) >> (heard(p, q) & at_most(stamp(m), last(p, q))))


def deliver(from_all: Expr = FROM_ALL) -> Action:
    """The first of the queue is delivered when all others have shown a time that is no lower."""
    return Action("deliver", (m, p), all_of(queued(p, m), ~delivered(p, m), IS_FIRST, from_all), delivers())


INVARIANTS = {
    **stamped.INVARIANTS,
    "what was heard of a clock it has reached": forall(p, q, heard(p, q) >> at_most(last(p, q), clock(q))),
    "what was sent before it was heard has arrived": forall(
        *(p, q, m),
        all_of(heard(p, q), sender(m, q), sent(m), at_most(stamp(m), last(p, q))) >> queued(p, m),
    ),
    "all clocks have reached what is delivered": forall(p, q, m, delivered(p, m) >> at_most(stamp(m), clock(q))),
}

ALL_DATA = forall(p, m, sent(m) >> queued(p, m))
ALL_ACKS = forall(*(p, q, m), (~same(p, q) & queued(q, m)) >> (heard(p, q) & at_most(stamp(m), last(p, q))))
STILL = all_of(ALL_DATA, ALL_ACKS, at_rest(deliver()))
PROPERTIES = {
    **stamped.PROPERTIES,
    "no loss: with all DATA and ACKs, what was sent is delivered, can be, or something lower is not": STILL
    >> forall(
        *(p, m),
        (sent(m) & ~delivered(p, m))
        >> exists(m1, all_of(sent(m1), ~delivered(p, m1), key_below(stamp(m1), m1, stamp(m), m))),
    ),
}

MUTANTS = (
    Mutant("unheard", "the first of the queue is delivered whatever was heard", (deliver(TRUE),)),
    Mutant("acks-overtake", "the channels do not keep the order", (hear(TRUE),)),
    Mutant("same-time", "a process sends at the time that its clock has", (submit(NO_LOWER),)),
    Mutant("no-raise", "the clock does not pass what arrives", (receive_data(NO_LOWER), hear(passed=NO_LOWER))),
)

SYSTEM = System(
    name="lamport",
    meaning="the order lamport with ack=all, over channels that keep the order",
    sorts=(Msg, Proc, Time),
    symbols=(*stamped.SYMBOLS, heard, last),
    axioms=stamped.AXIOMS,
    actions=(submit(), receive_data(), hear(), deliver()),
    invariants=INVARIANTS,
    properties=PROPERTIES,
    mutants=MUTANTS,
)
