# SPDX-License-Identifier: Apache-2.0
"""A shared queue (`csrc/shm/message/shared_take.h`), for any number of readers, messages and places.

The order of the queue is taken from the multicast's proof: a message is `there` when it is committed and nothing with
a lower key can come any more, so messages come to be there in ascending order.  Where they stand is another matter: a
late one stands before what comes before it.  An action is one swap or store that decides something, or one look.

Readers are lives: a process that joins again is another reader.  One that is killed takes no further step, and any
process takes the steps of its burial, one at a time; a reader that leaves is one that buries itself.  A place is one
position of the queue's ring, or of a reader's hands; a position that is used again is another place here, because a
swap names the message.

Not here: undone messages, the end of a queue, and what is given back before its application has seen it.  Each function
below is one action; its arguments are the rules that mutants break.
"""

from __future__ import annotations

from collections.abc import Sequence

from busq.lab.proof.logic import *
from busq.lab.proof.states import Scene

__all__ = ["SYSTEM", "scene"]

Msg = Sort("Msg", is_ordered=True)  # by key
Reader = Sort("Reader")
Place = Sort("Place", is_ordered=True)

ring = relation("ring", Place, is_fixed=True)  # of the queue
hand = relation("hand", Place, Reader, is_fixed=True)

used = relation("used", Place)
at = relation("at", Place, Msg)  # was put there
there = relation("there", Msg)
# What stands at a place is free, claimed by a reader, or done with.
free, done = relation("free", Place), relation("done", Place)
claim = relation("claim", Place, Reader)
marked = relation("marked", Place)  # OFFERED, of what is free: it came back
kept = relation("kept", Place)  # TAKEN, of what is in its reader's hands; otherwise it is to be acknowledged
released = relation("released", Msg)  # the mark in the record
behind = relation("behind", Place)  # the head has moved over it
# What a reader knows.
joined, dead, buried = (relation(name, Reader) for name in ("joined", "dead", "buried"))
aims = relation("aims", Reader, Place)  # it has seen a free message there, and is about to swap
aims_marked = relation("aims_marked", Reader)  # with that mark
shown = relation("shown", Reader, Place)  # busq_slot.reaches
reached = relation("reached", Reader, Place)  # claimed there, and not taken or put back so far
past = relation("past", Reader, Place)
news = relation("news", Reader)  # the count of what came back is another one than when it looked
has_asked = relation("has_asked", Reader)  # it has looked for the dead in this call
# Set free, and not counted so far by the reader whose claim it was, or by those that bury it.
due = relation("due", Place, Reader)
# History, on which no step depends.
got = relation("got", Reader, Msg)
for_good = relation("for_good", Msg)  # taken, with nothing left to acknowledge; or acknowledged
again = relation("again", Msg)  # that happened once more
unmarked_again = relation("unmarked_again", Msg)  # it came to a second reader, and nothing showed that
overtaken = relation("overtaken", Reader, Msg)  # the reader got it without a mark behind what comes after it
was_dead = relation("was_dead", Reader, Reader)  # the second was, when a call of the first began
overlooked = relation("overlooked", Reader, Msg)  # the reader found nothing, and that one could be had
counted_done = relation("counted_done", Place)  # the head stood there when the last reader was buried

m, m1, m2 = variables("m m1 m2", Msg)
r, r1, r2 = variables("r r1 r2", Reader)
p, p1, p2, h = variables("p p1 p2 h", Place)

HERE = at(p, m)
LIVES = joined(r) & ~dead(r)
# A process has one call at a time: it aims at one place, and is through with it before it does anything else.
HAS_REACHED_NOTHING = forall(p1, all_of(claim(p1, r) >> hand(p1, r), ~reached(r, p1)))
IS_IDLE = all_of(LIVES, HAS_REACHED_NOTHING, forall(p1, ~aims(r, p1)))


# ---- messages ----


def arrive() -> Action:
    """A sender takes a place at the tail."""
    at_the_tail = forall(p1, m1, all_of(at(p1, m1), ring(p1)) >> below(p1, p))
    is_new = all_of(~there(m), forall(p1, ~at(p1, m)))
    guard = all_of(ring(p), is_new, ~used(p), at_the_tail)
    return Action("arrive", (m, p), guard, (set_(used, p), set_(at, p, m), set_(free, p)))


