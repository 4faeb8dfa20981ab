# SPDX-License-Identifier: Apache-2.0
"""Many runs: a source is a row, read and judged by the observers in C inside of a task; a verdict row comes back.

Nothing is shuffled: what moves between processes is where a run stands, and what was found.  Sources are dealt out by
size, so that a task has about a second of work: starting one costs 30 to 50 ms of Python.
"""

from __future__ import annotations

import heapq
import json
import os
import pickle
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import types as t

from busq._util.humanize import size
from busq.audit.many import audit_source, memory_bytes, unreadable
from busq.audit.result import CHECKS, Check, Finding, RunAudit, signed, unsigned
from busq.audit.spark.sessions.available import SparkFailed
from busq.audit.spark.sessions.driver import Progress, parallelism
from busq.audit.spark.sessions.session import busy
from busq.audit.spark.sessions.workers import Worker, require
from busq.trace.run import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SCHEMA", "audit", "deal", "verdicts"]

TASK_BYTES = 20 << 20  # about a second of reading and judging Parquet on one core
TASK_BYTES_MIN = 2 << 20
SOURCE_BYTES = 32 << 10  # what opening a source costs, as if it were larger by that
ROWS_PER_BATCH = 500


def _row(**fields: t.DataType) -> t.StructType:
    """A row whose fields always have a value."""
    return t.StructType([t.StructField(name, kind, False) for name, kind in fields.items()])


def _list(of: t.DataType) -> t.ArrayType:
    return t.ArrayType(of, False)


_TEXT, _NUMBER, _FLAG = t.StringType(), t.LongType(), t.BooleanType()

SCHEMA = _row(
    index=_NUMBER,  # of the source, among those given
    run=_TEXT,
    source=_TEXT,
    format=_TEXT,
    order=_TEXT,
    ok=_FLAG,
    processes=_list(_TEXT),
    messages=_NUMBER,
    deliveries=_NUMBER,
    events=_NUMBER,
    checks=_list(
        _row(
            name=_TEXT,
            verdict=_TEXT,
            count=_NUMBER,
            claimed=_FLAG,
            text=_TEXT,
            messages=_list(_NUMBER),
            processes=_list(_TEXT),
            step_messages=_list(_NUMBER),
            step_processes=_list(_TEXT),
            kinds=_list(_TEXT),
            engine=_TEXT,
            at_least=_FLAG,
        )
    ),
    findings=_list(
        _row(kind=_TEXT, text=_TEXT, count=_NUMBER, path=_TEXT, line=_NUMBER, process=_TEXT, is_error=_FLAG)
    ),
    figures=_TEXT,  # JSON: rows by process for each subject
)


# ---- what a user calls ----


def audit(
    spark: SparkSession,
    sources: Sequence[Source],
    *,
    order: str | None = None,
    allow: Sequence[str] = (),
    ask: Sequence[str] = (),
    checks: Sequence[str] = CHECKS,
    progress: Progress | None = None,
) -> list[RunAudit]:
    """Audit every source, and return what was found in the order of the sources.

    `order`, `allow`, `ask` and `checks` mean what they do for ``busq.audit.native.audit``; `progress` is
    that of ``busq.spark.busy``.  A source that can't be read has no checks, and a finding "unreadable".

    Raises SparkFailed inside of ``busq.spark.session``.  Costs 0.2 us per event on 2 cores, and 0.1 s.

    >>> with busq.spark.session() as spark:                                                      # doctest: +SKIP
    ...     [run.ok for run in audit(spark, busq.trace.find(["traces"]).sources)]
    [True, True]
    """
    frame = verdicts(spark, sources, order=order, allow=allow, ask=ask, checks=checks)
    with busy(spark, "runs", progress):
        table = frame.toArrow()
    rows = sorted(table.to_pylist(), key=lambda row: int(row["index"]))
    return [_to_audit(row) for row in rows]


def verdicts(
    spark: SparkSession,
    sources: Sequence[Source],
    *,
    order: str | None = None,
    allow: Sequence[str] = (),
    ask: Sequence[str] = (),
    checks: Sequence[str] = CHECKS,
) -> DataFrame:
    """Return the verdicts on every source as a DataFrame with the columns of SCHEMA, a row each; nothing is judged yet.

    Raises SparkFailed where executors lack busq or do not see the files.

    >>> found = verdicts(spark, sources)                                                         # doctest: +SKIP
    >>> found.write.parquet("verdicts.parquet")                                                  # doctest: +SKIP
    >>> found.selectExpr("run", "explode(checks) as c").where("c.count > 0").show()              # doctest: +SKIP
    """
    workers = require(spark, [path for source in (*sources[:1], *sources[-1:]) for path in source.paths[:1]])
    _check_memory(workers, sources)
    hands = deal(sources, parallelism(spark))
    packed = [zlib.compress(pickle.dumps([(index, sources[index]) for index in hand]), 1) for hand in hands]
    options = _Options(order, tuple(allow), tuple(ask), tuple(checks))
    # A partition for each hand, with one number in it: the hands themselves travel with the function.
    numbers = spark.range(0, len(packed), 1, max(1, len(packed)))
    return numbers.mapInArrow(_Task(packed, options, os.getcwd()), SCHEMA)


