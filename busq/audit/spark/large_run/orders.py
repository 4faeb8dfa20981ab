# SPDX-License-Identifier: Apache-2.0
"""The orders of a large run: a certificate, and where there is none, the exact observers on as much as is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from busq.audit.result import INVALID, UNKNOWN, VALID, Check
from busq.audit.spark.large_run import checks as relations
from busq.audit.spark.large_run import islands
from busq.audit.spark.large_run.profile import Case
from busq.audit.spark.large_run.segments import Summary
from busq.lab.observers import REMARKS
from busq.trace import guesses

__all__ = [
    "ORDERS",
    "Certificate",
    "by_observers",
    "certified",
    "certify",
    "memory_needed",
    "observed",
    "observers_memory",
]

STRETCHES = 4096  # of the ranks, when islands are merged
ISLANDS_MAX = 100_000  # more are as good as one
LARGE_SHARE = 0.2  # of the events dirty: then the islands are not looked for

ORDERS = ("fifo", "causal", "consistent", "total", "synchronous")
# On which islands each is judged.
_EDGES = {"fifo": "causal", "causal": "causal", "consistent": "total", "total": "total", "synchronous": "synchronous"}
_HOLDS = {
    "fifo": "everybody delivered each sender's messages in the order of sending",
    "causal": "no message was delivered before one in its past",
    "consistent": "any two receivers delivered their common messages in the same order",
    "total": "all delivery orders fit into one",
    "synchronous": "every message could have taken no time",
}


@dataclass(frozen=True)
class Ranked:
    """Events with ranks from `low` to `high`, and `steps`, where these fall."""

    events: DataFrame
    steps: DataFrame
    low: int
    high: int


@dataclass(frozen=True)
class Certificate:
    """How many events break the certificate of each kind of islands, by the ranks that are called `rank`.

    `ranked`: the events by rank, if they were looked at one by one.
    """

    rank: str
    dirty: dict[str, int]
    ranked: Ranked | None = None

    def breaks(self, name: str) -> int:
        """How many events break the certificate of an order."""
        return self.dirty[_EDGES[name]]


def memory_needed(case: Case, names: Iterable[str]) -> int:
    """Return the memory that the observers of these orders take for the whole run, in bytes."""
    return observers_memory(names, case.n_events, case.total("sends"))


def observers_memory(names: Iterable[str], events: int, messages: int) -> int:
    """Return the memory that the observers of these orders take for so many events and messages, in bytes."""
    per_event, per_message = (42, 160) if "synchronous" in names else (8, 100)  # crowns are judged beside the others
    return events * per_event + messages * per_message


# ---- certificates ----


def certify(case: Case, summary: Summary | None, *, are_restamped: bool) -> Certificate:
    """Look for a certificate: in the summaries of the files, or event by event."""
    if summary is None:
        return _step_by_step(case, are_restamped=are_restamped)
    are_stamped = not case.total("unstamped") and not are_restamped
    rising = {edge: are_stamped and is_rising for edge, is_rising in summary.is_rising.items()}
    return Certificate("stamp", {edge: 0 if rising.get(edge) else case.n_events for edge in _EDGES.values()})


def _step_by_step(case: Case, *, are_restamped: bool) -> Certificate:
    """Look for a certificate event by event, by the best ranks that the messages have."""
    n, stamps, times = len(case.names), case.range("stamp"), case.range("time")
    by, low, high = "position", 0, 1 << 40
    if times is not None and case.total("send_times") == case.total("sends"):
        by, low, high = "time", *times
    if stamps is not None and not case.total("unstamped") and stamps[0] >= 0 and stamps[1] < (1 << 62) // n:
        by, low, high = "stamp", *stamps
        if are_restamped and islands.restamped(case.events).count():
            by = "stamp of send"
    ranked = islands.ranked(case.events, by, processes=n)
    steps = islands.stepped(ranked, block=case.block)
    edges = sorted(set(_EDGES.values()))
    row = steps.agg(*(F.count(f"{edge}_bound").alias(edge) for edge in edges)).collect()[0]
    return Certificate(by, {edge: row[edge] for edge in edges}, Ranked(ranked, steps, low * n, (high + 1) * n))


def certified(certificate: Certificate, names: Iterable[str]) -> tuple[dict[str, Check], list[str]]:
    """Return the verdicts that a certificate proves, and the orders that it leaves open."""
    proofs = {"stamp": "the stamps", "stamp of send": "the stamps", "time": "the times of the sends"}
    proof = f"{proofs.get(certificate.rank, 'the places of the sends')} prove it"
    proven, left = {}, []
    for name in names:
        if certificate.breaks(name):
            left.append(name)
        else:
            proven[name] = Check(name, VALID, text=f"{_HOLDS[name]}: {proof}", engine="certificate")
    return proven, left


# ---- the observers ----


def observed(case: Case, rows: Iterable[Any], engine: str, *, are_old: bool = False) -> dict[str, Check]:
    """Return the verdicts of observers; their remarks become findings of the run.

    `are_old`: the rows have the names of messages before these were named anew.
    """
    checks = {check.name: check for check in case.checks(list(rows), engine, are_old=are_old)}
    for name in REMARKS:
        if (remark := checks.pop(name, None)) and remark.count:
            case.findings.append(guesses.remark(name, remark.text, remark.count, remark.processes[0]))
    return checks


def by_observers(
    spark: SparkSession,
    case: Case,
    names: Sequence[str],
    certificate: Certificate,
    budget: int,
    firsts: Callable[[], DataFrame],
) -> dict[str, Check]:
    """Have the exact observers judge orders: on the whole run, on its islands, or on as much of them as fits.

    Parameters: `budget`, the memory that they may take, in bytes; `firsts` gives the events without repetitions.
    """
    ranked = certificate.ranked
    if ranked is None:
        raise ValueError("a certificate by summaries has no ranks: expected one that was looked for event by event")
    dirtiest = max(certificate.breaks(name) for name in names)
    if memory_needed(case, names) <= budget and dirtiest > LARGE_SHARE * case.n_events:
        asked = [*names, *(REMARKS if "causal" in names else ())]
        return observed(case, islands.judged(case.events, asked, names=len(case.names)).collect(), "c")
    checks: dict[str, Check] = {}
    for edge in sorted({_EDGES[name] for name in names}):
        mine = [name for name in names if _EDGES[name] == edge]
        checks |= _on_islands(spark, case, mine, edge, ranked, budget, firsts)
    return checks


def _on_islands(
    spark: SparkSession,
    case: Case,
    names: Sequence[str],
    edge: str,
    ranked: Ranked,
    budget: int,
    firsts: Callable[[], DataFrame],
) -> dict[str, Check]:
    width = max(1, (ranked.high - ranked.low) // STRETCHES)
    land = islands.islands(islands.dirty(ranked.steps, edge), width=width).limit(ISLANDS_MAX + 1).toArrow()
    if land.num_rows > ISLANDS_MAX:
        return _on_a_part(case, names, ranked, ranked.events, budget, firsts)
    chosen = islands.within(ranked.events, spark.createDataFrame(land, islands.ISLANDS), width=width)
    if memory_needed(case, names) > budget:
        size = chosen.agg(F.count(F.lit(1)).alias("n"), F.count(F.when(relations.is_send(), 1)).alias("sends"))
        row = size.collect()[0]
        if observers_memory(names, row["n"], row["sends"]) > budget:
            return _on_a_part(case, names, ranked, chosen, budget, firsts)
    asked = [*names, *(["impossible"] if "causal" in names else ())]
    rows = islands.judged(chosen, asked, names=len(case.names)).collect()
    return {name: _holding(name, "island") for name in names} | observed(case, rows, "island")


def _holding(name: str, engine: str) -> Check:
    return Check(name, VALID, text=_HOLDS[name], engine=engine)


def _on_a_part(
    case: Case,
    names: Sequence[str],
    ranked: Ranked,
    chosen: DataFrame,
    budget: int,
    firsts: Callable[[], DataFrame],
) -> dict[str, Check]:
    """Judge the messages with the lowest ranks, as many as fit: the counts are lower bounds, but that of FIFO."""
    share = min(1.0, 0.9 * budget / memory_needed(case, names))
    cut = ranked.low + int(share * (ranked.high - ranked.low))
    rows = islands.judged(chosen.where(F.col("rank") <= cut), list(names), names=len(case.names)).collect()
    checks = {name: _holding(name, "island") for name in names} | observed(case, rows, "island")
    why = f"only the first {share:.0%} of the run were judged, the rest does not fit into memory"
    for name, check in checks.items():
        if check.count:
            checks[name] = replace(check, text=f"{check.text}; {why}", at_least=True)
        else:
            checks[name] = replace(check, verdict=UNKNOWN, text=f"nothing was found, but {why}", at_least=True)
    return checks | ({"fifo": _fifo(case, firsts())} if "fifo" in checks else {})


def _fifo(case: Case, firsts: DataFrame) -> Check:
    """Judge FIFO order by relations, which take any size."""
    rows = relations.fifo(firsts, block=case.block).collect()
    if not rows:
        return _holding("fifo", "relational")
    row = rows[0]
    old = case.old_names(row["messages"])
    late, other = (old[message] for message in row["messages"])
    words = case.words([late, other])
    receiver, sender = (case.names[p] for p in row["processes"])
    text = (
        f"{receiver} delivered {words.message(other)} before {words.message(late)}, "
        f"but {sender} sent {words.message(late)} before {words.message(other)}"
    )
    return Check(
        "fifo",
        INVALID,
        row["count"],
        text=text,
        messages=(late, other),
        processes=(receiver, sender),
        engine="relational",
    )
