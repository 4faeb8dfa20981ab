# SPDX-License-Identifier: Apache-2.0
"""Watching a trace grow: its files are judged as they come, with a state that does not grow with the trace.

The state of a run (`state`) is what its messages in flight need, a word or two for each pair of processes, a few
numbers for each file, and what was reported; `run` judges with it.  Where a file comes so late that it changes what
was judged before (`files`), the run is read again: what turns out to be wrong is taken back (`reports`).

Not given: causal order is judged by stamps alone (where they rise at every receiver, and every send is
above all that its sender saw, nothing was delivered before its cause), and only while there are stamps.  Views of
groups are not judged.  What is claimed and not watched is named (`unseen`).  A run whose messages are not named by
their sender and a number is not judged at all (`unjudged`).
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from busq._util.files import replacing
from busq.audit.order_claims import claims
from busq.audit.result import CHECKS
from busq.audit.spark.following.files import Files, Piece, Unreadable, read
from busq.audit.spark.following.reports import Reports
from busq.audit.spark.following.run import Run
from busq.audit.spark.following.state import ARRAYS, Found, Process, Receiver
from busq.trace.parquet_head import Head
from busq.trace.queue_readers import queues_of
from busq.trace.schema import Kind

__all__ = ["KINDS", "Violation", "Watch"]

KINDS = ("lost", "duplicated", "phantom", "fifo", "stamp")
_BY_STAMPS = frozenset({"causal", "consistent", "total"})
_FORMAT = 5  # of the state in a file
REST = 4  # a run is not read again before this many times as long has passed as it took


@dataclass(frozen=True)
class Violation:
    """Something that was found: `kind` is one of KINDS, or that of a finding about the log ("gap", "dropped", ...).

    `is_claimed`: the run's order, or the caller, claims that this does not happen; `is_taken_back`: it was reported
    before, and what came since shows that it is not so.

    >>> Violation("gap", "a", "3 events of ann are missing", "ann").as_json()["kind"]
    'gap'
    """

    kind: str
    run: str
    text: str
    process: str = ""
    messages: tuple[int, ...] = ()
    count: int = 1
    is_claimed: bool = True
    is_taken_back: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return it for --json."""
        return asdict(self) | {"messages": list(self.messages)}


class _Watched:
    """A run, its files, and what was reported about it."""

    def __init__(self, folder: str, files: Files | None = None, reports: Reports | None = None) -> None:
        self.files = files or Files(folder)
        self.reports = reports or Reports()
        self.run = self._new_run(os.path.basename(folder))
        self.not_before = 0.0  # of time.monotonic: when it may be read again
        self.unread = 0  # late files that could not be judged
        self.notes: list[Found] = []  # about files, and not about what is in them: they stay, whatever comes

    def _new_run(self, name: str) -> Run:
        return Run(name, self.files.was_sent)

    # -- files --

    def take(self, path: str, since: float, absent: str) -> Iterator[Found | Piece]:
        """Read a file; yields its pieces, to be counted, and what is wrong."""
        if absent:
            yield Found("gap", -1, (), absent)
        try:
            first, pieces = read(path)
        except Unreadable as error:
            yield self.note(Found(error.kind, -1, (), str(error)))
            return
        yield from pieces
        if self.run.reason:
            return
        if not self.files.place(path, since, [piece.span for piece in pieces]):
            self.unread += 1
            self.run.is_stale = True
            return
        yield from _fed(self.run, first, pieces, since)

    def note(self, fault: Found) -> Found:
        """Keep what is wrong with a file."""
        self.notes.append(fault)
        return fault

    def read_again(self, now: float, delay_s: float, stop: Callable[[], bool]) -> list[Found] | None:
        """Judge everything from the start; None, with all as it was, if that is stopped.  Errors: Unreadable."""
        again = self._new_run(self.run.name)
        again.population_min, again.names, again.resent = self.run.population, self.run.names, self.run.resent
        faults = self.notes + [Found("gap", -1, (), absent) for absent in self.files.absent()]
        for since, first, pieces in self.files.read_again():
            if stop():
                return None
            faults += _fed(again, first, pieces, since)
            faults += again.match(since, np.inf)
            again.forget()
        if len(again.resent) > len(self.run.resent):  # what stood in late files; now it is known from the start
            self.run.resent = again.resent
            return self.read_again(now, delay_s, stop)
        again.is_stale = False
        faults += again.match(now, delay_s)
        faults += again.overdue(now, delay_s, delay_s)
        self.run, self.unread = again, 0
        return faults


