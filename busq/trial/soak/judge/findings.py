# SPDX-License-Identifier: Apache-2.0
"""The findings of a soak: verdicts, counts, and how long things took."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from busq.lab.observers import Verdict

__all__ = ["BLOCKED_NS_MAX", "COUNTED", "HOLDS", "Findings", "Idle", "Waits", "upper_ns"]

BLOCKED_NS_MAX = 1_000_000_000

# By what the workers do: the counts that are shown, and what people call them.
COUNTED = {
    "messages": {
        "messages": "messages sent",
        "replies": "of these requests, and replied to",
        "deliveries": "deliveries",
        "redelivered": "of these again, after a death",
        "refused": "sends that raised: full, or a receiver was dead",
        "completed": "sends interrupted by a kill: finished by others",
        "undone": "sends interrupted by a kill: undone",
        "lives": "lives",
        "resumes": "of these resumed a predecessor",
        "dropped_with_receiver": "copies dropped with a killed plain receiver",
        "taken_at_kill": "copies taken and not recorded when killed",
    },
    "members": {
        "messages": "messages sent",
        "to_groups": "of these to a group",
        "to_nodes": "of these to a node",
        "missed": "of these too late for the node",
        "carried": "handles that they brought",
        "deliveries": "deliveries of messages and events",
        "redelivered": "of these again, after a death",
        "refused": "sends that raised: full, or a receiver was dead",
        "completed": "sends interrupted by a kill: finished by others",
        "undone": "sends interrupted by a kill: undone",
        "lives": "lives",
        "views": "views",
        "died": "of these after a death",
        "notices": "notices that a watched peer has gone",
        "made": "nodes made",
        "ended": "nodes whose end was noticed",
        "freed": "notices to an owner that its node has no holder",
        "replicas": "replicas that joined",
        "applied": "steps that replicas compared",
        "holdings": "times that the lock was held",
    },
}

# What holds where there is no fault.
_BLOCKED = f"nobody waited longer than {BLOCKED_NS_MAX / 1e9:g} s"
HOLDS = {
    "messages": {
        "lost": "everything sent arrived, but for what a mode gives up with a killed receiver",
        "duplicated": "nothing came twice, but for what had not been acknowledged, and that was marked",
        "phantom": "everything delivered had been sent to its receiver",
        "torn": "every interrupted multicast reached all its receivers or none",
        "redelivery": "what came again came in order, and only that was marked",
        "blocked": f"{_BLOCKED} for what was there",
    },
    "members": {
        "views": "all that saw a view saw the same one, one after the other, and every death led to one",
        "outside": "everything sent to a group came in the same view to all",
        "torn": "what came to one of those in a view came to all, and what came to one of those named",
        "lost": "everything sent came to those named, to the members and to the owners, but for what a mode gives up",
        "phantom": "everything that came had been sent to its receiver, with the handles that it brought",
        "duplicated": "nothing came twice, but for what had not been acknowledged, and that was marked",
        "redelivery": "what came again came in order, and only that was marked",
        "deaths": "every coming and going was noticed once, in turn, and after all that the dead one had sent",
        "nodes": "after a node's end, of which all had one notice, came no message to it and no live handle of it",
        "replicas": "replicas at the same position had the same state, and what they returned held",
        "lock": "no two held the lock at the same time",
        "blocked": _BLOCKED,
    },
}


class Waits:
    """How often something took how long, to 1.6 percent, in little memory however many there are.

    >>> waits = Waits()
    >>> for time_ns in (100, 200, 1_000_000):
    ...     waits.note(time_ns)
    >>> waits.percentile(50), waits.percentile(100)
    (201, 1000000)
    """

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        self.longest_ns = 0

    def note(self, time_ns: int) -> None:
        """Count one."""
        scale = max(0, time_ns.bit_length() - 7)
        self.counts[scale << 7 | time_ns >> scale] += 1
        self.longest_ns = max(self.longest_ns, time_ns)

    def add(self, other: Waits) -> None:
        """Count what another one has counted."""
        self.counts.update(other.counts)
        self.longest_ns = max(self.longest_ns, other.longest_ns)

    def percentile(self, share: float) -> int | None:
        """Return a time that at least `share` percent do not exceed; None where there are none."""
        left = math.ceil(self.counts.total() * share / 100)
        for key in sorted(self.counts):
            left -= self.counts[key]
            if left <= 0:
                return min(self.longest_ns, upper_ns(key))
        return None


def upper_ns(key: int) -> int:
    """Return the longest time that `Waits` counts under a key."""
    scale = key >> 7
    return ((key & 127) + 1 << scale) - 1


class Idle:
    """The times in which a process was stopped, or given no processor, in any order."""

    def __init__(self, idle_ns: Sequence[tuple[int, int]]) -> None:
        self._idle_ns = sorted(idle_ns, key=_end_of)
        begins = [begin_ns for begin_ns, _ in self._idle_ns]
        self._first_ns = list(itertools.accumulate(reversed(begins), min))[::-1]  # the first begin, there or later

    def took(self, begin_ns: int, end_ns: int) -> int:
        """Return how long something took, without that time."""
        took_ns = end_ns - begin_ns
        for at in range(bisect_left(self._idle_ns, begin_ns, key=_end_of), len(self._idle_ns)):
            if self._first_ns[at] >= end_ns:
                break
            idle_begin_ns, idle_end_ns = self._idle_ns[at]
            if idle_begin_ns < end_ns:
                took_ns -= max(0, min(idle_end_ns, end_ns) - max(idle_begin_ns, begin_ns))
        return max(0, took_ns)


def _end_of(idle_ns: tuple[int, int]) -> int:
    return idle_ns[1]


@dataclass
class Findings:
    """The findings in the ledgers of a round, or of several."""

    about: str = "messages"
    counts: Counter[str] = field(default_factory=Counter)
    waits: Waits = field(default_factory=Waits)  # how long receivers waited for what was there
    sends_ns_max: int = 0
    joins_ns_max: int = 0
    changes_ns_max: int = 0  # entering, watching, destroying, commands
    starved_ns_max: int = 0  # the longest that a process wanted a processor and the system gave it none
    beside_stopped_ns_max: int = 0  # the longest call, or wait, while another worker was stopped
    verdicts: dict[str, Verdict] = field(default_factory=dict)

    def add(self, other: Findings) -> None:
        """Add those of another round; its verdicts replace the former ones."""
        for name in (name for name in vars(self) if name.endswith("_ns_max")):
            setattr(self, name, max(getattr(self, name), getattr(other, name)))
        self.counts.update(other.counts)
        self.waits.add(other.waits)
        self.verdicts.update(other.verdicts)

    def decide(self, faults: Mapping[str, Sequence[str]]) -> None:
        """Make a verdict of each property's faults; its text is the first three of them, or what holds."""
        for name, text in HOLDS[self.about].items():
            found = faults.get(name, [])
            self.verdicts[name] = Verdict(not found, len(found), None, "; ".join(found[:3]) or text)

    def as_json(self) -> dict[str, Any]:
        """Return the counts by name, and of members two times."""
        found: dict[str, Any] = {name: self.counts[name] for name in COUNTED[self.about]}
        if self.about == "members":
            found["longest_change_ms"] = self.changes_ns_max / 1e6
            found["longest_beside_stopped_ms"] = self.beside_stopped_ns_max / 1e6
        return found
