# SPDX-License-Identifier: Apache-2.0
"""Records that are used again, by `csrc/shm/memory` and `csrc/shm/message`, for any number of messages and processes.

A record is memory that holds one message after the other.  Its state word has the tag of the message that it holds, a
sequence number and an attempt, and references carry the same tag.  What a process has read it keeps for as long as it
likes: what was looked at once may be followed by a swap at any later moment, whatever the record holds by then.

Small records are given out again by their owner (`arena.c`), a large one is given back by the process that needs it
last (`large.c`).  Each function below is one action; its arguments are the rules that mutants break.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from busq.lab.proof.logic import *
from busq.lab.proof.states import Scene

__all__ = ["SYSTEM", "scene"]

Msg = Sort("Msg")  # a sequence number of a sender: none is used twice
Record = Sort("Record")
Queue = Sort("Queue")
Attempt = Sort("Attempt", is_ordered=True)

dest = relation("dest", Msg, Queue, is_fixed=True)
large = relation("large", Record, is_fixed=True)

# The record.
holds = relation("holds", Record, Msg)  # its state has the tag of that message; of none where it reads as FREE
staging, sealed, committed = (relation(name, Record) for name in ("staging", "sealed", "committed"))
attempt = function("attempt", Record, to=Attempt)
mark = relation("mark", Record, Queue)  # released by that destination
through = relation("through", Record)  # its sender needs it no more: it stands in the line, or has the bit SENT
# The memory: given out, for which message; of a large record that is the generation in the word of its extent.
user = relation("user", Record, Msg)
# What the sender knows.
used = relation("used", Msg)
home = function("home", Msg, to=Record)  # the record that references to the message name
hand = relation("hand", Msg)  # being sent
filled, shown, withdrawn = (relation(name, Msg) for name in ("filled", "shown", "withdrawn"))
own = function("own", Msg, to=Attempt)
dead = relation("dead", Msg)  # its sender takes no further step, and its slot has a burier
# What others have read, at any time.
refers = relation("refers", Msg, Attempt)  # a reference that stands, or stood, in a queue
saw_staging, saw_sealed = relation("saw_staging", Msg, Attempt), relation("saw_sealed", Msg, Attempt)
saw_committed = relation("saw_committed", Queue, Msg)
saw_unmarked = relation("saw_unmarked", Queue, Msg)
has = relation("has", Queue, Msg)  # the process at that queue has found it good, and reads it
saw_word, saw_done = relation("saw_word", Msg), relation("saw_done", Msg)
# History, on which no step depends.
final = relation("final", Msg)  # it was committed
released = relation("released", Queue, Msg)
freed = relation("freed", Msg)
touched = relation("touched", Msg, Attempt, Msg, Attempt)  # the one was changed by a swap that was for the other
marked = relation("marked", Msg, Msg)  # a mark of the one was set by a destination that released the other
released_again, freed_again = relation("released_again", Queue, Msg), relation("freed_again", Msg)

m, m1, m2 = variables("m m1 m2", Msg)
r, r1 = variables("r r1", Record)
q, q1 = variables("q q1", Queue)
a, a1, a2, b = variables("a a1 a2 b", Attempt)


AT_HOME = same(home(m), r)


def free_state() -> tuple[Update, ...]:
    """Return what a store of FREE changes."""
    phases = (clear(phase, r) for phase in (staging, sealed, committed))
    return (map_to(holds, (r1, m1), holds(r1, m1) & ~same(r1, r)), *phases)


def all_marked(msg: Expr, record: Expr) -> Expr:
    """Return the formula that all destinations of a message have set their marks."""
    return forall(q1, dest(msg, q1) >> mark(record, q1))


# ---- the sender ----

IN_HAND = all_of(hand(m), ~dead(m), AT_HOME)


def take(reads_as_free: bool = True) -> Action:
    """A sender takes a record that no message needs, for a number of its own, and stores FREE before all else."""
    unused = forall(m1, ~user(r, m1))
    knows = (set_(used, m), set_(hand, m), put(home, m, r), put(own, m, a))
    state = free_state() if reads_as_free else ()
    return Action(
        "take", (m, r, a), ~used(m) & unused, (set_(user, r, m), clear(through, r), *knows, *state), is_free_in=(a,)
    )


def fill() -> Action:
    """It writes the message, its destinations, and their marks, none of which is set."""
    return Action(
        "fill",
        (m, r),
        all_of(IN_HAND, ~filled(m)),
        (set_(filled, m), map_to(mark, (r1, q1), mark(r1, q1) & ~same(r1, r))),
    )


IS_FILLED = filled(m)


def show(when: Expr = IS_FILLED) -> Action:
    """It stores the state STAGING with the tag: a store, for no process can swap a state that is FREE."""
    tag = (map_to(holds, (r1, m1), any_of(holds(r1, m1) & ~same(r1, r), same(r1, r) & same(m1, m))),)
    phase = (set_(staging, r), put(attempt, r, own(m)))
    return Action("show", (m, r), all_of(IN_HAND, ~shown(m), when), (set_(shown, m), *tag, *phase))


def publish() -> Action:
    """A reference of its attempt stands in a queue."""
    return Action("publish", (m, r), all_of(IN_HAND, shown(m), ~withdrawn(m)), (set_(refers, m, own(m)),))


TAG_HOLDS = holds(r, m) & same(attempt(r), a)


def changes(msg: Expr, for_attempt: Expr) -> Update:
    """Return what the history keeps of a swap for an attempt of a message."""
    here = all_of(holds(r, m1), same(a1, attempt(r)), same(m2, msg), same(a2, for_attempt))
    return map_to(touched, (m1, a1, m2, a2), touched(m1, a1, m2, a2) | here)


COMMITS = map_to(final, (m1,), final(m1) | holds(r, m1))


def commit(tag: Expr = TAG_HOLDS) -> Action:
    """The sender's swap, STAGING to COMMITTED."""
    return Action(
        "commit",
        (m, r, a),
        all_of(IN_HAND, same(a, own(m)), refers(m, a), staging(r), tag),
        (clear(staging, r), set_(committed, r), changes(m, a), COMMITS),
    )