def commit() -> Action:
    """A message is final, and so is all that comes before it."""
    is_last = forall(m1, there(m1) >> below(m1, m))
    return Action("commit", (m, p), all_of(HERE, ~there(m), is_last), (set_(there, m),))


# ---- a reader looks ----


def join() -> Action:
    """A reader begins at the head, and has seen nothing."""
    return Action(
        "join",
        (r,),
        ~joined(r),
        (set_(joined, r), clear(news, r), map_to(past, (r1, p1), past(r1, p1) & ~same(r1, r))),
    )


NEXT = forall(p1, m1, all_of(at(p1, m1), there(m1), below(m1, m)) >> (past(r, p1) | behind(p1)))


def look(is_next: Expr = NEXT, shows: bool = True) -> Action:
    """The reader has come to a free message that nothing comes before; its slot shows where it is about to reach."""
    shown_now = map_to(shown, (r1, p1), any_of(~same(r1, r) & shown(r1, p1), same(r1, r) & same(p1, p)))
    return Action(
        "look",
        (r, p, m),
        all_of(IS_IDLE, HERE, there(m), free(p), ~behind(p), is_next),
        (set_(aims, r, p), put(aims_marked, r, marked(p)), *((shown_now,) if shows else ())),
    )


AS_SEEN = all_of(free(p), iff(marked(p), aims_marked(r)))
CLAIMS = (clear(free, p), set_(claim, p, r))


SWAPS = (clear(aims, r, p), set_(past, r, p), set_(reached, r, p))


def reach(as_seen: Expr = AS_SEEN, claims: tuple[Update, ...] = CLAIMS) -> Action:
    """The swap: what it saw is claimed, without a mark."""
    return Action("reach", (r, p), all_of(LIVES, aims(r, p), ~marked(p), as_seen), (*SWAPS, *claims))


def reach_again() -> Action:
    """The same of what came back."""
    return Action("reach_again", (r, p), all_of(LIVES, aims(r, p), marked(p), AS_SEEN), (*SWAPS, *CLAIMS))


def miss() -> Action:
    """The swap that fails: another reader was faster."""
    return Action("miss", (r, p), all_of(LIVES, aims(r, p), ~AS_SEEN), (clear(aims, r, p), set_(past, r, p)))


def go_past() -> Action:
    """The reader goes past what was reached for, or is done with."""
    return Action("go_past", (r, p, m), all_of(LIVES, HERE, there(m), ~free(p)), (set_(past, r, p),))


def look_anew() -> Action:
    """Something came back, or some time has passed: the reader looks from the head on, and into all hands."""
    return Action("look_anew", (r,), IS_IDLE, (clear(news, r), map_to(past, (r1, p1), past(r1, p1) & ~same(r1, r))))


def begin() -> Action:
    """A call begins."""
    remembered = map_to(was_dead, (r1, r2), any_of(~same(r1, r) & was_dead(r1, r2), same(r1, r) & dead(r2)))
    return Action("begin", (r,), IS_IDLE, (clear(has_asked, r), remembered))


def ask() -> Action:
    """The reader looks for dead ones that have something in their hands, or have reached for it, and buries them.

    The code does so a step at a time, some in each call; here it is through with that.
    """
    settled = forall(*(r1, p1), all_of(dead(r1), claim(p1, r1)) >> ~any_of(hand(p1, r1), shown(r1, p1)))
    return Action("ask", (r,), IS_IDLE & settled, (set_(has_asked, r),))


NOTHING_PASSED = forall(p1, m1, all_of(at(p1, m1), there(m1), ring(p1)) >> behind(p1))
HAS_ASKED = any_of(has_asked(r), NOTHING_PASSED)


def find_nothing(has_asked_for_the_dead: Expr = HAS_ASKED) -> Action:
    """The reader has reached the end of the queue, and returns without a message."""
    is_through = forall(p1, m1, all_of(at(p1, m1), there(m1)) >> (past(r, p1) | behind(p1)))
    could_be_had = exists(
        *(p1,),
        all_of(
            *(at(p1, m1), there(m1), past(r, p1)),
            any_of(
                all_of(free(p1), ~behind(p1), forall(r2, due(p1, r2) >> buried(r2))),
                all_of(ring(p1), exists(r2, claim(p1, r2) & was_dead(r, r2))),
            ),
        ),
    )
    return Action(
        "find_nothing",
        (r,),
        all_of(IS_IDLE, ~news(r), is_through, has_asked_for_the_dead),
        (clear(has_asked, r), map_to(overlooked, (r1, m1), overlooked(r1, m1) | all_of(same(r1, r), could_be_had))),
    )


