# SPDX-License-Identifier: Apache-2.0
"""A huge run before its judge: its events as a DataFrame, what each log has and lacks, and words for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812

from busq._util.humanize import amount
from busq.audit import unknown
from busq.audit.deaths import Deaths
from busq.audit.message_names import Words
from busq.audit.result import INVALID, VALID, Check, signed, unsigned
from busq.audit.spark.large_run import checks, layout
from busq.audit.spark.large_run.load import Loaded
from busq.lab.witness import Witness, describe
from busq.trace.errors import TraceError
from busq.trace.finding import Finding
from busq.trace.guesses import doubled, one_sided
from busq.trace.run import Run, Source
from busq.trace.schema import Kind

__all__ = ["Case"]

PROCESSES_MAX = 65536


def _profile(events: DataFrame) -> DataFrame:
    """A row for each process: how much of what there is in its log."""
    send, delivery = checks.is_send(), checks.is_delivery()
    both = send | delivery

    def count(what: Any) -> Any:
        return F.coalesce(F.count(F.when(what, 1)), F.lit(0))

    def of(kind: Kind) -> Any:
        return F.col("kind") == int(kind)

    return events.groupBy("process").agg(
        F.count(F.lit(1)).alias("rows"),
        count(send).alias("sends"),
        count(delivery).alias("deliveries"),
        count(of(Kind.ABORT) | of(Kind.REDELIVER)).alias("unsettled"),
        count(of(Kind.REDELIVER)).alias("repetitions"),
        count(of(Kind.GAP)).alias("gaps"),
        count(of(Kind.BLOCK)).alias("waits"),
        count(of(Kind.PASS)).alias("passes"),
        F.min("position").alias("first"),
        F.max("position").alias("last"),
        F.max(F.when(of(Kind.DIE), F.col("position"))).alias("died_high"),
        F.max(F.when(of(Kind.JOIN), F.col("position"))).alias("joined_high"),
        F.max(F.when(send, F.col("message"))).alias("highest"),
        F.greatest(F.max(F.array_max("destinations")), F.max(F.size("clock")) - 1).alias("farthest"),
        count(both & F.col("stamp").isNull()).alias("unstamped"),
        F.min(F.when(both, F.col("stamp"))).alias("stamp_low"),
        F.max(F.when(both, F.col("stamp"))).alias("stamp_high"),
        count(delivery & F.col("time_ns").isNotNull()).alias("delivery_times"),
        count(send & F.col("time_ns").isNotNull()).alias("send_times"),
        count(send & F.col("end_ns").isNotNull()).alias("ends"),
        count(send & F.col("commit_ns").isNotNull()).alias("commits"),
        F.min(F.when(send, F.col("time_ns"))).alias("time_low"),
        F.max(F.when(send, F.col("time_ns"))).alias("time_high"),
        count(F.col("clock").isNotNull()).alias("clocks"),
        count(F.col("group").isNotNull()).alias("grouped"),
        count(send & F.col("label").isNotNull()).alias("labels"),
    )


class Case:
    """A run before its judge.

    `profile`: what is in each log, if that is known already; else it takes a pass over the run.
    """

    def __init__(
        self, loaded: Loaded, source: Source, profile: Mapping[int, Mapping[str, int | None]] | None = None
    ) -> None:
        self.source = source
        self.logs = loaded.logs
        self.findings = list(loaded.findings)
        self.is_derived, self.is_live = loaded.is_derived, loaded.is_live
        self.tells_senders = loaded.tells_senders
        self.events = loaded.events
        self.called = loaded.called
        self.profile: Mapping[int, Any] = _collect(self.events) if profile is None else profile
        self.placed = self.events if loaded.placed is None else loaded.placed
        self.ties = (
            _count_ties(self.placed)
            if profile is None or loaded.placed is not None
            else {p: row["doubled"] for p, row in profile.items()}
        )
        self.rows = self.total("rows")
        count = 1 + max((max(p, row["farthest"] or 0) for p, row in self.profile.items()), default=-1)
        if count > PROCESSES_MAX or min(self.profile, default=0) < 0:
            raise TraceError(
                f"{source.name}: processes are called by numbers up to {count - 1:,}: Spark expects indices from 0 on,"
                " or text; --engine c maps them"
            )
        self.names = (*loaded.names, *(f"p{index}" for index in range(len(loaded.names), count)))
        self.is_renamed = loaded.is_renamed
        self.kept: DataFrame | None = None
        if loaded.is_foreign:
            self.findings += one_sided(source, self.total("sends"), self.total("deliveries"))
        has_repetitions = bool(self.total("repetitions"))
        self._settle()
        if self.total("passes"):
            self.events = checks.without_passed(self.events)
        self.deaths = self._deaths()
        self.findings += self.deaths.findings(self.names)
        if self.deaths:
            self.events = checks.without_spared(self.events, self.deaths)
        if not (loaded.may_number_all and self._number_all()):
            self._find_holes(has_repetitions)

    def total(self, name: str) -> int:
        """The sum of a figure over all processes."""
        return sum(row[name] or 0 for row in self.profile.values())

    @property
    def n_events(self) -> int:
        """How many sends and deliveries there are."""
        return self.total("sends") + self.total("deliveries")

    def range(self, name: str) -> tuple[int, int] | None:
        """The least and greatest value of a column, "stamp" or "time", if there is one."""
        lows = [row[f"{name}_low"] for row in self.profile.values() if row[f"{name}_low"] is not None]
        highs = [row[f"{name}_high"] for row in self.profile.values() if row[f"{name}_high"] is not None]
        return (min(lows), max(highs)) if lows else None

    @property
    def block(self) -> int:
        """How many positions make a block: more where they are not dense."""
        spans = [(row["last"] - row["first"] + 1) / row["rows"] for row in self.profile.values()]
        return max(1, int(checks.BLOCK * max(spans, default=1.0)))

    def _deaths(self) -> Deaths:
        rows = [self.profile.get(process, {}) for process in range(len(self.names))]
        died, joined = ([_of(row, name) for row in rows] for name in ("died_high", "joined_high"))
        return Deaths(died, [it < back for it, back in zip(died, joined, strict=True)])

    def _settle(self) -> None:
        if not self.total("unsettled"):
            return
        repetitions, deliveries = self.total("repetitions"), self.total("deliveries")
        self.logs = ()
        self.events = checks.settled(self.events)
        self.profile = _collect(self.events)
        self.findings += layout.told_again(repetitions - (self.total("deliveries") - deliveries))

    def _find_holes(self, has_repetitions: bool) -> None:
        told = {finding.process for finding in self.findings if finding.kind == "doubled"}
        for process, row in sorted(self.profile.items()):
            lacking = row["last"] - row["first"] + 1 - row["rows"] + (row["first"] if row["first"] > 1 else 0)
            if lacking > 0:
                text = f"{amount(lacking, 'event')} of {self.names[process]} are missing: its positions have holes"
                self.findings.append(Finding("gap", text, lacking, process=self.names[process]))

            if (ties := self.ties.get(process, 0)) and self.names[process] not in told:
                self.findings.append(doubled("", self.names[process], ties, has_repetitions=has_repetitions))

    def _number_all(self) -> bool:
        """Return whether positions number the rows of all processes together, as those of a table do."""
        rows, first = self.total("rows"), min((row["first"] for row in self.profile.values()), default=0)
        if len(self.profile) < 2 or first > 1:
            return False
        is_dense = max(row["last"] for row in self.profile.values()) - first + 1 == rows
        return bool(is_dense and self.events.select("position").distinct().count() == rows)

    def rename(self) -> None:
        """Name the messages anew, because their names are not those that are relied on; `close` when done."""
        sends, before = self.total("sends"), self.events
        lows, highs = ([row[name] for row in self.profile.values()] for name in ("first", "last"))
        renamed = layout.named_anew(before, min(lows), max(highs), has_ties=any(self.ties.values()))
        self.events = self.kept = renamed.persist(StorageLevel.DISK_ONLY)  # it is looked at again and again
        self.profile = _collect(self.events)
        self.is_renamed = True
        self.findings += layout.resent_findings(before, sends - self.total("sends"), self.names)

    def close(self) -> None:
        """Let go of what is kept on disks."""
        if self.kept is not None:
            self.kept.unpersist()

    # ---- in words ----

    @cached_property
    def run(self) -> Run:
        """The run without its events, for putting verdicts into words: its logs show only whether they are empty."""
        columns = {"kind": pa.int8(), "message": pa.int64(), "label": pa.string()}
        logs = [
            pa.table({name: pa.nulls(int(process in self.profile), kind) for name, kind in columns.items()})
            for process in range(len(self.names))
        ]
        return Run(self.source, self.names, tuple(logs), findings=self.findings, is_derived=self.is_derived)

    @cached_property
    def holes(self) -> list[bool]:
        """Whether the log of each process lacks events."""
        gaps = [self.profile[p]["gaps"] if p in self.profile else 0 for p in range(len(self.names))]
        return unknown.incomplete(self.run, [[0] * int(Kind.GAP) + [gap] for gap in gaps])

    @property
    def torn(self) -> list[int]:
        """The processes whose logs lack events."""
        return [process for process, is_torn in enumerate(self.holes) if is_torn]

    def words(self, messages: Iterable[int]) -> Words:
        """Names for the processes and these messages."""
        wanted = sorted(signed(message) for message in set(messages))
        if not wanted or not self.total("labels"):
            return Words(self.run)
        name = F.col("name" if self.is_renamed else "message")
        labelled = self.events.where(name.isin(wanted) & F.col("label").isNotNull())
        rows = labelled.groupBy(name.alias("message")).agg(
            F.min(F.when(checks.is_send(), F.col("label"))).alias("sent"), F.min("label").alias("label")
        )
        labels = {row["message"]: row["sent"] or row["label"] for row in rows.collect()}
        unsent = [message for message in wanted if message not in labels]
        if unsent and self.called is not None:
            rows = self.called.where(F.col("message").isin(unsent)).distinct()
            labels |= {row["message"]: row["label"] for row in rows.collect()}
        return Words(self.run, {unsigned(message): label for message, label in labels.items()})

    @cached_property
    def all_words(self) -> Words:
        """Names for the processes and any message, each looked up when it is asked for."""
        return _Asking(self)

    def old_names(self, messages: Iterable[int]) -> dict[int, int]:
        """The names of messages before `rename`."""
        wanted = sorted(set(messages))
        if not self.is_renamed or not wanted:
            return {message: unsigned(message) for message in wanted}
        rows = self.events.where(F.col("message").isin(wanted)).select("message", "name").distinct().collect()
        return {row["message"]: unsigned(row["name"]) for row in rows}

    def checks(self, rows: Sequence[Row | Mapping[str, Any]], engine: str, *, are_old: bool) -> list[Check]:
        """Verdicts of the observers from rows of RESULTS; `are_old`: their names of messages are those of before."""
        ours = {m for row in rows for m in (*(row["messages"] or []), *(s["message"] for s in row["steps"] or []))}
        old = {message: unsigned(message) for message in ours} if are_old else self.old_names(ours)
        words = self.words(old.values())
        return [self._check(row, engine, old, words) for row in rows]

    def _check(self, row: Row | Mapping[str, Any], engine: str, old: Mapping[int, int], words: Words) -> Check:
        witness = Witness(
            tuple(old[message] for message in row["messages"] or []),
            tuple(self.names[process] for process in row["processes"] or []),
            tuple((old[step["message"]], self.names[step["process"]]) for step in row["steps"] or []),
            row["steps_left_out"] or 0,
            tuple(row["kinds"] or ()),
            row["messages_left_out"] or 0,
        )
        return Check(
            row["check"],
            INVALID if row["count"] else VALID,
            row["count"],
            text=describe(row["check"], witness if row["count"] else None, words.message),
            messages=witness.messages,
            processes=witness.processes,
            steps=witness.steps,
            kinds=witness.kinds,
            engine=engine,
        )


class _Asking(Words):
    """Asks a case for the names of messages."""

    def __init__(self, case: Case) -> None:
        super().__init__(case.run)
        self._case = case

    def _name(self, message: int) -> str:
        return self._case.words([message]).message(message)


def _of(row: Any, name: str) -> int:
    return -1 if name not in row or row[name] is None else int(row[name])


def _count_ties(events: DataFrame) -> dict[int, int]:
    """Count, by process, the events at positions that others have as well."""
    places = events.groupBy("process", "position").agg((F.count(F.lit(1)) - 1).alias("more")).where("more > 0")
    return {row["process"]: row["ties"] for row in places.groupBy("process").agg(F.sum("more").alias("ties")).collect()}


def _collect(events: DataFrame) -> dict[int, Row]:
    return {row["process"]: row for row in _profile(events).collect()}