def _fed(run: Run, first: Head, pieces: Sequence[Piece], since: float) -> Iterator[Found]:
    run.name, run.order = first.run or run.name, first.order or run.order
    run.is_live |= first.is_live
    run.call(list(first.names))
    if queues_of(first.readers):
        run.reason = "several readers share a queue: which of them took a message, only the whole trace shows"
        return
    for piece in pieces:
        yield from run.read(piece.span.process, piece.rows, since)


class Watch:
    """Takes files of traces as they appear, in any order, and reports what is wrong.

    `order`, `allow` and `ask` settle what is claimed, as in an audit; `delay_s` is how long to wait for what may come
    yet: a message that was overtaken, a segment between others, the log of a sender.

    >>> watch = Watch(delay_s=5)
    >>> watch.take(["traces/run/ann-000000.parquet"], now=0.0)                                   # doctest: +SKIP
    []
    """

    def __init__(
        self,
        *,
        order: str | None = None,
        allow: Iterable[str] = (),
        ask: Iterable[str] = (),
        delay_s: float = 5.0,
    ) -> None:
        self._order, self._allow, self._ask = order, tuple(allow), tuple(ask)
        self.delay_s = delay_s
        self._runs: dict[str, _Watched] = {}
        self.files = self.events = self.messages = self.deliveries = 0
        claims(order or "", allow=self._allow, ask=self._ask)  # refuses what is unknown, before anything runs

    # -- what a user asks --

    @property
    def counts(self) -> dict[str, int]:
        """How often each kind was found, without what was taken back."""
        return self._sum(lambda kind, claimed: True)

    @property
    def claimed(self) -> dict[str, int]:
        """The same, of what is claimed not to happen."""
        return self._sum(_is_claimed)

    def _sum(self, is_meant: Callable[[str, frozenset[str]], bool]) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for one in self._runs.values():
            claimed = self._claims(one)
            counts.update({kind: n for kind, n in one.reports.counts.items() if n and is_meant(kind, claimed)})
        return dict(counts)

    def _claims(self, one: _Watched) -> frozenset[str]:
        order = one.run.order if self._order is None else self._order
        return claims(order, allow=self._allow, ask=self._ask, **_facts_of(one.run))

    @property
    def pending(self) -> int:
        """Messages on their way: sent to a process that has not delivered them yet."""
        return sum(one.run.in_flight for one in self._runs.values())

    @property
    def unproven(self) -> int:
        """Deliveries that no log shows the send of, and losses that a hole in a log may explain."""
        return sum(one.run.unproven for one in self._runs.values())

    @property
    def unwatched(self) -> int:
        """Messages on their way that were too many to remember."""
        return sum(one.run.unwatched for one in self._runs.values())

    @property
    def unread(self) -> int:
        """Files that came late, and are not judged yet."""
        return sum(max(one.unread, one.run.is_stale) for one in self._runs.values())

    @property
    def unjudged(self) -> int:
        """Runs that cannot be judged as they grow."""
        return sum(bool(one.run.reason) for one in self._runs.values())

    @property
    def unseen(self) -> tuple[str, ...]:
        """The properties that are claimed, and that nothing watches: without stamps, or at all."""
        unwatched: set[str] = set()
        for one in self._runs.values():
            claimed = self._claims(one)
            unwatched |= claimed - {*KINDS, *_BY_STAMPS} | (claimed & _BY_STAMPS if one.run.unstamped else set())
        return tuple(name for name in CHECKS if name in unwatched)

    @property
    def waiting(self) -> int:
        """Files that came before one that has to be read first."""
        return sum(one.files.waiting for one in self._runs.values())

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return len(self._runs)

    def take(self, paths: Sequence[str], now: float) -> list[Violation]:
        """Take new files; `now` is a time in seconds, that of one clock.  Costs about 1 us per event.

        A file that came too late costs that much for each event of its run so far.
        """
        violations: list[Violation] = []
        for path in sorted(paths):
            folder = os.path.dirname(path)
            one = self._runs.setdefault(folder, _Watched(folder))
            self.files += 1
            fault = one.files.arrive(path, now)
            if fault:
                violations += self._tell(one, one.reports.add([one.note(Found("unordered", -1, (), fault))]))
        for one in self._runs.values():
            violations += self._read_ready(one, now)
        return violations + self.tick(now)

    def tick(
        self,
        now: float,
        delay_s: float | None = None,
        *,
        stop: Callable[[], bool] = lambda: False,
        must_read: bool = False,
    ) -> list[Violation]:
        """Judge what became due by the passing of time; `stop` may return that there is no time to read a run again.

        `must_read`: runs that late files changed are read again now, however short ago that was done.
        """
        delay = self.delay_s if delay_s is None else delay_s
        violations: list[Violation] = []
        for one in self._runs.values():
            if now - one.files.oldest() >= delay:
                violations += self._read_ready(one, now, delay)
            if one.run.reason:
                violations += self._tell(
                    one, one.reports.amend([*one.notes, Found("unjudged", -1, (), _unjudged(one.run.reason))])
                )
                continue
            if one.run.is_stale and (must_read or time.monotonic() >= one.not_before):
                violations += self._read_again(one, now, delay, stop)
            violations += self._tell(one, one.reports.add(one.run.match(now, delay)))
            violations += self._tell(one, one.reports.add(one.run.overdue(now, delay, self.delay_s)))
            one.run.forget()
        return violations

    def finish(self, now: float, *, stop: Callable[[], bool] = lambda: False) -> list[Violation]:
        """Judge what is there as if nothing else would come."""
        return [violation for _ in range(3) for violation in self.tick(now, 0.0, stop=stop, must_read=True)]

    # -- files --

    def _read_ready(self, one: _Watched, now: float, delay_s: float | None = None) -> list[Violation]:
        """Read the files whose turn it is; with a delay, also those that waited for one that never came."""
        faults: list[Found] = []
        for path, since, absent in one.files.ready(now, delay_s):
            for thing in one.take(path, since, absent):
                if isinstance(thing, Piece):
                    self.events += thing.rows.num_rows
                    self.messages += thing.count(Kind.SEND)
                    self.deliveries += thing.count(Kind.DELIVER)
                else:
                    faults.append(thing)
        return self._tell(one, one.reports.add(faults))

    def _read_again(self, one: _Watched, now: float, delay_s: float, stop: Callable[[], bool]) -> list[Violation]:
        began = time.monotonic()
        try:
            faults = one.read_again(now, delay_s, stop)
        except Unreadable as error:
            # It can't be made exact any more; what was read later than it should have been stays unread.
            one.run.is_stale, one.unread = False, max(1, one.unread)
            return self._tell(one, one.reports.add([one.note(Found(error.kind, -1, (), str(error)))]))
        one.not_before = time.monotonic() + REST * (time.monotonic() - began)
        return [] if faults is None else self._tell(one, one.reports.amend(faults))

    # -- reporting --

    def _tell(self, one: _Watched, reports: Iterable[tuple[Found, int]]) -> list[Violation]:
        claimed = self._claims(one)
        return [
            Violation(
                fault.kind,
                one.run.name,
                fault.text,
                one.run.process_name(fault.process) if fault.process >= 0 else "",
                fault.messages,
                count,
                _is_claimed(fault.kind, claimed),
                fault.is_taken_back,
            )
            for fault, count in reports
        ]

    # -- remembering --

    def save(self, path: Path) -> None:
        """Write the state to a file, all of it or nothing.  Costs milliseconds per 100,000 messages in flight."""
        arrays: dict[str, Any] = {}
        runs = {folder: _facts(folder, one, arrays) for folder, one in self._runs.items()}
        facts = {"format": _FORMAT, "runs": runs} | {name: getattr(self, name) for name in _TOTALS}
        with replacing(path) as file:
            np.savez(file, facts=np.frombuffer(json.dumps(facts).encode(), np.uint8), **arrays)

    def load(self, path: Path) -> None:
        """Go on from a state that was saved.  Errors: ValueError for that of another version."""
        with np.load(path, allow_pickle=False) as stored:
            facts = json.loads(stored["facts"].tobytes())
            if facts.get("format") != _FORMAT:
                raise ValueError(f"{path} was written by another version of busq: follow with an empty --checkpoint")
            for name in _TOTALS:
                setattr(self, name, facts[name])
            self._runs = {folder: _watched_of(folder, one, stored) for folder, one in facts["runs"].items()}


