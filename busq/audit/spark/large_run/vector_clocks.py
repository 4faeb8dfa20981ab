# SPDX-License-Identifier: Apache-2.0
"""Vector clocks of a huge run, verified and not rebuilt: does each follow from the one before and from what came since?

If none is wrong, all are right.  A row after a wrong one may be called wrong, though it is right; the first one is.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from busq.audit.spark.large_run.checks import BLOCK, before, is_delivery, is_send, result

__all__ = ["clock"]


def clock(events: DataFrame, *, names: Sequence[str], torn: Sequence[int] = (), block: int = BLOCK) -> DataFrame:
    """Count the rows whose clock does not follow from those it rests on: RESULTS, of every run that has clocks.

    Right is, in each component, the greatest of the clock before in the same log and of the messages delivered since;
    in the own one, one more than before.  A message has the last clock of its sender's log up to its send.  Where it
    has none, components may be greater, and so where the own one rises by more in a log that lacks events (`torn`).

    `names`: what the texts call the processes.  Cost: four joins, on the rows that have clocks.

    The example gives clocks to the `events` of `busq.spark.checks`, and forgets in one what came with message 2.

    >>> right = "CASE process WHEN 0 THEN array(position + 1, 0L) ELSE array(2L, position + 1) END"
    >>> clocked = events.withColumn("clock", F.expr(right))
    >>> clock(clocked, names=["ann", "bob"]).select("count").collect()
    [Row(count=0)]
    >>> wrong = "CASE WHEN process = 1 AND position = 0 THEN array(1L, 1L) ELSE clock END"
    >>> clock(clocked.withColumn("clock", F.expr(wrong)), names=["ann", "bob"]).collect()[0]["text"]
    'the clock of bob at position 0 counts 1 events of ann, not 2, which is what follows from its clock before and m2'
    """
    clock = F.when(F.size("clock") > 0, F.col("clock"))
    chosen = events.select("run", "process", "position", "kind", "message", clock.alias("clock"))
    ticks = chosen.where(F.col("clock").isNotNull())
    ticked = before(chosen, {"tick": F.when(F.col("clock").isNotNull(), F.col("position"))}, block=block)
    since = ticked.withColumn("since", F.coalesce("tick_before", F.lit(-1))).drop("tick_before")
    known = (
        ticks.select("run", "process", "position", "clock")
        .withColumnRenamed("clock", "known")
        .withColumnRenamed("position", "since")
    )
    held = since.join(known, on=["run", "process", "since"], how="left")
    carried = held.where(is_send()).select("run", "message", F.coalesce("clock", "known").alias("carried"))
    came = since.where(is_delivery()).select("run", "process", "since", "message")
    heard = came.join(carried, on=["run", "message"], how="left").groupBy("run", "process", "since").agg(
        _joined(F.collect_list("carried")).alias("heard"),
        F.max(F.col("carried").isNull()).alias("is_vague"),
        F.max("message").alias("message"),
    )  # fmt: skip
    rows = held.where(F.col("clock").isNotNull()).drop("message")
    judged = rows.join(heard, on=["run", "process", "since"], how="left")
    return _told(_compared(judged, torn), names)


def _joined(clocks: Column) -> Column:
    nothing = F.array().cast("array<bigint>")
    return F.reduce(clocks, nothing, lambda one, other: F.zip_with(one, other, lambda a, b: F.greatest(a, b)))


def _others(clock: str) -> Column:
    """A clock without the component of its process."""
    there = F.coalesce(F.col(clock), F.array().cast("array<bigint>"))
    return F.transform(there, lambda part, index: F.when(index == F.col("process"), 0).otherwise(part))


def _own(clock: str) -> Column:
    return F.coalesce(F.get(F.col(clock), F.col("process")), F.lit(0))


def _compared(judged: DataFrame, torn: Sequence[int]) -> DataFrame:
    """Add which component is wrong, what was found there and what is right: `fault`, null where the clock is right."""
    following = _own("known") + 1
    has_jumped = _own("clock") > following
    is_torn = F.col("process").isin(list(torn))
    is_own_wrong = (_own("clock") < following) | (has_jumped & ~is_torn)
    is_loose = has_jumped | F.coalesce("is_vague", F.lit(False))
    right = F.zip_with(_others("known"), _others("heard"), lambda a, b: F.greatest(a, b))
    pairs = F.zip_with(
        _others("clock"),
        right,
        lambda count, least: F.struct(
            F.coalesce(count, F.lit(0)).alias("found"), F.coalesce(least, F.lit(0)).alias("right")
        ),
    )
    numbered = F.transform(pairs, lambda pair, index: pair.withField("component", index))
    wrong = F.filter(
        numbered, lambda pair: (pair["found"] < pair["right"]) | ((pair["found"] > pair["right"]) & ~F.col("is_loose"))
    )
    own = F.struct(
        _own("clock").alias("found"), following.alias("right"), F.col("process").cast("int").alias("component")
    )
    fault = F.when(is_own_wrong, own).otherwise(F.get(wrong, F.lit(0)))
    return judged.withColumn("is_loose", is_loose).withColumn("fault", fault)


def _told(compared: DataFrame, names: Sequence[str]) -> DataFrame:
    called = F.array(*(F.lit(name) for name in names))

    def name(index: str) -> Column:
        return F.get(called, F.col(index))

    first = F.struct("process", "position", "fault", "message")
    counted = compared.groupBy("run").agg(
        F.count("fault").alias("n"), F.min(F.when(F.col("fault").isNotNull(), first)).alias("first")
    )
    where = [F.lit("the clock of "), name("first.process"), F.lit(" at position "), F.col("first.position")]
    count, right = F.col("first.fault.found"), F.col("first.fault.right")
    own = F.concat(*where, F.lit(" says that this is its event "), count, F.lit(", not "), right)
    heard = F.coalesce(F.concat(F.lit(" and m"), F.col("first.message")), F.lit(""))
    other = F.concat(
        *where, F.lit(" counts "), count, F.lit(" events of "), name("first.fault.component"), F.lit(", not "), right,
        F.lit(", which is what follows from its clock before"), heard,
    )  # fmt: skip
    text = F.when(F.col("first.fault.component") == F.col("first.process"), own).otherwise(other)
    row = result(
        "clock",
        F.col("n"),
        F.array(F.col("first.message")),
        F.array(F.col("first.process"), F.col("first.fault.component")),
        text=text,
    )
    return counted.select("run", F.inline(F.array(row)))
