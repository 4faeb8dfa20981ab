# SPDX-License-Identifier: Apache-2.0
"""The order `lamport` of `csrc/order/lamport.c` in its usual form, with RELEASE (Garg, section 12.3.2), for any number.

Channels delay what is sent over them as they like, and an ACK comes behind the messages that its process has sent
before it; for what is proven here nothing else need keep the order.  The proof is the one at the head of the C file:
what a process releases comes behind all that was released before, and behind nothing else, because each ACK shows that
its process can only send above it from then on.  Each function below is one action; its arguments are the rules that
mutants break.
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
    m2,
    p,
    queued,
    sender,
    sent,
    stamp,
    submit,
    t,
)

__all__ = ["STILL", "SYSTEM"]

answered = function("answered", Proc, Msg, to=Time)  # the clock that the ACK of that process carries
acked = relation("acked", Msg, Proc)  # it has arrived
released = relation("released", Msg)
marked = relation("marked", Proc, Msg)  # the RELEASE has arrived

(q,) = variables("q", Proc)


def receive_data(passed: Expr = NO_LOWER_THAN_IT) -> Action:
    """A message arrives, the clock passes its timestamp, and an ACK with it goes to the sender."""
    updates = (set_(queued, p, m), put(clock, p, t), put(answered, p, m, t))
    return Action("receive_data", (m, p, t), all_of(sent(m), ~queued(p, m), passed), updates)


ALL_BEFORE_IT = forall(m1, all_of(sender(m1, q), sent(m1), at_most(stamp(m1), answered(q, m))) >> queued(p, m1))


def receive_ack(behind: Expr = ALL_BEFORE_IT) -> Action:
    """An ACK arrives at the sender, behind all that its process had sent before; the clock may pass it."""
    guard = all_of(sender(m, p), queued(q, m), ~same(p, q), ~acked(m, q), NO_LOWER, behind)
    return Action("receive_ack", (m, p, q, t), guard, (set_(acked, m, q), put(clock, p, t)))


ALL_ACKED = forall(q, ~same(p, q) >> acked(m, q))


def release(acknowledged: Expr = ALL_ACKED, turn: Expr = IS_FIRST) -> Action:
    """The first of the queue, with the ACKs of all others, is released by its sender, and delivered there."""
    guard = all_of(sender(m, p), sent(m), ~delivered(p, m), acknowledged, turn)
    return Action("release", (m, p), guard, (set_(released, m), *delivers()))


def receive_release() -> Action:
    """A RELEASE arrives, and its message is marked, if that is in the queue."""
    guard = all_of(released(m), ~sender(m, p), queued(p, m), ~marked(p, m))
    return Action("receive_release", (m, p), guard, (set_(marked, p, m),))


IS_MARKED = marked(p, m)


def deliver(mark: Expr = IS_MARKED, turn: Expr = IS_FIRST) -> Action:
    """The first of the queue, if it is marked, is delivered."""
    guard = all_of(~sender(m, p), queued(p, m), ~delivered(p, m), mark, turn)
    return Action("deliver", (m, p), guard, delivers())


INVARIANTS = {
    **stamped.INVARIANTS,
    "an ACK shows a clock that had reached its message": forall(
        p,
        m,
        (queued(p, m) & ~sender(m, p)) >> all_of(at_most(stamp(m), answered(p, m)), at_most(answered(p, m), clock(p))),
    ),
    "what is acknowledged was queued": forall(p, m, acked(m, p) >> (queued(p, m) & ~sender(m, p))),
    "what was sent before an ACK has arrived": forall(
        *(p, q, m, m1),
        all_of(sender(m, p), acked(m, q), sender(m1, q), sent(m1), at_most(stamp(m1), answered(q, m))) >> queued(p, m1),
    ),
    "what is marked was released": forall(p, m, marked(p, m) >> released(m)),
    "what is delivered was released": forall(p, m, delivered(p, m) >> released(m)),
    "what is released was queued by all": forall(p, m, released(m) >> queued(p, m)),
    "what is below something released was released": forall(
        m1, m2, all_of(released(m2), sent(m1), key_below(stamp(m1), m1, stamp(m2), m2)) >> released(m1)
    ),
}

MOVES = (receive_data(), receive_ack(), release(), receive_release(), deliver())
STILL = at_rest(*MOVES)
PROPERTIES = {
    **stamped.PROPERTIES,
    "no loss: at rest, what was sent is delivered, or something lower is not": STILL
    >> forall(
        *(p, m),
        (sent(m) & ~delivered(p, m))
        >> exists(m1, q, all_of(sent(m1), ~delivered(q, m1), key_below(stamp(m1), m1, stamp(m), m))),
    ),
}

MUTANTS = (
    Mutant("unacknowledged", "a message is released before all have acknowledged it", (release(acknowledged=TRUE),)),
    Mutant("ack-overtakes", "an ACK overtakes what was sent before it", (receive_ack(TRUE),)),
    Mutant("release-any", "a message is released whatever stands before it", (release(turn=TRUE),)),
    Mutant(
        "mark-alone", "what is marked is delivered whatever stands before it (lamport-literal)", (deliver(turn=TRUE),)
    ),
    Mutant("unmarked", "the first of the queue is delivered without a RELEASE", (deliver(mark=TRUE),)),
    Mutant("release-same-time", "a process sends at the time that its clock has", (submit(NO_LOWER),)),
    Mutant("release-no-raise", "the clock does not pass what arrives", (receive_data(NO_LOWER),)),
)

SYSTEM = System(
    name="lamport-release",
    meaning="the order lamport, over channels that keep the order",
    sorts=(Msg, Proc, Time),
    symbols=(*stamped.SYMBOLS, answered, acked, released, marked),
    axioms=stamped.AXIOMS,
    actions=(submit(), *MOVES),
    invariants=INVARIANTS,
    properties=PROPERTIES,
    mutants=MUTANTS,
)
