# SPDX-License-Identifier: Apache-2.0
"""The readers of shared queues in a large run: `busq.trace.queue_readers`, in relations."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from busq.audit.spark.large_run.checks import is_delivery, is_send
from busq.trace.schema import Kind

__all__ = ["resolved"]


def resolved(events: DataFrame, queues: Mapping[int, int]) -> DataFrame:
    """Return events in which every message for a shared queue has the reader that took it for its destination.

    `queues`: by process, as `busq.trace.queue_readers.queues_of` gives them.  Cost: a shuffle of what the readers
    took, and joins of all events with that.

    >>> columns = "process int, position long, kind int, message long, destinations array<int>"
    >>> rows = [(0, 0, 1, 1, [1]), (0, 1, 1, 2, [1]), (1, 0, 0, 2, None), (2, 0, 0, 1, None)]
    >>> found = resolved(spark.createDataFrame(rows, columns), {1: 1, 2: 1})
    >>> found.where("kind = 1").orderBy("position").select("destinations").collect()
    [Row(destinations=[2]), Row(destinations=[1])]
    """
    is_again = F.col("kind") == int(Kind.REDELIVER)
    got = events.where(is_delivery() | is_again).select("process", "position", "message", is_again.alias("is_again"))
    got = got.withColumn("queue", _of(queues)).where("queue is not null")
    place = F.struct("is_again", "process", "position")
    first = F.min(place).over(Window.partitionBy("queue", "message"))
    known = got.withColumn("first", first).withColumn("is_first", place == F.col("first"))
    settled = _with_moves(events, known)
    return _with_takers(settled, known.where("is_first"), events, queues)


def _of(queues: Mapping[int, int]) -> Column:
    by_process = F.create_map(*(F.lit(number) for pair in queues.items() for number in pair))
    return F.try_element_at(by_process, F.col("process"))


def _with_moves(events: DataFrame, known: DataFrame) -> DataFrame:
    """Let what counts where a message was taken first stand there, at the end, and not where it happened."""
    is_back = F.col("first.is_again")
    moves = ~F.col("is_first") & ~is_back & (F.col("process") != F.col("first.process"))
    new_kind = F.when(moves | (is_back & ~F.col("is_first")), int(Kind.LOCAL)).when(is_back, int(Kind.PASS))
    changes = known.select(
        "process", "position", new_kind.alias("new_kind"), F.when(moves, F.col("first.process")).alias("target")
    )
    changed = events.join(changes.where("new_kind is not null"), on=["process", "position"], how="left")
    kind = F.coalesce("new_kind", "kind").cast(events.schema["kind"].dataType)
    in_place = changed.withColumn("kind", kind).select(*events.columns)
    last = events.groupBy(F.col("process").alias("target")).agg(F.max("position").alias("last"))
    nth = F.row_number().over(Window.partitionBy("target").orderBy("process", "position"))
    copies = changed.where("target is not null").withColumn("nth", nth).join(F.broadcast(last), on="target")
    columns = {"process": F.col("target"), "position": F.col("last") + F.col("nth")}
    return in_place.unionByName(copies.withColumns(columns).select(*events.columns))


def _with_takers(events: DataFrame, firsts: DataFrame, before: DataFrame, queues: Mapping[int, int]) -> DataFrame:
    """Put the reader that took a message, or at which it is missing, in the place of the queue."""
    pair = F.struct("queue", "process")
    taken = firsts.groupBy("message").agg(F.map_from_entries(F.collect_list(pair)).alias("taken"))
    sender = F.shiftright("message", 32)
    latest = firsts.groupBy(sender.alias("sender"), "queue").agg(F.max_by("process", "message").alias("process"))
    by_sender = latest.groupBy("sender").agg(F.map_from_entries(F.collect_list(pair)).alias("latest"))
    torn = before.where(F.col("kind") == int(Kind.GAP)).withColumn("queue", _of(queues)).where("queue is not null")
    first_torn = {
        row["queue"]: row["torn"] for row in torn.groupBy("queue").agg(F.min("process").alias("torn")).collect()
    }
    known = events.withColumn("sender", sender).join(taken, on="message", how="left")
    known = known.join(F.broadcast(by_sender), on="sender", how="left")

    def receiver(to: Column) -> Column:
        found = [F.try_element_at("taken", to)]
        if first_torn:
            table = F.create_map(*(F.lit(number) for item in first_torn.items() for number in item))
            found.append(F.try_element_at(table, to))
        return F.coalesce(*found, F.try_element_at("latest", to), to)

    destinations = F.when(is_send(), F.transform("destinations", receiver)).otherwise(F.col("destinations"))
    return known.withColumn("destinations", destinations).select(*events.columns)
