# SPDX-License-Identifier: Apache-2.0
"""What was reported about a run: counted exactly, and taken back where it turns out to be wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from busq.audit.spark.following.state import Found

__all__ = ["REPORTED_MAX", "Reports"]

REPORTED_MAX = 20  # of each kind and step
KEPT_MAX = 20_000  # of each run: what is known one by one; the rest is a number

_Key = tuple[str, int, str]


class Reports:
    """What was reported about a run; every method returns what to report now: a finding, and for how many it stands."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._kept: dict[_Key, tuple[Found, int]] = {}  # and how often

    def add(self, faults: Iterable[Found]) -> list[tuple[Found, int]]:
        """Count everything, and report the first of each kind."""
        return _first(self._count(one) for one in faults)

    def _count(self, one: Found) -> Found:
        key = _key(one)
        step = -1 if one.is_taken_back else 1
        self.counts[one.kind] = self.counts.get(one.kind, 0) + step
        _, times = self._kept.get(key, (one, 0))
        if times + step > 0 and (times or len(self._kept) < KEPT_MAX):
            self._kept[key] = (one, times + step)
        else:
            self._kept.pop(key, None)
        return one

    def amend(self, faults: Iterable[Found]) -> list[tuple[Found, int]]:
        """Replace everything by what a second look found; reports what is new, and takes back what is not there."""
        former, counted = self._kept, Counter(self.counts)
        left = Counter({key: times for key, (_, times) in former.items()})
        for key, times in left.items():
            counted[key[0]] -= times  # what remains was only counted: which it was is not known
        self.counts, self._kept = {}, {}
        fresh: list[Found] = []
        for one in map(self._count, faults):
            key = _key(one)
            if left[key] > 0:
                left[key] -= 1
            elif counted[one.kind] > 0:
                counted[one.kind] -= 1
            else:
                fresh.append(one)
        gone = [former[key][0]._replace(is_taken_back=True) for key, times in left.items() for _ in range(times)]
        reports = _first(gone) + _first(fresh)
        for kind, count in counted.items():
            if count > 0:
                reports.append((Found(kind, -1, (), f"{count:,} more, which were only counted", True), count))
        return reports

    def as_json(self) -> dict[str, Any]:
        """Return it for a file of the state."""
        return {"counts": self.counts, "kept": [[*one[:4], times] for one, times in self._kept.values()]}

    @staticmethod
    def of_json(facts: dict[str, Any]) -> Reports:
        """Return what was kept."""
        reports = Reports()
        reports.counts = facts["counts"]
        for kind, process, messages, text, times in facts["kept"]:
            one = Found(kind, process, tuple(messages), text)
            reports._kept[_key(one)] = (one, times)
        return reports


def _key(one: Found) -> _Key:
    """A fault is its kind, its process and its message; a finding about a log, its text."""
    return (one.kind, one.process, str(one.messages[0]) if one.messages else one.text)


def _first(faults: Iterable[Found]) -> list[tuple[Found, int]]:
    reports: list[tuple[Found, int]] = []
    counts: dict[tuple[str, bool], int] = {}
    for one in faults:
        which = one.kind, one.is_taken_back
        counts[which] = counts.get(which, 0) + 1
        if counts[which] <= REPORTED_MAX:
            reports.append((one, 1))
    for (kind, is_taken_back), count in counts.items():
        if count > REPORTED_MAX:
            more = Found(kind, -1, (), f"and {count - REPORTED_MAX:,} more like these", is_taken_back)
            reports.append((more, count - REPORTED_MAX))
    return reports
