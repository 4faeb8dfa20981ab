# SPDX-License-Identifier: Apache-2.0
"""The order `sequencer` of `csrc/order/sequencer.c`, for any number of processes and messages (Garg, section 12.3.1).

Channels to and from the coordinator keep the order of what is sent over them, and delay it as they like.  Each function
below is one action; its arguments are the rules that mutants break.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from busq.lab.proof.logic import *
from busq.lab.proof.models.ends import one_of_each
from busq.lab.proof.models.rest import at_rest
from busq.lab.proof.states import Scene

__all__ = ["STILL", "SYSTEM", "scene"]

Msg = Sort("Msg")
Proc = Sort("Proc")

sender = relation("sender", Msg, Proc, is_fixed=True)
dest = relation("dest", Msg, Proc, is_fixed=True)
leads = relation("leads", Proc, is_fixed=True)  # the coordinator

sent = relation("sent", Msg)
earlier = relation("earlier", Msg, Msg)  # the order in which requests are in a channel to the coordinator
placed = relation("placed", Msg)  # the coordinator has multicast it
first = relation("first", Msg, Msg)  # the one before the other: the order of its channels to all others
delivered = relation("delivered", Proc, Msg)
# History, on which no step depends.
before = relation("before", Proc, Msg, Msg)  # that process has delivered the one, and then the other
cause = relation("cause", Msg, Msg)  # the sender of the other had delivered the one, or sent it

m, m1, m2, m3 = variables("m m1 m2 m3", Msg)
p, p1, p2 = variables("p p1 p2", Proc)


def sending() -> tuple[Update, ...]:
    """Return what a send changes wherever it is."""
    causes = all_of(same(m2, m), any_of(delivered(p, m1), sender(m1, p) & sent(m1)))
    return (set_(sent, m), map_to(cause, (m1, m2), cause(m1, m2) | causes))


def multicasting() -> tuple[Update, ...]:
    """Return what a multicast of the coordinator changes: a destination itself, it delivers at once."""
    is_own = all_of(same(p1, p), dest(m, p))
    return (
        set_(placed, m),
        map_to(first, (m1, m2), first(m1, m2) | all_of(same(m2, m), placed(m1))),
        map_to(delivered, (p1, m1), delivered(p1, m1) | all_of(is_own, same(m1, m))),
        map_to(before, (p1, m1, m2), before(p1, m1, m2) | all_of(is_own, same(m2, m), delivered(p, m1))),
    )


def request() -> Action:
    """A process sends its message to the coordinator."""
    behind = all_of(same(m2, m), sender(m1, p), sent(m1))
    in_channel = map_to(earlier, (m1, m2), earlier(m1, m2) | behind)
    return Action("request", (m, p), all_of(sender(m, p), ~sent(m), ~leads(p)), (*sending(), in_channel))


def submit() -> Action:
    """The coordinator multicasts a message of its own."""
    return Action("submit", (m, p), all_of(sender(m, p), ~sent(m), leads(p)), (*sending(), *multicasting()))


IS_NEXT_REQUEST = forall(m1, earlier(m1, m) >> placed(m1))


def multicast(is_next: Expr = IS_NEXT_REQUEST) -> Action:
    """A request arrives at the coordinator, which multicasts the message."""
    return Action("multicast", (m, p), all_of(leads(p), sent(m), ~placed(m), is_next), multicasting())


IS_NEXT_DATA = forall(m1, (first(m1, m) & dest(m1, p)) >> delivered(p, m1))


def deliver(is_next: Expr = IS_NEXT_DATA, also: Expr = FALSE) -> Action:
    """A message of the coordinator arrives, and is delivered."""
    return Action(
        "deliver",
        (m, p),
        all_of(~leads(p), any_of(placed(m), also), dest(m, p), ~delivered(p, m), is_next),
        (
            set_(delivered, p, m),
            map_to(before, (p1, m1, m2), before(p1, m1, m2) | all_of(same(p1, p), same(m2, m), delivered(p, m1))),
        ),
    )


INVARIANTS = {
    "what is multicast was sent": forall(m, placed(m) >> sent(m)),
    "what is delivered was multicast, and is addressed here": forall(p, m, delivered(p, m) >> (placed(m) & dest(m, p))),
    "the order of multicasts is of these": forall(
        m1, m2, first(m1, m2) >> all_of(placed(m1), placed(m2), ~same(m1, m2))
    ),
    "of two multicasts one is first": forall(
        *(m1, m2),
        all_of(
            (placed(m1) & placed(m2)) >> any_of(same(m1, m2), first(m1, m2), first(m2, m1)),
            ~(first(m1, m2) & first(m2, m1)),
        ),
    ),
    "the order of multicasts goes on": forall(m1, m2, m3, (first(m1, m2) & first(m2, m3)) >> first(m1, m3)),
    "requests are of what was sent": forall(m1, m2, earlier(m1, m2) >> (sent(m1) & sent(m2))),
    "requests are multicast in their order": forall(m1, m2, (earlier(m1, m2) & placed(m2)) >> first(m1, m2)),
    "the coordinator has multicast what it has sent": forall(
        p, m, all_of(leads(p), sender(m, p), sent(m)) >> placed(m)
    ),
    "the coordinator has delivered what it has multicast": forall(
        p, m, all_of(leads(p), placed(m), dest(m, p)) >> delivered(p, m)
    ),
    "what is first is delivered first": forall(
        p, m1, m2, all_of(delivered(p, m2), first(m1, m2), dest(m1, p)) >> delivered(p, m1)
    ),
    "the history is of deliveries": forall(p, m1, m2, before(p, m1, m2) >> (delivered(p, m1) & delivered(p, m2))),
    "the history is in the order of multicasts": forall(p, m1, m2, before(p, m1, m2) >> first(m1, m2)),
    "the history is whole": forall(
        *(p, m1, m2),
        (delivered(p, m1) & delivered(p, m2)) >> any_of(same(m1, m2), before(p, m1, m2), before(p, m2, m1)),
    ),
    "a cause is multicast, or its request comes first": forall(
        m1, m2, cause(m1, m2) >> all_of(sent(m1), sent(m2), placed(m1) | earlier(m1, m2))
    ),
    "a cause is multicast before its effect": forall(m1, m2, (cause(m1, m2) & placed(m2)) >> first(m1, m2)),
}

MOVES = (multicast(), deliver())
STILL = at_rest(*MOVES)
PROPERTIES = {
    "consistency: no two processes deliver two messages in opposite orders": forall(
        *(p1, p2, m1, m2), ~(before(p1, m1, m2) & before(p2, m2, m1))
    ),
    "total order: every process delivers in the order of multicasts": INVARIANTS[
        "the history is in the order of multicasts"
    ],
    "no gap: what is delivered comes after all that was multicast before, now and for ever": forall(
        *(p, m1, m2), all_of(delivered(p, m2), first(m1, m2), dest(m1, p)) >> before(p, m1, m2)
    ),
    "causality: what a process has sent or delivered comes before what it sends then": forall(
        *(p, m1, m2), all_of(cause(m1, m2), delivered(p, m2), dest(m1, p)) >> before(p, m1, m2)
    ),
    "no loss: at rest, what was sent is delivered, or something earlier is not": all_of(exists(p, leads(p)), STILL)
    >> forall(
        *(p, m),
        all_of(sent(m), dest(m, p), ~delivered(p, m))
        >> exists(
            m1,
            any_of(earlier(m1, m) & ~placed(m1), all_of(first(m1, m), dest(m1, p), ~delivered(p, m1))),
        ),
    ),
    "no invention, no duplicate: only what was sent is delivered, there, and once": forall(
        p, m, all_of(delivered(p, m) >> (sent(m) & dest(m, p)), ~before(p, m, m))
    ),
}

MUTANTS = (
    Mutant("requests-overtake", "the channels to the coordinator do not keep the order", (multicast(TRUE),)),
    Mutant("data-overtakes", "the channels from the coordinator do not keep the order", (deliver(TRUE),)),
    Mutant("own-at-once", "a process delivers a message to itself at once", (deliver(also=sender(m, p) & sent(m)),)),
)

SYSTEM = System(
    name="sequencer",
    meaning="the order sequencer, over channels that keep the order",
    sorts=(Msg, Proc),
    symbols=(sender, dest, leads, sent, earlier, placed, first, delivered, before, cause),
    axioms={
        **one_of_each(sender),
        "there is one coordinator": forall(p1, p2, (leads(p1) & leads(p2)) >> same(p1, p2)),
    },
    actions=(request(), submit(), *MOVES),
    invariants=INVARIANTS,
    properties=PROPERTIES,
    mutants=MUTANTS,
)


def scene(senders: Sequence[int], destinations: Sequence[Set[int]], *, processes: int = 3) -> Scene:
    """Return a scene with the sender and the destinations of each message; process 0 is the coordinator."""
    return Scene(
        {Msg: len(senders), Proc: processes},
        {
            sender: frozenset(enumerate(senders)),
            dest: frozenset((msg, process) for msg, some in enumerate(destinations) for process in some),
            leads: frozenset({(0,)}),
        },
    )