# ---- a reader takes ----


TAKES = (
    set_(got, r, m),
    put(unmarked_again, m, unmarked_again(m) | all_of(~marked(p), exists(r1, got(r1, m)))),
    put(
        overtaken,
        *(r, m),
        overtaken(r, m) | all_of(~marked(p), exists(m1, got(r, m1) & below(m, m1))),
    ),
)
FOR_GOOD = (set_(for_good, m), put(again, m, again(m) | for_good(m)))


def copy() -> Action:
    """The reader copies what it has reached for, and releases the record."""
    return Action(
        "copy",
        (r, p, m),
        all_of(LIVES, HERE, reached(r, p)),
        (*TAKES, *FOR_GOOD, clear(reached, r, p), set_(released, m)),
    )


IS_EMPTY = hand(h, r) & ~used(h)
PUTS = (
    set_(used, h),
    set_(at, h, m),
    set_(claim, h, r),
    map_to(past, (r1, p1), past(r1, p1) | same(p1, h)),
)


def to_hands(to_keep: bool, also: tuple[Update, ...] = (), when: Expr = TRUE) -> Action:
    """The reader puts what it has reached for into its hands, to acknowledge it or to look at it in place."""
    mode = (set_(kept, h), *FOR_GOOD) if to_keep else ()
    return Action(
        "keep_in_hands" if to_keep else "offer",
        (r, p, m, h),
        all_of(LIVES, HERE, reached(r, p), ~hand(p, r), IS_EMPTY, when),
        (*TAKES, *PUTS, *mode, *also, clear(reached, r, p)),
    )


def take_here(to_keep: bool) -> Action:
    """The same of what came back and stands in its own hands: it stays where it is."""
    mode = (set_(kept, p), *FOR_GOOD) if to_keep else ()
    return Action(
        "keep_here" if to_keep else "offer_here",
        (r, p, m),
        all_of(LIVES, HERE, reached(r, p), hand(p, r)),
        (*TAKES, *mode, clear(reached, r, p)),
    )


IS_THROUGH = any_of(released(m), ~hand(p, r) & ~reached(r, p))
ENDS_CLAIM = (clear(claim, p, r), set_(done, p))


def finish(is_through: Expr = IS_THROUGH) -> Action:
    """The place is done with: the message is released, or is in the reader's hands now."""
    return Action("finish", (r, p, m), all_of(LIVES, HERE, claim(p, r), is_through), ENDS_CLAIM)


IS_OFFERED = all_of(IS_IDLE, HERE, hand(p, r), claim(p, r), ~kept(p), ~released(m))


def acknowledge() -> Action:
    """The reader acknowledges, and releases the record."""
    return Action("acknowledge", (r, p, m), IS_OFFERED, (*FOR_GOOD, set_(released, m)))


def keep() -> Action:
    """The reader acknowledges, and goes on looking at the message in place."""
    return Action("keep", (r, p, m), IS_OFFERED, (*FOR_GOOD, set_(kept, p)))


def release() -> Action:
    """The reader releases what it has kept."""
    return Action("release", (r, p, m), all_of(IS_IDLE, HERE, claim(p, r), kept(p)), (set_(released, m),))


MARKS = (set_(marked, p),)
SETS_FREE = (clear(claim, p, r), set_(free, p), set_(due, p, r))


def put_back(marks: tuple[Update, ...] = MARKS) -> Action:
    """The reader has reached for it, and does not take it."""
    guard = all_of(LIVES, HERE, reached(r, p), claim(p, r))
    return Action("put_back", (r, p, m), guard, (*SETS_FREE, *marks, clear(reached, r, p)))


def give_back(marks: tuple[Update, ...] = MARKS) -> Action:
    """The reader gives back what it has to acknowledge."""
    return Action("give_back", (r, p, m), IS_OFFERED, (*SETS_FREE, *marks))


