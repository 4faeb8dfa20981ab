# SPDX-License-Identifier: Apache-2.0
"""The order `cykas` of `csrc/order/cykas.c`, for any number of processes and messages (Proposition 3.1 of the paper).

The network delays and reorders as it likes: a packet that may arrive is an action that may happen.  A message that
happened before another is one on which a chain of sends and deliveries leads to it; ACK and YCT count for nothing in
that.  Each function below is one action; its arguments are the rules that mutants break.
"""

from __future__ import annotations

from collections.abc import Sequence

from busq.lab.proof.logic import *
from busq.lab.proof.models.ends import one_of_each, scene_between
from busq.lab.proof.models.rest import at_rest
from busq.lab.proof.states import Scene

__all__ = ["STILL", "SYSTEM", "scene"]

Msg = Sort("Msg")
Proc = Sort("Proc")

source = relation("source", Msg, Proc, is_fixed=True)
target = relation("target", Msg, Proc, is_fixed=True)
sent, eager, delivered, acked = (relation(name, Msg) for name in ("sent", "eager", "delivered", "acked"))
told, heard = relation("told", Msg), relation("heard", Msg)  # its YCT is under way; it has arrived
waits = relation("waits", Msg, Proc)  # EAGER_SENT: that process is in the set of that message
# History, on which no step depends.
past = relation("past", Msg, Msg)  # the send of the one happened before the send of the other
before = relation("before", Msg, Msg)  # one receiver has delivered the one, and then the other

m, m1, m2, m3 = variables("m m1 m2 m3", Msg)
p, q, p1 = variables("p q p1", Proc)


def is_open_from(proc: Expr, msg: Expr) -> Expr:
    """Return the formula that a message of a process is under way, or its ACK is."""
    return all_of(source(msg, proc), sent(msg), ~acked(msg))


def keeps_silent(msg: Expr) -> Expr:
    """Return the formula that an eager message keeps `p` in secret mode."""
    return all_of(target(msg, p), delivered(msg), eager(msg), ~heard(msg))


IS_SILENT = exists(m1, keeps_silent(m1))
HAS_OPEN = exists(m1, is_open_from(p, m1))
NONE_OPEN_THERE = forall(m1, is_open_from(p, m1) >> ~target(m1, q))


def send(silent: Expr = IS_SILENT, will_be_eager: Expr = HAS_OPEN, may_follow: Expr = NONE_OPEN_THERE) -> Action:
    """A process that is not silent sends, eagerly if a message of its own is open, one at a time to each receiver."""
    is_waited_for = any_of(same(p1, q), exists(m2, is_open_from(p, m2) & target(m2, p1)))
    was_delivered = exists(m3, all_of(target(m3, p), delivered(m3), same(m3, m1) | past(m1, m3)))
    is_past = any_of(source(m1, p) & sent(m1), was_delivered)
    return Action(
        "send",
        (m, p, q),
        all_of(source(m, p), target(m, q), ~sent(m), ~silent, may_follow),
        (
            set_(sent, m),
            put(eager, m, will_be_eager),
            map_to(waits, (m1, p1), any_of(~same(m1, m) & waits(m1, p1), same(m1, m) & is_waited_for)),
            map_to(past, (m1, m2), past(m1, m2) | (same(m2, m) & is_past)),
        ),
    )


def deliver() -> Action:
    """A message arrives, is delivered, and its ACK is sent."""
    is_here = exists(p, target(m1, p) & target(m, p))
    added = all_of(same(m2, m), delivered(m1), is_here)
    return Action(
        "deliver",
        (m,),
        sent(m) & ~delivered(m),
        (set_(delivered, m), map_to(before, (m1, m2), before(m1, m2) | added)),
    )


def receive_ack() -> Action:
    """The sender takes the receiver out of all its sets."""
    return Action(
        "receive_ack",
        (m, p, q),
        all_of(delivered(m), ~acked(m), source(m, p), target(m, q)),
        (set_(acked, m), map_to(waits, (m1, p1), waits(m1, p1) & ~(source(m1, p) & same(p1, q)))),
    )


SET_IS_EMPTY = forall(p, ~waits(m, p))


def send_yct(when: Expr = SET_IS_EMPTY) -> Action:
    """The set of an eager message is empty: its YCT is sent."""
    return Action("send_yct", (m,), all_of(sent(m), eager(m), ~told(m), when), (set_(told, m),))


def receive_yct() -> Action:
    """A YCT arrives."""
    return Action("receive_yct", (m,), told(m) & ~heard(m), (set_(heard, m),))


