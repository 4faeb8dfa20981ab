# SPDX-License-Identifier: Apache-2.0
"""Closed queues and burials, by `csrc/shm/death` and `csrc/shm/burial`, for any number of peers, deaths and buriers.

A slot has one peer after the other.  Two kernel locks belong to it: its peer holds the one for life, and a process that
changes a slot whose peer is gone holds the other one, that of the grave.  The kernel drops both with their process, so
any of these may be killed between any two steps: a peer dies, a process leaves the grave, and nothing is made good.

The burial is `grave.c`, what joins is `join.c`, what closes is `leave.c`.  Each function below is one action; its
arguments are the rules that mutants break.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from busq.lab.proof.logic import *
from busq.lab.proof.states import Scene

__all__ = ["SYSTEM", "scene"]

Slot = Sort("Slot")
Peer = Sort("Peer")  # an incarnation: it may be resumed after its death, any number of times
Proc = Sort("Proc")  # a process that wants to bury, to drop, or to join
Msg = Sort("Msg")

place_of = function("place_of", Peer, to=Slot, is_fixed=True)
sender = function("sender", Msg, to=Peer, is_fixed=True)
dest = relation("dest", Msg, Peer, is_fixed=True)

# The kernel.
alive = relation("alive", Peer)  # its process lives, and holds the slot's lock
grave = relation("grave", Slot, Proc)
# The slot.
shown = relation("shown", Slot, Peer)  # its word names that incarnation
joining, live, gone, dropping = (relation(name, Slot) for name in ("joining", "live", "gone", "dropping"))
hand = relation("hand", Slot, Msg)  # the one that its peer is sending
open_ = relation("open", Slot, Peer)  # the word of the queue has that incarnation, and is not closed
# What processes know.
saw_free = relation("saw_free", Slot, Proc)
entered = relation("entered", Slot, Proc)  # it holds the grave, and has found the slot's lock free since
joins = relation("joins", Proc, Peer)
used = relation("used", Peer)
# Messages.
begun, staging, sealed, committed, undone, through = (
    relation(name, Msg) for name in ("begun", "staging", "sealed", "committed", "undone", "through")
)
placed = relation("placed", Msg, Peer)  # a reference of its attempt stands in that queue
released = relation("released", Msg, Peer)
# History, on which no step depends.
unburied = relation("unburied", Peer)  # it died without having left
buried_alive, buried_again = relation("buried_alive", Peer), relation("buried_again", Peer)
fixed = relation("fixed", Msg)  # it was sealed or committed
given_up = relation("given_up", Msg, Peer)  # it was final, and left in a queue that was dropped
reopened = relation("reopened", Peer)  # a successor has opened the queue since the burial
had_after = relation("had_after", Msg, Peer)  # it was received from a queue that is dropped
dropped_alive = relation("dropped_alive", Msg, Peer)

s, s1 = variables("s s1", Slot)
i, i1, j = variables("i i1 j", Peer)
g, g1 = variables("g g1", Proc)
m, m1 = variables("m m1", Msg)

HERE = same(place_of(i), s)
BYTE_IS_FREE = forall(i1, alive(i1) >> ~same(place_of(i1), s))
IS_OF_SENDER = same(place_of(sender(m)), s)


# ---- the grave ----


def look() -> Action:
    """A process finds that the slot's lock is free."""
    return Action("look", (s, g), BYTE_IS_FREE, (set_(saw_free, s, g),))


IS_ALONE = forall(g1, ~grave(s, g1))


def lock(alone: Expr = IS_ALONE) -> Action:
    """It takes the lock of the grave, which one process holds at a time."""
    return Action("lock", (s, g), saw_free(s, g) & alone, (set_(grave, s, g),))


def enter(second_look: Expr = BYTE_IS_FREE) -> Action:
    """It looks at the slot's lock again: before the first look of the grave, a new peer may have come."""
    no_join = forall(i1, ~joins(g, i1))
    return Action("enter", (s, g), all_of(grave(s, g), no_join, second_look), (set_(entered, s, g),))


