# SPDX-License-Identifier: Apache-2.0
"""A stranger's run, put into files like busq's own: one process and segment each, in program order.

All rows are moved once, for one sort by process and position; after it, the run is looked at where it stands
(`busq.spark.segments`) instead of being joined with itself.  The sort is by ranges, so a process with half of all
events fills half of the partitions.  The files live as long as the audit, and only where all executors see them: on
one machine where Spark spills, on a cluster in a folder that the caller names.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from busq.audit.spark.large_run.bad_rows import Facts
from busq.audit.spark.large_run.checks import EVENTS
from busq.audit.spark.large_run.load import Loaded
from busq.audit.spark.sessions.driver import parallelism, shares_files, writes_into
from busq.audit.spark.sessions.places import hold, let_go
from busq.trace import places
from busq.trace.errors import TraceError
from busq.trace.schema import SCHEMA

__all__ = ["is_possible", "kept", "remove", "repacked", "staged_in", "workplace"]

ROWS_PER_TASK = 1_000_000
PLACES_MAX = 1024  # processes whose places stand in a plan

_PREFIX = "busq-audit-"
_staging: ContextVar[str] = ContextVar("_staging", default="")  # of this thread: others may audit in the same session

_COLUMNS = [name for name in SCHEMA.names if name != "run"]
_ORDERED = (*(name for name in EVENTS.names if name != "run"), "label", "name")
_FIELDS = {field.name: field.with_nullable(True) for field in SCHEMA}
_FIELDS |= {"name": pa.field("name", pa.int64()), "group": pa.field("group", pa.string())}
_FILE = pa.schema([("process", pa.int32()), ("position", pa.int64()), ("path", pa.string())])


def is_possible(spark: SparkSession) -> bool:
    """Whether all executors see one folder."""
    return bool(_staging.get()) or shares_files(spark)


@contextlib.contextmanager
def staged_in(spark: SparkSession, place: str | os.PathLike[str] | None) -> Iterator[None]:
    """Let files be put into a folder that this machine and all executors see, while a block lasts.

    Errors: TraceError for a folder that is none, or that executors can't write into.
    Cost: a small job in Python.
    """
    if place is None:
        yield
        return
    path = os.path.abspath(place)
    if not os.path.isdir(path):
        raise TraceError(f"{os.fspath(place)}: no such folder: expected one that this machine and all executors see")
    former = _staging.get()
    _staging.set(path)
    try:
        with workplace(spark) as folder:
            if not writes_into(spark, str(folder), parallelism(spark)):
                raise TraceError(
                    f"{os.fspath(place)}: what executors write there is not in that folder here: expected one that "
                    "this machine and all executors see, and may write into"
                )
        yield
    finally:
        _staging.set(former)


@contextlib.contextmanager
def workplace(spark: SparkSession) -> Iterator[Path]:
    """Give a folder in the one for staging, or else beside what Spark spills, that goes with the block."""
    staging = _staging.get()
    folder = hold(Path(staging) if staging else _beside(spark), _PREFIX)
    try:
        yield folder
    finally:
        let_go(folder)


def _beside(spark: SparkSession) -> Path:
    """Return where Spark spills."""
    places = (spark.conf.get("spark.local.dir", "") or "").split(",")
    spilled = next((Path(place) for place in places if Path(place).is_absolute() and Path(place).is_dir()), None)
    return spilled or Path(tempfile.gettempdir())


@contextlib.contextmanager
def kept(frame: DataFrame) -> Iterator[DataFrame]:
    """Give a frame that is joined with itself again and again, kept on disk, while a block lasts.

    In files, where all executors see one folder: a plan begins there, and Spark need not think over what led to it.
    """
    if not is_possible(frame.sparkSession):
        frame = frame.persist(StorageLevel.DISK_ONLY)
        try:
            yield frame
        finally:
            frame.unpersist()
        return
    with workplace(frame.sparkSession) as folder:
        path = places.on_spark(str(folder / "kept"))
        frame.write.parquet(path, compression="snappy")
        yield frame.sparkSession.read.schema(frame.schema).parquet(path)


def remove(folder: Path) -> None:
    """Remove files that were put somewhere, to make room for others."""
    shutil.rmtree(folder, ignore_errors=True)


def repacked(spark: SparkSession, loaded: Loaded, folder: Path) -> Loaded:
    """Return the run in files of a folder, each with a part of the log of one process; `logs` are they in order.

    Errors: SparkFailed inside of `busq.spark.session`, as for a disk that is full.
    Cost: 2 us per event on two cores, and the size of the trace on disk, twice.
    """
    columns = [*_COLUMNS, *(["name"] if loaded.is_renamed else [])]
    events = loaded.events.select(*columns)
    tasks = max(2 * parallelism(spark), -(-loaded.rows // ROWS_PER_TASK))
    in_order = _by_place(events, loaded.facts, tasks).sortWithinPartitions("process", "position")
    target = str(folder)

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _write(batches, target)

    written = in_order.mapInArrow(write, "process int, position bigint, path string").toArrow().to_pylist()
    if not written:
        return loaded
    logs = sorted((row["process"], row["position"], row["path"]) for row in written)
    kinds = {field.name: field.dataType for field in EVENTS} | {"label": T.StringType(), "name": T.LongType()}
    schema = T.StructType([T.StructField(name, kinds[name]) for name in columns])
    frame = spark.read.schema(schema).parquet(*(path for _, _, path in logs))
    named = frame.select(F.lit("").alias("run"), *(name for name in _ORDERED if name in columns))
    return replace(loaded, events=named, logs=[(process, path) for process, _, path in logs])


def _by_place(events: DataFrame, facts: Facts, tasks: int) -> DataFrame:
    """Return events in so many partitions, each with the events between two places in the order of the logs.

    Where it is known between which positions the rows of each process are, they are taken to lie there evenly, which
    spares a look at all of them.
    """
    known = {process: row for process, row in facts.items() if process is not None and row["first"] is not None}
    count = 1 + max(known, default=-1)
    if not 0 < count <= PLACES_MAX or min(known) < 0:
        return events.repartitionByRange(tasks, "process", "position")
    none = {"rows": 0, "first": 0, "last": 0}
    logs = [known.get(process, none) for process in range(count)]
    per_task = sum(log["rows"] for log in logs) / tasks
    shares = [log["rows"] / per_task for log in logs]
    starts = [0.0, *accumulate(shares)][:-1]
    firsts = [float(log["first"]) for log in logs]
    spans = [max(1.0, float(log["last"] - log["first"])) for log in logs]

    def of_process(values: Sequence[float]) -> Column:
        return F.get(F.lit(list(values)), F.col("process"))

    within = (F.col("position").cast("double") - of_process(firsts)) / of_process(spans)
    place = of_process(starts) + F.least(F.greatest(within, F.lit(0.0)), F.lit(1.0)) * of_process(shares)
    number = F.coalesce(F.least(F.floor(place), F.lit(tasks - 1)), F.lit(0)).cast("int")
    return events.repartitionById(tasks, number)


# ---- inside of a task ----


def _write(batches: Iterator[pa.RecordBatch], folder: str) -> Iterator[pa.RecordBatch]:
    """Write rows, sorted by process, to a file for each process; give a row about each file."""
    with contextlib.ExitStack() as files:
        writer, last = None, None
        schema = None
        for batch in batches:
            schema = schema or pa.schema([_FIELDS[name] for name in batch.schema.names])
            for process, rows in _by_process(batch):
                if process != last or writer is None:
                    files.close()
                    path = os.path.join(folder, f"{process}-{uuid.uuid4().hex}.parquet")
                    # Spark's reader cannot unpack a large page of LZ4, such as a dictionary of text ids.
                    writer = files.enter_context(pq.ParquetWriter(path, schema, compression="snappy"))
                    last = process
                    facts = {"process": process, "position": rows["position"][0].as_py(), "path": path}
                    yield pa.RecordBatch.from_pylist([facts], schema=_FILE)
                writer.write_table(pa.Table.from_batches([rows]).cast(schema))
    pa.default_memory_pool().release_unused()  # the worker stays, and others want its memory


def _by_process(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    begin = 0
    processes = batch.column("process").to_numpy()
    while begin < len(processes):
        end = int(processes.searchsorted(processes[begin], side="right"))
        yield int(processes[begin]), batch.slice(begin, end - begin)
        begin = end
