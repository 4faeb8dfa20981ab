# SPDX-License-Identifier: Apache-2.0
"""The order `token` of `csrc/order/token.c`, for any number of processes and messages (Garg, section 12.3.1).

The network delays and reorders as it likes: what has a number may be delivered anywhere at any later time.  Of the
token it matters what it has counted; where it goes next, and when it parks, does not, so it may go to any process at
any time.  Each function below is one action; its arguments are the rules that mutants break.
"""

from __future__ import annotations

from collections.abc import Sequence

from busq.lab.proof.logic import *
from busq.lab.proof.models.ends import one_of_each
from busq.lab.proof.models.keys import history_invariants
from busq.lab.proof.models.rest import at_rest
from busq.lab.proof.states import Scene

__all__ = ["STILL", "SYSTEM", "scene"]

Msg = Sort("Msg", is_ordered=True)
Proc = Sort("Proc")
Number = Sort("Number", is_ordered=True)
Token = Sort("Token")  # there is one

sender = relation("sender", Msg, Proc, is_fixed=True)

begun, flying = relation("begun", Token), relation("flying", Token)  # it was somewhere once; it is on its way
here = relation("here", Proc)
carried = relation("carried", Token, Number)  # what the token on its way has counted
known = relation("known", Proc, Number)  # what it had counted when the process had it last
numbered = relation("numbered", Msg)
number = function("number", Msg, to=Number)
done = relation("done", Proc, Number)  # that number was in turn there
delivered = relation("delivered", Proc, Msg)
# History, on which no step depends.
given = relation("given", Number)
before = relation("before", Proc, Msg, Msg)  # that process has delivered the one, and then the other
cause = relation("cause", Msg, Msg)  # the sender of the other had delivered the one, or sent it, when it got a number

m, m1, m2 = variables("m m1 m2", Msg)
p, p1, p2 = variables("p p1 p2", Proc)
n, n1 = variables("n n1", Number)
k, k1 = variables("k k1", Token)


def start() -> Action:
    """In the beginning the token is parked somewhere, and has counted nothing."""
    return Action("start", (k, p), ~begun(k), (set_(begun, k), set_(here, p)))


def pass_on(leaves: bool = True) -> Action:
    """A process that has the token sends it on, with what it has counted."""
    gone = (clear(here, p),) if leaves else ()
    updates = (set_(flying, k), map_to(carried, (k1, n1), known(p, n1)), *gone)
    return Action("pass_on", (k, p), begun(k) & here(p), updates)


def receive_token() -> Action:
    """The token arrives."""
    learned = any_of(all_of(same(p1, p), carried(k, n1)), all_of(~same(p1, p), known(p1, n1)))
    return Action(
        "receive_token", (k, p), flying(k), (clear(flying, k), set_(here, p), map_to(known, (p1, n1), learned))
    )


HAS_TOKEN = here(p)


def give_number(when: Expr = HAS_TOKEN, counts: bool = True) -> Action:
    """A message of a process that has the token gets the next number, and is sent."""
    is_next = ~known(p, n) & forall(n1, below(n1, n) >> known(p, n1))
    known_to_it = all_of(same(m2, m), any_of(delivered(p, m1), sender(m1, p) & numbered(m1)))
    counted = (set_(known, p, n),) if counts else ()
    return Action(
        "give_number",
        (p, m, n),
        all_of(sender(m, p), ~numbered(m), when, is_next),
        (
            set_(numbered, m),
            put(number, m, n),
            set_(given, n),
            map_to(cause, (m1, m2), cause(m1, m2) | known_to_it),
            *counted,
        ),
    )


IN_TURN = forall(n, below(n, number(m)) >> done(p, n))


def deliver(in_turn: Expr = IN_TURN) -> Action:
    """A process delivers in the order of numbers, without gaps."""
    return Action(
        "deliver",
        (m, p),
        all_of(numbered(m), ~delivered(p, m), in_turn),
        (
            set_(delivered, p, m),
            set_(done, p, number(m)),
            map_to(before, (p1, m1, m2), before(p1, m1, m2) | all_of(same(p1, p), same(m2, m), delivered(p, m1))),
        ),
    )


