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

    Cost: two passes, and a join with the rows of unknown kinds.
    """
    kind, pair = F.col("kind"), ["process", "message"]
    is_vague = (kind == UNKNOWN_KIND) & F.col("message").isNotNull()
    these = events.where(is_vague).select(*pair).distinct()
    sends = events.where(kind == int(Kind.SEND))
    came = events.where(kind.isin(int(Kind.DELIVER), int(Kind.REDELIVER))).select(*pair)
    sent = sends.select("message", F.explode("destinations").alias("process"))
    lost = these.join(sent, pair, "left_semi").join(came, pair, "left_anti").count()
    named = these.select("message").distinct()
    invented = named.join(came, "message", "left_semi").join(sends, "message", "left_anti").count()
    if not lost and not invented:
        return events, []
    # A pass of what came as well, or was not for the process, means nothing.
    as_passes = events.withColumn("kind", F.when(is_vague, int(Kind.PASS)).otherwise(kind).cast("tinyint"))
    return as_passes if lost else events, [vague_rows(path, lost, invented)]
