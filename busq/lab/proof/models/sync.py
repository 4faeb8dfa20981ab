# SPDX-License-Identifier: Apache-2.0
"""The order `sync` of `csrc/order/sync.c`, for any number of processes and messages (in the manner of Murty and Garg).

The network delays and reorders as it likes.  What waits in the line of a process until that is active waits in the
network here: both may take any time.  The output buffer is left out, since only its first message matters: a message
becomes that in the step in which its process asks to send it, or sends it.  So are messages to oneself, which are
delivered in the moment in which they are sent.  Each function below is one action; its arguments are the rules that
mutants break.

The proof gives every message an instant, as the head of the C file does: what goes to a smaller process has it when it
is delivered, what goes to a bigger one when it is sent.  The history keeps the order of instants beside the relation
that must have no circle, and the relation turns out to lie within that order.
"""

from __future__ import annotations

from collections.abc import Sequence

from busq.lab.proof.logic import *
from busq.lab.proof.models.ends import one_of_each, scene_between
from busq.lab.proof.models.rest import at_rest
from busq.lab.proof.states import Scene

__all__ = ["STILL", "SYSTEM", "scene"]

Msg = Sort("Msg")
Proc = Sort("Proc", is_ordered=True)  # by number

source = relation("source", Msg, Proc, is_fixed=True)
target = relation("target", Msg, Proc, is_fixed=True)
goes_up = relation("goes_up", Msg, is_fixed=True)  # to a bigger process

waiting = relation("waiting", Proc)  # it is passive
waits_on = function("waits_on", Proc, to=Proc)  # if so, for that smaller process
head = function("head", Proc, to=Msg)  # its first message
asking = relation("asking", Msg)  # that waits for a PERMIT
requested = relation("requested", Proc, Proc)  # a REQUEST is under way, or stands in the line
permitted = relation("permitted", Proc, Proc)  # and a PERMIT
sent, delivered, done = (relation(name, Msg) for name in ("sent", "delivered", "done"))
# History, on which no step depends.
aware = relation("aware", Proc, Msg)  # the send of that message happened before what the process does next
past = relation("past", Msg, Msg)  # the send of the one happened before the send of the other
leads = relation("leads", Msg, Msg)  # and before its delivery, or by way of other messages of which that is true
earlier = relation("earlier", Msg, Msg)  # the instant of the one came first
before = relation("before", Msg, Msg)  # one receiver has delivered the one, and then the other

m, m1, m2, m3 = variables("m m1 m2 m3", Msg)
p, q, p1 = variables("p q p1", Proc)


def passive(proc: Expr, other: Expr) -> Expr:
    """Return the formula that a process is passive for that other one."""
    return waiting(proc) & same(waits_on(proc), other)


def is_open(msg: Expr) -> Expr:
    """Return the formula that a message is its process's first one, and is not over."""
    return any_of(asking(msg), sent(msg) & ~done(msg))


def is_underway(msg: Expr) -> Expr:
    """Return the formula that a message was sent and has not arrived."""
    return sent(msg) & ~delivered(msg)


def had_its_instant(msg: Expr) -> Expr:
    """Return the formula that a message has an instant."""
    return any_of(sent(msg) & goes_up(msg), delivered(msg))


def waits_for(proc: Expr, other: Expr) -> tuple[Update, Update]:
    """Return the updates after which a process is passive for that other one."""
    return set_(waiting, proc), put(waits_on, proc, other)


def remembered() -> tuple[Update, Update]:
    """Return the updates after which what `p` is aware of is past for its message."""
    return map_to(past, (m1, m2), past(m1, m2) | (same(m2, m) & aware(p, m1))), set_(aware, p, m)


def instant(now: Expr) -> Update:
    """Return the update that gives a message its instant, behind all others, if that is now."""
    return map_to(earlier, (m1, m2), earlier(m1, m2) | all_of(same(m2, m), now, had_its_instant(m1)))


NONE_OPEN = forall(m1, source(m1, p) >> ~is_open(m1))