ALL_LOOK_AGAIN = (map_to(news, (r1,), TRUE), map_to(due, (p1, r1), due(p1, r1) & ~same(r1, r)))


def count() -> Action:
    """The reader counts what came back."""
    return Action("count", (r,), LIVES, ALL_LOOK_AGAIN)


# ---- death ----


def kill() -> Action:
    """A reader is killed, between any two steps."""
    return Action("kill", (r,), LIVES, (set_(dead, r),))


IS_DEAD = joined(r) & dead(r)
IN_ITS_HANDS = exists(h, all_of(hand(h, r), claim(h, r), at(h, m)))
SHOWN_OUTSIDE = all_of(shown(r, p), claim(p, r), ~hand(p, r))


IS_OPEN = ~released(m)


def free_reach(
    is_dead: Expr = IS_DEAD,
    is_in_hands: Expr = IN_ITS_HANDS,
    is_open: Expr = IS_OPEN,
    marks: tuple[Update, ...] = MARKS,
) -> Action:
    """Its burial sets free what it had reached for, and not taken."""
    guard = all_of(is_dead, HERE, SHOWN_OUTSIDE, ~is_in_hands, is_open)
    return Action("free_reach", (r, p, m), guard, (*SETS_FREE, *marks))


def end_reach(is_in_hands: Expr = IN_ITS_HANDS) -> Action:
    """Its burial ends what it had taken, and not ended."""
    is_over = any_of(is_in_hands, released(m))
    return Action("end_reach", (r, p, m), all_of(IS_DEAD, HERE, SHOWN_OUTSIDE, is_over), ENDS_CLAIM)


REACH_IS_OVER = forall(p1, (shown(r, p1) & claim(p1, r)) >> hand(p1, r))
IN_HANDS = all_of(IS_DEAD, HERE, hand(p, r), claim(p, r))


def free_hand(after: Expr = REACH_IS_OVER, is_open: Expr = IS_OPEN, marks: tuple[Update, ...] = MARKS) -> Action:
    """Its burial sets free what it had not acknowledged, in its place."""
    return Action("free_hand", (r, p, m), all_of(IN_HANDS, after, ~kept(p), is_open), (*SETS_FREE, *marks))


def end_hand(after: Expr = REACH_IS_OVER) -> Action:
    """Its burial releases what it had taken."""
    guard = all_of(IN_HANDS, after, kept(p) | released(m))
    return Action("end_hand", (r, p, m), guard, (*ENDS_CLAIM, set_(released, m)))


def bury(counts: bool = True) -> Action:
    """Nothing is left in its hands, and nothing that its slot shows; what came back is counted."""
    nothing = forall(p1, claim(p1, r) >> ~any_of(hand(p1, r), shown(r, p1)))
    return Action(
        "bury", (r,), all_of(IS_DEAD, ~buried(r), nothing), (set_(buried, r), *(ALL_LOOK_AGAIN if counts else ()))
    )


# ---- the head ----


def stands_at(place: Expr) -> Expr:
    """Return the formula that the head stands at a place."""
    return all_of(
        ring(place), ~behind(place), forall(p2, m2, all_of(at(p2, m2), ring(p2), below(p2, place)) >> behind(p2))
    )


IS_DONE = done(p)


def advance(is_done: Expr = IS_DONE) -> Action:
    """The head moves over a place: by a swap, of any process that comes by."""
    return Action("advance", (p, m), all_of(HERE, stands_at(p), is_done), (set_(behind, p),))


HAS_MOVED = forall(p1, m1, all_of(at(p1, m1), stands_at(p1)) >> ~done(p1))


def end(has_moved: Expr = HAS_MOVED) -> Action:
    """The last reader is buried, and the process that does so has moved the head."""
    no_reader = forall(r1, joined(r1) >> buried(r1))
    wrong = all_of(done(p1), exists(m1, at(p1, m1)), stands_at(p1))
    return Action("end", (), no_reader & has_moved, (map_to(counted_done, (p1,), counted_done(p1) | wrong),))


ACTIONS = (
    *(
        arrive(),
        commit(),
        join(),
        look(),
        reach(),
        reach_again(),
        miss(),
        go_past(),
        look_anew(),
        begin(),
        ask(),
        find_nothing(),
    ),
    *(copy(), to_hands(False), to_hands(True), take_here(False), take_here(True), finish()),
    *(acknowledge(), keep(), release(), put_back(), give_back(), count()),
    *(kill(), free_reach(), end_reach(), free_hand(), end_hand(), bury(), advance(), end()),
)