def _check_memory(workers: Sequence[Worker], sources: Sequence[Source]) -> None:
    """Raise SparkFailed where the largest run alone is more than the memory of some executor."""
    least = min(workers, key=lambda worker: worker.free_bytes, default=None)
    largest = max(sources, key=memory_bytes, default=None)
    if least and largest and memory_bytes(largest) > least.free_bytes:
        raise SparkFailed(
            f"{largest.name} takes up to {size(memory_bytes(largest))}, and {size(least.free_bytes)} are free on "
            f"{least.host}: audit that run alone, with busq.spark.huge.audit, which spills"
        )


def deal(sources: Sequence[Source], parallelism: int) -> list[list[int]]:
    """Deal sources out into hands of about the same size, the largest first; returns their indices.

    >>> sizes = [10 << 20, 30 << 20, 20 << 20]
    >>> deal([Source(str(size), "busq", (), size) for size in sizes], 2)
    [[1], [2, 0]]
    """
    if not sources:
        return []
    costs = [source.size_bytes + SOURCE_BYTES for source in sources]
    total = sum(costs)
    wanted = -(-total // TASK_BYTES)
    in_rounds = -(-wanted // parallelism) * parallelism  # no core is idle in the last round
    count = max(1, min(in_rounds, total // TASK_BYTES_MIN, len(sources)))
    hands: list[list[int]] = [[] for _ in range(count)]
    heap = [(0, number) for number in range(count)]
    for index in sorted(range(len(sources)), key=lambda index: -costs[index]):
        load, number = heapq.heappop(heap)
        hands[number].append(index)
        heapq.heappush(heap, (load + costs[index], number))
    return hands


# ---- inside of a task ----


@dataclass(frozen=True)
class _Options:
    order: str | None
    allow: tuple[str, ...]
    ask: tuple[str, ...]
    checks: tuple[str, ...]


@dataclass(frozen=True)
class _Task:
    """Takes numbers of hands, gives rows."""

    hands: Sequence[bytes]
    options: _Options
    folder: str  # that relative paths start from

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)  # the tasks beside this one have the other cores
        for batch in batches:
            for number in batch.column(0).to_pylist():
                hand = pickle.loads(zlib.decompress(self.hands[number]))
                for begin in range(0, len(hand), ROWS_PER_BATCH):
                    yield _to_batch(self._judge(hand[begin : begin + ROWS_PER_BATCH]))

    def _judge(self, hand: Sequence[tuple[int, Source]]) -> list[dict[str, Any]]:
        with _inside(self.folder):
            return [_to_row(index, _judge(source, self.options)) for index, source in hand]


@contextmanager
def _inside(folder: str) -> Iterator[None]:
    """Make a folder the current one, if this machine has it."""
    former = os.getcwd()
    if os.path.isdir(folder):
        os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(former)


def _judge(source: Source, options: _Options) -> RunAudit:
    """Read and audit one source; one that can't be read must not end the others."""
    try:
        return audit_source(source, order=options.order, allow=options.allow, ask=options.ask, checks=options.checks)
    except Exception as error:
        return unreadable(source, error)


def _to_batch(rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    from pyspark.sql.pandas.types import to_arrow_schema

    to_arrow: Callable[[Any], pa.Schema] = to_arrow_schema
    return pa.RecordBatch.from_pylist(list(rows), schema=to_arrow(SCHEMA))


# ---- rows ----


def _to_row(index: int, run_audit: RunAudit) -> dict[str, Any]:
    return {
        "index": index,
        "run": run_audit.run,
        "source": run_audit.source,
        "format": run_audit.format,
        "order": run_audit.order,
        "ok": run_audit.ok,
        "processes": list(run_audit.processes),
        "messages": run_audit.messages,
        "deliveries": run_audit.deliveries,
        "events": run_audit.events,
        "checks": [_check_row(check) for check in run_audit.checks.values()],
        "findings": [vars(finding) for finding in run_audit.findings],
        "figures": json.dumps({name: [dict(row) for row in rows] for name, rows in run_audit.figures.items()}),
    }


def _check_row(check: Check) -> dict[str, Any]:
    steps = {
        "messages": [signed(message) for message in check.messages],
        "step_messages": [signed(step[0]) for step in check.steps],
        "step_processes": [step[1] for step in check.steps],
    }
    return {name: value for name, value in vars(check).items() if name != "steps"} | steps


def _to_audit(row: Mapping[str, Any]) -> RunAudit:
    return RunAudit(
        run=row["run"],
        source=row["source"],
        format=row["format"],
        processes=tuple(row["processes"]),
        messages=row["messages"],
        deliveries=row["deliveries"],
        events=row["events"],
        checks={check["name"]: _to_check(check) for check in row["checks"]},
        findings=[Finding(**finding) for finding in row["findings"]],
        figures=json.loads(row["figures"]),
        order=row["order"],
    )


def _to_check(row: Mapping[str, Any]) -> Check:
    return Check(
        name=row["name"],
        verdict=row["verdict"],
        count=row["count"],
        claimed=row["claimed"],
        text=row["text"],
        messages=tuple(map(unsigned, row["messages"])),
        processes=tuple(row["processes"]),
        steps=tuple(zip(map(unsigned, row["step_messages"]), row["step_processes"], strict=True)),
        kinds=tuple(row["kinds"]),
        engine=row["engine"],
        at_least=row["at_least"],
    )
