# SPDX-License-Identifier: Apache-2.0
"""Grids of simulations on Spark: tasks that simulate and write, and what comes of them in SQL.

A row of the first DataFrame is a task: cells for about two seconds, simulated one after the other by the C core inside
`mapInArrow`.  Each task writes its file by itself, so that a kill loses what runs and no more; what Spark
hands back is a row of counts.  Means, intervals, ratios and winners are then queries over those files.

The directory must be one that all executors see.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.window import Window

from busq.audit.spark.sessions.driver import interruptible, parallelism, setting
from busq.audit.spark.sessions.workers import require
from busq.lab.sweep import flow, result_files
from busq.lab.sweep.cells import Cell, Task, simulator
from busq.lab.sweep.estimate import t95
from busq.lab.sweep.flow import Answers, Progress
from busq.lab.sweep.grid import PARAMETERS, RESULTS, Comparison, Grid, Winner
from busq.lab.sweep.result import SweepResult

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["PLAN", "TASKS", "OnSpark", "comparisons", "measure", "points", "rows", "sweep", "winners"]

TASKS = T.StructType(
    [
        T.StructField("task", T.LongType(), False),
        T.StructField("cells", T.ArrayType(T.StringType(), False), False),
        T.StructField("numbers", T.ArrayType(T.LongType(), False), False),
        T.StructField("seeds", T.ArrayType(T.LongType(), False), False),
        T.StructField("refused", T.ArrayType(T.StringType(), False), False),
    ]
)
ROWS_PER_PARTITION = 50_000  # of what is small; Spark's own 200 partitions cost more than the work in them
FREEDOM_TABLE = 30  # degrees of freedom up to which Student's t is looked up
Z_FREEDOM = 10**9  # where it is the normal distribution
MEASURED = "task long, file string, cells long, failed long, seconds double"
PLAN = T.StructType(
    [
        T.StructField("cell", T.StringType(), False),
        T.StructField("number", T.LongType(), False),
        T.StructField("situation", T.StringType(), False),
        T.StructField("grid", T.StringType(), False),
    ]
)
_TYPES = {"string": "string", "int64": "bigint", "float64": "double", "bool_": "boolean"}


def sweep(
    spark: SparkSession,
    grid: Grid,
    directory: str,
    *,
    limit: int | None = None,
    progress: Progress | None = None,
) -> SweepResult:
    """Simulate what `directory` does not have yet of a grid, and return what all of it comes to.

    Parameters: `limit`, only so many simulations, the first; `progress(done, total)` is called as tasks end.
    Errors: GridError, `busq.lab.sweep.SweepError`, OSError.  Cost: that of the simulations, a twentieth of a second
    per task of two seconds, and some seconds for the queries.

    >>> with busq.spark.session("local[2]") as spark:                                            # doctest: +SKIP
    ...     sweep(spark, busq.lab.sweep.read("fig6"), "fig6.sweep").measured
    160
    """
    return flow.sweep(grid, directory, OnSpark(spark), limit=limit, progress=progress)


class OnSpark:
    """An engine for `busq.lab.sweep.flow.sweep`: a session."""

    name = "spark"

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.cores = parallelism(spark)

    def measure(self, grid: Grid, dealt: Sequence[Task], directory: str, progress: Progress | None) -> float:
        """Simulate tasks, each of which writes its file; return how long the simulations took, added up."""
        return measure(self._spark, grid, dealt, directory, progress)

    def ask(self, grid: Grid, files: Sequence[Path], chosen: Sequence[Cell]) -> Answers:
        """Make points, comparisons and winners of what the files have of the chosen cells."""
        spark = self._spark
        spread = max(self.cores, len(chosen) // ROWS_PER_PARTITION)
        with setting(spark, "spark.sql.shuffle.partitions", str(spread)):
            results = rows(spark, files, chosen).repartition(spread, "situation").cache()
            try:
                return Answers(
                    _rows_of(points(results, grid)),
                    [row for one in grid.comparisons for row in _rows_of(comparisons(results, grid, one))],
                    [row for one in grid.winners for row in _rows_of(winners(results, grid, one))],
                )
            finally:
                results.unpersist()


# ---- simulating ----


def measure(
    spark: SparkSession, grid: Grid, dealt: Sequence[Task], directory: str, progress: Progress | None = None
) -> float:
    """Simulate tasks on Spark, each of which writes its file; return how long the simulations took, added up.

    Errors: SweepError where the directory is not one that executors share.
    """
    if not dealt:
        return 0.0
    where = str(Path(directory).resolve())
    require(spark, [where])
    answers = _tasks(spark, dealt).mapInArrow(_simulating(grid, where), MEASURED)
    with _watching(spark, dealt, where, progress):
        answered = answers.collect()  # a row per task
    here = result_files.listed(where)
    absent = [row for row in answered if row["file"] not in here]
    if absent:
        raise result_files.SweepError(
            f"{directory}: {len(absent):,} of {len(answered):,} files were written elsewhere: "
            "expected a directory that this machine and all executors share"
        )
    return float(sum(row["seconds"] for row in answered))


def _tasks(spark: SparkSession, dealt: Sequence[Task]) -> DataFrame:
    """A row per task, in a partition of its own."""
    listed = [
        (
            task.number,
            [cell.identity for cell in task.cells],
            [cell.number for cell in task.cells],
            [cell.seed for cell in task.cells],
            [cell.refused for cell in task.cells],
        )
        for task in dealt
    ]
    frame = spark.createDataFrame(listed, TASKS)
    places = spark.range(0, len(listed), 1, len(listed)).withColumnRenamed("id", "task")
    return places.join(F.broadcast(frame), on="task", how="inner")


def _simulating(grid: Grid, directory: str) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """The work of a task; it takes the grid along, which is small."""

    def work(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for row in batch.to_pylist():
                cells = [
                    result_files.measure(cell, grid.point(number), seed, refused)
                    for cell, number, seed, refused in zip(
                        row["cells"], row["numbers"], row["seeds"], row["refused"], strict=True
                    )
                ]
                path = result_files.write(cells, directory)
                answer = {
                    "task": row["task"],
                    "file": path.name,
                    "cells": len(cells),
                    "failed": sum(one["error"] is not None for one in cells),
                    "seconds": sum(one["seconds"] for one in cells),
                }
                yield pyarrow.RecordBatch.from_pylist([answer])

    return work


@contextlib.contextmanager
def _watching(spark: SparkSession, dealt: Sequence[Task], directory: str, progress: Progress | None) -> Iterator[None]:
    """Report how far the tasks are, by the files that appear; end them on request."""
    total = sum(len(task.cells) for task in dealt)
    tag = f"busq-sweep-{id(dealt)}"
    with result_files.watching(directory, total, progress), interruptible(spark, tag) as interrupt:
        try:
            yield
        except BaseException:
            with contextlib.suppress(Exception):  # it may have ended before us
                interrupt()
            raise


# ---- what comes of it ----
#
# Rows are partitioned by situation once, when they are cached; every query then groups by the situation and something
# else, so that it is one stage, without a shuffle or a join.


def rows(spark: SparkSession, files: Sequence[Path], chosen: Sequence[Cell]) -> DataFrame:
    """Return a row per chosen cell and table of the grid: what was measured, or why not.

    A cell that was measured twice counts once; one without a result has an `error`, and nothing else.
    """
    listed = [(cell.identity, cell.number, cell.situation, cell.table) for cell in chosen]
    plan = spark.createDataFrame(pyarrow.table(list(zip(*listed, strict=True)), PLAN.names), PLAN)
    schema = ", ".join(f"{name} {_TYPES[kind]}" for name, kind in result_files.columns().items())
    reader = spark.read.schema(schema)
    table = reader.parquet(*map(_path, files)) if files else spark.createDataFrame([], schema)
    once = Window.partitionBy("cell").orderBy(F.col("error").isNotNull(), "error")
    measured = (
        table.where(F.col("simulator") == simulator())
        .withColumn("place", F.row_number().over(once))
        .where(F.col("place") == 1)
        .drop("place")
    )
    results = [F.when(F.col("error").isNull(), F.col(name)).alias(name) for name in RESULTS]
    rest = ["number", "situation", "grid", "seed", "error", *PARAMETERS]
    return plan.join(measured, on="cell", how="inner").select(*rest, *results)


def _path(path: Path) -> str:
    """A path as Spark takes it: without what would be a pattern."""
    return "".join(f"\\{letter}" if letter in "\\[]{}*?" else letter for letter in str(path.resolve()))


def _number(value: Column | str) -> Column:
    """A value as a number; NaN counts as absent."""
    number = (F.col(value) if isinstance(value, str) else value).cast("double")
    return F.when(~F.isnan(number), number)


def _mean(value: Column | str) -> Column:
    return F.avg(_number(value))


def _half(value: Column | str) -> Column:
    """Half of the 95 % interval of a mean, by Student's t; null for fewer than two."""
    number = _number(value)
    count = F.count(number)
    table = F.array(*(F.lit(t95(freedom)) for freedom in range(1, FREEDOM_TABLE + 1)))
    z = t95(Z_FREEDOM)
    far = F.lit(z) + (z**3 + z) / (4 * (count - 1))
    t = F.when(count - 1 <= FREEDOM_TABLE, F.try_element_at(table, (count - 1).cast("int"))).otherwise(far)
    return F.when(count > 1, t * F.stddev_samp(number) / F.sqrt(count))