# ---- what is true in every state ----

TWO_OF_ONE = at(p1, m) & at(p2, m)


def is_fresh(place: Expr) -> Expr:
    """Return the formula that no reader has reached for what stands at a place."""
    return free(place) & ~marked(place)


def is_home(place: Expr, msg: Expr) -> Expr:
    """Return the formula that a message stands at a place, and is not on its way from there into a reader's hands."""
    stays = forall(r, claim(place, r) >> (hand(place, r) | reached(r, place)))
    return all_of(at(place, msg), ~done(place), stays)


SHAPES = {
    "of a place that was not used nothing is known": forall(
        *(r, p, m),
        any_of(at(p, m), free(p), done(p), claim(p, r), marked(p), kept(p), past(r, p), aims(r, p), behind(p))
        >> used(p),
    ),
    "only what is final was taken": forall(r, m, any_of(released(m), for_good(m), got(r, m)) >> there(m)),
    "a place has one message": forall(p, m1, m2, (at(p, m1) & at(p, m2)) >> same(m1, m2)),
    "what stands at a place is free, claimed or done with": forall(
        p,
        m,
        HERE
        >> all_of(
            any_of(free(p), done(p), exists(r, claim(p, r))),
            ~(free(p) & done(p)),
            forall(r, claim(p, r) >> ~any_of(free(p), done(p))),
        ),
    ),
    "one reader claims a place": forall(*(p, m, r1, r2), all_of(HERE, claim(p, r1), claim(p, r2)) >> same(r1, r2)),
    "what is not final yet is free, and only in the queue": forall(
        p, m, all_of(HERE, ~there(m)) >> all_of(ring(p), free(p), ~marked(p))
    ),
    "what stands in hands was reached for": forall(*(p, m, r), all_of(HERE, hand(p, r)) >> ~is_fresh(p)),
    "a reader aims at one place, and has reached for nothing else": forall(
        *(r, p1, p2),
        all_of(
            (aims(r, p1) & aims(r, p2)) >> same(p1, p2),
            aims(r, p1) >> ~reached(r, p2),
            (aims(r, p1) & claim(p2, r)) >> hand(p2, r),
        ),
    ),
    "a reader has reached for one message": forall(
        *(r, p1, p2),
        all_of(
            (reached(r, p1) & ~dead(r)) >> claim(p1, r),
            (reached(r, p1) & reached(r, p2)) >> same(p1, p2),
            all_of(reached(r, p1), claim(p2, r), ~hand(p2, r)) >> same(p1, p2),
            all_of(claim(p1, r), claim(p2, r), ~hand(p1, r), ~hand(p2, r)) >> same(p1, p2),
        ),
    ),
    "a slot shows what its reader reaches for": forall(
        r, p, all_of(aims(r, p) >> shown(r, p), (claim(p, r) & ~hand(p, r)) >> shown(r, p))
    ),
    "what claims a message has joined, and is not buried": forall(
        r,
        p,
        all_of(
            claim(p, r) >> (joined(r) & ~buried(r)),
            due(p, r) >> (joined(r) & ~buried(r)),
            aims(r, p) >> joined(r),
        ),
    ),
    "what is buried was dead, and what is dead had joined": forall(
        r, r1, all_of(buried(r) >> dead(r), dead(r) >> joined(r), was_dead(r1, r) >> dead(r))
    ),
}
PLACES = {
    "what is free stands nowhere else": forall(
        *(p1, p2, m), all_of(TWO_OF_ONE, free(p1)) >> any_of(same(p1, p2), done(p2))
    ),
    "a message is claimed by one reader": forall(
        *(p1, p2, m, r1, r2), all_of(TWO_OF_ONE, claim(p1, r1), claim(p2, r2)) >> same(r1, r2)
    ),
    "one that is claimed twice is on its way into hands": forall(
        *(p1, p2, m, r),
        all_of(TWO_OF_ONE, claim(p1, r), claim(p2, r), ~same(p1, p2))
        >> all_of(iff(hand(p1, r), ~hand(p2, r)), ~(reached(r, p1) & claim(p1, r))),
    ),
    "what is not released has a place": forall(m, all_of(there(m), ~released(m)) >> exists(p, is_home(p, m))),
    "what is reached for is not released, and not taken": forall(
        *(r, p, m), all_of(HERE, reached(r, p), claim(p, r)) >> all_of(~released(m), ~for_good(m), ~kept(p))
    ),
    "what is free is not taken": forall(p, m, all_of(HERE, free(p)) >> all_of(~released(m), ~for_good(m), ~kept(p))),
    "what is kept is in hands, and taken": forall(
        *(r, p, m), all_of(HERE, kept(p)) >> all_of(for_good(m), claim(p, r) >> hand(p, r))
    ),
    "what was taken is kept, or released": forall(
        *(r, p, m), all_of(HERE, for_good(m), claim(p, r), hand(p, r)) >> any_of(kept(p), released(m))
    ),
    "what is released was taken": forall(m, released(m) >> for_good(m)),
    "what is behind the head is done with": forall(p, m, all_of(HERE, behind(p)) >> done(p)),
}
LOOKS = {
    "what was passed and is free came back: that is news, or due": forall(
        *(r, p, m),
        all_of(HERE, free(p), past(r, p)) >> any_of(news(r), exists(r1, due(p, r1))),
    ),
    "what has changed since it was looked at came back": forall(
        *(r, p, m),
        all_of(HERE, aims(r, p), free(p)) >> any_of(iff(marked(p), aims_marked(r)), news(r), exists(r1, due(p, r1))),
    ),
    "marks stay": forall(*(r, p, m), all_of(HERE, aims(r, p), aims_marked(r)) >> marked(p)),
    "a reader has gone past what comes before what it aims at": forall(
        *(r, p1, p2, m1, m2),
        all_of(aims(r, p2), at(p2, m2), at(p1, m1), there(m1), below(m1, m2)) >> any_of(past(r, p1), behind(p1)),
    ),
    "what is aimed at is final": forall(*(r, p, m), all_of(HERE, aims(r, p)) >> there(m)),
    "no reader has gone past what no reader has reached for": forall(
        *(r, p, m), all_of(HERE, is_fresh(p)) >> ~past(r, p)
    ),
    "what no reader has reached for comes behind all else": forall(
        *(p1, p2, m1, m2),
        all_of(at(p1, m1), is_fresh(p1), there(m1), at(p2, m2), ~is_fresh(p2)) >> below(m2, m1),
    ),
    "a reader that has asked has settled what the dead had reached for": forall(
        *(r, r1, p, m), all_of(HERE, ring(p), has_asked(r), was_dead(r, r1)) >> ~claim(p, r1)
    ),
}
IS_REACHED_BY = reached(r1, p) & claim(p, r1)
HISTORY = {
    "what is reached for without a mark was with no reader": forall(
        *(r, r1, p, m), all_of(HERE, ~marked(p), any_of(free(p), IS_REACHED_BY)) >> ~got(r, m)
    ),
    "what no reader has reached for comes behind all that one has": forall(
        *(r, p, m, m1), all_of(HERE, is_fresh(p), there(m), got(r, m1)) >> below(m1, m)
    ),
    "what is reached for without a mark comes behind what its reader has": forall(
        *(r, p, m, m1), all_of(HERE, reached(r, p), claim(p, r), ~marked(p), got(r, m1)) >> below(m1, m)
    ),
    "nothing is taken for good again": forall(m, ~again(m)),
    "nothing comes again without a mark": forall(m, ~unmarked_again(m)),
    "nothing without a mark was overtaken": forall(r, m, ~overtaken(r, m)),
    "nothing was overlooked": forall(r, m, ~overlooked(r, m)),
    "the head stood before what was not done with": forall(p, ~counted_done(p)),
}