def leave_grave() -> Action:
    """It leaves the grave, or is killed there, whatever it has done so far."""
    return Action(
        "leave_grave",
        (s, g),
        grave(s, g),
        (
            *(clear(grave, s, g), clear(entered, s, g), clear(saw_free, s, g)),
            map_to(joins, (g1, i1), joins(g1, i1) & ~all_of(same(g1, g), same(place_of(i1), s))),
        ),
    )


# ---- burying ----


def close() -> Action:
    """The process in the grave closes the queue: nothing is placed from now on."""
    return Action("close", (s, g), entered(s, g), (map_to(open_, (s1, i1), open_(s1, i1) & ~same(s1, s)),))


IS_OPEN = staging(m)


def undo(which: Expr = IS_OPEN) -> Action:
    """What the dead had in hand and not sealed is undone."""
    return Action(
        "undo",
        (s, g, m),
        all_of(entered(s, g), hand(s, m), which),
        (clear(staging, m), clear(sealed, m), set_(undone, m)),
    )


def complete() -> Action:
    """What is sealed is completed, by any process, at any moment."""
    return Action("complete", (m,), sealed(m), (clear(sealed, m), set_(committed, m)))


NEEDS_BURIAL = joining(s) | live(s)
IS_CLOSED = forall(i1, ~open_(s, i1))
HAND_IS_OVER = forall(m1, hand(s, m1) >> ~(staging(m1) | sealed(m1)))


def bury(when: Expr = NEEDS_BURIAL, closed: Expr = IS_CLOSED, over: Expr = HAND_IS_OVER) -> Action:
    """Then the slot's word shows that its peer is gone."""
    once = map_to(buried_again, (i1,), any_of(buried_again(i1), all_of(same(i1, i), ~unburied(i))))
    living = map_to(buried_alive, (i1,), any_of(buried_alive(i1), all_of(same(i1, i), alive(i))))
    return Action(
        "bury",
        (s, g, i),
        all_of(entered(s, g), shown(s, i), when, closed, over),
        (clear(joining, s), clear(live, s), set_(gone, s), once, living, clear(unburied, i), clear(reopened, i)),
    )


IN_THE_GRAVE = entered(s, g)


def drop(when: Expr = IN_THE_GRAVE) -> Action:
    """What is left in the queue of a peer that is gone is given up."""
    return Action(
        "drop",
        (s, g, i),
        all_of(when, gone(s), shown(s, i), IS_CLOSED),
        (
            set_(dropping, s),
            map_to(
                given_up,
                (m1, i1),
                any_of(given_up(m1, i1), all_of(same(i1, i), placed(m1, i), fixed(m1), ~released(m1, i))),
            ),
        ),
    )


def discard(when: Expr = IN_THE_GRAVE) -> Action:
    """And released, a message at a time."""
    return Action(
        "discard",
        (s, g, i, m),
        all_of(when, dropping(s), HERE, placed(m, i), committed(m), ~released(m, i)),
        (
            set_(released, m, i),
            map_to(
                dropped_alive,
                (m1, i1),
                any_of(
                    dropped_alive(m1, i1), all_of(same(m1, m), same(i1, i), exists(j, alive(j) & same(place_of(j), s)))
                ),
            ),
        ),
    )


# ---- joining ----

QUEUE_IS_EMPTY = forall(m, i1, (placed(m, i1) & same(place_of(i1), s)) >> released(m, i1))
IS_OVER = any_of(undone(m), committed(m) & forall(i1, dest(m, i1) >> released(m, i1)))
NOTHING_IS_NEEDED = forall(m, (begun(m) & IS_OF_SENDER) >> IS_OVER)
NOT_IN_USE = ~any_of(joining(s), live(s))


