# SPDX-License-Identifier: Apache-2.0
"""What models above the multicast share: items in the order of their keys, and queues that give them in it.

A key is that of multicast.py.  Items stand in the order of the keys with which they will be committed, which
an execution knows only afterwards; what will never be committed may stand anywhere.  So there are no numbers here: a
clock is known by the items whose keys it has reached.  An item is staged where the clock has not reached its key, is
committed when the clocks of all its receivers have, and a queue gives an item only after all that stand there with a
lower key.  What is put off is staged again.
"""

from __future__ import annotations

from busq.lab.proof.logic import *

Item = Sort("Item", is_ordered=True)  # by key
Proc = Sort("Proc")

sender = relation("sender", Item, Proc, is_fixed=True)
begun, sealed, committed, undone = (relation(name, Item) for name in ("begun", "sealed", "committed", "undone"))
dest = relation("dest", Item, Proc)
staged = relation("staged", Item, Proc)
reached = relation("reached", Proc, Item)  # the clock of its queue has reached that key
dead = relation("dead", Proc)
had, got = relation("had", Proc, Item), relation("got", Proc, Item)  # went past; and delivered

x, y = variables("x y", Item)
p, q, r = variables("p q r", Proc)

IS_OPEN = all_of(begun(x), ~sealed(x), ~undone(x))
SENDER_LIVES = sender(x, p) & ~dead(p)
TO_COME = all_of(staged(x, q), ~had(q, x), ~undone(x))  # stands in that queue


def goes_to(receivers: Expr) -> Update:
    """Return the update that gives `x` its destinations, by a formula about `q`."""
    return map_to(dest, (y, q), any_of(dest(y, q), same(y, x) & receivers))


def stage(also: Expr = TRUE) -> Action:
    """The item takes a place in a queue, whose clock is below its key."""
    return Action("stage", (x, q), all_of(IS_OPEN, dest(x, q), ~reached(q, x), also), (set_(staged, x, q),))


def seal(also: Expr = TRUE) -> Action:
    """It stands at all its destinations, and its key is final: by a swap of its sender, from STAGING."""
    stands = forall(q, dest(x, q) >> staged(x, q))
    return Action("seal", (x, p), all_of(IS_OPEN, SENDER_LIVES, stands, also), (set_(sealed, x),))


def raise_() -> Action:
    """A clock is raised: to a seal, or to anything else."""
    raised = any_of(reached(r, y), same(r, q) & at_most(y, x))
    return Action("raise", (q, x), ~reached(q, x), (map_to(reached, (r, y), raised),))


ALL_REACHED = forall(q, dest(x, q) >> reached(q, x))


def commit(when: Expr = ALL_REACHED) -> Action:
    """What is sealed is committed when all clocks were raised, by its sender or any other process."""
    return Action("commit", (x,), all_of(sealed(x), ~committed(x), when), (set_(committed, x),))


def undo(which: Expr = IS_OPEN) -> Action:
    """An item is taken back by its sender, or broken by another process."""
    return Action("undo", (x,), which, (set_(undone, x),))


def kill() -> Action:
    """A process is killed."""
    return Action("kill", (q,), ~dead(q), (set_(dead, q),))


def front(item: Expr) -> Expr:
    """Return the formula that the queue of `q` gives an item next: nothing with a lower key can come any more."""
    lower = forall(y, all_of(below(y, item), staged(y, q)) >> (had(q, y) | undone(y)))
    return all_of(~dead(q), dest(item, q), committed(item), ~had(q, item), lower)


ONE_SENDER = {"an item has one sender": forall(x, p, q, (sender(x, p) & sender(x, q)) >> same(p, q))}
INVARIANTS = {
    "an item is begun, then sealed, then committed": forall(
        x,
        all_of(committed(x) >> sealed(x), sealed(x) >> (begun(x) & ~undone(x)), undone(x) >> begun(x)),
    ),
    "what stands somewhere is for there, and begun": forall(
        x, q, all_of(staged(x, q) >> dest(x, q), dest(x, q) >> begun(x))
    ),
    "what is sealed stands at all its destinations": forall(x, q, (sealed(x) & dest(x, q)) >> staged(x, q)),
    "what was had is committed, and for there": forall(
        x, q, all_of(had(q, x) >> all_of(committed(x), dest(x, q)), got(q, x) >> had(q, x))
    ),
    "a clock has reached all below what it has": forall(q, x, y, (reached(q, x) & below(y, x)) >> reached(q, y)),
    "the clocks have reached what is committed": forall(x, q, (committed(x) & dest(x, q)) >> reached(q, x)),
    "what is to come is above what was had": forall(*(q, x, y), (TO_COME & had(q, y)) >> below(y, x)),
}
