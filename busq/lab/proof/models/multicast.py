# SPDX-License-Identifier: Apache-2.0
"""The ordered multicast of `csrc/shm`, for any number of senders, helpers, queues, messages, positions and attempts.

An action is one atomic access of the compiled code that decides something: a swap, or the load after which a process
goes on.  What helpers and buriers may do is an action that happens at any moment, and nothing ever has to happen, so
kills and stops of any process are in it.

The sender is `csrc/shm/send/multicast.h`, what it shares with helpers `csrc/shm/message`, the reader
`csrc/shm/receive`.  Each function below is one action; its arguments are the rules that mutants break.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from busq.lab.proof.logic import *
from busq.lab.proof.models.keys import history_invariants, key_below
from busq.lab.proof.states import Scene

__all__ = ["SYSTEM", "scene"]

Msg = Sort("Msg", is_ordered=True)  # by sender and sequence number, which settle ties
Queue = Sort("Queue")
Pos = Sort("Pos", is_ordered=True)  # a position of some ring
Time = Sort("Time", is_ordered=True)
Attempt = Sort("Attempt", is_ordered=True)

dest = relation("dest", Msg, Queue, is_fixed=True)
unicast = relation("unicast", Msg, is_fixed=True)
flips = relation("flips", Queue, is_fixed=True)  # for the mutant tie-per-queue alone

# The word {clock, tail} of a queue; tails are the positions that are taken.
clock = function("clock", Queue, to=Time)
# The record.
begun, staging, sealed, committed, undone = (
    relation(name, Msg) for name in ("begun", "staging", "sealed", "committed", "undone")
)
stamp = function("stamp", Msg, to=Time)  # of what is sealed or committed
proposal = function("proposal", Msg, to=Time)
current = function("current", Msg, to=Attempt)
# What the sender knows.
own = function("own", Msg, to=Attempt)  # the attempt that it takes for the current one
lost = relation("lost", Msg)  # a clock had reached the proposal
staged = relation("staged", Msg, Queue)  # published there in its attempt
synced = relation("synced", Msg, Queue)  # that clock was raised to the seal
# The ring.
slot = relation("slot", Queue, Pos, Msg)  # that position was taken for that message
attempt = function("attempt", Pos, to=Attempt)
floor = function("floor", Pos, to=Time)  # the clock before it was taken
published, skipped = relation("published", Pos), relation("skipped", Pos)
# What the reader knows; a successor has the marks of what was delivered, and nothing else.
passed, inherited, held = (relation(name, Pos) for name in ("passed", "inherited", "held"))
delivered = relation("delivered", Queue, Msg)
# History, on which no step depends.
key_at = function("key_at", Queue, Msg, to=Time)  # the timestamp with which it was delivered there
before = relation("before", Queue, Msg, Msg)  # that queue has delivered the one, and then the other
cause = relation("cause", Msg, Msg)  # the one was committed when the send of the other began

m, m1, m2, m3 = variables("m m1 m2 m3", Msg)
q, q1, q2 = variables("q q1 q2", Queue)
p, p0, p1, p2 = variables("p p0 p1 p2", Pos)
(t,) = variables("t", Time)
(a,) = variables("a", Attempt)


def is_of_attempt(pos: Expr, msg: Expr) -> Expr:
    """Return the formula that a position was taken in the attempt of the sender."""
    return same(attempt(pos), own(msg))


def is_alive(pos: Expr, msg: Expr) -> Expr:
    """Return the formula that a reference may still be delivered, as far as its record shows."""
    return all_of(same(attempt(pos), current(msg)), ~undone(msg))


def is_final(msg: Expr) -> Expr:
    """Return the formula that the timestamp of a message will not change."""
    return sealed(msg) | committed(msg)


def stands_here(pos: Expr, msg: Expr) -> Expr:
    """Return the formula that a position counts in the attempt of the sender."""
    return all_of(is_of_attempt(pos, msg), ~skipped(pos))


# Only the sender seals, or commits at the proposal, so it knows whether it has.
unfinished = all_of(begun(m), ~sealed(m), ~committed(m))
all_staged = forall(q1, dest(m, q1) >> staged(m, q1))
nothing_pending = forall(p1, all_of(slot(q, p1, m), is_of_attempt(p1, m)) >> skipped(p1))


# ---- the sender ----


def begin() -> Action:
    """A send begins; what is committed anywhere may be its cause, by whatever channel."""
    return Action(
        "begin",
        (m, a),
        ~begun(m),
        (
            set_(begun, m),
            set_(staging, m),
            put(own, m, a),
            put(current, m, a),
            clear(lost, m),
            map_to(staged, (m1, q1), staged(m1, q1) & ~same(m1, m)),
            map_to(cause, (m1, m2), cause(m1, m2) | (same(m2, m) & committed(m1))),
        ),
        is_free_in=(a,),
    )


def propose() -> Action:
    """The sender takes a time, any time: the code takes one above all clocks that it has seen."""
    nowhere = forall(q1, p1, all_of(slot(q1, p1, m), is_of_attempt(p1, m)) >> skipped(p1))
    return Action("propose", (m, t), unfinished & nowhere, (put(proposal, m, t),))


ABOVE_THE_CLOCK = below(clock(q), proposal(m))
IS_DESTINATION = dest(m, q)


def take(
    accepted: Expr = ABOVE_THE_CLOCK,
    nothing_else: Expr = nothing_pending,
    to: Expr = IS_DESTINATION,
    also: tuple[Update, ...] = (),
) -> Action:
    """The swap on {clock, tail}: the next position, and the proposal as the clock, or the proposal is lost."""
    unused = forall(q1, m1, ~slot(q1, p, m1))
    at_the_tail = forall(p1, m1, slot(q, p1, m1) >> below(p1, p))
    new = [clear(flag, p) for flag in (published, skipped, passed, inherited, held)]
    return Action(
        "take",
        (m, q, p),
        all_of(unfinished, to, nothing_else, unused, at_the_tail),
        (
            set_(slot, q, p, m),
            put(attempt, p, own(m)),
            put(floor, p, clock(q)),
            *new,
            put(clock, q, either(accepted, proposal(m), clock(q))),
            put(lost, m, lost(m) | ~accepted),
            *also,
        ),
        is_free_in=(p,),
    )


IS_HOLE = all_of(slot(q, p, m), ~published(p), ~skipped(p))


def publish() -> Action:
    """The swap on the slot: the reference stands there."""
    return Action(
        "publish",
        (m, q, p),
        all_of(~unicast(m), IS_HOLE, is_of_attempt(p, m)),
        (set_(published, p), set_(staged, m, q)),
    )


def publish_unicast() -> Action:
    """The same of a message with one destination: it commits the message too."""
    return Action(
        "publish_unicast",
        (m, q, p),
        all_of(unicast(m), staging(m), IS_HOLE, is_of_attempt(p, m), ~lost(m)),
        (
            set_(published, p),
            set_(staged, m, q),
            clear(staging, m),
            set_(committed, m),
            put(stamp, m, proposal(m)),
        ),
    )


ATTEMPT_HOLDS = same(own(m), current(m))


def commit(attempt_holds: Expr = ATTEMPT_HOLDS, staged_at: Expr = all_staged) -> Action:
    """STAGING to COMMITTED at the proposal, which no queue refused."""
    return Action(
        "commit",
        (m,),
        all_of(~unicast(m), staging(m), attempt_holds, ~lost(m), staged_at),
        (clear(staging, m), set_(committed, m), put(stamp, m, proposal(m))),
    )


def above(time: Expr, limit: Expr) -> Expr:
    """Return the formula that a time is strictly above a limit."""
    return below(limit, time)


def not_below(time: Expr, limit: Expr) -> Expr:
    """Return the formula that a time is above a limit, or is the limit."""
    return at_most(limit, time)


def seal(is_strict: bool = True) -> Action:
    """STAGING to SEALED at a time above the proposal and above all clocks that the message met."""
    higher = above if is_strict else not_below
    over_all = forall(q1, p1, all_of(slot(q1, p1, m), stands_here(p1, m)) >> higher(t, floor(p1)))
    return Action(
        "seal",
        (m, t),
        all_of(~unicast(m), staging(m), ATTEMPT_HOLDS, all_staged, higher(t, proposal(m)), over_all),
        (
            clear(staging, m),
            set_(sealed, m),
            put(stamp, m, t),
            map_to(synced, (m1, q1), synced(m1, q1) & ~same(m1, m)),
        ),
        is_free_in=(t,),
    )


def restage() -> Action:
    """The sender sees that it was put off, and begins the attempt that is current."""
    return Action(
        "restage",
        (m,),
        unfinished & ~ATTEMPT_HOLDS,
        (put(own, m, current(m)), clear(lost, m), map_to(staged, (m1, q1), staged(m1, q1) & ~same(m1, m))),
    )


# ---- the sender or a helper, at any moment ----


IS_SEALED = sealed(m)
IS_STAGING = staging(m)


RAISED = either(below(clock(q), stamp(m)), stamp(m), clock(q))


def sync(which: Expr = IS_SEALED, raised: Expr = RAISED) -> Action:
    """A clock is raised to a seal."""
    return Action("sync", (m, q), which & dest(m, q), (put(clock, q, raised), set_(synced, m, q)))


IS_HIGHER = below(clock(q), t)


def raise_(when: Expr = IS_HIGHER) -> Action:
    """A clock is raised to anything: by a helper that was stopped for an hour, or to a stamp seen elsewhere."""
    return Action("raise", (q, t), when, (put(clock, q, t),))


ALL_SYNCED = forall(q1, dest(m, q1) >> synced(m, q1))


def complete(when: Expr = ALL_SYNCED) -> Action:
    """SEALED to COMMITTED, once all clocks were raised."""
    return Action("complete", (m,), sealed(m) & when, (clear(sealed, m), set_(committed, m)))


IS_MULTICAST = ~unicast(m)


def put_off(which: Expr = IS_STAGING, also: tuple[Update, ...] = (), of: Expr = IS_MULTICAST) -> Action:
    """STAGING to STAGING of a later attempt: all references of the attempt before it die."""
    return Action(
        "put_off",
        (m, a),
        all_of(of, which, below(current(m), a)),
        (put(current, m, a), *also),
        is_free_in=(a,),
    )


def undo() -> Action:
    """STAGING to FREE, by the sender or a process that buries it."""
    return Action("undo", (m,), ~unicast(m) & staging(m), (clear(staging, m), set_(undone, m)))


def skip(which: Expr = IS_HOLE) -> Action:
    """A reader swaps a hole to `skipped`; the sender, losing, stages again behind it."""
    return Action("skip", (q, p, m), which, (set_(skipped, p),))


# ---- the reader ----

WAS_HAD = inherited(p) & delivered(q, m)
CROSSED = passed(p1)  # what may lie between the reader and the beginning of its ring


def front(pos: Expr, msg: Expr, crossed: Expr = CROSSED) -> Expr:
    """Return the formula that the reader stands at a position of its ring."""
    behind = forall(p1, m1, all_of(slot(q, p1, m1), below(p1, pos)) >> crossed)
    return all_of(slot(q, pos, msg), ~passed(pos), behind)


def ready(was_had: Expr = WAS_HAD) -> Expr:
    """Return the formula that what stands at the position is committed, and not delivered yet."""
    return all_of(published(p), is_alive(p, m), committed(m), ~was_had)


IN_PLACE = same(stamp(m), proposal(m))


def least_held(order: Expr) -> Expr:
    """Return the formula that nothing in the heap comes before `m`, by an order of `m1` before `m`."""
    return forall(p1, m1, all_of(slot(q, p1, m1), held(p1)) >> ~order)


HEAP_ORDER = key_below(stamp(m1), m1, stamp(m), m)
DELIVERY = (
    set_(delivered, q, m),
    put(key_at, q, m, stamp(m)),
    map_to(before, (q1, m1, m2), before(q1, m1, m2) | all_of(same(q1, q), same(m2, m), delivered(q, m1))),
)


def pass_by(crossed: Expr = CROSSED, was_had: Expr = WAS_HAD, also: Expr = FALSE) -> Action:
    """The reader goes past what will never be delivered from there."""
    dead = any_of(skipped(p), published(p) & ~is_alive(p, m), published(p) & was_had, also)
    return Action("pass_by", (q, p, m), front(p, m, crossed) & dead, (set_(passed, p),))


def to_heap(allowed: Expr = TRUE, crossed: Expr = CROSSED, was_had: Expr = WAS_HAD) -> Action:
    """A late message, one with a final time above its proposal, goes to the heap."""
    guard = all_of(front(p, m, crossed), ready(was_had), ~IN_PLACE, allowed)
    return Action("to_heap", (q, p, m), guard, (set_(passed, p), set_(held, p)))


def deliver(
    in_place: Expr = IN_PLACE,
    crossed: Expr = CROSSED,
    was_had: Expr = WAS_HAD,
    order: Expr = HEAP_ORDER,
    passes: tuple[Update, ...] = (set_(passed, p),),
) -> Action:
    """The reader delivers what it stands at."""
    guard = all_of(front(p, m, crossed), ready(was_had), in_place, least_held(order))
    return Action("deliver", (q, p, m), guard, (*passes, *DELIVERY))


def deliver_held(crossed: Expr = CROSSED, order: Expr = HEAP_ORDER, front_order: Expr | None = None) -> Action:
    """The reader delivers the least of its heap, which is below the proposal of what it stands at."""
    if front_order is None:
        front_order = key_below(stamp(m), m, proposal(m3), m3)
    limit = all_of(
        front(p, m3, crossed),
        published(p),
        is_alive(p, m3),
        ~(inherited(p) & delivered(q, m3)),
        committed(m3) >> same(stamp(m3), proposal(m3)),
        front_order,
    )
    guard = all_of(slot(q, p0, m), held(p0), least_held(order), limit)
    return Action("deliver_held", (q, p0, m, p, m3), guard, (clear(held, p0), *DELIVERY))


AT_THE_TAIL = forall(p1, m1, slot(q, p1, m1) >> passed(p1))


def deliver_held_at_tail(at_the_tail: Expr = AT_THE_TAIL, order: Expr = HEAP_ORDER) -> Action:
    """The reader delivers the least of its heap, having scanned its ring to the tail."""
    guard = all_of(slot(q, p0, m), held(p0), least_held(order), at_the_tail)
    return Action("deliver_held_at_tail", (q, p0, m), guard, (clear(held, p0), *DELIVERY))


def resume() -> Action:
    """The reader ends, and a successor begins with the marks of what was delivered."""
    here = exists(m1, slot(q, p1, m1))
    return Action(
        "resume",
        (q,),
        TRUE,
        (
            map_to(held, (p1,), held(p1) & ~here),
            map_to(passed, (p1,), passed(p1) & ~here),
            map_to(inherited, (p1,), inherited(p1) | here),
        ),
    )


ACTIONS = (
    *(begin(), propose(), take(), publish(), publish_unicast(), commit(), seal(), restage()),
    *(sync(), raise_(), complete(), put_off(), undo(), skip()),
    *(pass_by(), to_heap(), deliver(), deliver_held(), deliver_held_at_tail(), resume()),
)


# ---- what is true in every state ----


def open_(pos: Expr, msg: Expr) -> Expr:
    """Return the formula that a reference may be delivered one day."""
    return all_of(is_alive(pos, msg), ~skipped(pos))


HERE = slot(q, p, m)
TWO_HERE = slot(q, p1, m1) & slot(q, p2, m2)

SHAPES = {
    "a message is in one phase": forall(
        m,
        all_of(
            *(~(staging(m) & other(m)) for other in (sealed, committed, undone)),
            *(~(sealed(m) & other(m)) for other in (committed, undone)),
            ~(committed(m) & undone(m)),
            iff(begun(m), any_of(staging(m), sealed(m), committed(m), undone(m))),
        ),
    ),
    "a position is of one queue and one message": forall(
        *(q1, q2, p, m1, m2), (slot(q1, p, m1) & slot(q2, p, m2)) >> (same(q1, q2) & same(m1, m2))
    ),
    "positions are taken for destinations": forall(q, p, m, HERE >> (dest(m, q) & begun(m))),
    "a skipped position is not published": forall(q, p, m, HERE >> ~(published(p) & skipped(p))),
    "what is passed was published or skipped": forall(q, p, m, (HERE & passed(p)) >> (published(p) | skipped(p))),
    "the reader goes along the ring": forall(
        *(q, p1, m1, p2, m2), all_of(TWO_HERE, below(p1, p2), passed(p2)) >> passed(p1)
    ),
}
ATTEMPTS = {
    "attempts rise": forall(m, begun(m) >> at_most(own(m), current(m))),
    "no unicast is put off": forall(m, (begun(m) & unicast(m)) >> ATTEMPT_HOLDS),
    "references are of attempts so far": forall(q, p, m, HERE >> at_most(attempt(p), own(m))),
    "there is one place per queue and attempt": forall(
        *(q, p1, p2, m),
        all_of(slot(q, p1, m), slot(q, p2, m), same(attempt(p1), attempt(p2)), ~skipped(p1), ~skipped(p2))
        >> same(p1, p2),
    ),
    "the sender knows where its message stands": forall(
        q, p, m, all_of(HERE, is_of_attempt(p, m), published(p)) >> staged(m, q)
    ),
    "where the sender takes its message to stand, it stands": forall(
        m,
        q,
        (begun(m) & staged(m, q)) >> exists(p, all_of(HERE, is_of_attempt(p, m), published(p))),
    ),
    "what is final is staged everywhere": forall(m, q, (is_final(m) & dest(m, q)) >> staged(m, q)),
    "what is final is of the current attempt": forall(m, is_final(m) >> ATTEMPT_HOLDS),
    "a unicast that is published is committed": forall(q, p, m, all_of(HERE, unicast(m), published(p)) >> committed(m)),
}
CLOCKS = {
    "clocks rise along the ring": forall(
        *(q, p1, m1, p2, m2), (TWO_HERE & below(p1, p2)) >> at_most(floor(p1), floor(p2))
    ),
    "no position is above its clock": forall(q, p, m, HERE >> at_most(floor(p), clock(q))),
    "a clock has reached the proposals that stand there": forall(
        q, p, m, (HERE & stands_here(p, m)) >> at_most(proposal(m), clock(q))
    ),
    "what comes behind a proposal is above it": forall(
        *(q, p1, m1, p2, m2),
        all_of(TWO_HERE, below(p1, p2), stands_here(p1, m1)) >> at_most(proposal(m1), floor(p2)),
    ),
    "an accepted proposal is above the clock that it met": forall(
        q, p, m, all_of(HERE, stands_here(p, m), ~lost(m)) >> below(floor(p), proposal(m))
    ),
    "a final time is no lower than the proposal": forall(m, is_final(m) >> at_most(proposal(m), stamp(m))),
    "a final time is above the clocks that it met": forall(
        q, p, m, all_of(HERE, stands_here(p, m), is_final(m)) >> below(floor(p), stamp(m))
    ),
    "a synced clock has reached the seal": forall(m, q, (sealed(m) & synced(m, q)) >> at_most(stamp(m), clock(q))),
    "what is committed has raised all its clocks": forall(
        m, q, (committed(m) & dest(m, q)) >> at_most(stamp(m), clock(q))
    ),
}
READER = {
    "the heap holds what is committed and not delivered": forall(
        *(q, p, m),
        all_of(HERE, held(p)) >> all_of(published(p), passed(p), is_alive(p, m), committed(m), ~delivered(q, m)),
    ),
    "what is delivered is committed, and addressed here": forall(q, m, delivered(q, m) >> (committed(m) & dest(m, q))),
    "what is passed and alive is in the heap or delivered": forall(
        *(q, p, m),
        all_of(HERE, published(p), passed(p), is_alive(p, m)) >> (committed(m) & (held(p) | delivered(q, m))),
    ),
    "what is delivered was passed, or by a predecessor": forall(
        q, p, m, all_of(HERE, delivered(q, m), open_(p, m)) >> (passed(p) | inherited(p))
    ),
    "the heap is above what is delivered": forall(
        *(q, p, m1, m2),
        all_of(delivered(q, m1), slot(q, p, m2), held(p)) >> key_below(stamp(m1), m1, stamp(m2), m2),
    ),
    "what is open and still to come is above what is delivered": forall(
        *(q, p, m, m1),
        all_of(delivered(q, m1), HERE, open_(p, m), ~passed(p), ~committed(m))
        >> (at_most(stamp(m1), floor(p)) | key_below(stamp(m1), m1, proposal(m), m)),
    ),
    "what is final and still to come is above what is delivered": forall(
        *(q, p, m, m1),
        all_of(delivered(q, m1), HERE, open_(p, m), ~passed(p), is_final(m))
        >> (delivered(q, m) | key_below(stamp(m1), m1, stamp(m), m)),
    ),
}
HISTORY = {
    "what is delivered is delivered with its one key": forall(q, m, delivered(q, m) >> same(key_at(q, m), stamp(m))),
    **history_invariants(q, (m1, m2), delivered, before, stamp),
    "causes are committed, effects are begun": forall(
        m1, m2, cause(m1, m2) >> all_of(committed(m1), begun(m2), ~same(m1, m2))
    ),
    "an effect stands above its cause": forall(
        *(q, p, m1, m2), all_of(cause(m1, m2), slot(q, p, m2), dest(m1, q)) >> at_most(stamp(m1), floor(p))
    ),
}

# ---- what users rely on ----

HEAP_IS_BELOW = exists(p1, m1, all_of(slot(q, p1, m1), held(p1), key_below(stamp(m1), m1, proposal(m), m)))
PROPERTIES = {
    "consistency: no two queues deliver two messages in opposite orders": forall(
        *(q1, q2, m1, m2), ~(before(q1, m1, m2) & before(q2, m2, m1))
    ),
    "total order: every queue delivers in ascending order of one unique key": HISTORY[
        "the history is in the order of keys"
    ],
    "no gap: what is delivered comes after all that has a lower key there, now and for ever": forall(
        *(q, m1, m2),
        all_of(delivered(q, m2), committed(m1), dest(m1, q), key_below(stamp(m1), m1, stamp(m2), m2))
        >> before(q, m1, m2),
    ),
    "causality: an effect has the greater timestamp wherever both go": forall(
        *(q, m1, m2),
        all_of(cause(m1, m2), committed(m2), dest(m1, q), dest(m2, q)) >> below(stamp(m1), stamp(m2)),
    ),
    "causality: where an effect was delivered, its cause was before": forall(
        *(q, m1, m2), all_of(cause(m1, m2), delivered(q, m2), dest(m1, q)) >> before(q, m1, m2)
    ),
    "atomicity: what is delivered has one final key, at every destination": forall(
        q, m, delivered(q, m) >> (committed(m) & same(key_at(q, m), stamp(m)))
    ),
    "atomicity: what is committed stands at all destinations": forall(
        m, q, (committed(m) & dest(m, q)) >> exists(p, all_of(HERE, published(p), is_alive(p, m)))
    ),
    "no invention: only what was sent is delivered, and only where it was sent to": forall(
        q, m, delivered(q, m) >> (begun(m) & dest(m, q))
    ),
    "no duplicate: nothing is delivered twice, also over a change of reader": forall(q, m, ~before(q, m, m)),
    "no deadlock: a reader can always get past what it stands at by steps of its own": forall(
        *(q, p, m),
        front(p, m)
        >> any_of(
            *(~published(p), ~is_alive(p, m), WAS_HAD, staging(m) & ~unicast(m), sealed(m), ready() & ~IN_PLACE),
            all_of(ready(), IN_PLACE, least_held(HEAP_ORDER)),
            HEAP_IS_BELOW,
        ),
    ),
    "no loss: a reader at the tail with an empty heap has delivered all that is committed": forall(
        *(q, m),
        all_of(AT_THE_TAIL, forall(p1, m1, slot(q, p1, m1) >> ~held(p1)), committed(m), dest(m, q)) >> delivered(q, m),
    ),
}


# ---- each rule is needed ----


def per_queue(time: Expr, msg: Expr, other_time: Expr, other: Expr) -> Expr:
    """Return the order in which half of the queues settle ties the other way round."""
    tie = any_of(~flips(q) & below(msg, other), flips(q) & below(other, msg))
    return any_of(below(time, other_time), same(time, other_time) & tie)


PER_QUEUE = per_queue(stamp(m1), m1, stamp(m), m)
PASSING_OPEN = passed(p1) | (published(p1) & ~committed(m1))
PASSING_HOLES = passed(p1) | ~published(p1)
TO_STAGING = (set_(staging, m), clear(sealed, m), clear(committed, m))


def reader_that_crosses(crossed: Expr) -> tuple[Action, ...]:
    """Return the reader's walk with another rule for what may lie behind it."""
    walk = (pass_by(crossed), to_heap(crossed=crossed), deliver(crossed=crossed))
    return (*walk, deliver_held(crossed=crossed))


