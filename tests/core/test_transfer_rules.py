# SPDX-License-Identifier: Apache-2.0
"""The rules of the state transfer (busq/_state/transfer_rules.py), over all schedules of a small group and random ones.

The group is a log: what is appended is delivered to each member of that view in the order of the log, which is what
the bus promises.  A step delivers the next entry to one member, lets one send what it has to send, lets a member join,
kills one (which loses what it has not sent), or appends the view without a dead one.
"""

from __future__ import annotations

import copy
import os
import pickle
import random
from typing import Any

import pytest

from busq._state.transfer_rules import Begin, Deliver, Effect, Give, Place, Say, Take, Transfer

CHUNKS = 2  # of a state, so that its giver may be killed in between


class Member:
    def __init__(self, name: str, at: int) -> None:
        self.transfer = Transfer(name)
        self.at = at  # the next entry of the log
        self.outbox: list[tuple[Any, ...]] = []
        self.parts: list[Any] = []
        self.history: list[Any] = []  # the state
        self.is_fresh = True  # it has delivered nothing


class Group:
    """All of it: a copy of this is a copy of the world."""

    def __init__(self, joiners: str, kills: int, messages: int) -> None:
        self.members: dict[str, Member] = {}
        self.log: list[tuple[Any, ...]] = []
        self.joiners = joiners
        self.kills = kills
        self.messages = messages
        self.dead: set[str] = set()
        self.view: list[str] = []
        self.number = 0
        self.known: dict[tuple[int, int], tuple[Any, ...]] = {}  # the state at each place

    # ---- steps ----

    def steps(self) -> list[tuple[str, str]]:
        found = [("deliver", name) for name, one in self.members.items() if self.next_entry(one) is not None]
        found += [("send", name) for name, one in self.members.items() if one.outbox]
        found += [("bury", name) for name in self.dead & set(self.view)]
        if self.joiners:
            found.append(("join", self.joiners[0]))
        if self.kills and len(self.members) > 1:
            found += [("kill", name) for name in self.members]
        if self.messages:
            found += [("message", name) for name, one in self.members.items() if one.transfer.has_state]
        return found

    def step(self, kind: str, name: str) -> None:
        getattr(self, kind)(name)

    def join(self, name: str) -> None:
        self.joiners = self.joiners[1:]
        self.members[name] = Member(name, len(self.log))
        self.change([*self.view, name], [name], [])

    def kill(self, name: str) -> None:
        self.kills -= 1
        self.dead.add(name)
        del self.members[name]

    def bury(self, name: str) -> None:
        self.change([one for one in self.view if one != name], [], [name])

    def change(self, members: list[str], joined: list[str], left: list[str]) -> None:
        self.number += 1
        self.view = members
        self.log.append(("view", self.number, members, joined, left))

    def message(self, name: str) -> None:
        self.messages -= 1
        self.log.append(("event", name, self.messages))

    def send(self, name: str) -> None:
        self.log.append(self.members[name].outbox.pop(0))

    def next_entry(self, member: Member) -> tuple[Any, ...] | None:
        at = member.at
        while at < len(self.log) and self.log[at][0] == "chunk" and self.log[at][1] != member.transfer.me:
            at += 1
        return self.log[at] if at < len(self.log) else None

    def deliver(self, name: str) -> None:
        member = self.members[name]
        entry = self.next_entry(member)
        assert entry is not None
        member.at = self.log.index(entry, member.at) + 1
        effects = self.effects(member, entry)
        # An application gets what is delivered when the call returns: a state that is given has nothing of it.
        kinds = [type(effect) for effect in effects]
        assert Give not in kinds[kinds.index(Deliver) :] if Deliver in kinds else True
        for effect in effects:
            self.follow(member, effect)
        if member.transfer.is_open:
            state = tuple(member.history)
            assert self.known.setdefault(member.transfer.place, state) == state, member.transfer.place

    def effects(self, member: Member, entry: tuple[Any, ...]) -> list[Effect]:
        kind, *rest = entry
        if kind == "view":
            return member.transfer.view(*rest, entry)
        if kind == "word":
            return member.transfer.word(*rest)
        if kind == "event":
            return member.transfer.event(entry)
        _, sender, number, place, roster, history = rest
        if number == 0:
            member.parts = []
        member.parts.append((sender, place))
        if number < CHUNKS - 1:
            return []
        assert member.parts == [(sender, place)] * CHUNKS
        effects = member.transfer.state(place, copy.deepcopy(roster))
        if effects:
            member.history = list(history)
        return effects

    def follow(self, member: Member, effect: Effect) -> None:
        me = member.transfer.me
        if isinstance(effect, Deliver):
            # The first is a view, and no state that was taken has it already.
            assert effect.item[0] == "view" or not member.is_fresh
            assert effect.item not in member.history
            member.is_fresh = False
            member.history.append(effect.item)
        elif isinstance(effect, Begin):
            member.history = [("begin", effect.place)]
        elif isinstance(effect, Say):
            member.outbox.append(("word", effect.word, me, effect.number))
        elif isinstance(effect, Give):
            for to in effect.to:
                for number in range(CHUNKS):
                    copied = copy.deepcopy((effect.place, effect.roster, member.history))
                    member.outbox.append(("chunk", to, me, number, *copied))
        else:
            assert isinstance(effect, Take)

    # ---- what must hold ----

    def check_end(self) -> None:
        """Nothing is left to happen: every member that is there has the state, and all have the same."""
        for member in self.members.values():
            assert member.transfer.is_open, member.transfer.me
            assert member.transfer.held == 0
        assert len({tuple(map(repr, member.history)) for member in self.members.values()}) <= 1
        assert len({repr(member.transfer._roster()) for member in self.members.values()}) <= 1
        for member in self.members.values():
            assert member.transfer._settled == set(self.view)

    def key(self) -> bytes:
        # Pickled anew, so that what is equal looks equal, whatever shares what.
        facts = [
            (name, vars(one.transfer), one.at, one.outbox, one.parts, one.history, one.is_fresh)
            for name, one in self.members.items()
        ]
        rest = (self.log, self.joiners, self.kills, self.messages, sorted(self.dead))
        return repr((facts, rest)).encode()