def ask(may_follow: Expr = NONE_OPEN) -> Action:
    """The first message of a process goes to a bigger one: it sends a REQUEST."""
    guard = all_of(source(m, p), target(m, q), below(p, q), ~sent(m), ~asking(m), may_follow)
    return Action("ask", (m, p, q), guard, (put(head, p, m), set_(asking, m), set_(requested, p, q)))


Q_IS_ACTIVE = ~waiting(q)


def permit(when: Expr = Q_IS_ACTIVE, waits: bool = True) -> Action:
    """A process that is active answers a REQUEST of a smaller one, and is passive for it."""
    is_passive = waits_for(q, p) if waits else ()
    updates = (clear(requested, p, q), set_(permitted, q, p), *is_passive)
    return Action("permit", (p, q), requested(p, q) & when, updates)


IS_PERMITTED = permitted(q, p)
P_IS_ACTIVE = ~waiting(p)


def send_up(allowed: Expr = IS_PERMITTED, when: Expr = P_IS_ACTIVE) -> Action:
    """A process that is active and has a PERMIT sends what it has asked for, and stays active."""
    guard = all_of(asking(m), source(m, p), allowed, when)
    updates = (set_(sent, m), clear(asking, m), clear(permitted, q, p), *remembered(), instant(TRUE))
    return Action("send_up", (m, p, q), guard, updates)


def send_down(may_follow: Expr = NONE_OPEN, when: Expr = P_IS_ACTIVE, waits: bool = True) -> Action:
    """A process that is active sends its first message to a smaller one, and is passive for it."""
    is_passive = waits_for(p, q) if waits else ()
    guard = all_of(source(m, p), target(m, q), below(q, p), ~sent(m), may_follow, when)
    return Action("send_down", (m, p, q), guard, (put(head, p, m), set_(sent, m), *is_passive, *remembered()))


IS_EXPECTED = any_of(Q_IS_ACTIVE, passive(q, p))


def deliver(when: Expr = IS_EXPECTED) -> Action:
    """A message arrives at a process that is active, or passive for its sender: that delivers, and is active."""
    is_known = all_of(~same(m3, m), aware(q, m3) | past(m3, m))
    from_it = any_of(same(m1, m3), leads(m1, m3))
    to_it = any_of(same(m2, m), leads(m, m2))
    return Action(
        "deliver",
        (m, p, q),
        all_of(source(m, p), target(m, q), is_underway(m), when),
        (
            set_(delivered, m),
            map_to(waiting, (p1,), waiting(p1) & ~(same(p1, q) & passive(q, p))),
            map_to(aware, (p1, m1), aware(p1, m1) | all_of(same(p1, q), same(m1, m) | past(m1, m))),
            map_to(leads, (m1, m2), leads(m1, m2) | all_of(to_it, exists(m3, is_known & from_it))),
            instant(~goes_up(m)),
            map_to(before, (m1, m2), before(m1, m2) | all_of(same(m2, m), delivered(m1), target(m1, q))),
        ),
    )


IS_DELIVERED = delivered(m)


def receive_ack(when: Expr = IS_DELIVERED) -> Action:
    """The ACK arrives: the message is over, and its sender, if it was passive for that, is active."""
    is_over = all_of(same(p1, p), ~goes_up(m))
    guard = all_of(source(m, p), sent(m), ~done(m), when)
    return Action("receive_ack", (m, p), guard, (set_(done, m), map_to(waiting, (p1,), waiting(p1) & ~is_over)))


def from_to(msg: Expr, proc: Expr, other: Expr) -> Expr:
    """Return the formula that a message goes from the one process to the other."""
    return source(msg, proc) & target(msg, other)


