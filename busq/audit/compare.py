# SPDX-License-Identifier: Apache-2.0
"""Compares two audits: what got worse between them, and what only may have.

Faults.  A check that is claimed got worse where faults are found that were not there, or more of them, also in relation
to the deliveries; and where what held is now unknown.

Latencies.  The figure is the ratio of the typical (geometric mean) quantile of a receiver's parts, after to before,
with an interval; `busq.audit.blocks` has the reason for parts.  All intervals of a comparison hold together with 95 %:
each of n is one of 1 - 0.05 / n.  Worse is what is slower than the tolerance with its whole interval; where the
interval holds the tolerance, the comparison is open.

Not given: how far two recordings of the same program differ.  An interval covers chance within each run; a machine
that is busier on one day than on the other is a difference, too.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa

from busq.audit.result import INVALID, UNKNOWN, VALID
from busq.errors import BusqError

__all__ = ["BETTER", "SAME", "WORSE", "Comparison", "Difference", "compare"]

WORSE, BETTER, SAME = "worse", "better", "same"  # and UNKNOWN

CONFIDENCE = 0.95
TOLERANCE = 0.1
_LEAST_US = 0.001  # a latency of 0 has no ratio to others

Row = Mapping[str, Any]
Tables = Mapping[str, pa.Table]
_Rows = dict[str, list[Row]]  # of one run, by table


class CompareError(BusqError, ValueError):
    """Two audits that have no run in common."""


@dataclass(frozen=True)
class Difference:
    """One thing that was compared: `what` is "faults" (`name`: of the check), "finding" (of its kind) or a latency
    (`name` as "latency p50", of the receiver `process`, in us).  `ratio`, `low` and `high` are of latencies."""

    verdict: str  # "worse", "better", "same", "unknown"
    what: str
    run: str
    name: str
    before: float | None
    after: float | None
    text: str
    process: str = ""
    ratio: float | None = None
    low: float | None = None
    high: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it for --json."""
        return asdict(self)


@dataclass(frozen=True)
class Comparison:
    """All that was compared, and the runs that only one of the two has."""

    differences: Sequence[Difference]
    runs: Sequence[tuple[str, str]]  # names before and after
    gone: Sequence[str]
    new: Sequence[str]
    tolerance: float

    @property
    def ok(self) -> bool:
        """Nothing got worse."""
        return not self.having(WORSE)

    def having(self, verdict: str) -> list[Difference]:
        """Return the differences of one verdict."""
        return [difference for difference in self.differences if difference.verdict == verdict]

    def as_json(self) -> dict[str, Any]:
        """Return it for --json."""
        return {
            "ok": self.ok,
            "tolerance": self.tolerance,
            "confidence": CONFIDENCE,
            "runs": [{"before": before, "after": after} for before, after in self.runs],
            "only_before": list(self.gone),
            "only_after": list(self.new),
            **{verdict: [one.as_json() for one in self.having(verdict)] for verdict in (WORSE, BETTER, UNKNOWN)},
            SAME: len(self.having(SAME)),
        }


def compare(before: Tables, after: Tables, *, tolerance: float = TOLERANCE) -> Comparison:
    """Compare two audits, given as tables (`busq.audit.output`); runs of one name belong together, and single ones.

    Parameters: `tolerance`, by which share latencies may grow (0.1: a tenth).
    Errors: CompareError if no run of the one has the name of a run of the other.

    >>> from busq.audit import Audit, Check, RunAudit
    >>> from busq.audit.output import tables_of
    >>> def found(count):
    ...     check = Check("fifo", "invalid" if count else "valid", count, claimed=True)
    ...     return tables_of(Audit([RunAudit("monday", "a", "csv", (), 5, 5, 10, {"fifo": check})], "c", 0.1))
    >>> [one.text for one in compare(found(0), found(2)).having("worse")]
    ['fifo held, and has 2 faults now']
    """
    one, other = _by_run(before), _by_run(after)
    pairs = _pairs(list(one), list(other))
    if not pairs:
        names = [", ".join(sorted(its)[:3]) or "none" for its in (one, other)]
        raise CompareError(f"no run to compare: found {names[0]} before and {names[1]} after, expected the same names")
    differences: list[Difference] = []
    tests: list[_Test] = []
    for mine, its in pairs:
        was, now = one[mine], other[its]
        differences += _faults(its, was, now)
        differences += _findings(its, was, now)
        tests += _latencies(its, was, now)
    differences += [test.judge(len(tests), tolerance) for test in tests]
    gone, new = set(one).difference(mine for mine, _ in pairs), set(other).difference(its for _, its in pairs)
    return Comparison(differences, pairs, sorted(gone), sorted(new), tolerance)


def _pairs(before: Sequence[str], after: Sequence[str]) -> list[tuple[str, str]]:
    if len(before) == len(after) == 1:
        return [(before[0], after[0])]
    return [(name, name) for name in before if name in set(after)]


def _by_run(tables: Tables) -> dict[str, _Rows]:
    """Return the rows of each run, by table."""
    rows_by_run: dict[str, _Rows] = {run: {name: [] for name in tables} for run in tables["runs"]["run"].to_pylist()}
    for name, table in tables.items():
        for row in table.to_pylist():
            if row["run"] is not None:
                rows_by_run[row["run"]][name].append(row)
    return rows_by_run


# ---- faults and findings ----


def _faults(its: str, before: _Rows, after: _Rows) -> Iterator[Difference]:
    old = {row["check"]: row for row in before["verdicts"]}
    deliveries = [max(1, rows["runs"][0]["deliveries"]) for rows in (before, after)]
    if old and not after["verdicts"]:
        yield Difference(WORSE, "faults", its, "unreadable", None, None, "the run was judged, and can't be read now")
    for row in after["verdicts"]:
        was = old.get(row["check"])
        if row["claimed"] and was is not None:
            verdict, text = _fault(row["check"], was, row, deliveries)
            yield Difference(verdict, "faults", its, row["check"], was["count"], row["count"], text)


