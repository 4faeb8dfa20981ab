# SPDX-License-Identifier: Apache-2.0
"""One huge run on Spark: a certificate first, and an exact search only where there is none.

The stamps that a protocol wrote prove its order if they rise along everybody's deliveries and every send has a higher
one than all that its process sent or delivered before: then the run is FIFO, causal, consistent and total, and no
vector clock has to be looked at.  Where they fall, or where there are none, all faults lie within intervals of the
stamps (or of another rank); the events of these islands go to the exact observers in C.  What was lost, duplicated or
invented shows in sums of hashes per sender and receiver; only groups whose sums differ are joined.

Where a run fits into what the observers may take, and is not proven, they go through its files as they stand, whatever
its messages are called.  Everything else is relational (`busq.spark.checks`), and spills; messages whose names tell
neither sender nor order are named anew for that.  Where islands do not fit into what the observers may take, they judge
as much as does, and the count is a lower bound.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import psutil
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from busq._util.humanize import amount
from busq.audit import unknown, views_check
from busq.audit.clock_check import clock_faults
from busq.audit.order_claims import claims, known
from busq.audit.result import CHECKS, INVALID, UNKNOWN, VALID, Check, RunAudit
from busq.audit.spark.large_run import bad_rows, file_stream, islands, latencies, layout, vector_clocks, views
from busq.audit.spark.large_run import checks as relations
from busq.audit.spark.large_run.load import Loaded, conformed, load
from busq.audit.spark.large_run.profile import Case
from busq.audit.spark.large_run.segments import Summary
from busq.audit.spark.sessions.driver import setting
from busq.audit.spark.sessions.session import NANOSECONDS_AS_NUMBERS
from busq.audit.spark.sessions.workers import require
from busq.audit.spark.tables import catalog
from busq.audit.times import Pace
from busq.lab.observers import REMARKS
from busq.trace.errors import TraceError
from busq.trace.finding import Finding
from busq.trace.run import Source
from busq.trace.schema import Kind

__all__ = ["audit"]

MEMORY_SHARE = 0.35  # of the machine's, for the observers
STRETCHES = 4096  # of the ranks, when islands are merged
ISLANDS_MAX = 100_000  # more are as good as one
LARGE_SHARE = 0.2  # of the events dirty: then the islands are not looked for
PARTITION_ROWS, PARTITION_ROWS_MIN = 1_000_000, 100_000  # of a shuffle
GROUPS_MAX = 100_000  # of senders and receivers that differ; if there are more, all are joined

_ORDERS = ("fifo", "causal", "consistent", "total", "synchronous")
# On which islands each is judged.
_EDGES = {"fifo": "causal", "causal": "causal", "consistent": "total", "total": "total", "synchronous": "synchronous"}
_FIGURES = ("count", *latencies.QUANTILES, "max")
_COUNTS = ("lost", "duplicated", "phantom")


def audit(
    spark: SparkSession,
    source: Source | DataFrame | str,
    *,
    fields: Mapping[str, str] | str | os.PathLike[str] | None = None,
    place: str | os.PathLike[str] | None = None,
    order: str | None = None,
    allow: Iterable[str] = (),
    ask: Iterable[str] = (),
    checks: Iterable[str] = CHECKS,
    memory_bytes: int | None = None,
    names: Sequence[str] = (),
) -> RunAudit:
    """Audit one run, however large: a verdict for each check, as `busq.audit.native.audit` gives.

    Parameters: `source`, or the name of a table in the session's catalog, or a DataFrame, of one run; `fields` of a
    table or a DataFrame, by the columns in which they stand, or a file that says so, and `place`, as in
    `busq.spark.catalog.staged`; `order`, `allow` and `ask` as there; `checks`, which are judged; `memory_bytes`, how
    much the exact observers may take (35 % of the machine's); `names` of the processes of a DataFrame in which these
    are indices.
    Errors: ValueError for an unknown order or check; TraceError for files or tables that cannot be used, or hold
    several runs; SparkFailed inside of `busq.spark.session`.
    Cost: 3.4 us on two cores per delivery of busq's own files, and 8.4 us of computing per delivery of a stranger's,
    whatever the names; a DataFrame with the columns of a trace is judged where it is, which takes longer, any other one
    is put into files first, as a table is.  What does not fit into the heap is spilled.

    >>> with busq.spark.session() as spark:                                                      # doctest: +SKIP
    ...     audit(spark, busq.trace.find("trace").sources[0]).ok
    ...     audit(spark, "db.events", fields={"process": "node"}).ok
    True
    True
    """
    judged = known(checks)
    if isinstance(source, str) or (not isinstance(source, Source) and (fields or not catalog.is_plain(source))):
        asked = {"order": order, "allow": allow, "ask": ask, "checks": checks, "memory_bytes": memory_bytes}
        return _audit_staged(spark, source, fields, place, names, asked)
    require(spark, source.paths[:1] if isinstance(source, Source) else ())
    with setting(spark, NANOSECONDS_AS_NUMBERS, "true"):
        return _audit(spark, source, order, allow, ask, judged, memory_bytes, names)


def _audit(
    spark: SparkSession,
    source: Source | DataFrame,
    order: str | None,
    allow: Iterable[str],
    ask: Iterable[str],
    judged: frozenset[str],
    memory_bytes: int | None,
    names: Sequence[str],
) -> RunAudit:
    loaded = load(spark, source) if isinstance(source, Source) else _of_frame(source, names)
    about = source if isinstance(source, Source) else Source("", "", (), 0)
    order = loaded.order if order is None else order
    claims(order, allow=allow, ask=ask)
    budget = int(MEMORY_SHARE * psutil.virtual_memory().total) if memory_bytes is None else memory_bytes
    with _laid_out(spark, loaded, judged, budget, may_move=isinstance(source, Source)) as (loaded, summary):
        case = Case(loaded, about, summary.profile if summary else None)
        case.findings += unknown.idle(case.run, case.total("sends"), case.total("deliveries"))
        claimed = claims(
            order, allow=allow, ask=ask, has_clocks=bool(case.total("clocks")), has_views=bool(case.total("grouped"))
        )
        judge = _Judge(spark, case, budget, summary)
        with contextlib.closing(case), _partitions(spark, case.rows):
            checks_by_name = {one.name: replace(one, claimed=one.name in claimed) for one in judge.judge(judged)}
    return RunAudit(
        run=about.trace or about.name,
        source=about.paths[0] if about.paths else "",
        format=about.format,
        processes=case.names,
        messages=case.total("sends") - judge.n_resent,
        deliveries=case.total("deliveries"),
        events=case.rows,
        checks={name: checks_by_name[name] for name in CHECKS if name in checks_by_name},
        findings=unknown.settled(case.findings),
        figures=judge.figures,
        order=order,
    )


def _audit_staged(
    spark: SparkSession,
    source: DataFrame | str,
    fields: Mapping[str, str] | str | os.PathLike[str] | None,
    place: str | os.PathLike[str] | None,
    names: Sequence[str],
    asked: Mapping[str, Any],
) -> RunAudit:
    """Audit a table that is put into files first."""
    if names:
        raise TraceError("names are for processes that are indices, and these have names of their own: leave them out")
    tables = [source] if isinstance(source, str) else {"the DataFrame": source}
    with catalog.staged(spark, tables, fields=fields, place=place) as found:
        run_audit = found.named(audit(spark, found.only(), **asked))
    return run_audit if isinstance(source, str) else replace(run_audit, run="", source="")


def _of_frame(frame: DataFrame, names: Sequence[str]) -> Loaded:
    """Return the events of a DataFrame; TraceError if they are of several runs."""
    if "run" in frame.columns and frame.select("run").distinct().limit(2).count() > 1:
        raise TraceError("the DataFrame: its column 'run' names several: expected the rows of one run")
    events, findings = bad_rows.without_bad(conformed(frame), names, path="the DataFrame")
    return Loaded(events, tuple(names), findings=findings)


@contextlib.contextmanager
def _laid_out(
    spark: SparkSession, loaded: Loaded, judged: frozenset[str], budget: int, *, may_move: bool
) -> Iterator[tuple[Loaded, Summary | None]]:
    """Give a run as files that can be looked at where they stand, and what they say; as it is, where that can't be."""
    if not may_move:
        yield loaded, None
        return

    def takes_any_names(summary: Summary) -> bool:  # the observers do; the relations, which judge clocks, do not
        events = summary.total("sends") + summary.total("deliveries")
        by_relations = summary.total("clocks") or ("views" in judged and summary.total("grouped"))
        return not by_relations and _needs(judged, events, summary.total("sends")) <= budget

    with layout.laid_out(spark, loaded, takes_any_names) as moved:
        yield moved


@contextlib.contextmanager
def _partitions(spark: SparkSession, n_rows: int) -> Iterator[None]:
    """Let shuffles have as many partitions as so many rows are worth, while a block lasts.

    Spark's 200 are too many for few rows: each costs a task wherever something is kept.
    """
    name = "spark.sql.shuffle.partitions"
    former = spark.conf.get(name)
    usual = int(former) if former and former.isdigit() else 200
    count = max(2, min(n_rows // PARTITION_ROWS_MIN, max(usual, n_rows // PARTITION_ROWS)))
    with setting(spark, name, str(count)):
        yield


def _needs(names: Iterable[str], events: int, messages: int) -> int:
    """Return the memory that a History takes, in bytes, and its judge."""
    per_event, per_message = (38, 100) if "synchronous" in names else (8, 100)
    return events * per_event + messages * per_message


class _Judge:
    """Judges a run, step by step; each step knows what those before it found."""

    def __init__(self, spark: SparkSession, case: Case, budget: int, summary: Summary | None) -> None:
        self.spark = spark
        self.summary = summary
        self.case = case
        self.budget = budget
        self.figures: dict[str, Sequence[Mapping[str, Any]]] = {}
        self.remarks: list[Finding] = []  # about times, which say nothing of vector clocks
        self.differing: DataFrame | None = None  # senders and receivers whose fingerprints differ; None: all
        self.are_complete = False  # nothing differs
        self.n_resent = 0  # sends of messages that had been sent already
        self.rank = ""
        self.ranked: DataFrame | None = None
        self.dirty: dict[str, int] = {}  # how many events break each certificate

    def judge(self, judged: frozenset[str]) -> list[Check]:
        """Judge what is asked for; notes findings and figures on the way."""
        case = self.case
        if self.summary is None and relations.misnamed(case.events, block=case.block).limit(1).count():
            case.rename()
        if judged.difference(("clock", "views")):
            self._fingerprint()
        if judged.intersection(_ORDERS):
            self._certify()
        checks, names = self._proven([name for name in _ORDERS if name in judged])
        if self._takes_files(names):
            checks |= self._judge_files(names, judged)
            names = []
        if judged.intersection(_COUNTS).difference(checks):
            checks |= self._completeness()
        if names:
            checks |= self._orders(names)
        if "side" not in checks:
            checks |= self._times()
        if "clock" in judged:
            checks["clock"] = self._clock()
        if "views" in judged:
            checks["views"] = self._views()
        self._waits()
        reported = []
        for name in CHECKS:
            if name in checks and name in judged:
                one = unknown.tell_guess(unknown.tell_order(checks[name], case.run, case.holes), case.run)
                if name == "phantom" and one.verdict == INVALID and case.tells_senders:
                    one = self._of_told_senders(one)
                reported.append(unknown.left_open(one, case.findings))
        case.findings += self.remarks
        return reported

    # ---- completeness ----

    def _fingerprint(self) -> None:
        if self.summary and self.summary.are_named:
            groups = [("", sender, receiver) for sender, receiver in self.summary.differing]
            self.are_restamped = self.summary.are_restamped
        elif self.summary:  # the observers will judge
            self.are_restamped, self.are_complete = True, False
            return
        else:
            differing = relations.fingerprints(self.case.events).where("differs or restamped")
            rows = differing.limit(GROUPS_MAX + 1).collect()
            groups = [("", row["sender"], row["receiver"]) for row in rows if row["differs"]]
            self.are_restamped = bool(rows)
        self.are_complete = not groups
        schema = "run string, sender int, receiver int"
        self.differing = self.spark.createDataFrame(groups, schema) if len(groups) <= GROUPS_MAX else None

    def _copies(self) -> DataFrame:
        return relations.copies(self.case.events, self.differing)

    def _completeness(self) -> dict[str, Check]:
        holds = {
            "lost": "every message reached all its destinations",
            "duplicated": "nobody delivered a message twice",
            "phantom": "everything delivered had been sent to its receiver",
        }
        checks = {name: Check(name, VALID, text=text, engine="relational") for name, text in holds.items()}
        if self.are_complete:
            return checks
        rows = {
            row["check"]: row
            for row in relations.completeness(
                self._copies(), self.case.events, torn=self._torn(), processes=len(self.case.names)
            ).collect()
        }
        for name in _COUNTS:
            if name in rows and rows[name]["count"]:
                checks[name] = self._absent(name, rows)
        return checks

    def _of_told_senders(self, check: Check) -> Check:
        """Return the verdict about phantoms whose deliveries tell the sender: its log may lack those that nobody sent.

        What was sent, but not to its receiver, is certain.
        """
        case = self.case
        sends = case.events.where(relations.is_send()).groupBy("message").agg(F.first("destinations").alias("to"))
        came = case.events.where(relations.is_delivery()).select("message", "process", "position")
        known = came.join(sends, "message", "left")
        certain = known.where(~F.array_contains("to", F.col("process")))
        n_open = known.where("to is null").count()
        if not n_open:
            return check
        why = "the logs of those that they name as their senders may have ended before"
        if n_open == check.count:
            return replace(check, verdict=UNKNOWN, text=f"{check.text}, but {why}")
        row = certain.orderBy("process", "position").limit(1).collect()[0]
        message = case.old_names([row["message"]])[row["message"]]
        words, receiver = case.words([message]), case.names[row["process"]]
        text = f"{receiver} delivered {words.message(message)}, which was sent, but not to it"
        text += f"; {amount(n_open, 'other')} cannot be told: {why}"
        return replace(check, text=text, messages=(message,), processes=(receiver,))

    def _torn(self) -> list[int]:
        return [process for process, is_torn in enumerate(self.case.holes) if is_torn]

    def _absent(self, name: str, rows: Mapping[str, Any]) -> Check:
        case, row = self.case, rows[name]
        open_row, definite = rows.get(f"{name}_open"), rows.get(f"{name}_definite")
        chosen = definite if definite is not None and definite["count"] else row
        message = case.old_names(chosen["messages"])[chosen["messages"][0]]
        words = case.words([message])
        sender = self._sender(chosen["messages"][0]) if name == "phantom" else chosen["processes"][1]
        has_sender = sender is not None and name != "duplicated"
        processes = (chosen["processes"][0], *([sender] if has_sender else []))
        names = tuple(case.names[p] for p in processes)
        check = Check(
            name,
            INVALID,
            row["count"],
            messages=(message,),
            processes=names,
            engine="relational",
            text=f"{names[0]} delivered {words.message(message)} more than once",
        )
        if name == "duplicated":
            return check
        if name == "phantom":
            check = replace(check, text=unknown._definite(False, words.message(message), names))
        absence = SimpleNamespace(
            n_definite=definite["count"] if definite is not None else row["count"],
            n_open=open_row["count"] if open_row is not None else 0,
            message=message,
            processes=processes,
            n_processes=len(processes),
        )
        places = sorted(set(open_row["processes"] or [])) if open_row is not None and open_row["count"] else []
        return unknown._judged(check, absence, unknown._why(case.run, places, case.holes), words)

    def _sender(self, message: int) -> int | None:
        """Return the sender of a message, if there is one."""
        sends = self.case.events.where(relations.is_send() & (F.col("message") == message))
        rows = sends.select("process").limit(1).collect()
        return rows[0]["process"] if rows else None

    # ---- order ----

    def _certify(self) -> None:
        """Look for a certificate: in the summaries of the files, or event by event."""
        case, summary = self.case, self.summary
        if summary is None:
            self._rank()
            self._step()
            return
        self.rank = "stamp"
        are_stamped = not case.total("unstamped") and not self.are_restamped
        events = case.total("sends") + case.total("deliveries")
        rising = {edge: are_stamped and is_rising for edge, is_rising in summary.is_rising.items()}
        self.dirty = {edge: 0 if rising.get(edge) else events for edge in _EDGES.values()}

    def _rank(self) -> None:
        """Choose what to rank the messages by."""
        case = self.case
        n, stamps, times = len(case.names), case.range("stamp"), case.range("time")
        by = "position"
        if times is not None and case.total("send_times") == case.total("sends"):
            by, low, high = "time", *times
        if stamps is not None and not case.total("unstamped") and stamps[0] >= 0 and stamps[1] < (1 << 62) // n:
            by, low, high = "stamp", *stamps
            if self.are_restamped and islands.restamped(case.events).count():
                by = "stamp of send"
        if by == "position":
            low, high = 0, 1 << 40
        self.rank, self.low, self.high = by, low * n, (high + 1) * n
        self.ranked = islands.ranked(case.events, by, processes=n)

    def _step(self) -> None:
        """Look for a certificate, event by event."""
        assert self.ranked is not None
        self.steps = islands.stepped(self.ranked, block=self.case.block)
        edges = sorted(set(_EDGES.values()))
        counts = [F.count(f"{edge}_bound").alias(edge) for edge in edges]
        row = self.steps.agg(*counts).collect()[0]
        self.dirty = {edge: row[edge] for edge in edges}

    def _takes_files(self, names: Sequence[str]) -> bool:
        """Whether the observers go through the files of the run as they stand: they can, and there is much to do."""
        case = self.case
        events = case.total("sends") + case.total("deliveries")
        fits = _needs(names, events, case.total("sends")) <= self.budget
        return bool(case.logs) and fits and bool(names or case.total("send_times") or not self.are_complete)

    def _orders(self, names: list[str]) -> dict[str, Check]:
        case = self.case
        events = case.total("sends") + case.total("deliveries")
        proven: dict[str, Check] = {}
        if self.ranked is None:
            self._rank()
            self._step()
            proven, names = self._proven(names)
        fits = _needs(names, events, case.total("sends")) <= self.budget
        return proven | self._observe(names, events, fits=fits)

    def _proven(self, names: Iterable[str]) -> tuple[dict[str, Check], list[str]]:
        """Return what a certificate settles, and what it leaves open."""
        proofs = {"stamp": "the stamps", "stamp of send": "the stamps", "time": "the times of the sends"}
        proof = f"{proofs.get(self.rank, 'the places of the sends')} prove it"
        open_names = [name for name in names if self.dirty[_EDGES[name]]]
        return {
            name: Check(name, VALID, text=f"{_HOLDS[name]}: {proof}", engine="certificate")
            for name in names
            if name not in open_names
        }, open_names

    def _observe(self, names: Sequence[str], events: int, *, fits: bool) -> dict[str, Check]:
        """Have the exact observers judge: the whole run, its islands, or as much of them as fits."""
        checks: dict[str, Check] = {}
        if fits and any(self.dirty[_EDGES[name]] > LARGE_SHARE * events for name in names):
            return self._judge_whole(names)
        for edge in sorted({_EDGES[name] for name in names}):
            checks |= self._judge_islands(edge, [name for name in names if _EDGES[name] == edge])
        return checks

    def _judge_whole(self, names: Sequence[str]) -> dict[str, Check]:
        asked = [*names, *(REMARKS if "causal" in names else ())]
        return self._told(islands.judged(self.case.events, asked, names=len(self.case.names)).collect(), "c")

    def _judge_files(self, names: Sequence[str], judged: frozenset[str]) -> dict[str, Check]:
        """Have the observers judge the files of the run as they stand: order, times, and what is missing."""
        case = self.case
        history = file_stream.history_of(case.logs, len(case.names))
        counts = () if case.is_renamed else tuple(name for name in _COUNTS if name in judged)  # old names tell senders
        results = islands.results_of("", history, [*names, *counts, *REMARKS]).to_pylist()
        self.n_resent = sum(row["count"] for row in results if row["check"] == "resent")
        checks = self._told(results, "c")
        lost, phantom = checks.get("lost"), checks.get("phantom")
        if any(check and check.count for check in (lost, phantom)):
            absent_checks = unknown.tell_absent(lost, phantom, case.run, history, case.holes, case.all_words)
            checks |= {check.name: check for check in absent_checks}
        times = Pace(history, file_stream.rows_by_process(case.logs, len(case.names)))
        self.remarks += times.findings(case.all_words)
        checks["side"] = replace(times.side(case.all_words), engine="c")
        self.figures |= dict(times.figures(case.names))
        return checks

    def _told(self, rows: Iterable[Any], engine: str) -> dict[str, Check]:
        checks = {row["check"]: self.case.check(row, engine) for row in rows}
        for name in REMARKS:
            if (remark := checks.pop(name, None)) and remark.count:
                self.case.findings.append(Finding(name, remark.text, remark.count, process=remark.processes[0]))
        return checks

    def _judge_islands(self, edge: str, names: Sequence[str]) -> dict[str, Check]:
        assert self.ranked is not None
        case, width = self.case, max(1, (self.high - self.low) // STRETCHES)
        spans = islands.islands(islands.dirty(self.steps, edge), width=width)
        land = spans.limit(ISLANDS_MAX + 1).toArrow()
        if land.num_rows > ISLANDS_MAX:
            return self._judge_part(names, self.ranked)
        chosen = islands.within(self.ranked, self.spark.createDataFrame(land, islands.ISLANDS), width=width)
        if _needs(names, case.total("sends") + case.total("deliveries"), case.total("sends")) > self.budget:
            size = chosen.agg(F.count(F.lit(1)).alias("n"), F.count(F.when(relations.is_send(), 1)).alias("sends"))
            row = size.collect()[0]
            if _needs(names, row["n"], row["sends"]) > self.budget:
                return self._judge_part(names, chosen)
        asked = [*names, *(["impossible"] if "causal" in names else ())]
        rows = islands.judged(chosen, asked, names=len(case.names)).collect()
        return {name: self._none(name, "island") for name in names} | self._told(rows, "island")

    def _none(self, name: str, engine: str) -> Check:
        return Check(name, VALID, text=_HOLDS[name], engine=engine)

    def _judge_part(self, names: Sequence[str], chosen: DataFrame) -> dict[str, Check]:
        """Judge the messages with the lowest ranks, as many as fit: what is found is there, what is not may be."""
        case = self.case
        need = _needs(names, case.total("sends") + case.total("deliveries"), case.total("sends"))
        share = min(1.0, 0.9 * self.budget / need)
        cut = self.low + int(share * (self.high - self.low))
        part = chosen.where(F.col("rank") <= cut)
        rows = islands.judged(part, list(names), names=len(case.names)).collect()
        checks = {name: self._none(name, "island") for name in names} | self._told(rows, "island")
        why = f"only the first {share:.0%} of the run were judged, the rest does not fit into memory"
        for name, check in checks.items():
            if check.count:
                checks[name] = replace(check, text=f"{check.text}; {why}", at_least=True)
            else:
                checks[name] = replace(check, verdict=UNKNOWN, text=f"nothing was found, but {why}", at_least=True)
        if "fifo" in checks:
            checks["fifo"] = self._fifo(checks["fifo"])
        return checks

    def _fifo(self, part: Check) -> Check:
        """FIFO is exact whatever the size."""
        rows = relations.fifo(self._firsts(), block=self.case.block).collect()
        if not rows:
            return self._none("fifo", "relational")
        row = rows[0]
        case = self.case
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

    # ---- times ----

    def _firsts(self) -> DataFrame:
        if self.are_complete:
            return self.case.events.withColumn("is_phantom", F.lit(False))
        return relations.first_deliveries(self.case.events, self._copies())

    def _times(self) -> dict[str, Check]:
        case = self.case
        if not case.total("send_times") and not case.total("delivery_times"):
            return {"side": Check("side", UNKNOWN, text="the logs have no times", engine="relational")}
        timed = latencies.timed(self._firsts())  # four looks at what costs a shuffle
        deliveries = timed.persist(StorageLevel.DISK_ONLY)
        try:
            rows = latencies.side(deliveries, block=case.block).collect()
            are_known = self._has_all_times() or not latencies.lacking(deliveries).limit(1).count()
            for name, since, of in (("latency_us", "start_ns", "send_times"), ("queueing_us", "commit_ns", "commits")):
                if case.total(of):
                    took = sorted(latencies.durations(deliveries, since).collect(), key=lambda row: row["process"])
                    self.figures[name] = [
                        {"process": case.names[row["process"]]} | {k: row[k] for k in _FIGURES} for row in took
                    ]
                    rows_by_fan_out = latencies.durations(deliveries, since, "fan_out").collect()
                    self.figures[f"{name}_by_fan_out"] = [
                        {k: row[k] for k in ("fan_out", *_FIGURES)}
                        for row in sorted(rows_by_fan_out, key=lambda row: row["fan_out"])
                    ]
        finally:
            deliveries.unpersist()
        return {"side": self._side(rows, are_known=are_known)}

    def _has_all_times(self) -> bool:
        sends, calls, ends, deliveries, times = (
            self.case.total(name) for name in ("sends", "send_times", "ends", "deliveries", "delivery_times")
        )
        return sends == calls == ends and deliveries == times

    def _side(self, rows: Sequence[Any], *, are_known: bool) -> Check:
        unknown = "nothing was found, but the logs lack some times"
        if not rows:
            if are_known:
                return Check("side", VALID, text=_HOLDS["side"], engine="relational")
            return Check("side", UNKNOWN, text=unknown, engine="relational")
        return self._tell_side(rows[0], at_least=not are_known)

    def _tell_side(self, row: Any, *, at_least: bool) -> Check:
        """The first late delivery, what came before it, and how its message was known to be sent by then."""
        case, late, receiver = self.case, row["messages"][0], row["processes"][0]
        is_late, is_send = F.col("message") == late, relations.is_send()
        of_late = case.events.where(is_late & (is_send | relations.is_delivery())).withColumn("other", F.lit(False))
        others = case.events.where(is_send & (F.col("time_ns") == row["time_ns"])).withColumn("other", F.lit(True))
        events = (
            of_late.unionByName(others).select("other", "kind", "process", "message", "time_ns", "end_ns").collect()
        )
        came = case.events.where((F.col("process") == receiver) & relations.is_delivery())
        candidates = [event["message"] for event in events if event["other"]]
        there = came.where(F.col("message").isin(candidates)).agg(F.min("message").alias("message")).collect()
        other = there[0]["message"]
        known = min(
            (event["end_ns"] if event["kind"] == Kind.SEND else event["time_ns"], event["kind"], event["process"])
            for event in events
            if not event["other"] and (event["end_ns"] if event["kind"] == Kind.SEND else event["time_ns"]) is not None
        )
        old = case.old_names([late, other])
        words = case.words(old.values())
        names = [case.names[receiver], *(case.names[_sender_of(events, m)] for m in (late, other))]
        late_name, other_name = words.message(old[late]), words.message(old[other])
        if known[1] == Kind.SEND:
            how = f"the send of {late_name} by {names[1]} had returned"
        else:
            how = f"{case.names[known[2]]} had delivered {late_name}"
        after_us = (row["time_ns"] - known[0]) / 1e3
        text = (
            f"{names[0]} delivered {other_name} before {late_name}, "
            f"but {names[2]} sent {other_name} {after_us:,.3f} us after {how}"
        )
        return Check(
            "side",
            INVALID,
            row["count"],
            text=text,
            messages=(old[late], old[other]),
            processes=(*names, case.names[known[2]]),
            engine="relational",
            at_least=at_least,
        )

    def _clock(self) -> Check:
        case = self.case
        findings = clock_faults(case.run)
        if not case.total("clocks") and not findings:
            return Check("clock", UNKNOWN, text="the logs have no vector clocks", engine="relational")
        rows = vector_clocks.clock(case.events, names=case.names, torn=self._torn(), block=case.block).collect()
        if findings:
            count = sum(row["count"] for row in rows) + sum(finding.count for finding in findings)
            return Check(
                "clock", INVALID, count, text=findings[0].text, processes=(findings[0].process,), engine="relational"
            )
        if not rows or not rows[0]["count"]:
            return Check("clock", VALID, text="every clock follows from those before it", engine="relational")
        row = rows[0]
        text, messages = row["text"], [message for message in row["messages"] if message is not None]
        old = case.old_names(messages)
        for message in messages:  # the text ends with it
            heard = case.words(old.values()).message(old[message])
            text = f"{text.removesuffix(f'm{message}')}{heard}" if text.endswith(f" and m{message}") else text
        processes = tuple(case.names[process] for process in row["processes"])
        named = tuple(old[message] for message in messages)
        return Check(
            "clock", INVALID, row["count"], text=text, messages=named, processes=processes, engine="relational"
        )

    def _views(self) -> Check:
        case = self.case
        if not case.total("grouped"):
            return Check("views", UNKNOWN, text=views_check.NOTHING, engine="relational")
        places = views.placed(case.events, block=case.block).persist(StorageLevel.DISK_ONLY)  # looked at many times
        try:
            row = views.found(views.faults(places, torn=self._torn())).collect()[0]
            n_sights = row["n"] or places.where("is_sight").count()
        finally:
            places.unpersist()
        if not row["n"]:
            return views_check.unrefuted(n_sights, row["n_open"], engine="relational")
        first = row["first"].asDict()
        messages = [] if first["message"] is None else [first["message"]]
        old = case.old_names(messages)
        names = [case.names[process] for process in (first["process"], first["other"]) if process is not None]
        facts = first | {
            "other": first["other_view"],
            "message": case.words(old.values()).message(old[messages[0]]) if messages else "",
            "names": names,
            "members": [
                [views_check.named(case.names, member) for member in first[of] or ()] for of in ("members", "others")
            ],
        }
        fault = views_check.FAULTS[first["fault"]]
        return Check(
            "views",
            INVALID,
            row["n"],
            text=views_check.tell(fault, facts),
            messages=tuple(old[message] for message in messages),
            processes=tuple(names),
            kinds=(fault,),
            engine="relational",
        )

    def _waits(self) -> None:
        case = self.case
        if not case.total("waits"):
            return
        rows = sorted(latencies.waits(case.events).collect(), key=lambda row: (row["process"], row["to"] == "receive"))
        self.figures["blocked_ms"] = [
            {"process": case.names[row["process"]]} | {k: row[k] for k in ("to", "count", "total", "longest")}
            for row in rows
        ]


def _sender_of(events: Sequence[Any], message: int) -> int:
    return next(int(e["process"]) for e in events if e["message"] == message and e["kind"] == Kind.SEND)


_HOLDS = {
    "fifo": "everybody delivered each sender's messages in the order of sending",
    "causal": "no message was delivered before one in its past",
    "consistent": "any two receivers delivered their common messages in the same order",
    "total": "all delivery orders fit into one",
    "synchronous": "every message could have taken no time",
    "side": "no message was delivered before one that was known to be sent when it was called",
}
