# SPDX-License-Identifier: Apache-2.0
"""Logs that others write, judged again and again as they grow: each look reads all that is there, in C.

A look comes when a file has changed, and no sooner after the last one than that took, so that half of the time goes
into looking at most.  What is broken is reported at once, and again where there is more of it; what a later look finds
in order is taken back.  The logs may have yet to show a delivery, or a send, that lacks: a message counts as lost, or
as one that was never sent, once it has done so for a while.  Where a file has gone, or is shorter than it was, any
message may have stood there: from then on neither is reported, and nothing is taken back.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from busq.audit.result import INVALID, Audit
from busq.errors import BusqError

__all__ = ["Followed", "Report", "follow"]

TICK_S = 0.25
_ABSENT = frozenset({"lost", "phantom"})


@dataclass(frozen=True)
class Report:
    """What was found: `kind` is a check, or "gone" for what is no longer there; `is_taken_back`: it is not so."""

    kind: str
    run: str
    text: str
    count: int = 1
    is_claimed: bool = True
    is_taken_back: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return it for --json."""
        return asdict(self)


@dataclass
class Followed:
    """How it ended: the last look, None where none could be made, with the reason; what was reported, by kind."""

    last: Audit | None = None
    reason: str = ""
    looks: int = 0
    seconds: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    is_struck: bool = False  # Ctrl-C ended it, perhaps in a look

    @property
    def is_wrong(self) -> bool:
        """Something that is expected does not hold."""
        return any(self.counts.values())

    @property
    def ok(self) -> bool:
        """All was judged, and nothing is wrong."""
        return self.last is not None and self.last.could_judge and not self.gone and not self.is_wrong

    def as_json(self) -> dict[str, Any]:
        """Return it for --json: the last look as any audit, but with what was reported as its verdicts."""
        nothing: dict[str, Any] = {"messages": 0, "deliveries": 0, "verdicts": {}, "runs": []}
        last = self.last.as_json() if self.last else nothing
        for name, verdict in last["verdicts"].items():
            if verdict["claimed"]:
                verdict |= {"count": self.counts.get(name, 0), "ok": not self.counts.get(name)}
        own = {"ok": self.ok, "looks": self.looks, "seconds": round(self.seconds, 3), "counts": self.counts}
        return last | own | {"gone": self.gone, "reason": self.reason}


def follow(
    path: str,
    judge: Callable[[], Audit],
    report: Callable[[Report], None],
    *,
    delay_s: float = 5.0,
    seconds: float | None = None,
    once: bool = False,
    stop: Callable[[], bool] | None = None,
) -> Followed:
    """Judge the logs at a path, a file or a folder, until Ctrl-C, for so long, or once.

    Parameters: `judge` takes a look; `report` is called for what is found; `delay_s`, for how long something has to be
    missing before it is reported.
    Errors: those of `judge`, but for BusqError and OSError, after which the next look may do.
    Cost: each look that of an audit.
    """
    found, looks, begin = Followed(), _Looks(delay_s), time.monotonic()
    try:
        while True:
            looks.look(path, judge, found, forced=once)
            for each in looks.reports(time.monotonic(), at_once=once):
                report(each)
            found.counts = looks.counts()
            is_over = seconds is not None and time.monotonic() - begin >= seconds
            if once or is_over or (stop is not None and stop()):
                break
            time.sleep(TICK_S)
    except KeyboardInterrupt:
        found.is_struck = True
    found.seconds = time.monotonic() - begin
    return found


@dataclass
class _Seen:
    """How much of a kind was broken at some time, with the text of one run."""

    at: float
    count: int = 0
    run: str = ""
    text: str = ""


class _Looks:
    """What looks have shown, and what was reported of it."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._files: dict[str, tuple[int, int, int]] = {}  # size, time, number on the disk
        self._next_s = 0.0
        self._seen: dict[str, list[_Seen]] = {}  # by kind
        self._per_run: dict[tuple[str, str], int] = {}
        self._told: dict[str, int] = {}
        self._gone: list[str] = []

    def look(self, path: str, judge: Callable[[], Audit], found: Followed, *, forced: bool) -> None:
        """Judge what is there, if it has changed."""
        files, begin = _files(path), time.monotonic()
        if not forced and (files == self._files or begin < self._next_s):
            return
        gone = _gone(self._files, files)
        self._gone += gone
        found.gone += gone
        self._files = files
        try:
            found.last, found.reason = judge(), ""
        except (BusqError, OSError) as error:
            found.reason = str(error)
        else:
            self._take(found.last, time.monotonic())
        found.looks += 1
        self._next_s = 2 * time.monotonic() - begin

    def _take(self, audit: Audit, now: float) -> None:
        """Note the sums of all runs, as files that come change what makes one; of each kind, a run that has more."""
        counts = {name: _Seen(now) for name in self._seen}
        per_run = {}
        for run in audit.runs:
            for name, check in run.checks.items():
                if not check.claimed or check.verdict != INVALID:
                    continue
                per_run[run.run, name] = check.count
                seen = counts.setdefault(name, _Seen(now))
                if not seen.text or check.count > self._per_run.get((run.run, name), 0):
                    seen.run, seen.text = run.run, check.text
                seen.count += check.count
        self._per_run = per_run
        for name, seen in counts.items():
            self._seen.setdefault(name, []).append(seen)

    def reports(self, now: float, *, at_once: bool) -> Iterator[Report]:
        """Give what is new."""
        while self._gone:
            text = f"{self._gone.pop()} has gone, or is shorter than it was: what stood there is missing from now on"
            self._delay_s = math.inf
            yield Report("gone", "", text, is_claimed=False)
        for name, looks in self._seen.items():
            until = now - (self._delay_s if name in _ABSENT and not at_once else 0.0)
            while len(looks) > 1 and (looks[1].at <= until or self._delay_s == math.inf):  # or of no use any more
                del looks[0]
            last, told = looks[-1], self._told.get(name, 0)
            count = min(look.count for look in looks) if looks[0].at <= until else 0
            if count > told:
                yield Report(name, last.run, last.text, count - told)
            elif last.count < told and self._delay_s < math.inf:
                count = last.count
                text = f"{name}: {told - count} of {told} found in order by now"
                yield Report(name, last.run, text, told - count, is_taken_back=True)
            else:
                continue
            self._told[name] = count

    def counts(self) -> dict[str, int]:
        """Return how many faults of each kind stand."""
        return {name: count for name, count in self._told.items() if count}


def _files(path: str) -> dict[str, tuple[int, int, int]]:
    """Return all files at a path, as they are now."""
    names = [path] if os.path.isfile(path) else [os.path.join(at, name) for at, _, its in os.walk(path) for name in its]
    found = {}
    for name in names:
        try:
            facts = os.stat(name)
        except OSError:
            continue
        found[name] = facts.st_size, facts.st_mtime_ns, facts.st_ino
    return found


def _gone(before: Mapping[str, tuple[int, int, int]], now: Mapping[str, tuple[int, int, int]]) -> list[str]:
    """Return the files whose content is no longer there, under any name."""
    sizes = {number: size for size, _, number in now.values()}
    return [
        name
        for name, (size, _, number) in before.items()
        if max(sizes.get(number, -1), now[name][0] if name in now else -1) < size
    ]
