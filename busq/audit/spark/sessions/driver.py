# SPDX-License-Identifier: Apache-2.0
"""What busq asks of a session besides DataFrames: the one place where classic sessions and Spark Connect differ.

A classic session has Java in reach, and with it the context, its settings and its tasks.  Through Spark Connect there
is a plan that goes out and rows that come back; the same questions are put as small jobs, or to the server.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from busq.audit.spark.sessions.available import is_loaded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "NEEDED",
    "OURS",
    "Progress",
    "active",
    "as_needed",
    "frame_of",
    "interruptible",
    "is_connect",
    "limited",
    "parallelism",
    "setting",
    "shares_files",
    "watched",
    "writes_into",
]

Progress = Callable[[int, int, str], None]  # number, of how many, label
TICK_S = 0.2
AGAIN_S = 0.5
STOP_S = 10.0
NEEDED = {  # settings of a session, whatever else it is used for
    # Below this, Spark (4.3) measures a batch at every row, which takes time by its square where lists are null.
    "spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1),
    # Spark (4.3) fails on a dictionary of more than a page of LZ4, as others write, where it looks there for a value.
    "parquet.filter.dictionary.enabled": "false",
    "spark.sql.legacy.parquet.nanosAsLong": "true",  # else Spark refuses times as pandas writes them
    "spark.sql.session.timeZone": "UTC",  # of times without a zone
}
OURS = "spark.busq.python"  # a setting of sessions that busq started: the Python of their tasks
_ROWS = 1 << 12  # more than there are cores: then each of them gets a part of a range


def is_connect(spark: SparkSession) -> bool:
    """Whether a session speaks to a server through Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def active() -> SparkSession | None:
    """Return the session that is there already, of this thread or of another, classic or not."""
    return _active_connect() or _active_classic()


def _active_connect() -> SparkSession | None:
    if not is_loaded("pyspark.sql.connect.session"):  # none can have been opened
        return None
    from pyspark.sql.connect.session import SparkSession as Remote

    for one in (getattr(Remote._active_session, "session", None), Remote._default_session):
        if one is not None and not one.is_stopped:
            session: SparkSession = one
            return session
    return None


def _active_classic() -> SparkSession | None:
    if not is_loaded("pyspark.core.context"):
        return None
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is None:
        return None
    session: SparkSession | None = SparkSession.getActiveSession()
    return session or SparkSession.builder.getOrCreate()  # a context whose session is another thread's


