# SPDX-License-Identifier: Apache-2.0
"""The order `skeen` of `csrc/order/skeen.c`, for any number of processes and messages (Garg, problem 12.9).

The network delays and reorders as it likes: a packet that may arrive is an action that may happen.  Each function
below is one action, under the name of what a process does; its arguments are the rules that mutants break.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from busq.lab.proof.logic import *
from busq.lab.proof.models.ends import one_of_each
from busq.lab.proof.models.keys import history_invariants, key_below
from busq.lab.proof.models.rest import at_rest
from busq.lab.proof.states import Scene

__all__ = ["STILL", "SYSTEM", "scene"]

Msg = Sort("Msg", is_ordered=True)  # by name, which settles ties
Proc = Sort("Proc")
Time = Sort("Time", is_ordered=True)

sender = relation("sender", Msg, Proc, is_fixed=True)
dest = relation("dest", Msg, Proc, is_fixed=True)
flips = relation("flips", Proc, is_fixed=True)  # for the mutant tie-per-process alone

clock = function("clock", Proc, to=Time)
sent, decided = relation("sent", Msg), relation("decided", Msg)
stamp = function("stamp", Msg, to=Time)  # the clock that DATA carries
queued = relation("queued", Proc, Msg)  # DATA has arrived, and PROPOSAL is on its way
proposal = function("proposal", Proc, Msg, to=Time)
answered = relation("answered", Msg, Proc)  # the sender has the proposal of that process
final = function("final", Msg, to=Time)
settled = relation("settled", Proc, Msg)  # FINAL has arrived
delivered = relation("delivered", Proc, Msg)
# History, on which no step depends.
before = relation("before", Proc, Msg, Msg)  # that process has delivered the one, and then the other
cause = relation("cause", Msg, Msg)  # the sender of the other had delivered the one

m, m1, m2 = variables("m m1 m2", Msg)
p, p1, p2 = variables("p p1 p2", Proc)
(t,) = variables("t", Time)


def submit() -> Action:
    """A process ticks and sends DATA; if it is a destination too, its clock is its own proposal."""
    is_own = all_of(same(p1, p), same(m1, m), dest(m, p))
    return Action(
        "submit",
        (m, p, t),
        all_of(sender(m, p), ~sent(m), below(clock(p), t)),
        (
            put(clock, p, t),
            set_(sent, m),
            put(stamp, m, t),
            map_to(queued, (p1, m1), queued(p1, m1) | is_own),
            put(proposal, p, m, t),
            map_to(answered, (m1, p1), answered(m1, p1) | is_own),
            map_to(cause, (m1, m2), cause(m1, m2) | (same(m2, m) & delivered(p, m1))),
        ),
    )


ABOVE_THE_STAMP = below(stamp(m), t)
ABOVE_BOTH = ABOVE_THE_STAMP & below(clock(p), t)


def receive_data(proposed: Expr = ABOVE_BOTH) -> Action:
    """A destination proposes a time above its clock and above the stamp."""
    is_new = all_of(sent(m), dest(m, p), ~sender(m, p), ~queued(p, m))
    return Action(
        "receive_data",
        (m, p, t),
        is_new & proposed,
        (put(clock, p, t), set_(queued, p, m), put(proposal, p, m, t)),
    )


def receive_proposal() -> Action:
    """The sender has one more proposal."""
    return Action("receive_proposal", (m, p), queued(p, m) & ~answered(m, p), (set_(answered, m, p),))


def raised(to: Expr) -> Expr:
    """Return the clock of a process that has passed a time."""
    return either(below(clock(p), to), to, clock(p))


NO_LOWER = forall(p1, dest(m, p1) >> at_most(proposal(p1, m), t))


def decide(high_enough: Expr = NO_LOWER, passes: bool = True) -> Action:
    """The sender, which has all proposals, takes a time that is below none of them, and sends FINAL."""
    has_all = forall(p1, dest(m, p1) >> answered(m, p1))
    is_own = all_of(same(p1, p), same(m1, m), dest(m, p))
    return Action(
        "decide",
        (m, p, t),
        all_of(sender(m, p), sent(m), ~decided(m), has_all, high_enough),
        (
            set_(decided, m),
            put(final, m, t),
            put(clock, p, raised(t) if passes else clock(p)),
            map_to(settled, (p1, m1), settled(p1, m1) | is_own),
        ),
    )


def receive_final(passes: bool = True) -> Action:
    """A destination learns the final time, and its clock passes it."""
    return Action(
        "receive_final",
        (m, p),
        all_of(decided(m), queued(p, m), ~settled(p, m)),
        (set_(settled, p, m), put(clock, p, raised(final(m)) if passes else clock(p))),
    )


AMONG_SETTLED = settled(p, m1) >> key_below(final(m), m, final(m1), m1)
AMONG_OPEN = ~settled(p, m1) >> key_below(final(m), m, proposal(p, m1), m1)


def deliver(among_settled: Expr = AMONG_SETTLED, among_open: Expr = AMONG_OPEN) -> Action:
    """A process delivers what is settled and the first of its queue."""
    others = all_of(queued(p, m1), ~delivered(p, m1), ~same(m1, m))
    return Action(
        "deliver",
        (m, p),
        all_of(settled(p, m), ~delivered(p, m), forall(m1, others >> (among_settled & among_open))),
        (
            set_(delivered, p, m),
            map_to(before, (p1, m1, m2), before(p1, m1, m2) | all_of(same(p1, p), same(m2, m), delivered(p, m1))),
        ),
    )


INVARIANTS = {
    "what was sent has a sender": forall(m, sent(m) >> exists(p, sender(m, p))),
    "what a process sends to itself is queued, and answered": forall(
        m, p, all_of(sender(m, p), dest(m, p), sent(m)) >> (queued(p, m) & answered(m, p))
    ),
    "and settled when it is decided": forall(m, p, all_of(sender(m, p), dest(m, p), decided(m)) >> settled(p, m)),
    "what is queued is sent, and addressed here": forall(p, m, queued(p, m) >> (sent(m) & dest(m, p))),
    "what is answered is queued": forall(m, p, answered(m, p) >> queued(p, m)),
    "what is decided is answered by all": forall(m, p, (decided(m) & dest(m, p)) >> (sent(m) & answered(m, p))),
    "what is settled is decided and queued": forall(p, m, settled(p, m) >> (decided(m) & queued(p, m))),
    "what is delivered is settled": forall(p, m, delivered(p, m) >> settled(p, m)),
    "no proposal is above its clock": forall(p, m, queued(p, m) >> at_most(proposal(p, m), clock(p))),
    "the stamp is no higher than a proposal": forall(p, m, queued(p, m) >> at_most(stamp(m), proposal(p, m))),
    "the final time is no lower than a proposal": forall(
        m, p, (decided(m) & dest(m, p)) >> at_most(proposal(p, m), final(m))
    ),
    "a process has passed what is settled there": forall(p, m, settled(p, m) >> at_most(final(m), clock(p))),
    "what is open is above what is delivered": forall(
        *(p, m1, m2),
        all_of(delivered(p, m1), queued(p, m2), ~settled(p, m2)) >> key_below(final(m1), m1, proposal(p, m2), m2),
    ),
    "what is decided is above what is delivered": forall(
        *(p, m1, m2),
        all_of(delivered(p, m1), queued(p, m2), decided(m2), ~delivered(p, m2))
        >> key_below(final(m1), m1, final(m2), m2),
    ),
    **history_invariants(p, (m1, m2), delivered, before, final),
    "causes are decided, effects are sent above them": forall(
        m1, m2, cause(m1, m2) >> all_of(decided(m1), sent(m2), below(final(m1), stamp(m2)))
    ),
}

# There is always a time that will do.
STILL = at_rest(receive_data(TRUE), receive_proposal(), decide(TRUE), receive_final(), deliver())

PROPERTIES = {
    "consistency: no two processes deliver two messages in opposite orders": forall(
        *(p1, p2, m1, m2), ~(before(p1, m1, m2) & before(p2, m2, m1))
    ),
    "total order: every process delivers in ascending order of one unique key": INVARIANTS[
        "the history is in the order of keys"
    ],
    "no gap: what is delivered comes after all that has a lower key there, now and for ever": forall(
        *(p, m1, m2),
        all_of(delivered(p, m2), decided(m1), dest(m1, p), key_below(final(m1), m1, final(m2), m2))
        >> before(p, m1, m2),
    ),
    "causality of deliveries: what a process has delivered comes before what it sends then": forall(
        *(p, m1, m2), all_of(cause(m1, m2), delivered(p, m2), dest(m1, p)) >> before(p, m1, m2)
    ),
    "no loss: at rest, what was sent is delivered, or something lower is not": STILL
    >> forall(
        *(p, m),
        all_of(sent(m), dest(m, p), ~delivered(p, m))
        >> exists(m1, all_of(sent(m1), dest(m1, p), ~delivered(p, m1), key_below(final(m1), m1, final(m), m))),
    ),
    "no invention: only what was sent is delivered, and only where it was sent to": forall(
        p, m, delivered(p, m) >> (sent(m) & dest(m, p))
    ),
    "no duplicate: nothing is delivered twice": forall(p, m, ~before(p, m, m)),
}


def per_process(time: Expr, msg: Expr, other_time: Expr, other: Expr) -> Expr:
    """Return the order in which half of the processes settle ties the other way round."""
    tie = any_of(~flips(p) & below(msg, other), flips(p) & below(other, msg))
    return any_of(below(time, other_time), same(time, other_time) & tie)


TIE_PER_PROCESS = deliver(
    settled(p, m1) >> per_process(final(m), m, final(m1), m1),
    ~settled(p, m1) >> per_process(final(m), m, proposal(p, m1), m1),
)

MUTANTS = (
    Mutant("past-open", "what is settled is delivered past what is open before it", (deliver(among_open=TRUE),)),
    Mutant("final-any", "the final time may be below a proposal", (decide(TRUE),)),
    Mutant(
        "no-pass",
        "a process that learns a final time does not raise its clock",
        (decide(passes=False), receive_final(passes=False)),
    ),
    Mutant("equal-proposal", "a proposal may equal the clock", (receive_data(ABOVE_THE_STAMP & at_most(clock(p), t)),)),
    Mutant("tie-per-process", "processes settle ties each in its own way", (TIE_PER_PROCESS,)),
)

SYSTEM = System(
    name="skeen",
    meaning="the order skeen, over any network",
    sorts=(Msg, Proc, Time),
    symbols=(
        *(sender, dest, flips, clock, sent, decided, stamp, queued, proposal, answered, final, settled),
        *(delivered, before, cause),
    ),
    axioms=one_of_each(sender),
    actions=(submit(), receive_data(), receive_proposal(), decide(), receive_final(), deliver()),
    invariants=INVARIANTS,
    properties=PROPERTIES,
    mutants=MUTANTS,
)


def scene(senders: Sequence[int], destinations: Sequence[Set[int]], *, times: int = 5) -> Scene:
    """Return a scene with the sender and the destinations of each message; processes are numbers from 0.

    Process 1 is the one that `flips`.
    """
    processes = 1 + max(*senders, *(process for some in destinations for process in some))
    return Scene(
        {Msg: len(senders), Proc: processes, Time: times},
        {
            sender: frozenset(enumerate(senders)),
            dest: frozenset((msg, process) for msg, some in enumerate(destinations) for process in some),
            flips: frozenset({(1,)}),
        },
    )