def hold_new(
    queue: Expr = QUEUE_IS_EMPTY, memory: Expr = NOTHING_IS_NEEDED, free: Expr = NOT_IN_USE, closed: Expr = IS_CLOSED
) -> Action:
    """The process in the grave becomes a new peer: it holds the slot's lock."""
    guard = all_of(entered(s, g), HERE, ~used(i), closed, free, queue, memory)
    return Action(
        "hold_new", (s, g, i), guard, (set_(alive, i), set_(used, i), set_(joins, g, i), clear(entered, s, g))
    )


WHOLE_OR_NOTHING = dropping(s) >> QUEUE_IS_EMPTY


def hold_old(dropped: Expr = WHOLE_OR_NOTHING) -> Action:
    """Or it resumes the peer that is gone."""
    guard = all_of(entered(s, g), shown(s, i), gone(s), dropped)
    return Action("hold_old", (s, g, i), guard, (set_(alive, i), set_(joins, g, i), clear(entered, s, g)))


JOINS = all_of(joins(g, i), alive(i), HERE)


def show() -> Action:
    """A new peer's word: it is joining; nothing is in its hand."""
    return Action(
        "show",
        (s, g, i),
        all_of(JOINS, ~shown(s, i)),
        (
            map_to(shown, (s1, i1), any_of(shown(s1, i1) & ~same(s1, s), same(s1, s) & same(i1, i))),
            map_to(hand, (s1, m1), hand(s1, m1) & ~same(s1, s)),
            *(set_(joining, s), clear(gone, s), clear(live, s), clear(dropping, s)),
        ),
    )


def open_queue() -> Action:
    """It opens the queue, for its incarnation."""
    again = map_to(reopened, (i1,), any_of(reopened(i1), same(i1, i)))
    return Action("open_queue", (s, g, i), JOINS & shown(s, i), (set_(open_, s, i), again))


def go_live() -> Action:
    """Last, its word shows that it lives."""
    return Action(
        "go_live",
        (s, g, i),
        all_of(JOINS, shown(s, i), open_(s, i)),
        (set_(live, s), clear(joining, s), clear(gone, s), clear(dropping, s), clear(joins, g, i)),
    )


# ---- a peer ----

LIVES = all_of(alive(i), HERE, shown(s, i), live(s))


def die() -> Action:
    """It is killed, or has left and lets go of the lock."""
    leaves = map_to(
        unburied, (i1,), any_of(unburied(i1), all_of(same(i1, i), exists(s, all_of(shown(s, i), joining(s) | live(s)))))
    )
    return Action("die", (i,), alive(i), (clear(alive, i), leaves))


def close_own() -> Action:
    """It closes its queue."""
    return Action("close_own", (s, i), LIVES, (map_to(open_, (s1, i1), open_(s1, i1) & ~same(s1, s)),))


def left() -> Action:
    """Its word shows that it has left."""
    changes = (clear(live, s), set_(gone, s), clear(reopened, i))
    return Action("left", (s, i), all_of(LIVES, IS_CLOSED, HAND_IS_OVER), changes)


SENDS = all_of(same(sender(m), i), LIVES)


def take_in_hand() -> Action:
    """It names the next message in its slot, being through with the last one."""
    over = forall(m1, hand(s, m1) >> through(m1))
    named = map_to(hand, (s1, m1), any_of(hand(s1, m1) & ~same(s1, s), same(s1, s) & same(m1, m)))
    return Action("take_in_hand", (s, i, m), all_of(SENDS, ~begun(m), over), (named,))


IS_NAMED = hand(s, m)


def begin(when: Expr = IS_NAMED) -> Action:
    """It begins to send it."""
    return Action("begin", (s, i, m), all_of(SENDS, ~begun(m), when), (set_(begun, m), set_(staging, m)))


IS_ADDRESSED = dest(m, j)


def place(to: Expr = IS_ADDRESSED) -> Action:
    """The swap on the word of a queue compares the incarnation."""
    return Action("place", (s, i, m, j), all_of(SENDS, staging(m), to, open_(place_of(j), j)), (set_(placed, m, j),))


