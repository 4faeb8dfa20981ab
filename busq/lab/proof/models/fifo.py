# SPDX-License-Identifier: Apache-2.0
"""The order `fifo` of `csrc/order/fifo.c`, with and without on_gap=skip, for any number of processes and messages.

The network delays and reorders as it likes, doubles and loses: what never arrives is an action that never happens, and
a copy that arrives when its number was passed is dropped, which changes nothing.  With on_gap=skip a process may give
up what is missing before the first message that it holds back; when it does, its alarms decide.  Messages to oneself,
which are delivered in the moment in which they are sent, are left out.  Each function below is one action; its
arguments are the rules that mutants break.
"""

from __future__ import annotations

from collections.abc import Sequence

from busq.lab.proof.logic import *
from busq.lab.proof.models.ends import one_of_each, scene_between
from busq.lab.proof.models.rest import at_rest
from busq.lab.proof.states import Scene

__all__ = ["STILL", "SYSTEM", "number", "passed", "scene"]

Msg = Sort("Msg")
Proc = Sort("Proc")
Number = Sort("Number", is_ordered=True)

source = relation("source", Msg, Proc, is_fixed=True)
target = relation("target", Msg, Proc, is_fixed=True)

sent = relation("sent", Msg)
number = function("number", Msg, to=Number)
given = relation("given", Proc, Proc, Number)  # the one has numbered that many for the other
arrived = relation("arrived", Msg)  # before its number was passed
passed = relation("passed", Proc, Proc, Number)  # the one has delivered that number of the other, or given it up
delivered = relation("delivered", Msg)
# History, on which no step depends.
earlier = relation("earlier", Msg, Msg)  # one process has sent the one to another, and then the other
before = relation("before", Msg, Msg)  # one receiver has delivered the one, and then the other
given_up = relation("given_up", Proc, Proc, Number)

m, m1, m2 = variables("m m1 m2", Msg)
p, q, p1, p2 = variables("p q p1 p2", Proc)
n, n1 = variables("n n1", Number)


def from_to(msg: Expr) -> Expr:
    """Return the formula that a message goes from `p` to `q`."""
    return source(msg, p) & target(msg, q)


IS_NEXT = ~given(p, q, n) & forall(n1, below(n1, n) >> given(p, q, n1))


def send(when: Expr = IS_NEXT) -> Action:
    """A message gets the next number for its receiver, and is sent."""
    follows = all_of(same(m2, m), from_to(m1), sent(m1))
    return Action(
        "send",
        (m, p, q, n),
        all_of(from_to(m), ~sent(m), when),
        (
            set_(sent, m),
            put(number, m, n),
            set_(given, p, q, n),
            map_to(earlier, (m1, m2), earlier(m1, m2) | follows),
        ),
    )


IS_NOT_PASSED = ~passed(q, p, number(m))


def arrive(when: Expr = IS_NOT_PASSED) -> Action:
    """A message arrives, and is held back until it is in turn; if its number was passed it is dropped."""
    return Action("arrive", (m, p, q), all_of(from_to(m), sent(m), ~arrived(m), when), (set_(arrived, m),))


def delivers() -> tuple[Update, Update]:
    """Return the updates after which a message is delivered behind all others of its receiver."""
    follows = all_of(same(m2, m), delivered(m1), target(m1, q))
    return set_(delivered, m), map_to(before, (m1, m2), before(m1, m2) | follows)


IS_IN_TURN = forall(n, below(n, number(m)) >> passed(q, p, n))
IS_OPEN = ~delivered(m)


def deliver(turn: Expr = IS_IN_TURN, once: Expr = IS_OPEN) -> Action:
    """What is in turn is delivered."""
    guard = all_of(from_to(m), arrived(m), once, turn)
    return Action("deliver", (m, p, q), guard, (set_(passed, q, p, number(m)), *delivers()))


IS_FIRST = forall(m1, all_of(from_to(m1), arrived(m1), ~delivered(m1)) >> at_most(number(m), number(m1)))


def skip(turn: Expr = IS_FIRST) -> Action:
    """The first message that is held back is delivered, and what is missing before it is given up."""
    is_before = all_of(same(p1, q), same(p2, p))
    goes = all_of(is_before, at_most(n, number(m)))
    lost = all_of(is_before, below(n, number(m)), ~passed(q, p, n))
    return Action(
        "skip",
        (m, p, q),
        all_of(from_to(m), arrived(m), ~delivered(m), turn),
        (
            map_to(passed, (p1, p2, n), passed(p1, p2, n) | goes),
            map_to(given_up, (p1, p2, n), given_up(p1, p2, n) | lost),
            *delivers(),
        ),
    )