def seal() -> Action:
    """The sender's swap, STAGING to SEALED."""
    return Action(
        "seal",
        (m, r, a),
        all_of(IN_HAND, same(a, own(m)), refers(m, a), staging(r), TAG_HOLDS),
        (clear(staging, r), set_(sealed, r), changes(m, a)),
    )


def restage() -> Action:
    """The sender sees that it was put off, and goes on with the attempt that is current."""
    return Action("restage", (m, r), all_of(IN_HAND, holds(r, m), staging(r)), (put(own, m, attempt(r)),))


IS_OPEN = staging(r)


def withdraw(which: Expr = IS_OPEN) -> Action:
    """The sender takes back what is not final: a swap, whatever the attempt."""
    return Action("withdraw", (m, r), all_of(IN_HAND, holds(r, m), which), (*free_state(), set_(withdrawn, m)))


def gives_back() -> tuple[Update, ...]:
    """Return what a record's return changes: the message whose memory it was needs it no more."""
    return (
        map_to(freed, (m1,), freed(m1) | user(r, m1)),
        map_to(freed_again, (m1,), freed_again(m1) | all_of(same(m1, m), freed(m))),
        map_to(user, (r1, m1), user(r1, m1) & ~same(r1, r)),
    )


def cancel() -> Action:
    """The sender gives back a record that it has not shown, or has withdrawn."""
    return Action("cancel", (m, r), all_of(IN_HAND, any_of(~shown(m), withdrawn(m))), (clear(hand, m), *gives_back()))


def finish() -> Action:
    """The sender is through with a message that is committed, by itself or a helper."""
    return Action("finish", (m, r), all_of(IN_HAND, final(m)), (clear(hand, m), set_(through, r)))


def die() -> Action:
    """The sender dies; a burier may come."""
    return Action("die", (m,), used(m), (set_(dead, m),))


# ---- helpers and buriers, at any moment ----


def see_staging() -> Action:
    """A helper that has a reference, or the burier of its sender, finds that message open."""
    return Action(
        "see_staging",
        (m, r, a),
        all_of(AT_HOME, any_of(refers(m, a), dead(m)), staging(r), TAG_HOLDS),
        (set_(saw_staging, m, a),),
    )


def put_off(tag: Expr = TAG_HOLDS) -> Action:
    """A helper's swap to a later attempt."""
    return Action(
        "put_off",
        (m, r, a, b),
        all_of(AT_HOME, saw_staging(m, a), staging(r), tag, below(attempt(r), b)),
        (put(attempt, r, b), changes(m, a)),
        is_free_in=(b,),
    )