def put_off() -> Action:
    """A reader, or a process that drops, puts it off: its references die."""
    return Action("put_off", (m,), staging(m), (map_to(placed, (m1, i1), placed(m1, i1) & ~same(m1, m)),))


ALL_PLACED = forall(i1, dest(m, i1) >> placed(m, i1))


def seal() -> Action:
    """It fixes the timestamp."""
    return Action(
        "seal", (s, i, m), all_of(SENDS, staging(m), ALL_PLACED), (clear(staging, m), set_(sealed, m), set_(fixed, m))
    )


def commit() -> Action:
    """Or commits at once."""
    return Action(
        "commit",
        (s, i, m),
        all_of(SENDS, staging(m), ALL_PLACED),
        (clear(staging, m), set_(committed, m), set_(fixed, m)),
    )


def take_back() -> Action:
    """Or takes it back, since a receiver is gone."""
    return Action("take_back", (s, i, m), all_of(SENDS, staging(m)), (clear(staging, m), set_(undone, m)))


def finish() -> Action:
    """It is through with it."""
    return Action("finish", (s, i, m), all_of(SENDS, any_of(committed(m), undone(m))), (set_(through, m),))


def receive() -> Action:
    """A peer receives a message, and releases it."""
    late = map_to(had_after, (m1, i1), any_of(had_after(m1, i1), all_of(same(m1, m), same(i1, i), given_up(m, i))))
    return Action(
        "receive", (s, i, m), all_of(LIVES, placed(m, i), committed(m), ~released(m, i)), (set_(released, m, i), late)
    )


ACTIONS = (
    *(look(), lock(), enter(), leave_grave(), close(), undo(), complete(), bury(), drop(), discard()),
    *(hold_new(), hold_old(), show(), open_queue(), go_live(), die(), close_own(), left()),
    *(take_in_hand(), begin(), place(), put_off(), seal(), commit(), take_back(), finish(), receive()),
)

# ---- what is true in every state ----

AT_I = same(place_of(i), s)
OF_OTHERS = all_of(begun(m), same(place_of(sender(m)), s), ~same(sender(m), i))
LEFT_FOR_OTHERS = all_of(placed(m, i1), same(place_of(i1), s), ~same(i1, i))

