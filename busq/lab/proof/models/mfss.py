# SPDX-License-Identifier: Apache-2.0
"""The order `mfss` of `csrc/order/mfss.c`, for any number of processes and messages (the Cykas paper, section 2.1).

The network delays and reorders as it likes: a packet that may arrive is an action that may happen.  A process puts
messages into its output buffer at any time, and sends them one by one.  A message that happened before another is
one on which a chain of sends and deliveries leads to it.  Each function below is one action; its arguments are the
rules that mutants break.
"""

from __future__ import annotations

from collections.abc import Sequence

from busq.lab.proof.logic import *
from busq.lab.proof.models.ends import one_of_each, scene_between
from busq.lab.proof.models.rest import at_rest
from busq.lab.proof.states import Scene

__all__ = [
    "INVARIANTS",
    "NONE_OPEN_THERE",
    "PROPERTIES",
    "STILL",
    "SYSTEM",
    "ahead",
    "before",
    "deliver",
    "delivered",
    "is_open_from",
    "m",
    "m1",
    "m2",
    "p",
    "q",
    "receive_ack",
    "scene",
    "send",
    "sent",
    "source",
    "submit",
    "submit_own",
    "submitted",
    "target",
]

Msg = Sort("Msg")
Proc = Sort("Proc")

source = relation("source", Msg, Proc, is_fixed=True)
target = relation("target", Msg, Proc, is_fixed=True)

submitted, sent, delivered, acked = (relation(name, Msg) for name in ("submitted", "sent", "delivered", "acked"))
ahead = relation("ahead", Msg, Msg)  # one process has submitted the one, and then the other
# History, on which no step depends.
past = relation("past", Msg, Msg)  # the send of the one happened before the send of the other
before = relation("before", Msg, Msg)  # one receiver has delivered the one, and then the other

m, m1, m2, m3 = variables("m m1 m2 m3", Msg)
p, q = variables("p q", Proc)


def is_open_from(proc: Expr, msg: Expr) -> Expr:
    """Return the formula that a message of a process is under way, or its ACK is."""
    return all_of(source(msg, proc), sent(msg), ~acked(msg))


def queued() -> Update:
    """Return the update that puts a message of `p` behind all that `p` has submitted."""
    return map_to(ahead, (m1, m2), ahead(m1, m2) | all_of(same(m2, m), source(m1, p), submitted(m1)))


def remembered() -> Update:
    """Return the update after which all that `p` has sent or delivered, and its past, is past for a message."""
    was_delivered = exists(m3, all_of(target(m3, p), delivered(m3), same(m3, m1) | past(m1, m3)))
    return map_to(past, (m1, m2), past(m1, m2) | all_of(same(m2, m), (source(m1, p) & sent(m1)) | was_delivered))


def appended(to: Expr) -> Update:
    """Return the update after which a process has delivered a message behind all others."""
    return map_to(before, (m1, m2), before(m1, m2) | all_of(same(m2, m), delivered(m1), target(m1, to)))


def submit() -> Action:
    """A process appends a message to its output buffer."""
    guard = all_of(source(m, p), ~target(m, p), ~submitted(m))
    return Action("submit", (m, p), guard, (set_(submitted, m), queued()))


def submit_own() -> Action:
    """A message to oneself is delivered at once and is done, whatever stands in the buffer."""
    at_once = tuple(set_(symbol, m) for symbol in (submitted, sent, delivered, acked))
    return Action(
        "submit_own",
        (m, p),
        all_of(source(m, p), target(m, p), ~submitted(m)),
        (*at_once, queued(), remembered(), appended(p)),
    )


IS_HEAD = forall(m1, ahead(m1, m) >> sent(m1))
NONE_OPEN = forall(m1, ~is_open_from(p, m1))


def send(turn: Expr = IS_HEAD, may_follow: Expr = NONE_OPEN) -> Action:
    """The head of the buffer is sent when nothing is unacknowledged."""
    guard = all_of(source(m, p), submitted(m), ~sent(m), turn, may_follow)
    return Action("send", (m, p), guard, (set_(sent, m), remembered()))


def deliver() -> Action:
    """A message arrives, is delivered, and its ACK is sent, past the output buffer."""
    return Action("deliver", (m, p), all_of(target(m, p), sent(m), ~delivered(m)), (set_(delivered, m), appended(p)))


IS_DELIVERED = delivered(m)


def receive_ack(when: Expr = IS_DELIVERED) -> Action:
    """The ACK arrives."""
    return Action("receive_ack", (m,), all_of(sent(m), ~acked(m), when), (set_(acked, m),))


