# SPDX-License-Identifier: Apache-2.0
"""A group with views (`csrc/shm/group/group.h`), for any number of members, changes, messages and deaths.

This stands above the multicast (`ordered.py`): items are messages, and changes of the view.

There is one group here, since groups share nothing but the clocks, which anything may raise.  Processes are lives, and
one that is dead stays dead: members that are resumed are not here, nor a view that is emptied without a message.  Each
function below is one action; its arguments are the rules that mutants break.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from busq.lab.proof.logic import *
from busq.lab.proof.models import ordered
from busq.lab.proof.models.ordered import (
    IS_OPEN,
    SENDER_LIVES,
    TO_COME,
    Item,
    Proc,
    begun,
    commit,
    committed,
    dead,
    dest,
    front,
    goes_to,
    got,
    had,
    kill,
    p,
    q,
    r,
    raise_,
    reached,
    seal,
    sealed,
    sender,
    stage,
    staged,
    undo,
    undone,
    x,
    y,
)
from busq.lab.proof.states import Scene

__all__ = ["SYSTEM", "scene"]

View = Sort("View", is_ordered=True)  # by number

named = relation("named", Item, Proc, is_fixed=True)  # receives it, member or not
next_view = relation("next_view", View, View, is_fixed=True)

# The group: its word, and the members of each view so far.
number = function("number", to=View)
claimed = relation("claimed", Item)
member = relation("member", View, Proc)
# Records.
goes = relation("goes", Item, View)  # a message, to the view that its sender saw
ends = relation("ends", Item, View)  # a change
after = relation("after", Item, Proc)  # the members of the view that a change begins
dies = relation("dies", Item, Proc)  # a change that announces a death
risen = relation("risen", Item, Proc)  # in this attempt, the maker of a change has seen that clock below its key
# Processes.
has_view = relation("has_view", Proc)
last = function("last", Proc, to=View)  # the view that was delivered there last
# Verdicts: that process has found that the message counts, or comes behind that change.
counts = relation("counts", Item, Proc)
missed = relation("missed", Item, Proc, Item)
# History, on which no step depends.
witness = function("witness", Item, to=Proc)  # one of the members to which a message goes
begins = relation("begins", Item, View)  # a change, installed
jumped = relation("jumped", Proc)  # as a member, before or behind, it was given another view than the next

m, c, c1 = variables("m c c1", Item)
v, w, u = variables("v w u", View)

IS_NOW = same(number(), v)  # the number of the group's word
NOTHING_CLAIMED = forall(c1, ~claimed(c1))


# ---- multicasts ----


def send() -> Action:
    """A message to peers, past the group."""
    return Action("send", (x, p), all_of(SENDER_LIVES, ~begun(x)), (set_(begun, x), goes_to(named(x, q))))


def look(of: Expr = IS_NOW) -> Action:
    """A sender sees the view that is now, and its members."""
    seen = (set_(begun, x), set_(goes, x, number()), put(witness, x, r), goes_to(member(v, q) | named(x, q)))
    return Action("look", (x, p, v, r), all_of(SENDER_LIVES, ~begun(x), of, member(v, r)), seen)


def rise() -> Action:
    """The maker of a change raises its clock above that of a member, dead or alive."""
    return Action("rise", (x, q), all_of(IS_OPEN, ~reached(q, x)), (set_(risen, x, q),))


IS_ABOVE_MEMBERS = forall(v, q, (ends(x, v) & member(v, q)) >> risen(x, q))
# Changes ascend, so to be above the last one is to be above all.
IS_ABOVE_CHANGES = forall(v, w, c1, all_of(ends(x, v), ends(c1, w), committed(c1), below(w, v)) >> below(c1, x))
IS_ABOVE_BOTH = IS_ABOVE_MEMBERS & IS_ABOVE_CHANGES


def starts_again(item: Expr, rises: bool = True) -> tuple[Update, ...]:
    """Return the updates of a swap that puts an item off: it is staged again, and its maker looks at clocks again."""
    places = map_to(staged, (y, q), staged(y, q) & ~same(y, item))
    return (places, map_to(risen, (y, q), risen(y, q) & ~same(y, item))) if rises else (places,)


def put_off(rises: bool = True) -> Action:
    """A process puts off what is open."""
    return Action("put_off", (x,), IS_OPEN, starts_again(x, rises))


# ---- changes ----


def change(name: str, when: Expr, members: Expr, receivers: Expr, also: tuple[Update, ...] = ()) -> Action:
    """A process claims a change at the number that is now; `members` and `receivers` are formulas about `q`."""
    changed = map_to(after, (y, q), any_of(after(y, q), same(y, x) & members))
    claims = (set_(begun, x), set_(claimed, x), set_(ends, x, v), changed, goes_to(receivers), *also)
    return Action(name, (x, p, v, r), all_of(SENDER_LIVES, ~begun(x), IS_NOW, when), claims)


OLD_MEMBERS = member(v, q) & ~dead(q)
WITH_NEW = any_of(OLD_MEMBERS, same(q, r))


def enter(receivers: Expr = WITH_NEW, one: Expr = NOTHING_CLAIMED) -> Action:
    """A process that is out enters."""
    return change("enter", all_of(~member(v, r), ~dead(r), one), member(v, q) | same(q, r), receivers)


def leave(receivers: Expr = OLD_MEMBERS, one: Expr = NOTHING_CLAIMED) -> Action:
    """A member leaves."""
    return change("leave", all_of(member(v, r), ~dead(r), one), member(v, q) & ~same(q, r), receivers)


IS_SETTLED = forall(y, (sender(y, r) & sealed(y)) >> committed(y))
IS_GONE = dead(r)


def mourn(gone: Expr = IS_GONE, settled: Expr = IS_SETTLED, one: Expr = NOTHING_CLAIMED) -> Action:
    """A member is dead; what it had sealed was completed."""
    when = all_of(member(v, r), gone, settled, one)
    return change("mourn", when, member(v, q) & ~same(q, r), OLD_MEMBERS, (set_(dies, x, r),))


def release() -> Action:
    """The word is free again of a change that is undone."""
    return Action("release", (c,), claimed(c) & undone(c), (clear(claimed, c),))


def install() -> Action:
    """A change that is committed is installed, by any process."""
    return Action(
        "install",
        (c, v, w),
        all_of(claimed(c), committed(c), ends(c, v), IS_NOW, next_view(v, w)),
        (
            put(number, w),
            clear(claimed, c),
            set_(begins, c, w),
            map_to(member, (u, q), any_of(~same(u, w) & member(u, q), same(u, w) & after(c, q))),
        ),
    )


# ---- verdicts: of the sender after its commit, and of a named peer before it delivers ----

ASKS = all_of(committed(m), goes(m, v), ~dead(p), sender(m, p) | named(m, p))
COUNTS = (set_(counts, m, p),)
IS_IDLE = IS_NOW & NOTHING_CLAIMED


def find_idle(idle: Expr = IS_IDLE) -> Action:
    """The view is still the one that the sender saw, and no change is under way."""
    return Action("find_idle", (m, p, v), all_of(ASKS, idle), COUNTS)


PUTS_OFF = starts_again(c)


def find_open(puts_off: tuple[Update, ...] = PUTS_OFF) -> Action:
    """A change is being staged, and is put off."""
    is_open = all_of(claimed(c), ~sealed(c), ~undone(c))
    return Action("find_open", (m, p, v, c), all_of(ASKS, IS_NOW, is_open), (*COUNTS, *puts_off))


def find_before() -> Action:
    """A change is decided, and comes behind the message."""
    return Action("find_before", (m, p, v, c), all_of(ASKS, ends(c, v), committed(c), below(m, c)), COUNTS)


COMES_FIRST = below(c, m)


def find_behind(comes_first: Expr = COMES_FIRST) -> Action:
    """A change is decided, and comes first: the message is sent again, to the view that follows."""
    guard = all_of(ASKS, ends(c, v), committed(c), ~IS_NOW, comes_first)
    return Action("find_behind", (m, p, v, c), guard, (set_(missed, m, p, c),))


# ---- receivers ----


IS_IN = all_of(has_view(q), same(last(q), v), member(v, q))
IS_PAST = has_view(q) & below(v, last(q))
GETS = (set_(had, q, m), set_(got, q, m))


def deliver_view() -> Action:
    """A view, which is installed by then."""
    was_in = any_of(member(v, q), has_view(q) & member(last(q), q))
    is_next = was_in >> all_of(has_view(q), same(last(q), v))
    return Action(
        "deliver_view",
        (q, c, v, w),
        all_of(front(c), ends(c, v), next_view(v, w), at_most(w, number())),
        (
            *(set_(had, q, c), set_(got, q, c), set_(has_view, q), put(last, q, w)),
            put(jumped, q, jumped(q) | ~is_next),
        ),
    )


def deliver(is_in: Expr = IS_IN) -> Action:
    """A message of the view that the member is in."""
    return Action("deliver", (q, m, v), all_of(front(m), goes(m, v), is_in), GETS)


def pass_over() -> Action:
    """A message of an earlier view."""
    return Action("pass_over", (q, m, v), all_of(front(m), goes(m, v), IS_PAST), (set_(had, q, m),))


HAS_FOUND = counts(m, q)


def deliver_named(has_found: Expr = HAS_FOUND) -> Action:
    """A peer that is named, and no member, has found that the message counts."""
    return Action("deliver_named", (q, m, v), all_of(front(m), goes(m, v), ~IS_IN, ~IS_PAST, has_found), GETS)


def pass_named() -> Action:
    """Or that it does not."""
    guard = all_of(front(m), goes(m, v), ~IS_IN, ~IS_PAST, missed(m, q, c))
    return Action("pass_named", (q, m, v, c), guard, (set_(had, q, m),))


def deliver_direct() -> Action:
    """A message past the group."""
    is_direct = forall(v, ~goes(m, v) & ~ends(m, v))
    return Action("deliver_direct", (q, m), front(m) & is_direct, GETS)


ACTIONS = (
    *(send(), look(), rise(), stage(IS_ABOVE_MEMBERS), seal(IS_ABOVE_BOTH), raise_(), commit(), put_off(), undo()),
    *(enter(), leave(), mourn(), release(), install()),
    *(find_idle(), find_open(), find_before(), find_behind()),
    *(deliver_view(), deliver(), pass_over(), deliver_named(), pass_named(), deliver_direct(), kill()),
)


# ---- what is true in every state ----

SHAPES = {
    "of what was not begun nothing is known": forall(
        *(x, q, v),
        any_of(risen(x, q), after(x, q), dies(x, q), goes(x, v), ends(x, v), claimed(x)) >> begun(x),
    ),
    "an item is a message to one view, or ends one": forall(
        *(x, v, w),
        all_of(
            (goes(x, v) & goes(x, w)) >> same(v, w),
            (ends(x, v) & ends(x, w)) >> same(v, w),
            ~(goes(x, v) & ends(x, w)),
        ),
    ),
    "no view is above the number": forall(
        *(x, q, v),
        any_of(goes(x, v), ends(x, v), member(v, q), has_view(q) & same(last(q), v)) >> at_most(v, number()),
    ),
}
CHANGES = {
    "one change is claimed, at the number that is now": forall(
        *(c, c1), all_of(claimed(c) >> ends(c, number()), (claimed(c) & claimed(c1)) >> same(c, c1))
    ),
    "what ends the view that is now is claimed, and what ended one before is committed": forall(
        *(c, v),
        (ends(c, v) & ~undone(c)) >> any_of(IS_NOW & claimed(c), ~IS_NOW & committed(c)),
    ),
    "a view with members that is over was ended": forall(
        *(v, q), all_of(member(v, q), below(v, number())) >> exists(c, ends(c, v) & committed(c))
    ),
    "a view with members was begun by a change": forall(v, q, member(v, q) >> exists(c, begins(c, v) & after(c, q))),
    "what begins a view has ended the one before": forall(
        *(c, v, w),
        all_of(
            begins(c, w) >> all_of(committed(c), at_most(w, number()), exists(u, ends(c, u) & next_view(u, w))),
            all_of(ends(c, v), ~undone(c), next_view(v, w), at_most(w, number())) >> begins(c, w),
        ),
    ),
    "a change that begins a view comes before all that end one from there on": forall(
        *(c, c1, v, w), all_of(begins(c, w), ends(c1, v), sealed(c1), at_most(w, v)) >> below(c, c1)
    ),
    "one change ends a view": forall(
        *(c, c1, v), all_of(ends(c, v), ends(c1, v), ~undone(c), ~undone(c1)) >> same(c, c1)
    ),
    "a change goes to all members that live, old and new": forall(
        *(c, v, q), any_of(ends(c, v) & member(v, q), after(c, q)) >> any_of(dest(c, q), dead(q))
    ),
    "the members of a view are those that its change says": forall(
        *(c, v, w, q), all_of(ends(c, v), ~undone(c), next_view(v, w), member(w, q)) >> after(c, q)
    ),
    "a change rises above all members": forall(*(c, v, q), all_of(ends(c, v), member(v, q), sealed(c)) >> risen(c, q)),
    "changes are in the order of their views": forall(
        *(c, c1, v, w), all_of(ends(c, v), ends(c1, w), sealed(c), sealed(c1), below(v, w)) >> below(c, c1)
    ),
    "deaths are of the dead, whose last messages are committed": forall(
        *(c, q, x), dies(c, q) >> all_of(dead(q), (sender(x, q) & sealed(x)) >> committed(x))
    ),
    "a death comes behind what the dead has sent": forall(
        *(c, q, x, r), all_of(dies(c, q), staged(c, r), sender(x, q), sealed(x), dest(x, r)) >> below(x, c)
    ),
}
MESSAGES = {
    "a message goes to the members of its view, and to those that are named": forall(
        *(m, v, q), goes(m, v) >> all_of(iff(dest(m, q), any_of(member(v, q), named(m, q))), member(v, witness(m)))
    ),
    "a message comes behind the change that began its view": forall(
        *(c, m, v, w, q),
        all_of(ends(c, v), goes(m, w), below(v, w), ~undone(c), dest(c, q), staged(m, q)) >> below(c, m),
    ),
    "what counts stays before the change": forall(
        *(m, p, c, v),
        all_of(counts(m, p), goes(m, v), ends(c, v), ~undone(c), any_of(sealed(c), risen(c, witness(m))))
        >> below(m, c),
    ),
    "what counts is committed": forall(m, p, counts(m, p) >> committed(m)),
    "what is missed comes behind a change": forall(
        *(m, p, c, v),
        missed(m, p, c)
        >> all_of(committed(m), committed(c), below(c, m), goes(m, v) >> (ends(c, v) & below(v, number()))),
    ),
}
RECEIVERS = {
    "a process that had a change has the view": forall(
        *(q, c, v),
        all_of(
            (had(q, c) & ends(c, v)) >> all_of(has_view(q), below(v, last(q))),
            (had(q, c) & begins(c, v)) >> all_of(has_view(q), at_most(v, last(q))),
        ),
    ),
    "a clock has reached the changes before the view": forall(
        *(q, c, v), all_of(has_view(q), ends(c, v), ~undone(c), below(v, last(q))) >> reached(q, c)
    ),
    "what is to come is above the changes before the view": forall(
        *(q, c, v, x), all_of(has_view(q), ends(c, v), ~undone(c), below(v, last(q)), TO_COME) >> below(c, x)
    ),
    "what a member has delivered stays before the change": forall(
        *(q, m, c, v),
        all_of(got(q, m), goes(m, v), member(v, q), ends(c, v), ~undone(c))
        >> any_of(
            below(m, c),
            all_of(reached(q, c), any_of(~risen(c, q), dest(c, q) & ~staged(c, q))),
        ),
    ),
    "what another has delivered counts": forall(
        *(q, m, v), all_of(got(q, m), goes(m, v), ~member(v, q)) >> counts(m, q)
    ),
    "what was passed over comes behind the change": forall(
        *(q, m, c, v),
        all_of(had(q, m), ~got(q, m), goes(m, v))
        >> all_of(below(v, number()), (ends(c, v) & ~undone(c)) >> below(c, m)),
    ),
    "no view was left out": forall(q, ~jumped(q)),
}

PROPERTIES = {
    "one change ends a view": forall(
        *(c, c1, v), all_of(ends(c, v), ends(c1, v), committed(c), committed(c1)) >> same(c, c1)
    ),
    "views: a member is given the next view, and no other": RECEIVERS["no view was left out"],
    "views: all processes are given them in one order": forall(
        *(c, c1, v, w), all_of(ends(c, v), ends(c1, w), committed(c), committed(c1), below(v, w)) >> below(c, c1)
    ),
    "delivery: what is delivered comes before the change that ends its view": forall(
        *(q, m, c, v), all_of(got(q, m), goes(m, v), ends(c, v), committed(c)) >> below(m, c)
    ),
    "delivery: what one delivers, all members of its view have that go on to the next": forall(
        *(q, r, m, c, v),
        all_of(got(q, m), goes(m, v), member(v, r), had(r, c), ends(c, v)) >> got(r, m),
    ),
    "verdict: what counts all members of its view have that go on to the next": forall(
        *(p, r, m, c, v),
        all_of(counts(m, p), goes(m, v), member(v, r), had(r, c), ends(c, v)) >> got(r, m),
    ),
    "verdict: what is sent again no process has delivered": forall(
        *(p, q, m, c, v), all_of(missed(m, p, c), goes(m, v)) >> ~got(q, m)
    ),
    "death: behind the view without it nothing comes from the dead": forall(
        *(q, r, c, x), all_of(had(r, c), dies(c, q), sender(x, q), committed(x), dest(x, r)) >> had(r, x)
    ),
}


# ---- each rule is needed ----

LIVING_ONLY = forall(v, q, all_of(ends(x, v), member(v, q), ~dead(q)) >> risen(x, q))
RISES_ABOVE_LIVING = (stage(LIVING_ONLY), seal(LIVING_ONLY & IS_ABOVE_CHANGES))
RISES_ONCE = (put_off(False), find_open(starts_again(c, False)))
MUTANTS = (
    Mutant("naive", "a member does not compare the view of a message with its own", (deliver(has_view(q)),)),
    Mutant("no-look", "a sender does not look at the group after its commit", (find_idle(TRUE),)),
    Mutant("no-put-off", "a sender lets a change be that is being staged", (find_open(()),)),
    Mutant("by-number", "a sender sends again whenever it finds another view", (find_behind(TRUE),)),
    Mutant("torn-look", "a sender reads the members of one view, and the number of a later one", (look(TRUE),)),
    Mutant("blind-named", "a named peer does not look at the group before it delivers", (deliver_named(TRUE),)),
    Mutant("no-claim", "changes are not one at a time", (enter(one=TRUE), leave(one=TRUE), mourn(one=TRUE))),
    Mutant("break-sealed", "a process breaks what may be sealed", (undo(begun(x) & ~committed(x)),)),
    Mutant("new-only", "a change goes to the members of the new view alone", (leave(OLD_MEMBERS & ~same(q, r)),)),
    Mutant("old-only", "a change goes to the members of the old view alone", (enter(OLD_MEMBERS),)),
    Mutant("forget-dead", "a change does not rise above the clocks of dead members", RISES_ABOVE_LIVING),
    Mutant("rise-once", "a change that was put off does not rise again", RISES_ONCE),
    Mutant("below-last", "a change does not rise above the one before", (seal(IS_ABOVE_MEMBERS),)),
    Mutant("no-sync", "an item is committed before the clocks are raised", (commit(TRUE),)),
    Mutant("mourn-living", "a death is announced without knowing of it", (mourn(TRUE),)),
    Mutant("no-settle", "a death is announced before what the dead had sealed is completed", (mourn(settled=TRUE),)),
)

SYSTEM = System(
    name="groups",
    meaning="groups with views, whose changes are part of the order",
    sorts=(Item, View, Proc),
    symbols=(
        *(sender, named, next_view, number, claimed, member, begun, sealed, committed, undone, goes, ends, after, dies),
        *(dest, staged, risen, reached, dead, had, got, has_view, last, counts, missed, witness, begins, jumped),
    ),
    axioms={
        **ordered.ONE_SENDER,
        "the next view is the least above": forall(
            *(v, w, u), next_view(v, w) >> all_of(below(v, w), below(v, u) >> at_most(w, u))
        ),
    },
    actions=ACTIONS,
    invariants={**ordered.INVARIANTS, **SHAPES, **CHANGES, **MESSAGES, **RECEIVERS},
    properties=PROPERTIES,
    mutants=MUTANTS,
)


def scene(
    senders: Sequence[int], *, views: int = 3, processes: int = 2, names: Set[tuple[int, int]] = frozenset()
) -> Scene:
    """Return a scene with the sender of each item, in the order of their keys, and which item names which process."""
    return Scene(
        {Item: len(senders), View: views, Proc: processes},
        {
            sender: frozenset(enumerate(senders)),
            named: frozenset(names),
            next_view: frozenset((view, view + 1) for view in range(views - 1)),
        },
    )
