# SPDX-License-Identifier: Apache-2.0
"""When the token of `csrc/order/token.c` parks, and that it forgets no process: a model of that alone.

The network delays and reorders as it likes.  Where the token and the WANTs go next is left open: the code sends both
around a ring, on which a WANT comes to each other process once, and n processes in succession are all of them.  Where
the code counts processes that the token has found without need, the model has the set of them.  In the beginning the
token is on its way, with that set empty; from there it comes to where the code has it, parked at one of them.  Each
function below is one action; its arguments are the rules that mutants break.
"""

from __future__ import annotations

from collections.abc import Sequence

from busq.lab.proof.logic import *
from busq.lab.proof.states import Scene

__all__ = ["STILL", "SYSTEM", "flying", "here", "scene", "seen"]

Proc = Sort("Proc")
Want = Sort("Want")

owner = relation("owner", Want, Proc, is_fixed=True)

here = relation("here", Proc)  # the token is parked there; if it is parked nowhere, it is on its way
idle = relation("idle", Proc)  # the token has found it without need, since it last found one in need
wanted = relation("wanted", Proc)  # the note of a WANT that came by
asked = relation("asked", Want)
waiting = relation("waiting", Want)  # the messages for which it was sent have no number
flying = relation("flying", Want)
seen = relation("seen", Want, Proc)  # it came by there

w, w1 = variables("w w1", Want)
p, p1, p2, q = variables("p p1 p2 q", Proc)

IS_AWAY = forall(p1, ~here(p1))


def submit() -> Action:
    """A process without the token has a message, and no WANT that waits: it sends one."""
    is_first = forall(w1, owner(w1, p) >> ~waiting(w1))
    updates = (set_(asked, w), set_(waiting, w), set_(flying, w))
    return Action("submit", (w, p), all_of(owner(w, p), ~asked(w), ~here(p), is_first), updates)


IS_NOT_THERE = ~here(q)


def leave_note(leaves: bool = True, where: Expr = IS_NOT_THERE) -> Action:
    """A WANT comes by where the token is not parked, leaves a note, and goes on if it was not everywhere."""
    is_last = forall(p1, any_of(same(p1, p), same(p1, q), seen(w, p1)))
    goes_on = flying(w1) & ~(same(w1, w) & is_last)
    note = (set_(wanted, q),) if leaves else ()
    guard = all_of(owner(w, p), flying(w), ~same(p, q), ~seen(w, q), where)
    return Action("leave_note", (w, p, q), guard, (set_(seen, w, q), map_to(flying, (w1,), goes_on), *note))


def set_out() -> Action:
    """A WANT meets the parked token, which sets out."""
    guard = all_of(owner(w, p), flying(w), ~same(p, q), ~seen(w, q), here(q))
    return Action("set_out", (w, p, q), guard, (clear(flying, w), clear(here, q), map_to(idle, (p1,), FALSE)))


def is_in_need(proc: Expr) -> Expr:
    """Return the formula that the token is needed somewhere, or was asked for there."""
    return any_of(wanted(proc), exists(w1, owner(w1, proc) & waiting(w1)))


OTHERS_IDLE = forall(p1, idle(p1) | same(p1, p))


def visit(begins_again: bool = True) -> Action:
    """The token comes to a process, all that waits there gets numbers, and it goes on, as there may be need."""
    found = ~is_in_need(p) if begins_again else TRUE
    counted = all_of(found, idle(p1) | same(p1, p))
    served = waiting(w1) & ~owner(w1, p)
    guard = all_of(IS_AWAY, any_of(is_in_need(p), ~OTHERS_IDLE))
    return Action(
        "visit", (p,), guard, (map_to(idle, (p1,), counted), clear(wanted, p), map_to(waiting, (w1,), served))
    )


def park(when: Expr = OTHERS_IDLE) -> Action:
    """The token comes to a process without need, and there was none anywhere: it stays."""
    return Action("park", (p,), all_of(IS_AWAY, ~is_in_need(p), when), (set_(here, p), set_(idle, p)))


IS_COMING = all_of(IS_AWAY, any_of(~idle(p), exists(q, wanted(q) & ~idle(q))))
IS_SAFE = forall(q, seen(w, q) >> (idle(q) & ~here(q)))
INVARIANTS = {
    "the token is in one place": forall(p1, p2, (here(p1) & here(p2)) >> same(p1, p2)),
    "a parked token has found all without need": forall(p, q, here(p) >> idle(q)),
    "a token on its way has not": IS_AWAY >> exists(p, ~idle(p)),
    "what waits or is on its way was asked": forall(w, p, (waiting(w) | flying(w) | seen(w, p)) >> asked(w)),
    "a process that waits is not where the token is parked": forall(w, p, (waiting(w) & owner(w, p)) >> ~here(p)),
    "a process that waits will be found, or its WANT is ahead of the token": forall(
        w, p, (waiting(w) & owner(w, p)) >> any_of(IS_COMING, flying(w) & IS_SAFE)
    ),
}

STILL = exists(p, here(p)) & forall(w, ~flying(w))
PROPERTIES = {
    "no process is forgotten: while one waits, the token is on its way, or its WANT": forall(
        w, p, (waiting(w) & owner(w, p)) >> any_of(IS_AWAY, flying(w))
    ),
    "no loss: when the token is parked and no WANT is on its way, no process waits": STILL
    >> forall(w, p, owner(w, p) >> ~waiting(w)),
    "the token does not park before a process that waits": forall(
        w, p, q, all_of(waiting(w), owner(w, p), ~flying(w)) >> ~here(q)
    ),
}

MUTANTS = (
    Mutant("no-note", "a WANT leaves no note where it comes by", (leave_note(leaves=False),)),
    Mutant("past-parked", "a WANT goes past the parked token", (leave_note(where=TRUE),)),
    Mutant("need-uncounted", "the token does not begin again where it finds need", (visit(begins_again=False),)),
    Mutant("early-park", "the token parks before it has found all without need", (park(TRUE),)),
)

SYSTEM = System(
    name="token-rest",
    meaning="when the token of the order token parks",
    sorts=(Proc, Want),
    symbols=(owner, here, idle, wanted, asked, waiting, flying, seen),
    axioms={"a WANT is of one process": forall(w, p1, p2, (owner(w, p1) & owner(w, p2)) >> same(p1, p2))},
    actions=(submit(), leave_note(), set_out(), visit(), park()),
    invariants=INVARIANTS,
    properties=PROPERTIES,
    mutants=MUTANTS,
)


def scene(owners: Sequence[int], *, processes: int = 2) -> Scene:
    """Return a scene with the owner of each WANT; processes are numbers from 0."""
    return Scene({Proc: processes, Want: len(owners)}, {owner: frozenset(enumerate(owners))})
