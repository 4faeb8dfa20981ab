# SPDX-License-Identifier: Apache-2.0
"""Where ranks prove nothing: islands, the stretches of ranks of a huge run in which a cycle can be.

The examples are about the `events` of `busq.spark.checks`, ranked by the times of sends: 1 before 2.

>>> ranks = ranked(events, "time", processes=2)
>>> steps = stepped(ranks)
>>> land = islands(dirty(steps, "total"), width=1000)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from busq.audit.result import signed
from busq.audit.spark.large_run.checks import BLOCK, RESULTS, before, is_delivery, is_send, sender_of
from busq.lab.observers import History

__all__ = ["ISLANDS", "dirty", "extend", "islands", "judged", "ranked", "restamped", "results_of", "stepped", "within"]

STRETCHES_MAX = 1_000_000  # rows that are sent to all executors

ISLANDS = T.StructType(
    [
        T.StructField("run", T.StringType()),
        T.StructField("low", T.LongType()),
        T.StructField("high", T.LongType()),
    ]
)


def restamped(events: DataFrame) -> DataFrame:
    """Count, by run, the messages that bear different stamps in different places, or none in some (run, count).

    Cost: a shuffle of all events.

    >>> restamped(events).select("count").collect()  # none has any
    [Row(count=2)]
    """
    stamps = (
        events.where(is_send() | is_delivery())
        .groupBy("run", "message")
        .agg(
            F.min("stamp").alias("low"),
            F.max("stamp").alias("high"),
            F.count(F.lit(1)).alias("n"),
            F.count("stamp").alias("k"),
        )
    )
    wrong = stamps.where((F.col("n") != F.col("k")) | (F.col("low") != F.col("high")))
    return wrong.groupBy("run").agg(F.count(F.lit(1)).alias("count"))


def ranked(events: DataFrame, by: str, *, processes: int) -> DataFrame:
    """Give every event of a message the message's rank: a guess at its place in one order of all.

    `by`: "stamp", where every row has its message's; "stamp of send", where they may differ; "time", when its send was
    called; "position", how far its sender was in its log by then.  All but the first cost a join.
    Any rank is allowed: a bad one makes large islands, and no wrong
    verdict, as long as all events of a message have the same.

    >>> ranked(events, "time", processes=2).select("message", "rank").distinct().orderBy("rank").collect()
    [Row(message=1, rank=20000), Row(message=2, rank=40000)]
    """
    both = events.where(is_send() | is_delivery())
    sender = F.shiftright(F.col("message"), 32)
    if by == "stamp":
        return both.withColumn("rank", F.col("stamp") * processes + F.pmod(sender, F.lit(processes)))
    if by in ("time", "stamp of send"):
        place = F.col("time_ns" if by == "time" else "stamp")
    else:
        last = both.groupBy("run", "process").agg((F.max("position") + 1).alias("end"))
        both = both.join(F.broadcast(last), on=["run", "process"], how="left")
        # Its share of its sender's log, as a whole number.
        place = F.floor(F.col("position") * float(1 << 40) / F.col("end"))
    known = both.withColumn("place", place)
    of_send = F.min(F.when(is_send(), F.col("place")))
    guess = F.coalesce(of_send, F.min("place"), F.lit(0)) * processes + F.pmod(F.first(sender), F.lit(processes))
    ranks = known.groupBy("run", "message").agg(guess.alias("rank"))
    return both.join(ranks, on=["run", "message"], how="inner").select(*events.columns, "rank")


# By property: the earlier events of its process that a delivery, and a send, is compared with.
_EDGES = {
    "total": (("delivered",), ()),
    "causal": (("delivered",), ("delivered", "sent")),
    "synchronous": (("delivered", "sent"), ("delivered", "sent")),
}


def _bound(names: Sequence[str]) -> Column:
    columns = [F.col(f"{name}_before") for name in names]
    return F.greatest(*columns) if len(columns) > 1 else columns[0] if columns else F.lit(None).cast("long")


def stepped(events: DataFrame, *, block: int = BLOCK) -> DataFrame:
    """Add to `ranked` events how high the ranks at their process were before, where that makes them dirty.

    Columns: total_bound, causal_bound, synchronous_bound, null where the event is not dirty.

    An event is dirty for a property if an event before it at its process, that it is compared with, ranks higher.
    Where none is dirty for "total", the ranks are an order in which all processes delivered; none for "causal": they
    are one that causality follows; none for "synchronous": one in which every message could have been delivered as it
    was sent.

    Cost: that of `busq.spark.checks.before`.

    >>> found = stepped(ranks).where("total_bound is not null")
    >>> found.select("process", "message", "rank", "total_bound").collect()
    [Row(process=1, message=1, rank=20000, total_bound=40000)]
    """
    rank = F.col("rank")
    values = {
        "delivered": F.when(is_delivery(), rank),
        "sent": F.when(is_send(), rank),
    }
    running = before(events, values, block=block)
    own = is_delivery() & (sender_of() == F.col("process")) & (rank == F.col("sent_before"))
    for name, (of_delivery, of_send) in _EDGES.items():
        bound = F.when(is_delivery(), _bound(of_delivery)).otherwise(_bound(of_send))
        is_dirty = F.coalesce(rank <= bound, F.lit(False))
        if name == "synchronous":
            is_dirty &= ~(F.coalesce(own, F.lit(False)) & (rank == bound))
        running = running.withColumn(f"{name}_bound", F.when(is_dirty, bound))
    return running.drop("delivered_before", "sent_before")


def dirty(steps: DataFrame, edges: str) -> DataFrame:
    """Give the ISLANDS (not merged) that a property's dirty events span: from their rank to the highest before.

    `edges`: "total", "causal" or "synchronous".

    >>> dirty(steps, "total").select("low", "high").collect()
    [Row(low=20000, high=40000)]
    """
    bound = F.col(f"{edges}_bound")
    spans = steps.where(bound.isNotNull()).groupBy("run", bound.alias("high")).agg(F.min("rank").alias("low"))
    return spans.select("run", "low", "high")


def islands(spans: DataFrame, *, width: int) -> DataFrame:
    """Merge what overlaps: gaps and islands, first within stretches of `width`, then of what that leaves.

    >>> spans = spark.createDataFrame([("", 1, 5), ("", 3, 8), ("", 20, 30)], ISLANDS)
    >>> islands(spans, width=10).orderBy("low").select("low", "high").collect()
    [Row(low=1, high=8), Row(low=20, high=30)]
    """
    if width < 1:
        raise ValueError(f"width {width}: expected a number of ranks, from 1 on")
    stretches = spans.withColumn("stretch", F.floor(F.col("low") / width))
    return _merged(_merged(stretches, ("run", "stretch")), ("run",)).select("run", "low", "high")


def _merged(spans: DataFrame, by: Sequence[str]) -> DataFrame:
    in_order = Window.partitionBy(*by).orderBy("low", "high")
    reach = F.max("high").over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    begins = spans.withColumn("begins", F.coalesce(F.col("low") > reach, F.lit(True)).cast("int"))
    number = F.sum("begins").over(in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    grouped = begins.withColumn("island", number).groupBy(*by, "island")
    return grouped.agg(F.min("low").alias("low"), F.max("high").alias("high")).drop("island")


def within(events: DataFrame, land: DataFrame, *, width: int) -> DataFrame:
    """Keep the `ranked` events that lie on `islands`: all that can be on a cycle.

    Why that is enough: every step that a cycle takes from a higher rank to a lower one lies on one island, and a cycle
    crosses each rank between its lowest and its highest on some such step; so all of it lies on one.

    Errors: ValueError for a width below 1, or one of which the islands take more than STRETCHES_MAX.

    >>> within(ranks, land, width=1000).count()
    4
    """
    count = land.agg(F.sum(F.floor(F.col("high") / width) - F.floor(F.col("low") / width) + 1)).collect()[0][0] or 0
    if count > STRETCHES_MAX:
        least = -(-width * count // STRETCHES_MAX)
        raise ValueError(
            f"width {width}: the islands lie in {count:,} stretches of it: expected at most {STRETCHES_MAX:,}; take a "
            f"width of {least} or more"
        )
    first, last = F.floor(F.col("low") / width), F.floor(F.col("high") / width)
    stretches = land.select("run", "low", "high", F.explode(F.sequence(first, last)).alias("stretch"))
    keyed = events.withColumn("stretch", F.floor(F.col("rank") / width))
    joined = keyed.join(F.broadcast(stretches), on=["run", "stretch"], how="inner")
    return joined.where(F.col("rank").between(F.col("low"), F.col("high"))).select(*events.columns)


# ---- the exact observers ----


def judged(events: DataFrame, properties: Sequence[str], *, names: Sequence[str] | int) -> DataFrame:
    """Judge runs by the observers of `busq.spec`: RESULTS, a row for each property of each run.

    `names`: what the texts call the processes, of all runs, or how many there are.  Cost: a shuffle by run, and for
    each run the memory of its History, in the worker of one task.

    >>> found = judged(within(ranks, land, width=1000), ["fifo"], names=["ann", "bob"])
    >>> found.select("check", "count", "messages").collect()
    [Row(check='fifo', count=1, messages=[1, 2])]
    """
    columns = ["run", "process", "position", "kind", "message", "destinations"]
    logs = events.where(is_send() | is_delivery()).select(*columns)
    known = names if isinstance(names, int) else tuple(names)
    in_order = logs.repartition("run").sortWithinPartitions("run", "process", "position").drop("position")
    return in_order.mapInArrow(partial(_judge_batches, properties=tuple(properties), names=known), RESULTS)


def _judge_batches(
    batches: Iterator[pa.RecordBatch], properties: tuple[str, ...], names: tuple[str, ...] | int
) -> Iterator[pa.RecordBatch]:
    run, history = None, None
    for batch in batches:
        for piece in _by_run(batch):
            if history is None or piece["run"][0].as_py() != run:
                if history is not None:
                    yield results_of(run, history, properties)
                run, history = piece["run"][0].as_py(), History(names)
            extend(history, piece)
    if history is not None:
        yield results_of(run, history, properties)


def _by_run(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    codes = batch.column("run").dictionary_encode().indices.to_numpy(zero_copy_only=False)
    yield from _split(batch, codes)


def _split(batch: pa.RecordBatch, codes: np.ndarray) -> Iterator[pa.RecordBatch]:
    cuts = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
    for start, end in pairwise(cuts):
        if end > start:
            yield batch.slice(start, end - start)


def extend(history: History, batch: pa.RecordBatch) -> None:
    """Append sends and deliveries, sorted by process and position, to a history."""
    for piece in _split(batch, batch.column("process").to_numpy(zero_copy_only=False)):
        kinds = piece.column("kind").to_numpy(zero_copy_only=False).astype(np.uint8)
        messages = piece.column("message").to_numpy(zero_copy_only=False).view(np.uint64)
        targets = piece.column("destinations").filter(pa.array(kinds == 1))
        counts = np.nan_to_num(targets.value_lengths().to_numpy(zero_copy_only=False)).astype(np.uint32)
        flat = targets.flatten().to_numpy(zero_copy_only=False).astype(np.uint32)
        history.extend(piece.column("process")[0].as_py(), kinds, messages, counts, flat)


def results_of(run: str | None, history: History, properties: Sequence[str]) -> pa.RecordBatch:
    """Judge a history: a batch of RESULTS.  Processes are indices."""
    index = {name: i for i, name in enumerate(history.processes)}
    rows = []
    for name, verdict in history.judge(properties).items():
        w = verdict.witness
        rows.append(
            {
                "run": run,
                "check": name,
                "count": verdict.count,
                "messages": [signed(m) for m in w.messages] if w else None,
                "processes": [index[p] for p in w.processes] if w else None,
                "steps": [{"message": signed(m), "process": index[p]} for m, p in w.steps] if w else None,
                "kinds": list(w.kinds) if w else None,
                "steps_left_out": w.steps_left_out if w else None,
                "messages_left_out": w.messages_left_out if w else None,
                "text": verdict.text,
            }
        )
    return pa.RecordBatch.from_pylist(rows, schema=_RESULTS_ARROW)


_RESULTS_ARROW = pa.schema(
    [
        ("run", pa.string()),
        ("check", pa.string()),
        ("count", pa.int64()),
        ("messages", pa.list_(pa.int64())),
        ("processes", pa.list_(pa.int32())),
        ("steps", pa.list_(pa.struct([("message", pa.int64()), ("process", pa.int32())]))),
        ("kinds", pa.list_(pa.string())),
        ("steps_left_out", pa.int64()),
        ("messages_left_out", pa.int64()),
        ("text", pa.string()),
        ("time_ns", pa.int64()),
    ]
)