PROPERTIES = {
    "one reader: no two have one message, to look at it or to acknowledge it": PLACES[
        "a message is claimed by one reader"
    ],
    "once: nothing is taken or acknowledged twice": HISTORY["nothing is taken for good again"],
    "marks: what comes to a second reader, or again, is marked": HISTORY["nothing comes again without a mark"],
    "order: what is not marked comes to each reader in the order of the queue": HISTORY[
        "nothing without a mark was overtaken"
    ],
    "no loss: what is not released can be had, or is with a reader that is not buried": forall(
        m,
        all_of(there(m), ~released(m))
        >> exists(p, all_of(HERE, ~behind(p), any_of(free(p), exists(r, all_of(claim(p, r), ~buried(r)))))),
    ),
    "no loss: what is released was taken for good": PLACES["what is released was taken"],
    "nothing is passed over: what a reader has passed and can be had, it is told of": forall(
        *(r, p, m),
        all_of(LIVES, HERE, free(p), past(r, p)) >> any_of(news(r), exists(r1, due(p, r1) & ~buried(r1))),
    ),
    "a reader finds nothing only where nothing can be had, nor was reached for by one that was dead": HISTORY[
        "nothing was overlooked"
    ],
    "the head moves only over what is done with": PLACES["what is behind the head is done with"],
    "behind the last reader the head stands at nothing that is done with": HISTORY[
        "the head stood before what was not done with"
    ],
}