INVARIANTS = {
    "what is delivered was sent": forall(m, delivered(m) >> sent(m)),
    "what is acknowledged was delivered": forall(m, acked(m) >> delivered(m)),
    "a YCT is of what was sent eagerly, and waits for no process": forall(
        m, p, told(m) >> all_of(sent(m), eager(m), ~waits(m, p))
    ),
    "a YCT that arrives was sent": forall(m, heard(m) >> told(m)),
    "the past is of what was sent": forall(m1, m2, past(m1, m2) >> all_of(sent(m1), sent(m2), ~same(m1, m2))),
    "one message to a process is open": forall(
        *(m1, m2, p, q),
        all_of(is_open_from(p, m1), is_open_from(p, m2), target(m1, q), target(m2, q)) >> same(m1, m2),
    ),
    "a YCT comes behind its message": forall(m, told(m) >> acked(m)),
    "a message that is not acknowledged waits for its receiver": forall(
        m, q, all_of(sent(m), target(m, q), ~acked(m)) >> waits(m, q)
    ),
    "what follows an undelivered message is of its sender, eager, to another process, and waits for it": forall(
        *(m1, m2, p, q),
        all_of(past(m1, m2), ~delivered(m1), source(m1, p), target(m1, q))
        >> all_of(source(m2, p), ~target(m2, q), eager(m2), waits(m2, q)),
    ),
    "the history is of deliveries": forall(m1, m2, before(m1, m2) >> (delivered(m1) & delivered(m2))),
    "the history is not against the past": forall(m1, m2, ~(before(m2, m1) & past(m1, m2))),
    "the history is whole": forall(
        *(m1, m2, p),
        all_of(delivered(m1), delivered(m2), target(m1, p), target(m2, p))
        >> any_of(same(m1, m2), before(m1, m2), before(m2, m1)),
    ),
    "the history is without repetition": forall(m, ~before(m, m)),
    "a process that is waited for owes an ACK": forall(
        *(m, p, q),
        all_of(sent(m), source(m, p), waits(m, q)) >> exists(m1, is_open_from(p, m1) & target(m1, q)),
    ),
}

OWED = exists(m1, is_open_from(p, m1))
MOVES = (deliver(), receive_ack(), send_yct(), receive_yct())
STILL = at_rest(*MOVES)
PROPERTIES = {
    "causality: no receiver delivers an effect, and then its cause (Proposition 3.1)": INVARIANTS[
        "the history is not against the past"
    ],
    "causality: where an effect was delivered, its cause was before": forall(
        *(m1, m2, q), all_of(past(m1, m2), delivered(m2), target(m1, q), target(m2, q)) >> before(m1, m2)
    ),
    "no endless silence: a YCT is under way, or can be sent, or an ACK is owed to its sender (3.2, its core)": forall(
        *(m, p),
        all_of(delivered(m), eager(m), ~heard(m), source(m, p)) >> any_of(told(m), forall(q, ~waits(m, q)), OWED),
    ),
    "no loss, no endless silence: at rest, all is delivered, and no process is silent": STILL
    >> forall(m, all_of(sent(m) >> delivered(m), ~exists(p, keeps_silent(m)))),
    "no invention: only what was sent is delivered": INVARIANTS["what is delivered was sent"],
    "no duplicate: nothing is delivered twice": INVARIANTS["the history is without repetition"],
}

TELLS = exists(m1, keeps_silent(m1) & source(m1, q))
MUTANTS = (
    Mutant(
        "telling",
        "in secret mode a process may send to the process whose message keeps it silent (figure 3)",
        (send(silent=IS_SILENT & ~TELLS),),
    ),
    Mutant(
        "impatient", "a second message goes to a process before the first is acknowledged", (send(may_follow=TRUE),)
    ),
    Mutant("not-silent", "secret mode is ignored", (send(silent=FALSE),)),
    Mutant("early-yct", "the YCT is sent when its own message is acknowledged", (send_yct(acked(m)),)),
    Mutant("all-normal", "no message is eager", (send(will_be_eager=FALSE),)),
)

SYSTEM = System(
    name="cykas",
    meaning="the order cykas, over any network",
    sorts=(Msg, Proc),
    symbols=(source, target, sent, eager, delivered, acked, told, heard, waits, past, before),
    axioms={
        **one_of_each(source, target),
        "a message has a source and a target": forall(m, exists(p, source(m, p)) & exists(p, target(m, p))),
        "no message goes to its source": forall(m, p, ~(source(m, p) & target(m, p))),
    },
    actions=(send(), *MOVES),
    invariants=INVARIANTS,
    properties=PROPERTIES,
    mutants=MUTANTS,
)


def scene(messages: Sequence[tuple[int, int]]) -> Scene:
    """Return a scene with the source and the target of each message; processes are numbers from 0."""
    return scene_between(source, target, messages)