COMMITTED_HERE = all_of(published(p), committed(m), is_alive(p, m))
MUTANTS = (
    Mutant("foreign-queue", "a message takes a place in a queue that it is not sent to", (take(to=TRUE),)),
    Mutant(
        "sure-of-place",
        "a sender takes its message to stand where it has taken a place",
        (take(also=(set_(staged, m, q),)),),
    ),
    Mutant("commit-early", "a message is committed before it stands at all destinations", (commit(staged_at=TRUE),)),
    Mutant("unicast-put-off", "a message to one queue is put off", (put_off(of=TRUE),)),
    Mutant("clock-set", "a clock is set, not raised", (raise_(TRUE),)),
    Mutant("seal-unsynced", "a clock counts as raised to the seal without being so", (sync(raised=clock(q)),)),
    Mutant(
        "blind-skip",
        "a reader skips by a store, not by a swap: also what was published meanwhile",
        (skip(slot(q, p, m) & ~skipped(p)),),
    ),
    Mutant("pass-hole", "the reader leaves a hole behind", (pass_by(also=~published(p)),)),
    Mutant(
        "late-lost",
        "the reader goes past a late message without taking it to its heap",
        (pass_by(also=COMMITTED_HERE & ~IN_PLACE),),
    ),
    Mutant("stand-still", "the reader delivers what it stands at, and does not go on", (deliver(passes=()),)),
    Mutant("accept-equal", "a queue accepts a proposal equal to its clock", (take(at_most(clock(q), proposal(m))),)),
    Mutant("two-places", "a sender takes a second place without losing the first", (take(nothing_else=TRUE),)),
    Mutant(
        "commit-first",
        "a sealed message is committed before all its clocks are raised",
        (complete(TRUE), sync(is_final(m))),
    ),
    Mutant("seal-at-max", "a message is sealed at the greatest clock that it met, not above", (seal(False),)),
    Mutant("stale-commit", "the commit does not compare the attempt", (commit(TRUE),)),
    Mutant(
        "blind-put-off",
        "a helper puts off by a store, not by a swap: also what was sealed or committed meanwhile",
        (put_off(any_of(staging(m), sealed(m), committed(m)), TO_STAGING),),
    ),
    Mutant("pass-open", "the reader goes past what is not committed", reader_that_crosses(PASSING_OPEN)),
    Mutant("hole-passed", "the reader goes past a hole without skipping it", reader_that_crosses(PASSING_HOLES)),
    Mutant(
        "tie-per-queue",
        "queues settle ties each in its own way",
        (
            deliver(order=PER_QUEUE),
            deliver_held(order=PER_QUEUE, front_order=per_queue(stamp(m), m, proposal(m3), m3)),
            deliver_held_at_tail(order=PER_QUEUE),
        ),
    ),
    Mutant(
        "late-in-place",
        "a late message is delivered at its place in the ring, not by way of the heap",
        (to_heap(FALSE), deliver(TRUE)),
    ),
    Mutant("heap-no-tail", "the heap is emptied without a look at the tail", (deliver_held_at_tail(TRUE),)),
    Mutant(
        "blind-resume",
        "a successor does not look at the marks",
        (pass_by(was_had=FALSE), to_heap(was_had=FALSE), deliver(was_had=FALSE)),
    ),
)

