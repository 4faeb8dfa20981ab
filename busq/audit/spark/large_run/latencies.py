# SPDX-License-Identifier: Apache-2.0
"""Reads the times of a huge run: side channels, and how long messages took.

The examples are about the `events` of `busq.spark.checks`: messages 1 and 2 are sent at 10 and 20 us; 2 is delivered at
30 us and 1 at 45 us.

>>> from busq.spark.checks import first_deliveries
>>> firsts = first_deliveries(events)
"""

from __future__ import annotations

from functools import partial

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from busq.audit.spark.large_run.checks import BLOCK, before, is_delivery, is_send, late_results
from busq.trace.schema import Kind

__all__ = ["durations", "lacking", "side", "timed", "waits"]

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
ACCURACY = 1000  # quantiles are off by a thousandth of the ranks, at most


def timed(firsts: DataFrame) -> DataFrame:
    """Add to each first delivery when its message's send was called, decided, and known to have happened.

    Columns: run, process, position, message, is_phantom, time_ns; is_sent, start_ns, commit_ns, end_ns, known_ns,
    fan_out.  A message is known to be sent when its send has returned, or when a process has delivered it.  Cost: one
    shuffle of all events.

    >>> found = timed(firsts).orderBy("position")
    >>> found.select("message", "start_ns", "known_ns").collect()
    [Row(message=2, start_ns=20000, known_ns=21000), Row(message=1, start_ns=10000, known_ns=11000)]
    """
    all_of = Window.partitionBy("run", "message").rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    known_ns = F.when(is_send(), F.col("end_ns")).otherwise(F.col("time_ns"))
    fan_out = F.coalesce(F.size(F.array_distinct("destinations")), F.lit(0))  # a send may have no destinations
    facts = {
        "is_sent": F.max(is_send()).over(all_of),
        "end_ns": F.min(F.when(is_send(), F.col("end_ns"))).over(all_of),
        "start_ns": F.min(F.when(is_send(), F.col("time_ns"))).over(all_of),
        "commit_ns": F.min(F.when(is_send(), F.col("commit_ns"))).over(all_of),
        "known_ns": F.min(known_ns).over(all_of),
        "fan_out": F.max(F.when(is_send(), fan_out)).over(all_of),
    }
    chosen = firsts.where(is_send() | is_delivery()).select(
        "run",
        "process",
        "position",
        "message",
        "is_phantom",
        "kind",
        "time_ns",
        *(column.alias(name) for name, column in facts.items()),
    )
    return chosen.where(is_delivery()).drop("kind")


def lacking(deliveries: DataFrame) -> DataFrame:
    """Return the deliveries, of what `timed` gave, of which a time that could matter to `side` is not known.

    >>> lacking(timed(firsts)).count()
    0
    """
    unknown = F.col("start_ns").isNull() | F.col("end_ns").isNull() | F.col("time_ns").isNull()
    return deliveries.where(F.col("is_sent") & unknown)


def side(deliveries: DataFrame, *, block: int = BLOCK) -> DataFrame:
    """Count the deliveries that come after a message whose send was called when theirs was known to be sent: RESULTS.

    `deliveries`: what `timed` gave.  Per receiver, a running maximum of the start of sends.  Cost: that of
    `busq.spark.checks.before`.

    >>> side(timed(firsts)).select("check", "count", "messages", "time_ns").collect()
    [Row(check='side', count=1, messages=[1], time_ns=20000)]
    """
    running = before(deliveries, {"start": F.col("start_ns")}, block=block)
    is_sent_here = ~F.col("is_phantom") & F.col("start_ns").isNotNull()
    late = running.where((F.col("start_before") > F.col("known_ns")) & is_sent_here)
    return late.transform(partial(late_results, name="side", other="start_before"))


def _us(since: str) -> Column:
    took = F.col("time_ns") - F.col(since)
    return F.when(took.isNotNull(), F.greatest(took, F.lit(0)) / 1e3)  # the greatest of null and 0 is 0


def durations(deliveries: DataFrame, since: str, by: str = "process") -> DataFrame:
    """Give quantiles, by receiver or "fan_out", of the microseconds since a send was called or decided.

    `since`: "start_ns" or "commit_ns".

    `deliveries`: what `timed` gave.  Columns: run, `by`, count, p50, p90, p99, max.  Cost: one aggregation.

    >>> durations(timed(firsts), "start_ns").select("process", "count", "p50", "max").collect()
    [Row(process=1, count=2, p50=10.0, max=35.0)]
    """
    took = _us(since)
    quantiles = F.percentile_approx(took, list(QUANTILES.values()), ACCURACY)
    grouped = deliveries.where(took.isNotNull()).groupBy("run", by)
    summary = grouped.agg(F.count(F.lit(1)).alias("count"), quantiles.alias("quantiles"), F.max(took).alias("max"))
    each = [F.round(F.col("quantiles")[i], 3).alias(name) for i, name in enumerate(QUANTILES)]
    return summary.select("run", by, "count", *each, F.round("max", 3).alias("max"))


def waits(events: DataFrame) -> DataFrame:
    """Count how often and how long (in ms) each process waited, to "send" or to "receive".

    Columns: run, process, to, count, total, longest.  Cost: one aggregation.

    >>> wait = events.where("message = 1 and kind = 1").withColumn("kind", F.lit(int(Kind.BLOCK)))
    >>> waits(wait).select("process", "to", "count", "total").collect()
    [Row(process=0, to='send', count=1, total=0.001)]
    """
    to = F.when(F.col("message").isNull(), "receive").otherwise("send").alias("to")
    took = (F.col("end_ns") - F.col("time_ns")) / 1e6
    chosen = events.where((F.col("kind") == int(Kind.BLOCK)) & took.isNotNull())
    return chosen.groupBy("run", "process", to).agg(
        F.count(F.lit(1)).alias("count"),
        F.round(F.sum(took), 6).alias("total"),
        F.round(F.max(took), 6).alias("longest"),
    )