def frame_of(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Return the rows of an Arrow table: Spark (4.3) leaves out what comes after a batch without rows."""
    from pyspark.sql.pandas.types import from_arrow_schema

    batches = [batch for batch in table.to_batches() if batch.num_rows]
    if not batches:  # through Connect, a table without rows has no columns
        return spark.createDataFrame([], from_arrow_schema(table.schema))
    return spark.createDataFrame(pa.Table.from_batches(batches, table.schema))


@contextlib.contextmanager
def as_needed(spark: SparkSession) -> Iterator[None]:
    """Give a session the settings of NEEDED while a block lasts."""
    with contextlib.ExitStack() as stack:
        for name, value in NEEDED.items():
            stack.enter_context(setting(spark, name, value))
        yield


@contextlib.contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """Give a setting of a session a value while a block lasts."""
    former = spark.conf.get(name, None)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        if former is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, former)


def parallelism(spark: SparkSession) -> int:
    """Return how many tasks run at a time, as far as executors are known by now.

    Cost: nothing, or through Connect a small job.
    """
    if not is_connect(spark):
        return int(spark.sparkContext.defaultParallelism)
    parts: int = spark.range(_ROWS).selectExpr("spark_partition_id()").distinct().count()
    return max(1, parts)


def shares_files(spark: SparkSession) -> bool:
    """Whether tasks run on this machine, and may read and write what this process makes there.

    Cost: nothing, or through Connect, where the server is one machine, a small job in Python.
    """
    if not str(spark.conf.get("spark.master", "")).startswith("local"):
        return False
    if not is_connect(spark):
        return True
    with tempfile.TemporaryDirectory(prefix="busq-look-") as folder:
        return writes_into(spark, folder)


def writes_into(spark: SparkSession, folder: str, tasks: int = 1) -> bool:
    """Whether each of so many tasks leaves a file in a folder of ours.  Cost: a small job in Python."""

    def leave(batches: Iterable[Any]) -> Iterator[Any]:
        import contextlib
        from pathlib import Path

        for batch in batches:
            for number in batch["id"].to_pylist():
                with contextlib.suppress(OSError):
                    (Path(folder) / f"task{number}").touch()
            yield batch

    spark.range(0, tasks, 1, tasks).mapInArrow(leave, "id long").collect()
    return all((Path(folder) / f"task{number}").exists() for number in range(tasks))


@contextlib.contextmanager
def interruptible(spark: SparkSession, name: str) -> Iterator[Callable[[], None]]:
    """Give what ends the jobs of a block when another thread calls it; a job that comes later is not ended by it."""
    if is_connect(spark):
        spark.addTag(name)
        try:
            yield lambda: spark.interruptTag(name) and None
        finally:
            spark.removeTag(name)
        return
    context = spark.sparkContext
    context.setJobGroup(name, name, interruptOnCancel=True)
    try:
        yield lambda: context.cancelJobGroup(name)
    finally:
        for key in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
            context.setLocalProperty(key, None)


@contextlib.contextmanager
def limited(spark: SparkSession, seconds: float) -> Iterator[threading.Event]:
    """End the jobs of a block that take longer: those that no executor takes wait for ever.  The event is set then."""
    ran_out, ended = threading.Event(), threading.Event()
    with interruptible(spark, f"busq-{os.getpid()}") as interrupt:

        def end() -> None:
            while not ended.wait(AGAIN_S if ran_out.is_set() else seconds):
                ran_out.set()
                with contextlib.suppress(Exception):
                    interrupt()  # again and again: the job may only be on its way

        thread = threading.Thread(target=end, daemon=True)
        thread.start()
        try:
            yield ran_out
        finally:
            ended.set()
            thread.join()


# ---- progress ----


@contextlib.contextmanager
def watched(spark: SparkSession, title: str, report: Progress) -> Iterator[None]:
    """Report, while a block lasts, how far its jobs are."""
    with (_told if is_connect(spark) else _asked)(spark, title, report):
        yield


@contextlib.contextmanager
def _told(spark: SparkSession, title: str, report: Progress) -> Iterator[None]:
    """The server reports, every two seconds (spark.connect.progress.reportInterval)."""

    def tell(stages: Iterable[Any] | None, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        counts = [(stage.num_completed_tasks, stage.num_tasks) for stage in stages or () if not stage.done]
        _report(counts, title, report)

    spark.registerProgressHandler(tell)
    try:
        yield
    finally:
        with contextlib.suppress(Exception):  # the session may have ended
            spark.removeProgressHandler(tell)


@contextlib.contextmanager
def _asked(spark: SparkSession, title: str, report: Progress) -> Iterator[None]:
    ended = threading.Event()
    watcher = threading.Thread(target=_ask, args=(spark, title, report, ended), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join(STOP_S)


def _ask(spark: SparkSession, title: str, report: Progress, ended: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    while not ended.wait(TICK_S):
        with contextlib.suppress(Exception):  # Java may be ending
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            _report([(stage.numCompletedTasks, stage.numTasks) for stage in stages if stage], title, report)


def _report(stages: Iterable[tuple[int, int]], title: str, report: Progress) -> None:
    counts = list(stages)
    done, total = sum(count for count, _ in counts), sum(count for _, count in counts)
    report(min(done + 1, total) if total else 1, max(1, total), title if total else f"{title}, planning")
