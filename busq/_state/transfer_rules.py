# SPDX-License-Identifier: Apache-2.0
"""How a late joiner of a group gets the state that the others have: the rules, without any input or output.

Guarantee.  A peer that enters a group gets the state as it is at one place of the common order, and from there on
everything that follows, each once.  Any of the others may be killed meanwhile: as long as one that has the state lives,
it is given; when none is left, all that wait for it notice that at the same place, and begin anew there, together.

Rules.
 1. All members of a view get the same events of the group in one order, so they number them alike: the *place* (v, 0)
    is just before view v, (v, 1) is that view, and (v, n) the n-th event of it.  Members that wait for the state count,
    too.
 2. *Settled* is the set of members that are known to have the state.  Only members that have the state know the set,
    and it changes only by events of the group (a view, a member's "settled"), so that they agree; it travels with the
    state.
 3. At a view with a joiner, the first settled member of the view before that is still there gives the state as it is at
    the place (v, 0), in the moment in which it delivers the view.  It stays assigned to that joiner.
 4. A joiner holds back what follows.  When it has the state of a place it drops what stands before that place, takes up
    what stands behind it, and sends "settled" to the group.
 5. A view without the member that was assigned assigns another one, by the same rule, at that view.  Where no member is
    settled, the first that sends "settled" gives: it may have got the state just before.  It gives the state as it is
    just before the last view, since every joiner is to begin with a view, and with none twice.  So a member that has
    the state holds back the last view, and what follows, while its own word is on its way and no member is settled.
 6. A joiner that saw a member go while it waited sends "needy" to the group, in every view, until it has the state; a
    member that receives "needy" and has no state sends it, too.  Where all members of view v have sent it in that view,
    none of them has the state: a member that had it would not have sent the word, and none got it since, for there was
    no member to give it.  They begin anew at (v, 0).  So does a member that is alone in a view, and so do members that
    are all new to it.

A state of a place before the joiner's own view was meant for an earlier peer of its name, and is passed over.

Why the giver may be killed anywhere: what it had sent comes before the view without it, so that a joiner either has all
of the state by then, and sends "settled", or takes the state of the next giver.  A joiner that gets the state twice
drops the second one.

Not given: a state that survives all members that had it.

>>> joiner = Transfer("b")
>>> joiner.view(2, ["a", "b"], ["b"], [], "view 2"), joiner.event("message 1")
([], [])
>>> joiner.state((2, 0), {"settled": ["a"], "assigned": {}})
[Take(place=(2, 0)), Deliver(item='view 2'), Deliver(item='message 1'), Say(word='settled', number=2)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

__all__ = ["Begin", "Deliver", "Effect", "Give", "Place", "Say", "Take", "Transfer"]

Place = tuple[int, int]  # the number of a view, and of an event in it


class Deliver(NamedTuple):
    """Hand this over, or apply it."""

    item: Any


class Give(NamedTuple):
    """Give the state, as it is now, to these; with the place and the roster."""

    to: list[str]
    place: Place
    roster: dict[str, Any]


class Take(NamedTuple):
    """Take the state that has just come."""

    place: Place


class Begin(NamedTuple):
    """There is no state to be had: begin with a new one."""

    place: Place


class Say(NamedTuple):
    """Send a word to the group, "settled" or "needy", with the number of the view."""

    word: str
    number: int


Effect = Deliver | Give | Take | Begin | Say


class Transfer:
    """The knowledge of one member; each method is an event, and returns its effects, in order."""

    def __init__(self, me: str) -> None:
        self.me = me
        self.has_state = False
        self._first = 0  # the view with which this membership began
        self._number = 0
        self._index = 0  # of the last event in that view
        self._members: list[str] = []
        # Used only while this member has the state:
        self._settled: set[str] = set()
        self._assigned: dict[str, str] = {}  # the giver of each member that is not settled; "": there is none so far
        self._before_view: tuple[Place, dict[str, Any]] = ((0, 0), {})  # the place and the roster before the last view
        self._is_holding = False  # this member may be the one that gives the state before the last view
        self._later: list[Any] = []  # what is delivered when that is settled
        # Used only while it waits for the state:
        self._held: list[tuple[Place, str, Any]] = []
        self._needy: set[str] = set()  # members that have sent "needy" in this view
        self._is_in_doubt = False  # a member has gone, perhaps the giver
        self._has_said = 0  # the view in which this member has sent "needy"

    @property
    def place(self) -> Place:
        """Of the last event."""
        return self._number, self._index

    @property
    def is_open(self) -> bool:
        """Whether what comes is delivered at once."""
        return self.has_state and not self._is_holding

    @property
    def held(self) -> int:
        """How many events wait."""
        return len(self._held) + len(self._later)

    def keep(self) -> Callable[[], None]:
        """Return a function that restores the present state, where the effects of an event are interrupted."""
        facts = dict(vars(self))
        settled, needy, assigned = set(self._settled), set(self._needy), dict(self._assigned)
        n_held, n_later = len(self._held), len(self._later)  # they grow, or give way to other lists

        def restore() -> None:
            vars(self).update(facts)
            self._settled, self._needy, self._assigned = set(settled), set(needy), dict(assigned)
            del self._held[n_held:], self._later[n_later:]

        return restore

    # ---- events of the group, in its order ----

    def view(
        self, number: int, members: Sequence[str], joined: Iterable[str], left: Iterable[str], item: Any
    ) -> list[Effect]:
        """Begin a view; `members` in an order that is the same for all."""
        self._first = self._first or number
        self._number, self._index = number, 1
        change = list(members), list(joined), list(left)
        if self.has_state:
            return self._follow_view(self.place, change, item)
        self._held.append((self.place, "view", (change, item)))
        self._members = change[0]
        self._needy.clear()
        return self._wait_in_view(*change)

    def follows(self) -> bool:
        """Count an event of the group, if it is to be delivered at once.

        The short way of `event`.
        """
        if not self.is_open:
            return False
        self._index += 1
        return True

    def event(self, item: Any) -> list[Effect]:
        """Get something that belongs to the group."""
        return self._next("item", item)

    def quiet(self, item: Any) -> list[Effect]:
        """Get something that belongs to the group and is not counted: then none of the members counts any such."""
        if self.has_state:
            return self._hand(item)
        self._held.append((self.place, "quiet", item))
        return []

    def word(self, word: str, sender: str, number: int) -> list[Effect]:
        """Get a word of another member, or one of this member, back from the group."""
        if word == "needy":
            return [*self._next("nothing", None), *self._hear_needy(sender, number)]
        return self._next(word, sender)

    def leave(self) -> list[Effect]:
        """Have left: nothing is held back any more, and what follows a state that did not come is dropped."""
        held, self._held = self._held, []
        return [*self._release(), *[Deliver(what) for _, kind, what in held if kind == "aside"]]

    # ---- for this member alone ----

    def aside(self, item: Any) -> list[Effect]:
        """Get something that is for this member alone: it keeps its turn, and has no place."""
        if self.has_state:
            return self._hand(item)
        self._held.append((self.place, "aside", item))
        return []

    def wants(self, place: Place) -> bool:
        """Return whether a state of that place is of use: it may have been meant for an earlier peer of this name."""
        return not self.has_state and 0 < self._first <= place[0]

    def state(self, place: Place, roster: dict[str, Any]) -> list[Effect]:
        """Have got the whole state of a place."""
        if not self.wants(place):
            return []
        self.has_state = True
        self._settled = set(roster["settled"])
        self._assigned = dict(roster["assigned"])
        held, self._held = self._held, []
        effects: list[Effect] = [Take(place)]
        for at, kind, what in held:
            if kind == "aside" or (kind == "quiet" and at >= place):
                effects += self._hand(what)
            elif at > place:
                effects += self._follow(at, kind, what)
        return [*effects, Say("settled", self._number)]

    # ---- a member that has the state ----

    def _next(self, kind: str, what: Any) -> list[Effect]:
        self._index += 1
        if self.has_state:
            return self._follow(self.place, kind, what)
        self._held.append((self.place, kind, what))
        return []

    def _follow(self, at: Place, kind: str, what: Any) -> list[Effect]:
        if kind == "view":
            return self._follow_view(at, *what)
        if kind == "settled":
            return self._settle(what)
        return self._hand(what) if kind == "item" else []

    def _follow_view(self, at: Place, change: tuple[list[str], list[str], list[str]], item: Any) -> list[Effect]:
        members, joined, left = change
        self._before_view = (at[0], 0), self._roster()  # the joiner follows the view by itself
        gone = (self._settled | self._assigned.keys()) - set(members)
        for name in gone.union(left):
            self._settled.discard(name)
            self._assigned.pop(name, None)
        for name in joined:
            if name not in self._settled:
                self._assigned[name] = ""
        self._members = members
        effects = [*self._release(), *self._give()]
        self._is_holding = not self._settled and self.me in self._assigned
        return [*effects, *self._hand(item)]

    def _settle(self, name: str) -> list[Effect]:
        if name not in self._members:
            return []
        self._settled.add(name)
        self._assigned.pop(name, None)
        return [*self._give(), *self._release()]

    def _give(self) -> list[Effect]:
        mine = self._assign()
        return [Give(mine, *self._before_view)] if mine else []

    def _hand(self, item: Any) -> list[Effect]:
        """Deliver, now or later."""
        if not self._is_holding:
            return [Deliver(item)]
        self._later.append(item)
        return []

    def _release(self) -> list[Effect]:
        """Deliver what was held back before the last view."""
        later, self._later, self._is_holding = self._later, [], False
        return [Deliver(item) for item in later]

    def _assign(self) -> list[str]:
        """Assign a giver to each member that waits; returns those to which this member gives from now on."""
        giver = next((name for name in self._members if name in self._settled), "")
        waiting = [name for name, former in self._assigned.items() if former not in self._settled]
        self._assigned |= dict.fromkeys(waiting, giver)
        return waiting if giver == self.me else []

    def _roster(self) -> dict[str, Any]:
        return {"settled": sorted(self._settled), "assigned": dict(self._assigned)}

    # ---- a member that waits for it ----

    def _wait_in_view(self, members: list[str], joined: list[str], left: list[str]) -> list[Effect]:
        if members == [self.me] or set(members) <= set(joined):
            return self._begin()
        self._is_in_doubt |= bool(left)
        return self._say_needy() if self._is_in_doubt else []

    def _say_needy(self) -> list[Effect]:
        if self._has_said == self._number:
            return []
        self._has_said = self._number
        return [Say("needy", self._number)]

    def _hear_needy(self, sender: str, number: int) -> list[Effect]:
        if self.has_state or number != self._number:
            return []
        self._needy.add(sender)
        if self._needy.issuperset(self._members):
            return self._begin()
        return self._say_needy()

    def _begin(self) -> list[Effect]:
        place = (self._number, 0)
        self.has_state = True
        self._settled, self._assigned = set(self._members), {}
        held, self._held = self._held, []
        effects: list[Effect] = [Begin(place)]
        for at, kind, what in held:
            if kind == "aside" or (kind == "quiet" and at > place):
                effects.append(Deliver(what))
            elif at > place:
                effects += [Deliver(what[1])] if kind == "view" else self._follow(at, kind, what)
        return effects
