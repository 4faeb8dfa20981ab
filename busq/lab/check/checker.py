# SPDX-License-Identifier: Apache-2.0
"""A whole check: one search or several, and what they come to together."""

from __future__ import annotations

import contextlib
import functools
import operator
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from busq._util import arguments
from busq.errors import NoSpace
from busq.lab.check.plan import ALL, BITS, Destinations, Plan, plan
from busq.lab.check.result import Finding, Progress, Result, Search, Transition
from busq.lab.check.search import CoreSearch
from busq.lab.check.vacuous import Sends, vacuous
from busq.lab.check.witness import Counterexample, Step
from busq.lab.nodes import BY_NODES

__all__ = ["Interrupted", "run"]

_UNSOUND = ("invariant",)
_SMALL_SECONDS = 5.0  # the time of the search for the transitions that there are


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while a check ran; `result` is what was seen until then."""

    def __init__(self, result: Result) -> None:
        super().__init__("interrupted")
        self.result = result


def run(
    protocol: str,
    processes: int = 3,
    messages: int | Sequence[int] = 3,
    *,
    fan_out: int | None = None,
    application: str = "free",
    network: str | None = None,
    doubled: int = 0,
    lost: int = 0,
    crashes: int = 0,
    to_self: bool = False,
    destinations: Destinations | None = None,
    broadcast: bool = False,
    properties: Iterable[str] | None = None,
    reductions: Iterable[str] = ALL,
    search: str = "auto",
    walks: int | None = None,
    seed: int = 1,
    depth: int | None = None,
    threads: int | None = None,
    memory: int | None = None,
    disk: str | os.PathLike[str] | None = None,
    disk_space: int | None = None,
    seconds: float | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Search every execution of an order within a bound, or, with `walks`, so many random ones.

    `protocol` with its options ("lamport:ack=all"); `processes`, `messages` of each, or a list with the number of each,
    and `fan_out`, the most destinations of a message (by default 1 where the order is point to point, else all
    others).  Every choice of destinations is tried, with `to_self` the sender itself too; or `destinations[p][k]` gives
    those of message k of process p.  `broadcast`: every message goes to all that it may go to.

    `application`: "free", every process sends whenever it likes; "reply", it sends one message, and then answers;
    "job", free, but the first delivery at process 0 begins a job during which it neither sends nor receives; "side",
    free, but all learn by side channels of every delivery anywhere, and `side` is judged, promised or not: no process
    delivers a message after one whose sender knew of it.
    `network`: "unordered"; "fifo", where channels keep the order; by default what the order needs, and an order that
    needs "fifo" promises nothing without.  It may double and lose so many packets (lose: only where the order bears it;
    double: all but fifo promise nothing then).

    `crashes`: so many processes die, at any moment, in the middle of a step too (how: csrc/check/crashes.h); then what
    the order keeps is judged (`busq.orders.Order.under_crashes`) of "lost" and "stuck", which only the living have,
    "agreement" and "uniform", and what it claims about order.  At most 4 processes.

    `properties` that are judged, that is, whose violation ends the search: by default (None) what the order claims
    (with the network that it needs), what every order must keep (lost, duplicated, phantom), stuck, refused, buffers,
    endless, kept, invariant, genuine where no third process takes part in a message, and, with bus1:nodes=one, node and
    handle.  (): all is searched, whatever
    breaks; so it is by default where packets are doubled and the order does not promise to bear that.

    `reductions`: names from ALL, or none; where processes die, those that bear it.  `search`: "depth" or "breadth"
    first; "auto" is depth first, and after a violation breadth first for the shortest one.  `walks` random executions,
    the first drawn from `seed`, the next from `seed` + 1, and so on.  `depth` bounds the steps of an execution (2048 at
    most), `threads` are by default as many as there are cores, `memory` is in bytes (by default half of what is free,
    at most 16 GiB), `seconds` bounds the time.  `progress` is called ten times a second at most.

    `disk` is a directory for what memory has no room for, `disk_space` bytes of it at most (by default nine tenths of
    what is free there): then the search goes breadth first, with the same states and the same verdicts as in memory.
    It takes 16 bytes of disk for each state, and some 100 to 200 more for those of the two largest levels, in files
    that have no name, so that nothing is left, whatever ends the process.

    Where memory, time, depth or the room for packets is not enough, the result has that, and what was seen until then.
    Ctrl-C, in the main thread, raises Interrupted within some tenths of a second.  Errors: ValueError for what cannot
    be, NoSpace, and what `progress` raises.  Costs about 0.3 to 3 us of processor time and 8 to 16 bytes per state, and
    for the way that a depth-first search is on some KiB per step, which decides in large groups.

    >>> result = run("cykas", processes=3, messages=1)
    >>> result.holds, result.complete, result.verdicts["causal"].claimed
    (True, True, True)
    >>> run("fifo", messages=2, properties=["causal"]).counterexample.faults
    ('causal',)
    """
    asked = dict(locals()) | {"to_self": bool(to_self)}
    del asked["progress"]
    return _Check(plan(**asked), arguments.callback("progress", progress)).result()


