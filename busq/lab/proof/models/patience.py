# SPDX-License-Identifier: Apache-2.0
"""That a message is not put off for ever: readers that lose patience against a sender that stages again.

A model of its own of `csrc/shm/message/commit.h` and `csrc/shm/receive/holes.c`, because it is about how often
something can happen, and not about any order.  A reader puts off what it stands at: a reference of the attempt that
the record shows as current.  So each put-off spends an attempt that the sender has staged, and there are as many of
these as fit into the tag.
"""

from __future__ import annotations

from busq.lab.proof.logic import *
from busq.lab.proof.states import Scene

__all__ = ["SYSTEM", "scene"]

Msg = Sort("Msg")
Ref = Sort("Ref")  # a reference in some ring
Attempt = Sort("Attempt", is_ordered=True)  # 256 in the code

begun, staging = relation("begun", Msg), relation("staging", Msg)
current = function("current", Msg, to=Attempt)  # of the record
own = function("own", Msg, to=Attempt)  # that the sender takes for the current one
stands = relation("stands", Ref, Msg)
attempt = function("attempt", Ref, to=Attempt)
# History: the ranking.  Each step that could go on for ever spends an attempt of its message that was not spent before.
started = relation("started", Msg, Attempt)  # the sender has begun that attempt
put_by = relation("put_by", Msg, Attempt)  # it was put off
again = relation("again", Msg)  # one of them was begun or put off a second time

m, m1 = variables("m m1", Msg)
(r,) = variables("r", Ref)
(a,) = variables("a", Attempt)


def begin() -> Action:
    """A send begins, at its first attempt."""
    updates = (set_(begun, m), set_(staging, m), put(current, m, a), put(own, m, a), set_(started, m, a))
    return Action("begin", (m, a), ~begun(m), updates)


def stage() -> Action:
    """The sender puts a reference of its attempt into a ring, in any number of rings, and as often as it likes."""
    return Action("stage", (m, r), begun(m) & forall(m1, ~stands(r, m1)), (set_(stands, r, m), put(attempt, r, own(m))))


STANDS_NOW = same(attempt(r), current(m))
IS_LATER = below(current(m), a)


def put_off(which: Expr = STANDS_NOW, to: Expr = IS_LATER) -> Action:
    """A reader that stands at a reference has lost patience; the swap names the attempt of the reference."""
    return Action(
        "put_off",
        (m, r, a),
        all_of(staging(m), stands(r, m), which, to),
        (
            put(current, m, a),
            set_(put_by, m, current(m)),
            put(again, m, again(m) | put_by(m, current(m))),
        ),
    )


WAS_PUT_OFF = ~same(own(m), current(m))


def restage(when: Expr = WAS_PUT_OFF) -> Action:
    """The sender, whose swap has failed, begins the attempt that is current."""
    updates = (put(own, m, current(m)), set_(started, m, current(m)), put(again, m, again(m) | started(m, current(m))))
    return Action("restage", (m,), staging(m) & when, updates)


def end() -> Action:
    """The message is sealed, committed or undone: none of these is put off."""
    return Action("end", (m,), staging(m), (clear(staging, m),))


INVARIANTS = {
    "what is staged was begun": forall(m, staging(m) >> begun(m)),
    "only what was begun stands somewhere": forall(m, r, stands(r, m) >> begun(m)),
    "the sender's attempt is the current one, or earlier": forall(m, begun(m) >> at_most(own(m), current(m))),
    "references are of attempts so far": forall(m, r, stands(r, m) >> at_most(attempt(r), own(m))),
    "the sender has begun its attempt": forall(m, begun(m) >> started(m, own(m))),
    "references are of attempts that were begun": forall(m, r, stands(r, m) >> started(m, attempt(r))),
    "what was begun is no later than the sender's attempt": forall(
        m, a, started(m, a) >> all_of(begun(m), at_most(a, own(m)))
    ),
    "what was put off is before the current attempt": forall(
        m, a, put_by(m, a) >> all_of(begun(m), below(a, current(m)))
    ),
    "what was put off was begun": forall(m, a, put_by(m, a) >> started(m, a)),
    "nothing happens to an attempt again": forall(m, ~again(m)),
}

PROPERTIES = {
    "no attempt is begun or put off twice": INVARIANTS["nothing happens to an attempt again"],
    "only what its sender has begun is put off": INVARIANTS["what was put off was begun"],
    "between two put-offs the sender has begun the later attempt: a reader waits for it": forall(
        m, r, all_of(stands(r, m), ~same(own(m), current(m))) >> ~same(attempt(r), current(m))
    ),
    "an attempt that no other follows is not put off": forall(
        m, a, all_of(begun(m), same(a, current(m))) >> ~put_by(m, a)
    ),
}

MUTANTS = (
    Mutant("any-attempt", "a put-off does not compare the attempt of the reference", (put_off(which=TRUE),)),
    Mutant("not-later", "a put-off may make an earlier attempt current, or the same again", (put_off(to=TRUE),)),
    Mutant("unasked", "the sender stages again though it was not put off", (restage(TRUE),)),
)

SYSTEM = System(
    name="patience",
    meaning="put-off and restage of the multicast, which can't alternate for ever",
    sorts=(Msg, Ref, Attempt),
    symbols=(begun, staging, current, own, stands, attempt, started, put_by, again),
    axioms={},
    actions=(begin(), stage(), put_off(), restage(), end()),
    invariants=INVARIANTS,
    properties=PROPERTIES,
    mutants=MUTANTS,
)


def scene(*, references: int = 2, attempts: int = 3) -> Scene:
    """Return a scene of one message with so many references and attempts."""
    return Scene({Msg: 1, Ref: references, Attempt: attempts}, {})