def _rounded(name: str) -> Column:
    """To twelve digits: what is level but for rounding is level, in whatever order numbers were added."""
    return F.when(F.col(name).isNotNull(), F.format_string("%.11e", name).cast("double"))


def _places(grid: Grid, *, with_order: bool) -> list[str]:
    """The columns that identify the rows of a result: the table, and the axes of the grid."""
    axes = [name for name in PARAMETERS if name in grid.axes and name != "order"]
    return ["grid", *(["order"] if with_order else []), *axes]


def points(results: DataFrame, grid: Grid) -> DataFrame:
    """Return a row per table and combination: means, intervals, repeats in the order of the seeds."""
    good = F.col("error").isNull()
    figures = []
    repeats = []
    for name in grid.keep:
        listed = F.array_sort(F.collect_list(F.when(good, F.struct("seed", name)))).getField(name)
        repeats.append(F.when(F.size(listed) > 0, listed).alias(f"{name}_repeats"))
        figures += [_mean(name).alias(name), _half(name).alias(f"{name}_ci95")]
    failures = [
        F.count(F.when(good, 1)).alias("seeds"),
        F.count("error").alias("failed"),
        F.min("error").alias("error"),
    ]
    places = _places(grid, with_order=True)
    return results.groupBy("situation", "number", *places).agg(*failures, *figures, *repeats).drop("situation")


