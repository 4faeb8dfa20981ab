# SPDX-License-Identifier: Apache-2.0
"""The result of a check."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from busq.lab.check.witness import BEYOND, Counterexample

__all__ = ["ASKED", "BEYOND", "PROMISED", "Figures", "Finding", "Progress", "Result", "Search", "Transition"]

# Judged besides BEYOND, in words.
PROMISED = {
    "lost": "all that was sent is delivered",
    "duplicated": "nothing is delivered twice",
    "phantom": "nothing is delivered that was not sent",
    "fifo": "a sender's messages come in its order",
    "causal": "nothing is delivered after its effects",
    "consistent": "no two receivers disagree on two messages",
    "total": "the receivers' orders have no cycle together",
    "synchronous": "messages could have taken no time",
}

# Judged where they are asked for: the observers' conditions, and queues.
ASKED = {
    "c2": "nothing is delivered causally after what its sender sent later",
    "mysterious": "no two messages each sent before the other is delivered",
    "mailbox": "one queue per receiver would have done the same",
    "1-n": "one queue per sender would have done the same",
    "n-n": "one queue for all would have done the same",
}

ORDERING = ("fifo", "causal", "consistent", "total", "synchronous")  # what depends on the order of deliveries


@dataclass(frozen=True)
class Finding:
    """The finding about a property.

    `ok`: no execution that was seen breaks it.  `claimed`: the order promises it, on such a network.
    `judged`: the search would have ended at a violation.
    """

    ok: bool
    claimed: bool
    judged: bool


@dataclass(frozen=True)
class Transition:
    """A kind of transitions: an event ("submit", "receive ack", "tick"), and what came of it; `count`: how often."""

    event: str
    effects: str
    count: int

    @property
    def text(self) -> str:
        """Return what it is, in a line."""
        return f"{self.event}: {self.effects}"


@dataclass(frozen=True)
class Progress:
    """How far a search is; `rate` are unique states per second of wall-clock time (walk: moves)."""

    search: str
    unique_states: int
    total_states: int
    ends: int
    depth: int
    memory_bytes: int
    disk_bytes: int
    seconds: float
    rate: float


@dataclass(frozen=True, kw_only=True)
class Figures:
    """How far a search came, and what it found; one search, or all of a check.

    `complete`: all was seen; if not, `unexplored` has the reason.  `unique_states` are different states,
    `total_states` moves that were made (and the start), `ends` states in which nothing can happen any more, `max_depth`
    the longest way that was searched, in moves: a state that was met before is not gone through again on a longer one.
    `rate` are unique states per second.

    `missed_expected` is how many states were taken for others because both have the same fingerprint, on average.
    """

    complete: bool
    unexplored: str
    unique_states: int
    total_states: int
    ends: int
    max_depth: int
    seconds: float
    rate: float
    memory_bytes: int
    missed_expected: float

    @property
    def missed_probability(self) -> float:
        """The probability that at least one state was taken for another one."""
        return -math.expm1(-self.missed_expected)

    def _plain(self, *without: str) -> dict[str, Any]:
        """Return all that was found by name, but for these fields, and `missed_probability`."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__ if name not in without}
        return {**fields, "missed_probability": self.missed_probability}


@dataclass(frozen=True, kw_only=True)
class Search(Figures):
    """One search of those that a check took: `search` is "depth", "breadth" or "walk"; the rest as in Result.

    `counts_moves`: how many steps have brought about the next and nothing else belongs to a state, so that going in
    circles would show.  `disk_bytes`: on disk, at most.  `contradicted`: how often what a reduction takes for granted
    was tried and found wrong.
    """

    search: str
    counts_moves: bool
    reductions: tuple[str, ...]
    disk_bytes: int
    contradicted: int


@dataclass(frozen=True, kw_only=True)
class Result(Figures):
    """The result of a check; the figures as in `Figures`.

    `holds`: no violation of what was judged was found.

    `destinations` are "every choice", or "given".  `messages` are those of each process, or of the one with most;
    `messages_each` those of each, where they differ.

    All figures are of the first search.  With reductions, and several threads, they differ a little from run to run:
    which of several alike states comes first is chance.  Of random walks, `unique_states` are moves, and `ends`
    executions.

    `waiting_max`, `held_max` and `packets_max` are the most messages of its own that a process had unfinished, the most
    of others that it held back, and the most packets in flight; of what was searched, which with late submits and quiet
    packets is not all (mfss 3 x 3: 1 message, and 3 without reductions).

    `vacuous` are properties that nothing within the bound could break, whatever the order does.

    `counterexample` are the steps to what is broken, and `unsound` those to an invariant of the order that had broken
    before: a broken invariant is a violation, and the search goes on past it, to the property that breaks.

    `verdicts` are by property; None of `ok` cannot be: what was not looked at is not there.  `searches` has the figures
    of each search: where the first one finds a violation, a second one looks for a shorter one; where packets might
    circulate for ever, a second one counts steps.
    """

    holds: bool
    order: str
    processes: int
    messages: int
    messages_each: tuple[int, ...]
    fan_out: int
    application: str
    network: str
    doubled: int
    lost: int
    crashes: int
    to_self: bool
    destinations: str
    search: str
    waiting_max: int
    held_max: int
    packets_max: int
    threads: int
    disk_bytes: int
    reductions: tuple[str, ...]
    seed: int | None
    walks: int | None
    verdicts: Mapping[str, Finding]
    transitions: tuple[Transition, ...] = ()
    unseen: tuple[Transition, ...] = ()
    covered: int = 0
    searches: tuple[Search, ...] = ()
    counterexample: Counterexample | None = None
    unsound: Counterexample | None = None
    doubts: tuple[str, ...] = field(default=())
    vacuous: tuple[str, ...] = ()

    @property
    def promised(self) -> tuple[str, ...]:
        """The claims of the order, what every order must keep, and what was judged besides."""
        return tuple(name for name, one in self.verdicts.items() if one.claimed or one.judged)

    @property
    def broken(self) -> tuple[str, ...]:
        """The properties that were judged and are broken."""
        return tuple(name for name, one in self.verdicts.items() if one.judged and not one.ok)

    @property
    def missed(self) -> tuple[str, ...]:
        """The properties that were not judged, and are broken in some execution."""
        return tuple(name for name, one in self.verdicts.items() if not one.judged and not one.ok)

    @property
    def is_vacuous(self) -> bool:
        """Whether nothing could break any of the order's promises about order, or what was asked for of these."""
        ordering = [name for name, one in self.verdicts.items() if one.judged and name in ORDERING]
        return bool(ordering) and set(ordering) <= set(self.vacuous)

    def as_json(self) -> dict[str, Any]:
        """Return plain numbers, texts and dictionaries, as `busq check --json` prints them.

        >>> from busq.lab.check import run
        >>> run("none", processes=2, messages=1).as_json()["verdicts"]["lost"]
        {'ok': True, 'claimed': True, 'judged': True}
        """
        return {
            **self._plain("verdicts", "transitions", "unseen", "searches", "counterexample", "unsound"),
            "messages_each": list(self.messages_each),
            "reductions": list(self.reductions),
            "doubts": list(self.doubts),
            "vacuous": list(self.vacuous),
            "verdicts": {name: dict(vars(one)) for name, one in self.verdicts.items()},
            "transitions": [dict(vars(one)) for one in self.transitions],
            "unseen": [dict(vars(one)) for one in self.unseen],
            "searches": [{**vars(one), "reductions": list(one.reductions)} for one in self.searches],
            "counterexample": self.counterexample.as_json() if self.counterexample else None,
            "unsound": self.unsound.as_json() if self.unsound else None,
        }