INVARIANTS = {
    "the token is in one place": forall(
        *(k, p1, p2),
        all_of(here(p1) >> all_of(begun(k), ~flying(k)), (here(p1) & here(p2)) >> same(p1, p2), flying(k) >> begun(k)),
    ),
    "nothing is counted before the token is there": forall(k, n, given(n) >> begun(k)),
    "the process with the token knows what was counted": forall(p, n, here(p) >> iff(known(p, n), given(n))),
    "the token on its way carries what was counted": forall(k, n, flying(k) >> iff(carried(k, n), given(n))),
    "what is known was counted": forall(p, n, known(p, n) >> given(n)),
    "numbers are given without gaps": forall(n, n1, (given(n) & below(n1, n)) >> given(n1)),
    "a number that a message has was given": forall(m, numbered(m) >> given(number(m))),
    "a number that was given is that of a message": forall(n, given(n) >> exists(m, numbered(m) & same(number(m), n))),
    "no two messages have one number": forall(
        m1, m2, all_of(numbered(m1), numbered(m2), same(number(m1), number(m2))) >> same(m1, m2)
    ),
    "what was in turn was given": forall(p, n, done(p, n) >> given(n)),
    "what was in turn was delivered": forall(p, m, all_of(numbered(m), done(p, number(m))) >> delivered(p, m)),
    "what is delivered has a number, which was in turn": forall(
        p, m, delivered(p, m) >> (numbered(m) & done(p, number(m)))
    ),
    "a process has had all numbers up to its last": forall(p, n, n1, (done(p, n) & below(n1, n)) >> done(p, n1)),
    **history_invariants(p, (m1, m2), delivered, before, number),
    "causes have lower numbers": forall(
        m1, m2, cause(m1, m2) >> all_of(numbered(m1), numbered(m2), below(number(m1), number(m2)))
    ),
}

STILL = at_rest(deliver())
PROPERTIES = {
    "consistency: no two processes deliver two messages in opposite orders": forall(
        *(p1, p2, m1, m2), ~(before(p1, m1, m2) & before(p2, m2, m1))
    ),
    "total order: every process delivers in the order of unique numbers": forall(
        *(p, m1, m2), before(p, m1, m2) >> below(number(m1), number(m2))
    ),
    "no gap: what is delivered comes after all that has a lower number, now and for ever": forall(
        *(p, m1, m2), all_of(delivered(p, m2), numbered(m1), below(number(m1), number(m2))) >> before(p, m1, m2)
    ),
    "causality: what a process has sent or delivered comes before what it sends then": forall(
        *(p, m1, m2), all_of(cause(m1, m2), delivered(p, m2)) >> before(p, m1, m2)
    ),
    "no loss: where no delivery is possible, what has a number is delivered, or a lower one is not": STILL
    >> forall(
        *(p, m),
        (numbered(m) & ~delivered(p, m))
        >> exists(m1, all_of(numbered(m1), ~delivered(p, m1), below(number(m1), number(m)))),
    ),
    "no invention, no duplicate: only what was sent is delivered, and once": forall(
        p, m, all_of(delivered(p, m) >> numbered(m), ~before(p, m, m))
    ),
}

MUTANTS = (
    Mutant("without-token", "a process gives a number without the token", (give_number(TRUE),)),
    Mutant("two-tokens", "a process that passes the token on keeps it", (pass_on(leaves=False),)),
    Mutant("uncounted", "a number that was given is not counted", (give_number(counts=False),)),
    Mutant("gaps", "what has a number is delivered at once", (deliver(TRUE),)),
)

SYSTEM = System(
    name="token",
    meaning="the order token, over any network",
    sorts=(Msg, Proc, Number, Token),
    symbols=(sender, begun, flying, here, carried, known, numbered, number, done, delivered, given, before, cause),
    axioms={
        **one_of_each(sender),
        "there is one token": forall(k, k1, same(k, k1)),
    },
    actions=(start(), pass_on(), receive_token(), give_number(), deliver()),
    invariants=INVARIANTS,
    properties=PROPERTIES,
    mutants=MUTANTS,
)


def scene(senders: Sequence[int], *, processes: int = 2, numbers: int = 3) -> Scene:
    """Return a scene with the sender of each message; processes are numbers from 0."""
    return Scene(
        {Msg: len(senders), Proc: processes, Number: numbers, Token: 1}, {sender: frozenset(enumerate(senders))}
    )