def comparisons(results: DataFrame, grid: Grid, comparison: Comparison) -> DataFrame:
    """Return a row per situation and compared order: how many times lower its value is than that of `over`."""
    twins = Window.partitionBy("situation", "seed")
    value = _number(comparison.value)
    base = F.max(F.when(F.col("order") == comparison.over, value)).over(twins)
    places = _places(grid, with_order=True)
    return (
        results.withColumn("ratio", F.try_divide(base, value))
        .where(F.col("order").isin(list(comparison.orders)))
        .groupBy("situation", "number", *places)
        .agg(_mean("ratio").alias("mean"), _half("ratio").alias("ratio_ci95"))
        .where(F.col("mean").isNotNull())
        .select(
            "number",
            F.lit(comparison.name).alias("comparison"),
            *places,
            F.lit(comparison.over).alias("over"),
            F.col("mean").alias("ratio"),
            "ratio_ci95",
        )
    )


def winners(results: DataFrame, grid: Grid, contest: Winner) -> DataFrame:
    """Return a row per situation: the order with the lowest mean, and those that do not differ from it.

    An order is level with the winner where the 95 % interval of its ratio to it, seed by seed, reaches down to 1.
    """
    places = _places(grid, with_order=False)
    everywhere = Window.partitionBy("situation")
    judged = (
        results.where(F.col("order").isin(list(contest.orders)))
        .withColumn("value", _number(contest.value))
        .withColumn("mean", F.avg("value").over(Window.partitionBy("situation", "order")))
        .withColumn("rank", F.when(F.col("mean").isNotNull(), F.struct(_rounded("mean"), "order")))
        .withColumn("first", F.min("rank").over(everywhere).getField("order"))
        .withColumn(
            "best",
            F.max(F.when(F.col("order") == F.col("first"), F.col("value"))).over(
                Window.partitionBy("situation", "seed")
            ),
        )
        .withColumn("ratio", F.try_divide("value", "best"))
        .groupBy("situation", "order", "first", *places)
        .agg(
            F.min("number").alias("number"),
            _mean("value").alias("value"),
            _half("value").alias("half"),
            _mean("ratio").alias("ratio"),
            _half("ratio").alias("ratio_half"),
            F.count("error").alias("failed"),
        )
    )
    is_first = F.col("order") == F.col("first")
    reaches = F.col("ratio") - F.coalesce("ratio_half", F.lit(0.0))
    rival = F.when(~is_first & F.col("ratio").isNotNull(), F.struct("ratio", "order"))
    level = F.array_sort(F.collect_list(F.when(~is_first & (reaches <= 1), F.col("order"))))
    return (
        judged.where(F.col("first").isNotNull())
        .groupBy("situation", *places)
        .agg(
            F.min("number").alias("number"),
            F.min("first").alias("order"),
            F.max(F.when(is_first, F.col("value"))).alias(contest.value),
            F.max(F.when(is_first, F.col("half"))).alias(f"{contest.value}_ci95"),
            F.min(rival).alias("rival"),
            level.alias("level"),
            F.array_sort(F.collect_set(F.when(F.col("failed") > 0, F.col("order")))).alias("missing"),
        )
        .select(
            "number",
            F.lit(contest.name).alias("winner"),
            *places,
            "order",
            contest.value,
            f"{contest.value}_ci95",
            F.col("rival.order").alias("next"),
            F.col("rival.ratio").alias("margin"),
            "level",
            (F.size("level") == 0).alias("clear"),
            "missing",
        )
    )


def _rows_of(table: DataFrame) -> list[dict[str, Any]]:
    """The rows of a result in the order of the grid: as many as it has points, and no more."""
    ordered = sorted(table.toArrow().to_pylist(), key=lambda row: int(row["number"]))
    return [{name: value for name, value in row.items() if name != "number"} for row in ordered]
