# SPDX-License-Identifier: Apache-2.0
"""Rows of unknown kinds, on Spark, by the rules of `busq.trace.vague_rows`."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from busq.trace.finding import Finding
from busq.trace.guesses import vague_rows
from busq.trace.schema import Kind
from busq.trace.tables import UNKNOWN_KIND

__all__ = ["passed"]


def passed(events: DataFrame, path: str) -> tuple[DataFrame, list[Finding]]:
    """Take rows that may be deliveries as passes, and return findings about them.

    Cost: two passes, and joins with the rows of unknown kinds.
    """
    kind, pair = F.col("kind"), ["process", "message"]
    is_vague = (kind == UNKNOWN_KIND) & F.col("message").isNotNull()
    these = events.where(is_vague).select(*pair, "destinations")
    named = these.select("message").distinct()
    sends = events.where(kind == int(Kind.SEND)).join(named, "message", "left_semi")
    came = events.where(kind.isin(int(Kind.DELIVER), int(Kind.REDELIVER))).join(named, "message", "left_semi")
    came = came.select(*pair)
    sent = sends.select(F.explode("destinations").alias("process"), "message")
    lost = these.join(sent, pair, "left_semi").join(came, pair, "left_anti").count()
    invented = these.join(came.join(sent, pair, "left_anti"), "message", "left_semi").count()
    settled = sent.union(came).union(sends.select(*pair))
    meant = these.withColumn("row", F.monotonically_increasing_id())
    meant = meant.select("row", "message", F.explode("destinations").alias("process"))
    alone = meant.join(settled, pair, "left_anti").select("row").distinct().count()
    if not lost and not invented and not alone:
        return events, []
    # A pass of what came as well, or was not for the process, means nothing.
    as_passes = events.withColumn("kind", F.when(is_vague, int(Kind.PASS)).otherwise(kind).cast("tinyint"))
    return as_passes if lost else events, [vague_rows(path, lost, invented, alone)]
