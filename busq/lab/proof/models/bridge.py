# SPDX-License-Identifier: Apache-2.0
"""Bridges and their successors, by `busq/bridge`, for any number of machines, requests, batches and restarts.

Each machine has one bridge at a time, which may be killed between any two steps.  The stream, the inbox and the cursor
outlive it; what it remembers is lost.  A publication travels: it is stored, if at all, at any later moment, also when
its bridge is dead, and its acknowledgement may never come.

The stream is `engine.py`, inbox and cursor are `local.py`, the bridge is `bridge.py`.  Each function below is one
action; its arguments are the rules that mutants break.
"""

from __future__ import annotations

from collections.abc import Sequence

from busq.lab.proof.logic import *
from busq.lab.proof.models.keys import key_below
from busq.lab.proof.states import Scene

__all__ = ["SYSTEM", "scene"]

Machine = Sort("Machine")
Request = Sort("Request", is_ordered=True)  # in the order in which those of one batch stand in it
Batch = Sort("Batch")  # by its bus, the epoch of its bridge and its number
Life = Sort("Life")  # of a bridge; its epoch
Place = Sort("Place", is_ordered=True)  # of the stream
SORTS = (Machine, Request, Batch, Life, Place)

home = function("home", Request, to=Machine, is_fixed=True)  # where it is asked
of = function("of", Life, to=Machine, is_fixed=True)
by = function("by", Batch, to=Life, is_fixed=True)

# The stream.
at = relation("at", Place, Batch)
last = function("last", Machine, to=Place)  # the place of the machine's last batch; in the beginning any
travels = relation("travels", Batch, Place)  # a publication, to be stored where that place is the machine's last
# Inbox and cursor.
asked, acked = relation("asked", Request), relation("acked", Request)
entry = relation("entry", Request)  # in the cursor of its own machine, and not acknowledged there
noted = relation("noted", Machine, Place, Request)  # the last entry of the cursor is that one, or stands behind it
# A bridge.
begun, alive, loaded, settled, leads = (
    relation(name, Life) for name in ("begun", "alive", "loaded", "settled", "leads")
)
knows = relation("knows", Life, Place, Request)  # to have been re-sent
found = relation("found", Life, Request)  # in the cursor, when it began
had = relation("had", Life, Request)  # taken from the inbox
open_ = relation("open", Life, Request)
waiting = relation("waiting", Life, Request)  # open, and in no batch
owes = relation("owes", Life, Request)  # was re-sent, and is to be acknowledged next
expected = function("expected", Life, to=Place)
# Batches.
marker, sent, confirmed = (relation(name, Batch) for name in ("marker", "sent", "confirmed"))
contains = relation("contains", Batch, Request)
unknown = relation("unknown", Batch)  # it was published more than once, and not each time answered
given_up = relation("given_up", Batch)
# History, on which no step depends.
delivered = relation("delivered", Machine, Place, Request)
got = relation("got", Machine, Request)
before = relation("before", Machine, Request, Request)
withdrawn, replied = relation("withdrawn", Request), relation("replied", Request)

m, m1, m2 = variables("m m1 m2", Machine)
x, x1, x2 = variables("x x1 x2", Request)
b, b1, b2 = variables("b b1 b2", Batch)
k, k1, k2 = variables("k k1 k2", Life)
p, p1, p2, e = variables("p p1 p2 e", Place)

OF_K = same(home(x), of(k))
BY_K = same(by(b), k)


def is_of(batch: Expr, machine: Expr) -> Expr:
    """Return the formula that a batch is of a machine."""
    return same(of(by(batch)), machine)


# ---- requests, and the beginning of a bridge ----


def ask() -> Action:
    """A peer puts a request into the inbox of its machine."""
    return Action("ask", (x,), ~asked(x), (set_(asked, x),))


IS_ALONE = forall(k1, alive(k1) >> ~same(of(k1), of(k)))