INVARIANTS = {
    "what is delivered was sent": forall(m, delivered(m) >> sent(m)),
    "what is over was delivered": forall(m, done(m) >> delivered(m)),
    "what is asked for goes up, and is not sent": forall(m, asking(m) >> (goes_up(m) & ~sent(m))),
    "what is open is the first of its process": forall(m, p, (source(m, p) & is_open(m)) >> same(head(p), m)),
    "a process is passive for a smaller one": forall(p, waiting(p) >> below(waits_on(p), p)),
    "a REQUEST is of a message": forall(p, q, requested(p, q) >> (asking(head(p)) & from_to(head(p), p, q))),
    "a PERMIT is for a message": forall(q, p, permitted(q, p) >> (asking(head(p)) & from_to(head(p), p, q))),
    "a REQUEST is answered once": forall(p, q, ~(requested(p, q) & permitted(q, p))),
    "a message that waits has a REQUEST or a PERMIT": forall(
        m, p, q, (asking(m) & from_to(m, p, q)) >> (requested(p, q) | permitted(q, p))
    ),
    "a process is passive for what it has permitted": forall(q, p, permitted(q, p) >> passive(q, p)),
    "a process is passive for what comes from below": forall(
        m, p, q, all_of(goes_up(m), is_underway(m), from_to(m, p, q)) >> passive(q, p)
    ),
    "a process is passive for what it has sent down": forall(
        m, p, q, all_of(~goes_up(m), sent(m), ~done(m), from_to(m, p, q)) >> passive(p, q)
    ),
    "a process that has sent down is passive": forall(
        m, p, all_of(~goes_up(m), sent(m), ~done(m), source(m, p)) >> waiting(p)
    ),
    "a process that has sent down has permitted nothing": forall(
        *(m, p, q), all_of(~goes_up(m), sent(m), ~done(m), source(m, q)) >> ~permitted(q, p)
    ),
    "nor comes anything to it from below": forall(
        *(m1, m2, p, q),
        all_of(~goes_up(m1), sent(m1), ~done(m1), source(m1, q), goes_up(m2), from_to(m2, p, q)) >> ~is_underway(m2),
    ),
    "a process waits for what is under way": forall(
        *(p, q),
        passive(q, p)
        >> any_of(
            permitted(q, p),
            from_to(head(p), p, q) & is_underway(head(p)),
            all_of(from_to(head(q), q, p), sent(head(q)), ~done(head(q))),
        ),
    ),
    "a process is aware of what was sent": forall(p, m, aware(p, m) >> sent(m)),
    "a process is aware of what it has sent": forall(p, m, (source(m, p) & sent(m)) >> aware(p, m)),
    "a process is aware of what it has delivered": forall(p, m, (target(m, p) & delivered(m)) >> aware(p, m)),
    "the past is of what was sent": forall(m1, m2, past(m1, m2) >> all_of(sent(m1), sent(m2), ~same(m1, m2))),
    "what a process has sent is over when it sends again": forall(
        *(m1, m2, p), all_of(past(m1, m2), source(m1, p), source(m2, p)) >> done(m1)
    ),
    "no other is aware of what has no instant": forall(p, m, (aware(p, m) & ~had_its_instant(m)) >> source(m, p)),
    "the past had its instant": forall(m1, m2, past(m1, m2) >> had_its_instant(m1)),
    "the past had its instant earlier": forall(m1, m2, (past(m1, m2) & had_its_instant(m2)) >> earlier(m1, m2)),
    "what comes from below is later than what its receiver is aware of": forall(
        *(m1, m2, p, q), all_of(goes_up(m2), is_underway(m2), from_to(m2, p, q), aware(q, m1)) >> earlier(m1, m2)
    ),
    "what leads to another had its instant earlier": forall(m1, m2, leads(m1, m2) >> earlier(m1, m2)),
    "instants are of what has one": forall(
        m1, m2, earlier(m1, m2) >> all_of(had_its_instant(m1), had_its_instant(m2), ~same(m1, m2))
    ),
    "instants are in one order": forall(
        m1, m2, m3, all_of(earlier(m1, m2) >> ~earlier(m2, m1), (earlier(m1, m2) & earlier(m2, m3)) >> earlier(m1, m3))
    ),
    "the history is of deliveries at one place": forall(
        *(m1, m2, p), (before(m1, m2) & target(m1, p)) >> all_of(delivered(m1), delivered(m2), target(m2, p))
    ),
    "the history is in the order of instants": forall(m1, m2, before(m1, m2) >> earlier(m1, m2)),
    "the history is whole": forall(
        *(m1, m2, p),
        all_of(delivered(m1), delivered(m2), target(m1, p), target(m2, p))
        >> any_of(same(m1, m2), before(m1, m2), before(m2, m1)),
    ),
}

