# SPDX-License-Identifier: Apache-2.0
"""Messages that are doubtful, and a run without them: sent more than once, named by rows of unknown kinds, or tied.

>>> from busq.audit.spark.large_run.checks import renamed
>>> from busq.spark.load import conformed
>>> columns = "process int, position long, kind string, message long, destinations array<int>"
>>> rows = [(0, 1, "send", 1, [1]), (0, 2, "send", 2, [1]), (0, 3, "send", 2, [1]), (1, 1, "deliver", 2, None)]
>>> events = conformed(spark.createDataFrame(rows, columns))
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from busq.audit.spark.large_run.checks import is_delivery, is_send
from busq.trace.schema import Kind
from busq.trace.tables import UNKNOWN_KIND

__all__ = ["named_messages", "resent_messages", "tied_messages", "without_messages"]


def resent_messages(events: DataFrame) -> DataFrame:
    """Return the messages that were sent more than once, also where `renamed` has left them one send.

    Cost: a shuffle of the sends.

    >>> resent_messages(events).collect()
    [Row(message=2)]
    >>> resent_messages(renamed(events, low=0)).count()
    1
    """
    is_one = is_send()
    if "name" in events.columns:
        is_one |= (F.col("kind") == int(Kind.LOCAL)) & F.col("destinations").isNotNull()
    sends = events.where(is_one).groupBy("message").agg(F.count(F.lit(1)).alias("times"))
    return sends.where("times > 1 and message is not null").select("message")


def named_messages(events: DataFrame) -> DataFrame:
    """Return the messages that were sent or delivered, and that rows of unknown kinds may name.

    >>> taken = events.where("kind = 0").withColumn("kind", F.lit(int(Kind.LOCAL)))
    >>> named_messages(events.union(taken)).collect()
    [Row(message=2)]
    """
    name = "name" if "name" in events.columns else "message"
    others = events.where(F.col("kind").isin(UNKNOWN_KIND, int(Kind.LOCAL), int(Kind.PASS))).select(name)
    return events.where(is_send() | is_delivery()).join(others, name, "left_semi").select("message").distinct()


def tied_messages(events: DataFrame, placed: DataFrame) -> DataFrame:
    """Return the messages of events that stand at a position with other events of their process.

    `placed`: the events at their own positions, also where `renamed` has given `events` others.
    Cost: two shuffles of the events.

    >>> both = events.withColumn("position", F.greatest("position", F.lit(2)))
    >>> sorted(row.message for row in tied_messages(events, both).collect())
    [1, 2]
    """
    place = ["process", "position"]
    shared = placed.groupBy(*place).agg(F.count(F.lit(1)).alias("rows")).where("rows > 1")
    names = placed.join(shared, place, "left_semi").where("message is not null").select("message").distinct()
    if "name" not in events.columns:
        return names
    return events.join(names.toDF("name"), "name", "left_semi").select("message").distinct()


def without_messages(events: DataFrame, messages: DataFrame) -> DataFrame:
    """Make local events, which keep their places, of the sends and deliveries of some messages.

    >>> rest = without_messages(events, resent_messages(events)).where("message is not null")
    >>> rest.select("kind", "message").collect()
    [Row(kind=1, message=1)]
    """
    marked = messages.withColumn("is_left_out", F.lit(True))
    known = events.join(F.broadcast(marked), on="message", how="left")
    is_left_out = F.coalesce("is_left_out", F.lit(False)) & (is_send() | is_delivery())
    columns = {
        "kind": F.when(is_left_out, int(Kind.LOCAL)).otherwise(F.col("kind")).cast("byte"),
        "message": F.when(~is_left_out, F.col("message")),
    }
    return known.withColumns(columns).select(*events.columns)