_TOTALS = ("files", "events", "messages", "deliveries")
_OF_A_RUN = (
    "name",
    "order",
    "names",
    "is_stale",
    "reason",
    "unproven_losses",
    "unwatched",
    "unstamped",
    "has_views",
    "is_live",
)


def _facts(folder: str, one: _Watched, arrays: dict[str, Any]) -> dict[str, Any]:
    receivers = {}
    for process, where in one.run.receivers.items():
        for name in ARRAYS:
            arrays[f"{name}|{process}|{folder}"] = getattr(where, name)
        others = {key: value for key, value in vars(where).items() if key not in ARRAYS}
        receivers[process] = others | {"passed": sorted(where.passed)}
    return {
        "run": {name: getattr(one.run, name) for name in _OF_A_RUN} | {"resent": one.run.resent.tolist()},
        "unread": one.unread,
        "notes": [list(note) for note in one.notes],
        "files": one.files.as_json(),
        "told": one.reports.as_json(),
        "processes": {process: asdict(who) for process, who in one.run.processes.items()},
        "receivers": receivers,
    }


def _watched_of(folder: str, facts: dict[str, Any], stored: Any) -> _Watched:
    one = _Watched(folder, Files.of_json(folder, facts["files"]), Reports.of_json(facts["told"]))
    one.unread = facts["unread"]
    one.notes = [Found(kind, process, (), text) for kind, process, _, text, _ in facts["notes"]]
    for name, value in facts["run"].items():
        setattr(one.run, name, value)
    one.run.resent = np.array(one.run.resent, np.int64)
    for process, who in facts["processes"].items():
        one.run.processes[int(process)] = Process(**who | {"holes": [tuple(hole) for hole in who["holes"]]})
    for process, where in facts["receivers"].items():
        by_sender: dict[str, Any] = {
            name: {int(k): v for k, v in where[name].items()} for name in ("last", "forgotten")
        }
        arrays = {name: stored[f"{name}|{process}|{folder}"] for name in ARRAYS}
        passed = {"passed": set(where["passed"])}
        one.run.receivers[int(process)] = Receiver(**where | by_sender | arrays | passed)
    return one


def _facts_of(run: Run) -> dict[str, bool]:
    has_deaths = any(who.has_died for who in run.processes.values())
    return {"has_views": run.has_views, "has_deaths": has_deaths, "is_live": run.is_live}


def _unjudged(reason: str) -> str:
    return f"not judged: {reason}; an audit without --follow may"


def _is_claimed(kind: str, claimed: frozenset[str]) -> bool:
    """Stamps that do not rise break what orders causes, or everything."""
    return bool(claimed & {"causal", "total"}) if kind == "stamp" else kind in claimed