# ---- each rule is needed ----

STORE = (
    clear(free, p),
    clear(done, p),
    map_to(claim, (p1, r1), any_of(~same(p1, p) & claim(p1, r1), same(p1, p) & same(r1, r))),
)
MUTANTS = (
    Mutant(
        "blind-claim",
        "a reader claims by a store, not by a swap: also what another one has claimed",
        (reach(TRUE, STORE),),
    ),
    Mutant("out-of-turn", "a reader reaches for what is not the next one", (look(TRUE),)),
    Mutant("not-shown", "a slot does not show what its reader reaches for", (look(shows=False),)),
    Mutant("done-first", "a place is done with before its message is in the reader's hands", (finish(TRUE),)),
    Mutant(
        "hands-apart",
        "a burial does not look into the hands for what was reached for",
        (free_reach(is_in_hands=FALSE), end_reach(FALSE)),
    ),
    Mutant("hands-first", "a burial settles the hands before what was reached for", (free_hand(TRUE), end_hand(TRUE))),
    Mutant(
        "released-again",
        "a burial does not look whether the message is released",
        (free_reach(is_open=TRUE), free_hand(is_open=TRUE)),
    ),
    Mutant(
        "bury-alive",
        "a process settles what a reader has reached for without knowing that it is dead",
        (free_reach(joined(r)),),
    ),
    Mutant(
        "came-unmarked",
        "what comes back is not marked",
        (put_back(()), give_back(()), free_reach(marks=()), free_hand(marks=())),
    ),
    Mutant("untold", "a burial does not count what came back", (bury(counts=False),)),
    Mutant(
        "unsought", "a reader that finds nothing does not look for the dead, which it has passed", (find_nothing(TRUE),)
    ),
    Mutant(
        "head-over-claims", "the head moves over what was reached for", (advance(done(p) | exists(r, claim(p, r))),)
    ),
    Mutant("head-left", "the process that buries the last reader does not move the head", (end(TRUE),)),
)

SYSTEM = System(
    name="share",
    meaning="several readers of one queue",
    sorts=(Msg, Reader, Place),
    symbols=(
        *(ring, hand, used, at, there, free, done, claim, marked, kept, released, behind, joined, dead, buried),
        *(aims, aims_marked, shown, reached, past, news, has_asked, due),
        *(got, for_good, again, unmarked_again, overtaken, was_dead, overlooked, counted_done),
    ),
    axioms={
        "a place is of the queue, or in the hands of one reader": forall(
            *(p, r1, r2), all_of((hand(p, r1) & hand(p, r2)) >> same(r1, r2), hand(p, r1) >> ~ring(p))
        )
    },
    actions=ACTIONS,
    invariants={**SHAPES, **PLACES, **LOOKS, **HISTORY},
    properties=PROPERTIES,
    mutants=MUTANTS,
)


def scene(messages: int, hands: Sequence[int] = (), *, readers: int = 2) -> Scene:
    """Return a scene of as many places in the queue as messages, and one in the hands of each reader in `hands`."""
    places = messages + len(hands)
    return Scene(
        {Msg: messages, Reader: readers, Place: places},
        {
            ring: frozenset((place,) for place in range(messages)),
            hand: frozenset((messages + number, reader) for number, reader in enumerate(hands)),
        },
    )