LOCKS = {
    "a lock is held by one": forall(
        *(i, i1, s, g, g1),
        all_of(
            (alive(i) & alive(i1) & same(place_of(i), place_of(i1))) >> same(i, i1),
            (grave(s, g) & grave(s, g1)) >> same(g, g1),
        ),
    ),
    "in a grave no peer lives": forall(s, g, i, all_of(entered(s, g), AT_I) >> (grave(s, g) & ~alive(i))),
    "what joins is in the grave": forall(
        g, i, s, all_of(joins(g, i), AT_I) >> all_of(grave(s, g), ~entered(s, g), used(i))
    ),
    "one joins at a time": forall(
        *(g, g1, i, i1),
        all_of(joins(g, i), any_of(joins(g1, i1), alive(i1)), same(place_of(i), place_of(i1))) >> same(i, i1),
    ),
    "what lives was used": forall(i, alive(i) >> used(i)),
}
WORDS = {
    "a slot shows one peer, of its own": forall(
        *(s, i, i1),
        all_of(
            (shown(s, i) & shown(s, i1)) >> same(i, i1),
            shown(s, i) >> all_of(AT_I, used(i), any_of(joining(s), live(s), gone(s))),
        ),
    ),
    "a slot is in one state": forall(
        s,
        all_of(
            *(~(joining(s) & live(s)), ~(joining(s) & gone(s)), ~(live(s) & gone(s)), dropping(s) >> gone(s)),
            any_of(joining(s), live(s), gone(s)) >> exists(i, shown(s, i)),
        ),
    ),
    "what is not shown yet came to a slot that was not in use": forall(
        s, i, all_of(alive(i), AT_I, ~shown(s, i)) >> all_of(~joining(s), ~live(s))
    ),
    "an open queue is of the peer that is shown": forall(s, i, open_(s, i) >> shown(s, i)),
    "a queue is closed where another peer comes": forall(s, i, i1, all_of(alive(i), AT_I, open_(s, i1)) >> same(i, i1)),
    "the queue of what is gone was closed": forall(s, i, (gone(s) & open_(s, i)) >> reopened(i)),
    "what is not buried is dead, and shown": forall(
        s, i, all_of(unburied(i), AT_I) >> all_of(shown(s, i), any_of(joining(s), live(s)), ~alive(i))
    ),
    "what died in its slot is not buried": forall(
        s, i, all_of(shown(s, i), any_of(joining(s), live(s)), ~alive(i)) >> unburied(i)
    ),
}
SENDING = {
    "a message is in one phase": forall(
        m,
        all_of(
            *(~(staging(m) & other(m)) for other in (sealed, committed, undone)),
            *(~(sealed(m) & other(m)) for other in (committed, undone)),
            ~(committed(m) & undone(m)),
            *(any_of(staging(m), sealed(m), committed(m), undone(m)) >> begun(m), begun(m) >> used(sender(m))),
            begun(m) >> any_of(staging(m), sealed(m), committed(m), undone(m)),
        ),
    ),
    "what is fixed is sealed or committed": forall(m, iff(fixed(m), sealed(m) | committed(m))),
    "what a peer is through with is over": forall(m, through(m) >> (committed(m) | undone(m))),
    "one message is in a hand": forall(s, m, m1, (hand(s, m) & hand(s, m1)) >> same(m, m1)),
    "what is in hand is of the peer that is shown": forall(
        s, m, hand(s, m) >> all_of(IS_OF_SENDER, shown(s, sender(m)))
    ),
    "what is not over is in hand, of a peer that is not gone": forall(
        s, m, all_of(any_of(staging(m), sealed(m)), IS_OF_SENDER) >> all_of(hand(s, m), ~gone(s))
    ),
    "what stands in a queue is addressed": forall(m, i, placed(m, i) >> (dest(m, i) & begun(m))),
    "what is fixed stands in all queues": forall(m, i, (fixed(m) & dest(m, i)) >> placed(m, i)),
    "what is released is committed, and stands there": forall(m, i, released(m, i) >> (committed(m) & placed(m, i))),
}
LETTING_GO = {
    "what lives sends in its own slot": forall(
        m, i, s, all_of(alive(i), AT_I, begun(m), same(sender(m), i)) >> shown(s, i)
    ),
    "the messages of former peers are over": forall(
        s, i, m, all_of(any_of(shown(s, i), alive(i) & AT_I), OF_OTHERS) >> IS_OVER
    ),
    "the queues of former peers are empty": forall(
        s, i, m, i1, all_of(any_of(shown(s, i), alive(i) & AT_I), LEFT_FOR_OTHERS) >> released(m, i1)
    ),
    "what is dropped is dropped whole": forall(
        *(m, i, s),
        all_of(given_up(m, i), AT_I, ~released(m, i)) >> all_of(fixed(m), placed(m, i), dropping(s), ~alive(i)),
    ),
}
ERRORS = {
    "no living peer is buried": forall(i, ~buried_alive(i)),
    "no peer is buried again": forall(i, ~buried_again(i)),
    "nothing is dropped from a living queue": forall(m, i, ~dropped_alive(m, i)),
    "nothing is received that was dropped": forall(m, i, ~had_after(m, i)),
}

