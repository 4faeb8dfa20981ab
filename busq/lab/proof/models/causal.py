# SPDX-License-Identifier: Apache-2.0
"""The order `causal-matrix` of `csrc/order/causal_matrix.c`, for any number of processes and messages.

The source is Raynal, Schiper and Toueg (Garg, figures 12.2 and 12.4).  The network delays and reorders as it likes.
Where the code counts messages, the model has the set of those that were counted: `M[j][k]` is how many messages of j to
k there are among what a process knows.  A count stands for its set, because no process knows a message without
the earlier ones of its sender, which is one of the invariants.

Where each message goes to all other processes, the rules are those of `csrc/order/causal_vector.c`: then what a process
has sent or delivered is all that its matrix counts.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from busq.lab.proof.logic import *
from busq.lab.proof.models.ends import one_of_each
from busq.lab.proof.models.rest import at_rest
from busq.lab.proof.states import Scene

__all__ = ["STILL", "SYSTEM", "scene"]

Msg = Sort("Msg")
Proc = Sort("Proc")

sender = relation("sender", Msg, Proc, is_fixed=True)
dest = relation("dest", Msg, Proc, is_fixed=True)

sent = relation("sent", Msg)
known = relation("known", Proc, Msg)  # counted in the matrix of that process
carried = relation("carried", Msg, Msg)  # the second is counted in the matrix that the first carries
delivered = relation("delivered", Proc, Msg)
# History, on which no step depends.
aware = relation("aware", Proc, Msg)  # it was sent or delivered there, or happened before something that was
past = relation("past", Msg, Msg)  # the send of the one happened before the send of the other
before = relation("before", Proc, Msg, Msg)  # that process has delivered the one, and then the other

m, m1, m2, m3 = variables("m m1 m2 m3", Msg)
p, p1 = variables("p p1", Proc)


def send(counts: bool = True) -> Action:
    """A process counts its message and sends it with the matrix, which counts it too."""
    counted = (set_(known, p, m),) if counts else ()
    return Action(
        "send",
        (m, p),
        sender(m, p) & ~sent(m),
        (
            set_(sent, m),
            map_to(carried, (m1, m2), carried(m1, m2) | all_of(same(m1, m), known(p, m2) | same(m2, m))),
            map_to(past, (m1, m2), past(m1, m2) | all_of(same(m2, m), aware(p, m1))),
            set_(aware, p, m),
            *counted,
        ),
    )


ALL = TRUE
OF_ITS_SENDER = exists(p1, sender(m, p1) & sender(m1, p1))


def deliver(awaits: Expr | None = ALL, merges: bool = True) -> Action:
    """A message is delivered when all that its matrix counts for this process was; then the matrices are merged."""
    counted_here = all_of(carried(m, m1), dest(m1, p), ~same(m1, m))
    is_in_turn = TRUE if awaits is None else forall(m1, all_of(counted_here, awaits) >> delivered(p, m1))
    learned = carried(m, m1) if merges else same(m1, m)
    return Action(
        "deliver",
        (m, p),
        all_of(sent(m), dest(m, p), ~delivered(p, m), is_in_turn),
        (
            set_(delivered, p, m),
            map_to(known, (p1, m1), known(p1, m1) | all_of(same(p1, p), learned)),
            map_to(aware, (p1, m1), aware(p1, m1) | all_of(same(p1, p), same(m1, m) | past(m1, m))),
            map_to(before, (p1, m1, m2), before(p1, m1, m2) | all_of(same(p1, p), same(m2, m), delivered(p, m1))),
        ),
    )


INVARIANTS = {
    "what is known or delivered was sent": forall(
        p, m, all_of((known(p, m) | aware(p, m)) >> sent(m), delivered(p, m) >> (sent(m) & dest(m, p)))
    ),
    "what is counted in a message was sent": forall(m1, m2, carried(m1, m2) >> (sent(m1) & sent(m2))),
    "the past is of what was sent": forall(m1, m2, past(m1, m2) >> all_of(sent(m1), sent(m2), ~same(m1, m2))),
    "the past of the past is past": forall(m1, m2, m3, (past(m1, m2) & past(m2, m3)) >> past(m1, m3)),
    "a process is aware of what it has sent": forall(p, m, (sender(m, p) & sent(m)) >> aware(p, m)),
    "a process is aware of what it has delivered": forall(p, m, delivered(p, m) >> aware(p, m)),
    "a process is aware of the past": forall(p, m1, m2, (aware(p, m2) & past(m1, m2)) >> aware(p, m1)),
    "a matrix counts what its process is aware of": forall(p, m, aware(p, m) >> known(p, m)),
    "and nothing else": forall(p, m, known(p, m) >> aware(p, m)),
    "what a matrix counts as sent to its process was delivered": forall(
        p, m, (known(p, m) & dest(m, p)) >> delivered(p, m)
    ),
    "a message counts itself": forall(m, sent(m) >> carried(m, m)),
    "a message counts its past": forall(m1, m2, past(m1, m2) >> carried(m2, m1)),
    "and nothing else of others": forall(m1, m2, carried(m2, m1) >> (past(m1, m2) | same(m1, m2))),
    "a matrix that counts a message counts the earlier ones": forall(
        p, m1, m2, (known(p, m2) & past(m1, m2)) >> known(p, m1)
    ),
    "a message that counts another counts the earlier ones": forall(
        m1, m2, m3, (carried(m3, m2) & past(m1, m2)) >> carried(m3, m1)
    ),
    "the past of what was delivered was delivered": forall(
        p, m1, m2, all_of(delivered(p, m2), past(m1, m2), dest(m1, p)) >> delivered(p, m1)
    ),
    "the history is of deliveries": forall(p, m1, m2, before(p, m1, m2) >> (delivered(p, m1) & delivered(p, m2))),
    "the history is whole": forall(
        *(p, m1, m2),
        (delivered(p, m1) & delivered(p, m2)) >> any_of(same(m1, m2), before(p, m1, m2), before(p, m2, m1)),
    ),
    "the history is without repetition": forall(p, m1, m2, before(p, m1, m2) >> ~before(p, m2, m1)),
    "the history is not against the past": forall(p, m1, m2, past(m1, m2) >> ~before(p, m2, m1)),
}

STILL = at_rest(deliver())
PROPERTIES = {
    "causality: where an effect was delivered, its cause was before": forall(
        *(p, m1, m2), all_of(past(m1, m2), delivered(p, m2), dest(m1, p)) >> before(p, m1, m2)
    ),
    "no loss: at rest, what was sent is delivered, or something of its past is not": STILL
    >> forall(
        *(p, m),
        all_of(sent(m), dest(m, p), ~delivered(p, m))
        >> exists(m1, all_of(past(m1, m), dest(m1, p), ~delivered(p, m1))),
    ),
    "no invention: only what was sent is delivered, and only where it was sent to": forall(
        p, m, delivered(p, m) >> (sent(m) & dest(m, p))
    ),
    "no duplicate: nothing is delivered twice": forall(p, m, ~before(p, m, m)),
}

MUTANTS = (
    Mutant("at-once", "a message is delivered when it arrives", (deliver(None),)),
    Mutant("fifo-only", "a message waits for the earlier ones of its sender alone", (deliver(OF_ITS_SENDER),)),
    Mutant("unmerged", "a process counts what it delivers, and not what that counts", (deliver(merges=False),)),
    Mutant("self-uncounted", "a process does not count what it sends", (send(counts=False),)),
)

SYSTEM = System(
    name="causal-matrix",
    meaning="the orders causal-matrix and causal-vector, over any network",
    sorts=(Msg, Proc),
    symbols=(sender, dest, sent, known, carried, delivered, aware, past, before),
    axioms={
        **one_of_each(sender),
        "a message to oneself is not counted": forall(m, p, ~(sender(m, p) & dest(m, p))),
    },
    actions=(send(), deliver()),
    invariants=INVARIANTS,
    properties=PROPERTIES,
    mutants=MUTANTS,
)


def scene(senders: Sequence[int], destinations: Sequence[Set[int]], *, processes: int = 3) -> Scene:
    """Return a scene with the sender and the destinations of each message; processes are numbers from 0."""
    return Scene(
        {Msg: len(senders), Proc: processes},
        {
            sender: frozenset(enumerate(senders)),
            dest: frozenset((msg, process) for msg, some in enumerate(destinations) for process in some),
        },
    )
