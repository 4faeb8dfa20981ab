# SPDX-License-Identifier: Apache-2.0
"""Watching a trace grow: what its files say is judged as they come, with a state that does not grow with the trace.

The state of a run (`watch_state`) is what its messages in flight need, and a word or two for each pair of processes;
`watch_run` judges with it.

Not given: causal order is judged by stamps alone (where they rise at every receiver, and every send is
above all that its sender saw, nothing was delivered before its cause), and only while there are stamps.  What is
claimed and not watched is named (`unseen`).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from busq._files import replacing
from busq.audit.promises import claims
from busq.audit.result import CHECKS
from busq.audit.spark.watch_run import Run, numbers_of
from busq.audit.spark.watch_state import ARRAYS, Log, Process, Receiver
from busq.trace import TraceError
from busq.trace.finding import Finding
from busq.trace.parquet import head
from busq.trace.schema import Kind

__all__ = ["KINDS", "Violation", "Watch"]

KINDS = ("lost", "duplicated", "phantom", "fifo", "stamp")
_BY_STAMPS = frozenset({"causal", "consistent", "total"})

TOLD_MAX = 20  # of each kind and step

_SEGMENT = re.compile(r"(.+)-(\d{6,})\.parquet")
_COLUMNS = ("process", "position", "kind", "message", "destinations", "stamp")


@dataclass(frozen=True)
class Violation:
    """Something that was found: `kind` is one of KINDS, or that of a finding about the log ("gap", "dropped", ...).

    `is_claimed`: the run's order, or whoever asked, says that this does not happen.

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

    def as_json(self) -> dict[str, Any]:
        """Return it for --json."""
        return asdict(self) | {"messages": list(self.messages)}