PROPERTIES = {
    "no living peer is buried": ERRORS["no living peer is buried"],
    "no peer is buried twice: each burial follows a death of its own": ERRORS["no peer is buried again"],
    "the queue of a peer that is gone is closed, unless a successor has opened it": WORDS[
        "the queue of what is gone was closed"
    ],
    "what the dead had begun is over: committed everywhere, or undone": forall(
        s, m, all_of(gone(s), begun(m), IS_OF_SENDER) >> any_of(undone(m), committed(m))
    ),
    "what was sealed or committed is never undone": forall(m, fixed(m) >> ~undone(m)),
    "what is committed stands at all destinations, until they have released it": forall(
        m, i, all_of(committed(m), dest(m, i)) >> placed(m, i)
    ),
    "nothing stands in the queue of a peer that it was not sent to": forall(m, i, placed(m, i) >> dest(m, i)),
    "a message is received or dropped, and not both": forall(m, i, ~any_of(dropped_alive(m, i), had_after(m, i))),
    "a place is given anew when the dead are buried": forall(
        s, i, i1, all_of(alive(i), AT_I, same(place_of(i1), s)) >> ~unburied(i1)
    ),
    "a place is given anew when its queue is closed": forall(
        s, i, i1, all_of(alive(i), AT_I, open_(s, i1)) >> same(i, i1)
    ),
    "a place is given anew when all has let go: its queue is empty, and what its peer sent is over": forall(
        *(s, i, m, i1), all_of(alive(i), AT_I) >> all_of(LEFT_FOR_OTHERS >> released(m, i1), OF_OTHERS >> IS_OVER)
    ),
}

# ---- each rule is needed ----

MUTANTS = (
    Mutant("one-look", "a process enters the grave by the look before it had its lock", (enter(saw_free(s, g)),)),
    Mutant("no-lock", "two processes are in one grave", (lock(TRUE),)),
    Mutant("unclosed", "a dead peer is buried with its queue open", (bury(closed=TRUE),)),
    Mutant("hand-left", "a dead peer is buried with a message in its hand", (bury(over=TRUE),)),
    Mutant("unnamed", "a message is begun before its slot names it", (begin(TRUE),)),
    Mutant("undo-sealed", "a burier undoes what is sealed, too", (undo(staging(m) | sealed(m)),)),
    Mutant("bury-again", "a burial does not look whether there was one", (bury(when=TRUE),)),
    Mutant(
        "any-incarnation",
        "a place in a queue is taken whatever its incarnation",
        (place(exists(i1, dest(m, i1) & same(place_of(i1), place_of(j)))),),
    ),
    Mutant("in-use", "a slot is given anew before its dead peer is buried", (hold_new(free=TRUE),)),
    Mutant("queue-left", "a slot is given anew with messages in its queue", (hold_new(queue=TRUE),)),
    Mutant("memory-left", "a slot is given anew while messages of its last peer are needed", (hold_new(memory=TRUE),)),
    Mutant("queue-open", "a slot is given anew with an open queue", (hold_new(closed=TRUE),)),
    Mutant("drop-alive", "what is left is dropped without the grave", (discard(TRUE),)),
    Mutant("drop-half", "a successor gets what is left of a queue that is dropped", (hold_old(TRUE),)),
)

SYSTEM = System(
    name="burial",
    meaning="closed queues, burials, and slots that are given anew",
    sorts=(Slot, Peer, Proc, Msg),
    symbols=(
        *(place_of, sender, dest, alive, grave, shown, joining, live, gone, dropping, hand, open_),
        *(saw_free, entered, joins, used, begun, staging, sealed, committed, undone, through, placed, released),
        *(unburied, buried_alive, buried_again, fixed, given_up, reopened, had_after, dropped_alive),
    ),
    axioms={},
    actions=ACTIONS,
    invariants={**LOCKS, **WORDS, **SENDING, **LETTING_GO, **ERRORS},
    properties=PROPERTIES,
    mutants=MUTANTS,
)


def scene(
    places: Sequence[int] = (0, 1, 0),
    senders: Sequence[int] = (0,),
    destinations: Sequence[Set[int]] = ({1},),
    *,
    procs: int = 2,
) -> Scene:
    """Return a scene with the slot of each peer, and the sender and the destinations of each message."""
    return Scene(
        {Slot: 1 + max(places), Peer: len(places), Proc: procs, Msg: len(senders)},
        {
            place_of: frozenset(enumerate(places)),
            sender: frozenset(enumerate(senders)),
            dest: frozenset((msg, peer) for msg, some in enumerate(destinations) for peer in some),
        },
    )