def undo(tag: Expr = TAG_HOLDS) -> Action:
    """A burier's swap to FREE."""
    return Action(
        "undo", (m, r, a), all_of(AT_HOME, saw_staging(m, a), dead(m), staging(r), tag), (*free_state(), changes(m, a))
    )


def see_sealed() -> Action:
    """A process finds that message sealed."""
    return Action("see_sealed", (m, r, a), all_of(AT_HOME, sealed(r), TAG_HOLDS), (set_(saw_sealed, m, a),))


def complete(tag: Expr = TAG_HOLDS) -> Action:
    """The swap of the sender, a helper or a burier, SEALED to COMMITTED."""
    return Action(
        "complete",
        (m, r, a),
        all_of(AT_HOME, saw_sealed(m, a), sealed(r), tag),
        (clear(sealed, r), set_(committed, r), changes(m, a), COMMITS),
    )


# ---- readers: one process at a time looks after a queue ----


def see_committed() -> Action:
    """A reader, or the process in its grave, finds that what a reference means is committed."""
    return Action(
        "see_committed",
        (q, m, r, a),
        all_of(AT_HOME, refers(m, a), dest(m, q), committed(r), TAG_HOLDS),
        (set_(saw_committed, q, m),),
    )


def see_unmarked() -> Action:
    """Then it finds that its mark is not set, whichever message that mark is of."""
    return Action(
        "see_unmarked", (q, m, r), all_of(AT_HOME, saw_committed(q, m), ~mark(r, q)), (set_(saw_unmarked, q, m),)
    )


IS_STILL = holds(r, m) & committed(r)


def hold(still: Expr = IS_STILL) -> Action:
    """Then it looks at the state again, and has the message if that is the same."""
    return Action("hold", (q, m, r), all_of(AT_HOME, saw_unmarked(q, m), still), (set_(has, q, m),))


def release(is_alone: bool = True) -> Action:
    """It sets its mark, by a store; what it has read of the record before counts no more."""
    history = (
        map_to(marked, (m1, m2), marked(m1, m2) | all_of(user(r, m1), same(m2, m))),
        map_to(released_again, (q1, m1), released_again(q1, m1) | all_of(same(q1, q), same(m1, m), released(q, m))),
        set_(released, q, m),
    )
    forgets = (clear(saw_unmarked, q, m),) if is_alone else ()
    return Action("release", (q, m, r), AT_HOME & has(q, m), (set_(mark, r, q), clear(has, q, m), *forgets, *history))


# ---- memory comes back ----

OVER = all_marked(m, r)
IS_THROUGH = through(r)
READS_AS_FREE = ~any_of(staging(r), sealed(r), committed(r))


def collect(over: Expr = OVER, sent: Expr = IS_THROUGH) -> Action:
    """The owner, or a successor, finds a small record in its line that all destinations have released."""
    return Action("collect", (m, r), all_of(~large(r), user(r, m), holds(r, m), committed(r), sent, over), gives_back())


def adopt() -> Action:
    """The burier of a dead sender, or a successor, takes its last message for one that was sent, if it is final."""
    return Action("adopt", (m, r), all_of(dead(m), user(r, m), holds(r, m), committed(r)), (set_(through, r),))


def reclaim() -> Action:
    """The process in a dead sender's grave gives back a small record that reads as FREE."""
    return Action("reclaim", (m, r), all_of(~large(r), dead(m), user(r, m), READS_AS_FREE), gives_back())


def see_word() -> Action:
    """A process reads the word of a large record's extent, with its generation."""
    return Action("see_word", (m, r), all_of(large(r), user(r, m)), (set_(saw_word, m),))


SAW_WORD = saw_word(m)


def see_done(first: Expr = SAW_WORD, sent: Expr = IS_THROUGH) -> Action:
    """Then it finds the record done, whatever it holds by now."""
    over = exists(m1, holds(r, m1) & all_marked(m1, r))
    return Action("see_done", (m, r), all_of(first, AT_HOME, large(r), committed(r), sent, over), (set_(saw_done, m),))


def see_free() -> Action:
    """The process in a dead sender's grave finds a large record that reads as FREE."""
    return Action("see_free", (m, r), all_of(saw_word(m), AT_HOME, dead(m), READS_AS_FREE), (set_(saw_done, m),))


SAME_WORD = user(r, m)