def explore(group: Group) -> tuple[int, int]:
    """Every schedule; returns how many worlds there are, and how many ends."""
    seen: set[int] = set()
    stack = [pickle.dumps(group)]
    worlds = ends = 0
    while stack:
        base = stack.pop()
        now: Group = pickle.loads(base)
        steps = now.steps()
        if not [kind for kind, _ in steps if kind not in ("kill", "join", "message")]:
            now.check_end()
            ends += 1
        for kind, name in steps:
            after: Group = pickle.loads(base)
            after.step(kind, name)
            key = hash(after.key())
            if key not in seen:
                seen.add(key)
                worlds += 1
                stack.append(pickle.dumps(after))
    return worlds, ends


SIZES = [("ab", 2, 2)]
if os.environ.get("BUSQ_TEST_TRANSFER") == "all":  # 31,491 and 247,381 worlds, in some ten minutes of processor
    SIZES += [("abc", 2, 0), ("abc", 1, 1)]


@pytest.mark.parametrize(("joiners", "kills", "messages"), SIZES)
def test_every_schedule(joiners: str, kills: int, messages: int) -> None:
    worlds, ends = explore(Group(joiners, kills, messages))
    print(f"{worlds} worlds, {ends} ends")
    assert ends > 1


def random_schedules(seed: int, count: int) -> None:
    for number in range(count):
        drawn = random.Random(seed + number)
        group = Group("abcde"[: drawn.randint(2, 5)], drawn.randint(0, 4), drawn.randint(0, 5))
        while steps := group.steps():
            group.step(*drawn.choice(steps))
        group.check_end()


def test_random_schedules_of_larger_groups(seed: int) -> None:
    random_schedules(seed, 3000)


# ---- each rule is needed ----


class DropsNothing(Transfer):
    """Without rule 4: what the state has already is applied once more."""

    def state(self, place: Place, roster: dict[str, Any]) -> list[Effect]:
        return super().state((0, 0), roster)


class AssignsNobodyElse(Transfer):
    """Without rule 5: a member that has got nothing from the killed one waits for ever."""

    def _assign(self) -> list[str]:
        former = dict(self._assigned)
        given = super()._assign()
        self._assigned |= {name: one for name, one in former.items() if one}
        return [name for name in given if not former[name]]


class NeverNeedy(Transfer):
    """Without rule 6: where all members with the state are gone, the others wait for ever."""

    def _say_needy(self) -> list[Effect]:
        return []


class BeginsAlone(Transfer):
    """With the natural shortcut for rule 6: in doubt, begin anew."""

    def _say_needy(self) -> list[Effect]:
        return self._begin()


class GivesLater(Transfer):
    """With the natural slip in rule 3: the state as it is after the view, under the place before it."""

    def view(self, *arguments: Any) -> list[Effect]:
        return super().view(*arguments)[::-1]


class HoldsNothing(Transfer):
    """Without the end of rule 5: the state that the first settled member gives has the last view already."""

    def _hand(self, item: Any) -> list[Effect]:
        return [Deliver(item)]


MUTANTS = [DropsNothing, AssignsNobodyElse, NeverNeedy, BeginsAlone, GivesLater, HoldsNothing]


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_machine_without_one_of_the_rules_is_found_out(
    mutant: type[Transfer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "Transfer", mutant)
    with pytest.raises(AssertionError):
        random_schedules(0, 3000)