CAN_BE_SERVED = any_of(
    exists(m, all_of(asking(m), source(m, p), permitted(q, p))),
    exists(m, is_underway(m) & any_of(from_to(m, p, q), from_to(m, q, p))),
    exists(m, all_of(source(m, q), delivered(m), ~done(m))),
)
STILL = at_rest(permit(), send_up(), deliver(), receive_ack())
PROPERTIES = {
    "synchronous: there is no crown, so every message can be drawn as a point in time": forall(m, ~leads(m, m)),
    "causality and FIFO: where an effect was delivered, its cause was before": forall(
        *(m1, m2, p, q), all_of(past(m1, m2), delivered(m2), from_to(m1, p, q), target(m2, q)) >> before(m1, m2)
    ),
    "rendezvous: what a process has sent is delivered before it sends again, or hears that its send is over": forall(
        *(m1, m2, p),
        all_of(done(m1) >> delivered(m1), all_of(source(m1, p), source(m2, p), past(m1, m2)) >> delivered(m1)),
    ),
    "no deadlock, its core: what a passive process waits for is smaller, and can take a step for it if active": forall(
        *(p, q), passive(q, p) >> all_of(below(p, q), ~waiting(p) >> CAN_BE_SERVED)
    ),
    "and a message that waits to go up has its PERMIT, or its REQUEST is with the receiver": forall(
        *(m, p, q),
        (asking(m) & from_to(m, p, q)) >> any_of(permitted(q, p), requested(p, q)),
    ),
    "no deadlock: at rest, something is open only where a process waits, and then a smaller one does": STILL
    >> all_of(
        forall(m, p, q, (is_open(m) & from_to(m, p, q)) >> exists(p1, waiting(p1))),
        forall(p, waiting(p) >> (waiting(waits_on(p)) & below(waits_on(p), p))),
    ),
    "no invention: only what was sent is delivered": INVARIANTS["what is delivered was sent"],
    "no duplicate: nothing is delivered twice": forall(m, ~before(m, m)),
}

MUTANTS = (
    Mutant("permit-active", "a process that gives a PERMIT stays active", (permit(waits=False),)),
    Mutant("permit-passive", "a process that is passive gives a PERMIT", (permit(when=TRUE),)),
    Mutant("unpermitted", "a message goes to a bigger process without a PERMIT", (send_up(allowed=TRUE),)),
    Mutant("up-while-passive", "a process that is passive uses its PERMIT", (send_up(when=TRUE),)),
    Mutant("down-stays-active", "a process that sends to a smaller one stays active", (send_down(waits=False),)),
    Mutant("down-while-passive", "a process that is passive sends to a smaller one", (send_down(when=TRUE),)),
    Mutant("unexpected", "a process that is passive delivers what it does not wait for", (deliver(TRUE),)),
    Mutant("two-at-once", "a process begins with a message before its last one is over", (ask(TRUE), send_down(TRUE))),
    Mutant("ack-ahead", "the acknowledgement is sent before the message is delivered", (receive_ack(TRUE),)),
)

SYSTEM = System(
    name="sync",
    meaning="the order sync, over any network",
    sorts=(Msg, Proc),
    symbols=(
        *(source, target, goes_up, waiting, waits_on, head, asking, requested, permitted, sent, delivered, done),
        *(aware, past, leads, earlier, before),
    ),
    axioms={
        **one_of_each(source, target),
        "no message goes to its source": forall(m, p, ~(source(m, p) & target(m, p))),
        "up is to a bigger process": forall(m, p, q, from_to(m, p, q) >> iff(goes_up(m), below(p, q))),
    },
    actions=(ask(), permit(), send_up(), send_down(), deliver(), receive_ack()),
    invariants=INVARIANTS,
    properties=PROPERTIES,
    mutants=MUTANTS,
)


def scene(messages: Sequence[tuple[int, int]]) -> Scene:
    """Return a scene with the source and the target of each message; processes are numbers from 0."""
    ends = scene_between(source, target, messages)
    ups = frozenset((msg,) for msg, (one, other) in enumerate(messages) if one < other)
    return Scene(ends.sizes, {**ends.fixed, goes_up: ups})