INVARIANTS = {
    "what is sent was submitted": forall(m, sent(m) >> submitted(m)),
    "what is delivered was sent": forall(m, delivered(m) >> sent(m)),
    "what is acknowledged was delivered": forall(m, acked(m) >> delivered(m)),
    "a message to oneself is done at once": forall(
        m, p, all_of(submitted(m), source(m, p), target(m, p)) >> (sent(m) & acked(m))
    ),
    "a buffer is of what its process has submitted": forall(
        *(m1, m2, p),
        (ahead(m1, m2) & source(m2, p)) >> all_of(submitted(m1), submitted(m2), source(m1, p), ~same(m1, m2)),
    ),
    "a buffer is a line": forall(m1, m2, ahead(m1, m2) >> ~ahead(m2, m1)),
    "what is ahead in the buffer was sent before": forall(
        *(m1, m2, p),
        all_of(ahead(m1, m2), sent(m2), source(m2, p), ~target(m2, p)) >> (sent(m1) & past(m1, m2)),
    ),
    "one message of a process is open": forall(m1, m2, p, (is_open_from(p, m1) & is_open_from(p, m2)) >> same(m1, m2)),
    "the past is of what was sent": forall(m1, m2, past(m1, m2) >> all_of(sent(m1), sent(m2), ~same(m1, m2))),
    "the past was delivered, but for what goes beside it to the sender itself": forall(
        *(m1, m2, p),
        all_of(past(m1, m2), ~delivered(m1), source(m1, p)) >> (source(m2, p) & target(m2, p)),
    ),
    "the history is of deliveries at one place": forall(
        m1, m2, p, (before(m1, m2) & target(m1, p)) >> all_of(delivered(m1), delivered(m2), target(m2, p))
    ),
    "the history is whole": forall(
        *(m1, m2, p),
        all_of(delivered(m1), delivered(m2), target(m1, p), target(m2, p))
        >> any_of(same(m1, m2), before(m1, m2), before(m2, m1)),
    ),
    "the history is without repetition": forall(m1, m2, before(m1, m2) >> ~before(m2, m1)),
    "the history is not against the past": forall(m1, m2, ~(before(m2, m1) & past(m1, m2))),
    "the history is not against the buffer": forall(m1, m2, ~(before(m2, m1) & ahead(m1, m2))),
}

MOVES = (send(), deliver(), receive_ack())
STILL = at_rest(*MOVES)
PROPERTIES = {
    "causality: where an effect was delivered, its cause was before": forall(
        *(m1, m2, q), all_of(past(m1, m2), delivered(m2), target(m1, q), target(m2, q)) >> before(m1, m2)
    ),
    "FIFO: a receiver delivers what one process has sent to it in the order in which that has submitted it": forall(
        *(m1, m2, q), all_of(ahead(m1, m2), delivered(m2), target(m1, q), target(m2, q)) >> before(m1, m2)
    ),
    "one at a time: what a process sends to another is delivered before that sends its next": forall(
        *(m1, m2, p), all_of(ahead(m1, m2), sent(m2), source(m2, p), ~target(m2, p)) >> delivered(m1)
    ),
    "no loss: at rest, what was submitted is delivered, or something ahead of it is not": STILL
    >> forall(m, (submitted(m) & ~delivered(m)) >> exists(m1, ahead(m1, m) & ~delivered(m1))),
    "no invention: only what was sent is delivered": INVARIANTS["what is delivered was sent"],
    "no duplicate: nothing is delivered twice": forall(m, ~before(m, m)),
}

NONE_OPEN_THERE = forall(m1, q, all_of(is_open_from(p, m1), target(m1, q)) >> ~target(m, q))
MUTANTS = (
    Mutant("no-wait", "the head of the buffer is sent at once", (send(may_follow=TRUE),)),
    Mutant(
        "wait-per-receiver",
        "a message waits for the acknowledgement of its own receiver alone (the order fifo-ack)",
        (send(may_follow=NONE_OPEN_THERE),),
    ),
    Mutant("any-of-buffer", "any message of the buffer may be sent, not its head alone", (send(turn=TRUE),)),
    Mutant("early-ack", "the acknowledgement is sent before the message is delivered", (receive_ack(TRUE),)),
)

SYSTEM = System(
    name="mfss",
    meaning="the order mfss, over any network",
    sorts=(Msg, Proc),
    symbols=(source, target, submitted, sent, delivered, acked, ahead, past, before),
    axioms={
        **one_of_each(source, target),
        "a message has a source and a target": forall(m, exists(p, source(m, p)) & exists(p, target(m, p))),
    },
    actions=(submit(), submit_own(), *MOVES),
    invariants=INVARIANTS,
    properties=PROPERTIES,
    mutants=MUTANTS,
)


def scene(messages: Sequence[tuple[int, int]]) -> Scene:
    """Return a scene with the source and the target of each message; processes are numbers from 0."""
    return scene_between(source, target, messages)