class _Check:
    """One search or several, and what they come to together."""

    def __init__(self, plan: Plan, progress: Callable[[Progress], None] | None) -> None:
        self._plan = plan
        self._progress = progress
        self._began_s = time.monotonic()
        self._end_s = self._began_s + plan.seconds
        self._searches: list[Search] = []
        self._facts: list[Any] = []
        self._judged = plan.judged
        self._example: Counterexample | None = None
        self._unsound: Counterexample | None = None  # a broken invariant, past which it goes on
        self._missing = ""  # why a further search could not be made that was needed
        self._transitions: tuple[Transition, ...] = ()
        self._small: tuple[Transition, ...] = ()

    def result(self) -> Result:
        plan = self._plan
        try:
            self._search()
            if self._example and self._example.faults == _UNSOUND != plan.judged and not self._is_late():
                self._search_past_it()
            if plan.search == "walk" and self._example is None:
                with contextlib.suppress(NoSpace):
                    self._search_small()
        except KeyboardInterrupt:
            if not self._facts:
                raise
            raise Interrupted(self._conclude()) from None
        return self._conclude()

    def _search(self) -> None:
        """All searches that what is judged takes."""
        plan = self._plan
        first = plan.search if plan.search != "auto" else "breadth" if plan.disk else "depth"
        reductions = _bearable(plan.reductions) if plan.search == "breadth" else plan.reductions
        is_contradicted = self._run(first, () if first == "walk" else reductions)
        if is_contradicted:
            reductions = ()
            if self._example is None:
                self._run_unreduced(first)
        if "endless" in plan.known and self._facts[0].may_go_in_circles and self._searches[0].complete:
            self._run_further(first, reductions, counts_moves=True)
        if self._may_be_shorter():
            self._run_further("breadth", _bearable(reductions))

    def _search_past_it(self) -> None:
        """An invariant is broken: search on for the property that breaks, which the figures are then of."""
        before = self._searches, self._facts
        self._unsound, self._example = self._example, None
        self._judged = tuple(name for name in self._plan.judged if name not in _UNSOUND)
        self._searches, self._facts = [], []
        try:
            self._search()
        except NoSpace:
            pass  # it stays at what was found
        finally:
            self._searches += before[0]
            self._facts += before[1]

    def _run_unreduced(self, kind: str) -> None:
        """Something that the reductions take for granted was found wrong: they have shown nothing.

        Without memory for another search, it stays at that.
        """
        try:
            self._run(kind, ())
        except NoSpace:
            return
        self._searches.insert(0, self._searches.pop())
        self._facts.insert(0, self._facts.pop())

    def _run_further(self, kind: str, reductions: Sequence[str], *, counts_moves: bool = False) -> None:
        """The result of the first search stays where there is no memory for this one."""
        try:
            self._run(kind, reductions, counts_moves=counts_moves)
        except NoSpace:
            if counts_moves:
                self._missing = "whether every execution ends was not seen: there was no memory for another search"

    def _may_be_shorter(self) -> bool:
        """Whether to look for a shorter counterexample; of what has no end, a search breadth first finds none."""
        if self._example is None or self._plan.search != "auto" or self._is_late() or self._example.is_shortest:
            return False
        return self._example.faults != ("endless",)

    def _is_late(self) -> bool:
        return time.monotonic() >= self._end_s

    def _run(self, kind: str, reductions: Sequence[str], *, counts_moves: bool = False) -> bool:
        """Whether it has shown nothing, because its reductions do not fit the order."""
        plan = self._plan
        search = CoreSearch(plan, kind, reductions, self._end_s, self._judged, counts_moves=counts_moves)
        is_interrupted = True
        try:
            search.run(self._progress)
            is_interrupted = False
        finally:
            witness = None if is_interrupted else search.witness()
            self._facts.append(search.facts)
            self._searches.append(search.as_search(witness is not None, is_interrupted))
            if kind != "breadth" or not self._transitions:
                self._transitions = tuple(search.transitions())
            if witness is not None:
                self._take(search, *witness)
            search.close()
        return search.is_contradicted

    def _take(self, search: CoreSearch, faults: tuple[str, ...], steps: tuple[Step, ...]) -> None:
        is_shortest = search.search == "breadth" and search.reductions == _bearable(search.reductions)
        if self._example is not None and len(self._example.steps) <= len(steps) and not is_shortest:
            return
        plan = self._plan
        judged = tuple(name for name in faults if name in self._judged)
        self._example = Counterexample(
            order=plan.protocol,
            faults=judged or faults,
            steps=steps,
            is_shortest=is_shortest,
            seed=search.seed,
            **_facts(plan, "processes", "messages", "application", "network", "doubled"),
        )

    def _search_small(self) -> None:
        """Which kinds of transitions there are: those of every execution within a small bound."""
        plan = self._plan
        small = replace(
            plan,
            search="depth",
            processes=min(plan.processes, 3),
            messages=min(plan.messages, 2 if plan.order.point_to_point else 1),
            crashes=min(plan.crashes, min(plan.processes, 3) - 1),
            fan_out=min(plan.fan_out, min(plan.processes, 3) - 1),
            destinations=(),
            messages_each=(),
            memory=min(plan.memory, 1 << 28),
            disk="",
        )
        search = CoreSearch(small, "depth", (), min(self._end_s, time.monotonic() + _SMALL_SECONDS), ())
        try:
            search.run(None)
            self._small = tuple(search.transitions())
        finally:
            search.close()

    def _vacuous(self) -> tuple[str, ...]:
        """The properties known to be unbreakable; where packets are doubled, none is known."""
        plan = self._plan
        if plan.doubled:
            return ()
        sends = Sends(plan.processes, plan.messages, plan.fan_out, plan.to_self, plan.destinations, plan.messages_each)
        without_end = () if sends.may_end_a_node() else BY_NODES
        return tuple(name for name in (*vacuous(sends), *without_end) if name in plan.known)

    def _conclude(self) -> Result:
        plan, first = self._plan, self._searches[0]
        # A search that only shortens a counterexample proves nothing about what was seen.
        whole = [one for one in self._searches if one is first or one.counts_moves]
        faults = functools.reduce(operator.or_, (facts.faults for facts in self._facts))
        verdicts = {
            name: Finding(not faults & BITS[name], name in plan.claimed, name in plan.judged) for name in plan.known
        }
        is_walk = plan.search == "walk"
        met = {one.text for one in self._transitions}
        example = self._example or self._unsound
        return Result(
            order=plan.protocol,
            **_facts(plan, *_OF_PLAN),
            **_facts(first, *_OF_FIRST),
            destinations="given" if plan.destinations else "every choice",
            holds=all(one.ok for one in verdicts.values() if one.judged),
            complete=all(one.complete for one in whole) and not self._missing,
            unexplored=next((_why(one) for one in whole if one.unexplored), self._missing),
            seconds=time.monotonic() - self._began_s,
            memory_bytes=max(one.memory_bytes for one in self._searches),
            disk_bytes=max(one.disk_bytes for one in self._searches),
            waiting_max=max(facts.waiting_max for facts in self._facts),
            held_max=max(facts.held_max for facts in self._facts),
            packets_max=max(facts.packets_max for facts in self._facts),
            seed=plan.seed if is_walk else None,
            walks=plan.walks if is_walk else None,
            verdicts=verdicts,
            transitions=self._transitions,
            unseen=tuple(one for one in self._small if one.text not in met),
            covered=sum(one.text in met for one in self._small),
            searches=tuple(self._searches),
            counterexample=example,
            unsound=self._unsound if self._example else None,
            doubts=tuple(doubt for one in (self._unsound, self._example) if one for doubt in one.doubts()),
            vacuous=self._vacuous(),
        )


_OF_PLAN = (
    "processes",
    "messages",
    "messages_each",
    "fan_out",
    "application",
    "network",
    "doubled",
    "lost",
    "crashes",
    "to_self",
    "search",
    "threads",
)
_OF_FIRST = ("unique_states", "total_states", "ends", "max_depth", "rate", "missed_expected", "reductions")


def _facts(holder: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(holder, name) for name in names}


def _why(search: Search) -> str:
    if search.counts_moves:
        return f"whether every execution ends was not seen: {search.unexplored}"
    return search.unexplored


def _bearable(reductions: Sequence[str]) -> tuple[str, ...]:
    """Those under which the shortest violation is still among the executions."""
    return tuple(name for name in reductions if name not in ("quiet-packets", "silent-packets"))