class Watch:
    """Takes files of traces as they appear, in any order, and tells what is wrong.

    `order`, `allow` and `ask` say what is claimed, as in an audit; `delay_s` is how long to wait for what may come yet:
    a message that was overtaken, a segment between others, the log of a sender.

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
        self._runs: dict[str, Run] = {}
        self.counts: dict[str, int] = {}
        self.claimed: dict[str, int] = {}
        self.files = self.events = self.messages = self.deliveries = 0
        claims(order or "", allow=self._allow, ask=self._ask)  # refuses what is unknown, before anything runs

    # -- what a user asks --

    @property
    def pending(self) -> int:
        """Messages on their way: sent to somebody who has not delivered them yet."""
        return sum(run.in_flight for run in self._runs.values())

    @property
    def unproven(self) -> int:
        """Deliveries that no log shows the send of, and losses that a hole in a log may explain."""
        return sum(run.unproven for run in self._runs.values())

    @property
    def unwatched(self) -> int:
        """Messages on their way that were too many to remember."""
        return sum(run.unwatched for run in self._runs.values())

    @property
    def unseen(self) -> tuple[str, ...]:
        """The properties that are claimed, and that nothing watches: without stamps, or at all."""
        found: set[str] = set()
        for run in self._runs.values():
            claimed = claims(run.order if self._order is None else self._order, allow=self._allow, ask=self._ask)
            found |= claimed - {*KINDS, *_BY_STAMPS} | (claimed & _BY_STAMPS if run.unstamped else set())
        return tuple(name for name in CHECKS if name in found)

    @property
    def waiting(self) -> int:
        """Files that came before one that has to be read first."""
        return sum(len(log.waiting) for run in self._runs.values() for log in run.logs.values())

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return len(self._runs)

    def take(self, paths: Sequence[str], now: float) -> list[Violation]:
        """Take new files; `now` is a time in seconds, that of one clock.  Costs about 1 us per event."""
        found: list[Violation] = []
        for path in sorted(paths):
            found += self._arrive(path, now)
        for run in self._runs.values():
            found += self._read_ready(run, now, forced=False)
        return found + self.tick(now)

    def tick(self, now: float, delay_s: float | None = None) -> list[Violation]:
        """Judge what became due by the passing of time."""
        delay = self.delay_s if delay_s is None else delay_s
        found: list[Violation] = []
        for run in self._runs.values():
            late = any(now - since >= delay for log in run.logs.values() for _, since in log.waiting.values())
            if late:
                found += self._read_ready(run, now, forced=True, delay_s=delay)
            found += self._tell(run, run.match(now, delay))
            found += self._tell(run, run.overdue(now, delay))
            run.forget()
        return found

    def finish(self, now: float) -> list[Violation]:
        """Judge what is there as if nothing else would come."""
        return self.tick(now, 0.0) + self.tick(now, 0.0)

    # -- files --

    def _arrive(self, path: str, now: float) -> list[Violation]:
        folder, name = os.path.split(path)
        run = self._runs.setdefault(folder, Run(os.path.basename(folder)))
        self.files += 1
        named = _SEGMENT.fullmatch(name)
        if named is None:
            return self._read(run, path, now)
        log, segment = run.logs.setdefault(named[1], Log()), int(named[2])
        if segment < log.next_segment:
            return self._tell(
                run, [("unordered", -1, (), f"{path} comes after segment {log.next_segment - 1}: ignored")]
            )
        log.waiting[segment] = (path, now)
        return []

    def _read_ready(self, run: Run, now: float, *, forced: bool, delay_s: float = 0.0) -> list[Violation]:
        """Read the files whose turn it is; forced, also those that waited for one that never came."""
        found: list[Violation] = []
        for stem, log in sorted(run.logs.items()):
            while log.waiting:
                segment = min(log.waiting)
                if segment > log.next_segment:
                    if not forced or now - log.waiting[segment][1] < delay_s:
                        break
                    which = _between(log.next_segment, segment - 1)
                    absent = f"{which} of {stem} did not come"
                    found += self._tell(run, [("gap", -1, (), absent)])
                path, _ = log.waiting.pop(segment)
                log.next_segment = segment + 1
                found += self._read(run, path, now)
        return found

    def _read(self, run: Run, path: str, now: float) -> list[Violation]:
        try:
            first = head(path)
            if isinstance(first, Finding):
                return self._tell(run, [(first.kind, -1, (), first.text)])
            run.name, run.order = first.run or run.name, first.order or run.order
            if len(first.names) > len(run.names):
                run.names = list(first.names)
            table = pq.read_table(path, columns=[c for c in _COLUMNS if c in first.columns], partitioning=None)
        except (TraceError, OSError, pa.ArrowException) as error:
            return self._tell(run, [("unreadable", -1, (), f"{path}: {(str(error).splitlines() or ['?'])[0]}")])
        table = table.combine_chunks()
        self.events += table.num_rows
        process = numbers_of(table, "process")
        found: list[Violation] = []
        for one in np.unique(process).tolist():
            mine = table if process[0] == process[-1] == one and np.all(process == one) else None
            rows = mine if mine is not None else table.filter(pa.array(process == one))
            kind = numbers_of(rows, "kind")
            self.messages += int(np.sum(kind == Kind.SEND))
            self.deliveries += int(np.sum(kind == Kind.DELIVER))
            found += self._tell(run, run.read(one, rows, now))
        return found

    # -- telling --

    def _tell(self, run: Run, found: Iterable[tuple[str, int, tuple[int, ...], str]]) -> list[Violation]:
        """Count everything, and tell the first of each kind."""
        claimed = claims(run.order if self._order is None else self._order, allow=self._allow, ask=self._ask)
        told: list[Violation] = []
        counts: dict[str, int] = {}
        for kind, process, messages, text in found:
            counts[kind] = counts.get(kind, 0) + 1
            if counts[kind] <= TOLD_MAX:
                name = run.process_name(process) if process >= 0 else ""
                told.append(Violation(kind, run.name, text, name, messages, 1, _is_claimed(kind, claimed)))
        for kind, count in counts.items():
            self.counts[kind] = self.counts.get(kind, 0) + count
            if _is_claimed(kind, claimed):
                self.claimed[kind] = self.claimed.get(kind, 0) + count
            if count > TOLD_MAX:
                text = f"and {count - TOLD_MAX:,} more like these"
                told.append(Violation(kind, run.name, text, "", (), count - TOLD_MAX, _is_claimed(kind, claimed)))
        return told

    # -- remembering --

    def save(self, path: Path) -> None:
        """Write the state to a file, all of it or nothing.  Costs milliseconds per 100,000 messages in flight."""
        arrays: dict[str, Any] = {}
        runs = {folder: self._facts(folder, run, arrays) for folder, run in self._runs.items()}
        facts = {"runs": runs} | {name: getattr(self, name) for name in _TOTALS}
        with replacing(path) as file:
            np.savez(file, facts=np.frombuffer(json.dumps(facts).encode(), np.uint8), **arrays)

    def _facts(self, folder: str, run: Run, arrays: dict[str, Any]) -> dict[str, Any]:
        receivers = {}
        for process, where in run.receivers.items():
            for name in ARRAYS:
                arrays[f"{name}|{process}|{folder}"] = getattr(where, name)
            receivers[process] = {k: v for k, v in vars(where).items() if k not in ARRAYS}
        return {
            "name": run.name,
            "order": run.order,
            "names": run.names,
            "unproven": run.unproven,
            "unwatched": run.unwatched,
            "unstamped": run.unstamped,
            "logs": {stem: asdict(log) for stem, log in run.logs.items()},
            "processes": {process: asdict(who) for process, who in run.processes.items()},
            "receivers": receivers,
        }

    def load(self, path: Path) -> None:
        """Go on from a state that was saved."""
        with np.load(path, allow_pickle=False) as stored:
            facts = json.loads(stored["facts"].tobytes())
            for name in _TOTALS:
                setattr(self, name, facts[name])
            self._runs = {folder: _run_of(folder, run, stored) for folder, run in facts["runs"].items()}


_TOTALS = ("counts", "claimed", "files", "events", "messages", "deliveries")


def _run_of(folder: str, facts: dict[str, Any], stored: Any) -> Run:
    run = Run(facts["name"])
    run.order, run.names = facts["order"], facts["names"]
    run.unproven, run.unwatched, run.unstamped = facts["unproven"], facts["unwatched"], facts.get("unstamped", 0)
    for stem, log in facts["logs"].items():
        waiting = {int(segment): (path, since) for segment, (path, since) in log["waiting"].items()}
        run.logs[stem] = Log(log["next_segment"], waiting)
    for process, who in facts["processes"].items():
        run.processes[int(process)] = Process(**who | {"holes": [tuple(hole) for hole in who["holes"]]})
    for process, where in facts["receivers"].items():
        by_sender = {name: {int(k): v for k, v in where[name].items()} for name in ("last", "forgotten")}
        arrays = {name: stored[f"{name}|{process}|{folder}"] for name in ARRAYS}
        run.receivers[int(process)] = Receiver(**where | by_sender | arrays)
    return run


def _between(first: int, last: int) -> str:
    return f"segment {first}" if first == last else f"segments {first} to {last}"


def _is_claimed(kind: str, claimed: frozenset[str]) -> bool:
    """Stamps that do not rise break what orders causes, or everything."""
    return bool(claimed & {"causal", "total"}) if kind == "stamp" else kind in claimed