SYSTEM = System(
    name="multicast",
    meaning="the ordered multicast in shared memory",
    sorts=(Msg, Queue, Pos, Time, Attempt),
    symbols=(
        *(dest, unicast, flips, clock, begun, staging, sealed, committed, undone, stamp, proposal, current),
        *(own, lost, staged, synced, slot, attempt, floor, published, skipped, passed, inherited, held),
        *(delivered, key_at, before, cause),
    ),
    axioms={
        "a unicast has one destination": forall(
            *(m, q1, q2), all_of(unicast(m), dest(m, q1), dest(m, q2)) >> same(q1, q2)
        ),
    },
    actions=ACTIONS,
    invariants={**SHAPES, **ATTEMPTS, **CLOCKS, **READER, **HISTORY},
    properties=PROPERTIES,
    mutants=MUTANTS,
)


def scene(
    destinations: Sequence[Set[int]],
    *,
    unicasts: Set[int] = frozenset(),
    positions: int = 5,
    times: int = 4,
    attempts: int = 1,
) -> Scene:
    """Return a scene of as many messages as there are sets of destinations, which are numbers of queues from 0.

    `unicasts` are the messages that commit with the swap on their slot.  Queue 1 is the one that `flips`.
    """
    queues = 1 + max(queue for queues in destinations for queue in queues)
    goes_to = frozenset((msg, queue) for msg, queues in enumerate(destinations) for queue in queues)
    return Scene(
        {Msg: len(destinations), Queue: queues, Pos: positions, Time: times, Attempt: attempts},
        {dest: goes_to, unicast: frozenset((msg,) for msg in unicasts), flips: frozenset({(1,)})},
    )