def give_back(generation: Expr = SAME_WORD) -> Action:
    """Then it swaps the word as it was seen, and gives the memory back."""
    return Action("give_back", (m, r), all_of(AT_HOME, large(r), saw_done(m), generation), gives_back())


ACTIONS = (
    *(take(), fill(), show(), publish(), commit(), seal(), restage(), withdraw(), cancel(), finish(), die()),
    *(see_staging(), put_off(), undo(), see_sealed(), complete()),
    *(see_committed(), see_unmarked(), hold(), release()),
    *(collect(), adopt(), reclaim(), see_word(), see_done(), see_free(), give_back()),
)

# ---- what is true in every state ----

INVARIANTS = {
    "a record has one state": forall(
        r,
        all_of(
            *(~(one(r) & two(r)) for one, two in ((staging, sealed), (staging, committed), (sealed, committed))),
            iff(exists(m, holds(r, m)), any_of(staging(r), sealed(r), committed(r))),
        ),
    ),
    "a record holds one message": forall(r, m1, m2, (holds(r, m1) & holds(r, m2)) >> same(m1, m2)),
    "memory is used for one message": forall(r, m1, m2, (user(r, m1) & user(r, m2)) >> same(m1, m2)),
    "what a record holds was shown there": forall(r, m, holds(r, m) >> all_of(shown(m), AT_HOME)),
    "memory is used for a message of that number": forall(r, m, user(r, m) >> all_of(used(m), AT_HOME)),
    "memory is used or was given back": forall(r, m, all_of(used(m), AT_HOME) >> any_of(user(r, m), freed(m))),
    "what was given back is not used": forall(r, m, user(r, m) >> ~freed(m)),
    "a message goes its way": forall(
        m,
        all_of(
            *(filled(m) >> used(m), hand(m) >> used(m), final(m) >> shown(m), withdrawn(m) >> (shown(m) & ~final(m))),
            *(dead(m) >> used(m), freed(m) >> used(m), saw_word(m) >> used(m)),
        ),
    ),
    "what is shown was filled": forall(m, shown(m) >> filled(m)),
    "what is in use and held are one": forall(r, m1, m2, (user(r, m1) & holds(r, m2)) >> same(m1, m2)),
    "what a free record still holds is done": forall(
        r, m, (holds(r, m) & ~user(r, m)) >> all_of(committed(r), freed(m), all_marked(m, r))
    ),
    "a sender has what it is sending": forall(
        r, m, all_of(hand(m), ~dead(m), AT_HOME) >> all_of(user(r, m), ~through(r))
    ),
    "what was withdrawn is held nowhere": forall(r, m, holds(r, m) >> ~withdrawn(m)),
    "what was read was shown": forall(m, a, any_of(refers(m, a), saw_staging(m, a), saw_sealed(m, a)) >> shown(m)),
    "what was found committed is final": forall(
        q, m, all_of(saw_committed(q, m) >> (final(m) & dest(m, q)), saw_unmarked(q, m) >> saw_committed(q, m))
    ),
    "what is committed is final": forall(r, m, all_of(holds(r, m), committed(r)) >> final(m)),
    "what is final stays until it is given back": forall(
        r, m, all_of(final(m), user(r, m)) >> (holds(r, m) & committed(r))
    ),
    "what its sender is through with is final": forall(r, m, all_of(user(r, m), through(r)) >> final(m)),
    "what was found unmarked is not released since": forall(
        q, m, r, all_of(saw_unmarked(q, m), AT_HOME, any_of(user(r, m), holds(r, m))) >> ~mark(r, q)
    ),
    "what a reader has is there, and not released": forall(
        q, m, r, all_of(has(q, m), AT_HOME) >> all_of(user(r, m), saw_unmarked(q, m))
    ),
    "a mark is of the message": forall(r, m, q, all_of(user(r, m), filled(m)) >> iff(mark(r, q), released(q, m))),
    "what was released was filled": forall(q, m, released(q, m) >> (filled(m) & final(m))),
    "what was found done was read after its word": forall(m, saw_done(m) >> saw_word(m)),
    "what was found done is done": forall(
        m,
        r,
        all_of(saw_done(m), user(r, m))
        >> any_of(
            all_of(final(m), all_marked(m, r), through(r)), all_of(dead(m), ~staging(r), ~sealed(r), ~committed(r))
        ),
    ),
    "what is final and given back was released by all": forall(
        m, q, all_of(final(m), freed(m), dest(m, q)) >> released(q, m)
    ),
    "swaps change what they are for": forall(m1, a1, m2, a2, touched(m1, a1, m2, a2) >> (same(m1, m2) & same(a1, a2))),
    "marks are of what is released": forall(m1, m2, marked(m1, m2) >> same(m1, m2)),
    "nothing is released again": forall(q, m, ~released_again(q, m)),
    "nothing is given back again": forall(m, ~freed_again(m)),
}