def _fault(name: str, was: Row, now: Row, deliveries: Sequence[int]) -> tuple[str, str]:
    counts = (was["count"], now["count"])
    faults = f"{now['count']:,} {'fault' if now['count'] == 1 else 'faults'}"
    if now["verdict"] == VALID:
        return (SAME, f"{name} holds, as before") if was["verdict"] == VALID else (BETTER, f"{name} holds now")
    if now["verdict"] == UNKNOWN:
        held = was["verdict"] == VALID
        return (WORSE if held else UNKNOWN), f"{name} {'held, and ' if held else ''}can't be told now: {now['text']}"
    if was["verdict"] != INVALID:
        state = "held" if was["verdict"] == VALID else "could not be told"
        return WORSE, f"{name} {state}, and has {faults} now"
    rates = [count / every for count, every in zip(counts, deliveries, strict=True)]
    text = f"{name} had {counts[0]:,}, and has {faults} now, of {deliveries[0]:,} and {deliveries[1]:,} deliveries"
    if counts[1] > counts[0] and rates[1] > rates[0]:
        return WORSE, text
    if counts[1] < counts[0] and rates[1] < rates[0] and not now["at_least"]:
        return BETTER, text
    return SAME, text


def _findings(its: str, before: _Rows, after: _Rows) -> Iterator[Difference]:
    """Give the kinds of damage to logs that were not there before, and those that are gone."""
    counts = [_errors(rows["findings"]) for rows in (before, after)]
    for kind in sorted({*counts[0], *counts[1]}):
        was, now = (each.get(kind, 0) for each in counts)
        if was and now:
            yield Difference(SAME, "finding", its, kind, was, now, f"{kind}: {was:,} before, {now:,} now")
        else:
            verdict, text = (WORSE, f"{kind} is new: {now:,}") if now else (BETTER, f"{kind} is gone")
            yield Difference(verdict, "finding", its, kind, was, now, text)


def _errors(rows: Sequence[Row]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for row in rows:
        if row["is_error"]:
            counts[row["kind"]] = counts.get(row["kind"], 0) + row["count"]
    return counts


# ---- latencies ----


@dataclass(frozen=True)
class _Test:
    """One quantile of one receiver, in the parts of both runs."""

    run: str
    process: str
    name: str
    before_us: float
    after_us: float
    before_parts: Sequence[float]
    after_parts: Sequence[float]

    def judge(self, tests: int, tolerance: float) -> Difference:
        what = f"{self.name} of {self.process}: {self.before_us:,.4g} us before, {self.after_us:,.4g} us now"
        plain = Difference(
            UNKNOWN, "latency", self.run, self.name, self.before_us, self.after_us, what, process=self.process
        )
        if not self.before_parts or not self.after_parts:
            return replace(plain, text=f"{what}; too few deliveries, or too large a run, for an interval")
        ratio, low, high = _ratio(self.before_parts, self.after_parts, 1 - (1 - CONFIDENCE) / tests)
        if low > 1 + tolerance:
            verdict = WORSE
        elif high < 1 / (1 + tolerance):
            verdict = BETTER
        else:
            verdict = SAME if high <= 1 + tolerance else UNKNOWN
        text = f"{what}; {ratio:.3g} times, between {low:.3g} and {high:.3g}"
        return replace(plain, verdict=verdict, text=text, ratio=ratio, low=low, high=high)


def _latencies(its: str, before: _Rows, after: _Rows) -> Iterator[_Test]:
    old = {(row["figure"], row["process"]): row for row in before["latencies"] if row["process"]}
    for row in after["latencies"]:
        was = old.get((row["figure"], row["process"]))
        if was is None:
            continue
        for quantile in ("p50", "p99"):
            parts = [each[f"blocks_{quantile}_us"] or () for each in (was, row)]
            if quantile == "p50" or all(parts):
                values = was[f"{quantile}_us"], row[f"{quantile}_us"]
                yield _Test(its, row["process"], f"{row['figure']} {quantile}", *values, *parts)


def _ratio(before: Sequence[float], after: Sequence[float], confidence: float) -> tuple[float, float, float]:
    """Return the ratio of geometric means, and its interval: Welch's, of the logarithms.

    >>> [round(number, 2) for number in _ratio([9, 10, 11] * 7, [18, 20, 22] * 7, 0.95)]
    [2.0, 1.9, 2.11]
    """
    logs = [[math.log(max(value, _LEAST_US)) for value in values] for values in (before, after)]
    difference = statistics.fmean(logs[1]) - statistics.fmean(logs[0])
    errors = [statistics.variance(values) / len(values) for values in logs]
    if not sum(errors):
        return (math.exp(difference),) * 3
    freedom = sum(errors) ** 2 / sum(error**2 / (len(values) - 1) for error, values in zip(errors, logs, strict=True))
    reach = _student(1 - (1 - confidence) / 2, freedom) * math.sqrt(sum(errors))
    return math.exp(difference), math.exp(difference - reach), math.exp(difference + reach)


def _student(probability: float, freedom: float) -> float:
    """Return a quantile of Student's distribution (Cornish and Fisher's expansion; freedom is 19 and more here).

    >>> round(_student(0.975, 19), 3), round(_student(0.9999, 19), 2)
    (2.093, 4.59)
    """
    z = statistics.NormalDist().inv_cdf(probability)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + sum(term / freedom**power for power, term in enumerate(terms, 1))