def begin(is_alone: Expr = IS_ALONE) -> Action:
    """A bridge begins with what the cursor shows."""
    return Action(
        "begin",
        (k,),
        ~begun(k) & is_alone,
        (
            *(set_(begun, k), set_(alive, k)),
            map_to(knows, (k1, p1, x1), any_of(knows(k1, p1, x1), same(k1, k) & noted(of(k), p1, x1))),
            map_to(found, (k1, x1), any_of(found(k1, x1), all_of(same(k1, k), entry(x1), same(home(x1), of(k))))),
        ),
    )


def die() -> Action:
    """It is killed."""
    return Action("die", (k,), alive(k), (clear(alive, k),))


def load() -> Action:
    """It takes all that is in the inbox."""
    all_there = all_of(same(k1, k), asked(x1), ~acked(x1), same(home(x1), of(k)))
    taken = (map_to(symbol, (k1, x1), symbol(k1, x1) | all_there) for symbol in (had, open_, waiting))
    return Action("load", (k,), alive(k) & ~loaded(k), (set_(loaded, k), *taken))


def acknowledges() -> tuple[Update, ...]:
    """Return what the end of a request changes."""
    return (set_(acked, x), clear(open_, k, x), clear(waiting, k, x), clear(owes, k, x))


def settle_request() -> Action:
    """It acknowledges a request of which it has found an entry in the cursor."""
    guard = all_of(alive(k), loaded(k), ~settled(k), found(k, x), open_(k, x))
    return Action("settle_request", (k, x), guard, acknowledges())


REQUESTS_FIRST = forall(x, found(k, x) >> ~open_(k, x))


def settle(when: Expr = REQUESTS_FIRST) -> Action:
    """Then it acknowledges these entries."""
    return Action(
        "settle",
        (k,),
        all_of(alive(k), loaded(k), ~settled(k), when),
        (set_(settled, k), map_to(entry, (x1,), entry(x1) & ~found(k, x1))),
    )


def take() -> Action:
    """It takes a request from the inbox, each once."""
    guard = all_of(alive(k), settled(k), asked(x), ~acked(x), OF_K, ~had(k, x))
    return Action("take", (k, x), guard, (set_(had, k, x), set_(open_, k, x), set_(waiting, k, x)))


IS_LEADING = leads(k)


def withdraw(when: Expr = IS_LEADING) -> Action:
    """A sender takes back what is in no batch."""
    guard = all_of(alive(k), settled(k), waiting(k, x), when)
    return Action("withdraw", (k, x), guard, (*acknowledges(), set_(withdrawn, x)))


# ---- publishing ----


def mark() -> Action:
    """It publishes its marker behind the machine's last batch; again, where that was refused."""
    is_the_one = forall(b1, (same(by(b1), k) & marker(b1)) >> same(b1, b))
    unstored = forall(p, ~at(p, b))
    guard = all_of(
        alive(k), settled(k), BY_K, iff(sent(b), marker(b)), is_the_one, unstored, forall(x, ~contains(b, x))
    )
    return Action("mark", (k, b), guard, (set_(marker, b), set_(sent, b), set_(travels, b, last(of(k)))))


ALL_BEFORE = forall(p1, b1, x1, all_of(at(p1, b1), contains(b1, x1), below(p1, p)) >> knows(k, p1, x1))


def lead(all_read: Expr = ALL_BEFORE) -> Action:
    """It has read its own marker, and all that stands before it."""
    guard = all_of(alive(k), settled(k), ~leads(k), BY_K, marker(b), at(p, b), all_read)
    return Action("lead", (k, b, p), guard, (set_(leads, k), put(expected, k, p)))


def add(when: Expr = IS_LEADING) -> Action:
    """A request comes into the next batch."""
    guard = all_of(alive(k), settled(k), when, BY_K, ~sent(b), waiting(k, x))
    return Action("add", (k, b, x), guard, (set_(contains, b, x), clear(waiting, k, x)))


ONE_UNDER_WAY = forall(b1, all_of(same(by(b1), k), sent(b1), ~marker(b1)) >> any_of(confirmed(b1), given_up(b1)))
BEHIND_THE_LAST = same(e, expected(k))