INVARIANTS = {
    "what has arrived was sent, and what is delivered has arrived": forall(
        m, all_of(arrived(m) >> sent(m), delivered(m) >> arrived(m))
    ),
    "a number that a message has was given": forall(m, p, q, (sent(m) & from_to(m)) >> given(p, q, number(m))),
    "numbers are given without gaps": forall(p, q, n, n1, (given(p, q, n) & below(n1, n)) >> given(p, q, n1)),
    "a number that was given is that of a message": forall(
        p, q, n, given(p, q, n) >> exists(m, all_of(from_to(m), sent(m), same(number(m), n)))
    ),
    "no two messages to a process have one number": forall(
        *(m1, m2, p, q),
        all_of(from_to(m1), from_to(m2), sent(m1), sent(m2), same(number(m1), number(m2))) >> same(m1, m2),
    ),
    "what is passed was given": forall(p, q, n, passed(q, p, n) >> given(p, q, n)),
    "a receiver has passed all numbers up to its last": forall(
        p, q, n, n1, (passed(q, p, n) & below(n1, n)) >> passed(q, p, n1)
    ),
    "what is delivered was passed": forall(m, p, q, (from_to(m) & delivered(m)) >> passed(q, p, number(m))),
    "what has arrived and was passed is delivered": forall(
        m, p, q, all_of(from_to(m), arrived(m), passed(q, p, number(m))) >> delivered(m)
    ),
    "what is passed is delivered, or was given up": forall(
        *(m, p, q),
        all_of(from_to(m), sent(m), passed(q, p, number(m))) >> any_of(delivered(m), given_up(q, p, number(m))),
    ),
    "what is given up was passed, and is not delivered": forall(
        m, p, q, all_of(from_to(m), sent(m), given_up(q, p, number(m))) >> (passed(q, p, number(m)) & ~delivered(m))
    ),
    "nothing is given up that was not given": forall(p, q, n, given_up(q, p, n) >> given(p, q, n)),
    "what is earlier has a lower number": forall(
        *(m1, m2, p, q),
        (earlier(m1, m2) & from_to(m2)) >> all_of(from_to(m1), sent(m1), sent(m2), below(number(m1), number(m2))),
    ),
    "the history is of deliveries": forall(m1, m2, before(m1, m2) >> (delivered(m1) & delivered(m2))),
    "the history is in the order of numbers": forall(
        m1, m2, p, q, all_of(before(m1, m2), from_to(m1), from_to(m2)) >> below(number(m1), number(m2))
    ),
    "the history is whole": forall(
        *(m1, m2, q),
        all_of(delivered(m1), delivered(m2), target(m1, q), target(m2, q))
        >> any_of(same(m1, m2), before(m1, m2), before(m2, m1)),
    ),
}

STILL = at_rest(arrive(), deliver())
PROPERTIES = {
    "FIFO: a receiver delivers what one process has sent to it in the order of sending": forall(
        m1, m2, p, q, all_of(earlier(m1, m2), from_to(m2), delivered(m1), delivered(m2)) >> before(m1, m2)
    ),
    "no gap: what was sent earlier is delivered before, or was given up": forall(
        *(m1, m2, p, q),
        all_of(earlier(m1, m2), from_to(m2), delivered(m2)) >> any_of(before(m1, m2), given_up(q, p, number(m1))),
    ),
    "only what is missing is given up": forall(
        m, p, q, all_of(from_to(m), sent(m), given_up(q, p, number(m))) >> ~arrived(m)
    ),
    "no loss: at rest, what was sent is delivered, or was given up, or something earlier is not": (
        STILL
        >> forall(
            *(m, p, q),
            all_of(from_to(m), sent(m), ~delivered(m), ~given_up(q, p, number(m)))
            >> exists(m1, all_of(from_to(m1), sent(m1), ~delivered(m1), below(number(m1), number(m)))),
        )
    ),
    "no invention: only what was sent is delivered": forall(m, delivered(m) >> sent(m)),
    "no duplicate: nothing is delivered twice": forall(m, p, q, from_to(m) >> ~before(m, m)),
}

MUTANTS = (
    Mutant("not-in-turn", "a message is delivered when it arrives", (deliver(turn=TRUE),)),
    Mutant("same-number", "a number is given again", (send(TRUE),)),
    Mutant("late-copy", "what arrives when its number was passed is not dropped", (arrive(TRUE),)),
    Mutant("copy-delivered", "a copy of what was delivered is delivered", (deliver(once=TRUE),)),
    Mutant("skip-any", "any message that is held back may be skipped to", (skip(TRUE),)),
)

SYSTEM = System(
    name="fifo",
    meaning="the order fifo, over any network, also one that loses and doubles",
    sorts=(Msg, Proc, Number),
    symbols=(source, target, sent, number, given, arrived, passed, delivered, earlier, before, given_up),
    axioms={
        **one_of_each(source, target),
    },
    actions=(send(), arrive(), deliver(), skip()),
    invariants=INVARIANTS,
    properties=PROPERTIES,
    mutants=MUTANTS,
)


def scene(messages: Sequence[tuple[int, int]], *, numbers: int = 3) -> Scene:
    """Return a scene with the source and the target of each message; processes are numbers from 0."""
    return scene_between(source, target, messages, {Number: numbers})
