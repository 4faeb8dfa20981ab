# SPDX-License-Identifier: Apache-2.0
"""Rows of unknown kinds, on Spark, by the rules of `busq.trace.vague_rows`."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from busq.trace.finding import Finding
from busq.trace.guesses import vague_rows
from busq.trace.schema import Kind
from busq.trace.tables import UNKNOWN_KIND

__all__ = ["passed"]


def passed(events: DataFrame, indices: Column, path: str, *, tells_senders: bool) -> tuple[DataFrame, list[Finding]]:
    """Take rows that may be deliveries as passes, and return findings about them.

    Such a row names a message that was sent to its process and did not come there: of the sender in the row, if there
    is one that sent it, of its own process if not; where the row has no sender, of the first.
    Parameters: `events`, with names of processes and messages; `indices` of the processes; `tells_senders`: deliveries
    do, and rows of unknown kinds get the sender of what they mean.
    Cost: two passes, and joins of the rows of unknown kinds with what is known of the messages that they name.
    """
    kind, pair = F.col("kind"), ["process", "message"]
    is_vague = F.coalesce(kind == UNKNOWN_KIND, F.lit(False)) & F.col("message").isNotNull()
    these = events.where(is_vague)
    owner = F.when(kind == int(Kind.SEND), F.col("process")).otherwise(F.col("sender"))
    about = events.select(*pair, "kind", "destinations", owner.alias("owner"))
    about = about.join(these.select("message").distinct(), "message", "left_semi")
    sends = about.where(kind == int(Kind.SEND)).select(*pair, "owner", "destinations")
    came = about.where(kind.isin(int(Kind.DELIVER), int(Kind.REDELIVER))).select(*pair, "owner")
    sent = sends.select(F.explode("destinations").alias("process"), "message", "owner")
    copy = [*pair, "owner"] if tells_senders else pair
    place = F.struct(F.col("owner") != F.col("process"), F.try_element_at(indices, F.col("owner")), "owner")
    found = {"owners": F.collect_set("owner"), "owner": F.min(place)["owner"]}
    open_ones = sent.join(came, copy, "left_anti").groupBy(*pair).agg(*(c.alias(name) for name, c in found.items()))
    unsent = came.join(sent, copy, "left_anti").groupBy("message")
    unsent = unsent.agg(F.min("owner").alias("unsent"), F.lit(True).alias("is_unsent"))
    by = sends.select(*pair, F.col("owner").alias("sender"))
    settled = sent.union(came).withColumn("owner", F.lit(None)).union(by).groupBy("message")
    settled = settled.agg(F.collect_set("process").alias("settled"), F.collect_set("owner").alias("senders"))
    known = these.join(open_ones, pair, "left").join(unsent, "message", "left").join(settled, "message", "left")
    is_told = F.array_contains("senders", F.col("sender"))
    whose = F.when(F.col("sender").isNull(), F.col("owner")).when(is_told, F.col("sender")).otherwise(F.col("process"))
    is_pass = F.coalesce(F.array_contains("owners", whose), F.lit(False))
    strange = F.array_except("destinations", F.coalesce("settled", F.array().cast("array<string>")))
    wanted = {"passed": is_pass, "invented": F.col("is_unsent"), "alone": F.size(strange) > 0}
    counts = known.agg(*(F.count(F.when(what, 1)).alias(name) for name, what in wanted.items())).collect()[0].asDict()
    if not any(counts.values()):
        return events, []
    meant = {
        "kind": F.when(is_pass, int(Kind.PASS)).otherwise(kind).cast("tinyint"),
        "sender": F.coalesce(F.when(is_pass, whose), "sender", "unsent"),
    }
    told = known.withColumns(meant).select(*events.columns)
    return events.where(~is_vague).unionByName(told), [vague_rows(path, **counts)]