def publish(when: Expr = IS_LEADING, behind: Expr = BEHIND_THE_LAST) -> Action:
    """The batch is published behind the last one."""
    guard = all_of(alive(k), settled(k), when, BY_K, ~sent(b), ONE_UNDER_WAY, behind)
    return Action("publish", (k, b, e), guard, (set_(sent, b), set_(travels, b, e)))


def publish_again() -> Action:
    """No answer came: it is published again, behind the same place."""
    return Action(
        "publish_again", (k, b), all_of(alive(k), BY_K, sent(b), ~marker(b), ~confirmed(b)), (set_(unknown, b),)
    )


NOT_STORED = all_of(~unknown(b), forall(p, ~at(p, b)))


def give_up(when: Expr = NOT_STORED) -> Action:
    """The stream is full, and takes none of what was published: its requests wait again."""
    return Action(
        "give_up",
        (k, b),
        all_of(alive(k), BY_K, sent(b), ~marker(b), ~confirmed(b), ~given_up(b), when),
        (
            set_(given_up, b),
            map_to(travels, (b1, p1), travels(b1, p1) & any_of(~same(b1, b), unknown(b))),
            map_to(waiting, (k1, x1), waiting(k1, x1) | all_of(same(k1, k), contains(b, x1), open_(k, x1))),
        ),
    )


IS_EXPECTED = same(e, last(of(by(b))))


def arrive(fence: Expr = IS_EXPECTED) -> Action:
    """The stream stores what has travelled, if that stands behind the machine's last batch."""
    is_end = all_of(forall(p1, b1, at(p1, b1) >> below(p1, p)), forall(m1, below(last(m1), p)))
    return Action("arrive", (b, e, p), all_of(travels(b, e), fence, is_end), (set_(at, p, b), put(last, of(by(b)), p)))


def confirm() -> Action:
    """The bridge learns that its batch is stored, by an answer or by a look at the machine's last one."""
    guard = all_of(alive(k), BY_K, sent(b), ~marker(b), ~confirmed(b), at(p, b))
    return Action("confirm", (k, b, p), guard, (set_(confirmed, b), put(expected, k, p)))


# ---- re-sending ----

IS_NEXT = forall(p1, b1, x1, all_of(at(p1, b1), contains(b1, x1), key_below(p1, x1, p, x)) >> knows(k, p1, x1))
IS_SETTLED = settled(k)
WITH_CURSOR = set_(noted, of(k), p, x)


def resend(is_next: Expr = IS_NEXT, when: Expr = IS_SETTLED, cursor: tuple[Update, ...] = (WITH_CURSOR,)) -> Action:
    """One multicast: to the members here, the cursor, and the queue in which the sender waits, if that is of here."""
    is_own = is_of(b, of(k))
    had_before = all_of(same(m1, of(k)), same(x2, x), got(of(k), x1))
    return Action(
        "resend",
        (k, p, b, x),
        all_of(alive(k), when, at(p, b), contains(b, x), ~knows(k, p, x), is_next),
        (
            set_(knows, k, p, x),
            *cursor,
            map_to(entry, (x1,), entry(x1) | all_of(same(x1, x), is_own)),
            map_to(owes, (k1, x1), owes(k1, x1) | all_of(same(k1, k), same(x1, x), is_own, open_(k, x))),
            *(clear(open_, k, x), clear(waiting, k, x)),
            *(set_(delivered, of(k), p, x), set_(got, of(k), x)),
            map_to(before, (m1, x1, x2), before(m1, x1, x2) | had_before),
        ),
    )


def acknowledge() -> Action:
    """The request is acknowledged."""
    return Action("acknowledge", (k, x), alive(k) & owes(k, x), acknowledges())


REQUEST_FIRST = ~owes(k, x)


WAS_RESENT = got(home(x), x)


def reply(when: Expr = WAS_RESENT) -> Action:
    """The sender finds the reply, and goes on."""
    return Action("reply", (p, b, x), all_of(at(p, b), contains(b, x), when), (set_(replied, x),))


