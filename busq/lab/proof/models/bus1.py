# SPDX-License-Identifier: Apache-2.0
"""The order `bus1` of `csrc/order/bus1.c`, for any number of processes and messages (bus1 wiki, "Message ordering").

The network delays and reorders as it likes.  A message that is known when another is started, by whatever way, is one
that was committed by then: nothing is delivered before.  With unicast=direct some messages to one other process are
`direct`, as in the code; and the clock may pass any time where a block is placed, which is what estimate=best needs.
The output buffer is left out: a message counts from the moment in which it is started.  Each function below is one
action; its arguments are the rules that mutants break.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set

from busq.lab.proof.logic import *
from busq.lab.proof.models.ends import one_of_each
from busq.lab.proof.models.keys import history_invariants, key_below
from busq.lab.proof.models.rest import at_rest
from busq.lab.proof.states import Scene

__all__ = ["STILL", "SYSTEM", "clock", "direct", "scene"]

Msg = Sort("Msg", is_ordered=True)  # by name, which settles ties
Proc = Sort("Proc")
Time = Sort("Time", is_ordered=True)

sender = relation("sender", Msg, Proc, is_fixed=True)
dest = relation("dest", Msg, Proc, is_fixed=True)
direct = relation("direct", Msg, is_fixed=True)  # it goes without a block

clock = function("clock", Proc, to=Time)
sent, over = relation("sent", Msg), relation("over", Msg)  # the sender is at it; it may start its next one
blocked = relation("blocked", Proc, Msg)  # a block stands in the queue, or what has taken its place
block = function("block", Proc, Msg, to=Time)  # the clock behind which it was placed
told = relation("told", Msg, Proc)  # the CLOCK of that process has arrived
chosen = relation("chosen", Msg)
stamp = function("stamp", Msg, to=Time)
synced = relation("synced", Proc, Msg)  # SYNC has arrived
answered = relation("answered", Msg, Proc)  # and its SYNCED
committed = relation("committed", Msg)
queued = relation("queued", Proc, Msg)  # QUEUE has arrived: the message stands in the place of its block
delivered = relation("delivered", Proc, Msg)
# History, on which no step depends.
before = relation("before", Proc, Msg, Msg)  # that process has delivered the one, and then the other
cause = relation("cause", Msg, Msg)  # when the other was started, the one was committed anywhere, or sent there

m, m1, m2 = variables("m m1 m2", Msg)
p, q, p1, p2 = variables("p q p1 p2", Proc)
(t,) = variables("t", Time)


def of_others(holds: Expr) -> Expr:
    """Return the formula that something holds of all destinations `q` of `m` but its sender `p`."""
    return forall(q, (dest(m, q) & ~same(p, q)) >> holds)


def own_too(symbol_holds: Expr) -> Expr:
    """Return the formula that something holds of `p1` and `m1`, or that these are `p`, a destination, and its `m`."""
    return any_of(symbol_holds, all_of(same(p1, p), same(m1, m), dest(m, p)))


IS_IDLE = forall(m1, all_of(sender(m1, p), sent(m1)) >> over(m1))


def start(when: Expr = IS_IDLE) -> Action:
    """A process that is idle starts with its next message; if it is a destination too, it places a block."""
    known = all_of(same(m2, m), any_of(committed(m1), sender(m1, p) & sent(m1)))
    return Action(
        "start",
        (m, p),
        all_of(sender(m, p), ~sent(m), when),
        (
            set_(sent, m),
            map_to(blocked, (p1, m1), own_too(blocked(p1, m1))),
            put(block, p, m, clock(p)),
            map_to(cause, (m1, m2), cause(m1, m2) | known),
        ),
    )


BEHIND_THE_CLOCK = at_most(clock(p), t)


def receive_block(where: Expr = BEHIND_THE_CLOCK) -> Action:
    """A destination places a block behind its clock, which may pass any time, and answers with that."""
    is_new = all_of(sent(m), ~direct(m), dest(m, p), ~sender(m, p), ~blocked(p, m))
    passed = either(below(clock(p), t), t, clock(p))
    return Action(
        "receive_block",
        (m, p, t),
        all_of(is_new, where),
        (put(clock, p, passed), set_(blocked, p, m), put(block, p, m, t)),
    )


def receive_clock() -> Action:
    """The sender has one more CLOCK."""
    guard = all_of(sender(m, p), ~same(p, q), blocked(q, m), ~direct(m), ~told(m, q))
    return Action("receive_clock", (m, p, q), guard, (set_(told, m, q),))


ALL_HAVE_TOLD = of_others(told(m, q))
ABOVE_OWN = below(clock(p), t)
ABOVE_ALL = ABOVE_OWN & forall(q, (dest(m, q) & blocked(q, m)) >> below(block(q, m), t))


def choose(complete: Expr = ALL_HAVE_TOLD, high_enough: Expr = ABOVE_ALL) -> Action:
    """The sender, which has all clocks, takes a time above them and its own, and sends SYNC."""
    guard = all_of(sender(m, p), sent(m), ~direct(m), ~chosen(m), complete, high_enough)
    return Action("choose", (m, p, t), guard, (set_(chosen, m), put(stamp, m, t), put(clock, p, t)))


def receive_sync() -> Action:
    """A destination learns the timestamp, and its clock passes it."""
    passed = either(below(clock(p), stamp(m)), stamp(m), clock(p))
    guard = all_of(chosen(m), ~direct(m), dest(m, p), ~sender(m, p), ~synced(p, m))
    return Action("receive_sync", (m, p), guard, (set_(synced, p, m), put(clock, p, passed)))


def receive_synced() -> Action:
    """The sender has one more SYNCED."""
    guard = all_of(sender(m, p), synced(q, m), ~answered(m, q))
    return Action("receive_synced", (m, p, q), guard, (set_(answered, m, q),))


ALL_HAVE_ANSWERED = of_others(answered(m, q))


def commit(when: Expr = ALL_HAVE_ANSWERED) -> Action:
    """The sender, which has all SYNCEDs, sends QUEUE, and is idle."""
    return Action(
        "commit",
        (m, p),
        all_of(sender(m, p), ~direct(m), chosen(m), ~committed(m), when),
        (set_(committed, m), set_(over, m), map_to(queued, (p1, m1), own_too(queued(p1, m1)))),
    )


def receive_queue() -> Action:
    """A destination puts the message in the place of its block."""
    guard = all_of(committed(m), ~direct(m), dest(m, p), ~sender(m, p), ~queued(p, m))
    return Action("receive_queue", (m, p), guard, (set_(queued, p, m),))


def receive_unicast(when: Expr = ABOVE_OWN) -> Action:
    """The destination of a direct message ticks, and queues it under its clock."""
    at_once = (set_(blocked, p, m), set_(chosen, m), set_(committed, m), set_(queued, p, m))
    times = (put(clock, p, t), put(block, p, m, t), put(stamp, m, t))
    return Action(
        "receive_unicast", (m, p, t), all_of(sent(m), direct(m), dest(m, p), ~queued(p, m), when), (*at_once, *times)
    )


IS_QUEUED = committed(m)


def end_unicast(when: Expr = IS_QUEUED) -> Action:
    """The sender of a direct message has its SYNCED, and is idle."""
    return Action("end_unicast", (m, p), all_of(sender(m, p), direct(m), sent(m), ~over(m), when), (set_(over, m),))


AMONG_MESSAGES = queued(p, m1) >> key_below(stamp(m), m, stamp(m1), m1)
AMONG_BLOCKS = ~queued(p, m1) >> at_most(stamp(m), block(p, m1))


def deliver(among_messages: Expr = AMONG_MESSAGES, among_blocks: Expr = AMONG_BLOCKS) -> Action:
    """The first of the queue is delivered, if it is a message."""
    others = all_of(blocked(p, m1), ~delivered(p, m1), ~same(m1, m))
    return Action(
        "deliver",
        (m, p),
        all_of(queued(p, m), ~delivered(p, m), forall(m1, others >> (among_messages & among_blocks))),
        (
            set_(delivered, p, m),
            map_to(before, (p1, m1, m2), before(p1, m1, m2) | all_of(same(p1, p), same(m2, m), delivered(p, m1))),
        ),
    )


INVARIANTS = {
    "what was sent has a sender": forall(m, sent(m) >> exists(p, sender(m, p))),
    "what was begun was sent": forall(
        p, m, all_of(blocked(p, m) >> (sent(m) & dest(m, p)), (chosen(m) | over(m)) >> sent(m))
    ),
    "what is told was blocked": forall(p, m, told(m, p) >> blocked(p, m)),
    "what is answered was synced": forall(p, m, all_of(answered(m, p) >> synced(p, m), synced(p, m) >> chosen(m))),
    "what is over was committed, and chosen": forall(
        m, all_of(over(m) >> committed(m), committed(m) >> chosen(m), (committed(m) & ~direct(m)) >> over(m))
    ),
    "what is queued was committed, and stands in the place of its block": forall(
        p, m, queued(p, m) >> (committed(m) & blocked(p, m))
    ),
    "what is delivered was queued": forall(p, m, delivered(p, m) >> queued(p, m)),
    "a direct message is queued where it is chosen": forall(
        p, m, all_of(direct(m), chosen(m), dest(m, p)) >> queued(p, m)
    ),
    "a direct message that is blocked is queued": forall(p, m, (direct(m) & blocked(p, m)) >> queued(p, m)),
    "a sender blocks its own queue": forall(p, m, all_of(sender(m, p), dest(m, p), sent(m)) >> blocked(p, m)),
    "and queues it when it is committed": forall(p, m, all_of(sender(m, p), dest(m, p), committed(m)) >> queued(p, m)),
    "what is chosen is blocked everywhere": forall(p, m, (chosen(m) & dest(m, p)) >> blocked(p, m)),
    "a block is below its message": forall(
        p, m, all_of(chosen(m), ~direct(m), dest(m, p)) >> below(block(p, m), stamp(m))
    ),
    "no block is above its clock": forall(p, m, blocked(p, m) >> at_most(block(p, m), clock(p))),
    "the sender's clock has reached what it has chosen": forall(
        p, m, all_of(chosen(m), ~direct(m), sender(m, p)) >> at_most(stamp(m), clock(p))
    ),
    "a synced clock has reached the timestamp": forall(p, m, synced(p, m) >> at_most(stamp(m), clock(p))),
    "all clocks have reached what is committed": forall(
        p, m, (committed(m) & dest(m, p)) >> at_most(stamp(m), clock(p))
    ),
    "blocks are behind what is delivered": forall(
        *(p, m1, m2),
        all_of(delivered(p, m1), blocked(p, m2), ~queued(p, m2)) >> at_most(stamp(m1), block(p, m2)),
    ),
    "what is still to come is above what is delivered": forall(
        *(p, m1, m2),
        all_of(delivered(p, m1), chosen(m2), dest(m2, p), ~delivered(p, m2)) >> key_below(stamp(m1), m1, stamp(m2), m2),
    ),
    **history_invariants(p, (m1, m2), delivered, before, stamp),
    "a cause is committed, an effect is begun": forall(m1, m2, cause(m1, m2) >> (committed(m1) & sent(m2))),
    "the block of an effect is behind its cause": forall(
        *(p, m1, m2),
        all_of(cause(m1, m2), dest(m1, p), blocked(p, m2)) >> at_most(stamp(m1), block(p, m2)),
    ),
    "an effect is above its cause": forall(
        *(p, m1, m2),
        all_of(cause(m1, m2), dest(m1, p), dest(m2, p), chosen(m2)) >> below(stamp(m1), stamp(m2)),
    ),
}

# There is always a time that will do.
STILL = at_rest(
    *(receive_block(TRUE), receive_clock(), choose(high_enough=TRUE), receive_sync(), receive_synced(), commit()),
    *(receive_queue(), receive_unicast(TRUE), end_unicast(), deliver()),
)

PROPERTIES = {
    "consistency: no two processes deliver two messages in opposite orders": forall(
        *(p1, p2, m1, m2), ~(before(p1, m1, m2) & before(p2, m2, m1))
    ),
    "total order: every process delivers in ascending order of one unique key": INVARIANTS[
        "the history is in the order of keys"
    ],
    "no gap: what is delivered comes after all that has a lower key there, now and for ever": forall(
        *(p, m1, m2),
        all_of(delivered(p, m2), chosen(m1), dest(m1, p), key_below(stamp(m1), m1, stamp(m2), m2)) >> before(p, m1, m2),
    ),
    "causality: what its sender has sent, and what was committed anywhere, comes before what is started then": forall(
        *(p, m1, m2), all_of(cause(m1, m2), delivered(p, m2), dest(m1, p)) >> before(p, m1, m2)
    ),
    "no block for ever, its core: a block is of what is under way, or the QUEUE is": forall(
        p, m, (blocked(p, m) & ~queued(p, m)) >> all_of(sent(m), over(m) >> committed(m))
    ),
    "no loss: at rest, what was started is delivered, or something lower is not": STILL
    >> forall(
        *(p, m),
        all_of(sent(m), dest(m, p), ~delivered(p, m))
        >> exists(m1, all_of(sent(m1), dest(m1, p), ~delivered(p, m1), key_below(stamp(m1), m1, stamp(m), m))),
    ),
    "no invention: only what was sent is delivered, and only where it was sent to": forall(
        p, m, delivered(p, m) >> (sent(m) & dest(m, p))
    ),
    "no duplicate: nothing is delivered twice": forall(p, m, ~before(p, m, m)),
}

MUTANTS = (
    Mutant("past-block", "a message is delivered past the blocks before it", (deliver(among_blocks=TRUE),)),
    Mutant("past-lower", "a message is delivered past lower ones", (deliver(among_messages=TRUE),)),
    Mutant("block-below", "a block is placed below the clock", (receive_block(TRUE),)),
    Mutant("without-clock", "the timestamp is taken before all clocks are in", (choose(complete=TRUE),)),
    Mutant("below-clock", "the timestamp may be below the clocks that have come", (choose(high_enough=ABOVE_OWN),)),
    Mutant("unsynced", "a message is committed before all clocks have passed it", (commit(TRUE),)),
    Mutant("next-too-early", "a process starts with a message while its last one is under way", (start(TRUE),)),
    Mutant("unicast-in-place", "a direct message is queued at the clock", (receive_unicast(BEHIND_THE_CLOCK),)),
    Mutant("unicast-unanswered", "a direct message is over when it is sent", (end_unicast(TRUE),)),
)

SYSTEM = System(
    name="bus1",
    meaning="the order bus1, over any network",
    sorts=(Msg, Proc, Time),
    symbols=(
        *(sender, dest, direct, clock, sent, over, blocked, block, told, chosen, stamp, synced, answered, committed),
        *(queued, delivered, before, cause),
    ),
    axioms={
        **one_of_each(sender),
        "a direct message has one destination, another process": forall(
            *(m, p1, p2),
            (direct(m) & dest(m, p1)) >> all_of(dest(m, p2) >> same(p1, p2), ~sender(m, p1)),
        ),
    },
    actions=(
        *(start(), receive_block(), receive_clock(), choose(), receive_sync(), receive_synced(), commit()),
        *(receive_queue(), receive_unicast(), end_unicast(), deliver()),
    ),
    invariants=INVARIANTS,
    properties=PROPERTIES,
    mutants=MUTANTS,
)


def scene(
    senders: Sequence[int], destinations: Sequence[Set[int]], *, directs: Collection[int] = (), times: int = 5
) -> Scene:
    """Return a scene with the sender and the destinations of each message, and those that go without a block."""
    processes = 1 + max(*senders, *(process for some in destinations for process in some))
    return Scene(
        {Msg: len(senders), Proc: processes, Time: times},
        {
            sender: frozenset(enumerate(senders)),
            dest: frozenset((msg, process) for msg, some in enumerate(destinations) for process in some),
            direct: frozenset((msg,) for msg in directs),
        },
    )