PROPERTIES = {
    "a swap for an old reference does nothing: it changes the attempt that it was for, or fails": INVARIANTS[
        "swaps change what they are for"
    ],
    "a release does nothing to a later message": INVARIANTS["marks are of what is released"],
    "a record is used by one message at a time": forall(
        r,
        m1,
        m2,
        all_of(same(home(m1), r), same(home(m2), r), used(m1), used(m2), ~freed(m1), ~freed(m2)) >> same(m1, m2),
    ),
    "what a reader has in its hands stays what it is": forall(
        q, m, r, all_of(has(q, m), AT_HOME) >> all_of(user(r, m), holds(r, m), committed(r))
    ),
    "a sender has its record for itself until it is through": forall(
        m, r, all_of(hand(m), ~dead(m), AT_HOME) >> all_of(user(r, m), ~freed(m))
    ),
    "no release comes twice": INVARIANTS["nothing is released again"],
    "freed once: no memory is given back twice": INVARIANTS["nothing is given back again"],
    "freed late: what was committed is given back when all its destinations have released it": INVARIANTS[
        "what is final and given back was released by all"
    ],
}

# ---- each rule is needed ----

MUTANTS = (
    Mutant("untagged-put-off", "a put-off swaps the state without its tag", (put_off(TRUE),)),
    Mutant("untagged-complete", "a helper completes without a look at the tag", (complete(TRUE),)),
    Mutant("untagged-undo", "a burier undoes without a look at the tag", (undo(TRUE),)),
    Mutant("not-free-first", "a sender fills a record that still has the state of its last message", (take(False),)),
    Mutant("marks-left", "a message is shown before the marks of the last one are cleared", (show(TRUE),)),
    Mutant("not-still", "a reader does not look at the state again after the mark", (hold(TRUE),)),
    Mutant("two-at-a-queue", "two processes look after a queue at the same time", (release(False),)),
    Mutant("withdraw-final", "a sender takes back what is sealed or committed", (withdraw(TRUE),)),
    Mutant(
        "some-released",
        "a record is collected when one destination has released it",
        (collect(exists(q, dest(m, q) & mark(r, q))),),
    ),
    Mutant("collect-in-hand", "a record is collected before its sender is through with it", (collect(sent=TRUE),)),
    Mutant("unsent", "a large record is given back before its sender is through with it", (see_done(sent=TRUE),)),
    Mutant("word-last", "a large record is found done before the word is read", (see_done(TRUE),)),
    Mutant(
        "no-generation",
        "a large record's word is swapped without its generation",
        (give_back(exists(m1, user(r, m1))),),
    ),
)

SYSTEM = System(
    name="records",
    meaning="records that are used again, under a new tag",
    sorts=(Msg, Record, Queue, Attempt),
    symbols=(
        *(dest, large, holds, staging, sealed, committed, attempt, mark, through, user),
        *(used, home, hand, filled, shown, withdrawn, own, dead),
        *(refers, saw_staging, saw_sealed, saw_committed, saw_unmarked, has, saw_word, saw_done),
        *(final, released, freed, touched, marked, released_again, freed_again),
    ),
    axioms={},
    actions=ACTIONS,
    invariants=INVARIANTS,
    properties=PROPERTIES,
    mutants=MUTANTS,
)


def scene(destinations: Sequence[Set[int]], *, is_large: bool = False, attempts: int = 2) -> Scene:
    """Return a scene of one record, and a message for each set of destinations, which are numbers of queues from 0."""
    queues = 1 + max(queue for queues in destinations for queue in queues)
    return Scene(
        {Msg: len(destinations), Record: 1, Queue: queues, Attempt: attempts},
        {
            dest: frozenset((msg, queue) for msg, queues in enumerate(destinations) for queue in queues),
            large: frozenset({(0,)} if is_large else ()),
        },
    )