def drain(when: Expr = REQUEST_FIRST) -> Action:
    """An entry of the cursor is acknowledged; the last one stays for its place."""
    return Action("drain", (k, x), all_of(alive(k), settled(k), entry(x), OF_K, when), (clear(entry, x),))


ACTIONS = (
    *(ask(), begin(), die(), load(), settle_request(), settle(), take(), withdraw()),
    *(mark(), lead(), add(), publish(), publish_again(), give_up(), arrive(), confirm()),
    *(resend(), acknowledge(), reply(), drain()),
)

# ---- what is true in every state ----

LIVES = alive(k)
STORED = all_of(at(p, b), contains(b, x))

SHAPES = {
    "a machine has one bridge": forall(k1, k2, all_of(alive(k1), alive(k2), same(of(k1), of(k2))) >> same(k1, k2)),
    "a bridge goes its way": forall(
        k, all_of(alive(k) >> begun(k), loaded(k) >> begun(k), settled(k) >> loaded(k), leads(k) >> settled(k))
    ),
    "what did not begin has nothing": forall(
        *(k, x, p), any_of(had(k, x), open_(k, x), waiting(k, x), owes(k, x), found(k, x), knows(k, p, x)) >> begun(k)
    ),
    "a bridge has what it took": forall(
        *(k, x),
        all_of(
            waiting(k, x) >> open_(k, x),
            any_of(open_(k, x), owes(k, x)) >> had(k, x),
            had(k, x) >> all_of(loaded(k), asked(x), OF_K),
            found(k, x) >> OF_K,
        ),
    ),
    "a batch has requests of its machine, from a bridge that leads": forall(
        b, x, contains(b, x) >> all_of(asked(x), same(home(x), of(by(b))), leads(by(b)), ~marker(b))
    ),
    "what travels or is stored was sent": forall(
        b, p, all_of(any_of(travels(b, p), at(p, b), marker(b)) >> sent(b), sent(b) >> settled(by(b)))
    ),
    "what was sent is a marker, or of a bridge that leads": forall(b, (sent(b) & ~marker(b)) >> leads(by(b))),
}
STREAM = {
    "a place holds one batch": forall(p, b1, b2, (at(p, b1) & at(p, b2)) >> same(b1, b2)),
    "no batch is behind its machine's last place": forall(p, b, at(p, b) >> at_most(p, last(of(by(b))))),
    "what travels was sent behind a place that was the last": forall(
        b, e, travels(b, e) >> at_most(e, last(of(by(b))))
    ),
    "what a bridge expects was the last": forall(k, leads(k) >> at_most(expected(k), last(of(k)))),
    "what is stored can't be stored again": forall(b, p, e, (at(p, b) & travels(b, e)) >> below(e, p)),
    "a batch is stored once": forall(b, p1, p2, (at(p1, b) & at(p2, b)) >> same(p1, p2)),
    "what was given up is nowhere": forall(b, p, given_up(b) >> all_of(~at(p, b), ~travels(b, p), sent(b), ~marker(b))),
    "behind a bridge's marker stand its own batches": forall(
        *(k, b, p, b1, p1),
        all_of(LIVES, BY_K, marker(b), at(p, b), at(p1, b1), is_of(b1, of(k)), below(p, p1)) >> same(by(b1), k),
    ),
    "behind a bridge's marker nothing of its predecessors can be stored": forall(
        *(k, b, p, b1, e),
        all_of(LIVES, BY_K, marker(b), at(p, b), travels(b1, e), is_of(b1, of(k)), ~same(by(b1), k)) >> below(e, p),
    ),
    "a bridge that leads has its marker stored": forall(
        k, (LIVES & leads(k)) >> exists(b, p, all_of(BY_K, marker(b), at(p, b)))
    ),
}
ONCE = {
    "what a bridge that leads has waiting is not in the stream": forall(
        *(k, x, p, b), all_of(LIVES, leads(k), waiting(k, x), STORED) >> FALSE
    ),
    "what waits is in no batch that may be stored": forall(
        *(k, x, b), all_of(LIVES, waiting(k, x), contains(b, x), BY_K) >> given_up(b)
    ),
    "a request is in one batch of a bridge": forall(
        *(b1, b2, x),
        all_of(contains(b1, x), contains(b2, x), same(by(b1), by(b2)), ~given_up(b1), ~given_up(b2), alive(by(b1)))
        >> same(b1, b2),
    ),
    "a request of a batch is in no other that is stored": forall(
        *(b, x, p1, b1), all_of(alive(by(b)), contains(b, x), ~given_up(b), at(p1, b1), contains(b1, x)) >> same(b1, b)
    ),
    "what may be stored holds nothing that is": forall(
        *(b, x, p1, b1, e),
        all_of(travels(b, e), same(e, last(of(by(b)))), contains(b, x), at(p1, b1), contains(b1, x)) >> FALSE,
    ),
    "a request is in one stored batch": forall(
        *(p1, b1, p2, b2, x), all_of(at(p1, b1), contains(b1, x), at(p2, b2), contains(b2, x)) >> same(b1, b2)
    ),
    "what was withdrawn is not in the stream, and never will be": forall(
        *(x, b, p),
        (withdrawn(x) & contains(b, x))
        >> all_of(~at(p, b), travels(b, p) >> below(p, last(of(by(b)))), alive(by(b)) >> given_up(b)),
    ),
}
DONE = {
    "the cursor shows what was delivered": forall(m, p, x, iff(noted(m, p, x), delivered(m, p, x))),
    "a bridge knows what was delivered": forall(*(k, p, x), LIVES >> iff(knows(k, p, x), delivered(of(k), p, x))),
    "what was delivered was got": forall(m, p, x, delivered(m, p, x) >> got(m, x)),
    "what was got is in the stream": forall(
        m, x, got(m, x) >> exists(p, b, all_of(at(p, b), contains(b, x), delivered(m, p, x)))
    ),
    "what is delivered is in the stream": forall(
        m, p, x, delivered(m, p, x) >> exists(b, all_of(at(p, b), contains(b, x)))
    ),
    "a request that is done and not acknowledged is in the cursor": forall(
        x, (got(home(x), x) & ~acked(x)) >> entry(x)
    ),
    "what is in the cursor was delivered": forall(
        k, x, all_of(entry(x) >> got(home(x), x), found(k, x) >> got(home(x), x), owes(k, x) >> got(home(x), x))
    ),
    "a bridge has found what is in the cursor": forall(k, x, all_of(LIVES, ~settled(k), entry(x), OF_K) >> found(k, x)),
    "a bridge owes what is done and not acknowledged": forall(
        k, x, all_of(LIVES, settled(k), OF_K, got(home(x), x), ~acked(x)) >> owes(k, x)
    ),
    "what is open is not done": forall(k, x, all_of(LIVES, settled(k), open_(k, x)) >> ~got(home(x), x)),
    "what is open is not acknowledged": forall(k, x, (LIVES & open_(k, x)) >> ~acked(x)),
    "a bridge has all requests of batches": forall(
        k, b, x, all_of(LIVES, loaded(k), contains(b, x), OF_K, ~acked(x)) >> had(k, x)
    ),
    "what a bridge had is open until it is done": forall(
        k, x, all_of(LIVES, had(k, x), ~acked(x)) >> any_of(open_(k, x), settled(k) & got(home(x), x))
    ),
    "what is acknowledged was delivered or withdrawn": forall(x, acked(x) >> any_of(got(home(x), x), withdrawn(x))),
    "what was withdrawn was acknowledged": forall(x, withdrawn(x) >> (acked(x) & asked(x))),
    "what was replied to was delivered": forall(x, replied(x) >> got(home(x), x)),
    "what is delivered comes after all that is before it": forall(
        *(m, p, x, p1, b1, x1),
        all_of(delivered(m, p, x), at(p1, b1), contains(b1, x1), key_below(p1, x1, p, x)) >> delivered(m, p1, x1),
    ),
    "the history is in the order of the stream": forall(
        *(m, x1, x2, p1, p2),
        all_of(before(m, x1, x2), delivered(m, p1, x1), delivered(m, p2, x2)) >> key_below(p1, x1, p2, x2),
    ),
    "the history is of deliveries": forall(m, x1, x2, before(m, x1, x2) >> (got(m, x1) & got(m, x2))),
}

