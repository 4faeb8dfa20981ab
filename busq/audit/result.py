# SPDX-License-Identifier: Apache-2.0
"""The result of an audit: a verdict for each check of each run, findings about the logs themselves, and figures.

All ways to audit (one process of C, many runs on Spark, one huge run on Spark) give this and nothing else, so that
tables, pages and exit codes are made in one place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from busq.lab.observers import PROPERTIES
from busq.trace.finding import Finding

__all__ = [
    "CHECKS",
    "INVALID",
    "TABLE",
    "UNKNOWN",
    "VALID",
    "WRONG",
    "Audit",
    "Check",
    "Finding",
    "RunAudit",
    "signed",
    "unsigned",
]

# "side": deliveries that come, at the same receiver, after a message that was only sent when theirs was known to be
# sent: it had been delivered somewhere, or its send had returned, before the other send was called (one host's clock).
# "clock": events whose recorded vector clock is not the one that follows from the log.
# "views": views that were seen, and deliveries of messages to groups, that do not fit together
# (csrc/observe/recorded_views.c).
CHECKS = (*PROPERTIES, "side", "clock", "views")

VALID, INVALID, UNKNOWN = "valid", "invalid", "unknown"

# The logs contradict themselves, are damaged, or cannot be read: nothing is well then, whatever the verdicts are.
WRONG = frozenset({"clock-backwards", "doubled", "host-missing", "impossible", "resent", "truncated", "unreadable"})

TABLE = "table:"  # what the source of a run begins with that stands in a table of a catalog, and in no file


@dataclass(frozen=True)
class Check:
    """The verdict of one check on one run.

    `verdict`: "valid", "invalid", or "unknown" where the log leaves it open; then `text` has the reason, and `count` is
    what was found nevertheless.  `text` is the smallest witness in words, or what holds.  `messages`, `processes`,
    `steps` and `kinds` are those of `busq.spec.Witness`.  `engine` is what settled it: "certificate", "island", "c",
    "relational".  `at_least`: the count is a lower bound.
    """

    name: str
    verdict: str
    count: int = 0
    claimed: bool = False
    text: str = ""
    messages: tuple[int, ...] = ()
    processes: tuple[str, ...] = ()
    steps: tuple[tuple[int, str], ...] = ()
    kinds: tuple[str, ...] = ()
    engine: str = "c"
    at_least: bool = False

    @property
    def ok(self) -> bool:
        """Nothing was found (the log may have left it open)."""
        return not self.count

    @property
    def word(self) -> str:
        """The verdict in words for people: "no" is what does not hold, and was not expected to.

        >>> Check("fifo", INVALID, 2, claimed=True).word, Check("fifo", INVALID, 2).word
        ('broken', 'no')
        """
        if self.verdict == INVALID and not self.claimed:
            return "no"
        return {INVALID: "broken", UNKNOWN: "unknown"}.get(self.verdict, "holds")

    def as_json(self) -> dict[str, Any]:
        """Return it for --json."""
        return {
            "ok": self.ok,
            "verdict": self.verdict,
            "count": self.count,
            "claimed": self.claimed,
            "text": self.text,
            "messages": list(self.messages),
            "processes": list(self.processes),
            "engine": self.engine,
            **({"at_least": True} if self.at_least else {}),
        }


@dataclass(frozen=True)
class RunAudit:
    """The audit of one run.  `figures` has a table for each subject ("latency_us", "queueing_us", "blocked_ms"):
    rows by process, with named columns."""

    run: str
    source: str
    format: str
    processes: tuple[str, ...]
    messages: int
    deliveries: int
    events: int
    checks: Mapping[str, Check]
    findings: Sequence[Finding] = ()
    figures: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    order: str = ""  # whose claims are held against it; "" if it is not known

    @property
    def ok(self) -> bool:
        """Every claimed property holds, and the logs do not contradict themselves."""
        is_wrong = any(finding.is_error and finding.kind in WRONG for finding in self.findings)
        return not is_wrong and all(check.ok for check in self.checks.values() if check.claimed)

    def as_json(self) -> dict[str, Any]:
        """Return it for --json."""
        return {
            "run": self.run,
            "source": self.source,
            "format": self.format,
            "order": self.order,
            "ok": self.ok,
            "processes": list(self.processes),
            "messages": self.messages,
            "deliveries": self.deliveries,
            "events": self.events,
            "verdicts": {name: check.as_json() for name, check in self.checks.items()},
            "findings": [finding.as_json() for finding in self.findings],
            "figures": {name: [dict(row) for row in rows] for name, rows in self.figures.items()},
        }


@dataclass(frozen=True)
class Audit:
    """The audits of all runs that were found; `engine` is "c" or "spark"."""

    runs: Sequence[RunAudit]
    engine: str
    seconds: float
    findings: Sequence[Finding] = ()  # about what belongs to no run

    @property
    def ok(self) -> bool:
        """Every claimed property of every run holds."""
        return all(run.ok for run in self.runs)

    @property
    def could_judge(self) -> bool:
        """A delivery stands in some log, or a verdict was possible without one, or none was asked for."""
        claimed = [check for run in self.runs for check in run.checks.values() if check.claimed]
        has_deliveries = any(run.deliveries for run in self.runs)
        return has_deliveries or not claimed or any(check.word != "unknown" for check in claimed)

    def as_json(self) -> dict[str, Any]:
        """Return it for --json: the sums over all runs, as every judge prints them, then each run; "ok" is None where
        nothing could be judged."""
        names = dict.fromkeys(name for run in self.runs for name in run.checks)
        together = {name: [run.checks[name] for run in self.runs if name in run.checks] for name in names}
        return {
            "ok": None if self.ok and not self.could_judge else self.ok,
            "messages": sum(run.messages for run in self.runs),
            "deliveries": sum(run.deliveries for run in self.runs),
            "verdicts": {
                name: {
                    "ok": all(check.ok for check in checks),
                    "count": sum(check.count for check in checks),
                    "claimed": any(check.claimed for check in checks),
                }
                for name, checks in together.items()
            },
            "engine": self.engine,
            "seconds": self.seconds,
            "findings": [finding.as_json() for finding in self.findings],
            "runs": [run.as_json() for run in self.runs],
        }


def signed(message: int) -> int:
    """Return the name of a message as a column of 64 bits with a sign holds it.

    >>> signed((1 << 64) - 5), signed(7)
    (-5, 7)
    """
    return message - (1 << 64) if message >= 1 << 63 else message


def unsigned(message: int) -> int:
    """Return the name of a message as the observers have it, from a column with a sign.

    >>> unsigned(-5) == (1 << 64) - 5, unsigned(7)
    (True, 7)
    """
    return message + (1 << 64) if message < 0 else message