PROPERTIES = {
    "once: no message is re-sent twice on a machine": forall(m, x, ~before(m, x, x)),
    "one order: no two machines re-send two messages in opposite orders": forall(
        *(m1, m2, x1, x2), ~(before(m1, x1, x2) & before(m2, x2, x1))
    ),
    "no gap: what is re-sent comes after all that stands before it in the stream": DONE[
        "what is delivered comes after all that is before it"
    ],
    "a request stands in the stream once": forall(
        *(p1, b1, p2, b2, x),
        all_of(at(p1, b1), contains(b1, x), at(p2, b2), contains(b2, x)) >> (same(b1, b2) & same(p1, p2)),
    ),
    "no loss: what was asked is in the inbox, or was re-sent here, or withdrawn": forall(
        x, asked(x) >> any_of(~acked(x), got(home(x), x), withdrawn(x))
    ),
    "what was withdrawn comes nowhere": forall(m, x, withdrawn(x) >> ~got(m, x)),
    "a sender is replied to when its message was re-sent on its machine": DONE["what was replied to was delivered"],
}

MUTANTS = (
    Mutant("no-fence", "a batch is stored wherever the stream stands", (arrive(TRUE),)),
    Mutant(
        "no-marker",
        "a bridge publishes before it has read its own marker",
        (add(TRUE), publish(TRUE, same(e, last(of(k))))),
    ),
    Mutant("marker-unread", "a bridge leads once its marker is stored, whatever stands before it", (lead(TRUE),)),
    Mutant("cursor-apart", "the cursor's entry is a step of its own: a kill may come before", (resend(cursor=()),)),
    Mutant("inbox-late", "the requests are loaded when the bridge has begun to re-send", (resend(when=TRUE),)),
    Mutant("entry-first", "an entry of the cursor is acknowledged before its request", (drain(TRUE),)),
    Mutant("settle-first", "a successor acknowledges what the cursor has before the requests of it", (settle(TRUE),)),
    Mutant("two-bridges", "a machine has two bridges at the same time", (begin(TRUE),)),
    Mutant("out-of-order", "a bridge re-sends what it finds in any order", (resend(is_next=TRUE),)),
    Mutant("withdraw-early", "a request is withdrawn before the bridge has read its own marker", (withdraw(TRUE),)),
    Mutant(
        "full-is-none",
        "a batch is given up when the stream is full, though an earlier publication may be stored",
        (give_up(any_of(unknown(b), NOT_STORED)),),
    ),
    Mutant("reply-stored", "a sender is replied to when its batch is stored", (reply(TRUE),)),
)

SYSTEM = System(
    name="bridge",
    meaning="bridges of wide groups, and their successors",
    sorts=SORTS,
    symbols=(
        *(home, of, by, at, last, travels, asked, acked, entry, noted),
        *(begun, alive, loaded, settled, leads, knows, found, had, open_, waiting, owes, expected),
        *(marker, sent, confirmed, contains, unknown, given_up, delivered, got, before, withdrawn, replied),
    ),
    axioms={},
    actions=ACTIONS,
    invariants={**SHAPES, **STREAM, **ONCE, **DONE},
    properties=PROPERTIES,
    mutants=MUTANTS,
)


def scene(
    homes: Sequence[int] = (0,), lives: Sequence[int] = (0, 0), batches: Sequence[int] = (0, 0, 1, 1), places: int = 5
) -> Scene:
    """Return a scene with the machine of each request and of each bridge, and the bridge of each batch."""
    return Scene(
        dict(zip(SORTS, (1 + max((*homes, *lives)), len(homes), len(batches), len(lives), places), strict=True)),
        {home: frozenset(enumerate(homes)), of: frozenset(enumerate(lives)), by: frozenset(enumerate(batches))},
    )
